// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The kernel's own work, vectors and all, thread by thread on the host: a grid without a GPU.

#include <warpwright/kernel.hpp>

#include "kernel/support.hpp"
#include "kernel/sweep.hpp"
#include "support/catch.hpp"

namespace ew = warpwright::ew;
using kernel_test::as_double;
using kernel_test::evaluate;
using kernel_test::guarded;
using kernel_test::small_integers;

namespace {

template <class O, class X, class Y>
void check_types() {
  std::uint64_t const seed = 31;
  INFO("seed " << seed);
  kernel_test::random_numbers random{seed};
  for (int k = 0; k < kernel_test::rounds(120); ++k) {
    std::size_t const n = 1 + random.below(k % 8 == 0 ? 70000 : 300);
    bool const same = k % 3 == 0;
    std::size_t const at_o = random.below(16);
    std::size_t const at_x = same ? at_o : random.below(16);
    std::size_t const at_y = same ? at_o : random.below(16);
    std::size_t const rows = 1 + random.below(9);
    std::size_t const cols = n;
    CAPTURE(n, rows, at_o, at_x, at_y);
    auto const x = small_integers<X>(n * rows, 30, random.next());
    auto const y = small_integers<Y>(n * rows, 30, random.next());
    auto const row = small_integers<float>(cols, 9, random.next());
    auto const col = small_integers<__half>(rows, 9, random.next());
    guarded<X> px{x, at_x};
    guarded<Y> py{y, at_y};
    guarded<O> out{std::vector<O>(n * rows), at_o};
    evaluate(ew::out(out.data(), n * rows) =
                 ew::in(px.data(), n * rows) * 2 + ew::in(py.data(), n * rows));
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < n * rows; ++i) {
      if (as_double(out.data()[i]) != as_double(x[i]) * 2 + as_double(y[i])) ++wrong;
    }
    REQUIRE(wrong == 0);
    guarded<float> prow{row, random.below(4)};
    guarded<__half> pcol{col, random.below(4)};
    evaluate(ew::out(out.data(), n * rows) =
                 ew::in(px.data(), n * rows) +
                 ew::row(prow.data(), cols) * ew::col(pcol.data(), cols) + ew::index() % 3);
    for (std::size_t i = 0; i < n * rows; ++i) {
      double const expected = as_double(x[i]) +
                              as_double(row[i % cols]) * as_double(col[i / cols]) +
                              static_cast<double>(i % 3);
      if (as_double(out.data()[i]) != expected) ++wrong;
    }
    REQUIRE(wrong == 0);
    REQUIRE((out.intact() && px.intact() && py.intact()));
    // Two outputs, the second in place of x where that is of the same size.
    evaluate(
        ew::out(out.data(), n * rows) = ew::in(py.data(), n * rows) + 1,
        ew::out(px.data(), n * rows) = ew::in(px.data(), n * rows) + ew::in(py.data(), n * rows));
    for (std::size_t i = 0; i < n * rows; ++i) {
      if (as_double(out.data()[i]) != as_double(y[i]) + 1) ++wrong;
      if (as_double(px.data()[i]) != as_double(x[i]) + as_double(y[i])) ++wrong;
    }
    REQUIRE(wrong == 0);
    REQUIRE((out.intact() && px.intact() && py.intact()));
  }
}

}  // namespace

TEST_CASE("a grid of vectors writes what a loop does, for types of one kind and mixed") {
  check_types<float, float, float>();
  check_types<unsigned char, unsigned char, unsigned char>();
  check_types<__half, float, unsigned char>();
  check_types<unsigned char, double, signed char>();
  check_types<std::int64_t, std::int32_t, std::int16_t>();
#if WARPWRIGHT_TEST_EVERY_TYPE
  check_types<__half, __half, __half>();
  check_types<__nv_bfloat16, __nv_bfloat16, __nv_bfloat16>();
  check_types<double, double, double>();
  check_types<short, short, short>();
  check_types<float, __half, __nv_bfloat16>();
  check_types<double, unsigned char, float>();
#endif
}
