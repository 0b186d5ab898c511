// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/error.hpp>

WARPWRIGHT_BEGIN

WARPWRIGHT_INLINE cuda_error::cuda_error(cudaError_t code, char const* api, source_location where,
                                         bool sticky, char const* advice)
    : std::runtime_error{message(code, api, where, sticky, advice).c_str()},
      code_{code},
      api_{api},
      where_{where},
      sticky_{sticky} {}

WARPWRIGHT_INLINE char const* cuda_error::name() const noexcept { return cudaGetErrorName(code_); }

WARPWRIGHT_INLINE detail::text cuda_error::message(cudaError_t code, char const* api,
                                                   source_location where, bool sticky,
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

WARPWRIGHT_INLINE out_of_memory::out_of_memory(memory_report const& report, source_location where,
                                               detail::text const& holders) noexcept
    : report_{report}, text_{detail::text{where.file(), where.line()} + ": out of memory on "} {
  if (report.device < 0) {
    text_ += report.device == -2 ? "pageable memory" : "page-locked memory";
  } else {
    text_ += detail::text{"device "} + report.device;
  }
  text_ += detail::text{": requested "} + report.requested_bytes + " bytes; live " +
           report.live_bytes + ", reserved " + report.reserved_bytes + ", largest free block " +
           report.largest_free_block_bytes + ", limit ";
  if (report.limit_bytes == static_cast<std::size_t>(-1)) {
    text_ += "none";
  } else {
    text_ += detail::text{report.limit_bytes} + " bytes";
  }
  text_ += ". Free or trim something, or raise the limit";
  text_ += holders;
}

namespace detail {

// After one of these errors all CUDA calls return the same error; driver_types.h documents each as
// "the process must be terminated and relaunched". By number, since older toolkits lack some names.
WARPWRIGHT_COLD WARPWRIGHT_INLINE bool is_sticky(cudaError_t code) noexcept {
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

WARPWRIGHT_INLINE void throw_cuda_error(cudaError_t status, char const* api, source_location where,
                                        char const* advice) {
  static_cast<void>(cudaGetLastError());
  throw cuda_error{status, api, where, is_sticky(status), advice};
}

WARPWRIGHT_INLINE void check_pending(char const* left_by, source_location where, char const* name) {
  cudaError_t const status = cudaGetLastError();
  if (status == cudaSuccess) return;
  if (name == nullptr) throw_cuda_error(status, left_by, where);
  throw_cuda_error(status, left_by, where, (text{"left pending by '"} + name + "'").c_str());
}

WARPWRIGHT_INLINE void throw_invalid_argument(text const& problem, source_location where) {
  throw std::invalid_argument{(text{where.file(), where.line()} + ": " + problem).c_str()};
}

}  // namespace detail

WARPWRIGHT_END
