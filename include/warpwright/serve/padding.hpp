// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Rows of different lengths to a matrix and back, in one kernel each:
//
//   ww::pad_rows(stream, ww::packed_rows<int>{tokens, offsets},
//                ww::padded_rows<int>{matrix, width}, rows, -1, mask);
//   ww::unpad_rows(stream, ww::padded_rows<float>{logits, width},
//                  ww::packed_rows<float>{out, offsets}, rows);
#pragma once

#include <warpwright/serve/detail/copy_rows.hpp>

#include <cstddef>

WARPWRIGHT_BEGIN_PER_COMPILER

/// Copies rows of different lengths into a matrix, and fills up each of its rows.
/// @param from   packed_rows or separate_rows, of T or T const; a row longer than the matrix is cut
/// @param to     rows x width elements, all of which are written
/// @param rows   how many there are; offsets and lengths are read on the device
/// @param fill   what stands behind a row
/// @param mask   null, or rows x width bytes: 1 where there is an element of the row, else 0
/// @throws std::invalid_argument  for more than 2^40 elements; cuda_error if the launch fails
/// **Stream:** ordered on `stream`. **Capture:** legal. **Cost:** one kernel; whole groups of 16
/// bytes are written if the matrix is aligned to that and so is its width, which is faster.
template <class From, class T>
void pad_rows(stream_ref stream, From const& from, padded_rows<T> to, std::size_t rows,
              T fill = T{}, unsigned char* mask = nullptr,
              source_location where = source_location::current()) {
  detail::copy_rows(stream, from, to, rows, to.width, fill, mask, to.elements, where);
}

/// Copies the rows of a matrix to where rows of different lengths lie; the rest of each is left
/// out.
/// @param to  packed_rows or separate_rows, whose offsets or lengths say how much of each row is
///   wanted; of a row longer than the matrix the rest is not written
/// Otherwise as pad_rows().
template <class T, class To>
void unpad_rows(stream_ref stream, padded_rows<T> from, To const& to, std::size_t rows,
                source_location where = source_location::current()) {
  detail::copy_rows(stream, from, to, rows, from.width, typename detail::rows_access<To>::element{},
                    nullptr, from.elements, where);
}

/// Copies rows one behind another, as attention kernels for rows of different lengths want them.
/// @param from        separate_rows
/// @param to          packed_rows, with offsets
/// @param max_length  of a row; of a longer one the rest is not written
/// Otherwise as pad_rows().
template <class T, class U, class Offset>
void pack_rows(stream_ref stream, separate_rows<T> from, packed_rows<U, Offset> to,
               std::size_t rows, std::size_t max_length,
               source_location where = source_location::current()) {
  detail::copy_rows(stream, from, to, rows, max_length, U{}, nullptr, nullptr, where);
}

WARPWRIGHT_END_PER_COMPILER
