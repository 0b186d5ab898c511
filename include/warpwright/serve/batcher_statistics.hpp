// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/error.hpp>

#include <cstddef>
#include <string>

WARPWRIGHT_BEGIN

/// What a batcher has done since it was made. metrics_page takes it as a source.
struct batcher_statistics {
  static constexpr std::size_t size_classes = 17;

  std::size_t submitted = 0;  ///< calls of submit(): the sum of the next six, queued and running
  std::size_t answered = 0;   ///< with a value
  std::size_t late = 0;
  std::size_t shed = 0;
  std::size_t cancelled = 0;
  std::size_t failed = 0;
  std::size_t closing = 0;

  std::size_t shed_full = 0;       ///< of shed: at the door, by a limit of items, bytes or cost
  std::size_t shed_predicted = 0;  ///< of shed: at the door, as it would be late
  std::size_t late_running = 0;    ///< of late: in a batch that ran too long

  std::size_t queued = 0;      ///< now
  std::size_t running = 0;     ///< now, in batches
  std::size_t keys = 0;        ///< of the queued, now
  std::size_t max_queued = 0;  ///< ever

  std::size_t batches = 0;
  std::size_t items = 0;                 ///< of all batches
  std::size_t padded_items = 0;          ///< of all batches, with what pads them
  std::size_t sizes[size_classes] = {};  ///< batches of up to 1, 2, 4 … 65,536 items
  std::size_t overdue_batches = 0;       ///< that ran longer than batcher_options::watchdog()

  std::size_t lanes = 0;
  double wait_seconds = 0.0;     ///< in the queue, the sum over all items of batches
  double busy_seconds = 0.0;     ///< the sum over all lanes
  double elapsed_seconds = 0.0;  ///< since the batcher was made

  /// @return items of a batch; 0 without a batch
  [[nodiscard]] double mean_batch() const noexcept {
    return batches == 0 ? 0.0 : static_cast<double>(items) / static_cast<double>(batches);
  }
  /// @return seconds in the queue of an item that was sent
  [[nodiscard]] double mean_wait_seconds() const noexcept {
    return items == 0 ? 0.0 : wait_seconds / static_cast<double>(items);
  }
  /// @return the share of padded_items that is padding
  [[nodiscard]] double padding_share() const noexcept {
    return padded_items == 0 ? 0.0
                             : 1.0 - static_cast<double>(items) / static_cast<double>(padded_items);
  }
  /// @return the share of the lanes' time in which a batch ran
  [[nodiscard]] double busy_share() const noexcept {
    double const all = elapsed_seconds * static_cast<double>(lanes);
    return all > 0.0 ? busy_seconds / all : 0.0;
  }

  /// @return a table
  [[nodiscard]] std::string to_text() const;
  /// @return an object with the members above
  [[nodiscard]] std::string to_json() const;
};

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/serve/detail/batcher_text_definitions.hpp>
#endif
