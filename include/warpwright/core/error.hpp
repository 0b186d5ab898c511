// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <warpwright/core/detail/config.hpp>
#include <warpwright/core/detail/text.hpp>

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
             char const* advice = nullptr)
      : std::runtime_error{message(code, api, where, sticky, advice).c_str()},
        code_{code},
        api_{api},
        where_{where},
        sticky_{sticky} {}

  /// @return the CUDA error code
  [[nodiscard]] cudaError_t code() const noexcept { return code_; }
  /// @return the code's name, for instance "cudaErrorInvalidValue"
  [[nodiscard]] char const* name() const noexcept { return cudaGetErrorName(code_); }
  /// @return the name of the failed call; "kernel launch" for a launch
  [[nodiscard]] char const* api() const noexcept { return api_; }
  /// @return the caller's location
  [[nodiscard]] source_location where() const noexcept { return where_; }
  /// @return whether the context is lost: only a new process can use the device again
  [[nodiscard]] bool sticky() const noexcept { return sticky_; }

 private:
  static detail::text message(cudaError_t code, char const* api, source_location where, bool sticky,
                              char const* advice) noexcept {
    detail::text text = detail::text{where.file(), where.line()} + ": " + api + ": " +
                        cudaGetErrorName(code) + " (" + static_cast<int>(code) +
                        "): " + cudaGetErrorString(code);
    if (advice != nullptr) text += detail::text{"; "} + advice;
    if (sticky) {
      text += "; the error is sticky: this process cannot use the device any more, restart it";
    }
    return text;
  }

  cudaError_t code_;
  char const* api_;
  source_location where_;
  bool sticky_;
};

/// The state of a memory resource when an allocation failed; all sizes in bytes.
struct memory_report {
  std::size_t requested_bytes = 0;     ///< the size of the failed request
  std::size_t live_bytes = 0;          ///< allocated and not yet freed
  std::size_t reserved_bytes = 0;      ///< held from CUDA, free blocks included
  std::size_t largest_hole_bytes = 0;  ///< the largest free block
  std::size_t limit_bytes = 0;         ///< the limit of the resource; SIZE_MAX: none
  int device = -1;                     ///< device ordinal; -1: page-locked host memory,
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
                         detail::text const& holders = "") noexcept
      : report_{report}, text_{detail::text{where.file(), where.line()} + ": out of memory on "} {
    if (report.device < 0) {
      text_ += report.device == -2 ? "pageable memory" : "page-locked memory";
    } else {
      text_ += detail::text{"device "} + report.device;
    }
    text_ += detail::text{": requested "} + report.requested_bytes + " bytes; live " +
             report.live_bytes + ", reserved " + report.reserved_bytes + ", largest hole " +
             report.largest_hole_bytes + ", limit ";
    if (report.limit_bytes == static_cast<std::size_t>(-1)) {
      text_ += "none";
    } else {
      text_ += detail::text{report.limit_bytes} + " bytes";
    }
    text_ += ". Free or trim something, or raise the limit";
    text_ += holders;
  }
  /// @return the text with all figures
  [[nodiscard]] char const* what() const noexcept override { return text_.c_str(); }
  /// @return the figures
  [[nodiscard]] memory_report const& report() const noexcept { return report_; }

 private:
  memory_report report_;
  detail::text text_;
};

namespace detail {

// After one of these errors all CUDA calls return the same error; driver_types.h documents each as
// "the process must be terminated and relaunched". By number, since older toolkits lack some names.
constexpr bool is_sticky(cudaError_t code) noexcept {
  switch (static_cast<int>(code)) {
    case 214:  // cudaErrorECCUncorrectable
    case 220:  // cudaErrorNvlinkUncorrectable
    case 226:  // cudaErrorContained
    case 700:  // cudaErrorIllegalAddress
    case 702:  // cudaErrorLaunchTimeout
    case 710:  // cudaErrorAssert
    case 714:  // cudaErrorHardwareStackError
    case 715:  // cudaErrorIllegalInstruction
    case 716:  // cudaErrorMisalignedAddress
    case 717:  // cudaErrorInvalidAddressSpace
    case 718:  // cudaErrorInvalidPc
    case 719:  // cudaErrorLaunchFailure
    case 721:  // cudaErrorTensorMemoryLeak
    case 810:  // cudaErrorMpsClientTerminated
    case 911:  // cudaErrorExternalDevice
      return true;
    default:
      return false;
  }
}

[[noreturn]] WARPWRIGHT_COLD inline void throw_cuda_error(cudaError_t status, char const* api,
                                                          source_location where,
                                                          char const* advice = nullptr) {
  static_cast<void>(cudaGetLastError());
  throw cuda_error{status, api, where, is_sticky(status), advice};
}

[[noreturn]] WARPWRIGHT_COLD inline void throw_invalid_argument(text const& problem,
                                                                source_location where) {
  throw std::invalid_argument{(text{where.file(), where.line()} + ": " + problem).c_str()};
}

// For destructors, which cannot report an error: clears it, so that a later cudaGetLastError() does
// not return it.
inline void discard(cudaError_t status) noexcept {
  if (status != cudaSuccess) static_cast<void>(cudaGetLastError());
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
