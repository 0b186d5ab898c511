// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Matrices and tables past 2^31 and 2^32 elements in what works on rows: the first, some and the
// last rows are followed by hand. Needs up to 9 GB of device memory and says so where there is
// less.
#include <warpwright/kernel.hpp>
#include <warpwright/kernel/indices.hpp>
#include <warpwright/kernel/reduce_matrix.hpp>
#include <warpwright/kernel/row_gradients.hpp>
#include <warpwright/kernel/rows.hpp>
#include <warpwright/kernel/top_k.hpp>
#include <warpwright/memory/pool.hpp>

#include <algorithm>

#include "kernel/support.hpp"
#include "support/catch.hpp"
#include "support/device_memory.hpp"

namespace ew = warpwright::ew;
namespace ww = warpwright;
using test_support::device_array;

namespace {

constexpr std::size_t rows = (std::size_t{1} << 20U) + 9, cols = 4099, n = rows * cols;
std::vector<std::size_t> const some = {0, 1, rows / 2, rows - 2, rows - 1};

bool has_room(std::size_t bytes) {
  std::size_t free_bytes = 0, total_bytes = 0;
  ww::check(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
  if (free_bytes >= bytes + (std::size_t{1} << 30U)) return true;
  WARN("skipped: " << bytes << " bytes and 1 GiB are needed, free are " << free_bytes);
  return false;
}
WARPWRIGHT_HOST_DEVICE signed char pattern(std::uint64_t i) {
  return static_cast<signed char>((i * 0x9e3779b97f4a7c15U) >> 56U);
}
struct pattern_of {
  WARPWRIGHT_HOST_DEVICE signed char operator()(std::uint64_t i) const { return pattern(i); }
};
std::vector<int> row_of_pattern(std::size_t r) {
  std::vector<int> x(cols);
  for (std::size_t c = 0; c < cols; ++c) x[c] = pattern(r * cols + c);
  return x;
}
template <class T>
std::vector<T> elements(ww::stream_ref s, T const* data, std::size_t first, std::size_t count) {
  std::vector<T> x(count);
  s.synchronize();
  ww::check(cudaMemcpy(x.data(), data + first, count * sizeof(T), cudaMemcpyDeviceToHost),
            "cudaMemcpy");
  return x;
}

struct matrix {
  ww::stream s;
  ww::memory_pool pool{ww::current_device()};
  device_array<signed char> x{n};
  matrix() { ew::run(s, ew::out(x.data(), n) = ew::map(pattern_of{}, ew::index())); }
  auto in() const { return ew::in(static_cast<signed char const*>(x.data()), n); }
};

}  // namespace

TEST_CASE("the largest elements of rows past 2^32") {
  if (!has_room(n + rows * 24)) return;
  matrix m;
  device_array<signed char> values{rows * 3};
  device_array<std::int32_t> columns{rows * 3};
  ew::top_k(m.s, m.pool, {rows, cols}, 3, m.in(), values.data(), columns.data());
  for (std::size_t const r : some) {
    auto const x = row_of_pattern(r);
    auto const got = elements(m.s, columns.data(), r * 3, 3);
    auto const value = elements(m.s, values.data(), r * 3, 3);
    auto const best = std::max_element(x.begin(), x.end());
    CAPTURE(r);
    CHECK(got[0] == best - x.begin());
    for (std::size_t k = 0; k < 3; ++k) CHECK(value[k] == x[static_cast<std::size_t>(got[k])]);
    CHECK(std::count_if(x.begin(), x.end(), [&](int v) { return v > value[2]; }) <= 2);
  }
}

TEST_CASE("gradients of rows past 2^32, with sums of rows and of columns") {
  if (!has_room(2 * n)) return;
  matrix m;
  device_array<signed char> y{n};
  device_array<std::int64_t> sums{cols};
  device_array<std::int64_t> expected{cols};
  auto const x = ew::once(m.in());
  auto const mean = ew::row_mean(x);
  ew::run_row_gradients(m.s, m.pool, {rows, cols},
                        ew::out(y.data(), n) = ew::where(mean < 0.0F, x, ew::cast<int>(-1 - x)),
                        ew::to(sums.data()) = ew::column_sum(x));
  ew::reduce_cols(m.s, m.pool, {rows, cols}, ew::to(expected.data()) = ew::sum(m.in()));
  CHECK(sums.fetch(m.s) == expected.fetch(m.s));
  for (std::size_t const r : some) {
    auto const of_row = row_of_pattern(r);
    auto const got = elements(m.s, y.data(), r * cols, cols);
    int total = 0, wrong = 0;
    for (int const v : of_row) total += v;
    for (std::size_t c = 0; c < cols; ++c) wrong += got[c] != (total < 0 ? of_row[c] : ~of_row[c]);
    CAPTURE(r, total);
    CHECK(wrong == 0);
  }
}

TEST_CASE("rows past 2^32 with lengths of their own, and quantised") {
  if (!has_room(2 * n + rows * 16)) return;
  matrix m;
  device_array<signed char> y{n};
  device_array<float> scales{rows};
  device_array<std::int64_t> sums{rows};
  device_array<std::uint32_t> lengths{rows};
  ew::run(m.s, ew::out(lengths.data(), rows) = ew::cast<std::uint32_t>(ew::index() * 7919U % cols));
  ew::reduce_rows(m.s, ew::ragged_shape{{rows, cols}, lengths.data()},
                  ew::to(sums.data()) = ew::sum(m.in()));
  auto const q = ew::quantize<std::int8_t>(ew::cast<float>(m.in()));
  ew::run_rows(m.s, {rows, cols}, ew::out(y.data(), n) = q,
               ew::out(scales.data(), rows) = q.scale());
  for (std::size_t const r : some) {
    auto const x = row_of_pattern(r);
    auto const got = elements(m.s, y.data(), r * cols, cols);
    float const scale = elements(m.s, scales.data(), r, 1)[0];
    std::int64_t total = 0;
    int wrong = 0;
    for (std::size_t c = 0; c < cols; ++c) {
      if (c < r * 7919U % cols) total += x[c];
      float const difference = static_cast<float>(got[c]) * scale - static_cast<float>(x[c]);
      wrong += std::abs(difference) > 0.51F * scale;
    }
    CAPTURE(r, scale);
    CHECK(elements(m.s, sums.data(), r, 1)[0] == total);
    CHECK(wrong == 0);
  }
}

TEST_CASE("tables past 2^32 elements are read, written and added to by index") {
  constexpr std::size_t table_rows = (std::size_t{1} << 31U) / cols + 5, words = table_rows * cols;
  if (!has_room(words * 4)) return;
  matrix m;
  std::vector<std::int64_t> const at = {static_cast<std::int64_t>(rows) - 1, 0, rows / 2};
  device_array<std::int64_t> index{at};
  device_array<signed char> y{at.size() * cols};
  ew::run(m.s, ew::out(y.data(), y.size()) = ew::row_at(m.in(), ew::col(index.data(), cols)));
  ew::run(m.s, ew::out_at(m.x.data(), n, y.size(), ew::col(index.data(), cols)) = 7);
  for (std::size_t k = 0; k < at.size(); ++k) {
    auto const r = static_cast<std::size_t>(at[k]);
    auto const x = row_of_pattern(r);
    CAPTURE(r);
    auto const got = elements(m.s, y.data(), k * cols, cols);
    CHECK(std::equal(x.begin(), x.end(), got.begin()));
    CHECK(elements(m.s, m.x.data(), r * cols, cols) == std::vector<signed char>(cols, 7));
  }

  device_array<std::uint32_t> table{words};
  std::vector<std::int64_t> const to = {table_rows - 1, 0, table_rows - 1};
  device_array<std::int64_t> rows_of{to};
  auto const added = to.size() * cols;
  auto const add = [&] {
    return ew::scatter_add(table.data(), words, added, ew::col(rows_of.data(), cols)) =
               ew::cast<std::uint32_t>(ew::index() % cols);
  };
  ew::run(m.s, ew::out(table.data(), words) = 5U);
  ew::run(m.s, add());
  ew::run_in_order(m.s, add());
  for (std::size_t const r : {std::size_t{0}, std::size_t{1}, table_rows - 1}) {
    auto const got = elements(m.s, table.data(), r * cols, cols);
    std::size_t const times = r == 0 ? 2 : (r == 1 ? 0 : 4);
    std::size_t wrong = 0;
    for (std::size_t c = 0; c < cols; ++c) wrong += got[c] != 5 + times * c;
    CAPTURE(r);
    CHECK(wrong == 0);
  }
}
