// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include "memory/support.hpp"
#include "support/catch.hpp"

#include <warpwright/memory/adaptors/limit.hpp>
#include <warpwright/memory/scalar.hpp>

#include <type_traits>
#include <utility>

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>
#endif

namespace ww = warpwright;
using test_support::gate;

namespace {

ww::device_id const device{0};

struct increment {
  int* value;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t) const { ++*value; }
};

}  // namespace

static_assert(!std::is_copy_constructible<ww::device_scalar<int>>::value, "a copy has a stream");
static_assert(std::is_nothrow_move_constructible<ww::device_scalar<int>>::value, "");
static_assert(std::is_nothrow_move_assignable<ww::device_scalar<int>>::value, "");

TEST_CASE("a scalar is set, used by a kernel and read on a stream") {
  ww::stream s;
  ww::memory_pool pool{device};
  {
    ww::device_scalar<int> x{pool, s, 41};
    CHECK(x.value(s) == 41);
    ww::for_each_index(s, 1, increment{x.data()});
    CHECK(x.value(s) == 42);
    x.set_value(s, 7);
    CHECK(x.value(s) == 7);
    x.set_to_zero(s);
    CHECK(x.value(s) == 0);
    int const nine = 9;
    x.set_value_async(s, nine);
    CHECK(x.value(s) == 9);
    CHECK(x.pool() == &pool);
    CHECK(x.stream() == s.ref());
    CHECK(pool.statistics().live_blocks == 1);
  }
  CHECK(pool.statistics().live_blocks == 0);
}

TEST_CASE("setting a scalar to zero does not wait") {
  ww::stream s;
  ww::memory_pool pool{device};
  ww::device_scalar<int> x{pool, s};
  gate hold{s};
  x.set_to_zero(s);
  ww::device_scalar<int> const copy{pool, s, x};
  hold.open();
  CHECK(copy.value(s) == 0);
}

TEST_CASE("a scalar is copied and moved") {
  ww::stream s;
  ww::memory_pool pool{device};
  ww::limit_adaptor part{pool, 4};
  ww::device_scalar<float> x{pool, s, 1.5F};
  ww::device_scalar<float, ww::limit_adaptor<ww::memory_pool>> copy{part, s, x};
  x.set_value(s, 2.0F);
  CHECK(copy.value(s) == 1.5F);
  float* const p = x.data();
  ww::device_scalar<float> y{std::move(x)};
  CHECK(y.data() == p);
  CHECK(x.data() == nullptr);
  CHECK_THROWS_AS(x.value(s), std::invalid_argument);
  x = std::move(y);
  CHECK(x.value(s) == 2.0F);
  CHECK(pool.statistics().live_blocks == 2);
}

TEST_CASE("a scalar is freed on the stream that was set last") {
  ww::stream first;
  ww::stream second;
  ww::memory_pool pool{device};
  ww::device_scalar<int> x{pool, first};
  second.wait(first);
  x.set_stream(second);
  CHECK(x.stream() == second.ref());
}

TEST_CASE("a scalar is neither read nor set with a wait in a capture") {
  ww::stream s;
  ww::memory_pool pool{device};
  ww::device_scalar<int> x{pool, s, 3};
  cudaGraph_t graph = nullptr;
  ww::check(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal), "begin");
  CHECK_THROWS_AS(x.value(s), std::invalid_argument);
  CHECK_THROWS_AS(x.set_value(s, 1), std::invalid_argument);
  x.set_to_zero(s);
  ww::check(cudaStreamEndCapture(s, &graph), "end");
  CHECK(x.value(s) == 3);  // the graph was not launched
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
}

#if WARPWRIGHT_HOST_RUNTIME

TEST_CASE("a scalar that cannot be allocated or set loses nothing") {
  ww::testing::reset_host_runtime();
  {
    ww::stream s;
    ww::memory_pool pool{device};
    ww::limit_adaptor part{pool, 3};
    using limited = ww::device_scalar<int, ww::limit_adaptor<ww::memory_pool>>;
    CHECK_THROWS_AS(limited(part, s), ww::out_of_memory);
    for (char const* call : {"cudaMemcpyAsync", "cudaStreamSynchronize", "cudaStreamIsCapturing"}) {
      INFO(call);
      ww::testing::scoped_fault_plan const plan{
          ww::testing::fault_plan{}.fail(call, 1, cudaErrorInvalidValue)};
      CHECK_THROWS_AS(ww::device_scalar<int>(pool, s, 1), ww::cuda_error);
    }
    CHECK(pool.statistics().live_blocks == 0);
    ww::device_scalar<int> x{pool, s, 1};
    ww::testing::scoped_fault_plan const plan{
        ww::testing::fault_plan{}.fail("cudaMemsetAsync", 1, cudaErrorInvalidValue)};
    CHECK_THROWS_AS(x.set_to_zero(s), ww::cuda_error);
    CHECK(x.value(s) == 1);
  }
  CHECK(ww::testing::leak_report().empty());
}

#endif
