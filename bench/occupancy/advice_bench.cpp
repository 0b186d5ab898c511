// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// For each resource that limits, a kernel that waits for memory, before and behind what advise()
// says first of it: the blocks that are predicted, those that the runtime counts, and the time.
// Prints CSV; then of the first kernel what explain() says of its occupancy, and of its place under
// the roof of the L2 cache. It needs a GPU.
//
//   occupancy_advice_bench
#include <warpwright/core/launch.hpp>
#include <warpwright/measure/ceilings.hpp>
#include <warpwright/measure/measure.hpp>
#include <warpwright/memory/buffer.hpp>
#include <warpwright/occupancy/advice.hpp>
#include <warpwright/occupancy/kernel_occupancy.hpp>

#include <cstdio>
#include <exception>
#include <string>
#include <utility>

namespace ww = warpwright;

namespace {

#if WARPWRIGHT_HOST_RUNTIME

void run() { std::printf("it needs a GPU\n"); }

#else

constexpr unsigned lines = 1U << 16U;  // of 128 B: in the L2 cache
constexpr int steps = 256;

// A cycle through the lines in no order, in each word of a line.
struct link_lines {
  unsigned* all;
  __device__ void operator()(std::uint64_t i) const {
    all[i] = (static_cast<unsigned>(i / 32) * 1664525U + 1013904223U) & (lines - 1);
  }
};

// Each warp follows the cycle, and waits for a line at a time; `Values` keep registers,
// `Barriers` barriers are used.
template <int Threads, int Blocks, int Values, int Barriers>
__global__ void __launch_bounds__(Threads, Blocks) follow(unsigned const* all, unsigned* out) {
  extern __shared__ unsigned scratch[];
  unsigned kept[Values];
  for (int v = 0; v < Values; ++v) kept[v] = *(static_cast<unsigned const volatile*>(all) + v * 32);
  unsigned at = (blockIdx.x * blockDim.x + threadIdx.x) / 32 * 977U & (lines - 1);
#pragma unroll 1
  for (int s = 0; s < steps; ++s) {
    at = __ldcg(all + at * 32 + threadIdx.x % 32);
  }
  if constexpr (Barriers > 1) {
    for (int b = 0; b < Barriers; ++b) asm volatile("bar.sync %0;" ::"r"(b));
  }
  unsigned sum = at;
  for (int v = 0; v < Values; ++v) sum = sum * 3U + kept[v];
  if (sum == 12345U) scratch[0] = sum;  // or nothing needs it
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

using kernel = void(unsigned const*, unsigned*);

struct setup {
  kernel* function;
  int threads;
  std::size_t dynamic_bytes;
  int barriers;
};

// All threads of row() read so many words.
constexpr unsigned all_threads = 1U << 20U;
constexpr double read_bytes = 4.0 * steps * all_threads;

struct row_result {
  ww::occupancy_result occupancy;
  double seconds = 0.0;
};

struct run_on {
  ww::stream stream;
  ww::memory_pool pool{ww::current_device()};
  ww::device_buffer<unsigned> all{pool, stream, std::size_t{lines} * 32};
  ww::device_buffer<unsigned> out{pool, stream, all_threads};

  run_on() { ww::for_each_index(stream, lines * 32U, link_lines{all.data()}); }

  ww::occupancy_result predicted(setup const& s) const {
    return ww::occupancy(
        ww::architecture_of(ww::current_device()),
        ww::resources_of(s.function, s.threads, s.dynamic_bytes).barriers(s.barriers));
  }
  // Prints a line. @return the prediction, and the time
  row_result row(char const* limiter, char const* when, setup const& s, std::string const& advice) {
    ww::occupancy_result const o = predicted(s);
    int counted = 0;
    ww::check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&counted, s.function, s.threads,
                                                            s.dynamic_bytes),
              "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
    double seconds = 0.0;
    if (counted > 0) {
      unsigned const blocks = all_threads / static_cast<unsigned>(s.threads);
      seconds =
          ww::measure(stream, [&] {
            s.function<<<blocks, static_cast<unsigned>(s.threads), s.dynamic_bytes, stream.get()>>>(
                all.data(), out.data());
          }).summary.median_seconds;
    }
    std::printf("%s,%s,%d,%d,%d,%.1f,\"%s\"\n", limiter, when, o.resources.registers(),
                o.blocks_per_multiprocessor, counted, 1e6 * seconds, advice.c_str());
    return {o, seconds};
  }
  std::pair<row_result, row_result> both(char const* limiter, setup const& before,
                                         setup const& after) {
    row_result const first = row(limiter, "before", before, "");
    auto const advice = ww::advise(first.occupancy);
    return {first, row(limiter, "after", after, advice.empty() ? "none" : advice.front().code)};
  }
  static void explain(ww::device_ceilings const& c, char const* when, row_result const& r) {
    ww::cost const what{0.0, read_bytes, ww::limit::fp32, ww::limit::l2_read};
    std::printf("\n%s, %.1f us\n%s\n%s\n", when, 1e6 * r.seconds, ww::explain(r.occupancy).c_str(),
                ww::explain(ww::roofline(c, what, r.seconds)).c_str());
  }
};

template <class Kernel>
void carveout(Kernel* function, int percent) {
  ww::check(cudaFuncSetAttribute(function, cudaFuncAttributePreferredSharedMemoryCarveout, percent),
            "cudaFuncSetAttribute");
}

void run() {
  run_on r;
  std::printf("limiter,when,registers,blocks predicted,blocks of the runtime,us,first advice\n");
  auto const story =
      r.both("registers", {&follow<256, 1, 26, 1>, 256, 0, 1}, {&follow<256, 8, 26, 1>, 256, 0, 1});
  // More than a block may have by default needs the opt-in.
  kernel* const shared = &follow<1024, 1, 1, 1>;
  r.row("opt-in", "before", {shared, 256, 60000, 1}, "");
  auto const refused = ww::advise(r.predicted({shared, 256, 60000, 1}));
  ww::check(cudaFuncSetAttribute(shared, cudaFuncAttributeMaxDynamicSharedMemorySize, 60000),
            "cudaFuncSetAttribute");
  r.row("opt-in", "after", {shared, 256, 60000, 1}, refused.front().code);
  r.both("shared memory", {shared, 256, 40000, 1}, {shared, 512, 40000, 1});
  r.both("block slots", {&follow<1024, 1, 2, 1>, 32, 0, 1}, {&follow<1024, 1, 2, 1>, 128, 0, 1});
  r.both("barriers", {&follow<128, 1, 3, 16>, 128, 0, 16}, {&follow<128, 1, 3, 12>, 128, 0, 12});
  kernel* const carved = &follow<256, 1, 4, 1>;
  carveout(carved, 10);
  auto const advice =
      ww::advise(r.row("carve-out", "before", {carved, 256, 16384, 1}, "").occupancy);
  carveout(carved, advice.front().resources.carveout_percent());
  r.row("carve-out", "after", {carved, 256, 16384, 1}, advice.front().code);
  ww::device_ceilings const c = ww::measure_ceilings(r.stream);
  r.explain(c, "registers before", story.first);
  r.explain(c, "registers after", story.second);
}

#endif

}  // namespace

int main() {
  try {
    run();
    return 0;
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
