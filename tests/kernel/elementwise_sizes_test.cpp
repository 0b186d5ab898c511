// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Every element once and nothing beside it: all sizes up to 4,096, those around vectors, blocks and
// tiles, and every offset of each of four arrays. Outputs are poisoned, with guards on both sides.

#include <warpwright/kernel.hpp>

#include "kernel/support.hpp"
#include "support/catch.hpp"
#include "support/device_memory.hpp"
#include "support/sanitized.hpp"

namespace ew = warpwright::ew;
namespace ww = warpwright;
using kernel_test::as_double;

namespace {

constexpr std::size_t most_elements = 40000;
constexpr std::size_t most_offset = 16;

struct offsets {
  std::size_t of[4];  // of the output, then of the operands
};

// out = x * 2 + y - z at any size and offsets; the arrays are filled once.
template <class O, class X, class Y, class Z>
class expression {
 public:
  expression()
      : x_{kernel_test::small_integers<X>(length, 30, 1)},
        y_{kernel_test::small_integers<Y>(length, 30, 2)},
        z_{kernel_test::small_integers<Z>(length, 7, 3)},
        dx_{x_},
        dy_{y_},
        dz_{z_},
        out_{length} {
    for (std::size_t k = 0; k < length; ++k) {
      expected_.push_back(as_double(x_[k]));
      expected_y_.push_back(as_double(y_[k]));
      expected_z_.push_back(as_double(z_[k]));
    }
  }

  // Elements of a tile: of a block's full vectors, where the grid is large.
  static constexpr std::size_t tile() {
    using kernel = ew::detail::fused<decltype(assign(nullptr, nullptr, nullptr, nullptr, 0))>;
    return std::size_t{ew::detail::max_block_threads} * kernel::vector * kernel::vectors;
  }

  bool right(std::size_t n, offsets const& at) const {
    O* const out = out_.clear(at.of[0]);
    auto const a =
        assign(out, dx_.data() + at.of[1], dy_.data() + at.of[2], dz_.data() + at.of[3], n);
    kernel_test::evaluate_on(stream_, a);
    if (!out_.intact(n)) return false;
    for (std::size_t i = 0; i < n; ++i) {
      double const wanted =
          expected_[i + at.of[1]] * 2 + expected_y_[i + at.of[2]] - expected_z_[i + at.of[3]] + 8;
      if (as_double(out[i]) != wanted) return false;
    }
    return true;
  }

 private:
  static constexpr std::size_t length = most_elements + most_offset;

  // 8 keeps unsigned results from falling below 0.
  static auto assign(O* out, X const* x, Y const* y, Z const* z, std::size_t n) {
    return ew::out(out, n) = ew::in(x, n) * 2 + ew::in(y, n) - ew::in(z, n) + 8;
  }

  std::vector<X> x_;
  std::vector<Y> y_;
  std::vector<Z> z_;
  std::vector<double> expected_, expected_y_, expected_z_;
  kernel_test::guarded<X> dx_;
  kernel_test::guarded<Y> dy_;
  kernel_test::guarded<Z> dz_;
  kernel_test::guarded<O> out_;
  ww::stream stream_;
};

constexpr std::size_t step = test_support::sanitized ? 7 : 1;

template <class O, class X, class Y, class Z>
void check_sizes() {
  std::uint64_t const seed = 81;
  INFO("seed " << seed);
  kernel_test::random_numbers random{seed};
  expression<O, X, Y, Z> const e;
  for (std::size_t n = 0; n <= 4096; n += step) {
    offsets at{};
    // Aligned, then misaligned equally, then each at random.
    if (n % 3 != 0) {
      for (std::size_t& o : at.of) o = random.below(most_offset);
    }
    if (n % 3 == 1) at = {{at.of[0], at.of[0], at.of[0], at.of[0]}};
    CAPTURE(n, at.of[0], at.of[1], at.of[2], at.of[3]);
    REQUIRE(e.right(n, at));
  }
}

template <class O, class X, class Y, class Z>
void check_offsets() {
  using under_test = expression<O, X, Y, Z>;
  under_test const e;
  std::size_t const tile = under_test::tile();
  std::vector<std::size_t> sizes{1, 15, 16, 17, 31, 32, 33, 255, 256, 257};
  for (std::size_t whole : {tile / 2, tile, 2 * tile}) {
    for (std::size_t n : {whole - 1, whole, whole + 1}) {
      if (n <= most_elements) sizes.push_back(n);
    }
  }
  for (std::size_t offset = 0; offset < most_offset; offset += step) {
    for (std::size_t which = 0; which <= 4; ++which) {  // each alone, then all equally
      offsets at{};
      for (std::size_t k = 0; k < 4; ++k) at.of[k] = which == k || which == 4 ? offset : 0;
      for (std::size_t n : sizes) {
        CAPTURE(n, offset, which);
        REQUIRE(e.right(n, at));
      }
    }
  }
}

}  // namespace

TEST_CASE("every size from 0 to 4096: float") { check_sizes<float, float, float, float>(); }
TEST_CASE("every size from 0 to 4096: __half") { check_sizes<__half, __half, __half, __half>(); }
TEST_CASE("every size from 0 to 4096: bytes") {
  check_sizes<unsigned char, unsigned char, unsigned char, unsigned char>();
}
TEST_CASE("every size from 0 to 4096: mixed types") {
  check_sizes<__nv_bfloat16, unsigned char, double, short>();
}

TEST_CASE("every offset of every operand: float") { check_offsets<float, float, float, float>(); }
TEST_CASE("every offset of every operand: __half") {
  check_offsets<__half, __half, __half, __half>();
}
TEST_CASE("every offset of every operand: bytes") {
  check_offsets<unsigned char, unsigned char, unsigned char, unsigned char>();
}
TEST_CASE("every offset of every operand: mixed types") {
  check_offsets<double, float, __half, signed char>();
  check_offsets<unsigned char, double, short, __nv_bfloat16>();
}
