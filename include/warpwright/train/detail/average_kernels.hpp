// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Running means of tensors, in float: of gradients by their items, of parameters over steps.
#pragma once

#include <warpwright/train/detail/optimizer_kernels.hpp>

WARPWRIGHT_BEGIN

namespace detail {
inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

/// mean += weight * (value - mean), for each `first` of the tensors. The values are the gradients,
/// or the parameters.
struct mean_kernel : kernel_base<train_threads> {
  optimizer_view view;
  unsigned* ticket;
  bool of_gradients;
  bool by_items;        // else `weight` is the share of the values
  double weight;        // their items, if `items` is null
  double const* items;  // on the device

  template <class Block>
  WARPWRIGHT_HOST_DEVICE void operator()(Block& block) const {
    double const added = items != nullptr ? *items : weight;
    double const all = view.state->items + added;
    float const share = static_cast<float>(!by_items ? weight : all > 0.0 ? added / all : 0.0);
    trained_tensor const tensor = view.tensors[view.tensor_of[block.index()]];
    void const* const from = of_gradients ? tensor.gradient : tensor.parameter;
    element_type const type = of_gradients ? tensor.gradient_type : tensor.parameter_type;
    bool const whole = has_quads(reinterpret_cast<std::uintptr_t>(from));
    block.for_each_thread([&](unsigned t) {
      for_quads(tensor, block.index(), t, whole, [&](std::uint64_t at, unsigned n, bool at_once) {
        quad_of_float const x = load_quad(from, type, at, n, at_once);
        quad_of_float mean = load_quad(tensor.first, element_type::float32, at, n, at_once);
        WARPWRIGHT_UNROLL
        for (unsigned k = 0; k < quad; ++k) {
          // The first values replace what was there, an infinity too.
          mean.of[k] = share == 1.0F ? x.of[k] : mean.of[k] + share * (x.of[k] - mean.of[k]);
        }
        store_quad(tensor.first, element_type::float32, mean, at, n, at_once);
      });
    });
    if (!by_items) return;
    bool const last = is_last_block(block, ticket, block.count(), [](unsigned) { return false; });
    if (!last) return;
    block.for_each_thread([&](unsigned t) {
      if (t == 0) view.state->items = all;
    });
  }
};

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace detail

WARPWRIGHT_END
