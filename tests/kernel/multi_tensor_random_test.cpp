// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Tables and chunks of lists of tensors: every element in one chunk and one thread, for random
// lists; and what is refused.
#include <warpwright/kernel/multi_tensor.hpp>

#include <deque>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernel/support.hpp"
#include "support/catch.hpp"

namespace ew = warpwright::ew;
using kernel_test::guarded;
using kernel_test::random_numbers;
using kernel_test::refusal;

namespace {

using table = ew::detail::tensor_table<1>;
using tensor = ew::detail::listed_tensor<1>;

tensor of_size(std::uint64_t size, unsigned head = 0) {
  return {{nullptr}, size, 1, head < size ? head : static_cast<unsigned>(size)};
}

struct counted {
  std::size_t tables = 0;
  std::size_t tensors = 0;
  std::uint64_t elements = 0;
  std::uint64_t chunks = 0;
  bool right = true;
};

// Fills all tables of a list, and looks at the chunks around each tensor's ends.
counted count_tables(std::vector<tensor> const& all, unsigned vector, std::uint64_t chunk) {
  counted c;
  std::size_t next = 0;
  std::vector<table> memory(1);
  table& t = memory[0];
  std::size_t expected = 0;
  while (next != all.size()) {
    std::size_t const from = next;
    next = ew::detail::fill_table(t, all.data(), from, all.size(), vector, chunk);
    if (next <= from || t.count > table::capacity || t.chunks > ew::detail::max_chunks) {
      c.right = false;
      return c;
    }
    if (t.count == 0) break;
    ++c.tables;
    c.tensors += t.count;
    c.chunks += t.chunks;
    for (unsigned k = 0; k < t.count; ++k) {
      while (expected < next && all[expected].size == 0) ++expected;
      unsigned const end = k + 1 == t.count ? t.chunks : t.first_chunk[k + 1];
      c.right = c.right && end > t.first_chunk[k] && t.tensors[k].size == all[expected].size;
      c.right = c.right && t.tensor_of(t.first_chunk[k]) == k && t.tensor_of(end - 1) == k;
      // No chunk is empty but that of a tensor without vectors, and together they hold all.
      std::uint64_t const vectors = ew::detail::vectors_of(t.tensors[k], vector);
      std::uint64_t const many = end - t.first_chunk[k];
      c.right = c.right && many * chunk >= vectors && (many == 1 || (many - 1) * chunk < vectors);
      c.elements += t.tensors[k].size;
      ++expected;
    }
  }
  return c;
}

struct add_one {
  template <class T>
  WARPWRIGHT_HOST_DEVICE void operator()(T& x) const {
    x = static_cast<T>(x + 1);
  }
};

template <class T>
void check_coverage(std::uint64_t seed) {
  INFO("seed " << seed);
  warpwright::stream const s;
  random_numbers random{seed};
  for (int round = 0; round < 12; ++round) {
    std::size_t const count = round == 0 ? table::capacity + 7 : 1 + random.below(40);
    std::size_t const largest = round % 3 == 0 ? 40 : round % 3 == 1 ? 3000 : 20000;
    std::deque<guarded<T>> memory;
    std::vector<std::size_t> sizes;
    ew::tensor_list<T> list;
    for (std::size_t k = 0; k < count; ++k) {
      sizes.push_back(random.below(7) == 0 ? 0 : random.below(largest));
      memory.emplace_back(std::vector<T>(sizes.back(), T{1}), random.below(17));
      list.add(memory.back().data(), sizes.back());
    }
    ew::run_each(s, list, add_one{});
    std::size_t wrong = 0;
    for (std::size_t k = 0; k < count; ++k) {
      wrong += memory[k].fetch(s) != std::vector<T>(sizes[k], T{2});
      wrong += !memory[k].intact(s);
    }
    CAPTURE(round, count);
    REQUIRE(wrong == 0);
  }
}

}  // namespace

TEST_CASE("tables hold every tensor of random lists once") {
  std::uint64_t const seed = 20;
  INFO("seed " << seed);
  random_numbers random{seed};
  for (int round = 0; round < 300; ++round) {
    unsigned const vector = 1U << random.below(5);
    std::vector<tensor> all;
    std::uint64_t elements = 0;
    std::size_t filled = 0;
    std::size_t const count = random.below(3 * table::capacity);
    for (std::size_t k = 0; k < count; ++k) {
      std::uint64_t const size = random.next() >> (24 + random.below(40));
      all.push_back(of_size(size, static_cast<unsigned>(random.below(vector))));
      elements += size;
      filled += size != 0;
    }
    unsigned const tile = 256U << random.below(3);
    std::uint64_t const chunk = ew::detail::chunk_for(all.data(), all.size(), vector, tile);
    CAPTURE(round, vector, tile, chunk, count);
    REQUIRE(chunk % tile == 0);
    REQUIRE(chunk / tile <= ew::detail::max_tiles_per_chunk);
    counted const c = count_tables(all, vector, chunk);
    REQUIRE(c.right);
    REQUIRE(c.elements == elements);
    REQUIRE(c.tensors == filled);
  }
}

TEST_CASE("chunks are few for large lists and small for small ones") {
  using ew::detail::target_chunks;
  using ew::detail::tiles_per_chunk;
  CHECK(tiles_per_chunk(0) == 1);
  CHECK(tiles_per_chunk(2 * target_chunks - 1) == 1);
  CHECK(tiles_per_chunk(2 * target_chunks) == 2);
  CHECK(tiles_per_chunk(8 * target_chunks) == 8);
  CHECK(tiles_per_chunk(1000 * target_chunks) == 8);
  // 200 tensors of 100 million elements: one table, and no chunk beyond a thirtieth of a wave's.
  std::vector<tensor> all;
  for (std::uint64_t k = 0; k < 200; ++k) all.push_back(of_size(k % 4 == 0 ? 768 : 650000 + k));
  counted const c = count_tables(all, 4, ew::detail::chunk_for(all.data(), all.size(), 4, 256));
  CHECK(c.right);
  CHECK(c.tables == 1);
  CHECK(c.chunks > target_chunks);
}

TEST_CASE("a list past the largest grid takes several tables") {
  std::vector<tensor> all(9, of_size(ew::detail::max_tensor_elements));
  std::uint64_t const chunk = ew::detail::chunk_for(all.data(), all.size(), 1, 256);
  counted const c = count_tables(all, 1, chunk);
  CHECK(c.right);
  CHECK(c.tables == 3);
  CHECK(c.tensors == 9);
}

TEST_CASE("200 tensors of an optimizer are one launch") {
#if CUDART_VERSION >= 12010  // arguments of 32,764 bytes
  CHECK(ew::tensor_list<float, float, float, float const>::tensors_per_launch >= 200);
#endif
  CHECK(ew::detail::tensor_table<1>::capacity >= ew::detail::tensor_table<4>::capacity);
  CHECK(sizeof(ew::detail::tensor_table<1>) <= ew::detail::table_bytes);
  CHECK(sizeof(ew::detail::tensor_table<4>) <= ew::detail::table_bytes);
  CHECK(sizeof(ew::detail::tensor_table<32>) <= ew::detail::table_bytes);
}

TEST_CASE("a grid's threads take every element once and nothing beside") {
  check_coverage<float>(1);
  check_coverage<double>(2);
  check_coverage<unsigned char>(3);
  check_coverage<short>(4);
}

TEST_CASE("a single misaligned array is narrowed, arrays misaligned equally are peeled") {
  alignas(64) static float p[64], q[64];
  ew::tensor_list<float, float const> list;
  auto const added = [&](float* a, float const* b, std::size_t n) {
    list.clear();
    list.add(a, b, n);
    return ew::detail::list_access::tensors(list)[0];
  };
  CHECK(added(p, q, 50).wide == 3);
  CHECK(added(p, q, 50).head == 0);
  CHECK(added(p + 1, q + 1, 50).wide == 3);
  CHECK(added(p + 1, q + 1, 50).head == 3);
  CHECK(added(p + 1, q + 1, 2).head == 2);
  CHECK(added(p, q + 1, 50).wide == 1);
  CHECK(added(p, q + 1, 50).head == 0);
}

TEST_CASE("tensors that do not fit are refused by number, value and remedy") {
  alignas(64) static float memory[256];
  float* const p = memory;
  float* const null = nullptr;
  ew::tensor_list<float, float const> list;
  list.add(p, p + 128, 16);
  auto const text = [&](float* a, float const* b, std::size_t n) {
    std::string const problem = refusal([&] { list.add(a, b, n); });
    if (problem != "accepted") {
      CHECK(problem.find("multi_tensor_random_test.cpp:") != std::string::npos);
      CHECK(list.size() == 1);
      CHECK(list.elements() == 16);
    }
    return problem;
  };
  auto* const odd = reinterpret_cast<float*>(reinterpret_cast<char*>(p + 64) + 2);
  CHECK_THAT(text(null, p, 7), contains("tensor 2, array 1 is a null pointer for 7 elements"));
  CHECK_THAT(text(p + 64, null, 7), contains("tensor 2, array 2 is a null pointer"));
  CHECK_THAT(text(odd, p, 7), contains("tensor 2, array 1 is at address ") &&
                                  contains("not a multiple of its element's 4 bytes"));
  CHECK_THAT(text(p + 64, p + 65, 8),
             contains("tensor 2, array 2 spans 32 bytes that overlap array 1's 32, starting 4 "
                      "bytes into it"));
  CHECK_THAT(text(p + 65, p + 64, 8), contains("4 bytes before it"));
  CHECK_THAT(text(p + 15, p + 64, 8),
             contains("tensor 2, array 1 overlaps tensor 1's array 1, and both are written"));
  CHECK_THAT(text(p, p + 64, 1), contains("list every tensor once"));
  CHECK_THAT(text(p + 64, p, (std::size_t{1} << 40U) + 1),
             contains("tensor 2 has 1099511627777 elements; a tensor has 0 to 2^40"));
  // Neighbours, what is only read, and exactly in place are fine; so is nothing at all.
  CHECK(text(null, null, 0) == "accepted");
  CHECK(text(p + 16, p + 128, 16) == "accepted");
  CHECK(text(p + 32, p + 32, 16) == "accepted");
  CHECK(list.size() == 4);
  CHECK(list.elements() == 48);
  list.clear();
  CHECK(list.size() == 0);
  CHECK(list.elements() == 0);
  list.add(p, p + 128, 16);

  ew::tensor_list<float, float> both;
  CHECK_THAT(refusal([&] { both.add(p, p, 4); }), contains("list it once"));
  ew::tensor_list<float, double const> wider;
  CHECK_THAT(refusal([&] { wider.add(p, reinterpret_cast<double*>(p), 4); }),
             contains("spans 32 bytes that overlap array 1's 16"));
  both.add(p + 100, p, 4);  // in any order of addresses
  both.add(p + 50, p + 150, 4);
  CHECK_THAT(refusal([&] { both.add(p + 200, p + 53, 4); }),
             contains("tensor 3, array 2 overlaps tensor 2's array 1"));
  both.add(p + 200, p + 54, 4);
}

TEST_CASE("a list is moved with its tensors") {
  alignas(64) static float memory[64];
  ew::tensor_list<float> list;
  list.add(memory, 10);
  ew::tensor_list<float> other{std::move(list)};
  CHECK(other.size() == 1);
  ew::run_each_host(other, add_one{});
  CHECK(memory[9] == 1.0F);
  CHECK(memory[10] == 0.0F);
}
