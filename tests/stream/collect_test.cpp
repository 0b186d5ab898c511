// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include "stream/prefetch_support.hpp"
#include "support/catch.hpp"

#include <warpwright/stream/collect.hpp>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace ww = warpwright;
using namespace test_support;
using results_of = ww::result_collector<std::uint32_t>;
using slot_of = ww::result_slot<std::uint32_t>;

static_assert(!std::is_copy_constructible<slot_of>::value, "a slot has one owner");
static_assert(!std::is_move_constructible<results_of>::value, "slots refer to their collector");

namespace {

struct write_batch {
  std::uint32_t* out;
  std::size_t batch;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const { out[i] = element(batch, i); }
};

std::size_t wrong_in(std::uint32_t const* from, std::size_t size, std::size_t batch) {
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < size; ++i) wrong += from[i] != element(batch, i) ? 1U : 0U;
  return wrong;
}

}  // namespace

TEST_CASE("collect: the sink gets all results in order, with sizes and contents") {
  feeding f;
  std::vector<std::size_t> indices;
  std::vector<std::size_t> sizes;
  std::size_t wrong = 0;
  {
    results_of results{f.pool, f.pinned, 1000,
                       [&](std::uint32_t const* from, std::size_t size, std::size_t index) {
                         indices.push_back(index);
                         sizes.push_back(size);
                         wrong += wrong_in(from, size, index);
                         if (index % 7 == 0) wait_a_little(500);
                       }};
    for (std::size_t i = 0; i < 40; ++i) {
      slot_of out = results.next(f.stream);
      CHECK(out.capacity() == 1000);
      CHECK(out.size() == 1000);
      CHECK(out.index() == i);
      CHECK(out.slot() < results.statistics().depth);
      if (i % 3 == 0) pause(f.stream);
      ww::for_each_index(f.stream, 1000, write_batch{out.data(), i});
      out.set_size(1000 - i);
    }
    results.finish();
    CHECK(indices.size() == 40);
    CHECK(results.statistics().batches == 40);
    CHECK(results.statistics().of_results);
  }
  CHECK(wrong == 0);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    CHECK(indices[i] == i);
    CHECK(sizes[i] == 1000 - i);
  }
  CHECK(f.all_given_back());
}

TEST_CASE("collect: a slot is written again only when its last result was copied") {
  feeding f;
  std::size_t const size = 100000;
  std::size_t wrong = 0;
  results_of results{f.pool, f.pinned, size,
                     [&](std::uint32_t const* from, std::size_t n, std::size_t index) {
                       wrong += wrong_in(from, n, index);
                     },
                     ww::prefetch_options{}.depth(2).max_bytes(0)};
  for (std::size_t i = 0; i < 20; ++i) {
    slot_of const out = results.next(f.stream);
    ww::for_each_index(f.stream, size, write_batch{out.data(), i});
  }
  results.finish();
  CHECK(wrong == 0);
}

TEST_CASE("collect: the destructor waits for the sink") {
  feeding f;
  std::atomic<int> calls{0};
  {
    results_of results{f.pool, f.pinned, 10, [&](std::uint32_t const*, std::size_t, std::size_t) {
                         wait_a_little(2000);
                         ++calls;
                       }};
    for (std::size_t i = 0; i < 6; ++i) static_cast<void>(results.next(f.stream));
  }
  CHECK(calls == 6);
  CHECK(f.all_given_back());
}

TEST_CASE("collect: nothing is handed over of a slot that is cancelled, or left by an exception") {
  feeding f;
  std::vector<std::size_t> indices;
  results_of results{
      f.pool, f.pinned, 10,
      [&](std::uint32_t const*, std::size_t, std::size_t index) { indices.push_back(index); }};
  for (std::size_t i = 0; i < 10; ++i) {
    try {
      slot_of out = results.next(f.stream);
      if (i == 2) out.cancel();
      if (i == 3) out.set_size(0);
      if (i == 5) throw std::runtime_error{"between"};
      ww::for_each_index(f.stream, 10, write_batch{out.data(), i});
    } catch (std::runtime_error const&) {
    }
  }
  results.finish();
  CHECK(indices == std::vector<std::size_t>{0, 1, 4, 6, 7, 8, 9});
  CHECK(results.statistics().batches == 7);
}

TEST_CASE(
    "collect: an exception of the sink is thrown by every later call, and the sink is not called "
    "again") {
  feeding f;
  for (bool const by_finish : {true, false}) {
    std::atomic<int> calls{0};
    results_of results{f.pool, f.pinned, 10,
                       [&](std::uint32_t const*, std::size_t, std::size_t index) {
                         ++calls;
                         if (index == 2) throw std::runtime_error{"disk full"};
                       },
                       ww::prefetch_options{}.depth(8)};
    for (int i = 0; i < 3; ++i) static_cast<void>(results.next(f.stream));
    if (by_finish) {
      CHECK_THROWS_WITH(results.finish(), "disk full");
    } else {
      f.stream.synchronize();
      std::string thrown;
      for (int i = 0; i < 1000 && thrown.empty(); ++i) {
        try {
          results.next(f.stream).cancel();
          wait_a_little(100);
        } catch (std::runtime_error const& e) {
          thrown = e.what();
        }
      }
      CHECK(thrown == "disk full");
    }
    CHECK_THROWS_WITH(results.next(f.stream), "disk full");
    CHECK_THROWS_WITH(results.finish(), "disk full");
    CHECK(calls == 3);
  }
  CHECK(f.all_given_back());
}

TEST_CASE("collect: after an exception of the sink the results in flight are dropped") {
  feeding f;
  std::atomic<bool> go{false};
  std::atomic<int> calls{0};
  results_of results{f.pool, f.pinned, 4,
                     [&](std::uint32_t const*, std::size_t, std::size_t) {
                       ++calls;
                       while (!go) wait_a_little(100);
                       throw std::runtime_error{"disk full"};
                     },
                     ww::prefetch_options{}.depth(6)};
  for (int i = 0; i < 6; ++i) static_cast<void>(results.next(f.stream));
  go = true;
  CHECK_THROWS_WITH(results.finish(), "disk full");
  CHECK(calls == 1);
}

TEST_CASE("collect: a sink that would wait for itself is refused") {
  feeding f;
  results_of* self = nullptr;
  ww::stream const own;
  for (bool const by_finish : {true, false}) {
    std::atomic<bool> go{false};
    std::size_t taken = 0;
    results_of results{f.pool, f.pinned, 4,
                       [&](std::uint32_t const*, std::size_t, std::size_t index) {
                         if (index != 0) return;
                         while (!go) wait_a_little(100);
                         if (by_finish) self->finish();
                         for (;; ++taken) static_cast<void>(self->next(own));
                       },
                       ww::prefetch_options{}.depth(3).max_bytes(0)};
    self = &results;
    static_cast<void>(results.next(f.stream));
    go = true;
    CHECK_THROWS_WITH(results.finish(),
                      contains(by_finish ? "finish() in the sink would wait for itself"
                                         : "next() in the sink would wait for itself"));
    CHECK(taken == (by_finish ? 0U : 2U));
  }
  CHECK(f.all_given_back());
}

TEST_CASE("collect: after an exception of the sink no thread takes the rest for done") {
  feeding f;
  results_of results{f.pool, f.pinned, 4, [](std::uint32_t const*, std::size_t, std::size_t index) {
                       if (index == 2) throw std::runtime_error{"disk full"};
                     }};
  std::atomic<int> told{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      ww::stream const own;
      try {
        for (int i = 0; i < 50; ++i) static_cast<void>(results.next(own));
        results.finish();
      } catch (std::runtime_error const&) {
        ++told;
      }
    });
  }
  for (std::thread& each : threads) each.join();
  CHECK(told == 4);
}

TEST_CASE("collect: stop ends the waiting for a sink that does not go on") {
  feeding f;
  std::atomic<bool> go{false};
  std::atomic<int> calls{0};
  {
    results_of results{f.pool, f.pinned, 4,
                       [&](std::uint32_t const*, std::size_t, std::size_t) {
                         ++calls;
                         while (!go) wait_a_little(100);
                       },
                       ww::prefetch_options{}.depth(3).max_bytes(0)};
    std::thread stopper{[&] {
      wait_a_little(20000);
      results.stop();
    }};
    int taken = 0;
    while (results.next(f.stream)) ++taken;
    CHECK(taken == 3);
    CHECK_FALSE(results.next(f.stream));
    stopper.join();
    go = true;
    results.finish();
  }
  CHECK(calls == 1);
  CHECK(f.all_given_back());
}

TEST_CASE("collect: slots may be given back out of order, and results stay in order") {
  feeding f;
  std::vector<std::size_t> indices;
  std::size_t wrong = 0;
  results_of results{f.pool, f.pinned, 10,
                     [&](std::uint32_t const* from, std::size_t n, std::size_t index) {
                       indices.push_back(index);
                       wrong += wrong_in(from, n, index);
                     }};
  slot_of first = results.next(f.stream);
  slot_of second = results.next(f.stream);
  ww::for_each_index(f.stream, 10, write_batch{second.data(), 1});
  second.reset();
  results.finish();  // result 1 is behind a slot that is held
  CHECK(indices.empty());
  ww::for_each_index(f.stream, 10, write_batch{first.data(), 0});
  slot_of moved{std::move(first)};
  moved.reset();
  moved.reset();
  results.finish();
  CHECK(indices == std::vector<std::size_t>{0, 1});
  CHECK(wrong == 0);
}

TEST_CASE("collect: arrays of another type behind the elements") {
  feeding f;
  std::vector<std::uint32_t> seen;
  ww::result_collector<float> results{f.pool, f.pinned, 8,
                                      [&](float const* from, std::size_t, std::size_t) {
                                        std::uint32_t labels[4];
                                        std::memcpy(labels, from + 4, sizeof labels);
                                        seen.assign(labels, labels + 4);
                                      }};
  {
    ww::result_slot<float> const out = results.next(f.stream);
    CHECK(static_cast<void*>(out.at<std::uint32_t>(16)) == out.data() + 4);
    ww::for_each_index(f.stream, 4, write_batch{out.at<std::uint32_t>(16), 3});
  }
  results.finish();
  REQUIRE(seen.size() == 4);
  CHECK(wrong_in(seen.data(), 4, 3) == 0);
}

TEST_CASE("collect: wrong arguments") {
  feeding f;
  auto const sink = [](std::uint32_t const*, std::size_t, std::size_t) {};
  CHECK_THROWS_WITH((results_of{f.pool, f.pinned, 0, sink}),
                    contains("result_collector: a batch has room for 0 elements"));
  CHECK_THROWS_WITH((results_of{f.pool, f.pinned, 1, sink, ww::prefetch_options{}.depth(1)}),
                    contains("result_collector: a depth of 1"));
  CHECK_THROWS_AS((results_of{f.pool, f.pinned, std::size_t{1} << 60U, sink}), ww::out_of_memory);
  results_of results{f.pool, f.pinned, 5, sink};
  {
    slot_of out = results.next(f.stream);
    CHECK_THROWS_WITH(out.set_size(6), contains("6 elements, and there is room for 5"));
    CHECK(out.size() == 5);
  }
  ww::stream captured;
  ww::check(cudaStreamBeginCapture(captured.get(), cudaStreamCaptureModeThreadLocal),
            "cudaStreamBeginCapture");
  CHECK_THROWS_WITH(results.next(captured), contains("result_collector: next() on a capturing"));
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(captured.get(), &graph) == cudaSuccess);
  ww::detail::discard(cudaGraphDestroy(graph));
  results.finish();
}

TEST_CASE("collect: a global capture of this thread is not disturbed") {
  feeding f;
  ww::stream captured;
  std::atomic<int> calls{0};
  results_of results{f.pool, f.pinned, 100,
                     [&](std::uint32_t const*, std::size_t, std::size_t) {
                       wait_a_little(300);
                       ++calls;
                     },
                     ww::prefetch_options{}.depth(2)};
  ww::check(cudaStreamBeginCapture(captured.get(), cudaStreamCaptureModeGlobal),
            "cudaStreamBeginCapture");
  for (int i = 0; i < 20; ++i) static_cast<void>(results.next(f.stream));
  results.finish();
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(captured.get(), &graph) == cudaSuccess);
  ww::detail::discard(cudaGraphDestroy(graph));
  CHECK(calls == 20);
}

TEST_CASE("collect: a slow sink is the limit, and the ring grows for a sink of varying times") {
  feeding f;
  auto const run = [&](bool varies) {
    results_of results{f.pool, f.pinned, 10,
                       [=](std::uint32_t const*, std::size_t, std::size_t index) {
                         wait_a_little(varies ? (index % 10 == 9 ? 8000 : 10) : 2000);
                       },
                       ww::prefetch_options{}.depth(2)};
    for (int i = 0; i < 40; ++i) {
      slot_of const out = results.next(f.stream);
      if (varies) wait_a_little(1000);
      f.stream.synchronize();
    }
    results.finish();
    return results.statistics();
  };
  bool says_sink = false;
  bool grows = false;
  for (int attempt = 0; attempt < 10 && !says_sink; ++attempt) {
    ww::prefetch_statistics const slow = run(false);
    UNSCOPED_INFO(slow.to_text());
    says_sink = slow.limit() == ww::prefetch_limit::source;
    if (says_sink) CHECK_THAT(slow.to_text(), contains("The sink is the limit"));
  }
  CHECK(says_sink);
  for (int attempt = 0; attempt < 10 && !grows; ++attempt) grows = run(true).depth > 2;
  CHECK(grows);
}
