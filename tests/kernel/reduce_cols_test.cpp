// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// reduce_cols(): every column by itself, for all shapes, types and alignments.
#include <warpwright/graph.hpp>
#include <warpwright/kernel/reduce_cols.hpp>
#include <warpwright/memory/pool.hpp>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "kernel/support.hpp"
#include "kernel/sweep.hpp"
#include "support/catch.hpp"
#include "support/device_memory.hpp"

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/fault_plan.hpp>
#endif

namespace ew = warpwright::ew;
namespace ww = warpwright;
using kernel_test::as_double;
using kernel_test::guarded;
using kernel_test::refusal;
using kernel_test::small_integers;
using test_support::device_array;

namespace {

// Exact sums, extremes and places of a matrix of small integers; answers the number of wrong
// columns.
template <class T>
std::size_t wrong_cols(ww::stream& s, ww::memory_pool& pool, std::size_t rows, std::size_t cols,
                       std::size_t offset, std::uint64_t seed) {
  auto const x = small_integers<T>(rows * cols, 30, seed);
  guarded<T> dx{x, offset};
  guarded<double> sums{cols, 1}, most{cols, 0};
  guarded<std::uint64_t> at{cols, 0};
  guarded<float> squares{cols, 1};
  auto const e = ew::in(dx.data(), rows * cols);
  ew::reduce_cols(s, pool, {rows, cols}, ew::to(sums.data()) = ew::sum(e),
                  ew::to(most.data()) = ew::max(e), ew::to(at.data()) = ew::argmin(e),
                  ew::to(squares.data()) = ew::mean(e * e));
  auto const got_sums = sums.fetch(s);
  auto const got_most = most.fetch(s);
  auto const got_at = at.fetch(s);
  auto const got_squares = squares.fetch(s);
  if (!sums.intact(s) || !most.intact(s) || !at.intact(s) || !squares.intact(s)) {
    return ~std::size_t{0};
  }
  std::size_t wrong = 0;
  for (std::size_t c = 0; c < cols; ++c) {
    double sum = 0, square = 0, high = 0, low = 0;
    std::uint64_t low_at = ew::no_index;
    for (std::size_t r = 0; r < rows; ++r) {
      double const v = as_double(x[r * cols + c]);
      sum += v;
      square += v * v;
      if (r == 0 || v > high) high = v;
      if (r == 0 || v < low) low = v, low_at = r;
    }
    double const mean = square / static_cast<double>(rows);
    bool right = got_sums[c] == sum && got_at[c] == low_at;
    right =
        right && (rows == 0 ? std::isnan(got_squares[c])
                            : got_most[c] == high && got_squares[c] == static_cast<float>(mean));
    if (!right) ++wrong;
  }
  return wrong;
}

template <class T>
void check_type() {
  ww::stream s;
  ww::memory_pool pool{ww::device_id{0}};
  for (std::size_t rows : {0U, 1U, 2U, 7U, 15U, 16U, 17U, 63U, 64U, 65U, 255U, 256U, 257U, 1000U,
                           2048U, 4099U, 20000U}) {
    for (std::size_t cols :
         {1U, 2U, 3U, 4U, 8U, 15U, 16U, 17U, 64U, 65U, 100U, 128U, 136U, 1000U}) {
      if (rows * cols > (kernel_test::sanitized ? 20000U : 300000U)) continue;
      CAPTURE(rows, cols);
      REQUIRE(wrong_cols<T>(s, pool, rows, cols, 0, cols + rows) == 0);
      REQUIRE(wrong_cols<T>(s, pool, rows, cols, 3, cols + rows) == 0);
    }
  }
}

}  // namespace

TEST_CASE("columns of every length: float") { check_type<float>(); }
TEST_CASE("columns of every length: __half") { check_type<__half>(); }
TEST_CASE("columns of every length: bytes") { check_type<unsigned char>(); }
#if WARPWRIGHT_TEST_EVERY_TYPE
TEST_CASE("columns of every length: __nv_bfloat16") { check_type<__nv_bfloat16>(); }
TEST_CASE("columns of every length: double") { check_type<double>(); }
TEST_CASE("columns of every length: int") { check_type<int>(); }
#endif

TEST_CASE("many columns") {
  ww::stream s;
  ww::memory_pool pool{ww::device_id{0}};
  CHECK(wrong_cols<float>(s, pool, 3, kernel_test::sanitized ? 20003 : 100003, 0, 1) == 0);
  CHECK(wrong_cols<__half>(s, pool, 2, kernel_test::sanitized ? 20000 : 160000, 0, 2) == 0);
}

#if !defined(__SANITIZE_ADDRESS__)  // it takes minutes there
TEST_CASE("very many columns, in blocks that take several tiles") {
  ww::stream s;
  ww::memory_pool pool{ww::device_id{0}};
  // An odd number, so 16 a tile: a few more tiles than the 2^20 blocks of a grid.
  std::size_t const cols = (std::size_t{1} << 24U) + 49;
  device_array<unsigned char> out{cols};
  ew::reduce_cols(s, pool, {5, cols},
                  ew::to(out.data()) = ew::sum(ew::index() / std::uint64_t{cols}));  // 0 + ... + 4
  device_array<std::uint64_t> wrong{1};
  ew::reduce(
      s, pool, cols,
      ew::to(wrong.data()) = ew::sum(ew::cast<std::uint64_t>(ew::in(out.data(), cols) != 10)));
  CHECK(wrong.fetch(s)[0] == 0);
}
#endif

TEST_CASE("each plan covers all rows and columns once") {
  for (std::uint64_t rows : {0U, 1U, 5U, 64U, 1000U, 100000U, 4000000000U}) {
    for (std::uint64_t cols : {1U, 4U, 12U, 64U, 68U, 5000U, 1000000U}) {
      for (bool const wide : {false, true}) {
        if (wide && cols % 4 != 0) continue;
        CAPTURE(rows, cols, wide);
        auto const plan = ew::detail::plan_cols(rows, cols, wide, 4, wide ? 4 : 8);
        CHECK(plan.vectors_per_row * plan.rows_at_once == ew::detail::reduce_threads);
        CHECK(plan.vectors * (wide ? 4 : 1) == cols);
        CHECK(plan.tiles * plan.vectors_per_row >= plan.vectors);
        CHECK((plan.tiles - 1) * plan.vectors_per_row < plan.vectors);
        CHECK(plan.splits >= 1);
        CHECK((plan.splits == 1 || plan.tiles * plan.splits <= ew::detail::max_reduce_blocks));
        CHECK((plan.splits == 1 ||
               plan.tiles * sizeof(unsigned) <= ew::detail::workspace_head_bytes));
        CHECK(plan.splits * plan.rows_per_split >= rows);
        CHECK((rows == 0 || (plan.splits - 1) * plan.rows_per_split < rows));
      }
    }
  }
}

TEST_CASE("a column's special values stay in it, and its bits are the host's") {
  ww::stream s;
  ww::memory_pool pool{ww::device_id{0}};
  std::size_t const cols = GENERATE(12U, 13U, 200U);
  std::size_t const rows = GENERATE(30U, 1000U, 9000U);
  CAPTURE(rows, cols);
  kernel_test::random_numbers random{cols};
  std::vector<float> x(rows * cols);
  for (float& v : x) v = static_cast<float>(random.unit() * 2 - 1);
  x[rows / 2 * cols + 7] = std::numeric_limits<float>::quiet_NaN();
  x[(rows - 1) * cols + 9] = std::numeric_limits<float>::infinity();
  guarded<float> dx{x, 0};
  guarded<float> sums{cols, 0}, careful{cols, 0};
  guarded<std::uint64_t> bad{cols, 0}, at{cols, 0};
  auto const e = ew::in(dx.data(), rows * cols);
  ew::reduce_cols(s, pool, {rows, cols}, ew::to(sums.data()) = ew::sum(e),
                  ew::to(careful.data()) = ew::sum(e).compensated(),
                  ew::to(bad.data()) = ew::count_nonfinite(e), ew::to(at.data()) = ew::argmax(e));
  std::vector<float> room(x.size() + 4), on_host(cols), careful_on_host(cols);
  std::vector<std::uint64_t> bad_on_host(cols), at_on_host(cols);
  std::size_t const misfit = reinterpret_cast<std::uintptr_t>(room.data()) % 16 / 4;
  float* const here = room.data() + (4 - misfit) % 4;
  std::memcpy(here, x.data(), x.size() * sizeof(float));
  auto const h = ew::in(here, rows * cols);
  ew::reduce_cols_host({rows, cols}, ew::to(on_host.data()) = ew::sum(h),
                       ew::to(careful_on_host.data()) = ew::sum(h).compensated(),
                       ew::to(bad_on_host.data()) = ew::count_nonfinite(h),
                       ew::to(at_on_host.data()) = ew::argmax(h));
  auto const got = sums.fetch(s);
  auto const got_careful = careful.fetch(s);
  auto const got_bad = bad.fetch(s);
  auto const got_at = at.fetch(s);
  for (std::size_t c = 0; c < cols; ++c) {
    CAPTURE(c);
    double exact = 0, magnitude = 0;
    for (std::size_t r = 0; r < rows; ++r) {
      exact += static_cast<double>(x[r * cols + c]);
      magnitude += std::fabs(static_cast<double>(x[r * cols + c]));
    }
    REQUIRE(got_bad[c] == (c == 7 || c == 9 ? 1 : 0));
    if (c == 7) {
      REQUIRE((std::isnan(got[c]) && got_at[c] == rows / 2));
    } else if (c == 9) {
      REQUIRE((std::isinf(got[c]) && std::isinf(got_careful[c]) && got_at[c] == rows - 1));
    } else {
      // The additions in a row: a thread's iterations, its block's tree, and the splits.
      REQUIRE(std::fabs(static_cast<double>(got[c]) - exact) <= 100 * 0x1p-24 * magnitude);
      REQUIRE(std::fabs(static_cast<double>(got_careful[c]) - exact) <=
              0x1p-23 * std::fabs(exact) + 0x1p-40);
      REQUIRE(std::memcmp(&got[c], &on_host[c], sizeof(float)) == 0);
      REQUIRE(std::memcmp(&got_careful[c], &careful_on_host[c], sizeof(float)) == 0);
      REQUIRE((got_at[c] == at_on_host[c] && got_bad[c] == bad_on_host[c]));
    }
  }
}

TEST_CASE("a workspace serves launch after launch, and in a graph") {
  ww::stream s;
  std::size_t const rows = 5000, cols = 24;
  device_array<float> x{std::vector<float>(rows * cols, 1.0F)};
  device_array<float> r{cols};
  auto const goal = ew::to(r.data()) = ew::sum(ew::in(x.data(), rows * cols));
  std::size_t const bytes = ew::reduce_cols_workspace_bytes({rows, cols}, goal);
  REQUIRE(bytes > 0);
  device_array<unsigned char> memory{bytes};
  auto const w = ew::prepare_workspace(s, memory.data(), bytes);
  auto const all_right = [&] {
    for (float v : r.fetch(s)) {
      if (v != static_cast<float>(rows)) return false;
    }
    return true;
  };
  for (int k = 0; k < 3; ++k) {
    ww::check(cudaMemsetAsync(r.data(), 0xff, cols * sizeof(float), s.get()), "cudaMemsetAsync");
    ew::reduce_cols(s, w, {rows, cols}, goal);
    CHECK(all_right());
  }
  ww::graph_replay graph;
  graph.recapture(s, [&](ww::stream_ref) { ew::reduce_cols(s, w, {rows, cols}, goal); });
  CHECK(graph.node_counts().total() == 1);
  for (int k = 0; k < 2; ++k) {
    ww::check(cudaMemsetAsync(r.data(), 0xff, cols * sizeof(float), s.get()), "cudaMemsetAsync");
    graph.launch(s);
    CHECK(all_right());
  }
}

TEST_CASE("the workspace that is asked for serves short matrices, too") {
  ww::stream s;
  std::size_t const rows = 3, cols = 70000;
  device_array<unsigned char> x{std::vector<unsigned char>(rows * cols, 2)};
  device_array<float> r{cols};
  auto const goal = ew::to(r.data()) = ew::sum(ew::in(x.data(), rows * cols));
  std::size_t const bytes = ew::reduce_cols_workspace_bytes({rows, cols}, goal);
  device_array<unsigned char> memory{bytes};
  ew::reduce_cols(s, ew::prepare_workspace(s, memory.data(), bytes), {rows, cols}, goal);
  CHECK(r.fetch(s) == std::vector<float>(cols, 6.0F));
}

TEST_CASE("columns that do not fit are refused") {
  ww::stream s;
  ww::memory_pool pool{ww::device_id{0}};
  device_array<float> x{std::vector<float>(64, 1.0F)};
  device_array<float> r{32};
  auto const e = ew::in(x.data(), 64);
  float* const null = nullptr;
  auto const text = [&](ew::matrix_shape const& shape, auto const&... goals) {
    return refusal([&] { ew::reduce_cols(s, pool, shape, goals...); });
  };
  auto const to = [&](float* p) { return ew::to(p) = ew::sum(e); };
  CHECK_THAT(text({8, 8}, to(null)), contains("result 1 is a null pointer"));
  CHECK_THAT(text({8, 8}, to(null)), contains("reduce_cols_test.cpp:"));
  CHECK_THAT(text({8, 8}, to(r.data()), to(r.data() + 7)),
             contains("result 2 goes where result 1"));
  CHECK_THAT(text({8, 8}, to(x.data() + 63)), contains("result 1 overlaps operand 1 (in)"));
  CHECK_THAT(text({8, 9}, to(r.data())), contains("has 64 elements, but the reduction has 72"));
  CHECK_THAT(text({std::uint64_t{1} << 40U, std::uint64_t{1} << 40U}, to(r.data())),
             contains("are at most 2^59"));
  CHECK_THAT(refusal([&] {
               ew::reduce_cols(s, pool, {8, -1}, to(r.data()));
             }),
             contains("ew: the matrix has -1 columns; a length is 0 or more"));
  CHECK_THAT(text({0, ~std::uint64_t{0}}, to(r.data())), contains("are at most 2^59"));
  CHECK(text({8, 0}, ew::to(null) = ew::sum(ew::in(null, 0))) == "accepted");
  device_array<unsigned char> memory{4096};
  auto const small = ew::prepare_workspace(s, memory.data(), 4096);
  CHECK_THAT(refusal([&] {
               ew::reduce_cols(s, small, {1000000, 64}, ew::to(r.data()) = ew::sum(ew::index()));
             }),
             contains("the workspace has 4096 bytes, but this call needs "));
  float on_host = 0;
  CHECK_THAT(refusal([&] {
               ew::reduce_cols_host({4, 1}, ew::to(&on_host) = ew::sum(e));
             }),
             contains("has 64 elements"));
  s.synchronize();
}

#if WARPWRIGHT_HOST_RUNTIME

TEST_CASE("a launch that fails is the caller's to see, and the workspace goes back") {
  ww::stream s;
  ww::memory_pool pool{ww::device_id{0}};
  std::size_t const rows = 10000, cols = 4;
  device_array<float> x{std::vector<float>(rows * cols, 1.0F)};
  device_array<float> r{cols};
  auto const goal = ew::to(r.data()) = ew::sum(ew::in(x.data(), rows * cols));
  {
    ww::testing::fault_plan const plan =
        ww::testing::fault_plan{}.fail("cudaLaunchKernel", 1, cudaErrorLaunchOutOfResources);
    ww::testing::scoped_fault_plan const active{plan};
    try {
      ew::reduce_cols(s, pool, {rows, cols}, goal);
      FAIL("the launch was to fail");
    } catch (ww::cuda_error const& error) {
      CHECK(error.code() == cudaErrorLaunchOutOfResources);
      CHECK_THAT(error.what(), contains("reduce_cols_test.cpp"));
    }
    CHECK(active.hits() == 1);
  }
  CHECK(pool.statistics().live_bytes == 0);
  ew::reduce_cols(s, pool, {rows, cols}, goal);
  CHECK(r.fetch(s)[3] == static_cast<float>(rows));
}

#endif
