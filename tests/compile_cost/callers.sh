#!/bin/sh
# SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
# SPDX-License-Identifier: Apache-2.0
#
# That g++ optimises a user's loop in a function that calls the library (callers.cpp): it must be
# vectorised, and not in the section of what is seldom executed. For x86-64; elsewhere it passes.
set -eu
export LC_ALL=C
root=$(cd -- "$(dirname -- "$0")/../.." && pwd -P)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [ "$(uname -m)" != x86_64 ]; then
  echo 'SKIPPED: the check reads code of x86-64'
  exit 0
fi
"${CXX:-g++}" -O3 -std=c++17 "-I$root/include" -isystem "${CUDA_HOME:-/usr/local/cuda}/include" \
  -c "$root/tests/compile_cost/callers.cpp" -o "$work/callers.o"
objdump -d --no-show-raw-insn "$work/callers.o" | awk '
  /^Disassembly of section/ { seldom = /unlikely/ }
  /^[0-9a-f]+ <.*>:$/ {
    name = $2 ~ /^<_Z[0-9]+caller_of_/ && !/\.cold/ ? $2 : ""
    if (name != "") { ++functions; if (seldom) { print "taken for seldom: " name; failed = 1 } }
  }
  name != "" && /mulps/ { vectorised[name] = 1 }
  name != "" { all[name] = 1 }
  END {
    for (name in all) if (!(name in vectorised)) { print "loop not vectorised: " name; failed = 1 }
    printf "%d functions that call the library\n", functions
    exit failed || functions == 0
  }'
