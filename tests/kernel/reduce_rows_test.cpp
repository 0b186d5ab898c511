// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// reduce_rows(): every row by itself, for all lengths, types and alignments.
#include <warpwright/kernel/reduce_matrix.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>

#include "kernel/support.hpp"
#include "kernel/sweep.hpp"
#include "support/catch.hpp"
#include "support/device_memory.hpp"

namespace ew = warpwright::ew;
namespace ww = warpwright;
using kernel_test::as_double;
using kernel_test::guarded;
using kernel_test::refusal;
using kernel_test::small_integers;
using test_support::device_array;

namespace {

// Exact sums, extremes and places of a matrix of small integers; answers the number of wrong rows.
template <class T>
std::size_t wrong_rows(ww::stream& s, std::size_t rows, std::size_t cols, std::size_t offset,
                       std::uint64_t seed) {
  auto const x = small_integers<T>(rows * cols, 30, seed);
  auto const b = small_integers<float>(cols, 9, seed + 1);
  guarded<T> dx{x, offset};
  guarded<float> db{b, offset % 4};
  guarded<double> sums{rows, 1}, most{rows, 0};
  guarded<std::uint64_t> at{rows, 0};
  guarded<float> squares{rows, 1};
  auto const e = ew::in(dx.data(), rows * cols);
  ew::reduce_rows(s, {rows, cols},
                  ew::to(sums.data()) = ew::sum(cols == 0 ? e + 0.0F * ew::row(db.data(), 1)
                                                          : e + 0.0F * ew::row(db.data(), cols)),
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
  for (std::size_t r = 0; r < rows; ++r) {
    double sum = 0, square = 0, high = 0, low = 0;
    std::uint64_t low_at = ew::no_index;
    for (std::size_t c = 0; c < cols; ++c) {
      double const v = as_double(x[r * cols + c]);
      sum += v;
      square += v * v;
      if (c == 0 || v > high) high = v;
      if (c == 0 || v < low) low = v, low_at = c;
    }
    double const mean = square / static_cast<double>(cols);
    bool right = got_sums[r] == sum && got_at[r] == low_at;
    right =
        right && (cols == 0 ? std::isnan(got_squares[r])
                            : got_most[r] == high && got_squares[r] == static_cast<float>(mean));
    if (!right) ++wrong;
  }
  return wrong;
}

template <class T>
void check_type() {
  ww::stream s;
  for (std::size_t cols : {0U,    1U,    2U,    3U,    7U,    8U,    15U,    16U,   17U,   31U,
                           32U,   33U,   64U,   100U,  128U,  255U,  256U,   513U,  1000U, 1024U,
                           1028U, 2048U, 2056U, 4096U, 4112U, 5000U, 20000U, 20480U}) {
    for (std::size_t rows : {1U, 3U, 8U, 9U, 70U}) {
      if (rows * cols > (kernel_test::sanitized ? 20480U : 400000U)) continue;
      CAPTURE(cols, rows);
      REQUIRE(wrong_rows<T>(s, rows, cols, 0, cols + rows) == 0);
      REQUIRE(wrong_rows<T>(s, rows, cols, 3, cols + rows) == 0);
    }
  }
}

}  // namespace

TEST_CASE("rows of every length: float") { check_type<float>(); }
TEST_CASE("rows of every length: __half") { check_type<__half>(); }
TEST_CASE("rows of every length: __nv_bfloat16") { check_type<__nv_bfloat16>(); }
TEST_CASE("rows of every length: double") { check_type<double>(); }
TEST_CASE("rows of every length: bytes") { check_type<unsigned char>(); }
TEST_CASE("rows of every length: int") { check_type<int>(); }

TEST_CASE("many short rows") {
  ww::stream s;
  CHECK(wrong_rows<float>(s, kernel_test::sanitized ? 20003 : 100003, 4, 0, 1) == 0);
  CHECK(wrong_rows<__half>(s, kernel_test::sanitized ? 10001 : 50001, 8, 1, 2) == 0);
}

TEST_CASE("a row's special values stay in it, and its bits are the host's") {
  ww::stream s;
  std::size_t const rows = 40;
  for (std::size_t cols : {30U, 1000U, 6000U}) {
    kernel_test::random_numbers random{cols};
    std::vector<float> x(rows * cols);
    for (float& v : x) v = static_cast<float>(random.unit() * 2 - 1);
    x[7 * cols + cols / 2] = std::numeric_limits<float>::quiet_NaN();
    x[9 * cols + cols - 1] = std::numeric_limits<float>::infinity();
    guarded<float> dx{x, 0};
    guarded<float> sums{rows, 0}, careful{rows, 0};
    guarded<std::uint64_t> bad{rows, 0}, at{rows, 0};
    auto const e = ew::in(dx.data(), rows * cols);
    ew::reduce_rows(s, {rows, cols}, ew::to(sums.data()) = ew::sum(e),
                    ew::to(careful.data()) = ew::sum(e).compensated(),
                    ew::to(bad.data()) = ew::count_nonfinite(e), ew::to(at.data()) = ew::argmax(e));
    std::vector<float> room(x.size() + 4), on_host(rows), careful_on_host(rows);
    std::vector<std::uint64_t> bad_on_host(rows), at_on_host(rows);
    std::size_t const misfit = reinterpret_cast<std::uintptr_t>(room.data()) % 16 / 4;
    float* const here = room.data() + (4 - misfit) % 4;
    std::memcpy(here, x.data(), x.size() * sizeof(float));
    auto const h = ew::in(here, rows * cols);
    ew::reduce_rows_host({rows, cols}, ew::to(on_host.data()) = ew::sum(h),
                         ew::to(careful_on_host.data()) = ew::sum(h).compensated(),
                         ew::to(bad_on_host.data()) = ew::count_nonfinite(h),
                         ew::to(at_on_host.data()) = ew::argmax(h));
    auto const got = sums.fetch(s);
    auto const got_careful = careful.fetch(s);
    auto const got_bad = bad.fetch(s);
    auto const got_at = at.fetch(s);
    for (std::size_t r = 0; r < rows; ++r) {
      CAPTURE(cols, r);
      double exact = 0, magnitude = 0;
      for (std::size_t c = 0; c < cols; ++c) {
        exact += static_cast<double>(x[r * cols + c]);
        magnitude += std::fabs(static_cast<double>(x[r * cols + c]));
      }
      REQUIRE(got_bad[r] == (r == 7 || r == 9 ? 1 : 0));
      if (r == 7) {
        REQUIRE((std::isnan(got[r]) && got_at[r] == cols / 2));
      } else if (r == 9) {
        REQUIRE((std::isinf(got[r]) && std::isinf(got_careful[r]) && got_at[r] == cols - 1));
      } else {
        REQUIRE(std::fabs(static_cast<double>(got[r]) - exact) <= 60 * 0x1p-24 * magnitude);
        REQUIRE(std::fabs(static_cast<double>(got_careful[r]) - exact) <=
                0x1p-23 * std::fabs(exact) + 0x1p-40);
        REQUIRE(std::memcmp(&got[r], &on_host[r], sizeof(float)) == 0);
        REQUIRE(std::memcmp(&got_careful[r], &careful_on_host[r], sizeof(float)) == 0);
        REQUIRE((got_at[r] == at_on_host[r] && got_bad[r] == bad_on_host[r]));
      }
    }
  }
}

TEST_CASE("rows that do not fit are refused") {
  ww::stream s;
  device_array<float> x{std::vector<float>(64, 1.0F)};
  device_array<float> r{32};
  auto const e = ew::in(x.data(), 64);
  float* const null = nullptr;
  auto const text = [&](ew::matrix_shape const& shape, auto const&... goals) {
    return refusal([&] { ew::reduce_rows(s, shape, goals...); });
  };
  auto const to = [&](float* p) { return ew::to(p) = ew::sum(e); };
  CHECK_THAT(text({8, 8}, to(null)), contains("result 1 is a null pointer"));
  CHECK_THAT(text({8, 8}, to(null)), contains("reduce_rows_test.cpp:"));
  CHECK_THAT(text({8, 8}, to(r.data()), to(r.data() + 7)),
             contains("result 2 goes where result 1"));
  CHECK_THAT(text({8, 8}, to(x.data() + 63)), contains("result 1 overlaps operand 1 (in)"));
  CHECK_THAT(text({8, 9}, to(r.data())), contains("has 64 elements, but the reduction has 72"));
  CHECK_THAT(text({std::uint64_t{1} << 40U, std::uint64_t{1} << 40U}, to(r.data())),
             contains("are at most 2^59"));
  // Of a signed type a length is named as it was given.
  int const negative = -1;
  auto const of = [&](auto rows, auto cols) {
    return refusal([&] { ew::reduce_rows(s, {rows, cols}, to(r.data())); });
  };
  CHECK_THAT(of(8, negative), contains("ew: the matrix has -1 columns; a length is 0 or more"));
  CHECK_THAT(of(std::int64_t{-8}, std::size_t{8}), contains("ew: the matrix has -8 rows;"));
  CHECK_THAT(of(8, negative), contains("reduce_rows_test.cpp:"));
  CHECK_THAT(of(8, static_cast<signed char>(9)), contains("but the reduction has 72"));
  CHECK(of(8, std::int64_t{8}) == "accepted");
  CHECK(text({0, 8}, ew::to(null) = ew::sum(ew::in(null, 0))) == "accepted");
  float on_host = 0;
  CHECK_THAT(refusal([&] {
               ew::reduce_rows_host({1, 4}, ew::to(&on_host) = ew::sum(e));
             }),
             contains("has 64 elements"));
  s.synchronize();
}

TEST_CASE("few long rows are reduced as on the host, bit for bit") {
  ww::stream s;
  for (std::size_t const cols : {16384U, 20001U, 131072U}) {
    for (std::size_t const rows : {1U, 5U}) {
      CAPTURE(cols, rows);
      kernel_test::random_numbers random{cols};
      std::vector<float> x(rows * cols);
      for (float& v : x) v = static_cast<float>(random.below(2000)) / 7.0F - 100.0F;
      device_array<float> const there{x};
      device_array<float> const sums{rows};
      device_array<std::uint32_t> const places{rows};
      s.synchronize();
      ew::reduce_rows(s, {rows, cols},
                      ew::to(sums.data()) = ew::sum(ew::in(there.data(), x.size())),
                      ew::to(places.data()) = ew::argmax(ew::in(there.data(), x.size())));
      std::vector<float> on_host(rows);
      std::vector<std::uint32_t> place(rows);
      ew::reduce_rows_host({rows, cols},
                           ew::to(on_host.data()) = ew::sum(ew::in(x.data(), x.size())),
                           ew::to(place.data()) = ew::argmax(ew::in(x.data(), x.size())));
      auto const got = sums.fetch(s);
      if (kernel_test::has_clusters()) CHECK(got == on_host);
      CHECK(places.fetch(s) == place);
      for (std::size_t r = 0; r < rows; ++r) {
        auto const first = x.begin() + static_cast<std::ptrdiff_t>(r * cols);
        auto const last = first + static_cast<std::ptrdiff_t>(cols);
        CHECK(place[r] == static_cast<std::uint32_t>(std::max_element(first, last) - first));
        double const sum = std::accumulate(first, last, 0.0);
        CHECK(on_host[r] == Approx(sum).epsilon(1e-5));
        CHECK(got[r] == Approx(sum).epsilon(1e-5));
      }
    }
  }
}

TEST_CASE("rows of more than 2^31 elements are refused") {
  ww::stream s;
  float const* const none = nullptr;
  std::size_t const cols = (std::size_t{1} << 31U) + 4;
  float sum = 0;
  CHECK_THAT(refusal([&] {
               ew::reduce_rows(s, {1, cols}, ew::to(&sum) = ew::sum(ew::row(none, cols)));
             }),
             contains("more than 2^31"));
}

TEST_CASE("rows of odd lengths are read by vectors that lie alike in all of them") {
  ew::detail::operand all[2];
  all[0].kind = ew::detail::access_pattern::no_output;
  all[0].aligned_bytes = 1;
  all[1].element_bytes = 4;
  all[1].aligned_bytes = 16;
  all[1].address = 4096;
  auto const plan = [&](std::uint64_t cols) {
    return ew::detail::plan_row_reductions(all, 2, 3, cols, 4, 4, 1).partition;
  };
  CHECK(plan(12).all_wide);
  CHECK_FALSE(plan(12).ragged);
  CHECK(plan(10).all_wide);
  CHECK(plan(10).ragged);
  CHECK(plan(10).span<4>(1).head == 2);
  all[1].address = 4100;
  CHECK(plan(12).span<4>(0).head == 3);
  CHECK(plan(0).rows == 3);
  CHECK(plan(0).rows_per_block == 256);
  all[1].address = 4096;
  CHECK(plan(1024).threads == 32);  // twice as many vectors as a warp loads at a time
  CHECK(plan(1028).threads == 96);
  CHECK(plan(4096).threads == 128);
}
