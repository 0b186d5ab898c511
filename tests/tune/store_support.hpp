// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What the tests of the tuning store share: folders, files, records and child processes.
#pragma once

#include <warpwright/tune/detail/store/store_file.hpp>
#include <warpwright/tune/detail/store/store_line.hpp>
#include <warpwright/tune/tuning_store.hpp>

#include <dirent.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <set>
#include <string>

#include "support/catch.hpp"

namespace test_support {

// An empty folder that is removed with what it holds; in memory where `parent` can be.
class store_folder {
 public:
  explicit store_folder(char const* parent = nullptr) {
    if (parent == nullptr || access(parent, W_OK) != 0) parent = std::getenv("TMPDIR");
    path_ = std::string{parent != nullptr ? parent : "/tmp"} + "/warpwright_store_XXXXXX";
    REQUIRE(mkdtemp(&path_[0]) != nullptr);
  }
  ~store_folder() { remove(path_); }
  store_folder(store_folder const&) = delete;
  store_folder& operator=(store_folder const&) = delete;
  [[nodiscard]] std::string const& path() const { return path_; }
  [[nodiscard]] std::string file() const { return path_ + "/store.txt"; }
  [[nodiscard]] std::set<std::string> names() const { return names_in(path_); }

 private:
  static std::set<std::string> names_in(std::string const& path) {
    std::set<std::string> all;
    DIR* const listing = opendir(path.c_str());
    while (dirent const* const entry = listing == nullptr ? nullptr : readdir(listing)) {
      if (std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0) {
        all.insert(entry->d_name);
      }
    }
    if (listing != nullptr) closedir(listing);
    return all;
  }
  static void remove(std::string const& path) {
    struct stat status {};
    if (lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) {
      chmod(path.c_str(), 0700);
      for (std::string const& name : names_in(path)) remove(path + "/" + name);
    }
    std::remove(path.c_str());
  }

  std::string path_;
};

inline std::string content(std::string const& path) {
  std::string all;
  std::FILE* const file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) return "missing";
  char part[4096];
  for (std::size_t got = 1; got != 0;) {
    got = std::fread(part, 1, sizeof part, file);
    all.append(part, got);
  }
  std::fclose(file);
  return all;
}

inline void write(std::string const& path, std::string const& text) {
  std::FILE* const file = std::fopen(path.c_str(), "wb");
  REQUIRE(file != nullptr);
  REQUIRE(std::fwrite(text.data(), 1, text.size(), file) == text.size());
  REQUIRE(std::fclose(file) == 0);
}

inline warpwright::tuning_key make_key(std::string const& tag = "resnet50") {
  warpwright::tuning_key key;
  key.tag = tag;
  key.device = "NVIDIA H100 80GB HBM3";
  key.objective = "throughput, p99 within 5 ms";
  key.memory_cap_bytes = std::size_t{2} << 30;
  key.device_memory_bytes = 85029158912;
  key.driver_version = "13.0";
  key.runtime_version = "12.8";
  key.library_version = "0.1.0";
  return key;
}

inline warpwright::tuning_record make_record(std::string const& tag = "resnet50",
                                             std::size_t batch = 256) {
  warpwright::tuning_record record;
  record.key = make_key(tag);
  record.batch = batch;
  record.items_per_second = 81234.5;
  record.latency_median_seconds = 0.00315;
  record.latency_p99_seconds = 0.0041;
  record.memory_bytes = 1234567890;
  record.points = {{1, 0.0001, 0.0002, 1000}, {64, 0.00125, 0.0015, 64000}, {256, 0.00315, 0.0, 0}};
  record.fields = {{"algorithm", "direct"}, {"note", "two words"}};
  record.date = "2026-11-23T20:44:07Z";
  return record;
}

inline bool same_keys(warpwright::tuning_key const& a, warpwright::tuning_key const& b) {
  return a.kind == b.kind && a.tag == b.tag && a.device == b.device &&
         a.mig_profile == b.mig_profile && a.objective == b.objective &&
         a.memory_cap_bytes == b.memory_cap_bytes &&
         a.device_memory_bytes == b.device_memory_bytes && a.driver_version == b.driver_version &&
         a.runtime_version == b.runtime_version && a.library_version == b.library_version;
}

// Whether all values are equal, and the numbers bit by bit.
inline bool same_records(warpwright::tuning_record const& a, warpwright::tuning_record const& b) {
  auto const same_bits = [](double x, double y) { return std::memcmp(&x, &y, sizeof x) == 0; };
  bool same = same_keys(a.key, b.key) && a.batch == b.batch &&
              same_bits(a.items_per_second, b.items_per_second) &&
              same_bits(a.latency_median_seconds, b.latency_median_seconds) &&
              same_bits(a.latency_p99_seconds, b.latency_p99_seconds) &&
              a.memory_bytes == b.memory_bytes && a.points.size() == b.points.size() &&
              a.fields.size() == b.fields.size() && a.date == b.date;
  for (std::size_t i = 0; same && i < a.points.size(); ++i) {
    same = a.points[i].batch == b.points[i].batch &&
           same_bits(a.points[i].median_seconds, b.points[i].median_seconds) &&
           same_bits(a.points[i].p99_seconds, b.points[i].p99_seconds) &&
           a.points[i].memory_bytes == b.points[i].memory_bytes;
  }
  for (std::size_t i = 0; same && i < a.fields.size(); ++i) {
    same = a.fields[i].name == b.fields[i].name && a.fields[i].value == b.fields[i].value;
  }
  return same;
}

// Runs `call` in a child process, which does not return. @return its process id
template <class Call>
pid_t start_child(Call&& call) {
  std::fflush(nullptr);
  pid_t const child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    int code = 1;
    try {
      code = call();
    } catch (std::exception const& error) {
      std::fprintf(stderr, "in a child process: %s\n", error.what());
    }
    _exit(code);
  }
  return child;
}

// @return the exit status, or -signal
inline int wait_for(pid_t child) {
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace test_support
