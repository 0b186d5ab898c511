// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/serve/batcher_options.hpp>

#include <warpwright/core/detail/text/text.hpp>
#include <warpwright/core/error.hpp>
#include <warpwright/tune/latency_model.hpp>

WARPWRIGHT_BEGIN

namespace detail {

// Throws for values that no batcher can have; sorts the sizes.
WARPWRIGHT_COLD WARPWRIGHT_INLINE batcher_values checked(batcher_values values,
                                                         latency_model const& model,
                                                         source_location where) {
  auto const refuse = [&](char const* name, text const& value, char const* remedy) {
    throw_invalid_argument(text{"batcher_options: "} + name + " of " + value + "; " + remedy,
                           where);
  };
  auto const in = [&](char const* name, double value, double low, double high, char const* remedy) {
    if (!(value >= low && value <= high)) refuse(name, text{value}, remedy);
  };
  if (values.max_items == 0) values.max_items = model.last();
  if (values.max_items < 1 || values.max_items > 65536) {
    refuse("max_items", text{values.max_items}, "give 1 to 65,536");
  }
  if (values.limit_items < 1 || values.limit_items > (std::size_t{1} << 24U)) {
    refuse("limit_items", text{values.limit_items}, "give 1 to 16,777,216");
  }
  if (values.size_count > batcher_values::most_sizes) {
    refuse("a list of preferred sizes", text{values.size_count}, "give at most 16");
  }
  std::size_t count = 0;  // by insertion, each once
  for (std::size_t i = 0; i < values.size_count; ++i) {
    std::size_t const size = values.sizes[i];
    if (size < 1 || size > values.max_items) {
      refuse("preferred size", text{size}, "give sizes from 1 to max_items()");
    }
    std::size_t at = 0;
    while (at < count && values.sizes[at] < size) ++at;
    if (at < count && values.sizes[at] == size) continue;
    for (std::size_t j = count++; j > at; --j) values.sizes[j] = values.sizes[j - 1];
    values.sizes[at] = size;
  }
  values.size_count = count;
  in("limit_cost", values.limit_cost, 1e-300, never, "give a sum of costs above 0");
  in("limit_wait", values.limit_wait, 1e-300, never, "give seconds above 0");
  in("max_block", values.max_block, 0.0, 1e9, "give seconds from 0 to 1e9");
  in("max_delay", values.max_delay, 0.0, 1e9, "give seconds from 0 to 1e9");
  in("ageing", values.ageing, 1e-3, 1e9, "give seconds from 0.001 to 1e9");
  in("watchdog", values.watchdog, 1e-9, never, "give seconds above 0");
  in("drain", values.drain, 0.0, 1e9, "give seconds from 0 to 1e9");
  return values;
}

}  // namespace detail

WARPWRIGHT_END
