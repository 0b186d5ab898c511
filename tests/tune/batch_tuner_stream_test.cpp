// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The tuner on a real stream: events, device memory, CUDA errors.
#include <warpwright/core/launch.hpp>
#include <warpwright/memory/buffer.hpp>
#include <warpwright/tune/batch_tuner.hpp>
#include <warpwright/tune/tuning_pool.hpp>

#include <stdexcept>
#include <string>

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>

#include <thread>
#include <vector>
#endif

#include "support/catch.hpp"

namespace ww = warpwright;

namespace {

struct add_one {
  float* data;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const { data[i] += 1.0F; }
};

// Device memory that throws cuda_error, as a user's wrapper.
class floats {
 public:
  explicit floats(std::size_t count) {
    void* p = nullptr;
    ww::check(cudaMalloc(&p, count * sizeof(float)), "cudaMalloc");
    data_ = static_cast<float*>(p);
  }
  floats(floats const&) = delete;
  floats& operator=(floats const&) = delete;
  ~floats() { ww::detail::discard(cudaFree(data_)); }
  float* data() const { return data_; }

 private:
  float* data_ = nullptr;
};

constexpr std::size_t width = 256;  // floats per item

ww::batch_tuner quick() {
  // No limit that a busy machine or a sanitizer would reach.
  return ww::batch_tuner{}.stop_after_flat(0).max_seconds(600.0).latency_calls(12).sampling(
      ww::measure_options{}.sample_seconds(2e-4).min_samples(3).max_samples(5).max_seconds(0.05));
}

}  // namespace

TEST_CASE("a workload on a stream is tuned", "[tune][batch_tuner]") {
  ww::stream const s;
  floats const x{width * 512};
  ww::check(cudaMemset(x.data(), 0, width * 512 * sizeof(float)), "cudaMemset");
  ww::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  std::size_t largest = 0;
  auto const r = quick().range(1, 512).tune(s, [&](std::size_t batch, ww::stream_ref on) {
    REQUIRE(on.get() == s.get());
    largest = batch > largest ? batch : largest;
    ww::for_each_index(on, batch * width, add_one{x.data()});
  });
  CHECK(r.chosen().batch >= 1);
  CHECK(r.chosen().batch <= 512);
  CHECK(largest <= 512);
  CHECK(r.chosen().items_per_second > 0.0);
  CHECK(r.chosen().latency_p99_seconds >= r.chosen().latency_median_seconds);
  CHECK(r.elapsed_seconds > 0.0);
  CHECK(s.done());
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("a workload that allocates from the pool keeps the budget, temporaries included",
          "[tune][batch_tuner]") {
  ww::stream const s;
  constexpr std::size_t item_bytes = std::size_t{1} << 20;
  constexpr std::size_t budget = std::size_t{64} << 20;
  ww::tuning_pool pool{ww::current_device()};
  std::size_t largest = 0;
  auto const r = quick().range(1, 1024).memory_budget(budget).tune(
      s,
      [&](std::size_t batch, ww::stream_ref on, ww::resource_ref memory) {
        ww::device_buffer<float, ww::resource_ref> const x{memory, on,
                                                           batch * item_bytes / sizeof(float)};
        largest = batch > largest ? batch : largest;
        ww::for_each_index(on, batch, add_one{x.data()});
      },
      pool);
  CHECK(largest <= 64);
  CHECK(largest >= 32);
  CHECK(r.chosen().memory_bytes == r.chosen().batch * item_bytes);
  CHECK(pool.limit_bytes() == ww::memory_pool_options::unlimited);
  s.synchronize();
  CHECK(pool.statistics().reserved_bytes == 0);
}

TEST_CASE("a pool that is short of memory rejects the size, whatever the workload throws",
          "[tune][batch_tuner]") {
  ww::stream const s;
  ww::tuning_pool pool{ww::current_device()};
  auto const r = quick()
                     .range(1, 64)
                     .memory_budget(std::size_t{20} << 20)
                     .tune(
                         s,
                         [&](std::size_t batch, ww::stream_ref on, ww::resource_ref memory) {
                           // From 8 on it takes much more: no model foresees that.
                           std::size_t const bytes = batch << (batch < 8 ? 18 : 22);
                           void* const p = memory.try_allocate(on, bytes);
                           if (p == nullptr)
                             throw std::runtime_error{"the library has run out of something"};
                           memory.deallocate(on, p, bytes);
                         },
                         pool);
  CHECK(r.chosen().batch < 8);
  bool refused = false;
  for (auto const& row : r.rows) refused = refused || row.status == ww::tune_status::out_of_memory;
  CHECK(refused);
}

TEST_CASE("a pool with more live memory than the budget is refused with both figures",
          "[tune][batch_tuner]") {
  ww::stream const s;
  ww::tuning_pool pool{ww::current_device()};
  ww::device_buffer<char, ww::resource_ref> const weights{ww::resource_ref{pool}, s, 2000000};
  std::size_t runs = 0;
  auto const workload = [&](std::size_t, ww::stream_ref, ww::resource_ref) { ++runs; };
  CHECK_THROWS_WITH(quick().range(1, 8).memory_budget(1000000).tune(s, workload, pool),
                    contains("bytes live before the tune") && contains("budget of 1000000"));
  CHECK(runs == 0);
  CHECK(pool.limit_bytes() == ww::memory_pool_options::unlimited);
  CHECK(quick().range(1, 8).memory_budget(3000000).tune(s, workload, pool).chosen().batch >= 1);
}

TEST_CASE("a probe of the memory in use is refused for a budget", "[tune][batch_tuner]") {
  ww::stream const s;
  std::size_t runs = 0;
  auto const workload = [&](std::size_t, ww::stream_ref) { ++runs; };
  CHECK_THROWS_WITH(
      quick().range(1, 8).memory_budget(1000).tune(s, workload, ww::device_memory_probe{}),
      contains("tuning_pool"));
  CHECK(runs == 0);
  CHECK(quick().range(1, 8).tune(s, workload, ww::device_memory_probe{}).chosen().batch >= 1);
}

TEST_CASE("out-of-memory errors of CUDA do not end the tune", "[tune][batch_tuner]") {
  ww::stream const s;
  ww::device_memory_probe const before{};
  std::size_t free = 0;
  std::size_t total = 0;
  ww::check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  // Each item needs 1/16 of the device's memory: 32 items do not fit.
  std::size_t const item_bytes = total / 16;
  // Mapping that much memory takes long under a sanitizer.
  auto const r =
      quick().range(1, 32).max_seconds(300).tune(s, [&](std::size_t batch, ww::stream_ref on) {
        floats const x{batch * item_bytes / sizeof(float)};
        ww::for_each_index(on, width, add_one{x.data()});
        on.synchronize();
      });
  CHECK(r.chosen().batch < 32);
  CHECK(r.rows.back().status == ww::tune_status::out_of_memory);
  CHECK(r.rows.back().note.find("cudaMalloc") != std::string::npos);
  CHECK(cudaGetLastError() == cudaSuccess);
  CHECK(s.done());

  // The same for a workload that does not check cudaMalloc and leaves the error pending.
  auto const q = quick().range(1, 32).tune(s, [&](std::size_t batch, ww::stream_ref) {
    void* p = nullptr;
    static_cast<void>(cudaMalloc(&p, batch * item_bytes));
    static_cast<void>(cudaFree(p));
  });
  CHECK(q.rows.back().status == ww::tune_status::out_of_memory);
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("a library's exception is out of memory though its memory is freed by unwinding",
          "[tune][batch_tuner]") {
  ww::stream const s;
  std::size_t free = 0;
  std::size_t total = 0;
  ww::check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  std::size_t const item_bytes = total / 8;
  auto const r =
      quick().range(1, 16).max_seconds(300).tune(s, [&](std::size_t batch, ww::stream_ref) {
        void* p = nullptr;
        if (cudaMalloc(&p, batch * item_bytes) != cudaSuccess) throw std::runtime_error{"status 4"};
        static_cast<void>(cudaFree(p));
      });
  CHECK(r.chosen().batch <= 8);
  CHECK(r.rows.back().status == ww::tune_status::out_of_memory);
  CHECK(r.rows.back().note == "status 4");
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("what is thrown while the device is full is out of memory", "[tune][batch_tuner]") {
  ww::stream const s;
  auto const library = [](std::size_t batch, ww::stream_ref) {
    if (batch > 8) throw std::runtime_error{"status 3"};
  };
  CHECK_THROWS_AS(quick().range(1, 16).tune(s, library), std::runtime_error);
  std::size_t free = 0;
  std::size_t total = 0;
  ww::check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  floats const others{(free - total / 100) / sizeof(float)};
  auto const r = quick().range(1, 16).tune(s, library);
  CHECK(r.chosen().batch <= 8);
  CHECK(r.rows.back().status == ww::tune_status::out_of_memory);
  CHECK(r.rows.back().note == "status 3");
}

TEST_CASE("an error that the workload leaves pending is reported", "[tune][batch_tuner]") {
  ww::stream const s;
  CHECK_THROWS_AS(
      quick().range(1, 8).tune(
          s, [](std::size_t, ww::stream_ref) { static_cast<void>(cudaSetDevice(12345)); }),
      ww::cuda_error);
  CHECK(cudaGetLastError() == cudaSuccess);

  // An error from before the tune is not attributed to the workload.
  static_cast<void>(cudaSetDevice(12345));
  CHECK_THROWS_WITH(quick().tune(s, [](std::size_t, ww::stream_ref) {}),
                    contains("a call before batch_tuner::tune"));
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("an error that the preparation leaves pending is not attributed to the workload",
          "[tune][batch_tuner]") {
  ww::stream const s;
  auto const prepare = [](std::size_t) { static_cast<void>(cudaSetDevice(12345)); };
  CHECK_THROWS_WITH(quick().range(1, 8).tune(
                        s, [](std::size_t, ww::stream_ref) {}, prepare),
                    contains("the preparation of batch_tuner::tune"));
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("after an exception the stream is idle and usable", "[tune][batch_tuner]") {
  ww::stream const s;
  floats const x{width * 64};
  ww::check(cudaMemset(x.data(), 0, width * 64 * sizeof(float)), "cudaMemset");
  ww::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  CHECK_THROWS_AS(quick().range(1, 64).tune(s,
                                            [&](std::size_t batch, ww::stream_ref on) {
                                              ww::for_each_index(on, batch * width,
                                                                 add_one{x.data()});
                                              if (batch == 16) throw std::runtime_error{"stop"};
                                            }),
                  std::runtime_error);
  CHECK(s.done());
  ww::for_each_index(s, width, add_one{x.data()});
  s.synchronize();
}

TEST_CASE("a capturing stream throws", "[tune][batch_tuner]") {
  ww::stream const s;
  ww::check(cudaStreamBeginCapture(s.get(), cudaStreamCaptureModeThreadLocal),
            "cudaStreamBeginCapture");
  CHECK_THROWS_WITH(quick().tune(s, [](std::size_t, ww::stream_ref) {}), contains("capturing"));
  cudaGraph_t graph = nullptr;
  ww::check(cudaStreamEndCapture(s.get(), &graph), "cudaStreamEndCapture");
  ww::check(cudaGraphDestroy(graph), "cudaGraphDestroy");
}

#if WARPWRIGHT_HOST_RUNTIME
TEST_CASE("any runtime call of a tune may fail once", "[tune][batch_tuner]") {
  ww::stream const s;
  floats const x{width * 8};
  auto const tune = [&] {
    return quick().range(1, 8).tune(
        s,
        [&](std::size_t batch, ww::stream_ref on) {
          ww::for_each_index(on, batch, add_one{x.data()});
        },
        ww::device_memory_probe{});
  };
  std::size_t failures = 0;
  for (std::uint64_t nth = 1; nth <= 60; ++nth) {
    {
      ww::testing::scoped_fault_plan const faults{
          ww::testing::fault_plan{}.fail("*", nth, cudaErrorInvalidValue)};
      try {
        static_cast<void>(tune());
      } catch (ww::cuda_error const& e) {
        ++failures;
        INFO(e.what());
        CHECK(e.code() == cudaErrorInvalidValue);
      }
    }
    CHECK(cudaGetLastError() == cudaSuccess);
    s.synchronize();
  }
  CHECK(failures > 40);
  CHECK(tune().chosen().batch >= 1);
}

TEST_CASE("a lost context ends the tune", "[tune][batch_tuner]") {
  {
    ww::stream const s;
    ww::testing::scoped_fault_plan const faults{
        ww::testing::fault_plan{}.poison("cudaEventRecord", 5, cudaErrorIllegalAddress)};
    try {
      static_cast<void>(quick().range(1, 8).tune(s, [](std::size_t, ww::stream_ref) {}));
      FAIL("no exception");
    } catch (ww::cuda_error const& e) {
      CHECK(e.sticky());
      CHECK(e.code() == cudaErrorIllegalAddress);
    }
  }
  ww::testing::reset_host_runtime();
}

TEST_CASE("one tuner serves several threads", "[tune][batch_tuner]") {
  ww::batch_tuner const tuner = quick().range(1, 64);
  std::size_t chosen[4] = {};
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&tuner, &chosen, t] {
      ww::stream const s;
      floats const x{width * 64};
      chosen[t] = tuner
                      .tune(s,
                            [&](std::size_t batch, ww::stream_ref on) {
                              ww::for_each_index(on, batch * width, add_one{x.data()});
                            })
                      .chosen()
                      .batch;
    });
  }
  for (std::thread& t : threads) t.join();
  for (std::size_t const batch : chosen) CHECK(batch >= 1);
}
#endif
