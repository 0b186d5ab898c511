// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// More than 2^32 elements; needs about 9 GB of device memory and says so where there is less.
#include <warpwright/kernel.hpp>
#include <warpwright/kernel/reduce_rows.hpp>

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

}  // namespace

// Multiples of 4,099, the length of a row.
TEST_CASE("sizes around 2^31") {
  check_size(4099U * std::size_t{523904});  // just below
  check_size(4099U * std::size_t{523905});  // just above
}

TEST_CASE("sizes past 2^32") { check_size(4099U * std::size_t{1047900}); }

TEST_CASE("reductions of sizes past 2^32") {
  check_reduction(std::size_t{1} << 20U, 4099);
  check_reduction(3, std::size_t{1} << 31U);
}
