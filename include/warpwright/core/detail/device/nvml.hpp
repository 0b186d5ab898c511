// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// NVML, the driver's management library, with declarations of our own for what is used of it.
#pragma once

#include <warpwright/core/detail/system/dynamic_library.hpp>
#include <warpwright/core/detail/text/text.hpp>

WARPWRIGHT_BEGIN

namespace detail {

// What NVML's functions return, but for 0: success.
constexpr int nvml_not_supported = 3;
constexpr int nvml_insufficient_size = 7;
constexpr int nvml_function_not_found = 13;
constexpr int nvml_gpu_is_lost = 15;
constexpr int nvml_reset_required = 16;

/// NVML, loaded at run time, so that no program links it. What fails is a text with the remedy; an
/// empty text: nothing.
class nvml_library : dynamic_library {
 public:
  ~nvml_library() {
    if (initialised_) shutdown_();
  }

  /// Loads and initialises it, and finds a device.
  /// @param uuid    since NVML and CUDA number the devices differently
  /// @param device  set to its handle
  text open(char const* uuid, void*& device) noexcept {
    if (char const* const reason = dynamic_library::open("libnvidia-ml.so.1")) {
      return text{reason} +
             "; NVML comes with the NVIDIA driver, and into a container with "
             "NVIDIA_DRIVER_CAPABILITIES=utility";
    }
    int (*init)() = nullptr;
    int (*find_device)(char const*, void**) = nullptr;
    if (!find("nvmlInit_v2", init) || !find("nvmlShutdown", shutdown_) ||
        !find("nvmlErrorString", error_string_) ||
        !find("nvmlDeviceGetHandleByUUID", find_device)) {
      return "libnvidia-ml.so.1 lacks functions of 2012; install a newer driver";
    }
    if (int const code = init()) {
      return failure("nvmlInit_v2", code) + "; see whether nvidia-smi works";
    }
    initialised_ = true;
    if (int const code = find_device(uuid, &device)) {
      return failure("nvmlDeviceGetHandleByUUID", code) + " for " + uuid +
             "; NVML must see the GPU that CUDA sees";
    }
    return "";
  }
  using dynamic_library::find;
  using any_function = void (*)();
  /// @return null where the library lacks it
  any_function find(char const* name) const noexcept {
    any_function function = nullptr;
    return find(name, function) ? function : nullptr;
  }
  /// Without a function: what NVML answers where the GPU does not support it.
  template <class... Args>
  static int call(any_function function, Args... args) noexcept {
    if (function == nullptr) return nvml_not_supported;
    return reinterpret_cast<int (*)(Args...)>(function)(args...);
  }
  text failure(char const* call, int code) const noexcept {
    char const* const reason = error_string_(code);
    return text{call} + ": " + (reason == nullptr ? "unknown error" : reason) + " (" + code + ")";
  }

 private:
  bool initialised_ = false;
  int (*shutdown_)() = nullptr;
  char const* (*error_string_)(int) = nullptr;
};

// The structures have the layout of nvml.h; a version is the size with a number in the top byte.

struct nvml_memory {
  unsigned version = 40U | 2U << 24U;
  unsigned long long total, reserved, free, used;
};
static_assert(sizeof(nvml_memory) == 40, "the layout of nvmlMemory_v2_t");

// The performance counters (GPM).
struct nvml_gpm_metric {
  unsigned id;
  int code;
  double value;
  char const* texts[3];
};
struct nvml_gpm_query {
  unsigned version = 1;
  unsigned count;
  void* first;
  void* second;
  nvml_gpm_metric metrics[333];  // as many as NVML 13 declares, though it looks at `count`
};
static_assert(sizeof(nvml_gpm_metric) == 40 && sizeof(nvml_gpm_query) == 24 + 333 * 40,
              "its layout");

}  // namespace detail

WARPWRIGHT_END
