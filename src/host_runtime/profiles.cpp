// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Published properties of GPUs. Sources: NVIDIA's data sheets and architecture papers (counts,
// clocks, caches), the compute capability table of the CUDA Programming Guide (limits of an SM).
#include <strings.h>

#include <stdexcept>

#include <warpwright/testing/host_runtime.hpp>

WARPWRIGHT_BEGIN
namespace testing {
namespace {

constexpr std::size_t kib = 1024;
constexpr std::size_t mib = 1024 * kib;
constexpr std::size_t gib = 1024 * mib;

struct row {
  char const* name;
  int major, minor, multiprocessors;
  std::size_t memory_bytes;
  int bus_bits, memory_khz, core_khz;
  std::size_t l2_bytes, shared_sm, shared_block;
  int threads, blocks;
  bool ecc;
};

constexpr row table[] = {
    {"H100", 9, 0, 132, 80 * gib, 5120, 2619000, 1980000, 50 * mib, 228 * kib, 227 * kib, 2048, 32,
     true},
    {"A100", 8, 0, 108, 80 * gib, 5120, 1593000, 1410000, 40 * mib, 164 * kib, 163 * kib, 2048, 32,
     true},
    {"L4", 8, 9, 58, 24 * gib, 192, 6251000, 2040000, 48 * mib, 100 * kib, 99 * kib, 1536, 24,
     true},
    {"T4", 7, 5, 40, 16 * gib, 256, 5001000, 1590000, 4 * mib, 64 * kib, 64 * kib, 1024, 16, true},
    {"P4", 6, 1, 20, 8 * gib, 256, 3003000, 1113500, 2 * mib, 96 * kib, 48 * kib, 2048, 32, true},
    {"V100", 7, 0, 80, 16 * gib, 4096, 877000, 1530000, 6 * mib, 96 * kib, 96 * kib, 2048, 32,
     true},
    {"RTX 4090", 8, 9, 128, 24 * gib, 384, 10501000, 2520000, 72 * mib, 100 * kib, 99 * kib, 1536,
     24, false},
    {"RTX 5090", 12, 0, 170, 32 * gib, 512, 14001000, 2407000, 96 * mib, 100 * kib, 99 * kib, 1536,
     24, false},
    {"B200", 10, 0, 148, 180 * gib, 8192, 3996000, 1965000, 126 * mib, 228 * kib, 227 * kib, 2048,
     32, true},
};

}  // namespace

device_profile device_profile::named(std::string const& name) {
  for (row const& r : table) {
    if (strcasecmp(name.c_str(), r.name) != 0) continue;
    device_profile profile;
    profile.name = r.name;
    profile.compute_capability_major = r.major;
    profile.compute_capability_minor = r.minor;
    profile.multiprocessor_count = r.multiprocessors;
    profile.memory_bytes = r.memory_bytes;
    profile.memory_bus_width_bits = r.bus_bits;
    profile.memory_clock_khz = r.memory_khz;
    profile.core_clock_khz = r.core_khz;
    profile.l2_cache_bytes = r.l2_bytes;
    profile.shared_bytes_per_multiprocessor = r.shared_sm;
    profile.shared_bytes_per_block_optin = r.shared_block;
    profile.threads_per_multiprocessor = r.threads;
    profile.blocks_per_multiprocessor = r.blocks;
    profile.ecc = r.ecc;
    return profile;
  }
  std::string known;
  for (row const& r : table) known += std::string(known.empty() ? "" : ", ") + r.name;
  throw std::invalid_argument("no device profile is named \"" + name + "\"; the profiles are " +
                              known);
}

std::vector<std::string> device_profile::names() {
  std::vector<std::string> list;
  for (row const& r : table) list.emplace_back(r.name);
  return list;
}

}  // namespace testing
WARPWRIGHT_END
