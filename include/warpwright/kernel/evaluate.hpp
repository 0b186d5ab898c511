// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Evaluates the assignment of an expression: run() as one kernel, of which the host runtime
// executes the planned blocks; evaluate_host() by a loop over the elements.
//
// nvcc makes one fused multiply-add of a product and a sum (-fmad=true, its default), and rounds
// once: where an expression both multiplies and adds, the host's last bits may be others. With
// -fmad=false they are the same; docs/kernels.md says more, under "Precision".
#pragma once

#include <warpwright/kernel/detail/elementwise/fused.hpp>
#include <warpwright/kernel/expression.hpp>

WARPWRIGHT_BEGIN

namespace ew {

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

/// Evaluates an assignment, or those of a tie(), on the calling thread, over arrays in host memory.
/// @param a  `out(pointer, n) = expression`, or to another output; or several in tie()
/// @throws std::invalid_argument  as run() does
/// **Threads:** any. **Cost:** a loop over the elements, without run()'s plan.
template <class A, class = std::enable_if_t<detail::is_run<A>>>
void evaluate_host(A const& a, source_location where = source_location::current()) {
  detail::with_assignments(a, [&](auto const& first, auto const&... rest) {
    detail::evaluate_on_host(where, first.size, first, rest...);
  });
}

/// Evaluates an assignment, or several, as one kernel: `tie(out(p, n) = x + y, out(q, n) = x - y)`.
///
/// Several have outputs of n elements each, and are computed from what the arrays hold before the
/// call, so that each output may be in place of any input. An array that occurs several times is
/// read from memory once, and then from a cache.
///
/// Operands may be misaligned to any element: a single misaligned array is moved element by
/// element, and where all are misaligned equally the kernel starts at their first common boundary.
/// @pre all arrays are accessible from the stream's device and stay alive until the kernel has run
/// @param a       `out(pointer, n) = expression`, or to another output, copied at the call; n = 0
///   launches nothing; or several in tie()
/// @throws std::invalid_argument  for operands of other sizes than the output, a row or column
///   length that does not divide n, a null or misaligned pointer, or an array that overlaps the
///   output other than exactly in place; the text names the operand, counted from 1 from left to
///   right. For outputs of different sizes, or that overlap
/// @throws cuda_error  when the launch fails
/// **Stream:** one kernel in `stream`'s order; does not block. **Threads:** any. **Capture:**
/// legal.
/// **Cost:** one kernel launch, no allocation. Compiled for architectures both below and from 9.0,
/// a launch also calls cudaGetDevice, and the first of a kernel on a device cudaFuncGetAttributes.
template <class A, class = std::enable_if_t<detail::is_run<A>>>
void run(stream_ref stream, A const& a, source_location where = source_location::current()) {
  detail::with_assignments(a, [&](auto const&... each) {
    detail::run_on_stream({stream, where}, each...);
  });
}

/// Several outputs are one tie(), and an expression goes to an out(); refused at compile time.
template <class... X, class = detail::if_refused<X...>>
void run(stream_ref, X const&...) {
  static_assert(sizeof...(X) == 1,
                "warpwright::ew::run: several outputs of one kernel are one argument: run(stream, "
                "tie(out(p, n) = ..., out(q, n) = ...))");
  static_assert(sizeof...(X) != 1,
                "warpwright::ew::run: say where the values go: run(stream, out(pointer, n) = "
                "expression); a reduction goes to reduce()");
}
/// As above.
template <class... X, class = detail::if_refused<X...>>
void evaluate_host(X const&...) {
  static_assert(sizeof...(X) == 1,
                "warpwright::ew::evaluate_host: several outputs are one argument: "
                "evaluate_host(tie(out(p, n) = ..., out(q, n) = ...))");
  static_assert(
      sizeof...(X) != 1,
      "warpwright::ew::evaluate_host: say where the values go: evaluate_host(out(pointer, "
      "n) = expression); a reduction goes to reduce_host()");
}

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace ew

WARPWRIGHT_END
