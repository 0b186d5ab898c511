// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Strided views in expressions against a plain loop: any strides, any mix with other operands. The
// values are small integers, so that results are exact and compared as such.
#include <warpwright/graph.hpp>
#include <warpwright/kernel.hpp>
#include <warpwright/kernel/explain.hpp>
#include <warpwright/kernel/reduce_matrix.hpp>
#include <warpwright/kernel/rows.hpp>
#include <warpwright/kernel/views.hpp>

#include <limits>
#include <stdexcept>
#include <string>

#include "kernel/layouts.hpp"
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
using kernel_test::layout;
using kernel_test::random_layout;
using kernel_test::refusal;
using kernel_test::small_integers;
using test_support::device_array;

namespace {

template <class O, class X>
void check_random(std::uint64_t seed, int rounds) {
  INFO("seed " << seed);
  kernel_test::random_numbers random{seed};
  ww::stream s;
  for (int round = 0; round < rounds; ++round) {
    layout const l = random_layout(random, round % 5 == 0 ? 60000 : 2000);
    std::size_t const n = l.elements;
    auto const x = small_integers<X>(l.span, 50, random.next());
    auto const y = small_integers<float>(n, 50, random.next());
    guarded<X> dx{x, random.below(16)};
    guarded<float> dy{y, random.below(4)};
    guarded<O> out{n, random.below(16)};
    CAPTURE(round, n, l.rank);
    auto const view = ew::view(dx.data() + l.first, l.rank, l.shape, l.strides);
    ew::run(s, ew::out(out.data(), n) = view * 2 + ew::in(dy.data(), n) + ew::index() % 3);
    std::vector<O> const got = out.fetch(s);
    REQUIRE((out.intact(s) && dx.intact(s)));
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < n; ++i) {
      double const expected =
          as_double(x[l.at(i)]) * 2 + as_double(y[i]) + static_cast<double>(i % 3);
      if (as_double(got[i]) != expected) ++wrong;
    }
    REQUIRE(wrong == 0);
  }
}

// Swaps dimensions `a` and `b` of an array of six.
template <class T>
std::size_t wrong_after_swap(ww::stream& s, std::int64_t const (&shape)[6], int a, int b) {
  layout l;
  l.rank = 6;
  std::int64_t step = 1;
  for (int k = 5; k >= 0; --k) {
    l.shape[k] = shape[k];
    l.strides[k] = step;
    step *= shape[k];
  }
  std::swap(l.shape[a], l.shape[b]);
  std::swap(l.strides[a], l.strides[b]);
  l.measure();
  auto const x = small_integers<T>(l.span, 100, 7);
  device_array<T> dx{x};
  guarded<T> out{l.elements, 0};
  ew::run(s, ew::out(out.data(), l.elements) = ew::view(dx.data(), 6, l.shape, l.strides));
  std::vector<T> const got = out.fetch(s);
  if (!out.intact(s)) return ~std::size_t{0};
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < l.elements; ++i) {
    if (as_double(got[i]) != as_double(x[l.at(i)])) ++wrong;
  }
  return wrong;
}

template <class T>
std::size_t wrong_after_transpose(ww::stream& s, std::size_t rows, std::size_t cols,
                                  std::size_t at_o, std::size_t at_x) {
  std::size_t const n = rows * cols;
  auto const x = small_integers<T>(n, 100, rows + cols);
  guarded<T> dx{x, at_x};
  guarded<T> out{n, at_o};
  ew::run(s,
          ew::out(out.data(), n) = ew::view(ew::array(dx.data(), {rows, cols}).permuted({1, 0})));
  std::vector<T> const got = out.fetch(s);
  if (!out.intact(s)) return ~std::size_t{0};
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (as_double(got[i]) != as_double(x[i % rows * cols + i / rows])) ++wrong;
  }
  return wrong;
}

template <class T>
void check_transposes() {
  ww::stream s;
  for (std::size_t rows : {0U, 1U, 31U, 32U, 33U, 63U, 64U, 65U, 127U, 128U, 129U, 256U}) {
    for (std::size_t cols : {0U, 1U, 3U, 31U, 32U, 33U, 63U, 64U, 65U, 130U, 512U}) {
      CAPTURE(rows, cols);
      REQUIRE(wrong_after_transpose<T>(s, rows, cols, 0, 0) == 0);
      REQUIRE(wrong_after_transpose<T>(s, rows, cols, 1, 0) == 0);
      REQUIRE(wrong_after_transpose<T>(s, rows, cols, 0, 1) == 0);
    }
  }
}

struct three_bytes {
  unsigned char a, b, c;
};
struct sum_of_three {
  WARPWRIGHT_HOST_DEVICE int operator()(three_bytes t) const { return t.a + t.b + t.c; }
};

}  // namespace

TEST_CASE("random views of types of one kind and mixed") {
  check_random<float, float>(41, 120);
  check_random<__half, __half>(42, 120);
  check_random<unsigned char, unsigned char>(45, 120);
  check_random<double, short>(48, 120);
#if WARPWRIGHT_TEST_EVERY_TYPE
  check_random<__nv_bfloat16, __nv_bfloat16>(43, 120);
  check_random<double, double>(44, 120);
  check_random<__half, unsigned char>(46, 120);
  check_random<float, signed char>(47, 120);
  check_random<short, std::int64_t>(49, 120);
  check_random<unsigned char, float>(50, 120);
#endif
}

TEST_CASE("transposes of all sizes around a tile") {
  check_transposes<float>();
  check_transposes<unsigned char>();
#if WARPWRIGHT_TEST_EVERY_TYPE
  check_transposes<__half>();
  check_transposes<double>();
  check_transposes<__nv_bfloat16>();
#endif
}

TEST_CASE("every pair of six dimensions swapped") {
  ww::stream s;
  std::int64_t const odd[] = {3, 17, 2, 33, 2, 35};
  std::int64_t const even[] = {2, 32, 2, 64, 1, 32};
  for (int a = 0; a < 6; ++a) {
    for (int b = a + 1; b < 6; ++b) {
      CAPTURE(a, b);
      REQUIRE(wrong_after_swap<float>(s, odd, a, b) == 0);
      REQUIRE(wrong_after_swap<float>(s, even, a, b) == 0);
      REQUIRE(wrong_after_swap<unsigned char>(s, even, a, b) == 0);
#if WARPWRIGHT_TEST_EVERY_TYPE
      REQUIRE(wrong_after_swap<__half>(s, odd, a, b) == 0);
      REQUIRE(wrong_after_swap<double>(s, even, a, b) == 0);
#endif
    }
  }
}

TEST_CASE("pictures: bytes of channels last to 16-bit planes, scaled") {
  ww::stream s;
  for (std::size_t const channels : {1U, 3U, 4U, 16U}) {
    for (std::size_t const w : {64U, 61U}) {
      std::size_t const count = 2;
      std::size_t const h = 40;
      std::size_t const n = count * h * w * channels;
      CAPTURE(channels, w);
      auto const x = small_integers<unsigned char>(n, 200, 3);
      auto const scale = small_integers<float>(channels, 4, 4);
      auto const bias = small_integers<float>(channels, 9, 5);
      device_array<unsigned char> dx{x};
      device_array<float> dscale{scale};
      device_array<float> dbias{bias};
      guarded<__half> out{n, 0};
      auto const each = [&](float const* p) {
        return ew::view(p, {count, channels, h, w}, {0, 1, 0, 0});
      };
      auto const picture = ew::array(dx.data(), {count, h, w, channels});
      ew::run(s, ew::out(out.data(), n) =
                     each(dscale.data()) * ew::view(picture.permuted({0, 3, 1, 2})) +
                     each(dbias.data()));
      auto const got = out.fetch(s);
      CHECK(out.intact(s));
      std::size_t wrong = 0;
      for (std::size_t b = 0; b < count; ++b) {
        for (std::size_t c = 0; c < channels; ++c) {
          for (std::size_t p = 0; p < h * w; ++p) {
            float const expected =
                scale[c] * static_cast<float>(x[(b * h * w + p) * channels + c]) + bias[c];
            if (__half2float(got[(b * channels + c) * h * w + p]) != expected) ++wrong;
          }
        }
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("slices, steps and reversed dimensions") {
  ww::stream s;
  std::size_t const rows = 37;
  std::size_t const cols = 101;
  auto const x = small_integers<int>(rows * cols, 1000, 9);
  device_array<int> dx{x};
  auto const whole = ew::array(dx.data(), {rows, cols});
  auto const part = whole.sliced(0, 3, 30, 2).sliced(1, 5, cols, 3).reversed(1);
  REQUIRE(part.extent_of(0) == 14);
  REQUIRE(part.extent_of(1) == 32);
  CHECK(part.stride_of(1) == -3);
  guarded<int> out{14 * 32, 1};
  ew::run(s, ew::out(out.data(), 14 * 32) = ew::view(part));
  auto const got = out.fetch(s);
  CHECK(out.intact(s));
  std::size_t wrong = 0;
  for (std::size_t r = 0; r < 14; ++r) {
    for (std::size_t c = 0; c < 32; ++c) {
      if (got[r * 32 + c] != x[(3 + 2 * r) * cols + 5 + 3 * (31 - c)]) ++wrong;
    }
  }
  CHECK(wrong == 0);
  CHECK(whole.sliced(1, 7, 7).extent_of(1) == 0);
  CHECK(whole.sliced(0, 0, rows, 100).extent_of(0) == 1);
}

// A plain 0 is a null pointer as well, and what is the place of a call takes one.
TEST_CASE("lists of plain numbers are strides, whatever the first") {
  float const x[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  std::size_t const pitch = 4;
  auto const strides = [](auto const& a, std::int64_t first, std::int64_t second) {
    return a.stride_of(0) == first && a.stride_of(1) == second && a.extent_of(1) == 8;
  };
  CHECK(strides(ew::array(x, {4, 8}, {0, 1}), 0, 1));
  CHECK(strides(ew::array(x, {2, 8}, {0, pitch}), 0, 4));
  CHECK(strides(ew::array(x, {0, 8}, {0, 0}), 0, 0));
  CHECK(strides(ew::array(x, {0, 8}), 8, 1));
  CHECK(ew::array(x, {8}, {0}).stride_of(0) == 0);
  CHECK(ew::array(x, {2, 2, 2}, {0, 1, 2}).stride_of(2) == 2);
  CHECK(ew::array(x, {2, 2, 2}, {0, 0, 1}).permuted({0, 1, 2}).stride_of(2) == 1);
  std::vector<float> y(16, -1);
  ew::evaluate_host(ew::out(y.data(), 16) = ew::view(x, {2, 8}, {0, 1}));
  for (std::size_t k = 0; k < 16; ++k) CHECK(y[k] == x[k % 8]);
  ew::evaluate_host(ew::out(ew::array(y.data(), {1, 8}, {0, 1})) = ew::view(x, {1, 8}, {0, 0}));
  CHECK((y[0] == 0 && y[7] == 0 && y[8] == 0 && y[9] == 1));
}

TEST_CASE("several views, other operands and outputs in one kernel") {
  ww::stream s;
  std::size_t const rows = 96;
  std::size_t const cols = 132;
  std::size_t const n = rows * cols;
  auto const a = small_integers<float>(n, 50, 1);
  auto const b = small_integers<__half>(n, 50, 2);
  auto const c = small_integers<float>(cols, 50, 3);
  device_array<float> da{a};
  device_array<__half> db{b};
  device_array<float> dc{c};
  guarded<float> sum{a, 0};  // in place of a copy of a
  guarded<__half> product{n, 0};
  auto const turned = ew::view(ew::array(db.data(), {cols, rows}).permuted({1, 0}));
  ew::run(
      s, ew::tie(ew::out(sum.data(), n) = ew::in(sum.data(), n) + turned + ew::row(dc.data(), cols),
                 ew::out(product.data(), n) =
                     ew::view(ew::array(da.data(), {cols, rows}).permuted({1, 0})) * 2 +
                     ew::compute_as<double>(turned)));
  auto const got_sum = sum.fetch(s);
  auto const got_product = product.fetch(s);
  CHECK((sum.intact(s) && product.intact(s)));
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < n; ++i) {
    std::size_t const turned_at = i % cols * rows + i / cols;
    if (got_sum[i] != a[i] + __half2float(b[turned_at]) + c[i % cols]) ++wrong;
    if (__half2float(got_product[i]) != a[turned_at] * 2 + __half2float(b[turned_at])) ++wrong;
  }
  CHECK(wrong == 0);
}

TEST_CASE("elements of other kinds: flags and user structs") {
  ww::stream s;
  std::size_t const rows = 70;
  std::size_t const cols = 90;
  std::vector<three_bytes> x(rows * cols);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = {static_cast<unsigned char>(i % 7), static_cast<unsigned char>(i % 11), 3};
  }
  device_array<three_bytes> dx{x};
  device_array<bool> flags{rows * cols};
  guarded<int> out{rows * cols, 0};
  ew::run(s, ew::out(flags.data(), rows * cols) = ew::index() % 3 == 0);
  ew::run(
      s, ew::out(out.data(), rows * cols) = ew::where(
             ew::view(ew::array(flags.data(), {rows, cols}).permuted({1, 0})),
             ew::map(sum_of_three{}, ew::view(ew::array(dx.data(), {rows, cols}).permuted({1, 0}))),
             -1));
  auto const got = out.fetch(s);
  CHECK(out.intact(s));
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < rows * cols; ++i) {
    std::size_t const at = i % rows * cols + i / rows;
    int const expected = at % 3 == 0 ? x[at].a + x[at].b + x[at].c : -1;
    if (got[i] != expected) ++wrong;
  }
  CHECK(wrong == 0);
}

TEST_CASE("reductions take views") {
  ww::stream s;
  std::size_t const rows = 45;
  std::size_t const cols = 130;
  auto const x = small_integers<float>(rows * cols, 100, 6);
  device_array<float> dx{x};
  device_array<float> sums{rows};
  auto const turned = ew::view(ew::array(dx.data(), {cols, rows}).permuted({1, 0}));
  ew::reduce_rows(s, {rows, cols}, ew::to(sums.data()) = ew::sum(turned));
  auto const got = sums.fetch(s);
  for (std::size_t r = 0; r < rows; ++r) {
    float expected = 0;
    for (std::size_t c = 0; c < cols; ++c) expected += x[c * rows + r];
    REQUIRE(got[r] == expected);
  }
  float total = 0;
  ew::reduce_host(rows * cols,
                  ew::to(&total) = ew::sum(ew::view(x.data(), {cols, rows}, {rows, 1})));
  double expected = 0;
  for (float const v : x) expected += static_cast<double>(v);
  CHECK(static_cast<double>(total) == expected);

  device_array<float> column_reduction{cols};
  std::size_t const bytes = ew::reduce_cols_workspace_bytes(
      {rows, cols}, ew::to(column_reduction.data()) = ew::sum(turned));
  device_array<uint4> memory{bytes / sizeof(uint4)};
  ew::reduce_cols(s, ew::prepare_workspace(s, memory.data(), bytes), {rows, cols},
                  ew::to(column_reduction.data()) = ew::sum(turned));
  auto const columns = column_reduction.fetch(s);
  for (std::size_t c = 0; c < cols; ++c) {
    float of_column = 0;
    for (std::size_t r = 0; r < rows; ++r) of_column += x[c * rows + r];
    REQUIRE(columns[c] == of_column);
  }
}

TEST_CASE("functions of rows take views") {
  ww::stream s;
  std::size_t const rows = 45;
  std::size_t const cols = 130;
  auto const x = small_integers<float>(rows * cols, 100, 7);
  device_array<float> dx{x};
  device_array<float> straight{rows * cols};
  device_array<float> y{rows * cols};
  auto const turned = ew::view(ew::array(dx.data(), {cols, rows}).permuted({1, 0}));
  ew::run(s, ew::out(straight.data(), rows * cols) = turned);
  ew::run_rows(s, {rows, cols}, ew::out(y.data(), rows * cols) = ew::softmax(turned * 0.125F));
  auto const got = y.fetch(s);
  ew::run_rows(
      s, {rows, cols},
      ew::out(y.data(), rows * cols) = ew::softmax(ew::in(straight.data(), rows * cols) * 0.125F));
  auto const expected = y.fetch(s);
  for (std::size_t k = 0; k < rows * cols; ++k) {
    REQUIRE(std::abs(got[k] - expected[k]) <= 1e-6F * expected[k]);  // other vectors, other sums
    REQUIRE(expected[k] > 0);
  }
}

TEST_CASE("a view without gaps is an array like any other, in place included") {
  ww::stream s;
  auto const x = small_integers<float>(1000, 100, 8);
  guarded<float> y{x, 1};
  ew::run(s, ew::out(y.data(), 1000) = ew::view(ew::array(y.data(), {10, 1, 100})) + 1);
  auto const got = y.fetch(s);
  CHECK(y.intact(s));
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < 1000; ++i) wrong += got[i] != x[i] + 1;
  CHECK(wrong == 0);
  float const* const p = reinterpret_cast<float const*>(0x10000);
  auto* const q = reinterpret_cast<float*>(0x20000);
  CHECK(ew::plan(ew::out(q, 1000) = ew::view(ew::array(p, {10, 100}))).explain() ==
        ew::plan(ew::out(q, 1000) = ew::in(p, 1000)).explain());
}

TEST_CASE("arrays without elements may have any extents and strides beside") {
  float x[4] = {};
  std::int64_t const most = std::numeric_limits<std::int64_t>::max();
  std::int64_t const large = std::int64_t{1} << 40U;
  CHECK(ew::array(x, {std::int64_t{0}, large, large}).extent_of(2) == large);
  auto const none = ew::array(x, {4, 0}, {most, std::int64_t{1}});
  CHECK(none.sliced(0, 2, 4).data() == x);
  CHECK(none.sliced(0, 0, 4, 2).extent_of(0) == 2);
  CHECK(none.reversed(0).data() == x);
}

TEST_CASE("views that do not fit are refused by number, value and remedy") {
  ww::stream s;
  device_array<float> memory{4096};
  float* const p = memory.data();
  float* const y = p + 2048;
  auto const text = [&](auto const& assignment) {
    std::string const words = refusal([&] { ew::run(s, assignment); });
    CHECK(words.find("views_test.cpp:") != std::string::npos);
    return words;
  };
  CHECK_THAT(text(ew::out(y, 64) = 2 * ew::view(p, {8, 7}, {1, 8})),
             contains("operand 1 (view) has a shape of 56 elements, but the output has 64"));
  CHECK_THAT(text(ew::out(y, 0) = ew::view(p, {8, 7}, {1, 8})), contains("stride of 0"));
  CHECK_THAT(text(ew::out(y, 64) = ew::view(ew::array(p, {8, 7}))),
             contains("operand 1 (view) has a shape of 56 elements"));
  float* const null = nullptr;
  CHECK_THAT(text(ew::out(y, 64) = ew::view(null, {8, 8}, {1, 8})),
             contains("operand 1 (view) is a null pointer for 64 elements"));
  CHECK_THAT(text(ew::out(y, 64) = ew::view(null, {8, 8}, {-1, -8})), contains("null pointer"));
  auto* const odd = reinterpret_cast<float*>(reinterpret_cast<char*>(p) + 2);
  CHECK_THAT(text(ew::out(y, 64) = ew::view(odd, {8, 8}, {1, 8})),
             contains("not a multiple of its element's 4 bytes"));
  // Overlaps: what it reaches counts, on both sides, and in place it is none but whole arrays.
  CHECK_THAT(text(ew::out(y, 64) = ew::view(y, {8, 8}, {1, 8})),
             contains("operand 1 (view) spans 256 bytes that overlap the output's 256"));
  CHECK_THAT(text(ew::out(y, 64) = ew::view(y, {8, 8}, {1, 8})),
             contains("write to another array") && !contains("exactly in place"));
  CHECK_THAT(text(ew::out(y, 64) = ew::view(y + 100, {8, 8}, {-1, -8})), contains("overlap"));
  CHECK_THAT(text(ew::out(y, 64) = ew::view(p, {8, 8}, {1, 300})), contains("overlap"));
  CHECK(refusal([&] {
          ew::run(s, ew::out(y, 64) = ew::view(y + 127, {8, 8}, {-8, -1}));
        }) == "accepted");
  CHECK(refusal([&] { ew::run(s, ew::out(y, 64) = ew::view(p, {8, 8}, {1, 8})); }) == "accepted");
  // Shapes that no array has.
  auto const shape_text = [&](auto call) {
    std::string const words = refusal(call);
    CHECK(words.find("views_test.cpp:") != std::string::npos);
    return words;
  };
  CHECK_THAT(shape_text([&] {
               return ew::view(p, {8, -2}, {1, 8});
             }),
             contains("ew::view: dimension 1 has -2 elements"));
  CHECK_THAT(shape_text([&] {
               return ew::array(p, {8, -2});
             }),
             contains("ew::array: dimension 1 has -2 elements"));
  CHECK_THAT(shape_text([&] {
               return ew::array(p, {-8, 2}, {2, 1});
             }),
             contains("ew::array: dimension 0 has -8 elements"));
  std::size_t const many = std::size_t{1} << 40U;
  CHECK_THAT(
      shape_text([&] {
        return ew::array(p, {many, many});
      }),
      contains("ew::array: dimension 1, of 1099511627776, makes more than 2^59 elements of the "
               "array; pass shape"));
  CHECK_THAT(shape_text([&] {
               return ew::view(p, {2, many}, {many, many});
             }),
             contains("ew::view: dimension 1, of 1099511627776 at a stride of 1099511627776, makes "
                      "the array span more than 2^59 elements"));
  int const seven[] = {1, 1, 1, 1, 1, 1, 1};
  CHECK_THAT(shape_text([&] { return ew::view(p, 7, seven, seven); }),
             contains("ew::view: there are 7 dimensions; it takes 0 to 6"));
  CHECK_THAT(shape_text([&] { return ew::view(p, -1, seven, seven); }), contains("-1 dimensions"));
  auto const a = ew::array(p, {8, 16});
  CHECK_THAT(
      shape_text([&] {
        return a.permuted({0, 2});
      }),
      contains("ew::array: the order of dimensions has 2 at position 1; it must name each of "
               "0 to 1 once"));
  CHECK_THAT(shape_text([&] { return a.permuted({1, 1}); }), contains("has 1 at position 1"));
  CHECK_THAT(shape_text([&] { return a.sliced(1, 3, 17); }),
             contains("the slice from 3 to 17 does not lie in the 16 elements of dimension 1"));
  CHECK_THAT(shape_text([&] { return a.sliced(1, 5, 3); }), contains("from 5 to 3"));
  CHECK_THAT(shape_text([&] { return a.sliced(1, 3, 5, 0); }), contains("a step of 0"));
  CHECK_THAT(shape_text([&] { return a.sliced(2, 3, 5); }),
             contains("ew::array: there is no dimension 2"));
  CHECK_THAT(shape_text([&] { return a.reversed(-1); }), contains("there is no dimension -1"));
  s.synchronize();
}

TEST_CASE("no elements, and one") {
  ww::stream s;
  float* const null = nullptr;
  int const zero[] = {0, 5};
  ew::run(s, ew::out(null, 0) = ew::view(null, {0, 5}, {1, 1}) + ew::view(null, 2, zero, zero));
  device_array<float> x{std::vector<float>{7.0F}};
  guarded<float> y{1, 0};
  ew::run(s, ew::out(y.data(), 1) = ew::view(x.data(), 0, zero, zero) +
                                    ew::view(x.data(), {1, 1}, {std::size_t{1} << 50U, 3}));
  CHECK(y.fetch(s)[0] == 14);
  CHECK(y.intact(s));
}

TEST_CASE("a graph replays a transposition on new values") {
  ww::stream s;
  std::size_t const rows = 64;
  std::size_t const cols = 96;
  std::size_t const n = rows * cols;
  device_array<float> x{std::vector<float>(n, 1.0F)};
  device_array<float> y{n};
  ww::graph_replay graph;
  graph.recapture(s, [&](ww::stream_ref) {
    ew::run(
        s, ew::out(y.data(), n) = ew::view(ew::array(x.data(), {rows, cols}).permuted({1, 0})) * 3);
  });
  CHECK(graph.node_counts().total() == 1);
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<float>(i);
  ww::check(
      cudaMemcpyAsync(x.data(), values.data(), n * sizeof(float), cudaMemcpyHostToDevice, s.get()),
      "cudaMemcpyAsync");
  graph.launch(s);
  auto const got = y.fetch(s);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < n; ++i) {
    wrong += got[i] != 3 * static_cast<float>(i % rows * cols + i / rows);
  }
  CHECK(wrong == 0);
}

TEST_CASE("evaluate_host takes views") {
  std::vector<float> const x = small_integers<float>(1200, 90, 2);
  std::vector<float> y(1200);
  ew::evaluate_host(ew::out(y.data(), 1200) =
                        ew::view(ew::array(x.data(), {30, 40}).permuted({1, 0})));
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < 1200; ++i) wrong += y[i] != x[i % 30 * 40 + i / 30];
  CHECK(wrong == 0);
}

#if WARPWRIGHT_HOST_RUNTIME

TEST_CASE("a view costs one CUDA call, and its failure is the caller's to see") {
  ww::stream s;
  device_array<float> x{4096};
  device_array<float> y{4096};
  auto const turned = ew::view(ew::array(x.data(), {64, 64}).permuted({1, 0}));
  std::uint64_t const before = ww::testing::total_calls();
  ew::run(s, ew::out(y.data(), 4096) = turned);
  CHECK(ww::testing::total_calls() == before + 1);
  ww::testing::fault_plan const plan =
      ww::testing::fault_plan{}.fail("cudaLaunchKernel", 1, cudaErrorLaunchOutOfResources);
  ww::testing::scoped_fault_plan const active{plan};
  try {
    ew::run(s, ew::out(y.data(), 4096) = turned);
    FAIL("the launch was to fail");
  } catch (ww::cuda_error const& error) {
    CHECK(error.code() == cudaErrorLaunchOutOfResources);
    CHECK_THAT(error.what(), contains("views_test.cpp"));
  }
  CHECK(active.hits() == 1);
}

#endif
