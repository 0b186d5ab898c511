// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What a request costs beside a model that does nothing: the batcher, and a queue with a mutex and
// a std::promise a request.
#include <warpwright/memory/buffer.hpp>
#include <warpwright/memory/pinned.hpp>
#include <warpwright/serve/batcher.hpp>

#include <benchmark/benchmark.h>

#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

namespace ww = warpwright;

namespace {

constexpr std::size_t window = 256;

ww::latency_model model() {
  return ww::latency_model::fit({{1, 1e-6, 2e-6, 0}, {64, 2e-6, 4e-6, 0}});
}

struct device_and_host {
  static ww::batcher_options options(bool host) {
    return ww::batcher_options{}.max_items(64).host_data(host);
  }
};

void copy_host(ww::batch<int, int>& b, ww::stream_ref) {
  for (std::size_t i = 0; i < b.size(); ++i) b.outputs()[i] = b.inputs()[i];
}
void copy_device(ww::batch<int, int>& b, ww::stream_ref s) {
  ww::check(
      cudaMemcpyAsync(b.outputs(), b.inputs(), b.size() * sizeof(int), cudaMemcpyDeviceToDevice, s),
      "cudaMemcpyAsync");
}

void run_pipelined(benchmark::State& state, ww::request const& r) {
  ww::stream stream;
  ww::batcher<int, int> serve{device_and_host::options(true), stream, model(), copy_host};
  std::vector<ww::ticket<int>> tickets(window);
  int i = 0;
  for (auto _ : state) {
    ww::ticket<int>& t = tickets[static_cast<std::size_t>(i) % window];
    benchmark::DoNotOptimize(t.wait());
    t = serve.submit(i++, r);
  }
}
void pipelined(benchmark::State& state) { run_pipelined(state, ww::request{}); }
void pipelined_with_deadline(benchmark::State& state) {
  run_pipelined(state, ww::request{}.deadline(1.0));
}

// Every thread keeps a window of requests.
void pipelined_threads(benchmark::State& state) {
  static ww::stream* stream = nullptr;
  static ww::batcher<int, int>* serve = nullptr;
  if (state.thread_index() == 0) {
    stream = new ww::stream;
    serve = new ww::batcher<int, int>{device_and_host::options(true), *stream, model(), copy_host};
  }
  std::vector<ww::ticket<int>> tickets(window);
  int i = 0;
  for (auto _ : state) {
    ww::ticket<int>& t = tickets[static_cast<std::size_t>(i) % window];
    benchmark::DoNotOptimize(t.wait());
    t = serve->submit(i++);
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()));
  tickets.clear();
  if (state.thread_index() == 0) {
    delete serve;
    delete stream;
  }
}

void one_at_a_time(benchmark::State& state) {
  bool const host = state.range(0) != 0;
  ww::stream stream;
  ww::batcher<int, int> serve{device_and_host::options(host), stream, model(),
                              [host](ww::batch<int, int>& b, ww::stream_ref s) {
                                host ? copy_host(b, s) : copy_device(b, s);
                              }};
  int i = 0;
  for (auto _ : state) {
    ww::ticket<int> t = serve.submit(i++);
    benchmark::DoNotOptimize(t.wait());
  }
}

// The same copies, called by the thread itself.
void direct_call(benchmark::State& state) {
  ww::stream stream;
  ww::memory_pool pool{ww::current_device()};
  ww::pinned_pool pinned;
  ww::device_buffer<int> const on_device{pool, stream, 2};
  ww::pinned_buffer<int> const on_host{pinned, 2};
  int* const device = on_device.data();
  int* const host = on_host.data();
  for (auto _ : state) {
    cudaMemcpyAsync(device, host, sizeof(int), cudaMemcpyHostToDevice, stream);
    cudaMemcpyAsync(device + 1, device, sizeof(int), cudaMemcpyDeviceToDevice, stream);
    cudaMemcpyAsync(host + 1, device + 1, sizeof(int), cudaMemcpyDeviceToHost, stream);
    ww::check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  }
}

/// The queue that one would write by hand.
class promise_queue {
 public:
  ~promise_queue() {
    {
      std::lock_guard<std::mutex> const lock{mutex_};
      ending_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }
  std::future<int> submit(int value) {
    entry e{value, {}};
    std::future<int> answer = e.answer.get_future();
    {
      std::lock_guard<std::mutex> const lock{mutex_};
      waiting_.push_back(std::move(e));
    }
    wake_.notify_one();
    return answer;
  }

 private:
  struct entry {
    int value;
    std::promise<int> answer;
  };
  void run() {
    std::vector<entry> batch;
    for (;;) {
      {
        std::unique_lock<std::mutex> lock{mutex_};
        wake_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
        if (ending_ && waiting_.empty()) return;
        while (!waiting_.empty() && batch.size() < 64) {
          batch.push_back(std::move(waiting_.front()));
          waiting_.pop_front();
        }
      }
      for (entry& e : batch) e.answer.set_value(e.value);
      batch.clear();
    }
  }
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<entry> waiting_;
  bool ending_ = false;
  std::thread thread_{[this] { run(); }};
};

void promise_pipelined(benchmark::State& state) {
  promise_queue serve;
  std::vector<std::future<int>> answers(window);
  int i = 0;
  for (auto _ : state) {
    std::future<int>& f = answers[static_cast<std::size_t>(i) % window];
    if (f.valid()) benchmark::DoNotOptimize(f.get());
    f = serve.submit(i++);
  }
}
void promise_one_at_a_time(benchmark::State& state) {
  promise_queue serve;
  int i = 0;
  for (auto _ : state) benchmark::DoNotOptimize(serve.submit(i++).get());
}

BENCHMARK(pipelined)->UseRealTime();
BENCHMARK(pipelined_with_deadline)->UseRealTime();
BENCHMARK(promise_pipelined)->UseRealTime();
BENCHMARK(pipelined_threads)->Threads(4)->Threads(16)->UseRealTime();
BENCHMARK(one_at_a_time)->Arg(1)->Arg(0)->ArgName("host")->UseRealTime();
BENCHMARK(promise_one_at_a_time)->UseRealTime();
BENCHMARK(direct_call)->UseRealTime();

}  // namespace
