// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A loop of launches, captured once a shape and replayed from then on:
//
//   ww::graph_cache cache;
//   for (…) {
//     cache.run(stream, {rows, cols}, [&](ww::stream_ref s, float* x, float const* y) {
//       …  // launches on s that use x and y
//     }, x.data(), y.data());
//   }
#pragma once

#include <warpwright/core/detail/capture/capture_count.hpp>
#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/core/detail/thread/process_bound.hpp>
#include <warpwright/core/stream.hpp>
#include <warpwright/graph/capture.hpp>
#include <warpwright/graph/compare_graphs.hpp>
#include <warpwright/graph/detail/cache/cache_core.hpp>
#include <warpwright/graph/graph_cache_options.hpp>
#include <warpwright/graph/graph_cache_statistics.hpp>

#include <cstddef>
#include <type_traits>

WARPWRIGHT_BEGIN

namespace detail {

// Its address tells functions of different types, or with different arguments, apart. Not const:
// the linker may merge equal constants.
template <class F, class... Arguments>
inline char function_tag = 0;

template <class F>
inline constexpr bool is_function_pointer =
    std::is_pointer_v<F>&& std::is_function_v<std::remove_pointer_t<F>>;

// The address of a function, as a number; of an object, whose type tells it apart, 0.
template <class F>
std::uint64_t function_address(F& f) noexcept {
  if constexpr (is_function_pointer<std::decay_t<F>>) {
    std::decay_t<F> const pointer = f;
    return reinterpret_cast<std::uintptr_t>(pointer);
  } else {
    return 0;
  }
}

// The words of a call: its arguments, and before them the address of a function, as functions of
// one type have the same tag.
template <class F, class... Arguments>
struct call_words {
  static constexpr bool has_address = is_function_pointer<std::decay_t<F>>;
  using words =
      std::conditional_t<has_address, binding_words<std::uint64_t, binding_value<Arguments>...>,
                         binding_words<binding_value<Arguments>...>>;

  static words of(F& f, Arguments&... arguments) noexcept {
    if constexpr (has_address) {
      return words{function_address(f), arguments...};
    } else {
      return words{arguments...};
    }
  }
  static void const* tag() noexcept {
    return &function_tag<std::decay_t<F>, binding_value<Arguments>...>;
  }
};

// How a step takes its stream, and whether it takes the key.
template <class F, class... Arguments>
struct step_call {
  static constexpr bool takes_stream = std::is_invocable_v<F&, stream_ref, Arguments&...>;
  static constexpr bool takes_stream_and_key =
      std::is_invocable_v<F&, stream_ref, shape_key const&, Arguments&...>;

  template <class Scope>
  WARPWRIGHT_ALWAYS_INLINE static void run(F& f, Scope&& scope, shape_key const& key,
                                           Arguments&... arguments) {
    if constexpr (takes_stream) {
      f(stream_ref{scope}, arguments...);
    } else if constexpr (takes_stream_and_key) {
      f(stream_ref{scope}, key, arguments...);
    } else if constexpr (std::is_invocable_v<F&, capture_scope&, Arguments&...>) {
      f(scope, arguments...);
    } else {
      static_assert(
          std::is_invocable_v<F&, capture_scope&, shape_key const&, Arguments&...>,
          "warpwright: graph_cache calls f with a warpwright::capture_scope& or a "
          "warpwright::stream_ref, optionally the warpwright::shape_key const&, and the further "
          "arguments of the call as lvalues");
      f(scope, key, arguments...);
    }
  }
};

}  // namespace detail

/// Runs the steps of a loop from executable graphs where that is faster, and eagerly where it is
/// not or cannot be. The key of a call tells its shape, the further arguments are its bindings:
/// what the graph has in it. A call with bindings that a graph has launches it; otherwise the step
/// is captured again, and an executable graph is updated in place, or instantiated where CUDA
/// cannot do that.
///
/// A value that the function uses and that is not among the arguments is baked into the graph: a
/// later change of it has no effect, without an error. Pass it as an argument, or keep it in a
/// graph_param; graph_cache_options::verify_every() finds what was forgotten. What the function
/// decides (a branch on the host) must depend on the key and the arguments alone.
///
/// The function may be called twice in one call of run(): when a capture fails, the step runs
/// eagerly after it. So it must not do anything but enqueue work, except what it can do twice.
/// Memory that the arguments refer to must stay allocated while the work runs, as without a graph.
/// What the function allocates from a memory_pool belongs to the graph.
///
/// A key has its own graphs for each type of function and arguments: the same key with two lambdas
/// is two keys. Plain functions and function pointers of one type share a key, and their addresses
/// are compared as bindings are. Other objects of one type, such as two std::function, are taken
/// for the same function: give them different keys. Streams may differ from call to call, and may
/// be of several devices; the device of the stream must be current where the function needs that.
/// Launches of one executable graph on several streams wait for each other:
/// graph_cache_options::replicas().
///
/// **Threads:** any number may call run(), prewarm(), trim() and statistics() at once; a lock is
/// held for tens of nanoseconds by a replay, and for as long as an instantiation takes by a call
/// that instantiates. It is not held while a function runs, which may use the same cache.
class graph_cache : detail::noncopyable {
 public:
  graph_cache() : graph_cache{graph_cache_options{}} {}
  /// @throws std::invalid_argument  for options that exclude each other
  explicit graph_cache(graph_cache_options const& options,
                       source_location where = source_location::current())
      : options_{options.check(where)}, core_{values_of(options)} {}

  /// Runs one step.
  /// @param stream    a stream, stream_ref or capture_scope. With a handle that has no id (a
  ///   cudaStream_t of other code, the per-thread default stream) a call makes CUDA calls more to
  ///   find it. On the legacy default stream all steps run eagerly
  /// @param key       tells apart the shapes of the step, and whatever else decides which work it
  ///   enqueues
  /// @param f         f(capture_scope&, arguments...) or f(stream_ref, arguments...), with the
  ///   shape_key const& before the arguments if it takes that
  /// @param arguments pointers, numbers, enumerators, trivially copyable structs without padding
  ///   (is_graph_binding_by_bytes) and arrays of numbers, by their bytes; containers that own their
  ///   elements, by data() and size(), not by the elements; graph_param. They are compared on
  ///   each call, and passed to f as lvalues
  /// @return what was done
  /// @throws what f throws; graph_mismatch (verify_every()); cuda_error when a launch fails, and
  ///   for an error that f leaves pending in an eager call, until the cost gate has chosen eager
  ///   calls for the key; capture_error, and cuda_error of an instantiation, without
  ///   eager_fallback()
  /// **Stream:** the step is ordered on `stream`; does not block. **Capture:** legal: f is called,
  /// and its work becomes a part of the capture. A capture that other code began with
  /// cudaStreamBeginCapture is not seen by a replay, which CUDA then refuses: call f there.
  /// **Cost:** of a replay, a comparison of the key and the arguments and one CUDA call; no
  /// allocation. Sampled calls record two events more.
  template <class F, class... Arguments>
  graph_step run(detail::stream_argument stream, shape_key const& key, F&& f,
                 Arguments&&... arguments) {
    using function = std::remove_reference_t<F>;
    using call_type = detail::step_call<function, std::remove_reference_t<Arguments>...>;
    using words_of = detail::call_words<function, std::remove_reference_t<Arguments>...>;
    auto const words = words_of::of(f, arguments...);
    detail::cache_call const call{key, words_of::tag(), {words.data(), decltype(words)::count}};
    auto const step = [&](capture_scope& scope) { call_type::run(f, scope, key, arguments...); };
    if (!detail::may_be_capturing_anywhere()) {
      detail::cached_graph* graph = nullptr;
      switch (core_->fast(call, stream.stream, graph)) {
        case detail::cache_core::route::launch: {
          cudaError_t const status = cudaGraphLaunch(graph->exec, stream.stream.get());
          detail::cache_core::release(*graph);
          if (status == cudaSuccess) return graph_step::replayed;
          return core_->launch_failed(call, stream.stream, graph, graph_step::replayed, status,
                                      step, stream.where);
        }
        case detail::cache_core::route::eager:
          if constexpr (call_type::takes_stream || call_type::takes_stream_and_key) {
            call_type::run(f, stream.stream, key, arguments...);
          } else {
            capture_scope scope{stream.stream, capture_scope::without_capture{}};
            step(scope);
            scope.join_all(stream.where);
          }
          return graph_step::eager;
        case detail::cache_core::route::slow:
          break;
      }
    }
    return core_->run(call, stream.stream, step, stream.where);
  }

  /// Captures and instantiates the graph of one key, and uploads it, without running the step, so
  /// that no call of run() with these arguments captures. The cost gate still runs some of the
  /// first calls eagerly, to compare; without it (cost_gate(false)) the first call replays. Pass
  /// the same function object, since another lambda is another key.
  /// @param stream     as run(), but not the legacy default stream, and not capturing
  /// @param key        as run()
  /// @param f          as run(); libraries that it uses must have been initialised
  /// @param arguments  as run()
  /// @return captured, updated or rebuilt; replayed, if the graph existed already; eager, if it was
  ///   not made: there are max_shapes() keys, or the step cannot be captured (statistics())
  /// @throws std::invalid_argument  for a stream that cannot be captured
  /// @throws as run()
  /// **Stream:** an upload is ordered on `stream`; does not block. **Capture:** not legal.
  template <class F, class... Arguments>
  graph_step prewarm(detail::stream_argument stream, shape_key const& key, F&& f,
                     Arguments&&... arguments) {
    using function = std::remove_reference_t<F>;
    using call_type = detail::step_call<function, std::remove_reference_t<Arguments>...>;
    using words_of = detail::call_words<function, std::remove_reference_t<Arguments>...>;
    auto const words = words_of::of(f, arguments...);
    detail::cache_call const call{key, words_of::tag(), {words.data(), decltype(words)::count}};
    auto const step = [&](capture_scope& scope) { call_type::run(f, scope, key, arguments...); };
    return core_->prewarm(call, stream.stream, step, stream.where);
  }

  /// As prewarm() of each key of a list, with the same arguments: for functions that take the key.
  /// List the largest first, so that later ones find room in a pool.
  /// @param keys  a container of shape_key with begin() and end()
  /// @return the number of keys that had or got a graph; the budgets may have evicted some again
  /// @throws as prewarm()
  template <class Keys, class F, class... Arguments,
            class = decltype(shape_key(*static_cast<Keys const*>(nullptr)->begin())),
            class = std::enable_if_t<!std::is_convertible_v<Keys const&, shape_key>>>
  std::size_t prewarm(detail::stream_argument stream, Keys const& keys, F&& f,
                      Arguments&&... arguments) {
    std::size_t made = 0;
    for (shape_key const& key : keys) {
      graph_step const done = prewarm(stream, key, f, arguments...);
      made += done != graph_step::eager ? 1 : 0;
    }
    return made;
  }

  /// Destroys the graphs of the least recently used keys.
  /// @param bytes  those of the remaining keys need at most so much memory, as estimated; 0: all go
  /// **Stream:** does not block: running graphs are destroyed later.
  void trim(std::size_t bytes) noexcept { core_->trim(bytes); }
  /// Destroys all graphs, and forgets all keys and statistics.
  /// @pre no call on the cache is running, neither of another thread nor the one that called f
  /// **Stream:** does not block: CUDA destroys running graphs when they have completed.
  void clear() noexcept { core_->clear(); }

  /// Returns what was counted and measured, for all keys and each.
  /// **Threads:** any. **Cost:** allocates; a copy of all figures.
  [[nodiscard]] graph_cache_statistics statistics() { return core_->statistics(); }
  /// @return the options of construction
  [[nodiscard]] graph_cache_options const& options() const noexcept { return options_; }

 private:
  graph_cache_options options_;
  detail::process_bound<detail::cache_core> core_;
};

WARPWRIGHT_END
