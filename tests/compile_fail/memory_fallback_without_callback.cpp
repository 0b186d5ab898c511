// expect: deleted
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A fallback is never silent.
#include <warpwright/memory/adaptors/fallback.hpp>
#include <warpwright/memory/resources/managed.hpp>

namespace ww = warpwright;
using managed = ww::managed_memory_resource;

void told(void*, ww::fallback_event const&) noexcept;

void make(managed& first, managed& second) {
#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
  ww::fallback_adaptor<managed, managed> memory{first, second, &told};
#else
  ww::fallback_adaptor<managed, managed> memory{first, second, nullptr};
#endif
}
