// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What a GPU program waits for, by rules over what was measured of it:
//
//   std::puts(ww::diagnose(ww::evidence{}.add(gpu).add(trace).add(pool.statistics()))
//                 .to_text().c_str());
#pragma once

#include <warpwright/core/error.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

WARPWRIGHT_BEGIN

class monitor;
struct monitor_statistics;
class trace;
struct trace_summary;
struct pool_statistics;
struct prefetch_statistics;

/// What holds a program up.
enum class bottleneck {
  data_bound,       ///< the GPU waits for the host, which does something else than launch
  synchronizing,    ///< the GPU waits, as the host waited for it, and only then launched on
  launch_bound,     ///< the host launches without a pause, and too slowly
  small_batch,      ///< kernels have too few blocks for the GPU
  copy_bound,       ///< copies over the link take longer than kernels
  no_overlap,       ///< copies and kernels take turns
  pageable_copies,  ///< copies from or to memory that is not page-locked
  throttled,        ///< the clocks are lowered, by heat or by the power supply
  slow_rank,        ///< one of several processes holds up the others
  memory_full,      ///< little device memory is left
  fragmented        ///< free memory of a pool is in pieces
};
/// @return the enumerator's name; "unknown" for another value
char const* to_string(bottleneck what) noexcept;

/// A bottleneck with its evidence.
struct bottleneck_finding {
  bottleneck what = bottleneck::data_bound;
  /// The part of the time that the remedy would give back, from 0 to 1: an estimate, an upper bound
  /// where others overlap with it. 0 of memory_full and fragmented, which cost no time yet.
  double time_share = 0.0;
  std::string figures;  ///< the measured evidence
  std::string remedy;
};

/// The result of diagnose().
struct diagnosis {
  std::vector<bottleneck_finding>
      findings;                   ///< the largest time_share first; empty: nothing was found
  std::vector<std::string> gaps;  ///< what could not be judged, and what is needed for it

  /// @return two lines a finding, then a line for each gap
  [[nodiscard]] std::string to_text() const;
  [[nodiscard]] std::string to_json() const;
};

/// What is known of a program. All of it is of the same loop, at the same time.
///
/// **Threads:** of one thread at a time. **Stream, capture:** none, legal; but a trace is ended.
class evidence {
 public:
  /// Figures at this time of a GPU; several monitors: of several.
  /// @throws std::bad_alloc, as all members
  evidence& add(monitor const& of);
  evidence& add(monitor_statistics const& of);
  /// Ends the trace's recording.
  evidence& add(trace& of);
  evidence& add(trace_summary const& of);
  /// @param max_bytes  the pool's limit; 0: none, or not known
  template <class Statistics,
            std::enable_if_t<std::is_same<Statistics, pool_statistics>::value, int> = 0>
  evidence& add(Statistics const& of, std::size_t max_bytes = 0) {
    std::size_t const used = of.live_bytes + of.graph_bytes;
    return add_pool(used, of.cached_bytes, of.reserved_bytes, of.largest_free_block_bytes,
                    max_bytes);
  }
  template <class Statistics,
            std::enable_if_t<std::is_same<Statistics, prefetch_statistics>::value, int> = 0>
  evidence& add(Statistics const& of) {
    return of.batches < 2
               ? *this
               : add_ring(of.starved_share(), of.source_share(), of.copy_share(), of.workers);
  }
  /// Mean seconds of a step without waiting for others, by rank: those of processes, or GPUs.
  /// @throws std::invalid_argument  for a time that is not positive and finite
  evidence& add_rank_seconds(std::vector<double> const& seconds,
                             source_location where = source_location::current());

 private:
  friend diagnosis diagnose(evidence const& known);

  evidence& add_pool(std::size_t used, std::size_t cached, std::size_t reserved,
                     std::size_t largest_free, std::size_t limit);
  evidence& add_ring(double waiting, double source, double copying, unsigned workers);

  std::vector<bottleneck_finding> findings_;
  std::vector<bottleneck_finding> untraced_;  // of what a trace tells better, if there is one
  std::vector<std::string> gaps_;
  bool traced_ = false;
};

/// Judges the evidence. Its rules report what would give back at least 5 % of the time, of copies
/// 10 %, of launches 20 %, of multiprocessors without work 30 %; and memory that is nearly used up.
/// @throws std::bad_alloc
/// **Cost:** microseconds.
diagnosis diagnose(evidence const& known);

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/observe/detail/diagnose_definitions.hpp>
#endif
