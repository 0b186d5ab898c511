// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// pool_fuzz.hpp without libFuzzer, for any compiler and sanitizer: the inputs that were kept, then
// random ones.
//
//   fuzz_pool [file or folder]... [--random COUNT] [--seed SEED]
#include "pool_fuzz.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

namespace {

void run_file(std::filesystem::path const& path) {
  std::ifstream file{path, std::ios::binary};
  if (!file) {
    std::fprintf(stderr, "cannot read %s\n", path.c_str());
    std::exit(2);
  }
  std::vector<char> const bytes{std::istreambuf_iterator<char>{file}, {}};
  pool_fuzz::current().context = "file " + path.string();
  pool_fuzz::run(reinterpret_cast<std::uint8_t const*>(bytes.data()), bytes.size());
}

std::vector<std::uint8_t> random_input(std::uint64_t seed) {
  std::mt19937_64 random{seed};
  std::vector<std::uint8_t> bytes(16 + random() % 384);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t seed = std::random_device{}();
  std::uint64_t count = 0;
  std::size_t files = 0;
  for (int i = 1; i < argc; ++i) {
    std::string const argument = argv[i];
    if ((argument == "--random" || argument == "--seed") && i + 1 < argc) {
      (argument == "--seed" ? seed : count) = std::strtoull(argv[++i], nullptr, 10);
    } else if (std::filesystem::is_directory(argument)) {
      for (auto const& entry : std::filesystem::directory_iterator{argument}) {
        run_file(entry.path());
        ++files;
      }
    } else {
      run_file(argument);
      ++files;
    }
  }
  std::printf("%zu files; %llu random inputs, --seed %llu\n", files,
              static_cast<unsigned long long>(count), static_cast<unsigned long long>(seed));
  std::fflush(stdout);
  for (std::uint64_t i = 0; i < count; ++i) {
    std::vector<std::uint8_t> const bytes = random_input(seed + i);
    pool_fuzz::current().context = "--random 1 --seed " + std::to_string(seed + i);
    pool_fuzz::run(bytes.data(), bytes.size());
  }
  return 0;
}
