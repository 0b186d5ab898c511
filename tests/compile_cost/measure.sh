#!/bin/sh
# SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
# SPDX-License-Identifier: Apache-2.0
#
# What each public header costs a user's file: the compiler's CPU seconds (user and system) with the
# header, over those with <cuda_runtime.h> alone, as a ratio, so that a slower machine does not
# change the answer. The limit is 0.5 s where an empty file takes nvcc 0.63 s, a ratio of 1.79. Some may
# cost a little more: tune.hpp and memory.hpp, which are sums, and the memory pool, which is one thing of
# many files, 0.57 s (1.90); warpwright.hpp, the sum of all, 0.9 s (2.43). What a machine that is busy or
# slow adds does not cancel wholly, one header's figure moves by some 5 % from run to run: what is over its
# limit is marked, and from 8 % over it on it fails.
#
# Other programs only ever add to the time, so the least of several compilations counts: two with
# the header and two without, in turns, and up to ten where it is over its limit.
#
# Not measured: detail/ (no interface), testing/ (never in a product) and interop/ (brings a peer's
# headers on purpose).
set -eu
export LC_ALL=C
root=$(cd -- "$(dirname -- "$0")/../.." && pwd -P)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if command -v nvcc >/dev/null 2>&1; then
  compiler=nvcc source=$work/tu.cu limit=1.79 limit_of_sum=1.90 limit_of_all=2.43
  set -- nvcc -std=c++17 -arch=sm_90
else
  compiler=${CXX:-g++} source=$work/tu.cpp limit=2.43 limit_of_sum=2.43 limit_of_all=4.00
  set -- "$compiler" -std=c++17 -isystem "${CUDA_HOME:-/usr/local/cuda}/include"
fi
set -- "$@" "-I$root/include" -c -o "$work/tu.o" "$source"

# cpu_seconds: what this shell's children have used so far; the second line of `times`.
cpu_seconds() {
  times >"$work/times"
  awk 'NR == 2 { split($0, t, /[ms ]+/); print t[1] * 60 + t[2] + t[3] * 60 + t[4] }' "$work/times"
}

# measure FILE-TEXT COMMAND...: CPU seconds of one compilation, in $seconds.
measure() {
  printf '%s\n' "$1" >"$source"
  shift
  cpu_seconds >"$work/before"
  "$@"
  cpu_seconds >"$work/after"
  seconds=$(awk 'NR == FNR { before = $1; next } { printf "%.2f", $1 - before }' \
    "$work/before" "$work/after")
}

# measure_pair HEADER COMMAND...: one compilation without and one with the header; updates the least
# of each, $alone and $with, and what follows from them, $ratio and $added.
measure_pair() {
  measured=$1
  shift
  measure '#include <cuda_runtime.h>' "$@"
  alone=$(least "$alone" "$seconds")
  measure "#include <cuda_runtime.h>
#include <$measured>" "$@"
  with=$(least "$with" "$seconds")
  ratio=$(awk -v a="$alone" -v w="$with" 'BEGIN { printf "%.2f", w / a }')
  added=$(awk -v a="$alone" -v w="$with" 'BEGIN { printf "%.2f", w - a }')
}

least() { awk -v a="$1" -v b="$2" 'BEGIN { print a < b ? a : b }'; }

# over FACTOR: whether the ratio is past the limit times FACTOR.
over() { awk -v r="$ratio" -v l="$limit" -v f="$1" 'BEGIN { exit !(r > l * f) }'; }

measure '#include <cuda_runtime.h>' "$@" # once unmeasured, so that the files are in memory
printf '%s: a header may cost %s times <cuda_runtime.h>, tune.hpp and the memory pool %s times, all together %s\n' \
  "$compiler" "$limit" "$limit_of_sum" "$limit_of_all"
printf '%6s %8s  %s\n' ratio seconds header

failed=''
limit_of_one=$limit
cd "$root/include"
for header in $(find warpwright -name '*.hpp' ! -path '*/detail/*' ! -path '*/testing/*' \
  ! -path '*/interop/*' ! -name testing.hpp | sort); do
  case $header in
    warpwright/tune.hpp | warpwright/memory.hpp | warpwright/memory/pool.hpp | \
      warpwright/memory/cache.hpp | warpwright/memory/buffer.hpp) limit=$limit_of_sum ;;
    warpwright/warpwright.hpp) limit=$limit_of_all ;;
    *) limit=$limit_of_one ;;
  esac
  alone=1000 with=1000
  measure_pair "$header" "$@"
  measure_pair "$header" "$@"
  for _ in 1 2 3 4 5 6 7 8; do
    if over 1; then measure_pair "$header" "$@"; fi
  done
  note=''
  if over 1; then note="  over the limit of $limit"; fi
  if over 1.08; then failed="$failed $header"; fi
  printf '%6s %+8.2f  <%s>%s\n' "$ratio" "$added" "$header" "$note"
done

if [ -n "$failed" ]; then
  printf 'compile cost: 8 %% or more over the limit:%s\n' "$failed" >&2
  exit 1
fi
