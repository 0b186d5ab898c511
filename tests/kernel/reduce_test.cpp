// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// reduce(): every element once, for all sizes, alignments, types and shapes. The values are small
// integers, so that sums are exact and results are compared as such.
#include <warpwright/graph.hpp>
#include <warpwright/kernel/reduce.hpp>
#include <warpwright/memory/pool.hpp>

#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "kernel/support.hpp"
#include "kernel/sweep.hpp"
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
using kernel_test::refusal;
using kernel_test::small_integers;
using test_support::device_array;

namespace {

template <class T>
std::vector<T> first(std::vector<T> const& values, std::size_t n) {
  return {values.begin(), values.begin() + static_cast<std::ptrdiff_t>(n)};
}

// What eight reductions of x make, in the order of check_array().
struct expectation {
  double sum = 0, squares = 0, least = 0, most = 0;
  std::uint64_t least_at = ew::no_index, most_at = ew::no_index, above = 0;
};
template <class T>
expectation expected_of(std::vector<T> const& x, std::size_t n) {
  expectation e;
  for (std::size_t i = 0; i < n; ++i) {
    double const v = as_double(x[i]);
    e.sum += v;
    e.squares += v * v;
    if (i == 0 || v < e.least) e.least = v, e.least_at = i;
    if (i == 0 || v > e.most) e.most = v, e.most_at = i;
    if (v > 5) ++e.above;
  }
  return e;
}

// Memory and results for one array after another.
class eight_reductions_fixture {
 public:
  explicit eight_reductions_fixture(ww::stream& s)
      : stream_{s}, memory_{std::size_t{1} << 17U}, numbers_{6, 1}, places_{2, 1}, count_{1, 1} {
    workspace_.push_back(
        ew::prepare_workspace(s, memory_.data(), memory_.size()));  // no default constructor
  }

  template <class T>
  bool right(std::vector<T> const& x, std::size_t n, std::size_t offset) {
    guarded<T> dx{first(x, n), offset};
    return right(ew::in(dx.data(), n), expected_of(x, n), n);
  }
  template <class X>
  bool right(X const& e, expectation const& want, std::size_t n) {
    using value = typename X::template value_type<void>;
    double* const r = numbers_.data();
    ew::reduce(stream_, workspace_[0], n, ew::to(r) = ew::sum(e), ew::to(r + 1) = ew::mean(e),
               ew::to(r + 2) = ew::norm(e).template in<double>(), ew::to(r + 3) = ew::min(e),
               ew::to(r + 4) = ew::max(e), ew::to(places_.data()) = ew::argmin(e),
               ew::to(places_.data() + 1) = ew::argmax(e),
               ew::to(count_.data()) = ew::count_if(e > 5));
    std::vector<double> const got = numbers_.fetch(stream_);
    std::vector<ew::located<double>> const at = places_.fetch(stream_);
    std::uint64_t const above = count_.fetch(stream_)[0];
    bool good = numbers_.intact(stream_) && places_.intact(stream_) && count_.intact(stream_);
    double const mean = want.sum / static_cast<double>(n);
    bool const rounded = std::is_same<value, float>::value;
    good = good && got[0] == want.sum && above == want.above;
    good = good &&
           (n == 0 ? std::isnan(got[1])
                   : got[1] == (rounded ? static_cast<double>(static_cast<float>(mean)) : mean));
    good = good && got[2] == std::sqrt(want.squares);
    good = good && at[0].index == want.least_at && at[1].index == want.most_at;
    if (n != 0) {
      good = good && got[3] == want.least && got[4] == want.most && at[0].value == want.least &&
             at[1].value == want.most;
    }
    return good;
  }

 private:
  ww::stream& stream_;
  device_array<unsigned char> memory_;
  std::vector<ew::reduction_workspace> workspace_;
  guarded<double> numbers_;
  guarded<ew::located<double>> places_;
  guarded<std::uint64_t> count_;
};

template <class T>
void check_type() {
  ww::stream s;
  eight_reductions_fixture fixture{s};
  std::vector<T> const x = small_integers<T>(40000, 30, 1);
  for (std::size_t n : {0U,    1U,    2U,    3U,     15U,    16U,    17U,    31U,   33U,
                        255U,  256U,  257U,  1023U,  1024U,  1025U,  4095U,  4096U, 4097U,
                        8191U, 8192U, 8193U, 16383U, 16384U, 16385U, 32769U, 40000U}) {
    CAPTURE(n);
    REQUIRE(fixture.right(x, n, 0));
  }
  for (std::size_t offset = 0; offset < 16; ++offset) {
    CAPTURE(offset);
    for (std::size_t n : {1U, 5U, 20U, 1000U, 5001U}) REQUIRE(fixture.right(x, n, offset));
  }
}

struct xor_of {
  WARPWRIGHT_HOST_DEVICE unsigned operator()(unsigned a, unsigned b) const { return a ^ b; }
};
// Mean and spread of parts put together: T. F. Chan et al., "Updating formulae and a pairwise
// algorithm for computing sample variances" (1979).
struct moments {
  double count, mean, squares;
};
struct moments_of_one {
  WARPWRIGHT_HOST_DEVICE moments operator()(float x) const {
    return {1, static_cast<double>(x), 0};
  }
};
struct together {
  WARPWRIGHT_HOST_DEVICE moments operator()(moments a, moments b) const {
    double const n = a.count + b.count;
    if (n == 0) return a;
    double const d = b.mean - a.mean;
    return {n, a.mean + d * b.count / n, a.squares + b.squares + d * d * a.count * b.count / n};
  }
};

}  // namespace

TEST_CASE("sizes around vectors and warps") {
  ww::stream s;
  eight_reductions_fixture fixture{s};
  auto const x = small_integers<float>(4096, 30, 4);
  for (std::size_t n = 0; n <= kernel_test::most_size; n = kernel_test::next_size(n)) {
    CAPTURE(n);
    REQUIRE(fixture.right(x, n, n % 5));
  }
}

TEST_CASE("sizes around a block's iteration and around the whole grid's") {
  ww::stream s;
  eight_reductions_fixture fixture{s};
  std::size_t const iteration = 256 * 4;
  auto const x = small_integers<float>(2 * 4 * 528 * iteration + 5, 4, 5);
  for (std::size_t tiles :
       {std::size_t{1}, std::size_t{2}, std::size_t{527}, std::size_t{528}, std::size_t{529},
        std::size_t{4 * 528}, std::size_t{4 * 528 + 1}, std::size_t{8 * 528}}) {
    if (kernel_test::sanitized && tiles > 2 && tiles != 528) continue;
    for (std::size_t n : {tiles * iteration - 1, tiles * iteration, tiles * iteration + 1}) {
      CAPTURE(n);
      REQUIRE(fixture.right(x, n, 0));
    }
    REQUIRE(fixture.right(x, tiles * iteration, 1));
  }
}

TEST_CASE("types") {
  check_type<float>();
  check_type<double>();
  check_type<unsigned char>();
  check_type<std::int64_t>();
#if WARPWRIGHT_TEST_EVERY_TYPE
  check_type<__half>();
  check_type<__nv_bfloat16>();
  check_type<signed char>();
  check_type<short>();
  check_type<int>();
  check_type<unsigned>();
  check_type<std::uint64_t>();
#endif
}

TEST_CASE("expressions of several arrays, at offsets of their own") {
  ww::stream s;
  eight_reductions_fixture fixture{s};
  std::uint64_t const seed = 11;
  INFO("seed " << seed);
  kernel_test::random_numbers random{seed};
  for (int k = 0; k < kernel_test::rounds(60); ++k) {
    std::size_t const rows = 1 + random.below(40);
    std::size_t const cols = 1 + random.below(k % 4 == 0 ? 2000 : 90);
    std::size_t const n = rows * cols;
    auto const x = small_integers<__half>(n, 9, random.next());
    auto const y = small_integers<float>(n, 9, random.next());
    auto const r = small_integers<float>(cols, 9, random.next());
    auto const c = small_integers<short>(rows, 9, random.next());
    guarded<__half> dx{x, random.below(8)};
    guarded<float> dy{y, random.below(4)}, dr{r, random.below(4)}, two{std::vector<float>{2.0F}, 0};
    guarded<short> dc{c, random.below(8)};
    CAPTURE(n, cols);
    std::vector<float> all(n);
    for (std::size_t i = 0; i < n; ++i) {
      all[i] = static_cast<float>(as_double(x[i])) + y[i] * 2 + r[i % cols] - c[i / cols];
    }
    REQUIRE(fixture.right(ew::in(dx.data(), n) +
                              ew::in(dy.data(), n) * ew::device_scalar(two.data()) +
                              ew::row(dr.data(), cols) - ew::col(dc.data(), cols),
                          expected_of(all, n), n));
    for (std::size_t i = 0; i < n; ++i) all[i] = static_cast<float>(i % 7) + y[i] - y[n - 1 - i];
    guarded<float> reversed{std::vector<float>(y.rbegin(), y.rend()), random.below(4)};
    REQUIRE(fixture.right(
        ew::cast<float>(ew::index() % 7) + ew::in(dy.data(), n) - ew::in(reversed.data(), n),
        expected_of(all, n), n));
  }
}

TEST_CASE("an array named several times is one array") {
  ww::stream s;
  eight_reductions_fixture fixture{s};
  for (std::size_t n : {1U, 100U, 4099U, 70001U}) {
    for (std::size_t offset : {0U, 1U, 3U}) {
      auto const x = small_integers<float>(n, 5, n);
      guarded<float> dx{x, offset};
      auto const e = ew::in(dx.data(), n);
      std::vector<float> all(n);
      for (std::size_t i = 0; i < n; ++i) all[i] = x[i] * x[i] - x[i];
      CAPTURE(n, offset);
      REQUIRE(fixture.right(e * e - ew::compute_as<float>(e), expected_of(all, n), n));
      auto const other = ew::in(dx.data(), n);  // another array of that type beside it
      guarded<float> dy{small_integers<float>(n, 5, 2), 2};
      auto const y = dy.fetch(s);
      for (std::size_t i = 0; i < n; ++i) all[i] = x[i] * y[i] - x[i];
      REQUIRE(fixture.right(e * ew::in(dy.data(), n) - other, expected_of(all, n), n));
    }
  }
}

TEST_CASE("results go to the types that they are given") {
  ww::stream s;
  device_array<unsigned char> memory{1U << 17U};
  auto const w = ew::prepare_workspace(s, memory.data(), memory.size());
  device_array<float> x{std::vector<float>{3, -70000, 2.5F, 70000}};
  auto const e = ew::in(x.data(), 4);
  guarded<__half> h{1, 0};
  guarded<int> i{1, 0}, at{1, 0};
  guarded<unsigned char> b{1, 0};
  guarded<signed char> any{1, 0};
  guarded<ew::located<int>> where{1, 0};
  ew::reduce(s, w, 4, ew::to(h.data()) = ew::max(e), ew::to(i.data()) = ew::sum(e),
             ew::to(b.data()) = ew::min(e), ew::to(at.data()) = ew::argmax(e),
             ew::to(any.data()) = ew::count_if(e > 3), ew::to(where.data()) = ew::argmin(e));
  CHECK(std::isinf(as_double(h.fetch(s)[0])));
  CHECK(i.fetch(s)[0] == 5);
  CHECK(b.fetch(s)[0] == 0);
  CHECK(at.fetch(s)[0] == 3);
  CHECK(any.fetch(s)[0] == 1);
  CHECK((where.fetch(s)[0].value == -70000 && where.fetch(s)[0].index == 1));
}

TEST_CASE("the identities are the results of no elements") {
  ww::stream s;
  device_array<unsigned char> memory{1U << 17U};
  auto const w = ew::prepare_workspace(s, memory.data(), memory.size());
  float const* const null = nullptr;
  auto const e = ew::in(null, 0);
  auto const [sum, mean, norm, least, most, at, above, bad, bits] = ew::reduce(
      s, w, 0, ew::sum(e), ew::mean(e), ew::norm(e * e), ew::min(e), ew::max(e), ew::argmax(e),
      ew::count_if(e > 0), ew::count_nonfinite(e), ew::fold(ew::cast<unsigned>(e), 0U, xor_of{}));
  CHECK((sum == 0 && !std::signbit(sum) && norm == 0 && above == 0 && bad == 0 && bits == 0));
  CHECK(std::isnan(mean));
  CHECK(least == std::numeric_limits<float>::infinity());
  CHECK(most == -std::numeric_limits<float>::infinity());
  CHECK((at.index == ew::no_index && at.value == most));
  int const* const no_int = nullptr;
  CHECK(ew::reduce(s, w, 0, ew::min(ew::in(no_int, 0))) == (std::numeric_limits<int>::max)());
  CHECK(ew::reduce(s, w, 0, ew::max(ew::in(no_int, 0))) == (std::numeric_limits<int>::min)());
}

TEST_CASE("functions of the user's own") {
  ww::stream s;
  device_array<unsigned char> memory{1U << 17U};
  auto const w = ew::prepare_workspace(s, memory.data(), memory.size());
  for (std::size_t n : {1U, 1000U, 300001U}) {
    auto const x = small_integers<float>(n, 1000, n);
    guarded<float> dx{x, 1};
    auto const e = ew::in(dx.data(), n);
    auto const [bits, m] = ew::reduce(
        s, w, n, ew::fold(ew::cast<unsigned>(e) + ew::cast<unsigned>(ew::index()), 0U, xor_of{}),
        ew::fold(ew::map(moments_of_one{}, e), moments{0, 0, 0}, together{}));
    unsigned want = 0;
    double sum = 0, squares = 0;
    for (std::size_t i = 0; i < n; ++i) {
      want ^= static_cast<unsigned>(x[i]) + static_cast<unsigned>(i);
      sum += static_cast<double>(x[i]);
    }
    double const mean = sum / static_cast<double>(n);
    for (float const v : x)
      squares += (static_cast<double>(v) - mean) * (static_cast<double>(v) - mean);
    CAPTURE(n);
    CHECK(bits == want);
    CHECK(m.count == static_cast<double>(n));
    CHECK(std::fabs(m.mean - mean) <= 1e-12 * mean);
    CHECK(std::fabs(m.squares - squares) <= 1e-10 * squares);
  }
}

TEST_CASE("a workspace is as large as is said, and nothing is written past it") {
  ww::stream s;
  std::size_t const n = 3000000;
  device_array<float> x{small_integers<float>(n, 3, 1)};
  auto const e = ew::in(x.data(), n);
  auto const a = ew::sum(e);
  auto const b = ew::argmax(e);
  std::size_t const bytes = ew::reduction_workspace_bytes(a, b);
  CHECK(bytes < 20000);
  guarded<unsigned char> memory{bytes, 0};
  auto const w = ew::prepare_workspace(s, memory.data(), bytes);
  device_array<float> r{1};
  device_array<std::uint64_t> at{1};
  CHECK(ew::reduction_workspace_bytes(ew::to(r.data()) = a, ew::to(at.data()) = b) == bytes);
  auto const [sum, found] = ew::reduce(s, w, n, a, b);
  ew::reduce(s, w, n, ew::to(r.data()) = a, ew::to(at.data()) = b);
  CHECK(r.fetch(s)[0] == sum);
  CHECK(at.fetch(s)[0] == found.index);
  CHECK(memory.intact(s));
  std::vector<unsigned char> const after = memory.fetch(s);
  CHECK((after[0] == 0 && after[1] == 0 && after[2] == 0 && after[3] == 0));  // the ticket
}

TEST_CASE("misuse is refused by number, figures and remedy") {
  ww::stream s;
  device_array<unsigned char> memory{1U << 17U};
  auto const w = ew::prepare_workspace(s, memory.data(), memory.size());
  device_array<float> x{std::vector<float>(64, 1.0F)};
  device_array<float> r{4};
  auto const e = ew::in(x.data(), 64);
  float* const null = nullptr;
  auto* const odd = reinterpret_cast<float*>(reinterpret_cast<char*>(r.data()) + 2);
  auto* const inside = reinterpret_cast<float*>(memory.data() + 1024);
  auto const to = [&](float* p) { return ew::to(p) = ew::sum(e); };
  auto const text = [&](auto const&... goals) {
    std::string const why = refusal([&] { ew::reduce(s, w, 64, goals...); });
    CHECK_THAT(why, contains("reduce_test.cpp:"));
    return why;
  };
  CHECK_THAT(text(to(null)), contains("result 1 is a null pointer"));
  CHECK_THAT(text(to(r.data()), to(odd)), contains("result 2 is at address"));
  CHECK_THAT(text(to(odd)), contains("not a multiple of its element's 4 bytes"));
  CHECK_THAT(text(to(r.data()), to(inside)), contains("result 2 goes into the workspace"));
  CHECK_THAT(text(to(r.data()), to(r.data() + 1), to(r.data())),
             contains("result 3 goes where result 1 does"));
  CHECK_THAT(text(ew::to(r.data()) = ew::sum(ew::in(x.data(), 63))),
             contains("operand 1 (in) has 63 elements, but the reduction has 64"));
  CHECK_THAT(text(to(r.data()), ew::to(r.data() + 1) = ew::max(ew::in(null, 64))),
             contains("operand 2 (in) is a null pointer"));
  CHECK_THAT(text(ew::to(r.data()) = ew::sum(ew::row(x.data(), 10))),
             contains("cols = 10, which does not divide the reduction's 64"));
  CHECK_THAT(
      refusal([&] { ew::reduce(s, w, ~std::size_t{0}, ew::to(r.data()) = ew::sum(ew::index())); }),
      contains("the reduction has 18446744073709551615 (-1 if signed) elements; an array has 0 to "
               "2^59"));
  int const negative = -1;
  auto const given = refusal([&] { ew::reduce(s, w, negative, to(r.data())); });
  CHECK_THAT(given, contains("ew: the reduction has -1 elements; a length is 0 or more"));
  CHECK_THAT(given, contains("reduce_test.cpp:"));
  auto const small = ew::prepare_workspace(s, memory.data(), 2048);
  CHECK_THAT(refusal([&] { ew::reduce(s, small, 64, to(r.data())); }),
             contains("the workspace has 2048 bytes, but this call needs "));
  CHECK_THAT(refusal([&] { static_cast<void>(ew::reduce(s, small, 64, ew::sum(e))); }),
             contains("reduction_workspace_bytes()"));
  CHECK_THAT(refusal([&] { ew::prepare_workspace(s, nullptr, 4096); }),
             contains("the workspace is a null pointer"));
  CHECK_THAT(refusal([&] { ew::prepare_workspace(s, memory.data() + 8, 4096); }),
             contains("not a multiple of its element's 16 bytes"));
  CHECK_THAT(refusal([&] { ew::prepare_workspace(s, memory.data(), 2047); }),
             contains("has 2047 bytes"));
  auto const boundless = ew::prepare_workspace(s, memory.data(), ~std::size_t{0});
  CHECK_THAT(refusal([&] {
               ew::reduce(s, boundless, 64, to(reinterpret_cast<float*>(memory.data() + 64)));
             }),
             contains("result 1 goes into the workspace"));
  float here = 0;
  CHECK_THAT(refusal([&] { ew::reduce_host(64, ew::to(null) = ew::sum(e)); }),
             contains("result 1 is a null pointer"));
  CHECK_THAT(refusal([&] { ew::reduce_host(63, ew::to(&here) = ew::sum(e)); }),
             contains("operand 1 (in) has 64 elements"));
  // A result may lie in an array that is read.
  ew::reduce(s, w, 64, to(x.data() + 5));
  CHECK(x.fetch(s)[5] == 64);
}

TEST_CASE("a graph replays reductions on new values") {
  ww::stream s;
  std::size_t const n = 1000003;
  device_array<float> x{std::vector<float>(n, 1.0F)};
  device_array<float> r{2};
  device_array<unsigned char> memory{1U << 15U};
  auto const w = ew::prepare_workspace(s, memory.data(), memory.size());
  s.synchronize();
  ww::graph_replay graph;
  graph.recapture(s, [&](ww::stream_ref) {
    auto const e = ew::in(x.data(), n);
    ew::reduce(s, w, n, ew::to(r.data()) = ew::sum(e));
    ew::reduce(s, w, n, ew::to(r.data() + 1) = ew::max(e * ew::device_scalar(r.data())));
  });
  CHECK(graph.node_counts().total() == 2);
  graph.launch(s);
  CHECK(r.fetch(s) == std::vector<float>{1000003, 1000003});
  std::vector<float> const twos(n, 2.0F);
  ww::check(
      cudaMemcpyAsync(x.data(), twos.data(), n * sizeof(float), cudaMemcpyHostToDevice, s.get()),
      "cudaMemcpyAsync");
  for (int k = 0; k < 2; ++k) {
    graph.launch(s);
    CHECK(r.fetch(s) == std::vector<float>{2000006, 4000012});
  }
}

TEST_CASE("a pool gives the workspace and gets it back") {
  ww::stream s;
  ww::memory_pool pool{ww::current_device()};
  device_array<float> x{std::vector<float>(5000, 1.0F)};
  device_array<float> r{1};
  auto const e = ew::in(x.data(), 5000);
  for (int k = 0; k < 3; ++k) {
    ew::reduce(s, pool, 5000, ew::to(r.data()) = ew::sum(e * 2));
    CHECK(ew::reduce(s, pool, 5000, ew::max(e)) == 1);
  }
  CHECK(r.fetch(s)[0] == 10000);
  CHECK(pool.statistics().live_bytes == 0);
  float* const null = nullptr;
  CHECK_THAT(refusal([&] { ew::reduce(s, pool, 5000, ew::to(null) = ew::sum(e)); }),
             contains("null pointer"));
  CHECK(pool.statistics().live_bytes == 0);
  pool.retire(s);
  ww::memory_pool small{ww::current_device(), ww::memory_pool_options{}.maximum_bytes(1024)};
  CHECK_THROWS_WITH(ew::reduce(s, small, 5000, ew::to(r.data()) = ew::sum(e)),
                    contains("reduce_test.cpp") && contains("out of memory"));
  // A pool without a source_location parameter is accepted, too.
  struct plain_pool {
    ww::memory_pool& behind;
    void* allocate(ww::stream_ref on, std::size_t bytes) { return behind.allocate(on, bytes); }
    void deallocate(ww::stream_ref on, void* p, std::size_t bytes) {
      behind.deallocate(on, p, bytes);
    }
  } plain{pool};
  CHECK(ew::reduce(s, plain, 5000, ew::max(e)) == 1);
  pool.retire(s);
}

#if WARPWRIGHT_HOST_RUNTIME

TEST_CASE("reduce makes one CUDA call, and its failure is the caller's to see") {
  ww::stream s;
  device_array<unsigned char> memory{1U << 15U};
  device_array<float> r{1};
  auto const w = ew::prepare_workspace(s, memory.data(), memory.size());
  auto const goal = ew::to(r.data()) = ew::sum(ew::cast<float>(ew::index()));
  std::uint64_t const before = ww::testing::total_calls();
  ew::reduce(s, w, 100, goal);
  CHECK(ww::testing::total_calls() == before + 1);
  {
    ww::testing::fault_plan const plan =
        ww::testing::fault_plan{}.fail("cudaLaunchKernel", 1, cudaErrorLaunchOutOfResources);
    ww::testing::scoped_fault_plan const active{plan};
    try {
      ew::reduce(s, w, 100, goal);
      FAIL("the launch was to fail");
    } catch (ww::cuda_error const& error) {
      CHECK(error.code() == cudaErrorLaunchOutOfResources);
      CHECK_THAT(error.what(), contains("reduce_test.cpp"));
    }
    CHECK(active.hits() == 1);
  }
  CHECK(r.fetch(s)[0] == 4950);
}

#endif
