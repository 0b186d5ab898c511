// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Controls the host runtime, the CPU implementation of the CUDA runtime API that a program links as
// warpwright::host_runtime. It is for tests and does not measure a GPU's speed; the names of its
// devices end in "(host runtime)".
//
// It detects
//   - an access to device memory by host code: a SIGSEGV at the access, if the CPU has memory
//     protection keys (Intel since Skylake-SP, AMD since Zen 3; see protection_keys());
//   - use of device memory after its free: a SIGSEGV, or a report of ASan. Newly allocated memory
//     holds 0xFF bytes (NaN), not zeros;
//   - an access beyond an allocation: a report of ASan; without ASan only beyond the last page;
//   - API calls with a pointer to the wrong memory space, an interior, foreign, freed or too short
//     pointer, or a destroyed handle: CUDA's error or, where CUDA's behaviour is undefined,
//     cudaErrorInvalidValue or cudaErrorInvalidResourceHandle;
//   - missing synchronisation between streams, or between a stream and the host: a report of
//     ThreadSanitizer, if this library and the program are built with it. The runtime's own locks
//     are hidden from it: it observes only the order that CUDA guarantees.
// It does not detect kernels that read pageable host memory, races between branches of one graph (a
// launched graph runs its nodes one after another), and races within one kernel.
//
// Environment variables, for a whole unmodified process, read at the first call into the runtime
//   WARPWRIGHT_HOST_PROFILE       the device: "H100" (default), "A100", "L4", "T4", "P4", "V100",
//                                 "RTX 4090", "RTX 5090", "B200"
//   WARPWRIGHT_HOST_DEVICES       number of devices, 0 to 16, default 1
//   WARPWRIGHT_HOST_MEMORY_BYTES  memory of each device, default 4 GiB; "profile": the real board's
//   WARPWRIGHT_HOST_TIME=simulated  events record host_runtime_options::simulated_time
//   WARPWRIGHT_HOST_FAULT         a fault_plan, in the syntax of fault_plan::parse()
//   WARPWRIGHT_HOST_LEAKS=1       lists leaks on stderr at exit, and ends with status 23
//                                 if there are any (by _exit: exit handlers registered before the
//                                 first CUDA call do not run)
//   WARPWRIGHT_HOST_CALLS=file    writes a line "name count" per function at exit, in the order of
//                                 their first calls; ends with status 2 if that fails
// A malformed value, or a file that cannot be written, ends the process at that first call with a
// message on stderr and status 2.
#pragma once

#include <cuda_runtime_api.h>
#include <warpwright/core/detail/config.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#if !WARPWRIGHT_HOST_RUNTIME
#error \
    "warpwright: testing/host_runtime.hpp controls the host runtime; link warpwright::host_runtime, which sets WARPWRIGHT_HOST_RUNTIME"
#endif

WARPWRIGHT_BEGIN
namespace testing {

#pragma GCC visibility push(default)

/// The published properties of a GPU, which the host runtime reports.
struct device_profile {
  std::string name;  ///< "H100"; reported as "H100 (host runtime)"
  int compute_capability_major = 0;
  int compute_capability_minor = 0;
  int multiprocessor_count = 0;
  std::size_t memory_bytes = 0;  ///< of the board; see host_runtime_options::memory_bytes
  int memory_bus_width_bits = 0;
  int memory_clock_khz = 0;  ///< half the data rate, as CUDA reports it
  int core_clock_khz = 0;    ///< boost clock
  std::size_t l2_cache_bytes = 0;
  std::size_t shared_bytes_per_multiprocessor = 0;
  std::size_t shared_bytes_per_block_optin = 0;
  int threads_per_multiprocessor = 0;
  int blocks_per_multiprocessor = 0;
  bool ecc = false;

  /// Finds a profile by name, ignoring case: "H100", "A100", "L4", "T4", "P4", "V100", "RTX 4090",
  /// "RTX 5090", "B200".
  /// @throws std::invalid_argument listing the known profiles.
  static device_profile named(std::string const& name);

  /// @return the names of all profiles
  static std::vector<std::string> names();
};

/// The configuration for reset_host_runtime(): a value, each setter of which returns a changed
/// copy.
struct host_runtime_options {
  device_profile profile = device_profile::named("H100");
  int device_count = 1;  ///< 0 to 16
  /// Of each device, reported and enforced; 0: the profile's.
  std::size_t memory_bytes = std::size_t{4} << 30;
  /// Events record a simulated time, in which each operation of a stream takes one microsecond.
  /// Times measured with events, and decisions based on them, are then the same in every run.
  bool simulated_time = false;

  /// @param name  a name of device_profile::names()
  /// @throws std::invalid_argument listing the known profiles
  [[nodiscard]] host_runtime_options with_profile(std::string const& name) const;
  /// @param count  number of devices, 0 to 16
  [[nodiscard]] host_runtime_options with_devices(int count) const;
  /// @param bytes  memory of each device; 0: the profile's
  [[nodiscard]] host_runtime_options with_memory_bytes(std::size_t bytes) const;
  /// @param on  whether events record simulated_time
  [[nodiscard]] host_runtime_options with_simulated_time(bool on = true) const;
};

/// Destroys all devices, streams, events, graphs and allocations, and initialises the runtime
/// again.
///
/// All handles and pointers are invalid afterwards. Running work completes first; queued work is
/// dropped. A user object referenced only by graphs is destroyed; one that the program still
/// references is not tracked any more. Sticky errors are cleared, and calls are counted from zero.
/// @pre no other thread is inside a runtime call, and no host function of this runtime calls it.
/// @throws std::invalid_argument when an option is outside its range.
void reset_host_runtime(host_runtime_options const& options = {});

/// The number of calls of one function.
struct call_record {
  std::string name;
  std::uint64_t count = 0;
};

/// Returns the number of calls of one function since the start or the last reset, failed calls
/// included.
///
/// @param name of the CUDA runtime API; `_ptsz` and `_ptds` variants count under the plain name,
/// driver functions under their own ("cuMemCreate"), kernel launches under "cudaLaunchKernel".
/// @throws std::invalid_argument when the host runtime has no such function, naming the nearest.
std::uint64_t call_count(std::string const& name);

/// Returns the number of calls of all functions since the start or the last reset.
std::uint64_t total_calls();

/// Lists all functions called since the start or the last reset, in the order of first calls. Use
/// it for a test that lets each call fail, one after another.
std::vector<call_record> calls();

/// Sets all call counts to zero.
void reset_call_counts();

/// The objects that exist in the runtime.
struct host_runtime_stats {
  std::size_t device_memory_bytes = 0;  ///< allocated on all devices, pools' reserves included
  std::size_t device_allocations = 0;   ///< live pointers to device or managed memory
  std::size_t host_allocations = 0;     ///< pinned allocations and registrations
  std::size_t streams = 0;              ///< created and not destroyed
  std::size_t events = 0;
  std::size_t graphs = 0;
  std::size_t graph_execs = 0;
  std::size_t memory_pools = 0;      ///< created; default pools are not counted
  std::size_t user_objects = 0;      ///< created, and their destructor has not returned
  std::uint64_t operations_run = 0;  ///< stream operations completed since the last reset
};

/// Counts the objects that exist at this moment.
host_runtime_stats stats();

/// Lists each object that was created and not freed or destroyed, a line per object; empty if there
/// is none.
///
/// **Stream:** waits for queued frees and for pending destructors of user objects.
/// @pre no host function or destructor of this runtime calls it.
std::vector<std::string> leak_report();

/// Gives a device a sticky error: all later calls on it return `code`, as after a kernel's illegal
/// memory access.
///
/// @param device  from 0 to device count - 1
/// @param code  not cudaSuccess
/// @throws std::invalid_argument when an argument is outside its range.
void poison_device(int device, cudaError_t code);

/// Registers a function address as a kernel with these attributes, for cudaFuncGetAttributes and
/// the occupancy calls. A kernel that has been launched is registered already, with 32 registers.
///
/// @param function any address that is not null.
/// @throws std::invalid_argument when `function` is null.
void set_function_attributes(void const* function, cudaFuncAttributes const& attributes);

/// Returns whether an access to device memory by host code raises SIGSEGV (memory protection keys).
bool protection_keys();

#pragma GCC visibility pop

}  // namespace testing
WARPWRIGHT_END
