// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/scale/device_group.hpp>

#include <warpwright/core/detail/capture/capture_guard.hpp>
#include <warpwright/core/detail/clock.hpp>
#include <warpwright/core/detail/text/figures.hpp>
#include <warpwright/memory/buffer.hpp>

#include <exception>
#include <utility>

WARPWRIGHT_BEGIN

WARPWRIGHT_INLINE device_group::device_group(std::vector<device_id> const& devices,
                                             device_group_options const& options,
                                             source_location where)
    : scheduler_{devices.size(), values_of(options)} {
  detail::device_group_settings const& settings = scheduler_.settings;
  if (devices.empty() || settings.streams == 0 || settings.max_pieces == 0) {
    detail::throw_invalid_argument(detail::text{"device_group: "} + devices.size() +
                                       " devices (CUDA_VISIBLE_DEVICES), " + settings.streams +
                                       " streams each and " + settings.max_pieces +
                                       " pieces; give at least 1 of each",
                                   where);
  }
  detail::relaxed_capture_mode const relaxed{where};
  for (device_id const device : devices) members_.emplace_back(device, settings, where);
  for (device_id const from : devices) {
    scoped_device const current{from, where};
    for (device_id const to : devices) {
      if (to == from) continue;
      detail::discard(cudaDeviceEnablePeerAccess(to.value(), 0));  // else through the host
    }
  }
}

WARPWRIGHT_INLINE device_group::~device_group() {
  try {
    wait();
  } catch (...) {
  }
}

WARPWRIGHT_INLINE std::size_t device_group::enqueue(std::size_t device, double items,
                                                    detail::function_ref<void(device_slot&)> f,
                                                    source_location where) {
  if (!(items > 0.0)) {
    detail::throw_invalid_argument(
        detail::text{"device_group: a piece of "} + items + " items; give items above 0", where);
  }
  detail::unique_lock<detail::mutex> lock{lock_};
  constexpr std::size_t any = detail::device_scheduler::none;
  std::size_t index = any;
  for (;; lock.lock()) {
    reap(where);
    index = scheduler_.begin(items, device);
    lock.unlock();
    if (index != any) break;
    detail::sleep_nanoseconds(20000);  // CUDA cannot wait for whichever device is first
  }
  try {
    member& m = members_[index];
    scoped_device const current{m.id, where};
    stream_lease const lease = device == any ? m.streams.lease(where) : stream_lease{};
    device_slot slot{index, m.id, m.pool, lease ? lease.stream() : m.main};
    lock.lock();
    if (m.pieces.size() == m.running) m.pieces.emplace_back(timed_event{where});
    piece p{std::move(m.pieces.back().end), items};
    m.pieces.pop_back();
    if (m.running == 0) m.last.record(slot.stream, where);
    lock.unlock();
    f(slot);
    detail::check_pending("the function of device_group", where);
    p.end.record(slot.stream, where);
    lock.lock();
    m.pieces.emplace_back(std::move(p));
    std::swap(m.pieces.back(), m.pieces[m.running++]);
  } catch (...) {
    if (!lock.owns_lock()) lock.lock();
    scheduler_.end(index, items, -1.0);
    throw;
  }
  return index;
}

// With lock_: tells the scheduler of pieces that have ended.
WARPWRIGHT_INLINE void device_group::reap(source_location where) {
  detail::relaxed_capture_mode const relaxed{where};
  for (std::size_t index = 0; index < size(); ++index) {
    member& m = members_[index];
    for (std::size_t i = 0; i < m.running && i <= scheduler_.settings.streams;) {
      piece& p = m.pieces[i];
      cudaError_t const status = detail::discard(cudaEventQuery(p.end.get()));
      if (status == cudaErrorNotReady && ++i != 0) continue;
      bool const ran = status == cudaSuccess;
      float since = 0.0F;  // not above 0 where a piece of another stream ended later
      if (ran) detail::discard(cudaEventElapsedTime(&since, m.last.get(), p.end.get()));
      if (since > 0.0F) std::swap(m.last, p.end);
      double const seconds = since > 0.0F ? 1e-3 * static_cast<double>(since) : 0.0;
      scheduler_.end(index, p.items, ran ? seconds : -1.0);
      --m.running;
      for (std::size_t k = i; k < m.running; ++k) std::swap(m.pieces[k], m.pieces[k + 1]);
    }
  }
}

WARPWRIGHT_INLINE std::vector<device_part> device_group::split(
    std::size_t items, detail::function_ref<void(device_slot&, std::size_t, std::size_t)> f,
    source_location where) {
  std::vector<device_part> parts(size());
  detail::unique_lock<detail::mutex> lock{lock_};
  reap(where);
  scheduler_.divide(items, parts.data());
  lock.unlock();
  for (device_part const& part : parts) {
    auto const run_part = [&](device_slot& d) { f(d, part.first, part.count); };
    if (part.count != 0) enqueue(part.index, static_cast<double>(part.count), run_part, where);
  }
  return parts;
}

WARPWRIGHT_INLINE void device_group::wait(source_location where) {
  detail::relaxed_capture_mode const relaxed{where};
  std::exception_ptr first;
  for (member const& m : members_) {
    try {
      scoped_device const current{m.id, where};
      m.streams.synchronize(where);  // not those that are lost
      m.main.synchronize(where);
    } catch (...) {
      if (first == nullptr) first = std::current_exception();
    }
  }
  if (first != nullptr) std::rethrow_exception(first);
}

WARPWRIGHT_INLINE std::vector<device_link> device_group::links(std::size_t bytes,
                                                               source_location where) {
  detail::relaxed_capture_mode const relaxed{where};
  std::vector<device_link> all;
  for (member& from : members_) {
    for (member& to : members_) {
      if (&from == &to) continue;
      scoped_device const current{from.id, where};
      device_buffer<char> const source{from.pool, from.main, bytes, where};
      device_buffer<char> const target{to.pool, to.main, bytes, where};
      to.main.synchronize(where);
      timed_event start{where}, end{where};
      double seconds[3];  // of a copy: the first ones, later ones, and later ones of 4 bytes
      for (int round = 0; round < 3; ++round) {
        int const copies = round < 2 ? 4 : 16;
        start.record(from.main, where);
        for (int i = 0; i < copies; ++i) {
          check(cudaMemcpyPeerAsync(target.data(), to.id.value(), source.data(), from.id.value(),
                                    round < 2 ? bytes : 4, from.main),
                "cudaMemcpyPeerAsync", where);
        }
        end.record(from.main, where);
        end.synchronize(where);
        seconds[round] =
            1e-9 + 1e-3 * static_cast<double>(end.milliseconds_since(start, where)) / copies;
      }
      int peer = 0;
      detail::discard(cudaDeviceCanAccessPeer(&peer, from.id.value(), to.id.value()));
      all.push_back(
          {from.id, to.id, peer != 0, static_cast<double>(bytes) / seconds[1], seconds[2]});
    }
  }
  return all;
}

WARPWRIGHT_INLINE std::string to_text(std::vector<device_link> const& links) {
  detail::string_builder text;
  for (device_link const& l : links) {
    text += detail::string_builder{"device "} + l.from.value() + " -> " + l.to.value() + "  " +
            detail::format_rate(l.bytes_per_second) + "B/s  " +
            detail::format_seconds(l.latency_seconds) +
            (l.peer ? "  peer access\n" : "  through the host\n");
  }
  return text;
}

WARPWRIGHT_END
