// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The one place where the two runtimes differ: nvcc launches a kernel, the host runtime runs the
// same functor, block by block, on the stream's worker.
//
// Two macros, each defined for a whole program or not at all, change how kernels are launched:
//   WARPWRIGHT_NO_EARLY_LAUNCH=1   No kernel of the library starts before the one ahead of it in
//     its stream has ended, nor lets the next one start early. Define it where a kernel of your
//     own, launched with programmatic stream serialization behind one of the library, does not call
//     cudaGridDependencySynchronize(): the kernels of the library behind yours are then still
//     ordered. Yours must not access what those of the library read or write, with or without it.
//   WARPWRIGHT_NO_DRIVER_LAUNCH=1  Launches go through the runtime by the kernel's address, for
//     tools that intercept the runtime alone.
#pragma once

#include <warpwright/core/detail/capture/capture_count.hpp>
#include <warpwright/core/detail/device/scoped_stream_device.hpp>
#include <warpwright/core/detail/launch/block.hpp>
#include <warpwright/core/detail/launch/device_launch.hpp>
#include <warpwright/core/detail/launch/kernel_launch.hpp>
#include <warpwright/core/detail/padding.hpp>
#include <warpwright/core/stream.hpp>

#include <cstdint>
#include <type_traits>

WARPWRIGHT_BEGIN

// One `detail` only: a second one in another inline namespace would make the name ambiguous.
namespace detail {

template <class...>
inline constexpr bool always_false = false;

/// The most dynamic shared memory that launch_blocks() can give a block of `Kernel`.
/// @param cluster_blocks  that share a cluster, which is one block of the host's
template <class Kernel>
std::size_t dynamic_shared_limit([[maybe_unused]] unsigned cluster_blocks) {
#if !WARPWRIGHT_HOST_RUNTIME && defined(__CUDACC__)
  return max_dynamic_shared_bytes(kernel_of<Kernel>());
#else
  return Kernel::host_dynamic_bytes / cluster_blocks;
#endif
}

/// The most blocks of a cluster that launch_blocks() can launch `Kernel` with. The host executes a
/// cluster as one block.
template <class Kernel>
unsigned cluster_limit() {
#if !WARPWRIGHT_HOST_RUNTIME && defined(__CUDACC__)
  return max_cluster_blocks(kernel_of<Kernel>());
#else
  return 8;
#endif
}

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

#if WARPWRIGHT_HOST_RUNTIME
template <class Kernel>
struct host_kernel {
  Kernel kernel;
  unsigned blocks;
  unsigned threads;

  static constexpr char identity = 0;  // its address is the kernel's, one for each type
  static void run(void const* arguments, unsigned long long begin, unsigned long long end) {
    auto const& self = *static_cast<host_kernel const*>(arguments);
    for (; begin != end; ++begin) {
      host_block<Kernel> block{static_cast<unsigned>(begin), self.blocks, self.threads};
      self.kernel(block);
    }
  }
};
#endif

/// Launches a kernel, as block.hpp describes it, on `blocks` blocks.
/// @param blocks  at least one
/// @param dynamic_bytes  of shared memory, at most dynamic_shared_limit()
/// @param name    of the public function, for errors and graph reports of the host runtime
/// @param cluster_blocks  that share a cluster, at most cluster_limit(); divides `blocks`
/// @throws std::invalid_argument  for more blocks than a grid holds
/// @throws cuda_error             when the launch fails
template <class Kernel>
void launch_blocks(stream_ref stream, std::uint64_t blocks, unsigned threads, Kernel const& kernel,
                   char const* name, source_location where, std::size_t dynamic_bytes = 0,
                   unsigned cluster_blocks = 1) {
  static_assert(sizeof(Kernel) <= Kernel::max_bytes,
                "warpwright: the expressions' numbers and functions take more than a kernel's "
                "arguments can hold; pass them by pointer or split the expressions");
#if WARPWRIGHT_HOST_RUNTIME
  blocks /= cluster_blocks;
  threads *= cluster_blocks;
#endif
  [[maybe_unused]] launch_request const request{stream, blocks, threads,       dynamic_bytes,
                                                name,   where,  cluster_blocks};
#if WARPWRIGHT_HOST_RUNTIME
  host_kernel<Kernel> all{kernel, static_cast<unsigned>(blocks), threads};
  if (may_be_capturing_anywhere()) clear_padding(all);
  warpwright_host_kernel launch{};
  launch.function = &host_kernel<Kernel>::identity;
  launch.run = &host_kernel<Kernel>::run;
  launch.arguments = &all;
  launch.arguments_bytes = sizeof all;
  launch.arguments_alignment = alignof(host_kernel<Kernel>);
  launch_on_host(request, launch);
#elif defined(__CUDACC__)
  // compare_graphs() compares the arguments of captured kernels byte by byte.
  if (WARPWRIGHT_CLEARS_PADDING && may_be_capturing_anywhere()) {
    Kernel cleared(kernel);
    clear_padding(cleared);
    launch_on_device(request, kernel_of<Kernel>(), &cleared);
    return;
  }
  launch_on_device(request, kernel_of<Kernel>(), &kernel);
#else
  static_cast<void>(kernel);
  static_assert(always_false<Kernel>,
                "warpwright: this call needs a kernel: compile this file with nvcc (name it .cu), "
                "or link warpwright::host_runtime to run without a GPU");
#endif
}

/// Where a kernel runs: on a stream, or block by block on the calling thread.
struct on_stream {
  stream_ref stream;
  source_location where;
  template <class Kernel>
  static std::size_t dynamic_shared_limit(unsigned cluster_blocks) {
    return detail::dynamic_shared_limit<Kernel>(cluster_blocks);
  }
  template <class Kernel>
  static unsigned cluster_limit() {
    return detail::cluster_limit<Kernel>();
  }
  template <class Kernel>
  void operator()(std::uint64_t blocks, unsigned threads, Kernel const& kernel, char const* name,
                  std::size_t dynamic_bytes = 0, unsigned cluster_blocks = 1) const {
    launch_blocks(stream, blocks, threads, kernel, name, where, dynamic_bytes, cluster_blocks);
  }
};
struct on_calling_thread {
  source_location where = source_location::current();
  template <class Kernel>
  static constexpr std::size_t dynamic_shared_limit(unsigned cluster_blocks) {
    return Kernel::host_dynamic_bytes / cluster_blocks;
  }
  template <class Kernel>
  static constexpr unsigned cluster_limit() {
    return 8;
  }
  template <class Kernel>
  void operator()(std::uint64_t blocks, unsigned threads, Kernel const& kernel, char const* name,
                  std::size_t = 0, unsigned cluster_blocks = 1) const {
    run_blocks(grid_blocks(blocks / cluster_blocks, name, where), threads * cluster_blocks, kernel);
  }
};

// Past this many blocks, for_each_index() lets each thread take several indices.
inline constexpr std::uint64_t max_index_blocks = std::uint64_t{1} << 30U;

template <class F>
struct index_kernel : kernel_base<256> {
  F f;
  std::uint64_t n;

  index_kernel(F const& function, std::uint64_t count) : f{function}, n{count} {}

  WARPWRIGHT_NO_EXEC_CHECK
  template <class Block>
  WARPWRIGHT_HOST_DEVICE void operator()(Block& block) const {
    std::uint64_t const step = std::uint64_t{block.count()} * max_threads;
    block.for_each_thread([&](unsigned t) {
      for (std::uint64_t i = std::uint64_t{block.index()} * max_threads + t; i < n; i += step) f(i);
    });
  }
};

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace detail

WARPWRIGHT_END
WARPWRIGHT_BEGIN_PER_COMPILER

/// Calls f(i) once for every i in [0, n), in parallel and in no order.
/// @pre `F` is trivially copyable with a const `WARPWRIGHT_HOST_DEVICE void operator()(uint64_t)`
///   that does not throw, and what it points to stays alive until the stream has passed it
/// @param stream  the stream to run on, of any device
/// @param n       number of indices, up to 2^64 - 1; 0 launches nothing
/// @param f       copied at the call, as a kernel's argument
/// @throws cuda_error  when the launch fails
/// **Stream:** one kernel, ordered on `stream`; does not block. **Threads:** any. **Capture:**
/// legal.
/// **Cost:** one kernel launch and cuCtxGetId; the first of a kernel also calls cudaGetKernel and
/// cuKernelGetFunction, and the first of all looks up the driver's functions. Compiled for
/// architectures both below and from 9.0, a launch also calls cudaGetDevice, and the first of a
/// kernel on a device cudaFuncGetAttributes.
template <class F>
void for_each_index(stream_ref stream, std::uint64_t n, F const& f,
                    source_location where = source_location::current()) {
  static_assert(std::is_trivially_copyable<F>::value,
                "warpwright::for_each_index: the functor must be trivially copyable, as a kernel's "
                "argument is: hold pointers and numbers, not containers");
  if (n == 0) return;
  std::uint64_t const blocks = (n - 1) / 256 + 1;
  detail::launch_blocks(stream,
                        blocks < detail::max_index_blocks ? blocks : detail::max_index_blocks, 256U,
                        detail::index_kernel<F>{f, n}, "for_each_index", where);
}

WARPWRIGHT_END_PER_COMPILER
