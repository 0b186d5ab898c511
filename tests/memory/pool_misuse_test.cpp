// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// How a pool reports misuse, and that it remains usable.
#include "memory/support.hpp"
#include "support/catch.hpp"

#include <warpwright/memory/pool.hpp>

#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <vector>

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/host_runtime.hpp>
#endif

namespace ww = warpwright;

namespace {

constexpr std::size_t mib = std::size_t{1} << 20U;
ww::device_id const device{0};

char* at(void* p, std::size_t offset) { return static_cast<char*>(p) + offset; }

struct capture {
  explicit capture(ww::stream_ref s) : stream{s} {
    ww::check(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeGlobal),
              "cudaStreamBeginCapture");
  }
  bool end() {
    cudaGraph_t graph = nullptr;
    cudaError_t const answer = cudaStreamEndCapture(stream.get(), &graph);
    ww::detail::discard(answer);
    if (graph != nullptr) ww::detail::discard(cudaGraphDestroy(graph));
    return answer == cudaSuccess && graph != nullptr;
  }
  ww::stream_ref stream;
};

}  // namespace

TEST_CASE("checked: a block freed twice") {
  ww::stream s;
  ww::memory_pool pool{device, ww::memory_pool_options{}.checked()};
  void* const p = pool.allocate(s, 1000);
  pool.deallocate(s, p, 1000);
  CHECK_THROWS_WITH(pool.deallocate(s, p, 1000),
                    contains("double free: its 1000 bytes were allocated at") &&
                        contains("pool_misuse_test.cpp:") && contains("freed already at"));
  CHECK_THROWS_AS(pool.deallocate(s, p, 1000), std::invalid_argument);
  CHECK(pool.statistics().deallocations == 1);
}

TEST_CASE("checked: wrong bytes") {
  ww::stream s;
  ww::memory_pool pool{device, ww::memory_pool_options{}.checked()};
  void* const p = pool.allocate(s, 1000);
  CHECK_THROWS_WITH(pool.deallocate(s, p, 1001),
                    contains("wrong size") && contains("freed with 1001 bytes, but 1000 bytes") &&
                        contains("pool_misuse_test.cpp:"));
  CHECK(pool.statistics().live_blocks == 1);
  pool.deallocate(s, p, 1000);
}

TEST_CASE("checked: pointers that the pool has not allocated") {
  ww::stream s;
  ww::memory_pool pool{device, ww::memory_pool_options{}.checked()};
  void* const p = pool.allocate(s, 1000);
  CHECK_THROWS_WITH(pool.deallocate(s, at(p, 256), 100),
                    contains("256 bytes inside of a block of 1000 bytes allocated at"));
  int on_the_stack = 0;
  CHECK_THROWS_WITH(pool.deallocate(s, &on_the_stack, 4),
                    contains("not from this pool (memory that is not registered with CUDA"));
  void* pinned = nullptr;
  ww::check(cudaMallocHost(&pinned, 100), "cudaMallocHost");
  CHECK_THROWS_WITH(pool.deallocate(s, pinned, 100),
                    contains("not from this pool (page-locked host memory"));
  ww::check(cudaFreeHost(pinned), "cudaFreeHost");
  ww::memory_pool other{device};
  void* const foreign = other.allocate(s, 100);
  CHECK_THROWS_WITH(pool.deallocate(s, foreign, 100),
                    contains("not from this pool (memory of device 0"));
  other.deallocate(s, foreign, 100);
  pool.deallocate(s, p, 1000);
  CHECK(cudaPeekAtLastError() == cudaSuccess);
}

namespace {

// Out of line, so that the compiler does not use the end of the pool's lifetime.
[[gnu::noinline]] void* allocate_from(ww::memory_pool* pool, ww::stream_ref s) {
  return pool->allocate(s, 1000);
}
[[gnu::noinline]] void free_to(ww::memory_pool* pool, ww::stream_ref s, void* p) {
  pool->deallocate(s, p, 1000);
}
[[gnu::noinline]] void end(ww::memory_pool* pool) { pool->~memory_pool(); }

}  // namespace

TEST_CASE("a call after the pool's destruction throws, checked or not") {
  ww::stream s;
  for (bool const checked : {true, false}) {
    CAPTURE(checked);
    // As a static pool, whose memory is not reused.
    alignas(ww::memory_pool) static unsigned char memory[sizeof(ww::memory_pool)];
    auto* const pool = ::new (static_cast<void*>(memory))
        ww::memory_pool{device, ww::memory_pool_options{}.checked(checked)};
    void* const p = allocate_from(pool, s);
    end(pool);
    CHECK_THROWS_WITH(
        free_to(pool, s, p),
        contains("deallocate() of a destroyed pool; destroy the objects that use its memory "
                 "before the pool"));
    CHECK_THROWS_WITH(allocate_from(pool, s), contains("allocate() of a destroyed pool"));
    CHECK_THROWS_WITH(pool->trim(), contains("trim() of a destroyed pool"));
    CHECK_THROWS_WITH(pool->retire(s), contains("retire() of a destroyed pool"));
    CHECK_THROWS_WITH(pool->record_use(s, p), contains("record_use() of a destroyed pool"));
    std::size_t const bytes = 256;
    void* blocks[1] = {p};
    CHECK_THROWS_WITH(pool->allocate_batch(s, &bytes, blocks, 1),
                      contains("allocate_batch() of a destroyed pool"));
    CHECK_THROWS_WITH(pool->deallocate_batch(s, blocks, &bytes, 1),
                      contains("deallocate_batch() of a destroyed pool"));
    CHECK_THROWS_WITH(static_cast<void>(pool->make_cache(s)),
                      contains("make_cache() of a destroyed pool"));
  }
}

TEST_CASE(
    "out_of_memory names the streams and source locations with the most memory, of any number") {
  ww::stream s;
  ww::memory_pool pool{device, ww::memory_pool_options{}.checked().max_bytes(64 * mib)};
  std::vector<std::string> files;
  for (int k = 0; k < 200; ++k) files.push_back("file_" + std::to_string(k) + ".cpp");
  std::vector<void*> small;
  for (std::string const& file : files) {
    small.push_back(pool.allocate(s, 300, 256, ww::source_location::current(file.c_str(), 7)));
  }
  void* const big = pool.allocate(s, 40 * mib, 256, ww::source_location::current("big.cpp", 999));
  CHECK_THROWS_WITH(pool.allocate(s, 60 * mib),
                    contains("Live, allocated at: big.cpp:999 41943040 bytes, "));
  pool.deallocate(s, big, 40 * mib);
  for (void* p : small) pool.deallocate(s, p, 300);

  // Three of four streams with equal amounts.
  ww::memory_pool another{device, ww::memory_pool_options{}.max_bytes(64 * mib).cache_bytes(0)};
  std::vector<ww::stream> streams(4);
  std::vector<void*> blocks;
  for (ww::stream& each : streams) blocks.push_back(another.allocate(each, 4 * mib));
  for (std::size_t k = 0; k < 4; ++k) another.deallocate(streams[k], blocks[k], 4 * mib);
  try {
    static_cast<void>(another.allocate(s, std::size_t{1} << 40U));
    FAIL("it was allocated");
  } catch (ww::out_of_memory const& error) {
    std::string const words = error.what();
    INFO(words);
    std::size_t shown = 0;
    for (std::size_t at = words.find("4194304 bytes of stream"); at != std::string::npos;
         at = words.find("4194304 bytes of stream", at + 1)) {
      ++shown;
    }
    CHECK(shown == 3);
  }
}

#if WARPWRIGHT_HOST_RUNTIME
// A GPU's runtime may not survive such a handle.
TEST_CASE("errors name a stream that was destroyed without retire()") {
  ww::memory_pool pool{device, ww::memory_pool_options{}.max_bytes(48 * mib)};
  ww::stream t;
  auto s = std::make_unique<ww::stream>();
  cudaStream_t const raw = s->get();
  void* const p = pool.allocate(*s, 32 * mib);
  void* const q = pool.allocate(*s, mib);
  void* const shared = pool.allocate(t, mib);
  pool.record_use(*s, shared);
  pool.deallocate(*s, p, 32 * mib);
  s.reset();
  CHECK_THROWS_WITH(pool.allocate(t, 32 * mib), contains("which is destroyed: call retire()"));
  CHECK_THROWS_WITH(pool.allocate(raw, mib), contains("declare streams above the pool, or call"));
  CHECK_THROWS_WITH(pool.deallocate(raw, q, mib), contains("the stream was probably destroyed"));
  CHECK_THROWS_WITH(pool.retire(raw), contains("the stream was probably destroyed"));
  CHECK_THROWS_WITH(pool.deallocate(t, shared, mib),
                    contains("freed after one of its streams was destroyed"));
}
#endif

TEST_CASE("unchecked: misuse that is detected nevertheless") {
  ww::stream s;
  ww::memory_pool pool{device};
  void* const p = pool.allocate(s, 1000);
  pool.deallocate(s, p, 1000);
  CHECK_THROWS_WITH(pool.deallocate(s, p, 1000),
                    contains("double free") && contains("checked() reports where"));
  int on_the_stack = 0;
  CHECK_THROWS_WITH(pool.deallocate(s, &on_the_stack, 4), contains("not from this pool"));
  CHECK(pool.statistics().live_bytes == 0);
  CHECK(pool.statistics().deallocations == 1);
}

TEST_CASE("unchecked and without caches: every pointer that is not the start of a live block") {
  ww::stream s;
  ww::memory_pool pool{device, ww::memory_pool_options{}.cache_bytes(0)};
  void* const p = pool.allocate(s, 1000);
  CHECK_THROWS_WITH(pool.deallocate(s, at(p, 512), 100), contains("512 bytes inside of a block"));
  pool.deallocate(s, p, 1000);
  CHECK_THROWS_WITH(pool.deallocate(s, p, 1000), contains("double free"));
  CHECK(pool.statistics().live_bytes == 0);
}

TEST_CASE("a pool grows while another stream captures, and does not touch that stream") {
  ww::stream capturing;
  ww::stream s;
  ww::memory_pool pool{device, ww::memory_pool_options{}.growth_bytes(2 * mib).max_bytes(4 * mib)};
  void* const p = pool.allocate(capturing, 2 * mib);
  pool.deallocate(capturing, p, 2 * mib);
  capture c{capturing};
  void* const q = pool.allocate(s, 2 * mib);  // a cudaMalloc in a global capture's own thread
  CHECK(q != p);
  // The donor's event would become part of its graph: the block is not available.
  CHECK(pool.try_allocate(s, 2 * mib) == nullptr);
  CHECK_THROWS_WITH(pool.retire(capturing), contains("end the capture first"));
  CHECK(c.end());
  void* const r = pool.allocate(s, 2 * mib);
  CHECK(r == p);
  pool.deallocate(s, q, 2 * mib);
  pool.deallocate(s, r, 2 * mib);
}

#if WARPWRIGHT_HOST_RUNTIME

TEST_CASE("checked: a stream of another device") {
  ww::testing::reset_host_runtime(ww::testing::host_runtime_options{}.with_devices(2));
  {
    ww::stream s{ww::device_id{0}};
    ww::stream wrong{ww::device_id{1}};
    ww::memory_pool pool{device, ww::memory_pool_options{}.checked()};
    void* const p = pool.allocate(s, 100);
    CHECK_THROWS_WITH(pool.allocate(wrong, 100),
                      contains("cannot allocate on a stream of device 1") &&
                          contains("the pool's memory is on device 0"));
    CHECK_THROWS_WITH(pool.deallocate(wrong, p, 100),
                      contains("cannot deallocate on a stream of device 1"));
    pool.deallocate(s, p, 100);
  }
  ww::testing::reset_host_runtime();
}

#endif
