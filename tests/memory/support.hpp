// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Helpers of the memory tests: work that waits for a flag, byte patterns on a stream.
#pragma once

#include <warpwright/core/detail/launch/driver_function.hpp>
#include <warpwright/core/launch.hpp>
#include <warpwright/core/stream.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace test_support {

namespace ww = warpwright;

#if WARPWRIGHT_HOST_RUNTIME
/// What holds a stream until it is opened: a host function.
class held_stream {
 public:
  explicit held_stream(ww::stream_ref stream) {
    ww::check(cudaLaunchHostFunc(stream.get(), &held_stream::wait, &open_), "cudaLaunchHostFunc");
  }
  void open() { open_.store(true); }

 private:
  static void CUDART_CB wait(void* flag) {
    auto const end = std::chrono::steady_clock::now() + std::chrono::seconds{10};
    while (!static_cast<std::atomic<bool>*>(flag)->load() &&
           std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::microseconds{100});
    }
  }
  std::atomic<bool> open_{false};
};
#else
/// What holds a stream until it is opened: a wait of the driver for a number in page-locked memory.
/// CUDA runs the host functions of all streams on one thread, where two that wait would block each
/// other.
class held_stream {
 public:
  explicit held_stream(ww::stream_ref stream) : flag_{next_flag()} {
    static wait_value* const function = find_function();
    *flag_ = 0;
    int device = 0;  // whose context may not be the driver's current one yet
    ww::check(cudaGetDevice(&device), "cudaGetDevice");
    ww::check(cudaSetDevice(device), "cudaSetDevice");
    int const result =
        function(stream.get(), reinterpret_cast<std::uintptr_t>(flag_), 1, 0 /* until >= 1 */);
    if (result != 0) throw std::runtime_error{"cuStreamWaitValue32: " + std::to_string(result)};
    late_ = std::thread{[this] {
      std::unique_lock<std::mutex> lock{mutex_};
      ended_.wait_for(lock, std::chrono::seconds{10}, [this] { return end_; });
      open();
    }};
  }
  ~held_stream() {
    {
      std::lock_guard<std::mutex> const lock{mutex_};
      end_ = true;
    }
    ended_.notify_all();
    late_.join();
  }
  void open() { __atomic_store_n(flag_, 1U, __ATOMIC_SEQ_CST); }

 private:
  using wait_value = int(cudaStream_t, unsigned long long, unsigned, unsigned);
  static wait_value* find_function() {
    wait_value* found = nullptr;
    if (!ww::detail::find_driver_function("cuStreamWaitValue32", found)) {
      throw std::runtime_error{"the driver has no cuStreamWaitValue32"};
    }
    return found;
  }
  // Never freed, as cudaFreeHost waits for all streams, and not used twice.
  static unsigned* next_flag() {
    static std::atomic<unsigned> used{0};
    static unsigned* const flags = [] {
      void* memory = nullptr;
      ww::check(cudaHostAlloc(&memory, flag_count * sizeof(unsigned),
                              cudaHostAllocMapped | cudaHostAllocPortable),
                "cudaHostAlloc");
      return static_cast<unsigned*>(memory);
    }();
    return flags + used++ % flag_count;
  }
  static constexpr unsigned flag_count = 65536;
  unsigned* flag_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool end_ = false;
  std::thread late_;  // opens it when a test has failed to
};
#endif

/// Blocks a stream until open() or the gate's destruction, which synchronises the stream. Opens
/// after ten seconds at the latest, so that a test that waits for it fails instead of hanging.
class gate {
 public:
  explicit gate(ww::stream_ref stream) : stream_{stream}, held_{stream} {}
  gate(gate const&) = delete;
  gate& operator=(gate const&) = delete;
  ~gate() {
    open();
    static_cast<void>(cudaStreamSynchronize(stream_.get()));
  }
  void open() { held_.open(); }
  /// Opens after a time in which work that does not wait for the stream would have run.
  void open_late() {
    std::this_thread::sleep_for(std::chrono::milliseconds{30});
    open();
  }

 private:
  ww::stream_ref stream_;
  held_stream held_;
};

/// Enqueues a pause, so that work that does not wait for the stream gets ahead of it.
inline void pause(ww::stream_ref stream) {
  auto* const sleep = +[](void*) { std::this_thread::sleep_for(std::chrono::microseconds{300}); };
  ww::check(cudaLaunchHostFunc(stream.get(), sleep, nullptr), "cudaLaunchHostFunc");
}

inline void fill(ww::stream_ref stream, void* pointer, unsigned char tag, std::size_t bytes) {
  ww::check(cudaMemsetAsync(pointer, tag, bytes, stream.get()), "cudaMemsetAsync");
}

struct expect_bytes {
  unsigned char const* bytes;
  unsigned char tag;
  unsigned* wrong;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const {
    if (bytes[i] != tag) *wrong = 1;
  }
};

/// Enqueues a check that all bytes are `tag`; `wrong` is device memory that only this stream uses.
inline void expect(ww::stream_ref stream, void const* pointer, unsigned char tag, std::size_t bytes,
                   unsigned* wrong) {
  ww::for_each_index(stream, bytes,
                     expect_bytes{static_cast<unsigned char const*>(pointer), tag, wrong});
}

inline std::vector<unsigned char> fetch(ww::stream_ref stream, void const* pointer,
                                        std::size_t bytes) {
  std::vector<unsigned char> values(bytes);
  stream.synchronize();
  ww::check(cudaMemcpy(values.data(), pointer, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
  return values;
}

inline bool all_are(std::vector<unsigned char> const& values, unsigned char tag) {
  for (unsigned char v : values) {
    if (v != tag) return false;
  }
  return true;
}

/// Whether a condition holds within five seconds. CUDA reports the destruction of a graph with a
/// delay.
template <class Condition>
bool eventually(Condition const& condition) {
  for (int i = 0; i < 500; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds{10});
  }
  return false;
}

/// Whether the device can write and read memory of a multiple of 256 bytes: fills all of it, and
/// reads back a little of every MiB.
inline bool is_usable(ww::stream_ref stream, std::uint64_t address, std::uint64_t bytes) {
  constexpr std::uint64_t step = std::uint64_t{1} << 20U;
  auto* const p = reinterpret_cast<unsigned char*>(static_cast<std::uintptr_t>(address));
  fill(stream, p, 5, static_cast<std::size_t>(bytes));
  for (std::uint64_t i = 0; i < bytes; i += step) {
    if (!all_are(fetch(stream, p + i, 256), 5)) return false;
  }
  return all_are(fetch(stream, p + bytes - 256, 256), 5);
}

}  // namespace test_support
