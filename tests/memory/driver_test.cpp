// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The library's own declarations of the driver's interface are those of <cuda.h>.
#include "support/catch.hpp"

#include <cuda.h>
#include <warpwright/memory/detail/driver.hpp>

#include <cstddef>
#include <type_traits>

namespace driver = warpwright::detail::driver;

static_assert(sizeof(driver::result) == sizeof(CUresult), "");
static_assert(static_cast<int>(CUDA_SUCCESS) == 0, "");
static_assert(std::is_same<driver::context, CUcontext>::value, "");
static_assert(std::is_same<driver::device_pointer, CUdeviceptr>::value, "");
static_assert(std::is_same<driver::memory_handle, CUmemGenericAllocationHandle>::value, "");
static_assert(std::is_same<cudaStream_t, CUstream>::value, "");
static_assert(std::is_same<cudaEvent_t, CUevent>::value, "");
static_assert(std::is_same<CUdevice, int>::value, "");
static_assert(sizeof(cudaStreamCaptureStatus) == sizeof(CUstreamCaptureStatus), "");
static_assert(sizeof(cudaStreamCaptureMode) == sizeof(CUstreamCaptureMode), "");

static_assert(sizeof(driver::location) == sizeof(CUmemLocation), "");
static_assert(offsetof(driver::location, id) == offsetof(CUmemLocation, id), "");
static_assert(sizeof(driver::allocation_properties) == sizeof(CUmemAllocationProp), "");
static_assert(offsetof(driver::allocation_properties, handle_types) ==
                  offsetof(CUmemAllocationProp, requestedHandleTypes),
              "");
static_assert(offsetof(driver::allocation_properties, where) ==
                  offsetof(CUmemAllocationProp, location),
              "");
static_assert(offsetof(driver::allocation_properties, metadata) ==
                  offsetof(CUmemAllocationProp, win32HandleMetaData),
              "");
static_assert(offsetof(driver::allocation_properties, rdma_capable) ==
                  offsetof(CUmemAllocationProp, allocFlags) +
                      offsetof(decltype(CUmemAllocationProp::allocFlags), gpuDirectRDMACapable),
              "");
static_assert(sizeof(driver::access) == sizeof(CUmemAccessDesc), "");
static_assert(offsetof(driver::access, flags) == offsetof(CUmemAccessDesc, flags), "");

TEST_CASE("the driver's numbers are the toolkit's") {
  CHECK(driver::location{}.type == CU_MEM_LOCATION_TYPE_DEVICE);
  CHECK(driver::allocation_properties{}.type == CU_MEM_ALLOCATION_TYPE_PINNED);
  CHECK(driver::access{}.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  CHECK(driver::granularity_recommended == CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
  CHECK(driver::attribute_virtual_memory ==
        CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
  CHECK(driver::attribute_rdma_with_virtual_memory ==
        CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED);
  CHECK(static_cast<int>(cudaStreamCaptureModeRelaxed) ==
        static_cast<int>(CU_STREAM_CAPTURE_MODE_RELAXED));
  CHECK(static_cast<int>(cudaStreamCaptureStatusActive) ==
        static_cast<int>(CU_STREAM_CAPTURE_STATUS_ACTIVE));
  CHECK(static_cast<int>(cudaErrorNotReady) == static_cast<int>(CUDA_ERROR_NOT_READY));
  CHECK(static_cast<int>(cudaErrorMemoryAllocation) == static_cast<int>(CUDA_ERROR_OUT_OF_MEMORY));
}
