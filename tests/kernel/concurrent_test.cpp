// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Launches of every kind from several threads at once, each on a stream of its own, all with one
// pool: the bits that one thread gets alone.
#include <warpwright/kernel.hpp>
#include <warpwright/kernel/multi_tensor.hpp>
#include <warpwright/kernel/random.hpp>
#include <warpwright/kernel/reduce.hpp>
#include <warpwright/kernel/reduce_matrix.hpp>
#include <warpwright/kernel/rows.hpp>
#include <warpwright/kernel/tensor_norms.hpp>
#include <warpwright/kernel/views.hpp>
#include <warpwright/memory/pool.hpp>

#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/device_memory.hpp"

namespace ew = warpwright::ew;
namespace ww = warpwright;
using test_support::device_array;

namespace {

constexpr std::size_t rows = 37;
constexpr std::size_t cols = 128;
constexpr std::size_t n = rows * cols;

struct halved {
  template <class X>
  WARPWRIGHT_HOST_DEVICE void operator()(X& x) const {
    x *= X{0.5};
  }
};

// One thread's arrays: what each launch writes lies behind the other, in one of them.
class work {
 public:
  work() : x_{n}, results_{10 * n} {}

  /// The results of one launch of each kind, on numbers that `seed` gives.
  std::vector<float> run(ww::stream& s, ww::memory_pool& pool, std::uint64_t seed) const {
    ww::check(cudaMemsetAsync(results_.data(), 0, results_.size() * sizeof(float), s.get()),
              "cudaMemsetAsync");
    float* place = results_.data();
    auto const next = [&place] { return std::exchange(place, place + n); };
    auto const x = ew::in(static_cast<float const*>(x_.data()), n);
    ew::run(s, ew::out(x_.data(), n) = ew::uniform(ew::philox{seed, 0}) - 0.25F);
    ew::run(s, ew::out(next(), n) = ew::gelu(x) * 2.0F);
    ew::run(s, ew::out(next(), n) = ew::view(ew::array(x_.data(), {rows, cols}).permuted({1, 0})));
    ew::run_rows(s, {rows, cols}, ew::out(next(), n) = ew::softmax(x));
    ew::run_rows(s, {rows, cols}, ew::out(next(), n) = ew::layer_norm(x, 1e-5));
    ew::reduce_rows(s, {rows, cols}, ew::to(next()) = ew::mean(x));
    ew::reduce_cols(s, pool, {rows, cols}, ew::to(next()) = ew::sum(x));
    float* const half = next();
    ew::run(s, ew::tie(ew::out(ew::array(half, {rows, cols}).sliced(1, 0, 100)) =
                           ew::view(ew::array(x_.data(), {rows, cols}).sliced(1, 28, 128)),
                       ew::out(next(), rows * 100) = ew::index()));
    ew::tensor_list<float> each;
    each.add(x_.data(), n / 2);
    each.add(x_.data() + n / 2, n - n / 2);
    ew::run_each(s, each, halved{});
    ew::tensor_list<float const> normed;
    normed.add(x_.data(), n);
    ew::global_norm(s, pool, normed, place);
    ew::norm_each(s, pool, normed, place + 1);
    ew::max_norm_each(s, pool, normed, place + 2);
    ew::reduce(s, pool, n, ew::to(place + 3) = ew::norm(x), ew::to(place + 4) = ew::max(x));
    std::vector<float> values = results_.fetch(s);
    values.push_back(ew::reduce(s, pool, n, ew::sum(x * x)));
    return values;
  }

 private:
  device_array<float> x_;
  device_array<float> results_;
};

}  // namespace

TEST_CASE("threads that launch everything at once get what each gets alone") {
  constexpr int threads = 4;
  ww::memory_pool pool{ww::device_id{0}};
  std::vector<std::vector<float>> alone;
  {
    ww::stream s;
    work const w;
    for (unsigned t = 0; t < threads; ++t) alone.push_back(w.run(s, pool, t));
    pool.retire(s);
  }
  REQUIRE(alone[0] != alone[1]);
  for (float sum_of_squares : {alone[0].back(), alone[1].back()}) CHECK(sum_of_squares > 0);
  std::atomic<int> wrong{0};
  std::vector<std::thread> all;
  for (unsigned t = 0; t < threads; ++t) {
    all.emplace_back([&, t] {
      ww::stream s;
      work const w;
      for (int round = 0; round < 10; ++round) wrong += w.run(s, pool, t) != alone[t];
      pool.retire(s);
    });
  }
  for (std::thread& thread : all) thread.join();
  CHECK(wrong == 0);
}
