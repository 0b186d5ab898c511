// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The staging_options with which copies are fastest on a machine.
#pragma once

#include <warpwright/core/detail/capture/capture_guard.hpp>
#include <warpwright/core/detail/clock.hpp>
#include <warpwright/memory/staging.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>

namespace measure_staging {

namespace ww = warpwright;

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

/// The settings of a staging object that measure() chooses.
struct staging_settings {
  unsigned threads = 1;
  std::size_t direct_bytes = 0;
  std::size_t bytes_per_helper = 0;
};

/// What a copy would take with the settings.
inline double staging_time(staging_times const& times, staging_times::row const& row,
                           staging_settings const& settings) noexcept {
  if (row.bytes <= settings.direct_bytes) return row.alone;
  if (settings.threads == 1) return row.by_cuda;
  std::size_t const useful = 2 + row.bytes / settings.bytes_per_helper;
  std::size_t const used = useful < settings.threads ? useful : settings.threads;
  // Between two numbers of threads that were measured: what the slower of them takes.
  unsigned above = 0;
  while (times.threads[above] < used) ++above;
  double const time = row.helped[above];
  if (times.threads[above] == used) return time;
  double const below = row.helped[above - 1];
  return below > time ? below : time;
}

/// The sum over all copies, each in relation to the fastest one of its size.
inline double staging_cost(staging_times const& times, staging_settings const& settings) noexcept {
  double sum = 0;
  for (unsigned r = 0; r < times.rows; ++r) {
    staging_times::row const& row = times.row_of[r];
    double fastest = row.alone < row.by_cuda ? row.alone : row.by_cuda;
    for (unsigned c = 0; c < times.columns; ++c) {
      if (row.helped[c] < fastest) fastest = row.helped[c];
    }
    sum += staging_time(times, row, settings) / fastest;
  }
  return sum;
}

/// Calls visit(settings) for all that come into question, the preferred ones first, until it
/// returns true.
template <class Visit>
void for_each_staging_settings(staging_times const& times, Visit const& visit) noexcept {
  constexpr std::size_t most = std::size_t{16} << 20U;
  constexpr std::size_t least = std::size_t{64} << 10U;
  for (unsigned c = 0; c <= times.columns; ++c) {
    for (unsigned i = 0; i <= times.rows; ++i) {
      unsigned const r = times.rows - i;
      for (std::size_t helper = most; helper >= least; helper /= 2) {
        staging_settings settings;
        settings.threads = c == 0 ? 1 : times.threads[c - 1];
        settings.direct_bytes = r == 0 ? times.row_of[0].bytes / 2 : times.row_of[r - 1].bytes;
        settings.bytes_per_helper = helper;
        if (visit(settings)) return;
      }
    }
  }
}

/// Chooses the settings with which the measured copies take the least time, each in relation to its
/// fastest one. Of those within 2 % of that: the fewest threads, then the largest direct_bytes,
/// then the largest bytes_per_helper. @pre there is a row, and no time is 0
inline staging_settings choose_staging(staging_times const& times) noexcept {
  double least = -1;
  for_each_staging_settings(times, [&](staging_settings const& each) {
    double const cost = staging_cost(times, each);
    if (least < 0 || cost < least) least = cost;
    return false;
  });
  staging_settings chosen;
  for_each_staging_settings(times, [&](staging_settings const& each) {
    chosen = each;
    return staging_cost(times, each) <= 1.02 * least;
  });
  return chosen;
}

/// The arrays that are copied.
class staging_measurement {
 public:
  static constexpr std::size_t most_bytes = std::size_t{16} << 20U;

  explicit staging_measurement(ww::source_location where)
      : where_{where}, stream_{ww::current_device(where), 0, where} {
    ww::check(cudaMalloc(&device_, most_bytes), "cudaMalloc", where);
    try {
      host_ = ::operator new(most_bytes);
      std::memset(host_, 1, most_bytes);
      ww::check(cudaMemsetAsync(device_, 1, most_bytes, stream_.get()), "cudaMemsetAsync", where);
      stream_.synchronize(where);
    } catch (...) {
      free();
      throw;
    }
  }
  ~staging_measurement() { free(); }
  staging_measurement(staging_measurement const&) = delete;
  staging_measurement& operator=(staging_measurement const&) = delete;

  /// The median time of some copies, in nanoseconds.
  double time(ww::staging& object, bool to_device, std::size_t bytes) {
    constexpr unsigned count = 5;
    std::uint64_t sorted[count] = {};
    for (unsigned i = 0; i <= count; ++i) {
      std::uint64_t const begin = ww::detail::monotonic_nanoseconds();
      if (to_device) {
        object.copy_to_device(stream_, device_, host_, bytes, where_);
        stream_.synchronize(where_);
      } else {
        object.copy_to_host(stream_, host_, device_, bytes, where_);
      }
      std::uint64_t const time = ww::detail::monotonic_nanoseconds() - begin;
      if (i == 0) continue;  // it brings the memory to the caches
      unsigned at = i - 1;
      for (; at > 0 && sorted[at - 1] > time; --at) sorted[at] = sorted[at - 1];
      sorted[at] = time;
    }
    return static_cast<double>(sorted[count / 2] + 1);
  }

 private:
  // The staging objects have synchronised, or a copy of theirs has failed.
  void free() noexcept {
    ww::detail::discard(cudaStreamSynchronize(stream_.get()));
    ww::detail::discard(cudaFree(device_));
    ::operator delete(host_);
  }

  ww::source_location where_;
  ww::stream stream_;
  void* device_ = nullptr;
  void* host_ = nullptr;
};

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
inline ww::staging_options measure(ww::pinned_pool& pool, ww::staging_options const& base = {},
                                   ww::source_location where = ww::source_location::current()) {
  using times_type = staging_times;
  unsigned const most =
      base.threads() != 0 ? base.threads() : ww::detail::staging_workers::default_threads();
  constexpr std::size_t all = ~std::size_t{0};
  // This one checks the options, and has the pool allocate the memory of all.
  ww::detail::relaxed_capture_mode const relaxed{where};
  alignas(ww::staging) unsigned char memory[sizeof(ww::staging)];
  struct owner {
    ww::staging* object = nullptr;
    ~owner() { reset(); }
    void reset() noexcept {
      if (object != nullptr) object->~staging();
      object = nullptr;
    }
  } now;
  auto const make = [&](ww::staging_options const& options) -> ww::staging& {
    now.reset();
    now.object = ::new (static_cast<void*>(memory)) ww::staging{pool, options, where};
    return *now.object;
  };
  make(base.threads(most).direct_bytes(all));
  staging_measurement arrays{where};
  times_type times;
  for (std::size_t const bytes : {std::size_t{256} << 10U, std::size_t{1} << 20U,
                                  std::size_t{4} << 20U, staging_measurement::most_bytes}) {
    times.row_of[times.rows++].bytes = bytes;
    times.row_of[times.rows++].bytes = bytes;
  }
  for (unsigned n = 2; most > 1 && times.columns < times_type::most_columns; n *= 2) {
    times.threads[times.columns++] = n < most ? n : most;
    if (n >= most) break;
  }
  auto const measure = [&](auto const& of) {
    for (unsigned r = 0; r < times.rows; ++r) {
      times_type::row& row = times.row_of[r];
      of(row) = arrays.time(*now.object, r % 2 == 0, row.bytes);
    }
  };
  measure([](times_type::row& row) -> double& { return row.alone; });
  for (unsigned c = times.columns; c > 0; --c) {
    make(base.threads(times.threads[c - 1]).direct_bytes(1).bytes_per_helper(4096));
    measure([c](times_type::row& row) -> double& { return row.helped[c - 1]; });
  }
  make(base.threads(1).direct_bytes(1));
  measure([](times_type::row& row) -> double& { return row.by_cuda; });
  staging_settings const chosen = choose_staging(times);
  return base.threads(chosen.threads)
      .direct_bytes(chosen.direct_bytes)
      .bytes_per_helper(chosen.bytes_per_helper);
}

}  // namespace measure_staging
