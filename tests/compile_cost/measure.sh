#!/bin/sh
# SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
# SPDX-License-Identifier: Apache-2.0
#
# What each public header costs a user's file: the compiler's CPU seconds (user and system) with the
# header, over those with <cuda_runtime.h> alone, as a ratio, so that a slower machine does not
# change the answer. The limit is 0.5 s where an empty file takes nvcc 0.63 s, a ratio of 1.79. These may cost more:
# what needs the memory pool or text of results (the pool, buffers, staging, choose, expect, the reports and charts) and the
# reductions of rows and columns, 0.7 s (2.10); what tunes, the cache of graphs, and what moves batches with both
# pools, 1.0 s (2.60); what keeps the results of tunes, and tune.hpp, 1.2 s (2.95); warpwright.hpp, the sum of
# all, 2.3 s (4.70).
#
# Then, with nvcc, what a further expression costs that run() compiles: nine over one, in expressions.cpp,
# an eighth of the difference. The limit is 0.2 s where an empty file takes 0.63 s, a ratio of 0.32.
#
# And what files cost that use the library (uses.cu), with the headers alone and with warpwright::compiled,
# over a file with an empty kernel, all with -O3: a memory pool and a buffer; a batch_tuner and its table;
# twelve expressions, a softmax, a column reduction and a pool. The limits are what was reached, and 10 %.
#
# With nvcc and the project's warnings, which are errors: so this is also the test that each header compiles
# alone. usage: measure.sh [--once], which compares again only what is over its limit, and measures two at a time,
# as ./run check does.
#
# A shared machine changes its speed from second to second: a single ratio is off by 20 % at times, both
# ways. So a header is first compared with the last compilation of the empty file, which is repeated after
# every eighth header. Where it is not below 0.9 of its limit (with --once: not within it), both files are compiled alternately, and the
# median of the ratios counts: of three rounds, or of up to eleven while it is 5 % over the limit. What is
# over its limit is marked; what is 10 % over it is measured once more at the end, and fails if it still is.
#
# Not measured: detail/ (no interface), testing/ (never in a product) and interop/ (brings a peer's
# headers on purpose).
set -eu
export LC_ALL=C
root=$(cd -- "$(dirname -- "$0")/../.." && pwd -P)

doubt=0.9 half=''
if [ "${1:-}" = --once ]; then doubt=1 half=${2:-}; fi
if [ "$doubt$half" = 1 ]; then
  failed=0
  sh "$0" --once odd &
  sh "$0" --once even || failed=1
  wait $! || failed=1
  exit "$failed"
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if command -v nvcc >/dev/null 2>&1; then
  compiler=nvcc source=$work/tu.cu limit_of_one=1.79 limit_of_sum=2.10 limit_of_tuner=2.60
  limit_of_store=2.95
  limit_of_all=4.70
  limit_of_expression=0.32
  all_uses='pool pool_compiled tuner tuner_compiled mixed mixed_compiled'
  set -- nvcc -std=c++17 -arch=sm_90 -Xcompiler=-Wall,-Wextra,-Wconversion,-Wshadow,-Werror \
    -Werror=all-warnings
else
  compiler=${CXX:-g++} source=$work/tu.cpp limit_of_one=2.43 limit_of_sum=2.60 limit_of_tuner=3.20
  limit_of_store=3.60
  limit_of_all=6.20
  set -- "$compiler" -std=c++17 -isystem "${CUDA_HOME:-/usr/local/cuda}/include"
fi
set -- "$@" "-I$root/include" "-I$root/src/host_nccl/include" -c -o "$work/tu.o" "$source"

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

# median FILE: of the numbers in it, a line each; of an even count the lower of the two.
median() { sort -n "$1" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

# round NAME COMMAND...: compiles the file alone, unless its last time is still to be used, and with what
# is measured, and appends the ratio of the two and their difference to the samples; $ratio and $added are
# the medians so far. NAME is a header, or "expressions".
uses=0
round() {
  measured=$1
  shift
  case $measured in
    use_*)
      # Measured beside its own file, as it is optimised.
      measure "#include \"$root/tests/compile_cost/uses.cu\"" "$@" -O3
      alone=$seconds without=$seconds uses=0 parts=1
      use=${measured#use_}
      compiled=0
      case $use in *_compiled) compiled=1 ;; esac
      measure "#define WARPWRIGHT_USE_${use%_compiled} 1
#include \"$root/tests/compile_cost/uses.cu\"" "$@" -O3 "-DWARPWRIGHT_COMPILED=$compiled"
      ratio_of='w / a'
      ;;
    *)
      if [ "$uses" -eq 0 ]; then
        measure '#include <cuda_runtime.h>' "$@"
        alone=$seconds uses=1
      fi
      uses=$((uses - 1))
      ;;
  esac
  if [ "${measured#use_}" != "$measured" ]; then
    :
  elif [ "$measured" = expressions ]; then
    measure "#include \"$root/tests/compile_cost/expressions.cpp\"" "$@"
    without=$seconds parts=8
    measure "#define WARPWRIGHT_NINE_EXPRESSIONS 1
#include \"$root/tests/compile_cost/expressions.cpp\"" "$@"
    ratio_of='(w - o) / n / a'
  else
    without=$alone parts=1
    measure "#include <cuda_runtime.h>
#include <$measured>" "$@"
    ratio_of='w / a'
  fi
  awk -v a="$alone" -v o="$without" -v w="$seconds" -v n="$parts" \
    "BEGIN { printf \"%.2f\\n\", $ratio_of }" >>"$work/ratios"
  awk -v o="$without" -v w="$seconds" -v n="$parts" 'BEGIN { printf "%.2f\n", (w - o) / n }' \
    >>"$work/added"
  ratio=$(median "$work/ratios")
  added=$(median "$work/added")
}

# over FACTOR: whether the ratio is past the limit times FACTOR.
over() { awk -v r="$ratio" -v l="$limit" -v f="$1" 'BEGIN { exit !(r > l * f) }'; }

# limit_for NAME
limit_for() {
  case $1 in
    expressions) limit=$limit_of_expression ;;
    warpwright/observe/diagnose.hpp) limit=3.50 ;;  # traces and monitors
    warpwright/observe/metrics.hpp) limit=2.80 ;;   # a source for each module
    use_pool) limit=5.00 ;;
    use_pool_compiled) limit=1.97 ;;
    use_tuner) limit=7.50 ;;
    use_tuner_compiled) limit=2.10 ;;
    use_mixed) limit=10.45 ;;
    use_mixed_compiled) limit=7.00 ;;
    warpwright/tune.hpp | warpwright/tune/chooser.hpp | warpwright/tune/stored_tuner.hpp | \
      warpwright/scale/sharded_optimizer.hpp) limit=$limit_of_store ;;
    warpwright/serve.hpp | warpwright/serve/batcher.hpp | warpwright/train/gradients.hpp | \
      warpwright/train/health.hpp | warpwright/train/optimizers.hpp | warpwright/scale/device_group.hpp | \
      warpwright/scale/gradient_reducer.hpp | warpwright/scale/rank_watch.hpp | \
      warpwright/observe/trace.hpp | warpwright/measure/ceilings.hpp | \
      warpwright/tune/batch_tuner.hpp | warpwright/tune/tuning_pool.hpp | warpwright/graph/graph_cache.hpp | warpwright/stream/prefetch.hpp | \
      warpwright/stream/collect.hpp | warpwright/stream/run_in_batches.hpp) limit=$limit_of_tuner ;;
    warpwright/memory.hpp | warpwright/memory/pool.hpp | warpwright/memory/cache.hpp | \
      warpwright/memory/buffer.hpp | warpwright/memory/scalar.hpp | warpwright/memory/staging.hpp | \
      warpwright/measure/roofline.hpp | warpwright/occupancy/advice.hpp | \
      warpwright/occupancy/ptxas.hpp | warpwright/measure/choose.hpp | warpwright/measure/compare.hpp | warpwright/measure/expect.hpp | \
      warpwright/tune/report.hpp | warpwright/tune/tuning_store.hpp | warpwright/kernel/explain.hpp | \
      warpwright/kernel/reduce_matrix.hpp | warpwright/kernel/top_k.hpp | warpwright/kernel/row_gradients.hpp | warpwright/observe/monitor.hpp | warpwright/observe/step_timer.hpp | \
      warpwright/observe/sync_watch.hpp | warpwright/serve/batch_policy.hpp | \
      warpwright/serve/step_batcher.hpp | warpwright/train/checkpoint.hpp | \
      warpwright/scale/communicator.hpp | warpwright/train/loss_scaler.hpp) limit=$limit_of_sum ;;
    warpwright/observe.hpp | warpwright/warpwright.hpp) limit=$limit_of_all ;;
    *) limit=$limit_of_one ;;
  esac
}

# judge NAME COMMAND...: as many rounds as it takes, and a line of the table.
judge() {
  limit_for "$1"
  rm -f "$work/ratios" "$work/added"
  shared=$((shared + 1))
  if [ $((shared % 8)) -eq 1 ]; then uses=0; else uses=1; fi
  round "$@"
  if over "$doubt"; then
    rm -f "$work/ratios" "$work/added"
    for _ in 1 2 3; do round "$@"; done
  fi
  for _ in 1 2 3 4; do
    if over 1.05; then round "$@" && round "$@"; fi
  done
  note=''
  if over 1; then note="  over the limit of $limit"; fi
  printf '%6s %+8.2f  %s%s\n' "$ratio" "$added" "$1" "$note"
}

measure '#include <cuda_runtime.h>' "$@" # once unmeasured, so that the files are in memory
[ "$half" = even ] || printf '%s: a header may cost %s times <cuda_runtime.h>, pools, choices and some sums %s, tuners %s, stores of tunes %s, all together %s\n' \
  "$compiler" "$limit_of_one" "$limit_of_sum" "$limit_of_tuner" "$limit_of_store" "$limit_of_all"
[ "$half" = even ] || printf '%6s %8s  %s\n' ratio seconds header

cd "$root/include"
shared=0  # headers judged so far
all=$(find warpwright -name '*.hpp' ! -path '*/detail/*' ! -path '*/testing/*' \
  ! -path '*/interop/*' ! -name testing.hpp | sort)
if [ "$compiler" = nvcc ]; then
  all="$all expressions"
  for use in $all_uses; do all="$all use_$use"; done
fi
if [ -n "$half" ]; then
  all=$(printf '%s\n' "$all" | tr ' ' '\n' | awk -v h="$half" '(NR % 2 == 1) == (h == "odd")')
fi
doubtful=''
for name in $all; do
  judge "$name" "$@"
  if over 1.1; then doubtful="$doubtful $name"; fi
done
failed=''
for name in $doubtful; do
  echo 'once more:'
  judge "$name" "$@"
  if over 1.1; then failed="$failed $name"; fi
done
if [ -n "$failed" ]; then
  printf 'compile cost: 10 %% or more over the limit:%s\n' "$failed" >&2
  exit 1
fi
