// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/kernel.hpp>

#include "parts.hpp"

/// values += summand, by one kernel of each kind: an index kernel into a scratch buffer, and a
/// fused expression that adds the buffer. Instantiated identically in the program and in the
/// library.
inline void add_both_ways(warpwright::memory_pool& pool, warpwright::stream_ref stream,
                          float* values, std::size_t n, float summand) {
  namespace ew = warpwright::ew;
  warpwright::device_buffer<float> scratch{pool, stream, n};
  warpwright::check(cudaMemsetAsync(scratch.data(), 0, scratch.size_bytes(), stream.get()),
                    "cudaMemsetAsync");
  warpwright::for_each_index(stream, n, add{scratch.data(), summand});
  ew::run(stream, ew::out(values, n) = ew::in(values, n) + ew::in(scratch.data(), n));
}
