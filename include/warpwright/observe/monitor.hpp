// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What a GPU does while a program runs, as the driver's management library (NVML) tells it:
//
//   ww::monitor gpu{ww::monitor_options{}.every(0.5)};
//   train();
//   std::puts(ww::to_text(gpu.statistics()).c_str());
#pragma once

#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/core/detail/options.hpp>
#include <warpwright/core/device_id.hpp>
#include <warpwright/core/error.hpp>

#include <cstdint>
#include <optional>
#include <string>

WARPWRIGHT_BEGIN

/// Why the clocks of a GPU are below their maximum, as flags.
enum class throttle_reasons : unsigned long long {
  none = 0,
  idle = 0x1,
  application_clocks = 0x2,  ///< set by an administrator
  power_cap = 0x4,
  hardware_slowdown = 0x8,  ///< temperature, power brake or a faulty supply
  sync_boost = 0x10,        ///< another GPU of its group is slower
  thermal_slowdown = 0x20,
  hardware_thermal = 0x40,
  hardware_power_brake = 0x80,  ///< asked for by the power supply
  display_clock = 0x100,
  slowing = 0xfc,  ///< those that slow down work that runs: all but the others named here
};
constexpr throttle_reasons operator|(throttle_reasons a, throttle_reasons b) noexcept {
  return throttle_reasons(static_cast<unsigned long long>(a) | static_cast<unsigned long long>(b));
}
constexpr throttle_reasons operator&(throttle_reasons a, throttle_reasons b) noexcept {
  return throttle_reasons(static_cast<unsigned long long>(a) & static_cast<unsigned long long>(b));
}
/// @return the names of the flags, as "power_cap|thermal_slowdown"
std::string to_string(throttle_reasons reasons);

/// What a GPU tells at one time. What it does not tell is absent, never 0.
///
/// Shares are from 0 to 1. Of a MIG instance, memory, processes and the performance counters are
/// its own; the rest is that of the whole GPU, without a utilization.
struct gpu_sample {
  using figure = std::optional<double>;
  using member = figure gpu_sample::*;

  double seconds = 0.0;  ///< since the monitor was made
  /// The share of the last 1/6 to 1 s in which a kernel ran, if only of one thread: how much of the
  /// GPU is used is sm_activity.
  figure utilization;
  /// The share of that time in which device memory was read or written: not how much is allocated,
  /// nor the share of the bandwidth, which is dram_activity.
  figure memory_traffic;
  figure memory_used_bytes;  ///< of all processes, without what the driver reserves
  figure memory_free_bytes, memory_total_bytes;
  figure temperature_celsius;
  figure power_watts;  ///< of the board; of most GPUs the mean of the last second
  figure power_limit_watts;
  figure sm_clock_mhz, memory_clock_mhz;
  figure ecc_corrected, ecc_uncorrected;  ///< errors since the driver was loaded
  figure pcie_generation, pcie_width;     ///< of the link now: an idle GPU lowers it
  /// The performance counters of Hopper and newer, since the sample before: the share of
  /// multiprocessors with work, warps by the most that fit, the share of the time in which tensor
  /// cores worked, the share of the bandwidth of device memory, and what the GPU sent and received.
  figure sm_activity, sm_occupancy, tensor_activity, dram_activity;
  figure pcie_sent_bytes_per_s, pcie_received_bytes_per_s;
  figure nvlink_sent_bytes_per_s, nvlink_received_bytes_per_s;
  figure processes;    ///< those with a CUDA context, with monitor_options::processes()
  figure mps_clients;  ///< likewise: those that use the GPU through MPS
  figure mig_mode;     ///< 1: the GPU is divided into MIG instances
  std::optional<throttle_reasons> throttle;
};

/// A figure of a gpu_sample, for exporters.
enum class gpu_unit { share, bytes, bytes_per_s, celsius, watts, megahertz, count };
struct gpu_field {
  char const* name;  ///< of the member
  gpu_unit unit;
  gpu_sample::member figure;
};
using gpu_field_table = gpu_field const[25];
/// @return all figures, in the order of the members
gpu_field_table& gpu_fields() noexcept;

/// @return lines of names and values with units, and the names of what the GPU does not tell
std::string to_text(gpu_sample const& sample);
/// @return the values with commas between them, without the end of the line; absent ones are empty
std::string to_csv(gpu_sample const& sample);
/// @return the names of to_csv()'s values
std::string gpu_sample_csv_header();

/// What a monitor has seen.
struct monitor_statistics {
  std::string unavailable;  ///< as monitor::unavailable()
  bool lost = false;        ///< whether the GPU has failed; nothing is read any more
  std::string uuid;         ///< of the device, as nvidia-smi -L prints it
  std::uint64_t samples = 0;
  gpu_sample last;
  gpu_sample mean, min, max;                     ///< of the samples that have the figure
  std::optional<double> throttled_share;         ///< of the samples, those with a flag of `slowing`
  std::optional<throttle_reasons> throttled_by;  ///< the flags of `slowing` seen
};
/// @return a table of what the GPU tells: last, mean, smallest and largest figure
std::string to_text(monitor_statistics const& statistics);
/// Writes what the GPU told last to a metrics_page (observe/metrics.hpp). Writer is metrics_writer.
template <class Writer>
void add_metrics(Writer& to, monitor_statistics const& statistics) {
  for (gpu_field const& field : gpu_fields()) {
    gpu_sample::figure const& figure = statistics.last.*field.figure;
    if (figure) to.gauge(field.name, "As in gpu_sample.", *figure);
  }
}

namespace detail {
struct monitor_settings {
  double seconds = 0.0;
  int device = -1;
  bool has_device = false, processes = false;
};
class gpu_watch;
template <class T>
class process_bound;
}  // namespace detail

/// Options of a monitor. Every setter returns a changed copy.
class monitor_options : public detail::options_base<monitor_options, detail::monitor_settings> {
 public:
  /// Takes samples on a thread of the monitor's own, the first at once.
  /// @param seconds  0.01 to 86400; default: no thread. Below 0.17 s a GPU repeats its figures
  /// @throws std::invalid_argument  for another interval
  self every(double seconds, source_location where = source_location::current()) const;
  /// @param id  the device; default: the current one
  constexpr self device(device_id id) const {
    return with(&values::device, id.value()).with(&values::has_device, true);
  }
  /// Whether to count the processes on the GPU. The thread does it every tenth time.
  /// @param on  default: false, as the driver takes milliseconds, in which launches may wait
  constexpr self processes(bool on) const { return with(&values::processes, on); }
};

/// Watches a GPU by NVML, which is loaded at run time; nothing links it.
///
/// The device is found by its UUID, so that CUDA_VISIBLE_DEVICES does not matter, and no CUDA
/// context is made. Where NVML or the GPU is missing, in the child of a fork(), and once the GPU is
/// lost, a monitor does nothing. Where glibc is older than 2.34, link with `-ldl`.
///
/// **Threads:** any number may call any member at once.
class monitor : detail::noncopyable {
 public:
  /// Starts watching.
  /// @throws std::invalid_argument  for an ordinal that does not exist
  /// @throws std::bad_alloc         when memory is exhausted
  /// **Stream:** none. **Capture:** legal. **Cost:** the start of NVML, milliseconds; of the
  /// thread some 10 calls of microseconds an interval, and others every tenth time, as what took
  /// 1 ms three times in a row: the driver may be locked meanwhile.
  explicit monitor(monitor_options const& options = monitor_options{},
                   source_location where = source_location::current());
  /// Ends the thread, for which it waits, at most for a call of NVML.
  ~monitor();

  /// Takes a sample now.
  /// @return all absent where unavailable() says why. The performance counters stay as they are
  ///   within 0.1 s of the sample before
  /// **Stream:** none. **Capture:** legal. **Cost:** some 20 calls of NVML.
  gpu_sample sample();
  /// @return what was seen until now. **Cost:** no call of NVML, and no wait for one
  [[nodiscard]] monitor_statistics statistics() const;
  /// @return why nothing is read, with the remedy, in one line; "" while the monitor works
  [[nodiscard]] std::string unavailable() const { return statistics().unavailable; }

 private:
  detail::process_bound<detail::gpu_watch>* watch_;
};

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/observe/detail/monitor_definitions.hpp>
#include <warpwright/observe/detail/monitor_text_definitions.hpp>
#endif
