// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"

#include <warpwright/memory/detail/source/growth_policy.hpp>

#include <cstdint>

using warpwright::detail::growth_policy;
using warpwright::detail::slack_options;

namespace {

constexpr std::uint64_t mib = std::uint64_t{1} << 20U;
constexpr std::uint64_t gib = 1024 * mib;
constexpr std::uint64_t granule = 2 * mib;

growth_policy policy_at_peak(slack_options const& slack, std::uint64_t peak,
                             std::uint64_t capacity = 80 * gib) {
  growth_policy policy{slack, capacity, granule};
  policy.note_live(peak);
  return policy;
}

}  // namespace

TEST_CASE("slack is a fraction of the live peak, and at least the floor") {
  CHECK(policy_at_peak({0.125, 16 * mib}, 0).slack_bytes() == 16 * mib);
  CHECK(policy_at_peak({0.125, 16 * mib}, 128 * mib).slack_bytes() == 16 * mib);
  CHECK(policy_at_peak({0.125, 16 * mib}, 1024 * mib).slack_bytes() == 128 * mib);
  CHECK(policy_at_peak({0.125, 16 * mib}, 1024 * mib).allowed_bytes() == 1152 * mib);
}

TEST_CASE("slack is at most the capacity") {
  CHECK(policy_at_peak({0.0, ~std::uint64_t{0}}, gib, 4 * gib).slack_bytes() == 4 * gib);
  CHECK(policy_at_peak({16.0, 0}, gib, 4 * gib).allowed_bytes() == 5 * gib);
}

TEST_CASE("the peak does not fall") {
  growth_policy policy = policy_at_peak({0.125, 0}, 1024 * mib);
  policy.note_live(8 * mib);
  CHECK(policy.allowed_bytes() == 1152 * mib);
}

TEST_CASE("without slack nothing is created ahead of need") {
  growth_policy const policy = policy_at_peak({0.0, 0}, 1024 * mib);
  CHECK(policy.growth_bytes(6 * mib, 1018 * mib) == 6 * mib);
  CHECK(policy.growth_bytes(6 * mib, 1020 * mib) == 0);
}

TEST_CASE("a chunk is a quarter of the slack, in granules") {
  CHECK(policy_at_peak({0.125, 0}, 1024 * mib).max_chunk_bytes() == 32 * mib);
  CHECK(policy_at_peak({0.125, 0}, 1000 * mib).max_chunk_bytes() == 30 * mib);
}

TEST_CASE("with little slack a chunk is a 256th of the peak, in granules") {
  CHECK(policy_at_peak({0.0, 0}, 1024 * mib).max_chunk_bytes() == 4 * mib);
  CHECK(policy_at_peak({0.0, 0}, 1500 * mib).max_chunk_bytes() == 4 * mib);
  CHECK(policy_at_peak({0.0, 0}, 300 * mib).max_chunk_bytes() == granule);
  CHECK(policy_at_peak({0.0078125, 0}, 8192 * mib).max_chunk_bytes() == 32 * mib);
}

TEST_CASE("a chunk is at most a 2,048th of the capacity") {
  CHECK(policy_at_peak({0.125, 0}, 64 * gib, 80 * gib).max_chunk_bytes() == 40 * mib);
  CHECK(policy_at_peak({0.125, 0}, gib, gib).max_chunk_bytes() == granule);
  CHECK(policy_at_peak({0.0, 0}, 16 * gib, 17 * gib).max_chunk_bytes() == 8 * mib);
}

TEST_CASE("growth ahead of need is a quarter of the slack, within the slack") {
  growth_policy const policy = policy_at_peak({0.125, 0}, 1024 * mib);
  CHECK(policy.growth_bytes(2 * mib, 512 * mib) == 32 * mib);
  CHECK(policy.growth_bytes(64 * mib, 512 * mib) == 64 * mib);
  CHECK(policy.growth_bytes(2 * mib, 1142 * mib) == 10 * mib);
  CHECK(policy.growth_bytes(2 * mib, 1150 * mib) == 2 * mib);
  CHECK(policy.growth_bytes(4 * mib, 1150 * mib) == 0);
  CHECK(policy.growth_bytes(2 * mib, 1152 * mib) == 0);
  CHECK(policy.growth_bytes(2 * mib, 4096 * mib) == 0);
}
