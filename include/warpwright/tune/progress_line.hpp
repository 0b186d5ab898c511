// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A tuner's progress as one line of a terminal:
//
//   tuner.progress(ww::progress_line{stderr}).tune(stream, workload);
#pragma once

#include <warpwright/tune/tuning_progress.hpp>

#include <cstdio>
#include <string>

WARPWRIGHT_BEGIN

/// Rewrites one line of a terminal at each report, and clears it at the end of the tune.
///
/// Copies share nothing but the file.
/// **Threads:** one tune a file.
class progress_line {
 public:
  /// @param file  a terminal, such as stderr; it outlives the tune. Null: prints nothing
  explicit progress_line(std::FILE* file = stderr) noexcept : file_{file} {}
  progress_line(progress_line const& other) noexcept : file_{other.file_} {}
  progress_line& operator=(progress_line const& other) noexcept {
    file_ = other.file_;
    return *this;
  }
  ~progress_line() {
    if (!written_) return;
    std::fprintf(file_, "\r%*s\r", width, "");
    std::fflush(file_);
  }

  /// The text of a report.
  /// @return at most 100 characters of ASCII
  template <typename Progress = tuning_progress>
  [[nodiscard]] static std::string text(Progress const& p);

  /// Prints a report.
  template <typename Progress = tuning_progress>
  void operator()(Progress const& p);

 private:
  static constexpr int width = 100;
  std::FILE* file_;
  bool written_ = false;
};

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/tune/detail/report/progress_line_definitions.hpp>
#endif
