// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// warpwright_occupancy: how many warps of a kernel are resident, what limits them, what to change.
// docs/tools.md describes it.
#include <warpwright/occupancy/ptxas.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <iostream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

namespace ww = warpwright;

constexpr char usage[] =
    "usage: warpwright_occupancy --arch sm_90[,sm_80,...] [--threads 256] [--registers 32]\n"
    "           [--shared BYTES] [--barriers 1] [--carveout PERCENT]\n"
    "           [--gpu NAME --blocks N] [--svg out.svg]\n"
    "       warpwright_occupancy --ptxas build.log [--threads 256] [--shared DYNAMIC_BYTES]\n"
    "build.log is what nvcc -Xptxas -v prints; '-' reads the standard input\n";

struct options {
  std::vector<ww::architecture> archs;
  ww::kernel_resources kernel;
  std::string gpu, svg, ptxas;
  long long blocks = 0;
};

long long number(std::string const& option, std::string const& text, long long most) {
  char* end = nullptr;
  long long const value = std::strtoll(text.c_str(), &end, 10);
  if (text.empty() || *end != 0 || value < 0 || value > most) {
    throw std::invalid_argument{option + " is '" + text + "'; a whole number from 0 to " +
                                std::to_string(most) + " is possible"};
  }
  return value;
}

std::vector<ww::architecture> architectures(std::string const& list) {
  std::vector<ww::architecture> all;
  for (std::size_t at = 0; at <= list.size();) {
    std::size_t const end = std::min(list.find(',', at), list.size());
    std::string const name = list.substr(at, end - at);
    at = end + 1;
    bool const prefixed = name.compare(0, 3, "sm_") == 0;
    long long const capability = number("--arch", prefixed ? name.substr(3) : name, 999);
    all.push_back(
        ww::architecture_of(static_cast<int>(capability / 10), static_cast<int>(capability % 10)));
  }
  return all;
}

options parse(int count, char** arguments) {
  options o;
  for (int i = 1; i < count; i += 2) {
    std::string const name = arguments[i];
    if (i + 1 == count) throw std::invalid_argument{name + " needs a value"};
    std::string const value = arguments[i + 1];
    auto const small = [&](long long most) { return static_cast<int>(number(name, value, most)); };
    if (name == "--arch") {
      o.archs = architectures(value);
    } else if (name == "--threads") {
      o.kernel = o.kernel.threads(small(65536));
    } else if (name == "--registers") {
      o.kernel = o.kernel.registers(small(65536));
    } else if (name == "--shared") {
      o.kernel = o.kernel.shared_bytes(static_cast<std::size_t>(number(name, value, 1LL << 40)));
    } else if (name == "--barriers") {
      o.kernel = o.kernel.barriers(small(65536));
    } else if (name == "--carveout") {
      o.kernel = o.kernel.carveout_percent(small(100));
    } else if (name == "--blocks") {
      o.blocks = number(name, value, 1LL << 40);
    } else if (name == "--gpu") {
      o.gpu = value;
    } else if (name == "--svg") {
      o.svg = value;
    } else if (name == "--ptxas") {
      o.ptxas = value;
    } else {
      throw std::invalid_argument{"there is no option " + name};
    }
  }
  if (!o.gpu.empty()) {
    ww::gpu_model const& gpu = ww::gpu_named(o.gpu.c_str());
    if (o.archs.empty()) o.archs = {ww::architecture_of(gpu.major, gpu.minor)};
  }
  if (o.archs.empty() && o.ptxas.empty()) throw std::invalid_argument{"give --arch or --ptxas"};
  return o;
}

std::string read(std::string const& path) {
  if (path == "-") return {std::istreambuf_iterator<char>{std::cin}, {}};
  std::ifstream file{path, std::ios::binary};
  if (!file) throw std::runtime_error{"cannot read " + path + ": " + std::strerror(errno)};
  return {std::istreambuf_iterator<char>{file}, {}};
}

void write(std::string const& path, std::string const& text) {
  std::ofstream file{path, std::ios::binary};
  file << text;
  file.close();
  if (!file) throw std::runtime_error{"cannot write " + path + ": " + std::strerror(errno)};
}

void run(options const& o) {
  if (!o.ptxas.empty()) {
    std::fputs(
        ww::to_text(ww::parse_ptxas(read(o.ptxas)), o.kernel.threads(), o.kernel.shared_bytes())
            .c_str(),
        stdout);
    return;
  }
  for (ww::architecture const& a : o.archs) {
    ww::occupancy_result const found = ww::occupancy(a, o.kernel);
    std::printf("%s\n", ww::explain(found).c_str());
    for (ww::occupancy_advice const& advice : ww::advise(found)) {
      std::printf("  %s: %s\n", advice.code.c_str(), advice.reason.c_str());
    }
    if (!o.gpu.empty() && o.blocks > 0) {
      ww::gpu_model const& gpu = ww::gpu_named(o.gpu.c_str());
      ww::grid_fit const fit = ww::fit_grid(static_cast<std::uint64_t>(o.blocks),
                                            found.blocks_per_multiprocessor, gpu.multiprocessors);
      std::printf(
          "  %s: %lld blocks are %llu waves, the last %.3g %% full: %.3g %% of the places\n",
          gpu.name, o.blocks, static_cast<unsigned long long>(fit.waves),
          100.0 * fit.last_wave_filled, 100.0 * fit.efficiency());
    }
  }
  if (!o.svg.empty()) {
    write(o.svg, ww::to_svg(ww::occupancy(o.archs.front(), o.kernel)));
    std::printf("%s\n", o.svg.c_str());
  }
}

}  // namespace

int main(int count, char** arguments) {
  try {
    if (count == 2 && std::strcmp(arguments[1], "--help") == 0) {
      std::fputs(usage, stdout);
      return 0;
    }
    run(parse(count, arguments));
    return 0;
  } catch (std::exception const& error) {
    std::fprintf(stderr, "warpwright_occupancy: %s\n", error.what());
    if (count < 2) std::fputs(usage, stderr);
    return 1;
  }
}
