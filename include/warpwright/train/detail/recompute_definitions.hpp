// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/train/recompute.hpp>

#include <warpwright/core/detail/container/sort.hpp>
#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/core/detail/text/text.hpp>

#include <cstdint>
#include <utility>

WARPWRIGHT_BEGIN

namespace detail {

/// The choices up to an output that is kept. Of two with the same last output, one is better if it
/// keeps no more bytes and takes no more time; all that are not beaten go on.
class recompute_search : noncopyable {
 public:
  recompute_search(recompute_layer const* layers, std::size_t count, std::size_t budget,
                   std::size_t input)
      : layers_{layers}, count_{count}, budget_{budget} {
    begin_.reserve(count + 2);
    begin_.push_back(0);
    choices_.push_back(choice{input, 0.0, input, 0});
    begin_.push_back(1);
    for (std::size_t last = 1; last <= count; ++last) extend_to(last);
  }

  [[nodiscard]] bool found() const noexcept { return begin_[count_] != begin_[count_ + 1]; }

  /// @pre found()
  void tell(recompute_plan& plan) const {
    std::size_t best = begin_[count_];
    for (std::size_t i = best; i < begin_[count_ + 1]; ++i) {
      if (choices_[i].seconds < choices_[best].seconds) best = i;
    }
    plan.peak_bytes = choices_[best].peak;
    plan.kept_bytes = choices_[best].bytes;
    plan.extra_seconds = choices_[best].seconds;
    plan.kept.resize(count_);
    std::size_t last = count_;
    for (std::size_t i = best; i != 0; i = choices_[i].before) {
      while (i < begin_[last]) --last;
      plan.kept[last - 1] = true;
    }
  }

 private:
  struct choice {
    std::size_t bytes;  // kept
    double seconds;     // extra
    std::size_t peak;
    std::size_t before;  // the choice that it continues
  };

  // Output `last` is kept: layers are numbered from 1 here, and 0 is the input.
  void extend_to(std::size_t last) {
    fresh_.clear();
    std::size_t const own = layers_[last - 1].bytes;
    std::size_t dropped = 0;
    double seconds = 0.0;
    for (std::size_t before = last; before-- > 0;) {
      for (std::size_t i = begin_[before]; i < begin_[before + 1]; ++i) {
        choice const& c = choices_[i];
        std::size_t const here = c.bytes + dropped + own;
        if (here <= budget_) {
          fresh_.push_back(
              choice{c.bytes + own, c.seconds + seconds, here > c.peak ? here : c.peak, i});
        }
      }
      if (before == 0) break;
      dropped += layers_[before - 1].bytes;
      seconds += layers_[before - 1].seconds;
      if (dropped + own > budget_) break;
    }
    keep_best();
    begin_.push_back(choices_.size());
  }

  // By bytes, then time: each must take less time than all before it.
  void keep_best() {
    sort(fresh_.begin(), fresh_.size(), [](choice const& a, choice const& b) {
      return a.bytes != b.bytes ? a.bytes < b.bytes : a.seconds < b.seconds;
    });
    double least = 0.0;
    for (std::size_t i = 0; i < fresh_.size(); ++i) {
      if (i != 0 && fresh_[i].seconds >= least) continue;
      least = fresh_[i].seconds;
      choices_.push_back(fresh_[i]);
    }
  }

  recompute_layer const* layers_;
  std::size_t count_;
  std::size_t budget_;
  array<choice> choices_;     // of each last output, one behind another
  array<std::size_t> begin_;  // of the choices of each
  array<choice> fresh_;
};

}  // namespace detail

WARPWRIGHT_COLD WARPWRIGHT_INLINE recompute_plan plan_recompute(recompute_layer const* layers,
                                                                std::size_t count,
                                                                std::size_t budget,
                                                                std::size_t input,
                                                                source_location where) {
  recompute_plan plan;
  std::size_t all = input;
  for (std::size_t i = 0; i < count; ++i) {
    if (!(layers[i].seconds >= 0.0 && layers[i].seconds <= 1e300) ||
        layers[i].bytes > (std::size_t{1} << 62U) - all) {
      detail::throw_invalid_argument(detail::text{"plan_recompute: layer "} + i + " has " +
                                         layers[i].seconds + " s and " + layers[i].bytes +
                                         " bytes; give seconds from 0, and 2^62 bytes at most "
                                         "in all",
                                     where);
    }
    all += layers[i].bytes;
    plan.forward_seconds += layers[i].seconds;
  }
  {
    detail::recompute_search const search{layers, count, budget, input};
    if (search.found() && input <= budget) {
      search.tell(plan);
      return plan;
    }
  }
  std::size_t low = budget;  // too little
  std::size_t high = all;
  while (high - low > 1) {
    std::size_t const middle = low + (high - low) / 2;
    bool const fits =
        input <= middle && detail::recompute_search{layers, count, middle, input}.found();
    (fits ? high : low) = middle;
  }
  detail::throw_invalid_argument(detail::text{"plan_recompute: a budget of "} + budget +
                                     " bytes holds no choice; the least one is " + high,
                                 where);
}

WARPWRIGHT_END
