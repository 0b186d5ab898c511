// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/occupancy/ptxas.hpp>

#include <warpwright/core/detail/container/sort.hpp>
#include <warpwright/core/detail/text/kernel_label.hpp>
#include <warpwright/core/detail/text/string_builder.hpp>
#include <warpwright/occupancy/detail/occupancy_definitions.hpp>

#include <cstdio>
#include <cstdlib>

WARPWRIGHT_BEGIN

namespace detail {

/// @return where a part begins behind `at`, or the text's end
inline std::size_t until(std::string const& text, char const* part, std::size_t at) {
  std::size_t const found = text.find(part, at);
  return found == std::string::npos ? text.size() : found;
}

/// Reads the lines of one log.
class ptxas_reader {
 public:
  explicit ptxas_reader(source_location where) : where_{where} {}

  WARPWRIGHT_COLD void line(std::string const& text) {
    ++number_;
    std::size_t at = 0;
    if ((at = behind(text, "Compiling entry function '")) != 0) {
      finish();
      std::size_t const end = text.find('\'', at);
      std::size_t const arch_at = behind(text, "' for 'sm_");
      if (end == std::string::npos || arch_at == 0) refuse(text);
      ptxas_kernel kernel;
      kernel.name = text.substr(at, end - at);
      int const capability = capability_at(text, arch_at);
      architecture const* const device = find_architecture(capability / 10, capability % 10);
      if (device == nullptr) {
        refuse(text, detail::text{": sm_"} + capability +
                         " is not in the table of architectures; leave its lines out, or compile "
                         "without it: ");
      }
      kernel.device = *device;
      kernels.push_back(kernel);
      needs_use_ = true;
    } else if ((at = behind(text, "nvlink info ")) != 0) {
      std::size_t const name_at = behind(text, "Function properties for '");
      if (name_at != 0) linked_ = text.substr(name_at, until(text, "'", name_at) - name_at);
      if ((at = behind(text, ": used ")) != 0 && !linked_.empty()) link(text, at);
    } else if ((at = behind(text, "Function properties for ")) != 0) {
      of_kernel_ =
          !kernels.empty() && text.compare(at, std::string::npos, kernels.back().name) == 0;
    } else if ((at = text.find(" bytes stack frame")) != std::string::npos && of_kernel_) {
      ptxas_kernel& k = kernels.back();
      while (at > 0 && text[at - 1] >= '0' && text[at - 1] <= '9') --at;  // there may be a prefix
      if (std::sscanf(text.c_str() + at, "%zu bytes stack frame, %zu bytes spill stores, %zu bytes",
                      &k.stack_bytes, &k.spill_store_bytes, &k.spill_load_bytes) != 3) {
        refuse(text);
      }
    } else if ((at = behind(text, ": Used ")) != 0 && needs_use_) {
      needs_use_ = false;
      kernels.back().resources = use(text, at);
    }
  }
  // A log that was cut off must not pass for a whole one.
  WARPWRIGHT_COLD void finish() {
    if (!needs_use_) return;
    throw_invalid_argument(text{"parse_ptxas: line "} + number_ +
                               ": there is no line 'Used … registers' for '" +
                               kernels.back().name.c_str() + "': is the log whole?",
                           where_);
  }

  std::vector<ptxas_kernel> kernels;

 private:
  static std::size_t behind(std::string const& text, char const* part) {
    std::size_t const at = text.find(part);
    return at == std::string::npos ? 0 : at + std::string{part}.size();
  }
  // "90a": as 90.
  static int capability_at(std::string const& text, std::size_t at) {
    return static_cast<int>(std::strtol(text.c_str() + at, nullptr, 10));
  }
  // What linking has made of a kernel, for "(target: sm_90)" or all architectures.
  WARPWRIGHT_COLD void link(std::string const& text, std::size_t at) {
    std::size_t const end = until(text, " (target: sm_", at);
    int const capability = end < text.size() ? capability_at(text, end + 13) : 0;
    kernel_resources const linked = use(text.substr(0, end), at);
    std::size_t const bytes = linked.shared_bytes();
    for (ptxas_kernel& k : kernels) {
      int const own = k.device.major * 10 + k.device.minor;
      if (k.name != linked_ || (end < text.size() && capability != own)) continue;
      // Of 9.0 nvlink adds what CUDA reserves in a block.
      k.resources = linked.shared_bytes(own == 90 && bytes >= 1024 ? bytes - 1024 : bytes);
    }
    linked_.clear();
  }
  // "Used 26 registers, used 1 barriers, 8192 bytes smem, 360 bytes cmem[0]"
  WARPWRIGHT_COLD kernel_resources use(std::string const& text, std::size_t at) {
    kernel_resources r = kernel_resources{}.barriers(0);
    bool has_registers = false;
    while (at < text.size()) {
      std::size_t const end = until(text, ", ", at);
      std::string const part = text.substr(at, end - at);
      at = end + 2;
      char const* digits = part.c_str();
      if (part.compare(0, 5, "used ") == 0) digits += 5;
      char* unit = nullptr;
      long const value = std::strtol(digits, &unit, 10);
      if (unit == digits || value < 0 || value > 1 << 30) refuse(text);
      std::string const what = unit;
      if (what == " registers") {
        r = r.registers(static_cast<int>(value));
        has_registers = true;
      } else if (what == " barriers") {
        r = r.barriers(static_cast<int>(value));
      } else if (what == " bytes smem") {
        r = r.shared_bytes(static_cast<std::size_t>(value));
      } else if (what.compare(0, 12, " bytes cmem[") != 0 || what.back() != ']') {
        std::string const units =
            "| bytes lmem| bytes gmem| bytes cumulative stack size| stack| textures| surfaces| "
            "samplers|";
        if (units.find('|' + what + '|') == std::string::npos) refuse(text);  // it is cut off
      }
    }
    if (!has_registers) refuse(text);
    return r;
  }
  [[noreturn]] WARPWRIGHT_COLD void refuse(std::string const& line,
                                           text const& why = " is not as ptxas writes it: ") {
    throw_invalid_argument(text{"parse_ptxas: line "} + number_ + why + line.substr(0, 400).c_str(),
                           where_);
  }

  source_location where_;
  unsigned long long number_ = 0;
  std::string linked_;
  bool needs_use_ = false;
  bool of_kernel_ = false;
};

}  // namespace detail

WARPWRIGHT_COLD WARPWRIGHT_INLINE std::vector<ptxas_kernel> parse_ptxas(std::string const& text,
                                                                        source_location where) {
  detail::ptxas_reader reader{where};
  for (std::size_t at = 0; at < text.size();) {
    std::size_t const end = detail::until(text, "\n", at);
    std::size_t last = end;
    while (last > at && static_cast<unsigned char>(text[last - 1]) <= ' ') --last;  // and "\r"
    reader.line(text.substr(at, last - at));
    at = end + 1;
  }
  reader.finish();
  if (reader.kernels.empty()) {
    detail::throw_invalid_argument(
        "parse_ptxas: there is no line 'Compiling entry function …': compile with nvcc -Xptxas -v, "
        "or --resource-usage, and give all that it prints",
        where);
  }
  return static_cast<std::vector<ptxas_kernel>&&>(reader.kernels);
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE std::string to_text(std::vector<ptxas_kernel> const& kernels,
                                                      int threads, std::size_t dynamic_bytes) {
  using detail::padded;
  struct row {
    ptxas_kernel const* kernel;
    occupancy_result now;
    std::string label, key;  // equal keys: the same kernel, of several files
    std::size_t spilled() const { return kernel->spill_store_bytes + kernel->spill_load_bytes; }
  };
  std::vector<row> all;
  std::size_t const most = static_cast<std::size_t>(-1) / 2;  // no sum overflows
  for (ptxas_kernel const& k : kernels) {
    // More threads than the given ones may not be launched: the log has no launch bounds.
    kernel_resources const r = k.resources.threads(threads).max_threads(threads).shared_bytes(
        k.resources.shared_bytes() + (dynamic_bytes < most ? dynamic_bytes : most));
    row next{&k, occupancy(k.device, r), detail::kernel_label(k.name), ""};
    next.key = detail::string_builder{next.label} + "\n" + k.name + "\n" + to_string(k.device) +
               " " + r.registers() + " " + r.shared_bytes() + " " + next.spilled();
    all.push_back(next);
  }
  detail::sort(all.data(), all.size(), [](row const& a, row const& b) { return a.key < b.key; });
  std::vector<row> rows;
  for (std::size_t i = 0, end = 0; i < all.size();) {
    while (end < all.size() && all[end].label == all[i].label) ++end;
    bool const shared = all[i].kernel->name != all[end - 1].kernel->name;
    for (; i < end; ++i) {
      if (i > 0 && all[i].key == all[i - 1].key) continue;
      rows.push_back(all[i]);
      if (shared) rows.back().label = detail::demangled(all[i].kernel->name);
    }
  }
  detail::sort(rows.data(), rows.size(), [](row const& a, row const& b) {
    if (a.now.fraction != b.now.fraction) return a.now.fraction < b.now.fraction;
    if (a.spilled() != b.spilled()) return a.spilled() > b.spilled();
    return a.kernel < b.kernel;  // else in their order
  });
  detail::string_builder text =
      detail::string_builder{
          "occupancy  arch    registers  shared B  spilled B  kernel, blocks of "} +
      threads + " threads\n";
  for (row const& r : rows) {
    ptxas_kernel const& k = *r.kernel;
    text += padded(detail::format_percent(r.now.fraction), 9) + "  " +
            padded(to_string(k.device), 8, true) + padded(k.resources.registers(), 9) +
            padded(r.now.resources.shared_bytes(), 10) + padded(r.spilled(), 11) + "  " + r.label +
            "\n";
    occupancy_advice const* first = nullptr;
    std::vector<occupancy_advice> const advice = advise(r.now);
    for (occupancy_advice const& a : advice) {
      bool const takes = a.resources.registers() < r.now.resources.registers();
      bool const worse = takes && r.spilled() != 0;  // it has too few of them already
      if (first == nullptr && !worse) first = &a;
    }
    if (r.now.problem != launch_problem::none) {
      text += "           cannot run: " + detail::launch_problem_text(r.now) + "\n";
    }
    if (first != nullptr) text += "           " + first->code + ": " + first->reason + "\n";
  }
  return text;
}

WARPWRIGHT_END
