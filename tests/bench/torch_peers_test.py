# SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
# SPDX-License-Identifier: Apache-2.0
"""bench/kernel/torch_peers.py, but for what needs PyTorch and a GPU."""
import os
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "bench", "kernel"), os.path.join(ROOT, "bench", "support")]
import compact_results  # noqa: E402
import plot_results  # noqa: E402
import torch_peers  # noqa: E402

OF = {operation.name: operation for operation in torch_peers.OPERATIONS}


class TorchPeers(unittest.TestCase):
    def test_sizes_are_those_of_the_cpp_benchmarks(self):
        self.assertEqual(list(OF["triad"].sizes()), [1 << p for p in range(10, 29, 2)])
        self.assertEqual(list(OF["squares"].sizes()), [1 << p for p in range(16, 29, 2)])
        self.assertEqual(list(OF["dropout"].sizes()), [1 << p for p in range(12, 29, 4)])
        self.assertEqual(OF["gelu"].modes(1 << 22), [1, 20])
        self.assertEqual(OF["gelu"].modes(1 << 24), [1])
        self.assertEqual(OF["dropout"].modes(1 << 28), [20])

    def test_bytes_count_every_array_once(self):
        self.assertEqual(OF["triad"].bytes(1000, "f32"), 12000)
        self.assertEqual(OF["gelu"].bytes(1000, "f16"), 8000)
        self.assertEqual(OF["rotation"].bytes(1000, "bf16"), 8000)
        self.assertEqual(OF["squares"].bytes(1000, "f32"), 4000)

    def test_sets_are_past_l2(self):
        for operation in torch_peers.OPERATIONS:
            for n in operation.sizes():
                sets = operation.sets(n, "f32")
                self.assertGreaterEqual(sets, 1)
                self.assertLessEqual(sets, operation.most_sets)
                enough = sets * operation.bytes(n, "f32") >= 128 << 20
                self.assertTrue(enough or sets == operation.most_sets)

    def test_names_join_the_plots_of_the_cpp_benchmarks(self):
        samples = [float(k) for k in range(1, 61)]
        got = torch_peers.entry(OF["gelu"], "bf16", "torch_compile", 1024, 20, samples, 7)
        self.assertEqual(plot_results.parse_name(got["name"]), ("gelu", "bf16", "torch_compile", (1024,), 20))
        self.assertEqual(got["median_us"], 31.0)
        self.assertEqual((got["p10_us"], got["p90_us"]), (7.0, 55.0))
        self.assertAlmostEqual(got["GB/s"], 4 * 2 * 1024 / 31.0 * 1e-3)
        row = compact_results.row_of(got["name"], [got])
        self.assertEqual(plot_results.speed(row), (float(f"{got['GB/s']:.5g}"), 31.0))
        got = torch_peers.entry(OF["dropout"], "f32", "torch_eager", 4096, 20, samples, 7)
        self.assertEqual(plot_results.parse_name(got["name"]), ("dropout", "f32", "torch_eager", (4096,), None))
        for peer in ("torch_eager", "torch_compile"):
            self.assertIn(peer, plot_results.PEERS)

    def test_cuda_version(self):
        self.assertEqual(torch_peers.cuda_version("13.0"), 13000)
        self.assertEqual(torch_peers.cuda_version("12.8"), 12080)

    def test_every_operation_has_its_functions(self):
        class Torch:  # what is looked up when the functions are made
            class nn:
                functional = None

        functions = torch_peers.functions(Torch)
        self.assertEqual(set(functions), set(OF))
        for peers in functions.values():
            self.assertEqual(set(peers), {"torch_eager", "torch_compile"})


if __name__ == "__main__":
    unittest.main()
