// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// More than 2^32 elements; needs about 9 GB of device memory and says so where there is less.
#include <warpwright/kernel.hpp>

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

}  // namespace

// Multiples of 4,099, the length of a row.
TEST_CASE("sizes around 2^31") {
  check_size(4099U * std::size_t{523904});  // just below
  check_size(4099U * std::size_t{523905});  // just above
}

TEST_CASE("sizes past 2^32") { check_size(4099U * std::size_t{1047900}); }
