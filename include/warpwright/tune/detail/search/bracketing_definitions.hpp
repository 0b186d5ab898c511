// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The first step of batch_tuner's search: doubles the size until a limit, the end of the range or a
// plateau; tries again what failed; and looks for any size that works where none of these does.
#pragma once

#include <warpwright/tune/detail/search/measure_size_definitions.hpp>

WARPWRIGHT_BEGIN

namespace detail {

// Whether there is time to run a size at all: its first call, warm-up, and a few samples.
WARPWRIGHT_INLINE bool has_time_for(search_state& s, std::size_t batch) {
  return s.has_time(10.0 * s.expected_seconds(batch));
}

// A plateau may be a disturbance, or a clock rate that fell: the best size and the last one are
// measured again. Returns whether the last one is still no better.
WARPWRIGHT_COLD WARPWRIGHT_INLINE bool plateau_stands(search_state& s, std::size_t last) {
  std::size_t const best = s.best();
  if (best == 0 || best == last || !s.is_ok(last)) return true;
  if (!s.has_time(20.0 * s.expected_seconds(last))) return true;
  measure_again(s, best);
  measure_again(s, last);
  if (!s.is_ok(best) || !s.is_ok(last)) return true;
  return s.score(last) <= s.score(best) * (1.0 + s.settings.tolerance);
}

// Doubles from `batch` on. What fails does not end it, as larger sizes may work; but memory over
// the budget does, and three sizes whose fastest call is over the limit.
WARPWRIGHT_COLD WARPWRIGHT_INLINE void double_from(search_state& s, std::size_t batch) {
  search_settings const& settings = s.settings;
  std::vector<double> best;  // after each size that worked
  std::size_t too_slow = 0;
  for (;;) {
    if (evaluate(s, batch)) {
      double const value = s.score(batch);
      best.push_back(best.empty() || value > best.back() ? value : best.back());
    } else if (s.find(batch)->row.status == tune_status::over_budget) {
      std::size_t const fits = largest_fitting(s);
      if (fits != 0 && fits < batch && has_time_for(s, fits)) evaluate(s, fits);
      return;
    } else if (is_too_slow(s, batch) && ++too_slow == 3) {
      return;
    }
    std::size_t const flat = settings.flat_doublings;
    if (flat > 0 && best.size() > flat &&
        best.back() <= best[best.size() - 1 - flat] * (1.0 + settings.tolerance)) {
      if (plateau_stands(s, batch)) return;
      best.clear();
    }
    if (batch >= settings.last) return;
    std::size_t const next = next_size(s, batch);
    if (!has_time_for(s, next)) return;
    batch = next;
  }
}

// Tries failed sizes again, once each and after a disturbance, which must not decide. Returns the
// largest one that works now; 0: none.
WARPWRIGHT_COLD WARPWRIGHT_INLINE std::size_t retry_failed(search_state& s) {
  std::vector<std::size_t> failed;
  for (candidate const& c : s.candidates) {
    if (s.may_retry(c)) failed.push_back(c.row.batch);
  }
  if (failed.empty()) return 0;
  std::size_t working = 0;
  for (candidate const& c : s.candidates) {
    if (usable(c)) ++working;
  }
  bool disturbed = false;
  if (working > 2) {
    outlast_disturbance(s, 0, disturbed);
  } else if (is_too_slow(s, failed[0])) {
    // What the few others took may be part of the disturbance.
    run_until(s, failed[0], s.find(failed[0])->failed_at + search_state::disturbed_seconds);
  }
  std::size_t works = 0;
  for (std::size_t const batch : failed) {
    if (!has_time_for(s, batch)) break;
    if (retry_size(s, batch)) works = batch;
  }
  return works;
}

// The sizes that were measured first may have had another clock rate, or a disturbance. The best
// ones are measured again, shortly, in descending order; what differs, fully.
WARPWRIGHT_COLD WARPWRIGHT_INLINE void check_steady(search_state& s) {
  std::size_t const best = s.best();
  if (best == 0) return;
  double const least = 0.75 * s.score(best);
  std::vector<std::size_t> sizes;
  for (candidate const& c : s.candidates) {
    if (usable(c) && s.score(c.row) >= least) sizes.push_back(c.row.batch);
  }
  for (std::size_t i = sizes.size(); i-- > 0;) {
    std::size_t const batch = sizes[i];
    if (!s.has_time(8.0 * s.expected_seconds(batch))) return;
    double const seconds_before = s.find(batch)->row.seconds_per_batch;
    std::vector<double> samples;
    s.attempt(batch, s.hooks.prepares, [&] {
      std::size_t const repeats = s.at(batch).repeats;
      for (int k = 0; k < 4; ++k) {
        samples.push_back(s.run(batch, repeats) / static_cast<double>(repeats));
      }
    });
    if (!s.is_ok(batch)) continue;
    robust_mean const again = robust_mean::of(samples);
    double const change = again.mean / slowdown(s, batch) / seconds_before - 1.0;
    if (!s.is_ok(batch)) continue;
    double const noise = s.find(batch)->row.relative_error + again.half_width / again.mean;
    double const noticeable = noise > 0.03 ? noise : 0.03;
    if (std::fabs(change) > noticeable && s.has_time(12.0 * again.mean)) measure_again(s, batch);
  }
}

// Tries all sizes until one works: the middles of the doublings, the middles of these, and so on.
// Those that fail are not listed.
WARPWRIGHT_COLD WARPWRIGHT_INLINE bool scan_for_any(search_state& s) {
  constexpr std::size_t most_tries = 50000;
  std::size_t tries = 0;
  bool found = false;
  // Returns false to end the scan.
  auto const try_size = [&](std::size_t batch) {
    if (s.find(batch) != nullptr) return true;
    if (++tries > most_tries || !s.has_time(s.expected_seconds(batch))) return false;
    s.at(batch);
    found = memory_allows(s, batch) && measure_size(s, batch);
    if (!found) s.remove(batch);
    return !found;
  };
  std::size_t const multiple = s.settings.multiple;
  bool more = true;
  for (std::size_t parts = 2; more && parts <= 64; parts *= 2) {
    for (std::size_t begin = s.settings.first; more && begin < s.settings.last;) {
      for (std::size_t i = 1; more && i < parts; i += 2) {
        std::size_t const batch = s.round(begin + begin * i / parts);
        if (batch > begin) more = try_size(batch);
      }
      begin = begin > s.settings.last / 2 ? s.settings.last : 2 * begin;
    }
  }
  for (std::size_t batch = s.settings.first; more && batch <= s.settings.last; batch += multiple) {
    more = try_size(batch);
    if (batch > s.settings.last - multiple) break;
  }
  s.say("no doubled size works: tried " + counted(tries, "other size") +
        (found ? ", and found one that does" : ", and found none that does"));
  return found;
}

// Tries the sizes that the user named, in ascending order, from which the memory is learnt.
WARPWRIGHT_COLD WARPWRIGHT_INLINE void try_preferred(search_state& s) {
  std::size_t batch = 0;
  while ((batch = s.settings.next_preferred(batch)) != 0 && has_time_for(s, batch)) {
    evaluate(s, batch);
  }
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void bracket(search_state& s) {
  if (s.settings.only_preferred) {
    try_preferred(s);
    check_steady(s);
    retry_failed(s);
    return;
  }
  double_from(s, s.settings.first);
  check_steady(s);
  std::size_t const works = retry_failed(s);
  if (works != 0 && works < s.settings.last && works == s.candidates.back().row.batch) {
    // It may have hidden larger ones.
    std::size_t const next = next_size(s, works);
    if (has_time_for(s, next)) double_from(s, next);
  }
  try_preferred(s);
  if (s.best() == 0) {
    // Where the first size is too slow, larger ones are as well.
    if (s.candidates.front().row.status == tune_status::over_latency || !scan_for_any(s)) return;
    double_from(s, s.best());
  }
  std::size_t const best = s.best();
  if (best == 0) return;
  s.say("sizes from " + string_builder(s.candidates.front().row.batch) + " to " +
        string_builder(s.candidates.back().row.batch) + ": best " + string_builder(best) +
        " with " + format_rate(s.find(best)->row.items_per_second) + " items/s");
  if (s.model.points() > 1) {
    double const base = s.model.base_bytes();
    double const item = s.model.bytes_per_item();
    string_builder text = base >= 0.5 ? format_bytes(base) : string_builder{};
    if (item >= 0.5) text += (text.empty() ? "" : " and ") + format_bytes(item) + " an item";
    s.say(text.empty() ? string_builder{"memory: none was allocated"}
                       : "memory: " + string_builder(to_string(s.model.shape())) + ", " + text);
  }
}

}  // namespace detail

WARPWRIGHT_END
