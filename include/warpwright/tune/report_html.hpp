// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A tune as a page for people: what was chosen, why, and everything that was measured.
//
//   auto const page = ww::to_html(best, ww::html_report_options{}
//                                           .title("Batch size of the decoder")
//                                           .device(ww::get_device_info(device).name)
//                                           .date("2026-11-23 20:44 UTC"));
#pragma once

#include <warpwright/tune/tune_result.hpp>

#include <cstddef>
#include <string>
#include <utility>

WARPWRIGHT_BEGIN

/// What the heading of an HTML report says: a value, each setter of which returns a changed copy.
///
/// Texts are UTF-8 and not escaped: to_html() escapes them, and replaces other bytes by '?'.
class html_report_options {
 public:
  /// @param text  the heading and the page's title; default "Batch size"
  /// @return a changed copy
  /// @throws std::invalid_argument for an empty text
  [[nodiscard]] html_report_options title(
      std::string text, source_location where = source_location::current()) const {
    if (text.empty()) {
      detail::throw_invalid_argument(
          "html_report_options: an empty title; a page must have one: leave the call out for "
          "\"Batch size\"",
          where);
    }
    html_report_options copy = *this;
    copy.title_ = std::move(text);
    return copy;
  }
  /// @param name  the device that was tuned on, such as device_info::name; empty: not said
  /// @return a changed copy
  [[nodiscard]] html_report_options device(std::string name) const {
    html_report_options copy = *this;
    copy.device_ = std::move(name);
    return copy;
  }
  /// @param text  when the tune ran, in any form; empty: not said. The page has no other date, so
  ///   that equal results give equal pages
  /// @return a changed copy
  [[nodiscard]] html_report_options date(std::string text) const {
    html_report_options copy = *this;
    copy.date_ = std::move(text);
    return copy;
  }

  /// @return the heading
  [[nodiscard]] std::string const& title() const noexcept { return title_; }
  /// @return the device's name; empty: not said
  [[nodiscard]] std::string const& device() const noexcept { return device_; }
  /// @return when the tune ran; empty: not said
  [[nodiscard]] std::string const& date() const noexcept { return date_; }

 private:
  std::string title_ = "Batch size";
  std::string device_;
  std::string date_;
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
template <typename Result = tune_result>
WARPWRIGHT_COLD_ENTRY std::string to_html(Result const& result,
                                          html_report_options const& options = {});

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/tune/detail/report/report_html_definitions.hpp>
#endif
