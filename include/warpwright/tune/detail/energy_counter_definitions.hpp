// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/tune/energy_counter.hpp>

#include <warpwright/core/detail/system/dynamic_library.hpp>
#include <warpwright/core/detail/text/string_builder.hpp>
#include <warpwright/core/detail/thread/atomic.hpp>

#include <stdexcept>

WARPWRIGHT_BEGIN

namespace detail {

/// A GPU as the driver's management library, NVML, knows it. The library is loaded at run time, so
/// that no program links it. Functions return what failed, with the remedy; empty: nothing.
class nvml_device {
 public:
  nvml_device() = default;
  ~nvml_device() {
    if (initialised_) shutdown_();
  }
  nvml_device(nvml_device const&) = delete;
  nvml_device& operator=(nvml_device const&) = delete;

  /// @param uuid  since NVML and CUDA number the devices differently
  std::string open(std::string const& uuid) {
    if (char const* const reason = library_.open("libnvidia-ml.so.1")) {
      return string_builder{reason} +
             "; NVML comes with the NVIDIA driver, and into a container with "
             "NVIDIA_DRIVER_CAPABILITIES=utility";
    }
    int (*init)() = nullptr;
    int (*find)(char const*, void**) = nullptr;
    bool const loaded = library_.find("nvmlInit_v2", init) &&
                        library_.find("nvmlShutdown", shutdown_) &&
                        library_.find("nvmlErrorString", error_string_) &&
                        library_.find("nvmlDeviceGetHandleByUUID", find) &&
                        library_.find("nvmlDeviceGetTotalEnergyConsumption", energy_);
    if (!loaded) {
      return "libnvidia-ml.so.1 has no counter of energy; install a driver of 2018 or newer";
    }
    if (int const code = init()) {
      return failure("nvmlInit_v2", code) + "; see whether nvidia-smi works";
    }
    initialised_ = true;
    if (int const code = find(uuid.c_str(), &device_)) {
      return failure("nvmlDeviceGetHandleByUUID", code) + " for " + uuid +
             "; NVML must see the GPU that CUDA sees";
    }
    double joules = 0;
    return read(joules);
  }

  /// @param joules  set to the energy since the driver was loaded
  std::string read(double& joules) const {
    unsigned long long millijoules = 0;
    if (int const code = energy_(device_, &millijoules)) {
      return failure("nvmlDeviceGetTotalEnergyConsumption", code) +
             "; GPUs before Volta and MIG devices have no counter of energy";
    }
    joules = static_cast<double>(millijoules) / 1000;
    return {};
  }

 private:
  string_builder failure(char const* call, int code) const {
    char const* const reason = error_string_(code);
    return string_builder{call} + ": " + (reason == nullptr ? "unknown error" : reason) + " (" +
           code + ")";
  }

  dynamic_library library_;
  void* device_ = nullptr;
  bool initialised_ = false;
  int (*shutdown_)() = nullptr;
  char const* (*error_string_)(int) = nullptr;
  int (*energy_)(void*, unsigned long long*) = nullptr;
};

}  // namespace detail

struct energy_counter::session {
  detail::nvml_device nvml;
  detail::atomic<int> owners{1};
};

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE energy_counter::energy_counter(source_location where)
    : where_{where}, session_{new session} {}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE energy_counter::energy_counter(device_id device,
                                                                       source_location where)
    : energy_counter{where} {
  fail_if(open(device));
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE energy_counter
energy_counter::try_open(device_id device, source_location where) {
  energy_counter counter{where};
  return counter.open(device).empty() ? counter : energy_counter{};
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE
energy_counter::energy_counter(energy_counter const& other) noexcept
    : where_{other.where_}, session_{other.session_} {
  if (session_ != nullptr) session_->owners.fetch_add(1, detail::memory_order::relaxed);
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE energy_counter::~energy_counter() {
  if (session_ != nullptr && session_->owners.fetch_sub(1, detail::memory_order::acq_rel) == 1)
    delete session_;
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE double energy_counter::operator()() const {
  double joules = 0.0;
  fail_if(session_->nvml.read(joules));
  return joules;
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE std::string energy_counter::open(device_id device) {
  return session_->nvml.open(detail::uuid_text(detail::device_properties(device, where_)));
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE void energy_counter::fail_if(
    std::string const& problem) const {
  if (problem.empty()) return;
  throw std::runtime_error{
      (detail::string_builder{detail::text{where_.file(), where_.line()}.c_str()} +
       ": energy_counter: " + problem)
          .str()};
}

WARPWRIGHT_END
