// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A program of two files and a shared library, each with a kernel of the same functor, that pass
// a pool and a stream to each other.
#pragma once

#include <warpwright/core.hpp>
#include <warpwright/memory.hpp>

struct add {
  float* values;
  float summand;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const { values[i] += summand; }
};

/// Adds 1 to each value, with a buffer from the caller's pool.
void add_in_program(warpwright::memory_pool& pool, warpwright::stream_ref stream, float* values,
                    std::size_t n);
/// The same in the shared library, compiled for another architecture: adds 10.
__attribute__((visibility("default"))) void add_in_library(warpwright::memory_pool& pool,
                                                           warpwright::stream_ref stream,
                                                           float* values, std::size_t n);
