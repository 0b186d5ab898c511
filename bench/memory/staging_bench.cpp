// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Copies between pageable memory and the device: staging, the cudaMemcpy that it replaces, and the
// link's limit (cudaMemcpyAsync of page-locked memory), over the same arrays in interleaved
// samples, from the call until the host has seen the stream idle, and of call_to_device until the
// call returns, when the array may be changed; the number at the end is that of staging's threads.
// cuda_memcpy_async is of pageable memory, too: a stream costs what it has beyond cuda_memcpy. Not
// interleaved: the first copy of an object, copies of several callers, uploads while a download
// waits for a busy stream, and what the host's own memory allows.
#include <benchmark/benchmark.h>

#include <warpwright/memory/staging.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "support/interleaved.hpp"
#include "support/keep_busy.hpp"

namespace ww = warpwright;

namespace {

constexpr std::int64_t kib = 1024;
constexpr std::int64_t mib = 1024 * kib;
constexpr std::int64_t gib = 1024 * mib;

// Resident (touched) pageable memory, and device memory, for one benchmark.
class fixture {
 public:
  explicit fixture(std::size_t bytes) : host(bytes, 1) {
    ww::check(cudaMalloc(&device, bytes), "cudaMalloc");
    ww::check(cudaMemset(device, 0, bytes), "cudaMemset");
    ww::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
  ~fixture() { static_cast<void>(cudaFree(device)); }
  fixture(fixture const&) = delete;
  fixture& operator=(fixture const&) = delete;
  std::vector<unsigned char> host;
  void* device = nullptr;
};

void count(benchmark::State& state) {
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

// The first copy of an object, whose constructor is not timed.
void staging_first_copy(benchmark::State& state) {
  auto const bytes = static_cast<std::size_t>(state.range(0));
  fixture f{bytes};
  ww::stream const s;
  ww::pinned_pool pinned{ww::pinned_pool_options{}.initial_bytes(64 * mib)};
  for (auto _ : state) {
    state.PauseTiming();
    {
      ww::staging staging{pinned, ww::staging_options{}.threads(8)};
      state.ResumeTiming();
      staging.copy_to_device(s, f.device, f.host.data(), bytes);
      s.synchronize();
      state.PauseTiming();
    }
    state.ResumeTiming();
  }
  count(state);
}
// Few: to construct an object takes far longer than what is timed.
BENCHMARK(staging_first_copy)->Arg(16 * kib)->Arg(16 * mib)->Iterations(200)->UseRealTime();

std::unique_ptr<ww::pinned_pool> shared_pinned;
std::unique_ptr<ww::staging> shared_staging;

// Several callers of one object, each with memory and a stream of its own.
void staging_callers(benchmark::State& state) {
  auto const bytes = static_cast<std::size_t>(state.range(0));
  fixture f{bytes};
  ww::stream const s;
  for (auto _ : state) {
    shared_staging->copy_to_device(s, f.device, f.host.data(), bytes);
    s.synchronize();
  }
  count(state);
}
BENCHMARK(staging_callers)
    ->Arg(mib)
    ->Arg(64 * mib)
    ->Setup([](benchmark::State const&) {
      shared_pinned = std::make_unique<ww::pinned_pool>();
      shared_staging =
          std::make_unique<ww::staging>(*shared_pinned, ww::staging_options{}.threads(8));
    })
    ->Teardown([](benchmark::State const&) {
      shared_staging.reset();
      shared_pinned.reset();
    })
    ->Threads(8)
    ->UseRealTime();

// The host's memory: as many threads as staging has copy between arrays of the host.
void host_memcpy(benchmark::State& state) {
  std::size_t const bytes = static_cast<std::size_t>(state.range(0)) / 8;
  std::vector<unsigned char> const from(bytes, 1);
  std::vector<unsigned char> to(bytes, 2);
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), bytes);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes));
}
BENCHMARK(host_memcpy)->Arg(gib)->Threads(8)->UseRealTime();

// ---- Uploads while a download of another stream waits ----

// Microseconds of some uploads of 1 MiB, the median.
double upload_us(ww::staging& staging, ww::stream_ref s, fixture& f) {
  std::vector<double> us;
  for (int i = 0; i < 21; ++i) {
    auto const begin = std::chrono::steady_clock::now();
    staging.copy_to_device(s, f.device, f.host.data(), f.host.size());
    s.synchronize();
    std::chrono::duration<double, std::micro> const time = std::chrono::steady_clock::now() - begin;
    us.push_back(time.count());
  }
  std::sort(us.begin(), us.end());
  return us[us.size() / 2];
}

// The time is that of an upload of 1 MiB; alone_us what it takes without the download, which waits
// for a kernel of 500 ms.
void upload_beside_waiting_download(benchmark::State& state) {
  constexpr unsigned busy_us = 500000;
  fixture small{static_cast<std::size_t>(mib)};
  fixture large{static_cast<std::size_t>(64 * mib)};
  ww::stream const idle;
  ww::stream const busy;
  ww::pinned_pool pinned;
  ww::staging staging{pinned, ww::staging_options{}.threads(8)};
  double alone = 0;
  for (auto _ : state) {
    alone = upload_us(staging, idle, small);
    std::atomic<bool> arrived{false};
    bench_support::keep_busy(busy, busy_us);
    std::thread download{[&] {
      staging.copy_to_host(busy, large.host.data(), large.device, large.host.size());
      arrived = true;
    }};
    std::this_thread::sleep_for(std::chrono::milliseconds{20});  // now it waits
    state.SetIterationTime(1e-6 * upload_us(staging, idle, small));
    bool const waited = !arrived;
    download.join();
    if (!waited) state.SkipWithError("the download was complete before the uploads");
  }
  state.counters["alone_us"] = alone;
}
BENCHMARK(upload_beside_waiting_download)
    ->Iterations(1)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

// ---- staging and CUDA's copies ----

using bench_support::timed;

// An array of the host, pageable and page-locked, one of the device, and an object.
class arrays {
 public:
  arrays(ww::stream_ref s, bench_support::shape const& of, bool to_device)
      : stream_{s},
        to_device_{to_device},
        pageable_(static_cast<std::size_t>(of[0])),
        made_{pinned_, ww::staging_options{}.threads(static_cast<unsigned>(of[1]))} {
    try {
      ww::check(cudaMalloc(&device_, bytes()), "cudaMalloc");
      ww::check(cudaMallocHost(&locked_, bytes()), "cudaMallocHost");
    } catch (...) {
      free();
      throw;
    }
    for (std::size_t i = 0; i < bytes(); ++i) pageable_[i] = static_cast<unsigned char>(i * 7 / 5);
    expected_ = sample(pageable_.data());
    std::memcpy(locked_, pageable_.data(), bytes());
    ww::check(cudaMemcpy(device_, locked_, bytes(), cudaMemcpyHostToDevice), "cudaMemcpy");
    clear();
  }
  ~arrays() { free(); }
  arrays(arrays const&) = delete;
  arrays& operator=(arrays const&) = delete;

  [[nodiscard]] static std::size_t sets() { return 1; }
  [[nodiscard]] std::size_t bytes() const { return pageable_.size(); }

  void by_staging(ww::stream_ref s) const {
    if (to_device_) {
      made_.copy_to_device(s, device_, pageable_.data(), bytes());
    } else {
      made_.copy_to_host(s, pageable_.data(), device_, bytes());
    }
  }
  void by_memcpy() const {
    if (to_device_) {
      ww::check(cudaMemcpy(device_, pageable_.data(), bytes(), cudaMemcpyHostToDevice),
                "cudaMemcpy");
    } else {
      ww::check(cudaMemcpy(pageable_.data(), device_, bytes(), cudaMemcpyDeviceToHost),
                "cudaMemcpy");
    }
  }
  void by_memcpy_async(ww::stream_ref s) const {
    if (to_device_) {
      ww::check(
          cudaMemcpyAsync(device_, pageable_.data(), bytes(), cudaMemcpyHostToDevice, s.get()),
          "cudaMemcpyAsync");
    } else {
      ww::check(
          cudaMemcpyAsync(pageable_.data(), device_, bytes(), cudaMemcpyDeviceToHost, s.get()),
          "cudaMemcpyAsync");
    }
  }
  void by_memcpy_of_locked(ww::stream_ref s) const {
    if (to_device_) {
      ww::check(cudaMemcpyAsync(device_, locked_, bytes(), cudaMemcpyHostToDevice, s.get()),
                "cudaMemcpyAsync");
    } else {
      ww::check(cudaMemcpyAsync(locked_, device_, bytes(), cudaMemcpyDeviceToHost, s.get()),
                "cudaMemcpyAsync");
    }
  }

  /// @return whether the copy arrived, which is erased
  [[nodiscard]] bool arrived(bool of_locked) const {
    ww::check(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize");
    std::vector<unsigned char> found;
    if (to_device_) {
      std::vector<unsigned char> back(bytes());
      ww::check(cudaMemcpy(back.data(), device_, bytes(), cudaMemcpyDeviceToHost), "cudaMemcpy");
      found = sample(back.data());
    } else {
      found = sample(of_locked ? static_cast<unsigned char*>(locked_) : pageable_.data());
    }
    clear();
    return found == expected_;
  }

 private:
  // One byte of each 251, the first and the last.
  [[nodiscard]] std::vector<unsigned char> sample(unsigned char const* from) const {
    std::vector<unsigned char> some{from[0], from[bytes() - 1]};
    for (std::size_t i = 0; i < bytes(); i += 251) some.push_back(from[i]);
    return some;
  }
  void clear() const {
    if (to_device_) {
      ww::check(cudaMemset(device_, 0, bytes()), "cudaMemset");
      ww::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    } else {
      std::fill(pageable_.begin(), pageable_.end(), static_cast<unsigned char>(0));
      std::memset(locked_, 0, bytes());
    }
  }
  void free() noexcept {
    ww::detail::discard(cudaFree(device_));
    ww::detail::discard(cudaFreeHost(locked_));
  }

  ww::stream_ref stream_;
  bool to_device_;
  mutable std::vector<unsigned char> pageable_;
  ww::pinned_pool pinned_;
  mutable ww::staging made_;
  std::vector<unsigned char> expected_;
  void* device_ = nullptr;
  void* locked_ = nullptr;
};

using paths = bench_support::interleaved<arrays>;

int const registered = [] {
#if WARPWRIGHT_HOST_RUNTIME
  constexpr int samples = 2;  // shows that it works, never a speed
  constexpr std::int64_t most = 16 * mib;
#else
  constexpr int samples = 200;
  constexpr std::int64_t most = gib;
#endif
  std::vector<bench_support::sampled_size> sizes;
  for (std::int64_t const bytes :
       {4 * kib, 16 * kib, 64 * kib, 256 * kib, 512 * kib, mib, 4 * mib, 16 * mib, 64 * mib, gib}) {
    int const fewer = bytes == gib ? 5 : bytes == 64 * mib ? 40 : samples;
    for (std::int64_t const threads : {8, 1}) {
      if (bytes > most || (threads == 1 && bytes < 16 * mib)) continue;
      sizes.push_back({{bytes, threads}, 1, std::min(fewer, samples), false});
    }
  }
  for (bool const to_device : {true, false}) {
    auto const both =
        std::make_shared<paths>([to_device](ww::stream_ref s, bench_support::shape const& of) {
          return std::make_unique<arrays>(s, of, to_device);
        });
    both->time(timed::end_to_end)
        .add(
            "staging", [](ww::stream_ref s, arrays const& a, std::size_t) { a.by_staging(s); },
            [](arrays const& a) { return a.arrived(false); })
        .add(
            "cuda_memcpy", [](ww::stream_ref, arrays const& a, std::size_t) { a.by_memcpy(); },
            [](arrays const& a) { return a.arrived(false); })
        .add(
            "cuda_memcpy_async",
            [](ww::stream_ref s, arrays const& a, std::size_t) { a.by_memcpy_async(s); },
            [](arrays const& a) { return a.arrived(false); })
        .add(
            "cuda_memcpy_async_pinned",
            [](ww::stream_ref s, arrays const& a, std::size_t) { a.by_memcpy_of_locked(s); },
            [](arrays const& a) { return a.arrived(true); });
    paths::register_all(both, to_device ? "copy_to_device" : "copy_to_host", sizes);
    if (!to_device) continue;
    auto const call = std::make_shared<paths>([](ww::stream_ref s, bench_support::shape const& of) {
      return std::make_unique<arrays>(s, of, true);
    });
    call->time(timed::host)
        .add(
            "staging", [](ww::stream_ref s, arrays const& a, std::size_t) { a.by_staging(s); },
            [](arrays const& a) { return a.arrived(false); })
        .add(
            "cuda_memcpy", [](ww::stream_ref, arrays const& a, std::size_t) { a.by_memcpy(); },
            [](arrays const& a) { return a.arrived(false); });
    paths::register_all(call, "call_to_device", {sizes.begin(), sizes.begin() + 6});
  }
  return 0;
}();

}  // namespace
