#!/usr/bin/env python3
# SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
# SPDX-License-Identifier: Apache-2.0
"""What PyTorch's asynchronous checkpoints cost the steps of train_checkpoints (checkpoints.cpp). Run by hand:

    python3 bench/train/torch_checkpoint.py [FOLDER [SAVES]]

torch.distributed.checkpoint.async_save of the same 1.6 GB, with its default staging, and with a stager that
keeps page-locked memory and copies on a stream of its own.
"""
import os
import shutil
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp

TENSORS, ELEMENTS, WORK = 200, 571392, 450


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else "torch_checkpoint.tmp"
    saves = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29511")
    dist.init_process_group("cpu:gloo,cuda:nccl", rank=0, world_size=1)
    state = {}
    for i in range(TENSORS):
        state[f"p{i}"] = torch.full((ELEMENTS,), 0.01, device="cuda", dtype=torch.bfloat16)
        for name in ("master", "mean", "square"):
            state[f"{name}{i}"] = torch.zeros(ELEMENTS, device="cuda")
    gradient = torch.full((TENSORS * ELEMENTS,), 0.01, device="cuda", dtype=torch.bfloat16)
    floats = [t for k, t in state.items() if t.dtype == torch.float32]
    size = sum(t.numel() * t.element_size() for t in state.values())
    events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
    count = 0

    def step(before_update=lambda: None):
        nonlocal count
        for _ in range(WORK):
            torch.mul(gradient, 1.0, out=gradient)
        before_update()
        torch._foreach_mul_(floats, 1.0)
        events[count % 2].record()
        events[count % 2].synchronize()
        count += 1
        return events[1 - (count - 1) % 2].elapsed_time(events[(count - 1) % 2])

    def measure(name, save):
        plain, blocked, meanwhile, written = [], [], [], []
        for e in events:
            e.record()
        torch.cuda.synchronize()
        for _ in range(5):
            step()
        for i in range(saves + 1):
            plain += [step() for _ in range(10)]
            begin = time.monotonic()
            wait, done = save(f"{folder}/{i}")
            first = step(wait)
            others = []
            while not done():
                others.append(step())
            if i > 0:  # the first one allocates
                blocked.append(first)
                meanwhile += others
                written.append(time.monotonic() - begin)
            step()
            shutil.rmtree(folder, ignore_errors=True)
        usual = statistics.median(plain)
        slower = statistics.median(meanwhile) / usual - 1 if meanwhile else 0
        print(f"torch {torch.__version__},{name},none,{size:.4g},{usual:.2f},{statistics.median(blocked) - usual:.2f},"
              f"{max(blocked) - usual:.2f},,{slower:.4f},{statistics.median(written):.2f}", flush=True)

    def default(path):
        future = dcp.async_save(state, checkpoint_id=path)
        return (lambda: None), future.done

    try:
        from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions
        stager = DefaultStager(StagingOptions(use_pinned_memory=True, use_shared_memory=True, use_async_staging=True,
                                              use_non_blocking_copy=True))

        def staged(path):
            response = dcp.async_save(state, checkpoint_id=path, async_stager=stager)
            return response.staging_completion.result, response.upload_completion.done

        measure("async_save with DefaultStager (pinned; asynchronous)", staged)
    except Exception as error:  # another version of PyTorch
        print("# DefaultStager:", repr(error)[:300])
    measure("async_save", default)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
