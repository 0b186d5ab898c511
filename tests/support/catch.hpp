// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Catch2 2.13 and 3.x behind one header: the tests use what both have, except for the include files
// and the string matcher. CMake defines the version of the package that it links: where 2.x and 3.x
// are both installed, the headers on the search path may belong to the other one.
#pragma once

#if !defined(WARPWRIGHT_CATCH2_VERSION_MAJOR)
#error "warpwright: WARPWRIGHT_CATCH2_VERSION_MAJOR is not defined; link warpwright_test_main"
#endif

#if defined(__CUDACC__)
// Warnings in Catch2's headers, which nvcc reports although they are system headers.
#pragma nv_diagnostic push
#pragma nv_diag_suppress 177, 111, 128
#endif
#if WARPWRIGHT_CATCH2_VERSION_MAJOR >= 3
#include <catch2/catch_test_macros.hpp>
#include <catch2/catch_version_macros.hpp>
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

#if CATCH_VERSION_MAJOR != WARPWRIGHT_CATCH2_VERSION_MAJOR || \
    CATCH_VERSION_MINOR != WARPWRIGHT_CATCH2_VERSION_MINOR
#error \
    "warpwright: the Catch2 headers found first are not those of the Catch2 package that CMake found; remove one of the two, or set Catch2_DIR to the package of these headers"
#endif

#include <string>

namespace test_support {

/// Matches an exception whose text contains `part`.
inline auto contains(std::string const& part) {
#if WARPWRIGHT_CATCH2_VERSION_MAJOR >= 3
  return Catch::Matchers::ContainsSubstring(part);
#else
  return Catch::Matchers::Contains(part);
#endif
}

}  // namespace test_support

using test_support::contains;
