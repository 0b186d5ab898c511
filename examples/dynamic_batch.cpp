// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A training loop whose batch adapts: where memory runs out it is halved and the items run again,
// where there is more again it grows. A pool with a limit plays the small GPU, on which another
// process takes memory for a while.
#include <warpwright/core/device.hpp>
#include <warpwright/kernel.hpp>
#include <warpwright/memory.hpp>
#include <warpwright/tune/batch_plan.hpp>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace ww = warpwright;
namespace ew = warpwright::ew;

constexpr std::size_t items = 200;            // of each step
constexpr std::size_t item_floats = 1 << 14;  // activations, 64 KiB an item
constexpr std::size_t mebibyte = 1 << 20;

int main() try {
  std::printf("on %s\n", ww::get_device_info(ww::current_device()).name.c_str());
  ww::stream const stream;
  ww::memory_pool gpu{ww::current_device(), ww::memory_pool_options{}.max_bytes(12 * mebibyte)};
  ww::device_buffer<float> gradients{gpu, stream, items};
  ww::device_buffer<std::int32_t> trained{gpu, stream, items};  // how often, for each item
  ew::run(stream, ew::out(trained.data(), items) = 0);
  ew::run(stream, ew::out(gradients.data(), items) = 0.0F);

  std::optional<ww::device_buffer<float>> other_process;
  std::size_t const steps = 120;
  std::size_t ran_out = 0;
  std::size_t smallest = items;
  std::size_t before = 0;
  // Blocks in docs/tuner.md are copies of lines from here on.
  auto batch = ww::dynamic_batch_size{items}.multiple_of(8).grow_after(2);
  for (std::size_t step = 0; step < steps; ++step) {
    if (step == 30) other_process.emplace(gpu, stream, 8 * mebibyte / sizeof(float));
    if (step == 40) other_process.reset();
    batch.run(items, [&](std::size_t offset, std::size_t count) {
      ++ran_out;  // unless the next line succeeds
      ww::device_buffer<float> activations{gpu, stream, count * item_floats};
      --ran_out;
      // From here on nothing fails for lack of memory: each item is trained once.
      float* const x = activations.data();
      float* const gradient = gradients.data() + offset;
      std::int32_t* const seen = trained.data() + offset;
      ew::run(stream, ew::out(x, count * item_floats) = ew::cast<float>(ew::index()) * 1e-6F);
      ew::run(stream, ew::out(gradient, count) = ew::in(gradient, count) + ew::in(x, count));
      ew::run(stream, ew::out(seen, count) = ew::in(seen, count) + 1);
    });
    if (batch.size() != before) std::printf("step %3zu: %3zu items at once\n", step, batch.size());
    before = batch.size();
    smallest = before < smallest ? before : smallest;
  }

  std::vector<std::int32_t> counts(items);
  ww::check(cudaMemcpyAsync(counts.data(), trained.data(), items * sizeof(std::int32_t),
                            cudaMemcpyDefault, stream),
            "cudaMemcpyAsync");
  stream.synchronize();
  for (std::size_t i = 0; i < items; ++i) {
    if (counts[i] == static_cast<std::int32_t>(steps)) continue;
    throw std::runtime_error{"item " + std::to_string(i) + " was trained " +
                             std::to_string(counts[i]) + " times in " + std::to_string(steps) +
                             " steps"};
  }
  std::printf("%zu steps, memory ran out %zu times, no item was lost or trained twice\n", steps,
              ran_out);
  if (ran_out == 0 || smallest > 64) throw std::runtime_error{"memory did not run out"};
  if (before < 128) throw std::runtime_error{"the batch did not grow back"};
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
