// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Catch2 2.13 and 3.x behind one name: what the tests use is in both, but for the includes and the
// string matcher.
#pragma once

#if defined(__CUDACC__)
// Catch2's own code, not ours: nvcc takes no notice of system headers.
#pragma nv_diagnostic push
#pragma nv_diag_suppress 177, 111, 128
#endif
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#else
#include <catch2/catch.hpp>
#endif
#if defined(__CUDACC__)
#pragma nv_diagnostic pop
#endif

#include <string>

namespace test_support {

/// Matches an exception whose text contains `part`.
inline auto contains(std::string const& part) {
#if __has_include(<catch2/catch_all.hpp>)
  return Catch::Matchers::ContainsSubstring(part);
#else
  return Catch::Matchers::Contains(part);
#endif
}

}  // namespace test_support

using test_support::contains;
