// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The launches of which an H100 has counted the blocks: h100_blocks.txt, which
// bench/occupancy/count_blocks.cpp has written.
#pragma once

#include <cstddef>
#include <cstdint>

namespace configurations {

constexpr int count = 100000;
constexpr int kernels = 24;
constexpr std::size_t most_shared = 232448;

struct launch {
  int kernel, threads, carveout;
  std::size_t dynamic_bytes;
};

// The i-th: of splitmix64, so that they need not be kept.
inline launch at(std::uint64_t i) {
  auto next = [x = i * 4]() mutable {
    std::uint64_t z = (++x) * 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31U);
  };
  std::uint64_t const kind = next(), threads = next(), shared = next(), carveout = next();
  launch l{};
  l.kernel = static_cast<int>(kind % kernels);
  l.threads = 1 + static_cast<int>(threads % 1024);
  // Half of them small, where many blocks are resident.
  if (shared % 4 != 0) l.dynamic_bytes = (shared >> 8U) % (shared % 4 == 1 ? most_shared : 16384U);
  l.carveout = carveout % 3 == 0 ? static_cast<int>((carveout >> 8U) % 101U) : -1;
  return l;
}

// Blocks as one character.
inline char digit(int blocks) {
  return static_cast<char>(blocks < 10 ? '0' + blocks : 'a' + blocks - 10);
}

}  // namespace configurations
