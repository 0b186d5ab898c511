// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The runtime's objects. The runtime's lock protects all members, except where a comment says
// otherwise.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <warpwright/testing/host_runtime.hpp>

namespace warpwright::host {

struct capture_session;
struct device_state;
struct graph_node;
struct graph_state;
struct pool_state;

/// A point in a stream's work that streams and host threads wait for.
struct sync_point {
  std::atomic<bool> done{false};  // written under the lock, read without it as a hint
  unsigned channel = 0;           // index of the condition variable in runtime::channel_done
  std::int64_t finished_ns = 0;   // steady clock or simulated time
  char token = 0;                 // for acquire() and release()
};

/// What is recorded of a work.
enum class work_kind { other, kernel, copy, fill, graph };

/// The work of an operation or a graph node. Immutable: graphs, executable graphs and queued
/// operations share it.
class work {
 public:
  virtual ~work() = default;
  virtual void run() const = 0;
  /// Whether the work runs even on a poisoned device, since other threads wait for its bookkeeping.
  virtual bool runs_when_poisoned() const noexcept { return false; }
  /// Of the class, in builds without types at run time.
  virtual work_kind kind() const noexcept { return work_kind::other; }
};

/// One entry of a stream's queue.
struct operation : sync_point {
  std::shared_ptr<work const> what;  // null: an empty operation
  std::vector<std::shared_ptr<sync_point>> waits;
  char enqueued = 0;       // token: released by the host, acquired by the worker
  std::uint32_t call = 0;  // that enqueued it, where activity is recorded
};

/// An in-order queue, with a worker thread that the first operation starts.
struct stream_state {
  enum class family { created, legacy, per_thread };

  std::uint64_t id = 0;
  device_state* device = nullptr;
  family kind = family::created;
  unsigned flags = cudaStreamDefault;
  int priority = 0;
  unsigned channel = 0;
  std::int64_t simulated_ns = 0;  // with simulated_time: the time of the last completed operation

  std::deque<std::shared_ptr<operation>> queue;
  std::shared_ptr<operation> last;  // the newest operation, done or not
  std::condition_variable work_available;
  bool worker_started = false;
  bool worker_sleeping = false;
  std::atomic<bool> has_work{false};  // a hint for the worker's spin loop
  bool closing = false;               // the worker exits when the queue is empty
  bool kept = false;                  // never destroyed: not a leak

  std::shared_ptr<capture_session> capture;           // null: not capturing
  std::vector<graph_node*> capture_tail;              // dependencies of the next captured node
  std::vector<cudaGraphNode_t> capture_tail_handles;  // storage for cudaStreamGetCaptureInfo
  std::vector<cudaGraphEdgeData> capture_tail_edges;

  bool blocking() const noexcept {
    return kind != family::legacy && (flags & cudaStreamNonBlocking) == 0;
  }
};

struct event_state {
  unsigned flags = 0;
  device_state* device = nullptr;
  std::shared_ptr<sync_point> record;      // null: never recorded
  bool captured = false;                   // the last record was captured
  std::weak_ptr<capture_session> capture;  // that capture, if it still exists
  std::vector<graph_node*> capture_nodes;
};

/// A registered memory range: an allocation, mapping or host registration.
struct allocation {
  enum class family { device, pool, graph, managed, pinned, registered, vmm };

  family kind = family::device;
  std::uintptr_t base = 0;
  std::size_t bytes = 0;         // requested size
  std::size_t mapped_bytes = 0;  // size in whole pages
  std::size_t open_bytes = 0;    // of a pool: the most requested, of this block and of those before
                                 // it in the same memory whose frees were queued
  device_state* device = nullptr;
  unsigned flags = 0;  // cudaHostAlloc*, cudaHostRegister*, cudaMemAttach*
  std::shared_ptr<pool_state> pool;
  bool free_queued = false;  // cudaFreeAsync was called, the stream has not reached it
  std::uint64_t free_stream = 0;
  std::shared_ptr<sync_point> free_reached;  // of that stream
  bool accessible = true;                    // mapped memory: cuMemSetAccess was called
  std::uint64_t accessible_to = 0;           // mapped memory: a bit for each such device
  bool graph_live = true;                    // graph memory: between its allocation and its free
  std::uint64_t id = 0;

  bool on_device() const noexcept {
    return kind == family::device || kind == family::pool || kind == family::graph ||
           kind == family::vmm;
  }
  bool on_host() const noexcept { return kind == family::pinned || kind == family::registered; }
};

struct pool_state {
  device_state* device = nullptr;
  bool is_default = false;
  bool destroyed = false;
  cudaMemPool_t handle = nullptr;
  std::size_t max_bytes = 0;  // 0: no limit
  std::uint64_t release_threshold = 0;
  int reuse_follow_event_dependencies = 1;
  int reuse_opportunistic = 1;
  int reuse_internal_dependencies = 1;
  std::uint64_t reserved = 0, reserved_high = 0;
  std::uint64_t used = 0, used_high = 0;
  std::multimap<std::size_t, std::uintptr_t> idle;  // mapped bytes -> base
  std::map<int, cudaMemAccessFlags> access;         // of other devices
  char token = 0;  // orders the last use of a block before the next
};

/// The address range of a device's memory.
struct address_range {
  std::uintptr_t base = 0;
  std::size_t bytes = 0;
  std::size_t unused_offset = 0;                      // offset of the part not used yet
  std::map<std::uintptr_t, std::size_t> free_ranges;  // by address
};

struct device_state {
  int ordinal = 0;
  cudaDeviceProp properties = {};
  testing::device_profile profile;
  std::size_t memory_bytes = 0;
  std::size_t used_bytes = 0;
  address_range range;
  std::atomic<int> sticky{0};  // cudaError_t; cudaSuccess: none
  std::shared_ptr<stream_state> legacy;
  std::vector<std::shared_ptr<stream_state>>
      streams;                // all but legacy; closed streams until they are drained
  char drained = 0;           // token: released by destroyed streams, for device-wide waits
  char drained_blocking = 0;  // token: the same for blocking streams, for the legacy stream
  std::shared_ptr<pool_state> default_pool;
  std::shared_ptr<pool_state> current_pool;
  std::vector<bool> peers;            // [other]: cudaDeviceEnablePeerAccess was called here
  std::map<int, std::size_t> limits;  // cudaLimit -> value
  unsigned device_flags = 0;
  std::uint64_t graph_used = 0, graph_used_high = 0;
  std::uint64_t graph_reserved = 0, graph_reserved_high = 0;
};

}  // namespace warpwright::host
