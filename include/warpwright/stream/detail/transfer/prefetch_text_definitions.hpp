// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/text/string_builder.hpp>
#include <warpwright/stream/prefetch_options.hpp>

WARPWRIGHT_BEGIN

namespace detail {

inline string_builder gigabytes_per_second(double bytes_per_second) {
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
      return of_results ? "The work that makes the results is the limit."
                        : "The work with the batches is the limit, or what the caller waits for "
                          "besides: it never "
                          "lacks a batch.";
    case prefetch_limit::depth:
      return "Nothing is always busy: larger batches help, or, where times vary, a higher depth() "
             "or "
             "maximum_bytes().";
    case prefetch_limit::unknown:
      break;
  }
  return "Too few batches to tell what the limit is.";
}

}  // namespace detail

WARPWRIGHT_INLINE std::string prefetch_statistics::text() const {
  using detail::format_number;
  using detail::format_percent;
  using detail::gigabytes_per_second;
  detail::string_builder out{of_results ? "results: " : "prefetch: "};
  out += detail::string_builder{batches} + " batches, " +
         format_number("%.4g MB", static_cast<double>(bytes) * 1e-6) + " in " +
         format_number("%.4g s", seconds) + ": " + gigabytes_per_second(bytes_per_second()) +
         "\n  ";
  out += detail::string_builder{of_results ? "sink" : "source"} + ": " +
         gigabytes_per_second(source_bytes_per_second()) + " with " + static_cast<int>(workers) +
         (workers == 1 ? " thread" : " threads") + ", busy " + format_percent(source_share()) +
         " of the time\n  copy: ";
  if (copy_bytes_per_second > 0.0) {
    out += gigabytes_per_second(copy_bytes_per_second) + ", busy " + format_percent(copy_share());
  } else {
    out += "not timed yet";
  }
  out += detail::string_builder{"\n  caller: waited "} +
         format_percent(seconds > 0.0 ? caller_wait_seconds / seconds : 0.0) +
         " of the time, its stream idle " + format_percent(starved_share()) +
         "\n  ring: " + static_cast<int>(depth) + " batches of " +
         format_number("%.4g MB", static_cast<double>(slot_bytes) * 1e-6) + "\n  " +
         detail::limit_in_words(limit(), of_results) + "\n";
  return out.str();
}

WARPWRIGHT_END
