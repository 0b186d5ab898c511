// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A tuner's progress as one line of a terminal:
//
//   tuner.progress(ww::progress_line{stderr}).tune(stream, workload);
#pragma once

#include <warpwright/tune/tune_result.hpp>
#include <warpwright/tune/tuning_progress.hpp>

#include <cstdio>

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
  [[nodiscard]] static std::string text(Progress const& p) {
    detail::string_builder line = "tuning: ";
    line += to_string(p.phase);
    line += " " + detail::string_builder(p.batch);
    if (p.best_batch != 0) {
      line += ", best " + detail::string_builder(p.best_batch) + " with " +
              detail::format_rate(p.best_items_per_second) + " items/s";
    }
    line += ", " + detail::counted(p.sizes, "size") + ", " +
            detail::format_number("%.1f", p.elapsed_seconds) + " of " +
            detail::format_number("%.3g s", p.max_seconds);
    return line;
  }

  /// Prints a report.
  template <typename Progress = tuning_progress>
  void operator()(Progress const& p) {
    if (file_ == nullptr) return;
    std::fprintf(file_, "\r%-*.*s", width, width, text(p).c_str());
    std::fflush(file_);
    written_ = true;
  }

 private:
  static constexpr int width = 100;
  std::FILE* file_;
  bool written_ = false;
};

WARPWRIGHT_END
