#!/usr/bin/env python3
# SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
# SPDX-License-Identifier: Apache-2.0
"""No kernel of ours may spill, use local memory or more registers than MOST_REGISTERS: reads what ptxas said.

    python3 tests/kernel_resources/check.py BUILD_FOLDER...    # the reports of TARGETS in these
    python3 tests/kernel_resources/check.py OBJECT.ptxas...    # these reports

The builds use `nvcc -Xptxas=-v` and record.sh as the compiler's launcher, which keeps a report beside
each object, so nothing is compiled here. Spilled values and arrays that cannot be kept in registers lie
on a thread's stack, in local memory: a kernel of namespace warpwright must have no stack, unless it is
among ALLOWED or MAY_SPILL. It prints the most registers of each template of kernels; with --each, of each kernel. The exit status is
1 where a kernel has too much of either, and where there is no report of a target.
"""
import os
import re
import subprocess
import sys
from fnmatch import fnmatch

# Whose kernels are looked at: <folder>/<target>, as in the build folder; * stands for anything.
TARGETS = (
    "examples/*",
    "tests/kernel/*",
)
# Those that ./run nightly has as well.
MORE_TARGETS = ("bench/kernel/*",)

# Kernels that may have a stack, but no spills: a regular expression for the demangled name, at most how
# many bytes, and why.
ALLOWED = (
    (r"\b(?:sin|cos)_function\b", 72, "CUDA's sin and cos reduce large arguments by a table on the stack, in a branch"),
    (r"\bmeasure_kernel\b", 32, "cosf of the schedule, as above; at most of pi: the branch is not taken"),
)

# Tests of expressions with so many values beside a row that kernels spill some: a regular expression for the report,
# and at most how many bytes of stack. More registers would halve the threads of an SM, for every expression.
MAY_SPILL = (
    (r"/kernel_cross_entropy\.dir/", 96),  # weights of classes, and labels that are smoothed, of 16-bit numbers
    (r"/kernel_large_rows\.dir/", 112),  # bytes that are quantised: 16 of a vector
    (r"/kernel_row_gradients\.dir/", 24),  # a view and a draw; two results of other types
    (r"/kernel_rows_interface\.dir/", 96),  # a streamed layer norm with a scale alone; all statistics at once
)

# Most registers of a thread: a regular expression for the demangled name, how many, and why. The first that fits counts.
MOST_REGISTERS = (
    (r"\btop_k_kernel<", 64, "blocks of 1,024 threads"),
    (r"\breduce_rows_kernel<", 160, "several reductions have 128, two blocks an SM; one in double 156"),
    (r"\breduce_cols_kernel<", 128, "two blocks of 256 threads an SM"),
    (r"\breduce_kernel<", 168, "eight reductions of four arrays have 158; such of light states are far below"),
    (r"", 255, "what a thread can have"),
)

COMPILING = re.compile(r"ptxas info\s*: Compiling entry function '(\S+)' for '(\w+)'")
STACK = re.compile(r"\s*(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
REGISTERS = re.compile(r"ptxas info\s*: Used (\d+) registers")


class Kernel:
    def __init__(self, symbol, arch):
        self.symbol, self.arch, self.name = symbol, arch, symbol
        self.stack = self.stores = self.loads = self.registers = 0

    def allowed(self, path):
        return (self.stack == 0
                or any(self.stack <= most and re.search(pattern, path) for pattern, most in MAY_SPILL)
                or self.stores == 0 and any(
                    self.stack <= most and re.search(pattern, self.name) for pattern, most, _ in ALLOWED))

    def most_registers(self):
        return next(most for pattern, most, _ in MOST_REGISTERS if re.search(pattern, self.name))

    def ours(self):
        """Whether it is a kernel of namespace warpwright, not one that is only given a type of it."""
        return re.match(r"(?:void )?warpwright::", self.name) is not None


def parse(report):
    """The kernels in what ptxas printed."""
    kernels = []
    for line in report.splitlines():
        if found := COMPILING.match(line):
            kernels.append(Kernel(*found.groups()))
        elif kernels and (found := STACK.match(line)):
            # A function that is not inlined has lines of its own, after those of its kernel.
            kernel = kernels[-1]
            stack, stores, loads = map(int, found.groups())
            kernel.stack, kernel.stores, kernel.loads = (
                kernel.stack + stack, kernel.stores + stores, kernel.loads + loads)
        elif kernels and (found := REGISTERS.match(line)):
            kernels[-1].registers = int(found.group(1))
    return kernels


def demangle(kernels):
    names = subprocess.run(["c++filt"], input="".join(f"{k.symbol}\n" for k in kernels), capture_output=True,
                           text=True, check=True).stdout.splitlines()
    for kernel, name in zip(kernels, names):
        kernel.name = name


def template_of(name):
    """The last name before the arguments of the kernel that block_kernel<> launches, or of the kernel itself."""
    found = re.match(r"(?:void )?(?:warpwright::(?:\w+::)*(?:block|table)_kernel<)?(?:\w+::)*(\w+)", name)
    return found.group(1) if found else name


def shorter(name):
    """Without the inner namespaces and the parameters' types, which say nothing new to a reader."""
    depth = 0
    for at, letter in enumerate(name):
        depth += (letter == "<") - (letter == ">")
        if letter == "(" and depth == 0:
            name = name[:at]
            break
    inner = re.compile(r"warpwright::(?:\w+::)*(?=\w+\b(?!::))")
    return inner.sub(lambda m: "ew::" if "ew::" in m[0] else "warpwright::", name)


def reports_in(folder):
    """(the reports of TARGETS in a build folder, the objects without one, the targets without any)."""
    found, bare, missing = [], [], set(TARGETS)
    for place, _, files in sorted(os.walk(folder)):
        inside = os.path.relpath(place, folder).replace(os.sep, "/")
        target = re.match(r"(.+)/CMakeFiles/([^/]+)\.dir(?:/|$)", inside)
        patterns = [p for p in TARGETS + MORE_TARGETS if target and fnmatch("/".join(target.groups()), p)]
        for file in sorted(files) if patterns else ():
            if file.endswith(".o"):
                report = os.path.join(place, file + ".ptxas")
                (found if os.path.exists(report) else bare).append(report)
                missing.difference_update(patterns)
    return found, bare, missing


def main(arguments):
    each = "--each" in arguments
    arguments = [a for a in arguments if a != "--each"]
    if not arguments:
        sys.exit(__doc__)
    reports, missing = [], set(TARGETS)
    for argument in arguments:
        if os.path.isdir(argument):
            found, bare, absent = reports_in(argument)
            if bare:
                sys.exit(f"kernel_resources: there is no {bare[0]}: build with -Xptxas=-v and record.sh as the "
                         "launcher of nvcc, as ./run check does")
            reports += found
            missing &= absent
        else:
            reports.append(argument)
            missing = set()
    if missing:
        sys.exit(f"kernel_resources: no objects of {', '.join(sorted(missing))} in {' '.join(arguments)}: "
                 "build them first, or take them out of TARGETS")

    kernels, excused, bad, most, of_template = 0, 0, [], {}, {}
    for path in reports:
        with open(path, encoding="utf-8", errors="replace") as f:
            listed = parse(f.read())
        demangle(listed)
        for kernel in filter(Kernel.ours, listed):
            kernels += 1
            most[kernel.arch] = max(most.get(kernel.arch, 0), kernel.registers)
            name = shorter(kernel.name) if each else template_of(kernel.name)
            of_template[name] = max(of_template.get(name, 0), kernel.registers)
            excused += kernel.stack > 0 and kernel.allowed(path)
            if not kernel.allowed(path) or kernel.registers > kernel.most_registers():
                bad.append((path, kernel))
    if kernels == 0:
        sys.exit(f"kernel_resources: no kernel of ours in {' '.join(arguments)}: are these reports of CUDA objects?")
    for path, kernel in bad:
        print(f"{shorter(kernel.name)}\n  {kernel.arch}: {kernel.registers} registers, {kernel.most_registers()} at most, stack of {kernel.stack} bytes; "
              f"{kernel.stores} bytes of spill stores, {kernel.loads} of spill loads\n  in {os.path.relpath(path)}",
              file=sys.stderr)
    if bad:
        print(f"kernel_resources: {len(bad)} of {kernels} kernels use local memory, or too many registers; keep fewer "
              "values at once, no array indexed at run time, or add them to ALLOWED, MAY_SPILL or MOST_REGISTERS with the reason",
              file=sys.stderr)
        return 1
    for name in sorted(of_template, key=lambda n: (-of_template[n], n)):
        print(f"{of_template[name]:5} registers  {name}")
    print(f"{kernels} kernels of ours in {len(reports)} objects, none with local memory"
          + (f" but {excused} of ALLOWED and MAY_SPILL" if excused else "") + "; most registers: "
          + ", ".join(f"{arch} {most[arch]}" for arch in sorted(most, key=lambda a: (len(a), a))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
