// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Names, labels, helps and values of any kind make a page that a strict reader accepts, or are
// refused. With a path as WARPWRIGHT_PAGE_FILE the page stays, for `promtool check metrics`.
#include <warpwright/observe/metrics.hpp>

#include <observe/python_check.hpp>
#include <support/catch.hpp>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <vector>

namespace ww = warpwright;

namespace {

class random_metrics {
 public:
  explicit random_metrics(std::uint64_t seed) : random_{seed} {}
  std::size_t below(std::size_t n) { return random_() % n; }
  std::string name() {
    static constexpr char letters[] = "abzAZ_09:a_b \n\"\\{}-#\xc3\xa9.";
    bool const legal = below(8) != 0;
    std::string text(1, "abcXYZ_"[below(7)]);
    for (std::size_t n = below(12); n != 0; --n)
      text += letters[below(legal ? 11 : sizeof letters)];
    return legal || below(4) != 0 ? text : text.substr(1);
  }
  std::string any() {
    std::string text;
    for (std::size_t n = below(16); n != 0; --n) {
      static constexpr char const* parts[] = {"\n",
                                              "\\",
                                              "\"",
                                              "é",
                                              "\xf0\x9f\x98\x80",
                                              "\xff",
                                              "\xed\xa0\x80",
                                              "{",
                                              "}",
                                              "# TYPE a counter",
                                              " ",
                                              "\t",
                                              "\r",
                                              "\x01",
                                              "a",
                                              "le=\"",
                                              ",",
                                              "\xe2\x82"};
      text += parts[below(sizeof parts / sizeof *parts)];
    }
    return text;
  }
  double value() {
    std::uint64_t const bits = random_();
    double value = 0.0;
    std::memcpy(&value, &bits, sizeof value);
    static constexpr double few[] = {0.0, -0.0, 1.0, 0.1, HUGE_VAL, 4.9e-324};
    return below(4) == 0 ? few[below(6)] : value;
  }

 private:
  std::mt19937_64 random_;
};

}  // namespace

TEST_CASE("metrics: a strict reader accepts whatever was not refused") {
  std::uint64_t const seed = std::random_device{}();
  INFO("seed " << seed);
  random_metrics random{seed};
  char const* const asked = std::getenv("WARPWRIGHT_PAGE_FILE");
  constexpr std::size_t count = 2000;
  std::string const path =
      asked != nullptr ? asked : "/tmp/warpwright_page_" + std::to_string(seed);
  std::string text;
  std::size_t made = 0;
  std::size_t refused = 0;
  ww::metrics_page page;
  while (made < count) {
    std::string const name = random.name();
    std::vector<std::string> texts;
    for (int i = 0; i < 6; ++i) texts.push_back(i % 2 == 0 ? random.name() : random.any());
    std::string const help = random.any();
    ww::metric_labels const labels{{texts[0].c_str(), texts[1].c_str()},
                                   {texts[2].c_str(), texts[3].c_str()}};
    try {
      switch (random.below(3)) {
        case 0:
          page.counter(name.c_str(), help.c_str(), labels).add(random.below(1000));
          break;
        case 1:
          page.gauge(name.c_str(), help.c_str(), labels).set(random.value());
          break;
        default:
          double bounds[] = {random.value(), random.value()};
          page.histogram(name.c_str(), help.c_str(), {bounds, bounds + 1 + random.below(2)}, labels)
              .observe(random.value());
      }
      ++made;
    } catch (std::invalid_argument const&) {
      ++refused;
    }
  }
  page.to_prometheus(text);
  CHECK(page.problem().empty());
  CHECK(refused > count / 50);
  std::ofstream{path, std::ios::binary} << text;
#if defined(WARPWRIGHT_PYTHON3)
  std::string output;
  bool const accepted = test_support::check_with_python("page", path, output);
  INFO(output);
  CHECK(accepted);
#endif
  if (asked == nullptr) std::remove(path.c_str());
}
