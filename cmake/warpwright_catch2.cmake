# SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
# SPDX-License-Identifier: Apache-2.0
#
# Catch2::Catch2 from an installed package, 2.13 or 3.x, or fetched if there is none; its version in
# warpwright_catch2_version.
find_package(Catch2 QUIET)
if(Catch2_FOUND)
  set(warpwright_catch2_version "${Catch2_VERSION}")
else()
  include(FetchContent)
  FetchContent_Declare(
    Catch2
    GIT_REPOSITORY https://github.com/catchorg/Catch2.git
    GIT_TAG v3.7.1
    GIT_SHALLOW ON)
  FetchContent_MakeAvailable(Catch2)
  get_directory_property(warpwright_catch2_version DIRECTORY "${catch2_SOURCE_DIR}"
                         DEFINITION Catch2_VERSION)
endif()
