// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// norm_each() and max_norm_each() against fp64, for lists of all kinds; the same bits every time.
#include <warpwright/graph.hpp>
#include <warpwright/kernel/global_norm.hpp>
#include <warpwright/kernel/tensor_norms.hpp>
#include <warpwright/memory/pool.hpp>

#include <cmath>
#include <cstring>
#include <deque>
#include <limits>
#include <stdexcept>
#include <string>
#include <thread>
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
using kernel_test::random_numbers;
using kernel_test::refusal;
using test_support::device_array;

namespace {

constexpr double unwritten = -7;

template <class T>
bool same_bits(std::vector<T> const& a, std::vector<T> const& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

// Both norms of each tensor, in double.
struct both_norms {
  std::vector<double> two;
  std::vector<double> max;
};

// A workspace for one list after another.
class tensor_norms_fixture {
 public:
  explicit tensor_norms_fixture(ww::stream& s)
      : stream_{s}, memory_{ew::norm_each_workspace_bytes} {
    workspace_.push_back(ew::prepare_workspace(s, memory_.data(), memory_.size()));
  }
  // Of double and rounded to float; nothing is written beside them.
  template <class T>
  both_norms of(ew::tensor_list<T> const& list) {
    both_norms norms;
    norms.two = of(list, [&](auto* to) { ew::norm_each(stream_, workspace(), list, to); });
    norms.max = of(list, [&](auto* to) { ew::max_norm_each(stream_, workspace(), list, to); });
    return norms;
  }
  ew::reduction_workspace const& workspace() const { return workspace_[0]; }
  // Whether all tickets are back at 0.
  bool is_prepared() const {
    std::vector<unsigned char> const all = memory_.fetch(stream_);
    for (std::size_t k = 0; k < 2048; ++k) {
      if (all[k] != 0) return false;
    }
    return true;
  }

 private:
  template <class T, class Run>
  std::vector<double> of(ew::tensor_list<T> const& list, Run run) {
    guarded<double> exact{std::vector<double>(list.size(), unwritten), 1};
    guarded<float> rounded{std::vector<float>(list.size(), static_cast<float>(unwritten)), 1};
    run(exact.data());
    run(rounded.data());
    std::vector<double> const norms = exact.fetch(stream_);
    std::vector<float> const singles = rounded.fetch(stream_);
    std::size_t wrong = 0;
    for (std::size_t k = 0; k < norms.size(); ++k) {
      bool const same = singles[k] == static_cast<float>(norms[k]) ||
                        (std::isnan(singles[k]) && std::isnan(norms[k]));
      wrong += !same;
    }
    CHECK(wrong == 0);
    CHECK((exact.intact(stream_) && rounded.intact(stream_)));
    return norms;
  }

  ww::stream& stream_;
  device_array<unsigned char> memory_;
  std::vector<ew::reduction_workspace> workspace_;
};

// Tensors of their own memory, and what their norms are.
template <class T>
struct listed {
  std::deque<guarded<T>> memory;
  ew::tensor_list<T const> list;
  both_norms expected;

  void add(std::vector<T> const& values, std::size_t offset) {
    double squares = 0;
    double largest = 0;
    for (T v : values) {
      double const x = as_double(v);
      squares += x * x;
      largest = std::fabs(x) > largest ? std::fabs(x) : largest;
    }
    expected.two.push_back(std::sqrt(squares));
    expected.max.push_back(largest);
    memory.emplace_back(values, offset);
    list.add(memory.back().data(), values.size());
  }
  // How many norms are wrong: the 2-norm past `bound`, the max-norm at all.
  std::size_t wrong(both_norms const& got, double bound) const {
    if (got.two.size() != expected.two.size() || got.max.size() != expected.max.size()) {
      return expected.two.size() + 1;
    }
    std::size_t count = 0;
    for (std::size_t k = 0; k < got.two.size(); ++k) {
      count += !(std::fabs(got.two[k] - expected.two[k]) <= bound * expected.two[k]);
      count += got.max[k] != expected.max[k];
    }
    return count;
  }
};

template <class T>
std::vector<T> scattered(std::size_t n, std::uint64_t seed) {
  random_numbers random{seed};
  std::vector<T> values(n);
  for (T& value : values) value = kernel_test::number<T>(2 * random.unit() - 1);
  return values;
}

template <class T>
void check_type(double bound) {
  ww::stream s;
  tensor_norms_fixture fixture{s};
  std::uint64_t const seed = 47;
  INFO("seed " << seed);
  random_numbers random{seed};
  for (int round = 0; round < 20; round += kernel_test::sanitized ? 4 : 1) {
    listed<T> x;
    std::size_t const count = random.below(round < 10 ? 4 : 60);
    for (std::size_t k = 0; k < count; ++k) {
      std::size_t const n = random.below(5) == 0 ? random.below(60000) : random.below(40);
      x.add(scattered<T>(n, random.next()), random.below(17));
    }
    both_norms const got = fixture.of(x.list);
    CAPTURE(round, count);
    REQUIRE(x.wrong(got, bound) == 0);
    both_norms const again = fixture.of(x.list);
    REQUIRE((same_bits(got.two, again.two) && same_bits(got.max, again.max)));
  }
  CHECK(fixture.is_prepared());
}

// Runs the blocks of a norm's kernel on the calling thread in another order than a grid's.
struct in_random_order {
  random_numbers& random;
  template <class Kernel>
  void operator()(std::uint64_t blocks, unsigned threads, Kernel const& kernel, char const*) const {
    std::vector<unsigned> order;
    for (unsigned b = 0; b < blocks; ++b) order.push_back(b);
    for (std::size_t k = order.size(); k > 1; --k) std::swap(order[k - 1], order[random.below(k)]);
    for (unsigned b : order) {
      ww::detail::host_block<Kernel> block{b, static_cast<unsigned>(blocks), threads};
      kernel(block);
    }
  }
};

#if WARPWRIGHT_HOST_RUNTIME
// The n-th call of a function fails in norm_each(): the error's text, or "none".
template <class Run>
std::string failure(char const* function, std::uint64_t nth, cudaError_t code, Run run) {
  ww::testing::fault_plan const plan = ww::testing::fault_plan{}.fail(function, nth, code);
  ww::testing::scoped_fault_plan const active{plan};
  try {
    run();
  } catch (ww::cuda_error const& error) {
    return error.what();
  }
  return "none";
}
#endif

}  // namespace

TEST_CASE("norms of each tensor of random lists") {
  check_type<float>(0x1p-20);
  check_type<double>(0x1p-40);
  check_type<__half>(0x1p-20);
#if WARPWRIGHT_TEST_EVERY_TYPE
  check_type<__nv_bfloat16>(0x1p-20);
#endif
}

TEST_CASE("each tensor's norm, for sizes around vectors and warps") {
  ww::stream s;
  tensor_norms_fixture fixture{s};
  std::size_t const most = 4096;
  device_array<float> x{std::vector<float>(3 * most + 16, 2.0F)};
  std::vector<double> norm_of(most + 1);
  for (std::size_t n = 0; n <= most; ++n) norm_of[n] = std::sqrt(4.0 * static_cast<double>(n));
  for (std::size_t n = 0; n <= most; n = kernel_test::next_size(n)) {
    ew::tensor_list<float const> list;
    list.add(x.data() + n % 4, n);
    list.add(x.data() + most + 5, 1);
    list.add(x.data() + most + 6 + n % 3, most - n);
    list.add(x.data(), n / 2);
    both_norms const got = fixture.of(list);
    CAPTURE(n);
    REQUIRE(got.two ==
            std::vector<double>{norm_of[n], norm_of[1], norm_of[most - n], norm_of[n / 2]});
    REQUIRE(got.max ==
            std::vector<double>{n == 0 ? 0.0 : 2.0, 2.0, n == most ? 0.0 : 2.0, n < 2 ? 0.0 : 2.0});
  }
}

TEST_CASE("each tensor's norm, for sizes around a block's chunks") {
  ww::stream s;
  tensor_norms_fixture fixture{s};
  std::size_t const tile = 4096;
  device_array<float> x{std::vector<float>(1100 * tile, 2.0F)};
  for (std::size_t tiles : {1U, 2U, 511U, 512U, 513U, 1025U}) {
    if (kernel_test::sanitized && tiles > 2 && tiles != 513) continue;
    for (std::size_t n : {tiles * tile - 1U, tiles * tile, tiles * tile + 1U}) {
      for (std::size_t parts : {1U, 3U}) {  // alone, or a third and the rest
        ew::tensor_list<float const> list;
        std::size_t const first = parts == 1 ? 0 : n / 3;
        list.add(x.data(), first);
        list.add(x.data() + first, n - first);
        list.add(x.data() + 1, 5);
        CAPTURE(n, parts);
        REQUIRE(fixture.of(list).two ==
                std::vector<double>{std::sqrt(4.0 * static_cast<double>(first)),
                                    std::sqrt(4.0 * static_cast<double>(n - first)),
                                    std::sqrt(20.0)});
      }
    }
  }
  CHECK(fixture.is_prepared());
}

TEST_CASE("tensors of 1 to millions of elements in one list, misaligned") {
  ww::stream s;
  tensor_norms_fixture fixture{s};
  std::uint64_t const seed = 48;
  INFO("seed " << seed);
  random_numbers random{seed};
  listed<float> x;
  std::size_t const millions = kernel_test::sanitized ? 250000U : 2500000U;
  for (std::size_t n : {std::size_t{1}, millions, std::size_t{3}, std::size_t{1}, std::size_t{0},
                        std::size_t{4096}, std::size_t{4097}, millions / 4 + 1, std::size_t{16},
                        std::size_t{1}, std::size_t{100000}}) {
    x.add(scattered<float>(n, random.next()), random.below(5));
  }
  for (int k = 0; k < kernel_test::rounds(300); ++k) {
    x.add(scattered<float>(random.below(9000), random.next()), random.below(5));
  }
  both_norms const got = fixture.of(x.list);
  CHECK(x.wrong(got, 0x1p-20) == 0);
  for (int run = 0; run < 3; ++run) CHECK(same_bits(fixture.of(x.list).two, got.two));
  // All of them together are the norm of these norms.
  device_array<unsigned char> memory{ew::global_norm_workspace_bytes};
  device_array<double> all{1};
  ew::global_norm(s, ew::prepare_workspace(s, memory.data(), memory.size()), x.list, all.data());
  double squares = 0;
  for (double norm : got.two) squares += norm * norm;
  CHECK(std::fabs(all.fetch(s)[0] - std::sqrt(squares)) <= 0x1p-19 * std::sqrt(squares));
}

TEST_CASE("norms of lists longer than a launch takes, of empty tensors, and of none") {
  ww::stream s;
  tensor_norms_fixture fixture{s};
  ew::tensor_list<float const> list;
  float* const null = nullptr;
  ew::norm_each(s, fixture.workspace(), list, null);  // nothing is written
  for (int k = 0; k < 3; ++k) list.add(nullptr, 0);
  CHECK(fixture.of(list).two == std::vector<double>(3, 0.0));
  CHECK(fixture.of(list).max == std::vector<double>(3, 0.0));
  std::size_t const launches = 3;
  std::size_t const count = (launches - 1) * ew::tensor_list<float const>::tensors_per_launch + 5;
  device_array<float> x{std::vector<float>(count + 7, 1.0F)};
  std::vector<double> expected(3, 0.0);
  while (list.size() != count) {
    std::size_t const n = list.size() % 7;
    list.add(x.data() + list.size(), n);
    expected.push_back(std::sqrt(static_cast<double>(n)));
  }
  both_norms const got = fixture.of(list);
  CHECK(got.two == expected);
#if WARPWRIGHT_HOST_RUNTIME
  device_array<float> r{count};
  std::uint64_t const before = ww::testing::total_calls();
  ew::norm_each(s, fixture.workspace(), list, r.data());
  CHECK(ww::testing::total_calls() == before + launches);
  s.synchronize();
#endif
}

TEST_CASE("infinities and NaNs come through into their own tensor's norms alone") {
  ww::stream s;
  tensor_norms_fixture fixture{s};
  float const infinity = std::numeric_limits<float>::infinity();
  auto const with = [&](std::initializer_list<float> special, std::size_t place) {
    std::vector<float> values(50007, 1.0F);
    std::size_t k = place;
    for (float v : special) values[k++ % values.size()] = v;
    listed<float> x;
    x.add({2.0F}, 0);
    x.add(values, 1);
    x.add({-3.0F, 4.0F}, 0);
    both_norms const got = fixture.of(x.list);
    CHECK((got.two[0] == 2 && got.max[0] == 2));
    CHECK((got.two[2] == 5 && got.max[2] == 4));
    return both_norms{{got.two[1]}, {got.max[1]}};
  };
  float const nan = std::nanf("");
  for (std::size_t place : {0U, 1U, 2U, 25000U, 50005U, 50006U}) {
    CAPTURE(place);
    both_norms const infinite = with({-infinity}, place);
    CHECK(infinite.two[0] == static_cast<double>(infinity));
    CHECK(infinite.max[0] == static_cast<double>(infinity));
    for (both_norms const& got : {with({nan}, place), with({nan, infinity, nan}, place),
                                  with({-infinity, nan, infinity}, place)}) {
      CHECK(std::isnan(got.two[0]));
      CHECK(std::isnan(got.max[0]));
    }
  }
  // Squares as float has them; magnitudes as they are.
  CHECK(with({1e30F}, 3).two[0] == static_cast<double>(infinity));
  CHECK(with({-1e30F}, 3).max[0] == static_cast<double>(1e30F));
  CHECK(with({1e-30F}, 3).two[0] == std::sqrt(50006.0));
  listed<double> wide;
  wide.add({3e100, -4e100}, 0);
  both_norms const got = fixture.of(wide.list);
  CHECK(wide.wrong(got, 0x1p-40) == 0);
}

TEST_CASE("every chunk of a tensor is in its norm once, in whatever order blocks end") {
  namespace detail = ew::detail;
  using layout = detail::norm_layout<detail::norm_scope::each_tensor>;
  std::uint64_t const seed = 49;
  INFO("seed " << seed);
  random_numbers random{seed};
  std::size_t const most = std::size_t{1} << (kernel_test::sanitized ? 19U : 22U);
  std::vector<float> const ones(most, 1.0F);
  alignas(16) static unsigned char workspace[layout::bytes];
  for (int round = 0; round < kernel_test::rounds(40); ++round) {
    ew::tensor_list<float const> list;
    std::vector<double> expected;
    std::size_t left = most;
    while (left != 0 && list.size() < 2000) {
      bool const large = random.below(9) == 0;
      std::size_t const n = random.below((large ? most / (1 + random.below(100)) : 9000) + 1);
      list.add(ones.data(), n < left ? n : left);
      left -= n < left ? n : left;
    }
    std::vector<double> norms(list.size(), unwritten);
    auto const& all = detail::list_access::tensors(list);
    for (auto const& tensor : all) expected.push_back(std::sqrt(static_cast<double>(tensor.size)));
    detail::run_norm<detail::two_norm, detail::norm_scope::each_tensor, float>(
        in_random_order{random}, all, workspace, norms.data(), "");
    CAPTURE(round, list.size());
    REQUIRE(norms == expected);
    double norm = unwritten;
    detail::run_norm<detail::two_norm, detail::norm_scope::all_tensors, float>(
        in_random_order{random}, all, workspace, &norm, "");
    REQUIRE(norm == std::sqrt(static_cast<double>(list.elements())));
  }
  for (std::size_t k = 0; k < detail::workspace_head_bytes; ++k) REQUIRE(workspace[k] == 0);
}

TEST_CASE("blocks take every chunk once, of few and of very many") {
  using ew::detail::block_of;
  using ew::detail::first_chunk_of;
  for (unsigned blocks : {1U, 2U, 511U, 512U}) {
    for (unsigned chunks : {512U, 513U, 1000U, 65537U, 0x7fffffffU}) {
      std::size_t wrong = first_chunk_of(0, chunks, blocks) != 0;
      wrong += first_chunk_of(blocks, chunks, blocks) != chunks;
      for (unsigned b = 0; b < blocks; ++b) {
        unsigned const begin = first_chunk_of(b, chunks, blocks);
        unsigned const end = first_chunk_of(b + 1, chunks, blocks);
        wrong += begin >= end || end - begin > chunks / blocks + 1;
        wrong += block_of(begin, chunks, blocks) != b || block_of(end - 1, chunks, blocks) != b;
      }
      CAPTURE(blocks, chunks);
      REQUIRE(wrong == 0);
    }
  }
}

TEST_CASE("each tensor's norm on the host") {
  ew::tensor_list<float const> list;
  std::vector<float> const x(70000, -3.0F);
  list.add(x.data(), 33333);
  list.add(nullptr, 0);
  list.add(x.data() + 1, 3);
  std::vector<double> norms(4, unwritten);
  ew::norm_each_host(list, norms.data());
  CHECK(norms == std::vector<double>{std::sqrt(9.0 * 33333), 0.0, std::sqrt(27.0), unwritten});
  std::vector<float> singles(4, -1.0F);
  ew::max_norm_each_host(list, singles.data());
  CHECK(singles == std::vector<float>{3.0F, 0.0F, 3.0F, -1.0F});
  double* const null = nullptr;
  ew::norm_each_host(ew::tensor_list<double>{}, null);
}

TEST_CASE("wrong places for each tensor's norm are refused") {
  ww::stream s;
  device_array<unsigned char> memory{1U << 14U};
  device_array<float> r{8};
  device_array<float> x{16};
  ew::tensor_list<float> list;
  list.add(x.data() + 8, 8);
  list.add(x.data(), 8);
  list.add(r.data(), 0);
  auto const w = ew::prepare_workspace(s, memory.data(), memory.size());
  auto const small = ew::prepare_workspace(s, memory.data(), 10000);
  auto const text = [&](ew::reduction_workspace const& workspace, auto* to) {
    return refusal([&] { ew::norm_each(s, workspace, list, to); });
  };
  float* const null = nullptr;
  CHECK_THAT(text(w, null),
             contains("result 1 is a null pointer") && contains("tensor_norms_test.cpp:"));
  CHECK_THAT(text(small, r.data()),
             contains("the workspace has 10000 bytes, but this call needs 10240") &&
                 contains("norm_each_workspace_bytes") && contains("tensor_norms_test.cpp:"));
  CHECK_THAT(refusal([&] { ew::max_norm_each(s, small, list, r.data()); }),
             contains("norm_each_workspace_bytes"));
  CHECK_THAT(text(w, reinterpret_cast<float*>(memory.data()) + 100),
             contains("into the workspace"));
  CHECK_THAT(text(w, reinterpret_cast<double*>(reinterpret_cast<char*>(r.data()) + 4)),
             contains("not a multiple of its element's 8 bytes"));
  CHECK_THAT(text(w, x.data() + 7),
             contains("tensor 1 overlaps the norms") && contains("tensor_norms_test.cpp:"));
  CHECK_THAT(text(w, x.data() + 2), contains("tensor 2 overlaps the norms"));
  CHECK(text(w, r.data()) == "accepted");  // which an empty tensor's address is no obstacle to
  s.synchronize();
}

TEST_CASE("a graph replays each tensor's norm on new values, with a workspace from a pool or not") {
  ww::stream s;
  tensor_norms_fixture fixture{s};
  std::size_t const n = 300001;
  device_array<float> x{std::vector<float>(n, 1.0F)};
  device_array<float> r{3};
  device_array<double> m{3};
  ew::tensor_list<float> list;
  list.add(x.data(), 1001);
  list.add(x.data() + 1001, n - 1001);
  list.add(nullptr, 0);
  s.synchronize();
  ww::graph_replay graph;
  graph.recapture(s, [&](ww::stream_ref) {
    ew::norm_each(s, fixture.workspace(), list, r.data());
    ew::max_norm_each(s, fixture.workspace(), list, m.data());
  });
  list.clear();  // the graph has its own copy
  CHECK(graph.node_counts().total() == 2);
  auto const expected = [&](double value) {
    return std::vector<float>{static_cast<float>(value * std::sqrt(1001.0)),
                              static_cast<float>(value * std::sqrt(n - 1001.0)), 0.0F};
  };
  for (float value : {1.0F, 3.0F, 2.0F}) {
    std::vector<float> const values(n, value);
    ww::check(cudaMemcpyAsync(x.data(), values.data(), n * sizeof(float), cudaMemcpyHostToDevice,
                              s.get()),
              "cudaMemcpyAsync");
    s.synchronize();
    for (int replay = 0; replay < 3; ++replay) {
      graph.launch(s);
    }
    double const v = static_cast<double>(value);
    CHECK(r.fetch(s) == expected(v));
    CHECK(m.fetch(s) == std::vector<double>{v, v, 0.0});
  }

  ww::memory_pool pool{ww::current_device()};
  list.add(x.data() + 1001, n - 1001);
  ew::norm_each(s, pool, list, r.data());
  CHECK(r.fetch(s)[0] == expected(2)[1]);
  ew::max_norm_each(s, pool, list, r.data());
  CHECK(r.fetch(s)[0] == 2);
  CHECK(pool.statistics().live_bytes == 0);
  CHECK_THAT(refusal([&] { ew::norm_each(s, pool, list, x.data() + n - 1); }),
             contains("tensor 1 overlaps the norms"));
  CHECK(pool.statistics().live_bytes == 0);
  pool.retire(s);
}

TEST_CASE("a pool without room for the workspace of each tensor's norm says so") {
  ww::stream s;
  device_array<float> x{std::vector<float>(16, 1.0F)};
  device_array<float> r{std::vector<float>(1, -1.0F)};
  ew::tensor_list<float> list;
  list.add(x.data(), 16);
  ww::memory_pool small{ww::current_device(), ww::memory_pool_options{}.maximum_bytes(1024)};
  CHECK_THROWS_AS(ew::norm_each(s, small, list, r.data()), ww::out_of_memory);
  CHECK_THROWS_AS(ew::max_norm_each(s, small, list, r.data()), ww::out_of_memory);
  CHECK(small.statistics().live_bytes == 0);
  CHECK(r.fetch(s)[0] == -1);
}

TEST_CASE("several threads take norms of one list, each on its stream") {
  std::uint64_t const seed = 50;
  INFO("seed " << seed);
  random_numbers random{seed};
  listed<float> x;
  for (int k = 0; k < 30; ++k) x.add(scattered<float>(random.below(20000), random.next()), 1);
  ww::memory_pool pool{ww::current_device()};
  std::vector<std::size_t> wrong(4, 0);
  std::vector<std::thread> threads;
  for (std::size_t k = 0; k < wrong.size(); ++k) {
    threads.emplace_back([&, k] {
      ww::stream s;
      device_array<double> r{x.list.size()};
      device_array<double> m{x.list.size()};
      for (int run = 0; run < 10; ++run) {
        ew::norm_each(s, pool, x.list, r.data());
        ew::max_norm_each(s, pool, x.list, m.data());
        wrong[k] += x.wrong({r.fetch(s), m.fetch(s)}, 0x1p-20);
      }
      pool.retire(s);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == std::vector<std::size_t>(4, 0));
}

#if WARPWRIGHT_HOST_RUNTIME

TEST_CASE("launches of each tensor's norm may fail") {
  ww::stream s;
  tensor_norms_fixture fixture{s};
  std::size_t const count = ew::tensor_list<float>::tensors_per_launch + 1;
  device_array<float> x{std::vector<float>(count, 1.0F)};
  ew::tensor_list<float> list;
  for (std::size_t k = 0; k < count; ++k) list.add(x.data() + k, 1);
  device_array<float> r{count};
  for (std::uint64_t nth : {1U, 2U}) {
    CHECK_THAT(failure("cudaLaunchKernel", nth, cudaErrorLaunchOutOfResources,
                       [&] { ew::norm_each(s, fixture.workspace(), list, r.data()); }),
               contains("tensor_norms_test.cpp") && contains("cudaErrorLaunchOutOfResources"));
  }
  CHECK(fixture.of(list).two == std::vector<double>(count, 1.0));

  ww::memory_pool pool{ww::current_device()};
  CHECK_THAT(failure("cudaMemsetAsync", 1, cudaErrorInvalidValue,
                     [&] { ew::norm_each(s, pool, list, r.data()); }),
             contains("tensor_norms_test.cpp") && contains("cudaMemsetAsync"));
  CHECK_THAT(failure("cudaLaunchKernel", 2, cudaErrorLaunchOutOfResources,
                     [&] { ew::max_norm_each(s, pool, list, r.data()); }),
             contains("tensor_norms_test.cpp") && contains("cudaErrorLaunchOutOfResources"));
  CHECK(pool.statistics().live_bytes == 0);
  ew::norm_each(s, pool, list, r.data());
  CHECK(r.fetch(s) == std::vector<float>(count, 1.0F));
  pool.retire(s);
}

#endif
