# SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
# SPDX-License-Identifier: Apache-2.0
#
# cmake -D SOURCE=… -D COMPILER=… -D INCLUDES=… -P compile_fail.cmake
#
# SOURCE must not compile, and the compiler must say the text of its line "// expect: …". Where it
# guards the wrong line by WARPWRIGHT_COMPILE_FAIL_FIXED, it must compile once that is defined: so
# it fails for that line and nothing else. A line "// flags: …" gives the compiler more options,
# "// errors: …" is how many errors it may report.
cmake_minimum_required(VERSION 3.21)

file(READ "${SOURCE}" text)
if(NOT text MATCHES "// expect: ([^\n]+)")
  message(FATAL_ERROR "${SOURCE} has no line '// expect: <text>'")
endif()
set(expected "${CMAKE_MATCH_1}")
set(flags "")
if(text MATCHES "// flags: ([^\n]+)")
  separate_arguments(flags UNIX_COMMAND "${CMAKE_MATCH_1}")
endif()
set(ENV{LC_ALL} C)  # the compiler speaks English
list(TRANSFORM INCLUDES PREPEND "-I")
set(no_output -fsyntax-only)
if(SOURCE MATCHES "\\.cu$")  # COMPILER is nvcc
  set(no_output -arch=sm_90 -c -o /dev/null)
endif()
set(command "${COMPILER}" -std=c++17 ${no_output} ${INCLUDES} ${flags} "${SOURCE}")

execute_process(COMMAND ${command} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(status EQUAL 0)
  message(FATAL_ERROR "${SOURCE} compiles; it must not, with the text: ${expected}")
endif()
string(FIND "${output}" "${expected}" place)
if(place EQUAL -1)
  message(FATAL_ERROR "${SOURCE} does not compile, but without the text: ${expected}\n${output}")
endif()

if(text MATCHES "// errors: ([0-9]+)")
  set(allowed "${CMAKE_MATCH_1}")
  string(REGEX MATCHALL "error: " errors "${output}")
  list(LENGTH errors count)
  if(count GREATER allowed)
    message(FATAL_ERROR "${SOURCE}: ${count} errors, at most ${allowed} are allowed\n${output}")
  endif()
endif()

if(text MATCHES "WARPWRIGHT_COMPILE_FAIL_FIXED")
  execute_process(
    COMMAND ${command} -DWARPWRIGHT_COMPILE_FAIL_FIXED
    RESULT_VARIABLE status
    OUTPUT_VARIABLE output
    ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${SOURCE} must compile with WARPWRIGHT_COMPILE_FAIL_FIXED:\n${output}")
  endif()
endif()
