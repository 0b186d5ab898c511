// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Stream-ordered allocation. An allocation has its address when the call returns; a free takes
// effect when the stream reaches it. Freed memory stays in the pool until a synchronisation trims
// the pool to its release threshold.
#include <algorithm>
#include <chrono>

#include "graph.hpp"
#include "runtime.hpp"

namespace warpwright::host {
namespace {

// A block fits a request if it wastes less than 1/8 of the request: a large block must not serve a
// small request.
bool fits(std::size_t block, std::size_t needed) {
  return block >= needed && block - needed <= needed / 8 + 4096;
}

void update_peak(std::uint64_t& high, std::uint64_t now) { high = (std::max)(high, now); }

void release_pool_block(pool_state& pool, std::uintptr_t base, std::size_t bytes) {
  unmap_device_pages(*pool.device, base, bytes);
  uncharge_device_memory(*pool.device, bytes);
  pool.reserved -= bytes;
}

// Allocates memory for `entry` from the pool's idle blocks or from the device.
bool allocate_from_pool(runtime& rt, pool_state& pool, std::size_t bytes, allocation& entry) {
  std::size_t const needed = device_pages(bytes);
  if (pool.reuse_opportunistic != 0) {
    auto const it = pool.idle.lower_bound(needed);
    if (it != pool.idle.end() && fits(it->first, needed)) {
      entry.mapped_bytes = it->first;
      entry.base = it->second;
      pool.idle.erase(it);
      acquire(&pool.token);
      set_accessible_bytes(entry.base, bytes, entry.mapped_bytes);
      return true;
    }
  }
  if (pool.max_bytes != 0 && pool.reserved + needed > pool.max_bytes) {
    trim_pool(rt, pool, 0);
    if (pool.reserved + needed > pool.max_bytes) return false;
  }
  if (!charge_device_memory(rt, *pool.device, needed)) return false;
  entry.base = map_device_pages(*pool.device, bytes, entry.mapped_bytes);
  if (entry.base == 0) {
    uncharge_device_memory(*pool.device, needed);
    return false;
  }
  pool.reserved += needed;
  update_peak(pool.reserved_high, pool.reserved);
  return true;
}

// Reuses memory whose free is queued: later work in the same stream may use it, and so may another
// stream that waits for the free.
bool reuse_queued_free(runtime& rt, pool_state const& pool, stream_state& stream, std::size_t bytes,
                       allocation& entry) {
  std::size_t const needed = device_pages(bytes);
  allocation const* best = nullptr;
  for (auto& [base, old] : rt.allocations) {
    if (!old.free_queued || old.pool.get() != &pool || old.mapped_bytes < needed) continue;
    bool const same = old.free_stream == stream.id;
    if (!same && pool.reuse_internal_dependencies == 0) continue;
    best = &old;
    if (same) break;
  }
  if (best == nullptr) return false;
  entry.base = best->base;
  entry.mapped_bytes = best->mapped_bytes;
  entry.pool = best->pool;
  // Work enqueued before the free may still use the old size, and that of a block before it, whose
  // free may be queued as well.
  entry.open_bytes = (std::max)(best->open_bytes, bytes);
  set_accessible_bytes(entry.base, entry.open_bytes, best->mapped_bytes);
  if (best->free_stream != stream.id) enqueue(rt, stream, nullptr, {best->free_reached});
  return true;
}

cudaError_t allocate_async(runtime& rt, void** pointer, std::size_t bytes, pool_state* pool,
                           null_stream default_stream, cudaStream_t handle) {
  if (pointer == nullptr) return cudaErrorInvalidValue;
  runtime_lock lock(rt.mutex);
  auto const stream = find_stream(rt, handle, default_stream);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (cudaError_t const code = forbid_implicit(rt, *stream)) return code;
  if (pool == nullptr) pool = stream->device->current_pool.get();
  if (stream->capture != nullptr) return capture_allocation(rt, *stream, pool, bytes, pointer);
  if (bytes == 0) {
    *pointer = nullptr;
    return cudaSuccess;
  }
  if (bytes > pool->device->memory_bytes) return cudaErrorMemoryAllocation;
  allocation entry;
  entry.kind = allocation::family::pool;
  entry.bytes = bytes;
  entry.open_bytes = bytes;
  entry.device = pool->device;
  entry.pool = rt.pools.find(pool->handle);
  auto const deadline = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  while (!allocate_from_pool(rt, *pool, bytes, entry)) {
    if (reuse_queued_free(rt, *pool, *stream, bytes, entry)) break;
    // Several queued frees together may suffice; the wait has a deadline, as one may depend on work
    // that this thread has not enqueued yet.
    std::size_t const before = rt.queued_frees;
    while (rt.queued_frees != 0 && rt.queued_frees == before) {
      if (rt.worker_exited.wait_until(lock.native(), deadline) == std::cv_status::timeout) break;
    }
    if (rt.queued_frees == before) return cudaErrorMemoryAllocation;
  }
  pool->used += bytes;
  update_peak(pool->used_high, pool->used);
  *pointer = reinterpret_cast<void*>(entry.base);
  add_allocation(rt, std::move(entry));
  // An operation of the stream: other streams must be ordered after it to use the memory.
  enqueue(rt, *stream, nullptr);
  return cudaSuccess;
}

class free_work final : public work {
 public:
  free_work(runtime& rt, std::uintptr_t base, std::uint64_t id) : rt_(rt), base_(base), id_(id) {}
  bool runs_when_poisoned() const noexcept override { return true; }
  void run() const override {
    runtime_lock lock(rt_.mutex);
    --rt_.queued_frees;
    rt_.worker_exited.notify_all();
    auto const it = rt_.allocations.find(base_);
    // A later allocation in the same stream has reused the memory: there is nothing to free.
    if (it == rt_.allocations.end() || it->second.id != id_) return;
    release_to_pool(rt_, it->second);
  }

 private:
  runtime& rt_;
  std::uintptr_t base_;
  std::uint64_t id_;
};

class free_graph_work final : public work {
 public:
  explicit free_graph_work(std::shared_ptr<graph_memory> memory) : memory_(std::move(memory)) {}
  void run() const override { set_accessible_bytes(memory_->base, 0, memory_->mapped_bytes); }

 private:
  std::shared_ptr<graph_memory> memory_;  // the last reference if the graph has been destroyed
};

cudaError_t free_async(null_stream default_stream, void* pointer, cudaStream_t handle) {
  static call_site site{"cudaFreeAsync"};
  return api(site, needs::device, [&](runtime& rt) {
    runtime_lock lock(rt.mutex);
    auto const stream = find_stream(rt, handle, default_stream);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (pointer == nullptr) return cudaErrorInvalidValue;
    if (cudaError_t const code = forbid_implicit(rt, *stream)) return code;
    if (stream->capture != nullptr) return capture_free(rt, *stream, pointer);
    auto const it = rt.allocations.find(reinterpret_cast<std::uintptr_t>(pointer));
    if (it == rt.allocations.end() || it->second.free_queued) return cudaErrorInvalidValue;
    allocation& entry = it->second;
    if (entry.kind == allocation::family::graph) {
      auto memory = end_graph_memory(rt, entry.base);
      if (memory == nullptr) return cudaErrorInvalidValue;
      enqueue(rt, *stream, std::make_shared<free_graph_work>(std::move(memory)));
      return cudaSuccess;
    }
    if (entry.kind != allocation::family::pool) return cudaErrorInvalidValue;
    entry.free_queued = true;
    entry.free_stream = stream->id;
    entry.pool->used -= entry.bytes;
    ++rt.queued_frees;
    entry.free_reached =
        enqueue(rt, *stream, std::make_shared<free_work>(rt, entry.base, entry.id));
    return cudaSuccess;
  });
}

cudaError_t malloc_async(null_stream default_stream, void** pointer, std::size_t bytes,
                         cudaStream_t handle) {
  static call_site site{"cudaMallocAsync"};
  return api(site, needs::device, [&](runtime& rt) {
    return allocate_async(rt, pointer, bytes, nullptr, default_stream, handle);
  });
}

cudaError_t malloc_from_pool(null_stream default_stream, void** pointer, std::size_t bytes,
                             cudaMemPool_t pool_handle, cudaStream_t handle) {
  static call_site site{"cudaMallocFromPoolAsync"};
  return api(site, needs::device, [&](runtime& rt) {
    std::shared_ptr<pool_state> pool;
    {
      runtime_lock lock(rt.mutex);
      pool = rt.pools.find(pool_handle);
    }
    if (pool == nullptr) return cudaErrorInvalidValue;
    return allocate_async(rt, pointer, bytes, pool.get(), default_stream, handle);
  });
}

std::uint64_t* statistic(pool_state& pool, cudaMemPoolAttr which) {
  switch (static_cast<int>(which)) {
    case cudaMemPoolAttrReleaseThreshold:
      return &pool.release_threshold;
    case cudaMemPoolAttrReservedMemCurrent:
      return &pool.reserved;
    case cudaMemPoolAttrReservedMemHigh:
      return &pool.reserved_high;
    case cudaMemPoolAttrUsedMemCurrent:
      return &pool.used;
    case cudaMemPoolAttrUsedMemHigh:
      return &pool.used_high;
    default:
      return nullptr;
  }
}

int* option(pool_state& pool, cudaMemPoolAttr which) {
  switch (static_cast<int>(which)) {
    case cudaMemPoolReuseFollowEventDependencies:
      return &pool.reuse_follow_event_dependencies;
    case cudaMemPoolReuseAllowOpportunistic:
      return &pool.reuse_opportunistic;
    case cudaMemPoolReuseAllowInternalDependencies:
      return &pool.reuse_internal_dependencies;
    default:
      return nullptr;
  }
}

device_state* device_of(runtime& rt, int ordinal) {
  if (ordinal < 0 || static_cast<std::size_t>(ordinal) >= rt.devices.size()) return nullptr;
  return rt.devices[static_cast<std::size_t>(ordinal)].get();
}

}  // namespace

void make_default_pool(runtime& rt, device_state& device) {
  auto pool = std::make_shared<pool_state>();
  pool->device = &device;
  pool->is_default = true;
  pool->handle = rt.pools.add(pool);
  device.default_pool = pool;
  device.current_pool = pool;
}

void release_to_pool(runtime& rt, allocation& entry) {
  std::shared_ptr<pool_state> const pool = entry.pool;
  std::uintptr_t const base = entry.base;
  std::size_t const mapped = entry.mapped_bytes;
  if (!entry.free_queued) pool->used -= entry.bytes;
  release(&pool->token);
  rt.allocations.erase(base);
  set_accessible_bytes(base, 0, mapped);
  if (pool->destroyed) {
    release_pool_block(*pool, base, mapped);
  } else {
    pool->idle.emplace(mapped, base);
  }
}

void trim_pool(runtime&, pool_state& pool, std::uint64_t keep_bytes) {
  while (!pool.idle.empty() && pool.reserved > keep_bytes) {
    auto const largest = std::prev(pool.idle.end());
    std::size_t const bytes = largest->first;
    std::uintptr_t const base = largest->second;
    pool.idle.erase(largest);
    release_pool_block(pool, base, bytes);
  }
}

void trim_pools_after_sync(runtime& rt) {
  rt.pools.for_each([&rt](cudaMemPool_t, std::shared_ptr<pool_state> const& pool) {
    if (!pool->idle.empty() && pool->reserved > pool->release_threshold) {
      trim_pool(rt, *pool, pool->release_threshold);
    }
  });
}

}  // namespace warpwright::host

using namespace warpwright::host;

WARPWRIGHT_STREAM_API(cudaMallocAsync, _ptsz, malloc_async,
                      (void** pointer, size_t bytes, cudaStream_t stream), (pointer, bytes, stream))
WARPWRIGHT_STREAM_API(cudaFreeAsync, _ptsz, free_async, (void* pointer, cudaStream_t stream),
                      (pointer, stream))
WARPWRIGHT_STREAM_API(cudaMallocFromPoolAsync, _ptsz, malloc_from_pool,
                      (void** pointer, size_t bytes, cudaMemPool_t pool, cudaStream_t stream),
                      (pointer, bytes, pool, stream))

WARPWRIGHT_API cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int ordinal) {
  static call_site site{"cudaDeviceGetDefaultMemPool"};
  return api(site, needs::device, [&](runtime& rt) {
    if (pool == nullptr) return cudaErrorInvalidValue;
    runtime_lock lock(rt.mutex);
    device_state const* device = device_of(rt, ordinal);
    if (device == nullptr) return cudaErrorInvalidDevice;
    *pool = device->default_pool->handle;
    return cudaSuccess;
  });
}

WARPWRIGHT_API cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int ordinal) {
  static call_site site{"cudaDeviceGetMemPool"};
  return api(site, needs::device, [&](runtime& rt) {
    if (pool == nullptr) return cudaErrorInvalidValue;
    runtime_lock lock(rt.mutex);
    device_state const* device = device_of(rt, ordinal);
    if (device == nullptr) return cudaErrorInvalidDevice;
    *pool = device->current_pool->handle;
    return cudaSuccess;
  });
}

WARPWRIGHT_API cudaError_t cudaDeviceSetMemPool(int ordinal, cudaMemPool_t handle) {
  static call_site site{"cudaDeviceSetMemPool"};
  return api(site, needs::device, [&](runtime& rt) {
    runtime_lock lock(rt.mutex);
    if (cudaError_t const code = forbid_unsafe(rt)) return code;
    device_state* device = device_of(rt, ordinal);
    if (device == nullptr) return cudaErrorInvalidDevice;
    auto const pool = rt.pools.find(handle);
    if (pool == nullptr || pool->device != device) return cudaErrorInvalidValue;
    device->current_pool = pool;
    return cudaSuccess;
  });
}

WARPWRIGHT_API cudaError_t cudaMemPoolCreate(cudaMemPool_t* handle,
                                             cudaMemPoolProps const* properties) {
  static call_site site{"cudaMemPoolCreate"};
  return api(site, needs::device, [&](runtime& rt) {
    if (handle == nullptr || properties == nullptr ||
        properties->allocType != cudaMemAllocationTypePinned) {
      return cudaErrorInvalidValue;
    }
    // Host pools and handles for other processes are not implemented.
    if (properties->location.type != cudaMemLocationTypeDevice ||
        properties->handleTypes != cudaMemHandleTypeNone) {
      return cudaErrorNotSupported;
    }
    runtime_lock lock(rt.mutex);
    if (cudaError_t const code = forbid_unsafe(rt)) return code;
    device_state* device = device_of(rt, properties->location.id);
    if (device == nullptr) return cudaErrorInvalidDevice;
    auto pool = std::make_shared<pool_state>();
    pool->device = device;
    pool->max_bytes = properties->maxSize;
    pool->handle = rt.pools.add(pool);
    *handle = pool->handle;
    return cudaSuccess;
  });
}

WARPWRIGHT_API cudaError_t cudaMemPoolDestroy(cudaMemPool_t handle) {
  static call_site site{"cudaMemPoolDestroy"};
  return api(site, needs::device, [&](runtime& rt) {
    runtime_lock lock(rt.mutex);
    if (cudaError_t const code = forbid_unsafe(rt)) return code;
    auto const pool = rt.pools.find(handle);
    if (pool == nullptr || pool->is_default) return cudaErrorInvalidValue;
    trim_pool(rt, *pool, 0);
    pool->destroyed = true;  // live allocations return to the device when they are freed
    for (auto const& device : rt.devices) {
      if (device->current_pool == pool) device->current_pool = device->default_pool;
    }
    rt.pools.remove(handle);
    return cudaSuccess;
  });
}

WARPWRIGHT_API cudaError_t cudaMemPoolTrimTo(cudaMemPool_t handle, size_t keep_bytes) {
  static call_site site{"cudaMemPoolTrimTo"};
  return api(site, needs::device, [&](runtime& rt) {
    runtime_lock lock(rt.mutex);
    if (cudaError_t const code = forbid_unsafe(rt)) return code;
    auto const pool = rt.pools.find(handle);
    if (pool == nullptr) return cudaErrorInvalidValue;
    trim_pool(rt, *pool, keep_bytes);
    return cudaSuccess;
  });
}

WARPWRIGHT_API cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t handle, cudaMemPoolAttr which,
                                                   void* value) {
  static call_site site{"cudaMemPoolSetAttribute"};
  return api(site, needs::device, [&](runtime& rt) {
    if (value == nullptr) return cudaErrorInvalidValue;
    runtime_lock lock(rt.mutex);
    if (cudaError_t const code = forbid_unsafe(rt)) return code;
    auto const pool = rt.pools.find(handle);
    if (pool == nullptr) return cudaErrorInvalidValue;
    if (int* const attribute = option(*pool, which)) {
      *attribute = *static_cast<int const*>(value);
      return cudaSuccess;
    }
    std::uint64_t const number = *static_cast<std::uint64_t const*>(value);
    switch (static_cast<int>(which)) {
      case cudaMemPoolAttrReleaseThreshold:
        pool->release_threshold = number;
        return cudaSuccess;
      case cudaMemPoolAttrReservedMemHigh:
        if (number != 0) return cudaErrorInvalidValue;
        pool->reserved_high = pool->reserved;
        return cudaSuccess;
      case cudaMemPoolAttrUsedMemHigh:
        if (number != 0) return cudaErrorInvalidValue;
        pool->used_high = pool->used;
        return cudaSuccess;
      default:
        return cudaErrorInvalidValue;
    }
  });
}

WARPWRIGHT_API cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t handle, cudaMemPoolAttr which,
                                                   void* value) {
  static call_site site{"cudaMemPoolGetAttribute"};
  return api(site, needs::device, [&](runtime& rt) {
    if (value == nullptr) return cudaErrorInvalidValue;
    runtime_lock lock(rt.mutex);
    if (cudaError_t const code = forbid_unsafe(rt)) return code;
    auto const pool = rt.pools.find(handle);
    if (pool == nullptr) return cudaErrorInvalidValue;
    if (int const* attribute = option(*pool, which)) {
      *static_cast<int*>(value) = *attribute;
    } else if (std::uint64_t const* number = statistic(*pool, which)) {
      *static_cast<std::uint64_t*>(value) = *number;
    } else {
      return cudaErrorInvalidValue;
    }
    return cudaSuccess;
  });
}

WARPWRIGHT_API cudaError_t cudaMemPoolSetAccess(cudaMemPool_t handle, cudaMemAccessDesc const* list,
                                                size_t count) {
  static call_site site{"cudaMemPoolSetAccess"};
  return api(site, needs::device, [&](runtime& rt) {
    if (list == nullptr && count > 0) return cudaErrorInvalidValue;
    runtime_lock lock(rt.mutex);
    if (cudaError_t const code = forbid_unsafe(rt)) return code;
    auto const pool = rt.pools.find(handle);
    if (pool == nullptr) return cudaErrorInvalidValue;
    for (std::size_t i = 0; i < count; ++i) {
      if (list[i].location.type != cudaMemLocationTypeDevice) return cudaErrorInvalidValue;
      if (device_of(rt, list[i].location.id) == nullptr) return cudaErrorInvalidDevice;
      // A pool's own device always has access.
      if (list[i].location.id == pool->device->ordinal &&
          list[i].flags != cudaMemAccessFlagsProtReadWrite) {
        return cudaErrorInvalidDevice;
      }
    }
    for (std::size_t i = 0; i < count; ++i) pool->access[list[i].location.id] = list[i].flags;
    return cudaSuccess;
  });
}

WARPWRIGHT_API cudaError_t cudaMemPoolGetAccess(cudaMemAccessFlags* flags, cudaMemPool_t handle,
                                                cudaMemLocation* location) {
  static call_site site{"cudaMemPoolGetAccess"};
  return api(site, needs::device, [&](runtime& rt) {
    if (flags == nullptr || location == nullptr) return cudaErrorInvalidValue;
    runtime_lock lock(rt.mutex);
    if (cudaError_t const code = forbid_unsafe(rt)) return code;
    auto const pool = rt.pools.find(handle);
    if (pool == nullptr || location->type != cudaMemLocationTypeDevice) {
      return cudaErrorInvalidValue;
    }
    if (device_of(rt, location->id) == nullptr) return cudaErrorInvalidDevice;
    auto const it = pool->access.find(location->id);
    *flags = location->id == pool->device->ordinal ? cudaMemAccessFlagsProtReadWrite
             : it != pool->access.end()            ? it->second
                                                   : cudaMemAccessFlagsProtNone;
    return cudaSuccess;
  });
}
