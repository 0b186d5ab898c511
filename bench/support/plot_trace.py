# SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
# SPDX-License-Identifier: Apache-2.0
"""Draws parts of Chrome traces, as observe/trace.hpp writes them, below each other as an SVG:

    plot_trace.py OUT.svg TITLE TRACE.json BEGIN_US END_US [TITLE TRACE.json BEGIN_US END_US]...

Rows are threads of the host (spans above calls) and streams of the GPU. Times are of the file.
"""
import html
import json
import sys

WIDTH, LEFT, ROW = 960, 150, 22
COLOURS = {"user_annotation": "#9ecae1", "cuda_runtime": "#fdae6b", "cuda_driver": "#fdae6b",
           "kernel": "#31a354", "gpu_memcpy": "#756bb1", "gpu_memset": "#756bb1"}


def rows_of(path, begin, end):
    """The events between two times by row, in the order of the rows."""
    rows = {}
    for e in json.load(open(path, encoding="utf-8"))["traceEvents"]:
        if e.get("ph") != "X" or e.get("cat") not in COLOURS or e["ts"] + e["dur"] < begin or e["ts"] > end:
            continue
        if e["name"].startswith("ProfilerStep"):
            continue
        kind = {"user_annotation": "spans", "cuda_runtime": "CUDA calls", "cuda_driver": "CUDA calls"}.get(e["cat"])
        where = f"{kind}, thread {e['tid'] % 1000}" if kind else f"GPU, stream {e['tid']}"
        rows.setdefault((kind is None, str(e["tid"]), kind != "spans", where), []).append(e)
    return sorted(rows.items())


def main():
    out, groups = sys.argv[1], sys.argv[2:]
    body, y = [], 8
    for at in range(0, len(groups), 4):
        title, path, begin, end = groups[at], groups[at + 1], float(groups[at + 2]), float(groups[at + 3])
        body.append(f'<text x="4" y="{y + 14}" font-weight="bold">{html.escape(title)} ({end - begin:g} us)</text>')
        y += ROW
        for (_, _, _, where), events in rows_of(path, begin, end):
            body.append(f'<text x="4" y="{y + 14}">{html.escape(where)}</text>')
            for e in sorted(events, key=lambda e: e["ts"]):
                scale = (WIDTH - LEFT) / (end - begin)
                x = LEFT + max(0.0, e["ts"] - begin) * scale
                width = LEFT + min(end - begin, e["ts"] + e["dur"] - begin) * scale - x
                name = html.escape(e["name"])
                body.append(f'<rect x="{x:.2f}" y="{y}" width="{max(width, 0.5):.2f}" height="{ROW - 4}" fill="{COLOURS[e["cat"]]}"'
                            f' stroke="white" stroke-width="0.3"><title>{name}, {e["dur"]:.1f} us</title></rect>')
                if width > 7 * len(e["name"]):
                    body.append(f'<text x="{x + 3:.2f}" y="{y + 13}" font-size="11">{name}</text>')
            y += ROW
        y += 10
    with open(out, "w", encoding="utf-8") as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" font-family="sans-serif" font-size="12">'
                   f'<rect width="{WIDTH}" height="{y}" fill="white"/>\n' + "\n".join(body) + "\n</svg>\n")


if __name__ == "__main__":
    main()
