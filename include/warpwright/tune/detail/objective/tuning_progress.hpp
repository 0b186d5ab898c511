// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What a batch_tuner reports while it runs.
#pragma once

#include <warpwright/core/detail/text/text.hpp>

#include <cstddef>

WARPWRIGHT_BEGIN

/// What a tuner is doing, in this order.
enum class tuning_phase {
  bracketing,  ///< doubles the size, with small steps until the memory is known
  refinement,  ///< sizes between those
  comparison,  ///< the best sizes in turns
  latency,     ///< calls that show the limit of the latency to be kept
  soak,        ///< an independent run of the choice
};

/// The phase's name.
inline char const* to_string(tuning_phase phase) noexcept {
  constexpr char const* names[] = {"bracketing", "refinement", "comparison", "latency", "soak"};
  return detail::enum_name(names, phase);
}

/// Passed to the callback of batch_tuner::progress().
struct tuning_progress {
  tuning_phase phase = tuning_phase::bracketing;  ///< what is being done
  std::size_t batch = 0;                          ///< the size that runs next
  std::size_t best_batch = 0;                     ///< the best size so far; 0: none
  double best_items_per_second = 0.0;             ///< its throughput
  std::size_t sizes = 0;                          ///< sizes tried so far
  double elapsed_seconds = 0.0;                   ///< since the start of the tune
  double max_seconds = 0.0;                       ///< the most that it may take
};

WARPWRIGHT_END
