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

/// Who gets the next piece of work: no CUDA, no clock, no lock. A device that has failed rests
/// while others get pieces: it would else seem to be idle, and get all of them.
class device_scheduler {
 public:
  static constexpr std::size_t none = ~std::size_t{0};

  /// @param concurrent  pieces that a device runs at once
  device_scheduler(std::size_t devices, device_schedule schedule, std::size_t concurrent,
                   std::size_t max_pieces)
      : schedule_{schedule},
        concurrent_{double(concurrent)},
        max_pieces_{max_pieces},
        all_(devices) {}

  /// Queues a piece. @param only  its device; none: the one whose turn it is
  /// @return the device; none: it has max_pieces. Ask again when one has ended
  std::size_t begin(double items, std::size_t only = none) noexcept {
    std::size_t index = only == none ? 0 : only;
    for (std::size_t i = 1; only == none && i < all_.size(); ++i) {
      if (cost(all_[i], items) < cost(all_[index], items)) index = i;
    }
    device& chosen = all_[index];
    if (chosen.queued == max_pieces_) return none;
    for (device& d : all_) d.passed_by += 1.0;
    chosen.passed_by = 0.0;
    chosen.queued_items += items;
    ++chosen.queued;
    return index;
  }

  /// @param seconds  since its start, or a later end of the piece before it; below 0: it failed
  void end(std::size_t index, double items, double seconds) noexcept {
    device& d = all_[index];
    d.queued_items = --d.queued == 0 ? 0.0 : d.queued_items - items;
    if (seconds < 0.0) {
      d.rest = d.rest > 0.0 ? 2.0 * d.rest : 2.0 * double(all_.size());
      d.passed_by = 0.0;
      return;
    }
    d.rest = 0.0;
    d.new_items += items;
    d.new_seconds += seconds;
    if (++d.new_pieces < concurrent_ && d.queued != 0) return;
    // The first piece also loads kernels. One long piece may be an accident.
    double const pace = (d.new_seconds + 1e-9) / d.new_items, most = 4.0 * d.pace;
    d.pace = ++d.samples <= 2 ? pace : 0.5 * (d.pace + (pace < most ? pace : most));
    d.new_items = d.new_seconds = d.new_pieces = 0.0;
  }

  /// Divides a batch: parts[i] for device i.
  template <class Part>
  void divide(std::size_t items, Part* parts) const noexcept {
    auto const weight = [this](device const& d) {
      if (d.passed_by < d.rest) return 1e-200;  // nothing, unless all rest
      return schedule_ == device_schedule::fastest ? 1.0 / pace_of(d) : 1.0;
    };
    double all = 0.0, sum = 0.0;
    for (device const& d : all_) all += weight(d);
    for (std::size_t i = 0, first = 0; i < all_.size(); first += parts[i++].count) {
      sum += weight(all_[i]);
      double const end = double(items) * (sum / all) + 0.5;
      parts[i] = {i, first, (i + 1 < all_.size() ? std::size_t(end) : items) - first};
    }
  }

 private:
  struct device {
    double pace = 0.0;  // seconds an item, an exponential mean; 0: unknown
    double new_items = 0.0, new_seconds = 0.0, new_pieces = 0.0;  // those at once are a sample
    double passed_by = 0.0;  // pieces of others since it got one, or failed
    double rest = 0.0;       // until it has been passed by so many
    double queued_items = 0.0;
    std::size_t queued = 0, samples = 0;
  };

  // Less and less while others get pieces: a slow device is tried again, as it may not be any more.
  [[nodiscard]] double pace_of(device const& d) const noexcept {
    if (d.pace > 0.0) return d.pace / (1.0 + d.passed_by / 256.0);
    double best = 0.0;
    for (device const& other : all_) {
      if (other.pace > 0.0 && (best <= 0.0 || other.pace < best)) best = other.pace;
    }
    return best > 0.0 ? best : 1.0;
  }
  [[nodiscard]] double cost(device const& d, double items) const noexcept {
    if (d.passed_by < d.rest) return 1e200 * (d.rest - d.passed_by);
    if (schedule_ == device_schedule::round_robin) return -d.passed_by;
    if (schedule_ == device_schedule::least_loaded) return d.queued_items;
    return d.samples == 0 && d.queued == 0 ? -1.0 : (d.queued_items + items) * pace_of(d);
  }

  device_schedule schedule_;
  double concurrent_;
  std::size_t max_pieces_;
  array<device> all_;
};

}  // namespace detail

WARPWRIGHT_END
