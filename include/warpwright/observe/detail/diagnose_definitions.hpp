// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The rules of diagnose(). Shares are of the time of all devices, from 0 to 1.
#pragma once

#include <warpwright/core/detail/container/sort.hpp>
#include <warpwright/core/detail/text/figures.hpp>
#include <warpwright/core/detail/text/markup.hpp>
#include <warpwright/observe/diagnose.hpp>
#include <warpwright/observe/monitor.hpp>
#include <warpwright/observe/trace.hpp>

WARPWRIGHT_BEGIN_DEFINITIONS

namespace detail {

// Of a loop of small steps the host reacts to the end of one within this time.
inline constexpr double quick_reaction_seconds = 100e-6;
inline constexpr double least_time_share = 0.05;
inline constexpr double least_exposed_copying = 0.1;
// A trace makes launches slower, those of graphs of small kernels three times as slow.
inline constexpr double least_launch_bound = 0.2;
inline constexpr double least_of_graphs = 0.5;
// A pool takes memory in granules: the rest of a few is no fault.
inline constexpr std::size_t least_free_in_pieces = std::size_t{32} << 20U;

struct bottleneck_row {
  char const* name;
  char const* remedy;
};

// In the order of the enumeration.
WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE bottleneck_row bottleneck_at(bottleneck what) noexcept {
  constexpr bottleneck_row rows[] = {
      {"data-bound",
       "prepare input on other threads while the GPU works (prefetcher), by more workers "
       "(prefetch_options::workers()) or from a cheaper source; the trace's spans show what the "
       "host did"},
      {"synchronizing",
       "synchronize once behind the loop; read results one step later, from page-locked memory "
       "(pinned_buffer, result_collector); allocate from a memory_pool"},
      {"launch-bound",
       "replay the step as a graph (graph_replay, graph_cache); fuse elementwise kernels (run()); "
       "enlarge the batch (batch_tuner)"},
      {"small batch",
       "enlarge the batch (batch_tuner), or run independent work on other streams (fork_join)"},
      {"copy-bound",
       "keep data on the GPU between steps, copy a smaller type and convert it there, and overlap "
       "the rest (prefetcher)"},
      {"no overlap",
       "copy the next batch on another stream while kernels run (prefetcher, result_collector)"},
      {"pageable copies", "copy from page-locked memory (pinned_buffer), or through it (staging)"},
      {"throttled", "look after cooling and power; nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER"},
      {"slow rank", "compare its clocks and its input with the others'; all wait for it"},
      {"memory nearly full",
       "set or raise the pool's limit (memory_pool_options::max_bytes()), lower the batch, or see "
       "who else uses the GPU (monitor_options::processes())"},
      {"fragmented",
       "allocate what lives long first, or from a pool of its own; let the pool map memory "
       "(memory_source::virtual_memory)"}};
  auto const i = static_cast<std::size_t>(what);
  return i < sizeof rows / sizeof rows[0] ? rows[i] : bottleneck_row{"unknown", ""};
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE void report(std::vector<bottleneck_finding>& to,
                                                    bottleneck what, double share,
                                                    std::string figures) {
  to.push_back({what, share, std::move(figures), bottleneck_at(what).remedy});
}
inline std::string percent(double share) { return format_percent(share); }
inline std::string bytes(std::size_t n) { return format_bytes(static_cast<double>(n)); }
inline gpu_sample::figure ratio(gpu_sample::figure const& part, gpu_sample::figure const& all) {
  return part && all && *all > 0.0 ? gpu_sample::figure{*part / *all} : std::nullopt;
}

}  // namespace detail

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE char const* to_string(bottleneck what) noexcept {
  return detail::bottleneck_at(what).name;
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE evidence& evidence::add(monitor const& of) {
  return add(of.statistics());
}
WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE evidence& evidence::add(monitor_statistics const& of) {
  using detail::percent;
  if (!of.unavailable.empty()) gaps_.push_back(of.unavailable);
  // Absent figures are below every limit.
  gpu_sample const& mean = of.mean;
  if (mean.utilization.value_or(0.0) >= 0.8 && mean.sm_activity.value_or(1.0) < 0.3) {
    detail::report(untraced_, bottleneck::small_batch, 1.0 - *mean.sm_activity,
                   "a kernel ran for " + percent(*mean.utilization) + " of the time, but on " +
                       percent(*mean.sm_activity) + " of the multiprocessors");
  }
  // A GPU under full load is held at its power limit: that alone is no fault.
  constexpr throttle_reasons serious =
      throttle_reasons::hardware_slowdown | throttle_reasons::thermal_slowdown |
      throttle_reasons::hardware_thermal | throttle_reasons::hardware_power_brake;
  throttle_reasons const by = of.throttled_by.value_or(throttle_reasons::none);
  double const lost = 1.0 - detail::ratio(mean.sm_clock_mhz, of.max.sm_clock_mhz).value_or(1.0);
  if (of.throttled_share.value_or(0.0) >= 0.1 &&
      ((by & serious) != throttle_reasons::none || lost > 0.3)) {
    detail::report(findings_, bottleneck::throttled,
                   lost > detail::least_time_share ? lost : detail::least_time_share,
                   "the clocks were lowered in " + percent(*of.throttled_share) +
                       " of the samples: " + to_string(by) + "; " + percent(lost) +
                       " below the highest seen");
  }
  auto const used = detail::ratio(of.max.memory_used_bytes, of.last.memory_total_bytes);
  if (used.value_or(0.0) >= 0.95) {
    detail::report(findings_, bottleneck::memory_full, 0.0,
                   percent(*used) + " of the device's memory was used, of all processes");
  }
  return *this;
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE evidence& evidence::add(trace& of) {
  if (!of.unavailable().empty()) gaps_.push_back(of.unavailable());
  return add(of.summary());
}
WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE evidence& evidence::add(trace_summary const& of) {
  using detail::percent;
  if (of.dropped_records > 0) {
    gaps_.push_back("the trace dropped " + detail::counted(of.dropped_records, "record") +
                    ": record fewer steps, or raise trace_options::buffer_bytes()");
  }
  if (of.busy_seconds + of.idle_seconds <= 0.0) {
    gaps_.push_back("the trace has no work of a GPU: let its schedule record steps that have some");
    return *this;
  }
  if (of.unexplained_seconds > of.waiting_for_host_seconds + of.launch_bound_seconds) {
    gaps_.push_back("the trace does not tell why the GPU was idle: turn runtime_calls() on");
  }
  traced_ = true;
  std::string const in = " of " + detail::counted(of.steps, "step").str();
  double const waiting = of.share(of.waiting_for_host_seconds);
  if (waiting >= detail::least_time_share) {
    std::string idle = "the GPU was idle for " + percent(waiting) + in + " with nothing enqueued";
    auto const calls = static_cast<double>(of.synchronizing_calls);
    double allocating = 0.0;
    for (call_total const& call : of.calls) {
      auto const has = [&](char const* part) { return call.name.find(part) != std::string::npos; };
      if ((has("Malloc") || has("Free")) && !has("Async")) allocating += call.seconds;
    }
    bool const allocates = allocating > 0.5 * of.waiting_for_host_seconds;
    bool const quick =
        allocates || of.waiting_for_host_seconds < detail::quick_reaction_seconds * calls;
    if (allocates) {
      idle += "; the host was in cudaMalloc and cudaFree for " +
              detail::format_seconds(allocating).str();
    } else if (quick) {
      idle += ", " + detail::format_seconds(of.waiting_for_host_seconds / calls).str() +
              " behind each of " +
              detail::counted(of.synchronizing_calls, "synchronizing call").str();
    }
    detail::report(findings_, quick ? bottleneck::synchronizing : bottleneck::data_bound, waiting,
                   idle);
  }
  std::size_t launches = 0;
  for (call_total const& call : of.calls) {
    if (call.name.find("Launch") != std::string::npos) launches += call.calls;
  }
  bool const by_graphs =
      of.kernels >= 8 * launches && launches > 0;  // most kernels are their nodes
  double const launch_bound = of.share(of.launch_bound_seconds);
  if (launch_bound >= (by_graphs ? detail::least_of_graphs : detail::least_launch_bound)) {
    detail::report(findings_, bottleneck::launch_bound, launch_bound,
                   "the GPU was idle for " + percent(launch_bound) + in +
                       " while the host made one launch after another, " +
                       std::to_string(launches) + " launches in all");
  }
  double const unfilled = of.share(of.unfilled_seconds);
  if (unfilled >= 0.3) {
    detail::report(findings_, bottleneck::small_batch, unfilled,
                   percent(unfilled) + in +
                       " is time of multiprocessors without a block of the kernel that ran");
  }
  double const exposed = of.share(of.copy_seconds - of.overlapped_copy_seconds);
  if (exposed >= detail::least_exposed_copying) {
    std::string const copies = "copies took " + percent(of.share(of.copy_seconds)) + in + ", " +
                               percent(exposed) + " while no kernel ran; kernels ran for " +
                               percent(of.share(of.kernel_seconds)) + ", pageable memory took " +
                               percent(of.share(of.pageable.seconds));
    bool const pageable = of.pageable.seconds > 0.5 * of.copy_seconds;
    detail::report(findings_,
                   pageable                              ? bottleneck::pageable_copies
                   : of.copy_seconds > of.kernel_seconds ? bottleneck::copy_bound
                                                         : bottleneck::no_overlap,
                   exposed, copies);
  }
  return *this;
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE evidence& evidence::add_pool(std::size_t used,
                                                                     std::size_t cached,
                                                                     std::size_t reserved,
                                                                     std::size_t largest_free,
                                                                     std::size_t limit) {
  auto const part = [](std::size_t of, double share) { return share * static_cast<double>(of); };
  if (limit > 0 && part(used, 1.0) >= part(limit, 0.95)) {
    detail::report(
        findings_, bottleneck::memory_full, 0.0,
        detail::bytes(used) + " of the pool's limit of " + detail::bytes(limit) + " are in use");
  }
  std::size_t const free = reserved > used + cached ? reserved - used - cached : 0;
  if (free >= detail::least_free_in_pieces && part(free, 1.0) >= part(reserved, 0.3) &&
      part(largest_free, 1.0) < part(free, 0.25)) {
    detail::report(findings_, bottleneck::fragmented, 0.0,
                   detail::bytes(free) + " of " + detail::bytes(reserved) +
                       " are free, the largest block is " + detail::bytes(largest_free));
  }
  return *this;
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE evidence& evidence::add_ring(double waiting, double source,
                                                                     double copying,
                                                                     unsigned workers) {
  if (waiting < 0.1) return *this;
  detail::report(
      untraced_, copying > source ? bottleneck::copy_bound : bottleneck::data_bound, waiting,
      "the loop's stream lacked a batch for " + detail::percent(waiting) + " of the time; its " +
          detail::counted(workers, "worker").str() + " spent " + detail::percent(source) +
          " in the source, the link copied " + detail::percent(copying));
  return *this;
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE evidence& evidence::add_rank_seconds(
    std::vector<double> const& seconds, source_location where) {
  for (double const each : seconds) {
    if (each > 0.0 && each <= 1e9) continue;
    detail::throw_invalid_argument(detail::text{"add_rank_seconds: "} + each +
                                       " s is no time of a step; it is more than 0, at most 1e9",
                                   where);
  }
  if (seconds.empty()) return *this;
  std::vector<double> sorted = seconds;
  detail::sort(sorted.data(), sorted.size());
  double const slowest = sorted.back();
  double const usual = sorted[(sorted.size() - 1) / 2];
  if (slowest < 1.1 * usual) return *this;
  std::size_t rank = 0;
  while (seconds[rank] != slowest) ++rank;
  detail::report(findings_, bottleneck::slow_rank, 1.0 - usual / slowest,
                 "rank " + std::to_string(rank) + " takes " +
                     detail::format_seconds(slowest).str() + " a step, the median rank " +
                     detail::format_seconds(usual).str());
  return *this;
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE diagnosis diagnose(evidence const& known) {
  diagnosis result;
  result.findings = known.findings_;
  result.gaps = known.gaps_;
  if (!known.traced_) {
    for (bottleneck_finding const& each : known.untraced_) result.findings.push_back(each);
    result.gaps.push_back("no trace: why the GPU is idle, copies and launches were not judged");
  }
  detail::sort(result.findings.data(), result.findings.size(),
               [](bottleneck_finding const& a, bottleneck_finding const& b) {
                 return a.time_share > b.time_share;
               });
  return result;
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE std::string diagnosis::to_text() const {
  detail::string_builder text;
  if (findings.empty()) text += "no bottleneck found\n";
  for (bottleneck_finding const& each : findings) {
    text += detail::string_builder{to_string(each.what)} +
            (each.time_share > 0.0 ? " (up to " + detail::percent(each.time_share) + ")" : "") +
            ": " + each.figures + "\n  remedy: " + each.remedy + "\n";
  }
  for (std::string const& gap : gaps) text += "not judged: " + gap + "\n";
  return text;
}
WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE std::string diagnosis::to_json() const {
  detail::string_builder text = "{\"findings\": [";
  for (bottleneck_finding const& each : findings) {
    text += detail::string_builder{&each == findings.data() ? "" : ", "} +
            "{\"what\": " + detail::json_text(to_string(each.what)) +
            ", \"time_share\": " + detail::json_number(each.time_share, "%.6g") +
            ", \"figures\": " + detail::json_text(each.figures) +
            ", \"remedy\": " + detail::json_text(each.remedy) + "}";
  }
  text += "], \"gaps\": [";
  for (std::string const& gap : gaps) {
    text += detail::string_builder{&gap == gaps.data() ? "" : ", "} + detail::json_text(gap);
  }
  return text + "]}";
}

WARPWRIGHT_END_DEFINITIONS
