// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/scale/detail/rank_store.hpp>

#include <warpwright/core/detail/text/string_builder.hpp>
#include <warpwright/scale/detail/communicator_error.hpp>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include <sys/socket.h>
#include <unistd.h>

WARPWRIGHT_BEGIN_DEFINITIONS

namespace detail {

// @return whether the store there is that of this run; otherwise the problem, of which a later
//   attempt may be free
WARPWRIGHT_COLD WARPWRIGHT_INLINE bool store_client::try_store(store_place const& place, int port,
                                                               std::uint64_t until, text& problem,
                                                               source_location where) {
  std::uint64_t const soon = monotonic_after(1.0);
  std::uint64_t const answer = soon < until ? soon : until;
  socket_ = connect_to(place.host, port, answer, problem);
  if (!socket_.valid()) return false;
  hello_message hello{
      store_version,         place.rank, place.ranks, ::getpid(), nonce_of(place.nonce),
      place.joins ? 1U : 0U, {}};
  std::string const name = host_name();
  std::memcpy(hello.host, name.c_str(),
              name.size() < sizeof hello.host ? name.size() : sizeof hello.host - 1);
  message_header header{message_kind::hello, sizeof hello, 0};
  char const* payload = nullptr;
  if (!send_message(socket_.get(), header, &hello, answer)) return false;
  reader_.clear();
  while (wait_for_socket(socket_.get(), false, answer)) {
    bool const open = reader_.fill(socket_.get());
    if (reader_.next(header, payload)) {
      if (header.kind == message_kind::accepted) return true;
      if (header.kind == message_kind::refused && header.bytes != 0) {
        if (header.value == for_good) throw_communicator_error(payload, where);
        problem = payload;
        return false;
      }
      break;
    }
    if (!open || reader_.broken()) break;
  }
  problem = text{place.host.c_str()} + ":" + port +
            ": another program listens there, or the store there has ended";
  return false;
}

// The file names the store's address. It may be of an earlier run, and is then replaced by rank 0.
WARPWRIGHT_COLD inline bool read_store_file(store_place& place) {
  std::FILE* const file = std::fopen(place.file.c_str(), "re");
  if (file == nullptr) return false;
  char host[256] = "";
  bool const whole = std::fscanf(file, "%255s %d", host, &place.port) == 2;
  std::fclose(file);
  place.host = host_name() == host ? "localhost" : host;
  return whole;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void store_client::find_store(store_place const& place,
                                                                std::uint64_t until,
                                                                source_location where) {
  store_place at{place};
  text problem = "";
  bool found_file = false;
  for (std::uint64_t pause = 2 * milliseconds;;
       pause = pause < 50 * milliseconds ? pause * 2 : pause) {
    bool known = true;
    if (!place.file.empty()) {
      known = read_store_file(at);
      found_file = found_file || known;
    }
    for (int port = at.port; known && port < at.port + at.ports; ++port) {
      if (try_store(at, port, until, problem, where)) return;
    }
    if (monotonic_nanoseconds() + pause >= until) break;
    sleep_nanoseconds(pause);
  }
  text const who = text{"rank "} + place.rank + " of " + place.ranks +
                   " has not found rank 0 within " + deadline_ + " s: ";
  if (!place.file.empty() && !found_file) {
    throw_communicator_error(who + "there is no file " + place.file.c_str() +
                                 ": rank 0 has not started, or the folder is not shared",
                             where);
  }
  throw_communicator_error(
      who + problem +
          (place.file.empty()
               ? text{""}
               : text{" (as "} + place.file.c_str() +
                     " says, perhaps of an earlier run: remove it, or give each run a nonce)"),
      where);
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE store_client::store_client(store_place const& place,
                                                             double deadline, source_location where)
    : deadline_{deadline} {
  std::uint64_t const until = monotonic_after(deadline);
  find_store(place, until, where);
  message_header header{};
  char const* payload = nullptr;
  for (;;) {
    while (reader_.next(header, payload)) {
      if (header.kind == message_kind::group) {
        read_group(payload, header.bytes);
        last_heard_ = monotonic_nanoseconds();
        return;
      }
      if (header.kind == message_kind::refused) {
        throw_communicator_error(header.bytes != 0 ? payload : "refused", where);
      }
    }
    // The store says who is missing, in its own time, which began before or after this one.
    if (!wait_for_socket(socket_.get(), false, until + 5000 * milliseconds)) {
      throw_communicator_error(text{"rank 0 has accepted rank "} + place.rank +
                                   ", and then not answered within " + deadline + " s",
                               where);
    }
    if (!reader_.fill(socket_.get())) {
      bool const last_words = reader_.next(header, payload) && header.kind == message_kind::refused;
      throw_communicator_error(last_words ? payload : "rank 0 has ended before all ranks had come",
                               where);
    }
  }
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE store_client::~store_client() {
  stop_.store(true, memory_order::release);
  thread_.join();
  close_when_read(socket_, monotonic_after(0.5));
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void store_client::read_group(char const* payload,
                                                                std::size_t bytes) {
  if (bytes < sizeof group_) return;
  std::memcpy(&group_, payload, sizeof group_);
  processes_.clear();
  processes_.resize((bytes - sizeof group_) / sizeof(rank_process));
  std::memcpy(static_cast<void*>(processes_.begin()), payload + sizeof group_,
              bytes - sizeof group_);
  exchanges_ = mail_number_ = 0;
  if (events_ != nullptr) events_->begin_group();
  lost_.store(false, memory_order::release);
  losing_.store(false, memory_order::release);
  group_number_.store(group_.number, memory_order::release);
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void store_client::start(store_events& events,
                                                           source_location where) {
  events_ = &events;
  int const error = thread_.start<&store_client::run>(*this);
  if (error != 0) {
    throw_communicator_error(text{"the communicator's thread: "} + std::strerror(error), where);
  }
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE bool store_client::send(std::uint32_t kind, std::uint64_t value,
                                                          void const* data,
                                                          std::size_t bytes) noexcept {
  unique_lock<mutex> const lock{send_mutex_};
  return send_message(socket_.get(), {kind, static_cast<std::uint32_t>(bytes), value}, data,
                      monotonic_after(2.0));
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE bool store_client::exchange(char const* name, void const* mine,
                                                              std::size_t bytes, array<char>& all,
                                                              double seconds) {
  std::uint64_t until = monotonic_after(seconds);
  std::uint64_t const number = ++exchanges_;
  if (store_ended_.load(memory_order::acquire)) return false;
  static_cast<void>(send(message_kind::part, number, mine, bytes));
  bool told = false;
  for (;;) {
    std::uint64_t const seen = changed_.count();
    {
      unique_lock<mutex> const lock{mail_mutex_};
      if (mail_number_ == number) {
        all.clear();
        all.swap(mail_);
        return true;
      }
    }
    if (lost_.load(memory_order::acquire) || store_ended_.load(memory_order::acquire)) return false;
    if (changed_.wait(seen, until)) continue;
    if (told) {
      store_lost("has not answered");
      return false;
    }
    text const why = text{"has not come to "} + name + " within " + seconds + " s";
    static_cast<void>(send(message_kind::fail, number, why.c_str(), std::strlen(why.c_str()) + 1));
    told = true;
    until = monotonic_after(1.5);  // the store collects its report meanwhile
  }
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void store_client::fail(text const& why, bool hangs) noexcept {
  if (store_ended_.load(memory_order::acquire)) {
    if (losing_.exchange(true, memory_order::acq_rel)) return;
    return lose((why + "; rank 0, which has the store, has ended").c_str(), nullptr, 0);
  }
  static_cast<void>(send(message_kind::fail, hangs ? hanging : no_exchange, why.c_str(),
                         std::strlen(why.c_str()) + 1));
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void store_client::leave(char const* exception) noexcept {
  rank_state state{};
  if (events_ != nullptr) events_->describe(state);
  static_cast<void>(send(message_kind::leave, state.called, exception,
                         exception == nullptr ? 0 : std::strlen(exception) + 1));
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE bool store_client::regroup(double seconds) {
  std::uint64_t until = monotonic_after(seconds);
  std::uint64_t const before = group_number_.load(memory_order::acquire);
  static_cast<void>(send(message_kind::regroup, 0, nullptr, 0));
  bool told = false;
  for (;;) {
    std::uint64_t const seen = changed_.count();
    if (group_number_.load(memory_order::acquire) != before) return true;
    if (store_ended_.load(memory_order::acquire)) return false;
    if (changed_.wait(seen, until)) continue;
    if (told) return false;
    // Who has not asked for a new group by now is left behind.
    static_cast<void>(send(message_kind::fail, regrouping, "", 1));
    told = true;
    until = monotonic_after(2.0);
  }
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void store_client::run() noexcept {
  try {
    listen();
  } catch (...) {
    store_lost("cannot be heard, as this rank has no memory left");
  }
}

// In this order: who waits here looks at what the communicator knows.
WARPWRIGHT_COLD WARPWRIGHT_INLINE void store_client::lose(char const* report,
                                                          std::int32_t const* ranks,
                                                          std::size_t count) noexcept {
  events_->lost(report, ranks, count);
  lost_.store(true, memory_order::release);
  changed_.notify();
  events_->end_calls();
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void store_client::store_lost(char const* how) {
  if (store_ended_.exchange(true, memory_order::acq_rel)) return;
  if (!losing_.exchange(true, memory_order::acq_rel)) {
    std::int32_t const rank = 0;
    rank_state state{};
    events_->describe(state);
    text report = process_text(processes_[0]) + ", which has the store, " + how;
    if (state.waits.number != 0) {
      report += text{"; rank "} + group_.rank + " waits in " + call_text(state.waits);
    }
    lose(report.c_str(), &rank, 1);
  }
  changed_.notify();
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void store_client::send_state(bool asked) noexcept {
  rank_state state{};
  events_->describe(state);
  std::uint64_t const now = monotonic_nanoseconds();
  bool const same = std::memcmp(&state, &sent_, sizeof state) == 0;
  auto const quarter = static_cast<std::uint64_t>(deadline_ * 0.25e9);
  std::uint64_t const period = quarter < 500 * milliseconds ? quarter : 500 * milliseconds;
  if (!asked && same && now - last_sent_ < period) return;
  sent_ = state;
  last_sent_ = now;
  static_cast<void>(send(message_kind::state, asked ? 1 : 0, &state, sizeof state));
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void store_client::handle(message_header const& header,
                                                            char const* payload) {
  if (header.kind == message_kind::whole) {
    unique_lock<mutex> const lock{mail_mutex_};
    mail_.clear();
    mail_.resize(header.bytes);
    if (header.bytes != 0) std::memcpy(mail_.begin(), payload, header.bytes);
    mail_number_ = header.value;
  } else if (header.kind == message_kind::beat) {
    newcomers_.store(static_cast<int>(header.value), memory_order::relaxed);
  } else if (header.kind == message_kind::ask) {
    send_state(true);
  } else if (header.kind == message_kind::left) {
    std::uint64_t rank = 0;
    if (header.bytes >= sizeof rank) std::memcpy(&rank, payload, sizeof rank);
    rank_0_left_ = rank_0_left_ || rank == 0;
    events_->left(header.value);
  } else if (header.kind == message_kind::lost) {
    std::size_t const text_at = header.value * sizeof(std::int32_t);
    if (text_at >= header.bytes || losing_.exchange(true, memory_order::acq_rel)) return;
    array<std::int32_t> ranks(header.value);
    if (text_at != 0) std::memcpy(ranks.begin(), payload, text_at);
    lose(payload + text_at, ranks.begin(), ranks.size());
  } else if (header.kind == message_kind::group) {
    read_group(payload, header.bytes);
  }
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void store_client::listen() {
  while (!stop_.load(memory_order::acquire) && !store_ended_.load(memory_order::acquire)) {
    bool const readable = wait_for_socket(socket_.get(), false, monotonic_after(0.02));
    bool const open = !readable || reader_.fill(socket_.get());
    message_header header{};
    char const* payload = nullptr;
    while (reader_.next(header, payload)) {
      last_heard_ = monotonic_nanoseconds();
      handle(header, payload);
      changed_.notify();
    }
    if (!open) {
      static_cast<void>(::shutdown(socket_.get(), SHUT_RDWR));  // the store waits for it
      if (rank_0_left_) {
        store_ended_.store(true, memory_order::release);
        changed_.notify();
      } else {
        store_lost("is gone");
      }
    } else if (static_cast<double>(monotonic_nanoseconds() - last_heard_) > deadline_ * 1e9) {
      store_lost((text{"has not answered for "} + deadline_ + " s").c_str());
    }
    send_state(false);
    events_->tick();
  }
  // The store is not there; what the graph's replays and the collectives do is still watched.
  while (!stop_.load(memory_order::acquire)) {
    sleep_nanoseconds(20 * milliseconds);
    events_->tick();
  }
}

}  // namespace detail

WARPWRIGHT_END_DEFINITIONS
