// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Allocation, free and pointer attributes.
#include <cstdlib>

#include "conformance.hpp"

using namespace conformance;

TEST_CASE("device memory is allocated and freed") {
  void* p = nullptr;
  SUCCEEDS(cudaMalloc(&p, 1000));
  CHECK(reinterpret_cast<std::uintptr_t>(p) % 256 == 0);
  SUCCEEDS(cudaFree(p));
}

TEST_CASE("zero bytes and null pointers") {
  void* p = reinterpret_cast<void*>(1);
  SUCCEEDS(cudaMalloc(&p, 0));
  CHECK(p == nullptr);
  SUCCEEDS(cudaFree(nullptr));
  SUCCEEDS(cudaFreeHost(nullptr));
  RETURNS(cudaMalloc(nullptr, 16), cudaErrorInvalidValue);
}

TEST_CASE("allocations beyond the device's memory fail") {
  void* p = nullptr;
  RETURNS(cudaMalloc(&p, std::size_t{1} << 60), cudaErrorMemoryAllocation);
  std::size_t free_bytes = 0, total = 0;
  SUCCEEDS(cudaMemGetInfo(&free_bytes, &total));
  RETURNS(cudaMalloc(&p, total + 1), cudaErrorMemoryAllocation);
}

TEST_CASE("invalid frees") {
  void* p = nullptr;
  SUCCEEDS(cudaMalloc(&p, 1 << 20));
  RETURNS(cudaFree(static_cast<char*>(p) + 512), cudaErrorInvalidValue);
  RETURNS(cudaFreeHost(p), cudaErrorInvalidValue);
  SUCCEEDS(cudaFree(p));
  RETURNS(cudaFree(p), cudaErrorInvalidValue);
  int on_stack = 0;
  RETURNS(cudaFree(&on_stack), cudaErrorInvalidValue);
  RETURNS(cudaFreeHost(&on_stack), cudaErrorInvalidValue);
}

TEST_CASE("pinned memory") {
  void* p = nullptr;
  SUCCEEDS(cudaMallocHost(&p, 4096));
  static_cast<char*>(p)[4095] = 1;
  RETURNS(cudaFree(p), cudaErrorInvalidValue);
  SUCCEEDS(cudaFreeHost(p));
  SUCCEEDS(cudaHostAlloc(&p, 4096, cudaHostAllocPortable));
  unsigned flags = 0;
  SUCCEEDS(cudaHostGetFlags(&flags, p));
  CHECK((flags & cudaHostAllocPortable) != 0);
  void* device_pointer = nullptr;
  SUCCEEDS(cudaHostGetDevicePointer(&device_pointer, p, 0));
  CHECK(device_pointer == p);  // unified addressing
  SUCCEEDS(cudaFreeHost(p));
  RETURNS(cudaHostAlloc(&p, 4096, 0x80), cudaErrorInvalidValue);
  RETURNS(cudaMallocHost(nullptr, 16), cudaErrorInvalidValue);
}

TEST_CASE("host memory is registered once") {
  constexpr std::size_t bytes = 1 << 16;
  void* p = std::aligned_alloc(4096, bytes);
  REQUIRE(p != nullptr);
  RETURNS(cudaHostUnregister(p), cudaErrorHostMemoryNotRegistered);
  SUCCEEDS(cudaHostRegister(p, bytes, cudaHostRegisterDefault));
  RETURNS(cudaHostRegister(p, bytes, cudaHostRegisterDefault),
          cudaErrorHostMemoryAlreadyRegistered);
  cudaPointerAttributes attributes = {};
  SUCCEEDS(cudaPointerGetAttributes(&attributes, p));
  CHECK(attributes.type == cudaMemoryTypeHost);
  SUCCEEDS(cudaHostUnregister(p));
  SUCCEEDS(cudaPointerGetAttributes(&attributes, p));
  CHECK(attributes.type == cudaMemoryTypeUnregistered);
  RETURNS(cudaHostRegister(p, 0, cudaHostRegisterDefault), cudaErrorInvalidValue);
  RETURNS(cudaHostRegister(nullptr, bytes, cudaHostRegisterDefault), cudaErrorInvalidValue);
  std::free(p);
}

TEST_CASE("registered memory is portable and mapped where asked for") {
  constexpr std::size_t bytes = 1 << 16;
  void* p = std::aligned_alloc(4096, bytes);
  REQUIRE(p != nullptr);
  SUCCEEDS(cudaHostRegister(p, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped));
  void* device_pointer = nullptr;
  SUCCEEDS(cudaHostGetDevicePointer(&device_pointer, p, 0));
  CHECK(device_pointer != nullptr);
  RETURNS(cudaFreeHost(p), cudaErrorInvalidValue);
  SUCCEEDS(cudaHostUnregister(p));
  RETURNS(cudaHostUnregister(p), cudaErrorHostMemoryNotRegistered);
  RETURNS(cudaHostRegister(p, bytes, 0x80), cudaErrorInvalidValue);
  std::free(p);
}

TEST_CASE("attributes of pointers of all kinds") {
  cudaPointerAttributes attributes = {};
  SECTION("device memory, also inside") {
    device_memory<char> const memory(4096);
    SUCCEEDS(cudaPointerGetAttributes(&attributes, memory.data() + 100));
    CHECK(attributes.type == cudaMemoryTypeDevice);
    CHECK(attributes.device == 0);
    CHECK(attributes.devicePointer == memory.data() + 100);
    CHECK(attributes.hostPointer == nullptr);
  }
  SECTION("pinned memory") {
    pinned_memory<char> const memory(4096);
    SUCCEEDS(cudaPointerGetAttributes(&attributes, memory.data() + 100));
    CHECK(attributes.type == cudaMemoryTypeHost);
    CHECK(attributes.devicePointer == memory.data() + 100);
    CHECK(attributes.hostPointer == memory.data() + 100);
  }
  SECTION("memory that CUDA does not know") {
    int on_stack = 0;
    SUCCEEDS(cudaPointerGetAttributes(&attributes, &on_stack));
    CHECK(attributes.type == cudaMemoryTypeUnregistered);
    CHECK(attributes.device == cudaInvalidDeviceId);
    CHECK(attributes.devicePointer == nullptr);
  }
  SECTION("an update without a result pointer fails") {
    RETURNS(cudaPointerGetAttributes(nullptr, &attributes), cudaErrorInvalidValue);
  }
}

TEST_CASE("managed memory is accessible to host and device") {
  int supported = 0;
  REQUIRE(cudaDeviceGetAttribute(&supported, cudaDevAttrManagedMemory, 0) == cudaSuccess);
  if (supported == 0) return;
  float* p = nullptr;
  SUCCEEDS(
      cudaMallocManaged(reinterpret_cast<void**>(&p), 64 * sizeof(float), cudaMemAttachGlobal));
  for (int i = 0; i < 64; ++i) p[i] = 1.0F;
  stream const s;
  launch(s, 64, scale_and_add{p, 2.0F});
  SUCCEEDS(cudaStreamSynchronize(s));
  CHECK(p[10] == 12.0F);
  cudaPointerAttributes attributes = {};
  SUCCEEDS(cudaPointerGetAttributes(&attributes, p));
  CHECK(attributes.type == cudaMemoryTypeManaged);
  SUCCEEDS(cudaFree(p));
  SUCCEEDS(cudaMallocManaged(reinterpret_cast<void**>(&p), 0, cudaMemAttachGlobal));
  CHECK(p == nullptr);
  RETURNS(cudaMallocManaged(reinterpret_cast<void**>(&p), 64, 0), cudaErrorInvalidValue);
}
