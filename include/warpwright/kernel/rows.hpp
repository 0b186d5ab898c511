// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Softmax, log-softmax, layer norm, RMS norm and quantization of each row of a row-major matrix, as
// one kernel with the elementwise work before and after them.
//
//   ew::run_rows(s, {rows, cols},
//                ew::out(p, n) = ew::softmax(ew::in(scores, n) * scale + ew::row(mask, cols)));
//
//   auto const norm = ew::rms_norm(ew::in(x, n) + ew::in(residual, n), 1e-6);
//   ew::run_rows(s, {rows, cols}, ew::out(h, n) = norm.input(),  // the sum, computed once
//                ew::out(y, n) = norm * ew::row(gamma, cols));
//
// Memory. A row that fits registers or a block's shared memory is kept there, and every array is
// read once. What does not fit is read twice, the second time from L2 where it is still there.
//
// Numbers. A row is computed in double where its expression is double, in float otherwise. softmax
// and log_softmax subtract the row's maximum. layer_norm's variance is that of the differences from
// the mean, never a difference of sums; the mean's sum is compensated, so that a row of equal
// values (fewer than 2^24 in float) becomes 0. A row with a NaN or with +infinity, or of -infinity
// alone, is NaN throughout; -infinity beside other values is a probability of 0. In rms_norm an
// infinity becomes NaN and the row's other elements 0; in layer_norm the whole row becomes NaN.
//
// Results are the same bits in every run. The order of additions follows from cols, the types and
// where a row lies relative to 16 bytes; where rows are too long for registers also from their
// number and from whether the GPU has clusters of blocks (9.0 on). The host adds as one that has:
// layer_norm and rms_norm have its bits where the expressions around them do not both multiply and
// add (see evaluate.hpp); softmax's and log_softmax's exp and log differ.
//
// Errors are stated in u = (cols / 2,000 + 16) * 2^-23, in double 2^-52, before the result is
// rounded to the output's type. An error of up to 2^-126, in double 2^-1022, the smallest normal
// number, is always possible.
//
// The norms' bounds hold where squares can be added:
// - the sum of x^2 over the row is below 3e38, in double 1.7e308;
// - the mean of x^2, or the variance, plus eps is at least 2^-126 = 1.2e-38, in double 2^-1022 =
//   2.2e-308. It is for every row if eps alone is.
// With all |x| equal and eps = 0 that is from 1.1e-19 to 1.7e19 / sqrt(cols), in double from
// 1.5e-154 to 1.3e154 / sqrt(cols). A sum past 3.4e38, in double 1.8e308, is infinite: finite x
// become 0 in rms_norm, as does rstd(), and may become 0 or NaN in layer_norm. Below the range
// squares lose digits; those of numbers below 2.6e-23, in double 1.5e-162, are 0, and with eps = 0
// a row of such numbers becomes infinite, or NaN where x, or x - mean, is 0. Scale rows beyond the
// range: the norms of k * x with k * k * eps are those of x with eps.
#pragma once

#include <warpwright/kernel/detail/rows/row_evaluation.hpp>
#include <warpwright/kernel/evaluate.hpp>

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
  return {kind, a};
}

template <template <class> class Norm, class A>
auto make_norm(A const& a, double eps, source_location where) {
  using norm = Norm<row_value_t<A>>;
  if (!(eps >= 0.0)) {
    warpwright::detail::throw_invalid_argument(
        text{"ew::"} + norm::name + ": eps is " + eps + "; it must be a number from 0", where);
  }
  return make_row_function(norm{eps}, a);
}

}  // namespace detail

/// exp(x) over the sum of exp(x) in the row, x being an expression of numbers, as below. The
/// relative error is within u, and 2^-23 for each unit by which x is less than the row's maximum.
template <class A, class = detail::if_expression<A>>
[[nodiscard]] auto softmax(A const& x) {
  return detail::make_row_function(detail::softmax_function<detail::row_value_t<A>>{}, x);
}
/// x less the logarithm of the sum of exp(x) in the row. The error is within u + 2^-23 |result|.
template <class A, class = detail::if_expression<A>>
[[nodiscard]] auto log_softmax(A const& x) {
  return detail::make_row_function(detail::log_softmax_function<detail::row_value_t<A>>{}, x);
}
/// (x - mean) / sqrt(variance + eps), the variance being the mean of (x - mean)^2; for the usual
/// scale and shift: `layer_norm(x, eps) * row(gamma, cols) + row(beta, cols)`. The error is within
/// u times |result| + m / sqrt(variance + eps), m being the mean of |x|, but 2^-126 at least (in
/// double 2^-1022): a large mean loses digits of x. The head of this file says in which range.
/// @param eps  a number from 0; rows of float take it as a float, which is 0 below 7e-46
/// @throws std::invalid_argument  for another eps
/// Source: J. Ba, J. Kiros, G. Hinton, "Layer Normalization", arXiv:1607.06450.
template <class A, class = detail::if_expression<A>>
[[nodiscard]] auto layer_norm(A const& x, double eps,
                              source_location where = source_location::current()) {
  return detail::make_norm<detail::layer_norm_function>(x, eps, where);
}
/// x / sqrt(mean of x^2 + eps); for the usual scale: `rms_norm(x, eps) * row(gamma, cols)`. The
/// relative error is within u in the range that the head of this file gives.
/// @param eps  as for layer_norm()
/// @throws std::invalid_argument  for another eps
/// Source: B. Zhang, R. Sennrich, "Root Mean Square Layer Normalization", arXiv:1910.07467.
template <class A, class = detail::if_expression<A>>
[[nodiscard]] auto rms_norm(A const& x, double eps,
                            source_location where = source_location::current()) {
  return detail::make_norm<detail::rms_norm_function>(x, eps, where);
}

/// x / scale(), the scale being the row's largest |x| over the largest finite T, 448, 57,344 or
/// 127, but at least 2^-126 (in double 2^-1022). Rounded to even and saturated by the out() of T
/// that it is assigned to, as it is. Blocks of 32 or 128 elements are rows of `{n / 32, 32}`. A row
/// with a NaN or an infinity has that as its scale, and is NaN throughout; in int8 0.
/// @tparam T  __nv_fp8_e4m3, __nv_fp8_e5m2 or std::int8_t
template <class T, class A, class = detail::if_expression<A>>
[[nodiscard]] auto quantize(A const& x) {
  static_assert(detail::is_8_bit_float<T> || std::is_same<T, signed char>::value,
                "warpwright::ew::quantize: to __nv_fp8_e4m3, __nv_fp8_e5m2 or std::int8_t");
  return detail::make_row_function(detail::quantize_function<T, detail::row_value_t<A>>{}, x);
}

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

/// Evaluates a function of each row of a matrix, and expressions of its results, as one kernel.
///
/// Every output has rows * cols elements, except those of mean(), rstd(), log_sum_exp(), scale()
/// and input_at() with nothing beside them but numbers, device_scalar(), col() and gather() by
/// these, which have one element a row; one at least of the former names the function. All outputs
/// are of one row function, which may occur any number of times. Two calls of softmax() and its
/// like are one function if they are of the same arrays, with equal numbers, and with function
/// objects that are equal by their operator== or, without one, in all their bytes: such a one with
/// padding between its members needs it. Arrays may be misaligned to any element, and an output may
/// be in place of any in(). With rows = 0 or cols = 0 nothing is written.
/// @pre no output overlaps `lengths` of a ragged_shape, which is not checked; all memory is
/// accessible from the stream's device and stays alive until the kernel has run
/// @param shape  `{rows, cols}`, cols up to 2^31; causal(), or ragged_shape{{rows, cols}, lengths},
///   where a row of no elements has no outputs but its statistics, which are of no meaning
/// @param a      `out(pointer, rows * cols) = expression` or `out(pointer, rows) = f.mean()`,
///   copied at the call
/// @throws std::invalid_argument  for operands that do not fit, as run() does; for outputs of
///   another size than the matrix's; for statistics of another size than `rows` or that overlap
///   anything; for several row functions; and where rows of more than a warp each are 2^31 or more,
///   which is more than a grid holds
/// @throws cuda_error             when the launch fails
/// **Stream:** one kernel, ordered on `stream`; does not block. **Threads:** any. **Capture:**
/// legal. **Cost:** one kernel launch, no allocation. A part of a warp, a warp, a block or, from
/// compute capability 9.0 on, a cluster of up to 8 blocks computes a row. Where a row is too long
/// for registers, a launch also calls cudaGetDevice, and the first one of a kernel on a device
/// cudaDeviceGetAttribute, cudaFuncGetAttributes and cudaFuncSetAttribute; if one of these fails,
/// rows are read twice.
template <class... T, class... E>
void run_rows(stream_ref stream, ragged_shape const& shape, assignment<T, E> const&... a) {
  static_assert(sizeof...(a) > 0, "warpwright::ew::run_rows: name at least one output");
  detail::run_row_function(warpwright::detail::on_stream{stream, shape.shape().where}, shape, a...);
}

/// Evaluates a function of each row on the calling thread, over arrays in host memory, in the order
/// in which a GPU adds.
/// @param shape, a  as for run_rows()
/// @throws std::invalid_argument  as run_rows() does
/// **Threads:** any. **Cost:** the plan of run_rows(), block by block.
template <class... T, class... E>
void run_rows_host(ragged_shape const& shape, assignment<T, E> const&... a) {
  static_assert(sizeof...(a) > 0, "warpwright::ew::run_rows_host: name at least one output");
  detail::run_row_function(warpwright::detail::on_calling_thread{shape.shape().where}, shape, a...);
}

/// Other goals are refused at compile time.
template <class... A>
void run_rows(stream_ref, ragged_shape const&, A const&...) {
  static_assert(warpwright::detail::always_false<A...>,
                "warpwright::ew::run_rows: takes `out(pointer, count) = expression`, several as "
                "arguments without tie(); strided arrays, out_at() and to() take a run() or "
                "reduce() of what out() has stored");
}
template <class... A>
void run_rows_host(ragged_shape const&, A const&...) {
  static_assert(
      warpwright::detail::always_false<A...>,
      "warpwright::ew::run_rows_host: takes `out(pointer, count) = expression`, several as "
      "arguments without tie(); strided arrays, out_at() and to() take a run() or "
      "reduce() of what out() has stored");
}

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace ew

WARPWRIGHT_END
