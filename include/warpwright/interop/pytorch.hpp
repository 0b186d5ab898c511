// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What torch.cuda.memory.CUDAPluggableAllocator asks of an allocator, over one memory_pool a
// device. PyTorch loads a shared library with plain functions: examples/pytorch_allocator makes one
// of this class. Needs nothing of PyTorch to compile.
#pragma once

#include <warpwright/core/device_id.hpp>
#include <warpwright/memory/pool.hpp>

#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

WARPWRIGHT_BEGIN

/// Device memory for PyTorch: a memory_pool for each device, made at its first use.
///
/// PyTorch frees a tensor on the stream that it was allocated on, and tells by record_stream()
/// which other streams use it; those that it does not tell about are the user's to order.
/// @pre Streams keep memory_pool's rules: those of PyTorch live as long as the process; release an
///   external one (torch.cuda.ExternalStream) with pool(device).retire() before its end.
/// **Threads:** any number may call any member at once.
/// **Capture:** as memory_pool. PyTorch's CUDA graphs need PyTorch's own allocator.
class torch_allocator {
 public:
  /// @param options  of every pool; memory_fraction() replaces the fraction
  /// @throws cuda_error  when CUDA cannot count the devices
  explicit torch_allocator(memory_pool_options const& options = {},
                           source_location where = source_location::current())
      : devices_(static_cast<std::size_t>(device_count(where))) {
    for (device_entry& entry : devices_) entry.options = options;
  }

  /// Hands out memory for work on a stream.
  /// @param bytes   0 answers nullptr
  /// @param device  ordinal
  /// @param stream  null is the legacy default stream
  /// @throws out_of_memory, cuda_error, std::invalid_argument  as memory_pool; PyTorch makes a
  ///   RuntimeError of each, with its text
  /// **Stream:** ordered on `stream`. **Cost:** as memory_pool, and one cudaStreamGetId.
  [[nodiscard]] void* allocate(std::size_t bytes, int device, cudaStream_t stream) {
    if (bytes == 0) return nullptr;
    memory_pool& memory = pool(device);
    scoped_device const scope{device_id{device}};
    return memory.allocate(stream, bytes);
  }

  /// Takes memory back behind the work that its streams have been given so far.
  /// @param pointer  from allocate(); nullptr does nothing
  /// @param bytes    as given to allocate()
  /// @param device   as given to allocate()
  /// @param stream   as given to allocate()
  /// @throws cuda_error, std::invalid_argument  as memory_pool; what was recorded is forgotten then
  /// **Stream:** does not block the host. Of several streams, the one recorded last waits for the
  /// others, and has the memory first.
  void deallocate(void* pointer, std::size_t bytes, int device, cudaStream_t stream) {
    if (pointer == nullptr) return;
    memory_pool& memory = pool(device);
    scoped_device const scope{device_id{device}};
    std::vector<stream_ref> const others = forget_streams(pointer, stream);
    stream_ref last = stream;
    for (stream_ref const other : others) {
      other.wait(last);
      last = other;
    }
    memory.deallocate(last, pointer, bytes);
  }

  /// Notes that another stream uses a block, so that its memory is used again behind that too.
  /// @param pointer  from allocate(), still live; nullptr does nothing
  /// @param stream   given work with the block before it is freed
  void record_stream(void* pointer, cudaStream_t stream) {
    if (pointer == nullptr) return;
    stream_ref const added = stream;
    std::lock_guard<std::mutex> const lock{mutex_};
    std::vector<stream_ref>& streams = streams_[pointer];
    for (stream_ref const known : streams) {
      if (known == added) return;
    }
    streams.push_back(added);
  }

  /// Gives the memory that is wholly free back to CUDA (torch.cuda.empty_cache()).
  /// @throws cuda_error  when CUDA refuses
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

  /// Limits a device's pool to a part of the device's memory.
  /// @param fraction  in (0, 1]
  /// @param device    ordinal; its pool must not have been used yet
  /// @throws std::invalid_argument  for a device in use, one that does not exist, a wrong fraction
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
    entry.options.maximum_fraction(fraction);
  }

  /// @param device  ordinal
  /// @return the device's pool, made now if need be
  /// @throws std::invalid_argument  for a device that does not exist
  /// @throws cuda_error             when the pool cannot be made
  [[nodiscard]] memory_pool& pool(int device) {
    device_entry& entry = entry_of(device);
    std::lock_guard<std::mutex> const lock{mutex_};
    if (entry.pool == nullptr) {
      entry.pool = std::make_unique<memory_pool>(device_id{device}, entry.options);
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
                                         " does not exist: this process sees " + devices_.size() +
                                         " (check CUDA_VISIBLE_DEVICES)",
                                     source_location::current());
    }
    return devices_[static_cast<std::size_t>(device)];
  }

  // The streams recorded for a block, without the one it was allocated on.
  std::vector<stream_ref> forget_streams(void* pointer, stream_ref own) {
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

  std::mutex mutex_;  // guards the pools' making and streams_; never held across a pool's calls
  std::vector<device_entry> devices_;
  std::unordered_map<void*, std::vector<stream_ref>> streams_;
};

WARPWRIGHT_END
