// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/train/detail/optimizer_kernels.hpp>

#include <cmath>
#include <cstdint>

WARPWRIGHT_BEGIN

namespace detail {

struct health_values {
  float outlier = 6.0F;
  std::uint32_t window = 128;
};
/// @throws std::invalid_argument  for values out of range
health_values checked(health_values const& values, source_location where);

/// Numbers that come one by one, on the device.
struct health_series {
  std::uint32_t values;
  std::uint32_t not_finite;
  std::uint32_t outliers;
  std::uint32_t last_outlier;
  float mean;
  float variance;
  float last;
  std::uint32_t usual;  // values that mean and variance are of

  WARPWRIGHT_HOST_DEVICE void take(float x, health_values const& with) {
    ++values;
    last = x;
    if (!(x - x == 0.0F)) {
      ++not_finite;
      return;
    }
    float const apart = x - mean;
    // A constant has no deviation; what differs from it in its last digits is no outlier.
    float const least = 1e-6F * (mean < 0.0F ? -mean : mean);
    float const deviation = ::sqrtf(variance) + least;
    if (4 * usual >= with.window && (apart < 0.0F ? -apart : apart) > with.outlier * deviation) {
      ++outliers;
      last_outlier = values;
      // It counts a little, so that a new level is the usual one after a window.
      mean += apart / static_cast<float>(with.window);
      variance += apart * (apart / static_cast<float>(with.window));
      return;
    }
    ++usual;
    float const share = 1.0F / static_cast<float>(usual < with.window ? usual : with.window);
    mean += share * apart;
    variance = (1.0F - share) * (variance + share * apart * apart);
  }
};

struct health_state {
  health_series loss;
  health_series norm;
};

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

struct observe_kernel : kernel_base<warp_size> {
  health_state* state;
  health_values with;
  float const* loss;
  float const* norm;

  template <class Block>
  WARPWRIGHT_HOST_DEVICE void operator()(Block& block) const {
    block.for_each_thread([&](unsigned t) {
      if (t == 0 && loss != nullptr) state->loss.take(*loss, with);
      if (t == 1 && norm != nullptr) state->norm.take(*norm, with);
    });
  }
};

/// Counts what is not finite in each tensor, in counts[its number].
struct scan_kernel : kernel_base<train_threads> {
  using observe_kernel = detail::observe_kernel;
  using shared = reduction_scratch<std::uint32_t, train_threads>;
  optimizer_view view;
  std::uint64_t* counts;

  template <class Block>
  WARPWRIGHT_HOST_DEVICE void operator()(Block& block) const {
    std::uint32_t const i = view.tensor_of[block.index()];
    trained_tensor const& tensor = view.tensors[i];
    auto found = block.template per_thread<std::uint32_t>();
    block.for_each_thread([&](unsigned t) {
      std::uint32_t bad = 0;
      for_quads(tensor, block.index(), t, tensor.whole,
                [&](std::uint64_t at, unsigned n, bool at_once) {
                  quad_of_float const x =
                      load_quad(tensor.parameter, tensor.parameter_type, at, n, at_once);
                  for (float const value : x.of) bad += value - value == 0.0F ? 0U : 1U;
                });
      found[t] = bad;
    });
    combine_groups(block, found, block.shared(), 0, thread_groups{train_threads},
                   [](std::uint32_t a, std::uint32_t b) { return a + b; });
    block.for_each_thread([&](unsigned t) {
      if (t == 0 && found[t] != 0) add(counts + i, found[t]);
    });
  }

 private:
  WARPWRIGHT_HOST_DEVICE static void add(std::uint64_t* to, std::uint32_t n) {
#if defined(__CUDA_ARCH__)
    atomicAdd(reinterpret_cast<unsigned long long*>(to), static_cast<unsigned long long>(n));
#else
    *to += n;
#endif
  }
};

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace detail

WARPWRIGHT_END
