// expect: warpwright: staging::pack_to_device calls pack(T* to, std::size_t first, std::size_t n)
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/memory/staging.hpp>

void run(warpwright::staging& staging, warpwright::stream_ref stream, float* to) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  staging.pack_to_device(stream, to, 5, [](float*, std::size_t, std::size_t) {});
#else
  staging.pack_to_device(stream, to, 5, [](float*, std::size_t) {});
#endif
}
