// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The launch, without the kernel's type: of kernel code by CUDA's runtime or driver, or of a
// function by the host runtime.
#pragma once

#include <cuda_runtime_api.h>

#include <warpwright/core/stream.hpp>
#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/core/detail/launch/host_launch.hpp>
#else
#include <warpwright/core/detail/thread/atomic.hpp>
#endif

#include <cstddef>
#include <cstdint>

WARPWRIGHT_BEGIN

namespace detail {
// Hidden: a kernel is registered with the runtime of one library of a program.
inline namespace per_library WARPWRIGHT_HIDDEN_NAMESPACE {

/// Where and how a kernel is launched.
struct launch_request {
  stream_ref stream;
  std::uint64_t blocks;  ///< at least one
  unsigned threads;      ///< of a block
  std::size_t dynamic_bytes;
  char const* name;  ///< of the public function, for errors and graph reports of the host runtime
  source_location where;
  unsigned cluster_blocks = 1;  ///< at most max_cluster_blocks() of the kernel; divides `blocks`
};

/// @throws std::invalid_argument  for more blocks than a grid holds
unsigned grid_blocks(std::uint64_t blocks, char const* name, source_location const& where);

#if WARPWRIGHT_HOST_RUNTIME

/// @param kernel  its function and arguments; the rest is set here
void launch_on_host(launch_request const& request, warpwright_host_kernel& kernel);

#else

/// A kernel's function in the first context that launches it. Given the handle for all contexts
/// instead, the driver looks that function up at every launch: 0.2 to 0.3 us (H100, driver 580).
class context_function {
 public:
  /// @return the function; `handle`, which launches as well, in any other context
  void const* find(struct launch_functions const& driver, void const* handle) noexcept;

 private:
  static constexpr std::uint64_t unset = 0, being_set = 1;
  atomic<std::uint64_t> context_;
  void const* function_ = nullptr;  // written once, before context_
};

/// What is kept between the launches of a kernel. One for all files of a library, though nvcc gives
/// each file a kernel of its own: attributes are set on one of them.
struct kernel_state {
  atomic<void const*> handle;
  context_function function;
  atomic<std::uint64_t> waits;    // two bits a device: 0 is not known, 1 no, 2 yes
  atomic<int> dynamic_limit[32];  // dynamic shared memory on each device; 0: not known
};

/// Whether a kernel may start before the one ahead of it in its stream has ended. Code that does
/// not wait by itself must not: it would run beside the kernel whose results it reads.
enum class early_start : unsigned char { never, always, where_it_waits };

struct device_kernel {
  kernel_state* state;
  void const* address;
  early_start early;
  bool by_driver;  ///< where the driver has the functions
};

/// What every call passes for `kernel`: its handle for all contexts, or its address where the
/// runtime has no handle.
void const* launchable(device_kernel const& kernel);

/// Allows a kernel as much dynamic shared memory as the current device gives a block.
/// @return that, in bytes; 0 where a query fails, and the next call queries again
std::size_t max_dynamic_shared_bytes(device_kernel const& kernel);

/// The most blocks of a cluster that the kernel can be launched with on the current device: 8 from
/// compute capability 9.0 on, where it is compiled for that, and 1 elsewhere.
unsigned max_cluster_blocks(device_kernel const& kernel);

/// @param arguments  the kernel's one parameter
/// @throws std::invalid_argument  for more blocks than a grid holds
/// @throws cuda_error             when the launch fails
void launch_on_device(launch_request const& request, device_kernel const& kernel,
                      void const* arguments);

#endif

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/core/detail/launch/kernel_launch_definitions.hpp>
#endif
