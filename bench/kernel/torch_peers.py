#!/usr/bin/env python3
# SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's ways of what the kernel benchmarks measure, eager and by torch.compile, as one more peer.

    python3 bench/kernel/torch_peers.py --out build/kernel_torch_peers.json
    python3 bench/support/compact_results.py build/kernel_torch_peers.json    # into bench/results

Writes JSON in the shape of Google Benchmark's, under the names of evaluate_bench (triad, gelu,
rotation), random_bench (dropout) and reduce_bench (squares), and measures as they do: between two
events, the median of --iterations, over sets of arrays of 256 MiB or more together, so that none is
found in L2. Outputs take turns as well: each stays alive until its set's next turn. Before it is timed,
a path's result is compared with one in double.

Eager is written with the fewest kernels that PyTorch's documented functions allow. torch.compile is
given plain expressions, and compiles each size for itself. The exit status is 1 where a result is
wrong, and 77 where there is no PyTorch or no GPU.
"""
import argparse
import datetime
import json
import os
import re
import socket
import subprocess
import sys

TRIAD_FACTOR = 1.5
DROP = 0.1
ITEM_BYTES = {"f32": 4, "f16": 2, "bf16": 2}
LARGEST = 1 << 28


class Operation:
    """Its name's first part; types; arrays read and written, by which bytes are counted; smallest n and
    the factor to the next; how many launches are timed together, one number or (1, 20), of which only
    those in `named` stand in the benchmark's name; most sets of arrays."""

    def __init__(self, name, types, reads, writes, smallest, factor, launches, named, most_sets):
        self.name, self.types, self.reads, self.writes = name, types, reads, writes
        self.smallest, self.factor, self.launches = smallest, factor, launches
        self.named, self.most_sets = named, most_sets

    def sizes(self, largest=LARGEST):
        n = self.smallest
        while n <= largest:
            yield n
            n *= self.factor

    def modes(self, n):
        """As in the C++ benchmarks: from 2^24 elements up one launch at a time is enough."""
        return [k for k in self.launches if k == 1 or not self.named or n < 1 << 24]

    def bytes(self, n, type_):
        return n * ITEM_BYTES[type_] * (self.reads + self.writes)

    def sets(self, n, type_):
        pitch = (n * ITEM_BYTES[type_] + 255) // 256 * 256 + 256
        enough = (256 << 20) // (pitch * (self.reads + self.writes))
        return max(1, min(enough, self.most_sets))

    def benchmark(self, type_, peer, n, launches):
        return f"{self.name}_{type_}/{peer}/{n}" + (f"/{launches}" if self.named else "")


OPERATIONS = (
    Operation("triad", ("f32", "f16", "bf16"), 2, 1, 1 << 10, 4, (1, 20), True, 4096),
    Operation("gelu", ("f32", "f16", "bf16"), 3, 1, 1 << 10, 4, (1, 20), True, 4096),
    Operation("rotation", ("f32", "f16", "bf16"), 2, 2, 1 << 10, 4, (1, 20), True, 4096),
    Operation("dropout", ("f32", "bf16"), 1, 1, 1 << 12, 16, (20,), False, 1024),
    Operation("squares", ("f32", "f16", "bf16"), 1, 0, 1 << 16, 4, (1, 20), True, 4096),
)


def entry(operation, type_, peer, n, launches, microseconds, sets):
    """One benchmark of the JSON: the samples are times of one launch in us."""
    ordered = sorted(microseconds)
    count = len(ordered)
    median = ordered[count // 2]
    name = operation.benchmark(type_, peer, n, launches)
    return {
        "name": f"{name}/iterations:{count}/repeats:1/manual_time",
        "run_name": f"{name}/iterations:{count}/repeats:1/manual_time",
        "run_type": "iteration",
        "repetitions": 1,
        "repetition_index": 0,
        "threads": 1,
        "iterations": count,
        "real_time": sum(ordered) / count,
        "time_unit": "us",
        "GB/s": operation.bytes(n, type_) / median * 1e-3,
        "median_us": median,
        "p10_us": ordered[count // 10],
        "p90_us": ordered[count * 9 // 10],
        "sets": sets,
    }


def cuda_version(text):
    """13000 for "13.0", as the CUDA runtime counts."""
    major, minor = (text.split(".") + ["0"])[:2]
    return 1000 * int(major) + 10 * int(minor)


def output_of(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def context(torch):
    here = os.path.dirname(os.path.abspath(__file__))
    properties = torch.cuda.get_device_properties(0)
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "host_name": socket.gethostname(),
        "executable": sys.argv[0],
        "num_cpus": os.cpu_count(),
        "command": " ".join(["python3"] + sys.argv),
        "device": properties.name,
        "driver": output_of("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader").split("\n")[0],
        "multiprocessors": str(properties.multi_processor_count),
        "runtime": "cuda",
        "runtime_cuda_version": str(cuda_version(torch.version.cuda)),
        "version_PyTorch": torch.__version__,
        "warpwright_commit": os.environ.get("WARPWRIGHT_COMMIT")
                             or output_of("git", "-C", here, "describe", "--always", "--dirty", "--abbrev=12")
                             or "unknown",
    }


# --- What needs PyTorch -------------------------------------------------------------------------


def functions(torch):
    """{operation: {peer: function of the inputs}}."""
    nn = torch.nn.functional

    def gelu(x, w, b):
        return nn.gelu(x * w + b)

    def rotation(x, y):
        return 0.8 * x - 0.6 * y, 0.6 * x + 0.8 * y

    return {
        "triad": {"torch_eager": lambda x, y: torch.add(y, x, alpha=TRIAD_FACTOR),
                  "torch_compile": lambda x, y: TRIAD_FACTOR * x + y},
        "gelu": {"torch_eager": lambda x, w, b: nn.gelu(torch.addcmul(b, x, w)), "torch_compile": gelu},
        "rotation": {"torch_eager": lambda x, y: (torch.sub(0.8 * x, y, alpha=0.6),
                                                  torch.add(0.6 * x, y, alpha=0.8)),
                     "torch_compile": rotation},
        "dropout": {"torch_eager": lambda x: nn.dropout(x, DROP),
                    "torch_compile": lambda x: nn.dropout(x, DROP)},
        "squares": {"torch_eager": lambda x: torch.sum(x * x, dtype=torch.float32),
                    "torch_compile": lambda x: torch.sum(x.float() * x.float())},
    }


def right(torch, name, type_, inputs, result):
    """Compares with double: the first 2^16 elements, or the whole sum."""
    unit = {"f32": 2.0 ** -24, "f16": 2.0 ** -11, "bf16": 2.0 ** -8}[type_]
    if name == "squares":
        exact = sum(float((c.double() ** 2).sum()) for c in inputs[0].split(1 << 24))
        return abs(float(result) - exact) <= max(2.0 ** -16, 2 * unit) * exact
    inputs = [x[:1 << 16].double() for x in inputs]
    results = [r[:1 << 16].double() for r in (result if isinstance(result, tuple) else (result,))]
    if name == "dropout":
        kept = results[0] != 0
        share = float(kept.double().mean())
        exact = torch.where(kept, inputs[0] / (1 - DROP), torch.zeros_like(inputs[0]))
        close = (results[0] - exact).abs() <= 4 * unit * exact.abs()
        return bool(close.all()) and abs(share - (1 - DROP)) < 0.05
    if name == "triad":
        exact = (TRIAD_FACTOR * inputs[0] + inputs[1],)
    elif name == "gelu":
        exact = (torch.nn.functional.gelu(inputs[0] * inputs[1] + inputs[2]),)
    else:
        exact = (0.8 * inputs[0] - 0.6 * inputs[1], 0.6 * inputs[0] + 0.8 * inputs[1])
    return all(bool(((r - e).abs() <= unit * (4 * e.abs() + 4)).all()) for r, e in zip(results, exact))


def measure(torch, operation, type_, peer, function, n, iterations):
    """Entries of all modes of one size."""
    dtype = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[type_]
    sets = operation.sets(n, type_)
    pitch = ((n * ITEM_BYTES[type_] + 255) // 256 * 256 + 256) // ITEM_BYTES[type_]
    memory = torch.empty(sets * operation.reads * pitch, dtype=dtype, device="cuda")
    for part in memory.split(1 << 26):
        part.uniform_(-1, 1)
    inputs = [[memory[(s * operation.reads + k) * pitch:][:n] for k in range(operation.reads)]
              for s in range(sets)]
    if peer == "torch_compile":
        torch._dynamo.reset()  # else it would stop compiling after a few sizes
        function = torch.compile(function, dynamic=False)
    kept = [None] * sets
    for s in range(sets):  # all, so that PyTorch's allocator has the memory before anything is timed
        kept[s] = function(*inputs[s])
    torch.cuda.synchronize()
    if not right(torch, operation.name, type_, inputs[0], kept[0]):
        sys.exit(f"torch_peers: wrong results: {operation.name}_{type_}/{peer}/{n}")
    turn = 0
    for launches in operation.modes(n):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        samples = []
        for iteration in range(iterations + 5):  # the first five warm up
            start.record()
            for _ in range(launches):
                kept[turn] = function(*inputs[turn])
                turn = (turn + 1) % sets
            stop.record()
            stop.synchronize()
            if iteration >= 5:
                samples.append(1e3 * start.elapsed_time(stop) / launches)
        yield entry(operation, type_, peer, n, launches, samples, sets)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", help="the JSON's file; without it, JSON goes to standard output")
    parser.add_argument("--filter", default="", help="regular expression: measure only <operation>_<type>/<peer>/<n>")
    parser.add_argument("--iterations", type=int, default=60)
    parser.add_argument("--largest", type=int, default=LARGEST, help="the largest n")
    options = parser.parse_args()
    try:
        import torch
    except ImportError:
        print("SKIPPED: no PyTorch", file=sys.stderr)
        return 77
    if not torch.cuda.is_available():
        print("SKIPPED: no usable CUDA device", file=sys.stderr)
        return 77
    of = functions(torch)
    result = {"context": context(torch), "benchmarks": []}
    with torch.no_grad():
        for operation in OPERATIONS:
            for type_ in operation.types:
                for peer, function in of[operation.name].items():
                    for n in operation.sizes(options.largest):
                        if not re.search(options.filter, f"{operation.name}_{type_}/{peer}/{n}"):
                            continue
                        for line in measure(torch, operation, type_, peer, function, n, options.iterations):
                            result["benchmarks"].append(line)
                            print(f"{line['name']}  {line['median_us']:.2f} us  {line['GB/s']:.1f} GB/s",
                                  file=sys.stderr, flush=True)
                        torch.cuda.empty_cache()
                        if options.out:  # what is done so far outlives an interruption
                            with open(options.out, "w", encoding="utf-8") as f:
                                json.dump(result, f, indent=2)
                                f.write("\n")
    if not options.out:
        json.dump(result, sys.stdout, indent=2)
        print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
