// expect: warpwright: run_in_batches calls f(warpwright::stream_ref stream, In const* in,
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/stream/run_in_batches.hpp>

void run(warpwright::stream_ref stream, warpwright::memory_pool& pool,
         warpwright::pinned_pool& pinned, float const* in, float* out) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  auto const step = [](warpwright::stream_ref, float const*, float*, std::size_t) {};
#else
  auto const step = [](warpwright::stream_ref, float const*, float*) {};
#endif
  static_cast<void>(warpwright::run_in_batches(stream, pool, pinned,
                                               warpwright::batch_input<float>{in, 10}, 4, step,
                                               warpwright::batch_output<float>{out}));
}
