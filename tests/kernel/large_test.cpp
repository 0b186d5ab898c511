// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Around 2^31 and past 2^32 elements, arrays past 4 GiB, and more rows than a grid has blocks for;
// needs up to 13 GB of device memory and says so where there is less.
#include <warpwright/kernel.hpp>
#include <warpwright/kernel/multi_tensor.hpp>
#include <warpwright/kernel/random.hpp>
#include <warpwright/kernel/reduce_matrix.hpp>
#include <warpwright/kernel/rows.hpp>
#include <warpwright/kernel/tensor_norms.hpp>
#include <warpwright/kernel/views.hpp>

#include "kernel/support.hpp"
#include "support/catch.hpp"
#include "support/device_memory.hpp"

namespace ew = warpwright::ew;
namespace ww = warpwright;
using test_support::device_array;

namespace {

WARPWRIGHT_HOST_DEVICE unsigned char pattern(std::uint64_t i) {
  return static_cast<unsigned char>((i * 0x9e3779b97f4a7c15U) >> 56U);
}
struct pattern_of {
  WARPWRIGHT_HOST_DEVICE unsigned char operator()(std::uint64_t i) const { return pattern(i); }
};
struct count_wrong {
  unsigned char const* y;
  unsigned char const* row;
  unsigned long long* wrong;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const {
#if defined(__CUDA_ARCH__)
    auto const expected = static_cast<unsigned char>(pattern(i) / 2 + row[i % 4099]);
    if (y[i] != expected) atomicAdd(wrong, 1ULL);
#else
    static_cast<void>(i);
#endif
  }
};

void check_size(std::size_t n) {
  std::size_t free_bytes = 0, total_bytes = 0;
  ww::check(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
  if (free_bytes < 2 * n + (std::size_t{256} << 20U)) {
    WARN("skipped: " << n << " elements need " << 2 * n << " bytes, free are " << free_bytes);
    return;
  }
  ww::stream s;
  device_array<unsigned char> x{n};
  device_array<unsigned char> y{n};
  device_array<unsigned char> row{kernel_test::small_integers<unsigned char>(4099, 100, 1)};
  device_array<unsigned long long> wrong{std::vector<unsigned long long>{0}};
  ww::check(cudaMemset(y.data(), 0xa5, n), "cudaMemset");
  ww::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");  // no stream waits for cudaMemset
  ew::run(s, ew::out(x.data(), n) = ew::map(pattern_of{}, ew::index()));
  ew::run(s, ew::out(y.data(), n) = ew::in(x.data(), n) / 2 + ew::row(row.data(), 4099));
  ww::for_each_index(s, n, count_wrong{y.data(), row.data(), wrong.data()});
  CAPTURE(n);
  CHECK(wrong.fetch(s)[0] == 0);
}

// Element i of y is the pattern's at the place where the array turned or reversed has i.
struct count_wrong_turned {
  unsigned char const* y;
  std::uint64_t rows;
  std::uint64_t cols;
  bool turned;
  unsigned long long* wrong;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const {
#if defined(__CUDA_ARCH__)
    std::uint64_t const from =
        turned ? i % rows * cols + i / rows : i / cols * cols + (cols - 1 - i % cols);
    if (y[i] != pattern(from)) atomicAdd(wrong, 1ULL);
#else
    static_cast<void>(i);
#endif
  }
};

void check_views(std::size_t rows, std::size_t cols) {
  std::size_t const n = rows * cols;
  std::size_t free_bytes = 0, total_bytes = 0;
  ww::check(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
  if (free_bytes < 2 * n + (std::size_t{256} << 20U)) {
    WARN("skipped: " << n << " elements need " << 2 * n << " bytes, free are " << free_bytes);
    return;
  }
  ww::stream s;
  device_array<unsigned char> x{n};
  device_array<unsigned char> y{n};
  ew::run(s, ew::out(x.data(), n) = ew::map(pattern_of{}, ew::index()));
  auto const whole = ew::array(x.data(), {rows, cols});
  for (bool const turned : {true, false}) {
    device_array<unsigned long long> wrong{std::vector<unsigned long long>{0}};
    CAPTURE(rows, cols, turned);
    ew::run(s, ew::out(y.data(), n) = 165);
    ew::run(s,
            ew::out(y.data(), n) = ew::view(turned ? whole.permuted({1, 0}) : whole.reversed(1)));
    ww::for_each_index(s, n, count_wrong_turned{y.data(), rows, cols, turned, wrong.data()});
    CHECK(wrong.fetch(s)[0] == 0);
  }
}

void check_reduction(std::size_t rows, std::size_t cols) {
  std::size_t const n = rows * cols;
  std::size_t free_bytes = 0, total_bytes = 0;
  ww::check(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
  if (free_bytes < n + 8 * rows + (std::size_t{256} << 20U)) {
    WARN("skipped: " << n << " elements, free are " << free_bytes << " bytes");
    return;
  }
  ww::stream s;
  device_array<unsigned char> memory{std::size_t{1} << 16U};
  auto const w = ew::prepare_workspace(s, memory.data(), memory.size());
  device_array<unsigned char> x{n + 1};
  for (std::size_t offset : {0U, 1U}) {
    ew::run(s, ew::out(x.data() + offset, n) = ew::index() % 251);
    auto const e = ew::in(x.data() + offset, n);
    auto const [sum, last, above] =
        ew::reduce(s, w, n, ew::sum(e), ew::argmax(ew::where(ew::index() == n - 3, 1000, e)),
                   ew::count_if(e == 250));
    std::uint64_t const cycles = n / 251, rest = n % 251;
    CAPTURE(n, offset);
    CHECK(sum == cycles * (251 * 250 / 2) + rest * (rest - (rest != 0 ? 1 : 0)) / 2);
    CHECK((last.index == n - 3 && last.value == 1000));
    CHECK(above == cycles);
    device_array<std::uint64_t> sums{rows};
    device_array<std::uint64_t> totals{1};
    ew::reduce_rows(s, {rows, cols}, ew::to(sums.data()) = ew::sum(e));
    ew::reduce(s, w, rows, ew::to(totals.data()) = ew::sum(ew::in(sums.data(), rows)));
    CHECK(totals.fetch(s)[0] == sum);
  }
}

bool has_room(std::size_t bytes, char const* what) {
  std::size_t free_bytes = 0, total_bytes = 0;
  ww::check(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
  if (free_bytes >= bytes + (std::size_t{256} << 20U)) return true;
  WARN("skipped: " << what << " needs " << bytes << " bytes, free are " << free_bytes);
  return false;
}

// Two outputs of n elements and what stands right beside them.
struct count_wrong_pairs {
  unsigned char const* sum;
  unsigned char const* swapped;
  std::uint64_t n;
  std::uint64_t cols;
  unsigned long long* wrong;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const {
#if defined(__CUDA_ARCH__)
    // Index 0 and n + 1 are the bytes before and after.
    bool const inside = i != 0 && i != n + 1;
    std::uint64_t const k = i - 1;
    auto const expected_sum =
        static_cast<unsigned char>(inside ? pattern(k) / 2 + k / cols % 2 * 3 + 1 : 0xa5);
    auto const expected_swapped = static_cast<unsigned char>(inside ? ~pattern(k) : 0xa5);
    if (sum[i] != expected_sum || swapped[i] != expected_swapped) atomicAdd(wrong, 1ULL);
#else
    static_cast<void>(i);
#endif
  }
};
struct complement {
  WARPWRIGHT_HOST_DEVICE unsigned char operator()(unsigned char v) const {
    return static_cast<unsigned char>(~v);
  }
};
struct column_pattern {
  WARPWRIGHT_HOST_DEVICE unsigned char operator()(std::uint64_t row) const {
    return static_cast<unsigned char>(row % 2 * 3 + 1);
  }
};

// tie() of an expression with a column and of one in place, each off its boundary.
void check_pairs(std::size_t n, std::size_t cols) {
  std::size_t const rows = n / cols;
  if (!has_room(2 * n + rows, "tie() around 2^31")) return;
  ww::stream s;
  device_array<unsigned char> const x{n + 2};  // a byte of poison on both sides
  device_array<unsigned char> const y{n + 2};
  device_array<unsigned char> const column{rows};
  device_array<unsigned long long> const wrong{std::vector<unsigned long long>{0}};
  ww::check(cudaMemset(x.data(), 0xa5, n + 2), "cudaMemset");
  ww::check(cudaMemset(y.data(), 0xa5, n + 2), "cudaMemset");
  ww::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  unsigned char* const in = x.data() + 1;
  ew::run(s, ew::out(in, n) = ew::map(pattern_of{}, ew::index()));
  ew::run(s, ew::out(column.data(), rows) = ew::map(column_pattern{}, ew::index()));
  ew::run(s, ew::tie(ew::out(y.data() + 1, n) = ew::in(in, n) / 2 + ew::col(column.data(), cols),
                     ew::out(in, n) = ew::map(complement{}, ew::in(in, n))));
  ww::for_each_index(s, n + 2, count_wrong_pairs{y.data(), x.data(), n, cols, wrong.data()});
  CAPTURE(n, cols);
  CHECK(wrong.fetch(s)[0] == 0);
}

struct float_pattern {
  WARPWRIGHT_HOST_DEVICE float operator()(std::uint64_t i) const {
    return static_cast<float>(pattern(i));
  }
};
struct count_wrong_floats {
  float const* y;
  unsigned long long* wrong;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const {
#if defined(__CUDA_ARCH__)
    if (y[i] != 2 * static_cast<float>(pattern(i)) + 1) atomicAdd(wrong, 1ULL);
#else
    static_cast<void>(i);
#endif
  }
};

// Arrays of more than 4 GiB: an index that fits 32 bits, an address that does not.
void check_bytes(std::size_t n, std::size_t offset) {
  if (!has_room(8 * (n + offset), "floats past 4 GiB")) return;
  ww::stream s;
  device_array<float> const x{n + offset};
  device_array<float> const y{n};
  device_array<unsigned long long> const wrong{std::vector<unsigned long long>{0}};
  float* const in = x.data() + offset;
  ew::run(s, ew::out(in, n) = ew::map(float_pattern{}, ew::index()));
  ew::run(s, ew::out(y.data(), n) = ew::in(in, n) * 2 + 1);
  ww::for_each_index(s, n, count_wrong_floats{y.data(), wrong.data()});
  CAPTURE(n, offset);
  CHECK(wrong.fetch(s)[0] == 0);
}

struct highest_byte {
  WARPWRIGHT_HOST_DEVICE unsigned char operator()(std::uint32_t bits) const {
    return static_cast<unsigned char>(bits >> 24U);
  }
};
struct count_wrong_draws {
  ew::detail::philox_keys keys;
  unsigned char const* y;
  unsigned long long* wrong;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const {
#if defined(__CUDA_ARCH__)
    std::uint64_t const block = i / 4;
    auto const words = ew::detail::philox_4x32_10(
        {{static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32U), 7U, 0U}},
        keys);
    std::uint32_t const low = i % 2 == 0 ? words.of[0] : words.of[1];
    std::uint32_t const high = i % 2 == 0 ? words.of[2] : words.of[3];
    if (y[i] != (i % 4 < 2 ? low : high) >> 24U) atomicAdd(wrong, 1ULL);
#else
    static_cast<void>(i);
#endif
  }
};

// A vector of 16 draws four blocks of the generator; off its boundary, one more.
void check_random(std::size_t n, std::size_t offset) {
  if (!has_room(n + offset, "random numbers past 2^32")) return;
  ww::stream s;
  device_array<unsigned char> const y{n + offset};
  device_array<unsigned long long> const wrong{std::vector<unsigned long long>{0}};
  std::uint64_t const seed = 0x123456789abcdefU;
  unsigned char* const out = y.data() + offset;
  ew::run(s, ew::out(out, n) = ew::map(highest_byte{}, ew::random_bits(ew::philox{seed, 7})));
  ww::for_each_index(s, n, count_wrong_draws{ew::detail::philox_keys{seed}, out, wrong.data()});
  CAPTURE(n, offset);
  CHECK(wrong.fetch(s)[0] == 0);
}

// The right part of each row has the pattern, the left part is as it was.
struct count_wrong_right {
  unsigned char const* y;
  std::uint64_t left;
  std::uint64_t right;
  unsigned long long* wrong;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const {
#if defined(__CUDA_ARCH__)
    std::uint64_t const row = i / (left + right);
    std::uint64_t const column = i % (left + right);
    unsigned char const expected = column < left ? 0xa5 : pattern(row * right + (column - left));
    if (y[i] != expected) atomicAdd(wrong, 1ULL);
#else
    static_cast<void>(i);
#endif
  }
};

void check_slice(std::size_t rows, std::size_t left, std::size_t right) {
  std::size_t const n = rows * (left + right);
  if (!has_room(n, "a slice written past 4 GiB")) return;
  ww::stream s;
  device_array<unsigned char> const y{n};
  device_array<unsigned long long> const wrong{std::vector<unsigned long long>{0}};
  ww::check(cudaMemset(y.data(), 0xa5, n), "cudaMemset");
  ww::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");  // no stream waits for cudaMemset
  auto const whole = ew::array(y.data(), {rows, left + right});
  ew::run(s, ew::out(whole.sliced(1, left, left + right)) = ew::map(pattern_of{}, ew::index()));
  ww::for_each_index(s, n, count_wrong_right{y.data(), left, right, wrong.data()});
  CAPTURE(rows, left, right);
  CHECK(wrong.fetch(s)[0] == 0);
}

// Written in the order of its memory, so that the reading goes by tiles.
void check_turned_output(std::size_t rows, std::size_t cols) {
  std::size_t const n = rows * cols;
  if (!has_room(2 * n, "a transposed output past 4 GiB")) return;
  ww::stream s;
  device_array<unsigned char> const x{n};
  device_array<unsigned char> const y{n};
  device_array<unsigned long long> const wrong{std::vector<unsigned long long>{0}};
  ew::run(s, ew::out(x.data(), n) = ew::map(pattern_of{}, ew::index()));
  ew::run(s, ew::out(y.data(), n) = 165);
  ew::run(s, ew::out(ew::array(y.data(), {cols, rows}).permuted({1, 0})) =
                 ew::view(ew::array(x.data(), {rows, cols})));
  ww::for_each_index(s, n, count_wrong_turned{y.data(), rows, cols, true, wrong.data()});
  CAPTURE(rows, cols);
  CHECK(wrong.fetch(s)[0] == 0);
}

// Every element of a row is the same small number.
struct row_number {
  std::uint64_t cols;
  WARPWRIGHT_HOST_DEVICE unsigned char operator()(std::uint64_t i) const {
    return static_cast<unsigned char>(i / cols * 7 % 201);
  }
};
struct row_sum {
  std::uint64_t cols;
  WARPWRIGHT_HOST_DEVICE std::uint64_t operator()(std::uint64_t row) const {
    return row * 7 % 201 * cols;
  }
};

// More rows than 2^20 blocks take at once, eight short rows or one long row each: blocks stride.
void check_rows_past_the_grid(std::size_t rows, std::size_t cols) {
  if (!has_room((cols + 8) * rows, "reduce_rows() past 2^20 blocks")) return;
  ww::stream s;
  device_array<unsigned char> const memory{std::size_t{1} << 16U};
  auto const w = ew::prepare_workspace(s, memory.data(), memory.size());
  std::size_t const n = rows * cols;
  device_array<unsigned char> const x{n};
  device_array<std::uint64_t> const sums{rows};
  ew::run(s, ew::out(x.data(), n) = ew::map(row_number{cols}, ew::index()));
  ew::run(s, ew::out(sums.data(), rows) = ~std::uint64_t{0});
  ew::reduce_rows(s, {rows, cols}, ew::to(sums.data()) = ew::sum(ew::in(x.data(), n)));
  auto const expected = ew::map(row_sum{cols}, ew::index());
  std::uint64_t const wrong =
      ew::reduce(s, w, rows, ew::count_if(ew::in(sums.data(), rows) != expected));
  CAPTURE(rows, cols);
  CHECK(wrong == 0);
}

// 1, 2 or 4 by the row, of either sign.
struct row_pattern {
  std::uint64_t cols;
  WARPWRIGHT_HOST_DEVICE signed char operator()(std::uint64_t i) const {
    auto const size = static_cast<signed char>(1U << (i / cols % 3));
    return pattern(i) % 2 != 0 ? size : static_cast<signed char>(-size);
  }
};
struct count_wrong_signs {
  signed char const* y;
  unsigned long long* wrong;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const {
#if defined(__CUDA_ARCH__)
    if (y[i] != (pattern(i) % 2 != 0 ? 1 : -1)) atomicAdd(wrong, 1ULL);
#else
    static_cast<void>(i);
#endif
  }
};

// Each element over its row's root mean square: its sign, exactly.
void check_row_function(std::size_t rows, std::size_t cols) {
  std::size_t const n = rows * cols;
  std::size_t free_bytes = 0, total_bytes = 0;
  ww::check(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
  if (free_bytes < n + (std::size_t{256} << 20U)) {
    WARN("skipped: " << n << " elements, free are " << free_bytes << " bytes");
    return;
  }
  ww::stream s;
  device_array<signed char> x{n + 1};
  device_array<unsigned long long> wrong{std::vector<unsigned long long>{0}};
  for (std::size_t offset : {0U, 1U}) {
    signed char* const data = x.data() + offset;
    ew::run(s, ew::out(data, n) = ew::map(row_pattern{cols}, ew::index()));
    ew::run_rows(
        s, {rows, cols},
        ew::out(data, n) = ew::rms_norm(ew::in(static_cast<signed char const*>(data), n), 0.0));
    ww::for_each_index(s, n, count_wrong_signs{data, wrong.data()});
    CAPTURE(rows, cols, offset);
    CHECK(wrong.fetch(s)[0] == 0);
  }
}

// Column sums, three of them followed by hand.
void check_columns(std::size_t rows, std::size_t cols) {
  std::size_t const n = rows * cols;
  if (!has_room(n + 64 * cols, "a reduction of columns")) return;
  ww::stream s;
  device_array<unsigned char> x{n + 1};
  device_array<std::uint64_t> sums{cols};
  for (std::size_t offset : {0U, 1U}) {
    ew::run(s, ew::out(x.data() + offset, n) = ew::index() % 251);
    auto const goal = ew::to(sums.data()) = ew::sum(ew::in(x.data() + offset, n));
    device_array<uint4> memory{ew::reduce_cols_workspace_bytes({rows, cols}, goal) / 16};
    ew::reduce_cols(s, ew::prepare_workspace(s, memory.data(), memory.size() * 16), {rows, cols},
                    goal);
    auto const got = sums.fetch(s);
    std::uint64_t total = 0;
    for (std::uint64_t const sum : got) total += sum;
    std::uint64_t const rest = n % 251;
    CAPTURE(rows, cols, offset);
    CHECK(total == n / 251 * (251 * 250 / 2) + rest * (rest - (rest != 0 ? 1 : 0)) / 2);
    for (std::size_t c : {std::size_t{0}, cols / 2, cols - 1}) {
      std::uint64_t expected = 0;
      for (std::size_t r = 0; r < rows; ++r) expected += (r * cols + c) % 251;
      CHECK(got[c] == expected);
    }
  }
}

struct add_seven {
  WARPWRIGHT_HOST_DEVICE void operator()(unsigned char& y, unsigned char const& x) const {
    y = static_cast<unsigned char>(x + 7);
  }
};
struct count_wrong_sevens {
  unsigned char const* y;
  unsigned long long* wrong;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const {
#if defined(__CUDA_ARCH__)
    if (y[i] != static_cast<unsigned char>(pattern(i) + 7)) atomicAdd(wrong, 1ULL);
#else
    static_cast<void>(i);
#endif
  }
};

// One tensor of n elements between two of a few.
void check_list(std::size_t n) {
  if (!has_room(2 * n, "a list of tensors")) return;
  ww::stream s;
  device_array<unsigned char> x{n + 1};
  device_array<unsigned char> y{n + 1};
  device_array<unsigned char> few{64};
  for (std::size_t offset : {0U, 1U}) {
    device_array<unsigned long long> wrong{std::vector<unsigned long long>{0}};
    ew::run(s, ew::out(x.data() + offset, n) = ew::map(pattern_of{}, ew::index()));
    ew::run(s, ew::out(y.data(), n + 1) = 165);
    ew::run(s, ew::out(few.data(), 64) = ew::map(pattern_of{}, ew::index()));
    ew::tensor_list<unsigned char, unsigned char const> list;
    list.add(few.data() + 32, few.data(), 16);
    list.add(y.data() + offset, x.data() + offset, n);
    list.add(few.data() + 48, few.data(), 3);
    ew::run_each(s, list, add_seven{});
    ww::for_each_index(s, n, count_wrong_sevens{y.data() + offset, wrong.data()});
    CAPTURE(n, offset);
    CHECK(wrong.fetch(s)[0] == 0);
    CHECK(few.fetch(s)[50] == static_cast<unsigned char>(pattern(2) + 7));
  }
}

// Ones 2^22 elements apart, zeros between: norms are roots of their number.
void check_norms(std::size_t n) {
  if (!has_room(2 * n, "norms")) return;
  ww::stream s;
  device_array<__half> x{n};
  device_array<float> norms{3};
  device_array<unsigned char> memory{std::size_t{1} << 16U};
  auto const w = ew::prepare_workspace(s, memory.data(), memory.size());
  ew::run(s, ew::out(x.data(), n) = ew::where(ew::index() % (1U << 22U) == 0, 1.0F, 0.0F));
  ew::tensor_list<__half const> list;
  list.add(x.data(), n);
  list.add(x.data(), 16);
  ew::norm_each(s, w, list, norms.data());
  ew::global_norm(s, w, list, norms.data() + 2);
  auto const got = norms.fetch(s);
  auto const ones = static_cast<double>((n - 1) / (1U << 22U) + 1);
  CAPTURE(n);
  CHECK(got[0] == static_cast<float>(std::sqrt(ones)));
  CHECK(got[1] == 1.0F);
  CHECK(got[2] == static_cast<float>(std::sqrt(ones + 1)));
}

}  // namespace

// Multiples of 4,099, the length of a row.
TEST_CASE("sizes around 2^31") {
  check_size(4099U * std::size_t{523904});  // just below
  check_size(4099U * std::size_t{523905});  // just above
}

// 2^31 - 1 is prime: one row, or a row an element; 2^31 + 1 is 3 * 715,827,883.
TEST_CASE("two outputs just below and above 2^31, in place and with columns") {
  std::size_t const middle = std::size_t{1} << 31U;
  check_pairs(middle - 1, middle - 1);
  check_pairs(middle, std::size_t{1} << 20U);
  check_pairs(middle + 1, 3);
  check_pairs(middle + 1, 715827883);
}

TEST_CASE("arrays past 4 GiB") {
  check_bytes((std::size_t{1} << 30U) + 5, 0);
  check_bytes((std::size_t{1} << 30U) + 5, 3);
  check_bytes((std::size_t{3} << 29U) + 1, 1);
}

TEST_CASE("more rows than blocks") {
  std::size_t const grid = std::size_t{1} << 20U;
  for (std::size_t rows : {8 * grid - 1, 8 * grid, 8 * grid + 1, 17 * grid + 3}) {  // a warp each
    check_rows_past_the_grid(rows, 3);
  }
  for (std::size_t rows : {grid - 1, grid, grid + 1}) check_rows_past_the_grid(rows, 4115);
}

TEST_CASE("sizes past 2^32") { check_size(4099U * std::size_t{1047900}); }

TEST_CASE("views of sizes past 2^32") {
  check_views(65600, 65600);
  check_views(65537, 65599);
}

TEST_CASE("random numbers of sizes past 2^32") {
  std::size_t const n = (std::size_t{1} << 32U) + 4103;
  check_random(n, 0);
  check_random(n, 1);
}

TEST_CASE("strided outputs past 4 GiB") {
  check_slice(65600, 32800, 32800);  // by vectors
  check_slice(65603, 32803, 32805);  // element by element
  check_slice(5, 3, std::size_t{1} << 30U);
  check_turned_output(65600, 65600);
  check_turned_output(65537, 65599);
}

TEST_CASE("reductions of sizes past 2^32") {
  check_reduction(std::size_t{1} << 20U, 4099);
  check_reduction(3, std::size_t{1} << 31U);
}

TEST_CASE("reductions just below and above 2^31") {
  check_reduction(1, (std::size_t{1} << 31U) - 1);
  check_reduction(3, 715827883);  // 2^31 + 1
}

TEST_CASE("functions of rows of sizes past 2^32") {
  check_row_function(std::size_t{1} << 20U, 4099);
  check_row_function((std::size_t{1} << 32U) / 3 + 5, 3);
  check_row_function((std::size_t{1} << 32U) / 40000 + 5, 40000);
}

TEST_CASE("reductions of columns past 2^32") {
  check_columns(std::size_t{1} << 20U, 4099);
  check_columns((std::size_t{1} << 31U) + 11, 2);
}

TEST_CASE("lists of tensors past 2^32") {
  check_list((std::size_t{1} << 32U) + 4103);
  check_norms((std::size_t{1} << 32U) + 4103);
}
