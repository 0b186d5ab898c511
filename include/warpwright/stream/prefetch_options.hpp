// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/error.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

WARPWRIGHT_BEGIN

/// Options of a prefetcher or a result_collector. Every setter returns a changed copy.
class prefetch_options {
 public:
  /// The maximum number of batches in the ring.
  static constexpr unsigned max_depth = 64;

  /// The number of threads that call the source; a result_collector has one, whatever this says.
  /// @param count  1 to 61; default: 2
  [[nodiscard]] constexpr prefetch_options workers(unsigned count) const noexcept {
    prefetch_options copy = *this;
    copy.workers_ = count;
    return copy;
  }
  /// The number of batches in the ring at first: those that are filled, copied, waiting and in use.
  /// @param count  2 to 64; default: workers + 3
  [[nodiscard]] constexpr prefetch_options depth(unsigned count) const noexcept {
    prefetch_options copy = *this;
    copy.depth_ = count;
    copy.has_depth_ = true;
    return copy;
  }
  /// The size up to which the ring grows where the times of source and caller vary so that now the
  /// one waits, now the other. As much page-locked memory is used, and as much device memory.
  /// @param bytes  0: it never grows; default: twice the first depth. At most 64 batches
  [[nodiscard]] constexpr prefetch_options maximum_bytes(std::size_t bytes) const noexcept {
    prefetch_options copy = *this;
    copy.maximum_bytes_ = bytes;
    copy.has_maximum_ = true;
    return copy;
  }

  /// @return the number of threads that call the source
  [[nodiscard]] constexpr unsigned workers() const noexcept { return workers_; }
  /// @return the number of batches in the ring at first
  [[nodiscard]] constexpr unsigned first_depth() const noexcept {
    return has_depth_ ? depth_ : workers_ + 3;
  }
  /// @return the number of batches that the ring may grow to
  [[nodiscard]] constexpr unsigned most_slots(std::size_t slot_bytes) const noexcept {
    unsigned const depth = first_depth();
    unsigned const twice = 2 * depth < max_depth ? 2 * depth : max_depth;
    if (!has_maximum_ || slot_bytes == 0) return twice;
    std::size_t const slots = maximum_bytes_ / slot_bytes;
    if (slots <= depth) return depth;
    return slots < max_depth ? static_cast<unsigned>(slots) : max_depth;
  }
  /// @return `capacity`
  /// @throws std::invalid_argument  for a value out of range, or a batch without elements
  std::size_t checked(char const* who, std::size_t capacity, source_location where) const {
    if (capacity == 0) {
      detail::throw_invalid_argument(
          detail::text{who} + ": a batch has room for 0 elements; give at least 1", where);
    }
    if (workers_ == 0 || workers_ > max_depth - 3) {
      detail::throw_invalid_argument(detail::text{who} + ": " + workers_ +
                                         " workers; prefetch_options::workers() takes 1 to 61",
                                     where);
    }
    if (first_depth() < 2 || first_depth() > max_depth) {
      detail::throw_invalid_argument(detail::text{who} + ": a depth of " + first_depth() +
                                         " batches; prefetch_options::depth() takes 2 to 64",
                                     where);
    }
    return capacity;
  }

 private:
  unsigned workers_ = 2;
  unsigned depth_ = 0;
  std::size_t maximum_bytes_ = 0;
  bool has_depth_ = false;
  bool has_maximum_ = false;
};

/// What decides how fast batches go through.
enum class prefetch_limit {
  unknown,  ///< fewer than two batches were taken
  source,   ///< the workers, in the source; of results the thread in the sink
  copy,     ///< the link between host and device
  caller,   ///< the work with the batches
  depth     ///< none of them is always busy: their times vary, and the ring is too short
};

/// What a prefetcher or a result_collector has done.
struct prefetch_statistics {
  std::uint64_t batches = 0;           ///< that the caller has taken
  std::uint64_t bytes = 0;             ///< in these
  double seconds = 0.0;                ///< from the caller's first batch to its last one
  double source_seconds = 0.0;         ///< in the source, of all workers together; or in the sink
  double worker_wait_seconds = 0.0;    ///< the workers had nothing to fill, or nothing to read
  double caller_wait_seconds = 0.0;    ///< the caller's thread waited for a batch
  double starved_seconds = 0.0;        ///< of these, while its stream was idle
  double copy_bytes_per_second = 0.0;  ///< of the copies that were timed; 0: none yet
  unsigned workers = 0;                ///< threads that call the source or the sink
  unsigned depth = 0;                  ///< batches in the ring now
  std::size_t slot_bytes = 0;          ///< room of one batch
  bool of_results = false;             ///< of a result_collector

  /// @return the rate of the batches that were taken, in bytes per second; 0 before the second
  [[nodiscard]] double bytes_per_second() const noexcept {
    return seconds > 0.0 ? static_cast<double>(bytes) / seconds : 0.0;
  }
  /// @return the rate of all workers together if they never waited; 0 if it is not known
  [[nodiscard]] double source_bytes_per_second() const noexcept {
    return source_seconds > 0.0 ? static_cast<double>(bytes) * workers / source_seconds : 0.0;
  }
  /// @return the part of the time in which the workers were in the source, 0 to 1
  [[nodiscard]] double source_share() const noexcept {
    double const all = seconds * workers;
    return all > 0.0 ? at_most_one(source_seconds / all) : 0.0;
  }
  /// @return the part of the time in which the link copied, 0 to 1
  [[nodiscard]] double copy_share() const noexcept {
    return copy_bytes_per_second > 0.0 ? at_most_one(bytes_per_second() / copy_bytes_per_second)
                                       : 0.0;
  }
  /// @return the part of the time in which the caller's stream had no work, for lack of a batch
  [[nodiscard]] double starved_share() const noexcept {
    return seconds > 0.0 ? at_most_one(starved_seconds / seconds) : 0.0;
  }
  /// @return what decides how fast batches go through
  [[nodiscard]] prefetch_limit limit() const noexcept {
    constexpr double busy = 0.8;
    if (batches < 2 || seconds <= 0.0) return prefetch_limit::unknown;
    if (copy_share() >= busy && copy_share() >= source_share()) return prefetch_limit::copy;
    if (source_share() >= busy) return prefetch_limit::source;
    return starved_share() < 0.1 ? prefetch_limit::caller : prefetch_limit::depth;
  }
  /// @return the figures and the limit in words, on a few lines
  [[nodiscard]] std::string text() const;

 private:
  static double at_most_one(double share) noexcept { return share < 1.0 ? share : 1.0; }
};

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/stream/detail/transfer/prefetch_text_definitions.hpp>
#endif
