// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A block of threads: the interface that a kernel uses. A kernel is one functor for both runtimes:
//
//   struct my_kernel : detail::kernel_base<256> {           // threads a block at most
//     float const* x;
//     float* y;
//     template <class Block>
//     WARPWRIGHT_HOST_DEVICE void operator()(Block& block) const {
//       auto value = block.template per_thread<float>();
//       block.for_each_thread([&](unsigned t) { value[t] = x[t]; });
//       block.trigger_dependents();
//       block.for_each_thread([&](unsigned t) { y[t] = value[t]; });
//     }
//   };
//   detail::launch_blocks(stream, blocks, threads, my_kernel{{}, x, y}, "my_kernel", where);
//
// A value that a thread keeps from one for_each_thread() to the next must be per_thread or shared:
// a GPU calls the function once in every thread and keeps per_thread values in registers; the host
// calls it for one thread after the other. Code outside for_each_thread() must be the same for the
// whole block.
#pragma once

#include <warpwright/core/detail/config.hpp>

#include <cstddef>
#include <cstdint>

WARPWRIGHT_BEGIN

namespace detail {

inline constexpr unsigned warp_size = 32;

struct no_shared_memory {};

#if defined(__CUDACC__)
/// Waits for all threads of the cluster.
__device__ inline void synchronize_cluster() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release;\n\tbarrier.cluster.wait.acquire;" ::: "memory");
#endif
}
#endif

/// Default properties of a kernel; redeclare what differs.
template <unsigned MaxThreads, unsigned MinBlocks = 0>
struct kernel_base {
  static constexpr unsigned max_threads = MaxThreads;  ///< of a block
  static constexpr unsigned min_blocks = MinBlocks;    ///< an SM, for registers; 0: not constrained
  static constexpr unsigned host_threads = MaxThreads;  ///< on the host, where a block is a cluster
  static constexpr std::size_t max_bytes = 4096;        ///< of the kernel's arguments
  static constexpr bool subscripts_arguments = false;   ///< with numbers known only at run time
  static constexpr std::size_t host_dynamic_bytes = 0;  ///< dynamic shared memory on the host
  using shared = no_shared_memory;                      ///< static shared memory
};

/// The block that the calling CPU thread executes.
template <class Kernel>
class host_block {
 public:
  template <class T>
  class values {
   public:
    WARPWRIGHT_HOST_DEVICE T& operator[](unsigned t) { return of_[t]; }
    WARPWRIGHT_HOST_DEVICE T const& operator[](unsigned t) const { return of_[t]; }

   private:
    T of_[Kernel::host_threads] = {};
  };

  WARPWRIGHT_HOST_DEVICE host_block(unsigned index, unsigned count, unsigned threads)
      : index_{index}, count_{count}, threads_{threads} {}
  host_block(host_block const&) = delete;
  host_block& operator=(host_block const&) = delete;

  [[nodiscard]] WARPWRIGHT_HOST_DEVICE unsigned index() const { return index_; }
  [[nodiscard]] WARPWRIGHT_HOST_DEVICE unsigned count() const { return count_; }
  [[nodiscard]] WARPWRIGHT_HOST_DEVICE unsigned threads() const {
    return threads_ < Kernel::host_threads ? threads_ : Kernel::host_threads;  // bounds the loop
  }
  /// The number of the cluster, and of the thread in it; see launch_blocks().
  [[nodiscard]] WARPWRIGHT_HOST_DEVICE unsigned cluster_index(unsigned) const { return index_; }
  [[nodiscard]] WARPWRIGHT_HOST_DEVICE unsigned thread_in_cluster(unsigned t, unsigned) const {
    return t;
  }
  WARPWRIGHT_HOST_DEVICE void leave_cluster(unsigned) const {}
  WARPWRIGHT_HOST_DEVICE void end_cluster(unsigned) const {}

  template <class T>
  [[nodiscard]] WARPWRIGHT_HOST_DEVICE values<T> per_thread() const {
    return {};
  }
  template <class F>
  WARPWRIGHT_HOST_DEVICE void for_each_thread(F const& f) const {
    for (unsigned t = 0; t < threads(); ++t) f(t);
  }
  WARPWRIGHT_HOST_DEVICE void synchronize() const {}
  WARPWRIGHT_HOST_DEVICE void trigger_dependents() const {}
  [[nodiscard]] WARPWRIGHT_HOST_DEVICE typename Kernel::shared& shared() { return shared_; }
  [[nodiscard]] WARPWRIGHT_HOST_DEVICE unsigned char* dynamic_shared() { return dynamic_; }

 private:
  unsigned index_;
  unsigned count_;
  unsigned threads_;
  alignas(16) typename Kernel::shared shared_;  // not initialised, as on a GPU
  alignas(16) unsigned char dynamic_[Kernel::host_dynamic_bytes + 1];
};

/// Executes a grid on the calling thread, block by block.
template <class Kernel>
void run_blocks(unsigned blocks, unsigned threads, Kernel const& kernel) {
  for (unsigned b = 0; b < blocks; ++b) {
    host_block<Kernel> block{b, blocks, threads};
    kernel(block);
  }
}

}  // namespace detail

WARPWRIGHT_END
