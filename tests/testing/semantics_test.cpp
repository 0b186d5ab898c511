// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Guarantees of the host runtime that cannot be asserted on a GPU: synchronisation, to the
// last byte.
#include <warpwright/core/launch.hpp>
#include <warpwright/testing/host_runtime.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>
#include <vector>

#include "support/catch.hpp"

namespace {

namespace ww = warpwright;

/// Blocks a stream until it is opened.
class gate {
 public:
  explicit gate(cudaStream_t stream) {
    REQUIRE(cudaLaunchHostFunc(
                stream,
                [](void* raw) {
                  while (!static_cast<std::atomic<bool>*>(raw)->load()) std::this_thread::yield();
                },
                &open_) == cudaSuccess);
  }
  ~gate() {
    open();
    cudaDeviceSynchronize();
  }
  gate(gate const&) = delete;
  gate& operator=(gate const&) = delete;
  void open() { open_.store(true); }

 private:
  std::atomic<bool> open_{false};
};

struct fill {
  std::uint32_t* x;
  std::uint32_t value;
  void operator()(std::uint64_t i) const { x[i] = value; }
};

struct add_one_from {
  std::uint32_t* to;
  std::uint32_t const* from;
  void operator()(std::uint64_t i) const { to[i] = from[i] + 1; }
};

constexpr std::size_t count = 1000;

std::uint32_t* device_array() {
  void* p = nullptr;
  REQUIRE(cudaMalloc(&p, count * sizeof(std::uint32_t)) == cudaSuccess);
  return static_cast<std::uint32_t*>(p);
}

// Reads in a stream without dependencies.
std::uint32_t peek(std::uint32_t const* p) {
  std::uint32_t value = 0;
  cudaStream_t s = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking) == cudaSuccess);
  REQUIRE(cudaMemcpyAsync(&value, p, sizeof value, cudaMemcpyDeviceToHost, s) == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(s) == cudaSuccess);
  REQUIRE(cudaStreamDestroy(s) == cudaSuccess);
  return value;
}

cudaStream_t make_stream(unsigned flags, int priority = 0) {
  cudaStream_t s = nullptr;
  REQUIRE(cudaStreamCreateWithPriority(&s, flags, priority) == cudaSuccess);
  return s;
}

// Resets the runtime, which destroys the objects of the previous test.
void begin() { ww::testing::reset_host_runtime(); }

}  // namespace

TEST_CASE("new memory is not zero, for every way to allocate it") {
  begin();
  auto const all_ones = [](void const* device, std::size_t bytes) {
    std::vector<unsigned char> host(bytes, 0);
    REQUIRE(cudaMemcpy(host.data(), device, bytes, cudaMemcpyDefault) == cudaSuccess);
    for (unsigned char byte : host) {
      if (byte != 0xff) return false;
    }
    return true;
  };
  for (std::size_t bytes : {std::size_t{4}, std::size_t{4097}, std::size_t{3} << 20U}) {
    CAPTURE(bytes);
    void *device = nullptr, *pool = nullptr, *managed = nullptr, *pinned = nullptr;
    REQUIRE(cudaMalloc(&device, bytes) == cudaSuccess);
    REQUIRE(cudaMallocAsync(&pool, bytes, cudaStreamLegacy) == cudaSuccess);
    REQUIRE(cudaMallocManaged(&managed, bytes, cudaMemAttachGlobal) == cudaSuccess);
    REQUIRE(cudaMallocHost(&pinned, bytes) == cudaSuccess);
    CHECK(all_ones(device, bytes));
    CHECK(all_ones(pool, bytes));
    CHECK(all_ones(managed, bytes));
    CHECK(all_ones(pinned, bytes));
    // Filled again after a free.
    REQUIRE(cudaMemset(device, 0, bytes) == cudaSuccess);
    REQUIRE(cudaFree(device) == cudaSuccess);
    REQUIRE(cudaMalloc(&device, bytes) == cudaSuccess);
    CHECK(all_ones(device, bytes));
  }
  float as_float = 0;
  std::memset(&as_float, 0xff, sizeof as_float);
  CHECK(std::isnan(as_float));
}

TEST_CASE("kernels of the legacy stream and of blocking streams are ordered both ways") {
  begin();
  std::uint32_t *a = device_array(), *b = device_array(), *c = device_array();
  cudaStream_t const before = make_stream(cudaStreamDefault);
  cudaStream_t const after = make_stream(cudaStreamDefault);
  gate closed{before};
  ww::for_each_index(ww::stream_ref{before}, count, fill{a, 40});
  ww::for_each_index(ww::stream_ref{cudaStreamLegacy}, count, add_one_from{b, a});
  ww::for_each_index(ww::stream_ref{after}, count, add_one_from{c, b});
  CHECK(cudaStreamQuery(after) == cudaErrorNotReady);
  CHECK(peek(c) == 0xffffffffU);
  closed.open();
  REQUIRE(cudaStreamSynchronize(after) == cudaSuccess);
  CHECK(peek(c) == 42);
}

TEST_CASE("a null stream's copy waits for blocking streams") {
  begin();
  std::uint32_t* const a = device_array();
  cudaStream_t const s = make_stream(cudaStreamDefault);
  gate closed{s};
  ww::for_each_index(ww::stream_ref{s}, count, fill{a, 7});
  std::thread opener{[&closed] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    closed.open();
  }};
  std::vector<std::uint32_t> host(count, 0);
  CHECK(cudaMemcpy(host.data(), a, count * 4, cudaMemcpyDeviceToHost) == cudaSuccess);
  opener.join();
  CHECK(host == std::vector<std::uint32_t>(count, 7));
}

TEST_CASE("a non-blocking stream does not wait for a blocked legacy stream, and vice versa") {
  begin();
  std::uint32_t* const a = device_array();
  cudaStream_t const s = make_stream(cudaStreamNonBlocking);
  SECTION("past the legacy stream") {
    gate closed{cudaStreamLegacy};
    ww::for_each_index(ww::stream_ref{s}, count, fill{a, 7});
    REQUIRE(cudaStreamSynchronize(s) == cudaSuccess);
    CHECK(cudaStreamQuery(cudaStreamLegacy) == cudaErrorNotReady);
    CHECK(peek(a) == 7);
  }
  SECTION("the legacy stream past it") {
    gate closed{s};
    ww::for_each_index(ww::stream_ref{cudaStreamLegacy}, count, fill{a, 7});
    REQUIRE(cudaStreamSynchronize(cudaStreamLegacy) == cudaSuccess);
    CHECK(cudaStreamQuery(s) == cudaErrorNotReady);
    CHECK(peek(a) == 7);
  }
}

TEST_CASE("each device has its own legacy stream") {
  ww::testing::reset_host_runtime(ww::testing::host_runtime_options{}.with_devices(2));
  gate closed{cudaStreamLegacy};
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  std::uint32_t* const a = device_array();
  ww::for_each_index(ww::stream_ref{cudaStreamLegacy}, count, fill{a, 7});
  CHECK(cudaStreamSynchronize(cudaStreamLegacy) == cudaSuccess);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(peek(a) == 7);
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  CHECK(cudaStreamQuery(cudaStreamLegacy) == cudaErrorNotReady);
}

TEST_CASE("work of a higher priority does not wait for a queue of a lower one") {
  begin();
  std::uint32_t *a = device_array(), *b = device_array();
  cudaStream_t const low = make_stream(cudaStreamNonBlocking, 0);
  cudaStream_t const high = make_stream(cudaStreamNonBlocking, -5);
  gate closed{low};
  for (int i = 0; i < 100; ++i) ww::for_each_index(ww::stream_ref{low}, count, fill{a, 1});
  ww::for_each_index(ww::stream_ref{high}, count, fill{b, 2});
  REQUIRE(cudaStreamSynchronize(high) == cudaSuccess);
  CHECK(peek(b) == 2);
  CHECK(peek(a) == 0xffffffffU);
  CHECK(cudaStreamQuery(low) == cudaErrorNotReady);
}

TEST_CASE("a small pageable source may change as soon as the call returns") {
  begin();
  std::uint32_t* const a = device_array();
  cudaStream_t const s = make_stream(cudaStreamNonBlocking);
  gate closed{s};
  {
    std::vector<std::uint32_t> source(count, 7);
    REQUIRE(cudaMemcpyAsync(a, source.data(), count * 4, cudaMemcpyHostToDevice, s) == cudaSuccess);
    std::fill(source.begin(), source.end(), 8U);
  }
  CHECK(cudaStreamQuery(s) == cudaErrorNotReady);  // the call did not wait
  CHECK(peek(a) == 0xffffffffU);
  closed.open();
  REQUIRE(cudaStreamSynchronize(s) == cudaSuccess);
  CHECK(peek(a) == 7);
}

TEST_CASE("a big pageable source may change as soon as the call returns") {
  begin();
  constexpr std::size_t many = 100000;
  void* p = nullptr;
  REQUIRE(cudaMalloc(&p, many * 4) == cudaSuccess);
  std::vector<std::uint32_t> source(many, 7), back(many, 0);
  for (bool asynchronous : {false, true}) {
    std::fill(source.begin(), source.end(), 7U);
    if (asynchronous) {
      REQUIRE(cudaMemcpyAsync(p, source.data(), many * 4, cudaMemcpyHostToDevice,
                              cudaStreamLegacy) == cudaSuccess);
    } else {
      REQUIRE(cudaMemcpy(p, source.data(), many * 4, cudaMemcpyHostToDevice) == cudaSuccess);
    }
    std::fill(source.begin(), source.end(), 8U);
    REQUIRE(cudaMemcpy(back.data(), p, many * 4, cudaMemcpyDeviceToHost) == cudaSuccess);
    CHECK(back == std::vector<std::uint32_t>(many, 7));
  }
}

TEST_CASE("a pinned source is read when the stream reaches the copy") {
  begin();
  std::uint32_t* const a = device_array();
  void* pinned = nullptr;
  REQUIRE(cudaMallocHost(&pinned, 4) == cudaSuccess);
  cudaStream_t const s = make_stream(cudaStreamNonBlocking);
  std::memset(pinned, 1, 4);
  gate closed{s};
  REQUIRE(cudaMemcpyAsync(a, pinned, 4, cudaMemcpyHostToDevice, s) == cudaSuccess);
  std::memset(pinned, 2, 4);
  closed.open();
  REQUIRE(cudaStreamSynchronize(s) == cudaSuccess);
  CHECK(peek(a) == 0x02020202U);
}

TEST_CASE("threads' default streams overlap, and the legacy stream waits for them") {
  begin();
  std::uint32_t* const a = device_array();
  gate closed{cudaStreamPerThread};
  std::thread([a] {
    ww::for_each_index(ww::stream_ref{cudaStreamPerThread}, count, fill{a, 7});
    ww::check(cudaStreamSynchronize(cudaStreamPerThread), "cudaStreamSynchronize");
  }).join();
  CHECK(peek(a) == 7);  // the other thread's stream was not blocked
  CHECK(cudaStreamQuery(cudaStreamPerThread) == cudaErrorNotReady);
  ww::for_each_index(ww::stream_ref{cudaStreamLegacy}, count, fill{a, 8});
  CHECK(cudaStreamQuery(cudaStreamLegacy) == cudaErrorNotReady);
  CHECK(peek(a) == 7);
  closed.open();
  REQUIRE(cudaStreamSynchronize(cudaStreamLegacy) == cudaSuccess);
  CHECK(peek(a) == 8);
}

TEST_CASE("a larger allocation of the same stream reuses memory whose free is queued") {
  ww::testing::reset_host_runtime(ww::testing::host_runtime_options{}.with_memory_bytes(8192));
  cudaStream_t const s = cudaStreamLegacy;
  void *first = nullptr, *neighbour = nullptr, *second = nullptr;
  REQUIRE(cudaMallocAsync(&first, 100, s) == cudaSuccess);
  REQUIRE(cudaMallocAsync(&neighbour, 4096, s) == cudaSuccess);
  gate closed{s};
  REQUIRE(cudaFreeAsync(first, s) == cudaSuccess);
  REQUIRE(cudaMallocAsync(&second, 4000, s) == cudaSuccess);
  CHECK(second == first);
  // All of it is accessible: ASan would report a limit that is still at byte 100.
  ww::for_each_index(ww::stream_ref{s}, 1000, fill{static_cast<std::uint32_t*>(second), 7});
  closed.open();
  REQUIRE(cudaStreamSynchronize(s) == cudaSuccess);
  CHECK(peek(static_cast<std::uint32_t*>(second) + 999) == 7);
  CHECK(cudaFree(second) == cudaSuccess);
  CHECK(cudaFree(neighbour) == cudaSuccess);
  CHECK(ww::testing::leak_report().empty());
}

TEST_CASE("work of each block in a row of queued frees may use all of its block") {
  constexpr std::size_t mib = std::size_t{1} << 20U;
  ww::testing::reset_host_runtime(ww::testing::host_runtime_options{}.with_memory_bytes(7 * mib));
  cudaStream_t const s = make_stream(cudaStreamNonBlocking);
  gate closed{s};
  void* block = nullptr;
  for (std::size_t const bytes : {6 * mib, 4 * mib, 3 * mib}) {
    void* const before = block;
    REQUIRE(cudaMallocAsync(&block, bytes, s) == cudaSuccess);
    if (before != nullptr) CHECK(block == before);
    REQUIRE(cudaMemsetAsync(block, 1, bytes, s) == cudaSuccess);  // ASan checks it when it runs
    REQUIRE(cudaFreeAsync(block, s) == cudaSuccess);
  }
  closed.open();
  CHECK(cudaStreamSynchronize(s) == cudaSuccess);
  CHECK(cudaStreamDestroy(s) == cudaSuccess);
  CHECK(ww::testing::leak_report().empty());
}

TEST_CASE(
    "an allocation that waits for another stream's queued free reuses its memory, without "
    "blocking") {
  ww::testing::reset_host_runtime(ww::testing::host_runtime_options{}.with_memory_bytes(8192));
  cudaStream_t const s = make_stream(cudaStreamNonBlocking);
  cudaStream_t const other = make_stream(cudaStreamNonBlocking);
  void *first = nullptr, *second = nullptr, *third = nullptr;
  REQUIRE(cudaMallocAsync(&first, 8192, s) == cudaSuccess);
  gate closed{s};  // opened by this thread: blocking would deadlock
  ww::for_each_index(ww::stream_ref{s}, count, fill{static_cast<std::uint32_t*>(first), 1});
  REQUIRE(cudaFreeAsync(first, s) == cudaSuccess);
  REQUIRE(cudaMallocAsync(&second, 8000, other) == cudaSuccess);
  CHECK(second == first);
  ww::for_each_index(ww::stream_ref{other}, count, fill{static_cast<std::uint32_t*>(second), 2});
  CHECK(cudaMallocAsync(&third, 8192, other) == cudaErrorMemoryAllocation);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
  CHECK(cudaStreamQuery(other) == cudaErrorNotReady);
  closed.open();
  REQUIRE(cudaStreamSynchronize(other) == cudaSuccess);
  CHECK(peek(static_cast<std::uint32_t*>(second)) == 2);
  CHECK(cudaFree(second) == cudaSuccess);
}

TEST_CASE("a size beyond the address space fails") {
  begin();
  std::uint32_t* const a = device_array();
  std::size_t const most = ~std::size_t{0};
  CHECK(cudaMemset(a, 0, most) == cudaErrorInvalidValue);
  CHECK(cudaMemset(a + 1, 0, most - 2) == cudaErrorInvalidValue);
  std::uint32_t host = 0;
  CHECK(cudaMemcpy(a, &host, most - 100, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
}

TEST_CASE(
    "simulated time: an operation takes a microsecond, and a wait takes the time of the other "
    "stream") {
  ww::testing::reset_host_runtime(ww::testing::host_runtime_options{}.with_simulated_time());
  std::uint32_t* const a = device_array();
  cudaStream_t const s = make_stream(cudaStreamNonBlocking);
  cudaStream_t const other = make_stream(cudaStreamNonBlocking);
  cudaEvent_t begin_event = nullptr, end = nullptr, joined = nullptr;
  REQUIRE(cudaEventCreate(&begin_event) == cudaSuccess);
  REQUIRE(cudaEventCreate(&end) == cudaSuccess);
  REQUIRE(cudaEventCreate(&joined) == cudaSuccess);
  REQUIRE(cudaEventRecord(begin_event, s) == cudaSuccess);
  for (int i = 0; i < 4; ++i) ww::for_each_index(ww::stream_ref{s}, count, fill{a, 1});
  REQUIRE(cudaEventRecord(end, s) == cudaSuccess);
  REQUIRE(cudaStreamWaitEvent(other, end, 0) == cudaSuccess);
  REQUIRE(cudaEventRecord(joined, other) == cudaSuccess);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  float ms = 0.0F;
  REQUIRE(cudaEventElapsedTime(&ms, begin_event, end) == cudaSuccess);
  CHECK(std::abs(ms - 0.005F) < 1e-6F);
  REQUIRE(cudaEventElapsedTime(&ms, end, joined) == cudaSuccess);
  CHECK(std::abs(ms - 0.002F) < 1e-6F);
}

TEST_CASE("a reset during a capture leaks nothing") {  // LeakSanitizer checks it
  for (int i = 0; i < 3; ++i) {
    begin();
    cudaStream_t const s = make_stream(cudaStreamNonBlocking);
    REQUIRE(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed) == cudaSuccess);
    ww::for_each_index(ww::stream_ref{s}, count, fill{device_array(), 1});
  }
  begin();
  CHECK(ww::testing::leak_report().empty());
}

TEST_CASE("a reset drops queued work and completes running work") {
  begin();
  std::uint32_t* const a = device_array();
  cudaStream_t const s = make_stream(cudaStreamNonBlocking);
  std::atomic<bool> started{false}, open{false};
  struct both {
    std::atomic<bool>*started, *open;
  } flags{&started, &open};
  REQUIRE(cudaLaunchHostFunc(
              s,
              [](void* raw) {
                auto const* const f = static_cast<both*>(raw);
                f->started->store(true);
                while (!f->open->load()) std::this_thread::yield();
              },
              &flags) == cudaSuccess);
  static std::atomic<int> ran{0};
  ran.store(0);
  REQUIRE(cudaLaunchHostFunc(
              s, [](void*) { ran.fetch_add(1); }, nullptr) == cudaSuccess);
  ww::for_each_index(ww::stream_ref{s}, count, fill{a, 7});
  while (!started.load()) std::this_thread::yield();
  std::thread opener{[&open] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    open.store(true);
  }};
  ww::testing::reset_host_runtime();
  CHECK(open.load());  // it waited for the running operation
  opener.join();
  CHECK(ran.load() == 0);
  CHECK(ww::testing::stats().device_allocations == 0);
  CHECK(cudaFree(a) == cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
}
