// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The charts of a tune: throughput, latency and memory over the batch size.
#pragma once

#include <warpwright/core/detail/report/plot.hpp>
#include <warpwright/tune/detail/report/result_text.hpp>
#include <warpwright/tune/detail/report/tune_result.hpp>

#include <cstddef>
#include <vector>

#include <cmath>

WARPWRIGHT_BEGIN

namespace detail {

// How the sizes of a status other than ok are marked at the axis.
WARPWRIGHT_COLD inline plot_mark mark_of(tune_status status) noexcept {
  switch (status) {
    case tune_status::over_budget:
      return plot_mark::square;
    case tune_status::over_latency:
      return plot_mark::triangle;
    case tune_status::out_of_memory:
      return plot_mark::cross;
    case tune_status::ok:
    case tune_status::failed:
      break;
  }
  return plot_mark::plus;
}

class result_plot {
 public:
  WARPWRIGHT_COLD explicit result_plot(tune_result const& result) : result_{result} {
    for (tune_row const& row : result.rows) {
      double const x = static_cast<double>(row.batch);
      if (row.batch == 0) continue;
      if (first_x_ == 0.0 || x < first_x_) first_x_ = x;
      if (x > last_x_) last_x_ = x;
      add(row, x);
    }
    if (first_x_ == 0.0) {
      first_x_ = 1.0;
      last_x_ = 2.0;
    }
    add_model();
  }

  [[nodiscard]] bool has_latency() const noexcept { return !medians_.empty() || !tails_.empty(); }
  [[nodiscard]] bool has_memory() const noexcept { return !bytes_.empty(); }

  [[nodiscard]] WARPWRIGHT_COLD plot begin(plot_layout const& layout, int panels) const {
    plot p{layout, first_x_, last_x_, panels};
    tune_row const* const chosen = chosen_row(result_);
    if (chosen != nullptr && chosen->batch > 0) {
      p.mark_x(static_cast<double>(chosen->batch),
               layout.standalone ? "" : "chosen: " + string_builder(chosen->batch));
    }
    return p;
  }

  WARPWRIGHT_COLD void throughput(plot& p, char const* name) const {
    p.begin_panel(
        name, plot_scale::linear, [](double value) { return format_tick(value, false); }, {&rates_},
        0.0);
    tune_row const* const best = fastest_row(result_);
    bool const by_throughput = result_.objective.goal() == tuning_goal::throughput;
    if (best != nullptr && by_throughput && result_.tolerance > 0.0 &&
        can_be_drawn(best->items_per_second)) {
      double const enough = (1.0 - result_.tolerance) * best->items_per_second;
      tune_row const* knee = best;
      for (tune_row const& row : result_.rows) {
        bool const smaller = row.status == tune_status::ok && knee->batch > row.batch;
        if (smaller && row.items_per_second >= enough) knee = &row;
      }
      p.band(enough, best->items_per_second, plot_style::green,
             "within " + format_percent(result_.tolerance) + " of the best, knee at " +
                 string_builder(knee->batch));
    }
    p.line(rates_, plot_style::blue, "", "not usable");
    for (int kind = 1; kind < kinds; ++kind) {
      auto const status = static_cast<tune_status>(kind);
      p.marks(unusable_[kind], mark_of(status), to_string(status));
    }
  }

  WARPWRIGHT_COLD void latency(plot& p, char const* name) const {
    double const limit =
        has_latency_limit(result_) ? result_.objective.latency_limit_seconds() : 0.0;
    p.begin_panel(
        name, plot_scale::decades, [](double value) { return format_tick_seconds(value); },
        {&medians_, &tails_}, limit);
    p.line(tails_, plot_style::orange, "p99", "p99, not usable");
    p.line(medians_, plot_style::blue, "median", "median, not usable");
    if (limit > 0.0) {
      p.reference_line(limit, "limit of the " +
                                  quantile_name(result_.objective.latency_quantile()) + ": " +
                                  format_seconds(limit));
    }
  }

  WARPWRIGHT_COLD void memory(plot& p, char const* name) const {
    double const budget = static_cast<double>(result_.memory_budget_bytes);
    p.begin_panel(
        name, plot_scale::linear_bytes, [](double value) { return format_tick(value, true); },
        {&bytes_, &model_}, budget);
    p.curve(model_, plot_style::muted, "the model's upper bound");
    p.line(bytes_, plot_style::green, "measured", "predicted, not run");
    if (budget > 0.0) p.reference_line(budget, "budget: " + format_bytes(budget));
  }

 private:
  static constexpr int kinds = 5;

  WARPWRIGHT_COLD void add(tune_row const& row, double x) {
    bool const ok = row.status == tune_status::ok;
    if (!ok && static_cast<int>(row.status) < kinds) {
      unusable_[static_cast<int>(row.status)].push_back(x);
    }
    double const rate = row.items_per_second;
    if (can_be_drawn(rate)) {
      double const half = has_interval(row) ? rate * row.relative_error : 0.0;
      rates_.push_back(plot_point{x, rate, half < rate ? rate - half : 0.0, rate + half, ok});
    }
    auto const add_to = [x](array<plot_point>& points, double y, bool filled) {
      if (can_be_drawn(y)) points.push_back(plot_point{x, y, y, y, filled});
    };
    add_to(medians_, row.latency_median_seconds, ok);
    add_to(tails_, row.latency_p99_seconds, ok);
    add_to(bytes_, static_cast<double>(row.memory_bytes), !row.memory_predicted);
  }

  // The model's prediction where it can be relied on, up to the largest size in the table.
  WARPWRIGHT_COLD void add_model() {
    constexpr int steps = 48;
    for (int i = 0; i <= steps && !bytes_.empty(); ++i) {
      double const x = first_x_ * std::exp2(std::log2(last_x_ / first_x_) * i / steps);
      auto const batch = static_cast<std::size_t>(x + 0.5);
      double const bytes = result_.memory.predict(batch);
      bool const again = !model_.empty() && model_.back().x >= static_cast<double>(batch);
      if (!again && result_.memory.knows(batch) && can_be_drawn(bytes)) {
        model_.push_back(plot_point{static_cast<double>(batch), bytes, bytes, bytes, true});
      }
    }
  }

  tune_result const& result_;
  double first_x_ = 0.0;
  double last_x_ = 0.0;
  array<plot_point> rates_;
  array<plot_point> medians_;
  array<plot_point> tails_;
  array<plot_point> bytes_;
  array<plot_point> model_;
  std::vector<double> unusable_[kinds];
};

}  // namespace detail

WARPWRIGHT_END
