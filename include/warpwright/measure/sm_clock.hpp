// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The clock rate of a GPU's multiprocessors while samples are taken, read by a kernel:
//
//   ww::event_stopwatch stopwatch;
//   ww::sm_clock clock;
//   auto const m = ww::measure(stream, step, {}, stopwatch, clock);
//   if (m.throttled_samples > 0) …
#pragma once

#include <warpwright/core/detail/exchange.hpp>
#include <warpwright/core/launch.hpp>
#include <warpwright/core/stream.hpp>

#include <cstddef>

WARPWRIGHT_BEGIN

namespace detail {

struct sm_clock_reading {
  unsigned long long ticks;        // of the multiprocessor's clock; 0: not a GPU
  unsigned long long nanoseconds;  // of the GPU's clock of real time
  unsigned multiprocessor;
};

// The rate between two readings in Hz; 0 where they do not tell it.
inline double sm_clock_rate(sm_clock_reading const& begin, sm_clock_reading const& end) noexcept {
  // The counters of two multiprocessors do not start at the same time.
  if (begin.multiprocessor != end.multiprocessor) return 0.0;
  if (end.ticks <= begin.ticks || end.nanoseconds <= begin.nanoseconds) return 0.0;
  return 1e9 * static_cast<double>(end.ticks - begin.ticks) /
         static_cast<double>(end.nanoseconds - begin.nanoseconds);
}

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

struct read_sm_clock : kernel_base<1> {
  sm_clock_reading* reading;

  explicit read_sm_clock(sm_clock_reading* to) : reading{to} {}

  template <class Block>
  WARPWRIGHT_HOST_DEVICE void operator()(Block& block) const {
    block.for_each_thread([&](unsigned) {
#if defined(__CUDA_ARCH__)
      asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(reading->nanoseconds));
      asm volatile("mov.u64 %0, %%clock64;" : "=l"(reading->ticks));
      asm volatile("mov.u32 %0, %%smid;" : "=r"(reading->multiprocessor));
#else
      *reading = sm_clock_reading{};
#endif
    });
  }
};

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace detail

WARPWRIGHT_END
WARPWRIGHT_BEGIN_PER_COMPILER

/// Reads the clock rate of a multiprocessor around each sample, for measure(). Not copyable.
///
/// It needs no privilege and no NVML. On the host runtime the rate is not known.
/// **Threads:** one at a time, and one stream at a time.
class sm_clock {
 public:
  /// @throws cuda_error if page-locked memory cannot be allocated
  /// **Capture:** not legal. **Cost:** one cudaMallocHost.
  explicit sm_clock(source_location where = source_location::current()) : where_{where} {
    void* memory = nullptr;
    check(cudaMallocHost(&memory, 2 * sizeof(detail::sm_clock_reading)), "cudaMallocHost", where);
    readings_ = static_cast<detail::sm_clock_reading*>(memory);
    readings_[0] = readings_[1] = detail::sm_clock_reading{};
  }
  sm_clock(sm_clock const&) = delete;
  sm_clock& operator=(sm_clock const&) = delete;
  ~sm_clock() { detail::discard(cudaFreeHost(readings_)); }

  /// Reads the clock at the beginning of a sample.
  /// @param stream  the stream of the sample
  /// @throws cuda_error if the launch fails
  /// **Stream:** one kernel of one thread on `stream`; does not block. **Capture:** not legal.
  template <typename Kernel = detail::read_sm_clock>
  void start(stream_ref stream) {
    read<Kernel>(stream, 0);
  }

  /// Reads the clock at the end of a sample.
  /// @param stream  the stream of start()
  /// @return the mean rate since start() in Hz; 0: not known, as on the host runtime or where the
  ///   two kernels ran on different multiprocessors
  /// @throws cuda_error if the launch fails, or for an error of the stream's work
  /// **Stream:** one kernel of one thread on `stream`; blocks. **Capture:** not legal.
  template <typename Kernel = detail::read_sm_clock>
  double stop(stream_ref stream) {
    read<Kernel>(stream, 1);
    stream.synchronize(where_);
    return detail::sm_clock_rate(readings_[0], readings_[1]);
  }

 private:
  // A template, since a file without kernels may include the header.
  template <typename Kernel>
  void read(stream_ref stream, std::size_t index) {
    detail::launch_blocks(stream, 1, 1, Kernel{readings_ + index}, "sm_clock", where_);
  }

  detail::sm_clock_reading* readings_ = nullptr;
  source_location where_;
};

WARPWRIGHT_END_PER_COMPILER
