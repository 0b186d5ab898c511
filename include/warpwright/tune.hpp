// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The batch-size tuner. Include report.hpp, stored_tuner.hpp and the other headers of tune/ where
// you use them.
#pragma once

#include <warpwright/tune/batch_tuner.hpp>
