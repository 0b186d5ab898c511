// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/config.hpp>

#include <cstdint>

WARPWRIGHT_BEGIN

namespace detail {

/// How much more than the live peak may be reserved.
struct slack_options {
  double fraction = 0.0;          // of the peak
  std::uint64_t floor_bytes = 0;  // the least
};

/// How much memory a pool on virtual memory reserves, and in which chunks: arithmetic alone.
///
/// Up to the slack over the peak of live memory the pool grows by new memory, which every stream
/// may use at once; above it, idle memory is moved first.
class growth_policy {
 public:
  constexpr growth_policy() noexcept = default;
  /// @param capacity_bytes  the most that the pool can reserve
  /// @param granule_bytes   sizes are multiples of it: a power of two
  constexpr growth_policy(slack_options const& slack, std::uint64_t capacity_bytes,
                          std::uint64_t granule_bytes) noexcept
      : slack_{slack}, capacity_bytes_{capacity_bytes}, granule_bytes_{granule_bytes} {}

  /// The peak counts live memory, and that of graphs, when the pool grows.
  constexpr void note_live(std::uint64_t bytes) noexcept {
    if (bytes > live_peak_) live_peak_ = bytes;
  }
  /// Whether graphs hold memory, which they do for long: then the floor of the slack does not
  /// count.
  constexpr void set_held(bool held) noexcept { held_ = held; }
  [[nodiscard]] constexpr std::uint64_t slack_bytes() const noexcept {
    auto const part = static_cast<std::uint64_t>(slack_.fraction * static_cast<double>(live_peak_));
    std::uint64_t const bytes = held_ || part > slack_.floor_bytes ? part : slack_.floor_bytes;
    return bytes < capacity_bytes_ ? bytes : capacity_bytes_;  // so that no sum of it overflows
  }
  /// The memory that may be reserved before idle memory is moved.
  [[nodiscard]] constexpr std::uint64_t allowed_bytes() const noexcept {
    return live_peak_ + slack_bytes();
  }
  /// The largest chunk. Each costs the same to create and to move, whatever its size, but one that
  /// is partly live cannot be moved. So chunks are small beside the slack, which is meant to hold
  /// such idle parts; without slack beside the peak (256 of them keep the idle parts within about
  /// 3 %, with half as many calls as granules take); and beside the capacity, below which all idle
  /// parts must fit at the end: a limit of 1.02 times the live peak is enough with 2,048 of them.
  [[nodiscard]] constexpr std::uint64_t max_chunk_bytes() const noexcept {
    std::uint64_t bytes = slack_bytes() / 4;
    if (bytes < live_peak_ / 256) bytes = live_peak_ / 256;
    if (bytes > capacity_bytes_ / 2048) bytes = capacity_bytes_ / 2048;
    return bytes > granule_bytes_ ? bytes & ~(granule_bytes_ - 1) : granule_bytes_;
  }
  /// How much to create for a request: a part of the slack ahead of need, so that a program that
  /// grows by small requests pays for few calls.
  /// @param missing   bytes that the request needs, a multiple of the granule
  /// @param reserved  bytes reserved now
  /// @return at least `missing`; 0 when that is not within the slack
  [[nodiscard]] constexpr std::uint64_t growth_bytes(std::uint64_t missing,
                                                     std::uint64_t reserved) const noexcept {
    std::uint64_t const allowed = allowed_bytes();
    if (reserved > allowed || missing > allowed - reserved) return 0;
    std::uint64_t bytes = slack_bytes() / 4;
    if (bytes > allowed - reserved) bytes = allowed - reserved;
    bytes &= ~(granule_bytes_ - 1);
    return bytes > missing ? bytes : missing;
  }

 private:
  slack_options slack_;
  std::uint64_t capacity_bytes_ = 0;
  std::uint64_t granule_bytes_ = 1;
  std::uint64_t live_peak_ = 0;
  bool held_ = false;
};

}  // namespace detail

WARPWRIGHT_END
