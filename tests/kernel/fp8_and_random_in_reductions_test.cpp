// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// One part of expressions inside another: fp8 and random numbers in reductions and in kernels of
// several outputs, those in place beside rows and columns. Sums are of integers, so that they are
// exact.
#include <cuda_fp8.h>

#include <warpwright/kernel.hpp>
#include <warpwright/kernel/random.hpp>
#include <warpwright/kernel/reduce.hpp>
#include <warpwright/kernel/reduce_matrix.hpp>

#include <stdexcept>
#include <string>

#include "kernel/support.hpp"
#include "support/catch.hpp"
#include "support/device_memory.hpp"

namespace ew = warpwright::ew;
namespace ww = warpwright;
using kernel_test::as_double;
using kernel_test::guarded;
using kernel_test::refusal;
using kernel_test::small_integers;
using test_support::device_array;

namespace {

// A workspace for any of the reductions here.
struct workspace {
  explicit workspace(ww::stream& s)
      : memory{std::size_t{1} << 17U},
        handle{ew::prepare_workspace(s, memory.data(), memory.size())} {}
  device_array<unsigned char> memory;
  ew::reduction_workspace handle;
};

template <class T>
T from_bits(unsigned bits) {
  T value;
  value.__x = static_cast<__nv_fp8_storage_t>(bits);
  return value;
}

// Sums, extremes and places of fp8 numbers and of their squares, of all and by rows.
template <class T>
void check_fp8_reductions() {
  ww::stream s;
  workspace w{s};
  for (std::size_t cols : {1U, 7U, 16U, 33U, 1000U, 4112U}) {
    for (std::size_t rows : {1U, 9U, 70U}) {
      if (rows * cols > 100000) continue;
      for (std::size_t offset : {0U, 1U, 15U}) {
        CAPTURE(cols, rows, offset);
        std::size_t const n = rows * cols;
        auto const x = small_integers<T>(n, 8, cols + rows);
        auto const b = small_integers<T>(cols, 4, cols);
        guarded<T> const dx{x, offset};
        guarded<T> const db{b, offset};
        auto const e = ew::in(dx.data(), n);
        auto const [sum, mixed, most, least] =
            ew::reduce(s, w.handle, n, ew::sum(e), ew::sum(e * e + ew::row(db.data(), cols)),
                       ew::max(e), ew::argmin(e));
        guarded<double> const sums{rows, 1};
        guarded<T> const maxima{rows, 3};
        guarded<std::uint64_t> const places{rows, 0};
        ew::reduce_rows(s, {rows, cols},
                        ew::to(sums.data()) = ew::sum(e * e + ew::row(db.data(), cols)),
                        ew::to(maxima.data()) = ew::max(e), ew::to(places.data()) = ew::argmin(e));
        auto const got_sums = sums.fetch(s);
        auto const got_maxima = maxima.fetch(s);
        auto const got_places = places.fetch(s);
        double total = 0, total_mixed = 0, high = 0, low = 99;
        std::size_t low_at = 0, wrong = 0;
        for (std::size_t r = 0; r < rows; ++r) {
          double row_sum = 0, row_high = 0, row_low = 99;
          std::size_t row_low_at = 0;
          for (std::size_t c = 0; c < cols; ++c) {
            double const v = as_double(x[r * cols + c]);
            total += v;
            row_sum += v * v + as_double(b[c]);
            row_high = v > row_high ? v : row_high;
            if (v < row_low) row_low = v, row_low_at = c;
            if (v < low) low = v, low_at = r * cols + c;
          }
          total_mixed += row_sum;
          high = row_high > high ? row_high : high;
          wrong += got_sums[r] != row_sum;
          wrong += as_double(got_maxima[r]) != row_high;
          wrong += got_places[r] != row_low_at;
        }
        REQUIRE(wrong == 0);
        REQUIRE((static_cast<double>(sum) == total && static_cast<double>(mixed) == total_mixed));
        REQUIRE((static_cast<double>(most) == high && least.index == low_at));
        REQUIRE((sums.intact(s) && maxima.intact(s) && places.intact(s)));
      }
    }
  }
  // NaN wins, and the first one is found; only e5m2 has infinities.
  std::vector<T> x = small_integers<T>(1000, 8, 5);
  x[700] = from_bits<T>(0x7f);
  x[900] = from_bits<T>(0xff);
  guarded<T> const dx{x, 3};
  auto const e = ew::in(dx.data(), 1000);
  auto const [sum, first, bad] =
      ew::reduce(s, w.handle, 1000, ew::sum(e), ew::argmax(e), ew::count_nonfinite(e));
  CHECK(sum != sum);
  CHECK((first.index == 700 && bad == 2));
}

// Random numbers as run() writes them: what reductions of the same expression must have seen.
template <class T, class E>
std::vector<T> written(ww::stream& s, E const& e, std::size_t n) {
  device_array<T> const y{n};
  ew::run(s, ew::out(y.data(), n) = e);
  return y.fetch(s);
}

}  // namespace

TEST_CASE("reductions of fp8 numbers") {
  check_fp8_reductions<__nv_fp8_e5m2>();
#if WARPWRIGHT_TEST_EVERY_TYPE
  check_fp8_reductions<__nv_fp8_e4m3>();
#endif
}

TEST_CASE("reductions see the random numbers that run() writes") {
  ww::stream s;
  workspace w{s};
  std::uint64_t const seed = 91;
  INFO("seed " << seed);
  ew::philox const rng{seed, 3};
  ew::philox const other = rng.subsequence(7);
  for (std::size_t n : {1U, 5U, 1000U, 4099U, 100003U}) {
    for (std::size_t offset : {0U, 1U, 2U, 3U}) {
      CAPTURE(n, offset);
      auto const x = small_integers<float>(n, 30, n);
      guarded<float> const dx{x, offset};
      auto const e = ew::in(dx.data(), n);
      auto const bits = written<std::uint32_t>(s, ew::random_bits(rng), n);
      auto const kept = written<float>(s, ew::dropout(e, 0.5, other), n);
      auto const normal = written<float>(s, ew::normal(rng), n);
      auto const [sum, most, often, kept_sum, largest] = ew::reduce(
          s, w.handle, n, ew::sum(ew::random_bits(rng)), ew::argmax(ew::random_bits(rng) + e * 0),
          ew::count_if(ew::bernoulli(rng, 0.25)), ew::sum(ew::dropout(e, 0.5, other)),
          ew::max(ew::normal(rng)));
      std::uint64_t exact = 0, seen = 0;
      double exact_kept = 0;
      float exact_largest = normal[0];
      for (std::size_t i = 0; i < n; ++i) {
        exact += bits[i];
        seen += bits[i] < 0x40000000U;
        exact_kept += as_double(kept[i]);
        exact_largest = normal[i] > exact_largest ? normal[i] : exact_largest;
      }
      REQUIRE(sum == exact);
      REQUIRE(often == seen);
      REQUIRE(static_cast<double>(kept_sum) == exact_kept);
      REQUIRE(largest == exact_largest);
      REQUIRE(static_cast<float>(bits[most.index]) == most.value);
    }
  }
}

TEST_CASE("rows of random numbers, of fp8 and of both") {
  ww::stream s;
  std::uint64_t const seed = 92;
  INFO("seed " << seed);
  ew::philox const rng{seed, 1};
  for (std::size_t cols : {1U, 3U, 8U, 31U, 100U, 1025U, 5000U}) {
    for (std::size_t rows : {1U, 7U, 64U}) {
      CAPTURE(cols, rows);
      std::size_t const n = rows * cols;
      auto const x = small_integers<__nv_fp8_e4m3>(n, 8, cols);
      guarded<__nv_fp8_e4m3> const dx{x, cols % 3};
      auto const e = ew::in(dx.data(), n);
      auto const bits = written<std::uint32_t>(s, ew::random_bits(rng), n);
      auto const kept = written<float>(s, ew::dropout(e, 0.5, rng), n);
      guarded<std::uint64_t> const sums{rows, 0};
      guarded<double> const kept_sums{rows, 1};
      ew::reduce_rows(s, {rows, cols}, ew::to(sums.data()) = ew::sum(ew::random_bits(rng)),
                      ew::to(kept_sums.data()) = ew::sum(ew::dropout(e, 0.5, rng)));
      auto const got = sums.fetch(s);
      auto const got_kept = kept_sums.fetch(s);
      std::size_t wrong = 0;
      for (std::size_t r = 0; r < rows; ++r) {
        std::uint64_t sum = 0;
        double kept_sum = 0;
        for (std::size_t c = 0; c < cols; ++c) {
          sum += bits[r * cols + c];
          kept_sum += as_double(kept[r * cols + c]);
        }
        wrong += got[r] != sum;
        wrong += got_kept[r] != kept_sum;
      }
      REQUIRE(wrong == 0);
    }
  }
}

TEST_CASE("several outputs of fp8 and of random numbers are what each would be alone") {
  ww::stream s;
  std::uint64_t const seed = 93;
  INFO("seed " << seed);
  kernel_test::random_numbers random{seed};
  ew::philox const rng{seed, 5};
  for (int round = 0; round < 60; ++round) {
    std::size_t const n = 1 + (round < 40 ? random.below(300) : random.below(40000));
    std::size_t const at = round % 3 == 0 ? 0 : random.below(16);
    CAPTURE(n, at);
    auto const x = small_integers<__nv_fp8_e5m2>(n, 8, random.next());
    guarded<__nv_fp8_e5m2> const dx{x, round % 2 == 0 ? at : random.below(16)};
    guarded<__nv_fp8_e4m3> const p{n, at};
    guarded<float> const q{n, at % 4};
    guarded<__half> const r{n, random.below(8)};
    guarded<unsigned char> const mask{n, random.below(16)};
    auto const e = ew::in(dx.data(), n);
    auto const noisy = ew::stochastic_round<__nv_fp8_e4m3>(e * 0.3F, rng);
    auto const dropped = ew::dropout(e, 0.25, rng.subsequence(1));
    auto const drawn = ew::normal(rng.subsequence(2));
    auto const flag = ew::bernoulli(rng, 0.5);
    ew::run(s, ew::tie(ew::out(p.data(), n) = noisy, ew::out(q.data(), n) = dropped,
                       ew::out(r.data(), n) = drawn, ew::out(mask.data(), n) = flag));
    auto const alone_p = written<__nv_fp8_e4m3>(s, noisy, n);
    auto const got_p = p.fetch(s);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < n; ++i) wrong += got_p[i].__x != alone_p[i].__x;
    CHECK(wrong == 0);
    CHECK(q.fetch(s) == written<float>(s, dropped, n));
    CHECK(mask.fetch(s) == written<unsigned char>(s, flag, n));
    auto const alone_r = written<__half>(s, drawn, n);
    auto const got_r = r.fetch(s);
    CHECK(std::memcmp(got_r.data(), alone_r.data(), n * sizeof(__half)) == 0);
    REQUIRE((p.intact(s) && q.intact(s) && r.intact(s) && mask.intact(s) && dx.intact(s)));
  }
}

TEST_CASE("outputs in place of each other's inputs, beside rows and columns") {
  ww::stream s;
  for (std::size_t cols : {1U, 4U, 5U, 64U, 100U, 1024U}) {
    for (std::size_t rows : {1U, 3U, 50U}) {
      for (std::size_t at : {0U, 1U, 3U}) {
        CAPTURE(cols, rows, at);
        std::size_t const n = rows * cols;
        auto const x = small_integers<float>(n, 50, 1);
        auto const y = small_integers<float>(n, 50, 2);
        auto const bias = small_integers<__half>(cols, 9, 3);
        auto const scale = small_integers<float>(rows, 9, 4);
        guarded<float> const a{x, at};
        guarded<float> const b{y, at == 3 ? 0 : at};
        guarded<__half> const dbias{bias, at};
        guarded<float> const dscale{scale, 1};
        guarded<double> const c{n, at};
        auto const p = ew::in(a.data(), n);
        auto const q = ew::in(b.data(), n);
        ew::run(s, ew::tie(ew::out(a.data(), n) = q + ew::row(dbias.data(), cols),
                           ew::out(b.data(), n) = p * ew::col(dscale.data(), cols),
                           ew::out(c.data(), n) =
                               p - q + ew::row(dbias.data(), cols) * ew::col(dscale.data(), cols)));
        auto const ga = a.fetch(s);
        auto const gb = b.fetch(s);
        auto const gc = c.fetch(s);
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < n; ++i) {
          double const r = as_double(bias[i % cols]);
          double const k = as_double(scale[i / cols]);
          wrong += as_double(ga[i]) != as_double(y[i]) + r;
          wrong += as_double(gb[i]) != as_double(x[i]) * k;
          wrong += gc[i] != as_double(x[i]) - as_double(y[i]) + r * k;
        }
        REQUIRE(wrong == 0);
        REQUIRE((a.intact(s) && b.intact(s) && c.intact(s) && dbias.intact(s)));
        REQUIRE(dscale.fetch(s) == scale);
      }
    }
  }
  // What repeats is read again and again: no output may be in its place, not even another one's.
  device_array<float> const memory{256};
  float* const m = memory.data();
  auto const tied = [&](float* second, std::size_t cols) {
    return refusal([&] {
      ew::run(s, ew::tie(ew::out(m, 64) = ew::row(m + 128, cols) + ew::in(m, 64),
                         ew::out(second, 64) = ew::col(m + 192, 8) + 1));
    });
  };
  CHECK(tied(m + 64, 64) == "accepted");
  CHECK_THAT(tied(m + 128, 64), contains("operand 1 (row)") && contains("output 2"));
  CHECK_THAT(tied(m + 180, 4), contains("operand 3 (col)") && contains("output 2"));
  s.synchronize();
}
