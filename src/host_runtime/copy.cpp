// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// All copies and fills, with CUDA's rules for when the host waits (CUDA Runtime API,
// "API synchronization behavior").
#include "copy.hpp"

#include <algorithm>

namespace warpwright::host {
namespace {

// A pageable source of up to this size is copied during the call.
constexpr std::size_t max_staged_bytes = 64 * 1024;

struct pointer_location {
  allocation const* entry = nullptr;
  bool device_side = false;  // accessible to kernels: device, managed, pinned, registered
  bool host_side = false;    // accessible to host code
};

// Number of bytes from the first to the last one accessed.
bool span_of(std::size_t width, std::size_t height, std::size_t depth, std::size_t pitch,
             std::size_t slice, std::size_t& span) {
  std::size_t rows = 0, planes = 0;
  if (__builtin_mul_overflow(height - 1, height > 1 ? pitch : 0, &rows)) return false;
  if (__builtin_mul_overflow(depth - 1, depth > 1 ? slice : 0, &planes)) return false;
  return !__builtin_add_overflow(width, rows, &span) &&
         !__builtin_add_overflow(span, planes, &span);
}

cudaError_t locate(runtime& rt, void const* pointer, std::size_t span, pointer_location& where) {
  if (pointer == nullptr) return cudaErrorInvalidValue;
  allocation const* entry = find_allocation(rt, pointer);
  if (entry == nullptr) {
    if (is_device_address(rt, pointer)) return cudaErrorInvalidValue;  // freed, or never allocated
    where = {nullptr, false, true};
    return cudaSuccess;
  }
  if (entry->free_queued || !entry->accessible) return cudaErrorInvalidValue;
  std::uintptr_t const begin = reinterpret_cast<std::uintptr_t>(pointer);
  std::uintptr_t reached = entry->base + entry->bytes;
  // Adjacent mappings of virtual memory management count as one allocation.
  for (allocation const* next = entry;
       reached - begin < span && next->kind == allocation::family::vmm;) {
    next = find_allocation(rt, reinterpret_cast<void const*>(reached));
    if (next == nullptr || next->kind != allocation::family::vmm) break;
    reached = next->base + next->bytes;
  }
  if (reached - begin < span) return cudaErrorInvalidValue;
  where = {entry, true, !entry->on_device()};
  return cudaSuccess;
}

bool pageable(runtime const& rt, std::byte const* pointer) {
  return find_allocation(const_cast<runtime&>(rt), pointer) == nullptr;
}

// Accesses the program's buffer visibly to ThreadSanitizer.
void copy_unlocked(runtime_lock& lock, copy_shape const& shape) {
  lock.native().unlock();
  end_tsan_ignore();
  run_copy(shape);
  begin_tsan_ignore();
  lock.native().lock();
}

// A copy from pageable memory, as CUDA does it: the call returns when the source has been read,
// while the last part may still be in transfer.
cudaError_t copy_staged_tail(runtime& rt, runtime_lock& lock, stream_state& stream,
                             copy_shape shape) {
  std::size_t const tail = (std::min)(shape.width, max_staged_bytes);
  copy_shape head = shape;
  head.width -= tail;
  if (head.width > 0) {
    wait_for(rt, lock, enqueue(rt, stream, std::make_shared<copy_work>(head)));
    if (cudaError_t const code = sticky_error(rt)) return code;
  }
  std::unique_ptr<std::byte[]> staged(new std::byte[tail]);
  copy_shape in = shape;
  in.to = staged.get();
  in.from = shape.from + head.width;
  in.width = tail;
  copy_unlocked(lock, in);
  shape.to += head.width;
  shape.from = staged.get();
  shape.width = tail;
  enqueue(rt, stream, std::make_shared<copy_work>(shape, std::move(staged)));
  return cudaSuccess;
}

enum class call_style { synchronous, asynchronous };

// Mapped memory is copied only while a device that can access it is current.
bool is_accessible_here(runtime& rt, void const* pointer) {
  allocation const* const entry = find_allocation(rt, pointer);
  return entry == nullptr || entry->kind != allocation::family::vmm ||
         (entry->accessible_to >> (this_thread.device & 63) & 1) != 0;
}

cudaError_t copy(runtime& rt, copy_shape shape, null_stream default_stream, cudaStream_t handle,
                 call_style style, bool between_peers = false) {
  runtime_lock lock(rt.mutex);
  auto const stream = find_stream(rt, handle, default_stream);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (shape.width == 0 || shape.height == 0 || shape.depth == 0) {
    return shape.kind > cudaMemcpyDefault ? cudaErrorInvalidMemcpyDirection : cudaSuccess;
  }
  if (cudaError_t const code = forbid_implicit(rt, *stream)) return code;
  if (cudaError_t const code = check_copy(rt, shape)) return code;
  if (!between_peers && !(is_accessible_here(rt, shape.to) && is_accessible_here(rt, shape.from))) {
    return cudaErrorInvalidValue;
  }
  bool const host_waits = shape.kind != cudaMemcpyDeviceToDevice;
  if (style == call_style::synchronous) {
    if (stream->capture != nullptr) {
      invalidate_capture(*stream->capture);
      return cudaErrorStreamCaptureUnsupported;
    }
    if (shape.kind == cudaMemcpyHostToDevice && shape.height == 1 && shape.depth == 1 &&
        shape.from_device < 0 && pageable(rt, shape.from)) {
      return copy_staged_tail(rt, lock, *stream, shape);
    }
    auto const done = enqueue(rt, *stream, std::make_shared<copy_work>(shape));
    if (!host_waits) return cudaSuccess;
    wait_for(rt, lock, done);
    return sticky_error(rt);
  }
  if (stream->capture != nullptr) {
    return submit(rt, *stream, cudaGraphNodeTypeMemcpy, std::make_shared<copy_work>(shape));
  }
  bool const from_pageable = shape.from_device < 0 && pageable(rt, shape.from);
  bool const to_pageable = shape.to_device < 0 && pageable(rt, shape.to);
  if (!from_pageable && !to_pageable && shape.kind != cudaMemcpyHostToHost) {
    enqueue(rt, *stream, std::make_shared<copy_work>(shape));
    return cudaSuccess;
  }
  std::size_t const bytes = shape.width * shape.height * shape.depth;
  if (from_pageable && shape.kind == cudaMemcpyHostToDevice && bytes <= max_staged_bytes) {
    std::unique_ptr<std::byte[]> staged(new std::byte[bytes]);
    copy_shape in = shape;
    in.to = staged.get();
    in.to_pitch = shape.width;
    in.to_slice = shape.width * shape.height;
    copy_unlocked(lock, in);
    shape.from = staged.get();
    shape.from_pitch = in.to_pitch;
    shape.from_slice = in.to_slice;
    enqueue(rt, *stream, std::make_shared<copy_work>(shape, std::move(staged)));
    return cudaSuccess;
  }
  wait_for(rt, lock, enqueue(rt, *stream, std::make_shared<copy_work>(shape)));
  return sticky_error(rt);
}

copy_shape line(void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind) {
  copy_shape shape;
  shape.to = static_cast<std::byte*>(to);
  shape.from = static_cast<std::byte const*>(from);
  shape.width = bytes;
  shape.kind = kind;
  return shape;
}

cudaError_t plane(void* to, std::size_t to_pitch, void const* from, std::size_t from_pitch,
                  std::size_t width, std::size_t height, cudaMemcpyKind kind, copy_shape& shape) {
  shape = line(to, from, width, kind);
  shape.height = height;
  shape.to_pitch = to_pitch;
  shape.from_pitch = from_pitch;
  if (width > 0 && height > 1 && (to_pitch < width || from_pitch < width)) {
    return cudaErrorInvalidPitchValue;
  }
  return cudaSuccess;
}

cudaError_t fill(runtime& rt, fill_shape const& shape, null_stream default_stream,
                 cudaStream_t handle, call_style style) {
  runtime_lock lock(rt.mutex);
  auto const stream = find_stream(rt, handle, default_stream);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (shape.width == 0 || shape.height == 0) return cudaSuccess;
  if (cudaError_t const code = forbid_implicit(rt, *stream)) return code;
  if (cudaError_t const code = check_fill(rt, shape)) return code;
  std::shared_ptr<operation> done;
  if (cudaError_t const code =
          submit(rt, *stream, cudaGraphNodeTypeMemset, std::make_shared<fill_work>(shape), &done)) {
    return code;
  }
  allocation const* entry = find_allocation(rt, shape.to);
  if (style == call_style::synchronous && done != nullptr && entry != nullptr &&
      !entry->on_device()) {
    wait_for(rt, lock, done);  // pinned and managed targets: the host waits
  }
  return cudaSuccess;
}

fill_shape rows(void* to, std::size_t pitch, int value, std::size_t width, std::size_t height) {
  fill_shape shape;
  shape.to = static_cast<std::byte*>(to);
  shape.value = static_cast<unsigned>(value) & 0xffU;
  shape.width = width;
  shape.height = height;
  shape.pitch = pitch;
  return shape;
}

// Whether the region of a copy lies within the pitched object.
cudaError_t check_part(cudaPitchedPtr const& whole, cudaPos const& from, cudaExtent const& part) {
  if (whole.ptr == nullptr) return cudaErrorInvalidValue;
  bool const rows_matter = part.height > 1 || part.depth > 1 || from.y > 0 || from.z > 0;
  bool const planes_matter = part.depth > 1 || from.z > 0;
  auto const within = [](std::size_t at, std::size_t length, std::size_t whole_length) {
    return at <= whole_length && length <= whole_length - at;
  };
  if (rows_matter && !within(from.x, part.width, whole.pitch)) return cudaErrorInvalidPitchValue;
  if (planes_matter && !within(from.y, part.height, whole.ysize)) return cudaErrorInvalidValue;
  return cudaSuccess;
}

}  // namespace

cudaError_t check_copy(runtime& rt, copy_shape& shape) {
  if (shape.kind < cudaMemcpyHostToHost || shape.kind > cudaMemcpyDefault) {
    return cudaErrorInvalidMemcpyDirection;
  }
  std::size_t to_span = 0, from_span = 0;
  if (!span_of(shape.width, shape.height, shape.depth, shape.to_pitch, shape.to_slice, to_span) ||
      !span_of(shape.width, shape.height, shape.depth, shape.from_pitch, shape.from_slice,
               from_span)) {
    return cudaErrorInvalidValue;
  }
  pointer_location to, from;
  if (cudaError_t const code = locate(rt, shape.to, to_span, to)) return code;
  if (cudaError_t const code = locate(rt, shape.from, from_span, from)) return code;
  bool const device_to =
      shape.kind == cudaMemcpyHostToDevice || shape.kind == cudaMemcpyDeviceToDevice;
  bool const device_from =
      shape.kind == cudaMemcpyDeviceToHost || shape.kind == cudaMemcpyDeviceToDevice;
  if (shape.kind == cudaMemcpyDefault) {
    shape.kind = to.host_side
                     ? (from.host_side ? cudaMemcpyHostToHost : cudaMemcpyDeviceToHost)
                     : (from.host_side ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToDevice);
  } else if ((device_to ? !to.device_side : !to.host_side) ||
             (device_from ? !from.device_side : !from.host_side)) {
    return cudaErrorInvalidValue;
  }
  shape.to_device = to.entry != nullptr && to.entry->on_device() ? to.entry->device->ordinal : -1;
  shape.from_device =
      from.entry != nullptr && from.entry->on_device() ? from.entry->device->ordinal : -1;
  shape.to_pageable = to.entry == nullptr;
  shape.from_pageable = from.entry == nullptr;
  return cudaSuccess;
}

cudaError_t check_fill(runtime& rt, fill_shape const& shape) {
  std::size_t row = 0, span = 0;
  if (__builtin_mul_overflow(shape.width, std::size_t{shape.element_bytes}, &row)) {
    return cudaErrorInvalidValue;
  }
  if (shape.height > 1 && shape.pitch < row) return cudaErrorInvalidValue;
  if (!span_of(row, shape.height, 1, shape.pitch, 0, span)) return cudaErrorInvalidValue;
  pointer_location to;
  if (cudaError_t const code = locate(rt, shape.to, span, to)) return code;
  return to.device_side ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t shape_of(cudaMemcpy3DParms const& p, copy_shape& shape) {
  if (p.srcArray != nullptr || p.dstArray != nullptr) return cudaErrorNotSupported;
  shape.width = p.extent.width;
  shape.height = p.extent.height;
  shape.depth = p.extent.depth;
  shape.kind = p.kind;
  shape.to_pitch = p.dstPtr.pitch;
  shape.from_pitch = p.srcPtr.pitch;
  if (cudaError_t const code = check_part(p.dstPtr, p.dstPos, p.extent)) return code;
  if (cudaError_t const code = check_part(p.srcPtr, p.srcPos, p.extent)) return code;
  shape.to_slice = p.dstPtr.pitch * p.dstPtr.ysize;
  shape.from_slice = p.srcPtr.pitch * p.srcPtr.ysize;
  shape.to = static_cast<std::byte*>(p.dstPtr.ptr) + p.dstPos.x + p.dstPos.y * p.dstPtr.pitch +
             p.dstPos.z * shape.to_slice;
  shape.from = static_cast<std::byte const*>(p.srcPtr.ptr) + p.srcPos.x +
               p.srcPos.y * p.srcPtr.pitch + p.srcPos.z * shape.from_slice;
  return cudaSuccess;
}

cudaError_t shape_of(cudaMemsetParams const& p, fill_shape& shape) {
  if (p.elementSize != 1 && p.elementSize != 2 && p.elementSize != 4) return cudaErrorInvalidValue;
  shape.to = static_cast<std::byte*>(p.dst);
  shape.value = p.value;
  shape.element_bytes = p.elementSize;
  shape.width = p.width;
  shape.height = p.height;
  shape.pitch = p.pitch;
  return cudaSuccess;
}

}  // namespace warpwright::host

using namespace warpwright::host;

namespace {

cudaError_t copy_1d(null_stream default_stream, void* to, void const* from, size_t bytes,
                    cudaMemcpyKind kind) {
  static call_site site{"cudaMemcpy"};
  return api(site, needs::device, [&](runtime& rt) {
    return copy(rt, line(to, from, bytes, kind), default_stream, nullptr, call_style::synchronous);
  });
}

cudaError_t copy_1d_async(null_stream default_stream, void* to, void const* from, size_t bytes,
                          cudaMemcpyKind kind, cudaStream_t stream) {
  static call_site site{"cudaMemcpyAsync"};
  return api(site, needs::device, [&](runtime& rt) {
    return copy(rt, line(to, from, bytes, kind), default_stream, stream, call_style::asynchronous);
  });
}

cudaError_t copy_2d(null_stream default_stream, void* to, size_t to_pitch, void const* from,
                    size_t from_pitch, size_t width, size_t height, cudaMemcpyKind kind) {
  static call_site site{"cudaMemcpy2D"};
  return api(site, needs::device, [&](runtime& rt) {
    copy_shape shape;
    cudaError_t const code = plane(to, to_pitch, from, from_pitch, width, height, kind, shape);
    if (code != cudaSuccess) return code;
    return copy(rt, shape, default_stream, nullptr, call_style::synchronous);
  });
}

cudaError_t copy_2d_async(null_stream default_stream, void* to, size_t to_pitch, void const* from,
                          size_t from_pitch, size_t width, size_t height, cudaMemcpyKind kind,
                          cudaStream_t stream) {
  static call_site site{"cudaMemcpy2DAsync"};
  return api(site, needs::device, [&](runtime& rt) {
    copy_shape shape;
    cudaError_t const code = plane(to, to_pitch, from, from_pitch, width, height, kind, shape);
    if (code != cudaSuccess) return code;
    return copy(rt, shape, default_stream, stream, call_style::asynchronous);
  });
}

cudaError_t copy_3d(null_stream default_stream, cudaMemcpy3DParms const* parameters) {
  static call_site site{"cudaMemcpy3D"};
  return api(site, needs::device, [&](runtime& rt) {
    if (parameters == nullptr) return cudaErrorInvalidValue;
    copy_shape shape;
    if (cudaError_t const code = shape_of(*parameters, shape)) return code;
    return copy(rt, shape, default_stream, nullptr, call_style::synchronous);
  });
}

cudaError_t copy_3d_async(null_stream default_stream, cudaMemcpy3DParms const* parameters,
                          cudaStream_t stream) {
  static call_site site{"cudaMemcpy3DAsync"};
  return api(site, needs::device, [&](runtime& rt) {
    if (parameters == nullptr) return cudaErrorInvalidValue;
    copy_shape shape;
    if (cudaError_t const code = shape_of(*parameters, shape)) return code;
    return copy(rt, shape, default_stream, stream, call_style::asynchronous);
  });
}

cudaError_t peer_copy(runtime& rt, void* to, int to_device, void const* from, int from_device,
                      size_t bytes, cudaStream_t stream, call_style style) {
  auto const exists = [&rt](int ordinal) {
    return ordinal >= 0 && static_cast<std::size_t>(ordinal) < rt.devices.size();
  };
  if (!exists(to_device) || !exists(from_device)) return cudaErrorInvalidDevice;
  return copy(rt, line(to, from, bytes, cudaMemcpyDeviceToDevice), null_stream::legacy, stream,
              style, true);
}

cudaError_t fill_1d(null_stream default_stream, void* to, int value, size_t bytes) {
  static call_site site{"cudaMemset"};
  return api(site, needs::device, [&](runtime& rt) {
    return fill(rt, rows(to, bytes, value, bytes, 1), default_stream, nullptr,
                call_style::synchronous);
  });
}

cudaError_t fill_1d_async(null_stream default_stream, void* to, int value, size_t bytes,
                          cudaStream_t stream) {
  static call_site site{"cudaMemsetAsync"};
  return api(site, needs::device, [&](runtime& rt) {
    return fill(rt, rows(to, bytes, value, bytes, 1), default_stream, stream,
                call_style::asynchronous);
  });
}

cudaError_t fill_2d(null_stream default_stream, void* to, size_t pitch, int value, size_t width,
                    size_t height) {
  static call_site site{"cudaMemset2D"};
  return api(site, needs::device, [&](runtime& rt) {
    return fill(rt, rows(to, pitch, value, width, height), default_stream, nullptr,
                call_style::synchronous);
  });
}

cudaError_t fill_2d_async(null_stream default_stream, void* to, size_t pitch, int value,
                          size_t width, size_t height, cudaStream_t stream) {
  static call_site site{"cudaMemset2DAsync"};
  return api(site, needs::device, [&](runtime& rt) {
    return fill(rt, rows(to, pitch, value, width, height), default_stream, stream,
                call_style::asynchronous);
  });
}

}  // namespace

WARPWRIGHT_STREAM_API(cudaMemcpy, _ptds, copy_1d,
                      (void* to, void const* from, size_t bytes, cudaMemcpyKind kind),
                      (to, from, bytes, kind))
WARPWRIGHT_STREAM_API(cudaMemcpyAsync, _ptsz, copy_1d_async,
                      (void* to, void const* from, size_t bytes, cudaMemcpyKind kind,
                       cudaStream_t stream),
                      (to, from, bytes, kind, stream))
WARPWRIGHT_STREAM_API(cudaMemcpy2D, _ptds, copy_2d,
                      (void* to, size_t to_pitch, void const* from, size_t from_pitch, size_t width,
                       size_t height, cudaMemcpyKind kind),
                      (to, to_pitch, from, from_pitch, width, height, kind))
WARPWRIGHT_STREAM_API(cudaMemcpy2DAsync, _ptsz, copy_2d_async,
                      (void* to, size_t to_pitch, void const* from, size_t from_pitch, size_t width,
                       size_t height, cudaMemcpyKind kind, cudaStream_t stream),
                      (to, to_pitch, from, from_pitch, width, height, kind, stream))
WARPWRIGHT_STREAM_API(cudaMemcpy3D, _ptds, copy_3d, (cudaMemcpy3DParms const* parameters),
                      (parameters))
WARPWRIGHT_STREAM_API(cudaMemcpy3DAsync, _ptsz, copy_3d_async,
                      (cudaMemcpy3DParms const* parameters, cudaStream_t stream),
                      (parameters, stream))
WARPWRIGHT_STREAM_API(cudaMemset, _ptds, fill_1d, (void* to, int value, size_t bytes),
                      (to, value, bytes))
WARPWRIGHT_STREAM_API(cudaMemsetAsync, _ptsz, fill_1d_async,
                      (void* to, int value, size_t bytes, cudaStream_t stream),
                      (to, value, bytes, stream))
WARPWRIGHT_STREAM_API(cudaMemset2D, _ptds, fill_2d,
                      (void* to, size_t pitch, int value, size_t width, size_t height),
                      (to, pitch, value, width, height))
WARPWRIGHT_STREAM_API(cudaMemset2DAsync, _ptsz, fill_2d_async,
                      (void* to, size_t pitch, int value, size_t width, size_t height,
                       cudaStream_t stream),
                      (to, pitch, value, width, height, stream))

WARPWRIGHT_API cudaError_t cudaMemcpyPeer(void* to, int to_device, void const* from,
                                          int from_device, size_t bytes) {
  static call_site site{"cudaMemcpyPeer"};
  return api(site, needs::device, [&](runtime& rt) {
    return peer_copy(rt, to, to_device, from, from_device, bytes, nullptr, call_style::synchronous);
  });
}

WARPWRIGHT_API cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, void const* from,
                                               int from_device, size_t bytes, cudaStream_t stream) {
  static call_site site{"cudaMemcpyPeerAsync"};
  return api(site, needs::device, [&](runtime& rt) {
    return peer_copy(rt, to, to_device, from, from_device, bytes, stream, call_style::asynchronous);
  });
}
