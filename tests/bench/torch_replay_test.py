# SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
# SPDX-License-Identifier: Apache-2.0
"""bench/memory/torch_replay.py without PyTorch and a compiler: a made-up library in their place."""
import ctypes
import gzip
import os
import re
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "bench", "memory"))
sys.path.insert(0, os.path.join(ROOT, "bench", "support"))
import compact_results  # noqa: E402
import torch_replay  # noqa: E402

TRACE = "# {}\na,0,1000,0\na,1,3000,7\nf,0,1000,0\na,0,500,0\n"


class Library:
    """The C functions. Under a busy stream there is no memory left."""

    def __init__(self):
        self.read = []

    def torch_replay_failure(self):
        return b"out of memory: the device"

    def torch_replay_read(self, path, to):
        self.read.append(path)
        trace = to._obj
        trace.operations, trace.peak_live_bytes, trace.streams = 4, 4000, 2
        return 0

    def torch_replay_measure(self, index, busy, passes, rounds, cold, warm, to):
        if busy:
            return 1
        for i in range(rounds):
            cold[i] = 1000 + i
        for i in range(rounds * (passes - 1)):
            warm[i] = 100 + i
        to._obj.loop_ns, to._obj.peak_reserved_bytes = 2.5, 5000
        return 0


class TorchReplay(unittest.TestCase):
    def test_a_benchmark_a_trace_and_mode(self):
        library = Library()
        idle, busy = torch_replay.measure_all(library, "torch", [["small", "small.csv"]], 5, 3)
        self.assertEqual(library.read, [b"small.csv"])
        row = compact_results.row_of("replay/small/torch/idle", [idle])
        self.assertEqual((row["median"], row["p10"], row["p90"], row["unit"], row["samples"]),
                         ("0.106", "0.101", "0.11", "us", 12))
        self.assertEqual(row["counters"],
                         "cold_least_ns=1000 cold_most_ns=1002 cold_ns=1001 loop_ns=2.5 ops=4 passes=5 "
                         "peak_live_mb=0.004 peak_reserved_mb=0.005 ratio=1.25 rounds=3 streams=2")
        self.assertEqual(compact_results.OPTIONS.sub("", idle["name"]), "replay/small/torch/idle")
        self.assertEqual(torch_replay.said(idle),
                         "trace=small allocator=torch mode=idle ops=4 peak_live=4000 peak_reserved=5000 ratio=1.2500 "
                         "ns_per_op=106.0 cold_ns_per_op=1001.0")
        self.assertEqual(compact_results.row_of("", [busy])["counters"], "out of memory: the device")
        self.assertIn("mode=busy failed: out of memory", torch_replay.said(busy))

    def test_traces_are_uncompressed(self):
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, name) for name in ("one two.csv.gz", "three.csv")]
            for path, opened in zip(paths, (gzip.open, open)):
                with opened(path, "wt") as to:
                    to.write(TRACE)
            with tempfile.TemporaryDirectory() as plain:
                (first, packed), second = torch_replay.plain(paths, plain)
                self.assertEqual((first, second), ("one_two", ("three", paths[1])))
                with open(packed) as text:
                    self.assertEqual(text.read(), TRACE)

    def test_the_command_names_what_there_is(self):
        class Torch:
            __file__ = "/torch/__init__.py"

            class _C:
                _GLIBCXX_USE_CXX11_ABI = True

        command = torch_replay.compile_command(Torch, "nvcc", (9, 0), "out.so")
        for word in ("-arch=sm_90", "-D_GLIBCXX_USE_CXX11_ABI=1", "/torch/include", "/torch/lib"):
            self.assertIn(word, command)
        for path in (word for word in command if word.startswith(ROOT)):
            self.assertTrue(os.path.exists(path), path)

    def test_the_structures_are_those_of_the_source(self):
        with open(os.path.join(ROOT, "bench", "memory", "torch_replay.cpp"), encoding="utf-8") as f:
            source = f.read()
        names = {ctypes.c_uint64: "std::uint64_t", ctypes.c_uint32: "std::uint32_t", ctypes.c_double: "double"}
        for structure, name in ((torch_replay.Trace, "trace"), (torch_replay.Result, "result")):
            body = re.search(rf"struct torch_replay_{name} {{\n(.*?)}};", source, re.DOTALL).group(1)
            self.assertEqual(re.findall(r"(\S+) (\w+);", body), [(names[t], n) for n, t in structure._fields_])


if __name__ == "__main__":
    unittest.main()
