// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/text/string_builder.hpp>
#include <warpwright/stream/prefetch_options.hpp>

WARPWRIGHT_BEGIN

namespace detail {

inline string_builder gigabytes_per_second(double bytes_per_second) {
  if (bytes_per_second <= 0.0) return "not timed yet";
  return format_number("%.3g GB/s", bytes_per_second * 1e-9);
}

inline char const* limit_in_words(prefetch_limit limit, bool of_results) noexcept {
  switch (limit) {
    case prefetch_limit::source:
      return of_results ? "The sink is the limit: write larger batches, or less in it."
                        : "The source is the limit: more workers help while processors are free.";
    case prefetch_limit::copy:
      return "The copy is the limit: smaller elements help, or less to copy.";
    case prefetch_limit::caller:
      return of_results ? "What makes the results is the limit: it never lacks a slot."
                        : "The work with the batches is the limit, or what the caller waits for "
                          "besides: it never lacks a batch.";
    case prefetch_limit::depth:
      return "Nothing is always busy: larger batches help, or, where times vary, a higher depth() "
             "or max_bytes().";
    case prefetch_limit::unknown:
      break;
  }
  return "Too few batches to tell what the limit is.";
}

}  // namespace detail

WARPWRIGHT_INLINE std::string prefetch_statistics::to_text() const {
  using detail::format_number;
  using detail::format_percent;
  using detail::gigabytes_per_second;
  bool const is_timed = seconds > 0.0;
  auto const percent = [is_timed](char const* before, double share, char const* after) {
    return is_timed ? before + format_percent(share) + after : detail::string_builder{};
  };
  detail::string_builder out{of_results ? "results: " : "prefetch: "};
  out += detail::string_builder{batches} + (batches == 1 ? " batch, " : " batches, ") +
         format_number("%.4g MB", static_cast<double>(bytes) * 1e-6);
  if (is_timed) {
    out +=
        " in " + format_number("%.4g s", seconds) + ": " + gigabytes_per_second(bytes_per_second());
  }
  out += detail::string_builder{of_results ? "\n  sink: " : "\n  source: "} +
         gigabytes_per_second(source_bytes_per_second()) + " with " + static_cast<int>(workers) +
         (workers == 1 ? " thread" : " threads") +
         percent(", busy ", source_share(), " of the time") +
         "\n  copy: " + gigabytes_per_second(copy_bytes_per_second);
  if (copy_bytes_per_second > 0.0) out += percent(", busy ", copy_share(), "");
  out += percent("\n  caller: waited ", caller_wait_share(), " of the time") +
         percent(", its stream idle ", starved_share(), "") +
         "\n  ring: " + static_cast<int>(depth) + " batches of " +
         format_number("%.4g MB", static_cast<double>(slot_bytes) * 1e-6) + "\n  " +
         detail::limit_in_words(limit(), of_results) + "\n";
  return out.str();
}

WARPWRIGHT_INLINE std::string detail::batch_run_in_words(std::size_t items, double seconds,
                                                         double first_batch_seconds) {
  return (string_builder{items} + (items == 1 ? " item in " : " items in ") +
          format_number("%.4g s", seconds) + ", " + format_number("%.4g s", first_batch_seconds) +
          " of it until the first batch was there\n")
      .str();
}

WARPWRIGHT_END
