// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include "add.hpp"

void add_in_program(warpwright::memory_pool& pool, warpwright::stream_ref stream, float* values,
                    std::size_t n) {
  add_both_ways(pool, stream, values, n, 1.0F);
}
