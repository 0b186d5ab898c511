// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Behaviour common to all adaptors, and limit, statistics, tracking, thread safety and their
// nesting.
#include "memory/adaptors_support.hpp"
#include "memory/support.hpp"
#include "support/catch.hpp"

#include <warpwright/memory/adaptors.hpp>
#include <warpwright/testing/fault_adaptor.hpp>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

namespace ww = warpwright;
using test_support::scripted_upstream;

namespace {

constexpr std::size_t kib = 1024;
constexpr std::size_t mib = 1024 * kib;

ww::device_id const device{0};

void ignore_record(void*, ww::memory_log_record const&) noexcept {}
void ignore_damage(void*, ww::guard_damage const&) noexcept {}
void ignore_fallback(void*, ww::fallback_event const&) noexcept {}

// The guarantees of every adaptor, over an upstream that fails on demand.
template <class Adaptor>
void check_contract(Adaptor& adaptor, scripted_upstream& below, ww::memory_pool const& pool,
                    bool same_bytes = true) {
  using answer = scripted_upstream::answer;
  ww::stream const s;
  CHECK(adaptor.device() == device);

  CHECK(adaptor.allocate(s, 0) == nullptr);
  CHECK(adaptor.try_allocate(s, 0) == nullptr);
  adaptor.deallocate(s, nullptr, 0);
  CHECK(below.calls == 0);

  void* const p = adaptor.allocate(s, 1000, 512);
  int const line = __LINE__ - 1;
  CHECK(below.last_line == line);
  CHECK_THAT(below.last_file, contains("adaptors_test.cpp"));
  CHECK(below.last_stream == s.get());
  CHECK(below.last_alignment == 512);
  CHECK((below.last_bytes == 1000) == same_bytes);
  CHECK(reinterpret_cast<std::uintptr_t>(p) % 512 == 0);
  void* const q = adaptor.try_allocate(s, 10);
  CHECK(below.last_line == __LINE__ - 1);
  CHECK(q != nullptr);
  CHECK(pool.statistics().live_blocks == 2);
  test_support::fill(s, p, 1, 1000);
  test_support::fill(s, q, 2, 10);
  CHECK(test_support::all_are(test_support::fetch(s, p, 1000), 1));
  CHECK(test_support::all_are(test_support::fetch(s, q, 10), 2));

  below.next_allocation = answer::none;
  CHECK_THROWS_AS(adaptor.allocate(s, 10), ww::out_of_memory);
  CHECK(adaptor.try_allocate(s, 10) == nullptr);
  below.next_allocation = answer::cuda_error;
  CHECK_THROWS_AS(adaptor.allocate(s, 10), ww::cuda_error);
  CHECK_THROWS_AS(adaptor.try_allocate(s, 10), ww::cuda_error);
  below.next_allocation = answer::memory;
  CHECK(pool.statistics().live_blocks == 2);

  // A block that could not be freed is live, and can be freed later.
  below.next_deallocation = answer::cuda_error;
  CHECK_THROWS_AS(adaptor.deallocate(s, p, 1000), ww::cuda_error);
  CHECK(pool.statistics().live_blocks == 2);
  below.next_deallocation = answer::memory;
  adaptor.deallocate(s, p, 1000);
  CHECK(below.last_line == __LINE__ - 1);
  CHECK_THAT(below.last_file, contains("adaptors_test.cpp"));
  adaptor.deallocate(s, q, 10);
  CHECK(pool.statistics().live_blocks == 0);
  CHECK(pool.statistics().live_bytes == 0);
}

}  // namespace

static_assert(!std::is_copy_constructible<ww::limit_adaptor<ww::memory_pool>>::value,
              "buffers point to their upstream");
static_assert(!std::is_move_constructible<ww::statistics_adaptor<ww::memory_pool>>::value,
              "buffers point to their upstream");
static_assert(!std::is_polymorphic<ww::tracking_adaptor<ww::memory_pool>>::value,
              "no virtual calls");

TEST_CASE("every adaptor forwards its arguments, loses nothing, and keeps its counters right") {
  ww::memory_pool pool{device};
  scripted_upstream below{pool};
  SECTION("limit") {
    ww::limit_adaptor adaptor{below, mib};
    check_contract(adaptor, below, pool);
    CHECK(adaptor.live_bytes() == 0);
    CHECK(&adaptor.upstream() == &below);
  }
  SECTION("statistics") {
    ww::statistics_adaptor adaptor{below};
    check_contract(adaptor, below, pool);
    ww::allocation_statistics const s = adaptor.statistics();
    CHECK(s.live_bytes == 0);
    CHECK(s.live_blocks == 0);
    CHECK(s.allocations == 2);
    CHECK(s.deallocations == 2);
    CHECK(s.failures == 4);
  }
  SECTION("a tag of statistics") {
    ww::statistics_adaptor adaptor{below};
    auto tagged = adaptor.tagged("weights");
    check_contract(tagged, below, pool);
    CHECK(tagged.statistics().failures == 4);
    CHECK(tagged.statistics().live_bytes == 0);
  }
  SECTION("tracking") {
    ww::tracking_adaptor adaptor{below};
    check_contract(adaptor, below, pool);
    CHECK(adaptor.outstanding_blocks() == 0);
    CHECK(adaptor.outstanding_bytes() == 0);
  }
  SECTION("event log") {
    ww::event_log_adaptor adaptor{below, &ignore_record};
    check_contract(adaptor, below, pool);
  }
  SECTION("faults, of which there are none") {
    ww::fault_adaptor adaptor{below, ww::memory_faults{}};
    check_contract(adaptor, below, pool);
    CHECK(adaptor.requests() == 6);
    CHECK(adaptor.injected() == 0);
  }
  SECTION("guard") {
    ww::guard_adaptor adaptor{below, &ignore_damage};
    check_contract(adaptor, below, pool, false);
    CHECK(adaptor.damages() == 0);
  }
  SECTION("alignment, which the requests have already") {
    ww::aligned_adaptor adaptor{below, 256};
    check_contract(adaptor, below, pool);
  }
  SECTION("thread safety") {
    ww::thread_safe_adaptor adaptor{below};
    check_contract(adaptor, below, pool);
  }
  SECTION("fallback, as the first upstream") {
    ww::memory_pool other{device};
    scripted_upstream never{other};
    never.next_allocation = scripted_upstream::answer::none;
    ww::fallback_adaptor adaptor{below, never, &ignore_fallback};
    check_contract(adaptor, below, pool);
    CHECK(adaptor.statistics().fallbacks == 2);
    CHECK(adaptor.statistics().failures == 2);
  }
  SECTION("fallback, as the second upstream") {
    ww::memory_pool other{device};
    scripted_upstream never{other};
    never.next_allocation = scripted_upstream::answer::none;
    ww::fallback_adaptor adaptor{never, below, &ignore_fallback};
    never.calls = 0;
    check_contract(adaptor, below, pool);
    CHECK(adaptor.statistics().fallbacks == 6);
    CHECK(adaptor.statistics().failures == 4);
    CHECK(adaptor.statistics().live_blocks == 0);
    CHECK(adaptor.statistics().live_bytes == 0);
  }
}

TEST_CASE("adaptors nest by deduction of their arguments") {
  ww::stream const s;
  ww::memory_pool pool{device};
  ww::limit_adaptor<ww::memory_pool> part{pool, 64 * mib};
  ww::statistics_adaptor counted{part};
  ww::tracking_adaptor tracked{counted};
  static_assert(
      std::is_same<
          decltype(tracked),
          ww::tracking_adaptor<ww::statistics_adaptor<ww::limit_adaptor<ww::memory_pool>>>>::value,
      "each over the one before");
  // One kind over itself: deduced with a further argument, explicit without one.
  ww::limit_adaptor smaller{part, mib};
  static_assert(
      std::is_same<decltype(smaller), ww::limit_adaptor<ww::limit_adaptor<ww::memory_pool>>>::value,
      "a limit within a limit");
  ww::statistics_adaptor<decltype(counted)> again{counted};
  void* const p = tracked.allocate(s, 1000);
  void* const q = smaller.allocate(s, 10);
  void* const r = again.allocate(s, 20);
  CHECK(part.live_bytes() == 1030);
  CHECK(smaller.live_bytes() == 10);
  CHECK(counted.statistics().live_bytes == 1020);
  CHECK(again.statistics().live_bytes == 20);
  CHECK(tracked.outstanding_bytes() == 1000);
  CHECK_THROWS_AS(smaller.allocate(s, mib), ww::out_of_memory);
  tracked.deallocate(s, p, 1000);
  smaller.deallocate(s, q, 10);
  again.deallocate(s, r, 20);
  CHECK(part.live_bytes() == 0);
  CHECK(pool.statistics().live_bytes == 0);
}

TEST_CASE("a limit is exact, is reported, and does not count freed bytes") {
  ww::stream const s;
  ww::memory_pool pool{device};
  ww::limit_adaptor small{pool, 1000};
  CHECK(small.limit_bytes() == 1000);
  void* const p = small.allocate(s, 600);
  try {
    static_cast<void>(small.allocate(s, 401));
    FAIL("more than the limit");
  } catch (ww::out_of_memory const& e) {
    CHECK(e.report().requested_bytes == 401);
    CHECK(e.report().live_bytes == 600);
    CHECK(e.report().largest_free_block_bytes == 400);
    CHECK(e.report().limit_bytes == 1000);
    CHECK(e.report().device == 0);
    CHECK_THAT(std::string{e.what()}, contains("adaptors_test.cpp"));
  }
  CHECK(small.try_allocate(s, 401) == nullptr);
  CHECK(small.try_allocate(s, ~std::size_t{0}) == nullptr);
  CHECK(pool.statistics().allocations == 1);  // upstream was not called
  void* const q = small.allocate(s, 400);
  CHECK(small.live_bytes() == 1000);
  CHECK(small.try_allocate(s, 1) == nullptr);
  small.deallocate(s, p, 600);
  CHECK(small.live_bytes() == 400);
  void* const r = small.try_allocate(s, 600);
  CHECK(r != nullptr);
  small.deallocate(s, q, 400);
  small.deallocate(s, r, 600);
  ww::limit_adaptor nothing{pool, 0};
  CHECK(nothing.try_allocate(s, 1) == nullptr);
}

TEST_CASE("several threads cannot exceed a limit together") {
  ww::memory_pool pool{device};
  ww::statistics_adaptor counted{pool};  // below the limit, so that it sees no more than that
  ww::limit_adaptor small{counted, 3 * kib};
  std::vector<ww::stream> const streams(4);
  std::atomic<std::uint64_t> refused{0};
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < streams.size(); ++t) {
    threads.emplace_back([&, t] {
      ww::stream const& s = streams[t];
      for (int i = 0; i < 500; ++i) {
        void* const p = small.try_allocate(s, kib);
        if (p != nullptr) {
          small.deallocate(s, p, kib);
        } else {
          ++refused;
        }
      }
    });
  }
  for (std::thread& t : threads) t.join();
  ww::allocation_statistics const s = counted.statistics();
  CHECK(s.live_peak_bytes <= static_cast<std::int64_t>(3 * kib));
  CHECK(s.allocations + refused == 2000);
  CHECK(s.allocations == s.deallocations);
  CHECK(s.live_bytes == 0);
  CHECK(small.live_bytes() == 0);
}

TEST_CASE("a tag with the total's name is a tag, not the total") {
  ww::stream const s;
  ww::memory_pool pool{device};
  ww::statistics_adaptor counted{pool};
  auto all = counted.tagged("all");
  void* const a = all.allocate(s, 7);
  void* const b = counted.allocate(s, 50);
  CHECK(counted.statistics().live_bytes == 57);
  CHECK(counted.statistics().allocations == 2);
  CHECK(counted.statistics("all").live_bytes == 7);
  all.deallocate(s, a, 7);
  counted.deallocate(s, b, 50);
  CHECK(counted.statistics().live_bytes == 0);
}

TEST_CASE("statistics count live, peak and calls, in total and per tag") {
  ww::stream const s;
  ww::memory_pool pool{device};
  ww::statistics_adaptor counted{pool};
  auto weights = counted.tagged("weights");
  auto cache = counted.tagged("cache");
  void* const w = weights.allocate(s, 1000);
  void* const c = cache.allocate(s, 300);
  void* const u = counted.allocate(s, 50);
  cache.deallocate(s, c, 300);
  std::string const same_name{"weights"};
  auto weights_again = counted.tagged(same_name.c_str());
  void* const v = weights_again.allocate(s, 24);

  ww::allocation_statistics const all = counted.statistics();
  CHECK(all.live_bytes == 1074);
  CHECK(all.live_peak_bytes == 1350);
  CHECK(all.live_blocks == 3);
  CHECK(all.live_peak_blocks == 3);
  CHECK(all.allocated_bytes == 1374);
  CHECK(all.allocations == 4);
  CHECK(all.deallocations == 1);
  CHECK(all.failures == 0);
  CHECK(weights.statistics().live_bytes == 1024);
  CHECK(counted.statistics("weights").live_blocks == 2);
  CHECK(counted.statistics("cache").live_bytes == 0);
  CHECK(counted.statistics("cache").live_peak_bytes == 300);
  CHECK(counted.statistics("untagged").live_bytes == 50);
  CHECK(counted.statistics("never heard of").allocations == 0);

  std::string const report = counted.to_text();
  CHECK_THAT(report, contains("        1074          1350             3             3"));
  CHECK_THAT(report, contains("  weights\n"));
  CHECK_THAT(report, contains("  cache\n"));
  CHECK_THAT(report, contains("  untagged\n"));

  counted.reset_peaks();
  CHECK(counted.statistics().live_peak_bytes == 1074);
  CHECK(counted.statistics().live_peak_blocks == 3);
  CHECK(counted.statistics("cache").live_peak_bytes == 0);
  CHECK(counted.statistics("cache").live_peak_blocks == 0);
  CHECK(counted.statistics("weights").live_peak_blocks == 2);
  CHECK(counted.statistics().allocated_bytes == 1374);

  // Freed through the wrong handle: the tags are visibly wrong, and the total is right.
  cache.deallocate(s, w, 1000);
  CHECK(cache.statistics().live_bytes == -1000);
  CHECK(weights.statistics().live_bytes == 1024);
  CHECK(counted.statistics().live_bytes == 74);
  weights_again.deallocate(s, v, 24);
  counted.deallocate(s, u, 50);
  CHECK(counted.statistics().live_bytes == 0);
  CHECK(counted.statistics().live_blocks == 0);
}

TEST_CASE("tracking reports the lines with live memory, most bytes first") {
  ww::stream const s;
  ww::memory_pool pool{device};
  ww::tracking_adaptor tracked{pool};
  CHECK_THAT(tracked.to_text(), contains("0 bytes are outstanding (blocks: 0, call sites: 0)"));
  void* blocks[3] = {};
  for (void*& block : blocks) block = tracked.allocate(s, 100);
  int const small_line = __LINE__ - 1;
  void* const large = tracked.allocate(s, 5000);
  int const large_line = __LINE__ - 1;
  void* const gone = tracked.allocate(s, 9000);
  tracked.deallocate(s, gone, 9000);

  CHECK(tracked.outstanding_blocks() == 4);
  CHECK(tracked.outstanding_bytes() == 5300);
  std::vector<ww::allocation_site> sites;
  tracked.for_each_site([&](ww::allocation_site const& site) { sites.push_back(site); });
  REQUIRE(sites.size() == 2);
  CHECK(sites[0].bytes == 5000);
  CHECK(sites[0].blocks == 1);
  CHECK(sites[0].where.line() == large_line);
  CHECK(sites[1].bytes == 300);
  CHECK(sites[1].blocks == 3);
  CHECK(sites[1].where.line() == small_line);
  CHECK(sites[1].oldest_ns >= sites[0].oldest_ns);
  CHECK_THAT(std::string{sites[1].where.file()}, contains("adaptors_test.cpp"));

  std::string const report = tracked.to_text();
  CHECK_THAT(report, contains("5300 bytes are outstanding (blocks: 4, call sites: 2)"));
  std::string const at_large = "adaptors_test.cpp:" + std::to_string(large_line) + "\n";
  std::string const at_small = "adaptors_test.cpp:" + std::to_string(small_line) + "\n";
  REQUIRE(report.find(at_large) != std::string::npos);
  REQUIRE(report.find(at_small) != std::string::npos);
  CHECK(report.find(at_large) < report.find(at_small));

  for (void* block : blocks) tracked.deallocate(s, block, 100);
  tracked.deallocate(s, large, 5000);
  CHECK(tracked.outstanding_blocks() == 0);
}

TEST_CASE("tracking reports the age of a line's oldest block after other frees") {
  ww::stream const s;
  ww::memory_pool pool{device};
  ww::tracking_adaptor tracked{pool};
  void* blocks[3] = {};
  for (void*& block : blocks) {
    block = tracked.allocate(s, 100);
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
  }
  tracked.deallocate(s, blocks[0], 100);
  std::uint64_t oldest_ns = 0;
  tracked.for_each_site([&](ww::allocation_site const& site) { oldest_ns = site.oldest_ns; });
  CHECK(oldest_ns >= 10000000);
  tracked.deallocate(s, blocks[1], 100);
  tracked.deallocate(s, blocks[2], 100);
}

TEST_CASE("tracking rejects unknown pointers and wrong sizes") {
  ww::stream const s;
  ww::memory_pool pool{device};
  ww::tracking_adaptor tracked{pool};
  void* const p = tracked.allocate(s, 1000);
  std::string const place = "adaptors_test.cpp:" + std::to_string(__LINE__ - 1);
  CHECK_THROWS_WITH(tracked.deallocate(s, p, 999),
                    contains("1000 bytes were allocated at ") && contains(place));
  void* const foreign = pool.allocate(s, 10);
  CHECK_THROWS_WITH(tracked.deallocate(s, foreign, 10),
                    contains("not a live block of this adaptor"));
  CHECK(tracked.outstanding_bytes() == 1000);
  tracked.deallocate(s, p, 1000);
  CHECK_THROWS_AS(tracked.deallocate(s, p, 1000), std::invalid_argument);
  CHECK(pool.statistics().live_blocks == 1);
  pool.deallocate(s, foreign, 10);
}

TEST_CASE("tracking drops a block freed without it when its address is allocated again") {
  ww::stream const s;
  ww::memory_pool pool{device};
  ww::tracking_adaptor tracked{pool};
  void* const p = tracked.allocate(s, 1000);
  void* const other = tracked.allocate(s, 10);
  pool.deallocate(s, p, 1000);
  void* const q = tracked.allocate(s, 900);
  REQUIRE(q == p);
  CHECK(tracked.outstanding_blocks() == 2);
  CHECK(tracked.outstanding_bytes() == 910);
  tracked.deallocate(s, q, 900);
  tracked.deallocate(s, other, 10);
  CHECK(tracked.outstanding_blocks() == 0);
  CHECK(tracked.outstanding_bytes() == 0);
}

TEST_CASE("a tracking adaptor's destructor reports leaks, and only leaks") {
  ww::stream const s;
  ww::memory_pool pool{device};
  std::string told;
  auto* const tell = +[](void* user, char const* report) noexcept {
    static_cast<std::string*>(user)->append(report);
  };
  {
    ww::tracking_adaptor tracked{pool, tell, &told};
    tracked.deallocate(s, tracked.allocate(s, 10), 10);
  }
  CHECK(told.empty());
  void* leaked = nullptr;
  {
    ww::tracking_adaptor tracked{pool, tell, &told};
    leaked = tracked.allocate(s, 77);
  }
  CHECK_THAT(told, contains("77 bytes are outstanding (blocks: 1, call sites: 1)"));
  CHECK_THAT(told, contains("adaptors_test.cpp:" + std::to_string(__LINE__ - 3)));
  {
    ww::tracking_adaptor quiet{pool};
    pool.deallocate(s, quiet.allocate(s, 5), 5);
  }
  CHECK(pool.statistics().live_blocks == 1);  // the adaptor's destructor frees nothing
  pool.deallocate(s, leaked, 77);
}

TEST_CASE("a thread-safe adaptor serialises calls to its upstream") {
  // Counts callers that find another caller inside; ThreadSanitizer detects unlocked accesses.
  struct counting_upstream {
    void* allocate(ww::stream_ref s, std::size_t bytes, std::size_t, ww::source_location where) {
      return try_allocate(s, bytes, 256, where);
    }
    void* try_allocate(ww::stream_ref, std::size_t bytes, std::size_t, ww::source_location) {
      visit();
      ++allocations;
      live_bytes += bytes;
      return &memory;
    }
    void deallocate(ww::stream_ref, void*, std::size_t bytes, ww::source_location) {
      visit();
      live_bytes -= bytes;
    }
    ww::device_id device() const { return ww::device_id{0}; }
    void visit() {
      if (inside.fetch_add(1) != 0) meetings = true;
      std::this_thread::yield();
      inside.fetch_sub(1);
    }
    std::atomic<int> inside{0};
    std::atomic<bool> meetings{false};
    int memory = 0;
    int allocations = 0;
    std::size_t live_bytes = 0;
  };
  counting_upstream below;
  ww::thread_safe_adaptor safe{below};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      ww::stream const s;
      for (int i = 0; i < 2000; ++i) {
        std::size_t const bytes = 1 + static_cast<std::size_t>(i % 7);
        void* const p = i % 2 == 0 ? safe.allocate(s, bytes) : safe.try_allocate(s, bytes);
        safe.deallocate(s, p, bytes);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  CHECK_FALSE(below.meetings);
  CHECK(below.allocations == 8000);
  CHECK(below.live_bytes == 0);
}

TEST_CASE("an aligned adaptor raises the alignment of blocks from its threshold on") {
  ww::stream const s;
  ww::memory_pool pool{device};
  scripted_upstream below{pool};
  ww::aligned_adaptor memory{below, 64 * kib, 1000};
  CHECK(memory.alignment_bytes() == 64 * kib);
  CHECK(memory.threshold_bytes() == 1000);
  void* const small = memory.allocate(s, 999);
  CHECK(below.last_alignment == 256);
  void* const large = memory.allocate(s, 1000);
  CHECK(below.last_alignment == 64 * kib);
  CHECK(reinterpret_cast<std::uintptr_t>(large) % (64 * kib) == 0);
  void* const larger = memory.try_allocate(s, 2000, 128 * kib);
  CHECK(below.last_alignment == 128 * kib);
  CHECK(reinterpret_cast<std::uintptr_t>(larger) % (128 * kib) == 0);
  memory.deallocate(s, small, 999);
  memory.deallocate(s, large, 1000);
  memory.deallocate(s, larger, 2000);
  CHECK(pool.statistics().live_blocks == 0);
}

TEST_CASE("an aligned adaptor aligns all blocks by default") {
  ww::stream const s;
  ww::memory_pool pool{device};
  ww::aligned_adaptor memory{pool, 4 * kib};
  void* const p = memory.allocate(s, 1);
  CHECK(reinterpret_cast<std::uintptr_t>(p) % (4 * kib) == 0);
  memory.deallocate(s, p, 1);
}

TEST_CASE("an alignment that is not a power of two is refused, also that of a request") {
  ww::stream const s;
  ww::memory_pool pool{device};
  using aligned = ww::aligned_adaptor<ww::memory_pool>;
  CHECK_THROWS_WITH(aligned(pool, 3000), contains("an alignment of 3000 bytes"));
  CHECK_THROWS_AS(aligned(pool, 0), std::invalid_argument);
  CHECK_THROWS_AS(aligned(pool, std::size_t{2} << 30U), std::invalid_argument);
  aligned memory{pool, 1024};
  CHECK_THROWS_AS(memory.allocate(s, 10, 3), std::invalid_argument);
  CHECK(pool.statistics().live_blocks == 0);
}
