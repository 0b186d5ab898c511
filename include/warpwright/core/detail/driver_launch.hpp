// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/driver_function.hpp>

#include <cstdint>

WARPWRIGHT_BEGIN

namespace detail {
// Hidden: each library of a program has its own runtime, and asks that for its own kernels.
inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

#if CUDART_VERSION >= 12030

/// What a launch calls of the driver. cuLaunchKernelEx' configuration is laid out as the runtime's,
/// its attributes are the same, and a cudaFunction_t is its CUfunction: a test compares them with
/// <cuda.h>.
struct driver_launch {
  int (*context_id)(CUctx_st* context, unsigned long long* id) = nullptr;
  int (*launch)(cudaLaunchConfig_t const*, cudaFunction_t, void** arguments,
                void** extra) = nullptr;

  static driver_launch const& get() noexcept {
    static driver_launch const found = [] {
      driver_launch calls;
      if (!find_driver_function("cuCtxGetId", calls.context_id) ||
          !find_driver_function("cuLaunchKernelEx", calls.launch)) {
        calls.launch = nullptr;
      }
      return calls;
    }();
    return found;
  }
};

/// Launches one kernel; of static storage, as it keeps what the driver knows the kernel by. The
/// runtime passes a handle of all contexts, which the driver looks up in the current one at every
/// launch: 0.25 to 0.5 us (H100, driver 580).
class driver_kernel {
 public:
  /// @return what cudaLaunchKernelExC would
  cudaError_t launch(cudaLaunchConfig_t const* config, void const* kernel, void** arguments) {
    driver_launch const& driver = driver_launch::get();
    unsigned long long id = 0;  // CUDA never uses one again, unlike the context's address
    if (driver.launch != nullptr && driver.context_id(nullptr, &id) == 0) {
      cudaFunction_t const function = find(id + 1, kernel);
      if (function != nullptr && driver.launch(config, function, arguments, nullptr) == 0) {
        return cudaSuccess;
      }
    }
    // The runtime makes a thread's context where there is none yet, and knows what is wrong.
    return cudaLaunchKernelExC(config, kernel, arguments);
  }

 private:
  static constexpr std::uint64_t being_filled = ~std::uint64_t{0};
  static constexpr unsigned most_contexts = 8;  // in others the runtime launches
  struct entry {
    std::uint64_t context;  // 0: none yet; an entry is filled once
    cudaFunction_t function;
  };

  /// @return null for a kernel that the runtime has to launch
  cudaFunction_t find(std::uint64_t context, void const* kernel) noexcept {
    entry const& first = entries_[context % most_contexts];
    if (__atomic_load_n(&first.context, __ATOMIC_ACQUIRE) == context) return first.function;
    return find_further(context, kernel);
  }
  WARPWRIGHT_NOINLINE cudaFunction_t find_further(std::uint64_t context,
                                                  void const* kernel) noexcept {
    for (unsigned k = 0; k < most_contexts; ++k) {
      entry& here = entries_[(context + k) % most_contexts];
      std::uint64_t held = __atomic_load_n(&here.context, __ATOMIC_ACQUIRE);
      if (held == context) return here.function;
      if (held != 0) continue;
      if (!__atomic_compare_exchange_n(&here.context, &held, being_filled, false, __ATOMIC_ACQUIRE,
                                       __ATOMIC_RELAXED)) {
        return nullptr;  // by another thread, at this moment
      }
      cudaFunction_t function = nullptr;
      bool const found = cudaGetFuncBySymbol(&function, kernel) == cudaSuccess;
      if (!found) discard(cudaGetLastError());  // the launch will say it
      here.function = function;
      __atomic_store_n(&here.context, found ? context : 0, __ATOMIC_RELEASE);
      return found ? function : nullptr;
    }
    return nullptr;
  }

  entry entries_[most_contexts] = {};  // the compiler's builtins, as <atomic> costs compile time
};

#else

class driver_kernel {
 public:
  cudaError_t launch(cudaLaunchConfig_t const* config, void const* kernel, void** arguments) {
    return cudaLaunchKernelExC(config, kernel, arguments);
  }
};

#endif

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace detail

WARPWRIGHT_END
