# SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
# SPDX-License-Identifier: Apache-2.0
#
# cmake -D NM=… -D LIBRARY=… -P exported_kernels.cmake
#
# A kernel belongs to the library that registered it. If its stub, or a function that takes its
# address, were an exported symbol, two libraries with the same template would share one definition,
# whose kernel is not registered in the other library (cudaErrorInvalidDeviceFunction).
cmake_minimum_required(VERSION 3.21)

set(kernel_symbols "_kernel<|_kernel\\(|launch_blocks|launch_on_device|launchable|kernel_address|kernel_of|launch_kernel|waits_by_itself|max_dynamic_shared_bytes|for_each_index|ew::[a-z:]*run<|resources_of|occupancy_of")
foreach(what IN ITEMS defined exported)
  set(options --demangle --defined-only)
  if(what STREQUAL "exported")
    list(APPEND options --dynamic)
  endif()
  execute_process(
    COMMAND "${NM}" ${options} "${LIBRARY}"
    OUTPUT_VARIABLE ${what} COMMAND_ERROR_IS_FATAL ANY)
  string(REPLACE "\n" ";" ${what} "${${what}}")
  list(FILTER ${what} INCLUDE REGEX "${kernel_symbols}|__device_stub__")
endforeach()
# The library must contain kernels: otherwise the empty list proves nothing.
if(NOT defined MATCHES "index_kernel" OR NOT defined MATCHES "fused_kernel")
  message(FATAL_ERROR "${LIBRARY} has no kernels to look at")
endif()
if(exported)
  list(JOIN exported "\n  " exported)
  message(FATAL_ERROR "${LIBRARY} exports:\n  ${exported}")
endif()
