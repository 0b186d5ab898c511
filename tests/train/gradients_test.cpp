// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"

#include <warpwright/graph/graph_replay.hpp>
#include <warpwright/memory.hpp>
#include <warpwright/train/gradients.hpp>
#include <warpwright/train/optimizers.hpp>

#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>
#include <vector>

namespace ww = warpwright;

namespace {

constexpr std::size_t n = 9000;  // more than a chunk

struct fixture {
  ww::stream stream;
  ww::memory_pool pool{ww::current_device()};
  ww::device_buffer<float> memory{pool, stream, 2 * n};
  ww::tensor_list list;
  fixture() { list.add("a", memory.data(), n - 5).add("b", memory.data() + n, {5, 100}); }

  void set(std::vector<float> const& values) {
    memory.copy_from(stream, values.data(), values.size());
    stream.synchronize();
  }
  std::vector<float> read(ww::tensor const& t) {
    std::vector<float> values(t.size);
    ww::check(
        cudaMemcpyAsync(values.data(), t.data, t.bytes(), cudaMemcpyDeviceToHost, stream.get()),
        "cudaMemcpyAsync");
    stream.synchronize();
    return values;
  }
};

std::vector<float> random_values(std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<float> values(2 * n);
  for (float& x : values) x = normal(random);
  return values;
}

}  // namespace

TEST_CASE("any split of a batch gives the gradient of the whole") {
  unsigned const seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random{seed};
  fixture f;
  ww::gradient_accumulator sum{f.pool, f.stream, f.list};
  for (int round = 0; round < 10; ++round) {
    sum.clear(f.stream);
    std::vector<double> exact(2 * n);
    double items = 0;
    int const parts = 1 + static_cast<int>(random() % 12);
    for (int part = 0; part < parts; ++part) {
      double const weight = static_cast<double>(1 + random() % 1000);
      auto const values = random_values(random);
      for (std::size_t i = 0; i < 2 * n; ++i) exact[i] += weight * static_cast<double>(values[i]);
      items += weight;
      f.set(values);
      sum.add(f.stream, f.list, weight);
    }
    auto const got = f.read(sum.gradients()[0]);
    double worst = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      worst = std::fmax(worst, std::fabs(static_cast<double>(got[i]) - exact[i] / items));
    }
    CHECK(worst <= 1e-6);
    double counted = 0;
    ww::check(cudaMemcpy(&counted, sum.items(), 8, cudaMemcpyDeviceToHost), "cudaMemcpy");
    CHECK(counted == items);
  }
}

TEST_CASE("items may be counted on the device, none among them, and replays add") {
  fixture f;
  ww::gradient_accumulator sum{f.pool, f.stream, f.list};
  ww::device_buffer<double> items{f.pool, f.stream, 1};
  ww::graph_replay graph;
  sum.clear(f.stream);
  double const weights[] = {0.0, 3.0, 0.0, 1.0};
  float const values[] = {9.0F, 1.0F, std::numeric_limits<float>::max(), 5.0F};
  for (int k = 0; k < 4; ++k) {
    items.copy_from(f.stream, &weights[k], 1);
    f.set(std::vector<float>(2 * n, values[k]));
    graph.run(f.stream, [&](ww::stream_ref s) { sum.add(s, f.list, items.data()); });
    if (k == 0) CHECK(f.read(sum.gradients()[1]) == std::vector<float>(500, 0.0F));
  }
  CHECK(f.read(sum.gradients()[1]) == std::vector<float>(500, 2.0F));
}

TEST_CASE("what is not finite stays so until the window ends") {
  fixture f;
  ww::gradient_accumulator sum{f.pool, f.stream, f.list};
  sum.clear(f.stream);
  f.set(std::vector<float>(2 * n, std::numeric_limits<float>::infinity()));
  sum.add(f.stream, f.list, 1.0);
  f.set(std::vector<float>(2 * n, 1.0F));
  sum.add(f.stream, f.list, 1.0);
  CHECK_FALSE(std::isfinite(f.read(sum.gradients()[0])[3]));
  ww::loss_scaler scaler{f.pool, f.stream};
  fixture p;
  p.set(std::vector<float>(2 * n, 0.0F));
  ww::sgd optimizer{f.pool, f.stream, p.list};
  optimizer.step(f.stream, sum.gradients(), scaler);
  CHECK(scaler.status(f.stream).skipped == 1);
  sum.clear(f.stream);
  sum.add(f.stream, f.list, 1.0);
  CHECK(f.read(sum.gradients()[0]) == std::vector<float>(n - 5, 1.0F));
}

TEST_CASE("an average begins at the parameters and follows them") {
  fixture f;
  f.set(std::vector<float>(2 * n, 2.0F));
  ww::ema average{f.pool, f.stream, f.list, 0.75F};
  CHECK(f.read(average.averages()[1]) == std::vector<float>(500, 2.0F));
  f.set(std::vector<float>(2 * n, 6.0F));
  average.update(f.stream);
  CHECK(f.read(average.averages()[0]) == std::vector<float>(n - 5, 3.0F));
  CHECK_THROWS_AS((ww::ema{f.pool, f.stream, f.list, 1.0F}), std::invalid_argument);
}

TEST_CASE("items and gradients that are not allowed are refused") {
  fixture f;
  ww::gradient_accumulator sum{f.pool, f.stream, f.list};
  for (double const items : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(),
                             std::numeric_limits<double>::infinity()}) {
    CHECK_THROWS_AS(sum.add(f.stream, f.list, items), std::invalid_argument);
  }
  CHECK_THROWS_AS(sum.add(f.stream, ww::tensor_list{}, 1.0), std::invalid_argument);
}

TEST_CASE(
    "memory that jumps in the middle: every item counts once, with at most two retries a jump") {
  unsigned const seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random{seed};
  fixture f;
  ww::tensor_list list;
  list.add("a", f.memory.data(), 10);
  ww::gradient_accumulator sum{f.pool, f.stream, list};
  ww::batch_plan const plan =
      ww::batch_planner{}.global_batch(96).largest_micro_batch(32).allow_ragged().plan();
  ww::micro_batches parts{plan};
  std::size_t fits = 32;
  std::size_t jumps = 0;
  std::size_t retries = 0;
  for (int step = 0; step < 1000; ++step) {
    if (random() % 50 == 0) {  // down to a quarter, or up
      fits = fits > 8 && random() % 2 == 0 ? fits / (2 + random() % 3) : 8 + random() % 25;
      ++jumps;
    }
    std::vector<int> seen(96, 0);
    retries += parts.run(f.stream, sum, list, [&](std::size_t offset, std::size_t count) {
      if (count > fits) throw std::bad_alloc{};
      double mean = 0.0;
      for (std::size_t i = offset; i < offset + count; ++i) {
        ++seen[i];
        mean += static_cast<double>(i) / static_cast<double>(count);
      }
      f.set(std::vector<float>(10, static_cast<float>(mean + step)));
    });
    REQUIRE(seen == std::vector<int>(96, 1));
    REQUIRE(f.read(sum.gradients()[0])[7] == Approx(47.5 + step));
  }
  CHECK(retries <= 2 * jumps + 1);  // and one try of a larger size, after 1,000 steps
  fits = 0;
  CHECK_THROWS_AS(
      parts.run(f.stream, sum, list, [&](std::size_t, std::size_t) { throw std::bad_alloc{}; }),
      std::bad_alloc);
  CHECK_THROWS_AS(parts.run(f.stream, sum, list,
                            [](std::size_t, std::size_t) { throw std::logic_error{"another"}; }),
                  std::logic_error);
}

TEST_CASE("ranks take the same sizes, and their weights are those of the whole") {
  ww::batch_plan const plan =
      ww::batch_planner{}.global_batch(31).ranks(3).largest_micro_batch(8).allow_ragged().plan();
  std::size_t items = 0;
  std::vector<std::vector<std::size_t>> offsets(3);
  std::vector<bool> const rank_fails{false, true, false};
  for (std::size_t rank = 0; rank < 3; ++rank) {  // one after another: the answers are known
    fixture f;
    ww::gradient_accumulator sum{f.pool, f.stream, f.list};
    ww::micro_batches parts{plan, rank};
    std::size_t calls = 0;
    parts.agree([&](bool mine) {
      CHECK(mine == (calls == 1 && rank_fails[rank]));
      return calls == 1;
    });
    CHECK(parts.run(f.stream, sum, f.list, [&](std::size_t offset, std::size_t count) {
      offsets[rank].push_back(offset);
      if (++calls == 1 && rank_fails[rank]) throw ww::out_of_memory{ww::memory_report{}};
      if (calls > 1) items += count;
    }) == 1);
    CHECK(parts.size() == plan.micro_batch / 2);
  }
  CHECK(items == 31);
  CHECK(offsets[0] == offsets[1]);
  CHECK(offsets[0] == offsets[2]);
  fixture f;
  ww::gradient_accumulator sum{f.pool, f.stream, f.list};
  ww::micro_batches parts{plan};
  parts.agree([](bool) -> bool { throw std::bad_alloc{}; });  // that is not a micro-batch's memory
  int calls = 0;
  CHECK_THROWS_AS(parts.run(f.stream, sum, f.list, [&](std::size_t, std::size_t) { ++calls; }),
                  std::bad_alloc);
  CHECK(calls == 1);
  ww::micro_batches second{
      ww::batch_planner{}.global_batch(3).ranks(2).largest_micro_batch(1).allow_ragged().plan(), 1};
  calls = 0;
  second.run(f.stream, sum, f.list, [&](std::size_t, std::size_t) { ++calls; });
  CHECK(calls == 1);  // of two, as the first rank has
  CHECK_THROWS_AS((ww::micro_batches{plan, 3}), std::invalid_argument);
  CHECK_THROWS_AS(ww::micro_batches{ww::batch_plan{}}, std::invalid_argument);
}
