// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Finds the batch size with the highest throughput within a memory budget and a latency limit.
// With an argument, writes the report to that file: a chart (.svg), or else a page (.html).
#include <warpwright/core/device.hpp>
#include <warpwright/core/launch.hpp>
#include <warpwright/memory/buffer.hpp>
#include <warpwright/tune/batch_tuner.hpp>
#include <warpwright/tune/report.hpp>
#include <warpwright/tune/tuning_pool.hpp>

#include <cstdio>
#include <exception>
#include <string>

namespace ww = warpwright;

constexpr std::size_t item_floats = 4096;

// The model: applies a small polynomial to every value of an item.
struct model {
  float* data;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const {
    float x = data[i];
    for (int k = 0; k < 16; ++k) x = 0.5F * x * x - 0.25F;
    data[i] = x;
  }
};

constexpr std::size_t budget = std::size_t{16} << 20;

int main(int argc, char** argv) try {
  ww::stream const stream;
  ww::tuning_pool pool{ww::current_device()};
  // One batch: its memory is allocated, used and freed in the order of the stream.
  auto const run_batch = [](std::size_t batch, ww::stream_ref s, ww::resource_ref memory) {
    ww::device_buffer<float, ww::resource_ref> items{memory, s, batch * item_floats};
    ww::check(cudaMemsetAsync(items.data(), 0, batch * item_floats * sizeof(float), s),
              "cudaMemsetAsync");
    ww::for_each_index(s, batch * item_floats, model{items.data()});
  };
  ww::tune_result const best = ww::batch_tuner{}
                                   .range(1, 8192)
                                   .memory_budget(budget)
                                   .objective(ww::throughput_under_latency(20e-3))
                                   .max_seconds(30.0)
                                   .progress(ww::progress_line{stderr})
                                   .tune(stream, run_batch, pool);
  std::string const device = ww::get_device_info(ww::current_device()).name;
  std::printf("on %s\n%s", device.c_str(), ww::to_text(best).c_str());
  for (std::string const& step : best.steps) std::printf("- %s\n", step.c_str());

  if (argc > 1) {
    std::string const path = argv[1];
    bool const chart = path.size() > 4 && path.compare(path.size() - 4, 4, ".svg") == 0;
    char const* const title = "Batch size of the model";
    std::string const report =
        chart ? ww::to_svg(best, title)
              : ww::to_html(best, ww::html_report_options{}.title(title).device(device));
    std::FILE* const file = std::fopen(path.c_str(), "w");
    bool good = file != nullptr;
    good = good && std::fputs(report.c_str(), file) >= 0;
    if (file != nullptr) good = std::fclose(file) == 0 && good;
    if (!good) {
      std::fprintf(stderr, "cannot write %s\n", argv[1]);
      return 1;
    }
  }
  // The budget holds 1,024 items of 16 KiB.
  bool const right = best.chosen().batch >= 1 && best.chosen().batch <= 1024 &&
                     best.chosen().latency_p99_seconds <= 20e-3;
  if (!right) std::fprintf(stderr, "wrong answer\n");
  return right ? 0 : 1;
} catch (std::exception const& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
