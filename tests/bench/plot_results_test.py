# SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
# SPDX-License-Identifier: Apache-2.0
"""bench/support/plot_results.py, on results made up here."""
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
import plot_results  # noqa: E402

FOLDER = "some-gpu"


def line(name, gbs, us=1.0, **more):
    return {"name": f"{name}/iterations:60/repeats:1/manual_time", "run_type": "iteration", "real_time": us,
            "iterations": 60, "time_unit": "us", "median_us": us, "p10_us": us, "p90_us": us, "GB/s": gbs, **more}


def run_of(lines, date="2026-01-02T03:04:05+01:00", **context):
    return {"context": {"date": date, "device": "Some GPU", "driver": "580.1.2", "runtime": "cuda",
                        "runtime_cuda_version": "13000", "warpwright_commit": "abc1234", "command": "the command",
                        **context}, "benchmarks": lines}


def sizes(name, gbs, powers=(10, 12, 14, 16), launches="/1"):
    return [line(f"{name}/{1 << p}{launches}", gbs + p) for p in powers]


class Results(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.root)
        self.results = os.path.join(self.root, "results")
        self.page = os.path.join(self.root, "docs", "measured.md")
        self.tables = os.path.join(self.root, "docs", "measured_tables.md")
        os.makedirs(os.path.dirname(self.page))

    def write(self, file, data, folder=FOLDER):
        path = os.path.join(self.results, folder)
        os.makedirs(path, exist_ok=True)
        with open(os.path.join(path, file.replace(".json", ".csv")), "w", encoding="utf-8") as f:
            f.write(compact_results.compact(data))

    def make(self):
        return plot_results.make(self.results, self.page)

    def text(self):
        return self.make()[self.tables]

    def call(self, *arguments):
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
            status = plot_results.main(["--results", self.results, "--page", self.page, *arguments])
        return status, said.getvalue()

    def test_one_line_a_peer_and_where_it_is_from(self):
        self.write("kernel_a_bench.json", run_of(sizes("triad_f32/warpwright_ew", 100)
                                                 + sizes("triad_f32/cub_device_transform", 80)))
        files = self.make()
        svg = files[os.path.join(self.root, "docs", "measured", "some-gpu-triad.svg")]
        xml.etree.ElementTree.fromstring(svg)
        self.assertEqual(svg.count('class="l p0 o" d="M'), 3)  # legend, GB/s, share of the fastest
        self.assertIn("cub::DeviceTransform of the toolkit", svg)
        text = files[self.tables]
        for part in ("## Some GPU", "2026-01-02 02:04 UTC", "driver 580.1.2", "CUDA 13.0", "commit `abc1234`",
                     "(measured/some-gpu-triad.svg)",
                     "| [triad](#triad) | f32, one launch at a time | 2<sup>10</sup> to 2<sup>16</sup> | 1.00 | 116 |  "
                     "| 120.8 % at 2<sup>16</sup>: cub::DeviceTransform of the toolkit | 121.5 % | 122.2 % |"):
            self.assertIn(part, text)

    def test_same_input_same_output(self):
        self.write("kernel_a_bench.json", run_of(sizes("triad_f32/warpwright_ew", 100) + sizes("triad_f16/new", 5)))
        self.assertEqual(self.make(), self.make())

    def test_names(self):
        parse = plot_results.parse_name
        self.assertEqual(parse("triad_f32/ew/1024/20/iterations:60/manual_time"),
                         ("triad", "f32", "ew", (1024,), 20))
        self.assertEqual(parse("gelu_row_bias_bf16/ew/1024/1"), ("gelu_row_bias", "bf16", "ew", (1024,), 1))
        self.assertEqual(parse("cast_f32_to_bf16/ew/4096"), ("cast", "f32 to bf16", "ew", (4096,), None))
        self.assertEqual(parse("softmax_f32/ew/64/4096/1"), ("softmax", "f32", "ew", (64, 4096), 1))
        self.assertEqual(parse("softmax_f32/ew/rows:64/cols:4096"), ("softmax", "f32", "ew", (64, 4096), None))
        self.assertEqual(parse("something/ew/7"), ("something", "", "ew", (7,), None))
        self.assertEqual(parse("transpose_u8/ew/iterations:60"), ("transpose", "u8", "ew", (), None))
        self.assertIsNone(parse("something/ew"))

    def test_other_programs_add_peers_and_replace_none(self):
        self.write("kernel_a_bench.json", run_of(sizes("triad_f32/warpwright_ew", 100)
                                                 + sizes("triad_f32/cub_device_transform", 80)))
        self.write("kernel_a_bench_cccl.json", run_of(sizes("triad_f32/warpwright_ew", 1)
                                                      + sizes("triad_f32/cub_device_transform_cccl", 200),
                                                      version_CCCL="3.4.2"))
        self.write("kernel_torch_peers.json", run_of(sizes("triad_f32/torch_eager", 50)))
        self.write("kernel_torch_peers.json", run_of(sizes("triad_f32/torch_compile", 50)), "another-gpu")
        files = self.make()
        text = files[self.tables].split("## Some GPU")[2]
        for part in ("| 116 |", ", CCCL 3.4.2", "File 1 and 2 and 3"):
            self.assertIn(part, text)
        svg = files[os.path.join(self.root, "docs", "measured", "some-gpu-triad.svg")]
        for peer in ("cub::DeviceTransform of the toolkit", "cub::DeviceTransform of newer CCCL", "PyTorch, eager"):
            self.assertIn(peer, svg)
        self.assertNotIn("torch.compile", svg)  # of another device

    def test_a_peer_of_another_program_is_compared_with_our_path_there(self):
        self.write("kernel_a_bench.json", run_of(sizes("triad_f32/warpwright_ew", 100)
                                                 + sizes("triad_f32/cub_device_transform", 80)))
        self.write("kernel_a_bench_cccl.json", run_of(sizes("triad_f32/warpwright_ew", 70)
                                                      + sizes("triad_f32/cub_device_transform_cccl", 90)))
        # 80 of 100 there, 110 of 90 here: in its own run the newer one is the fastest.
        self.assertIn("| 80.0 % at 2<sup>10</sup>: cub::DeviceTransform of newer CCCL |", self.text())

    def test_the_strip_has_a_peer_of_another_run_beside_ours_of_that_run(self):
        self.write("kernel_a_bench.json", run_of(sizes("triad_f32/warpwright_ew", 100)
                                                 + sizes("triad_f32/cub_device_transform", 80)))
        # A run on a faster machine: more than ours above, but less than ours there.
        self.write("kernel_a_bench_cccl.json", run_of(sizes("triad_f32/warpwright_ew", 200)
                                                      + sizes("triad_f32/cub_device_transform_cccl", 150)))
        svg = self.make()[os.path.join(self.root, "docs", "measured", "some-gpu-triad.svg")]
        heights = []  # of the last line of each peer, which is in the strip
        for k in range(3):
            points = svg.split(f'class="l p{k}')[-1].split(' d="M')[1].split('"')[0]
            heights.append({point.split(" ")[1] for point in points.split("L")})
        self.assertEqual(len(heights[0]), 1)  # ours: the fastest at every size
        self.assertTrue(all(float(y) > float(min(heights[0])) for peer in heights[1:] for y in peer))

    def test_the_host_runtime_and_failures_are_left_out(self):
        self.write("kernel_a_bench.json", run_of(sizes("triad_f32/warpwright_ew", 900)), "host-runtime")
        self.write("kernel_b_bench.json", run_of(sizes("dot_f32/warpwright_ew", 900), runtime="host (no GPU)"))
        with self.assertRaises(SystemExit):
            self.make()
        self.write("kernel_a_bench.json", run_of(
            sizes("triad_f32/warpwright_ew", 100)
            + [line("triad_f32/bad/1024/1", 0, error_occurred=True, error_message="wrong results")]))
        self.assertIn("Not shown, as it failed", self.text())
        self.assertNotIn("910", self.text())

    def test_repetitions_count_by_their_median(self):
        lines = [line("triad_f32/warpwright_ew/1024/1", gbs) for gbs in (100, 300, 200)]
        lines.append(line("triad_f32/warpwright_ew/1024/1", 999, run_type="aggregate"))
        self.write("kernel_a_bench.json", run_of(lines))
        self.assertIn("| 2<sup>10</sup> | 1.00 | 200 |", self.text())

    def test_one_size_alone_has_no_plot(self):
        self.write("kernel_a_bench.json", run_of(sizes("triad_f32/warpwright_ew", 100, (10,))))
        self.assertEqual(sorted(self.make()), [self.page, self.tables])

    def test_one_size_that_is_not_named_has_a_table(self):
        self.write("kernel_a_bench.json", run_of([line("transpose_f32/warpwright_ew", 90),
                                                  line("transpose_f32/by_hand", 60)]))
        text = self.text()
        self.assertIn("| transpose | f32 | one size | 1.00 | 90.0 |  | 150.0 %: by hand |  |  |", text)
        self.assertIn("- transpose: 8,192 x 8,192, transposed", text)

    def test_rows_stand_over_their_length(self):
        def shapes(*of):
            return {"warpwright_rows": {s: (100.0, 1.0) for s in of}}

        self.assertEqual(plot_results.axis(shapes((64, 256), (64, 1024), (16, 1 << 20)))[1], "elements a row")
        self.assertEqual(plot_results.axis(shapes((64, 256), (128, 256)))[1], "elements (n)")
        self.assertIsNone(plot_results.axis(shapes((64, 256), (128, 256), (256, 64))))
        self.assertEqual(plot_results.axis(shapes((64,), (128,)))[1], "elements (n)")
        self.assertIsNone(plot_results.axis(shapes((64,))))

    def test_unknown_peers_get_colours_of_their_own(self):
        self.write("kernel_a_bench.json", run_of(sizes("triad_f32/warpwright_ew", 100) + sizes("triad_f32/a_peer", 9)
                                                 + sizes("dot_f32/b_peer", 9)))
        looks = plot_results.Looks({"a_peer", "b_peer", "warpwright_ew"})
        self.assertEqual(looks.of["a_peer"][0], "a peer")
        self.assertNotEqual(looks.of["a_peer"][1], looks.of["b_peer"][1])

    def test_highlights(self):
        self.write("kernel_a_bench.json", run_of(sizes("triad_f32/warpwright_ew", 100)))
        self.assertNotIn("###", self.make()[self.page])  # none of what it shows was measured
        self.write("memory_pool_bench.json", run_of(
            [{"name": f"{name}/1048576/threads:{threads}", "real_time": ns, "time_unit": "ns"}
             for name, threads, ns in (("memory_pool_pair", 1, 40), ("cuda_malloc_async_pair", 1, 1000),
                                       ("memory_pool_pair", 16, 2.5), ("cuda_malloc_async_pair", 16, 4000))]))
        self.write("memory_staging_bench.json", run_of(
            [line("staging_to_device/1073741824/8", 50), line("cuda_memcpy_pageable_to_device/1073741824", 10),
             line("staging_to_device/1048576/8", 12), line("cuda_memcpy_pageable_to_device/1048576", 15)]))
        files = self.make()
        text = files[self.page]
        for part in ("| 40.0 ns | cudaMallocAsync 1.00 us (25.0 x) | [memory_pool_bench]"
                     "(../results/some-gpu/memory_pool_bench.csv) |",
                     "| 40.0 ns | cudaMallocAsync 64.0 us (1,600 x) |",  # of one of 16 threads
                     "| 50.0 GB/s | cudaMemcpy 10.0 GB/s (5.00 x) |",
                     "| 12.0 GB/s | cudaMemcpy 15.0 GB/s (0.800 x) |",
                     "(measured/some-gpu-highlights.svg)"):
            self.assertIn(part, text)
        self.assertLess(text.index("(5.00 x)"), text.index("### Where it gains little, or loses"))
        self.assertGreater(text.index("(0.800 x)"), text.index("### Where it gains little, or loses"))
        svg = files[os.path.join(self.root, "docs", "measured", "some-gpu-highlights.svg")]
        xml.etree.ElementTree.fromstring(svg)
        self.assertIn("40.0 ns, not 1.00 us (cudaMallocAsync)", svg)
        self.assertNotIn("64.0 us", svg)

    def test_times_of_graphs_are_tables(self):
        self.write("kernel_a_bench.json", run_of(sizes("triad_f32/warpwright_ew", 100)))
        without = self.text()

        def time(name, us):
            of = line(name, 0, us)
            del of["GB/s"]
            return of

        self.write("graph_a_bench.json", run_of([time("hit/bare_launch/1", 2.0), time("hit/graph_cache/1", 2.125),
                                                 time("unknown/a/1", 5.0), time("eager_step/1", 5.0)]))
        self.write("graph_b_bench.json", run_of([time("replay/raw_graph/1000", 1081.1), time("replay/eager/20", 68.0)]))
        self.write("graph_b_bench.json", run_of([time("replay/eager/20", 1.0)]), "host-runtime")
        text = self.text()
        self.assertTrue(text.startswith(without))
        section = text[len(without):]
        for part in ("## CUDA graphs on Some GPU", "[`graph_a_bench.csv`](../results/some-gpu/graph_a_bench.csv)",
                     "| kernels | graph cache | bare launch |", "| 1 | 2.125 | 2.000 |",
                     "| kernels | eager | raw graph |", "| 20 | 68.000 |  |", "| 1,000 |  | 1,081.1 |"):
            self.assertIn(part, section)
        self.assertLess(section.index("### replay"), section.index("### hit"))
        self.assertNotIn("unknown", section)

    def test_the_programs_of_graphs_measure_what_has_a_title(self):
        folder = os.path.join(ROOT, "bench", "graph")
        named = set()
        for file in os.listdir(folder):
            with open(os.path.join(folder, file), encoding="utf-8") as f:
                named.update(re.findall(r'register_all\(\s*\w+,\s*"(\w+)"', f.read()))
        self.assertEqual(named, set(plot_results.TIMES))

    def test_check(self):
        self.write("kernel_a_bench.json", run_of(sizes("triad_f32/warpwright_ew", 100)))
        self.assertEqual(self.call("--check")[0], 1)
        self.assertEqual(self.call()[0], 0)
        self.assertEqual(self.call("--check")[0], 0)
        stale = os.path.join(self.root, "docs", "measured", "gone.svg")
        open(stale, "w").close()
        status, said = self.call("--check")
        self.assertEqual(status, 1)
        self.assertIn("gone.svg is not what bench/results says; run ./run plots", said)
        self.call()
        self.assertFalse(os.path.exists(stale))
        with open(self.page, "a", encoding="utf-8") as f:
            f.write("by hand\n")
        self.assertEqual(self.call("--check")[0], 1)


if __name__ == "__main__":
    unittest.main()
