// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What a tune knows beside the best batch: the time of every size, for the deadline of a queue and
// for the buckets that requests are padded to; and how a global batch is divided in training.
#include <warpwright/core/device.hpp>
#include <warpwright/kernel.hpp>
#include <warpwright/measure.hpp>
#include <warpwright/memory.hpp>
#include <warpwright/tune.hpp>
#include <warpwright/tune/batch_plan.hpp>
#include <warpwright/tune/latency_model.hpp>
#include <warpwright/tune/tuning_pool.hpp>

#include <cstdio>
#include <exception>
#include <stdexcept>
#include <vector>

namespace ww = warpwright;
namespace ew = warpwright::ew;

int main() try {
  std::printf("on %s\n", ww::get_device_info(ww::current_device()).name.c_str());
  constexpr std::size_t item_floats = 1 << 12;
  std::size_t const memory_bytes = std::size_t{64} << 20;
  ww::stream const stream;
  ww::tuning_pool pool{ww::current_device()};
  auto const run_batch = [&](std::size_t batch, ww::stream_ref s, ww::resource_ref memory) {
    std::size_t const n = batch * item_floats;
    ww::device_buffer<float, ww::resource_ref> const x{memory, s, n};
    ew::run(s, ew::out(x.data(), n) = ew::cast<float>(ew::index()) * 1e-6F);
    ew::run(s, ew::out(x.data(), n) = ew::gelu(ew::in(x.data(), n)) + 1.0F);
  };

  // Blocks in docs/tuner.md are copies of lines from here on.
  ww::tune_result const tuned =
      ww::batch_tuner{}.range(1, 256).memory_budget(memory_bytes).tune(stream, run_batch, pool);
  auto const latency = ww::latency_model::of_tune(tuned);
  std::size_t const chosen = tuned.chosen().batch;
  std::printf("a batch of %zu takes %.0f us, 99 of 100 at most %.0f us\n", chosen,
              1e6 * latency.median(chosen), 1e6 * latency.upper(chosen));

  // How many requests are there at once: how often each number was seen.
  std::vector<ww::size_weight> const seen{{1, 500}, {3, 200}, {17, 120}, {60, 90}, {200, 10}};
  auto const buckets = ww::choose_buckets(seen, 3, latency);
  for (std::size_t const size : buckets.buckets) std::printf("capture a graph for %zu\n", size);

  auto const plan = ww::batch_planner{}
                        .global_batch(4096)
                        .ranks(4)
                        .multiple_of(8)
                        .memory(tuned.memory, memory_bytes)
                        .plan(latency);
  std::printf("4096 items: %zu at once, %zu steps on each of 4 ranks\n", plan.micro_batch,
              plan.steps);

  if (buckets.buckets.empty() || buckets.buckets.back() < 200) {
    throw std::runtime_error{"the largest number of requests fits no bucket"};
  }
  if (plan.micro_batch * plan.steps * plan.ranks != 4096) {
    throw std::runtime_error{"the plan is not exact"};
  }
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
