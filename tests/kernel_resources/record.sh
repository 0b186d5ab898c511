#!/bin/sh
# SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
# SPDX-License-Identifier: Apache-2.0
#
# record.sh COMPILER ARGUMENTS...: a launcher of nvcc -Xptxas=-v -o OBJECT, which keeps what ptxas says
# of the kernels as OBJECT.ptxas, for check.py, and out of the build's output.
object='' previous=''
for argument in "$@"; do
  if [ "$previous" = -o ]; then object=$argument; fi
  previous=$argument
done
case $object in
  *.o) ;;
  *) exec "$@" ;;
esac
status=0
"$@" 2>"$object.ptxas" || status=$?
grep -v -e '^ptxas info' -e '^ *[0-9]* bytes stack frame' "$object.ptxas" >&2
exit "$status"
