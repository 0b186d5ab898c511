// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The time of a piece of work. Include compare.hpp, choose.hpp, expect.hpp and sm_clock.hpp, which
// brings a kernel, where you use them.
#pragma once

#include <warpwright/measure/measure.hpp>
