// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/device_memory.hpp"

#include <warpwright/core/launch.hpp>
#include <warpwright/graph/graph_replay.hpp>

#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <new>
#include <stdexcept>
#include <thread>
#include <vector>

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>
#endif

namespace ww = warpwright;
using test_support::device_array;

namespace {

struct add {
  int* out;
  int amount;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const { out[i] += amount; }
};

struct sum_of {
  int* out;
  int const* a;
  int const* b;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const { out[i] = a[i] + b[i]; }
};

void wait_for_flag(void* flag) {
  while (!static_cast<std::atomic<bool>*>(flag)->load()) std::this_thread::yield();
}

void set_flag(void* flag) { static_cast<std::atomic<bool>*>(flag)->store(true); }

bool stream_is_clean(ww::stream_ref s) {
  return !s.is_capturing() && cudaPeekAtLastError() == cudaSuccess &&
         cudaStreamSynchronize(s.get()) == cudaSuccess;
}

cudaError_t code_of(std::exception_ptr const& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (ww::cuda_error const& error) {
    return error.code();
  }
}

template <class F>
std::exception_ptr thrown_by(F&& f) {
  try {
    f();
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

}  // namespace

TEST_CASE("a capture does not run the work; a replay does") {
  ww::stream s;
  device_array<int> x{std::vector<int>(100, 0)};
  ww::graph const captured = ww::capture(s, [&](ww::stream_ref c) {
    ww::for_each_index(c, 100, add{x.data(), 1});
  });
  CHECK(x.fetch(s)[0] == 0);
  ww::graph_exec exec{captured};
  for (int i = 0; i < 5; ++i) exec.launch(s);
  CHECK(x.fetch(s)[0] == 5);
}

TEST_CASE("exceptions of the body propagate, and the stream is usable") {
  ww::stream s;
  device_array<int> x{std::vector<int>(100, 0)};
  CHECK_THROWS_WITH(ww::capture(s,
                                [&](ww::stream_ref c) {
                                  ww::for_each_index(c, 100, add{x.data(), 1});
                                  throw std::runtime_error{"body"};
                                }),
                    "body");
  CHECK(stream_is_clean(s));
  CHECK(x.fetch(s)[0] == 0);
  // Capture again: nothing of the first capture is left.
  CHECK(ww::capture(s,
                    [&](ww::stream_ref c) {
                      ww::for_each_index(c, 100, add{x.data(), 1});
                    })
            .node_counts()
            .kernels == 1);
}

TEST_CASE("exceptions of the body propagate even if the capture was invalidated before") {
  ww::stream s;
  CHECK_THROWS_WITH(ww::capture(s,
                                [&](ww::stream_ref c) {
                                  static_cast<void>(cudaStreamSynchronize(c));
                                  throw std::runtime_error{"body"};
                                }),
                    "body");
  CHECK(stream_is_clean(s));
}

TEST_CASE("an illegal call that the body ignored is reported at the end, with a remedy") {
  ww::stream s;
  std::exception_ptr const thrown = thrown_by([&] {
    static_cast<void>(
        ww::capture(s, [&](ww::stream_ref c) { static_cast<void>(cudaStreamSynchronize(c)); }));
  });
  REQUIRE(thrown);
  CHECK(code_of(thrown) == cudaErrorStreamCaptureInvalidated);
  CHECK_THROWS_WITH(std::rethrow_exception(thrown),
                    contains("an earlier call invalidated the capture"));
  CHECK(stream_is_clean(s));
}

TEST_CASE(
    "a captured body that leaves an error pending is refused: what failed is not in the graph") {
  ww::stream s;
  device_array<int> x{std::vector<int>(16, 0)};
  auto const body = [&](ww::stream_ref t) {
    ww::for_each_index(t, 16, add{x.data(), 1});
    static_cast<void>(cudaSetDevice(12345));
  };
  CHECK_THROWS_AS(ww::capture(s, body), ww::cuda_error);
  CHECK(cudaPeekAtLastError() == cudaSuccess);
  CHECK_FALSE(s.is_capturing());
  // Of an error that was pending before nothing is known.
  static_cast<void>(cudaSetDevice(12345));
  CHECK_NOTHROW(ww::capture(s, [&](ww::stream_ref t) {
    ww::for_each_index(t, 16, add{x.data(), 1});
  }));
  CHECK(cudaGetLastError() != cudaSuccess);
}

TEST_CASE("an illegal call that the body checks is reported with its name") {
  ww::stream s;
  std::exception_ptr const thrown = thrown_by(
      [&] { static_cast<void>(ww::capture(s, [&](ww::stream_ref c) { c.synchronize(); })); });
  REQUIRE(thrown);
  CHECK(code_of(thrown) == cudaErrorStreamCaptureUnsupported);
  CHECK_THROWS_WITH(std::rethrow_exception(thrown), contains("cudaStreamSynchronize"));
  CHECK(stream_is_clean(s));
}

TEST_CASE("cudaMalloc invalidates a thread-local capture, and is legal in a relaxed one") {
  ww::stream s;
  auto const body = [](ww::stream_ref) {
    void* p = nullptr;
    ww::check(cudaMalloc(&p, 256), "cudaMalloc");
    ww::check(cudaFree(p), "cudaFree");
  };
  CHECK_THROWS_AS(ww::capture(s, body), ww::cuda_error);
  CHECK(stream_is_clean(s));
  // Not cudaFree: it may synchronise, which is illegal during a capture of any mode.
  ww::graph const captured = ww::capture(
      s,
      [](ww::stream_ref) {
        void* p = nullptr;
        ww::check(cudaMalloc(&p, 256), "cudaMalloc");
        static_cast<void>(cudaFree(p));
        static_cast<void>(cudaGetLastError());
      },
      ww::capture_mode::relaxed);
  CHECK(captured.node_counts().total() == 0);
  CHECK(stream_is_clean(s));
}

TEST_CASE("another thread's cudaMalloc does not invalidate a thread-local capture") {
  ww::stream s;
  device_array<int> x{std::vector<int>(10, 0)};
  ww::graph const captured = ww::capture(s, [&](ww::stream_ref c) {
    std::thread other{[] {
      void* p = nullptr;
      if (cudaMalloc(&p, 256) == cudaSuccess) cudaFree(p);
    }};
    other.join();
    ww::for_each_index(c, 10, add{x.data(), 1});
  });
  CHECK(captured.node_counts().kernels == 1);
}

TEST_CASE("the legacy default stream and a capturing stream throw with a remedy") {
  CHECK_THROWS_WITH(ww::capture(ww::stream_ref::legacy_default(), [](ww::stream_ref) {}),
                    contains("the legacy default stream cannot be captured"));
  ww::stream s;
  CHECK_THROWS_WITH(
      ww::capture(
          s, [&](ww::stream_ref c) { static_cast<void>(ww::capture(c, [](ww::stream_ref) {})); }),
      contains("the stream is capturing already"));
  CHECK(stream_is_clean(s));
}

TEST_CASE("the per-thread default stream can be captured") {
  device_array<int> x{std::vector<int>(10, 0)};
  ww::stream_ref const s = ww::stream_ref::per_thread();
  ww::graph_exec exec{ww::capture(s, [&](ww::stream_ref c) {
    ww::for_each_index(c, 10, add{x.data(), 2});
  })};
  exec.launch(s);
  CHECK(x.fetch(s)[9] == 2);
}

TEST_CASE("forked streams run concurrently and end() joins them") {
  ww::stream s;
  ww::stream left;
  ww::stream right;
  device_array<int> a{std::vector<int>(100, 0)};
  device_array<int> b{std::vector<int>(100, 0)};
  device_array<int> c{std::vector<int>(100, 0)};
  bool const explicit_join = GENERATE(false, true);
  CAPTURE(explicit_join);
  ww::graph const captured = ww::capture(s, [&](ww::capture_scope& scope) {
    ww::for_each_index(scope, 100, add{a.data(), 1});
    scope.fork(left);
    scope.fork(right);
    ww::for_each_index(left, 100, add{a.data(), 10});
    ww::for_each_index(right, 100, add{b.data(), 20});
    if (explicit_join) {
      scope.join(right);
      scope.join(left);
      ww::for_each_index(scope, 100, sum_of{c.data(), a.data(), b.data()});
    }
  });
  CHECK(captured.node_counts().kernels == (explicit_join ? 4 : 3));
  CHECK(captured.node_counts().total() == (explicit_join ? 4 : 3));
  CHECK_FALSE(left.is_capturing());
  CHECK_FALSE(right.is_capturing());
  ww::graph_exec exec{captured};
  exec.launch(s);
  CHECK(a.fetch(s)[99] == 11);
  CHECK(b.fetch(s)[99] == 20);
  CHECK(c.fetch(s)[99] == (explicit_join ? 31 : 0));
}

TEST_CASE(
    "joining a stream that was not forked throws, and forks are discarded when the body throws") {
  ww::stream s;
  ww::stream other;
  CHECK_THROWS_WITH(ww::capture(s, [&](ww::capture_scope& scope) { scope.join(other); }),
                    contains("was not forked"));
  CHECK(stream_is_clean(s));
  device_array<int> x{std::vector<int>(10, 0)};
  CHECK_THROWS_AS(ww::capture(s,
                              [&](ww::capture_scope& scope) {
                                scope.fork(other);
                                ww::for_each_index(other, 10, add{x.data(), 1});
                                throw 7;
                              }),
                  int);
  CHECK(stream_is_clean(s));
  CHECK(stream_is_clean(other));
  CHECK(x.fetch(s)[0] == 0);
}

TEST_CASE("a stream forked without fork() and not joined is reported with a remedy") {
  ww::stream s;
  ww::stream other;
  device_array<int> x{std::vector<int>(10, 0)};
  std::exception_ptr const thrown = thrown_by([&] {
    static_cast<void>(ww::capture(s, [&](ww::stream_ref c) {
      other.wait(c);
      ww::for_each_index(other, 10, add{x.data(), 1});
    }));
  });
  REQUIRE(thrown);
  CHECK(code_of(thrown) == cudaErrorStreamCaptureUnjoined);
  CHECK_THROWS_WITH(std::rethrow_exception(thrown), contains("capture_scope::fork"));
  CHECK(stream_is_clean(s));
  CHECK(stream_is_clean(other));
}

TEST_CASE("a replay warms up, captures once, and then does not call the body") {
  ww::stream s;
  device_array<int> x{std::vector<int>(10, 0)};
  ww::graph_replay step{2};
  int calls = 0;
  for (int i = 1; i <= 10; ++i) {
    step.run(s, [&](ww::stream_ref c) {
      ++calls;
      ww::for_each_index(c, 10, add{x.data(), 1});
    });
    CHECK(x.fetch(s)[9] == i);
    CHECK(step.captured() == (i > 2));
  }
  CHECK(calls == 3);
  ww::graph_replay::counts const counts = step.statistics();
  CHECK(counts.eager_runs == 2);
  CHECK(counts.captures == 1);
  CHECK(counts.instantiations == 1);
  CHECK(counts.updates == 0);
  CHECK(counts.launches == 8);
  CHECK(step.node_counts().kernels == 1);
}

TEST_CASE("a body with forks runs the same while warming up") {
  ww::stream s;
  ww::stream side;
  device_array<int> a{std::vector<int>(100, 0)};
  device_array<int> b{std::vector<int>(100, 0)};
  ww::graph_replay step;
  for (int i = 1; i <= 4; ++i) {
    step.run(s, [&](ww::capture_scope& scope) {
      ww::for_each_index(scope, 100, add{a.data(), 1});
      scope.fork(side);
      ww::for_each_index(side, 100, sum_of{b.data(), a.data(), a.data()});
    });
    CHECK(b.fetch(s)[99] == 2 * i);
  }
  CHECK(step.statistics().eager_runs == 1);
}

TEST_CASE("a warm-up has the same requirements of its stream as a capture") {
  ww::graph_replay step;
  CHECK_THROWS_WITH(step.run(ww::stream_ref::legacy_default(), [](ww::stream_ref) {}),
                    contains("the legacy default stream cannot be captured"));
  CHECK(step.statistics().eager_runs == 0);
}

TEST_CASE("a warm-up that throws joins its forks") {
  ww::stream s;
  ww::stream side;
  std::atomic<bool> release{false};
  std::atomic<bool> ran{false};
  ww::graph_replay step;
  CHECK_THROWS_AS(step.run(s,
                           [&](ww::capture_scope& scope) {
                             scope.fork(side);
                             ww::check(cudaLaunchHostFunc(side, &wait_for_flag, &release),
                                       "cudaLaunchHostFunc");
                             throw 5;
                           }),
                  int);
  REQUIRE(cudaLaunchHostFunc(s, &set_flag, &ran) == cudaSuccess);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK_FALSE(ran);
  release = true;
  s.synchronize();
  CHECK(ran);
  side.synchronize();
}

TEST_CASE("pools watch for captures while one is under way, and not after its end") {
  ww::stream s;
  auto const under_way = [] {
    return ww::detail::captures_under_way.load(ww::detail::memory_order::relaxed);
  };
  unsigned const before = under_way();
  ww::capture_scope capture{s};
  CHECK(under_way() == before + 1);
  ww::graph const captured = capture.end();
  CHECK(under_way() == before);
  {
    ww::capture_scope const abandoned{s};
    CHECK(under_way() == before + 1);
  }
  CHECK(under_way() == before);
}

TEST_CASE("end() of an ended capture throws") {
  ww::stream s;
  ww::capture_scope* ended = nullptr;
  alignas(ww::capture_scope) unsigned char room[sizeof(ww::capture_scope)];
  ended = new (room) ww::capture_scope{s};
  static_cast<void>(ended->end());
  CHECK_THROWS_WITH(static_cast<void>(ended->end()), contains("no capture is active"));
  ww::capture_scope other{s};
  ended->~capture_scope();
  CHECK(s.is_capturing());
  CHECK(other.end().node_counts().total() == 0);
}

TEST_CASE("recapture updates in place, or instantiates again if the topology changes") {
  ww::stream s;
  device_array<int> x{std::vector<int>(10, 0)};
  ww::graph_replay step{0};
  auto const body = [&](int kernels, int amount) {
    return [&x, kernels, amount](ww::stream_ref c) {
      for (int i = 0; i < kernels; ++i) ww::for_each_index(c, 10, add{x.data(), amount});
    };
  };
  CHECK(step.recapture(s, body(1, 1)) == ww::graph_update_result::reinstantiated);
  step.launch(s);
  CHECK(step.recapture(s, body(1, 10)) == ww::graph_update_result::updated);
  step.launch(s);
  CHECK(step.recapture(s, body(3, 100)) == ww::graph_update_result::reinstantiated);
  step.launch(s);
  CHECK(x.fetch(s)[0] == 311);
  CHECK(step.statistics().captures == 3);
  CHECK(step.statistics().updates == 1);
  CHECK(step.statistics().instantiations == 2);
  CHECK(step.node_counts().kernels == 3);
}

TEST_CASE("after a failed recapture the old graph is replayed") {
  ww::stream s;
  device_array<int> x{std::vector<int>(10, 0)};
  ww::graph_replay step{0};
  step.run(s, [&](ww::stream_ref c) { ww::for_each_index(c, 10, add{x.data(), 1}); });
  CHECK_THROWS_AS(step.recapture(s, [](ww::stream_ref) { throw 1; }), int);
  step.launch(s);
  CHECK(x.fetch(s)[0] == 2);
}

TEST_CASE("a launch before any capture throws, and so after reset()") {
  ww::stream s;
  ww::graph_replay step{0};
  CHECK_THROWS_WITH(step.launch(s), contains("nothing has been captured"));
  int calls = 0;
  auto const body = [&](ww::stream_ref) { ++calls; };
  step.run(s, body);
  step.reset();
  CHECK_FALSE(step.captured());
  step.run(s, body);
  CHECK(calls == 2);
}

TEST_CASE("threads capture concurrently, each on its own stream") {
  constexpr int thread_count = 8;
  std::vector<std::unique_ptr<device_array<int>>> arrays;
  for (int t = 0; t < thread_count; ++t) {
    arrays.push_back(std::make_unique<device_array<int>>(std::vector<int>(50, 0)));
  }
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < thread_count; ++t) {
    threads.emplace_back([&, t] {
      try {
        int* const data = arrays[static_cast<std::size_t>(t)]->data();
        ww::stream s;
        ww::graph_replay step;
        for (int i = 0; i < 20; ++i) {
          auto const body = [&](ww::stream_ref c) { ww::for_each_index(c, 50, add{data, 1}); };
          if (i % 5 == 4) {
            step.recapture(s, body);
          }
          step.run(s, body);
        }
        s.synchronize();
      } catch (...) {
        ++failures;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(failures == 0);
  ww::stream s;
  for (auto const& array : arrays) CHECK(array->fetch(s)[49] == 20);
}

#if WARPWRIGHT_HOST_RUNTIME
TEST_CASE("after a recapture whose update fails the old graph is replayed") {
  namespace wt = ww::testing;
  ww::stream s;
  device_array<int> x{std::vector<int>(10, 0)};
  ww::graph_replay step{0};
  step.run(s, [&](ww::stream_ref c) { ww::for_each_index(c, 10, add{x.data(), 1}); });
  {
    wt::scoped_fault_plan const plan{
        wt::fault_plan{}.fail("cudaGraphExecUpdate", 1, cudaErrorUnknown)};
    CHECK_THROWS_AS(step.recapture(s,
                                   [&](ww::stream_ref c) {
                                     ww::for_each_index(c, 10, add{x.data(), 100});
                                   }),
                    ww::cuda_error);
  }
  step.launch(s);
  CHECK(x.fetch(s)[0] == 2);
  CHECK(step.statistics().updates == 0);
}

TEST_CASE("one replay is one CUDA call") {
  ww::stream s;
  device_array<int> x{std::vector<int>(10, 0)};
  ww::graph_replay step{0};
  auto const body = [&](ww::stream_ref c) {
    for (int i = 0; i < 20; ++i) ww::for_each_index(c, 10, add{x.data(), 1});
  };
  step.run(s, body);
  ww::testing::reset_call_counts();
  for (int i = 0; i < 10; ++i) step.run(s, body);
  CHECK(ww::testing::total_calls() == 10);
  CHECK(x.fetch(s)[0] == 220);
}

TEST_CASE("if any call of a captured step fails, the stream is not capturing and nothing leaks") {
  namespace wt = ww::testing;
  wt::reset_host_runtime();
  auto const once = [] {
    ww::stream s;
    ww::stream side;
    device_array<int> x{std::vector<int>(10, 0)};
    ww::graph_replay step;
    for (int amount = 0; amount < 3; ++amount) {
      auto const body = [&](ww::capture_scope& scope) {
        ww::for_each_index(scope, 10, add{x.data(), amount});
        scope.fork(side);
        ww::for_each_index(side, 10, add{x.data(), amount});
      };
      step.run(s, body);
      step.recapture(s, body);
    }
    s.synchronize();
    side.synchronize();
  };
  once();
  std::vector<wt::call_record> const calls = wt::calls();
  int failed_as_expected = 0;
  for (wt::call_record const& call : calls) {
    // cudaGetLastError cannot fail, and errors in destructors are not reported.
    if (call.name == "cudaGetLastError" || call.name == "cudaPeekAtLastError") continue;
    if (call.name == "cudaLogsCurrent") continue;  // for reports alone
    bool const of_destructor =
        call.name.find("Destroy") != std::string::npos || call.name == "cudaFree";
    // Of a constructor or of a destructor, by its number.
    bool const of_guard = call.name == "cudaThreadExchangeStreamCaptureMode";
    for (std::uint64_t nth = 1; nth <= call.count; ++nth) {
      CAPTURE(call.name, nth);
      std::exception_ptr thrown;
      {
        wt::scoped_fault_plan const plan{wt::fault_plan{}.fail(call.name, nth, cudaErrorUnknown)};
        thrown = thrown_by(once);
        CHECK(plan.hits() == 1);
      }
      CHECK(cudaPeekAtLastError() == cudaSuccess);
      if (of_destructor) {
        CHECK_FALSE(thrown);
      } else {
        if (!of_guard) CHECK(thrown);
        ++failed_as_expected;
        // An injected failure of cudaStreamEndCapture leaves the stream capturing; no call can end
        // that.
        if (call.name != "cudaStreamEndCapture") CHECK(wt::leak_report().empty());
      }
      wt::reset_host_runtime();
    }
  }
  CHECK(failed_as_expected > 30);
}
#endif

#if WARPWRIGHT_HOST_RUNTIME
TEST_CASE("a capture whose end fails without ending it is ended all the same") {
  ww::stream s;
  {
    ww::testing::scoped_fault_plan const faults{
        ww::testing::fault_plan{}.fail("cudaStreamEndCapture", 1, cudaErrorUnknown)};
    CHECK_THROWS_AS(static_cast<void>(ww::capture(s, [](ww::stream_ref) {})), ww::cuda_error);
  }
  CHECK_FALSE(s.is_capturing());
  CHECK(ww::detail::captures_under_way.load(ww::detail::memory_order::relaxed) == 0);
}
#endif
