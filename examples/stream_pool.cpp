// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Eight threads share four streams. A lease is exclusive, so that one thread's work is not
// serialised with another's by accident; lease() waits if no stream is free.
#include <warpwright/core.hpp>
#include <warpwright/stream.hpp>

#include <atomic>
#include <cstdio>
#include <exception>
#include <thread>
#include <vector>

namespace ww = warpwright;

namespace {

struct fill {
  int* out;
  int value;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const { out[i] = value; }
};

int run() {
  constexpr int threads = 8;
  constexpr std::size_t per_thread = 10000;
  ww::stream_pool streams{ww::current_device(), 4};

  void* memory = nullptr;
  ww::check(cudaMalloc(&memory, threads * per_thread * sizeof(int)), "cudaMalloc");
  auto* const data = static_cast<int*>(memory);

  std::atomic<int> failed{0};
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; ++t) {
    workers.emplace_back([&, t] {
      try {
        ww::stream_lease const lease = streams.lease();
        ww::for_each_index(lease, per_thread,
                           fill{data + static_cast<std::size_t>(t) * per_thread, t});
      } catch (std::exception const& error) {
        std::fprintf(stderr, "%s\n", error.what());
        ++failed;
      }
    });
  }
  for (auto& worker : workers) worker.join();
  streams.synchronize();

  std::vector<int> host(threads * per_thread);
  ww::check(cudaMemcpy(host.data(), data, host.size() * sizeof(int), cudaMemcpyDeviceToHost),
            "cudaMemcpy");
  ww::check(cudaFree(memory), "cudaFree");
  int wrong = 0;
  for (std::size_t i = 0; i < host.size(); ++i)
    wrong += host[i] != static_cast<int>(i / per_thread);
  std::printf("%d threads on %u streams: %d of %zu values wrong\n", threads, streams.size(), wrong,
              host.size());
  return wrong == 0 && failed == 0 ? 0 : 1;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
