// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A part of a user's program without kernels.
#include <warpwright/interop/pmr.hpp>
#include <warpwright/warpwright.hpp>

std::size_t reserved_bytes(warpwright::memory_pool& pool);
std::size_t reserved_bytes(warpwright::memory_pool& pool) {
  return pool.statistics().reserved_bytes;
}
