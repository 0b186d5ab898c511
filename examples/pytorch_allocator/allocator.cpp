// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// PyTorch's device memory from warpwright's pools: a shared library for
// torch.cuda.memory.CUDAPluggableAllocator(path, "warpwright_torch_alloc", "warpwright_torch_free")
// and the setters beside it. README.md shows the Python side.
#include <warpwright/interop/pytorch.hpp>

#include <cstdio>
#include <exception>

namespace ww = warpwright;

namespace {

// PyTorch's functions have no parameter for a context pointer, so this library has a global
// allocator object. It is not destroyed: tensors may outlive it, and the process's end frees it.
ww::torch_allocator& allocator() {
  static ww::torch_allocator* const instance = new ww::torch_allocator{};
  return *instance;
}

}  // namespace

#define WARPWRIGHT_TORCH_API extern "C" __attribute__((visibility("default")))

// Throws when out of memory: PyTorch converts that to a RuntimeError, but would crash on a nullptr.
WARPWRIGHT_TORCH_API void* warpwright_torch_alloc(std::size_t bytes, int device,
                                                  cudaStream_t stream) {
  return allocator().allocate(bytes, device, stream);
}

// Called by destructors, so errors are only printed: the block stays live in the pool.
WARPWRIGHT_TORCH_API void warpwright_torch_free(void* pointer, std::size_t bytes, int device,
                                                cudaStream_t stream) {
  try {
    allocator().deallocate(pointer, bytes, device, stream);
  } catch (ww::cuda_error const& e) {
    if (e.code() == cudaErrorCudartUnloading) return;  // the process ends
    std::fprintf(stderr, "warpwright_torch_free: %s\n", e.what());
  } catch (std::exception const& e) {
    std::fprintf(stderr, "warpwright_torch_free: %s\n", e.what());
  }
}

// For set_record_stream_fn: Tensor.record_stream().
WARPWRIGHT_TORCH_API void warpwright_torch_record_stream(void* pointer, cudaStream_t stream) {
  allocator().record_stream(pointer, stream);
}

// For set_reset_fn: torch.cuda.empty_cache().
WARPWRIGHT_TORCH_API void warpwright_torch_reset() { allocator().trim(); }

// For set_memory_fraction_fn: torch.cuda.set_per_process_memory_fraction(), before the first use.
WARPWRIGHT_TORCH_API void warpwright_torch_memory_fraction(double fraction, int device) {
  allocator().memory_fraction(fraction, device);
}

// PyTorch has no statistics for a pluggable allocator: call this with ctypes.
WARPWRIGHT_TORCH_API unsigned long long warpwright_torch_live_bytes(int device) {
  return allocator().pool(device).statistics().live_bytes;
}
WARPWRIGHT_TORCH_API unsigned long long warpwright_torch_reserved_peak_bytes(int device) {
  return allocator().pool(device).statistics().reserved_peak_bytes;
}
WARPWRIGHT_TORCH_API unsigned long long warpwright_torch_allocations(int device) {
  return allocator().pool(device).statistics().allocations;
}
WARPWRIGHT_TORCH_API unsigned long long warpwright_torch_upstream_allocations(int device) {
  return allocator().pool(device).statistics().upstream_allocations;
}
