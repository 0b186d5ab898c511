// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The energy that a GPU uses, as NVML counts it:
//
//   if (auto const energy = ww::energy_counter::try_open(device)) {
//     tuner = tuner.objective(ww::throughput_per_joule(energy));
//   }
#pragma once

#include <warpwright/core/detail/system/dynamic_library.hpp>
#include <warpwright/core/detail/text/string_builder.hpp>
#include <warpwright/core/detail/thread/atomic.hpp>
#include <warpwright/core/device.hpp>
#include <warpwright/core/error.hpp>

#include <stdexcept>
#include <string>
#include <utility>

WARPWRIGHT_BEGIN

namespace detail {

/// A GPU as the driver's management library, NVML, knows it. The library is loaded at run time, so
/// that no program links it. Functions return what failed, with the remedy; empty: nothing.
/// Real is double: a template, so that a file which only includes the header does not compile it.
template <typename Real>
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
    Real joules = 0;
    return read(joules);
  }

  /// @param joules  set to the energy since the driver was loaded
  std::string read(Real& joules) const {
    unsigned long long millijoules = 0;
    if (int const code = energy_(device_, &millijoules)) {
      return failure("nvmlDeviceGetTotalEnergyConsumption", code) +
             "; GPUs before Volta and MIG devices have no counter of energy";
    }
    joules = static_cast<Real>(millijoules) / 1000;
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

/// Reads the energy that a GPU has used, for throughput_per_joule().
///
/// It counts the whole board: also the energy of other processes, and of an idle GPU. NVML comes
/// with the driver and is loaded when a counter is opened; nothing links it. Where glibc is older
/// than 2.34, link with `-ldl`. Copies share one session of NVML, which the last one ends.
///
/// **Threads:** any number at once.
class energy_counter {
 public:
  /// A counter of no device, as try_open() returns if the energy cannot be read.
  energy_counter() noexcept = default;
  /// Opens the counter of a device.
  /// @param device  of compute capability 7.0 or newer, not a MIG device
  /// @throws std::runtime_error     if the energy cannot be read, with the reason and the remedy:
  ///   there is no NVML, or the device has no such counter
  /// @throws std::invalid_argument  for an ordinal that does not exist
  /// **Stream:** none. **Capture:** legal. **Cost:** the start of NVML, milliseconds.
  explicit energy_counter(device_id device, source_location where = source_location::current())
      : energy_counter{where} {
    fail_if(open(device));
  }
  /// Opens the counter of a device, where failure is normal.
  /// @param device  as in the constructor
  /// @return a counter of no device if the energy cannot be read
  /// @throws std::invalid_argument  for an ordinal that does not exist
  /// **Stream:** none. **Capture:** legal. **Cost:** that of the constructor.
  [[nodiscard]] static energy_counter try_open(device_id device,
                                               source_location where = source_location::current()) {
    energy_counter counter{where};
    return counter.open(device).empty() ? counter : energy_counter{};
  }
  energy_counter(energy_counter const& other) noexcept
      : where_{other.where_}, session_{other.session_} {
    if (session_ != nullptr) session_->owners.fetch_add(1, detail::memory_order::relaxed);
  }
  energy_counter& operator=(energy_counter other) noexcept {
    std::swap(where_, other.where_);
    std::swap(session_, other.session_);
    return *this;
  }
  ~energy_counter() {
    if (session_ != nullptr && session_->owners.fetch_sub(1, detail::memory_order::acq_rel) == 1)
      delete session_;
  }

  /// @return whether it has a device
  [[nodiscard]] explicit operator bool() const noexcept { return session_ != nullptr; }
  /// @pre it has a device
  /// @return the energy that the device has used since the driver was loaded, joules; changes every
  ///   20 to 100 ms
  /// @throws std::runtime_error  if NVML fails
  /// **Stream:** none. **Capture:** legal. **Cost:** a call of NVML.
  double operator()() const {
    double joules = 0.0;
    fail_if(session_->nvml.read(joules));
    return joules;
  }

 private:
  struct session {
    detail::nvml_device<double> nvml;
    detail::atomic<int> owners{1};
  };

  explicit energy_counter(source_location where) : where_{where}, session_{new session} {}

  std::string open(device_id device) {
    return session_->nvml.open(detail::uuid_text(detail::device_properties(device, where_)));
  }
  void fail_if(std::string const& problem) const {
    if (problem.empty()) return;
    throw std::runtime_error{
        (detail::string_builder{detail::text{where_.file(), where_.line()}.c_str()} +
         ": energy_counter: " + problem)
            .str()};
  }

  source_location where_ = source_location::current();
  session* session_ = nullptr;
};

WARPWRIGHT_END
