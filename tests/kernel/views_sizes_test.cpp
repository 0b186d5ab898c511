// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Views and strided outputs of numbers of elements around vectors and warps, up to 4,096:
// transpositions of every number of columns for several of rows, steps of one dimension, and such
// as run backwards. Outputs are poisoned, with guards on both sides, and memory between their
// elements must stay so.

#include <warpwright/kernel.hpp>
#include <warpwright/kernel/views.hpp>

#include "kernel/support.hpp"
#include "kernel/sweep.hpp"
#include "kernel/tile_selection.hpp"
#include "support/catch.hpp"

namespace ew = warpwright::ew;
namespace ww = warpwright;
using kernel_test::as_double;
using kernel_test::first_of;
using kernel_test::guarded;
using kernel_test::most_size;
using kernel_test::next_size;
using kernel_test::number;
using kernel_test::some_offsets;

namespace {

// The offsets in memory of n elements of a shape, all below `span`.
struct offsets {
  std::vector<std::size_t> of;
  std::size_t span = 0;
  void add(std::size_t offset) {
    of.push_back(offset);
    if (span <= offset) span = offset + 1;
  }
};

// An operand and an output, each in memory with guards on both sides.
template <class T>
class guarded_pair {
 public:
  explicit guarded_pair(std::size_t most)
      : values_{kernel_test::small_integers<T>(most, 99, seed)}, in_{most}, out_{most} {}

  static constexpr std::uint64_t seed = 141;

  /// Checks an assignment that adds 1.
  /// @param make  the assignment to `to` from `from`, a T* and a T const*
  template <class Make>
  void check(offsets const& to, offsets const& from, Make make) {
    some_offsets<2> const at{++calls_, random_};
    std::vector<T> const operand = first_of(values_, from.span);
    std::vector<T> expected(to.span, guarded<T>::poisoned_element());
    for (std::size_t i = 0; i < to.of.size(); ++i) {
      expected[to.of[i]] = number<T>(as_double(operand[from.of[i]]) + 1);
    }
    CAPTURE(at.of[0], at.of[1]);
    T const* const x = in_.assign(operand, at.of[0]);
    T* const y = out_.clear(at.of[1]);
    auto const a = make(y, x);
    ew::run(stream_, a);
    stream_.synchronize();
    tiled_ += !to.of.empty() && kernel_test::is_tiled(a) ? 1 : 0;
    REQUIRE(out_.holds(expected));
    REQUIRE(in_.holds(operand));
  }
  [[nodiscard]] std::size_t tiled() const { return tiled_; }

 private:
  std::vector<T> values_;
  guarded<T> in_, out_;
  kernel_test::random_numbers random_{seed};
  std::size_t calls_ = 0;
  std::size_t tiled_ = 0;
  ww::stream stream_;
};

// One dimension: every `step`-th element, from the first or from the last.
struct line {
  std::size_t step;
  bool backwards;

  [[nodiscard]] offsets offsets_of(std::size_t n) const {
    offsets p;
    for (std::size_t i = 0; i < n; ++i) p.add((backwards ? n - 1 - i : i) * step);
    return p;
  }
  template <class T>
  auto array(T* data, std::size_t n) const {
    std::size_t const span = n == 0 ? 0 : (n - 1) * step + 1;
    auto const forwards = ew::array(data, {span}).sliced(0, 0, span, step);
    return backwards ? forwards.reversed(0) : forwards;
  }
};

template <class T>
void check_lines() {
  std::size_t const longest = 3;
  guarded_pair<T> arrays{longest * most_size};
  INFO("seed " << arrays.seed);
  line const plain{1, false}, second{2, false}, reversed{1, true}, third{longest, true};
  for (std::size_t n = 0; n <= most_size; n = next_size(n)) {
    for (line const from : {second, reversed, third}) {
      CAPTURE(n, from.step, from.backwards);
      arrays.check(plain.offsets_of(n), from.offsets_of(n), [&](T* y, T const* x) {
        return ew::out(y, n) = ew::view(from.array(x, n)) + 1;
      });
    }
    line const pairs[][2] = {{second, plain}, {reversed, plain}, {third, second}, {plain, third}};
    for (auto const& [to, from] : pairs) {
      CAPTURE(n, to.step, to.backwards, from.step, from.backwards);
      arrays.check(to.offsets_of(n), from.offsets_of(n),
                   [&, to = to, from = from](T* y, T const* x) {
                     return ew::out(to.array(y, n)) = ew::view(from.array(x, n)) + 1;
                   });
    }
  }
}

// Element i of rows by cols, each row `pitch` elements behind the one before.
offsets matrix(std::size_t rows, std::size_t cols, std::size_t pitch) {
  offsets p;
  for (std::size_t i = 0; i < rows * cols; ++i) p.add(i / cols * pitch + i % cols);
  return p;
}
// The same elements by columns.
offsets transposed(std::size_t rows, std::size_t cols) {
  offsets p;
  for (std::size_t i = 0; i < rows * cols; ++i) p.add(i % rows * cols + i / rows);
  return p;
}

template <class T>
void check_matrices() {
  std::size_t const most_rows = 128;
  std::size_t const most_gap = 16;
  std::size_t const most_elements = 4096;
  guarded_pair<T> arrays{2 * most_elements + most_rows * most_gap};
  INFO("seed " << arrays.seed);
  for (std::size_t const rows : {1U, 2U, 3U, 4U, 7U, 8U, 16U, 31U, 32U, 33U, 64U, 65U, 128U}) {
    // Less than 4,096 bytes go by no tiles.
    std::size_t const most = sizeof(T) == 1 && rows > 30 ? 2 * most_elements : most_elements;
    for (std::size_t cols = 0; rows * cols <= most; cols = next_size(cols)) {
      std::size_t const n = rows * cols;
      CAPTURE(rows, cols);
      arrays.check(matrix(1, n, n), transposed(rows, cols), [&](T* y, T const* x) {
        return ew::out(y, n) = ew::view(ew::array(x, {rows, cols}).permuted({1, 0})) + 1;
      });
      arrays.check(transposed(rows, cols), matrix(1, n, n), [&](T* y, T const* x) {
        auto const to = ew::array(y, {rows, cols}).permuted({1, 0});
        return ew::out(to) = ew::view(ew::array(x, {cols, rows})) + 1;
      });
      // With gaps behind the rows, of which one suits vectors.
      std::size_t const pitch = rows % 2 == 0 ? cols + most_gap - cols % most_gap : cols + 3;
      arrays.check(matrix(rows, cols, pitch), matrix(rows, cols, cols + 1), [&](T* y, T const* x) {
        auto const to = ew::array(y, {rows, pitch}).sliced(1, 0, cols);
        auto const from = ew::array(x, {rows, cols + 1}).sliced(1, 0, cols);
        return ew::out(to) = ew::view(from) + 1;
      });
    }
  }
  CHECK(arrays.tiled() > 100);
}

}  // namespace

TEST_CASE("steps and reversals of lengths from 0 to 4096") {
  check_lines<float>();
  check_lines<unsigned char>();
}
TEST_CASE("transpositions and pitches of numbers of columns up to 4096 elements: float") {
  check_matrices<float>();
}
TEST_CASE("transpositions and pitches of numbers of columns up to 4096 elements: __half") {
  check_matrices<__half>();
}
TEST_CASE("transpositions and pitches of numbers of columns up to 4096 elements: bytes") {
  check_matrices<unsigned char>();
}
