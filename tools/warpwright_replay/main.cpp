// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// warpwright_replay: replays allocation traces on the pool, on cudaMallocAsync and on a best-fit
// reference. docs/tools.md describes it.
#include "html.hpp"
#include "options.hpp"
#include "output.hpp"
#include "replay.hpp"
#include "trace_file.hpp"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

namespace {

void print(replay::trace const& what, replay::result const& r, bool statistics) {
  std::printf(
      "trace=%s allocator=%s ops=%llu peak_live=%llu peak_reserved=%llu ratio=%.4f ns_per_op=%.1f "
      "cuda_calls_per_op=%.4f\n",
      what.name.c_str(), r.allocator.c_str(), static_cast<unsigned long long>(r.operations),
      static_cast<unsigned long long>(r.peak_live_bytes),
      static_cast<unsigned long long>(r.peak_reserved_bytes), r.ratio(), r.ns_per_op,
      r.cuda_calls_per_op);
  if (statistics && !r.statistics.empty()) std::printf("  %s\n", r.statistics.c_str());
  replay::flush_output();
}

// @return false when the allocator failed
template <class Allocator>
bool replay_on(replay::trace const& what, replay::replay_settings const& settings,
               typename Allocator::options const& options, bool statistics,
               std::vector<replay::result>& results) {
  try {
    results.push_back(replay::replayer<Allocator>{what, settings}.run(options));
  } catch (replay::replay_error const& e) {
    std::fprintf(stderr, "error: allocator %s: %s\n", Allocator::name, e.what());
    return false;
  }
  replay::result const& r = results.back();
  print(what, r, statistics);
  for (std::string const& message : r.messages) {
    std::fprintf(stderr, "error: allocator %s: %s: %s\n", Allocator::name, what.path.c_str(),
                 message.c_str());
  }
  if (r.errors > r.messages.size()) {
    std::fprintf(stderr, "error: allocator %s: %s: %llu errors in all\n", Allocator::name,
                 what.path.c_str(), static_cast<unsigned long long>(r.errors));
  }
  return r.errors == 0;
}

int run(replay::options const& parsed) {
  // Reads all traces first, so that an invalid one is reported before minutes of replay.
  std::vector<replay::trace> traces;
  for (std::string const& file : parsed.files) {
    traces.push_back(replay::read_trace(file));
    for (std::size_t i = 0; !parsed.html.empty() && i + 1 < traces.size(); ++i) {
      if (traces[i].name == traces.back().name) {
        throw replay::usage_error{
            "--html: two traces are named \"" + traces[i].name +
            "\" and would share a page; rename one, or replay them separately"};
      }
    }
  }
  auto const page_of = [&](replay::trace const& each) {
    return replay::page_path(parsed.html, each, traces.size() == 1);
  };
  if (!parsed.html.empty()) {
    for (replay::trace const& each : traces) {
      for (replay::trace const& input : traces) {
        if (replay::same_file(page_of(each), input.path)) {
          throw replay::usage_error{"--html would overwrite the trace \"" + input.path +
                                    "\"; name another file"};
        }
      }
    }
    for (replay::trace const& each : traces) replay::check_writable(page_of(each));
  }
  bool ok = true;
  for (replay::trace const& each : traces) {
    std::vector<replay::result> results;
    if (parsed.pool) {
      ok &= replay_on<replay::pool_allocator>(each, parsed.settings, parsed.pool_options,
                                              parsed.statistics, results);
    }
    if (parsed.async)
      ok &=
          replay_on<replay::async_allocator>(each, parsed.settings, {}, parsed.statistics, results);
    if (parsed.best_fit) {
      ok &= replay_on<replay::best_fit_allocator>(each, parsed.settings, {}, parsed.statistics,
                                                  results);
    }
    if (!parsed.html.empty()) {
      replay::write_page(page_of(each), replay::page_html(each, parsed.settings, results));
    }
  }
  return ok ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
#if WARPWRIGHT_HOST_RUNTIME
  // Traces come from GPUs: the default is as much memory as the profile's board has.
  static_cast<void>(setenv("WARPWRIGHT_HOST_MEMORY_BYTES", "profile", 0));
#endif
  try {
    replay::claim_standard_descriptors();
    replay::options const parsed = replay::parse_options(argc, argv);
    if (parsed.help) {
      static_cast<void>(std::fputs(replay::usage, stdout));
      replay::flush_output();
      return 0;
    }
    return run(parsed);
  } catch (replay::usage_error const& e) {
    std::fprintf(stderr, "error: %s\n", e.what());
    return 2;
  } catch (replay::trace_error const& e) {
    std::fprintf(stderr, "error: %s\n", e.what());
    return 2;
  } catch (std::exception const& e) {
    std::fprintf(stderr, "error: %s\n", e.what());
    return 1;
  }
}
