// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Times, rates and sizes as text, with units that suit the value.
#pragma once

#include <warpwright/core/detail/string_builder.hpp>

#include <cstddef>

WARPWRIGHT_BEGIN

namespace detail {

// Templates, so that a file which only includes the header does not compile them.

// 0.0061234 -> "6.12 ms"
template <typename Real>
string_builder seconds_text(Real seconds) {
  if (seconds < Real{0.9995e-3}) return format_number("%.3g us", seconds * 1e6);
  if (seconds < Real{0.9995}) return format_number("%.3g ms", seconds * 1e3);
  return format_number("%.4g s", seconds);
}

// 12345678 -> "12.3 M"
template <typename Real>
string_builder rate_text(Real per_second) {
  constexpr char const* formats[] = {"%.4g", "%.4g k", "%.4g M", "%.4g G", "%.4g T"};
  int unit = 0;
  for (; per_second >= Real{9999.5} && unit < 4; ++unit) per_second /= 1000;
  return format_number(formats[unit], per_second);
}

// 12345678 -> "11.77 MiB"
template <typename Real>
string_builder bytes_text(Real bytes) {
  constexpr char const* formats[] = {"%.4g B", "%.4g KiB", "%.4g MiB", "%.4g GiB", "%.4g TiB"};
  int unit = 0;
  for (; bytes >= Real{1023.95} && unit < 4; ++unit) bytes /= 1024;
  return format_number(formats[unit], bytes);
}

}  // namespace detail

WARPWRIGHT_END
