// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/measure/roofline.hpp>

#include <warpwright/core/detail/report/plot.hpp>
#include <warpwright/core/detail/text/figures.hpp>
#include <warpwright/core/detail/text/markup.hpp>

#include <cmath>

WARPWRIGHT_BEGIN

namespace detail {

struct limit_facts {
  char const* name;
  char const* unit;
  char const* method;
};

inline constexpr limit_facts limits[limit_count] = {
    {"copy", "B/s", "cudaMemcpyAsync within device memory, bytes read and written"},
    {"read", "B/s", "a kernel of 16-byte loads, four in flight a thread"},
    {"write", "B/s", "a kernel of 16-byte stores"},
    {"l2 read", "B/s", "16-byte loads past L1 of a quarter of the L2 cache, again and again"},
    {"fp32", "flop/s", "8 independent chains of fused multiply-adds a thread"},
    {"fp64", "flop/s", "8 independent chains of fused multiply-adds a thread"},
    {"fp16", "flop/s", "8 independent chains of fused multiply-adds of pairs a thread"},
    {"bf16", "flop/s", "8 independent chains of fused multiply-adds of pairs a thread"},
    {"tensor", "flop/s", "cublasGemmEx, random 16-bit matrices, sums in float32"},
    {"up", "B/s", "cudaMemcpyAsync from page-locked memory"},
    {"down", "B/s", "cudaMemcpyAsync to page-locked memory"},
    {"launch", "s", "empty kernels back to back"},
    {"graph launch", "s", "graphs of one empty kernel back to back"},
    {"latency", "s", "loads of device memory, each behind the one before"}};

inline limit_facts const& facts_of(limit which) noexcept {
  return limits[static_cast<std::size_t>(which)];
}

WARPWRIGHT_COLD inline string_builder value_text(limit which, double value) {
  if (facts_of(which).unit[0] == 's') return format_seconds(value);
  return format_rate(value) + (value < 999.95 ? " " : "") + facts_of(which).unit;
}

WARPWRIGHT_COLD inline string_builder ceiling_row(string_builder const& name, limit which,
                                                  ceiling const& one,
                                                  string_builder const& method) {
  string_builder value = "-";
  string_builder spread = "";
  if (one.value > 0.0) {
    value = value_text(which, one.value);
    double const half = 50.0 * (one.high - one.low) / one.value;
    spread = (half < 99.95 ? format_number("+-%.1f %%", half) : string_builder{"> 100 %"}) +
             (one.converged ? "" : "?");
  }
  return padded(name, 13, true) + padded(value, 15) + padded(spread, 10) + "  " + method + "\n";
}

WARPWRIGHT_COLD inline string_builder ceiling_json(ceiling const& one) {
  auto const figure = [&](double value) {
    return one.value > 0.0 ? json_number(value, "%.6g") : string_builder{"null"};
  };
  return "\"value\":" + figure(one.value) + ",\"low\":" + figure(one.low) +
         ",\"high\":" + figure(one.high) + ",\"converged\":" + (one.converged ? "true" : "false");
}

// The roof over an intensity, of a bandwidth and a peak.
inline double roof_at(double intensity, double bytes_per_second, double flops_per_second) noexcept {
  double const by_memory = intensity * bytes_per_second;
  return by_memory < flops_per_second ? by_memory : flops_per_second;
}

}  // namespace detail

WARPWRIGHT_INLINE char const* to_string(limit which) noexcept {
  auto const i = static_cast<std::size_t>(which);
  return i < limit_count ? detail::limits[i].name : "unknown";
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE std::string to_text(device_ceilings const& c) {
  detail::string_builder text = detail::string_builder{c.gpu.name} + ", sm_" + c.gpu.major +
                                c.gpu.minor + ", " + c.gpu.multiprocessors +
                                " multiprocessors, CUDA " + c.device.driver_version / 1000 + "." +
                                c.device.driver_version % 1000 / 10 + ", " + c.date + "\n";
  for (std::size_t i = 0; i < limit_count; ++i) {
    text += detail::ceiling_row(detail::limits[i].name, static_cast<limit>(i), c.all[i],
                                detail::limits[i].method);
  }
  for (device_ceilings::peer const& p : c.peers) {
    text += detail::ceiling_row(detail::string_builder{"to device "} + p.to, limit::copy,
                                p.bytes_per_second,
                                detail::string_builder{"cudaMemcpyPeerAsync, "} +
                                    (p.direct ? "directly" : "through the host"));
  }
  return text;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE std::string to_json(device_ceilings const& c) {
  using detail::json_text;
  detail::string_builder json =
      "{\"device\":" + json_text(c.gpu.name) + ",\"uuid\":" + json_text(c.device.uuid) +
      ",\"compute_capability\":\"" + c.gpu.major + "." + c.gpu.minor +
      "\",\"multiprocessors\":" + c.gpu.multiprocessors +
      ",\"memory_bytes\":" + c.gpu.memory_bytes + ",\"driver_version\":" + c.device.driver_version +
      ",\"runtime_version\":" + c.device.runtime_version + ",\"date\":" + json_text(c.date) +
      ",\"seconds\":" + detail::json_number(c.seconds, "%.3f") + ",\"ceilings\":{";
  for (std::size_t i = 0; i < limit_count; ++i) {
    ceiling const& one = c.all[i];
    json += (i == 0 ? "" : ",") + json_text(detail::limits[i].name) + ":";
    if (!(one.value > 0.0)) {
      json += "null";
      continue;
    }
    json += "{" + detail::ceiling_json(one) + ",\"unit\":" + json_text(detail::limits[i].unit) +
            ",\"method\":" + json_text(detail::limits[i].method) + "}";
  }
  json += "},\"peers\":[";
  char const* comma = "";
  for (device_ceilings::peer const& p : c.peers) {
    json += detail::string_builder{comma} + "{\"from\":" + p.from + ",\"to\":" + p.to +
            ",\"direct\":" + (p.direct ? "true," : "false,") +
            detail::ceiling_json(p.bytes_per_second) + "}";
    comma = ",";
  }
  return json + "]}\n";
}

WARPWRIGHT_INLINE roofline_point roofline(device_ceilings const& c, cost const& what,
                                          double seconds, source_location where) {
  bool const possible = what.flops >= 0.0 && what.bytes >= 0.0 && seconds > 0.0 &&
                        std::isfinite(what.flops) && std::isfinite(what.bytes) &&
                        std::isfinite(seconds);
  if (!possible) {
    detail::throw_invalid_argument(detail::text{"roofline: "} + what.flops + " flop and " +
                                       what.bytes + " B in " + seconds +
                                       " s; give 0 or more of both, and a time above 0",
                                   where);
  }
  if (what.math < limit::fp32 || what.math > limit::tensor || what.memory < limit::copy ||
      what.memory > limit::l2_read) {
    detail::throw_invalid_argument(detail::text{"roofline: '"} + to_string(what.math) +
                                       "' is to be arithmetic and '" + to_string(what.memory) +
                                       "' memory; give fp32 to tensor, and copy to l2_read",
                                   where);
  }
  double const flops = c[what.math].value;
  double const bytes = c[what.memory].value;
  for (limit const needed : {what.math, what.memory}) {
    bool const counts = (needed == what.math ? what.flops : what.bytes) > 0.0;
    if (c[needed].value > 0.0 || !counts) continue;
    detail::throw_invalid_argument(detail::text{"roofline: the ceiling '"} + to_string(needed) +
                                       "' of " + c.gpu.name +
                                       " was not measured; "
                                       "measure_ceilings() does, or set it",
                                   where);
  }
  roofline_point p;
  p.what = what;
  p.seconds = seconds;
  double const math_seconds = what.flops > 0.0 ? what.flops / flops : 0.0;
  double const memory_seconds = what.bytes > 0.0 ? what.bytes / bytes : 0.0;
  double const launch = c[limit::launch].value;
  p.binds = math_seconds > memory_seconds ? what.math : what.memory;
  p.least_seconds = math_seconds > memory_seconds ? math_seconds : memory_seconds;
  if (launch > p.least_seconds) {
    p.binds = limit::launch;
    p.least_seconds = launch;
  }
  p.fraction = p.least_seconds / seconds;
  ceiling const& roof = c[p.binds];
  double const better = p.binds == limit::launch ? roof.low / roof.value : roof.value / roof.high;
  p.best_seconds = p.least_seconds * (better > 0.0 && better < 1.0 ? better : 1.0);
  p.intensity = what.bytes > 0.0 ? what.flops / what.bytes : what.flops > 0.0 ? HUGE_VAL : 0.0;
  p.ridge = bytes > 0.0 ? flops / bytes : 0.0;
  p.flops_per_second = what.flops / seconds;
  p.bytes_per_second = what.bytes / seconds;
  p.ceiling_value = c[p.binds].value;
  if (what.memory != limit::l2_read) {
    p.bytes_in_flight = littles_law(bytes, c[limit::memory_latency].value);
  }
  return p;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE std::string explain(roofline_point const& p) {
  using detail::string_builder;
  bool const math = p.binds >= limit::fp32 && p.binds <= limit::tensor;
  string_builder text = math ? "arithmetic: " : p.binds == limit::launch ? "launch: " : "memory: ";
  text += (p.fraction < 10.0 ? detail::format_percent(p.fraction) + " of"
                             : detail::format_number("%.0f times", p.fraction)) +
          " what is possible, ";
  if (p.binds == limit::launch) {
    text += detail::format_seconds(p.seconds) + " where a launch takes " +
            detail::format_seconds(p.ceiling_value);
  } else {
    text += detail::value_text(p.binds, math ? p.flops_per_second : p.bytes_per_second) + " of " +
            detail::value_text(p.binds, p.ceiling_value) + " (" + to_string(p.binds) + ")";
  }
  if (p.binds != limit::launch && p.what.bytes > 0.0 && p.what.flops > 0.0) {
    text += ", at " + detail::format_number("%.3g", p.intensity) +
            " flop/B; arithmetic binds from " + detail::format_number("%.3g", p.ridge);
  }
  if (1.02 * p.seconds < p.best_seconds) {
    text +=
        ". More than is possible: are bytes in a cache, counted twice, or was the stream not "
        "synchronised?";
  } else if (p.binds == limit::launch && p.fraction >= 0.5) {
    text += ": fuse it with others, or capture it in a graph";
  } else if (p.binds != limit::launch && p.fraction >= 0.8) {
    text += string_builder{": only "} +
            (math ? "fewer operations or a narrower type help" : "fewer bytes help");
  } else if (!math && p.binds != limit::launch && p.bytes_in_flight > 0.0) {
    text += ": " + detail::format_bytes(p.bytes_in_flight) +
            " must be in flight; load more in each thread, or have more threads resident";
  } else {
    text += ": look for waits, few blocks, and instructions beside those that count";
  }
  return text;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE std::string to_svg(device_ceilings const& c,
                                                     std::vector<named_point> const& points,
                                                     std::string const& title) {
  using detail::plot_point;
  using detail::plot_style;
  using detail::string_builder;
  double low = 1.0 / 16.0;
  double high = 1024.0;
  detail::array<plot_point> placed;
  for (named_point const& n : points) {
    double const x = n.point.intensity;
    if (!detail::can_be_drawn(x)) continue;
    if (x < low) low = x;
    if (x > high) high = x;
  }
  std::vector<named_point const*> drawn;
  for (named_point const& n : points) {
    double const x = std::isinf(n.point.intensity) ? high : n.point.intensity;
    double const y = n.point.flops_per_second;
    if (!detail::can_be_drawn(x) || !detail::can_be_drawn(y)) continue;
    placed.push_back({x, y, y, y, true});
    drawn.push_back(&n);
  }
  detail::plot_layout layout;
  layout.panel_height = 320;
  detail::plot chart{layout, low, high, 1, detail::plot_scale::decades, [](double v) {
                       return detail::format_number("%.4g", v);
                     }};
  string_builder const subtitle = string_builder{c.gpu.name} + ", measured " + c.date;
  chart.describe(title, subtitle + ": operations a second over operations a byte");
  chart.heading(title, subtitle);
  struct roof {
    limit math, memory;
    char const* color;
  };
  constexpr roof roofs[] = {{limit::tensor, limit::copy, plot_style::orange},
                            {limit::fp32, limit::copy, plot_style::blue},
                            {limit::fp32, limit::l2_read, plot_style::green}};
  detail::array<plot_point> lines[3];
  for (int r = 0; r < 3; ++r) {
    double const peak = c[roofs[r].math].value;
    double const bandwidth = c[roofs[r].memory].value;
    if (!(peak > 0.0 && bandwidth > 0.0)) continue;
    double const ridge = peak / bandwidth;
    for (double const x : {low, ridge, high}) {
      if (x < low || x > high) continue;
      double const y = detail::roof_at(x, bandwidth, peak);
      lines[r].push_back({x, y, y, y, true});
    }
  }
  chart.begin_panel(
      "flop/s", detail::plot_scale::decades, [](double v) { return detail::format_tick(v, false); },
      {&lines[0], &lines[1], &lines[2], &placed}, 0.0);
  for (int r = 0; r < 3; ++r) {
    chart.curve(lines[r], roofs[r].color,
                string_builder{to_string(roofs[r].math)} + " " +
                    detail::value_text(roofs[r].math, c[roofs[r].math].value) + ", " +
                    to_string(roofs[r].memory) + " " +
                    detail::value_text(roofs[r].memory, c[roofs[r].memory].value));
  }
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    chart.point(
        placed[i].x, placed[i].y, plot_style::red,
        string_builder{drawn[i]->name} + " " + detail::format_percent(drawn[i]->point.fraction));
  }
  return chart.finish("flop/B");
}

WARPWRIGHT_INLINE double amdahl(double part, double all, double speedup, source_location where) {
  if (!(part >= 0.0 && part <= all && speedup > 0.0 && std::isfinite(all))) {
    detail::throw_invalid_argument(detail::text{"amdahl: a part of "} + part + " s of " + all +
                                       " s that gets " + speedup +
                                       " times as fast; give 0 to all, and a factor above 0",
                                   where);
  }
  double const left = all - part + part / speedup;
  return all == 0.0 ? 1.0 : all / left;
}

WARPWRIGHT_END
