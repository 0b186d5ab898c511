// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Shows that a size keeps the limit of the latency: by an exact binomial test, for numbers of calls
// that are fixed beforehand.
#pragma once

#include <warpwright/tune/detail/search/paired_comparison_definitions.hpp>

WARPWRIGHT_BEGIN

namespace detail {

// After calls[i] calls the size is accepted with at most allowed[i] of them over the limit; with
// more, it goes on to the next number. The chances of an error of all looks add up to at most alpha
// (Bonferroni's inequality), half of it for the first look, which nearly always decides. Looks
// after more than 6,000 calls would accept sizes so close to the limit that the next 10,000 calls
// may well be over it; up to the 95th percentile there are more looks before that.
struct latency_plan {
  static constexpr std::size_t most_looks = 9;
  std::size_t allowed[most_looks] = {0, 1, 3, 7, 15, 31, 63, 127, 255};
  std::size_t calls[most_looks] = {};
  std::size_t looks = 6;

  WARPWRIGHT_COLD latency_plan(double quantile, double alpha) {
    constexpr double few[most_looks] = {0.5, 0.2, 0.1, 0.1, 0.05, 0.05, 0, 0, 0};
    constexpr double many[most_looks] = {0.5, 0.2, 0.1, 0.1, 0.04, 0.03, 0.01, 0.01, 0.01};
    bool const more = fewest_samples(quantile, alpha * many[8], allowed[8]) <= 6000;
    if (more) looks = most_looks;
    for (std::size_t i = 0; i < looks; ++i) {
      calls[i] = fewest_samples(quantile, alpha * (more ? many[i] : few[i]), allowed[i]);
    }
  }
};

enum class latency_verdict { shown, refused, failed, out_of_time };

class latency_check {
 public:
  explicit latency_check(search_state& s)
      : s_{s},
        plan_{s.settings.objective.latency_quantile(), 1.0 - s.settings.latency_confidence} {}

  // The fewest calls of one run.
  [[nodiscard]] std::size_t fewest_calls() const { return plan_.calls[0]; }

  // Runs a size until it is shown to keep the limit, or that it cannot be.
  // @param share     of the time that is left, which it may take: the rest is for the confirmation,
  //   and for smaller sizes
  // @param at_least, least_seconds  calls and their time, for a soak
  WARPWRIGHT_COLD latency_verdict run(std::size_t batch, double share, std::size_t at_least = 0,
                                      double least_seconds = 0.0) {
    latencies_.clear();
    over_ = 0;
    spent_ = 0.0;
    last_look_ = 0;
    double const seconds = share * s_.left();
    double const one = s_.find(batch)->row.latency_median_seconds;
    while (last_look_ + 1 < plan_.looks &&
           static_cast<double>(plan_.calls[last_look_ + 1]) * one <= seconds) {
      ++last_look_;
    }
    latency_verdict verdict = latency_verdict::failed;
    bool const ran = s_.attempt([&] {
      s_.hooks.trim();
      if (!s_.prepare(batch)) return;
      s_.run(batch, 1);
      s_.run(batch, 1);
      verdict = take_calls(batch);
      while (verdict == latency_verdict::shown && s_.has_time(one) &&
             (latencies_.size() < at_least || spent_ < least_seconds)) {
        call(batch);
        double const most = (1.0 - s_.settings.objective.latency_quantile()) *
                            static_cast<double>(latencies_.size());
        if (static_cast<double>(over_) > most) verdict = latency_verdict::refused;
      }
      if (!s_.read_memory(batch)) verdict = latency_verdict::failed;
    });
    if (!ran) return latency_verdict::failed;
    if (!latencies_.empty()) set_latencies(s_, batch, latencies_, over_);
    if (verdict == latency_verdict::refused) {
      over_of_refused_ += over_;
      calls_of_refused_ += latencies_.size();
      s_.fail(batch, tune_status::over_latency, latency_note(s_, latencies_.size(), over_));
      s_.at(batch).row.failures = 2;  // a second look would be one look too many
    }
    return verdict;
  }

  // The share of this size's time that the next size to be checked should take. If all times shrink
  // by the same factor, that which brings a tail into the limit: less than a third of the calls
  // that may be over it are then.
  [[nodiscard]] double share_within() const {
    return 0.99 / empirical(1.0 - 0.3 * (1.0 - s_.settings.objective.latency_quantile()));
  }
  // The same after a refusal. Pauses of the host do not shrink with the size: at least half, and
  // more where chance may have refused the sizes so far.
  [[nodiscard]] WARPWRIGHT_COLD double share_to_try() const {
    double const over = static_cast<double>(over_of_refused_);
    double const likely =
        (1.0 - s_.settings.objective.latency_quantile()) * static_cast<double>(calls_of_refused_);
    double const least = over - 2.0 * std::sqrt(over) < likely ? 0.8 : 0.5;
    double const share = share_within();
    return share > least ? share : least;
  }
  // How much longer than this size one may take, as its percentile most likely is.
  [[nodiscard]] double room() const {
    return 0.997 / empirical(s_.settings.objective.latency_quantile());
  }
  [[nodiscard]] std::size_t over() const { return over_; }
  [[nodiscard]] std::size_t count() const { return latencies_.size(); }

 private:
  [[nodiscard]] WARPWRIGHT_COLD double empirical(double quantile) const {
    std::vector<double> sorted = latencies_;
    if (sorted.empty()) return 1.0;
    sort(sorted.data(), sorted.size());
    return sorted[nearest_rank(sorted.size(), quantile)] /
           s_.settings.objective.latency_limit_seconds();
  }

  WARPWRIGHT_COLD void call(std::size_t batch) {
    double const seconds = s_.run(batch, 1);
    latencies_.push_back(seconds);
    spent_ += seconds;
    if (seconds > s_.settings.objective.latency_limit_seconds()) ++over_;
  }

  // Whether the last look, for which there is time, would hardly accept the size: more calls are
  // over the limit than are likely (by two standard deviations) at the rate that it allows.
  [[nodiscard]] WARPWRIGHT_COLD bool hopeless() const {
    std::size_t const allowed = plan_.allowed[last_look_];
    double const expected = static_cast<double>(allowed) * static_cast<double>(latencies_.size()) /
                            static_cast<double>(plan_.calls[last_look_]);
    return over_ > allowed ||
           static_cast<double>(over_) > 1.0 + expected + 2.0 * std::sqrt(expected);
  }

  WARPWRIGHT_COLD latency_verdict take_calls(std::size_t batch) {
    for (std::size_t look = 0; look <= last_look_; ++look) {
      while (latencies_.size() < plan_.calls[look]) {
        if (!s_.has_time()) return latency_verdict::out_of_time;
        call(batch);
        if (hopeless()) return latency_verdict::refused;
      }
      if (over_ <= plan_.allowed[look]) return latency_verdict::shown;
    }
    return latency_verdict::refused;
  }

  search_state& s_;
  latency_plan plan_;
  std::vector<double> latencies_;
  std::size_t over_ = 0;
  double spent_ = 0.0;  // seconds
  std::size_t last_look_ = 0;
  std::size_t over_of_refused_ = 0;  // in all checks that ended so
  std::size_t calls_of_refused_ = 0;
};

}  // namespace detail

WARPWRIGHT_END
