// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/serve/detail/batch_admission_definitions.hpp>
#include <warpwright/serve/detail/batch_policy_definitions.hpp>
#include <warpwright/serve/detail/batcher_core_definitions.hpp>
#include <warpwright/serve/detail/batcher_lanes_definitions.hpp>
#include <warpwright/serve/detail/batcher_text_definitions.hpp>
#include <warpwright/serve/detail/step_batcher_definitions.hpp>
#include <warpwright/serve/detail/ticket_store_definitions.hpp>
