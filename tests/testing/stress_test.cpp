// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Eight threads with eight streams each make all kinds of calls concurrently; every byte is
// checked.
#include <warpwright/core/launch.hpp>
#include <warpwright/testing/host_runtime.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "support/catch.hpp"

namespace {

namespace ww = warpwright;

constexpr int thread_count = 8;
constexpr std::size_t stream_count = 8;
constexpr std::size_t cell_count = 8;
constexpr std::size_t graph_cells =
    2;  // the first cells' addresses do not change: graphs contain them
constexpr std::size_t size = 512;
constexpr std::size_t bytes = size * sizeof(std::uint32_t);

struct mix {
  std::uint32_t* x;
  void operator()(std::uint64_t i) const { x[i] = x[i] * 3 + static_cast<std::uint32_t>(i); }
};

struct add {
  std::uint32_t* x;
  std::uint32_t const* y;
  void operator()(std::uint64_t i) const { x[i] += y[i]; }
};

void mixed(std::vector<std::uint32_t>& x) {
  for (std::size_t i = 0; i < size; ++i) x[i] = x[i] * 3 + static_cast<std::uint32_t>(i);
}

#define OK(call) ww::check((call), #call)

/// One counter in device memory that all threads increment, ordered only by an event.
struct shared_cell {
  std::mutex mutex;
  std::uint32_t* memory = nullptr;
  cudaEvent_t event = nullptr;
  std::uint64_t additions = 0;
};

/// An array on the device, its expected contents, and the stream of its newest work.
struct cell {
  std::uint32_t* device = nullptr;
  std::vector<std::uint32_t> expected;
  std::size_t stream = 0;
};

class worker {
 public:
  worker(std::uint64_t seed, shared_cell& shared) : random_{seed}, shared_{shared} {
    for (cudaStream_t& s : streams_)
      OK(cudaStreamCreateWithFlags(&s,
                                   random_() % 4 == 0 ? cudaStreamDefault : cudaStreamNonBlocking));
    OK(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
    for (std::size_t c = 0; c < cell_count; ++c) {
      void* p = nullptr;
      if (c < graph_cells) {
        OK(cudaMalloc(&p, bytes));
      } else {
        OK(cudaMallocAsync(&p, bytes, streams_[0]));
      }
      cells_[c].device = static_cast<std::uint32_t*>(p);
      set(cells_[c], 0);
    }
    for (std::size_t c = 0; c < graph_cells; ++c) record(c);
  }

  ~worker() {
    for (cudaGraphExec_t exec : execs_) ww::detail::discard(cudaGraphExecDestroy(exec));
    for (cell const& each : cells_) {
      if (each.device != nullptr) ww::detail::discard(cudaFree(each.device));
    }
    for (cudaStream_t s : streams_) ww::detail::discard(cudaStreamDestroy(s));
    ww::detail::discard(cudaEventDestroy(event_));
  }
  worker(worker const&) = delete;
  worker& operator=(worker const&) = delete;

  void step() {
    cell& x = cells_[random_() % cell_count];
    ++steps;
    switch (random_() % 12) {
      case 0:
        set(x, static_cast<int>(random_() % 256));
        break;
      case 1:
      case 2:
        ww::for_each_index(move(x), size, mix{x.device});
        mixed(x.expected);
        break;
      case 3:
        upload(x);
        break;
      case 4:
        copy(x, cells_[random_() % cell_count]);
        break;
      case 5:
        combine(x, cells_[random_() % cell_count]);
        break;
      case 6:
        replace(graph_cells + random_() % (cell_count - graph_cells));
        break;
      case 7:
        replay(random_() % graph_cells);
        break;
      case 8:
        ++host_calls_wanted;
        OK(cudaLaunchHostFunc(
            move(x).get(),
            [](void* raw) { static_cast<std::atomic<std::uint64_t>*>(raw)->fetch_add(1); },
            &host_calls));
        break;
      case 9:
        add_to_shared();
        break;
      case 10:
        churn();
        break;
      default:
        verify(x);
    }
  }

  void finish() {
    for (cell& each : cells_) verify(each);
    for (cudaStream_t s : streams_) OK(cudaStreamSynchronize(s));
    if (host_calls.load() != host_calls_wanted) fail("host functions were lost");
  }

  std::uint64_t steps = 0;
  std::string wrong;

 private:
  void fail(std::string const& text) {
    if (wrong.empty()) wrong = text + " at step " + std::to_string(steps);
  }

  // Orders a stream after the cell's work in other streams.
  ww::stream_ref move(cell& x) { return move_to(x, random_() % stream_count); }
  ww::stream_ref move_to(cell& x, std::size_t stream) {
    if (stream != x.stream) {
      OK(cudaEventRecord(event_, streams_[x.stream]));
      OK(cudaStreamWaitEvent(streams_[stream], event_, 0));
      x.stream = stream;
    }
    return ww::stream_ref{streams_[stream]};
  }

  void set(cell& x, int value) {
    OK(cudaMemsetAsync(x.device, value, bytes, move(x).get()));
    x.expected.assign(size, static_cast<std::uint32_t>(value) * 0x01010101U);
  }

  // The source is destroyed when the call returns.
  void upload(cell& x) {
    std::vector<std::uint32_t> values(size);
    for (std::uint32_t& each : values) each = static_cast<std::uint32_t>(random_());
    OK(cudaMemcpyAsync(x.device, values.data(), bytes, cudaMemcpyHostToDevice, move(x).get()));
    x.expected = std::move(values);
  }

  void copy(cell& to, cell& from) {
    if (&to == &from) return;
    ww::stream_ref const s = move(to);
    move_to(from, to.stream);
    OK(cudaMemcpyAsync(to.device, from.device, bytes, cudaMemcpyDeviceToDevice, s.get()));
    to.expected = from.expected;
  }

  void combine(cell& to, cell& from) {
    ww::stream_ref const s = move(to);
    move_to(from, to.stream);
    ww::for_each_index(s, size, add{to.device, from.device});
    std::vector<std::uint32_t> const y = from.expected;
    for (std::size_t i = 0; i < size; ++i) to.expected[i] += y[i];
  }

  void replace(std::size_t which) {
    cell& x = cells_[which];
    OK(cudaFreeAsync(x.device, move(x).get()));
    x.device = nullptr;
    x.stream = random_() % stream_count;
    void* p = nullptr;
    OK(cudaMallocAsync(&p, bytes, streams_[x.stream]));
    x.device = static_cast<std::uint32_t*>(p);
    OK(cudaMemsetAsync(x.device, 5, bytes, streams_[x.stream]));
    x.expected.assign(size, 0x05050505U);
  }

  void record(std::size_t which) {
    cell& x = cells_[which];
    cudaGraph_t graph = nullptr;
    cudaStream_t const s = streams_[x.stream];
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < 3; ++i) ww::for_each_index(ww::stream_ref{s}, size, mix{x.device});
    OK(cudaStreamEndCapture(s, &graph));
    OK(cudaGraphInstantiate(&execs_[which], graph, 0));
    OK(cudaGraphDestroy(graph));
  }

  void replay(std::size_t which) {
    cell& x = cells_[which];
    OK(cudaGraphLaunch(execs_[which], move(x).get()));
    for (int i = 0; i < 3; ++i) mixed(x.expected);
  }

  void add_to_shared() {
    cudaStream_t const s = streams_[random_() % stream_count];
    std::lock_guard<std::mutex> const lock{shared_.mutex};
    OK(cudaStreamWaitEvent(s, shared_.event, 0));
    ww::for_each_index(ww::stream_ref{s}, 1, mix{shared_.memory});
    OK(cudaEventRecord(shared_.event, s));
    ++shared_.additions;
  }

  // Objects that are destroyed while they have work.
  void churn() {
    cudaStream_t s = nullptr;
    cudaEvent_t e = nullptr;
    void *p = nullptr, *q = nullptr;
    OK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    OK(cudaEventCreate(&e));
    OK(cudaMallocAsync(&p, 1 + random_() % 100000, s));
    OK(cudaMemsetAsync(p, 1, 1, s));
    OK(cudaEventRecord(e, s));
    OK(cudaFreeAsync(p, s));
    OK(cudaEventDestroy(e));
    OK(cudaStreamDestroy(s));
    if (random_() % 4 == 0) {
      OK(cudaMalloc(&q, 1 + random_() % 100000));
      OK(cudaFree(q));
    }
  }

  void verify(cell& x) {
    std::vector<std::uint32_t> values(size, 0);
    ww::stream_ref const s = move(x);
    OK(cudaMemcpyAsync(values.data(), x.device, bytes, cudaMemcpyDeviceToHost, s.get()));
    OK(cudaStreamSynchronize(s.get()));
    if (values != x.expected) fail("a cell holds something else");
  }

  std::mt19937_64 random_;
  shared_cell& shared_;
  std::array<cudaStream_t, stream_count> streams_{};
  std::array<cell, cell_count> cells_{};
  std::array<cudaGraphExec_t, graph_cells> execs_{};
  cudaEvent_t event_ = nullptr;
  std::uint64_t host_calls_wanted = 0;
  std::atomic<std::uint64_t> host_calls{0};
};

}  // namespace

TEST_CASE("eight threads with eight streams each") {
  ww::testing::reset_host_runtime(
      ww::testing::host_runtime_options{}.with_memory_bytes(std::size_t{256} << 20U));
  char const* const wanted = std::getenv("WARPWRIGHT_TEST_SEED");
  std::uint64_t const seed =
      wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : std::random_device{}();
  std::printf("WARPWRIGHT_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  INFO("seed " << seed);
  {
    shared_cell shared;
    void* p = nullptr;
    REQUIRE(cudaMalloc(&p, 4) == cudaSuccess);
    REQUIRE(cudaMemset(p, 1, 4) == cudaSuccess);
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    shared.memory = static_cast<std::uint32_t*>(p);
    REQUIRE(cudaEventCreateWithFlags(&shared.event, cudaEventDisableTiming) == cudaSuccess);
    std::array<std::string, thread_count> wrong;
    std::array<std::uint64_t, thread_count> steps{};
    std::vector<std::thread> crew;
    auto const end = std::chrono::steady_clock::now() + std::chrono::milliseconds(1500);
    for (std::size_t t = 0; t < thread_count; ++t) {
      crew.emplace_back([&, t] {
        try {
          worker mine{seed + t, shared};
          while (std::chrono::steady_clock::now() < end && mine.wrong.empty()) mine.step();
          mine.finish();
          wrong[t] = mine.wrong;
          steps[t] = mine.steps;
        } catch (std::exception const& error) {
          wrong[t] = error.what();
        }
      });
    }
    for (std::thread& each : crew) each.join();
    std::uint64_t total = 0;
    for (std::size_t t = 0; t < thread_count; ++t) {
      INFO("thread " << t);
      CHECK(wrong[t] == "");
      CHECK(steps[t] > 0);
      total += steps[t];
    }
    std::printf("%llu steps, %llu through the shared cell\n",
                static_cast<unsigned long long>(total),
                static_cast<unsigned long long>(shared.additions));
    std::uint32_t expected = 0x01010101U, found = 0;
    for (std::uint64_t i = 0; i < shared.additions; ++i) expected *= 3;
    REQUIRE(cudaMemcpy(&found, p, sizeof found, cudaMemcpyDeviceToHost) == cudaSuccess);
    CHECK(found == expected);
    REQUIRE(cudaFree(p) == cudaSuccess);
    REQUIRE(cudaEventDestroy(shared.event) == cudaSuccess);
  }
  for (std::string const& line : ww::testing::leak_report()) {
    INFO(line);
    CHECK(line == "");
  }
}
