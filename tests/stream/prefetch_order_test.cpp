// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory of slots that other work may still use: of the pool, of other streams, of captures, and
// batches that are given back elsewhere than where they were taken.
#include "stream/prefetch_support.hpp"
#include "support/catch.hpp"

#include <warpwright/stream/collect.hpp>
#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/fault_plan.hpp>
#endif

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>

namespace ww = warpwright;
using namespace test_support;
using batches_of = ww::prefetcher<std::uint32_t>;
using batch_of = ww::prefetched<std::uint32_t>;
using results_of = ww::result_collector<std::uint32_t>;
using slot_of = ww::result_slot<std::uint32_t>;

namespace {

struct put {
  std::uint32_t* out;
  std::uint32_t value;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const { out[i] = value; }
};

void keep_busy(ww::stream_ref stream, int times = 60) {
  for (int i = 0; i < times; ++i) pause(stream);
}

std::size_t count_other(std::uint32_t const* from, std::size_t size, std::uint32_t value) {
  std::size_t other = 0;
  for (std::size_t i = 0; i < size; ++i) other += from[i] != value ? 1U : 0U;
  return other;
}

ww::prefetch_options two_slots() { return ww::prefetch_options{}.workers(1).depth(2).max_bytes(0); }

// A capture that ends, without a graph, at the end of the scope.
class capture_by_hand {
 public:
  explicit capture_by_hand(ww::stream_ref stream) : stream_{stream} {
    ww::check(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal),
              "cudaStreamBeginCapture");
  }
  ~capture_by_hand() {
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamEndCapture(stream_.get(), &graph) == cudaSuccess);
    ww::detail::discard(cudaGraphDestroy(graph));
  }
  capture_by_hand(capture_by_hand const&) = delete;
  capture_by_hand& operator=(capture_by_hand const&) = delete;

 private:
  ww::stream_ref stream_;
};

// Batches whose elements are all their index.
struct indices {
  std::size_t size;
  std::size_t operator()(std::uint32_t* to, std::size_t batch) const {
    for (std::size_t k = 0; k < size; ++k) to[k] = static_cast<std::uint32_t>(batch);
    return size;
  }
};

}  // namespace

TEST_CASE("order: a result is written behind the work that had the pool's memory before") {
  constexpr std::size_t n = std::size_t{1} << 20U;
  constexpr std::size_t all = 28 * n;
  ww::stream before;
  ww::stream own;
  std::size_t wrong = 0;
  ww::memory_pool pool{ww::current_device(), ww::memory_pool_options{}.max_bytes(32 * n)};
  ww::pinned_pool pinned;
  auto* const memory = static_cast<std::uint32_t*>(pool.allocate(before, all));
  keep_busy(before, 200);
  ww::for_each_index(before, all / 4, put{memory, 0xdead});
  pool.deallocate(before, memory, all);
  {
    results_of results{pool, pinned, n,
                       [&](std::uint32_t const* from, std::size_t size, std::size_t) {
                         wrong += count_other(from, size, 7);
                       },
                       two_slots()};
    for (int i = 0; i < 2; ++i) {
      slot_of const out = results.next(own);
      ww::for_each_index(own, n, put{out.data(), 7});
    }
    results.finish();
  }
  CHECK(wrong == 0);
  before.synchronize();
}

TEST_CASE("order: a slot that was cancelled is another stream's only behind the first one's work") {
  feeding f;
  ww::stream const first;
  std::size_t wrong = 0;
  results_of results{f.pool, f.pinned, 1000,
                     [&](std::uint32_t const* from, std::size_t size, std::size_t) {
                       wrong += count_other(from, size, 7);
                     },
                     two_slots()};
  {
    slot_of out = results.next(first);
    keep_busy(first);
    ww::for_each_index(first, 1000, put{out.data(), 0xdead});
    out.cancel();
  }
  for (int i = 0; i < 3; ++i) {
    slot_of const out = results.next(f.stream);
    ww::for_each_index(f.stream, 1000, put{out.data(), 7});
    if (i == 1) keep_busy(f.stream, 90);
  }
  results.finish();
  CHECK(wrong == 0);
  first.synchronize();
}

TEST_CASE(
    "order: a batch of the legacy stream that ends beside a capture is kept until that ends") {
  feeding f;
  cudaStream_t blocking = nullptr;
  ww::check(cudaStreamCreate(&blocking), "cudaStreamCreate");
  for (auto const mode : {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal,
                          cudaStreamCaptureModeRelaxed}) {
    batches_of batches{f.pool, f.pinned, 1000, indices{1000}, two_slots()};
    auto* const got = static_cast<std::uint32_t*>(f.pinned.allocate(4000));
    batch_of batch = batches.next(ww::stream_ref::legacy_default());
    keep_busy(ww::stream_ref::legacy_default());
    ww::check(cudaMemcpyAsync(got, batch.data(), 4000, cudaMemcpyDeviceToHost, cudaStreamLegacy),
              "cudaMemcpyAsync");
    ww::check(cudaStreamBeginCapture(blocking, mode), "cudaStreamBeginCapture");
    batch.reset();
    for (std::size_t i = 1; i < 4; ++i) CHECK(batches.next(f.stream).index() == i);
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamEndCapture(blocking, &graph) == cudaSuccess);
    ww::detail::discard(cudaGraphDestroy(graph));
    ww::check(cudaStreamSynchronize(cudaStreamLegacy), "cudaStreamSynchronize");
    CHECK(count_other(got, 1000, 0) == 0);
    for (std::size_t i = 4; i < 8; ++i) CHECK(batches.next(f.stream).index() == i);
    f.stream.synchronize();
    f.pinned.deallocate(got, 4000);
  }
  ww::detail::discard(cudaStreamDestroy(blocking));
  CHECK(f.all_given_back());
}

TEST_CASE(
    "order: a batch whose own stream captures at its end is kept until the capture has ended") {
  feeding f;
  batches_of batches{f.pool, f.pinned, 8, indices{8}, two_slots()};
  for (std::size_t i = 0; i < 6; ++i) {
    batch_of batch = batches.next(f.stream);
    CHECK(batch.index() == i);
    ww::check(cudaStreamBeginCapture(f.stream.get(), cudaStreamCaptureModeThreadLocal),
              "cudaStreamBeginCapture");
    batch.reset();
    wait_a_little(3000);  // workers look at it again, and must not touch the stream
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamEndCapture(f.stream.get(), &graph) == cudaSuccess);
    ww::detail::discard(cudaGraphDestroy(graph));
  }
}

#if WARPWRIGHT_HOST_RUNTIME
TEST_CASE("order: what a worker waits for behind a capture keeps out of the next capture") {
  feeding f;
  batches_of batches{f.pool, f.pinned, 8, indices{8}, two_slots()};
  batch_of batch = batches.next(f.stream);
  batch_of const other = batches.next(f.stream);
  {
    using ww::testing::fault_plan;
    ww::testing::scoped_fault_plan const slow{
        fault_plan{}.delay("cudaEventRecord", 1, std::chrono::milliseconds{50})};
    {
      capture_by_hand const capture{f.stream};
      batch.reset();
    }
    for (int i = 0; i < 20000 && slow.hits() == 0; ++i) wait_a_little(100);
    CHECK(slow.hits() == 1);  // of the worker, which has seen that the first capture has ended
    capture_by_hand const capture{f.stream};
    wait_a_little(100000);
  }
  batch_of const last = batches.next(f.stream);
  CHECK(last.index() == 2);
  f.stream.synchronize();
}
#endif

TEST_CASE("order: a result whose stream captures at its end is an error, and never handed over") {
  feeding f;
  std::atomic<int> calls{0};
  {
    results_of results{f.pool, f.pinned, 8,
                       [&](std::uint32_t const*, std::size_t, std::size_t) { ++calls; }};
    slot_of out = results.next(f.stream);
    keep_busy(f.stream, 10);
    ww::for_each_index(f.stream, 8, put{out.data(), 7});
    ww::check(cudaStreamBeginCapture(f.stream.get(), cudaStreamCaptureModeThreadLocal),
              "cudaStreamBeginCapture");
    out.reset();
    wait_a_little(3000);
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamEndCapture(f.stream.get(), &graph) == cudaSuccess);
    ww::detail::discard(cudaGraphDestroy(graph));
    std::string error;
    for (int i = 0; i < 2000 && error.empty(); ++i) {
      try {
        results.finish();
        wait_a_little(1000);
      } catch (std::invalid_argument const& e) {
        error = e.what();
      }
    }
    CHECK_THAT(error, contains("while its stream was capturing"));
  }
  CHECK(calls == 0);
  CHECK(f.all_given_back());
}

TEST_CASE(
    "order: a result that is given back in a capture is an error at once, and earlier ones "
    "arrive") {
  feeding f;
  ww::stream const other;
  std::vector<std::size_t> arrived;
  {
    results_of results{f.pool, f.pinned, 8,
                       [&](std::uint32_t const*, std::size_t, std::size_t index) {
                         wait_a_little(2000);
                         arrived.push_back(index);
                       },
                       two_slots().depth(4)};
    slot_of lost;
    {
      slot_of const earlier = results.next(other);
      lost = results.next(f.stream);
      ww::for_each_index(other, 8, put{earlier.data(), 7});
    }
    capture_by_hand const capture{f.stream};
    lost.reset();
    static_cast<void>(results.next(other));  // the sink does not get this one
    CHECK_THROWS_WITH(results.finish(), contains("while its stream was capturing"));
    CHECK_THROWS_WITH(results.next(other), contains("while its stream was capturing"));
    CHECK(arrived == std::vector<std::size_t>{0});
  }
  CHECK(arrived.size() == 1);
}

TEST_CASE(
    "order: a collector whose slots are used up by lost results does not wait for the capture") {
  feeding f;
  ww::stream const other;
  {
    results_of results{f.pool, f.pinned, 8, [](std::uint32_t const*, std::size_t, std::size_t) {},
                       two_slots()};
    slot_of first = results.next(f.stream);
    slot_of second = results.next(f.stream);
    capture_by_hand const capture{f.stream};
    first.reset();
    CHECK_THROWS_WITH(results.next(other), contains("while its stream was capturing"));
    second.reset();
    CHECK_THROWS_WITH(results.next(other), contains("while its stream was capturing"));
  }
  CHECK(f.pinned.statistics().live_bytes == 0);
}

TEST_CASE("order: what the sink threw first is thrown, and not a result that is lost later") {
  feeding f;
  ww::stream const other;
  results_of results{f.pool, f.pinned, 8, [](std::uint32_t const*, std::size_t, std::size_t) {
                       throw std::runtime_error{"disk full"};
                     }};
  slot_of first = results.next(other);
  slot_of lost = results.next(f.stream);
  capture_by_hand const capture{f.stream};
  first.reset();
  lost.reset();
  CHECK_THROWS_WITH(results.finish(), "disk full");
}

TEST_CASE("order: a collector ends in the capture that its slots were given back in") {
  feeding f;
  ww::stream const other;
  capture_by_hand const capture{f.stream};
  {
    results_of results{f.pool, f.pinned, 8, [](std::uint32_t const*, std::size_t, std::size_t) {},
                       two_slots()};
    slot_of lost = results.next(other);
    slot_of cancelled = results.next(other);
    other.wait(f.stream);
    lost.reset();
    cancelled.cancel();
    f.stream.wait(other);
  }
  CHECK(f.pinned.statistics().live_bytes == 0);
  CHECK(f.pool.statistics().live_blocks == 2);  // which the graph may write to
}

TEST_CASE("order: memory is given back only when the last copy of it has completed") {
  feeding f;
  gate hold{f.stream};
  std::thread opener;
  {
    results_of results{f.pool, f.pinned, 8, [](std::uint32_t const*, std::size_t, std::size_t) {},
                       two_slots()};
    slot_of dropped = results.next(f.stream);
    results.stop();
    dropped.reset();
    opener = std::thread{[&] { hold.open_late(); }};
  }
  CHECK(f.stream.done());
  CHECK(f.all_given_back());
  opener.join();
}

TEST_CASE("order: a ring that ends behind a capture gives back what was kept for it") {
  feeding f;
  {
    results_of results{f.pool, f.pinned, 8, [](std::uint32_t const*, std::size_t, std::size_t) {},
                       two_slots()};
    slot_of lost = results.next(f.stream);
    slot_of cancelled = results.next(f.stream);
    results.stop();  // so that no thread looks at them
    capture_by_hand const capture{f.stream};
    lost.reset();
    cancelled.cancel();
  }
  CHECK(f.all_given_back());
}

TEST_CASE("order: a slot that is cancelled in a capture keeps back no later result") {
  feeding f;
  ww::stream const other;
  std::atomic<int> calls{0};
  results_of results{f.pool, f.pinned, 8,
                     [&](std::uint32_t const*, std::size_t, std::size_t) { ++calls; }, two_slots()};
  slot_of cancelled = results.next(f.stream);
  {
    capture_by_hand const capture{f.stream};
    cancelled.cancel();
    static_cast<void>(results.next(other));
    results.finish();
    CHECK(calls == 1);
    slot_of again = results.next(other);
    CHECK(again.index() == 2);
  }
  for (int i = 0; i < 4; ++i) static_cast<void>(results.next(f.stream));
  results.finish();
  CHECK(calls == 6);
}

TEST_CASE("order: a thread does not wait for memory that it keeps for its own captures") {
  feeding f;
  ww::stream const other;
  batches_of batches{f.pool, f.pinned, 8, indices{8}, two_slots()};
  results_of results{f.pool, f.pinned, 8, [](std::uint32_t const*, std::size_t, std::size_t) {},
                     two_slots()};
  std::thread waiting;
  std::atomic<std::size_t> taken{0};
  for (std::size_t round = 0; round < 2; ++round) {
    batch_of first = batches.next(f.stream);
    batch_of second = batches.next(f.stream);
    slot_of third = results.next(f.stream);
    slot_of fourth = results.next(f.stream);
    capture_by_hand const capture{f.stream};
    if (round == 1) {  // another thread may wait, and does before there is a capture's memory
      waiting = std::thread{[&] {
        ww::stream const own;
        taken = batches.next(own).index();
      }};
      wait_a_little(20000);
    }
    first.reset();
    second.reset();
    third.cancel();
    fourth.cancel();
    if (round == 0) {
      CHECK_THROWS_WITH(batches.next(other), contains("prefetcher: next() while all 2 slots"));
    }
    CHECK_THROWS_WITH(results.next(other), contains("result_collector: next() while all 2 slots"));
    CHECK(taken == 0);
  }
  waiting.join();
  CHECK(taken == 4);
  CHECK(batches.next(f.stream).index() == 5);
  CHECK(results.next(f.stream));
}

#if WARPWRIGHT_HOST_RUNTIME
TEST_CASE("order: a thread waits for memory of its ended capture that workers look at") {
  namespace wt = ww::testing;
  feeding f;
  batches_of batches{f.pool, f.pinned, 8, indices{8}, two_slots().workers(2)};
  std::unique_ptr<wt::scoped_fault_plan> plan;
  {
    batch_of first = batches.next(f.stream);
    batch_of second = batches.next(f.stream);
    capture_by_hand const capture{f.stream};
    first.reset();
    second.reset();
    wait_a_little(20000);  // both workers look every millisecond
    plan = std::make_unique<wt::scoped_fault_plan>(
        wt::fault_plan{}.delay("cudaEventRecord", std::chrono::milliseconds{300}));
  }
  wait_a_little(100000);  // each records the event of a slot
  CHECK(batches.next(f.stream).index() == 2);
}
#endif

TEST_CASE("order: a batch of one thread's default stream may be given back by another thread") {
  feeding f;
  auto* const got = static_cast<std::uint32_t*>(f.pinned.allocate(4000));
  {
    batches_of batches{f.pool, f.pinned, 1000, indices{1000}, two_slots()};
    batch_of batch;
    std::atomic<bool> taken{false};
    std::atomic<bool> end{false};
    std::thread other{[&] {
      ww::stream_ref const own = ww::stream_ref::per_thread();
      batch = batches.next(own);
      keep_busy(own);
      ww::check(cudaMemcpyAsync(got, batch.data(), 4000, cudaMemcpyDeviceToHost, own.get()),
                "cudaMemcpyAsync");
      taken = true;
      while (!end) wait_a_little(100);
      ww::check(cudaStreamSynchronize(own.get()), "cudaStreamSynchronize");
    }};
    while (!taken) wait_a_little(100);
    batch.reset();
    for (std::size_t i = 1; i < 4; ++i) CHECK(batches.next(f.stream).index() == i);
    end = true;
    other.join();
    f.stream.synchronize();
  }
  CHECK(count_other(got, 1000, 0) == 0);
  f.pinned.deallocate(got, 4000);
}

// The C library gives a new thread the pthread_t of one that has ended.
TEST_CASE("order: a batch of an ended thread's default stream may be given back by a new thread") {
  feeding f;
  auto* const got = static_cast<std::uint32_t*>(f.pinned.allocate(4000));
  {
    batches_of batches{f.pool, f.pinned, 1000, indices{1000}, two_slots()};
    batch_of batch;
    std::thread{[&] {
      ww::stream_ref const own = ww::stream_ref::per_thread();
      batch = batches.next(own);
      keep_busy(own);
      ww::check(cudaMemcpyAsync(got, batch.data(), 4000, cudaMemcpyDeviceToHost, own.get()),
                "cudaMemcpyAsync");
    }}.join();
    std::thread{[&] { batch.reset(); }}.join();
    for (std::size_t i = 1; i < 4; ++i) CHECK(batches.next(f.stream).index() == i);
    ww::stream_ref::legacy_default().synchronize();
    f.stream.synchronize();
  }
  CHECK(count_other(got, 1000, 0) == 0);
  f.pinned.deallocate(got, 4000);
}

TEST_CASE("order: with two devices the default streams are those of the pool's device") {
  if (ww::device_count() < 2) return;
  for (ww::stream_ref const s : {ww::stream_ref::legacy_default(), ww::stream_ref::per_thread()}) {
    ww::check(cudaSetDevice(1), "cudaSetDevice");
    {
      feeding f;
      auto* const got = static_cast<std::uint32_t*>(f.pinned.allocate(4000));
      batches_of batches{f.pool, f.pinned, 1000, indices{1000}, two_slots()};
      batch_of batch = batches.next(s);
      keep_busy(s);
      ww::check(cudaMemcpyAsync(got, batch.data(), 4000, cudaMemcpyDeviceToHost, s.get()),
                "cudaMemcpyAsync");
      ww::check(cudaSetDevice(0), "cudaSetDevice");
      batch.reset();
      for (std::size_t i = 1; i < 4; ++i) CHECK(batches.next(f.stream).index() == i);
      int current = -1;
      ww::check(cudaGetDevice(&current), "cudaGetDevice");
      CHECK(current == 0);
      ww::check(cudaSetDevice(1), "cudaSetDevice");
      ww::check(cudaStreamSynchronize(s.get()), "cudaStreamSynchronize");
      CHECK(count_other(got, 1000, 0) == 0);
      f.stream.synchronize();
      f.pinned.deallocate(got, 4000);
    }
    ww::check(cudaSetDevice(0), "cudaSetDevice");
  }
}
