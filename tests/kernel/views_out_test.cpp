// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Strided arrays as outputs against a plain loop: what is named becomes the expression's, and what
// lies between and beside stays as it was. The values are small integers, compared exactly.
#include <warpwright/graph.hpp>
#include <warpwright/kernel.hpp>
#include <warpwright/kernel/explain.hpp>
#include <warpwright/kernel/views.hpp>

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
using kernel_test::arranged;
using kernel_test::as_double;
using kernel_test::guarded;
using kernel_test::layout;
using kernel_test::number;
using kernel_test::random_layout;
using kernel_test::random_numbers;
using kernel_test::refusal;
using kernel_test::small_integers;
using test_support::device_array;

namespace {

// How many of `got` are not as they should be: value(i) where element i lies, else as `before`.
template <class T, class Value>
std::size_t wrong_in(std::vector<T> const& got, std::vector<T> const& before, layout const& l,
                     Value value) {
  std::vector<double> expected(before.size());
  for (std::size_t k = 0; k < before.size(); ++k) expected[k] = as_double(before[k]);
  for (std::size_t i = 0; i < l.elements; ++i) expected[l.at(i)] = value(i);
  std::size_t wrong = 0;
  for (std::size_t k = 0; k < got.size(); ++k) wrong += as_double(got[k]) != expected[k];
  return wrong;
}

template <class O, class X>
void check_random(std::uint64_t seed, int rounds) {
  INFO("seed " << seed);
  random_numbers random{seed};
  ww::stream s;
  for (int round = 0; round < rounds; ++round) {
    layout const to = arranged(random, random_layout(random, round % 5 == 0 ? 60000 : 2000), false);
    layout const from = arranged(random, to, true);
    std::size_t const n = to.elements;
    auto const x = small_integers<X>(from.span, 20, random.next());
    auto const y = small_integers<float>(n, 20, random.next());
    auto const before = small_integers<O>(to.span, 99, random.next());
    guarded<X> dx{x, random.below(16)};
    guarded<float> dy{y, random.below(4)};
    guarded<O> out{before, random.below(16)};
    CAPTURE(round, n, to.rank);
    auto const view = ew::view(dx.data() + from.first, from.rank, from.shape, from.strides);
    auto const target = ew::out(out.data() + to.first, to.rank, to.shape, to.strides);
    ew::run(s, target = view * 2 + 1);  // in the order of its memory
    REQUIRE(wrong_in(out.fetch(s), before, to,
                     [&](std::size_t i) { return as_double(x[from.at(i)]) * 2 + 1; }) == 0);
    REQUIRE((out.intact(s) && dx.intact(s)));
    out.assign(before);
    ew::run(s, target = view + ew::in(dy.data(), n) + ew::index() % 3);  // in that of its shape
    REQUIRE(wrong_in(out.fetch(s), before, to, [&](std::size_t i) {
              return as_double(x[from.at(i)]) + as_double(y[i]) + static_cast<double>(i % 3);
            }) == 0);
    REQUIRE((out.intact(s) && dx.intact(s) && dy.intact(s)));
  }
}

template <int Rank>
void check_rank(std::uint64_t seed) {
  INFO("seed " << seed);
  random_numbers random{seed};
  ww::stream s;
  for (int round = 0; round < 30; ++round) {
    layout shape;
    shape.rank = Rank;
    for (int k = 0; k < Rank; ++k) {
      shape.shape[k] = static_cast<std::int64_t>(1 + random.below(Rank < 3 ? 70 : 7));
    }
    layout const to = arranged(random, shape, false);
    layout const from = arranged(random, shape, true);
    ew::extent extents[Rank];
    ew::extent steps[Rank];
    ew::extent steps_from[Rank];
    for (int k = 0; k < Rank; ++k) {
      extents[k] = to.shape[k];
      steps[k] = to.strides[k];
      steps_from[k] = from.strides[k];
    }
    auto const x = small_integers<float>(from.span, 50, random.next());
    auto const before = small_integers<float>(to.span, 99, random.next());
    device_array<float> dx{x};
    guarded<float> out{before, random.below(4)};
    ew::run(s, ew::out(ew::array(out.data() + to.first, extents, steps)) =
                   3 * ew::view(dx.data() + from.first, extents, steps_from));
    CAPTURE(round, to.elements);
    REQUIRE(wrong_in(out.fetch(s), before, to,
                     [&](std::size_t i) { return 3 * as_double(x[from.at(i)]); }) == 0);
    REQUIRE(out.intact(s));
  }
}

struct three_bytes {
  unsigned char a, b, c;
};
struct pair_of_doubles {
  double a, b;
};
struct twelve_bytes {
  int a, b, c;
};

// Copies into a slice and into a transposition, byte by byte the same.
template <class T>
void check_bytes() {
  ww::stream s;
  for (std::size_t const offset : {0U, 1U, 3U}) {
    std::size_t const rows = 45;
    std::size_t const cols = 83;
    std::size_t const pitch = 96;
    auto const bytes = small_integers<unsigned char>(rows * cols * sizeof(T), 2, 5);
    std::vector<T> x(rows * cols);
    std::memcpy(static_cast<void*>(x.data()), bytes.data(), bytes.size());
    auto const old = small_integers<unsigned char>(rows * pitch * sizeof(T), 2, 6);
    std::vector<T> before(rows * pitch);
    std::memcpy(static_cast<void*>(before.data()), old.data(), old.size());
    guarded<T> dx{x, offset};
    guarded<T> out{before, offset};
    guarded<T> turned{before, 0};
    ew::run(s, ew::out(ew::array(out.data(), {rows, pitch}).sliced(1, 5, 5 + cols)) =
                   ew::in(dx.data(), rows * cols));
    ew::run(s, ew::out(ew::array(turned.data(), {cols, rows}).permuted({1, 0})) =
                   ew::view(ew::array(dx.data(), {rows, cols})));
    auto const got = out.fetch(s);
    auto const got_turned = turned.fetch(s);
    CAPTURE(sizeof(T), offset);
    CHECK((out.intact(s) && turned.intact(s)));
    std::size_t wrong = 0;
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t c = 0; c < pitch; ++c) {
        bool const named = c >= 5 && c < 5 + cols;
        T const& expected = named ? x[r * cols + c - 5] : before[r * pitch + c];
        wrong += std::memcmp(&got[r * pitch + c], &expected, sizeof(T)) != 0;
        if (c < cols) {
          wrong += std::memcmp(&got_turned[c * rows + r], &x[r * cols + c], sizeof(T)) != 0;
        }
      }
    }
    CHECK(wrong == 0);
  }
}

}  // namespace

TEST_CASE("random strided outputs of types of one kind and mixed") {
  check_random<float, float>(61, 80);
  check_random<unsigned char, unsigned char>(64, 80);
  check_random<short, double>(67, 80);
#if WARPWRIGHT_TEST_EVERY_TYPE
  check_random<__half, __half>(62, 80);
  check_random<double, double>(63, 80);
  check_random<__half, unsigned char>(65, 80);
  check_random<unsigned char, float>(66, 80);
  check_random<__nv_bfloat16, int>(68, 80);
#endif
}
TEST_CASE("outputs of every rank") {
  check_rank<2>(72);
  check_rank<3>(73);
  check_rank<6>(76);
#if WARPWRIGHT_TEST_EVERY_TYPE
  check_rank<1>(71);
  check_rank<4>(74);
  check_rank<5>(75);
#endif
}
TEST_CASE("elements of 1 to 16 bytes, and of 3") {
  check_bytes<unsigned char>();
  check_bytes<pair_of_doubles>();
  check_bytes<three_bytes>();
  check_bytes<twelve_bytes>();
#if WARPWRIGHT_TEST_EVERY_TYPE
  check_bytes<unsigned short>();
  check_bytes<unsigned>();
  check_bytes<std::uint64_t>();
#endif
}

TEST_CASE("pictures of three channels into the first three of four") {
  ww::stream s;
  std::size_t const n = 2;
  std::size_t const h = 21;
  std::size_t const w = 34;
  auto const x = small_integers<float>(n * h * w * 3, 90, 1);
  auto const before = small_integers<float>(n * h * w * 4, 90, 2);
  device_array<float> dx{x};
  guarded<float> y{before, 0};
  ew::run(s, ew::out(ew::array(y.data(), {n, h, w, 4}).sliced(3, 0, 3)) =
                 ew::view(ew::array(dx.data(), {n, h, w, 3})) * 2.0F);
  auto const got = y.fetch(s);
  CHECK(y.intact(s));
  std::size_t wrong = 0;
  for (std::size_t p = 0; p < n * h * w; ++p) {
    for (std::size_t c = 0; c < 3; ++c) wrong += got[p * 4 + c] != x[p * 3 + c] * 2;
    wrong += got[p * 4 + 3] != before[p * 4 + 3];
  }
  CHECK(wrong == 0);
}

TEST_CASE("arrays side by side, from two streams at once") {
  ww::stream first;
  ww::stream second;
  std::size_t const rows = 64;
  std::size_t const a = 24;
  std::size_t const b = 40;
  auto const x = small_integers<float>(rows * a, 90, 3);
  auto const z = small_integers<__half>(rows * b, 90, 4);
  device_array<float> dx{x};
  device_array<__half> dz{z};
  guarded<float> y{rows * (a + b), 0};
  auto const whole = ew::array(y.data(), {rows, a + b});
  ew::run(first, ew::out(whole.sliced(1, 0, a)) = ew::in(dx.data(), rows * a));
  ew::run(second, ew::out(whole.sliced(1, a, a + b)) = ew::in(dz.data(), rows * b));
  second.synchronize();
  auto const got = y.fetch(first);
  CHECK(y.intact(first));
  std::size_t wrong = 0;
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < a; ++c) wrong += got[r * (a + b) + c] != x[r * a + c];
    for (std::size_t c = 0; c < b; ++c) {
      wrong += got[r * (a + b) + a + c] != __half2float(z[r * b + c]);
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("strided outputs beside plain ones, each of its own type and strides") {
  ww::stream s;
  std::size_t const rows = 50;
  std::size_t const cols = 68;
  std::size_t const n = rows * cols;
  for (std::size_t const pitch : {72U, 77U}) {
    auto const x = small_integers<float>(n, 50, 5);
    auto const bias = small_integers<float>(cols, 50, 6);
    auto const before = small_integers<double>(rows * pitch, 50, 7);
    auto const flat_before = small_integers<unsigned char>(n, 50, 8);
    device_array<float> dx{x};
    device_array<float> dbias{bias};
    guarded<double> padded{before, 1};
    guarded<unsigned char> turned{flat_before, 0};
    guarded<float> plain{x, 0};  // in place of a copy of x
    auto const in = ew::in(dx.data(), n);
    ew::run(s, ew::tie(ew::out(plain.data(), n) = ew::in(plain.data(), n) + 1,
                       ew::out(ew::array(padded.data(), {rows, cols}, {pitch, 1})) =
                           in + ew::row(dbias.data(), cols),
                       ew::out(ew::array(turned.data(), {cols, rows}).permuted({1, 0})) =
                           ew::view(ew::array(dx.data(), {rows, cols})) * 2));
    auto const got = padded.fetch(s);
    auto const got_turned = turned.fetch(s);
    auto const got_plain = plain.fetch(s);
    CHECK((padded.intact(s) && turned.intact(s) && plain.intact(s)));
    std::size_t wrong = 0;
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t c = 0; c < pitch; ++c) {
        double const expected =
            c < cols ? static_cast<double>(x[r * cols + c] + bias[c]) : before[r * pitch + c];
        wrong += got[r * pitch + c] != expected;
      }
      for (std::size_t c = 0; c < cols; ++c) {
        float const value = x[r * cols + c];
        wrong += static_cast<float>(got_turned[c * rows + r]) != value * 2;
        wrong += got_plain[r * cols + c] != value + 1;
      }
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("in place: the same array in the same axes, and the operators that write so") {
  ww::stream s;
  std::size_t const rows = 40;
  std::size_t const cols = 60;
  auto const before = small_integers<float>(rows * 64, 50, 9);
  guarded<float> y{before, 0};
  auto const whole = ew::array(y.data(), {rows, 64});
  auto const part = whole.sliced(1, 4, 4 + cols);
  auto const turned = part.permuted({1, 0}).reversed(0);
  ew::run(s, ew::out(part) = ew::view(part) * 2);
  ew::run(s, ew::out(turned) += ew::view(turned));
  ew::run(s, ew::out(part) -= 1);
  ew::run(s, ew::out(part) *= 3);
  ew::run(s, ew::out(part) /= 1);
  ew::run(s, ew::out(whole) += 1);  // without gaps
  auto const got = y.fetch(s);
  CHECK(y.intact(s));
  std::size_t wrong = 0;
  for (std::size_t k = 0; k < rows * 64; ++k) {
    bool const named = k % 64 >= 4;
    wrong += got[k] != (named ? (before[k] * 4 - 1) * 3 : before[k]) + 1;
  }
  CHECK(wrong == 0);
}

TEST_CASE("slices of one array beside each other, in one kernel") {
  ww::stream s;
  std::size_t const rows = 133;
  std::size_t const width = 64;
  // Rotary embedding: both halves of each row in place of what they are computed of.
  std::vector<float> const x = small_integers<float>(rows * 2 * width, 20, 81);
  std::vector<float> const cosines = small_integers<float>(rows * width, 5, 82);
  std::vector<float> const sines = small_integers<float>(rows * width, 5, 83);
  guarded<float> dx{x, 0};
  guarded<float> dcos{cosines, 0};
  guarded<float> dsin{sines, 0};
  auto const whole = ew::array(dx.data(), {rows, 2 * width});
  auto const left = whole.sliced(1, 0, width);
  auto const right = whole.sliced(1, width, 2 * width);
  auto const a = ew::view(left);
  auto const b = ew::view(right);
  auto const c = ew::in(dcos.data(), rows * width);
  auto const d = ew::in(dsin.data(), rows * width);
  ew::run(s, ew::tie(ew::out(left) = a * c - b * d, ew::out(right) = b * c + a * d));
  std::vector<float> const turned = dx.fetch(s);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < rows * width; ++i) {
    std::size_t const at = i / width * 2 * width + i % width;
    wrong += turned[at] != x[at] * cosines[i] - x[at + width] * sines[i];
    wrong += turned[at + width] != x[at + width] * cosines[i] + x[at] * sines[i];
  }
  CHECK(wrong == 0);
  CHECK(dx.intact(s));

  // Channels of pixels, each from a plane of its own, and one from two of them.
  std::size_t const pixels = 999;
  std::vector<std::uint8_t> const plane = small_integers<std::uint8_t>(pixels, 9, 84);
  guarded<std::uint8_t> dplane{plane, 0};
  guarded<std::uint8_t> dpixels{pixels * 4, 0};
  auto const picture = ew::array(dpixels.data(), {pixels, 4});
  auto const p = ew::in(dplane.data(), pixels);
  ew::run(s, ew::tie(ew::out(picture.sliced(1, 0, 1)) = p, ew::out(picture.sliced(1, 2, 3)) = p + 1,
                     ew::out(picture.sliced(1, 3, 4)) = p + 2));
  ew::run(s, ew::out(picture.sliced(1, 1, 2)) =
                 ew::view(picture.sliced(1, 0, 1)) + ew::view(picture.sliced(1, 3, 4)));
  std::vector<std::uint8_t> const got = dpixels.fetch(s);
  wrong = 0;
  for (std::size_t i = 0; i < pixels; ++i) {
    wrong += got[4 * i] != plane[i] || got[4 * i + 2] != plane[i] + 1 ||
             got[4 * i + 3] != plane[i] + 2 || got[4 * i + 1] != 2 * plane[i] + 2;
  }
  CHECK(wrong == 0);
  CHECK(dpixels.intact(s));
}

TEST_CASE("a strided output without gaps is an output like any other") {
  ww::stream s;
  auto const x = small_integers<float>(1000, 100, 8);
  guarded<float> y{x, 1};
  ew::run(s, ew::out(ew::array(y.data(), {10, 1, 100})) = ew::in(y.data(), 1000) + 1);
  auto const got = y.fetch(s);
  CHECK(y.intact(s));
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < 1000; ++i) wrong += got[i] != x[i] + 1;
  CHECK(wrong == 0);
  auto const* const p = reinterpret_cast<float const*>(0x10000);
  auto* const q = reinterpret_cast<float*>(0x20000);
  CHECK(ew::plan(ew::out(ew::array(q, {10, 100})) = ew::in(p, 1000)).explain() ==
        ew::plan(ew::out(q, 1000) = ew::in(p, 1000)).explain());
  CHECK(ew::plan(ew::out(ew::array(q + 1, {10, 100})) = ew::in(p + 1, 1000)).explain() ==
        ew::plan(ew::out(q + 1, 1000) = ew::in(p + 1, 1000)).explain());
  for (int const odd : {0, 1}) {  // only the output is misaligned, or both inputs equally
    CHECK(ew::plan(ew::out(ew::array(q + 1 - odd, {10, 100})) =
                       ew::in(p + odd, 1000) + ew::in(p + 1000 + odd, 1000))
              .explain() == ew::plan(ew::out(q + 1 - odd, 1000) =
                                         ew::in(p + odd, 1000) + ew::in(p + 1000 + odd, 1000))
                                .explain());
  }
}

TEST_CASE("a strided output that suits vectors keeps them, whatever the inputs ask for") {
  auto const* const x = reinterpret_cast<float const*>(0x10000000);
  auto* const y = reinterpret_cast<float*>(0x40000000);
  std::size_t const n = std::size_t{1024} * 1024;
  ew::kernel_plan const p = ew::plan(ew::out(ew::array(y, {1024, 1024}, {1088, 1})) =
                                         ew::in(x + 1, n) + ew::in(x + n + 1, n));
  CHECK(p.vector_elements() == 4);
  CHECK(p.head_elements() == 0);
  CHECK((p.array(0).wide && !p.array(1).wide && !p.array(2).wide));
}

TEST_CASE("a misaligned output without gaps is narrowed alone, by tiles, too") {
  ww::stream s;
  std::size_t const side = 128;
  std::size_t const n = side * side;
  auto const x = small_integers<float>(n, 100, 9);
  guarded<float> const dx{x, 0};
  guarded<float> const y{n, 1}, plain{n, 1};
  auto const expression = ew::view(dx.data(), {side, side}, {1, 128}) * 2 + ew::in(dx.data(), n);
  ew::run(s, ew::out(ew::array(y.data(), {side, side})) = expression);
  ew::run(s, ew::out(plain.data(), n) = expression);
  CHECK(y.fetch(s) == plain.fetch(s));
  CHECK((y.intact(s) && plain.intact(s)));
  ew::kernel_plan const p = ew::plan(ew::out(ew::array(y.data(), {side, side})) = expression);
  CHECK(p.tile_columns() != 0);
  CHECK(p.vector_elements() == 4);
}

TEST_CASE("plans of strided outputs, in words") {
  auto* const y = reinterpret_cast<float*>(0x40000000);
  auto const* const x = reinterpret_cast<float const*>(0x10000000);
  std::size_t const n = 1024 * 1024;
  // Rows at a pitch go by vectors.
  ew::kernel_plan const rows =
      ew::plan(ew::out(ew::array(y, {1024, 1024}, {1088, 1})) = ew::in(x, n));
  CHECK((rows.array(0).wide && rows.array(1).wide));
  CHECK(std::string{rows.array(0).kind} == "output");
  CHECK((rows.array(0).step == 1 && rows.array(0).run == 1024));
  CHECK(rows.vector_elements() == 4);
  CHECK(rows.bytes_written() == n * 4);
  CHECK(rows.explain().find('\n') == std::string::npos);
  // Short ones go one by one, neighbours by neighbouring threads.
  ew::kernel_plan const slice =
      ew::plan(ew::out(ew::array(y, {1024, 1024, 4}).sliced(2, 0, 3)) = ew::in(x, 3 * n) * 2);
  CHECK(slice.vector_elements() == 1);
  CHECK(slice.vectors_per_thread() == 4);
  CHECK(slice.blocks() == 3 * n / 1024);
  CHECK((!slice.array(0).wide && !slice.array(1).wide));
  CHECK(slice.bytes_written() == 3 * n * 4);
  CHECK_THAT(
      slice.explain(),
      contains("4 vectors of 1 element per thread") &&
          contains("\noutput 1 is accessed element by element: its runs of 3 elements do not "
                   "all start and end at a vector boundary, a multiple of 16 bytes\noperand 1 (in) "
                   "is accessed "
                   "element by element: as a strided output"));
  // A transposing store turns into a transposing load.
  auto const planes = ew::array(y, {16, 256, 256, 4}).permuted({0, 3, 1, 2});
  ew::kernel_plan const turned =
      ew::plan(ew::out(planes) = ew::view(ew::array(x, {16, 4, 256, 256})) * 2);
  ew::kernel_plan const same = ew::plan(
      ew::out(y, 4 * n) = ew::view(ew::array(x, {16, 4, 256, 256}).permuted({0, 2, 3, 1})) * 2);
  CHECK(turned.explain() == same.explain());
  CHECK(turned.array(1).tiled);
  // ... but for operands that go by the element's number.
  CHECK_THAT(ew::plan(ew::out(planes) = ew::in(x, 4 * n)).explain(),
             contains("output 1 is accessed element by element: its neighbours are 4 elements "
                      "apart"));
  CHECK(ew::plan(ew::out(ew::array(y, {0, 3}, {4, 1})) = 1).explain() ==
        "no elements: nothing is launched");
  // Several outputs.
  ew::kernel_plan const two =
      ew::plan(ew::tie(ew::out(ew::array(y, {1024, 1024}, {1088, 1})) = ew::in(x, n),
                       ew::out(y + 2 * n, n) = ew::in(x, n)));
  CHECK((two.array(0).wide && two.array(2).wide && two.array(2).number == 2));
}

TEST_CASE("outputs that do not fit are refused by number, value and remedy") {
  ww::stream s;
  device_array<float> memory{4096};
  float* const p = memory.data();
  float* const y = p + 2048;
  auto const text = [&](auto const& assignment) {
    std::string const words = refusal([&] { ew::run(s, assignment); });
    CHECK(words.find("views_out_test.cpp:") != std::string::npos);
    return words;
  };
  auto const slice = ew::array(y, {8, 16}).sliced(1, 0, 8);
  CHECK_THAT(text(ew::out(slice) = ew::in(p, 63)),
             contains("operand 1 (in) has 63 elements, but the output has 64"));
  CHECK_THAT(text(ew::out(slice) = ew::view(p, {8, 7}, {1, 8})),
             contains("operand 1 (view) has a shape of 56 elements, but the output has 64"));
  float* const null = nullptr;
  CHECK_THAT(text(ew::out(ew::array(null, {8, 8}, {9, 1})) = 1),
             contains("the output is a null pointer for 64 elements"));
  CHECK_THAT(text(ew::out(ew::array(null, {8, 8}).permuted({1, 0})) = 1), contains("null"));
  auto* const odd = reinterpret_cast<float*>(reinterpret_cast<char*>(y) + 2);
  CHECK_THAT(text(ew::out(ew::array(odd, {8, 8}, {9, 1})) = 1),
             contains("not a multiple of its element's 4 bytes"));
  // Overlaps go by the whole stretch of memory, on both sides, but for what lies side by side.
  CHECK_THAT(text(ew::out(slice) = ew::in(y, 64)),
             contains("operand 1 (in) spans 256 bytes that overlap the output's 480, starting 0 "
                      "bytes into it; write to another array, or exactly in place: view() and "
                      "out() of the same strided array"));
  CHECK_THAT(text(ew::out(slice) = ew::in(y + 119, 64)), contains("overlap"));
  CHECK(refusal([&] { ew::run(s, ew::out(slice) = ew::in(y + 120, 64)); }) == "accepted");
  CHECK_THAT(text(ew::out(slice) = ew::view(slice.reversed(1))), contains("overlap"));
  CHECK_THAT(text(ew::out(slice) = ew::view(slice.permuted({1, 0}))), contains("overlap"));
  CHECK_THAT(text(ew::out(slice) = ew::view(y, {8, 8}, {8, 1})), contains("overlap"));
  auto const all = ew::array(y, {8, 16});
  CHECK(refusal([&] { ew::run(s, ew::out(slice) = ew::view(all.sliced(1, 8, 16))); }) ==
        "accepted");
  CHECK_THAT(text(ew::out(slice) = ew::view(all.sliced(1, 7, 15))),
             contains("operand 1 (view) spans 480 bytes that overlap the output's 480, starting 28 "
                      "bytes into it"));
  CHECK_THAT(text(ew::out(slice.reversed(0)) = ew::view(slice)), contains("overlap"));
  CHECK(refusal([&] { ew::run(s, ew::out(slice.reversed(0)) = ew::view(slice.reversed(0))); }) ==
        "accepted");
  auto* const halves = reinterpret_cast<__half*>(y);
  CHECK_THAT(text(ew::out(slice) = ew::view(halves, {8, 8}, {16, 1})), contains("overlap"));
  CHECK_THAT(text(ew::tie(ew::out(slice) = 1, ew::out(y + 119, 64) = 2)),
             contains("output 2 overlaps output 1, starting 476 bytes into it"));
  CHECK_THAT(text(ew::tie(ew::out(slice) = 1, ew::out(p, 63) = 2)),
             contains("output 2 has 63 elements, but output 1 has 64"));
  CHECK_THAT(text(ew::tie(ew::out(p, 64) = 1, ew::out(slice) = ew::in(p + 8, 64))),
             contains("overlap"));
  s.synchronize();
}

TEST_CASE("a shape that no output has is refused by out()") {
  auto* const y = reinterpret_cast<float*>(0x10000);
  int const shape[] = {-1, 3};
  int const strides[] = {3, 1};
  CHECK_THAT(refusal([&] { static_cast<void>(ew::out(y, 2, shape, strides)); }),
             contains("ew::out: dimension 0 has -1 elements"));
}

TEST_CASE("outputs whose elements may coincide are refused where out() is called") {
  float memory[64] = {};
  auto const text = [&](auto call) {
    std::string const words = refusal(call);
    if (words != "accepted") CHECK(words.find("views_out_test.cpp:") != std::string::npos);
    return words;
  };
  auto const of = [&](ew::extent const(&shape)[3], ew::extent const(&strides)[3]) {
    auto const a = ew::array(memory, shape, strides);
    return text([&] { return ew::out(a); });
  };
  CHECK_THAT(of({2, 5, 3}, {3, 0, 1}),
             contains("ew::out: dimension 1 has 5 elements at a stride of 0: all of them are the "
                      "same element"));
  CHECK_THAT(of({2, 5, 3}, {20, 2, 1}),
             contains("ew::out: dimension 1 has 5 elements at a stride of 2, no more than the 2 "
                      "elements that the dimensions of shorter strides span; each stride of an "
                      "output must be longer than that"));
  // 0, 2, 4 and 3, 5, 7: refused though all elements are distinct.
  CHECK_THAT(of({1, 2, 3}, {0, 3, 2}),
             contains("dimension 1 has 2 elements at a stride of 3, no more than the 4 elements"));
  CHECK_THAT(of({2, 5, 3}, {-14, 3, 1}), contains("dimension 0 has 2 elements at a stride of -14"));
  CHECK_THAT(of({2, 3, 3}, {30, 3, -3}), contains("dimension 2 has 3 elements at a stride of -3"));
  CHECK(of({2, 5, 3}, {15, 3, 1}) == "accepted");
  CHECK(of({2, 5, 3}, {-15, 3, -1}) == "accepted");
  CHECK(of({1, 5, 3}, {0, 1, 5}) == "accepted");  // one element may stand anywhere
  CHECK(of({0, 5, 3}, {0, 0, 0}) == "accepted");  // and none, too
  int const shape[] = {2, 4};
  int const strides[] = {0, 1};
  CHECK_THAT(text([&] { return ew::out(memory, 2, shape, strides); }),
             contains("ew::out: dimension 0 has 2 elements at a stride of 0"));
  CHECK_THAT(text([&] { return ew::out(memory, 7, shape, strides); }),
             contains("ew::out: there are 7 dimensions; it takes 0 to 6"));
}

TEST_CASE("an array of const elements can be made of a writable one, and both be read") {
  float values[6] = {1, 2, 3, 4, 5, 6};
  float out[6] = {};
  auto const writable = ew::array(values, {2, 3});
  static_assert(std::is_same<decltype(writable.data()), float*>::value, "stays writable");
  ew::strided_array<float const, 2> const constant = writable.permuted({1, 0});
  static_assert(std::is_same<decltype(constant.data()), float const*>::value, "reads only");
  static_assert(std::is_same<decltype(ew::view(constant)), decltype(ew::view(writable))>::value,
                "one kernel for both");
  static_assert(
      !std::is_convertible<ew::strided_array<float const, 2>, ew::strided_array<float, 2>>::value,
      "not back");
  ew::evaluate_host(ew::out(out, 6) = ew::view(constant));
  CHECK((out[0] == 1 && out[1] == 4 && out[2] == 2 && out[5] == 6));
}

TEST_CASE("no elements, and one") {
  ww::stream s;
  float* const null = nullptr;
  int const zero[] = {0, 5};
  ew::run(s, ew::out(ew::array(null, {0, 5}, {1, 1})) = ew::view(null, {0, 5}, {1, 1}));
  ew::run(s, ew::out(null, 2, zero, zero) = 1);
  guarded<float> y{std::vector<float>{1, 2, 3}, 0};
  auto const three = ew::array(y.data(), {3});
  ew::run(s, ew::out(three.sliced(0, 2, 2)) = 9);
  ew::run(s, ew::out(three.sliced(0, 1, 2)) = ew::view(y.data() + 1, {1, 1}, {3, 5}) * 2);
  ew::run(s, ew::out(y.data() + 2, 0, zero, zero) = 7);
  CHECK(y.fetch(s) == std::vector<float>{1, 4, 7});
  CHECK(y.intact(s));
}

TEST_CASE("evaluate_host writes strided outputs, alone and tied") {
  auto const x = small_integers<float>(1200, 90, 2);
  std::vector<float> y(30 * 64, -1.0F);
  std::vector<float> z(1200);
  auto const part = ew::array(y.data(), {40, 30}, {1, 64});
  ew::evaluate_host(ew::out(part) = ew::in(x.data(), 1200));
  ew::evaluate_host(ew::tie(ew::out(part) += 1, ew::out(z.data(), 1200) = ew::view(part) * 0));
  std::size_t wrong = 0;
  for (std::size_t k = 0; k < y.size(); ++k) {
    wrong += y[k] != (k % 64 < 40 ? x[k % 64 * 30 + k / 64] + 1 : -1);
  }
  CHECK(wrong == 0);
}

TEST_CASE("a graph replays a strided output on new values") {
  ww::stream s;
  std::size_t const rows = 64;
  std::size_t const cols = 96;
  std::size_t const n = rows * cols;
  device_array<float> x{std::vector<float>(n, 1.0F)};
  guarded<float> y{std::vector<float>(n * 2, -5.0F), 0};
  ww::graph_replay graph;
  graph.recapture(s, [&](ww::stream_ref) {
    ew::run(s, ew::out(ew::array(y.data(), {cols, rows, 2}).sliced(2, 1, 2).permuted({1, 0, 2})) =
                   ew::view(ew::array(x.data(), {rows, cols, 1})) * 3);
  });
  CHECK(graph.node_counts().total() == 1);
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<float>(i);
  ww::check(
      cudaMemcpyAsync(x.data(), values.data(), n * sizeof(float), cudaMemcpyHostToDevice, s.get()),
      "cudaMemcpyAsync");
  graph.launch(s);
  auto const got = y.fetch(s);
  CHECK(y.intact(s));
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < n; ++i) {
    std::size_t const place = i % cols * rows + i / cols;
    wrong += got[place * 2] != -5 || got[place * 2 + 1] != 3 * static_cast<float>(i);
  }
  CHECK(wrong == 0);
}

#if WARPWRIGHT_HOST_RUNTIME

TEST_CASE("a strided output costs one CUDA call, and its failure is the caller's to see") {
  ww::stream s;
  device_array<float> x{4096};
  device_array<float> y{8192};
  auto const target = ew::out(ew::array(y.data(), {64, 128}).sliced(1, 0, 64));
  auto const read = ew::view(ew::array(x.data(), {64, 64}));
  std::uint64_t const before = ww::testing::total_calls();
  ew::run(s, target = read);
  CHECK(ww::testing::total_calls() == before + 1);
  ww::testing::fault_plan const plan =
      ww::testing::fault_plan{}.fail("cudaLaunchKernel", 1, cudaErrorLaunchOutOfResources);
  ww::testing::scoped_fault_plan const active{plan};
  try {
    ew::run(s, target = read);
    FAIL("the launch was to fail");
  } catch (ww::cuda_error const& error) {
    CHECK(error.code() == cudaErrorLaunchOutOfResources);
    CHECK_THAT(error.what(), contains("views_out_test.cpp"));
  }
  CHECK(active.hits() == 1);
}

#endif
