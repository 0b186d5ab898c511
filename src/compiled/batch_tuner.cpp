// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/tune/detail/batch_tuner_definitions.hpp>
#include <warpwright/tune/detail/choose/chooser_definitions.hpp>
#include <warpwright/tune/detail/store/stored_tuner_definitions.hpp>
#include <warpwright/tune/detail/store/tuning_store_definitions.hpp>
