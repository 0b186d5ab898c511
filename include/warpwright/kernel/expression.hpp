// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Elementwise expressions over arrays, as types: building one makes no CUDA call and accesses no
// memory; evaluate.hpp evaluates an assignment as one kernel.
//
//   ew::run(stream, ew::out(y, n) = ew::gelu(ew::in(x, n) * w + ew::row(bias, cols)));
//
// Types. __half, __nv_bfloat16 and the fp8 types are computed as float, everything else as itself,
// and two types are combined as in C++, with one exception: a plain floating-point number takes the
// type of the floating-point expression beside it, so that `x * 0.5` stays float for float x.
// constant(0.5) keeps its type. Integers divide, wrap and compare as C++'s do. A value becomes the
// output's type as by cast().
//
// Complex numbers. The elements of an array of std::complex<float>, of cuda::std::complex<float>,
// or of another type with value_type float, real() and imag() that is two floats with the real part
// first, are computed as ew::complex<float>. The headers of those types are not included here.
//
//   std::complex<float> const* x = ...;
//   ew::run(s, ew::out(y, n) = ew::conj(ew::in(x, n)) * ew::in(h, n) / n);
//
// Infinite operands and division by 0 may yield NaN parts: products and quotients are the plain
// formulas, without the recovery of infinities in annex G of the C standard. A constant(0.5) or
// another strong double beside a complex number does not compile. + - * / == != take complex and
// real operands. Real operands become float and are not widened to complex: z * r is two products.
#pragma once

#include <warpwright/kernel/detail/expression/nodes.hpp>
#include <warpwright/kernel/detail/expression/operators.hpp>

WARPWRIGHT_BEGIN

namespace ew {

/// An array to read, element by element.
/// @pre `T` is __half, __nv_bfloat16, __nv_fp8_e4m3, __nv_fp8_e5m2, a number, std::complex<float>
/// or its like (see above), or a trivially copyable type for map()
/// @param data  `size` elements, in memory that the runtime's kernels can read
/// @param size  as many as the output has
/// **Cost:** none; the array is read when the expression is evaluated.
template <class T>
[[nodiscard]] input<T> in(T const* data, std::size_t size) {
  return {{detail::stored(data)}, size};
}

/// An array that repeats for every row: element i of the output uses `data[i % cols]`, for example
/// the bias of a row-major matrix.
/// @param data  `cols` elements
/// @param cols  the length of one row; divides the output's number of elements
template <class T>
[[nodiscard]] row_input<T> row(T const* data, std::size_t cols) {
  return {{detail::stored(data)}, detail::fast_divisor{cols}};
}

/// An array with one element for each row: element i of the output uses `data[i / cols]`.
/// @param data  one element for each row of the output
/// @param cols  the length of one row; divides the output's number of elements
template <class T>
[[nodiscard]] column_input<T> col(T const* data, std::size_t cols) {
  return {{detail::stored(data)}, detail::fast_divisor{cols}};
}

/// One number in device memory, read when the kernel runs: a graph replay reads its current value.
/// @param data  one element
template <class T>
[[nodiscard]] single_input<T> device_scalar(T const* data) {
  return {{detail::stored(data)}};
}

/// A number that keeps its type: `x * constant(0.5)` is double for float x, `x * 0.5` is float.
template <class T>
[[nodiscard]] scalar<typename detail::element_traits<T>::value, false> constant(T value) {
  static_assert(detail::is_scalar<T>, "warpwright::ew::constant: not a number");
  detail::check_no_long_double<T>();
  return detail::make_scalar<false>(value);
}

/// The index of the element, 0 … n - 1, as std::uint64_t.
[[nodiscard]] inline index_value index() { return {}; }

#define WARPWRIGHT_OPERATOR(symbol, types, of)                           \
  template <class A, class B, class = detail::if_operands<A, B>>         \
  [[nodiscard]] constexpr auto operator symbol(A const& a, B const& b) { \
    return detail::make_call<detail::types>(detail::of{}, a, b);         \
  }
/// These: arithmetic and comparison, element by element, in the common type of the two sides.
WARPWRIGHT_OPERATOR(+, in_arithmetic_types, plus)
WARPWRIGHT_OPERATOR(-, in_arithmetic_types, minus)
WARPWRIGHT_OPERATOR(*, in_arithmetic_types, multiplies)
WARPWRIGHT_OPERATOR(==, in_common_type, equal_to)
WARPWRIGHT_OPERATOR(!=, in_common_type, not_equal_to)
WARPWRIGHT_OPERATOR(<, in_common_type, less)
WARPWRIGHT_OPERATOR(<=, in_common_type, less_equal)
WARPWRIGHT_OPERATOR(>, in_common_type, greater)
WARPWRIGHT_OPERATOR(>=, in_common_type, greater_equal)
/// As operator+. Integer quotients are truncated towards 0; x / 0 is 0, and the least integer / -1
/// wraps. The same on both runtimes.
WARPWRIGHT_OPERATOR(/, in_arithmetic_types, divides)
/// The remainder of operator/, of integers: x % 0 is x. The same on both runtimes.
WARPWRIGHT_OPERATOR(%, in_common_type, modulus)
/// These and operator!: logic, element by element; both sides are always evaluated.
WARPWRIGHT_OPERATOR(&&, as_conditions, logical_and)
WARPWRIGHT_OPERATOR(||, as_conditions, logical_or)
#undef WARPWRIGHT_OPERATOR
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto operator!(A const& a) {
  return detail::make_call<detail::as_conditions>(detail::logical_not{}, a);
}
/// The negative, element by element.
template <class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto operator-(A const& a) {
  return detail::make_call<detail::in_common_type>(detail::negate{}, a);
}

#define WARPWRIGHT_OPERATOR(symbol)                             \
  template <class A, class B, class = detail::if_expression<A>> \
  constexpr auto operator symbol(A const& a, B const&) {        \
    return detail::refuse_write<B>(a);                          \
  }
/// These: an expression is not written, an out() is; refused at compile time.
WARPWRIGHT_OPERATOR(+=)
WARPWRIGHT_OPERATOR(-=)
WARPWRIGHT_OPERATOR(*=)
WARPWRIGHT_OPERATOR(/=)
#undef WARPWRIGHT_OPERATOR

/// `yes` where `condition` holds and `no` elsewhere, in their common type.
template <class Condition, class A, class B, class = detail::if_operands<Condition, A, B>>
[[nodiscard]] constexpr auto where(Condition const& condition, A const& yes, B const& no) {
  return detail::make_call<detail::after_condition>(detail::where_function{}, condition, yes, no);
}

/// The value rounded to `T`; computations continue in T's compute type.
///
/// Floating point to integer truncates and saturates, and NaN becomes 0; to __half, __nv_bfloat16
/// and float it rounds to nearest even, and so it does to fp8, which saturates (see numeric.hpp).
/// It is rounded once, from its own type, which may be double or a 64-bit integer. The same on both
/// runtimes.
template <class T, class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr auto cast(A const& a) {
  detail::check_no_long_double<T>();
  static_assert(detail::is_number<T>, "warpwright::ew::cast: the type must be a number");
  return detail::make_call<detail::unconverted>(detail::cast_function<T>{}, a);
}

/// The expression with every array and number in it converted to `T` when it is read.
///
/// `compute_as<double>(x * y)` multiplies float arrays in double; an inner one takes precedence.
template <class T, class A, class = detail::if_operands<A>>
[[nodiscard]] constexpr computed_as<T, A> compute_as(A const& a) {
  detail::check_no_long_double<T>();
  static_assert(
      std::is_arithmetic<T>::value,
      "warpwright::ew::compute_as: the type must be float, double or an integer; to round "
      "to a 16-bit type use cast");
  return {a};
}

/// A function of your own over any number of expressions: `function(a[i], b[i], ...)`.
/// @pre F is trivially copyable with a const `WARPWRIGHT_HOST_DEVICE operator()` that returns a
///   value and depends on its arguments alone; elements of 16-bit and 8-bit floats arrive as float
/// @param function  copied into the kernel's arguments; lambdas need nvcc's --extended-lambda, and
///   below a reduction or a function of rows a `__device__` one must say what it returns, as in
///   `[] __device__(float a) -> float {…}` (CUDA 12.6 or newer), or be `__host__ __device__`
/// @param a         expressions and numbers
template <class F, class... A, class = detail::if_operands<A...>>
[[nodiscard]] constexpr auto map(F const& function, A const&... a) {
  static_assert(
      detail::is_extended_lambda<F> || std::is_trivially_copyable<F>::value,
      "warpwright::ew::map: the function must be trivially copyable, as a kernel's argument "
      "is: hold pointers and numbers, not containers");
  static_assert(
      detail::is_map_of<F, A...>(),
      "warpwright::ew::map: the function cannot be called with one value of each operand; "
      "its operator() must be const, and 16-bit floats arrive as float");
  static_assert(detail::has_value<F, A...>(),
                "warpwright::ew::map: the function returns void; it returns the element's value");
  return detail::make_call<detail::unconverted>(function, a...);
}

namespace detail {

// What is assigned to an output may read it in place.
template <class Output>
struct updated_output {
#define WARPWRIGHT_OPERATOR(symbol)                         \
  template <class X>                                        \
  [[nodiscard]] auto operator symbol##=(X const& x) const { \
    return self() = self().itself() symbol x;               \
  }
  /// These: adds the expression to every element, in place; subtracts it, and so on.
  WARPWRIGHT_OPERATOR(+)
  WARPWRIGHT_OPERATOR(-)
  WARPWRIGHT_OPERATOR(*)
  WARPWRIGHT_OPERATOR(/)
#undef WARPWRIGHT_OPERATOR

 private:
  Output const& self() const { return static_cast<Output const&>(*this); }
};

}  // namespace detail

/// What out() returns: assign an expression to it.
template <class T>
class output : public detail::updated_output<output<T>> {
 public:
  output(T* data, std::size_t size) : data_{data}, size_{size} {}
  output(output const&) = default;
  output& operator=(output const&) = delete;  // not readable: write `= ew::in(...)`

  /// Assigns the expression to every element.
  template <class X>
  [[nodiscard]] auto operator=(X const& x) const {
    static_assert(
        detail::is_expression<X> || detail::is_scalar<X>,
        "warpwright::ew::out: the right side must be an expression, as in(pointer, n), or a "
        "number");
    return assignment<T, detail::expression_t<X>>{reinterpret_cast<detail::bits_of<T>*>(data_),
                                                  size_, detail::as_expression(x)};
  }

 private:
  friend detail::updated_output<output>;
  [[nodiscard]] input<T> itself() const { return in(data_, size_); }
  T* data_;
  std::size_t size_;
};

/// An array to write, every element of it.
/// @param data  `size` elements; may be the data of an in() of the same element size (in
///   place), but not overlap an operand in any other way
/// @param size  0 makes the evaluation a no-op
template <class T>
[[nodiscard]] output<T> out(T* data, std::size_t size) {
  static_assert(!std::is_const<T>::value,
                "warpwright::ew::out: the pointer is to const; an output must be writable");
  static_assert(detail::is_element<T>(),
                "warpwright::ew::out: the element must be trivially copyable");
  return output<T>{data, size};
}

/// Several outputs of one kernel: `tie(out(p, n) = x + y, out(q, n) = x - y)`.
/// @param a  assignments to outputs of one size, which do not overlap
template <class... A>
[[nodiscard]] assignments<A...> tie(A const&... a) {
  static_assert(sizeof...(A) > 0 && (detail::is_assignment<A> && ...),
                "warpwright::ew::tie: every argument must be an assignment, as out(pointer, n) = "
                "expression");
  return {{{a}...}};
}

}  // namespace ew

WARPWRIGHT_END
