#!/usr/bin/env python3
# SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
# SPDX-License-Identifier: Apache-2.0
"""Replays allocation traces on PyTorch's caching allocator, a peer of those of memory_replay_bench:

    python3 bench/memory/torch_replay.py [--passes N] [--out FILE.json] trace.csv.gz...
    python3 bench/support/compact_results.py FILE.json    # into bench/results

Reads warpwright's CSV, plain or gzip, and prints a line a trace and configuration (the default, and
expandable segments) in the format of warpwright_replay, without ns_per_op, which Python would dominate,
and without cuda_calls_per_op, which PyTorch does not count. The same figures go to FILE.json in the format
of Google Benchmark, without a time; call it memory_torch_replay.json, which plot_replay.py shows beside
memory_replay_bench. A block is freed on the stream it was allocated on, as PyTorch does for any freeing
stream. As in warpwright_replay, the host waits for the device every 64 operations. The trace is replayed
N times (1) on the same allocator; the peak of reserved memory is that of all passes. Each configuration
runs in its own process, because PyTorch reads it once. Exit status 77 without PyTorch or a GPU.
"""
import argparse
import csv
import gzip
import json
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "kernel"))
import torch_peers  # noqa: E402

CONFIGURATIONS = {"torch": "", "torch_expandable": "expandable_segments:True"}


def operations(path):
    opened = gzip.open(path, "rt") if path.suffix == ".gz" else open(path)
    with opened as lines:
        for row in csv.reader(line for line in lines if line.strip() and line[0] != "#"):
            yield row[0], int(row[1]), int(row[2]), int(row[3])


def replay(torch, path, name, passes):
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_reserved()
    streams = {}
    for _ in range(passes):
        count, peak = replay_once(torch, path, streams)
    reserved = torch.cuda.max_memory_reserved() - before
    print(f"trace={path.name.split('.')[0]} allocator={name} ops={count} peak_live={peak} "
          f"peak_reserved={reserved} ratio={reserved / peak:.4f}", flush=True)


def replay_once(torch, path, streams):
    """(operations, the peak of live bytes) of one pass, which leaves nothing allocated."""
    device = torch.cuda.current_device()
    blocks = {}
    live = peak = count = 0
    for count, (kind, block, size, stream) in enumerate(operations(path), 1):
        # The first of a trace is PyTorch's default stream, as in the program that was recorded.
        if stream not in streams:
            streams[stream] = torch.cuda.Stream() if streams else torch.cuda.default_stream()
        if count % 64 == 0:
            streams[stream].synchronize()
        if kind == "a":
            pointer = torch.cuda.caching_allocator_alloc(size, device, streams[stream]) if size else 0
            blocks[block] = pointer, size
            live += size
            peak = max(peak, live)
        else:
            pointer, size = blocks.pop(block)
            live -= size
            if pointer:
                torch.cuda.caching_allocator_delete(pointer)
    for pointer, _ in blocks.values():
        if pointer:
            torch.cuda.caching_allocator_delete(pointer)
    torch.cuda.synchronize()
    return count, peak


def benchmark_of(line, passes):
    """A line of replay() as a benchmark in Google Benchmark's JSON, with counters and no time."""
    field = dict(word.split("=", 1) for word in line.split())
    return {"name": f"replay/{field['trace']}/{field['allocator']}/idle", "run_type": "iteration", "time_unit": "us",
            "ratio": float(field["ratio"]), "peak_live_mb": 1e-6 * int(field["peak_live"]),
            "peak_reserved_mb": 1e-6 * int(field["peak_reserved"]), "ops": int(field["ops"]), "passes": passes}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--passes", type=int, default=1, help="passes over a trace on the same allocator (1)")
    parser.add_argument("--out", help="a file for compact_results.py")
    parser.add_argument("traces", nargs="+", metavar="TRACE")
    options = parser.parse_args()
    if options.passes < 1:
        parser.error(f"--passes {options.passes}: at least 1 is needed")
    try:
        import torch
    except ImportError:
        print("skipped: no PyTorch")
        sys.exit(77)
    if not torch.cuda.is_available():
        print("skipped: PyTorch finds no GPU")
        sys.exit(77)
    name = os.environ.get("WARPWRIGHT_TORCH_REPLAY")
    if name:
        for path in options.traces:
            replay(torch, pathlib.Path(path), name, options.passes)
        return
    print(f"# PyTorch {torch.__version__}, {torch.cuda.get_device_name()}", flush=True)
    result = {"context": torch_peers.context(torch), "benchmarks": []}
    for name, configuration in CONFIGURATIONS.items():
        environment = dict(os.environ, WARPWRIGHT_TORCH_REPLAY=name, PYTORCH_ALLOC_CONF=configuration)
        with subprocess.Popen([sys.executable, __file__, "--passes", str(options.passes), "--", *options.traces],
                              env=environment, stdout=subprocess.PIPE, text=True) as child:
            for line in child.stdout:
                print(line, end="", flush=True)
                result["benchmarks"].append(benchmark_of(line, options.passes))
        if child.returncode:
            sys.exit(f"{name}: the replay ended with status {child.returncode}")
    if options.out:
        with open(options.out, "w", encoding="utf-8") as f:
            json.dump(result, f, indent=2)
            f.write("\n")


if __name__ == "__main__":
    main()
