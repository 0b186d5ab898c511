// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The tuner on real workloads: a perceptron, a transformer block and an elementwise pipeline. What
// needs a quiet GPU has the tag [.timing]: it runs on a GPU, in a test of its own.
#include <warpwright/memory/pool.hpp>
#include <warpwright/tune/batch_tuner.hpp>
#include <warpwright/tune/tuning_pool.hpp>

#include <algorithm>
#include <cmath>
#include <exception>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/device_memory.hpp"
#include "tune/batch_sweep.hpp"
#include "tune/real_workloads.hpp"

namespace ww = warpwright;
using test_support::elementwise_pipeline;
using test_support::full_size;
using test_support::library_error;
using test_support::perceptron;
using test_support::transformer_block;

namespace {

// A workload with its weights, and the pool that a tuner hands out.
template <class Workload>
struct bench {
  ww::stream stream;
  ww::memory_pool weights{ww::current_device()};
  Workload workload{weights, stream};
  ww::tuning_pool pool{ww::current_device()};

  bench() { stream.synchronize(); }

  std::size_t peak(std::size_t batch) {
    return test_support::measured_peak(stream, workload, pool, batch);
  }
  // A budget that half of the range fits.
  std::size_t budget() {
    std::size_t const bytes = peak(Workload::last / 2) / 10 * 11;
    pool.trim();
    return bytes;
  }
};

// On the host runtime a few samples: its times say nothing.
template <class Workload>
ww::batch_tuner tuner_of() {
  ww::batch_tuner const tuner =
      ww::batch_tuner{}.range(1, Workload::last).multiple_of(Workload::multiple);
  if (full_size) return tuner;
  return tuner.max_seconds(10.0).latency_calls(6).soak(10).sampling(
      ww::measure_options{}.sample_seconds(1e-4).min_samples(3).max_samples(5).max_seconds(0.01));
}

bool is_within(ww::tune_result const& r, std::size_t last) {
  return r.chosen().batch >= 1 && r.chosen().batch <= last &&
         r.chosen().status == ww::tune_status::ok && r.chosen().items_per_second > 0.0;
}

// A library that reports exhausted memory as a status, which its caller turns into an exception.
template <class Workload>
struct as_library {
  Workload& workload;
  void operator()(std::size_t batch, ww::stream_ref stream, ww::resource_ref memory) const {
    try {
      workload(batch, stream, memory);
    } catch (ww::out_of_memory const&) {
      test_support::check_library(test_support::library_out_of_memory, "forward");
    }
  }
};

struct is_library_out_of_memory {
  bool operator()(std::exception_ptr const& error) const {
    try {
      std::rethrow_exception(error);
    } catch (library_error const& e) {
      return e.status() == test_support::library_out_of_memory;
    } catch (...) {
      return false;
    }
  }
};

bool ran_out_of_memory(ww::tune_result const& r) {
  return std::any_of(r.rows.begin(), r.rows.end(), [](ww::tune_row const& row) {
    return row.status == ww::tune_status::out_of_memory;
  });
}

double error_of(double estimate, std::size_t measured) {
  return std::fabs(estimate / static_cast<double>(measured) - 1.0);
}

// Sizes that the tuner did not run, of which its model says that it knows them: those that it
// predicted to be over the budget, and random ones.
template <class Workload>
std::set<std::size_t> predicted_sizes(ww::tune_result const& r) {
  unsigned const seed = std::random_device{}();
  UNSCOPED_INFO("seed " << seed);
  std::mt19937 random{seed};
  std::set<std::size_t> sizes;
  for (ww::tune_row const& row : r.rows) {
    if (row.memory_predicted && r.memory.knows(row.batch)) sizes.insert(row.batch);
  }
  std::size_t const most = std::min(Workload::last, 2 * r.memory.largest_measured());
  // Of smaller ones the rounding of each block is more than the 3 %.
  std::uniform_int_distribution<std::size_t> any{std::min(Workload::last / 16, most), most};
  for (int i = 0; i < 8; ++i) {
    std::size_t const batch = any(random);
    bool const ran = std::any_of(r.rows.begin(), r.rows.end(), [batch](ww::tune_row const& row) {
      return row.batch == batch && !row.memory_predicted;
    });
    if (!ran && r.memory.knows(batch)) sizes.insert(batch);
  }
  return sizes;
}

template <class Workload>
void keeps_a_budget() {
  bench<Workload> b;
  std::size_t const budget = b.budget();
  std::size_t reserved = 0;
  auto const note = [&] {
    reserved = std::max(reserved, std::size_t{b.pool.statistics().reserved_peak_bytes});
  };
  auto const r = tuner_of<Workload>().memory_budget(budget).stop_after_flat(0).tune(
      b.stream,
      [&](std::size_t batch, ww::stream_ref on, ww::resource_ref memory) {
        try {
          b.workload(batch, on, memory);
        } catch (...) {
          note();
          throw;
        }
        note();
      },
      b.pool);
  INFO(ww::to_table(r));
  INFO("budget " << budget << " bytes");
  CHECK(is_within(r, Workload::last));
  CHECK(reserved > 0);
  CHECK(reserved <= budget);
  CHECK(r.chosen().memory_bytes <= budget);
  for (ww::tune_row const& row : r.rows) {
    INFO("batch " << row.batch);
    if (row.status == ww::tune_status::ok) CHECK(row.memory_bytes <= budget);
  }

  auto const sizes = predicted_sizes<Workload>(r);
  // Of the short ranges elsewhere, a tune on a busy machine may run all.
  if (!r.stopped_early && test_support::full_size) CHECK(!sizes.empty());
  for (std::size_t const batch : sizes) {
    INFO("batch " << batch << ", estimate " << r.memory.estimate(batch));
    std::size_t const measured = b.peak(batch);
    INFO("measured " << measured);
    CHECK(error_of(r.memory.estimate(batch), measured) <= 0.03);
    CHECK(r.memory.predict(batch) >= static_cast<double>(measured));
  }
}

template <class Workload>
void survives_exceptions_of_a_library() {
  bench<Workload> b;
  std::size_t const budget = b.budget();
  as_library<Workload> const workload{b.workload};
  {
    // The pool that has refused an allocation knows. A model that is right refuses nothing, so the
    // memory grows by a step that no model foresees.
    std::size_t const step = Workload::last / 8;
    auto const r = tuner_of<Workload>().memory_budget(budget).stop_after_flat(0).tune(
        b.stream,
        [&](std::size_t batch, ww::stream_ref on, ww::resource_ref memory) {
          workload(batch < step ? batch : Workload::last, on, memory);
        },
        b.pool);
    INFO(ww::to_table(r));
    CHECK(is_within(r, Workload::last));
    if (!r.stopped_early) CHECK(ran_out_of_memory(r));
    if (!r.stopped_early) CHECK(b.pool.refusals() > 0);
    CHECK(b.pool.live_bytes() == 0);
  }

  // Memory of its own, of which the tuner knows nothing.
  ww::memory_pool own{ww::current_device(), ww::memory_pool_options{}.maximum_bytes(budget)};
  auto const unknown = [&](std::size_t batch, ww::stream_ref on) { workload(batch, on, own); };
  auto const r = tuner_of<Workload>()
                     .stop_after_flat(0)
                     .out_of_memory_if(is_library_out_of_memory{})
                     .tune(b.stream, unknown);
  INFO(ww::to_table(r));
  CHECK(is_within(r, Workload::last));
  if (!r.stopped_early) {
    CHECK(r.rows.back().status == ww::tune_status::out_of_memory);
    CHECK(r.rows.back().note.find("forward returned") != std::string::npos);
  }
  CHECK_THROWS_AS(
      tuner_of<Workload>().stop_after_flat(0).max_seconds(100.0).tune(b.stream, unknown),
      library_error);
  CHECK(b.stream.done());

  // Another status of the same library is no lack of memory.
  CHECK_THROWS_AS(tuner_of<Workload>()
                      .out_of_memory_if(is_library_out_of_memory{})
                      .tune(b.stream,
                            [](std::size_t batch, ww::stream_ref) {
                              if (batch >= 4) test_support::check_library(7, "forward");
                            }),
                  library_error);
}

std::size_t free_bytes() {
  std::size_t free = 0;
  std::size_t total = 0;
  ww::check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return free;
}

template <class Workload>
void gives_memory_back() {
  bench<Workload> b;
  auto const tuner = tuner_of<Workload>().memory_budget(b.budget());
  // Once before, for the code that libraries load.
  tuner.tune(b.stream, b.workload, b.pool);
  std::size_t const before = free_bytes();
  std::size_t least = before;
  auto const r = tuner.tune(
      b.stream,
      [&](std::size_t batch, ww::stream_ref on, ww::resource_ref memory) {
        b.workload(batch, on, memory);
        least = std::min(least, free_bytes());
      },
      b.pool);
  CHECK(is_within(r, Workload::last));
  CHECK(least < before);
  CHECK(b.pool.statistics().reserved_bytes == 0);
  CHECK(b.pool.limit_bytes() == ww::memory_pool_options::unlimited);
  // A library may load more code.
  CHECK(free_bytes() + (std::size_t{32} << 20) >= before);
}

template <class Workload>
void stops_when_asked() {
  bench<Workload> b;
  std::size_t calls_after = 0;
  bool asked = false;
  auto const counted = [&](std::size_t batch, ww::stream_ref on, ww::resource_ref memory) {
    // By then smaller sizes have figures.
    asked = asked || batch >= 8 * Workload::multiple;
    calls_after += asked ? 1 : 0;
    b.workload(batch, on, memory);
  };
  auto const stop = [&asked] { return asked; };
  auto const r = tuner_of<Workload>().stop_when(stop).tune(b.stream, counted, b.pool);
  INFO(ww::to_table(r));
  CHECK(r.stopped_early);
  CHECK(is_within(r, Workload::last));
  // One sample or comparison may have begun.
  CHECK(calls_after < 2000);
  CHECK(b.pool.statistics().reserved_bytes == 0);

  // Under a latency limit nothing is chosen that has not been shown to keep it.
  asked = false;
  CHECK_THROWS_AS(tuner_of<Workload>()
                      .objective(ww::throughput_under_latency(1e3))
                      .stop_when(stop)
                      .tune(b.stream, counted, b.pool),
                  ww::no_feasible_batch);
}

// On a machine that is not quiet there may be no choice, but never one without its proof.
template <class Workload>
void shows_a_latency_limit() {
  bench<Workload> b;
  auto const before = test_support::latencies(b.stream, b.workload, b.pool, Workload::last / 8, 20);
  double const limit = 100.0 * ww::summarize(before).p99_seconds;
  try {
    auto const r = tuner_of<Workload>()
                       .range(1, Workload::last / 8)
                       .objective(ww::throughput_under_latency(limit))
                       .tune(b.stream, b.workload, b.pool);
    INFO(ww::to_table(r));
    CHECK(is_within(r, Workload::last / 8));
    CHECK(r.chosen().latency_shown);
    CHECK(r.chosen().latency_samples >= 597);
    CHECK(r.chosen().latency_p99_seconds <= limit);
  } catch (ww::no_feasible_batch const& e) {
    WARN(e.what());
  }
}

#if !WARPWRIGHT_HOST_RUNTIME

template <class Workload>
void keeps_a_latency_limit() {
  bench<Workload> b;
  // As a service replays it: the host's pauses between launches would be most of the p99.
  auto replayed = ww::captured(b.workload);
  auto const before = test_support::latencies(b.stream, replayed, b.pool, Workload::last / 4, 500);
  double const limit = 1.2 * ww::summarize(before).p99_seconds;
  auto const r = tuner_of<Workload>()
                     .objective(ww::throughput_under_latency(limit))
                     .tune(b.stream, replayed, b.pool);
  auto const later = test_support::latencies(b.stream, replayed, b.pool, r.chosen().batch, 10000);
  double const p99 = ww::summarize(later).p99_seconds;
  WARN(Workload::name << ": limit " << 1e6 * limit << " us, batch " << r.chosen().batch
                      << ", p99 of 10,000 calls " << 1e6 * p99 << " us, tune " << r.elapsed_seconds
                      << " s");
  INFO(ww::to_table(r));
  CHECK(p99 <= 1.02 * limit);
}

template <class Workload>
void is_as_fast_as_a_sweep() {
  bench<Workload> b;
  auto const r = tuner_of<Workload>().tune(b.stream, b.workload, b.pool);
  auto sizes = test_support::sweep_sizes(Workload::last, Workload::multiple, 1.4);
  if (std::find(sizes.begin(), sizes.end(), r.chosen().batch) == sizes.end()) {
    sizes.push_back(r.chosen().batch);
  }
  auto const swept = test_support::sweep(b.stream, b.workload, b.pool, sizes, 60, 2e-3);
  double const share = swept.rate(r.chosen().batch) / swept.best();
  WARN(Workload::name << ": batch " << r.chosen().batch << " has " << share << " of the rate of "
                      << swept.best_batch() << ", the best; tune " << r.elapsed_seconds
                      << " s, sweep " << swept.elapsed_seconds << " s");
  INFO(ww::to_table(r));
  CHECK(share >= 0.97);
}

#endif

}  // namespace

TEST_CASE("the products of the workloads are right", "[tune][batch_tuner]") {
  using test_support::half_type;
  using test_support::matrix;
  struct layout {
    std::size_t rows, columns, inner, count;
    bool left, right;
  };
  layout const l = GENERATE(layout{5, 24, 16, 1, false, false}, layout{8, 16, 24, 3, false, true},
                            layout{16, 8, 8, 2, true, false}, layout{1, 8, 32, 4, false, false});
  ww::stream const s;
  ww::memory_pool pool{ww::current_device()};
  test_support::matrix_products const products{pool, s};
  std::size_t const gap = 16;  // elements between rows, as a part of a larger matrix has
  std::size_t const a_rows = l.left ? l.inner : l.rows;
  std::size_t const a_columns = (l.left ? l.rows : l.inner) + gap;
  std::size_t const b_rows = l.right ? l.columns : l.inner;
  std::size_t const b_columns = (l.right ? l.inner : l.columns) + gap;
  std::size_t const p_columns = l.columns + gap;
  std::vector<float> a(l.count * a_rows * a_columns);
  std::vector<float> b(l.count * b_rows * b_columns);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i * 7 % 13) - 6.0F;
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i * 5 % 11) - 5.0F;
  test_support::device_array<float> const on_a{a};
  test_support::device_array<float> const on_b{b};
  test_support::device_array<float> const on_p{std::vector<float>(l.count * l.rows * p_columns)};
  products.multiply<float>({l.rows, l.columns, l.inner, l.count},
                           {on_p.data(), p_columns, l.rows * p_columns},
                           {on_a.data(), a_columns, a_rows * a_columns, l.left},
                           {on_b.data(), b_columns, b_rows * b_columns, l.right});
  auto const p = on_p.fetch(s);
  bool all = true;
  for (std::size_t m = 0; m < l.count; ++m) {
    for (std::size_t i = 0; i < l.rows; ++i) {
      for (std::size_t j = 0; j < p_columns; ++j) {
        double sum = 0.0;
        for (std::size_t k = 0; k < l.inner && j < l.columns; ++k) {
          std::size_t const in_a = l.left ? k * a_columns + i : i * a_columns + k;
          std::size_t const in_b = l.right ? j * b_columns + k : k * b_columns + j;
          sum += static_cast<double>(a[m * a_rows * a_columns + in_a]) *
                 static_cast<double>(b[m * b_rows * b_columns + in_b]);
        }
        // Small integers: exact in every precision.
        all = all && static_cast<double>(p[(m * l.rows + i) * p_columns + j]) == sum;
      }
    }
  }
  CHECK(all);
}

namespace {

template <class Workload>
std::vector<double> results_of(bench<Workload>& b, std::size_t batch) {
  using element = typename Workload::element;
  test_support::device_array<element> const results{batch * Workload::result_elements};
  b.workload(batch, b.stream, b.pool, results.data());
  std::vector<double> values;
  for (element const& value : results.fetch(b.stream)) {
    values.push_back(static_cast<double>(static_cast<float>(value)));
  }
  return values;
}

// What a mistake in a stride between items would change.
template <class Workload>
void items_do_not_depend_on_the_batch() {
  bench<Workload> b;
  auto const few = results_of(b, 3 * Workload::multiple);
  auto const many = results_of(b, 5 * Workload::multiple);
  double largest = 0.0;
  double difference = 0.0;
  bool finite = true;
  for (std::size_t i = 0; i < many.size(); ++i) {
    finite = finite && std::isfinite(many[i]);
    largest = std::max(largest, std::fabs(many[i]));
    if (i < few.size()) difference = std::max(difference, std::fabs(few[i] - many[i]));
  }
  CHECK(finite);
  CHECK(largest > 0.1);
  CHECK(difference <= 0.02 * largest);
  // Items differ, or the comparison would show nothing.
  std::size_t const n = Workload::result_elements;
  CHECK(!std::equal(many.begin(), many.begin() + static_cast<std::ptrdiff_t>(n),
                    many.begin() + static_cast<std::ptrdiff_t>(n)));
}

}  // namespace

TEST_CASE("perceptron: an item's result does not depend on the batch", "[tune][batch_tuner]") {
  items_do_not_depend_on_the_batch<perceptron>();
}
TEST_CASE("transformer block: an item's result does not depend on the batch",
          "[tune][batch_tuner]") {
  items_do_not_depend_on_the_batch<transformer_block>();
}
TEST_CASE("elementwise pipeline: an item's result does not depend on the batch",
          "[tune][batch_tuner]") {
  items_do_not_depend_on_the_batch<elementwise_pipeline>();
}

TEST_CASE("perceptron: a tune reserves no more than its budget, and predicts peaks within 3 %",
          "[tune][batch_tuner]") {
  keeps_a_budget<perceptron>();
}
TEST_CASE(
    "transformer block: a tune reserves no more than its budget, and predicts peaks within 3 %",
    "[tune][batch_tuner]") {
  keeps_a_budget<transformer_block>();
}
TEST_CASE(
    "elementwise pipeline: a tune reserves no more than its budget, and predicts peaks within 3 %",
    "[tune][batch_tuner]") {
  keeps_a_budget<elementwise_pipeline>();
}

TEST_CASE("perceptron: a library's own exception for exhausted memory is survived",
          "[tune][batch_tuner]") {
  survives_exceptions_of_a_library<perceptron>();
}
TEST_CASE("transformer block: a library's own exception for exhausted memory is survived",
          "[tune][batch_tuner]") {
  survives_exceptions_of_a_library<transformer_block>();
}
TEST_CASE("elementwise pipeline: a library's own exception for exhausted memory is survived",
          "[tune][batch_tuner]") {
  survives_exceptions_of_a_library<elementwise_pipeline>();
}

TEST_CASE("perceptron: the memory of a tune is given back", "[tune][batch_tuner]") {
  gives_memory_back<perceptron>();
}
TEST_CASE("transformer block: the memory of a tune is given back", "[tune][batch_tuner]") {
  gives_memory_back<transformer_block>();
}
TEST_CASE("elementwise pipeline: the memory of a tune is given back", "[tune][batch_tuner]") {
  gives_memory_back<elementwise_pipeline>();
}

TEST_CASE("perceptron: a tune stops when asked", "[tune][batch_tuner]") {
  stops_when_asked<perceptron>();
}
TEST_CASE("transformer block: a tune stops when asked", "[tune][batch_tuner]") {
  stops_when_asked<transformer_block>();
}
TEST_CASE("elementwise pipeline: a tune stops when asked", "[tune][batch_tuner]") {
  stops_when_asked<elementwise_pipeline>();
}

TEST_CASE("perceptron: a choice under a latency limit has its proof", "[tune][batch_tuner]") {
  shows_a_latency_limit<perceptron>();
}
TEST_CASE("transformer block: a choice under a latency limit has its proof",
          "[tune][batch_tuner]") {
  shows_a_latency_limit<transformer_block>();
}
TEST_CASE("elementwise pipeline: a choice under a latency limit has its proof",
          "[tune][batch_tuner]") {
  shows_a_latency_limit<elementwise_pipeline>();
}

#if !WARPWRIGHT_HOST_RUNTIME
TEST_CASE("perceptron: the p99 of 10,000 later calls is within 2 % of the limit", "[.timing]") {
  keeps_a_latency_limit<perceptron>();
}
TEST_CASE("transformer block: the p99 of 10,000 later calls is within 2 % of the limit",
          "[.timing]") {
  keeps_a_latency_limit<transformer_block>();
}
TEST_CASE("elementwise pipeline: the p99 of 10,000 later calls is within 2 % of the limit",
          "[.timing]") {
  keeps_a_latency_limit<elementwise_pipeline>();
}

TEST_CASE("perceptron: the choice has 97 % of the throughput of a sweep's best", "[.timing]") {
  is_as_fast_as_a_sweep<perceptron>();
}
TEST_CASE("transformer block: the choice has 97 % of the throughput of a sweep's best",
          "[.timing]") {
  is_as_fast_as_a_sweep<transformer_block>();
}
TEST_CASE("elementwise pipeline: the choice has 97 % of the throughput of a sweep's best",
          "[.timing]") {
  is_as_fast_as_a_sweep<elementwise_pipeline>();
}
#endif
