// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Expressions and their evaluation. Views, reductions, random numbers, functions of rows, lists of
// tensors and plans have headers of their own in kernel/, as they cost more than most files use.
#pragma once

#include <warpwright/kernel/complex.hpp>
#include <warpwright/kernel/evaluate.hpp>
#include <warpwright/kernel/expression.hpp>
#include <warpwright/kernel/functions.hpp>
