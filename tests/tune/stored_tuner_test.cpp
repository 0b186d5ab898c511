// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// stored_tuner: when it tunes, when it checks, when it runs nothing, and what goes wrong with its
// store.
#include <warpwright/tune/detail/store/tune_record.hpp>
#include <warpwright/tune/stored_tuner.hpp>

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "simulated_workload.hpp"
#include "store_support.hpp"
#include "tuner_bench.hpp"

namespace ww = warpwright;
using namespace test_support;

namespace {

ww::batch_tuner small_tuner() { return ww::batch_tuner{}.range(1, 4096).soak(10); }

// A service that may be started often. Each start has a clock of its own.
struct service {
  store_folder folder{"/dev/shm"};
  ww::tuning_store store = ww::tuning_store{folder.file()}.lock_timeout(0.05);
  ww::tuning_key key = make_key();
  ww::batch_tuner tuner = small_tuner();
  cost seconds{};
  std::vector<std::size_t> ran;  // of the last start

  template <typename Seconds>
  ww::tune_result start(Seconds const& of_batch) {
    tuner_bench bench;
    ww::stored_tuner const stored{tuner.clock(bench.clock.ref()), store, key};
    auto const workload = [&](std::size_t batch, ww::stream_ref) {
      bench.ran.push_back(batch);
      bench.clock.advance(of_batch(batch));
    };
    ran.clear();
    auto const result =
        stored.tune_with(bench.stopwatch, bench.stream, workload, ww::no_memory_probe{});
    ran = bench.ran;
    return result;
  }
  ww::tune_result start() { return start(seconds); }
  std::size_t sizes_run() const {
    std::vector<std::size_t> all = ran;
    std::sort(all.begin(), all.end());
    return static_cast<std::size_t>(std::unique(all.begin(), all.end()) - all.begin());
  }
};

// The same with a simulated_workload, whose memory is that of a capped pool.
struct limited_service {
  store_folder folder{"/dev/shm"};
  ww::tuning_store store{folder.file()};
  ww::tuning_key key = make_key();
  ww::batch_tuner tuner = small_tuner();

  ww::tune_result start(simulated_workload& w) {
    static ww::stream const stream;
    simulated_stopwatch stopwatch{w.clock};
    simulated_pool pool{w};
    w.calls = 0;
    return ww::stored_tuner{tuner.clock(w.clock.ref()), store, key}.tune_with(
        stopwatch, stream, [&](std::size_t batch, ww::stream_ref) { w(batch); }, pool);
  }
};

bool mentions(std::vector<std::string> const& texts, std::string const& part) {
  for (std::string const& text : texts) {
    if (text.find(part) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("the second start uses the stored result, and runs nothing", "[tune][stored_tuner]") {
  service s;
  auto const first = s.start();
  CHECK(first.source == ww::tune_source::tuned);
  CHECK(first.warnings.empty());
  CHECK_FALSE(s.ran.empty());
  auto const second = s.start();
  CHECK(second.source == ww::tune_source::stored);
  CHECK(second.warnings.empty());
  CHECK(s.ran.empty());
  ww::tune_row const& a = first.chosen();
  ww::tune_row const& b = second.chosen();
  CHECK(a.batch == b.batch);
  CHECK_FALSE(a.items_per_second < b.items_per_second);
  CHECK_FALSE(a.items_per_second > b.items_per_second);
  CHECK_FALSE(a.latency_median_seconds < b.latency_median_seconds);
  CHECK(a.latency_samples == b.latency_samples);
  CHECK_FALSE(b.latency_shown);  // there is no limit
  CHECK(second.rows.size() == first.rows.size());
  CHECK(ww::to_text(second).find("-> ") != std::string::npos);
  CHECK(second.explanation.find("stored on 20") == 0);
  CHECK(second.explanation.find(first.explanation) != std::string::npos);
  CHECK(second.tolerance == first.tolerance);
}

TEST_CASE("a stored result keeps limits, memory and the calls that showed them",
          "[tune][stored_tuner]") {
  limited_service s;
  simulated_workload w{1};
  w.item_bytes = 1e6;
  w.stall_rate = 0.001;
  s.tuner = s.tuner.objective(ww::throughput_under_latency(2e-3)).memory_budget(1u << 30);
  auto const first = s.start(w);
  auto const second = s.start(w);
  CHECK(w.calls == 0);
  CHECK(second.source == ww::tune_source::stored);
  CHECK(second.memory_budget_bytes == std::size_t{1} << 30);
  CHECK(second.objective.latency_limited());
  ww::tune_row const& row = second.chosen();
  CHECK(row.latency_shown);
  CHECK(row.latency_over == first.chosen().latency_over);
  CHECK(row.latency_samples == first.chosen().latency_samples);
  CHECK(row.memory_bytes == first.chosen().memory_bytes);
  CHECK(row.memory_bytes > 0);
  // Sizes that failed are not among its rows.
  for (ww::tune_row const& each : second.rows) CHECK(each.status == ww::tune_status::ok);
}

TEST_CASE("a stored result is found in less than a millisecond", "[tune][stored_tuner]") {
  service s;
  s.start();
  for (int i = 0; i < 50; ++i) s.store.put(make_record("other" + std::to_string(i)));
  ww::stream const stream;
  double least = 1.0;
  for (int i = 0; i < 100; ++i) {
    ww::stored_tuner const stored{s.tuner, s.store, s.key};
    auto const begin = std::chrono::steady_clock::now();
    auto const result = stored.tune(ww::stream_ref{ww::stream{}},
                                    [](std::size_t, ww::stream_ref) { FAIL("the workload ran"); });
    std::chrono::duration<double> const elapsed = std::chrono::steady_clock::now() - begin;
    REQUIRE(result.source == ww::tune_source::stored);
    least = std::min(least, elapsed.count());
  }
  std::printf("a stored result takes %.1f us\n", 1e6 * least);
  CHECK(least < 1e-3);
}

TEST_CASE("another workload, device, objective, limit or range is tuned anew",
          "[tune][stored_tuner]") {
  service s;
  s.tuner = small_tuner().objective(ww::throughput_under_latency(4e-3));
  s.start();
  REQUIRE(s.start().source == ww::tune_source::stored);
  auto const range = [](std::size_t first, std::size_t last) {
    return ww::batch_tuner{}
        .range(first, last)
        .soak(10)
        .objective(ww::throughput_under_latency(4e-3));
  };
  SECTION("tag") { s.key.tag = "resnet50-v4"; }
  SECTION("device") { s.key.device = "NVIDIA L4"; }
  SECTION("MIG profile") { s.key.mig_profile = "1g.10gb"; }
  SECTION("device memory") { s.key.device_memory_bytes += s.key.device_memory_bytes / 20; }
  SECTION("goal") { s.tuner = s.tuner.objective(ww::min_latency().within_latency(4e-3)); }
  SECTION("no limit") { s.tuner = s.tuner.objective(ww::max_throughput()); }
  SECTION("limit") { s.tuner = s.tuner.objective(ww::throughput_under_latency(4.1e-3)); }
  SECTION("quantile") { s.tuner = s.tuner.objective(ww::throughput_under_latency(4e-3, 0.9)); }
  SECTION("confidence") { s.tuner = s.tuner.latency_confidence(0.999); }
  SECTION("first size") { s.tuner = range(2, 4096); }
  SECTION("last size") { s.tuner = range(1, 4097); }
  SECTION("multiple") { s.tuner = s.tuner.multiple_of(8); }
  SECTION("sizes") { s.tuner = s.tuner.only({64, 128}); }
  SECTION("tolerance") { s.tuner = s.tuner.tolerance(0.05); }
  CHECK(s.start().source == ww::tune_source::tuned);
  CHECK_FALSE(s.ran.empty());
  CHECK(s.start().source == ww::tune_source::stored);
  CHECK(s.store.records().records.size() == 2);
}

TEST_CASE("a budget needs peaks, also where the result is stored", "[tune][stored_tuner]") {
  limited_service s;
  simulated_workload w{9};
  w.item_bytes = 1e6;
  s.tuner = s.tuner.memory_budget(std::size_t{1} << 30);
  s.start(w);
  REQUIRE(s.start(w).source == ww::tune_source::stored);
  ww::stream const stream;
  ww::stored_tuner const stored{s.tuner, s.store, s.key};
  CHECK_THROWS_WITH(stored.tune(stream, [](std::size_t, ww::stream_ref) {}),
                    contains("needs a memory argument"));
}

TEST_CASE("another memory budget is tuned anew", "[tune][stored_tuner]") {
  limited_service s;
  simulated_workload w{2};
  w.item_bytes = 1e6;
  s.tuner = s.tuner.memory_budget(std::size_t{1} << 30);
  s.start(w);
  REQUIRE(s.start(w).source == ww::tune_source::stored);
  s.tuner = s.tuner.memory_budget(std::size_t{1} << 29);
  auto const result = s.start(w);
  CHECK(result.source == ww::tune_source::tuned);
  CHECK(result.chosen().memory_bytes <= std::size_t{1} << 29);
}

TEST_CASE("how the tuner searches is not compared", "[tune][stored_tuner]") {
  service s;
  s.start();
  SECTION("time") { s.tuner = s.tuner.max_seconds(5.0); }
  SECTION("resolution") { s.tuner = s.tuner.resolution(0.1); }
  SECTION("soak") { s.tuner = s.tuner.soak(100); }
  SECTION("sampling") { s.tuner = s.tuner.sampling(ww::measure_options{}); }
  SECTION("preferred sizes") { s.tuner = s.tuner.prefer(100); }
  SECTION("kind and objective of a key of one's own") {
    s.key.kind = "choice";
    s.key.objective = "none";
    s.key.memory_cap_bytes = 1;
  }
  CHECK(s.start().source == ww::tune_source::stored);
  CHECK(s.ran.empty());
}

TEST_CASE("settings that mean the same have one key", "[tune][stored_tuner]") {
  ww::tuning_store const store{"unused"};
  auto const key = [&](ww::batch_tuner const& tuner) {
    return ww::stored_tuner{tuner, store, make_key()}.key().objective;
  };
  CHECK(key(ww::batch_tuner{}.range(3, 30).multiple_of(8)) ==
        key(ww::batch_tuner{}.range(8, 24).multiple_of(8)));
  CHECK(key(ww::batch_tuner{}.only({64, 1, 8})) == key(ww::batch_tuner{}.only({1, 8, 64, 8})));
  CHECK(key(ww::batch_tuner{}.only({1, 8})) == "throughput; tolerance 0.02; sizes 1, 8");
  CHECK(key(ww::batch_tuner{}.range(1, 64).multiple_of(8).objective(
            ww::throughput_under_latency(5e-3))) ==
        "throughput, quantile 0.99 of calls within 0.005 s at a confidence of 0.995; tolerance "
        "0.02; sizes 8 to 64, multiples of 8");
}

TEST_CASE("with other versions three sizes are run again, and the record is replaced",
          "[tune][stored_tuner]") {
  service s;
  auto const first = s.start();
  std::size_t const all = s.ran.size();
  SECTION("driver") { s.key.driver_version = "13.1"; }
  SECTION("runtime") { s.key.runtime_version = "13.1"; }
  SECTION("library") { s.key.library_version = "0.2.0"; }
  SECTION("memory that another driver reserves") {
    s.key.device_memory_bytes -= s.key.device_memory_bytes / 100;
  }
  auto const second = s.start();
  CHECK(second.source == ww::tune_source::checked_again);
  CHECK(second.chosen().batch == first.chosen().batch);
  CHECK(second.explanation.find("with driver 13.0, runtime 12.8 and library 0.1.0") !=
        std::string::npos);
  CHECK(s.sizes_run() == 3);
  CHECK(s.ran.size() < all);
  REQUIRE(second.rows.size() == 3);
  CHECK(second.rows[1].batch == second.chosen().batch);
  CHECK(find_row(first, second.rows[0].batch) != nullptr);
  CHECK(find_row(first, second.rows[2].batch) != nullptr);
  // The neighbours, not any other sizes.
  CHECK(second.rows[0].batch == first.rows[first.chosen_index - 1].batch);
  CHECK(second.rows[2].batch == first.rows[first.chosen_index + 1].batch);

  CHECK(s.start().source == ww::tune_source::stored);
  CHECK(s.ran.empty());
  // The machines with the old driver still have theirs.
  s.key = make_key();
  CHECK(s.start().source == ww::tune_source::stored);
}

TEST_CASE("a choice without neighbours is checked alone", "[tune][stored_tuner]") {
  service s;
  s.tuner = small_tuner().only({64});
  s.start();
  s.key.driver_version = "13.1";
  CHECK(s.start().source == ww::tune_source::checked_again);
  CHECK(s.sizes_run() == 1);
}

TEST_CASE("after a driver update, another throughput is tuned anew", "[tune][stored_tuner]") {
  struct {
    double factor;
    ww::tune_source expected;
  } const cases[] = {
      {1.3, ww::tune_source::tuned},          {1.0 / 1.3, ww::tune_source::tuned},
      {1.13, ww::tune_source::tuned},         {0.88, ww::tune_source::tuned},
      {1.09, ww::tune_source::checked_again}, {0.93, ww::tune_source::checked_again}};
  for (auto const& c : cases) {
    service s;
    auto const first = s.start();
    s.key.driver_version = "13.1";
    s.seconds.fixed_seconds *= c.factor;
    s.seconds.item_seconds *= c.factor;
    auto const second = s.start();
    INFO("slower by " << c.factor);
    CHECK(second.source == c.expected);
    CHECK(second.chosen().batch == first.chosen().batch);
    CHECK(mentions(second.steps, "was not kept: ") == (c.expected == ww::tune_source::tuned));
    CHECK(s.start().source == ww::tune_source::stored);
  }
}

TEST_CASE("after a driver update, a choice that has fallen behind its neighbours is not kept",
          "[tune][stored_tuner]") {
  service s;
  auto const before = [](std::size_t b) { return 1e-4 + 1e-6 * static_cast<double>(b); };
  auto const first = s.start(before);
  std::size_t const chosen = first.chosen().batch;
  s.key.driver_version = "13.1";
  // The chosen size alone is slower by 6 %: within 10 % of what is stored.
  auto const second =
      s.start([&](std::size_t b) { return before(b) * (b == chosen ? 1.06 : 1.0); });
  CHECK(second.source == ww::tune_source::tuned);
  CHECK(second.chosen().batch != chosen);
  CHECK(mentions(second.steps, "another of the sizes next to it is better"));
}

TEST_CASE("after a driver update, other memory is tuned anew", "[tune][stored_tuner]") {
  for (double const factor : {0.85, 0.95, 1.05, 1.15}) {
    limited_service s;
    simulated_workload w{3};
    w.item_bytes = 1e6;
    s.start(w);
    s.key.driver_version = "13.1";
    w.item_bytes *= factor;
    INFO("memory by " << factor);
    CHECK((s.start(w).source == ww::tune_source::checked_again) == (factor > 0.9 && factor < 1.1));
  }
}

TEST_CASE("after a driver update, a size that no longer fits is not chosen",
          "[tune][stored_tuner]") {
  limited_service s;
  simulated_workload w{4};
  w.time.fixed = 1e-2;
  w.item_bytes = 1e6;
  w.budget = 1000000000;
  SECTION("the budget") { s.tuner = s.tuner.memory_budget(w.budget); }
  SECTION("the device") { w.limit = w.budget; }
  auto const first = s.start(w);
  REQUIRE(first.chosen().batch > 950);
  s.key.driver_version = "13.1";
  w.item_bytes = 1.08e6;
  auto const second = s.start(w);
  CHECK(second.source == ww::tune_source::tuned);
  CHECK(w.need(second.chosen().batch) <= w.budget);
  CHECK(mentions(second.steps, "was not kept: o"));
  CHECK(w.over_budget.empty());
}

TEST_CASE("a probe of peaks would not stop a size that needs more, so nothing large is run first",
          "[tune][stored_tuner]") {
  limited_service s;
  simulated_workload w{8};
  w.item_bytes = 1e6;
  w.budget = 1000000000;
  s.tuner = s.tuner.memory_budget(w.budget);
  ww::stream const stream;
  std::size_t largest_first = 0;
  for (int i = 0; i < 2; ++i) {
    simulated_stopwatch stopwatch{w.clock};
    std::size_t first = 0;
    auto const call = [&](std::size_t batch, ww::stream_ref) {
      if (first == 0) first = batch;
      w(batch);
    };
    auto const result = ww::stored_tuner{s.tuner.clock(w.clock.ref()), s.store, s.key}.tune_with(
        stopwatch, stream, call, simulated_probe{w});
    CHECK(result.source == ww::tune_source::tuned);
    largest_first = std::max(largest_first, first);
    s.key.driver_version = "13.1";
    w.item_bytes *= 1.5;
  }
  CHECK(largest_first == 1);
}

TEST_CASE("after a driver update, latencies over the limit are seen", "[tune][stored_tuner]") {
  double const limit = 2e-3;
  int seen = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    limited_service s;
    simulated_workload w{seed};
    w.jitter = 0.01;
    s.tuner = s.tuner.objective(ww::throughput_under_latency(limit));
    auto const first = s.start(w);
    s.key.driver_version = "13.1";
    // Such a call takes three times as long; the throughput changes by 6 % only.
    w.stall_rate = 0.03;
    REQUIRE(3.0 * w.time(first.chosen().batch) > limit);
    auto const second = s.start(w);
    CHECK(second.source == ww::tune_source::tuned);
    CHECK(3.0 * w.time(second.chosen().batch) <= limit);
    CHECK(w.later_quantile(second.chosen().batch, 0.99, 10000) <= limit);
    CHECK(mentions(second.steps, "was not kept: "));
    if (mentions(second.steps, "was not kept: over latency limit")) ++seen;
  }
  // Few stalls in the samples of a neighbour may make that seem better, before any limit is tested.
  CHECK(seen >= 15);
}

TEST_CASE("sizes that the limit of the latency excludes do not count in a check",
          "[tune][stored_tuner]") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    INFO("seed " << seed);
    limited_service s;
    simulated_workload w{seed};
    w.time.fixed = 2e-3;
    w.jitter = 0.01;
    w.stall_rate = 0.02;  // three times as long: the median is far below the limit
    // No call of 768 is over the limit, and all stalled ones of 1300 are; the time does not suffice
    // to find that out.
    s.tuner = s.tuner.only({512, 768, 1300, 2048})
                  .objective(ww::throughput_under_latency(9e-3))
                  .max_seconds(12.0);
    auto const first = s.start(w);
    REQUIRE(first.chosen().batch == 768);
    ww::tune_row const* const above = find_row(first, 1300);
    REQUIRE(above != nullptr);
    // It is stored, as its calls were not found to be over the limit.
    REQUIRE(above->status == ww::tune_status::ok);
    REQUIRE(above->items_per_second > 1.1 * first.chosen().items_per_second);
    s.key.driver_version = "13.1";
    auto const second = s.start(w);
    CHECK(second.source == ww::tune_source::checked_again);
    CHECK(second.chosen().batch == 768);
    CHECK(find_row(second, 1300) == nullptr);
  }
}

TEST_CASE("a store that cannot be used is a warning", "[tune][stored_tuner]") {
  service s;
  SECTION("a folder that does not exist") {
    s.store = ww::tuning_store{s.folder.path() + "/a/b/store.txt"};
  }
  SECTION("a folder in which nobody may write") { s.store = ww::tuning_store{"/proc/store.txt"}; }
  SECTION("a folder in place of the file") { REQUIRE(mkdir(s.folder.file().c_str(), 0700) == 0); }
  SECTION("a lock that is not given back") {
    int const file = open((s.folder.file() + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    REQUIRE(flock(file, LOCK_EX) == 0);
    for (int i = 0; i < 2; ++i) CHECK(mentions(s.start().warnings, "lock"));
    CHECK_FALSE(s.ran.empty());
    close(file);
    CHECK(s.start().warnings.empty());
    CHECK(s.start().source == ww::tune_source::stored);
    return;
  }
  for (int i = 0; i < 2; ++i) {
    auto const result = s.start();
    CHECK(result.source == ww::tune_source::tuned);
    CHECK(result.chosen().batch > 1000);
    CHECK_FALSE(result.warnings.empty());
  }
}

TEST_CASE("lines that are no records are warnings", "[tune][stored_tuner]") {
  service s;
  write(s.folder.file(), "not a record\n");
  auto const first = s.start();
  CHECK(first.source == ww::tune_source::tuned);
  CHECK(first.warnings.size() == 1);
  auto const second = s.start();
  CHECK(second.source == ww::tune_source::stored);
  CHECK(mentions(second.warnings, "store.txt:1"));
}

TEST_CASE("a record that the tuner could not have written is not used", "[tune][stored_tuner]") {
  limited_service s;
  simulated_workload w{7};
  w.item_bytes = 1e6;
  s.tuner = small_tuner()
                .multiple_of(2)
                .memory_budget(1000000000)
                .objective(ww::throughput_under_latency(9e-4));
  auto const first = s.start(w);
  auto record = s.store.records().records.at(0);
  auto const field = [&](char const* name) -> std::string& {
    for (auto& f : record.fields) {
      if (f.name == name) return f.value;
    }
    throw std::logic_error{"no such field"};
  };
  auto& choice = record.points.at(first.chosen_index);
  REQUIRE(choice.batch == first.chosen().batch);
  SECTION("a size out of range") {
    record.points.push_back(choice);
    record.points.back().batch = record.batch = 5000;
    field("rates") += " 1";
    field("calls") += " 1";
  }
  SECTION("no size") { record.batch = 0; }
  SECTION("a size that is no multiple") { record.batch = ++choice.batch; }
  SECTION("a size twice") {
    record.points.push_back(record.points.back());
    field("rates") += " 1";
    field("calls") += " 1";
  }
  SECTION("a size without figures") { ++record.batch; }
  SECTION("memory over the budget") { choice.memory_bytes = 1000000001; }
  SECTION("a latency over the limit") { choice.median_seconds = 9.1e-4; }
  SECTION("no figures") { record.fields.clear(); }
  SECTION("fewer rates than sizes") { field("rates") = "1 2"; }
  SECTION("fewer calls than sizes") { field("calls") = "1 2"; }
  SECTION("rates that are no numbers") { field("rates").replace(0, 1, "x"); }
  SECTION("rates separated by two spaces") { field("rates").insert(field("rates").find(' '), " "); }
  SECTION("a rate of 0") { field("rates") = "0" + field("rates").substr(field("rates").find(' ')); }
  SECTION("sizes in another order") { std::swap(record.points[0], record.points[1]); }
  SECTION("no count of calls over the limit") { field("over").clear(); }
  SECTION("an end that is no time") {
    record.fields.emplace_back();
    record.fields.back().name = "stopped_after";
    record.fields.back().value = "soon";
  }
  s.store.put(record);
  auto const second = s.start(w);
  CHECK(second.source == ww::tune_source::tuned);
  CHECK(second.chosen().batch == first.chosen().batch);
  CHECK(mentions(second.warnings, "is not used: "));
  auto const third = s.start(w);
  CHECK(third.source == ww::tune_source::stored);
  CHECK(third.warnings.empty());
}

TEST_CASE("a record has sizes that were measured, and memory that was", "[tune][stored_tuner]") {
  ww::tune_result result;
  for (std::size_t const batch : {1, 2, 4}) {
    ww::tune_row row;
    row.batch = batch;
    row.items_per_second = batch == 2 ? 0.0 : 100.0;  // calls of 2 took no time
    row.memory_bytes = 1000;
    row.memory_predicted = batch == 4;
    result.rows.push_back(row);
  }
  result.chosen_index = 0;
  ww::detail::search_settings const settings;
  auto const record = ww::detail::record_of_tune(result, settings);
  REQUIRE(record.points.size() == 2);
  CHECK(record.points[0].memory_bytes == 1000);
  CHECK(record.points[1].batch == 4);
  CHECK(record.points[1].memory_bytes == 0);
  ww::tune_result read;
  CHECK(ww::detail::read_tune(record, settings, read) == nullptr);
}

TEST_CASE("a tune without a choice is not stored", "[tune][stored_tuner]") {
  service s;
  s.tuner = s.tuner.objective(ww::throughput_under_latency(1e-9));
  for (int i = 0; i < 2; ++i) {
    std::size_t calls = 0;
    auto const of_batch = [&](std::size_t b) {
      ++calls;
      return cost{}(b);
    };
    CHECK_THROWS_AS(s.start(of_batch), ww::no_feasible_batch);
    CHECK(calls > 0);
  }
  CHECK(s.folder.names().empty());
}

TEST_CASE("what the workload throws is not caught, and nothing is stored", "[tune][stored_tuner]") {
  service s;
  CHECK_THROWS_AS(s.start([](std::size_t) -> double { throw std::domain_error{"x"}; }),
                  std::domain_error);
  CHECK(s.folder.names().empty());
  s.start();
  s.key.driver_version = "13.1";
  CHECK_THROWS_AS(s.start([](std::size_t) -> double { throw std::domain_error{"x"}; }),
                  std::domain_error);
}

TEST_CASE("a tune that was stopped is not stored", "[tune][stored_tuner]") {
  service s;
  std::size_t calls = 0;
  auto const stop = [&] { return calls > 200; };
  auto const of_batch = [&](std::size_t b) {
    ++calls;
    return cost{}(b);
  };
  s.tuner = small_tuner().stop_when(stop);
  CHECK(s.start(of_batch).source == ww::tune_source::tuned);
  CHECK(s.folder.names().empty());
}

TEST_CASE("a tune that ran out of time is stored until there is more", "[tune][stored_tuner]") {
  service s;
  s.tuner = small_tuner().max_seconds(0.05);
  REQUIRE(s.start().stopped_early);
  auto const again = s.start();
  CHECK(again.source == ww::tune_source::stored);
  CHECK(again.stopped_early);
  s.tuner = small_tuner().max_seconds(0.04);
  CHECK(s.start().source == ww::tune_source::stored);
  s.tuner = small_tuner().max_seconds(10.0);
  auto const more = s.start();
  CHECK(more.source == ww::tune_source::tuned);
  CHECK_FALSE(more.stopped_early);
  CHECK(mentions(more.warnings, "there is more time now"));
}

TEST_CASE("a check has half of the time, and a tune after it all", "[tune][stored_tuner]") {
  service s;
  s.tuner = small_tuner().max_seconds(2.0).soak(1, 100.0);  // the soak takes what is left
  s.start();
  s.key.driver_version = "13.1";
  double spent = 0.0;
  auto const result = s.start([&](std::size_t b) {
    double const seconds = 1.3 * cost{}(b);
    spent += seconds;
    return seconds;
  });
  CHECK(result.source == ww::tune_source::tuned);
  CHECK(std::fabs(spent - 3.0) < 0.1);
  CHECK(std::fabs(result.elapsed_seconds - spent) < 1e-6);
}

TEST_CASE("ranks use a stored result if all have the same one", "[tune][stored_tuner]") {
  service s;
  std::vector<std::size_t> asked;
  std::size_t other = std::numeric_limits<std::size_t>::max();
  auto const minimum = [&](std::size_t mine) {
    asked.push_back(mine);
    return std::min(mine, other);
  };
  s.tuner = small_tuner().agree(minimum);
  auto const first = s.start();
  CHECK(first.source == ww::tune_source::tuned);
  REQUIRE(asked.size() >= 2);
  CHECK(asked[0] == 0);
  std::size_t const chosen = first.chosen().batch;
  asked.clear();
  SECTION("all have it") {
    CHECK(s.start().source == ww::tune_source::stored);
    CHECK(asked == std::vector<std::size_t>{chosen, chosen});
  }
  SECTION("another rank has none") {
    other = 0;
    CHECK_THROWS_AS(s.start(), ww::no_feasible_batch);  // no tune can succeed without the other
    CHECK(asked.size() >= 2);
    CHECK(asked[0] == chosen);
  }
  SECTION("another rank has a smaller one") {
    other = 64;
    auto const again = s.start();
    CHECK(again.source == ww::tune_source::tuned);
    CHECK(again.chosen().batch == 64);
    REQUIRE(asked.size() >= 2);
    CHECK(asked[0] == chosen);
    CHECK(asked[1] == 0);
  }
  SECTION("this rank has another driver") {
    s.key.driver_version = "13.1";
    CHECK(s.start().source == ww::tune_source::tuned);
    CHECK(asked[0] == 0);
  }
}

TEST_CASE("services that start at once may each tune, and one record stays",
          "[tune][stored_tuner]") {
  store_folder const folder{"/dev/shm"};
  ww::tuning_store const store{folder.file()};
  ww::stored_tuner const shared{ww::batch_tuner{}.range(1, 64).max_seconds(0.2).soak(3), store,
                                "threads"};
  std::vector<std::thread> threads;
  std::vector<std::size_t> chosen(4);
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    threads.emplace_back([&, i] {
      ww::stream const stream;
      ww::stored_tuner const own = shared;
      auto const result =
          (i % 2 == 0 ? shared : own).tune(stream, [](std::size_t, ww::stream_ref s) {
            s.synchronize();
          });
      chosen[i] = result.warnings.empty() ? result.chosen().batch : 0;
    });
  }
  for (std::thread& t : threads) t.join();
  auto const records = store.records().records;
  REQUIRE(records.size() == 1);
  bool found = false;
  for (std::size_t const batch : chosen) {
    CHECK(batch > 0);
    found = found || batch == records[0].batch;
  }
  CHECK(found);
}

TEST_CASE("the key of a device has its versions", "[tune][stored_tuner]") {
  store_folder const folder;
  ww::tuning_store const store{folder.file()};
  ww::stored_tuner const stored{ww::batch_tuner{}.memory_budget(1000), store, "resnet50-v3"};
  auto expected = ww::tuning_key::of_device(ww::current_device());
  expected.tag = "resnet50-v3";
  expected.objective = "throughput; tolerance 0.02; sizes 1 to 4096";
  expected.memory_cap_bytes = 1000;
  CHECK(same_keys(stored.key(), expected));
  CHECK(folder.names().empty());
}

TEST_CASE("wrong use of a stored_tuner throws, also with a stored result", "[tune][stored_tuner]") {
  service s;
  s.start();
  auto const nothing = [](std::size_t, ww::stream_ref) {};
  ww::stream const stream;
  CHECK_THROWS_AS((ww::stored_tuner{s.tuner, s.store, ""}), std::invalid_argument);
  CHECK_THROWS_WITH((ww::stored_tuner{s.tuner, s.store, ww::tuning_key{}}),
                    contains("the tag is empty; name the workload"));
  CHECK_THROWS_AS((ww::stored_tuner{s.tuner, s.store, "x", ww::device_id{99}}),
                  std::invalid_argument);
  ww::stored_tuner const empty{s.tuner.range(2, 1), s.store, s.key};
  CHECK_THROWS_WITH(empty.tune(stream, nothing), contains("range(2, 1) is empty"));
  CHECK_THROWS_AS(empty.key(), std::invalid_argument);
  ww::stored_tuner const budget{s.tuner.memory_budget(1), s.store, s.key};
  CHECK_THROWS_WITH(budget.tune(stream, nothing), contains("needs a memory argument"));
}

TEST_CASE("every source has a name", "[tune][stored_tuner]") {
  CHECK(to_string(ww::tune_source::tuned) == std::string{"tuned"});
  CHECK(to_string(ww::tune_source::stored) == std::string{"stored"});
  CHECK(to_string(ww::tune_source::checked_again) == std::string{"checked again"});
  CHECK(to_string(static_cast<ww::tune_source>(9)) == std::string{"unknown"});
}
