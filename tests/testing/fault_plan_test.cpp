// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Fault plans: matching of calls, effects, and parsing.
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>

#include <atomic>
#include <chrono>
#include <limits>
#include <thread>
#include <vector>

#include "support/catch.hpp"

namespace {

namespace ww = warpwright;
using ww::testing::fault_effect;
using ww::testing::fault_plan;
using ww::testing::scoped_fault_plan;

constexpr auto any_error = cudaErrorLaunchTimeout;

// A call that needs the device and has no effect.
cudaError_t ask() {
  std::size_t free_bytes = 0, total_bytes = 0;
  return cudaMemGetInfo(&free_bytes, &total_bytes);
}

std::vector<int> failures(int calls) {
  std::vector<int> hit;
  for (int i = 1; i <= calls; ++i) {
    if (ask() != cudaSuccess) hit.push_back(i);
  }
  cudaGetLastError();
  return hit;
}

double seconds_of_ask() {
  auto const begin = std::chrono::steady_clock::now();
  static_cast<void>(ask());
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

TEST_CASE("a plan fails the n-th call alone") {
  ww::testing::reset_host_runtime();
  static_cast<void>(ask());  // before the scope: not counted by it
  scoped_fault_plan const scope{fault_plan{}.fail("cudaMemGetInfo", 3, any_error)};
  CHECK(scope.hits() == 0);
  CHECK(failures(6) == std::vector<int>{3});
  CHECK(scope.hits() == 1);
}

TEST_CASE("a plan fails the n-th and all later calls") {
  ww::testing::reset_host_runtime();
  scoped_fault_plan const scope{fault_plan{}.fail_from("cudaMemGetInfo", 3, any_error)};
  CHECK(failures(5) == std::vector<int>{3, 4, 5});
  CHECK(scope.hits() == 3);
}

TEST_CASE("a failing call has no effect except its error") {
  ww::testing::reset_host_runtime();
  scoped_fault_plan const scope{fault_plan{}
                                    .fail("cudaMalloc", 1, cudaErrorMemoryAllocation)
                                    .fail("cudaFree", 1, cudaErrorIllegalAddress)};
  int mark = 0;
  void* p = &mark;
  CHECK(cudaMalloc(&p, 16) == cudaErrorMemoryAllocation);
  CHECK(p == &mark);
  CHECK(ww::testing::stats().device_allocations == 0);
  CHECK(cudaPeekAtLastError() == cudaErrorMemoryAllocation);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
  REQUIRE(cudaMalloc(&p, 16) == cudaSuccess);
  CHECK(cudaFree(p) == cudaErrorIllegalAddress);
  CHECK(ww::testing::stats().device_allocations == 1);
  CHECK(cudaGetLastError() == cudaErrorIllegalAddress);
  CHECK(ask() == cudaSuccess);  // not sticky, with any code
  CHECK(cudaFree(p) == cudaSuccess);
  CHECK(ww::testing::call_count("cudaFree") == 2);  // failed ones included
}

TEST_CASE("the same seed matches the same calls") {
  ww::testing::reset_host_runtime();
  auto const run = [](double probability, std::uint64_t seed) {
    scoped_fault_plan const scope{
        fault_plan{}.fail_randomly("cudaMemGetInfo", probability, any_error, seed)};
    std::vector<int> hit = failures(400);
    CHECK(scope.hits() == hit.size());
    return hit;
  };
  std::vector<int> const first = run(0.25, 7);
  CHECK(first == run(0.25, 7));
  CHECK(first != run(0.25, 8));
  // Six standard deviations of the binomial distribution around 100.
  CHECK(first.size() > 48);
  CHECK(first.size() < 152);
  CHECK(run(0.0, 7).empty());
  CHECK(run(1.0, 7).size() == 400);
}

TEST_CASE("poison lasts until the runtime is reset") {
  ww::testing::reset_host_runtime(ww::testing::host_runtime_options{}.with_devices(2));
  {
    scoped_fault_plan const scope{
        fault_plan{}.poison("cudaMemGetInfo", 2, cudaErrorIllegalAddress)};
    CHECK(ask() == cudaSuccess);
    CHECK(ask() == cudaErrorIllegalAddress);
    CHECK(scope.hits() == 1);
  }
  void* p = nullptr;
  CHECK(cudaMalloc(&p, 16) == cudaErrorIllegalAddress);
  CHECK(cudaDeviceSynchronize() == cudaErrorIllegalAddress);
  CHECK(cudaGetLastError() == cudaErrorIllegalAddress);
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  CHECK(ask() == cudaSuccess);  // the other device has no error
  ww::testing::reset_host_runtime();
  CHECK(ask() == cudaSuccess);
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("queued frees complete on a poisoned device") {
  ww::testing::reset_host_runtime();
  void* p = nullptr;
  REQUIRE(cudaMallocAsync(&p, 1000, cudaStreamLegacy) == cudaSuccess);
  struct gate {
    std::atomic<bool> open{false};
  } closed;
  REQUIRE(cudaLaunchHostFunc(
              cudaStreamLegacy,
              [](void* raw) {
                while (!static_cast<gate*>(raw)->open.load()) std::this_thread::yield();
              },
              &closed) == cudaSuccess);
  REQUIRE(cudaFreeAsync(p, cudaStreamLegacy) == cudaSuccess);
  ww::testing::poison_device(0, cudaErrorIllegalAddress);
  closed.open.store(true);
  CHECK(ww::testing::leak_report().empty());  // waits for the queued free
  ww::testing::reset_host_runtime();
}

TEST_CASE("poison_device rejects an invalid device and cudaSuccess") {
  ww::testing::reset_host_runtime();
  CHECK_THROWS_AS(ww::testing::poison_device(-1, any_error), std::invalid_argument);
  CHECK_THROWS_AS(ww::testing::poison_device(1, any_error), std::invalid_argument);
  CHECK_THROWS_AS(ww::testing::poison_device(0, cudaSuccess), std::invalid_argument);
  CHECK(ask() == cudaSuccess);
  ww::testing::poison_device(0, cudaErrorAssert);
  CHECK(ask() == cudaErrorAssert);
  ww::testing::reset_host_runtime();
}

TEST_CASE("a delayed call runs after the delay") {
  ww::testing::reset_host_runtime();
  constexpr std::chrono::milliseconds pause{50};
  {
    scoped_fault_plan const scope{fault_plan{}.delay("cudaMemGetInfo", pause)};
    CHECK(seconds_of_ask() >= 0.050);
    CHECK(seconds_of_ask() >= 0.050);
    CHECK(scope.hits() == 2);
    CHECK(ask() == cudaSuccess);
  }
  {
    scoped_fault_plan const scope{fault_plan{}.delay("cudaMemGetInfo", 2, pause)};
    CHECK(ask() == cudaSuccess);
    CHECK(scope.hits() == 0);
    CHECK(seconds_of_ask() >= 0.050);
    CHECK(ask() == cudaSuccess);
    CHECK(scope.hits() == 1);
  }
}

TEST_CASE("of several rules that fail a call the first is applied") {
  ww::testing::reset_host_runtime();
  scoped_fault_plan const scope{fault_plan{}
                                    .fail("cudaMemGetInfo", 2, cudaErrorAssert)
                                    .fail_from("cudaMemGetInfo", 1, cudaErrorNotSupported)};
  CHECK(ask() == cudaErrorNotSupported);
  CHECK(ask() == cudaErrorAssert);
  CHECK(scope.hits() == 2);  // calls, not rules
  cudaGetLastError();
}

TEST_CASE("an asterisk counts the calls of all functions") {
  ww::testing::reset_host_runtime();
  scoped_fault_plan const scope{fault_plan{}.fail("*", 3, any_error)};
  void* p = nullptr;
  CHECK(ask() == cudaSuccess);
  CHECK(cudaMalloc(&p, 16) == cudaSuccess);
  CHECK(cudaFree(p) == any_error);
  CHECK(cudaFree(p) == cudaSuccess);
  cudaGetLastError();
}

TEST_CASE("a function that the host runtime does not have is an error that names the nearest") {
  CHECK_THROWS_WITH(fault_plan{}.fail_from("cudaMemGetInf", 1, any_error),
                    contains("\"cudaMemGetInf\" is none of the ") &&
                        contains("nearest name is \"cudaMemGetInfo\""));
  CHECK_THROWS_WITH(fault_plan{}.fail("malloc", 1, any_error), contains("\"cudaMalloc\""));
  CHECK_THROWS_WITH(fault_plan{}.poison("cudamalloc", 1, any_error), contains("\"cudaMalloc\""));
  CHECK_THROWS_WITH(fault_plan{}.delay("cudaFreeAsync_ptsz", std::chrono::microseconds{1}),
                    contains("\"cudaFreeAsync\""));
  CHECK_THROWS_WITH(fault_plan::parse("cudaMaloc:1:2"),
                    contains("\"cudaMalloc\"") && contains("rule \"cudaMaloc:1:2\""));
  CHECK_THROWS_AS(ww::testing::call_count("cudaMaloc"), std::invalid_argument);
  CHECK_THROWS_WITH(
      ww::testing::call_count("cudaMaloc"),
      contains("call_count: \"cudaMaloc\" is none of the ") && contains("\"cudaMalloc\""));
  CHECK_THROWS_WITH(ww::testing::call_count(""), contains("\"\" is none of the "));
  // Driver functions, launches, and a function that nobody has called.
  ww::testing::reset_host_runtime();
  for (char const* const name : {"cuMemCreate", "cudaLaunchKernel", "cudaStreamBeginCapture"}) {
    CHECK(ww::testing::call_count(name) == 0);
    CHECK(fault_plan{}.fail(name, 1, any_error).rules().size() == 1);
  }
}

TEST_CASE("plans nest, and the outer one is restored with its counts") {
  ww::testing::reset_host_runtime();
  scoped_fault_plan const outer{fault_plan{}.fail("cudaMemGetInfo", 2, cudaErrorAssert)};
  CHECK(ask() == cudaSuccess);
  {
    scoped_fault_plan const inner{fault_plan{}.fail("cudaMemGetInfo", 1, cudaErrorNotSupported)};
    CHECK(ask() == cudaErrorNotSupported);
    CHECK(ask() == cudaSuccess);  // the outer plan neither matches nor counts
    CHECK(inner.hits() == 1);
    CHECK(outer.hits() == 0);
  }
  CHECK(ask() == cudaErrorAssert);
  CHECK(outer.hits() == 1);
  cudaGetLastError();
}

TEST_CASE("a plan does not match after its scope") {
  ww::testing::reset_host_runtime();
  { scoped_fault_plan const scope{fault_plan{}.fail_from("*", 1, any_error)}; }
  CHECK(failures(3).empty());
}

TEST_CASE("calls are counted by name, in the order of first calls") {
  ww::testing::reset_host_runtime();
  CHECK(ww::testing::total_calls() == 0);
  CHECK(ww::testing::calls().empty());
  CHECK(ww::testing::call_count("cudaMalloc") == 0);
  void* p = nullptr;
  cudaStream_t s = nullptr;
  REQUIRE(cudaStreamCreate(&s) == cudaSuccess);
  REQUIRE(cudaMalloc(&p, 16) == cudaSuccess);
  REQUIRE(cudaFree(p) == cudaSuccess);
  REQUIRE(cudaMalloc(&p, 16) == cudaSuccess);
  REQUIRE(cudaFree(p) == cudaSuccess);
  CHECK(cudaFree(&p) == cudaErrorInvalidValue);  // failed calls count
  REQUIRE(cudaStreamDestroy(s) == cudaSuccess);
  std::string seen;
  for (auto const& call : ww::testing::calls()) {
    seen += call.name + ' ' + std::to_string(call.count) + '\n';
  }
  CHECK(seen == "cudaStreamCreate 1\ncudaMalloc 2\ncudaFree 3\ncudaStreamDestroy 1\n");
  CHECK(ww::testing::total_calls() == 7);
  ww::testing::reset_call_counts();
  CHECK(ww::testing::total_calls() == 0);
  CHECK(ww::testing::calls().empty());
  REQUIRE(cudaGetLastError() == cudaErrorInvalidValue);
}

TEST_CASE("threads share the count") {
  ww::testing::reset_host_runtime();
  constexpr int threads = 8, calls = 500;
  auto const run = [](fault_plan const& plan) {
    scoped_fault_plan const scope{plan};
    std::vector<std::size_t> failed(threads, 0);
    std::vector<std::thread> crew;
    for (int t = 0; t < threads; ++t) {
      crew.emplace_back(
          [&failed, t] { failed[static_cast<std::size_t>(t)] = failures(calls).size(); });
    }
    for (std::thread& each : crew) each.join();
    std::size_t total = 0;
    for (std::size_t each : failed) total += each;
    CHECK(scope.hits() == total);
    return total;
  };
  CHECK(run(fault_plan{}.fail("cudaMemGetInfo", threads * calls / 2, any_error)) == 1);
  CHECK(run(fault_plan{}.fail_from("cudaMemGetInfo", 1001, any_error)) == threads * calls - 1000);
  // The random numbers depend on the call's number and not on its thread.
  fault_plan const random = fault_plan{}.fail_randomly("cudaMemGetInfo", 0.5, any_error, 99);
  std::size_t const expected = run(random);
  CHECK(run(random) == expected);
  CHECK(ww::testing::call_count("cudaMemGetInfo") == 4 * threads * calls);
}

TEST_CASE("each rule is added to a copy of the plan") {
  fault_plan const empty;
  fault_plan const one = empty.fail("cudaMalloc", 1, any_error);
  fault_plan const two = one.delay("cudaFree", 3, std::chrono::microseconds{5});
  CHECK(empty.rules().empty());
  CHECK(one.rules().size() == 1);
  REQUIRE(two.rules().size() == 2);
  CHECK(two.rules()[0].call == "cudaMalloc");
  CHECK(two.rules()[1].first == 3);
  CHECK(two.rules()[1].last == 3);
}

TEST_CASE("invalid arguments throw") {
  fault_plan plan;
  using std::chrono::microseconds;
  CHECK_THROWS_WITH(plan.fail("cudaMalloc", 0, any_error), contains("counted from 1"));
  CHECK_THROWS_WITH(plan.fail("", 1, any_error), contains("empty"));
  CHECK_THROWS_WITH(plan.fail("cudaMalloc", 1, cudaSuccess), contains("cudaSuccess"));
  CHECK_THROWS_AS(plan.fail_from("cudaMalloc", 0, any_error), std::invalid_argument);
  CHECK_THROWS_AS(plan.fail_from("", 1, any_error), std::invalid_argument);
  CHECK_THROWS_AS(plan.fail_from("cudaMalloc", 1, cudaSuccess), std::invalid_argument);
  CHECK_THROWS_AS(plan.poison("cudaMalloc", 0, any_error), std::invalid_argument);
  CHECK_THROWS_AS(plan.poison("", 1, any_error), std::invalid_argument);
  CHECK_THROWS_AS(plan.poison("cudaMalloc", 1, cudaSuccess), std::invalid_argument);
  CHECK_THROWS_WITH(plan.fail_randomly("cudaMalloc", 1.5, any_error, 0), contains("1.5"));
  CHECK_THROWS_AS(plan.fail_randomly("cudaMalloc", -0.1, any_error, 0), std::invalid_argument);
  CHECK_THROWS_AS(
      plan.fail_randomly("cudaMalloc", std::numeric_limits<double>::quiet_NaN(), any_error, 0),
      std::invalid_argument);
  CHECK_THROWS_AS(plan.fail_randomly("", 0.5, any_error, 0), std::invalid_argument);
  CHECK_THROWS_AS(plan.fail_randomly("cudaMalloc", 0.5, cudaSuccess, 0), std::invalid_argument);
  CHECK_THROWS_WITH(plan.delay("cudaMalloc", microseconds{-1}), contains("-1"));
  CHECK_THROWS_AS(plan.delay("", microseconds{1}), std::invalid_argument);
  CHECK_THROWS_AS(plan.delay("cudaMalloc", 0, microseconds{1}), std::invalid_argument);
  CHECK_THROWS_AS(plan.delay("cudaMalloc", 1, microseconds{-1}), std::invalid_argument);
  CHECK(plan.rules().empty());  // the plan is unchanged
}

TEST_CASE("a plan is parsed") {
  fault_plan const plan = fault_plan::parse(
      "cudaMalloc:3:cudaErrorMemoryAllocation,cudaFree:2+:700;"
      "*:p0.01@7:cudaErrorUnknown;cudaMemcpyAsync:p1:1,"
      "cudaStreamSynchronize:1:poison=cudaErrorIllegalAddress,"
      "cudaMemcpyAsync:*:delay=500,cudaEventRecord:4:delay=20");
  auto const& rules = plan.rules();
  REQUIRE(rules.size() == 7);
  CHECK(rules[0].call == "cudaMalloc");
  CHECK(rules[0].effect == fault_effect::fail);
  CHECK(rules[0].code == cudaErrorMemoryAllocation);
  CHECK(rules[0].first == 3);
  CHECK(rules[0].last == 3);
  CHECK(rules[1].code == cudaErrorIllegalAddress);
  CHECK(rules[1].first == 2);
  CHECK(rules[1].last == std::numeric_limits<std::uint64_t>::max());
  CHECK(rules[2].call == "*");
  CHECK(rules[2].probability == 0.01);
  CHECK(rules[2].seed == 7);
  CHECK(rules[2].code == cudaErrorUnknown);
  CHECK(rules[3].probability == 1.0);
  CHECK(rules[3].code == cudaErrorInvalidValue);
  CHECK(rules[4].effect == fault_effect::poison);
  CHECK(rules[4].code == cudaErrorIllegalAddress);
  CHECK(rules[4].first == 1);
  CHECK(rules[5].effect == fault_effect::delay);
  CHECK(rules[5].duration == std::chrono::microseconds{500});
  CHECK(rules[5].first == 1);
  CHECK(rules[5].last == std::numeric_limits<std::uint64_t>::max());
  CHECK(rules[6].first == 4);
  CHECK(rules[6].last == 4);
  CHECK(rules[6].duration == std::chrono::microseconds{20});
  CHECK(fault_plan::parse("").rules().empty());
}

TEST_CASE("the error of a malformed rule names it") {
  std::string const bad = GENERATE(
      as<std::string>{}, "cudaMalloc", "cudaMalloc:1", ":1:cudaErrorUnknown",
      "cudaMalloc::cudaErrorUnknown", "cudaMalloc:0:cudaErrorUnknown",
      "cudaMalloc:0+:cudaErrorUnknown", "cudaMalloc:-1:cudaErrorUnknown",
      "cudaMalloc:x:cudaErrorUnknown", "cudaMalloc:1:", "cudaMalloc:1:0",
      "cudaMalloc:1:cudaSuccess", "cudaMalloc:1:cudaErrorNoSuch", "cudaMalloc:1:99999999999",
      "cudaMalloc:1:unrecognized error code", "cudaMalloc:1:poison=", "cudaMalloc:1:poison=0",
      "cudaMalloc:*:poison=700", "cudaMalloc:p:cudaErrorUnknown", "cudaMalloc:p2:cudaErrorUnknown",
      "cudaMalloc:pnan:cudaErrorUnknown", "cudaMalloc:p0.5x:cudaErrorUnknown",
      "cudaMalloc:p0.5@:cudaErrorUnknown", "cudaMalloc:p0.5@x:cudaErrorUnknown",
      "cudaMalloc:*:delay=", "cudaMalloc:*:delay=-5", "cudaMalloc:0:delay=5",
      "cudaMalloc:1:delay=5s", ":*:delay=5", "cudaMalloc:99999999999999999999:cudaErrorUnknown",
      " ");
  INFO(bad);
  CHECK_THROWS_AS(fault_plan::parse(bad), std::invalid_argument);
  CHECK_THROWS_WITH(fault_plan::parse("cudaFree:1:cudaErrorUnknown," + bad + ";cudaFree:2:1"),
                    contains("rule \"" + bad + "\""));
}
