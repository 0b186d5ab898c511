// expect: must be callable as void* allocate(stream_ref stream, std::size_t bytes)
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The functions have the order of the pool's arguments.
#include <warpwright/memory/resources/callback.hpp>

namespace ww = warpwright;

#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
void* take(ww::stream_ref stream, std::size_t bytes);
#else
void* take(std::size_t bytes, ww::stream_ref stream);
#endif
void give(ww::stream_ref stream, void* pointer, std::size_t bytes);

void make() { ww::callback_resource memory{ww::device_id{0}, &take, &give}; }
