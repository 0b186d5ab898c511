# SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
# SPDX-License-Identifier: Apache-2.0
#
# cmake -D COMPILER=… -D SOURCE=… -D BINARY=… -P catch2_version.cmake: with the headers of Catch2 2.13 and
# 3.7 both on the search path, support/catch.hpp and support/main.cpp include those of the version that
# CMake found, and headers of another version are an error. The headers here are stubs.
file(REMOVE_RECURSE "${BINARY}")
set(include "${BINARY}/include")
set(version_3 "#define CATCH_VERSION_MAJOR 3\n#define CATCH_VERSION_MINOR 7\n")
file(WRITE "${include}/catch2/catch.hpp" "#define CATCH_VERSION_MAJOR 2\n#define CATCH_VERSION_MINOR 13\nint v2;\n")
file(WRITE "${include}/catch2/catch_version_macros.hpp" "${version_3}")
foreach(header IN ITEMS catch_all catch_session catch_test_macros generators/catch_generators
                        generators/catch_generators_range matchers/catch_matchers
                        matchers/catch_matchers_string)
  file(WRITE "${include}/catch2/${header}.hpp" "int v3;\n")
endforeach()
file(WRITE "${BINARY}/cuda/cuda_runtime_api.h" "")

# preprocess(FILE MAJOR MINOR STATUS TEXT…): the exit status (0 or not), and that the output or the error
# matches each TEXT; "!TEXT" must not match.
function(preprocess file major minor status)
  execute_process(
    COMMAND "${COMPILER}" -E -x c++ -std=c++17 -P "-isystem${include}" "-isystem${BINARY}/cuda"
            -DWARPWRIGHT_CATCH2_VERSION_MAJOR=${major} -DWARPWRIGHT_CATCH2_VERSION_MINOR=${minor}
            "${SOURCE}/support/${file}"
    RESULT_VARIABLE result
    OUTPUT_VARIABLE output
    ERROR_VARIABLE error)
  set(about "${file} for Catch2 ${major}.${minor}")
  if((result EQUAL 0 AND NOT status EQUAL 0) OR (NOT result EQUAL 0 AND status EQUAL 0))
    message(SEND_ERROR "${about}: status ${result}, expected ${status}\n${error}")
  endif()
  foreach(text IN LISTS ARGN)
    string(REGEX REPLACE "^!" "" plain "${text}")
    string(FIND "${output}${error}" "${plain}" position)
    if((text MATCHES "^!" AND NOT position EQUAL -1) OR (NOT text MATCHES "^!" AND position EQUAL -1))
      message(SEND_ERROR "${about}: \"${text}\" does not hold for\n${error}")
    endif()
  endforeach()
endfunction()

preprocess(catch.hpp 2 13 0 "int v2;" "!int v3;" "Matchers::Contains(part)")
preprocess(catch.hpp 3 7 0 "int v3;" "!int v2;" "Matchers::ContainsSubstring(part)")
preprocess(catch.hpp 3 5 1 "not those of the Catch2 package")
preprocess(catch.hpp 2 11 1 "not those of the Catch2 package")
preprocess(main.cpp 2 13 0 "int v2;" "!int v3;")
preprocess(main.cpp 3 7 0 "int v3;" "!int v2;")
