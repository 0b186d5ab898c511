// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Device, managed and pinned memory, and pointer attributes.
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "graph.hpp"
#include "runtime.hpp"

namespace warpwright::host {
namespace {

constexpr std::size_t accounting_unit = 512;
constexpr std::size_t host_page = 4096;

std::size_t charged_bytes(std::size_t bytes) {
  return (bytes + accounting_unit - 1) / accounting_unit * accounting_unit;
}

cudaError_t allocate_device(runtime& rt, void** pointer, std::size_t bytes) {
  if (pointer == nullptr) return cudaErrorInvalidValue;
  runtime_lock lock(rt.mutex);
  if (cudaError_t const code = forbid_unsafe(rt)) return code;
  if (bytes == 0) {
    *pointer = nullptr;
    return cudaSuccess;
  }
  device_state& device = current_device(rt);
  if (bytes > device.memory_bytes || !charge_device_memory(rt, device, charged_bytes(bytes))) {
    return cudaErrorMemoryAllocation;
  }
  allocation entry;
  entry.kind = allocation::family::device;
  entry.base = map_device_pages(device, bytes, entry.mapped_bytes);
  if (entry.base == 0) {
    uncharge_device_memory(device, charged_bytes(bytes));
    return cudaErrorMemoryAllocation;
  }
  entry.bytes = bytes;
  entry.device = &device;
  add_allocation(rt, entry);
  *pointer = reinterpret_cast<void*>(entry.base);
  return cudaSuccess;
}

void* allocate_host_pages(std::size_t bytes) {
  void* memory = nullptr;
  if (bytes > (std::size_t{1} << 46)) return nullptr;
  if (posix_memalign(&memory, host_page, bytes) != 0) return nullptr;
  std::memset(memory, fill_byte, bytes);
  return memory;
}

cudaError_t allocate_pinned(runtime& rt, void** pointer, std::size_t bytes, unsigned flags) {
  constexpr unsigned known =
      cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined;
  if (pointer == nullptr || (flags & ~known) != 0) return cudaErrorInvalidValue;
  runtime_lock lock(rt.mutex);
  if (cudaError_t const code = forbid_unsafe(rt)) return code;
  if (bytes == 0) {
    *pointer = nullptr;
    return cudaSuccess;
  }
  void* const memory = allocate_host_pages(bytes);
  if (memory == nullptr) return cudaErrorMemoryAllocation;
  allocation entry;
  entry.kind = allocation::family::pinned;
  entry.base = reinterpret_cast<std::uintptr_t>(memory);
  entry.bytes = bytes;
  entry.device = &current_device(rt);
  entry.flags = flags | cudaHostAllocMapped;
  add_allocation(rt, entry);
  *pointer = memory;
  return cudaSuccess;
}

// All frees synchronise with the device, as in CUDA.
cudaError_t free_pointer(runtime& rt, void* pointer, bool host) {
  runtime_lock lock(rt.mutex);
  if (cudaError_t const code = forbid_unsafe(rt)) return code;
  if (pointer == nullptr) return cudaSuccess;
  auto const base = reinterpret_cast<std::uintptr_t>(pointer);
  auto it = rt.allocations.find(base);
  auto const freeable = [&] {
    if (it == rt.allocations.end() || it->second.free_queued) return false;
    switch (it->second.kind) {
      case allocation::family::device:
      case allocation::family::pool:
      case allocation::family::managed:
        return !host;
      case allocation::family::graph:
        return !host && it->second.graph_live;
      case allocation::family::pinned:
        return host;
      case allocation::family::registered:
      case allocation::family::vmm:
        break;
    }
    return false;
  };
  if (!freeable()) return cudaErrorInvalidValue;
  std::uint64_t const id = it->second.id;
  wait_for_device(rt, lock, *it->second.device);
  // The wait released the lock: another thread may have freed the pointer.
  it = rt.allocations.find(base);
  if (!freeable() || it->second.id != id) return cudaErrorInvalidValue;
  allocation entry = it->second;
  switch (entry.kind) {
    case allocation::family::pool:
      release_to_pool(rt, it->second);
      return sticky_error(rt);
    case allocation::family::graph: {
      set_accessible_bytes(entry.base, 0, entry.mapped_bytes);
      auto const memory = end_graph_memory(rt, entry.base);
      return sticky_error(rt);
    }
    case allocation::family::device:
      rt.allocations.erase(it);
      unmap_device_pages(*entry.device, entry.base, entry.mapped_bytes);
      uncharge_device_memory(*entry.device, charged_bytes(entry.bytes));
      return sticky_error(rt);
    case allocation::family::managed:
    case allocation::family::pinned:
    case allocation::family::registered:
    case allocation::family::vmm:
      break;
  }
  rt.allocations.erase(it);
  std::free(pointer);
  return sticky_error(rt);
}

cudaMemoryType type_of(allocation const& entry) {
  if (entry.kind == allocation::family::managed) return cudaMemoryTypeManaged;
  return entry.on_host() ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
}

// Checks a location for managed memory.
cudaError_t check_location(runtime const& rt, cudaMemLocation location) {
  switch (static_cast<int>(location.type)) {
    case cudaMemLocationTypeDevice:
      return location.id >= 0 && static_cast<std::size_t>(location.id) < rt.devices.size()
                 ? cudaSuccess
                 : cudaErrorInvalidDevice;
    case cudaMemLocationTypeHost:
    case cudaMemLocationTypeHostNuma:
    case cudaMemLocationTypeHostNumaCurrent:
      return cudaSuccess;
    default:
      return cudaErrorInvalidValue;
  }
}

// Checks a processor that accesses managed memory; a NUMA node is not a processor.
cudaError_t check_accessor(runtime const& rt, cudaMemLocation location) {
  bool const numa = location.type == cudaMemLocationTypeHostNuma ||
                    location.type == cudaMemLocationTypeHostNumaCurrent;
  return numa ? cudaErrorInvalidValue : check_location(rt, location);
}

}  // namespace

allocation* find_allocation(runtime& rt, void const* pointer) {
  auto const at = reinterpret_cast<std::uintptr_t>(pointer);
  auto it = rt.allocations.upper_bound(at);
  if (it == rt.allocations.begin()) return nullptr;
  --it;
  return at - it->first < it->second.bytes ? &it->second : nullptr;
}

allocation& add_allocation(runtime& rt, allocation entry) {
  entry.id = rt.next_allocation++;
  return rt.allocations.insert_or_assign(entry.base, std::move(entry)).first->second;
}

bool is_device_address(runtime const& rt, void const* pointer) noexcept {
  auto const at = reinterpret_cast<std::uintptr_t>(pointer);
  for (auto const& device : rt.devices) {
    if (at - device->range.base < device->range.bytes) return true;
  }
  return false;
}

bool charge_device_memory(runtime& rt, device_state& device, std::size_t bytes) {
  if (bytes > device.memory_bytes) return false;
  if (device.memory_bytes - device.used_bytes < bytes) {
    // As the driver does, trims idle memory of the pools before an allocation fails.
    rt.pools.for_each([&](cudaMemPool_t, auto const& pool) {
      if (pool->device == &device) trim_pool(rt, *pool, 0);
    });
    trim_graph_memory(rt, device);
  }
  if (device.memory_bytes - device.used_bytes < bytes) return false;
  device.used_bytes += bytes;
  return true;
}

void uncharge_device_memory(device_state& device, std::size_t bytes) { device.used_bytes -= bytes; }

void free_device_allocations(runtime& rt, device_state& device) {
  for (auto it = rt.allocations.begin(); it != rt.allocations.end();) {
    allocation const entry = it->second;
    bool const gone = entry.device == &device && entry.kind != allocation::family::vmm &&
                      entry.kind != allocation::family::graph;
    if (!gone) {
      ++it;
      continue;
    }
    ++it;
    if (entry.kind == allocation::family::pool) {
      release_to_pool(rt, rt.allocations.at(entry.base));
      continue;
    }
    rt.allocations.erase(entry.base);
    if (entry.kind == allocation::family::device) {
      unmap_device_pages(device, entry.base, entry.mapped_bytes);
      uncharge_device_memory(device, charged_bytes(entry.bytes));
    } else if (entry.kind != allocation::family::registered) {
      std::free(reinterpret_cast<void*>(entry.base));
    }
  }
}

void free_everything(runtime& rt) {
  for (auto& [base, entry] : rt.allocations) {
    switch (entry.kind) {
      case allocation::family::pinned:
      case allocation::family::managed:
        std::free(reinterpret_cast<void*>(base));
        break;
      case allocation::family::device:
      case allocation::family::pool:
      case allocation::family::graph:
      case allocation::family::registered:
      case allocation::family::vmm:
        break;  // part of an address range, or owned by the program
    }
  }
  rt.allocations.clear();
}

}  // namespace warpwright::host

using namespace warpwright::host;

WARPWRIGHT_API cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  static call_site site{"cudaMalloc"};
  return api(site, needs::device, [&](runtime& rt) { return allocate_device(rt, pointer, bytes); });
}

WARPWRIGHT_API cudaError_t cudaMallocPitch(void** pointer, size_t* pitch, size_t width,
                                           size_t height) {
  static call_site site{"cudaMallocPitch"};
  return api(site, needs::device, [&](runtime& rt) {
    if (pitch == nullptr) return cudaErrorInvalidValue;
    constexpr std::size_t unit = 512;
    if (width > ~std::size_t{0} - unit) return cudaErrorMemoryAllocation;
    std::size_t const row = (width + unit - 1) / unit * unit;
    if (height > 0 && row > ~std::size_t{0} / height) return cudaErrorMemoryAllocation;
    cudaError_t const code = allocate_device(rt, pointer, row * height);
    if (code == cudaSuccess) *pitch = row;
    return code;
  });
}

WARPWRIGHT_API cudaError_t cudaFree(void* pointer) {
  static call_site site{"cudaFree"};
  return api(site, needs::device, [&](runtime& rt) { return free_pointer(rt, pointer, false); });
}

WARPWRIGHT_API cudaError_t cudaMallocManaged(void** pointer, size_t bytes, unsigned flags) {
  static call_site site{"cudaMallocManaged"};
  return api(site, needs::device, [&](runtime& rt) {
    if (pointer == nullptr || (flags != cudaMemAttachGlobal && flags != cudaMemAttachHost)) {
      return cudaErrorInvalidValue;
    }
    if (bytes == 0) {
      *pointer = nullptr;
      return cudaSuccess;
    }
    runtime_lock lock(rt.mutex);
    if (cudaError_t const code = forbid_unsafe(rt)) return code;
    void* const memory = allocate_host_pages(bytes);
    if (memory == nullptr) return cudaErrorMemoryAllocation;
    allocation entry;
    entry.kind = allocation::family::managed;
    entry.base = reinterpret_cast<std::uintptr_t>(memory);
    entry.bytes = bytes;
    entry.device = &current_device(rt);
    entry.flags = flags;
    add_allocation(rt, entry);
    *pointer = memory;
    return cudaSuccess;
  });
}

WARPWRIGHT_API cudaError_t cudaMallocHost(void** pointer, size_t bytes) {
  static call_site site{"cudaMallocHost"};
  return api(site, needs::device, [&](runtime& rt) {
    return allocate_pinned(rt, pointer, bytes, cudaHostAllocDefault);
  });
}

WARPWRIGHT_API cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned flags) {
  static call_site site{"cudaHostAlloc"};
  return api(site, needs::device,
             [&](runtime& rt) { return allocate_pinned(rt, pointer, bytes, flags); });
}

WARPWRIGHT_API cudaError_t cudaFreeHost(void* pointer) {
  static call_site site{"cudaFreeHost"};
  return api(site, needs::device, [&](runtime& rt) { return free_pointer(rt, pointer, true); });
}

WARPWRIGHT_API cudaError_t cudaHostRegister(void* pointer, size_t bytes, unsigned flags) {
  static call_site site{"cudaHostRegister"};
  return api(site, needs::device, [&](runtime& rt) {
    constexpr unsigned known = cudaHostRegisterPortable | cudaHostRegisterMapped |
                               cudaHostRegisterIoMemory | cudaHostRegisterReadOnly;
    if (pointer == nullptr || bytes == 0 || (flags & ~known) != 0) return cudaErrorInvalidValue;
    if ((flags & (cudaHostRegisterIoMemory | cudaHostRegisterReadOnly)) != 0) {
      return cudaErrorNotSupported;
    }
    runtime_lock lock(rt.mutex);
    if (cudaError_t const code = forbid_unsafe(rt)) return code;
    auto const base = reinterpret_cast<std::uintptr_t>(pointer);
    if (base + bytes < base || is_device_address(rt, pointer)) return cudaErrorInvalidValue;
    auto const next = rt.allocations.lower_bound(base);
    bool const overlaps = find_allocation(rt, pointer) != nullptr ||
                          (next != rt.allocations.end() && next->first < base + bytes);
    if (overlaps) return cudaErrorHostMemoryAlreadyRegistered;
    allocation entry;
    entry.kind = allocation::family::registered;
    entry.base = base;
    entry.bytes = bytes;
    entry.device = &current_device(rt);
    entry.flags = flags;
    add_allocation(rt, entry);
    return cudaSuccess;
  });
}

WARPWRIGHT_API cudaError_t cudaHostUnregister(void* pointer) {
  static call_site site{"cudaHostUnregister"};
  return api(site, needs::device, [&](runtime& rt) {
    if (pointer == nullptr) return cudaErrorInvalidValue;
    runtime_lock lock(rt.mutex);
    if (cudaError_t const code = forbid_unsafe(rt)) return code;
    auto const base = reinterpret_cast<std::uintptr_t>(pointer);
    auto const it = rt.allocations.find(base);
    if (it == rt.allocations.end() || it->second.kind != allocation::family::registered) {
      return cudaErrorHostMemoryNotRegistered;
    }
    wait_for_device(rt, lock, *it->second.device);
    rt.allocations.erase(base);
    return cudaSuccess;
  });
}

WARPWRIGHT_API cudaError_t cudaHostGetDevicePointer(void** device_pointer, void* host_pointer,
                                                    unsigned flags) {
  static call_site site{"cudaHostGetDevicePointer"};
  return api(site, needs::device, [&](runtime& rt) {
    if (device_pointer == nullptr || flags != 0) return cudaErrorInvalidValue;
    runtime_lock lock(rt.mutex);
    allocation const* entry = find_allocation(rt, host_pointer);
    if (entry == nullptr || !entry->on_host()) return cudaErrorInvalidValue;
    *device_pointer = host_pointer;
    return cudaSuccess;
  });
}

WARPWRIGHT_API cudaError_t cudaHostGetFlags(unsigned* flags, void* host_pointer) {
  static call_site site{"cudaHostGetFlags"};
  return api(site, needs::device, [&](runtime& rt) {
    if (flags == nullptr) return cudaErrorInvalidValue;
    runtime_lock lock(rt.mutex);
    allocation const* entry = find_allocation(rt, host_pointer);
    if (entry == nullptr || entry->kind != allocation::family::pinned) return cudaErrorInvalidValue;
    *flags = entry->flags;
    return cudaSuccess;
  });
}

WARPWRIGHT_API cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes,
                                                    void const* pointer) {
  static call_site site{"cudaPointerGetAttributes"};
  return api(site, needs::device, [&](runtime& rt) {
    if (attributes == nullptr) return cudaErrorInvalidValue;
    runtime_lock lock(rt.mutex);
    *attributes = {};
    allocation const* entry = find_allocation(rt, pointer);
    void* const address = const_cast<void*>(pointer);
    if (entry == nullptr || entry->free_queued || !entry->graph_live) {
      attributes->type = cudaMemoryTypeUnregistered;
      attributes->device = cudaInvalidDeviceId;
      attributes->hostPointer = address;
      return cudaSuccess;
    }
    attributes->type = type_of(*entry);
    attributes->device = entry->device->ordinal;
    attributes->devicePointer = address;
    attributes->hostPointer = entry->on_device() ? nullptr : address;
    return cudaSuccess;
  });
}

static cudaError_t prefetch(null_stream default_stream, void const* pointer, size_t bytes,
                            cudaMemLocation location, unsigned flags, cudaStream_t handle) {
  static call_site site{"cudaMemPrefetchAsync"};
  return api(site, needs::device, [&](runtime& rt) {
    if (flags != 0 || bytes == 0) return cudaErrorInvalidValue;
    if (cudaError_t const code = check_location(rt, location)) return code;
    runtime_lock lock(rt.mutex);
    auto const stream = find_stream(rt, handle, default_stream);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    allocation const* entry = find_allocation(rt, pointer);
    if (entry == nullptr || entry->kind != allocation::family::managed ||
        bytes > entry->base + entry->bytes - reinterpret_cast<std::uintptr_t>(pointer)) {
      return cudaErrorInvalidValue;
    }
    if (stream->capture != nullptr) {
      invalidate_capture(*stream->capture);
      return cudaErrorStreamCaptureUnsupported;
    }
    if (cudaError_t const code = forbid_implicit(rt, *stream)) return code;
    enqueue(rt, *stream, nullptr);
    return cudaSuccess;
  });
}
WARPWRIGHT_STREAM_API(cudaMemPrefetchAsync, _ptsz, prefetch,
                      (void const* pointer, size_t bytes, cudaMemLocation location, unsigned flags,
                       cudaStream_t stream),
                      (pointer, bytes, location, flags, stream))

WARPWRIGHT_API cudaError_t cudaMemAdvise(void const* pointer, size_t bytes, cudaMemoryAdvise advice,
                                         cudaMemLocation location) {
  static call_site site{"cudaMemAdvise"};
  return api(site, needs::device, [&](runtime& rt) {
    cudaError_t code = cudaSuccess;
    switch (advice) {
      case cudaMemAdviseSetReadMostly:
      case cudaMemAdviseUnsetReadMostly:
      case cudaMemAdviseUnsetPreferredLocation:
        break;  // the location is ignored
      case cudaMemAdviseSetPreferredLocation:
        code = check_location(rt, location);
        break;
      case cudaMemAdviseSetAccessedBy:
      case cudaMemAdviseUnsetAccessedBy:
        code = check_accessor(rt, location);
        break;
      default:
        code = cudaErrorInvalidValue;
        break;
    }
    if (code != cudaSuccess) return cudaErrorInvalidValue;
    runtime_lock lock(rt.mutex);
    allocation const* entry = find_allocation(rt, pointer);
    if (entry == nullptr || entry->kind != allocation::family::managed || bytes == 0 ||
        bytes > entry->base + entry->bytes - reinterpret_cast<std::uintptr_t>(pointer)) {
      return cudaErrorInvalidValue;
    }
    return cudaSuccess;
  });
}
