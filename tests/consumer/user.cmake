# SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
# SPDX-License-Identifier: Apache-2.0
#
# The targets and checks that the three projects share.
function(insist)
  cmake_language(EVAL CODE "
    if(NOT (${ARGN}))
      message(FATAL_ERROR \"warpwright leaks into its user: not (${ARGN})\")
    endif()")
endfunction()

# warpwright must not have enabled, set or added anything else.
get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
insist(NOT CUDA IN_LIST languages)
insist(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
insist(NOT DEFINED CMAKE_CXX_STANDARD)
insist(NOT DEFINED BUILD_SHARED_LIBS)
insist(CMAKE_CXX_FLAGS STREQUAL users_flags)
insist(CMAKE_BUILD_TYPE STREQUAL Debug)
foreach(target IN ITEMS warpwright::warpwright warpwright::host_runtime warpwright::compiled)
  insist(TARGET ${target})
  foreach(property IN ITEMS INTERFACE_COMPILE_OPTIONS INTERFACE_LINK_OPTIONS)
    get_target_property(value ${target} ${property})
    insist(NOT value)
  endforeach()
endforeach()
insist(NOT TARGET Catch2::Catch2)
insist(NOT TARGET benchmark::benchmark)
insist(NOT TARGET warpwright_dev_flags)

add_executable(app "${CMAKE_CURRENT_LIST_DIR}/app.cpp")
target_link_libraries(app PRIVATE warpwright::warpwright warpwright::host_runtime)
install(TARGETS app)

# The same program where only one of its files is compiled against the library: one pool for both.
add_executable(compiled_app "${CMAKE_CURRENT_LIST_DIR}/app.cpp" "${CMAKE_CURRENT_LIST_DIR}/tuned.cpp")
target_link_libraries(compiled_app PRIVATE warpwright::compiled warpwright::host_runtime)
add_library(header_only_part STATIC "${CMAKE_CURRENT_LIST_DIR}/header_only_part.cpp")
target_link_libraries(header_only_part PRIVATE warpwright::warpwright warpwright::host_runtime)
target_link_libraries(compiled_app PRIVATE header_only_part)
target_compile_definitions(compiled_app PRIVATE WITH_HEADER_ONLY_PART=1)

# With nvcc the same file is a GPU program, for the user's architecture.
include(CheckLanguage)
check_language(CUDA)
if(CMAKE_CUDA_COMPILER AND NOT WARPWRIGHT_COMPILED_RUNTIMES STREQUAL "host")
  set(CMAKE_CUDA_ARCHITECTURES 90)
  enable_language(CUDA)
  configure_file("${CMAKE_CURRENT_LIST_DIR}/app.cpp" app.cu COPYONLY)
  add_executable(gpu_app "${CMAKE_CURRENT_BINARY_DIR}/app.cu")
  target_link_libraries(gpu_app PRIVATE warpwright::warpwright)
  get_target_property(architectures gpu_app CUDA_ARCHITECTURES)
  insist(architectures EQUAL 90)
  add_executable(compiled_gpu_app "${CMAKE_CURRENT_BINARY_DIR}/app.cu" "${CMAKE_CURRENT_LIST_DIR}/tuned.cpp")
  target_link_libraries(compiled_gpu_app PRIVATE warpwright::compiled)
endif()
