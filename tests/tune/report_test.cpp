// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/tune/report.hpp>

#include <cmath>
#include <limits>
#include <string>

#include "support/catch.hpp"

namespace ww = warpwright;

namespace {

ww::tune_row make_row(std::size_t batch, double rate, double latency, std::size_t memory) {
  ww::tune_row row;
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

ww::tune_result make_result() {
  ww::tune_result r;
  r.rows = {make_row(1, 1000.0, 1e-3, 1000),      make_row(8, 6000.0, 1.3e-3, 8000),
            make_row(64, 12345.678, 5e-3, 64000), make_row(128, 12900.0, 9e-3, 128000),
            make_row(256, 0.0, 0.0, 256000),      make_row(512, 0.0, 0.0, 0)};
  r.rows[3].status = ww::tune_status::over_latency;
  r.rows[4].status = ww::tune_status::over_budget;
  r.rows[4].memory_predicted = true;
  r.rows[5].status = ww::tune_status::out_of_memory;
  r.rows[5].note = "said \"no\", <twice> & left\n\x01 \xFF";
  r.chosen_index = 2;
  r.explanation = "batch 64: <best> & \"smallest\"";
  r.objective = ww::throughput_under_latency(8e-3);
  r.memory_budget_bytes = 200000;
  r.tolerance = 0.02;
  r.memory = ww::memory_model::fit({{1, 1000}, {2, 2000}, {4, 4000}, {64, 64000}});
  return r;
}

std::size_t count(std::string const& text, std::string const& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

// Balanced tags, no bare '&', quoted attributes: enough of XML to detect missing escapes.
bool well_formed(std::string const& xml) {
  int depth = 0;
  for (std::size_t i = 0; i < xml.size(); ++i) {
    if (xml[i] == '&') {
      std::size_t const end = xml.find(';', i);
      if (end == std::string::npos || end - i > 8) return false;
    }
    if (xml[i] != '<') continue;
    std::size_t const end = xml.find('>', i);
    if (end == std::string::npos) return false;
    std::string const tag = xml.substr(i, end - i + 1);
    if (count(tag, "\"") % 2 != 0 || tag.find('<', 1) != std::string::npos) return false;
    if (tag[1] == '/') {
      --depth;
    } else if (tag[tag.size() - 2] != '/') {
      ++depth;
    }
    if (depth < 0) return false;
    i = end;
  }
  return depth == 0;
}

}  // namespace

TEST_CASE("numbers are printed with units", "[tune][report]") {
  using namespace ww::detail;
  CHECK(format_seconds(1.234e-6).str() == "1.23 us");
  CHECK(format_seconds(101e-6).str() == "101 us");
  CHECK(format_seconds(999.9e-6).str() == "1.00 ms");
  CHECK(format_seconds(12.34e-3).str() == "12.3 ms");
  CHECK(format_seconds(0.9999).str() == "1.00 s");
  CHECK(format_seconds(75.0).str() == "75.0 s");
  CHECK(format_rate(0.5).str() == "0.500");
  CHECK(format_rate(999.96).str() == "1.000 k");
  CHECK(format_rate(911000.0).str() == "911.0 k");
  CHECK(format_rate(9.9996e6).str() == "10.00 M");
  CHECK(format_bytes(0.0).str() == "0 B");
  CHECK(format_bytes(1000.0).str() == "1000 B");
  CHECK(format_bytes(1024.0).str() == "1.000 KiB");
  CHECK(format_bytes(12345678.0).str() == "11.77 MiB");
  CHECK(format_bytes(1e13).str() == "9.095 TiB");
}

TEST_CASE("CSV has a line per row and quotes text", "[tune][report]") {
  std::string const csv = ww::to_csv(make_result());
  CHECK(csv.find("batch,items_per_second,") == 0);
  CHECK(csv.find("\n64,12345.678,") != std::string::npos);
  CHECK(csv.find("\"said \"\"no\"\", <twice> & left\n") != std::string::npos);
  CHECK(csv.find("\"over latency limit\",0,\"\"") != std::string::npos);
  CHECK(csv.find("\"ok\",1,\"\"") != std::string::npos);
  CHECK(count(csv, "\n") == 8);  // header, six rows, one within quotes
}

TEST_CASE("JSON is escaped and has null for what was not set", "[tune][report]") {
  ww::tune_result r = make_result();
  std::string const json = ww::to_json(r);
  CHECK(json.find("{\"chosen_batch\":64,") == 0);
  CHECK(json.find("\"explanation\":\"batch 64: <best> & \\\"smallest\\\"\"") != std::string::npos);
  CHECK(json.find("said \\\"no\\\", <twice> & left\\u000a\\u0001 ?") != std::string::npos);
  CHECK(json.find("\"latency_limit_seconds\":0.008") != std::string::npos);
  CHECK(json.find("\"memory_budget_bytes\":200000") != std::string::npos);
  CHECK(json.find("\"memory_model\":{\"points\":4,\"shape\":\"linear\",\"base_bytes\":") !=
        std::string::npos);
  CHECK(count(json, "{\"batch\":") == 6);
  CHECK(count(json, "{") == count(json, "}"));

  r.chosen_index = r.rows.size();
  r.objective = ww::max_throughput();
  r.memory_budget_bytes = 0;
  r.memory = {};
  r.rows[0].items_per_second = std::numeric_limits<double>::infinity();
  std::string const bare = ww::to_json(r);
  CHECK(bare.find("{\"chosen_batch\":null,") == 0);
  CHECK(bare.find("\"latency_limit_seconds\":null") != std::string::npos);
  CHECK(bare.find("\"memory_budget_bytes\":null") != std::string::npos);
  CHECK(bare.find("\"memory_model\":null") != std::string::npos);
  CHECK(bare.find("\"items_per_second\":null") != std::string::npos);
  CHECK(bare.find("inf") == std::string::npos);
}

TEST_CASE("bytes that are not UTF-8 are replaced", "[tune][report]") {
  using ww::detail::valid_utf8;
  CHECK(valid_utf8("plain") == "plain");
  CHECK(valid_utf8("\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80") ==
        "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80");
  CHECK(valid_utf8("a\xFF\x62") == "a?b");
  CHECK(valid_utf8("\xC0\xAF") == "??");            // overlong
  CHECK(valid_utf8("\xED\xA0\x80") == "???");       // a surrogate
  CHECK(valid_utf8("\xF4\x90\x80\x80") == "????");  // above U+10FFFF
  CHECK(valid_utf8("\xE2\x82") == "??");            // cut off
  CHECK(ww::detail::xml_text("<a & \"b\" 'c'>\x02").str() ==
        "&lt;a &amp; &quot;b&quot; &#39;c&#39;&gt;?");
}

TEST_CASE("SVG is well formed, self-contained and shows every row", "[tune][report]") {
  std::string const svg = ww::to_svg(make_result(), "Digits <& \"friends\">");
  CHECK(svg.find("<svg xmlns=\"http://www.w3.org/2000/svg\"") == 0);
  CHECK(well_formed(svg));
  CHECK(svg.find("Digits &lt;&amp; &quot;friends&quot;&gt;") != std::string::npos);
  CHECK(svg.find("chosen: 64, 12.35 k items/s, p99 7.50 ms") != std::string::npos);
  CHECK(svg.find("limit 8.00 ms") != std::string::npos);
  CHECK(svg.find("budget 195.3 KiB") != std::string::npos);
  CHECK(svg.find("over a limit") != std::string::npos);
  CHECK(svg.find("predicted") != std::string::npos);
  CHECK(svg.find("stroke-dasharray") != std::string::npos);
  CHECK(count(svg, "<circle") == 4 + 2 * 4 + 5);               // throughput, two latencies, memory
  CHECK(count(svg, "#c0262d\" stroke-width=\"1.8\"/>") == 2);  // two crosses
  CHECK(count(svg, "http") == 1);                              // only the namespace
  CHECK(svg.find("<script") == std::string::npos);
  CHECK(svg.find("nan") == std::string::npos);
  CHECK(svg.find("inf\"") == std::string::npos);
}

TEST_CASE("SVG of odd results", "[tune][report]") {
  ww::tune_result const empty;
  CHECK(well_formed(ww::to_svg(empty)));

  ww::tune_result one;
  one.rows = {make_row(37, 1000.0, 1e-3, 0)};
  CHECK(well_formed(ww::to_svg(one)));
  CHECK(ww::to_svg(one).find("memory") == std::string::npos);

  // All sizes failed, and values that are not finite.
  ww::tune_result failed;
  failed.rows = {make_row(1, 0.0, 0.0, 0), make_row(2, 0.0, 0.0, 0)};
  failed.chosen_index = 2;
  failed.objective = ww::throughput_under_latency(1e-3);
  std::string const svg = ww::to_svg(failed);
  CHECK(well_formed(svg));
  CHECK(svg.find("no size fits") != std::string::npos);
  CHECK(svg.find("nan") == std::string::npos);

  // A budget far above the memory used is only named: drawing it would flatten the line.
  ww::tune_result roomy = make_result();
  roomy.memory_budget_bytes = std::size_t{1} << 40;
  CHECK(ww::to_svg(roomy).find("budget 1.000 TiB, above the chart") != std::string::npos);
}
