// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Evaluates several reductions in one pass over memory, as one kernel.
//
// Results are the same bits in every run: nothing depends on timing, on the device's load or on its
// number of SMs. The order of additions follows from n, from the types, from the other reductions
// of the pass, from the arrays' addresses modulo 16, and from whether they are one array. The host
// runtime combines in the same order; where an expression multiplies, a GPU may round less often
// (fused multiply-add).
#pragma once

#include <warpwright/core/detail/device/async_copy.hpp>
#include <warpwright/kernel/detail/reduce/reduction_pass.hpp>
#include <warpwright/kernel/reductions.hpp>

WARPWRIGHT_BEGIN

namespace ew {

/// What assigning a reduction to to() returns, and reduce() evaluates.
template <class T, class K, class E>
using reduction_assignment = detail::reduction_assignment<T, K, E>;

/// What to() returns: assign a reduction to it.
template <class T>
class reduction_target {
 public:
  explicit reduction_target(T* data) : data_{data} {}
  reduction_target(reduction_target const&) = default;
  reduction_target& operator=(reduction_target const&) = delete;

  /// *data becomes the reduction's result, converted as by cast().
  template <class K, class E>
  [[nodiscard]] reduction_assignment<T, K, E> operator=(reduction<K, E> const& r) const {
    static_assert(
        detail::can_store<T, typename K::template result<detail::value_t<E>>>(),
        "warpwright::ew::to: the result does not go to this type: a number goes to numbers, what "
        "argmin() finds to a located or to an integer, a fold() to its own type");
    return {reinterpret_cast<detail::bits_of<T>*>(data_), r.kind, r.expression};
  }

 private:
  T* data_;
};

/// Where a result goes: `to(pointer) = sum(x)`.
/// @param data  one element of device memory; it is written when the kernel runs
template <class T>
[[nodiscard]] reduction_target<T> to(T* data) {
  static_assert(!std::is_const<T>::value,
                "warpwright::ew::to: the pointer is to const; a result must be writable");
  return reduction_target<T>{data};
}

/// Results on the host, in the order in which they were requested: `auto [a, b] = ew::reduce(...)`.
template <class... R>
struct reduced {
  detail::pack<R...> all;
  /// @return the Index-th result, from 0
  template <std::size_t Index>
  [[nodiscard]] auto get() const {
    return detail::at<Index>(all);
  }
};

/// The size of the workspace that some reductions require, in bytes: for any number of elements,
/// some 10 KB for each reduction.
/// @param r  reductions, or assignments of reductions, as passed to reduce()
template <class... R>
[[nodiscard]] constexpr std::size_t reduction_workspace_bytes(R const&...) {
  return detail::workspace_layout<R...>::bytes;
}

namespace detail {
inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

// Reduces into the workspace at `results` and copies the results to the host.
template <class Results, std::size_t... Index, class... R>
auto fetch_reduction(on_stream const& execute, void* workspace, elements const& n, Results* results,
                     std::index_sequence<Index...>, R const&... r) {
  reduce_all(execute, workspace, n,
             typename default_result<R>::assignment{
                 reinterpret_cast<bits_of<typename default_result<R>::type>*>(&at<Index>(*results)),
                 r.kind, r.expression}...);
  reduced<typename default_result<R>::type...> on_host;
  check(warpwright::detail::copy_async(&on_host.all, results, sizeof(Results),
                                       cudaMemcpyDeviceToHost, execute.stream.get()),
        "cudaMemcpyAsync", n.where);
  execute.stream.synchronize(n.where);
  if constexpr (sizeof...(R) == 1) {
    return on_host.template get<0>();
  } else {
    return on_host;
  }
}

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace detail

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

/// Evaluates several reductions in one pass, as one kernel; the results stay on the device.
///
/// Arrays may be misaligned to any element, as for run(). A result may lie in an array that is
/// read. With n = 0 every result is that of no elements.
/// @pre all memory is accessible from the stream's device and stays alive until the kernel has run
/// @param stream     the stream to run on
/// @param workspace  not in use by a reduction on another stream, a graph's replays included; must
///   not overlap an array that is read, which is not checked
/// @param n          number of elements of every expression, up to 2^59
/// @param goals      `to(pointer) = reduction`, copied at the call
/// @throws std::invalid_argument  for operands that do not fit, as run() does; for a workspace that
///   is too small, and for a null or misaligned result pointer, or one into the workspace or
///   another result
/// @throws cuda_error             when the launch fails
/// **Stream:** one kernel, ordered on `stream`; does not block.
/// **Threads:** any, one at a time for one workspace. **Capture:** legal.
/// **Cost:** one kernel launch, which calls what that of run() does; no allocation.
template <class... T, class... K, class... E>
void reduce(stream_ref stream, reduction_workspace const& workspace, elements n,
            reduction_assignment<T, K, E> const&... goals) {
  static_assert(sizeof...(goals) > 0, "warpwright::ew::reduce: name at least one reduction");
  using layout = detail::workspace_layout<reduction_assignment<T, K, E>...>;
  detail::check_workspace(workspace.size_bytes(), layout::bytes, n.where);
  detail::memory_range const results[] = {detail::range_of(goals, 1)...};
  detail::check_result_ranges(results, sizeof...(goals), workspace.data(), workspace.size_bytes(),
                              n.where);
  detail::reduce_all(detail::on_stream{stream, n.where}, workspace.data(), n, goals...);
}

/// The same with a workspace from a pool: a memory_pool, or anything with allocate(stream, bytes)
/// and deallocate(stream, pointer, bytes).
/// **Capture:** as the pool's.
/// **Cost:** one allocation, one memset of a few bytes, one kernel launch.
template <class Pool, class... T, class... K, class... E, class = detail::if_pool<Pool>>
void reduce(stream_ref stream, Pool& pool, elements n,
            reduction_assignment<T, K, E> const&... goals) {
  constexpr std::size_t bytes = detail::workspace_layout<reduction_assignment<T, K, E>...>::bytes;
  detail::workspace_block<Pool> const block{pool, stream, bytes, n.where};
  reduce(stream, prepare_workspace(stream, block.data(), bytes, n.where), n, goals...);
}

/// Evaluates several reductions in one pass and waits for their results.
/// @param workspace, n  as above
/// @param reductions    `sum(x)` and others
/// @return the result, or of several a `reduced` of all: `auto [a, b] = reduce(...)`; in the
///   reductions' own types
/// @throws std::invalid_argument, cuda_error  as above
/// **Stream:** one kernel and one small copy on `stream`, then synchronises with it.
/// **Threads:** as above. **Capture:** not legal: it waits.
template <class... K, class... E>
[[nodiscard]] auto reduce(stream_ref stream, reduction_workspace const& workspace, elements n,
                          reduction<K, E> const&... reductions) {
  static_assert(sizeof...(reductions) > 0, "warpwright::ew::reduce: name at least one reduction");
  using layout = detail::workspace_layout<reduction<K, E>...>;
  using results = typename layout::results;
  detail::check_workspace(workspace.size_bytes(), layout::bytes, n.where);
  auto* const memory = reinterpret_cast<results*>(static_cast<unsigned char*>(workspace.data()) +
                                                  layout::results_at);
  return detail::fetch_reduction(detail::on_stream{stream, n.where}, workspace.data(), n, memory,
                                 std::index_sequence_for<E...>{}, reductions...);
}

/// The same with a workspace from a pool.
template <class Pool, class... K, class... E, class = detail::if_pool<Pool>>
[[nodiscard]] auto reduce(stream_ref stream, Pool& pool, elements n,
                          reduction<K, E> const&... reductions) {
  constexpr std::size_t bytes = detail::workspace_layout<reduction<K, E>...>::bytes;
  detail::workspace_block<Pool> const block{pool, stream, bytes, n.where};
  return reduce(stream, prepare_workspace(stream, block.data(), bytes, n.where), n, reductions...);
}

/// Evaluates several reductions on the calling thread, over arrays in host memory, in the order in
/// which a GPU would.
/// @param n      number of elements
/// @param goals  `to(pointer) = reduction`
/// @throws std::invalid_argument  as reduce() does
/// **Threads:** any.
template <class... T, class... K, class... E>
void reduce_host(elements n, reduction_assignment<T, K, E> const&... goals) {
  using layout = detail::workspace_layout<reduction_assignment<T, K, E>...>;
  detail::memory_range const results[] = {detail::range_of(goals, 1)...};
  detail::check_result_ranges(results, sizeof...(goals), nullptr, 0, n.where);
  detail::host_workspace workspace{layout::bytes};
  detail::reduce_all(detail::on_calling_thread{n.where}, workspace.data(), n, goals...);
}
/// Reductions without a destination for their results; refused at compile time.
template <class... K, class... E, class = std::enable_if_t<(sizeof...(K) > 0)>>
void reduce_host(elements, reduction<K, E> const&...) {
  static_assert(warpwright::detail::always_false<K...>,
                "warpwright::ew::reduce_host: say where each result goes, as in to(&total) = "
                "sum(x); reduce() returns results");
}

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace ew

WARPWRIGHT_END

namespace std {
template <class... R>
struct tuple_size<warpwright::ew::reduced<R...>> : integral_constant<size_t, sizeof...(R)> {};
template <size_t Index, class... R>
struct tuple_element<Index, warpwright::ew::reduced<R...>> {
  using type = decltype(declval<warpwright::ew::reduced<R...>>().template get<Index>());
};
}  // namespace std
