// expect: the element must be trivially copyable and default constructible
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// An element is moved by its bytes.
#include <warpwright/kernel.hpp>

#include <string>

namespace ew = warpwright::ew;

#ifdef WARPWRIGHT_COMPILE_FAIL_FIXED
auto read(int const* x) { return ew::in(x, 16); }
#else
auto read(std::string const* x) { return ew::in(x, 16); }
#endif
