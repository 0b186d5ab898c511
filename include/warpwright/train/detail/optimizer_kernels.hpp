// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A step is two kernels: one reads the gradients, and its last block decides on the step for all;
// the other updates the parameters.
#pragma once

#include <warpwright/core/detail/launch/block_reduce.hpp>
#include <warpwright/core/launch.hpp>
#include <warpwright/train/detail/optimizer_core.hpp>
#include <warpwright/train/detail/optimizer_state.hpp>
#include <warpwright/train/detail/typed_elements.hpp>

WARPWRIGHT_BEGIN

namespace detail {

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

/// Calls f(at, n, whole) for the quads of a chunk that thread t has.
template <class F>
WARPWRIGHT_HOST_DEVICE void for_quads(trained_tensor const& tensor, std::uint32_t chunk, unsigned t,
                                      bool whole, F const& f) {
  std::uint64_t const begin = std::uint64_t{chunk - tensor.first_chunk} * chunk_elements;
  WARPWRIGHT_UNROLL
  for (unsigned u = 0; u < quads_of_chunk / train_threads; ++u) {
    std::uint64_t const at = begin + quad * (std::uint64_t{u} * train_threads + t);
    if (at >= tensor.size) return;
    std::uint64_t const left = tensor.size - at;
    f(at, left < quad ? static_cast<unsigned>(left) : quad, whole && left >= quad);
  }
}

/// Writes where the gradients are into the table. A launch takes `most` of them.
struct bind_kernel : kernel_base<train_threads> {
  static constexpr bool subscripts_arguments = true;
  static constexpr unsigned most = 400;
  trained_tensor* tensors;
  std::uint32_t count;
  void const* gradients[most];
  element_type types[most];

  template <class Block>
  WARPWRIGHT_HOST_DEVICE void operator()(Block& block) const {
    block.for_each_thread([&](unsigned t) {
      std::uint32_t const i = block.index() * train_threads + t;
      if (i >= count) return;
      tensors[i].gradient = gradients[i];
      tensors[i].gradient_type = types[i];
    });
  }
};

/// Sums the squares of the unscaled gradients. The last block decides on the step.
struct measure_kernel : kernel_base<train_threads> {
  using shared = reduction_scratch<gradient_sum, train_threads>;

  optimizer_view view;
  gradient_sum* partial;  // of each block
  unsigned* ticket;
  loss_scaler_state* scaler;  // null: none
  loss_scaler_values scaling;
  float clip;  // 0: none
  bool reads;  // the gradients

  template <class Block>
  WARPWRIGHT_HOST_DEVICE void operator()(Block& block) const {
    auto sum = block.template per_thread<gradient_sum>();
    block.for_each_thread([&](unsigned t) { sum[t] = of_gradients(block, t); });
    combine(block, sum, 0);
    bool const last = is_last_block(block, ticket, block.count(), [&](unsigned t) {
      if (t == 0) partial[block.index()] = sum[0];
      return t == 0;
    });
    if (!last) return;
    block.for_each_thread([&](unsigned t) {
      gradient_sum all{0.0, no_tensor};
      for (unsigned b = t; b < block.count(); b += train_threads) all = joined(all, partial[b]);
      sum[t] = all;
    });
    combine(block, sum, 1);
    block.for_each_thread([&](unsigned t) { decide(sum[t], t); });
    block.synchronize();
    block.for_each_thread([&](unsigned t) {
      if (t == 0) finish(sum[t]);
    });
  }

 private:
  WARPWRIGHT_HOST_DEVICE static gradient_sum joined(gradient_sum const& a, gradient_sum const& b) {
    return {a.squares + b.squares, a.bad < b.bad ? a.bad : b.bad};
  }
  template <class Block, class Values>
  WARPWRIGHT_HOST_DEVICE static void combine(Block& block, Values& sum, unsigned round) {
    combine_groups(block, sum, block.shared(), round, thread_groups{train_threads},
                   [](gradient_sum const& a, gradient_sum const& b) { return joined(a, b); });
  }
  template <class Block>
  WARPWRIGHT_HOST_DEVICE gradient_sum of_gradients(Block& block, unsigned t) const {
    gradient_sum all{0.0, no_tensor};
    if (!reads) return all;
    float const unscale = scaler != nullptr ? 1.0F / scaler->scale : 1.0F;
    for (std::uint32_t chunk = block.index(); chunk < view.chunks; chunk += block.count()) {
      std::uint32_t const i = view.tensor_of[chunk];
      trained_tensor const& tensor = view.tensors[i];
      bool const whole = has_quads(reinterpret_cast<std::uintptr_t>(tensor.gradient));
      float squares = 0.0F;
      bool finite = true;
      for_quads(tensor, chunk, t, whole, [&](std::uint64_t at, unsigned n, bool at_once) {
        quad_of_float const g = load_quad(tensor.gradient, tensor.gradient_type, at, n, at_once);
        WARPWRIGHT_UNROLL
        for (float const x : g.of) {
          float const y = x * unscale;
          finite = finite && y - y == 0.0F;
          squares += y * y;
        }
      });
      all.squares += static_cast<double>(squares);
      if (!finite && i < all.bad) all.bad = i;
    }
    return all;
  }
  // What each group needs; thread 0 writes the state when all have read it.
  WARPWRIGHT_HOST_DEVICE void decide(gradient_sum const& sum, unsigned t) const {
    bool const skips = scaler != nullptr && sum.bad != no_tensor;
    if (skips) return;
    std::uint32_t const steps = view.state->steps;
    for (std::uint32_t g = t; g < view.groups; g += train_threads) {
      optimizer_values const& with = view.options[g];
      auto const number = static_cast<float>(steps + 1);
      // 1 - beta^step without cancellation
      float const first = -::expm1f(number * ::log1pf(with.first_decay - 1.0F));
      float const second = -::expm1f(number * ::log1pf(with.second_decay - 1.0F));
      float const rate = with.rate * with.schedule.factor(steps);
      view.steps[g] = group_step{rate, rate / first, 1.0F / second};
    }
  }
  WARPWRIGHT_HOST_DEVICE void finish(gradient_sum const& sum) const {
    optimizer_state& state = *view.state;
    bool const skips = scaler != nullptr && sum.bad != no_tensor;
    auto const norm = static_cast<float>(::sqrt(sum.squares));
    float const unscale = scaler != nullptr ? 1.0F / scaler->scale : 1.0F;
    state.norm = norm;
    state.factor = clip > 0.0F && norm > clip ? unscale * (clip / norm) : unscale;
    state.skips = skips ? 1 : 0;
    skips ? ++state.skipped : ++state.steps;
    if (scaler != nullptr) update_scale(*scaler, scaling, !skips, sum.bad);
  }
};

template <class Rule>
struct update_kernel : kernel_base<train_threads> {
  optimizer_view view;

  template <class Block>
  WARPWRIGHT_HOST_DEVICE void operator()(Block& block) const {
    optimizer_state const& state = *view.state;
    if (state.skips != 0) return;
    // From the end on: the last gradients that were read may still be in the cache.
    std::uint32_t const chunk = view.chunks - 1 - block.index();
    std::uint32_t const i = view.tensor_of[chunk];
    trained_tensor const tensor = view.tensors[i];
    optimizer_values const with = view.options[tensor.group];
    group_step const step = view.steps[tensor.group];
    float const factor = state.factor;
    std::uint64_t const seed =
        with.seed + ((std::uint64_t{state.steps} << 32U) + i) * 0xD1342543DE82EF95U;
    bool const whole = tensor.whole && has_quads(reinterpret_cast<std::uintptr_t>(tensor.gradient));
    block.for_each_thread([&](unsigned t) {
      for_quads(tensor, chunk, t, whole, [&](std::uint64_t at, unsigned n, bool at_once) {
        quad_of_float const g = load_quad(tensor.gradient, tensor.gradient_type, at, n, at_once);
        quad_of_float p = tensor.master != nullptr
                              ? load_quad(tensor.master, element_type::float32, at, n, at_once)
                              : load_quad(tensor.parameter, tensor.parameter_type, at, n, at_once);
        quad_of_float m = load_quad(tensor.first, tensor.moment_type, at, n, at_once);
        quad_of_float v{};
        if (Rule::moments == 2) v = load_quad(tensor.second, tensor.moment_type, at, n, at_once);
        WARPWRIGHT_UNROLL
        for (unsigned k = 0; k < quad; ++k) {
          Rule::apply(with, step, p.of[k], m.of[k], v.of[k], g.of[k] * factor);
        }
        store_quad(tensor.first, tensor.moment_type, m, at, n, at_once);
        if (Rule::moments == 2) store_quad(tensor.second, tensor.moment_type, v, at, n, at_once);
        if (tensor.master != nullptr) {
          store_quad(tensor.master, element_type::float32, p, at, n, at_once);
        }
        if (with.stochastic_rounding && tensor.parameter_type != element_type::float32) {
          store_quad_randomly(tensor.parameter, tensor.parameter_type, p, at, n, at_once, seed);
        } else {
          store_quad(tensor.parameter, tensor.parameter_type, p, at, n, at_once);
        }
      });
    });
  }
};

/// Copies 16-bit parameters to their float masters.
struct masters_kernel : kernel_base<train_threads> {
  optimizer_view view;

  template <class Block>
  WARPWRIGHT_HOST_DEVICE void operator()(Block& block) const {
    trained_tensor const& tensor = view.tensors[view.tensor_of[block.index()]];
    if (tensor.master == nullptr) return;
    block.for_each_thread([&](unsigned t) {
      for_quads(tensor, block.index(), t, tensor.whole,
                [&](std::uint64_t at, unsigned n, bool at_once) {
                  store_quad(tensor.master, element_type::float32,
                             load_quad(tensor.parameter, tensor.parameter_type, at, n, at_once), at,
                             n, at_once);
                });
    });
  }
};

/// Writes where the gradients are into the table.
/// @tparam Bind  bind_kernel: compiled where it is called, with nvcc
template <class Bind = bind_kernel>
void bind_gradients(optimizer_core& core, stream_ref stream, tensor_list const& gradients,
                    char const* name, source_location where) {
  if (!core.must_bind(gradients, stream, where)) return;
  for (std::size_t first = 0; first < gradients.size(); first += Bind::most) {
    Bind bind;
    bind.tensors = core.view().tensors + first;
    std::size_t const left = gradients.size() - first;
    bind.count = static_cast<std::uint32_t>(left < Bind::most ? left : Bind::most);
    for (std::uint32_t i = 0; i < bind.count; ++i) {
      bind.gradients[i] = gradients[first + i].data;
      bind.types[i] = gradients[first + i].type;
    }
    launch_blocks(stream, (bind.count + train_threads - 1) / train_threads, train_threads, bind,
                  name, where);
  }
  core.set_bound(gradients);
}

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace detail

WARPWRIGHT_END
