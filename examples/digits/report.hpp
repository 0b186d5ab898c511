// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The report of a run as one self-contained HTML page: no scripts, fonts or other files.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace digits {

/// One row of the batch table.
struct batch_row {
  std::size_t batch = 0;
  bool measured = false;  ///< false: not run, `verdict` has the reason
  bool within = false;    ///< under the memory budget and the latency limit
  bool chosen = false;
  double items_per_s = 0.0;  ///< images per second
  double median_ms = 0.0;    ///< latency of one batch
  double p99_ms = 0.0;
  std::size_t memory_bytes = 0;
  std::string verdict;
};

/// A single batch, run eagerly and as a captured graph.
struct graph_timing {
  std::size_t batch = 0;
  double eager_ms = 0.0;  ///< median
  double graph_ms = 0.0;  ///< median
  std::size_t nodes = 0;

  /// @return how many times faster the graph is
  [[nodiscard]] double speedup() const { return graph_ms > 0.0 ? eager_ms / graph_ms : 0.0; }
};

namespace text {

/// printf into a string.
template <class... Values>
std::string format(char const* pattern, Values... values) {
  char buffer[256];
  std::snprintf(buffer, sizeof buffer, pattern, values...);
  return buffer;
}
inline std::string format(char const* plain) { return plain; }

}  // namespace text

/// What a part of the library buys against the plain CUDA way.
struct part_gain {
  std::string part;   ///< of the library
  std::string work;   ///< done in both ways
  std::string plain;  ///< the plain CUDA way
  std::string ours;   ///< the library's
  double plain_ms = 0.0;
  double our_ms = 0.0;
  double gain = 0.0;  ///< plain / ours, the median of all turns
  double low = 0.0;   ///< of the gain's interval
  double high = 0.0;
  bool converged = false;  ///< whether the gain was steady

  /// @return the gain with its interval, and whether it is one
  [[nodiscard]] std::string verdict() const {
    // Of too few turns there is no interval.
    if (!(gain > 0.0 && std::isfinite(high))) return "no gain shown: too few turns";
    bool const unclear = low <= 1.0 && high >= 1.0 && high - low > 0.1;
    bool const none = (low <= 1.0 && high >= 1.0) || std::fabs(gain - 1.0) < 0.005;
    char const* const what = unclear      ? ": no gain shown"
                             : none       ? ": no gain"
                             : high < 1.0 ? ": slower"
                                          : "";
    return text::format("%.2f x (%.2f to %.2f)%s%s", gain, low, high, what,
                        converged ? "" : ", unsteady");
  }
};

/// The results of a run.
struct run_summary {
  std::string runtime;  ///< "host" or "cuda"
  std::string device;
  std::uint64_t seed = 0;
  double accuracy = 0.0;  ///< 0 to 1, on the held-out fifth
  std::size_t tested = 0;
  int epochs = 0;
  double training_s = 0.0;
  std::size_t memory_budget_bytes = 0;
  double latency_limit_ms = 0.0;
  double latency_quantile = 0.99;  ///< the share of batches that must be within the limit
  std::vector<batch_row> batches;
  std::string choice;          ///< explanation of the choice
  std::string tuning;          ///< "tuned", "stored" or "checked again"
  graph_timing graph;          ///< at the chosen batch
  graph_timing graph_of_one;   ///< at a batch of one image
  double pool_hit_rate = 0.0;  ///< 0 to 1
  std::uint64_t pool_requests = 0;
  std::size_t pool_reserved_bytes = 0;
  std::size_t streamed_images = 0;
  double streamed_images_per_s = 0.0;
  double uploaded_bytes_per_s = 0.0;
  std::vector<part_gain> gains;  ///< empty: the parts were not compared
  std::string report_path;

  /// @return the name of the limited percentile
  [[nodiscard]] char const* percentile() const { return latency_quantile > 0.5 ? "p99" : "median"; }
  /// @return the chosen row, or null if no batch is within the limits
  [[nodiscard]] batch_row const* chosen() const {
    for (batch_row const& row : batches) {
      if (row.chosen) return &row;
    }
    return nullptr;
  }
};

namespace text {

/// 1234567 as "1,234,567".
inline std::string grouped(double value) {
  std::string digits_text = format("%.0f", value);
  for (auto at = static_cast<std::ptrdiff_t>(digits_text.size()) - 3; at > 0; at -= 3) {
    digits_text.insert(static_cast<std::size_t>(at), 1, ',');
  }
  return digits_text;
}

/// Bytes with a unit: "8.4 MiB".
inline std::string bytes(double value) {
  if (value >= 1024.0 * 1024.0 * 1024.0) return format("%.2f GiB", value / 1073741824.0);
  if (value >= 1024.0 * 1024.0) return format("%.2f MiB", value / 1048576.0);
  if (value >= 1024.0) return format("%.1f KiB", value / 1024.0);
  return format("%.0f B", value);
}

/// Milliseconds with four figures at every size.
inline std::string milliseconds(double value) {
  return format(value >= 100.0 ? "%.1f" : value >= 1.0 ? "%.3f" : "%.4f", value);
}

/// Escapes HTML text and attributes.
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

}  // namespace text

namespace detail {

// A logarithmic axis between two pixel positions.
class log_axis {
 public:
  log_axis(double low, double high, double from_px, double to_px)
      : low_{std::log(low)}, span_{std::log(high) - std::log(low)}, from_{from_px}, to_{to_px} {}
  [[nodiscard]] double operator()(double value) const {
    double const share = span_ > 0.0 ? (std::log(value) - low_) / span_ : 0.5;
    return from_ + share * (to_ - from_);
  }

 private:
  double low_, span_, from_, to_;
};

// The 1-2-5 steps from at most `low` to at least `high`; only decades if those are too many.
inline std::vector<double> log_ticks(double low, double high) {
  bool const fine = high / low < 2e3;
  std::vector<double> ticks;
  for (int decade = static_cast<int>(std::floor(std::log10(low))) - 1;; ++decade) {
    for (double const step : {1.0, 2.0, 5.0}) {
      if (!fine && step != 1.0) continue;
      double const tick = step * std::pow(10.0, decade);
      if (tick <= low * 1.0000001) ticks.clear();
      ticks.push_back(tick);
      if (tick >= high * 0.9999999) return ticks;
    }
  }
}

inline std::string tick_text(double value) {
  if (value >= 1e9) return text::format("%gG", value / 1e9);
  if (value >= 1e6) return text::format("%gM", value / 1e6);
  if (value >= 1e3) return text::format("%gk", value / 1e3);
  return text::format("%g", value);
}

struct series {
  char const* name;
  char const* css;
  double (*value)(batch_row const&);
};

// One chart over the batch size with two logarithmic axes; a `limit` of 0 is not drawn.
inline std::string chart(run_summary const& run, std::string const& title, char const* unit,
                         std::vector<series> const& lines, double limit,
                         std::string const& limit_text) {
  constexpr double width = 860.0;
  constexpr double height = 316.0;
  constexpr double left = 64.0;
  constexpr double right = 790.0;
  constexpr double top = 50.0;
  constexpr double bottom = 268.0;
  std::vector<batch_row> rows;
  for (batch_row const& row : run.batches) {
    if (row.measured) rows.push_back(row);
  }
  std::string svg =
      text::format("<svg viewBox=\"0 0 %g %g\" role=\"img\" aria-label=\"", width, height) +
      text::escaped(title) + "\">\n";
  svg += text::format("<text class=\"title\" x=\"%g\" y=\"16\">", 4.0) + text::escaped(title) +
         ", " + unit + "</text>\n";
  if (rows.empty()) {
    return svg + "<text class=\"label\" x=\"64\" y=\"60\">no batch was measured</text>\n</svg>\n";
  }
  double low = limit > 0.0 ? limit : 1e300;
  double high = limit;
  for (batch_row const& row : rows) {
    for (series const& line : lines) {
      double const value = (std::max)(line.value(row), 1e-9);
      low = (std::min)(low, value);
      high = (std::max)(high, value);
    }
  }
  std::vector<double> const ticks = log_ticks(low, high);
  log_axis const y{ticks.front(), ticks.back(), bottom, top};
  log_axis const x{static_cast<double>(run.batches.front().batch),
                   static_cast<double>(run.batches.back().batch), left + 14.0, right - 14.0};

  for (double const tick : ticks) {
    svg += text::format("<line class=\"grid\" x1=\"%g\" x2=\"%g\" y1=\"%.1f\" y2=\"%.1f\"/>", left,
                        right, y(tick), y(tick));
    svg +=
        text::format("<text class=\"label end\" x=\"%g\" y=\"%.1f\">", left - 8.0, y(tick) + 4.0) +
        tick_text(tick) + "</text>\n";
  }
  double labelled_to = 0.0;
  for (batch_row const& row : run.batches) {
    double const at = x(static_cast<double>(row.batch));
    // Sizes between the doublings are drawn without a label, for lack of space.
    if ((row.batch & (row.batch - 1)) != 0 || at < labelled_to) continue;
    labelled_to = at + 34.0;
    if (!row.measured) {
      svg += text::format("<text class=\"label mid\" x=\"%.1f\" y=\"%g\">not run</text>\n", at,
                          bottom - 8.0);
    }
    svg += text::format("<line class=\"tick\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%g\" y2=\"%g\"/>", at,
                        at, bottom, bottom + 4.0);
    svg += text::format("<text class=\"label mid\" x=\"%.1f\" y=\"%g\">", at, bottom + 18.0) +
           std::to_string(row.batch) + "</text>\n";
  }
  svg += text::format("<text class=\"label mid\" x=\"%g\" y=\"%g\">batch size, images</text>\n",
                      (left + right) / 2, bottom + 38.0);

  if (batch_row const* const best = run.chosen()) {
    double const at = x(static_cast<double>(best->batch));
    svg += text::format(
        "<line class=\"choice\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%g\" y2=\"%g\"/>"
        "<text class=\"chosen mid\" x=\"%.1f\" y=\"%g\">chosen: %zu</text>\n",
        at, at, top - 4.0, bottom, (std::min)(at, right - 40.0), top - 10.0, best->batch);
  }
  if (limit > 0.0) {
    svg += text::format("<line class=\"limit\" x1=\"%g\" x2=\"%g\" y1=\"%.1f\" y2=\"%.1f\"/>", left,
                        right, y(limit), y(limit));
    // Above the line, or below it if the title is too close.
    double const label_y = y(limit) < top + 16.0 ? y(limit) + 15.0 : y(limit) - 6.0;
    svg += text::format("<text class=\"over\" x=\"%g\" y=\"%.1f\">", left + 8.0, label_y) +
           text::escaped(limit_text) + "</text>\n";
  }
  double last_label = 1e300;
  for (series const& line : lines) {
    std::string points;
    for (batch_row const& row : rows) {
      points += text::format("%.1f,%.1f ", x(static_cast<double>(row.batch)),
                             y((std::max)(line.value(row), 1e-9)));
    }
    svg += "<polyline class=\"" + std::string{line.css} + "\" points=\"" + points + "\"/>\n";
    for (batch_row const& row : rows) {
      double const value = line.value(row);
      svg +=
          text::format("<circle class=\"%s%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%g\"><title>", line.css,
                       row.within ? "" : " rejected", x(static_cast<double>(row.batch)),
                       y((std::max)(value, 1e-9)), row.chosen ? 6.0 : 4.0);
      svg += text::format("batch %zu: ", row.batch) +
             (value >= 1000.0 ? text::grouped(value) : text::milliseconds(value)) + " " + unit +
             "</title></circle>\n";
    }
    if (lines.size() == 1) continue;  // the title names it
    double at = y((std::max)(line.value(rows.back()), 1e-9)) + 4.0;
    if (std::fabs(at - last_label) < 14.0) at = last_label + (at < last_label ? -14.0 : 14.0);
    last_label = at;
    svg += text::format("<text class=\"name %s\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", line.css,
                        right + 8.0, at, line.name);
  }
  return svg + "</svg>\n";
}

inline std::string tile(std::string const& value, std::string const& label) {
  return "<div class=\"tile\"><b>" + text::escaped(value) + "</b><span>" + text::escaped(label) +
         "</span></div>\n";
}

inline std::string fact(std::string const& name, std::string const& value) {
  return "<tr><th scope=\"row\">" + text::escaped(name) + "</th><td>" + text::escaped(value) +
         "</td></tr>\n";
}

inline std::string gains_section(std::vector<part_gain> const& gains, bool host) {
  std::string section = "<h2>What each part buys</h2>\n";
  if (gains.empty()) return section + "<p class=\"muted\">not compared in this run</p>\n";
  section +=
      "<p>Each part against the plain CUDA way, in turns within this run; medians, and the "
      "gain's interval of a confidence of 95 %.</p>\n";
  if (host) {
    section +=
        "<p class=\"note\">These are the host runtime's times on a CPU: a GPU's gains are "
        "others.</p>\n";
  }
  section +=
      "<div class=\"wide\"><table>\n<thead><tr><th scope=\"col\" class=\"why\">part</th>"
      "<th scope=\"col\" class=\"why\">work</th>"
      "<th scope=\"col\" class=\"why\">plain CUDA</th><th scope=\"col\">ms</th>"
      "<th scope=\"col\" class=\"why\">warpwright</th><th scope=\"col\">ms</th>"
      "<th scope=\"col\" class=\"why\">gain</th></tr></thead>\n<tbody>\n";
  for (part_gain const& each : gains) {
    auto const words = [](std::string const& what) {
      return "<td class=\"why\">" + text::escaped(what) + "</td>";
    };
    section += "<tr>" + words(each.part) + words(each.work) + words(each.plain) + "<td>" +
               text::milliseconds(each.plain_ms) + "</td>" + words(each.ours) + "<td>" +
               text::milliseconds(each.our_ms) + "</td>" + words(each.verdict()) + "</tr>\n";
  }
  return section + "</tbody>\n</table></div>\n";
}

inline constexpr char const* style = R"css(
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; color: #1d2433; background: #fff; margin: 0; }
main { max-width: 900px; margin: 0 auto; padding: 32px 20px 48px; }
h1 { font-size: 26px; margin: 0; } h2 { font-size: 18px; margin: 32px 0 8px; }
p { margin: 6px 0; } .muted { color: #5b6475; }
.note { background: #fff6e0; border-left: 4px solid #d99a00; padding: 8px 14px; margin: 16px 0; }
.tiles { display: flex; flex-wrap: wrap; gap: 12px; margin: 20px 0 8px; }
.tile { flex: 1 1 130px; border: 1px solid #dde2ea; border-radius: 8px; padding: 10px 14px; }
.tile b { display: block; font-size: 22px; } .tile span { color: #5b6475; font-size: 13px; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: 5px 10px; text-align: right; border-bottom: 1px solid #e6e9ef; }
th { font-weight: 600; } thead th { border-bottom: 2px solid #c5ccd8; }
td.why, th.why { text-align: left; } tr.chosen td { background: #e4f3ec; font-weight: 600; }
tr.rejected td { color: #6b7383; } .facts th { text-align: left; width: 34%; }
.facts td { text-align: left; } .wide { overflow-x: auto; }
svg { display: block; width: 100%; height: auto; margin: 12px 0; font: 12px system-ui, sans-serif; }
.title { font-size: 14px; font-weight: 600; fill: #1d2433; } .label { fill: #5b6475; }
.mid { text-anchor: middle; } .end { text-anchor: end; }
.grid { stroke: #e6e9ef; } .tick { stroke: #8a93a3; } .choice { stroke: #0b7a4b; stroke-width: 2; }
.chosen { fill: #0b7a4b; font-weight: 600; }
.limit { stroke: #b3261e; stroke-dasharray: 6 4; stroke-width: 1.5; } .over { fill: #b3261e; }
polyline { fill: none; stroke-width: 2; } .name { font-weight: 600; }
polyline.a { stroke: #1f5fbf; } circle.a, text.a { fill: #1f5fbf; }
polyline.b { stroke: #8a4fb5; } circle.b, text.b { fill: #8a4fb5; }
circle.a.rejected { fill: #fff; stroke: #1f5fbf; stroke-width: 2; }
circle.b.rejected { fill: #fff; stroke: #8a4fb5; stroke-width: 2; }
)css";

}  // namespace detail

/// Formats the page.
inline std::string report_html(run_summary const& run) {
  bool const host = run.runtime == "host";
  batch_row const* const best = run.chosen();
  std::string page =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
      "<title>warpwright: handwritten digits</title>\n<style>";
  page += detail::style;
  page += "</style>\n</head>\n<body>\n<main>\n<h1>Handwritten digits</h1>\n<p class=\"muted\">" +
          text::escaped(run.device) + ", " + (host ? "host runtime" : "CUDA runtime") +
          "; a 64-256-10 perceptron trained, tuned and served with warpwright</p>\n";
  if (host) {
    page +=
        "<p class=\"note\"><b>No GPU speed is measured here.</b> The host runtime ran every kernel "
        "on this machine's CPU; times and rates below are the CPU's.</p>\n";
  }
  page += "<div class=\"tiles\">\n";
  page += detail::tile(text::format("%.2f %%", 100.0 * run.accuracy),
                       "correct of " + std::to_string(run.tested) + " held-out images");
  if (best != nullptr) {
    page += detail::tile(text::grouped(static_cast<double>(best->batch)), "chosen batch, images");
    page += detail::tile(text::grouped(best->items_per_s), "images a second");
    page += detail::tile(text::milliseconds(best->p99_ms) + " ms", "p99 latency of a batch");
  }
  page += detail::tile(text::format("%.2f x", run.graph.speedup()), "graph replay against eager");
  page += "</div>\n<h2>Which batch</h2>\n<p>" + text::escaped(run.choice) + "</p>\n";
  page += detail::chart(run, "Throughput against batch", "images/s",
                        {{"throughput", "a", [](batch_row const& row) { return row.items_per_s; }}},
                        0.0, "");
  page += detail::chart(run, "Latency of one batch", "ms",
                        {{"median", "a", [](batch_row const& row) { return row.median_ms; }},
                         {"p99", "b", [](batch_row const& row) { return row.p99_ms; }}},
                        run.latency_limit_ms,
                        "limit " + text::milliseconds(run.latency_limit_ms) + " ms");
  page +=
      "<p class=\"muted\">Filled points are within the memory budget and the latency limit, hollow "
      "ones are not. Both axes are logarithmic.</p>\n<div class=\"wide\"><table>\n<thead><tr>"
      "<th scope=\"col\">batch</th><th scope=\"col\">images/s</th><th scope=\"col\">median ms</th>"
      "<th scope=\"col\">p99 ms</th><th scope=\"col\">memory</th>"
      "<th scope=\"col\" class=\"why\">verdict</th></tr></thead>\n<tbody>\n";
  for (batch_row const& row : run.batches) {
    page += row.chosen ? "<tr class=\"chosen\">" : row.within ? "<tr>" : "<tr class=\"rejected\">";
    page += "<td>" + text::grouped(static_cast<double>(row.batch)) + "</td><td>" +
            (row.measured ? text::grouped(row.items_per_s) : "–") + "</td><td>" +
            (row.measured ? text::milliseconds(row.median_ms) : "–") + "</td><td>" +
            (row.measured ? text::milliseconds(row.p99_ms) : "–") + "</td><td>" +
            text::bytes(static_cast<double>(row.memory_bytes)) + "</td><td class=\"why\">" +
            text::escaped(row.verdict) + "</td></tr>\n";
  }
  page += "</tbody>\n</table></div>\n<h2>What each part did</h2>\n<table class=\"facts\">\n";
  page += detail::fact("Training",
                       text::format("%d epochs in %.2f s, seed %llu", run.epochs, run.training_s,
                                    static_cast<unsigned long long>(run.seed)));
  page +=
      detail::fact("Tuner's limits", text::bytes(static_cast<double>(run.memory_budget_bytes)) +
                                         " of memory, " + text::milliseconds(run.latency_limit_ms) +
                                         " ms " + run.percentile() + " of a batch");
  page += detail::fact("Batch size", run.tuning == "stored"
                                         ? "stored by an earlier run; nothing was tuned in this one"
                                         : run.tuning + " in this run");
  for (graph_timing const* const timing : {&run.graph, &run.graph_of_one}) {
    page += detail::fact("Graph capture, batch " + std::to_string(timing->batch),
                         text::milliseconds(timing->eager_ms) + " ms call by call, " +
                             text::milliseconds(timing->graph_ms) +
                             " ms replayed: " + text::format("%.2f x, ", timing->speedup()) +
                             std::to_string(timing->nodes) + " nodes in one launch");
  }
  page += detail::fact("Memory pool",
                       text::format("%.1f %% of ", 100.0 * run.pool_hit_rate) +
                           text::grouped(static_cast<double>(run.pool_requests)) +
                           " requests served without a CUDA call; " +
                           text::bytes(static_cast<double>(run.pool_reserved_bytes)) + " reserved");
  page += detail::fact("Streaming through batches",
                       text::grouped(static_cast<double>(run.streamed_images)) +
                           " images: " + text::grouped(run.streamed_images_per_s) + " images/s, " +
                           text::format("%.1f MB/s up", run.uploaded_bytes_per_s / 1e6));
  page += "</table>\n";
  page += detail::gains_section(run.gains, host);
  page += "</main>\n</body>\n</html>\n";
  return page;
}

/// Writes the page.
/// @throws std::runtime_error  naming the path, when it cannot be written
inline void write_report(run_summary const& run) {
  std::string const page = report_html(run);
  std::FILE* const file = std::fopen(run.report_path.c_str(), "wb");
  bool written = false;
  if (file != nullptr) {
    written = std::fwrite(page.data(), 1, page.size(), file) == page.size();
    written = (std::fclose(file) == 0) && written;
  }
  if (!written) {
    throw std::runtime_error{run.report_path +
                             ": the report cannot be written: " + std::strerror(errno)};
  }
}

/// Formats the last line of the output, which is machine-readable.
inline std::string result_line(run_summary const& run) {
  batch_row const* const best = run.chosen();
  std::string tuning = run.tuning;
  std::replace(tuning.begin(), tuning.end(), ' ', '_');
  return "RESULT runtime=" + run.runtime + " device=\"" + run.device + '"' +
         text::format(" accuracy=%.4f batch=%zu items_per_s=%.0f p99_ms=%.4f graph_speedup=%.3f",
                      run.accuracy, best != nullptr ? best->batch : std::size_t{0},
                      best != nullptr ? best->items_per_s : 0.0,
                      best != nullptr ? best->p99_ms : 0.0, run.graph.speedup()) +
         " tuning=" + tuning + " report=" + run.report_path;
}

}  // namespace digits
