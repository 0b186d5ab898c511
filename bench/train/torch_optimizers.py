#!/usr/bin/env python3
# SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
# SPDX-License-Identifier: Apache-2.0
"""Times PyTorch's step over the tensors of optimizers_bench, by CUDA events. Run by hand:

    python3 bench/train/torch_optimizers.py [elements]    (100000000)

The step: GradScaler.unscale_, clip_grad_norm_, the fused AdamW, GradScaler.update, and the copy of the
float parameters to bfloat16 ones. Without a scaler it is also captured: GradScaler.step asks the host.
"""
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "kernel"))
from torch_adam import captured, microseconds, report, sizes_of  # noqa: E402


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 100000000
    sizes = sizes_of(n)
    print(torch.__version__, torch.cuda.get_device_name())
    parameters = [torch.nn.Parameter(torch.rand(size, device="cuda")) for size in sizes]
    copies = [torch.empty(size, device="cuda", dtype=torch.bfloat16) for size in sizes]
    for p in parameters:
        p.grad = torch.rand_like(p) - 0.5
    optimizer = torch.optim.AdamW(parameters, weight_decay=0.1, fused=True, capturable=True)
    scaler = torch.amp.GradScaler("cuda", init_scale=1.0, growth_interval=10**9)
    scaler.scale(torch.zeros(1, device="cuda"))

    def copy():
        torch._foreach_copy_(copies, parameters)

    def step():
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        scaler.step(optimizer)
        scaler.update()
        copy()

    def plain():
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        copy()

    with torch.no_grad():
        report("scaler_clip_adamw_copy", 30 * n, microseconds(step))
        report("clip_adamw_copy", 30 * n, microseconds(plain))
        report("clip_adamw_copy_captured", 30 * n, microseconds(captured(plain)))


if __name__ == "__main__":
    main()
