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
#include <iterator>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

namespace ww = warpwright;

constexpr char usage[] =
    "usage: warpwright_occupancy --arch sm_90[,sm_80,...] [--threads 256] [--registers 32]\n"
    "           [--shared BYTES] [--barriers 1] [--carveout PERCENT] [--svg out.svg]\n"
    "       warpwright_occupancy --gpu NAME --blocks N [the same but --arch]\n"
    "       warpwright_occupancy --ptxas build.log [--threads 256] [--shared DYNAMIC_BYTES]\n"
    "build.log is what nvcc -Xptxas -v prints (with -rdc=true, -Xnvlink -v too); '-' reads the\n"
    "standard input\n";

struct options {
  std::vector<ww::architecture> archs;
  ww::kernel_resources kernel;
  std::string gpu, svg, ptxas;
  long long blocks = 0;
  std::set<std::string> given;
};

long long number(std::string const& option, std::string const& text, long long least,
                 long long most) {
  char* end = nullptr;
  errno = 0;
  long long const value = std::strtoll(text.c_str(), &end, 10);
  bool const digits = text.find_first_not_of("0123456789") == std::string::npos;
  if (text.empty() || !digits || errno != 0 || value < least || value > most) {
    throw std::invalid_argument{option + " is '" + text + "'; a whole number from " +
                                std::to_string(least) + " to " + std::to_string(most) +
                                " is possible"};
  }
  return value;
}

// "sm_90", "90", "sm_90a", "100f".
ww::architecture architecture(std::string const& name) {
  std::string digits = name.compare(0, 3, "sm_") == 0 ? name.substr(3) : name;
  if (!digits.empty() && (digits.back() == 'a' || digits.back() == 'f')) digits.pop_back();
  std::string known;
  for (ww::architecture const& a : ww::detail::architectures) {
    std::string const each = ww::to_string(a);
    if (each.substr(3) == digits) return a;
    known += (known.empty() ? "" : ", ") + each;
  }
  throw std::invalid_argument{"--arch has '" + name + "'; known are " + known +
                              ", and those with a or f behind them"};
}

std::vector<ww::architecture> architectures(std::string const& list) {
  std::vector<ww::architecture> all;
  for (std::size_t at = 0; at <= list.size();) {
    std::size_t const end = std::min(list.find(',', at), list.size());
    all.push_back(architecture(list.substr(at, end - at)));
    at = end + 1;
  }
  return all;
}

void check_together(options const& o) {
  auto const has = [&](char const* name) { return o.given.count(name) != 0; };
  auto const refuse = [](std::string const& what) { throw std::invalid_argument{what}; };
  if (has("--ptxas")) {
    for (std::string const& name : o.given) {
      if (name == "--ptxas" || name == "--threads" || name == "--shared") continue;
      refuse(name +
             " has no effect with --ptxas, which takes --threads and --shared: leave it out");
    }
    return;
  }
  if (!has("--arch") && !has("--gpu")) refuse("give --arch, --gpu or --ptxas");
  if (has("--gpu") != has("--blocks")) refuse("--gpu and --blocks need each other: give both");
  if (has("--svg") && o.archs.size() > 1) refuse("--svg draws one architecture: give --arch one");
}

options parse(int count, char** arguments) {
  constexpr char const* names[] = {"--arch",     "--threads",  "--registers", "--shared",
                                   "--barriers", "--carveout", "--blocks",    "--gpu",
                                   "--svg",      "--ptxas"};
  options o;
  for (int i = 1; i < count; i += 2) {
    std::string const name = arguments[i];
    if (std::find(std::begin(names), std::end(names), name) == std::end(names)) {
      throw std::invalid_argument{"there is no option '" + name + "'; try --help"};
    }
    if (i + 1 == count || *arguments[i + 1] == '\0') {
      throw std::invalid_argument{name + " needs a value; try --help"};
    }
    if (!o.given.insert(name).second) {
      throw std::invalid_argument{name + " is given twice: give it once"};
    }
    std::string const value = arguments[i + 1];
    auto const small = [&](int least, int most) {
      return static_cast<int>(number(name, value, least, most));
    };
    if (name == "--arch") {
      o.archs = architectures(value);
    } else if (name == "--threads") {
      o.kernel = o.kernel.threads(small(1, 65536));
    } else if (name == "--registers") {
      o.kernel = o.kernel.registers(small(0, 65536));
    } else if (name == "--shared") {
      o.kernel = o.kernel.shared_bytes(static_cast<std::size_t>(number(name, value, 0, 1LL << 40)));
    } else if (name == "--barriers") {
      o.kernel = o.kernel.barriers(small(0, 65536));
    } else if (name == "--carveout") {
      o.kernel = o.kernel.carveout_percent(small(0, 100));
    } else if (name == "--blocks") {
      o.blocks = number(name, value, 1, 1LL << 40);
    } else if (name == "--gpu") {
      o.gpu = value;
    } else if (name == "--svg") {
      o.svg = value;
    } else {
      o.ptxas = value;
    }
  }
  check_together(o);
  if (!o.gpu.empty()) {
    ww::gpu_model const& gpu = ww::gpu_named(o.gpu.c_str());
    ww::architecture const own = ww::architecture_of(gpu.major, gpu.minor);
    for (ww::architecture const& a : o.archs) {
      if (a.major == own.major && a.minor == own.minor) continue;
      throw std::invalid_argument{std::string{gpu.name} + " is " + ww::to_string(own) + ", not " +
                                  ww::to_string(a) + ": leave --arch out"};
    }
    o.archs = {own};
  }
  return o;
}

std::string read(std::string const& path) {
  std::FILE* const file = path == "-" ? stdin : std::fopen(path.c_str(), "rb");
  std::string text;
  char part[65536];
  std::size_t size = 0;
  while (file != nullptr && (size = std::fread(part, 1, sizeof part, file)) != 0) {
    text.append(part, size);
  }
  if (file == nullptr || std::ferror(file) != 0) {
    throw std::runtime_error{"cannot read " + path + ": " + std::strerror(errno)};
  }
  if (file != stdin) std::fclose(file);
  return text;
}

void write(std::string const& path, std::string const& text) {
  std::FILE* const file = std::fopen(path.c_str(), "wb");
  bool good = file != nullptr;
  if (good) {
    good = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    good = std::fclose(file) == 0 && good;
  }
  if (!good) throw std::runtime_error{"cannot write " + path + ": " + std::strerror(errno)};
}

// The message of an exception of the library, without the line of this program in front.
std::string plain(std::exception const& error) {
  std::string const text = error.what();
  std::size_t const end = text.find(": ");
  std::size_t const at = text.find("main.cpp:");
  return at < end && end != std::string::npos ? text.substr(end + 2) : text;
}

void run(options const& o) {
  if (!o.ptxas.empty()) {
    std::string const log = read(o.ptxas);
    std::vector<ww::ptxas_kernel> kernels;
    try {
      kernels = ww::parse_ptxas(log);
    } catch (std::invalid_argument const& error) {
      throw std::invalid_argument{o.ptxas + ": " + plain(error)};
    }
    std::fputs(ww::to_text(kernels, o.kernel.threads(), o.kernel.shared_bytes()).c_str(), stdout);
    return;
  }
  if (o.archs.size() > 1) std::printf("%s\n", ww::compare_architectures(o.kernel, o.archs).c_str());
  for (ww::architecture const& a : o.archs) {
    ww::occupancy_result const found = ww::occupancy(a, o.kernel);
    std::printf("%s\n", ww::explain(found).c_str());
    for (ww::occupancy_advice const& advice : ww::advise(found)) {
      std::printf("  %s: %s\n", advice.code.c_str(), advice.reason.c_str());
    }
    if (!o.gpu.empty() && found.blocks_per_multiprocessor > 0) {
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
    bool help = false;
    for (int i = 1; i < count; ++i) {
      help =
          help || std::strcmp(arguments[i], "--help") == 0 || std::strcmp(arguments[i], "-h") == 0;
    }
    if (help) {
      std::fputs(usage, stdout);
    } else {
      run(parse(count, arguments));
    }
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
      throw std::runtime_error{std::string{"the standard output cannot be written: "} +
                               std::strerror(errno)};
    }
    return 0;
  } catch (std::invalid_argument const& error) {
    std::fprintf(stderr, "warpwright_occupancy: %s\n", plain(error).c_str());
    if (count < 2) std::fputs(usage, stderr);
    return 2;
  } catch (std::exception const& error) {
    std::fprintf(stderr, "warpwright_occupancy: %s\n", plain(error).c_str());
    return 1;
  }
}
