#!/bin/sh
# SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
# SPDX-License-Identifier: Apache-2.0
#
# Compiles every public header and every_module.cpp with other toolkits and compilers than the build's:
#   - nvcc of CUDA 13.5 over its own headers, to a whole object file; and the host runtime over those headers;
#   - clang 19 as the CUDA compiler over CUDA 12.6's headers: its device pass to PTX, which ptxas of 12.6
#     assembles, and its host pass. Not to an object file: fatbinary of 12.6 is in no wheel;
#   - g++ and clang 19 over CUDA 12.6's headers, as a .cpp file of a CUDA program and for the host runtime.
# Nothing is run. The toolkits are wheels from the Python package index, about 150 MB, kept in
# build/toolkits; WARPWRIGHT_TOOLKITS names another folder. Where they or clang 19 are not to be had, the
# compilations that need them are skipped, in capitals; with CI=true that is an error.
#
# usage: sh tests/toolkits/compile.sh [--missing]
#   --missing  only names what would be downloaded, a line each
set -eu
root=$(cd -- "$(dirname -- "$0")/../.." && pwd -P)
cache=${WARPWRIGHT_TOOLKITS:-$root/build/toolkits}
new=13.5 old=12.6
skipped=''

say() { printf 'toolkits: %s\n' "$*"; }

# missing VERSION: whether the toolkit is not there; a half-made one never is, for it is moved there whole.
missing() { [ ! -d "$cache/cuda-$1" ]; }

if [ "${1:-}" = --missing ]; then
  if missing "$new"; then printf '%s\n' "nvcc and headers of CUDA $new (125 MB of wheels)"; fi
  if missing "$old"; then printf '%s\n' "headers of CUDA $old (22 MB of wheels)"; fi
  exit 0
fi

skip() {
  say "SKIPPED: $*"
  skipped=yes
}

# download FOLDER WHEEL...: unpacks the wheels alone, not what they depend on.
download() {
  folder=$1
  shift
  rm -rf "$folder"
  mkdir -p "$folder"
  PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --no-deps --no-cache-dir --no-compile \
    --disable-pip-version-check --retries 2 --target "$folder" "$@"
}

# get VERSION: makes its folder, with bin, include and nvvm in it as a toolkit has them.
get() {
  if ! missing "$1"; then return; fi
  say "downloading CUDA $1"
  work=$cache/downloading-$1
  if [ "$1" = "$new" ]; then
    download "$work" "nvidia-cuda-nvcc==$1.*" "nvidia-cuda-crt==$1.*" "nvidia-cuda-runtime==$1.*" \
      "nvidia-nvvm==$1.*" || return 1
    mv "$work/nvidia/cu${1%%.*}" "$work/toolkit"
  else
    download "$work" "nvidia-cuda-nvcc-cu12==$1.*" "nvidia-cuda-runtime-cu12==$1.*" || return 1
    mv "$work/nvidia/cuda_nvcc" "$work/toolkit"
    cp -R "$work/nvidia/cuda_runtime/include/." "$work/toolkit/include"
    # clang includes it before each CUDA file. The library uses nothing of cuRAND, a wheel of 56 MB.
    : >"$work/toolkit/include/curand_mtgp32_kernel.h"
  fi
  mv "$work/toolkit" "$cache/cuda-$1"
  rm -rf "$work"
}

# compile TITLE COMMAND...: an error of the compiler ends the script, and so the step.
compile() {
  begin=$(date +%s)
  title=$1
  shift
  "$@" || {
    printf 'toolkits: failed: %s\n' "$title" >&2
    exit 1
  }
  say "$title: $(($(date +%s) - begin)) s"
}

mkdir -p "$cache"
cd "$root"
# Every public header, but for those of peers that are not in these toolkits, and the module's uses.
source=$cache/every_header.cpp
find include/warpwright -name '*.hpp' ! -path '*/detail/*' ! -path '*/testing/*' ! -name cub.hpp \
  ! -name cublas.hpp ! -name cuda_mr.hpp ! -name rmm.hpp ! -name thrust.hpp | LC_ALL=C sort |
  sed 's|^include/\(.*\)|#include <\1>|' >"$source"
printf '#include "%s"\n' "$root/tests/toolkits/every_module.cpp" >>"$source"

warnings='-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror'
common="-std=c++17 -I$root/include"
clang=''
for name in clang++-19 clang++; do
  if command -v "$name" >/dev/null 2>&1 && [ "$("$name" -dumpversion | cut -d. -f1)" = 19 ]; then
    clang=$name
    break
  fi
done

# shellcheck disable=SC2086  # lists of options
if get "$new"; then
  nvcc=$cache/cuda-$new/bin/nvcc
  compile "nvcc $new" "$nvcc" -x cu -ccbin "${CXX:-g++}" -arch=sm_90 $common -DEXPECTED_CUDA=1305 \
    -Xcompiler=-Wall,-Wextra,-O0 -Werror all-warnings -c "$source" -o "$cache/every_header.o"
  # CMake writes the names of all functions there.
  printf '%s\n' '"cudaMalloc"' >"$cache/function_names.inc"
  compile "${CXX:-g++}, the host runtime's library over CUDA $new" "${CXX:-g++}" $common $warnings \
    -DWARPWRIGHT_HOST_RUNTIME=1 -isystem "$cache/cuda-$new/include" "-I$cache" -fsyntax-only \
    src/host_runtime/*.cpp
else
  skip "CUDA $new, which could not be downloaded: nvcc $new and the host runtime over its headers"
fi

# shellcheck disable=SC2086
if get "$old"; then
  toolkit=$cache/cuda-$old
  common="$common -isystem $toolkit/include -DEXPECTED_CUDA=1206"
  compile "${CXX:-g++}, .cpp over CUDA $old" "${CXX:-g++}" $common $warnings -fsyntax-only "$source"
  compile "${CXX:-g++}, host runtime over CUDA $old" "${CXX:-g++}" $common $warnings \
    -DWARPWRIGHT_HOST_RUNTIME=1 -fsyntax-only "$source"
  if [ -n "$clang" ]; then
    compile "clang 19, .cpp over CUDA $old" "$clang" $common $warnings -fsyntax-only "$source"
    compile "clang 19, host runtime over CUDA $old" "$clang" $common $warnings \
      -DWARPWRIGHT_HOST_RUNTIME=1 -fsyntax-only "$source"
    # It knows CUDA to 12.5 by name, and says so.
    cuda="-x cuda --cuda-path=$toolkit --cuda-gpu-arch=sm_90 -Wno-unknown-cuda-version"
    compile "clang 19 as the CUDA compiler, host pass" "$clang" $cuda $common $warnings \
      --cuda-host-only -fsyntax-only "$source"
    compile "clang 19 as the CUDA compiler, device pass" "$clang" $cuda $common $warnings \
      --cuda-device-only -O1 -S "$source" -o "$cache/every_header.ptx"
    compile "ptxas $old of clang's PTX" "$toolkit/bin/ptxas" -arch=sm_90 "$cache/every_header.ptx" \
      -o "$cache/every_header.cubin"
  else
    skip 'clang 19, which is not installed (package clang-19): as the CUDA compiler over' \
      "CUDA $old's headers"
  fi
else
  skip "CUDA $old, which could not be downloaded: g++ and clang 19 over its headers"
fi

if [ -n "$skipped" ] && [ "${CI:-}" = true ]; then
  say 'CI=true, and a compilation was skipped' >&2
  exit 1
fi
