// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Continuous batching: prompts of real lengths enter while others generate, in one step after
// another. A recurrence stands for the network, whose result depends on every token and their
// order.
#include <warpwright/core/device.hpp>
#include <warpwright/core/launch.hpp>
#include <warpwright/memory.hpp>
#include <warpwright/memory/pinned.hpp>
#include <warpwright/serve/step_batcher.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace ww = warpwright;

namespace {

constexpr std::size_t slots = 32, budget = 512, memory = 2048, most_tokens = 512;
constexpr std::size_t sequences = 400;

WARPWRIGHT_HOST_DEVICE std::uint32_t after(std::uint32_t state, std::uint32_t token) {
  return (state ^ token) * 16777619U + 1U;
}

// The state of a sequence is in its slot; tokens are in page-locked memory.
struct step_kernel {
  ww::step_part const* parts;
  std::uint32_t* tokens;
  std::uint32_t* states;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const {
    ww::step_part const& part = parts[i];
    std::uint32_t* const own = tokens + part.id * most_tokens;
    std::uint32_t state = part.begin == 0 ? 0 : states[part.slot];
    for (std::size_t t = part.begin; t < part.begin + part.count; ++t) state = after(state, own[t]);
    states[part.slot] = state;
    if (part.generates) own[part.begin + part.count] = state;
  }
};

std::vector<std::size_t> read_lengths(char const* path, std::mt19937& random) {
  std::ifstream file{path};
  std::string line;
  std::getline(file, line);
  std::vector<std::size_t> lengths;
  std::vector<double> weights;
  std::size_t tokens = 0;
  double texts = 0.0;
  for (char comma = ','; file >> tokens >> comma >> texts;) {
    lengths.push_back(std::min(tokens, most_tokens / 2));
    weights.push_back(texts);
  }
  if (lengths.size() < 100) throw std::runtime_error{std::string{path} + ": no lengths in it"};
  std::discrete_distribution<std::size_t> draw{weights.begin(), weights.end()};
  std::vector<std::size_t> drawn(sequences);
  for (std::size_t& n : drawn) n = lengths[draw(random)];
  return drawn;
}

int run(char const* path) {
  std::printf("on %s\n", ww::get_device_info(ww::current_device()).name.c_str());
  std::mt19937 random{1};
  std::vector<std::size_t> const prompts = read_lengths(path, random);
  ww::stream const stream;
  ww::memory_pool pool{ww::current_device()};
  ww::pinned_pool pinned;
  ww::device_buffer<std::uint32_t> const states{pool, stream, slots};
  ww::pinned_buffer<std::uint32_t> tokens{pinned, sequences * most_tokens};
  ww::pinned_buffer<ww::step_part> parts{pinned, slots};

  auto const model = ww::latency_model::fit({{1, 1e-5, 2e-5, 0}, {budget, 4e-5, 8e-5, 0}});
  ww::step_batcher steps{ww::step_batcher_options{}.slots(slots).budget(budget).memory(memory),
                         model};
  std::vector<std::size_t> wanted(sequences);
  std::vector<std::size_t> got(sequences);
  for (std::size_t id = 0; id < sequences; ++id) {
    wanted[id] = 1 + random() % 100;
    std::uint32_t* const own = tokens.data() + id * most_tokens;
    for (std::size_t t = 0; t < prompts[id]; ++t) own[t] = static_cast<std::uint32_t>(random());
    steps.add(id, prompts[id]);
  }
  std::size_t count = 0, computed = 0, preempted = 0;
  while (steps.next()) {
    auto const begin = std::chrono::steady_clock::now();
    std::copy_n(steps.parts(), steps.part_count(), parts.data());
    ww::for_each_index(stream, steps.part_count(),
                       step_kernel{parts.data(), tokens.data(), states.data()});
    stream.synchronize();
    preempted += steps.preempted().size();
    for (std::size_t i = 0; i < steps.part_count(); ++i) {
      ww::step_part const& part = parts.data()[i];
      computed += part.count;
      if (!part.generates) continue;
      got[part.id] = part.begin + part.count + 1 - prompts[part.id];
      if (got[part.id] == wanted[part.id]) steps.finish(part.id);
    }
    std::chrono::duration<double> const seconds = std::chrono::steady_clock::now() - begin;
    steps.done(seconds.count());
    ++count;
  }

  std::size_t wrong = 0, at_once = 0;
  for (std::size_t id = 0; id < sequences; ++id) {
    std::uint32_t const* const own = tokens.data() + id * most_tokens;
    std::uint32_t state = 0;
    for (std::size_t t = 0; t < prompts[id] + wanted[id]; ++t) {
      wrong += t >= prompts[id] && own[t] != state ? 1U : 0U;
      state = after(state, own[t]);
    }
    wrong += got[id] == wanted[id] ? 0U : 1U;
  }
  for (std::size_t id = 0; id < sequences; id += slots) {
    at_once += *std::max_element(
        wanted.begin() + static_cast<std::ptrdiff_t>(id),
        wanted.begin() + static_cast<std::ptrdiff_t>(std::min(id + slots, sequences)));
  }
  std::printf("%zu sequences, %zu wrong: %zu steps of %.0f tokens, %zu times preempted\n",
              sequences, wrong, count, static_cast<double>(computed) / static_cast<double>(count),
              preempted);
  std::printf("batches that run until their longest sequence ends: %zu steps\n", at_once);
  return wrong == 0 && count < at_once ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) try {
  return run(argc > 1 ? argv[1] : SERVE_STEPS_DATA);
} catch (std::exception const& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
