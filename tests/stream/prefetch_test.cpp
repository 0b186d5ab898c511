// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include "stream/prefetch_support.hpp"
#include "support/catch.hpp"

#include <warpwright/graph/capture.hpp>
#include <warpwright/graph/graph_exec.hpp>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace ww = warpwright;
using namespace test_support;
using batches_of = ww::prefetcher<std::uint32_t>;
using batch_of = ww::prefetched<std::uint32_t>;

static_assert(!std::is_copy_constructible<batch_of>::value, "a batch has one owner");
static_assert(std::is_nothrow_move_assignable<batch_of>::value, "");
static_assert(!std::is_move_constructible<batches_of>::value, "batches refer to their prefetcher");

namespace {

struct add_wrong {
  std::uint32_t const* in;
  std::uint32_t* sum;
  // All elements of a batch are the same.
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t) const {
    for (int i = 1; i < 64; ++i) *sum += in[i] != in[0] ? 1U : 0U;
    *sum += in[0] * 1000U;
  }
};

// Uses the prefetcher at its end.
struct talks : std::runtime_error {
  std::atomic<batches_of*>* of;
  explicit talks(std::atomic<batches_of*>& batches) : std::runtime_error{"late"}, of{&batches} {}
  talks(talks const&) = default;
  ~talks() override {
    if (of->load() != nullptr) static_cast<void>(of->load()->statistics());
  }
};

}  // namespace

TEST_CASE("prefetch: all batches come in order, with their sizes and contents") {
  for (unsigned const workers : {1U, 2U, 5U}) {
    feeding f;
    std::atomic<int> calls{0};
    {
      batches_of batches{f.pool, f.pinned, 500,
                         [&](std::uint32_t* to, std::size_t i) -> std::size_t {
                           if (i >= 40) return 0;
                           ++calls;
                           fill_batch(to, i, 500 - i);
                           return 500 - i;
                         },
                         ww::prefetch_options{}.workers(workers)};
      for (std::size_t i = 0; i < 40; ++i) {
        batch_of const batch = batches.next(f.stream);
        REQUIRE(batch);
        CHECK(batch.index() == i);
        CHECK(batch.size() == 500 - i);
        device_array<std::uint32_t> wrong{1};
        ww::for_each_index(f.stream, 1, count_wrong{batch.data(), i, batch.size(), wrong.data()});
        CHECK(wrong.fetch(f.stream)[0] == 0);
      }
      CHECK_FALSE(batches.next(f.stream));
      CHECK_FALSE(batches.next(f.stream));
      CHECK(batches.statistics().batches == 40);
      CHECK(batches.statistics().workers == workers);
    }
    CHECK(calls == 40);
    CHECK(f.all_given_back());
  }
}

TEST_CASE("prefetch: a source without batches") {
  feeding f;
  batches_of batches{f.pool, f.pinned, 1,
                     [](std::uint32_t*, std::size_t) -> std::size_t { return 0; },
                     ww::prefetch_options{}.workers(4)};
  CHECK_FALSE(batches.next(f.stream));
}

TEST_CASE("prefetch: batches that are filled out of order are delivered in order") {
  feeding f;
  batches_of batches{f.pool, f.pinned, 64,
                     [](std::uint32_t* to, std::size_t i) -> std::size_t {
                       if (i >= 24) return 0;
                       if (i % 4 == 0) wait_a_little(5000);  // the other workers are ahead
                       fill_batch(to, i, 64);
                       return 64;
                     },
                     ww::prefetch_options{}.workers(4).depth(8)};
  std::vector<std::uint32_t> const wrong = wrong_elements(batches, f.stream, 24);
  CHECK(wrong == std::vector<std::uint32_t>(24, 0));
}

TEST_CASE("prefetch: the device memory is filled again only behind the work with it") {
  feeding f;
  std::size_t const size = 50000;
  batches_of batches{f.pool, f.pinned, size,
                     [](std::uint32_t* to, std::size_t i) -> std::size_t {
                       if (i >= 12) return 0;
                       fill_batch(to, i, size);
                       return size;
                     },
                     ww::prefetch_options{}.workers(1).depth(2).max_bytes(0)};
  // The host is ahead of the stream, which waits before it reads.
  std::vector<std::uint32_t> const wrong = wrong_elements(batches, f.stream, 12, true);
  CHECK(wrong == std::vector<std::uint32_t>(12, 0));
}

TEST_CASE("prefetch: an exception of the source comes in place of its batch") {
  feeding f;
  {
    batches_of batches{f.pool, f.pinned, 8,
                       [](std::uint32_t* to, std::size_t i) -> std::size_t {
                         if (i >= 12) return 0;
                         if (i == 3 || i == 4 || i == 11) {
                           throw std::runtime_error{"file " + std::to_string(i)};
                         }
                         fill_batch(to, i, 8);
                         return 8;
                       },
                       ww::prefetch_options{}.workers(3)};
    for (std::size_t i = 0; i < 12; ++i) {
      if (i == 3 || i == 4 || i == 11) {
        CHECK_THROWS_WITH(batches.next(f.stream), "file " + std::to_string(i));
      } else {
        CHECK(batches.next(f.stream).index() == i);
      }
    }
    CHECK_FALSE(batches.next(f.stream));
    CHECK(batches.statistics().batches == 9);
  }
  CHECK(f.all_given_back());
}

TEST_CASE("prefetch: more elements than there is room for are reported") {
  feeding f;
  batches_of batches{f.pool, f.pinned, 8,
                     [](std::uint32_t*, std::size_t i) -> std::size_t {
                       return i == 0 ? 9 : i == 1 ? std::size_t{1} << 40U : 0;
                     },
                     ww::prefetch_options{}.workers(1)};
  CHECK_THROWS_WITH(batches.next(f.stream), contains("returned 9 elements for batch 0") &&
                                                contains("room for 8") &&
                                                contains("raise the capacity"));
  CHECK_THROWS_WITH(batches.next(f.stream), contains("returned 1099511627776 elements"));
  CHECK_FALSE(batches.next(f.stream));
}

TEST_CASE("prefetch: stop ends the waiting of a slow source's consumer") {
  feeding f;
  std::atomic<bool> go{false};
  {
    batches_of batches{f.pool, f.pinned, 8, [&](std::uint32_t*, std::size_t) -> std::size_t {
                         while (!go) wait_a_little(100);
                         return 8;
                       }};
    std::thread stopper{[&] {
      wait_a_little(20000);
      batches.stop();
    }};
    CHECK_FALSE(batches.next(f.stream));
    CHECK_FALSE(batches.next(f.stream));
    stopper.join();
    go = true;  // the source is not interrupted
  }
  CHECK(f.all_given_back());
}

TEST_CASE("prefetch: it may end before its batches were taken") {
  feeding f;
  for (int taken = 0; taken < 5; ++taken) {
    batches_of batches{f.pool, f.pinned, 1000, [](std::uint32_t* to, std::size_t i) -> std::size_t {
                         fill_batch(to, i, 1000);
                         return 1000;
                       }};
    for (int i = 0; i < taken; ++i) CHECK(batches.next(f.stream));
  }
  CHECK(f.all_given_back());
}

TEST_CASE("prefetch: its device memory is free only behind the work with the last batches") {
  feeding f;
  constexpr std::size_t size = 100000;
  device_array<std::uint32_t> wrong{std::vector<std::uint32_t>{77}};
  ww::stream const other;
  {
    batches_of batches{f.pool, f.pinned, size, [](std::uint32_t* to, std::size_t i) -> std::size_t {
                         fill_batch(to, i, size);
                         return size;
                       }};
    batch_of const batch = batches.next(f.stream);
    for (int i = 0; i < 30; ++i) pause(f.stream);
    ww::for_each_index(f.stream, 1, count_wrong{batch.data(), 0, size, wrong.data()});
  }
  // What is freed may be handed out at once, to another stream too.
  std::vector<void*> blocks;
  for (int i = 0; i < 16; ++i) {
    blocks.push_back(f.pool.allocate(other, size * sizeof(std::uint32_t)));
    fill(other, blocks.back(), 0xab, size * sizeof(std::uint32_t));
  }
  CHECK(wrong.fetch(f.stream)[0] == 0);
  for (void* const block : blocks) {
    f.pool.deallocate(other, block, size * sizeof(std::uint32_t));
  }
  other.synchronize();
  f.pool.retire(other);
}

TEST_CASE("prefetch: the pool does not use the stream of a prefetcher that has ended") {
  ww::stream stream;
  ww::memory_pool pool{ww::current_device(),
                       ww::memory_pool_options{}.max_bytes(std::size_t{32} << 20U)};
  ww::pinned_pool pinned;
  for (int i = 0; i < 3; ++i) {
    {
      batches_of batches{pool, pinned, std::size_t{1} << 20U,
                         [](std::uint32_t*, std::size_t) -> std::size_t { return 1; },
                         ww::prefetch_options{}.depth(6).max_bytes(0)};
      CHECK(batches.next(stream));
    }
    // It needs the blocks that were freed on the prefetcher's stream.
    void* const all = pool.allocate(stream, std::size_t{28} << 20U);
    pool.deallocate(stream, all, std::size_t{28} << 20U);
    stream.synchronize();
  }
}

TEST_CASE("prefetch: several batches may be held, moved and given back early") {
  feeding f;
  batches_of batches{f.pool, f.pinned, 16,
                     [](std::uint32_t* to, std::size_t i) -> std::size_t {
                       fill_batch(to, i, 16);
                       return 16;
                     },
                     ww::prefetch_options{}.depth(3).max_bytes(0)};
  batch_of first = batches.next(f.stream);
  batch_of second = batches.next(f.stream);
  CHECK(first.data() != second.data());
  batch_of moved{std::move(first)};
  CHECK_FALSE(first);
  CHECK(moved.index() == 0);
  moved = std::move(second);  // gives batch 0 back
  CHECK(moved.index() == 1);
  batch_of& same = moved;
  moved = std::move(same);
  CHECK(moved.index() == 1);
  moved.reset();
  moved.reset();
  CHECK_FALSE(moved);
  for (std::size_t i = 2; i < 10; ++i) CHECK(batches.next(f.stream).index() == i);
}

TEST_CASE("prefetch: slots keep their addresses, for one graph a slot") {
  feeding f;
  constexpr std::size_t count = 20;
  device_array<std::uint32_t> wrong{std::vector<std::uint32_t>(1, 0)};
  batches_of batches{f.pool, f.pinned, 64,
                     [](std::uint32_t* to, std::size_t i) -> std::size_t {
                       if (i >= count) return 0;
                       std::fill(to, to + 64, static_cast<std::uint32_t>(i));
                       return 64;
                     },
                     ww::prefetch_options{}.max_bytes(0)};
  std::map<unsigned, std::pair<std::uint32_t*, std::unique_ptr<ww::graph_exec>>> graphs;
  while (batch_of const batch = batches.next(f.stream)) {
    CHECK(batch.slot() < batches.statistics().depth);
    auto& graph = graphs[batch.slot()];
    if (graph.second == nullptr) {
      graph.first = batch.data();
      graph.second = std::make_unique<ww::graph_exec>(ww::capture(f.stream, [&](ww::stream_ref s) {
        ww::for_each_index(s, 1, add_wrong{batch.data(), wrong.data()});
      }));
    }
    CHECK(graph.first == batch.data());
    graph.second->launch(f.stream);
  }
  CHECK(graphs.size() == 5);
  CHECK(wrong.fetch(f.stream)[0] == 1000U * count * (count - 1) / 2);
}

TEST_CASE("prefetch: arrays of another type behind the elements") {
  feeding f;
  ww::prefetcher<unsigned char> batches{
      f.pool, f.pinned, 64 + 16, [](unsigned char* to, std::size_t i) -> std::size_t {
        if (i > 0) return 0;
        for (int k = 0; k < 64; ++k) to[k] = 1;
        auto* const labels = reinterpret_cast<std::uint32_t*>(to + 64);
        for (std::uint32_t k = 0; k < 4; ++k) labels[k] = 10 + k;
        return 64 + 16;
      }};
  ww::prefetched<unsigned char> const batch = batches.next(f.stream);
  std::uint32_t labels[4] = {};
  ww::check(cudaMemcpyAsync(labels, batch.at<std::uint32_t>(64), sizeof labels,
                            cudaMemcpyDeviceToHost, f.stream.get()),
            "cudaMemcpyAsync");
  f.stream.synchronize();
  CHECK(labels[3] == 13);
}

TEST_CASE("prefetch: options and sizes out of range are refused, and nothing stays allocated") {
  feeding f;
  auto const make = [&](std::size_t capacity, ww::prefetch_options const& options) {
    batches_of const made{f.pool, f.pinned, capacity,
                          [](std::uint32_t*, std::size_t) -> std::size_t { return 0; }, options};
  };
  ww::prefetch_options const o;
  CHECK_THROWS_WITH(make(0, o), contains("prefetcher: a batch has room for 0 elements"));
  CHECK_THROWS_WITH(make(1, o.workers(0)), contains("0 workers") && contains("1 to 61"));
  CHECK_THROWS_WITH(make(1, o.workers(62)), contains("62 workers"));
  CHECK_THROWS_WITH(make(1, o.depth(1)), contains("a depth of 1 batches") && contains("2 to 64"));
  CHECK_THROWS_WITH(make(1, o.depth(0)), contains("a depth of 0"));
  CHECK_THROWS_WITH(make(1, o.depth(65)), contains("a depth of 65"));
  CHECK_THROWS_WITH(make(100, o.depth(3).max_bytes(1199)),
                    contains("max_bytes() is 1199, less than 3 batches of 100 elements of 4"));
  CHECK_THROWS_WITH(make(100, o.max_bytes(799)), contains("less than 2 batches"));
  make(100, o.depth(3).max_bytes(1200));
  make(100, o.max_bytes(800));
  CHECK_THROWS_AS(make(~std::size_t{0}, o), ww::out_of_memory);
  CHECK_THROWS_AS(make(std::size_t{1} << 60U, o), ww::out_of_memory);
  make(1, o.workers(61));
  make(1, o.depth(64));
  CHECK(f.all_given_back());
}

TEST_CASE("prefetch: a capturing stream is refused, and its capture goes on") {
  feeding f;
  ww::stream captured;
  batches_of batches{f.pool, f.pinned, 8,
                     [](std::uint32_t*, std::size_t) -> std::size_t { return 8; }};
  ww::check(cudaStreamBeginCapture(captured.get(), cudaStreamCaptureModeThreadLocal),
            "cudaStreamBeginCapture");
  CHECK_THROWS_WITH(batches.next(captured), contains("prefetcher: next() on a capturing stream"));
  CHECK(batches.next(f.stream));
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(captured.get(), &graph) == cudaSuccess);
  ww::detail::discard(cudaGraphDestroy(graph));
}

TEST_CASE("prefetch: captures of any mode on another stream are not disturbed") {
  feeding f;
  ww::stream captured;
  for (auto const mode : {cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeGlobal,
                          cudaStreamCaptureModeRelaxed}) {
    batches_of batches{f.pool, f.pinned, 1000,
                       [](std::uint32_t* to, std::size_t i) -> std::size_t {
                         if (i >= 30) return 0;
                         if (i % 5 == 0) wait_a_little(500);
                         fill_batch(to, i, 1000);
                         return 1000;
                       },
                       ww::prefetch_options{}.depth(2)};  // and it grows
    ww::check(cudaStreamBeginCapture(captured.get(), mode), "cudaStreamBeginCapture");
    std::size_t taken = 0;
    while (batch_of const batch = batches.next(f.stream)) ++taken;
    CHECK(taken == 30);
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamEndCapture(captured.get(), &graph) == cudaSuccess);
    ww::detail::discard(cudaGraphDestroy(graph));
  }
}

TEST_CASE("prefetch: exceptions behind the end of the batches end without the lock") {
  feeding f;
  std::atomic<batches_of*> made{nullptr};
  std::atomic<bool> thrown{false};
  {
    batches_of batches{f.pool, f.pinned, 8, [&](std::uint32_t*, std::size_t i) -> std::size_t {
                         while (made.load() == nullptr) wait_a_little(100);
                         if (i == 0) {
                           while (!thrown) wait_a_little(100);
                           wait_a_little(5000);
                         }
                         if (i == 1) {
                           thrown = true;
                           throw talks{made};
                         }
                         return 0;
                       }};
    made = &batches;
    CHECK_FALSE(batches.next(f.stream));
    made = nullptr;
  }
  CHECK(f.all_given_back());
}

TEST_CASE("prefetch: default streams work") {
  feeding f;
  for (ww::stream_ref const s : {ww::stream_ref::legacy_default(), ww::stream_ref::per_thread()}) {
    batches_of batches{f.pool, f.pinned, 100, [](std::uint32_t* to, std::size_t i) -> std::size_t {
                         if (i >= 10) return 0;
                         fill_batch(to, i, 100);
                         return 100;
                       }};
    CHECK(wrong_elements(batches, s, 10) == std::vector<std::uint32_t>(10, 0));
  }
}
