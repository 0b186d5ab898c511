// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/memory/detail/resource.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

WARPWRIGHT_BEGIN

/// Allocates memory for work on a stream; null: out of memory. `user` is what the callback_resource
/// was given.
using memory_allocate_callback = void* (*)(void* user, stream_ref stream, std::size_t bytes);
/// Frees a block behind the work submitted to a stream so far.
using memory_deallocate_callback = void (*)(void* user, stream_ref stream, void* pointer,
                                            std::size_t bytes);

namespace detail {

// A callback and its user pointer as one callable object.
struct bound_allocate {
  memory_allocate_callback function;
  void* user;
  void* operator()(stream_ref stream, std::size_t bytes) const {
    return function(user, stream, bytes);
  }
};
struct bound_deallocate {
  memory_deallocate_callback function;
  void* user;
  void operator()(stream_ref stream, void* pointer, std::size_t bytes) const {
    function(user, stream, pointer, bytes);
  }
};

template <class Function>
constexpr bool is_null_function(Function const& function) noexcept {
  if constexpr (std::is_pointer<Function>::value) {
    return function == nullptr;
  } else {
    return false;
  }
}

}  // namespace detail

/// Memory from two functions of the program, with the pool's interface:
/// callback_resource own{device, allocate, deallocate};
///
/// The functions are called as allocate(stream, bytes), which returns a block of an alignment of
/// 256 bytes, or null when there is not enough memory, and deallocate(stream, pointer, bytes) with
/// the same bytes. They may be function pointers, lambdas or other callable objects, which are
/// moved into the resource; or memory_allocate_callback and memory_deallocate_callback, for
/// functions with a user pointer. A larger alignment is cut out of a larger block by the resource.
/// @tparam Allocate,Deallocate  deduced from the constructor's arguments
/// @pre Both functions keep the stream order that memory_pool::deallocate() describes: a block that
///   is freed on a stream is not given to another one before the stream has reached the free.
/// **Threads:** as many as both functions allow. **Capture:** as both functions.
/// **Cost:** two atomic additions for an allocation and its deallocation, and the functions. An
/// alignment above 256 bytes costs as many bytes more.
template <class Allocate, class Deallocate>
class callback_resource : public detail::memory_interface<callback_resource<Allocate, Deallocate>>,
                          private detail::noncopyable {
  static_assert(std::is_invocable_r<void*, Allocate&, stream_ref, std::size_t>::value,
                "warpwright::callback_resource: the first function must be callable as "
                "void* allocate(stream_ref stream, std::size_t bytes)");
  static_assert(std::is_invocable<Deallocate&, stream_ref, void*, std::size_t>::value,
                "warpwright::callback_resource: the second function must be callable as "
                "void deallocate(stream_ref stream, void* pointer, std::size_t bytes)");

 public:
  /// Creates a resource.
  /// @param device         the device of the memory
  /// @param on_allocate    returns a block of at least the requested bytes, or null
  /// @param on_deallocate  frees it; if it throws, the block is still live
  /// @throws std::invalid_argument  for a null function pointer
  callback_resource(device_id device, Allocate on_allocate, Deallocate on_deallocate,
                    source_location where = source_location::current())
      : device_{device},
        allocate_{static_cast<Allocate&&>(on_allocate)},
        deallocate_{static_cast<Deallocate&&>(on_deallocate)} {
    check_functions(detail::is_null_function(allocate_), detail::is_null_function(deallocate_),
                    where);
  }

  /// Creates a resource over functions with a user pointer.
  /// @param device         the device of the memory
  /// @param on_allocate    as above
  /// @param on_deallocate  as above
  /// @param user           passed to both
  /// @throws std::invalid_argument  for a null function pointer
  callback_resource(device_id device, memory_allocate_callback on_allocate,
                    memory_deallocate_callback on_deallocate, void* user,
                    source_location where = source_location::current())
      : device_{device}, allocate_{on_allocate, user}, deallocate_{on_deallocate, user} {
    check_functions(on_allocate == nullptr, on_deallocate == nullptr, where);
  }

  /// @return the device
  [[nodiscard]] device_id device() const noexcept { return device_; }
  /// @return the live bytes, as requested
  [[nodiscard]] std::size_t live_bytes() const noexcept {
    return live_bytes_.load(detail::memory_order::relaxed);
  }
  /// The maximum alignment that allocate() accepts.
  static constexpr std::size_t max_alignment_bytes = detail::aligned_blocks::max_alignment_bytes;

 private:
  friend class detail::memory_interface<callback_resource>;

  static void check_functions(bool no_allocate, bool no_deallocate, source_location where) {
    if (!no_allocate && !no_deallocate) return;
    detail::throw_invalid_argument(detail::text{"callback_resource: the function to "} +
                                       (no_allocate ? "allocate" : "deallocate") +
                                       " is null; pass a function",
                                   where);
  }

  template <bool Throws>
  void* do_allocate(detail::memory_request const& request) {
    detail::require_alignment("callback_resource", request.alignment, max_alignment_bytes,
                              request.where);
    return aligned_.allocate(request, [&](std::size_t whole_bytes) -> void* {
      void* const pointer = allocate_(request.stream, whole_bytes);
      if (pointer == nullptr) {
        return detail::fail_request<Throws>(request, live_bytes(), device_);
      }
      if (reinterpret_cast<std::uintptr_t>(pointer) %
              detail::aligned_blocks::cuda_alignment_bytes !=
          0) {
        reject_misaligned(request, pointer, whole_bytes);
      }
      live_bytes_.fetch_add(request.bytes, detail::memory_order::relaxed);
      return pointer;
    });
  }
  void do_deallocate(stream_ref stream, void* pointer, std::size_t bytes, source_location where) {
    aligned_.deallocate("callback_resource", pointer, bytes, where,
                        [&](void* whole, std::size_t whole_bytes) {
                          deallocate_(stream, whole, whole_bytes);
                          live_bytes_.fetch_sub(bytes, detail::memory_order::relaxed);
                        });
  }
  [[noreturn]] WARPWRIGHT_COLD void reject_misaligned(detail::memory_request const& request,
                                                      void* pointer, std::size_t whole_bytes) {
    try {
      deallocate_(request.stream, pointer, whole_bytes);
    } catch (...) {  // the misalignment is reported
    }
    detail::throw_invalid_argument(
        detail::text{"callback_resource: the function returned "} + pointer +
            ", which has not an alignment of 256 bytes; return an aligned block, or null",
        request.where);
  }

  device_id device_;
  Allocate allocate_;
  Deallocate deallocate_;
  detail::atomic<std::size_t> live_bytes_;
  detail::aligned_blocks aligned_;
};

callback_resource(device_id, memory_allocate_callback, memory_deallocate_callback, void*)
    ->callback_resource<detail::bound_allocate, detail::bound_deallocate>;

WARPWRIGHT_END
