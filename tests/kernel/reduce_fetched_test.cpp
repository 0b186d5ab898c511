// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// reduce_rows() and reduce_cols() that wait for their results.
#include <warpwright/kernel/reduce_matrix.hpp>
#include <warpwright/memory/pool.hpp>

#include <stdexcept>
#include <vector>

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>
#endif

#include "kernel/support.hpp"
#include "support/catch.hpp"
#include "support/device_memory.hpp"

namespace ew = warpwright::ew;
namespace ww = warpwright;
using kernel_test::refusal;
using kernel_test::small_integers;
using test_support::contains;
using test_support::device_array;

TEST_CASE("one result of each row and of each column, and several") {
  ww::stream s;
  ww::memory_pool pool{ww::current_device()};
  for (std::size_t const rows : {1U, 3U, 100U, 5000U}) {
    for (std::size_t const cols : {1U, 7U, 64U, 300U}) {
      CAPTURE(rows, cols);
      auto const x = small_integers<float>(rows * cols, 30, 7);
      device_array<float> const dx{x};
      auto const e = ew::in(dx.data(), rows * cols);
      auto const places = [](std::vector<ew::located<float>> const& found) {
        std::vector<std::uint64_t> indices;
        for (ew::located<float> const& one : found) indices.push_back(one.index);
        return indices;
      };
      std::vector<double> row_sums(rows), col_sums(cols);
      std::vector<float> row_most(rows, -1000), col_most(cols, -1000);
      std::vector<std::uint64_t> row_at(rows), col_at(cols);
      for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t c = 0; c < cols; ++c) {
          float const v = x[r * cols + c];
          row_sums[r] += static_cast<double>(v);
          col_sums[c] += static_cast<double>(v);
          if (v > row_most[r]) row_most[r] = v, row_at[r] = c;
          if (v > col_most[c]) col_most[c] = v, col_at[c] = r;
        }
      }
      auto const as_doubles = [](std::vector<float> const& values) {
        return std::vector<double>(values.begin(), values.end());
      };
      std::vector<float> const sums = ew::reduce_rows(s, pool, {rows, cols}, ew::sum(e));
      CHECK(as_doubles(sums) == row_sums);
      auto const [sum, most, at] =
          ew::reduce_rows(s, pool, {rows, cols}, ew::sum(e), ew::max(e), ew::argmax(e));
      CHECK((as_doubles(sum) == row_sums && most == row_most && places(at) == row_at));
      CHECK(as_doubles(ew::reduce_cols(s, pool, {rows, cols}, ew::sum(e))) == col_sums);
      auto const [below, high, where] =
          ew::reduce_cols(s, pool, {rows, cols}, ew::sum(e), ew::max(e), ew::argmax(e));
      CHECK((as_doubles(below) == col_sums && high == col_most && places(where) == col_at));
    }
  }
  CHECK(pool.statistics().live_bytes == 0);
}

TEST_CASE("no rows, no columns") {
  ww::stream s;
  ww::memory_pool pool{ww::current_device()};
  float const* const nothing = nullptr;
  CHECK(ew::reduce_rows(s, pool, {0, 5}, ew::sum(ew::in(nothing, 0))).empty());
  CHECK(ew::reduce_cols(s, pool, {5, 0}, ew::sum(ew::in(nothing, 0))).empty());
  CHECK(ew::reduce_rows(s, pool, {3, 0}, ew::sum(ew::in(nothing, 0))) == std::vector<float>(3));
  CHECK(ew::reduce_cols(s, pool, {0, 3}, ew::sum(ew::in(nothing, 0))) == std::vector<float>(3));
}

TEST_CASE("what does not fit is refused, and a full pool says so") {
  ww::stream s;
  ww::memory_pool pool{ww::current_device(), ww::memory_pool_options{}.max_bytes(4U << 20U)};
  device_array<float> const x{64};
  auto const e = ew::in(x.data(), 64);
  CHECK_THAT(refusal([&] {
               static_cast<void>(ew::reduce_rows(s, pool, {8, 7}, ew::sum(e)));
             }),
             contains("has 64 elements"));
  CHECK_THAT(refusal([&] {
               static_cast<void>(ew::reduce_cols(s, pool, {8, 7}, ew::sum(e)));
             }),
             contains("has 64 elements"));
  for (ew::matrix_shape const shape :
       {ew::matrix_shape{std::size_t{1} << 62U, 4}, ew::matrix_shape{~std::size_t{0}, 1},
        ew::matrix_shape{std::size_t{1} << 40U, 1}}) {
    CHECK(refusal([&] { static_cast<void>(ew::reduce_rows(s, pool, shape, ew::sum(e))); }) !=
          "accepted");
    CHECK(refusal([&] {
            static_cast<void>(ew::reduce_cols(s, pool, {shape.cols, shape.rows}, ew::sum(e)));
          }) != "accepted");
  }
  CHECK(pool.statistics().allocations == 0);  // none was asked for
  CHECK_THROWS_AS(
      ew::reduce_rows(s, pool, {std::size_t{4} << 20U, 0}, ew::sum(ew::in(x.data(), 0))),
      ww::out_of_memory);
  CHECK(pool.statistics().live_bytes == 0);
  CHECK(ew::reduce_rows(s, pool, {1, 1}, ew::sum(ew::constant(2.0F))) == std::vector<float>{2});
}

#if WARPWRIGHT_HOST_RUNTIME
TEST_CASE("calls that fail are the caller's to see, and the memory goes back") {
  ww::stream s;
  ww::memory_pool pool{ww::current_device()};
  device_array<float> const x{std::vector<float>(64, 1.0F)};
  auto const e = ew::in(x.data(), 64);
  for (char const* const call : {"cudaLaunchKernel", "cudaMemcpyAsync", "cudaStreamSynchronize"}) {
    CAPTURE(call);
    {
      ww::testing::scoped_fault_plan const plan{
          ww::testing::fault_plan{}.fail(call, 1, cudaErrorLaunchFailure)};
      CHECK_THROWS_AS(ew::reduce_rows(s, pool, {8, 8}, ew::sum(e)), ww::cuda_error);
      CHECK(plan.hits() == 1);
    }
    CHECK(pool.statistics().live_bytes == 0);
    CHECK(ew::reduce_rows(s, pool, {8, 8}, ew::sum(e)) == std::vector<float>(8, 8.0F));
  }
}
#endif
