# SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
# SPDX-License-Identifier: Apache-2.0
#
# One user's project, from nothing: configure, build, run, then look at what it got from us.
cmake_minimum_required(VERSION 3.21)

file(REMOVE_RECURSE "${BUILD}")
set(options "-DCMAKE_CXX_COMPILER=${COMPILER}" -DCMAKE_BUILD_TYPE=Debug)

function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    string(REPLACE ";" " " command "${ARGV}")
    message(FATAL_ERROR "${command}\nexit status ${status}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

set(configure "${CMAKE_COMMAND}" -S "${CMAKE_CURRENT_LIST_DIR}/${WAY}" -B "${BUILD}/build" -G
              "${GENERATOR}" ${options})
if(WAY STREQUAL "add_subdirectory")
  run(${configure} "-DWARPWRIGHT_SOURCE=${SOURCE}")
elseif(WAY STREQUAL "fetch_content")
  run(${configure} "-DFETCHCONTENT_SOURCE_DIR_WARPWRIGHT=${SOURCE}" -DFETCHCONTENT_FULLY_DISCONNECTED=ON)
else()
  run("${CMAKE_COMMAND}" --install "${WARPWRIGHT_BUILD}" --prefix "${BUILD}/prefix")
  # What is installed does not know where it came from.
  file(GLOB_RECURSE installed "${BUILD}/prefix/*.cmake")
  foreach(file IN LISTS installed)
    file(READ "${file}" text)
    string(FIND "${text}" "${SOURCE}" place)
    if(NOT place EQUAL -1)
      message(FATAL_ERROR "${file} names the source folder ${SOURCE}")
    endif()
  endforeach()
  run(${configure} "-DCMAKE_PREFIX_PATH=${BUILD}/prefix" "-DVERSION=${VERSION}")
  # Before 1.0 another minor version is another interface, and a newer one is not there.
  foreach(refused IN ITEMS 0.0 0.99 1.0)
    execute_process(
      COMMAND ${configure} -B "${BUILD}/refused" "-DCMAKE_PREFIX_PATH=${BUILD}/prefix"
              "-DVERSION=${refused}"
      RESULT_VARIABLE status
      OUTPUT_VARIABLE output
      ERROR_VARIABLE output)
    if(status EQUAL 0 OR NOT output MATCHES "version")
      message(FATAL_ERROR "find_package(warpwright ${refused}) must be refused:\n${output}")
    endif()
  endforeach()
endif()

run("${CMAKE_COMMAND}" --build "${BUILD}/build")
run("${BUILD}/build/app")
if(NOT output MATCHES "warpwright ${VERSION}: 1000 values right")
  message(FATAL_ERROR "the program printed: ${output}")
endif()

# A user who vendors us runs and installs no more than was there before.
run(ctest --test-dir "${BUILD}/build" -N)
if(NOT output MATCHES "Total Tests: 0")
  message(FATAL_ERROR "our tests are in the user's project:\n${output}")
endif()
run("${CMAKE_COMMAND}" --install "${BUILD}/build" --prefix "${BUILD}/users_prefix")
file(GLOB_RECURSE installed RELATIVE "${BUILD}/users_prefix" "${BUILD}/users_prefix/*")
if(NOT installed STREQUAL "bin/app")
  message(FATAL_ERROR "our files are in the user's installation: ${installed}")
endif()
