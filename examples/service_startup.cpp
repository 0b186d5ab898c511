// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What a service does before it accepts requests: it tunes its batch, or finds the size that an
// earlier start has stored, and checks that it is as fast as it should be. Starts twice. With an
// argument, keeps the store in that folder; otherwise in a temporary one (TMPDIR).
#include <warpwright/core/device.hpp>
#include <warpwright/kernel.hpp>
#include <warpwright/measure/expect.hpp>
#include <warpwright/memory.hpp>
#include <warpwright/tune/stored_tuner.hpp>
#include <warpwright/tune/tuning_pool.hpp>

#include <stdlib.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <stdexcept>

namespace ww = warpwright;
namespace ew = warpwright::ew;

constexpr std::size_t item_floats = 256;

struct service {
  ww::stream stream;
  ww::tuning_pool memory{ww::current_device()};
  std::size_t batches = 0;  // that have run

  // The model; its activations are freed when the batch has run.
  void run(std::size_t batch, ww::stream_ref s, ww::resource_ref m) {
    std::size_t const n = batch * item_floats;
    ww::device_buffer<float, ww::resource_ref> x{m, s, n};
    ew::run(s, ew::out(x.data(), n) = ew::cast<float>(ew::index()) * 1e-3F);
    ew::run(s, ew::out(x.data(), n) = ew::in(x.data(), n) * 0.5F + 1.0F);
    ++batches;
  }

  // Blocks in docs/tuner.md and docs/measure.md are copies of lines from here on.
  ww::tune_result start(ww::tuning_store const& store) {
    std::size_t const budget = std::size_t{256} << 10;
    ww::stored_tuner const tuner{ww::batch_tuner{}
                                     .range(1, 1024)
                                     .memory_budget(budget)
                                     .objective(ww::throughput_under_latency(50e-3))
                                     .max_seconds(30.0),
                                 store, "scale-and-shift-v1"};
    auto const run_batch = [this](std::size_t batch, ww::stream_ref s, ww::resource_ref m) {
      run(batch, s, m);
    };
    ww::tune_result const best = tuner.tune(stream, run_batch, memory);
    for (std::string const& warning : best.warnings) std::fprintf(stderr, "%s\n", warning.c_str());
    std::printf("batch %zu (%s)\n%s\n", best.chosen().batch, to_string(best.source),
                best.explanation.c_str());

    auto const expected = ww::expectations{}
                              .throughput_at_least("batch", 1e3)
                              .latency_at_most("batch", 0.99, 50e-3)
                              .memory_at_most("batch", budget);
    auto const found = expected.check({ww::observed::of_record("batch", best.chosen())});
    std::puts(found.to_text().c_str());
    found.throw_if_short();
    return best;
  }
};

int main(int argc, char** argv) try {
  namespace fs = std::filesystem;
  std::printf("on %s\n", ww::get_device_info(ww::current_device()).name.c_str());
  std::string folder = (fs::temp_directory_path() / "warpwright-XXXXXX").string();
  if (argc > 1) folder = argv[1];
  if (argc == 1 && mkdtemp(folder.data()) == nullptr) throw std::runtime_error{"no folder"};
  ww::tuning_store const store{folder + "/tuning.txt"};

  service first_service;
  ww::tune_result const first = first_service.start(store);
  service second;
  ww::tune_result const again = second.start(store);
  if (argc == 1) fs::remove_all(folder);
  if (again.source != ww::tune_source::stored || second.batches != 0 ||
      again.chosen().batch != first.chosen().batch) {
    throw std::runtime_error{"the second start did not use what the first one has stored"};
  }
  // What no GPU reaches is said to fall short.
  auto const too_much = ww::expectations{}.throughput_at_least("batch", 1e15);
  auto const found = too_much.check({ww::observed::of_record("batch", again.chosen())});
  std::puts(found.to_text().c_str());
  return found.ok() ? throw std::runtime_error{"a shortfall was not found"} : 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
