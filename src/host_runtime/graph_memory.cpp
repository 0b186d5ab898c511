// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory allocated by graphs: its address is reserved when the node is created, it counts against
// the device's memory from the first launch, and it belongs to the graphs until it is trimmed.
#include <algorithm>

#include "graph.hpp"
#include "runtime.hpp"

namespace warpwright::host {

graph_memory::~graph_memory() {
  runtime& rt = the_runtime();
  rt.graph_memories.erase(base);
  rt.allocations.erase(base);
  unmap_device_pages(*device, base, mapped_bytes);
  uncharge();
}

bool graph_memory::charge(runtime& rt) {
  if (charged) return true;
  if (!charge_device_memory(rt, *device, mapped_bytes)) return false;
  charged = true;
  device->graph_reserved += mapped_bytes;
  device->graph_reserved_high = (std::max)(device->graph_reserved_high, device->graph_reserved);
  return true;
}

void graph_memory::uncharge() {
  if (!charged) return;
  charged = false;
  device->graph_reserved -= mapped_bytes;
  uncharge_device_memory(*device, mapped_bytes);
}

std::shared_ptr<graph_memory> make_graph_memory(runtime& rt, device_state& device,
                                                std::size_t bytes) {
  if (bytes > device.memory_bytes) return nullptr;
  std::size_t mapped = 0;
  std::uintptr_t const base = map_device_pages(device, bytes, mapped);
  if (base == 0) return nullptr;
  auto memory = std::make_shared<graph_memory>();
  memory->device = &device;
  memory->base = base;
  memory->bytes = bytes;
  memory->mapped_bytes = mapped;
  set_accessible_bytes(base, 0, mapped);  // inaccessible until a launch allocates it
  rt.graph_memories.emplace(base, memory);
  allocation entry;
  entry.kind = allocation::family::graph;
  entry.base = base;
  entry.bytes = bytes;
  entry.mapped_bytes = mapped;
  entry.device = &device;
  entry.graph_live = false;
  add_allocation(rt, entry);
  return memory;
}

std::shared_ptr<graph_memory> find_graph_memory(runtime& rt, void const* pointer) {
  auto const it = rt.graph_memories.find(reinterpret_cast<std::uintptr_t>(pointer));
  return it == rt.graph_memories.end() ? nullptr : it->second.lock();
}

void start_graph_memory(runtime& rt, std::shared_ptr<graph_memory> const& memory) {
  memory->live = true;
  memory->device->graph_used += memory->bytes;
  rt.allocations.at(memory->base).graph_live = true;
  rt.live_graph_memory.emplace(memory->base, memory);
}

std::shared_ptr<graph_memory> end_graph_memory(runtime& rt, std::uintptr_t base) {
  auto const it = rt.live_graph_memory.find(base);
  if (it == rt.live_graph_memory.end()) return nullptr;
  std::shared_ptr<graph_memory> memory = std::move(it->second);
  rt.live_graph_memory.erase(it);
  memory->live = false;
  memory->device->graph_used -= memory->bytes;
  rt.allocations.at(base).graph_live = false;
  return memory;
}

void trim_graph_memory(runtime& rt, device_state& device) {
  for (auto const& [base, weak] : rt.graph_memories) {
    auto const memory = weak.lock();
    if (memory == nullptr || memory->device != &device || memory->live) continue;
    bool const in_flight =
        memory->last_use != nullptr && !memory->last_use->done.load(std::memory_order_relaxed);
    if (!in_flight) memory->uncharge();
  }
}

cudaError_t capture_allocation(runtime& rt, stream_state& stream, pool_state* pool,
                               std::size_t bytes, void** pointer) {
  if (cudaError_t const code = check_capture_valid(stream)) return code;
  if (bytes == 0) {
    *pointer = nullptr;
    return cudaSuccess;
  }
  std::shared_ptr<graph_memory> memory = make_graph_memory(rt, *pool->device, bytes);
  if (memory == nullptr) return cudaErrorMemoryAllocation;
  graph_node* node = nullptr;
  if (cudaError_t const code =
          capture_node(rt, stream, cudaGraphNodeTypeMemAlloc, nullptr, &node)) {
    return code;
  }
  *pointer = reinterpret_cast<void*>(memory->base);
  node->alloc_params.poolProps.allocType = cudaMemAllocationTypePinned;
  node->alloc_params.poolProps.location.type = cudaMemLocationTypeDevice;
  node->alloc_params.poolProps.location.id = pool->device->ordinal;
  node->alloc_params.bytesize = bytes;
  node->alloc_params.dptr = *pointer;
  node->memory = std::move(memory);
  return cudaSuccess;
}

cudaError_t capture_free(runtime& rt, stream_state& stream, void* pointer) {
  if (cudaError_t const code = check_capture_valid(stream)) return code;
  std::shared_ptr<graph_memory> memory = find_graph_memory(rt, pointer);
  if (memory == nullptr) return cudaErrorInvalidValue;
  for (auto const& node : stream.capture->graph->nodes) {
    if (node->freed_pointer == pointer) return cudaErrorInvalidValue;
  }
  graph_node* node = nullptr;
  if (cudaError_t const code = capture_node(rt, stream, cudaGraphNodeTypeMemFree, nullptr, &node)) {
    return code;
  }
  node->memory = std::move(memory);
  node->freed_pointer = pointer;
  return cudaSuccess;
}

}  // namespace warpwright::host

using namespace warpwright::host;

namespace {

template <class Use>
cudaError_t with_device(call_site& site, int ordinal, Use&& use) {
  return api(site, needs::device, [&](runtime& rt) {
    if (ordinal < 0 || static_cast<std::size_t>(ordinal) >= rt.devices.size()) {
      return cudaErrorInvalidDevice;
    }
    runtime_lock lock(rt.mutex);
    return use(rt, *rt.devices[static_cast<std::size_t>(ordinal)]);
  });
}

}  // namespace

WARPWRIGHT_API cudaError_t cudaDeviceGraphMemTrim(int ordinal) {
  static call_site site{"cudaDeviceGraphMemTrim"};
  return with_device(site, ordinal, [](runtime& rt, device_state& device) {
    trim_graph_memory(rt, device);
    return cudaSuccess;
  });
}

WARPWRIGHT_API cudaError_t cudaDeviceGetGraphMemAttribute(int ordinal,
                                                          cudaGraphMemAttributeType which,
                                                          void* value) {
  static call_site site{"cudaDeviceGetGraphMemAttribute"};
  return with_device(site, ordinal, [&](runtime&, device_state& device) {
    if (value == nullptr) return cudaErrorInvalidValue;
    auto* const attribute = static_cast<std::uint64_t*>(value);
    switch (which) {
      case cudaGraphMemAttrUsedMemCurrent:
        *attribute = device.graph_used;
        return cudaSuccess;
      case cudaGraphMemAttrUsedMemHigh:
        *attribute = device.graph_used_high;
        return cudaSuccess;
      case cudaGraphMemAttrReservedMemCurrent:
        *attribute = device.graph_reserved;
        return cudaSuccess;
      case cudaGraphMemAttrReservedMemHigh:
        *attribute = device.graph_reserved_high;
        return cudaSuccess;
      default:
        return cudaErrorInvalidValue;
    }
  });
}

WARPWRIGHT_API cudaError_t cudaDeviceSetGraphMemAttribute(int ordinal,
                                                          cudaGraphMemAttributeType which,
                                                          void* value) {
  static call_site site{"cudaDeviceSetGraphMemAttribute"};
  return with_device(site, ordinal, [&](runtime&, device_state& device) {
    if (value == nullptr || *static_cast<std::uint64_t const*>(value) != 0) {
      return cudaErrorInvalidValue;  // a high watermark can only be set to zero
    }
    switch (static_cast<int>(which)) {
      case cudaGraphMemAttrUsedMemHigh:
        device.graph_used_high = device.graph_used;
        break;
      case cudaGraphMemAttrReservedMemHigh:
        device.graph_reserved_high = device.graph_reserved;
        break;
      default:
        return cudaErrorInvalidValue;
    }
    return cudaSuccess;
  });
}
