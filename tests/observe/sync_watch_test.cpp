// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Waits that are planted on the host runtime, and calls of a scripted CUPTI.
#include "support/catch.hpp"

#include <warpwright/core/launch.hpp>
#include <warpwright/observe/sync_watch.hpp>
#include <warpwright/observe/trace.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace ww = warpwright;
namespace detail = warpwright::detail;
using Catch::Matchers::Contains;

namespace {

// Two streams, the first of which blocks with the legacy stream, and memory.
struct objects {
  objects() {
    cudaStreamCreate(&stream);
    cudaEventCreate(&event);
    cudaMalloc(&device, bytes);
    cudaMallocHost(&pinned, bytes);
    cudaDeviceSynchronize();
  }
  ~objects() {
    cudaDeviceSynchronize();
    cudaFreeHost(pinned);
    cudaFree(device);
    cudaEventDestroy(event);
    cudaStreamDestroy(stream);
  }
  // 200 ms of work: longer than a thread is kept from a busy processor.
  void work() const {
    cudaLaunchHostFunc(
        stream, [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(200)); },
        nullptr);
  }

  static constexpr std::size_t bytes = std::size_t{1} << 20U;
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  void* device = nullptr;
  void* pinned = nullptr;
  std::vector<char> pageable = std::vector<char>(bytes);
};

// A scripted CUPTI: what subscribed, and the calls that it is told of.
void (*subscribed)(void*, int, std::uint32_t, detail::callback_data const*) = nullptr;

detail::activity_functions scripted() {
  detail::activity_functions f{};
  warpwrightHostActivity(&f);
  f.subscribe = [](void**, void* callback, void*) {
    std::memcpy(&subscribed, &callback, sizeof callback);
    return 0;
  };
  f.unsubscribe = [](void*) { return 0; };
  f.waited = nullptr;
  return f;
}

template <class Parameters, class Body>
void call(char const* name, Parameters const& parameters, Body const& body) {
  int context = 0;
  detail::callback_data data{0, name, &parameters, nullptr, nullptr, &context};
  subscribed(nullptr, 2, 0, &data);
  body();
  data.at_end = 1;
  subscribed(nullptr, 2, 0, &data);
}

void nap() { std::this_thread::sleep_for(std::chrono::milliseconds(12)); }

}  // namespace

TEST_CASE("Each call that waits is found with its span, and nothing else is") {
  objects o;
  void* extra = nullptr;
  cudaMalloc(&extra, 64);
  ww::sync_watch watch;
  REQUIRE(watch.unavailable().empty());
  auto const planted = [&](char const* name, auto const& wait) {
    o.work();
    cudaEventRecord(o.event, o.stream);
    ww::span const span{name};
    wait();
  };
  planted("cudaStreamSynchronize", [&] { cudaStreamSynchronize(o.stream); });
  planted("cudaEventSynchronize", [&] { cudaEventSynchronize(o.event); });
  planted("cudaDeviceSynchronize", [&] { cudaDeviceSynchronize(); });
  planted("cudaMemcpy", [&] { cudaMemcpy(o.pinned, o.device, o.bytes, cudaMemcpyDefault); });
  planted("cudaMemcpyAsync", [&] {
    cudaMemcpyAsync(o.pageable.data(), o.device, o.bytes, cudaMemcpyDeviceToHost, o.stream);
  });
  planted("cudaFree", [&] { cudaFree(extra); });
  ww::sync_statistics const found = watch.statistics();
  CHECK(found.calls == 6);
  REQUIRE(found.places.size() == 6);
  for (ww::sync_place const& place : found.places) {
    CHECK(place.function == place.span);
    CHECK(place.calls == 1);
    CHECK(place.seconds > 0.0005);
    CHECK_THAT(place.call_site, Contains("observe_sync_watch"));
  }
  CHECK(found.places[0].seconds >= found.places[5].seconds);
  CHECK_THAT(watch.to_text(), Contains("host waits: 6 calls") && Contains("span cudaFree, from "));
  CHECK_THROWS_AS(watch.check(), std::runtime_error);
  CHECK_NOTHROW(watch.check());

  // A loop that does not wait, and waits for idle streams.
  for (int i = 0; i < 100; ++i) {
    cudaMemcpyAsync(o.device, o.pinned, o.bytes, cudaMemcpyHostToDevice, o.stream);
    cudaMemsetAsync(o.device, 0, o.bytes, o.stream);
    cudaEventRecord(o.event, o.stream);
    static_cast<void>(cudaEventQuery(o.event));
  }
  while (cudaStreamQuery(o.stream) == cudaErrorNotReady) std::this_thread::yield();
  cudaStreamSynchronize(o.stream);
  cudaDeviceSynchronize();
  cudaMemcpy(o.pageable.data(), o.device, o.bytes, cudaMemcpyDefault);
  CHECK_NOTHROW(watch.check());
}

TEST_CASE("Threads count, with their spans; beside a trace; and the next watch begins at 0") {
  objects o;
  ww::trace trace;
  {
    ww::sync_watch watch{ww::sync_watch_options{}.log(1)};
    REQUIRE(trace.unavailable().empty());
    CHECK_THAT(ww::sync_watch{}.unavailable(), Contains("another sync_watch"));
    auto step = trace.step();
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        objects const own;
        own.work();
        ww::span const span{std::string{"made at run time"}};
        cudaStreamSynchronize(own.stream);
      });
    }
    for (std::thread& thread : threads) thread.join();
    std::size_t found = 0;
    for (ww::sync_place const& place : watch.statistics().places) {
      if (place.span == "made at run time") found += place.calls;
    }
    CHECK(found == 4);
  }
  CHECK(ww::sync_watch{}.statistics().calls == 0);
  CHECK(trace.summary().steps == 1);
}

TEST_CASE("CUPTI's callbacks: the stream is asked, unless a capture forbids it") {
  objects o;
  struct {
    cudaStream_t stream;
  } const named{o.stream};
  struct {
    void *to, *from;
    std::size_t bytes, kind;
    cudaStream_t stream;
  } const copy{o.pageable.data(), o.device, 1, 2, o.stream},
      of_pinned{o.pinned, o.device, 1, 2, o.stream};
  detail::activity_functions const functions = scripted();
  ww::sync_watch watch{ww::sync_watch_options{}.min_seconds(10e-3), &functions};
  call("cudaStreamSynchronize", named, nap);  // idle
  call("cudaMemcpyAsync_v3020", copy, nap);
  call("cudaLaunchKernel", named, nap);
  CHECK(watch.statistics().calls == 0);
  o.work();
  call("cudaMemcpyAsync_v3020", copy, [] {});     // did not wait
  call("cudaMalloc", named, nap);                 // left work behind
  call("cudaMemcpyAsync_v3020", of_pinned, nap);  // a full queue, or no processor
  CHECK(watch.statistics().calls == 0);
  call("cudaMemcpyAsync_v3020", copy, nap);
  call("cudaStreamSynchronize_ptsz", named,
       [&] { call("cuStreamSynchronize", named, [&] { cudaStreamSynchronize(o.stream); }); });
  CHECK(cudaGetLastError() == cudaSuccess);
  ww::sync_statistics const found = watch.statistics();
  CHECK(found.calls == 2);
  CHECK(found.places.at(0).function == "cudaStreamSynchronize_ptsz");
  CHECK(found.places.at(1).function == "cudaMemcpyAsync");
  o.work();
  call("cudaFree", named, [&] { cudaStreamSynchronize(o.stream); });
  CHECK(watch.statistics().calls == 3);

  cudaStreamBeginCapture(o.stream, cudaStreamCaptureModeGlobal);
  call("cudaStreamSynchronize", named, nap);
  call("cudaMemcpy", named, nap);
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(o.stream, &graph) == cudaSuccess);
  cudaGraphDestroy(graph);
  CHECK(watch.statistics().calls == 3);
}

TEST_CASE("A foreign profiler, an old CUPTI, and refused options") {
  auto f = scripted();
  f.subscribe = [](void**, void*, void*) { return 39; };
  ww::sync_watch taken{{}, &f};
  CHECK_THAT(taken.to_text(), Contains("another profiler uses CUPTI"));
  CHECK(taken.statistics().calls == 0);
  f.subscribe = nullptr;
  CHECK_THAT((ww::sync_watch{{}, &f}.unavailable()), Contains("lacks cuptiSubscribe"));
  CHECK_THROWS_AS(ww::sync_watch_options{}.log(0), std::invalid_argument);
  CHECK_THROWS_WITH(ww::sync_watch_options{}.min_seconds(-1), Contains("min_seconds(-1)"));
}

namespace {

std::unique_ptr<ww::sync_watch> exchanged;  // by another one, in a callback
bool unsubscribed = false;
std::atomic<int> subscribers{0};

}  // namespace

TEST_CASE("A call that ends behind its watch is not the next one's") {
  auto f = scripted();
  f.waited = [] {
    std::thread{[] {
      auto const next = scripted();
      exchanged.reset();
      exchanged = std::make_unique<ww::sync_watch>(ww::sync_watch_options{}, &next);
    }}.join();
    return true;
  };
  exchanged = std::make_unique<ww::sync_watch>(ww::sync_watch_options{}, &f);
  REQUIRE(exchanged->unavailable().empty());
  cudaStream_t stream = nullptr;
  call("cudaStreamSynchronize", stream, nap);
  CHECK(exchanged->statistics().calls == 0);
  exchanged.reset();
}

TEST_CASE("In the child of a fork a watch is off, and calls CUPTI no more") {
  auto f = scripted();
  f.unsubscribe = [](void*) {
    unsubscribed = true;
    return 0;
  };
  auto watch = std::make_unique<ww::sync_watch>(ww::sync_watch_options{}, &f);
  pid_t const child = fork();
  if (child == 0) {
    bool const off = watch->statistics().calls == 0 &&
                     watch->to_text().find("child of a fork()") != std::string::npos;
    watch.reset();
    _exit(off && !unsubscribed ? 7 : 1);
  }
  REQUIRE(child > 0);
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 7);
  watch.reset();
  CHECK(unsubscribed);
}

TEST_CASE("A trace that begins meanwhile is no foreign profiler") {
  auto f = scripted();
  f.subscribe = [](void**, void*, void*) {
    if (subscribers.fetch_add(1) != 0) return 39;
    nap();
    return 0;
  };
  f.unsubscribe = [](void*) {
    --subscribers;
    return 0;
  };
  f.register_callbacks = [](detail::activity_functions::request,
                            detail::activity_functions::complete) { return 0; };
  std::string trace_problem = "none";
  std::thread beginning{[&] { trace_problem = ww::trace{{}, f}.unavailable(); }};
  while (subscribers == 0) std::this_thread::yield();
  ww::sync_watch const watch{{}, &f};
  beginning.join();
  CHECK(watch.unavailable() == "");
  CHECK(trace_problem == "");
}
