// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// softmax(), log_softmax(), layer_norm() and rms_norm() against fp64, for all lengths of a row,
// types and alignments, and for special values.
#include "kernel/rows_support.hpp"
#include "kernel/sweep.hpp"

#include <string>

#include "support/catch.hpp"

namespace ew = warpwright::ew;
namespace ww = warpwright;
using kernel_test::as_double;
using kernel_test::as_doubles;
using kernel_test::function;
using kernel_test::guarded;
using kernel_test::random_values;
using kernel_test::test_eps;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();

template <class Out, class X>
void run_function(ww::stream& s, function f, ew::matrix_shape const& shape, Out* y, X const& x) {
  std::size_t const n = shape.rows * shape.cols;
  switch (f) {
    case function::softmax:
      return ew::run_rows(s, shape, ew::out(y, n) = ew::softmax(x));
    case function::log_softmax:
      return ew::run_rows(s, shape, ew::out(y, n) = ew::log_softmax(x));
    case function::layer_norm:
      return ew::run_rows(s, shape, ew::out(y, n) = ew::layer_norm(x, test_eps));
    case function::rms_norm:
      return ew::run_rows(s, shape, ew::out(y, n) = ew::rms_norm(x, test_eps));
  }
}

constexpr function all_functions[] = {function::softmax, function::log_softmax,
                                      function::layer_norm, function::rms_norm};

// Arrays that start `in_offset` and `out_offset` elements past a boundary.
template <class In, class Out>
void check_shape(ww::stream& s, std::size_t rows, std::size_t cols, std::size_t in_offset,
                 std::size_t out_offset, std::uint64_t seed) {
  using real = std::conditional_t<std::is_same<In, double>::value, double, float>;
  CAPTURE(rows, cols, in_offset, out_offset, seed);
  auto const x = random_values<In>(rows * cols, -4, 8, seed);
  guarded<In> const dx{x, in_offset};
  for (function const f : all_functions) {
    guarded<Out> const y{x.size(), out_offset};
    run_function(s, f, {rows, cols}, y.data(), ew::in(dx.data(), x.size()));
    auto const wrong = kernel_test::wrong_elements<real>(f, y.fetch(s), as_doubles(x), cols);
    CAPTURE(kernel_test::name_of(f));
    REQUIRE(wrong == 0);
    REQUIRE(y.intact(s));
  }
  REQUIRE(dx.intact(s));
}

// The norm of one row.
template <class T>
std::vector<T> norm_of(ww::stream& s, function f, std::vector<T> const& x, double eps) {
  guarded<T> const dx{x, 0}, y{x.size(), 0};
  auto const e = ew::in(dx.data(), x.size());
  if (f == function::layer_norm) {
    ew::run_rows(s, {1, x.size()}, ew::out(y.data(), x.size()) = ew::layer_norm(e, eps));
  } else {
    ew::run_rows(s, {1, x.size()}, ew::out(y.data(), x.size()) = ew::rms_norm(e, eps));
  }
  return y.fetch(s);
}
template <class T>
std::vector<T> scaled(std::vector<double> const& values, long double by) {
  std::vector<T> x;
  for (double const v : values) x.push_back(static_cast<T>(v * by));
  return x;
}

// The norms at the ends of the range that rows.hpp states, and beyond.
// @param most  the sum of squares up to which the bounds hold
// @param lost  numbers whose squares are 0
template <class T>
void check_range(long double most, long double lost) {
  ww::stream s;
  long double const least = std::numeric_limits<T>::min();
  for (std::size_t const cols : {2U, 7U, 1000U, 4097U, 20011U, 60001U}) {
    auto const unit = random_values<double>(cols, -1, 2, cols);
    auto const width = static_cast<long double>(cols);
    long double sum = 0, squares = 0;
    for (double const v : unit) sum += v;
    for (double const v : unit) squares += static_cast<long double>(v) * v;
    for (function const f : {function::layer_norm, function::rms_norm}) {
      long double const mean = f == function::layer_norm ? sum / width : 0;
      long double const spread = squares / width - mean * mean;
      auto const wrong = [&](std::vector<T> const& x, double eps) {
        CHECK(std::isnormal(norm_of(s, f, x, eps)[0]));
        return kernel_test::wrong_elements<T>(f, norm_of(s, f, x, eps), as_doubles(x), cols, eps);
      };
      CAPTURE(cols, kernel_test::name_of(f));
      // Both ends, and far below where eps alone is large enough: down to subnormal numbers.
      CHECK(wrong(scaled<T>(unit, std::sqrt(0.999L * most / squares)), 0.0) == 0);
      CHECK(wrong(scaled<T>(unit, std::sqrt(0.999L * most / squares)), 1e-5) == 0);
      CHECK(wrong(scaled<T>(unit, std::sqrt(1.001L * least / spread)), 0.0) == 0);
      CHECK(wrong(scaled<T>(unit, lost), 1e-5) == 0);
      for (long double const by : {1e6L, 1.0L, 1e-3L}) {
        CHECK(wrong(scaled<T>(unit, by * least), static_cast<double>(least)) == 0);
      }
      CHECK(wrong(scaled<T>(unit, lost / 1e3L), static_cast<double>(least)) == 0);

      // Past the upper end, and where every square is 0.
      std::size_t unlike = 0;
      for (T const v : norm_of(s, f, scaled<T>(unit, std::sqrt(most) * 1e6L), 1e-5)) {
        if (!(v == 0 || (f == function::layer_norm && std::isnan(v)))) ++unlike;
      }
      auto low = scaled<T>(unit, 0.49L * lost);
      low[1] = 0;
      auto const got = norm_of(s, f, low, 0.0);
      for (std::size_t c = 0; c < cols; ++c) {
        if (std::isfinite(got[c])) ++unlike;
        if (f == function::layer_norm) continue;
        if (std::isnan(got[c]) != (c == 1)) ++unlike;
        if (c != 1 && std::signbit(got[c]) != std::signbit(low[c])) ++unlike;
      }
      CHECK(unlike == 0);
    }
  }
}

// Every length to 300, and those where another strategy begins.
// @param host_cached, h100_cached  the longest rows that are cached whole on the host runtime and
//   on an H100; rows of up to twice as many elements are cached in part
template <class T>
void check_type(std::size_t warp_limit, std::size_t block_limit, std::size_t host_cached,
                std::size_t h100_cached) {
  ww::stream s;
  std::uint64_t seed = 1;
  for (std::size_t cols = 1; cols <= 300; ++cols) {
    if (kernel_test::sanitized && cols > 34 && cols % 64 > 1) continue;
    check_shape<T, T>(s, cols % 7 + 1, cols, 0, 0, ++seed);
    if (cols % 5 == 0) check_shape<T, T>(s, 3, cols, cols % 17, cols % 17, ++seed);
    if (cols % 5 == 1) check_shape<T, T>(s, 3, cols, cols % 17, (cols + 3) % 17, ++seed);
  }
  for (std::size_t const limit : {warp_limit, block_limit}) {
    for (std::size_t cols = limit - 2; cols <= limit + 17; cols += kernel_test::sanitized ? 3 : 1) {
      check_shape<T, T>(s, 2, cols, 0, 0, ++seed);
      if (cols % 4 == 0) check_shape<T, T>(s, 3, cols, 1, 1, ++seed);
    }
  }
  check_shape<T, T>(s, 2, 3 * block_limit, 0, 0, ++seed);
  check_shape<T, T>(s, 3, 2 * block_limit + 77, 5, 2, ++seed);
  for (std::size_t const limit : {host_cached, 2 * host_cached, h100_cached, 2 * h100_cached}) {
    if (kernel_test::sanitized && limit > host_cached) continue;
    for (std::size_t const cols : {limit - 1, limit, limit + 1}) {
      check_shape<T, T>(s, cols % 2 + 1, cols, 0, 0, ++seed);
    }
    check_shape<T, T>(s, 2, limit + 8, 3, 3, ++seed);
    check_shape<T, T>(s, 2, limit - 9, 1, 2, ++seed);
  }
  if (!kernel_test::sanitized) {
    check_shape<T, T>(s, 2, 50257, 0, 0, ++seed);
    check_shape<T, T>(s, 1, 65536, 0, 0, ++seed);
  }
  check_shape<T, T>(s, 300, 8, 0, 0, ++seed);
  check_shape<T, T>(s, 1001, 12, 3, 3, ++seed);
}

}  // namespace

TEST_CASE("functions of rows: float") { check_type<float>(512, 8192, 16384, 57344); }
TEST_CASE("functions of rows: __half") { check_type<__half>(1024, 8192, 32768, 114688); }
TEST_CASE("functions of rows: double") { check_type<double>(256, 4096, 8192, 28672); }
#if WARPWRIGHT_TEST_EVERY_TYPE
TEST_CASE("functions of rows: __nv_bfloat16") {
  check_type<__nv_bfloat16>(1024, 8192, 32768, 114688);
}
#endif

TEST_CASE("functions of rows from one type to another") {
  ww::stream s;
  std::uint64_t seed = 1000;
  for (std::size_t const cols : {1U, 6U, 64U, 129U, 1000U, 4104U, 20001U, 50257U}) {
    if (kernel_test::sanitized && cols > 4104) continue;
    for (std::size_t const offset : {0U, 1U}) {
      check_shape<__nv_bfloat16, float>(s, 4, cols, offset, 0, ++seed);
      check_shape<float, __nv_fp8_e4m3>(s, 4, cols, 0, offset, ++seed);
      check_shape<short, __half>(s, 4, cols, offset, offset, ++seed);
    }
  }
}

TEST_CASE("many short rows") {
  ww::stream s;
  std::size_t const many = kernel_test::sanitized ? 20003 : 100003;
  check_shape<float, float>(s, many, 4, 0, 0, 1);
  check_shape<__half, __half>(s, many / 2, 7, 1, 1, 2);
  check_shape<float, float>(s, many / 3, 1, 0, 0, 3);
}

TEST_CASE("a layer norm of equal values is 0") {
  ww::stream s;
  for (std::size_t const cols : {5U, 768U, 1000U, 4096U, 40000U, 40001U}) {
    std::vector<float> x;
    for (float const value : {0.1F, -12345.6F, 123456.7F, 1e6F / 3})
      x.resize(x.size() + cols, value);
    CAPTURE(cols);
    std::size_t const rows = x.size() / cols;
    guarded<float> const dx{x, 0}, y{x.size(), 0}, mean{rows, 0}, with_input{x.size(), 0};
    auto const norm = ew::layer_norm(ew::in(dx.data(), x.size()), 1e-5);
    ew::run_rows(s, {rows, cols}, ew::out(y.data(), x.size()) = norm,
                 ew::out(mean.data(), rows) = norm.mean());
    ew::run_rows(s, {rows, cols},
                 ew::out(with_input.data(), x.size()) = norm * 2.0F + norm.input());
    CHECK((y.fetch(s) == std::vector<float>(x.size(), 0.0F)));
    CHECK((with_input.fetch(s) == x));
    for (std::size_t r = 0; r < rows; ++r) CHECK(mean.fetch(s)[r] == x[r * cols]);
  }
}

TEST_CASE("the norms keep their bounds up to the ends of their range: float") {
  check_range<float>(3e38L, 2.6e-23L);
}
TEST_CASE("the norms keep their bounds up to the ends of their range: double") {
  check_range<double>(1.7e308L, 1.5e-162L);
}

TEST_CASE("large values overflow neither exponentials nor sums") {
  ww::stream s;
  for (std::size_t const cols : {4U, 1000U, 9000U}) {
    std::vector<float> x = random_values<float>(3 * cols, -4, 8, cols);
    for (std::size_t c = 0; c < cols; ++c) {
      x[cols + c] += 3e4F;
      x[2 * cols + c] = c % 2 == 0 ? 3e38F : -3e38F;
    }
    guarded<float> const dx{x, 0}, y{x.size(), 0};
    for (function const f : {function::softmax, function::log_softmax}) {
      CAPTURE(cols, kernel_test::name_of(f));
      run_function(s, f, {3, cols}, y.data(), ew::in(dx.data(), x.size()));
      auto const got = y.fetch(s);
      std::vector<double> exact = as_doubles(x);
      exact.resize(2 * cols);  // the third row's differences are more than a float holds
      CHECK(kernel_test::wrong_elements<float>(f, got, exact, cols) == 0);
      for (std::size_t c = 0; c < 2; ++c) {
        double const p = c == 0 ? 2.0 / static_cast<double>(cols) : 0;
        double const want = f == function::softmax ? p : std::log(p);
        double const v = as_double(got[2 * cols + c]);
        CHECK((v == want || std::fabs(v - want) <= 1e-5 * std::fabs(want)));
      }
    }
  }
}

TEST_CASE("infinities and NaN stay in their rows") {
  ww::stream s;
  for (std::size_t const cols : {2U, 9U, 100U, 1000U, 5000U, 8192U, 20001U}) {
    enum : std::size_t { plain, nan, plus, minus, all_minus, lines };
    std::vector<float> x = random_values<float>(lines * cols, -4, 8, cols);
    x[nan * cols + cols / 2] = nan_value;
    x[plus * cols + cols - 1] = infinity;
    x[minus * cols] = -infinity;
    for (std::size_t c = 0; c < cols; ++c) x[all_minus * cols + c] = -infinity;
    guarded<float> const dx{x, 0};
    for (function const f : all_functions) {
      CAPTURE(cols, kernel_test::name_of(f));
      guarded<float> const y{x.size(), 0};
      run_function(s, f, {lines, cols}, y.data(), ew::in(dx.data(), x.size()));
      auto const got = y.fetch(s);
      auto const at = [&](std::size_t row, std::size_t c) { return got[row * cols + c]; };
      std::size_t wrong = 0;
      for (std::size_t c = 0; c < cols; ++c) {
        if (!std::isfinite(at(plain, c))) ++wrong;
        if (!std::isnan(at(nan, c))) ++wrong;
        if (f == function::rms_norm) {  // 0 beside infinity, which itself is NaN
          if (c == cols - 1 ? !std::isnan(at(plus, c)) : at(plus, c) != 0) ++wrong;
          if (c == 0 ? !std::isnan(at(minus, c)) : at(minus, c) != 0) ++wrong;
        } else {
          if (!std::isnan(at(plus, c))) ++wrong;
          bool const fine = f == function::layer_norm ? std::isnan(at(minus, c))
                            : c == 0 ? at(minus, c) == (f == function::softmax ? 0 : -infinity)
                                     : std::isfinite(at(minus, c));
          if (!fine) ++wrong;
        }
        if (!std::isnan(at(all_minus, c))) ++wrong;
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("a mask of -infinity leaves a softmax over what is not masked") {
  ww::stream s;
  for (std::size_t const cols : {8U, 500U, 4096U, 16384U}) {
    CAPTURE(cols);
    std::size_t const rows = 3;
    auto const x = random_values<__nv_bfloat16>(rows * cols, -4, 8, cols);
    std::vector<float> mask(cols, 0.0F);
    for (std::size_t c = 1; c < cols; ++c) mask[c] = c % 3 == 0 || c > cols / 2 ? -infinity : 0.0F;
    guarded<__nv_bfloat16> const dx{x, 0}, p{x.size(), 0};
    guarded<float> const dm{mask, 0};
    ew::run_rows(s, {rows, cols},
                 ew::out(p.data(), x.size()) =
                     ew::softmax(ew::in(dx.data(), x.size()) * 0.125F + ew::row(dm.data(), cols)));
    std::vector<double> exact = as_doubles(x);
    for (std::size_t i = 0; i < exact.size(); ++i) {
      exact[i] = exact[i] * 0.125 + as_double(mask[i % cols]);
    }
    auto const got = p.fetch(s);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < exact.size(); ++i) {
      if (std::isinf(exact[i]) && as_double(got[i]) != 0) ++wrong;
      if (std::isinf(exact[i])) exact[i] = -1e4;  // a probability of 0 in fp64, too
    }
    CHECK(wrong == 0);
    CHECK(kernel_test::wrong_elements<float>(function::softmax, got, exact, cols) == 0);
  }
}

TEST_CASE("a long row whose first half is -infinity has a softmax") {
  ww::stream s;
  std::size_t const cols = 40000;
  auto x = random_values<float>(cols, -4, 8, 5);
  for (std::size_t c = 0; c < cols / 2; ++c) x[c] = -infinity;
  guarded<float> const dx{x, 0}, p{cols, 0};
  ew::run_rows(s, {1, cols}, ew::out(p.data(), cols) = ew::softmax(ew::in(dx.data(), cols)));
  auto exact = as_doubles(x);
  for (double& v : exact) v = std::isinf(v) ? -1e4 : v;  // a probability of 0 in fp64, too
  CHECK(kernel_test::wrong_elements<float>(function::softmax, p.fetch(s), exact, cols) == 0);
}

TEST_CASE("the norms' bits are the host's, and the same in every run") {
  ww::stream s;
  for (std::size_t const cols :
       {5U, 30U, 64U, 513U, 4096U, 6000U, 8200U, 30001U, 57344U, 58000U, 65539U, 120000U}) {
    CAPTURE(cols);
    std::size_t const rows =
        cols == 58000 ? 130 : 7;  // many, of 227 KiB: clusters of 1,280 threads
    auto const x = random_values<float>(rows * cols, -1, 2, cols);
    std::vector<float> const zeros(x.size(), 0.0F);
    guarded<float> const dx{x, 0}, layer{zeros, 0}, rms{zeros, 0}, soft{zeros, 0}, again{zeros, 0};
    auto const e = ew::in(dx.data(), x.size());
    ew::run_rows(s, {rows, cols}, ew::out(layer.data(), x.size()) = ew::layer_norm(e, 1e-5));
    ew::run_rows(s, {rows, cols}, ew::out(rms.data(), x.size()) = ew::rms_norm(e, 1e-5));
    ew::run_rows(s, {rows, cols}, ew::out(soft.data(), x.size()) = ew::softmax(e));
    ew::run_rows(s, {rows, cols}, ew::out(again.data(), x.size()) = ew::softmax(e));
    // At the same alignment relative to 16 bytes.
    std::vector<float> room(x.size() + 4), out_room(x.size() + 4);
    auto const aligned = [](std::vector<float>& v) {
      return v.data() + (4 - reinterpret_cast<std::uintptr_t>(v.data()) % 16 / 4) % 4;
    };
    float* const here = aligned(room);
    float* const out = aligned(out_room);
    std::memcpy(here, x.data(), x.size() * sizeof(float));
    auto const h = ew::in(static_cast<float const*>(here), x.size());
    ew::run_rows_host({rows, cols}, ew::out(out, x.size()) = ew::layer_norm(h, 1e-5));
    CHECK(std::memcmp(layer.fetch(s).data(), out, x.size() * sizeof(float)) == 0);
    ew::run_rows_host({rows, cols}, ew::out(out, x.size()) = ew::rms_norm(h, 1e-5));
    CHECK(std::memcmp(rms.fetch(s).data(), out, x.size() * sizeof(float)) == 0);
    CHECK(std::memcmp(soft.fetch(s).data(), again.fetch(s).data(), x.size() * sizeof(float)) == 0);
    // A row's bits do not depend on the number of rows, if rows are whole vectors.
    if (cols % 4 == 0 && rows == 7) {
      ew::run_rows(s, {1, cols},
                   ew::out(again.data(), cols) = ew::softmax(ew::in(dx.data() + 2 * cols, cols)));
      CHECK(std::memcmp(soft.fetch(s).data() + 2 * cols, again.fetch(s).data(),
                        cols * sizeof(float)) == 0);
    }
  }
}

TEST_CASE("long rows of 16-bit numbers with numbers beside them are read within their array") {
  std::size_t const rows = 512, cols = 8196, n = rows * cols;  // many, and too long for registers
  std::vector<__nv_bfloat16> const x(n, __float2bfloat16(0.5F));
  std::vector<float> y(n);
  ew::run_rows_host({rows, cols},
                    ew::out(y.data(), n) = ew::softmax(ew::in(x.data(), n) * 0.5F + 1.0F));
  CHECK(y.front() == Approx(1.0 / static_cast<double>(cols)));
  CHECK(y.back() == Approx(1.0 / static_cast<double>(cols)));
}
