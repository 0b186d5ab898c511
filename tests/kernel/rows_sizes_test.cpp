// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// softmax(), layer_norm() and rms_norm() of numbers of columns from 0 to 4,096, those around
// vectors and warps, within the bounds that rows.hpp states. Outputs are poisoned, with guards on
// both sides.
#include "kernel/rows_support.hpp"

#include "kernel/sweep.hpp"
#include "support/catch.hpp"

namespace ew = warpwright::ew;
namespace ww = warpwright;
using kernel_test::first_of;
using kernel_test::function;
using kernel_test::guarded;
using kernel_test::most_size;
using kernel_test::some_offsets;
using kernel_test::test_eps;

namespace {

template <function F, class E>
auto made_of(E const& e) {
  if constexpr (F == function::softmax) return ew::softmax(e);
  if constexpr (F == function::layer_norm) return ew::layer_norm(e, test_eps);
  if constexpr (F == function::rms_norm) return ew::rms_norm(e, test_eps);
}

template <function F, class T>
void check_sizes() {
  std::uint64_t const seed = 131;
  INFO("seed " << seed);
  kernel_test::random_numbers random{seed};
  std::size_t const most_rows = 3;
  auto const x = kernel_test::random_values<T>(most_rows * most_size, -4, 8, random.next());
  auto const exact = kernel_test::as_doubles(x);
  guarded<T> const in{x.size()}, out{x.size()};
  ww::stream s;
  for (std::size_t cols = 0; cols <= most_size; cols = kernel_test::next_size(cols)) {
    std::size_t const rows = 1 + cols / 2 % most_rows;
    std::size_t const n = rows * cols;
    some_offsets<2> const at{cols, random};
    CAPTURE(rows, cols, at.of[0], at.of[1]);
    auto const values = first_of(x, n);
    T const* const from = in.assign(values, at.of[0]);
    T* const to = out.clear(at.of[1]);
    ew::run_rows(s, {rows, cols}, ew::out(to, n) = made_of<F>(ew::in(from, n)));
    s.synchronize();
    std::vector<T> const got(to, to + n);
    REQUIRE(kernel_test::wrong_elements<float>(F, got, first_of(exact, n), cols) == 0);
    REQUIRE((out.intact(n) && in.holds(values)));
  }
}

}  // namespace

TEST_CASE("rows of lengths around vectors and warps: softmax") {
  check_sizes<function::softmax, float>();
  check_sizes<function::softmax, __half>();
}
TEST_CASE("rows of lengths around vectors and warps: layer_norm") {
  check_sizes<function::layer_norm, float>();
  check_sizes<function::layer_norm, __half>();
}
TEST_CASE("rows of lengths around vectors and warps: rms_norm") {
  check_sizes<function::rms_norm, float>();
  check_sizes<function::rms_norm, __half>();
}
