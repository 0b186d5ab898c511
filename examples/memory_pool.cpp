// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The pool in ten lines: a loop that needs scratch memory in each step allocates memory from CUDA
// at its start only. Below: the statistics, and an out-of-memory error.
#include <warpwright/memory.hpp>

#include <cstdio>
#include <exception>

namespace ww = warpwright;

void thousand_steps(ww::memory_pool& pool, ww::stream const& stream) {
  for (std::size_t step = 0; step < 1000; ++step) {
    ww::device_buffer<float> scratch{pool, stream, 1000 + 1000 * (step % 7)};
    ww::device_buffer<float> result{pool, stream, scratch.size()};
    // Enqueue work that uses both here; the end of the scope frees them in stream order.
    ww::check(cudaMemsetAsync(scratch.data(), 0, scratch.size_bytes(), stream), "memset");
    ww::check(cudaMemcpyAsync(result.data(), scratch.data(), scratch.size_bytes(),
                              cudaMemcpyDeviceToDevice, stream),
              "memcpy");
  }
}

int main() {
  try {
    ww::stream stream;  // declared before the pool, which it must outlive
    ww::memory_pool pool{ww::current_device(), ww::memory_pool_options{}.max_fraction(0.9)};
    thousand_steps(pool, stream);
    stream.synchronize();

    ww::pool_statistics const s = pool.statistics();
    std::printf("%llu allocations, %.2f %% of them without a CUDA call; memory taken %llu times\n",
                static_cast<unsigned long long>(s.allocations), 100.0 * s.hit_rate(),
                static_cast<unsigned long long>(s.upstream_allocations));

    // Out of memory is an exception with the figures; the pool remains usable.
    try {
      ww::device_buffer<float> const too_much{pool, stream, std::size_t{1} << 40U};
      std::puts("no device has that much memory");
      return 1;
    } catch (ww::out_of_memory const& e) {
      std::printf("%s\n", e.what());
    }
    thousand_steps(pool, stream);
    bool const right = s.live_bytes == 0 && s.allocations == 2000 &&
                       pool.statistics().upstream_allocations == s.upstream_allocations;
    stream.synchronize();
    return right ? 0 : 1;
  } catch (std::exception const& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
