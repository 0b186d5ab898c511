// expect: the workload of batch_tuner::tune must be callable as void(std::size_t batch
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/tune/batch_tuner.hpp>

void tune(warpwright::stream_ref stream) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  warpwright::batch_tuner{}.tune(stream, [](std::size_t, warpwright::stream_ref) {});
#else
  warpwright::batch_tuner{}.tune(stream, [](std::size_t) {});  // where would its work go?
#endif
}
