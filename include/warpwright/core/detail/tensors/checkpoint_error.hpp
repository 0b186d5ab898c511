// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/config.hpp>

#include <stdexcept>

WARPWRIGHT_BEGIN

/// A checkpoint that cannot be used. what() names the file and what is wrong with it.
class checkpoint_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

WARPWRIGHT_END
