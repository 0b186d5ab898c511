// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Loops and branches whose condition the device decides. Captured, they are conditional nodes of
// the graph, which the device runs without the host; without a capture, the host reads the
// condition.
//
//   ww::graph const solver = ww::capture(stream, [&](ww::stream_ref s) {
//     ww::repeat_while(s, running, {iterations, 1000}, [&](ww::stream_ref loop) {
//       ww::for_each_index(loop, n, relax{x, n});
//       ww::for_each_index(loop, 1, check_convergence{x, running});  // *running = 0: converged
//     });
//   });
#pragma once

#include <warpwright/core/detail/device/scoped_stream_device.hpp>
#include <warpwright/core/launch.hpp>
#include <warpwright/graph/detail/capture/conditional_node.hpp>

#include <type_traits>

WARPWRIGHT_BEGIN

/// The most repetitions of a repeat_while(), and where the device counts them.
struct loop_limit {
  unsigned* iterations;  ///< device memory: set to 0 before the loop, then counted up
  unsigned most;         ///< the loop ends after so many repetitions, whatever its condition
};

namespace detail {
inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

/// Reads a condition and sets the handles of the nodes that depend on it; counts repetitions.
template <class Condition>
struct evaluate_condition : kernel_base<32> {
  Condition const* condition = nullptr;
  unsigned* iterations = nullptr;  // null: not counted
  unsigned most = 0;
  bool first = true;     // before the loop
  unsigned handles = 0;  // number of those below; 0 outside of a capture
  unsigned long long if_true = 0;
  unsigned long long if_false = 0;

  template <class Block>
  WARPWRIGHT_HOST_DEVICE void operator()(Block& block) const {
    block.for_each_thread([&](unsigned t) {
      if (t != 0) return;
      bool value = *condition != Condition{};
      if (iterations != nullptr) {
        unsigned const done = first ? 0U : *iterations + 1;
        *iterations = done;
        value = value && done < most;
      }
      if (handles > 0) set_condition(if_true, value ? 1U : 0U);
      if (handles > 1) set_condition(if_false, value ? 0U : 1U);
    });
  }
};

template <class Condition>
void evaluate(stream_ref stream, evaluate_condition<Condition> const& kernel, char const* name,
              source_location where) {
  launch_blocks(stream, 1, 1, kernel, name, where);
}

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE

/// Reads a condition on the host.
template <class Condition>
bool fetch_condition(stream_ref stream, Condition const* condition, source_location where) {
  relaxed_capture_mode const allowed{where};
  Condition value{};
  check(copy_async(&value, condition, sizeof value, cudaMemcpyDeviceToHost, stream.get()),
        "cudaMemcpyAsync", where);
  check(cudaStreamSynchronize(stream.get()), "cudaStreamSynchronize", where);
  return value != Condition{};
}

template <class Condition, class... Bodies>
constexpr void check_conditional() {
  static_assert(std::is_integral<Condition>::value || std::is_enum<Condition>::value,
                "warpwright: a condition is an integer, a bool or an enumeration in device memory, "
                "and not zero means true");
  static_assert((std::is_invocable<Bodies&, stream_ref>::value && ...),
                "warpwright: the body of repeat_while() and run_if() is called with a "
                "warpwright::stream_ref, on which it enqueues its work");
}

#if WARPWRIGHT_HAS_CONDITIONAL_NODES
template <class Body>
void capture_body(stream_ref stream, cudaGraphConditionalHandle handle,
                  cudaGraphConditionalNodeType type, Body& body, source_location where) {
  body_capture captured{add_conditional(stream, handle, type, where),
                        device_of_capturing(stream, where), where};
  body(captured.stream());
  captured.end(where);
}
#endif

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

template <class Condition, class Body>
void repeat(stream_ref stream, Condition const* condition, loop_limit limit, Body& body,
            source_location where) {
  evaluate_condition<Condition> test;
  test.condition = condition;
  test.iterations = limit.iterations;
  test.most = limit.most;
  cudaGraph_t const graph = capture_position_of(stream, where).graph;
  if (graph == nullptr) {
    bool const counts = limit.iterations != nullptr;
    if (counts) evaluate(stream, test, "repeat_while", where);
    test.first = false;
    for (unsigned done = 0; !counts || done < limit.most; ++done) {
      if (!fetch_condition(stream, condition, where)) return;
      body(stream);
      if (counts) evaluate(stream, test, "repeat_while", where);
    }
    return;
  }
  require_conditional_nodes(where);
#if WARPWRIGHT_HAS_CONDITIONAL_NODES
  scoped_stream_device const current{stream.get()};  // of the handle and the node
  test.handles = 1;
  test.if_true = make_condition(graph, where);
  evaluate(stream, test, "repeat_while", where);
  test.first = false;
  auto const repetition = [&](stream_ref inner) {
    body(inner);
    evaluate(inner, test, "repeat_while", where);
  };
  capture_body(stream, test.if_true, cudaGraphCondTypeWhile, repetition, where);
#endif
}

// @param otherwise  null: nothing to do for a condition that is zero
template <class Condition, class Body, class Otherwise>
void branch(stream_ref stream, Condition const* condition, Body& body, Otherwise* otherwise,
            source_location where) {
  if (condition == nullptr) {
    throw_invalid_argument("run_if: the condition must point to device memory", where);
  }
  cudaGraph_t const graph = capture_position_of(stream, where).graph;
  if (graph == nullptr) {
    if (fetch_condition(stream, condition, where)) {
      body(stream);
    } else if (otherwise != nullptr) {
      (*otherwise)(stream);
    }
    return;
  }
  require_conditional_nodes(where);
#if WARPWRIGHT_HAS_CONDITIONAL_NODES
  scoped_stream_device const current{stream.get()};  // of the handles and the nodes
  evaluate_condition<Condition> test;
  test.condition = condition;
  test.handles = otherwise != nullptr ? 2 : 1;
  test.if_true = make_condition(graph, where);
  if (otherwise != nullptr) test.if_false = make_condition(graph, where);
  evaluate(stream, test, "run_if", where);
  capture_body(stream, test.if_true, cudaGraphCondTypeIf, body, where);
  if (otherwise == nullptr) return;
  // Two nodes, since one node with two bodies needs CUDA 12.8.
  capture_body(stream, test.if_false, cudaGraphCondTypeIf, *otherwise, where);
#endif
}

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace detail

WARPWRIGHT_END
WARPWRIGHT_BEGIN_PER_COMPILER

/// Calls `body` again and again, as long as a condition in device memory is not zero and a limit of
/// repetitions is not reached. The body's work decides: it sets the condition to zero to end the
/// loop. An endless loop cannot be stopped on a GPU, so that this overload is the safe one.
///
/// While the stream is capturing, `body` is called once and becomes a WHILE node. Otherwise `body`
/// is called for each repetition, with the same results.
/// @pre in a capture, what `body` enqueues are kernels without dynamic parallelism, copies and
///   fills of device or page-locked memory, and further repeat_while() and run_if(): CUDA allows
///   nothing else in a conditional node. It allocates no memory
/// @pre both pointers stay valid as long as the graph is launched
/// @param stream     a capture_scope or any stream, capturing or not
/// @param condition  device memory; read before each repetition, so that there may be none. An
///   integer, bool or enumeration
/// @param limit      where repetitions are counted, and the most of them
/// @param body       body(stream_ref): enqueues its work on the stream that it gets, not `stream`
/// @throws std::invalid_argument  for null pointers
/// @throws cuda_error             when a call fails; cudaErrorNotSupported in a capture with a
///   toolkit or driver older than CUDA 12.4
/// @throws what `body` throws; abandon the capture then, as capture() does
/// **Stream:** ordered on `stream`. Capturing, it does not block; otherwise it waits on the host
/// for each value of the condition. **Capture:** legal. Such a graph has one executable at a time,
/// and can be neither cloned nor a child graph: CUDA's rules.
/// **Cost:** one small kernel a repetition; without a capture also a copy and a synchronisation.
template <class Condition, class Body>
void repeat_while(stream_ref stream, Condition const* condition, loop_limit limit, Body&& body,
                  source_location where = source_location::current()) {
  detail::check_conditional<Condition, Body>();
  if (condition == nullptr || limit.iterations == nullptr) {
    detail::throw_invalid_argument(
        "repeat_while: the condition and the number of iterations must point to device memory; the "
        "overload without a loop_limit counts nothing",
        where);
  }
  detail::repeat(stream, condition, limit, body, where);
}

/// As above, without a limit.
/// @pre the body's work sets the condition to zero after a finite number of repetitions
template <class Condition, class Body>
void repeat_while(stream_ref stream, Condition const* condition, Body&& body,
                  source_location where = source_location::current()) {
  detail::check_conditional<Condition, Body>();
  if (condition == nullptr) {
    detail::throw_invalid_argument("repeat_while: the condition must point to device memory",
                                   where);
  }
  detail::repeat(stream, condition, loop_limit{nullptr, 0}, body, where);
}

/// Runs the work of one of two bodies, by a condition in device memory.
///
/// While the stream is capturing, both bodies are called once and become IF nodes. Otherwise one of
/// them is called, with the same results.
/// @pre as repeat_while()
/// @param stream     a capture_scope or any stream, capturing or not
/// @param condition  device memory; read once, before either body's work. An integer, bool or
///   enumeration
/// @param body       body(stream_ref), for a condition that is not zero
/// @param otherwise  otherwise(stream_ref), for zero
/// @throws as repeat_while()
/// **Stream:** ordered on `stream`. Capturing, it does not block; otherwise it waits on the host
/// for the condition's value. **Capture:** legal; see repeat_while().
/// **Cost:** one small kernel; without a capture a copy and a synchronisation instead.
template <class Condition, class Body, class Otherwise,
          std::enable_if_t<!std::is_same<std::decay_t<Otherwise>, source_location>::value, int> = 0>
void run_if(stream_ref stream, Condition const* condition, Body&& body, Otherwise&& otherwise,
            source_location where = source_location::current()) {
  detail::check_conditional<Condition, Body, Otherwise>();
  detail::branch(stream, condition, body, &otherwise, where);
}

/// As above, with nothing to do for a condition that is zero.
template <class Condition, class Body>
void run_if(stream_ref stream, Condition const* condition, Body&& body,
            source_location where = source_location::current()) {
  detail::check_conditional<Condition, Body>();
  detail::branch(stream, condition, body, static_cast<std::remove_reference_t<Body>*>(nullptr),
                 where);
}

WARPWRIGHT_END_PER_COMPILER
