// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The checksum of files: CRC-32C (Castagnoli), as of iSCSI, ext4 and cloud storage.
#pragma once

#include <warpwright/core/detail/config.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>

WARPWRIGHT_BEGIN

namespace detail {

struct crc32c_table {
  std::uint32_t of[8][256];  // of[k][b]: byte b, with k zero bytes behind it
  constexpr crc32c_table() : of{} {
    for (std::uint32_t b = 0; b < 256; ++b) {
      std::uint32_t c = b;
      for (int bit = 0; bit < 8; ++bit) c = (c >> 1U) ^ ((c & 1U) != 0 ? 0x82f63b78U : 0U);
      of[0][b] = c;
    }
    for (std::uint32_t b = 0; b < 256; ++b) {
      for (int k = 1; k < 8; ++k) of[k][b] = (of[k - 1][b] >> 8U) ^ of[0][of[k - 1][b] & 255U];
    }
  }
};
template <class = void>
inline constexpr crc32c_table the_crc32c_table{};

/// Eight bytes at a time, by tables. @param crc  the inverse of what came before
template <class = void>
std::uint32_t crc32c_by_tables(std::uint32_t crc, unsigned char const* data,
                               std::size_t bytes) noexcept {
  auto const& of = the_crc32c_table<>.of;
  for (; bytes >= 8; data += 8, bytes -= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, data, 8);  // little-endian, as all systems with CUDA
    word ^= crc;
    crc = 0;
    for (unsigned k = 0; k < 8; ++k) crc ^= of[7 - k][(word >> (8 * k)) & 255U];
  }
  for (; bytes != 0; ++data, --bytes) crc = (crc >> 8U) ^ of[0][(crc ^ *data) & 255U];
  return crc;
}

#if defined(__x86_64__) && defined(__GNUC__)
/// As above, by the instruction of SSE 4.2.
inline std::uint32_t crc32c_by_instruction(std::uint32_t crc, unsigned char const* data,
                                           std::size_t bytes) noexcept {
  std::uint64_t c = crc;
  for (; bytes >= 8; data += 8, bytes -= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, data, 8);
    __asm__("crc32q %1, %0" : "+r"(c) : "r"(word));
  }
  auto last = static_cast<std::uint32_t>(c);
  for (; bytes != 0; ++data, --bytes) __asm__("crc32b %1, %0" : "+r"(last) : "rm"(*data));
  return last;
}
#endif

/// @param before  of the bytes before these; 0: there are none
/// @return of both
template <class = void>
std::uint32_t crc32c(void const* data, std::size_t bytes, std::uint32_t before = 0) noexcept {
  auto const* const from = static_cast<unsigned char const*>(data);
#if defined(__x86_64__) && defined(__GNUC__)
  if (__builtin_cpu_supports("sse4.2")) return ~crc32c_by_instruction(~before, from, bytes);
#endif
  return ~crc32c_by_tables<>(~before, from, bytes);
}

}  // namespace detail

WARPWRIGHT_END
