// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Arrays in any order of memory, as operands and as outputs of expressions: permuted, sliced,
// repeated, reversed.
//
//   auto const image = ew::array(pixels, {n, h, w, 3});  // row-major
//   ew::run(s, ew::out(y, n * 3 * h * w) = ew::view(image.permuted({0, 3, 1, 2})) / 255.0F);
//   ew::run(s, ew::out(ew::array(z, {n, h, w, 4}).sliced(3, 0, 3)) = ew::view(image) * 2);
//
// Element i of the output is computed from the i-th element of the view in the row-major order of
// its shape: the last dimension varies fastest. How a view is loaded:
//   contiguous              as in()
//   suitable inner runs     by vectors: starts and lengths are multiples of a vector
//   contiguous along another dimension than the output's
//                           by run() through shared memory, a tile a block; if that dimension is 2
//                           to 4 interleaved channels, by whole pixels. Only the first such view of
//                           a kernel, of numbers of up to 8 bytes
//   else                    element by element
// Reductions and functions of rows read views, too, without tiles and pixels.
//
// out() of an array makes a strided output. Its shape numbers the elements, and in(), row() and
// index() use these numbers. It is stored by vectors where its inner runs start and end at
// multiples of a vector, else element by element, neighbours by neighbouring threads. A permuted or
// reversed output is evaluated in the order of its memory if it is the kernel's only output and all
// operands are views, numbers and device_scalar(): write view(array(x, shape)) there, not in().
#pragma once

#include <warpwright/kernel/detail/numeric/c_array.hpp>
#include <warpwright/kernel/detail/plan/matrix_shape.hpp>
#include <warpwright/kernel/detail/views/strided_output.hpp>
#include <warpwright/kernel/detail/views/tile_kernel.hpp>
#include <warpwright/kernel/evaluate.hpp>
#include <warpwright/kernel/expression.hpp>

WARPWRIGHT_BEGIN

namespace ew {

template <class T, int Rank>
class strided_output;

/// An array of `Rank` dimensions with any strides: a pointer, extents and strides, without
/// ownership. view() makes an operand of it, and out() an output if T is not const.
template <class T, int Rank>
class strided_array {
 public:
  static_assert(Rank >= 1 && Rank <= detail::max_dimensions,
                "warpwright::ew::array: 1 to 6 dimensions; merge neighbours whose elements are one "
                "stride apart");

  /// Converts an array to one of const elements.
  template <class U, class = std::enable_if_t<std::is_same<U const, T>::value>>
  strided_array(strided_array<U, Rank> const& writable) : data_{writable.data()} {
    for (int k = 0; k < Rank; ++k) {
      shape_[k] = writable.extent_of(k);
      strides_[k] = writable.stride_of(k);
    }
  }

  /// @return the element of index 0 in every dimension
  [[nodiscard]] T* data() const noexcept { return data_; }
  /// @return the number of elements along dimension `k`, counted from 0
  [[nodiscard]] std::int64_t extent_of(int k) const noexcept { return shape_[k]; }
  /// @return elements from one to the next along dimension `k`
  [[nodiscard]] std::int64_t stride_of(int k) const noexcept { return strides_[k]; }

  /// The same elements with the dimensions in another order: dimension k of the result is order[k].
  /// @param order  each of 0 … Rank - 1 once; {0, 3, 1, 2} makes NCHW of NHWC, {0, 2, 3, 1} NHWC of
  ///   NCHW, {1, 0} transposes
  /// @throws std::invalid_argument  for any other order
  [[nodiscard]] strided_array permuted(detail::c_array<int, Rank> const& order,
                                       source_location where = source_location::current()) const {
    strided_array result{*this};
    unsigned used = 0;
    for (int k = 0; k < Rank; ++k) {
      int const from = order[k];
      if (from < 0 || from >= Rank || (used >> static_cast<unsigned>(from) & 1U) != 0) {
        detail::refuse_view(detail::text{"the order of dimensions has "} + from + " at position " +
                                k + "; it must name each of 0 to " + (Rank - 1) + " once",
                            where);
      }
      used |= 1U << static_cast<unsigned>(from);
      result.shape_[k] = shape_[from];
      result.strides_[k] = strides_[from];
    }
    return result;
  }
  /// Every `step`-th of the elements begin … end - 1 along one dimension.
  /// @param dimension  counted from 0
  /// @param begin      index of the first, 0 or more
  /// @param end        index behind the last; at most the dimension's extent
  /// @param step       1 or more
  /// @throws std::invalid_argument  for any other dimension, range or step
  [[nodiscard]] strided_array sliced(int dimension, extent begin, extent end, extent step = 1,
                                     source_location where = source_location::current()) const {
    int const d = checked(dimension, where);
    if (begin.value < 0 || begin.value > end.value || end.value > shape_[d]) {
      detail::refuse_view(detail::text{"the slice from "} + begin.value + " to " + end.value +
                              " does not lie in the " + shape_[d] + " elements of dimension " +
                              dimension,
                          where);
    }
    if (step.value < 1) {
      detail::refuse_view(detail::text{"the slice has a step of "} + step.value +
                              "; it must be 1 or more, and reversed() reverses a dimension",
                          where);
    }
    strided_array result{*this};
    std::int64_t const length = end.value - begin.value;
    bool const empty = is_empty();
    if (length != 0 && !empty) result.data_ += begin.value * strides_[d];
    result.shape_[d] = length / step.value + (length % step.value != 0 ? 1 : 0);
    if (result.shape_[d] > 1 && !empty) result.strides_[d] *= step.value;
    return result;
  }
  /// The same elements with one dimension from its last to its first.
  /// @param dimension  counted from 0
  /// @throws std::invalid_argument  for any other dimension
  [[nodiscard]] strided_array reversed(int dimension,
                                       source_location where = source_location::current()) const {
    int const d = checked(dimension, where);
    strided_array result{*this};
    if (shape_[d] < 2 || is_empty()) return result;
    result.data_ += (shape_[d] - 1) * strides_[d];
    result.strides_[d] = -strides_[d];
    return result;
  }

 private:
  template <class U, int R>
  friend strided_array<U, R> array(U*, detail::c_array<extent, R> const&,
                                   detail::c_array<extent, R> const&, source_location);
  template <class U, int R>
  friend view_input<std::remove_const_t<U>, R> view(strided_array<U, R> const&, source_location);
  template <class U, int R>
  friend strided_output<std::remove_const_t<U>, R> out(strided_array<U, R> const&, source_location);

  strided_array() = default;
  // Then extents and strides are unchecked: their products may overflow.
  [[nodiscard]] bool is_empty() const {
    for (std::int64_t const extent : shape_) {
      if (extent == 0) return true;
    }
    return false;
  }
  static int checked(int dimension, source_location where) {
    if (dimension >= 0 && dimension < Rank) return dimension;
    detail::refuse_view(
        detail::text{"there is no dimension "} + dimension + "; pass 0 to " + (Rank - 1), where);
  }

  T* data_ = nullptr;
  detail::c_array<std::int64_t, Rank> shape_ = {};
  detail::c_array<std::int64_t, Rank> strides_ = {};
};

/// What out() of a strided array returns: assign an expression to it.
template <class T, int Rank>
class strided_output : public detail::updated_output<strided_output<T, Rank>> {
 public:
  strided_output(strided_output const&) = default;
  strided_output& operator=(strided_output const&) = delete;  // not readable

  /// Assigns the expression to every element.
  template <class X>
  [[nodiscard]] auto operator=(X const& x) const {
    static_assert(detail::is_expression<X> || detail::is_scalar<X>,
                  "warpwright::ew::out: the right side must be an expression, as view(array), or a "
                  "number");
    std::uint64_t size = 1;
    for (int k = 0; k < destination_.map.count; ++k) size *= destination_.map.of[k].extent;
    return strided_assignment<T, Rank, detail::expression_t<X>>{destination_, size,
                                                                detail::as_expression(x)};
  }

 private:
  friend detail::updated_output<strided_output>;
  template <class U, int R>
  friend strided_output<std::remove_const_t<U>, R> out(strided_array<U, R> const&, source_location);
  template <class U, class Extent, class Stride>
  friend strided_output<std::remove_const_t<U>, detail::max_dimensions> out(U*, int, Extent const*,
                                                                            Stride const*,
                                                                            source_location);

  strided_output(T* data, detail::axes<Rank> const& map)
      : destination_{reinterpret_cast<detail::bits_of<T>*>(data), map} {}
  [[nodiscard]] view_input<T, Rank> itself() const { return {destination_.data, destination_.map}; }
  detail::strided_destination<detail::bits_of<T>, Rank> destination_;
};

/// An array with explicit strides: `array(x, {rows, cols}, {pitch, 1})`.
/// @param data     the element of index 0 in every dimension; a pointer to const makes a read-only
///   array
/// @param shape    elements along each of 1 to 6 dimensions
/// @param strides  elements from one to the next along each: 0 repeats one element, a negative
///   stride reverses
/// @throws std::invalid_argument  for a negative extent, and for more than 2^59 elements, or as
///   many from the lowest to the highest address
template <class T, int Rank>
[[nodiscard]] strided_array<T, Rank> array(T* data, detail::c_array<extent, Rank> const& shape,
                                           detail::c_array<extent, Rank> const& strides,
                                           source_location where = source_location::current()) {
  static_assert(detail::is_element<std::remove_const_t<T>>(),
                "warpwright::ew::array: the element must be trivially copyable");
  strided_array<T, Rank> result;
  result.data_ = data;
  for (int k = 0; k < Rank; ++k) {
    result.shape_[k] = shape[k].value;
    result.strides_[k] = strides[k].value;
  }
  detail::check_shape(result.shape_, result.strides_, Rank, where);
  return result;
}

/// An array in row-major order without gaps: `array(x, {n, height, width, channels})`.
/// @param data, shape  as above
/// @throws std::invalid_argument  for a negative extent, and for more than 2^59 elements
template <class T, int Rank>
[[nodiscard]] strided_array<T, Rank> array(T* data, detail::c_array<extent, Rank> const& shape,
                                           source_location where = source_location::current()) {
  detail::c_array<extent, Rank> strides;
  // Before they are multiplied.
  detail::padded_shape const checked{"ew::array: ", Rank, shape, strides, where};
  std::uint64_t step = 1;  // modulo 2^64 where there are no elements
  for (int k = Rank - 1; k >= 0; --k) {
    strides[k] = static_cast<std::int64_t>(step);
    step *= checked.extents[k] == 0 ? 1 : static_cast<std::uint64_t>(checked.extents[k]);
  }
  return array(data, shape, strides, where);
}

/// A strided array as an operand: element i of the output is computed from the i-th element in the
/// row-major order of the array's shape.
/// @pre the memory from its lowest to its highest element does not overlap the output's, unless it
///   is exactly in place, the same array with the same axes, or disjoint within a period of both,
///   as slices of one array are
/// @param a  as many elements as the output
/// **Cost:** none; the array is read when the expression is evaluated. Neighbouring dimensions
/// whose elements are one stride apart are merged here; the kernel divides by each of the others,
/// through a multiplication.
template <class T, int Rank>
[[nodiscard]] view_input<std::remove_const_t<T>, Rank> view(
    strided_array<T, Rank> const& a, source_location where = source_location::current()) {
  detail::check_shape(a.shape_, a.strides_, Rank, where, "ew::view: ");
  return {detail::stored(a.data_), detail::make_axes<Rank>(a.shape_, a.strides_, Rank)};
}

/// The same in one step: `view(x, {3, height, width}, {1, 3 * width, 3})`.
/// @param data, shape, strides  as array(); as many elements as the output has
/// @throws std::invalid_argument  as array()
template <class T, int Rank>
[[nodiscard]] view_input<T, Rank> view(T const* data, detail::c_array<extent, Rank> const& shape,
                                       detail::c_array<extent, Rank> const& strides,
                                       source_location where = source_location::current()) {
  static_assert(Rank <= detail::max_dimensions,
                "warpwright::ew::view: 1 to 6 dimensions; merge neighbours whose elements are one "
                "stride apart");
  detail::padded_shape const p{"ew::view: ", Rank, shape, strides, where};
  return {detail::stored(data), detail::make_axes<Rank>(p.extents, p.strides, Rank)};
}

/// The same for a number of dimensions known only at run time.
/// @param data     the element of index 0 in every dimension
/// @param rank     dimensions, 0 (one element) to 6
/// @param shape    `rank` extents, of any integer type
/// @param strides  `rank` strides, of any integer type
/// @throws std::invalid_argument  as array(); for any other rank
/// **Cost:** a kernel compiled for six dimensions, which skips those that are absent.
template <class T, class Extent, class Stride>
[[nodiscard]] view_input<T, detail::max_dimensions> view(
    T const* data, int rank, Extent const* shape, Stride const* strides,
    source_location where = source_location::current()) {
  detail::padded_shape const p{"ew::view: ", rank, shape, strides, where};
  return {detail::stored(data),
          detail::make_axes<detail::max_dimensions>(p.extents, p.strides, rank)};
}

/// A strided array as an output: `out(array(y, {n, h, w, 4}).sliced(3, 0, 3)) = …`. Memory between
/// its elements is not written.
/// @pre the memory from its lowest to its highest element, gaps included, does not overlap other
///   arrays of the kernel, except those disjoint within a period of both: other slices of the same
///   array. In place may be a view() of the same array with the same axes, and where there are no
///   gaps an in()
/// @param a  its elements are not const, and distinct. Every stride must be longer than the span of
///   all dimensions of shorter strides, as holds for whatever permuted(), sliced() and reversed()
///   make of an array without gaps
/// @throws std::invalid_argument  for a stride of 0 along several elements, and for strides that
///   may lead two indices to one element; the text names the dimension and its stride
/// **Cost:** none; it is written when the assignment is evaluated.
template <class T, int Rank>
[[nodiscard]] strided_output<std::remove_const_t<T>, Rank> out(
    strided_array<T, Rank> const& a, source_location where = source_location::current()) {
  static_assert(!std::is_const<T>::value,
                "warpwright::ew::out: the array's elements are const; an output must be writable: "
                "make it by array() of a pointer to what is not const");
  detail::check_shape(a.shape_, a.strides_, Rank, where, "ew::out: ");
  detail::check_output_shape(a.shape_, a.strides_, Rank, where);
  return {const_cast<std::remove_const_t<T>*>(a.data_),
          detail::make_axes<Rank>(a.shape_, a.strides_, Rank)};
}

/// The same for a number of dimensions known only at run time.
/// @param data, rank, shape, strides  as view() of such a number
/// @throws std::invalid_argument  as array() and out(); for any other rank
/// **Cost:** a kernel compiled for six dimensions, which skips those that are absent.
template <class T, class Extent, class Stride>
[[nodiscard]] strided_output<std::remove_const_t<T>, detail::max_dimensions> out(
    T* data, int rank, Extent const* shape, Stride const* strides,
    source_location where = source_location::current()) {
  static_assert(!std::is_const<T>::value,
                "warpwright::ew::out: the pointer is to const; an output must be writable");
  static_assert(detail::is_element<std::remove_const_t<T>>(),
                "warpwright::ew::out: the element must be trivially copyable");
  detail::padded_shape const p{"ew::out: ", rank, shape, strides, where};
  detail::check_output_shape(p.extents, p.strides, rank, where);
  return {const_cast<std::remove_const_t<T>*>(data),
          detail::make_axes<detail::max_dimensions>(p.extents, p.strides, rank)};
}

/// A view() is not an output; refused at compile time.
template <class T, int Rank>
strided_output<T, Rank> out(view_input<T, Rank> const&) {
  static_assert(warpwright::detail::always_false<T>,
                "warpwright::ew::out: a view() is an operand; pass the array itself, as "
                "out(array(pointer, shape).sliced(…))");
}

/// Reductions do not write strided arrays; refused at compile time.
template <class T, int Rank>
detail::refused_target to(strided_array<T, Rank> const&) {
  static_assert(warpwright::detail::always_false<T>,
                "warpwright::ew::to: a strided array; reductions write one element, or an array "
                "without gaps: pass a pointer");
  return {};
}

}  // namespace ew

WARPWRIGHT_END
