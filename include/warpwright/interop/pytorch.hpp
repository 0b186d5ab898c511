// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The functions that torch.cuda.memory.CUDAPluggableAllocator calls, over one memory_pool a device.
// PyTorch loads a shared library with plain functions: examples/pytorch_allocator makes one of this
// class. Compiles without PyTorch.
#pragma once

#include <warpwright/core/detail/capture/capture_guard.hpp>
#include <warpwright/core/device_id.hpp>
#include <warpwright/memory/pool.hpp>

#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

WARPWRIGHT_BEGIN

/// Device memory for PyTorch: one memory_pool a device, created at its first use.
///
/// PyTorch frees a tensor on the stream that it was allocated on, and calls record_stream() for
/// other streams that use it. The user must order streams that are not recorded.
/// @pre Streams satisfy memory_pool's precondition. PyTorch's own live as long as the process; call
///   pool(device).retire() before an external one (torch.cuda.ExternalStream) is destroyed.
/// **Threads:** any number may call any member at once.
/// **Capture:** as memory_pool; a block with recorded streams is not freed in a capture.
/// PyTorch's CUDA graphs require PyTorch's own allocator.
class torch_allocator {
 public:
  /// The options of a memory_pool, and a check for captures at every call: PyTorch loads the
  /// library with symbols of its own, so that other libraries' captures, this one's too, are not
  /// noticed otherwise.
  [[nodiscard]] static memory_pool_options default_options() noexcept {
    return memory_pool_options{}.detect_captures();
  }

  /// Creates an allocator without pools.
  /// @param options  of every pool; memory_fraction() replaces the fraction
  /// @throws cuda_error  when the number of devices cannot be queried
  explicit torch_allocator(memory_pool_options const& options = default_options(),
                           source_location where = source_location::current())
      : devices_(static_cast<std::size_t>(device_count(where))) {
    for (device_entry& entry : devices_) entry.options = options;
  }

  /// Allocates memory for work on a stream.
  /// @param bytes   0 returns nullptr
  /// @param device  ordinal
  /// @param stream  null is the legacy default stream
  /// @throws out_of_memory, cuda_error, std::invalid_argument  as memory_pool; PyTorch raises a
  ///   RuntimeError with the text
  /// **Stream:** ordered on `stream`. **Cost:** as memory_pool, and one cudaStreamGetId.
  [[nodiscard]] void* allocate(std::size_t bytes, int device, cudaStream_t stream) {
    if (bytes == 0) return nullptr;
    memory_pool& memory = pool(device);
    scoped_device const scope{device_id{device}};
    return memory.allocate(stream, bytes);
  }

  /// Frees a block behind the work submitted to its streams so far.
  /// @param pointer  from allocate(); nullptr does nothing
  /// @param bytes    as passed to allocate()
  /// @param device   as passed to allocate()
  /// @param stream   as passed to allocate()
  /// @throws cuda_error, std::invalid_argument  as memory_pool; the recorded streams are discarded
  ///   then
  /// @throws std::invalid_argument  when other streams are recorded and one of the streams is
  ///   capturing: the block stays live, with its recorded streams, and can be freed after the
  ///   capture
  /// **Stream:** does not block the host. With several streams, the one recorded last waits for the
  /// others and can reuse the memory first.
  void deallocate(void* pointer, std::size_t bytes, int device, cudaStream_t stream) {
    if (pointer == nullptr) return;
    memory_pool& memory = pool(device);
    scoped_device const scope{device_id{device}};
    std::vector<stream_ref> const others = take_recorded_streams(pointer, stream);
    check_not_capturing(pointer, stream, others);
    stream_ref last = stream;
    for (stream_ref const other : others) {
      other.wait(last);
      last = other;
    }
    memory.deallocate(last, pointer, bytes);
  }

  /// Records that another stream uses a block, so that its memory is reused only behind that
  /// stream, too.
  /// @param pointer  from allocate(), still live; nullptr does nothing
  /// @param stream   has work with the block submitted before it is freed
  void record_stream(void* pointer, cudaStream_t stream) {
    if (pointer == nullptr) return;
    stream_ref const added = stream;
    std::lock_guard<std::mutex> const lock{mutex_};
    std::vector<stream_ref>& streams = streams_[pointer];
    for (stream_ref const recorded : streams) {
      if (recorded == added) return;
    }
    streams.push_back(added);
  }

  /// Returns idle memory to CUDA (torch.cuda.empty_cache()).
  /// @throws cuda_error  when a CUDA call fails
  /// **Stream:** as memory_pool::trim(): waits on the host.
  void trim() {
    for (device_entry& entry : devices_) {
      memory_pool* memory = nullptr;
      {
        std::lock_guard<std::mutex> const lock{mutex_};
        memory = entry.pool.get();
      }
      if (memory != nullptr) static_cast<void>(memory->trim());
    }
  }

  /// Limits a device's pool to a fraction of the device's memory.
  /// @param fraction  in (0, 1]
  /// @param device    ordinal; its pool must not exist yet
  /// @throws std::invalid_argument  for a device whose pool exists, an unknown device, or a
  ///   fraction out of range
  void memory_fraction(double fraction, int device) {
    device_entry& entry = entry_of(device);
    if (!(fraction > 0.0 && fraction <= 1.0)) {
      detail::throw_invalid_argument(
          detail::text{"a memory fraction of "} + fraction + "; it must be above 0 and at most 1",
          source_location::current());
    }
    std::lock_guard<std::mutex> const lock{mutex_};
    if (entry.pool != nullptr) {
      detail::throw_invalid_argument(detail::text{"the memory of device "} + device +
                                         " is in use already; set its fraction before the first "
                                         "tensor",
                                     source_location::current());
    }
    entry.options = entry.options.max_fraction(fraction);
  }

  /// @param device  ordinal
  /// @return the device's pool, created if necessary
  /// @throws std::invalid_argument  for an unknown device
  /// @throws cuda_error             when the pool cannot be created
  [[nodiscard]] memory_pool& pool(int device) {
    device_entry& entry = entry_of(device);
    std::lock_guard<std::mutex> const lock{mutex_};
    if (entry.pool == nullptr) {
      entry.pool.reset(
          new memory_pool{device_id{device}, entry.options});  // names a line of this file
    }
    return *entry.pool;
  }

 private:
  struct device_entry {
    memory_pool_options options;
    std::unique_ptr<memory_pool> pool;
  };

  device_entry& entry_of(int device) {
    if (device < 0 || static_cast<std::size_t>(device) >= devices_.size()) {
      detail::throw_invalid_argument(detail::text{"device "} + device +
                                         " does not exist: the number of visible devices is " +
                                         devices_.size() + " (check CUDA_VISIBLE_DEVICES)",
                                     source_location::current());
    }
    return devices_[static_cast<std::size_t>(device)];
  }

  // Removes and returns the streams recorded for a block, without the one it was allocated on.
  std::vector<stream_ref> take_recorded_streams(void* pointer, stream_ref own) {
    std::lock_guard<std::mutex> const lock{mutex_};
    std::vector<stream_ref> streams;
    if (streams_.empty()) return streams;
    auto const found = streams_.find(pointer);
    if (found == streams_.end()) return streams;
    for (stream_ref const stream : found->second) {
      if (stream != own) streams.push_back(stream);
    }
    streams_.erase(found);
    return streams;
  }

  // In a capture, waits order captured work alone: the block's next user would not wait for what
  // its streams have done before the capture.
  void check_not_capturing(void* pointer, stream_ref own, std::vector<stream_ref> const& others) {
    if (others.empty()) return;
    bool capturing = detail::may_be_capturing(own.get());
    for (stream_ref const other : others) {
      capturing = capturing || detail::may_be_capturing(other.get());
    }
    if (!capturing) return;
    {
      std::lock_guard<std::mutex> const lock{mutex_};
      streams_[pointer] = others;
    }
    detail::throw_invalid_argument(
        "a block that several streams use is freed while one of them is capturing; free it after "
        "the capture",
        source_location::current());
  }

  std::mutex mutex_;  // guards the creation of pools, and streams_; never held during a pool's
                      // calls
  std::vector<device_entry> devices_;
  std::unordered_map<void*, std::vector<stream_ref>> streams_;
};

WARPWRIGHT_END
