// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/scale/detail/rank_report.hpp>
#include <warpwright/scale/detail/rank_store.hpp>

#include <warpwright/core/detail/container/sort.hpp>

#include <cerrno>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

WARPWRIGHT_BEGIN_DEFINITIONS

namespace detail {

class store_server : noncopyable {
 public:
  WARPWRIGHT_COLD store_server(socket_handle&& listener, store_place const& place, double deadline,
                               source_location where)
      : listener_{static_cast<socket_handle&&>(listener)},
        ranks_{place.ranks},
        nonce_{nonce_of(place.nonce)},
        deadline_{deadline},
        deadline_ns_{static_cast<std::uint64_t>(deadline * 1e9)},
        join_until_{monotonic_after(deadline)} {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
      throw_communicator_error(text{"socketpair: "} + std::strerror(errno), where);
    }
    wake_ = socket_handle{ends[0]};
    wake_end_ = socket_handle{ends[1]};
    int const error = thread_.start<&store_server::run>(*this);
    if (error != 0) {
      throw_communicator_error(text{"the store's thread: "} + std::strerror(error), where);
    }
  }
  WARPWRIGHT_COLD ~store_server() {
    stop_.store(true, memory_order::release);
    static_cast<void>(::send(wake_.get(), "", 1, MSG_NOSIGNAL));
    thread_.join();
    std::uint64_t const until = monotonic_after(0.5);
    for (member* m : members_) static_cast<void>(::shutdown(m->socket.get(), SHUT_WR));
    for (member* m : members_) {
      if (m->socket.valid()) close_when_read(m->socket, until);
      delete m;
    }
  }

 private:
  struct member : rank_record {
    socket_handle socket;
    message_reader reader;
    array<char> out;
    bool known = false;     // has said who it is
    bool newcomer = false;  // waits for the next group
    bool refused = false;
    bool regroups = false;
    bool has_part = false;
    array<char> part;  // of the exchange under way: what for, a zero, bytes

    [[nodiscard]] bool waits() const noexcept { return known && !newcomer; }
  };

  WARPWRIGHT_COLD void run() noexcept {
    try {
      serve();
    } catch (...) {  // no memory: the connections end, and every rank says so
      for (member* m : members_) m->socket = socket_handle{};
      listener_ = socket_handle{};
    }
  }
  [[nodiscard]] bool idle() const noexcept {
    for (member const* m : members_) {
      bool const needs = m->lives() && !reported_;
      if (m->socket.valid() && (needs || !m->out.empty())) return false;
    }
    return report_at_ == 0;
  }
  WARPWRIGHT_COLD void serve() {
    array<pollfd> ready;
    std::uint64_t stop_until = 0;
    for (bool accepts = true;;) {
      std::uint64_t const now = monotonic_nanoseconds();
      if (stop_until != 0 && (idle() || now >= stop_until)) return;
      if (reported_ && stop_until > now + 2000 * ns_per_ms) {
        stop_until = now + 2000 * ns_per_ms;
      }
      // Others may still need it, to name a rank that they wait for.
      if (stop_.load(memory_order::acquire) && stop_until == 0) stop_until = now + deadline_ns_;
      ready.clear();
      ready.push_back({wake_end_.get(), static_cast<short>(stop_until == 0 ? POLLIN : 0), 0});
      ready.push_back({listener_.get(), static_cast<short>(accepts ? POLLIN : 0), 0});
      for (member const* m : members_) {
        short const events = m->out.empty() ? POLLIN : POLLIN | POLLOUT;
        ready.push_back({m->socket.get(), events, 0});
      }
      bool const soon = report_at_ != 0 || stop_until != 0;
      int const wait_ms = soon ? 10 : deadline_ < 1.0 ? 20 : 100;
      static_cast<void>(::poll(ready.begin(), ready.size(), wait_ms));
      std::size_t const count = members_.size();  // accept_all() adds others
      accepts = !accepts || ready[1].revents == 0 || accept_all();
      for (std::size_t i = 0; i < count; ++i) {
        if (members_[i]->socket.valid() && ready[i + 2].revents != 0) read(*members_[i]);
      }
      // Behind all reads: who has come and gone does not count.
      if (group_ == 0) form_first_group();
      check_times();
      for (std::size_t i = members_.size(); i-- > 0;) {
        member* const m = members_[i];
        if (m->socket.valid() || m->joined) continue;
        delete m;
        members_[i] = members_.back();
        members_.pop_back();
      }
    }
  }
  // @return false: the process has no descriptor left; its connections are tried again later
  [[nodiscard]] WARPWRIGHT_COLD bool accept_all() {
    for (;;) {
      socket_handle s{::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
      if (!s.valid()) return errno == EAGAIN || errno == EWOULDBLOCK;
      auto* const m = new member;
      m->socket = static_cast<socket_handle&&>(s);
      m->last_heard = monotonic_nanoseconds();
      members_.push_back(m);
    }
  }
  WARPWRIGHT_COLD void read(member& m) {
    bool const open = m.reader.fill(m.socket.get());
    message_header header{};
    char const* payload = nullptr;
    while (m.socket.valid() && m.reader.next(header, payload)) {
      if (!m.refused) handle(m, header, payload);
    }
    if (m.socket.valid() && (!open || m.reader.broken())) closed(m);
    flush(m);
  }

  void send(member& m, std::uint32_t kind, std::uint64_t value, void const* data,
            std::size_t bytes) {
    if (!m.socket.valid()) return;
    message_header const header{kind, static_cast<std::uint32_t>(bytes), value};
    std::size_t const at = m.out.size();
    m.out.resize(at + sizeof header + bytes);
    std::memcpy(m.out.begin() + at, &header, sizeof header);
    if (bytes != 0) std::memcpy(m.out.begin() + at + sizeof header, data, bytes);
    flush(m);
  }
  void send_all(std::uint32_t kind, std::uint64_t value, void const* data, std::size_t bytes) {
    for (member* m : members_) {
      if (m->joined) send(*m, kind, value, data, bytes);
    }
  }
  // Never blocks: a rank that is stopped reads nothing, and the others must hear of it.
  void flush(member& m) {
    std::size_t sent = 0;
    while (m.socket.valid() && sent < m.out.size()) {
      ssize_t const bytes = ::send(m.socket.get(), m.out.begin() + sent, m.out.size() - sent,
                                   MSG_NOSIGNAL | MSG_DONTWAIT);
      if (bytes < 0 && errno == EINTR) continue;
      if (bytes <= 0) break;  // full, or ended, which the next read finds
      sent += static_cast<std::size_t>(bytes);
    }
    m.out.remove_front(sent);
  }
  // Its connection ends when it has read why.
  WARPWRIGHT_COLD void refuse(member& m, text const& why, std::uint64_t how = 0) {
    send(m, message_kind::refused, how, why.c_str(), std::strlen(why.c_str()) + 1);
    static_cast<void>(::shutdown(m.socket.get(), SHUT_WR));
    m.known = m.newcomer = m.joined = false;
    m.refused = true;
    refusal_ = why;
    m.last_heard = monotonic_nanoseconds();
  }

  WARPWRIGHT_COLD void greet(member& m, hello_message const& hello) {
    int const rank = hello.process.rank;
    m.process = hello.process;
    m.process.host[sizeof m.process.host - 1] = 0;
    if (hello.version != store_version) {
      return refuse(m,
                    text{"the store of rank 0 has version "} + store_version + ", this rank " +
                        hello.version + ": build all ranks from the same warpwright",
                    for_good);
    }
    if (hello.nonce != nonce_) {
      return refuse(m, "the store there belongs to another run, with another nonce");
    }
    if (hello.joins == 0 && group_ != 0) {
      return refuse(m, text{"all "} + ranks_ + " ranks of the run have come already: rank " + rank +
                           " comes too late, or is of another run");
    }
    if (hello.joins == 0 && hello.ranks != ranks_) {
      return refuse(m,
                    text{"rank "} + rank + " expects " + hello.ranks +
                        " ranks, and rank 0 expects " + ranks_ + ": start all with the same number",
                    for_good);
    }
    if (hello.joins == 0 && !(hello.deadline == deadline_)) {
      return refuse(m,
                    text{"rank "} + rank + " has a deadline of " + hello.deadline +
                        " s, and rank 0 of " + deadline_ + " s: give all the same",
                    for_good);
    }
    for (member* other : members_) {
      if (hello.joins != 0 || other == &m || !other->waits() || other->process.rank != rank) {
        continue;
      }
      if (std::memcmp(&other->process, &m.process, sizeof m.process) != 0) {
        return refuse(m,
                      text{"rank "} + rank + " is there already (" + process_text(other->process) +
                          "): give each process a rank of its own",
                      for_good);
      }
      other->known = false;  // it has not waited for the answer, and comes again
      other->socket = socket_handle{};
    }
    m.known = true;
    m.newcomer = hello.joins != 0;
    send(m, message_kind::accepted, 0, nullptr, 0);
  }
  WARPWRIGHT_COLD void form_first_group() {
    int come = 0;
    for (member const* m : members_) come += m->waits() ? 1 : 0;
    if (come < ranks_) return;
    for (member* m : members_) m->joined = m->waits();
    send_group();
  }
  // The members in the order of their ranks, newcomers behind them.
  WARPWRIGHT_COLD void form_next_group() {
    for (member const* m : members_) {
      if (m->joined && m->socket.valid() && !m->ended && !m->regroups) return;
    }
    bool asked = false;
    for (member const* m : members_) asked = asked || (m->joined && m->regroups);
    if (!asked) return;
    ranks_ = 0;
    for (member* m : members_) {  // in the order of their ranks, since the last group
      bool const stays = m->joined && m->socket.valid() && m->regroups;
      if (m->joined && !stays) m->socket = socket_handle{};
      m->joined = stays || m->newcomer;
      if (m->joined) m->process.rank = ranks_++;
      m->newcomer = m->regroups = m->has_part = m->lost = m->ended = m->done = false;
      m->failure = "";
      m->state = rank_state{};
    }
    reported_ = hangs_ = false;
    report_at_ = exchange_ = 0;
    send_group();
  }
  WARPWRIGHT_COLD void send_group() {
    ++group_;
    sort(members_.begin(), members_.size(), [](member const* a, member const* b) {
      return a->joined != b->joined ? a->joined : a->process.rank < b->process.rank;
    });
    array<char> all;
    all.resize(sizeof(group_message) + static_cast<std::size_t>(ranks_) * sizeof(rank_process));
    char* at = all.begin() + sizeof(group_message);
    rank_process store = this_process(-1);
    for (member const* m : members_) {
      if (!m->joined) continue;
      bool const here =
          m->process.pid == store.pid && std::strcmp(m->process.host, store.host) == 0;
      if (here) store.rank = m->process.rank;
      std::memcpy(at, &m->process, sizeof m->process);
      at += sizeof m->process;
    }
    for (member* m : members_) {
      if (!m->joined) continue;
      group_message const group{group_, m->process.rank, ranks_, deadline_, store};
      std::memcpy(all.begin(), &group, sizeof group);
      send(*m, message_kind::group, group_, all.begin(), all.size());
    }
  }

  // The first to come to an exchange says what for; all must come for the same.
  WARPWRIGHT_COLD void finish_exchange() {
    for (member* m : members_) {
      if (m->joined && m->ended) m->lose("has ended, and the others wait for it");
      if (m->joined && m->lost) return begin_report("");
    }
    for (member const* m : members_) {
      if (m->joined && !m->has_part) return;
    }
    auto const joined = [](member const& m) { return m.joined; };
    member const* const usual = most_common(members_, joined, [](member const& a, member const& b) {
      return a.part.size() == b.part.size() && std::strcmp(a.part.begin(), b.part.begin()) == 0;
    });
    std::size_t const name_bytes = std::strlen(usual->part.begin()) + 1;
    std::size_t const bytes = usual->part.size() - name_bytes;
    array<char> all;
    for (member* m : members_) {
      if (!m->joined) continue;
      bool const same_name = std::strcmp(m->part.begin(), usual->part.begin()) == 0;
      if (!same_name || m->part.size() != usual->part.size()) {
        m->lose(text{"comes to "} + m->part.begin() + ", rank " + usual->process.rank + " to " +
                usual->part.begin() + (same_name ? " with another number of bytes" : "") +
                ": all ranks must call the same");
      }
      std::size_t const at = all.size();
      all.resize(at + bytes);
      if (!m->lost && bytes != 0) {
        std::memcpy(all.begin() + at, m->part.begin() + name_bytes, bytes);
      }
      m->has_part = false;
      if (m->lost) begin_report("");
    }
    if (report_at_ != 0) return;
    ++exchange_;
    send_all(message_kind::whole, exchange_, all.begin(), all.size());
  }

  WARPWRIGHT_COLD void handle(member& m, message_header const& header, char const* payload) {
    m.last_heard = monotonic_nanoseconds();
    if (!m.known) {
      hello_message hello;
      if (header.kind != message_kind::hello || header.bytes != sizeof hello) return closed(m);
      std::memcpy(&hello, payload, sizeof hello);
      return greet(m, hello);
    }
    bool const has_text = header.bytes != 0 && payload[header.bytes - 1] == 0;
    if (!m.joined && header.kind != message_kind::leave) return closed(m);
    if (header.kind == message_kind::part) {
      if (header.value != exchange_ + 1 || reported_) return;  // of a group that is lost
      if (std::memchr(payload, 0, header.bytes) == nullptr) return closed(m);
      m.part.clear();
      m.part.resize(header.bytes);
      std::memcpy(m.part.begin(), payload, header.bytes);
      m.has_part = true;
      finish_exchange();
    } else if (header.kind == message_kind::state) {
      if (header.bytes != sizeof m.state || header.value / 2 != group_) return;
      std::memcpy(&m.state, payload, sizeof m.state);
      m.answered = m.answered || header.value % 2 != 0;
      if (!reported_ && find_other_calls(members_, m)) begin_report("");
    } else if (header.kind == message_kind::fail) {
      failed(m, header.value, has_text ? payload : "has failed");
    } else if (header.kind == message_kind::leave && !has_text) {
      m.ended = true;
      m.state.called = m.state.completed = header.value;
      send_all(message_kind::left, header.value, &m.process.rank, sizeof m.process.rank);
      for (member const* other : members_) {
        if (other->joined && other->has_part) return finish_exchange();
      }
    } else if (header.kind == message_kind::leave) {
      failed(m, no_exchange, payload);
    } else if (header.kind == message_kind::done) {
      m.done = true;
    } else if (header.kind == message_kind::regroup) {
      m.regroups = true;
      form_next_group();
    }
  }
  WARPWRIGHT_COLD void failed(member& m, std::uint64_t in, text const& why) {
    if (in == regrouping) {
      if (!m.regroups) return;  // it is in the new group already
      for (member* other : members_) {
        if (!other->joined || other->regroups || other->ended) continue;
        refuse(*other,
               "the others have formed a new group without this rank, which had not called "
               "regroup() within their deadline");
      }
      return form_next_group();
    }
    if (in != no_exchange && in != hanging && in != exchange_ + 1) return;  // complete meanwhile
    if (in == hanging) hangs_ = true;
    if (in == no_exchange) m.lose(why);
    if (in == exchange_ + 1) {
      for (member* other : members_)
        other->lost = other->lost || (other->joined && !other->has_part);
    }
    begin_report(in == no_exchange ? text{""} : why);
  }
  WARPWRIGHT_COLD void closed(member& m) {
    m.socket = socket_handle{};
    m.out.clear();
    if (!m.joined) {
      m.known = m.newcomer = false;  // before all had come: another process may be this rank
    } else if (m.regroups || reported_) {
      form_next_group();
    } else if (!m.ended || !m.done) {
      m.lose(m.ended ? "is gone, before its collectives had completed" : "is gone");
      begin_report("");
    }
  }

  WARPWRIGHT_COLD void check_times() {
    std::uint64_t const now = monotonic_nanoseconds();
    if (group_ == 0 && now >= join_until_) {
      text const missing =
          text{"not all ranks have come within "} + deadline_ + " s: " + missing_text();
      for (member* m : members_) {
        if (m->known) refuse(*m, missing);
      }
    }
    if (report_at_ != 0) {
      bool all = true;
      for (member const* m : members_) all = all && (!m->lives() || m->answered);
      if (all || now >= report_at_) end_report();
    }
    if (now < next_beat_) return;
    next_beat_ = now + (deadline_ < 2.0 ? deadline_ns_ / 8 : 250 * ns_per_ms);
    std::uint64_t newcomers = 0;
    for (member const* m : members_) newcomers += m->newcomer ? 1U : 0U;
    for (member* m : members_) {
      // Who has not said who it is, or been refused, keeps no place for long.
      if (!m->known && now - m->last_heard > 2000 * ns_per_ms) m->socket = socket_handle{};
      // One beat is enough for who does not read.
      if (m->known && m->out.empty()) {
        text const missing = group_ == 0 ? missing_text() : text{""};
        send(*m, message_kind::beat, newcomers, missing.c_str(), std::strlen(missing.c_str()) + 1);
      }
      if (m->joined && !m->lost && !m->done && m->socket.valid() && !reported_ &&
          now - m->last_heard > deadline_ns_) {
        m->lose(text{"has not answered for "} + deadline_ + " s: stopped, or its host is gone");
        begin_report("");
      }
    }
  }
  [[nodiscard]] WARPWRIGHT_COLD text missing_text() const {
    array<int> missing;
    array<int> come;
    text hosts = "";
    for (int rank = 0; rank < ranks_; ++rank) {
      member const* found = nullptr;
      for (member const* m : members_) {
        if (m->waits() && m->process.rank == rank) found = m;
      }
      (found == nullptr ? missing : come).push_back(rank);
      if (found != nullptr && come.size() <= 4)
        hosts += text{come.size() == 1 ? ": " : ", "} + process_text(found->process);
    }
    return ranks_text(missing) + " missing; " + ranks_text(come) +
           (come.size() == 1 ? " has come" : " have come") + hosts +
           (refusal_.empty() ? text{""} : text{"; refused: "} + refusal_);
  }
  WARPWRIGHT_COLD void begin_report(text const& reason) {
    if (reported_ || report_at_ != 0) return;
    reason_ = reason;
    report_at_ = monotonic_nanoseconds() + 500 * ns_per_ms;
    for (member* m : members_) m->answered = false;
    send_all(message_kind::ask, 0, nullptr, 0);
  }
  WARPWRIGHT_COLD void end_report() {
    if (hangs_) find_hanging(members_);
    array<std::int32_t> lost;
    text const report = report_text(members_, reason_, lost);
    std::size_t const ranks_bytes = lost.size() * sizeof(std::int32_t);
    array<char> message;
    message.resize(ranks_bytes + std::strlen(report.c_str()) + 1);
    if (ranks_bytes != 0) std::memcpy(message.begin(), lost.begin(), ranks_bytes);
    std::memcpy(message.begin() + ranks_bytes, report.c_str(), message.size() - ranks_bytes);
    report_at_ = 0;
    reported_ = true;
    hangs_ = false;
    send_all(message_kind::lost, lost.size(), message.begin(), message.size());
    for (member const* m : members_) {
      if (m->joined && m->regroups) return form_next_group();
    }
  }

  socket_handle listener_, wake_, wake_end_;
  int ranks_;
  std::uint64_t nonce_;
  double deadline_;
  std::uint64_t deadline_ns_, join_until_;
  std::uint64_t group_ = 0;      // number; 0: not all have come
  std::uint64_t exchange_ = 0;   // number of the last that is complete
  std::uint64_t report_at_ = 0;  // 0: no report is under way
  std::uint64_t next_beat_ = 0;
  bool reported_ = false;  // the group is lost
  bool hangs_ = false;     // the report is of a collective that does not end
  text reason_ = "";
  text refusal_ = "";  // the last one
  array<member*> members_;
  thread thread_;
  atomic<bool> stop_;
};

WARPWRIGHT_COLD WARPWRIGHT_INLINE store_server* start_store(socket_handle&& listener,
                                                            store_place const& place,
                                                            double deadline,
                                                            source_location where) {
  return new store_server{static_cast<socket_handle&&>(listener), place, deadline, where};
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void end_store(store_server* server) noexcept { delete server; }

}  // namespace detail

WARPWRIGHT_END_DEFINITIONS
