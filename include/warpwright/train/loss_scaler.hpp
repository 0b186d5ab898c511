// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The scale of a loss whose gradients are computed in a 16-bit type. It lies on the device, and
// changes there:
//
//   ww::loss_scaler scaler{pool, stream};
//   backward(stream, scaler.scale());             // multiplies the loss by the number there
//   optimizer.step(stream, gradients, scaler);    // divides by it, and skips what is not finite
//   scaler.check(stream);                         // now and then: throws if it cannot help
#pragma once

#include <warpwright/core/detail/options.hpp>
#include <warpwright/core/stream.hpp>
#include <warpwright/core/tensor_list.hpp>
#include <warpwright/memory/buffer.hpp>

#include <cstdint>
#include <string>

WARPWRIGHT_BEGIN

namespace detail {

struct loss_scaler_values {
  float initial = 65536.0F;
  float growth = 2.0F;
  float backoff = 0.5F;
  std::uint32_t interval = 2000;
  float floor = 1.0F;
};

/// On the device; a checkpoint has it as eight numbers of 32 bits.
struct loss_scaler_state {
  float scale;
  std::uint32_t good_steps;  // since the scale changed
  std::uint32_t skipped;
  std::uint32_t at_floor;  // steps in a row that were skipped although the scale was at its floor
  std::uint32_t tensor;    // the first one of the last skipped step that was not finite
  std::uint32_t reserved[3];
};

struct loss_scaler_access;

/// As torch.amp.GradScaler.update(), with a floor.
WARPWRIGHT_HOST_DEVICE inline void update_scale(loss_scaler_state& state,
                                                loss_scaler_values const& rule, bool finite,
                                                std::uint32_t tensor) {
  if (finite) {
    state.at_floor = 0;
    if (++state.good_steps != rule.interval) return;
    state.good_steps = 0;
    float const grown = state.scale * rule.growth;
    if (grown <= 3.402823466e38F) state.scale = grown;
    return;
  }
  state.good_steps = 0;
  ++state.skipped;
  state.tensor = tensor;
  state.at_floor = state.scale > rule.floor ? 0 : state.at_floor + 1;
  float const smaller = state.scale * rule.backoff;
  state.scale = smaller > rule.floor ? smaller : rule.floor;
}

}  // namespace detail

/// Options of a loss_scaler. Every setter returns a changed copy.
class loss_scaler_options
    : public detail::options_base<loss_scaler_options, detail::loss_scaler_values> {
 public:
  /// @param scale  at the begin, from floor() to 2^127; default: 65,536
  constexpr self initial(float scale) const { return with(&values::initial, scale); }
  /// @param factor  of the scale after interval() good steps, at least 1; default: 2
  constexpr self growth(float factor) const { return with(&values::growth, factor); }
  /// @param factor  of the scale after a step that is skipped, above 0 and below 1; default: 0.5
  constexpr self backoff(float factor) const { return with(&values::backoff, factor); }
  /// @param steps  at least 1; default: 2,000
  constexpr self interval(std::uint32_t steps) const { return with(&values::interval, steps); }
  /// @param scale  that it does not fall below, above 0; default: 1
  constexpr self floor(float scale) const { return with(&values::floor, scale); }
};

/// The state of a loss_scaler, read back.
struct loss_scale_status {
  float scale = 0.0F;
  std::uint32_t good_steps = 0;  ///< since the scale changed
  std::uint32_t skipped = 0;     ///< of all steps
  std::uint32_t at_floor = 0;    ///< in a row that were skipped with the scale at its floor
  std::string tensor;  ///< the first gradient of the last skipped step that was not finite
};

/// A dynamic loss scale: it grows while the gradients are finite, and falls when they are not.
///
/// @pre its pool outlives it
/// **Threads:** one at a time. **Stream:** as an object in device memory: use it on one stream, or
/// order the streams.
/// **Capture:** scale() and an optimizer's step() may be captured; a replay goes on from the state
/// that it finds.
class loss_scaler {
 public:
  /// @throws std::invalid_argument      for an option out of range
  /// @throws out_of_memory, cuda_error  when there is no memory, or the copy fails
  /// **Stream:** ordered on `stream`. **Capture:** not legal.
  template <class Pool>
  loss_scaler(Pool& pool, stream_ref stream, loss_scaler_options const& options = {},
              source_location where = source_location::current())
      : values_{checked(values_of(options), where)}, state_{pool, stream, 1, where} {
    detail::loss_scaler_state first{};
    first.scale = values_.initial;
    state_.copy_from(stream, &first, 1, 0, where);
  }

  /// @return the scale, in device memory
  [[nodiscard]] float const* scale() const noexcept { return &state_.data()->scale; }
  /// Reads the state. **Stream:** blocks until `stream` has come here. **Capture:** not legal.
  [[nodiscard]] loss_scale_status status(stream_ref stream,
                                         source_location where = source_location::current()) const;
  /// Throws if the scale is at its floor and gradients are still not finite: that will not change.
  /// @throws std::runtime_error  with the name of the gradient
  /// **Stream:**, **Capture:** as status()
  void check(stream_ref stream, source_location where = source_location::current()) const;
  /// Adds the state to what a checkpoint saves and restores.
  void add_to(tensor_list& list, std::string const& name = "loss_scaler") const {
    list.add(name, reinterpret_cast<std::uint32_t*>(state_.data()), 8);
  }

 private:
  friend struct detail::loss_scaler_access;
  static detail::loss_scaler_values checked(detail::loss_scaler_values const& values,
                                            source_location where);

  detail::loss_scaler_values values_;
  device_buffer<detail::loss_scaler_state> state_;
  tensor_list gradients_;  // of the optimizer, for their names
};

namespace detail {

/// What an optimizer does with a loss_scaler.
struct loss_scaler_access {
  static loss_scaler_state* state(loss_scaler& s) noexcept { return s.state_.data(); }
  static loss_scaler_values const& values(loss_scaler const& s) noexcept { return s.values_; }
  static void name_gradients(loss_scaler& s, tensor_list const& gradients) {
    s.gradients_.clear();
    s.gradients_.add(gradients);
  }
};

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/train/detail/loss_scaler_definitions.hpp>
#endif
