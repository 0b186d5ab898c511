// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The one seam between the two runtimes: nvcc launches a kernel, the host runtime runs the same
// functor on the stream's worker.
#pragma once

#if defined(__CUDACC__)
#include <cuda_runtime.h>
#endif

#include <warpwright/core/stream.hpp>

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/core/detail/host_launch.hpp>
#endif

#include <cstdint>
#include <type_traits>

WARPWRIGHT_BEGIN

// One `detail` only: a second one in another inline namespace would make the name ambiguous.
namespace detail {
inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

template <class>
inline constexpr bool always_false = false;

#if WARPWRIGHT_HOST_RUNTIME

template <class Body>
struct host_kernel {
  static void run(void const* arguments, unsigned long long begin, unsigned long long end) {
    (*static_cast<Body const*>(arguments))(std::uint64_t{begin}, std::uint64_t{end});
  }
  static constexpr char identity = 0;  // its address is the kernel's, one a Body
};

/// Enqueues body(begin, end) over [0, size) as one kernel of the host runtime.
template <class Body>
void launch_host(stream_ref stream, char const* name, std::uint64_t size, Body const& body,
                 source_location where) {
  warpwright_host_kernel kernel{};
  kernel.name = name;
  kernel.function = &host_kernel<Body>::identity;
  kernel.run = &host_kernel<Body>::run;
  kernel.arguments = &body;
  kernel.arguments_bytes = sizeof(Body);
  kernel.arguments_alignment = alignof(Body);
  kernel.size = size;
  check(warpwrightHostLaunchKernel(&kernel, stream.get()), "kernel launch", where);
}

template <class F>
struct index_loop {
  F f;
  void operator()(std::uint64_t begin, std::uint64_t end) const {
    for (std::uint64_t i = begin; i < end; ++i) f(i);
  }
};

#elif defined(__CUDACC__)

inline constexpr unsigned index_block_threads = 256;
// Below the grid's hardware limit of 2^31 - 1 blocks; past it, each thread strides.
inline constexpr std::uint64_t index_grid_limit = std::uint64_t{1} << 30U;

template <class F>
__global__ void __launch_bounds__(index_block_threads) index_kernel(F f, std::uint64_t n) {
  std::uint64_t const stride = std::uint64_t{gridDim.x} * index_block_threads;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * index_block_threads + threadIdx.x; i < n;
       i += stride) {
    f(i);
  }
}

/// Launches a kernel and checks it.
template <class... Parameters, class... Arguments>
void launch_kernel(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes,
                   stream_ref stream, source_location where, Arguments const&... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream.get();
  check(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...), "kernel launch",
        where);
}

#endif

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace detail

WARPWRIGHT_END
WARPWRIGHT_BEGIN_PER_COMPILER

/// Calls f(i) once for every i in [0, n), in parallel and in no order.
/// @pre `F` is trivially copyable with a const `WARPWRIGHT_HOST_DEVICE void operator()(uint64_t)`
///   that does not throw, and what it points to stays alive until the stream has passed it
/// @param stream  the stream to run on
/// @param n       number of indices, up to 2^64 - 1; 0 launches nothing
/// @param f       copied at the call, as a kernel's argument
/// @throws cuda_error  when the launch fails
/// **Stream:** one kernel, ordered on `stream`; does not block. **Threads:** any. **Capture:**
/// legal.
/// **Cost:** one kernel launch.
template <class F>
void for_each_index(stream_ref stream, std::uint64_t n, F const& f,
                    source_location where = source_location::current()) {
  static_assert(std::is_trivially_copyable<F>::value,
                "warpwright::for_each_index: the functor must be trivially copyable, as a kernel's "
                "argument is: hold pointers and numbers, not containers");
#if WARPWRIGHT_HOST_RUNTIME
  if (n == 0) return;
  detail::launch_host(stream, "for_each_index", n, detail::index_loop<F>{f}, where);
#elif defined(__CUDACC__)
  if (n == 0) return;
  std::uint64_t const blocks = (n - 1) / detail::index_block_threads + 1;
  auto const grid =
      static_cast<unsigned>(blocks < detail::index_grid_limit ? blocks : detail::index_grid_limit);
  detail::launch_kernel(&detail::index_kernel<F>, dim3{grid}, dim3{detail::index_block_threads}, 0,
                        stream, where, f, n);
#else
  static_cast<void>(stream), static_cast<void>(n), static_cast<void>(f), static_cast<void>(where);
  static_assert(detail::always_false<F>,
                "warpwright::for_each_index needs a kernel: compile this file with nvcc (name it "
                ".cu), or link warpwright::host_runtime to run without a GPU");
#endif
}

WARPWRIGHT_END_PER_COMPILER
