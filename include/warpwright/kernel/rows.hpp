// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Softmax, log-softmax, layer norm and RMS norm of each row of a row-major matrix, as one kernel
// with what comes before and after them.
//
//   ew::run_rows(s, {rows, cols},
//                ew::out(p, n) = ew::softmax(ew::in(scores, n) * scale + ew::row(mask, cols)));
//
//   auto const norm = ew::rms_norm(ew::in(x, n) + ew::in(residual, n), 1e-6);
//   ew::run_rows(s, {rows, cols}, ew::out(h, n) = norm.input(),  // the sum, computed once
//                ew::out(y, n) = norm * ew::row(gamma, cols));
//
// Memory. A row that fits is kept in registers, of a warp or of a block, or in a block's shared
// memory, and every array is read once. Of a longer one, what does not fit is read twice, the
// second time as far as may be from a cache.
//
// Numbers. A row is computed in double where its expression is double, in float otherwise. softmax
// and log_softmax subtract the row's maximum. layer_norm's variance is that of the differences from
// the mean, never a difference of sums. A row with a NaN or with +infinity, or of -infinity alone,
// is NaN throughout; -infinity beside other values is a probability of 0. In rms_norm infinity
// alone becomes NaN and what is beside it 0; in layer_norm the whole row becomes NaN.
//
// Results are the same bits in every run. The order of additions follows from cols, from the types,
// and from where a row lies relative to 16 bytes; the number of rows does not matter. The host
// computes in the same order: layer_norm and rms_norm are a GPU's bit for bit, where the
// expressions around them do not both multiply and add (see evaluate.hpp); softmax and log_softmax
// differ by the roundings of exp and log.
//
// Errors are stated in u = (cols / 2,000 + 16) * 2^-23, in double 2^-52, before the result is
// rounded to the output's type. An error of up to 2^-126, in double 2^-1022, the smallest normal
// number, is always possible.
//
// The norms' bounds hold where squares can be added:
// - the sum of x^2 over the row is below 3e38, in double 1.7e308;
// - the mean of x^2, or the variance, plus eps is at least 2^-126 = 1.2e-38, in double 2^-1022 =
//   2.2e-308. It is for every row if eps alone is.
// With |x| all alike and eps = 0 that is from 1.1e-19 to 1.7e19 / sqrt(cols), in double from
// 1.5e-154 to 1.3e154 / sqrt(cols). A sum past 3.4e38, in double 1.8e308, is infinite: finite x
// become 0 in rms_norm, as does rstd(), and may become 0 or NaN in layer_norm. Below the range
// squares lose digits; those of numbers below 2.6e-23, in double 1.5e-162, are 0, and with eps = 0
// a row of such becomes infinite, but NaN where x, or x - mean, is 0. Scale what is beyond the
// range: the norms of k * x with k * k * eps are those of x with eps.
#pragma once

#include <warpwright/kernel/detail/matrix.hpp>
#include <warpwright/kernel/detail/row_kernel.hpp>

WARPWRIGHT_BEGIN

namespace ew {
namespace detail {

template <class K, class A>
row_function<K, A> make_row_function(K const& kind, A const& a) {
  static_assert(is_number<value_t<A>>,
                "warpwright::ew: softmax(), layer_norm() and the like are of numbers");
  static_assert(!has_row_function<A>,
                "warpwright::ew: a function of rows within another: the outer one needs the inner "
                "one's whole row; write that to memory first, in a run_rows() of its own");
  return {kind, a, next_row_ticket()};
}

inline double checked_eps(char const* name, double eps, source_location where) {
  if (!(eps >= 0.0)) {
    warpwright::detail::throw_invalid_argument(
        text{"ew::"} + name + ": eps is " + eps + "; it must be a number from 0", where);
  }
  return eps;
}

template <class X>
using if_row_operand = std::enable_if_t<is_expression<X>>;

}  // namespace detail

/// exp(x) over the sum of exp(x) in the row. The relative error is within u, and 2^-23 for each
/// unit by which x is less than the row's maximum; below the smallest normal number it is that.
/// @param x  an expression of numbers
template <class A, class = detail::if_row_operand<A>>
[[nodiscard]] auto softmax(A const& x) {
  return detail::make_row_function(detail::softmax_kind{}, x);
}
/// x less the logarithm of the sum of exp(x) in the row. The error is within u + 2^-23 |result|.
/// @param x  an expression of numbers
template <class A, class = detail::if_row_operand<A>>
[[nodiscard]] auto log_softmax(A const& x) {
  return detail::make_row_function(detail::log_softmax_kind{}, x);
}
/// (x - mean) / sqrt(variance + eps), the variance being the mean of (x - mean)^2; for the usual
/// scale and shift: `layer_norm(x, eps) * row(gamma, cols) + row(beta, cols)`. The error is within
/// u times |result| + m / sqrt(variance + eps), m being the mean of |x|, but 2^-126 at least (in
/// double 2^-1022): what a large mean costs is digits of x. That holds where squares can be added:
/// the head of this file has the range, and what is beyond it.
/// @param x    an expression of numbers
/// @param eps  a number from 0; rows of float take it as a float, which is 0 below 7e-46
/// @throws std::invalid_argument  for another eps
/// Source: J. Ba, J. Kiros, G. Hinton, "Layer Normalization", arXiv:1607.06450.
template <class A, class = detail::if_row_operand<A>>
[[nodiscard]] auto layer_norm(A const& x, double eps,
                              source_location where = source_location::current()) {
  return detail::make_row_function(
      detail::layer_norm_kind{detail::checked_eps("layer_norm", eps, where)}, x);
}
/// x / sqrt(mean of x^2 + eps); for the usual scale: `rms_norm(x, eps) * row(gamma, cols)`. The
/// relative error is within u, where squares can be added: the head of this file has the range, and
/// what is beyond it.
/// @param x    an expression of numbers
/// @param eps  a number from 0; rows of float take it as a float, which is 0 below 7e-46
/// @throws std::invalid_argument  for another eps
/// Source: B. Zhang, R. Sennrich, "Root Mean Square Layer Normalization", arXiv:1910.07467.
template <class A, class = detail::if_row_operand<A>>
[[nodiscard]] auto rms_norm(A const& x, double eps,
                            source_location where = source_location::current()) {
  return detail::make_row_function(
      detail::rms_norm_kind{detail::checked_eps("rms_norm", eps, where)}, x);
}

namespace detail {

// The indices of the assignments for which Kept holds.
template <class Indices, std::size_t Next, bool... Kept>
struct kept_indices {
  using type = Indices;
};
template <std::size_t... Index, std::size_t Next, bool First, bool... Rest>
struct kept_indices<std::index_sequence<Index...>, Next, First, Rest...>
    : kept_indices<std::conditional_t<First, std::index_sequence<Index..., Next>,
                                      std::index_sequence<Index...>>,
                   Next + 1, Rest...> {};

template <class A>
inline constexpr bool is_row_note = false;
template <class T, class K, class E, row_part Part>
inline constexpr bool is_row_note<assignment<T, row_function<K, E, Part>>> = is_statistic(Part);

// Notices when outputs are of several functions, and finds the one.
struct row_function_finder {
  void const* kind = nullptr;
  void const* expression = nullptr;
  std::uint64_t ticket = 0;
  bool several_tickets = false;
  template <class F>
  void operator()(F const& f) {
    several_tickets = several_tickets || (ticket != 0 && ticket != f.ticket);
    ticket = f.ticket;
    kind = &f.kind;
    expression = &f.expression;
  }
};

inline void check_row_notes(operand const* notes, int count, operand const* operands, int arrays,
                            matrix_shape const& shape) {
  std::uint64_t const n = shape.rows * shape.cols;
  for (int k = 0; k < count; ++k) {
    operand const& o = notes[k];
    text const name = text{"statistic "} + (k + 1);
    if (o.count != shape.rows) {
      refuse(name,
             text{"goes to "} + as_given(o.count) + " elements, but rows = " + shape.rows +
                 "; give it an out() of one element a row",
             shape.where);
    }
    if (n == 0) continue;
    if (o.address == 0) {
      refuse(name, "goes to a null pointer; pass device memory", shape.where);
    }
    if (o.address % o.natural_bytes != 0) {
      refuse(name,
             text{"goes to address "} + o.address + ", not a multiple of its type's " +
                 o.natural_bytes + " bytes; pass a pointer to whole elements of this type",
             shape.where);
    }
    std::uint64_t const end = o.address + o.count * o.element_bytes;
    for (int j = 0; j < arrays; ++j) {
      operand const& a = operands[j];
      if (a.kind != reach::absent && o.address < a.address + span_bytes(a, n) && a.address < end) {
        refuse(name, "overlaps an array of the matrix; pass other memory", shape.where);
      }
    }
    for (int j = 0; j < k; ++j) {
      operand const& a = notes[j];
      if (o.address < a.address + a.count * a.element_bytes && a.address < end) {
        refuse(name, text{"goes where statistic "} + (j + 1) + " does; give each its own memory",
               shape.where);
      }
    }
  }
}

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

template <class A>
struct row_part_of;
template <class T, class E>
struct row_part_of<assignment<T, E>> {
  using expression = E;
  using output = row_output<T, E>;
  static output make(assignment<T, E> const& a) {
    return {{a.data, row_use<E>::bare(a.expression)}};
  }
  template <int V>
  static void describe(operand*& next, assignment<T, E> const& a) {
    *next++ = describe_array<T, V>(reach::elements, a.data, a.size);
    a.expression.template describe<V>(next);
  }
};
template <class A>
struct row_note_of;
template <class T, class K, class E, row_part Part>
struct row_note_of<assignment<T, row_function<K, E, Part>>> {
  using note = row_note<T, Part>;
  static note make(assignment<T, row_function<K, E, Part>> const& a) { return {a.data}; }
  static operand place(assignment<T, row_function<K, E, Part>> const& a) {
    return describe_array<T, 1>(reach::elements, a.data, a.size);
  }
};

// The first array of the function among the operands of all outputs.
template <class... E>
constexpr int first_of_row_function() {
  int const operands[] = {E::operands...};
  int const at[] = {row_use<E>::at...};
  bool const has[] = {has_row_function<E>...};
  int before = 0;
  for (std::size_t k = 0; k < sizeof...(E); ++k) {
    if (has[k]) return before + 1 + at[k];
    before += 1 + operands[k];
  }
  return 0;
}

// Checks and plans the assignments, those of numbers a row apart, and calls how(pass, plan).
template <class How, std::size_t... Index, std::size_t... NoteIndex, class... A>
void run_row_function(How const& how, matrix_shape const& shape, std::index_sequence<Index...>,
                      std::index_sequence<NoteIndex...>, A const&... a) {
  static_assert(sizeof...(Index) > 0,
                "warpwright::ew::run_rows: no output has the matrix's shape; to reduce rows to "
                "numbers use reduce_rows()");
  using source = typename row_use_of_all<typename row_part_of<A>::expression...>::source;
  static_assert((has_row_function<typename row_part_of<nth_t<Index, A...>>::expression> || ...),
                "warpwright::ew::run_rows: no output is of softmax(), layer_norm() or the like; "
                "evaluate it with run()");
  static_assert(!std::is_same<source, several>::value,
                "warpwright::ew::run_rows: the outputs are of several functions of rows; name one, "
                "auto const f = softmax(...), and use f in all of them");
  using outputs = pack<typename row_part_of<nth_t<Index, A...>>::output...>;
  using notes = pack<typename row_note_of<nth_t<NoteIndex, A...>>::note...>;
  using pass =
      row_pass<typename source::kind, typename source::expression,
               first_of_row_function<typename row_part_of<nth_t<Index, A...>>::expression...>(),
               row_use_of_all<typename row_part_of<A>::expression...>::takes_input, outputs, notes>;
  static_assert(sizeof(pass) <= 3072,
                "warpwright::ew::run_rows: the expressions' numbers and functions take more than a "
                "kernel's arguments can hold; pass them by pointer or split the expressions");

  std::uint64_t const n = elements_in(shape);
  pack<A const*...> const all{{&a}...};
  operand operands[pass::operands];
  operand* next = operands;
  (row_part_of<nth_t<Index, A...>>::template describe<pass::vector>(next, *at<Index>(all)), ...);
  if (operands[0].count != n) {
    refuse(name_of(operands, 0, sizeof...(Index) > 1 ? 1 : 0),
           text{"has "} + as_given(operands[0].count) + " elements, but {rows, cols} = {" +
               shape.rows + ", " + shape.cols + "} are " + n + "; give it an out() of rows * cols",
           shape.where);
  }
  if (n != 0 && shape.cols > most_cols) {
    warpwright::detail::throw_invalid_argument(
        text{"ew: the rows have "} + shape.cols +
            " elements, more than 2^31, and one block for each; use reduce() and run()",
        shape.where);
  }
  int const counts[] = {1 + row_part_of<nth_t<Index, A...>>::expression::operands...};
  check_assignments(operands, counts, static_cast<int>(sizeof...(Index)), shape.where);
  if constexpr (sizeof...(NoteIndex) > 0) {
    operand const places[] = {row_note_of<nth_t<NoteIndex, A...>>::place(*at<NoteIndex>(all))...};
    check_row_notes(places, static_cast<int>(sizeof...(NoteIndex)), operands, pass::operands,
                    shape);
  }
  row_function_finder found;
  (row_use<typename row_part_of<A>::expression>::visit(a.expression, found), ...);
  if (found.several_tickets) {
    warpwright::detail::throw_invalid_argument(
        "ew: the outputs are of several functions of rows; call softmax(), layer_norm() or the "
        "like once, name what it returns, and use that in all of them",
        shape.where);
  }
  row_plan const plan = plan_rows(
      operands, pass::operands, shape.rows, shape.cols, static_cast<unsigned>(pass::vector),
      static_cast<unsigned>(pass::vectors), pass::hold::bytes, pass::long_threads);
  if (plan.form == row_form::nothing) return;
  auto const width = static_cast<typename pass::real>(shape.cols);
  how(pass{*static_cast<typename source::kind const*>(found.kind),
           *static_cast<typename source::expression const*>(found.expression),
           {{row_part_of<nth_t<Index, A...>>::make(*at<Index>(all))}...},
           {{row_note_of<nth_t<NoteIndex, A...>>::make(*at<NoteIndex>(all))}...},
           {width, 1 / width}},
      plan);
}

struct row_function_on_calling_thread {
  template <class Pass>
  void operator()(Pass const& pass, row_plan const& plan) const {
    row_deal const deal = Pass::deal_for_host(plan);
    for (std::uint64_t row = 0; row < deal.rows; ++row) pass.run_row(deal, plan.form, row);
  }
};

struct row_function_on_stream {
  stream_ref stream;
  source_location where;

  template <class Pass>
  void operator()(Pass const& pass, row_plan const& plan) const {
#if defined(__CUDACC__)
    if (plan.blocks > 0x7fffffffU) {
      warpwright::detail::throw_invalid_argument(
          text{"ew: the matrix has "} + plan.deal.rows +
              " rows, more than one grid can hold; evaluate it in parts",
          where);
    }
    dim3 const grid{static_cast<unsigned>(plan.blocks)};
    if (plan.form == row_form::passes) {
      row_deal const deal = holding(
          plan, Pass::vector, Pass::hold::bytes,
          warpwright::detail::most_shared_bytes<long_rows_launch<Pass>>(&long_rows_kernel<Pass>));
      warpwright::detail::launch_kernel<long_rows_launch<Pass>>(
          &long_rows_kernel<Pass>, grid, dim3{plan.threads},
          std::size_t{deal.held} * deal.threads * Pass::hold::bytes, stream, where, pass, deal);
    } else {
      warpwright::detail::launch_kernel<Pass>(&kept_rows_kernel<Pass>, grid, dim3{plan.threads}, 0,
                                              stream, where, pass, plan.deal);
    }
#elif WARPWRIGHT_HOST_RUNTIME
    warpwright::detail::launch_host(
        stream, "warpwright::ew::run_rows", plan.deal.rows,
        function_of_rows_body<Pass>{pass, Pass::deal_for_host(plan), plan.form}, where);
#else
    static_cast<void>(pass), static_cast<void>(plan);
    static_assert(
        warpwright::detail::always_false<Pass>,
        "warpwright::ew::run_rows needs a kernel: compile this file with nvcc (name it .cu), or "
        "link warpwright::host_runtime to run without a GPU");
#endif
  }
};

template <bool... Kept>
using indices_where = typename kept_indices<std::index_sequence<>, 0, Kept...>::type;

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace detail

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

/// Evaluates a function of each row of a matrix, and what is made of it, as one kernel.
///
/// Every output is of rows * cols elements, but for one that is assigned a mean(), rstd() or
/// log_sum_exp(): that has one element a row. All outputs are of one softmax(), layer_norm() or the
/// like, as often as they please. Arrays may be misaligned to any element, and an output may be in
/// place of any in(). With rows = 0 or cols = 0 nothing is written.
/// @pre all memory can be reached from the stream's device and stays alive until it has passed it
/// @param stream  the stream to run on
/// @param shape   `{rows, cols}`, cols up to 2^31
/// @param a       `out(pointer, rows * cols) = expression` or `out(pointer, rows) = f.mean()`,
///   copied at the call
/// @throws std::invalid_argument  for operands that do not fit, as run() does; for outputs of
///   another size than the matrix's, for statistics of another size than `rows` or that overlap
///   anything, for the results of two calls of softmax() and its like, and on a GPU for more rows
///   than one grid can hold: 2^31 and more, where they are long
/// @throws cuda_error             when the launch fails
/// **Stream:** one kernel, ordered on `stream`; does not block. **Threads:** any. **Capture:**
/// legal.
/// **Cost:** one kernel launch, no allocation. A row is one block's work at
/// most: a few very long rows do not keep a GPU busy.
/// Compiled for architectures both below and from 9.0, a launch also calls cudaGetDevice, and the
/// first of a kernel on a device cudaFuncGetAttributes. So do all where a row is too long for
/// registers, and that first one cudaDeviceGetAttribute and cudaFuncSetAttribute, too; should one
/// of these fail, rows are read twice.
template <class... T, class... E>
void run_rows(stream_ref stream, matrix_shape const& shape, assignment<T, E> const&... a) {
  static_assert(sizeof...(a) > 0, "warpwright::ew::run_rows: name at least one output");
  detail::run_row_function(detail::row_function_on_stream{stream, shape.where}, shape,
                           detail::indices_where<!detail::is_row_note<assignment<T, E>>...>{},
                           detail::indices_where<detail::is_row_note<assignment<T, E>>...>{}, a...);
}

/// The same on the calling thread, over arrays in host memory, in the order in which a GPU would.
/// **Threads:** any.
template <class... T, class... E>
void run_rows_host(matrix_shape const& shape, assignment<T, E> const&... a) {
  static_assert(sizeof...(a) > 0, "warpwright::ew::run_rows_host: name at least one output");
  detail::run_row_function(detail::row_function_on_calling_thread{}, shape,
                           detail::indices_where<!detail::is_row_note<assignment<T, E>>...>{},
                           detail::indices_where<detail::is_row_note<assignment<T, E>>...>{}, a...);
}

/// Several outputs are arguments, not a tie(); refused at compile time.
template <class... A>
void run_rows(stream_ref, matrix_shape const&, assignments<A...> const&) {
  static_assert(warpwright::detail::always_false<A...>,
                "warpwright::ew::run_rows: takes several outputs as arguments; leave out tie()");
}
/// As above.
template <class... A>
void run_rows_host(matrix_shape const&, assignments<A...> const&) {
  static_assert(
      warpwright::detail::always_false<A...>,
      "warpwright::ew::run_rows_host: takes several outputs as arguments; leave out tie()");
}

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace ew

WARPWRIGHT_END
