// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include "stream/prefetch_support.hpp"
#include "support/catch.hpp"

#include <warpwright/graph/graph_cache.hpp>
#include <warpwright/stream/run_in_batches.hpp>

#include <numeric>
#include <random>
#include <set>
#include <stdexcept>
#include <string>

namespace ww = warpwright;
using namespace test_support;

namespace {

// A result of two numbers of an item of three.
struct sum_and_product {
  float const* in;
  double* out;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const {
    float const* const item = in + 3 * i;
    out[2 * i] = static_cast<double>(item[0]) + item[1] + item[2];
    out[2 * i + 1] = static_cast<double>(item[0]) * item[1] * item[2];
  }
};

std::vector<float> items_of(std::size_t count) {
  std::vector<float> items(3 * count);
  for (std::size_t i = 0; i < items.size(); ++i) items[i] = static_cast<float>(i % 251);
  return items;
}

// The number of wrong results; each starts as a number that is none.
std::size_t wrong_results(feeding& f, std::size_t count, std::size_t batch,
                          ww::prefetch_options const& options, std::vector<std::size_t>& sizes) {
  std::vector<float> const items = items_of(count);
  std::vector<double> results(2 * count + 2, -1.0);
  ww::batch_run const run = ww::run_in_batches(
      f.stream, f.pool, f.pinned, ww::batch_input<float>{items.data(), count, 3}, batch,
      [&](ww::stream_ref s, float const* in, double* out, std::size_t n) {
        sizes.push_back(n);
        ww::for_each_index(s, n, sum_and_product{in, out});
      },
      ww::batch_output<double>{results.data(), 2}, options);
  CHECK(run.items == count);
  CHECK(run.input.batches == sizes.size());
  CHECK(run.results.batches == sizes.size());
  std::size_t wrong = results[2 * count] != -1.0 || results[2 * count + 1] != -1.0 ? 1 : 0;
  for (std::size_t i = 0; i < count; ++i) {
    double const a = items[3 * i];
    double const b = items[3 * i + 1];
    double const c = items[3 * i + 2];
    wrong += results[2 * i] != a + b + c || results[2 * i + 1] != a * b * c ? 1U : 0U;
  }
  return wrong;
}

}  // namespace

TEST_CASE("batches: every item has its result, and the last batch has the rest") {
  feeding f;
  for (std::size_t const count : {1U, 2U, 7U, 8U, 9U, 16U, 1000U}) {
    for (std::size_t const batch : {1U, 8U, 300U}) {
      CAPTURE(count, batch);
      std::vector<std::size_t> sizes;
      CHECK(wrong_results(f, count, batch, {}, sizes) == 0);
      CHECK(sizes.size() == (count + batch - 1) / batch);
      CHECK(std::accumulate(sizes.begin(), sizes.end(), std::size_t{0}) == count);
      for (std::size_t i = 0; i + 1 < sizes.size(); ++i) CHECK(sizes[i] == batch);
    }
  }
  CHECK(f.all_given_back());
}

TEST_CASE("batches: random sizes and options") {
  feeding f;
  unsigned const seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 draw{seed};
  for (int i = 0; i < 40; ++i) {
    std::size_t const count = 1 + draw() % 5000;
    std::size_t const batch = 1 + draw() % 700;
    auto const workers = static_cast<unsigned>(1 + draw() % 4);
    auto const depth = static_cast<unsigned>(2 + draw() % 6);
    CAPTURE(count, batch, workers, depth);
    std::vector<std::size_t> sizes;
    CHECK(wrong_results(f, count, batch, ww::prefetch_options{}.workers(workers).depth(depth),
                        sizes) == 0);
  }
  CHECK(f.all_given_back());
}

TEST_CASE("batches: the addresses are depth pairs in turn, so that graphs serve them") {
  feeding f;
  std::size_t const count = 6000;
  std::vector<float> const items = items_of(count);
  std::vector<double> results(2 * count);
  std::set<std::pair<void const*, void*>> pairs;
  ww::graph_cache graphs{ww::graph_cache_options{}.variants(4).warmups(0).cost_gate(false)};
  auto const run = ww::run_in_batches(
      f.stream, f.pool, f.pinned, ww::batch_input<float>{items.data(), count, 3}, 100,
      [&](ww::stream_ref s, float const* in, double* out, std::size_t n) {
        pairs.insert({in, out});
        graphs.run(
            s, {n},
            [](ww::stream_ref body, float const* from, double* to, std::size_t size) {
              ww::for_each_index(body, size, sum_and_product{from, to});
            },
            in, out, n);
      },
      ww::batch_output<double>{results.data(), 2}, ww::prefetch_options{}.depth(4));
  CHECK(run.input.depth == 4);
  CHECK(pairs.size() == 4);
  CHECK(results[2 * 5999] == static_cast<double>(items[17997] + items[17998] + items[17999]));
  CHECK(graphs.statistics().replays >= 50);
}

TEST_CASE("batches: no items, and wrong arguments") {
  feeding f;
  float const item = 1.0F;
  double result = 0.0;
  auto const run = [&](ww::batch_input<float> in, std::size_t batch, ww::batch_output<double> out) {
    return ww::run_in_batches(
        f.stream, f.pool, f.pinned, in, batch,
        [](ww::stream_ref, float const*, double*, std::size_t) { FAIL("nothing to do"); }, out);
  };
  ww::batch_run const none = run({&item, 0, 1}, 8, {&result, 1});
  CHECK(none.items == 0);
  CHECK(none.items_per_second() == 0.0);
  CHECK(run({nullptr, 0, 1}, 8, {nullptr, 1}).items == 0);
  CHECK_THROWS_WITH(run({&item, 1, 1}, 0, {&result, 1}), contains("batches of 0 items"));
  CHECK_THROWS_WITH(run({&item, 1, 0}, 1, {&result, 1}), contains("an item of 0 elements"));
  CHECK_THROWS_WITH(run({&item, 1, 1}, 1, {&result, 0}), contains("a result of 0 elements"));
  CHECK_THROWS_WITH(run({nullptr, 1, 1}, 1, {&result, 1}), contains("the items are at a null"));
  CHECK_THROWS_WITH(run({&item, 1, 1}, 1, {nullptr, 1}), contains("the results are at a null"));
  CHECK_THROWS_WITH(run({&item, std::size_t{1} << 62U, 4}, 1, {&result, 1}),
                    contains("more than memory can have"));
  CHECK_THROWS_WITH(run({&item, 1, std::size_t{1} << 62U}, 8, {&result, 1}),
                    contains("more than memory can have"));
}

TEST_CASE("batches: types are deduced, and few batches take little memory") {
  feeding f;
  std::vector<float> const items = items_of(6);
  std::vector<double> results(12, -1.0);
  auto const run = ww::run_in_batches(
      f.stream, f.pool, f.pinned, ww::batch_input{items.data(), 6, 3}, 3,
      [](ww::stream_ref s, float const* in, double* out, std::size_t n) {
        ww::for_each_index(s, n, sum_and_product{in, out});
      },
      ww::batch_output{results.data(), 2});
  CHECK(run.input.depth == 2);
  CHECK(run.results.depth == 2);
  CHECK(results[10] == static_cast<double>(items[15]) + items[16] + items[17]);
  CHECK_THROWS_WITH(ww::run_in_batches(
                        f.stream, f.pool, f.pinned, ww::batch_input{items.data(), 6, 3}, 3,
                        [](ww::stream_ref, float const*, double*, std::size_t) {},
                        ww::batch_output{results.data(), 2}, ww::prefetch_options{}.depth(99)),
                    contains("a depth of 99"));
}

TEST_CASE("batches: the report of few batches is of the whole run") {
  feeding f;
  std::vector<float> const items = items_of(40);
  std::vector<double> results(80);
  auto const sleep = +[](void*) { wait_a_little(20000); };
  for (std::size_t const batches : {1U, 2U, 3U, 4U}) {
    for (bool const on_host : {false, true}) {
      CAPTURE(batches, on_host);
      ww::batch_run const run = ww::run_in_batches(
          f.stream, f.pool, f.pinned, ww::batch_input<float>{items.data(), 10 * batches, 3}, 10,
          [&](ww::stream_ref s, float const* in, double* out, std::size_t n) {
            if (on_host) {
              wait_a_little(20000);
            } else {
              ww::check(cudaLaunchHostFunc(s.get(), sleep, nullptr), "cudaLaunchHostFunc");
            }
            ww::for_each_index(s, n, sum_and_product{in, out});
          },
          ww::batch_output<double>{results.data(), 2});
      CHECK(run.input.seconds == run.results.seconds);
      CHECK(run.results.seconds >= 0.02 * static_cast<double>(batches));
      CHECK(run.first_batch_seconds > 0.0);
      CHECK(run.first_batch_seconds + run.results.seconds <= run.seconds);
      CHECK(run.input.bytes_per_second() ==
            Approx(120.0 * static_cast<double>(batches) / run.input.seconds));
      for (ww::prefetch_statistics const& way : {run.input, run.results}) {
        CHECK(way.caller_wait_seconds <= way.seconds);
        CHECK((way.limit() == ww::prefetch_limit::unknown || way.caller_wait_share() >= 0.05));
      }
      CHECK_THAT(run.to_text(), contains("of it until the first batch was there") &&
                                    contains("Too few batches to tell what the limit is."));
    }
  }
}

TEST_CASE("batches: an exception of the function ends the call, and everything is given back") {
  feeding f;
  std::vector<float> const items = items_of(1000);
  std::vector<double> results(2000, -1.0);
  int calls = 0;
  CHECK_THROWS_WITH(
      ww::run_in_batches(
          f.stream, f.pool, f.pinned, ww::batch_input<float>{items.data(), 1000, 3}, 100,
          [&](ww::stream_ref s, float const* in, double* out, std::size_t n) {
            if (++calls == 4) throw std::runtime_error{"step 4"};
            ww::for_each_index(s, n, sum_and_product{in, out});
          },
          ww::batch_output<double>{results.data(), 2}),
      "step 4");
  CHECK(calls == 4);
  CHECK(results[2 * 300] == -1.0);  // the step that threw has no result
  CHECK(f.all_given_back());
}

TEST_CASE("batches: several threads at once") {
  feeding f;
  std::vector<std::thread> threads;
  std::vector<std::size_t> wrong(4, 1);
  for (std::size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&f, &wrong, t] {
      std::size_t const count = 3000 + t;
      std::vector<float> const items = items_of(count);
      std::vector<double> results(2 * count);
      ww::stream const s;
      ww::run_in_batches(
          s, f.pool, f.pinned, ww::batch_input<float>{items.data(), count, 3}, 64,
          [](ww::stream_ref of, float const* in, double* out, std::size_t n) {
            ww::for_each_index(of, n, sum_and_product{in, out});
          },
          ww::batch_output<double>{results.data(), 2});
      wrong[t] = 0;
      for (std::size_t i = 0; i < count; ++i) {
        wrong[t] += results[2 * i] !=
                            static_cast<double>(items[3 * i]) + items[3 * i + 1] + items[3 * i + 2]
                        ? 1U
                        : 0U;
      }
    });
  }
  for (std::thread& each : threads) each.join();
  CHECK(wrong == std::vector<std::size_t>(4, 0));
  CHECK(f.all_given_back());
}
