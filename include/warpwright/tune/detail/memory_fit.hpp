// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Least-squares fit of peak memory as a linear function of the batch size.
#pragma once

#include <warpwright/core/detail/array.hpp>
#include <warpwright/tune/tune_result.hpp>

WARPWRIGHT_BEGIN

namespace detail {

struct memory_point {
  std::size_t batch;
  std::size_t bytes;
};

inline memory_model fit_memory(array<memory_point> const& points) {
  memory_model model;
  model.points = points.size();
  if (points.size() < 2) return model;
  double const n = static_cast<double>(points.size());
  double mean_x = 0.0;
  double mean_y = 0.0;
  for (auto const& p : points) {
    mean_x += static_cast<double>(p.batch) / n;
    mean_y += static_cast<double>(p.bytes) / n;
  }
  double xx = 0.0;
  double xy = 0.0;
  for (auto const& p : points) {
    double const x = static_cast<double>(p.batch) - mean_x;
    xx += x * x;
    xy += x * (static_cast<double>(p.bytes) - mean_y);
  }
  model.bytes_per_item = xy > 0.0 ? xy / xx : 0.0;
  model.base_bytes = mean_y - model.bytes_per_item * mean_x;
  for (auto const& p : points) {
    double const residual = static_cast<double>(p.bytes) - model.base_bytes -
                            model.bytes_per_item * static_cast<double>(p.batch);
    if (residual > model.margin_bytes) model.margin_bytes = residual;
  }
  return model;
}

inline double predict_memory(memory_model const& model, std::size_t batch) {
  double const bytes =
      model.base_bytes + model.margin_bytes + model.bytes_per_item * static_cast<double>(batch);
  return bytes > 0.0 ? bytes : 0.0;
}

}  // namespace detail

WARPWRIGHT_END
