// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/observe/monitor.hpp>

#include <warpwright/core/detail/text/figures.hpp>

WARPWRIGHT_BEGIN

WARPWRIGHT_INLINE gpu_field_table& gpu_fields() noexcept {
  using s = gpu_sample;
  using u = gpu_unit;
  static constexpr gpu_field_table table = {
      {"utilization", u::share, &s::utilization},
      {"memory_traffic", u::share, &s::memory_traffic},
      {"memory_used_bytes", u::bytes, &s::memory_used_bytes},
      {"memory_free_bytes", u::bytes, &s::memory_free_bytes},
      {"memory_total_bytes", u::bytes, &s::memory_total_bytes},
      {"temperature_celsius", u::celsius, &s::temperature_celsius},
      {"power_watts", u::watts, &s::power_watts},
      {"power_limit_watts", u::watts, &s::power_limit_watts},
      {"sm_clock_mhz", u::megahertz, &s::sm_clock_mhz},
      {"memory_clock_mhz", u::megahertz, &s::memory_clock_mhz},
      {"ecc_corrected", u::count, &s::ecc_corrected},
      {"ecc_uncorrected", u::count, &s::ecc_uncorrected},
      {"pcie_generation", u::count, &s::pcie_generation},
      {"pcie_width", u::count, &s::pcie_width},
      {"sm_activity", u::share, &s::sm_activity},
      {"sm_occupancy", u::share, &s::sm_occupancy},
      {"tensor_activity", u::share, &s::tensor_activity},
      {"dram_activity", u::share, &s::dram_activity},
      {"pcie_sent_bytes_per_s", u::bytes_per_s, &s::pcie_sent_bytes_per_s},
      {"pcie_received_bytes_per_s", u::bytes_per_s, &s::pcie_received_bytes_per_s},
      {"nvlink_sent_bytes_per_s", u::bytes_per_s, &s::nvlink_sent_bytes_per_s},
      {"nvlink_received_bytes_per_s", u::bytes_per_s, &s::nvlink_received_bytes_per_s},
      {"processes", u::count, &s::processes},
      {"mps_clients", u::count, &s::mps_clients},
      {"mig_mode", u::count, &s::mig_mode}};
  return table;
}

namespace detail {

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE string_builder figure_text(gpu_unit unit, double value) {
  constexpr char const* suffixes[] = {" %", "", "/s", " C", " W", " MHz", ""};
  if (unit == gpu_unit::share) value *= 100.0;
  bool const bytes = unit == gpu_unit::bytes || unit == gpu_unit::bytes_per_s;
  return (bytes ? format_bytes(value) : format_number("%.4g", value)) +
         suffixes[static_cast<int>(unit)];
}

// "name  value  value …" of the figures that the last of the samples has, and what is absent.
WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE string_builder
figure_table(gpu_sample const* const* samples, int count) {
  string_builder table;
  string_builder absent;
  for (gpu_field const& field : gpu_fields()) {
    if (!(samples[count - 1]->*field.figure)) {
      absent += string_builder{absent.empty() ? "" : ", "} + field.name;
      continue;
    }
    table += padded(string_builder{"  "} + field.name, 30, true);
    for (int i = 0; i < count; ++i) {
      gpu_sample::figure const& figure = samples[i]->*field.figure;
      table += padded(figure ? figure_text(field.unit, *figure) : "-", 14);
    }
    table += "\n";
  }
  return absent.empty() ? table : table + "  not told: " + absent + "\n";
}

}  // namespace detail

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE std::string to_string(throttle_reasons reasons) {
  constexpr char const* names[] = {
      "idle",         "application_clocks", "power_cap",        "hardware_slowdown",
      "sync_boost",   "thermal_slowdown",   "hardware_thermal", "hardware_power_brake",
      "display_clock"};
  std::string text;
  auto rest = static_cast<unsigned long long>(reasons);
  for (char const* const name : names) {
    if ((rest & 1U) != 0) text += (text.empty() ? "" : "|") + std::string{name};
    rest >>= 1U;
  }
  if (rest != 0) text += text.empty() ? "other" : "|other";
  return text.empty() ? "none" : text;
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE std::string to_text(gpu_sample const& sample) {
  gpu_sample const* const samples[] = {&sample};
  detail::string_builder text = detail::figure_table(samples, 1);
  if (sample.throttle)
    text += "  throttle: " + detail::string_builder{to_string(*sample.throttle)} + "\n";
  return text;
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE std::string to_csv(gpu_sample const& sample) {
  detail::string_builder line = detail::format_number("%.6f", sample.seconds);
  for (gpu_field const& field : gpu_fields()) {
    line += ',';
    if (sample.*field.figure) line += detail::format_number("%.15g", *(sample.*field.figure));
  }
  line += ',';
  if (sample.throttle) line += to_string(*sample.throttle);
  return line;
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE std::string gpu_sample_csv_header() {
  detail::string_builder line = "seconds";
  for (gpu_field const& field : gpu_fields()) line += detail::string_builder{','} + field.name;
  return line + ",throttle";
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE std::string to_text(monitor_statistics const& s) {
  using build = detail::string_builder;
  build text = build{"GPU "} + s.uuid;
  if (!s.unavailable.empty()) text += build{": "} + s.unavailable;
  text += build{"\n"} + detail::counted(static_cast<std::size_t>(s.samples), "sample") + " in " +
          detail::format_seconds(s.last.seconds) + "\n";
  if (s.samples == 0) return text;
  text +=
      "                                        last          mean           min           max\n";
  gpu_sample const* const samples[] = {&s.last, &s.mean, &s.min, &s.max};
  text += detail::figure_table(samples, 4);
  if (s.throttled_share && s.throttled_by) {
    text += "  throttled: " + detail::format_percent(*s.throttled_share) +
            " of the samples, by: " + to_string(*s.throttled_by) + "\n";
  }
  return text;
}

WARPWRIGHT_END
