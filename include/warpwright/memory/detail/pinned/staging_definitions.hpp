// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/memory/staging.hpp>

WARPWRIGHT_BEGIN

WARPWRIGHT_INLINE staging::staging(pinned_pool& pool, staging_options const& options,
                                   source_location where)
    : pool_{&pool},
      options_{options},
      device_{current_device(where)},
      own_stream_{device_, 0, where} {
  start(where);
}

WARPWRIGHT_INLINE void staging::copy_to_device(stream_ref stream, void* destination,
                                               void const* source, std::size_t bytes,
                                               source_location where) {
  if (bytes == 0) return;
  check_call(stream, destination, source, "copy_to_device", where);
  scoped_device const scope{device_, where};
  detail::relaxed_capture_mode const relaxed{where};
  if (bytes > options_.direct_bytes_) {
    copy_in_chunks(true, stream, destination, source, bytes, where);
    return;
  }
  pinned_buffer<unsigned char> slot{*pool_, bytes, where};
  std::memcpy(slot.data(), source, bytes);
  check(cudaMemcpyAsync(destination, slot.data(), bytes, cudaMemcpyHostToDevice, stream.get()),
        "cudaMemcpyAsync", where);
  slot.set_stream(stream);
}

WARPWRIGHT_INLINE void staging::copy_to_host(stream_ref stream, void* destination,
                                             void const* source, std::size_t bytes,
                                             source_location where) {
  if (bytes == 0) return;
  check_call(stream, destination, source, "copy_to_host", where);
  scoped_device const scope{device_, where};
  detail::relaxed_capture_mode const relaxed{where};
  if (bytes > options_.direct_bytes_) {
    copy_in_chunks(false, stream, destination, source, bytes, where);
    return;
  }
  pinned_buffer<unsigned char> slot{*pool_, bytes, where};
  check(cudaMemcpyAsync(slot.data(), source, bytes, cudaMemcpyDeviceToHost, stream.get()),
        "cudaMemcpyAsync", where);
  slot.set_stream(stream);
  stream.synchronize(where);
  slot.clear_stream();
  std::memcpy(destination, slot.data(), bytes);
}

WARPWRIGHT_INLINE void staging::start(source_location where) {
  unsigned const threads =
      options_.threads_ != 0 ? options_.threads_ : detail::staging_workers::default_threads();
  if (threads > 256 || options_.slots_ == 0 || options_.slots_ > 64 ||
      options_.slot_bytes_ < 4096) {
    detail::throw_invalid_argument(
        detail::text{"staging: "} + threads + " threads with " + options_.slots_ + " slots of " +
            options_.slot_bytes_ +
            " bytes; give 1 to 256 threads, 1 to 64 slots, and at least 4096 bytes",
        where);
  }
  try {
    workers_.rings().resize(threads);
    for (detail::slot_ring& ring : workers_.rings()) {
      ring.list.resize(options_.slots_);
      for (detail::staging_slot& slot : ring.list) {
        check(cudaEventCreateWithFlags(&slot.event, cudaEventDisableTiming),
              "cudaEventCreateWithFlags", where);
        slot.memory = static_cast<char*>(pool_->allocate(options_.slot_bytes_, 256, where));
      }
    }
    workers_.start(device_.value(), where);
  } catch (...) {
    stop();
    throw;
  }
}

WARPWRIGHT_INLINE void staging::stop() noexcept {
  workers_.stop();
  detail::relaxed_capture_mode const relaxed;
  for (detail::slot_ring& ring : workers_.rings()) {
    for (detail::staging_slot& slot : ring.list) {
      bool done = !slot.in_flight;
      for (int attempt = 0; attempt < 2 && !done; ++attempt) {
        cudaError_t const result = cudaEventSynchronize(slot.event);
        detail::discard(result);
        done = result == cudaSuccess;
      }
      if (slot.event != nullptr) detail::discard(cudaEventDestroy(slot.event));
      if (!done) continue;  // a copy may still use it: leak it rather than reuse it too early
      try {
        pool_->deallocate(slot.memory, options_.slot_bytes_);
      } catch (...) {  // a destructor cannot throw; the pool counts the block as live
      }
    }
  }
  workers_.rings().clear();
}

WARPWRIGHT_INLINE void staging::check_call(stream_ref stream, void const* destination,
                                           void const* source, char const* name,
                                           source_location where) const {
  if (destination == nullptr || source == nullptr) {
    detail::throw_invalid_argument(detail::text{"staging: "} + name + " with a null " +
                                       (destination == nullptr ? "destination" : "source") +
                                       " and bytes to copy",
                                   where);
  }
  // First: querying the device of a capturing stream would invalidate the capture.
  if (detail::is_capturing(stream, where)) {
    detail::throw_invalid_argument(detail::text{"staging: "} + name +
                                       " on a capturing stream: chunks are copied at once and "
                                       "cannot be replayed; copy before the capture, or capture a "
                                       "cudaMemcpyAsync from page-locked memory",
                                   where);
  }
#if CUDART_VERSION >= 12080
  int device = -1;
  check(cudaStreamGetDevice(stream.get(), &device), "cudaStreamGetDevice", where);
  // A default stream's handle means the current device, which the caller sets to device_ next.
  bool const is_default = stream.get() == cudaStreamLegacy || stream.get() == cudaStreamPerThread;
  if (device != device_.value() && !is_default) {
    detail::throw_invalid_argument(detail::text{"staging: "} + name + " on a stream of device " +
                                       device + ", made for device " + device_.value() +
                                       "; make one staging object a device",
                                   where);
  }
#endif
}

WARPWRIGHT_INLINE void staging::copy_in_chunks(bool to_device, stream_ref stream, void* destination,
                                               void const* source, std::size_t bytes,
                                               source_location where) {
  detail::unique_lock<detail::mutex> const lock{large_copy_mutex_};
  bool const use_own_stream = stream.get() == cudaStreamPerThread;
  if (use_own_stream) own_stream_.wait(stream, where);
  detail::staging_job job;
  job.to_device = to_device;
  job.destination = static_cast<char*>(destination);
  job.source = static_cast<char const*>(source);
  job.bytes = bytes;
  job.stream = use_own_stream ? own_stream_.get() : stream.get();
  // Two chunks a thread keep all threads busy, 64 KiB keep the cost of the calls small.
  constexpr std::size_t least = std::size_t{64} << 10U;
  std::size_t const share = bytes / (2 * workers_.rings().size());
  job.chunk_bytes = (share / least + 1) * least;
  if (job.chunk_bytes > options_.slot_bytes_) job.chunk_bytes = options_.slot_bytes_;
  detail::staging_failure const failure = workers_.run(job);
  if (use_own_stream) {
    try {
      stream.wait(own_stream_.ref(), where);
    } catch (...) {  // nothing orders the chunks before the caller's next work
      detail::discard(cudaStreamSynchronize(own_stream_.get()));
      throw;
    }
  }
  check(failure.code, failure.api, where);
}

WARPWRIGHT_END
