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
DEFAULT = "include/warpwright/core/detail/device/device_scope.hpp"
OPTIONS = "include/warpwright/stream/prefetch_options.hpp"
BATCHES = "include/warpwright/stream/run_in_batches.hpp"
RESULTS = "include/warpwright/stream/collect.hpp"

# In this order: the first that fails ends a mutation's run.
TESTS = [
    "stream_prefetch", "stream_collect", "stream_prefetch_order", "stream_prefetch_limit",
    "stream_run_in_batches", "stream_prefetch_faults", "stream_prefetch_threads",
]  # fmt: skip

# (file, text, replacement); the text occurs once in the file.
MUTATIONS = [
    # Orders between the streams.
    (RING, "  cudaError_t result = cudaStreamWaitEvent(stream.get(), slot.copied, 0);", "  cudaError_t result = cudaSuccess;"),
    (RING, "  if (result == cudaSuccess && slot.used_last) {", "  if (false) {"),
    (RING, "    check(cudaEventRecord(made.copied, copies_.get()), \"cudaEventRecord\", where);\n", ""),
    (RING, "      slot.has_used ? cudaStreamWaitEvent(copies_.get(), slot.used, 0) : cudaSuccess;", "      cudaSuccess;"),
    (RING, "  if (!slot.has_copied) return cudaSuccess;\n  // To sleep", "  return cudaSuccess;\n  // To sleep"),
    (RING, "  slot.in_capture = is_closed(stream);", "  slot.in_capture = false;"),
    (RING, "  bool ordered = !slot.in_capture || release(slot);", "  bool ordered = true;"),
    (RING, "  return result == cudaErrorStreamCaptureImplicit ||\n         (", "  return ("),
    (RING, "    stream = stream_ref::legacy_default();\n", ""),
    (DEFAULT, "is_default_stream(stream) ? device : device_scope::current", "device_scope::current"),
    (RING, "result == cudaSuccess ? result : wait_without_event(stream, result);", "cudaSuccess;"),
    (RING, "    cudaError_t result = cudaStreamWaitEvent(copies_.get(), slot.used, 0);", "    cudaError_t result = cudaSuccess;"),
    # What is freed and destroyed.
    (RING, "    if (discard(result) != cudaSuccess) result = cudaEventSynchronize(slot.used);\n", ""),
    (RING, "    if (idle) pinned_.deallocate(slot.host, slot_bytes_);\n", ""),
    (RING, "      pool_.retire(copies_);\n", ""),
    (RING, "  for (int attempt = 0; attempt < 2; ++attempt) {", "  for (int attempt = 0; attempt < 1; ++attempt) {"),
    (RING, "    if (made.host != nullptr) pinned_.deallocate(made.host, slot_bytes_, where);\n", ""),
    (RING, "    if (made.device != nullptr) pool_.deallocate(copies_, made.device, slot_bytes_, where);\n", ""),
    (RING, "(found == nullptr || slot.freed < found->freed)", "(found == nullptr || slot.freed > found->freed)"),
    # The order of the batches, their end and errors.
    (CORE, "    if (!slot->error && slot->bytes != 0) {", "    if (slot->bytes != 0) {"),
    (CORE, "          slot->error = std::current_exception();\n", ""),
    (CORE, "  if (parked_ == 0) return change.wait(mutex_);", "  return change.wait(mutex_);"),
    (CORE, "    --parked_;\n", ""),
    (CORE, "    tell_all(work_);  // who waits without a limit looks from now on whether the capture has ended\n  } else {\n"
           "    ring_.set_free(slot);\n    tell_one(work_);\n  }\n  tell_all(ready_);",
     "  } else {\n    ring_.set_free(slot);\n    tell_one(work_);\n    tell_all(ready_);\n  }"),
    (CORE, "    if (pthread_equal(ring_[i].returned_by, pthread_self()) == 0) return false;\n", ""),
    (CORE, "counts = got_slot && first", "counts = first"),
    (CORE, "  if (idle) starved_ += self.was_idle ? waited : waited / 2;\n", ""),
    (FETCH, "  if (ended && slot.index < end_) end_ = slot.index;", "  if (ended) end_ = slot.index;"),
    (FETCH, "    if (elements > capacity_) {", "    if (elements > capacity_ + 1) {"),
    (FETCH, "    slot->index = next_fill_++;", "    slot->index = next_fill_;\n    next_fill_ += slot->index % 3 == 2 ? 2 : 1;"),
    (FETCH, "    caller_wait_ = starved_ = worker_wait_ = user_time_ = user_bytes_ = 0;\n", ""),
    (CORE, "  workers_waited_ = workers_waited_ || lacks;\n", ""),
    (FETCH, "  while (!stopping_ && next_take_ < end_ &&", "  while (next_take_ < end_ &&"),
    (FETCH, "      slot->error = nullptr;\n      free(*slot);", "      free(*slot);"),
    (COLLECT, "  bool const wanted = slot.bytes != 0 && !error_ && !error;", "  bool const wanted = slot.bytes != 0 && !error;"),
    (COLLECT, "  bool const wanted = slot.bytes != 0 && !error_ && !error;", "  bool const wanted = !error_ && !error;"),
    (COLLECT, "    slot.error = error_of_use(slot);\n", ""),
    (COLLECT, "    while (!stopping_ && !error_ && (slot = ring_.oldest", "    while (!error_ && (slot = ring_.oldest"),
    (COLLECT, "    while (!stopping_ && !error_ && (slot = ring_.oldest", "    while (!stopping_ && (slot = ring_.oldest"),
    (COLLECT, "        if (is_in_callback()) throw_waits_for_itself(\"next()\", where);\n", ""),
    (COLLECT, "  ended_ = true;\n", ""),
    (COLLECT, "  while (is_draining()) wait(lock, ready_);\n  throw_error(lock);", "  throw_error(lock);"),
    (COLLECT, "    while (is_draining()) wait(lock, ready_);\n  }\n  stop();", "  }\n  stop();"),
    (COLLECT, "  if (result != cudaSuccess) release(*slot, 0);\n", ""),
    (RESULTS, "  ~result_slot() { std::uncaught_exceptions() > exceptions_ ? cancel() : reset(); }", "  ~result_slot() { reset(); }"),
    # Options, limits, sizes.
    (OPTIONS, "    return count < first ? static_cast<unsigned>(count) : first;", "    return first;"),
    (OPTIONS, "    if (has_room_limit(1) && values_.max_bytes / element_bytes / capacity < least) {", "    if (false) {"),
    (OPTIONS, "copy_share() >= busy && copy_share() >= source_share()", "copy_share() >= busy"),
    (OPTIONS, "    if (starved_share() < seldom) return prefetch_limit::caller;\n", ""),
    (OPTIONS, "    double const all = seconds * workers;", "    double const all = seconds;"),
    (OPTIONS, "static_cast<double>(bytes - first_bytes)", "static_cast<double>(bytes)"),
    (BATCHES, "    return left < room ? left : room;", "    return room;"),
    (BATCHES, "options.max_bytes(0).depth(", "options.depth("),
    (BATCHES, "    result.set_size(count * out.elements_per_item, where);\n", ""),
    (BATCHES, "  if (most > ~std::size_t{0} / larger) {", "  if (most > ~std::size_t{0} / in_bytes) {"),
    (BATCHES, "  results.finish();\n", ""),
    (BATCHES, "  done.input.seconds = done.results.seconds;\n", ""),
    (OPTIONS, "batches <= 2 * depth", "batches < 2 * depth"),
]

if __name__ == "__main__":
    pool_mutations.__doc__ = __doc__
    pool_mutations.TESTS = TESTS
    pool_mutations.MUTATIONS = MUTATIONS
    sys.exit(pool_mutations.main())
