// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/device_id.hpp>
#include <warpwright/measure/detail/sample_summary_definitions.hpp>
#include <warpwright/measure/detail/series_analysis_definitions.hpp>
#include <warpwright/measure/measure.hpp>

#include <cmath>
#include <utility>

WARPWRIGHT_BEGIN

WARPWRIGHT_INLINE char const* to_string(stop_reason reason) {
  constexpr char const* names[] = {"precision reached", "noise converged", "out of samples",
                                   "out of time", "interrupted"};
  return detail::enum_name(names, reason);
}

WARPWRIGHT_INLINE l2_flush::l2_flush(source_location where) : where_{where} {
  int l2_bytes = 0;
  check(cudaDeviceGetAttribute(&l2_bytes, cudaDevAttrL2CacheSize, current_device(where).value()),
        "cudaDeviceGetAttribute", where);
  if (l2_bytes <= 0) return;  // no cache to flush
  bytes_ = 2 * static_cast<std::size_t>(l2_bytes);
  check(cudaMalloc(&buffer_, bytes_), "cudaMalloc", where);
}

WARPWRIGHT_INLINE l2_flush::~l2_flush() {
  if (buffer_ != nullptr) detail::discard(cudaFree(buffer_));
}

WARPWRIGHT_INLINE void l2_flush::operator()(stream_ref stream) {
  if (buffer_ == nullptr) return;
  check(cudaMemsetAsync(buffer_, 0, bytes_, stream.get()), "cudaMemsetAsync", where_);
}

namespace detail {

WARPWRIGHT_INLINE double checked_seconds(double seconds, char const* timed, source_location where,
                                         char const* name) {
  check_pending(timed, where, name);
  if (!(seconds >= 0.0 && seconds < 1e30)) {
    throw_invalid_argument(text{"the stopwatch has returned "} + seconds +
                               " seconds; it must return a finite time that is not negative",
                           where);
  }
  return seconds;
}

WARPWRIGHT_NOINLINE WARPWRIGHT_INLINE void check_measure_options(measure_options const& o,
                                                                 source_location where) {
  constexpr std::size_t most_samples = 100000;
  constexpr double most_seconds = 1e6;
  // Comparisons that are false for a NaN.
  bool const valid = o.sample_seconds() >= 0.0 && o.sample_seconds() <= most_seconds &&
                     o.min_seconds() >= 0.0 && o.min_seconds() <= most_seconds &&
                     o.max_seconds() >= 0.0 && o.precision() >= 0.0 && o.min_samples() >= 1 &&
                     o.max_samples() >= o.min_samples() && o.max_samples() <= most_samples &&
                     o.inputs() >= 1;
  if (!valid) {
    throw_invalid_argument(
        text{"measure_options out of range: sample_seconds "} + o.sample_seconds() +
            ", min_seconds " + o.min_seconds() + " (at most " + most_seconds + "), max_seconds " +
            o.max_seconds() + ", precision " + o.precision() + " (none negative), min_samples " +
            o.min_samples() + " (at least 1), max_samples " + o.max_samples() +
            " (at least min_samples, at most " + most_samples +
            "; raise sample_seconds to measure for longer), inputs " + o.inputs() + " (at least 1)",
        where);
  }
}

WARPWRIGHT_INLINE void check_not_capturing(char const* what, stream_ref stream,
                                           source_location where) {
  if (!stream.is_capturing(where)) return;
  throw_invalid_argument(text{what} +
                             ": the stream is capturing, so that the work would not run; " + what +
                             " before the capture",
                         where);
}

// Whether five samples become faster, or slower, from one to the next: whether at least nine of
// their ten pairs do.
WARPWRIGHT_COLD inline bool five_trend(double const* five) {
  int score = 0;
  for (int i = 0; i < 5; ++i) {
    for (int k = i + 1; k < 5; ++k) {
      score += static_cast<int>(five[k] > five[i]) - static_cast<int>(five[k] < five[i]);
    }
  }
  return score >= 8 || score <= -8;
}

// When to analyse the samples: the fewer times, the less often a wide interval is narrow by chance.
inline std::size_t next_analysis(std::size_t count) { return count + count * 2 / 5 + 1; }

inline constexpr std::size_t max_calls_per_sample = std::size_t{1} << 20;

WARPWRIGHT_COLD inline std::size_t scaled_repeats(std::size_t repeats, double factor) {
  double const scaled = static_cast<double>(repeats) * factor;
  if (!(scaled < static_cast<double>(max_calls_per_sample))) return max_calls_per_sample;
  auto const next = static_cast<std::size_t>(scaled);
  return next > repeats ? next : repeats + 1;
}

// Calls for the warm-up, then the number of calls that takes at least sample_seconds, as far as a
// quarter of max_seconds allows to find it; 0: interrupted. `time_calls` runs so many calls and
// returns seconds.
WARPWRIGHT_COLD inline std::size_t warm_up(function_ref<double(std::size_t)> time_calls,
                                           measure_options const& options,
                                           measuring_time const& time) {
  double const limit = 0.25 * options.max_seconds();
  double total = 0.0;
  for (std::size_t i = 0; i == 0 || (i < options.warmup_calls() && time.elapsed() < limit); ++i) {
    if (options.stop_when()()) return 0;
    total = time_calls(1);
  }
  std::size_t repeats = 1;
  while (total < options.sample_seconds() && repeats < max_calls_per_sample) {
    // 10 % more than needed, so that jitter does not cause another round; at most 16 times as many.
    double const factor = total > 0.0 ? 1.1 * options.sample_seconds() / total : 16.0;
    repeats = scaled_repeats(repeats, factor < 16.0 ? factor : 16.0);
    if (time.elapsed() >= limit) break;
    total = time_calls(repeats);
  }
  return repeats;
}

class sampler {
 public:
  sampler(function_ref<double(std::size_t)> time_calls, measure_options const& options,
          sample_details const* details)
      : time_calls_{time_calls}, options_{options}, details_{details}, time_{options.clock()} {}

  WARPWRIGHT_COLD measurement run() {
    reserve();
    auto const occupy_calls = [this](std::size_t repeats) { return occupy(repeats); };
    result_.calls_per_sample = warm_up(occupy_calls, options_, time_);
    sampling_start_ = time_.elapsed();
    if (result_.calls_per_sample == 0) {
      result_.reason = stop_reason::interrupted;
    } else {
      take_samples();
    }
    finish();
    return std::move(result_);
  }

 private:
  static constexpr std::size_t window = 5;  // samples in which a warm-up looks for a trend

  WARPWRIGHT_COLD void reserve() {
    std::size_t const most = options_.max_samples();
    samples_.reserve(most);
    if (details_ != nullptr) {
      clock_hz_.reserve(most);
      host_.reserve(most);
    }
    used_.reserve(most);
    analyze_.reserve(most);
  }

  bool interrupted() {
    if (!options_.stop_when()()) return false;
    result_.reason = stop_reason::interrupted;
    return true;
  }

  [[nodiscard]] double warmup_seconds() const { return 0.25 * options_.max_seconds(); }

  // Returns seconds; with what the calls took beside.
  WARPWRIGHT_COLD double occupy(std::size_t repeats) {
    double const seconds = time_calls_(repeats);
    double const all = seconds + (details_ == nullptr ? 0.0 : details_->extra_seconds);
    time_.add(all);
    last_seconds_ = seconds;
    return all;
  }

  WARPWRIGHT_COLD void take_samples() {
    bool warming_up = options_.max_samples() >= window;
    std::size_t next = options_.min_samples();
    while (!interrupted()) {
      double const occupied = take_sample();
      if (warming_up) warming_up = discard_trend(occupied);
      std::size_t const count = samples_.size();
      if (count >= 3 && time_.elapsed() >= options_.max_seconds()) {
        result_.reason = stop_reason::out_of_time;
        return;
      }
      if (count >= options_.max_samples()) {
        result_.reason = stop_reason::out_of_samples;
        return;
      }
      if (count < next || !sampled_long_enough()) continue;
      next = next_analysis(count);
      analyze();
      if (precise()) return;  // finish() sets the reason
      if (noise_has_converged()) {
        result_.reason = stop_reason::noise_converged;
        return;
      }
    }
  }

  WARPWRIGHT_COLD double take_sample() {
    double const occupied = occupy(result_.calls_per_sample);
    auto const calls = static_cast<double>(result_.calls_per_sample);
    samples_.push_back(last_seconds_ / calls);
    if (details_ != nullptr) {
      host_.push_back(details_->host_seconds / calls);
      clock_hz_.push_back(details_->clock_hz);
    }
    return occupied;
  }

  // Discards the oldest sample while the first five become faster or slower; they remain as the
  // first samples otherwise. Returns whether the warm-up goes on.
  WARPWRIGHT_COLD bool discard_trend(double occupied) {
    if (time_.elapsed() >= warmup_seconds()) return false;
    if (occupied < 0.9 * options_.sample_seconds() &&
        result_.calls_per_sample < max_calls_per_sample) {
      // Calls have become faster since the calibration.
      double const factor = occupied > 0.0 ? 1.1 * options_.sample_seconds() / occupied : 16.0;
      result_.calls_per_sample = scaled_repeats(result_.calls_per_sample, factor);
      while (!samples_.empty()) discard_oldest();
      return true;
    }
    if (samples_.size() < window) return true;
    double const* const five = samples_.begin();
    double const change = std::fabs(five[window - 1] - five[0]);
    if (!five_trend(five) || change <= 0.5 * options_.precision() * five[0]) return false;
    discard_oldest();
    return true;
  }

  WARPWRIGHT_COLD void discard_oldest() {
    samples_.remove_front(1);
    if (details_ != nullptr) {
      clock_hz_.remove_front(1);
      host_.remove_front(1);
    }
    ++result_.warmup_samples;
    sampling_start_ = time_.elapsed();
  }

  [[nodiscard]] bool sampled_long_enough() const {
    return time_.elapsed() - sampling_start_ >= options_.min_seconds();
  }

  // Marks samples at below 75 % of the fastest clock rate, as nvbench does of the default rate, and
  // leaves them out unless they are half of all samples or more.
  WARPWRIGHT_COLD void select_samples() {
    constexpr double throttled_below = 0.75;
    double fastest = 0.0;
    for (double const hz : clock_hz_) fastest = hz > fastest ? hz : fastest;
    auto const throttled = [&](std::size_t i) {
      return i < clock_hz_.size() && clock_hz_[i] > 0.0 && clock_hz_[i] < throttled_below * fastest;
    };
    result_.throttled_samples = 0;
    for (std::size_t i = 0; i < samples_.size(); ++i) {
      if (throttled(i)) ++result_.throttled_samples;
    }
    result_.throttled_excluded =
        result_.throttled_samples > 0 && 2 * result_.throttled_samples < samples_.size();
    used_.clear();
    for (std::size_t i = 0; i < samples_.size(); ++i) {
      if (!result_.throttled_excluded || !throttled(i)) used_.push_back(samples_[i]);
    }
  }

  void analyze() {
    select_samples();
    median_ = analyze_(used_.begin(), used_.size(), options_.precision());
  }

  [[nodiscard]] WARPWRIGHT_COLD bool precise() const {
    bool const believed = median_.stability == sample_stability::converged ||
                          median_.stability == sample_stability::too_few_samples;
    // Rounding must not make an interval of exactly the precision too wide.
    return believed && samples_.size() > 1 &&
           median_.half_width() <= options_.precision() * median_.median * (1.0 + 1e-9);
  }

  // Whether the noise was the same in the last three analyses, and the precision is out of reach.
  WARPWRIGHT_COLD bool noise_has_converged() {
    constexpr std::size_t looks = 3;
    for (std::size_t i = 0; i + 1 < looks; ++i) noise_[i] = noise_[i + 1];
    noise_[looks - 1] = median_.median > 0.0 ? median_.deviation / median_.median : 0.0;
    if (++analyses_ < looks || median_.stability != sample_stability::converged) return false;
    for (double const noise : noise_) {
      if (std::fabs(noise - noise_[looks - 1]) > 0.05 * noise_[looks - 1]) return false;
    }
    double const allowed = options_.precision() * median_.median;
    if (!(allowed > 0.0)) return false;  // every sample was asked for
    auto const count = static_cast<double>(samples_.size());
    double const ratio = median_.half_width() / allowed;
    double const sampled = time_.elapsed() - sampling_start_;
    double const left = options_.max_seconds() - time_.elapsed();
    double affordable = sampled > 0.0 ? count * (1.0 + left / sampled) : HUGE_VAL;
    double const most = static_cast<double>(options_.max_samples());
    if (most < affordable) affordable = most;
    return count * ratio * ratio > 1.5 * affordable;
  }

  WARPWRIGHT_COLD void finish() {
    analyze();
    bool const enough = samples_.size() >= options_.min_samples() && sampled_long_enough();
    if (median_.stability == sample_stability::converged && !sampled_long_enough()) {
      median_.stability = sample_stability::too_few_samples;
    }
    if (enough && result_.reason != stop_reason::interrupted && precise()) {
      result_.reason = stop_reason::precision_reached;
    }
    result_.elapsed_seconds = time_.elapsed();
    result_.samples.assign(samples_.begin(), samples_.end());
    result_.clock_hz.assign(clock_hz_.begin(), clock_hz_.end());
    source_location const here = source_location::current();
    result_.summary = summarize_samples(used_.begin(), used_.size(), here);
    result_.summary.median_low_seconds = median_.low;
    result_.summary.median_high_seconds = median_.high;
    result_.stability = median_.stability;
    result_.effective_samples = median_.effective_samples;
    result_.host = summarize_samples(host_.begin(), host_.size(), here);
  }

  function_ref<double(std::size_t)> time_calls_;
  measure_options options_;
  sample_details const* details_;
  measuring_time time_;
  measurement result_;
  // Not vectors, which a file that only includes the header would compile.
  array<double> samples_;
  array<double> clock_hz_;
  array<double> host_;
  array<double> used_;  // the samples that the statistics use
  series_analyzer analyze_;
  series_median median_{};
  double last_seconds_ = 0.0;
  double sampling_start_ = 0.0;
  double noise_[3] = {};
  std::size_t analyses_ = 0;
};

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE measurement
take_samples(function_ref<double(std::size_t)> time_calls, measure_options const& options,
             sample_details const* details) {
  return sampler{time_calls, options, details}.run();
}

}  // namespace detail

WARPWRIGHT_END
