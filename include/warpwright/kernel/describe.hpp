// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// An expression as one line of text, for logs and tests.
//
//   auto const a = ew::out(y, n) = ew::gelu(ew::in(x, n) * 0.5 + ew::row(b, cols));
//   std::puts(ew::describe(a).c_str());
//   // out f32[1048576] = gelu(in f32[1048576] * 0.5 + row f32[1024])
//
// Element types are bool, i8 to i64, u8 to u64, f16, bf16, e4m3, e5m2, f32, f64, complex, and
// struct for all others. Brackets hold the number of elements: for row() those of one row, for
// col() the output's n over the length of a row, for a view() with gaps its extents, "by" and its
// strides, in elements and after merging the dimensions that one stride covers. A number that keeps
// its type is printed after that type: `2` and `0.5` are plain numbers, `f64 0.5` is constant(0.5).
// Numbers have the fewest digits that convert back to the same value.
#pragma once

#include <warpwright/kernel/functions.hpp>

#include <cstdlib>
#include <string>

WARPWRIGHT_BEGIN

namespace ew {

// Nodes of headers that need not be included.
template <class T, int Rank>
struct view_input;
template <class Use>
struct draw;
enum class row_part : unsigned char;
template <class K, class E, row_part Part>
struct row_function;
enum class pass_value : unsigned char;
template <pass_value What, int Number, class E>
struct pass_node;
template <class T, class Array, class K>
struct indexed_input;
template <class T>
struct one_hot_value;
template <class T, class Array, bool Add, class E, class K>
struct indexed_assignment;

namespace detail {

struct raw_bits;
template <class K, class E, class Index>
struct row_input_at;

// Static members of a functor by which it is printed; a functor may lack any of them.
template <class Member, class T>
using if_static = std::enable_if_t<std::is_same<Member, T const*>::value>;

// Its name.
template <class F, class = void>
inline constexpr char const* name_of = nullptr;
template <class F>
inline constexpr char const* name_of<F, if_static<decltype(&F::name), char const*>> = F::name;

// Of a conversion, the element type that is its template argument.
template <class F, class = void>
inline constexpr char const* type_name_of = nullptr;
template <class F>
inline constexpr char const* type_name_of<F, if_static<decltype(&F::type_name), char const*>> =
    F::type_name;

// Of an operator, its symbol and precedence.
template <class F, class = void>
inline constexpr bool is_operator = false;
template <class F>
inline constexpr bool is_operator<F, if_static<decltype(&F::syntax), operator_syntax>> = true;

// Of a function of random bits, that it is printed as a function of the generator.
template <class F, class = void>
inline constexpr bool takes_generator = false;
template <class F>
inline constexpr bool takes_generator<F, if_static<decltype(&F::takes_generator), bool>> = true;

}  // namespace detail

/// The name that describe() prints for a function given to map().
///
/// It is the function's member `static constexpr char const* name`. A function without that member
/// is printed as `map(function, …)`, unless you specialise this variable:
/// `template <> inline constexpr char const* warpwright::ew::function_name<my_clip> = "my_clip";`
template <class F>
inline constexpr char const* function_name = detail::name_of<F>;

namespace detail {

// The line, printed node by node.
class description {
 public:
  [[nodiscard]] std::string const& line() const { return line_; }

  template <class E>
  void add(E const&, int = 0) {
    line_ += "expression";
  }
  template <class T>
  void add(input<T> const& node, int = 0) {
    add_type<T>("in ", text{"["} + node.size + "]");
  }
  template <class T>
  void add(row_input<T> const& node, int = 0) {
    add_type<T>("row ", text{"["} + node.cols.divisor() + "]");
  }
  template <class T>
  void add(column_input<T> const& node, int = 0) {
    add_type<T>("col ", text{"[n/"} + node.cols.divisor() + "]");
  }
  template <class T>
  void add(single_input<T> const&, int = 0) {
    add_type<T>("device_scalar ");
  }
  template <class T, int Rank>
  void add(view_input<T, Rank> const& node, int = 0) {
    add_type<T>("view ");
    add_axes(node.map);
  }
  template <class T, class Array, class K>
  void add(indexed_input<T, Array, K> const& node, int = 0) {
    add_type<T>(Array::rows ? "row_at(" : "gather(", text{"["} + node.array.count() + "], ");
    add_closed("", node.index);
  }
  template <class T>
  void add(one_hot_value<T> const& node, int = 0) {
    add_closed("one_hot(", static_cast<column_input<T> const&>(node));
  }
  template <class T, bool Weak>
  void add(scalar<T, Weak> const& node, int = 0) {
    bool const plain = std::is_same<T, int>::value || std::is_same<T, bool>::value ||
                       is_complex<T> || scalar<T, Weak>::weak;
    if (!plain) (line_ += element_name<T>()) += " ";
    add_number(node.number);
  }
  void add(index_value const&, int = 0) { line_ += "index()"; }
  template <class Use>
  void add(draw<Use> const& node, int = 0) {
    (line_ += name_of<Use>) += "(";
    add_generator(node);
    line_ += ")";
  }
  template <class T, class E>
  void add(computed_as<T, E> const& node, int = 0) {
    add_type<T>("compute_as<");
    add_closed(">(", node.expression);
  }
  template <class K, class E, row_part Part>
  void add(row_function<K, E, Part> const& node, int = 0) {
    char const* const parts[] = {"",        ".input()",       ".mean()",
                                 ".rstd()", ".log_sum_exp()", ".scale()"};
    line_ += name_of<K>;
    if (type_name_of<K> != nullptr) ((line_ += "<") += type_name_of<K>) += ">";
    line_ += "(";
    add(node.expression);
    add_parameter(node.kind, 0);
    (line_ += ")") += parts[static_cast<unsigned char>(Part)];
  }
  template <class K, class E, class Index>
  void add(row_input_at<K, E, Index> const& node, int = 0) {
    add(row_function<K, E, row_part{}>{node.kind, node.expression});
    add_closed(".input_at(", node.index);
  }
  template <pass_value What, int Number, class E>
  void add(pass_node<What, Number, E> const& node, int = 0) {
    char const* const names[] = {"once(", "row_sum(", "row_mean("};
    add_closed(names[static_cast<unsigned char>(What)], node.expression);
  }
  template <class K, class E>
  void add(reduction<K, E> const& node, int = 0) {
    line_ += name_of<K>;
    add_closed("(", node.expression);
  }
  template <class Types, class F, class... A>
  void add(call<Types, F, A...> const& node, int precedence = 0) {
    if constexpr (is_operator<F>) {
      constexpr operator_syntax own = F::syntax;
      if (own.precedence < precedence) line_ += "(";
      if constexpr (sizeof...(A) == 2) {
        constexpr bool is_comparison = own.precedence == less::syntax.precedence;
        // x < y < z: neither side is printed without parentheses.
        add(at<0>(node.arguments), is_comparison ? own.precedence + 1 : own.precedence);
        line_ += " ";
      }
      line_ += own.symbol;
      if (sizeof...(A) == 2) line_ += " ";
      add(at<sizeof...(A) - 1>(node.arguments), own.precedence + 1);
      if (own.precedence < precedence) line_ += ")";
    } else {
      add_call(node);
    }
  }

  template <class T, class E>
  void add(assignment<T, E> const& a) {
    add_type<T>("out ", text{"["} + a.size + "] = ");
    add(a.expression);
  }
  template <class T, int Rank, class E>
  void add(strided_assignment<T, Rank, E> const& a) {
    add_type<T>("out ");
    add_axes(a.data.map);
    line_ += " = ";
    add(a.expression);
  }
  template <class T, class Array, bool Add, class E, class K>
  void add(indexed_assignment<T, Array, Add, E, K> const& a) {
    add_type<T>("out_at(", text{"["} + a.data.array.count() + "], " + a.size + ", ");
    add(at<1>(a.expression.arguments));
    line_ += Add ? ") += " : ") = ";
    add(at<0>(a.expression.arguments));
  }
  template <class... A>
  void add(assignments<A...> const& all) {
    char const* separator = "";
    detail::apply(all.each,
                  [&](auto const&... a) { ((line_ += separator, add(a), separator = "; "), ...); });
  }

 private:
  void add_text(text const& words) { line_ += words.c_str(); }
  template <class X>
  void add_closed(char const* before, X const& x) {
    line_ += before;
    add(x);
    line_ += ")";
  }
  template <class T>
  void add_type(char const* before, text const& after = "") {
    ((line_ += before) += element_name<T>()) += after.c_str();
  }

  template <class T>
  void add_number(T value) {
    if constexpr (std::is_same<T, bool>::value) {
      line_ += value ? "true" : "false";
    } else if constexpr (std::is_integral<T>::value) {
      using wide = std::conditional_t<std::is_signed<T>::value, long long, unsigned long long>;
      add_text(text{static_cast<wide>(value)});
    } else if constexpr (is_complex<T>) {
      line_ += "complex(";
      add_number(value.re);
      line_ += ", ";
      add_number(value.im);
      line_ += ")";
    } else {
      auto const as_double = static_cast<double>(value);
      char digits[40] = {};
      for (int count = 1; count <= std::numeric_limits<T>::max_digits10; ++count) {
        std::snprintf(digits, sizeof digits, "%.*g", count, as_double);
        // Not strtod for both: a float's digits must be rounded once.
        if (sizeof(T) == 4 ? std::strtof(digits, nullptr) == static_cast<float>(value)
                           : std::strtod(digits, nullptr) == as_double)
          break;
      }
      bool const large = std::strstr(digits, "e+") != nullptr;
      if (large && as_double < 1e7 && as_double > -1e7) {  // 100, not 1e+02
        std::snprintf(digits, sizeof digits, "%.0f", as_double);
      }
      warpwright::detail::undo_locale(digits);
      line_ += digits;
      if (std::strpbrk(digits, ".en") == nullptr) line_ += ".0";  // 1e9, inf and nan have an e or n
    }
  }

  template <class Axes>
  void add_axes(Axes const& map) {
    if (map.contiguous()) return add_text(text{"["} + map.of[0].extent + "]");
    line_ += "[";
    for (int k = map.count - 1; k >= 0; --k) {
      add_text(text{map.of[k].extent} + (k == 0 ? " by " : ", "));
    }
    for (int k = map.count - 1; k >= 0; --k) {
      add_text(text{static_cast<long long>(map.of[k].stride)} + (k == 0 ? "]" : ", "));
    }
  }

  // A template, as the state's type is complete only where random.hpp is included.
  template <class Use>
  void add_generator(draw<Use> const& node) {
    auto const& state = node.state;
    std::uint64_t const seed = state.keys.of[0] | std::uint64_t{state.keys.of[1]} << 32U;
    add_text(text{"philox{"} + seed);
    if (state.in_memory != nullptr) {
      line_ += ", *offset";
    } else if (state.offset != 0) {
      add_text(text{", "} + state.offset);
    }
    line_ += "}";
    if (state.subsequence != 0) {
      add_text(text{".subsequence("} + (state.subsequence >> 48U) + ")");
    }
  }

  template <class Types, class F, class... A>
  void add_call(call<Types, F, A...> const& node) {
    line_ += function_name<F> != nullptr ? function_name<F> : "map";
    if (type_name_of<F> != nullptr) ((line_ += "<") += type_name_of<F>) += ">";
    line_ += function_name<F> != nullptr ? "(" : "(function, ";
    char const* separator = "";
    detail::apply(node.arguments, [&](auto const&... a) {
      ((line_ += separator, add_argument<F>(a), separator = ", "), ...);
    });
    if constexpr (takes_generator<F>) add_parameter(node.function, 0);
    line_ += ")";
  }
  // A number that a functor holds, if it has any.
  template <class F>
  auto add_parameter(F const& function, int) -> decltype(void(function.parameter())) {
    line_ += ", ";
    add_number(function.parameter());
  }
  template <class F>
  void add_parameter(F const&, long) {}

  template <class F, class Node>
  void add_argument(Node const& node) {
    if constexpr (takes_generator<F> && std::is_same<Node, draw<raw_bits>>::value) {
      add_generator(node);
    } else {
      add(node);
    }
  }

  std::string line_;
};

}  // namespace detail

/// Prints an expression, an assignment or several in one line, in the format of this file's head.
/// @param x  an expression, `out(…) = …`, or several of these in tie(); no array is accessed
/// @return the line, without a newline: `in f32[8] * 2`, `out f32[8] = in f32[8] * 2`; a semicolon
///   and a space separate several assignments
/// @throws std::bad_alloc  when host memory runs out
/// **Threads:** any. **Capture:** legal; no CUDA call.
template <class X, class = std::enable_if_t<detail::is_expression<X> || detail::is_run<X>>>
[[nodiscard]] std::string describe(X const& x) {
  detail::description d;
  d.add(x);
  return d.line();
}

}  // namespace ew

WARPWRIGHT_END
