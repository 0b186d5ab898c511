// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The hub of a communicator collects what the ranks contribute, and answers each with its result.
// It is one thread. It may block in a send or receive: the thread of a rank that receives waits for
// nothing else, and a rank that has begun a message goes on to its end.
#include <arpa/inet.h>
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

namespace warpwright::host_nccl {
namespace {

using bytes = std::shared_ptr<std::vector<std::byte>>;

struct contribution {
  frame head;
  bytes payload;
};

// A rank, from its hello on.
struct member {
  frame hello;
  int socket = -1;  // -1: not here yet, or no more
  bool came = false, left = false, finalized = false;
};

struct link {
  int socket;
  int rank = -1;  // -1: it has not said hello, or was refused
};

std::string number(std::int64_t value) { return std::to_string(value); }
std::string describe(frame const& hello) {
  return "rank " + number(hello.rank) + " (process " + number(hello.process) + ", device " +
         number(hello.device) + ")";
}

class hub {
 public:
  hub(int listener, std::uint64_t nonce) : listener_(listener), nonce_(nonce) {}
  ~hub() {
    for (link const& each : links_) close_socket(each.socket);
    close_socket(listener_);
  }

  std::uint64_t nonce() const { return nonce_; }

  void run() {
    while (!began_ || !links_.empty()) {
      std::vector<pollfd> polled{{listener_, POLLIN, 0}};
      for (link const& each : links_) polled.push_back({each.socket, POLLIN, 0});
      if (::poll(polled.data(), polled.size(), -1) < 0) continue;
      for (std::size_t i = links_.size(); i-- > 0;) {
        if (polled[i + 1].revents == 0 || receive(links_[i])) continue;
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
  }

  // The first failure is that of the communicator.
  void fail(failure const& why) {
    if (failure_.code != ncclSuccess) return;
    failure_ = why;
    for (member const& each : members_) {
      if (each.socket >= 0) tell(each.socket, why);
    }
  }

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
  }

  void mismatch(int rank, frame const& call, int other_rank, frame const& other) {
    if (rank < other_rank) return mismatch(other_rank, other, rank, call);
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
};

}  // namespace

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
}

}  // namespace warpwright::host_nccl
