// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/device_memory.hpp"

#include <warpwright/core/launch.hpp>
#include <warpwright/graph/capture.hpp>
#include <warpwright/graph/graph_exec.hpp>
#include <warpwright/stream/stream_pool.hpp>

#include <atomic>
#include <chrono>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>
#endif

namespace ww = warpwright;
using test_support::device_array;

namespace {

struct set_to {
  int* out;
  int value;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const { out[i] = value; }
};

// out[part] is what branch `part` reads of the parent's work, or 0 if that was too late.
struct take_from {
  int const* from;
  int* out;
  int part;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t) const { out[part] = from[0] + part; }
};

struct sum_of {
  int const* parts;
  int count;
  int* out;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t) const {
    int sum = 0;
    for (int i = 0; i < count; ++i) sum += parts[i];
    *out = sum;
  }
};

void pause(ww::stream_ref stream) {
  ww::check(cudaLaunchHostFunc(
                stream.get(),
                [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(5)); }, nullptr),
            "cudaLaunchHostFunc");
}

// Work of the parent, of n branches, and of the parent again, slowed where an order could be
// missed.
int run_parts(ww::stream_pool& pool, ww::stream_ref parent, int n) {
  device_array<int> from{std::vector<int>{0}};
  device_array<int> parts{std::vector<int>(static_cast<std::size_t>(n), 0)};
  device_array<int> out{std::vector<int>{0}};
  pause(parent);
  ww::for_each_index(parent, 1, set_to{from.data(), 100});
  pool.fork_join(parent, static_cast<unsigned>(n), [&](ww::stream_ref branch, unsigned i) {
    pause(branch);
    ww::for_each_index(branch, 1, take_from{from.data(), parts.data(), static_cast<int>(i)});
  });
  ww::for_each_index(parent, 1, sum_of{parts.data(), n, out.data()});
  return out.fetch(parent)[0];
}

int sum_for(int n) { return 100 * n + n * (n - 1) / 2; }

}  // namespace

TEST_CASE("branches run behind the parent's work, and ahead of its later work") {
  ww::stream_pool pool{ww::current_device(), 4};
  ww::stream parent;
  for (int const n : {1, 2, 4}) CHECK(run_parts(pool, parent, n) == sum_for(n));
  CHECK(run_parts(pool, ww::stream_ref::legacy_default(), 3) == sum_for(3));
  CHECK(run_parts(pool, ww::stream_ref::per_thread(), 3) == sum_for(3));
  ww::stream_lease const lease = pool.lease();
  CHECK(run_parts(pool, lease, 3) == sum_for(3));
  CHECK(pool.available() == 3);
  pool.fork_join(parent, 0, [](ww::stream_ref, unsigned) { FAIL("called"); });
}

TEST_CASE("branches share streams where there are fewer, and have the parent where there is none") {
  ww::stream_pool pool{ww::current_device(), 2};
  ww::stream parent;
  CHECK(run_parts(pool, parent, 7) == sum_for(7));
  std::set<cudaStream_t> used;
  auto const collect = [&](ww::stream_ref branch, unsigned) { used.insert(branch.get()); };
  pool.fork_join(parent, 5, collect);
  CHECK(used.size() == 2);
  CHECK(used.count(parent.get()) == 0);
  ww::stream_lease const a = pool.lease();
  ww::stream_lease const b = pool.lease();
  used.clear();
  pool.fork_join(parent, 5, collect);
  CHECK(used == std::set<cudaStream_t>{parent.get()});
  CHECK(run_parts(pool, parent, 5) == sum_for(5));
}

TEST_CASE("fork_join creates streams up to the maximum, and works within itself") {
  ww::stream_pool pool{ww::current_device(), ww::stream_pool_options{}.max_streams(6)};
  ww::stream parent;
  CHECK(run_parts(pool, parent, 4) == sum_for(4));
  CHECK(pool.size() == 4);
  std::set<cudaStream_t> used;
  pool.fork_join(parent, 3, [&](ww::stream_ref outer, unsigned) {
    CHECK(used.insert(outer.get()).second);
    pool.fork_join(outer, 4, [&](ww::stream_ref inner, unsigned) { used.insert(inner.get()); });
  });
  CHECK(pool.size() == 6);
  CHECK(pool.available() == 6);
  CHECK(used.size() == 6);
}

TEST_CASE("an exception of a branch is thrown after the branches are joined") {
  ww::stream_pool pool{ww::current_device(), 3};
  ww::stream parent;
  device_array<int> x{std::vector<int>{0, 0, 0}};
  device_array<int> out{std::vector<int>{0}};
  CHECK_THROWS_WITH(pool.fork_join(parent, 3,
                                   [&](ww::stream_ref branch, unsigned i) {
                                     pause(branch);
                                     ww::for_each_index(branch, 1, set_to{x.data() + i, 1});
                                     if (i == 1) throw std::runtime_error{"of branch 1"};
                                   }),
                    contains("of branch 1"));
  CHECK(pool.available() == 3);
  ww::for_each_index(parent, 1, sum_of{x.data(), 3, out.data()});
  CHECK(out.fetch(parent)[0] == 2);
}

TEST_CASE("fork_join in a capture is a part of the graph") {
  ww::stream parent;
  ww::stream_pool pool{ww::current_device(), 2};
  device_array<int> from{std::vector<int>{7}};
  device_array<int> parts{std::vector<int>(3, 0)};
  device_array<int> out{std::vector<int>{0}};
  ww::graph const captured = ww::capture(parent, [&](ww::stream_ref s) {
    pool.fork_join(s, 2, [&](ww::stream_ref branch, unsigned i) {
      ww::for_each_index(branch, 1, take_from{from.data(), parts.data(), static_cast<int>(i)});
    });
    ww::for_each_index(s, 1, sum_of{parts.data(), 2, out.data()});
  });
  CHECK(captured.size() == 3);
  CHECK(pool.available() == 2);
  CHECK_FALSE(pool.lease().stream().is_capturing());
  CHECK(out.fetch(parent)[0] == 0);
  ww::graph_exec exec{captured};
  exec.launch(parent);
  CHECK(out.fetch(parent)[0] == 15);
  CHECK(run_parts(pool, parent, 2) == sum_for(2));  // with the same events, outside of the capture
}

TEST_CASE("threads fork and join at once") {
  ww::stream_pool pool{ww::current_device(), ww::stream_pool_options{}.max_streams(8)};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      ww::stream parent;
      for (int round = 0; round < 4; ++round) {
        if (run_parts(pool, parent, 1 + t % 4) != sum_for(1 + t % 4)) ++wrong;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(pool.available() == pool.size());
}

#if WARPWRIGHT_HOST_RUNTIME
namespace wt = ww::testing;

TEST_CASE("the parent may be a stream of another device, whichever is current") {
  wt::reset_host_runtime(wt::host_runtime_options{}.with_devices(2));
  {
    ww::stream_pool pool{ww::device_id{1}, 3};
    ww::stream parent{ww::device_id{0}};
    for (int const current : {0, 1}) {
      ww::scoped_device const scope{ww::device_id{current}};
      std::atomic<int> at{0};
      std::atomic<bool> wrong{false};
      struct step {
        std::atomic<int>* at;
        std::atomic<bool>* wrong;
        int least, most;
      };
      step first{&at, &wrong, 0, 0}, branch{&at, &wrong, 1, 3}, last{&at, &wrong, 4, 4};
      auto const check = [](void* p) {
        step const& s = *static_cast<step*>(p);
        std::this_thread::sleep_for(std::chrono::milliseconds(3));
        int const before = s.at->fetch_add(1);
        if (before < s.least || before > s.most) *s.wrong = true;
      };
      ww::check(cudaLaunchHostFunc(parent.get(), check, &first), "cudaLaunchHostFunc");
      pool.fork_join(parent, 3, [&](ww::stream_ref s, unsigned) {
        ww::check(cudaLaunchHostFunc(s.get(), check, &branch), "cudaLaunchHostFunc");
      });
      ww::check(cudaLaunchHostFunc(parent.get(), check, &last), "cudaLaunchHostFunc");
      parent.synchronize();
      CHECK(at == 5);
      CHECK_FALSE(wrong);
      CHECK(ww::current_device().value() == current);
    }
  }
  wt::reset_host_runtime();
}

TEST_CASE("after a failing call the work is in order, and no lease is lost") {
  wt::reset_host_runtime();
  for (char const* call : {"cudaEventCreateWithFlags", "cudaEventRecord", "cudaStreamWaitEvent",
                           "cudaStreamGetDevice", "cudaStreamCreateWithPriority"}) {
    for (std::uint64_t nth = 1; nth <= 7; ++nth) {
      CAPTURE(call, nth);
      ww::stream_pool pool{ww::device_id{0}, ww::stream_pool_options{}.max_streams(3)};
      ww::stream parent;
      device_array<int> x{std::vector<int>{0, 0, 0}};
      device_array<int> out{std::vector<int>{0}};
      int called = 0;
      bool failed = false;
      {
        wt::scoped_fault_plan const plan{
            wt::fault_plan{}.fail(call, nth, cudaErrorMemoryAllocation)};
        try {
          pool.fork_join(parent, 3, [&](ww::stream_ref branch, unsigned i) {
            for (unsigned k = 0; k <= i; ++k) pause(branch);  // the others do not end with it
            ww::for_each_index(branch, 1, set_to{x.data() + i, 1});
            ++called;
          });
        } catch (ww::cuda_error const& error) {
          failed = true;
          CHECK(std::string{error.what()}.find(call) != std::string::npos);
        }
        CHECK(failed == (plan.hits() == 1));
      }
      CHECK(pool.available() == pool.size());
      ww::for_each_index(parent, 1, sum_of{x.data(), 3, out.data()});
      CHECK(out.fetch(parent)[0] == called);
      CHECK(cudaPeekAtLastError() == cudaSuccess);
      CHECK(run_parts(pool, parent, 3) == sum_for(3));
    }
  }
}

TEST_CASE("a fork_join that fails breaks no capture of another stream") {
  wt::reset_host_runtime();
  for (char const* call : {"cudaEventCreateWithFlags", "cudaEventRecord", "cudaStreamWaitEvent"}) {
    for (std::uint64_t nth = 1; nth <= 5; ++nth) {
      CAPTURE(call, nth);
      ww::stream_pool pool{ww::device_id{0}, 2};
      ww::stream parent;
      ww::stream captured;
      ww::capture_scope scope{captured};
      {
        wt::scoped_fault_plan const plan{wt::fault_plan{}.fail(call, nth, cudaErrorUnknown)};
        try {
          pool.fork_join(parent, 2, [&](ww::stream_ref branch, unsigned) { pause(branch); });
        } catch (ww::cuda_error const&) {
        }
      }
      CHECK(scope.end().size() == 0);
      parent.synchronize();
    }
  }
}

TEST_CASE("a parent that is destroyed before its branches are joined is named as the cause") {
  wt::reset_host_runtime();
  ww::stream_pool pool{ww::device_id{0}, 2};
  ww::stream parent;
  CHECK_THROWS_WITH(
      pool.fork_join(parent, 2,
                     [&](ww::stream_ref, unsigned) { ww::stream const gone{std::move(parent)}; }),
      contains("cudaStreamWaitEvent") && contains("probably the stream was destroyed"));
  CHECK(pool.available() == 2);
}

TEST_CASE("fork_join makes three calls a branch, and three") {
  wt::reset_host_runtime();
  ww::stream_pool pool{ww::device_id{0}, 4};
  ww::stream parent;
  auto const nothing = [](ww::stream_ref, unsigned) {};
  pool.fork_join(parent, 4, nothing);
  wt::reset_call_counts();
  pool.fork_join(parent, 4, nothing);
  CHECK(wt::total_calls() == 3 + 3 * 4);
}
#endif
