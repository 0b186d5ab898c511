// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Virtual memory management, with driver functions looked up through the runtime.
#include <cuda.h>

#include "conformance.hpp"

using namespace conformance;

namespace {

template <class Function>
Function* entry(char const* name) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult status = cudaDriverEntryPointSymbolNotFound;
  REQUIRE(cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &status) ==
          cudaSuccess);
  REQUIRE(status == cudaDriverEntryPointSuccess);
  REQUIRE(function != nullptr);
  return reinterpret_cast<Function*>(function);
}

struct driver {
  decltype(::cuMemAddressReserve)* reserve =
      entry<decltype(::cuMemAddressReserve)>("cuMemAddressReserve");
  decltype(::cuMemAddressFree)* unreserve = entry<decltype(::cuMemAddressFree)>("cuMemAddressFree");
  decltype(::cuMemCreate)* create = entry<decltype(::cuMemCreate)>("cuMemCreate");
  decltype(::cuMemRelease)* release = entry<decltype(::cuMemRelease)>("cuMemRelease");
  decltype(::cuMemMap)* map = entry<decltype(::cuMemMap)>("cuMemMap");
  decltype(::cuMemUnmap)* unmap = entry<decltype(::cuMemUnmap)>("cuMemUnmap");
  decltype(::cuMemSetAccess)* set_access = entry<decltype(::cuMemSetAccess)>("cuMemSetAccess");
  decltype(::cuMemGetAllocationGranularity)* granularity =
      entry<decltype(::cuMemGetAllocationGranularity)>("cuMemGetAllocationGranularity");
};

CUmemAllocationProp on_device_0() {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = 0;
  return properties;
}

CUmemAccessDesc read_write() {
  CUmemAccessDesc access = {};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = 0;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return access;
}

void* as_pointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

}  // namespace

TEST_CASE("driver functions are found by name") {
  REQUIRE(cudaFree(nullptr) == cudaSuccess);  // initialises the device
  void* function = reinterpret_cast<void*>(1);
  cudaDriverEntryPointQueryResult status = cudaDriverEntryPointSuccess;
  SUCCEEDS(cudaGetDriverEntryPointByVersion("cuNoSuchFunction", &function, 12000, cudaEnableDefault,
                                            &status));
  CHECK(function == nullptr);
  CHECK(status == cudaDriverEntryPointSymbolNotFound);
  auto* const name_of = entry<decltype(::cuGetErrorName)>("cuGetErrorName");
  char const* name = nullptr;
  CHECK(name_of(CUDA_ERROR_OUT_OF_MEMORY, &name) == CUDA_SUCCESS);
  CHECK(std::string(name) == "CUDA_ERROR_OUT_OF_MEMORY");
  auto* const current = entry<decltype(::cuCtxGetCurrent)>("cuCtxGetCurrent");
  CUcontext context = nullptr;
  CHECK(current(&context) == CUDA_SUCCESS);
  CHECK(context != nullptr);
}

TEST_CASE("asynchronous fills by words of 8, 16 and 32 bits") {
  device_memory<unsigned> const memory(4);
  stream const s;
  auto const at = reinterpret_cast<CUdeviceptr>(memory.data());
  CHECK(entry<decltype(::cuMemsetD32Async)>("cuMemsetD32Async")(at, 0x01020304, 4, s) ==
        CUDA_SUCCESS);
  CHECK(entry<decltype(::cuMemsetD16Async)>("cuMemsetD16Async")(at + 2, 0xabcd, 1, s) ==
        CUDA_SUCCESS);
  CHECK(entry<decltype(::cuMemsetD8Async)>("cuMemsetD8Async")(at + 4, 0xee, 1, s) == CUDA_SUCCESS);
  CHECK(entry<decltype(::cuMemsetD32Async)>("cuMemsetD32Async")(at + 2, 0, 1, s) ==
        CUDA_ERROR_INVALID_VALUE);
  SUCCEEDS(cudaStreamSynchronize(s));
  std::vector<unsigned> const values = memory.fetch();
  CHECK(values[0] == 0xabcd0304);
  CHECK(values[1] == 0x010203ee);
  CHECK(values[3] == 0x01020304);
}

TEST_CASE("the current context belongs to the current device") {
  auto* const current = entry<decltype(::cuCtxGetCurrent)>("cuCtxGetCurrent");
  auto* const device_of = entry<decltype(::cuCtxGetDevice)>("cuCtxGetDevice");
  auto* const of_stream = entry<CUresult(CUstream, CUcontext*)>("cuStreamGetCtx");
  int devices = 0;
  REQUIRE(cudaGetDeviceCount(&devices) == cudaSuccess);
  std::vector<CUcontext> contexts;
  for (int device = 0; device < devices; ++device) {
    REQUIRE(cudaSetDevice(device) == cudaSuccess);
    CUcontext context = nullptr, again = nullptr, of = nullptr;
    CUdevice ordinal = -1;
    CHECK(current(&context) == CUDA_SUCCESS);
    CHECK(context != nullptr);
    CHECK(device_of(&ordinal) == CUDA_SUCCESS);
    CHECK(ordinal == device);
    stream const s;
    CHECK(of_stream(s, &of) == CUDA_SUCCESS);
    CHECK(of == context);
    std::thread([&] {
      cudaSetDevice(device);
      current(&again);
    }).join();
    CHECK(again == context);
    for (CUcontext const other : contexts) CHECK(other != context);
    contexts.push_back(context);
  }
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
}

TEST_CASE("a stream's context is known while it captures, and can be made current") {
  auto* const of_stream = entry<CUresult(CUstream, CUcontext*)>("cuStreamGetCtx");
  auto* const current = entry<decltype(::cuCtxGetCurrent)>("cuCtxGetCurrent");
  auto* const push = entry<CUresult(CUcontext)>("cuCtxPushCurrent");
  auto* const pop = entry<CUresult(CUcontext*)>("cuCtxPopCurrent");
  int devices = 0;
  REQUIRE(cudaGetDeviceCount(&devices) == cudaSuccess);
  int const last = devices - 1;
  REQUIRE(cudaSetDevice(last) == cudaSuccess);
  stream const s;
  CUcontext far = nullptr, near = nullptr, found = nullptr;
  REQUIRE(current(&far) == CUDA_SUCCESS);
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  REQUIRE(cudaFree(nullptr) == cudaSuccess);
  REQUIRE(current(&near) == CUDA_SUCCESS);
  SUCCEEDS(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
  CHECK(of_stream(s, &found) == CUDA_SUCCESS);
  CHECK(found == far);
  CHECK(push(found) == CUDA_SUCCESS);
  int device = -1;
  SUCCEEDS(cudaGetDevice(&device));
  CHECK(device == last);
  {
    event const e;  // of the stream's device
    SUCCEEDS(cudaEventRecord(e, s));
  }
  CHECK(push(near) == CUDA_SUCCESS);
  SUCCEEDS(cudaGetDevice(&device));
  CHECK(device == 0);
  CHECK(pop(&found) == CUDA_SUCCESS);
  CHECK(found == near);
  SUCCEEDS(cudaSetDevice(0));  // replaces the context that was pushed
  CHECK(pop(&found) == CUDA_SUCCESS);
  CHECK(found == near);
  CHECK(current(&found) == CUDA_SUCCESS);
  CHECK(found == near);
  SUCCEEDS(cudaGetDevice(&device));
  CHECK(device == 0);
  cudaGraph_t captured = nullptr;
  SUCCEEDS(cudaStreamEndCapture(s, &captured));
  SUCCEEDS(cudaGraphDestroy(captured));
}

TEST_CASE("physical memory is mapped, used, and mapped at another address with its contents") {
  REQUIRE(cudaFree(nullptr) == cudaSuccess);
  driver const d;
  CUmemAllocationProp const properties = on_device_0();
  CUmemAccessDesc const access = read_write();
  std::size_t step = 0;
  REQUIRE(d.granularity(&step, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM) == CUDA_SUCCESS);
  REQUIRE(step > 0);
  CUdeviceptr base = 0;
  REQUIRE(d.reserve(&base, 4 * step, 0, 0, 0) == CUDA_SUCCESS);
  CHECK(base % step == 0);
  CUmemGenericAllocationHandle first = 0, second = 0;
  REQUIRE(d.create(&first, step, &properties, 0) == CUDA_SUCCESS);
  REQUIRE(d.create(&second, step, &properties, 0) == CUDA_SUCCESS);
  REQUIRE(d.map(base, step, 0, first, 0) == CUDA_SUCCESS);
  REQUIRE(d.map(base + step, step, 0, second, 0) == CUDA_SUCCESS);
  REQUIRE(d.set_access(base, 2 * step, &access, 1) == CUDA_SUCCESS);

  // One access across both mappings.
  stream const s;
  float* const data = static_cast<float*>(as_pointer(base));
  std::size_t const floats = 2 * step / sizeof(float);
  launch(s, floats, write_index{data});
  SUCCEEDS(cudaMemsetAsync(data, 0, 4, s));
  std::vector<float> host(floats);
  SUCCEEDS(cudaMemcpyAsync(host.data(), data, 2 * step, cudaMemcpyDeviceToHost, s));
  SUCCEEDS(cudaStreamSynchronize(s));
  CHECK(host[1] == 1.0F);
  cudaPointerAttributes attributes = {};
  SUCCEEDS(cudaPointerGetAttributes(&attributes, data + 1));
  CHECK(attributes.type == cudaMemoryTypeDevice);

  // Maps the first handle after the second.
  REQUIRE(d.unmap(base, step) == CUDA_SUCCESS);
  REQUIRE(d.map(base + 2 * step, step, 0, first, 0) == CUDA_SUCCESS);
  REQUIRE(d.set_access(base + 2 * step, step, &access, 1) == CUDA_SUCCESS);
  float* const moved = static_cast<float*>(as_pointer(base + 2 * step));
  SUCCEEDS(cudaMemcpy(host.data(), moved, step, cudaMemcpyDeviceToHost));
  CHECK(host[1] == 1.0F);
  CHECK(host[100] == 100.0F);

  // Released while mapped: it exists until it is unmapped.
  CHECK(d.release(first) == CUDA_SUCCESS);
  SUCCEEDS(cudaMemcpy(host.data(), moved, 64, cudaMemcpyDeviceToHost));
  CHECK(d.unmap(base + step, 2 * step) == CUDA_SUCCESS);
  CHECK(d.release(second) == CUDA_SUCCESS);
  CHECK(d.unreserve(base, 4 * step) == CUDA_SUCCESS);
}

TEST_CASE("mapped memory is copied only while a device that can access it is current") {
  int devices = 0;
  SUCCEEDS(cudaGetDeviceCount(&devices));
  if (devices < 2) return;
  SUCCEEDS(cudaSetDevice(1));
  REQUIRE(cudaFree(nullptr) == cudaSuccess);
  driver const d;
  CUmemAllocationProp properties = on_device_0();
  CUmemAccessDesc access = read_write();
  properties.location.id = access.location.id = 1;
  std::size_t step = 0;
  REQUIRE(d.granularity(&step, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM) == CUDA_SUCCESS);
  CUdeviceptr base = 0;
  CUmemGenericAllocationHandle memory = 0;
  REQUIRE(d.reserve(&base, step, 0, 0, 0) == CUDA_SUCCESS);
  REQUIRE(d.create(&memory, step, &properties, 0) == CUDA_SUCCESS);
  REQUIRE(d.map(base, step, 0, memory, 0) == CUDA_SUCCESS);
  REQUIRE(d.set_access(base, step, &access, 1) == CUDA_SUCCESS);
  {
    stream const far;
    void* const data = as_pointer(base);
    std::vector<char> host(64, 1);
    SUCCEEDS(cudaSetDevice(0));
    RETURNS(cudaMemcpyAsync(data, host.data(), 64, cudaMemcpyHostToDevice, far),
            cudaErrorInvalidValue);
    RETURNS(cudaMemcpyAsync(host.data(), data, 64, cudaMemcpyDefault, far), cudaErrorInvalidValue);
    RETURNS(cudaMemcpy2DAsync(data, 8, host.data(), 8, 8, 8, cudaMemcpyHostToDevice, far),
            cudaErrorInvalidValue);
    SUCCEEDS(cudaMemsetAsync(data, 2, 64, far));
    // A refused copy leaves a capture valid.
    SUCCEEDS(cudaStreamBeginCapture(far, cudaStreamCaptureModeThreadLocal));
    RETURNS(cudaMemcpyAsync(data, host.data(), 64, cudaMemcpyHostToDevice, far),
            cudaErrorInvalidValue);
    cudaGraph_t captured = nullptr;
    SUCCEEDS(cudaStreamEndCapture(far, &captured));
    SUCCEEDS(cudaGraphDestroy(captured));
    SUCCEEDS(cudaSetDevice(1));
    SUCCEEDS(cudaMemcpyAsync(host.data(), data, 64, cudaMemcpyDeviceToHost, far));
    SUCCEEDS(cudaStreamSynchronize(far));
    CHECK(host[63] == 2);
  }
  CHECK(d.unmap(base, step) == CUDA_SUCCESS);
  CHECK(d.release(memory) == CUDA_SUCCESS);
  CHECK(d.unreserve(base, step) == CUDA_SUCCESS);
  SUCCEEDS(cudaSetDevice(0));
}

TEST_CASE("parts of one reservation are mapped and unmapped while others are in use") {
  REQUIRE(cudaFree(nullptr) == cudaSuccess);
  driver const d;
  CUmemAllocationProp const properties = on_device_0();
  CUmemAccessDesc const access = read_write();
  std::size_t step = 0;
  REQUIRE(d.granularity(&step, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM) == CUDA_SUCCESS);
  constexpr std::size_t workers = 3;
  constexpr int rounds = 40;
  CUdeviceptr base = 0;
  REQUIRE(d.reserve(&base, workers * step, 0, 0, 0) == CUDA_SUCCESS);
  std::atomic<int> wrong{0};
  // Each worker maps its own part again in every round.
  auto const work = [&](std::size_t part) {
    CUdeviceptr const at = base + part * step;
    cudaStream_t s = nullptr;
    if (cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking) != cudaSuccess) ++wrong;
    CUmemGenericAllocationHandle handle = 0;
    for (int round = 0; round < rounds; ++round) {
      bool fine = d.create(&handle, step, &properties, 0) == CUDA_SUCCESS &&
                  d.map(at, step, 0, handle, 0) == CUDA_SUCCESS &&
                  d.release(handle) == CUDA_SUCCESS &&
                  d.set_access(at, step, &access, 1) == CUDA_SUCCESS;
      auto const value = static_cast<unsigned char>(16 * part + static_cast<std::size_t>(round));
      unsigned char read[2] = {};
      auto* const data = static_cast<unsigned char*>(as_pointer(at));
      fine = fine && cudaMemsetAsync(data, value, step, s) == cudaSuccess;
      fine = fine &&
             cudaMemcpyAsync(read, data + step - 2, 2, cudaMemcpyDeviceToHost, s) == cudaSuccess;
      fine = fine && cudaStreamSynchronize(s) == cudaSuccess;
      fine = fine && read[0] == value && read[1] == value;
      fine = d.unmap(at, step) == CUDA_SUCCESS && fine;
      if (!fine) ++wrong;
    }
    cudaStreamDestroy(s);
  };
  std::vector<std::thread> threads;
  for (std::size_t part = 0; part < workers; ++part) threads.emplace_back(work, part);
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(d.unreserve(base, workers * step) == CUDA_SUCCESS);
}

TEST_CASE("invalid uses of virtual memory") {
  REQUIRE(cudaFree(nullptr) == cudaSuccess);
  driver const d;
  CUmemAllocationProp properties = on_device_0();
  std::size_t step = 0;
  REQUIRE(d.granularity(&step, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM) == CUDA_SUCCESS);
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr base = 0;
  CHECK(d.create(&handle, step + 1, &properties, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(d.reserve(&base, 0, 0, 0, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(d.create(&handle, std::size_t{1} << 46, &properties, 0) == CUDA_ERROR_OUT_OF_MEMORY);
  REQUIRE(d.reserve(&base, 2 * step, 0, 0, 0) == CUDA_SUCCESS);
  REQUIRE(d.create(&handle, step, &properties, 0) == CUDA_SUCCESS);
  REQUIRE(d.map(base, step, 0, handle, 0) == CUDA_SUCCESS);
  CHECK(d.map(base, step, 0, handle, 0) != CUDA_SUCCESS);  // occupied
  CHECK(d.unreserve(base, 2 * step) != CUDA_SUCCESS);      // still mapped
  CHECK(d.unmap(base, step) == CUDA_SUCCESS);
  CHECK(d.release(handle) == CUDA_SUCCESS);
  CHECK(d.unreserve(base, 2 * step) == CUDA_SUCCESS);
  CHECK(cudaGetLastError() == cudaSuccess);  // driver errors do not set the runtime's last error
}

TEST_CASE("virtual memory counts against the device") {
  REQUIRE(cudaFree(nullptr) == cudaSuccess);
  driver const d;
  CUmemAllocationProp const properties = on_device_0();
  std::size_t before = 0, during = 0, after = 0, total = 0;
  constexpr std::size_t bytes = std::size_t{64} << 20;
  REQUIRE(cudaMemGetInfo(&before, &total) == cudaSuccess);
  CUmemGenericAllocationHandle handle = 0;
  REQUIRE(d.create(&handle, bytes, &properties, 0) == CUDA_SUCCESS);
  REQUIRE(cudaMemGetInfo(&during, &total) == cudaSuccess);
  CHECK(during + bytes <= before);
  REQUIRE(d.release(handle) == CUDA_SUCCESS);
  REQUIRE(cudaMemGetInfo(&after, &total) == cudaSuccess);
  CHECK(after == before);
}
