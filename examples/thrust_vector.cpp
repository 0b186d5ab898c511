// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Thrust and CUB with memory from a pool: vectors, and the temporary storage of sorts and
// reductions, which otherwise is allocated by cudaMalloc: after the first step there is no CUDA
// allocation. Needs nvcc and a GPU.
#include <warpwright/interop/cub.hpp>
#include <warpwright/interop/thrust.hpp>

#include <thrust/device_vector.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>
#include <cub/device/device_reduce.cuh>

#include <cstdio>
#include <exception>

namespace ww = warpwright;

template <class T>
using pool_vector = thrust::device_vector<T, ww::thrust_allocator<T>>;

int main() {
  try {
    ww::stream stream;
    ww::memory_pool pool{ww::current_device()};
    int const n = 1 << 20;
    bool right = true;
    std::uint64_t after_one_step = 0;

    for (int step = 0; step < 100; ++step) {
      pool_vector<int> v(n, ww::thrust_allocator<int>{pool, stream});
      thrust::sequence(ww::thrust_policy_nosync(pool, stream), v.rbegin(), v.rend());
      thrust::sort(ww::thrust_policy_nosync(pool, stream), v.begin(), v.end());

      ww::device_buffer<int> largest{pool, stream, 1};
      ww::with_temporary_storage(pool, stream, [&](void* storage, std::size_t& bytes) {
        return cub::DeviceReduce::Max(storage, bytes, v.data().get(), largest.data(), n,
                                      stream.get());
      });
      int answer = 0;
      ww::check(cudaMemcpyAsync(&answer, largest.data(), sizeof answer, cudaMemcpyDeviceToHost,
                                stream.get()),
                "cudaMemcpyAsync");
      stream.synchronize();
      right = right && answer == n - 1 && v[0] == 0;
      if (step == 0) after_one_step = pool.statistics().upstream_allocations;
    }

    ww::pool_statistics const s = pool.statistics();
    std::printf("%llu allocations; memory taken from CUDA %llu times, all in the first step: %s\n",
                static_cast<unsigned long long>(s.allocations),
                static_cast<unsigned long long>(s.upstream_allocations),
                s.upstream_allocations == after_one_step ? "yes" : "no");
    if (!right) std::fprintf(stderr, "wrong answer\n");
    return right && s.live_bytes == 0 && s.upstream_allocations == after_one_step ? 0 : 1;
  } catch (std::exception const& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
