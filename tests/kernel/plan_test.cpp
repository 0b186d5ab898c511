// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/kernel/detail/expression/packed_vector.hpp>
#include <warpwright/kernel/detail/plan/elementwise_plan.hpp>
#include <warpwright/kernel/detail/plan/partition.hpp>
#include <warpwright/kernel/detail/plan/tensor_table.hpp>
#include <warpwright/kernel/detail/reduce/workspace.hpp>

#include <warpwright/kernel/detail/views/view_node.hpp>

#include <memory>
#include <set>
#include <vector>

#include "kernel/support.hpp"
#include "support/catch.hpp"
#include "support/sanitized.hpp"

namespace ew = warpwright::ew;
using ew::detail::access_pattern;
using ew::detail::launch_plan;
using ew::detail::operand;
using test_support::rounds;

namespace {

constexpr operand array(unsigned bytes, std::uint64_t address, std::uint64_t n, unsigned vector) {
  operand o;
  o.element_bytes = bytes;
  o.natural_bytes = bytes;
  o.aligned_bytes = bytes * vector < 16 ? bytes * vector : 16;
  o.address = address;
  o.count = n;
  return o;
}

constexpr launch_plan plan_two(std::uint64_t a, std::uint64_t b, std::uint64_t n) {
  operand const all[] = {array(4, a, n, 4), array(4, b, n, 4)};
  return ew::detail::make_plan(all, 2, n, 4, 1);
}

using ew::detail::axes;
using ew::detail::axis;

// A random view of at most three axes near address 4096, of which some run backwards.
struct random_view {
  axes<6> map;
  operand o;
  std::set<std::uint64_t> bytes;

  random_view(kernel_test::random_numbers& random, unsigned element_bytes,
              std::vector<std::int64_t> const& strides) {
    std::int64_t shape[3];
    std::int64_t steps[3];
    for (int k = 0; k < 3; ++k) {
      shape[k] = 1 + static_cast<std::int64_t>(random.below(4));
      steps[k] = strides[random.below(strides.size())] * (random.below(4) == 0 ? -1 : 1);
    }
    map = ew::detail::make_axes<6>(shape, steps, 3);
    o.element_bytes = element_bytes;
    o.natural_bytes = element_bytes;
    o.address = 4096 + element_bytes * random.below(40);
    std::uint64_t const start = o.address;
    ew::detail::describe_axes(o, map.of, map.count);
    for (std::uint64_t i = 0; i < o.count; ++i) {
      auto const at = static_cast<std::int64_t>(start) +
                      map.find(i).offset * static_cast<std::int64_t>(element_bytes);
      for (unsigned b = 0; b < element_bytes; ++b) bytes.insert(static_cast<std::uint64_t>(at) + b);
    }
  }
};

}  // namespace

static_assert(plan_two(0x1000, 0x2000, 1024).partition.all_wide, "the planner is constexpr");

TEST_CASE("vectors are as long as the widest element allows") {
  CHECK(ew::detail::vector_elements(1) == 16);
  CHECK(ew::detail::vector_elements(2) == 8);
  CHECK(ew::detail::vector_elements(4) == 4);
  CHECK(ew::detail::vector_elements(8) == 2);
  CHECK(ew::detail::vector_elements(16) == 1);
  CHECK(ew::detail::vectors_per_thread(32) == 1);
  CHECK(ew::detail::vectors_per_thread(16) == 2);
  CHECK(ew::detail::vectors_per_thread(8) == 4);
  CHECK(ew::detail::vectors_per_thread(0) == 2);
}

TEST_CASE("aligned arrays go in vectors, the rest in one block of its own") {
  launch_plan const whole = plan_two(0x1000, 0x2000, 1024);
  CHECK(whole.partition.all_wide);
  CHECK(whole.partition.vectors == 256);
  CHECK(whole.partition.edge == 0);
  CHECK(whole.partition.fast_path);
  CHECK(plan_two(0x1000, 0x2000, (std::uint64_t{1} << 33U) - 4).partition.fast_path);
  CHECK_FALSE(
      plan_two(0x1000, 0x2000, std::uint64_t{1} << 33U).partition.fast_path);  // 2^31 vectors
  operand far[] = {array(4, 0x1000, 1024, 4), array(4, 0x2000, 1024, 4)};
  far[1].narrow = false;  // a view over more than 2^31 elements
  CHECK_FALSE(ew::detail::make_plan(far, 2, 1024, 4, 1).partition.fast_path);
  launch_plan const odd = plan_two(0x1000, 0x2000, 1027);
  CHECK(odd.partition.vectors == 256);
  CHECK(odd.partition.edge == 3);
  CHECK_FALSE(odd.partition.fast_path);
  CHECK(odd.blocks == whole.blocks + 1);
  launch_plan const tiny = plan_two(0x1000, 0x2000, 3);
  CHECK(tiny.partition.vectors == 0);
  CHECK(tiny.partition.edge == 3);
  CHECK(tiny.blocks == 1);
}

TEST_CASE("arrays misaligned equally are peeled, a single misaligned one is narrowed") {
  launch_plan const same = plan_two(0x1004, 0x2004, 1024);
  CHECK(same.partition.all_wide);
  CHECK(same.partition.head == 3);
  CHECK(same.partition.vectors == 255);
  CHECK(same.partition.edge == 4);
  operand const all[] = {array(4, 0x1000, 1024, 4), array(4, 0x2004, 1024, 4),
                         array(4, 0x3000, 1024, 4)};
  launch_plan const odd = ew::detail::make_plan(all, 3, 1024, 4, 1);
  CHECK_FALSE(odd.partition.all_wide);
  CHECK_FALSE(odd.partition.fast_path);
  CHECK(odd.partition.head == 0);
  CHECK(odd.partition.wide == 0b101U);
  launch_plan const shorter_than_head = plan_two(0x1004, 0x2004, 2);
  CHECK(shorter_than_head.partition.head == 2);
  CHECK(shorter_than_head.partition.vectors == 0);
  CHECK(shorter_than_head.partition.edge == 2);
}

TEST_CASE("a row goes in vectors when rows and vectors fit") {
  operand row = array(4, 0x3000, 64, 4);
  row.kind = access_pattern::row;
  operand const fits[] = {array(4, 0x1000, 640, 4), row};
  CHECK(ew::detail::make_plan(fits, 2, 640, 4, 1).partition.all_wide);
  row.count = 10;
  operand const odd[] = {array(4, 0x1000, 640, 4), row};
  CHECK(ew::detail::make_plan(odd, 2, 640, 4, 1).partition.wide == 0b01U);
}

TEST_CASE("every element is dealt out once, small sizes over many blocks") {
  for (std::uint64_t n = 1; n < 300000; n += 1 + n / 7) {
    for (std::uint64_t off = 0; off < 4; ++off) {
      launch_plan const p = plan_two(0x1000 + 4 * off, 0x2000 + 4 * off, n);
      CAPTURE(n, off);
      REQUIRE(p.partition.vectors * 4 + p.partition.edge == n);
      REQUIRE(p.partition.head <= p.partition.edge);
      REQUIRE(p.partition.edge <= p.threads);
      std::uint64_t const vector_blocks = p.blocks - (p.partition.edge != 0 ? 1 : 0);
      REQUIRE(vector_blocks * p.threads >= p.partition.vectors);
      REQUIRE((p.partition.vectors == 0 || (vector_blocks - 1) * p.threads < p.partition.vectors));
    }
  }
  CHECK(plan_two(0x1000, 0x2000, 1U << 16U).blocks >= 128);
  CHECK(plan_two(0x1000, 0x2000, 1U << 14U).blocks >= 128);
  CHECK(plan_two(0x1000, 0x2000, std::uint64_t{1} << 40U).blocks == std::uint64_t{1} << 30U);
}

TEST_CASE("operands on the fast path are planned as any are, and only if they are valid") {
  kernel_test::random_numbers random{20261122};
  int on_fast_path = 0;
  for (int round = 0; round < rounds(20000); ++round) {
    CAPTURE(round);
    std::uint64_t const n = 1 + random.below(round % 2 == 0 ? 64 : 1U << 20U);
    unsigned const vector = 4;
    unsigned const vectors = 1U << random.below(3);
    operand all[3];
    for (operand& o : all) {
      // Often disjoint or in place; sometimes misaligned, overlapping, or of another size.
      std::uint64_t const place = random.below(3) * 0x1000000;
      o = array(4, 0x1000000 + place + (random.below(8) == 0 ? 4 * random.below(2 * n) : 0),
                random.below(32) == 0 ? n + 1 : n, vector);
    }
    if (random.below(4) == 0) all[2].kind = access_pattern::absent;
    if (random.below(8) == 0) all[1].kind = access_pattern::row, all[1].count = 1 + random.below(n);
    if (random.below(8) == 0) all[1].kind = access_pattern::single, all[1].count = 1;
    if (random.below(64) == 0) all[1].address = 0;
    ew::detail::array_operand const arrays[] = {all[0], all[1], all[2]};
    int const counts[] = {3};
    ew::detail::elementwise_types const types{counts, 1, 3, 1, vector, vectors, vectors};
    if (all[0].count != n || !ew::detail::on_fast_path(types, arrays)) continue;
    ++on_fast_path;
    REQUIRE_NOTHROW(ew::detail::check_operands(all, 3, warpwright::source_location::current()));
    launch_plan const one = ew::detail::make_fast_path_plan(n, vector, vectors);
    launch_plan const other = ew::detail::make_plan(all, 3, n, vector, vectors);
    REQUIRE(one.threads == other.threads);
    REQUIRE(one.blocks == other.blocks);
    REQUIRE(one.partition.vectors == other.partition.vectors);
    REQUIRE(one.partition.head == other.partition.head);
    REQUIRE(one.partition.edge == other.partition.edge);
    REQUIRE(one.partition.fast_path == other.partition.fast_path);
    REQUIRE(one.partition.all_wide);
    REQUIRE(other.partition.all_wide);
  }
  CHECK(on_fast_path > rounds(3000));
}

TEST_CASE("fast_divisor divides exactly") {
  std::uint64_t const seed = 7;
  INFO("seed " << seed);
  kernel_test::random_numbers random{seed};
  std::vector<std::uint64_t> divisors{1,
                                      2,
                                      3,
                                      5,
                                      7,
                                      10,
                                      641,
                                      1U << 20U,
                                      (1U << 20U) - 1,
                                      0xffffffffU,
                                      std::uint64_t{1} << 32U,
                                      (std::uint64_t{1} << 62U) + 1};
  for (int k = 0; k < rounds(500); ++k)
    divisors.push_back((random.next() >> (1 + random.below(62))) | 1U);
  for (std::uint64_t const d : divisors) {
    ew::detail::fast_divisor const fast{d};
    std::vector<std::uint64_t> dividends{
        0, 1, d - 1, d, d + 1, 2 * d - 1, (~std::uint64_t{0} >> 1U)};
    for (int k = 0; k < 50; ++k) dividends.push_back(random.next() >> (1 + random.below(62)));
    for (std::uint64_t const x : dividends) {
      if (x >> 63U != 0) continue;
      CAPTURE(x, d);
      REQUIRE(fast.quotient(x) == x / d);
    }
  }
}

TEST_CASE("what side_by_side() accepts shares no byte") {
  std::uint64_t const seed = 91;
  INFO("seed " << seed);
  kernel_test::random_numbers random{seed};
  int meet = 0;
  int beside = 0;  // accepted though their ranges of memory overlap
  for (int round = 0; round < rounds(200000); ++round) {
    std::vector<std::int64_t> const strides = {1, 2, 3, 4, 6, 8, 12, 16, 24, 5, 0};
    random_view const a{random, 1U << random.below(3), strides};
    random_view const b{random, 1U << random.below(3), strides};
    if (a.o.kind != access_pattern::view && b.o.kind != access_pattern::view) continue;
    bool shared = false;
    for (std::uint64_t byte : a.bytes) shared = shared || b.bytes.count(byte) != 0;
    bool const ranges_overlap =
        a.o.address < b.o.address + ew::detail::span_bytes(b.o, b.o.count) &&
        b.o.address < a.o.address + ew::detail::span_bytes(a.o, a.o.count);
    bool const accepted = ew::detail::side_by_side(a.o, b.o, a.o.count);
    meet += shared ? 1 : 0;
    beside += ranges_overlap && accepted ? 1 : 0;
    if (shared && accepted) {
      CAPTURE(round, a.o.address, b.o.address);
      FAIL("side_by_side() accepts operands that share bytes");
    }
  }
  CHECK(meet > rounds(10000));
  CHECK(beside > rounds(1000));
}

TEST_CASE("side_by_side() accepts disjoint slices of one array") {
  std::uint64_t const seed = 92;
  INFO("seed " << seed);
  kernel_test::random_numbers random{seed};
  std::size_t missed = 0;
  for (int round = 0; round < rounds(20000); ++round) {
    std::int64_t shape[3];
    for (std::int64_t& n : shape) n = 2 + static_cast<std::int64_t>(random.below(5));
    std::int64_t const strides[3] = {shape[1] * shape[2], shape[2], 1};
    auto const along = random.below(3);  // cut here, at `cut`
    std::int64_t const cut =
        1 + static_cast<std::int64_t>(random.below(static_cast<std::size_t>(shape[along] - 1)));
    operand o[2];
    axes<6> map[2];
    for (int part = 0; part < 2; ++part) {
      std::int64_t of_part[3] = {shape[0], shape[1], shape[2]};
      of_part[along] = part == 0 ? cut : shape[along] - cut;
      map[part] = ew::detail::make_axes<6>(of_part, strides, 3);
      o[part].element_bytes = o[part].natural_bytes = 4;
      o[part].address = 4096 + (part == 0 ? 0U : static_cast<unsigned>(cut * strides[along]) * 4U);
      ew::detail::describe_axes(o[part], map[part].of, map[part].count);
    }
    missed += ew::detail::overlap(o[0], o[1], o[0].count) ? 1 : 0;
  }
  CHECK(missed == 0);
}

TEST_CASE("a view whose indices and offsets take 31 bits is narrow") {
  struct one {
    std::int64_t extent;
    std::int64_t stride;
    bool narrow;
  };
  std::int64_t const most = 0x7fffffff;
  for (one const& v :
       {one{2, most, true}, one{2, most + 1, false}, one{2, -most, true}, one{2, -most - 1, false},
        one{2, -(std::int64_t{1} << 33), false}, one{most, 0, true}, one{most + 1, 0, false},
        one{std::int64_t{1} << 33, 0, false}}) {
    CAPTURE(v.extent, v.stride);
    CHECK(ew::detail::make_axes<6>(&v.extent, &v.stride, 1).narrow == v.narrow);
  }
}

TEST_CASE("written ranges beside each other are told from those that overlap") {
  ew::detail::written_ranges written;
  auto const refused = [&](std::uint64_t address, std::uint64_t n) {
    return kernel_test::refusal([&] {
      written.check(array(1, address, n, 1), 1, 9, warpwright::source_location::current());
    });
  };
  written.reserve(3);
  written.add(array(1, 4096, 16, 1), 1, 1);
  written.add(array(1, 4128, 16, 1), 1, 2);
  CHECK(refused(4112, 16) == "accepted");
  written.add(array(1, 4112, 16, 1), 1, 3);  // side by side with both
  CHECK(refused(4080, 16) == "accepted");
  CHECK(refused(4144, 16) == "accepted");
  CHECK_THAT(refused(4080, 17), contains("overlaps tensor 1's"));
  CHECK_THAT(refused(4111, 1), contains("overlaps tensor 1's"));
  CHECK_THAT(refused(4112, 1), contains("overlaps tensor 3's"));
  CHECK_THAT(refused(4127, 1), contains("overlaps tensor 3's"));
  CHECK_THAT(refused(4128, 16), contains("overlaps tensor 2's"));
  CHECK_THAT(refused(4143, 1), contains("overlaps tensor 2's"));
}

TEST_CASE("a view has at most 2^59 elements, and as many from its lowest to its highest") {
  std::int64_t const most = std::int64_t{1} << 59;
  auto const too_large = [](std::int64_t extent, std::int64_t stride) {
    return ew::detail::measure_view(&extent, &stride, 1).too_large;
  };
  CHECK_FALSE(too_large(most, 0));
  CHECK(too_large(most + 1, 0));
  CHECK_FALSE(too_large(2, most - 1));
  CHECK(too_large(2, most));
  CHECK_FALSE(too_large(2, 1 - most));
  CHECK(too_large(2, -most));
}

TEST_CASE("a fast path has fewer than 2^31 vectors, a table at most 2^31 - 1 chunks") {
  std::uint64_t const limit = std::uint64_t{1} << 31U;
  CHECK(ew::detail::make_fast_path_plan(4 * (limit - 1), 4, 1).partition.fast_path);
  CHECK_FALSE(ew::detail::make_fast_path_plan(4 * limit, 4, 1).partition.fast_path);

  using tensor = ew::detail::listed_tensor<1>;
  tensor const all[] = {
      {{nullptr}, 4 * (limit - 2), 1, 0}, {{nullptr}, 4, 1, 0}, {{nullptr}, 4, 1, 0}};
  auto const table = std::make_unique<ew::detail::tensor_table<1>>();
  CHECK(ew::detail::fill_table(*table, all, 0, 3, 4, 1) == 2);
  CHECK(table->chunks == limit - 1);
  CHECK(table->tensor_of(0) == 0);
  CHECK(table->tensor_of(static_cast<unsigned>(limit - 3)) == 0);
  CHECK(table->tensor_of(static_cast<unsigned>(limit - 2)) == 1);
}

TEST_CASE("a tensor has at most 2^40 elements") {
  auto const refused = [](std::uint64_t n) {
    operand const one = array(1, 4096, n, 1);
    return kernel_test::refusal(
        [&] { ew::detail::check_tensor(&one, 1, 1, 3, warpwright::source_location::current()); });
  };
  std::uint64_t const most = std::uint64_t{1} << 40U;
  CHECK(refused(most) == "accepted");
  CHECK_THAT(refused(most + 1), contains("tensor 3 has 1099511627777 elements"));
}

TEST_CASE("results side by side with a workspace and each other are not in it") {
  auto const refused = [](std::uint64_t address, std::uint64_t other) {
    ew::detail::memory_range const results[] = {{address, 16, 4}, {other, 16, 4}};
    return kernel_test::refusal([&] {
      ew::detail::check_result_ranges(results, 2,
                                      reinterpret_cast<void const*>(std::uintptr_t{4096}), 64,
                                      warpwright::source_location::current());
    });
  };
  CHECK(refused(4096 - 16, 4096 + 64) == "accepted");
  CHECK(refused(4096 + 64, 4096 + 80) == "accepted");
  CHECK_THAT(refused(4096 - 12, 8192), contains("result 1 goes into the workspace"));
  CHECK_THAT(refused(8192, 4096 + 60), contains("result 2 goes into the workspace"));
  CHECK_THAT(refused(8192, 8192 + 12), contains("result 2 goes where result 1 does"));
}
