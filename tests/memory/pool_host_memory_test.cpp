// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A pool whose host memory runs out: the call fails with std::bad_alloc and changes nothing.
#include "memory/failing_host_memory.hpp"
#include "memory/support.hpp"
#include "support/catch.hpp"

#include <warpwright/graph/capture.hpp>
#include <warpwright/graph/graph_exec.hpp>
#include <warpwright/memory/pool.hpp>
#include <warpwright/testing/host_runtime.hpp>

#include <cstddef>
#include <new>
#include <vector>

namespace ww = warpwright;
namespace testing = ww::testing;
using test_support::fill;
using test_support::reallocations_left;

namespace {

constexpr std::size_t mib = std::size_t{1} << 20U;
constexpr int streams = 10;  // the library's arrays hold 8 elements before they grow

class workload {
 public:
  workload(ww::memory_pool& pool, ww::stream const (&on)[streams]) : pool_{pool}, streams_{on} {
    live_.reserve(1000);
  }

  /// Runs every kind of call, of which any may fail.
  /// @return the number of calls that failed
  int run() {
    int failed = 0;
    auto const attempt = [&](auto const& call) {
      try {
        call();
      } catch (std::bad_alloc const&) {
        ++failed;
      }
    };
    for (int i = 0; i < 3 * streams; ++i) {
      ww::stream const& s = streams_[i % streams];
      attempt([&] { add(pool_.allocate(s, 2 * mib + 256), 2 * mib + 256, i % streams); });
      attempt([&] { add(pool_.allocate(s, 256 * (i + 1)), 256 * (i + 1), i % streams); });
    }
    // Some are used by other streams, half of all are freed, and their memory goes to others.
    for (std::size_t i = 0; i < live_.size(); i += 3) {
      attempt([&] { pool_.record_use(streams_[(i + 1) % streams], live_[i].pointer); });
    }
    for (int i = 0; i < streams; ++i) attempt([&] { capture(i); });
    for (std::size_t i = 0; i < live_.size() / 2; ++i)
      attempt([&] { take_and_free(i, streams_[live_[i].stream]); });
    for (int i = 0; i < streams; ++i) {
      attempt([&] { add(pool_.allocate(streams_[i], 3 * mib), 3 * mib, i); });
    }
    attempt([&] { static_cast<void>(pool_.trim()); });
    return failed;
  }
  void free_all() {
    for (std::size_t i = 0; i < live_.size(); ++i) take_and_free(i, streams_[live_[i].stream]);
    for (auto& g : graphs_) g = ww::graph_exec{};
  }

 private:
  struct block {
    void* pointer;
    std::size_t bytes;
    int stream;
  };
  void add(void* pointer, std::size_t bytes, int stream) {
    fill(streams_[stream], pointer, 1, bytes);
    live_.push_back(block{pointer, bytes, stream});
  }
  // A free that fails leaves the block live.
  void take_and_free(std::size_t i, ww::stream_ref on) {
    if (live_[i].pointer == nullptr) return;
    pool_.deallocate(on, live_[i].pointer, live_[i].bytes);
    live_[i].pointer = nullptr;
  }
  // Allocates in the graph, and frees there what was allocated before and in the graph.
  void capture(int i) {
    std::size_t const before = live_.size() - 1 - static_cast<std::size_t>(i);
    ww::graph const g = ww::capture(streams_[i], [&](ww::stream_ref c) {
      live_.push_back(block{pool_.allocate(c, mib), mib, i});
      std::size_t const own = live_.size() - 1;
      live_.push_back(block{pool_.allocate(c, mib), mib, i});
      if (i % 2 == 0 && live_[before].stream == i) take_and_free(before, c);
      take_and_free(own, c);
    });
    graphs_[i] = ww::graph_exec{g};
  }

  ww::memory_pool& pool_;
  ww::stream const (&streams_)[streams];
  ww::graph_exec graphs_[streams];
  std::vector<block> live_;
};

}  // namespace

TEST_CASE("host memory that runs out at each of the pool's allocations in turn") {
  int failures = 0;
  for (int n = 0;; ++n) {
    INFO(n << " reallocations succeed");
    testing::reset_host_runtime();
    int failed = 0;
    {
      ww::stream const on[streams];
      ww::memory_pool pool{ww::device_id{0}, ww::memory_pool_options{}.max_bytes(256 * mib)};
      {
        workload w{pool, on};
        reallocations_left = n;
        failed = w.run();
        reallocations_left = -1;
        w.free_all();
      }
      CHECK(pool.statistics().live_bytes == 0);
      CHECK(test_support::eventually([&] {
        static_cast<void>(pool.trim());
        return pool.statistics().reserved_bytes == 0;
      }));
    }
    CHECK(testing::leak_report().empty());
    failures += failed;
    if (failed == 0) break;
    REQUIRE(n < 1000);
  }
  CHECK(failures > 50);
  testing::reset_host_runtime();
}
