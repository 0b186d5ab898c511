// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// reduce(): special values, rounding against fp64, and the same bits every time.
#include <warpwright/kernel/reduce.hpp>

#include <cmath>
#include <limits>

#include "kernel/support.hpp"
#include "support/catch.hpp"
#include "support/device_memory.hpp"
#include "support/sanitized.hpp"

namespace ew = warpwright::ew;
namespace ww = warpwright;
using kernel_test::as_double;
using kernel_test::guarded;
using kernel_test::random_numbers;
using test_support::device_array;
using test_support::sanitized;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();

// A workspace for any of the reductions here.
struct workspace {
  explicit workspace(ww::stream& s)
      : memory{std::size_t{1} << 17U},
        handle{ew::prepare_workspace(s, memory.data(), memory.size())} {}
  device_array<unsigned char> memory;
  ew::reduction_workspace handle;
};

template <class T>
std::uint64_t bits_of(T value) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

double sum_of(std::vector<float> const& x) {
  long double sum = 0;  // 64 bits of mantissa on x86
  for (float const v : x) sum += static_cast<long double>(v);
  return static_cast<double>(sum);
}
double magnitude_of(std::vector<float> const& x) {
  double sum = 0;
  for (float const v : x) sum += std::fabs(static_cast<double>(v));
  return sum;
}

// What reductions.hpp promises of float arrays.
double promised_error(std::vector<float> const& x) {
  return (static_cast<double>(x.size()) / 2e6 + 40) * 0x1p-24 * magnitude_of(x);
}

std::vector<float> normal_numbers(std::size_t n, std::uint64_t seed) {
  random_numbers random{seed};
  std::vector<float> x(n);
  for (float& v : x) v = static_cast<float>(random.unit() * 2 - 1);
  return x;
}

}  // namespace

TEST_CASE("NaN wins wherever it stands, and the first one is found") {
  ww::stream s;
  workspace w{s};
  std::uint64_t const seed = 21;
  INFO("seed " << seed);
  random_numbers random{seed};
  for (std::size_t n : {1U, 17U, 1000U, 5003U, sanitized ? 30001U : 300001U}) {
    std::vector<float> const plain = normal_numbers(n, n);
    for (int k = 0; k < 6; ++k) {
      std::vector<float> x = plain;
      std::size_t first = n;
      std::size_t const how_many = random.below(3) + 1;
      std::uint64_t distinct = 0;
      for (std::size_t j = 0; j < how_many; ++j) {
        std::size_t const at = j == 0 && k == 0 ? n - 1 : random.below(n);
        if (!std::isnan(x[at])) ++distinct;
        x[at] = nan_value;
        first = at < first ? at : first;
      }
      guarded<float> dx{x, random.below(4)};
      auto const e = ew::in(dx.data(), n);
      auto const [least, most, low, high, bad, sum, numbers] =
          ew::reduce(s, w.handle, n, ew::min(e), ew::max(e), ew::argmin(e), ew::argmax(e),
                     ew::count_nonfinite(e), ew::sum(e), ew::count_if(e == e));
      CAPTURE(n, first);
      REQUIRE((std::isnan(least) && std::isnan(most) && std::isnan(sum)));
      REQUIRE((std::isnan(low.value) && low.index == first));
      REQUIRE((std::isnan(high.value) && high.index == first));
      REQUIRE(bad == distinct);
      REQUIRE(numbers == n - distinct);
    }
  }
}

TEST_CASE("infinities, the largest, the smallest and signed zeros") {
  ww::stream s;
  workspace w{s};
  constexpr float most = (std::numeric_limits<float>::max)();
  constexpr float tiny = std::numeric_limits<float>::denorm_min();
  for (std::size_t n : {5U, 1003U, sanitized ? 20001U : 200001U}) {
    CAPTURE(n);
    std::vector<float> x(n, infinity);  // as the identity of min()
    guarded<float> dx{x, 1};
    auto const e = ew::in(dx.data(), n);
    auto const reduce = [&](auto const& r) { return ew::reduce(s, w.handle, n, r); };
    CHECK((reduce(ew::argmin(e)).index == 0 && reduce(ew::argmax(e)).index == 0));
    CHECK((reduce(ew::min(e)) == infinity && reduce(ew::sum(e)) == infinity));
    CHECK(reduce(ew::sum(e).compensated()) == infinity);
    CHECK(reduce(ew::mean(e).compensated()) == infinity);
    CHECK(reduce(ew::norm(e).compensated()) == infinity);
    CHECK(reduce(ew::count_nonfinite(e)) == n);
    x.assign(n, -infinity);
    x[n / 2] = infinity;
    dx.assign(x);
    CHECK((reduce(ew::argmin(e)).index == 0 && reduce(ew::argmax(e)).index == n / 2));
    CHECK((std::isnan(reduce(ew::sum(e))) && std::isnan(reduce(ew::sum(e).compensated()))));
    x.assign(n, 0.0F);
    x[n - 1] = -tiny;
    x[n - 2] = tiny;
    dx.assign(x);
    CHECK((reduce(ew::argmin(e)).index == n - 1 && reduce(ew::argmax(e)).index == n - 2));
    CHECK((reduce(ew::min(e)) == -tiny && reduce(ew::max(e)) == tiny));
    CHECK((reduce(ew::sum(e)) == 0 && reduce(ew::sum(e + e)) == 0));
    x.assign(n, -0.0F);
    x[n / 3] = 0.0F;
    dx.assign(x);  // equal numbers: the lowest index of either
    CHECK((reduce(ew::argmin(e)).index == 0 && reduce(ew::argmax(e)).index == 0));
    CHECK((reduce(ew::min(e)) == 0 && reduce(ew::norm(e)) == 0));
    x.assign(n, most);
    dx.assign(x);
    CHECK((reduce(ew::max(e)) == most && reduce(ew::count_nonfinite(e)) == 0));
    CHECK(reduce(ew::sum(e)) == infinity);
    double const exact = static_cast<double>(most) * static_cast<double>(n);
    CHECK(std::fabs(reduce(ew::sum(e).in<double>()) - exact) <= 1e-15 * exact);
    CHECK(reduce(ew::norm(e)) == infinity);
    CHECK(std::isfinite(reduce(ew::norm(e).in<double>())));
  }
  device_array<double> d{std::vector<double>{1, std::numeric_limits<double>::quiet_NaN(),
                                             std::numeric_limits<double>::infinity()}};
  CHECK(ew::reduce(s, w.handle, 3, ew::count_nonfinite(ew::in(d.data(), 3))) == 2);
}

// Every addition of a running sum of these rounds the same way, so that errors add up.
TEST_CASE("sums of floats that all err to one side keep the promised error") {
  ww::stream s;
  workspace w{s};
  int beyond = 0;
  for (unsigned k = 10; k <= (sanitized ? 18 : 22); ++k) {
    std::size_t const n = std::size_t{1} << k;
    float const value = 1.0F + std::floor(0.99F * static_cast<float>(1U << (23 - k))) * 0x1p-23F;
    std::vector<float> const x(n, value);
    device_array<float> dx{x};
    double const exact = static_cast<double>(value) * static_cast<double>(n);
    float one_by_one = 0;
    for (float const v : x) one_by_one += v;
    CAPTURE(n, exact);
    CHECK(std::fabs(static_cast<double>(ew::reduce(s, w.handle, n, ew::sum(ew::in(dx.data(), n)))) -
                    exact) <= promised_error(x));
    beyond += std::fabs(static_cast<double>(one_by_one) - exact) > promised_error(x);
  }
  CHECK(beyond > 0);  // the bound means something: adding one by one does not keep it
}

TEST_CASE("sums of floats keep the promised error") {
  ww::stream s;
  workspace w{s};
  for (std::size_t n :
       {std::size_t{100}, std::size_t{4097}, std::size_t{1} << 20U, (std::size_t{1} << 22U) + 77}) {
    if (sanitized && n > 4097) continue;
    for (int kind = 0; kind < 3; ++kind) {
      std::vector<float> x = normal_numbers(n, n + static_cast<std::uint64_t>(kind));
      random_numbers random{n};
      for (std::size_t i = 0; i < n && kind != 0; ++i) {
        if (kind == 1) x[i] = x[i] * x[i] + 1;                              // all of one sign
        if (kind == 2) x[i] *= static_cast<float>(1U << random.below(30));  // of all magnitudes
      }
      double const exact = sum_of(x);
      device_array<float> dx{x};
      auto const e = ew::in(dx.data(), n);
      auto const [plain, precise, careful, both, mean] =
          ew::reduce(s, w.handle, n, ew::sum(e), ew::sum(e).in<double>(), ew::sum(e).compensated(),
                     ew::sum(e).in<double>().compensated(), ew::mean(e));
      CAPTURE(n, kind, exact);
      CHECK(std::fabs(static_cast<double>(plain) - exact) <= promised_error(x));
      CHECK(std::fabs(precise - exact) <= promised_error(x) * 0x1p-29);
      CHECK(std::fabs(static_cast<double>(careful) - exact) <=
            0x1p-24 * std::fabs(exact) + static_cast<double>(n) * 0x1p-48 * magnitude_of(x));
      CHECK(std::fabs(both - exact) <= 0x1p-52 * std::fabs(exact));
      CHECK(std::fabs(static_cast<double>(mean) - exact / static_cast<double>(n)) <=
            1.01 * promised_error(x) / static_cast<double>(n));
    }
  }
}

TEST_CASE("compensated sums keep what cancellation uncovers") {
  ww::stream s;
  workspace w{s};
  for (std::size_t triples : {1U, 100U, 50001U, sanitized ? 50002U : 1000000U}) {
    std::size_t const n = 3 * triples;
    std::vector<float> x(n);
    for (std::size_t i = 0; i < triples; ++i) {
      // Large numbers that cancel far apart, with small ones between.
      x[i] = 1e8F;
      x[triples + i] = 0.25F;
      x[2 * triples + i] = -1e8F;
    }
    device_array<float> dx{x};
    auto const e = ew::in(dx.data(), n);
    auto const [careful, mean, squares] =
        ew::reduce(s, w.handle, n, ew::sum(e).compensated(), ew::mean(e).compensated(),
                   ew::sum(e * 3.0F * ew::where(e > 1, 1.0F, 1.0F)).compensated());
    double const exact = 0.25 * static_cast<double>(triples);
    CAPTURE(n);
    CHECK(static_cast<double>(careful) == exact);
    CHECK(mean == static_cast<float>(exact / static_cast<double>(n)));
    CHECK(static_cast<double>(squares) == 3 * exact);
  }
  // 1 is lost beside 1e8 for whoever only adds.
  device_array<float> few{std::vector<float>{1e8F, 1.0F, -1e8F}};
  auto const e = ew::in(few.data(), 3);
  CHECK(ew::reduce(s, w.handle, 3, ew::sum(e).compensated()) == 1);
  CHECK(ew::reduce(s, w.handle, 3, ew::sum(e).in<double>()) == 1);
  // A product is rounded before its error is asked for: (1 + 2^-12)^2 loses its last bit.
  std::size_t const n = sanitized ? 1U << 16U : 1U << 20U;
  device_array<float> same{std::vector<float>(n, 1.0F + 0x1p-12F)};
  auto const f = ew::in(same.data(), n);
  CHECK(ew::reduce(s, w.handle, n, ew::sum(f * f).compensated()) ==
        static_cast<float>(n) * (1.0F + 0x1p-11F));
}

TEST_CASE("norms against fp64, for every floating type") {
  ww::stream s;
  workspace w{s};
  std::size_t const n = 70001;
  std::vector<float> const x = normal_numbers(n, 5);
  auto const check = [&](auto zero, double bound) {
    using T = decltype(zero);
    std::vector<T> t(n);
    long double more = 0;
    for (std::size_t i = 0; i < n; ++i) {
      t[i] = kernel_test::number<T>(static_cast<double>(x[i]));
      more += static_cast<long double>(as_double(t[i])) * static_cast<long double>(as_double(t[i]));
    }
    double const squares = static_cast<double>(more);
    guarded<T> dt{t, 1};
    auto const e = ew::in(dt.data(), n);
    auto const [norm, root] = ew::reduce(s, w.handle, n, ew::norm(e), ew::sum(e * e));
    double const exact = std::sqrt(squares);
    CHECK(std::fabs(static_cast<double>(norm) - exact) <= bound * exact);
    CHECK(std::fabs(static_cast<double>(root) - squares) <= 2 * bound * squares);
  };
  check(0.0F, 45 * 0x1p-24);
  check(kernel_test::number<__half>(0), 45 * 0x1p-24);
  check(kernel_test::number<__nv_bfloat16>(0), 45 * 0x1p-24);
  check(0.0, 45 * 0x1p-53);
}

TEST_CASE("integers are added in 64 bits") {
  ww::stream s;
  workspace w{s};
  std::size_t const n = 100000;
  constexpr int most = (std::numeric_limits<int>::max)();
  device_array<int> x{std::vector<int>(n, most)};
  device_array<unsigned char> b{std::vector<unsigned char>(n, 255)};
  auto const e = ew::in(x.data(), n);
  auto const [sum, mean, bytes, norm] = ew::reduce(s, w.handle, n, ew::sum(e), ew::mean(e),
                                                   ew::sum(ew::in(b.data(), n)), ew::norm(e));
  CHECK(sum == std::int64_t{most} * 100000);
  CHECK(mean == static_cast<double>(most));
  CHECK(bytes == 25500000U);
  double const exact = static_cast<double>(most) * std::sqrt(100000.0);
  CHECK(std::fabs(norm - exact) <= 1e-14 * exact);
  device_array<std::uint64_t> large{std::vector<std::uint64_t>{~std::uint64_t{0}, 3}};
  CHECK(ew::reduce(s, w.handle, 2, ew::sum(ew::in(large.data(), 2))) == 2);  // wraps
}

TEST_CASE("the same bits every time, on every stream, and on the host") {
  std::uint64_t const seed = 77;
  INFO("seed " << seed);
  random_numbers random{seed};
  for (std::size_t n : {1U, 1000U, 33333U, sanitized ? 250001U : 2500001U}) {
    for (std::size_t offset : {0U, 3U}) {
      std::vector<float> const x = normal_numbers(n, random.next());
      guarded<float> dx{x, offset};
      auto const e = ew::in(dx.data(), n);
      std::uint64_t first = 0;
      for (int k = 0; k < (sanitized ? 2 : 8); ++k) {
        ww::stream s;
        workspace w{s};
        std::uint64_t const again = bits_of(ew::reduce(s, w.handle, n, ew::sum(e)));
        if (k == 0) first = again;
        CAPTURE(n, offset, k);
        REQUIRE(again == first);
      }
      // Host memory that lies the same relative to 16 bytes.
      std::vector<float> room(n + 16);
      std::size_t const misfit = reinterpret_cast<std::uintptr_t>(room.data()) % 16 / 4;
      float* const here = room.data() + (4 - misfit) % 4 + offset;
      std::memcpy(here, x.data(), n * sizeof(float));
      float on_host = 0;
      ew::reduce_host(n, ew::to(&on_host) = ew::sum(ew::in(here, n)));
      REQUIRE(bits_of(on_host) == first);
    }
  }
}
