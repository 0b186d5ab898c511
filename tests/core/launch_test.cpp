// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Built twice: with legacy and with per-thread default streams.
#include "support/catch.hpp"
#include "support/device_memory.hpp"

#include <warpwright/core/detail/launch/driver_function.hpp>
#include <warpwright/core/launch.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <thread>
#include <type_traits>
#include <vector>

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>
#else
#include <cuda.h>

#endif

namespace ww = warpwright;
using test_support::device_array;

namespace {

struct add_index {
  std::uint64_t* out;
  std::uint64_t add;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const { out[i] += i + add; }
};

struct double_it {
  std::uint64_t* out;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const { out[i] *= 2; }
};

// Counts in buckets, to see each index once without an array of that size.
struct mark_bit {
  unsigned* words;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const {
#if defined(__CUDA_ARCH__)
    atomicXor(words + i / 32, 1U << (i % 32));
#else
    words[i / 32] ^= 1U << (i % 32);
#endif
  }
};

}  // namespace

TEST_CASE("a grid has at most 2^31 - 1 blocks") {
  auto const here = ww::source_location::current();
  CHECK(ww::detail::grid_blocks(0x7fffffffU, "work", here) == 0x7fffffffU);
  CHECK_THROWS_AS(ww::detail::grid_blocks(0x80000000U, "work", here), std::invalid_argument);
}

TEST_CASE("every index is visited exactly once, for sizes around a block") {
  ww::stream s;
  constexpr std::uint64_t guard = 64;
  for (std::uint64_t const n :
       {1ULL, 2ULL, 31ULL, 32ULL, 33ULL, 255ULL, 256ULL, 257ULL, 1023ULL, 65535ULL, 65537ULL}) {
    CAPTURE(n);
    device_array<std::uint64_t> x{std::vector<std::uint64_t>(n + guard, 7)};
    ww::for_each_index(s, n, add_index{x.data(), 0});
    std::vector<std::uint64_t> const got = x.fetch(s);
    bool right = true;
    for (std::uint64_t i = 0; i < n + guard; ++i) right = right && got[i] == (i < n ? i + 7 : 7);
    CHECK(right);
  }
}

TEST_CASE("a size of zero launches nothing") {
  ww::stream s;
#if WARPWRIGHT_HOST_RUNTIME
  auto const before = ww::testing::total_calls();
#endif
  ww::for_each_index(s, 0, add_index{nullptr, 0});
#if WARPWRIGHT_HOST_RUNTIME
  CHECK(ww::testing::total_calls() == before);
#endif
  s.synchronize();
}

TEST_CASE("launches on one stream run in order and copy their arguments at the call") {
  ww::stream s;
  device_array<std::uint64_t> x{std::vector<std::uint64_t>(1000, 0)};
  add_index f{x.data(), 5};
  ww::for_each_index(s, x.size(), f);
  f.add = 999;  // must not reach the launch above
  ww::for_each_index(s, x.size(), double_it{x.data()});
  std::vector<std::uint64_t> const got = x.fetch(s);
  bool right = true;
  for (std::uint64_t i = 0; i < x.size(); ++i) right = right && got[i] == 2 * (i + 5);
  CHECK(right);
}

TEST_CASE("a null handle launches on the default stream of this file") {
  device_array<std::uint64_t> x{std::vector<std::uint64_t>(100, 0)};
  cudaStream_t const null_handle{};
  ww::for_each_index(null_handle, x.size(), add_index{x.data(), 1});
  CHECK(x.fetch(WARPWRIGHT_DEFAULT_STREAM)[99] == 100);
}

TEST_CASE("a launch is one kernel node of a capture") {
  ww::stream s;
  device_array<std::uint64_t> x{std::vector<std::uint64_t>(100, 0)};
  REQUIRE(cudaStreamBeginCapture(s.get(), cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  ww::for_each_index(s, x.size(), add_index{x.data(), 1});
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaStreamEndCapture(s.get(), &graph) == cudaSuccess);
  std::size_t nodes = 0;
  REQUIRE(cudaGraphGetNodes(graph, nullptr, &nodes) == cudaSuccess);
  CHECK(nodes == 1);
  CHECK(x.fetch(s)[99] == 0);
  cudaGraphExec_t exec = nullptr;
  REQUIRE(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
  REQUIRE(cudaGraphLaunch(exec, s.get()) == cudaSuccess);
  REQUIRE(cudaGraphLaunch(exec, s.get()) == cudaSuccess);
  CHECK(x.fetch(s)[99] == 200);
  REQUIRE(cudaGraphExecDestroy(exec) == cudaSuccess);
  REQUIRE(cudaGraphDestroy(graph) == cudaSuccess);
}

TEST_CASE("a launch into a broken capture is an error of the launch") {
  ww::stream s;
  REQUIRE(cudaStreamBeginCapture(s.get(), cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  CHECK(cudaStreamSynchronize(s.get()) != cudaSuccess);  // breaks the capture
  static_cast<void>(cudaGetLastError());
  try {
    ww::for_each_index(s, 1, add_index{nullptr, 0});
    FAIL("nothing was thrown");
  } catch (ww::cuda_error const& error) {
    CHECK(std::string{error.api()} == "kernel launch");
    CHECK(error.code() == cudaErrorStreamCaptureInvalidated);
  }
  cudaGraph_t graph = nullptr;
  static_cast<void>(cudaStreamEndCapture(s.get(), &graph));
  static_cast<void>(cudaGetLastError());
}

TEST_CASE("many threads launch on streams of their own and on a shared one") {
  constexpr int thread_count = 8;
  constexpr int launches = 50;
  ww::stream shared;
  std::vector<std::unique_ptr<device_array<std::uint64_t>>> arrays;
  for (int t = 0; t < thread_count; ++t) {
    arrays.push_back(
        std::make_unique<device_array<std::uint64_t>>(std::vector<std::uint64_t>(300, 0)));
  }
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < thread_count; ++t) {
    threads.emplace_back([&, t] {
      try {
        ww::stream own;
        std::uint64_t* const data = arrays[static_cast<std::size_t>(t)]->data();
        for (int i = 0; i < launches; ++i) {
          ww::for_each_index(t % 2 == 0 ? own.ref() : shared.ref(), 300, add_index{data, 0});
        }
        own.synchronize();
      } catch (...) {
        ++failures;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(failures == 0);
  for (auto const& array : arrays) CHECK(array->fetch(shared)[299] == 299 * launches);
}

#if WARPWRIGHT_HOST_RUNTIME
TEST_CASE("a failing launch reaches the caller once") {
  namespace wt = ww::testing;
  wt::reset_host_runtime();
  ww::stream s;
  device_array<std::uint64_t> x{std::vector<std::uint64_t>(10, 0)};
  {
    wt::scoped_fault_plan const plan{
        wt::fault_plan{}.fail("cudaLaunchKernel", 1, cudaErrorLaunchOutOfResources)};
    CHECK_THROWS_WITH(ww::for_each_index(s, 10, add_index{x.data(), 0}),
                      contains("kernel launch: cudaErrorLaunchOutOfResources"));
    ww::for_each_index(s, 10, add_index{x.data(), 0});
  }
  CHECK(x.fetch(s)[9] == 9);
}

TEST_CASE("one launch is one call") {
  namespace wt = ww::testing;
  ww::stream s;
  device_array<std::uint64_t> x{std::vector<std::uint64_t>(10, 0)};
  wt::reset_call_counts();
  ww::for_each_index(s, 10, add_index{x.data(), 0});
  CHECK(wt::total_calls() == 1);
  s.synchronize();
}
#else

// What launch_kernel() passes to the driver is laid out as the runtime's.
static_assert(sizeof(cudaLaunchConfig_t) == sizeof(CUlaunchConfig), "");
static_assert(offsetof(cudaLaunchConfig_t, gridDim) == offsetof(CUlaunchConfig, gridDimX), "");
static_assert(offsetof(cudaLaunchConfig_t, blockDim) == offsetof(CUlaunchConfig, blockDimX), "");
static_assert(offsetof(cudaLaunchConfig_t, dynamicSmemBytes) ==
                  offsetof(CUlaunchConfig, sharedMemBytes),
              "");
static_assert(offsetof(cudaLaunchConfig_t, stream) == offsetof(CUlaunchConfig, hStream), "");
static_assert(offsetof(cudaLaunchConfig_t, attrs) == offsetof(CUlaunchConfig, attrs), "");
static_assert(offsetof(cudaLaunchConfig_t, numAttrs) == offsetof(CUlaunchConfig, numAttrs), "");
static_assert(sizeof(dim3) == 3 * sizeof(unsigned), "");
static_assert(sizeof(cudaLaunchAttribute) == sizeof(CUlaunchAttribute), "");
static_assert(offsetof(cudaLaunchAttribute, val) == offsetof(CUlaunchAttribute, value), "");
static_assert(static_cast<int>(cudaLaunchAttributeProgrammaticStreamSerialization) ==
                  static_cast<int>(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION),
              "");

using ww::detail::built_for;
#if !WARPWRIGHT_NO_EARLY_LAUNCH
static_assert(std::is_same<ww::detail::this_build, built_for<__CUDA_ARCH_LIST__>>::value, "");
#else
static_assert(!ww::detail::this_build::some_wait, "");
#endif
static_assert(!built_for<750, 890>::some_wait, "");
static_assert(built_for<900, 1000>::all_wait, "");
static_assert(!built_for<750, 900>::all_wait && built_for<750, 900>::some_wait, "");

namespace {

// Kernels that no other test launches.
template <int>
struct only_here {
  std::uint64_t* out;
  __host__ __device__ void operator()(std::uint64_t i) const { out[i] += i; }
};

struct no_kernel : ww::detail::kernel_base<1024> {
  template <class Block>
  WARPWRIGHT_HOST_DEVICE void operator()(Block&) const {}
};

}  // namespace

TEST_CASE("threads launch that have made no CUDA call before") {
  ww::stream s;
  device_array<std::uint64_t> x{std::vector<std::uint64_t>(100, 0)};
  for (cudaStream_t const handle : {s.get(), cudaStreamLegacy, cudaStreamPerThread}) {
    cudaError_t status = cudaErrorUnknown;
    std::thread{[&] {
      try {
        ww::for_each_index(ww::stream_ref{handle}, x.size(), only_here<0>{x.data()});
        status = cudaStreamSynchronize(handle);
      } catch (ww::cuda_error const& error) {
        status = error.code();
      }
    }}.join();
    CHECK(status == cudaSuccess);
  }
  CHECK(x.fetch(s)[99] == 3 * 99);
}

TEST_CASE("a kernel is launched by its handle, or by its address where the macro says so") {
  using kernel = ww::detail::index_kernel<only_here<5>>;
  ww::stream s;
  device_array<std::uint64_t> x{std::vector<std::uint64_t>(100, 0)};
  ww::for_each_index(s, x.size(), only_here<5>{x.data()});
  bool const by_address = ww::detail::launchable(ww::detail::kernel_of<kernel>()) ==
                          ww::detail::kernel_address<kernel>();
  CHECK(by_address == (WARPWRIGHT_NO_DRIVER_LAUNCH != 0));
  CHECK(x.fetch(s)[99] == 99);
}

TEST_CASE("the first launch of a kernel in a capture is a node of that kernel") {
  ww::stream s;
  device_array<std::uint64_t> x{std::vector<std::uint64_t>(100, 0)};
  for (int round = 1; round <= 2; ++round) {
    REQUIRE(cudaStreamBeginCapture(s.get(), cudaStreamCaptureModeGlobal) == cudaSuccess);
    ww::for_each_index(s, x.size(), only_here<1>{x.data()});
    cudaGraph_t graph = nullptr;
    REQUIRE(cudaStreamEndCapture(s.get(), &graph) == cudaSuccess);
    cudaGraphNode_t node = nullptr;
    std::size_t nodes = 1;
    REQUIRE(cudaGraphGetNodes(graph, &node, &nodes) == cudaSuccess);
    cudaKernelNodeParams kernel{};
    REQUIRE(cudaGraphKernelNodeGetParams(node, &kernel) == cudaSuccess);
    CHECK(kernel.func != nullptr);
    CHECK((kernel.gridDim.x == 1 && kernel.blockDim.x == 256));
    cudaGraphExec_t exec = nullptr;
    REQUIRE(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
    REQUIRE(cudaGraphLaunch(exec, s.get()) == cudaSuccess);
    CHECK(x.fetch(s)[99] == 99U * static_cast<unsigned>(round));
    REQUIRE(cudaGraphExecDestroy(exec) == cudaSuccess);
    REQUIRE(cudaGraphDestroy(graph) == cudaSuccess);
  }
}

TEST_CASE("a launch that CUDA refuses is an error of the launch, and the next one works") {
  ww::stream s;
  auto const launch = [&](unsigned threads) {
    ww::detail::launch_blocks(s, 1, threads, no_kernel{}, "test", ww::source_location::current());
  };
  for (int round = 0; round < 2; ++round) {
    CHECK_THROWS_WITH(launch(2048), contains("kernel launch: cudaError"));
    static_cast<void>(cudaGetLastError());
    launch(32);
  }
  s.synchronize();
}

TEST_CASE("every device is launched on, and those in turns") {
  int devices = 0;
  REQUIRE(cudaGetDeviceCount(&devices) == cudaSuccess);
  std::vector<std::unique_ptr<ww::stream>> streams;
  std::vector<std::unique_ptr<device_array<std::uint64_t>>> arrays;
  for (int d = 0; d < devices; ++d) {
    ww::scoped_device const scope{ww::device_id{d}};
    streams.push_back(std::make_unique<ww::stream>());
    arrays.push_back(
        std::make_unique<device_array<std::uint64_t>>(std::vector<std::uint64_t>(100, 0)));
  }
  for (int round = 0; round < 3; ++round) {
    for (int d = 0; d < devices; ++d) {
      ww::scoped_device const scope{ww::device_id{d}};
      auto const k = static_cast<std::size_t>(d);
      ww::for_each_index(*streams[k], 100, only_here<2>{arrays[k]->data()});
    }
  }
  for (int d = 0; d < devices; ++d) {
    CAPTURE(d);
    ww::scoped_device const scope{ww::device_id{d}};
    auto const k = static_cast<std::size_t>(d);
    CHECK(arrays[k]->fetch(*streams[k])[99] == 3 * 99);
  }
}

TEST_CASE("contexts come and go") {
  // As CUDA 11.4 to 12.4 have it.
  int (*create)(CUcontext*, CUexecAffinityParam*, int, unsigned, CUdevice) = nullptr;
  int (*destroy)(CUcontext) = nullptr;
  REQUIRE(ww::detail::find_driver_function("cuCtxCreate", create));
  REQUIRE(ww::detail::find_driver_function("cuCtxDestroy", destroy));
  device_array<std::uint64_t> before{std::vector<std::uint64_t>(100, 0)};
  ww::stream s;
  for (int round = 0; round < 12; ++round) {
    CAPTURE(round);
    CUcontext context = nullptr;
    REQUIRE(create(&context, nullptr, 0, 0, 0) == CUDA_SUCCESS);  // device 0, and now current
    {
      ww::stream inside;
      device_array<std::uint64_t> x{std::vector<std::uint64_t>(100, 0)};
      ww::for_each_index(inside, 100, only_here<3>{x.data()});
      ww::for_each_index(inside, 100, only_here<3>{x.data()});
      CHECK(x.fetch(inside)[99] == 2 * 99);
    }
    REQUIRE(destroy(context) == CUDA_SUCCESS);
    ww::for_each_index(s, 100, only_here<3>{before.data()});
  }
  CHECK(before.fetch(s)[99] == 12 * 99);
}

TEST_CASE("more than 2^32 indices") {
  ww::stream s;
  constexpr std::uint64_t n = (std::uint64_t{1} << 32U) + 12345;
  constexpr std::uint64_t words = n / 32 + 1;
  device_array<unsigned> x{words};
  REQUIRE(cudaMemset(x.data(), 0, words * sizeof(unsigned)) == cudaSuccess);
  ww::for_each_index(s, n, mark_bit{x.data()});
  std::vector<unsigned> const got = x.fetch(s);
  std::uint64_t full = 0;
  for (std::uint64_t i = 0; i < n / 32; ++i) full += got[i] == ~0U ? 1 : 0;
  CHECK(full == n / 32);
  CHECK(got[words - 1] == (1U << (n % 32)) - 1);
}

// The last, as it takes what others may have left on the device.
TEST_CASE("a device that was reset is launched on again") {
  for (int round = 0; round < 3; ++round) {
    CAPTURE(round);
    REQUIRE(cudaDeviceReset() == cudaSuccess);
    ww::stream s;
    device_array<std::uint64_t> x{std::vector<std::uint64_t>(100, 0)};
    ww::for_each_index(s, 100, only_here<4>{x.data()});
    ww::for_each_index(s, 100, only_here<4>{x.data()});
    CHECK(x.fetch(s)[99] == 2 * 99);
  }
}
#endif
