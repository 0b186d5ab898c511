#!/usr/bin/env python3
# SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
# SPDX-License-Identifier: Apache-2.0
"""Breaks the prefetcher and the result_collector in many small ways, and checks that a test fails for each.

Works on a copy of the checkout, on the host runtime. Not part of CI: all mutations take about ten minutes
on two cores.

  tests/mutation/prefetch_mutations.py --check      each mutation still applies
  tests/mutation/prefetch_mutations.py              all; exit status 1 if one survives
  tests/mutation/prefetch_mutations.py ring         those whose file or text contains a word
"""
import sys

import pool_mutations

TRANSFER = "include/warpwright/stream/detail/transfer/"
RING = TRANSFER + "transfer_ring_definitions.hpp"
CORE = TRANSFER + "transfer_core_definitions.hpp"
FETCH = TRANSFER + "prefetch_core_definitions.hpp"
COLLECT = TRANSFER + "collect_core_definitions.hpp"
OPTIONS = "include/warpwright/stream/prefetch_options.hpp"
BATCHES = "include/warpwright/stream/run_in_batches.hpp"
RESULTS = "include/warpwright/stream/collect.hpp"

# In this order: the first that fails ends a mutation's run.
TESTS = [
    "stream_prefetch", "stream_collect", "stream_prefetch_limit", "stream_prefetch_faults",
    "stream_run_in_batches", "stream_prefetch_threads",
]  # fmt: skip

# (file, text, replacement); the text occurs once in the file.
MUTATIONS = [
    # Orders between the streams.
    (RING, "  return cudaStreamWaitEvent(stream.get(), slot.copied, 0);", "  return cudaSuccess;"),
    (RING, "      slot.has_used ? cudaStreamWaitEvent(copies_.get(), slot.used, 0) : cudaSuccess;", "      cudaSuccess;"),
    (RING, "  if (!slot.has_copied) return cudaSuccess;\n  // To sleep", "  return cudaSuccess;\n  // To sleep"),
    (RING, "  if (result == cudaSuccess && status != cudaStreamCaptureStatusNone) return;\n", ""),
    (RING, "  if (!slot.has_used) wait_without_event(stream, result);\n", ""),
    # Survives: the batch is reported as failed, and nobody reads it.
    (RING, "  wait_without_event(copies_, result);\n", "  discard(result);\n"),
    (RING, "    cudaError_t const result = cudaStreamWaitEvent(copies_.get(), slot.used, 0);",
     "    cudaError_t const result = cudaSuccess;"),
    # What is freed and destroyed.
    (RING, "      if (idle) pinned_.deallocate(slot.host, slot_bytes_);\n", ""),
    (RING, "    pool_.retire(copies_);\n", ""),
    (RING, "    if (made.host != nullptr) pinned_.deallocate(made.host, slot_bytes_, where);\n", ""),
    (RING, "    if (made.device != nullptr) pool_.deallocate(copies_, made.device, slot_bytes_, where);\n", ""),
    (RING, "(found == nullptr || slot.freed < found->freed)", "(found == nullptr || slot.freed > found->freed)"),
    # The order of the batches, their end and errors.
    # Survives: what it allows is a data race, which ThreadSanitizer sees.
    (CORE, "  if (copying_) return;  // that thread looks again\n", ""),
    (CORE, "    if (!slot->error && slot->bytes != 0) {", "    if (slot->bytes != 0) {"),
    (CORE, "          slot->error = std::current_exception();\n", ""),
    (CORE, "  if (!added) return;\n", ""),
    (CORE, "  if (changes_.load(memory_order::relaxed) == seen) change.wait(mutex_);", "  change.wait(mutex_);"),
    (FETCH, "  if (ended && slot.index < end_) end_ = slot.index;", "  if (ended) end_ = slot.index;"),
    (FETCH, "    if (elements > capacity_) {", "    if (elements > capacity_ + 1) {"),
    (FETCH, "    slot->index = next_fill_++;", "    slot->index = next_fill_;\n    next_fill_ += slot->index % 3 == 2 ? 2 : 1;"),
    (FETCH, "  bool const is_first = next_take_++ == 0;", "  bool const is_first = false;\n  ++next_take_;"),
    (FETCH, "    workers_waited_ = workers_waited_ || is_needed;\n", ""),
    (FETCH, "  while (!stopping_ && next_take_ < end_ &&", "  while (next_take_ < end_ &&"),
    (FETCH, "  while (!stopping_) {", "  while (!stopping_ || next_fill_ < 3) {"),
    (COLLECT, "  bool const wanted = slot.bytes != 0 && !failed_ && !error;", "  bool const wanted = slot.bytes != 0 && !error;"),
    (COLLECT, "  bool const wanted = slot.bytes != 0 && !failed_ && !error;", "  bool const wanted = !failed_ && !error;"),
    (COLLECT, "  error_ = nullptr;\n", ""),
    (COLLECT, "  while (is_draining()) wait(lock, ready_);\n  throw_error(lock);", "  throw_error(lock);"),
    (COLLECT, "    while (is_draining()) wait(lock, ready_);\n  }\n  stop();", "  }\n  stop();"),
    (COLLECT, "  if (result != cudaSuccess) release(*slot, stream, 0);\n", ""),
    (RESULTS, "  ~result_slot() { std::uncaught_exceptions() > exceptions_ ? cancel() : reset(); }", "  ~result_slot() { reset(); }"),
    # Options, limits, sizes.
    (OPTIONS, "    if (slots <= depth) return depth;\n", ""),
    (OPTIONS, "copy_share() >= busy && copy_share() >= source_share()", "copy_share() >= busy"),
    (OPTIONS, "    if (source_share() >= busy) return prefetch_limit::source;\n", ""),
    (OPTIONS, "    double const all = seconds * workers;", "    double const all = seconds;"),
    (BATCHES, "    return left < room ? left : room;", "    return room;"),
    (BATCHES, "  prefetch_options fixed = options.maximum_bytes(0);", "  prefetch_options fixed = options;"),
    (BATCHES, "    result.set_size(count * out.elements_per_item, where);\n", ""),
    (BATCHES, "  if (most > ~std::size_t{0} / larger) {", "  if (most > ~std::size_t{0} / in_bytes) {"),
    (BATCHES, "  results.finish();\n", ""),
]

if __name__ == "__main__":
    pool_mutations.__doc__ = __doc__
    pool_mutations.TESTS = TESTS
    pool_mutations.MUTATIONS = MUTATIONS
    sys.exit(pool_mutations.main())
