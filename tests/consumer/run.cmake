# SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
# SPDX-License-Identifier: Apache-2.0
#
# Configures, builds and runs one user project, then checks what warpwright has added to it.
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
  # Installed files must not contain paths of the source or build tree.
  file(GLOB_RECURSE installed "${BUILD}/prefix/*.cmake")
  foreach(file IN LISTS installed)
    file(READ "${file}" text)
    string(FIND "${text}" "${SOURCE}" place)
    if(NOT place EQUAL -1)
      message(FATAL_ERROR "${file} names the source folder ${SOURCE}")
    endif()
  endforeach()
  run(${configure} "-DCMAKE_PREFIX_PATH=${BUILD}/prefix" "-DVERSION=${VERSION}")
  # Before 1.0 another minor version is incompatible, and so is a newer one.
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

# A subproject adds no tests and no install rules.
run(ctest --test-dir "${BUILD}/build" -N)
if(NOT output MATCHES "Total Tests: 0")
  message(FATAL_ERROR "our tests are in the user's project:\n${output}")
endif()
run("${CMAKE_COMMAND}" --install "${BUILD}/build" --prefix "${BUILD}/users_prefix")
file(GLOB_RECURSE installed RELATIVE "${BUILD}/users_prefix" "${BUILD}/users_prefix/*")
if(NOT installed STREQUAL "bin/app")
  message(FATAL_ERROR "our files are in the user's installation: ${installed}")
endif()
