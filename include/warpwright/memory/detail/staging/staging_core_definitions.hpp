// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/device/device_scope.hpp>
#include <warpwright/core/detail/device/scoped_stream_device.hpp>
#include <warpwright/memory/detail/staging/staging_core.hpp>

WARPWRIGHT_BEGIN

namespace detail {

inline text copied_part(std::size_t done_bytes, std::size_t all_bytes) noexcept {
  return text{"the first "} + done_bytes + " of " + all_bytes +
         " bytes were copied, the rest of the destination is undefined";
}

}  // namespace detail

WARPWRIGHT_INLINE staging_error::staging_error(cudaError_t code, char const* api,
                                               source_location where, std::size_t done_bytes,
                                               std::size_t all_bytes)
    : cuda_error{code, api, where, detail::is_sticky(code),
                 detail::copied_part(done_bytes, all_bytes).c_str()},
      copied_bytes_{done_bytes} {}

namespace detail {

WARPWRIGHT_INLINE staging_core::staging_core(pinned_core& pool, staging_settings const& options,
                                             source_location where)
    : pool_{pool}, options_{options}, device_{current_device(where)} {
  unsigned const threads =
      options_.threads != 0 ? options_.threads : staging_workers::default_threads();
  if (threads > 256 || options_.slots_per_thread == 0 ||
      options_.slots_per_thread > staging_workers::most_depth || options_.slot_bytes < 4096 ||
      options_.bytes_per_helper < 4096) {
    throw_invalid_argument(
        text{"staging: "} + threads + " threads with " + options_.slots_per_thread + " slots of " +
            options_.slot_bytes + " bytes, and one more for each " + options_.bytes_per_helper +
            " bytes; give 1 to 256 threads, 1 to 64 slots, and at least 4096 bytes",
        where);
  }
  int reads = 0;
  check(cudaDeviceGetAttribute(&reads, cudaDevAttrPageableMemoryAccess, device_.value()),
        "cudaDeviceGetAttribute", where);
  reads_late_ = reads != 0;
  try {
    slots_->create(pool_, std::size_t{threads} * options_.slots_per_thread, options_.slot_bytes,
                   where);
    workers_->start(*slots_, threads - 1, device_.value(), where);
  } catch (...) {
    stop();
    throw;
  }
}

WARPWRIGHT_INLINE void staging_core::stop() noexcept {
  workers_->stop();
  relaxed_capture_mode const relaxed;
  slots_->destroy(pool_);
}

WARPWRIGHT_INLINE void staging_core::check_call(staging_transfer const& what, char const* name,
                                                source_location where) {
  bool const has_source = what.source != nullptr || what.pack != nullptr;
  if (what.destination == nullptr || !has_source) {
    throw_invalid_argument(text{"staging: "} + name + " with a null " +
                               (has_source ? "destination" : "source") + " and bytes to copy",
                           where);
  }
  if (what.destination_pitch < what.item_bytes || what.source_pitch < what.item_bytes) {
    bool const of_source = what.source_pitch < what.item_bytes;
    throw_invalid_argument(text{"staging: "} + name + ": the pitch of the " +
                               (of_source ? "source" : "destination") + " is " +
                               (of_source ? what.source_pitch : what.destination_pitch) +
                               " bytes, less than a row of " + what.item_bytes,
                           where);
  }
  std::size_t const pitch =
      what.destination_pitch > what.source_pitch ? what.destination_pitch : what.source_pitch;
  if (what.items > ~std::size_t{0} / pitch) {
    throw_invalid_argument(text{"staging: "} + name + " of " + what.items + " times " + pitch +
                               " bytes: more than memory can have",
                           where);
  }
  // First: querying the device of a capturing stream would invalidate the capture.
  if (is_capturing(what.stream, where)) {
    throw_invalid_argument(text{"staging: "} + name +
                               " on a capturing stream: chunks are copied at once and "
                               "cannot be replayed; copy before the capture, or capture a "
                               "cudaMemcpyAsync from page-locked memory",
                           where);
  }
}

WARPWRIGHT_INLINE void staging_core::check_device(stream_ref stream, char const* name,
                                                  source_location where) const {
  // Its handle means the current device, which is device_.
  if (is_default_stream(stream)) return;
  bool const has_id = stream.has_id();
  if (has_id && stream.id() == known_stream_.load(memory_order::relaxed)) return;
#if CUDART_VERSION >= 12080
  int device = -1;
  check(cudaStreamGetDevice(stream.get(), &device), "cudaStreamGetDevice", where);
  if (device != device_.value()) {
    throw_invalid_argument(text{"staging: "} + name + " on a stream of device " + device +
                               ", made for device " + device_.value() +
                               "; make one staging object a device",
                           where);
  }
#else
  static_cast<void>(name);
  static_cast<void>(where);
#endif
  if (has_id) known_stream_.store(stream.id(), memory_order::relaxed);
}

WARPWRIGHT_INLINE std::size_t staging_core::copy(staging_transfer const& what, char const* name,
                                                 source_location where) {
  if (what.items == 0 || what.item_bytes == 0) return 0;
  // A default stream is that of the object's device, of which the call asks as well.
  device_of_default const current{what.stream, device_.value()};
  check_call(what, name, where);
  check_device(what.stream, name, where);
  std::size_t const bytes = what.items * what.item_bytes;
  bool first = true;  // whether the first byte in host memory is pageable; so the last one
  bool last = true;
  bool by_command = false;
  if (what.pack == nullptr) {
    auto const* const host =
        static_cast<char const*>(what.to_device ? what.source : what.destination);
    std::size_t const pitch = what.to_device ? what.source_pitch : what.destination_pitch;
    // The last row ends before its pitch does.
    char const* const end = host + ((what.items - 1) * pitch + what.item_bytes - 1);
    first = is_unregistered(host);
    last = on_one_page(host, end) ? first : is_unregistered(end);
    by_command = what.to_device && bytes <= options_.direct_bytes && first && last &&
                 !reads_late_ && what.is_contiguous();
  }
  // The fewest calls: these need neither a device nor a capture mode.
  if (by_command && !is_default_stream(what.stream)) return copy_by_cuda(what, false, where);
  scoped_device const scope{device_, where};
  relaxed_capture_mode const relaxed{where};
  if (what.pack != nullptr && what.item_bytes > options_.slot_bytes) {
    throw_invalid_argument(
        text{"staging: "} + name + " of elements of " + what.item_bytes +
            " bytes, more than a slot: raise staging_options::slot_bytes(), now " +
            options_.slot_bytes,
        where);
  }
  if (!first && !last) return copy_by_cuda(what, true, where);
  // Where one end is registered, a part of it may be read after the call; and CUDA may refuse it.
  bool const wait = !what.to_device || reads_late_ || first != last;
  // One thread copies no faster than CUDA. Rows that no slot can hold are CUDA's, too.
  bool const alone = workers_->threads() == 0 && bytes > options_.direct_bytes && first && last;
  if (what.pack == nullptr && (alone || by_command || what.item_bytes > options_.slot_bytes)) {
    return copy_by_cuda(what, wait, where);
  }
  return copy_in_chunks(what, bytes, where);
}

/// @param wait  for the end of the copy
WARPWRIGHT_INLINE std::size_t staging_core::copy_by_cuda(staging_transfer const& what, bool wait,
                                                         source_location where) {
  std::size_t const bytes = what.items * what.item_bytes;
  cudaMemcpyKind const kind = what.to_device ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost;
  bool const contiguous = what.is_contiguous();
  char const* api = contiguous ? "cudaMemcpyAsync" : "cudaMemcpy2DAsync";
  auto const enqueue = [&](bool) {
    if (contiguous) {
      return cudaMemcpyAsync(what.destination, what.source, bytes, kind, what.stream.get());
    }
    return cudaMemcpy2DAsync(what.destination, what.destination_pitch, what.source,
                             what.source_pitch, what.item_bytes, what.items, kind,
                             what.stream.get());
  };
  cudaError_t result = launch_on_any(what.stream.get(), enqueue);
  if (result == cudaSuccess && wait) {
    api = "cudaStreamSynchronize";
    result = cudaStreamSynchronize(what.stream.get());
  }
  if (result != cudaSuccess) {
    discard(result);
    throw staging_error{result, api, where, 0, bytes};
  }
  if (what.progress != nullptr) static_cast<void>((*what.progress)(bytes, bytes));
  return bytes;
}

WARPWRIGHT_INLINE std::size_t staging_core::copy_in_chunks(staging_transfer const& what,
                                                           std::size_t bytes,
                                                           source_location where) {
  // The handle of the per-thread default stream means another stream in each worker.
  bool const is_per_thread = what.stream.get() == cudaStreamPerThread;
  // To wake a thread takes as long as the copy of some hundred KiB.
  std::size_t const useful =
      bytes <= options_.direct_bytes ? 0 : 1 + bytes / options_.bytes_per_helper;
  unsigned const helpers =
      useful < workers_->threads() ? static_cast<unsigned>(useful) : workers_->threads();
  alignas(stream) unsigned char memory[sizeof(stream)];
  struct substitute {
    stream* used = nullptr;
    ~substitute() {
      if (used != nullptr) used->~stream();
    }
  } own;
  staging_job job{what};
  if (is_per_thread && helpers != 0) {
    own.used = ::new (static_cast<void*>(memory)) stream{device_, 0, where};
    own.used->wait(what.stream, where);
    job.stream = own.used->ref();
  }
  job.most_helpers = helpers;
  job.reads_late = reads_late_;
  // Two chunks a thread keep all threads busy, 64 KiB keep the cost of the calls small. One thread
  // writes a chunk while the ones before are in flight.
  constexpr std::size_t least = std::size_t{64} << 10U;
  std::size_t chunk = (bytes / (2 * (helpers + std::size_t{1})) / least + 1) * least;
  job.depth = options_.slots_per_thread;
  if (helpers == 0) {
    chunk = bytes <= whole_bytes ? bytes : piece_bytes;
    if (job.depth < pieces_in_flight) job.depth = pieces_in_flight;
  }
  if (chunk > options_.slot_bytes) chunk = options_.slot_bytes;
  job.chunk_items = chunk > job.item_bytes ? chunk / job.item_bytes : 1;
  std::size_t const done = workers_->run(job) * job.item_bytes;
  if (own.used != nullptr) {
    try {
      what.stream.wait(own.used->ref(), where);
    } catch (...) {  // nothing orders the chunks before the caller's next work
      discard(cudaStreamSynchronize(job.stream.get()));
      throw;
    }
  }
  if (job.thrown) std::rethrow_exception(job.thrown);
  if (job.failure.code != cudaSuccess) {
    throw staging_error{job.failure.code, job.failure.api, where, done, bytes};
  }
  if (what.progress != nullptr && !job.stopped) static_cast<void>((*what.progress)(done, bytes));
  return done;
}

}  // namespace detail

WARPWRIGHT_END
