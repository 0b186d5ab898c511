// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The rules of diagnose(). Shares are of the time of all devices, from 0 to 1.
#pragma once

#include <warpwright/core/detail/sort.hpp>
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

inline double figure_or_absent(gpu_sample::figure const& figure) { return figure ? *figure : -1.0; }
inline double ratio_or_absent(gpu_sample::figure const& part, gpu_sample::figure const& all) {
  return part && all && *all > 0.0 ? *part / *all : -1.0;
}
inline std::string percent(double share) { return format_percent(share); }

}  // namespace detail

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE char const* to_string(bottleneck what) noexcept {
  constexpr char const* names[] = {"data-bound",         "synchronizing", "launch-bound",
                                   "small batch",        "copy-bound",    "no overlap",
                                   "pageable copies",    "throttled",     "slow rank",
                                   "memory nearly full", "fragmented"};
  return detail::enum_name(names, what);
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE evidence& evidence::add(monitor const& of) {
  return add(of.statistics());
}
WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE evidence& evidence::add(monitor_statistics const& of) {
  if (!of.unavailable.empty()) gaps_.push_back(of.unavailable);
  if (of.samples == 0) return *this;
  gpu known{};
  known.busy = detail::figure_or_absent(of.mean.utilization);
  known.sm_activity = detail::figure_or_absent(of.mean.sm_activity);
  known.memory_share =
      detail::ratio_or_absent(of.max.memory_used_bytes, of.last.memory_total_bytes);
  known.throttled_share = of.throttled_share ? *of.throttled_share : -1.0;
  known.clock_share = detail::ratio_or_absent(of.mean.sm_clock_mhz, of.max.sm_clock_mhz);
  if (of.throttled_by) {
    // A GPU under full load is held at its power limit: that alone is no fault.
    auto const serious =
        *of.throttled_by &
        (throttle_reasons::hardware_slowdown | throttle_reasons::thermal_slowdown |
         throttle_reasons::hardware_thermal | throttle_reasons::hardware_power_brake);
    bool const slow = known.clock_share >= 0.0 && known.clock_share < 0.7;
    if (serious != throttle_reasons::none || slow) known.throttled_by = to_string(*of.throttled_by);
  }
  gpus_.push_back(known);
  return *this;
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE evidence& evidence::add(trace& of) {
  if (!of.unavailable().empty()) gaps_.push_back(of.unavailable());
  return add(of.summary());
}
WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE evidence& evidence::add(trace_summary const& of) {
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
  loop known{};
  known.steps = detail::counted(of.steps, "step");
  known.waiting = of.share(of.waiting_for_host_seconds);
  known.launch_bound = of.share(of.launch_bound_seconds);
  known.unfilled = of.share(of.unfilled_seconds);
  known.copying = of.share(of.copy_seconds);
  known.exposed_copying = of.share(of.copy_seconds - of.overlapped_copy_seconds);
  known.pageable = of.share(of.pageable.seconds);
  known.kernels = of.share(of.kernel_seconds);
  for (call_total const& call : of.calls) {
    if (call.name.find("Launch") != std::string::npos) known.launches += call.calls;
  }
  known.by_graphs = of.kernels >= 8 * known.launches && known.launches > 0;
  known.synchronizing = of.synchronizing_calls;
  if (known.synchronizing > 0) {
    known.gap_seconds = of.waiting_for_host_seconds / static_cast<double>(known.synchronizing);
  }
  loops_.push_back(known);
  return *this;
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE evidence& evidence::add_pool(pool const& known) {
  pools_.push_back(known);
  return *this;
}
WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE evidence& evidence::add_ring(ring const& known) {
  rings_.push_back(known);
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
  rank_seconds_ = seconds;
  return *this;
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE diagnosis diagnose(evidence const& known) {
  using detail::format_seconds;
  using detail::least_time_share;
  using detail::percent;
  diagnosis result;
  result.gaps = known.gaps_;
  auto const report = [&](bottleneck what, double share, std::string figures, char const* remedy) {
    result.findings.push_back({what, share, std::move(figures), remedy});
  };
  bool data_bound = false;

  for (evidence::loop const& l : known.loops_) {
    std::string const in = " of " + l.steps;
    if (l.waiting >= least_time_share) {
      std::string const idle =
          "the GPU was idle for " + percent(l.waiting) + in + " with nothing enqueued";
      if (l.gap_seconds > 0.0 && l.gap_seconds < detail::quick_reaction_seconds) {
        report(bottleneck::synchronizing, l.waiting,
               idle + ", " + format_seconds(l.gap_seconds) + " behind each of " +
                   detail::counted(l.synchronizing, "synchronizing call"),
               "synchronize once behind the loop; read results one step later, from page-locked "
               "memory (pinned_buffer, result_collector)");
      } else {
        data_bound = true;
        report(bottleneck::data_bound, l.waiting, idle,
               "prepare input on other threads while the GPU works (prefetcher); the trace's spans "
               "show what the host did");
      }
    }
    if (l.launch_bound >= (l.by_graphs ? detail::least_of_graphs : detail::least_launch_bound)) {
      report(bottleneck::launch_bound, l.launch_bound,
             "the GPU was idle for " + percent(l.launch_bound) + in +
                 " while the host made one launch after another, " + std::to_string(l.launches) +
                 " launches in all",
             "replay the step as a graph (graph_replay, graph_cache); fuse elementwise kernels "
             "(run()); enlarge the batch (batch_tuner)");
    }
    if (l.unfilled >= 0.3) {
      report(bottleneck::small_batch, l.unfilled,
             percent(l.unfilled) + in +
                 " is time of multiprocessors without a block of the kernel "
                 "that ran",
             "enlarge the batch (batch_tuner), or run independent work on other streams "
             "(fork_join)");
    }
    if (l.exposed_copying >= detail::least_exposed_copying) {
      std::string const copies = "copies took " + percent(l.copying) + in + ", " +
                                 percent(l.exposed_copying) + " while no kernel ran";
      if (l.pageable > 0.5 * l.copying) {
        report(bottleneck::pageable_copies, l.exposed_copying,
               copies + "; " + percent(l.pageable) + " with pageable memory",
               "copy from page-locked memory (pinned_buffer), or through it (staging)");
      } else if (l.copying > l.kernels) {
        report(bottleneck::copy_bound, l.exposed_copying,
               copies + "; kernels ran for " + percent(l.kernels),
               "keep data on the GPU between steps, copy a smaller type and convert it there, and "
               "overlap the rest (prefetcher)");
      } else {
        report(bottleneck::no_overlap, l.exposed_copying, copies,
               "copy the next batch on another stream while kernels run (prefetcher, "
               "result_collector)");
      }
    }
  }

  for (evidence::ring const& r : known.rings_) {
    if (r.waiting < 0.1 || data_bound) continue;
    std::string const waited = "the loop waited for batches " + percent(r.waiting) +
                               " of the time; its " + detail::counted(r.workers, "worker") +
                               " spent " + percent(r.source) + " in the source, the link copied " +
                               percent(r.copying);
    if (r.copying > r.source) {
      report(bottleneck::copy_bound, r.waiting, waited,
             "copy a smaller type, and convert it on the GPU");
    } else {
      report(bottleneck::data_bound, r.waiting, waited,
             "more workers (prefetch_options::workers()), or a cheaper source");
    }
  }

  for (evidence::gpu const& g : known.gpus_) {
    if (known.loops_.empty() && g.busy >= 0.8 && g.sm_activity >= 0.0 && g.sm_activity < 0.3) {
      report(bottleneck::small_batch, 1.0 - g.sm_activity,
             "a kernel ran for " + percent(g.busy) + " of the time, but on " +
                 percent(g.sm_activity) + " of the multiprocessors",
             "enlarge the batch (batch_tuner), or run independent work on other streams "
             "(fork_join)");
    }
    if (g.throttled_share >= 0.1 && !g.throttled_by.empty()) {
      double const lost = g.clock_share >= 0.0 ? 1.0 - g.clock_share : 0.0;
      report(bottleneck::throttled, lost > least_time_share ? lost : least_time_share,
             "the clocks were lowered in " + percent(g.throttled_share) +
                 " of the samples: " + g.throttled_by +
                 (lost > 0.0 ? "; " + percent(lost) + " below the highest seen" : ""),
             "look after cooling and power; nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER");
    }
    if (g.memory_share >= 0.95) {
      report(bottleneck::memory_full, 0.0,
             percent(g.memory_share) + " of the device's memory was used, of all processes",
             "limit the pool (memory_pool_options::max_bytes()), lower the batch, or see who else "
             "uses it (monitor_options::processes())");
    }
  }

  if (known.rank_seconds_.size() > 1) {
    std::vector<double> sorted = known.rank_seconds_;
    detail::sort(sorted.data(), sorted.size());
    double const slowest = sorted.back();
    double const usual = sorted[(sorted.size() - 1) / 2];
    if (slowest >= 1.1 * usual) {
      std::size_t rank = 0;
      while (known.rank_seconds_[rank] != slowest) ++rank;
      report(bottleneck::slow_rank, 1.0 - usual / slowest,
             "rank " + std::to_string(rank) + " takes " + format_seconds(slowest) +
                 " a step, the median rank " + format_seconds(usual),
             "compare its clocks and its input with the others'; all wait for it");
    }
  }

  for (evidence::pool const& p : known.pools_) {
    if (p.limit > 0.0 && p.live >= 0.95 * p.limit) {
      report(bottleneck::memory_full, 0.0,
             detail::format_bytes<std::string>(p.live) + " of the pool's limit of " +
                 detail::format_bytes<std::string>(p.limit) + " are in use",
             "raise max_bytes(), or lower the batch");
    }
    if (p.free >= 0.3 * p.reserved && p.reserved > 0.0 && p.largest_free < 0.25 * p.free) {
      report(bottleneck::fragmented, 0.0,
             detail::format_bytes<std::string>(p.free) + " of " +
                 detail::format_bytes<std::string>(p.reserved) +
                 " are free, the largest block is " +
                 detail::format_bytes<std::string>(p.largest_free),
             "allocate what lives long first, or from a pool of its own; let the pool map memory "
             "(memory_source::virtual_memory)");
    }
  }

  if (known.loops_.empty()) {
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
