// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <warpwright/core/detail/config.hpp>
#include <warpwright/core/detail/text/text.hpp>

#include <cstddef>
#include <new>
#include <stdexcept>

WARPWRIGHT_BEGIN

/// A file and line of the caller's source. Public functions take one as their last, defaulted
/// parameter, so that an error names the line of the call.
class source_location {
 public:
  /// The location of the call that evaluates this as a default argument.
  static constexpr source_location current(char const* file = __builtin_FILE(),
                                           int line = __builtin_LINE()) noexcept {
    return source_location{private_tag{}, file, line};
  }
  /// @return the file name as passed to the compiler
  [[nodiscard]] constexpr char const* file() const noexcept { return file_; }
  /// @return the line, from 1
  [[nodiscard]] constexpr int line() const noexcept { return static_cast<int>(line_); }

 private:
  struct private_tag {};
  // The tag keeps a braced list of a caller's numbers, such as {0, 1}, from matching.
  constexpr source_location(private_tag, char const* file, int line) noexcept
      : file_{file}, line_{line} {}
  char const* file_;
  std::ptrdiff_t line_;  // as wide as the pointer: every call would have to preserve padding
};

/// A failed CUDA call. what() has the form "file:line: cudaMalloc: cudaErrorX (n): text".
class cuda_error : public std::runtime_error {
 public:
  /// @param code    the error that the call returned, not cudaSuccess
  /// @param api     the call's name; must outlive the exception (a string literal)
  /// @param where   the caller's location
  /// @param sticky  whether all later calls in this process fail with the same error
  /// @param advice  a remedy, appended to the text, or null
  cuda_error(cudaError_t code, char const* api, source_location where, bool sticky,
             char const* advice = nullptr);

  /// @return the CUDA error code
  [[nodiscard]] cudaError_t code() const noexcept { return code_; }
  /// @return the code's name, for instance "cudaErrorInvalidValue"
  [[nodiscard]] char const* name() const noexcept;
  /// @return the name of the failed call; "kernel launch" for a launch
  [[nodiscard]] char const* api() const noexcept { return api_; }
  /// @return the caller's location
  [[nodiscard]] source_location where() const noexcept { return where_; }
  /// @return whether the context is lost: only a new process can use the device again
  [[nodiscard]] bool sticky() const noexcept { return sticky_; }

 private:
  static detail::text message(cudaError_t code, char const* api, source_location where, bool sticky,
                              char const* advice) noexcept;

  cudaError_t code_;
  char const* api_;
  source_location where_;
  bool sticky_;
};

/// The state of a memory resource when an allocation failed; all sizes in bytes.
struct memory_report {
  std::size_t requested_bytes = 0;           ///< the size of the failed request
  std::size_t live_bytes = 0;                ///< allocated and not yet freed
  std::size_t reserved_bytes = 0;            ///< held from CUDA, free blocks included
  std::size_t largest_free_block_bytes = 0;  ///< the largest free block
  std::size_t limit_bytes = 0;               ///< the limit of the resource; SIZE_MAX: none
  int device = -1;                           ///< device ordinal; -1: page-locked host memory,
                                             ///< -2: pageable host memory
};

/// A failed allocation: a std::bad_alloc whose text has the figures of the memory resource.
class out_of_memory : public std::bad_alloc {
 public:
  /// @param report  the figures at the time of the failure
  /// @param where   the caller's location
  /// @param holders the streams or caches that hold memory, appended to the text
  /// The text has a fixed capacity: the constructor does not allocate.
  explicit out_of_memory(memory_report const& report,
                         source_location where = source_location::current(),
                         detail::text const& holders = "") noexcept;
  /// @return the text with all figures
  // Short, and the key function: the vtable must stay one that several libraries may have.
  [[nodiscard]] char const* what() const noexcept override { return text_.c_str(); }
  /// @return the figures
  [[nodiscard]] memory_report const& report() const noexcept { return report_; }

 private:
  memory_report report_;
  detail::text text_;
};

namespace detail {

bool is_sticky(cudaError_t code) noexcept;

[[noreturn]] WARPWRIGHT_COLD void throw_cuda_error(cudaError_t status, char const* api,
                                                   source_location where,
                                                   char const* advice = nullptr);

[[noreturn]] WARPWRIGHT_COLD void throw_invalid_argument(text const& problem,
                                                         source_location where);

// Throws for an error that earlier calls have left pending, and clears it: a kernel launch that
// failed need not have reported anything else.
// @param left_by  what ran, a string literal
// @param name     the name that a user has given it, or null
void check_pending(char const* left_by, source_location where, char const* name = nullptr);

// For an error that is not reported: clears it, so that a later cudaGetLastError() does not return
// it. CUDA does not keep a query's cudaErrorNotReady: what is pending then is the user's.
// @return status
inline cudaError_t discard(cudaError_t status) noexcept {
  if (status != cudaSuccess && status != cudaErrorNotReady) {
    static_cast<void>(cudaGetLastError());
  }
  return status;
}

}  // namespace detail

/// Throws an exception if a CUDA call failed.
/// @param status  the return value of the call
/// @param api     the call's name, a string literal
/// @param where   the caller's location
/// @throws cuda_error  if `status` is not cudaSuccess; the thread's last error is cleared first
/// **Threads:** any. **Capture:** legal. **Cost:** one comparison on success.
inline void check(cudaError_t status, char const* api,
                  source_location where = source_location::current()) {
  if (status != cudaSuccess) detail::throw_cuda_error(status, api, where);
}

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/core/detail/error/error_definitions.hpp>
#endif
