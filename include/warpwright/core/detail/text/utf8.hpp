// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/config.hpp>

#include <cstddef>

WARPWRIGHT_BEGIN

namespace detail {

/// @param text  ends in a zero
/// @return the length in bytes of the text's first UTF-8 character; 0: not UTF-8
WARPWRIGHT_COLD inline std::size_t utf8_bytes(char const* text) noexcept {
  auto const at = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  unsigned char const lead = at(0);
  if (lead < 0x80) return 1;
  if (lead < 0xc2 || lead > 0xf4) return 0;
  std::size_t const bytes = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  for (std::size_t i = 1; i < bytes; ++i) {  // stops at the terminating zero
    if ((at(i) & 0xc0U) != 0x80U) return 0;
  }
  bool const too_long = (lead == 0xe0 && at(1) < 0xa0) || (lead == 0xf0 && at(1) < 0x90);
  bool const surrogate = lead == 0xed && at(1) > 0x9f;
  bool const too_high = lead == 0xf4 && at(1) > 0x8f;
  return too_long || surrogate || too_high ? 0 : bytes;
}

}  // namespace detail

WARPWRIGHT_END
