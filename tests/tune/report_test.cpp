// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/core/detail/report/plot_axis.hpp>
#include <warpwright/core/detail/text/figures.hpp>
#include <warpwright/core/detail/text/markup.hpp>
#include <warpwright/tune/detail/report/result_text.hpp>
#include <warpwright/tune/report.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "digits/support_process.hpp"
#include "digits/well_formed.hpp"
#include "report_support.hpp"
#include "support/catch.hpp"

namespace ww = warpwright;
using namespace test_support;

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
  CHECK(format_joules(12.34).str() == "12.3 J");
  CHECK(format_joules(0.9996).str() == "1.00 J");
  CHECK(format_joules(1.5e-3).str() == "1.50 mJ");
  CHECK(format_significant(1e300, 3).str() == "1e+300");
}

TEST_CASE("CSV has a line per row and quotes text", "[tune][report]") {
  std::string const csv = ww::to_csv(make_result());
  CHECK(csv.find("batch,items_per_second,") == 0);
  CHECK(csv.find("\n64,12345.678,") != std::string::npos);
  CHECK(csv.find("\"said \"\"no\"\", <twice> & left\n") != std::string::npos);
  CHECK(csv.find("\"over latency limit\",0,\"tuned\",\"\"") != std::string::npos);
  CHECK(csv.find("\"ok\",1,\"tuned\",\"\"") != std::string::npos);
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

TEST_CASE("CSV and JSON say where a result comes from, and JSON what went wrong with its store",
          "[tune][report]") {
  ww::tune_result r = make_result();
  CHECK(ww::to_json(r).find("\"source\":\"tuned\",\"warnings\":[],") != std::string::npos);
  CHECK(count(ww::to_csv(r), ",\"tuned\",") == 6);
  r.source = ww::tune_source::stored;
  CHECK(ww::to_json(r).find("\"source\":\"stored\"") != std::string::npos);
  CHECK(count(ww::to_csv(r), ",\"stored\",") == 6);
  r.source = ww::tune_source::checked_again;
  r.warnings = {"cannot write \"/a\\b\"", "\xFF\n"};
  CHECK(ww::to_json(r).find("\"source\":\"checked again\",\"warnings\":[\"cannot write "
                            "\\\"/a\\\\b\\\"\",\"?\\u000a\"],") != std::string::npos);
  CHECK(count(ww::to_csv(r), ",\"checked again\",") == 6);
  CHECK(ww::to_csv(r).find("cannot write") == std::string::npos);
}

TEST_CASE("the error of a comparison is not known of a size that was not compared",
          "[tune][report]") {
  ww::tune_result r;
  r.rows = {make_row(8, 1000.0, 1e-3, 0)};
  r.rows[0].compared_error = 0.25;
  CHECK(ww::to_json(r).find("\"compared_error\":null") != std::string::npos);
  CHECK(ww::to_csv(r).find("\n8,1000,0.008,1,0,0.001,0.0015,0,11,100,0,0,0,0,0,,0,") !=
        std::string::npos);
  r.rows[0].interleaved = true;
  CHECK(ww::to_json(r).find("\"compared_error\":0.25") != std::string::npos);
  CHECK(ww::to_csv(r).find(",0,1,0.25,0,\"ok\"") != std::string::npos);
  r.rows[0].compared_error = 0.0;  // the fastest
  CHECK(ww::to_json(r).find("\"compared_error\":0,") != std::string::npos);
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
  CHECK(valid_utf8("\xEF\xBF\xBD") == "\xEF\xBF\xBD");
  CHECK(valid_utf8("\xEF\xBF\xBE\xEF\xBF\xBF") == "??????");  // XML excludes them
  CHECK(ww::detail::xml_text("<a & \"b\" 'c'>\x02").str() ==
        "&lt;a &amp; &quot;b&quot; &#39;c&#39;&gt;?");
}

TEST_CASE("SVG is well formed, self-contained and shows every row", "[tune][report]") {
  std::string const svg = ww::to_svg(make_result(), "Digits <& \"friends\">");
  CHECK(svg.find("<svg xmlns=\"http://www.w3.org/2000/svg\"") == 0);
  CHECK(malformed(svg).empty());
  CHECK(svg.find("Digits &lt;&amp; &quot;friends&quot;&gt;") != std::string::npos);
  CHECK(svg.find("chosen: 64, 12.35 k items/s, p99 7.50 ms") != std::string::npos);
  CHECK(svg.find("limit of the p99: 8.00 ms") != std::string::npos);
  CHECK(svg.find("budget: 195.3 KiB") != std::string::npos);
  CHECK(svg.find("not usable") != std::string::npos);
  CHECK(svg.find("predicted, not run") != std::string::npos);
  CHECK(svg.find("stroke-dasharray") != std::string::npos);
  CHECK(count(svg, "<circle") == 4 + 2 * 4 + 5);  // throughput, two latencies, memory
  CHECK(count(svg, "class=\"mark\"") == 3);
  CHECK(count(svg, "http") == 1);  // only the namespace
  CHECK(svg.find("<script") == std::string::npos);
  CHECK(svg.find("nan") == std::string::npos);
  CHECK(svg.find("inf\"") == std::string::npos);
}

TEST_CASE("SVG of odd results", "[tune][report]") {
  ww::tune_result const empty;
  CHECK(malformed(ww::to_svg(empty)).empty());

  ww::tune_result one;
  one.rows = {make_row(37, 1000.0, 1e-3, 0)};
  CHECK(malformed(ww::to_svg(one)).empty());
  CHECK(ww::to_svg(one).find("memory") == std::string::npos);

  // All sizes failed, and values that are not finite.
  ww::tune_result failed;
  failed.rows = {make_row(1, 0.0, 0.0, 0), make_row(2, 0.0, 0.0, 0)};
  failed.chosen_index = 2;
  failed.objective = ww::throughput_under_latency(1e-3);
  std::string const svg = ww::to_svg(failed);
  CHECK(malformed(svg).empty());
  CHECK(svg.find("no size was chosen") != std::string::npos);
  CHECK(svg.find("nan") == std::string::npos);

  // A budget far above the memory used is only named: drawing it would flatten the line.
  ww::tune_result roomy = make_result();
  roomy.memory_budget_bytes = std::size_t{1} << 40;
  CHECK(ww::to_svg(roomy).find("budget: 1.000 TiB, above the chart") != std::string::npos);
}

TEST_CASE("SVG has no panel without figures", "[tune][report]") {
  ww::tune_result r = make_result();
  CHECK(count(ww::to_svg(r), "peak memory") == 1);
  CHECK(count(ww::to_svg(r), "latency of one batch") == 1);
  for (ww::tune_row& row : r.rows) {
    row.memory_bytes = 0;
    row.latency_median_seconds = row.latency_p99_seconds = 0.0;
  }
  CHECK(count(ww::to_svg(r), "peak memory") == 0);
  CHECK(count(ww::to_svg(r), "latency of one batch") == 0);
}

TEST_CASE("what has no interval has none in the table", "[tune][report]") {
  using ww::detail::table_cell;
  using ww::detail::table_column;
  auto const cell = [](ww::tune_row const& row) {
    return table_cell(row, table_column::error).str();
  };
  ww::tune_row row = make_row(8, 1000.0, 1e-3, 0);
  row.relative_error = 0.015;
  CHECK(cell(row) == "1.5 %");
  row.interleaved = true;
  CHECK(cell(row) == "1.5 %");
  row.relative_error = 0.0;
  CHECK(cell(row) == "0 %");
  row.relative_error = 1.234;
  CHECK(cell(row) == "123 %");
  row.interleaved = false;
  row.samples = 1;
  CHECK(cell(row) == "-");
  row.samples = 11;
  row.relative_error = std::numeric_limits<double>::quiet_NaN();
  CHECK(cell(row) == "-");
  row.relative_error = 0.015;
  row.items_per_second = 0.0;
  CHECK(cell(row) == "-");
}

TEST_CASE("figures of a stored result are in the table without a number of calls",
          "[tune][report]") {
  using ww::detail::table_cell;
  using ww::detail::table_column;
  ww::tune_row row = make_row(8, 1000.0, 1e-3, 0);
  row.latency_samples = 0;
  CHECK(table_cell(row, table_column::median).str() == "1.00 ms");
  CHECK(table_cell(row, table_column::p99).str() == "1.50 ms");
  CHECK(table_cell(row, table_column::over_limit).str() == "-");
  row.latency_median_seconds = row.latency_p99_seconds = 0.0;
  CHECK(table_cell(row, table_column::median).str() == "-");
  row.latency_samples = 20;  // by a coarse clock
  CHECK(table_cell(row, table_column::median).str() == "0.00 us");
}

TEST_CASE("the terminal's table has intervals, calls over the limit and the budget",
          "[tune][report]") {
  ww::tune_result r = make_result();
  std::string const table = ww::to_text(r);
  CHECK(table ==
        "   batch  items/s     +-  latency median  latency p99      ove"
        "r 8.00 ms  memory of 195.3 KiB  status\n"
        "       1  1.000 k    0 %         1.00 ms      1.50 ms         "
        " 0 of 100               1000 B  ok\n"
        "       8  6.000 k   12 %         1.30 ms      1.95 ms         "
        " 0 of 100            7.812 KiB  ok\n"
        "->    64  12.35 k  0.5 %         5.00 ms      7.50 ms  0 of 11"
        "94, shown            62.50 KiB  ok, chosen\n"
        "     128  12.90 k    0 %         9.00 ms      13.5 ms         "
        " 0 of 100            125.0 KiB  over latency limit\n"
        "     256        -      -               -            -         "
        "        -           ~250.0 KiB  over budget: predicted\n"
        "     512        -      -               -            -         "
        "        -                    -  out of memory\n"
        "batch 64: <best> & \"smallest\"\n");

  r.objective = ww::max_throughput();
  r.memory_budget_bytes = 0;
  r.rows[0].joules_per_item = 1.5e-3;
  r.rows[0].failures = 1;
  r.rows[1].failures = 2;
  r.rows[1].slowdown = 1.25;
  r.rows[2].slowdown = 0.875;
  std::string const other = ww::to_text(r);
  CHECK(other.find("over 8") == std::string::npos);
  CHECK(other.find("  memory  ") != std::string::npos);
  CHECK(other.find("energy/item") != std::string::npos);
  CHECK(other.find("1.50 mJ  ok, failed 1 time\n") != std::string::npos);
  CHECK(other.find("ok, failed 2 times, device slower by 25 %\n") != std::string::npos);
  CHECK(other.find("ok, device faster by 12.5 %, chosen\n") != std::string::npos);
}

namespace {

// Every member of a row. A member that is added to tune_row does not compile here: add it to this
// list, to to_csv() and to to_json().
std::string expected_row(ww::tune_row const& row) {
  auto const& [batch, items_per_second, seconds_per_batch, slowdown, relative_error,
               latency_median_seconds, latency_p99_seconds, samples, latency_samples, latency_over,
               latency_shown, memory_bytes, memory_predicted, joules_per_item, interleaved,
               compared_error, failures, status, note] = row;
  std::string all;
  auto const add = [&](char const* name, std::string const& value) {
    all += std::string{all.empty() ? "{" : ", "} + '"' + name + "\": " + value;
  };
  auto const real = [](double value) {
    return std::isfinite(value) ? ww::detail::format_number("%.9g", value).str()
                                : std::string{"null"};
  };
  auto const flag = [](bool value) { return std::string{value ? "true" : "false"}; };
  add("batch", std::to_string(batch));
  add("items_per_second", real(items_per_second));
  add("seconds_per_batch", real(seconds_per_batch));
  add("slowdown", real(slowdown));
  add("relative_error", real(relative_error));
  add("latency_median_seconds", real(latency_median_seconds));
  add("latency_p99_seconds", real(latency_p99_seconds));
  add("samples", std::to_string(samples));
  add("latency_samples", std::to_string(latency_samples));
  add("latency_over", std::to_string(latency_over));
  add("latency_shown", flag(latency_shown));
  add("memory_bytes", std::to_string(memory_bytes));
  add("memory_predicted", flag(memory_predicted));
  add("joules_per_item", real(joules_per_item));
  add("interleaved", flag(interleaved));
  add("compared_error", interleaved ? real(compared_error) : "null");
  add("failures", std::to_string(failures));
  add("status", '"' + std::string{ww::to_string(status)} + '"');
  std::string text;
  for (char const c : ww::detail::valid_utf8(note)) {
    char code[8];
    std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(c));
    if (static_cast<unsigned char>(c) < 0x20 || c == '"' || c == '\\') {
      text += code;
    } else {
      text += c;
    }
  }
  add("note", '"' + text + '"');
  return all + "}";
}

[[maybe_unused]] std::string expected_rows(ww::tune_result const& r) {
  std::string all = "[";
  for (ww::tune_row const& row : r.rows) all += (all == "[" ? "" : ",\n") + expected_row(row);
  return all + "]";
}

}  // namespace

TEST_CASE("Python reads every figure of the rows from JSON and CSV", "[tune][report]") {
#ifndef WARPWRIGHT_PYTHON3
  WARN("skipped: no python3 was found when this test was configured");
#else
  std::uint64_t const seed = std::random_device{}();
  INFO("seed " << seed);
  noise_source random{seed};
  std::vector<ww::tune_result> results;
  results.push_back(make_result());
  results.emplace_back();  // no rows
  for (int i = 0; i < 10; ++i) results.push_back(random_result(random));
  for (ww::tune_result const& r : results) {
    scratch_directory scratch;
    outcome const end = run_program(
        scratch, {WARPWRIGHT_PYTHON3, WARPWRIGHT_REPORT_CHECK, "rows",
                  scratch.write("r.json", ww::to_json(r)), scratch.write("r.csv", ww::to_csv(r)),
                  scratch.write("expected.json", expected_rows(r))});
    INFO(end.text());
    REQUIRE(end.exit_code == 0);
    REQUIRE(end.out == "good\n");
  }
#endif
}

TEST_CASE("random results give well-formed SVG whose labels do not overlap", "[tune][report]") {
  std::uint64_t const seed = std::random_device{}();
  INFO("seed " << seed);
  noise_source random{seed};
  for (int i = 0; i < 400; ++i) {
    std::string const svg = ww::to_svg(random_result(random));
    CAPTURE(i);
    REQUIRE(malformed(svg) == "");
    REQUIRE(label_fault(svg) == "");
    REQUIRE(number_fault(svg) == "");
  }
}

TEST_CASE("axes label round values that are far enough apart", "[tune][report]") {
  std::uint64_t const seed = std::random_device{}();
  INFO("seed " << seed);
  noise_source random{seed};
  using ww::detail::plot_scale;
  for (int i = 0; i < 20000; ++i) {
    plot_scale const scales[] = {plot_scale::linear, plot_scale::linear_bytes, plot_scale::decades,
                                 plot_scale::doublings};
    plot_scale const scale = scales[i % 4];
    double const low = std::exp2(std::floor(60.0 * random.uniform()));
    double const high = low * std::exp2(30.0 * random.uniform() * random.uniform());
    double const spacing = 5.0 + 80.0 * random.uniform();
    // Downwards, as a y axis, and to the right.
    double const begin = 400.0 * random.uniform();
    double const end = 400.0 * random.uniform();
    if (std::fabs(end - begin) < 2.0 * spacing) continue;
    ww::detail::plot_axis const axis{scale, low, high, begin, end};
    std::vector<double> const ticks = axis.ticks(spacing);
    CAPTURE(int(scale), low, high, begin, end, spacing);
    REQUIRE(!ticks.empty());
    REQUIRE(ticks.size() < 60);
    for (std::size_t k = 1; k < ticks.size(); ++k) {
      REQUIRE(std::fabs(axis.at(ticks[k]) - axis.at(ticks[k - 1])) >= 0.999 * spacing);
      REQUIRE((end > begin) == (axis.at(ticks[k]) > axis.at(ticks[k - 1])));
    }
    // Values outside are drawn at the ends.
    REQUIRE(axis.at(high * 1e9) == end);
    REQUIRE((axis.at(low) - begin) * (end - begin) >= 0.0);
  }
}

TEST_CASE("an axis labels the usual steps", "[tune][report]") {
  using ww::detail::plot_scale;
  auto const labels = [](plot_scale scale, double low, double high) {
    std::string all;
    for (double const v : ww::detail::plot_axis{scale, low, high, 200.0, 0.0}.ticks(16.0)) {
      all += (all.empty() ? "" : " ") + ww::detail::format_number("%g", v).str();
    }
    return all;
  };
  CHECK(labels(plot_scale::linear, 1, 83) == "0 20 40 60 80");
  CHECK(labels(plot_scale::linear, 1, 100) == "0 25 50 75 100");
  CHECK(labels(plot_scale::linear_bytes, 1, 1024) == "0 256 512 768 1024");
  CHECK(labels(plot_scale::decades, 1, 40) == "1 2 5 10 20 50");
  CHECK(labels(plot_scale::decades, 1, 1e6) == "1 10 100 1000 10000 100000 1e+06");
  CHECK(labels(plot_scale::decades, 3, 3.1) == "3.1");  // the two ends would overlap
  CHECK(labels(plot_scale::decades, 2.6, 4) == "2.6 4");
  CHECK(labels(plot_scale::doublings, 1, 16) == "1 2 4 8 16");
  CHECK(labels(plot_scale::doublings, 70, 100) == "70 100");  // no power of two
  CHECK(labels(plot_scale::doublings, 1, 1) == "1 2");
}
