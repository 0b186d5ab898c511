// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Scalars of a training loop, for TensorBoard or as CSV:
//
//   ww::scalar_log log = ww::scalar_log::tensorboard("runs/first");
//   log.add("loss", step, loss);
#pragma once

#include <warpwright/core/detail/system/file.hpp>
#include <warpwright/core/detail/thread/locks.hpp>
#include <warpwright/core/detail/thread/process_bound.hpp>
#include <warpwright/core/error.hpp>

#include <cstdint>
#include <string>

WARPWRIGHT_BEGIN

/// Writes scalars to a file, by tag and step.
///
/// A TensorBoard file is named events.out.tfevents.<time>.<host>.<process>.<number> and has 32-bit
/// floats; a CSV file has the columns wall_time, step, tag, value, and the shortest numbers that
/// are read as the same doubles. NaN and infinities are kept.
///
/// What was added reaches the file after at most flush_seconds, at the next add(); at flush(); in
/// the destructor. A child of fork() adds and writes nothing. A program that is killed loses the
/// rest; the file's whole records stay readable.
///
/// **Threads:** any number may call any member at once. **Capture:** legal. **Cost:** add() takes
/// some microseconds, and writes 4 KiB at a time.
class scalar_log : detail::noncopyable {
 public:
  /// Begins a new file for TensorBoard.
  /// @param directory      made if it is not there, with those above it
  /// @param flush_seconds  at least 0
  /// @throws std::runtime_error     when it cannot be written, with path, cause and remedy
  /// @throws std::invalid_argument  for negative seconds
  static scalar_log tensorboard(std::string const& directory, double flush_seconds = 10.0,
                                source_location where = source_location::current());
  /// Opens a CSV file, and appends if it is there; otherwise as tensorboard().
  static scalar_log csv(std::string const& path, double flush_seconds = 10.0,
                        source_location where = source_location::current()) {
    return scalar_log{path, true, flush_seconds, where};
  }
  ~scalar_log();

  /// Adds a value. Never throws: when a write fails, this and all later values are lost, problem()
  /// says why, and dropped() counts them; the training goes on.
  /// @param tag  bytes that are not UTF-8 become '?'
  void add(std::string const& tag, std::int64_t step, double value) noexcept;
  /// Passes all to the system. @return whether all was written so far
  bool flush() noexcept;
  /// @return the first failure, with path, cause and remedy; "" if there was none
  [[nodiscard]] std::string problem() const;
  /// @return how many values came after the failure
  [[nodiscard]] std::uint64_t dropped() const noexcept {
    detail::unique_lock<detail::mutex> const lock{lock_};
    return dropped_;
  }
  /// @return the path of the file
  [[nodiscard]] std::string const& path() const noexcept { return path_; }

 private:
  scalar_log(std::string const& path, bool csv, double flush_seconds, source_location where);
  std::FILE* open(double flush_seconds, source_location where);
  [[nodiscard]] detail::text reason() const noexcept;
  void pass_to_system() noexcept;
  void write_row(std::string const& tag, std::int64_t step, double value);
  void write_event(std::uint64_t step, char field, std::string const& message);

  std::string path_;
  bool csv_;
  double flush_seconds_;
  int error_ = 0;
  std::FILE* file_;
  detail::file_writer writer_;
  detail::owning_process process_;
  mutable detail::mutex lock_;
  std::uint64_t flushed_ = 0;  // when, in ns
  std::uint64_t dropped_ = 0;
  std::string scalar_;  // buffers of add()
  std::string summary_;
  std::string record_;
};

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/observe/detail/scalar_log_definitions.hpp>
#endif
