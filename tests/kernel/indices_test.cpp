// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Operands and outputs by index against plain loops. Most values are small integers, so that sums
// are exact in any order.
#include <warpwright/graph.hpp>
#include <warpwright/kernel/describe.hpp>
#include <warpwright/kernel/explain.hpp>
#include <warpwright/kernel/indices.hpp>
#include <warpwright/kernel/reduce_matrix.hpp>
#include <warpwright/kernel/rows.hpp>
#include <warpwright/kernel/views.hpp>

#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernel/support.hpp"
#include "support/catch.hpp"
#include "support/device_memory.hpp"

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/host_runtime.hpp>
#endif

namespace ew = warpwright::ew;
namespace ww = warpwright;
using kernel_test::as_double;
using kernel_test::guarded;
using kernel_test::number;
using kernel_test::random_numbers;
using kernel_test::refusal;
using kernel_test::small_integers;
using test_support::device_array;

namespace {

struct three {
  float x, y, z;
};

template <class T>
std::vector<T> table_of(std::size_t size) {
  std::vector<T> table(size);
  for (std::size_t i = 0; i < size; ++i) {
    if constexpr (std::is_same<T, three>::value) {
      auto const x = static_cast<float>(i);
      table[i] = {x, -x, x + 0.5F};
    } else {
      table[i] = number<T>(static_cast<double>(i % 120));
    }
  }
  return table;
}

template <class T>
bool same_bytes(std::vector<T> const& a, std::vector<T> const& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

// Rows of a table, among them equal ones and the last, with a bias.
template <class T, class I>
void check_row_at() {
  ww::stream s;
  for (std::size_t const cols : {1U, 3U, 4U, 8U, 33U, 64U}) {
    for (std::size_t const offset : {0U, 1U}) {
      std::size_t const rows = 45;
      std::size_t const table_rows = 50;
      auto const table = table_of<T>(table_rows * cols);
      auto index = small_integers<I>(rows, static_cast<unsigned>(table_rows), cols);
      index[3] = index[4] = static_cast<I>(table_rows - 1);
      guarded<T> in{table, offset};
      guarded<I> rows_of{index, offset};
      guarded<T> out{rows * cols, (offset + cols) % 2};
      std::vector<T> expected(rows * cols);
      for (std::size_t i = 0; i < rows * cols; ++i) {
        expected[i] = table[static_cast<std::size_t>(index[i / cols]) * cols + i % cols];
      }
      auto const a = ew::out(out.data(), rows * cols) =
          ew::row_at(ew::in(in.data(), table.size()), ew::col(rows_of.data(), cols));
      CAPTURE(sizeof(T), cols, offset);
      ew::run(s, a);
      CHECK(same_bytes(out.fetch(s), expected));
      CHECK(out.intact(s));
      out.clear();
      ew::evaluate_host(a);
      CHECK(same_bytes(out.fetch(s), expected));
    }
  }
}

template <class I>
void check_gather() {
  ww::stream s;
  std::size_t const n = 1003;
  auto const table = table_of<float>(101);
  auto const index = small_integers<I>(n, 50, 7);
  guarded<float> in{table};
  guarded<I> at{index, 1};
  guarded<float> out{n};
  ew::run(s, ew::out(out.data(), n) =
                 ew::gather(ew::in(in.data(), 101), ew::in(at.data(), n) * 2) + ew::index() % 2);
  std::vector<float> expected(n);
  for (std::size_t i = 0; i < n; ++i) {
    expected[i] = table[static_cast<std::size_t>(index[i]) * 2] + static_cast<float>(i % 2);
  }
  CHECK(out.fetch(s) == expected);
}

// x added to a table by a loop, in the order of the rows.
template <class T, class I>
std::vector<T> added_in_order(std::vector<T> table, std::vector<T> const& x,
                              std::vector<I> const& index, std::size_t cols) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    T& to = table[static_cast<std::size_t>(index[i / cols]) * cols + i % cols];
    if constexpr (sizeof(T) == 2) {
      to = number<T>(static_cast<double>(static_cast<float>(as_double(to)) +
                                         static_cast<float>(as_double(x[i]))));
    } else {
      to = static_cast<T>(to + x[i]);
    }
  }
  return table;
}

// Random sizes, alignments and repeated indices; in order, values whose sums are rounded.
template <class T, class I>
void check_scatter(std::uint64_t seed, int rounds, bool in_order) {
  INFO("seed " << seed);
  random_numbers random{seed};
  ww::stream s;
  for (int round = 0; round < rounds; ++round) {
    std::size_t const cols = 1 + random.below(round % 3 == 0 ? 300 : 20);
    std::size_t const rows = random.below(round % 5 == 0 && sizeof(T) != 2 ? 2500 : 60);
    std::size_t const table_rows = 1 + random.below(round % 2 == 0 ? 4 : 700);
    auto table = small_integers<T>(table_rows * cols, 4, random.next());
    auto x = small_integers<T>(rows * cols, 4, random.next());
    if (in_order && !std::is_integral<T>::value) {
      for (T& v : x) v = number<T>(random.unit() - 0.5);
    }
    auto const index = small_integers<I>(rows, static_cast<unsigned>(table_rows), random.next());
    guarded<T> to{table, random.below(17)};
    guarded<T> from{x, random.below(17)};
    guarded<I> at{index, random.below(3)};
    CAPTURE(round, cols, rows, table_rows);
    auto const a = ew::out_at(to.data(), table.size(), x.size(), ew::col(at.data(), cols)) +=
        ew::in(from.data(), x.size());
    auto const expected = added_in_order(table, x, index, cols);
    if (in_order) {
      ew::run_in_order(s, a);
    } else if constexpr (sizeof(T) > 1) {
      ew::run(s, a);
    }
    CHECK(same_bytes(to.fetch(s), expected));
    CHECK(to.intact(s));
    if constexpr (sizeof(T) > 1) {
      to.assign(table);
      ew::evaluate_host(a);
      CHECK(same_bytes(to.fetch(s), expected));
    }
  }
}

template <class T>
void check_scatter_by_elements() {
  ww::stream s;
  std::size_t const n = 1501;
  auto index = small_integers<int>(n, 90, 3);
  auto const x = small_integers<T>(n, 3, 4);
  guarded<int> at{index, 1};
  guarded<T> from{x, 1}, to{std::vector<T>(100), 1};
  ew::run(s, ew::scatter_add(to.data(), 100, n, ew::in(at.data(), n) + 1) = ew::in(from.data(), n));
  for (int& k : index) ++k;
  CHECK(same_bytes(to.fetch(s), added_in_order(std::vector<T>(100), x, index, 1)));
  CHECK(to.intact(s));
}

// Five replays of one captured step, each of which appends a token's keys and values and reads the
// last token's keys back.
template <class T>
void check_append(std::size_t cols, std::size_t offset) {
  ww::stream s;
  std::size_t const size = 7 * cols;
  auto const before = table_of<T>(size);
  guarded<T> keys{before, offset}, values{before}, last{cols}, token{table_of<T>(cols), offset};
  device_array<std::int16_t> position{std::vector<std::int16_t>{1}};
  ww::graph_replay graph;
  graph.recapture(s, [&](ww::stream_ref) {
    auto const x = ew::in(token.data(), cols);
    auto const p = ew::device_scalar(position.data());
    auto const at = ew::col(position.data(), cols);
    ew::run(s, ew::tie(ew::out_at(keys.data(), size, cols, at) = x + p,
                       ew::out_at(values.data(), size, cols, at) = x - p));
    ew::run(s, ew::out(last.data(), cols) = ew::row_at(ew::in(keys.data(), size), at) * 2);
    ew::run(s, ew::out(position.data(), 1) += 1);
  });
  CHECK(graph.node_counts().total() == 3);
  auto expected_keys = before;
  auto expected_values = before;
  std::vector<T> expected_last(cols);
  for (std::size_t p = 1; p < 6; ++p) {
    graph.launch(s);
    for (std::size_t i = 0; i < cols; ++i) {
      double const x = as_double(token[i]);
      expected_keys[p * cols + i] = number<T>(x + static_cast<double>(p));
      expected_values[p * cols + i] = number<T>(x - static_cast<double>(p));
      expected_last[i] = number<T>(2 * (x + static_cast<double>(p)));
    }
    CAPTURE(p, cols, offset, sizeof(T));
    CHECK(same_bytes(keys.fetch(s), expected_keys));
    CHECK(same_bytes(values.fetch(s), expected_values));
    CHECK(same_bytes(last.fetch(s), expected_last));
    CHECK((keys.intact(s) && values.intact(s)));
  }
}

}  // namespace

TEST_CASE("row_at reads rows of elements of every size, at any alignment") {
  check_row_at<unsigned char, int>();
  check_row_at<__half, std::int64_t>();
  check_row_at<float, std::uint8_t>();
  check_row_at<double, std::uint32_t>();
  check_row_at<three, std::int16_t>();
}

TEST_CASE("gather takes any integer type and expressions of it") {
  check_gather<std::int8_t>();
  check_gather<std::uint16_t>();
  check_gather<int>();
  check_gather<std::uint64_t>();
}

TEST_CASE("reductions, functions of rows and views take rows by index") {
  ww::stream s;
  std::size_t const rows = 37;
  for (std::size_t const cols : {24U, 5U, 9000U}) {
    std::size_t const n = rows * cols;
    guarded<float> table{small_integers<float>(11 * cols, 9, 1)};
    guarded<int> index{small_integers<int>(rows, 11, 2)};
    guarded<float> copy{n}, a{n}, b{n}, w{small_integers<float>(n, 5, 3)};
    guarded<float> sums{rows}, expected{rows};
    auto const x = ew::row_at(ew::in(table.data(), 11 * cols), ew::col(index.data(), cols));
    ew::run(s, ew::out(copy.data(), n) = x);
    auto const y = ew::in(copy.data(), n);
    ew::reduce_rows(s, {rows, cols}, ew::to(sums.data()) = ew::sum(ew::in(w.data(), n) * x));
    ew::reduce_rows(s, {rows, cols}, ew::to(expected.data()) = ew::sum(ew::in(w.data(), n) * y));
    CHECK(sums.fetch(s) == expected.fetch(s));
    auto const f = ew::softmax(x);
    ew::run_rows(s, {rows, cols}, ew::out(a.data(), n) = f * 2,
                 ew::out(sums.data(), rows) = f.log_sum_exp());
    ew::run_rows(s, {rows, cols}, ew::out(b.data(), n) = ew::softmax(y) * 2);
    CHECK(a.fetch(s) == b.fetch(s));
    auto const transposed = ew::view(ew::array(w.data(), {cols, rows}).permuted({1, 0}));
    ew::run(s, ew::out(a.data(), n) = x + transposed);
    ew::run(s, ew::out(b.data(), n) = y + transposed);
    CHECK(a.fetch(s) == b.fetch(s));
  }
}

TEST_CASE("a captured step appends where a number in memory says") {
  check_append<float>(64, 0);
  check_append<float>(13, 1);
  check_append<__half>(48, 0);
  check_append<double>(1, 1);
}

TEST_CASE("+= adds elements, repeated ones too") {
  check_scatter_by_elements<float>();
  check_scatter_by_elements<double>();
  check_scatter_by_elements<int>();
  check_scatter_by_elements<std::uint64_t>();
  check_scatter_by_elements<__half>();
}

TEST_CASE("+= adds rows") {
  check_scatter<float, int>(11, 24, false);
  check_scatter<double, std::int64_t>(12, 12, false);
  check_scatter<__half, std::uint16_t>(13, 24, false);
  check_scatter<__nv_bfloat16, int>(16, 24, false);
  check_scatter<std::int64_t, int>(15, 12, false);
}

TEST_CASE("run_in_order has the bits of a loop over the rows") {
  check_scatter<float, int>(21, 24, true);
  check_scatter<__nv_bfloat16, std::int64_t>(22, 16, true);
  check_scatter<double, std::uint16_t>(23, 12, true);
  check_scatter<signed char, int>(24, 12, true);
}

TEST_CASE("integers wrap, and kernels of several streams add to one table") {
  std::size_t const n = 400000;
  guarded<int> table{std::vector<int>(3, std::numeric_limits<int>::max())};
  guarded<float> sums{std::vector<float>(3)};
  guarded<int> index{small_integers<int>(n, 3, 5)};
  {
    ww::stream const streams[3];
    for (auto const& s : streams) {
      ew::run(s, ew::tie(ew::out_at(table.data(), 3, n, ew::in(index.data(), n)) += 1,
                         ew::out_at(sums.data(), 3, n, ew::in(index.data(), n)) += 1));
    }
    for (auto const& s : streams) s.synchronize();
  }
  std::vector<float> expected(3);
  for (std::size_t i = 0; i < n; ++i) expected[static_cast<std::size_t>(index[i])] += 3;
  for (std::size_t k = 0; k < 3; ++k) {
    CHECK(sums[k] == expected[k]);
    CHECK(table[k] == std::numeric_limits<int>::min() + static_cast<int>(expected[k]) - 1);
  }
}

#if WARPWRIGHT_HOST_RUNTIME
TEST_CASE("an index out of range fails the kernel, and on the calling thread throws") {
  std::vector<float> t(12), y(8);
  std::vector<int> index{1, 2, 3, -1};
  auto const said = [](auto const& a) {
    try {
      ew::evaluate_host(a);
    } catch (std::out_of_range const& error) {
      return std::string{error.what()};
    }
    return std::string{"accepted"};
  };
  auto const col = ew::col(index.data(), 2);
  auto const x = ew::in(t.data(), 12);
  auto const from = ew::in(y.data(), 8);
  CHECK(said(ew::out(y.data(), 4) = ew::gather(x, ew::in(index.data(), 4))) ==
        "warpwright::ew: index -1 at element 3 is not in [0, 12)");
  std::string const row = "warpwright::ew: index -1 at element 6 is not in [0, 6)";
  CHECK(said(ew::out(y.data(), 8) = ew::row_at(x, col)) == row);
  CHECK(said(ew::out_at(t.data(), 12, 8, col) += from) == row);
  CHECK(said(ew::out_at(t.data(), 12, 8, col) = from) == row);
  CHECK(said(ew::out_at(t.data(), 2, 8, ew::index()) = from) ==
        "warpwright::ew: index 2 at element 2 is not in [0, 2)");

  for (bool const captured : {false, true}) {
    ww::testing::reset_host_runtime();
    {
      ww::stream s;
      guarded<int> at{index};
      guarded<float> table{t};
      auto const work = [&](ww::stream_ref) {
        ew::run(s, ew::out(table.data(), 4) =
                       ew::gather(ew::in(table.data() + 4, 8), ew::in(at.data(), 4)));
        ew::run(s, ew::out(table.data() + 4, 8) = 1.0F);
      };
      ww::graph_replay graph;
      if (captured) {
        graph.recapture(s, work);
        graph.launch(s);
      } else {
        work(s);
      }
      CHECK(cudaStreamSynchronize(s.get()) == cudaErrorLaunchFailure);
      CHECK(table[4] == 0);  // what is behind a kernel that failed does not run
      std::vector<char> log(25600);
      std::size_t bytes = log.size();
      REQUIRE(cudaLogsDumpToMemory(nullptr, log.data(), &bytes, 0) == cudaSuccess);
      CHECK(std::string(log.data()).find("ew: index -1 at element 3") != std::string::npos);
    }
    ww::testing::reset_host_runtime();
  }
}
#endif

TEST_CASE("what does not fit is refused, with operand, value and remedy") {
  ww::stream const s;
  guarded<float> t{std::vector<float>(24)}, y{std::vector<float>(24)};
  guarded<int> index{std::vector<int>(8)};
  float* const null = nullptr;
  int const* const no_index = nullptr;
  auto const col = ew::col(index.data(), 4);
  auto const in = ew::in(t.data(), 24);
  auto const to = [&](float* p, std::size_t n) { return ew::out(p, n); };
  auto const whole = [&](auto const& a) {
    auto const where = ww::source_location::current();
    std::string const text = refusal([&] { ew::run(s, a, where); });
    CHECK(refusal([&] { ew::evaluate_host(a, where); }) == text);
    return text;
  };
  CHECK_THAT(whole(to(y.data(), 8) = ew::gather(ew::in(null, 24), ew::in(index.data(), 8))),
             contains("operand 1 (table) is a null pointer for 8 elements"));
  CHECK_THAT(whole(to(t.data() + 4, 8) = ew::gather(in, ew::in(index.data(), 8))),
             contains("operand 1 (table) spans 96 bytes that overlap the output's 32"));
  CHECK_THAT(whole(to(y.data(), 24) = ew::row_at(in, ew::col(no_index, 4))),
             contains("operand 2 (col) is a null pointer"));
  CHECK_THAT(refusal([&] { static_cast<void>(ew::row_at(in, ew::col(index.data(), 5))); }),
             contains("ew: the table has 24 elements, no whole number of rows of cols = 5"));
  CHECK_THAT(refusal([&] { static_cast<void>(ew::out_at(t.data(), 23, 8, col)); }),
             contains("ew: the table has 23 elements"));
  CHECK_THAT(whole(ew::out_at(t.data(), 24, 4, ew::in(index.data(), 7)) = 1),
             contains("operand 1 (in) has 7 elements, but the output has 4"));
  // The table is longer than what is added: all of it counts.
  for (float* const x : {t.data(), t.data() + 16}) {
    char const* const text = "operand 1 (in) spans 32 bytes that overlap the output's 96";
    auto const add = ew::out_at(t.data(), 24, 8, col) += ew::in(x, 8);
    CHECK_THAT(whole(add), contains(text));
    CHECK_THAT(refusal([&] { ew::run_in_order(s, add); }), contains(text));
    CHECK_THAT(whole(ew::out_at(t.data(), 24, 8, col) = ew::in(x, 8)), contains(text));
  }
  auto* const inside = reinterpret_cast<int*>(t.data() + 20);
  CHECK_THAT(whole(ew::out_at(t.data(), 24, 4, ew::in(inside, 4)) += ew::in(y.data(), 4)),
             contains("operand 2 (in) spans 16 bytes that overlap the output's 96"));
  CHECK_THAT(whole(ew::tie(ew::out_at(t.data(), 24, 8, col) = ew::in(y.data(), 8),
                           ew::out(t.data() + 16, 8) = 1)),
             contains("output 2 overlaps output 1"));
  ew::run(s, ew::out_at(null, 0, 0, ew::in(no_index, 0)) += 1);
  ew::run_in_order(s, ew::out_at(null, 4, 0, ew::col(no_index, 4)) += ew::in(null, 0));
  ew::run(s, ew::out_at(null, 24, 0, ew::col(no_index, 4)) = ew::in(null, 0));
  CHECK(s.done());
}

TEST_CASE("describe and explain name operands and outputs by index") {
  guarded<float> t{std::vector<float>(4000)}, y{std::vector<float>(800)};
  guarded<int> index{std::vector<int>(800)};
  auto const in = ew::in(t.data(), 4000);
  auto const from = ew::in(y.data(), 800);
  auto const to = ew::out(y.data(), 800);
  auto const rows = [&](std::size_t cols) { return ew::col(index.data(), cols); };
  auto const embedding = to = ew::row_at(in, rows(8));
  CHECK(ew::describe(embedding) == "out f32[800] = row_at(f32[4000], col i32[n/8])");
  ew::kernel_plan const by_vectors = ew::plan(embedding);
  CHECK(by_vectors.bytes_read() == 800 * 4 + 100 * 4);
  CHECK((by_vectors.array(1).wide && by_vectors.head_elements() == 0));
  auto const odd = ew::plan(to = ew::row_at(in, rows(5)));
  CHECK_FALSE(odd.array(1).wide);
  CHECK_THAT(odd.explain(), contains("operand 1 (table) is accessed element by element: its rows "
                                     "are not a whole number of vectors of 4 elements"));

  auto const gather = to = ew::gather(in, ew::in(index.data(), 800) + 1);
  CHECK(ew::describe(gather) == "out f32[800] = gather(f32[4000], in i32[800] + 1)");
  CHECK(ew::plan(gather).bytes_read() == 2 * 800 * 4);
  CHECK_THAT(ew::plan(gather).explain(),
             contains("operand 1 (table) is accessed element by element, each where its index"));

  auto const add = ew::out_at(t.data(), 4000, 800, ew::in(index.data(), 800)) += from;
  CHECK(ew::describe(add) == "out_at(f32[4000], 800, in i32[800]) += in f32[800]");
  CHECK_THAT(ew::plan(add).explain(), contains("output 1 is accessed element by element, each"));
  CHECK(ew::describe(ew::out_at(t.data(), 4000, 800, rows(800)) = from) ==
        "out_at(f32[4000], 800, col i32[n/800]) = in f32[800]");
  auto const write = [&](std::size_t cols) {
    return ew::plan(ew::out_at(t.data(), 4000, 800, rows(cols)) = from);
  };
  CHECK((write(8).array(0).wide && !write(5).array(0).wide));
  CHECK(write(8).bytes_written() == 800 * 4);
}
