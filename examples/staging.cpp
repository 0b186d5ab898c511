// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Copies pageable host memory to the device and back, near the link's bandwidth.
#include <warpwright/core/device.hpp>
#include <warpwright/memory.hpp>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <vector>

namespace ww = warpwright;

int main() {
  try {
    using clock = std::chrono::steady_clock;
    std::vector<std::uint32_t> numbers(std::size_t{16} << 20U);
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::uint32_t>(i * 7);

    ww::stream stream;
    ww::memory_pool pool{ww::current_device()};
    ww::pinned_pool pinned;
    ww::staging staging{pinned};
    ww::device_buffer<std::uint32_t> on_device{pool, stream, numbers.size()};

    auto const start = clock::now();
    // Returns when `numbers` has been read; later kernels of the stream see the data.
    staging.copy_to_device(stream, on_device.data(), numbers.data(), on_device.size_bytes());
    stream.synchronize();
    std::chrono::duration<double> const up = clock::now() - start;

    std::vector<std::uint32_t> back(numbers.size());
    // Returns when `back` is complete.
    staging.copy_to_host(stream, back.data(), on_device.data(), on_device.size_bytes());

    std::printf("%zu MiB to %s with %u threads: %.1f GB/s\n", on_device.size_bytes() >> 20U,
                ww::get_device_info(ww::current_device()).name.c_str(), staging.threads(),
                static_cast<double>(on_device.size_bytes()) / up.count() * 1e-9);
    return back == numbers ? 0 : 1;
  } catch (std::exception const& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
