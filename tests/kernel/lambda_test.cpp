// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// nvcc's extended lambdas as functions of map(), fold() and run_each().
#include <warpwright/kernel.hpp>
#include <warpwright/kernel/multi_tensor.hpp>
#include <warpwright/kernel/reduce.hpp>
#include <warpwright/kernel/rows.hpp>
#include <warpwright/memory/pool.hpp>

#include "support/catch.hpp"
#include "support/device_memory.hpp"

namespace ew = warpwright::ew;
namespace ww = warpwright;
using test_support::device_array;

namespace {

struct plus_one {
  WARPWRIGHT_HOST_DEVICE float operator()(float a) const { return a + 1; }
};

}  // namespace

TEST_CASE("a lambda for devices alone, in run()") {
  device_array<float> const x{std::vector<float>{1, 2, 3, 4}};
  device_array<float> const y{4};
  ww::stream s;
  auto const twice = ew::map([] __device__(float a) { return a * 2; }, ew::in(x.data(), 4));
  ew::run(s, ew::out(y.data(), 4) = ew::map(plus_one{}, twice) * 10);
  CHECK(y.fetch(s) == std::vector<float>{30, 50, 70, 90});
}

TEST_CASE(
    "a lambda for devices that says what it returns, below reductions and functions of rows") {
  device_array<float> const x{std::vector<float>{1, 2, 3, 4}};
  device_array<float> const y{4}, mean{1};
  ww::stream s;
  ww::memory_pool pool{ww::current_device()};
  auto const twice =
      ew::map([] __device__(float a) -> float { return a * 2; }, ew::in(x.data(), 4));
  auto const [sum, most] = ew::reduce(s, pool, 4, ew::sum(twice), ew::max(twice + 1));
  CHECK(sum == 20);
  CHECK(most == 9);
  auto const normal = ew::layer_norm(twice, 0.0);
  ew::run_rows(s, {1, 4}, ew::out(y.data(), 4) = normal * 0 + twice,
               ew::out(mean.data(), 1) = normal.mean());
  CHECK(y.fetch(s) == std::vector<float>{2, 4, 6, 8});
  CHECK(mean.fetch(s)[0] == 5);
}

TEST_CASE("a lambda for both sides, and one for devices as a fold") {
  device_array<float> const x{std::vector<float>{1, 2, 3, 4}};
  ww::stream s;
  ww::memory_pool pool{ww::current_device()};
  auto const twice =
      ew::map([] __host__ __device__(float a) { return a * 2; }, ew::in(x.data(), 4));
  CHECK(ew::reduce(s, pool, 4, ew::sum(twice)) == 20);
  auto const times = [] __device__(float a, float b) { return a * b; };
  CHECK(ew::reduce(s, pool, 4, ew::fold(twice, 1.0F, times)) == 384);
}

TEST_CASE("a lambda for devices, of lists of tensors") {
  device_array<float> const x{std::vector<float>{1, 2, 3, 4}};
  device_array<float> const y{std::vector<float>{1, 1, 1, 1}};
  ww::stream s;
  ew::tensor_list<float, float const> list;
  list.add(y.data(), x.data(), 4);
  ew::run_each(s, list, [] __device__(float& a, float b) { a += b; });
  CHECK(y.fetch(s) == std::vector<float>{2, 3, 4, 5});
}
