// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Passes over the rows of a matrix that store expressions, with sums of the row within them, and
// reduce columns beside them: the gradients of layer norm, RMS norm, softmax, and of what has a
// bias. docs/kernels.md has examples.
//
// Numbers. Sums are added in double where the expression is double, in float otherwise. With u =
// 2^-24, in double 2^-53, the error of a sum of a row is within (cols / 500 + 30) * u times the sum
// of the absolute values, that of column_sum() within (rows / 130 + rows * cols / 135,000 + 60) *
// u. .in<double>() and .compensated() apply to the latter. Results are the same bits in every run,
// on every GPU: the order of additions follows from rows, cols, the types, and whether arrays are
// aligned to 16 bytes. The host computes in the same order; where an expression multiplies, a GPU
// may round less often.
#pragma once

#include <warpwright/kernel/detail/row_gradients/gradient_kernels.hpp>
#include <warpwright/kernel/evaluate.hpp>
#include <warpwright/kernel/functions.hpp>
#include <warpwright/kernel/reduce.hpp>

WARPWRIGHT_BEGIN

namespace ew {
namespace detail {

// What has no array, and what is shared already, stays as it is.
template <int Number, class X>
auto make_once(X const& x) {
  auto const e = as_expression(x);
  using E = std::decay_t<decltype(e)>;
  if constexpr (E::operands == 0 || is_pass_node<E>) {
    return e;
  } else {
    return pass_node<pass_value::once, Number, E>{e};
  }
}
// Numbers of once() that users' do not take.
enum library_once : int { once_dy = -1, once_y = -2, once_of_row = -3, once_gamma = -4 };

}  // namespace detail

/// The sum of an expression over each row: one value for all elements of the row, which
/// run_row_gradients() computes before it evaluates what the sum stands in.
/// @tparam Number  tells sums apart whose expressions have one type but other arrays or numbers
/// @param x  an expression of real numbers, without a sum of a row in it
template <int Number = 0, class A, class = detail::if_expression<A>>
[[nodiscard]] auto row_sum(A const& x) {
  return pass_node<pass_value::sum, Number, A>{x};
}
/// The mean of an expression over each row, as row_sum().
template <int Number = 0, class A, class = detail::if_expression<A>>
[[nodiscard]] auto row_mean(A const& x) {
  return pass_node<pass_value::mean, Number, A>{x};
}
/// The expression itself, to be named in several places of one run_row_gradients(): its arrays are
/// loaded once for all of them, and it is computed once.
/// @tparam Number  from 0; tells expressions apart that have one type but other arrays or numbers
/// @param x  an expression
template <int Number = 0, class A, class = detail::if_expression<A>>
[[nodiscard]] auto once(A const& x) {
  static_assert(Number >= 0, "warpwright::ew::once: numbers below 0 are the library's");
  return detail::make_once<Number>(x);
}
/// The sum of each column, for run_row_gradients(): `to(pointer) = column_sum(x)` writes `cols`
/// elements, `+=` adds to them. Types are those of sum().
template <class A, class = detail::if_expression<A>>
[[nodiscard]] auto column_sum(A const& x) {
  return reduction<detail::of_column<decltype(sum(x).kind)>, A>{{}, x};
}
/// The largest value of each column, as column_sum(); NaN if any is.
template <class A, class = detail::if_expression<A>>
[[nodiscard]] auto column_max(A const& x) {
  return reduction<detail::of_column<decltype((max)(x).kind)>, A>{{}, x};
}
/// `to(pointer) += column_sum(x)`: adds each column's result to what is there.
template <class T, class K, class E>
[[nodiscard]] auto operator+=(reduction_target<T> const& target,
                              reduction<detail::of_column<K>, E> const& r) {
  static_assert(detail::is_number<T>, "warpwright::ew::to: += is of real numbers");
  return detail::accumulation<T, K, E>{target = r};
}

/// What layer_norm_backward() and rms_norm_backward() return, for run_row_gradients().
template <bool Centered, class Dy, class Normalized, class Rstd, class Gamma>
struct norm_gradients {
  Dy dy;
  Normalized normalized;
  Rstd rstd;
  Gamma gamma;

  /// The gradient of x, an expression: `out(dx, n) = g.dx()`.
  [[nodiscard]] auto dx() const {
    auto const d = dy * gamma;
    auto const along = normalized * row_mean(d * normalized);
    if constexpr (Centered) {
      return rstd * (d - row_mean(d) - along);
    } else {
      return rstd * (d - along);
    }
  }
  /// The gradient of gamma, one a column: `to(dgamma) += g.dgamma()`.
  [[nodiscard]] auto dgamma() const { return column_sum(dy * normalized); }
  /// The gradient of beta, one a column, of layer_norm_backward() alone.
  [[nodiscard]] auto dbeta() const {
    static_assert(Centered, "warpwright::ew: rms_norm() has no beta");
    return column_sum(dy);
  }
};

namespace detail {
template <bool Centered, class Dy, class X, class Rstd, class Gamma>
auto make_norm_gradients(Dy const& dy, X const& x, Rstd const& rstd, Gamma const& gamma) {
  auto const d = make_once<once_dy>(dy);
  auto const s = make_once<once_of_row>(rstd);
  auto const y = make_once<once_y>(x * s);
  auto const g = make_once<once_gamma>(gamma);
  return norm_gradients<Centered, std::decay_t<decltype(d)>, std::decay_t<decltype(y)>,
                        std::decay_t<decltype(s)>, std::decay_t<decltype(g)>>{d, y, s, g};
}
}  // namespace detail

/// The gradients of `y = layer_norm(x, eps) * gamma + beta`.
/// @param dy     the gradient of y, any expression
/// @param x      what the forward normalised, any expression
/// @param mean, rstd  of each row, as layer_norm() gives them: `col(mean, cols)`
/// @param gamma  `row(gamma, cols)`, or nothing where there is none
/// @return dx(), dgamma() and dbeta()
template <class Dy, class X, class Mean, class Rstd, class Gamma = float,
          class = detail::if_operands<Dy, X, Mean, Rstd>>
[[nodiscard]] auto layer_norm_backward(Dy const& dy, X const& x, Mean const& mean, Rstd const& rstd,
                                       Gamma const& gamma = 1.0F) {
  return detail::make_norm_gradients<true>(dy, x - mean, rstd, gamma);
}
/// The gradients of `y = rms_norm(x, eps) * gamma`, as layer_norm_backward().
/// @return dx() and dgamma()
template <class Dy, class X, class Rstd, class Gamma = float,
          class = detail::if_operands<Dy, X, Rstd>>
[[nodiscard]] auto rms_norm_backward(Dy const& dy, X const& x, Rstd const& rstd,
                                     Gamma const& gamma = 1.0F) {
  return detail::make_norm_gradients<false>(dy, x, rstd, gamma);
}
/// The gradient of x of `y = softmax(x)`: y * (dy - row_sum(dy * y)).
template <class Dy, class Y, class = detail::if_operands<Dy, Y>>
[[nodiscard]] auto softmax_backward(Dy const& dy, Y const& y) {
  auto const d = detail::make_once<detail::once_dy>(dy);
  auto const p = detail::make_once<detail::once_y>(y);
  return p * (d - row_sum(d * p));
}
/// The gradient of x of `y = log_softmax(x)`: dy - exp(y) * row_sum(dy).
template <class Dy, class Y, class = detail::if_operands<Dy, Y>>
[[nodiscard]] auto log_softmax_backward(Dy const& dy, Y const& y) {
  auto const d = detail::make_once<detail::once_dy>(dy);
  return d - exp(detail::as_expression(y)) * row_sum(d);
}

/// The size of the workspace that run_row_gradients() requires, in bytes: at most some 264 rows of
/// the states of the column reductions, a float for each column_sum(), and 2 KB.
/// @throws std::invalid_argument  for a matrix of more than 2^59 elements
template <class... Goal>
[[nodiscard]] std::size_t row_gradients_workspace_bytes(matrix_shape const& shape, Goal const&...) {
  return detail::gradient_call<Goal...>::workspace_bytes(shape);
}

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

/// Evaluates expressions of a matrix's shape, with sums of rows within them, and reductions of its
/// columns, in one pass over memory.
///
/// Arrays may be misaligned to any element. An output may be in place of any in(). row() and col()
/// are of the matrix's rows. A result may lie in an array that is read. With rows = 0 or cols = 0
/// no output is written, and every result is that of no elements.
/// @pre all memory is accessible from the stream's device and stays alive until the kernels have
/// run
/// @param workspace  as for reduce(), of row_gradients_workspace_bytes() or more
/// @param shape      `{rows, cols}`, cols up to 2^31
/// @param goals      in any order, copied at the call: `out(pointer, rows * cols) = expression`,
///   one at least; `to(pointer) = column_sum(x)` or `+=`, of `cols` elements
/// @throws std::invalid_argument  for operands that do not fit, as run_rows() does; for a workspace
///   that is too small; for results that overlap each other, an output or the workspace; and for
///   two expressions of one type in once() or row_sum() that are not the same
/// @throws cuda_error             when a launch fails
/// **Stream:** one kernel, and a second one where there are reductions; does not block.
/// **Threads:** any, one at a time for one workspace. **Capture:** legal. **Cost:** the launches,
/// no allocation.
template <class... Goal>
void run_row_gradients(stream_ref stream, reduction_workspace const& workspace,
                       matrix_shape const& shape, Goal const&... goals) {
  detail::check_workspace(workspace.size_bytes(), row_gradients_workspace_bytes(shape, goals...),
                          shape.where, "row_gradients_workspace_bytes()");
  detail::gradient_call<Goal...>::run(warpwright::detail::on_stream{stream, shape.where},
                                      workspace.data(), workspace.size_bytes(), shape, goals...);
}
/// The same with a workspace from a pool, where there are reductions.
/// @throws what the pool throws, too
/// **Capture:** as the pool's. **Cost:** an allocation more.
template <class Pool, class... Goal, class = detail::if_pool<Pool>>
void run_row_gradients(stream_ref stream, Pool& pool, matrix_shape const& shape,
                       Goal const&... goals) {
  using call = detail::gradient_call<Goal...>;
  warpwright::detail::on_stream const execute{stream, shape.where};
  if constexpr (call::results != 0) {
    std::size_t const bytes = call::workspace_bytes(shape);
    detail::workspace_block<Pool> const block{pool, stream, bytes, shape.where};
    call::run(execute, block.data(), bytes, shape, goals...);
  } else {
    call::run(execute, nullptr, 0, shape, goals...);
  }
}
/// The same without reductions, which needs no workspace.
template <class... Goal>
void run_row_gradients(stream_ref stream, matrix_shape const& shape, Goal const&... goals) {
  using call = detail::gradient_call<Goal...>;
  static_assert(
      call::results == 0,
      "warpwright::ew::run_row_gradients: reductions need a workspace or a pool behind the "
      "stream");
  call::run(warpwright::detail::on_stream{stream, shape.where}, nullptr, 0, shape, goals...);
}
/// The same on the calling thread, over arrays in host memory, in the order in which a GPU adds.
/// @throws std::bad_alloc  when host memory runs out; std::invalid_argument as above
/// **Threads:** any.
template <class... Goal>
void run_row_gradients_host(matrix_shape const& shape, Goal const&... goals) {
  detail::host_workspace workspace{row_gradients_workspace_bytes(shape, goals...)};
  detail::gradient_call<Goal...>::run(warpwright::detail::on_calling_thread{shape.where},
                                      workspace.data(), 0, shape, goals...);
}

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace ew

WARPWRIGHT_END
