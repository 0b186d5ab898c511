# SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
# SPDX-License-Identifier: Apache-2.0
"""bench/memory/torch_replay.py without PyTorch: a made-up allocator in its place."""
import contextlib
import io
import os
import pathlib
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "bench", "memory"))
import torch_replay  # noqa: E402

TRACE = "# {}\na,0,1000,0\na,1,3000,7\nf,0,1000,0\na,0,500,0\n"


class Cuda:
    """What the replay calls of torch.cuda."""

    def __init__(self):
        self.live, self.next = {}, 0

    class Stream:
        def synchronize(self):
            pass

    def default_stream(self):
        return self.Stream()

    def current_device(self):
        return 0

    def synchronize(self):
        pass

    def empty_cache(self):
        pass

    def reset_peak_memory_stats(self):
        pass

    def memory_reserved(self):
        return 50

    def max_memory_reserved(self):
        return 5050

    def caching_allocator_alloc(self, size, device, stream):
        self.next += 1
        self.live[self.next] = size
        return self.next

    def caching_allocator_delete(self, pointer):
        del self.live[pointer]


class TorchReplay(unittest.TestCase):
    def test_all_passes_are_replayed_and_leave_nothing(self):
        class Torch:
            cuda = Cuda()

        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "small.csv")
            path.write_text(TRACE, encoding="utf-8")
            with contextlib.redirect_stdout(io.StringIO()) as said:
                torch_replay.replay(Torch, path, "torch", 3)
        self.assertEqual(said.getvalue(), "trace=small allocator=torch ops=4 peak_live=4000 peak_reserved=5000 "
                                          "ratio=1.2500\n")
        self.assertEqual((Torch.cuda.next, Torch.cuda.live), (9, {}))
        row = torch_replay.benchmark_of(said.getvalue(), 3)
        self.assertEqual((row["name"], row["ratio"], row["passes"]), ("replay/small/torch/idle", 1.25, 3))
        self.assertNotIn("real_time", row)


if __name__ == "__main__":
    unittest.main()
