// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// global_norm() against fp64, for lists of all kinds; the same bits every time.
#include <warpwright/graph.hpp>
#include <warpwright/kernel/global_norm.hpp>
#include <warpwright/memory/pool.hpp>

#include <cmath>
#include <deque>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernel/support.hpp"
#include "kernel/sweep.hpp"
#include "support/catch.hpp"
#include "support/device_memory.hpp"

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>
#endif

namespace ew = warpwright::ew;
namespace ww = warpwright;
using kernel_test::as_double;
using kernel_test::guarded;
using kernel_test::refusal;
using test_support::device_array;

namespace {

// Memory and a result for one list after another.
class global_norm_fixture {
 public:
  explicit global_norm_fixture(ww::stream& s)
      : stream_{s}, memory_{ew::global_norm_workspace_bytes}, single_{1, 1}, double_{1, 1} {
    workspace_.push_back(ew::prepare_workspace(s, memory_.data(), memory_.size()));
  }
  template <class T>
  double of(ew::tensor_list<T> const& list) {
    ew::global_norm(stream_, workspace_[0], list, double_.data());
    ew::global_norm(stream_, workspace_[0], list, single_.data());
    double const exact = double_.fetch(stream_)[0];
    float const rounded = single_.fetch(stream_)[0];
    bool const same =
        rounded == static_cast<float>(exact) || (std::isnan(rounded) && exact != exact);
    CHECK(same);
    CHECK((double_.intact(stream_) && single_.intact(stream_)));
    return exact;
  }
  ew::reduction_workspace const& workspace() const { return workspace_[0]; }

 private:
  ww::stream& stream_;
  device_array<unsigned char> memory_;
  guarded<float> single_;
  guarded<double> double_;
  std::vector<ew::reduction_workspace> workspace_;
};

template <class T>
struct listed {
  std::deque<guarded<T>> memory;
  ew::tensor_list<T const> list;
  double squares = 0;

  void add(std::vector<T> const& values, std::size_t offset) {
    for (T v : values) squares += as_double(v) * as_double(v);
    memory.emplace_back(values, offset);
    list.add(memory.back().data(), values.size());
  }
};

template <class T>
std::vector<T> scattered(std::size_t n, std::uint64_t seed) {
  kernel_test::random_numbers random{seed};
  std::vector<T> values(n);
  for (T& value : values) value = kernel_test::number<T>(2 * random.unit() - 1);
  return values;
}

template <class T>
void check_type(double bound) {
  ww::stream s;
  global_norm_fixture fixture{s};
  std::uint64_t const seed = 31;
  INFO("seed " << seed);
  kernel_test::random_numbers random{seed};
  for (int round = 0; round < 20; round += kernel_test::sanitized ? 4 : 1) {
    listed<T> x;
    std::size_t const count = random.below(round < 10 ? 4 : 60);
    for (std::size_t k = 0; k < count; ++k) {
      std::size_t const n = random.below(5) == 0 ? random.below(60000) : random.below(40);
      x.add(scattered<T>(n, random.next()), random.below(17));
    }
    double const expected = std::sqrt(x.squares);
    double const got = fixture.of(x.list);
    CAPTURE(round, count, got, expected);
    REQUIRE(std::fabs(got - expected) <= bound * expected);
    REQUIRE(fixture.of(x.list) == got);
  }
}

}  // namespace

TEST_CASE("norms of random lists") {
  check_type<float>(0x1p-20);
  check_type<double>(0x1p-40);
  check_type<__half>(0x1p-20);
#if WARPWRIGHT_TEST_EVERY_TYPE
  check_type<__nv_bfloat16>(0x1p-20);
#endif
}

TEST_CASE("sizes around vectors, warps and tiles") {
  ww::stream s;
  global_norm_fixture fixture{s};
  device_array<float> x{std::vector<float>(5000000, 2.0F)};
  for (std::size_t n = 0; n <= kernel_test::most_size; n = kernel_test::next_size(n)) {
    ew::tensor_list<float> list;
    list.add(x.data() + n % 4, n);
    CAPTURE(n);
    REQUIRE(fixture.of(list) == std::sqrt(4.0 * static_cast<double>(n)));
  }
  for (std::size_t tiles : {1U, 2U, 527U, 528U, 529U, 1057U}) {
    if (kernel_test::sanitized && tiles > 2 && tiles != 529) continue;
    for (std::size_t n : {tiles * 4096U - 1U, tiles * 4096U, tiles * 4096U + 1U}) {
      ew::tensor_list<float> list;
      list.add(x.data(), n / 3);
      list.add(x.data() + n / 3, n - n / 3);
      CAPTURE(n);
      REQUIRE(fixture.of(list) == std::sqrt(4.0 * static_cast<double>(n)));
    }
  }
}

TEST_CASE("lists longer than a launch takes, and empty ones") {
  ww::stream s;
  global_norm_fixture fixture{s};
  ew::tensor_list<float> list;
  CHECK(fixture.of(list) == 0);
  list.add(nullptr, 0);
  CHECK(fixture.of(list) == 0);
  std::size_t const count = 2 * ew::tensor_list<float>::tensors_per_launch + 5;
  device_array<float> x{std::vector<float>(count * 3, 1.0F)};
  for (std::size_t k = 0; k < count; ++k) list.add(x.data() + 3 * k, 3);
#if WARPWRIGHT_HOST_RUNTIME
  device_array<float> r{1};
  std::uint64_t const before = ww::testing::total_calls();
  ew::global_norm(s, fixture.workspace(), list, r.data());
  CHECK(ww::testing::total_calls() == before + 3);
#endif
  CHECK(fixture.of(list) == std::sqrt(3.0 * static_cast<double>(count)));
  for (std::size_t k = 0; k < 2 * ew::tensor_list<float>::tensors_per_launch; ++k) {
    list.add(nullptr, 0);
  }
  CHECK(fixture.of(list) == std::sqrt(3.0 * static_cast<double>(count)));
}

TEST_CASE("infinities and NaNs come through, large and small squares as float has them") {
  ww::stream s;
  global_norm_fixture fixture{s};
  auto const norm_with = [&](float special, std::size_t place) {
    std::vector<float> values(10007, 1.0F);
    values[place] = special;
    listed<float> x;
    x.add(values, 1);
    x.add({2.0F}, 0);
    return fixture.of(x.list);
  };
  float const infinity = std::numeric_limits<float>::infinity();
  for (std::size_t place : {0U, 1U, 5000U, 10006U}) {
    CHECK(norm_with(-infinity, place) == static_cast<double>(infinity));
    CHECK(std::isnan(norm_with(std::nanf(""), place)));
  }
  CHECK(norm_with(1e30F, 3) == static_cast<double>(infinity));
  CHECK(norm_with(1e-30F, 3) == std::sqrt(10010.0));
}

TEST_CASE("the host's norm") {
  ew::tensor_list<float const> list;
  std::vector<float> const x(70000, 3.0F);
  list.add(x.data(), 33333);
  list.add(x.data() + 1, 3);
  CHECK(ew::global_norm_host(list) == std::sqrt(9.0 * 33336));
  CHECK(ew::global_norm_host(ew::tensor_list<double>{}) == 0);
}

TEST_CASE("wrong places are refused") {
  ww::stream s;
  device_array<unsigned char> memory{1U << 13U};
  device_array<float> r{4};
  ew::tensor_list<float> list;
  auto const w = ew::prepare_workspace(s, memory.data(), memory.size());
  auto const small = ew::prepare_workspace(s, memory.data(), 4000);
  float* const null = nullptr;
  CHECK_THAT(refusal([&] { ew::global_norm(s, w, list, null); }),
             contains("result 1 is a null pointer") && contains("global_norm_test.cpp:"));
  CHECK_THAT(refusal([&] { ew::global_norm(s, small, list, r.data()); }),
             contains("the workspace has 4000 bytes, but this call needs ") &&
                 contains("global_norm_workspace_bytes"));
  CHECK_THAT(
      refusal([&] { ew::global_norm(s, w, list, reinterpret_cast<float*>(memory.data()) + 100); }),
      contains("into the workspace"));
  CHECK_THAT(refusal([&] {
               ew::global_norm(s, w, list,
                               reinterpret_cast<double*>(reinterpret_cast<char*>(r.data()) + 4));
             }),
             contains("not a multiple of its element's 8 bytes"));
  s.synchronize();
}

TEST_CASE("a graph replays a norm on new values, with a workspace from a pool or not") {
  ww::stream s;
  global_norm_fixture fixture{s};
  std::size_t const n = 300001;
  device_array<float> x{std::vector<float>(n, 1.0F)};
  device_array<float> r{1};
  ew::tensor_list<float> list;
  list.add(x.data(), 1001);
  list.add(x.data() + 1001, n - 1001);
  s.synchronize();
  ww::graph_replay graph;
  graph.recapture(s,
                  [&](ww::stream_ref) { ew::global_norm(s, fixture.workspace(), list, r.data()); });
  CHECK(graph.node_counts().total() == 1);
  for (float value : {1.0F, 3.0F, 2.0F}) {
    std::vector<float> const values(n, value);
    ww::check(cudaMemcpyAsync(x.data(), values.data(), n * sizeof(float), cudaMemcpyHostToDevice,
                              s.get()),
              "cudaMemcpyAsync");
    s.synchronize();
    graph.launch(s);
    CHECK(r.fetch(s)[0] ==
          static_cast<float>(static_cast<double>(value) * std::sqrt(static_cast<double>(n))));
  }

  ww::memory_pool pool{ww::current_device()};
  ew::global_norm(s, pool, list, r.data());
  CHECK(r.fetch(s)[0] == static_cast<float>(2 * std::sqrt(static_cast<double>(n))));
  CHECK(pool.statistics().live_bytes == 0);
  pool.retire(s);
}

#if WARPWRIGHT_HOST_RUNTIME

TEST_CASE("a norm's launch may fail") {
  ww::stream s;
  global_norm_fixture fixture{s};
  device_array<float> x{std::vector<float>(16, 1.0F)};
  ew::tensor_list<float> list;
  list.add(x.data(), 16);
  device_array<float> r{1};
  {
    ww::testing::fault_plan const plan =
        ww::testing::fault_plan{}.fail("cudaLaunchKernel", 1, cudaErrorLaunchOutOfResources);
    ww::testing::scoped_fault_plan const active{plan};
    CHECK_THROWS_WITH(
        ew::global_norm(s, fixture.workspace(), list, r.data()),
        contains("global_norm_test.cpp") && contains("cudaErrorLaunchOutOfResources"));
  }
  CHECK(fixture.of(list) == 4);
}

#endif
