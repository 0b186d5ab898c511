// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/array.hpp>
#include <warpwright/core/detail/exchange.hpp>
#include <warpwright/core/stream.hpp>

#include <pthread.h>

#include <cstdint>

WARPWRIGHT_BEGIN

class stream_pool;

/// The use of one stream of a pool, by nobody else until it is given back.
/// **Threads:** as a unique_ptr; the stream itself may be used by any number.
class stream_lease {
 public:
  /// Holds nothing, as try_lease() answers when every stream is out.
  stream_lease() noexcept = default;
  stream_lease(stream_lease&& other) noexcept
      : pool_{detail::exchange(other.pool_, nullptr)},
        index_{other.index_},
        stream_{other.stream_} {}
  stream_lease& operator=(stream_lease&& other) noexcept {
    if (this != &other) {
      give_back();
      pool_ = detail::exchange(other.pool_, nullptr);
      index_ = other.index_;
      stream_ = other.stream_;
    }
    return *this;
  }
  /// Gives the stream back, without waiting for its work: the next user's work follows behind it.
  ~stream_lease() { give_back(); }

  /// @return whether a stream is held
  explicit operator bool() const noexcept { return pool_ != nullptr; }
  /// @return the stream, carrying its id; valid until the lease ends
  /// @throws std::invalid_argument  for a lease that holds nothing
  [[nodiscard]] stream_ref stream(source_location where = source_location::current()) const {
    if (pool_ == nullptr) {
      detail::throw_invalid_argument(
          "stream_lease: it holds no stream: every stream was out, or it was moved from or given "
          "back; test it before use",
          where);
    }
    return stream_;
  }
  /// As stream().
  operator stream_ref() const { return stream(); }
  /// Gives the stream back now; the lease is then empty.
  /// @pre the stream is not capturing: the next user's work would go into that capture
  inline void give_back() noexcept;

 private:
  friend class stream_pool;
  stream_lease(stream_pool& pool, unsigned index, stream_ref stream) noexcept
      : pool_{&pool}, index_{index}, stream_{stream} {}

  stream_pool* pool_ = nullptr;
  unsigned index_ = 0;
  stream_ref stream_ = stream_ref::legacy_default();
};

/// A fixed set of streams, leased one user at a time: two leases never share a stream, which a
/// round-robin pool cannot promise.
///
/// Streams go out in rotation: the next free one behind the last that went out, so that one just
/// given back, and perhaps still busy, rarely goes out again at once. The pool must outlive its
/// leases.
/// **Threads:** any number may lease and give back at once.
class stream_pool {
 public:
  /// The most streams of one pool: their state is one 64-bit word.
  static constexpr unsigned max_size = 64;

  /// Creates the streams.
  /// @param device    where they run their work
  /// @param size      how many, 1 to 64
  /// @param priority  of all; within get_stream_priority_range(device)
  /// @throws std::invalid_argument  for a size or priority out of range
  /// @throws cuda_error             when CUDA cannot create them; none is left behind
  /// **Cost:** as so many streams; make it at start-up.
  stream_pool(device_id device, unsigned size, int priority = 0,
              source_location where = source_location::current())
      : device_{device}, free_{all(size, where)} {
    streams_.reserve(size);
    for (unsigned i = 0; i < size; ++i) streams_.emplace_back(device, priority, where);
  }
  stream_pool(stream_pool const&) = delete;
  stream_pool& operator=(stream_pool const&) = delete;
  /// @pre every lease has ended. Work already given to the streams still runs.
  ~stream_pool() {
    pthread_cond_destroy(&returned_);
    pthread_mutex_destroy(&mutex_);
  }

  /// Leases a stream, waiting until one is given back when all are out.
  /// @return the lease
  /// A thread that holds all of the pool's leases and asks for one more waits for itself: use
  /// try_lease() where one thread takes several.
  /// **Stream:** no CUDA call; the stream may still be busy with the last user's work.
  /// **Capture:** legal. **Cost:** two atomic operations while one is free.
  [[nodiscard]] stream_lease lease() {
    stream_lease found = try_lease();
    if (!found) found = wait_for_one();
    return found;
  }

  /// Leases a stream if one is free.
  /// @return the lease, empty (false) when every stream is out
  /// **Capture:** legal. **Cost:** two atomic operations.
  [[nodiscard]] stream_lease try_lease() noexcept {
    std::uint64_t free = __atomic_load_n(&free_, __ATOMIC_SEQ_CST);  // see wait_for_one()
    while (free != 0) {
      // The first free one from `next_` on, else the first of all.
      std::uint64_t const ahead =
          free & (~std::uint64_t{0} << __atomic_load_n(&next_, __ATOMIC_RELAXED));
      auto const index = static_cast<unsigned>(__builtin_ctzll(ahead != 0 ? ahead : free));
      std::uint64_t const bit = std::uint64_t{1} << index;
      if (__atomic_compare_exchange_n(&free_, &free, free & ~bit, true, __ATOMIC_ACQUIRE,
                                      __ATOMIC_RELAXED)) {
        __atomic_store_n(&next_, (index + 1) % max_size, __ATOMIC_RELAXED);
        return stream_lease{*this, index, streams_[index].ref()};
      }
    }
    return stream_lease{};
  }

  /// @return the number of streams
  [[nodiscard]] unsigned size() const noexcept { return static_cast<unsigned>(streams_.size()); }
  /// @return how many are free at this moment
  [[nodiscard]] unsigned available() const noexcept {
    return static_cast<unsigned>(__builtin_popcountll(__atomic_load_n(&free_, __ATOMIC_RELAXED)));
  }
  /// @return the device of the streams
  [[nodiscard]] device_id device() const noexcept { return device_; }

  /// Waits for all work of all the streams, leased or not.
  /// @throws cuda_error  also for an error of that work
  /// **Stream:** blocks the calling thread. **Capture:** not legal.
  void synchronize(source_location where = source_location::current()) const {
    for (warpwright::stream const& each : streams_) each.synchronize(where);
  }

 private:
  friend class stream_lease;

  static std::uint64_t all(unsigned size, source_location where) {
    if (size == 0 || size > max_size) {
      detail::throw_invalid_argument(detail::text{"stream_pool: size is "} + size +
                                         ", the limit is 1 to 64 streams: make several pools",
                                     where);
    }
    return ~std::uint64_t{0} >> (max_size - size);
  }

  stream_lease wait_for_one() noexcept {
    pthread_mutex_lock(&mutex_);
    __atomic_fetch_add(
        &waiters_, 1U,
        __ATOMIC_SEQ_CST);  // before the last look: a return after it sees the waiter and signals
    stream_lease found = try_lease();
    while (!found) {
      pthread_cond_wait(&returned_, &mutex_);
      found = try_lease();
    }
    __atomic_fetch_sub(&waiters_, 1U, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&mutex_);
    return found;
  }

  void give_back(unsigned index) noexcept {
    __atomic_fetch_or(&free_, std::uint64_t{1} << index, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&waiters_, __ATOMIC_SEQ_CST) == 0) return;
    pthread_mutex_lock(&mutex_);
    pthread_cond_signal(&returned_);
    pthread_mutex_unlock(&mutex_);
  }

  device_id device_;
  detail::array<warpwright::stream> streams_;
  std::uint64_t
      free_;  // bit i: stream i is free; the compiler's atomics, as in memory/detail/locks.hpp
  unsigned next_ = 0;
  unsigned waiters_ = 0;
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;  // for waiting only
  pthread_cond_t returned_ = PTHREAD_COND_INITIALIZER;
};

inline void stream_lease::give_back() noexcept {
  if (pool_ != nullptr) detail::exchange(pool_, nullptr)->give_back(index_);
}

WARPWRIGHT_END
