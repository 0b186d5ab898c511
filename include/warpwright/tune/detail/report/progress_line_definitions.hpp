// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/text/figures.hpp>
#include <warpwright/core/detail/text/string_builder.hpp>
#include <warpwright/tune/progress_line.hpp>

#include <cstdio>
#include <string>

WARPWRIGHT_BEGIN

template <typename Progress>
std::string progress_line::text(Progress const& p) {
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

template <typename Progress>
void progress_line::operator()(Progress const& p) {
  if (file_ == nullptr) return;
  std::fprintf(file_, "\r%-*.*s", width, width, text(p).c_str());
  std::fflush(file_);
  written_ = true;
}

WARPWRIGHT_END
