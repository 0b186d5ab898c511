// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// PyTorch's caching allocator under the passes of memory_replay_bench. torch_replay.py compiles
// this file against the PyTorch that it finds, and calls its C functions; it is no part of CMake's
// build.
//
// The allocator is the process's: a new one is one whose cache is empty. Its calls are those below
// of at::empty and of a tensor's end, with the stream as an argument instead of the current stream.
// A block goes back to the stream that it was allocated on, whichever stream frees it. PyTorch
// leaves the order of that stream and the freeing one to the program, and so does this replay.
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "replay_passes.hpp"
#include "trace_file.hpp"  // of tools/warpwright_replay

namespace {

namespace caching = c10::cuda::CUDACachingAllocator;

// Without the memory that the process held before it.
class torch_allocator final : public bench_support::any_allocator {
 public:
  explicit torch_allocator(replay::stream_set& streams)
      : device_{static_cast<c10::DeviceIndex>(warpwright::current_device().value())} {
    for (std::uint32_t i = 0; i < streams.size(); ++i) streams_.push_back(streams[i].get());
    if (!caching::get()->initialized()) caching::init(warpwright::device_count());
    caching::emptyCache();
    caching::resetPeakStats(device_);
    before_ = reserved().current;
  }
  ~torch_allocator() override { caching::emptyCache(); }  // while its streams exist
  void* allocate(std::uint32_t stream, std::size_t bytes) override {
    try {
      return caching::raw_alloc_with_stream(bytes, streams_[stream]);  // null for 0 bytes
    } catch (c10::OutOfMemoryError const&) {
      return nullptr;
    }
  }
  void deallocate(std::uint32_t, std::uint32_t, void* pointer, std::size_t) override {
    caching::raw_delete(pointer);
  }
  /// Not its CUDA calls: PyTorch counts only those that take memory or give it back.
  [[nodiscard]] replay::allocator_counters counters() const override {
    replay::allocator_counters f;
    f.reserved_bytes = static_cast<std::uint64_t>(reserved().current - before_);
    f.reserved_peak_bytes = static_cast<std::uint64_t>(reserved().peak - before_);
    return f;
  }

 private:
  [[nodiscard]] c10::CachingAllocator::Stat reserved() const {
    auto const all = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    return caching::getDeviceStats(device_).reserved_bytes[all];
  }

  c10::DeviceIndex device_;
  std::vector<cudaStream_t> streams_;
  std::int64_t before_ = 0;
};

std::deque<replay::trace> traces;  // a trace's address is its key
std::string failure;

template <class Act>
int status_of(Act const& act) {
  try {
    act();
    return 0;
  } catch (c10::Error const& e) {
    failure = e.what_without_backtrace();
  } catch (std::exception const& e) {
    failure = e.what();
  }
  return 1;
}

}  // namespace

extern "C" {

/// Of a trace; the layout is torch_replay.py's.
struct torch_replay_trace {
  std::uint64_t operations;
  std::uint64_t peak_live_bytes;
  std::uint32_t streams;
};

/// Of one trace in one mode.
struct torch_replay_result {
  double loop_ns;
  std::uint64_t peak_reserved_bytes;
};

/// Why the last call returned another value than 0.
char const* torch_replay_failure() { return failure.c_str(); }

/// Reads a trace, uncompressed, without a call of CUDA. Traces are counted from 0.
int torch_replay_read(char const* path, torch_replay_trace* to) {
  return status_of([&] {
    traces.push_back(replay::read_trace(path));
    replay::trace const& read = traces.back();
    *to = {read.operations.size(), read.peak_live_bytes, read.streams};
  });
}

/// @param cold  ns an operation in the first pass of each round
/// @param warm  the same of the later ones: rounds * (passes - 1)
int torch_replay_measure(unsigned trace, int busy, unsigned passes, unsigned rounds, double* cold,
                         double* warm, torch_replay_result* to) {
  return status_of([&] {
    replay::trace const& what = traces.at(trace);
    bench_support::replay_result const r = bench_support::measure(
        what,
        [](replay::stream_set& streams) { return std::make_unique<torch_allocator>(streams); },
        busy != 0, {passes, rounds});
    std::copy(r.cold.begin(), r.cold.end(), cold);
    std::copy(r.warm.begin(), r.warm.end(), warm);
    *to = {bench_support::loop_nanoseconds(what, busy != 0), r.peak_reserved_bytes};
  });
}

}  // extern "C"
