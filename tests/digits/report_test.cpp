// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include "examples/digits/report.hpp"

#include <cmath>

#include "digits/result_line.hpp"
#include "digits/support_process.hpp"
#include "digits/well_formed.hpp"
#include "support/catch.hpp"

namespace {

digits::run_summary some_run() {
  digits::run_summary run;
  run.runtime = "host";
  run.device = "H100 (host runtime)";
  run.seed = 3;
  run.accuracy = 0.9889;
  run.tested = 359;
  run.epochs = 40;
  run.training_s = 3.5;
  run.memory_budget_bytes = std::size_t{8} << 20U;
  run.latency_limit_ms = 8.0;
  for (std::size_t batch = 1; batch <= 8192; batch *= 2) {
    digits::batch_row row;
    row.batch = batch;
    row.measured = batch < 8192;
    row.within = batch < 4096;
    row.chosen = batch == 1024;
    row.median_ms = 0.02 + 0.002 * static_cast<double>(batch);
    row.p99_ms = 1.2 * row.median_ms;
    row.items_per_s = 1e3 * static_cast<double>(batch) / row.median_ms;
    row.memory_bytes = batch * 1320;
    row.verdict = row.chosen ? "chosen" : row.within ? "ok" : "over the latency limit";
    run.batches.push_back(row);
  }
  run.choice = "the smallest within 2 % of the best";
  run.tuning = "tuned";
  run.graph = {1024, 2.1, 2.0, 5};
  run.graph_of_one = {1, 0.03, 0.01, 5};
  run.report_path = "report.html";
  return run;
}

std::size_t count_of(std::string const& text, std::string const& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

}  // namespace

TEST_CASE("the report is one well-formed, self-contained page") {
  std::string const page = digits::report_html(some_run());
  CHECK(test_support::malformed(page) == "");
  for (char const* const outside :
       {"http", "src=", "href=", "url(", "@import", "<script", "<link"}) {
    INFO(outside);
    CHECK(page.find(outside) == std::string::npos);
  }
}

TEST_CASE("the report draws throughput and latency with the choice marked") {
  std::string const page = digits::report_html(some_run());
  CHECK(count_of(page, "<svg") == 2);
  CHECK(count_of(page, "<polyline") == 3);     // throughput, median, p99
  CHECK(count_of(page, "<circle") == 3 * 13);  // one point per size that ran
  CHECK(count_of(page, "rejected\"") ==
        3 * 1 + 2);  // 4096 in the charts, 4096 and 8192 in the table
  CHECK(count_of(page, "class=\"choice\"") == 2);
  CHECK(count_of(page, "chosen: 1024") == 2);
  CHECK(count_of(page, "class=\"limit\"") == 1);
  CHECK(count_of(page, "not run</text>") == 2);
  CHECK(count_of(page, "<tr class=\"chosen\">") == 1);
  CHECK(count_of(page, "No GPU speed is measured") == 1);
  CHECK(page.find("nan") == std::string::npos);
  CHECK(page.find("inf ") == std::string::npos);
}

TEST_CASE("a GPU's report does not mention the host runtime") {
  digits::run_summary run = some_run();
  run.runtime = "cuda";
  run.device = "NVIDIA H100 80GB HBM3";
  std::string const page = digits::report_html(run);
  CHECK(page.find("No GPU speed") == std::string::npos);
  CHECK(page.find("host runtime") == std::string::npos);
}

TEST_CASE("the report of extreme results is well-formed") {
  digits::run_summary run = some_run();
  SECTION("names with markup") { run.device = "<b>\"A\" & B</b>"; }
  SECTION("nothing measured") {
    for (digits::batch_row& row : run.batches) row.measured = row.chosen = false;
  }
  SECTION("no rows") { run.batches.clear(); }
  SECTION("one row") { run.batches.resize(1); }
  SECTION("times of zero") {
    for (digits::batch_row& row : run.batches) row.median_ms = row.p99_ms = row.items_per_s = 0.0;
    run.graph = run.graph_of_one = {};
  }
  std::string const page = digits::report_html(run);
  CHECK(test_support::malformed(page) == "");
  CHECK(page.find("nan") == std::string::npos);
  CHECK(page.find("<b>\"A\"") == std::string::npos);
}

TEST_CASE("the report shows the gain of each part, and says when none was compared") {
  digits::run_summary run = some_run();
  CHECK(digits::report_html(run).find("not compared in this run") != std::string::npos);
  run.gains.push_back({"memory <pool>", "six buffers", "cudaMalloc & cudaFree", "memory_pool", 0.5,
                       0.05, 10.0, 9.5, 10.5, true});
  run.gains.push_back({"graph", "one image", "launches", "graph_replay", 0, 0, 0, 0, 0, false});
  std::string const page = digits::report_html(run);
  CHECK(test_support::malformed(page) == "");
  CHECK(page.find("not compared in this run") == std::string::npos);
  CHECK(page.find("10.00 x (9.50 to 10.50)") != std::string::npos);
  CHECK(page.find("no gain shown: too few turns") != std::string::npos);
  CHECK(page.find("memory &lt;pool&gt;") != std::string::npos);
  CHECK(page.find("a GPU's gains are others") != std::string::npos);
  run.runtime = "cuda";
  CHECK(digits::report_html(run).find("a GPU's gains are others") == std::string::npos);
}

TEST_CASE("a gain is not claimed where none is shown") {
  digits::part_gain gain;
  gain.gain = 1.02;
  gain.low = 0.98;
  gain.high = 1.05;
  gain.converged = true;
  CHECK(gain.verdict() == "1.02 x (0.98 to 1.05): no gain");
  gain.low = 1.01;
  CHECK(gain.verdict() == "1.02 x (1.01 to 1.05)");
  gain.gain = 0.95;
  gain.low = 0.9;
  gain.high = 0.99;
  CHECK(gain.verdict() == "0.95 x (0.90 to 0.99): slower");
  // What is 1.00 is no gain, however narrow the interval is.
  gain.gain = 0.9961;
  gain.low = 0.9955;
  gain.high = 0.9968;
  CHECK(gain.verdict() == "1.00 x (1.00 to 1.00): no gain");
}

TEST_CASE("an unsteady gain is shown with its interval") {
  digits::part_gain gain;
  gain.gain = 5.3;
  gain.low = 3.1;
  gain.high = 8.0;
  CHECK(gain.verdict() == "5.30 x (3.10 to 8.00), unsteady");
  gain.low = 0.5;
  CHECK(gain.verdict() == "5.30 x (0.50 to 8.00): no gain shown, unsteady");
  gain.high = HUGE_VAL;
  CHECK(gain.verdict() == "no gain shown: too few turns");
}

TEST_CASE("the error names a report that cannot be written") {
  digits::run_summary run = some_run();
  run.report_path = "/nonexistent-directory/report.html";
  REQUIRE_THROWS_WITH(digits::write_report(run),
                      contains("/nonexistent-directory/report.html: the report cannot be written"));
}

TEST_CASE("a report is written to the given path") {
  test_support::scratch_directory scratch;
  digits::run_summary run = some_run();
  run.report_path = scratch.file("page.html");
  digits::write_report(run);
  CHECK(test_support::read_file(run.report_path) == digits::report_html(run));
}

TEST_CASE("the RESULT line has exactly its fields") {
  CHECK(digits::result_line(some_run()) ==
        "RESULT runtime=host device=\"H100 (host runtime)\" accuracy=0.9889 batch=1024 "
        "items_per_s=495164 p99_ms=2.4816 graph_speedup=1.050 tuning=tuned report=report.html");
  test_support::result_fields fields;
  CHECK(test_support::parse_result(digits::result_line(some_run()), fields) == "");
}

TEST_CASE("the report and the RESULT line say whether the batch was tuned or stored") {
  digits::run_summary run = some_run();
  CHECK(digits::report_html(run).find("tuned in this run") != std::string::npos);
  run.tuning = "stored";
  CHECK(digits::report_html(run).find("stored by an earlier run") != std::string::npos);
  CHECK(digits::result_line(run).find(" tuning=stored ") != std::string::npos);
  run.tuning = "checked again";
  CHECK(digits::report_html(run).find("checked again in this run") != std::string::npos);
  CHECK(digits::result_line(run).find(" tuning=checked_again ") != std::string::npos);
}

TEST_CASE("the report names the limited percentile") {
  digits::run_summary run = some_run();
  CHECK(digits::report_html(run).find("8.000 ms p99 of a batch") != std::string::npos);
  run.latency_quantile = 0.5;
  CHECK(digits::report_html(run).find("8.000 ms median of a batch") != std::string::npos);
}

TEST_CASE("the checks of these tests can fail") {
  CHECK(test_support::malformed("<a><b></a></b>") != "");
  CHECK(test_support::malformed("<a>") != "");
  CHECK(test_support::malformed("<a x=1></a>") != "");
  CHECK(test_support::malformed("<a>&</a>") != "");
  test_support::result_fields fields;
  CHECK(test_support::parse_result("RESULT runtime=host", fields) != "");
}

TEST_CASE("numbers are formatted with units and separators") {
  CHECK(digits::text::grouped(0) == "0");
  CHECK(digits::text::grouped(999) == "999");
  CHECK(digits::text::grouped(1000) == "1,000");
  CHECK(digits::text::grouped(1234567) == "1,234,567");
  CHECK(digits::text::bytes(512) == "512 B");
  CHECK(digits::text::bytes(8.0 * 1048576.0) == "8.00 MiB");
}
