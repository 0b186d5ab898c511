// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"

#include <warpwright/memory.hpp>
#include <warpwright/train/loss_scaler.hpp>

#include <cmath>
#include <random>
#include <stdexcept>

namespace ww = warpwright;

TEST_CASE("the scale follows torch's GradScaler over random overflows") {
  unsigned const seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random{seed};
  std::size_t wrong = 0;
  for (int pattern = 0; pattern < 10000; ++pattern) {
    ww::detail::loss_scaler_values rule;
    rule.interval = 1 + static_cast<std::uint32_t>(random() % 5);
    rule.growth = random() % 2 == 0 ? 2.0F : 1.5F;
    rule.backoff = random() % 2 == 0 ? 0.5F : 0.3F;
    rule.floor = 1e-37F;  // torch has none
    ww::detail::loss_scaler_state state{};
    state.scale = std::ldexp(1.0F, static_cast<int>(random() % 128));
    // amp_update_scale of ATen/native/cuda/AmpKernels.cu, told again.
    float scale = state.scale;
    unsigned tracker = 0;
    auto const overflows = random() % 100;
    for (int step = 0; step < 50; ++step) {
      bool const overflow = random() % 100 < overflows;
      if (overflow) {
        scale *= rule.backoff;
        tracker = 0;
      } else if (++tracker == rule.interval) {
        if (std::isfinite(scale * rule.growth)) scale *= rule.growth;
        tracker = 0;
      }
      ww::detail::update_scale(state, rule, !overflow, 0);
      wrong += state.scale == std::fmax(scale, rule.floor) && state.good_steps == tracker ? 0U : 1U;
      scale = std::fmax(scale, rule.floor);
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("a scale does not fall below its floor, and counts the steps in vain there") {
  ww::detail::loss_scaler_values rule;
  rule.floor = 3.0F;
  ww::detail::loss_scaler_state state{};
  state.scale = 8.0F;
  ww::detail::update_scale(state, rule, false, 5);
  CHECK(state.scale == 4.0F);
  ww::detail::update_scale(state, rule, false, 5);
  CHECK(state.scale == 3.0F);
  CHECK(state.at_floor == 0);
  ww::detail::update_scale(state, rule, false, 6);
  ww::detail::update_scale(state, rule, false, 6);
  CHECK(state.at_floor == 2);
  CHECK(state.tensor == 6);
  ww::detail::update_scale(state, rule, true, 0);
  CHECK(state.at_floor == 0);
  CHECK(state.skipped == 4);
}

TEST_CASE("a loss scaler begins at its initial scale, in device memory") {
  ww::stream stream;
  ww::memory_pool pool{ww::current_device()};
  ww::loss_scaler scaler{pool, stream, ww::loss_scaler_options{}.initial(32.0F)};
  CHECK(scaler.status(stream).scale == 32.0F);
  CHECK(scaler.status(stream).tensor.empty());
  scaler.check(stream);
  float scale = 0.0F;
  ww::check(cudaMemcpyAsync(&scale, scaler.scale(), 4, cudaMemcpyDeviceToHost, stream.get()),
            "cudaMemcpyAsync");
  stream.synchronize();
  CHECK(scale == 32.0F);
  ww::tensor_list list;
  scaler.add_to(list);
  CHECK(list.find("loss_scaler")->bytes() == 32);
}

TEST_CASE("options of a loss scaler out of range are refused") {
  ww::stream stream;
  ww::memory_pool pool{ww::current_device()};
  auto const error = [&](ww::loss_scaler_options const& o) -> std::string {
    try {
      ww::loss_scaler{pool, stream, o};
    } catch (std::invalid_argument const& e) {
      return e.what();
    }
    return "none";
  };
  ww::loss_scaler_options const o;
  CHECK_THAT(error(o.initial(0.0F)), contains("initial of 0; give a scale from floor()"));
  CHECK_THAT(error(o.initial(INFINITY)), contains("initial of inf"));
  CHECK_THAT(error(o.initial(NAN)), contains("initial of nan"));
  CHECK_THAT(error(o.growth(0.5F)), contains("growth of 0.5"));
  CHECK_THAT(error(o.backoff(1.0F)), contains("backoff of 1"));
  CHECK_THAT(error(o.interval(0)), contains("interval"));
  CHECK_THAT(error(o.floor(0.0F)), contains("floor of 0"));
}
