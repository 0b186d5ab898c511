// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Results that are expressions of reductions, or are added to what is there; log_sum_exp() and
// variance().
#include <warpwright/kernel/describe.hpp>
#include <warpwright/kernel/reduce_matrix.hpp>
#include <warpwright/memory/pool.hpp>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernel/support.hpp"
#include "kernel/sweep.hpp"
#include "support/catch.hpp"

namespace ew = warpwright::ew;
namespace ww = warpwright;
using kernel_test::as_double;
using kernel_test::guarded;
using kernel_test::refusal;
using test_support::contains;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float no_number = std::numeric_limits<float>::quiet_NaN();

struct value_and_place {
  WARPWRIGHT_HOST_DEVICE float operator()(ew::located<float> const& a) const {
    return 1000 * a.value + static_cast<float>(a.index);
  }
};
struct product_below {
  float limit;
  WARPWRIGHT_HOST_DEVICE float operator()(float a, float b) const {
    return a * b < limit ? a * b : limit;
  }
};

template <class T>
std::vector<T> around(double center, std::size_t n, kernel_test::random_numbers& random) {
  std::vector<T> values(n);
  for (T& v : values) v = kernel_test::number<T>(center + 2 * random.unit() - 1);
  return values;
}
// Line k of the rows or columns of a matrix, in double.
template <class T>
std::vector<double> line(std::vector<T> const& x, std::size_t cols, std::size_t k, bool of_rows) {
  std::vector<double> values;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if ((of_rows ? i / cols : i % cols) == k) values.push_back(as_double(x[i]));
  }
  return values;
}
double dot(std::vector<double> const& a, std::vector<double> const& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}
double sum_of(std::vector<double> const& a) { return dot(a, std::vector<double>(a.size(), 1)); }
double log_sum_exp_of(std::vector<double> a) {
  for (double& v : a) v = std::exp(v);
  return std::log(sum_of(a));
}
bool close(double got, double want, double error) { return std::fabs(got - want) <= error; }
// One result of all elements of `x`, by reduce() and as one row.
template <class R, class F>
std::vector<R> both(std::vector<float> const& x, F const& result) {
  ww::stream s;
  ww::memory_pool pool{ww::current_device()};
  guarded<float> dx{x};
  auto const e = result(ew::in(dx.data(), x.size()));
  return {ew::reduce(s, pool, x.size(), e), ew::reduce_rows(s, pool, {1, x.size()}, e)[0]};
}

}  // namespace

TEST_CASE("the gated product of a decoder, of bf16") {
  ww::stream s;
  kernel_test::random_numbers random{3};
  std::size_t const rows = 37;
  for (std::size_t const cols : {1U, 8U, 100U, 1024U, 3000U}) {
    CAPTURE(cols);
    auto const w1 = around<__nv_bfloat16>(0, rows * cols, random);
    auto const w3 = around<__nv_bfloat16>(0, rows * cols, random);
    auto const x = around<__nv_bfloat16>(0, cols, random);
    guarded<__nv_bfloat16> d1{w1}, d3{w3}, dx{x};
    guarded<float> h{rows, 1}, on_host{rows, 1};
    auto const v = ew::row(dx.data(), cols);
    auto const product = ew::silu(ew::sum(ew::in(d1.data(), w1.size()) * v)) *
                         ew::sum(ew::in(d3.data(), w3.size()) * v);
    ew::reduce_rows(s, {rows, cols}, ew::to(h.data()) = product);
    ew::reduce_rows_host({rows, cols}, ew::to(on_host.data()) = product);
    auto const got = h.fetch(s);
    REQUIRE(h.intact(s));
#if WARPWRIGHT_HOST_RUNTIME  // a GPU rounds products and sums once
    REQUIRE(got == on_host.fetch(s));
#endif
    auto const exact = line(x, cols, 0, true);
    for (std::size_t r = 0; r < rows; ++r) {
      double const gate = dot(line(w1, cols, r, true), exact);
      double const up = dot(line(w3, cols, r, true), exact);
      double const error = 1e-6 * (1 + std::fabs(gate)) * (1 + std::fabs(up)) * 30;
      REQUIRE(close(as_double(got[r]), gate / (1 + std::exp(-gate)) * up, error));
    }
  }
}

TEST_CASE("+= and the like update what is there, in every form") {
  ww::stream s;
  ww::memory_pool pool{ww::current_device()};
  guarded<float> x{{1, 2, 3, 4, 5, 6}};
  auto const e = ew::in(x.data(), 6);
  guarded<float> r{{10, 20}}, c{{1, 2, 3}}, a{{5, 7}};
  guarded<__nv_bfloat16> rounded{std::vector<__nv_bfloat16>(2, __float2bfloat16_rn(256))};
  ew::reduce_rows(s, {2, 3}, ew::to(r.data()) += 0.5 * ew::sum(e),
                  ew::to(rounded.data()) += ew::min(e) * 0.75);
  ew::reduce_cols(s, pool, {2, 3}, ew::to(c.data()) *= ew::sum(e));
  for (int k = 0; k < 3; ++k) {
    ew::reduce(s, pool, 6, ew::to(a.data()) -= ew::sum(e), ew::to(a.data() + 1) /= ew::max(e) - 4);
  }
  CHECK(r.fetch(s) == std::vector<float>{13, 27.5F});
  CHECK(as_double(rounded.fetch(s)[0]) == 256);  // 256.75 rounds to 256, 259 to 260
  CHECK(as_double(rounded.fetch(s)[1]) == 260);
  CHECK(c.fetch(s) == std::vector<float>{5, 14, 27});
  CHECK(a.fetch(s) == std::vector<float>{5 - 63, 7.0F / 8});
  ew::reduce_cols_host({2, 3}, ew::to(c.data()) += ew::count_if(e > 2));
  ew::reduce_host(6, ew::to(a.data()) += ew::mean(e));
  CHECK(c.fetch(s) == std::vector<float>{6, 15, 29});
  CHECK(a[0] == 5 - 63 + 3.5F);
}

TEST_CASE("what goals read is read before any is written") {
  ww::stream s;
  guarded<float> x{{1, 2, 3, 4}}, p{{10, 20}}, q{{100, 200}};
  auto const sum = ew::sum(ew::in(x.data(), 4));
  ew::reduce_rows(s, {2, 2}, ew::to(p.data()) = sum + ew::in(q.data(), 2),
                  ew::to(q.data()) = sum * ew::in(p.data(), 2));  // one reduction in both
  CHECK(p.fetch(s) == std::vector<float>{103, 207});
  CHECK(q.fetch(s) == std::vector<float>{30, 140});
}

TEST_CASE("device_scalar() beside a reduction: an average that moves, in place") {
  ww::stream s;
  ww::memory_pool pool{ww::current_device()};
  guarded<float> x{{1, 2, 3, 6}}, average{std::vector<float>{10}}, out{1, 1};
  auto const e = ew::in(x.data(), 4);
  auto const before = ew::device_scalar(average.data());
  ew::reduce(s, pool, 4, ew::to(average.data()) = 0.5 * before + 0.5 * ew::mean(e),
             ew::to(out.data()) = before / ew::max(e) - ew::in(average.data(), 1));
  CHECK(average.fetch(s)[0] == 6.5F);
  CHECK(as_double(out.fetch(s)[0]) == as_double(10.0F / 6.0F - 10.0F));
}

TEST_CASE("results combine by the types of expressions") {
  ww::stream s;
  ww::memory_pool pool{ww::current_device()};
  guarded<float> f{{1, 2, 3, 4}};
  guarded<int> i{{2000000000, 2000000000, 1, 2}};
  auto const ef = ew::in(f.data(), 4);
  auto const ei = ew::in(i.data(), 4);
  auto const [weak, wide, mean, cast, as, chosen, mapped, folded] = ew::reduce(
      s, pool, 4, ew::sum(ef) * 0.1, ew::sum(ei) + 1, ew::mean(ei) * ew::sum(ef),
      ew::cast<int>(ew::mean(ef)), ew::compute_as<double>(ew::sum(ef) / 3),
      ew::where(ew::count_if(ef > 3) == 1U, ew::max(ef), -1),
      ew::map(value_and_place{}, ew::argmax(ef)), -ew::fold(ef, 1.0F, product_below{20}));
  CHECK((std::is_same<decltype(weak), float const>::value && weak == 10 * 0.1F));
  CHECK((std::is_same<decltype(wide), std::int64_t const>::value && wide == 4000000004));
  CHECK((std::is_same<decltype(mean), double const>::value && mean == 10 * 1000000000.75));
  CHECK((std::is_same<decltype(cast), int const>::value && cast == 2));
  CHECK((std::is_same<decltype(as), double const>::value && as == 10.0 / 3));
  CHECK((chosen == 4 && mapped == 4003 && folded == -20));
  CHECK(ew::reduce_rows(s, pool, {2, 2}, ew::sum(ef) * ew::max(ef)) == std::vector<float>{6, 28});
  auto const [first, second] =
      ew::reduce_cols(s, pool, {2, 2}, ew::sqrt(ew::sum(ef) / 4 + 8), ew::min(ef));
  CHECK((first == std::vector<float>{3, std::sqrt(9.5F)} && second == std::vector<float>{1, 2}));
}

TEST_CASE("describe() prints reductions") {
  float* const p = reinterpret_cast<float*>(0x1000);
  auto const x = ew::in(p, 8);
  CHECK(ew::describe(ew::silu(ew::sum(x * 2)) + ew::in(p, 4)) ==
        "silu(sum(in f32[8] * 2)) + in f32[4]");
  CHECK(ew::describe(ew::log_sum_exp(x) - ew::variance(x) * ew::count_nonfinite(x)) ==
        "log_sum_exp(in f32[8]) - variance(in f32[8]) * count_nonfinite(in f32[8])");
  CHECK(ew::describe(ew::norm(x) > ew::mean(x)) == "norm(in f32[8]) > mean(in f32[8])");
  CHECK(ew::describe(ew::argmin(x)) == "argmin(in f32[8])");
}

TEST_CASE("what does not fit beside a reduction is refused") {
  ww::stream s;
  ww::memory_pool pool{ww::current_device()};
  guarded<float> x{std::vector<float>(64, 1)}, p{std::vector<float>(24, 0)};
  guarded<double> wide{std::vector<double>(8, 0)};
  auto const sum = ew::sum(ew::in(x.data(), 64));
  float const* const null = nullptr;
  float* const r = p.data();
  auto const rows = [&](auto const&... goals) {
    return refusal([&] { ew::reduce_rows(s, {8, 8}, goals...); });
  };
  CHECK_THAT(rows(ew::to(r) = sum + ew::in(x.data(), 64)),
             contains("operand 1 (in) has 64 elements, but each result has 8; beside a reduction"));
  CHECK_THAT(rows(ew::to(r) = sum * ew::in(null, 8)), contains("operand 1 (in) is a null pointer"));
  CHECK_THAT(rows(ew::to(r) = sum * ew::device_scalar(null)), contains("is a null pointer"));
  CHECK_THAT(rows(ew::to(r) = 2 * sum, ew::to(r + 8) = sum + ew::in(r + 1, 8)),
             contains("overlap the output's 32, starting 4 bytes into it"));
  CHECK_THAT(rows(ew::to(r) = sum + ew::in(wide.data(), 8),
                  ew::to(reinterpret_cast<float*>(wide.data())) = sum),
             contains("operand 1 (in) spans 64 bytes that overlap the output's 32"));
  CHECK_THAT(rows(ew::to(r) = sum + ew::device_scalar(r)), contains("(device_scalar) spans 4"));
  CHECK_THAT(rows(ew::to(r) = sum + ew::device_scalar(r)), contains("reduce_epilogue_test.cpp:"));
  CHECK_THAT(rows(ew::to(static_cast<float*>(nullptr)) += sum), contains("result 1 is a null"));
  CHECK(rows(ew::to(r) = sum + ew::in(r, 8), ew::to(r + 8) = sum - ew::in(r, 8)) == "accepted");
  CHECK_THAT(refusal([&] { ew::reduce(s, pool, 64, ew::to(r) = sum + ew::in(r + 8, 64)); }),
             contains("has 64 elements, but each result has 1"));
  CHECK_THAT(refusal([&] { (void)ew::reduce(s, pool, 64, sum + ew::device_scalar(null)); }),
             contains("operand 1 (device_scalar) is a null pointer"));
  CHECK_THAT(refusal([&] {
               ew::reduce_cols_host({2, 32}, ew::to(r) = sum + ew::in(r, 31));
             }),
             contains("each result has 32"));
  s.synchronize();
}

TEST_CASE("log_sum_exp() of infinities, NaN and numbers whose exponential is none") {
  auto const of = [](std::vector<float> const& x) {
    auto const results = both<float>(x, [](auto const& e) { return ew::log_sum_exp(e); });
    CHECK((results[0] == results[1] || (std::isnan(results[0]) && std::isnan(results[1]))));
    return results[0];
  };
  CHECK(of({}) == -infinity);
  CHECK(of({-infinity}) == -infinity);
  CHECK(of(std::vector<float>(999, -infinity)) == -infinity);
  CHECK((std::isnan(of({infinity})) && std::isnan(of({1, infinity, infinity, 2}))));
  CHECK((std::isnan(of({no_number})) && std::isnan(of({1, -infinity, no_number, 5, 3}))));
  CHECK(of({-infinity, 3, -infinity}) == 3);
  CHECK(close(as_double(of({3000, 3000})), 3000.693147, 0.0003));
  CHECK(close(as_double(of({-3e38F, -3e38F, -infinity})), as_double(-3e38F), 1e31));
  std::vector<float> rising(5000);
  for (std::size_t i = 0; i < rising.size(); ++i) rising[i] = static_cast<float>(i) * 0.01F;
  CHECK(close(as_double(of(rising)), log_sum_exp_of(line(rising, 1, 0, false)), 3e-5));
}

TEST_CASE("the variance of equal values is 0, and a large mean costs no digits but its own") {
  auto const of = [](std::vector<float> const& x) {
    return both<float>(x, [](auto const& e) { return ew::variance(e); })[0];
  };
  for (std::size_t const n : {1U, 2U, 3U, 100U, 4097U, 300001U}) {
    CAPTURE(n);
    CHECK(of(std::vector<float>(n, 123456.7F)) == 0);
  }
  std::vector<float> two(10000, 1e6F);
  for (std::size_t i = 0; i < two.size(); i += 2) two[i] += 1;
  CHECK(close(as_double(of(two)), 0.25, 0.001));
  CHECK((std::isnan(of({})) && std::isnan(of({infinity})) && std::isnan(of({1, 2, no_number}))));
  CHECK(std::isnan(of({1, infinity, 3, 2})));
  int const integers[] = {1, 2, 3, 6};
  double d[2];
  auto const e = ew::in(integers, 4);
  ew::reduce_host(4, ew::to(d) = ew::variance(e), ew::to(d + 1) = ew::sqrt(ew::variance(e)));
  CHECK((d[0] == 3.5 && d[1] == std::sqrt(3.5)));
}

TEST_CASE("no columns, no rows and no elements") {
  ww::stream s;
  ww::memory_pool pool{ww::current_device()};
  float* const null = nullptr;
  guarded<float> p{{1, 2}}, q{{3, 4}};
  auto const e = ew::in(null, 0);
  ew::reduce_rows(s, {2, 0}, ew::to(p.data()) += ew::sum(e) + ew::in(q.data(), 2),
                  ew::to(q.data()) = ew::max(e) * 0 + ew::variance(e));
  CHECK(p.fetch(s) == std::vector<float>{4, 6});
  CHECK((std::isnan(q.fetch(s)[0]) && std::isnan(q.fetch(s)[1])));
  ew::reduce_cols(s, pool, {0, 2}, ew::to(p.data()) -= ew::norm(e));
  CHECK(p.fetch(s) == std::vector<float>{4, 6});
  ew::reduce_rows(s, {0, 2}, ew::to(null) = ew::sum(e) + ew::in(null, 0));
  ew::reduce_cols(s, pool, {2, 0}, ew::to(null) += ew::sum(e));
  CHECK(ew::reduce(s, pool, 0, ew::sum(e) + 7) == 7);
}

TEST_CASE("random matrices, against sums in double") {
  ww::stream s;
  ww::memory_pool pool{ww::current_device()};
  std::uint64_t const seed = 4711;
  INFO("seed " << seed);
  kernel_test::random_numbers random{seed};
  for (int round = 0; round < kernel_test::rounds(60); ++round) {
    bool const of_rows = random.below(2) == 0;
    std::size_t const most = std::size_t{1} << random.below(13);
    std::size_t const rows = 1 + random.below(most);
    std::size_t const cols = round % 6 == 0 ? 1 : 1 + random.below(20000 / rows);
    std::size_t const n = rows * cols, count = of_rows ? rows : cols;
    auto const x = around<__half>(random.unit() * 10, n, random);
    auto const w = around<float>(0, n, random), q = around<float>(0, count, random);
    guarded<__half> dx{x, random.below(9)};
    guarded<float> dw{w, random.below(5)}, dq{q, random.below(5)}, gate{count, random.below(5)};
    guarded<float> lse{count, 1}, added{q, 3};
    guarded<double> spread{count, 1};
    auto const e = ew::in(dx.data(), n);
    auto const product = ew::sum(e * ew::in(dw.data(), n));
    auto const run = [&](auto const&... goals) {
      if (of_rows) ew::reduce_rows(s, {rows, cols}, goals...);
      if (!of_rows) ew::reduce_cols(s, pool, {rows, cols}, goals...);
    };
    run(ew::to(gate.data()) = ew::sigmoid(product) * ew::in(dq.data(), count) + ew::mean(e),
        ew::to(added.data()) += 2 * product);
    run(ew::to(lse.data()) = ew::log_sum_exp(e), ew::to(spread.data()) = ew::variance(e));
    CAPTURE(round, of_rows, rows, cols);
    auto const got_gate = gate.fetch(s), got_lse = lse.fetch(s), got_added = added.fetch(s);
    auto const got_spread = spread.fetch(s);
    REQUIRE((gate.intact(s) && lse.intact(s) && added.intact(s) && spread.intact(s)));
    for (std::size_t k = 0; k < count; k += 1 + count / 50) {
      auto const a = line(x, cols, k, of_rows);
      auto const size = static_cast<double>(a.size());
      double const sum = dot(a, line(w, cols, k, of_rows)), mean = sum_of(a) / size;
      double const slack = 1e-5 * (1 + size), before = as_double(q[k]);
      double squares = 0;
      for (double const v : a) squares += (v - mean) * (v - mean);
      double const gated = before / (1 + std::exp(-sum)) + mean;
      REQUIRE(close(as_double(got_gate[k]), gated, slack));
      REQUIRE(close(as_double(got_added[k]), before + 2 * sum, slack));
      REQUIRE(close(as_double(got_lse[k]), log_sum_exp_of(a), 1e-5));
      REQUIRE(close(got_spread[k], squares / size, 1e-5));
    }
  }
}
