# SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
# SPDX-License-Identifier: Apache-2.0
"""The steps of bench/scale/gpt2_step.cpp under PyTorch's DistributedDataParallel: the same matrix products in the
backward pass, without communication and with several sizes of buckets, with and without gradients as views of them.

    torchrun --nproc-per-node N bench/scale/torch_ddp.py [TOKENS]
"""
import os
import sys

import torch
import torch.distributed as dist

rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
tokens = int(sys.argv[1]) if len(sys.argv) > 1 else 8192
torch.cuda.set_device(rank)
device = torch.device("cuda", rank)
dist.init_process_group("nccl", device_id=device)

W = 768
block = [(0, W), (0, W), (W, 3 * W), (0, 3 * W), (W, W), (0, W), (0, W), (0, W), (W, 4 * W), (0, 4 * W), (4 * W, W), (0, W)]
shapes = [(50257, W), (1024, W)] + block * 12 + [(0, W), (0, W)]
left = torch.zeros(tokens * 50257, device=device, dtype=torch.bfloat16)
right = torch.zeros(tokens * 50257, device=device, dtype=torch.bfloat16)


class Layer(torch.autograd.Function):
    @staticmethod
    def forward(context, chain, weight, index):
        context.index = index
        context.save_for_backward(weight)
        return chain.clone()

    @staticmethod
    def backward(context, chain):
        (weight,) = context.saved_tensors
        n_in, n_out = shapes[context.index]
        if n_in == 0 or context.index == 1:
            return chain, torch.zeros_like(weight), None
        x = left[: tokens * n_in].view(tokens, n_in)
        y = right[: tokens * n_out].view(tokens, n_out)
        torch.mm(y, weight.t(), out=x)
        return chain, torch.mm(x.t(), y), None


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weights = torch.nn.ParameterList(
            torch.nn.Parameter(torch.zeros(s if s[0] else s[1:], device=device, dtype=torch.bfloat16)) for s in shapes)

    def forward(self, chain):
        for i, weight in enumerate(self.weights):
            chain = Layer.apply(chain, weight, i)
        return chain


def steps_us(model, communicates):
    start = torch.zeros(1, device=device, requires_grad=True)

    def step():
        model(start).backward()

    def run(n):
        ends = [torch.cuda.Event(enable_timing=True) for _ in range(n + 1)]
        for end in ends:
            step()
            end.record()
        torch.cuda.synchronize()
        return sorted(a.elapsed_time(b) * 1e3 for a, b in zip(ends, ends[1:]))[n // 2]

    def measure():
        run(10)
        dist.barrier()
        return run(40)

    if communicates:
        us = measure()
    else:
        with model.no_sync():
            us = measure()
    most = torch.tensor([us], device=device)
    dist.all_reduce(most, op=dist.ReduceOp.MAX)
    return most.item()


def say(text):
    if rank == 0:
        print(text, flush=True)


say(f"# torch {torch.__version__}, NCCL {'.'.join(map(str, torch.cuda.nccl.version()))}, {ranks} ranks, {tokens} tokens")
say("step,us,times the first")
network = Network()
ddp = torch.nn.parallel.DistributedDataParallel
alone = steps_us(ddp(network, device_ids=[rank]), False)
say(f"no communication,{alone:.0f},1")
for views in (False, True):
    for cap in (None, 1, 10, 25, 50, 100, 250):
        network.zero_grad(set_to_none=True)
        size = {} if cap is None else {"bucket_cap_mb": cap}
        us = steps_us(ddp(network, device_ids=[rank], gradient_as_bucket_view=views, **size), True)
        say(f"{'default' if cap is None else f'{cap} MB'}{' views' if views else ''},{us:.0f},{us / alone:.3f}")
dist.destroy_process_group()
