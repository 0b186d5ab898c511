// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"

#include <warpwright/core/detail/container/sort.hpp>
#include <warpwright/memory/pool.hpp>
#include <warpwright/observe/diagnose.hpp>
#include <warpwright/observe/monitor.hpp>
#include <warpwright/observe/trace.hpp>
#include <warpwright/stream/prefetch_options.hpp>

#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace ww = warpwright;
using ww::bottleneck;

namespace {

// Ten steps of 100 ms on one GPU, which is busy with kernels all the time.
ww::trace_summary healthy() {
  ww::trace_summary t;
  t.steps = 10;
  t.devices = 1;
  t.kernels = 1000;
  t.recorded_seconds = t.busy_seconds = t.kernel_seconds = 1.0;
  return t;
}
ww::trace_summary idle(double ww::trace_summary::*reason, double share) {
  ww::trace_summary t = healthy();
  t.idle_seconds = t.*reason = share;
  t.busy_seconds = t.kernel_seconds = 1.0 - share;
  return t;
}
ww::trace_summary copying(double copies, double overlapped, double kernels) {
  ww::trace_summary t = healthy();
  t.copy_seconds = copies;
  t.overlapped_copy_seconds = overlapped;
  t.kernel_seconds = kernels;
  return t;
}
ww::monitor_statistics watched() {
  ww::monitor_statistics m;
  m.samples = 20;
  m.mean.utilization = 0.99;
  m.last.memory_total_bytes = 80e9;
  m.max.memory_used_bytes = 40e9;
  m.mean.sm_clock_mhz = m.max.sm_clock_mhz = 1980.0;
  m.throttled_share = 0.0;
  return m;
}
ww::pool_statistics pool(double live, double reserved, double largest) {
  ww::pool_statistics p;
  p.live_bytes = static_cast<std::uint64_t>(live * 1e9);
  p.reserved_bytes = static_cast<std::uint64_t>(reserved * 1e9);
  p.largest_free_block_bytes = static_cast<std::uint64_t>(largest * 1e9);
  return p;
}

std::vector<bottleneck> found(ww::evidence const& e) {
  std::vector<bottleneck> all;
  for (ww::bottleneck_finding const& f : ww::diagnose(e).findings) {
    CHECK(!f.figures.empty());
    CHECK(!f.remedy.empty());
    CHECK(f.time_share >= 0.0);
    CHECK(f.time_share <= 1.0);
    all.push_back(f.what);
  }
  return all;
}
using only = std::vector<bottleneck>;

}  // namespace

TEST_CASE("diagnose: a healthy program has no finding") {
  ww::prefetch_statistics ring;
  ring.batches = 100;
  ring.seconds = 1.0;
  ring.starved_seconds = 0.05;
  ww::evidence const e = ww::evidence{}
                             .add(healthy())
                             .add(watched())
                             .add(pool(7.0, 8.0, 0.9), 10'000'000'000)
                             .add(ring)
                             .add_rank_seconds({1.0, 1.05, 0.98});
  CHECK(found(e).empty());
  CHECK(ww::diagnose(e).gaps.empty());
  CHECK(ww::diagnose(e).to_text() == "no bottleneck found\n");
}

TEST_CASE("diagnose: idle time by its reason") {
  auto const waiting = &ww::trace_summary::waiting_for_host_seconds;
  CHECK(found(ww::evidence{}.add(idle(waiting, 0.049))).empty());
  CHECK(found(ww::evidence{}.add(idle(waiting, 0.051))) == only{bottleneck::data_bound});
  ww::trace_summary t = idle(waiting, 0.5);
  t.synchronizing_calls = 10;  // 50 ms of host work behind each
  CHECK(found(ww::evidence{}.add(t)) == only{bottleneck::data_bound});
  t.calls = {{"cudaMallocAsync", 10, 0.9}, {"cudaFree", 10, 0.15}, {"cudaMalloc", 10, 0.05}};
  CHECK(found(ww::evidence{}.add(t)) == only{bottleneck::data_bound});
  t.calls[2].seconds = 0.15;
  CHECK(found(ww::evidence{}.add(t)) == only{bottleneck::synchronizing});
  t.calls.clear();
  t.synchronizing_calls = 20000;  // 25 us
  CHECK(found(ww::evidence{}.add(t)) == only{bottleneck::synchronizing});
  auto const launches = &ww::trace_summary::launch_bound_seconds;
  CHECK(found(ww::evidence{}.add(idle(launches, 0.19))).empty());
  CHECK(found(ww::evidence{}.add(idle(launches, 0.21))) == only{bottleneck::launch_bound});
  CHECK(found(ww::evidence{}.add(idle(&ww::trace_summary::between_kernels_seconds, 0.3))).empty());
  t = idle(launches, 0.4);
  t.calls = {{"cudaGraphLaunch", 125, 0.5}};  // of eight kernels each: slower by the trace
  CHECK(found(ww::evidence{}.add(t)).empty());
  t.calls[0].calls = 126;
  CHECK(found(ww::evidence{}.add(t)) == only{bottleneck::launch_bound});
}

TEST_CASE("diagnose: copies and kernels") {
  CHECK(found(ww::evidence{}.add(copying(0.5, 0.41, 0.9))).empty());
  CHECK(found(ww::evidence{}.add(copying(0.3, 0.0, 0.7))) == only{bottleneck::no_overlap});
  CHECK(found(ww::evidence{}.add(copying(0.9, 0.1, 0.2))) == only{bottleneck::copy_bound});
  ww::trace_summary t = copying(0.3, 0.0, 0.7);
  t.pageable.seconds = 0.2;
  CHECK(found(ww::evidence{}.add(t)) == only{bottleneck::pageable_copies});
}

TEST_CASE("diagnose: multiprocessors without work") {
  ww::trace_summary t = healthy();
  t.unfilled_seconds = 0.29;
  CHECK(found(ww::evidence{}.add(t)).empty());
  t.unfilled_seconds = 0.8;
  CHECK(found(ww::evidence{}.add(t)) == only{bottleneck::small_batch});
  ww::monitor_statistics m = watched();
  m.mean.sm_activity = 0.01;
  CHECK(found(ww::evidence{}.add(m)) == only{bottleneck::small_batch});
  m.mean.utilization.reset();  // an absent figure is none
  CHECK(found(ww::evidence{}.add(m)).empty());
}

TEST_CASE("diagnose: clocks, ranks and memory") {
  ww::monitor_statistics m = watched();
  m.throttled_share = 0.5;
  m.throttled_by = ww::throttle_reasons::power_cap;  // as of any GPU under full load
  m.mean.sm_clock_mhz = 1600.0;
  CHECK(found(ww::evidence{}.add(m)).empty());
  m.throttled_by = ww::throttle_reasons::hardware_thermal;
  CHECK(found(ww::evidence{}.add(m)) == only{bottleneck::throttled});
  m = watched();
  m.max.memory_used_bytes = 77e9;
  CHECK(found(ww::evidence{}.add(m)) == only{bottleneck::memory_full});

  CHECK(found(ww::evidence{}.add_rank_seconds({1.0, 1.3, 1.0})) == only{bottleneck::slow_rank});
  CHECK(found(ww::evidence{}.add_rank_seconds({1.0, 1.2})) == only{bottleneck::slow_rank});

  CHECK(found(ww::evidence{}.add(pool(4.0, 8.0, 0.1))) == only{bottleneck::fragmented});
  CHECK(found(ww::evidence{}.add(pool(0.004, 0.035, 0.001))).empty());  // a granule's rest
  CHECK(found(ww::evidence{}.add(pool(0.004, 0.045, 0.001))) == only{bottleneck::fragmented});
  CHECK(found(ww::evidence{}.add(pool(9.6, 9.7, 0.1), 10'000'000'000)) ==
        only{bottleneck::memory_full});
}

TEST_CASE("diagnose: a starved ring") {
  ww::prefetch_statistics ring;
  ring.batches = 100;
  ring.workers = 2;
  ring.seconds = 1.0;
  ring.caller_wait_seconds = 0.9;  // for slots of a full ring
  CHECK(found(ww::evidence{}.add(ring)).empty());
  ring.starved_seconds = 0.4;
  ring.source_seconds = 1.9;
  CHECK(found(ww::evidence{}.add(ring)) == only{bottleneck::data_bound});
  ring.source_seconds = 0.1;
  ring.bytes = 1000;
  ring.copy_bytes_per_second = 1000.0;
  CHECK(found(ww::evidence{}.add(ring)) == only{bottleneck::copy_bound});
  // Of one cause there is one finding.
  CHECK(found(ww::evidence{}.add(idle(&ww::trace_summary::waiting_for_host_seconds, 0.4)).add(ring))
            .size() == 1);
}

TEST_CASE("diagnose: the largest share first, memory last") {
  ww::trace_summary t = copying(0.2, 0.0, 0.4);
  t.busy_seconds = 0.6;
  t.idle_seconds = 0.4;
  t.launch_bound_seconds = 0.3;
  t.waiting_for_host_seconds = 0.1;
  CHECK(found(ww::evidence{}.add(pool(4.0, 8.0, 0.1)).add(t)) ==
        only{bottleneck::launch_bound, bottleneck::no_overlap, bottleneck::data_bound,
             bottleneck::fragmented});
}

TEST_CASE("findings are moved when they are sorted: no memory is taken where none may fail") {
  std::unique_ptr<int> values[] = {std::make_unique<int>(2), std::make_unique<int>(1)};
  ww::detail::sort(values, 2, [](auto const& a, auto const& b) { return *a < *b; });
  CHECK(*values[0] == 1);
  CHECK(*values[1] == 2);
}

TEST_CASE("diagnose: what is missing is said") {
  CHECK(ww::diagnose(ww::evidence{}).to_text().find("not judged: no trace") != std::string::npos);
  CHECK(ww::diagnose(ww::evidence{}.add(ww::trace_summary{})).gaps.size() == 2);
  ww::trace_summary t = healthy();
  t.dropped_records = 5;
  CHECK(ww::diagnose(ww::evidence{}.add(t)).gaps.size() == 1);
  ww::monitor_statistics m;
  m.unavailable = "no \"NVML\"";
  CHECK(ww::diagnose(ww::evidence{}.add(healthy()).add(m)).to_json() ==
        R"({"findings": [], "gaps": ["no \"NVML\""]})");
}

TEST_CASE("diagnose: a rank's time is positive and finite") {
  for (double const wrong : {0.0, -1.0, std::numeric_limits<double>::infinity(),
                             std::numeric_limits<double>::quiet_NaN()}) {
    CHECK_THROWS_AS(ww::evidence{}.add_rank_seconds({1.0, wrong}), std::invalid_argument);
  }
  CHECK(std::string{ww::to_string(static_cast<bottleneck>(77))} == "unknown");
}
