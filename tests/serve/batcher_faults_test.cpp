// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Failing CUDA calls, no memory, a lost device; and what a request costs.
#include "support/catch.hpp"
#include "support/sanitized.hpp"

#include <warpwright/serve/batcher.hpp>
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <new>
#include <thread>
#include <vector>

namespace ww = warpwright;

namespace {

[[maybe_unused]] std::atomic<long> allocations{0};
[[maybe_unused]] std::atomic<long> fail_in{-1};  // allocations until one fails; negative: none does

ww::latency_model const model = ww::latency_model::fit({{1, 1e-4, 2e-4, 0}, {64, 2e-4, 4e-4, 0}});

struct picture {
  int values[16];
};

void first_value(ww::batch<picture, int>& b, ww::stream_ref s) {
  for (std::size_t i = 0; i < b.size(); ++i) {
    ww::check(
        cudaMemcpyAsync(b.outputs() + i, b.inputs() + i, sizeof(int), cudaMemcpyDeviceToDevice, s),
        "cudaMemcpyAsync");
  }
}

// @return how many of 20 requests had a value; each ends
std::size_t run_some(ww::batcher<picture, int>& serve) {
  std::vector<ww::ticket<int>> tickets;
  for (int i = 0; i < 20; ++i) tickets.push_back(serve.submit(picture{{i}}));
  std::size_t values = 0;
  for (int i = 0; i < 20; ++i) {
    ww::ticket<int>& t = tickets[static_cast<std::size_t>(i)];
    if (int const* const value = t.wait()) {
      CHECK(*value == i);
      ++values;
    } else {
      CHECK((t.status() == ww::ticket_status::failed || t.status() == ww::ticket_status::closing));
      CHECK(t.error().size() > 6);
    }
  }
  return values;
}

std::size_t live() {
  ww::testing::host_runtime_stats const now = ww::testing::stats();
  return now.device_allocations + now.host_allocations;
}

}  // namespace

// Sanitizers have an operator new of their own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define COUNTS_ALLOCATIONS 1
__attribute__((noinline)) void* operator new(std::size_t bytes) {
  ++allocations;
  if (fail_in >= 0 && fail_in-- == 0) throw std::bad_alloc{};
  if (void* const memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc{};
}
__attribute__((noinline)) void operator delete(void* memory) noexcept { std::free(memory); }
__attribute__((noinline)) void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
#endif

TEST_CASE("every CUDA call may fail: a batcher is not made, or one batch fails") {
  ww::stream_pool streams{ww::current_device(), 2};
  { ww::batcher<picture, int> const warm{{}, streams, model, first_value}; }
  std::size_t const before = live();
  std::size_t made = 0;
  for (std::uint64_t nth = 1; nth <= 120; ++nth) {
    CAPTURE(nth);
    try {
      ww::testing::scoped_fault_plan const fault{
          ww::testing::fault_plan{}.fail("*", nth, cudaErrorInvalidValue)};
      ww::batcher<picture, int> serve{ww::batcher_options{}.max_items(8), streams, model,
                                      first_value};
      ++made;
      std::size_t const values = run_some(serve);
      CHECK(values + 8 >= 20);
      CHECK(run_some(serve) + 8 >= 20);
    } catch (ww::cuda_error const& error) {
      CHECK(error.code() == cudaErrorInvalidValue);
    } catch (std::invalid_argument const& error) {  // a pool that cannot make a stream
      CHECK_THAT(error.what(), contains("stream"));
    }
    CHECK(cudaGetLastError() == cudaSuccess);
    CHECK(live() == before);
    CHECK(streams.available() == streams.size());
  }
  CHECK(made >= 60);
}

TEST_CASE("without memory on the device, or page-locked, the constructor throws") {
  ww::stream stream;
  std::size_t const before = live();
  for (char const* const call : {"cudaMalloc", "cudaHostAlloc"}) {
    for (std::uint64_t const nth : {1U, 2U}) {
      ww::testing::scoped_fault_plan const fault{
          ww::testing::fault_plan{}.fail(call, nth, cudaErrorMemoryAllocation)};
      using batcher = ww::batcher<picture, int>;
      CHECK_THROWS_AS((batcher{{}, stream, model, first_value}), ww::cuda_error);
    }
  }
  CHECK(live() == before);
}

TEST_CASE("when the device is lost, all that waits fails and nothing is taken any more") {
  ww::testing::reset_host_runtime();
  {
    ww::stream stream;
    std::atomic<bool> open{false};
    ww::batcher<picture, int> serve{ww::batcher_options{}.max_items(4).bisect(), stream, model,
                                    [&](ww::batch<picture, int>& b, ww::stream_ref s) {
                                      while (!open) std::this_thread::yield();
                                      first_value(b, s);
                                    }};
    std::vector<ww::ticket<int>> tickets;
    for (int i = 0; i < 20; ++i) tickets.push_back(serve.submit(picture{{i}}));
    ww::testing::scoped_fault_plan const fault{
        ww::testing::fault_plan{}.poison("cudaMemcpyAsync", 1, cudaErrorIllegalAddress)};
    open = true;
    for (ww::ticket<int>& t : tickets) {
      CHECK(t.wait() == nullptr);
      CHECK(t.status() == ww::ticket_status::failed);
      CHECK_THAT(t.error(), contains("IllegalAddress") || contains("sticky"));
    }
    CHECK(serve.submit(picture{}).status() == ww::ticket_status::closing);
    CHECK(serve.drain(10.0).closing == 0);
  }
  ww::testing::reset_host_runtime();
}

#if defined(COUNTS_ALLOCATIONS)
TEST_CASE("every allocation may fail: the call throws, and the batcher works on") {
  ww::stream stream;
  std::size_t const before = live();
  std::size_t thrown = 0;
  for (long n = 0; n < 40; ++n) {
    CAPTURE(n);
    try {
      fail_in = n;
      ww::batcher<int, int> serve{ww::batcher_options{}.host_data(), stream, model,
                                  [](ww::batch<int, int>& b, ww::stream_ref) {
                                    for (std::size_t i = 0; i < b.size(); ++i) b.outputs()[i] = 1;
                                  }};
      ww::ticket<int> t = serve.submit(1);
      fail_in = -1;
      CHECK(t.wait() != nullptr);
    } catch (std::bad_alloc const&) {
      ++thrown;
    } catch (ww::cuda_error const& error) {  // the host runtime allocates, too
      CHECK(error.code() == cudaErrorMemoryAllocation);
    }
    fail_in = -1;
    CHECK(live() == before);
  }
  CHECK(thrown > 3);
}

TEST_CASE("a request allocates nothing and makes no CUDA call but those of its batch") {
  ww::stream stream;
  ww::batcher<int, int> serve{ww::batcher_options{}.host_data(), stream, model,
                              [](ww::batch<int, int>& b, ww::stream_ref) {
                                for (std::size_t i = 0; i < b.size(); ++i) b.outputs()[i] = 1;
                              }};
  std::vector<ww::ticket<int>> tickets(256);
  auto const run = [&](int count) {
    for (int i = 0; i < count; ++i) {
      ww::ticket<int>& t = tickets[static_cast<std::size_t>(i) % tickets.size()];
      if (i >= 256) static_cast<void>(t.wait());
      t = serve.submit(i, ww::request{}.key(i % 4).deadline(10.0));
    }
    for (ww::ticket<int>& t : tickets) static_cast<void>(t.wait());
  };
  run(5000);
  long const before = allocations;
  ww::testing::reset_call_counts();
  std::size_t const batches = serve.statistics().batches;
  run(5000);
  CHECK(allocations == before);
  CHECK(ww::testing::total_calls() <= 3 * (serve.statistics().batches - batches));
}
#endif

TEST_CASE("what a lane leaves to a faster device, an idle lane there is woken for") {
  ww::testing::reset_host_runtime(ww::testing::host_runtime_options{}.with_devices(2));
  {
    ww::stream_pool slow{ww::device_id{0}, 1};
    ww::stream_pool fast{ww::device_id{1}, 1};
    std::atomic<int> batches[2] = {};
    ww::batcher<int, int> serve{
        ww::batcher_options{}.host_data().choose_lane(ww::lane_choice::round_robin),
        ww::batch_lanes{slow, 1}.add(fast, 1), model, [&](ww::batch<int, int>& b, ww::stream_ref) {
          ++batches[b.lane()];
          std::this_thread::sleep_for(std::chrono::milliseconds{b.lane() == 0 ? 1500 : 1});
          for (std::size_t i = 0; i < b.size(); ++i) b.outputs()[i] = b.inputs()[i];
        }};
    auto const submit = [&](ww::request const& r) {
      std::this_thread::sleep_for(std::chrono::milliseconds{20});  // until both lanes sleep
      ww::ticket<int> t = serve.submit(7, r);
      CHECK(t.wait() != nullptr);
      CHECK(t.error() == "");
    };
    while (batches[0] == 0 || batches[1] == 0) submit(ww::request{});  // it learns who is slow
    submit(ww::request{}.deadline(1.0));                               // it is the slow one's turn
  }
  ww::testing::reset_host_runtime();
}
