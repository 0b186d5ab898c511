// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The cost of a tune and what it finds: on a simulated clock, beside a loop over powers of two; and
// on real workloads, beside an exhaustive sweep and under latency limits that 10,000 later calls
// check.
//
//   tune_batch_tuner_bench --tuner_report tuner.txt   # a summary in words, for bench/results
//   tune_batch_tuner_bench --quick                    # some seconds; its figures are worth nothing
#include <benchmark/benchmark.h>

#include <unistd.h>
#include <warpwright/measure/measure.hpp>
#include <warpwright/tune/batch_tuner.hpp>
#include <warpwright/tune/stored_tuner.hpp>
#include <warpwright/tune/tuning_pool.hpp>
#include <warpwright/tune/tuning_store.hpp>

#include <algorithm>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "support/run.hpp"
#include "tune/batch_sweep.hpp"
#include "tune/real_workloads.hpp"
#include "warpwright_bench_commit.hpp"

namespace ww = warpwright;
using test_support::elementwise_pipeline;
using test_support::perceptron;
using test_support::transformer_block;

namespace {

// -- On a simulated clock --

struct clock_stopwatch {
  double now = 0.0;
  std::size_t calls = 0;
  template <typename Call>
  double operator()(ww::stream_ref, Call const& call, std::size_t repeats) {
    double const begin = now;
    for (std::size_t i = 0; i < repeats; ++i) call();
    calls += repeats;
    return now - begin;
  }
};

double seconds(std::size_t batch) { return 1e-4 + 1e-6 * static_cast<double>(batch); }
double rate(std::size_t batch) { return static_cast<double>(batch) / seconds(batch); }

void tune(benchmark::State& state) {
  ww::stream const s;
  std::size_t chosen = 0;
  double device_seconds = 0.0;
  std::size_t calls = 0;
  for (auto _ : state) {
    clock_stopwatch clock;
    auto const r = ww::batch_tuner{}.range(1, 8192).tune_with(
        clock, s, [&](std::size_t batch, ww::stream_ref) { clock.now += seconds(batch); },
        ww::no_memory_probe{});
    chosen = r.chosen().batch;
    device_seconds = clock.now;
    calls = clock.calls;
  }
  state.counters["chosen"] = static_cast<double>(chosen);
  state.counters["share_of_best"] = rate(chosen) / rate(8192);
  state.counters["device_seconds"] = device_seconds;
  state.counters["calls"] = static_cast<double>(calls);
}
BENCHMARK(tune);

// The peer: fifty calls at every power of two; the fastest size is chosen, which is the largest.
void powers_of_two(benchmark::State& state) {
  ww::stream const s;
  std::size_t chosen = 0;
  double device_seconds = 0.0;
  std::size_t calls = 0;
  for (auto _ : state) {
    clock_stopwatch clock;
    double best = 0.0;
    for (std::size_t batch = 1; batch <= 8192; batch *= 2) {
      auto const call = [&] { clock.now += seconds(batch); };
      double const measured = 50.0 * static_cast<double>(batch) / clock(s, call, 50);
      if (measured > best) {
        best = measured;
        chosen = batch;
      }
    }
    device_seconds = clock.now;
    calls = clock.calls;
    benchmark::DoNotOptimize(chosen);
  }
  state.counters["chosen"] = static_cast<double>(chosen);
  state.counters["share_of_best"] = rate(chosen) / rate(8192);
  state.counters["device_seconds"] = device_seconds;
  state.counters["calls"] = static_cast<double>(calls);
}
BENCHMARK(powers_of_two);

// -- Settings and the summary --

struct bench_settings {
  bool quick = false;
  double most_seconds = 500.0;  // after which no further tune under a limit begins
  // Of a sweep: sizes in steps of 5 %, 0.25 s each, as the simulated ones of the tests.
  double sweep_factor = 1.05;
  std::size_t turns = 100;
  double sample_seconds = 2.5e-3;
  std::size_t base_calls = 500;     // that a limit is derived from
  std::size_t later_calls = 10000;  // that check a limit
  std::string report;               // a path; empty: none
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
};

bench_settings settings;

// Of all tunes under a limit.
struct limit_totals {
  std::size_t tunes = 0;
  std::size_t without = 0;
  std::size_t within = 0;
  double largest_excess = -1.0;
};

limit_totals totals;

// Lines of the summary by title: Google Benchmark calls a function several times, the last counts.
std::vector<std::pair<std::string, std::string>> summary;

__attribute__((format(printf, 2, 3))) void summarise(std::string const& title, char const* format,
                                                     ...) {
  char text[4096];
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  for (auto& line : summary) {
    if (line.first == title) {
      line.second = text;
      return;
    }
  }
  summary.emplace_back(title, text);
}

void write_summary() {
  std::FILE* const file = std::fopen(settings.report.c_str(), "w");
  if (file == nullptr) throw std::runtime_error{"cannot write " + settings.report};
  ww::device_info const device = ww::get_device_info(ww::current_device());
  std::time_t const now = std::time(nullptr);
  char date[16] = "";
  std::strftime(date, sizeof date, "%Y-%m-%d", std::gmtime(&now));
  std::fprintf(file,
               "tune_batch_tuner_bench at %s, %s, driver for CUDA %d.%d, CUDA %d.%d, %s%s\n\n",
               WARPWRIGHT_COMMIT, device.name.c_str(), device.driver_version / 1000,
               device.driver_version % 1000 / 10, device.runtime_version / 1000,
               device.runtime_version % 1000 / 10, date,
               device.host_runtime ? " (host runtime: no GPU speed is measured)"
               : settings.quick    ? " (quick: the figures are worth nothing)"
                                   : "");
  for (auto const& line : summary) {
    std::fprintf(file, "%s\n%s\n", line.first.c_str(), line.second.c_str());
  }
  if (totals.tunes > 0) {
    std::fprintf(file,
                 "all p99 limits: %zu tunes, %zu without a choice, %zu within the limit, largest "
                 "excess %+.1f %%\n",
                 totals.tunes, totals.without, totals.within, 100.0 * totals.largest_excess);
  }
  std::fprintf(file, "whole program: %.1f s\n", test_support::seconds_since(settings.begin));
  bool const failed = std::ferror(file) != 0;
  if (std::fclose(file) != 0 || failed) throw std::runtime_error{"cannot write " + settings.report};
}

// -- On real workloads --

// A workload with its weights, and the pool that a tuner hands out.
template <class Workload>
struct real_workload {
  ww::stream stream;
  ww::memory_pool weights{ww::current_device()};
  Workload workload{weights, stream};
  ww::tuning_pool pool{ww::current_device()};

  real_workload() { stream.synchronize(); }
};

template <class Workload>
std::size_t last_size() {
  return settings.quick ? Workload::last / 16 : Workload::last;
}

template <class Workload>
ww::batch_tuner tuner_of() {
  ww::batch_tuner const tuner =
      ww::batch_tuner{}.range(1, last_size<Workload>()).multiple_of(Workload::multiple);
  if (!settings.quick) return tuner;
  return tuner.max_seconds(1.0).latency_calls(6).sampling(
      ww::measure_options{}.sample_seconds(1e-4).min_samples(3).max_samples(5).max_seconds(0.01));
}

// A tune as a service makes it at its start, the loading of libraries' code included, then an
// exhaustive sweep.
template <class Workload>
void full_tune(benchmark::State& state) {
  real_workload<Workload> real;
  ww::tune_result r;
  for (auto _ : state) {
    r = tuner_of<Workload>().tune(real.stream, real.workload, real.pool);
    state.SetIterationTime(r.elapsed_seconds);
  }
  std::size_t const chosen = r.chosen().batch;
  auto sizes =
      test_support::sweep_sizes(last_size<Workload>(), Workload::multiple, settings.sweep_factor);
  std::size_t const swept_sizes = sizes.size();
  if (std::find(sizes.begin(), sizes.end(), chosen) == sizes.end()) sizes.push_back(chosen);
  auto const swept = test_support::sweep(real.stream, real.workload, real.pool, sizes,
                                         settings.turns, settings.sample_seconds);
  double const share = swept.rate(chosen) / swept.best();
  state.counters["chosen"] = static_cast<double>(chosen);
  state.counters["items_per_s"] = swept.rate(chosen);
  state.counters["share_of_best"] = share;
  state.counters["sizes_run"] = static_cast<double>(r.rows.size());
  state.counters["sweep_seconds"] = swept.elapsed_seconds;
  state.counters["share_of_sweep_time"] = r.elapsed_seconds / swept.elapsed_seconds;
  summarise(std::string{"full tune, "} + Workload::name,
            "  tune      %7.2f s, %zu sizes: bracketing %.2f, refinement %.2f, comparison %.2f, "
            "soak %.2f s\n"
            "  chosen    %zu of 1 to %zu, %.4g items/s, peak %.1f MiB\n"
            "  sweep     %7.2f s, %zu sizes in %zu turns; best %zu, %.4g items/s\n"
            "  the choice has %.1f %% of the best throughput; the tune took %.0f %% of the sweep\n",
            r.elapsed_seconds, r.rows.size(), r.times.bracketing, r.times.refinement,
            r.times.comparison, r.times.soak, chosen, last_size<Workload>(), swept.rate(chosen),
            static_cast<double>(r.chosen().memory_bytes) / (1 << 20), swept.elapsed_seconds,
            swept_sizes, settings.turns, swept.best_batch(), swept.best(), 100.0 * share,
            100.0 * r.elapsed_seconds / swept.elapsed_seconds);
}

// Tunes under p99 limits from 1.1 times the p99 of a quarter of the largest batch on, each followed
// by independent calls of the choice; as CUDA graphs, or launched call by call, where the host's
// pauses between two launches are part of the latency. They vary over seconds: the soak is longer.
template <class Workload, bool Replayed>
void limited_tunes(benchmark::State& state) {
  real_workload<Workload> real;
  auto replayed = ww::captured(real.workload);
  auto& workload = std::get < Replayed ? 1 : 0 > (std::tie(real.workload, replayed));
  auto const tunes = static_cast<std::size_t>(state.range(0));
  double const base =
      ww::summarize(test_support::latencies(real.stream, workload, real.pool,
                                            std::max(last_size<Workload>() / 4, Workload::multiple),
                                            settings.base_calls))
          .p99_seconds;
  std::size_t made = 0;
  std::size_t without = 0;
  std::size_t within = 0;
  double largest_excess = -1.0;
  double tune_seconds = 0.0;
  std::string lines;
  for (auto _ : state) {
    for (; made < tunes; ++made) {
      if (made > 0 && test_support::seconds_since(settings.begin) > settings.most_seconds) break;
      double const limit = base * (1.1 + 0.2 * static_cast<double>(made));
      auto const begin = std::chrono::steady_clock::now();
      std::size_t chosen = 0;
      try {
        chosen = tuner_of<Workload>()
                     .objective(ww::throughput_under_latency(limit))
                     .soak(Replayed ? 50 : settings.later_calls / 2)
                     .tune(real.stream, workload, real.pool)
                     .chosen()
                     .batch;
      } catch (ww::no_feasible_batch const&) {
        ++without;
      }
      double const elapsed = test_support::seconds_since(begin);
      tune_seconds += elapsed;
      char line[160];
      if (chosen == 0) {
        std::snprintf(line, sizeof line, "  limit %9.1f us: no size shown, tune %.2f s\n",
                      1e6 * limit, elapsed);
        lines += line;
        continue;
      }
      double const p99 = ww::summarize(test_support::latencies(real.stream, workload, real.pool,
                                                               chosen, settings.later_calls))
                             .p99_seconds;
      within += p99 <= limit ? 1 : 0;
      largest_excess = std::max(largest_excess, p99 / limit - 1.0);
      std::snprintf(line, sizeof line,
                    "  limit %9.1f us: batch %5zu, later p99 %9.1f us (%+.1f %%), tune %.2f s\n",
                    1e6 * limit, chosen, 1e6 * p99, 100.0 * (p99 / limit - 1.0), elapsed);
      lines += line;
    }
    state.SetIterationTime(tune_seconds / static_cast<double>(made));
  }
  totals.tunes += made;
  totals.without += without;
  totals.within += within;
  totals.largest_excess = std::max(totals.largest_excess, largest_excess);
  state.counters["tunes"] = static_cast<double>(made);
  state.counters["without_choice"] = static_cast<double>(without);
  state.counters["within_limit"] = static_cast<double>(within);
  state.counters["largest_excess"] = largest_excess;
  std::string const title = "p99 limits, " + std::string{Workload::name} +
                            (Replayed ? ", as graphs: " : ", launched, long soak: ") +
                            std::to_string(settings.later_calls) + " later calls of each choice";
  summarise(title,
            "%s  %zu tunes of %zu, %zu without a choice; p99 within the limit in %zu, largest "
            "excess %+.1f %%\n",
            lines.c_str(), made, tunes, without, within, 100.0 * largest_excess);
}

// One measure() with its default options, in seconds of the host.
void one_measure(benchmark::State& state) {
  real_workload<perceptron> real;
  auto const call = [&] { real.workload(perceptron::last / 16, real.stream, real.pool); };
  auto const options = settings.quick ? ww::measure_options{}.min_seconds(0.1).max_seconds(0.2)
                                      : ww::measure_options{};
  ww::measurement m;
  for (auto _ : state) m = ww::measure(real.stream, call, options);
  state.counters["samples"] = static_cast<double>(m.samples.size());
  state.counters["relative_half_width"] = m.relative_half_width();
  summarise("one measure() of the perceptron",
            "  %.2f s, %zu samples, %s; median %.1f us, its interval +- %.2f %%\n",
            m.elapsed_seconds, m.samples.size(), ww::to_string(m.stability),
            1e6 * m.summary.median_seconds, 100.0 * m.relative_half_width());
}

// -- Stored results --

// tuning_store::find() in a file of so many records, that of the key in the middle.
void stored_result(benchmark::State& state) {
  std::string folder = "/tmp/warpwright_bench_XXXXXX";
  if (mkdtemp(&folder[0]) == nullptr) {
    state.SkipWithError("mkdtemp failed");
    return;
  }
  std::string const path = folder + "/store.txt";
  ww::tuning_store const store{path};
  ww::tuning_record record;
  record.key = ww::tuning_key::of_device(ww::current_device());
  record.key.objective = "throughput";
  record.batch = 512;
  record.items_per_second = 1e6;
  for (std::size_t batch = 1; batch <= 512; batch *= 2) {
    record.points.push_back({batch, 1e-3, 2e-3, batch << 20});
  }
  for (std::int64_t i = 0; i < state.range(0); ++i) {
    record.key.tag = "model-" + std::to_string(i);
    store.put(record);
  }
  ww::tuning_key key = record.key;
  key.tag = "model-" + std::to_string(state.range(0) / 2);
  bool found = true;
  std::size_t finds = 0;
  auto const begin = std::chrono::steady_clock::now();
  for (auto _ : state) {
    found = found && store.find(key).match == ww::tuning_match::exact;
    ++finds;
  }
  double const each = test_support::seconds_since(begin) / static_cast<double>(finds);
  static_cast<void>(std::remove(path.c_str()));
  static_cast<void>(std::remove((path + ".lock").c_str()));
  static_cast<void>(rmdir(folder.c_str()));
  if (!found) {
    state.SkipWithError("the record was not found");
    return;
  }
  summarise("stored result, " + std::to_string(state.range(0)) + " records in the file",
            "  find() %.1f us\n", 1e6 * each);
}
BENCHMARK(stored_result)->Arg(1)->Arg(100)->Unit(benchmark::kMicrosecond);

// A start-up of a service whose result is in the store: the key made, the file read, the choice.
void stored_tune(benchmark::State& state) {
  std::string folder = "/tmp/warpwright_bench_XXXXXX";
  if (mkdtemp(&folder[0]) == nullptr) {
    state.SkipWithError("mkdtemp failed");
    return;
  }
  std::string const path = folder + "/store.txt";
  ww::stream const stream;
  auto const workload = [](std::size_t, ww::stream_ref) {};
  auto const result = [&] {
    ww::stored_tuner const tuner{ww::batch_tuner{}.range(1, 64), ww::tuning_store{path}, "bench"};
    return tuner.tune(stream, workload);
  };
  result();
  bool stored = true;
  std::size_t starts = 0;
  auto const begin = std::chrono::steady_clock::now();
  for (auto _ : state) {
    stored = stored && result().source == ww::tune_source::stored;
    ++starts;
  }
  double const each = test_support::seconds_since(begin) / static_cast<double>(starts);
  static_cast<void>(std::remove(path.c_str()));
  static_cast<void>(std::remove((path + ".lock").c_str()));
  static_cast<void>(rmdir(folder.c_str()));
  if (!stored) {
    state.SkipWithError("the result was not taken from the store");
    return;
  }
  summarise("start-up with a stored result", "  stored_tuner made, tune() %.1f us\n", 1e6 * each);
}
BENCHMARK(stored_tune)->Unit(benchmark::kMicrosecond);

// -- The program --

template <class Workload>
void register_tunes(char const* name, std::int64_t limited) {
  // It reports the spread of its own samples.
  benchmark::RegisterBenchmark((std::string{"full_tune/"} + name).c_str(), full_tune<Workload>)
      ->Iterations(1)
      ->Repetitions(1)
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
  benchmark::RegisterBenchmark((std::string{"limited_tune/graph/"} + name).c_str(),
                               limited_tunes<Workload, true>)
      ->Arg(limited)
      ->Iterations(1)
      ->Repetitions(1)
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
  benchmark::RegisterBenchmark((std::string{"limited_tune/launched/"} + name).c_str(),
                               limited_tunes<Workload, false>)
      ->Arg((limited + 1) / 2)
      ->Iterations(1)
      ->Repetitions(1)
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
}

void register_real(std::vector<std::string> const& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--quick") {
      settings.quick = true;
    } else if (arguments[i] == "--tuner_report" && i + 1 < arguments.size()) {
      settings.report = arguments[++i];
    } else {
      throw std::runtime_error{"unknown argument '" + arguments[i] +
                               "'; there are --quick, --tuner_report FILE, and Google Benchmark's"};
    }
  }
  if (settings.quick) {
    settings.sweep_factor = 1.5;
    settings.turns = 3;
    settings.sample_seconds = 2e-4;
    settings.base_calls = 50;
    settings.later_calls = 100;
    settings.most_seconds = 4.0;
  }
  benchmark::RegisterBenchmark("one_measure", one_measure)
      ->Iterations(1)
      ->Repetitions(1)
      ->UseRealTime()
      ->Unit(benchmark::kMillisecond);
  // Twenty tunes under a limit as graphs, ten launched.
  register_tunes<perceptron>("perceptron", settings.quick ? 1 : 7);
  register_tunes<transformer_block>("transformer_block", settings.quick ? 1 : 6);
  register_tunes<elementwise_pipeline>("elementwise_pipeline", settings.quick ? 1 : 7);
}

}  // namespace

int main(int argc, char** argv) {
  // ./run bench --quick passes the short time to all programs.
  static char quick[] = "--quick";
  static char short_time[] = "--benchmark_min_time=0.001";
  std::vector<char*> arguments(argv, argv + argc);
  for (int i = 1; i < argc; ++i) {
    if (std::string{argv[i]} == short_time) arguments.push_back(quick);
    if (std::string{argv[i]} == quick) arguments.push_back(short_time);
  }
  arguments.push_back(nullptr);
  int const status =
      bench_support::run(static_cast<int>(arguments.size()) - 1, arguments.data(), register_real);
  if (status != 0 || settings.report.empty()) return status;
  try {
    write_summary();
  } catch (std::exception const& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
  return 0;
}
