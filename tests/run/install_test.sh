#!/bin/sh
# SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
# SPDX-License-Identifier: Apache-2.0
#
# ./run says what it will install before it installs, and with --no-install does no more than that.
# In a PATH without cmake, ninja and g++, with an apt-get that only records its calls.
set -eu
root=$(cd -- "$(dirname -- "$0")/../.." && pwd -P)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for tool in sh cat date dirname env find grep head id kill mkdir nproc printf readlink rm sed sleep \
  sort tail tr uname; do
  found=$(command -v "$tool" || :)
  case $found in /*) ln -s "$found" "$work/$tool" ;; esac
done
cat >"$work/apt-get" <<'END'
#!/bin/sh
printf '%s\n' "$*" >>"$WORK/calls"
grep -q 'ninja-build: runs the build' "$WORK/output" || printf 'not said before\n' >>"$WORK/calls"
END
cat >"$work/sudo" <<'END'
#!/bin/sh
if [ "$1" != -v ]; then exec "$@"; fi
END
chmod +x "$work/apt-get" "$work/sudo"

fail() {
  printf 'failed: %s\n' "$*" >&2
  cat "$work/output" >&2
  exit 1
}

# try ARGUMENTS...: runs ./run, which must fail, as apt-get installs nothing.
try() {
  rm -f "$work/calls"
  if env -u CXX WORK="$work" PATH="$work" sh "$root/run" "$@" >"$work/output" 2>&1; then
    fail "run $* has succeeded without cmake"
  fi
}
says() { grep -qF -- "$1" "$work/output" || fail "not said: $1"; }

for arguments in '--no-install demo' 'demo --no-install' '--no-install test' '--no-install bench'; do
  # shellcheck disable=SC2086  # a list of words
  try $arguments
  says 'cmake: configures the build'
  says 'ninja-build: runs the build'
  says 'g++: compiles'
  says '--no-install: nothing was installed; apt-get install cmake ninja-build g++'
  [ ! -e "$work/calls" ] || fail "apt-get was called by: $arguments"
done

try demo
says 'installing cmake ninja-build g++'
grep -q 'install -y --no-install-recommends cmake ninja-build g++' "$work/calls" ||
  fail 'apt-get was not called'
if grep -q 'not said before' "$work/calls"; then fail 'it was not said before it was done'; fi
says 'run: no compiler'
