#!/usr/bin/env python3
# SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
# SPDX-License-Identifier: Apache-2.0
"""The block of examples/transformer_block.cpp, forward and backward, by PyTorch: eager and torch.compile.

Run by hand on a machine with PyTorch and a GPU: python3 bench/kernel/torch_block.py 8 1024 768 12 [--tf32]
Prints median ms a step, with attention of single operations, as the example has it, and with PyTorch's
fused one, which stores no probabilities. Gradients are those of all 12 parameters and of x.
"""
import argparse
import math
import statistics

import torch
import torch.nn.functional as F


def make_block(heads, fused):
    def attention(q, k, v):
        if fused:
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        later = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool, device=q.device).triu(1)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[3])
        return torch.softmax(scores.masked_fill(later, -math.inf), -1) @ v

    def block(gamma1, beta1, w_qkv, b_qkv, w_proj, b_proj, gamma2, beta2, w_up, b_up, w_down, b_down, x):
        b, t, c = x.shape
        h1 = F.layer_norm(x, (c,), gamma1, beta1, 1e-5)
        q, k, v = (h1 @ w_qkv + b_qkv).view(b, t, 3, heads, c // heads).permute(2, 0, 3, 1, 4)
        x1 = x + attention(q, k, v).transpose(1, 2).reshape(b, t, c) @ w_proj + b_proj
        h2 = F.layer_norm(x1, (c,), gamma2, beta2, 1e-5)
        return x1 + F.gelu(h2 @ w_up + b_up) @ w_down + b_down

    return block


def measure(block, values, dy, samples=50):
    def step():
        y = block(*values)
        return (y, *torch.autograd.grad(y, values, dy))

    for _ in range(5):  # compiles, and fills the allocator's cache
        results = step()
    torch.cuda.synchronize()
    times = []
    for _ in range(samples):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        step()
        stop.record()
        stop.synchronize()
        times.append(start.elapsed_time(stop))
    return statistics.median(times), results


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", type=int, nargs=4, help="batch, tokens, channels, heads")
    parser.add_argument("--tf32", action="store_true", help="products in TF32")
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = options.tf32
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}, TF32 {'on' if options.tf32 else 'off'}")
    *x_shape, heads, c = *options.sizes, options.sizes[2]
    shapes = [(c,), (c,), (c, 3 * c), (3 * c,), (c, c), (c,), (c,), (c,), (c, 4 * c), (4 * c,), (4 * c, c), (c,)]
    values = [(torch.randn(s, device="cuda") / (math.sqrt(s[0]) if len(s) == 2 else 1)).requires_grad_()
              for s in (*shapes, x_shape)]
    dy = torch.randn(x_shape, device="cuda")
    wanted, slack = None, 2e-2 if options.tf32 else 1e-3
    for fused in (False, True):
        block = make_block(heads, fused)
        for path, how in (("eager", block), ("compile", torch.compile(block, dynamic=False))):
            ms, found = measure(how, values, dy)
            wanted = wanted or found
            if not all((a - b).norm() <= slack * b.norm() for a, b in zip(found, wanted)):
                raise SystemExit("wrong results")
            print(f"attention {'fused' if fused else 'plain':5}  {path:8} {ms:9.3f} ms", flush=True)


if __name__ == "__main__":
    main()
