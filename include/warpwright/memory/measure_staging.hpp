// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/memory/staging.hpp>

WARPWRIGHT_BEGIN

namespace detail {

/// Times of copies of a few sizes, with one thread and with several.
struct staging_times {
  static constexpr unsigned most_rows = 8;
  static constexpr unsigned most_columns = 8;
  struct row {
    std::size_t bytes = 0;
    // Any unit, the same in a row:
    double alone = 0;                  // by the caller, in pieces
    double by_cuda = 0;                // as an object with one thread copies above direct_bytes
    double helped[most_columns] = {};  // with threads[i] threads
  };

  unsigned rows = 0;
  unsigned columns = 0;
  row row_of[most_rows];
  unsigned threads[most_columns] = {};  // from 2 on, ascending
};

/// The settings of a staging object that measure_staging() chooses.
struct staging_settings {
  unsigned threads = 1;
  std::size_t direct_bytes = 0;
  std::size_t bytes_per_helper = 0;
};

/// Chooses the settings with which the measured copies take the least time, each in relation to its
/// fastest one. Of those within 2 % of that: the fewest threads, then the largest direct_bytes,
/// then the largest bytes_per_helper. @pre there is a row, and no time is 0
staging_settings choose_staging(staging_times const& times) noexcept;

}  // namespace detail

/// Measures how copies of 256 KiB to 16 MiB are fastest on this machine: with how many threads, and
/// from which size on.
///
/// Call it once at start-up, while the machine does nothing else, and give the result to the
/// staging objects of the current device; or print it, and set it.
/// @param pool  provides the slots meanwhile: those of a staging object with `base`
/// @param base  threads() is the maximum; slot_bytes() and slots_per_thread() stay as they are
/// @return `base` with the fastest threads(), direct_bytes() and bytes_per_helper()
/// @throws std::invalid_argument      for options out of range
/// @throws out_of_memory, cuda_error  when slots, events, a stream or 16 MiB of device memory
/// cannot
///   be created, or a copy fails
/// @throws std::runtime_error         when the system cannot start the threads
/// @throws std::bad_alloc             without 16 MiB of host memory
/// **Stream:** uses one of its own. **Threads:** any number may call at once, which measures
/// nothing of use. **Capture:** captures on other streams are not disturbed.
/// **Cost:** some tenths of a second, and the page-locking of the slots.
staging_options measure_staging(pinned_pool& pool, staging_options const& base = {},
                                source_location where = source_location::current());

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/memory/detail/staging/measure_staging_definitions.hpp>
#endif
