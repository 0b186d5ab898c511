// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The hub of a communicator collects what the ranks contribute, and answers each with its result.
// It is one thread. It may block in a send or receive: the thread of a rank that receives waits for
// nothing else, and a rank that has begun a message goes on to its end.
#include <arpa/inet.h>
<<<<<<< HEAD
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <deque>
#include <map>
#include <memory>
#include <random>

#include "wire.hpp"
=======
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <warpwright/core/detail/tensors/small_float.hpp>

#include "host_nccl.hpp"
>>>>>>> host_nccl

namespace warpwright::host_nccl {
namespace {

using bytes = std::shared_ptr<std::vector<std::byte>>;
<<<<<<< HEAD
=======
using call_key = std::tuple<int, int, std::uint64_t>;  // from, to and sequence of the frames
template <class T>
T same(T value) {
  return value;
}
template <class T>
float float_from_fp8(std::uint8_t bits) {
  return detail::float_from_half(
      static_cast<std::uint16_t>(detail::halves_from_fp8_pair<T>(bits) & 0xffffU));
}

template <class T>
T combine(ncclRedOp_t reduction, T a, T b) {
  // Of a NaN and a number, the number.
  if (reduction == ncclMax) return b > a || a != a ? b : a;
  if (reduction == ncclMin) return b < a || a != a ? b : a;
  if constexpr (std::is_integral_v<T>) {  // wraps, as on a GPU
    T result;
    reduction == ncclProd ? __builtin_mul_overflow(a, b, &result)
                          : __builtin_add_overflow(a, b, &result);
    return result;
  } else {
    return reduction == ncclProd ? a * b : a + b;
  }
}

// Elements are stored as T, and reduced in the type that `load` gives.
template <class T, auto load, auto store>
void reduce_as(ncclRedOp_t reduction, std::vector<std::byte const*> const& parts, std::size_t count,
               std::byte* result) {
  for (std::size_t i = 0; i < count; ++i) {
    auto const at = [&](std::byte const* a) { return load(reinterpret_cast<T const*>(a)[i]); };
    auto value = at(parts[0]);
    for (std::size_t r = 1; r < parts.size(); ++r) value = combine(reduction, value, at(parts[r]));
    using work = decltype(value);
    if (reduction == ncclAvg) value = static_cast<work>(value / static_cast<work>(parts.size()));
    reinterpret_cast<T*>(result)[i] = store(value);
  }
}

template <class T>
constexpr auto reduce_plain = reduce_as<T, same<T>, same<T>>;
template <class T>
constexpr auto reduce_fp8 =
    reduce_as<std::uint8_t, float_from_fp8<T>, detail::nearest_small_float<T>>;
>>>>>>> host_nccl

struct contribution {
  frame head;
  bytes payload;
};

<<<<<<< HEAD
// A rank, from its hello on.
struct member {
  frame hello;
  int socket = -1;  // -1: not here yet, or no more
  bool came = false, left = false, finalized = false;
=======
struct member {
  identity self;
  int socket;  // -1: gone
  bool left;
>>>>>>> host_nccl
};

struct link {
  int socket;
<<<<<<< HEAD
  int rank = -1;  // -1: it has not said hello, or was refused
};

std::string number(std::int64_t value) { return std::to_string(value); }
std::string describe(frame const& hello) {
  return "rank " + number(hello.rank) + " (process " + number(hello.process) + ", device " +
         number(hello.device) + ")";
=======
  int rank;  // -1: it has not said hello, or was refused
};

std::string describe(identity const& who) {
  return "rank " + to_string(who.rank) + " (process " + to_string(who.process) + ", device " +
         to_string(who.device) + ")";
>>>>>>> host_nccl
}

class hub {
 public:
<<<<<<< HEAD
  hub(int listener, std::uint64_t nonce) : listener_(listener), nonce_(nonce) {}
  ~hub() {
    for (link const& each : links_) close_socket(each.socket);
    close_socket(listener_);
  }

  std::uint64_t nonce() const { return nonce_; }
=======
  hub() : listener_(make_socket()) {
    address = {frame::valid, std::random_device{}(), {}};
    address.at.sin_family = AF_INET;
    address.at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* const at = reinterpret_cast<sockaddr*>(&address.at);
    socklen_t length = sizeof address.at;
    if (::bind(listener_, at, length) != 0 || ::listen(listener_, SOMAXCONN) != 0 ||
        ::getsockname(listener_, at, &length) != 0) {
      close_socket(listener_);
      throw failure{ncclSystemError, "cannot listen on 127.0.0.1; is the loopback interface up?"};
    }
  }
  ~hub() { close_socket(listener_); }
>>>>>>> host_nccl

  void run() {
    while (!began_ || !links_.empty()) {
      std::vector<pollfd> polled{{listener_, POLLIN, 0}};
      for (link const& each : links_) polled.push_back({each.socket, POLLIN, 0});
      if (::poll(polled.data(), polled.size(), -1) < 0) continue;
      for (std::size_t i = links_.size(); i-- > 0;) {
        if (polled[i + 1].revents == 0 || receive(links_[i])) continue;
<<<<<<< HEAD
        if (links_[i].rank >= 0) end(links_[i].rank);
        close_socket(links_[i].socket);
        links_.erase(links_.begin() + static_cast<std::ptrdiff_t>(i));
      }
      if (polled[0].revents != 0) accept();
    }
  }

 private:
  void accept() {
    int const socket = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (socket >= 0) {
      links_.push_back({own_socket(socket, "accept")});
      set_timeout(socket, 1);  // a stranger may say nothing
    } else if (errno != EAGAIN && errno != EINTR) {
      ::usleep(10000);  // too many descriptors, perhaps: the rank waits until there is one
    }
  }

  static void set_timeout(int socket, time_t seconds) {
    timeval const time{seconds, 0};
    ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
  }

  // Receives a message and acts on it. @return false to end the connection
  bool receive(link& from) {
    contribution got;
    if (!receive_all(from.socket, &got.head, sizeof(frame))) return false;
    frame const& head = got.head;
    if (head.magic != frame::valid) return false;
    if (from.rank < 0) {
      if (head.kind != message::hello || head.nonce != nonce_) return false;
      set_timeout(from.socket, 0);
      began_ = true;
      return greet(from, head);
    }
    got.payload = std::make_shared<std::vector<std::byte>>(head.bytes);
    if (!receive_all(from.socket, got.payload->data(), head.bytes)) return false;
    member& self = members_[static_cast<std::size_t>(from.rank)];
    if (head.kind == message::call) {
      head.call.what >= verb::send ? exchange(from.rank, got) : collect(from.rank, got);
    }
    self.finalized = self.finalized || head.kind == message::finalize;
    self.left = head.kind == message::leave;
    if (self.left) any_left_ = true;
    if (self.left || self.finalized) check_finalized();
    if (any_left_) check_left();
    return !self.left;
  }

  bool greet(link& from, frame const& hello) {
    auto const count = static_cast<std::size_t>(hello.nranks);
    std::string const who = describe(hello);
    if (members_.empty()) members_.resize(count);
    if (came_ == members_.size()) {
      // Not a failure of those that have come.
      tell(from.socket, {ncclInvalidUsage, who + " is too late: all " + number(hello.nranks) +
                                               " ranks of this ncclUniqueId have come; every "
                                               "communicator needs an id of its own"});
      return true;
    }
    if (members_.size() != count) {
      fail({ncclInvalidArgument, who + " says nranks " + number(hello.nranks) +
                                     ", others of this ncclUniqueId " +
                                     std::to_string(members_.size()) + "; all must say the same"});
    } else if (members_[static_cast<std::size_t>(hello.rank)].came) {
      fail({ncclInvalidUsage, who + " and " +
                                  describe(members_[static_cast<std::size_t>(hello.rank)].hello) +
                                  " have the same rank; give each its own, from 0 to nranks - 1"});
    }
    if (failure_.code != ncclSuccess) {
      tell(from.socket, failure_);
      return true;
    }
    from.rank = hello.rank;
    members_[static_cast<std::size_t>(hello.rank)] = {hello, from.socket, true};
    if (++came_ < count) return true;
    frame ready;
    ready.kind = message::ready;
    ready.process = ::getpid();
    for (member const& each : members_) {
      if (each.hello.process == ready.process && ready.rank < 0) ready.rank = each.hello.rank;
    }
    for (member const& each : members_) send_frame(each.socket, ready);
    return true;
  }

  static void tell(int socket, failure const& why) {
    frame head;
    head.kind = message::failure;
    head.code = why.code;
    head.bytes = why.text.size();
    send_frame(socket, head, why.text.data());
=======
        link const gone = links_[i];
        links_.erase(links_.begin() + static_cast<std::ptrdiff_t>(i));
        close_socket(gone.socket);
        if (gone.rank < 0) continue;
        member& self = members_[gone.rank];
        self.socket = -1;
        if (!self.left) fail({ncclRemoteError, describe(self.self) + " has died or aborted"});
      }
      if (polled[0].revents == 0) continue;
      int const socket = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      socket >= 0 ? links_.push_back({socket, -1}) : void(::usleep(10000));  // no descriptor left
    }
  }

  hub_address address{};

 private:
  bool complete() const { return members_.size() == static_cast<std::size_t>(ranks_); }
  // Receives a message and acts on it. @return false to end the connection
  bool receive(link& from) {
    contribution got;
    frame const& head = got.head;
    if (!receive_all(from.socket, &got.head, sizeof head)) return false;
    if (from.rank < 0) return greet(from, head);
    got.payload = std::make_shared<std::vector<std::byte>>(head.bytes);
    if (!receive_all(from.socket, got.payload->data(), head.bytes)) return false;
    members_[from.rank].left = head.kind == message::leave;
    if (head.kind == message::call) collect(from.rank, got);
    return head.kind == message::call;
  }

  bool greet(link& from, frame const& hello) {
    identity const& self = hello.self;
    if (hello.magic != frame::valid || self.nonce != address.nonce) return false;
    began_ = true;
    std::string const who = describe(self);
    if (members_.empty()) ranks_ = self.nranks;
    if (complete()) {  // not a failure of those that have come
      return tell(from.socket, {ncclInvalidUsage, who + " is too late: all ranks have come"});
    }
    if (self.nranks != ranks_) {
      fail({ncclInvalidArgument, who + " says nranks " + to_string(self.nranks) + ", others say " +
                                     to_string(ranks_) + "; all must say the same"});
    } else if (members_.count(self.rank) > 0) {
      std::string const other = describe(members_[self.rank].self);
      fail({ncclInvalidUsage, who + " and " + other + " have one rank; give each its own"});
    }
    if (failure_.code != ncclSuccess) return tell(from.socket, failure_);
    from.rank = self.rank;
    members_[self.rank] = {self, from.socket, false};
    if (!complete()) return true;
    frame ready(message::ready);
    ready.self = {0, -1, ranks_, 0, ::getpid()};
    for (auto const& [rank, each] : members_) {
      if (each.self.process == ::getpid()) ready.self.rank = rank;
    }
    for (auto const& [rank, each] : members_) send_frame(each.socket, ready);
    return true;
  }

  static bool tell(int socket, failure const& why) {
    frame head(message::failure, why.text.size());
    head.code = why.code;
    return send_frame(socket, head, why.text.data());
>>>>>>> host_nccl
  }

  // The first failure is that of the communicator.
  void fail(failure const& why) {
    if (failure_.code != ncclSuccess) return;
    failure_ = why;
<<<<<<< HEAD
    for (member const& each : members_) {
=======
    for (auto const& [rank, each] : members_) {
>>>>>>> host_nccl
      if (each.socket >= 0) tell(each.socket, why);
    }
  }

<<<<<<< HEAD
  void end(int rank) {
    member& self = members_[static_cast<std::size_t>(rank)];
    self.socket = -1;
    if (self.left) return;
    char const* const when = came_ < members_.size() ? ", before all ranks had come" : "";
    fail({ncclRemoteError, describe(self.hello) + " has died or aborted its communicator" + when});
  }

  void check_finalized() {
    for (member const& each : members_) {
      if (!each.finalized && !each.left) return;
    }
    frame head;
    head.kind = message::finalize;
    for (member const& each : members_) {
      if (!each.left) send_frame(each.socket, head);
    }
  }

  // A rank that has left by ncclCommDestroy will not do what others wait for.
  void check_left() {
    auto const check = [this](int absent, int waiting, call_description const& call) {
      if (!members_[static_cast<std::size_t>(absent)].left) return;
      fail({ncclRemoteError, "rank " + number(absent) +
                                 " has destroyed its communicator, and rank " + number(waiting) +
                                 " waits for it in " + to_text(call)});
    };
    for (auto const& entry : collectives_) {
      for (int rank = 0; rank < static_cast<int>(members_.size()); ++rank) {
        if (entry.second.count(rank) > 0 || entry.second.empty()) continue;
        check(rank, entry.second.begin()->first, entry.second.begin()->second.head.call);
      }
    }
    for (auto const& [way, queue] : exchanges_) {
      if (queue.empty()) continue;
      auto const& [sends, from, to] = way;
      check(sends ? to : from, sends ? from : to, queue.front().head.call);
    }
  }

  void answer(int rank, frame const& call, bytes const& payload = nullptr, std::size_t offset = 0,
              std::size_t length = 0) {
    frame head;
    head.kind = message::result;
    head.number = call.number;
    head.bytes = length;
    int const socket = members_[static_cast<std::size_t>(rank)].socket;
    if (socket >= 0) send_frame(socket, head, length > 0 ? payload->data() + offset : nullptr);
=======
  // Adds a rank's part of a collective, or of a send and its receive; the last completes it.
  void collect(int rank, contribution const& got) {
    call_description const& call = got.head.call;
    call_key const key{got.head.from, got.head.to, got.head.sequence};
    auto& parts = calls_[key];
    bool const pair = call.what >= verb::send;
    if (!parts.empty()) {
      auto const& [first, part] = *parts.begin();
      call_description const& other = part.head.call;
      bool const same =
          call.what == other.what && call.reduction == other.reduction && call.root == other.root;
      if (call.type != other.type || call.count != other.count || !(pair || same)) {
        return mismatch(rank, got.head, first.first, part.head);
      }
    }
    parts[{rank, call.what == verb::recv}] = got;
    if (parts.size() < (pair ? 2 : members_.size())) return;
    bytes result = parts[{pair ? got.head.from : call.root, false}].payload;
    if (call.what == verb::all_gather) {
      result = std::make_shared<std::vector<std::byte>>();
      for (auto const& [each, part] : parts) {
        result->insert(result->end(), part.payload->begin(), part.payload->end());
      }
    } else if (call.what <= verb::reduce_scatter) {
      std::vector<std::byte const*> arrays;
      for (auto const& [each, part] : parts) arrays.push_back(part.payload->data());
      result = std::make_shared<std::vector<std::byte>>(result->size());
      std::size_t const count = result->size() / types[call.type].size;
      types[call.type].reduce(call.reduction, arrays, count, result->data());
    }
    bool const scatter = call.what == verb::reduce_scatter;
    std::size_t const length = result->size() / (scatter ? parts.size() : 1);
    std::byte const* begin = result->data();
    for (auto const& [each, part] : parts) {
      bool const gets = pair ? each.second : call.what != verb::reduce || each.first == call.root;
      frame answer(message::result, gets ? length : 0);
      answer.number = part.head.number;
      int const socket = members_[each.first].socket;
      if (socket >= 0) send_frame(socket, answer, begin);
      if (scatter) begin += length;
    }
    calls_.erase(key);
>>>>>>> host_nccl
  }

  void mismatch(int rank, frame const& call, int other_rank, frame const& other) {
    if (rank < other_rank) return mismatch(other_rank, other, rank, call);
<<<<<<< HEAD
    std::string const place = call.sequence > 0 ? "#" + std::to_string(call.sequence) + ' ' : "";
    fail({ncclInvalidUsage, "calls that do not fit: rank " + number(rank) + ": " + place +
                                to_text(call.call) + "; rank " + number(other_rank) + ": " +
                                to_text(other.call)});
  }

  // Matches the sends and receives of a pair of ranks, in the order of each.
  void exchange(int rank, contribution const& got) {
    bool const is_send = got.head.call.what == verb::send;
    int const from = is_send ? rank : got.head.call.root;
    int const to = is_send ? got.head.call.root : rank;
    exchanges_[{is_send, from, to}].push_back(got);
    auto& sends = exchanges_[{true, from, to}];
    auto& receives = exchanges_[{false, from, to}];
    if (sends.empty() || receives.empty()) return;
    frame const sent = sends.front().head;
    frame const received = receives.front().head;
    if (sent.call.count != received.call.count || sent.call.type != received.call.type) {
      mismatch(from, sent, to, received);
    } else {
      answer(from, sent);
      answer(to, received, sends.front().payload, 0, sent.bytes);
    }
    sends.pop_front();
    receives.pop_front();
  }

  void collect(int rank, contribution const& got) {
    auto& parts = collectives_[got.head.sequence];
    call_description const& call = got.head.call;
    if (!parts.empty()) {
      auto const& [first, part] = *parts.begin();
      call_description const& other = part.head.call;
      if (call.what != other.what || call.type != other.type || call.count != other.count ||
          call.reduction != other.reduction || call.root != other.root) {
        return mismatch(rank, got.head, first, part.head);
      }
    }
    parts[rank] = got;
    if (parts.size() < members_.size()) return;
    std::size_t const length = call.count * size_of(call.type);
    bool const scattered = call.what == verb::reduce_scatter;
    auto result = std::make_shared<std::vector<std::byte>>();
    if (call.what == verb::broadcast) {
      result = parts.at(call.root).payload;
    } else if (call.what == verb::all_gather) {
      for (auto const& [each, part] : parts) {
        result->insert(result->end(), part.payload->begin(), part.payload->end());
      }
    } else {
      std::vector<std::byte const*> arrays;
      for (auto const& [each, part] : parts) arrays.push_back(part.payload->data());
      result->resize(parts.at(0).payload->size());
      reduce(call, arrays, result->size() / size_of(call.type), result->data());
    }
    for (auto const& [each, part] : parts) {
      bool const nothing = call.what == verb::reduce && each != call.root;
      answer(each, part.head, result, scattered ? length * static_cast<std::size_t>(each) : 0,
             nothing     ? 0
             : scattered ? length
                         : result->size());
    }
    collectives_.erase(got.head.sequence);
  }

  int listener_;
  std::uint64_t nonce_;
  bool began_ = false, any_left_ = false;
  failure failure_{ncclSuccess, {}};
  std::vector<link> links_;
  std::vector<member> members_;  // by rank
  std::size_t came_ = 0;
  std::map<std::uint64_t, std::map<int, contribution>> collectives_;  // by sequence and rank
  // By whether they send, source and destination.
  std::map<std::tuple<bool, int, int>, std::deque<contribution>> exchanges_;
=======
    std::string const one = "rank " + to_string(rank) + ": #" + to_string(call.sequence) + ' ';
    std::string const two = "; rank " + to_string(other_rank) + ": " + to_text(other.call);
    fail({ncclInvalidUsage, "calls that do not fit: " + one + to_text(call.call) + two});
  }

  int const listener_;
  bool began_ = false;
  failure failure_;
  std::vector<link> links_;
  int ranks_ = 0;
  std::map<int, member> members_;  // that have come, by rank
  // The parts by rank and by whether they receive from a send.
  std::map<call_key, std::map<std::pair<int, bool>, contribution>> calls_;
>>>>>>> host_nccl
};

}  // namespace

<<<<<<< HEAD
hub_address start_hub() {
  int const listener =
      own_socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), "socket");
  std::random_device random;
  auto const shared = std::make_shared<hub>(listener, std::uint64_t{random()} << 32U | random());
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  socklen_t length = sizeof address;
  if (::bind(listener, generic, length) != 0 || ::listen(listener, SOMAXCONN) != 0 ||
      ::getsockname(listener, generic, &length) != 0) {
    throw failure{ncclSystemError, "cannot listen on 127.0.0.1: is the loopback interface up?"};
  }
  hub_address const result{frame::valid, address.sin_addr.s_addr, shared->nonce(),
                           address.sin_port};
  start_thread("ww-nccl-hub", [shared] {
    try {
      shared->run();
    } catch (std::exception const&) {  // no memory: the ranks see that their connections end
    } catch (failure const&) {
    }
  }).detach();
  return result;
=======
// clang-format off
type_facts const types[ncclNumTypes] = {
    {1, "int8", reduce_plain<std::int8_t>}, {1, "uint8", reduce_plain<std::uint8_t>},
    {4, "int32", reduce_plain<std::int32_t>}, {4, "uint32", reduce_plain<std::uint32_t>},
    {8, "int64", reduce_plain<std::int64_t>}, {8, "uint64", reduce_plain<std::uint64_t>},
    {2, "float16", reduce_as<std::uint16_t, detail::float_from_half, detail::half_from_float>},
    {4, "float32", reduce_plain<float>}, {8, "float64", reduce_plain<double>},
    {2, "bfloat16", reduce_as<std::uint16_t, detail::float_from_bfloat16, detail::bfloat16_from_float>},
    {1, "float8e4m3", reduce_fp8<__nv_fp8_e4m3>}, {1, "float8e5m2", reduce_fp8<__nv_fp8_e5m2>}};
verb_facts const verbs[] = {
    {"all_reduce", nullptr}, {"reduce", " to root "}, {"reduce_scatter", nullptr}, {"all_gather", nullptr},
    {"broadcast", " from root "}, {"finalize", nullptr}, {"send", " to rank "}, {"recv", " from rank "}};
// clang-format on

std::string to_text(call_description const& call) {
  static constexpr char const* reductions[] = {" sum", " prod", " max", " min", " avg"};
  verb_facts const& facts = verbs[static_cast<int>(call.what)];
  std::string const text =
      facts.name + (" of " + to_string(call.count)) + ' ' + types[call.type].name;
  std::string const root = facts.root != nullptr ? facts.root + to_string(call.root) : "";
  return text + (call.what <= verb::reduce_scatter ? reductions[call.reduction] : "") + root;
}

int make_socket() {
  int const low = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int const socket = ::fcntl(low, F_DUPFD_CLOEXEC, 3);  // a program may write to 0 to 2
  if (socket < 0) throw failure{ncclSystemError, std::string{"socket: "} + std::strerror(errno)};
  ::close(low);
  int const on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);  // accept() inherits it
  return socket;
}

void close_socket(int socket) noexcept {
  ::shutdown(socket, SHUT_RDWR);  // a child of fork() may have it open, too
  ::close(socket);
}

// Threads that wait in them have all signals blocked: a call moves all bytes.
bool send_frame(int socket, frame const& head, void const* payload) {
  int const more = head.bytes > 0 ? MSG_MORE : 0;
  auto const sent = TEMP_FAILURE_RETRY(::send(socket, &head, sizeof head, MSG_NOSIGNAL | more));
  if (sent != sizeof head || head.bytes == 0) return sent == sizeof head;
  return TEMP_FAILURE_RETRY(::send(socket, payload, head.bytes, MSG_NOSIGNAL)) ==
         ssize_t(head.bytes);
}

bool receive_all(int socket, void* data, std::size_t bytes) {
  if (bytes == 0) return true;
  return TEMP_FAILURE_RETRY(::recv(socket, data, bytes, MSG_WAITALL)) == ssize_t(bytes);
}

std::thread start_thread(char const* name, std::function<void()> body) {
  return std::thread([name, body = std::move(body)] {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);
    pthread_setname_np(pthread_self(), name);
    body();
  });
}

ncclUniqueId start_hub() {
  auto const shared = std::make_shared<hub>();
  start_thread("ww-nccl-hub", [shared] { shared->run(); }).detach();
  ncclUniqueId id{};
  std::memcpy(&id, &shared->address, sizeof shared->address);
  return id;
>>>>>>> host_nccl
}

}  // namespace warpwright::host_nccl
