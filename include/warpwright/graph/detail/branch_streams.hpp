// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/capture/capture_guard.hpp>
#include <warpwright/core/detail/capture/event_before_capture.hpp>
#include <warpwright/core/detail/capture/stream_device.hpp>
#include <warpwright/core/detail/thread/locks.hpp>

#if WARPWRIGHT_HOST_RUNTIME
/// The stream is never destroyed: it is not a leak.
extern "C" void warpwrightHostKeepStream(cudaStream_t);
#endif

WARPWRIGHT_BEGIN

namespace detail {

/// Lists a stream while a capture can include it, with its device: cudaStreamGetDevice would
/// invalidate the capture.
class capturing_stream {
 public:
  capturing_stream() noexcept = default;
  ~capturing_stream() { end(); }
  capturing_stream(capturing_stream const&) = delete;
  capturing_stream& operator=(capturing_stream const&) = delete;
  void begin(stream_ref stream, int device) noexcept;
  void end() noexcept;

 private:
  friend int known_device_of(stream_ref stream) noexcept;

  cudaStream_t stream_ = nullptr;  // null: not listed
  int device_ = -1;
  capturing_stream* next_ = nullptr;
  capturing_stream** link_ = nullptr;  // what points to this
};

/// A stream on which a branch of a capture is captured.
struct branch_stream {
  stream owner;
  device_id device;
  capturing_stream listed{};
  event_before_capture before{};  // its lessee's, while captured
  branch_stream* next = nullptr;
  bool busy = false;               // its lessee's: a branch that is not joined yet
  bool captured = false;           // its lessee's: a part of the lessee's capture
  unsigned long long capture = 0;  // where it is kept: the id of the capture that includes it
};

/// Streams of all devices that no scope leases. They are never destroyed: a memory pool remembers
/// streams by their id, and a stream that was part of a capture cannot be destroyed before the
/// capture has ended.
struct branch_stream_list {
  spin_lock lock;
  branch_stream* first = nullptr;  // free ones
  branch_stream* kept = nullptr;   // returned by scopes in captures of others, see keep_branches()
  branch_stream* stale = nullptr;  // of devices that were reset
  capturing_stream* capturing = nullptr;
};
__attribute__((visibility("default"))) inline branch_stream_list branch_streams;

inline void capturing_stream::begin(stream_ref stream, int device) noexcept {
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

inline void capturing_stream::end() noexcept {
  if (stream_ == nullptr) return;
  unique_lock<spin_lock> const guard{branch_streams.lock};
  *link_ = next_;
  if (next_ != nullptr) next_->link_ = link_;
  stream_ = nullptr;
}

/// @return the device of a stream that a capture_scope has made a part of a capture; -1: not known
inline int known_device_of(stream_ref stream) noexcept {
  unique_lock<spin_lock> const guard{branch_streams.lock};
  for (capturing_stream const* at = branch_streams.capturing; at != nullptr; at = at->next_) {
    if (at->stream_ == stream.get()) return at->device_;
  }
  return -1;
}

/// The device of a capturing stream.
inline device_id device_of_capturing(stream_ref stream, source_location where) {
  int const known = known_device_of(stream);
  return known < 0 ? device_of_any(stream, where) : device_id{known};
}

inline void return_branches(branch_stream* list) noexcept {
  while (list != nullptr) {
    branch_stream* const each = list;
    list = each->next;
    each->busy = each->captured = false;
    each->listed.end();
    each->before.end();
    unique_lock<spin_lock> const guard{branch_streams.lock};
    each->next = branch_streams.first;
    branch_streams.first = each;
  }
}

/// Takes back the branches of a scope in a capture that another one ends: they are a part of it, so
/// that only scopes in this capture can use them until it has ended.
inline void keep_branches(branch_stream* list, unsigned long long capture) noexcept {
  while (list != nullptr) {
    branch_stream* const each = list;
    list = detail::exchange(each->next, nullptr);
    if (!each->captured) {  // the call that forks it has failed
      return_branches(each);
      continue;
    }
    each->busy = false;
    each->capture = capture;
    each->listed.end();
    each->before.end();
    unique_lock<spin_lock> const guard{branch_streams.lock};
    each->next = branch_streams.kept;
    branch_streams.kept = each;
  }
}

/// Takes a branch that was kept for a capture out of the list; null if there is none.
/// @param device  the branch's; null: of any device
inline branch_stream* take_kept_branch(unsigned long long capture,
                                       device_id const* device = nullptr) noexcept {
  unique_lock<spin_lock> const guard{branch_streams.lock};
  for (branch_stream** at = &branch_streams.kept; *at != nullptr; at = &(*at)->next) {
    branch_stream* const found = *at;
    if (found->capture != capture || (device != nullptr && found->device != *device)) continue;
    *at = found->next;
    found->next = nullptr;
    return found;
  }
  return nullptr;
}

/// Leases a branch that was kept for a capture, as lease_branch(); null if there is none.
inline branch_stream* lease_kept_branch(device_id device, unsigned long long capture) noexcept {
  branch_stream* const found = take_kept_branch(capture, &device);
  if (found != nullptr) found->listed.begin(found->owner.ref(), device.value());
  return found;
}

/// Finds a kept branch of the capture with the least id that is not below `from`.
inline bool find_kept_branch(unsigned long long& from, cudaStream_t& stream) noexcept {
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
inline bool free_kept_branches(source_location where) {
  bool freed = false;
  cudaStream_t stream = nullptr;
  for (unsigned long long id = 0; find_kept_branch(id, stream); ++id) {
    cudaStreamCaptureStatus state = cudaStreamCaptureStatusNone;
    cudaError_t const status = cudaStreamIsCapturing(stream, &state);
    if (status == cudaErrorInvalidResourceHandle || status == cudaErrorContextIsDestroyed) {
      discard(status);  // of a device that was reset: lease_branch() finds that, too
    } else {
      check(status, "cudaStreamIsCapturing", where);
      if (state != cudaStreamCaptureStatusNone) continue;
    }
    while (branch_stream* const ended = take_kept_branch(id)) {
      return_branches(ended);
      freed = true;
    }
  }
  return freed;
}

/// Takes the first free stream of a device out of the list; null if there is none.
inline branch_stream* take_branch(device_id device) noexcept {
  unique_lock<spin_lock> const guard{branch_streams.lock};
  for (branch_stream** at = &branch_streams.first; *at != nullptr; at = &(*at)->next) {
    branch_stream* const found = *at;
    if (found->device != device) continue;
    *at = found->next;
    found->next = nullptr;
    return found;
  }
  return nullptr;
}

/// Takes a free stream that is not capturing; null if there is none.
inline branch_stream* take_free_branch(device_id device, source_location where) {
  branch_stream* capturing = nullptr;  // of captures whose end has failed
  branch_stream* found = nullptr;
  cudaError_t status = cudaSuccess;
  while ((found = take_branch(device)) != nullptr) {
    cudaStreamCaptureStatus state = cudaStreamCaptureStatusNone;
    status = cudaStreamIsCapturing(found->owner.get(), &state);
    if (status == cudaSuccess && state == cudaStreamCaptureStatusNone) break;
    if (status == cudaErrorInvalidResourceHandle || status == cudaErrorContextIsDestroyed) {
      discard(status);
      status = cudaSuccess;
      unique_lock<spin_lock> const guard{branch_streams.lock};
      found->next = branch_streams.stale;
      branch_streams.stale = found;
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

/// Leases a stream that is not capturing until return_branches() or keep_branches(), and lists it
/// meanwhile.
/// @throws cuda_error  when a stream cannot be created
inline branch_stream* lease_branch(device_id device, source_location where) {
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
