// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// RMM's memory resources as peers. RMM needs C++20 and its own CCCL, so only rmm_peers.cpp includes
// its headers. Without RMM (WARPWRIGHT_BENCH_RMM) there are no peers of it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace rmm_peers {

/// Which resource, and how it is set up.
enum class kind {
  pool,     ///< pool_memory_resource over cuda_memory_resource
  binning,  ///< binning_memory_resource over that pool, with bins of 256 KiB to 4 MiB, as in RMM's
            ///< own benchmarks; each bin preallocates 128 blocks
  arena,    ///< arena_memory_resource over cuda_memory_resource; has all its memory from the start
  cuda_async,  ///< cuda_async_memory_resource, with the maximum release threshold
};

/// No limit.
inline constexpr std::size_t unlimited = ~std::size_t{0};

/// One resource.
/// **Threads:** as RMM says: any number at once.
class resource {
 public:
  resource() = default;
  resource(resource const&) = delete;
  resource& operator=(resource const&) = delete;
  virtual ~resource() = default;
  /// @return null when out of memory, or for 0 bytes
  virtual void* allocate(cudaStream_t stream, std::size_t bytes) = 0;
  virtual void deallocate(cudaStream_t stream, void* pointer, std::size_t bytes) = 0;
  /// Memory taken from CUDA, in bytes.
  [[nodiscard]] virtual std::uint64_t reserved_bytes() const = 0;
  [[nodiscard]] virtual std::uint64_t reserved_peak_bytes() const = 0;
};

/// @param initial_bytes  of pool and binning: the pool's size at the start
/// @param max_bytes  the limit of reserved memory; of an arena its size, which must be given; a
///   cuda_async has none
/// @throws std::bad_alloc  where the limit is too small for what the resource preallocates
[[nodiscard]] std::unique_ptr<resource> make(kind which, std::size_t initial_bytes,
                                             std::size_t max_bytes = unlimited);

/// RMM's version: "26.10.0".
[[nodiscard]] std::string version();

}  // namespace rmm_peers
