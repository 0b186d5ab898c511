// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// run_each(), cast_each() and unscale_each() over lists of tensors. Values are small integers where
// a result is to be exact; optimizers are compared with fp64.
#include <cuda_fp8.h>

#include <warpwright/graph.hpp>
#include <warpwright/kernel/multi_tensor.hpp>

#include <cmath>
#include <deque>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernel/support.hpp"
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

std::vector<std::size_t> const mixed_sizes{0, 1, 2, 3, 1000, 15, 16, 17, 0, 4097, 255, 33, 20011};

// a = a + 2 b, c = a - b, d = b: one array read and written, one read, two of which one is written
// alone.
struct mixing {
  template <class A, class B, class C, class D>
  WARPWRIGHT_HOST_DEVICE void operator()(A& a, B const& b, C& c, D& d) const {
    c = static_cast<C>(static_cast<float>(c) + static_cast<float>(a) - static_cast<float>(b));
    a = static_cast<A>(static_cast<float>(a) + 2.0F * static_cast<float>(b));
    d = static_cast<D>(b);
  }
};

// The tensors of a list, with guards around every array.
template <class A, class B, class C, class D>
struct mixed_tensors {
  std::deque<guarded<A>> a;
  std::deque<guarded<B>> b;
  std::deque<guarded<C>> c;
  std::deque<guarded<D>> d;
  std::vector<std::vector<A>> a0;
  std::vector<std::vector<B>> b0;
  std::vector<std::vector<C>> c0;
  ew::tensor_list<A, B const, C, ew::write_only<D>> list;

  void add(std::size_t n, std::size_t at_a, std::size_t at_b, std::size_t at_c, std::size_t at_d) {
    std::uint64_t const seed = a.size() * 4;
    a0.push_back(small_integers<A>(n, 5, seed));
    b0.push_back(small_integers<B>(n, 5, seed + 1));
    c0.push_back(small_integers<C>(n, 5, seed + 2));
    for (C& value : c0.back()) value = kernel_test::number<C>(as_double(value) + 4);
    a.emplace_back(a0.back(), at_a);
    b.emplace_back(b0.back(), at_b);
    c.emplace_back(c0.back(), at_c);
    d.emplace_back(n, at_d);
    list.add(a.back().data(), b.back().data(), c.back().data(), d.back().data(), n);
  }
  std::size_t wrong_elements(ww::stream_ref s) const {
    std::size_t wrong = 0;
    for (std::size_t k = 0; k < a.size(); ++k) {
      auto const got_a = a[k].fetch(s);
      auto const got_c = c[k].fetch(s);
      auto const got_d = d[k].fetch(s);
      for (std::size_t i = 0; i < got_a.size(); ++i) {
        double const x = as_double(a0[k][i]);
        double const y = as_double(b0[k][i]);
        wrong += as_double(got_a[i]) != x + 2 * y;
        wrong += as_double(got_c[i]) != as_double(c0[k][i]) + x - y;
        wrong += as_double(got_d[i]) != y;
      }
      wrong += !a[k].intact(s) || !b[k].intact(s) || !c[k].intact(s) || !d[k].intact(s);
    }
    return wrong;
  }
};

template <class A, class B, class C, class D>
void check_types() {
  ww::stream s;
  {
    mixed_tensors<A, B, C, D> t;
    for (std::size_t n : mixed_sizes) t.add(n, 0, 0, 0, 0);
    ew::run_each(s, t.list, mixing{});
    CHECK(t.wrong_elements(s) == 0);
  }
  mixed_tensors<A, B, C, D> t;
  for (std::size_t offset = 0; offset < 16; ++offset) {
    t.add(100 + offset, offset, offset, offset, offset);
    t.add(300 + offset, offset, 0, 0, 0);
    t.add(200 + offset, 0, offset, 1, 16 - offset);
    t.add(offset, offset, offset, 3, offset);
  }
  ew::run_each(s, t.list, mixing{});
  CHECK(t.wrong_elements(s) == 0);
}

struct add_one {
  template <class T>
  WARPWRIGHT_HOST_DEVICE void operator()(T& x) const {
    x += 1;
  }
};

struct add_one_and_last {
  WARPWRIGHT_HOST_DEVICE void operator()(float& x, float, float& y, float z) const {
    x += 1;
    y += z;
  }
};

struct three_floats {
  float a, b, c;
};
struct rotate_three {
  WARPWRIGHT_HOST_DEVICE void operator()(three_floats& t, bool flip, double& sum) const {
    sum = static_cast<double>(t.a) + static_cast<double>(t.b) + static_cast<double>(t.c);
    if (flip) t = {t.b, t.c, t.a};
  }
};

// Adam with everything that changes from step to step in device memory.
struct device_numbers {
  float learning_rate;
  float step;
  float found_inf;
};
struct adam {
  device_numbers const* numbers;
  float weight_decay = 0.0F;
  float step_size = 0.0F;
  float root_of_correction = 0.0F;
  float decay = 0.0F;

  WARPWRIGHT_HOST_DEVICE bool prepare() {
    if (numbers->found_inf != 0.0F) return false;
    // 1 - beta^step without cancellation
    float const first = -::expm1f(numbers->step * -0.105360515657826F);   // log 0.9
    float const second = -::expm1f(numbers->step * -0.001000500333583F);  // log 0.999
    step_size = numbers->learning_rate / first;
    root_of_correction = ::sqrtf(second);
    decay = 1.0F - numbers->learning_rate * weight_decay;
    return true;
  }
  WARPWRIGHT_HOST_DEVICE void operator()(float& p, float g, float& m, float& v) const {
    m = 0.9F * m + 0.1F * g;
    v = 0.999F * v + 0.001F * g * g;
    p = p * decay - step_size * m / (::sqrtf(v) / root_of_correction + 1e-8F);
  }
  // With the parameter's copy in 16 bits.
  WARPWRIGHT_HOST_DEVICE void operator()(float& p, float g, float& m, float& v, float& copy) const {
    (*this)(p, g, m, v);
    copy = p;
  }
};

struct adam_in_fp64 {
  std::vector<double> p, m, v;
  template <class T>
  explicit adam_in_fp64(std::vector<T> const& start) : m(start.size()), v(start.size()) {
    for (T x : start) p.push_back(as_double(x));
  }
  template <class T>
  void step(std::vector<T> const& gradient, double rate, int t, double weight_decay) {
    for (std::size_t i = 0; i < p.size(); ++i) {
      double const g = as_double(gradient[i]);
      m[i] = 0.9 * m[i] + 0.1 * g;
      v[i] = 0.999 * v[i] + 0.001 * g * g;
      double const first = m[i] / (1 - std::pow(0.9, t));
      double const second = v[i] / (1 - std::pow(0.999, t));
      p[i] = p[i] * (1 - rate * weight_decay) - rate * first / (std::sqrt(second) + 1e-8);
    }
  }
};

template <class T>
std::vector<T> scattered(std::size_t n, std::uint64_t seed) {
  kernel_test::random_numbers random{seed};
  std::vector<T> values(n);
  for (T& value : values) value = kernel_test::number<T>(2 * random.unit() - 1);
  return values;
}

void set_numbers(ww::stream& s, device_array<device_numbers> const& to, device_numbers value) {
  ww::check(cudaMemcpyAsync(to.data(), &value, sizeof value, cudaMemcpyHostToDevice, s.get()),
            "cudaMemcpyAsync");
  s.synchronize();
}

}  // namespace

TEST_CASE("types of one kind and mixed") {
  check_types<float, float, float, float>();
  check_types<__half, __half, __half, __half>();
  check_types<float, __half, double, __nv_fp8_e5m2>();
  check_types<unsigned char, signed char, short, unsigned short>();
  check_types<std::int64_t, __nv_fp8_e4m3, std::uint64_t, unsigned>();
#if WARPWRIGHT_TEST_EVERY_TYPE
  check_types<double, double, double, double>();
  check_types<__nv_bfloat16, __nv_bfloat16, __nv_bfloat16, __nv_bfloat16>();
  check_types<__nv_fp8_e4m3, __nv_fp8_e4m3, __nv_fp8_e4m3, __nv_fp8_e4m3>();
  check_types<int, int, int, int>();
  check_types<float, __nv_bfloat16, float, __nv_bfloat16>();
  check_types<__half, float, unsigned char, double>();
#endif
}

TEST_CASE("a list of 4,097 tensors, one of each size, in one launch or a few") {
  ww::stream s;
  for (std::size_t offset : {0U, 1U}) {
    std::size_t const count = 4097;
    device_array<unsigned char> memory{std::vector<unsigned char>(count * (count + 20) * 2, 7)};
    ew::tensor_list<unsigned char> list;
    std::vector<unsigned char> expected(memory.size(), 7);
    std::size_t at = offset;
    for (std::size_t n = 0; n < count; ++n, at += 2 * n + 1 - offset) {
      list.add(memory.data() + at, n);
      for (std::size_t i = 0; i < n; ++i) expected[at + i] = 8;
    }
    ew::run_each(s, list, add_one{});
    CHECK(memory.fetch(s) == expected);
  }
}

TEST_CASE("user structs, conditions and doubles in one list") {
  ww::stream s;
  std::deque<guarded<three_floats>> t;
  std::deque<guarded<bool>> flip;
  std::deque<guarded<double>> sum;
  std::vector<std::vector<unsigned char>> flips;
  ew::tensor_list<three_floats, bool const, ew::write_only<double>> list;
  for (std::size_t n : mixed_sizes) {
    std::vector<three_floats> values(n);
    for (std::size_t i = 0; i < n; ++i) {
      auto const v = static_cast<float>(i);
      values[i] = {v, v + 1, v + 2};
    }
    t.emplace_back(values, 1);
    flip.emplace_back(n, 3);
    sum.emplace_back(n, 1);
    flips.push_back(small_integers<unsigned char>(n, 2, 3));
    guarded<unsigned char> const bytes{flips.back(), 0};
    ww::check(cudaMemcpy(flip.back().data(), bytes.data(), n, cudaMemcpyDeviceToDevice),
              "cudaMemcpy");
    ww::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    list.add(t.back().data(), flip.back().data(), sum.back().data(), n);
  }
  ew::run_each(s, list, rotate_three{});
  std::size_t wrong = 0;
  for (std::size_t k = 0; k < t.size(); ++k) {
    auto const got = t[k].fetch(s);
    auto const sums = sum[k].fetch(s);
    for (std::size_t i = 0; i < got.size(); ++i) {
      auto const v = static_cast<float>(i);
      wrong +=
          got[i].a != (flips[k][i] != 0 ? v + 1 : v) || got[i].c != (flips[k][i] != 0 ? v : v + 2);
      wrong += sums[i] != 3 * static_cast<double>(v) + 3;
    }
    wrong += !t[k].intact(s) || !sum[k].intact(s);
  }
  CHECK(wrong == 0);
}

TEST_CASE("an array written exactly in place of one that is read") {
  ww::stream s;
  auto const x = small_integers<float>(5001, 50, 9);
  guarded<float> y{x, 1};
  ew::tensor_list<ew::write_only<float>, float const> list;
  list.add(y.data(), y.data(), x.size());
  ew::cast_each(s, list);
  CHECK(y.fetch(s) == x);
  CHECK(y.intact(s));
}

TEST_CASE("a list longer than a launch takes") {
  ww::stream s;
  using list_type = ew::tensor_list<float, float const, float, float const>;
  std::size_t const count = 2 * list_type::tensors_per_launch + 3;
  std::size_t const n = 9;
  device_array<float> a{std::vector<float>(count * n, 1.0F)};
  device_array<float> b{std::vector<float>(count * n, 2.0F)};
  device_array<float> const unread{std::vector<float>(n)};
  list_type list;
  for (std::size_t k = 0; k < count; ++k) {
    list.add(a.data() + k * n, unread.data(), b.data() + k * n, a.data() + k * n, n - 1);
    list.add(nullptr, nullptr, nullptr, nullptr, 0);  // takes no place
  }
  CHECK(list.size() == 2 * count);
#if WARPWRIGHT_HOST_RUNTIME
  std::uint64_t const before = ww::testing::total_calls();
#endif
  ew::run_each(s, list, add_one_and_last{});
#if WARPWRIGHT_HOST_RUNTIME
  CHECK(ww::testing::total_calls() == before + 3);
#endif
  auto const got_a = a.fetch(s);
  auto const got_b = b.fetch(s);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < count * n; ++i) {
    bool const inside = i % n != n - 1;
    wrong += got_a[i] != (inside ? 2.0F : 1.0F) || got_b[i] != (inside ? 3.0F : 2.0F);
  }
  CHECK(wrong == 0);
}

TEST_CASE("no elements is no work") {
  ww::stream s;
  ew::tensor_list<float> list;
#if WARPWRIGHT_HOST_RUNTIME
  std::uint64_t const before = ww::testing::total_calls();
#endif
  ew::run_each(s, list, add_one{});
  for (int k = 0; k < 1000; ++k) list.add(nullptr, 0);
  ew::run_each(s, list, add_one{});
  ew::run_each_host(list, add_one{});
#if WARPWRIGHT_HOST_RUNTIME
  CHECK(ww::testing::total_calls() == before);
#endif
  CHECK(s.done());
}

TEST_CASE("Adam follows fp64, and stands still where an infinity was found") {
  ww::stream s;
  float const weight_decay = 0.1F;
  std::deque<guarded<float>> p, m, v;
  std::deque<guarded<__nv_bfloat16>> g, copy;
  std::vector<std::vector<__nv_bfloat16>> gradients;
  std::vector<adam_in_fp64> exact;
  ew::tensor_list<float, __nv_bfloat16 const, float, float, ew::write_only<__nv_bfloat16>> list;
  std::size_t offset = 0;
  for (std::size_t n : mixed_sizes) {
    auto const start = scattered<float>(n, n);
    gradients.push_back(scattered<__nv_bfloat16>(n, n + 1));
    p.emplace_back(start, offset);
    g.emplace_back(gradients.back(), offset);
    m.emplace_back(std::vector<float>(n), offset);
    v.emplace_back(std::vector<float>(n), n % 3 == 0 ? 0 : offset);
    copy.emplace_back(n, offset);
    exact.emplace_back(start);
    list.add(p.back().data(), g.back().data(), m.back().data(), v.back().data(), copy.back().data(),
             n);
    offset = (offset + 1) % 5;
  }
  device_array<device_numbers> numbers{1};
  for (int t = 1; t <= 6; ++t) {
    float const rate = 0.01F / static_cast<float>(t);
    bool const skip = t % 3 == 0;
    set_numbers(s, numbers, {rate, static_cast<float>(t), skip ? 1.0F : 0.0F});
    ew::run_each(s, list, adam{numbers.data(), weight_decay});
    if (skip) continue;
    for (std::size_t k = 0; k < exact.size(); ++k) {
      exact[k].step(gradients[k], static_cast<double>(rate), t, static_cast<double>(weight_decay));
    }
  }
  double worst = 0;
  std::size_t wrong = 0;
  for (std::size_t k = 0; k < exact.size(); ++k) {
    auto const got = p[k].fetch(s);
    auto const got_copy = copy[k].fetch(s);
    auto const got_v = v[k].fetch(s);
    for (std::size_t i = 0; i < got.size(); ++i) {
      worst = std::fmax(worst, std::fabs(static_cast<double>(got[i]) - exact[k].p[i]));
      worst = std::fmax(worst, std::fabs(static_cast<double>(got_v[i]) - exact[k].v[i]));
      wrong += as_double(got_copy[i]) !=
               as_double(kernel_test::number<__nv_bfloat16>(static_cast<double>(got[i])));
    }
    wrong += !p[k].intact(s) || !m[k].intact(s) || !v[k].intact(s) || !copy[k].intact(s);
  }
  CHECK(wrong == 0);
  CHECK(worst <= 5e-7);  // a few roundings of numbers up to 1
}

TEST_CASE("a captured step reads its numbers anew at every replay") {
  ww::stream s;
  std::size_t const n = 3001;
  auto const start = scattered<float>(n, 1);
  auto const gradient = scattered<float>(n, 2);
  device_array<float> p{start}, g{gradient}, m{std::vector<float>(n)}, v{std::vector<float>(n)};
  device_array<device_numbers> numbers{1};
  ww::graph_replay graph;
  {
    ew::tensor_list<float, float const, float, float> list;  // may end before the replay
    list.add(p.data(), g.data(), m.data(), v.data(), 1000);
    list.add(p.data() + 1000, g.data() + 1000, m.data() + 1000, v.data() + 1000, n - 1000);
    graph.recapture(s, [&](ww::stream_ref) { ew::run_each(s, list, adam{numbers.data()}); });
  }
  CHECK(graph.node_counts().total() == 1);
  adam_in_fp64 exact{start};
  for (int t = 1; t <= 4; ++t) {
    float const rate = 0.01F * static_cast<float>(t);
    set_numbers(s, numbers, {rate, static_cast<float>(t), t == 2 ? 1.0F : 0.0F});
    graph.launch(s);
    s.synchronize();
    if (t != 2) exact.step(gradient, static_cast<double>(rate), t, 0);
  }
  auto const got = p.fetch(s);
  double worst = 0;
  for (std::size_t i = 0; i < n; ++i) {
    worst = std::fmax(worst, std::fabs(static_cast<double>(got[i]) - exact.p[i]));
  }
  CHECK(worst <= 5e-7);
}

TEST_CASE("casts round as cast() does") {
  ww::stream s;
  std::vector<float> x{0.0F,
                       -0.0F,
                       1.0F + 0x1p-9F,
                       70000.0F,
                       -1e30F,
                       1e-41F,
                       2.5F,
                       std::numeric_limits<float>::infinity(),
                       -std::numeric_limits<float>::infinity()};
  for (int k = 0; k < 500; ++k) x.push_back(static_cast<float>(k) / 7.0F);
  guarded<float> from{x, 1};
  guarded<__half> narrow{x.size(), 0};
  guarded<int> whole{x.size(), 0};
  ew::tensor_list<ew::write_only<__half>, float const> halves;
  halves.add(narrow.data(), from.data(), x.size());
  ew::cast_each(s, halves);
  ew::tensor_list<ew::write_only<int>, float const> wholes;
  wholes.add(whole.data(), from.data(), x.size());
  ew::cast_each(s, wholes);
  auto const got = narrow.fetch(s);
  auto const got_whole = whole.fetch(s);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    wrong += as_double(got[i]) != as_double(kernel_test::number<__half>(static_cast<double>(x[i])));
    int const most = std::numeric_limits<int>::max();
    int const least = std::numeric_limits<int>::min();
    wrong += got_whole[i] != (x[i] >= 0x1p31F    ? most
                              : x[i] <= -0x1p31F ? least
                                                 : static_cast<int>(x[i]));
  }
  CHECK(wrong == 0);
  std::vector<__half> here(x.size());
  ew::tensor_list<ew::write_only<__half>, float const> on_host;
  on_host.add(here.data(), x.data(), x.size());
  ew::cast_each_host(on_host);
  wrong = 0;
  for (std::size_t i = 0; i < x.size(); ++i) wrong += as_double(here[i]) != as_double(got[i]);
  CHECK(wrong == 0);
}

template <class T>
void check_unscaling(double special, std::size_t place) {
  ww::stream s;
  device_array<float> numbers{std::vector<float>{8.0F, 0.0F}};
  std::deque<guarded<T>> g;
  std::vector<std::vector<T>> values;
  ew::tensor_list<T> list;
  for (std::size_t n : mixed_sizes) {
    values.push_back(small_integers<T>(n, 100, n));
    if (place < n) values.back()[place] = kernel_test::number<T>(special);
    g.emplace_back(values.back(), n % 4);
    list.add(g.back().data(), n);
  }
  ew::unscale_each(s, list, numbers.data(), numbers.data() + 1);
  bool const finite = special - special == 0;
  CHECK(numbers.fetch(s) == std::vector<float>{8.0F, finite ? 0.0F : 1.0F});
  std::size_t wrong = 0;
  for (std::size_t k = 0; k < g.size(); ++k) {
    auto const got = g[k].fetch(s);
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (i == place) continue;
      wrong += as_double(got[i]) != as_double(values[k][i]) / 8;
    }
    wrong += !g[k].intact(s);
  }
  CHECK(wrong == 0);
}

TEST_CASE("unscaling finds what is not finite, wherever it is") {
  double const infinity = std::numeric_limits<double>::infinity();
  check_unscaling<float>(3, 5);
  for (std::size_t place : {0U, 1U, 16U, 4096U, 20010U}) check_unscaling<float>(infinity, place);
  check_unscaling<float>(std::nan(""), 20009);
  check_unscaling<double>(-infinity, 2);
  check_unscaling<__half>(infinity, 16);
#if WARPWRIGHT_TEST_EVERY_TYPE
  check_unscaling<__half>(4, 2);
  check_unscaling<__nv_bfloat16>(std::nan(""), 999);
#endif
  ww::stream s;
  ew::tensor_list<float> list;
  float here[3] = {4, 6, std::numeric_limits<float>::infinity()};
  float const scale = 2;
  float found = 0;
  list.add(here, 2);
  ew::unscale_each_host(list, &scale, &found);
  CHECK((here[0] == 2 && here[1] == 3 && found == 0));
  list.add(here + 2, 1);
  ew::unscale_each_host(list, &scale, &found);
  CHECK(found == 1);
  // Finite as computed, infinite as kept.
  __half large = __float2half(60000.0F);
  ew::tensor_list<__half> halves;
  halves.add(&large, 1);
  float const one_half = 0.5F;
  found = 0;
  ew::unscale_each_host(halves, &one_half, &found);
  CHECK(found == 1);
  // Saturated as kept.
  for (int const code : {0x7c, 0xfc, 0x7f, 0x7b}) {  // infinities, NaN, 57344
    CAPTURE(code);
    std::vector<unsigned char> const bytes{0x3c, static_cast<unsigned char>(code)};
    device_array<unsigned char> gradients{bytes};
    device_array<float> numbers{std::vector<float>{8.0F, 0.0F}};
    ew::tensor_list<__nv_fp8_e5m2> eights;
    eights.add(reinterpret_cast<__nv_fp8_e5m2*>(gradients.data()), 2);
    ew::unscale_each(s, eights, numbers.data(), numbers.data() + 1);
    CHECK(numbers.fetch(s)[1] == (code == 0x7b ? 0 : 1));
    CHECK(gradients.fetch(s)[0] == 0x30);  // 1 / 8
    std::vector<unsigned char> mine = bytes;
    ew::tensor_list<__nv_fp8_e5m2> on_host;
    on_host.add(reinterpret_cast<__nv_fp8_e5m2*>(mine.data()), 2);
    float const eight = 8;
    found = 0;
    ew::unscale_each_host(on_host, &eight, &found);
    CHECK(found == (code == 0x7b ? 0 : 1));
    CHECK(mine == gradients.fetch(s));
  }
  CHECK_THAT(refusal([&] { ew::unscale_each(s, list, nullptr, &found); }),
             contains("the scale is a null pointer") && contains("multi_tensor_test.cpp:"));
  auto* const askew = reinterpret_cast<float*>(reinterpret_cast<char*>(&found) + 2);
  CHECK_THAT(refusal([&] { ew::unscale_each(s, list, askew, &found); }),
             contains("the scale is at address ") && contains("its element's 4 bytes"));
  CHECK_THAT(refusal([&] { ew::unscale_each(s, list, &scale, askew); }),
             contains("the flag is at address "));
  CHECK_THAT(refusal([&] { ew::unscale_each(s, list, &scale, nullptr); }),
             contains("the flag is a null pointer"));
}

TEST_CASE("the host's loop does what the kernel does") {
  ww::stream s;
  std::vector<std::vector<float>> here, device_values;
  std::deque<guarded<float>> there;
  ew::tensor_list<float> on_host, on_device;
  for (std::size_t n : mixed_sizes) here.push_back(small_integers<float>(n, 9, n));
  for (auto& values : here) {
    there.emplace_back(values, 1);
    on_host.add(values.data(), values.size());
    on_device.add(there.back().data(), values.size());
  }
  ew::run_each(s, on_device, add_one{});
  ew::run_each_host(on_host, add_one{});
  for (std::size_t k = 0; k < here.size(); ++k) CHECK(there[k].fetch(s) == here[k]);
  device_numbers stop{0.1F, 1.0F, 1.0F};
  float p = 1, g = 1, m = 0, v = 0;
  ew::tensor_list<float, float const, float, float> one;
  one.add(&p, &g, &m, &v, 1);
  ew::run_each_host(one, adam{&stop});
  CHECK(p == 1);
  stop.found_inf = 0;
  ew::run_each_host(one, adam{&stop});
  CHECK(std::fabs(static_cast<double>(p) - 0.9) < 1e-6);
}

#if WARPWRIGHT_HOST_RUNTIME

TEST_CASE("a launch's failure is the caller's to see, and those before it stand") {
  ww::stream s;
  std::size_t const count = ew::tensor_list<float>::tensors_per_launch + 1;
  device_array<float> x{std::vector<float>(count, 1.0F)};
  ew::tensor_list<float> list;
  for (std::size_t k = 0; k < count; ++k) list.add(x.data() + k, 1);
  for (std::uint64_t nth : {1U, 2U}) {
    ww::testing::fault_plan const plan =
        ww::testing::fault_plan{}.fail("cudaLaunchKernel", nth, cudaErrorLaunchOutOfResources);
    ww::testing::scoped_fault_plan const active{plan};
    try {
      ew::run_each(s, list, add_one{});
      FAIL("the launch was to fail");
    } catch (ww::cuda_error const& error) {
      CHECK(error.code() == cudaErrorLaunchOutOfResources);
      CHECK_THAT(error.what(), contains("multi_tensor_test.cpp"));
    }
    CHECK(active.hits() == 1);
  }
  auto const got = x.fetch(s);
  CHECK(got[0] == 2.0F);
  CHECK(got[count - 2] == 2.0F);
  CHECK(got[count - 1] == 1.0F);
  ew::run_each(s, list, add_one{});
  CHECK(x.fetch(s)[count - 1] == 2.0F);
}

#endif
