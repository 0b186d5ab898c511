#!/usr/bin/env python3
# SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
# SPDX-License-Identifier: Apache-2.0
"""Makes docs/measured_memory.md and its plots, docs/measured_memory/*.svg, from bench/results.

    python3 bench/support/plot_replay.py            # or ./run plots: write them
    python3 bench/support/plot_replay.py --check    # fail if a file differs from what it would write
    python3 bench/support/plot_replay.py --page PAGE.md FILE.csv...    # of these files alone

Reads every <device>/memory_replay_bench.csv of bench/results, as compact_results.py writes them, except
that of the host runtime, and <device>/memory_torch_replay.csv beside it, which may have ratios and no
times. Where there is none, it writes nothing. One plot a trace: the host's time for an operation over the
memory that the allocator reserved for it. Needs nothing but Python 3.
"""
import argparse
import html
import math
import os
import re
import sys

import compact_results
import plot_results

ROOT = plot_results.ROOT
FILE, TORCH_FILE = "memory_replay_bench.csv", "memory_torch_replay.csv"
MODES = {"idle": "no other work on the streams", "busy": "streams busy with kernels"}

# Name, its colour on white and on black, marker.
POOL = ("warpwright", "#0b57d0", "#6ea8fe", "disc")
ALLOCATORS = {
    "warpwright": POOL,
    "cuda_malloc_async": ("cudaMallocAsync", "#c2410c", "#fb923c", "triangle"),
    "rmm_pool": ("RMM pool", "#15803d", "#4ade80", "square"),
    "rmm_binning": ("RMM binning over pool", "#0e7490", "#22d3ee", "diamond"),
    "rmm_arena": ("RMM arena", "#57606a", "#b1bac4", "square"),
    "rmm_cuda_async": ("RMM cuda_async", "#a16207", "#facc15", "triangle"),
    "torch": ("PyTorch", "#a21caf", "#e879f9", "down"),
    "torch_expandable": ("PyTorch, expandable segments", "#be123c", "#fb7185", "plus"),
}
UNTIMED = {"down": "line", "plus": "dashes"}  # a marker's lines, where there is memory and no time
# Markers that plot_results has not, from their middle.
SHAPES = {"down": "m0 3.6l-3.5 -6.2h7z", "plus": "m-1.3 -3.9h2.6v2.6h2.6v2.6h-2.6v2.6h-2.6v-2.6h-2.6v-2.6h2.6z"}
OURS = re.compile(r"^warpwright(?:_(compact)|_slack_(\d+))?$")


# --- Reading ------------------------------------------------------------------------------------


def counters_of(row):
    """{name: number} of a row's counters, or {} for a failed benchmark, whose text they are."""
    words = [word.split("=", 1) for word in row["counters"].split()]
    try:
        return {key: float(value) for key, value in words}
    except ValueError:
        return {}


class Point:
    """One allocator on one trace: ns for an operation in the later passes and in the first, and memory."""

    def __init__(self, row, counters):
        to_ns = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}[row["unit"]]
        self.warm = float(row["median"]) * to_ns if row["median"] else None
        self.cold = counters.get("cold_ns")
        self.ratio = counters["ratio"]
        self.calls = counters.get("cuda_calls_per_op")
        self.counters = counters


class Run:
    """The results of one device: {trace: {mode: {allocator: Point}}}, and the least limits
    {trace: {allocator: multiple}}."""

    def __init__(self, path):
        self.path = path
        self.context, rows = compact_results.read(path)
        self.slug = compact_results.folder_of(self.context)
        self.host_runtime = self.context.get("runtime", "").startswith("host")
        self.traces, self.limits, self.failed = {}, {}, []
        self.torch = None
        self.add(rows)
        torch = os.path.join(os.path.dirname(path), TORCH_FILE)
        if os.path.exists(torch):
            self.torch, rows = compact_results.read(torch)
            self.add(rows)

    def add(self, rows):
        for row in rows:
            kind, *names = row["name"].split("/")
            counters = counters_of(row)
            if not counters:
                self.failed.append((row["name"], row["counters"]))
            elif kind == "replay" and len(names) == 3:
                trace, allocator, mode = names
                modes = self.traces.setdefault(trace, {})
                modes.setdefault(mode, {})[allocator] = Point(row, counters)
            elif kind == "least_limit" and len(names) == 2:
                self.limits.setdefault(names[0], {})[names[1]] = counters["least_limit"]

    def measured(self, trace):
        """A point of the trace, or None: of PyTorch alone there is no plot."""
        return next((p for of in self.traces[trace].values() for a, p in of.items() if not a.startswith("torch")), None)


def order_of(allocator):
    """Ours first: the default, then by slack; the others as in ALLOCATORS."""
    ours = OURS.match(allocator)
    if ours:
        compact, slack = ours.groups()
        return 0, 0 if compact else int(slack) if slack else -1, allocator
    known = list(ALLOCATORS)
    return 1, known.index(allocator) if allocator in known else len(known), allocator


def look_of(allocator):
    if OURS.match(allocator):
        return POOL
    return ALLOCATORS.get(allocator, (allocator.replace("_", " "), "#9d174d", "#f9a8d4", "diamond"))


def line_of(look):
    return UNTIMED.get(look[3], "line")


def slack_name(allocator):
    compact, slack = OURS.match(allocator).groups()
    return "compact" if compact else f"{slack} %" if slack else "default"


# --- Plots --------------------------------------------------------------------------------------

WIDTH, MARGIN, GAP = 960, 16, 30
LEFT, PLOT_HEIGHT = 58, 330
RATIOS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50)  # ticks, above 1


class Axis:
    """A logarithmic axis from `low` to `high` over `length` pixels."""

    def __init__(self, low, high, start, length):
        self.low, self.high, self.start, self.length = math.log10(low), math.log10(high), start, length

    def at(self, value):
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return self.start + min(max(share, 0.0), 1.0) * self.length


def time_ticks(low, high):
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    few = high / low < 1000
    return [m * 10.0 ** p for p in powers for m in ((1, 2, 5) if few else (1,)) if low <= m * 10.0 ** p <= high]


def bounds(values, below, above):
    """The values' range with room at both ends, of at least one decade."""
    low, high = min(values) / below, max(values) * above
    middle = math.sqrt(low * high)
    return min(low, middle / math.sqrt(10)), max(high, middle * math.sqrt(10))


def css(looks):
    def colours(column):
        return "".join(f".p{i}{{--c:{look[column]}}}" for i, look in enumerate(looks))

    return ("text{font:12px system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif;fill:#1f2328}"
            ".t{font-weight:600;font-size:13px}.a{fill:#59636e}.s{font-size:11px;fill:var(--c)}.b{fill:#fff}"
            ".g{stroke:#d1d9e0;stroke-width:1}.l{fill:none;stroke:var(--c);stroke-width:2}"
            ".v{fill:none;stroke:var(--c);stroke-width:1;opacity:.45}.m{fill:var(--c)}"
            ".r{fill:var(--bg);stroke:var(--c);stroke-width:1.5}svg{--bg:#fff}" + colours(1) +
            "@media(prefers-color-scheme:dark){svg{--bg:#0d1117}text{fill:#e6edf3}.a{fill:#9198a1}"
            ".s{fill:var(--c)}.b{fill:#0d1117}.g{stroke:#30363d}" + colours(2) + "}")


def marker(kind, x, y, cls, hollow=False):
    if kind in SHAPES:
        drawn = f'<path class="m {cls}" d="M{x:.1f} {y:.1f}{SHAPES[kind]}"/>'
    else:
        drawn = plot_results.marker(kind, x, y, cls)
    return drawn.replace('class="m ', 'class="r ') if hollow else drawn


def svg_of(run, trace):
    modes = {mode: run.traces[trace][mode] for mode in MODES if mode in run.traces[trace]}
    untimed = {a: p for points in modes.values() for a, p in points.items() if p.warm is None}
    points = [p for of in modes.values() for p in of.values()]
    times = [max(t, 1.0) for p in points for t in (p.warm, p.cold) if t is not None]
    y_low, y_high = bounds(times, 1.5, 1.5)
    x_low, x_high = bounds([max(p.ratio - 1, RATIOS[0]) for p in points], 2.4, 1.4)  # room for a name on the left
    allocators = sorted({a for of in modes.values() for a in of}, key=order_of)
    looks = list(dict.fromkeys(look_of(a) for a in allocators))
    cls = {a: f"p{looks.index(look_of(a))}" for a in allocators}

    about = run.measured(trace).counters
    passes = int(about.get("passes", 2))
    title = (f"{trace}: {int(about['ops']):,} operations, {int(about['streams'])} "
             f"stream{'' if about['streams'] == 1 else 's'}, peak of live memory {about['peak_live_mb']:,.0f} MB")
    timed = {look_of(a) for of in modes.values() for a, p in of.items() if p.warm is not None}
    out, rows = legend(looks, timed, passes)
    top = MARGIN + 22 + 20 * rows + 34
    panel_width = (WIDTH - 2 * MARGIN - GAP * (len(modes) - 1)) / len(modes)
    for k, (mode, of) in enumerate(modes.items()):
        shown = {**{a: p for a, p in untimed.items()}, **of}
        x0 = MARGIN + k * (panel_width + GAP) + LEFT
        x_axis = Axis(x_low, x_high, x0, panel_width - LEFT)
        y_axis = Axis(y_low, y_high, top + PLOT_HEIGHT, -PLOT_HEIGHT)
        out += panel(MODES[mode], shown, cls, x_axis, y_axis, (y_low, y_high), (x_low, x_high))
    height = top + PLOT_HEIGHT + 68
    what = "host runtime: CPU costs of the code, no GPU's speed" if run.host_runtime else \
        f"driver {run.context.get('driver', 'not recorded')}"
    foot = (f"{run.context.get('device', run.slug)}, {run.context.get('date', 'not recorded')} UTC, {what}, "
            f"commit {run.context.get('warpwright_commit', 'not recorded')}")
    label = html.escape(f"{trace}: host time for an operation over peak reserved memory")
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
            f'viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}">\n<title>{label}</title>\n'
            f"<style>{css(looks)}</style>\n" f'<rect class="b" width="{WIDTH}" height="{height}"/>\n'
            f'<text class="t" x="{MARGIN}" y="{MARGIN + 8}">{html.escape(title)}</text>\n' + "\n".join(out) +
            f'\n<text class="a" x="{MARGIN}" y="{height - 10}">{html.escape(foot)}</text>\n</svg>\n')


def legend(looks, timed, passes):
    entries = [(f"{look[0]}, at several settings of slack" if look == POOL else look[0], f"p{i}",
                look[3] if look in timed else line_of(look))
               for i, look in enumerate(looks)]
    entries.append((f"filled: median of passes 2 to {passes}", "", "filled"))
    entries.append(("hollow: first pass, in which the allocator grows", "", "hollow"))
    out, x, row = [], MARGIN, 0
    for name, cls, kind in entries:
        needed = 30 + 6.6 * len(name)
        if x > MARGIN and x + needed > WIDTH - MARGIN:
            x, row = MARGIN, row + 1
        y = MARGIN + 30 + 20 * row
        if kind in ("line", "dashes"):
            out.append(vertical(x + 8, y - 7, y + 7, cls, kind))
        elif kind in ("filled", "hollow"):
            out.append(f'<circle cx="{x + 8:.1f}" cy="{y}" r="3.4" fill="{"#57606a" if kind == "filled" else "none"}" '
                       'stroke="#57606a" stroke-width="1.5"/>')
        else:
            out.append(marker(kind, x + 8, y, cls))
        out.append(f'<text x="{x + 20:.1f}" y="{y + 4}">{html.escape(name)}</text>')
        x += needed + 8
    return out, row + 1


def vertical(x, y0, y1, cls, kind):
    dashes = ' stroke-dasharray="5 4"' if kind == "dashes" else ""
    return f'<path class="l {cls}" d="M{x:.1f} {y0:.1f}V{y1:.1f}"{dashes}/>'


def free_spot(x, y, width, taken, inside):
    """A box for a name near a point, apart from the boxes that are taken, or None: below the point and left
    of it first, where the line to the next point is not."""
    for distance in (0, 12, 24, 36):
        for dx, dy in ((-5 - width, 3 + distance), (5, -15 - distance), (-5 - width, -15 - distance),
                       (5, 3 + distance), (-width / 2, 6 + distance)):
            box = (x + dx, y + dy, x + dx + width, y + dy + 13)
            apart = all(box[2] <= t[0] or t[2] <= box[0] or box[3] <= t[1] or t[3] <= box[1] for t in taken)
            if apart and box[0] >= inside[0] and box[1] >= inside[1] and box[2] <= inside[2] and box[3] <= inside[3]:
                return box
    return None


def panel(title, of, cls, x_axis, y_axis, times, ratios):
    left, right = x_axis.start, x_axis.start + x_axis.length
    bottom, top = y_axis.start, y_axis.start + y_axis.length

    def text(x, y, anchor, what, look="a"):
        return f'<text class="{look}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(what)}</text>'

    out = [text(left, top - 12, "start", title, "t"), text(right, top - 12, "end", "ns an operation, host")]
    for tick in time_ticks(*times):
        y = y_axis.at(tick)
        out.append(f'<path class="g" d="M{left:.1f} {y:.1f}H{right:.1f}"/>' + text(left - 6, y + 4, "end", f"{tick:,g}"))
    for tick in RATIOS:
        if ratios[0] <= tick <= ratios[1]:
            x = x_axis.at(tick)
            out.append(f'<path class="g" d="M{x:.1f} {top:.1f}V{bottom:.1f}"/>'
                       + text(x, bottom + 17, "middle", f"{1 + tick:g}"))
    out.append(text((left + right) / 2, bottom + 36, "middle",
                    "peak reserved / peak live memory (log scale of what is above 1)"))

    def place(point, time):
        return x_axis.at(max(point.ratio - 1, RATIOS[0])), y_axis.at(max(time, 1.0))

    for allocator in sorted(of, key=order_of, reverse=True):  # ours last, above the others
        point, look = of[allocator], look_of(allocator)
        if point.warm is None:
            x = x_axis.at(max(point.ratio - 1, RATIOS[0]))
            out.append(vertical(x, top, bottom, cls[allocator], line_of(look)))
    ours = sorted((a for a in of if OURS.match(a)), key=lambda a: of[a].ratio)
    for dashes, of_time in (("3 4", lambda p: p.cold), ("", lambda p: p.warm)):
        path = "L".join("{:.1f} {:.1f}".format(*place(of[a], of_time(of[a]))) for a in ours)
        if len(ours) > 1:
            style = f' stroke-dasharray="{dashes}"' if dashes else ""
            out.append(f'<path class="l {cls[ours[0]]}" d="M{path}"{style}/>')
    for allocator in sorted(of, key=order_of, reverse=True):
        point, look = of[allocator], look_of(allocator)
        if point.warm is None:
            continue
        x, y = place(point, point.warm)
        _, y_cold = place(point, point.cold)
        out.append(f'<path class="v {cls[allocator]}" d="M{x:.1f} {y:.1f}V{y_cold:.1f}"/>'
                   + marker(look[3], x, y_cold, cls[allocator], hollow=True) + marker(look[3], x, y, cls[allocator]))
    taken = [(x - 5, y - 5, x + 5, y + 5) for p in of.values() if p.warm is not None
             for x, y in (place(p, p.warm), place(p, p.cold))]
    for allocator in ours:
        x, y = place(of[allocator], of[allocator].warm)
        name = slack_name(allocator)
        spot = free_spot(x, y, 6.2 * len(name), taken, (left, top, right, bottom))
        if spot:
            taken.append(spot)
            out.append(text(spot[0], spot[3] - 3, "start", name, f"s {cls[allocator]}"))
    return out


# --- The page -----------------------------------------------------------------------------------

HEAD = """# Measured results: memory

<!-- Made by ./run plots from bench/results; a change by hand is lost. -->

Recorded allocation traces, replayed by one thread on the pool and on its peers:
[bench/memory/replay_bench.cpp](../bench/memory/replay_bench.cpp) says how. *Time* is the host's for one
operation, an allocation or a free, without the loop that reads the trace; *first pass* that of a new
allocator, which grows. *Reserved* is the peak over all passes, as a multiple of the trace's peak of live
memory as it was requested. *Least limit* is the least limit of reserved memory under which one pass
completes, in the same unit. [torch_replay.cpp](../bench/memory/torch_replay.cpp) says how PyTorch's allocator
comes to the same loop.
"""
TABLE = ("| allocator | reserved | ns, idle streams | first pass | ns, busy streams | first pass "
         "| CUDA calls an operation | least limit |\n|---|---:|---:|---:|---:|---:|---:|---:|")


def name_of(allocator):
    return f"{POOL[0]}, {slack_name(allocator)}" if OURS.match(allocator) else look_of(allocator)[0]


def ns_text(ns):
    return "" if ns is None else f"{ns:,.0f}" if ns >= 10 else f"{ns:.1f}"


def table(run, trace):
    modes = run.traces[trace]
    rows = [TABLE]
    limits = run.limits.get(trace, {})
    for allocator in sorted({a for of in modes.values() for a in of} | set(limits), key=order_of):
        idle, busy = (modes.get(mode, {}).get(allocator) for mode in MODES)
        some = idle or busy
        rows.append("| " + " | ".join([
            name_of(allocator), f"{some.ratio:.3f}" if some else "",
            ns_text(idle and idle.warm), ns_text(idle and idle.cold),
            ns_text(busy and busy.warm), ns_text(busy and busy.cold),
            f"{some.calls:.4f}" if some and some.calls is not None else "",
            f"{limits[allocator]:g}" if allocator in limits else ""]) + " |")
    return "\n".join(rows)


def source(run, page):
    path = os.path.relpath(run.path, os.path.dirname(page)).replace(os.sep, "/")
    context = run.context
    versions = "".join(f", {k[8:]} {v}" for k, v in sorted({**(run.torch or {}), **context}.items())
                       if k.startswith("version_"))
    what = "host runtime, which says nothing of a GPU's speed" if run.host_runtime else \
        f"driver {context.get('driver', 'not recorded')}"
    torch = "" if run.torch is None else \
        f" PyTorch's: [`{TORCH_FILE}`]({os.path.dirname(path)}/{TORCH_FILE}), {run.torch.get('date', 'not recorded')}."
    text = (f"[`{os.path.basename(run.path)}`]({path}): {context.get('date', 'not recorded')} UTC, {what}{versions}, "
            f"commit `{context.get('warpwright_commit', 'not recorded')}`." + torch)
    return text + "".join(f"\nNot shown, as it failed: `{name}` ({why})." for name, why in run.failed)


def make(runs, page):
    """{path: text} of the page and its plots."""
    folder = os.path.splitext(page)[0]
    text, files = [HEAD], {}
    for run in runs:
        text.append(f"## {run.context.get('device', run.slug)}\n\n{source(run, page)}\n")
        for trace in sorted(filter(run.measured, run.traces)):
            name = f"{run.slug}-{trace}.svg".replace("_", "-")
            files[os.path.join(folder, name)] = svg_of(run, trace)
            text.append(f"### {trace}\n\n![{trace}: host time for an operation over peak reserved memory, one point an "
                        f"allocator]({os.path.basename(folder)}/{name})\n\n{table(run, trace)}\n")
    files[page] = "\n".join(text)
    return files


def find(results):
    paths = [os.path.join(results, slug, FILE) for slug in sorted(os.listdir(results))]
    runs = [Run(path) for path in paths if os.path.exists(path)]
    return [run for run in runs if not run.host_runtime]


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", default=os.path.join(ROOT, "bench", "results"))
    parser.add_argument("--page", default=os.path.join(ROOT, "docs", "measured_memory.md"))
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a file differs")
    parser.add_argument("files", nargs="*", metavar="FILE.csv", help="these results, also of the host runtime")
    options = parser.parse_args(arguments)
    page = os.path.abspath(options.page)
    runs = [Run(os.path.abspath(f)) for f in options.files] or find(os.path.abspath(options.results))
    if not runs and not os.path.exists(page):
        print(f"plot_replay: no {FILE} of a GPU under {options.results}, so there is nothing to plot")
        return 0
    return plot_results.update(page, make(runs, page), options.check)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
