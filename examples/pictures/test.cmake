# SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
# SPDX-License-Identifier: Apache-2.0
#
# cmake -D PROGRAM=… -D FOLDER=… -P test.cmake: pictures that the program makes, then a broken one.

# run(STATUS ARGUMENT...): sets `out` and `error`, and `checksum` to the line of that name.
function(run status)
  execute_process(COMMAND "${PROGRAM}" ${ARGN} RESULT_VARIABLE ended OUTPUT_VARIABLE out ERROR_VARIABLE error)
  message(STATUS "${ARGN}: ${ended}\n${out}${error}")
  if(NOT ended STREQUAL "${status}")
    message(FATAL_ERROR "it has ended with ${ended} and not with ${status}")
  endif()
  string(REGEX MATCH "checksum [0-9a-f]+ of [0-9]+ pictures" checksum "${out}")
  set(checksum "${checksum}" PARENT_SCOPE)
  set(error "${error}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE "${FOLDER}")
run(0 --make 37 "${FOLDER}")
set(made "${checksum}")
if(NOT made MATCHES "of 37 pictures")
  message(FATAL_ERROR "it has not made 37 pictures")
endif()
foreach(arguments IN ITEMS "--batch;8" "--batch;8;--workers;5" "--batch;100;--workers;1")
  run(0 "${FOLDER}" ${arguments})
  if(NOT checksum STREQUAL made)
    message(FATAL_ERROR "the pictures made have: ${made}")
  endif()
endforeach()

file(WRITE "${FOLDER}/picture_0005.png" "not a picture")
run(1 "${FOLDER}" --batch 8)
if(NOT error MATCHES "picture_0005.png: " OR NOT checksum MATCHES "of 36 pictures")
  message(FATAL_ERROR "the broken file is not named, or others with it are left out")
endif()
run(2 "${FOLDER}" --batch 0)
run(1 "${FOLDER}/none")
