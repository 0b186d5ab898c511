// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Random use of pools by threads with eight streams each, against a model. Each round has its own
// pool; every thread allocates and frees on its streams and on other threads' streams, through the
// pool and through caches, trims, replaces streams, captures graphs and launches them. Invariants:
// a granule never has two owners; a block keeps what a stream wrote into it until its free; at the
// end of a round all counters are right and all memory is returned.
#pragma once

#include "memory/pool_stress_model.hpp"

#include <warpwright/core/event.hpp>
#include <warpwright/graph/capture.hpp>
#include <warpwright/graph/graph_exec.hpp>
#include <warpwright/memory/pool.hpp>
#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/host_runtime.hpp>
#endif

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <optional>
#include <random>
#include <shared_mutex>
#include <stdexcept>
#include <thread>

namespace pool_stress {

constexpr std::size_t kib = 1024;
constexpr std::size_t mib = 1024 * kib;
constexpr std::size_t streams_per_thread = 8;

/// The amount and kind of operations.
struct options {
  std::uint64_t seed = 1;
  std::uint64_t operations = 200000;  ///< at least as many, unless the time is up
  double seconds = 0.0;               ///< 0: no limit; above 0: at least as long, instead
  std::size_t threads = 8;
  std::uint64_t round_operations = 16384;  ///< of all threads, in one pool's life
  unsigned stamp_every = 8;                ///< one block in so many is stamped and checked
  bool misuse = false;  ///< frees without ordering the streams: the run must fail
  /// Called after each round; may be empty.
  std::function<void(struct totals const&)> progress;
};

/// The operation counts of all threads and rounds.
struct totals {
  std::uint64_t rounds = 0;
  std::uint64_t operations = 0;
  std::uint64_t allocations = 0;
  std::uint64_t refused = 0;
  std::uint64_t rolled_back = 0;  ///< batches that failed
  std::uint64_t stamps = 0;
  std::uint64_t foreign = 0;  ///< blocks freed by a thread that did not allocate them
  std::uint64_t shared = 0;   ///< blocks freed with a second second_slot
  std::uint64_t captures = 0;
  std::uint64_t launches = 0;
  std::uint64_t replaced = 0;  ///< streams retired and destroyed
  std::uint64_t caches = 0;
  std::uint64_t trims = 0;
  std::uint64_t hits = 0;
  std::uint64_t cache_hits = 0;
  std::uint64_t steals = 0;
  std::uint64_t remaps = 0;
  std::uint64_t mismatches = 0;
  std::vector<std::string> failures;

  void add(totals const& t) {
    operations += t.operations;
    allocations += t.allocations;
    refused += t.refused;
    rolled_back += t.rolled_back;
    stamps += t.stamps;
    foreign += t.foreign;
    shared += t.shared;
    captures += t.captures;
    launches += t.launches;
    replaced += t.replaced;
    caches += t.caches;
    trims += t.trims;
  }
};

/// The random settings of a round.
struct setting {
  ww::memory_pool_options pool;
  std::size_t limit = ww::memory_pool_options::unlimited;
  std::size_t large_bytes = 0;   // the largest block
  std::uint64_t large_part = 2;  // the number of large blocks in 256
  std::uint64_t odd_part = 64;   // the number of blocks of any size in 256
  std::size_t sizes = 8;         // the number of sizes of the other blocks
  std::size_t live_blocks = 0;   // the maximum of a thread
  bool captures = false;
  bool watches = true;           // otherwise detect_captures()
  bool own_default = false;      // threads also use their per-thread default streams
  bool shared = false;           // record_use(), which disables the fast path
  bool long_shared = false;      // record_use() long before the free
  std::uint64_t operations = 0;  // of all threads
  std::string text;
};

inline bool has_virtual_memory() {
  ww::memory_pool const pool{ww::device_id{0}};
  return pool.source() == ww::memory_source::virtual_memory;
}

inline bool exhausted(void* pool, ww::memory_report const&) {
  // The callback calls the pool, so the pool must hold no lock.
  auto const& figures = **static_cast<std::optional<ww::memory_pool>*>(pool);
  return figures.statistics().deallocations % 2 == 0;
}

inline setting make_setting(std::uint64_t round, std::mt19937_64& random, options const& how,
                            std::optional<ww::memory_pool>& pool) {
  static constexpr std::size_t limits[] = {2 * mib, 16 * mib, 256 * mib};
  static constexpr std::size_t growths[] = {ww::memory_pool_options::by_source, 256 * kib, 2 * mib};
  static constexpr std::size_t caches[] = {0, 64 * kib, 16 * mib, 16 * mib};
  static constexpr unsigned waits_us[] = {0, 100, 2000};
  static constexpr unsigned slacks[] = {0, 0, 8, 50};
  ww::memory_source const sources[] = {
      has_virtual_memory() ? ww::memory_source::virtual_memory : ww::memory_source::automatic,
      ww::memory_source::cuda_malloc, ww::memory_source::cuda_malloc_async};
  static constexpr char const* names[] = {"virtual", "cudaMalloc", "cudaMallocAsync"};
  setting s;
  s.operations = how.round_operations;
  std::size_t const source = round % 3;
  bool const wait_first = round / 3 % 2 == 1;
  s.captures = round % 2 == 1;
  // Blocks of several granules without slack: idle memory is moved.
  bool const moves = source == 0 && round % 2 == 0;
  s.limit = moves ? 64 * mib : limits[random() % 3];
  std::size_t const growth = growths[random() % 3];
  std::size_t const cache = caches[random() % 4];
  unsigned const microseconds = waits_us[random() % 3];
  bool const checked = random() % 8 == 0;
  // The default's floor is above the limits: with it nothing is moved but at the limit.
  unsigned const slack_percent = moves ? 0 : slacks[random() % 4];
  bool const callback = random() % 4 == 0;
  s.watches = random() % 4 != 0;
  s.own_default = random() % 4 == 0;
  s.shared = random() % 2 == 0;
  s.long_shared = s.shared && random() % 2 == 0;
  if (how.misuse) {
    // Memory that misused blocks' work may still access must not be unmapped meanwhile.
    s = setting{};
    s.operations = how.round_operations;
    s.limit = 256 * mib;
    s.large_bytes = mib;
    s.live_blocks = 64;
    s.pool = s.pool.source(ww::memory_source::cuda_malloc).max_bytes(s.limit);
    s.text = "misuse";
    return s;
  }
  s.large_bytes = std::min(s.limit / 8, 2 * mib);
  s.sizes = 1 + random() % (s.limit == 2 * mib ? 6 : 8);
  s.live_blocks = s.limit == 2 * mib ? 24 : 1 + random() % 128;
  std::uint64_t const kind = moves ? 2 : random() % 4;
  if (kind < 2) {  // few misses: most calls are served by the caches
    s.large_part = kind;
    s.odd_part = kind;
  } else if (kind == 2) {  // few blocks that fill the pool
    s.large_bytes = s.limit / 8;
    s.large_part = 32;
    s.live_blocks = 12;
    s.operations = how.round_operations / 8;  // each miss examines every stream
  }
  s.pool =
      s.pool.source(sources[source])
          .order(wait_first ? ww::reuse_order::wait_before_grow : ww::reuse_order::grow_before_wait)
          .max_bytes(s.limit)
          .growth_bytes(growth)
          .cache_bytes(cache)
          .max_wait_seconds(1e-6 * microseconds)
          .slack(0.01 * slack_percent, slack_percent == 8 ? 16 * mib : 0)
          .checked(checked)
          .detect_captures(s.captures && !s.watches);
  if (callback) s.pool = s.pool.on_exhausted(&exhausted, &pool);
  s.text = std::string{names[source]} + (wait_first ? ", wait first" : ", grow first") +
           ", limit " + std::to_string(s.limit / kib) + " KiB, growth " +
           (growth == growths[0] ? "by source" : std::to_string(growth / kib) + " KiB") +
           ", caches " + std::to_string(cache / kib) + " KiB, wait " +
           std::to_string(microseconds) + " us, slack " + std::to_string(slack_percent) + " %" +
           (s.odd_part < 2     ? ", calm"
            : s.large_part > 2 ? ", large"
                               : "") +
           (checked ? ", checked" : "") + (callback ? ", callback" : "") +
           (s.captures ? ", captures" : "") + (s.watches ? "" : " noticed") +
           (s.own_default ? ", default streams" : "") + (s.shared ? ", shared" : "") +
           (s.long_shared ? " long" : "");
  return s;
}

/// A slot for successive streams: a new stream waits for the work of its predecessor, unless no
/// block is left whose work it would have to wait for.
struct stream_slot {
  std::optional<ww::stream> owned;  // none: the per-thread default stream
  finding* wrong = nullptr;
  std::unique_ptr<ww::memory_cache> cache;  // of the slot's thread
  std::shared_mutex replacing;              // shared lock: use by other threads

  cudaStream_t handle() const { return owned ? owned->get() : cudaStreamPerThread; }
  ww::stream_ref ref() const { return owned ? owned->ref() : ww::stream_ref::per_thread(); }
};

struct block {
  void* pointer = nullptr;
  std::size_t bytes = 0;
  std::uint32_t tag = 0;
  stream_slot* slot = nullptr;         // the stream of all work with the block
  stream_slot* second_slot = nullptr;  // of record_use(): its work uses the block, too
  bool stamped = false;
};

/// A block that is passed to another thread.
struct parcel {
  block what;
  std::unique_ptr<ww::event> ready;
};

class mailbox {
 public:
  bool offer(parcel& p) {
    std::lock_guard<std::mutex> const lock{mutex_};
    if (parcels_.size() >= 16) return false;
    parcels_.push_back(std::move(p));
    return true;
  }
  std::optional<parcel> add_live() {
    std::lock_guard<std::mutex> const lock{mutex_};
    if (parcels_.empty()) return std::nullopt;
    std::optional<parcel> first{std::move(parcels_.back())};
    parcels_.pop_back();
    return first;
  }

 private:
  std::mutex mutex_;
  std::vector<parcel> parcels_;
};

/// A graph that uses memory of the pool.
struct replay {
  std::uint32_t tag = 0;
  ww::graph_exec exec;
  ww::event last;                                     // recorded behind all launches
  std::vector<std::pair<void*, std::size_t>> memory;  // all memory ever allocated for it
  std::vector<block> results;                         // allocated in the capture, not freed in it
  bool has_outer = false;  // frees a block from before the capture, whose work must complete first
  bool launched = false;
};

/// The shared state of a round.
struct shared_state {
  options const& how;
  setting const& round;
  ww::memory_pool& pool;
  failures& found;
  shadow& owners;
  std::vector<std::unique_ptr<stream_slot>>& slots;
  std::vector<std::unique_ptr<mailbox>>& mailboxes;
};

/// One thread's part of a round.
class worker {
 public:
  worker(shared_state const& all, std::size_t number, std::uint64_t seed, finding* wrong)
      : all_{all}, pool_{all.pool}, number_{number}, random_{seed}, wrong_{wrong} {
    for (std::size_t i = 0; i < streams_per_thread; ++i) {
      slots_.push_back(all.slots[number * streams_per_thread + i].get());
    }
    if (all.round.own_default) {
      default_.wrong = wrong;
      slots_.push_back(&default_);
    }
  }
  worker(worker const&) = delete;
  worker& operator=(worker const&) = delete;

  void run(std::uint64_t operations) {
    while (done_.operations < operations && !all_.found.any()) {
      if (one_in(256)) target_ = below(all_.round.live_blocks);
      step(done_.operations < operations / 2);
    }
    while (!graphs_.empty()) drop_graph(graphs_.size() - 1);
    while (!live_.empty()) free_one(live_.size() - 1);
    empty_mailbox();
    for (stream_slot* l : slots_) l->cache.reset();
    if (all_.round.own_default) pool_.retire(default_.ref());
    pool_.retire(capturing_);  // captures have freed blocks on it
  }
  /// Call it after all threads have ended: frees the blocks still in mailboxes.
  void empty_mailbox() {
    while (std::optional<parcel> p = all_.mailboxes[number_]->add_live()) receive(*p);
    while (!live_.empty()) free_one(live_.size() - 1);
  }
  totals const& done() const { return done_; }

 private:
  struct abandoned : std::exception {};

  // ---- random choices

  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }
  bool one_in(std::uint64_t n) { return below(n) == 0; }
  // Mostly the same stream for a while, so that caches have blocks.
  stream_slot& any_slot() {
    if (one_in(32)) preferred_ = below(slots_.size());
    return *slots_[one_in(4) ? below(slots_.size()) : preferred_];
  }
  std::size_t any_size() {
    static constexpr std::size_t usual[] = {1, 256, 512, 1000, 1024, 4096, 5000, 16384, 65536, 300};
    std::uint64_t const kind = below(256);
    if (kind < all_.round.large_part) return 1 + below(all_.round.large_bytes);
    if (kind < all_.round.odd_part) return 1 + below(std::size_t{1} << below(15));
    return usual[below(all_.round.sizes)];
  }
  // Sometimes without its id, as a handle from another library.
  ww::stream_ref ref(stream_slot const& l) {
    return one_in(16) ? ww::stream_ref{l.handle()} : l.ref();
  }
  std::uint32_t next_tag() {
    return static_cast<std::uint32_t>(number_ + 1) << 26U | (++serial_ & 0x3ffffffU);
  }

  // ---- one step

  void step(bool may_capture) {
    std::uint64_t const what = below(8192);
    if (what >= 384) {
      if (live_.size() < target_) return allocate();
      if (!live_.empty()) return free_one(one_in(4) ? below(live_.size()) : live_.size() - 1);
      return;
    }
    if (what == 0) return trim();
    if (what < 4) return replace(any_slot());
    if (what < 16) return make_or_drop_cache();
    if (what < 18) return look_at_figures();
    if (what < 24) return may_capture && all_.round.captures ? capture() : void();
    if (what < 64) return graphs_.empty() ? void() : use_graph(below(graphs_.size()));
    if (what < 128) return all_.round.shared ? share() : void();
    if (what < 192) return send();
    if (what < 256) {
      std::optional<parcel> p = all_.mailboxes[number_]->add_live();
      return p ? receive(*p) : void();
    }
    if (what < 320) return allocate_several();
    return free_several();
  }

  void trim() {
    if (all_.how.misuse) return;
    ++done_.operations;
    ++done_.trims;
    pool_.trim(one_in(2) ? 0 : below(4 * mib));
  }

  void look_at_figures() {
    ++done_.operations;
    ww::pool_statistics const s = pool_.statistics();
    auto const require = [&](bool right, char const* what) {
      if (!right) all_.found.add(std::string{"statistics(): "} + what + text_of(s));
    };
    require(s.hits <= s.allocations, "more hits than allocations");
    require(s.cache_hits <= s.hits, "more hits in caches than hits");
    require(s.deallocations <= s.allocations, "more frees than allocations");
    require(s.reserved_bytes <= all_.round.limit, "more reserved than allowed");
    require(s.reserved_bytes <= s.reserved_peak_bytes, "more reserved than ever");
    require(s.live_bytes + s.cached_bytes + s.graph_bytes <= s.reserved_bytes,
            "more in use than there is");
  }
  static std::string text_of(ww::pool_statistics const& s) {
    return ": live " + std::to_string(s.live_bytes) + " bytes, " + std::to_string(s.live_blocks) +
           " blocks, cached " + std::to_string(s.cached_bytes) + ", graphs' " +
           std::to_string(s.graph_bytes) + ", reserved " + std::to_string(s.reserved_bytes) +
           ", peak " + std::to_string(s.reserved_peak_bytes) + ", allocations " +
           std::to_string(s.allocations) + ", frees " + std::to_string(s.deallocations);
  }

  // ---- blocks

  void add_live(void* pointer, std::size_t bytes, stream_slot& on) {
    ++done_.operations;
    ++done_.allocations;
    block b;
    b.pointer = pointer;
    b.bytes = bytes;
    b.tag = next_tag();
    b.slot = &on;
    all_.owners.claim(pointer, bytes, b.tag);
    if (one_in(all_.how.stamp_every)) {
      if (one_in(8)) ww::for_each_index(on.ref(), 1, keep_busy{pause_us()});
      stamp(on.ref(), pointer, bytes, b.tag);
      b.stamped = true;
      ++done_.stamps;
    }
    live_.push_back(b);
  }
  unsigned pause_us() { return 10 + static_cast<unsigned>(below(200)); }

  void allocate() {
    stream_slot& on = any_slot();
    std::size_t const bytes = any_size();
    std::size_t const alignment = one_in(16) ? std::size_t{1} << below(17) : std::size_t{256};
    void* p = nullptr;
    try {
      if (on.cache != nullptr && one_in(2)) {
        p = one_in(8) ? on.cache->allocate(bytes)
                      : on.cache->try_allocate(ref(on), bytes, alignment);
      } else {
        p = one_in(8) ? pool_.allocate(ref(on), bytes, alignment)
                      : pool_.try_allocate(ref(on), bytes, alignment);
      }
    } catch (ww::out_of_memory const&) {
    }
    if (p == nullptr) return make_room();
    add_live(p, bytes, on);
  }
  void make_room() {
    ++done_.operations;
    ++done_.refused;
    target_ = below(1 + target_ / 2);
    std::size_t const keep = live_.size() / 2;
    while (live_.size() > keep) free_one(below(live_.size()));
  }

  void allocate_several() {
    stream_slot& on = any_slot();
    std::size_t bytes[12];
    void* pointers[12] = {};
    std::size_t const count = 1 + below(12);
    std::generate_n(bytes, count, [&] { return one_in(32) ? 0 : any_size(); });
    try {
      pool_.allocate_batch(ref(on), bytes, pointers, count);
    } catch (ww::out_of_memory const&) {
      done_.rolled_back += count;
      return make_room();
    }
    for (std::size_t i = 0; i < count; ++i) {
      if ((pointers[i] == nullptr) != (bytes[i] == 0)) all_.found.add("a batch with a hole");
      if (pointers[i] != nullptr) add_live(pointers[i], bytes[i], on);
    }
  }

  void free_several() {
    stream_slot& on = any_slot();
    void* pointers[12];
    std::size_t bytes[12];
    std::size_t count = 0;
    while (count < 12 && !live_.empty()) {
      block const b = pick(live_.size() - 1);
      order(on, *b.slot);
      verify(on, b);
      all_.owners.release(b.pointer, b.bytes, b.tag);
      pointers[count] = b.pointer;
      bytes[count++] = b.bytes;
    }
    done_.operations += count;
    pool_.deallocate_batch(ref(on), pointers, bytes, count);
  }

  block pick(std::size_t i) {
    block const b = live_[i];
    live_[i] = live_.back();
    live_.pop_back();
    return b;
  }
  void free_one(std::size_t i) {
    block const b = pick(i);
    stream_slot& on = one_in(16) ? any_slot() : *b.slot;
    order(on, *b.slot);
    verify(on, b);
    free_block(on, b);
  }
  // Makes a stream of this thread wait for another one of this thread.
  void order(stream_slot& later, stream_slot& earlier) {
    if (&later == &earlier || all_.how.misuse) return;
    passed_.record(earlier.handle());
    later.ref().wait(passed_);
  }
  void verify(stream_slot& on, block const& b) {
    if (b.stamped) check(on.ref(), b.pointer, b.bytes, b.tag, on.wrong);
  }
  void free_block(stream_slot& on, block const& b) {
    ++done_.operations;
    all_.owners.release(b.pointer, b.bytes, b.tag);
    // Only the slot's thread may read its cache.
    if (is_own(on) && on.cache != nullptr && one_in(2)) {
      if (one_in(2)) return on.cache->deallocate(b.pointer, b.bytes);
      return on.cache->deallocate(ref(on), b.pointer, b.bytes);
    }
    pool_.deallocate(ref(on), b.pointer, b.bytes);
  }
  bool is_own(stream_slot const& l) const {
    return std::find(slots_.begin(), slots_.end(), &l) != slots_.end();
  }

  /// Work on a second stream, for which the first does not wait.
  void share() {
    if (live_.empty()) return;
    std::size_t const i = below(live_.size());
    block& b = live_[i];
    stream_slot& second = *slots_[below(streams_per_thread)];
    if (&second == b.slot || b.second_slot != nullptr) return;
    ++done_.operations;
    ++done_.shared;
    order(second, *b.slot);
    if (one_in(2)) ww::for_each_index(second.ref(), 1, keep_busy{pause_us()});
    verify(second, b);
    pool_.record_use(ref(second), b.pointer);
    b.second_slot = &second;
    if (!all_.round.long_shared || one_in(2)) free_one(i);
  }

  // ---- other threads

  void send() {
    if (live_.empty() || all_.mailboxes.size() == 1) return;
    std::size_t const i = below(live_.size());
    if (live_[i].second_slot != nullptr || live_[i].slot == &default_) return;
    parcel p;
    p.what = live_[i];
    p.ready = std::make_unique<ww::event>();
    p.ready->record(p.what.slot->handle());
    mailbox& to =
        *all_.mailboxes[(number_ + 1 + below(all_.mailboxes.size() - 1)) % all_.mailboxes.size()];
    if (to.offer(p)) pick(i);
  }

  void receive(parcel& p) {
    ++done_.foreign;
    block b = p.what;
    if (one_in(2)) {  // on the stream of the sending thread
      std::shared_lock<std::shared_mutex> const lock{b.slot->replacing};
      b.slot->ref().wait(*p.ready);
      verify(*b.slot, b);
      return free_block(*b.slot, b);
    }
    stream_slot& on = any_slot();
    on.ref().wait(*p.ready);
    b.slot = &on;
    live_.push_back(b);
  }

  // ---- streams and caches

  void make_or_drop_cache() {
    stream_slot& l = *slots_[below(streams_per_thread)];
    ++done_.operations;
    if (l.cache == nullptr) {
      ++done_.caches;
      std::size_t const budgets[] = {0, 16 * kib, 1 * mib, 256 * mib};
      l.cache.reset(new ww::memory_cache(pool_.make_cache(ref(l), budgets[below(4)])));
    } else if (one_in(2)) {
      l.cache->clear();
    } else {
      l.cache.reset();
    }
  }

  /// Retires a stream, destroys it while its work is running, and replaces it by a new one.
  void replace(stream_slot& l) {
    if (!l.owned || all_.how.misuse) return;
    ++done_.operations;
    ++done_.replaced;
    if (one_in(4)) {
      pool_.retire(capturing_);
      capturing_ = ww::stream{};
      return;
    }
    std::unique_lock<std::shared_mutex> const lock{l.replacing};
    bool const empty = one_in(2);
    for (std::size_t i = live_.size(); i-- > 0;) {
      if (live_[i].second_slot == &l || (empty && live_[i].slot == &l)) {
        block const b = pick(i);
        verify(*b.slot, b);
        free_block(*b.slot, b);
      }
    }
    l.cache.reset();
    ww::stream successor;
    if (!empty) {
      passed_.record(l.handle());
      successor.wait(passed_);
    }
    pool_.retire(ref(l));
    l.owned.reset();
    l.owned.emplace(std::move(successor));
  }

  // ---- graphs

  void capture() {
    if (graphs_.size() >= 3) return drop_graph(0);
    ++done_.captures;
    bool const abandon = one_in(6);
    auto g = std::make_unique<replay>();
    g->tag = next_tag();
    g->last.record(capturing_.get());
    // A block from before the capture that is freed in it: every launch is ordered behind the work
    // with it, and there is a launch before the graph is destroyed.
    std::optional<block> outer;
    if (!abandon && !live_.empty() && one_in(2) && live_.back().second_slot == nullptr) {
      outer = pick(live_.size() - 1);
      g->last.record(outer->slot->handle());
      g->has_outer = true;
      all_.owners.pass(outer->pointer, outer->bytes, outer->tag, g->tag);
      g->memory.emplace_back(outer->pointer, outer->bytes);
    }
    std::optional<ww::capture_watch> watch;
    if (all_.round.watches) watch.emplace(pool_);
    try {
      ww::graph const graph = ww::capture(capturing_, [&](ww::stream_ref c) {
        if (outer) {
          verify_in(c, *outer);
          pool_.deallocate(c, outer->pointer, outer->bytes);
          ++done_.operations;
        }
        fill_graph(*g, c);
        if (abandon) {
          let_go(*g);
          throw abandoned{};
        }
      });
      g->exec = ww::graph_exec{graph};
    } catch (abandoned const&) {
      return;
    }
    graphs_.push_back(std::move(g));
  }
  void verify_in(ww::stream_ref c, block const& b) {
    if (b.stamped) check(c, b.pointer, b.bytes, b.tag, wrong_);
  }

  void fill_graph(replay& g, ww::stream_ref c) {
    std::vector<block> inside;
    auto const free_inside = [&](std::size_t i) {
      block const b = inside[i];
      inside[i] = inside.back();
      inside.pop_back();
      verify_in(c, b);
      pool_.deallocate(c, b.pointer, b.bytes);
      ++done_.operations;
    };
    std::size_t const steps = 2 + below(16);
    for (std::size_t i = 0; i < steps; ++i) {
      if (!inside.empty() && one_in(3)) {
        free_inside(below(inside.size()));
        continue;
      }
      block b;
      b.bytes = any_size();
      b.pointer = pool_.try_allocate(c, b.bytes);
      if (b.pointer == nullptr) {
        ++done_.refused;
        ++done_.operations;
        continue;
      }
      ++done_.operations;
      ++done_.allocations;
      auto const start = [](block const& x) { return static_cast<unsigned char*>(x.pointer); };
      for (block const& other : inside) {
        if (start(b) < start(other) + other.bytes && start(other) < start(b) + b.bytes) {
          all_.found.add("two blocks of one capture overlap at " +
                         hex(reinterpret_cast<std::uintptr_t>(b.pointer)));
        }
      }
      all_.owners.claim(b.pointer, b.bytes, g.tag, g.tag);
      g.memory.emplace_back(b.pointer, b.bytes);
      b.tag = next_tag();
      b.stamped = true;
      stamp(c, b.pointer, b.bytes, b.tag);
      ++done_.stamps;
      inside.push_back(b);
    }
    while (!inside.empty() && (inside.size() > 2 || one_in(2))) free_inside(0);
    g.results = inside;
  }

  /// Launches a graph again, frees a result, or destroys the graph.
  void use_graph(std::size_t i) {
    replay& g = *graphs_[i];
    std::uint64_t const what = below(8);
    if (what == 0) return drop_graph(i);
    if (what == 1 && !g.results.empty()) {
      // Later launches still write to it.
      block b = g.results.back();
      g.results.pop_back();
      stream_slot& on = any_slot();
      on.ref().wait(g.last);
      b.stamped = g.launched;
      verify(on, b);
      g.last.record(on.handle());
      ++done_.operations;
      return pool_.deallocate(ref(on), b.pointer, b.bytes);
    }
    launch(g);
  }
  void launch(replay& g) {
    stream_slot& on = any_slot();
    ++done_.launches;
    on.ref().wait(g.last);
    g.exec.launch(on.ref());
    g.last.record(on.handle());
    g.launched = true;
  }
  void drop_graph(std::size_t i) {
    std::unique_ptr<replay> const g = std::move(graphs_[i]);
    graphs_[i] = std::move(graphs_.back());
    graphs_.pop_back();
    if (g->has_outer && !g->launched) launch(*g);
    let_go(*g);
  }
  /// Destroys a graph: its results become ordinary blocks, its other memory is free.
  void let_go(replay& g) {
    for (block& b : g.results) {
      stream_slot& on = any_slot();
      if (g.launched) on.ref().wait(g.last);
      b.slot = &on;
      b.stamped = g.launched;
      all_.owners.pass(b.pointer, b.bytes, g.tag, b.tag);
      live_.push_back(b);
    }
    g.results.clear();
    for (auto const& m : g.memory) all_.owners.clear(m.first, m.second, g.tag);
  }

  shared_state const& all_;
  ww::memory_pool& pool_;
  std::size_t number_;
  std::mt19937_64 random_;
  finding* wrong_;  // for the thread's graphs and default stream
  stream_slot default_;
  std::vector<stream_slot*> slots_;
  std::size_t preferred_ = 0;
  std::vector<block> live_;
  std::uint64_t target_ = 16;
  std::uint32_t serial_ = 0;
  ww::event passed_;
  ww::stream capturing_;
  std::vector<std::unique_ptr<replay>> graphs_;
  totals done_;
};

/// Calls the pool until it has reclaimed all graphs: CUDA reports their destruction with a delay.
inline bool graphs_are_gone(ww::memory_pool& pool) {
  for (int i = 0; i < 1000; ++i) {
    pool.trim(~std::size_t{0});
    if (pool.statistics().graph_bytes == 0) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds{i < 10 ? 1 : 10});
  }
  return false;
}

#if WARPWRIGHT_HOST_RUNTIME
inline std::string what_exists() {
  ww::testing::host_runtime_stats const s = ww::testing::stats();
  return std::to_string(s.device_memory_bytes) + " bytes, " + std::to_string(s.device_allocations) +
         " allocations, " + std::to_string(s.streams) + " streams, " + std::to_string(s.events) +
         " events, " + std::to_string(s.graphs) + " graphs, " + std::to_string(s.graph_execs) +
         " executables, " + std::to_string(s.user_objects) + " second_slot objects";
}
#endif

/// One round.
inline void run_round(options const& how, std::uint64_t round, totals& all, failures& found) {
  std::seed_seq sequence{how.seed, how.seed >> 32U, round};
  std::mt19937_64 random{sequence};
  std::optional<ww::memory_pool> pool;
  setting const s = make_setting(round, random, how, pool);
  finding_board board{how.threads * (streams_per_thread + 1)};
  shadow owners{found};
  std::vector<std::unique_ptr<stream_slot>> slots;
  for (std::size_t i = 0; i < how.threads * streams_per_thread; ++i) {
    slots.push_back(std::make_unique<stream_slot>());
    slots.back()->owned.emplace();
    slots.back()->wrong = board.at(i);
  }
  std::vector<std::unique_ptr<mailbox>> mailboxes;
  for (std::size_t t = 0; t < how.threads; ++t) mailboxes.push_back(std::make_unique<mailbox>());
  pool.emplace(ww::device_id{0}, s.pool);
  shared_state const state{how, s, *pool, found, owners, slots, mailboxes};
  totals sum;
  {
    std::vector<std::unique_ptr<worker>> workers;
    for (std::size_t t = 0; t < how.threads; ++t) {
      workers.push_back(std::make_unique<worker>(state, t, random(),
                                                 board.at(how.threads * streams_per_thread + t)));
    }
    std::vector<std::thread> threads;
    std::atomic<std::size_t> running{workers.size()};
    for (auto& w : workers) {
      threads.emplace_back([&] {
        try {
          w->run(s.operations / how.threads);
        } catch (std::exception const& e) {
          found.add(std::string{"exception: "} + e.what());
        }
        // Under compute-sanitizer (2025.3, driver 580) a thread that ends while another calls CUDA
        // waits for that one, which waits for it.
        --running;
        while (running != 0) std::this_thread::sleep_for(std::chrono::milliseconds{1});
      });
    }
    for (std::thread& t : threads) t.join();
    if (!found.any()) {
      for (auto& w : workers) w->empty_mailbox();
    }
    for (auto& w : workers) sum.add(w->done());
    ww::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
  for (finding const& f : board.fetch()) {
    all.mismatches += f.count;
    if (f.count == 0) continue;
    found.add(std::to_string(f.count) + " words changed before the free: " + hex(f.found) +
              " instead of " + hex(f.expected) + " at " + hex(f.address));
  }
  ++all.rounds;
  all.add(sum);
  auto const require = [&](bool right, char const* what) {
    if (!right) found.add(std::string{"at the round's end: "} + what);
  };
  if (!found.any()) {
    require(graphs_are_gone(*pool), "graphs keep memory");
    ww::pool_statistics const last = pool->statistics();
    require(last.live_bytes == 0, "live_bytes is not 0");
    require(last.live_blocks == 0, "live_blocks is not 0");
    require(last.allocations == last.deallocations, "allocations and deallocations differ");
    require(last.allocations >= sum.allocations &&
                last.allocations <= sum.allocations + sum.rolled_back,
            "allocations were counted wrongly");
    require(last.reserved_peak_bytes <= s.limit, "reserved more than allowed");
    all.hits += last.hits;
    all.cache_hits += last.cache_hits;
    all.steals += last.cross_stream_steals;
    all.remaps += last.remaps;
    for (auto& l : slots) pool->retire(l->ref());
    bool const all_came_back = pool->trim() == last.reserved_bytes;
    ww::pool_statistics const left = pool->statistics();
    std::string const text = "trim() leaves " + std::to_string(left.reserved_bytes) + " bytes, " +
                             std::to_string(left.cached_bytes) + " cached, " +
                             std::to_string(left.graph_bytes) + " for graphs, largest free block " +
                             std::to_string(left.largest_free_block_bytes);
    require(all_came_back, text.c_str());
    require(pool->statistics().reserved_bytes == 0, "reserved_bytes is not 0");
    require(pool->statistics().cached_bytes == 0, "cached_bytes is not 0");
  }
  if (found.any()) {
    found.add("round " + std::to_string(round) + ": " + s.text);
  }
}

inline totals run(options const& how) {
  totals all;
  failures found;
  auto const begin = std::chrono::steady_clock::now();
  for (std::uint64_t round = 0;; ++round) {
    double const spent =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (found.any()) break;
    if (how.seconds > 0.0 ? spent >= how.seconds : all.operations >= how.operations) break;
#if WARPWRIGHT_HOST_RUNTIME
    std::string const before = what_exists();
#endif
    try {
      run_round(how, round, all, found);
    } catch (std::exception const& e) {
      found.add("round " + std::to_string(round) + ": exception: " + e.what());
    }
#if WARPWRIGHT_HOST_RUNTIME
    // User objects are destroyed some time after their graphs.
    for (int i = 0; i < 500 && what_exists() != before; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds{10});
    }
    if (what_exists() != before) {
      found.add("round " + std::to_string(round) + " left something: before " + before +
                "; after " + what_exists());
    }
#endif
    if (how.progress) how.progress(all);
  }
  all.failures = found.texts();
  return all;
}

}  // namespace pool_stress
