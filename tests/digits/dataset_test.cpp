// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include "examples/digits/dataset.hpp"

#include "digits/support_process.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <set>

namespace {

std::string line_of(int pixel, int label) {
  std::string line;
  for (std::size_t i = 0; i < digits::image_pixels; ++i) line += std::to_string(pixel) + ',';
  return line + std::to_string(label) + '\n';
}

std::string file_of(std::size_t lines) {
  std::string content;
  for (std::size_t i = 0; i < lines; ++i) {
    content += line_of(static_cast<int>(i % 17), static_cast<int>(i % 10));
  }
  return content;
}

// The error's text, or an empty string.
std::string error_of(std::string const& path) {
  try {
    static_cast<void>(digits::read_dataset(path));
  } catch (digits::data_error const& error) {
    return error.what();
  }
  return {};
}

std::string error_of_line_3(std::string const& line) {
  test_support::scratch_directory scratch;
  std::string const path =
      scratch.write("bad.csv", file_of(2) + line + file_of(digits::image_count - 3));
  std::string const error = error_of(path);
  CAPTURE(error);
  REQUIRE(error.rfind(path + ":3: ", 0) == 0);
  return error.substr(path.size() + 4);
}

}  // namespace

TEST_CASE("the example's data file is complete") {
  digits::dataset const data = digits::read_dataset(DIGITS_DATA);
  REQUIRE(data.labels.size() == 1797);
  REQUIRE(data.pixels.size() == 1797 * 64);
  CHECK(*std::min_element(data.pixels.begin(), data.pixels.end()) == 0.0F);
  CHECK(*std::max_element(data.pixels.begin(), data.pixels.end()) == 1.0F);
  // The counts in UCI's description of the data set, for its test set.
  std::vector<std::ptrdiff_t> counts;
  for (std::int32_t digit = 0; digit < 10; ++digit) {
    counts.push_back(std::count(data.labels.begin(), data.labels.end(), digit));
  }
  CHECK(counts == std::vector<std::ptrdiff_t>{178, 182, 177, 183, 181, 182, 181, 179, 174, 180});
  CHECK(data.labels.front() == 0);
  CHECK(data.pixels[2] == 5.0F / 16.0F);  // the first line begins 0,0,5,13
}

TEST_CASE("a well-formed file is read, with both kinds of line ends") {
  test_support::scratch_directory scratch;
  std::string content = file_of(digits::image_count);
  SECTION("newline at the end") {}
  SECTION("no newline at the end") { content.pop_back(); }
  SECTION("CR LF") {
    std::string with_cr;
    for (char const c : content) with_cr += c == '\n' ? std::string{"\r\n"} : std::string{c};
    content = with_cr;
  }
  digits::dataset const data = digits::read_dataset(scratch.write("good.csv", content));
  REQUIRE(data.labels.size() == digits::image_count);
  CHECK(data.labels[1796] == 6);
  CHECK(data.pixels[64 * 16] == 1.0F);
}

TEST_CASE("the error names a file that cannot be read") {
  test_support::scratch_directory scratch;
  std::string const missing = scratch.file("nothing.csv");
  CHECK(error_of(missing) == missing + ": cannot be opened: No such file or directory");
  std::string const directory = missing.substr(0, missing.rfind('/'));
  CHECK(error_of(directory).rfind(directory + ": cannot be read: ", 0) == 0);
}

TEST_CASE("the error of a short or long file names file and line") {
  test_support::scratch_directory scratch;
  std::string const empty = scratch.write("empty.csv", "");
  CHECK(error_of(empty) == empty + ":1: the file ends after 0 of 1,797 images");
  std::string const shorter = scratch.write("short.csv", file_of(1000));
  CHECK(error_of(shorter) == shorter + ":1001: the file ends after 1000 of 1,797 images");
  std::string const longer = scratch.write("long.csv", file_of(1798));
  CHECK(error_of(longer) == longer + ":1798: expected 1,797 lines, but here is one more");
  std::string const cut = scratch.write("cut.csv", file_of(1797).substr(0, 140));
  CHECK(error_of(cut).rfind(cut + ":2: expected 65 columns", 0) == 0);
}

TEST_CASE("the error of a malformed line names the problem") {
  std::string const good = line_of(1, 1);
  CHECK(error_of_line_3("\n") == "expected 65 columns (64 pixels and a label), found 1");
  CHECK(error_of_line_3("1," + good) == "expected 65 columns (64 pixels and a label), found 66");
  CHECK(error_of_line_3("17" + good.substr(1)) ==
        "column 1: expected a pixel of 0 to 16, found \"17\"");
  CHECK(error_of_line_3("-1" + good.substr(1)) ==
        "column 1: expected a pixel of 0 to 16, found \"-1\"");
  CHECK(error_of_line_3(good.substr(1)) == "column 1: expected a pixel of 0 to 16, found \"\"");
  CHECK(error_of_line_3("1.5" + good.substr(1)) ==
        "column 1: expected a pixel of 0 to 16, found \"1.5\"");
  CHECK(error_of_line_3(good.substr(0, 128) + "10\n") ==
        "column 65: expected a label of 0 to 9, found \"10\"");
  CHECK(error_of_line_3(good.substr(0, 128) + "\x01seven\n") ==
        "column 65: expected a label of 0 to 9, found \"?seven\"");
  CHECK(error_of_line_3(std::string(1000, 'x') + good.substr(1)) ==
        "column 1: expected a pixel of 0 to 16, found \"xxxxxxxxxxxxxxxxxxxx...\"");
}

TEST_CASE("a split holds out a fifth and depends on its seed") {
  digits::random first{7};
  digits::split const a = digits::split_fifth(1797, first);
  CHECK(a.test.size() == 359);
  CHECK(a.training.size() == 1438);
  std::set<std::int32_t> all{a.test.begin(), a.test.end()};
  all.insert(a.training.begin(), a.training.end());
  CHECK(all.size() == 1797);
  CHECK(*all.begin() == 0);
  CHECK(*all.rbegin() == 1796);

  digits::random same{7};
  CHECK(digits::split_fifth(1797, same).test == a.test);
  digits::random other{8};
  CHECK(digits::split_fifth(1797, other).test != a.test);
}

TEST_CASE("random numbers are uniform in [0, 1)") {
  digits::random draw{1};
  double sum = 0.0;
  for (int i = 0; i < 10000; ++i) {
    float const value = draw.uniform();
    REQUIRE(value >= 0.0F);
    REQUIRE(value < 1.0F);
    sum += static_cast<double>(value);
  }
  CHECK(sum > 4800.0);
  CHECK(sum < 5200.0);
}
