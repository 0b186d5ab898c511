// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/graph/capture.hpp>
#include <warpwright/graph/graph_exec.hpp>
#include <warpwright/memory/buffer.hpp>
#include <warpwright/memory/resource_ref.hpp>
#include <warpwright/tune/tuning_pool.hpp>

#include <cstdint>
#include <stdexcept>

#include "support/catch.hpp"

namespace ww = warpwright;

namespace {
constexpr std::size_t mib = std::size_t{1} << 20;
}

TEST_CASE("a tuning pool counts live bytes and their peak", "[tune][tuning_pool]") {
  ww::stream const s;
  ww::tuning_pool pool{ww::current_device()};
  CHECK(pool.live_bytes() == 0);
  CHECK(pool.peak_bytes() == 0);
  void* const a = pool.allocate(s, 1000);
  void* const b = pool.allocate(s, 256);
  CHECK(pool.live_bytes() == 1024 + 256);
  pool.deallocate(s, a, 1000);
  CHECK(pool.live_bytes() == 256);
  CHECK(pool.peak_bytes() == 1280);
  pool.reset();
  CHECK(pool.peak_bytes() == 256);
  void* const c = pool.try_allocate(s, 100);
  CHECK(pool.peak_bytes() == 512);
  CHECK(pool.allocate(s, 0) == nullptr);
  pool.deallocate(s, b, 256);
  pool.deallocate(s, c, 100);
  CHECK(pool.live_bytes() == 0);
  CHECK(pool.refusals() == 0);
  CHECK(pool.device() == ww::current_device());
}

TEST_CASE("a tuning pool refuses what is over its limit", "[tune][tuning_pool]") {
  ww::stream const s;
  ww::tuning_pool pool{ww::current_device()};
  CHECK(pool.limit_bytes() == ww::memory_pool_options::unlimited);
  pool.limit(8 * mib);
  CHECK(pool.limit_bytes() == 8 * mib);
  void* const a = pool.allocate(s, 5 * mib);
  CHECK_THROWS_AS(pool.allocate(s, 4 * mib), ww::out_of_memory);
  CHECK(pool.refusals() == 1);
  CHECK(pool.try_allocate(s, 4 * mib) == nullptr);
  CHECK(pool.try_allocate(s, ~std::size_t{0} - 100) == nullptr);
  CHECK(pool.refusals() == 3);
  CHECK(pool.live_bytes() == 5 * mib);
  CHECK(pool.peak_bytes() == 5 * mib);
  try {
    static_cast<void>(pool.allocate(s, 4 * mib));
    FAIL("no exception");
  } catch (ww::out_of_memory const& e) {
    CHECK(e.report().requested_bytes == 4 * mib);
    CHECK(e.report().live_bytes == 5 * mib);
    CHECK(e.report().limit_bytes == 8 * mib);
  }
  // With live blocks, only live bytes are limited.
  pool.limit(6 * mib);
  CHECK(pool.try_allocate(s, 2 * mib) == nullptr);
  void* const b = pool.allocate(s, mib);
  pool.deallocate(s, a, 5 * mib);
  pool.deallocate(s, b, mib);
  pool.limit(ww::memory_pool_options::unlimited);
  void* const c = pool.allocate(s, 32 * mib);
  pool.deallocate(s, c, 32 * mib);
}

TEST_CASE("an idle tuning pool limits what it reserves as well, below the user's own limit",
          "[tune][tuning_pool]") {
  ww::stream const s;
  ww::tuning_pool pool{ww::current_device(), ww::memory_pool_options{}.max_bytes(64 * mib)};
  pool.limit(16 * mib);
  void* blocks[12] = {};
  for (void*& b : blocks) b = pool.allocate(s, mib);
  CHECK(pool.statistics().reserved_bytes <= 16 * mib);
  for (void* b : blocks) pool.deallocate(s, b, mib);
  pool.limit(ww::memory_pool_options::unlimited);
  CHECK(pool.try_allocate(s, 65 * mib) == nullptr);
  CHECK(pool.refusals() == 1);
  CHECK(pool.live_bytes() == 0);
}

TEST_CASE("a tuning pool whose memory a graph has is not replaced", "[tune][tuning_pool]") {
  ww::stream const s;
  ww::tuning_pool pool{ww::current_device()};
  ww::graph const g = ww::capture(s, [&](ww::stream_ref t) {
    ww::device_buffer<char, ww::resource_ref> const x{pool, t, mib};
    ww::check(cudaMemsetAsync(x.data(), 1, mib, t), "cudaMemsetAsync");
  });
  REQUIRE(pool.live_bytes() == 0);
  std::uint64_t const of_graph = pool.statistics().graph_bytes;
  CHECK(of_graph >= mib);
  pool.limit(16 * mib);
  CHECK(pool.statistics().graph_bytes == of_graph);
  ww::graph_exec exec{g};
  exec.launch(s);
  s.synchronize();
}

TEST_CASE("a tuning pool gives idle memory back", "[tune][tuning_pool]") {
  ww::stream const s;
  ww::tuning_pool pool{ww::current_device()};
  {
    ww::device_buffer<char, ww::resource_ref> const x{ww::resource_ref{pool}, s, 10 * mib};
    CHECK(pool.live_bytes() == 10 * mib);
    CHECK(pool.statistics().reserved_bytes >= 10 * mib);
  }
  s.synchronize();
  CHECK(pool.trim() >= 10 * mib);
  CHECK(pool.statistics().reserved_bytes == 0);
  CHECK_THROWS_AS(pool.allocate(s, 1, 3), std::invalid_argument);
  CHECK(pool.live_bytes() == 0);
}
