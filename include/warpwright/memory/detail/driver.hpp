// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/launch/driver_function.hpp>

#include <cstddef>

WARPWRIGHT_BEGIN

namespace detail {

/// The part of <cuda.h> that the library uses, since <cuda.h> costs every including file 0.04 s to
/// compile. The driver's interface does not change; a test compares each declaration with the
/// toolkit's header.
namespace driver {

using result = int;
using context = CUctx_st*;
using device_pointer = unsigned long long;
using memory_handle = unsigned long long;

struct location {
  int type = 1;  // CU_MEM_LOCATION_TYPE_DEVICE
  int id = 0;
};
struct allocation_properties {
  int type = 1;  // CU_MEM_ALLOCATION_TYPE_PINNED
  int handle_types = 0;
  location where;
  void* metadata = nullptr;
  unsigned char compression_type = 0;
  unsigned char rdma_capable = 0;
  unsigned short usage = 0;
  unsigned char reserved[4] = {};
};
struct access {
  location where;
  int flags = 3;  // CU_MEM_ACCESS_FLAGS_PROT_READWRITE
};
constexpr int granularity_recommended = 1;  // CU_MEM_ALLOC_GRANULARITY_RECOMMENDED
// CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
// …_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED
constexpr int attribute_virtual_memory = 102;
constexpr int attribute_rdma_with_virtual_memory = 110;

using device_attribute = result (*)(int* value, int which, int device);
using get_granularity = result (*)(std::size_t*, allocation_properties const*, int option);
using address_reserve = result (*)(device_pointer*, std::size_t bytes, std::size_t alignment,
                                   device_pointer hint, unsigned long long flags);
using address_free = result (*)(device_pointer, std::size_t bytes);
using create = result (*)(memory_handle*, std::size_t bytes, allocation_properties const*,
                          unsigned long long flags);
using release = result (*)(memory_handle);
using map = result (*)(device_pointer, std::size_t bytes, std::size_t offset, memory_handle,
                       unsigned long long flags);
using unmap = result (*)(device_pointer, std::size_t bytes);
using set_access = result (*)(device_pointer, std::size_t bytes, access const*, std::size_t count);
using get_current_context = result (*)(context*);
using stream_is_capturing = result (*)(cudaStream_t, cudaStreamCaptureStatus*);
using stream_get_id = result (*)(cudaStream_t, unsigned long long* id);
using stream_wait_event = result (*)(cudaStream_t, cudaEvent_t, unsigned flags);
using event_record = result (*)(cudaEvent_t, cudaStream_t);
using event_query = result (*)(cudaEvent_t);
using exchange_capture_mode = result (*)(cudaStreamCaptureMode*);

/// The runtime's codes have the same numbers since CUDA 10.1.
inline cudaError_t as_runtime(result code) noexcept { return static_cast<cudaError_t>(code); }

}  // namespace driver

/// The CUDA calls of a pool's misses, through the driver's functions: each is about 40 ns cheaper
/// than the runtime's (H100, driver 580: cudaStreamIsCapturing 65 ns, cuStreamIsCapturing 24 ns;
/// record and query 624 and 315 ns). Returns the runtime's codes; does not set the runtime's last
/// error. Calls the runtime's functions where the driver's cannot be found.
class driver_calls {
 public:
  WARPWRIGHT_COLD void find() noexcept {
    found_ = find_driver_function("cuCtxGetCurrent", current_) &&
             find_driver_function("cuStreamIsCapturing", is_capturing_) &&
             find_driver_function("cuStreamGetId", id_) &&
             find_driver_function("cuStreamWaitEvent", wait_) &&
             find_driver_function("cuEventRecord", record_) &&
             find_driver_function("cuEventQuery", query_) &&
             find_driver_function("cuThreadExchangeStreamCaptureMode", exchange_);
  }

  /// The calling thread's context; null when it has none, or without the driver's functions.
  [[nodiscard]] driver::context current_context() const noexcept {
    driver::context context = nullptr;
    if (!found_ || current_(&context) != 0) return nullptr;
    return context;
  }
  cudaError_t is_capturing(cudaStream_t stream, cudaStreamCaptureStatus* status) const noexcept {
    if (!found_) return cudaStreamIsCapturing(stream, status);
    return driver::as_runtime(is_capturing_(stream, status));
  }
  cudaError_t id(cudaStream_t stream, unsigned long long* id) const noexcept {
    return found_ ? driver::as_runtime(id_(stream, id)) : cudaStreamGetId(stream, id);
  }
  cudaError_t wait(cudaStream_t stream, cudaEvent_t event) const noexcept {
    return found_ ? driver::as_runtime(wait_(stream, event, 0))
                  : cudaStreamWaitEvent(stream, event, 0);
  }
  cudaError_t record(cudaEvent_t event, cudaStream_t stream) const noexcept {
    return found_ ? driver::as_runtime(record_(event, stream)) : cudaEventRecord(event, stream);
  }
  cudaError_t query(cudaEvent_t event) const noexcept {
    return found_ ? driver::as_runtime(query_(event)) : cudaEventQuery(event);
  }
  cudaError_t exchange(cudaStreamCaptureMode* mode) const noexcept {
    if (!found_) return cudaThreadExchangeStreamCaptureMode(mode);
    return driver::as_runtime(exchange_(mode));
  }

 private:
  bool found_ = false;
  driver::get_current_context current_ = nullptr;
  driver::stream_is_capturing is_capturing_ = nullptr;
  driver::stream_get_id id_ = nullptr;
  driver::stream_wait_event wait_ = nullptr;
  driver::event_record record_ = nullptr;
  driver::event_query query_ = nullptr;
  driver::exchange_capture_mode exchange_ = nullptr;
};

}  // namespace detail

WARPWRIGHT_END
