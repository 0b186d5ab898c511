#!/usr/bin/env python3
# SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
# SPDX-License-Identifier: Apache-2.0
"""What rows_bench.cpp measures, by PyTorch (eager and torch.compile) and by QuACK.

Run by hand on a machine with PyTorch and a GPU: python3 bench/kernel/torch_rows.py
QuACK is measured where "pip install quack-kernels[cu13]" has installed it.
Prints one line a function, type, shape and path: median us of a launch and GB/s, every matrix
counted once. A graph holds 20 launches, over matrices that take turns past L2.
"""
import argparse
import importlib.metadata
import statistics

import torch
import torch.nn.functional as F

try:
    from quack.rmsnorm import layernorm_fwd, rmsnorm_fwd
    from quack.softmax import softmax_fwd
except ImportError:
    softmax_fwd = None

EPS = 1e-5
SHAPES = [(4096, 4096), (16384, 1024), (1024, 32768), (4096, 8192), (1024, 50257), (131072, 128),
          (2048, 16384), (512, 65536), (256, 131072), (256, 32768), (32, 8192), (4, 128000)]
LAUNCHES = 20


def softmax(x, residual, scale, shift):
    return (torch.softmax(x, -1),)


def layer_norm(x, residual, scale, shift):
    return (F.layer_norm(x, x.shape[-1:], scale, shift, EPS),)


def rms_norm(x, residual, scale, shift):
    if hasattr(F, "rms_norm"):
        return (F.rms_norm(x, x.shape[-1:], scale, EPS),)
    wide = x.float()
    return ((wide * torch.rsqrt(wide.square().mean(-1, True) + EPS)).to(x.dtype) * scale,)


def residual_norm(x, residual, scale, shift):
    h = x + residual
    return (h, *rms_norm(h, None, scale, shift))


def copy(x, residual, scale, shift):
    return (x.clone(),)


FUNCTIONS = [("copy", copy, 1), ("softmax", softmax, 1), ("layer_norm", layer_norm, 1),
             ("rms_norm", rms_norm, 1), ("residual", residual_norm, 2)]

# QuACK takes a layer norm's scale and shift as float alone.
QUACK = {
    "softmax": lambda x, residual, scale, shift: (softmax_fwd(x),),
    "layer_norm": lambda x, residual, scale, shift: (layernorm_fwd(x, scale, shift, EPS),),
    "rms_norm": lambda x, residual, scale, shift: (rmsnorm_fwd(x, scale, eps=EPS)[0],),
    "residual": lambda x, residual, scale, shift:
        rmsnorm_fwd(x, scale, residual=residual, eps=EPS)[1::-1],
}


def measure(function, matrices, scale, shift, iterations):
    """Median us of one launch."""
    turn = 0

    def launch():
        nonlocal turn
        x, residual = matrices[turn % len(matrices)]
        turn += 1
        return function(x, residual, scale, shift)

    for _ in range(LAUNCHES):  # compiles
        launch()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(LAUNCHES):
            launch()
    for _ in range(3):
        graph.replay()
    samples = []
    for _ in range(iterations):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        stop.record()
        stop.synchronize()
        samples.append(1e3 * start.elapsed_time(stop) / LAUNCHES)
    return statistics.median(samples)


def check(function, wanted, matrices, scale, shift):
    x, residual = matrices[0]
    got = function(x, residual, scale, shift)
    want = wanted(x[:8].double(), residual[:8].double(), scale.double(), shift.double())
    slack = 2e-5 if x.dtype == torch.float32 else 4e-2
    for a, b in zip(got, want):
        if not torch.allclose(a[:8].double(), b, rtol=slack, atol=slack):
            raise SystemExit("wrong results")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--iterations", type=int, default=60)
    parser.add_argument("--mode", default="max-autotune-no-cudagraphs", help="of torch.compile")
    parser.add_argument("--shapes", default=",".join(f"{rows}x{cols}" for rows, cols in SHAPES),
                        help="rows x columns, with commas between them: %(default)s")
    parser.add_argument("--paths", default="eager,compile,quack", help="%(default)s")
    options = parser.parse_args()
    shapes = [tuple(map(int, shape.split("x"))) for shape in options.shapes.split(",")]
    chosen = options.paths.split(",")
    version = importlib.metadata.version("quack-kernels") if softmax_fwd else "not installed"
    print(f"torch {torch.__version__}, QuACK {version}, {torch.cuda.get_device_name()}")
    print(f"{'function':12} {'type':5} {'rows':>7} {'cols':>6} {'path':8} {'us':>10} {'GB/s':>8}")
    for name, function, read in FUNCTIONS:
        for type_name, dtype in (("f32", torch.float32), ("bf16", torch.bfloat16)):
            for rows, cols in shapes:
                size = rows * cols * torch.empty((), dtype=dtype).element_size()
                sets = min(64, max(2, (256 << 20) // (2 * read * size)))
                matrices = [tuple(torch.rand(rows, cols, device="cuda").mul_(8).sub_(4).to(dtype)
                                  for _ in range(2)) for _ in range(sets)]
                scale = torch.rand(cols, device="cuda").add_(1).to(dtype)
                shift = torch.rand(cols, device="cuda").to(dtype)
                torch.compiler.reset()
                paths = {"eager": function}
                if name != "copy":
                    paths["compile"] = torch.compile(function, mode=options.mode, dynamic=False)
                if name in QUACK and softmax_fwd:
                    paths["quack"] = QUACK[name]
                for path in filter(paths.get, chosen):
                    wide = path == "quack" and name == "layer_norm"
                    a, b = (scale.float(), shift.float()) if wide else (scale, shift)
                    line = f"{name:12} {type_name:5} {rows:7} {cols:6} {path:8}"
                    try:
                        check(paths[path], function, matrices, a, b)
                        us = measure(paths[path], matrices, a, b, options.iterations)
                        rate = 2 * read * size / us * 1e-3
                        print(f"{line} {us:10.2f} {rate:8.0f}", flush=True)
                    except Exception as refused:  # what QuACK does not take
                        print(f"{line} {str(refused).strip().splitlines()[0]}", flush=True)
                del matrices
                torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
