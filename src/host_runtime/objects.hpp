// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What the runtime is made of. All of it is guarded by the runtime's lock, but for what says
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

/// A point in a stream's work that others may wait for.
struct milestone {
  std::atomic<bool> done{false};  // written under the lock, read anywhere as a hint
  unsigned lane = 0;              // which of the runtime's condition variables tells of it
  std::int64_t finished_ns = 0;   // steady clock, or counted
  char token = 0;                 // for acquire/release
};

/// What an operation or a graph node does. Immutable once made: graphs, their executable copies and
/// queued operations share it.
class work {
 public:
  virtual ~work() = default;
  virtual void run() const = 0;
  /// Book-keeping that others wait for is done even where a device takes no work any more.
  virtual bool runs_when_poisoned() const noexcept { return false; }
};

/// One entry of a stream's queue.
struct operation : milestone {
  std::shared_ptr<work const> what;  // null: a marker
  std::vector<std::shared_ptr<milestone>> waits;
  char enqueued = 0;  // token: the host released it, the worker acquires it
};

/// An in-order queue and the worker thread that runs it, started by the first operation.
struct stream_state {
  enum class family { created, legacy, per_thread };

  std::uint64_t id = 0;
  device_state* device = nullptr;
  family kind = family::created;
  unsigned flags = cudaStreamDefault;
  int priority = 0;
  unsigned lane = 0;
  std::int64_t counted_ns = 0;  // with counted_time: how far its work has come

  std::deque<std::shared_ptr<operation>> queue;
  std::shared_ptr<operation> last;  // newest operation, done or not
  std::condition_variable work_came;
  bool worker_started = false;
  bool worker_sleeps = false;
  std::atomic<bool> has_work{false};  // hint for the worker's short spin
  bool closing = false;               // the worker leaves when the queue is empty

  std::shared_ptr<capture_session> capture;           // while the stream takes part in one
  std::vector<graph_node*> capture_tail;              // what the next captured node depends on
  std::vector<cudaGraphNode_t> capture_tail_handles;  // what cudaStreamGetCaptureInfo handed out
  std::vector<cudaGraphEdgeData> capture_tail_edges;

  bool blocking() const noexcept {
    return kind != family::legacy && (flags & cudaStreamNonBlocking) == 0;
  }
};

struct event_state {
  unsigned flags = 0;
  device_state* device = nullptr;
  std::shared_ptr<milestone> record;       // null: never recorded
  bool captured = false;                   // last recorded inside a capture
  std::weak_ptr<capture_session> capture;  // that capture, while it lasts
  std::vector<graph_node*> capture_nodes;
};

/// Anything that a pointer can point into and the runtime knows about.
struct allocation {
  enum class family { device, pool, graph, managed, pinned, registered, vmm };

  family kind = family::device;
  std::uintptr_t base = 0;
  std::size_t bytes = 0;         // what the user asked for
  std::size_t mapped_bytes = 0;  // whole pages behind it
  device_state* device = nullptr;
  unsigned flags = 0;  // cudaHostAlloc*, cudaHostRegister*, cudaMemAttach*
  std::shared_ptr<pool_state> pool;
  bool free_queued = false;  // cudaFreeAsync was called, the stream has not come to it
  std::uint64_t free_stream = 0;
  std::shared_ptr<milestone> free_reached;  // by that stream
  bool accessible = true;                   // of mapped memory: after cuMemSetAccess
  bool graph_live = true;                   // of graph memory: between its allocation and its free
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
  std::size_t max_bytes = 0;  // 0: no limit of its own
  std::uint64_t release_threshold = 0;
  int reuse_follow_event_dependencies = 1;
  int reuse_opportunistic = 1;
  int reuse_internal_dependencies = 1;
  std::uint64_t reserved = 0, reserved_high = 0;
  std::uint64_t used = 0, used_high = 0;
  std::multimap<std::size_t, std::uintptr_t> idle;  // mapped bytes -> base
  std::map<int, cudaMemAccessFlags> access;         // of other devices
  char token = 0;                                   // orders a block's last use before its next
};

/// The address range that a device's memory is handed out of.
struct address_range {
  std::uintptr_t base = 0;
  std::size_t bytes = 0;
  std::size_t fresh = 0;                        // offset of the part never handed out
  std::map<std::uintptr_t, std::size_t> holes;  // given back, by address
};

struct device_state {
  int ordinal = 0;
  cudaDeviceProp properties = {};
  testing::device_profile profile;
  std::size_t memory_bytes = 0;
  std::size_t used_bytes = 0;
  address_range range;
  std::atomic<int> sticky{0};  // cudaError_t; 0: healthy
  std::shared_ptr<stream_state> legacy;
  std::vector<std::shared_ptr<stream_state>> streams;  // all but legacy, until drained
  char drained = 0;           // token: released by streams that are gone, for device-wide waits
  char drained_blocking = 0;  // token: the same of blocking streams, for the legacy stream
  std::shared_ptr<pool_state> default_pool;
  std::shared_ptr<pool_state> current_pool;
  std::vector<bool> peers;            // [other]: cudaDeviceEnablePeerAccess was called here
  std::map<int, std::size_t> limits;  // cudaLimit -> value
  unsigned device_flags = 0;
  std::uint64_t graph_used = 0, graph_used_high = 0;
  std::uint64_t graph_reserved = 0, graph_reserved_high = 0;
};

}  // namespace warpwright::host
