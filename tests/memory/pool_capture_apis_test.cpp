// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Whatever allocates from a pool in a captured body, without an option and without a watch, takes
// memory that nobody else gets while the graph exists.
#include "memory/capture_support.hpp"
#include "support/catch.hpp"

#include <warpwright/graph/graph_replay.hpp>
#include <warpwright/kernel/evaluate.hpp>
#include <warpwright/kernel/reduce_matrix.hpp>
#include <warpwright/memory/adaptors.hpp>
#include <warpwright/memory/buffer.hpp>
#include <warpwright/memory/resource_ref.hpp>
#include <warpwright/memory/scalar.hpp>

#include <cstddef>
#include <vector>

namespace ww = warpwright;
namespace ew = warpwright::ew;
using test_support::all_are;
using test_support::check_separate;
using test_support::fetch;
using test_support::fill;
using test_support::warm_up;

namespace {

constexpr std::size_t bytes = std::size_t{1} << 20U;
ww::device_id const device{0};

}  // namespace

TEST_CASE("a captured body that allocates and frees") {
  ww::memory_pool pool{device};
  check_separate(pool, [&](ww::stream_ref c) {
    void* const p = pool.allocate(c, bytes);
    fill(c, p, 2, bytes);
    pool.deallocate(c, p, bytes);
  });
}

TEST_CASE("a captured body that allocates a batch") {
  ww::memory_pool pool{device};
  check_separate(pool, [&](ww::stream_ref c) {
    std::size_t const sizes[] = {bytes, bytes};
    void* blocks[2] = {};
    pool.allocate_batch(c, sizes, blocks, 2);
    for (void* p : blocks) fill(c, p, 2, bytes);
    pool.deallocate_batch(c, blocks, sizes, 2);
  });
}

TEST_CASE("a captured body with a device_buffer and a device_scalar") {
  ww::memory_pool pool{device};
  check_separate(pool, [&](ww::stream_ref c) {
    ww::device_buffer<unsigned char> const x{pool, c, bytes};
    fill(c, x.data(), 2, bytes);
  });
  check_separate(
      pool,
      [&](ww::stream_ref c) {
        ww::device_scalar<int> const x{pool, c};
        fill(c, x.data(), 2, sizeof(int));
      },
      sizeof(int));
}

TEST_CASE("a captured body with a memory_cache") {
  ww::memory_pool pool{device};
  ww::stream s;
  ww::memory_cache cache = pool.make_cache(s);
  void* const before = cache.allocate(bytes);
  cache.deallocate(before, bytes);
  ww::graph_replay step{0};
  step.recapture(s, [&](ww::stream_ref) {
    void* const p = cache.allocate(bytes);
    fill(s, p, 2, bytes);
    cache.deallocate(p, bytes);
  });
  void* const mine = cache.allocate(bytes);
  fill(s, mine, 7, bytes);
  step.launch(s);
  CHECK(all_are(fetch(s, mine, bytes), 7));
  cache.deallocate(mine, bytes);
}

TEST_CASE("a captured body with adaptors and a resource_ref") {
  ww::memory_pool pool{device};
  ww::limit_adaptor part{pool, 64 * bytes};
  ww::statistics_adaptor counted{part};
  ww::resource_ref const any{counted};
  check_separate(pool, [&](ww::stream_ref c) {
    void* const p = any.allocate(c, bytes);
    fill(c, p, 2, bytes);
    any.deallocate(c, p, bytes);
  });
}

TEST_CASE("a captured body on a forked stream") {
  ww::memory_pool pool{device};
  ww::stream other;
  warm_up(pool, other, bytes);
  check_separate(pool, [&](ww::capture_scope& c) {
    c.fork(other);
    void* const p = pool.allocate(other, bytes);
    fill(other, p, 2, bytes);
    pool.deallocate(other, p, bytes);
  });
}

TEST_CASE("a captured body with a reduction that takes scratch from the pool") {
  constexpr int rows = 4096;
  constexpr int cols = 64;
  ww::stream s;
  ww::memory_pool pool{device};
  ww::device_buffer<float> x{pool, s, rows * cols};
  ww::device_buffer<float> y{pool, s, cols};
  ew::run(s, ew::out(x.data(), rows * cols) = 1.0F);
  ww::graph_replay step;
  auto const body = [&](ww::stream_ref c) {
    ww::device_buffer<float> const twice{pool, c, rows * cols};
    ew::run(c, ew::out(twice.data(), rows * cols) = ew::in(x.data(), rows * cols) * 2.0F);
    ew::reduce_cols(c, pool, {rows, cols},
                    ew::to(y.data()) = ew::sum(ew::in(twice.data(), rows * cols)));
  };
  for (int i = 0; i < 3; ++i) step.run(s, body);
  std::vector<void*> mine;
  for (std::size_t size = 256; size <= bytes; size *= 2) {
    mine.push_back(pool.allocate(s, size));
    fill(s, mine.back(), 7, size);
  }
  step.run(s, body);
  std::size_t size = 256;
  for (void* p : mine) {
    CHECK(all_are(fetch(s, p, size), 7));
    pool.deallocate(s, p, size);
    size *= 2;
  }
  float sum = 0;
  ww::check(cudaMemcpyAsync(&sum, y.data(), sizeof sum, cudaMemcpyDeviceToHost, s.get()),
            "cudaMemcpyAsync");
  s.synchronize();
  CHECK(sum == 2.0F * rows);
}

TEST_CASE("after a capture the fast path is used again") {
  ww::memory_pool pool{device};
  ww::stream s;
  {
    ww::graph const g = ww::capture(s, [](ww::stream_ref) {});
  }
  warm_up(pool, s, bytes);
  std::uint64_t const before = pool.statistics().cache_hits;
  void* const p = pool.allocate(s, bytes);
  pool.deallocate(s, p, bytes);
  CHECK(pool.statistics().cache_hits == before + 1);
  CHECK(ww::detail::captures_under_way.load(ww::detail::memory_order::relaxed) == 0);
}

TEST_CASE("memory of one graph that another's capture frees is reused when both are destroyed") {
  ww::stream s;
  ww::memory_pool pool{device};
  void* p = nullptr;
  void* q = nullptr;
  ww::graph const a = ww::capture(s, [&](ww::stream_ref c) {
    p = pool.allocate(c, 4096);
    fill(c, p, 1, 4096);
  });
  ww::graph const b = ww::capture(s, [&](ww::stream_ref c) {
    pool.deallocate(c, p, 4096);
    q = pool.allocate(c, 4096);  // a may be launched again, so p cannot serve this
    fill(c, q, 2, 4096);
  });
  CHECK(p != q);
}

#if WARPWRIGHT_HOST_RUNTIME
TEST_CASE("the host runtime rejects a capture that a GPU would not notice") {
  ww::stream s;
  ww::memory_pool pool{device};
  warm_up(pool, s, bytes);
  void* const p = pool.allocate(s, bytes);
  ww::check(cudaStreamBeginCapture(s.get(), cudaStreamCaptureModeRelaxed),
            "cudaStreamBeginCapture");
  using Catch::Matchers::Contains;
  CHECK_THROWS_WITH(static_cast<void>(pool.allocate(s, bytes)), Contains("detect_captures()"));
  CHECK_THROWS_WITH(pool.deallocate(s, p, bytes), Contains("cannot free on a stream"));
  void* batch[1] = {p};
  CHECK_THROWS_WITH(pool.deallocate_batch(s, batch, &bytes, 1),
                    Contains("cannot free on a stream"));
  CHECK_THROWS_WITH(pool.allocate_batch(s, &bytes, batch, 1), Contains("detect_captures()"));
  {
    ww::capture_watch const watch{pool};
    void* const q = pool.allocate(s, bytes);
    pool.deallocate(s, q, bytes);
  }
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaStreamEndCapture(s.get(), &graph) == cudaSuccess);
  ww::check(cudaGraphDestroy(graph), "cudaGraphDestroy");
  pool.deallocate(s, p, bytes);
}
#endif
