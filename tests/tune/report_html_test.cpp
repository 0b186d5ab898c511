// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/core/detail/text/figures.hpp>
#include <warpwright/core/detail/text/markup.hpp>
#include <warpwright/tune/detail/report/result_text.hpp>
#include <warpwright/tune/report.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "digits/support_process.hpp"
#include "digits/well_formed.hpp"
#include "report_support.hpp"
#include "support/catch.hpp"
#include "tuner_bench.hpp"

namespace ww = warpwright;
using namespace test_support;

namespace {

bool has(std::string const& text, std::string const& part) {
  return text.find(part) != std::string::npos;
}

// What is wrong with a page; empty: nothing.
std::string fault(std::string const& page) {
  std::string found = malformed(page);
  if (has(page, "http") || has(page, "url(") || has(page, "@import")) found += "a reference";
  for (std::string const& chart : charts_of(page)) {
    found += label_fault(chart) + number_fault(chart);
  }
  return found;
}

// The positions of the markers of a chart, in order.
std::vector<std::string> circles(std::string const& chart) { return elements(chart, "circle"); }

std::string sentence(ww::tune_result const& r) { return ww::detail::verdict_text(r).str(); }

#ifdef WARPWRIGHT_PYTHON3
void check_by_python(std::vector<std::string> const& pages) {
  scratch_directory scratch;
  std::vector<std::string> command{WARPWRIGHT_PYTHON3, WARPWRIGHT_REPORT_CHECK, "xml"};
  for (std::string const& page : pages) {
    command.push_back(scratch.write(std::to_string(command.size()) + ".html", page));
  }
  outcome const end = run_program(scratch, command);
  INFO(end.text());
  REQUIRE(end.exit_code == 0);
  REQUIRE(end.out == "good\n");
}
#else
void check_by_python(std::vector<std::string> const&) {
  WARN("skipped: no python3 was found when this test was configured");
}
#endif

}  // namespace

TEST_CASE("the page has its parts in order", "[tune][report_html]") {
  std::string const page = ww::to_html(make_result());
  CHECK(fault(page) == "");
  std::size_t before = 0;
  for (char const* const part :
       {"<!DOCTYPE html>", "<title>Batch size</title>", "<h1>Batch size</h1>",
        "was chosen:", "batch 64: &lt;best&gt;", "<h2>Throughput, items/s</h2>",
        "<h2>Latency of one batch</h2>", "<h2>Peak memory</h2>", "<h2>How the time was spent</h2>",
        "<h2>Steps</h2>", "<h2>All sizes</h2>", "<h2>Terms</h2>", "</html>"}) {
    CAPTURE(part);
    std::size_t const at = page.find(part, before);
    REQUIRE(at != std::string::npos);
    CHECK(count(page, part) == 1);
    before = at;
  }
  CHECK(charts_of(page).size() == 3);
  check_by_python({page});
}

TEST_CASE("the page suits phones, paper and dark mode", "[tune][report_html]") {
  std::string const page = ww::to_html(make_result());
  CHECK(has(page, "name=\"viewport\" content=\"width=device-width"));
  CHECK(has(page, "@media print"));
  CHECK(has(page, "prefers-color-scheme:dark"));
  // Every color of the charts has a rule for dark mode.
  for (std::string const& chart : charts_of(page)) {
    for (std::size_t at = chart.find("=\"#"); at != std::string::npos;
         at = chart.find("=\"#", at + 1)) {
      std::size_t const space = chart.rfind(' ', at);
      std::string const rule = "svg [" + chart.substr(space + 1, at + 9 - space) + "]{";
      CAPTURE(rule);
      REQUIRE(has(page, rule));
    }
  }
}

TEST_CASE("all texts are escaped", "[tune][report_html]") {
  std::string const evil = "<script>alert(\"x\")</script> & 'q' \x01\xFF";
  ww::tune_result r = make_result();
  r.explanation = evil;
  r.steps = {evil, "</ol>"};
  r.warnings = {evil};
  for (ww::tune_row& row : r.rows) row.note = evil + "</td>";
  std::string const page =
      ww::to_html(r, ww::html_report_options{}.title(evil).device(evil).date(evil));
  CHECK(fault(page) == "");
  CHECK(!has(page, "<script"));
  std::string const escaped =
      "&lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt; &amp; &#39;q&#39; ??";
  // The title twice, device and date, the explanation, a step, a warning, six notes.
  CHECK(count(page, escaped) == 2 + 2 + 1 + 1 + 1 + 6);
  check_by_python({page});
}

TEST_CASE("equal results give equal pages", "[tune][report_html]") {
  ww::html_report_options const options = ww::html_report_options{}.title("T").device("D");
  CHECK(ww::to_html(make_result(), options) == ww::to_html(make_result(), options));
  ww::tune_result other = make_result();
  other.rows[0].failures = 1;
  CHECK(ww::to_html(make_result(), options) != ww::to_html(other, options));
}

TEST_CASE("setters of html_report_options return a changed copy", "[tune][report_html]") {
  ww::html_report_options const plain;
  ww::html_report_options const full = plain.title("Decoder").device("NVIDIA L4").date("today");
  CHECK(plain.title() == "Batch size");
  CHECK(plain.device().empty());
  CHECK(plain.date().empty());
  CHECK(full.title() == "Decoder");
  CHECK(full.device() == "NVIDIA L4");
  CHECK(full.date() == "today");
  std::string const page = ww::to_html(make_result(), full);
  CHECK(has(page, "<title>Decoder</title>"));
  CHECK(has(page, "<h1>Decoder</h1>\n<p class=\"muted\">NVIDIA L4, today</p>"));
  CHECK(has(ww::to_html(make_result(), plain.date("today")), "<p class=\"muted\">today</p>"));
  CHECK(has(ww::to_html(make_result(), plain.device("L4")), "<p class=\"muted\">L4</p>"));
  CHECK(has(ww::to_html(make_result(), plain), "<h1>Batch size</h1>\n<section>"));
}

TEST_CASE("an empty title throws", "[tune][report_html]") {
  CHECK_THROWS_AS(ww::html_report_options{}.title(""), std::invalid_argument);
  CHECK_THROWS_WITH(ww::html_report_options{}.title(""), contains("empty title"));
}

TEST_CASE("the verdict in a sentence", "[tune][report_html]") {
  ww::tune_result r = make_result();
  CHECK(sentence(r) ==
        "Batch size 64 was chosen: 12.35 k items/s \xC2\xB1 0.5 % (12.28 k to 12.41 k); p99 of the "
        "latency 7.50 ms, limit 8.00 ms: 0 of 1194 calls over it; peak memory 62.50 KiB, budget "
        "195.3 KiB.");

  SECTION("compared in turns") {
    r.rows[2].interleaved = true;
    CHECK(has(sentence(r),
              "chosen: 12.35 k items/s \xC2\xB1 0.5 % (12.28 k to 12.41 k), the fastest of those "
              "compared in turns; p99"));
    r.rows[1].interleaved = true;
    r.rows[1].items_per_second = 12500.0;
    r.rows[2].compared_error = 0.002;
    CHECK(has(sentence(r),
              "chosen: 12.35 k items/s \xC2\xB1 0.5 % (12.28 k to 12.41 k), 98.8 % \xC2\xB1 0.2 % "
              "of the fastest, batch 8, compared in turns; p99"));
  }
  SECTION("a single sample has no interval") {
    r.rows[2].samples = 1;
    CHECK(has(sentence(r), "chosen: 12.35 k items/s; p99"));
  }
  SECTION("a stored result has no number of calls") {
    r.rows[2].latency_samples = 0;
    CHECK(has(sentence(r), "; p99 of the latency 7.50 ms, limit 8.00 ms; peak"));
  }
  SECTION("a limit of the median") {
    r.objective = ww::throughput_under_latency(8e-3, 0.5);
    CHECK(has(sentence(r), "; median of the latency 5.00 ms, limit 8.00 ms: 0 of 1194 calls"));
  }
  SECTION("a limit of another percentile, which the rows do not have") {
    r.objective = ww::throughput_under_latency(8e-3, 0.9);
    CHECK(has(sentence(r),
              "; p90 of the latency not in the table (p99 7.50 ms), limit 8.00 ms: 0 "
              "of 1194 calls over it;"));
  }
  SECTION("a limit that is not shown") {
    r.rows[2].latency_shown = false;
    r.rows[2].latency_over = 7;
    CHECK(has(sentence(r),
              "limit 8.00 ms: 7 of 1194 calls over it, which does not show that it is "
              "kept;"));
  }
  SECTION("few calls have no percentile") {
    r.rows[2].latency_samples = 99;
    CHECK(has(sentence(r), "; slowest of 99 calls 7.50 ms, limit of the p99 8.00 ms: 0 of 99"));
    r.objective = ww::max_throughput();
    CHECK(has(sentence(r), "; slowest of 99 calls 7.50 ms; peak"));
    r.rows[2].latency_samples = 100;
    CHECK(has(sentence(r), "; p99 of the latency 7.50 ms; peak"));
  }
  SECTION("no limits, and nothing known of latency and memory") {
    r.objective = ww::max_throughput();
    r.rows[2].latency_samples = 0;
    r.rows[2].latency_median_seconds = 0.0;
    r.rows[2].memory_bytes = 0;
    r.rows[2].relative_error = 0.0;
    CHECK(has(sentence(r), "; peak memory not known, budget 195.3 KiB."));
    r.memory_budget_bytes = 0;
    CHECK(sentence(r) ==
          "Batch size 64 was chosen: 12.35 k items/s \xC2\xB1 0 % (12.35 k to 12.35 k).");
    r.rows[2].items_per_second = 0.0;
    CHECK(sentence(r) == "Batch size 64 was chosen.");
  }
  SECTION("a wide interval, predicted memory, energy") {
    r.rows[2].relative_error = 1.5;
    r.rows[2].memory_predicted = true;
    r.rows[2].joules_per_item = 2.5e-3;
    r.memory_budget_bytes = 0;
    CHECK(has(sentence(r),
              "12.35 k items/s \xC2\xB1 150 % (0.000 to 30.86 k); 2.50 mJ per "
              "item; p99"));
    CHECK(has(sentence(r), "; peak memory predicted as 62.50 KiB."));
  }
  SECTION("nothing was chosen") {
    r.chosen_index = r.rows.size();
    CHECK(sentence(r) == "No batch size was chosen: none of those tried is usable.");
    r.rows.clear();
    CHECK(sentence(r) == "No batch size was chosen: none was tried.");
  }
}

TEST_CASE("a tune without a choice says why", "[tune][report_html]") {
  tuner_bench b;
  std::size_t peak = 0;
  std::string page;
  try {
    b.tune(
        ww::batch_tuner{}.range(1, 64).memory_budget(1000),
        [&](std::size_t n) {
          peak = 5000 * n;
          return cost{}(n);
        },
        peak_probe{peak});
    FAIL("a size was chosen");
  } catch (ww::no_feasible_batch const& error) {
    page = ww::to_html(error.result());
    CHECK(has(page, "<p class=\"verdict none\">No batch size was chosen: "));
    CHECK(has(page, ww::detail::xml_text(error.result().explanation).str()));
    CHECK(has(page, "<p class=\"why\">no size from 1 to 64 fits"));
    CHECK(has(page, " over the budget.</p>"));
  }
  CHECK(fault(page) == "");
  CHECK(!has(page, ">chosen: "));
  CHECK(!has(page, "class=\"chosen\""));
  check_by_python({page});
}

TEST_CASE("sizes that are not usable are counted by kind", "[tune][report_html]") {
  using ww::detail::failures_text;
  ww::tune_result r = make_result();
  CHECK(failures_text(r).str() ==
        "Of 6 sizes, 1 is over the budget, 1 ran out of memory, 1 is over the latency limit.");
  r.rows[0].status = r.rows[1].status = ww::tune_status::failed;
  r.rows[3].status = ww::tune_status::over_budget;
  CHECK(failures_text(r).str() ==
        "Of 6 sizes, 2 are over the budget, 1 ran out of memory, 2 failed.");
  r.rows.resize(1);
  CHECK(failures_text(r).str() == "Of 1 size, 1 failed.");
  r.rows[0].status = ww::tune_status::ok;
  CHECK(failures_text(r).str().empty());
}

TEST_CASE("a search that stopped early says so", "[tune][report_html]") {
  ww::tune_result r = make_result();
  CHECK(!has(ww::to_html(r), "stopped early"));
  r.stopped_early = true;
  CHECK(has(ww::to_html(r), "The search stopped early"));
}

TEST_CASE("a page says where its result comes from", "[tune][report_html]") {
  ww::tune_result r = make_result();
  CHECK(!has(ww::to_html(r), "<p class=\"source\">"));
  r.source = ww::tune_source::stored;
  CHECK(has(ww::to_html(r), "<p class=\"source\">This result was read from a tuning store: "));
  r.source = ww::tune_source::checked_again;
  CHECK(has(ww::to_html(r), "were run again, and they confirm it.</p>"));
  CHECK(fault(ww::to_html(r)) == "");
}

TEST_CASE("a page has the warnings of the store", "[tune][report_html]") {
  ww::tune_result r = make_result();
  CHECK(!has(ww::to_html(r), "<p class=\"warning\">"));
  r.warnings = {"/a: cannot be written", "line 3 is no record"};
  std::string const page = ww::to_html(r);
  CHECK(has(page,
            "<p class=\"warning\">Warning: /a: cannot be written</p>\n"
            "<p class=\"warning\">Warning: line 3 is no record</p>"));
  CHECK(fault(page) == "");
}

TEST_CASE("a real tune has its steps, times and sizes in the page", "[tune][report_html]") {
  tuner_bench b;
  std::size_t peak = 0;
  ww::tune_result const r = b.tune(
      ww::batch_tuner{}.range(1, 8192).memory_budget(2'000'000).objective(
          ww::throughput_under_latency(5e-3)),
      [&](std::size_t n) {
        peak = 1000 * n > peak ? 1000 * n : peak;
        return cost{}(n);
      },
      peak_probe{peak});
  std::string const page = ww::to_html(r);
  CHECK(fault(page) == "");
  CHECK(has(page, "Batch size " + std::to_string(r.chosen().batch) + " was chosen: "));
  for (std::string const& step : r.steps) {
    CHECK(has(page, "<li>" + ww::detail::xml_text(step).str() + "</li>"));
  }
  for (ww::tune_row const& row : r.rows) {
    CHECK(has(page, "<td>" + std::to_string(row.batch) + "</td>"));
  }
  CHECK(has(page, "over budget: predicted"));
  CHECK(has(page, "the model&#39;s upper bound"));
  CHECK(count(page, "class=\"chosen\"") == 1);
}

TEST_CASE("the time is split into its parts", "[tune][report_html]") {
  ww::tune_result r = make_result();
  std::string const page = ww::to_html(r);
  CHECK(has(page,
            "bracketing</td><td>1.00 s</td><td>40.0 %</td><td class=\"bar\"><div "
            "style=\"width:40.0%\"></div>"));
  CHECK(has(page, "refinement</td><td>500 ms</td><td>20.0 %"));
  CHECK(has(page, "soak</td><td>250 ms</td><td>10.0 %"));
  CHECK(has(page, "other</td><td>500 ms</td><td>20.0 %"));
  CHECK(has(page, "whole tune</td><td>2.50 s"));
  CHECK(!has(page, "latency calls</td>"));  // it took no time
  r.elapsed_seconds = 2.0 * (1.0 + 1e-9);
  CHECK(!has(ww::to_html(r), "other</td>"));
  r.times = {};
  r.elapsed_seconds = 0.0;
  CHECK(!has(ww::to_html(r), "How the time"));
}

TEST_CASE("the table has every size, and columns for what is known", "[tune][report_html]") {
  ww::tune_result r = make_result();
  r.rows[2].interleaved = true;
  std::string page = ww::to_html(r);
  CHECK(has(page,
            "<tr class=\"chosen\"><td>64</td><td>12.35 k</td><td>0.5 %</td><td>5.00 ms</td>"
            "<td>7.50 ms</td><td>0 of 1194, shown</td><td>62.50 KiB</td><td class=\"text\">ok, "
            "chosen, compared in turns</td><td>0</td><td class=\"text note\"></td></tr>"));
  r.rows[2].compared_error = 0.0016;
  CHECK(has(ww::to_html(r), ">ok, chosen, compared in turns (ratio \xC2\xB1 0.16 %)</td>"));
  CHECK(has(page,
            "<tr><td>512</td><td>-</td><td>-</td><td>-</td><td>-</td><td>-</td><td>-</td>"
            "<td class=\"text\">out of memory</td><td>2</td><td class=\"text note\">said "));
  CHECK(has(page, "<th>over 8.00 ms</th><th>memory of 195.3 KiB</th>"));
  CHECK(!has(page, "energy"));
  r.rows[0].joules_per_item = 1.5e-3;
  r.objective = ww::max_throughput();
  page = ww::to_html(r);
  CHECK(has(page, "<th>energy/item</th>"));
  CHECK(has(page, "<td>1.50 mJ</td>"));
  CHECK(!has(page, "<th>over "));
}

TEST_CASE("charts without figures are left out", "[tune][report_html]") {
  ww::tune_result r = make_result();
  for (ww::tune_row& row : r.rows) row.memory_bytes = 0;
  CHECK(charts_of(ww::to_html(r)).size() == 2);
  for (ww::tune_row& row : r.rows) row.latency_median_seconds = row.latency_p99_seconds = 0.0;
  CHECK(charts_of(ww::to_html(r)).size() == 1);
  CHECK(!has(ww::to_html(r), "<h2>Latency of one batch"));
  r.rows.clear();
  std::string const page = ww::to_html(r);
  CHECK(fault(page) == "");
  CHECK(has(page, "No size was tried."));
}

TEST_CASE("throughput is drawn to scale, with its interval and the tolerance",
          "[tune][report_html]") {
  ww::tune_result r = make_result();
  r.rows[1].items_per_second = 12400.0;  // the best that is ok
  std::string const chart = charts_of(ww::to_html(r))[0];
  auto const points = circles(chart);
  REQUIRE(points.size() == 4);
  // Batches 1, 8, 64, 128: equal steps of the logarithm, left to right.
  double const unit = (number(points[1], "cx") - number(points[0], "cx")) / 3.0;
  CHECK(unit > 5.0);
  CHECK(std::fabs(number(points[2], "cx") - number(points[0], "cx") - 6.0 * unit) < 0.01);
  CHECK(std::fabs(number(points[3], "cx") - number(points[0], "cx") - 7.0 * unit) < 0.01);
  // From two of them, the scale of the others.
  double const per_item = (number(points[0], "cy") - number(points[1], "cy")) / (12400.0 - 1000.0);
  double const zero = number(points[0], "cy") + 1000.0 * per_item;
  auto const y_of = [&](double rate) { return zero - per_item * rate; };
  CHECK(std::fabs(number(points[2], "cy") - y_of(12345.678)) < 0.01);
  CHECK(std::fabs(number(points[3], "cy") - y_of(12900.0)) < 0.01);
  // The interval of 12.5 % at 8, of 0.5 % at 64, and no other: those of 0 have no length.
  auto const bars = elements(chart, "line", "stroke-width=\"1.2\"");
  REQUIRE(bars.size() == 2);
  CHECK(std::fabs(number(bars[0], "y1") - y_of(12400.0 * 0.875)) < 0.01);
  CHECK(std::fabs(number(bars[0], "y2") - y_of(12400.0 * 1.125)) < 0.01);
  CHECK(number(bars[0], "x1") == number(points[1], "cx"));
  CHECK(std::fabs(number(bars[1], "y2") - y_of(12345.678 * 1.005)) < 0.01);
  // 2 % below the best of the sizes that are ok.
  auto const band = elements(chart, "rect", "fill-opacity");
  REQUIRE(band.size() == 1);
  CHECK(std::fabs(number(band[0], "y") - y_of(12400.0)) < 0.01);
  CHECK(std::fabs(number(band[0], "height") - 0.02 * 12400.0 * per_item) < 0.01);
  // The choice.
  auto const dashed = elements(chart, "line", "stroke-dasharray");
  REQUIRE(dashed.size() == 1);
  CHECK(number(dashed[0], "x1") == number(points[2], "cx"));
  CHECK(attribute(points[2], "r") == "5.5");
  CHECK(attribute(points[1], "r") == "3.2");
  CHECK(has(chart, ">chosen: 64</text>"));
  // A size that is over a limit is an outline.
  CHECK(attribute(points[3], "fill") == "#ffffff");
  CHECK(attribute(points[2], "fill") != "#ffffff");
}

TEST_CASE("the band is that of the sizes compared with the choice", "[tune][report_html]") {
  ww::tune_result r = make_result();
  r.rows[1].items_per_second = 12400.0;
  r.rows[2].interleaved = true;
  // The choice was compared in turns, and the size with the higher figure was not.
  CHECK(ww::detail::fastest_row(r) == &r.rows[2]);
  // A choice that was not compared itself, as none faster was shown to keep a limit.
  r.chosen_index = 0;
  CHECK(ww::detail::fastest_row(r) == &r.rows[1]);
  r.rows[1].items_per_second = 12000.0;
  CHECK(ww::detail::fastest_row(r) == &r.rows[2]);
  r.rows[1].items_per_second = 12400.0;
  r.chosen_index = 2;
  r.rows[1].interleaved = true;
  CHECK(ww::detail::fastest_row(r) == &r.rows[1]);
  r.rows[1].status = ww::tune_status::failed;
  CHECK(ww::detail::fastest_row(r) == &r.rows[2]);
  auto const bands = [&] {
    return elements(charts_of(ww::to_html(r))[0], "rect", "fill-opacity").size();
  };
  CHECK(bands() == 1);
  r.objective = ww::min_latency();  // the tolerance is not one of the throughput
  CHECK(bands() == 0);
  r.objective = ww::max_throughput();
  r.tolerance = 0.0;
  CHECK(bands() == 0);
  r.tolerance = 0.02;
  r.chosen_index = r.rows.size();
  CHECK(ww::detail::fastest_row(r) == nullptr);
  CHECK(bands() == 0);
}

TEST_CASE("sizes that are not usable are marked at the axis by kind", "[tune][report_html]") {
  ww::tune_result r = make_result();
  r.rows[1].status = ww::tune_status::failed;
  std::string const page = ww::to_html(r);
  std::string const chart = charts_of(page)[0];
  auto const marks = elements(chart, "path", "class=\"mark\"");
  REQUIRE(marks.size() == 4);
  CHECK(has(attribute(marks[0], "d"), "h8v8h-8z"));   // a square: over budget, 256
  CHECK(has(attribute(marks[1], "d"), "l8 8M"));      // a cross: out of memory, 512
  CHECK(has(attribute(marks[2], "d"), "l5 9h-10z"));  // a triangle: over the latency limit, 128
  CHECK(has(attribute(marks[3], "d"), "h10M"));       // a plus: failed, 8
  for (char const* const name :
       {"over budget</span>", "out of memory</span>", "over latency limit</span>", "failed</span>",
        "not usable</span>", "within 2 % of the best, knee at "}) {
    CAPTURE(name);
    CHECK(count(page, name) >= 1);
  }
  double const x8 = number(circles(chart)[1], "cx");
  CHECK(std::fabs(std::atof(attribute(marks[3], "d").c_str() + 1) - (x8 - 5.0)) < 0.06);
}

TEST_CASE("latency is drawn on a logarithmic scale with its limit", "[tune][report_html]") {
  ww::tune_result r = make_result();
  r.rows[3].items_per_second = 0.0;  // rejected by its latency, before its throughput was measured
  std::string const page = ww::to_html(r);
  std::string const chart = charts_of(page)[1];
  auto const points = circles(chart);
  REQUIRE(points.size() == 8);  // four tails, then four medians
  double const decade = (number(points[4], "cy") - number(points[7], "cy")) / std::log10(9.0);
  CHECK(decade > 20.0);
  CHECK(std::fabs(number(points[4], "cy") - number(points[0], "cy") - decade * std::log10(1.5)) <
        0.01);
  auto const limit = elements(chart, "line", "stroke=\"#c0262d\"");
  REQUIRE(limit.size() == 1);
  CHECK(std::fabs(number(points[4], "cy") - number(limit[0], "y1") - decade * std::log10(8.0)) <
        0.01);
  CHECK(has(chart, ">limit of the p99: 8.00 ms</text>"));
  r.objective = ww::throughput_under_latency(8e-3, 0.5);
  CHECK(has(ww::to_html(r), ">limit of the median: 8.00 ms</text>"));
  r.objective = ww::throughput_under_latency(1e6);
  CHECK(has(ww::to_html(r), "1000000 s, above the chart</text>"));
  r.objective = ww::throughput_under_latency(HUGE_VAL);
  CHECK(fault(ww::to_html(r)) == "");
  CHECK(!has(ww::to_html(r), "limit of the p99"));
}

TEST_CASE("memory is drawn as measured and predicted, with the model and the budget",
          "[tune][report_html]") {
  ww::tune_result r = make_result();
  r.memory = ww::memory_model::fit(
      {{1, 1000}, {8, 8000}, {16, 16000}, {32, 32000}, {64, 64000}, {128, 128000}});
  std::string const chart = charts_of(ww::to_html(r))[2];
  auto const points = circles(chart);
  REQUIRE(points.size() == 5);
  double const per_byte = (number(points[1], "cy") - number(points[3], "cy")) / 120000.0;
  CHECK(attribute(points[3], "fill") != "#ffffff");
  CHECK(attribute(points[4], "fill") == "#ffffff");  // predicted
  auto const budget = elements(chart, "line", "stroke=\"#c0262d\"");
  REQUIRE(budget.size() == 1);
  CHECK(std::fabs(number(points[3], "cy") - number(budget[0], "y1") - 72000.0 * per_byte) < 0.01);
  CHECK(has(chart, ">budget: 195.3 KiB</text>"));
  CHECK(elements(chart, "path", "stroke-dasharray=\"4 3\"").size() == 1);
  r.memory = {};
  CHECK(elements(charts_of(ww::to_html(r))[2], "path", "stroke-dasharray=\"4 3\"").empty());
}

TEST_CASE("the axis has room for a limit above all figures", "[tune][report_html]") {
  ww::tune_result r = make_result();
  r.objective = ww::throughput_under_latency(0.03);
  r.memory_budget_bytes = 300000;
  auto const charts = charts_of(ww::to_html(r));
  auto const latencies = circles(charts[1]);
  auto const limit = elements(charts[1], "line", "stroke=\"#c0262d\"");
  REQUIRE(limit.size() == 1);
  double const decade = (number(latencies[4], "cy") - number(latencies[7], "cy")) / std::log10(9.0);
  CHECK(std::fabs(number(latencies[4], "cy") - number(limit[0], "y1") - decade * std::log10(30.0)) <
        0.01);
  auto const bytes = circles(charts[2]);
  auto const budget = elements(charts[2], "line", "stroke=\"#c0262d\"");
  REQUIRE(budget.size() == 1);
  double const per_byte = (number(bytes[1], "cy") - number(bytes[3], "cy")) / 120000.0;
  CHECK(std::fabs(number(bytes[3], "cy") - number(budget[0], "y1") - 172000.0 * per_byte) < 0.01);
}

TEST_CASE("the label of the choice stays above its chart", "[tune][report_html]") {
  ww::tune_result r = make_result();
  auto const anchor = [&](std::size_t chosen) {
    r.chosen_index = chosen;
    auto const labels = elements(charts_of(ww::to_html(r))[0], "text", ">chosen: ");
    REQUIRE(labels.size() == 1);
    return attribute(labels[0], "text-anchor");
  };
  CHECK(anchor(0) == "start");
  CHECK(anchor(2) == "middle");
  CHECK(anchor(5) == "end");
}

TEST_CASE("one size, and two hundred", "[tune][report_html]") {
  ww::tune_result one;
  one.rows = {make_row(37, 1000.0, 1e-3, 5000)};
  CHECK(fault(ww::to_html(one)) == "");
  CHECK(circles(charts_of(ww::to_html(one))[0]).size() == 1);
  CHECK(has(sentence(one), "Batch size 37 was chosen"));

  ww::tune_result many;
  for (std::size_t i = 1; i <= 200; ++i) {
    many.rows.push_back(
        make_row(40 * i, 1e6 * double(i) / double(i + 40), 1e-4 * double(i), 1'000'000 * i));
    many.rows.back().relative_error = 0.01;
  }
  many.chosen_index = 150;
  std::string const page = ww::to_html(many);
  CHECK(fault(page) == "");
  CHECK(count(page, "\n<tr") == 201);  // and the heading
  CHECK(circles(charts_of(page)[0]).size() == 200);
  CHECK(page.size() < 200000);
  check_by_python({ww::to_html(one), page});
}

TEST_CASE("the key explains every status and column in one line", "[tune][report_html]") {
  std::string const page = ww::to_html(make_result());
  for (char const* const term :
       {"over budget", "out of memory", "over latency limit", "failed", "p99", "median", "shown",
        "compared in turns", "bracketing", "refinement", "comparison", "latency calls", "soak"}) {
    CAPTURE(term);
    CHECK(count(page, std::string{"<dt>"} + term + "</dt><dd>") == 1);
  }
}

TEST_CASE("random results give well-formed pages whose labels do not overlap",
          "[tune][report_html]") {
  std::uint64_t const seed = std::random_device{}();
  INFO("seed " << seed);
  noise_source random{seed};
  std::vector<std::string> pages;
  for (int i = 0; i < 300; ++i) {
    pages.push_back(ww::to_html(random_result(random)));
    CAPTURE(i);
    // Random bytes may be a word.
    if (has(pages.back(), "http")) continue;
    REQUIRE(fault(pages.back()) == "");
  }
  check_by_python(pages);
}
