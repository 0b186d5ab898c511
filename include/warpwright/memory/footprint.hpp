// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The memory sizes of a neural network's parts: pure arithmetic without CUDA calls, usable in
// static_assert. memory/plan.hpp computes totals.
//
// Sources of the formulas, by the names used below:
//   ZeRO       Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter
//              Models", SC 2020, arXiv:1910.02054, sections 3.1 and 5
//   Adam8      Dettmers et al., "8-bit Optimizers via Block-wise Quantization", ICLR 2022,
//              arXiv:2110.02861
//   Recompute  Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models",
//              MLSys 2023, arXiv:2205.05198, sections 4 and 5
//   GQA        Ainslie et al., "GQA: Training Generalized Multi-Query Transformer Models from
//              Multi-Head Checkpoints", EMNLP 2023, arXiv:2305.13245
#pragma once

#include <warpwright/core/detail/options.hpp>
#include <warpwright/core/detail/text/text.hpp>
#include <warpwright/core/error.hpp>

#include <cstddef>
#include <cstdint>

WARPWRIGHT_BEGIN

/// How the elements of an array are stored.
enum class precision {
  fp64,      ///< 8 bytes
  fp32,      ///< 4 bytes
  tf32,      ///< 4 bytes: tensor cores round it to 19 bits only while they compute
  fp16,      ///< 2 bytes
  bf16,      ///< 2 bytes
  fp8_e4m3,  ///< 1 byte
  fp8_e5m2,  ///< 1 byte
  int8,      ///< 1 byte
  int4,      ///< two elements a byte
};

/// What an optimizer stores for each parameter in addition to the parameter and its gradient.
enum class optimizer_kind {
  sgd,           ///< nothing
  sgd_momentum,  ///< one fp32 value: 4 bytes
  adam,          ///< two fp32 moments: 8 bytes (ZeRO, section 3.1); AdamW as well
  adam_8bit,     ///< two 8-bit moments: 2 bytes (Adam8); without the scale of each block
};

/// What data-parallel devices shard instead of storing it on every device (ZeRO, section 5).
enum class zero_stage {
  none,        ///< nothing: every device stores everything
  optimizer,   ///< stage 1: the optimizer's state and the master weights
  gradients,   ///< stage 2: the gradients as well
  parameters,  ///< stage 3: the weights as well
};

/// Which activations of a transformer layer are recomputed in the backward pass.
enum class recomputation {
  none,       ///< none: all activations are stored
  selective,  ///< the attention scores (Recompute, section 5); equivalent to fused attention
              ///< kernels that never store them, as FlashAttention
  full,       ///< all but the input of each layer
};

/// @return the size of one element in bits
[[nodiscard]] constexpr std::uint64_t bits_of(precision p) noexcept {
  constexpr std::uint64_t bits[] = {64, 32, 32, 16, 16, 8, 8, 8, 4};
  auto const index = static_cast<std::size_t>(p);
  return index < sizeof(bits) / sizeof(bits[0]) ? bits[index] : 8;
}

/// @return the name, as "bf16"
[[nodiscard]] constexpr char const* to_string(precision p) noexcept {
  constexpr char const* names[] = {"fp64",     "fp32",     "tf32", "fp16", "bf16",
                                   "fp8 e4m3", "fp8 e5m2", "int8", "int4"};
  return detail::enum_name(names, p);
}

namespace detail {

constexpr std::uint64_t values_per_parameter(optimizer_kind kind) noexcept {
  constexpr std::uint64_t numbers[] = {0, 1, 2, 2};
  return numbers[static_cast<int>(kind)];
}
constexpr precision optimizer_precision(optimizer_kind kind, precision p) noexcept {
  return kind == optimizer_kind::adam_8bit ? precision::int8 : p;
}

}  // namespace detail

/// @param kind  the optimizer
/// @param p     how its state is stored; ignored for adam_8bit, whose state has 8 bits
/// @return the optimizer's state in bytes a parameter, rounded up: one int4 value counts as a byte
///   here, as half a byte in a training_plan
[[nodiscard]] constexpr std::uint64_t optimizer_bytes_per_parameter(
    optimizer_kind kind, precision p = precision::fp32) noexcept {
  return (detail::values_per_parameter(kind) * bits_of(detail::optimizer_precision(kind, p)) + 7) /
         8;
}

namespace detail {

constexpr std::uint64_t too_many_bytes = ~std::uint64_t{0};

/// A number that stays at its maximum instead of wrapping; 0 times that is 0.
struct saturated {
  std::uint64_t value;
  constexpr saturated(std::uint64_t number) noexcept : value{number} {}
  friend constexpr saturated operator+(saturated a, saturated b) noexcept {
    return a.value > too_many_bytes - b.value ? too_many_bytes : a.value + b.value;
  }
  friend constexpr saturated operator*(saturated a, saturated b) noexcept {
    return b.value != 0 && a.value > too_many_bytes / b.value ? too_many_bytes : a.value * b.value;
  }
};
constexpr std::uint64_t divide_up(std::uint64_t a, std::uint64_t b) noexcept {
  return a / b + (a % b != 0 ? 1U : 0U);
}

constexpr saturated storage_of(saturated elements, precision p) noexcept {
  if (elements.value == too_many_bytes) return too_many_bytes;
  if (p == precision::int4) return divide_up(elements.value, 2);
  return elements * (bits_of(p) / 8);
}
// Each value of the state is an array of its own.
constexpr saturated optimizer_state_of(std::uint64_t parameters, optimizer_kind kind,
                                       precision p) noexcept {
  return values_per_parameter(kind) * storage_of(parameters, optimizer_precision(kind, p));
}

// Not constexpr, so that in a constant expression the compiler's error names the function.
[[noreturn]] WARPWRIGHT_COLD inline void throw_invalid_plan(text const& problem,
                                                            source_location where) {
  throw_invalid_argument(text{"memory plan: "} + problem, where);
}
[[noreturn]] WARPWRIGHT_COLD inline void throw_plan_too_large(text const& what,
                                                              source_location where) {
  throw_invalid_plan(what + " need more than 2^64 - 2 bytes; check the figures", where);
}

}  // namespace detail

/// The size of an array of parameters, gradients or activations.
/// @param elements  how many
/// @param p         how each is stored; two int4 share a byte, an odd last one has its own
/// @return bytes
/// @throws std::invalid_argument  when the size is beyond 64 bits
/// **Threads:** any. **Capture:** legal; no CUDA call.
[[nodiscard]] constexpr std::uint64_t storage_bytes(
    std::uint64_t elements, precision p, source_location where = source_location::current()) {
  std::uint64_t const bytes = detail::storage_of(elements, p).value;
  if (bytes == detail::too_many_bytes) {
    detail::throw_plan_too_large(detail::text{elements} + " elements of " + to_string(p), where);
  }
  return bytes;
}

namespace detail {

/// The values of transformer_shape, which documents them.
struct transformer_values {
  std::uint64_t layers = 0;
  std::uint64_t hidden = 0;
  std::uint64_t heads = 0;
  std::uint64_t kv_heads = 0;
  std::uint64_t head_size = 0;
  std::uint64_t vocabulary = 0;
};

}  // namespace detail

/// The shape of a transformer. Every setter returns a changed copy.
class transformer_shape
    : public detail::options_base<transformer_shape, detail::transformer_values> {
 public:
  /// @param count  layers (blocks of attention and MLP), at least 1
  constexpr self layers(std::uint64_t count) const { return with(&values::layers, count); }
  /// @param size  width of the residual stream in elements, at least 1
  constexpr self hidden(std::uint64_t size) const { return with(&values::hidden, size); }
  /// @param count  query heads, at least 1
  constexpr self heads(std::uint64_t count) const { return with(&values::heads, count); }
  /// @param count  heads of keys and values, a divisor of heads(): fewer are grouped-query
  ///   attention, 1 is multi-query attention (GQA); 0, the default: as many as heads()
  constexpr self kv_heads(std::uint64_t count) const { return with(&values::kv_heads, count); }
  /// @param size  elements of one head; 0, the default: hidden() / heads()
  constexpr self head_size(std::uint64_t size) const { return with(&values::head_size, size); }
  /// @param size  tokens of the vocabulary; 0, the default, omits the activations of the input and
  ///   output layers
  constexpr self vocabulary(std::uint64_t size) const { return with(&values::vocabulary, size); }

  [[nodiscard]] constexpr std::uint64_t layers() const { return values_.layers; }
  [[nodiscard]] constexpr std::uint64_t hidden() const { return values_.hidden; }
  [[nodiscard]] constexpr std::uint64_t heads() const { return values_.heads; }
  [[nodiscard]] constexpr std::uint64_t kv_heads() const {
    return values_.kv_heads == 0 ? values_.heads : values_.kv_heads;
  }
  [[nodiscard]] constexpr std::uint64_t head_size() const {
    return values_.head_size != 0 || values_.heads == 0 ? values_.head_size
                                                        : values_.hidden / values_.heads;
  }
  [[nodiscard]] constexpr std::uint64_t vocabulary() const { return values_.vocabulary; }

  /// @throws std::invalid_argument  for an inconsistent shape
  constexpr void require_valid(source_location where = source_location::current()) const {
    if (values_.layers == 0 || values_.hidden == 0 || values_.heads == 0) {
      detail::throw_invalid_plan(detail::text{"a transformer of "} + values_.layers +
                                     " layers, hidden " + values_.hidden + " and " + values_.heads +
                                     " heads; each must be at least 1",
                                 where);
    }
    if (values_.head_size == 0 && values_.hidden % values_.heads != 0) {
      detail::throw_invalid_plan(detail::text{"hidden "} + values_.hidden + " is no multiple of " +
                                     values_.heads + " heads; give the head_size",
                                 where);
    }
    if (values_.heads % kv_heads() != 0) {
      detail::throw_invalid_plan(detail::text{""} + values_.kv_heads +
                                     " heads of keys and values do not "
                                     "divide " +
                                     values_.heads + " query heads",
                                 where);
    }
  }
};

namespace detail {

constexpr saturated kv_cache_of(transformer_shape const& t, saturated tokens, saturated batch,
                                precision p) noexcept {
  return storage_of(tokens * batch * t.layers() * t.kv_heads() * t.head_size() * 2, p);
}

// One layer stores, for each of the s b h elements: 16 elements (inputs of the two norms, of query,
// key and value together, of the output projection, of both MLP matrices (1 and 4) and of the
// activation function (4); queries, keys, values) and 2 bytes of dropout masks; for each of the a
// s^2 b scores 2 elements (softmax, its dropout) and 1 byte of mask. In 16 bits that is s b h (34 +
// 5 a s / h) bytes: Recompute, equation (1).
constexpr saturated layer_activations_of(transformer_shape const& t, saturated sequence,
                                         saturated batch, precision p, recomputation r) noexcept {
  saturated const sbh = sequence * batch * t.hidden();
  if (r == recomputation::full) return storage_of(sbh, p);
  saturated const bytes = storage_of(sbh * 16, p) + sbh * 2;
  if (r != recomputation::none) return bytes;
  saturated const scores = sequence * sequence * batch * t.heads();
  return bytes + storage_of(scores * 2, p) + scores;
}

// All layers and, with a vocabulary: the mask of the embedding's dropout, the inputs of the last
// norm and of the output layer, and the logits in fp32 (Recompute, section 4.3).
constexpr saturated activations_of(transformer_shape const& t, saturated sequence, saturated batch,
                                   precision p, recomputation r) noexcept {
  saturated const bytes = layer_activations_of(t, sequence, batch, p, r) * t.layers();
  if (t.vocabulary() == 0) return bytes;
  saturated const sbh = sequence * batch * t.hidden();
  return bytes + sbh + storage_of(sbh * 2, p) + sequence * batch * t.vocabulary() * 4;
}

[[noreturn]] WARPWRIGHT_COLD inline void throw_transformer_too_large(
    char const* what, transformer_shape const& t, std::uint64_t tokens, std::uint64_t batch,
    precision p, source_location where) {
  throw_plan_too_large(text{what} + " of " + t.layers() + " layers, hidden " + t.hidden() + ", " +
                           t.heads() + " heads, " + tokens + " tokens, batch " + batch + " in " +
                           to_string(p),
                       where);
}

}  // namespace detail

/// The size of a transformer's KV cache during generation: 2 x layers x kv_heads x head_size x
/// tokens x batch elements (GQA).
/// @param shape   layers, heads and hidden must be given
/// @param tokens  context of one sequence, prompt and answer together
/// @param batch   sequences at once
/// @param p       how keys and values are stored
/// @return bytes
/// @throws std::invalid_argument  for an inconsistent shape, or a size beyond 64 bits
/// **Threads:** any. **Capture:** legal; no CUDA call.
[[nodiscard]] constexpr std::uint64_t kv_cache_bytes(
    transformer_shape const& shape, std::uint64_t tokens, std::uint64_t batch = 1,
    precision p = precision::fp16, source_location where = source_location::current()) {
  shape.require_valid(where);
  std::uint64_t const bytes = detail::kv_cache_of(shape, tokens, batch, p).value;
  if (bytes == detail::too_many_bytes) {
    detail::throw_transformer_too_large("keys and values", shape, tokens, batch, p, where);
  }
  return bytes;
}

/// The size of the activations that a transformer stores for its backward pass. In 16 bits, a layer
/// stores s b h (34 + 5 a s / h) bytes, s b h 34 with selective and 2 s b h with full
/// recomputation, for s tokens, batch b, hidden h and a heads (Recompute, sections 4 and 5).
///
/// The layer is the paper's: multi-head attention, an MLP of 4 h with one activation function,
/// dropout, no tensor or pipeline parallelism. The activations of the one layer that full
/// recomputation recomputes at a time are not counted.
/// @param shape            layers, heads and hidden must be given
/// @param sequence_length  tokens
/// @param batch            sequences at once
/// @param p                how activations are stored
/// @param r                what is recomputed in the backward pass
/// @return bytes
/// @throws std::invalid_argument  for an inconsistent shape, or a size beyond 64 bits
/// **Threads:** any. **Capture:** legal; no CUDA call.
[[nodiscard]] constexpr std::uint64_t transformer_activation_bytes(
    transformer_shape const& shape, std::uint64_t sequence_length, std::uint64_t batch = 1,
    precision p = precision::fp16, recomputation r = recomputation::none,
    source_location where = source_location::current()) {
  shape.require_valid(where);
  std::uint64_t const bytes = detail::activations_of(shape, sequence_length, batch, p, r).value;
  if (bytes == detail::too_many_bytes) {
    detail::throw_transformer_too_large("activations", shape, sequence_length, batch, p, where);
  }
  return bytes;
}

WARPWRIGHT_END
