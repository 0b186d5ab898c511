// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Each CUDA call of a pool fails once: the error reaches the caller, nothing leaks, and the pool
// remains usable.
#include "memory/support.hpp"
#include "support/catch.hpp"
#include "support/sanitized.hpp"

#include <warpwright/graph/capture.hpp>
#include <warpwright/graph/graph_exec.hpp>
#include <warpwright/memory/buffer.hpp>
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ww = warpwright;
namespace testing = ww::testing;

namespace {

constexpr std::size_t mib = std::size_t{1} << 20U;

// Executes every step of a miss: growing, polling, stealing, merging, waiting on the host, freeing
// segments; for three streams and the per-thread default stream.
void scenario(ww::memory_pool& pool, ww::stream const& a, ww::stream const& b) {
  {
    ww::device_buffer<char> x{pool, a, 2 * mib};
    ww::device_buffer<char> y{pool, b, 2 * mib};
    ww::device_buffer<char> z{pool, a, 3 * mib};
  }
  { ww::device_buffer<char> const stolen{pool, a, 3 * mib}; }
  {
    ww::device_buffer<char> const p{pool, b, 3 * mib};
    ww::device_buffer<char> const q{pool, b, 2 * mib};
    ww::device_buffer<char> const r{pool, b, 2 * mib};
  }
  { ww::device_buffer<char> const own{pool, ww::stream_ref::per_thread(), 7 * mib}; }
  { ww::device_buffer<char> const all{pool, a, 8 * mib}; }
  for (int i = 0; i < 70; ++i) {
    ww::device_buffer<char> const small{pool, ww::stream_ref::per_thread(), 256};
  }
  pool.retire(b);
  static_cast<void>(pool.trim());
}

ww::memory_pool_options options(bool checked) {
  return ww::memory_pool_options{}.maximum_bytes(8 * mib).growth_bytes(mib).checked(checked);
}

}  // namespace

TEST_CASE("every call of a pool failing in turn") {
  for (bool const checked : {false, true}) {
    for (cudaError_t const code : {cudaErrorUnknown, cudaErrorMemoryAllocation}) {
      testing::reset_host_runtime();
      {
        ww::stream const a;
        ww::stream const b;
        ww::memory_pool pool{ww::device_id{0}, options(checked)};
        scenario(pool, a, b);
      }
      std::vector<testing::call_record> const calls = testing::calls();
      std::size_t failures = 0;
      std::size_t sweeps = 0;
      for (testing::call_record const& call : calls) {
        for (std::uint64_t nth = 1;; nth = test_support::next_failing(nth)) {
          INFO(call.name << " call " << nth << " answers " << cudaGetErrorName(code));
          testing::reset_host_runtime();
          std::uint64_t hits = 0;
          {
            ww::stream const a;
            ww::stream const b;
            ww::memory_pool pool{ww::device_id{0}, options(checked)};
            {
              testing::scoped_fault_plan const plan{
                  testing::fault_plan{}.fail(call.name, nth, code)};
              try {
                scenario(pool, a, b);
              } catch (ww::cuda_error const& e) {
                ++failures;
                CHECK(e.code() == code);
              } catch (ww::out_of_memory const&) {
                ++failures;
              }
              hits = plan.hits();
            }
            ++sweeps;
            // In checked mode a buffer's destructor may fail to free: its check of the stream
            // failed.
            if (!checked && call.name != "cudaStreamGetId")
              CHECK(pool.statistics().live_bytes == 0);
            if (pool.statistics().live_bytes == 0) {
              static_cast<void>(
                  pool.trim());  // the scenario requires a known state of the segments
              CHECK_NOTHROW(scenario(pool, a, b));
              CHECK(pool.statistics().reserved_bytes == 0);
            } else {
              pool.deallocate(a, pool.try_allocate(a, 256), 256);
            }
          }
          CHECK(testing::leak_report().empty());
          if (hits == 0) break;
        }
      }
      INFO(sweeps << " sweeps");
      CHECK(failures > 10);
    }
  }
  testing::reset_host_runtime();
}

namespace {

// A block that is freed at last, even if a call fails once.
class held {
 public:
  held(ww::memory_pool& pool, ww::stream_ref s, std::size_t bytes)
      : pool_{pool}, stream_{s}, bytes_{bytes}, pointer_{pool.allocate(s, bytes)} {}
  held(held const&) = delete;
  held& operator=(held const&) = delete;
  ~held() {
    for (int attempts = 0; attempts < 3; ++attempts) {
      try {
        pool_.deallocate(stream_, pointer_, bytes_);
        return;
      } catch (...) {
      }
    }
  }
  [[nodiscard]] void* get() const { return pointer_; }

 private:
  ww::memory_pool& pool_;
  ww::stream_ref stream_;
  std::size_t bytes_;
  void* pointer_;
};

// Moves idle memory, and uses batches, a cache, a shared block and memory of a graph.
void moving_scenario(ww::memory_pool& pool, ww::stream const& a, ww::stream const& b) {
  {
    auto low = std::make_unique<held>(pool, b, 4 * mib);
    held const live{pool, a, 2 * mib};
    low.reset();
    a.synchronize();
    b.synchronize();
    // It fits neither below the live block nor, by the limit, above it.
    held const above{pool, a, 8 * mib};
    pool.record_use(b, live.get());
  }
  std::size_t const sizes[] = {mib, 3 * mib};
  void* blocks[2] = {};
  pool.allocate_batch(b, sizes, blocks, 2);
  for (int i = 0; i < 2; ++i) {
    for (int attempts = 0; attempts < 2 && blocks[i] != nullptr; ++attempts) {
      try {
        pool.deallocate(b, blocks[i], sizes[i]);
        blocks[i] = nullptr;
      } catch (ww::cuda_error const&) {
      }
    }
  }
  {
    ww::memory_cache cache = pool.make_cache(a);
    for (int i = 0; i < 2; ++i) cache.deallocate(cache.allocate(512), 512);
  }
  ww::graph const step = ww::capture(a, [&](ww::stream_ref c) {
    held const own{pool, c, mib};
    held const second{pool, c, 2 * mib};
  });
  ww::graph_exec exec{step};
  exec.launch(a);
  a.synchronize();
}

}  // namespace

TEST_CASE("every call of a pool that moves memory, and of its graphs, failing in turn") {
  ww::memory_pool_options const compact =
      ww::memory_pool_options{}.maximum_bytes(12 * mib).compact();
  for (cudaError_t const code : {cudaErrorUnknown, cudaErrorMemoryAllocation}) {
    testing::reset_host_runtime();
    {
      ww::stream const a;
      ww::stream const b;
      ww::memory_pool pool{ww::device_id{0}, compact};
      moving_scenario(pool, a, b);
      CHECK(pool.statistics().remaps > 0);
    }
    std::vector<testing::call_record> const calls = testing::calls();
    std::size_t failures = 0;
    for (testing::call_record const& call : calls) {
      // A graph that cannot be destroyed keeps its memory.
      if (call.name == "cudaGraphDestroy" || call.name == "cudaGraphExecDestroy") continue;
      bool const may_lack_memory = call.name.find("Mem") != std::string::npos;
      if (code == cudaErrorMemoryAllocation && !may_lack_memory) continue;
      for (std::uint64_t nth = 1;; nth = test_support::next_failing(nth)) {
        INFO(call.name << " call " << nth << " answers " << cudaGetErrorName(code));
        testing::reset_host_runtime();
        std::uint64_t hits = 0;
        {
          ww::stream const a;
          ww::stream const b;
          ww::memory_pool pool{ww::device_id{0}, compact};
          {
            testing::scoped_fault_plan const plan{testing::fault_plan{}.fail(call.name, nth, code)};
            try {
              moving_scenario(pool, a, b);
            } catch (std::exception const&) {
              ++failures;
            }
            hits = plan.hits();
          }
          static_cast<void>(cudaGetLastError());
          CHECK(pool.statistics().live_blocks == 0);
          auto const gives_all_back = [&] {
            static_cast<void>(pool.trim());
            return pool.statistics().reserved_bytes == 0;
          };
          CHECK(test_support::eventually(gives_all_back));
          CHECK_NOTHROW(moving_scenario(pool, a, b));
          CHECK(test_support::eventually(gives_all_back));
        }
        bool const lost_by_the_fault =  // what could not be destroyed cannot be destroyed again
            call.name.find("Destroy") != std::string::npos;
        if (!lost_by_the_fault) CHECK(testing::leak_report().empty());
        if (hits == 0) break;
      }
    }
    CHECK(failures > 4);
  }
  testing::reset_host_runtime();
}

TEST_CASE("the construction of a pool fails at each call and leaks nothing") {
  for (char const* call :
       {"cudaGetDevice", "cudaThreadExchangeStreamCaptureMode", "cudaMemGetInfo", "cuMemCreate"}) {
    INFO(call);
    testing::reset_host_runtime();
    {
      testing::scoped_fault_plan const plan{
          testing::fault_plan{}.fail(call, 1, cudaErrorInvalidValue)};
      CHECK_THROWS_AS(ww::memory_pool(ww::device_id{0}, options(false).initial_bytes(mib)),
                      ww::cuda_error);
    }
    CHECK(testing::leak_report().empty());
  }
  testing::reset_host_runtime();
}

TEST_CASE("a pool that cannot query the current device does not change it") {
  ww::testing::reset_host_runtime(ww::testing::host_runtime_options{}.with_devices(2));
  auto pool = std::make_unique<ww::memory_pool>(ww::device_id{1});
  {
    ww::testing::fault_plan const plan =
        ww::testing::fault_plan{}.fail("cudaGetDevice", 1, cudaErrorUnknown);
    ww::testing::scoped_fault_plan const fault{plan};
    pool.reset();
  }
  CHECK(ww::current_device() == ww::device_id{0});
}

TEST_CASE("a lost context is reported as such, and the pool's destructor does not throw") {
  testing::reset_host_runtime();
  {
    ww::stream const a;
    ww::stream const b;
    ww::memory_pool pool{ww::device_id{0}, options(false)};
    void* const p = pool.allocate(a, 8 * mib);
    pool.deallocate(a, p, 8 * mib);
    testing::poison_device(0, cudaErrorIllegalAddress);
    try {
      static_cast<void>(pool.allocate(b, 8 * mib));
      FAIL("the context is lost");
    } catch (ww::cuda_error const& e) {
      CHECK(e.sticky());
    }
  }
  testing::reset_host_runtime();
}
