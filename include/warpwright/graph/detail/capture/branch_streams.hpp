// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/capture/capture_guard.hpp>
#include <warpwright/core/detail/capture/event_before_capture.hpp>
#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/core/detail/thread/locks.hpp>

#if WARPWRIGHT_HOST_RUNTIME
/// The stream is never destroyed: it is not a leak.
extern "C" void warpwrightHostKeepStream(cudaStream_t);
#endif

WARPWRIGHT_BEGIN

namespace detail {

/// Lists a stream while a capture can include it, with its device: cudaStreamGetDevice would
/// invalidate the capture.
class capturing_stream : noncopyable {
 public:
  ~capturing_stream() { end(); }
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

/// @return the device of a stream that a capture_scope has made a part of a capture; -1: not known
int known_device_of(stream_ref stream) noexcept;

/// The device of a capturing stream.
device_id device_of_capturing(stream_ref stream, source_location where);

void return_branches(branch_stream* list) noexcept;

/// Takes back the branches of a scope in a capture that another one ends: they are a part of it, so
/// that only scopes in this capture can use them until it has ended.
void keep_branches(branch_stream* list, unsigned long long capture) noexcept;

/// Leases a branch that was kept for a capture, as lease_branch(); null if there is none.
branch_stream* lease_kept_branch(device_id device, unsigned long long capture) noexcept;

/// Leases a stream that is not capturing until return_branches() or keep_branches(), and lists it
/// meanwhile.
/// @throws cuda_error  when a stream cannot be created
branch_stream* lease_branch(device_id device, source_location where);

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/graph/detail/capture/branch_streams_definitions.hpp>
#endif
