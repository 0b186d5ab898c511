// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Evaluates several reductions in one pass over memory, as one kernel.
//
// Results are the same bits in every run: nothing depends on timing, on the device's load or on its
// number of SMs. The order of additions follows from n, from the types, from what else is in the
// pass, and from where the arrays lie relative to 16 bytes and whether they are one. The host
// runtime combines in the same order; where an expression multiplies, a GPU may round less often
// (fused multiply-add).
#pragma once

#include <warpwright/kernel/detail/matrix.hpp>
#include <warpwright/kernel/detail/reduce_pass.hpp>
#include <warpwright/kernel/reductions.hpp>

WARPWRIGHT_BEGIN

namespace ew {

/// How many elements a reduction takes: a number converts to it, and the caller's place with it.
struct elements {
  std::uint64_t count;
  source_location where;
  elements(std::uint64_t n, source_location caller = source_location::current())
      : count{n}, where{caller} {}
  /// @throws std::invalid_argument  for a negative number
  template <class Integer, class = std::enable_if_t<std::is_arithmetic<Integer>::value>>
  elements(Integer n, source_location caller = source_location::current())
      : elements{detail::length_of("reduction", "elements", n, caller), caller} {
    static_assert(std::is_integral<Integer>::value,
                  "warpwright::ew::reduce: a number of elements is an integer");
  }
};

/// What assigning a reduction to to() returns, and reduce() evaluates.
template <class T, class K, class E>
using reduction_goal = detail::goal<T, K, E>;

/// What to() returns: assign a reduction to it.
template <class T>
class reduction_target {
 public:
  explicit reduction_target(T* data) : data_{data} {}
  reduction_target(reduction_target const&) = default;
  reduction_target& operator=(reduction_target const&) = delete;

  /// *data becomes the reduction's result, converted as by cast().
  template <class K, class E>
  [[nodiscard]] reduction_goal<T, K, E> operator=(reduction<K, E> const& r) const {
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
/// @param data  one element of device memory; it is written when the stream gets there
template <class T>
[[nodiscard]] reduction_target<T> to(T* data) {
  static_assert(!std::is_const<T>::value,
                "warpwright::ew::to: the pointer is to const; a result must be writable");
  return reduction_target<T>{data};
}

/// Results on the host, in the order in which they were asked for: `auto [a, b] = ew::reduce(...)`.
template <class... R>
struct reduced {
  detail::pack<R...> all;
  /// @return the I-th result, from 0
  template <std::size_t I>
  [[nodiscard]] auto get() const {
    return detail::at<I>(all);
  }
};

namespace detail {

inline constexpr std::size_t workspace_head_bytes = 2048;  // tickets: of each tile of reduce_cols()

template <class R>
struct natural;  // a reduction's result in the type that it has of itself
template <class K, class E>
struct natural<reduction<K, E>> {
  using type = typename K::template result<value_t<E>>;
  using goal = detail::goal<type, K, E>;
};
template <class T, class K, class E>
struct natural<goal<T, K, E>> {
  using type = typename K::template result<value_t<E>>;
  using goal = detail::goal<type, K, E>;
};

constexpr std::size_t whole_sixteens(std::size_t bytes) { return (bytes + 15) / 16 * 16; }

// The workspace: the ticket, the blocks' states, and results on their way to the host.
template <class... R>
struct workspace_layout {
  using states = typename one_pass<false, typename natural<R>::goal...>::states;
  using results = pack<typename natural<R>::type...>;
  static_assert(alignof(results) <= 16,
                "warpwright::ew::reduce: a result may want an alignment of "
                "16 bytes at most");
  static constexpr std::size_t states_bytes = whole_sixteens(reduce_blocks * sizeof(states));
  static constexpr std::size_t results_at = workspace_head_bytes + states_bytes;
  static constexpr std::size_t bytes = results_at + whole_sixteens(sizeof(results));
};

}  // namespace detail

/// Device memory that reduce() works in, prepared by prepare_workspace(). Does not own it.
class reduction_workspace {
 public:
  /// @return the memory given to prepare_workspace()
  [[nodiscard]] void* data() const noexcept { return data_; }
  /// @return its size in bytes
  [[nodiscard]] std::size_t size_bytes() const noexcept { return bytes_; }

 private:
  friend reduction_workspace prepare_workspace(stream_ref, void*, std::size_t, source_location);
  reduction_workspace(void* data, std::size_t bytes) : data_{data}, bytes_{bytes} {}
  void* data_;
  std::size_t bytes_;
};

/// The size of the workspace that some reductions want, in bytes: for any number of elements, some
/// 10 KB for each reduction.
/// @param r  reductions, or assignments of reductions, as reduce() is given them
template <class... R>
[[nodiscard]] constexpr std::size_t reduction_workspace_bytes(R const&...) {
  return detail::workspace_layout<R...>::bytes;
}

/// Makes a workspace of device memory, once for any number of reduce() after each other.
/// @pre the memory stays alive, and untouched by others, while it is used
/// @param stream  the first reduce() is on this stream, or ordered behind it
/// @param data    aligned to 16 bytes
/// @param bytes   reduction_workspace_bytes() or more
/// @throws std::invalid_argument  for a null or odd pointer, or fewer than 2048 bytes
/// @throws cuda_error             when the memset fails
/// **Stream:** a memset of a few bytes, ordered on `stream`; does not block. **Threads:** any.
/// **Capture:** legal; the graph then prepares the workspace at every launch.
inline reduction_workspace prepare_workspace(stream_ref stream, void* data, std::size_t bytes,
                                             source_location where = source_location::current()) {
  using warpwright::detail::text;
  auto const address = reinterpret_cast<std::uintptr_t>(data);
  if (address == 0) {
    warpwright::detail::throw_invalid_argument(
        text{"ew: the workspace is a null pointer; pass device memory"}, where);
  }
  if (address % 16 != 0) {
    warpwright::detail::throw_invalid_argument(
        text{"ew: the workspace is at address "} + address + ", not a multiple of 16 bytes", where);
  }
  if (bytes < detail::workspace_head_bytes) {
    warpwright::detail::throw_invalid_argument(
        text{"ew: the workspace has "} + bytes +
            " bytes; give it 2048 or more, as many as reduction_workspace_bytes() or its like say",
        where);
  }
  check(cudaMemsetAsync(data, 0, detail::workspace_head_bytes, stream.get()), "cudaMemsetAsync",
        where);
  return {data, bytes};
}

namespace detail {

// What is the same for every call: checks of the workspace and of the results' places.
struct place {
  std::uint64_t address;
  std::uint64_t bytes;
  std::uint64_t alignment;
};
inline void check_places(place const* places, int count, std::uint64_t workspace,
                         std::uint64_t workspace_bytes, source_location where) {
  auto const refuse_place = [&](int k, text const& problem) {
    warpwright::detail::throw_invalid_argument(text{"ew: result "} + (k + 1) + " " + problem,
                                               where);
  };
  for (int k = 0; k < count; ++k) {
    place const& p = places[k];
    if (p.address == 0) refuse_place(k, "goes to a null pointer; pass device memory");
    if (p.address % p.alignment != 0) {
      refuse_place(k, text{"goes to address "} + p.address + ", not a multiple of its type's " +
                          p.alignment + " bytes; pass a pointer to whole elements of it");
    }
    bool const behind = p.address >= workspace && p.address - workspace >= workspace_bytes;
    if (!behind && workspace < p.address + p.bytes) {
      refuse_place(k, "goes into the workspace; pass other memory");
    }
    for (int other = 0; other < k; ++other) {
      place const& q = places[other];
      if (p.address < q.address + q.bytes && q.address < p.address + p.bytes) {
        refuse_place(k,
                     text{"goes where result "} + (other + 1) + " does; give each its own memory");
      }
    }
  }
}
inline void check_workspace(std::size_t has, std::size_t wants, source_location where,
                            char const* told_by = "reduction_workspace_bytes()") {
  if (has >= wants) return;
  warpwright::detail::throw_invalid_argument(text{"ew: the workspace has "} + has +
                                                 " bytes, but these reductions want " + wants +
                                                 "; " + told_by + " says how many",
                                             where);
}

template <class T, class K, class E>
place place_of(goal<T, K, E> const& g, std::uint64_t count) {
  return {reinterpret_cast<std::uintptr_t>(g.data), count * sizeof(bits_of<T>),
          alignof(bits_of<T>)};
}

template <class... Goal>
auto whole_expression(Goal const&... g) {
  return make_call<as_they_are>(gathered{}, g.expression...);
}

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

// Calls how(pass, operands) with the pass that the arrays make possible.
template <class How, class... Goal>
void run_reduction(How const& how, elements const& n, Goal const&... g) {
  using pass = one_pass<false, Goal...>;
  operand all[pass::operands];
  pass::describe(whole_expression(g...), n.count, all, n.where);
  if constexpr (may_be_alike<typename pass::whole>) {
    void const* const shared = n.count == 0 ? nullptr : shared_address(all, pass::operands);
    if (shared != nullptr) {
      using alike = one_pass<true, Goal...>;
      how(alike{whole_expression(g...), {{g.kind}...}, {{g.data}...}, n.count, shared}, all);
      return;
    }
  }
  how(pass{whole_expression(g...), {{g.kind}...}, {{g.data}...}, n.count, nullptr}, all);
}

template <class Pass>
schedule deal_out(operand const* operands, std::uint64_t n) {
  if (n == 0) return {};
  return make_plan(operands, Pass::operands, n, Pass::vector, Pass::vectors).deal;
}

struct on_calling_thread {
  template <class Pass>
  void operator()(Pass const& pass, operand const* operands) const {
    schedule const deal = deal_out<Pass>(operands, pass.n);
    pass.run_grid(deal, blocks_for(deal.vectors));
  }
};

struct on_stream {
  stream_ref stream;
  void* workspace;
  source_location where;

  template <class Pass>
  void operator()(Pass const& pass, operand const* operands) const {
#if defined(__CUDACC__) || WARPWRIGHT_HOST_RUNTIME
    static_assert(sizeof(Pass) <= 3072,
                  "warpwright::ew::reduce: the expressions' numbers and functions take more than a "
                  "kernel's arguments can hold; pass them by pointer or split the pass");
    schedule const deal = deal_out<Pass>(operands, pass.n);
    unsigned const blocks = blocks_for(deal.vectors);
#if defined(__CUDACC__)
    auto* const of_block = reinterpret_cast<typename Pass::states*>(
        static_cast<unsigned char*>(workspace) + workspace_head_bytes);
    warpwright::detail::launch_kernel<Pass>(&reduce_kernel<Pass>, dim3{blocks},
                                            dim3{reduce_threads}, 0, stream, where, pass, deal,
                                            static_cast<unsigned*>(workspace), of_block);
#else
    warpwright::detail::launch_host(stream, "warpwright::ew::reduce", 1,
                                    reduce_body<Pass>{pass, deal, blocks}, where);
#endif
#else
    static_cast<void>(pass), static_cast<void>(operands);
    static_assert(
        warpwright::detail::always_false<Pass>,
        "warpwright::ew::reduce needs a kernel: compile this file with nvcc (name it .cu), or "
        "link warpwright::host_runtime to run without a GPU");
#endif
  }
};

// Evaluates into the workspace at `there` and copies the results to the host.
template <class Results, std::size_t... Index, class... R>
auto fetch_reduction(on_stream const& how, elements const& n, Results* there,
                     std::index_sequence<Index...>, R const&... reductions) {
  run_reduction(how, n,
                typename natural<R>::goal{
                    reinterpret_cast<bits_of<typename natural<R>::type>*>(&at<Index>(*there)),
                    reductions.kind, reductions.expression}...);
  reduced<typename natural<R>::type...> here;
  check(
      cudaMemcpyAsync(&here.all, there, sizeof(Results), cudaMemcpyDeviceToHost, how.stream.get()),
      "cudaMemcpyAsync", n.where);
  how.stream.synchronize(n.where);
  if constexpr (sizeof...(R) == 1) {
    return here.template get<0>();
  } else {
    return here;
  }
}

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE

// A block of a pool for one reduction, given back on the stream whatever happens.
template <class Pool>
class pool_block {
 public:
  pool_block(Pool& pool, stream_ref stream, std::size_t bytes, source_location where)
      : pool_{pool}, stream_{stream}, bytes_{bytes}, data_{allocate(where, 0)} {}
  pool_block(pool_block const&) = delete;
  pool_block& operator=(pool_block const&) = delete;
  ~pool_block() {
    try {
      pool_.deallocate(stream_, data_, bytes_);
    } catch (...) {  // as device_buffer: what failed before it says more
    }
  }
  [[nodiscard]] void* data() const { return data_; }

 private:
  // With the caller's place where the pool takes one, as ours do.
  template <class P = Pool>
  auto allocate(source_location where, int)
      -> decltype(std::declval<P&>().allocate(std::declval<stream_ref>(), 1U,
                                              P::block_alignment_bytes, where)) {
    return pool_.allocate(stream_, bytes_, P::block_alignment_bytes, where);
  }
  void* allocate(source_location, long) { return pool_.allocate(stream_, bytes_); }

  Pool& pool_;
  stream_ref stream_;
  std::size_t bytes_;
  void* data_;
};

template <class Pool>
using if_pool = decltype(std::declval<Pool&>().deallocate(
    std::declval<stream_ref>(), std::declval<Pool&>().allocate(std::declval<stream_ref>(), 1U),
    1U));

}  // namespace detail

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

/// Evaluates several reductions in one pass, as one kernel; the results stay on the device.
///
/// Arrays may be misaligned to any element, as for run(). A result may lie in an array that is
/// read. With n = 0 every result is that of no elements.
/// @pre all memory can be reached from the stream's device and stays alive until it has passed it
/// @param stream     the stream to run on
/// @param workspace  not in use by a reduction on another stream; a graph's replays count as
/// theirs;
///   not among what is read, which is not checked
/// @param n          number of elements of every expression, up to 2^59
/// @param goals      `to(pointer) = reduction`, copied at the call
/// @throws std::invalid_argument  for operands that do not fit, as run() does; for a workspace that
///   is too small, and for a null or odd result pointer, or one into the workspace or another
///   result
/// @throws cuda_error             when the launch fails
/// **Stream:** one kernel, ordered on `stream`; does not block.
/// **Threads:** any, one at a time for one workspace. **Capture:** legal.
/// **Cost:** one kernel launch, no allocation.
/// Compiled for architectures both below and from 9.0, a launch also calls cudaGetDevice, and the
/// first of a kernel on a device cudaFuncGetAttributes.
template <class... T, class... K, class... E>
void reduce(stream_ref stream, reduction_workspace const& workspace, elements n,
            reduction_goal<T, K, E> const&... goals) {
  static_assert(sizeof...(goals) > 0, "warpwright::ew::reduce: name at least one reduction");
  detail::place const places[] = {detail::place_of(goals, 1)...};
  detail::check_workspace(workspace.size_bytes(),
                          detail::workspace_layout<reduction_goal<T, K, E>...>::bytes, n.where);
  detail::check_places(places, sizeof...(goals), reinterpret_cast<std::uintptr_t>(workspace.data()),
                       workspace.size_bytes(), n.where);
  detail::run_reduction(detail::on_stream{stream, workspace.data(), n.where}, n, goals...);
}

/// The same with a workspace from a pool: a memory_pool, or anything with allocate(stream, bytes)
/// and deallocate(stream, pointer, bytes).
/// **Capture:** as the pool's.
/// **Cost:** one allocation, one memset of a few bytes, one kernel launch.
template <class Pool, class... T, class... K, class... E, class = detail::if_pool<Pool>>
void reduce(stream_ref stream, Pool& pool, elements n, reduction_goal<T, K, E> const&... goals) {
  constexpr std::size_t bytes = detail::workspace_layout<reduction_goal<T, K, E>...>::bytes;
  detail::pool_block<Pool> const block{pool, stream, bytes, n.where};
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
  auto* const there = reinterpret_cast<results*>(static_cast<unsigned char*>(workspace.data()) +
                                                 layout::results_at);
  return detail::fetch_reduction(detail::on_stream{stream, workspace.data(), n.where}, n, there,
                                 std::index_sequence_for<E...>{}, reductions...);
}

/// The same with a workspace from a pool.
template <class Pool, class... K, class... E, class = detail::if_pool<Pool>>
[[nodiscard]] auto reduce(stream_ref stream, Pool& pool, elements n,
                          reduction<K, E> const&... reductions) {
  constexpr std::size_t bytes = detail::workspace_layout<reduction<K, E>...>::bytes;
  detail::pool_block<Pool> const block{pool, stream, bytes, n.where};
  return reduce(stream, prepare_workspace(stream, block.data(), bytes, n.where), n, reductions...);
}

/// Evaluates several reductions on the calling thread, over arrays in host memory, in the order in
/// which a GPU would.
/// @param n      number of elements
/// @param goals  `to(pointer) = reduction`
/// @throws std::invalid_argument  as reduce() does
/// **Threads:** any.
template <class... T, class... K, class... E>
void reduce_host(elements n, reduction_goal<T, K, E> const&... goals) {
  detail::place const places[] = {detail::place_of(goals, 1)...};
  detail::check_places(places, sizeof...(goals), 0, 0, n.where);
  detail::run_reduction(detail::on_calling_thread{}, n, goals...);
}
/// Reductions without a place for their results; refused at compile time.
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
template <size_t I, class... R>
struct tuple_element<I, warpwright::ew::reduced<R...>> {
  using type = decltype(declval<warpwright::ew::reduced<R...>>().template get<I>());
};
}  // namespace std
