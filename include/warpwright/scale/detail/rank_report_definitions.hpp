// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What the store says of lost ranks.
#pragma once

#include <warpwright/scale/detail/rank_store.hpp>

#include <cstring>

WARPWRIGHT_BEGIN_DEFINITIONS

namespace detail {

WARPWRIGHT_COLD WARPWRIGHT_INLINE char const* collective_name(collective operation) noexcept {
  static constexpr char const* names[] = {"none",      "all_reduce", "reduce_scatter", "all_gather",
                                          "broadcast", "reduce",     "send",           "receive"};
  return enum_name(names, operation);
}

/// @return "#412 all_reduce 26214400 B"
WARPWRIGHT_COLD WARPWRIGHT_INLINE text call_text(collective_call const& call) {
  if (call.operation == collective::none) return text{"no collective"};
  text all = text{"#"} + static_cast<unsigned long long>(call.number) + " " +
             collective_name(call.operation) + " " + static_cast<unsigned long long>(call.bytes) +
             " B";
  if (call.captured != 0) all += " (captured)";
  return all;
}

/// @param ranks  rising. @return "rank 3", "ranks 0 to 2", "ranks 1, 4 and 6"
WARPWRIGHT_COLD WARPWRIGHT_INLINE text ranks_text(array<int> const& ranks) {
  text all{ranks.size() == 1 ? "rank " : "ranks "};
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    std::size_t const next = end - i > 2 ? end : i + 1;
    if (i > 0) all += next == ranks.size() ? " and " : ", ";
    all += ranks[i];
    if (next - i > 2) all += text{" to "} + ranks[end - 1];
    i = next;
  }
  return all;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE text process_text(rank_process const& p) {
  return text{"rank "} + p.rank + " (host " + p.host + ", pid " + p.pid + ")";
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE text store_server::missing_text() const {
  array<int> missing;
  array<int> come;
  text hosts = "";
  for (int rank = 0; rank < ranks_; ++rank) {
    member const* found = nullptr;
    for (member* m : members_) {
      if (m->known && !m->newcomer && m->process.rank == rank) found = m;
    }
    (found == nullptr ? missing : come).push_back(rank);
    if (found != nullptr && come.size() <= 4) hosts += text{", "} + process_text(found->process);
  }
  return ranks_text(missing) + " missing; " + ranks_text(come) + " have come" + hosts;
}

// Marks the ranks because of which a collective does not end.
WARPWRIGHT_COLD WARPWRIGHT_INLINE void store_server::find_hanging() {
  std::uint64_t const now = monotonic_nanoseconds();
  std::uint64_t stuck = 0;
  std::uint64_t most = 0;
  std::uint64_t replay = 0;       // 1 + what a rank has done that waits in one
  member const* first = nullptr;  // the call that the others should have made, too
  for (member* m : members_) {
    if (!m->joined || m->ended || m->lost) continue;
    if (m->state.called > most) most = m->state.called;
    if (m->state.replay != 0) replay = m->state.replays + 1;
    if (!m->answered && now - m->last_heard > 1000 * milliseconds) {
      m->lost = true;
      m->failure = "does not answer: stopped, or its host is gone";
    } else if (m->state.waits.number != 0 && (stuck == 0 || m->state.waits.number < stuck)) {
      stuck = m->state.waits.number;
      first = m;
    }
  }
  for (member* m : members_) {  // all replay the same graphs
    if (!m->joined || m->lost || replay == 0 || m->state.replay != 0) continue;
    if (m->state.replays > replay - 1) continue;
    m->lost = true;
    m->failure = m->ended ? "has ended, and not begun a replay" : "has not begun a replay";
  }
  for (member* m : members_) {
    if (first != nullptr || !m->joined || !m->ended || m->state.called >= most) continue;
    m->lost = true;
    m->failure = "has ended, and others wait for it";
  }
  if (first == nullptr) return;
  for (member* m : members_) {
    if (!m->joined || m->lost) continue;
    if (m->state.called < stuck) {
      m->lost = true;
      m->failure = text{m->ended ? "has ended, and not" : "has not"} + " called " +
                   call_text(first->state.waits);
    } else if (m->state.waits.number == stuck && !same_call(m->state.waits, first->state.waits)) {
      m->lost = true;
      m->failure = text{"has called "} + call_text(m->state.waits) + ", but rank " +
                   first->process.rank + " " + call_text(first->state.waits) +
                   ": all ranks must call the same, of the same size and type";
    }
  }
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void store_server::end_report() {
  report_at_ = 0;
  if (hangs_) find_hanging();
  text report = "";
  array<std::int32_t> lost;
  for (member* m : members_) {
    if (!m->joined || !m->lost) continue;
    lost.push_back(m->process.rank);
    if (lost.size() > 4) continue;  // of a text's 999 characters
    if (!report.empty()) report += "; ";
    report += process_text(m->process) + " " + (m->failure.empty() ? reason_ : m->failure) +
              "; last: " + call_text(m->state.last);
  }
  if (lost.size() > 4) {
    report += text{"; "} + static_cast<unsigned long long>(lost.size() - 4) + " further ranks lost";
  }
  if (lost.empty()) report = reason_;
  // Those that wait, together where they wait in the same call.
  array<int> done;
  array<int> replaying;
  for (member* m : members_) {
    if (!m->joined || m->ended || m->lost) continue;
    if (m->state.replay != 0) replaying.push_back(m->process.rank);
    bool first = m->state.waits.number != 0;
    array<int> together;
    for (member* other : members_) {
      if (!other->joined || other->ended || other->lost ||
          other->state.waits.number != m->state.waits.number) {
        continue;
      }
      first = first && (together.size() != 0 || other == m);
      together.push_back(other->process.rank);
    }
    if (!first) continue;
    report += text{"; "} + ranks_text(together) +
              (together.size() == 1 ? " waits in " : " wait in ") + call_text(m->state.waits);
  }
  if (!replaying.empty()) {
    report += text{"; "} + ranks_text(replaying) +
              (replaying.size() == 1 ? " waits in a replay" : " wait in a replay");
  }
  std::size_t const ranks_bytes = lost.size() * sizeof(std::int32_t);
  array<char> message;
  message.resize(ranks_bytes + std::strlen(report.c_str()) + 1);
  if (ranks_bytes != 0) std::memcpy(message.begin(), lost.begin(), ranks_bytes);
  std::memcpy(message.begin() + ranks_bytes, report.c_str(), message.size() - ranks_bytes);
  reported_ = true;
  hangs_ = false;
  send_all(message_kind::lost, lost.size(), message.begin(), message.size());
}

}  // namespace detail

WARPWRIGHT_END_DEFINITIONS
