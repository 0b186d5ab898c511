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
// Element i of the output goes with the view's element at i's place in the view's shape, the last
// dimension fastest. A view that turns out to be one array without gaps is moved as in() is. Where
// its innermost runs suit, it is loaded by vectors, else element by element; where its memory runs
// along another dimension than the output's, run() moves it by tiles through shared memory, and
// where that dimension is two to four channels side by side, by whole pixels: the first such view
// of an expression, of numbers of up to 8 bytes. Reductions and functions of rows take views, too,
// without either.
//
// A strided output is what out() is given in place of a pointer; its shape numbers the elements,
// and in(), row() and index() go by that number. It is written by vectors where its innermost runs
// suit, else element by element, neighbours by neighbouring threads. One that is permuted or
// reversed is written in the order of its memory, if it is the kernel's only output and its
// expression is of views, numbers and device_scalar() alone: so write view(array(x, shape)) there,
// not in().
#pragma once

#include <warpwright/kernel/detail/matrix.hpp>
#include <warpwright/kernel/detail/tile_kernel.hpp>
#include <warpwright/kernel/detail/view_output.hpp>
#include <warpwright/kernel/expression.hpp>

WARPWRIGHT_BEGIN

namespace ew {

/// A number of elements, or a stride in elements: any integer converts to it.
struct extent {
  std::int64_t value = 0;
  constexpr extent() = default;
  template <class Integer, class = std::enable_if_t<std::is_integral<Integer>::value>>
  constexpr extent(Integer number) : value{static_cast<std::int64_t>(number)} {}
};

namespace detail {

[[noreturn]] WARPWRIGHT_COLD inline void refuse_view(text const& problem, source_location where,
                                                     char const* function = "ew::array: ") {
  warpwright::detail::throw_invalid_argument(text{function} + problem, where);
}

// Refuses shapes that no array has; pointers and sizes are looked at with the output.
inline void check_shape(std::int64_t const* shape, std::int64_t const* strides, int rank,
                        source_location where, char const* function = "ew::array: ") {
  for (int k = 0; k < rank; ++k) {
    if (shape[k] >= 0) continue;
    refuse_view(text{"dimension "} + k + " has " + shape[k] +
                    " elements; an extent is 0 or more, and below 2^63",
                where, function);
  }
  reach_of_view const r = measure_view(shape, strides, rank);
  if (r.too_large) {
    text const dimension = text{"dimension "} + r.at_dimension + ", of " + shape[r.at_dimension];
    text const problem = r.too_many ? dimension + ", makes more than 2^59 elements of the array"
                                    : dimension + " at a stride of " + strides[r.at_dimension] +
                                          ", makes the array reach over more than 2^59 elements";
    refuse_view(text{problem} + "; pass shape and strides in elements, not in bytes", where,
                function);
  }
}

// A shape of `rank` dimensions, checked, in room for as many as there may be.
struct padded_shape {
  std::int64_t extents[most_dimensions] = {};
  std::int64_t strides[most_dimensions] = {};

  template <class Extent, class Stride>
  padded_shape(char const* function, int rank, Extent const* shape, Stride const* steps,
               source_location where) {
    if (rank < 0 || rank > most_dimensions) {
      warpwright::detail::throw_invalid_argument(
          text{function} + "there are " + rank +
              " dimensions; it takes 0 to 6: merge those that one stride walks",
          where);
    }
    for (int k = 0; k < rank; ++k) {
      extents[k] = extent{shape[k]}.value;
      strides[k] = extent{steps[k]}.value;
    }
    check_shape(extents, strides, rank, where, function);
  }
};

// What follows an error that was told.
struct refused_target {
  template <class X>
  refused_target operator=(X const&) const {
    return {};
  }
};

// Refuses outputs that name an element twice, or may.
inline void check_output_shape(std::int64_t const* shape, std::int64_t const* strides, int rank,
                               source_location where) {
  repetition const found = find_repetition(shape, strides, rank);
  int const k = found.dimension;
  if (k < 0) return;
  text const name = text{"ew::out: dimension "} + k + " has " + shape[k] +
                    " elements at a stride of " + strides[k];
  warpwright::detail::throw_invalid_argument(
      strides[k] == 0
          ? name + ": all of them are one; an output must name every element once"
          : name + ", no more than the " + found.reach +
                " elements over which the dimensions of shorter strides reach; each stride of an "
                "output must be longer than that, even where no element would be named twice: "
                "write such an array in parts",
      where);
}

}  // namespace detail

/// An array of `Rank` dimensions somewhere in memory: pointer, extents and strides, to be permuted
/// and cut on the host. view() makes an operand of it, out() an output, if T is not const.
template <class T, int Rank>
class strided_array {
 public:
  static_assert(Rank >= 1 && Rank <= detail::most_dimensions,
                "warpwright::ew::array: 1 to 6 dimensions; merge those that one stride walks");

  /// An array of const elements of one that may be written.
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
  [[nodiscard]] strided_array permuted(int const (&order)[Rank],
                                       source_location where = source_location::current()) const {
    strided_array result{*this};
    unsigned seen = 0;
    for (int k = 0; k < Rank; ++k) {
      int const from = order[k];
      if (from < 0 || from >= Rank || (seen >> static_cast<unsigned>(from) & 1U) != 0) {
        detail::refuse_view(detail::text{"the order of dimensions has "} + from + " at place " + k +
                                "; it is to name each of 0 to " + (Rank - 1) + " once",
                            where);
      }
      seen |= 1U << static_cast<unsigned>(from);
      result.shape_[k] = shape_[from];
      result.strides_[k] = strides_[from];
    }
    return result;
  }
  /// Every `step`-th of the elements begin … end - 1 along one dimension.
  /// @param dimension  counted from 0
  /// @param begin      the first
  /// @param end        behind the last; at most the dimension's extent
  /// @param step       1 or more
  /// @throws std::invalid_argument  for a dimension, a range or a step that there is not
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
                              "; it must be 1 or more, and reversed() turns a dimension round",
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
  /// @throws std::invalid_argument  for a dimension that there is not
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
  friend strided_array<U, R> array(U*, extent const (&)[R], extent const (&)[R], source_location);
  template <class U, int R>
  friend strided_array<U, R> array(U*, extent const (&)[R], source_location);
  template <class U, int R>
  friend view_input<std::remove_const_t<U>, R> view(strided_array<U, R> const&, source_location);
  template <class U, int R>
  friend strided_output<std::remove_const_t<U>, R> out(strided_array<U, R> const&, source_location);

  strided_array() = default;
  // No element is there, and neither extents nor strides need be such as can be multiplied.
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
  std::int64_t shape_[Rank] = {};
  std::int64_t strides_[Rank] = {};
};

/// An array with strides of its own: `array(x, {rows, cols}, {pitch, 1})`.
/// @param data     the element of index 0 in every dimension; a pointer to const makes an array
///   that is read only
/// @param shape    elements along each of 1 to 6 dimensions
/// @param strides  elements from one to the next along each: 0 repeats, a negative one runs
///   backwards
/// @throws std::invalid_argument  for a negative extent, and for more than 2^59 elements or as wide
///   a reach
template <class T, int Rank>
[[nodiscard]] strided_array<T, Rank> array(T* data, extent const (&shape)[Rank],
                                           extent const (&strides)[Rank],
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
/// @param data   its first element; a pointer to const makes an array that is read only
/// @param shape  elements along each of 1 to 6 dimensions
/// @throws std::invalid_argument  for a negative extent, and for more than 2^59 elements
template <class T, int Rank>
[[nodiscard]] strided_array<T, Rank> array(T* data, extent const (&shape)[Rank],
                                           source_location where = source_location::current()) {
  extent none[Rank];
  strided_array<T, Rank> result;
  for (int k = 0; k < Rank; ++k) result.shape_[k] = shape[k].value;
  detail::check_shape(result.shape_, result.strides_, Rank, where);  // before they are multiplied
  std::uint64_t step = 1;  // modulo 2^64 where there are no elements
  for (int k = Rank - 1; k >= 0; --k) {
    none[k] = static_cast<std::int64_t>(step);
    step *= shape[k].value == 0 ? 1 : static_cast<std::uint64_t>(shape[k].value);
  }
  return array(data, shape, none, where);
}

/// A strided array as an operand: element i of the output goes with the element at i's place in the
/// array's shape, the last dimension fastest.
/// @param a  as many elements as the output; the stretch of memory from its first to its last must
///   not overlap the output's, unless it is exactly in place, the same array in the same axes, or
///   beside it in every period of both, as slices of one array are
/// **Cost:** none; the array is read when the expression is evaluated. Dimensions that one stride
/// walks are merged here; the kernel divides once for each that remains, by multiplying.
template <class T, int Rank>
[[nodiscard]] view_input<std::remove_const_t<T>, Rank> view(
    strided_array<T, Rank> const& a, source_location where = source_location::current()) {
  detail::check_shape(a.shape_, a.strides_, Rank, where, "ew::view: ");
  return {reinterpret_cast<detail::bits_of<std::remove_const_t<T>> const*>(a.data_),
          detail::make_axes<Rank>(a.shape_, a.strides_, Rank)};
}

/// The same in one step: `view(x, {3, height, width}, {1, 3 * width, 3})`.
/// @param data     the element of index 0 in every dimension
/// @param shape    elements along each of 1 to 6 dimensions, as many together as the output has
/// @param strides  elements from one to the next along each: 0 repeats, a negative one runs
///   backwards
/// @throws std::invalid_argument  as array()
template <class T, int Rank>
[[nodiscard]] view_input<T, Rank> view(T const* data, extent const (&shape)[Rank],
                                       extent const (&strides)[Rank],
                                       source_location where = source_location::current()) {
  static_assert(Rank <= detail::most_dimensions,
                "warpwright::ew::view: 1 to 6 dimensions; merge those that one stride walks");
  static_assert(detail::is_element<T>(),
                "warpwright::ew::view: the element must be trivially copyable");
  detail::padded_shape const p{"ew::view: ", Rank, shape, strides, where};
  return {reinterpret_cast<detail::bits_of<T> const*>(data),
          detail::make_axes<Rank>(p.extents, p.strides, Rank)};
}

/// The same for a number of dimensions known only at run time.
/// @param data     the element of index 0 in every dimension
/// @param rank     dimensions, 0 (one element) to 6
/// @param shape    `rank` extents, of any integer type
/// @param strides  `rank` strides, of any integer type
/// @throws std::invalid_argument  as array(); for any other rank
/// **Cost:** a kernel with code for six dimensions, those that are not there skipped.
template <class T, class Extent, class Stride>
[[nodiscard]] view_input<T, detail::most_dimensions> view(
    T const* data, int rank, Extent const* shape, Stride const* strides,
    source_location where = source_location::current()) {
  static_assert(detail::is_element<T>(),
                "warpwright::ew::view: the element must be trivially copyable");
  detail::padded_shape const p{"ew::view: ", rank, shape, strides, where};
  return {reinterpret_cast<detail::bits_of<T> const*>(data),
          detail::make_axes<detail::most_dimensions>(p.extents, p.strides, rank)};
}

/// A strided array to write, every element of it and nothing between them:
/// `out(array(y, {n, h, w, 4}).sliced(3, 0, 3)) = …`.
///
/// Its shape numbers the elements, the last dimension fastest. Its memory counts from its first
/// element to its last, gaps included, where it must not overlap other arrays of the kernel, but
/// for those that lie beside it in every period of both: other slices of the same array. Only a
/// view() of the same array in the same axes may be in place, or an in() where there are no gaps.
/// @param a  of elements that are not const, and that no two indices share. That is refused unless
///   every stride is longer than the dimensions of shorter strides reach together, which holds for
///   all that permuted(), sliced() and reversed() make of an array without gaps
/// @throws std::invalid_argument  for a stride of 0 along several elements, and for strides that
///   may lead to an element twice; the text names the dimension and its stride
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
/// @param data     the element of index 0 in every dimension
/// @param rank     dimensions, 0 (one element) to 6
/// @param shape    `rank` extents, of any integer type
/// @param strides  `rank` strides, of any integer type
/// @throws std::invalid_argument  as array() and out(); for any other rank
/// **Cost:** a kernel with code for six dimensions, those that are not there skipped.
template <class T, class Extent, class Stride>
[[nodiscard]] strided_output<std::remove_const_t<T>, detail::most_dimensions> out(
    T* data, int rank, Extent const* shape, Stride const* strides,
    source_location where = source_location::current()) {
  static_assert(!std::is_const<T>::value,
                "warpwright::ew::out: the pointer is to const; an output must be writable");
  static_assert(detail::is_element<std::remove_const_t<T>>(),
                "warpwright::ew::out: the element must be trivially copyable");
  detail::padded_shape const p{"ew::out: ", rank, shape, strides, where};
  detail::check_output_shape(p.extents, p.strides, rank, where);
  return {const_cast<std::remove_const_t<T>*>(data),
          detail::make_axes<detail::most_dimensions>(p.extents, p.strides, rank)};
}

/// An operand is no output; refused at compile time.
template <class T, int Rank>
strided_output<T, Rank> out(view_input<T, Rank> const&) {
  static_assert(warpwright::detail::always_false<T>,
                "warpwright::ew::out: a view() is an operand; pass the array itself, as "
                "out(array(pointer, shape).sliced(…))");
}

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

/// Evaluates an assignment to a strided array on the calling thread, over arrays in host memory.
/// @throws std::invalid_argument  as run() does
/// **Threads:** any. **Cost:** a plain loop in the order of the array's shape.
template <class T, int Rank, class E>
void evaluate_host(strided_assignment<T, Rank, E> const& a,
                   source_location where = source_location::current()) {
  detail::evaluate_parts(where, a.size, a);
}

/// Evaluates an assignment to a strided array as one kernel; tie() takes such, too, beside others.
///
/// As run() of an assignment to a pointer.
/// @param a  `out(array) = expression`, copied at the call; no elements launch nothing
/// @throws std::invalid_argument  as run(); an operand overlaps where its stretch of memory does,
///   and the two do not lie side by side
/// @throws cuda_error             when the launch fails
/// **Stream:** one kernel, ordered on `stream`; does not block.
/// **Threads:** any. **Capture:** legal.
/// **Cost:** one kernel launch, no allocation. See the head of views.hpp for
/// how it is written.
template <class T, int Rank, class E>
void run(stream_ref stream, strided_assignment<T, Rank, E> const& a,
         source_location where = source_location::current()) {
  detail::run_parts(stream, where, a.size, a.in_memory_order());
}

/// Functions of rows write arrays without gaps; refused at compile time.
template <class... A, class = detail::if_strided<A...>>
void run_rows(stream_ref, matrix_shape const&, A const&...) {
  static_assert(warpwright::detail::always_false<A...>,
                "warpwright::ew::run_rows: an output is a strided array; it takes arrays without "
                "gaps, as out(pointer, rows * cols)");
}
/// As above.
template <class... A, class = detail::if_strided<A...>>
void run_rows_host(matrix_shape const&, A const&...) {
  static_assert(warpwright::detail::always_false<A...>,
                "warpwright::ew::run_rows_host: an output is a strided array; it takes arrays "
                "without gaps, as out(pointer, rows * cols)");
}

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE

/// Reductions write arrays without gaps; refused at compile time.
template <class T, int Rank>
detail::refused_target to(strided_array<T, Rank> const&) {
  static_assert(warpwright::detail::always_false<T>,
                "warpwright::ew::to: a strided array; reductions write one element, or an array "
                "without gaps: pass a pointer");
  return {};
}

}  // namespace ew

WARPWRIGHT_END
