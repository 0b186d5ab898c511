// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// How run() writes strided outputs: by tiles, by vectors or by single elements, the order of
// evaluation, and the alignment that every store of a vector requires.

#include <warpwright/kernel.hpp>
#include <warpwright/kernel/views.hpp>

#include "kernel/layouts.hpp"
#include "kernel/support.hpp"
#include "kernel/tile_selection.hpp"
#include "support/catch.hpp"

namespace ew = warpwright::ew;
using kernel_test::arranged;
using kernel_test::as_double;
using kernel_test::guarded;
using kernel_test::layout;
using kernel_test::random_layout;
using kernel_test::random_numbers;
using kernel_test::small_integers;

namespace {

float as_float(__half x) { return static_cast<float>(as_double(x)); }

// How many launches went by each.
struct launch_counts {
  int tiled = 0;
  int by_vectors = 0;
  int scalar_only = 0;
};

// A vector is stored by one access: its elements must be contiguous and aligned to its bytes, which
// the host does not enforce.
template <class Bits, int Rank>
bool suits_vectors(ew::detail::strided_destination<Bits, Rank> const& to, std::uint64_t first,
                   std::uint64_t vectors, unsigned vector, unsigned aligned_bytes) {
  for (std::uint64_t v = 0; v < vectors; ++v) {
    ew::detail::strided_position const at = to.map.find(first + v * vector);
    bool const contiguous = to.map.of[0].stride == 1 && at.left >= vector;
    auto const address = reinterpret_cast<std::uintptr_t>(to.data + at.offset);
    if (!contiguous || address % aligned_bytes != 0) return false;
  }
  return true;
}

// Evaluates an assignment, and checks the alignment of its stores.
template <class T, int Rank, class E>
void run_checked(warpwright::stream_ref stream, ew::strided_assignment<T, Rank, E> const& given,
                 launch_counts& counts) {
  ew::run(stream, given);
  auto const a = given.in_memory_order();
  using fused = ew::detail::fused<ew::strided_assignment<T, Rank, E>>;
  ew::detail::operand all[fused::operands];
  fused::describe(all, warpwright::source_location::current(), a);
  if constexpr (ew::detail::holds_view<E>) {
    if (kernel_test::is_tiled(given)) {
      ++counts.tiled;
      ew::detail::tile_partition const tiles = kernel_test::selection_of(a).tiles;
      if (tiles.vectors && fused::vector > 1 && (tiles.wide & 1U) != 0) {
        REQUIRE(
            suits_vectors(a.data, 0, a.size / fused::vector, fused::vector, all[0].aligned_bytes));
      }
      return;
    }
  }
  ew::detail::vector_partition const partition =
      ew::detail::plan_operands(fused::types, all).partition;
  ++(partition.scalar_only ? counts.scalar_only : counts.by_vectors);
  if (partition.scalar_only) {
    REQUIRE((partition.vectors == a.size && partition.head == 0 && partition.edge == 0));
  } else if (fused::vector > 1 && (partition.wide & 1U) == 0) {
    REQUIRE(all[0].kind ==
            ew::detail::access_pattern::elements);  // without gaps, it is narrowed alone
  } else if (fused::vector > 1) {
    REQUIRE(suits_vectors(a.data, partition.head, partition.vectors, fused::vector,
                          all[0].aligned_bytes));
  }
}

// Two to four dimensions, two of them of a tile's size.
layout thick_shape(random_numbers& random) {
  layout l;
  l.rank = 2 + static_cast<int>(random.below(3));
  for (int k = 0; k < l.rank; ++k) l.shape[k] = static_cast<std::int64_t>(1 + random.below(3));
  int const first = static_cast<int>(random.below(static_cast<std::size_t>(l.rank)));
  int const second = (first + 1) % l.rank;
  l.shape[first] = static_cast<std::int64_t>(4 * (10 + random.below(20)) + random.below(2));
  l.shape[second] = static_cast<std::int64_t>(4 * (10 + random.below(20)) + random.below(2));
  return l;
}

template <class O, class X>
launch_counts check_random(std::uint64_t seed, int rounds, bool thick) {
  INFO("seed " << seed);
  launch_counts counts;
  warpwright::stream stream;
  random_numbers random{seed};
  for (int round = 0; round < rounds; ++round) {
    layout const to =
        arranged(random, thick ? thick_shape(random) : random_layout(random, 1500), false);
    layout const from = arranged(random, to, true);
    std::size_t const n = to.elements;
    auto const x = small_integers<X>(from.span, 20, random.next());
    auto const y = small_integers<X>(n, 20, random.next());
    auto const before = small_integers<O>(to.span, 99, random.next());
    bool const aligned = round % 2 == 0;
    guarded<X> px{x, aligned ? 0 : random.below(16)};
    guarded<X> py{y, aligned ? 0 : random.below(16)};
    CAPTURE(round, n, to.rank, to.first, from.first);
    auto const check = [&](int kind) {
      guarded<O> out{before, aligned ? 0 : random.below(16)};
      auto const view = ew::view(px.data() + from.first, from.rank, from.shape, from.strides);
      auto const in = ew::in(py.data(), n);
      auto const target = ew::out(out.data() + to.first, to.rank, to.shape, to.strides);
      if (kind == 0) run_checked(stream, target = view + 1, counts);
      if (kind == 1) run_checked(stream, target = view + ew::index() % 3, counts);
      if (kind == 2) run_checked(stream, target = in + 1, counts);
      std::vector<double> expected(before.size());
      for (std::size_t k = 0; k < before.size(); ++k) expected[k] = as_double(before[k]);
      for (std::size_t i = 0; i < n; ++i) {
        double const read = as_double(kind == 2 ? y[i] : x[from.at(i)]);
        expected[to.at(i)] = read + static_cast<double>(kind == 1 ? i % 3 : 1);
      }
      auto const got = out.fetch(stream);
      std::size_t wrong = 0;
      for (std::size_t k = 0; k < before.size(); ++k) {
        wrong += as_double(got[k]) != expected[k];
      }
      REQUIRE(wrong == 0);
      REQUIRE((out.intact(stream) && px.intact(stream) && py.intact(stream)));
    };
    check(0);
    check(1);
    check(2);
  }
  return counts;
}

template <class O, class X>
void check_all(std::uint64_t seed) {
  launch_counts const thin = check_random<O, X>(seed, 100, false);
  launch_counts const thick = check_random<O, X>(seed + 1, 40, true);
  CHECK(thick.tiled > 2);
  CHECK(thin.by_vectors + thick.by_vectors > 20);
  CHECK(thin.scalar_only + thick.scalar_only > 20);
}

// Every slice of a matrix by columns; answers whether the rows went by vectors.
template <class T>
bool wide_slice(std::size_t pitch, std::size_t begin, std::size_t end, std::size_t offset) {
  std::size_t const rows = 9;
  std::size_t const n = rows * (end - begin);
  auto const x = small_integers<T>(n, 99, 3);
  auto const before = small_integers<T>(rows * pitch, 99, 4);
  guarded<T> px{x, 0};
  guarded<T> out{before, offset};
  launch_counts counts;
  warpwright::stream stream;
  run_checked(
      stream,
      ew::out(ew::array(out.data(), {rows, pitch}).sliced(1, begin, end)) = ew::in(px.data(), n),
      counts);
  auto const got = out.fetch(stream);
  std::size_t wrong = 0;
  for (std::size_t k = 0; k < rows * pitch; ++k) {
    std::size_t const c = k % pitch;
    bool const named = c >= begin && c < end;
    T const expected = named ? x[k / pitch * (end - begin) + c - begin] : before[k];
    wrong += as_double(got[k]) != as_double(expected);
  }
  REQUIRE(wrong == 0);
  REQUIRE((out.intact(stream) && px.intact(stream)));
  return counts.by_vectors == 1;
}

}  // namespace

TEST_CASE("random strided outputs of types of one kind and mixed") {
  check_all<float, float>(81);
  check_all<unsigned char, double>(91);
#if WARPWRIGHT_TEST_EVERY_TYPE
  check_all<__half, __half>(83);
  check_all<double, float>(85);
  check_all<unsigned char, unsigned char>(87);
  check_all<__half, unsigned char>(89);
#endif
}

TEST_CASE("slices go by vectors where every run of theirs suits") {
  for (std::size_t pitch = 1; pitch < 21; ++pitch) {
    for (std::size_t begin = 0; begin < pitch; ++begin) {
      for (std::size_t end = begin + 1; end <= pitch; ++end) {
        CAPTURE(pitch, begin, end);
        bool const whole = end - begin == pitch;
        bool const suits = pitch % 4 == 0 && begin % 4 == 0 && end % 4 == 0;
        REQUIRE(wide_slice<float>(pitch, begin, end, 0) == (suits || whole));
        REQUIRE(wide_slice<float>(pitch, begin, end, 1) ==
                (whole || (pitch % 4 == 0 && begin % 4 == 3 && end % 4 == 3)));
      }
    }
  }
  CHECK(wide_slice<unsigned char>(64, 16, 48, 0));
  CHECK(!wide_slice<unsigned char>(64, 8, 48, 0));
  CHECK(!wide_slice<unsigned char>(63, 16, 48, 0));
  CHECK(wide_slice<__half>(64, 8, 48, 0));
  CHECK(wide_slice<double>(64, 2, 48, 0));
}

TEST_CASE("a transposing store is made a transposing load of tiles") {
  launch_counts counts;
  warpwright::stream stream;
  std::size_t const rows = 96;
  std::size_t const cols = 130;
  auto const x = small_integers<float>(rows * cols, 99, 5);
  guarded<float> px{x, 0};
  guarded<float> out{rows * cols, 0};
  run_checked(stream,
              ew::out(ew::array(out.data(), {cols, rows}).permuted({1, 0})) =
                  ew::view(ew::array(px.data(), {rows, cols})),
              counts);
  CHECK(counts.tiled == 1);
  auto const got = out.fetch(stream);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < rows * cols; ++i) {
    wrong += got[i % cols * rows + i / cols] != x[i];
  }
  CHECK(wrong == 0);
  CHECK(out.intact(stream));
}

TEST_CASE("transposing loads into slices: tiles that store by vectors, and scalar_only") {
  launch_counts counts;
  warpwright::stream stream;
  for (std::size_t const rows : {31U, 32U, 64U, 65U, 100U}) {
    for (std::size_t const cols : {33U, 36U, 64U, 128U, 130U}) {
      for (std::size_t const gap : {1U, 4U, 16U}) {
        CAPTURE(rows, cols, gap);
        std::size_t const pitch = cols + gap;
        auto const x = small_integers<__half>(rows * cols, 99, 5);
        auto const before = small_integers<float>(3 * rows * pitch, 99, 6);
        guarded<__half> px{x, 0};
        guarded<float> out{before, 0};
        // All three parts of the output are of the same matrix.
        auto const read = ew::view(px.data(), {std::size_t{3}, rows, cols}, {0, 1, rows});
        run_checked(
            stream,
            ew::out(ew::array(out.data(), {std::size_t{3}, rows, pitch}).sliced(2, 0, cols)) =
                read + ew::index() % 7,
            counts);
        auto const got = out.fetch(stream);
        std::size_t wrong = 0;
        for (std::size_t k = 0; k < before.size(); ++k) {
          std::size_t const r = k / pitch;
          std::size_t const c = k % pitch;
          float const value =
              c < cols ? as_float(x[c * rows + r % rows]) + static_cast<float>((r * cols + c) % 7)
                       : before[k];
          wrong += got[k] != value;
        }
        REQUIRE(wrong == 0);
        REQUIRE(out.intact(stream));
      }
    }
  }
  CHECK(counts.tiled > 30);
}

TEST_CASE("tiles in place of a transposed output") {
  launch_counts counts;
  warpwright::stream stream;
  std::size_t const rows = 90;
  std::size_t const cols = 70;
  auto const y = small_integers<float>(rows * cols, 99, 5);
  auto const x = small_integers<float>(rows * cols, 99, 6);
  guarded<float> px{x, 0};
  guarded<float> out{y, 0};
  run_checked(stream,
              ew::out(ew::array(out.data(), {rows, cols}).permuted({1, 0})) +=
              ew::in(px.data(), rows * cols),
              counts);
  CHECK(counts.tiled == 1);
  auto const got = out.fetch(stream);
  std::size_t wrong = 0;
  for (std::size_t k = 0; k < rows * cols; ++k) {
    wrong += got[k] != y[k] + x[k % cols * rows + k / cols];
  }
  CHECK(wrong == 0);
  CHECK(out.intact(stream));
}

TEST_CASE("elements are counts in the order of an output's memory, if every view can be cut so") {
  float y[64] = {};
  float x[64] = {};
  auto const place = [&](auto const& a) { return a.in_memory_order().data.map.contiguous(); };
  auto const turned = ew::out(ew::array(y, {4, 16}).permuted({1, 0}));
  CHECK(place(turned = ew::view(ew::array(x, {16, 4}))));
  CHECK(place(turned = ew::view(ew::array(x, {4, 4, 2, 2})) + 1));
  CHECK(place(turned = 1));
  CHECK(place(turned = ew::device_scalar(x)));
  CHECK(place(ew::out(ew::array(y, {4, 16}).reversed(0).reversed(1)) =
                  ew::compute_as<double>(ew::view(ew::array(x, {8, 8})))));
  CHECK(!place(turned = ew::view(ew::array(x, {64}))));  // one dimension has no room for two
  CHECK(!place(turned = ew::view(ew::array(x, {16, 4})) + ew::view(ew::array(x, {64}))));
  CHECK(!place(turned = ew::in(x, 64)));
  CHECK(!place(turned = ew::view(ew::array(x, {16, 4})) + ew::index()));
  CHECK(!place(turned = ew::view(ew::array(x, {16, 4})) + ew::row(x, 4)));
  CHECK(!place(turned = ew::view(ew::array(x, {16, 3}))));  // refused by run()
  float z[36] = {};
  CHECK(!place(ew::out(ew::array(z, {9, 4}).permuted({1, 0})) =
                   ew::view(x, {6, 6}, {7, 1})));  // 6 and 9 do not divide
  // Without an order of their own they stay as they are.
  auto const plain = ew::out(ew::array(y, {4, 16})) = ew::view(ew::array(x, {64}).reversed(0));
  CHECK(plain.in_memory_order().expression.map.of[0].stride == -1);
}
