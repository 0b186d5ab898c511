// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/text/string_builder.hpp>
#include <warpwright/occupancy/occupancy.hpp>

WARPWRIGHT_BEGIN

namespace detail {

WARPWRIGHT_COLD WARPWRIGHT_INLINE void throw_invalid_kernel_resources(kernel_resources const& k,
                                                                      source_location where) {
  throw_invalid_argument(text{"kernel resources out of range: threads "} + k.threads() +
                             " (at least 1), registers " + k.registers() +
                             " (at least 0), barriers " + k.barriers() +
                             " (at least 0), carve-out percent " + k.carveout_percent() +
                             " (-1 to 100), the kernel's limit of threads per block " +
                             k.max_threads() + " (at least 1)",
                         where);
}

inline string_builder count_text(int count, char const* what) {
  return string_builder(count) + " " + what + (count == 1 ? "" : "s");
}

inline string_builder launch_problem_text(occupancy_result const& o) {
  architecture const& a = o.device;
  kernel_resources const& k = o.resources;
  auto const over = [](char const* what, std::size_t value, std::size_t limit) {
    return string_builder(value) + " " + what + ", the limit is " + string_builder(limit);
  };
  auto const size = [](int value) { return static_cast<std::size_t>(value); };
  switch (o.problem) {
    case launch_problem::threads_over_limit:
      return over("threads per block", size(k.threads()),
                  size(min_of(a.max_threads_per_block, k.max_threads())));
    case launch_problem::registers_over_limit:
      return over("registers per thread", size(k.registers()), size(a.max_registers_per_thread));
    case launch_problem::block_registers_over_limit: {
      int const fits = max_registers_per_thread(a, k, 1);
      return count_text(k.threads(), "thread") + " with " + count_text(k.registers(), "register") +
             " need more than the " + string_builder(a.max_registers_per_block) +
             " registers of a block; " + string_builder(fits) + " per thread fit";
    }
    case launch_problem::shared_memory_over_limit:
      return over("bytes of shared memory per block", k.shared_bytes(),
                  a.shared_bytes_per_block_optin);
    case launch_problem::shared_memory_not_opted_in:
      return over("bytes of shared memory per block", k.shared_bytes(), k.max_shared_bytes()) +
             " until cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, "
             "bytes) raises it (up to " +
             string_builder(a.shared_bytes_per_block_optin) + ")";
    case launch_problem::barriers_over_limit:
      return over("barriers per block", size(k.barriers()), size(a.max_barriers_per_block));
    case launch_problem::none:
      break;
  }
  return {};
}

inline string_builder limiters_text(occupancy_result const& o) {
  constexpr struct {
    resource bit;
    char const* name;
  } names[] = {{resource::registers, "registers"},
               {resource::shared_memory, "shared memory"},
               {resource::barriers, "barriers"},
               {resource::warps, "warp slots"},
               {resource::blocks, "block slots"}};
  string_builder text;
  for (auto const& n : names) {
    if (o.limited_by(n.bit)) text += (text.empty() ? "" : " and ") + string_builder{n.name};
  }
  return text;
}

WARPWRIGHT_COLD inline string_builder launch_bounds(int threads, int blocks) {
  string_builder const all = string_builder{"__launch_bounds__("} + threads;
  return all + (blocks > 1 ? string_builder{", "} + blocks : string_builder{}) + ")";
}

// The carve-out with which as many blocks are resident as with the largest.
inline occupancy_fix carveout_fix(occupancy_result const& o) {
  occupancy_fix fix{};
  kernel_resources const& k = o.resources;
  if (k.carveout_percent() < 0 || !o.limited_by(resource::shared_memory)) return fix;
  occupancy_result const most = occupancy(o.device, k.carveout_percent(-1));
  fix.resources = k.carveout_percent(smallest_carveout_percent(most));
  fix.occupancy = occupancy(o.device, fix.resources);
  fix.found = fix.occupancy.blocks_per_multiprocessor > o.blocks_per_multiprocessor;
  return fix;
}

inline string_builder fix_text(occupancy_result const& o, occupancy_fix const& fix) {
  string_builder text;
  auto const change = [&text](char const* name, std::size_t from, std::size_t to,
                              char const* unit) {
    if (from == to) return;
    text += (text.empty() ? "" : " with ") + string_builder{name} + string_builder(from) + " -> " +
            string_builder(to) + unit;
  };
  kernel_resources const& before = o.resources;
  kernel_resources const& after = fix.resources;
  bool const several = (o.limiters & (o.limiters - 1)) != 0;
  change(several ? "registers " : "", static_cast<std::size_t>(before.registers()),
         static_cast<std::size_t>(after.registers()), "");
  change(several ? "shared memory " : "", before.shared_bytes(), after.shared_bytes(), " bytes");
  change(several ? "barriers " : "", static_cast<std::size_t>(before.barriers()),
         static_cast<std::size_t>(after.barriers()), "");
  change("carve-out percent ", static_cast<std::size_t>(before.carveout_percent()),
         static_cast<std::size_t>(after.carveout_percent()), "");
  text += " gives " + count_text(fix.occupancy.blocks_per_multiprocessor, "block") +
          " instead of " + string_builder(o.blocks_per_multiprocessor);
  if (before.registers() == after.registers()) return text;
  return text + ": " + launch_bounds(before.threads(), fix.occupancy.blocks_per_multiprocessor);
}

}  // namespace detail

WARPWRIGHT_INLINE std::string explain(occupancy_result const& o) {
  detail::string_builder text = to_string(o.device) + ": ";
  if (o.problem != launch_problem::none) {
    return text + "cannot run: " + detail::launch_problem_text(o);
  }
  text += detail::format_percent(o.fraction) + " (" +
          detail::count_text(o.blocks_per_multiprocessor, "block") + " of " +
          detail::count_text(o.resources.threads(), "thread") + ", " +
          detail::string_builder(o.warps_per_multiprocessor) + " of " +
          detail::count_text(o.device.max_warps_per_multiprocessor, "warp") + ")";
  if (o.warps_per_multiprocessor == o.device.max_warps_per_multiprocessor) {
    return text + ", nothing limits it";
  }
  text += ", limited by " + detail::limiters_text(o);

  // In the order of advise().
  detail::string_builder changes;
  occupancy_fix const carveout = detail::carveout_fix(o);
  if (carveout.found) changes = ": " + detail::fix_text(o, carveout);
  occupancy_fix const fix = smallest_fix(o);
  // Another block size does not need a change of the kernel, so it is suggested if it is as good.
  block_size_suggestion const other = suggest_block_size(o.device, o.resources);
  int const required_warps =
      fix.found ? fix.occupancy.warps_per_multiprocessor : o.warps_per_multiprocessor + 1;
  if (other.occupancy.warps_per_multiprocessor >= required_warps) {
    changes += detail::string_builder{changes.empty() ? ": " : "; or "} + "a block of " +
               detail::count_text(other.threads, "thread") + " with the same resources gives " +
               detail::string_builder(other.occupancy.warps_per_multiprocessor) +
               " warps instead of " + detail::string_builder(o.warps_per_multiprocessor);
  }
  if (fix.found) changes += (changes.empty() ? ": " : "; or ") + detail::fix_text(o, fix);
  return text + changes;
}

WARPWRIGHT_END
