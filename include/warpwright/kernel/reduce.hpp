// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Reductions of elementwise expressions, several of them in one pass over memory, as one kernel.
//
//   auto const x = ew::in(p, n);
//   ew::reduce(stream, workspace, n, ew::to(energy) = ew::sum(x * x),
//              ew::to(peak) = ew::max(ew::abs(x)), ew::to(bad) = ew::count_nonfinite(x));
//
// A result may be an expression of reductions, see reduction_target, or be added to what is there:
// `to(p) = sqrt(sum(x * x)) / 2`, `to(p) += sum(x)`.
//
// Sums. Floating point is added in the expression's own type, float for 16-bit floats, and integers
// in 64 bits, wrapping. A thread adds up to 64 elements pairwise, and such sums one after the
// other; threads and blocks combine in trees. reduce()'s error is within (n / 2,000,000 + 40) *
// 2^-24 times the sum of the absolute values for one reduction of one float or 16-bit array, and (n
// / 1,000,000 + 40) * 2^-53 for double; with several arrays or many reductions fewer elements are
// added pairwise: n / 130,000 + 40 at worst. reduce_rows() has fewer threads for a row: cols /
// 2,000 + 40, and cols / 128 + 40 at worst. .in<double>() adds in double. .compensated() carries
// the rounding errors along: one rounding of the result, plus n * 2^-48 of the absolute values' sum
// (2^-106 for double).
//
// Results are the same bits in every run: nothing depends on timing, on the device's load or on its
// number of SMs. The order of additions follows from n, from the types, from the other reductions
// of the pass, from the arrays' addresses modulo 16, and from whether they are one array. The host
// runtime combines in the same order; a GPU may round less often (fused multiply-add).
#pragma once

#include <warpwright/core/detail/device/scoped_stream_device.hpp>
#include <warpwright/kernel/detail/reduce/reduction_pass.hpp>
#include <warpwright/kernel/functions.hpp>

WARPWRIGHT_BEGIN

namespace ew {

/// What sum(), max() and the others return: a reduction of one expression, not yet evaluated.
template <class K, class E>
struct reduction {
  using expression_tag = void;
  static constexpr int operands = 1, widest_bytes = 1, loaded_bytes = 0;  // no array, but a number
  static constexpr bool weak = false;
  template <class C>
  using value_type = detail::computed_t<C, typename K::template result<detail::value_t<E>>>;
  template <int V>
  using registers = detail::pack<value_type<void>>;

  K kind;
  E expression;

  template <int V, int First, class Index>
  WARPWRIGHT_HOST_DEVICE void load(registers<V>& r, Index const& i, std::uint64_t) const {
    detail::load_result<First, reduction>(r, i);
  }
  template <class C, int V>
  WARPWRIGHT_HOST_DEVICE value_type<C> value(registers<V> const& r, int, std::uint64_t) const {
    return detail::convert<value_type<C>>(detail::at<0>(r));
  }
  template <int V, class Operand>
  void describe(Operand*& next) const {
    (*next++).kind = detail::access_pattern::absent;
  }

  /// The same, added up in type A: double, for one. For sum(), mean() and norm().
  template <class A>
  [[nodiscard]] constexpr auto in() const {
    static_assert(K::is_total, "warpwright::ew: in<A>() is for sum(), mean() and norm()");
    static_assert(
        std::is_arithmetic<A>::value && sizeof(A) >= 4 && !std::is_same<A, long double>::value,
        "warpwright::ew: in<A>() requires float, double, or an integer of 32 or 64 bits");
    return reduction<typename K::template with_accumulator<A>, E>{{}, expression};
  }
  /// The same with the rounding error of every addition carried along. For sum(), mean() and norm()
  /// in floating point; requires a compiler without -ffast-math.
  [[nodiscard]] constexpr auto compensated() const {
    static_assert(K::is_total, "warpwright::ew: compensated() is for sum(), mean() and norm()");
    return reduction<typename K::with_compensation, E>{{}, expression};
  }
};

namespace detail {

template <class K, class X>
constexpr reduction<K, X> make_reduction(X const& x) {
  static_assert(
      is_number<value_t<X>> || (K::is_total && is_complex<value_t<X>>),
      "warpwright::ew: this reduction is of real numbers: take real(), imag() or abs() of "
      "complex ones; for a type of your own, use fold()");
  return {K{}, x};
}

}  // namespace detail

#define WARPWRIGHT_REDUCTION(name, ...)                    \
  template <class X, class = detail::if_expression<X>>     \
  [[nodiscard]] constexpr auto(name)(X const& x) {         \
    return detail::make_reduction<detail::__VA_ARGS__>(x); \
  }
/// The sum; 0 of no elements. Integers are added in 64 bits; of complex numbers the real and the
/// imaginary parts are added separately, and the result is a complex number of float.
WARPWRIGHT_REDUCTION(sum, summing<detail::total::sum, void, false>)
/// The mean: sum / n, divided in double; NaN of no elements. Of integers a double, else as sum().
WARPWRIGHT_REDUCTION(mean, summing<detail::total::mean, void, false>)
/// The 2-norm, the root of the sum of squares; 0 of no elements.
///
/// The squares are not scaled: in float, those of elements beyond 1.8e19 overflow and those of
/// elements below 1e-23 are 0; use .in<double>() there. Of integers it is computed in double; of
/// complex numbers it is real.
WARPWRIGHT_REDUCTION(norm, summing<detail::total::norm, void, false>)
/// The smallest value; NaN if any is; infinity, or the type's largest, of no elements.
/// Of -0 and +0 it is either.
WARPWRIGHT_REDUCTION(min, extreme<true>)
/// As min(), the largest value; -infinity, or the type's smallest, of no elements.
WARPWRIGHT_REDUCTION(max, extreme<false>)
/// The smallest value and the lowest index that has it, as a located; into an integer, the index
/// alone. NaN is ordered before all numbers. Of no elements the index is no_index.
WARPWRIGHT_REDUCTION(argmin, arg_extreme<true>)
/// As argmin(), of the largest value.
WARPWRIGHT_REDUCTION(argmax, arg_extreme<false>)
/// The logarithm of the sum of exp(x), without overflow: in double for double, else in float.
/// -infinity of no elements and of -infinity alone, which adds nothing to others; NaN if any
/// element is NaN or +infinity, as softmax()'s log_sum_exp(). With c the number in sum()'s bound
/// above, the error is within 7 c * 2^-24 and 2^-22 times the result and what it exceeds the
/// maximum by (2^-53, 2^-51 in double). **Cost:** an exponential an element.
WARPWRIGHT_REDUCTION(log_sum_exp, log_sum_exp_kind)
/// The mean of the squared differences from the mean (over n, not n - 1), combined from those of
/// parts, never a difference of sums: 0 of equal values; in float for floats of up to 32 bits, else
/// in double. NaN of no elements, and if one is NaN or infinite; differences beyond 1.8e19
/// overflow. With v the variance and u = c * 2^-24, c the number in sum()'s bound above, the error
/// is within 8 u (v + sqrt(v) m + u m^2), m being the largest |x| (2^-53 in double).
WARPWRIGHT_REDUCTION(variance, variance_kind)
/// The number of elements where the condition holds, as std::uint64_t.
WARPWRIGHT_REDUCTION(count_if, counting<detail::is_true>)
#undef WARPWRIGHT_REDUCTION
/// The number of infinities and NaNs, as std::uint64_t; of complex numbers, of those with one.
template <class X, class = detail::if_expression<X>>
[[nodiscard]] constexpr auto count_nonfinite(X const& x) {
  using value = detail::value_t<X>;
  static_assert(std::is_floating_point<value>::value || detail::is_complex<value>,
                "warpwright::ew::count_nonfinite: integers are always finite");
  return reduction<detail::counting<detail::is_not_finite>, X>{{}, x};
}

/// A reduction of your own: `function(function(a, b), c)` and so on, over all elements.
/// @pre F is trivially copyable with a const `WARPWRIGHT_HOST_DEVICE T operator()(T, T)`; it is
///   associative and commutative, and returns the other argument when one is `identity`
/// @param x         of numbers, or of T
/// @param identity  the initial state, and the result of no elements; trivially copyable
/// @param function  copied into the kernel's arguments
template <class X, class T, class F, class = detail::if_expression<X>>
[[nodiscard]] constexpr auto fold(X const& x, T const& identity, F const& function) {
  static_assert(detail::is_element<T>() && !detail::is_small_float<T>,
                "warpwright::ew::fold: the identity's type must be trivially copyable and default "
                "constructible; 16-bit floats are computed as float");
  static_assert(std::is_same<detail::value_t<X>, T>::value ||
                    (detail::is_number<detail::value_t<X>> && detail::is_number<T>),
                "warpwright::ew::fold: the elements must be numbers, or of the identity's type");
  static_assert(detail::is_extended_lambda<F> || std::is_trivially_copyable<F>::value,
                "warpwright::ew::fold: the function must be trivially copyable, as a kernel's "
                "argument is: hold pointers and numbers, not containers");
  static_assert(detail::is_extended_lambda<F> || detail::is_callable<F, T, T>,
                "warpwright::ew::fold: the function cannot be called with two of the identity's "
                "type; its operator() must be const");
  return reduction<detail::folding<T, F>, X>{{{}, identity, function}, x};
}

/// What assigning a reduction to to() returns, and reduce() evaluates.
template <class T, class K, class E>
using reduction_assignment = detail::reduction_assignment<T, K, E>;

/// What to() returns: assign a reduction, or an expression of reductions; += and the like update
/// what is there. Beside reductions may stand numbers, `device_scalar(p)` and `in(q, rows)`, whose
/// element k goes with result k (of reduce() there is one); what is of elements, as row(), stands
/// below a reduction. These are read before any result is written: each may be exactly in place of
/// a result, and must not overlap one otherwise. A reduction has its own type, and is no plain
/// number: types combine as everywhere.
template <class T>
class reduction_target : public detail::updated_output<reduction_target<T>> {
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
  /// The same with an expression of reductions: `to(p) = sqrt(sum(x * x)) / sum(y)`.
  template <class X>
  [[nodiscard]] auto operator=(X const& x) const {
    return *this = detail::as_reduction(x);
  }

 private:
  friend detail::updated_output<reduction_target>;
  [[nodiscard]] input<T> itself() const { return ew::in(data_, 0); }  // in place: of any size
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
/// @param r  what is passed to reduce(): reductions, expressions of them, or assignments to to()
template <class... R>
[[nodiscard]] constexpr std::size_t reduction_workspace_bytes(R const&...) {
  return detail::workspace_layout<detail::as_reduction_t<R>...>::bytes;
}

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

/// Evaluates several reductions in one pass, as one kernel; the results stay on the device.
///
/// Arrays may be misaligned to any element, as for run(). A result may lie in an array that is
/// read. With n = 0 every result is that of no elements.
/// @pre all memory is accessible from the stream's device and stays alive until the kernel has run
/// @param memory     a reduction_workspace, not in use by a reduction on another stream, a graph's
///   replays included; it must not overlap an array that is read, which is not checked. Or a pool:
///   a memory_pool, or anything with allocate(stream, bytes) and deallocate(stream, pointer, bytes)
/// @param n          number of elements of every expression, up to 2^59
/// @param goals      `to(pointer) = reduction`, or as reduction_target says, copied at the call
/// @throws std::invalid_argument  for operands that do not fit, as run() does; for a workspace that
///   is too small, and for a null or misaligned result pointer, or one into the workspace or
///   another result
/// @throws cuda_error             when the launch fails
/// **Stream:** one kernel, ordered on `stream`; does not block.
/// **Threads:** any, one at a time for one workspace. **Capture:** legal where the pool's is.
/// **Cost:** one kernel launch, which calls what that of run() does; no allocation. With a pool,
/// one allocation and one memset of a few bytes before it.
template <class Memory, class... T, class... K, class... E, class = detail::if_memory<Memory>>
void reduce(stream_ref stream, Memory&& memory, elements n,
            reduction_assignment<T, K, E> const&... goals) {
  static_assert(sizeof...(goals) > 0, "warpwright::ew::reduce: name at least one reduction");
  constexpr std::size_t bytes = detail::workspace_layout<reduction_assignment<T, K, E>...>::bytes;
  detail::with_workspace(stream, memory, bytes, n.where, [&](reduction_workspace const& workspace) {
    detail::check_workspace(workspace.size_bytes(), bytes, n.where);
    detail::memory_range const results[] = {detail::range_of(goals, 1)...};
    detail::check_result_ranges(results, sizeof...(goals), workspace.data(), workspace.size_bytes(),
                                n.where);
    detail::reduce_all(detail::on_stream{stream, n.where}, workspace.data(), n, goals...);
  });
}

/// Evaluates several reductions in one pass and waits for their results.
/// @param memory, n   as above
/// @param reductions  `sum(x)` and others, and expressions of them, as reduction_target says
/// @return the result, or of several a `reduced` of all: `auto [a, b] = reduce(...)`; in the
///   reductions' own types
/// @throws std::invalid_argument, cuda_error  as above
/// **Stream:** one kernel and one small copy on `stream`, then synchronises with it.
/// **Threads:** as above. **Capture:** not legal: it waits.
template <class Memory, class... X, class = detail::if_memory<Memory>,
          class = detail::if_results<X...>>
[[nodiscard]] auto reduce(stream_ref stream, Memory&& memory, elements n, X const&... reductions) {
  using layout = detail::workspace_layout<detail::as_reduction_t<X>...>;
  return detail::with_workspace(
      stream, memory, layout::bytes, n.where, [&](reduction_workspace const& workspace) {
        detail::check_workspace(workspace.size_bytes(), layout::bytes, n.where);
        auto* const results = static_cast<unsigned char*>(workspace.data()) + layout::results_at;
        return detail::fetch_reduction(detail::on_stream{stream, n.where}, workspace.data(), n,
                                       reinterpret_cast<typename layout::results*>(results),
                                       std::index_sequence_for<X...>{},
                                       detail::as_reduction(reductions)...);
      });
}

/// Evaluates several reductions on the calling thread, over arrays in host memory, in the order in
/// which a GPU would.
/// @param n, goals  as for reduce()
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
template <class... X, class = detail::if_results<X...>>
void reduce_host(elements, X const&...) {
  static_assert(warpwright::detail::always_false<X...>,
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
