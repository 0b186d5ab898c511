#!/usr/bin/env python3
# SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
# SPDX-License-Identifier: Apache-2.0
"""Times PyTorch's Adam and norms over the tensors of multi_tensor_bench, by CUDA events. Run by hand:

    python3 bench/kernel/torch_adam.py [elements]    (100000000)

Prints median, p10 and p90 of a step in microseconds, and GB/s of the median: of Adam at 28 bytes an
element (parameters and two moments read and written, gradients read), of the norms at 4. Norms are of
each tensor (_foreach_norm), in the 2-norm and the max-norm, and of all together, and are compared with
those in double first. Every step is one that the optimizer
takes between two events; a launch alone is not separated from what Python does before it, so the
figure of a captured step, which replays as a CUDA graph, stands beside it.
"""
import sys

import torch


def sizes_of(n):
    """As sizes_of() of multi_tensor_bench.cpp."""
    sizes = [n * 3 // 10]
    sizes += [n * 3 // 1000 + k for k in range(60)]
    sizes += [n // 100000 + k for k in range(100)]
    sizes += [1] * 10
    rest = n - sum(sizes)
    for k in range(29, 0, -1):
        sizes.append(rest // k)
        rest -= sizes[-1]
    return sizes


def microseconds(step, iterations=60):
    for _ in range(5):
        step()
    torch.cuda.synchronize()
    samples = []
    for _ in range(iterations):
        start = torch.cuda.Event(enable_timing=True)
        stop = torch.cuda.Event(enable_timing=True)
        start.record()
        step()
        stop.record()
        stop.synchronize()
        samples.append(1e3 * start.elapsed_time(stop))
    return sorted(samples)


def report(name, moved_bytes, samples):
    median = samples[len(samples) // 2]
    p10 = samples[len(samples) // 10]
    p90 = samples[len(samples) * 9 // 10]
    print(f"{name:24} {median:10.1f} {p10:10.1f} {p90:10.1f} {moved_bytes / median * 1e-3:8.0f}")


def captured(step):
    """The step as a graph; None where the optimizer cannot be captured."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def report_norms(n, sizes):
    gradients = [torch.rand(size, device="cuda") - 0.5 for size in sizes]

    def total():
        return torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))

    for name, order in (("norm_each", 2), ("max_norm_each", float("inf"))):
        def each():
            return torch._foreach_norm(gradients, order)

        for norm, g in zip(each(), gradients):
            exact = float(torch.linalg.vector_norm(g, order, dtype=torch.float64))
            if not abs(float(norm) - exact) <= 1e-5 * exact:
                sys.exit(f"{name}: a wrong norm")
        report(name, 4 * n, microseconds(each))
        report(f"{name}_captured", 4 * n, microseconds(captured(each)))
    exact = sum(float(torch.linalg.vector_norm(g, dtype=torch.float64)) ** 2 for g in gradients) ** 0.5
    if not abs(float(total()) - exact) <= 1e-5 * exact:
        sys.exit("norm: wrong")
    report("norm", 4 * n, microseconds(total))
    report("norm_captured", 4 * n, microseconds(captured(total)))


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000_000
    sizes = sizes_of(n)
    assert sum(sizes) == n and len(sizes) == 200
    print(f"PyTorch {torch.__version__}, CUDA {torch.version.cuda}, "
          f"{torch.cuda.get_device_name()}; {len(sizes)} tensors, {n} elements")
    print(f"{'':24} {'median_us':>10} {'p10_us':>10} {'p90_us':>10} {'GB/s':>8}")
    for name, options in (("fused", {"fused": True}), ("foreach", {"foreach": True})):
        for capturable in (False, True):
            parameters = [torch.nn.Parameter(torch.rand(size, device="cuda") - 0.5)
                          for size in sizes]
            for p in parameters:
                p.grad = torch.rand_like(p) - 0.5
            before = parameters[0].detach().clone()
            optimizer = torch.optim.Adam(parameters, lr=1e-4, capturable=capturable, **options)
            if capturable:
                report(f"adam_{name}_captured", 28 * n, microseconds(captured(optimizer.step)))
            else:
                report(f"adam_{name}", 28 * n, microseconds(optimizer.step))
            if torch.equal(before, parameters[0]):
                sys.exit("the parameters did not change")
            del parameters, optimizer, before
            torch.cuda.empty_cache()
    source = torch.empty(28 * n // 8, device="cuda")  # copied, that is as many bytes as a step
    target = torch.empty_like(source)
    report("copy_of_same_traffic", 28 * n, microseconds(lambda: target.copy_(source)))
    del source, target
    report_norms(n, sizes)


if __name__ == "__main__":
    main()
