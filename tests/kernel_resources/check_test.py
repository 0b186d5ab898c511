# SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
# SPDX-License-Identifier: Apache-2.0
"""check_test.py REPORT: check.py names the kernels of spilling.cpp that use too much, no other."""
import os
import subprocess
import sys

check = os.path.join(os.path.dirname(os.path.abspath(__file__)), "check.py")


def expect(true, what, result):
    if not true:
        sys.exit(f"{what}\nexit status {result.returncode}\n{result.stdout}{result.stderr}")


def run(*arguments):
    return subprocess.run([sys.executable, check, *arguments], capture_output=True, text=True)


result = run(sys.argv[1])
expect(result.returncode == 1, "it must fail", result)
for kernel in ("spilling_kernel\n", "indexing_kernel\n", "top_k_kernel<int>\n"):
    expect(kernel in result.stderr, f"it must name {kernel!r}", result)
for kernel in ("frugal_kernel", "allowed_kernel", "strange_kernel"):
    expect(kernel not in result.stderr, f"it must not name {kernel}", result)
expect(" 0 bytes of spill stores" in result.stderr, "an array is no spill", result)

result = run(os.path.dirname(check))
expect(result.returncode == 1 and "build them first" in result.stderr, "an empty folder must fail", result)
