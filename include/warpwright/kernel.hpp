// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Expressions and their evaluation. Views, reductions, random numbers, functions of rows, lists of
// tensors and plans are in separate headers in kernel/, as most files do not need their compile
// time.
#pragma once

#include <warpwright/kernel/evaluate.hpp>
#include <warpwright/kernel/expression.hpp>
#include <warpwright/kernel/functions.hpp>
