// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// One kernel over a list of tensors of any sizes, as an optimizer's step wants it: the list lies in
// the kernel's arguments, and a function of yours is called with the elements that belong together.
//
//   struct momentum {
//     float rate;
//     WARPWRIGHT_HOST_DEVICE void operator()(float& p, float& m, float g) const {
//       m = 0.9F * m + g;
//       p -= rate * m;
//     }
//   };
//   ew::tensor_list<float, float, __half const> list;  // parameters, momenta, gradients
//   for (auto& t : tensors) list.add(t.p, t.m, t.g, t.size);
//   ew::run_each(stream, list, momentum{0.1F});
//
// Elements of __half, __nv_bfloat16 and the fp8 types are computed as float, all others as
// themselves, and rounded as by cast() when they are written.
#pragma once

#include <warpwright/core/launch.hpp>
#include <warpwright/kernel/detail/tensor_arrays.hpp>

WARPWRIGHT_BEGIN

namespace ew {

namespace detail {

struct list_access;

}  // namespace detail

/// Tensors that one kernel updates together; each has the same kinds of arrays.
///
/// `tensor_list<float, float const>` has two arrays of float a tensor, the second of which is only
/// read; `write_only<T>` is only written. Build it once and keep it: a list holds addresses and
/// sizes, no elements.
/// **Threads:** one at a time changes it; many may run it.
template <class... S>
class tensor_list {
  static_assert(sizeof...(S) > 0 && sizeof...(S) <= 32,
                "warpwright::ew::tensor_list: name 1 to 32 arrays");
  static_assert((detail::is_element<detail::element_of<S>>() && ...),
                "warpwright::ew::tensor_list: the elements must be trivially copyable and default "
                "constructible, as a kernel moves them");

 public:
  /// Tensors that one launch takes; a longer list takes several.
  static constexpr std::size_t tensors_a_launch =
      detail::tensor_table<static_cast<int>(sizeof...(S))>::capacity;

  /// Adds a tensor behind the others.
  ///
  /// Arrays may be misaligned to any element: an odd one alone is moved element by element, and
  /// where all are off alike the kernel starts at the first boundary that suits them.
  /// @pre no tensor only reads what another writes; this alone is not checked
  /// @param data  one pointer for each array, to `size` elements
  /// @param size  0 is allowed, whatever the pointers
  /// @throws std::invalid_argument  for a null or odd pointer, or an array that is written and
  ///   overlaps another of the tensor, or a written one of another tensor; the text names both,
  ///   counted from 1. A written array may be exactly in place of a const one of the same element
  ///   size
  /// @throws std::bad_alloc         when host memory runs out; either way nothing has changed
  /// **Cost:** no CUDA call; grows with the logarithm of the number of tensors where their
  /// addresses ascend.
  void add(typename detail::array_kind<S>::pointer... data, std::size_t size,
           source_location where = source_location::current()) {
    constexpr int arrays = sizeof...(S);
    constexpr int vector = detail::tensor_arrays<S...>::vector;
    detail::listed_array const all[] = {
        {reinterpret_cast<std::uintptr_t>(data), sizeof(detail::element_bits<S>),
         detail::lanes<detail::element_bits<S>, vector>::aligned_bytes,
         alignof(detail::element_bits<S>), detail::array_kind<S>::writes}...};
    std::size_t const number = tensors_.size() + 1;
    detail::check_tensor(all, arrays, size, number, where);
    written_.reserve(arrays);
    for (int k = 0; size != 0 && k < arrays; ++k) {
      if (all[k].written) written_.check(all[k], k + 1, size, number, where);
    }
    detail::listed_tensor<arrays> tensor{
        {const_cast<void*>(static_cast<void const*>(data))...}, size, 0, 0};
    detail::set_moves(tensor, all, vector);
    tensors_.push_back(tensor);
    for (int k = 0; size != 0 && k < arrays; ++k) {
      if (all[k].written) written_.add(all[k], k + 1, size, number);
    }
    elements_ += size;
  }
  /// Removes all tensors.
  void clear() noexcept {
    tensors_.clear();
    written_.clear();
    elements_ = 0;
  }
  /// @return the number of tensors, empty ones included
  [[nodiscard]] std::size_t size() const noexcept { return tensors_.size(); }
  /// @return the number of elements of all tensors
  [[nodiscard]] std::uint64_t elements() const noexcept { return elements_; }

 private:
  friend struct detail::list_access;
  warpwright::detail::array<detail::listed_tensor<sizeof...(S)>> tensors_;
  detail::written_ranges written_;
  std::uint64_t elements_ = 0;
};

namespace detail {

struct list_access {
  template <class... S>
  static auto const& tensors(tensor_list<S...> const& list) {
    return list.tensors_;
  }
};

template <class T>
struct casting {
  template <class To, class From>
  WARPWRIGHT_HOST_DEVICE void operator()(To& to, From const& from) const {
    to = encodable<T>(from);
  }
};

template <class T>
struct unscaling {
  float const* scale;
  float* found_inf;
  float factor;
  WARPWRIGHT_HOST_DEVICE bool prepare() {
    factor = 1.0F / *scale;
    return true;
  }
  template <class V>
  WARPWRIGHT_HOST_DEVICE void operator()(V& gradient) const {
    gradient *= factor;
    V const kept = number<T>::decode(number<T>::encode(gradient));  // which may be infinite first
    if (!(kept - kept == V{0})) *found_inf = 1.0F;
  }
};
template <class T>
unscaling<T> unscaling_by(float const* scale, float* found_inf, source_location where) {
  static_assert(std::is_floating_point<typename number<T>::value>::value,
                "warpwright::ew::unscale_each: gradients are of floating point");
  char const* const problem = "is a null pointer; pass device memory";
  if (scale == nullptr) refuse("the scale", problem, where);
  if (found_inf == nullptr) refuse("the flag", problem, where);
  for (float const* const number : {scale, static_cast<float const*>(found_inf)}) {
    auto const address = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(number));
    if (address % sizeof(float) == 0) continue;
    refuse(number == scale ? "the scale" : "the flag",
           text{"is at address "} + address +
               ", not a multiple of a float's 4 bytes; pass a pointer to a float",
           where);
  }
  return {scale, found_inf, 0.0F};
}

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

#if defined(__CUDACC__)

template <class Arrays, class F>
__global__ void __launch_bounds__(table_threads)
    each_kernel(__grid_constant__ typename Arrays::table const table, __grid_constant__ F const f) {
  warpwright::detail::await_predecessors();
  update_chunk<Arrays>(table, f, blockIdx.x, threadIdx.x);
}
template <class Arrays, class F>
struct each_launch;

#elif WARPWRIGHT_HOST_RUNTIME

template <class Arrays, class F>
struct each_body {
  typename Arrays::table table;
  F f;
  void operator()(std::uint64_t begin, std::uint64_t end) const {
    for (std::uint64_t chunk = begin; chunk < end; ++chunk) {
      for (unsigned t = 0; t < table_threads; ++t) {
        update_chunk<Arrays>(table, f, static_cast<unsigned>(chunk), t);
      }
    }
  }
};

#endif

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace detail

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

/// Calls a function once for every element of every tensor, in one kernel.
///
/// The function is called with one element of each array, in the list's order: a reference to what
/// is written, a const reference or a value of what is read. It may have a member `bool prepare()`,
/// which each thread calls on its own copy before the first element: the place to read numbers in
/// device memory (a learning rate, a step's number) and to compute what is the same for all
/// elements. Where it returns false nothing is written: a step is skipped without the host.
///
///   struct scaled {
///     float const* factor;
///     float value;
///     WARPWRIGHT_HOST_DEVICE bool prepare() {
///       value = *factor;
///       return value != 1.0F;
///     }
///     WARPWRIGHT_HOST_DEVICE void operator()(float& x) const { x *= value; }
///   };
/// @pre F is trivially copyable with a const `WARPWRIGHT_HOST_DEVICE void operator()`; prepare()
///   reads nothing that the call writes and answers the same for all threads; all memory can be
///   reached from the stream's device and stays alive until it has passed it
/// @param stream    the stream to run on
/// @param list      copied at the call; without elements nothing is launched
/// @param function  copied into the kernel's arguments; lambdas need nvcc's --extended-lambda
/// @throws cuda_error  when a launch fails; what launches before it took has then been updated
/// **Stream:** ordered on `stream`; does not block. **Threads:** any.
/// **Capture:** legal; a replay reads the numbers in device memory anew, the list stays as it was.
/// **Cost:** one kernel launch for each tensors_a_launch tensors that are not empty; no
/// allocation.
/// Compiled for architectures both below and from 9.0, a launch also calls cudaGetDevice, and the
/// first of a kernel on a device cudaFuncGetAttributes.
template <class F, class... S>
void run_each(stream_ref stream, tensor_list<S...> const& list, F const& function,
              source_location where = source_location::current()) {
  static_assert(detail::check_function<F, S...>());
#if defined(__CUDACC__) || WARPWRIGHT_HOST_RUNTIME
  using arrays = detail::tensor_arrays<S...>;
  auto const& all = detail::list_access::tensors(list);
  std::uint64_t const chunk =
      detail::chunk_for(all.begin(), all.size(), arrays::vector, arrays::tile);
  for (std::size_t next = 0; next != all.size();) {
#if defined(__CUDACC__)
    typename arrays::table table;
    next = detail::fill_table(table, all.begin(), next, all.size(), arrays::vector, chunk);
    if (table.count == 0) return;
    warpwright::detail::launch_kernel<detail::each_launch<arrays, F>>(
        &detail::each_kernel<arrays, F>, dim3{table.chunks}, dim3{detail::table_threads}, 0, stream,
        where, table, function);
#else
    detail::each_body<arrays, F> body{{}, function};
    next = detail::fill_table(body.table, all.begin(), next, all.size(), arrays::vector, chunk);
    if (body.table.count == 0) return;
    warpwright::detail::launch_host(stream, "warpwright::ew::run_each", body.table.chunks, body,
                                    where);
#endif
  }
#else
  static_cast<void>(stream), static_cast<void>(list), static_cast<void>(function);
  static_cast<void>(where);
  static_assert(warpwright::detail::always_false<F>,
                "warpwright::ew::run_each needs a kernel: compile this file with nvcc (name it "
                ".cu), or link warpwright::host_runtime to run without a GPU");
#endif
}

/// The same on the calling thread, over arrays in host memory; prepare() is called once.
/// **Threads:** any. **Cost:** a plain loop over the elements.
template <class F, class... S>
void run_each_host(tensor_list<S...> const& list, F const& function) {
  static_assert(detail::check_function<F, S...>());
  using arrays = detail::tensor_arrays<S...>;
  F f = function;
  if (list.elements() == 0 || !detail::prepared(f)) return;
  for (auto const& tensor : detail::list_access::tensors(list)) {
    auto const data = arrays::place(tensor, 0);
    for (std::uint64_t i = 0; i < tensor.size; ++i) {
      typename arrays::template registers<1> r;
      arrays::template load<1>(r, data, i, 0);
      arrays::template update<1>(f, r, data, i, 0);
    }
  }
}

/// Copies every tensor to another of its own type: float parameters to their __nv_bfloat16 copies.
/// Values are rounded as by cast().
/// @param list  the copies first, then what is copied
/// @throws cuda_error  as run_each(), which it is in all else
template <class To, class From>
void cast_each(stream_ref stream, tensor_list<write_only<To>, From const> const& list,
               source_location where = source_location::current()) {
  run_each(stream, list, detail::casting<To>{}, where);
}
/// The same on the calling thread, over arrays in host memory.
template <class To, class From>
void cast_each_host(tensor_list<write_only<To>, From const> const& list) {
  run_each_host(list, detail::casting<To>{});
}

/// Divides every element by a loss scale, and raises a flag when a quotient is not finite as it is
/// kept.
/// @param list       gradients, of floating point; divided as multiplied by 1 / scale, in place
/// @param scale      one number in device memory, read when the kernel runs
/// @param found_inf  one number in device memory, set to 1 for an infinity or NaN, and left as it
///   is otherwise: set it to 0 first
/// @throws std::invalid_argument  for a null pointer, and one that is no multiple of 4 bytes
/// @throws cuda_error             as run_each(), which it is in all else
template <class T>
void unscale_each(stream_ref stream, tensor_list<T> const& list, float const* scale,
                  float* found_inf, source_location where = source_location::current()) {
  run_each(stream, list, detail::unscaling_by<T>(scale, found_inf, where), where);
}
/// The same on the calling thread, over arrays and numbers in host memory.
template <class T>
void unscale_each_host(tensor_list<T> const& list, float const* scale, float* found_inf,
                       source_location where = source_location::current()) {
  run_each_host(list, detail::unscaling_by<T>(scale, found_inf, where));
}

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace ew

WARPWRIGHT_END
