// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// run_rows(): expressions before and after a row function, several outputs, statistics, outputs in
// place, captures, and refusals.
#include "kernel/rows_support.hpp"

#include <warpwright/graph.hpp>
#include <warpwright/kernel/random.hpp>

#include <stdexcept>
#include <string>

#include "kernel/support.hpp"
#include "support/catch.hpp"

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>
#endif

namespace ew = warpwright::ew;
namespace ww = warpwright;
using kernel_test::as_double;
using kernel_test::as_doubles;
using kernel_test::exact_row;
using kernel_test::exactly;
using kernel_test::function;
using kernel_test::guarded;
using kernel_test::random_values;
using kernel_test::refusal;

namespace {

// Lengths of every row_strategy for two arrays, with and without ends beside the vectors.
constexpr std::size_t lengths[] = {1,    7,     64,    129,   1000,  4104,
                                   8192, 12000, 20000, 20011, 60001, 115000};

// A transformer's step: the residual stream and its norm, in one kernel.
template <class T>
void check_residual(std::size_t offset, bool in_place) {
  ww::stream s;
  std::size_t const rows = 3;
  for (std::size_t const cols : lengths) {
    CAPTURE(cols, offset, in_place);
    std::size_t const n = rows * cols;
    auto const x = random_values<T>(n, -2, 4, cols);
    auto const residual = random_values<T>(n, -2, 4, cols + 1);
    auto const gamma = random_values<T>(cols, 0.5, 1, cols + 2);
    guarded<T> const dx{x, offset}, dr{residual, offset}, dg{gamma, offset}, h{n, offset};
    guarded<T> const room{n, offset};
    guarded<float> const rstd{rows, 1};
    T* const y = in_place ? dx.data() : room.data();
    T* const sum = in_place ? dr.data() : h.data();
    auto const norm = ew::rms_norm(
        ew::in(static_cast<T const*>(dx.data()), n) + ew::in(static_cast<T const*>(dr.data()), n),
        1e-5);
    ew::run_rows(s, {rows, cols}, ew::out(sum, n) = norm.input(),
                 ew::out(rstd.data(), rows) = norm.rstd(),
                 ew::out(y, n) = norm * ew::row(static_cast<T const*>(dg.data()), cols));
    auto const got_y = in_place ? dx.fetch(s) : room.fetch(s);
    auto const got_h = in_place ? dr.fetch(s) : h.fetch(s);
    auto const got_rstd = rstd.fetch(s);
    std::size_t wrong = 0;
    for (std::size_t r = 0; r < rows; ++r) {
      std::vector<double> stream(cols);
      for (std::size_t c = 0; c < cols; ++c) {  // added in float, as both runtimes do
        stream[c] = static_cast<double>(static_cast<float>(as_double(x[r * cols + c])) +
                                        static_cast<float>(as_double(residual[r * cols + c])));
        if (as_double(got_h[r * cols + c]) != as_double(kernel_test::number<T>(stream[c]))) ++wrong;
      }
      exact_row const e = exactly(function::rms_norm, stream.data(), cols, 1e-5);
      for (std::size_t c = 0; c < cols; ++c) {
        double const want = e.result[c] * as_double(gamma[c]);
        double const error = std::fabs(as_double(got_y[r * cols + c]) - want);
        double const slack = 1e-5 + kernel_test::half_ulp<T>();
        if (!(error <= slack * std::fabs(want) + kernel_test::smallest_step<T>())) ++wrong;
      }
      if (!(std::fabs(as_double(got_rstd[r]) - e.rstd) <= 1e-5 * e.rstd)) ++wrong;
    }
    CHECK(wrong == 0);
    CHECK((h.intact(s) && room.intact(s) && rstd.intact(s) && dx.intact(s) && dr.intact(s)));
  }
}

// Function objects for map(): with padding, which takes an operator==, and without.
struct affine {
  double scale;
  float shift;
  WARPWRIGHT_HOST_DEVICE float operator()(float x) const {
    return static_cast<float>(scale) * x + shift;
  }
  friend bool operator==(affine const& a, affine const& b) {
    return a.scale == b.scale && a.shift == b.shift;
  }
};
struct scaled_by {
  float scale;
  WARPWRIGHT_HOST_DEVICE float operator()(float x) const { return scale * x; }
};

}  // namespace

TEST_CASE("row() and col() of other lengths than the rows") {
  ww::stream s;
  std::uint64_t const seed = 77;
  INFO("seed " << seed);
  std::size_t const rows = 6;
  for (std::size_t const cols : {8U, 64U, 66U, 4096U, 4104U, 20000U, 60000U}) {
    for (std::size_t const period : {cols / 2, cols, 2 * cols, 3 * cols}) {
      CAPTURE(cols, period);
      std::size_t const n = rows * cols;
      auto const x = random_values<float>(n, -2, 4, seed);
      auto const scale = random_values<float>(period, 1, 1, seed + 1);
      auto const factor = random_values<float>(n / period, 1, 1, seed + 2);
      guarded<float> const dx{x, 0}, dscale{scale, 0}, dfactor{factor, 0}, y{n, 0};
      // Beside the row function, and in its argument.
      ew::run_rows(s, {rows, cols},
                   ew::out(y.data(), n) =
                       ew::rms_norm(ew::in(dx.data(), n) * ew::col(dfactor.data(), period) *
                                        ew::row(dscale.data(), period),
                                    1e-5) *
                       ew::row(dscale.data(), period) * ew::col(dfactor.data(), period));
      auto const got = y.fetch(s);
      std::size_t wrong = 0;
      for (std::size_t r = 0; r < rows; ++r) {
        std::vector<double> product(cols);
        for (std::size_t c = 0; c < cols; ++c) {
          std::size_t const i = r * cols + c;
          product[c] = static_cast<double>(x[i] * factor[i / period] * scale[i % period]);
        }
        exact_row const e = exactly(function::rms_norm, product.data(), cols, 1e-5);
        for (std::size_t c = 0; c < cols; ++c) {
          std::size_t const i = r * cols + c;
          double const want = e.result[c] * static_cast<double>(scale[i % period]) *
                              static_cast<double>(factor[i / period]);
          if (!(std::fabs(static_cast<double>(got[i]) - want) <= 1e-5 * std::fabs(want))) ++wrong;
        }
      }
      CHECK(wrong == 0);
      CHECK(y.intact(s));
    }
  }
}

TEST_CASE("a sum and its norm are stored by one kernel: float") {
  check_residual<float>(0, false);
  check_residual<float>(1, false);
}
TEST_CASE("a sum and its norm are stored by one kernel: __nv_bfloat16") {
  check_residual<__nv_bfloat16>(0, false);
  check_residual<__nv_bfloat16>(3, false);
}
TEST_CASE("outputs may be in place of a row function's arrays") {
  check_residual<float>(0, true);
  check_residual<__nv_bfloat16>(3, true);
}

TEST_CASE("layer_norm with scale, shift, statistics and outputs of several types") {
  ww::stream s;
  std::size_t const rows = 5;
  for (std::size_t const cols : lengths) {
    CAPTURE(cols);
    std::size_t const n = rows * cols;
    auto const x = random_values<float>(n, 1, 4, cols);
    auto const gamma = random_values<float>(cols, 0.5, 1, cols + 1);
    auto const beta = random_values<__half>(cols, -1, 2, cols + 2);
    auto const beside = random_values<float>(n, -1, 2, cols + 3);
    guarded<float> const dx{x, 0}, dg{gamma, 0}, db{beside, 0}, y{n, 0}, mean{rows, 0};
    guarded<__half> const dbeta{beta, 0}, narrow{n, 1};
    guarded<__nv_fp8_e4m3> const small{n, 0};
    guarded<double> const rstd{rows, 0};
    auto const norm = ew::layer_norm(ew::in(dx.data(), n), 1e-5);
    auto const shifted = norm * ew::row(dg.data(), cols) + ew::row(dbeta.data(), cols);
    ew::run_rows(s, {rows, cols}, ew::out(y.data(), n) = shifted + ew::in(db.data(), n),
                 ew::out(narrow.data(), n) = shifted, ew::out(small.data(), n) = ew::relu(norm),
                 ew::out(mean.data(), rows) = norm.mean(),
                 ew::out(rstd.data(), rows) = norm.rstd());
    auto const got = y.fetch(s);
    auto const got_narrow = narrow.fetch(s);
    auto const got_small = small.fetch(s);
    auto const got_mean = mean.fetch(s);
    auto const got_rstd = rstd.fetch(s);
    auto const exact = as_doubles(x);
    std::size_t wrong = 0;
    for (std::size_t r = 0; r < rows; ++r) {
      exact_row const e = exactly(function::layer_norm, exact.data() + r * cols, cols, 1e-5);
      for (std::size_t c = 0; c < cols; ++c) {
        std::size_t const i = r * cols + c;
        double const v = e.result[c] * as_double(gamma[c]) + as_double(beta[c]);
        double const slack = 1e-5 * (1 + e.magnitude * e.rstd);
        if (!(std::fabs(as_double(got[i]) - v - as_double(beside[i])) <= slack)) ++wrong;
        if (!(std::fabs(as_double(got_narrow[i]) - v) <= slack + 0x1p-10 * std::fabs(v))) ++wrong;
        double const positive = std::fmax(e.result[c], 0.0);
        if (!(std::fabs(as_double(got_small[i]) - positive) <=
              slack + 0x1p-4 * positive + 0x1p-9)) {
          ++wrong;
        }
      }
      if (!(std::fabs(as_double(got_mean[r]) - e.mean) <= 1e-5 * e.magnitude)) ++wrong;
      if (!(std::fabs(got_rstd[r] - e.rstd) <= 1e-5 * (1 + e.magnitude * e.rstd) * e.rstd)) ++wrong;
    }
    CHECK(wrong == 0);
    CHECK((y.intact(s) && narrow.intact(s) && small.intact(s) && mean.intact(s) && rstd.intact(s)));
  }
}

TEST_CASE("softmax in place, with its normaliser") {
  ww::stream s;
  for (std::size_t const cols : lengths) {
    CAPTURE(cols);
    std::size_t const rows = 4;
    auto const x = random_values<float>(rows * cols, -5, 10, cols);
    guarded<float> const p{x, 2}, sums{rows, 0};
    auto const soft = ew::softmax(ew::in(static_cast<float const*>(p.data()), x.size()));
    ew::run_rows(s, {rows, cols}, ew::out(p.data(), x.size()) = soft,
                 ew::out(sums.data(), rows) = soft.log_sum_exp());
    auto const exact = as_doubles(x);
    CHECK(kernel_test::wrong_elements<float>(function::softmax, p.fetch(s), exact, cols) == 0);
    CHECK(p.intact(s));
    auto const got = sums.fetch(s);
    for (std::size_t r = 0; r < rows; ++r) {
      double const want = exactly(function::softmax, exact.data() + r * cols, cols).log_sum_exp;
      CHECK(std::fabs(as_double(got[r]) - want) <= 1e-5 * (1 + std::fabs(want)));
    }
  }
}

TEST_CASE("statistics and row functions in expressions, compute_as and dropout") {
  ww::stream s;
  std::size_t const rows = 3, cols = 600, n = rows * cols;
  auto const x = random_values<float>(n, -1, 2, 5);
  guarded<float> const dx{x, 0}, y{n, 0}, p{n, 0}, kept{n, 0};
  auto const norm = ew::layer_norm(ew::in(dx.data(), n), 0.0);
  ew::run_rows(s, {rows, cols},
               ew::out(y.data(), n) = (norm.input() - norm.mean()) * norm.rstd() - norm,
               ew::out(p.data(), n) = ew::where(norm > 0, norm * norm, 0.0));
  auto const difference = y.fetch(s);
  auto const squares = p.fetch(s);
  std::size_t wrong = 0;
  for (std::size_t r = 0; r < rows; ++r) {
    auto const exact = as_doubles(x);
    exact_row const e = exactly(function::layer_norm, exact.data() + r * cols, cols, 0);
    for (std::size_t c = 0; c < cols; ++c) {
      std::size_t const i = r * cols + c;
      if (!(std::fabs(as_double(difference[i])) <= 1e-5)) ++wrong;
      double const v = e.result[c] > 0 ? e.result[c] * e.result[c] : 0;
      if (!(std::fabs(as_double(squares[i]) - v) <= 1e-4)) ++wrong;
    }
  }
  CHECK(wrong == 0);

  ew::philox const rng{11};
  auto const soft = ew::softmax(ew::in(dx.data(), n));
  ew::run_rows(s, {rows, cols}, ew::out(p.data(), n) = ew::compute_as<double>(soft),
               ew::out(y.data(), n) = ew::dropout(soft, 0.25, rng));
  ew::run(s, ew::out(kept.data(), n) = ew::dropout(ew::in(p.data(), n), 0.25, rng));
  CHECK(y.fetch(s) == kept.fetch(s));
}

TEST_CASE("a matrix without elements launches nothing") {
  ww::stream s;
  float* const null = nullptr;
#if WARPWRIGHT_HOST_RUNTIME
  std::uint64_t const before = ww::testing::total_calls();
#endif
  auto const soft = ew::softmax(ew::in(static_cast<float const*>(null), 0));
  ew::run_rows(s, {0, 8}, ew::out(null, 0) = soft, ew::out(null, 0) = soft.log_sum_exp());
  ew::run_rows(s, {8, 0}, ew::out(null, 0) = soft);
  ew::run_rows_host({0, 0}, ew::out(null, 0) = soft);
#if WARPWRIGHT_HOST_RUNTIME
  CHECK(ww::testing::total_calls() == before);
#endif
  CHECK(s.done());
}

TEST_CASE("functions of rows that do not fit are refused") {
  ww::stream s;
  guarded<float> const dx{128, 0}, dy{128, 0}, dm{16, 0};
  float* const y = dy.data();
  float* const null = nullptr;
  auto const e = ew::in(static_cast<float const*>(dx.data()), 64);
  auto const norm = ew::layer_norm(e, 1e-5);
  auto const text = [&](ew::matrix_shape const& shape, auto const&... a) {
    return refusal([&] { ew::run_rows(s, shape, a...); });
  };
  CHECK_THAT(text({8, 9}, ew::out(y, 64) = norm),
             contains("the output has 64 elements, but {rows, cols} = {8, 9} are 72"));
  CHECK_THAT(text({8, 9}, ew::out(y, 64) = norm), contains("rows_interface_test.cpp:"));
  CHECK_THAT(text({8, 8}, ew::out(y, 64) = norm, ew::out(y + 64, 32) = norm),
             contains("output 2 has 32 elements, but output 1 has 64"));
  CHECK_THAT(text({8, 8}, ew::out(y, 64) = norm, ew::out(y + 32, 64) = norm),
             contains("output 2 overlaps output 1"));
  CHECK_THAT(text({8, 8}, ew::out(null, 64) = norm), contains("the output is a null pointer"));
  CHECK_THAT(text({8, 8}, ew::out(dx.data() + 1, 64) = norm),
             contains("operand 1 (in) spans 256 bytes that overlap the output's 256"));
  CHECK_THAT(text({8, 8}, ew::out(y, 64) = norm * ew::row(dm.data(), 7)),
             contains("operand 2 (row) has cols = 7"));
  CHECK_THAT(text({std::uint64_t{1} << 40U, std::uint64_t{1} << 40U}, ew::out(y, 64) = norm),
             contains("are at most 2^59"));
  CHECK_THAT(refusal([&] {
               ew::run_rows(s, {-8, 8}, ew::out(y, 64) = norm);
             }),
             contains("ew: the matrix has -8 rows; a length is 0 or more"));
  std::uint64_t const long_row = (std::uint64_t{1} << 31U) + 1;
  CHECK_THAT(text({1, long_row}, ew::out(y, long_row) =
                                     ew::softmax(ew::in(static_cast<float const*>(y), long_row))),
             contains("the rows have 2147483649 elements, more than 2^31"));
  std::uint64_t const many = std::uint64_t{1} << 45U;
  CHECK_THAT(refusal([&] {
               ew::run_rows_host({many, 1}, ew::out(y, many) = ew::softmax(ew::in(y, many)));
             }),
             contains("blocks of work, and a grid has at most 2^31 - 1") &&
                 contains("rows_interface_test.cpp:"));
  auto const stat = [&](auto const& a) { return text({8, 8}, ew::out(y, 64) = norm, a); };
  CHECK_THAT(stat(ew::out(dm.data(), 7) = norm.mean()),
             contains("statistic 1 goes to 7 elements, but rows = 8"));
  CHECK_THAT(stat(ew::out(null, 8) = norm.mean()),
             contains("statistic 1 is a null pointer for 8 elements"));
  CHECK_THAT(stat(ew::out(y + 60, 8) = norm.mean()),
             contains("statistic 1 overlaps an array of the matrix"));
  CHECK_THAT(stat(ew::out(dx.data(), 8) = norm.rstd()),
             contains("statistic 1 overlaps an array of the matrix"));
  auto* const odd = reinterpret_cast<float*>(reinterpret_cast<unsigned char*>(dm.data()) + 2);
  CHECK_THAT(stat(ew::out(odd, 8) = norm.mean()),
             contains("not a multiple of its element's 4 bytes"));
  CHECK_THAT(text({8, 8}, ew::out(y, 64) = norm, ew::out(dm.data(), 8) = norm.mean(),
                  ew::out(dm.data() + 7, 8) = norm.rstd()),
             contains("statistic 2 overlaps statistic 1"));
  CHECK_THAT(refusal([&] { static_cast<void>(ew::layer_norm(e, -1.0)); }),
             contains("ew::layer_norm: eps is -1"));
  CHECK_THAT(refusal([&] { static_cast<void>(ew::rms_norm(e, std::nan(""))); }),
             contains("ew::rms_norm: eps is nan"));
  CHECK_THAT(refusal([&] {
               ew::run_rows_host({8, 9}, ew::out(y, 64) = norm);
             }),
             contains("{rows, cols} = {8, 9} are 72"));
  CHECK(text({8, 8}, ew::out(dx.data(), 64) = norm) == "accepted");
  s.synchronize();
}

TEST_CASE("calls of softmax() of the same expression are one function") {
  ww::stream s;
  std::size_t const n = 64;
  auto const values = random_values<float>(n, -2, 4, 1);
  guarded<float> const dx{values, 0}, dz{values, 0}, y{n, 0}, z{n, 0};
  auto const x = [&] { return ew::in(static_cast<float const*>(dx.data()), n); };
  float const* const w = dz.data();
  // Two outputs, of one call each.
  auto const outcome = [&](auto const& a, auto const& b) {
    return refusal([&] {
      ew::run_rows(s, {8, 8}, ew::out(y.data(), n) = a, ew::out(z.data(), n) = b);
    });
  };
  auto const accepted = [&](auto const& make) {
    std::string const text = outcome(make(), make());
    return text == "accepted" && y.fetch(s) == z.fetch(s);
  };
  auto const refused = [&](auto const& a, auto const& b) {
    std::string const text = outcome(a, b);
    return text.find("call softmax(), layer_norm() or the like once, name what it returns") !=
           std::string::npos;
  };
  CHECK(accepted([&] { return ew::softmax(x()); }));
  CHECK(outcome(ew::softmax(x()) + ew::softmax(x()), ew::softmax(x())) == "accepted");
  CHECK(accepted([&] { return ew::rms_norm(x() * ew::row(w, 8) + ew::col(w, 8), 1e-5); }));
  CHECK(accepted([&] { return ew::softmax(x() * ew::device_scalar(w) + 0.5F); }));
  double const nan = std::nan("");  // not equal to itself
  CHECK(outcome(ew::softmax(x() * nan), ew::softmax(x() * nan)) == "accepted");
  CHECK(accepted([&] { return ew::softmax(ew::map(affine{2, 1}, x())); }));
  CHECK(accepted([&] { return ew::softmax(ew::map(scaled_by{2}, x())); }));
  CHECK(accepted([&] { return ew::softmax(ew::dropout(x(), 0.25, ew::philox{3})); }));

  CHECK(refused(ew::softmax(x()), ew::softmax(ew::in(w, n))));
  CHECK(refused(ew::layer_norm(x(), 1e-5), ew::layer_norm(x(), 1e-6)));
  CHECK(refused(ew::softmax(x() * 2), ew::softmax(x() * 3)));
  CHECK(refused(ew::softmax(x() * ew::row(w, 8)), ew::softmax(x() * ew::row(w + 8, 8))));
  CHECK(refused(ew::softmax(x() * ew::row(w, 8)), ew::softmax(x() * ew::row(w, 4))));
  CHECK(refused(ew::softmax(x() * ew::col(w, 8)), ew::softmax(x() * ew::col(w, 16))));
  CHECK(refused(ew::softmax(ew::compute_as<double>(x() * 2)),
                ew::softmax(ew::compute_as<double>(x() * 3))));
  CHECK(refused(ew::softmax(ew::map(affine{2, 1}, x())), ew::softmax(ew::map(affine{2, 2}, x()))));
  CHECK(refused(ew::softmax(ew::map(scaled_by{2}, x())), ew::softmax(ew::map(scaled_by{3}, x()))));
  CHECK(refused(ew::softmax(ew::dropout(x(), 0.25, ew::philox{3})),
                ew::softmax(ew::dropout(x(), 0.25, ew::philox{4}))));
  CHECK(refused(ew::softmax(ew::dropout(x(), 0.25, ew::philox{3})),
                ew::softmax(ew::dropout(x(), 0.5, ew::philox{3}))));
}

TEST_CASE("run_rows is legal in a capture, and the graph replays it on new values") {
  ww::stream s;
  // The long rows first: their first launch reads and sets attributes of the device and kernel.
  for (std::size_t const cols : {20000U, 1000U}) {
    CAPTURE(cols);
    std::size_t const rows = 2, n = rows * cols;
    guarded<float> x{std::vector<float>(n, 1.0F), 0};
    guarded<float> const y{n, 0};
    ww::graph_replay graph;
    graph.recapture(s, [&](ww::stream_ref) {
      ew::run_rows(s, {rows, cols},
                   ew::out(y.data(), n) = ew::rms_norm(ew::in(x.data(), n), 0.0) * 3);
    });
    CHECK(graph.node_counts().total() == 1);
    graph.launch(s);
    CHECK(y.fetch(s) == std::vector<float>(n, 3.0F));
    x.assign(std::vector<float>(n, -4.0F));
    graph.launch(s);
    CHECK(y.fetch(s) == std::vector<float>(n, -3.0F));
  }
}

#if WARPWRIGHT_HOST_RUNTIME

TEST_CASE("run_rows makes one CUDA call and reports its failure") {
  ww::stream s;
  guarded<float> const x{std::vector<float>(100, 1.0F), 0}, y{std::vector<float>(100, 7.0F), 0};
  auto const soft = ew::softmax(ew::in(x.data(), 100));
  std::uint64_t const before = ww::testing::total_calls();
  ew::run_rows(s, {4, 25}, ew::out(x.data(), 100) = soft);
  CHECK(ww::testing::total_calls() == before + 1);
  {
    ww::testing::fault_plan const plan =
        ww::testing::fault_plan{}.fail("cudaLaunchKernel", 1, cudaErrorLaunchOutOfResources);
    ww::testing::scoped_fault_plan const active{plan};
    try {
      ew::run_rows(s, {4, 25}, ew::out(y.data(), 100) = soft);
      FAIL("the launch should have failed");
    } catch (ww::cuda_error const& error) {
      CHECK(error.code() == cudaErrorLaunchOutOfResources);
      CHECK_THAT(error.what(), contains("rows_interface_test.cpp"));
    }
    CHECK(active.hits() == 1);
  }
  CHECK(y.fetch(s)[0] == 7);
  ew::run_rows(s, {4, 25}, ew::out(y.data(), 100) = soft);
  CHECK(y.fetch(s)[0] == 0.04F);
}

#endif
