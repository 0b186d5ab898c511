// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The only definition of the version: CMake parses these three lines.
#define WARPWRIGHT_VERSION_MAJOR 0
#define WARPWRIGHT_VERSION_MINOR 1
#define WARPWRIGHT_VERSION_PATCH 0

/// The version as one number, 10000 * major + 100 * minor + patch, for comparisons in `#if`.
#define WARPWRIGHT_VERSION \
  (WARPWRIGHT_VERSION_MAJOR * 10000 + WARPWRIGHT_VERSION_MINOR * 100 + WARPWRIGHT_VERSION_PATCH)
