// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What a tuning_store keeps: the result of a tune, and the key under which it is found again.
#pragma once

#include <warpwright/core/device.hpp>

#include <cstddef>
#include <string>
#include <vector>

WARPWRIGHT_BEGIN

/// What a stored result is valid for: a workload, a device, an objective and versions.
///
/// A plain value. Texts may hold any bytes; an empty one is a value like any other.
struct tuning_key {
  std::string kind = "batch";  ///< what was chosen: "batch" or "choice"
  std::string tag;             ///< the user's name of the workload, with the version of its model
  std::string device;          ///< the device's name without the MIG profile
  std::string mig_profile;     ///< such as "1g.10gb"; empty: the whole device
  std::string objective;       ///< what was maximised, and under which limits
  /// The memory limit of the tune; 0: none. Use a fixed number: one computed from the free memory
  /// differs in every process, so that nothing is found again.
  std::size_t memory_cap_bytes = 0;
  std::size_t device_memory_bytes = 0;  ///< without what the driver reserves
  std::string driver_version;           ///< the newest CUDA version of the driver, such as "13.0"
  std::string runtime_version;          ///< of the CUDA runtime, such as "13.0"
  std::string library_version;          ///< of this library, such as "0.1.0"

  /// The key of a device, with kind "batch", no tag, no objective and no cap.
  ///
  /// CUDA does not report the version of the driver itself ("580.65.06"): two drivers for the same
  /// CUDA version have the same key, unless you write that version into `driver_version`.
  ///
  /// @param device  an ordinal below device_count()
  /// @return the key, for the caller to add the tag and the objective
  /// @throws cuda_error             when a query fails
  /// @throws std::invalid_argument  for an ordinal that does not exist
  ///
  /// **Threads:** any; the current device does not change. **Capture:** not legal during a capture
  /// of global mode by the calling thread. **Cost:** queries of the driver, under a millisecond;
  /// creates no context.
  [[nodiscard]] static tuning_key of_device(device_id device,
                                            source_location where = source_location::current());
};

/// The figures of one batch size, from which a latency model can be built again.
struct tuning_point {
  std::size_t batch = 0;         ///< items
  double median_seconds = 0.0;   ///< median latency of one batch
  double p99_seconds = 0.0;      ///< 99th percentile of the same; 0: not known
  std::size_t memory_bytes = 0;  ///< peak memory; 0: not known
};

/// A figure or text of the user's own in a record.
struct tuning_field {
  std::string name;   ///< 1 to 64 letters, digits, '_', '-' or '.'
  std::string value;  ///< any bytes
};

/// One stored result.
struct tuning_record {
  tuning_key key;                       ///< what the result is valid for
  std::size_t batch = 0;                ///< the chosen size, items; 0: none
  double items_per_second = 0.0;        ///< its throughput; 0: not known
  double latency_median_seconds = 0.0;  ///< its median latency; 0: not known
  double latency_p99_seconds = 0.0;     ///< the 99th percentile of its latency; 0: not known
  std::size_t memory_bytes = 0;         ///< its peak memory; 0: not known
  std::vector<tuning_point> points;     ///< further sizes that were measured
  std::vector<tuning_field> fields;     ///< the user's own
  std::string date;  ///< UTC, "2026-11-23T20:44:07Z"; empty: put() sets the time of the call

  /// Finds a field by its name.
  /// @return the value, valid as long as this record is unchanged; null if there is none
  [[nodiscard]] std::string const* field(char const* name) const noexcept;
};

WARPWRIGHT_END
