// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Pictures in host memory: PNG files, a fixed size, and pictures of known content.
#pragma once

#include <png.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace pictures {

inline constexpr std::size_t side = 64;
inline constexpr std::size_t channels = 3;
inline constexpr std::size_t pixels = side * side;
inline constexpr std::size_t picture_bytes = pixels * channels;  ///< of the fixed size

/// Rows of pixels from the top, three bytes each: red, green, blue.
struct picture {
  std::size_t width = 0;
  std::size_t height = 0;
  std::vector<unsigned char> bytes;
};

/// Decodes a file; what is transparent becomes black.
/// @throws std::runtime_error  when it is no PNG file, is broken or cut off, or is too large
inline picture read_png(std::string const& path) {
  constexpr std::size_t most_pixels = std::size_t{1} << 26U;  // a header may claim any size
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  if (png_image_begin_read_from_file(&image, path.c_str()) == 0) {
    throw std::runtime_error{image.message};
  }
  image.format = PNG_FORMAT_RGB;
  picture read;
  try {
    read.width = image.width;
    read.height = image.height;
    if (read.width * read.height > most_pixels) throw std::runtime_error{"more than 2^26 pixels"};
    read.bytes.resize(read.width * read.height * channels);
  } catch (...) {
    png_image_free(&image);
    throw;
  }
  if (png_image_finish_read(&image, nullptr, read.bytes.data(), 0, nullptr) == 0) {
    throw std::runtime_error{image.message};
  }
  return read;
}

/// @throws std::runtime_error  when the file cannot be written
inline void write_png(std::string const& path, picture const& from) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(from.width);
  image.height = static_cast<png_uint_32>(from.height);
  image.format = PNG_FORMAT_RGB;
  if (png_image_write_to_file(&image, path.c_str(), 0, from.bytes.data(), 0, nullptr) == 0) {
    throw std::runtime_error{path + ": " + image.message};
  }
}

/// Resizes to side x side: each pixel is the nearest one of the picture.
/// @param to  picture_bytes bytes
/// @return their sum
inline std::uint64_t resize(picture const& from, unsigned char* to) {
  std::uint64_t sum = 0;
  for (std::size_t y = 0; y < side; ++y) {
    std::size_t const row = (2 * y + 1) * from.height / (2 * side);
    for (std::size_t x = 0; x < side; ++x) {
      std::size_t const column = (2 * x + 1) * from.width / (2 * side);
      unsigned char const* const pixel = from.bytes.data() + (row * from.width + column) * channels;
      for (std::size_t c = 0; c < channels; ++c) {
        *to++ = pixel[c];
        sum += pixel[c];
      }
    }
  }
  return sum;
}

/// Picture `number` of a series: patterns of different sizes.
inline picture make_picture(std::size_t number) {
  picture made;
  made.width = 16 + number * 37 % 300;
  made.height = 16 + number * 53 % 200;
  for (std::size_t y = 0; y < made.height; ++y) {
    for (std::size_t x = 0; x < made.width; ++x) {
      for (std::size_t c = 0; c < channels; ++c) {
        std::size_t const value = x * (number % 5 + 1) + y * (c + 1) + 50 * c + 7 * number;
        made.bytes.push_back(static_cast<unsigned char>(value % 256));
      }
    }
  }
  return made;
}

/// A number that depends on the sums of all pictures and their order.
inline std::uint64_t checksum(std::vector<std::uint64_t> const& sums) {
  std::uint64_t all = 14695981039346656037U;
  for (std::uint64_t const sum : sums) all = (all ^ sum) * 1099511628211U;
  return all;
}

}  // namespace pictures
