// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Activity records as CUPTI lays them out, and the functions that deliver them: CUPTI's, or the
// host runtime's, which writes the same. Only the first members, which CUDA 12 and 13 share.
#pragma once

#include <warpwright/core/detail/config.hpp>

#include <cstddef>
#include <cstdint>

WARPWRIGHT_BEGIN

namespace detail {

enum class activity_kind : std::int32_t {
  copy = 1,
  fill = 2,
  driver_call = 4,
  runtime_call = 5,
  kernel = 10,  // CONCURRENT_KERNEL: it does not serialise kernels
  peer_copy = 22,
  graph = 51
};

// cuLaunchKernel and cuLaunchKernelEx, with the default streams of either kind: kernels of this
// library are launched by the driver, and other calls of the driver are not recorded.
inline constexpr std::uint32_t driver_call_limit = 1500;  // more than any version has
constexpr bool is_driver_launch(std::uint32_t call) noexcept {
  return call == 307 || call == 442 || call == 652 || call == 653;
}

/// Of a copy's ends: CUpti_ActivityMemoryKind.
enum class activity_memory : std::uint8_t { unknown, pageable, pinned, device };
/// Directions that are counted apart: CUpti_ActivityMemcpyKind.
enum class activity_copy : std::uint8_t { to_device = 1, to_host = 2, on_device = 8, peer = 10 };

// All times are in nanoseconds of activity_functions::timestamp; 0: not known.

struct kernel_activity {
  activity_kind kind;
  std::uint8_t cache[2];
  std::uint16_t registers;
  std::int32_t partitioned_cache[2];
  std::uint64_t start, end, completed;
  std::uint32_t device, context, stream;
  std::int32_t grid[3], block[3];
  std::int32_t static_shared, dynamic_shared;
  std::uint32_t local_a_thread, local_total;
  std::uint32_t correlation;
  std::int64_t grid_id;
  char const* name;  // mangled
};

struct copy_activity {
  activity_kind kind;
  activity_copy direction;
  activity_memory source, destination;
  std::uint8_t flags;
  std::uint64_t bytes, start, end;
  std::uint32_t device, context, stream;
  std::uint32_t correlation;  // of a peer copy: its source's device
  std::uint32_t peer[3];      // of a peer copy alone: the devices and contexts of both ends
  std::uint32_t peer_correlation;
};

struct fill_activity {
  activity_kind kind;
  std::uint32_t value;
  std::uint64_t bytes, start, end;
  std::uint32_t device, context, stream;
  std::uint32_t correlation;
};

struct graph_activity {
  activity_kind kind;
  std::uint32_t correlation;
  std::uint64_t start, end;
  std::uint32_t device, graph, context, stream;
};

/// A call of the runtime or the driver.
struct call_activity {
  activity_kind kind;
  std::uint32_t function;
  std::uint64_t start, end;
  std::uint32_t process, thread;  // the low bits of pthread_self()
  std::uint32_t correlation;
  std::uint32_t result;
};

/// What a callback at the begin and the end of a call gets: CUpti_CallbackData.
struct callback_data {
  std::int32_t at_end;
  char const* function;
  void const* parameters;  // a struct of them
  void* result;
  char const* symbol;
  void* context;
};

/// Functions with CUPTI's signatures; each returns 0, or an error's number.
struct activity_functions {
  using request = void (*)(std::uint8_t** buffer, std::size_t* bytes, std::size_t* max_records);
  using complete = void (*)(void* context, std::uint32_t stream, std::uint8_t* buffer,
                            std::size_t bytes, std::size_t valid_bytes);

  int (*version)(std::uint32_t*);
  int (*timestamp)(std::uint64_t*);
  int (*register_callbacks)(request, complete);
  int (*enable)(activity_kind);
  int (*disable)(activity_kind);
  int (*flush)(std::uint32_t forced);
  int (*dropped)(void* context, std::uint32_t stream, std::size_t*);
  int (*next)(std::uint8_t* buffer, std::size_t valid_bytes, void** record);
  int (*function_name)(int domain, std::uint32_t function, char const**);
  int (*error_text)(int, char const**);
  int (*subscribe)(void** subscriber, void* callback, void* data);  // or null
  int (*unsubscribe)(void*);
  int (*enable_driver_call)(std::uint32_t function, std::uint8_t on);    // or null
  int (*set_attribute)(int attribute, std::size_t* bytes, void* value);  // or null
  bool (*may_have_graphs)();  // whether a graph may have been instantiated
  int (*enable_callback)(std::uint32_t on, void* subscriber, int domain, std::uint32_t function);
  bool (*waited)();  // the host runtime's, at the end of a call: whether it waited for earlier work
};

}  // namespace detail

WARPWRIGHT_END

#if WARPWRIGHT_HOST_RUNTIME
extern "C" {
/// The host runtime's functions. They differ from CUPTI's in that a buffer is handed over only when
/// it is full or flushed.
void warpwrightHostActivity(warpwright::detail::activity_functions* functions);
}
#endif
