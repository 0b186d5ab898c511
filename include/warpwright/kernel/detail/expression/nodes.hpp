// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The nodes that expressions are made of. expression.hpp and functions.hpp build them.
//
// To add an operand, write a leaf here (or in a header of its own, as views/view_node.hpp is) and a
// function in expression.hpp that returns it. A node has these members; `call` and `computed_as`
// derive them from the nodes below, so that a new function needs none of them:
//
//   expression_tag               marks the type as a node
//   operands                     number of arrays below the node
//   widest_bytes                 their largest element, used to choose the vector length
//   loaded_bytes                 bytes that one element loads, without what repeats
//   weak                         true for a plain floating-point number, which adapts its type
//   value_type<C>                type of one value, where compute_as requires C, or void
//   registers<V>                 what V neighbouring elements load before any is used
//   load<V, First>(r, i, wide)   loads V elements from element i, an integer or an index of
//                                plan/axes.hpp; bit First of `wide` says that the node's first
//                                array is moved by vectors
//   value<C, V>(r, j, i)         the value of element i, the j-th of r
//   describe<V>(next)            writes an operand for each array, from left to right; or an
//                                array_operand, where no view is below
//
// A new leaf also needs an overload of description::add in describe.hpp (else it prints
// "expression"); is_order_free (views/view_node.hpp) if its value does not depend on the index,
// is_of_row (traversal.hpp) if it is the same for a row; and is_input and set_input_address
// (traversal.hpp) if several leaves may read one array.
#pragma once

#include <warpwright/kernel/detail/expression/operand_types.hpp>
#include <warpwright/kernel/detail/expression/pack.hpp>
#include <warpwright/kernel/detail/expression/packed_vector.hpp>
#include <warpwright/kernel/detail/plan/operand_checks.hpp>
#include <warpwright/kernel/detail/plan/partition.hpp>

WARPWRIGHT_BEGIN

namespace ew {

template <class T>
struct input;

namespace detail {

template <class T>
using bits_of = typename element_traits<T>::bits;

// The type of T's values in a compute_as of type C, or outside of one (void).
template <class C, class T>
using computed_t = std::conditional_t<std::is_void<C>::value, typename element_traits<T>::value, C>;

// The elements of an array as they lie in memory.
template <class T>
bits_of<T> const* stored(T const* data) {
  static_assert(is_element<T>(),
                "warpwright::ew: the element must be trivially copyable and default constructible, "
                "as a kernel moves it");
  return reinterpret_cast<bits_of<T> const*>(data);
}

// Decodes element j of neighbours; fp8 is decoded in pairs.
template <class T, int V>
WARPWRIGHT_HOST_DEVICE typename element_traits<T>::value decoded(
    packed_vector<bits_of<T>, V> const& r, int j) {
  if constexpr (is_8_bit_float<T> && V % 2 == 0) {
    return element_traits<T>::decode_of(r.words[j / 4] >> (16 * (j / 2 % 2)), j);
  } else {
    return element_traits<T>::decode(r.get(j));
  }
}

template <class T, int V>
array_operand describe_array(access_pattern kind, bits_of<T> const* data, std::uint64_t count) {
  using bits = bits_of<T>;
  return {kind,
          sizeof(bits),
          packed_vector<bits, V>::aligned_bytes,
          alignof(bits),
          reinterpret_cast<std::uintptr_t>(data),
          count};
}

// Bytes of an element, to choose the vector length; a size that does not divide 16 is one vector.
template <class T>
inline constexpr int vector_element_bytes = 16 % sizeof(bits_of<T>) == 0 ? sizeof(bits_of<T>) : 16;

struct no_registers {};

template <class... Int>
constexpr int largest(Int... values) {
  int result = 1;
  ((result = values > result ? values : result), ...);
  return result;
}

// What the operands of one array have in common.
template <class T>
struct array_leaf {
  using expression_tag = void;
  static constexpr int operands = 1;
  static constexpr int loaded_bytes = 0;  // of what repeats
  static constexpr bool weak = false;
  template <class C>
  using value_type = computed_t<C, T>;
  template <int V>
  using registers = packed_vector<bits_of<T>, V>;

  bits_of<T> const* data;

  template <class X>
  constexpr auto operator=(X const&) const {
    return refuse_write<X>(input<T>{{data}, 0});  // of a whole node, or there were more errors
  }
  template <class C, int V>
  WARPWRIGHT_HOST_DEVICE value_type<C> value(registers<V> const& r, int j, std::uint64_t) const {
    return convert<value_type<C>>(decoded<T, V>(r, j));
  }
};

}  // namespace detail

/// What in() returns: one array, element by element.
template <class T>
struct input : detail::array_leaf<T> {
  static constexpr int widest_bytes = detail::vector_element_bytes<T>;
  static constexpr int loaded_bytes = static_cast<int>(sizeof(detail::bits_of<T>));
  using detail::array_leaf<T>::data;
  using detail::array_leaf<T>::operator=;

  std::uint64_t size;

  template <int V, int First, class Element>
  WARPWRIGHT_HOST_DEVICE void load(detail::packed_vector<detail::bits_of<T>, V>& r,
                                   Element const& i, std::uint64_t wide) const {
    if constexpr (V == 1) {
      r.load_one(data + i);
    } else if constexpr (std::is_same<Element, detail::read_once_index>::value) {
      r.load_wide_once(data + i.index);
    } else if (detail::is_wide_operand<First>(wide)) {
      r.load_wide(data + i);
    } else {
      WARPWRIGHT_UNROLL
      for (int j = 0; j < V; ++j) r.set(j, data[i + static_cast<unsigned>(j)]);
    }
  }
  template <int V, class Operand>
  void describe(Operand*& next) const {
    *next++ = detail::describe_array<T, V>(detail::access_pattern::elements, data, size);
  }
};

/// What row() returns: element i is data[i % cols].
template <class T>
struct row_input : detail::array_leaf<T> {
  static constexpr int widest_bytes =
      detail::vector_element_bytes<T> <= 8 ? 1 : detail::vector_element_bytes<T>;
  using detail::array_leaf<T>::data;
  using detail::array_leaf<T>::operator=;

  detail::fast_divisor cols;

  template <int V, int First, class Element>
  WARPWRIGHT_HOST_DEVICE void load(detail::packed_vector<detail::bits_of<T>, V>& r,
                                   Element const& i, std::uint64_t wide) const {
    std::uint64_t column = detail::column_of(i, cols);
    if constexpr (V == 1) {
      r.load_one(data + column);
    } else if (detail::is_wide_operand<First>(wide)) {
      r.load_wide(data + column);
    } else {
      using bits = detail::bits_of<T>;
      if constexpr (V >= 8 && (sizeof(bits) == 2 || sizeof(bits) == 4) &&
                    alignof(bits) == sizeof(bits)) {
        // Three wide loads for eight narrow ones, where all that they reach is the row's.
        constexpr std::uint64_t granule = 16 / sizeof(bits);
        auto const before =
            reinterpret_cast<std::uintptr_t>(data + column) / sizeof(bits) % granule;
        if (column >= before && column - before + V + granule <= cols.divisor()) {
          return r.load_across(data + column);
        }
      }
      WARPWRIGHT_UNROLL
      for (int j = 0; j < V; ++j) {
        r.set(j, data[column]);
        if (++column == cols.divisor()) column = 0;
      }
    }
  }
  template <int V, class Operand>
  void describe(Operand*& next) const {
    *next++ = detail::describe_array<T, V>(detail::access_pattern::row, data, cols.divisor());
  }
};

/// What col() returns: element i is data[i / cols].
template <class T>
struct column_input : detail::array_leaf<T> {
  static constexpr int widest_bytes = row_input<T>::widest_bytes;
  using detail::array_leaf<T>::data;
  using detail::array_leaf<T>::operator=;

  detail::fast_divisor cols;

  template <int V, int First, class Element>
  WARPWRIGHT_HOST_DEVICE void load(detail::packed_vector<detail::bits_of<T>, V>& r,
                                   Element const& i, std::uint64_t wide) const {
    std::uint64_t line = detail::row_of(i, cols);
    if constexpr (V == 1) {
      r.load_one(data + line);
    } else if (detail::is_wide_operand<First>(wide)) {
      detail::bits_of<T> const same = data[line];
      WARPWRIGHT_UNROLL
      for (int j = 0; j < V; ++j) r.set(j, same);
    } else {
      std::uint64_t column = i - line * cols.divisor();
      WARPWRIGHT_UNROLL
      for (int j = 0; j < V; ++j) {
        r.set(j, data[line]);
        if (++column < cols.divisor()) continue;
        column = 0;
        ++line;
      }
    }
  }
  template <int V, class Operand>
  void describe(Operand*& next) const {
    *next++ = detail::describe_array<T, V>(detail::access_pattern::column, data, cols.divisor());
  }
};

/// What device_scalar() returns: every element is *data, read when the kernel runs.
template <class T>
struct single_input : detail::array_leaf<T> {
  static constexpr int widest_bytes = 1;
  using detail::array_leaf<T>::data;
  using detail::array_leaf<T>::operator=;
  template <class C>
  using value_type = detail::computed_t<C, T>;
  template <int V>
  using registers = detail::packed_vector<detail::bits_of<T>, 1>;

  template <int V, int First>
  WARPWRIGHT_HOST_DEVICE void load(registers<V>& r, std::uint64_t, std::uint64_t) const {
    r.load_one(data);
  }
  template <class C, int V>
  WARPWRIGHT_HOST_DEVICE value_type<C> value(registers<V> const& r, int, std::uint64_t) const {
    return detail::convert<value_type<C>>(detail::element_traits<T>::decode(r.only));
  }
  template <int V, class Operand>
  void describe(Operand*& next) const {
    *next++ = detail::describe_array<T, 1>(detail::access_pattern::single, data, 1);
  }
};

namespace detail {

// Leaves that touch no memory.
struct no_memory {
  using expression_tag = void;
  static constexpr int operands = 0;
  static constexpr int widest_bytes = 1;
  static constexpr int loaded_bytes = 0;
  template <int V>
  using registers = no_registers;
  template <int V, int First>
  WARPWRIGHT_HOST_DEVICE void load(no_registers&, std::uint64_t, std::uint64_t) const {}
  template <int V, class Operand>
  void describe(Operand*&) const {}
};

}  // namespace detail

/// What constant(), and a plain number beside an expression, become.
template <class T, bool Weak>
struct scalar : detail::no_memory {
  static constexpr bool weak = Weak && std::is_floating_point<T>::value;
  template <class C>
  using value_type = detail::computed_t<C, T>;
  T number;

  template <class C, int V>
  WARPWRIGHT_HOST_DEVICE value_type<C> value(detail::no_registers const&, int,
                                             std::uint64_t) const {
    return detail::convert<value_type<C>>(number);
  }
};

/// What index() returns: element i is i.
struct index_value : detail::no_memory {
  static constexpr bool weak = false;
  template <class C>
  using value_type = detail::computed_t<C, std::uint64_t>;

  template <class C, int V>
  WARPWRIGHT_HOST_DEVICE value_type<C> value(detail::no_registers const&, int,
                                             std::uint64_t i) const {
    return static_cast<value_type<C>>(i);
  }
};

namespace detail {

template <bool Weak, class X>
constexpr auto make_scalar(X const& x) {
  scalar<typename element_traits<X>::value, Weak> result{};
  result.number = element_traits<X>::decode(bit_copy<bits_of<X>>(x));
  return result;
}

template <class X>
constexpr auto as_expression(X const& x) {
  if constexpr (is_expression<X>) {
    return x;
  } else if constexpr (std::is_pointer<X>::value) {
    static_assert(!std::is_pointer<X>::value,
                  "warpwright::ew: a pointer is no operand: write in(pointer, n), of one element a "
                  "column or row row(pointer, cols) or col(pointer, cols), of a single number "
                  "device_scalar(pointer)");
    return scalar<float, true>{};
  } else if constexpr (is_long_double<X>) {
    check_no_long_double<X>();
    return scalar<double, true>{};
  } else {
    return make_scalar<true>(x);
  }
}
template <class X>
using expression_t = decltype(as_expression(std::declval<X const&>()));

template <class Types, class F, class Indices, class... A>
struct call_of;
template <class Types, class F, std::size_t... Index, class... A>
struct call_of<Types, F, std::index_sequence<Index...>, A...> {
  using expression_tag = void;
  using indices = std::index_sequence<Index...>;
  using offsets = operand_offsets<A::operands...>;
  static constexpr int operands = (0 + ... + A::operands);
  static constexpr int loaded_bytes = (0 + ... + A::loaded_bytes);
  static constexpr int widest_bytes = largest(A::widest_bytes...);
  static constexpr bool weak = Types::template weak<A...>;
  template <class C>
  using value_type = typename result_of_call<Types, F, C, indices, A...>::type;
  template <int V>
  using registers = pack<typename A::template registers<V>...>;

  F function;
  pack<A...> arguments;

  template <int V, int First, class Element>
  WARPWRIGHT_HOST_DEVICE void load(registers<V>& r, Element const& i, std::uint64_t wide) const {
    (at<Index>(arguments).template load<V, First + offsets::of(Index)>(at<Index>(r), i, wide), ...);
  }
  WARPWRIGHT_NO_EXEC_CHECK
  template <class C, int V>
  WARPWRIGHT_HOST_DEVICE value_type<C> value(registers<V> const& r, int j, std::uint64_t i) const {
    return function(convert<typename Types::template argument<Index, C, A...>>(
        at<Index>(arguments).template value<C, V>(at<Index>(r), j, i))...);
  }
  template <int V, class Operand>
  void describe(Operand*& next) const {
    (at<Index>(arguments).template describe<V>(next), ...);
  }
};

}  // namespace detail

/// A function of expressions, evaluated element by element. `Types` (operand_types.hpp) decides in
/// which types F gets its arguments.
template <class Types, class F, class... A>
struct call : detail::call_of<Types, F, std::index_sequence_for<A...>, A...> {};

/// What compute_as() returns: E with every array and number below converted to T when read.
template <class T, class E>
struct computed_as {
  using expression_tag = void;
  static constexpr int operands = E::operands;
  static constexpr int widest_bytes = E::widest_bytes;
  static constexpr int loaded_bytes = E::loaded_bytes;
  static constexpr bool weak = false;
  template <class C>
  using value_type = typename E::template value_type<T>;
  template <int V>
  using registers = typename E::template registers<V>;

  E expression;

  template <int V, int First, class Element>
  WARPWRIGHT_HOST_DEVICE void load(registers<V>& r, Element const& i, std::uint64_t wide) const {
    expression.template load<V, First>(r, i, wide);
  }
  template <class C, int V>
  WARPWRIGHT_HOST_DEVICE value_type<C> value(registers<V> const& r, int j, std::uint64_t i) const {
    return expression.template value<T, V>(r, j, i);
  }
  template <int V, class Operand>
  void describe(Operand*& next) const {
    expression.template describe<V>(next);
  }
};

namespace detail {

// Whether the host cannot determine the type of a node's value.
template <class E>
inline constexpr bool is_of_unknown = false;
template <class T, class E>
inline constexpr bool is_of_unknown<computed_as<T, E>> = is_of_unknown<E>;
template <class Types, class F, class... A>
inline constexpr bool is_of_unknown<call<Types, F, A...>> = returns_unknown<F> ||
                                                            (is_of_unknown<A> || ...);

template <class E>
struct known_value {
  static_assert(!is_of_unknown<E>,
                "warpwright::ew: below a reduction or a function of rows, the lambda of map() must "
                "be __host__ __device__, or say what it returns, as in -> float");
  using type = typename E::template value_type<void>;
};
template <class X>
using value_t = typename known_value<expression_t<X>>::type;

template <class F, class... X>
constexpr bool is_map_of() {
  if constexpr (is_extended_lambda<F> || (is_of_unknown<X> || ...)) {
    return true;
  } else {
    return is_callable<F, value_t<X>...>;
  }
}

// Whether such a call has a value; true where the host cannot determine it.
template <class F, class... X>
constexpr bool has_value() {
  if constexpr (is_extended_lambda<F> || (is_of_unknown<X> || ...) || !is_map_of<F, X...>()) {
    return true;
  } else {
    return !std::is_void<decltype(std::declval<F const&>()(std::declval<value_t<X>>()...))>::value;
  }
}

template <class Types, class F, class... X>
constexpr call<Types, F, expression_t<X>...> make_call(F const& function, X const&... x) {
  return {{function, {{as_expression(x)}...}}};
}

}  // namespace detail

/// What assigning to out() returns, and run() evaluates.
template <class T, class E>
struct assignment {
  detail::bits_of<T>* data;
  std::uint64_t size;
  E expression;
};

/// What assigning to out() of a strided array returns; detail/views/strided_output.hpp defines it.
template <class T, int Rank, class E>
struct strided_assignment;

/// What tie() returns, and run() evaluates.
template <class... A>
struct assignments {
  detail::pack<A...> each;
};

namespace detail {

template <class>
inline constexpr bool is_assignment = false;
template <class T, class E>
inline constexpr bool is_assignment<assignment<T, E>> = true;
template <class T, int Rank, class E>
inline constexpr bool is_assignment<strided_assignment<T, Rank, E>> = true;
// What run() takes: one, or several in tie().
template <class A>
inline constexpr bool is_run = is_assignment<A>;
template <class... A>
inline constexpr bool is_run<assignments<A...>> = true;
// What run() refuses with a text of its own: what has no output, and assignments without tie().
template <class... X>
using if_refused =
    std::enable_if_t<sizeof...(X) == 1 ? ((is_expression<X> || is_reduction_assignment<X>)&&...)
                                       : sizeof...(X) != 0 && (is_assignment<X> && ...)>;

}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
