// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The worker threads of a staging object.
#pragma once

#include <warpwright/core/detail/container/array.hpp>
#include <warpwright/core/detail/function_ref.hpp>
#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/core/detail/thread/locks.hpp>
#include <warpwright/core/detail/thread/thread.hpp>
#include <warpwright/core/stream.hpp>
#include <warpwright/memory/detail/pinned/pinned_core.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>

WARPWRIGHT_BEGIN

namespace detail {

/// Page-locked memory for one chunk, and an event behind the copy that uses it.
struct staging_slot {
  char* memory = nullptr;  // null also: a copy may use it that no event is behind
  cudaEvent_t event = nullptr;
  bool in_flight = false;  // a copy uses the memory until the event has completed
  staging_slot* next = nullptr;
};

/// The slots of a staging object, which its copies share. Nobody waits for a slot: a copy behind a
/// stream that does not go on may hold any number of them.
class staging_slots : noncopyable {
 public:
  staging_slots() noexcept = default;

  /// @throws out_of_memory, cuda_error  destroy() then frees what was created
  void create(pinned_core& pool, std::size_t count, std::size_t bytes, source_location where);
  /// Waits for the copies, and frees the slots; one whose copy cannot be waited for stays live in
  /// the pool. @pre nobody has a slot
  void destroy(pinned_core& pool) noexcept;

  /// Takes a slot that no copy uses: if it can, one that was used not long ago, whose memory the
  /// processor's cache has.
  /// @return null if there is none
  staging_slot* take() noexcept;
  /// Gives a slot back, also while a copy uses it.
  void give_back(staging_slot& slot) noexcept;

 private:
  struct list {
    staging_slot* first = nullptr;
    staging_slot* last = nullptr;
    std::size_t size = 0;

    void push_back(staging_slot& slot) noexcept {
      slot.next = nullptr;
      (first == nullptr ? first : last->next) = &slot;
      last = &slot;
      ++size;
    }
    void push_front(staging_slot& slot) noexcept {
      if (first == nullptr) last = &slot;
      slot.next = first;
      first = &slot;
      ++size;
    }
    staging_slot* pop() noexcept {
      staging_slot* const slot = first;
      if (slot == nullptr) return nullptr;
      first = slot->next;
      --size;
      return slot;
    }
  };

  staging_slot* take_arrived() noexcept;

  array<staging_slot> all_;
  std::size_t bytes_ = 0;
  mutex mutex_;
  // Guarded by mutex_:
  list free_;       // the one given back last is the first
  list in_flight_;  // the oldest first
};

bool is_unregistered(void const* memory) noexcept;

/// The first call that failed in a job; cudaSuccess: none.
struct staging_failure {
  cudaError_t code = cudaSuccess;
  char const* api = "";
};

/// The arguments of a copy of items: bytes, rows, or what a callback writes.
struct staging_transfer {
  using pack_function = function_ref<void(void* to, std::size_t first, std::size_t count)>;
  using progress_function = function_ref<bool(std::size_t done_bytes, std::size_t all_bytes)>;

  bool to_device;
  stream_ref stream;
  void* destination;
  std::size_t destination_pitch;  // bytes from an item to the next
  void const* source;
  std::size_t source_pitch;
  std::size_t item_bytes;
  std::size_t items;
  pack_function const* pack = nullptr;  // to the device: instead of `source`
  progress_function const* progress = nullptr;

  [[nodiscard]] staging_transfer with(progress_function const& reported) const noexcept {
    staging_transfer copy = *this;
    copy.progress = &reported;
    return copy;
  }
  [[nodiscard]] bool is_contiguous() const noexcept {
    return destination_pitch == item_bytes && source_pitch == item_bytes;
  }
  [[nodiscard]] char* destination_of(std::size_t item) const noexcept {
    return static_cast<char*>(destination) + item * destination_pitch;
  }
  [[nodiscard]] char const* source_of(std::size_t item) const noexcept {
    return static_cast<char const*>(source) + item * source_pitch;
  }
};

/// A copy in chunks of whole items, which are contiguous in a slot.
struct staging_job : staging_transfer {
  explicit staging_job(staging_transfer const& what) noexcept : staging_transfer{what} {}

  std::size_t chunk_items = 0;
  unsigned most_helpers = 0;
  unsigned depth = 1;  // slots in flight of each thread, 1 to staging_workers::most_depth
  // Whether CUDA may read pageable memory after a copy from it has returned.
  bool reads_late = false;

  // Guarded by the workers' mutex:
  staging_failure failure{};
  std::exception_ptr thrown{};  // by a callback
  bool stopped = false;         // failed or cancelled
  bool open = false;            // helpers may join
  unsigned helpers = 0;
  std::size_t next_item = 0;
  array<std::size_t> unfinished{};  // first items of chunks that were begun
  staging_job* next = nullptr;
  condition_variable left{};  // no helper is left
};

/// Runs any number of jobs at once. Each is copied by its caller, and by threads that have no other
/// job. These wait for a stream only for a short time: the caller alone waits for as long as it
/// takes, so that no job waits for another one's stream.
class staging_workers : noncopyable {
 public:
  /// Slots in flight of one thread.
  static constexpr unsigned most_depth = 64;

  staging_workers() noexcept = default;

  /// The number of processors that this thread may run on, at most 8.
  static unsigned default_threads() noexcept;

  /// Starts the threads.
  /// @throws std::runtime_error  when the system refuses a thread; stop() ends the started ones
  void start(staging_slots& shared, unsigned threads, int device, source_location where);
  /// Ends the threads. @pre no job is running
  void stop() noexcept;
  [[nodiscard]] unsigned threads() const noexcept { return static_cast<unsigned>(workers_.size()); }

  /// Copies all chunks; returns when every thread has left the job.
  /// @return the number of items at the begin that were copied: all, unless the job was stopped
  /// @throws std::bad_alloc  before anything is copied
  std::size_t run(staging_job& job);

 private:
  struct worker {
    staging_workers* owner = nullptr;
    thread runner;

    void run() noexcept { owner->run_worker(); }
  };
  struct chunk {
    std::size_t first = 0;
    std::size_t count = 0;
  };
  struct flight {
    staging_slot* slot = nullptr;
    chunk part;
  };
  // A thread's own slots in flight, the oldest first.
  struct flights {
    flight ring[most_depth];
    unsigned first = 0;
    unsigned size = 0;

    void push(staging_slot* slot, chunk const& part) noexcept {
      ring[(first + size) % most_depth] = {slot, part};
      ++size;
    }
    flight pop() noexcept {
      flight const oldest = ring[first];
      first = (first + 1) % most_depth;
      --size;
      return oldest;
    }
  };

  void run_worker() noexcept;
  staging_job* find_open() noexcept;
  void copy(staging_job& job, bool helper) noexcept;
  void upload_chunks(staging_job& job, bool helper, flights& mine) noexcept;
  void download_chunks(staging_job& job, bool helper, flights& mine) noexcept;

  bool has_chunk(staging_job const& job) noexcept;
  bool next_chunk(staging_job& job, chunk& part) noexcept;
  void finish(staging_job& job, chunk const& part, bool helper) noexcept;
  void fail(staging_job& job, cudaError_t code, char const* api) noexcept;
  void stop_by_callback(staging_job& job, bool thrown) noexcept;
  void set_open(staging_job& job, bool open) noexcept;
  bool fill(staging_job& job, void* memory, chunk const& part) noexcept;
  static cudaError_t enqueue(staging_job const& job, void* to, std::size_t to_pitch,
                             void const* from, std::size_t from_pitch, std::size_t count) noexcept;
  bool issue(staging_job& job, staging_slot& slot, chunk const& part) noexcept;
  bool wait_for(staging_job& job, staging_slot& slot, bool helper, bool& gave_up) noexcept;
  bool copy_without_slot(staging_job& job, chunk const& part) noexcept;

  array<worker> workers_;  // resized once: a thread refers to its worker
  staging_slots* slots_ = nullptr;
  int device_ = 0;
  mutex mutex_;
  condition_variable changed_;
  // Guarded by mutex_:
  staging_job* jobs_ = nullptr;
  bool stopping_ = false;
};

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/memory/detail/staging/staging_workers_definitions.hpp>
#endif
