// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The k largest elements of each row, against std::partial_sort with the same order.
#include <warpwright/graph.hpp>
#include <warpwright/kernel/functions.hpp>
#include <warpwright/kernel/top_k.hpp>
#include <warpwright/memory/pool.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "kernel/support.hpp"
#include "support/catch.hpp"
#include "support/device_memory.hpp"

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/fault_plan.hpp>
#endif

namespace ew = warpwright::ew;
namespace ww = warpwright;
using kernel_test::as_double;
using kernel_test::guarded;
using kernel_test::number;
using kernel_test::random_numbers;
using kernel_test::refusal;
using test_support::device_array;

namespace {

bool before(double a, double b) { return a > b || (std::isnan(a) && !std::isnan(b)); }

// Values that differ, few different ones, all equal, those of both signs with all that is special,
// and sorted ones, of which a block keeps as many as it can.
enum class kind { distinct, ties, equal, special, ascending, descending };
constexpr kind all_kinds[] = {kind::distinct, kind::ties,      kind::equal,
                              kind::special,  kind::ascending, kind::descending};

template <class T>
std::vector<T> make(kind of, std::size_t n, std::uint64_t seed) {
  random_numbers random{seed};
  double const inf = std::is_integral<T>::value ? 100 : std::numeric_limits<double>::infinity();
  double const nan = std::is_integral<T>::value ? 101 : std::numeric_limits<double>::quiet_NaN();
  double const special[] = {0.0, -0.0, inf, -inf, nan, 1, -1, 0x1p-20};
  std::vector<T> x(n);
  for (std::size_t i = 0; i < n; ++i) {
    double const u = random.unit();
    double v = (u - 0.5) * 200;
    if (of == kind::ties) v = std::floor(u * 9) - 4;
    if (of == kind::equal) v = -3;
    if (of == kind::special) v = special[random.below(8)];
    if (of == kind::ascending) v = static_cast<double>(i) / static_cast<double>(n) * 200 - 100;
    if (of == kind::descending) v = 100 - static_cast<double>(i) / static_cast<double>(n) * 200;
    x[i] = number<T>(v);
  }
  return x;
}

// How many results are not those of std::partial_sort over the same values times `scale`.
template <class T, class V, class I>
std::size_t wrong(std::vector<T> const& x, double scale, std::size_t rows, std::size_t k,
                  std::vector<V> const& values, std::vector<I> const& indices) {
  std::size_t const cols = x.size() / rows;
  std::size_t count = 0;
  for (std::size_t r = 0; r < rows; ++r) {
    auto const at = [&](std::size_t c) { return as_double(x[r * cols + c]) * scale; };
    std::vector<std::size_t> order(cols);
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(k), order.end(),
                      [&](std::size_t a, std::size_t b) {
                        if (before(at(a), at(b)) || before(at(b), at(a)))
                          return before(at(a), at(b));
                        return a < b;
                      });
    for (std::size_t i = 0; i < k; ++i) {
      double const got = as_double(values[r * k + i]), exact = at(order[i]);
      bool const same =
          std::isnan(exact) ? std::isnan(got) : got == exact && (got != 0 || !std::signbit(got));
      count += !same || static_cast<std::size_t>(indices[r * k + i]) != order[i];
    }
  }
  return count;
}

template <class T, class I = std::int32_t>
void check(std::size_t rows, std::size_t cols, std::size_t k, kind of, std::size_t offset = 0) {
  CAPTURE(rows, cols, k, static_cast<int>(of), offset);
  ww::stream s;
  ww::memory_pool pool{ww::current_device()};
  auto const x = make<T>(of, rows * cols, rows + cols * k);
  guarded<T> const in{x, offset};
  guarded<T> const values{rows * k, offset};
  guarded<I> const indices{rows * k};
  ew::top_k(s, pool, {rows, cols}, k, ew::in(in.data(), x.size()), values.data(), indices.data());
  auto const got = values.fetch(s);
  auto const at = indices.fetch(s);
  REQUIRE(values.intact(s));
  REQUIRE(indices.intact(s));
  REQUIRE(wrong(x, 1, rows, k, got, at) == 0);
  std::vector<T> here(rows * k);
  std::vector<I> there(rows * k);
  ew::top_k_host({rows, cols}, k, ew::in(x.data(), x.size()), here.data(), there.data());
  CHECK(std::memcmp(here.data(), got.data(), rows * k * sizeof(T)) == 0);
  CHECK(there == at);
  pool.retire(s);
}

TEST_CASE("the k largest of rows of every length") {
  for (kind const of : all_kinds) {
    for (std::size_t const cols : {1U, 2U, 31U, 64U, 257U, 1000U, 9001U}) {
      for (std::size_t const k : {1U, 2U, 33U, 50U, 300U, 1024U}) {
        if (k < cols) check<float>(2, cols, k, of, k % 4);
      }
      if (cols <= 1024) check<float>(3, cols, cols, of);
    }
  }
  check<float>(1, 128000, 50, kind::distinct);  // blocks share a row
  check<float>(2, 70001, 1024, kind::ascending, 1);
  check<float>(3, 40000, 7, kind::ties, 3);
  check<float>(140, 9000, 40, kind::ascending);
}

TEST_CASE("the k largest of elements of every type") {
  for (kind const of : all_kinds) {
    check<__half, std::int64_t>(3, 5001, 40, of, 1);
    check<__nv_bfloat16>(2, 40000, 50, of);
    check<std::int32_t, std::uint16_t>(3, 3000, 17, of);
    check<std::int8_t>(2, 20001, 200, of, 3);
    check<std::uint8_t>(2, 500, 500, of == kind::equal ? kind::ascending : of);
  }
}

TEST_CASE("an expression's largest elements, converted, without columns, on several streams") {
  ww::memory_pool pool{ww::current_device()};
  ww::stream streams[4];
  std::size_t const rows = 8, cols = 30000, k = 50, n = rows * cols;
  auto const x = make<float>(kind::distinct, n, 5);
  device_array<float> const in{x};
  device_array<float> const row{std::vector<float>(cols, -0.5F)};
  device_array<float> const values{4 * rows * k};
  device_array<std::int32_t> const indices{4 * rows * k};
  for (int round = 0; round < 3; ++round) {
    for (std::size_t j = 0; j < 4; ++j) {
      ew::top_k(streams[j], pool, {rows, cols}, k, ew::in(in.data(), n) * ew::row(row.data(), cols),
                values.data() + j * rows * k, indices.data() + j * rows * k);
    }
  }
  for (ww::stream const& s : streams) s.synchronize();
  auto const got = values.fetch(streams[0]);
  auto const at = indices.fetch(streams[0]);
  for (std::size_t j = 0; j < 4; ++j) {
    auto const part = [&](auto const& all) {
      auto const begin = all.begin() + static_cast<std::ptrdiff_t>(j * rows * k);
      return std::decay_t<decltype(all)>(begin, begin + static_cast<std::ptrdiff_t>(rows * k));
    };
    CHECK(wrong(x, -0.5, rows, k, part(got), part(at)) == 0);
  }
  device_array<double> const wide{rows * k};
  ew::top_k(streams[0], pool, {rows, cols}, k, ew::in(in.data(), n), wide.data(),
            static_cast<int*>(nullptr));
  CHECK(wide.fetch(streams[0])[0] ==
        static_cast<double>(*std::max_element(x.begin(), x.begin() + cols)));
  ww::graph_replay graph;
  graph.recapture(streams[0], [&](ww::stream_ref s) {
    ew::top_k(s, pool, {100, 2400}, 9, ew::in(in.data(), n), values.data(), indices.data());
  });
  CHECK(graph.node_counts().total() == 1);
  graph.launch(streams[0]);
  CHECK(wrong(x, 1, 100, 9, values.fetch(streams[0]), indices.fetch(streams[0])) == 0);
}

TEST_CASE("what top_k() refuses, and what fails in it") {
  ww::stream s;
  ww::memory_pool pool{ww::current_device()};
  device_array<float> const x{std::vector<float>(40000, 1.0F)};
  device_array<float> const v{4000};
  device_array<int> const i{4000};
  auto const call = [&](ew::matrix_shape const& shape, long long k, float* values, int* indices) {
    return refusal([&] {
      ew::top_k(s, pool, shape, static_cast<std::uint64_t>(k), ew::in(x.data(), 40000), values,
                indices);
    });
  };
  CHECK_THAT(call({2, 20000}, 1025, v.data(), i.data()), contains("k = 1025 in rows of 20000"));
  CHECK_THAT(call({10000, 4}, 5, v.data(), i.data()), contains("k = 5 in rows of 4"));
  CHECK_THAT(call({10000, 4}, -1, v.data(), i.data()), contains("(-1 if signed)"));
  CHECK_THAT(call({3, 20000}, 5, v.data(), i.data()),
             contains("operand 1 (in) has 40000 elements"));
  CHECK_THAT(call({2, 20000}, 5, nullptr, i.data()), contains("result 1 is a null pointer"));
  CHECK_THAT(call({2, 20000}, 5, x.data() + 3, i.data()), contains("result 1 overlaps operand 1"));
  CHECK_THAT(call({2, 20000}, 5, v.data(), reinterpret_cast<int*>(v.data() + 9)),
             contains("result 2"));
  CHECK(call({2, 20000}, 0, nullptr, nullptr) == "accepted");
  CHECK(pool.statistics().live_bytes == 0);
#if WARPWRIGHT_HOST_RUNTIME
  for (unsigned const nth : {1U, 2U}) {
    ww::testing::fault_plan const plan =
        ww::testing::fault_plan{}.fail("cudaLaunchKernel", nth, cudaErrorLaunchOutOfResources);
    ww::testing::scoped_fault_plan const active{plan};
    CHECK_THROWS_AS(call({2, 20000}, 5, v.data(), i.data()), ww::cuda_error);
    CHECK(active.hits() == 1);
  }
#endif
  CHECK(call({2, 20000}, 5, v.data(), i.data()) == "accepted");
  CHECK(i.fetch(s)[4] == 4);
}

}  // namespace
