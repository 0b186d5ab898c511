// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/clock.hpp>
#include <warpwright/core/detail/exchange.hpp>
#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/core/detail/options.hpp>
#include <warpwright/stream/detail/stream_set.hpp>

#include <type_traits>

WARPWRIGHT_BEGIN

class stream_pool;

/// Exclusive use of one stream of a pool, until reset() or destruction.
/// **Threads:** one at a time; the stream itself may be used by any number of threads.
class stream_lease {
 public:
  /// An empty lease, as try_lease() returns if no stream is free.
  stream_lease() noexcept = default;
  stream_lease(stream_lease&& other) noexcept
      : streams_{detail::exchange(other.streams_, nullptr)},
        index_{other.index_},
        stream_{other.stream_} {}
  stream_lease& operator=(stream_lease&& other) noexcept {
    if (this != &other) {
      reset();
      streams_ = detail::exchange(other.streams_, nullptr);
      index_ = other.index_;
      stream_ = other.stream_;
    }
    return *this;
  }
  /// Returns the stream to the pool without waiting for its work; the next user's work is ordered
  /// after it.
  ~stream_lease() { reset(); }

  /// @return whether the lease holds a stream
  explicit operator bool() const noexcept { return streams_ != nullptr; }
  /// @return the stream, with its id; valid until the lease ends
  /// @throws std::invalid_argument  for an empty lease
  [[nodiscard]] stream_ref stream(source_location where = source_location::current()) const {
    if (streams_ == nullptr) {
      detail::throw_invalid_argument(
          "stream_lease: the lease is empty: no stream was free, or the lease was moved from or "
          "reset; test it before use",
          where);
    }
    return stream_;
  }
  /// The stream, as stream() returns it; throws for an empty lease.
  operator stream_ref() const { return stream(); }
  /// Returns the stream to the pool; the lease is then empty. If threads wait for one, the first of
  /// them has it. A stream that is part of a capture goes back when that capture has ended:
  /// meanwhile the pool has a new stream in its place.
  /// **Capture:** legal. **Cost:** an atomic operation; while a capture of the process is under
  /// way, a CUDA call more.
  void reset() noexcept {
    if (streams_ != nullptr) detail::exchange(streams_, nullptr)->give_back(index_);
  }

 private:
  friend class stream_pool;
  stream_lease(detail::stream_set& streams, unsigned index) noexcept
      : streams_{&streams}, index_{index}, stream_{streams.stream(index)} {}

  detail::stream_set* streams_ = nullptr;
  unsigned index_ = 0;
  stream_ref stream_ = stream_ref::legacy_default();
};

namespace detail {
struct stream_pool_settings {
  unsigned initial_streams = 0;
  unsigned max_streams = 32;
  int priority = 0;
};
}  // namespace detail

/// Options of a stream_pool. Every setter returns a changed copy.
class stream_pool_options
    : public detail::options_base<stream_pool_options, detail::stream_pool_settings> {
 public:
  /// The number of streams that the constructor creates. The others are created when a lease finds
  /// none free, in microseconds.
  /// @param n  at most max_streams(); default: 0
  constexpr self initial_streams(unsigned n) const { return with(&values::initial_streams, n); }
  /// The maximum number of streams of each priority. Beyond it, leases wait.
  /// @param n  1 to 1024; default: 32
  constexpr self max_streams(unsigned n) const { return with(&values::max_streams, n); }
  /// The priority of streams that are leased without one.
  /// @param value  within get_stream_priority_range(device), lower numbers have precedence;
  ///   default: 0
  constexpr self priority(int value) const { return with(&values::priority, value); }
};

/// Streams of one device with exclusive leases.
///
/// Two leases never share a stream, unlike with a round-robin pool. A thread takes eight
/// streams in turn, so that it rarely gets the stream again that it has just returned, which may
/// still be busy, and others where these are leased. Threads begin at different streams; while
/// several use the same ones, each takes fewer in turn.
///
/// The streams do not synchronise with the legacy default stream.
///
/// @pre The pool outlives its leases, captures that its streams take part in, and memory pools that
///   memory is freed to on its streams.
/// **Threads:** any number may lease and return streams at once.
class stream_pool {
 public:
  /// The maximum number of streams of one priority.
  static constexpr unsigned max_size = detail::stream_set::most_streams;

  /// Creates the streams.
  /// @param device    the device on which the streams' work runs; it need not be current
  /// @param size      number of streams, 1 to 1024; no more are created later
  /// @param priority  of all streams; within get_stream_priority_range(device)
  /// @throws std::invalid_argument  for a size or priority out of range
  /// @throws cuda_error             when CUDA cannot create one; those created are destroyed
  /// **Cost:** a few CUDA calls per stream; create the pool at start-up.
  stream_pool(device_id device, unsigned size, int priority = 0,
              source_location where = source_location::current())
      : stream_pool{
            device,
            stream_pool_options{}.initial_streams(size).max_streams(size).priority(priority),
            where} {}
  /// Creates the initial streams; leases create the others.
  /// @param device   the device on which the streams' work runs; it need not be current
  /// @param options  numbers and priority
  /// @throws std::invalid_argument  for a number or priority out of range
  /// @throws cuda_error             when CUDA cannot create one; those created are destroyed
  explicit stream_pool(device_id device, stream_pool_options const& options = {},
                       source_location where = source_location::current());
  /// @pre all leases have ended. Work already enqueued on the streams still runs.
  ~stream_pool();

  /// Leases a stream: a free one, else a new one, else waits until one is returned. Threads that
  /// wait are served in the order of their calls, and before calls that come later.
  /// @pre the calling thread does not hold all of the pool's leases: it would deadlock. Use
  ///   try_lease() where one thread takes several
  /// @return the lease
  /// @throws cuda_error  when a stream has to be created and CUDA cannot
  /// **Stream:** the stream may still be busy with the previous user's work. **Capture:** legal.
  /// **Cost:** an atomic operation if a stream is free; 4 us for a new one.
  [[nodiscard]] stream_lease lease(source_location where = source_location::current()) {
    return take(first_, detail::stream_set::for_ever, where);
  }
  /// As lease(), of a stream with a priority.
  /// @param priority  within get_stream_priority_range(device()). Each has streams of its own, up
  ///   to the maximum
  /// @throws std::invalid_argument  for a priority out of range
  [[nodiscard]] stream_lease lease_with_priority(
      int priority, source_location where = source_location::current()) {
    return take(streams_of(priority, where), detail::stream_set::for_ever, where);
  }
  /// As lease(), and waits for a limited time.
  /// @param seconds  0 or more; 0 does not wait
  /// @return the lease, empty (false) if no stream was free in time
  /// @throws std::invalid_argument  for a negative time
  [[nodiscard]] stream_lease lease_for(double seconds,
                                       source_location where = source_location::current()) {
    return take(first_, deadline(seconds, where), where);
  }
  /// Leases a stream if one is free, or can be created.
  /// @return the lease, empty (false) if none is free, or threads wait for one
  /// @throws cuda_error  when a stream has to be created and CUDA cannot
  /// **Capture:** legal. **Cost:** as lease().
  [[nodiscard]] stream_lease try_lease(source_location where = source_location::current()) {
    return take(first_, 0, where);
  }

  /// Calls `f(stream_ref branch, unsigned i)` for i below n, on leased streams, so that the work of
  /// different calls can run concurrently: behind the parent's work so far, and ahead of its later
  /// work.
  ///
  /// With fewer free streams than n, calls share branches in turn; without any, they run on the
  /// parent: fork_join() never waits for a stream. The branches are joined in order, also when `f`
  /// throws. In a capture use capture_scope::fork(), which keeps its branches.
  /// @param parent  a stream of any device; in a capture, of the pool's
  /// @param n       number of calls; 0 does nothing
  /// @param f       called n times, one after another. Until the branches are joined the calling
  ///   thread holds their leases: f may fork, and take more streams with try_lease(), but lease()
  ///   waits for ever if these are all of the pool
  /// @throws what `f` throws; cuda_error if a call fails. Work on the branches precedes later work
  ///   of the parent all the same
  /// **Stream:** does not block. **Capture:** legal; the leased streams are replaced in the pool.
  /// **Cost:** three CUDA calls, and three a branch; an event is created at each stream's first
  /// use.
  template <class F>
  void fork_join(stream_ref parent, unsigned n, F&& f,
                 source_location where = source_location::current()) {
    static_assert(std::is_invocable<F&, stream_ref, unsigned>::value,
                  "warpwright: stream_pool::fork_join(parent, n, f) calls f(warpwright::stream_ref "
                  "branch, unsigned i)");
    if (n == 0) return;
    branches forked{first_, parent};
    forked.fork(n, where);
    for (unsigned i = 0; i < n; ++i) f(forked.stream(i), i);
    forked.join(where);
  }

  /// @return the number of streams that exist
  [[nodiscard]] unsigned size() const noexcept;
  /// @return the number of streams that exist and are free at this moment
  [[nodiscard]] unsigned available() const noexcept;
  /// @return the maximum number of streams of one priority
  [[nodiscard]] unsigned max_streams() const noexcept { return first_.max_streams(); }
  /// @return the device of the streams
  [[nodiscard]] device_id device() const noexcept { return first_.device(); }

  /// Waits for all work of all streams, leased or not; not for streams that are part of a capture.
  /// @throws cuda_error  also for an error of that work
  /// **Stream:** blocks the calling thread. **Capture:** not legal for a stream that is leased.
  void synchronize(source_location where = source_location::current()) const;

 private:
  /// The streams of a fork_join(). The destructor joins them and returns the leases.
  class branches : detail::noncopyable {
   public:
    branches(detail::stream_set& streams, stream_ref parent) noexcept
        : streams_{streams}, parent_{parent} {}
    ~branches();
    void fork(unsigned n, source_location where);
    void join(source_location where);
    [[nodiscard]] stream_ref stream(unsigned i) const noexcept {
      return leased_.empty() ? parent_ : streams_.stream(leased_[i % leased_.size()]);
    }

   private:
    cudaError_t join_one(unsigned index, char const*& api) noexcept;

    detail::stream_set& streams_;
    stream_ref parent_;
    detail::array<unsigned> leased_;
    bool may_capture_ = false;  // the parent, in a capture of whomever
    std::size_t forked_ = 0;    // of leased_, the first ones
    std::size_t joined_ = 0;
  };

  static stream_lease take(detail::stream_set& streams, std::uint64_t until,
                           source_location where) {
    unsigned index = streams.take();
    if (index == detail::stream_set::none) index = streams.take_or_wait(until, where);
    return index == detail::stream_set::none ? stream_lease{} : stream_lease{streams, index};
  }
  static std::uint64_t deadline(double seconds, source_location where);
  // Calls f(stream_set const&) for each priority.
  template <class F>
  void for_each_priority(F&& f) const {
    f(first_);
    detail::stream_set const* at = others_.load(detail::memory_order::acquire);
    for (; at != nullptr; at = at->next) f(*at);
  }
  detail::stream_set& streams_of(int priority, source_location where);

  detail::stream_set first_;
  detail::atomic<detail::stream_set*> others_;  // with other priorities
  detail::mutex adding_;                        // serialises changes of others_
};

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/stream/detail/stream_pool_definitions.hpp>
#endif
