// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// An expression as one line of text, for logs and for tests of what was built.
//
//   auto const a = ew::out(y, n) = ew::gelu(ew::in(x, n) * 0.5 + ew::row(b, cols));
//   std::puts(ew::describe(a).c_str());
//   // out f32[1048576] = gelu(in f32[1048576] * 0.5 + row f32[1024])
//
// Element types are bool, i8 to i64, u8 to u64, f16, bf16, e4m3, e5m2, f32, f64, complex, and
// struct for all others. In brackets stand elements: of row() those of one row, of col() the
// output's n over the length of a row, of a view() with gaps the extents, "by" and the strides, in
// elements and with those dimensions merged that one stride walks. A number that keeps its type
// has it before it: `2` and `0.5` are plain ones, `f64 0.5` is constant(0.5). Numbers have as few
// digits as bring them back exactly.
#pragma once

#include <warpwright/kernel/detail/function_names.hpp>

#include <cstdlib>
#include <string>

WARPWRIGHT_BEGIN

namespace ew {

/// The name by which describe() calls a function. Of one given to map() it is null, which reads
/// `map(function, …)`, unless you specialise it:
/// `template <> inline constexpr char const* warpwright::ew::function_name<my_clip> = "my_clip";`
template <class F>
inline constexpr char const* function_name = detail::name_of_function<F>;

namespace detail {

inline float parsed(char const* digits, float) { return std::strtof(digits, nullptr); }
inline double parsed(char const* digits, double) { return std::strtod(digits, nullptr); }

template <class T>
void add_number(std::string& words, T value) {
  if constexpr (std::is_same<T, bool>::value) {
    words += value ? "true" : "false";
  } else if constexpr (std::is_integral<T>::value) {
    using wide = std::conditional_t<std::is_signed<T>::value, long long, unsigned long long>;
    words += text{static_cast<wide>(value)}.c_str();
  } else if constexpr (is_complex<T>) {
    words += "complex(";
    add_number(words, value.re);
    words += ", ";
    add_number(words, value.im);
    words += ")";
  } else {
    auto const as_double = static_cast<double>(value);
    char digits[40] = {};
    for (int count = 1; count <= std::numeric_limits<T>::max_digits10; ++count) {
      std::snprintf(digits, sizeof digits, "%.*g", count, as_double);
      if (parsed(digits, value) == value) break;
    }
    bool const large = std::strstr(digits, "e+") != nullptr;
    if (large && as_double < 1e7 && as_double > -1e7) {  // 100, not 1e+02
      std::snprintf(digits, sizeof digits, "%.0f", as_double);
    }
    warpwright::detail::undo_locale(digits);
    words += digits;
    if (std::strpbrk(digits, ".en") == nullptr) words += ".0";  // not of 1e9, inf, nan
  }
}

inline void add_count(std::string& words, std::uint64_t count) {
  words += (text{"["} + count + "]").c_str();
}

template <class Axes>
void add_axes(std::string& words, Axes const& map) {
  if (map.contiguous()) return add_count(words, map.of[0].extent);
  words += "[";
  for (int k = map.count - 1; k >= 0; --k) {
    words += (text{map.of[k].extent} + (k == 0 ? " by " : ", ")).c_str();
  }
  for (int k = map.count - 1; k >= 0; --k) {
    words += (text{static_cast<long long>(map.of[k].stride)} + (k == 0 ? "]" : ", ")).c_str();
  }
}

template <class State>
void add_generator(std::string& words, State const& state) {
  std::uint64_t const seed = state.keys.of[0] | std::uint64_t{state.keys.of[1]} << 32U;
  words += (text{"philox{"} + seed).c_str();
  if (state.in_memory != nullptr) {
    words += ", *offset";
  } else if (state.offset != 0) {
    words += (text{", "} + state.offset).c_str();
  }
  words += "}";
  if (state.subsequence != 0) {
    words += (text{".subsequence("} + (state.subsequence >> 48U) + ")").c_str();
  }
}

/// Adds a node's words; in parentheses where an operator around it holds more strongly.
template <class E>
struct describer {
  static void add(std::string& words, E const&, int) { words += "expression"; }
};

template <class T>
struct describer<input<T>> {
  static void add(std::string& words, input<T> const& node, int) {
    words += "in ";
    words += element_name<T>();
    add_count(words, node.size);
  }
};
template <class T>
struct describer<row_input<T>> {
  static void add(std::string& words, row_input<T> const& node, int) {
    words += "row ";
    words += element_name<T>();
    add_count(words, node.cols.divisor());
  }
};
template <class T>
struct describer<column_input<T>> {
  static void add(std::string& words, column_input<T> const& node, int) {
    words += (text{"col "} + element_name<T>() + "[n/" + node.cols.divisor() + "]").c_str();
  }
};
template <class T>
struct describer<single_input<T>> {
  static void add(std::string& words, single_input<T> const&, int) {
    words += "device_scalar ";
    words += element_name<T>();
  }
};
template <class T, int Rank>
struct describer<view_input<T, Rank>> {
  static void add(std::string& words, view_input<T, Rank> const& node, int) {
    words += "view ";
    words += element_name<T>();
    add_axes(words, node.map);
  }
};
template <class T, bool Weak>
struct describer<scalar<T, Weak>> {
  static void add(std::string& words, scalar<T, Weak> const& node, int) {
    bool const plain = std::is_same<T, int>::value || std::is_same<T, bool>::value ||
                       is_complex<T> || scalar<T, Weak>::weak;
    if (!plain) (words += element_name<T>()) += " ";
    add_number(words, node.number);
  }
};
template <>
struct describer<index_value> {
  static void add(std::string& words, index_value const&, int) { words += "index()"; }
};
template <class Use>
struct describer<draw<Use>> {
  static void add(std::string& words, draw<Use> const& node, int) {
    words += std::is_same<Use, raw_bits>::value ? "random_bits(" : "normal(";
    add_generator(words, node.state);
    words += ")";
  }
};
template <class T, class E>
struct describer<computed_as<T, E>> {
  static void add(std::string& words, computed_as<T, E> const& node, int) {
    ((words += "compute_as<") += element_name<T>()) += ">(";
    describer<E>::add(words, node.expression, 0);
    words += ")";
  }
};

template <class K, class E, row_part Part>
struct describer<row_function<K, E, Part>> {
  static void add(std::string& words, row_function<K, E, Part> const& node, int) {
    char const* const parts[] = {"", ".input()", ".mean()", ".rstd()", ".log_sum_exp()"};
    (words += function_name<K>) += "(";
    describer<E>::add(words, node.expression, 0);
    if constexpr (std::is_same<K, layer_norm_kind>::value ||
                  std::is_same<K, rms_norm_kind>::value) {
      words += ", ";
      add_number(words, node.kind.eps);
    }
    words += ")";
    words += parts[static_cast<unsigned char>(Part)];
  }
};

template <class Types, class F, class... A>
struct describer<call<Types, F, A...>> {
  using node_type = call<Types, F, A...>;

  static void add(std::string& words, node_type const& node, int around) {
    constexpr operator_sign sign = sign_of<F>;
    if constexpr (sign.symbol != nullptr && sizeof...(A) == 1) {
      if (around > unary) words += "(";
      words += sign.symbol;
      add_argument<0>(words, node, unary + 1);
      if (around > unary) words += ")";
    } else if constexpr (sign.symbol != nullptr) {
      if (around > sign.strength) words += "(";
      add_argument<0>(words, node, sign.strength + (sign.strength == comparing ? 1 : 0));
      ((words += " ") += sign.symbol) += " ";
      add_argument<1>(words, node, sign.strength + 1);
      if (around > sign.strength) words += ")";
    } else {
      constexpr conversion_name conversion = conversion_of<F>;
      if constexpr (conversion.function != nullptr) {
        (((words += conversion.function) += "<") += conversion.type) += ">(";
      } else {
        words += function_name<F> != nullptr ? function_name<F> : "map(function";
        words += function_name<F> != nullptr ? "(" : ", ";
      }
      add_arguments(words, node, typename node_type::indices{});
      if constexpr (std::is_same<F, below>::value) {
        words += ", ";
        add_probability(words, node.function.threshold);
      }
      words += ")";
    }
  }

 private:
  template <std::size_t Index>
  static void add_argument(std::string& words, node_type const& node, int strength) {
    auto const& argument = at<Index>(node.arguments);
    describer<std::decay_t<decltype(argument)>>::add(words, argument, strength);
  }
  template <std::size_t... Index>
  static void add_arguments(std::string& words, node_type const& node,
                            std::index_sequence<Index...>) {
    ((words += Index == 0 ? "" : ", ", add_drawn_or<Index>(words, node)), ...);
  }
  // What draws from a generator's bits is given the generator, as its author wrote it.
  template <std::size_t Index>
  static void add_drawn_or(std::string& words, node_type const& node) {
    using argument = std::decay_t<decltype(at<Index>(node.arguments))>;
    constexpr bool draws = std::is_same<F, to_unit_interval>::value ||
                           std::is_same<F, below>::value ||
                           (conversion_of<F>.function != nullptr && sizeof...(A) == 2);
    if constexpr (draws && std::is_same<argument, draw<raw_bits>>::value) {
      add_generator(words, at<Index>(node.arguments).state);
    } else {
      add_argument<Index>(words, node, 0);
    }
  }
  // The shortest that bernoulli() rounds to the same multiple of 2^-32.
  static void add_probability(std::string& words, std::uint64_t threshold) {
    char digits[40] = {};
    for (int count = 1; count <= 17; ++count) {
      std::snprintf(digits, sizeof digits, "%.*g", count, static_cast<double>(threshold) * 0x1p-32);
      double const p = parsed(digits, 0.0);
      if (static_cast<std::uint64_t>(p * 0x1p32 + 0.5) == threshold) break;
    }
    add_number(words, parsed(digits, 0.0));
  }
};

template <class E>
void add_expression(std::string& words, E const& expression) {
  describer<E>::add(words, expression, 0);
}
template <class T, class E>
void add_assignment(std::string& words, assignment<T, E> const& a) {
  (words += "out ") += element_name<T>();
  add_count(words, a.size);
  add_expression(words += " = ", a.expression);
}
template <class T, int Rank, class E>
void add_assignment(std::string& words, strided_assignment<T, Rank, E> const& a) {
  (words += "out ") += element_name<T>();
  add_axes(words, a.data.map);
  add_expression(words += " = ", a.expression);
}
template <class... A, std::size_t... Index>
void add_assignments(std::string& words, assignments<A...> const& all,
                     std::index_sequence<Index...>) {
  ((words += Index == 0 ? "" : "; ", add_assignment(words, at<Index>(all.each))), ...);
}

}  // namespace detail

/// Says an expression in one line; see the head of this file for how.
/// @param expression  of whatever nodes; no array is touched
/// @return the line, without a newline
/// @throws std::bad_alloc  when the host has no memory
/// **Threads:** any. **Capture:** legal; no CUDA call.
template <class E, class = detail::if_operands<E>>
[[nodiscard]] std::string describe(E const& expression) {
  std::string words;
  detail::add_expression(words, expression);
  return words;
}

/// As above, with the output before it: `out f32[8] = in f32[8] * 2`.
template <class T, class E>
[[nodiscard]] std::string describe(assignment<T, E> const& a) {
  std::string words;
  detail::add_assignment(words, a);
  return words;
}

/// As above, for an output that is a strided array.
template <class T, int Rank, class E>
[[nodiscard]] std::string describe(strided_assignment<T, Rank, E> const& a) {
  std::string words;
  detail::add_assignment(words, a);
  return words;
}

/// As above, for several outputs, separated by "; ".
template <class... A>
[[nodiscard]] std::string describe(assignments<A...> const& all) {
  std::string words;
  detail::add_assignments(words, all, std::index_sequence_for<A...>{});
  return words;
}

}  // namespace ew

WARPWRIGHT_END
