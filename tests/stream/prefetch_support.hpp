// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "memory/support.hpp"
#include "support/device_memory.hpp"

#include <warpwright/core/launch.hpp>
#include <warpwright/stream/prefetch.hpp>

#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

namespace test_support {

namespace ww = warpwright;

/// The element that a test's batch has at a place: different in every batch and place.
WARPWRIGHT_HOST_DEVICE inline std::uint32_t element(std::size_t batch, std::uint64_t at) {
  return static_cast<std::uint32_t>(batch * 2654435761U + at * 40503U + 1U);
}

inline void fill_batch(std::uint32_t* to, std::size_t batch, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) to[i] = element(batch, i);
}

/// Counts the elements that are not those of a batch.
struct count_wrong {
  std::uint32_t const* in;
  std::size_t batch;
  std::uint64_t size;
  std::uint32_t* wrong;  // one number, of this batch
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t) const {
    std::uint32_t sum = 0;
    for (std::uint64_t i = 0; i < size; ++i) sum += in[i] != element(batch, i) ? 1U : 0U;
    *wrong = sum;
  }
};

inline void wait_a_little(unsigned microseconds) {
  std::this_thread::sleep_for(std::chrono::microseconds{microseconds});
}

/// What a prefetcher needs, destroyed in reverse order.
struct feeding {
  ww::stream stream;
  ww::memory_pool pool{ww::current_device()};
  ww::pinned_pool pinned{ww::pinned_pool_options{}.growth_bytes(1U << 20U)};

  [[nodiscard]] bool all_given_back() const {
    return pool.statistics().live_bytes == 0 && pinned.statistics().live_bytes == 0;
  }
};

/// Takes all batches and counts the wrong elements of each on the device.
inline std::vector<std::uint32_t> wrong_elements(ww::prefetcher<std::uint32_t>& batches,
                                                 ww::stream_ref stream, std::size_t most,
                                                 bool slowly = false) {
  device_array<std::uint32_t> wrong{std::vector<std::uint32_t>(most + 1, 77)};
  std::size_t taken = 0;
  while (ww::prefetched<std::uint32_t> const batch = batches.next(stream)) {
    if (slowly) pause(stream);
    ww::for_each_index(
        stream, 1, count_wrong{batch.data(), batch.index(), batch.size(), wrong.data() + taken});
    if (++taken > most) break;
  }
  std::vector<std::uint32_t> found = wrong.fetch(stream);
  found.resize(taken);
  return found;
}

}  // namespace test_support
