// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/tune/energy_counter.hpp>

#include <warpwright/core/detail/device/nvml.hpp>
#include <warpwright/core/detail/text/string_builder.hpp>
#include <warpwright/core/detail/thread/atomic.hpp>

#include <stdexcept>

WARPWRIGHT_BEGIN

namespace detail {

/// The counter of energy of a GPU. Functions return what failed, with the remedy; empty: nothing.
class nvml_energy {
 public:
  std::string open(std::string const& uuid) {
    text const problem = library_.open(uuid.c_str(), device_);
    if (!problem.empty()) return problem.c_str();
    if (!library_.find("nvmlDeviceGetTotalEnergyConsumption", energy_)) {
      return "libnvidia-ml.so.1 has no counter of energy; install a driver of 2018 or newer";
    }
    double joules = 0;
    return read(joules);
  }

  /// @param joules  set to the energy since the driver was loaded
  std::string read(double& joules) const {
    unsigned long long millijoules = 0;
    if (int const code = energy_(device_, &millijoules)) {
      return (library_.failure("nvmlDeviceGetTotalEnergyConsumption", code) +
              "; GPUs before Volta and MIG devices have no counter of energy")
          .c_str();
    }
    joules = static_cast<double>(millijoules) / 1000;
    return {};
  }

 private:
  nvml_library library_;
  void* device_ = nullptr;
  int (*energy_)(void*, unsigned long long*) = nullptr;
};

}  // namespace detail

struct energy_counter::session {
  detail::nvml_energy nvml;
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
