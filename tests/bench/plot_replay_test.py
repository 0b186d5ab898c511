# SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
# SPDX-License-Identifier: Apache-2.0
"""bench/support/plot_replay.py, on results made up here."""
import contextlib
import io
import os
import re
import shutil
import sys
import tempfile
import unittest
import xml.etree.ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "bench", "support"))
import compact_results  # noqa: E402
import plot_replay  # noqa: E402
import plot_results  # noqa: E402


def line(name, us, **more):
    return {"name": f"{name}/iterations:12/repeats:1/manual_time", "run_type": "iteration", "real_time": us,
            "iterations": 12, "time_unit": "us", "median_us": us, "p10_us": us, "p90_us": us, **more}


def replayed(trace, allocator, ns, cold_ns, ratio, mode="idle", **more):
    return line(f"replay/{trace}/{allocator}/{mode}", 1e-3 * ns, cold_ns=cold_ns, ratio=ratio, peak_live_mb=485.0,
                ops=73096.0, streams=1.0, passes=5.0, **more)


def limit(trace, allocator, multiple):
    return line(f"least_limit/{trace}/{allocator}", 1.0, least_limit=multiple)


SOME = [replayed("bert", "warpwright", 60, 1900, 1.08, cuda_calls_per_op=0.001),
        replayed("bert", "warpwright_compact", 896, 2000, 1.0295, cuda_calls_per_op=0.0132),
        replayed("bert", "warpwright_slack_30", 42, 1700, 1.29),
        replayed("bert", "cuda_malloc_async", 1017, 961, 1.661, cuda_calls_per_op=1.0),
        replayed("bert", "rmm_pool", 800, 900, 1.94), replayed("bert", "warpwright", 90, 2100, 1.081, "busy"),
        limit("bert", "warpwright", 1.015), limit("bert", "rmm_arena", 1.3)]
TORCH = [{"name": "replay/bert/torch/idle", "run_type": "iteration", "time_unit": "us", "ratio": 1.7519, "ops": 73096,
          "peak_live_mb": 484.8, "passes": 5}]


class Replay(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.root)
        self.results = os.path.join(self.root, "results")
        self.page = os.path.join(self.root, "docs", "measured_memory.md")
        os.makedirs(self.results)
        os.makedirs(os.path.dirname(self.page))

    def write(self, lines, file="memory_replay_bench.csv", folder="some-gpu", **context):
        context = {"date": "2026-01-02T03:04:05+00:00", "device": "Some GPU", "driver": "580.1.2", "runtime": "cuda",
                   "warpwright_commit": "abc1234", **context}
        path = os.path.join(self.results, folder, file)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(compact_results.compact({"context": context, "benchmarks": lines}))
        return path

    def call(self, *arguments):
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
            status = plot_replay.main(["--results", self.results, "--page", self.page, *arguments])
        return status, said.getvalue()

    def files(self):
        self.assertEqual(self.call()[0], 0)
        folder = os.path.splitext(self.page)[0]
        plots = {f: plot_results.read(os.path.join(folder, f)) for f in sorted(os.listdir(folder))}
        return plot_results.read(self.page), plots

    def test_a_line_an_allocator(self):
        self.write(SOME, version_RMM="26.10.0")
        self.write(TORCH, "memory_torch_replay.csv", version_PyTorch="2.11")
        page, _ = self.files()
        for row in ("| warpwright, default | 1.080 | 60 | 1,900 | 90 | 2,100 | 0.0010 | 1.015 |",
                    "| warpwright, compact | 1.030 | 896 | 2,000 |  |  | 0.0132 |  |",
                    "| warpwright, 30 % | 1.290 | 42 | 1,700 |  |  |  |  |",
                    "| RMM pool | 1.940 | 800 | 900 |  |  |  |  |", "| RMM arena |  |  |  |  |  |  | 1.3 |",
                    "| PyTorch | 1.752 |  |  |  |  |  |  |"):
            self.assertIn(row, page)
        self.assertIn("PyTorch 2.11, RMM 26.10.0, commit `abc1234`", page)
        self.assertIn("memory_torch_replay.csv), 2026-01-02 03:04.", page)
        self.assertLess(page.index("warpwright, default"), page.index("warpwright, 30 %"))

    def test_a_plot_a_trace(self):
        self.write(SOME + [replayed("gpt2", "warpwright", 30, 3000, 1.08)])
        _, plots = self.files()
        self.assertEqual(list(plots), ["some-gpu-bert.svg", "some-gpu-gpt2.svg"])
        for plot in plots.values():
            xml.etree.ElementTree.fromstring(plot)
            self.assertNotIn("nan", plot)
        words = " ".join(xml.etree.ElementTree.fromstring(plots["some-gpu-bert.svg"]).itertext())
        for word in ("bert: 73,096 operations, 1 stream, peak of live memory 485 MB", "compact", "30 %", "RMM pool",
                     "passes 2 to 5", "ns an operation", "peak reserved / peak live memory", "Some GPU",
                     "2026-01-02 03:04 UTC", "abc1234"):
            self.assertIn(word, words)

    def test_pytorch_is_a_point_where_it_has_a_time_else_a_line(self):
        drawn = []
        for torch in (TORCH, [replayed("bert", "torch", 300, 5000, 1.7519), replayed("bert", "torch", 310, 5100, 1.7519,
                                                                                     "busy")]):
            self.write(SOME)
            self.write(torch, "memory_torch_replay.csv")
            page, plots = self.files()
            plot = plots["some-gpu-bert.svg"]
            cls = re.search(r"\.(p\d+){--c:" + plot_replay.ALLOCATORS["torch"][1], plot).group(1)
            drawn.append([plot.count(f'class="{kind} {cls}"') for kind in "lmr"])
        self.assertIn("| PyTorch | 1.752 | 300 | 5,000 | 310 | 5,100 |  |  |", page)
        # A line a panel and one of the legend; a filled and a hollow marker a panel and one of the legend.
        self.assertEqual(drawn, [[3, 0, 0], [0, 3, 2]])

    def test_every_point_is_inside_of_its_panel(self):
        self.write([replayed("a", "warpwright", 0, 1e6, 1.0), replayed("a", "rmm_pool", 1e5, 1, 60.0)])
        _, plots = self.files()
        root = xml.etree.ElementTree.fromstring(plots["some-gpu-a.svg"])
        for circle in root.iter("{http://www.w3.org/2000/svg}circle"):
            self.assertTrue(0 < float(circle.get("cx")) < plot_replay.WIDTH)
            self.assertTrue(0 < float(circle.get("cy")) < float(root.get("height")))

    def test_a_trace_that_only_pytorch_has_is_left_out(self):
        self.write(SOME)
        self.write([{**TORCH[0], "name": "replay/other/torch/idle"}, replayed("more", "torch", 1, 2, 1.5)],
                   "memory_torch_replay.csv")
        page, plots = self.files()
        self.assertEqual(list(plots), ["some-gpu-bert.svg"])
        self.assertNotIn("### other", page)
        self.assertNotIn("### more", page)

    def test_failures_are_named(self):
        self.write(SOME + [{**replayed("bert", "rmm_binning", 1, 1, 1.0), "error_occurred": True,
                            "error_message": "out of memory: the device"}])
        page, _ = self.files()
        self.assertIn("Not shown, as it failed: `replay/bert/rmm_binning/idle` (out of memory: the device).", page)

    def test_the_host_runtime_is_shown_only_when_it_is_named(self):
        path = self.write(SOME, folder="host-runtime", runtime="host (no GPU speed is measured)")
        self.assertEqual(self.call()[0], 0)
        self.assertFalse(os.path.exists(self.page))
        self.assertEqual(self.call(path)[0], 0)
        with open(self.page, encoding="utf-8") as f:
            self.assertIn("says nothing of a GPU's speed", f.read())

    def test_check(self):
        self.assertEqual(self.call("--check"), (0, ""))  # nothing measured, and no page
        self.write(SOME)
        status, said = self.call("--check")
        self.assertEqual(status, 1)
        self.assertIn("run ./run plots", said)
        self.files()
        self.assertEqual(self.call("--check"), (0, ""))


if __name__ == "__main__":
    unittest.main()
