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
#elif defined(__CUDACC__)
#include <warpwright/core/detail/driver_launch.hpp>
#endif

#include <cstdint>
#include <type_traits>

WARPWRIGHT_BEGIN

// One `detail` only: a second one in another inline namespace would make the name ambiguous.
namespace detail {
inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

template <class...>
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

// Kernels of this library wait themselves for what is before them in the stream, so that a GPU of
// compute capability 9.0 or newer may start them before the memory of the kernel before is flushed,
// and sooner still where that kernel allows it (CUDA C++ Programming Guide, "Programmatic Dependent
// Launch and Synchronization"). That hides a part of the launch's latency.

/// Returns once what is before this kernel in its stream has ended and can be seen: a kernel's
/// first statement, in every thread.
__device__ inline void await_predecessors() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}

/// Lets the next kernel of the stream start when every block has come here or ended, if it waits by
/// itself for this one's end. To be called once what this kernel reads is on its way.
__device__ inline void release_successors() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}

/// Which of a kernel's builds a device runs, as far as anything depends on it.
enum class build : unsigned char {
  old,    ///< for a compute capability below 9.0
  waits,  ///< from 9.0: await_predecessors() waits
  wide    ///< from 10.0: it moves 32 bytes at a time, too
};

// The architectures that a file's kernels are compiled for. What depends on them carries this type
// in its name, so that files of one program that differ in it do not share answers.
template <int... Architectures>
struct built_for {
  static constexpr build of(int architecture) {
    return architecture >= 1000 ? build::wide : architecture >= 900 ? build::waits : build::old;
  }
  static constexpr bool all(build kind) { return ((of(Architectures) == kind) && ...); }
  static constexpr bool may_be(build kind) { return ((of(Architectures) == kind) || ...); }
};
// Edges of a graph have been able to say it since CUDA 12.3.
#if defined(__CUDA_ARCH_LIST__) && CUDART_VERSION >= 12030
using this_build = built_for<__CUDA_ARCH_LIST__>;
#else
using this_build = built_for<0>;
#endif

/// Answers which build of `kernel` the current device runs.
/// @tparam Kernel  a type that stands for the kernel: the answers are kept by it
template <class Kernel, class Build, class... Parameters>
build build_of(void (*kernel)(Parameters...)) {
  if constexpr (Build::all(build::old) || Build::all(build::waits) || Build::all(build::wide)) {
    static_cast<void>(kernel);
    return Build::all(build::old)     ? build::old
           : Build::all(build::waits) ? build::waits
                                      : build::wide;
  } else {
    // Two bits a device: 0 until it was asked, then the answer and 1. (The compiler's builtins:
    // <atomic> costs compile time.)
    static std::uint64_t known = 0;
    int device = 0;
    if (cudaGetDevice(&device) != cudaSuccess || device >= 32) return build::old;
    unsigned const place = 2U * static_cast<unsigned>(device);
    std::uint64_t bits = __atomic_load_n(&known, __ATOMIC_RELAXED) >> place & 3U;
    if (bits == 0) {
      cudaFuncAttributes attributes{};
      if (cudaFuncGetAttributes(&attributes, kernel) != cudaSuccess) {
        discard(cudaGetLastError());  // the launch will say it
        return build::old;
      }
      // The architecture that it was compiled for, whether nvcc finished that or the driver did.
      bits = 1U + static_cast<unsigned>(Build::of(10 * attributes.ptxVersion));
      __atomic_fetch_or(&known, bits << place, __ATOMIC_RELAXED);
    }
    return static_cast<build>(bits - 1U);
  }
}

/// Answers whether the build of `kernel` that the current device runs waits by itself. One that
/// does not must never be launched early: it would run beside what it depends on.
template <class Kernel, class Build, class... Parameters>
bool waits_itself(void (*kernel)(Parameters...)) {
  if constexpr (!Build::may_be(build::old)) {
    static_cast<void>(kernel);
    return true;
  } else {
    return build_of<Kernel, Build>(kernel) != build::old;
  }
}

/// Lets `kernel` have as much dynamic shared memory as the current device gives a block.
/// @tparam Kernel  a type that stands for the kernel: the answers are kept by it
/// @return how much, in bytes; 0 where the device does not say or allow it, and the next call asks
///   again
template <class Kernel, class... Parameters>
std::size_t most_shared_bytes(void (*kernel)(Parameters...)) {
  struct answer {
    void (*kernel)(Parameters...);  // nvcc 13 gives each file a kernel of its own, but not this
    int bytes;
  };
  static answer known[32] = {};
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess || device >= 32) return 0;
  answer& here = known[device];
  if (__atomic_load_n(&here.kernel, __ATOMIC_ACQUIRE) == kernel) {
    return static_cast<std::size_t>(__atomic_load_n(&here.bytes, __ATOMIC_RELAXED));
  }
  int most = 0;
  cudaFuncAttributes attributes{};
  cudaError_t status =
      cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  if (status == cudaSuccess) status = cudaFuncGetAttributes(&attributes, kernel);
  most -= static_cast<int>(attributes.sharedSizeBytes);
  if (status == cudaSuccess) {
    status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most);
  }
  if (status != cudaSuccess) {
    discard(cudaGetLastError());  // the launch will say it, where that suffers from it, too
    return 0;
  }
  __atomic_store_n(&here.bytes, most, __ATOMIC_RELAXED);
  __atomic_store_n(&here.kernel, kernel, __ATOMIC_RELEASE);
  return static_cast<std::size_t>(most);
}

inline constexpr unsigned index_block_threads = 256;
// Below the grid's hardware limit of 2^31 - 1 blocks; past it, each thread strides.
inline constexpr std::uint64_t index_grid_limit = std::uint64_t{1} << 30U;

template <class F>
__global__ void __launch_bounds__(index_block_threads) index_kernel(F f, std::uint64_t n) {
  await_predecessors();
  std::uint64_t const stride = std::uint64_t{gridDim.x} * index_block_threads;
  for (std::uint64_t i = std::uint64_t{blockIdx.x} * index_block_threads + threadIdx.x; i < n;
       i += stride) {
    f(i);
  }
}

/// What a launch is told of a kernel that begins with await_predecessors().
/// @tparam Kernel  a type that no other kernel is launched with
template <class Kernel, class Build = this_build>
class launch_order {
 public:
  template <class... Parameters>
  launch_order(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes,
               stream_ref stream) {
    config_.gridDim = grid;
    config_.blockDim = block;
    config_.dynamicSmemBytes = shared_bytes;
    config_.stream = stream.get();
    if (!waits_itself<Kernel, Build>(kernel)) return;
    early_.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early_.val.programmaticStreamSerializationAllowed = 1;
    config_.attrs = &early_;
    config_.numAttrs = 1;
  }
  launch_order(launch_order const&) = delete;  // the one points into itself
  launch_order& operator=(launch_order const&) = delete;

  [[nodiscard]] cudaLaunchConfig_t const* get() const { return &config_; }

 private:
  cudaLaunchConfig_t config_{};
  cudaLaunchAttribute early_{};
};

/// Launches a kernel that begins with await_predecessors(), and checks it.
/// @tparam Kernel  a type that no other kernel is launched with
template <class Kernel, class Build = this_build, class... Parameters>
void launch_kernel(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes,
                   stream_ref stream, source_location where,
                   std::remove_reference_t<Parameters> const&... arguments) {
  static driver_kernel known;
  launch_order<Kernel, Build> const order{kernel, grid, block, shared_bytes, stream};
  void* all[] = {const_cast<void*>(static_cast<void const*>(&arguments))...};  // only read
  check(known.launch(order.get(), reinterpret_cast<void const*>(kernel), all), "kernel launch",
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
/// **Cost:** one kernel launch: of CUDA 12.3 and newer the driver's, after a look at which context
/// is current; the first of a kernel in a context also asks for its function there.
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
  detail::launch_kernel<F>(&detail::index_kernel<F>, dim3{grid}, dim3{detail::index_block_threads},
                           0, stream, where, f, n);
#else
  static_cast<void>(stream), static_cast<void>(n), static_cast<void>(f), static_cast<void>(where);
  static_assert(detail::always_false<F>,
                "warpwright::for_each_index needs a kernel: compile this file with nvcc (name it "
                ".cu), or link warpwright::host_runtime to run without a GPU");
#endif
}

WARPWRIGHT_END_PER_COMPILER
