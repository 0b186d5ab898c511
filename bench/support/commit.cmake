# SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
# SPDX-License-Identifier: Apache-2.0
#
# Writes which source is being built to OUT, at every build, and touches OUT only where that changed.
cmake_minimum_required(VERSION 3.21)
set(commit "unknown")
if(DEFINED ENV{WARPWRIGHT_COMMIT})
  set(commit "$ENV{WARPWRIGHT_COMMIT}")
elseif(GIT)
  execute_process(
    COMMAND "${GIT}" -C "${SOURCE}" describe --always --dirty --abbrev=12
    RESULT_VARIABLE failed
    OUTPUT_VARIABLE found
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT failed)
    set(commit "${found}")
  endif()
endif()
file(CONFIGURE OUTPUT "${OUT}" CONTENT "#define WARPWRIGHT_COMMIT \"@commit@\"\n" @ONLY)
