// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/core/detail/thread/thread.hpp>
#include <warpwright/graph/graph_cache.hpp>
#include <warpwright/memory/pinned.hpp>
#include <warpwright/memory/pool.hpp>
#include <warpwright/observe/metrics.hpp>
#include <warpwright/observe/step_timer.hpp>
#include <warpwright/stream/prefetch_options.hpp>

#include <support/catch.hpp>

#include <atomic>
#include <clocale>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <string>
#include <thread>
#include <vector>

namespace ww = warpwright;

namespace {

thread_local long metrics_allocations = 0;
thread_local long metrics_allocations_left = -1;  // negative: no limit

}  // namespace

// The sanitizers have these functions already, and nvcc would compile them for the device, too.
#if defined(__has_feature)
#define COUNTS (!__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer))
#elif defined(__CUDACC__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNTS 0
#else
#define COUNTS 1
#endif
#if COUNTS
// Not inlined: g++ would take the pair for a mismatch of malloc and delete.
__attribute__((noinline)) void* operator new(std::size_t bytes) {
  ++metrics_allocations;
  void* const memory = metrics_allocations_left == 0 ? nullptr : std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc{};
  if (metrics_allocations_left > 0) --metrics_allocations_left;
  return memory;
}
__attribute__((noinline)) void operator delete(void* memory) noexcept { std::free(memory); }
__attribute__((noinline)) void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
#endif

namespace users {

struct queue_statistics {
  int waiting = 0;
  double oldest_seconds = 0.0;
};
void add_metrics(ww::metrics_writer& to, queue_statistics const& s) {
  to.gauge("waiting", "Waiting \"requests\".", s.waiting);
  to.gauge("oldest_seconds", "", s.oldest_seconds, {{"kind", "a\\b"}});
}
struct queue {
  queue_statistics now;
  queue_statistics statistics() const { return now; }
};

struct scripted_statistics {
  std::vector<std::string> names;
  std::vector<std::string> labels;
};
void add_metrics(ww::metrics_writer& to, scripted_statistics const& s) {
  for (std::string const& name : s.names) to.counter(name.c_str(), "n", 1);
  for (std::string const& label : s.labels) to.gauge("by_key", "k", 2, {{"key", label.c_str()}});
}
struct scripted {
  scripted_statistics now;
  bool fails = false;
  scripted_statistics statistics() const {
    if (fails) throw std::runtime_error{"the device is lost"};
    return now;
  }
};

}  // namespace users

TEST_CASE("metrics: counters, gauges and histograms are written as Prometheus reads them") {
  ww::metrics_page page;
  CHECK(page.to_prometheus().empty());
  auto const requests = page.counter("requests_total", "Line\nand \\ \"quotes\".", {{"a", "1"}});
  auto const load = page.gauge("load", nullptr);
  auto const latency = page.histogram("latency_seconds", "L.", {0.25, 0.5, 1}, {{"m", "x\"\n\\é"}});
  auto const more = page.counter("requests_total", "", {{"a", "\xff!"}, {"b", ""}});
  requests.add();
  requests.add(41);
  more.add(std::numeric_limits<std::uint64_t>::max());
  load.set(1.5);
  load.add(-3.25);
  for (double const value : {0.0, 0.25, 0.26, 1.0, 1.5, -7.0}) latency.observe(value);
  CHECK(requests.value() == 42);
  CHECK(load.value() == -1.75);
  CHECK(latency.count() == 6);
  CHECK(page.to_prometheus() ==
        "# HELP requests_total Line\\nand \\\\ \"quotes\".\n"
        "# TYPE requests_total counter\n"
        "requests_total{a=\"1\"} 42\n"
        "requests_total{a=\"?!\",b=\"\"} 18446744073709551615\n"
        "# TYPE load gauge\n"
        "load -1.75\n"
        "# HELP latency_seconds L.\n"
        "# TYPE latency_seconds histogram\n"
        "latency_seconds_bucket{m=\"x\\\"\\n\\\\é\",le=\"0.25\"} 3\n"
        "latency_seconds_bucket{m=\"x\\\"\\n\\\\é\",le=\"0.5\"} 4\n"
        "latency_seconds_bucket{m=\"x\\\"\\n\\\\é\",le=\"1\"} 5\n"
        "latency_seconds_bucket{m=\"x\\\"\\n\\\\é\",le=\"+Inf\"} 6\n"
        "latency_seconds_sum{m=\"x\\\"\\n\\\\é\"} -3.99\n"
        "latency_seconds_count{m=\"x\\\"\\n\\\\é\"} 6\n");
  std::string text = "before\n";
  page.to_prometheus(text);
  CHECK(text == "before\n" + page.to_prometheus());
  CHECK(page.problem().empty());
}

TEST_CASE("metrics: values are spelled as Prometheus wants, in every locale") {
  ww::metrics_page page;
  auto const value = page.gauge("v", "");
  auto const text_of = [&](double x) {
    value.set(x);
    std::string const text = page.to_prometheus();
    return text.substr(text.find("\nv ") + 3, text.size() - text.find("\nv ") - 4);
  };
  CHECK(text_of(std::nan("")) == "NaN");
  CHECK(text_of(-std::nan("")) == "NaN");
  CHECK(text_of(HUGE_VAL) == "+Inf");
  CHECK(text_of(-HUGE_VAL) == "-Inf");
  CHECK(text_of(-0.0) == "-0");
  CHECK(text_of(9007199254740992.0) == "9007199254740992");
  bool const comma = std::setlocale(LC_ALL, "de_DE.UTF-8") != nullptr;
  INFO("comma locale installed: " << comma);
  for (double const x : {0.1, 1e-300, 1.7976931348623157e308, 4.9e-324, 1e22, -123456.789}) {
    std::string const text = text_of(x);
    CHECK(text.find(',') == std::string::npos);
    std::setlocale(LC_ALL, "C");
    CHECK(std::strtod(text.c_str(), nullptr) == x);
    if (comma) std::setlocale(LC_ALL, "de_DE.UTF-8");
  }
  std::setlocale(LC_ALL, "C");
}

TEST_CASE("metrics: a histogram's bucket is the first whose bound is not below the value") {
  std::vector<std::vector<double>> const sets{{0.0},
                                              {-1, 0, 1},
                                              {-0.0, 1e-310},
                                              {1, 1.0000000000000002, 1.1, 1.2, 1.24, 1.26},
                                              {-1e308, -2, -1.99, 3, 1e308},
                                              {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1, 10}};
  for (auto const& bounds : sets) {
    std::vector<double> values{HUGE_VAL, -HUGE_VAL, 0.0, -0.0, 5e-324, -5e-324, 1e300, -1e300};
    for (double const bound : bounds) {
      for (double const near : {bound, std::nextafter(bound, HUGE_VAL),
                                std::nextafter(bound, -HUGE_VAL), bound * 1.3, bound * 0.7}) {
        values.push_back(near);
      }
    }
    for (double const value : values) {
      ww::metrics_page page;
      page.histogram("h", "", bounds).observe(value);
      std::string const text = page.to_prometheus();
      std::string expected;
      for (double const bound : bounds) expected += value <= bound ? '1' : '0';
      std::string found;
      for (std::size_t at = text.find("le="); at != std::string::npos;
           at = text.find("le=", at + 1)) {
        found += text[text.find("} ", at) + 2];
      }
      INFO(value << " in\n" << text);
      CHECK(found == expected + '1');
    }
  }
  ww::metrics_page page;
  auto const h = page.histogram("h", "", {1, 2});
  h.observe(std::copysign(std::nan(""), GENERATE(1.0, -1.0)));
  CHECK_THAT(page.to_prometheus(), contains("h_bucket{le=\"2\"} 0\nh_bucket{le=\"+Inf\"} 1\n"
                                            "h_sum NaN\nh_count 1\n"));
}

TEST_CASE("metrics: what Prometheus would refuse is refused, with value, rule and remedy") {
  ww::metrics_page page{2};
  auto const refused = [](auto&& call, char const* why) {
    CHECK_THROWS_WITH(call(), contains(why));
    CHECK_THROWS_WITH(call(), contains("metrics_test.cpp"));
  };
  static_cast<void>(page.counter("a_total", "h"));
  std::string const before = page.to_prometheus();
  for (char const* name : {"", "1a", "a-b", "a b", "é", "a\n", static_cast<char const*>(nullptr)}) {
    refused([&] { page.counter(name, "h"); }, "replace the others by _");
  }
  for (char const* label : {"", "1a", "a:b", "__a", "a b"}) {
    refused([&] { page.gauge("g", "h", {{label, "v"}}); }, "the label");
  }
  refused([&] { page.counter("a_total", "h"); }, "'a_total ' is there already");
  refused([&] { page.gauge("a_total", "h"); }, "'a_total' would have lines of the counter");
  refused([&] { page.gauge("g", "h", {{"x", "1"}, {"x", "2"}}); }, "given twice");
  refused([&] { page.histogram("h", "h", {1}, {{"le", "1"}}); }, "the bound of a histogram");
  for (auto const& bounds :
       {std::vector<double>{}, {1, 1}, {2, 1}, {1, HUGE_VAL}, {std::nan("")}}) {
    refused([&] { page.histogram("h", "h", bounds); }, "finite numbers in rising order");
  }
  refused([&] { page.histogram("h", "h", std::vector<double>(129)); }, "the 129 bounds of 'h'");
  CHECK(page.to_prometheus() == before);
  static_cast<void>(page.histogram("lat", "h", {1}));
  refused([&] { page.counter("lat_sum", "h"); }, "lines of the histogram 'lat'");
  static_cast<void>(page.gauge("d_count", "h"));
  refused([&] { page.histogram("d", "h", {1}); }, "lines of the gauge 'd_count'");
  static_cast<void>(page.counter("a_total", "h", {{"u", "1"}}));
  refused([&] { page.counter("a_total", "h", {{"u", "2"}}); }, "max_series is 2");
  refused([&] { ww::metrics_page{0}; }, "max_series is 0");
}

TEST_CASE("metrics: sources of the library and of users") {
  ww::metrics_page page;
  ww::memory_pool pool{ww::device_id{0}};
  ww::pinned_pool pinned;
  ww::graph_cache graphs;
  ww::step_timer steps;
  users::queue first;
  users::queue second;
  first.now = {3, 0.5};
  page.add("pool", pool);
  page.add("pinned", pinned);
  page.add("graphs", graphs);
  page.add("train", steps);
  page.add("queue", first, {{"shard", "0"}});
  page.add("queue", second, {{"shard", "1"}});
  ww::stream const stream;
  void* const block = pool.allocate(stream, 1000);
  second.now = {4, -1};
  std::string const text = page.to_prometheus();
  CHECK_THAT(text, contains("pool_live_bytes 1024\n"));
  CHECK_THAT(text, contains("\npool_allocations_total 1\n"));
  CHECK_THAT(text, contains("\ntrain_slowdown_ratio NaN\n"));
  CHECK_THAT(text,
             contains("# HELP queue_waiting Waiting \"requests\".\n# TYPE queue_waiting gauge\n"
                      "queue_waiting{shard=\"0\"} 3\nqueue_waiting{shard=\"1\"} 4\n"));
  CHECK_THAT(text, contains("queue_oldest_seconds{shard=\"1\",kind=\"a\\\\b\"} -1\n"));
  pool.deallocate(stream, block, 1000);
  CHECK(page.remove(first));
  CHECK_FALSE(page.remove(first));
  CHECK_THAT(page.to_prometheus(), !contains("shard=\"0\""));
  page.add("queue", first, {{"shard", "0"}});
  CHECK_THROWS_WITH(page.add("queue", first, {{"shard", "0"}}), contains("is there already"));
  CHECK_THROWS_WITH(page.add("a b", second), contains("the source 'a b'"));
  CHECK_THAT(page.to_prometheus(), contains("queue_waiting{shard=\"0\"} 3\n"));
  CHECK(page.problem().empty());
}

TEST_CASE("metrics: what a source does wrong later is left out, and told") {
  ww::metrics_page page{3};
  users::scripted source;
  source.now = {{"a", "b"}, {"x"}};
  page.add("s", source);
  CHECK_THAT(page.to_prometheus(), contains("s_a 1\n") && contains("s_by_key{key=\"x\"} 2\n"));
  std::string part = "s_b 1\n";
  if (GENERATE(false, true)) {
    source.now = {{"b"}, {"z", "y", "x", "1", "2"}};  // another order, and too many
    part +=
        "# HELP s_by_key k\n# TYPE s_by_key gauge\ns_by_key{key=\"x\"} 2\ns_by_key{key=\"z\"} 2\n"
        "s_by_key{key=\"y\"} 2\n";
    CHECK_THAT(page.to_prometheus(), contains(part) && !contains("s_a 1"));
    CHECK_THAT(page.problem(), contains("max_series is 3"));
  } else {
    source.now.names = {"b", "c-d", "b"};
    CHECK_THAT(page.to_prometheus(), contains(part) && !contains("c-d"));
    CHECK_THAT(page.problem(), contains("'s_c-d'") && contains("metrics_test.cpp"));
  }
  users::scripted twice;
  twice.now.names = {"a", "a"};
  std::string const before = page.to_prometheus();
  CHECK_THROWS_WITH(page.add("t", twice), contains("writes 't_a ' twice"));
  CHECK(page.to_prometheus() == before);
  source.fails = true;
  static_cast<void>(page.counter("other_total", ""));
  CHECK_THAT(page.to_prometheus(), contains("other_total 0\n") && !contains("s_b 1"));
}

TEST_CASE("metrics: no allocation on the paths that repeat, and none lost where memory is") {
  ww::metrics_page page;
  users::queue source;
  page.add("queue", source);
  auto const counter = page.counter("c_total", "");
  auto const histogram = page.histogram("h", "", {1, 2});
  std::string text = page.to_prometheus() + "some room";
  long const before = metrics_allocations;
  counter.add();
  histogram.observe(1.5);
  for (int i = 0; i < 3; ++i) {
    text.clear();
    page.to_prometheus(text);
  }
  CHECK(metrics_allocations == before);
  for (bool const is_source : {false, true}) {
    int failures = 0;
    for (bool done = false; !done; ++failures) {
      std::string const was = page.to_prometheus();
      users::queue another;
      metrics_allocations_left = failures;
      try {
        if (is_source) page.add("another", another);
        if (!is_source) static_cast<void>(page.histogram("later", "h", {1, 2}, {{"a", "b"}}));
        done = true;
      } catch (std::bad_alloc const&) {
      }
      metrics_allocations_left = -1;
      CHECK((page.to_prometheus() == was) != done);
      static_cast<void>(page.remove(another));
    }
    CHECK((failures > 5 || !COUNTS));
  }
}

TEST_CASE("metrics: counts are exact with more threads than rows, and texts consistent") {
  ww::metrics_page page;
  auto const counter = page.counter("c_total", "");
  auto const histogram = page.histogram("h", "", {0.5, 1.5, 2.5});
  constexpr int each = 20000;
  constexpr int many = 200;
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::thread reader{[&] {
    std::uint64_t last = 0;
    for (int i = 0; !stop || i < 2; ++i) {
      std::string const text = page.to_prometheus();
      auto const number = [&text](char const* of) {
        std::size_t const at = text.find(of);
        return std::strtoull(text.c_str() + at + std::strlen(of), nullptr, 10);
      };
      std::uint64_t const count = number("\nh_count ");
      bool const rising = number("le=\"0.5\"} ") <= number("le=\"1.5\"} ") &&
                          number("le=\"2.5\"} ") <= number("le=\"+Inf\"} ");
      if (number("le=\"+Inf\"} ") != count || !rising || number("\nc_total ") < last) ++wrong;
      last = number("\nc_total ");
      static_cast<void>(page.gauge(("g" + std::to_string(i)).c_str(), ""));
    }
  }};
  std::vector<std::thread> threads;  // all alive at once
  std::atomic<int> ready{0};
  for (int t = 0; t < many; ++t) {
    threads.emplace_back([&, t] {
      ++ready;
      while (ready != many) std::this_thread::yield();
      for (int i = 0; i < each; ++i) {
        counter.add(2);
        histogram.observe(t % 4);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int t = 0; t < 300; ++t) std::thread{[&] { counter.add(); }}.join();  // one after the other
  stop = true;
  reader.join();
  CHECK(wrong == 0);
  CHECK(counter.value() == 2ULL * many * each + 300);
  CHECK(histogram.count() == 1ULL * many * each);
  CHECK_THAT(page.to_prometheus(),
             contains("\nh_sum " + std::to_string(many / 4 * 6 * each) + "\n"));
}
