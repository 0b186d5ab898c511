// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/scale/detail/rank_store.hpp>

#include <warpwright/core/detail/container/sort.hpp>
#include <warpwright/scale/detail/communicator_error.hpp>

#include <cerrno>
#include <cstring>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

WARPWRIGHT_BEGIN_DEFINITIONS

namespace detail {

WARPWRIGHT_COLD WARPWRIGHT_INLINE store_server::store_server(socket_handle&& listener, int ranks,
                                                             std::uint64_t nonce, double deadline,
                                                             source_location where)
    : listener_{static_cast<socket_handle&&>(listener)},
      ranks_{ranks},
      nonce_{nonce},
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

WARPWRIGHT_COLD WARPWRIGHT_INLINE store_server::~store_server() {
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

WARPWRIGHT_COLD WARPWRIGHT_INLINE void store_server::run() noexcept {
  try {
    serve();
  } catch (...) {  // no memory: the connections end, and every rank says so
    for (member* m : members_) m->socket = socket_handle{};
    listener_ = socket_handle{};
  }
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE bool store_server::idle() const noexcept {
  for (member* m : members_) {
    bool const needs = m->joined && !m->ended && !m->lost && !reported_;
    if (m->socket.valid() && (needs || !m->out.empty())) return false;
  }
  return report_at_ == 0;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void store_server::serve() {
  array<pollfd> ready;
  std::uint64_t stop_until = 0;
  for (;;) {
    std::uint64_t const now = monotonic_nanoseconds();
    if (stop_until != 0 && (idle() || now >= stop_until)) return;
    if (reported_ && stop_until > now + 2000 * milliseconds) stop_until = now + 2000 * milliseconds;
    // Others may still need it, to name a rank that they wait for.
    if (stop_.load(memory_order::acquire) && stop_until == 0) stop_until = now + deadline_ns_;
    ready.clear();
    ready.push_back({wake_end_.get(), static_cast<short>(stop_until == 0 ? POLLIN : 0), 0});
    ready.push_back({listener_.get(), POLLIN, 0});
    for (member* m : members_) {
      ready.push_back(
          {m->socket.get(), static_cast<short>(m->out.empty() ? POLLIN : POLLIN | POLLOUT), 0});
    }
    static_cast<void>(::poll(ready.begin(), ready.size(),
                             report_at_ != 0 || stop_until != 0   ? 10
                             : deadline_ns_ < 1000 * milliseconds ? 20
                                                                  : 100));
    std::size_t const count = members_.size();  // accept_all() adds others
    if ((ready[1].revents & POLLIN) != 0) accept_all();
    for (std::size_t i = 0; i < count; ++i) {
      member& m = *members_[i];
      if (!m.socket.valid() || ready[i + 2].revents == 0) continue;
      bool const open = m.reader.fill(m.socket.get());
      message_header header{};
      char const* payload = nullptr;
      while (m.socket.valid() && m.reader.next(header, payload)) {
        m.last_heard = monotonic_nanoseconds();
        handle(m, header, payload);
      }
      if (m.socket.valid() && (!open || m.reader.broken())) ended(m);
      flush(m);
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

WARPWRIGHT_COLD WARPWRIGHT_INLINE void store_server::accept_all() {
  for (;;) {
    socket_handle s{::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
    if (!s.valid()) return;
    auto* const m = new member;
    m->socket = static_cast<socket_handle&&>(s);
    m->last_heard = monotonic_nanoseconds();
    members_.push_back(m);
  }
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void store_server::send(member& m, std::uint32_t kind,
                                                          std::uint64_t value, void const* data,
                                                          std::size_t bytes) {
  if (!m.socket.valid()) return;
  message_header const header{kind, static_cast<std::uint32_t>(bytes), value};
  std::size_t const at = m.out.size();
  m.out.resize(at + sizeof header + bytes);
  std::memcpy(m.out.begin() + at, &header, sizeof header);
  if (bytes != 0) std::memcpy(m.out.begin() + at + sizeof header, data, bytes);
  flush(m);
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void store_server::send_all(std::uint32_t kind,
                                                              std::uint64_t value, void const* data,
                                                              std::size_t bytes) {
  for (member* m : members_) {
    if (m->joined) send(*m, kind, value, data, bytes);
  }
}

// Never blocks: a rank that is stopped reads nothing, and the others must hear of it.
WARPWRIGHT_COLD WARPWRIGHT_INLINE void store_server::flush(member& m) {
  std::size_t sent = 0;
  while (m.socket.valid() && sent < m.out.size()) {
    ssize_t const bytes = ::send(m.socket.get(), m.out.begin() + sent, m.out.size() - sent,
                                 MSG_NOSIGNAL | MSG_DONTWAIT);
    if (bytes > 0) {
      sent += static_cast<std::size_t>(bytes);
    } else if (errno != EINTR) {
      break;  // full, or ended, which the next read finds
    }
  }
  m.out.remove_front(sent);
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void store_server::refuse(member& m, text const& why,
                                                            std::uint64_t how) {
  send(m, message_kind::refused, how, why.c_str(), std::strlen(why.c_str()) + 1);
  m.socket = socket_handle{};
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void store_server::greet(member& m, hello_message const& hello) {
  m.process = {hello.rank, hello.pid, {}};
  std::memcpy(m.process.host, hello.host, sizeof m.process.host - 1);
  if (hello.version != store_version) {
    return refuse(m,
                  text{"the store of rank 0 has version "} + store_version + ", this rank " +
                      hello.version + ": build all ranks from the same warpwright",
                  for_good);
  }
  if (hello.nonce != nonce_) {
    return refuse(m, "the store there belongs to another run, with another nonce");
  }
  if (hello.joins != 0) {
    m.known = m.newcomer = true;
    return send(m, message_kind::accepted, 0, nullptr, 0);
  }
  if (group_ != 0) {
    return refuse(m, text{"all "} + ranks_ + " ranks of the run have come already: rank " +
                         hello.rank + " comes too late, or is of another run");
  }
  if (hello.ranks != ranks_) {
    return refuse(m,
                  text{"rank "} + hello.rank + " expects " + hello.ranks +
                      " ranks, and rank 0 expects " + ranks_ + ": start all with the same number",
                  for_good);
  }
  for (member* other : members_) {
    if (other == &m || !other->known || other->newcomer || other->process.rank != hello.rank) {
      continue;
    }
    if (other->process.pid == hello.pid && std::strcmp(other->process.host, m.process.host) == 0) {
      other->known = false;  // it has not waited for the answer, and comes again
      other->socket = socket_handle{};
      continue;
    }
    return refuse(m,
                  text{"rank "} + hello.rank + " is there already (" +
                      process_text(other->process) + "): give each process a rank of its own",
                  for_good);
  }
  m.known = true;
  send(m, message_kind::accepted, 0, nullptr, 0);
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void store_server::form_first_group() {
  int come = 0;
  for (member* m : members_) come += m->known && !m->newcomer ? 1 : 0;
  if (come < ranks_) return;
  for (member* m : members_) m->joined = m->known && !m->newcomer;
  send_group();
}

// The members in the order of their ranks, newcomers behind them.
WARPWRIGHT_COLD WARPWRIGHT_INLINE void store_server::form_next_group() {
  for (member* m : members_) {
    if (m->joined && m->socket.valid() && !m->ended && !m->regroups) return;
  }
  int next = 0;
  int const before = ranks_;
  for (int rank = 0; rank < before; ++rank) {
    for (member* m : members_) {
      if (!m->joined || m->process.rank != rank || !m->socket.valid() || !m->regroups) continue;
      m->process.rank = next++;
      break;
    }
  }
  for (member* m : members_) {
    m->joined = m->socket.valid() && (m->regroups || m->newcomer);
    if (!m->joined) m->socket = socket_handle{};
    if (m->newcomer && m->joined) m->process.rank = next++;
    m->newcomer = m->regroups = m->has_part = m->lost = false;
    m->failure = "";
    m->state = rank_state{};
  }
  ranks_ = next;
  reported_ = hangs_ = false;
  report_at_ = exchange_ = 0;
  send_group();
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void store_server::send_group() {
  ++group_;
  sort(members_.begin(), members_.size(), [](member const* a, member const* b) {
    return a->joined != b->joined ? a->joined : a->process.rank < b->process.rank;
  });
  array<char> all;
  all.resize(sizeof(group_message) + static_cast<std::size_t>(ranks_) * sizeof(rank_process));
  for (member* m : members_) {
    if (!m->joined) continue;
    std::memcpy(all.begin() + sizeof(group_message) +
                    static_cast<std::size_t>(m->process.rank) * sizeof(rank_process),
                &m->process, sizeof(rank_process));
  }
  for (member* m : members_) {
    if (!m->joined) continue;
    group_message const group{group_, m->process.rank, ranks_};
    std::memcpy(all.begin(), &group, sizeof group);
    send(*m, message_kind::group, group_, all.begin(), all.size());
  }
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void store_server::finish_exchange() {
  std::size_t bytes = 0;
  for (member* m : members_) {
    if (!m->joined) continue;
    if (m->lost) return begin_report("");
    if (!m->has_part) return;
    bytes = m->part.size();
  }
  array<char> all;
  all.resize(bytes * static_cast<std::size_t>(ranks_));
  for (member* m : members_) {
    if (!m->joined) continue;
    if (m->part.size() != bytes) {
      m->failure = "other bytes in an exchange: the ranks are different programs";
      m->lost = true;
      return begin_report("");
    }
    if (bytes != 0) {
      std::memcpy(all.begin() + bytes * static_cast<std::size_t>(m->process.rank), m->part.begin(),
                  bytes);
    }
    m->has_part = false;
    m->part.clear();
  }
  ++exchange_;
  send_all(message_kind::whole, exchange_, all.begin(), all.size());
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void store_server::handle(member& m, message_header const& header,
                                                            char const* payload) {
  if (!m.known) {
    if (header.kind != message_kind::hello || header.bytes != sizeof(hello_message)) {
      m.socket = socket_handle{};
      return;
    }
    hello_message hello;
    std::memcpy(&hello, payload, sizeof hello);
    return greet(m, hello);
  }
  bool const has_text = header.bytes != 0 && payload[header.bytes - 1] == 0;
  if (header.kind == message_kind::part) {
    if (header.value != exchange_ + 1 || reported_) return;  // of a group that is lost
    m.part.clear();
    m.part.resize(header.bytes);
    if (header.bytes != 0) std::memcpy(m.part.begin(), payload, header.bytes);
    m.has_part = true;
    for (member* other : members_) {
      if (!other->joined || !other->ended) continue;
      other->lost = true;
      other->failure = "has ended, and the others wait for it";
    }
    finish_exchange();
  } else if (header.kind == message_kind::state) {
    if (header.bytes == sizeof m.state) std::memcpy(&m.state, payload, sizeof m.state);
    m.answered = m.answered || header.value != 0;
  } else if (header.kind == message_kind::fail) {
    failed(m, header.value, has_text ? payload : "has failed");
  } else if (header.kind == message_kind::leave && !has_text) {
    m.ended = true;
    m.state.called = m.state.completed = header.value;
    auto const rank = static_cast<std::uint64_t>(m.process.rank);
    send_all(message_kind::left, header.value, &rank, sizeof rank);
  } else if (header.kind == message_kind::leave) {
    failed(m, no_exchange, payload);
  } else if (header.kind == message_kind::regroup) {
    m.regroups = true;
    form_next_group();
  }
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void store_server::failed(member& m, std::uint64_t in,
                                                            text const& why) {
  if (in == regrouping) {     // those that have not come are left behind
    if (!m.regroups) return;  // it is in the new group already
    for (member* other : members_) {
      if (other->joined && !other->regroups) other->socket = socket_handle{};
    }
    return form_next_group();
  }
  if (in == hanging) {
    hangs_ = true;
    return begin_report(why);
  }
  if (in == exchange_ + 1) {  // who has not come to it is lost
    for (member* other : members_) other->lost = other->lost || (other->joined && !other->has_part);
    return begin_report(why);
  }
  if (in != no_exchange) return;  // it is complete meanwhile
  m.failure = why;
  m.lost = true;
  begin_report("");
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void store_server::ended(member& m) {
  m.socket = socket_handle{};
  m.out.clear();
  if (!m.joined) {
    m.known = m.newcomer = false;  // before all had come: another process may be this rank
    return;
  }
  if (m.regroups || reported_) {
    form_next_group();
  } else if (!m.ended) {
    m.lost = true;
    if (m.failure.empty()) m.failure = "is gone";
    begin_report("");
  }
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void store_server::check_times() {
  std::uint64_t const now = monotonic_nanoseconds();
  if (group_ == 0 && now >= join_until_) {
    text const missing = text{"not all ranks have come within "} +
                         static_cast<double>(deadline_ns_) / 1e9 + " s: " + missing_text();
    for (member* m : members_) {
      if (m->socket.valid()) refuse(*m, missing);
    }
    return;
  }
  if (report_at_ != 0) {
    bool all = true;
    for (member* m : members_) all = all && (!m->joined || m->ended || m->lost || m->answered);
    if (all || now >= report_at_) end_report();
  }
  if (now < next_beat_) return;
  next_beat_ = now + (deadline_ns_ < 2000 * milliseconds ? deadline_ns_ / 8 : 250 * milliseconds);
  std::uint64_t newcomers = 0;
  for (member* m : members_) newcomers += m->newcomer ? 1U : 0U;
  for (member* m : members_) {
    // One beat is enough for who does not read.
    if ((m->joined || m->newcomer) && m->out.empty())
      send(*m, message_kind::beat, newcomers, nullptr, 0);
    if (m->joined && !m->ended && !m->lost && m->socket.valid() && !reported_ &&
        now - m->last_heard > deadline_ns_) {
      m->lost = true;
      m->failure = text{"has not answered for "} + static_cast<double>(deadline_ns_) / 1e9 +
                   " s: stopped, or its host is gone";
      begin_report("");
    }
  }
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void store_server::begin_report(text const& reason) {
  if (reported_ || report_at_ != 0) return;
  reason_ = reason;
  report_at_ = monotonic_nanoseconds() + 500 * milliseconds;
  for (member* m : members_) m->answered = false;
  send_all(message_kind::ask, 0, nullptr, 0);
}

}  // namespace detail

WARPWRIGHT_END_DEFINITIONS
