# SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
# SPDX-License-Identifier: Apache-2.0
"""Trains the same small network twice, with PyTorch's own allocator and with warpwright's, and
compares the losses of every step: they must be the same, bit for bit.

    python3 train.py path/to/libwarpwright_torch.so [--steps 200]

Each run is a process of its own, for an allocator can be changed only before CUDA is used. The exit
status is 0 when the losses agree, 1 when they differ, 77 where there is no PyTorch or no GPU.
"""
import argparse
import ctypes
import json
import os
import subprocess
import sys


def address(library, name):
    return ctypes.cast(getattr(library, name), ctypes.c_void_p).value


def use_warpwright(torch, path):
    """Makes the library PyTorch's allocator; answers the library, for its figures."""
    allocator = torch.cuda.memory.CUDAPluggableAllocator(
        path, "warpwright_torch_alloc", "warpwright_torch_free")
    library = ctypes.CDLL(path)
    hooks = allocator.allocator()
    hooks.set_record_stream_fn(address(library, "warpwright_torch_record_stream"))
    hooks.set_reset_fn(address(library, "warpwright_torch_reset"))
    hooks.set_memory_fraction_fn(address(library, "warpwright_torch_memory_fraction"))
    torch.cuda.memory.change_current_allocator(allocator)
    return library


def train(torch, steps):
    """Answers the loss of every step, as exact text."""
    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True)
    network = torch.nn.Sequential(
        torch.nn.Conv2d(1, 16, 3), torch.nn.GELU(), torch.nn.Flatten(),
        torch.nn.Linear(16 * 14 * 14, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)).cuda()
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
    uploads = torch.cuda.Stream()
    generator = torch.Generator().manual_seed(2)
    losses = []
    for step in range(steps):
        # Batches of many sizes, as allocators dislike; made on one stream and used on another.
        size = 1 + (step * 37) % 200
        images = torch.randn(size, 1, 16, 16, generator=generator)
        labels = torch.randint(0, 10, (size,), generator=generator)
        with torch.cuda.stream(uploads):
            device_images = images.cuda(non_blocking=True)
            device_labels = labels.cuda(non_blocking=True)
        main = torch.cuda.current_stream()
        main.wait_stream(uploads)
        device_images.record_stream(main)
        device_labels.record_stream(main)
        loss = torch.nn.functional.cross_entropy(network(device_images), device_labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item().hex())
        del device_images, device_labels, loss
        if step == steps // 2:
            torch.cuda.empty_cache()
    return losses


def child(arguments):
    import torch
    library = None if arguments.child == "torch" else use_warpwright(torch, arguments.library)
    result = {"losses": train(torch, arguments.steps)}
    if library is not None:
        for name in ("allocations", "upstream_allocations", "reserved_peak_bytes"):
            figure = getattr(library, "warpwright_torch_" + name)
            figure.restype = ctypes.c_ulonglong
            result[name] = figure(torch.cuda.current_device())
    print(json.dumps(result))


def run(arguments, which):
    # What use_deterministic_algorithms() asks of cuBLAS.
    environment = dict(os.environ, CUBLAS_WORKSPACE_CONFIG=":4096:8")
    command = [sys.executable, os.path.abspath(__file__), arguments.library, "--steps",
               str(arguments.steps), "--child", which]
    answer = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE)
    return json.loads(answer.stdout.decode().strip().splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", type=os.path.abspath, help="libwarpwright_torch.so")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--child", choices=("torch", "warpwright"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments)
        return 0
    try:
        import torch
    except ImportError:
        print("no PyTorch here: nothing was compared")
        return 77
    if not torch.cuda.is_available():
        print("PyTorch sees no GPU: nothing was compared")
        return 77
    own = run(arguments, "torch")
    ours = run(arguments, "warpwright")
    different = [step for step, (a, b) in enumerate(zip(own["losses"], ours["losses"])) if a != b]
    print(f"PyTorch {torch.__version__}, {arguments.steps} steps, "
          f"last loss {float.fromhex(ours['losses'][-1]):.6f}")
    print(f"warpwright: {ours['allocations']} allocations, {ours['upstream_allocations']} calls of "
          f"cudaMalloc, at most {ours['reserved_peak_bytes'] / 2**20:.0f} MiB reserved")
    if different:
        step = different[0]
        print(f"losses differ from step {step}: {own['losses'][step]}, {ours['losses'][step]}")
        return 1
    print("the losses are the same, bit for bit")
    return 0


if __name__ == "__main__":
    sys.exit(main())
