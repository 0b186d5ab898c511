// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Control of the host runtime, the CPU implementation of the CUDA runtime API that a program links
// as warpwright::host_runtime. It is a test tool: it never pretends to measure a GPU's speed, and
// the names of its devices say what they are.
//
// What it catches
//   - device memory touched by host code: a SIGSEGV at the access, where the CPU has memory
//     protection keys (Intel since Skylake-SP, AMD since Zen 3; see protection_keys());
//   - device memory used after its free: a SIGSEGV, or with ASan a report; contents after an
//     allocation are 0xFF bytes (NaN), not zeros;
//   - an access beyond an allocation: with ASan a report; otherwise beyond the page;
//   - API calls with a pointer of the wrong side, an interior, foreign, freed or too short pointer,
//   a
//     destroyed handle: the error that CUDA gives, or where CUDA's behaviour is undefined
//     cudaErrorInvalidValue or cudaErrorInvalidResourceHandle;
//   - missing synchronisation between streams, or between a stream and the host: a ThreadSanitizer
//     report, when this library and the program are built with it. The runtime's own locks are
//     hidden from it; it sees the order that CUDA promises and no more.
// What it does not catch: kernels that read pageable host memory, races between branches of one
// graph (a launched graph runs its nodes one after another), races inside one kernel.
//
// Environment, for a whole unmodified process, read at the first call into the runtime
//   WARPWRIGHT_HOST_PROFILE       the device: "H100" (default), "A100", "L4", "T4", "P4", "V100",
//                                 "RTX 4090", "RTX 5090", "B200"
//   WARPWRIGHT_HOST_DEVICES       number of devices, 0 to 16, default 1
//   WARPWRIGHT_HOST_MEMORY_BYTES  memory of each device, default 4 GiB; "profile": the board's own
//   WARPWRIGHT_HOST_TIME=counted  events tell host_runtime_options::counted_time
//   WARPWRIGHT_HOST_FAULT         a fault_plan, as fault_plan::parse() reads it
//   WARPWRIGHT_HOST_LEAKS=1       at exit, lists on stderr what was never freed or destroyed, and
//                                 ends the process with status 23 if there was anything (by _exit:
//                                 exit handlers registered before the first CUDA call do not run)
//   WARPWRIGHT_HOST_CALLS=file    at exit, writes one line "name count" a function, in the order of
//                                 their first calls
// A value that cannot be read ends the process at that first call with a message on stderr and
// status 2.
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

/// The published properties of a GPU that the host runtime reports.
struct device_profile {
  std::string name;  ///< "H100"; reported as "H100 (host runtime)"
  int compute_capability_major = 0;
  int compute_capability_minor = 0;
  int multiprocessor_count = 0;
  std::size_t memory_bytes = 0;  ///< of the board; see host_runtime_options::memory_bytes
  int memory_bus_width_bits = 0;
  int memory_clock_khz = 0;  ///< half the data rate, as CUDA reports it
  int core_clock_khz = 0;    ///< boost
  std::size_t l2_cache_bytes = 0;
  std::size_t shared_bytes_per_multiprocessor = 0;
  std::size_t shared_bytes_per_block_optin = 0;
  int threads_per_multiprocessor = 0;
  int blocks_per_multiprocessor = 0;
  bool ecc = false;

  /// Finds a profile by name, ignoring case: "H100", "A100", "L4", "T4", "P4", "V100", "RTX 4090",
  /// "RTX 5090", "B200".
  /// @throws std::invalid_argument naming the known profiles.
  static device_profile named(std::string const& name);

  /// The names that named() knows.
  static std::vector<std::string> names();
};

/// How reset_host_runtime() sets up the runtime.
struct host_runtime_options {
  device_profile profile = device_profile::named("H100");
  int device_count = 1;  ///< 0 to 16
  /// Of each device, reported and enforced; 0: the profile's.
  std::size_t memory_bytes = std::size_t{4} << 30;
  /// Events tell a counted time, in which each operation of a stream takes one microsecond, so that
  /// what a program measures with events, and does because of it, is the same in every run.
  bool counted_time = false;

  /// @param name  as device_profile::named() takes it @throws std::invalid_argument
  host_runtime_options& with_profile(std::string const& name);
  /// @param count  of devices, 0 to 16
  host_runtime_options& with_devices(int count);
  /// @param bytes  of each device; 0: the profile's
  host_runtime_options& with_memory_bytes(std::size_t bytes);
  /// @param on  whether events tell counted_time
  host_runtime_options& with_counted_time(bool on = true);
};

/// Ends all work, destroys every device, stream, event, graph and allocation, and starts anew.
///
/// Work that is running ends first; work that is queued is dropped. A user object that only graphs
/// refer to is destroyed; one that the program still refers to is forgotten. Handles and pointers
/// from before are invalid afterwards, sticky errors are gone, calls are counted from zero again.
/// @pre no other thread is inside a runtime call, and no host function of this runtime calls it.
/// @throws std::invalid_argument when an option is outside its range.
void reset_host_runtime(host_runtime_options const& options = {});

/// How often one function was called.
struct call_record {
  std::string name;
  std::uint64_t count = 0;
};

/// Calls of one function since the start or the last reset, failed ones included.
///
/// @param name of the CUDA runtime API; the `_ptsz` and `_ptds` variants count under the plain
/// name, driver functions under theirs ("cuMemCreate"), kernel launches under "cudaLaunchKernel".
std::uint64_t call_count(std::string const& name);

/// Calls of all functions since the start or the last reset.
std::uint64_t total_calls();

/// Every function called since the start or the last reset, in the order of first calls: what a
/// sweep that fails each call in turn goes through.
std::vector<call_record> calls();

/// Sets all call counts to zero.
void reset_call_counts();

/// What exists in the runtime now.
struct host_runtime_stats {
  std::size_t device_memory_bytes =
      0;  ///< taken from the devices, all kinds, pools' reserves included
  std::size_t device_allocations = 0;  ///< live pointers to device or managed memory
  std::size_t host_allocations = 0;    ///< pinned allocations and registrations
  std::size_t streams = 0;             ///< created and not destroyed
  std::size_t events = 0;
  std::size_t graphs = 0;
  std::size_t graph_execs = 0;
  std::size_t memory_pools = 0;      ///< created; default pools are not counted
  std::size_t user_objects = 0;      ///< made, and their destructor has not returned
  std::uint64_t operations_run = 0;  ///< stream operations completed since the last reset
};

/// @return the figures of this moment
host_runtime_stats stats();

/// One line for each thing that was made and not freed or destroyed; empty when there is nothing.
///
/// **Stream:** synchronises with the frees that are queued and with destructors of user objects
/// that are due.
/// @pre no host function or destructor of this runtime calls it.
std::vector<std::string> leak_report();

/// Makes a device answer `code` to everything from now on, as after a kernel's illegal access.
///
/// @pre 0 <= device < device count, `code` is not cudaSuccess.
/// @throws std::invalid_argument when it is not so.
void poison_device(int device, cudaError_t code);

/// Declares a function address as a kernel with these attributes, for cudaFuncGetAttributes and the
/// occupancy calls. A kernel that was launched once is known without it, with 32 registers.
///
/// @param function any address that is not null.
/// @throws std::invalid_argument when `function` is null.
void set_function_attributes(void const* function, cudaFuncAttributes const& attributes);

/// Whether host code that touches device memory is stopped by the CPU (memory protection keys).
bool protection_keys();

#pragma GCC visibility pop

}  // namespace testing
WARPWRIGHT_END
