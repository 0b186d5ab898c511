// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A number that changes from one launch of a graph to the next, such as a learning rate. A kernel
// that gets it by value keeps the value of the capture; a kernel that reads it through a pointer
// reads the current one, and the graph needs no update.
//
//   ww::graph_param<float> rate{stream, 1e-3F};
//   auto const update = ww::capture(stream, [&](ww::stream_ref s) {
//     ww::for_each_index(s, n, descend{weights, gradients, rate.get()});  // reads *rate
//   });
//   ...
//   rate.set(stream, 5e-4F);  // before the launch, on its stream
#pragma once

#include <warpwright/core/detail/capture/capture_guard.hpp>
#include <warpwright/core/detail/launch/driver_function.hpp>

#include <cstring>
#include <type_traits>

WARPWRIGHT_BEGIN

namespace detail {

/// The driver's fills by words: the value is an argument, so that no host memory has to outlive the
/// call.
struct driver_fills {
  int (*by_1)(unsigned long long, unsigned char, std::size_t, cudaStream_t) = nullptr;
  int (*by_2)(unsigned long long, unsigned short, std::size_t, cudaStream_t) = nullptr;
  int (*by_4)(unsigned long long, unsigned, std::size_t, cudaStream_t) = nullptr;

  void find(source_location where) {
    if (!find_driver_function("cuMemsetD8Async", by_1) ||
        !find_driver_function("cuMemsetD16Async", by_2) ||
        !find_driver_function("cuMemsetD32Async", by_4)) {
      throw_cuda_error(cudaErrorNotSupported, "cuMemsetD32Async", where);
    }
  }
};

}  // namespace detail

/// A value in device memory that kernels read through a pointer and the host sets between launches.
/// @pre it outlives all launches of graphs whose kernels read it
/// **Threads:** one at a time.
template <class T>
class graph_param {
  static_assert(std::is_trivially_copyable<T>::value,
                "warpwright: a graph_param is copied to the device byte by byte: hold numbers and "
                "pointers, not containers");
  static_assert(
      sizeof(T) <= 2 || (sizeof(T) % 4 == 0 && sizeof(T) <= 64),
      "warpwright: a graph_param has 1, 2 or a multiple of 4 bytes, 64 at most: set larger "
      "tables with a copy from page-locked memory");

 public:
  /// Allocates the value on the current device, and sets it.
  /// @param stream  launches on another stream must be ordered behind this one
  /// @param value   the first value; may be a temporary
  /// @throws std::invalid_argument  for a capturing stream
  /// @throws cuda_error             when a call fails
  /// **Stream:** ordered on `stream`; allocating may wait for the device. **Capture:** not legal on
  /// `stream`. **Cost:** one cudaMalloc; do it at start-up.
  graph_param(stream_ref stream, T const& value, source_location where = source_location::current())
      : value_{value} {
    fill_.find(where);
    detail::relaxed_capture_mode const allowed{where};
    void* memory = nullptr;
    check(cudaMalloc(&memory, sizeof(T)), "cudaMalloc", where);
    slot_ = static_cast<T*>(memory);
    try {
      set(stream, value, where);
    } catch (...) {
      detail::discard(cudaFree(slot_));
      throw;
    }
  }
  graph_param(graph_param&& other) noexcept
      : fill_{other.fill_}, slot_{detail::exchange(other.slot_, nullptr)}, value_{other.value_} {}
  graph_param& operator=(graph_param&& other) noexcept {
    detail::swap(slot_, other.slot_);
    detail::swap(value_, other.value_);
    detail::swap(fill_, other.fill_);
    return *this;
  }
  /// Waits for the device, as cudaFree does.
  ~graph_param() {
    if (slot_ == nullptr) return;
    detail::relaxed_capture_mode const allowed;
    detail::discard(cudaFree(slot_));
  }

  /// Sets the value for later work of the stream.
  /// @param stream  the stream of the next launch, or one that it is ordered behind; also behind
  ///   the last launch that reads the previous value
  /// @param value   may be a temporary
  /// @throws std::invalid_argument  for a capturing stream: the write would be a part of the graph,
  ///   and each launch would set this value again
  /// @throws cuda_error             when a call fails
  /// **Stream:** ordered on `stream`; does not block. **Capture:** refused; call it before the
  /// launch. **Cost:** a query, and one fill for each run of equal words: one for T of up to 4
  /// bytes. No allocation.
  void set(stream_ref stream, T const& value, source_location where = source_location::current()) {
    if (detail::is_capturing(stream, where)) {
      detail::throw_invalid_argument(
          "graph_param::set: the stream is capturing: the write would become a part of the graph, "
          "and each launch would set this value again; call set() between launches",
          where);
    }
    write(stream, value, where);
    value_ = value;
  }

  /// @return the value's address in device memory, which stays the same; null after a move. Kernels
  ///   read it; they must not write it
  [[nodiscard]] T const* get() const noexcept { return slot_; }
  /// @return the value that was set last
  [[nodiscard]] T const& value() const noexcept { return value_; }

 private:
  void write(stream_ref stream, T const& value, source_location where) {
    auto const at = reinterpret_cast<unsigned long long>(slot_);
    if constexpr (sizeof(T) == 1) {
      unsigned char word = 0;
      std::memcpy(&word, &value, 1);
      check_fill(fill_.by_1(at, word, 1, stream.get()), "cuMemsetD8Async", where);
    } else if constexpr (sizeof(T) == 2) {
      unsigned short word = 0;
      std::memcpy(&word, &value, 2);
      check_fill(fill_.by_2(at, word, 1, stream.get()), "cuMemsetD16Async", where);
    } else {
      constexpr std::size_t count = sizeof(T) / 4;
      unsigned words[count];
      std::memcpy(words, &value, sizeof(T));
      for (std::size_t i = 0; i < count;) {
        std::size_t same = 1;
        while (i + same < count && words[i + same] == words[i]) ++same;
        check_fill(fill_.by_4(at + 4 * i, words[i], same, stream.get()), "cuMemsetD32Async", where);
        i += same;
      }
    }
  }
  // The driver's codes are the runtime's.
  static void check_fill(int code, char const* api, source_location where) {
    check(static_cast<cudaError_t>(code), api, where);
  }

  detail::driver_fills fill_;
  T* slot_ = nullptr;
  T value_;
};

WARPWRIGHT_END
