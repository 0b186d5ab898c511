// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Launches kernels of the library with nvcc: the block that a GPU's thread is in, and the launch.
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
#include <warpwright/core/detail/launch/driver_function.hpp>
#include <warpwright/core/detail/thread/atomic.hpp>
#include <warpwright/core/stream.hpp>

#include <cstdint>

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

/// What every call passes for `Kernel`: its handle for all contexts, or its address where the
/// runtime has no handle. The same in all files of a library, though nvcc gives each file a kernel
/// of its own: attributes are set on one of them.
template <class Kernel, class Build>
void const* launchable() {
  static atomic<void const*> cached;
  void const* found = cached.load(memory_order::acquire);
  if (found != nullptr) return found;
  found = kernel_address<Kernel>();
#if CUDART_VERSION >= 12010 && !WARPWRIGHT_NO_DRIVER_LAUNCH
  cudaKernel_t handle = nullptr;
  if (cudaGetKernel(&handle, found) == cudaSuccess) {
    found = handle;
  } else {
    discard(cudaGetLastError());
    return found;  // the launch reports it, and the next one queries again
  }
#endif
  void const* expected = nullptr;
  bool const first =
      cached.compare_exchange(expected, found, memory_order::acq_rel, memory_order::acquire);
  return first ? found : expected;
}

/// The driver's functions of a launch. cuLaunchKernelEx takes handles of kernels; its configuration
/// is laid out as the runtime's and its attributes are the same: a test compares them with
/// <cuda.h>.
struct launch_functions {
  int (*context_id)(CUctx_st* context, unsigned long long* id) = nullptr;
  int (*function_of)(void const** function, void const* kernel) = nullptr;
  int (*launch)(cudaLaunchConfig_t const*, void const* kernel, void** arguments,
                void** extra) = nullptr;

  /// @return whether this driver has all of them
  [[nodiscard]] static launch_functions const* find() noexcept {
    static launch_functions const found = [] {
      launch_functions all;
      if (!find_driver_function("cuCtxGetId", all.context_id) ||
          !find_driver_function("cuKernelGetFunction", all.function_of) ||
          !find_driver_function("cuLaunchKernelEx", all.launch)) {
        all.launch = nullptr;
      }
      return all;
    }();
    return found.launch != nullptr ? &found : nullptr;
  }
};

/// A kernel's function in the first context that launches it. Given the handle for all contexts
/// instead, the driver looks that function up at every launch: 0.2 to 0.3 us (H100, driver 580).
class context_function {
 public:
  /// @return the function; `handle`, which launches as well, in any other context
  void const* find(launch_functions const& driver, void const* handle) noexcept {
    unsigned long long id = 0;  // never used for another context, unlike a context's address
    if (driver.context_id(nullptr, &id) != 0) return handle;
    std::uint64_t const context = id + 2;
    std::uint64_t held = context_.load(memory_order::acquire);
    if (held == context) return function_;
    if (held != unset ||
        !context_.compare_exchange(held, being_set, memory_order::acq_rel, memory_order::acquire)) {
      return handle;
    }
    if (driver.function_of(&function_, handle) != 0) function_ = handle;
    context_.store(context, memory_order::release);
    return function_;
  }

 private:
  static constexpr std::uint64_t unset = 0, being_set = 1;
  atomic<std::uint64_t> context_;
  void const* function_ = nullptr;  // written once, before context_
};

/// @return what cudaLaunchKernelExC would, which searches for the kernel and its context first
template <class Kernel, class Build>
cudaError_t launch_kernel(cudaLaunchConfig_t const& config, void** arguments) {
  void const* const kernel = launchable<Kernel, Build>();
#if CUDART_VERSION >= 12010 && !WARPWRIGHT_NO_DRIVER_LAUNCH
  static context_function function;
  launch_functions const* const driver = launch_functions::find();
  if (driver != nullptr && kernel != kernel_address<Kernel>() &&
      driver->launch(&config, function.find(*driver, kernel), arguments, nullptr) == 0) {
    return cudaSuccess;
  }
  // The runtime makes a thread's context where there is none yet, and reports what is wrong.
#endif
  return cudaLaunchKernelExC(&config, kernel, arguments);
}

/// Whether the code of `Kernel` that the current device runs waits by itself. Code that does not
/// must never be launched early: it would run beside the kernel whose results it reads.
template <class Kernel, class Build>
bool waits_by_itself() {
  if constexpr (Build::all_wait || !Build::some_wait) {
    return Build::all_wait;
  } else {
    static atomic<std::uint64_t> known;  // two bits a device: 0 is not known, 1 no, 2 yes
    int device = 0;
    if (cudaGetDevice(&device) != cudaSuccess || device >= 32) return false;
    unsigned const shift = 2U * static_cast<unsigned>(device);
    std::uint64_t answer = known.load(memory_order::relaxed) >> shift & 3U;
    if (answer == 0) {
      cudaFuncAttributes attributes{};
      if (cudaFuncGetAttributes(&attributes, launchable<Kernel, Build>()) != cudaSuccess) {
        discard(cudaGetLastError());  // the launch reports it
        return false;
      }
      // The architecture that it was compiled for, whether nvcc finished that or the driver did.
      answer = attributes.ptxVersion >= 90 ? 2U : 1U;
      known.fetch_or(answer << shift, memory_order::relaxed);
    }
    return answer == 2U;
  }
}

/// Allows `Kernel` as much dynamic shared memory as the current device gives a block.
/// @return that, in bytes; 0 where a query fails, and the next call queries again
template <class Kernel, class Build = this_build>
std::size_t max_dynamic_shared_bytes() {
  static atomic<int> known[32];  // of each device; 0: not known
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess || device >= 32) return 0;
  int most = known[device].load(memory_order::relaxed);
  if (most != 0) return static_cast<std::size_t>(most);
  void const* const kernel = launchable<Kernel, Build>();
  cudaFuncAttributes attributes{};
  cudaError_t status =
      cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  if (status == cudaSuccess) status = cudaFuncGetAttributes(&attributes, kernel);
  most -= static_cast<int>(attributes.sharedSizeBytes);
  if (status == cudaSuccess) {
    status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most);
  }
  if (status != cudaSuccess) {
    discard(cudaGetLastError());  // the launch reports it, if it fails as well
    return 0;
  }
  known[device].store(most, memory_order::relaxed);
  return static_cast<std::size_t>(most);
}

template <class Kernel, class Build = this_build>
void launch_on_device(stream_ref stream, unsigned blocks, unsigned threads,
                      std::size_t dynamic_bytes, Kernel const& kernel, source_location where) {
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3{blocks};
  config.blockDim = dim3{threads};
  config.dynamicSmemBytes = dynamic_bytes;
  config.stream = stream.get();
  config.attrs = &early;
  void* arguments[] = {const_cast<void*>(static_cast<void const*>(&kernel))};  // only read
  auto const launch = [&](bool again) {
    // The attribute is that of the kernel on the device.
    if (again && dynamic_bytes != 0) max_dynamic_shared_bytes<Kernel, Build>();
    config.numAttrs = waits_by_itself<Kernel, Build>() ? 1 : 0;
    return launch_kernel<Kernel, Build>(config, arguments);
  };
  check(launch_on_any(stream.get(), launch), "kernel launch", where);
}

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace detail

WARPWRIGHT_END

#endif  // defined(__CUDACC__)
