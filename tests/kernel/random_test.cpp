// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Draws against a plain reading of the generator's definition: values, independence of alignment,
// size and runtime, statistics, graphs.

#include <cuda_fp8.h>

// cuRAND's generator as host functions, to compare with.
#if !defined(__CUDACC__) && __has_include(<curand_kernel.h>)
#define QUALIFIERS static inline
#include <cuda_runtime.h>
#include <curand_kernel.h>
#define RANDOM_TEST_HAS_CURAND 1
#else
#define RANDOM_TEST_HAS_CURAND 0
#endif

#include <warpwright/graph.hpp>
#include <warpwright/kernel.hpp>
#include <warpwright/kernel/random.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "kernel/support.hpp"
#include "support/catch.hpp"
#include "support/device_memory.hpp"
#include "support/sanitized.hpp"

namespace ew = warpwright::ew;
namespace ww = warpwright;
using kernel_test::evaluate;
using kernel_test::guarded;
using kernel_test::refusal;
using test_support::device_array;
using test_support::rounds;

namespace {

struct words {
  std::uint32_t of[4];
  friend bool operator==(words const& a, words const& b) {
    return std::memcmp(a.of, b.of, sizeof a.of) == 0;
  }
};

// The generator as the paper writes it: ten rounds, the key raised between two of them.
words reference_philox(words c, std::uint32_t k0, std::uint32_t k1) {
  for (int round = 0; round < 10; ++round) {
    if (round > 0) k0 += 0x9E3779B9U, k1 += 0xBB67AE85U;
    std::uint64_t const p0 = std::uint64_t{0xD2511F53U} * c.of[0];
    std::uint64_t const p1 = std::uint64_t{0xCD9E8D57U} * c.of[2];
    c = words{{static_cast<std::uint32_t>(p1 >> 32U) ^ c.of[1] ^ k0, static_cast<std::uint32_t>(p1),
               static_cast<std::uint32_t>(p0 >> 32U) ^ c.of[3] ^ k1,
               static_cast<std::uint32_t>(p0)}};
  }
  return c;
}
words reference_block(std::uint64_t seed, std::uint64_t offset, std::uint64_t subsequence,
                      std::uint64_t i) {
  std::uint64_t const low = i / 4 + (subsequence << 48U);
  return reference_philox(
      {{static_cast<std::uint32_t>(low), static_cast<std::uint32_t>(low >> 32U),
        static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(offset >> 32U)}},
      static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32U));
}
std::uint32_t reference_bits(std::uint64_t seed, std::uint64_t offset, std::uint64_t subsequence,
                             std::uint64_t i) {
  return reference_block(seed, offset, subsequence, i).of[i % 4];
}

struct known_answer {
  words counter;
  std::uint64_t key;
  words answer;
};
// kat_vectors of Random123, philox4x32 with 10 rounds.
known_answer const known_answers[] = {
    {{{0, 0, 0, 0}}, 0, {{0x6627e8d5U, 0xe169c58dU, 0xbc57ac4cU, 0x9b00dbd8U}}},
    {{{0xffffffffU, 0xffffffffU, 0xffffffffU, 0xffffffffU}},
     0xffffffffffffffffU,
     {{0x408f276dU, 0x41c83b0eU, 0xa20bc7c6U, 0x6d5451fdU}}},
    {{{0x243f6a88U, 0x85a308d3U, 0x13198a2eU, 0x03707344U}},
     0x299f31d0a4093822U,
     {{0xd16cfe09U, 0x94fdccebU, 0x5001e420U, 0x24126ea1U}}}};

// Philox as the kernel has it, of a given counter and key.
struct block_of {
  ew::detail::four<std::uint32_t> counter;
  ew::detail::philox_keys keys;
  WARPWRIGHT_HOST_DEVICE std::uint32_t operator()(std::uint64_t i) const {
    return ew::detail::philox_4x32_10(counter, keys).of[i % 4];
  }
};

std::uint64_t const seed = 0x0123456789abcdefU;
constexpr std::size_t many = test_support::sanitized ? 1U << 17U : 1U << 20U;

// Every use of a generator, into an array of T, by run(), by evaluate_host() and by the kernel's
// own vectors; all are to be the same to the last bit.
template <class T, class Make>
void check_everywhere(Make make) {
  kernel_test::random_numbers random{17};
  ww::stream s;
  for (int k = 0; k < rounds(60); ++k) {
    std::size_t const n = 1 + random.below(k % 10 == 0 ? 20000 : 200);
    std::size_t const at = random.below(16);
    std::size_t const at_x = k % 3 == 0 ? at : random.below(16);
    CAPTURE(n, at, at_x);
    std::vector<T> x(n);
    for (T& v : x) v = T(static_cast<float>(random.unit() * 4));
    ew::philox const rng = ew::philox{random.next(), random.next()}.subsequence(random.below(9));

    std::vector<T> expected(n);
    ew::evaluate_host(ew::out(expected.data(), n) = make(ew::in(x.data(), n), rng));

    guarded<T> dx{x, at_x};
    guarded<T> dy{n, at};
    ew::run(s, ew::out(dy.data(), n) = make(ew::in(dx.data(), n), rng));
    auto const got = dy.fetch(s);
    REQUIRE(std::memcmp(static_cast<void const*>(got.data()),
                        static_cast<void const*>(expected.data()), n * sizeof(T)) == 0);
    REQUIRE(dy.intact(s));

    guarded<T> px{x, at_x};
    guarded<T> py{std::vector<T>(n), at};
    evaluate(ew::out(py.data(), n) = make(ew::in(px.data(), n), rng));
    REQUIRE(std::memcmp(static_cast<void const*>(py.data()),
                        static_cast<void const*>(expected.data()), n * sizeof(T)) == 0);
    REQUIRE(py.intact());
  }
}

struct uniform_of {
  template <class X>
  auto operator()(X const&, ew::philox const& rng) const {
    return ew::uniform(rng);
  }
};
struct bernoulli_of {
  template <class X>
  auto operator()(X const&, ew::philox const& rng) const {
    return ew::bernoulli(rng, 0.37);
  }
};
struct dropout_of {
  template <class X>
  auto operator()(X const& x, ew::philox const& rng) const {
    return ew::dropout(x, 0.2, rng);
  }
};
struct normal_of {
  template <class X>
  auto operator()(X const& x, ew::philox const& rng) const {
    return x + ew::normal(rng);
  }
};
template <class T>
struct rounded_of {
  template <class X>
  auto operator()(X const& x, ew::philox const& rng) const {
    return ew::stochastic_round<T>(ew::cast<float>(x) * 1.001F, rng);
  }
};
struct two_of {
  template <class X>
  auto operator()(X const& x, ew::philox const& rng) const {
    return x + ew::uniform(rng.subsequence(1)) - ew::uniform(rng.subsequence(2));
  }
};

// Stochastic rounding in fp64: x in units of the format's last place, cut, and raised by one where
// the random word lies below what was lost. `beyond` is what lies past the largest finite number.
template <class T>
void check_rounding(int mantissa, int least_exponent, double most, double beyond) {
  std::vector<float> values{0,      -0.0F,  1,       HUGE_VALF, -HUGE_VALF, NAN,
                            65504,  65505,  448,     449,       479,        480,
                            57344,  57345,  61440,   1e30F,     3e38F,      1e-45F,
                            1e-38F, 1e-40F, 0x1p-9F, 0x1p-14F,  0x1p-24F,   0x1p-25F};
  values.push_back(std::numeric_limits<float>::max());
  kernel_test::random_numbers random{23};
  while (values.size() < static_cast<std::size_t>(rounds(200003))) {
    auto const bits = static_cast<std::uint32_t>(random.next());
    float v;
    std::memcpy(&v, &bits, sizeof v);
    values.push_back(v);
    // In the format's own range, subnormals too.
    double const unit = random.unit() + 1;
    int const exponent = static_cast<int>(random.below(30)) + least_exponent - mantissa - 4;
    values.push_back(static_cast<float>(std::ldexp(random.below(2) == 0 ? unit : -unit, exponent)));
  }
  std::size_t const n = values.size();
  ww::stream s;
  device_array<float> x{values};
  device_array<float> y{n};
  device_array<T> narrow{n};
  ew::philox const rng{seed, 6};
  auto const rounded = ew::stochastic_round<T>(ew::in(x.data(), n), rng);
  ew::run(s, ew::out(y.data(), n) = rounded);
  ew::run(s, ew::out(narrow.data(), n) = rounded);
  auto const got = y.fetch(s);
  auto const stored = narrow.fetch(s);
  std::size_t wrong = 0, up = 0, down = 0;
  for (std::size_t i = 0; i < n; ++i) {
    auto const v = static_cast<double>(values[i]);
    auto const result = static_cast<double>(got[i]);
    bool right;
    if (std::isnan(v)) {
      right = std::isnan(result);
    } else if (std::isinf(v)) {
      right = result == (v > 0 ? beyond : -beyond);
    } else {
      int const exponent = v == 0 ? least_exponent : std::max(std::ilogb(v), least_exponent);
      double const units = std::ldexp(std::fabs(v), mantissa - exponent);
      double const lost = std::floor((units - std::floor(units)) * 4294967296.0);
      bool const raised = static_cast<double>(reference_bits(seed, 6, 0, i)) < lost;
      double expected = std::ldexp(std::floor(units) + (raised ? 1 : 0), exponent - mantissa);
      if (expected > most) expected = beyond;
      right = std::fabs(result) == expected && std::signbit(result) == std::signbit(v);
      if (lost > 0) ++(raised ? up : down);
    }
    auto const written = static_cast<double>(static_cast<float>(stored[i]));
    if (std::isnan(result) ? !std::isnan(written) : written != result) right = false;
    if (!right && ++wrong <= 3) UNSCOPED_INFO(v << " becomes " << result << ", " << written);
  }
  CHECK(wrong == 0);
  CHECK((up > n / 10 && down > n / 10));
}

#if WARPWRIGHT_HOST_RUNTIME
// Random bits that count the generator's evaluations.
struct counted_bits {
  using value = std::uint32_t;
  static std::size_t made;
  static ew::detail::four<value> make(ew::detail::four<std::uint32_t> const& words) {
    ++made;
    return words;
  }
};
std::size_t counted_bits::made = 0;
#endif

// Chi-square over `bins` equal parts of [0, 1), less its mean, in standard deviations.
double chi_square_excess(std::vector<float> const& u, std::size_t bins) {
  std::vector<double> count(bins);
  for (float v : u) ++count[static_cast<std::size_t>(static_cast<double>(v) * double(bins))];
  double const expected = static_cast<double>(u.size()) / static_cast<double>(bins);
  double sum = 0;
  for (double c : count) sum += (c - expected) * (c - expected) / expected;
  double const freedom = static_cast<double>(bins - 1);
  return (sum - freedom) / std::sqrt(2 * freedom);
}

// Correlation of two samples of n, times sqrt(n): about normal with variance 1 if independent.
double correlation(float const* a, float const* b, std::size_t n) {
  double ma = 0, mb = 0, aa = 0, bb = 0, ab = 0;
  for (std::size_t i = 0; i < n; ++i) ma += double(a[i]), mb += double(b[i]);
  ma /= double(n), mb /= double(n);
  for (std::size_t i = 0; i < n; ++i) {
    double const x = double(a[i]) - ma, y = double(b[i]) - mb;
    aa += x * x, bb += y * y, ab += x * y;
  }
  return ab / std::sqrt(aa * bb) * std::sqrt(double(n));
}

std::vector<float> uniform_sample(ew::philox const& rng, std::size_t n) {
  ww::stream s;
  device_array<float> u{n};
  ew::run(s, ew::out(u.data(), n) = ew::uniform(rng));
  return u.fetch(s);
}

}  // namespace

TEST_CASE("the generator gives the published answers, on both runtimes") {
  ww::stream s;
  for (auto const& k : known_answers) {
    CHECK(reference_philox(k.counter, static_cast<std::uint32_t>(k.key),
                           static_cast<std::uint32_t>(k.key >> 32U)) == k.answer);
    ew::detail::four<std::uint32_t> counter;
    std::memcpy(counter.of, k.counter.of, sizeof counter.of);
    device_array<std::uint32_t> out{4};
    ew::run(s, ew::out(out.data(), 4) =
                   ew::map(block_of{counter, ew::detail::philox_keys{k.key}}, ew::index()));
    CHECK(out.fetch(s) == std::vector<std::uint32_t>(k.answer.of, k.answer.of + 4));
  }
}

TEST_CASE("element i has lane i % 4 of block i / 4 of its seed, offset and subsequence") {
  ww::stream s;
  std::size_t const n = 4099;
  device_array<std::uint32_t> out{n};
  for (std::uint64_t const at : {std::uint64_t{0}, std::uint64_t{7}, ~std::uint64_t{0}}) {
    for (std::uint64_t const sub : {0U, 1U, 65535U}) {
      ew::run(s, ew::out(out.data(), n) = ew::random_bits(ew::philox{seed, at}.subsequence(sub)));
      auto const got = out.fetch(s);
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < n; ++i) wrong += got[i] != reference_bits(seed, at, sub, i);
      CHECK(wrong == 0);
    }
  }
  // Far indices, which no test has memory for.
  auto const e = ew::random_bits(ew::philox{seed, 5}.subsequence(3));
  for (std::uint64_t const i : {(std::uint64_t{1} << 34U) + 3, (std::uint64_t{1} << 50U) - 5}) {
    decltype(e)::registers<4> r;
    e.load<4, 1>(r, i, 0);
    for (unsigned j = 0; j < 4; ++j) CHECK(r.of[j] == reference_bits(seed, 5, 3, i + j));
  }
}

#if RANDOM_TEST_HAS_CURAND
TEST_CASE("the words are those of cuRAND's Philox, whose subsequence is the offset") {
  ww::stream s;
  std::size_t const n = 1001;
  device_array<std::uint32_t> out{n};
  for (std::uint64_t const at : {std::uint64_t{0}, std::uint64_t{5}, ~std::uint64_t{0}}) {
    ew::run(s, ew::out(out.data(), n) = ew::random_bits(ew::philox{seed, at}));
    curandStatePhilox4_32_10_t state;
    curand_init(seed, at, 0, &state);
    std::size_t wrong = 0;
    for (std::uint32_t const word : out.fetch(s)) wrong += word != curand(&state);
    CHECK(wrong == 0);
  }
}
#endif

TEST_CASE("every use is the same on the host, in a kernel and in vectors, however arrays lie") {
  check_everywhere<float>(uniform_of{});
  check_everywhere<double>(uniform_of{});
  check_everywhere<unsigned char>(bernoulli_of{});
  check_everywhere<float>(dropout_of{});
  check_everywhere<__half>(normal_of{});
  check_everywhere<__nv_bfloat16>(rounded_of<__nv_bfloat16>{});
  check_everywhere<__nv_fp8_e5m2>(rounded_of<__nv_fp8_e5m2>{});
  check_everywhere<float>(two_of{});
#if WARPWRIGHT_TEST_EVERY_TYPE
  check_everywhere<__half>(uniform_of{});
  check_everywhere<double>(dropout_of{});
  check_everywhere<__nv_bfloat16>(dropout_of{});
  check_everywhere<__nv_fp8_e4m3>(dropout_of{});
  check_everywhere<float>(normal_of{});
  check_everywhere<double>(normal_of{});
  check_everywhere<float>(rounded_of<__half>{});
  check_everywhere<__half>(two_of{});
#endif
}

#if WARPWRIGHT_HOST_RUNTIME
template <class T>
void check_sharing(std::size_t vector) {
  ew::draw<counted_bits> const bits{{ew::detail::philox_keys{seed}}};
  std::size_t const vectors = 64, n = vectors * vector;
  for (std::size_t at = 0; at < vector; ++at) {
    guarded<T> y{std::vector<T>(n), at};
    counted_bits::made = 0;
    evaluate(ew::out(y.data(), n) = bits % 2);
    // Off a boundary, the elements in no vector draw alone, and a vector that starts within a block
    // draws one more.
    bool const between = at % 4 != 0;
    std::size_t const inside = at == 0 ? vectors : vectors - 1;
    std::size_t const alone = at == 0 ? 0 : vector;
    CAPTURE(vector, at);
    CHECK(counted_bits::made == inside * (vector / 4 + (between ? 1 : 0)) + alone);
  }
}
TEST_CASE("four neighbours share one evaluation of the generator") {
  check_sharing<float>(4);
  check_sharing<__half>(8);
  check_sharing<unsigned char>(16);
}
#endif

TEST_CASE("a sequence does not depend on its length") {
  std::vector<float> const all = uniform_sample(ew::philox{seed, 1}, 10000);
  for (std::size_t n : {1U, 2U, 3U, 5U, 63U, 1000U, 9999U}) {
    std::vector<float> const part = uniform_sample(ew::philox{seed, 1}, n);
    CHECK(part == std::vector<float>(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(n)));
  }
}

TEST_CASE("uniform numbers are multiples of 2^-24 in [0, 1), evenly spread") {
  INFO("seed " << seed);
  std::size_t const n = many;
  std::vector<float> const u = uniform_sample(ew::philox{seed, 0}, n);
  double sum = 0, squares = 0;
  std::size_t outside = 0, odd = 0;
  for (std::size_t i = 0; i < n; ++i) {
    double const v = static_cast<double>(u[i]);
    if (!(v >= 0 && v < 1)) ++outside;
    if (v != static_cast<double>(reference_bits(seed, 0, 0, i) >> 8U) / 16777216.0) ++odd;
    sum += v, squares += v * v;
  }
  CHECK(outside == 0);
  CHECK(odd == 0);
  double const count = static_cast<double>(n);
  // Standard errors: sqrt(1/12 / n) of the mean, sqrt(4/45 / n) of the mean square; five of each.
  CHECK(std::fabs(sum / count - 0.5) < 5 * std::sqrt(1 / 12.0 / count));
  CHECK(std::fabs(squares / count - 1 / 3.0) < 5 * std::sqrt(4 / 45.0 / count));
  CHECK(std::fabs(chi_square_excess(u, 256)) < 5);
  CHECK(std::fabs(chi_square_excess(u, 4096)) < 5);
  for (std::size_t lag : {1U, 2U, 3U, 4U, 32U, 128U, 1024U}) {
    CHECK(std::fabs(correlation(u.data(), u.data() + lag, n - lag)) < 5);
  }
}

TEST_CASE("other seeds, offsets and subsequences are other sequences") {
  std::size_t const n = 1U << 16U;
  std::vector<float> const u = uniform_sample(ew::philox{seed, 0}, n);
  ew::philox const others[] = {
      ew::philox{seed + 1}, ew::philox{seed, 1}, ew::philox{seed}.subsequence(1),
      ew::philox{seed + (std::uint64_t{1} << 32U)}, ew::philox{seed, std::uint64_t{1} << 32U}};
  for (auto const& other : others) {
    std::vector<float> const v = uniform_sample(other, n);
    CHECK(std::fabs(correlation(u.data(), v.data(), n)) < 5);
    std::size_t same = 0;
    for (std::size_t i = 0; i < n; ++i) same += u[i] == v[i];
    CHECK(same < 10);
  }
  CHECK(uniform_sample(ew::philox{seed}, n) == u);
}

TEST_CASE("bernoulli is true as often as it says, never at 0 and always at 1") {
  INFO("seed " << seed);
  ww::stream s;
  std::size_t const n = many;
  device_array<unsigned char> seen{n};
  for (double const p : {0.0, 0.001, 0.25, 0.5, 0.9, 1.0}) {
    ew::run(s, ew::out(seen.data(), n) = ew::bernoulli(ew::philox{seed, 3}, p));
    auto const got = seen.fetch(s);
    std::size_t count = 0, wrong = 0;
    for (std::size_t i = 0; i < n; ++i) {
      bool const expected =
          static_cast<double>(reference_bits(seed, 3, 0, i)) < std::floor(p * 4294967296.0 + 0.5);
      if ((got[i] != 0) != expected) ++wrong;
      count += got[i];
    }
    CAPTURE(p, count);
    CHECK(wrong == 0);
    double const expected = p * static_cast<double>(n);
    CHECK(std::fabs(static_cast<double>(count) - expected) <= 5 * std::sqrt(expected * (1 - p)));
  }
  // The last words of 2^32 belong to 1 alone.
  CHECK(ew::detail::bernoulli_function{std::uint64_t{1} << 32U}(0xffffffffU));
  CHECK_FALSE(ew::detail::bernoulli_function{0xffffffffU}(0xffffffffU));
  CHECK_FALSE(ew::detail::bernoulli_function{0}(0));
}

TEST_CASE("dropout scales what it keeps, and its gradient has the same mask") {
  ww::stream s;
  std::size_t const n = 100003;
  device_array<float> x{kernel_test::small_integers<float>(n, 100, 5)};
  device_array<float> dy{kernel_test::small_integers<float>(n, 7, 6)};
  device_array<float> y{n};
  device_array<float> dx{n};
  ew::philox const rng{seed, 9};
  ew::run(s, ew::out(y.data(), n) = ew::dropout(ew::in(x.data(), n) + 1, 0.2, rng));
  ew::run(s, ew::out(dx.data(), n) = ew::dropout(ew::in(dy.data(), n) + 1, 0.2, rng));
  auto const hx = x.fetch(s), hdy = dy.fetch(s), hy = y.fetch(s), hdx = dx.fetch(s);
  std::size_t wrong = 0, kept = 0;
  for (std::size_t i = 0; i < n; ++i) {
    bool const keep = reference_bits(seed, 9, 0, i) >= 858993459U;  // round(0.2 * 2^32)
    kept += keep;
    if (hy[i] != (keep ? (hx[i] + 1) * 1.25F : 0)) ++wrong;
    if (hdx[i] != (keep ? (hdy[i] + 1) * 1.25F : 0)) ++wrong;
  }
  CHECK(wrong == 0);
  CHECK(std::fabs(static_cast<double>(kept) - 0.8 * double(n)) < 5 * std::sqrt(0.16 * double(n)));

  std::vector<float> const special{NAN, HUGE_VALF, -1, 0};
  device_array<float> odd{special};
  device_array<float> out{4};
  ew::run(s, ew::out(out.data(), 4) = ew::dropout(ew::in(odd.data(), 4), 1, rng));
  CHECK(out.fetch(s) == std::vector<float>(4, 0.0F));
  ew::run(s, ew::out(out.data(), 4) = ew::dropout(ew::in(odd.data(), 4), 0, rng));
  auto const all = out.fetch(s);
  CHECK((std::isnan(all[0]) && all[1] == HUGE_VALF && all[2] == -1 && all[3] == 0));
}

TEST_CASE("normal numbers are Box and Muller's, to the bounds stated") {
  INFO("seed " << seed);
  ww::stream s;
  std::size_t const n = many;
  device_array<float> out{n};
  ew::run(s, ew::out(out.data(), n) = ew::normal(ew::philox{seed, 4}));
  auto const z = out.fetch(s);
  std::size_t wrong = 0;
  double worst = 0;
  for (std::size_t i = 0; i < n; ++i) {
    words const w = reference_block(seed, 4, 0, i);
    std::size_t const first = i % 4 / 2 * 2;
    double const bits = static_cast<double>(static_cast<float>(w.of[first]));
    double const u = static_cast<double>(static_cast<float>(bits * 0x1p-32 + 0x1p-33));
    double const angle = 6.283185307179586 * 0x1p-32 * static_cast<double>(w.of[first + 1]);
    double const exact =
        std::sqrt(-2 * std::log(u)) * (i % 2 == 0 ? std::cos(angle) : std::sin(angle));
    double const unit = std::ldexp(1.0, std::ilogb(exact) - 23);
    double const error = std::fabs(static_cast<double>(z[i]) - exact) / unit;
    // Within 2^-33 of a quarter turn the reference's own angle is not exact enough.
    if (std::fabs(exact) < 1e-7 ? std::fabs(static_cast<double>(z[i]) - exact) > 1e-14
                                : error > 6) {
      ++wrong;
    }
    if (std::fabs(exact) >= 1e-7) worst = std::fmax(worst, error);
  }
  CAPTURE(worst);
  CHECK(wrong == 0);
  CHECK(worst > 0.5);  // or the comparison compares nothing
}

TEST_CASE("normal numbers have the moments, the distribution and the tails of the normal") {
  INFO("seed " << seed);
  ww::stream s;
  std::size_t const n = many;
  device_array<float> out{n};
  ew::run(s, ew::out(out.data(), n) = ew::normal(ew::philox{seed, 8}));
  auto const z = out.fetch(s);
  double moment[5] = {};
  std::vector<float> uniform(n);
  std::size_t far = 0;
  for (std::size_t i = 0; i < n; ++i) {
    double power = 1;
    for (double& m : moment) m += power, power *= static_cast<double>(z[i]);
    double const phi = 0.5 * std::erfc(-0.70710678118654752 * static_cast<double>(z[i]));
    uniform[i] = std::fmin(static_cast<float>(phi), 0x1.fffffep-1F);
    far += std::fabs(z[i]) > 4;
  }
  double const count = static_cast<double>(n);
  double const error = 5 / std::sqrt(count);  // five standard errors, times those of z^k
  CHECK(std::fabs(moment[1] / count) < error);
  CHECK(std::fabs(moment[2] / count - 1) < error * std::sqrt(2.0));
  CHECK(std::fabs(moment[3] / count) < error * std::sqrt(15.0));
  CHECK(std::fabs(moment[4] / count - 3) < error * std::sqrt(96.0));
  CHECK(std::fabs(chi_square_excess(uniform, 256)) < 5);
  CHECK(std::fabs(chi_square_excess(uniform, 4096)) < 5);
  for (std::size_t lag : {1U, 2U, 3U, 4U, 128U}) {
    CHECK(std::fabs(correlation(z.data(), z.data() + lag, n - lag)) < 5);
  }
  double const expected = 6.334248366623996e-05 * count;  // 66
  CHECK(std::fabs(static_cast<double>(far) - expected) < 5 * std::sqrt(expected));
}

TEST_CASE("the ends of the normal's transform") {
  CHECK(ew::detail::gaussian_radius(0xffffffffU) == 0);
  CHECK(std::fabs(static_cast<double>(ew::detail::gaussian_radius(0)) -
                  std::sqrt(66 * 0.69314718055994531)) < 1e-6);
  for (std::uint32_t const quarter : {0U, 1U, 2U, 3U}) {
    auto const z = ew::detail::gaussian::make({{0, quarter << 30U, 0, quarter << 30U}});
    float const r = ew::detail::gaussian_radius(0);
    float const x[] = {r, 0, -r, 0};
    float const y[] = {0, r, 0, -r};
    CHECK((z.of[0] == x[quarter] && z.of[1] == y[quarter]));
    CHECK((z.of[2] == x[quarter] && z.of[3] == y[quarter]));
  }
}

TEST_CASE("stochastic rounding goes to either neighbour with the probability of its nearness") {
  check_rounding<__half>(10, -14, 65504, HUGE_VAL);
  check_rounding<__nv_bfloat16>(7, -126, 0x1.fep127, HUGE_VAL);
  check_rounding<__nv_fp8_e4m3>(3, -6, 448, 448);
  check_rounding<__nv_fp8_e5m2>(2, -14, 57344, 57344);
}

TEST_CASE(
    "stochastic rounding never leaves what is exact, and half goes up for half of the words") {
  using ew::detail::random_small_float;
  float const half_way = 1 + 0x1p-8F;
  for (std::uint32_t const word : {0U, 0x7fffffffU, 0x80000000U, 0xffffffffU}) {
    CHECK(random_small_float<__nv_bfloat16>(1.0F, word) == 0x3f80U);
    CHECK(random_small_float<__half>(-1.0F, word) == 0xbc00U);
    CHECK(random_small_float<__nv_fp8_e4m3>(0x1p-9F, word) == 1U);
    CHECK(random_small_float<__nv_fp8_e5m2>(-0.0F, word) == 0x80U);
    CHECK(random_small_float<__nv_bfloat16>(half_way, word) ==
          (word < 0x80000000U ? 0x3f81U : 0x3f80U));
  }
}

TEST_CASE("stochastic rounding is right on average, where rounding to nearest stands still") {
  INFO("seed " << seed);
  ww::stream s;
  std::size_t const n = 1U << 16U;
  device_array<__nv_bfloat16> out{n};
  double const step = 0x1p-7;
  for (double const part : {0.001, 0.25, 0.5, 0.9}) {
    auto const x = static_cast<float>(1 + part * step);
    ew::run(s, ew::out(out.data(), n) =
                   ew::stochastic_round<__nv_bfloat16>(ew::constant(x), ew::philox{seed, 11}));
    double sum = 0;
    for (auto const v : out.fetch(s)) sum += kernel_test::as_double(v) - 1;
    double const mean = sum / static_cast<double>(n) / step;
    CAPTURE(part, mean);
    CHECK(std::fabs(mean - (static_cast<double>(x) - 1) / step) <
          5 * std::sqrt(part * (1 - part) / static_cast<double>(n)));
  }
}

TEST_CASE("an offset in memory is read when the kernel runs: graph replays draw anew") {
  ww::stream s;
  std::size_t const n = 1001;
  device_array<std::uint64_t> offset{std::vector<std::uint64_t>{100}};
  device_array<std::uint32_t> out{n};
  ew::philox const rng{seed, offset.data()};
  ww::graph_replay graph;
  graph.recapture(s, [&](ww::stream_ref) {
    ew::run(s, ew::out(out.data(), n) = ew::random_bits(rng.subsequence(2)));
    ew::advance(s, offset.data());
  });
  CHECK(graph.node_counts().total() == 2);
  for (std::uint64_t replay = 0; replay < 4; ++replay) {
    graph.launch(s);
    auto const got = out.fetch(s);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < n; ++i) wrong += got[i] != reference_bits(seed, 100 + replay, 2, i);
    CHECK(wrong == 0);
  }
  CHECK(offset.fetch(s)[0] == 104);
  ew::advance(s, offset.data(), ~std::uint64_t{0});  // modulo 2^64
  CHECK(offset.fetch(s)[0] == 103);
  std::uint64_t const host_offset = 104;
  std::vector<std::uint32_t> here(3);
  ew::evaluate_host(ew::out(here.data(), 3) = ew::random_bits(ew::philox{seed, &host_offset}));
  CHECK(here[2] == reference_bits(seed, 104, 0, 2));
}

namespace {

template <class Offset>
void check_offset_of_type() {
  ww::stream s;
  std::size_t const n = 65;
  device_array<Offset> offset{std::vector<Offset>{7}};
  device_array<std::uint32_t> out{n};
  Offset const* const reader = offset.data();
  ew::advance(s, offset.data(), 3);
  ew::run(s, ew::out(out.data(), n) = ew::random_bits(ew::philox{seed, reader}));
  auto const got = out.fetch(s);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < n; ++i) wrong += got[i] != reference_bits(seed, 10, 0, i);
  CHECK(wrong == 0);
  CHECK(offset.fetch(s)[0] == 10);
  Offset here = 10;
  std::uint32_t first = 0;
  ew::evaluate_host(ew::out(&first, 1) = ew::random_bits(ew::philox{seed, &here}));
  CHECK(first == reference_bits(seed, 10, 0, 0));
  Offset* const null = nullptr;
  CHECK_THAT(refusal([&] { ew::philox{seed, null}; }), contains("the offset is a null pointer"));
  CHECK_THAT(refusal([&] { ew::philox{seed, null}; }), contains("random_test.cpp:"));
}

}  // namespace

TEST_CASE("an offset in memory may be either unsigned type of 64 bits") {
  check_offset_of_type<unsigned long>();
  check_offset_of_type<unsigned long long>();
}

TEST_CASE("no number is a draw of the generator's, and none is converted on the way") {
  // compute_as widens arrays and numbers; a draw stays what it is.
  CHECK(std::is_same<decltype(ew::compute_as<double>(
                         ew::random_bits(ew::philox{1})))::value_type<void>,
                     std::uint32_t>::value);
  std::vector<double> y(5);
  ew::evaluate_host(ew::out(y.data(), 5) = ew::compute_as<double>(ew::uniform(ew::philox{seed})));
  for (std::size_t i = 0; i < 5; ++i) {
    CHECK(y[i] == static_cast<double>(reference_bits(seed, 0, 0, i) >> 8U) / 16777216.0);
  }
}

TEST_CASE("what cannot be drawn is refused") {
  ww::stream s;
  device_array<float> memory{64};
  float* const p = memory.data();
  ew::philox const rng{seed};
  for (double const bad : {-0.1, 1.5, HUGE_VAL, -HUGE_VAL, std::nan("")}) {
    CHECK_THAT(refusal([&] { static_cast<void>(ew::bernoulli(rng, bad)); }),
               contains("ew::bernoulli: the probability is"));
    CHECK_THAT(refusal([&] { static_cast<void>(ew::dropout(ew::in(p, 4), bad, rng)); }),
               contains("it must be a number from 0 to 1"));
  }
  CHECK_THAT(refusal([&] { static_cast<void>(ew::bernoulli(rng, 1.5)); }),
             contains("random_test.cpp:"));
  std::pair<double, char const*> const named[] = {{1.5, "is 1.5; it must"},
                                                  {-0.1, "is -0.1; it must"},
                                                  {1 + 1e-10, "is 1.0000000001; it must"},
                                                  {1 + 0x1p-52, "is 1.0000000000000002; it must"},
                                                  {-0x1p-1074, "is -4.94066e-324; it must"},
                                                  {2e6, "is 2e+06; it must"},
                                                  {HUGE_VAL, "is inf; it must"},
                                                  {std::nan(""), "is nan; it must"}};
  for (auto const& [p_given, words] : named) {
    double const bad = p_given;
    CHECK_THAT(refusal([&] { static_cast<void>(ew::dropout(ew::in(p, 4), bad, rng)); }),
               contains(std::string{"ew::dropout: the probability "} + words));
  }
  CHECK_THAT(refusal([&] { static_cast<void>(rng.subsequence(65536)); }),
             contains("no subsequence 65536"));
  std::uint64_t* const null = nullptr;
  CHECK_THAT(refusal([&] { ew::philox{seed, null}; }), contains("the offset is a null pointer"));
  CHECK_THAT(refusal([&] { ew::advance(s, null); }), contains("ew::advance"));
  std::int64_t const negative = -1;
  CHECK_THAT(
      refusal([&] { static_cast<void>(rng.subsequence(static_cast<std::uint64_t>(negative))); }),
      contains("there is no subsequence 18446744073709551615 (-1 if signed); they are 0 to"));
  auto* const askew = reinterpret_cast<std::uint64_t*>(std::uintptr_t{4100});
  CHECK_THAT(refusal([&] { ew::advance(s, askew); }),
             contains("ew::advance: the offset is at address 4100, not a multiple of its 8 bytes"));
  // Operands are counted over arrays alone, and an offset in memory is one.
  CHECK_THAT(refusal([&] { ew::run(s, ew::out(p, 8) = ew::uniform(rng) + ew::in(p + 8, 7)); }),
             contains("operand 1 (in) has 7 elements"));
  auto* const inside = reinterpret_cast<std::uint64_t*>(p + 2);
  ew::philox const overlapping{seed, inside};
  CHECK_THAT(refusal([&] { ew::run(s, ew::out(p, 8) = ew::uniform(overlapping)); }),
             contains("operand 1 (philox offset) spans 8 bytes that overlap") &&
                 !contains("exactly in place"));
  CHECK_THAT(
      refusal([&] { ew::run(s, ew::out(p + 8, 8) = ew::uniform(overlapping) + ew::in(p, 7)); }),
      contains("operand 2 (in) has 7 elements"));
}
