// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// tuning_store: what is stored is found again, what matches, and lines that are no records.
#include <warpwright/tune/tuning_store.hpp>

#include <algorithm>
#include <chrono>
#include <clocale>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/host_runtime.hpp>
#endif

#include "store_support.hpp"

namespace ww = warpwright;
using test_support::content;
using test_support::make_key;
using test_support::make_record;
using test_support::same_records;
using test_support::store_folder;
using test_support::write;

namespace {

unsigned random_seed() {
  unsigned const seed = std::random_device{}();
  std::printf("seed %u\n", seed);
  return seed;
}

std::string line_of(ww::tuning_record const& record) { return ww::detail::encode_record(record); }

ww::detail::line_part part_of(std::string const& text) {
  return {text.data(), text.data() + text.size()};
}

// What is wrong with a line; empty: nothing.
std::string problem_of(std::string const& line) {
  ww::tuning_record record;
  ww::detail::line_problem const problem = ww::detail::decode_record(part_of(line), record);
  return problem ? std::string{problem.text} + problem.field : std::string{};
}

std::string replaced(std::string text, std::string const& what, std::string const& by) {
  std::size_t const at = text.find(what);
  REQUIRE(at != std::string::npos);
  return text.replace(at, what.size(), by);
}

std::vector<std::string> lines_of(std::string const& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t const end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

}  // namespace

TEST_CASE("a record is found again with every value", "[tune][store]") {
  store_folder const folder;
  ww::tuning_store const store{folder.file()};
  CHECK(store.path() == folder.file());
  CHECK(store.put(make_record()).empty());
  ww::tuning_lookup const found = store.find(make_key());
  CHECK(found.match == ww::tuning_match::exact);
  CHECK(found.warnings.empty());
  CHECK(same_records(found.record, make_record()));
  REQUIRE(found.record.field("note") != nullptr);
  CHECK(*found.record.field("note") == "two words");
  CHECK(found.record.field("not") == nullptr);
}

TEST_CASE("the file is what the documentation says", "[tune][store]") {
  store_folder const folder;
  ww::tuning_store{folder.file()}.put(make_record());
  std::vector<std::string> const lines = lines_of(content(folder.file()));
  REQUIRE(lines.size() == 2);
  CHECK(lines[0][0] == '#');
  CHECK(lines[1] ==
        "warpwright_tuning=1\tkind=batch\ttag=resnet50\tdevice=NVIDIA H100 80GB HBM3\tmig=\t"
        "objective=throughput, p99 within 5 ms\tmemory_cap_bytes=2147483648\t"
        "device_memory_bytes=85029158912\tdriver=13.0\truntime=12.8\tlibrary=0.1.0\tbatch=256\t"
        "items_per_second=81234.5\tlatency_median_seconds=0.00315\tlatency_p99_seconds=0.0041\t"
        "memory_bytes=1234567890\t"
        "points=1:0.0001:0.0002:1000,64:0.00125:0.0015:64000,256:0.00315:0:0\t"
        "field.algorithm=direct\tfield.note=two words\tdate=2026-11-23T20:44:07Z");
}

TEST_CASE("a store without a file has nothing, and is not created by looking", "[tune][store]") {
  store_folder const folder;
  ww::tuning_store const store{folder.path() + "/none/store.txt"};
  CHECK(store.find(make_key()).match == ww::tuning_match::none);
  CHECK(store.find(make_key()).warnings.empty());
  CHECK(store.try_find(make_key()).warnings.empty());
  CHECK(store.records().records.empty());
  CHECK(store.records().warnings.empty());
  CHECK(folder.names().empty());
}

TEST_CASE("texts may hold every byte", "[tune][store]") {
  store_folder const folder;
  ww::tuning_store const store{folder.file()};
  std::string every;
  for (int byte = 0; byte < 256; ++byte) every += static_cast<char>(byte);
  std::vector<std::string> const texts = {every,
                                          "a\tb\nc\r\n\\\\t \\x41 \\",
                                          "\"quoted\", 'too' = x:y",
                                          "\xC3\xA9t\xC3\xA9 \xF0\x9F\x98\x80",
                                          "# tag",
                                          std::string(3, '\0'),
                                          " ",
                                          "\x7f\x80\xff"};
  std::vector<ww::tuning_record> records;
  for (std::string const& text : texts) {
    ww::tuning_record r = make_record(text);
    r.key.kind = text;
    r.key.device = text;
    r.key.mig_profile = text;
    r.key.objective = text;
    r.key.driver_version = r.key.runtime_version = r.key.library_version = text;
    r.fields = {{"a", text}, {"b", ""}};
    store.put(r);
    records.push_back(r);
  }
  CHECK(lines_of(content(folder.file())).size() == texts.size() + 1);
  ww::tuning_records const all = store.records();
  CHECK(all.warnings.empty());
  REQUIRE(all.records.size() == records.size());
  for (std::size_t i = 0; i < records.size(); ++i) {
    CAPTURE(i);
    CHECK(same_records(all.records[i], records[i]));
    CHECK(store.find(records[i].key).match == ww::tuning_match::exact);
    CHECK(same_records(store.find(records[i].key).record, records[i]));
  }
}

TEST_CASE("random records round-trip exactly", "[tune][store]") {
  std::mt19937_64 random{random_seed()};
  auto const text = [&random](std::size_t longest) {
    std::string t(random() % (longest + 1), ' ');
    for (char& c : t) c = static_cast<char>(random() % 4 == 0 ? random() % 32 : random());
    return t;
  };
  auto const number = [&random] {
    for (;;) {  // any bit pattern that is a figure
      std::uint64_t const bits = random() & ~(std::uint64_t{1} << 63U);
      double value = 0.0;
      std::memcpy(&value, &bits, sizeof value);
      if (random() % 4 == 0) value = static_cast<double>(random() % 100000) * 1e-6;
      if (std::isfinite(value)) return value;
    }
  };
  for (int i = 0; i < 3000; ++i) {
    ww::tuning_record r;
    r.key = {text(8),  text(8) + "t", text(30), text(8), text(40),
             random(), random(),      text(8),  text(8), text(8)};
    r.batch = random() >> (random() % 64);
    r.items_per_second = number();
    r.latency_median_seconds = number();
    r.latency_p99_seconds = number();
    r.memory_bytes = random() >> (random() % 64);
    r.points.resize(random() % 5);
    for (auto& p : r.points) p = {random(), number(), number(), random() >> (random() % 64)};
    r.fields.resize(random() % 4);
    for (auto& f : r.fields) f = {"n" + std::to_string(random() % 100), text(20)};
    r.date = "2026-01-02T03:04:05Z";
    std::string const line = line_of(r);
    ww::tuning_record read;
    REQUIRE(problem_of(line).empty());
    static_cast<void>(ww::detail::decode_record(part_of(line), read));
    REQUIRE(same_records(read, r));
    REQUIRE(line_of(read) == line);
  }
}

TEST_CASE("numbers are exact, and as short as that allows", "[tune][store]") {
  auto const written = [](double value) {
    std::string text;
    ww::detail::append_number(text, value);
    return text;
  };
  CHECK(written(0.0) == "0");
  CHECK(written(-0.0) == "0");
  CHECK(written(0.005) == "0.005");
  CHECK(written(1e22) == "1e+22");
  CHECK(written(1.0 / 3.0) == "0.3333333333333333");
  CHECK(written(0.1 + 0.2) == "0.30000000000000004");
  for (double const value :
       {std::numeric_limits<double>::max(), std::numeric_limits<double>::min(),
        std::numeric_limits<double>::denorm_min(), 5e-324, 123456789.123456789}) {
    double read = -1.0;
    CHECK(ww::detail::read_number(part_of(written(value)), read));
    CHECK(read == value);
  }
}

TEST_CASE("only plain decimal numbers are read", "[tune][store]") {
  double number = 0.0;
  for (char const* text :
       {"", "-1", "+1", " 1", "1 ", "1.", ".5", "1,5", "1e", "1e+", "0x1p3", "inf", "nan", "1e999",
        "1.5.5", "1e5e5", "1'000", "one", "000000000000000000000000000000001"}) {
    CAPTURE(text);
    CHECK_FALSE(ww::detail::read_number(part_of(text), number));
  }
  std::size_t size = 0;
  for (char const* text : {"", "-1", "+1", "01", "00", "1.0", "1 ", "0x1", "18446744073709551616",
                           "99999999999999999999"}) {
    CAPTURE(text);
    CHECK_FALSE(ww::detail::read_integer(part_of(text), size));
  }
  CHECK(ww::detail::read_integer(part_of("18446744073709551615"), size));
  CHECK(size == std::numeric_limits<std::size_t>::max());
  CHECK(ww::detail::read_integer(part_of("0"), size));
  CHECK(size == 0);
}

TEST_CASE("a locale with a decimal comma changes nothing", "[tune][store]") {
  store_folder const folder;
  // Not every machine has such a locale; where the sources of locales are, one is made.
  std::string const made = folder.path() + "/de_DE.UTF-8";
  char const* found = nullptr;
  for (char const* name : {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "ru_RU.UTF-8"}) {
    if (found == nullptr) found = std::setlocale(LC_ALL, name);
  }
  if (found == nullptr &&
      std::system(("localedef -i de_DE -f UTF-8 " + made + " >/dev/null 2>&1").c_str()) == 0) {
    setenv("LOCPATH", folder.path().c_str(), 1);
    found = std::setlocale(LC_ALL, "de_DE.UTF-8");
    unsetenv("LOCPATH");
  }
  char half[8];
  std::snprintf(half, sizeof half, "%.1f", 0.5);
  if (found == nullptr || std::string{half} != "0,5") {
    WARN("no locale with a decimal comma on this machine: not tested");
    std::setlocale(LC_ALL, "C");
    return;
  }
  std::string const in_locale = line_of(make_record());
  std::string const problem = problem_of(in_locale);
  ww::tuning_store const store{folder.file()};
  store.put(make_record());
  ww::tuning_lookup const lookup = store.find(make_key());
  std::setlocale(LC_ALL, "C");
  CHECK(in_locale == line_of(make_record()));
  CHECK(problem.empty());
  CHECK(same_records(lookup.record, make_record()));
  CHECK(same_records(store.find(make_key()).record, make_record()));
}

TEST_CASE("another device, objective, cap, tag or kind is no match", "[tune][store]") {
  store_folder const folder;
  ww::tuning_store const store{folder.file()};
  store.put(make_record());
  auto const match_with = [&store](auto&& change) {
    ww::tuning_key key = make_key();
    change(key);
    ww::tuning_lookup const found = store.find(key);
    CHECK(found.warnings.empty());
    CHECK(found.record.key.tag.empty() == (found.match == ww::tuning_match::none));
    return found.match;
  };
  constexpr auto none = ww::tuning_match::none;
  CHECK(match_with([](ww::tuning_key&) {}) == ww::tuning_match::exact);
  CHECK(match_with([](ww::tuning_key& k) { k.kind = "choice"; }) == none);
  CHECK(match_with([](ww::tuning_key& k) { k.tag = "resnet5"; }) == none);
  CHECK(match_with([](ww::tuning_key& k) { k.tag = "resnet501"; }) == none);
  CHECK(match_with([](ww::tuning_key& k) { k.device = "NVIDIA H100 PCIe"; }) == none);
  CHECK(match_with([](ww::tuning_key& k) { k.mig_profile = "1g.10gb"; }) == none);
  CHECK(match_with([](ww::tuning_key& k) { k.objective = ""; }) == none);
  CHECK(match_with([](ww::tuning_key& k) { k.memory_cap_bytes = 0; }) == none);
  CHECK(match_with([](ww::tuning_key& k) { k.memory_cap_bytes *= 10; }) == none);
  CHECK(match_with([](ww::tuning_key& k) { k.device_memory_bytes /= 2; }) == none);
  CHECK(match_with([](ww::tuning_key& k) { k.device_memory_bytes *= 2; }) == none);
}

TEST_CASE("another driver, runtime or library version is a prior", "[tune][store]") {
  store_folder const folder;
  ww::tuning_store const store{folder.file()};
  store.put(make_record());
  for (int which = 0; which < 3; ++which) {
    ww::tuning_key key = make_key();
    (which == 0   ? key.driver_version
     : which == 1 ? key.runtime_version
                  : key.library_version) = "9.9";
    ww::tuning_lookup const found = store.find(key);
    CHECK(found.match == ww::tuning_match::prior);
    CHECK(same_records(found.record, make_record()));  // with its own key
  }
}

TEST_CASE("device memory that a driver reports differently is a prior", "[tune][store]") {
  store_folder const folder;
  ww::tuning_store const store{folder.file()};
  ww::tuning_record record = make_record();
  record.key.device_memory_bytes = 10000;
  store.put(record);
  auto const match_with = [&](std::size_t bytes) {
    ww::tuning_key key = record.key;
    key.device_memory_bytes = bytes;
    return store.find(key).match;
  };
  CHECK(match_with(10000) == ww::tuning_match::exact);
  CHECK(match_with(9999) == ww::tuning_match::prior);
  CHECK(match_with(10001) == ww::tuning_match::prior);
  CHECK(match_with(9800) == ww::tuning_match::prior);
  CHECK(match_with(9799) == ww::tuning_match::none);
  CHECK(match_with(10204) == ww::tuning_match::prior);
  CHECK(match_with(10205) == ww::tuning_match::none);
  CHECK(match_with(0) == ww::tuning_match::none);
}

TEST_CASE("an exact match goes before priors, of which the newest counts", "[tune][store]") {
  store_folder const folder;
  ww::tuning_store const store{folder.file()};
  for (std::size_t i = 0; i < 4; ++i) {
    ww::tuning_record r = make_record("resnet50", 100 + i);
    r.key.driver_version = std::to_string(i);
    store.put(r);
  }
  ww::tuning_key key = make_key();
  key.driver_version = "1";
  CHECK(store.find(key).match == ww::tuning_match::exact);
  CHECK(store.find(key).record.batch == 101);
  key.driver_version = "7";
  CHECK(store.find(key).match == ww::tuning_match::prior);
  CHECK(store.find(key).record.batch == 103);
  ww::tuning_record again = make_record("resnet50", 200);  // now the newest
  again.key.driver_version = "0";
  store.put(again);
  CHECK(store.find(key).record.batch == 200);
  CHECK(store.records().records.size() == 4);
}

TEST_CASE("of several candidates none leaves points or fields in the result", "[tune][store]") {
  store_folder const folder;
  ww::tuning_store const store{folder.file()};
  ww::tuning_record expected;
  for (std::size_t i = 0; i < 4; ++i) {
    expected = make_record("resnet50", i);
    expected.key.driver_version = std::to_string(i);
    expected.points.resize(3 - i);
    expected.fields.resize(i % 2);
    store.put(expected);
  }
  CHECK(same_records(store.find(make_key()).record, expected));
}

TEST_CASE("a last line without a newline is a record, which put replaces or keeps",
          "[tune][store]") {
  store_folder const folder;
  ww::tuning_store const store{folder.file()};
  std::string const line = line_of(make_record());
  write(folder.file(), line);
  CHECK(same_records(store.find(make_key()).record, make_record()));
  CHECK(store.put(make_record()).empty());
  CHECK(content(folder.file()) == line + '\n');
  write(folder.file(), line);
  CHECK(store.put(make_record("other")).empty());
  CHECK(content(folder.file()) == line + '\n' + line_of(make_record("other")) + '\n');
}

TEST_CASE("an empty file is a store without records", "[tune][store]") {
  store_folder const folder;
  ww::tuning_store const store{folder.file()};
  write(folder.file(), "");
  CHECK(store.find(make_key()).match == ww::tuning_match::none);
  CHECK(store.records().warnings.empty());
  CHECK(store.put(make_record()).empty());
  CHECK(same_records(store.find(make_key()).record, make_record()));
}

TEST_CASE("put replaces the record with the same key and keeps the others", "[tune][store]") {
  std::mt19937_64 random{random_seed()};
  store_folder const folder{"/dev/shm"};
  ww::tuning_store const store{folder.file()};
  std::vector<ww::tuning_record> expected;  // in the order of the file
  for (std::size_t i = 0; i < 300; ++i) {
    ww::tuning_record r = make_record("t" + std::to_string(random() % 12), i);
    r.key.driver_version = std::to_string(random() % 3);
    expected.erase(std::remove_if(expected.begin(), expected.end(),
                                  [&r](ww::tuning_record const& e) {
                                    return test_support::same_keys(e.key, r.key);
                                  }),
                   expected.end());
    expected.push_back(r);
    store.put(r);
    ww::tuning_records const all = store.records();
    REQUIRE(all.records.size() == expected.size());
    for (std::size_t k = 0; k < expected.size(); ++k) {
      REQUIRE(same_records(all.records[k], expected[k]));
    }
  }
}

TEST_CASE("a record without a date gets the time of the call", "[tune][store]") {
  store_folder const folder;
  ww::tuning_store const store{folder.file()};
  ww::tuning_record record = make_record();
  record.date.clear();
  std::time_t const before = std::time(nullptr);
  store.put(record);
  std::time_t const after = std::time(nullptr);
  std::string const date = store.find(make_key()).record.date;
  auto const text = [](std::time_t t) {
    std::tm utc{};
    gmtime_r(&t, &utc);
    char line[32];
    std::strftime(line, sizeof line, "%Y-%m-%dT%H:%M:%SZ", &utc);
    return std::string{line};
  };
  CHECK(date >= text(before));
  CHECK(date <= text(after));
}

TEST_CASE("foreign and broken lines are kept in place and reported", "[tune][store]") {
  store_folder const folder;
  ww::tuning_store const store{folder.file()};
  std::string const good = line_of(make_record());
  std::string const other = line_of(make_record("other"));
  std::vector<std::string> const kept = {
      "# a comment",
      "",
      "{\"json\": true}",
      replaced(other, "tuning=1", "tuning=2"),
      other.substr(0, other.size() / 2),
      std::string{"\0\xff\r", 3},
      replaced(good, "batch=256", "batch=-1"),  // of the same key, but broken
      other,
      "warpwright_tuning"};
  std::string text;
  for (std::string const& line : kept) text += line + '\n';
  text += good + '\n' + "no newline at the end";
  write(folder.file(), text);

  auto const check = [&folder](std::vector<std::string> const& warnings) {
    REQUIRE(warnings.size() == 7);
    std::string const start = folder.file() + ":";
    CHECK(warnings[0] == start + "3: this line is not a record; it was skipped, and is kept");
    CHECK(warnings[1].find(start + "4: this line is not of format 1") == 0);
    CHECK(warnings[2].find(start + "5: this line does not end in a date") == 0);
    CHECK(warnings[3].find(start + "6: ") == 0);
    CHECK(warnings[4].find(start + "7: this line has no valid field batch;") == 0);
    CHECK(warnings[5].find(start + "9: this line is not a record") == 0);
    CHECK(warnings[6].find(": this line is not a record") != std::string::npos);
  };
  ww::tuning_lookup const found = store.find(make_key());
  CHECK(found.match == ww::tuning_match::exact);
  CHECK(same_records(found.record, make_record()));
  check(found.warnings);
  check(store.records().warnings);
  CHECK(store.records().records.size() == 2);

  ww::tuning_record const next = make_record("resnet50", 512);
  check(store.put(next));
  std::string expected;
  for (std::string const& line : kept) expected += line + '\n';
  expected += "no newline at the end\n" + line_of(next) + '\n';
  CHECK(content(folder.file()) == expected);
  check(store.try_put(next).warnings);
  CHECK(content(folder.file()) == expected);
}

TEST_CASE("a line that was cut off anywhere is not a record", "[tune][store]") {
  std::string const line = line_of(make_record());
  REQUIRE(problem_of(line).empty());
  for (std::size_t length = 0; length < line.size(); ++length) {
    CAPTURE(length);
    CHECK_FALSE(problem_of(line.substr(0, length)).empty());
  }
  CHECK_FALSE(problem_of(line + " ").empty());
  CHECK_FALSE(problem_of(line + "\t").empty());
  CHECK_FALSE(problem_of(line + "\r").empty());
}

TEST_CASE("only lines as put() writes them are read", "[tune][store]") {
  std::string const line = line_of(make_record());
  auto const problem = [&line](std::string const& what, std::string const& by) {
    return problem_of(replaced(line, what, by));
  };
  CHECK(problem("kind=batch", "kynd=batch") == "has no valid field kind");
  CHECK(problem("\tmig=", "") == "has no valid field mig");
  CHECK(problem("mig=\tobjective", "objective=\tmig") == "has no valid field mig");
  CHECK(problem("tag=resnet", "tag=\\xzz") == "has no valid field tag");
  CHECK(problem("tag=resnet50", "tag=\\x41") == "has no valid field tag");  // stands for itself
  CHECK(problem("tag=resnet50", "tag=\\x0a") == "has no valid field tag");  // \n is shorter
  CHECK(problem("tag=resnet50", "tag=\\x1B") == "has no valid field tag");  // upper case
  CHECK(problem("tag=resnet50", "tag=\\x1b").empty());
  CHECK(problem("tag=resnet50", "tag=x\\") == "has no valid field tag");
  CHECK(problem("tag=resnet50", "tag=\\x1") == "has no valid field tag");
  CHECK(problem("tag=resnet50", "tag=\\a") == "has no valid field tag");
  CHECK(problem("tag=resnet50", "tag=a\x01") == "has no valid field tag");
  CHECK(problem("cap_bytes=2147483648", "cap_bytes=02147483648") ==
        "has no valid field memory_cap_bytes");
  CHECK(problem("device_memory_bytes=", "device_memory_bytes=x") ==
        "has no valid field device_memory_bytes");
  CHECK(problem("driver=13.0", "driver=\x7f") == "has no valid field driver");
  CHECK(problem("runtime=", "runtim=") == "has no valid field runtime");
  CHECK(problem("library=", "library:") == "has no valid field library");
  CHECK(problem("batch=256", "batch=") == "has no valid field batch");
  CHECK(problem("second=81234.5", "second=81234,5") == "has no valid field items_per_second");
  CHECK(problem("=0.00315\t", "=-0.00315\t") == "has no valid field latency_median_seconds");
  CHECK(problem("=0.0041\t", "=nan\t") == "has no valid field latency_p99_seconds");
  CHECK(problem("\tmemory_bytes=1", "\tmemory_bytes=1.5") == "has no valid field memory_bytes");
  CHECK(problem("points=1:", "points=:") == "has no valid field points");
  CHECK(problem("points=1:", "points=,1:") == "has no valid field points");
  CHECK(problem(":1000,", ":1000:1,") == "has no valid field points");
  CHECK(problem(":1000,", ",") == "has no valid field points");
  CHECK(problem(":0:0\t", ":0:0,\t") == "has no valid field points");
  CHECK(problem("field.note=", "field.no te=") == "has no valid field field.…");
  CHECK(problem("field.note=", "field.=") == "has no valid field field.…");
  CHECK(problem("field.note=two", "field.note=\\q") == "has no valid field field.…");
  CHECK(problem("field.note=", "unknown=") == "has an unknown field before its date");
  CHECK(problem("\tdate=2026", "\tdate=x026").find("does not end in a date") == 0);
  CHECK(problem("\tdate=", "\tDate=").find("does not end in a date") == 0);
  CHECK(problem("=1\t", "=01\t").find("is not of format 1") == 0);
  CHECK(problem("=1\t", "=1 ").find("is not of format 1") == 0);
}

TEST_CASE("damaged lines never crash the reader, nor change other records", "[tune][store]") {
  std::mt19937_64 random{random_seed()};
  std::string const line = line_of(make_record());
  int read = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string damaged = line;
    for (std::uint64_t changes = random() % 3 + 1; changes > 0; --changes) {
      std::size_t const at = random() % damaged.size();
      switch (random() % 4) {
        case 0:
          damaged[at] = static_cast<char>(random());
          break;
        case 1:
          damaged.erase(at, random() % 20);
          break;
        case 2:
          damaged.insert(at, 1, "\t=:,.\\x0"[random() % 8]);
          break;
        default:
          damaged.insert(at, damaged.substr(random() % damaged.size(), random() % 20));
      }
      if (damaged.empty()) damaged = "x";
    }
    ww::tuning_record record;
    if (ww::detail::decode_record(part_of(damaged), record)) continue;
    ++read;
    // What was read is a record: it can be written again, with numbers in our form.
    REQUIRE(problem_of(line_of(record)).empty());
  }
  CHECK(read > 0);
  CHECK(read < 15000);
}

TEST_CASE("a file of another kind gives a bounded list of warnings", "[tune][store]") {
  store_folder const folder;
  std::string text;
  for (int i = 0; i < 5000; ++i) text += "line\n";
  write(folder.file(), text);
  ww::tuning_store const store{folder.file()};
  ww::tuning_lookup const found = store.find(make_key());
  REQUIRE(found.warnings.size() == 101);
  CHECK(found.warnings[99].find(":100: ") != std::string::npos);
  CHECK(found.warnings[100].find("4900 more lines") != std::string::npos);
  CHECK(store.records().warnings.size() == 101);
  CHECK(store.put(make_record()).size() == 101);
  CHECK(content(folder.file()) == text + line_of(make_record()) + '\n');
}

TEST_CASE("a line may have 64 KiB and not a byte more", "[tune][store]") {
  store_folder const folder;
  ww::tuning_store const store{folder.file()};
  ww::tuning_record record = make_record();
  std::size_t const rest = line_of(record).size() - record.fields[1].value.size();
  record.fields[1].value.assign(65536 - rest, 'x');
  store.put(record);
  CHECK(same_records(store.find(make_key()).record, record));
  record.fields[1].value += 'x';
  CHECK_THROWS_WITH(store.put(record),
                    contains("65537 bytes") && contains("65536") && contains("fewer points"));
  CHECK_THROWS_AS(store.put(record), std::invalid_argument);
  write(folder.file(), line_of(record) + '\n');
  CHECK(store.find(make_key()).match == ww::tuning_match::none);
  REQUIRE(store.find(make_key()).warnings.size() == 1);
  CHECK(store.find(make_key()).warnings[0].find("longer than 64 KiB") != std::string::npos);
}

TEST_CASE("records that cannot be stored are refused with the value and the remedy",
          "[tune][store]") {
  store_folder const folder;
  ww::tuning_store const store{folder.file()};
  auto const put_with = [&store](auto&& change) {
    ww::tuning_record record = make_record();
    change(record);
    store.put(record);
  };
  using record_type = ww::tuning_record;
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  constexpr double infinity = std::numeric_limits<double>::infinity();
  CHECK_THROWS_WITH(put_with([](record_type& r) { r.key.tag = ""; }),
                    contains("tag is empty") && contains("name the workload") && contains(".cpp:"));
  CHECK_THROWS_WITH(put_with([=](record_type& r) { r.items_per_second = nan; }),
                    contains("items_per_second is") && contains("finite"));
  CHECK_THROWS_WITH(put_with([](record_type& r) { r.latency_median_seconds = -1.0; }),
                    contains("latency_median_seconds is -1"));
  CHECK_THROWS_WITH(put_with([=](record_type& r) { r.latency_p99_seconds = infinity; }),
                    contains("latency_p99_seconds is inf"));
  CHECK_THROWS_WITH(put_with([=](record_type& r) { r.points[1].median_seconds = nan; }),
                    contains("median_seconds of a point"));
  CHECK_THROWS_WITH(put_with([](record_type& r) { r.points[2].p99_seconds = -0.5; }),
                    contains("p99_seconds of a point is -0.5"));
  for (std::string const& name : {std::string{}, std::string{"a b"}, std::string{"a=b"},
                                  std::string{"\xC3\xA9"}, std::string(65, 'n')}) {
    CHECK_THROWS_WITH(put_with([&](record_type& r) { r.fields[0].name = name; }),
                      contains("name of a field") && contains("1 to 64 letters"));
  }
  for (char const* date :
       {"now", "2026-11-23 20:44:07Z", "2026-11-23T20:44:07", "2026-11-23T20:44:0xZ"}) {
    CHECK_THROWS_WITH(put_with([&](record_type& r) { r.date = date; }),
                      contains(date) && contains("2026-11-23T20:44:07Z"));
  }
  CHECK_THROWS_AS(put_with([](record_type& r) { r.key.tag = ""; }), std::invalid_argument);
  CHECK_THROWS_AS(store.find(ww::tuning_key{}), std::invalid_argument);
  CHECK_THROWS_AS(store.try_find(ww::tuning_key{}), std::invalid_argument);
  CHECK(folder.names().empty());
  put_with([](record_type& r) { r.fields[0].name = std::string(64, 'n'); });

  record_type bad = make_record();
  bad.items_per_second = nan;
  ww::tuning_put_result const result = store.try_put(bad);
  CHECK_FALSE(result.stored);
  CHECK(result.problem.find("items_per_second") != std::string::npos);
}

TEST_CASE("a store needs the path of a file", "[tune][store]") {
  for (std::string const& path : {std::string{}, std::string{"/tmp/"}, std::string{"a\0b", 3}}) {
    CHECK_THROWS_AS(ww::tuning_store{path}, std::invalid_argument);
    CHECK_THROWS_WITH(ww::tuning_store{path}, contains("is not the path of a file"));
  }
}

TEST_CASE("the key of a device has what CUDA reports", "[tune][store]") {
  ww::device_id const device = ww::current_device();
  ww::device_info const info = ww::get_device_info(device);
  ww::tuning_key const key = ww::tuning_key::of_device(device);
  CHECK(key.kind == "batch");
  CHECK(key.tag.empty());
  CHECK(key.device + (key.mig_profile.empty() ? "" : " MIG ") + key.mig_profile == info.name);
  CHECK(key.mig_profile.empty() == !info.mig);
  CHECK(key.device_memory_bytes == info.memory_total_bytes);
  CHECK(key.driver_version == std::to_string(info.driver_version / 1000) + "." +
                                  std::to_string(info.driver_version % 1000 / 10));
  CHECK(std::strtod(key.runtime_version.c_str(), nullptr) >= 12.0);
  CHECK(key.library_version == std::to_string(WARPWRIGHT_VERSION_MAJOR) + "." +
                                   std::to_string(WARPWRIGHT_VERSION_MINOR) + "." +
                                   std::to_string(WARPWRIGHT_VERSION_PATCH));
  CHECK_THROWS_AS(ww::tuning_key::of_device(ww::device_id{99}), std::invalid_argument);
  CHECK(ww::detail::cuda_version_text(12080) == "12.8");
  CHECK(ww::detail::cuda_version_text(13000) == "13.0");
}

#if WARPWRIGHT_HOST_RUNTIME
TEST_CASE("a MIG device's profile is a part of its key, not of its name", "[tune][store]") {
  ww::testing::host_runtime_options options;
  options.profile.name = "NVIDIA H100 80GB HBM3 MIG 1g.10gb";
  ww::testing::reset_host_runtime(options);
  ww::tuning_key const key = ww::tuning_key::of_device(ww::device_id{0});
  CHECK(key.device == "NVIDIA H100 80GB HBM3");
  CHECK(key.mig_profile == "1g.10gb (host runtime)");
  ww::testing::reset_host_runtime();
  CHECK(ww::tuning_key::of_device(ww::device_id{0}).mig_profile.empty());
}
#endif

TEST_CASE("two threads that write 100 records each lose none", "[tune][store]") {
  store_folder const folder{"/dev/shm"};
  ww::tuning_store const store{folder.file()};
  auto const write_records = [&folder](std::string const& name) {
    ww::tuning_store const own{folder.file()};
    for (std::size_t i = 0; i < 100; ++i) own.put(make_record(name + std::to_string(i), i));
  };
  std::thread other{write_records, "b"};
  write_records("a");
  other.join();
  ww::tuning_records const all = store.records();
  CHECK(all.warnings.empty());
  CHECK(all.records.size() == 200);
  for (std::size_t i = 0; i < 100; ++i) {
    for (char const* name : {"a", "b"}) {
      ww::tuning_lookup const found = store.find(make_key(name + std::to_string(i)));
      CHECK(found.match == ww::tuning_match::exact);
      CHECK(found.record.batch == i);
    }
  }
  CHECK(folder.names() == std::set<std::string>{"store.txt", "store.txt.lock"});
}

TEST_CASE("a record among 1,000 is found in less than a millisecond", "[tune][store]") {
  store_folder const folder;
  std::string text;
  for (std::size_t i = 0; i < 1000; ++i) {
    ww::tuning_record r = make_record("workload-" + std::to_string(i), i);
    r.points.assign(12, {128, 0.0012345678901234567, 0.0023456789012345678, 123456789});
    text += line_of(r) + '\n';
  }
  write(folder.file(), text);
  ww::tuning_store const store{folder.file()};
  std::vector<double> times;
  for (std::size_t i = 0; i < 101; ++i) {
    ww::tuning_key const key = make_key("workload-" + std::to_string(i * 9));
    auto const start = std::chrono::steady_clock::now();
    ww::tuning_lookup const found = store.find(key);
    times.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    REQUIRE(found.match == ww::tuning_match::exact);
    REQUIRE(found.record.batch == i * 9);
  }
  std::sort(times.begin(), times.end());
  std::printf("find() in %zu bytes: fastest %.0f us, median %.0f us, slowest %.0f us\n",
              text.size(), 1e6 * times[0], 1e6 * times[50], 1e6 * times[100]);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  CHECK(times[0] < 1e-3);  // the fastest: other programs run beside the test
#endif
}
