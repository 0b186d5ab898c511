// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/serve/batcher_options.hpp>
#include <warpwright/serve/batcher_statistics.hpp>

#include <warpwright/core/detail/text/figures.hpp>
#include <warpwright/core/detail/text/markup.hpp>

WARPWRIGHT_BEGIN

WARPWRIGHT_INLINE char const* to_text(ticket_status status) noexcept {
  constexpr char const* names[] = {"pending",   "answered", "late",   "shed",
                                   "cancelled", "failed",   "closing"};
  auto const i = static_cast<unsigned>(status);
  return i < sizeof names / sizeof *names ? names[i] : "unknown";
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE std::string batcher_statistics::to_text() const {
  using detail::format_percent;
  using detail::format_seconds;
  detail::string_builder t;
  auto const line = [&](char const* name, detail::string_builder const& value) {
    t += detail::padded(name, 12, true) + value + '\n';
  };
  detail::string_builder refused =
      detail::string_builder{late} + " late (" + late_running + " running), ";
  refused = refused + shed + " shed (" + shed_full + " full, " + shed_predicted +
            " predicted late), " + cancelled + " cancelled, " + failed + " failed, " + closing +
            " closing";
  line("requests", detail::string_builder{submitted} + ": " + answered + " answered, " + refused);
  line("now", detail::string_builder{queued} + " queued with " + detail::counted(keys, "key") +
                  ", " + running + " running; at most " + max_queued + " queued");
  line("batches", detail::string_builder{batches} + " of " +
                      detail::format_significant(mean_batch(), 3) + " on average, " +
                      format_percent(padding_share()) + " padding" +
                      (overdue_batches == 0
                           ? detail::string_builder{}
                           : detail::string_builder{"; "} + overdue_batches + " ran too long"));
  detail::string_builder by_size;
  for (std::size_t i = 0; i < size_classes; ++i) {
    if (sizes[i] == 0) continue;
    if (!by_size.empty()) by_size += ", ";
    by_size = by_size + (std::size_t{1} << i) + ": " + sizes[i];
  }
  if (batches != 0) line("by size", detail::string_builder{"up to "} + by_size);
  line("wait", format_seconds(mean_wait_seconds()) + " on average in the queue");
  line("busy", format_percent(busy_share()) + " of " + detail::counted(lanes, "lane") + " in " +
                   format_seconds(elapsed_seconds));
  return t;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE std::string batcher_statistics::to_json() const {
  struct count {
    char const* name;
    std::size_t value;
  };
  count const counts[] = {{"submitted", submitted},
                          {"answered", answered},
                          {"late", late},
                          {"shed", shed},
                          {"cancelled", cancelled},
                          {"failed", failed},
                          {"closing", closing},
                          {"shed_full", shed_full},
                          {"shed_predicted", shed_predicted},
                          {"late_running", late_running},
                          {"queued", queued},
                          {"running", running},
                          {"keys", keys},
                          {"max_queued", max_queued},
                          {"batches", batches},
                          {"items", items},
                          {"padded_items", padded_items},
                          {"overdue_batches", overdue_batches},
                          {"lanes", lanes}};
  detail::string_builder t = "{";
  for (count const& c : counts) t = t + detail::json_text(c.name) + ": " + c.value + ", ";
  t += "\"sizes\": [";
  for (std::size_t i = 0; i < size_classes; ++i) t = t + (i == 0 ? "" : ", ") + sizes[i];
  t = t + "], \"wait_seconds\": " + detail::json_number(wait_seconds, "%.9g") +
      ", \"busy_seconds\": " + detail::json_number(busy_seconds, "%.9g") +
      ", \"elapsed_seconds\": " + detail::json_number(elapsed_seconds, "%.9g") + "}\n";
  return t;
}

WARPWRIGHT_END
