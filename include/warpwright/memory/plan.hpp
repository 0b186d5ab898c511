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

#include <initializer_list>
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
    std::uint64_t sum = 0;
    for (std::uint64_t part :
         {weights_bytes, master_weights_bytes, gradients_bytes, optimizer_bytes, activations_bytes,
          kv_cache_bytes, workspace_bytes}) {
      sum = detail::saturating_add(sum, part);
    }
    return sum;
  }
};

/// The memory that training needs on one device. Every setter returns a changed copy.
///
/// Defaults: fp32 throughout, Adam, one device, batch 1, no activations.
class training_plan {
 public:
  /// @param count  parameters of the whole network
  [[nodiscard]] constexpr training_plan parameters(std::uint64_t count) const {
    training_plan copy = *this;
    copy.parameters_ = count;
    return copy;
  }
  /// Stores weights, gradients and activations in one precision, without master weights.
  [[nodiscard]] constexpr training_plan uniform_precision(precision p) const {
    training_plan copy = *this;
    copy.weights_ = copy.gradients_ = copy.activations_ = p;
    copy.master_weights_ = false;
    return copy;
  }
  /// Stores weights, gradients and activations in a short precision, and master weights in fp32:
  /// with Adam 2 + 2 + 12 bytes a parameter (ZeRO, section 3.1).
  [[nodiscard]] constexpr training_plan mixed_precision(precision p = precision::bf16) const {
    training_plan copy = uniform_precision(p);
    copy.master_weights_ = true;
    return copy;
  }
  /// Stores gradients in another precision, for example to accumulate them in fp32. Call it after
  /// the setters above.
  [[nodiscard]] constexpr training_plan gradient_precision(precision p) const {
    training_plan copy = *this;
    copy.gradients_ = p;
    return copy;
  }
  /// Stores activations in another precision. Call it after the precision setters above.
  [[nodiscard]] constexpr training_plan activation_precision(precision p) const {
    training_plan copy = *this;
    copy.activations_ = p;
    return copy;
  }
  /// @param kind  default: adam
  [[nodiscard]] constexpr training_plan optimizer(optimizer_kind kind) const {
    training_plan copy = *this;
    copy.optimizer_ = kind;
    return copy;
  }
  /// Stores the optimizer's state in another precision than fp32: PyTorch's optimizers store it in
  /// the parameters' precision.
  [[nodiscard]] constexpr training_plan optimizer_precision(precision p) const {
    training_plan copy = *this;
    copy.optimizer_precision_ = p;
    return copy;
  }
  /// Shards the model's state over data-parallel devices; each device's part is rounded up.
  /// @param stage    what is sharded
  /// @param devices  at least 1
  [[nodiscard]] constexpr training_plan sharded(zero_stage stage, std::uint64_t devices) const {
    training_plan copy = *this;
    copy.devices_ = devices;
    copy.stage_ = stage;
    return copy;
  }
  /// Adds the activations of any network that are stored for the backward pass.
  /// @param elements  for one item of the batch
  [[nodiscard]] constexpr training_plan activations_per_item(std::uint64_t elements) const {
    training_plan copy = *this;
    copy.elements_per_item_ = elements;
    return copy;
  }
  /// Adds a transformer's activations, as transformer_activation_bytes().
  /// @param shape            layers, hidden and heads must be given
  /// @param sequence_length  tokens of one item
  /// @param r                what is recomputed in the backward pass
  [[nodiscard]] constexpr training_plan transformer(transformer_shape const& shape,
                                                    std::uint64_t sequence_length,
                                                    recomputation r = recomputation::none) const {
    training_plan copy = *this;
    copy.sequence_length_ = sequence_length;
    copy.shape_ = shape;
    copy.is_transformer_ = true;
    copy.recomputation_ = r;
    return copy;
  }
  /// @param items  items of one step on this device; default: 1
  [[nodiscard]] constexpr training_plan batch(std::uint64_t items) const {
    training_plan copy = *this;
    copy.batch_ = items;
    return copy;
  }
  /// @param bytes  workspaces, communication buffers, the context; default: 0
  [[nodiscard]] constexpr training_plan workspace_bytes(std::uint64_t bytes) const {
    training_plan copy = *this;
    copy.workspace_bytes_ = bytes;
    return copy;
  }

  [[nodiscard]] constexpr std::uint64_t batch() const noexcept { return batch_; }
  [[nodiscard]] constexpr char const* name() const noexcept { return "training"; }

  /// @return the memory by use; a part beyond 64 bits is 2^64 - 1
  /// @throws std::invalid_argument  for 0 devices, or an inconsistent shape
  [[nodiscard]] constexpr memory_breakdown breakdown(
      source_location where = source_location::current()) const {
    if (devices_ == 0) {
      detail::throw_invalid_plan("training sharded among 0 devices; at least 1", where);
    }
    if (is_transformer_) shape_.require_valid(where);
    memory_breakdown b;
    b.weights_bytes = detail::saturating_storage(share(stage_ == zero_stage::parameters), weights_);
    b.gradients_bytes = detail::saturating_storage(
        share(stage_ == zero_stage::parameters || stage_ == zero_stage::gradients), gradients_);
    std::uint64_t const updated = share(stage_ != zero_stage::none);
    if (master_weights_) b.master_weights_bytes = detail::saturating_product({4, updated});
    b.optimizer_bytes =
        detail::saturating_optimizer_state(updated, optimizer_, optimizer_precision_);
    b.activations_bytes = detail::saturating_storage(
        detail::saturating_product({elements_per_item_, batch_}), activations_);
    if (is_transformer_) {
      b.activations_bytes = detail::saturating_add(
          b.activations_bytes, detail::saturating_activations(shape_, sequence_length_, batch_,
                                                              activations_, recomputation_));
    }
    b.workspace_bytes = workspace_bytes_;
    return b;
  }
  /// @return the sum of the breakdown
  /// @throws std::invalid_argument  as breakdown(), and when the sum is beyond 64 bits
  [[nodiscard]] constexpr std::uint64_t total_bytes(
      source_location where = source_location::current()) const {
    std::uint64_t const total = breakdown(where).total_bytes();
    if (total == detail::too_many_bytes) {
      detail::throw_plan_too_large(detail::text{"training with "} + parameters_ +
                                       " parameters, batch " + batch_ + ", " + elements_per_item_ +
                                       " activations an item, " + sequence_length_ +
                                       " tokens and a workspace of " + workspace_bytes_ + " bytes",
                                   where);
    }
    return total;
  }

 private:
  [[nodiscard]] constexpr std::uint64_t share(bool divided) const noexcept {
    return divided ? detail::divide_up(parameters_, devices_) : parameters_;
  }

  std::uint64_t parameters_ = 0;
  precision weights_ = precision::fp32;
  precision gradients_ = precision::fp32;
  precision activations_ = precision::fp32;
  bool master_weights_ = false;
  optimizer_kind optimizer_ = optimizer_kind::adam;
  precision optimizer_precision_ = precision::fp32;
  zero_stage stage_ = zero_stage::none;
  std::uint64_t devices_ = 1;
  std::uint64_t elements_per_item_ = 0;
  bool is_transformer_ = false;
  transformer_shape shape_{};
  std::uint64_t sequence_length_ = 0;
  recomputation recomputation_ = recomputation::none;
  std::uint64_t batch_ = 1;
  std::uint64_t workspace_bytes_ = 0;
};

/// The memory that serving a network needs on one device. Every setter returns a changed copy.
///
/// Defaults: weights, activations and KV cache in fp16, batch 1, no KV cache.
class inference_plan {
 public:
  /// @param count  parameters stored on this device
  /// @param p      how they are stored
  [[nodiscard]] constexpr inference_plan parameters(std::uint64_t count,
                                                    precision p = precision::fp16) const {
    inference_plan copy = *this;
    copy.parameters_ = count;
    copy.weights_ = p;
    return copy;
  }
  /// Adds a transformer's KV cache, as kv_cache_bytes().
  /// @param shape   layers, hidden and heads must be given
  /// @param tokens  context of one item, prompt and answer together
  /// @param p       how keys and values are stored
  [[nodiscard]] constexpr inference_plan kv_cache(transformer_shape const& shape,
                                                  std::uint64_t tokens,
                                                  precision p = precision::fp16) const {
    inference_plan copy = *this;
    copy.tokens_ = tokens;
    copy.shape_ = shape;
    copy.is_transformer_ = true;
    copy.kv_cache_ = p;
    return copy;
  }
  /// Adds the activations that are live at the same time during the forward pass of one item.
  /// @param elements  for one item of the batch
  /// @param p         how they are stored
  [[nodiscard]] constexpr inference_plan activations_per_item(std::uint64_t elements,
                                                              precision p = precision::fp16) const {
    inference_plan copy = *this;
    copy.elements_per_item_ = elements;
    copy.activations_ = p;
    return copy;
  }
  /// @param items  items at once on this device; default: 1
  [[nodiscard]] constexpr inference_plan batch(std::uint64_t items) const {
    inference_plan copy = *this;
    copy.batch_ = items;
    return copy;
  }
  /// @param bytes  workspaces, communication buffers, the context; default: 0
  [[nodiscard]] constexpr inference_plan workspace_bytes(std::uint64_t bytes) const {
    inference_plan copy = *this;
    copy.workspace_bytes_ = bytes;
    return copy;
  }

  [[nodiscard]] constexpr std::uint64_t batch() const noexcept { return batch_; }
  [[nodiscard]] constexpr char const* name() const noexcept { return "inference"; }

  /// @return the memory by use; a part beyond 64 bits is 2^64 - 1
  /// @throws std::invalid_argument  for an inconsistent shape
  [[nodiscard]] constexpr memory_breakdown breakdown(
      source_location where = source_location::current()) const {
    memory_breakdown b;
    b.weights_bytes = detail::saturating_storage(parameters_, weights_);
    b.activations_bytes = detail::saturating_storage(
        detail::saturating_product({elements_per_item_, batch_}), activations_);
    if (is_transformer_) {
      shape_.require_valid(where);
      b.kv_cache_bytes = detail::saturating_kv_cache(shape_, tokens_, batch_, kv_cache_);
    }
    b.workspace_bytes = workspace_bytes_;
    return b;
  }
  /// @return the sum of the breakdown
  /// @throws std::invalid_argument  as breakdown(), and when the sum is beyond 64 bits
  [[nodiscard]] constexpr std::uint64_t total_bytes(
      source_location where = source_location::current()) const {
    std::uint64_t const total = breakdown(where).total_bytes();
    if (total == detail::too_many_bytes) {
      detail::throw_plan_too_large(detail::text{"inference with "} + parameters_ +
                                       " parameters, batch " + batch_ + ", " + elements_per_item_ +
                                       " activations an item, " + tokens_ +
                                       " tokens and a workspace of " + workspace_bytes_ + " bytes",
                                   where);
    }
    return total;
  }

 private:
  std::uint64_t parameters_ = 0;
  precision weights_ = precision::fp16;
  precision activations_ = precision::fp16;
  precision kv_cache_ = precision::fp16;
  std::uint64_t elements_per_item_ = 0;
  bool is_transformer_ = false;
  transformer_shape shape_{};
  std::uint64_t tokens_ = 0;
  std::uint64_t batch_ = 1;
  std::uint64_t workspace_bytes_ = 0;
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
