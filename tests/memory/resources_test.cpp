// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Resources: cudaMalloc, cudaMemPool_t and callbacks. The others are tested with the fallback
// adaptor.
#include "memory/support.hpp"
#include "support/catch.hpp"

#include <warpwright/memory/adaptors/statistics.hpp>
#include <warpwright/memory/buffer.hpp>
#include <warpwright/memory/resources.hpp>

#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

namespace ww = warpwright;
using test_support::all_are;
using test_support::fetch;
using test_support::fill;
using test_support::gate;

namespace {

constexpr std::size_t mib = std::size_t{1} << 20U;
ww::device_id const device{0};

// What every resource promises.
template <class Resource>
void check_resource(Resource& memory, std::size_t too_much) {
  ww::stream const s;
  CHECK(memory.device() == device);
  CHECK(memory.allocate(s, 0) == nullptr);
  CHECK(memory.try_allocate(s, 0) == nullptr);
  memory.deallocate(s, nullptr, 0);
  CHECK(memory.live_bytes() == 0);

  void* const p = memory.allocate(s, 1000);
  void* const q = memory.try_allocate(s, mib);
  REQUIRE(p != nullptr);
  REQUIRE(q != nullptr);
  CHECK(p != q);
  CHECK(reinterpret_cast<std::uintptr_t>(p) % 256 == 0);
  CHECK(memory.live_bytes() == 1000 + mib);
  fill(s, p, 1, 1000);
  fill(s, q, 2, mib);
  CHECK(all_are(fetch(s, p, 1000), 1));
  CHECK(all_are(fetch(s, q, mib), 2));
  memory.deallocate(s, p, 1000);
  memory.deallocate(s, q, mib);
  CHECK(memory.live_bytes() == 0);

  CHECK(memory.try_allocate(s, too_much) == nullptr);
  try {
    static_cast<void>(memory.allocate(s, too_much));
    FAIL("no device has that much");
  } catch (ww::out_of_memory const& e) {
    CHECK(e.report().requested_bytes == too_much);
    CHECK(e.report().device == 0);
    CHECK_THAT(std::string{e.what()}, contains("resources_test.cpp"));
  }
  CHECK(cudaPeekAtLastError() == cudaSuccess);
  CHECK(memory.live_bytes() == 0);
}

// Alignments above what CUDA guarantees, in any order of frees.
template <class Resource>
void check_alignments(Resource& memory) {
  ww::stream const s;
  std::vector<void*> blocks;
  for (std::size_t alignment = 1; alignment <= 4 * mib; alignment *= 4) {
    void* const p = memory.allocate(s, 3000, alignment);
    CHECK(reinterpret_cast<std::uintptr_t>(p) % alignment == 0);
    fill(s, p, 5, 3000);
    blocks.push_back(p);
  }
  CHECK(memory.live_bytes() == 3000 * blocks.size());
  for (void* p : blocks) CHECK(all_are(fetch(s, p, 3000), 5));
  for (void* p : blocks) memory.deallocate(s, p, 3000);
  CHECK(memory.live_bytes() == 0);
  CHECK_THROWS_WITH(memory.allocate(s, 10, 3), contains("an alignment of 3 bytes"));
  CHECK_THROWS_AS(memory.allocate(s, 10, 0), std::invalid_argument);
  CHECK_THROWS_AS(memory.allocate(s, 10, std::size_t{2} << 30U), std::invalid_argument);
  CHECK(memory.try_allocate(s, std::numeric_limits<std::size_t>::max() - 100, 4096) == nullptr);
  void* const p = memory.allocate(s, 3000, 4096);
  CHECK_THROWS_WITH(memory.deallocate(s, p, 2999), contains("wrong size"));
  memory.deallocate(s, p, 3000);
}

// Four threads, each with a stream of its own.
template <class Resource>
void check_threads(Resource& memory) {
  std::vector<std::thread> threads;
  for (unsigned char tag = 1; tag <= 4; ++tag) {
    threads.emplace_back([&memory, tag] {
      ww::stream const s;
      for (std::size_t i = 0; i < 50; ++i) {
        std::size_t const bytes = 100 + 37 * i;
        void* const p = memory.allocate(s, bytes, i % 3 == 0 ? 1024 : 256);
        fill(s, p, tag, bytes);
        if (i % 10 == 0 && !all_are(fetch(s, p, bytes), tag)) std::abort();
        memory.deallocate(s, p, bytes);
      }
      s.synchronize();
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(memory.live_bytes() == 0);
}

std::uint64_t attribute(cudaMemPool_t pool, cudaMemPoolAttr which) {
  std::uint64_t value = 0;
  ww::check(cudaMemPoolGetAttribute(pool, which, &value), "cudaMemPoolGetAttribute");
  return value;
}

cudaMemPool_t default_pool() {
  cudaMemPool_t pool = nullptr;
  ww::check(cudaDeviceGetDefaultMemPool(&pool, 0), "cudaDeviceGetDefaultMemPool");
  return pool;
}

// Functions of a program, for callbacks.
struct program {
  int allocations = 0;
  int deallocations = 0;
  cudaStream_t last_stream = nullptr;
};
void* program_allocate(void* user, ww::stream_ref stream, std::size_t bytes) {
  auto& self = *static_cast<program*>(user);
  ++self.allocations;
  self.last_stream = stream.get();
  void* pointer = nullptr;
  if (cudaMallocAsync(&pointer, bytes, stream.get()) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return nullptr;
  }
  return pointer;
}
void program_deallocate(void* user, ww::stream_ref stream, void* pointer, std::size_t) {
  auto& self = *static_cast<program*>(user);
  ++self.deallocations;
  self.last_stream = stream.get();
  ww::check(cudaFreeAsync(pointer, stream.get()), "cudaFreeAsync");
}

}  // namespace

static_assert(!std::is_copy_constructible<ww::cuda_malloc_resource>::value, "buffers refer to it");
static_assert(!std::is_copy_constructible<ww::cuda_malloc_async_resource>::value, "it owns a pool");

TEST_CASE("cudaMalloc as a resource") {
  ww::cuda_malloc_resource memory{device};
  check_resource(memory, std::size_t{1} << 60U);
}

TEST_CASE("cudaMalloc as a resource has every alignment") {
  ww::cuda_malloc_resource memory{device};
  check_alignments(memory);
}

TEST_CASE("cudaMalloc as a resource may be used by several threads") {
  ww::cuda_malloc_resource memory{device};
  check_threads(memory);
}

TEST_CASE("cudaMalloc as a resource waits for the stream of a free") {
  ww::stream const s;
  ww::cuda_malloc_resource memory{device};
  void* const p = memory.allocate(s, mib);
  gate hold{s};
  std::thread opener{[&hold] { hold.open_late(); }};
  fill(s, p, 1, mib);
  memory.deallocate(s, p, mib);
  CHECK(s.done());
  opener.join();
}

TEST_CASE("cudaMalloc is legal in a capture, and its free is refused without harm") {
  ww::stream const s;
  ww::cuda_malloc_resource memory{device};
  cudaGraph_t graph = nullptr;
  ww::check(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal), "begin");
  void* const p = memory.allocate(s, 1000);
  CHECK_THROWS_WITH(memory.deallocate(s, p, 1000),
                    contains("cuda_malloc_resource: cannot deallocate on a capturing stream"));
  CHECK(memory.live_bytes() == 1000);
  ww::check(cudaStreamEndCapture(s, &graph), "end");
  std::size_t nodes = 1;
  ww::check(cudaGraphGetNodes(graph, nullptr, &nodes), "nodes");
  CHECK(nodes == 0);
  ww::check(cudaGraphDestroy(graph), "destroy");
  memory.deallocate(s, p, 1000);
}

TEST_CASE("a cudaMemPool_t as a resource") {
  ww::cuda_malloc_async_resource memory{device};
  CHECK(memory.get() != nullptr);
  CHECK(memory.get() != default_pool());
  check_resource(memory, std::size_t{1} << 60U);
}

TEST_CASE("a cudaMemPool_t as a resource has every alignment") {
  ww::cuda_malloc_async_resource memory{device};
  check_alignments(memory);
}

TEST_CASE("a cudaMemPool_t as a resource may be used by several threads") {
  ww::cuda_malloc_async_resource memory{device};
  check_threads(memory);
}

TEST_CASE("a cudaMemPool_t frees in stream order and does not wait") {
  ww::stream const s;
  ww::cuda_malloc_async_resource memory{device};
  void* const p = memory.allocate(s, mib);
  gate hold{s};
  fill(s, p, 1, mib);
  memory.deallocate(s, p, mib);
  CHECK_FALSE(s.done());
}

TEST_CASE("a pool keeps its memory at a synchronisation, unless there is a threshold") {
  ww::stream const s;
  ww::cuda_malloc_async_resource keeps{device};
  keeps.deallocate(s, keeps.allocate(s, 64 * mib), 64 * mib);
  s.synchronize();
  CHECK(keeps.reserved_bytes() >= 64 * mib);
  keeps.trim(std::size_t{1} << 40U);
  CHECK(keeps.reserved_bytes() >= 64 * mib);
  keeps.trim();
  CHECK(keeps.reserved_bytes() == 0);
  ww::cuda_malloc_async_resource gives{device,
                                       ww::cuda_malloc_async_options{}.release_threshold_bytes(0)};
  gives.deallocate(s, gives.allocate(s, 64 * mib), 64 * mib);
  s.synchronize();
  CHECK(gives.reserved_bytes() == 0);
  CHECK(attribute(gives.get(), cudaMemPoolAttrReleaseThreshold) == 0);
}

TEST_CASE("a pool reserves memory at its construction") {
  ww::cuda_malloc_async_resource const memory{
      device, ww::cuda_malloc_async_options{}.initial_bytes(64 * mib)};
  CHECK(memory.reserved_bytes() >= 64 * mib);
  CHECK(memory.live_bytes() == 0);
  CHECK(attribute(memory.get(), cudaMemPoolAttrUsedMemCurrent) == 0);
}

TEST_CASE("a pool has a maximum") {
  ww::stream const s;
  ww::cuda_malloc_async_resource memory{device,
                                        ww::cuda_malloc_async_options{}.max_bytes(64 * mib)};
  void* const p = memory.allocate(s, 16 * mib);
  CHECK(memory.try_allocate(s, 256 * mib) == nullptr);
  CHECK_THROWS_AS(memory.allocate(s, 256 * mib), ww::out_of_memory);
  memory.deallocate(s, p, 16 * mib);
}

TEST_CASE("options that contradict each other are refused") {
  using options = ww::cuda_malloc_async_options;
  CHECK_THROWS_WITH(ww::cuda_malloc_async_resource(
                        device, options{}.initial_bytes(100).release_threshold_bytes(99)),
                    contains("initial_bytes of 100 are above release_threshold_bytes of 99"));
  CHECK_THROWS_WITH(
      ww::cuda_malloc_async_resource(device, options{}.initial_bytes(100).max_bytes(99)),
      contains("initial_bytes of 100 are above max_bytes of 99"));
  CHECK_THROWS_WITH(ww::cuda_malloc_async_resource(device, options{}.max_bytes(0)),
                    contains("max_bytes is 0"));
  CHECK_THROWS_AS(ww::cuda_malloc_async_resource(ww::device_id{1000}), ww::cuda_error);
}

TEST_CASE("a handle type that the device does not support is refused, a supported one exports") {
  int supported = 0;
  ww::check(cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolSupportedHandleTypes, 0),
            "cudaDeviceGetAttribute");
  using options = ww::cuda_malloc_async_options;
  auto const file = cudaMemHandleTypePosixFileDescriptor;
  if ((supported & file) != 0) {
    ww::cuda_malloc_async_resource memory{device, options{}.export_handle_type(file)};
    ww::stream const s;
    memory.deallocate(s, memory.allocate(s, mib), mib);
  } else {
    CHECK_THROWS_WITH(
        ww::cuda_malloc_async_resource(device, options{}.export_handle_type(file)),
        contains("device 0 cannot export memory by handles of type 1; it supports the types 0"));
  }
  CHECK_THROWS_AS(
      ww::cuda_malloc_async_resource(device, options{}.export_handle_type(cudaMemHandleTypeWin32)),
      std::invalid_argument);
}

TEST_CASE("a given pool is used and not destroyed") {
  ww::stream const s;
  ww::cuda_malloc_async_resource owner{device};
  {
    auto memory = ww::cuda_malloc_async_resource::from_pool(device, owner.get());
    CHECK(memory.get() == owner.get());
    CHECK(memory.device() == device);
    void* const p = memory.allocate(s, mib);
    CHECK(attribute(owner.get(), cudaMemPoolAttrUsedMemCurrent) >= mib);
    CHECK(memory.live_bytes() == mib);
    CHECK(owner.live_bytes() == 0);
    memory.deallocate(s, p, mib);
  }
  owner.deallocate(s, owner.allocate(s, mib), mib);  // it is still there
  CHECK_THROWS_WITH(ww::cuda_malloc_async_resource::from_pool(device, nullptr),
                    contains("the pool is null"));
}

TEST_CASE("the default pool is that of cudaMallocAsync") {
  ww::stream const s;
  auto memory = ww::cuda_malloc_async_resource::from_default_pool(device);
  CHECK(memory.get() == default_pool());
  void* const p = memory.allocate(s, mib);
  ww::check(cudaFreeAsync(p, s), "cudaFreeAsync");
  CHECK_THROWS_AS(ww::cuda_malloc_async_resource::from_default_pool(ww::device_id{1000}),
                  ww::cuda_error);
}

TEST_CASE("an allocation in a capture is a memory node of the graph") {
  ww::stream const s;
  ww::cuda_malloc_async_resource memory{device};
  ww::cuda_malloc_async_resource out{device};
  void* const result = out.allocate(s, 1000);
  s.synchronize();
  cudaGraph_t graph = nullptr;
  ww::check(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal), "begin");
  {
    ww::device_buffer<unsigned char, ww::cuda_malloc_async_resource> x{memory, s, 1000};
    fill(s, x.data(), 9, 1000);
    ww::check(cudaMemcpyAsync(result, x.data(), 1000, cudaMemcpyDeviceToDevice, s), "copy");
  }
  ww::check(cudaStreamEndCapture(s, &graph), "end");
  CHECK(memory.reserved_bytes() == 0);  // the graph's memory is not the pool's
  CHECK(memory.live_bytes() == 0);
  std::size_t count = 0;
  ww::check(cudaGraphGetNodes(graph, nullptr, &count), "nodes");
  std::vector<cudaGraphNode_t> nodes(count);
  ww::check(cudaGraphGetNodes(graph, nodes.data(), &count), "nodes");
  int allocations = 0;
  int frees = 0;
  for (cudaGraphNode_t node : nodes) {
    cudaGraphNodeType type{};
    ww::check(cudaGraphNodeGetType(node, &type), "type");
    allocations += type == cudaGraphNodeTypeMemAlloc;
    frees += type == cudaGraphNodeTypeMemFree;
  }
  CHECK(allocations == 1);
  CHECK(frees == 1);
  cudaGraphExec_t exec = nullptr;
  ww::check(cudaGraphInstantiate(&exec, graph, 0), "instantiate");
  for (int launch = 0; launch < 3; ++launch) {
    fill(s, result, 0, 1000);
    ww::check(cudaGraphLaunch(exec, s), "launch");
    CHECK(all_are(fetch(s, result, 1000), 9));
  }
  CHECK(cudaGraphExecDestroy(exec) == cudaSuccess);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
  out.deallocate(s, result, 1000);
}

TEST_CASE("a pool is created, measured and trimmed while a stream captures") {
  ww::stream const s;
  cudaGraph_t graph = nullptr;
  ww::check(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal), "begin");
  {
    ww::cuda_malloc_async_resource memory{device,
                                          ww::cuda_malloc_async_options{}.initial_bytes(mib)};
    CHECK(memory.reserved_bytes() >= mib);
    memory.trim();
    CHECK(memory.reserved_bytes() == 0);
  }
  CHECK(cudaStreamEndCapture(s, &graph) == cudaSuccess);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
}

TEST_CASE("functions of a program as a resource") {
  program self;
  ww::callback_resource memory{device, &program_allocate, &program_deallocate, &self};
  check_resource(memory, std::size_t{1} << 60U);
  CHECK(self.allocations == 4);
  CHECK(self.deallocations == 2);
  ww::stream const s;
  void* const p = memory.allocate(s, 100);
  CHECK(self.last_stream == s.get());
  self.last_stream = nullptr;
  memory.deallocate(s, p, 100);
  CHECK(self.last_stream == s.get());
}

TEST_CASE("callable objects as a resource") {
  ww::memory_pool pool{device};
  std::size_t most = 0;
  ww::callback_resource memory{
      device,
      [&](ww::stream_ref s, std::size_t bytes) {
        if (bytes > most) most = bytes;
        return pool.try_allocate(s, bytes);
      },
      [&](ww::stream_ref s, void* p, std::size_t bytes) {
        pool.deallocate(s, p, bytes);
        pool.retire(s);  // the checks have streams of their own, which end before the pool
      }};
  check_resource(memory, std::size_t{1} << 60U);
  CHECK(most == std::size_t{1} << 60U);
  ww::stream const s;
  {
    ww::device_buffer<int, decltype(memory)> const x{memory, s, 10};
    CHECK(memory.live_bytes() == 40);
  }
  check_alignments(memory);
  CHECK(memory.live_bytes() == 0);
  CHECK(pool.statistics().live_blocks == 0);
  pool.retire(s);
}

TEST_CASE("a null function is refused") {
  program self;
  CHECK_THROWS_WITH(
      ww::callback_resource(device, static_cast<ww::memory_allocate_callback>(nullptr),
                            &program_deallocate, &self),
      contains("the function to allocate is null"));
  CHECK_THROWS_WITH(
      ww::callback_resource(device, &program_allocate,
                            static_cast<ww::memory_deallocate_callback>(nullptr), &self),
      contains("the function to deallocate is null"));
  using plain_allocate = void* (*)(ww::stream_ref, std::size_t);
  using plain_deallocate = void (*)(ww::stream_ref, void*, std::size_t);
  plain_allocate const none = nullptr;
  plain_deallocate const give = [](ww::stream_ref, void*, std::size_t) {};
  CHECK_THROWS_AS(ww::callback_resource(device, none, give), std::invalid_argument);
}

TEST_CASE("a function that returns an unaligned block is found out, and its block freed") {
  alignas(256) static unsigned char memory[1024];
  std::size_t offset = 8;
  std::size_t freed_bytes = 0;
  ww::callback_resource resource{
      device, [&](ww::stream_ref, std::size_t) -> void* { return memory + offset; },
      [&](ww::stream_ref, void*, std::size_t bytes) { freed_bytes = bytes; }};
  ww::stream const s;
  CHECK_THROWS_WITH(resource.allocate(s, 10), contains("has not an alignment of 256 bytes"));
  CHECK(freed_bytes == 10);
  CHECK_THROWS_AS(resource.try_allocate(s, 10, 512), std::invalid_argument);
  CHECK(freed_bytes == 10 + 512 - 256);
  CHECK(resource.live_bytes() == 0);
  offset = 256;
  void* const p = resource.allocate(s, 10, 512);
  CHECK(reinterpret_cast<std::uintptr_t>(p) % 512 == 0);
  resource.deallocate(s, p, 10);
  CHECK(freed_bytes == 10 + 512 - 256);
}

TEST_CASE("several threads may use a callback resource") {
  std::vector<ww::stream> const streams(4);
  ww::memory_pool pool{device};
  ww::callback_resource memory{
      device, [&](ww::stream_ref s, std::size_t bytes) { return pool.allocate(s, bytes); },
      [&](ww::stream_ref s, void* p, std::size_t bytes) { pool.deallocate(s, p, bytes); }};
  std::vector<std::thread> threads;
  for (ww::stream const& s : streams) {
    threads.emplace_back([&memory, &s] {
      for (std::size_t i = 1; i <= 100; ++i) {
        void* const p = memory.allocate(s, i, i % 2 == 0 ? 4096 : 256);
        memory.deallocate(s, p, i);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(memory.live_bytes() == 0);
  CHECK(pool.statistics().live_blocks == 0);
}

TEST_CASE("exceptions of the functions pass through, and change nothing") {
  bool fail = true;
  ww::callback_resource memory{device,
                               [&](ww::stream_ref, std::size_t) -> void* {
                                 if (fail) throw std::runtime_error{"allocate"};
                                 alignas(256) static unsigned char block[256];
                                 return block;
                               },
                               [&](ww::stream_ref, void*, std::size_t) {
                                 if (fail) throw std::runtime_error{"deallocate"};
                               }};
  ww::stream const s;
  CHECK_THROWS_AS(memory.allocate(s, 10), std::runtime_error);
  CHECK_THROWS_AS(memory.try_allocate(s, 10), std::runtime_error);
  CHECK(memory.live_bytes() == 0);
  fail = false;
  void* const p = memory.allocate(s, 10);
  fail = true;
  CHECK_THROWS_AS(memory.deallocate(s, p, 10), std::runtime_error);
  CHECK(memory.live_bytes() == 10);
  fail = false;
  memory.deallocate(s, p, 10);
  CHECK(memory.live_bytes() == 0);
}

TEST_CASE("adaptors work over every resource") {
  ww::stream const s;
  ww::cuda_malloc_async_resource memory{device};
  ww::statistics_adaptor counted{memory};
  counted.deallocate(s, counted.allocate(s, 100), 100);
  CHECK(counted.statistics().allocations == 1);
  CHECK(memory.live_bytes() == 0);
}
