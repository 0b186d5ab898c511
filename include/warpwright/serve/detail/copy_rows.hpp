// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/error.hpp>
#include <warpwright/core/launch.hpp>
#include <warpwright/core/stream.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

WARPWRIGHT_BEGIN

/// A matrix: row i is the `width` elements from i * width on.
template <class T>
struct padded_rows {
  T* elements = nullptr;
  std::size_t width = 0;
};

/// Rows one behind another: row i is elements[offsets[i]] to elements[offsets[i + 1] - 1].
/// @tparam Offset  std::int32_t or std::int64_t
template <class T, class Offset = std::int32_t>
struct packed_rows {
  T* elements = nullptr;
  Offset const* offsets = nullptr;  ///< one more than there are rows
};

/// Rows anywhere: row i is the lengths[i] elements from rows[i] on. The addresses and lengths lie
/// in memory that the device reads, as batch::inputs() with batcher_options::host_data() do.
template <class T>
struct separate_rows {
  T* const* rows = nullptr;
  std::int32_t const* lengths = nullptr;
};

namespace detail {
inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

template <class T>
struct rows_access;
template <class T>
struct rows_access<padded_rows<T>> {
  using element = T;
  static constexpr bool is_padded = true;
  WARPWRIGHT_HOST_DEVICE static T* row(padded_rows<T> const& m, std::uint64_t r) {
    return m.elements + r * m.width;
  }
  WARPWRIGHT_HOST_DEVICE static std::uint64_t length(padded_rows<T> const& m, std::uint64_t) {
    return m.width;
  }
};
template <class T, class Offset>
struct rows_access<packed_rows<T, Offset>> {
  using element = T;
  static constexpr bool is_padded = false;
  WARPWRIGHT_HOST_DEVICE static T* row(packed_rows<T, Offset> const& m, std::uint64_t r) {
    return m.elements + m.offsets[r];
  }
  WARPWRIGHT_HOST_DEVICE static std::uint64_t length(packed_rows<T, Offset> const& m,
                                                     std::uint64_t r) {
    Offset const n = m.offsets[r + 1] - m.offsets[r];
    return n > 0 ? static_cast<std::uint64_t>(n) : 0;
  }
};
template <class T>
struct rows_access<separate_rows<T>> {
  using element = T;
  static constexpr bool is_padded = false;
  WARPWRIGHT_HOST_DEVICE static T* row(separate_rows<T> const& m, std::uint64_t r) {
    return m.rows[r];
  }
  WARPWRIGHT_HOST_DEVICE static std::uint64_t length(separate_rows<T> const& m, std::uint64_t r) {
    return m.lengths[r] > 0 ? static_cast<std::uint64_t>(m.lengths[r]) : 0;
  }
};

template <class T, unsigned N>
struct alignas(N == 1 ? alignof(T) : sizeof(T) * N) element_group {
  T of[N];
};

// A thread has groups of 16 bytes of the target, so that they are written at once: of a matrix from
// its begin on, of other rows from the address before the row that is aligned.
template <class From, class To, class Index>
struct copy_rows_kernel : kernel_base<256> {
  using from_access = rows_access<From>;
  using to_access = rows_access<To>;
  using T = typename to_access::element;
  static constexpr unsigned group = 16 % sizeof(T) == 0 ? 16 / sizeof(T) : 1;
  static constexpr unsigned groups = 4;  // a thread

  From from;
  To to;
  unsigned char* mask;
  Index width;
  Index row_groups;
  Index total;  // groups
  T fill;
  bool whole_mask;  // groups of it can be written at once

  WARPWRIGHT_NO_EXEC_CHECK
  template <class Block>
  WARPWRIGHT_HOST_DEVICE void operator()(Block& block) const {
    block.for_each_thread([&](unsigned t) {
      for (unsigned g = 0; g < groups; ++g) {
        std::uint64_t const at = (std::uint64_t{block.index()} * groups + g) * max_threads + t;
        if (at < total) copy_group(static_cast<Index>(at));
      }
    });
  }

 private:
  WARPWRIGHT_HOST_DEVICE void copy_group(Index at) const {
    Index const r = at / row_groups;
    auto const* const source = from_access::row(from, r);
    T* const target = to_access::row(to, r);
    // Signed: the first group may begin in front of the row.
    auto const limit = static_cast<std::int64_t>(width);
    auto length = static_cast<std::int64_t>(from_access::length(from, r));
    if (length > limit) length = limit;
    std::int64_t room = limit;
    if (!to_access::is_padded) {
      room = static_cast<std::int64_t>(to_access::length(to, r));
      if (room > length) room = length;
    }
    auto const address = reinterpret_cast<std::uintptr_t>(target);
    auto const past = static_cast<std::int64_t>(address / sizeof(T) % group);
    std::int64_t const first = static_cast<std::int64_t>(at - r * row_groups) * group - past;
    if (first >= room) return;
    element_group<T, group> values;
    element_group<unsigned char, group> valid;
    for (unsigned i = 0; i < group; ++i) {
      std::int64_t const c = first + i;
      bool const has = c >= 0 && c < length;
      values.of[i] = has ? source[c] : fill;
      valid.of[i] = has ? 1 : 0;
    }
    unsigned char* const row_mask =
        to_access::is_padded && mask != nullptr ? mask + r * width : nullptr;
    bool const written = first >= 0 && first + group <= room &&
                         (group == 1 || address % sizeof(T) == 0);  // as of two floats
    if (written) {
      *reinterpret_cast<element_group<T, group>*>(target + first) = values;
      if (row_mask != nullptr && whole_mask) {
        *reinterpret_cast<element_group<unsigned char, group>*>(row_mask + first) = valid;
        return;
      }
      if (row_mask == nullptr) return;
    }
    for (unsigned i = 0; i < group; ++i) {
      std::int64_t const c = first + i;
      if (c < 0 || c >= room) continue;
      if (!written) target[c] = values.of[i];
      if (row_mask != nullptr) row_mask[c] = valid.of[i];
    }
  }
};

template <class From, class To>
void copy_rows(stream_ref stream, From const& from, To const& to, std::size_t rows,
               std::size_t width, typename rows_access<To>::element fill, unsigned char* mask,
               void const* matrix, source_location where) {
  using T = typename rows_access<To>::element;
  static_assert(std::is_trivially_copyable<T>::value, "warpwright: rows are copied as bytes");
  static_assert(std::is_same<std::remove_const_t<typename rows_access<From>::element>, T>::value,
                "warpwright: both sides have the same type of elements");
  if (rows == 0 || width == 0) return;
  if (rows > (std::size_t{1} << 40U) / width) {
    throw_invalid_argument(
        text{"rows to copy: "} + rows + " of " + width + " elements; a matrix has at most 2^40",
        where);
  }
  constexpr std::size_t group = copy_rows_kernel<From, To, std::uint32_t>::group;
  // A row that begins inside of a group has one more.
  bool const aligned = rows_access<To>::is_padded && width % group == 0 &&
                       reinterpret_cast<std::uintptr_t>(matrix) % (sizeof(T) * group) == 0;
  std::uint64_t const row_groups = (width + group - 1) / group + (aligned ? 0 : 1);
  std::uint64_t const total = std::uint64_t{rows} * row_groups;
  bool const whole_mask = aligned && reinterpret_cast<std::uintptr_t>(mask) % group == 0;
  auto const launch = [&](auto index) {
    using kernel = copy_rows_kernel<From, To, decltype(index)>;
    using number = decltype(index);
    std::uint64_t const of_block = std::uint64_t{kernel::max_threads} * kernel::groups;
    kernel const k{{},
                   from,
                   to,
                   mask,
                   static_cast<number>(width),
                   static_cast<number>(row_groups),
                   static_cast<number>(total),
                   fill,
                   whole_mask};
    launch_blocks(stream, (total + of_block - 1) / of_block, kernel::max_threads, k, "copy_rows",
                  where);
  };
  bool const is_small = std::uint64_t{rows} * (width + 2 * group) < (std::uint64_t{1} << 32U);
  is_small ? launch(std::uint32_t{}) : launch(std::uint64_t{});
}

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace detail

WARPWRIGHT_END
