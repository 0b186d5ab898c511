// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Which activations of a chain of layers to keep for the backward pass, where the memory does not
// hold all of them, and which to compute again:
//
//   std::vector<ww::recompute_layer> layers;                // seconds forward, bytes of the output
//   auto const plan = ww::plan_recompute(layers.data(), layers.size(), std::size_t{8} << 30);
//   for (std::size_t i = 0; i < layers.size(); ++i) if (plan.keeps(i)) …
#pragma once

#include <warpwright/core/detail/container/array.hpp>
#include <warpwright/core/error.hpp>

#include <cstddef>

WARPWRIGHT_BEGIN

/// A layer of a chain.
struct recompute_layer {
  double seconds = 0.0;   ///< forward
  std::size_t bytes = 0;  ///< of its output, and of whatever else its backward pass and the next
                          ///< layer's need
};

/// What plan_recompute() has chosen.
struct recompute_plan {
  std::size_t peak_bytes = 0;    ///< of activations, the input among them, in both passes
  std::size_t kept_bytes = 0;    ///< of these that are kept from the forward pass on
  double extra_seconds = 0.0;    ///< of layers that run forward twice
  double forward_seconds = 0.0;  ///< of all layers, once
  detail::array<bool> kept;      ///< for each layer

  /// @return whether the output of a layer is kept
  [[nodiscard]] bool keeps(std::size_t layer) const noexcept { return kept[layer]; }
};

/// Chooses the outputs that are kept so that layers run again for the least time within a budget.
///
/// The backward pass of a layer needs its input and its output. Where it reaches a layer whose
/// input was not kept, all layers behind the last kept output run again, once; what the backward
/// pass has done with is free then. The plan is the best one of this kind: it is exact.
/// @param layers  in their order; the last output, of which the loss is made, is always kept
/// @param budget  bytes for activations
/// @param input   bytes of the first layer's input, which is kept
/// @throws std::invalid_argument  for seconds that are negative or not finite, or a budget that no
///   choice meets; the text has the least one that can be met
/// @throws std::bad_alloc         when host memory runs out
/// **Threads:** any. **Cost:** some ms for 100 layers of a few different sizes; with sizes that are
/// all different, more where the budget is in the middle.
recompute_plan plan_recompute(recompute_layer const* layers, std::size_t count, std::size_t budget,
                              std::size_t input = 0,
                              source_location where = source_location::current());

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/train/detail/recompute_definitions.hpp>
#endif
