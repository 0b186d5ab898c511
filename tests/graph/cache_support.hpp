// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What the tests of graph_cache share.
#pragma once

#include "support/catch.hpp"
#include "support/device_memory.hpp"

#include <warpwright/core/launch.hpp>
#include <warpwright/graph/graph_cache.hpp>

#include <cstdint>
#include <vector>

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>
#endif

namespace test_support {

struct add_amount {
  int* out;
  std::int64_t amount;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const {
    out[i] += static_cast<int>(amount);
  }
};

struct multiply_by {
  int* out;
  std::int64_t factor;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const {
    out[i] *= static_cast<int>(factor);
  }
};

struct sum_to {
  int* out;
  int const* a;
  int const* b;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const { out[i] = a[i] + b[i]; }
};

/// A cache that always uses graphs, from the first call on.
inline ww::graph_cache_options at_once() {
  return ww::graph_cache_options{}.warmups(0).cost_gate(false);
}

/// Adds `amount` to 16 elements.
struct add_step {
  void operator()(ww::stream_ref s, int* x, int amount) const {
    ww::for_each_index(s, 16, add_amount{x, amount});
  }
};

inline ww::graph_key_statistics of_key(ww::graph_cache& cache, std::size_t i = 0) {
  return cache.statistics().keys.at(i);
}

}  // namespace test_support
