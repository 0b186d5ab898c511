// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/capture/capture_guard.hpp>
#include <warpwright/core/detail/clock.hpp>
#include <warpwright/memory/measure_staging.hpp>

#include <cstring>
#include <new>

WARPWRIGHT_BEGIN

namespace detail {

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

WARPWRIGHT_INLINE staging_settings choose_staging(staging_times const& times) noexcept {
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

  explicit staging_measurement(source_location where)
      : where_{where}, stream_{current_device(where), 0, where} {
    check(cudaMalloc(&device_, most_bytes), "cudaMalloc", where);
    try {
      host_ = ::operator new(most_bytes);
      std::memset(host_, 1, most_bytes);
      check(cudaMemsetAsync(device_, 1, most_bytes, stream_.get()), "cudaMemsetAsync", where);
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
  double time(staging& object, bool to_device, std::size_t bytes) {
    constexpr unsigned count = 5;
    std::uint64_t sorted[count] = {};
    for (unsigned i = 0; i <= count; ++i) {
      std::uint64_t const begin = monotonic_nanoseconds();
      if (to_device) {
        object.copy_to_device(stream_, device_, host_, bytes, where_);
        stream_.synchronize(where_);
      } else {
        object.copy_to_host(stream_, host_, device_, bytes, where_);
      }
      std::uint64_t const time = monotonic_nanoseconds() - begin;
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
    discard(cudaStreamSynchronize(stream_.get()));
    discard(cudaFree(device_));
    ::operator delete(host_);
  }

  source_location where_;
  stream stream_;
  void* device_ = nullptr;
  void* host_ = nullptr;
};

}  // namespace detail

WARPWRIGHT_INLINE staging_options measure_staging(pinned_pool& pool, staging_options const& base,
                                                  source_location where) {
  using times_type = detail::staging_times;
  unsigned const most =
      base.threads() != 0 ? base.threads() : detail::staging_workers::default_threads();
  constexpr std::size_t all = ~std::size_t{0};
  // This one checks the options, and has the pool allocate the memory of all.
  detail::relaxed_capture_mode const relaxed{where};
  alignas(staging) unsigned char memory[sizeof(staging)];
  struct owner {
    staging* object = nullptr;
    ~owner() { reset(); }
    void reset() noexcept {
      if (object != nullptr) object->~staging();
      object = nullptr;
    }
  } now;
  auto const make = [&](staging_options const& options) -> staging& {
    now.reset();
    now.object = ::new (static_cast<void*>(memory)) staging{pool, options, where};
    return *now.object;
  };
  make(base.threads(most).direct_bytes(all));
  detail::staging_measurement arrays{where};
  times_type times;
  for (std::size_t const bytes : {std::size_t{256} << 10U, std::size_t{1} << 20U,
                                  std::size_t{4} << 20U, detail::staging_measurement::most_bytes}) {
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
  detail::staging_settings const chosen = detail::choose_staging(times);
  return base.threads(chosen.threads)
      .direct_bytes(chosen.direct_bytes)
      .bytes_per_helper(chosen.bytes_per_helper);
}

WARPWRIGHT_END
