// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A loop over batches that a prefetcher feeds, from the prefetcher's construction until the last
// work is done, beside its slowest stage alone and beside the same loop with cudaMemcpy of pageable
// memory. Each round measures all three; `ratio` is the median of loop / slowest stage. The sources
// write page-locked memory: `source` copies from a large array into as many arrays as the ring has
// slots (depth 0: the default), in `copy` and `compute` it does nothing. With results each batch
// also goes back, through a result_collector; the copies alone then run in both directions at once.
// `loaded_ms` is the source alone while as much is copied to the device: both need the host's
// memory.
#include <benchmark/benchmark.h>

#include <warpwright/core/launch.hpp>
#include <warpwright/stream/collect.hpp>
#include <warpwright/stream/prefetch.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace ww = warpwright;

namespace {

#if WARPWRIGHT_HOST_RUNTIME
constexpr int rounds = 2;  // shows that it works, never a speed
constexpr std::size_t batch_count = 16;
constexpr int kernel_steps = 1000;
#else
constexpr int rounds = 9;
constexpr std::size_t batch_count = 400;
constexpr int kernel_steps = 100000;  // some 300 us
#endif

enum class bound : std::int64_t { source, copy, compute };

// One block that is busy for a while, and reads the batch.
struct busy {
  float const* in;
  float* out;
  int steps;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const {
    float x = in[i];
    for (int step = 0; step < steps; ++step) x = x * 0.999F + 1e-3F;
    out[i] = x;
  }
};

using clock = std::chrono::steady_clock;

double seconds_since(clock::time_point start) {
  return std::chrono::duration<double>(clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

class loop {
 public:
  loop(bound what, std::size_t batch_bytes, unsigned workers, bool results, unsigned depth)
      : what_{what},
        depth_{depth},
        size_{batch_bytes / sizeof(float)},
        workers_{workers},
        results_{results},
        // Larger than the processor's caches.
        pixels_(what == bound::source ? (std::size_t{1} << 28U) : size_, 1.0F),
        host_(size_, 0.0F),
        pinned_{ww::pinned_pool_options{}.initial_bytes(batch_bytes *
                                                        std::max(workers + 4, depth + 1) * 4)} {
    out_ = on_device(1024);
    in_ = on_device(batch_bytes);
    from_ = on_device(batch_bytes);
    // The device memory of the ring, so that the loop's construction maps none.
    ww::prefetcher<float> const warm{
        pool_, pinned_, size_, [](float*, std::size_t) -> std::size_t { return 0; }, options()};
    if (results) {
      ww::result_collector<float> const also{
          pool_, pinned_, size_, [](float const*, std::size_t, std::size_t) {}, options()};
    }
  }
  ~loop() {
    ww::detail::discard(cudaFree(out_));
    ww::detail::discard(cudaFree(in_));
    ww::detail::discard(cudaFree(from_));
  }
  loop(loop const&) = delete;
  loop& operator=(loop const&) = delete;

  double prefetched() {
    auto const start = clock::now();
    ww::prefetcher<float> batches{pool_, pinned_, size_,
                                  [this](float* to, std::size_t i) -> std::size_t {
                                    if (i >= batch_count) return 0;
                                    fill(to, i);
                                    return size_;
                                  },
                                  options()};
    if (results_) {
      ww::result_collector<float> results{pool_, pinned_, size_,
                                          [](float const*, std::size_t, std::size_t) {}, options()};
      while (ww::prefetched<float> const batch = batches.next(stream_)) {
        ww::result_slot<float> const out = results.next(stream_);
        work(batch.data(), out.data());
      }
      results.finish();
    } else {
      while (ww::prefetched<float> const batch = batches.next(stream_)) work(batch.data(), out_);
    }
    stream_.synchronize();
    double const seconds = seconds_since(start);
    statistics_ = batches.statistics();
    return seconds;
  }

  // The slowest stage without the others.
  double alone() {
    auto const start = clock::now();
    if (what_ == bound::source) {
      fill_all();
    } else if (what_ == bound::copy) {
      copy_all(results_);
    } else {
      for (std::size_t i = 0; i < batch_count; ++i) work(in_, out_);
      stream_.synchronize();
    }
    return seconds_since(start);
  }

  double source_while_copying() {
    std::thread copies{[this] { copy_all(false); }};
    auto const start = clock::now();
    fill_all();
    double const seconds = seconds_since(start);
    copies.join();
    return seconds;
  }

  // Without a prefetcher: fill, copy, work, one after another.
  double by_hand() {
    auto const start = clock::now();
    for (std::size_t i = 0; i < batch_count; ++i) {
      fill(host_.data(), i);
      ww::check(cudaMemcpy(in_, host_.data(), size_ * sizeof(float), cudaMemcpyHostToDevice),
                "cudaMemcpy");
      work(in_, out_);
      stream_.synchronize();
    }
    return seconds_since(start);
  }

  [[nodiscard]] ww::prefetch_statistics const& statistics() const { return statistics_; }

 private:
  [[nodiscard]] ww::prefetch_options options() const {
    ww::prefetch_options const made = ww::prefetch_options{}.workers(workers_).max_bytes(0);
    return depth_ == 0 ? made : made.depth(depth_);
  }
  void fill_all() {
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < workers_; ++t) {
      threads.emplace_back([this, t] {
        // As many arrays as the ring has for a worker: one alone would stay in the caches.
        std::size_t const places = (slots() + workers_ - 1) / workers_;
        auto* const to = static_cast<float*>(pinned_.allocate(places * size_ * sizeof(float)));
        for (std::size_t i = t; i < batch_count; i += workers_) {
          fill(to + i / workers_ % places * size_, i);
        }
        pinned_.deallocate(to, places * size_ * sizeof(float));
      });
    }
    for (std::thread& each : threads) each.join();
  }
  void copy_all(bool both_ways) {
    std::size_t const bytes = size_ * sizeof(float);
    void* const up = pinned_.allocate(bytes);
    void* const down = pinned_.allocate(bytes);
    ww::stream const back;
    for (std::size_t i = 0; i < batch_count; ++i) {
      ww::check(cudaMemcpyAsync(in_, up, bytes, cudaMemcpyHostToDevice, stream_.get()),
                "cudaMemcpyAsync");
      if (!both_ways) continue;
      ww::check(cudaMemcpyAsync(down, from_, bytes, cudaMemcpyDeviceToHost, back.get()),
                "cudaMemcpyAsync");
    }
    stream_.synchronize();
    back.synchronize();
    pinned_.deallocate(up, bytes);
    pinned_.deallocate(down, bytes);
  }
  static float* on_device(std::size_t bytes) {
    void* memory = nullptr;
    ww::check(cudaMalloc(&memory, bytes), "cudaMalloc");
    return static_cast<float*>(memory);
  }
  [[nodiscard]] std::size_t slots() const { return depth_ == 0 ? workers_ + 3 : depth_; }
  void fill(float* to, std::size_t batch) const {
    if (what_ != bound::source) return;
    std::size_t const places = pixels_.size() / size_;
    std::memcpy(to, pixels_.data() + batch % places * size_, size_ * sizeof(float));
  }
  void work(float const* in, float* out) {
    ww::for_each_index(stream_, 32, busy{in, out, what_ == bound::compute ? kernel_steps : 1});
  }

  bound what_;
  unsigned depth_;
  std::size_t size_;
  unsigned workers_;
  bool results_;
  std::vector<float> pixels_;
  std::vector<float> host_;
  ww::stream stream_;
  ww::memory_pool pool_{ww::current_device()};
  ww::pinned_pool pinned_;
  float* out_ = nullptr;
  float* in_ = nullptr;
  float* from_ = nullptr;
  ww::prefetch_statistics statistics_;
};

void feed(benchmark::State& state) {
  auto const what = static_cast<bound>(state.range(0));
  auto const bytes = static_cast<std::size_t>(state.range(1)) << 10U;
  loop l{what, bytes, static_cast<unsigned>(state.range(2)), state.range(3) != 0,
         static_cast<unsigned>(state.range(4))};
  l.prefetched();  // warms up
  l.alone();
  std::vector<double> ratios;
  std::vector<double> alone;
  std::vector<double> by_hand;
  std::vector<double> loaded;
  for (auto _ : state) {
    alone.push_back(l.alone());
    double const seconds = l.prefetched();
    by_hand.push_back(l.by_hand());
    if (what == bound::source) loaded.push_back(l.source_while_copying());
    ratios.push_back(seconds / alone.back());
    state.SetIterationTime(seconds);
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(batch_count * bytes));
  state.counters["ratio"] = median(ratios);
  state.counters["worst_ratio"] = *std::max_element(ratios.begin(), ratios.end());
  state.counters["alone_ms"] = 1e3 * median(alone);
  state.counters["by_hand_ms"] = 1e3 * median(by_hand);
  constexpr char const* names[] = {"unknown", "source", "copy", "caller", "depth"};
  if (!loaded.empty()) state.counters["loaded_ms"] = 1e3 * median(loaded);
  state.SetLabel(std::string{"limit="} + names[static_cast<int>(l.statistics().limit())]);
}

void sizes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"bound", "KiB", "workers", "results", "depth"});
  for (std::int64_t const what : {0, 1, 2}) {
    for (std::int64_t const kib : {256, 1024, 4096}) {
      for (std::int64_t const results : {0, 1}) b->Args({what, kib, 1, results, 0});
    }
  }
  b->Args({0, 4096, 4, 0, 0})->Args({1, 4096, 1, 1, 12});  // more workers, a deeper ring
  b->Iterations(rounds)->Repetitions(1)->UseManualTime()->Unit(benchmark::kMillisecond);
}
BENCHMARK(feed)->Name("prefetch_loop")->Apply(sizes);

}  // namespace
