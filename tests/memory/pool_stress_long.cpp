// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The stress test of the memory pool with a configurable duration: memory_pool_stress_long
// [--operations N | --seconds S] [--seed S] [--threads T] [--stamp-every K] [--round-operations N]
// [--misuse] Prints the seed, the operation counts, and PASS or FAIL; returns 0 or 1, and 77
// without a GPU. --misuse frees blocks before their streams have completed, to show that the test
// detects it.
#include "memory/pool_stress.hpp"

#include <cstdlib>
#include <cstring>

namespace {

int usage(char const* what) {
  std::fprintf(stderr,
               "%s: usage: memory_pool_stress_long [--operations N | --seconds S] [--seed S] "
               "[--threads T] [--stamp-every K] [--round-operations N] [--misuse]\n",
               what);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  int devices = 0;
  cudaError_t const status = cudaGetDeviceCount(&devices);
  if (status != cudaSuccess || devices == 0) {
    std::printf("SKIPPED: no usable CUDA device\n");
    return 77;
  }
  pool_stress::options how;
  how.seed = std::random_device{}();
  how.operations = 10000000;
  how.round_operations = 200000;
  how.stamp_every = 64;
  for (int i = 1; i < argc; ++i) {
    std::string const name = argv[i];
    if (name == "--misuse") {
      how.misuse = true;
      continue;
    }
    if (i + 1 == argc) return usage(argv[i]);
    char* end = nullptr;
    char const* const text = argv[++i];
    double const value = std::strtod(text, &end);
    if (*text == '\0' || *end != '\0' || !(value >= 0.0 && value < 1e18)) return usage(text);
    auto const number = static_cast<std::uint64_t>(value);
    if (name == "--seconds") {
      how.seconds = value;
    } else if (name == "--operations" && number > 0) {
      how.operations = number;
    } else if (name == "--seed") {
      how.seed = number;
    } else if (name == "--threads" && number > 0 && number < 62) {
      how.threads = static_cast<std::size_t>(number);
    } else if (name == "--stamp-every" && number > 0) {
      how.stamp_every = static_cast<unsigned>(number);
    } else if (name == "--round-operations" && number > 0) {
      how.round_operations = number;
    } else {
      return usage(name.c_str());
    }
  }
  auto const begin = std::chrono::steady_clock::now();
  auto const seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  std::printf("seed %llu, %zu threads with %zu streams each\n",
              static_cast<unsigned long long>(how.seed), how.threads,
              pool_stress::streams_per_thread);
  double next = 10.0;
  how.progress = [&](pool_stress::totals const& t) {
    if (seconds() < next) return;
    next = seconds() + 10.0;
    std::printf("%.0f s: %llu operations in %llu rounds\n", seconds(),
                static_cast<unsigned long long>(t.operations),
                static_cast<unsigned long long>(t.rounds));
    std::fflush(stdout);
  };
  pool_stress::totals const t = pool_stress::run(how);
  auto const line = [](char const* what, std::uint64_t count) {
    std::printf("  %-38s %12llu\n", what, static_cast<unsigned long long>(count));
  };
  std::printf("seed %llu: %llu operations in %llu rounds, %.1f s\n",
              static_cast<unsigned long long>(how.seed),
              static_cast<unsigned long long>(t.operations),
              static_cast<unsigned long long>(t.rounds), seconds());
  line("allocations", t.allocations);
  line("refused for lack of memory", t.refused);
  line("stamped and checked", t.stamps);
  line("freed by another thread", t.foreign);
  line("with a second stream (record_use)", t.shared);
  line("captures", t.captures);
  line("graph launches", t.launches);
  line("streams retired and replaced", t.replaced);
  line("caches made", t.caches);
  line("trims", t.trims);
  line("hits", t.hits);
  line("hits in caches", t.cache_hits);
  line("blocks that changed streams by an event", t.steals);
  line("memory mapped elsewhere", t.remaps);
  line("words changed before their free", t.mismatches);
  for (std::string const& text : t.failures) std::printf("  %s\n", text.c_str());
  std::printf("%s\n", t.failures.empty() ? "PASS" : "FAIL");
  return t.failures.empty() ? 0 : 1;
}
