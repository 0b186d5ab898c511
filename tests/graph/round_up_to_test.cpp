// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"

#include <warpwright/graph/round_up_to.hpp>

#include <array>
#include <stdexcept>
#include <vector>

namespace ww = warpwright;

TEST_CASE("round_up_to: the smallest bucket that holds n, in any order") {
  CHECK(ww::round_up_to(1, {1, 2, 4, 8}) == 1);
  CHECK(ww::round_up_to(3, {8, 2, 4, 1}) == 4);
  CHECK(ww::round_up_to(8, {1, 2, 4, 8}) == 8);
  CHECK(ww::round_up_to(0, {4, 2}) == 2);
  std::vector<std::size_t> const buckets{16, 32};
  CHECK(ww::round_up_to(17, buckets) == 32);
  CHECK(ww::round_up_to(5, std::array<std::size_t, 1>{7}) == 7);
}

TEST_CASE("round_up_to: a number that no bucket holds is refused with the largest") {
  CHECK_THROWS_WITH(ww::round_up_to(9, {1, 8, 2}),
                    contains("no bucket holds 9: the largest of 3 is 8"));
  CHECK_THROWS_AS(ww::round_up_to(1, std::vector<std::size_t>{}), std::invalid_argument);
}
