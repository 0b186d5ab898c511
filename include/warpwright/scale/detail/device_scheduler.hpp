// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/container/array.hpp>

WARPWRIGHT_BEGIN

/// Which device of a device_group gets the next piece of work.
enum class device_schedule {
  round_robin,   ///< one after another
  least_loaded,  ///< that with the fewest items not completed
  fastest        ///< that which is predicted to complete the piece first
};

namespace detail {

/// Who gets the next piece of work: no CUDA, no lock, times in seconds of any clock.
///
/// The pace of a device, seconds an item, is a mean of its pieces, of which later ones count more.
/// The time of a piece is that since its begin or, if that is later, since the piece before it
/// ended: what runs at once is counted once. After a failure a device rests while others get
/// pieces: it would else seem to be idle, and get all of them.
class device_scheduler {
 public:
  static constexpr std::size_t none = ~std::size_t{0};
  struct device {
    double items = 0.0, seconds = 0.0;          // of the mean
    double new_items = 0.0, new_seconds = 0.0;  // pieces not in it yet: those that run at once are
    std::size_t new_pieces = 0, samples = 0;    // one sample
    bool unlike = false;     // the last sample was unlike the mean: a second one is the new mean
    double progress = 0.0;   // when it completed a piece, or got one while it was idle
    double passed_by = 0.0;  // pieces of others since it got one
    double resting = 0.0;    // for so many pieces of others
    double queued_items = 0.0;
    std::size_t queued = 0, completed = 0, failed = 0, failed_in_turn = 0;  // pieces
  };

  /// @param concurrent  pieces that a device runs at once
  device_scheduler(std::size_t devices, device_schedule schedule, std::size_t concurrent,
                   std::size_t max_pieces)
      : schedule_{schedule}, concurrent_{concurrent}, max_pieces_{max_pieces}, all_(devices) {}

  /// Chooses a device for a piece, which is then queued there.
  /// @return its index; none: it has max_pieces. Ask again when time has passed
  std::size_t take(double items, double now) noexcept;
  /// Divides a batch: counts[i] for device i.
  void divide(std::size_t items, std::size_t* counts) const noexcept;
  /// @return whether the device has room for the piece, which is then queued there
  bool begin(std::size_t index, double items, double now) noexcept;
  /// @param seconds  as above; below 0: the piece failed
  void end(std::size_t index, double items, double seconds, double now) noexcept;

  [[nodiscard]] device const& operator[](std::size_t index) const noexcept { return all_[index]; }
  [[nodiscard]] static double pace_of(device const& d) noexcept {
    return d.items > 0.0 ? d.seconds / d.items : 0.0;
  }

 private:
  [[nodiscard]] double best_pace() const noexcept;
  // Whether it is to get a piece only to learn its pace: none is known, or one so slow that it gets
  // none, which may have changed.
  [[nodiscard]] bool explore(device const& d, double best) const noexcept {
    return schedule_ == device_schedule::fastest && d.queued == 0 && d.resting <= 0.0 &&
           (d.samples == 0 || d.passed_by * best > 32.0 * pace_of(d));
  }
  [[nodiscard]] double cost(device const& d, double items, double best, double now) const noexcept;

  device_schedule schedule_;
  std::size_t concurrent_, max_pieces_, next_ = 0;
  array<device> all_;
};

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/scale/detail/device_scheduler_definitions.hpp>
#endif
