// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What the tests of checkpoints share: folders, and a state whose elements tell its step.
#pragma once

#include <warpwright/core/device.hpp>
#include <warpwright/memory.hpp>
#include <warpwright/train/checkpoint.hpp>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <unistd.h>

#include "support/catch.hpp"

namespace test_support {

namespace ww = warpwright;

class folder {
 public:
  folder() {
    std::string name = (std::filesystem::temp_directory_path() / "checkpoint_XXXXXX").string();
    REQUIRE(::mkdtemp(&name[0]) != nullptr);
    root_ = name;
  }
  ~folder() {
    std::error_code ignored;
    std::filesystem::permissions(path(), std::filesystem::perms::owner_all, ignored);
    std::filesystem::remove_all(root_, ignored);
  }
  folder(folder const&) = delete;
  folder& operator=(folder const&) = delete;
  [[nodiscard]] std::string path() const { return root_ + "/run"; }  // not there yet
  // Names, sorted.
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> all;
    std::error_code missing;
    for (auto const& entry : std::filesystem::directory_iterator{path(), missing}) {
      all.push_back(entry.path().filename().string());
    }
    std::sort(all.begin(), all.end());
    return all;
  }
  // The path of the only or newest file with this end.
  [[nodiscard]] std::string newest(std::string const& end) const {
    std::string found;
    for (std::string const& name : names()) {
      if (name.size() > end.size() && name.substr(name.size() - end.size()) == end) found = name;
    }
    return path() + '/' + found;
  }

 private:
  std::string root_;
};

inline std::string content(std::string const& path) {
  std::ifstream file{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{file}, {}};
}
inline void write(std::string const& path, std::string const& text) {
  std::ofstream{path, std::ios::binary} << text;
}

// A state of three tensors, which set() fills by a number.
struct state {
  static constexpr std::size_t elements = 20001;

  ww::stream stream;
  ww::memory_pool pool{ww::current_device()};
  ww::device_buffer<float> weights{pool, stream, elements};
  ww::device_buffer<std::int64_t> count{pool, stream, 3};
  ww::device_buffer<unsigned char> bytes{pool, stream, 7};
  ww::tensor_list list;

  state() {
    list.add("bytes", bytes.data(), 7).add("weights", weights.data(), {3, elements / 3});
    list.add("count", count.data(), 3);
    set(0);
  }
  static std::vector<float> weights_of(std::uint64_t number) {
    std::vector<float> all(elements);
    for (std::size_t i = 0; i < elements; ++i) {
      all[i] = static_cast<float>(number) + static_cast<float>(i % 100) * 0.01F;
    }
    return all;
  }
  void set(std::uint64_t number) {
    std::vector<float> const all = weights_of(number);
    std::int64_t const counts[3] = {static_cast<std::int64_t>(number), 1, 2};
    weights.copy_from(stream, all.data(), elements);
    count.copy_from(stream, counts, 3);
    ww::check(cudaMemsetAsync(bytes.data(), static_cast<int>(number % 256), 7, stream.get()),
              "cudaMemsetAsync");
    stream.synchronize();
  }
  // @return whether all elements are those of set(number)
  [[nodiscard]] bool is(std::uint64_t number) {
    std::vector<float> all(elements);
    std::int64_t counts[3] = {};
    unsigned char some[7] = {};
    weights.copy_to(stream, all.data(), elements);
    count.copy_to(stream, counts, 3);
    bytes.copy_to(stream, some, 7);
    stream.synchronize();
    bool same = all == weights_of(number) && counts[0] == static_cast<std::int64_t>(number);
    for (unsigned char const b : some) same = same && b == number % 256;
    return same && counts[1] == 1 && counts[2] == 2;
  }
};

}  // namespace test_support
