// expect: what is measured must be callable as void(), or as void(std::size_t index)
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/measure/measure.hpp>

void time_step(warpwright::stream_ref stream) {
  auto const step = [](warpwright::stream_ref) {};
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  warpwright::measure(stream, [&] { step(stream); });
#else
  warpwright::measure(stream, step);  // the stream is not passed on
#endif
}
