// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Interprets bytes as a program that uses a memory_pool on the host runtime, and checks it against
// a model: live blocks do not overlap, a block keeps what work wrote into it until it is freed, all
// counters are right, a failing CUDA call loses nothing, and all memory is returned in the end. A
// violation aborts the process.
//
// What a pool may reuse depends on the work that has completed. So that an input means the same in
// every run, streams are either idle or blocked by a gate when the pool is called; one bit of the
// input disables that.
#pragma once

#include <warpwright/core/event.hpp>
#include <warpwright/core/launch.hpp>
#include <warpwright/core/stream.hpp>
#include <warpwright/memory/pool.hpp>
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace pool_fuzz {

namespace ww = warpwright;
namespace testing = ww::testing;

constexpr std::size_t kib = 1024;
constexpr std::size_t mib = 1024 * kib;
constexpr std::size_t device_bytes = 64 * mib;
constexpr std::size_t growth_step = 2 * mib;  // the largest step by which a pool must grow
constexpr std::size_t edge_bytes = 64;        // of each block: written and checked at both ends

// ---- building blocks

/// Reads the input; zeros after its end.
class reader {
 public:
  reader(std::uint8_t const* data, std::size_t bytes) : at_{data}, left_{bytes} {}
  bool empty() const { return left_ == 0; }
  unsigned byte() {
    if (left_ == 0) return 0;
    --left_;
    return *at_++;
  }
  unsigned below(unsigned limit) { return byte() % limit; }
  /// A power of two, plus up to as much again.
  std::size_t size(unsigned powers) {
    std::size_t const power = std::size_t{1} << below(powers);
    return power + (byte() * power >> 8U);
  }

 private:
  std::uint8_t const* at_;
  std::size_t left_;
};

inline std::int64_t now_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Blocks a stream until it is opened, or until the host has waited so long that it must be waiting
/// for this gate.
class gate {
 public:
  explicit gate(std::atomic<std::int64_t> const& host_waits_since) : since_{host_waits_since} {}
  void open() { open_.store(true); }
  bool closed() const { return !open_.load(); }
  static void CUDART_CB wait(void* self) { static_cast<gate*>(self)->wait_here(); }

 private:
  static constexpr std::int64_t maximum_wait_us = 3000;
  void wait_here() {
    while (closed()) {
      std::int64_t const since = since_.load();
      if (since != 0 && now_us() - since > maximum_wait_us) open();
      std::this_thread::sleep_for(std::chrono::microseconds{20});
    }
  }
  std::atomic<std::int64_t> const& since_;
  std::atomic<bool> open_{false};
};

/// A stream, and whether its work can complete.
struct stream_state {
  std::unique_ptr<ww::stream> owned;         // null: the per-thread default stream
  std::vector<std::shared_ptr<gate>> gates;  // in the order of the stream
  bool depends_on_gate = false;

  bool gated() const { return !gates.empty() && gates.back()->closed(); }
  cudaStream_t handle() const { return owned != nullptr ? owned->get() : cudaStreamPerThread; }
  /// `raw`: without the stream's id, as a handle from another library.
  ww::stream_ref ref(bool raw = false) const {
    return raw || owned == nullptr ? ww::stream_ref{handle()} : owned->ref();
  }
};

struct block {
  unsigned char* at = nullptr;
  std::size_t bytes = 0;
  std::size_t stream = 0;
  unsigned char tag = 0;
};

struct write_tag {
  block what;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t) const {
    std::size_t const n = what.bytes < edge_bytes ? what.bytes : edge_bytes;
    std::memset(what.at, what.tag, n);
    std::memset(what.at + what.bytes - n, what.tag, n);
  }
};

struct verify {
  block what;
  std::atomic<unsigned>* wrong;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t) const {
    std::size_t const n = what.bytes < edge_bytes ? what.bytes : edge_bytes;
    unsigned char const* const end = what.at + what.bytes - n;
    for (std::size_t i = 0; i < n; ++i) {
      if (what.at[i] != what.tag || end[i] != what.tag) wrong->fetch_add(1);
    }
  }
};

struct fault {
  std::string call;
  cudaError_t code;
  testing::fault_plan plan;
};

/// Printed before a finding aborts the process.
struct finding {
  std::string context;  // for example how to reproduce the input
  std::uint8_t const* data = nullptr;
  std::size_t bytes = 0;
};
inline finding& current() {
  static finding f;
  return f;
}

[[noreturn]] inline void fail(std::string const& what) {
  finding const& f = current();
  std::fprintf(stderr, "pool_fuzz: %s\n%s\ninput:", what.c_str(), f.context.c_str());
  for (std::size_t i = 0; i < f.bytes; ++i) std::fprintf(stderr, " %02x", f.data[i]);
  std::fprintf(stderr, "\n");
  std::abort();
}

// ---- one input

class session {
 public:
  session(std::uint8_t const* data, std::size_t bytes) : in_{data, bytes} {}
  session(session const&) = delete;
  session& operator=(session const&) = delete;

  void run() {
    if (make_pool()) {
      while (!in_.empty()) {
        step();
        wait_for_runnable();
        check_counters();
      }
      finish();
    }
  }

 private:
  enum class outcome { done, no_memory, failed };
  static constexpr unsigned stream_count = 4;
  static constexpr unsigned per_thread_index = 2;  // the per-thread default stream

  // ---- set-up and end

  bool make_pool() {
    for (std::size_t i = 0; i < stream_count; ++i) {
      streams_.emplace_back();
      if (i != per_thread_index) streams_.back().owned = std::make_unique<ww::stream>();
    }
    std::size_t const limits[] = {2 * mib, 4 * mib, 8 * mib, 16 * mib, unlimited};
    std::size_t const growths[] = {256 * kib, 2 * mib, 8 * mib};
    std::size_t const caches[] = {0, 64 * kib, 2 * mib};
    unsigned const flags = in_.byte();
    runs_freely_ = (flags & 0xc1U) == 1U;
    checked_ = (flags & 2U) != 0;
    ww::memory_pool_options options;
    options = options.checked(checked_);
    if ((flags & 4U) != 0) options = options.order(ww::reuse_order::wait_before_grow);
    if ((flags & 8U) != 0) options = options.on_exhausted(&session::on_exhausted, this);
    if ((flags & 16U) != 0) options = options.initial_bytes(mib);
    if ((flags & 32U) != 0) arm();
    // Few streams and sizes make blocks move between streams often.
    streams_in_use_ = 2 + in_.below(stream_count - 1);
    sizes_ = in_.below(4);
    options = options.max_bytes(limits[in_.below(5)]);
    if (unsigned const which = in_.below(4); which != 0)
      options = options.growth_bytes(growths[which - 1]);
    unsigned const source = in_.byte();
    options = options.source(static_cast<ww::memory_source>(source % 4));
    // With the default's floor nothing is moved but at the limit.
    if (unsigned const slack = source / 4 % 4; slack != 0)
      options = options.slack(slack == 2 ? 0.5 : 0.0, slack == 3 ? 2 * mib : 0);
    if (unsigned const which = in_.below(4); which != 0)
      options = options.cache_bytes(caches[which - 1]);
    outcome const made = call_pool("memory_pool", [&] {
      pool_ = std::make_unique<ww::memory_pool>(ww::device_id{0}, options);
    });
    if (made == outcome::no_memory && !faulted_) fail("no memory for initial_bytes");
    return made == outcome::done;
  }

  void finish() {
    fault_.reset();
    open_gates();
    while (!live_.empty()) deallocate(live_.size() - 1, live_.back().stream, false);
    open_gates();
    ww::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    check_counters();
    std::uint64_t const reserved = pool_->statistics().reserved_bytes;
    std::size_t freed = 0;
    call_pool("trim", [&] { freed = pool_->trim(); });
    if (freed != reserved) fail("trim() of a pool without live blocks does not free everything");
    if (pool_->statistics().reserved_bytes != 0) fail("reserved_bytes after the last trim()");
    pool_.reset();
  }

  // ---- operations

  void step() {
    unsigned const code = in_.byte();
    switch (code % 16) {
      case 0:
      case 1:
      case 2:
      case 3:
        return allocate();
      case 4:
      case 5:
      case 6:
        if (!live_.empty()) deallocate(in_.below(count()), any_stream(), raw());
        return;
      case 7:
        if (!live_.empty()) deallocate_on_own_stream(in_.below(count()));
        return;
      case 8:
        return block_stream(any_stream());
      case 9:
        return (in_.byte() & 3U) == 0 ? open_gates() : open_one_gate(any_stream());
      case 10:
        return trim();
      case 11:
        return retire_stream(any_stream());
      case 12:
        return arm();
      case 13:
        return allocate_several();
      case 14:
        return deallocate_several();
      default:
        return misuse();
    }
  }

  void allocate() {
    std::size_t const on = any_stream();
    std::size_t const bytes = any_size();
    unsigned const choice = in_.byte();
    std::size_t const alignment = (choice & 3U) != 0
                                      ? std::size_t{ww::memory_pool::block_alignment_bytes}
                                      : std::size_t{1} << (choice >> 2U) % 22U;
    bool const may_throw = (choice & 1U) != 0;
    bool const was_empty = live_.empty();
    void* p = nullptr;
    outcome const result = call_pool_on(on, "allocate", [&] {
      ww::stream_ref const stream = streams_[on].ref(raw());
      p = may_throw ? pool_->allocate(stream, bytes, alignment)
                    : pool_->try_allocate(stream, bytes, alignment);
    });
    if (result == outcome::done && (p != nullptr || bytes == 0)) {
      if (p != nullptr && bytes == 0) fail("memory for 0 bytes");
      if (p != nullptr) add_live(p, bytes, alignment, on);
      return;
    }
    if (result == outcome::done && may_throw) fail("allocate() returns nullptr");
    if (was_empty && !faulted_ && fits(bytes, alignment)) {
      fail("a pool without live blocks rejects a request that fits into its limit");
    }
  }

  void deallocate_on_own_stream(std::size_t i) { deallocate(i, live_[i].stream, false); }

  void deallocate(std::size_t i, std::size_t on, bool without_id) {
    block const b = live_[i];
    check_contents(b);
    order(on, b.stream);
    outcome const result = call_pool_on(
        on, "deallocate", [&] { pool_->deallocate(streams_[on].ref(without_id), b.at, b.bytes); });
    if (result == outcome::done) remove_live(i);
    if (result == outcome::no_memory) fail("deallocate() is out of memory");
  }

  void allocate_several() {
    std::size_t const on = any_stream();
    std::vector<std::size_t> bytes(1 + in_.below(6));
    for (std::size_t& n : bytes) n = any_size();
    std::vector<void*> pointers(bytes.size(), nullptr);
    outcome const result = call_pool_on(on, "allocate_batch", [&] {
      pool_->allocate_batch(streams_[on].ref(raw()), bytes.data(), pointers.data(), bytes.size());
    });
    if (result != outcome::done) {
      // The blocks before the failed one are freed again; the pool may count them or not.
      ww::pool_statistics const s = pool_->statistics();
      equal("a failed batch's deallocations", s.deallocations - deallocations_,
            s.allocations - allocations_);
      allocations_ = s.allocations;
      deallocations_ = s.deallocations;
    }
    if (result != outcome::done) return;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      if ((pointers[i] == nullptr) != (bytes[i] == 0)) fail("a batch without one of its blocks");
      if (pointers[i] != nullptr)
        add_live(pointers[i], bytes[i], ww::memory_pool::block_alignment_bytes, on);
    }
  }

  void deallocate_several() {
    std::size_t const on = any_stream();
    std::size_t const many = 1 + in_.below(6);
    std::vector<void*> pointers;
    std::vector<std::size_t> bytes;
    for (std::size_t i = live_.size(); i-- > 0 && pointers.size() < many;) {
      check_contents(live_[i]);
      order(on, live_[i].stream);
      pointers.push_back(live_[i].at);
      bytes.push_back(live_[i].bytes);
    }
    if (pointers.empty()) return;
    outcome const result = call_pool_on(on, "deallocate_batch", [&] {
      pool_->deallocate_batch(streams_[on].ref(raw()), pointers.data(), bytes.data(),
                              pointers.size());
    });
    if (result == outcome::no_memory) fail("deallocate_batch() is out of memory");
    // A failing call leaves the later blocks of the batch live.
    std::uint64_t const left = pool_->statistics().live_blocks;
    if (result == outcome::done && left + pointers.size() != live_.size()) {
      fail("deallocate_batch() leaves something");
    }
    for (std::size_t i = 0; i < pointers.size() && live_.size() > left; ++i) {
      remove_live(live_.size() - 1);
    }
  }

  void trim() {
    std::uint64_t const before = pool_->statistics().reserved_bytes;
    std::size_t const keep = in_.byte() * (64 * kib);
    std::size_t freed = 0;
    outcome const result = call_pool("trim", [&] { freed = pool_->trim(keep); });
    std::uint64_t const after = pool_->statistics().reserved_bytes;
    if (result != outcome::done) return;
    if (after + freed != before) fail("trim() returns another number than it freed");
    if (after < keep && freed != 0) fail("trim() leaves less than bytes_to_keep");
  }

  void retire_stream(std::size_t which) {
    if (which == per_thread_index) return;
    std::size_t const successor = (which + 1) % streams_in_use_;
    for (block& b : live_) {
      if (b.stream != which) continue;
      order(successor, which);
      b.stream = successor;
    }
    outcome const result = call_pool("retire", [&] { pool_->retire(streams_[which].ref(raw())); });
    if (result == outcome::no_memory) fail("retire() is out of memory");
    if (result != outcome::done) return;
    streams_[which] = {};
    streams_[which].owned = std::make_unique<ww::stream>();
  }

  // Makes a CUDA call of the pool fail.
  void arm() {
    static constexpr char const* calls[] = {"cudaMalloc",
                                            "cudaFree",
                                            "cudaMallocAsync",
                                            "cudaFreeAsync",
                                            "cudaMemGetInfo",
                                            "cudaEventCreateWithFlags",
                                            "cudaEventRecord",
                                            "cudaEventQuery",
                                            "cudaEventSynchronize",
                                            "cudaStreamWaitEvent",
                                            "cudaStreamGetId",
                                            "cudaStreamSynchronize",
                                            "cudaStreamIsCapturing",
                                            "cudaStreamGetCaptureInfo",
                                            "cudaGetDevice",
                                            "cudaSetDevice",
                                            "cudaDeviceSynchronize",
                                            "cudaThreadExchangeStreamCaptureMode",
                                            "cuMemAddressReserve",
                                            "cuMemCreate",
                                            "cuMemMap",
                                            "cuMemSetAccess",
                                            "cuMemUnmap",
                                            "cudaGetDriverEntryPointByVersion"};
    static constexpr cudaError_t codes[] = {cudaErrorUnknown, cudaErrorMemoryAllocation,
                                            cudaErrorInvalidValue};
    fault f;
    f.call = calls[in_.below(sizeof calls / sizeof calls[0])];
    unsigned const how = in_.byte();
    f.code = codes[how % 3];
    unsigned const nth = (how & 4U) != 0 ? 1 : 1 + (how >> 3U) % 8;
    if ((how & 128U) != 0) {
      f.plan = f.plan.fail_from(f.call, nth, f.code);
    } else {
      f.plan = f.plan.fail(f.call, nth, f.code);
    }
    fault_ = f;
  }

  void misuse() {
    std::size_t const on = any_stream();
    static int foreign = 0;
    switch (in_.below(6)) {
      case 0:
        return expect_invalid_argument(
            "alignment 3", [&] { return pool_->try_allocate(streams_[on].ref(), 1, 3); });
      case 1:
        return expect_invalid_argument("a huge alignment", [&] {
          return pool_->allocate(streams_[on].ref(), 1,
                                 2 * std::size_t{ww::memory_pool::max_alignment_bytes});
        });
      case 2: {
        void* p = nullptr;
        call_pool_on(on, "try_allocate",
                     [&] { p = pool_->try_allocate(streams_[on].ref(), ~std::size_t{0}); });
        if (p != nullptr) fail("an allocation of all addressable memory succeeds");
        return;
      }
      case 3:
        if (!checked_) return;
        return expect_invalid_argument("a foreign pointer", [&] {
          pool_->deallocate(streams_[on].ref(), &foreign, sizeof foreign);
        });
      case 4:
        if (!checked_ || last_freed_.at == nullptr || ranges_.count(start(last_freed_)) != 0)
          return;
        return expect_invalid_argument("a block freed twice", [&] {
          pool_->deallocate(streams_[on].ref(), last_freed_.at, last_freed_.bytes);
        });
      default:
        if (!checked_ || live_.empty()) return;
        return expect_invalid_argument("wrong bytes", [&] {
          pool_->deallocate(streams_[on].ref(), live_.front().at, live_.front().bytes + 1);
        });
    }
  }

  // ---- streams

  void block_stream(std::size_t which) {
    stream_state& l = streams_[which];
    if (l.gates.size() >= 8) return;
    l.gates.push_back(std::make_shared<gate>(host_waits_since_));
    gates_.push_back(l.gates.back());
    ww::check(cudaLaunchHostFunc(l.handle(), &gate::wait, gates_.back().get()),
              "cudaLaunchHostFunc");
  }

  /// Lets a stream run to its next gate.
  void open_one_gate(std::size_t which) {
    for (auto const& g : streams_[which].gates) {
      if (!g->closed()) continue;
      wait_for_progress();
      g->open();
      return wait_for_progress();
    }
  }

  void open_gates() {
    for (auto const& g : gates_) g->open();
    for (stream_state& l : streams_) {
      l.gates.clear();
      l.depends_on_gate = false;
    }
  }

  bool any_gate_closed() const {
    for (auto const& g : gates_) {
      if (g->closed()) return true;
    }
    return false;
  }

  /// Orders one stream behind another, as a user must before freeing on another stream.
  void order(std::size_t later, std::size_t earlier) {
    if (later == earlier) return;
    marker_.record(streams_[earlier].handle());
    ww::check(cudaStreamWaitEvent(streams_[later].handle(), marker_.get(), 0),
              "cudaStreamWaitEvent");
    if (streams_[earlier].gated() || streams_[earlier].depends_on_gate) {
      streams_[later].depends_on_gate = true;
    }
  }

  /// Waits until the host runtime makes no progress: work behind gates cannot be waited for.
  static void wait_for_progress() {
    std::uint64_t before = 0;
    std::uint64_t done = testing::stats().operations_run;
    do {
      before = done;
      std::this_thread::sleep_for(std::chrono::microseconds{200});
      done = testing::stats().operations_run;
    } while (done != before);
  }

  /// Waits until all work that can run has completed.
  void wait_for_runnable() {
    if (runs_freely_) return;
    if (!any_gate_closed()) open_gates();
    host_waits_since_.store(now_us());
    for (stream_state const& l : streams_) {
      if (!l.gated() && !l.depends_on_gate) l.ref().synchronize();
    }
    host_waits_since_.store(0);
  }

  // ---- the model

  static std::uintptr_t start(block const& b) { return reinterpret_cast<std::uintptr_t>(b.at); }
  static std::uint64_t granules(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

  void add_live(void* pointer, std::size_t bytes, std::size_t alignment, std::size_t on) {
    block const b{static_cast<unsigned char*>(pointer), bytes, on, next_tag_++};
    if (start(b) % alignment != 0 || start(b) % ww::memory_pool::block_alignment_bytes != 0) {
      fail("an address that is not aligned");
    }
    auto const above = ranges_.lower_bound(start(b));
    if (above != ranges_.end() && above->first < start(b) + bytes) fail("two blocks overlap");
    if (above != ranges_.begin()) {
      auto const below = std::prev(above);
      if (below->first + below->second > start(b)) fail("two blocks overlap");
    }
    ranges_[start(b)] = bytes;
    live_.push_back(b);
    live_bytes_ += granules(bytes);
    ++allocations_;
    ww::for_each_index(streams_[on].ref(), 1, write_tag{b});
  }

  void remove_live(std::size_t i) {
    last_freed_ = live_[i];
    ranges_.erase(start(live_[i]));
    live_bytes_ -= granules(live_[i].bytes);
    live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(i));
    ++deallocations_;
  }

  void check_contents(block const& b) {
    ww::for_each_index(streams_[b.stream].ref(), 1, verify{b, &wrong_});
  }

  bool fits(std::size_t bytes, std::size_t alignment) const {
    std::size_t const room = alignment > ww::memory_pool::block_alignment_bytes ? alignment : 0;
    std::size_t const most = (std::min)(pool_->limit_bytes(), device_bytes);
    return (bytes + room + growth_step - 1) / growth_step * growth_step <= most;
  }

  void check_counters() {
    if (wrong_.load() != 0) fail("work found other bytes in its block than were written");
    ww::pool_statistics const s = pool_->statistics();
    equal("live_blocks", s.live_blocks, live_.size());
    equal("live_bytes", s.live_bytes, live_bytes_);
    equal("allocations", s.allocations, allocations_);
    equal("deallocations", s.deallocations, deallocations_);
    at_most("live_bytes", s.live_bytes, s.reserved_bytes);
    at_most("reserved_bytes", s.reserved_bytes, s.reserved_peak_bytes);
    at_most("reserved_peak_bytes", s.reserved_peak_bytes, pool_->limit_bytes());
    at_most("largest_free_block_bytes", s.largest_free_block_bytes,
            s.reserved_bytes - s.live_bytes);
    at_most("hits", s.hits, s.allocations);
    at_most("cross_stream_steals", s.cross_stream_steals, s.allocations);
    at_most("reserved_bytes", s.reserved_bytes, testing::stats().device_memory_bytes);
  }

  // ---- calling the pool

  /// Calls the pool. An armed fault stays armed until a call hits it.
  template <class Call>
  outcome call_pool(char const* what, Call&& call) {
    std::optional<testing::scoped_fault_plan> plan;
    if (fault_) plan.emplace(fault_->plan);
    auto const hit = [&] { return plan && plan->hits() > 0; };
    outcome result = outcome::done;
    host_waits_since_.store(now_us());
    try {
      call();
    } catch (ww::cuda_error const& e) {
      if (!hit() || e.code() != fault_->code) fail(std::string{what} + " throws: " + e.what());
      result = outcome::failed;
    } catch (ww::out_of_memory const&) {
      result = outcome::no_memory;
    } catch (std::exception const& e) {
      // When the query fails, a stream may be treated as capturing.
      if (!hit()) fail(std::string{what} + " throws: " + e.what());
      result = outcome::failed;
    }
    host_waits_since_.store(0);
    faulted_ = hit();
    if (faulted_) fault_.reset();
    plan.reset();
    static_cast<void>(cudaGetLastError());
    return result;
  }

  /// As call_pool(), for a call that may make a stream wait for others.
  template <class Call>
  outcome call_pool_on(std::size_t on, char const* what, Call&& call) {
    std::uint64_t const before = pool_->statistics().stream_waits;
    outcome const result = call_pool(what, call);
    if (pool_->statistics().stream_waits != before && any_gate_closed()) {
      streams_[on].depends_on_gate = true;
    }
    return result;
  }

  template <class Call>
  void expect_invalid_argument(char const* what, Call&& call) {
    try {
      static_cast<void>(call());
    } catch (std::invalid_argument const&) {
      return;
    } catch (std::exception const& e) {
      fail(std::string{what} + " is expect_invalid_argument with: " + e.what());
    }
    fail(std::string{what} + " throws nothing");
  }

  // Frees the oldest block. The fault of the call that is short of memory is suspended.
  static bool on_exhausted(void* self, ww::memory_report const&) {
    auto& s = *static_cast<session*>(self);
    if (s.live_.empty()) return false;
    testing::scoped_fault_plan const undisturbed{testing::fault_plan{}};
    block const b = s.live_.front();
    s.check_contents(b);
    s.pool_->deallocate(s.streams_[b.stream].ref(), b.at, b.bytes);
    s.remove_live(0);
    return true;
  }

  // ---- small things

  unsigned count() const {
    return static_cast<unsigned>((std::min)(live_.size(), std::size_t{256}));
  }
  std::size_t any_stream() { return in_.below(streams_in_use_); }
  bool raw() { return (in_.byte() & 7U) == 7U; }
  std::size_t any_size() {
    switch (sizes_) {
      case 0:
        return 512 * kib;
      case 1:
        return (1 + in_.below(4)) * 256 * kib;
      case 2:
        return in_.size(16);
      default: {
        std::size_t const bytes = in_.size(22);
        return bytes == 1 && (in_.byte() & 1U) != 0 ? 0 : bytes;
      }
    }
  }

  void equal(char const* what, std::uint64_t is, std::uint64_t should) {
    if (is != should)
      fail(std::string{what} + " is " + std::to_string(is) + ", not " + std::to_string(should));
  }
  void at_most(char const* what, std::uint64_t is, std::uint64_t most) {
    if (is > most)
      fail(std::string{what} + " is " + std::to_string(is) + ", above " + std::to_string(most));
  }

  static constexpr std::size_t unlimited = ww::memory_pool_options::unlimited;

  reader in_;
  std::atomic<std::int64_t> host_waits_since_{0};  // 0: the host does not wait
  std::vector<std::shared_ptr<gate>> gates_;       // must outlive the streams
  std::vector<stream_state> streams_;
  ww::event marker_;
  std::unique_ptr<ww::memory_pool> pool_;
  std::optional<fault> fault_;
  bool faulted_ = false;  // the last call hit its fault
  bool checked_ = false;
  bool runs_freely_ = false;
  unsigned streams_in_use_ = stream_count;
  unsigned sizes_ = 0;
  std::vector<block> live_;
  std::map<std::uintptr_t, std::size_t> ranges_;  // live_ by address
  block last_freed_;
  std::uint64_t live_bytes_ = 0;
  std::uint64_t allocations_ = 0, deallocations_ = 0;
  unsigned char next_tag_ = 1;
  std::atomic<unsigned> wrong_{0};
};

/// Runs one input; aborts the process on a violation.
inline void run(std::uint8_t const* data, std::size_t bytes) {
  testing::reset_host_runtime(testing::host_runtime_options{}.with_memory_bytes(device_bytes));
  current().data = data;
  current().bytes = bytes;
  session(data, bytes).run();
  std::vector<std::string> const leaks = testing::leak_report();
  if (!leaks.empty()) fail("leaked: " + leaks.front());
}

}  // namespace pool_fuzz
