// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Several outputs of one kernel. The values are small integers, so that results are exact.

#include <warpwright/kernel.hpp>

#include <stdexcept>
#include <string>

#include "kernel/support.hpp"
#include "kernel/sweep.hpp"
#include "support/catch.hpp"

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/host_runtime.hpp>
#endif

namespace ew = warpwright::ew;
namespace ww = warpwright;
using kernel_test::as_double;
using kernel_test::guarded;
using kernel_test::most_offset;
using kernel_test::random_numbers;
using kernel_test::small_integers;

namespace {

// Sum and difference of two types into two others, at every offset that a seed gives.
template <class P, class Q, class X, class Y>
void check_types() {
  ww::stream s;
  std::uint64_t const seed = 71;
  INFO("seed " << seed);
  random_numbers random{seed};
  for (int round = 0; round < 60; ++round) {
    std::size_t const n = round < 40 ? random.below(300) : random.below(40000);
    bool const same = round % 3 == 0;
    std::size_t const at = random.below(16);
    auto const offset = [&] { return same ? at : random.below(16); };
    auto const x = small_integers<X>(n, 60, random.next());
    auto const y = small_integers<Y>(n, 40, random.next());
    guarded<X> const dx{x, offset()};
    guarded<Y> const dy{y, offset()};
    guarded<P> const p{n, offset()};
    guarded<Q> const q{n, offset()};
    ew::run(s, ew::tie(ew::out(p.data(), n) = ew::in(dx.data(), n) + ew::in(dy.data(), n),
                       ew::out(q.data(), n) = 100 + ew::in(dx.data(), n) - ew::in(dy.data(), n)));
    auto const sum = p.fetch(s);
    auto const difference = q.fetch(s);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < n; ++i) {
      if (as_double(sum[i]) != as_double(x[i]) + as_double(y[i])) ++wrong;
      if (as_double(difference[i]) != 100 + as_double(x[i]) - as_double(y[i])) ++wrong;
    }
    CAPTURE(n);
    REQUIRE(wrong == 0);
    REQUIRE((p.intact(s) && q.intact(s) && dx.intact(s) && dy.intact(s)));
  }
}

// The same sum and difference with each of the four arrays at every offset alone, the outputs
// at the same offset, the operands at the same, and all at the same.
template <class P, class Q, class X, class Y>
void check_offsets() {
  std::size_t const most = 1025;
  ww::stream s;
  guarded<P> const p{most};
  guarded<Q> const q{most};
  guarded<X> const rx{most};
  guarded<Y> const ry{most};
  for (std::size_t const n : {1U, 15U, 33U, 256U, 1000U, 1025U}) {
    auto const x = small_integers<X>(n, 60, n);
    auto const y = small_integers<Y>(n, 40, n + 1);
    std::vector<P> sum;
    std::vector<Q> difference;
    for (std::size_t i = 0; i < n; ++i) {
      sum.push_back(kernel_test::number<P>(as_double(x[i]) + as_double(y[i])));
      difference.push_back(kernel_test::number<Q>(100 + as_double(x[i]) - as_double(y[i])));
    }
    for (std::size_t offset = 0; offset < most_offset; offset += kernel_test::offset_step) {
      for (unsigned const which : {1U, 2U, 4U, 8U, 3U, 12U, 15U}) {  // bits of p, q, x and y
        std::size_t at[4];
        for (unsigned k = 0; k < 4; ++k) at[k] = (which >> k & 1U) != 0 ? offset : 0;
        X const* const from = rx.assign(x, at[2]);
        Y const* const beside = ry.assign(y, at[3]);
        CAPTURE(n, offset, which);
        kernel_test::evaluate_on(
            s, ew::out(p.clear(at[0]), n) = ew::in(from, n) + ew::in(beside, n),
            ew::out(q.clear(at[1]), n) = 100 + ew::in(from, n) - ew::in(beside, n));
        REQUIRE((p.holds(sum) && q.holds(difference)));
        REQUIRE((rx.holds(x) && ry.holds(y)));
      }
    }
  }
}

template <class Run>
std::string refusal(Run const& run) {
  try {
    run();
  } catch (std::invalid_argument const& e) {
    return e.what();
  }
  return "not refused";
}

bool has(std::string const& text, char const* part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("two outputs of one type, and of several") {
  check_types<float, float, float, float>();
  check_types<unsigned char, double, signed char, short>();
#if WARPWRIGHT_TEST_EVERY_TYPE
  check_types<__half, __half, __half, __half>();
  check_types<float, __half, __nv_bfloat16, unsigned char>();
#endif
}

TEST_CASE("two outputs at every offset of every array: float") {
  check_offsets<float, float, float, float>();
}
TEST_CASE("two outputs at every offset of every array: bytes") {
  check_offsets<unsigned char, unsigned char, unsigned char, unsigned char>();
}
TEST_CASE("two outputs at every offset of every array: mixed types") {
  check_offsets<float, __half, __nv_bfloat16, unsigned char>();
  check_offsets<unsigned char, double, __half, short>();
}

TEST_CASE("outputs in place of the inputs see what was there before") {
  ww::stream s;
  for (std::size_t n : {1U, 5U, 1000U, 4099U}) {
    for (std::size_t at : {0U, 1U, 3U}) {
      CAPTURE(n, at);
      auto const x = small_integers<float>(n, 1000, 1);
      auto const y = small_integers<float>(n, 1000, 2);
      guarded<float> const a{x, at};
      guarded<float> const b{y, at};
      ew::run(s, ew::tie(ew::out(a.data(), n) = ew::in(b.data(), n),
                         ew::out(b.data(), n) = ew::in(a.data(), n)));
      CHECK(a.fetch(s) == y);  // exchanged
      CHECK(b.fetch(s) == x);
    }
  }
}

TEST_CASE("three outputs with rows, columns, numbers and counters; a number alone") {
  ww::stream s;
  std::size_t const rows = 7;
  std::size_t const cols = 129;
  std::size_t const n = rows * cols;
  auto const bias = small_integers<__half>(cols, 50, 3);
  auto const scale = small_integers<float>(rows, 50, 4);
  guarded<__half> const dbias{bias, 1};
  guarded<float> const dscale{scale, 0};
  guarded<float> const a{n, 0};
  guarded<std::int64_t> const b{n, 1};
  guarded<double> const c{n, 0};
  ew::run(s, ew::tie(ew::out(a.data(), n) = ew::row(dbias.data(), cols) + ew::index(),
                     ew::out(b.data(), n) = 7,
                     ew::out(c.data(), n) = ew::col(dscale.data(), cols) * 2));
  auto const ga = a.fetch(s);
  auto const gb = b.fetch(s);
  auto const gc = c.fetch(s);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (ga[i] != static_cast<float>(as_double(bias[i % cols])) + static_cast<float>(i)) ++wrong;
    if (gb[i] != 7) ++wrong;
    if (gc[i] != 2.0 * static_cast<double>(scale[i / cols])) ++wrong;
  }
  CHECK(wrong == 0);
  CHECK((a.intact(s) && b.intact(s) && c.intact(s)));
}

TEST_CASE("the host evaluates the same") {
  std::vector<float> x{1, 2, 3};
  std::vector<float> y{10, 20, 30};
  ew::evaluate_host(ew::tie(ew::out(x.data(), 3) = ew::in(x.data(), 3) + ew::in(y.data(), 3),
                            ew::out(y.data(), 3) = ew::in(y.data(), 3) - ew::in(x.data(), 3)));
  CHECK(x == std::vector<float>{11, 22, 33});
  CHECK(y == std::vector<float>{9, 18, 27});
}

TEST_CASE("outputs that do not fit together are refused by number") {
  std::vector<float> x(64, 1.0F);
  std::vector<float> y(64);
  std::vector<float> z(64);
  auto const tied = [&](float* p, std::size_t n, float* q, std::size_t m) {
    return refusal([&] {
      ew::evaluate_host(ew::tie(ew::out(p, n) = 1, ew::out(q, m) = ew::in(x.data(), m)));
    });
  };
  CHECK(tied(y.data(), 16, z.data(), 16) == "not refused");
  CHECK(has(tied(y.data(), 16, z.data(), 8), "output 2 has 8 elements, but output 1 has 16"));
  CHECK(has(tied(y.data(), 16, z.data(), ~std::size_t{2}),
            "output 2 has 18446744073709551613 (-3 if signed) elements, but output 1 has 16"));
  CHECK(has(tied(y.data(), 16, y.data(), 16), "output 2 overlaps output 1"));
  CHECK(
      has(tied(y.data(), 16, y.data() + 15, 16), "output 2 overlaps output 1, starting 60 bytes"));
  CHECK(has(tied(nullptr, 16, z.data(), 16), "output 1 is a null pointer"));
  // The first output overlaps what the second one reads, other than in place.
  CHECK(has(tied(x.data() + 1, 16, z.data(), 16),
            "operand 1 (in) spans 64 bytes that overlap output "
            "1's 64, starting 4 bytes before it"));
  CHECK(tied(x.data(), 16, z.data(), 16) == "not refused");
  CHECK(tied(y.data(), 0, y.data(), 0) == "not refused");  // nothing is written
}

#if WARPWRIGHT_HOST_RUNTIME
TEST_CASE("several outputs are one kernel launch and no other call") {
  ww::stream s;
  guarded<float> const x{std::vector<float>(100, 1.0F), 0};
  guarded<float> const y{100, 0};
  guarded<float> const z{100, 0};
  ww::testing::reset_call_counts();
  ew::run(s, ew::tie(ew::out(y.data(), 100) = ew::in(x.data(), 100) * 2,
                     ew::out(z.data(), 100) = ew::in(x.data(), 100) * 3));
  CHECK(ww::testing::total_calls() == 1);
  ew::run(s, ew::tie(ew::out(y.data(), 0) = 1, ew::out(z.data(), 0) = 1));
  CHECK(ww::testing::total_calls() == 1);
  s.synchronize();
}
#endif
