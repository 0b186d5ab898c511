// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The batch-size tuner.
#pragma once

#include <warpwright/tune/batch_tuner.hpp>
#include <warpwright/tune/report.hpp>
