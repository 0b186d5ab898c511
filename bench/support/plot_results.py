#!/usr/bin/env python3
# SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
# SPDX-License-Identifier: Apache-2.0
"""Makes docs/measured.md, docs/measured_tables.md and their plots, docs/measured/*.svg, from bench/results.

    python3 bench/support/plot_results.py            # or ./run plots: write them
    python3 bench/support/plot_results.py --check    # fail if a file differs from what it would write

measured.md is a page of highlights, of the programs that highlights.py names; measured_tables.md has all
kernels. Reads every <device>/kernel_*.csv of bench/results, as compact_results.py writes them, except those of
the host runtime. A benchmark is called <operation>_<type>/<peer>/<n>/<launches>; launches may be missing, and
so may n; further sizes may stand before it (rows, columns). Those of <device>/graph_*.csv count no bytes, are
called <operation>/<peer>/<kernels>, and become tables of times. Where several programs measured an operation
(the same with another CCCL, PyTorch), the one with the shortest name that has our path is shown, and the
others add the peers that it lacks. Needs nothing but Python 3.
"""
import argparse
import html
import math
import os
import re
import statistics
import sys

import compact_results
import highlights

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OURS = "warpwright"
COPY = "copy_of_same_traffic"
REFERENCES = (COPY, "read_4_a_thread", "read_8_a_thread", "whole_sum")  # these do not do the work
LAUNCHES = (1, 20)  # a last number that is one of these says how many launches were timed together

# What a peer is called, its colour on white and on black, dashes, marker. One that is not here gets
# its name and one of SPARE.
MAIN = ("warpwright", "#0b57d0", "#6ea8fe", "", "disc")
PEERS = {
    "warpwright_ew": MAIN,
    "warpwright_rows": MAIN,
    "warpwright_multi_tensor": MAIN,
    "warpwright_ew_all_off_by_one":
        ("warpwright, all arrays misaligned", "#0e7490", "#22d3ee", "5 3", "ring"),
    "warpwright_ew_x_off_by_one":
        ("warpwright, one array misaligned", "#6d28d9", "#c4b5fd", "5 3", "ring"),
    "warpwright_ew_compensated": ("warpwright, compensated", "#0e7490", "#22d3ee", "5 3", "ring"),
    "warpwright_ew_in_double": ("warpwright, in double", "#6d28d9", "#c4b5fd", "5 3", "ring"),
    "sixteen_bytes_a_thread": ("by hand, 16 bytes a thread", "#15803d", "#4ade80", "", "square"),
    "one_element_a_thread": ("by hand, one element a thread", "#64748b", "#94a3b8", "", "square"),
    "cub_device_transform":
        ("cub::DeviceTransform of the toolkit", "#c2410c", "#fb923c", "", "triangle"),
    "cub_device_reduce": ("cub::DeviceReduce of the toolkit", "#c2410c", "#fb923c", "", "triangle"),
    "cub_device_transform_cccl":
        ("cub::DeviceTransform of newer CCCL", "#a16207", "#facc15", "", "triangle"),
    "cub_device_reduce_cccl":
        ("cub::DeviceReduce of newer CCCL", "#a16207", "#facc15", "", "triangle"),
    "thrust_transform": ("thrust::transform of the toolkit", "#be123c", "#fb7185", "", "triangle"),
    "thrust_transform_cccl": ("thrust::transform of newer CCCL", "#7f1d1d", "#fecaca", "", "triangle"),
    "torch_eager": ("PyTorch, eager", "#a21caf", "#e879f9", "", "diamond"),
    "quack": ("QuACK", "#c2410c", "#fb923c", "", "triangle"),
    "torch_compile": ("PyTorch, torch.compile", "#0f766e", "#2dd4bf", "", "diamond"),
    "curand_four_a_thread": ("by hand with cuRAND, 4 a thread", "#b91c1c", "#f87171", "", "square"),
    "by_hand": ("by hand", "#64748b", "#94a3b8", "", "square"),
    "eight_pixels": ("by hand, eight pixels a thread", "#15803d", "#4ade80", "", "square"),
    "read_4_a_thread": ("a read, 64 bytes a thread", "#57606a", "#b1bac4", "2 3", "none"),
    "read_8_a_thread": ("a read, 128 bytes a thread", "#24292f", "#e6edf3", "2 3", "none"),
    "whole_sum": ("a read: the sum of all elements", "#24292f", "#e6edf3", "2 3", "none"),
    COPY: ("copy of the same traffic", "#24292f", "#e6edf3", "2 3", "none"),
}
SPARE = (("#9d174d", "#f9a8d4"), ("#3f6212", "#bef264"), ("#78350f", "#fcd34d"),
         ("#1e3a8a", "#93c5fd"), ("#581c87", "#d8b4fe"), ("#134e4a", "#5eead4"))

# What an operation computes; "" in the table of one that is not here.
OPERATIONS = {
    "triad": "`o = a * x + y`",
    "triad_odd": "`o = a * x + y` of an odd number of elements",
    "triad_in_a_graph": "`o = a * x + y`, 20 launches as one graph",
    "gelu": "`o = gelu(x * w + b)`, of three arrays",
    "gelu_in_a_graph": "`o = gelu(x * w + b)`, 20 launches as one graph",
    "rotation": "`p, o = 0.8 x - 0.6 y, 0.6 x + 0.8 y`: two inputs, two outputs",
    "silu_twice": "`o = x * sigmoid(x)`, `x` named twice",
    "gelu_row_bias": "`o = gelu(x / 2 + bias[column])`, rows of 1,024",
    "gelu_column_bias": "`o = gelu(x / 2 + bias[row])`, rows of 1,024",
    "uniform": "`o = uniform`, 20 launches back to back",
    "normal": "`o = normal`, 20 launches back to back",
    "dropout": "`o = dropout(x, 0.1)`, 20 launches back to back",
    "scale": "`o = x / 0.9`, what dropout is without random numbers; 20 launches back to back",
    "rounded": "`o = stochastic_round(x)`, 20 launches back to back",
    "cast": "`o = x / 2`, rounded to nearest; 20 launches back to back",
    "quantised": "`o = x / 2`, to fp8 and from it; 20 launches back to back",
    "squares": "sum of `x * x`",
    "dot": "sum of `x * y`",
    "argmax": "the largest value and its index",
    "transpose": "8,192 x 8,192, transposed",
    "transpose_odd": "8,190 x 8,190, transposed: rows that suit no vectors",
    "transpose_8191": "8,191 x 8,191, transposed: rows that start anywhere",
    "transpose_1000": "1,000 x 30,000, transposed: rows of 16 bits suit vectors, but no sectors",
    "into_pixels_of_planes": "four planes of 8,000,000 to pixels",
    "nchw_to_nhwc": "32 x 64 x 112 x 112, channels to the end",
    "planes": "64 pictures of 512 x 512 x 3 to planes, scaled and shifted",
    "planes_u8": "64 pictures of 512 x 512 x 3 bytes to planes, scaled and shifted",
    "planes_odd": "64 pictures of 511 x 513 x 3 to planes, scaled and shifted: vectors do not fit",
    "planes_odd_u8": "64 pictures of 511 x 513 x 3 bytes to planes, scaled and shifted: vectors do not fit",
    "slice": "every second column of 8,192 x 16,384; what is skipped is read, too, and not counted",
    "rows": "8,192 rows of 8,192 at a pitch of 8,256, read",
    "into_rows": "the same, written",
    "into_odd_rows": "8,192 rows of 8,191 at a pitch of 8,193, written",
    "into_pixels": "the first three of four channels, 64 pictures of 512 x 512, written",
    "health": "sum of `x * x`, largest `|x|` and how many are not finite: one pass of ours, three of CUB",
}

# What the times of graphs are of; programs of bench/graph, in the order of the page.
TIMES = {
    "replay": "A row of short kernels, from the call until the host sees the stream idle",
    "cached_replay": "The same through a `graph_cache`, whose key and bindings are compared",
    "hit": "Host time of a replay, 100 in a row",
    "alternating_hit": "The same with two pointers in turn, each with an executable graph",
    "behind_cache": "Host time of a step that does nothing and that the cache runs eagerly, 100 in a row",
    "capture": "Host time of a capture, and of destroying the graph",
    "pointer": "Host time of another pointer in all kernels, without the launch",
    "moved": "Host time of a step whose pointer is another one: captured, updated and launched",
}

TYPES = ("f64", "f32", "f16", "bf16")  # these come first, in this order
TYPE = r"(?:f64|f32|f16|bf16|e4m3|e5m2|bool|c32|[iu](?:8|16|32|64))"
NAME = re.compile(rf"^(.+?)_({TYPE}(?:_to_{TYPE})?)$")
FILE = re.compile(r"^(kernel_\w+)\.csv$")
FILE_OF_TIMES = re.compile(r"^(graph_\w+)\.csv$")
HOST_RUNTIME = "host-runtime"  # the folder whose results say nothing of a GPU


# --- Reading ------------------------------------------------------------------------------------


class Run:
    """One file: where it came from, and {(operation, type): {launches: {peer: {shape: (GB/s, us)}}}}."""

    def __init__(self, slug, file, context, rows):
        self.slug, self.file, self.program = slug, file, FILE.match(file).group(1)
        self.device = context.get("device", slug)
        self.date = context.get("date", "not recorded")
        self.driver = context.get("driver", "not recorded")
        self.cuda = cuda_version(context.get("runtime_cuda_version", ""))
        self.commit = context.get("warpwright_commit", "not recorded")
        self.versions = {k[8:]: v for k, v in sorted(context.items()) if k.startswith("version_")}
        self.operations = {}
        self.failed = []
        for row in rows:
            if not row["median"]:
                self.failed.append((row["name"], row["counters"]))
                continue
            where, point = parse_name(row["name"]), speed(row)
            if where and point:
                operation, type_, peer, shape, launches = where
                modes = self.operations.setdefault((operation, type_), {})
                modes.setdefault(launches, {}).setdefault(peer, {})[shape] = point


def cuda_version(number):
    return f"{int(number) // 1000}.{int(number) % 1000 // 10}" if number.isdigit() else "not recorded"


def parse_name(name):
    """(operation, type, peer, shape, launches or None), or None of what is not called that. The shape is
    empty where the operation has but one size."""
    parts = name.split("/")
    numbers = []
    for part in parts[2:]:
        key, _, value = part.rpartition(":")
        if value.isdigit() and key not in ("iterations", "repeats", "threads", "min_time"):
            numbers.append(int(value))
    launches = numbers.pop() if len(numbers) > 1 and numbers[-1] in LAUNCHES else None
    typed = NAME.match(parts[0])
    if len(parts) < (2 if typed else 3):
        return None
    operation, type_ = typed.groups() if typed else (parts[0], "")
    return operation, type_.replace("_to_", " to "), parts[1], tuple(numbers), launches


def speed(row):
    """(GB/s, us of a launch) of one benchmark, or None where it counts no bytes."""
    return (float(row["rate"]), microseconds(row)) if row["rate_unit"] == "GB/s" else None


def microseconds(row):
    return float(row["median"]) * {"ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6}[row["unit"]]


def read_runs(results):
    runs = []
    for slug in sorted(os.listdir(results)):
        folder = os.path.join(results, slug)
        if slug == HOST_RUNTIME or not os.path.isdir(folder):
            continue
        for file in filter(FILE.match, sorted(os.listdir(folder))):
            context, rows = compact_results.read(os.path.join(folder, file))
            if not context.get("runtime", "cuda").startswith("host"):
                runs.append(Run(slug, file, context, rows))
    return runs


def read_times(results):
    """{slug: {operation: (file, context, {peer: {kernels: us}})}} of the graph_*.csv."""
    found = {}
    for slug in sorted(os.listdir(results)):
        folder = os.path.join(results, slug)
        if slug == HOST_RUNTIME or not os.path.isdir(folder):
            continue
        for file in filter(FILE_OF_TIMES.match, sorted(os.listdir(folder))):
            context, rows = compact_results.read(os.path.join(folder, file))
            if context.get("runtime", "cuda").startswith("host"):
                continue
            for row in rows:
                operation, peer, kernels = (row["name"].split("/") + ["", ""])[:3]
                if operation in TIMES and kernels.isdigit() and row["median"]:
                    peers = found.setdefault(slug, {}).setdefault(operation, (file, context, {}))[2]
                    peers.setdefault(peer, {})[int(kernels)] = microseconds(row)
    return found


def peers_of(modes):
    return sorted({peer for peers in modes.values() for peer in peers}, key=order_of)


def is_ours(peer):
    return peer.startswith(OURS)


def is_main(peer):
    return PEERS.get(peer) == MAIN


def order_of(peer):
    """Ours first, the references last, the others as in PEERS."""
    known = list(PEERS)
    return (peer in REFERENCES, not is_ours(peer), known.index(peer) if peer in known else len(known), peer)


def order_of_key(key):
    """Operations as in OPERATIONS, types as in TYPES, the others by name."""
    def place(name, known):
        return known.index(name) if name in known else len(known), name

    return place(key[0], list(OPERATIONS)), place(key[1], TYPES)


class Chosen:
    """What is shown of one operation and type: the modes, the runs that they are from, and our points in
    those of them that only add peers, as {(mode, peer): {shape: (GB/s, us)}}."""

    def __init__(self, runs, key):
        # The program that has our path; other programs only add peers.
        def has_ours(run):
            return any(is_ours(peer) for peer in peers_of(run.operations[key]))

        main, *others = sorted(runs, key=lambda r: (not has_ours(r), len(r.program), r.program))
        self.key, self.runs, self.ours_beside = key, [main], {}
        self.modes = {m: dict(peers) for m, peers in main.operations[key].items()}
        taken = set(peers_of(self.modes))
        for run in others:
            new = [p for p in peers_of(run.operations[key]) if p not in taken]
            if new:
                self.runs.append(run)
                taken.update(new)
                for mode, peers in run.operations[key].items():
                    ours = next((points for peer, points in peers.items() if is_main(peer)), None)
                    for peer in new:
                        if peer in peers:
                            self.modes.setdefault(mode, {})[peer] = peers[peer]
                            if ours:
                                self.ours_beside[mode, peer] = ours


# --- Plots --------------------------------------------------------------------------------------

WIDTH, MARGIN, GAP = 960, 16, 28
PLOT_HEIGHT, STRIP_GAP, STRIP_HEIGHT = 190, 30, 84
LEFT, COLUMNS = 46, 2


class Looks:
    """Names and colours of all peers of the page, the same in every plot."""

    def __init__(self, peers):
        self.of = {}
        spare = 0
        for peer in sorted(peers, key=order_of):
            if peer in PEERS:
                self.of[peer] = PEERS[peer]
            else:
                light, dark = SPARE[spare % len(SPARE)]
                name = peer.replace("warpwright_", "warpwright, ").replace("_", " ")
                self.of[peer] = (name, light, dark, "", "disc" if is_ours(peer) else "diamond")
                spare += 1

    def css(self, peers):
        def rules(column):
            return "".join(f".p{i}{{--c:{self.of[peer][column]}}}" for i, peer in enumerate(peers))

        return ("text{font:12px system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;fill:#1f2328}"
                ".t{font-weight:600;font-size:13px}.a{fill:#59636e}.b{fill:#fff}"
                ".g{stroke:#d1d9e0;stroke-width:1}.l{fill:none;stroke:var(--c);stroke-width:1.75;"
                "stroke-linejoin:round}.o{stroke-width:2.75}.m{fill:var(--c)}"
                ".r{fill:none;stroke:var(--c);stroke-width:1.75}" + rules(1) +
                "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.a{fill:#9198a1}.b{fill:#0d1117}"
                ".g{stroke:#30363d}" + rules(2) + "}")


def marker(kind, x, y, cls):
    x, y = round(x, 1), round(y, 1)
    if kind == "disc":
        return f'<circle class="m {cls}" cx="{x:g}" cy="{y:g}" r="3.2"/>'
    if kind == "ring":
        return f'<circle class="r {cls}" cx="{x:g}" cy="{y:g}" r="3"/>'
    if kind == "square":
        return f'<rect class="m {cls}" x="{x - 2.6:g}" y="{y - 2.6:g}" width="5.2" height="5.2"/>'
    if kind == "triangle":
        return f'<path class="m {cls}" d="M{x:g} {y - 3.6:g}l3.5 6.2h-7z"/>'
    if kind == "diamond":
        return f'<path class="m {cls}" d="M{x:g} {y - 3.8:g}l3.6 3.8l-3.6 3.8l-3.6 -3.8z"/>'
    return ""


def line(points, look, cls, wide):
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    dashes = f' stroke-dasharray="{look[3]}"' if look[3] else ""
    drawn = f'<path class="l {cls}{" o" if wide else ""}" d="{path}"{dashes}/>' if len(points) > 1 else ""
    # A line without markers still shows where it has one point alone.
    kind = look[4] if look[4] != "none" or len(points) > 1 else "ring"
    return drawn + "".join(marker(kind, x, y, cls) for x, y in points)


def nice_step(top, ticks):
    raw = top / ticks
    power = 10 ** math.floor(math.log10(raw))
    return next(power * m for m in (1, 2, 2.5, 5, 10) if power * m >= raw)


def panel_title(type_, launches):
    when = {None: "", 1: "one launch at a time"}.get(launches, f"{launches} launches back to back")
    return ", ".join(filter(None, (type_, when)))


def elements(shape):
    return math.prod(shape)


def axis(of):
    """(what of a shape stands across, its name) of a panel; None where it is not worth drawing, for there
    is one size alone, or because shapes of several sizes cannot be told apart across."""
    shapes = {s for points in of.values() for s in points}
    ways = [(elements, "elements (n)")]
    if all(len(s) > 1 for s in shapes):
        ways.insert(0, (lambda s: s[-1], "elements a row"))
    return next((way for way in ways if len({way[0](s) for s in shapes}) == len(shapes) > 1), None)


def of_most_rows(of):
    """A panel's points, of equal rows those of the matrix that has most."""
    most = {}
    for shape in (s for points in of.values() for s in points if len(s) == 2):
        most[shape[1]] = max(most.get(shape[1], 0), shape[0])
    return {peer: {s: v for s, v in points.items() if len(s) != 2 or s[0] == most[s[1]]} for peer, points in of.items()}


def svg_of(operation, panels, looks):
    """panels: [(title, {peer: {shape: (GB/s, us)}}, beside)]; for `beside` see table()."""
    peers = sorted({p for _, of, _ in panels for p in of}, key=order_of)
    cls = {peer: f"p{i}" for i, peer in enumerate(peers)}
    top = max(point[0] for _, of, _ in panels for points in of.values() for point in points.values())
    step = nice_step(top * 1.02, 7)
    top = step * math.ceil(top * 1.02 / step)
    columns = min(COLUMNS, len(panels))
    panel_width = (WIDTH - 2 * MARGIN - GAP * (COLUMNS - 1)) / COLUMNS
    width = round(2 * MARGIN + columns * panel_width + GAP * (columns - 1))

    rivalry = any(len(of) > 1 for _, of, _ in panels)
    panel_height = PLOT_HEIGHT + 76 + (STRIP_GAP + STRIP_HEIGHT if rivalry else 0)
    out, legend_rows = legend(peers, looks, cls, width)
    start = MARGIN + 20 * legend_rows + 14
    for k, (title, of, beside) in enumerate(panels):
        x0 = MARGIN + k % columns * (panel_width + GAP) + LEFT
        y0 = start + k // columns * panel_height + 24
        out.append(panel(title, of, beside, looks, cls, (x0, y0, panel_width - LEFT - 8), top, step))
    height = start + -(-len(panels) // columns) * panel_height + 2
    label = html.escape(f"{operation}: GB/s against the number of elements")
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" role="img" aria-label="{label}">\n'
            f"<title>{label}</title>\n<style>{looks.css(peers)}</style>\n"
            f'<rect class="b" width="{width}" height="{height}"/>\n' + "\n".join(out) + "\n</svg>\n")


def legend(peers, looks, cls, width):
    out, x, row = [], MARGIN + 4, 0
    for peer in peers:
        look = looks.of[peer]
        needed = 38 + 6.5 * len(look[0])  # about what the text takes in any of the fonts
        if x > MARGIN + 4 and x + needed > width - MARGIN:
            x, row = MARGIN + 4, row + 1
        y = MARGIN + 8 + 20 * row
        dashes = f' stroke-dasharray="{look[3]}"' if look[3] else ""
        wide = " o" if is_main(peer) else ""
        out.append(f'<path class="l {cls[peer]}{wide}" d="M{x:.1f} {y}h24"{dashes}/>'
                   + marker(look[4], x + 12, y, cls[peer])
                   + f'<text x="{x + 30:.1f}" y="{y + 4}">{html.escape(look[0])}</text>')
        x += needed + 12
    return out, row + 1


def panel(title, of, beside, looks, cls, place, top, step):
    """GB/s against n; below it, where there are several peers, each one's share of the fastest. A peer
    from another run has there the share that it has of ours in that run."""
    x0, y0, plot_width = place
    shapes = {s for points in of.values() for s in points}
    size, across_what = axis(of)
    low, high = (math.log2(f(map(size, shapes))) for f in (min, max))
    pad = 10  # so that the outermost markers stand clear of the edges

    def across(n):
        return x0 + pad + (math.log2(n) - low) / (high - low) * (plot_width - 2 * pad)

    def text(x, y, anchor, what, look="a"):
        return f'<text class="{look}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{what}</text>'

    def grid(y, what):
        return f'<path class="g" d="M{x0:.1f} {y:.1f}h{plot_width:.1f}"/>' + text(x0 - 6, y + 4, "end", what)

    ours = of[next((p for p in of if is_main(p)), next(iter(of)))]

    def level(peer, s):
        there = beside.get(peer, {})
        return of[peer][s][0] * (ours[s][0] / there[s][0] if s in there and s in ours else 1)

    def lines(up):
        for peer in sorted(of, key=order_of, reverse=True):  # ours is drawn last, above the others
            points = [(across(size(s)), up(peer, s)) for s in sorted(of[peer], key=size)]
            yield line(points, looks.of[peer], cls[peer], is_main(peer))

    out = [text(x0, y0 - 10, "start", html.escape(title), "t"), text(x0 + plot_width, y0 - 10, "end", "GB/s")]
    out += [grid(y0 + PLOT_HEIGHT * (1 - k * step / top), f"{k * step:,g}") for k in range(round(top / step) + 1)]
    out += lines(lambda peer, s: y0 + PLOT_HEIGHT * (1 - of[peer][s][0] / top))
    bottom = y0 + PLOT_HEIGHT
    if len(of) > 1:
        best = {s: max(level(p, s) for p in of if s in of[p]) for s in shapes}
        least = min(level(p, s) / best[s] for p in of for s in of[p])
        floor = max(70, min(90, 10 * math.floor(10 * least)))  # in percent; what is below is cut off
        strip = bottom + STRIP_GAP
        bottom = strip + STRIP_HEIGHT
        out.append(text(x0 + plot_width, strip - 8, "end", "% of the fastest there"))
        out += [grid(strip + STRIP_HEIGHT * (100 - p) / (100 - floor), str(p))
                for p in range(floor, 101, 10 if floor < 90 else 5)]
        out.append(f'<svg x="{x0:.1f}" y="{strip - 6:.1f}" width="{plot_width:.1f}" height="{STRIP_HEIGHT + 6}" '
                   f'viewBox="{x0:.1f} {strip - 6:.1f} {plot_width:.1f} {STRIP_HEIGHT + 6}">')
        out += lines(lambda p, s: strip + STRIP_HEIGHT * (100 - 100 * level(p, s) / best[s]) / (100 - floor))
        out.append("</svg>")
    every = 1 if high - low <= 8 else 2 if high - low <= 20 else 4
    for power in range(math.ceil(low), math.floor(high) + 1, every):
        out.append(text(across(2 ** power), bottom + 18, "middle",
                        f'2<tspan dy="-5" font-size="9">{power}</tspan>'))
    out.append(text(x0 + plot_width / 2, bottom + 36, "middle", across_what))
    return "\n".join(out)


# --- The page -----------------------------------------------------------------------------------

HEAD = """# Measured results: kernels

<!-- Made by ./run plots from bench/results; a change by hand is lost. -->

Fused kernels and their peers as the programs in [bench/kernel](../bench/kernel) measured them. Speed is
GB/s of the median launch; every array that a launch reads or writes counts once. Launches go through sets
of arrays larger than L2 together, and a result is compared with an exact one before it is timed. One
launch at a time includes the launch's latency, which is most of its time below 2<sup>20</sup> elements.

Every size and peer, with the spread of the samples, stands in the linked files of
[bench/results](../bench/results/README.md), with the command, the clocks and the commit of the run.
The samples of all peers of one size are interleaved unless that page names the program as an exception.
"""

TABLE = """*Against the best peer* is our speed over that of the fastest peer at the same size; a copy or a read of
the same traffic is no peer. A peer that another program measured is compared with our path in that
program. Sizes: the number of elements, or rows x columns.
"""


def shape_text(shape):
    if not shape:
        return "one size"
    n = shape[0]
    if len(shape) == 1:
        return f"2<sup>{n.bit_length() - 1}</sup>" if n & (n - 1) == 0 else f"{n:,}"
    return " x ".join(f"{k:,}" for k in shape)


def gbs_text(gbs):
    return f"{gbs:,.{0 if gbs >= 100 else 1}f}"


def us_text(us):
    return f"{us:,.{0 if us >= 1000 else 1 if us >= 100 else 2}f}"


def boundaries(of, looks, beside):
    """The cells of one line of the table: least and largest size, and the bounds of the comparison with the
    best peer. `beside`: {peer: our points in the run that the peer is from}, where that is another run."""
    ours = next((p for p in sorted(of, key=order_of) if is_ours(p)), sorted(of, key=order_of)[0])
    sizes = sorted(of[ours], key=lambda s: (elements(s), s))
    least, largest = sizes[0], sizes[-1]
    cells = [shape_text(least) if len(sizes) == 1 else f"{shape_text(least)} to {shape_text(largest)}",
             us_text(of[ours][least][1]), gbs_text(of[ours][largest][0])]
    reference = next((of[p][largest][0] for p in REFERENCES if largest in of.get(p, {})), None)
    cells.append(f"{100 * of[ours][largest][0] / reference:.1f} %" if reference else "")

    shares = []  # (ours over the best peer, size, the peer) of each size
    for shape in sizes:
        there = [(beside.get(p, of[ours])[shape][0] / of[p][shape][0], shape, p)
                 for p in of if not is_ours(p) and p not in REFERENCES
                 and shape in of[p] and shape in beside.get(p, of[ours])]
        if there:
            shares.append(min(there, key=lambda share: share[0]))
    if not shares or not is_ours(ours):
        return cells + ["", "", ""]
    low, high = (pick(shares, key=lambda share: share[0]) for pick in (min, max))
    if len(shares) == 1:
        return cells + [f"{100 * low[0]:.1f} %: {looks.of[low[2]][0]}", "", ""]
    return cells + [f"{100 * low[0]:.1f} % at {shape_text(low[1])}: {looks.of[low[2]][0]}",
                    f"{100 * statistics.median(share[0] for share in shares):.1f} %", f"{100 * high[0]:.1f} %"]


def source(number, run, path):
    versions = "".join(f", {name} {version}" for name, version in run.versions.items())
    failed = "".join(f"\n   Not shown, as it failed: `{name}` ({why})." for name, why in run.failed)
    return (f"{number}. [`{run.file}`]({path}/{run.slug}/{run.file}): {run.date} UTC, driver {run.driver}, "
            f"CUDA {run.cuda}{versions}, commit `{run.commit}`{failed}")


def tables_of_times(operations, path):
    """The section of one device; `operations` as in read_times()."""
    text = []
    for operation in (o for o in TIMES if o in operations):
        file, context, peers = operations[operation]
        # The raw calls stand last.
        columns = sorted(peers, key=lambda p: (p.startswith(("raw", "bare", "body")), list(peers).index(p)))
        lines = [f"| kernels | {' | '.join(c.replace('_', ' ') for c in columns)} |",
                 "|---:" * (len(columns) + 1) + "|"]
        for kernels in sorted({k for of in peers.values() for k in of}):
            cells = [f"{peers[c][kernels]:,.{1 if peers[c][kernels] >= 100 else 3}f}" if kernels in peers[c] else ""
                     for c in columns]
            lines.append(f"| {kernels:,} | {' | '.join(cells)} |")
        source_line = (f"[`{file}`]({path}/{file}): {context.get('date', 'not recorded')} UTC, commit "
                       f"`{context.get('warpwright_commit', 'not recorded')}`")
        text.append(f"### {operation}\n\n{TIMES[operation]}, in us. {source_line}\n\n" + "\n".join(lines) + "\n")
    return text


def make(results, page):
    """{path: text} of the page of highlights, of that of the tables beside it, and of their plots."""
    runs = read_runs(results)
    if not runs:
        sys.exit(f"plot_results: no kernel_*.csv of a GPU under {results}")
    looks = Looks({p for r in runs for modes in r.operations.values() for p in peers_of(modes)})
    folder = os.path.splitext(page)[0]
    to_results = os.path.relpath(results, os.path.dirname(page)).replace(os.sep, "/")
    devices = {r.slug: r.device for r in runs if r.operations}
    text, files = [HEAD], highlights.make(results, devices, page)
    for slug in sorted(devices):
        of_device = [r for r in runs if r.slug == slug]
        chosen = {}
        for key in sorted({k for r in of_device for k in r.operations}, key=order_of_key):
            chosen[key] = Chosen([r for r in of_device if key in r.operations], key)
        used = sorted({r for c in chosen.values() for r in c.runs}, key=lambda r: r.file)
        number = {run: k + 1 for k, run in enumerate(used)}
        rows, plots = [], []
        for operation in dict.fromkeys(key[0] for key in chosen):
            parts = [c for key, c in chosen.items() if key[0] == operation]
            panels = [(panel_title(c.key[1], mode), c.modes[mode],
                       {peer: ours for (of, peer), ours in c.ours_beside.items() if of == mode})
                      for c in parts for mode in sorted(c.modes, key=lambda m: m or 0)]
            drawn = [(title, of_most_rows(of), near) for title, of, near in panels]
            drawn = [p for p in drawn if axis(p[1])]
            label = f"[{operation}](#{operation})" if drawn else operation
            rows += ["| " + " | ".join([label, title] + boundaries(of, looks, beside)) + " |"
                     for title, of, beside in panels]
            from_files = " and ".join(map(str, sorted({number[r] for c in parts for r in c.runs})))
            caption = OPERATIONS.get(operation, "")
            if drawn:
                name = f"{slug}-{operation}.svg".replace("_", "-")
                files[os.path.join(folder, name)] = svg_of(operation, drawn, looks)
                plots.append(f"### {operation}\n\n{caption + '. ' if caption else ''}File {from_files}.\n\n"
                             f"![{operation}: GB/s against the number of elements, one line a peer]"
                             f"({os.path.basename(folder)}/{name})\n")
        alone = [f"- {operation}: {OPERATIONS[operation]}" for operation in dict.fromkeys(key[0] for key in chosen)
                 if operation in OPERATIONS and f"### {operation}\n" not in "\n".join(plots)]
        text.append(f"## {used[0].device}\n\n" + "\n".join(source(number[r], r, to_results) for r in used) + "\n")
        text.append(TABLE)
        text.append("| operation | measured | sizes | us at the least | GB/s at the largest | of a copy (or read) there "
                    "| against the best peer, least | median | most |\n|---|---|---|---:|---:|---:|---|---:|---:|\n"
                    + "\n".join(rows) + "\n")
        if alone:
            text.append("Measured at one size or a few shapes, and not drawn:\n\n" + "\n".join(alone) + "\n")
        if plots:
            text.append("The strip below a plot shows each line as its share of the fastest at that size; what is "
                        "below the\nstrip's lowest mark is cut off. Compare inside one plot only.\n")
        text += plots
    for slug, operations in read_times(results).items():
        device = next(iter(operations.values()))[1].get("device", slug)
        text.append(f"## CUDA graphs on {device}\n")
        text += tables_of_times(operations, f"{to_results}/{slug}")
    files[tables_of(page)] = "\n".join(text)
    return files


def tables_of(page):
    """measured_tables.md of measured.md."""
    return "_tables".join(os.path.splitext(page))


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", default=os.path.join(ROOT, "bench", "results"))
    parser.add_argument("--page", default=os.path.join(ROOT, "docs", "measured.md"))
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a file differs")
    options = parser.parse_args(arguments)
    page = os.path.abspath(options.page)
    return update(page, make(os.path.abspath(options.results), page), options.check)


def update(page, files, check):
    """Writes a page and its plots, {path: text}, and removes plots that are none of them; or, to check, names
    the files that differ. Returns the exit status."""
    folder = os.path.splitext(page)[0]
    old = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    stale = [p for p in (os.path.join(folder, f) for f in old) if p.endswith(".svg") and p not in files]
    changed = [path for path in sorted(files) if read(path) != files[path]]
    if check:
        for path in changed + stale:
            print(f"{os.path.relpath(path)} is not what bench/results says; run ./run plots", file=sys.stderr)
        return 1 if changed or stale else 0
    os.makedirs(folder, exist_ok=True)
    for path in stale:
        os.remove(path)
    for path in changed:
        with open(path, "w", encoding="utf-8", newline="\n") as f:
            f.write(files[path])
    plots = sum(path.endswith(".svg") for path in files)
    print(f"{os.path.relpath(page)}: {plots} plots, {len(changed)} files written, {len(stale)} removed")
    return 0


def read(path):
    try:
        with open(path, encoding="utf-8", newline="") as f:
            return f.read()
    except FileNotFoundError:
        return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
