// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/kernel/complex.hpp>
#include <warpwright/kernel/evaluate.hpp>
#include <warpwright/kernel/expression.hpp>
#include <warpwright/kernel/functions.hpp>
