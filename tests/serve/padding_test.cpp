// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"

#include <warpwright/memory/buffer.hpp>
#include <warpwright/memory/pinned.hpp>
#include <warpwright/serve/padding.hpp>

#include <cstdint>
#include <random>
#include <stdexcept>
#include <vector>

namespace ww = warpwright;

namespace {

struct wide {
  double a, b;
  friend bool operator==(wide const& x, wide const& y) { return x.a == y.a && x.b == y.b; }
};
struct triple {  // 12 bytes
  float a, b, c;
  friend bool operator==(triple const& x, triple const& y) { return x.a == y.a && x.c == y.c; }
};
struct pair {  // aligned to half of its size
  float a, b;
};
template <class T>
T value_of(std::uint64_t i) {
  return static_cast<T>(i);
}
template <>
wide value_of<wide>(std::uint64_t i) {
  return {static_cast<double>(i), -1.0};
}

template <>
triple value_of<triple>(std::uint64_t i) {
  return {static_cast<float>(i), 0.0F, -1.0F};
}

struct fixture {
  ww::memory_pool pool{ww::current_device()};
  ww::stream stream;

  template <class T>
  ww::device_buffer<T> to_device(std::vector<T> const& values) {
    ww::device_buffer<T> buffer{pool, stream, values.size() + 1};
    if (!values.empty()) buffer.copy_from(stream, values.data(), values.size());
    return buffer;
  }
  template <class T>
  std::vector<T> to_host(T const* from, std::size_t n) {
    std::vector<T> values(n);
    if (n == 0) return values;
    ww::check(cudaMemcpyAsync(values.data(), from, n * sizeof(T), cudaMemcpyDeviceToHost, stream),
              "cudaMemcpyAsync");
    stream.synchronize();
    return values;
  }
};

// Pads random rows, at an address `shift` elements past the begin of an allocation, and unpads
// them.
template <class T>
void check_type(fixture& f, std::mt19937& random) {
  for (int round = 0; round < 30; ++round) {
    std::size_t const rows = 1 + random() % 20;
    std::size_t const width = 1 + random() % 70;
    std::size_t const shift = random() % 3;
    CAPTURE(rows, width, shift, sizeof(T));
    std::vector<std::int64_t> offsets{0};
    for (std::size_t r = 0; r < rows; ++r) {
      offsets.push_back(offsets.back() + static_cast<std::int64_t>(random() % (width + 4)));
    }
    std::vector<T> values(static_cast<std::size_t>(offsets.back()));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = value_of<T>(i % 100 + 1);
    T const fill = value_of<T>(0);
    auto packed = f.to_device(values);
    auto at = f.to_device(offsets);
    ww::device_buffer<T> matrix{f.pool, f.stream, rows * width + shift};
    ww::device_buffer<unsigned char> mask{f.pool, f.stream, rows * width + shift};
    ww::packed_rows<T, std::int64_t> const from{packed.data(), at.data()};
    ww::padded_rows<T> const to{matrix.data() + shift, width};
    ww::pad_rows(f.stream, from, to, rows, fill, mask.data() + shift);
    auto const got = f.to_host(to.elements, rows * width);
    auto const valid = f.to_host(mask.data() + shift, rows * width);
    ww::device_buffer<T> back{f.pool, f.stream, values.size() + 1};
    back.copy_from(f.stream, packed.data(), values.size() + 1);
    ww::unpad_rows(f.stream, to, ww::packed_rows<T, std::int64_t>{back.data(), at.data()}, rows);
    auto const unpadded = f.to_host(back.data(), values.size());
    std::size_t wrong = 0;
    for (std::size_t r = 0; r < rows; ++r) {
      auto const begin = static_cast<std::size_t>(offsets[r]);
      std::size_t const length = static_cast<std::size_t>(offsets[r + 1]) - begin;
      for (std::size_t c = 0; c < width; ++c) {
        bool const has = c < length;
        wrong += got[r * width + c] == (has ? values[begin + c] : fill) ? 0U : 1U;
        wrong += valid[r * width + c] == (has ? 1 : 0) ? 0U : 1U;
      }
    }
    for (std::size_t i = 0; i < values.size(); ++i) wrong += unpadded[i] == values[i] ? 0U : 1U;
    REQUIRE(wrong == 0);
  }
}

}  // namespace

TEST_CASE("rows are padded, masked and unpadded, whatever their type, width and alignment") {
  unsigned const seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random{seed};
  fixture f;
  check_type<unsigned char>(f, random);
  check_type<std::int16_t>(f, random);
  check_type<float>(f, random);
  check_type<double>(f, random);
  check_type<wide>(f, random);
  check_type<triple>(f, random);
}

TEST_CASE("elements may lie at addresses that are no multiple of their size") {
  fixture f;
  auto const packed = f.to_device<pair>({{1, 2}, {3, 4}, {5, 6}});
  auto const offsets = f.to_device<std::int32_t>({0, 3});
  ww::device_buffer<float> matrix{f.pool, f.stream, 20};
  auto* const shifted = reinterpret_cast<pair*>(matrix.data() + 1);
  ww::pad_rows(f.stream, ww::packed_rows<pair>{packed.data(), offsets.data()},
               ww::padded_rows<pair>{shifted, 8}, 1, pair{0, 0});
  CHECK(f.to_host(matrix.data() + 1, 7) == std::vector<float>{1, 2, 3, 4, 5, 6, 0});
}

TEST_CASE("rows in memory of their own are padded and packed") {
  fixture f;
  auto const a = f.to_device<int>({1, 2, 3});
  auto const b = f.to_device<int>({4});
  auto const c = f.to_device<int>({5, 6, 7, 8, 9, 10, 11});
  auto const rows = f.to_device<int*>({a.data(), b.data(), c.data()});
  auto const lengths = f.to_device<std::int32_t>({3, 1, 7});
  ww::separate_rows<int> const from{rows.data(), lengths.data()};
  ww::device_buffer<int> matrix{f.pool, f.stream, 12};
  ww::pad_rows(f.stream, from, ww::padded_rows<int>{matrix.data(), 4}, 3, -1);
  CHECK(f.to_host(matrix.data(), 12) ==
        std::vector<int>{1, 2, 3, -1, 4, -1, -1, -1, 5, 6, 7, 8});  // the last row is cut
  auto const offsets = f.to_device<std::int32_t>({0, 3, 4, 11});
  ww::device_buffer<int> packed{f.pool, f.stream, 11};
  ww::pack_rows(f.stream, from, ww::packed_rows<int>{packed.data(), offsets.data()}, 3, 7);
  CHECK(f.to_host(packed.data(), 11) == std::vector<int>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  ww::check(cudaMemsetAsync(packed.data(), 0, packed.size_bytes(), f.stream), "cudaMemsetAsync");
  ww::pack_rows(f.stream, from, ww::packed_rows<int>{packed.data(), offsets.data()}, 3, 2);
  CHECK(f.to_host(packed.data(), 11) == std::vector<int>{1, 2, 0, 4, 5, 6, 0, 0, 0, 0, 0});
}

TEST_CASE("offsets that go back are empty rows; nothing is done for no rows") {
  fixture f;
  auto const values = f.to_device<int>({1, 2, 3});
  auto const offsets = f.to_device<std::int32_t>({2, 0, 3});
  ww::device_buffer<int> matrix{f.pool, f.stream, 8};
  ww::packed_rows<int> const from{values.data(), offsets.data()};
  ww::pad_rows(f.stream, from, ww::padded_rows<int>{matrix.data(), 4}, 2, 9);
  CHECK(f.to_host(matrix.data(), 8) == std::vector<int>{9, 9, 9, 9, 1, 2, 3, 9});
  ww::pad_rows(f.stream, from, ww::padded_rows<int>{nullptr, 0}, 2);
  ww::pad_rows(f.stream, from, ww::padded_rows<int>{nullptr, 4}, 0);
  CHECK_THROWS_AS(ww::pad_rows(f.stream, from, ww::padded_rows<int>{nullptr, 1U << 30U}, 1U << 11U),
                  std::invalid_argument);
}
