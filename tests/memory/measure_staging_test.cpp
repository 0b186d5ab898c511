// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include "tools/measure_staging/measure_staging.hpp"
#include "memory/staging_support.hpp"
#include "memory/support.hpp"
#include "support/catch.hpp"
#include "support/device_memory.hpp"
#include "support/sanitized.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>
#endif

namespace ww = warpwright;
using namespace test_support;
using times_type = measure_staging::staging_times;
using settings_type = measure_staging::staging_settings;

namespace {

ww::staging_options few_bytes() { return ww::staging_options{}.threads(3).slot_bytes(256 * kib); }

// What a staging object does with a copy: the time of its number of threads.
double time_of(times_type const& times, times_type::row const& row, settings_type const& s) {
  if (row.bytes <= s.direct_bytes) return row.alone;
  if (s.threads == 1) return row.by_cuda;
  unsigned helpers = 0;
  while (helpers + 1 < s.threads && helpers < 1 + row.bytes / s.bytes_per_helper) ++helpers;
  double slower = 0;  // of the neighbours where this number was not measured
  for (unsigned c = 0; c < times.columns; ++c) {
    bool const below = times.threads[c] < helpers + 1;
    bool const next_is_above = c + 1 < times.columns && times.threads[c + 1] > helpers + 1;
    bool const above = times.threads[c] > helpers + 1;
    bool const before_is_below = c > 0 && times.threads[c - 1] < helpers + 1;
    if (times.threads[c] == helpers + 1) return row.helped[c];
    if ((below && next_is_above) || (above && before_is_below)) {
      slower = std::max(slower, row.helped[c]);
    }
  }
  return slower;
}

double cost_of(times_type const& times, settings_type const& s) {
  double sum = 0;
  for (unsigned r = 0; r < times.rows; ++r) {
    times_type::row const& row = times.row_of[r];
    double fastest = std::min(row.alone, row.by_cuda);
    for (unsigned c = 0; c < times.columns; ++c) fastest = std::min(fastest, row.helped[c]);
    sum += time_of(times, row, s) / fastest;
  }
  return sum;
}

std::vector<settings_type> all_settings(times_type const& times) {
  std::vector<settings_type> all;
  for (unsigned c = 0; c <= times.columns; ++c) {
    for (unsigned r = 0; r <= times.rows; ++r) {
      for (std::size_t helper = 64 * kib; helper <= 16 * mib; helper *= 2) {
        settings_type s;
        s.threads = c == 0 ? 1 : times.threads[c - 1];
        s.direct_bytes = r == 0 ? times.row_of[0].bytes / 2 : times.row_of[r - 1].bytes;
        s.bytes_per_helper = helper;
        all.push_back(s);
      }
    }
  }
  return all;
}

// Fewer threads first, then the larger sizes.
bool is_preferred(settings_type const& a, settings_type const& b) {
  return std::make_tuple(a.threads, ~a.direct_bytes, ~a.bytes_per_helper) <
         std::make_tuple(b.threads, ~b.direct_bytes, ~b.bytes_per_helper);
}

times_type made_up(std::mt19937& random) {
  times_type times;
  unsigned const most = std::uniform_int_distribution<unsigned>{1, 20}(random);
  for (unsigned n = 2; most > 1; n *= 2) {
    times.threads[times.columns++] = std::min(n, most);
    if (n >= most) break;
  }
  std::uniform_real_distribution<double> uniform{0.8, 1.25};
  bool const noise = random() % 4 == 0;  // else a machine with a bandwidth and the time of a call
  double const wake = std::exp(std::uniform_real_distribution<double>{1.0, 12.0}(random));
  double const most_useful = std::uniform_real_distribution<double>{1.0, 20.0}(random);
  double const of_cuda = uniform(random);
  std::size_t bytes = 256 * kib;
  for (times.rows = 0; times.rows < times_type::most_rows; ++times.rows) {
    times_type::row& row = times.row_of[times.rows];
    row.bytes = bytes;
    if (times.rows % 2 == 1) bytes *= 4;
    double const one = static_cast<double>(row.bytes) / 12.0;
    row.alone = noise ? uniform(random) : one * uniform(random);
    row.by_cuda = noise ? uniform(random) : one * of_cuda;
    for (unsigned c = 0; c < times.columns; ++c) {
      double const faster = std::min(static_cast<double>(times.threads[c]), most_useful);
      row.helped[c] = noise ? uniform(random) : one / faster * uniform(random) + wake;
    }
  }
  return times;
}

}  // namespace

TEST_CASE("the settings are those with the least time, of equal ones those with fewer threads") {
  std::mt19937 random{20261126};
  for (int i = 0; i < 4000; ++i) {
    CAPTURE(i);
    times_type const times = made_up(random);
    settings_type const chosen = measure_staging::choose_staging(times);
    std::vector<settings_type> const all = all_settings(times);
    double least = cost_of(times, all.front());
    for (settings_type const& each : all) least = std::min(least, cost_of(times, each));
    settings_type const* expected = nullptr;
    for (settings_type const& each : all) {
      if (cost_of(times, each) > 1.02 * least) continue;
      if (expected == nullptr || is_preferred(each, *expected)) expected = &each;
    }
    bool const right = chosen.threads == expected->threads &&
                       chosen.direct_bytes == expected->direct_bytes &&
                       chosen.bytes_per_helper == expected->bytes_per_helper;
    if (right) continue;  // thousands of assertions take seconds
    CAPTURE(chosen.threads, chosen.direct_bytes, chosen.bytes_per_helper);
    CAPTURE(expected->threads, expected->direct_bytes, expected->bytes_per_helper);
    CHECK(right);
  }
}

TEST_CASE("plain cases: helpers that help from a size on, or never") {
  times_type times;
  times.columns = 3;
  times.threads[0] = 2, times.threads[1] = 4, times.threads[2] = 8;
  for (std::size_t const bytes : {256 * kib, mib, 4 * mib, 16 * mib}) {
    times_type::row& row = times.row_of[times.rows++];
    row.bytes = bytes;
    double const one = static_cast<double>(bytes) / 1000.0;
    row.alone = one;
    row.by_cuda = 1.2 * one;
    for (unsigned c = 0; c < 3; ++c) row.helped[c] = one / times.threads[c] + 1500.0;
  }
  settings_type const helped = measure_staging::choose_staging(times);
  CHECK(helped.threads == 8);
  CHECK(helped.direct_bytes == mib);
  CHECK(helped.bytes_per_helper == 512 * kib);  // 8 threads at 4 MiB, with the largest step
  for (unsigned r = 0; r < times.rows; ++r) {
    for (double& time : times.row_of[r].helped) time = 2 * times.row_of[r].alone;
  }
  settings_type const alone = measure_staging::choose_staging(times);
  CHECK(alone.threads == 1);
  CHECK(alone.direct_bytes == 16 * mib);
  times.columns = 0;
  for (unsigned r = 0; r < times.rows; ++r) times.row_of[r].by_cuda = 0.5 * times.row_of[r].alone;
  settings_type const by_cuda = measure_staging::choose_staging(times);
  CHECK(by_cuda.threads == 1);
  CHECK(by_cuda.direct_bytes == 128 * kib);
}

TEST_CASE("what is measured are options that a staging object takes") {
  ww::pinned_pool pinned;
  for (unsigned const threads : {1U, 3U}) {
    ww::staging_options const base = few_bytes().threads(threads);
    ww::staging_options const measured = measure_staging::measure(pinned, base);
    CHECK(measured.threads() >= 1);
    CHECK(measured.threads() <= threads);
    CHECK(measured.direct_bytes() >= 128 * kib);
    CHECK(measured.direct_bytes() <= 16 * mib);
    CHECK(measured.bytes_per_helper() >= 64 * kib);
    CHECK(measured.bytes_per_helper() <= 16 * mib);
    CHECK(pinned.statistics().live_bytes == 0);
    ww::staging staging{pinned, measured};
    CHECK(staging.threads() == measured.threads());
    ww::stream s;
    bytes_vector const source = pattern(3 * mib, 1);
    device_array<unsigned char> memory(source.size());
    staging.copy_to_device(s, memory.data(), source.data(), source.size());
    CHECK(memory.fetch(s) == source);
  }
  CHECK(cudaPeekAtLastError() == cudaSuccess);
}

TEST_CASE("options out of range, and memory that does not suffice, throw") {
  ww::pinned_pool pinned;
  using options = ww::staging_options;
  CHECK_THROWS_WITH(measure_staging::measure(pinned, options{}.threads(257)),
                    contains("257 threads"));
  CHECK_THROWS_WITH(measure_staging::measure(pinned, options{}.slot_bytes(100)),
                    contains("100 bytes"));
  CHECK_THROWS_WITH(measure_staging::measure(pinned, options{}.bytes_per_helper(4095)),
                    contains("one more for each 4095 bytes"));
  ww::pinned_pool tiny{ww::pinned_pool_options{}.maximum_bytes(mib)};
  CHECK_THROWS_AS(measure_staging::measure(tiny, options{}.threads(2)), ww::out_of_memory);
  CHECK(tiny.statistics().live_bytes == 0);
}

TEST_CASE("a capture of the thread stays valid") {
  ww::pinned_pool pinned;
  ww::stream s;
  ww::check(cudaStreamBeginCapture(s.get(), cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
  CHECK_NOTHROW(measure_staging::measure(pinned, few_bytes().threads(1)));
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(s.get(), &graph) == cudaSuccess);
  ww::detail::discard(cudaGraphDestroy(graph));
}

#if WARPWRIGHT_HOST_RUNTIME
namespace wt = ww::testing;

TEST_CASE("each failing call reaches the caller, and nothing leaks") {
  wt::reset_host_runtime();
  {
    ww::pinned_pool pinned;
    wt::reset_call_counts();
    static_cast<void>(measure_staging::measure(pinned, few_bytes().threads(2)));
  }
  std::vector<wt::call_record> const calls = wt::calls();
  std::set<std::string> failed;
  for (wt::call_record const& call : calls) {
    for (std::uint64_t nth = 1; nth <= call.count;
         nth = nth < (sanitized ? 2 : 3) ? nth + 1 : nth * 5) {
      CAPTURE(call.name, nth);
      wt::reset_host_runtime();
      {
        ww::pinned_pool pinned;
        wt::scoped_fault_plan const plan{
            wt::fault_plan{}.fail(call.name, nth, cudaErrorMemoryAllocation)};
        try {
          static_cast<void>(measure_staging::measure(pinned, few_bytes().threads(2)));
        } catch (ww::cuda_error const& error) {
          failed.insert(call.name);
          CHECK(error.code() == cudaErrorMemoryAllocation);
        } catch (ww::out_of_memory const&) {
          failed.insert(call.name);
        }
        CHECK(cudaPeekAtLastError() == cudaSuccess);
        // An event that a copy could not be waited for with keeps its slot.
        if (call.name != "cudaEventSynchronize") CHECK(pinned.statistics().live_bytes == 0);
      }
      if (call.name != "cudaEventDestroy" && call.name != "cudaStreamDestroy" &&
          call.name != "cudaFree" && call.name != "cudaFreeHost") {
        CHECK(wt::leak_report().empty());
      }
    }
  }
  for (char const* call : {"cudaMalloc", "cudaMemcpyAsync", "cudaMemsetAsync",
                           "cudaStreamSynchronize", "cudaStreamCreateWithPriority"}) {
    CAPTURE(call);
    CHECK(failed.count(call) == 1);
  }
  wt::reset_host_runtime();
}
#endif
