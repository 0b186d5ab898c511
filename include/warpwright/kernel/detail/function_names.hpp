// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What describe() calls functions, operators and element types.
#pragma once

#include <warpwright/kernel/functions.hpp>

WARPWRIGHT_BEGIN

namespace ew {

// Of headers that need not be included to describe what they do not occur in.
template <class T, int Rank>
struct view_input;
template <class Use>
struct draw;
enum class row_part : unsigned char;
template <class K, class E, row_part Part>
struct row_function;

namespace detail {

struct raw_bits;
struct gaussian;
struct to_unit_interval;
struct below;
template <class T>
struct rounded_by_chance;
template <class T>
struct saturated_to;
struct softmax_kind;
struct log_softmax_kind;
struct layer_norm_kind;
struct rms_norm_kind;

// As its author calls a function of the library; null for others.
template <class F>
inline constexpr char const* name_of_function = nullptr;
template <>
inline constexpr char const* name_of_function<absolute> = "abs";
template <>
inline constexpr char const* name_of_function<exponential> = "exp";
template <>
inline constexpr char const* name_of_function<exponential_of_2> = "exp2";
template <>
inline constexpr char const* name_of_function<exponential_minus_1> = "expm1";
template <>
inline constexpr char const* name_of_function<logarithm> = "log";
template <>
inline constexpr char const* name_of_function<logarithm_to_2> = "log2";
template <>
inline constexpr char const* name_of_function<logarithm_of_1_plus> = "log1p";
template <>
inline constexpr char const* name_of_function<power> = "pow";
template <>
inline constexpr char const* name_of_function<square_root> = "sqrt";
template <>
inline constexpr char const* name_of_function<reciprocal_square_root> = "rsqrt";
template <>
inline constexpr char const* name_of_function<sine> = "sin";
template <>
inline constexpr char const* name_of_function<cosine> = "cos";
template <>
inline constexpr char const* name_of_function<hyperbolic_tangent> = "tanh";
template <>
inline constexpr char const* name_of_function<error_function> = "erf";
template <>
inline constexpr char const* name_of_function<logistic> = "sigmoid";
template <>
inline constexpr char const* name_of_function<rectified> = "relu";
template <>
inline constexpr char const* name_of_function<leaky_rectified> = "leaky_relu";
template <>
inline constexpr char const* name_of_function<soft_rectified> = "softplus";
template <>
inline constexpr char const* name_of_function<sigmoid_weighted> = "silu";
template <>
inline constexpr char const* name_of_function<hard_sigmoid_weighted> = "hardswish";
template <>
inline constexpr char const* name_of_function<gaussian_weighted> = "gelu";
template <>
inline constexpr char const* name_of_function<gaussian_weighted_by_tanh> = "gelu_tanh";
template <>
inline constexpr char const* name_of_function<smaller> = "min";
template <>
inline constexpr char const* name_of_function<larger> = "max";
template <>
inline constexpr char const* name_of_function<clamped> = "clamp";
template <>
inline constexpr char const* name_of_function<rounded_down> = "floor";
template <>
inline constexpr char const* name_of_function<rounded_up> = "ceil";
template <>
inline constexpr char const* name_of_function<rounded_from_0> = "round";
template <>
inline constexpr char const* name_of_function<rounded_to_even> = "rint";
template <>
inline constexpr char const* name_of_function<multiplied_and_added> = "fma";
template <>
inline constexpr char const* name_of_function<not_a_number> = "isnan";
template <>
inline constexpr char const* name_of_function<finite> = "isfinite";
template <>
inline constexpr char const* name_of_function<real_part> = "real";
template <>
inline constexpr char const* name_of_function<imaginary_part> = "imag";
template <>
inline constexpr char const* name_of_function<conjugated> = "conj";
template <>
inline constexpr char const* name_of_function<absolute_squared> = "abs_squared";
template <>
inline constexpr char const* name_of_function<complex_of_parts> = "make_complex";
template <>
inline constexpr char const* name_of_function<chosen_by> = "where";
template <>
inline constexpr char const* name_of_function<to_unit_interval> = "uniform";
template <>
inline constexpr char const* name_of_function<below> = "bernoulli";
template <>
inline constexpr char const* name_of_function<softmax_kind> = "softmax";
template <>
inline constexpr char const* name_of_function<log_softmax_kind> = "log_softmax";
template <>
inline constexpr char const* name_of_function<layer_norm_kind> = "layer_norm";
template <>
inline constexpr char const* name_of_function<rms_norm_kind> = "rms_norm";

// An operator as it is written, and how strongly it holds its operands.
struct operator_sign {
  char const* symbol;
  int strength;
};
inline constexpr int comparing = 4;
inline constexpr int unary = 7;
template <class F>
inline constexpr operator_sign sign_of{nullptr, 0};
template <>
inline constexpr operator_sign sign_of<either>{"||", 1};
template <>
inline constexpr operator_sign sign_of<both>{"&&", 2};
template <>
inline constexpr operator_sign sign_of<equal_to>{"==", comparing};
template <>
inline constexpr operator_sign sign_of<not_equal_to>{"!=", comparing};
template <>
inline constexpr operator_sign sign_of<less>{"<", comparing};
template <>
inline constexpr operator_sign sign_of<less_equal>{"<=", comparing};
template <>
inline constexpr operator_sign sign_of<greater>{">", comparing};
template <>
inline constexpr operator_sign sign_of<greater_equal>{">=", comparing};
template <>
inline constexpr operator_sign sign_of<plus>{"+", 5};
template <>
inline constexpr operator_sign sign_of<minus>{"-", 5};
template <>
inline constexpr operator_sign sign_of<times>{"*", 6};
template <>
inline constexpr operator_sign sign_of<divided_by>{"/", 6};
template <>
inline constexpr operator_sign sign_of<modulo>{"%", 6};
template <>
inline constexpr operator_sign sign_of<negated>{"-", unary};
template <>
inline constexpr operator_sign sign_of<inverted>{"!", unary};

// cast<T>() and its like.
struct conversion_name {
  char const* function;
  char const* type;
};

template <class T>
constexpr char const* element_name() {
  if constexpr (std::is_same<T, __half>::value) {
    return "f16";
  } else if constexpr (std::is_same<T, __nv_bfloat16>::value) {
    return "bf16";
  } else if constexpr (std::is_same<T, __nv_fp8_e4m3>::value) {
    return "e4m3";
  } else if constexpr (std::is_same<T, __nv_fp8_e5m2>::value) {
    return "e5m2";
  } else if constexpr (std::is_same<T, bool>::value) {
    return "bool";
  } else if constexpr (std::is_floating_point<T>::value) {
    return sizeof(T) == 4 ? "f32" : "f64";
  } else if constexpr (std::is_integral<T>::value) {
    constexpr char const* names[][2] = {
        {"u8", "i8"}, {"u16", "i16"}, {"u32", "i32"}, {"u64", "i64"}};
    constexpr int place = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
    return names[place][std::is_signed<T>::value ? 1 : 0];
  } else if constexpr (looks_complex<T>) {
    return "complex";
  } else {
    return "struct";
  }
}

template <class F>
inline constexpr conversion_name conversion_of{nullptr, nullptr};
template <class T>
inline constexpr conversion_name conversion_of<rounded_to<T>>{"cast", element_name<T>()};
template <class T>
inline constexpr conversion_name conversion_of<saturated_to<T>>{"saturate_cast", element_name<T>()};
template <class T>
inline constexpr conversion_name conversion_of<rounded_by_chance<T>>{"stochastic_round",
                                                                     element_name<T>()};

}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
