// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Random histories of a service with a stored_tuner on a simulated clock: starts, driver updates
// that change times, stalls and memory, other ranges, and damage to the store. An oracle that knows
// the truth judges every choice.
//
// WARPWRIGHT_HISTORIES sets their number (default 1000), WARPWRIGHT_SEED the seed.
#include <warpwright/tune/stored_tuner.hpp>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "simulated_workload.hpp"
#include "store_support.hpp"
#include "support/sanitized.hpp"

namespace ww = warpwright;
using namespace test_support;

namespace {

std::uint64_t number_from(char const* variable, std::uint64_t otherwise) {
  char const* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}
std::uint64_t histories() { return number_from("WARPWRIGHT_HISTORIES", rounds(1000)); }
std::uint64_t seed() { return number_from("WARPWRIGHT_SEED", 20261123); }

// From `low` to `high`, with equal chances of all orders of magnitude.
double between(noise_source& random, double low, double high) {
  return low * std::pow(high / low, random.uniform());
}
std::size_t pick_one(noise_source& random, std::size_t count) {
  return static_cast<std::size_t>(random.uniform() * static_cast<double>(count));
}

// What a driver changes.
struct behaviour {
  workload_time time;
  double stall_rate = 0.0;
  double item_bytes = 0.0;
};

class history {
 public:
  explicit history(std::uint64_t number) : random_{number}, number_{number} {
    noise_source& r = random_;
    last_ = static_cast<std::size_t>(between(r, 200, 8000));
    double const l = static_cast<double>(last_);
    constexpr curve_kind kinds[] = {curve_kind::affine, curve_kind::affine, curve_kind::saturating,
                                    curve_kind::steps, curve_kind::cliff};
    now_.time.kind = kinds[pick_one(r, 5)];
    now_.time.item = between(r, 1e-3, 8e-3) / l;
    now_.time.fixed = now_.time.item * l * between(r, 0.005, 0.3);
    now_.time.knee = between(r, 10.0, 0.9 * l);
    now_.time.wave = std::floor(between(r, 16.0, l / 2.0));
    now_.stall_rate = r.uniform() < 0.5 ? 0.0 : 0.005 * r.uniform();
    now_.item_bytes = between(r, 2e4, 2e6);
    jitter_ = between(r, 0.001, 0.02);
    base_bytes_ = now_.item_bytes * between(r, 1.0, 1000.0);
    if (r.uniform() < 0.6) {
      auto const at = static_cast<std::size_t>(between(r, 20, 0.9 * l));
      limit_ = now_.time(at) * (1.0 + 2.0 * r.uniform());
    }
    if (r.uniform() < 0.6) {
      budget_ = workload().need(static_cast<std::size_t>(between(r, 4, l)));
    }
    memory_ = pick_one(r, 3);
  }

  noise_source& random() { return random_; }
  behaviour& now() { return now_; }
  std::size_t& last() { return last_; }
  ww::tuning_key& key() { return key_; }
  std::string const& path() const { return path_; }
  std::string& path() { return path_; }
  store_folder const& folder() const { return folder_; }

  simulated_workload workload() {
    simulated_workload w{number_ * 64 + ++starts_};
    w.time = now_.time;
    w.stall_rate = now_.stall_rate;
    w.item_bytes = now_.item_bytes;
    w.base_bytes = base_bytes_;
    w.jitter = jitter_;
    w.budget = budget_;
    return w;
  }

  // Starts the service. Returns false if it does not find a size.
  bool start(simulated_workload& w, ww::tune_result& result) {
    static ww::stream const stream;
    simulated_stopwatch stopwatch{w.clock};
    ww::batch_tuner tuner = ww::batch_tuner{}.range(1, last_).max_seconds(60).clock(w.clock.ref());
    if (limit_ > 0.0) tuner = tuner.objective(ww::throughput_under_latency(limit_));
    if (has_budget()) tuner = tuner.memory_budget(budget_);
    ww::stored_tuner const stored{tuner, ww::tuning_store{path_}, key_};
    auto const call = [&](std::size_t batch, ww::stream_ref) { w(batch); };
    auto const prepare = [&](std::size_t batch) { return w.need(batch); };
    simulated_pool pool{w};
    simulated_probe probe{w};
    try {
      if (memory_ == 0) result = stored.tune_with(stopwatch, stream, call, pool);
      if (memory_ == 1) result = stored.tune_with(stopwatch, stream, call, probe);
      if (memory_ == 2) result = stored.tune_with(stopwatch, stream, call, prepare);
    } catch (ww::no_feasible_batch const&) {
      return false;
    }
    return true;
  }

  bool has_budget() const { return budget_ != ~std::size_t{0}; }
  bool limited() const { return limit_ > 0.0; }
  double limit() const { return limit_; }
  bool probe() const { return memory_ == 1; }

 private:
  noise_source random_;
  std::uint64_t number_;
  store_folder folder_{"/dev/shm"};
  std::string path_ = folder_.file();
  ww::tuning_key key_ = make_key();
  std::size_t last_ = 0;
  behaviour now_;
  double jitter_ = 0.0;
  double base_bytes_ = 0.0;
  double limit_ = 0.0;
  std::size_t budget_ = ~std::size_t{0};
  std::size_t memory_ = 0;
  std::uint64_t starts_ = 0;
};

double rate_of(simulated_workload const& w, std::size_t batch) {
  return static_cast<double>(batch) / w.time(batch);
}

struct rate {
  std::uint64_t count = 0;
  std::uint64_t good = 0;
  void add(bool is_good) {
    ++count;
    if (is_good) ++good;
  }
  double percent() const {
    return count == 0 ? 100.0 : 100.0 * static_cast<double>(good) / static_cast<double>(count);
  }
};

}  // namespace

TEST_CASE("random histories never choose a size over a limit", "[tune][stored_tuner][random]") {
  rate found;           // choices at all
  rate latency_kept;    // of choices under a limit, in 10,000 later calls
  rate kept_unchanged;  // driver updates that change nothing
  rate fast[2];         // stored, checked: 98 % of the throughput of a tune at this time
  rate tuned_large;     // updates that change the time by more than 12 %
  double worst_over = 0.0;
  double calls_checked = 0.0;
  double calls_tuned = 0.0;
  std::uint64_t const count = histories();
  for (std::uint64_t i = 0; i < count; ++i) {
    history h{seed() + i};
    noise_source& r = h.random();
    std::string const path = h.path();
    bool unchanged = false;  // the last event is an update that changes nothing
    bool much_changed = false;
    bool expect_stored = false;
    double calls_of_tune = 0.0;
    for (int start = 0; start < 4; ++start) {
      simulated_workload w = h.workload();
      ww::tune_result result;
      bool const feasible = h.start(w, result);
      INFO("seed " << seed() + i << ", start " << start);
      found.add(feasible);
      bool const usable_store = h.path() == path;
      if (feasible) {
        ww::tune_row const& row = result.chosen();
        REQUIRE(row.status == ww::tune_status::ok);
        REQUIRE(row.batch >= 1);
        REQUIRE(row.batch <= h.last());
        if (h.has_budget()) REQUIRE(w.need(row.batch) <= w.budget);
        // A probe refuses nothing: the first sizes alone may be over the budget.
        for (std::size_t const batch : w.over_budget) CHECK((h.probe() && batch <= 2));
        if (h.limited()) {
          REQUIRE(row.latency_shown);
          double const p99 = w.later_quantile(row.batch, 0.99, 10000);
          latency_kept.add(p99 <= h.limit());
          worst_over = std::max(worst_over, p99 / h.limit());
        }
        if (expect_stored) CHECK(result.source == ww::tune_source::stored);
        CHECK((result.source == ww::tune_source::stored) == (w.calls == 0));
        if (!usable_store) CHECK(result.source == ww::tune_source::tuned);
        CHECK((usable_store || !result.warnings.empty()));
        bool const checked = result.source == ww::tune_source::checked_again;
        if (h.probe() && h.has_budget()) CHECK_FALSE(checked);
        if (unchanged && !(h.probe() && h.has_budget())) {
          kept_unchanged.add(checked);
          if (checked && calls_of_tune > 0.0) {
            calls_checked += static_cast<double>(w.calls);
            calls_tuned += calls_of_tune;
          }
        }
        if (much_changed) {
          CHECK_FALSE(checked);
          tuned_large.add(!checked);
        }
        if (result.source != ww::tune_source::tuned) {
          ww::tune_result anew;
          h.path() = h.folder().path() + "/another/folder";
          simulated_workload same = h.workload();
          bool const other = h.start(same, anew);
          double const share =
              other ? rate_of(w, row.batch) / rate_of(w, anew.chosen().batch) : 1.0;
          fast[result.source == ww::tune_source::stored ? 0 : 1].add(share >= 0.98);
        }
        if (result.source == ww::tune_source::tuned) calls_of_tune = static_cast<double>(w.calls);
      }
      unchanged = much_changed = expect_stored = false;
      h.path() = path;
      std::size_t const event = pick_one(r, 8);
      if (event == 0) {
        expect_stored = feasible && usable_store;  // the same again
      } else if (event <= 4) {
        h.key().driver_version += "u";
        bool const was_stored = feasible && usable_store;
        if (event == 1) unchanged = was_stored;
        if (event == 2) {
          double const factor = between(r, 0.6, 1.6);
          h.now().time.item *= factor;
          h.now().time.fixed *= factor;
          much_changed = was_stored && std::fabs(1.0 / factor - 1.0) > 0.12;
        }
        if (event == 3) {
          h.now().stall_rate = 0.03 * r.uniform();
          h.now().time.fixed *= between(r, 0.5, 2.0);
        }
        if (event == 4) h.now().item_bytes *= between(r, 0.8, 1.25);
      } else if (event == 5) {
        h.path() = h.folder().path() + "/no/such/folder";
      } else if (event == 6) {
        h.last() = static_cast<std::size_t>(between(r, 100, 8000));
      } else {
        // A record is damaged: a byte is lost.
        std::string all = content(path);
        if (all.size() > 100 && all != "missing") {
          all.erase(pick_one(r, all.size()), 1);
          write(path, all);
        }
      }
    }
  }
  std::printf(
      "histories of stored tunes, seed %llu: %llu; choices in %.1f %% of starts; p99 kept later in "
      "%llu of %llu, largest p99 / limit %.4f\n",
      static_cast<unsigned long long>(seed()), static_cast<unsigned long long>(count),
      found.percent(), static_cast<unsigned long long>(latency_kept.good),
      static_cast<unsigned long long>(latency_kept.count), worst_over);
  std::printf(
      "  updates that change nothing: %.1f %% of %llu kept, in %.1f %% of the calls of a tune; "
      "changes of more than 12 %%: %.1f %% of %llu tuned anew\n",
      kept_unchanged.percent(), static_cast<unsigned long long>(kept_unchanged.count),
      100.0 * calls_checked / calls_tuned, tuned_large.percent(),
      static_cast<unsigned long long>(tuned_large.count));
  std::printf(
      "  98 %% of the throughput of a new tune: stored %.1f %% of %llu, checked again %.1f %% of "
      "%llu\n",
      fast[0].percent(), static_cast<unsigned long long>(fast[0].count), fast[1].percent(),
      static_cast<unsigned long long>(fast[1].count));
  CHECK((latency_kept.count - latency_kept.good) * 200 <= latency_kept.count);
  CHECK(worst_over <= 1.02);
  CHECK(kept_unchanged.good * 100 + 300 >= 90 * kept_unchanged.count);
  CHECK(fast[0].good * 100 + 300 >= 95 * fast[0].count);
  // A check does not look for larger sizes that less memory an item, or fewer stalls, would allow.
  CHECK(fast[1].good * 100 + 300 >= 90 * fast[1].count);
}
