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

/// Where in the caller's source a call was made; public functions take one as their last, defaulted
/// parameter, so that an error names the user's line and not ours.
class source_location {
 public:
  /// The place of the call that evaluates it as a default argument.
  static constexpr source_location current(char const* file = __builtin_FILE(),
                                           int line = __builtin_LINE()) noexcept {
    return source_location{place{}, file, line};
  }
  /// @return the file's name as the compiler was given it
  [[nodiscard]] constexpr char const* file() const noexcept { return file_; }
  /// @return the line, from 1
  [[nodiscard]] constexpr int line() const noexcept { return static_cast<int>(line_); }

 private:
  struct place {};
  // With a place before them, no list of a caller's numbers, as {0, 1}, could be meant for these.
  constexpr source_location(place, char const* file, int line) noexcept
      : file_{file}, line_{line} {}
  char const* file_;
  std::ptrdiff_t line_;  // as wide as the pointer: padding would be kept by every call
};

/// A CUDA call that failed: what() reads "file:line: cudaMalloc: cudaErrorX (n): text".
class cuda_error : public std::runtime_error {
 public:
  /// @param code    what the call answered, never cudaSuccess
  /// @param api     the call's name; must outlive the exception (a string literal)
  /// @param where   the caller's place
  /// @param sticky  whether every later call in this process fails the same way
  /// @param advice  what to do about it, added to the text; null for nothing
  cuda_error(cudaError_t code, char const* api, source_location where, bool sticky,
             char const* advice = nullptr)
      : std::runtime_error{message(code, api, where, sticky, advice).c_str()},
        code_{code},
        api_{api},
        where_{where},
        sticky_{sticky} {}

  /// @return the CUDA error code
  [[nodiscard]] cudaError_t code() const noexcept { return code_; }
  /// @return the code's name, as "cudaErrorInvalidValue"
  [[nodiscard]] char const* name() const noexcept { return cudaGetErrorName(code_); }
  /// @return the name of the call that answered it; "kernel launch" for a launch
  [[nodiscard]] char const* api() const noexcept { return api_; }
  /// @return the place in the caller's source
  [[nodiscard]] source_location where() const noexcept { return where_; }
  /// @return true when the context is lost: only a new process can use the device again
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

/// What a memory resource knew when it had to give up; every size in bytes.
struct memory_report {
  std::size_t requested_bytes = 0;     ///< what the caller asked for
  std::size_t live_bytes = 0;          ///< handed out and not yet given back
  std::size_t reserved_bytes = 0;      ///< taken from CUDA
  std::size_t largest_hole_bytes = 0;  ///< the largest free block
  std::size_t limit_bytes = 0;         ///< the resource's own limit; SIZE_MAX: none
  int device = -1;                     ///< device ordinal; -1: page-locked host memory,
                                       ///< -2: pageable host memory
};

/// Memory that could not be had, as a std::bad_alloc whose text gives the figures.
class out_of_memory : public std::bad_alloc {
 public:
  /// @param report  the figures at the moment of failure
  /// @param where   the caller's place
  /// @param holders who has the memory, added to the text
  /// The text has a fixed size, so that running out of host memory cannot hide the error.
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

// After these CUDA answers the same error for ever; its own reference says so of each
// (driver_types.h: "the process must be terminated and relaunched"). By number, since the youngest
// have no name in older toolkits.
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

// For destructors: nothing can be reported, but the next call must not inherit the error.
inline void discard(cudaError_t status) noexcept {
  if (status != cudaSuccess) static_cast<void>(cudaGetLastError());
}

}  // namespace detail

/// Turns a failed CUDA call into an exception.
/// @param status  what the call answered
/// @param api     the call's name, a string literal
/// @param where   the caller's place
/// @throws cuda_error  when `status` is not cudaSuccess; the thread's last error is cleared first
/// **Threads:** any. **Capture:** legal. **Cost:** one comparison on success.
inline void check(cudaError_t status, char const* api,
                  source_location where = source_location::current()) {
  if (status != cudaSuccess) detail::throw_cuda_error(status, api, where);
}

WARPWRIGHT_END
