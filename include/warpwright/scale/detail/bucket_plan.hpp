// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Which gradients are reduced together. Nothing here calls CUDA.
#pragma once

#include <warpwright/core/detail/container/array.hpp>
#include <warpwright/core/detail/container/sort.hpp>

#include <cstddef>
#include <cstdint>

WARPWRIGHT_BEGIN

namespace detail {

/// A part of the arena, in elements.
struct element_range {
  std::size_t first, count;
};

/// Gradients lie in the arena in the order of their numbers, for good. A bucket has those that
/// become ready one after the other: mostly neighbours, so that it is one range of the arena, or a
/// few.
class bucket_plan {
 public:
  struct bucket {
    std::size_t first_range, ranges;
    std::size_t elements;
    std::uint32_t gradients;
  };

  /// @param order   the gradients as they become ready
  /// @param ranges  of the gradients, with what aligns them
  /// @param most    elements of a bucket; a larger gradient has one of its own
  void build(array<std::uint32_t> const& order, array<element_range> const& ranges,
             std::size_t most) {
    buckets_.clear();
    ranges_.clear();
    bucket_of_.clear();
    bucket_of_.resize(ranges.size());
    array<std::uint32_t> together;
    for (std::size_t i = 0; i < order.size();) {
      together.clear();
      std::size_t elements = 0;
      for (; i < order.size() && (together.empty() || elements + ranges[order[i]].count <= most);
           ++i) {
        bucket_of_[order[i]] = static_cast<std::uint32_t>(buckets_.size());
        elements += ranges[order[i]].count;
        together.push_back(order[i]);
      }
      bucket made{ranges_.size(), 0, elements, static_cast<std::uint32_t>(together.size())};
      sort(together.begin(), together.size());
      for (std::uint32_t const g : together) {
        bool const follows =
            made.ranges != 0 && ranges_.back().first + ranges_.back().count == ranges[g].first;
        if (follows) {
          ranges_.back().count += ranges[g].count;
        } else {
          ranges_.push_back(ranges[g]);
          ++made.ranges;
        }
      }
      buckets_.push_back(made);
    }
  }

  [[nodiscard]] std::size_t size() const noexcept { return buckets_.size(); }
  [[nodiscard]] bucket const& operator[](std::size_t b) const noexcept { return buckets_[b]; }
  [[nodiscard]] element_range const& range(std::size_t i) const noexcept { return ranges_[i]; }
  [[nodiscard]] std::uint32_t bucket_of(std::size_t gradient) const noexcept {
    return bucket_of_[gradient];
  }

 private:
  array<bucket> buckets_;
  array<element_range> ranges_;
  array<std::uint32_t> bucket_of_;
};

/// Tries sizes of buckets in the first steps, and keeps the one whose steps took least.
class bucket_tuner {
 public:
  static constexpr int sizes = 6, steps_each = 3;

  /// @param all_bytes  of all gradients
  explicit bucket_tuner(std::size_t all_bytes = 0) noexcept {
    for (std::size_t mib : {4U, 10U, 25U, 50U, 100U, 250U}) {
      std::size_t const bytes = mib << 20U;
      bytes_[count_++] = bytes;
      if (bytes >= all_bytes) break;  // a larger one is the same
    }
  }

  /// @return bytes of a bucket in a step, counted from 0
  [[nodiscard]] std::size_t bytes_in(std::uint64_t step) const noexcept {
    std::uint64_t const i = step / steps_each;
    return bytes_[i < static_cast<std::uint64_t>(count_) ? i : static_cast<std::uint64_t>(best_)];
  }
  /// @return steps that it takes
  [[nodiscard]] std::uint64_t steps() const noexcept {
    return static_cast<std::uint64_t>(count_) * steps_each;
  }
  /// @param seconds  of a step; the first of each size counts not, as NCCL and caches warm up
  void took(std::uint64_t step, double seconds) noexcept {
    std::uint64_t const i = step / steps_each;
    if (i >= static_cast<std::uint64_t>(count_) || step % steps_each == 0) return;
    if (seconds < seconds_[i]) seconds_[i] = seconds;
  }
  [[nodiscard]] double* seconds() noexcept { return seconds_; }
  void choose() noexcept {
    best_ = 0;
    for (int i = 1; i < count_; ++i) {
      if (seconds_[i] < seconds_[best_]) best_ = i;
    }
  }

 private:
  int count_ = 0;
  int best_ = 0;
  std::size_t bytes_[sizes] = {};
  double seconds_[sizes] = {1e30, 1e30, 1e30, 1e30, 1e30, 1e30};
};

}  // namespace detail

WARPWRIGHT_END
