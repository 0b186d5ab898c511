// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Which ranks are lost, as the store can tell, and what it says of them.
#pragma once

#include <warpwright/core/detail/clock.hpp>
#include <warpwright/scale/detail/rank_messages.hpp>

WARPWRIGHT_BEGIN

namespace detail {

/// What the store knows of a rank.
struct rank_record {
  rank_process process{-1, 0, {}};
  rank_state state{};
  std::uint64_t last_heard = 0;
  bool joined = false;    // is in the group
  bool ended = false;     // has left in good order
  bool done = false;      // and its collectives have completed
  bool answered = false;  // to the question of the report
  bool lost = false;
  text failure = "";

  [[nodiscard]] bool lives() const noexcept { return joined && !ended && !lost; }
  void lose(text const& why) {
    if (failure.empty()) failure = why;
    lost = true;
  }
};

/// @return the record that most are the same as; of several the first one; null: there is none
template <class Record, class Among, class Same>
Record* most_common(array<Record*> const& group, Among among, Same same) {
  Record* best = nullptr;
  std::size_t most = 0;
  for (Record* candidate : group) {
    if (!among(*candidate)) continue;
    std::size_t count = 0;
    std::size_t all = 0;
    for (Record const* other : group) {
      if (!among(*other)) continue;
      ++all;
      count += same(*candidate, *other) ? 1U : 0U;
    }
    if (count > most) best = candidate;
    if (count > most) most = count;
    if (2 * most >= all) break;
  }
  return best;
}

/// Finds the ranks that have called other collectives than most: NCCL may mix up data, and not
/// hang, where sizes or types differ.
/// @param m  that all are compared with
/// @return whether there are any
template <class Record>
WARPWRIGHT_COLD bool find_other_calls(array<Record*> const& group, Record const& m) {
  auto const lives = [](Record const& o) { return o.lives(); };
  auto const same = [](Record const& a, Record const& b) { return !other_calls(a.state, b.state); };
  bool all = true;
  for (Record const* o : group) all = all && (!lives(*o) || same(*o, m));
  if (all || !lives(m)) return false;
  Record const* const usual = most_common(group, lives, same);
  bool found = false;
  for (Record* o : group) {
    if (!lives(*o) || same(*o, *usual)) continue;
    o->lose(text{"has called other collectives up to #"} +
            static_cast<unsigned long long>(o->state.called) + " than rank " + usual->process.rank +
            ": all ranks must call the same, of the same size and type");
    found = true;
  }
  return found;
}

/// Finds the ranks because of which a collective does not end.
template <class Record>
WARPWRIGHT_COLD void find_hanging(array<Record*> const& group) {
  std::uint64_t const now = monotonic_nanoseconds();
  std::uint64_t stuck = ~std::uint64_t{0};  // the first call that somebody waits in
  std::uint64_t most = 0;                   // calls of a rank
  std::uint64_t replay = 0;                 // 1 + what a rank has done that waits in one
  for (Record* m : group) {
    if (!m->lives()) continue;
    if (!m->answered && now - m->last_heard > 1000 * ns_per_ms) {
      m->lose("does not answer: stopped, or its host is gone");
      continue;
    }
    if (m->state.waits.number != 0 && m->state.waits.number < stuck) stuck = m->state.waits.number;
    if (m->state.called > most) most = m->state.called;
    if (m->state.replay > 0 && m->state.replays >= replay) replay = m->state.replays + 1;
  }
  auto const waits = [&](Record const& m) { return m.lives() && m.state.waits.number == stuck; };
  Record const* const usual = most_common(group, waits, [](Record const& a, Record const& b) {
    return same_call(a.state.waits, b.state.waits);
  });
  if (usual == nullptr) stuck = most;
  for (Record* m : group) {
    if (!m->joined || m->lost) continue;
    text const has = m->ended ? "has ended, and not" : "has not";
    if (m->state.replay == 0 && m->state.replays < replay) {  // all replay the same graphs
      m->lose(has + " come to a collective of a replay");
    } else if (m->state.called < stuck && (usual != nullptr || m->ended)) {
      m->lose(has + " called " +
              (usual != nullptr ? call_text(usual->state.waits)
                                : text{"#"} + static_cast<unsigned long long>(stuck)));
    } else if (usual != nullptr && waits(*m) && !same_call(m->state.waits, usual->state.waits)) {
      m->lose(text{"has called "} + full_call_text(m->state.waits) + ", but rank " +
              usual->process.rank + " " + full_call_text(usual->state.waits) +
              ": all ranks must call the same, of the same size and type");
    }
  }
  // Who is stopped or killed while its communicator ends has left in good order before that.
  for (Record const* m : group) {
    if (m->joined && m->lost) return;
  }
  for (Record* m : group) {
    if (usual != nullptr && m->joined && m->ended && !m->answered && m->state.called >= stuck) {
      m->lose(text{"has been stopped or ended before "} + call_text(usual->state.waits) +
              " had completed");
    }
  }
}

/// @param reason  where no rank is known to be lost, or of those without one of their own
/// @param lost    of the ranks that are
template <class Record>
WARPWRIGHT_COLD text report_text(array<Record*> const& group, text const& reason,
                                 array<std::int32_t>& lost) {
  text report = "";
  for (Record const* m : group) {
    if (!m->joined || !m->lost) continue;
    lost.push_back(m->process.rank);
    if (lost.size() > 4) continue;  // of a text's 999 characters
    report += text{lost.size() > 1 ? "; " : ""} + process_text(m->process) + " " +
              (m->failure.empty() ? reason : m->failure) + "; last: " + call_text(m->state.last);
  }
  if (lost.empty()) report = reason;
  if (lost.size() > 4) {
    report += text{"; "} + static_cast<unsigned long long>(lost.size() - 4) + " further ranks lost";
  }
  // Those that wait, together where they wait in the same call: 0 stands for a replay.
  auto const waits = [](Record const& m) {
    return m.lives() && (m.state.replay != 0 || m.state.waits.number != 0);
  };
  auto const number = [](Record const& m) {
    return m.state.replay != 0 ? 0 : m.state.waits.number;
  };
  for (Record const* m : group) {
    if (!waits(*m)) continue;
    array<int> together;
    for (Record const* other : group) {
      if (waits(*other) && number(*other) == number(*m)) together.push_back(other->process.rank);
    }
    if (together.front() != m->process.rank) continue;  // they have been named
    report += text{"; "} + ranks_text(together) +
              (together.size() == 1 ? " waits in " : " wait in ") +
              (number(*m) == 0 ? text{"a replay"} : call_text(m->state.waits));
  }
  return report;
}

}  // namespace detail

WARPWRIGHT_END
