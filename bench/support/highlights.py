# SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
# SPDX-License-Identifier: Apache-2.0
"""The page of highlights and its picture, which plot_results.py makes: what each part gains, and where it
gains nothing. A figure whose line is not in the results of a device is left out there.
"""
import html
import math
import os

import compact_results

POOL, REPLAY, TORCH = "memory_pool_bench", "memory_replay_bench", "memory_torch_replay"
GRAPH, CACHE = "graph_capture_bench", "graph_cache_bench"  # of graphs there are older names and those of later runs
STAGING, EVALUATE = "memory_staging_bench", "kernel_evaluate_bench"
REDUCE, ROWS, TENSORS, VIEWS = "kernel_reduce_bench", "kernel_rows_bench", "kernel_multi_tensor_bench", "kernel_views_bench"


class Highlight:
    """One measurement: of a part, what, the program, the name of our benchmark, and {peer: its name, or (program,
    name)}. The column is `median` (a time), `rate`, or one of the counters. A time of several threads is
    multiplied by their number, since Google Benchmark divides by it. `drawn`: its bar has this text."""

    def __init__(self, part, what, program, ours, peers, column="median", threads=1, drawn=None):
        self.part, self.what, self.program, self.ours, self.peers = part, what, program, ours, peers
        self.column, self.threads, self.drawn = column, threads, drawn


GAINS = (
    Highlight("[Memory pool](memory.md)", "an allocation of 1 MiB and its free, one thread", POOL,
              "memory_pool_pair/1048576/threads:1",
              {"cudaMallocAsync": "cuda_malloc_async_pair/1048576/threads:1",
               "RMM pool": "rmm_pair/pool/1048576/threads:1", "RMM arena": "rmm_pair/arena/1048576/threads:1",
               "cudaMalloc": "cuda_malloc_pair/1048576"}, drawn="pool: an allocation of 1 MiB and its free"),
    Highlight("[Memory pool](memory.md)", "the same in each of 16 threads, a stream each", POOL,
              "memory_pool_pair/1048576/threads:16",
              {"cudaMallocAsync": "cuda_malloc_async_pair/1048576/threads:16",
               "RMM pool": "rmm_pair/pool/1048576/threads:16", "RMM arena": "rmm_pair/arena/1048576/threads:16"},
              threads=16),
    Highlight("[Memory pool](memory.md)", "a call of a recorded training of GPT-2 with lengths that vary", REPLAY,
              "replay/gpt2_train_varlen/warpwright/idle",
              {"cudaMallocAsync": "replay/gpt2_train_varlen/cuda_malloc_async/idle",
               "RMM pool": "replay/gpt2_train_varlen/rmm_pool/idle",
               "PyTorch": (TORCH, "replay/gpt2_train_varlen/torch/idle")}),
    Highlight("[Memory pool](memory.md)", "memory reserved for it, over the peak of live memory", REPLAY,
              "replay/gpt2_train_varlen/warpwright/idle",
              {"cudaMallocAsync": "replay/gpt2_train_varlen/cuda_malloc_async/idle",
               "RMM pool": "replay/gpt2_train_varlen/rmm_pool/idle",
               "PyTorch": (TORCH, "replay/gpt2_train_varlen/torch/idle")}, "ratio"),
    Highlight("[Memory pool](memory.md)", "memory reserved for a recorded service with five streams, the same ratio",
              REPLAY, "replay/streams_infer/warpwright/idle",
              {"cudaMallocAsync": "replay/streams_infer/cuda_malloc_async/idle",
               "RMM pool": "replay/streams_infer/rmm_pool/idle",
               "PyTorch": (TORCH, "replay/streams_infer/torch/idle")}, "ratio",
              drawn="pool: memory reserved for a service, five streams"),
    Highlight("[Staging](streams.md)", "1 GiB of pageable memory to the device, 8 threads", STAGING,
              "staging_to_device/1073741824/8",
              {"cudaMemcpy": "cuda_memcpy_pageable_to_device/1073741824"}, "rate",
              drawn="staging: 1 GiB of pageable memory to the device"),
    Highlight("[Staging](streams.md)", "1 GiB from the device to pageable memory, 8 threads", STAGING,
              "staging_to_host/1073741824/8", {"cudaMemcpy": "cuda_memcpy_pageable_to_host/1073741824"}, "rate"),
    Highlight("[Staging](streams.md)", "1 GiB of pageable memory to the device, 8 threads", STAGING,
              "copy_to_device/staging/1073741824/8", {"cudaMemcpy": "copy_to_device/cuda_memcpy/1073741824/8"}, "rate",
              drawn="staging: 1 GiB of pageable memory to the device"),
    Highlight("[Staging](streams.md)", "1 GiB from the device to pageable memory, 8 threads", STAGING,
              "copy_to_host/staging/1073741824/8", {"cudaMemcpy": "copy_to_host/cuda_memcpy/1073741824/8"}, "rate"),
    Highlight("[Pinned pool](streams.md)", "a page-locked block of 1 MiB and its free", "memory_pinned_bench",
              "pinned_pool_pair/1048576/threads:1", {"cudaMallocHost": "cuda_malloc_host_pair/1048576"}),
    Highlight("[Stream pool](streams.md)", "a stream leased and given back", "stream_stream_pool_bench",
              "lease_and_give_back/threads:1", {"create and destroy": "raw_stream_create_destroy/threads:1"},
              drawn="stream pool: a lease"),
    Highlight("[Graphs](graphs.md)", "a step of 20 small kernels", GRAPH, "replayed_step/20",
              {"launched one by one": "eager_step/20"}, drawn="graph: a step of 20 small kernels"),
    Highlight("[Graphs](graphs.md)", "a step of 1,000 small kernels", GRAPH, "replayed_step/1000",
              {"launched one by one": "eager_step/1000"}),
    Highlight("[Graphs](graphs.md)", "a step of 20 small kernels", GRAPH, "replay/graph_replay/20",
              {"launched one by one": "replay/eager/20"}, drawn="graph: a step of 20 small kernels"),
    Highlight("[Graphs](graphs.md)", "a step of 1,000 small kernels", GRAPH, "replay/graph_replay/1000",
              {"launched one by one": "replay/eager/1000"}),
    Highlight("[Fused kernels](kernels.md)", "`gelu(x * w + b)` of 2<sup>16</sup> floats, 20 launches as a graph, "
              "each", EVALUATE, "gelu_in_a_graph_f32/warpwright_ew/65536/20",
              {"by hand": "gelu_in_a_graph_f32/sixteen_bytes_a_thread/65536/20",
               "cub::DeviceTransform": "gelu_in_a_graph_f32/cub_device_transform/65536/20"},
              drawn="fused: gelu(x * w + b), 65,536 floats, in a graph"),
    Highlight("[Reductions](kernels.md)", "sum of squares, largest and count of not finite, 2<sup>28</sup> floats",
              REDUCE, "health_f32/warpwright_ew/268435456/1",
              {"three of cub::DeviceReduce": "health_f32/cub_device_reduce/268435456/1"},
              drawn="reductions: three in one pass"),
    Highlight("[Reductions](kernels.md)", "sum of squares of 2<sup>16</sup> floats, back to back", REDUCE,
              "squares_f32/warpwright_ew/65536/20", {"cub::DeviceReduce": "squares_f32/cub_device_reduce/65536/20"}),
    Highlight("[Rows](kernels.md)", "top 50 of 8 rows of 128,000 floats", "kernel_top_k_bench_cccl",
              "top_k_f32/warpwright_ew/8/128000/50", {"CUB 3.6, batched": "top_k_f32/cub_top_k/8/128000/50"}),
    Highlight("[Rows](kernels.md)", "gradients of a layer norm, 8,192 rows of 768 floats", "kernel_training_bench",
              "layer_norm_backward_f32/warpwright_ew/8192/768",
              {"two plain kernels": "layer_norm_backward_f32/hand_written/8192/768"}),
    Highlight("[Rows](kernels.md)", "a matrix of 5,632 x 2,048 floats times a vector", "kernel_matvec_bench",
              "matvec_f32/warpwright_ew/5632/2048", {"cuBLAS": "matvec_f32/cublas/5632/2048",
                                                    "a plain kernel": "matvec_f32/hand_written/5632/2048"}),
    Highlight("[Rows](kernels.md)", "softmax of 1,024 rows of 50,257 floats", ROWS,
              "softmax_f32/warpwright_ew/1024/50257", {"a plain kernel": "softmax_f32/plain_kernel/1024/50257"},
              drawn="rows: softmax of 1,024 x 50,257"),
    Highlight("[Many tensors](kernels.md)", "a step of Adam over 200 tensors, 1,000,000 elements", TENSORS,
              "adam_f32/warpwright_ew/1000000/1", {"one launch a tensor": "adam_f32/one_launch_a_tensor/1000000/1"},
              drawn="many tensors: Adam over 200 of them"),
    Highlight("[Views](kernels.md)", "8,192 x 8,192 bytes transposed", VIEWS, "transpose_u8/warpwright_ew/67108864",
              {"by hand, tiles": "transpose_u8/by_hand/67108864"}, drawn="views: bytes transposed"),
    Highlight("[Occupancy](occupancy.md)", "the occupancy of a kernel whose resources are known",
              "occupancy_occupancy_bench", "occupancy", {"the runtime's query": "raw_runtime_query",
                                                         "cuda_occupancy.h": "cuda_occupancy_header"}),
)

LIMITS = (
    Highlight("[Fused kernels](kernels.md)", "`gelu(x * w + b)` of 2<sup>28</sup> floats: memory decides", EVALUATE,
              "gelu_f32/warpwright_ew/268435456/1",
              {"by hand": "gelu_f32/sixteen_bytes_a_thread/268435456/1",
               "cub::DeviceTransform": "gelu_f32/cub_device_transform/268435456/1"}),
    Highlight("[Reductions](kernels.md)", "sum of squares of 2<sup>28</sup> floats", REDUCE,
              "squares_f32/warpwright_ew/268435456/1", {"cub::DeviceReduce": "squares_f32/cub_device_reduce/268435456/1"}),
    Highlight("[Many tensors](kernels.md)", "the norm of 200 tensors of 1,000,000 elements together, if they were one "
              "array", TENSORS, "norm_f32/warpwright_ew/1000000/1",
              {"`reduce` of one array": "norm_f32/reduce_of_one_array/1000000/1"}),
    Highlight("[Views](kernels.md)", "three of four channels of floats written", VIEWS,
              "into_pixels_f32/warpwright_ew/50331648", {"by hand": "into_pixels_f32/by_hand/50331648"}),
    Highlight("[Memory pool](memory.md)", "a freed block to another busy stream, under a limit", POOL,
              "handover/limited/warpwright/busy",
              {"cudaMallocAsync": "handover/limited/cuda_malloc_async/busy", "RMM pool": "handover/limited/rmm_pool/busy"}),
    Highlight("[Memory pool](memory.md)", "a call of a recorded service with five streams", REPLAY,
              "replay/streams_infer/warpwright/idle",
              {"cudaMallocAsync": "replay/streams_infer/cuda_malloc_async/idle",
               "RMM pool": "replay/streams_infer/rmm_pool/idle",
               "PyTorch": (TORCH, "replay/streams_infer/torch/idle")}),
    Highlight("[Memory pool](memory.md)", "a call of the first pass of the training of GPT-2, in which it grows", REPLAY,
              "replay/gpt2_train_varlen/warpwright/idle",
              {"cudaMallocAsync": "replay/gpt2_train_varlen/cuda_malloc_async/idle",
               "RMM pool": "replay/gpt2_train_varlen/rmm_pool/idle",
               "PyTorch": (TORCH, "replay/gpt2_train_varlen/torch/idle")}, "cold_ns"),
    Highlight("[Staging](streams.md)", "1 MiB of pageable memory to the device", STAGING, "staging_to_device/1048576/8",
              {"cudaMemcpy": "cuda_memcpy_pageable_to_device/1048576"}, "rate"),
    Highlight("[Staging](streams.md)", "16 MiB of pageable memory to the device", STAGING,
              "staging_to_device/16777216/8", {"cudaMemcpy": "cuda_memcpy_pageable_to_device/16777216"}, "rate"),
    Highlight("[Staging](streams.md)", "1 MiB of pageable memory to the device", STAGING,
              "copy_to_device/staging/1048576/8", {"cudaMemcpy": "copy_to_device/cuda_memcpy/1048576/8"}, "rate"),
    Highlight("[Staging](streams.md)", "16 MiB of pageable memory to the device", STAGING,
              "copy_to_device/staging/16777216/8", {"cudaMemcpy": "copy_to_device/cuda_memcpy/16777216/8"}, "rate"),
    Highlight("[Graphs](graphs.md)", "a replay of 20 kernels", GRAPH, "replayed_step/20",
              {"`cudaGraphLaunch` by hand": "raw_replayed_step/20"}),
    Highlight("[Graphs](graphs.md)", "the capture of 20 kernels", GRAPH, "capture_only/20",
              {"by hand": "raw_capture_only/20"}),
    Highlight("[Graphs](graphs.md)", "a replay of 20 kernels", GRAPH, "replay/graph_replay/20",
              {"`cudaGraphLaunch` by hand": "replay/raw_graph/20"}),
    Highlight("[Graphs](graphs.md)", "the host's time of a replay through a cache", CACHE, "hit/graph_cache/1",
              {"`cudaGraphLaunch` by hand": "hit/bare_launch/1"}),
)

HEAD = """# Measured results

<!-- Made by ./run plots from bench/results; a change by hand is lost. -->

What each part gained over the plain way or another library, where it was measured, and where it gains nothing. All
sizes, types and peers: [measured_tables.md](measured_tables.md) for kernels,
[measured_memory.md](measured_memory.md) for memory on recorded traces. Each figure is the median in a file of
[bench/results](../bench/results/README.md), with command, commit, driver and date. In brackets: how many times as fast
as the other, or as little memory, warpwright is; below 1 it is slower, or takes more.
"""

GAIN_TEXT = ("Peers of one line ran in one program, except PyTorch's allocator, which ran in its own on the same kind of "
             "machine.\nTimes are for one of what the line names.")


# --- Figures ------------------------------------------------------------------------------------


class Figures:
    """The lines of all programs of a device."""

    def __init__(self, folder):
        self.folder, self.programs = folder, {}

    def row(self, program, name):
        if program not in self.programs:
            path = os.path.join(self.folder, program + ".csv")
            rows = compact_results.read(path)[1] if os.path.exists(path) else []
            self.programs[program] = {row["name"]: row for row in rows}
        return self.programs[program].get(name)

    def value(self, highlight, place):
        """A time in ns, a rate in GB/s, or a counter; None where it was not measured."""
        program, name = place if isinstance(place, tuple) else (highlight.program, place)
        row = self.row(program, name)
        if row is None or not row["median"]:
            return None
        if highlight.column == "median":
            return float(row["median"]) * {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}[row["unit"]] * highlight.threads
        if highlight.column == "rate":
            return float(row["rate"]) if row["rate_unit"] == "GB/s" else None
        counters = dict(word.split("=", 1) for word in row["counters"].split() if "=" in word)
        return float(counters[highlight.column]) if highlight.column in counters else None


def three_digits(x):
    return f"{x:.{max(0, 2 - math.floor(math.log10(x)))}f}" if x < 1000 else f"{float(f'{x:.3g}'):,.0f}"


def text_of(value, column):
    if column == "rate":
        return three_digits(value) + " GB/s"
    if column == "ratio":
        return f"{value:.2f}"
    for unit, size in (("ms", 1e6), ("us", 1e3)):
        if value >= size:
            return f"{three_digits(value / size)} {unit}"
    return three_digits(value) + " ns"


def gain_text(gain):
    return three_digits(gain) + " x"


def measured(figures, highlights):
    """(highlight, our value, [(peer, its value, gain)]) of those that were measured."""
    for h in highlights:
        ours = figures.value(h, h.ours)
        there = [(peer, figures.value(h, place)) for peer, place in h.peers.items()]
        there = [(peer, value) for peer, value in there if value is not None]
        if ours and there:
            yield h, ours, [(peer, value, ours / value if h.column == "rate" else value / ours) for peer, value in there]


# --- The picture --------------------------------------------------------------------------------

WIDTH, LEFT, RIGHT, TOP, ROW = 960, 330, 330, 46, 30
CSS = ("text{font:12px system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;fill:#1f2328}"
       ".t{font-weight:600;font-size:14px}.a{fill:#59636e}.n{font-weight:600}.b{fill:#fff}.g{stroke:#d1d9e0}"
       ".o{fill:#0b57d0}@media(prefers-color-scheme:dark){text{fill:#e6edf3}.a{fill:#9198a1}.b{fill:#0d1117}"
       ".g{stroke:#30363d}.o{fill:#6ea8fe}}")


def picture(device, bars):
    """Bars of the gains, on a logarithmic axis from 1. Bars: (text, our value, peer, its value, gain, column)."""
    high = max(10, max(bar[4] for bar in bars))
    width = WIDTH - LEFT - RIGHT
    height = TOP + ROW * len(bars) + 34

    def across(gain):
        return LEFT + width * math.log(max(gain, 1)) / math.log(high)

    label = html.escape(f"What parts of warpwright gain on an {device}")
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
           f'viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}">', f"<title>{label}</title>",
           f"<style>{CSS}</style>", f'<rect class="b" width="{WIDTH}" height="{height}"/>',
           f'<text class="t" x="16" y="26">{label}: times as fast, or as little memory</text>']
    bottom = TOP + ROW * len(bars)
    for tick in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000):
        if tick <= high:
            x = across(tick)
            out.append(f'<path class="g" d="M{x:.1f} {TOP}V{bottom + 4}"/>'
                       f'<text class="a" x="{x:.1f}" y="{bottom + 20}" text-anchor="middle">{tick} x</text>')
    for k, (text, ours, peer, theirs, gain, column) in enumerate(bars):
        y = TOP + ROW * k
        end = across(gain)
        out.append(f'<text x="{LEFT - 12}" y="{y + 20}" text-anchor="end">{html.escape(text)}</text>'
                   f'<rect class="o" x="{LEFT}" y="{y + 7}" width="{end - LEFT:.1f}" height="17" rx="2"/>'
                   f'<text x="{end + 8:.1f}" y="{y + 20}"><tspan class="n">{gain_text(gain)}</tspan>'
                   f'<tspan class="a" dx="7">{text_of(ours, column)}, not {text_of(theirs, column)} '
                   f'({html.escape(peer)})</tspan></text>')
    return "\n".join(out) + "\n</svg>\n"


# --- The page -----------------------------------------------------------------------------------


def table(figures, highlights, path):
    lines = ["| part | measured | warpwright | others, and the gain | result |", "|---|---|---:|---|---|"]
    for h, ours, peers in measured(figures, highlights):
        others = "; ".join(f"{peer} {text_of(value, h.column)} ({gain_text(gain)})" for peer, value, gain in peers)
        lines.append(f"| {h.part} | {h.what} | {text_of(ours, h.column)} | {others} | "
                     f"[{h.program}]({path}/{h.program}.csv) |")
    return "\n".join(lines) + "\n" if len(lines) > 2 else ""


def tunes(figures, path):
    """What whole tunes took, and what their choice was worth."""
    lines = []
    for name in ("perceptron", "transformer_block", "elementwise_pipeline"):
        row = figures.row("tune_batch_tuner_bench", f"full_tune/{name}")
        if row and row["median"]:
            counters = dict(word.split("=", 1) for word in row["counters"].split())
            lines.append(f"| {name.replace('_', ' ')} | {float(row['median']) / 1e3:.2f} s | "
                         f"{counters['sizes_run']} | {100 * float(counters['share_of_sweep_time']):.1f} % | "
                         f"{100 * float(counters['share_of_best']):.1f} % |")
    if not lines:
        return ""
    return (f"### The batch tuner\n\nWhole tunes beside a sweep over all sizes in steps of 5 %, with 0.25 s for each size: "
            f"[tune_batch_tuner_bench]({path}/tune_batch_tuner_bench.csv), [tuner.md](tuner.md#figures).\n\n"
            "| workload | tune | sizes run | of the sweep's time | of the best throughput |\n|---|---:|---:|---:|---:|\n"
            + "\n".join(lines) + "\n")


def make(results, devices, page):
    """{path: text} of the page and its pictures. Devices: {folder in results: name}."""
    to_results = os.path.relpath(results, os.path.dirname(page)).replace(os.sep, "/")
    folder = os.path.splitext(page)[0]
    text, files = [HEAD], {}
    for slug, device in sorted(devices.items()):
        figures = Figures(os.path.join(results, slug))
        path = f"{to_results}/{slug}"
        bars = [(h.drawn, ours, *peers[0], h.column) for h, ours, peers in measured(figures, GAINS) if h.drawn]
        parts = [f"## {device}\n"]
        if bars:
            name = f"{slug}-highlights.svg"
            files[os.path.join(folder, name)] = picture(device, bars)
            parts.append(f"![Bars: what each part gains over the plain way or another library]"
                         f"({os.path.basename(folder)}/{name})\n")
        gains, limits = table(figures, GAINS, path), table(figures, LIMITS, path)
        if gains:
            parts.append(f"### What each part gains\n\n{GAIN_TEXT}\n\n{gains}")
        parts += filter(None, [tunes(figures, path)])
        if limits:
            parts.append(f"### Where it gains little, or loses\n\n{limits}")
        text += parts
    files[page] = "\n".join(text)
    return files
