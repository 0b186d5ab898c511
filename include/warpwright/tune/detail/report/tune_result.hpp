// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The result of a batch tuner: every size that it measured, the choice and the reasons.
#pragma once

#include <warpwright/core/error.hpp>
#include <warpwright/tune/detail/memory_model.hpp>
#include <warpwright/tune/detail/objective/tuning_objective.hpp>

#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

WARPWRIGHT_BEGIN

/// The outcome of one batch size.
enum class tune_status {
  ok,             ///< ran within all limits
  over_budget,    ///< needs more memory than the budget; not run where that was predicted
  out_of_memory,  ///< ran out of memory, twice
  over_latency,   ///< was not shown to keep the limit of the latency
  failed,         ///< threw another exception, twice (batch_tuner::reject_exceptions())
};

/// The status as the tables print it.
char const* to_string(tune_status status);

/// The figures of one batch size.
struct tune_row {
  std::size_t batch = 0;           ///< items
  double items_per_second = 0.0;   ///< batch / seconds_per_batch; 0: not run to completion
  double seconds_per_batch = 0.0;  ///< of batches run back to back: the mean without the extremes
  double slowdown = 1.0;  ///< how much slower the device was than at first, as another size
                          ///< told: the two figures above have been divided by it
  /// Half of the interval of 95 % of this size's own throughput, as a fraction of it. Where
  /// `interleaved`, the throughput is that of the size it was compared with, times their ratio: the
  /// intervals of both are in it. The best of many noisy sizes seems faster than it is, which the
  /// interval does not count.
  double relative_error = 0.0;
  double latency_median_seconds = 0.0;  ///< of a single batch on an idle device
  double latency_p99_seconds = 0.0;     ///< 99th percentile of the same; of few calls the maximum
  std::size_t samples = 0;              ///< samples behind seconds_per_batch
  std::size_t latency_samples = 0;      ///< calls behind the latencies
  std::size_t latency_over = 0;         ///< those of them over the limit
  bool latency_shown = false;           ///< the calls show that the limit is kept
  std::size_t memory_bytes = 0;         ///< peak memory of all its runs; 0: not known
  bool memory_predicted = false;        ///< memory_bytes is the model's prediction, not measured
  double joules_per_item = 0.0;         ///< energy; 0: not measured
  bool interleaved = false;             ///< compared in turns with the best size
  /// Only where `interleaved`: half of the interval of the ratio of this throughput to that of the
  /// fastest size in its comparison, of a confidence of 95 %, as a fraction of the ratio; 0: it is
  /// the fastest. What slows both down cancels.
  double compared_error = 0.0;
  std::size_t failures = 0;  ///< how often it failed; once is forgiven
  tune_status status = tune_status::ok;
  std::string note;  ///< details of the status: the error's text, or the predicted memory
};

/// How a tune spent its time, in seconds.
struct tune_times {
  double bracketing = 0.0;  ///< sizes doubled, and those tried again
  double refinement = 0.0;  ///< sizes between them
  double comparison = 0.0;  ///< the best sizes in turns
  double latency = 0.0;     ///< calls that show the limit of the latency
  double soak = 0.0;        ///< the independent run of the choice
  /// @return the sum
  [[nodiscard]] double total() const noexcept {
    return bracketing + refinement + comparison + latency + soak;
  }
};

/// Where a result comes from.
enum class tune_source {
  tuned,          ///< a whole tune
  stored,         ///< a tuning_store: nothing was run
  checked_again,  ///< a tuning_store, for other versions: three sizes were run to confirm it
};

/// The source in words.
char const* to_string(tune_source source) noexcept;

/// The result of a tune. Rows are in ascending order of the batch size.
struct tune_result {
  std::vector<tune_row> rows;           ///< every size considered
  std::size_t chosen_index = 0;         ///< index into rows; rows.size(): none is feasible
  std::string explanation;              ///< the reasons of the choice, one line of text
  std::vector<std::string> steps;       ///< what each step of the search found, a line each
  tuning_objective objective{};         ///< the objective that was set
  std::size_t memory_budget_bytes = 0;  ///< the budget that was set; 0: none
  double tolerance = 0.0;      ///< the fraction of the best throughput given up for a smaller size
  memory_model memory{};       ///< the model behind the predictions
  std::size_t wave_items = 0;  ///< items that the device works on at once; 0: no steps were found
  double elapsed_seconds = 0.0;             ///< of the whole tune
  tune_times times{};                       ///< the same by kind
  bool stopped_early = false;               ///< by max_seconds or stop_when
  tune_source source = tune_source::tuned;  ///< another one only with a stored_tuner
  std::vector<std::string> warnings;        ///< what went wrong with its store

  /// The chosen row.
  /// @throws std::logic_error if there is none, as in the result of a no_feasible_batch
  [[nodiscard]] tune_row const& chosen() const;
};

/// Formats the result as a table for a terminal, with an arrow at the chosen row and the
/// explanation below.
///
/// @param result  a finished tune
/// @return lines of plain ASCII, each with its newline
std::string to_text(tune_result const& result);

/// Thrown when no batch size fits the budget and meets the latency limit; what() has the whole
/// table.
///
/// An exception, and not a result without a choice, so that a service cannot start with a size that
/// was not chosen.
class no_feasible_batch : public std::runtime_error {
 public:
  /// @param result  all rows, with no choice
  explicit no_feasible_batch(tune_result result);

  /// The rows of all sizes; its chosen() throws.
  [[nodiscard]] tune_result const& result() const noexcept { return result_; }

 private:
  tune_result result_;
};

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/tune/detail/report/tune_result_definitions.hpp>
#endif
