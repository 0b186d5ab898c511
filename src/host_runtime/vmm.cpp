// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Driver functions, looked up by name through the runtime: virtual memory management, contexts,
// streams and events. Physical memory is a range of a file per device, so that a handle mapped at
// two addresses has the same contents at both.
#include <cuda.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "calls.hpp"
#include "copy.hpp"
#include "runtime.hpp"

namespace warpwright::host {
namespace {

constexpr std::size_t granularity = std::size_t{2} << 20;
constexpr std::size_t filled_bytes = std::size_t{32}
                                     << 20;  // of a new handle's memory; the rest reads as zeros
constexpr std::uint64_t context_family = std::uint64_t{7} << 40;

struct physical {
  device_state* device = nullptr;
  std::size_t bytes = 0;
  std::size_t offset = 0;  // in the device's file
  CUmemAllocationProp properties = {};
  unsigned handles = 1;  // cuMemCreate and cuMemRetainAllocationHandle
  unsigned mappings = 0;
};

struct mapping {
  std::size_t bytes = 0;
  CUmemGenericAllocationHandle handle = 0;
  std::size_t offset = 0;
  CUmemAccess_flags access = CU_MEM_ACCESS_FLAGS_PROT_NONE;
};

struct device_file {
  int descriptor = -1;
  std::size_t end = 0;
};

struct vmm_state {
  std::map<device_state*, device_file> files;
  std::map<CUmemGenericAllocationHandle, physical> handles;
  std::map<std::uintptr_t, std::size_t> reservations;
  std::map<std::uintptr_t, mapping> mappings;
  CUmemGenericAllocationHandle next = 0x1000;  // never reused
};

// Protected by the runtime's lock, never destroyed.
vmm_state& vmm() {
  static vmm_state* const state = new vmm_state;
  return *state;
}

CUresult as_driver(cudaError_t code) { return static_cast<CUresult>(code); }

// Driver functions are counted and fault-injected like the runtime's, but do not set the last
// error.
template <class Body>
CUresult driver(call_site& site, Body&& body) noexcept {
  try {
    cudaError_t const stopped = enter(site, needs::device);
    if (stopped != cudaSuccess) return as_driver(stopped);
    runtime& rt = the_runtime();
    runtime_lock lock(rt.mutex);
    CUresult const result = body(rt);
    if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY) {
      log_failure(site.name, static_cast<cudaError_t>(result));
    }
    return result;
  } catch (std::bad_alloc const&) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
}

bool aligned(std::uint64_t value) { return value % granularity == 0; }

CUresult check_properties(runtime& rt, CUmemAllocationProp const* properties) {
  if (properties == nullptr || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
      properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (device_at(rt, properties->location.id) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  return properties->requestedHandleTypes == CU_MEM_HANDLE_TYPE_NONE ? CUDA_SUCCESS
                                                                     : CUDA_ERROR_NOT_SUPPORTED;
}

// Allocates a range of the device's file. Ranges are not reused; their pages are freed.
bool allocate_file_range(device_state& device, std::size_t bytes, std::size_t& offset) {
  device_file& file = vmm().files[&device];
  if (file.descriptor < 0) {
    file.descriptor = above_standard(memfd_create("warpwright-device-memory", MFD_CLOEXEC));
    if (file.descriptor < 0) return false;
  }
  if (ftruncate(file.descriptor, static_cast<off_t>(file.end + bytes)) != 0) return false;
  offset = file.end;
  file.end += bytes;
  static auto const* const pattern = [] {
    auto* block = new std::array<unsigned char, 256 * 1024>;
    block->fill(static_cast<unsigned char>(fill_byte));
    return block;
  }();
  for (std::size_t done = 0; done < (std::min)(bytes, filled_bytes); done += pattern->size()) {
    if (pwrite(file.descriptor, pattern->data(), pattern->size(),
               static_cast<off_t>(offset + done)) < 0) {
      return false;
    }
  }
  return true;
}

void release_if_unused(CUmemGenericAllocationHandle handle) {
  auto const it = vmm().handles.find(handle);
  if (it == vmm().handles.end() || it->second.handles > 0 || it->second.mappings > 0) return;
  physical const& memory = it->second;
  int const descriptor = vmm().files[memory.device].descriptor;
  fallocate(descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
            static_cast<off_t>(memory.offset), static_cast<off_t>(memory.bytes));
  uncharge_device_memory(*memory.device, memory.bytes);
  vmm().handles.erase(it);
}

void make_inaccessible(std::uintptr_t base, std::size_t bytes) {
  mmap(reinterpret_cast<void*>(base), bytes, PROT_NONE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

// Calls `visit` for each mapping in [base, base + bytes) if that consists of whole mappings.
template <class Visit>
bool each_whole_mapping(std::uintptr_t base, std::size_t bytes, Visit&& visit) {
  auto& mappings = vmm().mappings;
  if (base + bytes < base) return false;
  std::uintptr_t at = base;
  for (auto it = mappings.find(base); at < base + bytes; ++it) {
    if (it == mappings.end() || it->first != at || it->second.bytes > base + bytes - at) {
      return false;
    }
    at += it->second.bytes;
  }
  for (at = base; at < base + bytes;) {
    auto const it = mappings.find(at);
    at += it->second.bytes;
    visit(it);
  }
  return true;
}

// ---- the functions

CUresult mem_address_reserve(CUdeviceptr* pointer, size_t bytes, size_t alignment,
                             CUdeviceptr requested, unsigned long long flags) {
  static call_site site{"cuMemAddressReserve"};
  return driver(site, [&](runtime&) {
    if (pointer == nullptr || bytes == 0 || !aligned(bytes) || flags != 0 ||
        (alignment & (alignment - 1)) != 0) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    std::size_t const step = (std::max)(alignment, granularity);
    int const kind = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    if (requested != 0 && requested % step == 0) {
      void* const at = mmap(reinterpret_cast<void*>(requested), bytes, PROT_NONE,
                            kind | MAP_FIXED_NOREPLACE, -1, 0);
      if (at == reinterpret_cast<void*>(requested)) {
        vmm().reservations.emplace(requested, bytes);
        *pointer = requested;
        return CUDA_SUCCESS;
      }
      if (at != MAP_FAILED) munmap(at, bytes);
    }
    void* const raw = mmap(nullptr, bytes + step, PROT_NONE, kind, -1, 0);
    if (raw == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    // Keep the aligned part of the larger reservation.
    auto const start = reinterpret_cast<std::uintptr_t>(raw);
    std::uintptr_t const base = (start + step - 1) / step * step;
    if (base > start) munmap(raw, base - start);
    std::size_t const rest = start + bytes + step - (base + bytes);
    if (rest > 0) munmap(reinterpret_cast<void*>(base + bytes), rest);
    vmm().reservations.emplace(base, bytes);
    *pointer = base;
    return CUDA_SUCCESS;
  });
}

CUresult mem_address_free(CUdeviceptr pointer, size_t bytes) {
  static call_site site{"cuMemAddressFree"};
  return driver(site, [&](runtime&) {
    auto const it = vmm().reservations.find(pointer);
    if (it == vmm().reservations.end() || it->second != bytes) return CUDA_ERROR_INVALID_VALUE;
    auto const inside = vmm().mappings.lower_bound(pointer);
    if (inside != vmm().mappings.end() && inside->first < pointer + bytes) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    munmap(reinterpret_cast<void*>(pointer), bytes);
    vmm().reservations.erase(it);
    return CUDA_SUCCESS;
  });
}

CUresult mem_create(CUmemGenericAllocationHandle* handle, size_t bytes,
                    CUmemAllocationProp const* properties, unsigned long long flags) {
  static call_site site{"cuMemCreate"};
  return driver(site, [&](runtime& rt) {
    if (handle == nullptr || bytes == 0 || !aligned(bytes) || flags != 0) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    if (CUresult const code = check_properties(rt, properties)) return code;
    physical memory;
    memory.device = device_at(rt, properties->location.id);
    memory.bytes = bytes;
    memory.properties = *properties;
    if (!charge_device_memory(rt, *memory.device, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    if (!allocate_file_range(*memory.device, bytes, memory.offset)) {
      uncharge_device_memory(*memory.device, bytes);
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *handle = vmm().next++;
    vmm().handles.emplace(*handle, memory);
    return CUDA_SUCCESS;
  });
}

CUresult mem_release(CUmemGenericAllocationHandle handle) {
  static call_site site{"cuMemRelease"};
  return driver(site, [&](runtime&) {
    auto const it = vmm().handles.find(handle);
    if (it == vmm().handles.end() || it->second.handles == 0) return CUDA_ERROR_INVALID_VALUE;
    --it->second.handles;
    release_if_unused(handle);
    return CUDA_SUCCESS;
  });
}

CUresult mem_retain(CUmemGenericAllocationHandle* handle, void* address) {
  static call_site site{"cuMemRetainAllocationHandle"};
  return driver(site, [&](runtime&) {
    if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
    auto const at = reinterpret_cast<std::uintptr_t>(address);
    auto it = vmm().mappings.upper_bound(at);
    if (it == vmm().mappings.begin()) return CUDA_ERROR_INVALID_VALUE;
    --it;
    if (at - it->first >= it->second.bytes) return CUDA_ERROR_INVALID_VALUE;
    ++vmm().handles.at(it->second.handle).handles;
    *handle = it->second.handle;
    return CUDA_SUCCESS;
  });
}

CUresult mem_map(CUdeviceptr pointer, size_t bytes, size_t offset,
                 CUmemGenericAllocationHandle handle, unsigned long long flags) {
  static call_site site{"cuMemMap"};
  return driver(site, [&](runtime& rt) {
    auto const memory = vmm().handles.find(handle);
    if (flags != 0 || bytes == 0 || !aligned(pointer) || !aligned(bytes) || !aligned(offset) ||
        memory == vmm().handles.end() || memory->second.handles == 0 ||
        offset > memory->second.bytes || bytes > memory->second.bytes - offset) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    auto reservation = vmm().reservations.upper_bound(pointer);
    if (reservation == vmm().reservations.begin()) return CUDA_ERROR_INVALID_VALUE;
    --reservation;
    if (pointer + bytes > reservation->first + reservation->second) return CUDA_ERROR_INVALID_VALUE;
    auto const next = vmm().mappings.lower_bound(pointer);
    if (next != vmm().mappings.end() && next->first < pointer + bytes) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    if (next != vmm().mappings.begin()) {
      auto const before = std::prev(next);
      if (before->first + before->second.bytes > pointer) return CUDA_ERROR_INVALID_VALUE;
    }
    int const descriptor = vmm().files[memory->second.device].descriptor;
    void* const at =
        mmap(reinterpret_cast<void*>(pointer), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, descriptor,
             static_cast<off_t>(memory->second.offset + offset));
    if (at == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    ++memory->second.mappings;
    mapping entry;
    entry.bytes = bytes;
    entry.handle = handle;
    entry.offset = offset;
    vmm().mappings.emplace(pointer, entry);
    allocation known;
    known.kind = allocation::family::vmm;
    known.base = pointer;
    known.bytes = bytes;
    known.mapped_bytes = bytes;
    known.device = memory->second.device;
    known.accessible = false;  // until cuMemSetAccess
    add_allocation(rt, known);
    return CUDA_SUCCESS;
  });
}

CUresult mem_unmap(CUdeviceptr pointer, size_t bytes) {
  static call_site site{"cuMemUnmap"};
  return driver(site, [&](runtime& rt) {
    if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    bool const whole = each_whole_mapping(pointer, bytes, [&](auto it) {
      CUmemGenericAllocationHandle const handle = it->second.handle;
      make_inaccessible(it->first, it->second.bytes);
      rt.allocations.erase(it->first);
      vmm().mappings.erase(it);
      --vmm().handles.at(handle).mappings;
      release_if_unused(handle);
    });
    return whole ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult mem_set_access(CUdeviceptr pointer, size_t bytes, CUmemAccessDesc const* list,
                        size_t count) {
  static call_site site{"cuMemSetAccess"};
  return driver(site, [&](runtime& rt) {
    if (list == nullptr || count == 0 || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    for (std::size_t i = 0; i < count; ++i) {
      if (list[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
      if (device_at(rt, list[i].location.id) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    }
    bool done = true;
    bool const whole = each_whole_mapping(pointer, bytes, [&](auto it) {
      // All devices are the same CPU: only the owner's access protects memory.
      allocation& mapped = rt.allocations.at(it->first);
      for (std::size_t i = 0; i < count; ++i) {
        if (list[i].location.id == mapped.device->ordinal) it->second.access = list[i].flags;
        std::uint64_t const bit = std::uint64_t{1} << (list[i].location.id & 63);
        bool const allowed = list[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
        mapped.accessible_to = allowed ? mapped.accessible_to | bit : mapped.accessible_to & ~bit;
      }
      CUmemAccess_flags const access = it->second.access;
      int const protection = access == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ? PROT_READ | PROT_WRITE
                             : access == CU_MEM_ACCESS_FLAGS_PROT_READ    ? PROT_READ
                                                                          : PROT_NONE;
      done = protect_device_pages(it->first, it->second.bytes, protection) && done;
      mapped.accessible = protection != PROT_NONE;
    });
    if (!whole) return CUDA_ERROR_INVALID_VALUE;
    return done ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
  });
}

CUresult mem_get_access(unsigned long long* flags, CUmemLocation const* location,
                        CUdeviceptr pointer) {
  static call_site site{"cuMemGetAccess"};
  return driver(site, [&](runtime& rt) {
    if (flags == nullptr || location == nullptr) return CUDA_ERROR_INVALID_VALUE;
    allocation const* entry = find_allocation(rt, reinterpret_cast<void const*>(pointer));
    if (entry == nullptr || entry->kind != allocation::family::vmm ||
        location->type != CU_MEM_LOCATION_TYPE_DEVICE) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    CUmemAccess_flags const access = location->id == entry->device->ordinal
                                         ? vmm().mappings.at(entry->base).access
                                         : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    *flags = static_cast<unsigned long long>(access);
    return CUDA_SUCCESS;
  });
}

CUresult mem_get_granularity(size_t* bytes, CUmemAllocationProp const* properties,
                             CUmemAllocationGranularity_flags) {
  static call_site site{"cuMemGetAllocationGranularity"};
  return driver(site, [&](runtime& rt) {
    if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult const code = check_properties(rt, properties)) return code;
    *bytes = granularity;
    return CUDA_SUCCESS;
  });
}

CUresult mem_get_properties(CUmemAllocationProp* properties, CUmemGenericAllocationHandle handle) {
  static call_site site{"cuMemGetAllocationPropertiesFromHandle"};
  return driver(site, [&](runtime&) {
    auto const it = vmm().handles.find(handle);
    if (properties == nullptr || it == vmm().handles.end()) return CUDA_ERROR_INVALID_VALUE;
    *properties = it->second.properties;
    return CUDA_SUCCESS;
  });
}

CUcontext context_of(int ordinal) {
  return reinterpret_cast<CUcontext>(context_family + 0x100 +
                                     16 * static_cast<std::uint64_t>(ordinal));
}

int ordinal_of(CUcontext context) {
  return static_cast<int>((reinterpret_cast<std::uint64_t>(context) - context_family - 0x100) / 16);
}

CUresult init(unsigned flags) { return flags == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE; }

CUresult driver_version(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}

CUresult device_get(CUdevice* device, int ordinal) {
  static call_site site{"cuDeviceGet"};
  return driver(site, [&](runtime& rt) {
    if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (device_at(rt, ordinal) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
  });
}

CUresult device_get_count(int* count) {
  static call_site site{"cuDeviceGetCount"};
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  cudaError_t const stopped = enter(site, needs::nothing);
  if (stopped != cudaSuccess) return as_driver(stopped);
  *count = static_cast<int>(the_runtime().devices.size());
  return CUDA_SUCCESS;
}

CUresult device_get_attribute(int* value, CUdevice_attribute which, CUdevice ordinal) {
  static call_site site{"cuDeviceGetAttribute"};
  return driver(site, [&](runtime& rt) {
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    device_state const* device = device_at(rt, ordinal);
    if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    if (which == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) {
      *value = 1;
      return CUDA_SUCCESS;
    }
    if (which == CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED) {
      *value = 0;
      return CUDA_SUCCESS;
    }
    // The two enumerations have the same values.
    return as_driver(
        device_attribute(*device, static_cast<cudaDeviceAttr>(static_cast<int>(which)), *value));
  });
}

CUresult context_get_current(CUcontext* context) {
  static call_site site{"cuCtxGetCurrent"};
  return driver(site, [&](runtime&) {
    if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *context = context_of(this_thread.device);
    return CUDA_SUCCESS;
  });
}

CUresult context_get_device(CUdevice* device) {
  static call_site site{"cuCtxGetDevice"};
  return driver(site, [&](runtime&) {
    if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *device = this_thread.device;
    return CUDA_SUCCESS;
  });
}

// What cuCtxPopCurrent makes current again.
struct context_stack {
  static constexpr unsigned capacity = 64;
  int below[capacity];
  unsigned depth;
};
thread_local context_stack contexts{};

CUresult context_push(CUcontext context) {
  static call_site site{"cuCtxPushCurrent"};
  return driver(site, [&](runtime& rt) {
    int const ordinal = ordinal_of(context);
    if (device_at(rt, ordinal) == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    if (contexts.depth == context_stack::capacity) return CUDA_ERROR_OUT_OF_MEMORY;
    contexts.below[contexts.depth++] = this_thread.device;
    this_thread.device = ordinal;
    return CUDA_SUCCESS;
  });
}

CUresult context_pop(CUcontext* context) {
  static call_site site{"cuCtxPopCurrent"};
  return driver(site, [&](runtime&) {
    if (contexts.depth == 0) return CUDA_ERROR_INVALID_CONTEXT;
    if (context != nullptr) *context = context_of(this_thread.device);
    this_thread.device = contexts.below[--contexts.depth];
    return CUDA_SUCCESS;
  });
}

CUresult stream_get_context(CUstream handle, CUcontext* context) {
  static call_site site{"cuStreamGetCtx"};
  return driver(site, [&](runtime& rt) {
    if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
    auto const stream = find_stream(rt, handle, null_stream::legacy);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    *context = context_of(stream->device->ordinal);
    return CUDA_SUCCESS;
  });
}

// Driver functions equivalent to runtime calls, counted and fault-injected under the runtime's
// names.
CUresult stream_is_capturing(CUstream stream, CUstreamCaptureStatus* status) {
  return as_driver(
      cudaStreamIsCapturing(stream, reinterpret_cast<cudaStreamCaptureStatus*>(status)));
}
CUresult stream_get_id(CUstream stream, unsigned long long* id) {
  return as_driver(cudaStreamGetId(stream, id));
}
CUresult stream_wait_event(CUstream stream, CUevent event, unsigned flags) {
  return as_driver(cudaStreamWaitEvent(stream, event, flags));
}
CUresult event_record(CUevent event, CUstream stream) {
  return as_driver(cudaEventRecord(event, stream));
}
CUresult event_query(CUevent event) { return as_driver(cudaEventQuery(event)); }
CUresult thread_exchange_capture_mode(CUstreamCaptureMode* mode) {
  return as_driver(
      cudaThreadExchangeStreamCaptureMode(reinterpret_cast<cudaStreamCaptureMode*>(mode)));
}

CUresult memset_async(call_site& site, CUdeviceptr to, unsigned value, unsigned element_bytes,
                      std::size_t count, CUstream handle) {
  return driver(site, [&](runtime& rt) {
    if (to % element_bytes != 0) return CUDA_ERROR_INVALID_VALUE;
    auto const stream = find_stream(rt, handle, null_stream::legacy);
    if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (count == 0) return CUDA_SUCCESS;
    fill_shape shape;
    shape.to = reinterpret_cast<std::byte*>(to);
    shape.value = value;
    shape.element_bytes = element_bytes;
    shape.width = count;
    if (cudaError_t const code = check_fill(rt, shape)) return as_driver(code);
    return as_driver(
        submit(rt, *stream, cudaGraphNodeTypeMemset, std::make_shared<fill_work>(shape)));
  });
}
CUresult memset_d8_async(CUdeviceptr to, unsigned char value, std::size_t count, CUstream stream) {
  static call_site site{"cuMemsetD8Async"};
  return memset_async(site, to, value, 1, count, stream);
}
CUresult memset_d16_async(CUdeviceptr to, unsigned short value, std::size_t count,
                          CUstream stream) {
  static call_site site{"cuMemsetD16Async"};
  return memset_async(site, to, value, 2, count, stream);
}
CUresult memset_d32_async(CUdeviceptr to, unsigned value, std::size_t count, CUstream stream) {
  static call_site site{"cuMemsetD32Async"};
  return memset_async(site, to, value, 4, count, stream);
}

struct driver_error {
  CUresult code;
  char const* name;
};

constexpr driver_error driver_errors[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
    {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED"},
    {CUDA_ERROR_DEINITIALIZED, "CUDA_ERROR_DEINITIALIZED"},
    {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT"},
    {CUDA_ERROR_ECC_UNCORRECTABLE, "CUDA_ERROR_ECC_UNCORRECTABLE"},
    {CUDA_ERROR_OPERATING_SYSTEM, "CUDA_ERROR_OPERATING_SYSTEM"},
    {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE"},
    {CUDA_ERROR_ILLEGAL_STATE, "CUDA_ERROR_ILLEGAL_STATE"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND"},
    {CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS"},
    {CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"},
    {CUDA_ERROR_LAUNCH_TIMEOUT, "CUDA_ERROR_LAUNCH_TIMEOUT"},
    {CUDA_ERROR_ASSERT, "CUDA_ERROR_ASSERT"},
    {CUDA_ERROR_ILLEGAL_INSTRUCTION, "CUDA_ERROR_ILLEGAL_INSTRUCTION"},
    {CUDA_ERROR_MISALIGNED_ADDRESS, "CUDA_ERROR_MISALIGNED_ADDRESS"},
    {CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED"},
    {CUDA_ERROR_NOT_PERMITTED, "CUDA_ERROR_NOT_PERMITTED"},
    {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED"},
    {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
    {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"},
    {CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"},
    {CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN"},
};

CUresult get_error_name(CUresult code, char const** text) {
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (driver_error const& entry : driver_errors) {
    if (entry.code == code) {
      *text = entry.name;
      return CUDA_SUCCESS;
    }
  }
  *text = nullptr;
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult get_error_string(CUresult code, char const** text) {
  CUresult const found = get_error_name(code, text);
  if (found == CUDA_SUCCESS) *text = cudaGetErrorString(static_cast<cudaError_t>(code));
  return found;
}

struct entry_point {
  char const* name;
  void* function;
};

template <class Function>
entry_point entry(char const* name, Function* function) {
  return {name, reinterpret_cast<void*>(function)};
}

void* find_entry_point(char const* name) {
  entry_point const table[] = {
      entry("cuInit", init),
      entry("cuDriverGetVersion", driver_version),
      entry("cuDeviceGet", device_get),
      entry("cuDeviceGetCount", device_get_count),
      entry("cuDeviceGetAttribute", device_get_attribute),
      entry("cuCtxGetCurrent", context_get_current),
      entry("cuCtxGetDevice", context_get_device),
      entry("cuCtxPushCurrent", context_push),
      entry("cuCtxPopCurrent", context_pop),
      entry("cuStreamGetCtx", stream_get_context),
      entry("cuStreamIsCapturing", stream_is_capturing),
      entry("cuStreamGetId", stream_get_id),
      entry("cuStreamWaitEvent", stream_wait_event),
      entry("cuEventRecord", event_record),
      entry("cuEventQuery", event_query),
      entry("cuThreadExchangeStreamCaptureMode", thread_exchange_capture_mode),
      entry("cuGetErrorName", get_error_name),
      entry("cuGetErrorString", get_error_string),
      entry("cuMemsetD8Async", memset_d8_async),
      entry("cuMemsetD16Async", memset_d16_async),
      entry("cuMemsetD32Async", memset_d32_async),
      entry("cuMemAddressReserve", mem_address_reserve),
      entry("cuMemAddressFree", mem_address_free),
      entry("cuMemCreate", mem_create),
      entry("cuMemRelease", mem_release),
      entry("cuMemRetainAllocationHandle", mem_retain),
      entry("cuMemMap", mem_map),
      entry("cuMemUnmap", mem_unmap),
      entry("cuMemSetAccess", mem_set_access),
      entry("cuMemGetAccess", mem_get_access),
      entry("cuMemGetAllocationGranularity", mem_get_granularity),
      entry("cuMemGetAllocationPropertiesFromHandle", mem_get_properties),
  };
  for (entry_point const& known : table) {
    if (std::strcmp(known.name, name) == 0) return known.function;
  }
  return nullptr;
}

cudaError_t look_up(char const* name, void** function, unsigned long long flags,
                    cudaDriverEntryPointQueryResult* status) {
  if (name == nullptr || *name == '\0' || function == nullptr ||
      flags > cudaEnablePerThreadDefaultStream) {
    return cudaErrorInvalidValue;
  }
  *function = find_entry_point(name);
  if (status != nullptr) {
    *status =
        *function != nullptr ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  }
  return cudaSuccess;
}

}  // namespace

void destroy_vmm_objects(runtime&) {
  vmm_state& state = vmm();
  for (auto const& [base, bytes] : state.reservations) {
    munmap(reinterpret_cast<void*>(base), bytes);
  }
  for (auto const& file : state.files) close(file.second.descriptor);
  CUmemGenericAllocationHandle const next = state.next;
  state = {};
  state.next = next;
}

void describe_vmm_leaks(std::vector<std::string>& lines) {
  char line[160];
  for (auto const& [base, bytes] : vmm().reservations) {
    std::snprintf(line, sizeof line, "cuMemAddressReserve: %zu bytes at %p", bytes,
                  reinterpret_cast<void*>(base));
    lines.emplace_back(line);
  }
  for (auto const& [handle, memory] : vmm().handles) {
    if (memory.handles == 0) continue;  // reported as a mapping
    std::snprintf(line, sizeof line, "cuMemCreate: %zu bytes, handle %#llx", memory.bytes, handle);
    lines.emplace_back(line);
  }
}

}  // namespace warpwright::host

using namespace warpwright::host;

namespace {

cudaError_t get_entry_point_by_version(null_stream, char const* name, void** function,
                                       unsigned version, unsigned long long flags,
                                       cudaDriverEntryPointQueryResult* status) {
  static call_site site{"cudaGetDriverEntryPointByVersion"};
  return api(site, needs::nothing, [&](runtime&) {
    cudaError_t const code = look_up(name, function, flags, status);
    constexpr unsigned oldest = 10020;  // the first version with virtual memory management
    if (code == cudaSuccess && *function != nullptr &&
        (version < oldest || version > CUDART_VERSION)) {
      *function = nullptr;
      if (status != nullptr) *status = cudaDriverEntryPointVersionNotSufficent;
    }
    return code;
  });
}

}  // namespace

WARPWRIGHT_STREAM_API(cudaGetDriverEntryPointByVersion, _ptsz, get_entry_point_by_version,
                      (char const* name, void** function, unsigned version,
                       unsigned long long flags, cudaDriverEntryPointQueryResult* status),
                      (name, function, version, flags, status))
