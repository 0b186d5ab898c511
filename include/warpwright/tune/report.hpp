// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A tune result as CSV, JSON, SVG or an HTML page, and a line of progress on a terminal:
//
//   auto const best = tuner.progress(ww::progress_line{}).tune(stream, workload, memory);
//   auto const page = ww::to_html(best, ww::html_report_options{}.title("Batch size of the
//   decoder"));
#pragma once

#include <warpwright/core/detail/options.hpp>
#include <warpwright/tune/detail/objective/tuning_progress.hpp>
#include <warpwright/tune/detail/report/tune_result.hpp>

#include <cstdio>
#include <string>

WARPWRIGHT_BEGIN

/// Formats the rows as CSV (RFC 4180, but lines end in "\n"): a header, then a line per size;
/// numbers in seconds, bytes, items and joules, flags as 0 or 1, text in quotes. The columns are
/// the members of tune_row, `chosen`, and the result's `source`, which is the same in all lines:
/// those of several results can be in one file. Empty: a figure that is not finite, and the
/// `compared_error` of a size that was not compared in turns. What else belongs to the result and
/// not to a size, such as its warnings, is in to_json().
///
/// @param result  the result of batch_tuner::tune()
/// @return the text; the caller writes the file
std::string to_csv(tune_result const& result);

/// Formats the whole result as one JSON object (RFC 8259).
///
/// `chosen_batch` is null if no size is feasible; `latency_limit_seconds` and `memory_budget_bytes`
/// are null if they were not set; a figure that is not finite is null, as is the `compared_error`
/// of a size that was not compared in turns. `source` is to_string() of tune_result::source, and
/// `warnings` is a list of texts. Each of `rows` has the members of tune_row.
///
/// @param result  the result of batch_tuner::tune()
/// @return the text; the caller writes the file
std::string to_json(tune_result const& result);

/// Draws the result as an SVG image: throughput, latency and memory, where they are known, over the
/// batch size, with intervals, the choice, the limits and the sizes that are not usable.
///
/// The image refers to no other file and runs no script: it can be embedded in HTML unchanged.
///
/// @param result  the result of batch_tuner::tune()
/// @param title  the heading, UTF-8, not escaped: to_svg() escapes it
/// @return the text; the caller writes the file
std::string to_svg(tune_result const& result, std::string const& title = "Batch size");

namespace detail {

struct html_report_settings {
  std::string title = "Batch size";
  std::string device;
  std::string date;
};

}  // namespace detail

/// What the heading of an HTML report says: a value, each setter of which returns a changed copy.
///
/// Texts are UTF-8 and not escaped: to_html() escapes them, and replaces other bytes by '?'.
class html_report_options
    : public detail::options_base<html_report_options, detail::html_report_settings> {
 public:
  /// @param text  the heading and the page's title; default "Batch size"
  /// @throws std::invalid_argument for an empty text
  self title(std::string const& text, source_location where = source_location::current()) const {
    if (text.empty()) {
      detail::throw_invalid_argument(
          "html_report_options: an empty title; a page must have one: leave the call out for "
          "\"Batch size\"",
          where);
    }
    return with(&values::title, text);
  }
  /// @param name  the device that was tuned on, such as device_info::name; empty: not said
  self device(std::string const& name) const { return with(&values::device, name); }
  /// @param text  when the tune ran, in any form; empty: not said. The page has no other date, so
  ///   that equal results give equal pages
  self date(std::string const& text) const { return with(&values::date, text); }

  std::string const& title() const noexcept { return values_.title; }
  std::string const& device() const noexcept { return values_.device; }
  std::string const& date() const noexcept { return values_.date; }
};

/// Formats the whole result as an HTML page: the choice in a sentence, where it comes from unless a
/// whole tune found it, warnings, charts of throughput, latency and memory over the batch size with
/// intervals and limits, how the time was spent, all sizes, and the terms.
///
/// The page refers to no other file and runs no script. It suits a phone and paper, and follows the
/// reader's preference for dark pages. Charts and columns without a figure are left out.
///
/// @param result   the result of batch_tuner::tune(), or of a no_feasible_batch, for which the page
///   says why nothing was chosen
/// @param options  title, device and date
/// @return the text, UTF-8; the caller writes the file. Equal arguments give equal texts
///
/// **Threads:** safe.
std::string to_html(tune_result const& result, html_report_options const& options = {});

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
  [[nodiscard]] static std::string to_text(tuning_progress const& p);

  /// Prints a report.
  void operator()(tuning_progress const& p);

 private:
  static constexpr int width = 100;
  std::FILE* file_;
  bool written_ = false;
};

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/tune/detail/report/report_definitions.hpp>
#endif
