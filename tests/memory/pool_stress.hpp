// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Random use of pools by threads with eight streams each, against a model. Rounds with a pool each;
// in a round every thread allocates and frees on its streams and on other threads' streams, through
// the pool and through caches, trims, replaces streams, captures graphs and launches them. At any
// time no granule has two holders; what a stream wrote into a block is there when the block is
// freed; at a round's end every figure is right and everything comes back.
#pragma once

#include "memory/pool_stress_model.hpp"

#include <warpwright/core/event.hpp>
#include <warpwright/graph/capture.hpp>
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

/// How much to do, and how.
struct options {
  std::uint64_t seed = 1;
  std::uint64_t operations = 200000;  ///< at least as many, unless the time is up
  double seconds = 0.0;               ///< 0: no limit; above 0: at least as long, instead
  std::size_t threads = 8;
  std::uint64_t round_operations = 16384;  ///< of all threads, in one pool's life
  unsigned stamp_every = 8;                ///< one block in so many is stamped and checked
  bool misuse = false;  ///< frees without ordering the streams: the run must fail
  /// Called after each round, if it is there.
  std::function<void(struct totals const&)> progress;
};

/// What was done, by all threads in all rounds.
struct totals {
  std::uint64_t rounds = 0;
  std::uint64_t operations = 0;
  std::uint64_t allocations = 0;
  std::uint64_t refused = 0;
  std::uint64_t rolled_back = 0;  ///< batches that failed
  std::uint64_t stamps = 0;
  std::uint64_t foreign = 0;  ///< blocks freed by a thread that did not allocate them
  std::uint64_t shared = 0;   ///< blocks freed with a second user
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

/// What differs from round to round.
struct setting {
  ww::memory_pool_options pool;
  std::size_t limit = ww::memory_pool_options::unlimited;
  std::size_t large_bytes = 0;   // the largest block
  std::uint64_t large_part = 2;  // of 256 blocks
  std::uint64_t odd_part = 64;   // below this, of any size
  std::size_t sizes = 8;         // that the others have
  std::size_t live_blocks = 0;   // a thread's, at most
  bool captures = false;
  bool watches = true;           // else the pool looks by itself
  bool own_default = false;      // threads use their default streams as well
  bool shared = false;           // record_use(), which keeps every call away from the caches
  bool long_shared = false;      // and that long before the free
  std::uint64_t operations = 0;  // of all threads
  std::string text;
};

inline bool has_virtual_memory() {
  ww::memory_pool const pool{ww::device_id{0}};
  return pool.source() == ww::memory_source::virtual_memory;
}

inline bool exhausted(void* pool, ww::memory_report const&) {
  // Whatever it does must not meet a lock of the pool.
  auto const& figures = **static_cast<std::optional<ww::memory_pool>*>(pool);
  return figures.statistics().deallocations % 2 == 0;
}

inline setting make_setting(std::uint64_t round, std::mt19937_64& random, options const& how,
                            std::optional<ww::memory_pool>& pool) {
  static constexpr std::size_t limits[] = {2 * mib, 16 * mib, 256 * mib};
  static constexpr std::size_t growths[] = {ww::memory_pool_options::by_source, 256 * kib, 2 * mib};
  static constexpr std::size_t caches[] = {0, 64 * kib, 16 * mib, 16 * mib};
  static constexpr unsigned patience[] = {0, 100, 2000};
  ww::memory_source const sources[] = {
      has_virtual_memory() ? ww::memory_source::virtual_memory : ww::memory_source::automatic,
      ww::memory_source::cuda_malloc, ww::memory_source::cuda_malloc_async};
  static constexpr char const* names[] = {"virtual", "cudaMalloc", "cudaMallocAsync"};
  setting s;
  s.operations = how.round_operations;
  std::size_t const source = round % 3;
  bool const wait_first = round / 3 % 2 == 1;
  s.captures = round % 2 == 1;
  s.limit = limits[random() % 3];
  std::size_t const growth = growths[random() % 3];
  std::size_t const cache = caches[random() % 4];
  unsigned const microseconds = patience[random() % 3];
  bool const checked = random() % 8 == 0;
  bool const callback = random() % 4 == 0;
  s.watches = random() % 4 != 0;
  s.own_default = random() % 4 == 0;
  s.shared = random() % 2 == 0;
  s.long_shared = s.shared && random() % 2 == 0;
  if (how.misuse) {
    // Memory that work of nobody's may still touch must not be unmapped meanwhile.
    s = setting{};
    s.operations = how.round_operations;
    s.limit = 256 * mib;
    s.large_bytes = mib;
    s.live_blocks = 64;
    s.pool.source(ww::memory_source::cuda_malloc).maximum_bytes(s.limit);
    s.text = "misuse";
    return s;
  }
  s.large_bytes = std::min(s.limit / 8, 2 * mib);
  s.sizes = 1 + random() % (s.limit == 2 * mib ? 6 : 8);
  s.live_blocks = s.limit == 2 * mib ? 24 : 1 + random() % 128;
  std::uint64_t const kind = random() % 4;
  if (kind < 2) {  // few misses: the caches serve
    s.large_part = kind;
    s.odd_part = kind;
  } else if (kind == 2) {  // few blocks that fill the pool
    s.large_bytes = s.limit / 8;
    s.large_part = 32;
    s.live_blocks = 12;
    s.operations = how.round_operations / 8;  // each miss looks at every stream
  }
  s.pool.source(sources[source])
      .order(wait_first ? ww::reuse_order::wait_before_grow : ww::reuse_order::grow_before_wait)
      .maximum_bytes(s.limit)
      .growth_bytes(growth)
      .cache_bytes(cache)
      .patience_us(microseconds)
      .checked(checked)
      .notice_captures(s.captures && !s.watches);
  if (callback) s.pool.on_exhausted(&exhausted, &pool);
  s.text = std::string{names[source]} + (wait_first ? ", wait first" : ", grow first") +
           ", limit " + std::to_string(s.limit / kib) + " KiB, growth " +
           (growth == growths[0] ? "by source" : std::to_string(growth / kib) + " KiB") +
           ", caches " + std::to_string(cache / kib) + " KiB, patience " +
           std::to_string(microseconds) + " us" +
           (s.odd_part < 2     ? ", calm"
            : s.large_part > 2 ? ", large"
                               : "") +
           (checked ? ", checked" : "") + (callback ? ", callback" : "") +
           (s.captures ? ", captures" : "") + (s.watches ? "" : " noticed") +
           (s.own_default ? ", default streams" : "") + (s.shared ? ", shared" : "") +
           (s.long_shared ? " long" : "");
  return s;
}

/// A stream, one after the other: each successor waits for what its predecessor was given, or there
/// is no block left whose work it might have to wait for.
struct lane {
  std::optional<ww::stream> owned;  // none: the thread's own default stream
  finding* wrong = nullptr;
  std::unique_ptr<ww::memory_cache> cache;  // of the thread that the lane belongs to
  std::shared_mutex replacing;              // shared: other threads' use

  cudaStream_t handle() const { return owned ? owned->get() : cudaStreamPerThread; }
  ww::stream_ref ref() const { return owned ? owned->ref() : ww::stream_ref::per_thread(); }
};

struct block {
  void* pointer = nullptr;
  std::size_t bytes = 0;
  std::uint32_t tag = 0;
  lane* home = nullptr;  // what was done with it, was done there
  lane* user = nullptr;  // of record_use(): work there uses it too
  bool stamped = false;
};

/// A block on its way to another thread.
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
  std::optional<parcel> take() {
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

/// A graph with memory of the pool.
struct replay {
  std::uint32_t tag = 0;
  ww::graph_exec exec;
  ww::event last;                                     // behind all launches
  std::vector<std::pair<void*, std::size_t>> memory;  // everything it was ever given
  std::vector<block> results;                         // allocated in the capture, not freed in it
  bool has_outer = false;  // a block from before the capture: its work must be waited for
  bool launched = false;
};

/// What the threads of a round share.
struct shared_state {
  options const& how;
  setting const& round;
  ww::memory_pool& pool;
  failures& found;
  shadow& holders;
  std::vector<std::unique_ptr<lane>>& lanes;
  std::vector<std::unique_ptr<mailbox>>& mailboxes;
};

/// One thread's share of a round.
class worker {
 public:
  worker(shared_state const& all, std::size_t number, std::uint64_t seed, finding* wrong)
      : all_{all}, pool_{all.pool}, number_{number}, random_{seed}, wrong_{wrong} {
    for (std::size_t i = 0; i < streams_per_thread; ++i) {
      lanes_.push_back(all.lanes[number * streams_per_thread + i].get());
    }
    if (all.round.own_default) {
      default_.wrong = wrong;
      lanes_.push_back(&default_);
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
    for (lane* l : lanes_) l->cache.reset();
    if (all_.round.own_default) pool_.retire(default_.ref());
    pool_.retire(capturing_);  // captures freed blocks on it
  }
  /// After all threads have ended, for what they sent at last.
  void empty_mailbox() {
    while (std::optional<parcel> p = all_.mailboxes[number_]->take()) receive(*p);
    while (!live_.empty()) free_one(live_.size() - 1);
  }
  totals const& done() const { return done_; }

 private:
  struct abandoned : std::exception {};

  // ---- chance

  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }
  bool one_in(std::uint64_t n) { return below(n) == 0; }
  // Mostly the same for a while, so that caches have something to offer.
  lane& any_lane() {
    if (one_in(32)) favourite_ = below(lanes_.size());
    return *lanes_[one_in(4) ? below(lanes_.size()) : favourite_];
  }
  std::size_t any_size() {
    static constexpr std::size_t usual[] = {1, 256, 512, 1000, 1024, 4096, 5000, 16384, 65536, 300};
    std::uint64_t const kind = below(256);
    if (kind < all_.round.large_part) return 1 + below(all_.round.large_bytes);
    if (kind < all_.round.odd_part) return 1 + below(std::size_t{1} << below(15));
    return usual[below(all_.round.sizes)];
  }
  // Now and then without its id, as from another library.
  ww::stream_ref ref(lane const& l) { return one_in(16) ? ww::stream_ref{l.handle()} : l.ref(); }
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
    if (what < 4) return replace(any_lane());
    if (what < 16) return make_or_drop_cache();
    if (what < 18) return look_at_figures();
    if (what < 24) return may_capture && all_.round.captures ? capture() : void();
    if (what < 64) return graphs_.empty() ? void() : use_graph(below(graphs_.size()));
    if (what < 128) return all_.round.shared ? share() : void();
    if (what < 192) return send();
    if (what < 256) {
      std::optional<parcel> p = all_.mailboxes[number_]->take();
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

  void take(void* pointer, std::size_t bytes, lane& on) {
    ++done_.operations;
    ++done_.allocations;
    block b;
    b.pointer = pointer;
    b.bytes = bytes;
    b.tag = next_tag();
    b.home = &on;
    all_.holders.claim(pointer, bytes, b.tag);
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
    lane& on = any_lane();
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
    take(p, bytes, on);
  }
  void make_room() {
    ++done_.operations;
    ++done_.refused;
    target_ = below(1 + target_ / 2);
    std::size_t const keep = live_.size() / 2;
    while (live_.size() > keep) free_one(below(live_.size()));
  }

  void allocate_several() {
    lane& on = any_lane();
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
      if (pointers[i] != nullptr) take(pointers[i], bytes[i], on);
    }
  }

  void free_several() {
    lane& on = any_lane();
    void* pointers[12];
    std::size_t bytes[12];
    std::size_t count = 0;
    while (count < 12 && !live_.empty()) {
      block const b = pick(live_.size() - 1);
      order(on, *b.home);
      verify(on, b);
      all_.holders.release(b.pointer, b.bytes, b.tag);
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
    lane& on = one_in(16) ? any_lane() : *b.home;
    order(on, *b.home);
    verify(on, b);
    give(on, b);
  }
  // A stream of this thread's waits for another of its own.
  void order(lane& later, lane& earlier) {
    if (&later == &earlier || all_.how.misuse) return;
    passed_.record(earlier.handle());
    later.ref().wait(passed_);
  }
  void verify(lane& on, block const& b) {
    if (b.stamped) check(on.ref(), b.pointer, b.bytes, b.tag, on.wrong);
  }
  void give(lane& on, block const& b) {
    ++done_.operations;
    all_.holders.release(b.pointer, b.bytes, b.tag);
    // Only the lane's thread may look whether it has a cache.
    if (is_mine(on) && on.cache != nullptr && one_in(2)) {
      if (one_in(2)) return on.cache->deallocate(b.pointer, b.bytes);
      return on.cache->deallocate(ref(on), b.pointer, b.bytes);
    }
    pool_.deallocate(ref(on), b.pointer, b.bytes);
  }
  bool is_mine(lane const& l) const {
    return std::find(lanes_.begin(), lanes_.end(), &l) != lanes_.end();
  }

  /// Work on a second stream that the first does not wait for.
  void share() {
    if (live_.empty()) return;
    std::size_t const i = below(live_.size());
    block& b = live_[i];
    lane& second = *lanes_[below(streams_per_thread)];
    if (&second == b.home || b.user != nullptr) return;
    ++done_.operations;
    ++done_.shared;
    order(second, *b.home);
    if (one_in(2)) ww::for_each_index(second.ref(), 1, keep_busy{pause_us()});
    verify(second, b);
    pool_.record_use(ref(second), b.pointer);
    b.user = &second;
    if (!all_.round.long_shared || one_in(2)) free_one(i);
  }

  // ---- other threads

  void send() {
    if (live_.empty() || all_.mailboxes.size() == 1) return;
    std::size_t const i = below(live_.size());
    if (live_[i].user != nullptr || live_[i].home == &default_) return;
    parcel p;
    p.what = live_[i];
    p.ready = std::make_unique<ww::event>();
    p.ready->record(p.what.home->handle());
    mailbox& to =
        *all_.mailboxes[(number_ + 1 + below(all_.mailboxes.size() - 1)) % all_.mailboxes.size()];
    if (to.offer(p)) pick(i);
  }

  void receive(parcel& p) {
    ++done_.foreign;
    block b = p.what;
    if (one_in(2)) {  // on the stream of the thread that sent it
      std::shared_lock<std::shared_mutex> const lock{b.home->replacing};
      b.home->ref().wait(*p.ready);
      verify(*b.home, b);
      return give(*b.home, b);
    }
    lane& on = any_lane();
    on.ref().wait(*p.ready);
    b.home = &on;
    live_.push_back(b);
  }

  // ---- streams and caches

  void make_or_drop_cache() {
    lane& l = *lanes_[below(streams_per_thread)];
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

  /// Retires a stream, destroys it with its work under way, and puts a new one in its place.
  void replace(lane& l) {
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
      if (live_[i].user == &l || (empty && live_[i].home == &l)) {
        block const b = pick(i);
        verify(*b.home, b);
        give(*b.home, b);
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
    // A block from before the capture, freed in it: every launch is behind what was done with it,
    // and there is a launch before the graph goes.
    std::optional<block> outer;
    if (!abandon && !live_.empty() && one_in(2) && live_.back().user == nullptr) {
      outer = pick(live_.size() - 1);
      g->last.record(outer->home->handle());
      g->has_outer = true;
      all_.holders.pass(outer->pointer, outer->bytes, outer->tag, g->tag);
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
      all_.holders.claim(b.pointer, b.bytes, g.tag, g.tag);
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

  /// One launch more, or a result freed, or the end.
  void use_graph(std::size_t i) {
    replay& g = *graphs_[i];
    std::uint64_t const what = below(8);
    if (what == 0) return drop_graph(i);
    if (what == 1 && !g.results.empty()) {
      // Later launches go on writing to it.
      block b = g.results.back();
      g.results.pop_back();
      lane& on = any_lane();
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
    lane& on = any_lane();
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
  /// The graph is about to go: its results are blocks like others, the rest is free.
  void let_go(replay& g) {
    for (block& b : g.results) {
      lane& on = any_lane();
      if (g.launched) on.ref().wait(g.last);
      b.home = &on;
      b.stamped = g.launched;
      all_.holders.pass(b.pointer, b.bytes, g.tag, b.tag);
      live_.push_back(b);
    }
    g.results.clear();
    for (auto const& m : g.memory) all_.holders.clear(m.first, m.second, g.tag);
  }

  shared_state const& all_;
  ww::memory_pool& pool_;
  std::size_t number_;
  std::mt19937_64 random_;
  finding* wrong_;  // of the thread's graphs and default stream
  lane default_;
  std::vector<lane*> lanes_;
  std::size_t favourite_ = 0;
  std::vector<block> live_;
  std::uint64_t target_ = 16;
  std::uint32_t serial_ = 0;
  ww::event passed_;
  ww::stream capturing_;
  std::vector<std::unique_ptr<replay>> graphs_;
  totals done_;
};

/// Lets the pool look which graphs are gone, until it knows it of all: CUDA tells some time after.
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
         " executables, " + std::to_string(s.user_objects) + " user objects";
}
#endif

/// One pool's life.
inline void run_round(options const& how, std::uint64_t round, totals& all, failures& found) {
  std::seed_seq sequence{how.seed, how.seed >> 32U, round};
  std::mt19937_64 random{sequence};
  std::optional<ww::memory_pool> pool;
  setting const s = make_setting(round, random, how, pool);
  finding_board board{how.threads * (streams_per_thread + 1)};
  shadow holders{found};
  std::vector<std::unique_ptr<lane>> lanes;
  for (std::size_t i = 0; i < how.threads * streams_per_thread; ++i) {
    lanes.push_back(std::make_unique<lane>());
    lanes.back()->owned.emplace();
    lanes.back()->wrong = board.at(i);
  }
  std::vector<std::unique_ptr<mailbox>> mailboxes;
  for (std::size_t t = 0; t < how.threads; ++t) mailboxes.push_back(std::make_unique<mailbox>());
  pool.emplace(ww::device_id{0}, s.pool);
  shared_state const state{how, s, *pool, found, holders, lanes, mailboxes};
  totals sum;
  {
    std::vector<std::unique_ptr<worker>> workers;
    for (std::size_t t = 0; t < how.threads; ++t) {
      workers.push_back(std::make_unique<worker>(state, t, random(),
                                                 board.at(how.threads * streams_per_thread + t)));
    }
    std::vector<std::thread> threads;
    for (auto& w : workers) {
      threads.emplace_back([&] {
        try {
          w->run(s.operations / how.threads);
        } catch (std::exception const& e) {
          found.add(std::string{"exception: "} + e.what());
        }
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
    for (auto& l : lanes) pool->retire(l->ref());
    bool const all_came_back = pool->trim() == last.reserved_bytes;
    ww::pool_statistics const left = pool->statistics();
    std::string const text = "trim() leaves " + std::to_string(left.reserved_bytes) + " bytes, " +
                             std::to_string(left.cached_bytes) + " cached, " +
                             std::to_string(left.graph_bytes) + " for graphs, largest hole " +
                             std::to_string(left.largest_hole_bytes);
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
    // User objects end some time after their graphs.
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
