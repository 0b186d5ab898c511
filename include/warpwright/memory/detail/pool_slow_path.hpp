// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What a memory_pool does when a request misses, and how blocks pass between streams. Included by
// pool.hpp.
//
// Two locks: slow_ is held for the whole of a miss, lock_ only while the books are read or written;
// every CUDA call is made with lock_ open, so that hits of other threads go on meanwhile.
#pragma once

#include <warpwright/memory/pool.hpp>

WARPWRIGHT_BEGIN

/// The state every slow operation needs: the device, a capture mode that lets it make its calls,
/// and entries that do not change owner.
class memory_pool::slow_section {
 public:
  slow_section(memory_pool& pool, source_location where)
      : pool_{pool}, slow_{pool.slow_}, device_{pool.device_, where}, relaxed_{where} {
    spin_held const lock{pool_.lock_};
    pool_.slow_path_runs_ = true;
  }
  ~slow_section() {
    spin_held const lock{pool_.lock_};
    pool_.slow_path_runs_ = false;
  }
  slow_section(slow_section const&) = delete;
  slow_section& operator=(slow_section const&) = delete;

 private:
  memory_pool& pool_;
  detail::held<detail::blocking_mutex> slow_;
  scoped_device device_;
  detail::relaxed_capture_mode relaxed_;
};

inline memory_pool::memory_pool(device_id device, memory_pool_options const& options,
                                source_location where)
    : device_{device}, options_{options}, entries_(1) {
  if (!(options.maximum_fraction_ > 0.0 && options.maximum_fraction_ <= 1.0)) {
    detail::throw_invalid_argument(detail::text{"memory_pool: maximum_fraction is "} +
                                       options.maximum_fraction_ +
                                       "; give a part of the device's memory in (0, 1]",
                                   where);
  }
  if (!(options.growth_factor_ >= 0.0 && options.growth_factor_ <= 16.0)) {
    detail::throw_invalid_argument(detail::text{"memory_pool: growth_factor is "} +
                                       options.growth_factor_ + "; give a number from 0 to 16",
                                   where);
  }
  slow_section const section{*this, where};
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  check(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo", where);
  limit_bytes_ = options.maximum_bytes_;
  if (options.maximum_fraction_ < 1.0) {
    auto const part =
        static_cast<std::size_t>(static_cast<double>(total_bytes) * options.maximum_fraction_);
    if (part < limit_bytes_) limit_bytes_ = part;
  }
  capacity_bytes_ = limit_bytes_ < total_bytes ? limit_bytes_ : total_bytes;
  if (options.checked_) recent_frees_.resize(256);
  std::uint64_t initial = 0;
  if (!heap::round_up(options.initial_bytes_, heap::granule_bytes, initial) ||
      initial > limit_bytes_) {
    throw_out_of_memory(options.initial_bytes_, where);
  }
  if (initial != 0) {
    spin_held lock{lock_};
    add_segment(lock, initial, where);
    if (reserved_bytes_ == 0) {
      lock.unlock();
      throw_out_of_memory(options.initial_bytes_, where);
    }
  }
}

inline memory_pool::~memory_pool() {
  if (options_.destruction_ != nullptr)
    options_.destruction_(options_.destruction_user_, statistics());
  detail::relaxed_capture_mode const relaxed;
  int before = -1;
  cudaError_t const answer = cudaGetDevice(&before);
  detail::discard(answer);
  bool const other_device = answer == cudaSuccess && before != device_.value();
  if (other_device) detail::discard(cudaSetDevice(device_.value()));
  for (heap::segment const& s : heap_.segments()) {
    if (s.bytes == 0) continue;
    detail::discard(cudaFree(reinterpret_cast<void*>(static_cast<std::uintptr_t>(s.address))));
  }
  for (stream_entry const& entry : entries_) {
    for (detail::closed_epoch const& c : entry.closed) detail::discard(cudaEventDestroy(c.event));
  }
  for (cudaEvent_t event : spare_events_) detail::discard(cudaEventDestroy(event));
  if (other_device) detail::discard(cudaSetDevice(before));
}

/// Notes a stream; takes over the entry of one that has nothing here any more.
inline std::uint32_t memory_pool::new_list(std::uint64_t id, cudaStream_t handle) {
  std::uint32_t list = 1;
  for (; list < entries_.size(); ++list) {
    stream_entry const& entry = entries_[list];
    if (!entry.used) break;
    // Some streams are always idle here for a moment: take entries over only when there are many.
    bool const idle = heap_.empty(list) && entry.closed.empty();
    if (idle && !slow_path_runs_ && (entry.handle == nullptr || entries_.size() > 64)) break;
  }
  lists_.reserve(lists_.size() + 1);
  if (list == entries_.size()) {
    entries_.reserve(entries_.size() + 1);
    static_cast<void>(heap_.add_list());
    entries_.emplace_back();
  }
  stream_entry& entry = entries_[list];
  if (entry.used && entry.handle != nullptr) lists_.erase(entry.id);  // else it is gone already
  entry.id = id;
  entry.handle = handle;
  entry.used = true;
  entry.unrecorded_frees = 0;
  entry.unrecorded_bytes = 0;
  entry.waited.clear();
  lists_.insert(id, list);
  return list;
}

inline void* memory_pool::take(std::uint32_t list, request wanted, source_location where) {
  std::uint32_t const node =
      heap_.take(list, wanted.rounded_bytes, wanted.alignment, true, wanted.bytes);
  return node == heap::none ? nullptr : hand_out(node, where);
}

inline void* memory_pool::take_hit(std::uint32_t own, request wanted, source_location where) {
  if (void* const pointer = take(own, wanted, where)) return pointer;
  return take(heap::ready, wanted, where);
}

inline void* memory_pool::allocate_slowly(stream_ref stream, std::uint64_t id, request wanted,
                                          source_location where) {
  if (detail::is_capturing(stream, where)) {
    detail::throw_invalid_argument(
        detail::text{"memory_pool: an allocation of "} + wanted.bytes +
            " bytes on a capturing stream: the graph would use the memory after the pool has given "
            "it to others; allocate before the capture and keep the memory as long as the graph",
        where);
  }
  void* pointer = allocate_once(stream, id, wanted, where);
  if (pointer == nullptr && options_.exhausted_ != nullptr &&
      options_.exhausted_(options_.exhausted_user_, report(wanted.bytes))) {
    pointer = allocate_once(stream, id, wanted, where);
  }
  return pointer;
}

/// All the steps that memory_pool's description names, once.
inline void* memory_pool::allocate_once(stream_ref stream, std::uint64_t id, request wanted,
                                        source_location where) {
  slow_section const section{*this, where};
  spin_held lock{lock_};
  // Nothing below could help, and a hopeless request must not empty the pool.
  if (wanted.rounded_bytes > capacity_bytes_ ||
      heap_.live_bytes() > capacity_bytes_ - wanted.rounded_bytes) {
    return nullptr;
  }
  std::uint32_t const own = list_of(id, stream.get());
  if (void* const pointer = take_hit(own, wanted, where)) return pointer;
  poll(lock, id, where);
  if (void* const pointer = take_hit(own, wanted, where)) return pointer;
  bool const grow_first = options_.order_ == reuse_order::grow_before_wait;
  for (int step = 0; step < 2; ++step) {
    void* const pointer = (step == 0) == grow_first ? grow(lock, wanted, where)
                                                    : steal(lock, own, stream, wanted, where);
    if (pointer != nullptr) return pointer;
  }
  gather(lock, own, stream, where);
  if (void* const pointer = take_hit(own, wanted, where)) return pointer;
  finish_all(lock, id, where);
  if (void* const pointer = take_hit(own, wanted, where)) return pointer;
  static_cast<void>(release_segments(lock, 0, where));
  return grow(lock, wanted, where);
}

/// Reserves a segment and takes the request from it.
inline void* memory_pool::grow(spin_held& lock, request wanted, source_location where) {
  std::uint64_t const allowed = (limit_bytes_ - reserved_bytes_) & ~(heap::granule_bytes - 1);
  std::uint64_t needed = wanted.rounded_bytes + (wanted.alignment - heap::granule_bytes);
  if (needed < wanted.rounded_bytes || needed > allowed) return nullptr;
  constexpr std::uint64_t page_bytes = std::uint64_t{2} << 20U;  // what the driver maps at a time
  std::uint64_t rounded = 0;
  if (heap::round_up(needed, page_bytes, rounded) && rounded <= allowed) needed = rounded;
  double const factor = options_.growth_factor_ * static_cast<double>(reserved_bytes_);
  std::uint64_t wish = options_.growth_bytes_;
  if (factor > static_cast<double>(wish)) wish = static_cast<std::uint64_t>(factor);
  if (!heap::round_up(wish, page_bytes, wish) || wish > allowed) wish = allowed;
  if (wish > needed) {
    std::uint64_t const before = reserved_bytes_;
    // With no limit and a device that is full, a huge wish must not hide a request that fits.
    add_segment(lock, wish, where);
    if (reserved_bytes_ != before) return take(heap::ready, wanted, where);
  }
  add_segment(lock, needed, where);
  return take(heap::ready, wanted, where);
}

/// Adds a segment; does nothing when CUDA has not that much memory.
inline void memory_pool::add_segment(spin_held& lock, std::size_t bytes, source_location where) {
  lock.unlock();
  void* pointer = nullptr;
  cudaError_t const answer = cudaMalloc(&pointer, bytes);
  if (answer == cudaErrorMemoryAllocation) detail::discard(answer);
  lock.lock();
  if (answer == cudaErrorMemoryAllocation) return;
  check(answer, "cudaMalloc", where);
  try {
    heap_.add_segment(address_of(pointer), bytes);
  } catch (...) {
    lock.unlock();
    detail::discard(cudaFree(pointer));
    throw;
  }
  ++counters_.upstream_allocations;
  reserved_bytes_ += bytes;
  if (reserved_bytes_ > counters_.reserved_peak_bytes) {
    counters_.reserved_peak_bytes = reserved_bytes_;
  }
}

/// Gives free segments back, the largest first, while more than `keep_bytes` stay reserved.
inline std::size_t memory_pool::release_segments(spin_held& lock, std::uint64_t keep_bytes,
                                                 source_location where) {
  std::size_t released = 0;
  while (reserved_bytes_ > keep_bytes) {
    heap::segment const s = heap_.remove_empty_segment(reserved_bytes_ - keep_bytes);
    if (s.bytes == 0) break;
    lock.unlock();
    cudaError_t const answer =
        cudaFree(reinterpret_cast<void*>(static_cast<std::uintptr_t>(s.address)));
    lock.lock();
    if (answer != cudaSuccess) heap_.add_segment(s.address, s.bytes);
    check(answer, "cudaFree", where);
    ++counters_.upstream_deallocations;
    reserved_bytes_ -= s.bytes;
    released += s.bytes;
  }
  return released;
}

/// Takes one block of another stream and orders the caller's stream behind the donor.
inline void* memory_pool::steal(spin_held& lock, std::uint32_t own, stream_ref stream,
                                request wanted, source_location where) {
  std::uint32_t best = heap::none;
  int best_price = 3;
  for (std::uint32_t list = 1; list < entries_.size(); ++list) {
    if (list == own) continue;
    std::uint32_t const node = heap_.find_fit(list, wanted.rounded_bytes, wanted.alignment, true);
    if (node == heap::none) continue;
    // The cheapest first: already ordered, one wait, one record and one wait. Then the best fit.
    std::uint64_t const epoch = heap_.at(node).epoch;
    stream_entry const& donor = entries_[list];
    bool const recorded = !donor.closed.empty() && donor.closed.back().epoch >= epoch;
    int const price = waits_already(own, list, epoch) ? 0 : recorded ? 1 : 2;
    if (price == 2 && (donor.handle == nullptr || donor.handle == cudaStreamPerThread)) continue;
    if (best == heap::none || price < best_price ||
        (price == best_price && heap_.at(node).bytes < heap_.at(best).bytes)) {
      best = node;
      best_price = price;
    }
  }
  if (best == heap::none) return nullptr;
  std::uint32_t const donor = heap_.at(best).list;
  std::uint64_t const epoch = heap_.at(best).epoch;
  std::uint32_t const node =
      heap_.take(donor, wanted.rounded_bytes, wanted.alignment, true, wanted.bytes);
  if (node == heap::none) return nullptr;
  bool ordered = best_price == 0;
  // The block is out of the books meanwhile: nobody else can take it while the calls are made.
  auto const give_back = [&] {
    bool const newer = !heap_.empty(donor) && heap_.newest_epoch(donor) > epoch;
    heap_.give(node, donor, newer ? heap_.newest_epoch(donor) : epoch);
  };
  try {
    if (best_price == 1 ||
        (best_price == 2 && record_behind(lock, donor, entries_[own].id, where))) {
      order_behind(lock, own, stream, donor, epoch, where);
      ordered = true;
    }
  } catch (...) {
    give_back();
    throw;
  }
  if (!ordered) {
    give_back();
    return nullptr;
  }
  ++counters_.cross_stream_steals;
  return hand_out(node, where);
}

/// Makes every free block the stream's own, behind one wait for each other stream, so that blocks
/// of different streams merge.
inline void memory_pool::gather(spin_held& lock, std::uint32_t own, stream_ref stream,
                                source_location where) {
  for (std::uint32_t list = 1; list < entries_.size(); ++list) {
    if (list == own || heap_.empty(list)) continue;
    static_cast<void>(close_epoch(lock, list, entries_[own].id, where));
    if (entries_[list].closed.empty()) continue;
    std::uint64_t const epoch = entries_[list].closed.back().epoch;
    order_behind(lock, own, stream, list, epoch, where);
    move_blocks(lock, list, epoch, own, entries_[own].open_epoch);
  }
  move_blocks(lock, heap::ready, 0, own, entries_[own].open_epoch);
}

/// Whether an event stands behind every free block of the list.
inline bool memory_pool::covered(std::uint32_t list) const noexcept {
  if (heap_.empty(list)) return true;
  stream_entry const& entry = entries_[list];
  return !entry.closed.empty() && entry.closed.back().epoch >= heap_.newest_epoch(list);
}

/// Records an event behind the list's blocks where that is needed and possible.
/// @return covered(list)
inline bool memory_pool::close_epoch(spin_held& lock, std::uint32_t list, std::uint64_t own_id,
                                     source_location where) {
  return covered(list) || record_behind(lock, list, own_id, where);
}

/// Records an event on the list's stream: it stands behind everything freed there so far.
/// @return false when the stream is gone, capturing, or another thread's default stream
inline bool memory_pool::record_behind(spin_held& lock, std::uint32_t list, std::uint64_t own_id,
                                       source_location where) {
  cudaStream_t const handle = entries_[list].handle;
  if (handle == nullptr || (handle == cudaStreamPerThread && entries_[list].id != own_id)) {
    return false;
  }
  entries_[list].closed.reserve(entries_[list].closed.size() + 1);
  std::uint64_t const epoch = entries_[list].open_epoch++;  // frees from here on are not covered
  entries_[list].unrecorded_frees = 0;
  entries_[list].unrecorded_bytes = 0;
  cudaEvent_t event = nullptr;
  if (!spare_events_.empty()) {
    event = spare_events_.back();
    spare_events_.pop_back();
  } else {
    spare_events_.reserve(event_count_ + 1);  // giving it back later cannot fail
  }
  bool const is_new = event == nullptr;
  lock.unlock();
  char const* api = "cudaEventCreateWithFlags";
  cudaError_t answer = cudaSuccess;
  if (is_new) answer = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  bool captured = detail::may_be_capturing(handle);
  if (answer == cudaSuccess && !captured) {
    api = "cudaEventRecord";
    answer = cudaEventRecord(event, handle);
    if (answer == cudaSuccess && detail::may_be_capturing(handle)) {
      // A capture began in between: the event may be part of it and must not be touched again.
      captured = true;
      detail::discard(cudaEventDestroy(event));
      event = nullptr;
    }
  }
  lock.lock();
  if (is_new && event != nullptr) ++event_count_;
  if (!is_new && event == nullptr) --event_count_;
  if (answer == cudaSuccess && !captured) {
    ++counters_.event_records;
    entries_[list].closed.push_back(detail::closed_epoch{epoch, event});
    return true;
  }
  if (event != nullptr) spare_events_.push_back(event);
  check(answer, api, where);
  return false;
}

/// Called by deallocate() for the calling thread's default stream, whose event nobody else can
/// record. A failure leaves the blocks to a later event.
inline void memory_pool::close_thread_epoch(std::uint64_t id) noexcept {
  source_location const here = source_location::current();
  try {
    slow_section const section{*this, here};
    spin_held lock{lock_};
    std::uint32_t const list = lists_.find(id);
    if (list != detail::address_map::none) static_cast<void>(close_epoch(lock, list, id, here));
  } catch (...) {
    return;
  }
}

/// Learns which streams have passed their events, and records events for later polls.
inline void memory_pool::poll(spin_held& lock, std::uint64_t own_id, source_location where) {
  for (std::uint32_t list = 1; list < entries_.size(); ++list) {
    if (entries_[list].closed.empty()) static_cast<void>(close_epoch(lock, list, own_id, where));
    while (!entries_[list].closed.empty()) {
      cudaEvent_t const event = entries_[list].closed.front().event;
      lock.unlock();
      cudaError_t const answer = cudaEventQuery(event);
      detail::discard(answer);
      lock.lock();
      if (answer == cudaErrorNotReady) break;
      check(answer, "cudaEventQuery", where);
      finish_oldest(lock, list);
    }
  }
}

/// Moves blocks in portions, so that the hits of other threads need not wait for all of them.
inline void memory_pool::move_blocks(spin_held& lock, std::uint32_t from, std::uint64_t epoch,
                                     std::uint32_t to, std::uint64_t new_epoch) noexcept {
  while (!heap_.move(from, epoch, to, new_epoch, 256)) {
    lock.unlock();
    lock.lock();
  }
}

/// The oldest event of a stream has been passed: what it stands behind is everyone's.
inline void memory_pool::finish_oldest(spin_held& lock, std::uint32_t list) noexcept {
  move_blocks(lock, list, entries_[list].closed.front().epoch, heap::ready, 0);
  stream_entry& entry = entries_[list];
  spare_events_.push_back(entry.closed.front().event);
  entry.closed.remove_front(1);
}

inline bool memory_pool::waits_already(std::uint32_t own, std::uint32_t donor,
                                       std::uint64_t epoch) const noexcept {
  for (detail::remembered_wait const& w : entries_[own].waited) {
    if (w.donor == donor) return w.epoch >= epoch;
  }
  return false;
}

/// Makes the stream wait for the donor's first event behind `epoch`, unless it does already.
/// @pre such an event has been recorded
inline void memory_pool::order_behind(spin_held& lock, std::uint32_t own, stream_ref stream,
                                      std::uint32_t donor, std::uint64_t epoch,
                                      source_location where) {
  if (waits_already(own, donor, epoch)) return;
  detail::closed_epoch behind;
  for (detail::closed_epoch const& c : entries_[donor].closed) {
    behind = c;
    if (c.epoch >= epoch) break;
  }
  entries_[own].waited.reserve(entries_[own].waited.size() + 1);
  lock.unlock();
  cudaError_t const answer = cudaStreamWaitEvent(stream.get(), behind.event, 0);
  lock.lock();
  check(answer, "cudaStreamWaitEvent", where);
  ++counters_.stream_waits;
  for (detail::remembered_wait& w : entries_[own].waited) {
    if (w.donor != donor) continue;
    w.epoch = behind.epoch;
    return;
  }
  entries_[own].waited.push_back(detail::remembered_wait{donor, behind.epoch});
}

/// Waits on the host until every free block that can be is everyone's.
inline void memory_pool::finish_all(spin_held& lock, std::uint64_t own_id, source_location where) {
  bool other_threads = false;
  for (std::uint32_t list = 1; list < entries_.size(); ++list) {
    if (!close_epoch(lock, list, own_id, where) && entries_[list].handle == cudaStreamPerThread) {
      other_threads = true;
    }
    while (!entries_[list].closed.empty()) {
      cudaEvent_t const event = entries_[list].closed.front().event;
      lock.unlock();
      cudaError_t const answer = cudaEventSynchronize(event);
      lock.lock();
      check(answer, "cudaEventSynchronize", where);
      finish_oldest(lock, list);
    }
  }
  if (!other_threads) return;
  // Only those threads could record their default streams' events: wait for the device instead.
  detail::array<std::uint64_t> epochs(entries_.size());
  for (std::uint32_t list = 1; list < entries_.size(); ++list) {
    if (entries_[list].handle == cudaStreamPerThread) epochs[list] = entries_[list].open_epoch++;
  }
  lock.unlock();
  cudaError_t const answer = cudaDeviceSynchronize();
  lock.lock();
  if (answer == cudaErrorStreamCaptureUnsupported || answer == cudaErrorStreamCaptureImplicit) {
    detail::discard(answer);
    return;
  }
  check(answer, "cudaDeviceSynchronize", where);
  for (std::uint32_t list = 1; list < epochs.size(); ++list) {
    move_blocks(lock, list, epochs[list], heap::ready, 0);
  }
}

inline void memory_pool::release_stream(stream_ref stream, source_location where) {
  if (detail::is_capturing(stream, where)) {
    detail::throw_invalid_argument(
        "memory_pool: release_stream of a capturing stream; end the capture first", where);
  }
  std::uint64_t const id = stream.id(where);
  slow_section const section{*this, where};
  spin_held lock{lock_};
  std::uint32_t const list = lists_.find(id);
  if (list == detail::address_map::none) return;
  if (!close_epoch(lock, list, id, where)) {
    lock.unlock();
    detail::throw_invalid_argument(
        "memory_pool: release_stream of a stream whose capture began meanwhile", where);
  }
  entries_[list].handle = nullptr;
  lists_.erase(id);
}

inline std::size_t memory_pool::trim(std::size_t bytes_to_keep, source_location where) {
  slow_section const section{*this, where};
  spin_held lock{lock_};
  finish_all(lock, nobody, where);
  return release_segments(lock, bytes_to_keep, where);
}

WARPWRIGHT_END
