// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory over time as one self-contained HTML page: no scripts, no fonts, no other files.
#pragma once

#include "replay.hpp"
#include "trace_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace replay {

namespace detail {

template <class... Values>
std::string format(char const* pattern, Values... values) {
  char buffer[256];
  std::snprintf(buffer, sizeof buffer, pattern, values...);
  return buffer;
}

inline std::string grouped(std::uint64_t value) {
  std::string text = std::to_string(value);
  for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > 0; at -= 3) {
    text.insert(static_cast<std::size_t>(at), 1, ',');
  }
  return text;
}

inline std::string size_text(double value) {
  if (value >= 1024.0 * 1024.0 * 1024.0) return format("%.2f GiB", value / 1073741824.0);
  if (value >= 1024.0 * 1024.0) return format("%.1f MiB", value / 1048576.0);
  if (value >= 1024.0) return format("%.1f KiB", value / 1024.0);
  return format("%.0f B", value);
}
inline std::string size_text(std::uint64_t value) { return size_text(static_cast<double>(value)); }

inline std::string escaped(std::string const& raw) {
  std::string out;
  for (char const c : raw) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out;
}

// A round step that divides a linear axis into four to eight parts.
inline double axis_step(double high) {
  double step = 1.0;
  while (high / step > 8.0) step *= 2.0;
  return step;
}

struct plot {
  static constexpr double width = 860.0;
  static constexpr double height = 300.0;
  static constexpr double left = 76.0;
  static constexpr double right = 740.0;
  static constexpr double top = 34.0;
  static constexpr double bottom = 252.0;
  double operations;  // at the right edge
  double bytes;       // at the top edge

  [[nodiscard]] double x(double operation) const {
    return left + (right - left) * (operations > 0.0 ? operation / operations : 0.0);
  }
  [[nodiscard]] double y(double value) const {
    return bottom - (bottom - top) * (bytes > 0.0 ? value / bytes : 0.0);
  }
};

// A curve shows the samples, with a step between two of them.
inline std::string steps(result const& r, plot const& at, std::uint64_t sample::*value) {
  std::string points;
  double before = at.y(0.0);
  for (sample const& s : r.curve) {
    double const x = at.x(static_cast<double>(s.operation));
    double const y = at.y(static_cast<double>(s.*value));
    if (!points.empty()) points += format("%.1f,%.1f ", x, before);
    points += format("%.1f,%.1f ", x, y);
    before = y;
  }
  return points;
}

inline std::string area(result const& r, plot const& at, char const* css,
                        std::uint64_t sample::*value) {
  return std::string{"<polygon class=\""} + css + "\" points=\"" +
         format("%.1f,%.1f ", at.x(static_cast<double>(r.curve.front().operation)), at.y(0.0)) +
         steps(r, at, value) +
         format("%.1f,%.1f", at.x(static_cast<double>(r.curve.back().operation)), at.y(0.0)) +
         "\"/>\n";
}

inline std::string line(result const& r, plot const& at, char const* css,
                        std::uint64_t sample::*value) {
  return std::string{"<polyline class=\""} + css + "\" points=\"" + steps(r, at, value) + "\"/>\n";
}

inline std::string chart(result const& r, plot const& at) {
  std::string svg =
      format("<svg viewBox=\"0 0 %g %g\" role=\"img\" aria-label=\"memory over time: ", plot::width,
             plot::height) +
      escaped(r.allocator) + "\">\n<text class=\"title\" x=\"4\" y=\"16\">" + escaped(r.allocator) +
      format(": peak reserved / peak live = %.3f</text>\n", r.ratio());
  if (r.curve.empty()) {
    return svg + "<text class=\"label\" x=\"76\" y=\"60\">no sample was taken</text>\n</svg>\n";
  }
  double const step = axis_step(at.bytes);
  for (double tick = 0.0; tick <= at.bytes * 1.0001; tick += step) {
    svg += format("<line class=\"grid\" x1=\"%g\" x2=\"%g\" y1=\"%.1f\" y2=\"%.1f\"/>", plot::left,
                  plot::right, at.y(tick), at.y(tick));
    svg += format("<text class=\"label end\" x=\"%g\" y=\"%.1f\">", plot::left - 8.0,
                  at.y(tick) + 4.0) +
           size_text(tick) + "</text>\n";
  }
  svg += area(r, at, "free", &sample::reserved_bytes);
  svg += area(r, at, "live", &sample::live_bytes);
  svg += line(r, at, "reserved", &sample::reserved_bytes);
  if (r.has_largest_free_block) svg += line(r, at, "largest", &sample::largest_free_block_bytes);
  for (int i = 0; i <= 4; ++i) {
    double const operation = at.operations * i / 4;
    svg += format("<text class=\"label mid\" x=\"%.1f\" y=\"%g\">", at.x(operation),
                  plot::bottom + 18.0) +
           grouped(static_cast<std::uint64_t>(operation)) + "</text>\n";
  }
  svg += format("<text class=\"label mid\" x=\"%g\" y=\"%g\">operations</text>\n",
                (plot::left + plot::right) / 2, plot::bottom + 38.0);
  struct key {
    char const* css;
    char const* text;
    bool is_area;
  };
  std::vector<key> keys = {
      {"live", "live", true}, {"free", "free", true}, {"reserved", "reserved", false}};
  if (r.has_largest_free_block) keys.push_back({"largest", "largest free block", false});
  double y = plot::top + 8.0;
  for (key const& each : keys) {
    if (each.is_area) {
      svg += format("<rect class=\"%s\" x=\"%g\" y=\"%g\" width=\"18\" height=\"10\"/>", each.css,
                    plot::right + 12.0, y - 9.0);
    } else {
      svg += format("<polyline class=\"%s\" points=\"%g,%g %g,%g\"/>", each.css, plot::right + 12.0,
                    y - 4.0, plot::right + 30.0, y - 4.0);
    }
    svg += format("<text class=\"label\" x=\"%g\" y=\"%g\">%s</text>\n", plot::right + 36.0, y,
                  each.text);
    y += 20.0;
  }
  return svg + "</svg>\n";
}

inline constexpr char const* style = R"css(
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; color: #1d2433; background: #fff; margin: 0; }
main { max-width: 900px; margin: 0 auto; padding: 32px 20px 48px; }
h1 { font-size: 26px; margin: 0; } h2 { font-size: 18px; margin: 32px 0 8px; }
p { margin: 6px 0; } .muted { color: #5b6475; overflow-wrap: anywhere; }
.note { background: #fff6e0; border-left: 4px solid #d99a00; padding: 8px 14px; margin: 16px 0; }
.failed { background: #fdecea; border-left: 4px solid #b3261e; padding: 8px 14px; margin: 16px 0; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: 5px 10px; text-align: right; border-bottom: 1px solid #e6e9ef; }
th { font-weight: 600; } thead th { border-bottom: 2px solid #c5ccd8; }
th.name, td.name { text-align: left; } .wide { overflow-x: auto; }
svg { display: block; width: 100%; height: auto; margin: 12px 0; font: 12px system-ui, sans-serif; }
.title { font-size: 14px; font-weight: 600; fill: #1d2433; } .label { fill: #5b6475; }
.mid { text-anchor: middle; } .end { text-anchor: end; } .grid { stroke: #e6e9ef; }
polygon.live, rect.live { fill: #7ea6e0; } polygon.free, rect.free { fill: #f3dcc2; }
polyline { fill: none; stroke-width: 1.5; }
polyline.reserved { stroke: #1d2433; } polyline.largest { stroke: #b3261e; }
)css";

}  // namespace detail

/// The page of one trace.
inline std::string page_html(trace const& what, replay_settings const& how,
                             std::vector<result> const& results) {
  using detail::escaped;
  std::string page =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>" +
      escaped(what.name) + ": memory over time</title>\n<style>" + detail::style +
      "</style>\n</head>\n<body>\n<main>\n<h1>" + escaped(what.name) + "</h1>\n<p>" +
      detail::grouped(what.operations.size()) + " operations on " + std::to_string(what.streams) +
      (what.streams == 1 ? " stream" : " streams") +
      (how.threads ? ", one thread a stream" : ", one thread") +
      ", replayed with warpwright_replay";
#if WARPWRIGHT_HOST_RUNTIME
  page += " on the host runtime";
#endif
  page += "</p>\n";
#if WARPWRIGHT_HOST_RUNTIME
  page +=
      "<p class=\"note\"><b>No GPU was used.</b> Times are the CPU's, and async is the host "
      "runtime's own cudaMallocAsync, whose figures say nothing of a driver's.</p>\n";
#endif
  if (!what.header.empty()) {
    page += "<p class=\"muted\">The trace says of itself: " + escaped(what.header) + "</p>\n";
  }
  page +=
      "<div class=\"wide\"><table>\n<thead><tr><th scope=\"col\" class=\"name\">allocator</th>"
      "<th scope=\"col\">peak live</th><th scope=\"col\">peak reserved</th><th "
      "scope=\"col\">ratio</th><th scope=\"col\">ns per operation</th><th scope=\"col\">CUDA calls "
      "per operation</th></tr></thead>\n<tbody>\n";
  double const operations = static_cast<double>(what.operations.size());
  double bytes = 0.0;
  for (result const& r : results) {
    page += "<tr><td class=\"name\">" + escaped(r.allocator) + "</td><td>" +
            detail::size_text(r.peak_live_bytes) + "</td><td>" +
            detail::size_text(r.peak_reserved_bytes) + "</td><td>" +
            detail::format("%.3f", r.ratio()) + "</td><td>" + detail::format("%.1f", r.ns_per_op) +
            "</td><td>" + detail::format("%.4f", r.cuda_calls_per_op) + "</td></tr>\n";
    for (sample const& s : r.curve) {
      bytes = (std::max)(bytes, static_cast<double>((std::max)(s.reserved_bytes, s.live_bytes)));
    }
  }
  page += "</tbody>\n</table></div>\n";
  for (result const& r : results) {
    for (std::string const& message : r.messages) {
      page +=
          "<p class=\"failed\"><b>" + escaped(r.allocator) + "</b>: " + escaped(message) + "</p>\n";
    }
  }
  page += "<h2>Memory over time</h2>\n";
  // One scale for all allocators, so that they can be compared.
  for (result const& r : results) page += detail::chart(r, detail::plot{operations, bytes});
  return page +
         "<p class=\"muted\">Live is what the trace requested for, at its highest between two "
         "points "
         "of the curve; free is what is reserved beyond "
         "that, rounding included; the largest free block is shown where the allocator "
         "tells it.</p>\n</main>\n</body>\n</html>\n";
}

/// The page's path: `requested` for a single trace, otherwise with the trace's name inserted.
inline std::string page_path(std::string const& requested, trace const& what, bool single) {
  if (single) return requested;
  std::size_t const slash = requested.find_last_of('/');
  std::size_t dot = requested.find_last_of('.');
  if (dot == std::string::npos || (slash != std::string::npos && dot < slash))
    dot = requested.size();
  return requested.substr(0, dot) + '-' + what.name + requested.substr(dot);
}

namespace detail {

inline void write_file(std::string const& path, char const* mode, std::string const& text) {
  std::FILE* const file = std::fopen(path.c_str(), mode);
  bool written = false;
  if (file != nullptr) {
    written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    written = (std::fclose(file) == 0) && written;
  }
  if (!written) {
    throw std::runtime_error{path + ": the page cannot be written: " + std::strerror(errno)};
  }
}

}  // namespace detail

/// Writes a page.
/// @throws std::runtime_error  naming the path, when it cannot be written
inline void write_page(std::string const& path, std::string const& page) {
  detail::write_file(path, "wb", page);
}

/// Checks before the replay that a page can be written; an existing page is kept.
/// @throws std::runtime_error  naming the path, when it cannot be written
inline void check_writable(std::string const& path) { detail::write_file(path, "ab", {}); }

}  // namespace replay
