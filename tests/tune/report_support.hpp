// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Results to report, and what a report's charts show.
#pragma once

#include <warpwright/tune/batch_tuner.hpp>

#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <vector>

#include "measure/simulated_device.hpp"

namespace test_support {

inline warpwright::tune_row make_row(std::size_t batch, double rate, double latency,
                                     std::size_t memory) {
  warpwright::tune_row row;
  row.batch = batch;
  row.items_per_second = rate;
  row.seconds_per_batch = rate > 0.0 ? double(batch) / rate : 0.0;
  row.latency_median_seconds = latency;
  row.latency_p99_seconds = 1.5 * latency;
  row.samples = rate > 0.0 ? 11 : 0;
  row.latency_samples = rate > 0.0 ? 100 : 0;
  row.memory_bytes = memory;
  return row;
}

// Six sizes, of which 64 is chosen, and larger ones fail in three ways.
inline warpwright::tune_result make_result() {
  warpwright::tune_result r;
  r.rows = {make_row(1, 1000.0, 1e-3, 1000),      make_row(8, 6000.0, 1.3e-3, 8000),
            make_row(64, 12345.678, 5e-3, 64000), make_row(128, 12900.0, 9e-3, 128000),
            make_row(256, 0.0, 0.0, 256000),      make_row(512, 0.0, 0.0, 0)};
  r.rows[1].relative_error = 0.125;
  r.rows[2].relative_error = 0.005;
  r.rows[2].latency_samples = 1194;
  r.rows[2].latency_shown = true;
  r.rows[3].status = warpwright::tune_status::over_latency;
  r.rows[4].status = warpwright::tune_status::over_budget;
  r.rows[4].memory_predicted = true;
  r.rows[5].status = warpwright::tune_status::out_of_memory;
  r.rows[5].failures = 2;
  r.rows[5].note = "said \"no\", <twice> & left\n\x01 \xFF";
  r.chosen_index = 2;
  r.explanation = "batch 64: <best> & \"smallest\"";
  r.steps = {"sizes from 1 to 512: best 64", "soak: <50> calls"};
  r.objective = warpwright::throughput_under_latency(8e-3);
  r.memory_budget_bytes = 200000;
  r.tolerance = 0.02;
  r.memory = warpwright::memory_model::fit({{1, 1000}, {2, 2000}, {4, 4000}, {64, 64000}});
  r.times = {1.0, 0.5, 0.25, 0.0, 0.25};
  r.elapsed_seconds = 2.5;
  return r;
}

// Anything that the types allow.
inline warpwright::tune_result random_result(noise_source& random) {
  auto const below = [&](std::size_t n) {
    return static_cast<std::size_t>(random.uniform() * static_cast<double>(n));
  };
  auto const power = [&](double low, double high) {
    return std::pow(10.0, low + random.uniform() * (high - low));
  };
  auto const odd = [&](double value) {
    std::size_t const kind = below(60);
    if (kind == 0) return HUGE_VAL;
    if (kind == 1) return double(NAN);
    if (kind == 2) return 0.0;
    return kind == 3 ? 1e-300 : value;
  };
  auto const bytes = [&] {
    std::string text;
    for (std::size_t i = below(40); i > 0; --i) text += static_cast<char>(below(256));
    return text;
  };
  warpwright::tune_result r;
  std::size_t const most = below(4) == 0 ? 4 : 200;
  double const growth = 1.0 + 0.5 * random.uniform();
  double batch = power(0.0, below(3) == 0 ? 7.0 : 1.0);
  double const scale = power(-6.0, 12.0);
  double const seconds = power(-8.0, 2.0);
  double const item = power(0.0, 7.0);
  for (std::size_t i = below(most); i > 0 && batch < 1e12; --i) {
    warpwright::tune_row row = make_row(static_cast<std::size_t>(batch),
                                        scale * batch / (50.0 + batch), seconds + 1e-6 * batch, 0);
    if (below(5) != 0) row.memory_bytes = static_cast<std::size_t>(item * batch);
    row.items_per_second = odd(row.items_per_second);
    row.relative_error = odd(power(-5.0, 0.5));
    row.latency_median_seconds = odd(row.latency_median_seconds);
    row.latency_p99_seconds = odd(row.latency_p99_seconds);
    row.joules_per_item = below(3) == 0 ? odd(power(-9.0, 3.0)) : 0.0;
    row.slowdown = below(3) == 0 ? odd(power(-0.1, 0.3)) : 1.0;
    row.latency_samples = below(3) == 0 ? below(2000) : 0;
    row.latency_over = below(row.latency_samples + 1);
    row.latency_shown = below(2) == 0;
    row.memory_predicted = below(4) == 0;
    row.failures = below(3);
    row.interleaved = below(3) == 0;
    if (row.interleaved) row.compared_error = odd(power(-5.0, 0.5));
    if (below(10) == 0) row.samples = below(2);
    if (below(3) == 0) row.status = static_cast<warpwright::tune_status>(below(5));
    row.note = bytes();
    r.rows.push_back(row);
    batch = batch * growth + 1.0;
  }
  r.chosen_index = below(r.rows.size() + 2);
  r.explanation = bytes();
  for (std::size_t i = below(5); i > 0; --i) r.steps.push_back(bytes());
  if (below(2) == 0) {
    r.objective = r.objective.within_latency(odd(seconds * power(-2.0, 2.0)),
                                             below(2) == 0 ? 0.99 : random.uniform());
  }
  if (below(2) == 0) r.memory_budget_bytes = static_cast<std::size_t>(power(0.0, 13.0));
  r.tolerance = below(2) == 0 ? 0.02 : random.uniform();
  r.times = {odd(random.uniform()), random.uniform(), 0.0, 0.0, random.uniform()};
  r.elapsed_seconds = odd(3.0 * random.uniform());
  r.stopped_early = below(4) == 0;
  r.source = static_cast<warpwright::tune_source>(below(3));
  for (std::size_t i = below(3); i > 0; --i) r.warnings.push_back(bytes());
  std::vector<warpwright::memory_point> points;
  for (std::size_t i = 0; i < r.rows.size() && points.size() < 6; ++i) {
    if (r.rows[i].memory_bytes > 0) points.push_back({r.rows[i].batch, r.rows[i].memory_bytes});
  }
  r.memory = warpwright::memory_model::fit(points);
  return r;
}

inline std::size_t count(std::string const& text, std::string const& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

// The charts in a report, in order.
inline std::vector<std::string> charts_of(std::string const& report) {
  std::vector<std::string> all;
  for (std::size_t at = report.find("<svg"); at != std::string::npos;
       at = report.find("<svg", at + 1)) {
    all.push_back(report.substr(at, report.find("</svg>", at) + 6 - at));
  }
  return all;
}

// The elements of a kind, from '<' to '>'; of text with its content.
inline std::vector<std::string> elements(std::string const& chart, std::string const& name,
                                         std::string const& with = "") {
  std::vector<std::string> all;
  for (std::size_t at = chart.find('<' + name + ' '); at != std::string::npos;
       at = chart.find('<' + name + ' ', at + 1)) {
    std::string const end = name == "text" ? "</text>" : ">";
    std::string const element = chart.substr(at, chart.find(end, at) + end.size() - at);
    if (element.find(with) != std::string::npos) all.push_back(element);
  }
  return all;
}

inline std::string attribute(std::string const& element, std::string const& name) {
  std::size_t const at = element.find(' ' + name + "=\"");
  if (at == std::string::npos) return "";
  std::size_t const begin = at + name.size() + 3;
  return element.substr(begin, element.find('"', begin) - begin);
}
inline double number(std::string const& element, std::string const& name) {
  return std::atof(attribute(element, name).c_str());
}

// What is read of a <text>: each character reference is one character, as is each UTF-8 sequence.
inline std::string plain(std::string const& element) {
  std::string text;
  for (std::size_t i = 0; i < element.size(); ++i) {
    if (element[i] == '<') {
      i = element.find('>', i);
    } else if (element[i] == '&') {
      i = element.find(';', i);
      text += '?';
    } else if ((static_cast<unsigned char>(element[i]) & 0xC0u) != 0x80u) {
      text += element[i];
    }
  }
  return text;
}

struct box {
  double left, top, right, bottom;
};
// With the average width of a character of DejaVu Sans, which is a wide font.
inline box box_of(std::string const& text) {
  double const size = number(text, "font-size");
  double const width = 0.6 * size * static_cast<double>(plain(text).size());
  double const x = number(text, "x");
  double const y = number(text, "y");
  std::string const anchor = attribute(text, "text-anchor");
  double const left = anchor == "start" ? x : anchor == "end" ? x - width : x - 0.5 * width;
  return {left, y - 0.75 * size, left + width, y + 0.2 * size};
}

// Two labels of a chart that overlap, or one that is cut off; empty: there is none. Headings are
// the user's, of any length.
inline std::string label_fault(std::string const& chart) {
  std::string const size = attribute(chart.substr(0, chart.find('>')), "viewBox");
  char* end = nullptr;
  double const width = std::strtod(size.c_str() + 4, &end);
  double const height = std::atof(end);
  std::vector<std::string> texts;
  for (std::string const& text : elements(chart, "text")) {
    if (attribute(text, "font-size") != "17") texts.push_back(text);
  }
  for (std::size_t i = 0; i < texts.size(); ++i) {
    box const a = box_of(texts[i]);
    if (!(a.left >= 0.0 && a.top >= 0.0 && a.right <= width && a.bottom <= height)) {
      return "cut off: " + texts[i];
    }
    for (std::size_t k = 0; k < i; ++k) {
      box const b = box_of(texts[k]);
      bool const apart =
          a.right <= b.left || b.right <= a.left || a.bottom <= b.top || b.bottom <= a.top;
      if (!apart) return texts[k] + " overlaps " + texts[i];
    }
  }
  return "";
}

// An attribute of a chart that is not finite; empty: there is none.
inline std::string number_fault(std::string const& chart) {
  for (std::size_t at = chart.find('<'); at != std::string::npos; at = chart.find('<', at + 1)) {
    std::string const tag = chart.substr(at, chart.find('>', at) - at);
    if (tag.find("nan") != std::string::npos || tag.find("inf") != std::string::npos) return tag;
  }
  return "";
}

}  // namespace test_support
