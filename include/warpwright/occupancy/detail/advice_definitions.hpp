// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/occupancy/advice.hpp>

#include <warpwright/core/detail/container/array.hpp>
#include <warpwright/core/detail/report/plot.hpp>
#include <warpwright/core/detail/text/string_builder.hpp>
#include <warpwright/occupancy/detail/occupancy_definitions.hpp>

WARPWRIGHT_BEGIN

namespace detail {

/// Collects changes that help.
class advisor {
 public:
  explicit advisor(occupancy_result const& before) : before_{before} {}

  WARPWRIGHT_COLD void consider(string_builder const& code, string_builder const& what,
                                kernel_resources const& after) {
    occupancy_result const o = occupancy(before_.device, after);
    if (o.warps_per_multiprocessor <= before_.warps_per_multiprocessor) return;
    for (occupancy_advice const& a : all) {
      if (a.code == code.str()) return;
    }
    bool const by_warps = after.threads() != before_.resources.threads();
    int const now = by_warps ? o.warps_per_multiprocessor : o.blocks_per_multiprocessor;
    string_builder reason = what + " gives " + count_text(now, by_warps ? "warp" : "block");
    if (before_.problem == launch_problem::none) {
      reason += string_builder{" instead of "} +
                (by_warps ? before_.warps_per_multiprocessor : before_.blocks_per_multiprocessor);
    }
    all.push_back({code, reason, after, o});
  }
  std::vector<occupancy_advice> all;

 private:
  occupancy_result const& before_;
};

WARPWRIGHT_COLD inline string_builder change_text(char const* what, std::size_t from,
                                                  std::size_t to) {
  return string_builder{what} + from + " -> " + to;
}

}  // namespace detail

WARPWRIGHT_COLD WARPWRIGHT_INLINE std::vector<occupancy_advice> advise(occupancy_result const& o) {
  using detail::string_builder;
  architecture const& a = o.device;
  kernel_resources const& k = o.resources;
  detail::advisor advisor{o};
  auto const size = [](int value) { return static_cast<std::size_t>(value); };
  if (o.problem == launch_problem::shared_memory_not_opted_in) {
    advisor.consider(string_builder{"ww::allow_dynamic_shared_bytes(kernel, "} + k.shared_bytes() +
                         " - static_bytes)",
                     detail::change_text("shared memory of a block at most ", k.max_shared_bytes(),
                                         k.shared_bytes()),
                     k.max_shared_bytes(k.shared_bytes()));
  }
  occupancy_fix const carveout = detail::carveout_fix(o);
  if (carveout.found) {
    int const percent = carveout.resources.carveout_percent();
    advisor.consider(
        string_builder{
            "cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, "} +
            percent + ")",
        detail::change_text("carve-out percent ", size(k.carveout_percent()), size(percent)),
        carveout.resources);
  }
  block_size_suggestion const other = suggest_block_size(a, k);
  if (other.threads > 0 && other.threads != k.threads()) {
    advisor.consider(
        string_builder{"kernel<<<blocks, "} + other.threads + ">>>",
        detail::change_text("threads of a block ", size(k.threads()), size(other.threads)) +
            " with the same resources",
        k.threads(other.threads));
  }
  // The next block, and as many as the warp slots hold.
  int const threads = detail::min_of(k.threads(), a.max_threads_per_block);  // it may be INT_MAX
  int const most = a.max_warps_per_multiprocessor / ((threads + a.warp_size - 1) / a.warp_size);
  for (int const blocks : {o.blocks_per_multiprocessor + 1, most}) {
    int registers = max_registers_per_thread(a, k, blocks);
    // Fewer than 16 registers per thread are not practical.
    if (registers < 16 || registers >= k.registers()) continue;
    // What else limits may allow fewer blocks, which need not take as many registers.
    int const reached = occupancy(a, k.registers(registers)).blocks_per_multiprocessor;
    if (reached == 0) continue;
    registers = max_registers_per_thread(a, k, reached);
    advisor.consider(detail::launch_bounds(k.threads(), reached),
                     detail::change_text("registers ", size(k.registers()), size(registers)),
                     k.registers(registers));
  }
  occupancy_fix fix = smallest_fix(o);
  if (o.problem == launch_problem::shared_memory_over_limit ||
      o.problem == launch_problem::barriers_over_limit) {
    std::size_t bytes = 0;
    fix.found = max_shared_bytes_per_block(a, k, 1, bytes);
    if (k.shared_bytes() < bytes) bytes = k.shared_bytes();
    fix.resources =
        k.shared_bytes(bytes).barriers(detail::min_of(k.barriers(), a.max_barriers_per_block));
  }
  if (fix.found) {
    string_builder what;
    string_builder code;
    auto const less = [&](char const* name, std::size_t from, std::size_t to,
                          string_builder const& how) {
      if (from == to) return;
      what += (what.empty() ? "" : " and ") + detail::change_text(name, from, to);
      code += (code.empty() ? string_builder{} : string_builder{" and "}) + how;
    };
    kernel_resources const& after = fix.resources;
    less("registers ", size(k.registers()), size(after.registers()),
         detail::launch_bounds(k.threads(), fix.occupancy.blocks_per_multiprocessor));
    less("shared memory ", k.shared_bytes(), after.shared_bytes(),
         string_builder{k.shared_bytes() - after.shared_bytes()} + " B of shared memory fewer");
    less("barriers ", size(k.barriers()), size(after.barriers()),
         detail::count_text(k.barriers() - after.barriers(), "barrier") + " fewer");
    advisor.consider(code, what, after);
  }
  return advisor.all;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE int resident_clusters(occupancy_result const& o,
                                                        int cluster_blocks,
                                                        std::vector<int> const& gpcs,
                                                        source_location where) {
  if (cluster_blocks < 1 || cluster_blocks > 16 || o.device.major < 9) {
    detail::throw_invalid_argument(detail::text{"resident_clusters: clusters of "} +
                                       cluster_blocks + " blocks on " +
                                       to_string(o.device).c_str() +
                                       "; 1 to 16 are possible (up to 8 on every GPU), from "
                                       "compute capability 9.0",
                                   where);
  }
  long long clusters = 0;  // wide, as the sizes may be any
  for (long long const multiprocessors : gpcs) {
    if (multiprocessors < 0) continue;
    clusters += multiprocessors * o.blocks_per_multiprocessor / cluster_blocks;
  }
  return clusters < 2147483647 ? static_cast<int>(clusters) : 2147483647;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE std::string compare_architectures(
    kernel_resources const& kernel, std::vector<architecture> const& all) {
  using detail::padded;
  detail::string_builder text = "arch    blocks  warps  occupancy  limited by\n";
  for (architecture const& each : all) {
    occupancy_result const o = occupancy(each, kernel);
    text += padded(to_string(o.device), 8, true) + padded(o.blocks_per_multiprocessor, 6) +
            padded(o.warps_per_multiprocessor, 7) + padded(detail::format_percent(o.fraction), 11) +
            "  " +
            (o.problem != launch_problem::none ? "cannot run: " + detail::launch_problem_text(o)
             : o.fraction == 1.0               ? detail::string_builder{"nothing"}
                                               : detail::limiters_text(o)) +
            "\n";
  }
  return text;
}

namespace detail {

// One of the three charts: the occupancy over one number of the kernel.
template <class Change>
WARPWRIGHT_COLD string_builder occupancy_chart(occupancy_result const& o, char const* name,
                                               double now, int first, int last, int step,
                                               string_builder (*label)(double), plot_scale scale,
                                               Change change) {
  array<plot_point> curve;
  auto const add = [&](int value, double y) {
    curve.push_back({static_cast<double>(value), y, y, y, true});
  };
  double percent = -1.0;
  // What is allocated in units of `step` is one unit more from 1 behind a multiple on.
  for (int value = first; value <= last; value += value == 0 ? 1 : step) {
    double const next = 100.0 * occupancy(o.device, change(value)).fraction;
    if (next == percent) continue;
    if (percent >= 0.0) add(value, percent);  // a step, not a slope
    add(value, next);
    percent = next;
  }
  add(last, percent);
  plot_layout layout;
  layout.standalone = false;
  layout.top = 34;
  layout.panel_height = 130;
  layout.gap = 0;
  plot chart{layout, static_cast<double>(first), static_cast<double>(last), 1, scale, label};
  chart.mark_x(now, label(now));
  array<plot_point> whole;
  whole.push_back({0.0, 100.0, 100.0, 100.0, true});
  chart.begin_panel(
      "occupancy", plot_scale::linear, [](double value) { return format_number("%.0f %%", value); },
      {&curve, &whole}, 0.0);
  chart.curve(curve, plot_style::blue, "");
  chart.point(now, 100.0 * o.fraction, plot_style::red, format_percent(o.fraction));
  return chart.finish(name);
}

}  // namespace detail

WARPWRIGHT_COLD WARPWRIGHT_INLINE std::string to_svg(occupancy_result const& o,
                                                     std::string const& title) {
  using detail::string_builder;
  kernel_resources const& k = o.resources;
  auto const whole = [](double value) { return detail::format_number("%.0f", value); };
  auto const kib = [](double value) { return detail::format_tick(value, true); };
  string_builder const charts[] = {
      detail::occupancy_chart(o, "threads of a block", k.threads(), 1,
                              o.device.max_threads_per_block, 1, whole, detail::plot_scale::linear,
                              [&](int value) { return k.threads(value); }),
      detail::occupancy_chart(
          o, "registers of a thread", k.registers(), 0, o.device.max_registers_per_thread, 1, whole,
          detail::plot_scale::linear, [&](int value) { return k.registers(value); }),
      detail::occupancy_chart(o, "shared memory of a block", static_cast<double>(k.shared_bytes()),
                              0, static_cast<int>(o.device.shared_bytes_per_block_optin),
                              static_cast<int>(o.device.shared_allocation_unit_bytes), kib,
                              detail::plot_scale::linear_bytes, [&](int value) {
                                return k.shared_bytes(static_cast<std::size_t>(value));
                              })};
  constexpr int width = 760, head = 66, height = 220;
  string_builder svg =
      string_builder{
          "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" font-family=\"system-ui, 'Segoe "
          "UI', "
          "'DejaVu Sans', sans-serif\" width=\"760\" height=\""} +
      (head + 3 * height) + "\" viewBox=\"0 0 760 " + (head + 3 * height) + "\">\n<title>" +
      detail::xml_text(title) + "</title>\n<rect width=\"100%\" height=\"100%\" fill=\"" +
      detail::plot_style::background +
      "\"/>\n<text x=\"84\" y=\"28\" font-size=\"17\" "
      "font-weight=\"600\" fill=\"" +
      detail::plot_style::foreground + "\">" + detail::xml_text(title) +
      "</text>\n<text x=\"84\" y=\"49\" font-size=\"13\" fill=\"" + detail::plot_style::muted +
      "\">" +
      detail::xml_text((to_string(o.device) + ": " + detail::format_percent(o.fraction) + ", " +
                        (o.problem != launch_problem::none ? detail::launch_problem_text(o)
                         : o.fraction == 1.0               ? string_builder{"nothing limits it"}
                                             : "limited by " + detail::limiters_text(o)))
                           .str()) +
      "</text>\n";
  for (int i = 0; i < 3; ++i) {
    svg += string_builder{"<svg x=\"0\" y=\""} + (head + i * height) + "\" width=\"" + width +
           "\" height=\"" + height + "\"" + charts[i].str().substr(4);
  }
  return svg + "</svg>\n";
}

WARPWRIGHT_END
