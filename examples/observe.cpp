// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What a training loop waits for: three of its steps are recorded, after one that warms up, and
// judged. Writes trace.json, for ui.perfetto.dev, or the file that is named on the command line.
#include <warpwright/kernel/evaluate.hpp>
#include <warpwright/memory/buffer.hpp>
#include <warpwright/memory/pool.hpp>
#include <warpwright/observe/diagnose.hpp>
#include <warpwright/observe/monitor.hpp>
#include <warpwright/observe/trace.hpp>

#include <cstdio>
#include <exception>
#include <vector>

namespace ww = warpwright;
namespace ew = warpwright::ew;

namespace {

constexpr std::size_t n = std::size_t{1} << 18U;

int run(char const* path) {
  // Before the first CUDA call, as graphs as one record would need.
  ww::trace trace{ww::trace_options{}.schedule(1, 1, 3)};
  ww::monitor const gpu{ww::monitor_options{}.every(0.5)};
  ww::stream stream;
  ww::memory_pool pool{ww::current_device()};
  ww::device_buffer<float> x{pool, stream, n};
  ww::device_buffer<float> hidden{pool, stream, n};
  ww::device_buffer<float> weights{pool, stream, n};
  ew::run(stream, ew::out(weights.data(), n) = 0.5F);
  std::vector<float> batch(n);
  float first = 0.0F;

  for (int step = 0; step < 8; ++step) {
    auto const turn = trace.step();
    {
      ww::span const load{[&] { return "load batch " + std::to_string(step); }};
      for (std::size_t i = 0; i < n; ++i) batch[i] = static_cast<float>(i % 7 + 1);
      ww::check(cudaMemcpyAsync(x.data(), batch.data(), n * sizeof(float), cudaMemcpyHostToDevice,
                                stream.get()),
                "cudaMemcpyAsync");
    }
    {
      ww::span const forward{"forward", stream};
      for (int layer = 0; layer < 4; ++layer) {
        ew::run(stream,
                ew::out(hidden.data(), n) = ew::in(x.data(), n) * ew::in(weights.data(), n));
      }
    }
    ww::span const update{"update", stream};
    ew::run(stream, ew::out(weights.data(), n) =
                        ew::in(weights.data(), n) - ew::in(hidden.data(), n) * 0.01F);
    ww::check(
        cudaMemcpyAsync(&first, weights.data(), sizeof first, cudaMemcpyDeviceToHost, stream.get()),
        "cudaMemcpyAsync");
    stream.synchronize();
  }

  trace.write_chrome(path);
  std::printf("%s\n%s\n%s\n", trace.kernels().to_text(10).c_str(),
              trace.kernels_by_span().to_text(10).c_str(), trace.summary().to_text().c_str());
  auto const known = ww::evidence{}.add(gpu).add(trace).add(pool.statistics());
  std::printf("%s", ww::diagnose(known).to_text().c_str());
  return first < 0.5F && trace.summary().steps == 3 ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
  try {
    return run(count > 1 ? arguments[1] : "trace.json");
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
