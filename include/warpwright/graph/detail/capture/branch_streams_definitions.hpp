// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/capture/capture_guard.hpp>
#include <warpwright/graph/detail/capture/branch_streams.hpp>

WARPWRIGHT_BEGIN

namespace detail {

WARPWRIGHT_INLINE void capturing_stream::begin(stream_ref stream, int device) noexcept {
  // The handle of a per-thread default stream is that of all threads and devices.
  if (stream.get() == cudaStreamPerThread) return;
  stream_ = stream.get();
  device_ = device;
  unique_lock<spin_lock> const guard{branch_streams.lock};
  next_ = branch_streams.capturing;
  link_ = &branch_streams.capturing;
  if (next_ != nullptr) next_->link_ = &next_;
  *link_ = this;
}

WARPWRIGHT_INLINE void capturing_stream::end() noexcept {
  if (stream_ == nullptr) return;
  unique_lock<spin_lock> const guard{branch_streams.lock};
  *link_ = next_;
  if (next_ != nullptr) next_->link_ = link_;
  stream_ = nullptr;
}

WARPWRIGHT_INLINE int known_device_of(stream_ref stream) noexcept {
  unique_lock<spin_lock> const guard{branch_streams.lock};
  for (capturing_stream const* at = branch_streams.capturing; at != nullptr; at = at->next_) {
    if (at->stream_ == stream.get()) return at->device_;
  }
  return -1;
}

WARPWRIGHT_INLINE device_id device_of_capturing(stream_ref stream, source_location where) {
  int const known = known_device_of(stream);
  return known < 0 ? device_of_any(stream, where) : device_id{known};
}

/// Puts a branch in front of one of the lists of branch_streams.
inline void put_into(branch_stream*& list, branch_stream& branch) noexcept {
  unique_lock<spin_lock> const guard{branch_streams.lock};
  branch.next = list;
  list = &branch;
}

/// Takes the first branch for which a condition holds out of such a list; null if there is none.
template <class Condition>
branch_stream* take_from(branch_stream*& list, Condition const& condition) noexcept {
  unique_lock<spin_lock> const guard{branch_streams.lock};
  branch_stream** at = &list;
  while (*at != nullptr && !condition(**at)) at = &(*at)->next;
  branch_stream* const found = *at;
  if (found != nullptr) *at = exchange(found->next, nullptr);
  return found;
}

WARPWRIGHT_INLINE void return_branches(branch_stream* list) noexcept {
  while (list != nullptr) {
    branch_stream& each = *list;
    list = each.next;
    each.busy = each.captured = false;
    each.listed.end();
    each.before.end();
    put_into(branch_streams.first, each);
  }
}

WARPWRIGHT_INLINE void keep_branches(branch_stream* list, unsigned long long capture) noexcept {
  while (list != nullptr) {
    branch_stream& each = *list;
    list = exchange(each.next, nullptr);
    if (!each.captured) {  // the call that forks it has failed
      return_branches(&each);
      continue;
    }
    each.busy = false;
    each.capture = capture;
    each.listed.end();
    each.before.end();
    put_into(branch_streams.kept, each);
  }
}

WARPWRIGHT_INLINE branch_stream* lease_kept_branch(device_id device,
                                                   unsigned long long capture) noexcept {
  branch_stream* const found = take_from(branch_streams.kept, [&](branch_stream const& each) {
    return each.capture == capture && each.device == device;
  });
  if (found != nullptr) found->listed.begin(found->owner.ref(), device.value());
  return found;
}

/// Finds a kept branch of the capture with the least id that is not below `from`.
WARPWRIGHT_INLINE bool find_kept_branch(unsigned long long& from, cudaStream_t& stream) noexcept {
  branch_stream const* found = nullptr;
  unique_lock<spin_lock> const guard{branch_streams.lock};
  for (branch_stream const* at = branch_streams.kept; at != nullptr; at = at->next) {
    if (at->capture < from || (found != nullptr && at->capture >= found->capture)) continue;
    found = at;
  }
  if (found == nullptr) return false;
  from = found->capture;
  stream = found->owner.get();
  return true;
}

/// Frees the branches that were kept for captures that have ended. Nothing else tells of the end of
/// other code's captures.
/// @return whether there were any
/// **Cost:** a CUDA call for each capture.
WARPWRIGHT_INLINE bool free_kept_branches(source_location where) {
  bool freed = false;
  cudaStream_t stream = nullptr;
  for (unsigned long long id = 0; find_kept_branch(id, stream); ++id) {
    cudaStreamCaptureStatus state = cudaStreamCaptureStatusNone;
    cudaError_t const status = cudaStreamIsCapturing(stream, &state);
    if (is_gone(status)) {
      discard(status);  // of a device that was reset: lease_branch() finds that, too
    } else {
      check(status, "cudaStreamIsCapturing", where);
      if (state != cudaStreamCaptureStatusNone) continue;
    }
    auto const is_of_capture = [id](branch_stream const& each) { return each.capture == id; };
    while (branch_stream* const ended = take_from(branch_streams.kept, is_of_capture)) {
      return_branches(ended);
      freed = true;
    }
  }
  return freed;
}

/// Takes a free stream that is not capturing; null if there is none.
WARPWRIGHT_INLINE branch_stream* take_free_branch(device_id device, source_location where) {
  branch_stream* capturing = nullptr;  // of captures whose end has failed
  branch_stream* found = nullptr;
  cudaError_t status = cudaSuccess;
  auto const is_on_device = [device](branch_stream const& each) { return each.device == device; };
  while ((found = take_from(branch_streams.first, is_on_device)) != nullptr) {
    cudaStreamCaptureStatus state = cudaStreamCaptureStatusNone;
    status = cudaStreamIsCapturing(found->owner.get(), &state);
    if (status == cudaSuccess && state == cudaStreamCaptureStatusNone) break;
    if (is_gone(status)) {
      discard(exchange(status, cudaSuccess));
      put_into(branch_streams.stale, *found);
      continue;
    }
    found->next = capturing;
    capturing = found;
    if (status != cudaSuccess) break;
  }
  return_branches(capturing);
  check(status, "cudaStreamIsCapturing", where);
  return found;
}

WARPWRIGHT_INLINE branch_stream* lease_branch(device_id device, source_location where) {
  branch_stream* found = take_free_branch(device, where);
  if (found == nullptr && free_kept_branches(where)) found = take_free_branch(device, where);
  if (found == nullptr) {
    relaxed_capture_mode const allowed{where};
    found = new branch_stream{stream{device, 0, where}, device};
#if WARPWRIGHT_HOST_RUNTIME
    warpwrightHostKeepStream(found->owner.get());
#endif
  }
  found->listed.begin(found->owner.ref(), device.value());
  return found;
}

}  // namespace detail

WARPWRIGHT_END
