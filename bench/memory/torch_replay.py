#!/usr/bin/env python3
# SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
# SPDX-License-Identifier: Apache-2.0
"""Replays allocation traces on PyTorch's caching allocator, a peer of warpwright_replay's allocators:

    python3 bench/memory/torch_replay.py trace.csv.gz...

Reads warpwright's CSV, plain or gzip, and prints a line a trace and configuration (the default, and
expandable segments) in the format of warpwright_replay, without ns_per_op, which Python would dominate,
and without cuda_calls_per_op, which PyTorch does not count. A block is freed on the stream it was
allocated on, as PyTorch does for any freeing stream. As in warpwright_replay, the host waits for the device
every 64 operations. Each configuration runs in its own process, because PyTorch reads it once. Exit status
77 without PyTorch or a GPU.
"""
import csv
import gzip
import os
import pathlib
import subprocess
import sys

CONFIGURATIONS = {"torch": "", "torch_expandable": "expandable_segments:True"}


def operations(path):
    opened = gzip.open(path, "rt") if path.suffix == ".gz" else open(path)
    with opened as lines:
        for row in csv.reader(line for line in lines if line.strip() and line[0] != "#"):
            yield row[0], int(row[1]), int(row[2]), int(row[3])


def replay(torch, path, name):
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_reserved()
    device = torch.cuda.current_device()
    streams, blocks = {}, {}
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
    reserved = torch.cuda.max_memory_reserved() - before
    for pointer, _ in blocks.values():
        if pointer:
            torch.cuda.caching_allocator_delete(pointer)
    print(f"trace={path.name.split('.')[0]} allocator={name} ops={count} peak_live={peak} "
          f"peak_reserved={reserved} ratio={reserved / peak:.4f}", flush=True)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
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
        for path in sys.argv[1:]:
            replay(torch, pathlib.Path(path), name)
        return
    print(f"# PyTorch {torch.__version__}, {torch.cuda.get_device_name()}", flush=True)
    for name, configuration in CONFIGURATIONS.items():
        subprocess.run([sys.executable, __file__, *sys.argv[1:]], check=True,
                       env=dict(os.environ, WARPWRIGHT_TORCH_REPLAY=name,
                                PYTORCH_ALLOC_CONF=configuration))


if __name__ == "__main__":
    main()
