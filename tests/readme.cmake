# SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
# SPDX-License-Identifier: Apache-2.0
#
# cmake -D SOURCE=… -P readme.cmake: the README's first C++ block is the beginning of
# examples/readme.cpp, which is compiled and run, without its licence lines.
file(READ "${SOURCE}/README.md" readme)
file(READ "${SOURCE}/examples/readme.cpp" example)
string(REGEX REPLACE "^(//[^\n]*\n)+" "" example "${example}")
string(REGEX REPLACE "// End of the README.*$" "" example "${example}")
string(FIND "${readme}" "```cpp\n${example}```\n" place)
if(place EQUAL -1)
  message(FATAL_ERROR "README.md has not this block of C++, as examples/readme.cpp is:\n${example}")
endif()
