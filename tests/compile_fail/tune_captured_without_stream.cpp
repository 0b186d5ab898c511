// expect: the workload of captured() must be callable as void(std::size_t batch,
// warpwright::stream_ref stream) SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/tune/tuning_pool.hpp>

void capture() {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  auto workload = warpwright::captured([](std::size_t, warpwright::stream_ref) {});
#else
  auto workload = warpwright::captured([](std::size_t) {});
#endif
  static_cast<void>(workload);
}
