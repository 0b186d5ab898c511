// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Replays a trace on an allocator twice: once with checks, to measure_time memory, and once with
// the allocator's calls only, to measure_time time.
#pragma once

#include "allocators.hpp"
#include "trace_file.hpp"
#include "verifier.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/host_runtime.hpp>
#endif

namespace replay {

/// An allocator failed.
struct replay_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// How a trace is replayed.
struct replay_settings {
  verify_level verify = verify_level::ends;
  bool threads = false;  ///< one thread a stream
  unsigned repeat = 1;   ///< passes over the trace; time is measured over all but the first
  unsigned ahead = 64;   ///< operations that the device may be behind the host in the first replay;
                         ///< 0: no limit
  unsigned samples = 0;  ///< approximate number of points of the curves; 0: none
};

/// One point of the curves over time.
struct sample {
  std::uint64_t operation = 0;
  std::uint64_t live_bytes = 0;  ///< the peak since the previous point
  std::uint64_t reserved_bytes = 0;
  std::uint64_t largest_free_block_bytes = 0;
};

/// The result of one trace on one allocator.
struct result {
  std::string allocator;
  std::uint64_t operations = 0;
  std::uint64_t peak_live_bytes = 0;
  std::uint64_t peak_reserved_bytes = 0;
  double ns_per_op = 0.0;
  double cuda_calls_per_op = 0.0;
  bool has_largest_free_block = false;
  std::vector<sample> curve;
  std::string statistics;  ///< the allocator's counters in the first replay; may be empty
  std::uint64_t errors = 0;
  std::vector<std::string> messages;  ///< of the first errors

  [[nodiscard]] double ratio() const {
    return peak_live_bytes == 0
               ? 0.0
               : static_cast<double>(peak_reserved_bytes) / static_cast<double>(peak_live_bytes);
  }
};

namespace detail {

using steady = std::chrono::steady_clock;

/// The maximum distance of a thread from the slowest, so that threads interleave approximately as
/// in the trace.
inline constexpr std::uint64_t window_operations = 4096;

// Each block's pointer, shared by the threads of a replay.
class block_table {
 public:
  explicit block_table(std::size_t blocks) : pointers_(blocks) { clear(); }
  void clear() {
    for (auto& pointer : pointers_) pointer.store(pending(), std::memory_order_relaxed);
  }
  void put(std::uint32_t block, void* pointer) {
    pointers_[block].store(pointer, std::memory_order_release);
  }
  [[nodiscard]] void* get(std::uint32_t block) const {
    return pointers_[block].load(std::memory_order_acquire);
  }
  static void* pending() {
    static char mark;
    return &mark;
  }

 private:
  std::vector<std::atomic<void*>> pointers_;
};

// Measures the time between resume() and pause(), to exclude what is not the allocator's.
class stopwatch {
 public:
  void resume() { begin_ = steady::now(); }
  void pause() { total_ += steady::now() - begin_; }
  [[nodiscard]] double nanoseconds() const {
    return std::chrono::duration<double, std::nano>(total_).count();
  }

 private:
  steady::time_point begin_;
  steady::duration total_{0};
};

[[noreturn]] inline void out_of_memory(trace const& what, operation const& op,
                                       allocator_counters const& counters) {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  ww::check(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
  std::string text = what.path + ':' + std::to_string(op.line) + ": no memory for " +
                     std::to_string(op.bytes) + " bytes; reserved " +
                     std::to_string(counters.reserved_bytes) + ", the trace's peak " +
                     std::to_string(what.peak_live_bytes) + ", free on the device " +
                     std::to_string(free_bytes) + " of " + std::to_string(total_bytes);
#if WARPWRIGHT_HOST_RUNTIME
  text += ". Raise WARPWRIGHT_HOST_MEMORY_BYTES";
#else
  text += ". Use a larger GPU, or one that nothing else uses";
#endif
  throw replay_error{text};
}

inline std::uint64_t cuda_calls_so_far() {
#if WARPWRIGHT_HOST_RUNTIME
  return ww::testing::total_calls();
#else
  return 0;
#endif
}

}  // namespace detail

/// One trace on one allocator.
template <class Allocator>
class replayer {
 public:
  replayer(trace const& what, replay_settings const& how)
      : trace_{what}, settings_{how}, table_(what.block_bytes.size()) {
    for (std::size_t i = 0; i < what.operations.size(); ++i) {
      operation const& op = what.operations[i];
      if (op.stream >= by_stream_.size()) by_stream_.resize(op.stream + 1);
      by_stream_[op.stream].push_back(static_cast<std::uint32_t>(i));
    }
  }

  /// @throws replay_error     when the allocator is out of memory
  /// @throws ww::cuda_error   when a CUDA call fails
  result run(typename Allocator::options const& options) {
    result r;
    r.allocator = Allocator::name;
    r.operations = trace_.operations.size();
    measure_memory(options, r);
    measure_time(options, r);
    return r;
  }

 private:
  // The first replay: checks, curves and memory.
  void measure_memory(typename Allocator::options const& options, result& r) {
    stream_set streams{trace_.streams};
    Allocator allocator{streams, options};
    verifier checker{static_cast<std::uint32_t>(trace_.block_bytes.size()), settings_.verify};
    std::uint64_t const every =
        settings_.samples == 0 ? 0 : 1 + trace_.operations.size() / settings_.samples;
    std::mutex curve_mutex;
    for (unsigned pass = 0; pass < settings_.repeat; ++pass) {
      table_.clear();
      each_operation([&](std::uint64_t i, detail::stopwatch*) {
        operation const& op = trace_.operations[i];
        if (settings_.ahead != 0 && i % settings_.ahead == 0) streams[op.stream].synchronize();
        if (op.allocates) {
          void* const pointer = allocator.allocate(op.stream, op.bytes);
          if (pointer == nullptr && op.bytes != 0)
            detail::out_of_memory(trace_, op, allocator.counters());
          checker.allocated(op.block, op.line, streams[op.stream], pointer, op.bytes);
          table_.put(op.block, pointer);
        } else {
          void* const pointer = table_.get(op.block);
          std::uint32_t const owner = trace_.block_streams[op.block];
          if (op.crosses) streams.order(op.stream, owner, op.stream);
          checker.freeing(op.block, streams[op.stream], pointer, op.bytes);
          allocator.deallocate(op.stream, owner, pointer, op.bytes);
          table_.put(op.block, nullptr);
        }
        if (every != 0 && pass == 0 && i % every == 0) {
          allocator_counters const f = allocator.counters();
          sample const point{i, checker.take_recent_peak_bytes(), f.reserved_bytes,
                             f.largest_free_block_bytes};
          std::lock_guard<std::mutex> const lock{curve_mutex};
          r.curve.push_back(point);
        }
      });
      free_remaining([&](std::uint32_t block, void* pointer) {
        std::uint32_t const owner = trace_.block_streams[block];
        checker.freeing(block, streams[owner], pointer, trace_.block_bytes[block]);
        allocator.deallocate(owner, owner, pointer, trace_.block_bytes[block]);
      });
    }
    std::sort(r.curve.begin(), r.curve.end(), [](sample const& a, sample const& b) {
      return a.operation < b.operation;  // threads do not sample in order
    });
    r.errors = checker.finish();
    r.messages = checker.messages();
    allocator_counters const f = allocator.counters();
    r.has_largest_free_block = f.has_largest_free_block;
    r.peak_live_bytes = checker.live_peak_bytes();
    r.peak_reserved_bytes = f.reserved_peak_bytes;
    r.statistics = f.statistics;
  }

  // The second replay: the allocator's calls only.
  void measure_time(typename Allocator::options const& options, result& r) {
    stream_set streams{trace_.streams};
    Allocator allocator{streams, options};
    double nanoseconds = 0.0;
    std::uint64_t calls = 0;
    unsigned measured = 0;
    std::atomic<std::uint64_t> orderings{0};
    for (unsigned pass = 0; pass < settings_.repeat; ++pass) {
      table_.clear();
      orderings = 0;
      std::uint64_t const calls_before = detail::cuda_calls_so_far();
      std::uint64_t const counted_before = allocator.counters().cuda_calls;
      std::uint64_t const query_calls = detail::cuda_calls_so_far() - calls_before;
      double const took = each_operation([&](std::uint64_t i, detail::stopwatch* watch) {
        operation const& op = trace_.operations[i];
        if (op.allocates) {
          void* const pointer = allocator.allocate(op.stream, op.bytes);
          if (pointer == nullptr && op.bytes != 0)
            detail::out_of_memory(trace_, op, allocator.counters());
          table_.put(op.block, pointer);
        } else {
          std::uint32_t const owner = trace_.block_streams[op.block];
          if (op.crosses) {  // done by the user, not by the allocator
            watch->pause();
            streams.order(op.stream, owner, op.stream);
            orderings.fetch_add(1, std::memory_order_relaxed);
            watch->resume();
          }
          allocator.deallocate(op.stream, owner, table_.get(op.block), op.bytes);
        }
      });
#if WARPWRIGHT_HOST_RUNTIME
      std::uint64_t const made =
          detail::cuda_calls_so_far() - calls_before - query_calls - 2 * orderings.load();
      static_cast<void>(counted_before);
#else
      static_cast<void>(query_calls);
      std::uint64_t const made = allocator.counters().cuda_calls - counted_before;
#endif
      bool const warm_up = pass == 0 && settings_.repeat > 1;
      if (!warm_up) {
        nanoseconds += took;
        calls += made;
        ++measured;
      }
      for (operation const& op : trace_.operations) {
        if (!op.allocates) table_.put(op.block, nullptr);
      }
      free_remaining([&](std::uint32_t block, void* pointer) {
        std::uint32_t const owner = trace_.block_streams[block];
        allocator.deallocate(owner, owner, pointer, trace_.block_bytes[block]);
      });
    }
    streams.synchronize();
    double const operations =
        static_cast<double>(measured) * static_cast<double>(trace_.operations.size());
    r.ns_per_op = nanoseconds / operations;
    r.cuda_calls_per_op = static_cast<double>(calls) / operations;
  }

  // Frees the blocks that a trace has not freed.
  template <class Free>
  void free_remaining(Free const& free_block) {
    for (std::uint32_t block = 0; block < trace_.block_bytes.size(); ++block) {
      void* const pointer = table_.get(block);
      if (pointer != nullptr) free_block(block, pointer);
      table_.put(block, nullptr);
    }
  }

  // Calls act(i, stopwatch) for every operation. @return the nanoseconds of all threads together
  template <class Act>
  double each_operation(Act const& act) {
    if (!settings_.threads) {
      detail::stopwatch watch;
      watch.resume();
      for (std::uint64_t i = 0; i < trace_.operations.size(); ++i) act(i, &watch);
      watch.pause();
      return watch.nanoseconds();
    }
    return each_operation_by_thread(act);
  }

  template <class Act>
  double each_operation_by_thread(Act const& act) {
    struct alignas(64) progress {
      std::atomic<std::uint64_t> at{0};
    };
    std::vector<progress> all(by_stream_.size());
    std::vector<double> nanoseconds(by_stream_.size(), 0.0);
    std::atomic<bool> stop{false};
    std::exception_ptr failure;
    std::mutex failure_mutex;
    std::atomic<unsigned> ready{0};

    auto const slowest = [&] {
      std::uint64_t least = ~std::uint64_t{0};
      for (progress const& each : all) {
        std::uint64_t const at = each.at.load(std::memory_order_relaxed);
        if (at < least) least = at;
      }
      return least;
    };
    auto const body = [&](std::size_t stream) {
      detail::stopwatch watch;
      try {
        auto const wait_until = [&](auto const& done) {
          if (done()) return;
          watch.pause();
          while (!done() && !stop.load(std::memory_order_relaxed)) std::this_thread::yield();
          watch.resume();
        };
        ready.fetch_add(1);
        while (ready.load() < by_stream_.size() && !stop.load()) std::this_thread::yield();
        watch.resume();
        std::uint64_t checked = 0;
        for (std::uint32_t const i : by_stream_[stream]) {
          if (stop.load(std::memory_order_relaxed)) break;
          all[stream].at.store(i, std::memory_order_relaxed);
          if (i >= checked + detail::window_operations) {
            wait_until([&] {
              checked = slowest();
              return i < checked + detail::window_operations;
            });
          }
          operation const& op = trace_.operations[i];
          if (op.crosses) {
            wait_until([&] { return table_.get(op.block) != detail::block_table::pending(); });
            if (stop.load(std::memory_order_relaxed)) break;
          }
          act(i, &watch);
        }
        watch.pause();
      } catch (...) {
        std::lock_guard<std::mutex> const lock{failure_mutex};
        if (!failure) failure = std::current_exception();
        stop = true;
      }
      all[stream].at.store(~std::uint64_t{0}, std::memory_order_relaxed);
      nanoseconds[stream] = watch.nanoseconds();
    };
    std::vector<std::thread> threads;
    threads.reserve(by_stream_.size());
    std::string not_started;
    try {
      for (std::size_t stream = 0; stream < by_stream_.size(); ++stream)
        threads.emplace_back(body, stream);
    } catch (std::exception const& e) {  // std::system_error, or no memory for the thread's state
      stop = true;                       // started threads wait for the others
      not_started = "thread " + std::to_string(threads.size() + 1) + " of " +
                    std::to_string(by_stream_.size()) + " cannot be started: " + e.what() +
                    "; raise the limits of processes and memory (ulimit), or omit --threads";
    }
    for (std::thread& each : threads) each.join();
    if (failure) std::rethrow_exception(failure);
    if (!not_started.empty()) throw replay_error{trace_.path + ": " + not_started};
    double sum = 0.0;
    for (double const each : nanoseconds) sum += each;
    return sum;
  }

  trace const& trace_;
  replay_settings settings_;
  detail::block_table table_;
  std::vector<std::vector<std::uint32_t>> by_stream_;  // the operations of each stream
};

}  // namespace replay
