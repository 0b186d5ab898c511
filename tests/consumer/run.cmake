# SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
# SPDX-License-Identifier: Apache-2.0
#
# Configures, builds and runs one user project, then checks what warpwright has added to it.
cmake_minimum_required(VERSION 3.21)

file(REMOVE_RECURSE "${BUILD}")
set(options "-DCMAKE_CXX_COMPILER=${COMPILER}" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=)  # compiles sooner without -g

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
# refuse(TEXT COMMAND…): the command fails, and says TEXT, a regular expression.
function(refuse text)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  string(REGEX REPLACE "[ \n]+" " " output "${output}")
  if(status EQUAL 0 OR NOT output MATCHES "${text}")
    string(REPLACE ";" " " command "${ARGN}")
    message(FATAL_ERROR "${command}\nmust be refused with \"${text}\"; exit status ${status}\n${output}")
  endif()
endfunction()

# Another version: what of it is read before the refusal.
set(other "${BUILD}/other_version")
file(COPY "${SOURCE}/CMakeLists.txt" DESTINATION "${other}")
file(WRITE "${other}/include/warpwright/version.hpp"
     "#define WARPWRIGHT_VERSION_MAJOR 0\n#define WARPWRIGHT_VERSION_MINOR 99\n#define WARPWRIGHT_VERSION_PATCH 1\n")
set(two_versions "already has warpwright ${VERSION}, and [^ ]*/other_version is warpwright 0.99.1")

if(WAY STREQUAL "two_subprojects")
  refuse("${two_versions}" ${configure} -B "${BUILD}/refused" "-DWARPWRIGHT_SOURCE=${SOURCE}"
         "-DSECOND_SOURCE=${other}")
  run(${configure} "-DWARPWRIGHT_SOURCE=${SOURCE}" "-DSECOND_SOURCE=${SOURCE}")
  run("${CMAKE_COMMAND}" --build "${BUILD}/build")
  return()
elseif(WAY MATCHES "^(add_subdirectory|strict|unity)$")
  run(${configure} "-DWARPWRIGHT_SOURCE=${SOURCE}" "-DSTRICT_FLAGS=${STRICT_FLAGS}"
      -DWARPWRIGHT_COMPILED_RUNTIMES=host)  # compiles sooner
elseif(WAY STREQUAL "fetch_content")
  run(${configure} "-DFETCHCONTENT_SOURCE_DIR_WARPWRIGHT=${SOURCE}" -DFETCHCONTENT_FULLY_DISCONNECTED=ON
      -DCMAKE_UNITY_BUILD=ON -DWARPWRIGHT_COMPILED_RUNTIMES=host)  # compiles sooner
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
  run(${configure} "-DCMAKE_PREFIX_PATH=${BUILD}/prefix" "-DVERSION=${VERSION}"
      -DCMAKE_UNITY_BUILD=ON)  # compiles sooner
  # Before 1.0 another minor version is incompatible, and so is a newer one.
  foreach(refused IN ITEMS 0.0 0.99 1.0)
    refuse("version" ${configure} -B "${BUILD}/refused" "-DCMAKE_PREFIX_PATH=${BUILD}/prefix"
           "-DVERSION=${refused}")
  endforeach()
  # Beside a subproject that brings it.
  refuse("${two_versions}" ${configure} -B "${BUILD}/refused" "-DCMAKE_PREFIX_PATH=${BUILD}/prefix"
         "-DVERSION=${VERSION}" "-DALSO=${other}")
  run(${configure} -B "${BUILD}/also" "-DCMAKE_PREFIX_PATH=${BUILD}/prefix" "-DVERSION=${VERSION}"
      "-DALSO=${SOURCE}")
endif()

if(WAY STREQUAL "add_subdirectory")  # fetch_content, which does the same, has the compiled library
  run("${CMAKE_COMMAND}" --build "${BUILD}/build" --target app)
else()
  run("${CMAKE_COMMAND}" --build "${BUILD}/build")
endif()
set(programs app)
if(NOT WAY MATCHES "^(add_subdirectory|strict|unity)$")
  list(APPEND programs compiled_app)
endif()
foreach(program IN LISTS programs)
  run("${BUILD}/build/${program}")
  if(NOT output MATCHES "warpwright ${VERSION}: 1000 values right")
    message(FATAL_ERROR "${program} printed: ${output}")
  endif()
endforeach()

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
