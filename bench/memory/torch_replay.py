#!/usr/bin/env python3
# SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
# SPDX-License-Identifier: Apache-2.0
"""Replays allocation traces on PyTorch's caching allocator, a peer of those of memory_replay_bench:

    python3 bench/memory/torch_replay.py [--passes N] [--rounds N] [--out FILE.json] trace.csv.gz...
    python3 bench/support/compact_results.py FILE.json    # into bench/results

Compiles torch_replay.cpp with nvcc against the installed PyTorch, into a temporary folder, and calls it:
the passes, what of them is timed and the counters are those of memory_replay_bench, whose loop it compiles
(replay_passes.hpp). nvcc is the one in PATH or of CUDA_HOME, CUDA_PATH or /usr/local/cuda, of the major
version that PyTorch was built for.

Reads warpwright_replay's formats, plain or gzip, and prints a line for each trace, configuration (the
default, and expandable segments) and mode (idle and busy streams). The same figures go to FILE.json in the
format of Google Benchmark; call it memory_torch_replay.json, which plot_replay.py shows beside
memory_replay_bench. Each configuration runs in its own process, because PyTorch reads it once.

What differs from the other peers: a round's new allocator is the process's only one with an empty cache; a
block freed on any stream goes back to the one that it was allocated on; CUDA calls are not counted, and
there is no least limit. --dry-run compiles, reads the traces and needs no GPU. Exit status 77 without
PyTorch or a GPU.
"""
import argparse
import ctypes
import gzip
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

BENCH = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(BENCH, "kernel"))
import torch_peers  # noqa: E402

CONFIGURATIONS = {"torch": "", "torch_expandable": "expandable_segments:True"}
MODES = ("idle", "busy")


# --- The library --------------------------------------------------------------------------------


class Trace(ctypes.Structure):
    """torch_replay_trace of torch_replay.cpp."""
    _fields_ = [("operations", ctypes.c_uint64), ("peak_live_bytes", ctypes.c_uint64), ("streams", ctypes.c_uint32)]


class Result(ctypes.Structure):
    """torch_replay_result of torch_replay.cpp."""
    _fields_ = [("loop_ns", ctypes.c_double), ("peak_reserved_bytes", ctypes.c_uint64)]


def find_nvcc():
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    found = [shutil.which("nvcc")] + [shutil.which(os.path.join(home, "bin", "nvcc")) for home in homes if home]
    nvcc = next(filter(None, found), None)
    if not nvcc:
        sys.exit("no nvcc, which compiles torch_replay.cpp: install the CUDA Toolkit, or set CUDA_HOME")
    return nvcc


def compile_command(torch, nvcc, architecture, library):
    """architecture: (9, 0), or None for the compiler's own choice."""
    root = os.path.dirname(BENCH)
    folder = os.path.dirname(os.path.abspath(torch.__file__))
    torch_libraries = os.path.join(folder, "lib")
    return [nvcc, "-x", "cu", "-std=c++17", "-O3", "-DNDEBUG",
            f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}",
            *(["-arch=sm_{}{}".format(*architecture)] if architecture else []),
            "-I", os.path.join(root, "include"), "-I", BENCH,
            "-I", os.path.join(root, "tools", "warpwright_replay"), "-isystem", os.path.join(folder, "include"),
            # PyTorch's own copy of the runtime, which is loaded already.
            "-cudart", "shared", "-shared", "-Xcompiler", "-fPIC",
            "-o", library, os.path.join(BENCH, "memory", "torch_replay.cpp"),
            "-L", torch_libraries, "-lc10_cuda", "-lc10", "-Xlinker", "-rpath", "-Xlinker", torch_libraries]


def build(torch, folder, architecture):
    library = os.path.join(folder, "libtorch_replay.so")
    command = compile_command(torch, find_nvcc(), architecture, library)
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout}torch_replay.cpp cannot be compiled against PyTorch "
                 f"{torch.__version__}; the messages are above")
    return library


def load(library):
    loaded = ctypes.CDLL(library)
    loaded.torch_replay_failure.restype = ctypes.c_char_p
    return loaded


def read(library, path):
    trace = Trace()
    if library.torch_replay_read(os.fsencode(path), ctypes.byref(trace)):
        sys.exit(library.torch_replay_failure().decode(errors="replace"))
    return trace


def plain(paths, folder):
    """(name, path) of each trace, without compression: by gzip's first bytes, as warpwright_replay tells it."""
    for i, path in enumerate(map(pathlib.Path, paths)):
        with open(path, "rb") as opened:
            packed = opened.read(2) == b"\x1f\x8b"
        name = path.name
        for ending in (".gz", ".csv", ".log", ".txt"):
            name = name[:-len(ending)] if name.endswith(ending) else name
        if packed:
            whole, path = path, pathlib.Path(folder, f"{i}-{path.stem}")
            with gzip.open(whole, "rb") as text, open(path, "wb") as to:
                shutil.copyfileobj(text, to)
        yield "_".join(name.split()), str(path)


# --- Measuring ----------------------------------------------------------------------------------


def measure(library, index, mode, passes, rounds):
    """(ns of the first passes, ns of the later ones, Result) of a trace that was read; text on failure."""
    cold, warm, result = (ctypes.c_double * rounds)(), (ctypes.c_double * (rounds * (passes - 1)))(), Result()
    if library.torch_replay_measure(index, int(mode == "busy"), passes, rounds, cold, warm, ctypes.byref(result)):
        return library.torch_replay_failure().decode(errors="replace")
    return list(cold), list(warm), result


def entry(name, trace, measured, passes, rounds):
    """A benchmark in the JSON of Google Benchmark, with the counters of memory_replay_bench."""
    count = rounds * (passes - 1)
    name += f"/iterations:{count}/repeats:1/manual_time"
    shape = {"name": name, "run_name": name, "run_type": "iteration", "repetitions": 1, "repetition_index": 0,
             "threads": 1, "iterations": count, "time_unit": "us"}
    if isinstance(measured, str):
        return {**shape, "error_occurred": True, "error_message": measured}
    cold, warm, result = sorted(measured[0]), sorted(measured[1]), measured[2]
    return {**shape, "real_time": 1e-3 * sum(warm) / count, "cold_least_ns": cold[0], "cold_most_ns": cold[-1],
            "cold_ns": cold[rounds // 2], "loop_ns": result.loop_ns, "median_us": 1e-3 * warm[count // 2],
            "ops": trace.operations, "p10_us": 1e-3 * warm[count // 10], "p90_us": 1e-3 * warm[count * 9 // 10],
            "passes": passes, "peak_live_mb": 1e-6 * trace.peak_live_bytes,
            "peak_reserved_mb": 1e-6 * result.peak_reserved_bytes,
            "ratio": result.peak_reserved_bytes / max(trace.peak_live_bytes, 1), "rounds": rounds,
            "streams": trace.streams}


def said(benchmark):
    """The line of a benchmark."""
    _, trace, allocator, mode, *_ = benchmark["name"].split("/")
    head = f"trace={trace} allocator={allocator} mode={mode}"
    if "error_message" in benchmark:
        return f"{head} failed: {benchmark['error_message']}"
    return (f"{head} ops={benchmark['ops']} peak_live={round(1e6 * benchmark['peak_live_mb'])} "
            f"peak_reserved={round(1e6 * benchmark['peak_reserved_mb'])} ratio={benchmark['ratio']:.4f} "
            f"ns_per_op={1e3 * benchmark['median_us']:.1f} cold_ns_per_op={benchmark['cold_ns']:.1f}")


def measure_all(library, allocator, traces, passes, rounds):
    """The benchmarks of one configuration: the one that this process was started with."""
    shapes = [read(library, path) for _, path in traces]
    for i, (name, _) in enumerate(traces):
        for mode in MODES:
            yield entry(f"replay/{name}/{allocator}/{mode}", shapes[i], measure(library, i, mode, passes, rounds),
                        passes, rounds)


def of_children(library, traces, passes, rounds):
    """The benchmarks of all configurations, each from a process of its own."""
    for allocator, configuration in CONFIGURATIONS.items():
        environment = dict(os.environ, PYTORCH_ALLOC_CONF=configuration)
        for other in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_NO_CUDA_MEMORY_CACHING"):
            environment.pop(other, None)
        job = json.dumps([library, allocator, traces, passes, rounds])
        with subprocess.Popen([sys.executable, __file__, "--job", job], env=environment, stdout=subprocess.PIPE,
                              text=True) as child:
            for line in child.stdout:
                yield json.loads(line)
        if child.returncode:
            sys.exit(f"{allocator}: the replay ended with status {child.returncode}")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--passes", type=int, default=5, help="passes over a trace on the same allocator (5)")
    parser.add_argument("--rounds", type=int, default=3, help="how often that is done on a new one (3)")
    parser.add_argument("--out", help="a file for compact_results.py")
    parser.add_argument("--dry-run", action="store_true", help="compile and read the traces, without a GPU")
    parser.add_argument("--job", help=argparse.SUPPRESS)  # of a process of one configuration
    parser.add_argument("traces", nargs="*", metavar="TRACE")
    options = parser.parse_args()
    for name, least in (("passes", 2), ("rounds", 1)):
        if getattr(options, name) < least:
            parser.error(f"--{name} {getattr(options, name)}: at least {least} is needed")
    if not options.traces and not options.job:
        parser.error("no trace given")
    return options


def main():
    options = arguments()
    try:
        import torch
    except ImportError:
        print("skipped: no PyTorch")
        sys.exit(77)
    if options.job:  # with PyTorch's libraries loaded, as in a program that uses it
        library, *how = json.loads(options.job)
        for benchmark in measure_all(load(library), *how):
            print(json.dumps(benchmark), flush=True)
        return
    if not options.dry_run and not torch.cuda.is_available():
        print("skipped: PyTorch finds no GPU")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        traces = list(plain(options.traces, folder))
        library = build(torch, folder, None if options.dry_run else torch.cuda.get_device_capability())
        if options.dry_run:
            loaded = load(library)
            for name, path in traces:
                trace = read(loaded, path)
                print(f"trace={name} ops={trace.operations} peak_live={trace.peak_live_bytes} streams={trace.streams}")
            return
        print(f"# PyTorch {torch.__version__}, {torch.cuda.get_device_name()}", flush=True)
        result = {"context": torch_peers.context(torch), "benchmarks": []}
        for benchmark in of_children(library, traces, options.passes, options.rounds):
            print(said(benchmark), flush=True)
            result["benchmarks"].append(benchmark)
    if options.out:
        with open(options.out, "w", encoding="utf-8") as f:
            json.dump(result, f, indent=2)
            f.write("\n")


if __name__ == "__main__":
    main()
