// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/options.hpp>
#include <warpwright/core/error.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

WARPWRIGHT_BEGIN

namespace detail {
struct prefetch_settings {
  unsigned workers = 2;
  unsigned depth = 0;
  bool has_depth = false;
  std::size_t max_bytes = 0;
  bool has_max_bytes = false;
};
}  // namespace detail

/// Options of a prefetcher or a result_collector. Every setter returns a changed copy.
class prefetch_options : public detail::options_base<prefetch_options, detail::prefetch_settings> {
 public:
  /// The maximum number of batches in the ring.
  static constexpr unsigned max_depth = 64;

  /// The number of threads that call the source. Not for a result_collector, which has one thread.
  /// @param n  1 to 61; default: 2
  constexpr self workers(unsigned n) const { return with(&values::workers, n); }
  /// The number of batches in the ring at first: those that are filled, copied, waiting and in use.
  /// @param n  2 to 64; default: workers + 3, of a result_collector 5; fewer where max_bytes() has
  ///   no room for them
  constexpr self depth(unsigned n) const {
    return with(&values::depth, n).with(&values::has_depth, true);
  }
  /// The maximum size of the ring. It grows to it, a batch at a time, where the times of source and
  /// caller vary so that now the one waits, now the other; it does not shrink, and when memory was
  /// short once, or to be had only by waiting for a stream, it grows no more. As much page-locked
  /// memory is used, and as much device memory.
  /// @param n  bytes; 0: it stays as it is at first; default: twice that. At most 64 batches
  constexpr self max_bytes(std::size_t n) const {
    return with(&values::max_bytes, n).with(&values::has_max_bytes, true);
  }

  /// @return the number of threads that call the source
  [[nodiscard]] constexpr unsigned workers() const noexcept { return values_.workers; }
  /// @return the number of batches in a prefetcher's ring at first, without max_bytes()
  [[nodiscard]] constexpr unsigned first_depth() const noexcept {
    return first_of(values_.workers + 3);
  }
  /// The same of any ring.
  /// @param slot_bytes     size of a batch
  /// @param default_depth  where depth() was not called
  [[nodiscard]] constexpr unsigned first_slots(std::size_t slot_bytes,
                                               unsigned default_depth) const noexcept {
    unsigned const first = first_of(default_depth);
    if (values_.has_depth || !has_room_limit(slot_bytes)) return first;
    std::size_t const count = values_.max_bytes / slot_bytes;
    return count < first ? static_cast<unsigned>(count) : first;
  }
  /// @return the number of batches that the ring may grow to
  [[nodiscard]] constexpr unsigned most_slots(std::size_t slot_bytes,
                                              unsigned default_depth) const noexcept {
    unsigned const first = first_slots(slot_bytes, default_depth);
    unsigned const twice = 2 * first < max_depth ? 2 * first : max_depth;
    if (!values_.has_max_bytes) return twice;
    if (!has_room_limit(slot_bytes)) return first;
    std::size_t const count = values_.max_bytes / slot_bytes;
    return count < max_depth ? static_cast<unsigned>(count) : max_depth;
  }

  /// @return workers()
  /// @throws std::invalid_argument  for a number out of range
  unsigned checked_workers(char const* who, source_location where) const {
    if (values_.workers == 0 || values_.workers > max_depth - 3) {
      detail::throw_invalid_argument(detail::text{who} + ": " + values_.workers +
                                         " workers; prefetch_options::workers() takes 1 to 61",
                                     where);
    }
    return values_.workers;
  }
  /// @return `capacity`
  /// @throws std::invalid_argument  for a depth out of range, batches without elements, and a
  ///   max_bytes() that the ring is above at first
  std::size_t checked(char const* who, std::size_t capacity, std::size_t element_bytes,
                      unsigned default_depth, source_location where) const {
    if (capacity == 0) {
      detail::throw_invalid_argument(
          detail::text{who} + ": a batch has room for 0 elements; give at least 1", where);
    }
    unsigned const first = first_of(default_depth);
    if (first < 2 || first > max_depth) {
      detail::throw_invalid_argument(detail::text{who} + ": a depth of " + first +
                                         " batches; prefetch_options::depth() takes 2 to 64",
                                     where);
    }
    unsigned const least = values_.has_depth ? first : 2;
    if (has_room_limit(1) && values_.max_bytes / element_bytes / capacity < least) {
      detail::throw_invalid_argument(
          detail::text{who} + ": max_bytes() is " + values_.max_bytes + ", less than " + least +
              " batches of " + capacity + " elements of " + element_bytes +
              " bytes: raise it, or give smaller batches or a lower depth()",
          where);
    }
    return capacity;
  }

 private:
  [[nodiscard]] constexpr unsigned first_of(unsigned default_depth) const noexcept {
    return values_.has_depth ? values_.depth : default_depth;
  }
  [[nodiscard]] constexpr bool has_room_limit(std::size_t slot_bytes) const noexcept {
    return values_.has_max_bytes && values_.max_bytes != 0 && slot_bytes != 0;
  }
};

/// What decides how fast batches go through.
enum class prefetch_limit {
  unknown,  ///< too few batches were taken to tell: the ring had room for most of them
  source,   ///< the workers, in the source; of results the thread in the sink
  copy,     ///< the link between host and device
  caller,   ///< the work with the batches
  depth     ///< none of them is always busy: their times vary, and the ring is too short
};

/// What a prefetcher or a result_collector has done, since the caller has had its first batch or
/// slot.
struct prefetch_statistics {
  std::uint64_t batches = 0;           ///< that the caller has taken, the first one included
  std::uint64_t bytes = 0;             ///< in these
  std::uint64_t first_bytes = 0;       ///< in the first one, where `seconds` begin behind it
  double seconds = 0.0;                ///< from the caller's first batch to its last one; of
                                       ///< results from the first slot to the last call of the sink
  double source_seconds = 0.0;         ///< in the source, of all workers together; or in the sink
  std::uint64_t source_bytes = 0;      ///< that it wrote or read in that time
  double worker_wait_seconds = 0.0;    ///< the workers had nothing to fill, or nothing to read
  double caller_wait_seconds = 0.0;    ///< callers waited for a batch; of several at once the mean
  double starved_seconds = 0.0;        ///< of these, while their streams were idle: an estimate
  double copy_bytes_per_second = 0.0;  ///< of the copies that were timed; 0: none yet
  unsigned workers = 0;                ///< threads that call the source or the sink
  unsigned depth = 0;                  ///< batches in the ring now
  std::size_t slot_bytes = 0;          ///< room of one batch
  bool of_results = false;             ///< of a result_collector

  /// @return the rate in bytes per second, of a prefetcher of the batches behind the first one; 0
  ///   if it is not known yet
  [[nodiscard]] double bytes_per_second() const noexcept {
    return seconds > 0.0 ? static_cast<double>(bytes - first_bytes) / seconds : 0.0;
  }
  /// @return the rate of all workers together if they never waited; 0 if it is not known
  [[nodiscard]] double source_bytes_per_second() const noexcept {
    return source_seconds > 0.0 ? static_cast<double>(source_bytes) * workers / source_seconds
                                : 0.0;
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
  /// @return the part of the time in which the caller waited for a batch or a slot, 0 to 1
  [[nodiscard]] double caller_wait_share() const noexcept {
    return seconds > 0.0 ? at_most_one(caller_wait_seconds / seconds) : 0.0;
  }
  /// @return the part of the time in which the caller's stream had no work, for lack of a batch: an
  ///   estimate, as when it ended its work is not seen
  [[nodiscard]] double starved_share() const noexcept {
    return seconds > 0.0 ? at_most_one(starved_seconds / seconds) : 0.0;
  }
  /// @return what decides how fast batches go through
  [[nodiscard]] prefetch_limit limit() const noexcept {
    constexpr double busy = 0.8;
    constexpr double seldom = 0.05;
    if (batches < 2 || seconds <= 0.0) return prefetch_limit::unknown;
    // The first ones were taken as fast as the ring had room, however long the work with them
    // takes.
    if (batches <= 2 * depth && starved_share() < seldom) {
      return caller_wait_share() < seldom ? prefetch_limit::unknown : prefetch_limit::caller;
    }
    if (copy_share() >= busy && copy_share() >= source_share()) return prefetch_limit::copy;
    if (starved_share() < seldom) return prefetch_limit::caller;
    return source_share() >= busy ? prefetch_limit::source : prefetch_limit::depth;
  }
  /// @return the figures and the limit in words, on a few lines
  [[nodiscard]] std::string to_text() const;

 private:
  static double at_most_one(double share) noexcept { return share < 1.0 ? share : 1.0; }
};

namespace detail {

/// The first line of batch_run::to_text().
std::string batch_run_in_words(std::size_t items, double seconds, double first_batch_seconds);

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/stream/detail/transfer/prefetch_text_definitions.hpp>
#endif
