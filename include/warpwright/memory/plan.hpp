// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Estimates of the device memory that training or serving a neural network needs: pure arithmetic
// without CUDA calls, usable in static_assert.
//
//   constexpr auto plan = ww::training_plan{}.parameters(7'500'000'000).mixed_precision();
//   static_assert(plan.total_bytes() == 120'000'000'000);  // Adam: 16 bytes a parameter
//   static_assert(!ww::fits(plan, 80'000'000'000));
//
// A plan is a lower bound: allocators round up, libraries allocate workspaces, and the context
// takes some hundred MiB. workspace_bytes() and a reserve account for these.
#pragma once

#include <warpwright/memory/footprint.hpp>

#include <string>

WARPWRIGHT_BEGIN

/// The memory of a plan by use, in bytes on one device.
struct memory_breakdown {
  std::uint64_t weights_bytes = 0;
  std::uint64_t master_weights_bytes = 0;  ///< the fp32 copy that mixed precision updates
  std::uint64_t gradients_bytes = 0;
  std::uint64_t optimizer_bytes = 0;    ///< the optimizer's state, without the master weights
  std::uint64_t activations_bytes = 0;  ///< grows with the batch
  std::uint64_t kv_cache_bytes = 0;     ///< grows with the batch
  std::uint64_t workspace_bytes = 0;    ///< workspace_bytes() of the plan

  /// @return the sum; 2^64 - 1 when it is beyond 64 bits
  [[nodiscard]] constexpr std::uint64_t total_bytes() const noexcept {
    detail::saturated const state =
        detail::saturated{weights_bytes} + master_weights_bytes + gradients_bytes + optimizer_bytes;
    return (state + activations_bytes + kv_cache_bytes + workspace_bytes).value;
  }
};

namespace detail {

/// What the plans have in common.
template <class Self, class Values>
class plan_base : public options_base<Self, Values> {
 public:
  /// @param items  of one step on this device; default: 1
  constexpr Self batch(std::uint64_t items) const { return this->with(&Values::batch, items); }
  /// @param bytes  workspaces, communication buffers, the context; default: 0
  constexpr Self workspace_bytes(std::uint64_t bytes) const {
    return this->with(&Values::workspace_bytes, bytes);
  }

  [[nodiscard]] constexpr std::uint64_t batch() const noexcept { return this->values_.batch; }
  [[nodiscard]] constexpr char const* name() const noexcept { return Values::name; }

  /// @return the sum of the breakdown
  /// @throws std::invalid_argument  as breakdown(), and when the sum is beyond 64 bits
  [[nodiscard]] constexpr std::uint64_t total_bytes(
      source_location where = source_location::current()) const {
    std::uint64_t const total = static_cast<Self const&>(*this).breakdown(where).total_bytes();
    if (total == too_many_bytes) {
      Values const& v = this->values_;
      throw_plan_too_large(text{v.name} + " with " + v.parameters + " parameters, batch " +
                               v.batch + ", " + v.elements_per_item + " activations an item, " +
                               v.tokens + " tokens and a workspace of " + v.workspace_bytes +
                               " bytes",
                           where);
    }
    return total;
  }
};

/// The values of training_plan, which documents them.
struct training_values {
  static constexpr char const* name = "training";

  std::uint64_t parameters = 0;
  precision weights = precision::fp32;
  precision gradients = precision::fp32;
  precision activations = precision::fp32;
  bool master_weights = false;
  optimizer_kind optimizer = optimizer_kind::adam;
  precision optimizer_precision = precision::fp32;
  zero_stage stage = zero_stage::none;
  std::uint64_t devices = 1;
  std::uint64_t elements_per_item = 0;
  bool is_transformer = false;
  transformer_shape shape{};
  std::uint64_t tokens = 0;
  recomputation recomputed = recomputation::none;
  std::uint64_t batch = 1;
  std::uint64_t workspace_bytes = 0;
};

}  // namespace detail

/// The memory that training needs on one device. Every setter returns a changed copy.
///
/// Defaults: fp32 throughout, Adam, one device, batch 1, no activations.
class training_plan : public detail::plan_base<training_plan, detail::training_values> {
 public:
  /// @param count  parameters of the whole network
  constexpr self parameters(std::uint64_t count) const { return with(&values::parameters, count); }
  /// Stores weights, gradients and activations in one precision, without master weights.
  constexpr self uniform_precision(precision p) const {
    return with(&values::weights, p)
        .with(&values::gradients, p)
        .with(&values::activations, p)
        .with(&values::master_weights, false);
  }
  /// Stores weights, gradients and activations in a short precision, and master weights in fp32:
  /// with Adam 2 + 2 + 12 bytes a parameter (ZeRO, section 3.1).
  constexpr self mixed_precision(precision p = precision::bf16) const {
    return uniform_precision(p).with(&values::master_weights, true);
  }
  /// Stores gradients in another precision, for example to accumulate them in fp32. Call it after
  /// the setters above.
  constexpr self gradient_precision(precision p) const { return with(&values::gradients, p); }
  /// Stores activations in another precision. Call it after the precision setters above.
  constexpr self activation_precision(precision p) const { return with(&values::activations, p); }
  /// @param kind  default: adam
  constexpr self optimizer(optimizer_kind kind) const { return with(&values::optimizer, kind); }
  /// Stores the optimizer's state in another precision than fp32: PyTorch's optimizers store it in
  /// the parameters' precision.
  constexpr self optimizer_precision(precision p) const {
    return with(&values::optimizer_precision, p);
  }
  /// Shards the model's state over data-parallel devices; each device's part is rounded up.
  /// @param stage    what is sharded
  /// @param devices  at least 1
  constexpr self sharded(zero_stage stage, std::uint64_t devices) const {
    return with(&values::devices, devices).with(&values::stage, stage);
  }
  /// Adds the activations of any network that are stored for the backward pass.
  /// @param elements  for one item of the batch
  constexpr self activations_per_item(std::uint64_t elements) const {
    return with(&values::elements_per_item, elements);
  }
  /// Adds a transformer's activations, as transformer_activation_bytes().
  /// @param shape            layers, hidden and heads must be given
  /// @param sequence_length  tokens of one item
  /// @param r                what is recomputed in the backward pass
  constexpr self transformer(transformer_shape const& shape, std::uint64_t sequence_length,
                             recomputation r = recomputation::none) const {
    return with(&values::tokens, sequence_length)
        .with(&values::shape, shape)
        .with(&values::is_transformer, true)
        .with(&values::recomputed, r);
  }

  /// @return the memory by use; a part beyond 64 bits is 2^64 - 1
  /// @throws std::invalid_argument  for 0 devices, or an inconsistent shape
  [[nodiscard]] constexpr memory_breakdown breakdown(
      source_location where = source_location::current()) const {
    if (values_.devices == 0) {
      detail::throw_invalid_plan("training sharded among 0 devices; at least 1", where);
    }
    if (values_.is_transformer) values_.shape.require_valid(where);
    memory_breakdown b;
    values const& v = values_;
    b.weights_bytes = detail::storage_of(share(v.stage == zero_stage::parameters), v.weights).value;
    b.gradients_bytes = detail::storage_of(share(v.stage == zero_stage::parameters ||
                                                 v.stage == zero_stage::gradients),
                                           v.gradients)
                            .value;
    std::uint64_t const updated = share(v.stage != zero_stage::none);
    if (v.master_weights) b.master_weights_bytes = (detail::saturated{updated} * 4).value;
    b.optimizer_bytes =
        detail::optimizer_state_of(updated, v.optimizer, v.optimizer_precision).value;
    detail::saturated activations =
        detail::storage_of(detail::saturated{v.elements_per_item} * v.batch, v.activations);
    if (v.is_transformer) {
      activations = activations +
                    detail::activations_of(v.shape, v.tokens, v.batch, v.activations, v.recomputed);
    }
    b.activations_bytes = activations.value;
    b.workspace_bytes = v.workspace_bytes;
    return b;
  }

 private:
  [[nodiscard]] constexpr std::uint64_t share(bool divided) const noexcept {
    return divided ? detail::divide_up(values_.parameters, values_.devices) : values_.parameters;
  }
};

namespace detail {

/// The values of inference_plan, which documents them.
struct inference_values {
  static constexpr char const* name = "inference";

  std::uint64_t parameters = 0;
  precision weights = precision::fp16;
  precision activations = precision::fp16;
  precision kv_cache = precision::fp16;
  std::uint64_t elements_per_item = 0;
  bool is_transformer = false;
  transformer_shape shape{};
  std::uint64_t tokens = 0;
  std::uint64_t batch = 1;
  std::uint64_t workspace_bytes = 0;
};

}  // namespace detail

/// The memory that serving a network needs on one device. Every setter returns a changed copy.
///
/// Defaults: weights, activations and KV cache in fp16, batch 1, no KV cache.
class inference_plan : public detail::plan_base<inference_plan, detail::inference_values> {
 public:
  /// @param count  parameters stored on this device
  /// @param p      how they are stored
  constexpr self parameters(std::uint64_t count, precision p = precision::fp16) const {
    return with(&values::parameters, count).with(&values::weights, p);
  }
  /// Adds a transformer's KV cache, as kv_cache_bytes().
  /// @param shape   layers, hidden and heads must be given
  /// @param tokens  context of one item, prompt and answer together
  /// @param p       how keys and values are stored
  constexpr self kv_cache(transformer_shape const& shape, std::uint64_t tokens,
                          precision p = precision::fp16) const {
    return with(&values::tokens, tokens)
        .with(&values::shape, shape)
        .with(&values::is_transformer, true)
        .with(&values::kv_cache, p);
  }
  /// Adds the activations that are live at the same time during the forward pass of one item.
  /// @param elements  for one item of the batch
  /// @param p         how they are stored
  constexpr self activations_per_item(std::uint64_t elements, precision p = precision::fp16) const {
    return with(&values::elements_per_item, elements).with(&values::activations, p);
  }

  /// @return the memory by use; a part beyond 64 bits is 2^64 - 1
  /// @throws std::invalid_argument  for an inconsistent shape
  [[nodiscard]] constexpr memory_breakdown breakdown(
      source_location where = source_location::current()) const {
    memory_breakdown b;
    b.weights_bytes = detail::storage_of(values_.parameters, values_.weights).value;
    b.activations_bytes =
        detail::storage_of(detail::saturated{values_.elements_per_item} * values_.batch,
                           values_.activations)
            .value;
    if (values_.is_transformer) {
      values_.shape.require_valid(where);
      b.kv_cache_bytes =
          detail::kv_cache_of(values_.shape, values_.tokens, values_.batch, values_.kv_cache).value;
    }
    b.workspace_bytes = values_.workspace_bytes;
    return b;
  }
};

/// The device memory that a plan may use when a fraction of it stays free.
/// @param device_bytes      the device's total or free memory
/// @param reserve_fraction  the fraction that stays free, at least 0 and below 1; rounded up to a
///   byte
/// @return bytes
/// @throws std::invalid_argument  for a fraction out of range
[[nodiscard]] constexpr std::uint64_t usable_bytes(
    std::uint64_t device_bytes, double reserve_fraction,
    source_location where = source_location::current()) {
  if (!(reserve_fraction >= 0.0 && reserve_fraction < 1.0)) {
    detail::throw_invalid_plan(detail::text{"a reserve of "} + reserve_fraction +
                                   " of the device; give a fraction from 0 to below 1",
                               where);
  }
  double const reserve = static_cast<double>(device_bytes) * reserve_fraction;
  // 2^64 as a double: nothing above converts.
  if (reserve >= 18446744073709551616.0) return 0;
  std::uint64_t reserved_bytes = static_cast<std::uint64_t>(reserve);
  if (static_cast<double>(reserved_bytes) < reserve) ++reserved_bytes;
  return device_bytes > reserved_bytes ? device_bytes - reserved_bytes : 0;
}

/// Whether a plan fits in a device.
/// @param plan              a training_plan or an inference_plan
/// @param device_bytes      the device's total or free memory
/// @param reserve_fraction  the fraction that stays free, at least 0 and below 1
/// @return false also for a plan beyond 64 bits
/// @throws std::invalid_argument  for an inconsistent plan, or a fraction out of range
/// **Threads:** any. **Capture:** legal; no CUDA call.
template <class Plan>
[[nodiscard]] constexpr bool fits(Plan const& plan, std::uint64_t device_bytes,
                                  double reserve_fraction = 0.0,
                                  source_location where = source_location::current()) {
  std::uint64_t const total = plan.breakdown(where).total_bytes();
  return total != detail::too_many_bytes &&
         total <= usable_bytes(device_bytes, reserve_fraction, where);
}

/// The result of largest_batch() when the batch takes no memory at all.
inline constexpr std::uint64_t unlimited_batch = ~std::uint64_t{0};

/// The largest batch that fits, exactly: one more does not.
/// @param plan              a training_plan or an inference_plan; its own batch does not matter
/// @param device_bytes      the device's memory, or what is free of it
/// @param reserve_fraction  the fraction that stays free, at least 0 and below 1
/// @return items; 0 when not even one fits; unlimited_batch when nothing depends on the batch
/// @throws std::invalid_argument  for a plan that contradicts itself, or a fraction out of range
/// **Threads:** any. **Capture:** legal; no CUDA call. **Cost:** at most 128 sums.
template <class Plan>
[[nodiscard]] constexpr std::uint64_t largest_batch(
    Plan const& plan, std::uint64_t device_bytes, double reserve_fraction = 0.0,
    source_location where = source_location::current()) {
  if (!fits(plan.batch(1), device_bytes, reserve_fraction, where)) return 0;
  if (fits(plan.batch(unlimited_batch), device_bytes, reserve_fraction, where)) {
    return unlimited_batch;
  }
  // total_bytes() is monotonic in the batch: `low` fits, `high` does not.
  std::uint64_t low = 1;
  std::uint64_t high = unlimited_batch;
  while (high - low > 1) {
    // Doubles first: most results are small.
    std::uint64_t const middle =
        low < high / 2 && high == unlimited_batch ? low * 2 : low + (high - low) / 2;
    (fits(plan.batch(middle), device_bytes, reserve_fraction, where) ? low : high) = middle;
  }
  return low;
}

namespace detail {

// "1.5 GiB": rounded to hundredths.
inline text size_text(std::uint64_t bytes) noexcept {
  constexpr char const* units[] = {" bytes", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1024.0 && unit < 6) {
    value /= 1024.0;
    ++unit;
  }
  double const hundredths = static_cast<double>(static_cast<std::int64_t>(value * 100.0 + 0.5));
  return text{hundredths / 100.0} + units[unit];
}

}  // namespace detail

/// Describes a plan as text: the total, a line for each part, and whether it fits.
/// @param plan              a training_plan or an inference_plan
/// @param device_bytes      the device's memory; 0, the default, omits whether the plan fits
/// @param reserve_fraction  the fraction of it that stays free, at least 0 and below 1
/// @return lines without a newline at the end, plain ASCII, as "training, batch 1: 111.76 GiB" and
///   "  weights 13.97 GiB"
/// @throws std::invalid_argument  as breakdown() and fits(); std::bad_alloc
/// **Threads:** any. **Capture:** legal; no CUDA call.
template <class Plan>
[[nodiscard]] std::string explain(Plan const& plan, std::uint64_t device_bytes = 0,
                                  double reserve_fraction = 0.0,
                                  source_location where = source_location::current()) {
  memory_breakdown const b = plan.breakdown(where);
  std::uint64_t const total = plan.total_bytes(where);
  std::string lines =
      (detail::text{plan.name()} + ", batch " + plan.batch() + ": " + detail::size_text(total))
          .c_str();
  struct {
    char const* name;
    std::uint64_t bytes;
  } const parts[] = {
      {"weights", b.weights_bytes},         {"master weights", b.master_weights_bytes},
      {"gradients", b.gradients_bytes},     {"optimizer state", b.optimizer_bytes},
      {"activations", b.activations_bytes}, {"KV cache", b.kv_cache_bytes},
      {"workspace", b.workspace_bytes}};
  for (auto const& part : parts) {
    if (part.bytes == 0) continue;
    lines += (detail::text{"\n  "} + part.name + " " + detail::size_text(part.bytes)).c_str();
  }
  if (device_bytes == 0) return lines;
  std::uint64_t const usable = usable_bytes(device_bytes, reserve_fraction, where);
  detail::text verdict = detail::text{"\n"} + (total <= usable ? "fits in " : "does not fit in ") +
                         detail::size_text(usable);
  if (usable != device_bytes) {
    verdict += detail::text{" ("} + detail::size_text(device_bytes) + " less a reserve)";
  }
  if (total <= usable) {
    verdict += detail::text{", "} + detail::size_text(usable - total) + " left; largest batch ";
    std::uint64_t const most = largest_batch(plan, device_bytes, reserve_fraction, where);
    verdict += most == unlimited_batch ? detail::text{"unlimited"} : detail::text{most};
  } else {
    verdict += detail::text{", "} + detail::size_text(total - usable) + " too much";
    std::uint64_t const most = largest_batch(plan, device_bytes, reserve_fraction, where);
    verdict +=
        most == 0 ? detail::text{"; no batch fits"} : detail::text{"; largest batch "} + most;
  }
  lines += verdict.c_str();
  return lines;
}

WARPWRIGHT_END
