// expect: needs RMM's <rmm/resource_ref.hpp>: add RMM's include directory
// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The header says what it needs.
#include <warpwright/interop/rmm.hpp>
