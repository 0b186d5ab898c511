// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Many threads at once, and what a long run allocates: nothing.
#include "stream/prefetch_support.hpp"
#include "support/catch.hpp"
#include "support/sanitized.hpp"

#include <warpwright/stream/collect.hpp>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <random>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/host_runtime.hpp>
#endif

namespace ww = warpwright;
using namespace test_support;

namespace {

// The memory of the process that is in RAM, without what the host runtime's "device" memory takes.
std::size_t resident_bytes() {
  unsigned long all = 0;
  unsigned long resident = 0;
  std::FILE* const file = std::fopen("/proc/self/statm", "r");
  REQUIRE(file != nullptr);
  int const read = std::fscanf(file, "%lu %lu", &all, &resident);
  std::fclose(file);
  REQUIRE(read == 2);
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

constexpr std::size_t batch_bytes = std::size_t{16} << 20U;

struct write_value {
  std::uint32_t* out;
  std::uint32_t value;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const { out[i] = value; }
};

struct check_ends {
  std::uint32_t const* in;
  std::uint32_t index;
  std::uint32_t* wrong;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t) const {
    *wrong += in[0] != index || in[batch_bytes / 4 - 1] != ~index ? 1U : 0U;
  }
};

}  // namespace

TEST_CASE("prefetch: with many consumers each batch goes to one of them, and is right") {
  feeding f;
  unsigned const seed = std::random_device{}();
  CAPTURE(seed);
  constexpr std::size_t count = 400;
  constexpr std::size_t size = 500;
  device_array<std::uint32_t> wrong{std::vector<std::uint32_t>(count, 1000)};
  std::vector<std::atomic<int>> taken(count);
  {
    ww::prefetcher<std::uint32_t> batches{
        f.pool, f.pinned, size,
        [&](std::uint32_t* to, std::size_t i) -> std::size_t {
          if (i >= count) return 0;
          if (std::mt19937{static_cast<unsigned>(seed + i)}() % 8 == 0) wait_a_little(200);
          fill_batch(to, i, size);
          return size;
        },
        ww::prefetch_options{}.workers(8).depth(24)};
    std::vector<std::thread> consumers;
    for (int t = 0; t < 16; ++t) {
      consumers.emplace_back([&] {
        ww::stream const own;
        while (ww::prefetched<std::uint32_t> const batch = batches.next(own)) {
          ++taken[batch.index()];
          ww::for_each_index(
              own, 1, count_wrong{batch.data(), batch.index(), size, wrong.data() + batch.index()});
        }
        own.synchronize();
      });
    }
    for (std::thread& each : consumers) each.join();
  }
  for (std::size_t i = 0; i < count; ++i) CHECK(taken[i] == 1);
  CHECK(wrong.fetch(f.stream) == std::vector<std::uint32_t>(count, 0));
  CHECK(f.all_given_back());
}

TEST_CASE("collect: results of many threads all arrive, each once") {
  feeding f;
  std::vector<int> arrived(1600, 0);
  {
    ww::result_collector<std::uint32_t> results{
        f.pool, f.pinned, 4,
        [&](std::uint32_t const* from, std::size_t, std::size_t) { ++arrived[from[0] % 1600]; },
        ww::prefetch_options{}.depth(20)};
    std::vector<std::thread> threads;
    for (std::uint32_t t = 0; t < 16; ++t) {
      threads.emplace_back([&results, t] {
        ww::stream const own;
        for (std::uint32_t i = 0; i < 100; ++i) {
          ww::result_slot<std::uint32_t> const out = results.next(own);
          ww::for_each_index(own, 4, write_value{out.data(), t * 100 + i});
        }
        own.synchronize();
      });
    }
    for (std::thread& each : threads) each.join();
    results.finish();
  }
  CHECK(arrived == std::vector<int>(1600, 1));
}

TEST_CASE("prefetch: stop wakes every consumer that waits") {
  feeding f;
  std::atomic<bool> go{false};
  ww::prefetcher<std::uint32_t> batches{f.pool, f.pinned, 8,
                                        [&](std::uint32_t*, std::size_t) -> std::size_t {
                                          while (!go) wait_a_little(100);
                                          return 8;
                                        }};
  std::atomic<int> ended{0};
  std::vector<std::thread> consumers;
  for (int t = 0; t < 8; ++t) {
    consumers.emplace_back([&] {
      ww::stream const own;
      while (batches.next(own)) {
      }
      ++ended;
    });
  }
  wait_a_little(10000);
  batches.stop();
  for (std::thread& each : consumers) each.join();
  CHECK(ended == 8);
  go = true;
}

TEST_CASE(
    "prefetch: a batch that ends in a capture serves who waits already, when that has ended") {
  feeding f;
  ww::prefetcher<std::uint32_t> batches{
      f.pool, f.pinned, 8, [](std::uint32_t*, std::size_t) -> std::size_t { return 8; },
      ww::prefetch_options{}.workers(1).depth(2).maximum_bytes(0)};
  ww::prefetched<std::uint32_t> first = batches.next(f.stream);
  ww::prefetched<std::uint32_t> const second = batches.next(f.stream);
  std::atomic<bool> taken{false};
  std::thread waiting{[&] {
    ww::stream const own;
    taken = batches.next(own).index() == 2;
  }};
  wait_a_little(30000);  // it sleeps
  ww::check(cudaStreamBeginCapture(f.stream.get(), cudaStreamCaptureModeThreadLocal),
            "cudaStreamBeginCapture");
  first.reset();
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(f.stream.get(), &graph) == cudaSuccess);
  ww::detail::discard(cudaGraphDestroy(graph));
  waiting.join();
  CHECK(taken);
}

TEST_CASE("prefetch: a source that takes batches is refused, in place of its batch") {
  feeding f;
  std::atomic<ww::prefetcher<std::uint32_t>*> self{nullptr};
  std::atomic<bool> thrown{false};
  ww::prefetcher<std::uint32_t> batches{f.pool, f.pinned, 8,
                                        [&](std::uint32_t*, std::size_t i) -> std::size_t {
                                          while (self == nullptr) wait_a_little(100);
                                          ww::stream const own;
                                          if (i == 1) static_cast<void>(self.load()->next(own));
                                          while (i == 3 && !thrown) wait_a_little(100);
                                          if (i == 3) self.load()->stop();
                                          return 8;
                                        }};
  self = &batches;
  CHECK(batches.next(f.stream).index() == 0);
  CHECK_THROWS_WITH(batches.next(f.stream), contains("prefetcher: next() in the source"));
  thrown = true;
  while (batches.next(f.stream)) {
  }
}

TEST_CASE("prefetch: the child of a fork can end what it has of its parent") {
  feeding f;
  auto* const batches =
      new ww::prefetcher<std::uint32_t>{f.pool, f.pinned, 8, [](std::uint32_t*, std::size_t) {
                                          return std::size_t{8};  // so that the ring is full
                                        }};
  std::atomic<bool> go{false};
  std::atomic<bool> in_sink{false};
  auto* const results = new ww::result_collector<std::uint32_t>{
      f.pool, f.pinned, 8, [&](std::uint32_t const*, std::size_t, std::size_t) {
        in_sink = true;
        while (!go) wait_a_little(100);
      }};
  auto* const idle = new ww::result_collector<std::uint32_t>{
      f.pool, f.pinned, 8, [](std::uint32_t const*, std::size_t, std::size_t) {}};
  ww::prefetched<std::uint32_t> batch = batches->next(f.stream);
  ww::result_slot<std::uint32_t> slot = results->next(f.stream);
  static_cast<void>(results->next(f.stream));
  slot.reset();
  slot = results->next(f.stream);
  while (!in_sink) wait_a_little(100);
  wait_a_little(10000);  // the other threads sleep
  pid_t const child = fork();
  if (child == 0) {
    batch.reset();
    slot.reset();
    delete idle;
    delete results;
    delete batches;
    _exit(7);
  }
  REQUIRE(child > 0);
  int status = 0;
  pid_t ended = 0;
  for (int i = 0; i < 6000 && ended == 0; ++i) {
    wait_a_little(10000);
    ended = waitpid(child, &status, WNOHANG);
  }
  if (ended == 0) {
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
  }
  CHECK(ended == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 7);
  go = true;
  batch.reset();
  slot.cancel();
  delete idle;
  delete results;
  delete batches;
  CHECK(f.all_given_back());
}

#if WARPWRIGHT_HOST_RUNTIME
TEST_CASE("prefetch: in a steady state nothing is created, allocated or page-locked") {
  feeding f;
  auto const calls_that_create = [] {
    std::uint64_t calls = 0;
    for (char const* name : {"cudaHostAlloc", "cudaMallocHost", "cudaHostRegister", "cudaMalloc",
                             "cudaMallocAsync", "cudaEventCreate", "cudaEventCreateWithFlags",
                             "cudaStreamCreateWithFlags", "cudaStreamCreateWithPriority"}) {
      calls += ww::testing::call_count(name);
    }
    return calls;
  };
  ww::prefetcher<std::uint32_t> batches{f.pool, f.pinned, 1000,
                                        [](std::uint32_t* to, std::size_t i) -> std::size_t {
                                          fill_batch(to, i, 1000);
                                          return 1000;
                                        },
                                        ww::prefetch_options{}.maximum_bytes(0)};
  ww::result_collector<std::uint32_t> results{f.pool, f.pinned, 1000,
                                              [](std::uint32_t const*, std::size_t, std::size_t) {},
                                              ww::prefetch_options{}.maximum_bytes(0)};
  auto const step = [&] {
    ww::prefetched<std::uint32_t> const batch = batches.next(f.stream);
    ww::result_slot<std::uint32_t> const out = results.next(f.stream);
  };
  for (int i = 0; i < 10; ++i) step();
  std::uint64_t const created = calls_that_create();
  std::uint64_t const from_pinned = f.pinned.statistics().allocations;
  std::uint64_t const from_pool = f.pool.statistics().allocations;
  for (int i = 0; i < 500; ++i) step();
  CHECK(calls_that_create() == created);
  CHECK(f.pinned.statistics().allocations == from_pinned);
  CHECK(f.pool.statistics().allocations == from_pool);
}
#endif

TEST_CASE("prefetch: 20 GB through a ring of 64 MiB leave the host's memory flat") {
  feeding f;
  std::size_t const count =
      (test_support::sanitized ? std::size_t{1} : std::size_t{20}) * 1000000000U / batch_bytes;
  ww::prefetcher<std::uint32_t> batches{f.pool, f.pinned, batch_bytes / 4,
                                        [](std::uint32_t* to, std::size_t i) -> std::size_t {
                                          if (i >= count) return 0;
                                          to[0] = static_cast<std::uint32_t>(i);
                                          to[batch_bytes / 4 - 1] = ~static_cast<std::uint32_t>(i);
                                          return batch_bytes / 4;
                                        },
                                        ww::prefetch_options{}.depth(4).maximum_bytes(0)};
  std::size_t taken = 0;
  std::size_t first = 0;
  std::size_t most = 0;
  device_array<std::uint32_t> sum{std::vector<std::uint32_t>{0}};
  while (ww::prefetched<std::uint32_t> const now = batches.next(f.stream)) {
    ww::for_each_index(f.stream, 1,
                       check_ends{now.data(), static_cast<std::uint32_t>(now.index()), sum.data()});
    if (++taken == 16) first = resident_bytes();
    if (taken % 16 == 0) most = std::max(most, resident_bytes());
  }
  CHECK(taken == count);
  CHECK(sum.fetch(f.stream)[0] == 0);
  CHECK(batches.statistics().bytes == count * batch_bytes);
  CHECK(most < first + (std::size_t{32} << 20U));
}
