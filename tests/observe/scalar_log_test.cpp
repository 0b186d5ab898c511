// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/observe/scalar_log.hpp>

#include <observe/python_check.hpp>
#include <support/catch.hpp>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <clocale>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace ww = warpwright;

namespace {

struct directory_of_test {
  directory_of_test() {
    char name[] = "/tmp/warpwright_scalar_log_XXXXXX";
    path = mkdtemp(name);
  }
  ~directory_of_test() { std::filesystem::remove_all(path); }
  std::string path;
};

std::string content_of(std::string const& path) {
  std::ifstream file{path, std::ios::binary};
  std::stringstream content;
  content << file.rdbuf();
  return content.str();
}

template <class Value>
std::string hex_of(Value value) {
  unsigned char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  std::string text;
  for (unsigned char const byte : bytes) {
    text += "0123456789abcdef"[byte / 16];
    text += "0123456789abcdef"[byte % 16];
  }
  return text;
}

}  // namespace

TEST_CASE("scalar_log: readers find every value bit for bit") {
  directory_of_test const directory;
  unsigned const seed = std::random_device{}();
  std::mt19937_64 random{seed};
  INFO("seed " << seed);
  bool const comma = std::setlocale(LC_ALL, "de_DE.UTF-8") != nullptr;
  INFO("comma locale installed: " << comma);
  std::vector<double> values{0.0, -0.0, HUGE_VAL, -HUGE_VAL, 5e-324, -1.7e308, 0.1, 1.0 / 3.0};
  for (int i = 0; i < 300; ++i) {
    std::uint64_t const bits = random();
    double value = 0.0;
    std::memcpy(&value, &bits, sizeof value);
    if (!std::isnan(value)) values.push_back(value);
  }
  std::string events;
  std::string rows;
  std::string events_path;
  {
    ww::scalar_log log = ww::scalar_log::tensorboard(directory.path + "/a/b");
    ww::scalar_log csv = ww::scalar_log::csv(directory.path + "/c/log.csv");
    events_path = log.path();
    std::int64_t step = -3;
    for (double const value : values) {
      std::string const tag =
          "loss/\"é, " + std::string(static_cast<std::size_t>(step + 3) % 300, 'x');
      log.add(tag, step, value);
      csv.add(tag, step, value);
      std::string const key = tag + "|" + std::to_string(step) + "|";
      events += key + hex_of(static_cast<float>(value)) + "\n";
      rows += key + hex_of(value) + "\n";
      step = step < 500 ? step + 1 : std::numeric_limits<std::int64_t>::max();
    }
    log.add("bad \xff", 1, 2.0);
    events += "bad ?|1|" + hex_of(2.0F) + "\n";
    CHECK(log.problem().empty());
    CHECK(csv.flush());
  }
  std::setlocale(LC_ALL, "C");
  CHECK_THAT(events_path, contains(directory.path + "/a/b/events.out.tfevents.1"));
#if defined(WARPWRIGHT_PYTHON3)
  std::string output;
  CHECK(test_support::check_with_python("events", events_path, output));
  CHECK(output == events);
  CHECK(test_support::check_with_python("csv", directory.path + "/c/log.csv", output));
  CHECK(output == rows);
  { ww::scalar_log::csv(directory.path + "/c/log.csv").add("again", 7, std::nan("")); }
  CHECK(test_support::check_with_python("csv", directory.path + "/c/log.csv", output));
  CHECK(output.find("\nagain|7|000000000000f87f\n") != std::string::npos);
#endif
}

TEST_CASE("scalar_log: two logs at once in one directory are two files") {
  directory_of_test const directory;
  ww::scalar_log const first = ww::scalar_log::tensorboard(directory.path);
  ww::scalar_log const second = ww::scalar_log::tensorboard(directory.path);
  CHECK(first.path() != second.path());
}

TEST_CASE("scalar_log: what cannot be written is told at the start, and ends no loop later") {
  directory_of_test const directory;
  { std::ofstream{directory.path + "/file"} << "x"; }
  for (std::string const& path : {directory.path + "/file/below", std::string{"/proc/no/such"}}) {
    CHECK_THROWS_WITH(ww::scalar_log::tensorboard(path), contains(path) &&
                                                             contains("check the path") &&
                                                             contains("scalar_log_test.cpp"));
    CHECK_THROWS_WITH(ww::scalar_log::csv(path + "/x.csv"), contains("cannot be written: "));
  }
  CHECK_THROWS_WITH(ww::scalar_log::csv(directory.path + "/x.csv", -1.0),
                    contains("flush_seconds is -1; give at least 0"));
  CHECK_THROWS_WITH(ww::scalar_log::csv("/dev/full"), contains("free space on the disk"));
}

TEST_CASE("scalar_log: values are flushed when they are old, and not by a child") {
  directory_of_test const directory;
  std::string const path = directory.path + "/x.csv";
  ww::scalar_log lazy = ww::scalar_log::csv(path, 1000.0);
  lazy.add("a", 1, 2.5);
  CHECK(content_of(path) == "wall_time,step,tag,value\n");
  pid_t const child = fork();
  if (child == 0) {
    for (int i = 0; i < 1000; ++i) lazy.add("c", i, 0.5);  // more than the buffer has room for
    static_cast<void>(lazy.flush());
    lazy.~scalar_log();
    _exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  CHECK(status == 0);
  CHECK(content_of(path) == "wall_time,step,tag,value\n");
  lazy.flush();
  CHECK_THAT(content_of(path), contains(",1,\"a\",2.5\n"));
  ww::scalar_log prompt = ww::scalar_log::csv(directory.path + "/y.csv", 0.0);
  prompt.add("b", -1, 0.25);
  CHECK_THAT(content_of(directory.path + "/y.csv"), contains(",-1,\"b\",0.25\n"));
}

TEST_CASE("scalar_log: a write that fails in the middle drops the rest, and says so") {
  directory_of_test const directory;
  std::string const path = directory.path + "/x.csv";
  ww::scalar_log log = ww::scalar_log::csv(path, 0.0);
  log.add("a", 0, 1.0);
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  std::signal(SIGXFSZ, SIG_IGN);  // then writes fail by EFBIG
  rlimit small = before;
  small.rlim_cur = 60;
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  for (int i = 1; i < 6; ++i) log.add("a", i, 1.0);
  REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
  std::signal(SIGXFSZ, SIG_DFL);
  log.add("a", 6, 1.0);
  CHECK_THAT(log.problem(), contains(path) && contains("File too large; check the path"));
  CHECK(log.dropped() == 6);
  CHECK_FALSE(log.flush());
}

TEST_CASE("scalar_log: threads' records are whole") {
  directory_of_test const directory;
  std::string path;
  {
    ww::scalar_log log = ww::scalar_log::tensorboard(directory.path, 0.001);
    path = log.path();
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&log, t] {
        for (int i = 0; i < 500; ++i) log.add("t" + std::to_string(t), i, i);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
#if defined(WARPWRIGHT_PYTHON3)
  std::string output;
  CHECK(test_support::check_with_python("events", path, output));
  std::size_t lines = 0;
  for (char const c : output) lines += c == '\n' ? 1 : 0;
  CHECK(lines == 2000);
#endif
}
