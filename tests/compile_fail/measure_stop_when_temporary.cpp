// expect: a stop_predicate does not own the predicate
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/measure/measure.hpp>

warpwright::measure_options until(bool const& stop) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  static_cast<void>(stop);
  static auto const asked = [] { return false; };
  return warpwright::measure_options{}.stop_when(asked);
#else
  return warpwright::measure_options{}.stop_when([&] { return stop; });
#endif
}
