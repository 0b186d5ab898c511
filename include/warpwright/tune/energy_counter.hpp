// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The energy that a GPU uses, as NVML counts it:
//
//   if (auto const energy = ww::energy_counter::try_open(device)) {
//     tuner = tuner.objective(ww::throughput_per_joule(energy));
//   }
#pragma once

#include <warpwright/core/device.hpp>
#include <warpwright/core/error.hpp>

#include <string>
#include <utility>

WARPWRIGHT_BEGIN

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
  explicit energy_counter(device_id device, source_location where = source_location::current());
  /// Opens the counter of a device, where failure is normal.
  /// @param device  as in the constructor
  /// @return a counter of no device if the energy cannot be read
  /// @throws std::invalid_argument  for an ordinal that does not exist
  /// **Stream:** none. **Capture:** legal. **Cost:** that of the constructor.
  [[nodiscard]] static energy_counter try_open(device_id device,
                                               source_location where = source_location::current());
  energy_counter(energy_counter const& other) noexcept;
  energy_counter& operator=(energy_counter other) noexcept {
    std::swap(where_, other.where_);
    std::swap(session_, other.session_);
    return *this;
  }
  ~energy_counter();

  /// @return whether it has a device
  [[nodiscard]] explicit operator bool() const noexcept { return session_ != nullptr; }
  /// @pre it has a device
  /// @return the energy that the device has used since the driver was loaded, joules; changes every
  ///   20 to 100 ms
  /// @throws std::runtime_error  if NVML fails
  /// **Stream:** none. **Capture:** legal. **Cost:** a call of NVML.
  double operator()() const;

 private:
  struct session;

  explicit energy_counter(source_location where);

  std::string open(device_id device);
  void fail_if(std::string const& problem) const;

  source_location where_ = source_location::current();
  session* session_ = nullptr;
};

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/tune/detail/energy_counter_definitions.hpp>
#endif
