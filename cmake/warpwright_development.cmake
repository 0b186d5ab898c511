# SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
# SPDX-License-Identifier: Apache-2.0
#
# What tests, benchmarks and examples share. Nothing here reaches a consumer of the library.

set(WARPWRIGHT_RUNTIME
    "host"
    CACHE STRING "What tests, benchmarks and examples run on: 'host' (no GPU, no nvcc) or 'cuda'")
set_property(CACHE WARPWRIGHT_RUNTIME PROPERTY STRINGS host cuda)
if(NOT WARPWRIGHT_RUNTIME MATCHES "^(host|cuda)$")
  message(FATAL_ERROR "WARPWRIGHT_RUNTIME is '${WARPWRIGHT_RUNTIME}'; it must be 'host' or 'cuda'")
endif()
set(WARPWRIGHT_SANITIZE
    ""
    CACHE STRING "Sanitizers for the host runtime's builds: 'address,undefined' or 'thread'")
option(WARPWRIGHT_NIGHTLY "Build the tests of every type with every function as well" OFF)

if(WARPWRIGHT_RUNTIME STREQUAL "cuda")
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS})
    # This machine's GPU; 9.0 where there is none to ask.
    set(CMAKE_CUDA_ARCHITECTURES 90-real)
    execute_process(COMMAND nvidia-smi -L OUTPUT_VARIABLE warpwright_gpus ERROR_QUIET
                    RESULT_VARIABLE warpwright_smi_failed)
    if(warpwright_smi_failed EQUAL 0 AND warpwright_gpus MATCHES "^GPU ")
      set(CMAKE_CUDA_ARCHITECTURES native)
    endif()
  endif()
  enable_language(CUDA)
  # One standard for the whole build, as CMake 3.25 needs to pass C++20 on to nvcc as well.
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
endif()

find_package(Threads REQUIRED)
enable_testing()

# Warnings and sanitizers: private to our own targets.
add_library(warpwright_dev_flags INTERFACE)
set(warpwright_warnings -Wall -Wextra -Wconversion -Wshadow -Werror)
list(JOIN warpwright_warnings "," warpwright_warnings_for_nvcc)
# g++ 12 sees it falsely in the vectors of what nvcc hands on at -O3.
string(APPEND warpwright_warnings_for_nvcc ",-Wno-free-nonheap-object")
# What strict consumers add; the header tests and the examples are compiled with it. nvcc writes
# casts and null pointers anew, so three of them say nothing about a .cu file.
set(warpwright_strict_warnings -Wsign-conversion -Wformat=2 -Wswitch-enum -Wcast-qual -Wnon-virtual-dtor
                               -Woverloaded-virtual -Wdouble-promotion)
string(REPLACE ";" "," warpwright_strict_warnings_for_nvcc "${warpwright_strict_warnings}")
list(APPEND warpwright_strict_warnings -Wold-style-cast -Wzero-as-null-pointer-constant)
set(warpwright_strict_warnings_GNU ${warpwright_strict_warnings} -Wuseless-cast)
set(warpwright_strict_warnings_Clang ${warpwright_strict_warnings} -Wshorten-64-to-32 -Wextra-semi
                                     -Wextra-semi-stmt -Wcomma -Wsuggest-override)
target_compile_options(
  warpwright_dev_flags
  INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${warpwright_warnings};-Wpedantic>"
            "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${warpwright_warnings_for_nvcc};-Werror=all-warnings>")
if(WARPWRIGHT_SANITIZE)
  target_compile_options(
    warpwright_dev_flags INTERFACE -fsanitize=${WARPWRIGHT_SANITIZE} -fno-omit-frame-pointer
                                   -fno-sanitize-recover=all)
  target_link_options(warpwright_dev_flags INTERFACE -fsanitize=${WARPWRIGHT_SANITIZE})
  # GCC's manual: the sanitizers make this warning fire falsely (here in Catch2's std::regex).
  target_compile_options(
    warpwright_dev_flags INTERFACE "$<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>")
  # memory/detail/driver.hpp declares the driver's functions with int for CUresult: the same ABI,
  # but another type to clang's -fsanitize=function, which -fsanitize=undefined includes; as it does
  # float-cast-overflow, which stops in the CUDA Toolkit's own conversions to integers.
  # clang's -Wconversion and -Wshadow find more than g++'s, which the tests are written for; and clang
  # does not define g++'s macros, by which tests do less under a sanitizer.
  set(macro __SANITIZE_ADDRESS__)
  if(WARPWRIGHT_SANITIZE MATCHES "thread")
    set(macro __SANITIZE_THREAD__)
  endif()
  target_compile_options(
    warpwright_dev_flags
    INTERFACE
      "$<$<CXX_COMPILER_ID:Clang>:-fno-sanitize=function;-fno-sanitize=float-cast-overflow;-Wno-sign-conversion;-Wno-shadow;-D${macro}=1>")
endif()
# It links the programs of the host runtime in half the time.
find_program(WARPWRIGHT_LLD NAMES ld.lld)
mark_as_advanced(WARPWRIGHT_LLD)
if(WARPWRIGHT_LLD AND WARPWRIGHT_RUNTIME STREQUAL "host")
  target_link_options(warpwright_dev_flags INTERFACE -fuse-ld=lld)
endif()
# The sanitizers must see the host runtime too, and the compiled library.
foreach(library IN ITEMS warpwright_host_runtime warpwright_host_nccl warpwright_compiled_cuda warpwright_compiled_host)
  if(TARGET ${library})
    target_link_libraries(${library} PRIVATE $<BUILD_INTERFACE:warpwright_dev_flags>)
  endif()
endforeach()

option(WARPWRIGHT_USE_COMPILED
       "Link warpwright::compiled into tests, benchmarks and examples instead of only the headers" OFF)

# Links TARGET with the chosen runtime; with CUDA, its .cpp sources are compiled by nvcc.
function(warpwright_use_runtime target)
  target_link_libraries(${target} PRIVATE warpwright::warpwright warpwright_dev_flags
                                          Threads::Threads)
  if(WARPWRIGHT_USE_COMPILED)  # before the runtime that it calls
    target_link_libraries(${target} PRIVATE warpwright::compiled)
  endif()
  if(WARPWRIGHT_RUNTIME STREQUAL "host")
    target_link_libraries(${target} PRIVATE warpwright::host_runtime)
  else()
    get_target_property(sources ${target} SOURCES)
    set_source_files_properties(${sources} PROPERTIES LANGUAGE CUDA)
    set_target_properties(${target} PROPERTIES CUDA_RUNTIME_LIBRARY Static)
    target_link_libraries(${target} PRIVATE CUDA::cudart_static)
  endif()
endfunction()
