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
      long const number = std::strtol(text.c_str() + arch_at, nullptr, 10);  // "90a": as 90
      int const capability = number < 0 || number > 9999 ? 0 : static_cast<int>(number);
      kernel.device = architecture_of(capability / 10, capability % 10, where_);
      kernels.push_back(kernel);
      needs_use_ = true;
    } else if ((at = behind(text, "Function properties for ")) != 0) {
      of_kernel_ =
          !kernels.empty() && text.compare(at, std::string::npos, kernels.back().name) == 0;
    } else if (text.find("bytes spill stores") != std::string::npos && of_kernel_) {
      ptxas_kernel& k = kernels.back();
      if (std::sscanf(text.c_str(), " %zu bytes stack frame, %zu bytes spill stores, %zu bytes",
                      &k.stack_bytes, &k.spill_store_bytes, &k.spill_load_bytes) != 3) {
        refuse(text);
      }
    } else if ((at = behind(text, ": Used ")) != 0 && needs_use_) {
      use(text, at);
    }
  }
  // A log that was cut off must not pass for a whole one.
  WARPWRIGHT_COLD void finish() {
    if (!needs_use_) return;
    throw_invalid_argument(text{"parse_ptxas: line "} + static_cast<unsigned long long>(number_) +
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
  // "Used 26 registers, used 1 barriers, 8192 bytes smem, 360 bytes cmem[0]"
  WARPWRIGHT_COLD void use(std::string const& text, std::size_t at) {
    ptxas_kernel& k = kernels.back();
    needs_use_ = false;
    kernel_resources r = k.resources.barriers(0);
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
      }
    }
    if (!has_registers) refuse(text);
    k.resources = r;
  }
  [[noreturn]] WARPWRIGHT_COLD void refuse(std::string const& line) {
    throw_invalid_argument(text{"parse_ptxas: line "} + static_cast<unsigned long long>(number_) +
                               " is not as ptxas writes it: " + line.substr(0, 120).c_str(),
                           where_);
  }

  source_location where_;
  std::size_t number_ = 0;
  bool needs_use_ = false;
  bool of_kernel_ = false;
};

}  // namespace detail

WARPWRIGHT_COLD WARPWRIGHT_INLINE std::vector<ptxas_kernel> parse_ptxas(std::string const& text,
                                                                        source_location where) {
  detail::ptxas_reader reader{where};
  for (std::size_t at = 0; at < text.size();) {
    std::size_t const end = detail::until(text, "\n", at);
    std::size_t const last = end > at && text[end - 1] == '\r' ? end - 1 : end;
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
  };
  std::vector<row> rows;
  for (ptxas_kernel const& k : kernels) {
    kernel_resources const r =
        k.resources.threads(threads).shared_bytes(k.resources.shared_bytes() + dynamic_bytes);
    rows.push_back({&k, occupancy(k.device, r)});
  }
  detail::sort(rows.data(), rows.size(), [](row const& a, row const& b) {
    if (a.now.fraction != b.now.fraction) return a.now.fraction < b.now.fraction;
    std::size_t const spilled = a.kernel->spill_store_bytes + a.kernel->spill_load_bytes;
    std::size_t const other = b.kernel->spill_store_bytes + b.kernel->spill_load_bytes;
    return spilled != other ? spilled > other : a.kernel < b.kernel;  // else in their order
  });
  detail::string_builder text =
      detail::string_builder{
          "occupancy  arch    registers  shared B  spilled B  kernel, blocks of "} +
      threads + " threads\n";
  for (row const& r : rows) {
    ptxas_kernel const& k = *r.kernel;
    text += padded(detail::format_percent(r.now.fraction), 9) + "  " +
            padded(to_string(k.device), 8, true) + padded(k.resources.registers(), 9) +
            padded(r.now.resources.shared_bytes(), 10) +
            padded(k.spill_store_bytes + k.spill_load_bytes, 11) + "  " +
            detail::kernel_label(k.name) + "\n";
    bool const spills = k.spill_store_bytes + k.spill_load_bytes != 0;
    occupancy_advice const* first = nullptr;
    std::vector<occupancy_advice> const advice = advise(r.now);
    for (occupancy_advice const& a : advice) {
      bool const takes = a.resources.registers() < r.now.resources.registers();
      if (first == nullptr && !(spills && takes)) first = &a;  // it has too few of them already
    }
    if (first != nullptr) {
      text += "           " + first->code + ": " + first->reason + "\n";
    } else if (r.now.problem != launch_problem::none) {
      text += "           cannot run: " + detail::launch_problem_text(r.now) + "\n";
    }
  }
  return text;
}

WARPWRIGHT_END
