// expect: C++17 or later is needed; compile with -std=c++17
// flags: -std=c++14
// errors: 2
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The second error is the missing file that ends the compilation.
#include <warpwright/warpwright.hpp>
