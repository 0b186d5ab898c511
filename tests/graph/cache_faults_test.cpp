// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Steps that cannot be captured, values that were captured and have changed, and CUDA calls that
// fail.
#include "cache_support.hpp"

#include <warpwright/graph/conditional.hpp>

#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>

#include "support/sanitized.hpp"

using namespace test_support;
using ww::graph_step;

namespace {

// A synchronisation cannot be captured. It makes the capture invalid.
struct synchronizing_step {
  bool const* synchronizes;
  void operator()(ww::stream_ref t, int* p) const {
    ww::for_each_index(t, 16, add_amount{p, 1});
    if (*synchronizes) t.synchronize();
  }
};

}  // namespace

TEST_CASE("graph_cache: a step that cannot be captured runs eagerly, is reported and tried again") {
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 0)};
  ww::graph_cache cache{at_once()};
  bool synchronizes = true;
  synchronizing_step const step{&synchronizes};
  for (int i = 0; i < 10; ++i) CHECK(cache.run(s, {}, step, x.data()) == graph_step::eager);
  CHECK(x.fetch(s)[0] == 10);
  ww::graph_key_statistics k = of_key(cache);
  CHECK(k.state == ww::graph_key_state::unsupported);
  CHECK(k.failures == 1);
  CHECK(k.eager == 10);
  CHECK_FALSE(k.last_failure.empty());
  REQUIRE(cache.statistics().warnings().size() == 1);
  CHECK_THAT(cache.statistics().warnings()[0], contains("cannot be captured: "));
  CHECK_FALSE(s.is_capturing());
  CHECK(cudaPeekAtLastError() == cudaSuccess);
  synchronizes = false;
  int eager = 0;
  while (cache.run(s, {}, step, x.data()) == graph_step::eager) ++eager;
  CHECK(eager == 55);  // the rest of a pause of 64
  CHECK(cache.run(s, {}, step, x.data()) == graph_step::replayed);
  CHECK(x.fetch(s)[0] == 10 + 55 + 2);
  CHECK(of_key(cache).state == ww::graph_key_state::replaying);
}

TEST_CASE("graph_cache: without the fallback a failed capture is thrown") {
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 0)};
  ww::graph_cache cache{at_once().eager_fallback(false)};
  bool synchronizes = true;
  synchronizing_step const step{&synchronizes};
  CHECK_THROWS_AS(cache.run(s, {}, step, x.data()), ww::capture_error);
  CHECK_FALSE(s.is_capturing());
  CHECK(x.fetch(s)[0] == 0);
  CHECK(of_key(cache).failures == 1);
  CHECK_FALSE(of_key(cache).last_failure.empty());
  synchronizes = false;
  CHECK(cache.run(s, {}, step, x.data()) == graph_step::captured);
  CHECK(x.fetch(s)[0] == 1);
}

TEST_CASE("graph_cache: a later capture that fails leaves the graphs of other bindings") {
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 0)};
  device_array<int> y{std::vector<int>(16, 0)};
  ww::graph_cache cache{at_once()};
  bool synchronizes = false;
  synchronizing_step const step{&synchronizes};
  CHECK(cache.run(s, {}, step, x.data()) == graph_step::captured);
  synchronizes = true;
  CHECK(cache.run(s, {}, step, y.data()) == graph_step::eager);
  for (int i = 0; i < 64; ++i) REQUIRE(cache.run(s, {}, step, x.data()) == graph_step::eager);
  CHECK(cache.run(s, {}, step, x.data()) == graph_step::replayed);
  CHECK(x.fetch(s)[0] == 66);
  CHECK(y.fetch(s)[0] == 1);
}

TEST_CASE("graph_cache: verify_every finds a captured value that has changed") {
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 0)};
  ww::graph_cache cache{at_once().verify_every(4)};
  std::int64_t rate = 5;  // not among the arguments
  auto const step = [&](ww::stream_ref t, int* p) {
    ww::for_each_index(t, 16, add_amount{p, 1});
    ww::for_each_index(t, 16, add_amount{p, rate});
  };
  for (int i = 0; i < 20; ++i) CHECK_NOTHROW(cache.run(s, {}, step, x.data()));
  CHECK(x.fetch(s)[0] == 20 * 6);
  rate = 6;
  int calls = 0;
  try {
    for (; calls < 10; ++calls) cache.run(s, {}, step, x.data());
    FAIL("nothing was thrown");
  } catch (ww::graph_mismatch const& mismatch) {
    CHECK(calls < 4);
    CHECK(mismatch.difference().node == 1);
    CHECK_THAT(mismatch.what(), contains("node 1"));
    CHECK_THAT(mismatch.what(), contains("pass the value as an argument"));
#if CUDART_VERSION >= 12040
    CHECK(mismatch.difference().argument == 0);
    CHECK_THAT(mismatch.what(), contains("was 0x0000000000000005, is 0x0000000000000006"));
#endif
  }
  CHECK_FALSE(s.is_capturing());
}

TEST_CASE("graph_cache: verify_every finds changed copies, fills and topologies") {
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 0)};
  device_array<int> y{std::vector<int>(16, 0)};
  int what = 0;
  auto const step = [&](ww::stream_ref t, int* p) {
    ww::check(cudaMemsetAsync(p, what == 1 ? 1 : 0, 64, t), "cudaMemsetAsync");
    ww::check(cudaMemcpyAsync(p, what == 2 ? p + 8 : y.data(), 32, cudaMemcpyDeviceToDevice, t),
              "cudaMemcpyAsync");
    if (what == 3) ww::for_each_index(t, 16, add_amount{p, 1});
  };
  for (int change = 1; change <= 3; ++change) {
    ww::graph_cache cache{at_once().verify_every(1)};
    what = 0;
    for (int i = 0; i < 3; ++i) cache.run(s, {}, step, x.data());
    what = change;
    CHECK_THROWS_AS(cache.run(s, {}, step, x.data()), ww::graph_mismatch);
    CHECK(cache.statistics().graphs == 0);  // it is not launched again
    CHECK(cache.run(s, {}, step, x.data()) == graph_step::captured);
  }
  s.synchronize();
#if WARPWRIGHT_HOST_RUNTIME
  CHECK(ww::testing::stats().graph_execs == 0);
#endif
}

TEST_CASE("graph_cache: verify_every accepts the conditions that each graph has of its own") {
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 1)};
  ww::graph_cache cache{at_once().verify_every(1)};
  auto const step = [](ww::stream_ref t, int* p) {
    ww::run_if(t, p, [=](ww::stream_ref inner) {
      ww::for_each_index(inner, 1, add_amount{p + 1, 1});
    });
  };
  for (int i = 0; i < 4; ++i) CHECK_NOTHROW(cache.run(s, {}, step, x.data()));
  CHECK(x.fetch(s)[1] == 5);
}

TEST_CASE("graph_cache: verify_every accepts temporary memory of the step") {
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 1)};
  ww::graph_cache cache{at_once().verify_every(2)};
  auto const step = [&](ww::stream_ref t, int* p) {
    void* memory = nullptr;
    ww::check(cudaMallocAsync(&memory, 64, t), "cudaMallocAsync");
    int* const copy = static_cast<int*>(memory);
    ww::check(cudaMemcpyAsync(copy, p, 64, cudaMemcpyDeviceToDevice, t), "cudaMemcpyAsync");
    ww::for_each_index(t, 16, sum_to{p, p, copy});
    ww::check(cudaFreeAsync(copy, t), "cudaFreeAsync");
  };
  for (int i = 0; i < 10; ++i) CHECK_NOTHROW(cache.run(s, {}, step, x.data()));
  CHECK(x.fetch(s)[5] == 1024);
}

#if WARPWRIGHT_HOST_RUNTIME

namespace {

namespace testing = ww::testing;

void wait_for_flag(void* flag) {
  while (!static_cast<std::atomic<bool>*>(flag)->load()) std::this_thread::yield();
}

// Steps with two keys, changing bindings, a change of topology and an eviction.
struct program {
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 0)};
  ww::graph_cache cache;
  int expected = 0;

  explicit program(ww::graph_cache_options const& options) : cache{options} {}
  void step(int key, int launches, int amount) {
    cache.run(
        s, {key},
        [](ww::capture_scope& scope, int* p, int n, int a) {
          for (int i = 0; i < n; ++i) ww::for_each_index(scope.stream(), 8, add_amount{p, a});
          scope.fork(1, [&](ww::stream_ref branch, unsigned) {
            ww::for_each_index(branch, 8, add_amount{p + 8, n * a});
          });
        },
        x.data(), launches, amount);
    expected += launches * amount;
  }
  void all() {
    for (int i = 0; i < 3; ++i) step(1, 1, 1);
    step(1, 1, 10);
    step(1, 2, 10);
    for (int i = 0; i < 2; ++i) step(2, 1, 1);
    step(1, 1, 1);
  }
};

bool is_right(program& p) {
  std::vector<int> const values = p.x.fetch(p.s);
  for (int const v : values) {
    if (v != p.expected) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("graph_cache: each CUDA call fails once; the steps' results and the cache are right") {
  ww::graph_cache_options const variants[] = {at_once().variants(1).max_entries(1),
                                              ww::graph_cache_options{}.warmups(0).max_entries(1),
                                              at_once().variants(1).verify_every(1)};
  for (ww::graph_cache_options const& options : variants) {
    std::vector<testing::call_record> calls;
    {
      program p{options};
      p.all();
      testing::reset_call_counts();
      program q{options};
      q.all();
      calls = testing::calls();
      REQUIRE(is_right(q));
    }
    int thrown = 0;
    for (testing::call_record const& call : calls) {
      for (std::uint64_t nth = 1; nth <= call.count; nth = test_support::next_failing(nth)) {
        INFO(call.name << " fails at call " << nth);
        std::vector<std::string> const leaks = testing::leak_report();
        bool failed = false;
        {
          program p{options};
          {
            testing::scoped_fault_plan const plan{
                testing::fault_plan{}.fail(call.name, nth, cudaErrorMemoryAllocation)};
            try {
              p.all();
            } catch (std::exception const&) {
              failed = true;
            }
          }
          thrown += failed ? 1 : 0;
          REQUIRE_FALSE(p.s.is_capturing());
          // A step that threw may have enqueued a part of its work: begin again.
          if (!failed) REQUIRE(is_right(p));
          ww::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");  // branches, too
          ww::check(cudaMemsetAsync(p.x.data(), 0, 64, p.s), "cudaMemsetAsync");
          p.expected = 0;
          p.all();
          REQUIRE(is_right(p));
          for (int i = 0; i < 70; ++i) p.step(1, 1, 1);  // past a pause
          p.step(1, 1, 1);
          REQUIRE(is_right(p));
        }
        REQUIRE(cudaPeekAtLastError() == cudaSuccess);
        REQUIRE(testing::leak_report().size() <= leaks.size() + 1);  // branch streams are kept
      }
    }
    CHECK(thrown > 0);
  }
}

TEST_CASE("graph_cache: a launch that fails is made up for by an eager call") {
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 0)};
  ww::graph_cache cache{at_once()};
  cache.run(s, {}, add_step{}, x.data(), 1);
  {
    testing::scoped_fault_plan const plan{
        testing::fault_plan{}.fail("cudaGraphLaunch", 2, cudaErrorMemoryAllocation)};
    CHECK(cache.run(s, {}, add_step{}, x.data(), 1) == graph_step::replayed);
    CHECK(cache.run(s, {}, add_step{}, x.data(), 1) == graph_step::eager);
  }
  CHECK(x.fetch(s)[0] == 3);
  ww::graph_key_statistics const k = of_key(cache);
  CHECK(k.replays == 1);
  CHECK(k.eager == 1);
  CHECK(k.calls == 3);
  CHECK(k.failures == 1);
  CHECK(k.graphs == 0);
  CHECK_THAT(k.last_failure, contains("cudaErrorMemoryAllocation"));
}

TEST_CASE("graph_cache: for lack of memory other keys lose their graphs first") {
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 0)};
  ww::graph_cache cache{at_once()};
  std::atomic<bool> open{false};
  ww::check(cudaLaunchHostFunc(s.get(), wait_for_flag, &open), "cudaLaunchHostFunc");
  for (int key = 0; key < 4; ++key) cache.run(s, {key}, add_step{}, x.data(), 1);
  testing::scoped_fault_plan const plan{
      testing::fault_plan{}.fail("cudaGraphInstantiate", 1, cudaErrorMemoryAllocation)};
  CHECK(cache.run(s, {9}, add_step{}, x.data(), 1) == graph_step::captured);
  CHECK(cache.statistics().graphs == 1);
  CHECK(cache.statistics().evictions == 4);
  CHECK(cache.statistics().retired_graphs == 0);  // they have no memory, though they still run
  open = true;
  CHECK(x.fetch(s)[0] == 5);
}

TEST_CASE("graph_cache: after a launch with a sticky error the step is not called") {
  {
    ww::stream s;
    device_array<int> x{std::vector<int>(16, 0)};
    ww::graph_cache cache{at_once()};
    int called = 0;
    // It ignores errors, as kernels launched without a check do.
    auto const step = [&](ww::stream_ref t, int* p) {
      ++called;
      ww::detail::discard(cudaMemsetAsync(p, 0, 16 * sizeof(int), t.get()));
    };
    CHECK(cache.run(s, {}, step, x.data()) == graph_step::captured);
    testing::scoped_fault_plan const plan{
        testing::fault_plan{}.poison("cudaGraphLaunch", 1, cudaErrorIllegalAddress)};
    CHECK_THROWS_WITH(cache.run(s, {}, step, x.data()), contains("cudaGraphLaunch"));
    CHECK(called == 1);
  }
  testing::reset_host_runtime();
}

TEST_CASE("graph_cache: a sticky error is thrown") {
  {
    ww::stream s;
    device_array<int> x{std::vector<int>(16, 0)};
    ww::graph_cache cache{at_once()};
    cache.run(s, {}, add_step{}, x.data(), 1);
    testing::scoped_fault_plan const plan{
        testing::fault_plan{}.poison("cudaGraphLaunch", 1, cudaErrorIllegalAddress)};
    CHECK_THROWS_AS(cache.run(s, {}, add_step{}, x.data(), 1), ww::cuda_error);
  }
  testing::reset_host_runtime();
}

#endif
