// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A part of a program that links warpwright::compiled, compiled without it.
#include <warpwright/memory/buffer.hpp>
#include <warpwright/tune/report.hpp>

#include <stdexcept>

namespace ww = warpwright;

void use(ww::memory_pool& pool, ww::stream_ref stream) {
  ww::device_buffer<int> const values{pool, stream, 1000};
  ww::tune_result const none;
  if (pool.statistics().live_blocks != 1 || ww::to_csv(none).empty()) {
    throw std::runtime_error{"a pool of the compiled library is not usable from the headers"};
  }
}
