// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The k largest elements of each row, against std::partial_sort with the same order.
#include <warpwright/graph.hpp>
#include <warpwright/kernel/top_k.hpp>
#include <warpwright/memory/pool.hpp>

#include <algorithm>
#include <cmath>

#include "kernel/support.hpp"
#include "support/catch.hpp"
#include "support/device_memory.hpp"
#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/fault_plan.hpp>
#endif

namespace ew = warpwright::ew;
using namespace kernel_test;
using test_support::device_array;

namespace {
bool before(double a, double b) { return a > b || (std::isnan(a) && !std::isnan(b)); }

// Sorted rows are those of which a block keeps as many as it can, and most of all.
enum kind { distinct, ties, equal, special, ascending, descending };
template <class T>
std::vector<T> make(int of, std::size_t n, std::uint64_t seed) {
  random_numbers random{seed};
  bool const whole = std::is_integral<T>::value;
  double const inf = whole ? 100 : HUGE_VAL, nan = whole ? 101 : std::nan("");
  double const specials[] = {0.0, -0.0, inf, -inf, nan, 1, -1, 0x1p-20};
  std::vector<T> x(n);
  for (std::size_t i = 0; i < n; ++i) {
    double const u = random.unit(), way = 200.0 * static_cast<double>(i) / static_cast<double>(n);
    double const v[] = {
        u * 200 - 100, std::floor(u * 9) - 4, -3, specials[random.below(8)], way - 100, 100 - way};
    x[i] = number<T>(std::is_unsigned<T>::value ? v[of] + 101 : v[of]);
  }
  return x;
}

// How many results are not those of std::partial_sort over the same values times `scale`.
template <class T, class V, class I>
std::size_t wrong(std::vector<T> const& x, double scale, std::size_t rows, std::size_t k,
                  V const* values, I const* indices) {
  std::size_t count = 0, cols = x.size() / rows;
  for (std::size_t r = 0; r < rows; ++r) {
    auto const at = [&](std::size_t c) { return as_double(x[r * cols + c]) * scale; };
    std::vector<std::size_t> order(cols);
    for (std::size_t c = 0; c < cols; ++c) order[c] = c;
    auto const less = [&](std::size_t a, std::size_t b) {
      return before(at(a), at(b)) || (!before(at(b), at(a)) && a < b);
    };
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(k), order.end(),
                      less);
    for (std::size_t i = 0; i < k; ++i, ++values, ++indices) {
      double const got = as_double(*values), exact = at(order[i]);
      bool const same =
          std::isnan(exact) ? std::isnan(got) : got == exact && (got != 0 || !std::signbit(got));
      count += !same || static_cast<std::size_t>(*indices) != order[i];
    }
  }
  return count;
}

template <class T, class I = std::int32_t>
void check(std::size_t rows, std::size_t cols, std::size_t k, int of, std::size_t offset = 0) {
  CAPTURE(rows, cols, k, of, offset);
  ww::stream s;
  ww::memory_pool pool{ww::current_device()};
  auto const x = make<T>(of, rows * cols, rows + cols * k);
  guarded<T> const in{x, offset}, values{rows * k, offset};
  guarded<I> const indices{rows * k};
  ew::top_k(s, pool, {rows, cols}, k, ew::in(in.data(), x.size()), values.data(), indices.data());
  auto const got = values.fetch(s);
  auto const at = indices.fetch(s);
  REQUIRE(wrong(x, 1, rows, k, got.data(), at.data()) == 0);
  CHECK((values.intact(s) && indices.intact(s)));
  std::vector<T> here(rows * k);
  std::vector<I> there(rows * k);
  ew::top_k_host({rows, cols}, k, ew::in(x.data(), x.size()), here.data(), there.data());
  CHECK((std::memcmp(here.data(), got.data(), rows * k * sizeof(T)) == 0 && there == at));
}

TEST_CASE("the k largest of rows of every length") {
  for (int of = distinct; of <= descending; ++of) {
    for (std::size_t const cols : {1U, 2U, 31U, 64U, 257U, 1000U, 9001U}) {
      for (std::size_t const k : {1U, 2U, 33U, 50U, 300U, 1024U}) {
        if (k < cols) check<float>(2, cols, k, of, k % 4);
      }
      if (cols <= 1024) check<float>(3, cols, cols, of);
    }
  }
  check<float>(1, 128000, 50, distinct);  // blocks share a row
  check<float>(2, 70001, 1024, ascending, 1);
  check<float>(3, 40000, 7, ties, 3);
  check<float>(140, 9000, 40, ascending);
}

TEST_CASE("the k largest of elements of every type") {
  for (int of = distinct; of <= descending; ++of) {
    check<__half, std::int64_t>(3, 5001, 40, of, 1);
    check<__nv_bfloat16>(2, 40000, 50, of);
    check<std::int32_t, std::uint16_t>(3, 3000, 17, of);
    check<std::int8_t>(2, 20001, 200, of, 3);
    check<std::uint8_t>(2, 500, 500, of);
  }
}

TEST_CASE("an expression's largest elements, converted, without columns, on several streams") {
  ww::memory_pool pool{ww::current_device()};
  ww::stream streams[4];
  std::size_t const rows = 8, cols = 30000, k = 50, n = rows * cols;
  auto const x = make<float>(distinct, n, 5);
  device_array<float> const in{x};
  auto const x_in = ew::in(in.data(), n);
  device_array<float> const row{std::vector<float>(cols, -0.5F)};
  device_array<float> const values{4 * rows * k};
  device_array<int> const indices{4 * rows * k};
  for (std::size_t call = 0; call < 12; ++call) {
    std::size_t const to = call % 4 * rows * k;
    ew::top_k(streams[call % 4], pool, {rows, cols}, k, x_in * ew::row(row.data(), cols),
              values.data() + to, indices.data() + to);
  }
  for (std::size_t j = 0; j < 4; ++j) {
    std::size_t const from = j * rows * k;
    CHECK(wrong(x, -0.5, rows, k, values.fetch(streams[j]).data() + from,
                indices.fetch(streams[j]).data() + from) == 0);
  }
  device_array<double> const wide{rows * k};
  ew::top_k(streams[0], pool, {rows, cols}, k, x_in, wide.data(), static_cast<int*>(nullptr));
  CHECK(static_cast<float>(wide.fetch(streams[0])[0]) ==
        *std::max_element(x.begin(), x.begin() + cols));
  ww::graph_replay graph;
  graph.recapture(streams[0], [&](ww::stream_ref s) {
    ew::top_k(s, pool, {100, 2400}, 9, x_in, values.data(), indices.data());
  });
  CHECK(graph.node_counts().total() == 1);
  graph.launch(streams[0]);
  CHECK(wrong(x, 1, 100, 9, values.fetch(streams[0]).data(), indices.fetch(streams[0]).data()) ==
        0);
}

TEST_CASE("what top_k() refuses, and what fails in it") {
  ww::stream s;
  ww::memory_pool pool{ww::current_device()};
  ww::memory_pool small{ww::current_device(), ww::memory_pool_options{}.max_bytes(1024)};
  device_array<float> const x{std::vector<float>(40000, 1.0F)};
  device_array<float> const v{4000};
  device_array<int> const i{4000};
  auto const e = ew::in(x.data(), 40000);
  auto const call = [&](std::size_t rows, std::size_t cols, int k, float* to, int* at) {
    return refusal([&] {
      ew::top_k(s, pool, {rows, cols}, static_cast<std::uint64_t>(k), e, to, at);
    });
  };
  CHECK_THAT(call(2, 20000, 1025, v.data(), i.data()), contains("k = 1025 in rows of 20000"));
  CHECK_THAT(call(10000, 4, 5, v.data(), i.data()), contains("k = 5 in rows of 4"));
  CHECK_THAT(call(10000, 4, -1, v.data(), i.data()), contains("(-1 if signed)"));
  CHECK_THAT(call(2, 20000, 5, nullptr, i.data()), contains("result 1 is a null pointer"));
  CHECK_THAT(call(2, 20000, 5, x.data() + 3, i.data()), contains("overlaps operand 1"));
  auto* const same = reinterpret_cast<int*>(v.data() + 9);
  CHECK_THAT(call(2, 20000, 5, v.data(), same), contains("result 2"));
  CHECK(call(2, 20000, 0, nullptr, nullptr) == "accepted");
  CHECK_THROWS_AS(ew::top_k(s, small, {2, 20000}, 500, e, v.data(), i.data()), ww::out_of_memory);
#if WARPWRIGHT_HOST_RUNTIME
  for (unsigned const nth : {1U, 2U}) {
    ww::testing::fault_plan const plan =
        ww::testing::fault_plan{}.fail("cudaLaunchKernel", nth, cudaErrorLaunchOutOfResources);
    ww::testing::scoped_fault_plan const active{plan};
    CHECK_THROWS_AS(call(2, 20000, 5, v.data(), i.data()), ww::cuda_error);
  }
#endif
  CHECK(call(2, 20000, 5, v.data(), i.data()) == "accepted");
  CHECK(i.fetch(s)[4] == 4);
}

}  // namespace
