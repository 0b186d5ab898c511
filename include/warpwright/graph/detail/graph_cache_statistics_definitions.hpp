// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The texts of graph_cache_statistics.
#pragma once

#include <warpwright/core/detail/text/markup.hpp>
#include <warpwright/graph/graph_cache_statistics.hpp>

#include <cmath>

WARPWRIGHT_BEGIN

namespace detail {

WARPWRIGHT_INLINE string_builder json_number(double value) { return json_number(value, "%.6g"); }

WARPWRIGHT_INLINE string_builder json_counts(graph_cache_counts const& counts) {
  string_builder out;
  for (named_count const& each : counted_fields) {
    out += string_builder{out.empty() ? "\"" : ", \""} + each.name +
           "\": " + std::size_t{counts.*each.value};
  }
  return out;
}

WARPWRIGHT_INLINE string_builder microseconds_text(double value) {
  return value > 0.0 ? format_number("%.1f", value) : string_builder{"-"};
}

// The name of a cudaGraphExecUpdateResult in graph_update's words.
WARPWRIGHT_INLINE char const* update_reason(std::size_t result) {
  graph_update update;
  update.reason = static_cast<cudaGraphExecUpdateResult>(result);
  return update.reason_text();
}

}  // namespace detail

WARPWRIGHT_INLINE std::vector<std::string> graph_cache_statistics::warnings() const {
  using detail::string_builder;
  std::vector<std::string> all;
  for (graph_key_statistics const& k : keys) {
    string_builder const name = string_builder{"key "} + (k.key.empty() ? "()" : k.key.c_str());
    if (k.calls >= 64 && k.change_rate > 0.25) {
      all.push_back(name + " never converges: the bindings of " +
                    detail::format_percent(k.change_rate) +
                    " of its calls are new. Keep buffers at their addresses, raise variants(), or "
                    "pass values that change each time as a graph_param");
    }
    if (k.rebuilds > 0 && k.pauses > 1) {
      all.push_back(name + " is instantiated again and again, and was paused " +
                    std::size_t{k.pauses} + " times: " + k.last_rebuild +
                    (k.last_kernel.empty() ? "" : " at kernel ") + k.last_kernel +
                    ". Put what decides about its work into the key");
    }
    if (!k.last_failure.empty() && k.replays == 0) {
      all.push_back(name + " runs eagerly, as it cannot be captured: " + k.last_failure);
    }
  }
  if (rejected_calls > 0) {
    all.push_back(string_builder{} + std::size_t{rejected_calls} +
                  " calls ran eagerly, as the cache has max_shapes() keys: round sizes up with "
                  "round_up_to(), or raise max_shapes()");
  }
  std::size_t crowded = 0;
  for (graph_key_statistics const& k : keys) {
    crowded += k.evictions > 0 && k.pauses > 0 && k.rebuilds == 0 && k.failures == 0 ? 1 : 0;
  }
  if (crowded > 0 || (evictions > 8 && 2 * evictions > replays)) {
    all.push_back(string_builder{"graphs are evicted before they are used again: "} +
                  std::size_t{evictions} + " evictions for " + std::size_t{replays} +
                  " replays, and " + crowded +
                  " keys were paused for it: raise max_entries(), max_bytes() or "
                  "max_pool_bytes(), or round sizes up with round_up_to()");
  }
  if (legacy_calls > 0) {
    all.push_back(string_builder{} + std::size_t{legacy_calls} +
                  " calls ran eagerly, as the legacy default stream cannot be captured: use a "
                  "warpwright::stream");
  }
  return all;
}

WARPWRIGHT_INLINE std::string graph_cache_statistics::to_text() const {
  using detail::microseconds_text;
  using detail::padded;
  using detail::string_builder;
  string_builder out =
      string_builder{"graph_cache: "} + std::size_t{calls} + " calls, " + std::size_t{replays} +
      " replayed, " + std::size_t{eager} + " eager; " + std::size_t{builds} + " built, " +
      std::size_t{updates} + " updated, " + std::size_t{rebuilds} + " rebuilt, " +
      std::size_t{evictions} + " evicted; " + std::size_t{graphs} + " graphs, " +
      detail::format_number("%.1f", static_cast<double>(bytes) / 1048576.0) + " MiB, of pools " +
      detail::format_number("%.1f", static_cast<double>(pool_bytes) / 1048576.0) + " MiB; " +
      detail::format_number("%.1f", 1e3 * saved_seconds) + " ms saved\n";
  for (std::size_t i = 0; i < sizeof rebuilds_by_reason / sizeof rebuilds_by_reason[0]; ++i) {
    if (rebuilds_by_reason[i] == 0) continue;
    out += string_builder{"  rebuilt "} + std::size_t{rebuilds_by_reason[i]} +
           " times: " + detail::update_reason(i) + "\n";
  }
  out += padded("key", 16, true) + padded("state", 16, true) + padded("calls", 9) +
         padded("replays", 9) + padded("changes", 9) + padded("graphs", 7) +
         padded("eager us", 10) + padded("replay us", 10) + padded("build us", 10) +
         padded("break-even", 11) + padded("saved ms", 10) + "\n";
  for (graph_key_statistics const& k : keys) {
    string_builder even{"-"};
    if (k.break_even_calls > 0.0) {
      even = std::isfinite(k.break_even_calls) ? detail::format_number("%.0f", k.break_even_calls)
                                               : string_builder{"never"};
    }
    out += padded(k.key.empty() ? "()" : k.key.c_str(), 16, true) +
           padded(to_string(k.state), 16, true) + padded(std::size_t{k.calls}, 9) +
           padded(std::size_t{k.replays}, 9) + padded(std::size_t{k.updates + k.rebuilds}, 9) +
           padded(k.graphs, 7) + padded(microseconds_text(1e6 * k.eager_seconds), 10) +
           padded(microseconds_text(1e6 * k.replay_seconds), 10) +
           padded(microseconds_text(1e6 * k.build_seconds), 10) + padded(even, 11) +
           padded(detail::format_number("%.2f", 1e3 * k.saved_seconds), 10) + "\n";
  }
  for (std::string const& problem : warnings()) out += string_builder{"warning: "} + problem + "\n";
  return out;
}

WARPWRIGHT_INLINE std::string graph_cache_statistics::to_json() const {
  using detail::json_number;
  using detail::json_text;
  using detail::string_builder;
  string_builder out =
      string_builder{"{"} + detail::json_counts(*this) +
      ", \"legacy_calls\": " + std::size_t{legacy_calls} +
      ", \"inlined_calls\": " + std::size_t{inlined_calls} +
      ", \"rejected_calls\": " + std::size_t{rejected_calls} + ", \"graphs\": " + graphs +
      ", \"bytes\": " + bytes + ", \"pool_bytes\": " + pool_bytes +
      ", \"retired_graphs\": " + retired_graphs +
      ", \"saved_seconds\": " + json_number(saved_seconds) + ", \"rebuild_reasons\": {";
  bool first = true;
  for (std::size_t i = 0; i < sizeof rebuilds_by_reason / sizeof rebuilds_by_reason[0]; ++i) {
    if (rebuilds_by_reason[i] == 0) continue;
    out += string_builder{first ? "" : ", "} + json_text(detail::update_reason(i)) + ": " +
           std::size_t{rebuilds_by_reason[i]};
    first = false;
  }
  out += "}, \"keys\": [";
  first = true;
  for (graph_key_statistics const& k : keys) {
    out += string_builder{first ? "" : ", "} + "{\"key\": " + json_text(k.key) +
           ", \"state\": " + json_text(to_string(k.state)) + ", " + detail::json_counts(k) +
           ", \"graphs\": " + k.graphs + ", \"nodes\": " + k.nodes + ", \"bytes\": " + k.bytes +
           ", \"pool_bytes\": " + k.pool_bytes +
           ", \"eager_seconds\": " + json_number(k.eager_seconds) +
           ", \"replay_seconds\": " + json_number(k.replay_seconds) +
           ", \"build_seconds\": " + json_number(k.build_seconds) +
           ", \"change_seconds\": " + json_number(k.change_seconds) +
           ", \"change_rate\": " + json_number(k.change_rate) +
           ", \"break_even_calls\": " + json_number(k.break_even_calls) +
           ", \"saved_seconds\": " + json_number(k.saved_seconds) +
           ", \"last_rebuild\": " + json_text(k.last_rebuild) +
           ", \"last_kernel\": " + json_text(k.last_kernel) +
           ", \"last_failure\": " + json_text(k.last_failure) + "}";
    first = false;
  }
  out += "], \"warnings\": [";
  first = true;
  for (std::string const& problem : warnings()) {
    out += string_builder{first ? "" : ", "} + json_text(problem);
    first = false;
  }
  return out + "]}";
}

WARPWRIGHT_END
