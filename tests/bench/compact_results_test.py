# SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
# SPDX-License-Identifier: Apache-2.0
"""bench/support/compact_results.py, on results made up here."""
import contextlib
import io
import json
import os
import shutil
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "bench", "support"))
import compact_results  # noqa: E402


def repetition(name, time, **more):
    return {"name": name, "run_type": "iteration", "real_time": time, "cpu_time": 1.0, "iterations": 1000,
            "time_unit": "ns", **more}


class Compact(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def rows(self, *benchmarks, **context):
        path = os.path.join(self.folder, "a.csv")
        with open(path, "w", encoding="utf-8") as f:
            f.write(compact_results.compact({"context": context, "benchmarks": benchmarks}))
        self.context, rows = compact_results.read(path)
        return rows

    def test_repetitions_become_one_line(self):
        times = (30.0, 10.0, 50.0, 20.0, 40.0)
        rows = self.rows(*(repetition("pair/256/real_time/threads:4", t, items_per_second=1e9 / t) for t in times),
                         repetition("pair/256/real_time/threads:4_median", 1.0, run_type="aggregate"))
        self.assertEqual(len(rows), 1)
        self.assertEqual([rows[0][c] for c in compact_results.COLUMNS],
                         ["pair/256/threads:4", "30", "10", "50", "ns", "5", "33333333", "items/s", ""])

    def test_a_run_with_samples_of_its_own_keeps_their_spread(self):
        rows = self.rows(repetition("triad_f32/ew/1024/20/iterations:300/repeats:1/manual_time", 9.0, iterations=300,
                                    time_unit="us", median_us=7.0719998, p10_us=6.336, p90_us=8.32, sets=4096.0,
                                    **{"GB/s": 1.73756}))
        self.assertEqual([rows[0][c] for c in compact_results.COLUMNS],
                         ["triad_f32/ew/1024/20", "7.072", "6.336", "8.32", "us", "300", "1.7376", "GB/s",
                          "sets=4096"])

    def test_bytes_a_second_become_gb_a_second(self):
        rows = self.rows(repetition("copy/4096", 7.0, bytes_per_second=2.5e12, hits=0.75))
        self.assertEqual((rows[0]["rate"], rows[0]["rate_unit"], rows[0]["counters"]), ("2500", "GB/s", "hits=0.75"))

    def test_counters_without_a_time(self):
        untimed = {"name": "replay/a/torch/idle", "run_type": "iteration", "time_unit": "us", "ratio": 1.25}
        rows = self.rows(untimed)
        self.assertEqual((rows[0]["median"], rows[0]["samples"], rows[0]["counters"]), ("", "", "ratio=1.25"))

    def test_a_failure_keeps_its_message(self):
        rows = self.rows(repetition("triad/bad", 0.0, error_occurred=True, error_message="wrong results, all"))
        self.assertEqual((rows[0]["median"], rows[0]["counters"]), ("", "wrong results, all"))

    def test_the_header_says_what_was_measured_and_on_what(self):
        self.rows(repetition("a", 1.0), date="2026-01-02T03:04:05+01:00", device="Some GPU", host_name="a name",
                  warpwright_commit="abc1234", version_CCCL="3.4.2", command="a  command: of\nlines")
        self.assertEqual(self.context, {"device": "Some GPU", "date": "2026-01-02 02:04", "version_CCCL": "3.4.2",
                                        "warpwright_commit": "abc1234", "command": "a command: of lines"})

    def test_a_new_run_replaces_the_old_one_of_the_device(self):
        path = os.path.join(self.folder, "some_bench.json")
        for time in (1.0, 2.0):
            with open(path, "w", encoding="utf-8") as f:
                json.dump({"context": {}, "benchmarks": [repetition("a", time)]}, f)
            with contextlib.redirect_stdout(io.StringIO()):
                self.assertEqual(compact_results.main(["--out", self.folder, path]), 0)
        _, rows = compact_results.read(os.path.join(self.folder, "some_bench.csv"))
        self.assertEqual([row["median"] for row in rows], ["2"])

    def test_folders(self):
        self.assertEqual(compact_results.folder_of({"device": "NVIDIA H100 80GB HBM3"}), "nvidia-h100-80gb-hbm3")
        self.assertEqual(compact_results.folder_of({"device": "x", "runtime": "host (no GPU)"}), "host-runtime")


if __name__ == "__main__":
    unittest.main()
