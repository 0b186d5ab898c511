// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// One kernel over a list of tensors of any sizes, as the step of an optimizer needs it: the list is
// an argument of the kernel, and a function of yours is called with the elements that belong
// together.
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

#include <warpwright/kernel/detail/tensors/update_kernel.hpp>

WARPWRIGHT_BEGIN

namespace ew {

/// Tensors that one kernel updates together; each has the same types of arrays.
///
/// `tensor_list<float, float const>` has two arrays of float a tensor, the second of which is only
/// read; `write_only<T>` is only written. Build it once and keep it: a list holds addresses and
/// sizes, no elements.
/// **Threads:** one at a time may change it; any number may pass a list that no thread changes.
template <class... S>
class tensor_list {
  static_assert(sizeof...(S) > 0 && sizeof...(S) <= 32,
                "warpwright::ew::tensor_list: name 1 to 32 arrays");
  static_assert((detail::is_element<detail::element_of<S>>() && ...),
                "warpwright::ew::tensor_list: the elements must be trivially copyable and default "
                "constructible, as a kernel moves them");

 public:
  /// Tensors that one launch takes; a longer list takes several.
  static constexpr std::size_t tensors_per_launch =
      detail::tensor_table<static_cast<int>(sizeof...(S))>::capacity;

  /// Adds a tensor behind the others.
  ///
  /// Arrays may be misaligned to any element. Where one array is misaligned relative to the others,
  /// that array is moved element by element; where all are misaligned equally, the kernel starts
  /// its vectors at the first boundary that suits all.
  /// @pre no tensor reads what another tensor writes; this alone is not checked
  /// @param data  one pointer for each array, to `size` elements
  /// @param size  0 is allowed, with any pointers
  /// @throws std::invalid_argument  for a null or misaligned pointer, or a written array that
  ///   overlaps another array of the tensor or a written array of another tensor; the text names
  ///   both, counted from 1. A written array may be exactly in place of a const one of the same
  ///   element size
  /// @throws std::bad_alloc         when host memory runs out; either way nothing has changed
  /// **Cost:** no CUDA call; grows with the logarithm of the number of tensors where their
  /// addresses ascend.
  void add(typename detail::array_kind<S>::pointer... data, std::size_t size,
           source_location where = source_location::current()) {
    constexpr int arrays = sizeof...(S);
    constexpr int vector = detail::tensor_arrays<S...>::vector;
    constexpr std::uint32_t written = detail::tensor_arrays<S...>::written;
    detail::operand const all[] = {detail::describe_array<detail::element_of<S>, vector>(
        detail::access_pattern::elements, reinterpret_cast<detail::element_bits<S> const*>(data),
        size)...};
    std::size_t const number = tensors_.size() + 1;
    detail::check_tensor(all, arrays, written, number, where);
    written_.reserve(arrays);
    for (int k = 0; size != 0 && k < arrays; ++k) {
      if (detail::is_written(written, k)) written_.check(all[k], k + 1, number, where);
    }
    detail::listed_tensor<arrays> tensor{
        {const_cast<void*>(static_cast<void const*>(data))...}, size, 0, 0};
    if (size != 0) {
      auto const partition = detail::make_plan(all, arrays, size, vector, 1).partition;
      tensor.wide = static_cast<std::uint32_t>(partition.wide);
      tensor.head = partition.head;
    }
    tensors_.push_back(tensor);
    for (int k = 0; size != 0 && k < arrays; ++k) {
      if (detail::is_written(written, k)) written_.add(all[k], k + 1, number);
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

}  // namespace detail

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

/// Calls a function once for every element of every tensor, in one kernel.
///
/// The function is called with one element of each array, in the list's order: a reference to what
/// is written, a const reference or a value of what is read. It may have a member `bool prepare()`,
/// which each thread calls on its own copy before its first element: read numbers in device memory
/// there (a learning rate, the number of a step), and compute what is the same for all elements.
/// Where it returns false nothing is written, so that a step is skipped without the host.
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
///   reads nothing that the call writes and returns the same in all threads; all memory can be
///   accessed from the stream's device and stays alive until the stream has passed the call
/// @param list      copied at the call; without elements nothing is launched
/// @param function  copied into the kernel's arguments, at most 1000 bytes; lambdas need nvcc's
///   --extended-lambda
/// @throws cuda_error  when a launch fails; earlier launches have updated their tensors
/// **Stream:** ordered on `stream`; does not block. **Threads:** any.
/// **Capture:** legal; a replay reads the numbers in device memory again, the list is a copy.
/// **Cost:** one kernel launch for each `tensors_per_launch` tensors that are not empty; no
/// allocation.
template <class F, class... S>
void run_each(stream_ref stream, tensor_list<S...> const& list, F const& function,
              source_location where = source_location::current()) {
  detail::update_tensors(warpwright::detail::on_stream{stream, where}, list, function);
}

/// run_each() on the calling thread, over arrays in host memory; prepare() is called as in a
/// kernel.
/// **Threads:** any. **Cost:** a loop over the elements; 32 KB of the stack.
template <class F, class... S>
void run_each_host(tensor_list<S...> const& list, F const& function) {
  detail::update_tensors(warpwright::detail::on_calling_thread{}, list, function);
}

/// Copies every tensor to another of another type: float parameters to their __nv_bfloat16 copies.
/// Values are rounded as by cast().
/// @param list  the copies first, then what is copied
/// @throws cuda_error  when a launch fails
/// **Stream:**, **Threads:**, **Capture:**, **Cost:** those of run_each().
template <class To, class From>
void cast_each(stream_ref stream, tensor_list<write_only<To>, From const> const& list,
               source_location where = source_location::current()) {
  run_each(stream, list, detail::cast_elements<To>{}, where);
}
/// cast_each() on the calling thread, over arrays in host memory.
template <class To, class From>
void cast_each_host(tensor_list<write_only<To>, From const> const& list) {
  run_each_host(list, detail::cast_elements<To>{});
}

/// Divides every element by a loss scale, and sets a flag when a quotient is not finite as it is
/// stored; in fp8, which stores an infinity as its largest number, when it is not as it is
/// computed.
/// @param list       gradients, of floating point; multiplied by 1 / scale, in place
/// @param scale      one number in device memory, read when the kernel runs
/// @param found_inf  one number in device memory, set to 1 for an infinity or NaN, else left as it
///   is: set it to 0 first
/// @throws std::invalid_argument  for a null pointer, or one that is no multiple of 4 bytes
/// @throws cuda_error             when a launch fails
/// **Stream:**, **Threads:**, **Capture:**, **Cost:** those of run_each().
template <class T>
void unscale_each(stream_ref stream, tensor_list<T> const& list, float const* scale,
                  float* found_inf, source_location where = source_location::current()) {
  run_each(stream, list, detail::make_unscale_function<T>(scale, found_inf, where), where);
}
/// unscale_each() on the calling thread, over arrays and numbers in host memory.
template <class T>
void unscale_each_host(tensor_list<T> const& list, float const* scale, float* found_inf,
                       source_location where = source_location::current()) {
  run_each_host(list, detail::make_unscale_function<T>(scale, found_inf, where));
}

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace ew

WARPWRIGHT_END
