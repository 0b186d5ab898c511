#!/usr/bin/env python3
# SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
# SPDX-License-Identifier: Apache-2.0
"""What training_bench.cpp and top_k_bench.cpp measure, by PyTorch: eager, and torch.compile.

Run by hand on a machine with PyTorch and a GPU: python3 bench/kernel/torch_training.py
Prints one line a function, type, shape and path: median us of a call, by 20 calls between two
events, over arrays that take turns past L2.
"""
import statistics

import torch
import torch.nn.functional as F


def layer_norm_backward(x, dy, k):
    x.requires_grad_(True)
    gamma, beta = (torch.ones(x.shape[1], device="cuda", dtype=x.dtype, requires_grad=True)
                   for _ in range(2))
    y = F.layer_norm(x, x.shape[-1:], gamma, beta, 1e-5)
    return lambda: torch.autograd.grad(y, (x, gamma, beta), dy, retain_graph=True)


def cross_entropy(x, dy, k):
    x.requires_grad_(True)

    def call():
        return torch.autograd.grad(F.cross_entropy(x, k), x)
    return call


def quantize(x, dy, k):
    def call():
        scale = x.abs().amax(1, keepdim=True).float() / 448
        return (x / scale).to(torch.float8_e4m3fn), scale
    return call


def gather(x, dy, k):
    return lambda: F.embedding(k, x)


def scatter_add(x, dy, k):
    return lambda: x.index_add_(0, k, dy)


def top_50(x, dy, k):
    return lambda: torch.topk(x, 50)


CASES = [(layer_norm_backward, [(1024, 256), (8192, 768), (8192, 4096)]),
         (cross_entropy, [(8192, 32000), (4096, 50257)]), (quantize, [(8192, 4096)]),
         (gather, [(65536, 768), (8192, 4096)]), (scatter_add, [(65536, 768), (8192, 4096)]),
         (top_50, [(8, 128000), (1, 128000), (64, 32000), (256, 128000)])]


def measure(calls):
    for call in calls[:3] * 2:
        call()
    samples = []
    for _ in range(15):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for turn in range(20):
            calls[turn % len(calls)]()
        stop.record()
        stop.synchronize()
        samples.append(1e3 * start.elapsed_time(stop) / 20)
    return statistics.median(samples)


def main():
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}")
    for make, shapes in CASES:
        for name, dtype in (("f32", torch.float32), ("bf16", torch.bfloat16)):
            for rows, cols in shapes:
                size = rows * cols * torch.empty((), dtype=dtype).element_size()
                calls, compiled = [], []
                for _ in range(max(2, min(8, (256 << 20) // (2 * size)))):
                    x, dy = (torch.randn(rows, cols, device="cuda", dtype=dtype) for _ in range(2))
                    k = (torch.arange(rows, device="cuda") * 7919) % min(rows, cols)
                    if make in (gather, scatter_add):
                        k = (torch.arange(rows, device="cuda") * 7919) % rows
                    calls.append(make(x, dy, k))
                    if make in (quantize, cross_entropy):
                        compiled.append(torch.compile(make(x, dy, k), dynamic=False))
                line = f"{make.__name__:20} {name:5} {rows:6} {cols:6} eager {measure(calls):9.2f}"
                if compiled:
                    line += f" compile {measure(compiled[:2]):9.2f}"
                print(line, flush=True)
                del calls, compiled
                torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
