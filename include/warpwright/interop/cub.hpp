// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Temporary storage for CUB's algorithms, and for every call that follows their two-phase pattern:
// a call with nullptr returns the number of bytes needed, a call with that much memory does the
// work.
//
//   ww::with_temporary_storage(pool, stream, [&](void* storage, std::size_t& bytes) {
//     return cub::DeviceReduce::Sum(storage, bytes, in, out, n, stream.get());
//   });
//
// Includes no header of CUB: the caller does.
#pragma once

#include <warpwright/memory/pool.hpp>

#include <type_traits>

WARPWRIGHT_BEGIN

/// Runs a two-phase call with temporary storage from a pool.
/// @param pool    a class with memory_pool's allocate() and deallocate()
/// @param stream  the stream that `call` submits its work to
/// @param call    cudaError_t(void* storage, std::size_t& bytes): called once with nullptr, and
///   once with memory aligned to 256 bytes
/// @throws cuda_error  when `call` returns an error; and what `call` and the pool throw. The
///   storage is freed in every case
/// **Stream:** ordered on `stream`; does not block: the storage is freed behind the work.
/// **Threads:** as the pool. **Capture:** as the pool. **Cost:** one allocation from the pool; no
/// CUDA call of its own.
template <class Pool, class Call>
void with_temporary_storage(Pool& pool, stream_ref stream, Call&& call,
                            source_location where = source_location::current()) {
  static_assert(std::is_invocable_r_v<cudaError_t, Call&, void*, std::size_t&>,
                "warpwright::with_temporary_storage: the call must take (void* storage, "
                "std::size_t& bytes) and return a cudaError_t, as CUB's device algorithms do");
  std::size_t bytes = 0;
  check(call(nullptr, bytes), "size of temporary storage", where);
  if (bytes == 0) bytes = 1;  // nullptr would query the size again

  struct storage_owner {
    Pool& pool;
    stream_ref stream;
    std::size_t bytes;
    void* pointer;
    ~storage_owner() {
      try {
        pool.deallocate(stream, pointer, bytes);
      } catch (...) {  // the pool counts the block as live
      }
    }
  } const storage{pool, stream, bytes, pool.allocate(stream, bytes, 256, where)};
  check(call(storage.pointer, bytes), "call with temporary storage", where);
}

WARPWRIGHT_END
