// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/container/array.hpp>

#include <cstddef>

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
/// The speed of a device is the mean of its pieces, of which a later one counts more. A piece's
/// time is that from its begin or, if that is later, the end of the piece before it: so pieces
/// that run beside each other are counted once. While a piece takes longer than the mean, that is
/// taken for the mean. After a failure a device rests while others get pieces, twice as long each
/// time: one whose pieces fail at once would else seem to be the fastest.
class device_scheduler {
 public:
  static constexpr std::size_t none = ~std::size_t{0};
  struct device {
    double items = 0.0;    // of completed pieces; later ones count more
    double seconds = 0.0;  // that these took
    double new_items = 0.0;
    double new_seconds = 0.0;
    std::size_t new_pieces = 0;  // not in the mean yet: as many as run at once are one sample
    std::size_t samples = 0;
    bool unlike = false;  // the last one was unlike the mean: a second one is the new mean
    double queued_items = 0.0;
    double progress = 0.0;  // when it completed a piece, or got one while it was idle
    std::size_t queued = 0;
    std::size_t completed = 0;  // pieces, of them
    std::size_t failed = 0;
    std::size_t failed_in_turn = 0;
    double resting = 0.0;  // for so many pieces of others
    double passed_by = 0.0;
  };
  struct choice {
    std::size_t index;
    bool full;  // it has max_pieces: wait for one of them, and choose again
  };

  /// @param concurrent  pieces that a device runs at once
  device_scheduler(std::size_t devices, device_schedule schedule, std::size_t concurrent,
                   std::size_t max_pieces)
      : schedule_{schedule}, concurrent_{concurrent}, max_pieces_{max_pieces}, all_(devices) {}

  /// Chooses a device for a piece, which is then queued there unless it is full.
  choice take(double items, double now) noexcept;
  /// Divides a batch: counts[i] for device i.
  void divide(std::size_t items, std::size_t* counts) const noexcept;
  void begin(std::size_t index, double items, double now) noexcept;
  /// @param seconds  as above
  void complete(std::size_t index, double items, double seconds, double now) noexcept;
  /// A piece ended by an error.
  void fail(std::size_t index, double items, double now) noexcept;

  [[nodiscard]] device const& operator[](std::size_t index) const noexcept { return all_[index]; }

 private:
  static constexpr double try_again = 32.0;  // a slow device gets one of so many pieces' time

  [[nodiscard]] double pace_of(device const& d) const noexcept {
    return d.items > 0.0 ? d.seconds / d.items : 0.0;
  }
  [[nodiscard]] double best_pace() const noexcept;
  [[nodiscard]] bool to_explore(device const& d, double best) const noexcept;
  [[nodiscard]] double cost(device const& d, double items, double best, double now) const noexcept;

  device_schedule schedule_;
  std::size_t concurrent_;
  std::size_t max_pieces_;
  std::size_t next_ = 0;
  array<device> all_;
};

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/scale/detail/device_scheduler_definitions.hpp>
#endif
