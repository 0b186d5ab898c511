// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Scalars of a training loop, for TensorBoard or as CSV:
//
//   ww::scalar_log log = ww::scalar_log::tensorboard("runs/first");
//   log.add("loss", step, loss);
#pragma once

#include <warpwright/core/error.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

WARPWRIGHT_BEGIN

namespace detail {
struct scalar_log_core;
}  // namespace detail

/// Writes scalars to a file, by tag and step.
///
/// A TensorBoard file is named events.out.tfevents.<time>.<host>.<process>.<number> and has 32-bit
/// floats; a CSV file has the columns wall_time, step, tag, value, and the shortest numbers that
/// are read as the same doubles. NaN and infinities are kept.
///
/// What was added reaches the file after at most flush_seconds, at the next add(); at flush(); in
/// the destructor. A program that is killed loses the rest; the file's whole records stay readable.
///
/// **Threads:** any number may call any member at once. **Capture:** legal. **Cost:** add() takes
/// some 100 ns and allocates nothing, but for long tags; 4 KiB at a time are written.
class scalar_log {
 public:
  static constexpr double default_flush_seconds = 10.0;

  /// Begins a new file for TensorBoard.
  /// @param directory  made if it is not there, with those above it
  /// @param flush_seconds  at least 0
  /// @throws std::runtime_error     when it cannot be written, with path, cause and remedy
  /// @throws std::invalid_argument  for negative seconds
  static scalar_log tensorboard(std::string const& directory,
                                double flush_seconds = default_flush_seconds,
                                source_location where = source_location::current());
  /// Opens a CSV file, and appends if it is there.
  /// @throws as tensorboard()
  static scalar_log csv(std::string const& path, double flush_seconds = default_flush_seconds,
                        source_location where = source_location::current());
  scalar_log(scalar_log&& other) noexcept : core_{other.core_} { other.core_ = nullptr; }
  scalar_log& operator=(scalar_log&&) = delete;
  /// Writes the rest. Does nothing in a child of fork().
  ~scalar_log();

  /// Adds a value. Never throws: when a write fails, this and all later values are lost, problem()
  /// says why, and dropped() counts them; the training goes on.
  /// @param tag   "loss/train"; bytes that are not UTF-8 become '?'
  /// @param step  by convention counted from 0
  void add(std::string const& tag, std::int64_t step, double value) noexcept;
  /// Passes all to the system. @return whether all was written so far
  bool flush() noexcept;
  /// @return the first failure, with path, cause and remedy; "" if there was none
  [[nodiscard]] std::string problem() const;
  /// @return how many values came after the failure
  [[nodiscard]] std::uint64_t dropped() const noexcept;
  /// @return the path of the file
  [[nodiscard]] std::string const& path() const noexcept;

 private:
  explicit scalar_log(detail::scalar_log_core* core) noexcept : core_{core} {}
  detail::scalar_log_core* core_;
};

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/observe/detail/scalar_log_definitions.hpp>
#endif
