# SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
# SPDX-License-Identifier: Apache-2.0
#
# cmake -D DOCUMENT=… -D EXAMPLE=… -P docs_blocks.cmake: every C++ block of a document is a part of an
# example, which is compiled and run, line by line.
cmake_minimum_required(VERSION 3.25)
file(READ "${DOCUMENT}" rest)
file(READ "${EXAMPLE}" example)
set(blocks 0)
while(TRUE)
  string(FIND "${rest}" "\n```cpp\n" begin)
  if(begin EQUAL -1)
    break()
  endif()
  math(EXPR begin "${begin} + 8")
  string(SUBSTRING "${rest}" ${begin} -1 rest)
  string(FIND "${rest}" "```\n" end)
  string(SUBSTRING "${rest}" 0 ${end} block)
  string(FIND "${example}" "\n${block}" place)
  if(place EQUAL -1)
    message(FATAL_ERROR "${EXAMPLE} has not this block of ${DOCUMENT}:\n${block}")
  endif()
  math(EXPR blocks "${blocks} + 1")
endwhile()
if(blocks EQUAL 0)
  message(FATAL_ERROR "${DOCUMENT} has no C++ block")
endif()
