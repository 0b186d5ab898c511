// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/capture/capture_guard.hpp>
#include <warpwright/stream/stream_pool.hpp>

WARPWRIGHT_BEGIN

namespace detail {

WARPWRIGHT_COLD inline unsigned checked_stream_maximum(unsigned initial, unsigned maximum,
                                                       source_location where) {
  if (maximum == 0 || maximum > stream_set::most_streams) {
    throw_invalid_argument(text{"stream_pool: a size of "} + maximum + ", it must be 1 to " +
                               stream_set::most_streams +
                               ": give it to the constructor or stream_pool_options::max_streams()",
                           where);
  }
  if (initial > maximum) {
    throw_invalid_argument(text{"stream_pool: "} + initial +
                               " initial streams, above the maximum of " + maximum +
                               ": raise stream_pool_options::max_streams()",
                           where);
  }
  return maximum;
}

/// Where nothing else orders the parent's later work behind a branch.
WARPWRIGHT_COLD inline void wait_for_branch(cudaStream_t branch) noexcept {
  if (may_be_capturing(branch)) return;
  relaxed_capture_mode const allowed;  // a capture of any thread forbids it otherwise
  discard(cudaStreamSynchronize(branch));
}

WARPWRIGHT_COLD inline int checked_stream_priority(device_id device, int priority,
                                                   source_location where) {
  stream_priority_range const range = get_stream_priority_range(device, where);
  if (priority > range.least || priority < range.greatest) {
    throw_invalid_argument(text{"stream_pool: priority "} + priority +
                               " is outside of the device's " + range.greatest + " (highest) to " +
                               range.least + " (lowest): see get_stream_priority_range()",
                           where);
  }
  return priority;
}

}  // namespace detail

WARPWRIGHT_INLINE stream_pool::stream_pool(device_id device, stream_pool_options const& options,
                                           source_location where)
    : first_{device, detail::checked_stream_priority(device, values_of(options).priority, where),
             detail::checked_stream_maximum(values_of(options).initial_streams,
                                            values_of(options).max_streams, where)} {
  first_.create(values_of(options).initial_streams, where);
}

WARPWRIGHT_INLINE stream_pool::~stream_pool() {
  for (detail::stream_set* each = others_.load(detail::memory_order::acquire); each != nullptr;) {
    delete detail::exchange(each, each->next);
  }
}

WARPWRIGHT_INLINE detail::stream_set& stream_pool::streams_of(int priority, source_location where) {
  auto const find = [&]() -> detail::stream_set* {
    if (priority == first_.priority()) return &first_;
    detail::stream_set* at = others_.load(detail::memory_order::acquire);
    while (at != nullptr && at->priority() != priority) at = at->next;
    return at;
  };
  if (detail::stream_set* const found = find()) return *found;
  detail::checked_stream_priority(device(), priority, where);
  detail::unique_lock<detail::mutex> const lock{adding_};
  if (detail::stream_set* const found = find()) return *found;
  auto* const added = new detail::stream_set{device(), priority, max_streams()};
  added->next = others_.load(detail::memory_order::relaxed);
  others_.store(added, detail::memory_order::release);
  return *added;
}

WARPWRIGHT_INLINE std::uint64_t stream_pool::deadline(double seconds, source_location where) {
  if (!(seconds >= 0.0)) {
    detail::throw_invalid_argument(
        detail::text{"stream_pool: lease_for() with a negative time, or none: "} + seconds +
            " seconds; give 0, which does not wait, or more, or call lease(), which has no limit",
        where);
  }
  constexpr double limit = 1e9;  // 30 years
  if (seconds == 0.0) return 0;
  if (seconds > limit) return detail::stream_set::for_ever;
  return detail::monotonic_nanoseconds() + static_cast<std::uint64_t>(seconds * 1e9);
}

WARPWRIGHT_INLINE unsigned stream_pool::size() const noexcept {
  unsigned count = 0;
  for_each_priority([&](detail::stream_set const& each) { count += each.created(); });
  return count;
}

WARPWRIGHT_INLINE unsigned stream_pool::available() const noexcept {
  unsigned count = 0;
  for_each_priority([&](detail::stream_set const& each) { count += each.available(); });
  return count;
}

WARPWRIGHT_INLINE void stream_pool::synchronize(source_location where) const {
  detail::array<stream_ref> all;
  for_each_priority([&](detail::stream_set const& each) { each.list(all); });
  // A capture of any thread forbids it otherwise.
  detail::relaxed_capture_mode const allowed{where};
  for (stream_ref const each : all) each.synchronize(where);
}

WARPWRIGHT_INLINE void stream_pool::branches::fork(unsigned n, source_location where) {
  unsigned const most = streams_.max_streams();
  leased_.reserve(n < most ? n : most);
  for (unsigned i = 0; i < n && i < most; ++i) {
    unsigned index = streams_.take();
    if (index == detail::stream_set::none) index = streams_.take_or_wait(0, where);
    if (index == detail::stream_set::none) break;
    leased_.push_back(index);
  }
  if (leased_.empty()) return;
  // The waits below hold what the event is now: the first branch's serves, and is recorded again.
  cudaEvent_t marker = streams_.event(leased_[0], where);
  cudaEvent_t other = nullptr;
  may_capture_ = detail::may_be_capturing(parent_.get());
  device_id const device =
      may_capture_ ? detail::device_of_any(parent_, where) : detail::device_of(parent_, where);
  if (device != streams_.device()) {
    scoped_device const scope{device, where};
    check(cudaEventCreateWithFlags(&other, cudaEventDisableTiming), "cudaEventCreateWithFlags",
          where);
    marker = other;
  }
  char const* api = "cudaEventRecord";
  cudaError_t status = cudaEventRecord(marker, parent_.get());
  for (; forked_ < leased_.size() && status == cudaSuccess; ++forked_) {
    api = "cudaStreamWaitEvent";
    status = cudaStreamWaitEvent(streams_.stream(leased_[forked_]).get(), marker, 0);
    if (status != cudaSuccess) break;
  }
  if (other != nullptr) detail::discard(cudaEventDestroy(other));
  detail::check_named_earlier(status, api, where);
}

WARPWRIGHT_INLINE cudaError_t stream_pool::branches::join_one(unsigned index,
                                                              char const*& api) noexcept {
  cudaStream_t const branch = streams_.stream(index).get();
  cudaEvent_t event = nullptr;
  try {
    event = streams_.event(index, source_location::current());
  } catch (cuda_error const& error) {
    api = "cudaEventCreateWithFlags";
    detail::wait_for_branch(branch);
    return error.code();
  }
  api = "cudaEventRecord";
  cudaError_t status = cudaEventRecord(event, branch);
  if (status == cudaSuccess) {
    api = "cudaStreamWaitEvent";
    status = cudaStreamWaitEvent(parent_.get(), event, 0);
  }
  if (status != cudaSuccess) detail::wait_for_branch(branch);
  return status;
}

WARPWRIGHT_INLINE void stream_pool::branches::join(source_location where) {
  cudaError_t first = cudaSuccess;
  char const* api = "";
  while (joined_ < forked_) {
    char const* call = "";
    cudaError_t const status = join_one(leased_[joined_++], call);
    if (first != cudaSuccess || status == cudaSuccess) continue;
    first = status;
    api = call;
  }
  detail::check_named_earlier(first, api, where);
}

WARPWRIGHT_INLINE stream_pool::branches::~branches() {
  while (joined_ < forked_) {
    char const* api = "";
    detail::discard(join_one(leased_[joined_++], api));
  }
  for (unsigned const index : leased_) streams_.give_back(index, may_capture_);
}

WARPWRIGHT_END
