// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/architecture.hpp>

WARPWRIGHT_BEGIN

namespace detail {

WARPWRIGHT_COLD WARPWRIGHT_INLINE void throw_unknown_compute_capability(int major, int minor,
                                                                        source_location where) {
  throw_invalid_argument(
      text{"compute capability "} + major + "." + minor +
          " is not in the table of architectures (6.0 to 12.1): copy the nearest row with "
          "architecture_of(), change what differs, and pass that",
      where);
}

}  // namespace detail

WARPWRIGHT_INLINE std::string to_string(architecture const& a) {
  return (detail::text{"sm_"} + (a.major * 10 + a.minor)).c_str();
}

WARPWRIGHT_END
