# SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
# SPDX-License-Identifier: Apache-2.0
"""Draws the CSV of bench/serve/overload.cpp as an SVG: requests answered in time over the load.

    plot_overload.py serve_overload.csv OUT.svg
"""
import csv
import sys

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 640, 340, 64, 46, 20
LOOKS = {"batcher": ("#0b57d0", "batcher"), "queue": ("#d9480f", "queue, first come, first served"),
         "whole_batches": ("#868e96", "the same, whole batches after 1 ms")}


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    capacity = float(rows[0]["capacity_per_s"])
    most_load = max(float(r["load"]) for r in rows)
    top = 1.15

    def x(load):
        return LEFT + (WIDTH - LEFT - 20) * load / most_load

    def y(share):
        return TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - share / top)

    body = []
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        body.append(f'<line x1="{LEFT}" x2="{WIDTH - 20}" y1="{y(share):.1f}" y2="{y(share):.1f}" stroke="#ddd"/>'
                    f'<text x="{LEFT - 8}" y="{y(share) + 4:.1f}" text-anchor="end">{share:.0%}</text>')
    for load in (0.3, 0.6, 1.0, 1.5, 3.0):
        body.append(f'<text x="{x(load):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{load:g}</text>')
    body.append(f'<text x="{(LEFT + WIDTH) / 2:.0f}" y="{HEIGHT - 8}" text-anchor="middle">'
                f'requests sent, of the capacity of {capacity:,.0f} a second</text>'
                f'<text x="{LEFT}" y="14">answered in time, of the capacity</text>')
    most = " ".join(f"{x(load):.1f},{y(min(load, 1.0)):.1f}" for load in (0.0, 1.0, most_load))
    body.append(f'<polyline points="{most}" fill="none" stroke="#999" stroke-dasharray="4 4"/>')
    for at, (server, (colour, name)) in enumerate(LOOKS.items()):
        points = [(x(float(r["load"])), y(float(r["in_time_per_s"]) / capacity)) for r in rows if r["server"] == server]
        body.append(f'<polyline points="{" ".join(f"{a:.1f},{b:.1f}" for a, b in points)}" fill="none" '
                    f'stroke="{colour}" stroke-width="2"/>')
        body += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3.5" fill="{colour}"/>' for a, b in points]
        body.append(f'<text x="{WIDTH - 30}" y="{y(0.62) + 20 * at:.1f}" fill="{colour}" text-anchor="end">{name}</text>')
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
                   f'font-size="12"><rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>\n' + "\n".join(body) + "\n</svg>\n")


if __name__ == "__main__":
    main()
