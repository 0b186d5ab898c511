// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The store: a thread of rank 0 with a TCP connection to every rank. It gathers the ranks,
// exchanges small values, notices at once when a process ends and within the deadline when one is
// stopped, and says to all which rank is lost and where the others wait.
#pragma once

#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/core/detail/thread/thread.hpp>
#include <warpwright/scale/detail/store_place.hpp>

#include <sys/socket.h>
#include <unistd.h>

WARPWRIGHT_BEGIN

namespace detail {

/// What a client tells its communicator, from the client's thread.
class store_events {
 public:
  virtual void describe(rank_state& state) noexcept = 0;
  /// @param ranks  that are lost, of the current group
  virtual void lost(char const* report, std::int32_t const* ranks, std::size_t count) noexcept = 0;
  /// Behind lost(): ends the collectives under way.
  virtual void end_calls() noexcept = 0;
  /// Another rank has ended in good order. @param called  its last collective
  virtual void left(std::uint64_t called) noexcept = 0;
  virtual void tick() noexcept = 0;
  virtual void begin_group() noexcept = 0;  // a new one; nothing is lost of it

 protected:
  ~store_events() = default;
};

/// The side of a rank: a connection and the thread that listens to it.
class store_client : noncopyable {
 public:
  /// Comes to the store, and waits until all have. @throws communicator_error
  WARPWRIGHT_COLD store_client(store_place const& place, double deadline, source_location where)
      : deadline_{deadline} {
    std::uint64_t until = monotonic_after(deadline);
    find_store(place, until, where);
    until += 1000 * ns_per_ms;  // for the store's answer
    message_header header{};
    char const* payload = nullptr;
    text missing = "rank 0, which has accepted this one, has not answered";
    for (bool open = true;;) {
      while (reader_.next(header, payload)) {
        last_heard_ = monotonic_nanoseconds();
        if (header.kind == message_kind::beat && header.bytes > 1) missing = payload;
        if (place.joins) until = monotonic_after(deadline + 1.0);  // as long as the store lives
        if (header.kind == message_kind::group && read_group(payload, header.bytes)) return;
        if (header.kind == message_kind::refused) throw_communicator_error(payload, where);
      }
      if (!open) throw_communicator_error("rank 0 has ended before all ranks had come", where);
      if (!wait_for_socket(socket_.get(), false, until)) {
        throw_communicator_error(
            text{"not all ranks have come within "} + deadline + " s: " + missing, where);
      }
      open = reader_.fill(socket_.get());
    }
  }
  WARPWRIGHT_COLD ~store_client() {
    done();
    stop_.store(true, memory_order::release);
    thread_.join();
    close_when_read(socket_, monotonic_after(0.5));
  }

  /// @param events  outlives the client. @throws communicator_error
  WARPWRIGHT_COLD void start(store_events& events, source_location where) {
    events_ = &events;
    int const error = thread_.start<&store_client::run>(*this);
    if (error != 0) {
      throw_communicator_error(text{"the communicator's thread: "} + std::strerror(error), where);
    }
  }
  /// Waits until all ranks of the group have come here, with a few bytes each.
  /// @param name  for the report, if one does not come or comes with another
  /// @param all   the bytes of all ranks, one behind another, each as many
  /// @return false: a rank is lost, or the store
  [[nodiscard]] WARPWRIGHT_COLD bool exchange(char const* name, void const* mine, std::size_t bytes,
                                              array<char>& all, double seconds) {
    array<char> part(std::strlen(name) + 1 + bytes);
    std::memcpy(part.begin(), name, part.size() - bytes);
    if (bytes != 0) std::memcpy(part.end() - bytes, mine, bytes);
    std::uint64_t const number = ++exchanges_;
    send_state(false, true);  // the store compares what all have called
    static_cast<void>(send(message_kind::part, number, part.begin(), part.size()));
    text const why = text{"has not come to "} + name + " within " + seconds + " s";
    // After that the store collects its report.
    bool const done = wait_or_fail(seconds, 1.5, number, why, [&] {
      unique_lock<mutex> const lock{mail_mutex_};
      return mail_number_ == number || lost_.load(memory_order::acquire);
    });
    if (!done && !ended()) store_lost("has not answered");
    unique_lock<mutex> const lock{mail_mutex_};
    if (mail_number_ != number) return false;
    all.swap(mail_);
    return true;
  }
  /// Reports that this rank cannot go on, or that a collective does not end.
  /// @param hangs  a collective does not end, of whichever rank
  WARPWRIGHT_COLD void fail(text const& why, bool hangs = false) noexcept {
    if (ended()) {
      if (losing_.exchange(true, memory_order::acq_rel)) return;
      return lose((why + "; rank 0, which has the store, has ended").c_str(), nullptr, 0);
    }
    static_cast<void>(send_text(hangs ? hanging : no_exchange, why));
  }
  /// Ends the connection in good order. @param exception  the reason, or null
  WARPWRIGHT_COLD void leave(char const* exception) noexcept {
    rank_state state{};
    if (events_ != nullptr) events_->describe(state);
    static_cast<void>(send(message_kind::leave, state.called, exception,
                           exception == nullptr ? 0 : std::strlen(exception) + 1));
  }
  /// Behind leave(): the collectives have completed, or nobody is to wait for them.
  void done() noexcept { static_cast<void>(send(message_kind::done, 0, nullptr, 0)); }
  /// Waits for a new group, of those that are left and those that have come.
  /// @return why there is none, or nothing
  [[nodiscard]] WARPWRIGHT_COLD text regroup(double seconds) {
    std::uint64_t const before = group_number_.load(memory_order::acquire);
    static_cast<void>(send(message_kind::regroup, 0, nullptr, 0));
    auto const is_new = [&] { return group_number_.load(memory_order::acquire) != before; };
    // Who has not asked for a new group by then is left behind.
    if (wait_or_fail(seconds, 2.0, regrouping, "", is_new)) return "";
    unique_lock<mutex> const lock{mail_mutex_};
    return end_reason_.empty() ? text{"rank 0, which has the store, has not answered"}
                               : end_reason_;
  }

  [[nodiscard]] int rank() const noexcept { return group_.rank; }
  [[nodiscard]] int ranks() const noexcept { return group_.ranks; }
  [[nodiscard]] int newcomers() const noexcept { return newcomers_.load(memory_order::relaxed); }

 private:
  [[nodiscard]] bool ended() const noexcept { return store_ended_.load(memory_order::acquire); }

  // @return whether the store there is that of this run; otherwise the problem, of which a later
  //   attempt may be free
  [[nodiscard]] WARPWRIGHT_COLD bool try_store(store_place const& place, int port,
                                               std::uint64_t until, text& problem, text& refusal,
                                               source_location where) {
    socket_ = connect_to(place.host, port, until, problem);
    if (!socket_.valid()) return false;
    std::uint64_t const soon = monotonic_after(1.0);
    std::uint64_t const answer = soon < until ? soon : until;
    hello_message hello{store_version,         place.ranks,           deadline_,
                        nonce_of(place.nonce), place.joins ? 1U : 0U, this_process(place.rank)};
    message_header header{message_kind::hello, sizeof hello, 0};
    char const* payload = nullptr;
    if (!send_message(socket_.get(), header, &hello, answer)) return false;
    reader_.clear();
    for (bool open = true; open && wait_for_socket(socket_.get(), false, answer);) {
      open = reader_.fill(socket_.get()) && !reader_.broken();
      if (!reader_.next(header, payload)) continue;
      if (header.kind == message_kind::accepted) return true;
      if (header.kind != message_kind::refused || header.bytes == 0) break;
      if (header.value == for_good) throw_communicator_error(payload, where);
      refusal = payload;
      return false;
    }
    problem = text{place.host.c_str()} + ":" + port +
              ": another program listens there, or the store there has ended";
    return false;
  }
  WARPWRIGHT_COLD void find_store(store_place const& place, std::uint64_t until,
                                  source_location where) {
    store_place at{place};
    text problem = "";
    text refusal = "";  // says more than what comes later
    bool found_file = place.file.empty();
    for (std::uint64_t pause = 2 * ns_per_ms;;) {
      bool const known = place.file.empty() || read_store_file(at);
      found_file = found_file || known;
      for (int port = at.port; known && port < at.port + at.ports; ++port) {
        if (try_store(at, port, until, problem, refusal, where)) return;
      }
      if (monotonic_nanoseconds() + pause >= until) break;
      sleep_nanoseconds(pause);
      if (pause < 50 * ns_per_ms) pause *= 2;
    }
    text const who =
        place.joins ? text{"this process"} : text{"rank "} + place.rank + " of " + place.ranks;
    text all = who + " has not found rank 0 within " + deadline_ + " s: ";
    if (!found_file) {
      all += text{"there is no file "} + place.file.c_str() +
             ": rank 0 has not started, or the folder is not shared";
    } else {
      all += refusal.empty() ? problem : refusal;
    }
    if (found_file && !place.file.empty()) {
      all += text{" (as "} + place.file.c_str() + " says, perhaps of an earlier run)";
    }
    throw_communicator_error(all, where);
  }

  // Waits for a condition that the client's thread makes true; after some seconds tells the store
  // that it is not, and waits a little more.
  template <class Condition>
  [[nodiscard]] bool wait_or_fail(double seconds, double more_seconds, std::uint64_t in,
                                  text const& why, Condition condition) {
    std::uint64_t until = monotonic_after(seconds);
    for (bool told = false;;) {
      std::uint64_t const seen = changed_.count();
      if (condition()) return true;
      if (ended()) return false;
      if (changed_.wait(seen, until)) continue;
      if (told) return false;
      static_cast<void>(send_text(in, why));
      told = true;
      until = monotonic_after(more_seconds);
    }
  }
  [[nodiscard]] bool send(std::uint32_t kind, std::uint64_t value, void const* data,
                          std::size_t bytes) noexcept {
    if (ended()) return false;
    unique_lock<mutex> const lock{send_mutex_};
    return send_message(socket_.get(), {kind, static_cast<std::uint32_t>(bytes), value}, data,
                        monotonic_after(2.0));
  }
  [[nodiscard]] bool send_text(std::uint64_t value, text const& why) noexcept {
    return send(message_kind::fail, value, why.c_str(), std::strlen(why.c_str()) + 1);
  }
  WARPWRIGHT_COLD void send_state(bool asked, bool now_at_once = false) noexcept {
    rank_state state{};
    events_->describe(state);
    unique_lock<mutex> const lock{state_mutex_};
    std::uint64_t const now = monotonic_nanoseconds();
    bool const same = std::memcmp(&state, &sent_, sizeof state) == 0;
    auto const quarter = static_cast<std::uint64_t>(deadline_ * 0.25e9);
    std::uint64_t const period = quarter < 500 * ns_per_ms ? quarter : 500 * ns_per_ms;
    if (!asked && same && (now_at_once || now - last_sent_ < period)) return;
    sent_ = state;
    last_sent_ = now;
    std::uint64_t const group = group_number_.load(memory_order::acquire);
    static_cast<void>(send(message_kind::state, 2 * group + asked, &state, sizeof state));
  }

  WARPWRIGHT_COLD void run() noexcept {
    try {
      listen();
    } catch (...) {
      store_lost("cannot be heard, as this rank has no memory left");
    }
  }
  WARPWRIGHT_COLD void listen() {
    while (!stop_.load(memory_order::acquire) && !ended()) {
      bool const readable = wait_for_socket(socket_.get(), false, monotonic_after(0.02));
      bool const open = !readable || reader_.fill(socket_.get());
      message_header header{};
      char const* payload = nullptr;
      while (reader_.next(header, payload)) {
        last_heard_ = monotonic_nanoseconds();
        handle(header, payload);
        last_heard_ = monotonic_nanoseconds();  // an abort may wait for graphs
        changed_.notify();
      }
      if (!open) {
        static_cast<void>(::shutdown(socket_.get(), SHUT_RDWR));  // the store waits for it
        store_lost(rank_0_left_ ? nullptr : "is gone");
      } else if (static_cast<double>(monotonic_nanoseconds() - last_heard_) > deadline_ * 1e9) {
        store_lost((text{"has not answered for "} + deadline_ + " s").c_str());
      }
      send_state(false);
      events_->tick();
    }
    // The store is not there; what the graph's replays and the collectives do is still watched.
    while (!stop_.load(memory_order::acquire)) {
      sleep_nanoseconds(20 * ns_per_ms);
      events_->tick();
    }
  }
  WARPWRIGHT_COLD void handle(message_header const& header, char const* payload) {
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
      std::int32_t rank = 0;
      if (header.bytes >= sizeof rank) std::memcpy(&rank, payload, sizeof rank);
      rank_0_left_ = rank_0_left_ || rank == 0;
      events_->left(header.value);
    } else if (header.kind == message_kind::lost) {
      std::size_t const text_at = header.value * sizeof(std::int32_t);
      if (text_at >= header.bytes || losing_.exchange(true, memory_order::acq_rel)) return;
      array<std::int32_t> ranks(header.value);
      if (text_at != 0) std::memcpy(ranks.begin(), payload, text_at);
      lose(payload + text_at, ranks.begin(), ranks.size());
    } else if (header.kind == message_kind::refused && header.bytes != 0) {
      store_lost(nullptr, payload);
    } else if (header.kind == message_kind::group) {
      static_cast<void>(read_group(payload, header.bytes));
    }
  }
  WARPWRIGHT_COLD bool read_group(char const* payload, std::size_t bytes) {
    if (bytes < sizeof group_) return false;
    std::memcpy(&group_, payload, sizeof group_);
    deadline_ = group_.deadline;
    exchanges_ = mail_number_ = 0;
    newcomers_.store(0, memory_order::relaxed);
    if (events_ != nullptr) events_->begin_group();
    lost_.store(false, memory_order::release);
    losing_.store(false, memory_order::release);
    group_number_.store(group_.number, memory_order::release);
    return true;
  }
  // In this order: who waits here looks at what the communicator knows.
  WARPWRIGHT_COLD void lose(char const* report, std::int32_t const* ranks,
                            std::size_t count) noexcept {
    events_->lost(report, ranks, count);
    lost_.store(true, memory_order::release);
    changed_.notify();
    events_->end_calls();
  }
  // @param how  null: it has ended in good order, or, for a reason, this rank's connection
  WARPWRIGHT_COLD void store_lost(char const* how, char const* reason = nullptr) noexcept {
    if (store_ending_.exchange(true, memory_order::acq_rel)) return;
    text report = reason != nullptr ? text{reason}
                                    : process_text(group_.store) + ", which has the store, " +
                                          (how != nullptr ? how : "has ended");
    {
      unique_lock<mutex> const lock{mail_mutex_};
      end_reason_ = report;
    }
    bool const loses =
        (how != nullptr || reason != nullptr) && !losing_.exchange(true, memory_order::acq_rel);
    if (loses) {
      rank_state state{};
      events_->describe(state);
      if (state.waits.number != 0) {
        report += text{"; rank "} + group_.rank + " waits in " + call_text(state.waits);
      }
      std::int32_t const rank = reason != nullptr ? group_.rank : group_.store.rank;
      events_->lost(report.c_str(), &rank, rank < 0 ? 0 : 1);
      lost_.store(true, memory_order::release);
    }
    store_ended_.store(true, memory_order::release);  // behind it: who sees this looks at that
    changed_.notify();
    if (loses) events_->end_calls();
  }

  socket_handle socket_;
  message_reader reader_;
  double deadline_;
  group_message group_{};
  store_events* events_ = nullptr;
  mutex send_mutex_, state_mutex_;
  event_count changed_;
  mutex mail_mutex_;
  array<char> mail_;  // of the last exchange
  text end_reason_ = "";
  std::uint64_t mail_number_ = 0;
  std::uint64_t exchanges_ = 0;  // that this rank has begun in the group
  atomic<std::uint64_t> group_number_;
  atomic<bool> losing_, lost_, stop_, store_ending_, store_ended_;
  atomic<int> newcomers_;
  bool rank_0_left_ = false;
  rank_state sent_{};
  std::uint64_t last_sent_ = 0, last_heard_ = 0;
  thread thread_;
};

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/scale/detail/store_server_definitions.hpp>
#endif
