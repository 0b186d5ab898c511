// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Failing CUDA calls, no memory; and what a step costs.
#include "support/catch.hpp"

#include <warpwright/memory.hpp>
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>
#include <warpwright/train/optimizers.hpp>

#include <vector>

namespace ww = warpwright;

namespace {

std::size_t live() {
  ww::testing::host_runtime_stats const now = ww::testing::stats();
  return now.device_allocations + now.host_allocations;
}

struct fixture {
  ww::stream stream;
  ww::memory_pool pool{ww::current_device()};
  ww::device_buffer<float> values{pool, stream, 20000};
  ww::tensor_list list;
  fixture() {
    ww::check(cudaMemsetAsync(values.data(), 0, values.size_bytes(), stream.get()),
              "cudaMemsetAsync");
    list.add("a", values.data(), 9000).add("b", values.data() + 9000, 11000);
  }
};

}  // namespace

TEST_CASE("every CUDA call may fail: nothing is made, or a step throws and the next one works") {
  fixture f;
  { ww::adamw const warm{f.pool, f.stream, f.list}; }
  std::size_t steps = 0;
  for (std::uint64_t nth = 1; nth <= 30; ++nth) {
    CAPTURE(nth);
    std::uint64_t const held = f.pool.statistics().live_bytes;
    try {
      ww::testing::scoped_fault_plan const fault{
          ww::testing::fault_plan{}.fail("*", nth, cudaErrorInvalidValue)};
      ww::loss_scaler scaler{f.pool, f.stream};
      ww::adamw optimizer{f.pool, f.stream, f.list};
      try {
        optimizer.step(f.stream, f.list, scaler);
        ++steps;
      } catch (ww::cuda_error const& error) {
        CHECK(error.code() == cudaErrorInvalidValue);
        optimizer.step(f.stream, f.list, scaler);
      }
    } catch (ww::cuda_error const& error) {
      CHECK(error.code() == cudaErrorInvalidValue);
    }
    f.stream.synchronize();
    CHECK(cudaGetLastError() == cudaSuccess);
    CHECK(f.pool.statistics().live_bytes == held);
  }
  CHECK(steps >= 10);
}

TEST_CASE("without memory an optimizer is not made") {
  fixture f;
  std::size_t const before = live();
  ww::tensor_list large;
  large.add("large", f.values.data(), std::size_t{1} << 42U);
  CHECK_THROWS_AS((ww::adamw{f.pool, f.stream, large}), ww::out_of_memory);
  CHECK(live() == before);
}

TEST_CASE("a step is two kernels, and one more where gradients have moved") {
  fixture f;
  fixture g;
  g.stream.synchronize();  // its gradients are read on the other stream
  ww::adamw optimizer{f.pool, f.stream, f.list, ww::adamw_options{}.clip(1.0F)};
  auto const launches = [&](ww::tensor_list const& gradients) {
    std::uint64_t const before = ww::testing::call_count("cudaLaunchKernel");
    optimizer.step(f.stream, gradients);
    return ww::testing::call_count("cudaLaunchKernel") - before;
  };
  CHECK(launches(g.list) == 3);
  CHECK(launches(g.list) == 2);
}
