// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Kernels of the library with nvcc: the block that a GPU's thread is in, and the kernel's address.
//
// Kernels of this library wait for the kernel before them in their stream themselves, so that a GPU
// of compute capability 9.0 or newer may start them before that kernel's memory is flushed, or
// sooner where that kernel triggers its dependents (CUDA C++ Programming Guide, "Programmatic
// Dependent Launch and Synchronization"). That hides a part of the launch's latency.
#pragma once

#if defined(__CUDACC__)

#include <cuda_runtime.h>

#include <warpwright/core/detail/device/scoped_stream_device.hpp>
#include <warpwright/core/detail/launch/block.hpp>
#include <warpwright/core/detail/launch/kernel_launch.hpp>

WARPWRIGHT_BEGIN

namespace detail {
// Hidden: a kernel is registered with the runtime of one library of a program.
inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

/// Waits until the kernels before this one in its stream have ended and their writes are visible: a
/// kernel's first statement, in every thread.
__device__ inline void pdl_wait() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && !WARPWRIGHT_NO_EARLY_LAUNCH
  cudaGridDependencySynchronize();
#endif
}

/// Lets the next kernel of the stream start once every block has called this or ended, if that
/// kernel waits by itself. Call it when all loads of the kernel have been issued.
__device__ inline void pdl_trigger() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && !WARPWRIGHT_NO_EARLY_LAUNCH
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}

/// The block that a thread of the GPU is in; see block.hpp.
template <class Kernel>
class device_block {
 public:
  template <class T>
  class values {
   public:
    __device__ T& operator[](unsigned) { return mine_; }
    __device__ T const& operator[](unsigned) const { return mine_; }

   private:
    T mine_;
  };

  [[nodiscard]] __device__ unsigned index() const { return blockIdx.x; }
  [[nodiscard]] __device__ unsigned count() const { return gridDim.x; }
  [[nodiscard]] __device__ unsigned threads() const { return blockDim.x; }
  [[nodiscard]] __device__ unsigned cluster_index(unsigned blocks) const {
    return blocks > 1 ? blockIdx.x / blocks : blockIdx.x;
  }
  // The warps of a cluster's blocks take turns, so that warps are combined in the order in which
  // one block of as many threads would.
  [[nodiscard]] __device__ unsigned thread_in_cluster(unsigned t, unsigned blocks) const {
    return blocks > 1 ? (t / warp_size * blocks + blockIdx.x % blocks) * warp_size + t % warp_size
                      : t;
  }
  // The shared memory of a block lasts until all have left and it ends. Relaxed: a release would
  // wait for stores.
  __device__ void leave_cluster([[maybe_unused]] unsigned blocks) const {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    if (blocks > 1) asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
#endif
  }
  __device__ void end_cluster([[maybe_unused]] unsigned blocks) const {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    if (blocks > 1) asm volatile("barrier.cluster.wait;" ::: "memory");
#endif
  }

  template <class T>
  [[nodiscard]] __device__ values<T> per_thread() const {
    return {};
  }
  template <class F>
  __device__ void for_each_thread(F const& f) const {
    f(threadIdx.x);
  }
  __device__ void synchronize() const { __syncthreads(); }
  __device__ void trigger_dependents() const { pdl_trigger(); }
  [[nodiscard]] __device__ typename Kernel::shared& shared() const {
    __shared__ __align__(16) unsigned char memory[sizeof(typename Kernel::shared)];
    return *reinterpret_cast<typename Kernel::shared*>(memory);
  }
  [[nodiscard]] __device__ unsigned char* dynamic_shared() const {
    extern __shared__ uint4 dynamic_memory[];
    return reinterpret_cast<unsigned char*>(dynamic_memory);
  }
};

template <class Kernel>
__global__ void __launch_bounds__(Kernel::max_threads, Kernel::min_blocks)
    block_kernel(Kernel const kernel) {
  pdl_wait();
  device_block<Kernel> block;
  kernel(block);
}

// For a kernel that reads its arguments with subscripts known only at run time: without
// __grid_constant__ every thread would copy them to its stack. (With it, others take up to 10 %
// more instructions.)
#if WARPWRIGHT_NVCC || __has_attribute(grid_constant)
#define WARPWRIGHT_GRID_CONSTANT __grid_constant__
#else
#define WARPWRIGHT_GRID_CONSTANT
#endif
template <class Kernel>
__global__ void __launch_bounds__(Kernel::max_threads, Kernel::min_blocks)
    table_kernel(WARPWRIGHT_GRID_CONSTANT Kernel const kernel) {
  pdl_wait();
  device_block<Kernel> block;
  kernel(block);
}

template <class Kernel>
void const* kernel_address() {
  if constexpr (Kernel::subscripts_arguments) {
    return reinterpret_cast<void const*>(&table_kernel<Kernel>);
  } else {
    return reinterpret_cast<void const*>(&block_kernel<Kernel>);
  }
}

// The architectures that a file's kernels are compiled for. What depends on them carries this type
// in its name, so that files of one program that differ in it do not share answers.
template <int... Architectures>
struct built_for {
  static constexpr bool all_wait = ((Architectures >= 900) && ...);
  static constexpr bool some_wait = ((Architectures >= 900) || ...);
};
// Edges of a graph can be programmatic since CUDA 12.3.
#if defined(__CUDA_ARCH_LIST__) && CUDART_VERSION >= 12030 && !WARPWRIGHT_NO_EARLY_LAUNCH
using this_build = built_for<__CUDA_ARCH_LIST__>;
#else
using this_build = built_for<0>;
#endif

/// What the launches of `Kernel` know of it.
template <class Kernel, class Build = this_build>
device_kernel kernel_of() {
  static kernel_state state;
  early_start const early = Build::all_wait    ? early_start::always
                            : Build::some_wait ? early_start::where_it_waits
                                               : early_start::never;
  return {&state, kernel_address<Kernel>(), early, !WARPWRIGHT_NO_DRIVER_LAUNCH};
}

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace detail

WARPWRIGHT_END

#endif  // defined(__CUDACC__)
