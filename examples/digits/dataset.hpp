// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Reads the handwritten digits, and splits them into a training and a test part.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <numeric>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace digits {

inline constexpr std::size_t image_side = 8;
inline constexpr std::size_t image_pixels = image_side * image_side;
inline constexpr std::size_t class_count = 10;
inline constexpr std::size_t image_count = 1797;
inline constexpr int pixel_max = 16;

/// A data file that is missing, short or malformed; the text begins with "file:line:" or "file:".
struct data_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// All images, in the file's order.
struct dataset {
  std::vector<float> pixels;         ///< image_count x image_pixels, row-major, 0 to 1
  std::vector<std::int32_t> labels;  ///< image_count, 0 to 9
};

namespace detail {

[[noreturn]] inline void bad_line(std::string const& path, std::size_t line,
                                  std::string const& text) {
  throw data_error{path + ':' + std::to_string(line) + ": " + text};
}

// A field for an error message: control characters masked, long fields cut off.
inline std::string quoted(std::string_view field) {
  constexpr std::size_t longest = 20;
  std::string text{'"'};
  for (char const c : field.substr(0, longest)) text += (c >= ' ' && c <= '~') ? c : '?';
  return text + (field.size() > longest ? "...\"" : "\"");
}

// An unsigned decimal number of at most `limit` (below 1,000), or -1.
inline int parse_number(std::string_view field, int limit) {
  if (field.empty() || field.size() > 3) return -1;
  int value = 0;
  for (char const c : field) {
    if (c < '0' || c > '9') return -1;
    value = value * 10 + (c - '0');
  }
  return value <= limit ? value : -1;
}

inline void parse_line(std::string const& path, std::size_t line, std::string_view text,
                       dataset& into) {
  std::size_t columns = 1;
  for (char const c : text) columns += c == ',' ? 1U : 0U;
  if (columns != image_pixels + 1) {
    bad_line(path, line,
             "expected 65 columns (64 pixels and a label), found " + std::to_string(columns));
  }
  for (std::size_t column = 0; column <= image_pixels; ++column) {
    std::size_t const end = (std::min)(text.find(','), text.size());
    std::string_view const field = text.substr(0, end);
    bool const is_label = column == image_pixels;
    int const value = parse_number(field, is_label ? int{class_count} - 1 : pixel_max);
    if (value < 0) {
      bad_line(path, line,
               "column " + std::to_string(column + 1) + ": expected a " +
                   (is_label ? "label of 0 to 9" : "pixel of 0 to 16") + ", found " +
                   quoted(field));
    }
    if (is_label) {
      into.labels.push_back(value);
    } else {
      into.pixels.push_back(static_cast<float>(value) / float{pixel_max});
      text.remove_prefix(end + 1);
    }
  }
}

}  // namespace detail

/// Reads and checks a file of 1,797 lines of 64 pixels (0 to 16) and a label (0 to 9).
/// @param path  a CSV file without a header; lines may end in CR LF
/// @throws data_error  naming the file, and the line if there is one
inline dataset read_dataset(std::string const& path) {
  errno = 0;
  std::ifstream file{path, std::ios::binary};
  if (!file) {
    throw data_error{
        path + ": cannot be opened: " + (errno != 0 ? std::strerror(errno) : "unknown reason")};
  }
  dataset data;
  data.pixels.reserve(image_count * image_pixels);
  data.labels.reserve(image_count);
  std::string text;
  std::size_t line = 0;
  while (std::getline(file, text)) {
    ++line;
    if (line > image_count) {
      detail::bad_line(path, line, "expected 1,797 lines, but here is one more");
    }
    if (!text.empty() && text.back() == '\r') text.pop_back();
    detail::parse_line(path, line, text, data);
  }
  if (file.bad() || (line == 0 && errno != 0)) {
    throw data_error{path +
                     ": cannot be read: " + (errno != 0 ? std::strerror(errno) : "unknown reason")};
  }
  if (line < image_count) {
    detail::bad_line(path, line + 1,
                     "the file ends after " + std::to_string(line) + " of 1,797 images");
  }
  return data;
}

/// A random number generator (SplitMix64, Steele et al., OOPSLA 2014): the same numbers for a seed
/// on every platform, unlike the distributions of <random>.
class random {
 public:
  explicit random(std::uint64_t seed) noexcept : state_{seed} {}
  std::uint64_t next() noexcept {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31U);
  }
  /// @return a number in [0, 1)
  float uniform() noexcept { return static_cast<float>(next() >> 40U) * 0x1p-24F; }

  /// Shuffles the elements (Fisher-Yates).
  template <class T>
  void shuffle(std::vector<T>& values) noexcept {
    for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[next() % i]);
  }

 private:
  std::uint64_t state_;
};

/// The indices of the images for training, and of the fifth that is held out for the test.
struct split {
  std::vector<std::int32_t> training;
  std::vector<std::int32_t> test;
};

/// Makes a random split.
inline split split_fifth(std::size_t images, random& draw) {
  std::vector<std::int32_t> order(images);
  std::iota(order.begin(), order.end(), 0);
  draw.shuffle(order);
  auto const cut = order.begin() + static_cast<std::ptrdiff_t>(images / 5);
  return {{cut, order.end()}, {order.begin(), cut}};
}

}  // namespace digits
