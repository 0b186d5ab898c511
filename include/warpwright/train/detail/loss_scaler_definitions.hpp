// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/train/loss_scaler.hpp>

#include <warpwright/core/detail/text/text.hpp>

#include <stdexcept>

WARPWRIGHT_BEGIN

WARPWRIGHT_COLD WARPWRIGHT_INLINE detail::loss_scaler_values loss_scaler::checked(
    detail::loss_scaler_values const& values, source_location where) {
  auto const require = [&](bool holds, char const* name, double value, char const* remedy) {
    if (!holds) {
      detail::throw_invalid_argument(
          detail::text{"loss_scaler_options: "} + name + " of " + value + "; " + remedy, where);
    }
  };
  require(values.floor > 0.0F && values.floor <= 0x1p127F, "floor",
          static_cast<double>(values.floor), "give a scale above 0, to 2^127");
  require(values.initial >= values.floor && values.initial <= 0x1p127F, "initial",
          static_cast<double>(values.initial), "give a scale from floor() to 2^127");
  require(values.growth >= 1.0F && values.growth <= 0x1p127F, "growth",
          static_cast<double>(values.growth), "give a factor of 1 or more");
  require(values.backoff > 0.0F && values.backoff < 1.0F, "backoff",
          static_cast<double>(values.backoff), "give a factor above 0 and below 1");
  require(values.interval >= 1, "interval", 0.0, "give 1 step or more");
  return values;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE loss_scale_status
loss_scaler::status(stream_ref stream, source_location where) const {
  detail::loss_scaler_state state{};
  state_.copy_to(stream, &state, 1, 0, where);
  stream.synchronize(where);
  loss_scale_status s;
  s.scale = state.scale;
  s.good_steps = state.good_steps;
  s.skipped = state.skipped;
  s.at_floor = state.at_floor;
  if (state.skipped != 0 && state.tensor < gradients_.size()) {
    s.tensor = gradients_[state.tensor].name;
  }
  return s;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void loss_scaler::check(stream_ref stream,
                                                          source_location where) const {
  loss_scale_status const s = status(stream, where);
  if (s.at_floor == 0) return;
  throw std::runtime_error{
      (detail::text{"loss_scaler: the gradient '"} + s.tensor.c_str() +
       "' is not finite, and the scale is at its floor of " + static_cast<double>(s.scale) + "; " +
       s.at_floor + (s.at_floor == 1 ? " step" : " steps") +
       " in a row had no effect: look for a NaN in the data, the loss or the weights")
          .c_str()};
}

WARPWRIGHT_END
