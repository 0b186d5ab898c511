# SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
# SPDX-License-Identifier: Apache-2.0
#
# cmake -D NM=… -D LIBRARY=… -D SOURCES=… -P exercised.cmake
#
# Checks that the conformance tests call every CUDA function that the host runtime implements.
cmake_minimum_required(VERSION 3.21)

execute_process(
  COMMAND "${NM}" --dynamic --defined-only "${LIBRARY}"
  OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL " T cuda[A-Za-z0-9]+" functions "${symbols}")  # twins: without _ptsz
list(TRANSFORM functions REPLACE " T " "")
list(REMOVE_DUPLICATES functions)
list(LENGTH functions count)
if(count LESS 100)
  message(FATAL_ERROR "${LIBRARY} has only ${count} functions of CUDA's: that cannot be right")
endif()
file(GLOB tests "${SOURCES}/*.[ch]pp")
set(text "")
foreach(test IN LISTS tests)
  file(READ "${test}" one)
  string(APPEND text "${one}")
endforeach()
set(missing "")
foreach(function IN LISTS functions)
  if(NOT text MATCHES "[^A-Za-z0-9_]${function}\\(")
    list(APPEND missing "${function}")
  endif()
endforeach()
if(missing)
  list(JOIN missing "\n  " missing)
  message(FATAL_ERROR "no conformance test calls\n  ${missing}")
endif()
