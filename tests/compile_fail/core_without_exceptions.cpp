// expect: exceptions are needed, they report errors; compile this file without -fno-exceptions
// flags: -fno-exceptions
// errors: 2
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The second error is the missing file that ends the compilation.
#include <warpwright/memory/pool.hpp>
