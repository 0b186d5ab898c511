// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The kernel of run_each(): a function called with every element of the tensors of a list.
#pragma once

#include <warpwright/core/launch.hpp>
#include <warpwright/kernel/detail/tensors/tensor_arrays.hpp>

WARPWRIGHT_BEGIN

namespace ew::detail {

// What a function must provide: multi_tensor.hpp documents it at run_each().
template <class F, class = void>
inline constexpr bool has_prepare = false;
template <class F>
inline constexpr bool has_prepare<F, std::void_t<decltype(std::declval<F&>().prepare())>> = true;

WARPWRIGHT_NO_EXEC_CHECK
template <class F>
WARPWRIGHT_HOST_DEVICE bool call_prepare([[maybe_unused]] F& f) {
  if constexpr (has_prepare<F>) {
    static_assert(std::is_same<decltype(f.prepare()), bool>::value,
                  "warpwright::ew::run_each: prepare() must return bool: false leaves all tensors "
                  "as they are");
    return f.prepare();
  } else {
    return true;
  }
}

// Whether F takes array `Which` by reference, so that what it assigns is stored.
template <class F, std::size_t Which, class... S, std::size_t... Index>
constexpr bool takes_reference(std::index_sequence<Index...>) {
  return !is_callable<F,
                      std::conditional_t<Which == Index, element_value<S>, element_argument<S>>...>;
}
template <class F, class... S, std::size_t... Index>
constexpr bool takes_references(std::index_sequence<Index...> all) {
  return ((!array_kind<S>::writes || takes_reference<F, Index, S...>(all)) && ...);
}

template <class F, class... S>
constexpr bool check_function() {
  static_assert(is_extended_lambda<F> || std::is_trivially_copyable<F>::value,
                "warpwright::ew::run_each: the function must be trivially copyable, as a kernel's "
                "argument is: hold pointers and numbers, not containers");
  static_assert(sizeof(F) <= table_function_bytes && alignof(F) <= 16,
                "warpwright::ew::run_each: the function takes more than 1000 bytes, or an "
                "alignment past 16, beside the list in a kernel's arguments; pass what it holds by "
                "pointer");
  if constexpr (!is_extended_lambda<F>) {
    constexpr bool callable = is_callable<F, element_argument<S>...>;
    static_assert(callable,
                  "warpwright::ew::run_each: the function cannot be called with one element of "
                  "each array; its operator() must be const, elements of const arrays are const, "
                  "and 16-bit and 8-bit floats are float");
    static_assert(!callable || takes_references<F, S...>(std::index_sequence_for<S...>{}),
                  "warpwright::ew::run_each: the function takes an array that is written by value, "
                  "so that nothing would change; take a reference, or list the array as const");
  }
  return true;
}

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

// A block takes one chunk.
template <class Arrays, class F>
struct update_kernel : warpwright::detail::kernel_base<table_threads> {
  static constexpr std::size_t max_bytes = table_kernel_bytes;
  static constexpr bool subscripts_arguments = true;

  typename Arrays::table table;
  F function;

  explicit update_kernel(F const& f) : function(f) {}

  template <class Block>
  WARPWRIGHT_HOST_DEVICE void operator()(Block& block) const {
    block.for_each_thread([&](unsigned t) { update(block.index(), function, t); });
  }

 private:
  // All loads of a tile are issued before the first is used, and before what prepare() waits for.
  WARPWRIGHT_HOST_DEVICE void update(unsigned index, F f, unsigned t) const {
    constexpr unsigned vector = Arrays::vector;
    chunk_location<Arrays> const chunk{table, table.tensor_of(index), index};
    bool ready = false;
    for (unsigned v = t; v < chunk.count; v += Arrays::tile) {
      c_array<typename Arrays::template registers<vector>, Arrays::vectors> r
          WARPWRIGHT_ZERO_ON_HOST;
      chunk.load(r, v);
      if (!ready && !call_prepare(f)) return;
      ready = true;
      WARPWRIGHT_UNROLL
      for (unsigned u = 0; u < Arrays::vectors; ++u) {
        unsigned const i = v + u * table_threads;
        if (i >= chunk.count) continue;
        Arrays::template update<vector>(f, r[u], chunk.data, i * vector, chunk.wide);
      }
    }
    if (t < chunk.edge) {
      if (!ready && !call_prepare(f)) return;
      std::uint64_t const i = chunk.edge_element(t);
      typename Arrays::template registers<1> r;
      Arrays::template load<1>(r, chunk.start, i, 0);
      Arrays::template update<1>(f, r, chunk.start, i, 0);
    }
  }
};

template <class Where, class F, class... S, class Access = list_access>
void update_tensors(Where const& run, tensor_list<S...> const& list, F const& function) {
  static_assert(check_function<F, S...>());
  using arrays = tensor_arrays<S...>;
  auto const& all = Access::tensors(list);
  std::uint64_t const chunk = chunk_for(all.begin(), all.size(), arrays::vector, arrays::tile);
  for (std::size_t next = 0; next != all.size();) {
    update_kernel<arrays, F> kernel{function};
    next = fill_table(kernel.table, all.begin(), next, all.size(), arrays::vector, chunk);
    if (kernel.table.count == 0) return;
    clear_unused_if_capturing(kernel.table);
    run(kernel.table.chunks, table_threads, kernel, "warpwright::ew::run_each");
  }
}

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE

template <class T>
struct cast_elements {
  template <class To, class From>
  WARPWRIGHT_HOST_DEVICE void operator()(To& to, From const& from) const {
    to = prepare_encode<T>(from);
  }
};

template <class T>
struct unscale_elements {
  float const* scale;
  float* found_inf;
  float factor;
  WARPWRIGHT_HOST_DEVICE bool prepare() {
    factor = 1.0F / *scale;
    return true;
  }
  template <class V>
  WARPWRIGHT_HOST_DEVICE void operator()(V& gradient) const {
    using traits = element_traits<T>;
    gradient *= static_cast<V>(factor);
    // As it is stored: that may be infinite where V is not; but fp8 saturates what is infinite.
    V const checked = is_8_bit_float<T> ? gradient : traits::decode(traits::encode(gradient));
    if (!(checked - checked == V{0})) *found_inf = 1.0F;
  }
};
template <class T>
unscale_elements<T> make_unscale_function(float const* scale, float* found_inf,
                                          source_location where) {
  static_assert(std::is_floating_point<typename element_traits<T>::value>::value,
                "warpwright::ew::unscale_each: gradients are of floating point");
  auto const check_number = [&](float const* number, char const* name) {
    auto const address = reinterpret_cast<std::uintptr_t>(number);
    check_address(
        address, alignof(float), 0, [&] { return text{name}; }, where);
  };
  check_number(scale, "the scale");
  check_number(found_inf, "the flag");
  return {scale, found_inf, 0.0F};
}

}  // namespace ew::detail

WARPWRIGHT_END
