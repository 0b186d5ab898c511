// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The memory pool that a batch_tuner hands to the workload:
//
//   ww::tuning_pool memory{device};
//   tuner.memory_budget(bytes).tune(
//       stream, [&](std::size_t batch, ww::stream_ref s, ww::resource_ref m) { … }, memory);
//
// and workloads that are tuned or measured as a service runs them that replays CUDA graphs:
//
//   auto const best = tuner.tune(stream, ww::captured(workload), memory);
//   auto replayed = ww::captured(workload);
//   auto const m = ww::measure(stream, [&] { replayed(64, stream); });
#pragma once

#include <warpwright/core/detail/thread/atomic.hpp>
#include <warpwright/graph/capture.hpp>
#include <warpwright/graph/graph_exec.hpp>
#include <warpwright/memory/detail/adaptor.hpp>
#include <warpwright/memory/pool.hpp>
#include <warpwright/memory/resource_ref.hpp>
#include <warpwright/tune/detail/search/tuned_memory.hpp>

#include <time.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

WARPWRIGHT_BEGIN

/// A memory_pool whose limit a tuner sets, whose peak it reads, and which it empties between sizes
/// and at the end.
///
/// A tune with a memory budget caps the pool at it: an allocation beyond it fails with this
/// library's out_of_memory, before the device runs out. The memory that is live when the tune
/// begins, such as weights, counts. If there is none, the memory reserved from the device is capped
/// as well; otherwise fragmentation may reserve more than the budget.
///
/// @pre It outlives its blocks. While a tune runs, only its workload allocates.
/// **Threads:** any number may allocate and free at once; the other members are for one at a time.
/// **Capture:** as memory_pool.
/// **Cost:** a memory_pool's, and two atomic operations a call.
class tuning_pool : public detail::memory_interface<tuning_pool> {
 public:
  /// Creates a pool on a device.
  /// @param device   the device of the memory
  /// @param options  of the memory_pool; its limit holds as well
  /// @throws as memory_pool
  explicit tuning_pool(device_id device, memory_pool_options const& options = {},
                       source_location where = source_location::current())
      : device_{device},
        options_{options},
        pool_{new memory_pool{device, options, where}},
        own_limit_{pool_->limit_bytes()},
        reserved_limit_{own_limit_} {}
  ~tuning_pool() { delete pool_; }
  tuning_pool(tuning_pool const&) = delete;  // buffers refer to it
  tuning_pool& operator=(tuning_pool const&) = delete;

  /// @return the device of the memory
  [[nodiscard]] device_id device() const noexcept { return device_; }
  /// @return live bytes, each block rounded up to 256
  [[nodiscard]] std::size_t live_bytes() const noexcept {
    return live_.load(detail::memory_order::relaxed);
  }
  /// @return the most live bytes since reset() or the start. Memory of a captured graph counts: all
  ///   that the graph holds at the call, freed in the capture or not
  [[nodiscard]] std::size_t peak_bytes() const noexcept {
    std::size_t const peak = peak_.load(detail::memory_order::relaxed);
    std::size_t const held = live_bytes() + graph_bytes();
    return held > peak ? held : peak;
  }
  /// @return allocations refused so far, for lack of memory or by the limit
  [[nodiscard]] std::size_t refusals() const noexcept {
    return refusals_.load(detail::memory_order::relaxed);
  }
  /// @return the limit of live bytes; memory_pool_options::unlimited: none
  [[nodiscard]] std::size_t limit_bytes() const noexcept {
    return limit_.load(detail::memory_order::relaxed);
  }

  /// Begins a new peak, at the bytes that are live now. Waits for the memory of graphs that have
  /// been destroyed, which CUDA reports a little later: at most 0.1 s, if other graphs have some.
  /// @throws cuda_error  if a CUDA call fails
  void reset(source_location where = source_location::current()) {
    await_graphs(where);
    peak_.store(live_bytes(), detail::memory_order::relaxed);
  }

  /// Sets the limit. A tuner calls it.
  /// @pre no other thread uses the pool
  /// @param bytes  the most live bytes, and without live blocks and graphs that hold memory of the
  ///   pool the most bytes reserved;
  ///   memory_pool_options::unlimited: none
  /// @throws cuda_error, std::bad_alloc  if the pool cannot be created again; it is unchanged then
  /// **Stream:** waits for the pool's streams, if nothing is live.
  void limit(std::size_t bytes, source_location where = source_location::current()) {
    std::size_t const reserved = bytes < own_limit_ ? bytes : own_limit_;
    if (live_bytes() == 0 && pool_->statistics().graph_bytes == 0 && reserved != reserved_limit_) {
      // The limit of a memory_pool is fixed, so an idle one is replaced.
      auto* const pool = new memory_pool{device_, options_.max_bytes(reserved), where};
      delete pool_;
      pool_ = pool;
      reserved_limit_ = reserved;
    }
    limit_.store(bytes, detail::memory_order::relaxed);
  }

  /// Gives idle memory back to the device, that of destroyed graphs included: waits as reset().
  /// Otherwise as memory_pool::trim().
  std::size_t trim(source_location where = source_location::current()) {
    await_graphs(where);
    return pool_->trim(0, where);
  }
  /// @return a snapshot of the memory_pool's counters
  [[nodiscard]] pool_statistics statistics() const noexcept { return pool_->statistics(); }

 private:
  friend class detail::memory_interface<tuning_pool>;

  static std::size_t rounded(std::size_t bytes) noexcept {
    return bytes > ~std::size_t{255} ? bytes : (bytes + 255) & ~std::size_t{255};
  }

  template <bool Throws>
  void* do_allocate(detail::memory_request const& request) {
    std::size_t const bytes = rounded(request.bytes);
    std::size_t live = live_bytes();
    do {
      std::size_t const limit = limit_bytes();
      if (live > limit || bytes > limit - live) {
        refused();
        if constexpr (Throws) throw_over_limit(request, live, limit);
        return nullptr;
      }
    } while (!live_.compare_exchange_weak(live, live + bytes, detail::memory_order::relaxed,
                                          detail::memory_order::relaxed));
    void* pointer = nullptr;
    try {
      pointer = detail::allocate_from<Throws>(*pool_, request);
    } catch (...) {
      live_.fetch_sub(bytes, detail::memory_order::relaxed);
      refused();
      throw;
    }
    if (pointer == nullptr) {
      live_.fetch_sub(bytes, detail::memory_order::relaxed);
      refused();
      return nullptr;
    }
    std::size_t const now = live + bytes;
    std::size_t peak = peak_.load(detail::memory_order::relaxed);
    while (peak < now && !peak_.compare_exchange_weak(peak, now, detail::memory_order::relaxed,
                                                      detail::memory_order::relaxed)) {
    }
    return pointer;
  }
  void do_deallocate(stream_ref stream, void* pointer, std::size_t bytes, source_location where) {
    pool_->deallocate(stream, pointer, bytes, where);
    live_.fetch_sub(rounded(bytes), detail::memory_order::relaxed);
  }
  [[nodiscard]] std::size_t graph_bytes() const noexcept { return pool_->statistics().graph_bytes; }
  void await_graphs(source_location where) {
    constexpr timespec pause{0, 100000};
    std::size_t held = graph_bytes();
    // What was waited for in vain belongs to other graphs.
    int const most = held == of_other_graphs_ ? 100 : 1000;
    for (int i = 0; i < most && held != 0; ++i) {
      if (i > 0) static_cast<void>(nanosleep(&pause, nullptr));
      pool_->trim(memory_pool_options::unlimited, where);  // notices what is destroyed
      held = graph_bytes();
    }
    of_other_graphs_ = held;
  }
  void refused() noexcept { refusals_.fetch_add(1, detail::memory_order::relaxed); }

  [[noreturn]] WARPWRIGHT_COLD void throw_over_limit(detail::memory_request const& request,
                                                     std::size_t live, std::size_t limit) const {
    memory_report report;
    report.requested_bytes = request.bytes;
    report.live_bytes = live;
    report.reserved_bytes = live;
    report.largest_free_block_bytes = live < limit ? limit - live : 0;
    report.limit_bytes = limit;
    report.device = device_.value();
    throw out_of_memory{report, request.where};
  }

  device_id device_;
  memory_pool_options options_;
  memory_pool* pool_;
  std::size_t own_limit_;       // of the user's options
  std::size_t reserved_limit_;  // of pool_
  std::size_t of_other_graphs_ = 0;
  detail::atomic<std::size_t> limit_{memory_pool_options::unlimited};
  detail::atomic<std::size_t> live_{0};
  detail::atomic<std::size_t> peak_{0};
  detail::atomic<std::size_t> refusals_{0};
};

/// A workload of a batch_tuner that is captured into a CUDA graph once for each size, and replayed.
/// Made by captured().
///
/// The first call with a size runs the workload, so that libraries load code and grow their
/// workspaces outside of the capture, and then captures it. Later calls with the same size replay
/// the graph, on any stream. Another size or drop_graph() destroys it; a tuner calls that whenever
/// it prepares a size, since a preparation may move what the graph points to.
///
/// Memory that the workload takes from a memory_pool or tuning_pool in the capture belongs to the
/// graph. A tuning_pool's peak counts it until the graph is destroyed.
///
/// @pre the workload enqueues the same work at every call with a size, on its stream or on others
///   that it joins; it does not synchronise, and allocates from a pool or in stream order
/// **Threads:** one at a time.
template <typename Workload>
class captured_workload {
  using workload_type = std::remove_reference_t<Workload>;
  static constexpr bool with_resource =
      std::is_invocable_v<workload_type&, std::size_t, stream_ref, resource_ref>;
  static_assert(with_resource || std::is_invocable_v<workload_type&, std::size_t, stream_ref>,
                "warpwright: the workload of captured() must be callable as "
                "void(std::size_t batch, warpwright::stream_ref stream), or with a third argument "
                "warpwright::resource_ref memory");

 public:
  /// @param workload  kept by reference if `Workload` is one
  /// @param mode      which threads' illegal calls invalidate a capture
  explicit captured_workload(Workload&& workload, capture_mode mode = capture_mode::thread,
                             source_location where = source_location::current())
      : workload_{std::forward<Workload>(workload)}, mode_{mode}, where_{where} {}

  /// Runs one batch: as a graph, except for the first call with a size.
  ///
  /// @param batch   the size, passed to the workload
  /// @param stream  not the legacy default stream, and not capturing
  /// @throws std::invalid_argument  for the legacy default stream or one that is capturing; if the
  ///   workload enqueues nothing on the stream
  /// @throws cuda_error  if the workload cannot be captured, with the reason and the remedy; if the
  ///   graph cannot be instantiated or launched; for an error that the workload or a call before
  ///   has left pending
  /// Otherwise what the workload throws. There is no graph then, and the stream is not capturing.
  ///
  /// **Stream:** ordered on `stream`; does not block. **Capture:** not legal.
  /// **Cost:** one CUDA call for a replay; the first call with a size takes the host time of the
  /// workload twice, and an instantiation.
  template <typename Type = workload_type,
            typename = std::enable_if_t<std::is_invocable_v<Type&, std::size_t, stream_ref>>>
  void operator()(std::size_t batch, stream_ref stream) {
    run(
        batch, stream, [&](stream_ref on) { workload_(batch, on); }, [] {});
  }
  /// Runs one batch with memory for the workload; see the overload above.
  /// @param memory  a memory_pool or tuning_pool, trimmed before a capture, which could not reuse
  ///   what the first call has freed; or another resource. A graph is not captured again if it
  ///   changes
  template <typename Memory, typename Type = workload_type,
            typename =
                std::enable_if_t<std::is_invocable_v<Type&, std::size_t, stream_ref, resource_ref>>>
  void operator()(std::size_t batch, stream_ref stream, Memory&& memory) {
    run(
        batch, stream, [&](stream_ref on) { workload_(batch, on, resource_ref{memory}); },
        [&] {
          if constexpr (detail::has_trim<Memory>::value) memory.trim();
        });
  }

  /// Destroys the graph: the next call runs the workload and captures it again. Its memory is free
  /// when its launches have completed.
  void drop_graph() noexcept { exec_ = graph_exec{}; }

  /// @return the number of captures so far
  [[nodiscard]] std::uint64_t captures() const noexcept { return captures_; }
  /// @return the number of replays so far
  [[nodiscard]] std::uint64_t replays() const noexcept { return replays_; }

 private:
  template <typename Body, typename Trim>
  void run(std::size_t batch, stream_ref stream, Body const& body, Trim const& trim) {
    if (exec_.get() != nullptr && batch == batch_) {
      exec_.launch(stream, where_);
      ++replays_;
      return;
    }
    drop_graph();
    detail::check_pending("a call before captured()", where_);
    body(stream);
    detail::check_pending("the workload of captured()", where_);
    trim();
    graph const captured = capture_body(stream, body);
    if (captured.size(where_) == 0) {
      detail::throw_invalid_argument(
          "captured(): the workload has enqueued nothing on the stream, so that a graph of it "
          "would do nothing: enqueue its work on the stream that is passed, and join other streams "
          "to it",
          where_);
    }
    graph_exec exec{captured, where_};
    exec.upload(stream, where_);
    exec_ = std::move(exec);
    batch_ = batch;
    ++captures_;
  }

  template <typename Body>
  graph capture_body(stream_ref stream, Body const& body) {
    capture_scope scope{stream, mode_, where_};
    try {
      body(stream);
    } catch (...) {
      // A library's exception does not say that the capture was the reason.
      capture_report const report = scope.report(where_);
      if (report.code != cudaErrorStreamCaptureInvalidated) throw;
      throw_cannot_capture(report);
    }
    try {
      return scope.end(where_);
    } catch (capture_error const& e) {
      if (e.sticky() || !detail::is_capture_error(e.code())) throw;
      throw_cannot_capture(e.report());
    }
  }
  [[noreturn]] void throw_cannot_capture(capture_report const& report) const {
    std::string const remedy =
        "the workload cannot be captured: " + report.summary() + "; or tune it without captured()";
    detail::throw_cuda_error(report.code, "captured()", where_, remedy.c_str());
  }

  Workload workload_;
  capture_mode mode_;
  source_location where_;
  graph_exec exec_;
  std::size_t batch_ = 0;
  std::uint64_t captures_ = 0;
  std::uint64_t replays_ = 0;
};

/// Makes a workload that a batch_tuner captures into a CUDA graph for each size, and replays.
///
/// @param workload  `void(std::size_t batch, stream_ref stream)`, or with a third argument
///   `resource_ref memory`; kept by reference if it is an lvalue, which then outlives the result
/// @param mode      which threads' illegal calls invalidate a capture
/// @return a workload with the same calls; movable
template <typename Workload>
[[nodiscard]] captured_workload<Workload> captured(
    Workload&& workload, capture_mode mode = capture_mode::thread,
    source_location where = source_location::current()) {
  return captured_workload<Workload>{std::forward<Workload>(workload), mode, where};
}

WARPWRIGHT_END
