// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/observe/detail/monitor_definitions.hpp>
#include <warpwright/observe/detail/monitor_text_definitions.hpp>
