// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/scale/device_group.hpp>

#include <warpwright/core/detail/capture/capture_guard.hpp>
#include <warpwright/core/detail/text/figures.hpp>
#include <warpwright/memory/buffer.hpp>

#include <exception>
#include <utility>

WARPWRIGHT_BEGIN

namespace detail {

inline constexpr std::uint64_t poll_nanoseconds = 20000;

WARPWRIGHT_INLINE std::vector<device_id> all_devices(source_location where) {
  int const count = device_count(where);
  if (count == 0) {
    throw_invalid_argument(
        "device_group: there is no device; check the driver and CUDA_VISIBLE_DEVICES", where);
  }
  std::vector<device_id> all;
  for (int i = 0; i < count; ++i) all.push_back(device_id{i});
  return all;
}

WARPWRIGHT_INLINE bool can_access(device_id from, device_id to, source_location where) {
  int can = 0;
  check(cudaDeviceCanAccessPeer(&can, from.value(), to.value()), "cudaDeviceCanAccessPeer", where);
  return can != 0;
}

}  // namespace detail

WARPWRIGHT_INLINE device_group::device_group(device_group_options const& options,
                                             source_location where)
    : device_group{detail::all_devices(where), options, where} {}

WARPWRIGHT_INLINE device_group::device_group(std::vector<device_id> const& devices,
                                             device_group_options const& options,
                                             source_location where)
    : settings_{values_of(options)},
      scheduler_{devices.size(), settings_.schedule, settings_.streams, settings_.max_pieces} {
  if (devices.empty() || settings_.streams == 0 || settings_.max_pieces == 0) {
    detail::throw_invalid_argument(detail::text{"device_group: "} + devices.size() + " devices, " +
                                       settings_.streams + " streams each, at most " +
                                       settings_.max_pieces + " pieces; give at least 1 of each",
                                   where);
  }
  int const count = device_count(where);
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (devices[i].value() < 0 || devices[i].value() >= count) {
      detail::throw_invalid_argument(
          detail::text{"device_group: "} + detail::missing_device(devices[i], count), where);
    }
    for (std::size_t k = 0; k < i; ++k) {
      if (devices[k] == devices[i]) {
        detail::throw_invalid_argument(detail::text{"device_group: device "} + devices[i].value() +
                                           " is named twice; name each once",
                                       where);
      }
    }
  }
  detail::relaxed_capture_mode const relaxed{where};
  members_.reserve(devices.size());
  for (device_id const device : devices) {
    members_.push_back(new member{device, settings_, where});
  }
  for (std::size_t i = 0; settings_.peer_access && i < devices.size(); ++i) {
    scoped_device const current{devices[i], where};
    for (device_id const to : devices) {
      if (to == devices[i] || !detail::can_access(devices[i], to, where)) continue;
      cudaError_t const status = detail::discard(cudaDeviceEnablePeerAccess(to.value(), 0));
      // Without it, as beyond the maximum of peers, copies go through the host.
      bool const is_fine =
          status == cudaErrorPeerAccessAlreadyEnabled || status == cudaErrorTooManyPeers;
      if (!is_fine) check(status, "cudaDeviceEnablePeerAccess", where);
    }
  }
}

WARPWRIGHT_INLINE device_group::~device_group() {
  try {
    wait();
  } catch (...) {
  }
}

WARPWRIGHT_INLINE void device_group::enqueue(std::size_t index, bool on_main, double items,
                                             detail::function_ref<void(device_slot&)> f,
                                             source_location where) {
  member& m = *members_[index];
  try {
    stream_lease lease;
    if (!on_main) lease = m.leases.lease(where);
    stream_ref const stream = on_main ? m.main.ref() : lease.stream();
    scoped_device const current{m.id, where};
    piece p = take_piece(m, where);
    p.items = items;
    p.start.record(stream, where);
    device_slot slot{index, m.id, m.pool, stream};
    f(slot);
    detail::check_pending("the function of device_group", where);
    p.end.record(stream, where);
    detail::unique_lock<detail::mutex> const lock{m.lock};
    m.running.emplace_back(std::move(p));
  } catch (...) {
    detail::unique_lock<detail::spin_lock> const lock{choosing_};
    scheduler_.end(index, items, -1.0, now());
    throw;
  }
}

WARPWRIGHT_INLINE device_group::piece device_group::take_piece(member& m, source_location where) {
  detail::unique_lock<detail::mutex> lock{m.lock};
  if (!m.spare.empty()) {
    piece spare = std::move(m.spare.back());
    m.spare.pop_back();
    return spare;
  }
  m.running.reserve(++m.pieces);  // so that nothing fails behind the last record
  m.spare.reserve(m.pieces);
  lock.unlock();
  return piece{timed_event{where}, timed_event{where}, 0.0};
}

WARPWRIGHT_INLINE void device_group::reap(std::size_t index) noexcept {
  member& m = *members_[index];
  detail::unique_lock<detail::mutex> const lock{m.lock, false};
  if (!lock.owns_lock()) return;  // another thread does it
  for (std::size_t i = 0, incomplete = 0;
       i < m.running.size() && incomplete <= settings_.streams;) {
    piece& p = m.running[i];
    cudaError_t status = cudaEventQuery(p.end.get());
    if (status == cudaErrorNotReady) {
      ++incomplete;
      ++i;
      continue;
    }
    float taken = 0.0F;  // since its start
    if (status == cudaSuccess) {
      status = cudaEventElapsedTime(&taken, p.start.get(), p.end.get());
    }
    float since = taken;  // the end of the last one before it; of another stream, below 0
    if (status == cudaSuccess && m.has_last) {
      status = cudaEventElapsedTime(&since, m.last.get(), p.end.get());
    }
    double const ran = static_cast<double>(since < taken ? since : taken);
    double const seconds = detail::discard(status) != cudaSuccess ? -1.0
                           : ran > 0.0                            ? 1e-3 * ran
                                                                  : 0.0;
    {
      detail::unique_lock<detail::spin_lock> const choosing{choosing_};
      scheduler_.end(index, p.items, seconds, now());
    }
    if (seconds >= 0.0 && since >= 0.0F) {
      std::swap(m.last, p.end);
      m.has_last = true;
    }
    m.spare.emplace_back(std::move(p));
    for (std::size_t k = i + 1; k < m.running.size(); ++k)
      m.running[k - 1] = std::move(m.running[k]);
    m.running.pop_back();
  }
}

WARPWRIGHT_INLINE void device_group::reap_all(source_location where) {
  detail::relaxed_capture_mode const relaxed{where};
  for (std::size_t i = 0; i < size(); ++i) reap(i);
}

WARPWRIGHT_INLINE std::size_t device_group::run_any(double items,
                                                    detail::function_ref<void(device_slot&)> f,
                                                    source_location where) {
  if (!(items > 0.0 && items <= 1e100)) {
    detail::throw_invalid_argument(
        detail::text{"device_group: a piece of "} + items + " items; give a number above 0", where);
  }
  // CUDA cannot wait for whichever device is first.
  for (;; detail::sleep_nanoseconds(detail::poll_nanoseconds)) {
    reap_all(where);
    detail::unique_lock<detail::spin_lock> lock{choosing_};
    std::size_t const index = scheduler_.take(items, now());
    lock.unlock();
    if (index == detail::device_scheduler::none) continue;
    enqueue(index, false, items, f, where);
    return index;
  }
}

WARPWRIGHT_INLINE std::vector<device_part> device_group::split_all(
    std::size_t items, detail::function_ref<void(device_slot&, std::size_t, std::size_t)> f,
    source_location where) {
  std::vector<device_part> parts(size());
  detail::array<std::size_t> counts(size());
  reap_all(where);
  {
    detail::unique_lock<detail::spin_lock> const lock{choosing_};
    scheduler_.divide(items, counts.begin());
  }
  try {
    for (std::size_t i = 0, first = 0; i < size(); first += counts[i++]) {
      std::size_t const count = counts[i];
      parts[i] = {i, first, count};
      auto const part = [&](device_slot& d) { f(d, first, count); };
      auto const begin = [&] {
        detail::unique_lock<detail::spin_lock> const lock{choosing_};
        return scheduler_.begin(i, static_cast<double>(count), now());
      };
      for (; count != 0 && !begin(); reap_all(where)) {
        detail::sleep_nanoseconds(detail::poll_nanoseconds);
      }
      if (count != 0) enqueue(i, true, static_cast<double>(count), part, where);
    }
  } catch (...) {
    detail::relaxed_capture_mode const relaxed;
    for (member* const m : members_) detail::discard(cudaStreamSynchronize(m->main));
    throw;
  }
  return parts;
}

WARPWRIGHT_INLINE void device_group::gather_all(stream_ref stream,
                                                std::vector<device_part> const& parts, void* target,
                                                detail::array<void const*> const& from,
                                                std::size_t item_bytes, source_location where) {
  cudaPointerAttributes where_is{};
  check(cudaPointerGetAttributes(&where_is, target), "cudaPointerGetAttributes", where);
  if (where_is.type == cudaMemoryTypeUnregistered) {
    detail::throw_invalid_argument(
        "device_group: gather() into pageable memory, where copies would wait for each other; give "
        "device or page-locked memory",
        where);
  }
  event ready{where};
  ready.record(stream, where);
  for (std::size_t k = 0; k < parts.size(); ++k) {
    device_part const& part = parts[k];
    if (part.count == 0) continue;
    if (from[k] == nullptr || part.index >= size()) {
      detail::throw_invalid_argument(detail::text{"device_group: gather() of "} + part.count +
                                         " items of device " + part.index + " of " + size() +
                                         ", and no source; give a pointer for each part",
                                     where);
    }
    member& m = *members_[part.index];
    scoped_device const current{m.id, where};
    void* const to = static_cast<char*>(target) + part.first * item_bytes;
    std::size_t const bytes = part.count * item_bytes;
    m.main.wait(ready, where);
    if (where_is.type == cudaMemoryTypeDevice && where_is.device != m.id.value()) {
      check(cudaMemcpyPeerAsync(to, where_is.device, from[k], m.id.value(), bytes, m.main),
            "cudaMemcpyPeerAsync", where);
    } else {
      check(cudaMemcpyAsync(to, from[k], bytes, cudaMemcpyDefault, m.main), "cudaMemcpyAsync",
            where);
    }
    event done{where};
    done.record(m.main, where);
    stream.wait(done, where);
  }
}

WARPWRIGHT_INLINE void device_group::wait(source_location where) {
  detail::relaxed_capture_mode const relaxed{where};
  std::exception_ptr first;
  for (member* const m : members_) {
    for (bool const leased : {false, true}) {
      try {
        scoped_device const current{m->id, where};
        leased ? m->leases.synchronize(where) : m->main.synchronize(where);
      } catch (...) {
        if (first == nullptr) first = std::current_exception();
      }
    }
  }
  if (first != nullptr) std::rethrow_exception(first);
}

WARPWRIGHT_INLINE std::vector<device_link> device_group::links(std::size_t bytes,
                                                               source_location where) {
  detail::relaxed_capture_mode const relaxed{where};
  std::vector<device_link> all;
  bytes = bytes < 4 ? 4 : bytes;
  for (member* const from : members_) {
    for (member* const to : members_) {
      if (from == to) continue;
      scoped_device const current{from->id, where};
      device_buffer<char> const source{from->pool, from->main, bytes, where};
      device_buffer<char> const target{to->pool, to->main, bytes, where};
      to->main.synchronize(where);
      timed_event start{where}, end{where};
      auto const seconds_of = [&](std::size_t size, int copies) {
        start.record(from->main, where);
        for (int i = 0; i < copies; ++i) {
          check(cudaMemcpyPeerAsync(target.data(), to->id.value(), source.data(), from->id.value(),
                                    size, from->main),
                "cudaMemcpyPeerAsync", where);
        }
        end.record(from->main, where);
        end.synchronize(where);
        return 1e-3 * static_cast<double>(end.milliseconds_since(start, where)) / copies;
      };
      static_cast<void>(seconds_of(bytes, 1));
      device_link link{from->id, to->id};
      link.peer = settings_.peer_access && detail::can_access(from->id, to->id, where);
      double const seconds = seconds_of(bytes, 4);
      link.bytes_per_second = seconds > 0.0 ? static_cast<double>(bytes) / seconds : 0.0;
      link.latency_seconds = seconds_of(4, 16);
      all.push_back(link);
    }
  }
  return all;
}

WARPWRIGHT_INLINE std::vector<device_load> device_group::statistics(source_location where) {
  reap_all(where);
  std::vector<device_load> all;
  for (std::size_t i = 0; i < size(); ++i) {
    detail::unique_lock<detail::spin_lock> lock{choosing_};
    detail::device_scheduler::device const d = scheduler_[i];
    lock.unlock();
    double const pace = detail::device_scheduler::pace_of(d);
    all.push_back({device(i), d.completed, d.failed, d.queued, pace > 0.0 ? 1.0 / pace : 0.0});
  }
  return all;
}

WARPWRIGHT_INLINE std::string to_text(std::vector<device_link> const& links) {
  detail::string_builder text;
  for (device_link const& link : links) {
    text += detail::string_builder{"device "} + link.from.value() + " -> " + link.to.value() +
            "  " + detail::padded(detail::format_rate(link.bytes_per_second) + "B/s", 12) + "  " +
            detail::padded(detail::format_seconds(link.latency_seconds), 8) +
            (link.peer ? "  peer access\n" : "  through the host\n");
  }
  return text;
}

WARPWRIGHT_END
