// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"

#include <warpwright/graph/graph_replay.hpp>
#include <warpwright/memory.hpp>
#include <warpwright/train/optimizers.hpp>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace ww = warpwright;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

std::vector<unsigned char> encoded(std::vector<double> const& values, ww::element_type type) {
  std::vector<unsigned char> bytes(values.size() * ww::size_of(type));
  for (std::size_t i = 0; i < values.size(); ++i) {
    auto const f = static_cast<float>(values[i]);
    if (type == ww::element_type::float32) {
      std::memcpy(&bytes[4 * i], &f, 4);
    } else if (type == ww::element_type::float16) {
      __half const h = __float2half(f);
      std::memcpy(&bytes[2 * i], &h, 2);
    } else {
      __nv_bfloat16 const b = __float2bfloat16(f);
      std::memcpy(&bytes[2 * i], &b, 2);
    }
  }
  return bytes;
}
std::vector<double> decoded(std::vector<unsigned char> const& bytes, ww::element_type type) {
  std::vector<double> values(bytes.size() / ww::size_of(type));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (type == ww::element_type::float32) {
      float f;
      std::memcpy(&f, &bytes[4 * i], 4);
      values[i] = static_cast<double>(f);
    } else if (type == ww::element_type::float16) {
      __half h;
      std::memcpy(&h, &bytes[2 * i], 2);
      values[i] = static_cast<double>(__half2float(h));
    } else {
      __nv_bfloat16 b;
      std::memcpy(&b, &bytes[2 * i], 2);
      values[i] = static_cast<double>(__bfloat162float(b));
    }
  }
  return values;
}

/// Tensors in one buffer, each `shift` elements behind a boundary of 256 bytes.
class tensors {
 public:
  tensors(ww::memory_pool& pool, ww::stream_ref stream, std::vector<std::size_t> const& sizes,
          std::vector<ww::element_type> const& types, std::size_t shift = 0,
          std::string const& name = "t")
      : stream_{stream} {
    std::size_t bytes = 256;
    for (std::size_t const n : sizes) bytes += (n + shift) * 4 + 512;
    memory_ = ww::device_buffer<unsigned char>{pool, stream, bytes};
    std::size_t at = 0;
    for (std::size_t k = 0; k < sizes.size(); ++k) {
      ww::element_type const type = types[k % types.size()];
      list.add(name + std::to_string(k), memory_.data() + at + shift * ww::size_of(type), type,
               sizes[k]);
      at += ((sizes[k] + shift) * 4 + 511) / 256 * 256;
    }
  }
  void set(std::size_t k, std::vector<double> const& values) {
    std::vector<unsigned char> const bytes = encoded(values, list[k].type);
    if (!bytes.empty()) copy(list[k].data, bytes.data(), bytes.size(), cudaMemcpyHostToDevice);
  }
  std::vector<double> get(std::size_t k) const { return read(list[k]); }
  std::vector<double> read(ww::tensor const& t) const {
    std::vector<unsigned char> bytes(t.bytes());
    if (!bytes.empty()) copy(bytes.data(), t.data, bytes.size(), cudaMemcpyDeviceToHost);
    return decoded(bytes, t.type);
  }
  ww::tensor_list list;

 private:
  void copy(void* to, void const* from, std::size_t n, cudaMemcpyKind kind) const {
    ww::check(cudaMemcpyAsync(to, from, n, kind, stream_.get()), "cudaMemcpyAsync");
    stream_.synchronize();
  }
  ww::stream_ref stream_;
  ww::device_buffer<unsigned char> memory_;
};

struct fixture {
  ww::stream stream;
  ww::memory_pool pool{ww::current_device()};
  std::mt19937 random{7};

  std::vector<double> values(std::size_t n, double scale = 1.0) {
    std::vector<double> v(n);
    std::uniform_real_distribution<double> unit{-scale, scale};
    for (double& x : v) x = unit(random);
    return v;
  }
};

using element = ww::element_type;
std::vector<std::size_t> const sizes{1, 3, 0, 4, 1023, 8192, 8193, 20000};
std::vector<element> const all_types{element::float32, element::bfloat16, element::float16};

struct hyper {
  double rate = 1e-2, first = 0.9, second = 0.99, epsilon = 1e-8, decay = 0.1;
};
struct adamw_formula {
  static void apply(hyper const& h, int step, double& p, double& m, double& v, double g) {
    m += (1 - h.first) * (g - m);
    v += (1 - h.second) * (g * g - v);
    double const mean = m / (1 - std::pow(h.first, step));
    double const square = v / (1 - std::pow(h.second, step));
    p -= h.rate * (h.decay * p + mean / (std::sqrt(square) + h.epsilon));
  }
};
struct sgd_formula {
  static void apply(hyper const& h, int, double& p, double& m, double&, double g) {
    m = h.first * m + g + h.decay * p;
    p -= h.rate * m;
  }
};
struct lion_formula {
  static void apply(hyper const& h, int, double& p, double& m, double&, double g) {
    double const direction = h.first * m + (1 - h.first) * g;
    p -= h.rate * ((direction > 0 ? 1 : direction < 0 ? -1 : 0) + h.decay * p);
    m = h.second * m + (1 - h.second) * g;
  }
};

// Three steps with a scale of 8 and clipping; tensors of all types, gradients of others.
template <class Optimizer, class Formula, class Options>
void check_formula(Options const& options, std::size_t shift) {
  fixture f;
  tensors p{f.pool, f.stream, sizes, all_types, shift};
  tensors g{f.pool, f.stream, sizes, {element::bfloat16, element::float32}, shift};
  std::vector<std::vector<double>> exact;
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    p.set(k, f.values(sizes[k]));
    exact.push_back(p.get(k));
  }
  auto m = exact;
  for (auto& t : m) std::fill(t.begin(), t.end(), 0.0);
  auto v = m;
  ww::loss_scaler scaler{f.pool, f.stream, ww::loss_scaler_options{}.initial(8.0F)};
  Optimizer optimizer{f.pool, f.stream, p.list, options.clip(2.0F)};
  for (int step = 1; step <= 3; ++step) {
    double squares = 0;
    for (std::size_t k = 0; k < sizes.size(); ++k) {
      g.set(k, f.values(sizes[k], step == 2 ? 1e-2 : 8.0));
      for (double const x : g.get(k)) squares += x * x / 64;
    }
    optimizer.step(f.stream, g.list, scaler);
    double const norm = std::sqrt(squares);
    double const factor = (norm > 2 ? 2 / norm : 1) / 8;
    for (std::size_t k = 0; k < sizes.size(); ++k) {
      auto const gradient = g.get(k);
      for (std::size_t i = 0; i < sizes[k]; ++i) {
        Formula::apply(hyper{}, step, exact[k][i], m[k][i], v[k][i], factor * gradient[i]);
      }
    }
    float got = 0;
    ww::check(cudaMemcpy(&got, optimizer.gradient_norm(), 4, cudaMemcpyDeviceToHost), "cudaMemcpy");
    CHECK(static_cast<double>(got) == Approx(norm).epsilon(1e-6));
  }
  ww::tensor_list state;
  optimizer.add_to(state);
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    CAPTURE(k, shift);
    std::string const name = "optimizer.master.t" + std::to_string(k);
    ww::tensor const* const master = state.find(name.c_str());
    bool const is_small = p.list[k].type != element::float32 && sizes[k] != 0;
    REQUIRE((master != nullptr) == is_small);
    auto const got = is_small ? p.read(*master) : p.get(k);
    double worst = 0;
    std::size_t outliers = 0;  // of lion, whose sign a rounding may turn
    for (std::size_t i = 0; i < sizes[k]; ++i) {
      double const error = std::fabs(got[i] - exact[k][i]);
      if (error > 1e-3) {
        ++outliers;
      } else {
        worst = std::fmax(worst, error);
      }
    }
    CHECK(worst <= 2e-6);
    CHECK(outliers <= sizes[k] / 1000);
    if (is_small) CHECK(p.get(k) == decoded(encoded(got, p.list[k].type), p.list[k].type));
  }
}

}  // namespace

TEST_CASE("adamw, sgd and lion follow their formulas, in tensors of all types") {
  for (std::size_t const shift : {0U, 1U}) {
    check_formula<ww::adamw, adamw_formula>(
        ww::adamw_options{}.rate(1e-2F).betas(0.9F, 0.99F).decay(0.1F), shift);
    check_formula<ww::sgd, sgd_formula>(ww::sgd_options{}.rate(1e-2F).momentum(0.9F).decay(0.1F),
                                        shift);
    check_formula<ww::lion, lion_formula>(
        ww::lion_options{}.rate(1e-2F).betas(0.9F, 0.99F).decay(0.1F), shift);
  }
}

TEST_CASE(
    "a step with an infinity or a NaN changes nothing but the scale, which names the tensor") {
  fixture f;
  tensors p{f.pool, f.stream, {5, 9000, 4}, {element::bfloat16}};
  tensors g{f.pool, f.stream, {5, 9000, 4}, {element::float16}};
  for (std::size_t k = 0; k < 3; ++k) p.set(k, f.values(p.list[k].size));
  ww::loss_scaler scaler{f.pool, f.stream, ww::loss_scaler_options{}.initial(4.0F).floor(2.0F)};
  ww::adamw optimizer{f.pool, f.stream, p.list};
  for (double const bad : {static_cast<double>(infinity), std::nan("")}) {
    auto const before = p.get(1);
    for (std::size_t k = 0; k < 3; ++k) g.set(k, f.values(g.list[k].size));
    auto values = f.values(9000);
    values[8999] = bad;
    g.set(1, values);
    optimizer.step(f.stream, g.list, scaler);
    CHECK(p.get(1) == before);
    CHECK(scaler.status(f.stream).tensor == "t1");
  }
  CHECK(scaler.status(f.stream).scale == 2.0F);
  CHECK(scaler.status(f.stream).skipped == 2);
  CHECK_THROWS_WITH(scaler.check(f.stream),
                    Catch::Contains("the gradient 't1' is not finite, and the scale is at its "
                                    "floor of 2; 1 step in a row had no effect"));
  std::uint32_t steps = 9;
  ww::check(cudaMemcpy(&steps, optimizer.steps(), 4, cudaMemcpyDeviceToHost), "cudaMemcpy");
  CHECK(steps == 0);
  for (std::size_t k = 0; k < 3; ++k) g.set(k, f.values(g.list[k].size));
  optimizer.step(f.stream, g.list, scaler);
  scaler.check(f.stream);
}

TEST_CASE("replays go on: the step, the schedule and the moments") {
  fixture f;
  auto const options = ww::adamw_options{}.rate(0.1F).warm_up(2).cosine(6, 0.1F);
  std::vector<double> results[2];
  for (bool const captured : {false, true}) {
    fixture same;
    tensors p{same.pool, same.stream, {100, 9000}, {element::float32}};
    tensors g{same.pool, same.stream, {100, 9000}, {element::float32}};
    for (std::size_t k = 0; k < 2; ++k) {
      p.set(k, same.values(p.list[k].size));
      g.set(k, same.values(p.list[k].size));
    }
    ww::loss_scaler scaler{same.pool, same.stream};
    ww::adamw optimizer{same.pool, same.stream, p.list, options};
    ww::graph_replay graph;
    for (int i = 0; i < 8; ++i) {
      auto const step = [&](ww::stream_ref s) { optimizer.step(s, g.list, scaler); };
      captured ? static_cast<void>(graph.run(same.stream, step)) : step(same.stream);
    }
    results[captured ? 1 : 0] = p.get(1);
  }
  CHECK(results[0] == results[1]);
}

TEST_CASE("rates rise, and fall along a line or a cosine") {
  ww::detail::rate_schedule s;
  CHECK(s.factor(5) == 1.0F);
  s.warm_up = 4;
  CHECK(s.factor(0) == 0.25F);
  CHECK(s.factor(3) == 1.0F);
  s.after_warm_up = ww::detail::rate_schedule::linear;
  s.total = 14;
  s.last = 0.5F;
  CHECK(s.factor(4) == 1.0F);
  CHECK(s.factor(9) == Approx(0.75));
  CHECK(s.factor(14) == 0.5F);
  CHECK(s.factor(1000) == 0.5F);
  s.after_warm_up = ww::detail::rate_schedule::cosine;
  CHECK(s.factor(9) == Approx(0.75));
  CHECK(s.factor(6) == Approx(0.5 + 0.5 * 0.5 * (1 + std::cos(0.2 * 3.14159265))));
}

TEST_CASE("groups have their own options, and one norm") {
  fixture f;
  tensors a{f.pool, f.stream, {10}, {element::float32}};
  tensors b{f.pool, f.stream, {10}, {element::float32}, 0, "u"};
  tensors g{f.pool, f.stream, {10, 10}, {element::float32}};
  a.set(0, std::vector<double>(10, 1.0));
  b.set(0, std::vector<double>(10, 1.0));
  for (std::size_t k = 0; k < 2; ++k) g.set(k, std::vector<double>(10, 0.0));
  auto const o = ww::sgd_options{}.rate(0.5F).momentum(0.0F);
  ww::sgd optimizer{f.pool, f.stream, {{a.list, o.decay(0.5F)}, {b.list, o}}};
  optimizer.step(f.stream, g.list);
  CHECK(a.get(0)[3] == 0.75);
  CHECK(b.get(0)[3] == 1.0);
}

TEST_CASE("gradients may move from step to step, and a graph brings its own") {
  fixture f;
  tensors p{f.pool, f.stream, {1000}, {element::float32}};
  tensors a{f.pool, f.stream, {1000}, {element::float32}};
  tensors b{f.pool, f.stream, {1000}, {element::float32}};
  p.set(0, std::vector<double>(1000, 0.0));
  a.set(0, std::vector<double>(1000, 1.0));
  b.set(0, std::vector<double>(1000, 100.0));
  ww::sgd optimizer{f.pool, f.stream, p.list, ww::sgd_options{}.rate(1.0F).momentum(0.0F)};
  ww::graph_replay graph{0};
  auto const with_a = [&](ww::stream_ref s) { optimizer.step(s, a.list); };
  optimizer.step(f.stream, a.list);
  graph.run(f.stream, with_a);
  optimizer.step(f.stream, b.list);
  graph.run(f.stream, with_a);
  optimizer.step(f.stream, b.list);
  CHECK(p.get(0) == std::vector<double>(1000, -203.0));
}

TEST_CASE("stochastic rounding keeps what is too small for the type, on average") {
  fixture f;
  constexpr std::size_t n = 40000;
  tensors p{f.pool, f.stream, {n}, {element::bfloat16}};
  tensors g{f.pool, f.stream, {n}, {element::float32}};
  p.set(0, std::vector<double>(n, 1.0));
  g.set(0, std::vector<double>(n, 1.0));
  auto const o = ww::sgd_options{}.rate(1e-4F).momentum(0.0F);  // a step of bfloat16 is 2^-8 there
  ww::sgd optimizer{f.pool, f.stream, p.list, o.stochastic_rounding(3)};
  for (int i = 0; i < 10; ++i) optimizer.step(f.stream, g.list);
  double sum = 0;
  for (double const x : p.get(0)) sum += x;
  CHECK(sum / n == Approx(1.0 - 1e-3).margin(6e-5));
}

TEST_CASE("moments in bfloat16 take half of the memory") {
  fixture f;
  tensors p{f.pool, f.stream, {1000}, {element::float32}};
  tensors g{f.pool, f.stream, {1000}, {element::float32}};
  p.set(0, f.values(1000));
  auto const start = p.get(0);
  g.set(0, f.values(1000));
  ww::adamw optimizer{f.pool, f.stream, p.list, ww::adamw_options{}.rate(1e-2F).small_moments()};
  ww::tensor_list state;
  optimizer.add_to(state);
  CHECK(state.find("optimizer.first.t0")->type == element::bfloat16);
  optimizer.step(f.stream, g.list);
  auto const got = p.get(0);
  auto const gradient = g.get(0);
  for (std::size_t i = 0; i < 1000; ++i) {
    REQUIRE(got[i] == Approx(start[i] - (gradient[i] > 0 ? 1e-2 : -1e-2)).margin(2e-4));
  }
}

TEST_CASE("options and tensors that are not allowed are refused with what is wrong") {
  fixture f;
  tensors p{f.pool, f.stream, {4, 4}, {element::float32}};
  auto const error = [&](auto const& call) -> std::string {
    try {
      call();
    } catch (std::invalid_argument const& e) {
      return e.what();
    }
    return "none";
  };
  auto const with = [&](ww::adamw_options const& o) {
    return error([&] { ww::adamw{f.pool, f.stream, p.list, o}; });
  };
  ww::adamw_options const o;
  CHECK_THAT(with(o.rate(-1.0F)), contains("rate of -1; give 0 to 1e9"));
  CHECK_THAT(with(o.rate(NAN)), contains("rate of nan"));
  CHECK_THAT(with(o.betas(1.0F, 0.9F)), contains("first beta, or momentum of 1"));
  CHECK_THAT(with(o.epsilon(0.0F)), contains("epsilon of 0"));
  CHECK_THAT(with(o.warm_up(5).cosine(5)), contains("total steps of 5; give more than the warm"));
  ww::tensor_list overlapping;
  auto* const data = static_cast<float*>(p.list[0].data);
  overlapping.add("a", data, 4).add("b", data + 3, 4);
  CHECK_THAT(error([&] {
               ww::adamw{f.pool, f.stream, overlapping};
             }),
             contains("parameters 'a' and 'b' overlap"));
  ww::tensor_list adjacent;
  adjacent.add("a", data, 2).add("b", data + 2, 2);
  CHECK(error([&] { ww::adamw{f.pool, f.stream, adjacent}; }) == "none");
  ww::tensor_list integers;
  integers.add("ids", reinterpret_cast<std::int32_t*>(data), 4);
  CHECK_THAT(error([&] {
               ww::adamw{f.pool, f.stream, integers};
             }),
             contains("parameter 'ids' is of int32; give float32, float16 or bfloat16"));
  ww::adamw optimizer{f.pool, f.stream, p.list};
  ww::tensor_list few;
  few.add("g", data, 4);
  CHECK_THAT(error([&] { optimizer.step(f.stream, few); }),
             contains("1 gradients for 2 parameters"));
  ww::tensor_list other;
  other.add("g", data, {2, 2}).add("h", data, 4);
  CHECK_THAT(error([&] { optimizer.step(f.stream, other); }),
             contains("gradient 'g' of float32 2x2 for parameter 't0' of 4"));
  CHECK_THAT(error([&] { other.add("g", data, 4); }), contains("'g' is in the list already"));
  CHECK_THAT(error([&] { other.add("n", static_cast<float*>(nullptr), 4); }),
             contains("has a null pointer"));
  ww::adamw nothing{f.pool, f.stream, ww::tensor_list{}};
  nothing.step(f.stream, ww::tensor_list{});
}
