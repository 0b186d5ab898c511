// expect: the element must be trivially copyable
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// An element is moved by its bytes, in whatever order.
#include <warpwright/kernel/views.hpp>

#include <string>

namespace ew = warpwright::ew;

#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
auto read(int const* x) { return ew::view(x, {4, 4}, {1, 4}); }
#else
auto read(std::string const* x) { return ew::view(x, {4, 4}, {1, 4}); }
#endif
