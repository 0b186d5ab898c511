// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"

#include <warpwright/memory.hpp>
#include <warpwright/train/health.hpp>

#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>
#include <vector>

namespace ww = warpwright;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

ww::detail::health_series series_of(std::vector<float> const& values, float outlier = 6.0F,
                                    std::uint32_t window = 32) {
  ww::detail::health_series s{};
  for (float const x : values) s.take(x, ww::detail::health_values{outlier, window});
  return s;
}

}  // namespace

TEST_CASE("a value far from those before it is an outlier, and does not move them much") {
  std::mt19937 random{5};
  std::normal_distribution<float> normal{10.0F, 1.0F};
  std::vector<float> values(200);
  for (float& x : values) x = normal(random);
  ww::detail::health_series const usual = series_of(values);
  CHECK(usual.outliers == 0);
  CHECK(usual.mean == Approx(10.0).margin(1.0));
  CHECK(std::sqrt(usual.variance) == Approx(1.0).margin(0.4));
  values.push_back(20.0F);
  values.push_back(std::nanf(""));
  values.push_back(-infinity);
  ww::detail::health_series const spiked = series_of(values);
  CHECK(spiked.outliers == 1);
  CHECK(spiked.last_outlier == 201);
  CHECK(spiked.not_finite == 2);
  CHECK(spiked.mean == Approx(usual.mean).margin(0.5));
  CHECK(spiked.mean > usual.mean + 0.1F);
  std::vector<float> early(values.begin(), values.begin() + 8);  // a quarter of the window
  early.push_back(100.0F);
  CHECK(series_of(early).outliers == 1);
}

TEST_CASE("the first values, a constant, a slow change and a new level are well in the end") {
  CHECK(series_of({1.0F, 1000.0F, 5.0F}).outliers == 0);
  CHECK(series_of(std::vector<float>(1000, 3.0F)).outliers == 0);
  std::vector<float> falling(1000);
  for (std::size_t i = 0; i < falling.size(); ++i) {
    falling[i] = 5.0F * std::exp(-0.003F * static_cast<float>(i));
  }
  CHECK(series_of(falling).outliers == 0);
  std::vector<float> step(100, 1.0F);
  step.resize(300, 9.0F);
  ww::detail::health_series const s = series_of(step);
  CHECK(s.outliers >= 1);
  CHECK(s.last_outlier < 150);
}

TEST_CASE("losses, norms and elements are watched on the device, and named") {
  ww::stream stream;
  ww::memory_pool pool{ww::current_device()};
  std::vector<float> values(20000, 1.0F);
  values[17] = infinity;
  values[9000] = std::nanf("");
  values[19999] = -infinity;
  ww::device_buffer<float> memory{pool, stream, values.data(), values.size()};
  ww::tensor_list tensors;
  tensors.add("a", memory.data() + 20, 20).add("b", memory.data() + 40, {2, 9000});
  tensors.add("c", memory.data() + 19000, 1000).add("d", memory.data(), 18);
  ww::device_buffer<float> figures{pool, stream, 2};
  ww::health health{pool, stream, tensors, ww::health_options{}.window(8)};
  CHECK(health.read(stream).is_well());
  for (int i = 0; i < 12; ++i) {
    float const now[] = {i == 10 ? 50.0F : 2.0F + 0.1F * static_cast<float>(i % 3),
                         i == 11 ? infinity : 1.0F};
    figures.copy_from(stream, now, 2);
    stream.synchronize();
    health.observe(stream, figures.data(), figures.data() + 1);
  }
  health.scan(stream);
  ww::health_report const r = health.read(stream);
  CHECK_FALSE(r.is_well());
  CHECK(r.loss.values == 12);
  CHECK(r.loss.outliers == 1);
  CHECK(r.loss.last_outlier == 11);
  CHECK(r.norm.not_finite == 1);
  CHECK(r.not_finite == 3);
  CHECK(r.tensors == 3);
  CHECK(r.first_tensor == "b");
  CHECK_THAT(r.to_text(),
             contains("1 outlier, the last one in step 11, 0 not finite") &&
                 contains("3 elements are not finite, in 3 tensors, the first one 'b'"));
  ww::check(cudaMemsetAsync(memory.data(), 0, memory.size_bytes(), stream.get()),
            "cudaMemsetAsync");
  health.scan(stream);
  CHECK(health.read(stream).not_finite == 0);
}

TEST_CASE("options of a health out of range are refused") {
  ww::stream stream;
  ww::memory_pool pool{ww::current_device()};
  for (auto const& o : {ww::health_options{}.outlier(0.0F), ww::health_options{}.window(1),
                        ww::health_options{}.outlier(std::nanf(""))}) {
    CHECK_THROWS_AS((ww::health{pool, stream, ww::tensor_list{}, o}), std::invalid_argument);
  }
}
