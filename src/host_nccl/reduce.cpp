// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <type_traits>
#include <warpwright/core/detail/tensors/small_float.hpp>

#include "wire.hpp"

namespace warpwright::host_nccl {
namespace {

// How the elements of a type are stored, and in which type they are reduced.
template <class T>
struct plain {
  using stored = T;
  static T load(T value) { return value; }
  static T store(T value) { return value; }
};
struct half {
  using stored = std::uint16_t;
  static float load(stored bits) { return detail::float_from_half(bits); }
  static stored store(float value) { return detail::half_from_float(value); }
};
struct bfloat16 {
  using stored = std::uint16_t;
  static float load(stored bits) { return detail::float_from_bfloat16(bits); }
  static stored store(float value) { return detail::bfloat16_from_float(value); }
};
template <class T>
struct fp8 {
  using stored = std::uint8_t;
  static float load(stored bits) {
    std::uint32_t const halves = detail::halves_from_fp8_pair<T>(bits);
    return detail::float_from_half(static_cast<std::uint16_t>(halves & 0xffffU));
  }
  static stored store(float value) { return detail::nearest_small_float<T>(value); }
};

template <class T>
T combine(ncclRedOp_t reduction, T a, T b) {
  // Of a NaN and a number, the number.
  if (reduction == ncclMax) return b > a || a != a ? b : a;
  if (reduction == ncclMin) return b < a || a != a ? b : a;
  if constexpr (std::is_integral_v<T>) {  // wraps, as on a GPU
    T result;
    reduction == ncclProd ? __builtin_mul_overflow(a, b, &result)
                          : __builtin_add_overflow(a, b, &result);
    return result;
  } else {
    return reduction == ncclProd ? a * b : a + b;
  }
}

template <class Format>
void reduce_as(ncclRedOp_t reduction, std::vector<std::byte const*> const& parts, std::size_t count,
               std::byte* result) {
  using stored = typename Format::stored;
  auto const at = [](std::byte const* array, std::size_t i) {
    stored value;
    std::memcpy(&value, array + i * sizeof(stored), sizeof(stored));
    return Format::load(value);
  };
  for (std::size_t i = 0; i < count; ++i) {
    auto value = at(parts[0], i);
    using work = decltype(value);
    for (std::size_t r = 1; r < parts.size(); ++r)
      value = combine(reduction, value, at(parts[r], i));
    if (reduction == ncclAvg) value = static_cast<work>(value / static_cast<work>(parts.size()));
    stored const rounded = Format::store(value);
    std::memcpy(result + i * sizeof(stored), &rounded, sizeof(stored));
  }
}

struct type_facts {
  std::size_t size;
  char const* name;
  decltype(&reduce_as<half>) reduce;
};
constexpr type_facts types[ncclNumTypes] = {{1, "int8", reduce_as<plain<std::int8_t>>},
                                            {1, "uint8", reduce_as<plain<std::uint8_t>>},
                                            {4, "int32", reduce_as<plain<std::int32_t>>},
                                            {4, "uint32", reduce_as<plain<std::uint32_t>>},
                                            {8, "int64", reduce_as<plain<std::int64_t>>},
                                            {8, "uint64", reduce_as<plain<std::uint64_t>>},
                                            {2, "float16", reduce_as<half>},
                                            {4, "float32", reduce_as<plain<float>>},
                                            {8, "float64", reduce_as<plain<double>>},
                                            {2, "bfloat16", reduce_as<bfloat16>},
                                            {1, "float8e4m3", reduce_as<fp8<__nv_fp8_e4m3>>},
                                            {1, "float8e5m2", reduce_as<fp8<__nv_fp8_e5m2>>}};

}  // namespace

std::size_t size_of(ncclDataType_t type) { return types[type].size; }
char const* name_of(ncclDataType_t type) { return types[type].name; }

void reduce(call_description const& call, std::vector<std::byte const*> const& parts,
            std::size_t count, std::byte* result) {
  types[call.type].reduce(call.reduction, parts, count, result);
}

}  // namespace warpwright::host_nccl
