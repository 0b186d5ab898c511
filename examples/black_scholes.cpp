// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Call and put prices of many European options as one kernel with two outputs. The Black-Scholes
// formula has a closed form, so the prices are compared with it in double, and with put-call
// parity. The same source runs on a GPU (nvcc) and on the host runtime (g++).
//
// Source: F. Black, M. Scholes, "The Pricing of Options and Corporate Liabilities", Journal of
// Political Economy 81 (1973).
#include <warpwright/core.hpp>
#include <warpwright/kernel.hpp>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <vector>

namespace ww = warpwright;
namespace ew = warpwright::ew;

namespace {

constexpr std::size_t n = 200001;
constexpr float rate = 0.03F;        // per year, compounded continuously
constexpr float volatility = 0.25F;  // per year

float* to_device(std::vector<float> const& values) {
  void* p = nullptr;
  std::size_t const bytes = values.size() * sizeof(float);
  ww::check(cudaMalloc(&p, bytes), "cudaMalloc");
  ww::check(cudaMemcpy(p, values.data(), bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
  return static_cast<float*>(p);
}

std::vector<float> from_device(float const* p) {
  std::vector<float> values(n);
  ww::check(cudaMemcpy(values.data(), p, n * sizeof(float), cudaMemcpyDeviceToHost), "cudaMemcpy");
  return values;
}

// The standard normal distribution function of an expression.
template <class X>
auto normal_cdf(X const& x) {
  return 0.5F + 0.5F * ew::erf(x * 0.70710678F);
}
double normal_cdf_in_double(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

int run() {
  std::vector<float> host_spot(n), host_strike(n), host_years(n);
  std::uint64_t state = 2026;
  auto const between = [&state](float low, float high) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return low + (high - low) * static_cast<float>(state >> 40U) * 0x1p-24F;
  };
  for (std::size_t i = 0; i < n; ++i) {
    host_spot[i] = between(5, 200);
    host_strike[i] = between(5, 200);
    host_years[i] = between(0.05F, 5);
  }
  float* const spot = to_device(host_spot);
  float* const strike = to_device(host_strike);
  float* const years = to_device(host_years);
  float* const call = to_device(std::vector<float>(n));
  float* const put = to_device(std::vector<float>(n));
  ww::check(cudaDeviceSynchronize(),
            "cudaDeviceSynchronize");  // the stream is not ordered after the copies

  auto const s = ew::in(spot, n);
  auto const k = ew::in(strike, n);
  auto const t = ew::in(years, n);
  auto const deviation = volatility * ew::sqrt(t);
  auto const d1 = (ew::log(s / k) + (rate + 0.5F * volatility * volatility) * t) / deviation;
  auto const d2 = d1 - deviation;
  auto const discounted = k * ew::exp(-rate * t);
  ww::stream stream;
  ew::run(stream,  // reads three arrays and writes two
          ew::tie(ew::out(call, n) = s * normal_cdf(d1) - discounted * normal_cdf(d2),
                  ew::out(put, n) = discounted * normal_cdf(-d2) - s * normal_cdf(-d1)));
  stream.synchronize();
  std::vector<float> const calls = from_device(call);
  std::vector<float> const puts = from_device(put);
  for (float* p : {spot, strike, years, call, put}) ww::check(cudaFree(p), "cudaFree");

  // A price is the difference of two products, so its error is proportional to their sum: in units
  // of 2^-24 (S + K), half the spacing of floats of that size. The common error of d1 and d2
  // cancels in the prices, as S phi(d1) = K exp(-r T) phi(d2).
  double worst_price = 0;
  double worst_parity = 0;
  for (std::size_t i = 0; i < n; ++i) {
    auto const S = static_cast<double>(host_spot[i]);
    auto const K = static_cast<double>(host_strike[i]);
    auto const T = static_cast<double>(host_years[i]);
    auto const r = static_cast<double>(rate);
    auto const sigma = static_cast<double>(volatility);
    double const x1 = (std::log(S / K) + (r + 0.5 * sigma * sigma) * T) / (sigma * std::sqrt(T));
    double const x2 = x1 - sigma * std::sqrt(T);
    double const paid = K * std::exp(-r * T);
    double const exact_call = S * normal_cdf_in_double(x1) - paid * normal_cdf_in_double(x2);
    double const exact_put = paid * normal_cdf_in_double(-x2) - S * normal_cdf_in_double(-x1);
    double const unit = 0x1p-24 * (S + K);
    auto const c = static_cast<double>(calls[i]);
    auto const p = static_cast<double>(puts[i]);
    // A comparison that is false for a NaN.
    auto const record = [unit](double& worst, double error) {
      if (!(std::fabs(error) <= worst * unit)) worst = std::fabs(error) / unit;
    };
    record(worst_price, c - exact_call);
    record(worst_price, p - exact_put);
    record(worst_parity, (c - p) - (S - paid));
  }
  std::printf("%zu options; errors in units of 2^-24 (S + K): prices %.1f, put-call parity %.1f\n",
              n, worst_price, worst_parity);
  bool const right = worst_price <= 8 && worst_parity <= 16;
  if (!right) std::fprintf(stderr, "wrong prices: the bounds are 8 and 16\n");
  return right ? 0 : 1;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
