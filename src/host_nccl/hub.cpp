// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The hub of a communicator collects what the ranks contribute, and answers each with its result.
// It is one thread. It may block in a send or receive: the thread of a rank that receives waits for
// nothing else, and a rank that has begun a message goes on to its end.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <warpwright/core/detail/tensors/small_float.hpp>

#include "host_nccl.hpp"

namespace warpwright::host_nccl {
namespace {

using bytes = std::shared_ptr<std::vector<std::byte>>;
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

struct contribution {
  frame head;
  bytes payload;
};

struct member {
  identity self;
  int socket;  // -1: gone
  bool left;
};

struct link {
  int socket;
  int rank;  // -1: it has not said hello, or was refused
};

std::string describe(identity const& who) {
  return "rank " + to_string(who.rank) + " (process " + to_string(who.process) + ", device " +
         to_string(who.device) + ")";
}

class hub {
 public:
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

  void run() {
    while (!began_ || !links_.empty()) {
      std::vector<pollfd> polled{{listener_, POLLIN, 0}};
      for (link const& each : links_) polled.push_back({each.socket, POLLIN, 0});
      if (::poll(polled.data(), polled.size(), -1) < 0) continue;
      for (std::size_t i = links_.size(); i-- > 0;) {
        if (polled[i + 1].revents == 0 || receive(links_[i])) continue;
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
  }

  // The first failure is that of the communicator.
  void fail(failure const& why) {
    if (failure_.code != ncclSuccess) return;
    failure_ = why;
    for (auto const& [rank, each] : members_) {
      if (each.socket >= 0) tell(each.socket, why);
    }
  }

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
  }

  void mismatch(int rank, frame const& call, int other_rank, frame const& other) {
    if (rank < other_rank) return mismatch(other_rank, other, rank, call);
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
};

}  // namespace

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
}

}  // namespace warpwright::host_nccl
