// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What explain.hpp prints about a kernel that moves a view by tiles or by pixels; such kernels are
// planned in detail/views/, which explain.hpp does not include.
#pragma once

#include <warpwright/core/detail/config.hpp>

#include <cstdint>

WARPWRIGHT_BEGIN

namespace ew {
namespace detail {

struct tile_summary {
  std::uint64_t blocks = 0;  ///< 0: the kernel has neither tiles nor pixels
  unsigned threads = 0;
  unsigned pixels = 0;     ///< per thread; 0: the kernel has tiles
  unsigned channels = 0;   ///< of a pixel
  unsigned pitch = 0;      ///< elements of the view from one pixel to the next
  unsigned columns = 0;    ///< elements of a tile along the output's innermost dimension
  unsigned rows = 0;       ///< elements of a tile along the view's contiguous dimension
  int view = 0;            ///< the view's index among the operands
  bool vectors = false;    ///< the output is stored by vectors
  std::uint64_t wide = 0;  ///< the operands that are moved by vectors, a bit each
};

}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
