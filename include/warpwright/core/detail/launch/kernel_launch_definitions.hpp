// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/launch/kernel_launch.hpp>

#include <warpwright/core/detail/device/scoped_stream_device.hpp>
#include <warpwright/core/detail/launch/driver_function.hpp>
#include <warpwright/core/detail/text/text.hpp>

WARPWRIGHT_BEGIN_DEFINITIONS

namespace detail {
inline namespace per_library WARPWRIGHT_HIDDEN_NAMESPACE {

inline constexpr std::uint64_t max_grid_blocks = 0x7fffffff;

WARPWRIGHT_INLINE unsigned grid_blocks(std::uint64_t blocks, char const* name,
                                       source_location const& where) {
  if (blocks > max_grid_blocks) {
    throw_invalid_argument(text{name} + ": there are " + blocks +
                               " blocks of work, and a grid has at most 2^31 - 1; evaluate it in "
                               "parts",
                           where);
  }
  return static_cast<unsigned>(blocks);
}

#if WARPWRIGHT_HOST_RUNTIME

WARPWRIGHT_NOINLINE WARPWRIGHT_INLINE void launch_on_host(launch_request const& request,
                                                          warpwright_host_kernel& kernel) {
  kernel.name = request.name;
  kernel.size = grid_blocks(request.blocks, request.name, request.where);
  kernel.threads = request.threads;
  kernel.shared_bytes = request.dynamic_bytes;
  auto const run = [&](bool) { return warpwrightHostLaunchKernel(&kernel, request.stream.get()); };
  check(launch_on_any(request.stream.get(), run), "kernel launch", request.where);
}

#else

/// The driver's functions of a launch. cuLaunchKernelEx takes handles of kernels; its configuration
/// is laid out as the runtime's and its attributes are the same: a test compares them with
/// <cuda.h>.
struct launch_functions {
  int (*context_id)(CUctx_st* context, unsigned long long* id) = nullptr;
  int (*function_of)(void const** function, void const* kernel) = nullptr;
  int (*launch)(cudaLaunchConfig_t const*, void const* kernel, void** arguments,
                void** extra) = nullptr;

  /// @return null if this driver lacks one of them
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

WARPWRIGHT_INLINE void const* context_function::find(launch_functions const& driver,
                                                     void const* handle) noexcept {
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

WARPWRIGHT_COLD WARPWRIGHT_NOINLINE WARPWRIGHT_INLINE void const* find_launchable(
    device_kernel const& kernel) {
  void const* found = kernel.address;
#if CUDART_VERSION >= 12010
  cudaKernel_t handle = nullptr;
  if (kernel.by_driver) {
    if (cudaGetKernel(&handle, found) != cudaSuccess) {
      discard(cudaGetLastError());
      return found;  // the launch reports it, and the next one queries again
    }
    found = handle;
  }
#endif
  void const* expected = nullptr;
  bool const first = kernel.state->handle.compare_exchange(expected, found, memory_order::acq_rel,
                                                           memory_order::acquire);
  return first ? found : expected;
}

WARPWRIGHT_INLINE void const* launchable(device_kernel const& kernel) {
  void const* const found = kernel.state->handle.load(memory_order::acquire);
  return found != nullptr ? found : find_launchable(kernel);
}

WARPWRIGHT_NOINLINE WARPWRIGHT_INLINE bool waits_on_current_device(device_kernel const& kernel) {
  atomic<std::uint64_t>& known = kernel.state->waits;
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess || device >= 32) return false;
  unsigned const shift = 2U * static_cast<unsigned>(device);
  std::uint64_t answer = known.load(memory_order::relaxed) >> shift & 3U;
  if (answer == 0) {
    cudaFuncAttributes attributes{};
    if (cudaFuncGetAttributes(&attributes, launchable(kernel)) != cudaSuccess) {
      discard(cudaGetLastError());  // the launch reports it
      return false;
    }
    // The architecture that it was compiled for, whether nvcc finished that or the driver did.
    answer = attributes.ptxVersion >= 90 ? 2U : 1U;
    known.fetch_or(answer << shift, memory_order::relaxed);
  }
  return answer == 2U;
}

WARPWRIGHT_INLINE bool waits_by_itself(device_kernel const& kernel) {
  return kernel.early == early_start::where_it_waits ? waits_on_current_device(kernel)
                                                     : kernel.early == early_start::always;
}

WARPWRIGHT_INLINE std::size_t max_dynamic_shared_bytes(device_kernel const& kernel) {
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess || device >= 32) return 0;
  atomic<int>& known = kernel.state->dynamic_limit[device];
  int most = known.load(memory_order::relaxed);
  if (most != 0) return static_cast<std::size_t>(most);
  void const* const found = launchable(kernel);
  cudaFuncAttributes attributes{};
  cudaError_t status =
      cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  if (status == cudaSuccess) status = cudaFuncGetAttributes(&attributes, found);
  most -= static_cast<int>(attributes.sharedSizeBytes);
  if (status == cudaSuccess) {
    status = cudaFuncSetAttribute(found, cudaFuncAttributeMaxDynamicSharedMemorySize, most);
  }
  if (status != cudaSuccess) {
    discard(cudaGetLastError());  // the launch reports it, if it fails as well
    return 0;
  }
  known.store(most, memory_order::relaxed);
  return static_cast<std::size_t>(most);
}

WARPWRIGHT_INLINE unsigned max_cluster_blocks(device_kernel const& kernel) {
  return waits_by_itself(kernel) ? 8 : 1;
}

/// @return what cudaLaunchKernelExC would, which searches for the kernel and its context first
WARPWRIGHT_INLINE cudaError_t launch_kernel(cudaLaunchConfig_t const& config,
                                            device_kernel const& kernel, void** arguments) {
  void const* const found = launchable(kernel);
#if CUDART_VERSION >= 12010
  launch_functions const* const driver = kernel.by_driver ? launch_functions::find() : nullptr;
  if (driver != nullptr && found != kernel.address &&
      driver->launch(&config, kernel.state->function.find(*driver, found), arguments, nullptr) ==
          0) {
    return cudaSuccess;
  }
  // The runtime makes a thread's context where there is none yet, and reports what is wrong.
#endif
  return cudaLaunchKernelExC(&config, found, arguments);
}

WARPWRIGHT_NOINLINE WARPWRIGHT_INLINE void launch_on_device(launch_request const& request,
                                                            device_kernel const& kernel,
                                                            void const* arguments) {
  cudaLaunchAttribute attributes[2] = {};
  cudaLaunchAttribute* last = attributes;
  if (request.cluster_blocks > 1) {
    last->id = cudaLaunchAttributeClusterDimension;
    last->val.clusterDim.x = request.cluster_blocks;
    last->val.clusterDim.y = last->val.clusterDim.z = 1;
    ++last;
  }
  last->id = cudaLaunchAttributeProgrammaticStreamSerialization;
  last->val.programmaticStreamSerializationAllowed = 1;
  auto const count = static_cast<unsigned>(last - attributes);
  cudaLaunchConfig_t config{};
  config.gridDim = dim3{grid_blocks(request.blocks, request.name, request.where)};
  config.blockDim = dim3{request.threads};
  config.dynamicSmemBytes = request.dynamic_bytes;
  config.stream = request.stream.get();
  config.attrs = attributes;
  void* parameters[] = {const_cast<void*>(arguments)};  // only read
  config.numAttrs = count + (waits_by_itself(kernel) ? 1 : 0);
  cudaError_t const status = launch_kernel(config, kernel, parameters);
  if (status != cudaSuccess) {
    auto const launch = [&](bool) {
      // These are of the kernel on the device.
      if (request.dynamic_bytes != 0) max_dynamic_shared_bytes(kernel);
      config.numAttrs = count + (waits_by_itself(kernel) ? 1 : 0);
      return launch_kernel(config, kernel, parameters);
    };
    check(launch_again(config.stream, status, launch), "kernel launch", request.where);
  }
}

#endif

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace detail

WARPWRIGHT_END_DEFINITIONS
