// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Notices collectives that do not end, also in replays of captured graphs, and says which rank has
// not come to them.
//
//   ww::communicator comm{ww::rendezvous::from_environment()};
//   ww::rank_watch watch{comm, 30.0};
//   …
//   catch (ww::rank_lost const& lost)  // "rank 3 (host b, pid 812) is gone; last: #412 all_reduce
//                                      //  26214400 B; ranks 0 to 2 wait in #413 all_reduce 4096 B"
#pragma once

#include <warpwright/core/launch.hpp>
#include <warpwright/scale/communicator.hpp>
#include <warpwright/scale/detail/watch_core.hpp>

WARPWRIGHT_BEGIN

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

struct replay_mark {
  unsigned long long* counter;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t) const {
#if defined(__CUDA_ARCH__)
    atomicAdd(counter, 1ULL);
#else
    __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
#endif
  }
};

/// **A collective is under way from its call on: work of longer than the deadline before it on its
/// stream is taken for a hang.**
///
/// Watches the collectives of a communicator: when none has completed for the deadline although one
/// is under way, all ranks get rank_lost, with a report of where each of them waits.
///
/// A rank whose process ends or is stopped is noticed without it, by the communicator. It adds:
/// ranks that live and do not come, or call something else; which collectives have completed;
/// replays.
/// @pre the communicator outlives it; one at a time for each
/// **Threads:** any. **Stream:** none waits.
/// **Capture:** a collective in a capture gets a kernel before it and one behind it, which count in
/// page-locked memory: the watch outlives the graphs' replays.
/// **Cost:** an event for each collective.
template <class Mark>
class watch_of_ranks {
 public:
  /// @param deadline  s; 0: the communicator's
  /// @throws std::invalid_argument, cuda_error
  /// **Capture:** not legal.
  explicit watch_of_ranks(communicator& comm, double deadline = 0.0,
                          source_location where = source_location::current())
      : core_{core_of(comm), deadline, &mark, where} {}

  /// @return the number of the last collective that has completed with all before it, as known some
  ///   20 ms ago; of those that were not captured
  [[nodiscard]] std::uint64_t completed() const noexcept { return core_.completed(); }
  /// @return the last collectives that this rank has called, up to 4,096, the oldest first
  [[nodiscard]] std::vector<collective_record> last(std::size_t most = 4096) const {
    return core_.last(most);
  }

 private:
  static void mark(stream_ref stream, unsigned long long* counter, source_location where) {
    for_each_index(stream, 1, Mark{counter}, where);
  }
  detail::watch_core core_;
};

using rank_watch = watch_of_ranks<replay_mark>;

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE

WARPWRIGHT_END
