// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/clock.hpp>
#include <warpwright/core/detail/device/device_scope.hpp>
#include <warpwright/core/detail/thread/thread.hpp>
#include <warpwright/memory/detail/staging/staging_workers.hpp>

#include <cstring>
#include <new>
#include <stdexcept>

WARPWRIGHT_BEGIN

namespace detail {

WARPWRIGHT_INLINE void staging_slots::create(pinned_core& pool, std::size_t count,
                                             std::size_t bytes, source_location where) {
  bytes_ = bytes;
  all_.resize(count);
  for (staging_slot& slot : all_) {
    check(cudaEventCreateWithFlags(&slot.event, cudaEventDisableTiming), "cudaEventCreateWithFlags",
          where);
    void* const memory = pool.try_allocate(bytes, pinned_core::default_alignment, where);
    if (memory == nullptr) pool.throw_out_of_memory(bytes, where);
    slot.memory = static_cast<char*>(memory);
    free_.push_back(slot);
  }
}

WARPWRIGHT_INLINE void staging_slots::destroy(pinned_core& pool) noexcept {
  for (staging_slot& slot : all_) {
    bool done = !slot.in_flight && slot.memory != nullptr;
    for (int attempt = 0; attempt < 2 && !done && slot.memory != nullptr; ++attempt) {
      cudaError_t const result = cudaEventSynchronize(slot.event);
      discard(result);
      done = result == cudaSuccess;
    }
    if (slot.event != nullptr) discard(cudaEventDestroy(slot.event));
    if (!done) continue;  // a copy may still use it: leak it rather than reuse it too early
    try {
      pool.deallocate(slot.memory, bytes_, source_location::current());
    } catch (...) {  // a destructor cannot throw; the pool counts the block as live
    }
  }
  all_.clear();
}

/// @return the oldest slot in flight if its copy is complete, else null
WARPWRIGHT_INLINE staging_slot* staging_slots::take_arrived() noexcept {
  staging_slot* slot = nullptr;
  {
    unique_lock<mutex> const lock{mutex_};
    slot = in_flight_.pop();
  }
  if (slot == nullptr) return nullptr;
  cudaError_t const result = cudaEventQuery(slot->event);
  discard(result);
  if (result == cudaSuccess) {
    slot->in_flight = false;
    return slot;
  }
  give_back(*slot);  // of an error the next call tells
  return nullptr;
}

WARPWRIGHT_INLINE staging_slot* staging_slots::take() noexcept {
  std::size_t left = 0;
  {
    unique_lock<mutex> const lock{mutex_};
    left = in_flight_.size;
  }
  staging_slot* slot = left != 0 ? take_arrived() : nullptr;
  if (slot != nullptr) return slot;
  {
    unique_lock<mutex> const lock{mutex_};
    slot = free_.pop();
  }
  // Other threads may give slots back meanwhile: each is looked at once.
  for (; slot == nullptr && left > 1; --left) slot = take_arrived();
  return slot;
}

WARPWRIGHT_INLINE void staging_slots::give_back(staging_slot& slot) noexcept {
  unique_lock<mutex> const lock{mutex_};
  slot.in_flight ? in_flight_.push_back(slot) : free_.push_front(slot);
}

/// Whether CUDA does not know the memory: not page-locked, registered or managed.
WARPWRIGHT_INLINE bool is_unregistered(void const* memory) noexcept {
  cudaPointerAttributes attributes{};
  cudaError_t const status = cudaPointerGetAttributes(&attributes, memory);
  discard(status);
  return status != cudaSuccess || attributes.type == cudaMemoryTypeUnregistered;
}

WARPWRIGHT_INLINE unsigned staging_workers::default_threads() noexcept {
  return allowed_processors(8);
}

WARPWRIGHT_INLINE void staging_workers::start(staging_slots& shared, unsigned threads, int device,
                                              source_location where) {
  slots_ = &shared;
  device_ = device;
  workers_.resize(threads);
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    workers_[i].owner = this;
    int const error = workers_[i].runner.start<&worker::run>(workers_[i]);
    if (error == 0) continue;
    text const message = text{where.file(), where.line()} +
                         ": staging: pthread_create: " + std::strerror(error) + " after " + i +
                         " threads; give staging_options fewer threads";
    throw std::runtime_error{message.c_str()};
  }
}

WARPWRIGHT_INLINE void staging_workers::stop() noexcept {
  {
    unique_lock<mutex> const lock{mutex_};
    stopping_ = true;
    changed_.notify_all();
  }
  workers_.clear();  // joins
}

WARPWRIGHT_INLINE std::size_t staging_workers::run(staging_job& job) {
  // Each thread has so many chunks that it has begun and not finished.
  job.unfinished.reserve((job.most_helpers + std::size_t{1}) * (job.depth + std::size_t{1}));
  if (job.most_helpers != 0) {
    unique_lock<mutex> const lock{mutex_};
    job.next = jobs_;
    jobs_ = &job;
    // What is read from the device comes when the stream has done its earlier work.
    job.open = job.to_device;
    if (job.open) changed_.notify_all();
  }
  copy(job, false);
  unique_lock<mutex> const lock{mutex_};
  if (job.most_helpers != 0) {
    job.open = false;
    staging_job** at = &jobs_;
    while (*at != &job) at = &(*at)->next;
    *at = job.next;
    while (job.helpers != 0) job.left.wait(mutex_);
  }
  std::size_t prefix = job.next_item;
  for (std::size_t const first : job.unfinished) prefix = first < prefix ? first : prefix;
  return prefix;
}

WARPWRIGHT_INLINE staging_job* staging_workers::find_open() noexcept {
  staging_job* found = nullptr;
  for (staging_job* job = jobs_; job != nullptr; job = job->next) {
    bool const has_work = job->open && !job->stopped && job->next_item < job->items;
    if (!has_work || job->helpers >= job->most_helpers) continue;
    if (found == nullptr || job->helpers < found->helpers) found = job;
  }
  return found;
}

WARPWRIGHT_INLINE void staging_workers::run_worker() noexcept {
  cudaError_t const setup = set_up_thread(device_);
  unique_lock<mutex> lock{mutex_};
  for (;;) {
    // A thread whose setup failed leaves the chunks to the others.
    staging_job* const job = setup == cudaSuccess ? find_open() : nullptr;
    if (job == nullptr) {
      if (stopping_) return;
      changed_.wait(mutex_);
      continue;
    }
    ++job->helpers;
    lock.unlock();
    copy(*job, true);
    lock.lock();
    if (--job->helpers == 0) job->left.notify_all();
  }
}

WARPWRIGHT_INLINE void staging_workers::set_open(staging_job& job, bool open) noexcept {
  if (job.most_helpers == 0) return;
  unique_lock<mutex> const lock{mutex_};
  if (job.open == open) return;
  job.open = open;
  if (open) changed_.notify_all();
}

WARPWRIGHT_INLINE bool staging_workers::has_chunk(staging_job const& job) noexcept {
  unique_lock<mutex> const lock{mutex_};
  return !job.stopped && job.next_item < job.items;
}

WARPWRIGHT_INLINE bool staging_workers::next_chunk(staging_job& job, chunk& part) noexcept {
  unique_lock<mutex> const lock{mutex_};
  if (job.stopped || job.next_item >= job.items) return false;
  std::size_t const left = job.items - job.next_item;
  part.first = job.next_item;
  part.count = left < job.chunk_items ? left : job.chunk_items;
  job.next_item += part.count;
  job.unfinished.push_back(part.first);  // has capacity
  return true;
}

WARPWRIGHT_INLINE void staging_workers::finish(staging_job& job, chunk const& part,
                                               bool helper) noexcept {
  std::size_t done = 0;
  bool stopped = false;
  {
    unique_lock<mutex> const lock{mutex_};
    stopped = job.stopped;
    array<std::size_t>& list = job.unfinished;
    std::size_t i = 0;
    while (list[i] != part.first) ++i;
    list[i] = list.back();
    list.pop_back();
    done = job.next_item;
    for (std::size_t const first : list) done = first < done ? first : done;
  }
  if (helper || stopped || job.progress == nullptr) return;
  try {
    if (!(*job.progress)(done * job.item_bytes, job.items * job.item_bytes)) {
      stop_by_callback(job, false);
    }
  } catch (...) {
    stop_by_callback(job, true);
  }
}

/// @param thrown  whether the callback has thrown the current exception
WARPWRIGHT_INLINE void staging_workers::stop_by_callback(staging_job& job, bool thrown) noexcept {
  unique_lock<mutex> const lock{mutex_};
  job.stopped = true;
  if (thrown && !job.thrown) job.thrown = std::current_exception();
}

WARPWRIGHT_INLINE void staging_workers::fail(staging_job& job, cudaError_t code,
                                             char const* api) noexcept {
  discard(code);
  unique_lock<mutex> const lock{mutex_};
  job.stopped = true;
  if (job.failure.code == cudaSuccess) job.failure = staging_failure{code, api};
}

/// Copies items in host memory.
inline void copy_items(void* to, std::size_t to_pitch, void const* from, std::size_t from_pitch,
                       std::size_t item_bytes, std::size_t count) noexcept {
  if (to_pitch == item_bytes && from_pitch == item_bytes) {
    std::memcpy(to, from, count * item_bytes);
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    std::memcpy(static_cast<char*>(to) + i * to_pitch,
                static_cast<char const*>(from) + i * from_pitch, item_bytes);
  }
}

/// Writes a chunk's items into a slot.
WARPWRIGHT_INLINE bool staging_workers::fill(staging_job& job, void* memory,
                                             chunk const& part) noexcept {
  if (job.pack != nullptr) {
    try {
      (*job.pack)(memory, part.first, part.count);
      return true;
    } catch (...) {
      stop_by_callback(job, true);
      return false;
    }
  }
  copy_items(memory, job.item_bytes, job.source_of(part.first), job.source_pitch, job.item_bytes,
             part.count);
  return true;
}

/// Enqueues a copy of items, by rows only where there is something between them.
WARPWRIGHT_INLINE cudaError_t staging_workers::enqueue(staging_job const& job, void* to,
                                                       std::size_t to_pitch, void const* from,
                                                       std::size_t from_pitch,
                                                       std::size_t count) noexcept {
  cudaMemcpyKind const kind = job.to_device ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost;
  if (to_pitch == job.item_bytes && from_pitch == job.item_bytes) {
    return cudaMemcpyAsync(to, from, count * job.item_bytes, kind, job.stream.get());
  }
  return cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, job.item_bytes, count, kind,
                           job.stream.get());
}

/// Enqueues the copy between a slot and the device, and an event behind it.
WARPWRIGHT_INLINE bool staging_workers::issue(staging_job& job, staging_slot& slot,
                                              chunk const& part) noexcept {
  char const* api = "cudaMemcpyAsync";
  cudaError_t result = job.to_device
                           ? enqueue(job, job.destination_of(part.first), job.destination_pitch,
                                     slot.memory, job.item_bytes, part.count)
                           : enqueue(job, slot.memory, job.item_bytes, job.source_of(part.first),
                                     job.source_pitch, part.count);
  if (result == cudaSuccess) {
    api = "cudaEventRecord";
    result = cudaEventRecord(slot.event, job.stream.get());
    if (result == cudaSuccess) {
      slot.in_flight = true;
      return true;
    }
    // The copy has no event to wait for. Memory that may be in use is given to nobody.
    cudaError_t const waited = cudaStreamSynchronize(job.stream.get());
    discard(waited);
    if (waited != cudaSuccess) slot.memory = nullptr;
  }
  fail(job, result, api);
  if (slot.memory != nullptr) slots_->give_back(slot);
  return false;
}

/// Waits for the copy of a slot. A helper gives up when the stream does not go on.
WARPWRIGHT_INLINE bool staging_workers::wait_for(staging_job& job, staging_slot& slot, bool helper,
                                                 bool& gave_up) noexcept {
  constexpr std::uint64_t patience = 5000000;  // ns: 16 slots of 4 MiB take 1.2 ms at 55 GB/s
  // The only chunk was enqueued a moment ago: its copy is not complete.
  bool const may_be_done = helper || job.items > job.chunk_items;
  char const* api = "cudaEventQuery";
  cudaError_t result = may_be_done ? cudaEventQuery(slot.event) : cudaErrorNotReady;
  if (result == cudaErrorNotReady && helper) {
    std::uint64_t const until = monotonic_nanoseconds() + patience;
    int step = 0;
    do {
      discard(result);
      if (monotonic_nanoseconds() > until) {
        gave_up = true;
        return false;
      }
      spin_wait(++step);
    } while ((result = cudaEventQuery(slot.event)) == cudaErrorNotReady);
  } else if (result == cudaErrorNotReady) {
    if (may_be_done) discard(result);
    api = "cudaEventSynchronize";
    result = cudaEventSynchronize(slot.event);
  }
  if (result == cudaSuccess) {
    slot.in_flight = false;
    return true;
  }
  fail(job, result, api);
  return false;
}

/// As CUDA copies pageable memory: where the slots are behind streams that do not go on.
WARPWRIGHT_INLINE bool staging_workers::copy_without_slot(staging_job& job,
                                                          chunk const& part) noexcept {
  char* const to = job.destination_of(part.first);
  char const* from = nullptr;
  std::size_t from_pitch = job.source_pitch;
  std::size_t const bytes = part.count * job.item_bytes;
  constexpr std::align_val_t alignment{pinned_core::default_alignment};
  void* packed = nullptr;
  bool wait = !job.to_device || job.reads_late;
  if (job.pack != nullptr) {
    packed = ::operator new(bytes, alignment, std::nothrow);
    if (packed == nullptr) fail(job, cudaErrorMemoryAllocation, "operator new");
    if (packed == nullptr || !fill(job, packed, part)) {
      ::operator delete(packed, alignment);
      return false;
    }
    from = static_cast<char const*>(packed);
    from_pitch = job.item_bytes;
    wait = true;
  } else {
    from = job.source_of(part.first);
    std::size_t const last = (part.count - 1) * job.source_pitch + job.item_bytes - 1;
    // CUDA reads what it knows as page-locked after the call.
    if (job.to_device) wait = wait || !is_unregistered(from) || !is_unregistered(from + last);
  }
  char const* api = "cudaMemcpyAsync";
  cudaError_t result = enqueue(job, to, job.destination_pitch, from, from_pitch, part.count);
  if (result == cudaSuccess && wait) {
    api = "cudaStreamSynchronize";
    result = cudaStreamSynchronize(job.stream.get());
  }
  ::operator delete(packed, alignment);
  if (result != cudaSuccess) fail(job, result, api);
  return result == cudaSuccess;
}

WARPWRIGHT_INLINE void staging_workers::copy(staging_job& job, bool helper) noexcept {
  flights mine;
  job.to_device ? upload_chunks(job, helper, mine) : download_chunks(job, helper, mine);
  while (mine.size != 0) slots_->give_back(*mine.pop().slot);
}

WARPWRIGHT_INLINE void staging_workers::upload_chunks(staging_job& job, bool helper,
                                                      flights& mine) noexcept {
  while (has_chunk(job)) {
    staging_slot* slot = mine.size < job.depth ? slots_->take() : nullptr;
    if (slot == nullptr && mine.size != 0) {
      flight const oldest = mine.pop();
      bool gave_up = false;
      bool const free = wait_for(job, *oldest.slot, helper, gave_up);
      if (gave_up) set_open(job, false);  // until the caller sees the stream go on
      if (!free) return slots_->give_back(*oldest.slot);
      if (!helper) set_open(job, true);
      slot = oldest.slot;
    }
    if (slot == nullptr && helper) return set_open(job, false);
    chunk part;
    if (!next_chunk(job, part)) {
      if (slot != nullptr) slots_->give_back(*slot);
      return;
    }
    if (slot == nullptr) {
      if (!copy_without_slot(job, part)) return;
    } else {
      if (!fill(job, slot->memory, part)) return slots_->give_back(*slot);
      if (!issue(job, *slot, part)) return;
      mine.push(slot, part);
    }
    finish(job, part, helper);
  }
}

WARPWRIGHT_INLINE void staging_workers::download_chunks(staging_job& job, bool helper,
                                                        flights& mine) noexcept {
  for (;;) {
    chunk part;
    while (mine.size < job.depth) {
      staging_slot* const slot = slots_->take();
      if (slot == nullptr) break;
      if (!next_chunk(job, part)) {
        slots_->give_back(*slot);
        break;
      }
      if (!issue(job, *slot, part)) return;
      mine.push(slot, part);
    }
    if (mine.size == 0) {
      if (helper) return set_open(job, false);
      if (!next_chunk(job, part) || !copy_without_slot(job, part)) return;
      set_open(job, true);
      finish(job, part, helper);
      continue;
    }
    flight const oldest = mine.pop();
    bool gave_up = false;
    // A helper that has begun a chunk has to end it.
    bool const arrived = wait_for(job, *oldest.slot, false, gave_up);
    if (arrived) {
      copy_items(job.destination_of(oldest.part.first), job.destination_pitch, oldest.slot->memory,
                 job.item_bytes, job.item_bytes, oldest.part.count);
    }
    slots_->give_back(*oldest.slot);
    if (!arrived) return;
    if (!helper) set_open(job, true);
    finish(job, oldest.part, helper);
  }
}

}  // namespace detail

WARPWRIGHT_END
