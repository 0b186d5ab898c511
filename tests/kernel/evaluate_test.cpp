// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// run(): every element once and nothing beside it, for all sizes, alignments, types and shapes. The
// values are small integers, so that results are exact and compared as such.
#include <warpwright/graph.hpp>
#include <warpwright/kernel.hpp>

#include <limits>
#include <stdexcept>
#include <string>
#include <thread>

#include "kernel/support.hpp"
#include "support/catch.hpp"
#include "support/device_memory.hpp"

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>
#endif

namespace ew = warpwright::ew;
namespace ww = warpwright;
using kernel_test::as_double;
using kernel_test::guarded;
using kernel_test::refusal;
using kernel_test::small_integers;
using test_support::device_array;

namespace {

// out = x * 2 + y over n elements at the given offsets; answers the number of wrong elements, or
// SIZE_MAX when a byte beside the output changed.
template <class O, class X, class Y>
std::size_t wrong_elements(ww::stream& s, std::vector<X> const& x, std::vector<Y> const& y,
                           std::size_t n, std::size_t at_o, std::size_t at_x, std::size_t at_y) {
  guarded<X> dx{std::vector<X>(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(n)), at_x};
  guarded<Y> dy{std::vector<Y>(y.begin(), y.begin() + static_cast<std::ptrdiff_t>(n)), at_y};
  guarded<O> out{n, at_o};
  ew::run(s, ew::out(out.data(), n) = ew::in(dx.data(), n) * 2 + ew::in(dy.data(), n));
  std::vector<O> const got = out.fetch(s);
  if (!out.intact(s)) return ~std::size_t{0};
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (as_double(got[i]) != as_double(x[i]) * 2 + as_double(y[i])) ++wrong;
  }
  return wrong;
}

// Sizes and alignments for one combination of types.
template <class O, class X, class Y>
void check_types() {
  ww::stream s;
  std::vector<X> const x = small_integers<X>(20000, 30, 1);
  std::vector<Y> const y = small_integers<Y>(20000, 30, 2);
  for (std::size_t n :
       {1U,   2U,    3U,    7U,    15U,   16U,   17U,   31U,   33U,    255U,   256U,
        257U, 1023U, 1024U, 1025U, 4095U, 4097U, 8191U, 8193U, 16383U, 16385U, 20000U}) {
    CAPTURE(n);
    REQUIRE(wrong_elements<O>(s, x, y, n, 0, 0, 0) == 0);
  }
  for (std::size_t offset = 0; offset < 16; ++offset) {
    CAPTURE(offset);
    for (std::size_t n : {5U, 1000U}) {
      REQUIRE(wrong_elements<O>(s, x, y, n, offset, 0, 0) == 0);
      REQUIRE(wrong_elements<O>(s, x, y, n, 0, offset, 0) == 0);
      REQUIRE(wrong_elements<O>(s, x, y, n, 0, 0, offset) == 0);
      REQUIRE(wrong_elements<O>(s, x, y, n, offset, offset, offset) == 0);
    }
  }
  std::uint64_t const seed = 3;
  INFO("seed " << seed);
  kernel_test::random_numbers random{seed};
  for (int k = 0; k < 40; ++k) {
    std::size_t const n = 1 + random.below(3000);
    std::size_t const o = random.below(16), a = random.below(16), b = random.below(16);
    CAPTURE(n, o, a, b);
    REQUIRE(wrong_elements<O>(s, x, y, n, o, a, b) == 0);
  }
}

struct five_to_one {
  WARPWRIGHT_HOST_DEVICE float operator()(float a, float b, float c, float d, float e) const {
    return a + 2 * b + 3 * c + 4 * d + 5 * e;
  }
};
struct pair_of_floats {
  float first, second;
};
struct swap_pair {
  WARPWRIGHT_HOST_DEVICE pair_of_floats operator()(pair_of_floats p) const {
    return {p.second, p.first};
  }
};
struct three_floats {
  float a, b, c;
};
struct three_bytes {
  unsigned char a, b, c;
};
struct sum_of_three {
  WARPWRIGHT_HOST_DEVICE int operator()(three_bytes t) const { return t.a + t.b + t.c; }
};
struct rotate_three {
  WARPWRIGHT_HOST_DEVICE three_floats operator()(three_floats t) const { return {t.b, t.c, t.a}; }
};

}  // namespace

TEST_CASE("every size from 0 to 1100") {
  ww::stream s;
  auto const x = small_integers<float>(1100, 100, 4);
  auto const y = small_integers<float>(1100, 100, 5);
  auto const h = small_integers<__half>(1100, 100, 6);
  for (std::size_t n = 0; n <= 1100; ++n) {
    CAPTURE(n);
    REQUIRE(wrong_elements<float>(s, x, y, n, 0, 0, 0) == 0);
    REQUIRE(wrong_elements<__half>(s, h, h, n, 0, 0, 0) == 0);
  }
}

TEST_CASE("sizes around the tile of a large grid") {
  ww::stream s;
  for (std::size_t tiles : {128U, 256U, 300U}) {
    auto const x = small_integers<float>(tiles * 1024 + 1, 100, 4);
    for (std::size_t n : {tiles * 1024 - 1, std::size_t{tiles * 1024}, tiles * 1024 + 1}) {
      CAPTURE(n);
      REQUIRE(wrong_elements<float>(s, x, x, n, 0, 0, 0) == 0);
      REQUIRE(wrong_elements<float>(s, x, x, n, 1, 1, 1) == 0);
      REQUIRE(wrong_elements<float>(s, x, x, n, 0, 1, 0) == 0);
    }
  }
}

TEST_CASE("types of one kind and mixed") {
  check_types<float, float, float>();
  check_types<__half, __half, __half>();
  check_types<double, double, double>();
  check_types<unsigned char, unsigned char, unsigned char>();
  check_types<float, __half, __nv_bfloat16>();
  check_types<unsigned char, float, double>();
  check_types<long long, short, int>();
#if WARPWRIGHT_TEST_EVERY_TYPE
  check_types<__nv_bfloat16, __nv_bfloat16, __nv_bfloat16>();
  check_types<signed char, signed char, signed char>();
  check_types<short, short, unsigned short>();
  check_types<int, int, int>();
  check_types<std::uint64_t, std::uint64_t, std::uint64_t>();
  check_types<__half, float, __half>();
  check_types<__nv_bfloat16, unsigned char, float>();
  check_types<float, unsigned char, signed char>();
  check_types<double, unsigned char, float>();
#endif
}

TEST_CASE("booleans in and out") {
  ww::stream s;
  std::size_t const n = 1003;
  auto const x = small_integers<float>(n, 10, 8);
  device_array<float> dx{x};
  guarded<bool> flags{n, 3};  // bool from one comparison, read back by the next kernel
  guarded<float> chosen{n, 0};
  ew::run(s, ew::out(flags.data(), n) = ew::in(dx.data(), n) > 4);
  ew::run(s, ew::out(chosen.data(), n) =
                 ew::where(ew::in(flags.data(), n), ew::in(dx.data(), n), -1.0));
  device_array<unsigned char> seen{n};
  ew::run(s, ew::out(seen.data(), n) = ew::in(flags.data(), n));
  auto const got_flags = seen.fetch(s);
  auto const got = chosen.fetch(s);
  CHECK((flags.intact(s) && chosen.intact(s)));
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < n; ++i) {
    if ((got_flags[i] != 0) != (x[i] > 4) || got[i] != (x[i] > 4 ? x[i] : -1.0F)) ++wrong;
  }
  CHECK(wrong == 0);
}

TEST_CASE("user structs and functions of many operands") {
  ww::stream s;
  std::size_t const n = 777;
  std::vector<pair_of_floats> pairs(n);
  std::vector<three_floats> threes(n);
  for (std::size_t i = 0; i < n; ++i) {
    auto const v = static_cast<float>(i);
    pairs[i] = {v, -v};
    threes[i] = {v, v + 1, v + 2};
  }
  guarded<pair_of_floats> p{pairs, 1};
  guarded<three_floats> t{threes, 1};
  device_array<float> x{small_integers<float>(n, 9, 9)};
  device_array<float> y{n};
  ew::run(s, ew::out(p.data(), n) = ew::map(swap_pair{}, ew::in(p.data(), n)));
  ew::run(s, ew::out(t.data(), n) = ew::map(rotate_three{}, ew::in(t.data(), n)));
  auto const e = ew::in(x.data(), n);
  ew::run(s, ew::out(y.data(), n) =
                 ew::map(five_to_one{}, e, 1.0F, e, ew::cast<float>(ew::index()), e));
  auto const got_p = p.fetch(s);
  auto const got_t = t.fetch(s);
  auto const got_x = x.fetch(s);
  auto const got_y = y.fetch(s);
  CHECK((p.intact(s) && t.intact(s)));
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < n; ++i) {
    auto const v = static_cast<float>(i);
    if (got_p[i].first != -v || got_t[i].c != v || got_y[i] != 9 * got_x[i] + 2 + 4 * v) ++wrong;
  }
  CHECK(wrong == 0);
}

TEST_CASE("rows and columns of elements that no register holds") {
  ww::stream s;
  std::size_t const rows = 37;
  std::size_t const cols = 11;
  std::vector<three_bytes> shades(cols);
  for (std::size_t c = 0; c < cols; ++c) {
    auto const v = static_cast<unsigned char>(c);
    shades[c] = {v, static_cast<unsigned char>(v + 1), static_cast<unsigned char>(v + 2)};
  }
  guarded<three_bytes> palette{shades, 1};
  device_array<int> by_row{rows * cols};
  device_array<int> by_col{rows * cols};
  ew::run(s, ew::out(by_row.data(), rows * cols) =
                 ew::map(sum_of_three{}, ew::row(palette.data(), cols)));
  ew::run(s, ew::out(by_col.data(), rows * cols) =
                 ew::map(sum_of_three{}, ew::col(palette.data(), rows)));
  auto const got_row = by_row.fetch(s);
  auto const got_col = by_col.fetch(s);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < rows * cols; ++i) {
    if (got_row[i] != 3 * static_cast<int>(i % cols) + 3) ++wrong;
    if (got_col[i] != 3 * static_cast<int>(i / rows) + 3) ++wrong;
  }
  CHECK(wrong == 0);
}

TEST_CASE("signed integers wrap") {
  ww::stream s;
  constexpr int most = (std::numeric_limits<int>::max)();
  constexpr int least = (std::numeric_limits<int>::min)();
  device_array<int> x{std::vector<int>{most, least, -1, 46341}};
  device_array<int> y{4};
  auto const e = ew::in(x.data(), 4);
  auto const got = [&] { return y.fetch(s); };
  ew::run(s, ew::out(y.data(), 4) = e + e);
  CHECK(got() == std::vector<int>{-2, 0, -2, 92682});
  ew::run(s, ew::out(y.data(), 4) = e - 1);
  CHECK(got() == std::vector<int>{most - 1, most, -2, 46340});
  ew::run(s, ew::out(y.data(), 4) = e * e);
  CHECK(got() == std::vector<int>{1, 0, 1, -2147479015});
  ew::run(s, ew::out(y.data(), 4) = -e);
  CHECK(got() == std::vector<int>{-most, least, 1, -46341});
  ew::run(s, ew::out(y.data(), 4) = ew::abs(e));
  CHECK(got() == std::vector<int>{most, least, 1, 46341});
}

TEST_CASE("rows and columns of every length") {
  ww::stream s;
  for (std::size_t cols : {1U, 2U, 3U, 4U, 5U, 7U, 8U, 12U, 16U, 31U, 32U, 100U, 1000U}) {
    for (std::size_t rows : {1U, 2U, 3U, 17U, 300U}) {
      std::size_t const n = cols * rows;
      auto const x = small_integers<__half>(n, 20, 10);
      auto const bias = small_integers<float>(cols, 20, 11);
      auto const scale = small_integers<__nv_bfloat16>(rows, 20, 12);
      for (std::size_t offset : {0U, 1U, 8U}) {
        CAPTURE(cols, rows, offset);
        guarded<__half> dx{x, offset};
        guarded<float> dbias{bias, offset / 8};
        guarded<__nv_bfloat16> dscale{scale, offset};
        guarded<float> out{n, offset};
        ew::run(s, ew::out(out.data(), n) = ew::in(dx.data(), n) * ew::col(dscale.data(), cols) +
                                            ew::row(dbias.data(), cols));
        auto const got = out.fetch(s);
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < n; ++i) {
          double const expected =
              as_double(x[i]) * as_double(scale[i / cols]) + as_double(bias[i % cols]);
          if (as_double(got[i]) != expected) ++wrong;
        }
        REQUIRE(wrong == 0);
        REQUIRE(out.intact(s));
      }
    }
  }
}

TEST_CASE("numbers on the device are read when the kernel runs, and index counts elements") {
  ww::stream s;
  std::size_t const n = 1000;
  device_array<double> factor{std::vector<double>{3}};
  device_array<float> out{n};
  auto const assignment = ew::out(out.data(), n) =
      ew::index() * ew::device_scalar(factor.data()) + ew::constant(1);
  ew::run(s, assignment);
  CHECK(out.fetch(s)[999] == 2998);
  double const other = 5;
  ww::check(cudaMemcpyAsync(factor.data(), &other, sizeof other, cudaMemcpyHostToDevice, s.get()),
            "cudaMemcpyAsync");
  ew::run(s, assignment);
  CHECK(out.fetch(s)[999] == 4996);
}

TEST_CASE("in place, aligned and not") {
  ww::stream s;
  for (std::size_t offset : {0U, 1U, 3U}) {
    for (std::size_t n : {1U, 5U, 1000U, 5000U}) {
      CAPTURE(offset, n);
      auto const x = small_integers<__half>(n, 50, 13);
      guarded<__half> y{x, offset};
      ew::run(s, ew::out(y.data(), n) = ew::in(y.data(), n) * 2 + 1);
      ew::run(s, ew::out(y.data(), n) += ew::in(y.data(), n));
      auto const got = y.fetch(s);
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < n; ++i) {
        if (as_double(got[i]) != as_double(x[i]) * 4 + 2) ++wrong;
      }
      CHECK(wrong == 0);
      CHECK(y.intact(s));
    }
  }
  // The same bytes as another type of the same size.
  device_array<std::uint32_t> bits{std::vector<std::uint32_t>{1, 2, 3}};
  ew::run(s, ew::out(reinterpret_cast<float*>(bits.data()), 3) = ew::in(bits.data(), 3));
  CHECK(bits.fetch(s)[0] == 0x3f800000U);
}

TEST_CASE("operands that do not fit are refused by number, shape and remedy") {
  ww::stream s;
  device_array<float> memory{256};
  float* const p = memory.data();
  float* const y = p + 128;
  auto const a = ew::in(p, 64);
  auto const text = [&](auto const& assignment) {
    std::string const run = refusal([&] { ew::run(s, assignment); });
    CHECK(run.find("evaluate_test.cpp:") != std::string::npos);
    return run;
  };
  CHECK_THAT(text(ew::out(y, 64) = a + ew::in(p, 63)),
             contains("operand 2 (in) has 63 elements, but the output has 64"));
  CHECK_THAT(text(ew::out(y, 65) = 2 * a), contains("operand 1 (in) has 64 elements"));
  CHECK_THAT(text(ew::out(y, 0) = a), contains("operand 1 (in) has 64 elements"));
  CHECK_THAT(text(ew::out(y, 64) = a + ew::row(p, 10)),
             contains("operand 2 (row) has cols = 10, which does not divide the output's 64"));
  CHECK_THAT(text(ew::out(y, 64) = a + ew::col(p, 0)), contains("operand 2 (col) has cols = 0"));
  float* const null = nullptr;
  CHECK_THAT(text(ew::out(null, 64) = a), contains("the output is a null pointer for 64 elements"));
  CHECK_THAT(text(ew::out(y, 64) = a * ew::device_scalar(null)),
             contains("operand 2 (device_scalar) is a null pointer"));
  auto* const odd = reinterpret_cast<float*>(reinterpret_cast<char*>(p) + 2);
  CHECK_THAT(text(ew::out(y, 63) = ew::in(odd, 63)), contains("not a multiple of its element's 4"));
  CHECK_THAT(text(ew::out(p + 1, 64) = a), contains("operand 1 (in) spans 256 bytes that overlap"));
  CHECK_THAT(text(ew::out(p + 1, 64) = a), contains("4 bytes before it"));
  CHECK_THAT(text(ew::out(p, 64) = ew::in(p + 63, 64)), contains("252 bytes into it"));
  CHECK_THAT(text(ew::out(reinterpret_cast<double*>(p), 64) = a), contains("exactly in place"));
  CHECK_THAT(text(ew::out(p, 64) = a + ew::row(p, 64)), contains("operand 2 (row)"));
  CHECK_THAT(text(ew::out(p, 64) = a + ew::col(p + 63, 32)), contains("operand 2 (col)"));
  CHECK_THAT(text(ew::out(p, 64) = a * ew::device_scalar(p + 5)), contains("overlap"));
  CHECK_THAT(text(ew::out(p, 64) = a * ew::device_scalar(p + 5)),
             Catch::Matchers::EndsWith("; write to another array"));
  std::size_t const large = (std::size_t{1} << 59U) + 1;
  CHECK_THAT(text(ew::out(p, large) = 1),
             contains("has 576460752303423489 elements; an array has 0 to 2^59"));
  CHECK_THAT(
      text(ew::out(p, static_cast<std::size_t>(-3)) = 1),
      contains("the output has 18446744073709551613 (-3 if signed) elements; an array has 0 to"
               " 2^59"));
  CHECK_THAT(text(ew::out(y, 64) = a + ew::in(p, static_cast<std::size_t>(-4))),
             contains("has 18446744073709551612 (-4 if signed) elements"));
  CHECK_THAT(text(ew::out(y, 64) = a + ew::row(p, static_cast<std::size_t>(-4))),
             contains("(-4 if signed), which does not divide"));
  // Neighbours may touch.
  CHECK(refusal([&] { ew::run(s, ew::out(p + 64, 64) = a + ew::in(p + 128, 64)); }) == "accepted");
  s.synchronize();
}

TEST_CASE("no elements is no work") {
  ww::stream s;
  float* const null = nullptr;
#if WARPWRIGHT_HOST_RUNTIME
  std::uint64_t const before = ww::testing::total_calls();
#endif
  ew::run(s, ew::out(null, 0) = ew::in(null, 0) + ew::row(null, 0) + ew::device_scalar(null));
#if WARPWRIGHT_HOST_RUNTIME
  CHECK(ww::testing::total_calls() == before);
#endif
  CHECK(s.done());
}

TEST_CASE("run is legal in a capture, and the graph replays it on new values") {
  ww::stream s;
  std::size_t const n = 1001;
  device_array<float> x{std::vector<float>(n, 1.0F)};
  device_array<float> y{n};
  ww::graph_replay graph;
  graph.recapture(s, [&](ww::stream_ref) {
    ew::run(s, ew::out(y.data(), n) = ew::in(x.data(), n) * 2);
    ew::run(s, ew::out(y.data(), n) += 1);
  });
  CHECK(graph.node_counts().total() == 2);
  graph.launch(s);
  CHECK(y.fetch(s) == std::vector<float>(n, 3.0F));
  std::vector<float> const fives(n, 5.0F);
  ww::check(
      cudaMemcpyAsync(x.data(), fives.data(), n * sizeof(float), cudaMemcpyHostToDevice, s.get()),
      "cudaMemcpyAsync");
  graph.launch(s);
  CHECK(y.fetch(s) == std::vector<float>(n, 11.0F));
}

TEST_CASE("threads share nothing") {
  std::size_t const n = 5000;
  std::vector<std::size_t> wrong(4);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&wrong, t] {
      ww::stream s;
      auto const x = small_integers<float>(n, 100, t);
      auto const y = small_integers<float>(n, 100, t + 10);
      for (int k = 0; k < 20; ++k) wrong[t] += wrong_elements<float>(s, x, y, n, t, 0, t);
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(wrong == std::vector<std::size_t>(4, 0));
}

#if WARPWRIGHT_HOST_RUNTIME

TEST_CASE("run makes one CUDA call, and its failure is the caller's to see") {
  ww::stream s;
  device_array<float> y{100};
  std::uint64_t const before = ww::testing::total_calls();
  ew::run(s, ew::out(y.data(), 100) = ew::index());
  CHECK(ww::testing::total_calls() == before + 1);
  {
    ww::testing::fault_plan const plan =
        ww::testing::fault_plan{}.fail("cudaLaunchKernel", 1, cudaErrorLaunchOutOfResources);
    ww::testing::scoped_fault_plan const active{plan};
    try {
      ew::run(s, ew::out(y.data(), 100) = 1);
      FAIL("the launch was to fail");
    } catch (ww::cuda_error const& error) {
      CHECK(error.code() == cudaErrorLaunchOutOfResources);
      CHECK_THAT(error.what(), contains("evaluate_test.cpp"));
    }
    CHECK(active.hits() == 1);
  }
  CHECK(y.fetch(s)[99] == 99);
  ew::run(s, ew::out(y.data(), 100) = 2);
  CHECK(y.fetch(s)[99] == 2);
}

#endif
