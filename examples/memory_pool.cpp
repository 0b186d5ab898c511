// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Device memory from a pool: a loop that needs scratch memory each time calls CUDA only at the
// start.
#include <warpwright/memory.hpp>

#include <cstdio>
#include <exception>

namespace ww = warpwright;

int main() {
  try {
    ww::stream stream;
    ww::memory_pool pool{ww::current_device(), ww::memory_pool_options{}.maximum_fraction(0.9)};

    for (int step = 0; step < 1000; ++step) {
      std::size_t const n = 1000 + 1000 * static_cast<std::size_t>(step % 7);
      ww::device_buffer<float> scratch{pool, stream, n};
      ww::device_buffer<float> result{pool, stream, n};
      // Kernels on `stream` use both here; at the brace both go back, in the stream's order.
      ww::check(cudaMemsetAsync(scratch.data(), 0, scratch.size_bytes(), stream.get()), "memset");
      ww::check(cudaMemcpyAsync(result.data(), scratch.data(), scratch.size_bytes(),
                                cudaMemcpyDeviceToDevice, stream.get()),
                "memcpy");
    }
    stream.synchronize();

    ww::pool_statistics const s = pool.statistics();
    std::printf("%llu allocations, %llu calls of cudaMalloc, %.2f %% without any CUDA call\n",
                static_cast<unsigned long long>(s.allocations),
                static_cast<unsigned long long>(s.upstream_allocations), 100.0 * s.hit_rate());

    // Running out is an ordinary exception that tells the figures, and the pool goes on.
    try {
      ww::device_buffer<float> const too_much{pool, stream, std::size_t{1} << 40U};
      std::puts("no device has that much memory");
      return 1;
    } catch (ww::out_of_memory const& e) {
      std::printf("%s\n", e.what());
    }
    return s.live_bytes == 0 && s.upstream_allocations == 1 && s.allocations == 2000 ? 0 : 1;
  } catch (std::exception const& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
