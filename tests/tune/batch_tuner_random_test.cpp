// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Randomised tunes on a simulated clock, each judged by an oracle that knows the truth: an
// exhaustive sweep of the true curve, and 10,000 independent calls of the choice.
//
// WARPWRIGHT_TUNES sets their number, WARPWRIGHT_SEED the seed.
#include <warpwright/tune/batch_tuner.hpp>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "simulated_workload.hpp"
#include "support/catch.hpp"
#include "support/sanitized.hpp"

namespace ww = warpwright;
using namespace test_support;

namespace {

std::uint64_t number_from(char const* variable, std::uint64_t otherwise) {
  char const* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}
// A half and four quarters of this number run: more than 10,000 without a sanitizer.
constexpr std::uint64_t default_tunes = rounds(7000);
std::uint64_t tunes() { return number_from("WARPWRIGHT_TUNES", default_tunes); }
std::uint64_t seed() { return number_from("WARPWRIGHT_SEED", 20261123); }

// From `low` to `high`, with equal chances of all orders of magnitude.
double between(noise_source& random, double low, double high) {
  return low * std::pow(high / low, random.uniform());
}
std::size_t pick_one(noise_source& random, std::size_t count) {
  return static_cast<std::size_t>(random.uniform() * static_cast<double>(count));
}

struct outcome {
  bool feasible = false;
  ww::tune_result result;
  std::string error;
};

template <typename Memory>
outcome tune(simulated_workload& w, ww::batch_tuner const& tuner, Memory&& memory) {
  static ww::stream const stream;
  simulated_stopwatch stopwatch{w.clock};
  outcome o;
  try {
    o.result =
        tuner.clock(w.clock.ref())
            .tune_with(
                stopwatch, stream, [&](std::size_t batch, ww::stream_ref) { w(batch); }, memory);
    o.feasible = true;
  } catch (ww::no_feasible_batch const& e) {
    o.result = e.result();
    o.error = e.what();
  }
  return o;
}

// The best true throughput of the sizes that are allowed.
template <typename Allowed>
double best_rate(simulated_workload const& w, std::size_t last, std::size_t multiple,
                 Allowed const& allowed) {
  double best = 0.0;
  for (std::size_t b = multiple; b <= last; b += multiple) {
    if (w.valid(b) && allowed(b)) best = std::max(best, static_cast<double>(b) / w.time(b));
  }
  return best;
}

// What a sweep in steps of 5 % costs, that measures each size for 0.25 s (at least 7 samples of 2
// ms or more, at most 41) and takes 100 latencies, or as many as show a limit twice.
template <typename Allowed>
double sweep_seconds(simulated_workload const& w, std::size_t last, std::size_t multiple,
                     double limit, Allowed const& allowed) {
  // A size that is over the limit by its stalls alone is known to be after 16 of them.
  double const refused = w.stall_rate > 0.0 ? std::min(1194.0, 16.0 / w.stall_rate) : 1194.0;
  double seconds = 0.0;
  std::size_t before = 0;
  for (double x = static_cast<double>(multiple); x <= static_cast<double>(last); x *= 1.05) {
    std::size_t const b = static_cast<std::size_t>(x) / multiple * multiple;
    bool const limited = limit < 1e9;
    if (b == before || !w.valid(b) || (!limited && !allowed(b))) continue;
    before = b;
    double const one = w.time(b);
    if (one > limit) break;
    double const sample = std::max(2e-3, one);
    seconds += std::max(7.0 * sample, std::min(0.25, 41.0 * sample));
    seconds += (!limited ? 100.0 : allowed(b) ? 1194.0 : refused) * one;
  }
  return seconds;
}

struct tally {
  std::string name;
  std::uint64_t count = 0;
  std::uint64_t fast = 0;  // at least 98 % of the best
  double worst = 1.0;
  double cost = 0.0;  // share of the sweep's time
  double worst_cost = 0.0;
  double size = 0.0;  // of the smallest size that is within the tolerance
  void add(double share, double cost_share, double size_ratio) {
    ++count;
    if (share >= 0.98 - 1e-12) ++fast;
    worst = std::min(worst, share);
    cost += cost_share;
    worst_cost = std::max(worst_cost, cost_share);
    size += size_ratio;
  }
  void print() const {
    double const n = static_cast<double>(count == 0 ? 1 : count);
    std::printf(
        "  %-12s %6llu tunes: %5.1f %% within 98 %%, worst %.3f; cost %4.1f %% (most %.0f %%), "
        "size %.2f\n",
        name.c_str(), static_cast<unsigned long long>(count), 100.0 * static_cast<double>(fast) / n,
        worst, 100.0 * cost / n, 100.0 * worst_cost, size / n);
  }
};

workload_time random_time(noise_source& random, curve_kind kind, std::size_t last) {
  workload_time t;
  t.kind = kind;
  double const l = static_cast<double>(last);
  // The largest batch takes 2 to 30 ms.
  t.item = between(random, 2e-3, 30e-3) / l;
  t.fixed = t.item * l * between(random, 0.002, 0.3);
  t.knee = between(random, 10.0, 0.9 * l);
  t.wave = std::floor(between(random, std::max(16.0, l / 60.0), l / 2.0));
  if (kind == curve_kind::steps) t.fixed = t.item * t.wave * between(random, 0.01, 3.0);
  return t;
}

constexpr char const* curve_names[] = {"flat", "affine", "saturating", "steps", "cliff", "peak"};
constexpr char const* noise_names[] = {"quiet", "jitter",     "bimodal",
                                       "drift", "throttling", "disturbed"};

void add_noise(simulated_workload& w, std::size_t kind) {
  noise_source& r = w.random;
  if (kind != 0) w.jitter = between(r, 0.002, 0.02);
  if (kind == 2) w.slow_share = 0.1 + 0.4 * r.uniform();
  if (kind == 3) {
    w.drift = 0.05 + 0.15 * r.uniform();
    w.drift_seconds = between(r, 0.5, 20.0);
  }
  if (kind == 4) {
    double const begin = between(r, 0.05, 3.0);
    w.slow_periods.push_back(
        {begin, r.uniform() < 0.5 ? 1e9 : begin + between(r, 0.2, 2.0), 1.1 + 0.2 * r.uniform()});
  }
  if (kind == 5) {
    double const begin = between(r, 0.01, 2.0);
    w.slow_periods.push_back({begin, begin + 0.3, between(r, 2.0, 10.0)});
  }
}

double smallest_ratio(simulated_workload const& w, std::size_t chosen, std::size_t last,
                      std::size_t multiple, double best) {
  for (std::size_t b = multiple; b <= last; b += multiple) {
    if (w.valid(b) && static_cast<double>(b) / w.time(b) >= 0.98 * best) {
      return static_cast<double>(chosen) / static_cast<double>(b);
    }
  }
  return 0.0;
}

}  // namespace

TEST_CASE("random tunes find at least 98 % of the best throughput", "[tune][batch_tuner][random]") {
  tally by_curve[6];  // without bimodal noise
  tally by_noise[6];  // bimodal noise: without steps and peaks
  tally hard;         // bimodal noise that hides steps or a peak
  hard.name = "hidden";
  for (int i = 0; i < 6; ++i) {
    by_curve[i].name = curve_names[i];
    by_noise[i].name = noise_names[i];
  }
  std::uint64_t const count = tunes() / 2;
  for (std::uint64_t i = 0; i < count; ++i) {
    simulated_workload w{seed() + i};
    noise_source& r = w.random;
    std::size_t const curve = pick_one(r, 6);
    std::size_t const noise = pick_one(r, 6);
    std::size_t const multiple = r.uniform() < 0.7 ? 1 : 8;
    std::size_t const last = static_cast<std::size_t>(between(r, 200, 20000)) / multiple * multiple;
    w.time = random_time(r, static_cast<curve_kind>(curve), last);
    add_noise(w, noise);
    auto const o =
        tune(w, ww::batch_tuner{}.range(1, last).multiple_of(multiple), ww::no_memory_probe{});
    INFO("seed " << seed() + i << ": " << curve_names[curve] << ", " << noise_names[noise]);
    REQUIRE(o.feasible);
    REQUIRE(o.result.chosen().status == ww::tune_status::ok);
    std::size_t const chosen = o.result.chosen().batch;
    auto const all = [](std::size_t) { return true; };
    double const best = best_rate(w, last, multiple, all);
    double const share = static_cast<double>(chosen) / w.time(chosen) / best;
    double const cost = w.clock.now() / sweep_seconds(w, last, multiple, 1e9, all);
    double const size = smallest_ratio(w, chosen, last, multiple, best);
    bool const bimodal = noise == 2;
    bool const hidden = bimodal && (curve == 3 || curve == 5);
    if (!bimodal) by_curve[curve].add(share, cost, size);
    (hidden ? hard : by_noise[noise]).add(share, cost, size);
    if (std::getenv("WARPWRIGHT_VERBOSE") != nullptr && share < 0.98) {
      std::printf(
          "seed %llu %s %s share %.4f chosen %zu of %zu (m %zu) fixed %g item %g knee %g wave "
          "%g\n%s",
          static_cast<unsigned long long>(seed() + i), curve_names[curve], noise_names[noise],
          share, chosen, last, multiple, w.time.fixed, w.time.item, w.time.knee, w.time.wave,
          ww::to_table(o.result).c_str());
      for (auto const& s : o.result.steps) std::printf("   %s\n", s.c_str());
    }
  }
  std::printf("throughput, seed %llu:\n", static_cast<unsigned long long>(seed()));
  for (tally const& t : by_curve) t.print();
  for (tally const& t : by_noise) t.print();
  hard.print();
  // With fewer than 100 tunes of a kind, chance may take three more.
  for (tally const& t : by_curve) CHECK(t.fast * 100 + 300 >= 95 * t.count);
  for (tally const& t : by_noise) CHECK(t.fast * 100 + 300 >= 95 * t.count);
  CHECK(hard.fast * 100 + 300 >= 70 * hard.count);
  double cost = 0.0;
  double all = 0.0;
  for (tally const& t : by_noise) {
    cost += t.cost;
    all += static_cast<double>(t.count);
  }
  CHECK(cost <= 0.2 * all);
}

namespace {

// The true throughput of the choice, as a share of the best of the sizes that are allowed.
template <typename Allowed>
double share_of_best(simulated_workload const& w, std::size_t chosen, std::size_t last,
                     Allowed const& allowed) {
  return static_cast<double>(chosen) / w.time(chosen) / best_rate(w, last, 1, allowed);
}

bool verbose() { return std::getenv("WARPWRIGHT_VERBOSE") != nullptr; }

void print(char const* what, std::uint64_t number, simulated_workload const& w,
           ww::tune_result const& r) {
  if (!verbose()) return;
  std::printf("seed %llu %s fixed %g item %g stalls %g base %g item %g budget %g\n%s",
              static_cast<unsigned long long>(number), what, w.time.fixed, w.time.item,
              w.stall_rate, w.base_bytes, w.item_bytes, static_cast<double>(w.budget),
              ww::to_table(r).c_str());
  for (auto const& line : r.steps) std::printf("   %s\n", line.c_str());
}

}  // namespace

TEST_CASE("comparisons in turns find a small size that is within 2 % of the best",
          "[tune][batch_tuner][random]") {
  // The rates, with these seeds, tell the policies of the comparisons from simpler ones: how many
  // turns, which sizes, and what is shown by them.
#if defined(__OPTIMIZE__)
  constexpr int count = 1000;
#else
  constexpr int count = 30;
#endif
  auto const check_kind = [](char const* name, auto const& set_up, double within,
                             double batch_at_most) {
    simulated_workload truth{1};
    set_up(truth);
    auto const rate = [&](std::size_t batch) {
      return static_cast<double>(batch) / truth.time(batch);
    };
    double best = 0.0;
    std::size_t least = 4096;
    for (std::size_t n = 1; n <= 4096; ++n) best = rate(n) > best ? rate(n) : best;
    for (std::size_t n = 4096; n > 0; --n) least = rate(n) >= 0.98 * best ? n : least;
    int good = 0;
    double batches = 0.0;
    for (int i = 1; i <= count; ++i) {
      simulated_workload w{7U * static_cast<std::uint64_t>(i)};
      set_up(w);
      outcome const o = tune(w, ww::batch_tuner{}.range(1, 4096), ww::no_memory_probe{});
      REQUIRE(o.feasible);
      std::size_t const chosen = o.result.chosen().batch;
      if (rate(chosen) >= 0.98 * best) ++good;
      batches += static_cast<double>(chosen) / static_cast<double>(least) / count;
    }
    std::printf("%-10s %.1f %% within 98 %%, %.3f times the smallest of those\n", name,
                100.0 * good / count, batches);
    INFO(name);
    bool const all_run = count == 1000;
    CHECK(good >= (all_run ? within : within - 0.05) * count);
    CHECK(batches <= (all_run ? 1.0 : 1.5) * batch_at_most);
  };
  check_kind(
      "jitter",
      [](simulated_workload& w) {
        w.time.fixed = 1e-3;
        w.jitter = 0.02;
      },
      0.992, 1.06);
  check_kind(
      "two kinds",
      [](simulated_workload& w) {
        w.time.fixed = 1e-3;
        w.slow_share = 0.3;
      },
      0.985, 1.10);
  check_kind(
      "steps",
      [](simulated_workload& w) {
        w.time.kind = curve_kind::steps;
        w.time.item = 1e-5;
        w.jitter = 0.02;
      },
      0.982, 1.6);
  check_kind(
      "peak",
      [](simulated_workload& w) {
        w.time.kind = curve_kind::peak;
        w.time.fixed = 1e-3;
        w.time.item = 1e-5;
        w.jitter = 0.03;
      },
      0.99, 1.13);
}

TEST_CASE("random tunes under a latency limit keep it in an independent run of 10,000 calls",
          "[tune][batch_tuner][random]") {
  struct {
    std::uint64_t count = 0, refused = 0, over = 0, fast = 0, judged = 0;
    double worst = 1.0, cost = 0.0, worst_over = 0.0, seconds = 0.0;
  } all, by_rate[7];
  char const* const names[7] = {"none",     "to 0.1 %", "to 0.5 %", "to 0.9 %",
                                "to 1.5 %", "to 5 %",   "disturbed"};
  double const rates[8] = {0.0, 0.0, 0.001, 0.005, 0.009, 0.015, 0.05, 0.0};
  std::uint64_t const count = tunes() / 4;
  for (std::uint64_t i = 0; i < count; ++i) {
    simulated_workload w{seed() + 1000000 + i};
    noise_source& r = w.random;
    std::size_t const band = i % 7;
    bool const disturbed = band == 6;
    std::size_t const last = static_cast<std::size_t>(between(r, 500, 10000));
    w.time.item = between(r, 1e-3, 8e-3) / static_cast<double>(last);
    w.time.fixed = w.time.item * static_cast<double>(last) * between(r, 0.005, 0.3);
    w.jitter = between(r, 0.001, 0.05);
    w.stall_rate = disturbed ? 0.0 : rates[band] + (rates[band + 1] - rates[band]) * r.uniform();
    if (disturbed) {
      double const begin = between(r, 0.01, 2.0);
      w.slow_periods.push_back({begin, begin + 0.3, between(r, 2.0, 10.0)});
    }
    double const limit =
        w.time(static_cast<std::size_t>(between(r, 20, 0.9 * static_cast<double>(last)))) *
        (1.0 + 2.0 * r.uniform());
    auto const o = tune(w,
                        ww::batch_tuner{}
                            .range(1, last)
                            .objective(ww::throughput_under_latency(limit))
                            .max_seconds(60),
                        ww::no_memory_probe{});
    INFO("seed " << seed() + 1000000 + i << ", stalls " << w.stall_rate);
    auto& t = by_rate[band];
    ++t.count;
    ++all.count;
    double const spent = w.clock.now();
    t.seconds += spent;
    // The 99th percentile of a batch in units of its time: stalls count from 1 % on.
    double const tail = w.stall_rate < 0.01 ? 1.0 + w.jitter * (1.0 - (0.01 - w.stall_rate))
                                            : 3.0 * (1.0 + w.jitter * (1.0 - 0.01 / w.stall_rate));
    auto const allowed = [&](std::size_t b) { return w.time(b) * tail <= limit; };
    if (!o.feasible) {
      ++t.refused;
      if (allowed(1)) print("refused", seed() + 1000000 + i, w, o.result);
      CHECK_FALSE((allowed(1) && w.time(1) * 3.2 < limit));
      continue;
    }
    ww::tune_row const& row = o.result.chosen();
    REQUIRE(row.status == ww::tune_status::ok);
    REQUIRE(row.latency_shown);
    double const p99 = w.later_quantile(row.batch, 0.99, 10000);
    if (p99 > limit) {
      ++t.over;
      ++all.over;
      print("over", seed() + 1000000 + i, w, o.result);
    }
    all.worst_over = std::max(all.worst_over, p99 / limit);
    double const share = share_of_best(w, row.batch, last, allowed);
    ++t.judged;
    if (share >= 0.98) ++t.fast;
    if (share < 0.98 && (band < 2 || band > 4)) print("slow", seed() + 1000000 + i, w, o.result);
    t.worst = std::min(t.worst, share);
    double const cost = spent / sweep_seconds(w, last, 1, limit, allowed);
    t.cost += cost;
    all.cost += cost;
    ++all.judged;
  }
  std::printf("latency limits, seed %llu:\n", static_cast<unsigned long long>(seed()));
  for (int b = 0; b < 7; ++b) {
    auto const& t = by_rate[b];
    double const n = static_cast<double>(t.count == 0 ? 1 : t.count);
    double const j = static_cast<double>(t.judged == 0 ? 1 : t.judged);
    std::printf(
        "  stalls %-9s %5llu tunes: over the limit later %llu, refused %llu, within 98 %% of the "
        "best %.1f %%, worst %.3f, cost %.1f %%, %.1f s\n",
        names[b], static_cast<unsigned long long>(t.count), static_cast<unsigned long long>(t.over),
        static_cast<unsigned long long>(t.refused), 100.0 * static_cast<double>(t.fast) / j,
        t.worst, 100.0 * t.cost / j, t.seconds / n);
  }
  std::printf("  over: %llu of %llu, largest p99 / limit %.4f\n",
              static_cast<unsigned long long>(all.over), static_cast<unsigned long long>(all.count),
              all.worst_over);
  CHECK(all.over * 200 <= all.count);
  CHECK(all.worst_over <= 1.02);
  CHECK(all.cost <= 0.2 * static_cast<double>(all.judged));
  std::uint64_t const least[7] = {95, 95, 88, 10, 60, 84, 94};  // %
  for (int b = 0; b < 7; ++b) {
    CHECK(by_rate[b].fast * 100 + 300 >= least[b] * by_rate[b].judged);
  }
}

TEST_CASE("random tunes find small steps beside a fixed time", "[tune][batch_tuner][random]") {
  tally quiet;
  tally jitter;
  quiet.name = "quiet";
  jitter.name = "jitter";
  std::uint64_t const count = tunes() / 8;
  for (std::uint64_t i = 0; i < count; ++i) {
    simulated_workload w{seed() + 6000000 + i};
    noise_source& r = w.random;
    std::size_t const last = static_cast<std::size_t>(between(r, 300, 20000));
    double const l = static_cast<double>(last);
    w.time.kind = curve_kind::steps;
    w.time.wave = std::floor(between(r, 8, 64));
    w.time.item = 10e-3 / l;
    w.time.fixed = 10e-3 * between(r, 0.002, 0.3);
    if (i % 2 == 1) w.jitter = between(r, 0.002, 0.02);
    auto const o = tune(w, ww::batch_tuner{}.range(1, last), ww::no_memory_probe{});
    INFO("seed " << seed() + 6000000 + i);
    REQUIRE(o.feasible);
    auto const all = [](std::size_t) { return true; };
    double const best = best_rate(w, last, 1, all);
    std::size_t const chosen = o.result.chosen().batch;
    (i % 2 == 1 ? jitter : quiet)
        .add(static_cast<double>(chosen) / w.time(chosen) / best,
             w.clock.now() / sweep_seconds(w, last, 1, 1e9, all),
             smallest_ratio(w, chosen, last, 1, best));
  }
  std::printf("small steps, seed %llu:\n", static_cast<unsigned long long>(seed()));
  for (tally const* t : {&quiet, &jitter}) {
    t->print();
    CHECK(t->fast * 100 + 500 >= 95 * t->count);  // 5: the standard deviation of the count
    CHECK(t->cost <= 0.2 * static_cast<double>(t->count));
  }
}

TEST_CASE("random tunes find what keeps a limit where the time hardly depends on the size",
          "[tune][batch_tuner][random]") {
  // The reference is the best size of which at most 0.3 times as many calls are over the limit as
  // may be: one so close to it that more are cannot be shown to keep it in few calls.
  std::uint64_t const count = tunes() / 20;
  for (double const quantile : {0.5, 0.9, 0.99}) {
    for (double const fixed : {0.2, 0.8, 0.95}) {
      std::uint64_t good = 0;
      for (std::uint64_t i = 0; i < count; ++i) {
        simulated_workload w{seed() + 7000000 + i};
        noise_source& r = w.random;
        std::size_t const last = static_cast<std::size_t>(between(r, 128, 4096));
        w.time.fixed = 1e-3 * fixed;  // of the time of 64 items
        w.time.item = 1e-3 * (1.0 - fixed) / 64.0;
        w.jitter = 0.02;
        std::size_t const fits =
            static_cast<std::size_t>(between(r, 4, 0.9 * static_cast<double>(last)));
        double const tail = 1.0 + w.jitter * (1.0 - 0.3 * (1.0 - quantile));
        double const limit = w.time(fits) * tail * 1.0001;
        auto const o = tune(w,
                            ww::batch_tuner{}
                                .range(1, last)
                                .objective(ww::throughput_under_latency(limit, quantile))
                                .max_seconds(120),
                            ww::no_memory_probe{});
        INFO("seed " << seed() + 7000000 + i << ", quantile " << quantile << ", fixed " << fixed
                     << "\n"
                     << o.error);
        REQUIRE(o.feasible);
        std::size_t const chosen = o.result.chosen().batch;
        CHECK(w.time(chosen) * (1.0 + w.jitter * quantile) <= 1.0001 * limit);
        double const share =
            share_of_best(w, chosen, last, [&](std::size_t b) { return b <= fits; });
        if (share >= 0.98) ++good;
      }
      std::printf("fixed %2.0f %%, p%g: %llu of %llu within 98 %%\n", 100.0 * fixed,
                  100.0 * quantile, static_cast<unsigned long long>(good),
                  static_cast<unsigned long long>(count));
      CHECK(good * 100 + 300 >= 88 * count);
    }
  }
}

TEST_CASE("a latency limit is used up, in little time", "[tune][batch_tuner][random]") {
  // The rates, with these seeds, tell the last steps of the search from simpler ones: a larger size
  // after a refusal, but only one that is worth its calls.
#if defined(__OPTIMIZE__)
  constexpr int count = 100;
#else
  constexpr int count = 5;
#endif
  // The throughput of the choices as a share of `best`, and the simulated seconds of a tune.
  auto const check_kind = [](char const* name, auto const& set_up, std::size_t best, double share,
                             double seconds_at_most) {
    double shares = 0.0;
    double seconds = 0.0;
    for (int i = 1; i <= count; ++i) {
      simulated_workload w{13U * static_cast<std::uint64_t>(i)};
      w.time.fixed = 1e-3;
      set_up(w);
      auto const tuner = ww::batch_tuner{}
                             .range(1, 4096)
                             .objective(ww::throughput_under_latency(3e-3))
                             .max_seconds(30.0);
      outcome const o = tune(w, tuner, ww::no_memory_probe{});
      REQUIRE(o.feasible);
      auto const rate = [&](std::size_t batch) {
        return static_cast<double>(batch) / w.time(batch);
      };
      shares += rate(o.result.chosen().batch) / rate(best) / count;
      seconds += w.clock.now() / count;
    }
    std::printf("%-10s %.4f of the best, %.2f s\n", name, shares, seconds);
    INFO(name);
    CHECK(shares >= (count == 100 ? share : share - 0.05));
    CHECK(seconds <= (count == 100 ? 1.0 : 1.5) * seconds_at_most);
  };
  // A call takes at most 1.1 times its time, or 1.3 times in 30 %: the largest sizes whose calls
  // are all within the limit have 1.727 and 1.307 ms for their items.
  check_kind(
      "jitter", [](simulated_workload& w) { w.jitter = 0.1; }, 1727, 0.985, 8.1);
  check_kind(
      "two kinds", [](simulated_workload& w) { w.slow_share = 0.3; }, 1307, 0.984, 11.0);
}

TEST_CASE("random tunes under a latency limit do not take pauses of the host for slow batches",
          "[tune][batch_tuner][random]") {
  struct {
    std::uint64_t count = 0, refused = 0, over = 0, fast = 0;
    double worst = 1.0, cost = 0.0, worst_over = 0.0;
  } bands[5];
  char const* const names[5] = {"0.02 % of calls", "to 0.3 % of calls", "to 0.5 % of calls",
                                "by time, few", "by time, many"};
  double const per_call[4] = {0.0, 0.0002, 0.003, 0.005};
  std::uint64_t const count = tunes() / 8;
  for (std::uint64_t i = 0; i < count; ++i) {
    simulated_workload w{seed() + 5000000 + i};
    noise_source& r = w.random;
    std::size_t const band = i % 5;
    std::size_t const last = static_cast<std::size_t>(between(r, 500, 10000));
    w.time.item = between(r, 1e-3, 8e-3) / static_cast<double>(last);
    w.time.fixed = w.time.item * static_cast<double>(last) * between(r, 0.005, 0.3);
    w.jitter = between(r, 0.001, 0.05);
    double const limit =
        w.time(static_cast<std::size_t>(between(r, 20, 0.9 * static_cast<double>(last)))) *
        (1.0 + 2.0 * r.uniform());
    // A pause alone is over the limit, or nearly so.
    w.pause_seconds = limit * between(r, 1.0, 20.0);
    if (band < 3) {
      w.pauses_per_call = per_call[band] + (per_call[band + 1] - per_call[band]) * r.uniform();
    } else {
      // Of the calls that take as long as the limit.
      w.pauses_per_second = (band == 3 ? between(r, 1e-4, 3e-3) : between(r, 0.02, 0.1)) / limit;
    }
    auto const o = tune(w,
                        ww::batch_tuner{}
                            .range(1, last)
                            .objective(ww::throughput_under_latency(limit))
                            .max_seconds(60),
                        ww::no_memory_probe{});
    INFO("seed " << seed() + 5000000 + i << ", " << names[band]);
    auto& t = bands[band];
    ++t.count;
    auto const allowed = [&](std::size_t b) {
      double const seconds = w.time(b) * (1.0 + w.jitter * 0.99);
      double const rate = w.pauses_per_call + w.pauses_per_second * seconds;
      return seconds <= limit && rate <= 0.01;
    };
    if (!o.feasible) {
      ++t.refused;
      if (allowed(1)) print("refused", seed() + 5000000 + i, w, o.result);
      continue;
    }
    ww::tune_row const& row = o.result.chosen();
    double const p99 = w.later_quantile(row.batch, 0.99, 10000);
    if (p99 > limit) ++t.over;
    t.worst_over = std::max(t.worst_over, p99 / limit);
    double const share = share_of_best(w, row.batch, last, allowed);
    if (share >= 0.98) ++t.fast;
    if (share < 0.98) print("slow", seed() + 5000000 + i, w, o.result);
    t.worst = std::min(t.worst, share);
    t.cost += w.clock.now() / sweep_seconds(w, last, 1, limit, allowed);
  }
  std::printf("pauses, seed %llu:\n", static_cast<unsigned long long>(seed()));
  for (int b = 0; b < 5; ++b) {
    auto const& t = bands[b];
    double const judged = static_cast<double>(t.count - t.refused + (t.count == t.refused));
    std::printf(
        "  %-18s %5llu tunes: over the limit later %llu, refused %llu, within 98 %% of the best "
        "%.1f %%, worst %.3f, cost %.1f %%\n",
        names[b], static_cast<unsigned long long>(t.count), static_cast<unsigned long long>(t.over),
        static_cast<unsigned long long>(t.refused), 100.0 * static_cast<double>(t.fast) / judged,
        t.worst, 100.0 * t.cost / judged);
    CHECK(t.over * 200 <= t.count);
    CHECK(t.worst_over <= 1.02);
  }
  // Of the last kind most have no size that keeps the limit.
  std::uint64_t const least[4] = {95, 95, 70, 95};
  for (int b = 0; b < 4; ++b) {
    CHECK(bands[b].fast * 100 + 300 >= least[b] * (bands[b].count - bands[b].refused));
    CHECK(bands[b].refused * 100 <= 3 * bands[b].count + 200);
  }
}

TEST_CASE("random tunes keep a memory budget, and predict the memory",
          "[tune][batch_tuner][random]") {
  std::uint64_t predicted = 0, second_sizes = 0, refused = 0;
  double worst_prediction = 0.0;
  struct {
    std::uint64_t count = 0, good = 0;
    double worst = 1.0;
  } shares[3], hogged;
  char const* const names[3] = {"pool", "probe", "preparation"};
  std::uint64_t const count = tunes() / 4;
  for (std::uint64_t i = 0; i < count; ++i) {
    simulated_workload w{seed() + 2000000 + i};
    noise_source& r = w.random;
    std::size_t const last = static_cast<std::size_t>(between(r, 500, 10000));
    w.time = random_time(r, curve_kind::affine, last);
    w.jitter = between(r, 0.001, 0.02);
    w.memory = static_cast<memory_kind>(pick_one(r, 3));
    w.item_bytes = between(r, 2e4, 2e6);
    w.base_bytes = r.uniform() < 0.3 ? 0.0 : w.item_bytes * between(r, 1.0, 1000.0);
    w.grows_later = r.uniform() < 0.3 ? 0.5 * r.uniform() : 0.0;
    std::size_t const fits = static_cast<std::size_t>(between(r, 4, static_cast<double>(last)));
    w.budget =
        w.need(fits) + static_cast<std::size_t>(
                           r.uniform() * static_cast<double>(w.need(fits + 1) - w.need(fits)));
    bool const hog = r.uniform() < 0.3;
    if (hog) {
      w.hog_begin = between(r, 0.01, 2.0);
      w.hog_end = w.hog_begin + between(r, 0.01, 1.0);
      w.hog_above = static_cast<std::size_t>(between(r, 1, static_cast<double>(fits)));
    }
    std::size_t const kind = pick_one(r, 3);
    auto const tuner = ww::batch_tuner{}.range(1, last).memory_budget(w.budget);
    simulated_pool pool{w};
    outcome o;
    if (kind == 0) o = tune(w, tuner, pool);
    if (kind == 1) o = tune(w, tuner, simulated_probe{w});
    if (kind == 2) o = tune(w, tuner, [&](std::size_t batch) { return w.need(batch); });
    INFO("seed " << seed() + 2000000 + i << ", memory argument " << kind);
    // A probe refuses nothing: the second size alone may be over the budget, and the first one.
    std::size_t const may_be_over = kind == 1 ? 2 : 0;
    for (std::size_t const batch : w.over_budget) {
      if (batch > may_be_over) print("over budget", seed() + 2000000 + i, w, o.result);
      CHECK(batch <= may_be_over);
    }
    if (!w.over_budget.empty()) ++second_sizes;
    if (!o.feasible) {
      ++refused;
      print("refused", seed() + 2000000 + i, w, o.result);
      CHECK(kind == 1);
      continue;
    }
    ww::tune_row const& row = o.result.chosen();
    REQUIRE(row.status == ww::tune_status::ok);
    REQUIRE(w.need(row.batch) <= w.budget);
    REQUIRE(row.memory_bytes <= w.budget);
    if (o.result.memory.points() >= 3 && o.result.memory.knows(row.batch)) {
      double const error = std::fabs(
          o.result.memory.estimate(row.batch) / static_cast<double>(w.need(row.batch)) - 1.0);
      // What is allocated in granules is known to one of them.
      double const granule = w.memory == memory_kind::granules
                                 ? 2097152.0 / static_cast<double>(w.need(row.batch))
                                 : 0.0;
      if (granule > 0.03) continue;
      ++predicted;
      if (error > 0.03 && verbose()) std::printf("error %g\n", error);
      if (error > 0.03) print("prediction", seed() + 2000000 + i, w, o.result);
      worst_prediction = std::max(worst_prediction, error);
    }
    // The model's margin is a price of the budget's safety where nothing but the model keeps it.
    auto const& model = o.result.memory;
    double const share = share_of_best(w, row.batch, last, [&](std::size_t b) {
      double const margin = kind == 1 ? model.predict(row.batch) - model.estimate(row.batch) : 0.0;
      return static_cast<double>(w.need(b)) + margin <= static_cast<double>(w.budget);
    });
    // A hog that lasts as long as the tune takes the memory away for good.
    if (hog && w.hog_end + 1.0 > w.clock.now()) continue;
    auto& t = hog ? hogged : shares[kind];
    ++t.count;
    if (share >= 0.98) ++t.good;
    if (share < 0.98) print(hog ? "slow, hog" : names[kind], seed() + 2000000 + i, w, o.result);
    t.worst = std::min(t.worst, share);
  }
  std::printf(
      "memory, seed %llu: %llu tunes, %llu refused; predictions %llu, largest error %.2f %%; "
      "second sizes over the budget %llu\n",
      static_cast<unsigned long long>(seed()), static_cast<unsigned long long>(count),
      static_cast<unsigned long long>(refused), static_cast<unsigned long long>(predicted),
      100.0 * worst_prediction, static_cast<unsigned long long>(second_sizes));
  auto const report = [](char const* name, auto const& t) {
    std::printf("  %-12s %6llu tunes: %5.1f %% within 98 %%, worst %.3f\n", name,
                static_cast<unsigned long long>(t.count),
                100.0 * static_cast<double>(t.good) / static_cast<double>(t.count + (t.count == 0)),
                t.worst);
  };
  for (int kind = 0; kind < 3; ++kind) report(names[kind], shares[kind]);
  report("hogs", hogged);
  CHECK(worst_prediction <= 0.03);
  // A probe refuses nothing, so that the margin of the model costs some items of few.
  std::uint64_t const least[3] = {95, 85, 93};
  for (int kind = 0; kind < 3; ++kind) {
    CHECK(shares[kind].good * 100 + 300 >= least[kind] * shares[kind].count);
  }
  CHECK(hogged.good * 100 + 300 >= 80 * hogged.count);
}

TEST_CASE("random tunes find the sizes that work", "[tune][batch_tuner][random]") {
  std::uint64_t good = 0, found = 0, one = 0, one_found = 0, judged = 0;
  std::uint64_t const count = tunes() / 4;
  for (std::uint64_t i = 0; i < count; ++i) {
    simulated_workload w{seed() + 3000000 + i};
    noise_source& r = w.random;
    std::size_t const last = static_cast<std::size_t>(between(r, 100, 8192));
    w.time = random_time(r, curve_kind::affine, last);
    w.jitter = between(r, 0.001, 0.02);
    double const l = static_cast<double>(last);
    w.invalid_is_memory = r.uniform() < 0.5;
    std::size_t const kind = pick_one(r, 4);
    if (kind == 0) w.valid_from = w.valid_to = 1 + static_cast<std::size_t>(r.uniform() * (l - 1));
    if (kind == 1) w.valid_from = static_cast<std::size_t>(between(r, 2, l));
    if (kind == 2) w.valid_to = static_cast<std::size_t>(between(r, 1, l));
    if (kind == 3) {
      w.valid_from = static_cast<std::size_t>(between(r, 1, l));
      w.valid_to = w.valid_from +
                   static_cast<std::size_t>(r.uniform() * (l - static_cast<double>(w.valid_from)));
    }
    auto const o =
        tune(w, ww::batch_tuner{}.range(1, last).reject_exceptions(), ww::no_memory_probe{});
    INFO("seed " << seed() + 3000000 + i << ", valid " << w.valid_from << " to " << w.valid_to
                 << " of " << last);
    if (kind == 0) ++one;
    REQUIRE(o.feasible);
    ++found;
    if (kind == 0) ++one_found;
    ww::tune_row const& row = o.result.chosen();
    REQUIRE(row.status == ww::tune_status::ok);
    REQUIRE(w.valid(row.batch));
    ++judged;
    double const share = share_of_best(w, row.batch, last, [](std::size_t) { return true; });
    if (share >= 0.98) ++good;
    if (share < 0.98) print("slow", seed() + 3000000 + i, w, o.result);
  }
  std::printf(
      "validity, seed %llu: %llu tunes, of %llu with one valid size %llu found; within 98 %% of "
      "the best %.1f %%\n",
      static_cast<unsigned long long>(seed()), static_cast<unsigned long long>(found),
      static_cast<unsigned long long>(one), static_cast<unsigned long long>(one_found),
      100.0 * static_cast<double>(good) / static_cast<double>(judged == 0 ? 1 : judged));
  CHECK(one == one_found);
  CHECK(good * 100 >= 95 * judged);
}

TEST_CASE("random tunes with everything at once never choose a size that fails or breaks a limit",
          "[tune][batch_tuner][random]") {
  std::uint64_t feasible = 0;
  std::uint64_t over = 0;
  std::uint64_t const count = tunes() / 4;
  for (std::uint64_t i = 0; i < count; ++i) {
    simulated_workload w{seed() + 4000000 + i};
    noise_source& r = w.random;
    std::size_t const multiple = 1 + pick_one(r, 8);
    std::size_t const last = static_cast<std::size_t>(between(r, 100, 8192)) / multiple * multiple;
    w.time = random_time(r, static_cast<curve_kind>(pick_one(r, 6)), last);
    w.time.item *= 0.1;
    w.time.fixed *= 0.1;
    add_noise(w, pick_one(r, 6));
    if (r.uniform() < 0.5) w.stall_rate = 0.05 * r.uniform();
    if (r.uniform() < 0.3)
      w.valid_from = static_cast<std::size_t>(between(r, 1, static_cast<double>(last)));
    if (r.uniform() < 0.3)
      w.valid_to = static_cast<std::size_t>(
          between(r, static_cast<double>(w.valid_from), static_cast<double>(last)));
    if (r.uniform() < 0.5) w.random_failures = between(r, 1e-6, 3e-3);
    w.invalid_is_memory = r.uniform() < 0.5;
    w.memory = static_cast<memory_kind>(pick_one(r, 3));
    w.item_bytes = between(r, 2e4, 2e6);
    w.base_bytes = r.uniform() < 0.3 ? 0.0 : w.item_bytes * between(r, 1.0, 1000.0);
    if (r.uniform() < 0.3) {
      w.hog_begin = between(r, 0.01, 2.0);
      w.hog_end = w.hog_begin + between(r, 0.01, 1.0);
      w.hog_above = static_cast<std::size_t>(between(r, 1, static_cast<double>(last)));
    }
    bool const limited = r.uniform() < 0.5;
    double const limit =
        w.time(static_cast<std::size_t>(between(r, 1, static_cast<double>(last)))) *
        (1.0 + 3.0 * r.uniform());
    ww::batch_tuner tuner =
        ww::batch_tuner{}.range(1, last).multiple_of(multiple).reject_exceptions();
    double const budget_seconds = between(r, 0.05, 60.0);
    tuner = tuner.max_seconds(budget_seconds);
    if (limited) tuner = tuner.objective(ww::throughput_under_latency(limit));
    bool const budgeted = r.uniform() < 0.5;
    if (budgeted) {
      w.budget = w.need(static_cast<std::size_t>(between(r, 1, static_cast<double>(last))));
      tuner = tuner.memory_budget(w.budget);
    }
    std::size_t const kind = pick_one(r, 3);
    simulated_pool pool{w};
    outcome o;
    if (kind == 0) o = tune(w, tuner, pool);
    if (kind == 1) o = tune(w, tuner, simulated_probe{w});
    if (kind == 2) o = tune(w, tuner, [&](std::size_t batch) { return w.need(batch); });
    INFO("seed " << seed() + 4000000 + i);
    // The size in progress ends; it was expected to end in time, without a disturbance.
    double slowest = 1.0;
    for (slow_period const& p : w.slow_periods) slowest = std::max(slowest, p.factor);
    CHECK(w.clock.now() <= budget_seconds * 1.1 + 60.0 * slowest * w.time(last));
    if (!o.feasible) continue;
    ++feasible;
    ww::tune_row const& row = o.result.chosen();
    REQUIRE(row.status == ww::tune_status::ok);
    REQUIRE(row.items_per_second > 0.0);
    REQUIRE(row.batch % multiple == 0);
    REQUIRE(row.batch <= last);
    REQUIRE(w.valid(row.batch));
    if (budgeted) REQUIRE(w.need(row.batch) <= w.budget);
    if (limited) {
      REQUIRE(row.latency_shown);
      w.slow_periods.clear();
      if (w.drift == 0.0 && w.later_quantile(row.batch, 0.99, 10000) > limit) {
        ++over;
        print("over", seed() + 4000000 + i, w, o.result);
      }
    }
  }
  std::printf("everything, seed %llu: %llu tunes, %llu with a choice, %llu over the limit later\n",
              static_cast<unsigned long long>(seed()), static_cast<unsigned long long>(count),
              static_cast<unsigned long long>(feasible), static_cast<unsigned long long>(over));
  CHECK(feasible * 2 > count);
  CHECK(over * 200 <= count);
}
