// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/array.hpp>
#include <warpwright/core/detail/capture/capture_count.hpp>
#include <warpwright/core/detail/capture/capture_guard.hpp>
#include <warpwright/core/detail/exchange.hpp>
#include <warpwright/core/detail/thread/locks.hpp>
#include <warpwright/core/stream.hpp>

#include <cstdint>

WARPWRIGHT_BEGIN

class stream_pool;

/// Exclusive use of one stream of a pool, until reset() or destruction.
/// **Threads:** one at a time; the stream itself may be used by any number of threads.
class stream_lease {
 public:
  /// An empty lease, as try_lease() returns if no stream is free.
  stream_lease() noexcept = default;
  stream_lease(stream_lease&& other) noexcept
      : pool_{detail::exchange(other.pool_, nullptr)},
        index_{other.index_},
        stream_{other.stream_} {}
  stream_lease& operator=(stream_lease&& other) noexcept {
    if (this != &other) {
      reset();
      pool_ = detail::exchange(other.pool_, nullptr);
      index_ = other.index_;
      stream_ = other.stream_;
    }
    return *this;
  }
  /// Returns the stream to the pool without waiting for its work; the next user's work is ordered
  /// after it.
  ~stream_lease() { reset(); }

  /// @return whether the lease holds a stream
  explicit operator bool() const noexcept { return pool_ != nullptr; }
  /// @return the stream, with its id; valid until the lease ends
  /// @throws std::invalid_argument  for an empty lease
  [[nodiscard]] stream_ref stream(source_location where = source_location::current()) const {
    if (pool_ == nullptr) {
      detail::throw_invalid_argument(
          "stream_lease: the lease is empty: no stream was free, or the lease was moved from or "
          "reset; test it before use",
          where);
    }
    return stream_;
  }
  /// The stream, as stream() returns it; throws for an empty lease.
  operator stream_ref() const { return stream(); }
  /// Returns the stream to the pool; the lease is then empty. A stream that is part of a capture
  /// goes back when that capture has ended: meanwhile the pool has a new stream in its place.
  /// **Capture:** legal. **Cost:** two atomic operations; while a capture of the process is under
  /// way, a CUDA call more.
  inline void reset() noexcept;

 private:
  friend class stream_pool;
  stream_lease(stream_pool& pool, unsigned index, stream_ref stream) noexcept
      : pool_{&pool}, index_{index}, stream_{stream} {}

  stream_pool* pool_ = nullptr;
  unsigned index_ = 0;
  stream_ref stream_ = stream_ref::legacy_default();
};

/// A fixed set of streams with exclusive leases. The pool must outlive its leases, and captures
/// that its streams take part in.
///
/// Two leases never share a stream, unlike with a round-robin pool. The pool leases the next free
/// stream after the one leased last, so that a stream just returned, which may still be busy, is
/// rarely leased again immediately.
/// **Threads:** any number may lease and return streams at once.
class stream_pool {
 public:
  /// The maximum number of streams: their state is one 64-bit word.
  static constexpr unsigned max_size = 64;

  /// Creates the streams.
  /// @param device    the device on which the streams' work runs
  /// @param size      number of streams, 1 to 64
  /// @param priority  of all streams; within get_stream_priority_range(device)
  /// @throws std::invalid_argument  for a size or priority out of range
  /// @throws cuda_error             when CUDA cannot create one; those created are destroyed
  /// **Cost:** a few CUDA calls per stream; create the pool at start-up.
  stream_pool(device_id device, unsigned size, int priority = 0,
              source_location where = source_location::current())
      : device_{device}, priority_{priority}, free_{all_free(size, where)} {
    streams_.reserve(size);
    for (unsigned i = 0; i < size; ++i) streams_.emplace_back(device, priority, where);
  }
  stream_pool(stream_pool const&) = delete;
  stream_pool& operator=(stream_pool const&) = delete;
  /// @pre all leases have ended. Work already enqueued on the streams still runs.
  ~stream_pool() = default;

  /// Leases a stream; blocks while none is free.
  /// @pre the calling thread does not hold all of the pool's leases: it would deadlock. Use
  ///   try_lease() where one thread takes several
  /// @return the lease
  /// **Stream:** no CUDA call; the stream may still be busy with the previous user's work.
  /// **Capture:** legal. **Cost:** two atomic operations if a stream is free.
  [[nodiscard]] stream_lease lease() {
    stream_lease lease = try_lease();
    if (!lease) lease = wait_for_lease();
    return lease;
  }

  /// Leases a stream if one is free.
  /// @return the lease, empty (false) if none is free
  /// **Capture:** legal. **Cost:** two atomic operations.
  [[nodiscard]] stream_lease try_lease() noexcept {
    stream_lease lease = take_free();
    if (!lease && parked_.load(detail::memory_order::relaxed) != 0) {
      detail::unique_lock<detail::mutex> const lock{mutex_};
      free_parked();
      lease = take_free();
    }
    return lease;
  }

  /// @return the number of streams
  [[nodiscard]] unsigned size() const noexcept { return static_cast<unsigned>(streams_.size()); }
  /// @return the number of streams free at this moment
  [[nodiscard]] unsigned available() const noexcept {
    return static_cast<unsigned>(__builtin_popcountll(free_.load(detail::memory_order::relaxed)));
  }
  /// @return the device of the streams
  [[nodiscard]] device_id device() const noexcept { return device_; }

  /// Waits for all work of all streams, leased or not; not for streams that are part of a capture.
  /// @throws cuda_error  also for an error of that work
  /// **Stream:** blocks the calling thread. **Capture:** not legal for a stream that is leased.
  void synchronize(source_location where = source_location::current()) const {
    detail::array<stream_ref> all;
    {
      detail::unique_lock<detail::mutex> const lock{mutex_};
      all.reserve(streams_.size() + replaced_.size());
      for (warpwright::stream const& each : streams_) all.push_back(each.ref());
      for (warpwright::stream const& each : replaced_) {
        if (!is_capturing(each)) all.push_back(each.ref());
      }
    }
    for (stream_ref const each : all) each.synchronize(where);
  }

 private:
  friend class stream_lease;

  stream_lease take_free() noexcept {
    std::uint64_t free = free_.load(detail::memory_order::seq_cst);  // see wait_for_lease()
    while (free != 0) {
      // The first free stream from `next_` on, else the first free stream.
      std::uint64_t const ahead =
          free & (~std::uint64_t{0} << next_.load(detail::memory_order::relaxed));
      auto const index = static_cast<unsigned>(__builtin_ctzll(ahead != 0 ? ahead : free));
      std::uint64_t const bit = std::uint64_t{1} << index;
      if (free_.compare_exchange_weak(free, free & ~bit, detail::memory_order::acquire,
                                      detail::memory_order::relaxed)) {
        next_.store((index + 1) % max_size, detail::memory_order::relaxed);
        return stream_lease{*this, index, streams_[index].ref()};
      }
    }
    return stream_lease{};
  }

  static std::uint64_t all_free(unsigned size, source_location where) {
    if (size == 0 || size > max_size) {
      detail::throw_invalid_argument(detail::text{"stream_pool: size is "} + size +
                                         ", it must be 1 to 64: use several pools for more streams",
                                     where);
    }
    return ~std::uint64_t{0} >> (max_size - size);
  }

  stream_lease wait_for_lease() noexcept {
    detail::unique_lock<detail::mutex> const lock{mutex_};
    // Before take_free(): a stream returned after that call then signals the condition.
    waiters_.fetch_add(1, detail::memory_order::seq_cst);
    stream_lease lease = take_free();
    for (int step = 0; !lease; lease = take_free()) {
      if (parked_.load(detail::memory_order::relaxed) == 0) {
        returned_.wait(mutex_);
      } else if (!free_parked()) {  // the end of their captures signals nothing
        mutex_.unlock();
        detail::spin_wait(++step);
        mutex_.lock();
      }
    }
    waiters_.fetch_sub(1, detail::memory_order::seq_cst);
    return lease;
  }

  void return_stream(unsigned index) noexcept {
    if (detail::may_be_capturing_anywhere() && !replace_if_capturing(index)) return;
    free_.fetch_or(std::uint64_t{1} << index, detail::memory_order::seq_cst);
    if (waiters_.load(detail::memory_order::seq_cst) == 0) return;
    detail::unique_lock<detail::mutex> const lock{mutex_};
    returned_.notify_one();
  }

  // A sticky error leaves a stream as it is: no call can tell any more.
  static bool is_capturing(warpwright::stream const& stream) noexcept {
    cudaStreamCaptureStatus state = cudaStreamCaptureStatusNone;
    cudaError_t const status = cudaStreamIsCapturing(stream.get(), &state);
    detail::discard(status);
    return status == cudaSuccess ? state != cudaStreamCaptureStatusNone
                                 : !detail::is_sticky(status);
  }

  static void exchange(warpwright::stream& a, warpwright::stream& b) noexcept {
    warpwright::stream before{static_cast<warpwright::stream&&>(a)};
    a = static_cast<warpwright::stream&&>(b);
    b = static_cast<warpwright::stream&&>(before);
  }

  // The next user's work would become a part of the capture. Returns false, and parks the stream,
  // if no other stream can take its place.
  WARPWRIGHT_COLD bool replace_if_capturing(unsigned index) noexcept {
    if (!is_capturing(streams_[index])) return true;
    detail::unique_lock<detail::mutex> const lock{mutex_};
    for (warpwright::stream& each : replaced_) {
      if (is_capturing(each)) continue;
      exchange(each, streams_[index]);
      return true;
    }
    try {
      replaced_.reserve(replaced_.size() + 1);
      detail::relaxed_capture_mode const allowed;
      warpwright::stream fresh{device_, priority_};
      exchange(fresh, streams_[index]);
      replaced_.emplace_back(static_cast<warpwright::stream&&>(fresh));
      return true;
    } catch (...) {
      parked_.fetch_or(std::uint64_t{1} << index, detail::memory_order::relaxed);
      return false;
    }
  }

  // Frees the parked streams whose capture has ended. @pre mutex_ is held
  bool free_parked() noexcept {
    std::uint64_t freed = 0;
    for (unsigned i = 0; i < streams_.size(); ++i) {
      std::uint64_t const bit = std::uint64_t{1} << i;
      bool const parked = (parked_.load(detail::memory_order::relaxed) & bit) != 0;
      if (parked && !is_capturing(streams_[i])) freed |= bit;
    }
    parked_.store(parked_.load(detail::memory_order::relaxed) & ~freed,
                  detail::memory_order::relaxed);
    free_.fetch_or(freed, detail::memory_order::seq_cst);
    return freed != 0;
  }

  device_id device_;
  int priority_;
  detail::array<warpwright::stream> streams_;
  detail::array<warpwright::stream> replaced_;  // were capturing when they were returned
  detail::atomic<std::uint64_t> free_;          // bit i: stream i is free
  detail::atomic<std::uint64_t> parked_;        // bit i: returned, capturing, and not replaced
  detail::atomic<unsigned> next_;               // index at which the search starts
  detail::atomic<unsigned> waiters_;
  mutable detail::mutex mutex_;  // protects waiting, replaced_, and changes of streams_
  detail::condition_variable returned_;
};

inline void stream_lease::reset() noexcept {
  if (pool_ != nullptr) detail::exchange(pool_, nullptr)->return_stream(index_);
}

WARPWRIGHT_END
