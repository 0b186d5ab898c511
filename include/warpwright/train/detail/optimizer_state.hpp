// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What an optimizer keeps on the device, and the arithmetic of its rules.
#pragma once

#include <warpwright/core/tensor_list.hpp>
#include <warpwright/train/loss_scaler.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>

WARPWRIGHT_BEGIN

namespace detail {

inline constexpr unsigned train_threads = 256;
inline constexpr unsigned quads_of_chunk = 8 * train_threads;
inline constexpr unsigned chunk_elements = 4 * quads_of_chunk;
// Four on each of the 132 SMs of an H100; the same on every device, for the order of a sum.
inline constexpr unsigned norm_blocks = 4 * 132;
inline constexpr std::uint32_t no_tensor = 0xffffffffU;

/// The squares of gradients, and the first tensor with one that is not finite.
struct gradient_sum {
  double squares;
  std::uint32_t bad;
};

/// A factor of the learning rate, over the steps that were not skipped.
struct rate_schedule {
  enum kind : std::uint32_t { constant, linear, cosine };
  kind after_warm_up = constant;
  std::uint32_t warm_up = 0;  // steps
  std::uint32_t total = 0;    // steps, with the warm-up
  float last = 0.0F;          // factor at the end

  /// @param step  from 0
  [[nodiscard]] WARPWRIGHT_HOST_DEVICE float factor(std::uint32_t step) const {
    if (step < warm_up) return static_cast<float>(step + 1) / static_cast<float>(warm_up);
    if (after_warm_up == constant) return 1.0F;
    if (step >= total) return last;
    float const done = static_cast<float>(step - warm_up) / static_cast<float>(total - warm_up);
    float const left =
        after_warm_up == linear ? 1.0F - done : 0.5F * (1.0F + ::cosf(3.14159265F * done));
    return last + (1.0F - last) * left;
  }
};

/// The options of a group of parameters, for all rules.
struct optimizer_values {
  float rate = 1e-3F;
  float first_decay = 0.9F;     // beta 1; momentum
  float second_decay = 0.999F;  // beta 2
  float epsilon = 1e-8F;
  float decay = 0.0F;
  float clip = 0.0F;  // 0: none
  bool nesterov = false;
  bool small_moments = false;        // in bfloat16
  bool stochastic_rounding = false;  // no float copy of 16-bit parameters
  std::uint64_t seed = 0;
  rate_schedule schedule{};
};

/// What all elements of a group need in a step.
struct group_step {
  float rate;
  float step_size;   // rate over the bias correction of the first moment
  float correction;  // of the second moment
};

/// On the device; a checkpoint has it as eight numbers of 32 bits.
struct optimizer_state {
  std::uint32_t steps;  // that were not skipped
  std::uint32_t skipped;
  std::uint32_t skips;  // whether this step is
  float norm;           // of the unscaled gradients, before they are clipped
  float factor;         // of the gradients
  std::uint32_t reserved;
  double items;  // of a mean of gradients
};

/// A tensor of an optimizer, on the device.
struct trained_tensor {
  void* parameter;
  float* master;  // null: the parameter itself
  void* first;    // moments; null: the rule has none
  void* second;
  void const* gradient;
  std::uint64_t size;
  std::uint32_t first_chunk;
  std::uint16_t group;
  element_type parameter_type;
  element_type moment_type;
  element_type gradient_type;
  bool whole;  // quads of all but the gradient can be moved at once
};

// I. Loshchilov, F. Hutter, "Decoupled Weight Decay Regularization" (2019), algorithm 2.
struct adamw_rule {
  static constexpr unsigned moments = 2;
  static constexpr char const* name = "warpwright::adamw";
  WARPWRIGHT_HOST_DEVICE static void apply(optimizer_values const& with, group_step const& step,
                                           float& p, float& m, float& v, float g) {
    m += (1.0F - with.first_decay) * (g - m);
    v += (1.0F - with.second_decay) * (g * g - v);
    p -= step.rate * with.decay * p +
         step.step_size * m / (::sqrtf(v * step.correction) + with.epsilon);
  }
};

// As torch.optim.SGD, without dampening.
struct sgd_rule {
  static constexpr unsigned moments = 1;
  static constexpr char const* name = "warpwright::sgd";
  WARPWRIGHT_HOST_DEVICE static void apply(optimizer_values const& with, group_step const& step,
                                           float& p, float& m, float&, float g) {
    g += with.decay * p;
    m = with.first_decay * m + g;
    p -= step.rate * (with.nesterov ? g + with.first_decay * m : m);
  }
};

// X. Chen et al., "Symbolic Discovery of Optimization Algorithms" (2023).
struct lion_rule {
  static constexpr unsigned moments = 1;
  static constexpr char const* name = "warpwright::lion";
  WARPWRIGHT_HOST_DEVICE static void apply(optimizer_values const& with, group_step const& step,
                                           float& p, float& m, float&, float g) {
    float const direction = m + (1.0F - with.first_decay) * (g - m);
    float const sign = direction > 0.0F ? 1.0F : direction < 0.0F ? -1.0F : 0.0F;
    p -= step.rate * (sign + with.decay * p);
    m += (1.0F - with.second_decay) * (g - m);
  }
};

/// The kernels' view of an optimizer.
struct optimizer_view {
  trained_tensor* tensors;
  std::uint32_t const* tensor_of;  // each chunk
  std::uint32_t chunks;
  std::uint32_t groups;
  optimizer_values const* options;  // of each group
  group_step* steps;                // of each group
  optimizer_state* state;
};

}  // namespace detail

WARPWRIGHT_END
