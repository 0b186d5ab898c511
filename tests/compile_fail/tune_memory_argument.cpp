// expect: the memory argument of batch_tuner::tune must be a tuning_pool
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/tune/batch_tuner.hpp>

void tune(warpwright::stream_ref stream) {
  auto const workload = [](std::size_t, warpwright::stream_ref) {};
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  warpwright::batch_tuner{}.tune(stream, workload, [] { return std::size_t{0}; });
#else
  warpwright::batch_tuner{}.tune(stream, workload, 1 << 30);  // a budget is no probe
#endif
}
