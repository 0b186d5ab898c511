// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/core/detail/text/figures.hpp>
#include <warpwright/core/launch.hpp>
#include <warpwright/measure/expect.hpp>

#include <unistd.h>

#include <clocale>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "measure/simulated_noise.hpp"
#include "tune/store_support.hpp"

namespace ww = warpwright;
using namespace test_support;
using ww::finding_state;

namespace {

bool has(std::string const& text, std::string const& part) {
  return text.find(part) != std::string::npos;
}

// A measurement of calls back to back, with this interval.
ww::measurement median_of(double low, double median, double high) {
  ww::measurement m;
  m.summary.count = 100;
  m.summary.median_low_seconds = low;
  m.summary.median_seconds = median;
  m.summary.median_high_seconds = high;
  m.calls_per_sample = 20;
  return m;
}

// A measurement of single calls: `over` of `count` take `long_seconds`, the others `seconds`.
ww::measurement calls_of(std::size_t count, double seconds, std::size_t over, double long_seconds) {
  ww::measurement m;
  m.samples.assign(count, seconds);
  for (std::size_t i = 0; i < over; ++i) m.samples[i * count / over] = long_seconds;
  m.summary = ww::summarize(m.samples);
  m.effective_samples = static_cast<double>(count);
  m.calls_per_sample = 1;
  return m;
}

ww::finding only(ww::expectations const& table, ww::observed const& o) {
  auto const report = table.check({o});
  REQUIRE(report.findings.size() == 1);
  return report.findings[0];
}

std::string const decode = "decode";

struct add_one {
  float* data;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const { data[i] += 1.0F; }
};

}  // namespace

TEST_CASE("a throughput falls short only if its whole interval does", "[tune][expect]") {
  auto const table = ww::expectations{}.throughput_at_least(decode, 20000.0);
  auto const of = [&](double low, double median, double high) {
    return only(table, ww::observed{decode}.throughput(median_of(low, median, high), 64));
  };
  // 64 items in 3.2 ms are the limit.
  auto const good = of(2.9e-3, 3.0e-3, 3.1e-3);
  CHECK(good.state == finding_state::met);
  CHECK(good.text == "throughput of decode: 21.33 k items/s, expected at least 20 k items/s");
  CHECK(std::fabs(good.low - 64 / 3.1e-3) < 1e-6);
  CHECK(std::fabs(good.high - 64 / 2.9e-3) < 1e-6);
  auto const either = of(3.1e-3, 3.3e-3, 3.5e-3);
  CHECK(either.state == finding_state::not_shown);
  CHECK(either.text ==
        "throughput of decode: 19.39 k items/s (between 18.29 k items/s and 20.65 k items/s), "
        "expected at least 20 k items/s");
  auto const bad = of(3.5e-3, 3.6e-3, 3.7e-3);
  CHECK(bad.state == finding_state::fell_short);
  CHECK(bad.text ==
        "throughput of decode: 17.78 k items/s, expected at least 20 k items/s (11 % under, at "
        "least 8.6 %)");
  CHECK(of(3.1e-3, 3.15e-3, 64 / 20000.0).state == finding_state::met);
  CHECK(of(0.0, 3.6e-3, 3.7e-3).state == finding_state::not_shown);
  CHECK(of(0.0, 0.0, 0.0).state == finding_state::no_figure);
}

TEST_CASE("a p99 falls short only on its lower confidence bound", "[tune][expect]") {
  auto const table = ww::expectations{}.latency_at_most(decode, 0.99, 5e-3);
  auto const with = [&](std::size_t count, std::size_t over) {
    return only(table, ww::observed{decode}.latency(calls_of(count, 3e-3, over, 6e-3)));
  };
  // Of 2,000 calls 20 may be over the limit; 32 are with a probability of 0.8 %.
  CHECK(with(2000, 21).state == finding_state::not_shown);
  CHECK(with(2000, 31).state == finding_state::not_shown);
  auto const bad = with(2000, 32);
  CHECK(bad.state == finding_state::fell_short);
  CHECK(bad.text == "p99 of decode: 6 ms, expected at most 5 ms (20 % over)");
  // 298 good calls show nothing, 299 do.
  CHECK(with(298, 0).state == finding_state::not_shown);
  CHECK(with(298, 0).high > 1e300);
  CHECK(has(with(298, 0).text,
            ": 3 ms (at least 3 ms, and too few calls to tell more), expected at most 5 ms"));
  CHECK(with(299, 0).state == finding_state::met);
  CHECK(with(472, 1).state == finding_state::not_shown);
  CHECK(with(473, 1).state == finding_state::met);
  CHECK(with(1, 1).state == finding_state::not_shown);

  // Of correlated samples as many are needed as they stand for.
  ww::measurement m = calls_of(2000, 3e-3, 40, 6e-3);
  CHECK(only(table, ww::observed{decode}.latency(m)).state == finding_state::fell_short);
  m.effective_samples = 100.0;
  CHECK(only(table, ww::observed{decode}.latency(m)).state == finding_state::not_shown);
  m = calls_of(2000, 6e-3, 1, 7e-3);
  m.effective_samples = 2.5;
  CHECK(only(table, ww::observed{decode}.latency(m)).state == finding_state::fell_short);
  m.effective_samples = 0.5;
  CHECK(only(table, ww::observed{decode}.latency(m)).state == finding_state::not_shown);
  m = calls_of(2000, 3e-3, 0, 7e-3);
  m.effective_samples = 298.9;
  CHECK(only(table, ww::observed{decode}.latency(m)).state == finding_state::not_shown);
  m.effective_samples = 1e9;
  CHECK(only(table, ww::observed{decode}.latency(m)).state == finding_state::met);
}

TEST_CASE("more expectations make each check more careful", "[tune][expect]") {
  auto table = ww::expectations{}.latency_at_most(decode, 0.99, 5e-3);
  auto const o = ww::observed{decode}.latency(calls_of(2000, 3e-3, 33, 6e-3));
  CHECK(table.check({o}).findings[0].state == finding_state::fell_short);
  for (int i = 1; i < 10; ++i) {
    table = table.memory_at_most("other " + std::to_string(i), 1);
  }
  CHECK(table.check({o}).findings[0].state == finding_state::not_shown);
}

TEST_CASE("the median of the latency is that of the measurement", "[tune][expect]") {
  auto const table = ww::expectations{}.latency_at_most(decode, 0.5, 3e-3);
  auto m = calls_of(500, 4e-3, 0, 0.0);
  auto const bad = only(table, ww::observed{decode}.latency(m));
  CHECK(bad.state == finding_state::fell_short);
  CHECK(bad.text == "median latency of decode: 4 ms, expected at most 3 ms (33 % over)");
  m.summary.median_low_seconds = 2.9e-3;
  CHECK(only(table, ww::observed{decode}.latency(m)).state == finding_state::not_shown);
  m.summary.median_high_seconds = m.summary.median_seconds = 3e-3;
  CHECK(only(table, ww::observed{decode}.latency(m)).state == finding_state::met);
}

TEST_CASE("memory is exact", "[tune][expect]") {
  auto const table = ww::expectations{}.memory_at_most(decode, std::size_t{2} << 30);
  auto const of = [&](std::size_t bytes) {
    return only(table, ww::observed{decode}.memory(bytes));
  };
  CHECK(of(std::size_t{2} << 30).state == finding_state::met);
  auto const bad = of((std::size_t{2} << 30) + (std::size_t{1} << 29));
  CHECK(bad.state == finding_state::fell_short);
  CHECK(bad.text == "memory of decode: 2.5 GiB, expected at most 2 GiB (25 % over)");
  CHECK(of((std::size_t{2} << 30) + 1).state == finding_state::fell_short);
}

TEST_CASE("a stored tune counts as exact to 5 %", "[tune][expect]") {
  ww::tuning_record record = make_record();
  record.items_per_second = 1000.0;
  record.latency_median_seconds = 3e-3;
  record.latency_p99_seconds = 4e-3;
  record.memory_bytes = 1 << 20;
  auto const o = ww::observed::of_record(decode, record);
  CHECK(o.name() == decode);
  auto const throughput = [&](double limit) {
    return only(ww::expectations{}.throughput_at_least(decode, limit), o).state;
  };
  CHECK(throughput(940.0) == finding_state::met);
  CHECK(throughput(960.0) == finding_state::not_shown);
  CHECK(throughput(1040.0) == finding_state::not_shown);
  CHECK(throughput(1060.0) == finding_state::fell_short);
  auto const latency = [&](double quantile, double limit) {
    return only(ww::expectations{}.latency_at_most(decode, quantile, limit), o).state;
  };
  CHECK(latency(0.5, 2.8e-3) == finding_state::fell_short);
  CHECK(latency(0.5, 3e-3) == finding_state::not_shown);
  CHECK(latency(0.99, 3.7e-3) == finding_state::fell_short);
  CHECK(latency(0.99, 4.3e-3) == finding_state::met);
  CHECK(latency(0.9, 4.3e-3) == finding_state::no_figure);
  auto const memory = ww::expectations{}.memory_at_most(decode, (1 << 20) - 1);
  CHECK(only(memory, o).state == finding_state::fell_short);

  // What is not known is no figure.
  auto const nothing = ww::observed::of_record(decode, ww::tuning_record{});
  CHECK(only(memory, nothing).state == finding_state::no_figure);
  auto const p99 = ww::expectations{}.latency_at_most(decode, 0.99, 1.0);
  CHECK(only(p99, nothing).state == finding_state::no_figure);
  CHECK(only(p99, nothing).text == "p99 of decode: nothing observed, expected at most 1 s");
}

TEST_CASE("figures in words are as long as needed to be told from the limit", "[tune][expect]") {
  auto const throughput = [](double limit, double low, double median, double high) {
    auto const table = ww::expectations{}.throughput_at_least(decode, limit);
    return only(table, ww::observed{decode}.throughput(median_of(low, median, high), 1.0)).text;
  };
  // 1 / 50.0005 us = 19999.8 items/s.
  CHECK(throughput(20000.0, 50.0005e-6, 50.0005e-6, 50.0005e-6) ==
        "throughput of decode: 19.9998 k items/s, expected at least 20 k items/s (less than 0.1 % "
        "under)");
  CHECK(throughput(20000.0, 52.6e-6, 52.6e-6, 52.6e-6) ==
        "throughput of decode: 19.01 k items/s, expected at least 20 k items/s (4.9 % under)");
  CHECK(throughput(20000.0, 50.0005e-6, 55e-6, 60e-6) ==
        "throughput of decode: 18.18 k items/s, expected at least 20 k items/s (9.1 % under)");
  CHECK(throughput(20000.0, 40e-6, 50e-6, 50.0005e-6) ==
        "throughput of decode: 20 k items/s (between 19.9998 k items/s and 25 k items/s), expected "
        "at least 20 k items/s");
  CHECK(throughput(0.5, 0.0, 1.9, 2.1) ==
        "throughput of decode: 0.526 items/s (at least 0.476 items/s, and no other bound), "
        "expected at least 0.5 items/s");
  // The limit is written as it was set.
  CHECK(throughput(123456.0, 5e-6, 5e-6, 5e-6) ==
        "throughput of decode: 200 k items/s, expected at least 123.456 k items/s");

  auto const memory = [](std::size_t limit, std::size_t bytes) {
    auto const table = ww::expectations{}.memory_at_most(decode, limit);
    return only(table, ww::observed{decode}.memory(bytes)).text;
  };
  CHECK(memory(std::size_t{2} << 30, (std::size_t{2} << 30) + 1) ==
        "memory of decode: 2147483649 B, expected at most 2147483648 B (less than 0.1 % over)");
  CHECK(memory(std::size_t{2} << 30, std::size_t{2} << 30) ==
        "memory of decode: 2 GiB, expected at most 2 GiB");
  CHECK(memory(1024, 1536) == "memory of decode: 1.5 KiB, expected at most 1 KiB (50 % over)");

  auto const p99 = [](ww::measurement const& m) {
    auto const table = ww::expectations{}.latency_at_most(decode, 0.99, 5e-3);
    return only(table, ww::observed{decode}.latency(m)).text;
  };
  CHECK(p99(calls_of(1, 6e-3, 0, 0.0)) ==
        "p99 of decode: 6 ms (too few calls to tell), expected at most 5 ms");
  CHECK(p99(calls_of(2000, 5.001e-3, 0, 0.0)) ==
        "p99 of decode: 5.001 ms, expected at most 5 ms (less than 0.1 % over)");
}

TEST_CASE("zeros at the end of a fraction are left out in sentences", "[tune][expect]") {
  using ww::detail::trimmed;
  CHECK(trimmed<ww::detail::string_builder>("5.00 ms").str() == "5 ms");
  CHECK(trimmed<ww::detail::string_builder>("20.50 k").str() == "20.5 k");
  CHECK(trimmed<ww::detail::string_builder>("100 s").str() == "100 s");
  CHECK(trimmed<ww::detail::string_builder>("0.500").str() == "0.5");
  CHECK(trimmed<ww::detail::string_builder>("7.000").str() == "7");
  CHECK(trimmed<ww::detail::string_builder>("1e+300").str() == "1e+300");
  CHECK(trimmed<ww::detail::string_builder>("").str().empty());
}

TEST_CASE("a report says what fell short first, and throws", "[tune][expect]") {
  auto const table = ww::expectations{}
                         .throughput_at_least(decode, 20000.0)
                         .latency_at_most(decode, 0.99, 5e-3)
                         .memory_at_most("prefill", 1000);
  auto const report = table.check({ww::observed{decode}
                                       .throughput(median_of(2.9e-3, 3.0e-3, 3.1e-3), 64)
                                       .latency(calls_of(2000, 3e-3, 100, 6.1e-3))});
  CHECK_FALSE(report.ok());
  CHECK_FALSE(report.complete());
  CHECK(report.to_text() ==
        "fell short: p99 of decode: 6.1 ms, expected at most 5 ms (22 % over)\n"
        "met: throughput of decode: 21.33 k items/s, expected at least 20 k items/s\n"
        "no figure: memory of prefill: nothing observed, expected at most 1000 B\n");
  CHECK_THROWS_AS(report.throw_if_short(), std::runtime_error);
  CHECK_THROWS_WITH(report.throw_if_short(),
                    contains("expect_test.cpp:") &&
                        contains("than expected\n  p99 of decode: 6.1 ms, expected at most"));

  auto const good = table.check({ww::observed{decode}
                                     .throughput(median_of(2.9e-3, 3.0e-3, 3.1e-3), 64)
                                     .latency(calls_of(2000, 3e-3, 0, 0.0)),
                                 ww::observed{"prefill"}.memory(1000)});
  CHECK(good.ok());
  CHECK(good.complete());
  CHECK_NOTHROW(good.throw_if_short());
  // What is not shown is no failure.
  auto const unclear = table.check({ww::observed{decode}.latency(calls_of(100, 3e-3, 2, 6e-3))});
  CHECK(unclear.ok());
  CHECK_NOTHROW(unclear.throw_if_short());
  CHECK(ww::expectations{}.check({}).ok());
  CHECK(ww::expectations{}.check({}).complete());
}

TEST_CASE("what is expected is measured", "[tune][expect]") {
  simulated_clock clock;
  simulated_stopwatch stopwatch{clock};
  ww::stream const s;
  noise_source random{5};
  int calls = 0;
  auto const step = [&] { ++calls, clock.advance(1e-3 * (1.0 + 0.01 * normal(random))); };
  auto const table = ww::expectations{}
                         .throughput_at_least("a", 60e3)
                         .latency_at_most("b", 0.999, 1.1e-3)
                         .latency_at_most("c", 0.9, 0.9e-3)
                         .memory_at_most("d", 1);
  auto const of = [&](char const* name) {
    calls = 0;
    return ww::observe_with(stopwatch, s, table, name, step, 64, clock.ref());
  };
  auto const a = of("a");
  CHECK(calls >= 500);
  CHECK(calls <= 2000);
  auto const b = of("b");
  CHECK(calls >= 10000);
  auto const c = of("c");
  CHECK(calls >= 500);  // half a second
  CHECK(calls <= 1000);
  auto const d = of("d");
  CHECK(calls == 0);
  auto const report = table.check({a, b, c, d});
  CHECK(report.findings[0].state == finding_state::met);
  CHECK(report.findings[1].state == finding_state::met);
  CHECK(report.findings[2].state == finding_state::fell_short);
  CHECK(report.findings[3].state == finding_state::no_figure);

  CHECK(table.latency_options("b").min_samples() == 20000);
  CHECK(table.latency_options("c").min_samples() == 200);
  CHECK(ww::expectations{}.latency_at_most("x", 0.999999, 1.0).latency_options("x").min_samples() ==
        100000);
}

TEST_CASE("work on a stream is observed with events", "[tune][expect]") {
  ww::stream const s;
  void* memory = nullptr;
  ww::check(cudaMalloc(&memory, 4096), "cudaMalloc");
  add_one const f{static_cast<float*>(memory)};
  auto const table =
      ww::expectations{}.throughput_at_least(decode, 1e-3).latency_at_most(decode, 0.9, 100.0);
  auto const o = ww::observe(
      s, table, decode, [&] { ww::for_each_index(s, 1024, f); }, 1024);
  auto const report = table.check({o});
  CHECK(report.ok());
  CHECK(report.complete());
  CHECK(s.done());
  ww::check(cudaFree(memory), "cudaFree");
}

TEST_CASE("wrong expectations and observations throw", "[tune][expect]") {
  ww::expectations const none;
  double const nan = std::nan("");
  double const infinity = std::numeric_limits<double>::infinity();
  CHECK_THROWS_WITH(none.throughput_at_least("", 1.0), contains("a name is empty"));
  for (double const limit : {0.0, -1.0, nan, infinity}) {
    CHECK_THROWS_AS(none.throughput_at_least("a", limit), std::invalid_argument);
    CHECK_THROWS_AS(none.latency_at_most("a", 0.5, limit), std::invalid_argument);
    CHECK_THROWS_AS(ww::observed{"a"}.throughput(median_of(1.0, 1.0, 1.0), limit),
                    std::invalid_argument);
  }
  CHECK_THROWS_WITH(none.memory_at_most("a", 0), contains("a limit of 0 for 'a'"));
  std::size_t const end = std::size_t{1} << 53U;
  CHECK_THROWS_WITH(none.memory_at_most("a", end), contains("must be below 2^53"));
  auto const largest = none.memory_at_most("a", end - 1);
  CHECK(ww::to_text(ww::expectations_from_text(ww::to_text(largest))) == ww::to_text(largest));
  for (double const quantile : {0.0, 1.0, 99.0, nan}) {
    CHECK_THROWS_AS(none.latency_at_most("a", quantile, 1.0), std::invalid_argument);
  }
  auto const table = none.latency_at_most("a", 0.99, 1.0).latency_at_most("a", 0.5, 1.0);
  CHECK(table.lines().size() == 2);
  CHECK(none.lines().empty());
  CHECK_THROWS_WITH(table.latency_at_most("a", 0.99, 2.0), contains("two limits for p99 of a"));
  CHECK_THROWS_WITH(ww::observed{"a"}.latency(median_of(1.0, 1.0, 1.0)),
                    contains("means of 20 calls"));
  CHECK_THROWS_WITH(table.check({ww::observed{"b"}}), contains("'b' was observed, but nothing"));
  CHECK_THROWS_WITH(table.check({ww::observed{"a"}, ww::observed{"a"}}),
                    contains("'a' was observed twice"));
}

TEST_CASE("a table is written as text and read again", "[tune][expect]") {
  auto const table = ww::expectations{}
                         .throughput_at_least("decode \t\n", 20000.0)
                         .latency_at_most(decode, 0.99, 0.005)
                         .memory_at_most(decode, std::size_t{3} << 40);
  CHECK(ww::to_text(table) ==
        "# Figures that this service should reach, an expectation a line.\n"
        "warpwright_expected=1\tname=decode \\t\\n\tfigure=throughput\tquantile=0\tlimit=20000"
        "\tunit=items/s\n"
        "warpwright_expected=1\tname=decode\tfigure=latency\tquantile=0.99\tlimit=0.005\tunit=s\n"
        "warpwright_expected=1\tname=decode\tfigure=memory\tquantile=0\tlimit=3298534883328"
        "\tunit=bytes\n");
  auto const same = [](ww::expectations const& a, ww::expectations const& b) {
    return ww::to_text(a) == ww::to_text(b) && a.lines().size() == b.lines().size();
  };
  CHECK(same(ww::expectations_from_text(ww::to_text(table)), table));
  CHECK(ww::expectations_from_text("").lines().empty());
  CHECK(ww::expectations_from_text("# only a comment\n\n").lines().empty());

  store_folder const folder;
  ww::save_expectations(folder.file(), table);
  CHECK(same(ww::load_expectations(folder.file()), table));
  ww::save_expectations(folder.file(), ww::expectations{});
  CHECK(ww::load_expectations(folder.file()).lines().empty());
  CHECK_THROWS_WITH(ww::load_expectations(folder.path() + "/none"),
                    contains("cannot open") && contains("/none"));
  CHECK_THROWS_WITH(ww::load_expectations(folder.path()), contains("cannot read"));
  CHECK_THROWS_WITH(ww::save_expectations(folder.path() + "/none/file", table),
                    contains("cannot write"));
}

TEST_CASE("random tables are read as they were written", "[tune][expect]") {
  unsigned const seed = std::random_device{}();
  std::printf("seed %u\n", seed);
  std::mt19937_64 random{seed};
  std::uniform_real_distribution<double> uniform{0.0, 1.0};
  for (int trial = 0; trial < 300; ++trial) {
    ww::expectations table;
    for (int i = 0; i < 5; ++i) {
      std::string name(1 + random() % 5, 'x');
      for (char& c : name) c = static_cast<char>(random() % 255 + 1);
      name += std::to_string(i);
      double const limit = std::exp(40.0 * uniform(random) - 20.0);
      switch (random() % 3) {
        case 0:
          table = table.throughput_at_least(name, limit);
          break;
        case 1:
          table = table.latency_at_most(name, 0.001 + 0.998 * uniform(random), limit);
          break;
        default:
          table = table.memory_at_most(name, 1 + random() % (std::size_t{1} << 50));
      }
    }
    auto const read = ww::expectations_from_text(ww::to_text(table));
    REQUIRE(read.lines().size() == table.lines().size());
    for (std::size_t i = 0; i < 5; ++i) {
      auto const& a = read.lines()[i];
      auto const& b = table.lines()[i];
      REQUIRE(a.name == b.name);
      REQUIRE(a.figure == b.figure);
      REQUIRE(!(a.limit < b.limit || a.limit > b.limit));
      REQUIRE(!(a.quantile < b.quantile || a.quantile > b.quantile));
    }
  }
}

TEST_CASE("an error that is left pending is thrown, not observed", "[tune][expect]") {
  ww::stream const s;
  auto const table = ww::expectations{}.throughput_at_least("step", 1.0);
  auto const fails = [] { static_cast<void>(cudaSetDevice(12345)); };
  CHECK_THROWS_WITH(ww::observe(s, table, "step", fails, 1.0), contains("cudaErrorInvalidDevice"));
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("a line that is not an expectation is an error with its number", "[tune][expect]") {
  std::string const line =
      "warpwright_expected=1\tname=a\tfigure=latency\tquantile=0.99\tlimit=0.005\tunit=s";
  CHECK_NOTHROW(ww::expectations_from_text(line));
  // Cut off anywhere.
  for (std::size_t size = 1; size < line.size(); ++size) {
    CAPTURE(size);
    CHECK_THROWS_AS(ww::expectations_from_text(line.substr(0, size)), std::invalid_argument);
  }
  auto const changed = [&](std::string const& what, std::string const& by) {
    std::string text = line;
    text.replace(text.find(what), what.size(), by);
    return "# a comment\n" + text;
  };
  CHECK_THROWS_WITH(ww::expectations_from_text(changed("expected=1", "expected=2")),
                    contains("line 2 is not an expectation of format 1"));
  CHECK_THROWS_WITH(ww::expectations_from_text(changed("latency", "speed")),
                    contains("line 2 has no valid field figure; it is 'warpwright_expected=1\t"));
  CHECK_THROWS_WITH(ww::expectations_from_text(changed("0.005", "5 ms")),
                    contains("line 2 has no valid field limit"));
  CHECK_THROWS_WITH(ww::expectations_from_text(changed("unit=s", "unit=ms")),
                    contains("line 2 does not end in unit=s"));
  CHECK_THROWS_WITH(ww::expectations_from_text(changed("name=a\t", "")),
                    contains("no valid field name"));
  CHECK_THROWS_AS(ww::expectations_from_text(changed("0.99", "99")), std::invalid_argument);
  CHECK_THROWS_WITH(ww::expectations_from_text(line + "\n" + line), contains("line 2 is refused:"));
  CHECK_THROWS_WITH(ww::expectations_from_text(changed("0.005", "0")),
                    contains("line 2 is refused:"));
  CHECK_NOTHROW(ww::expectations_from_text(line + "\r\n\r\n# a comment\r\n"));
  std::string const memory =
      "warpwright_expected=1\tname=a\tfigure=memory\tquantile=0\tlimit=1e30\tunit=bytes";
  CHECK_THROWS_WITH(ww::expectations_from_text(memory), contains("no valid field limit"));
}

TEST_CASE("findings have names", "[tune][expect]") {
  CHECK(std::string{ww::to_string(finding_state::met)} == "met");
  CHECK(std::string{ww::to_string(finding_state::not_shown)} == "not shown");
  CHECK(std::string{ww::to_string(finding_state::fell_short)} == "fell short");
  CHECK(std::string{ww::to_string(finding_state::no_figure)} == "no figure");
  CHECK(std::string{ww::to_string(static_cast<finding_state>(9))} == "unknown");
}
