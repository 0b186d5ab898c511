#!/usr/bin/env python3
# SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
# SPDX-License-Identifier: Apache-2.0
"""Writes the results of Google Benchmark (JSON) as CSV, one line a benchmark, for bench/results.

    python3 bench/support/compact_results.py RESULT.json...    # into bench/results/<device>/
    python3 bench/support/compact_results.py --out FOLDER RESULT.json...

<program>.json becomes <program>.csv and replaces the file of an earlier run on the same device. Lines
that begin with '#' hold what was measured and on what (KEPT, versions of peers); then one line a
benchmark:

    name      as Google Benchmark has it, without its options (iterations, repeats, manual_time)
    median    time of one iteration, in `unit`; empty where the benchmark failed, or measures no time
    p10, p90  spread of the samples; of five repetitions these are the least and the largest
    unit      ns, us, ms or s
    samples   how many samples (or repetitions) the median is of
    rate      at the median, in `rate_unit`: GB/s or items/s; empty where nothing is counted
    counters  the other counters, key=value, separated by spaces; of a failed benchmark its message

Needs nothing but Python 3.
"""
import argparse
import csv
import datetime
import io
import json
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
COLUMNS = ("name", "median", "p10", "p90", "unit", "samples", "rate", "rate_unit", "counters")
# What the header keeps of a result's context, in this order; then every version_<peer>.
KEPT = ("device", "runtime", "date", "warpwright_commit", "driver", "driver_cuda_version",
        "runtime_cuda_version", "clocks_at_start", "max_core_clock_khz", "max_memory_clock_khz",
        "multiprocessors", "num_cpus", "command")
OPTIONS = re.compile(r"/(?:iterations:\d+|repeats:\d+|min_time:[^/]*|min_warmup_time:[^/]*|manual_time|"
                     r"real_time|process_time)(?=/|$)")
# What Google Benchmark writes of every benchmark; everything else is a counter.
FIXED = {"name", "family_index", "per_family_instance_index", "run_name", "run_type", "repetitions",
         "repetition_index", "threads", "iterations", "real_time", "cpu_time", "time_unit", "aggregate_name",
         "aggregate_unit", "label", "error_occurred", "error_message", "skipped", "skip_message"}
RATES = {"GB/s": (1.0, "GB/s"), "bytes_per_second": (1e-9, "GB/s"), "items_per_second": (1.0, "items/s")}


def utc(date):
    """A date of Google Benchmark as YYYY-MM-DD HH:MM, in UTC."""
    try:
        when = datetime.datetime.fromisoformat(date)
    except ValueError:
        return date
    if when.tzinfo:
        when = when.astimezone(datetime.timezone.utc)
    return when.strftime("%Y-%m-%d %H:%M")


def number(value):
    """Five significant digits: more than any of these measurements has."""
    text = f"{value:.5g}"
    return f"{value:.0f}" if "e+" in text else text


def quantile(values, tenths):
    values = sorted(values)
    return values[min(len(values) * tenths // 10, len(values) - 1)]


def row_of(name, runs):
    """One benchmark: its repetitions, or the one run that holds the spread of its own samples."""
    failed = next((r for r in runs if r.get("error_occurred")), None)
    row = dict.fromkeys(COLUMNS, "")
    row.update(name=name, unit=runs[0].get("time_unit", "ns"))
    if failed:
        row["counters"] = failed.get("error_message", "failed")
        return row

    def middle(key):
        return quantile([r[key] for r in runs if key in r], 5)

    taken = FIXED | {"median_us", "p10_us", "p90_us"}
    if "median_us" in runs[0]:
        row["unit"] = "us"
    if "median_us" in runs[0] and len(runs) == 1:
        row.update(samples=runs[0].get("iterations", ""))
        row.update((key, number(runs[0][f"{key}_us"])) for key in ("median", "p10", "p90"))
    elif any("real_time" in r for r in runs):  # else it has counters and no time
        times = [r.get("median_us", r["real_time"]) for r in runs]
        row.update(median=number(quantile(times, 5)), p10=number(quantile(times, 1)),
                   p90=number(quantile(times, 9)), samples=len(runs))
    for key, (factor, unit) in RATES.items():
        if not row["rate"] and key in runs[0]:
            row.update(rate=number(middle(key) * factor), rate_unit=unit)
            taken.add(key)
    counters = dict.fromkeys(key for r in runs for key in r if key not in taken)
    row["counters"] = " ".join(f"{key}={number(middle(key))}" for key in counters)
    return row


def compact(data):
    """The text of a CSV file."""
    context = dict(data["context"])
    if "date" in context:
        context["date"] = utc(context["date"])
    keys = [key for key in KEPT if key in context] + sorted(k for k in context if k.startswith("version_"))
    runs = {}
    for b in data["benchmarks"]:
        if b.get("run_type") != "aggregate":
            runs.setdefault(OPTIONS.sub("", b["name"]), []).append(b)
    out = io.StringIO()
    for key in keys:
        value = " ".join(str(context[key]).split())
        out.write(f"# {key}: {value}\n")
    table = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    table.writeheader()
    table.writerows(row_of(name, of) for name, of in runs.items())
    return out.getvalue()


def read(path):
    """({context}, [{column: text}]) of a file that compact() made."""
    with open(path, encoding="utf-8", newline="") as f:
        lines = f.read().splitlines(keepends=True)
    header = [line for line in lines if line.startswith("#")]
    context = dict(line[1:].strip().split(": ", 1) for line in header)
    return context, list(csv.DictReader(lines[len(header):]))


def folder_of(context):
    """nvidia-h100-80gb-hbm3, host-runtime: the folder of a device's results."""
    name = "host runtime" if context.get("runtime", "").startswith("host") else context.get("device", "gpu")
    return re.sub(r"[^a-z0-9-]", "", name.lower().replace(" ", "-"))


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", help="the folder to write to; bench/results/<device> where it is not given")
    parser.add_argument("json", nargs="+")
    options = parser.parse_args(arguments)
    for path in options.json:
        with open(path, encoding="utf-8") as f:
            data = json.load(f)
        folder = options.out or os.path.join(ROOT, "bench", "results", folder_of(data["context"]))
        os.makedirs(folder, exist_ok=True)
        target = os.path.join(folder, os.path.splitext(os.path.basename(path))[0] + ".csv")
        with open(target, "w", encoding="utf-8", newline="") as f:
            f.write(compact(data))
        print(os.path.relpath(target))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
