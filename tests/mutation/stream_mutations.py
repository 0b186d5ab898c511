#!/usr/bin/env python3
# SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
# SPDX-License-Identifier: Apache-2.0
"""Breaks the pool of streams, the staging and the pinned pool in many small ways, and checks that a test fails for each.

Works on a copy of the checkout, on the host runtime. Not part of CI: all mutations take about half an
hour on two cores.

  tests/mutation/stream_mutations.py --check        each mutation still applies
  tests/mutation/stream_mutations.py                all; exit status 1 if one survives
  tests/mutation/stream_mutations.py staging        those whose file or text contains a word
"""
import sys

import pool_mutations

SET = "include/warpwright/stream/detail/stream_set.hpp"
SET_STEPS = "include/warpwright/stream/detail/stream_set_definitions.hpp"
POOL = "include/warpwright/stream/detail/stream_pool_definitions.hpp"
PINNED = "include/warpwright/memory/detail/pinned/"
STAGING = "include/warpwright/memory/detail/staging/"
SLOTS = STAGING + "staging_workers_definitions.hpp"
WORKERS = STAGING + "staging_workers_definitions.hpp"
COPIES = STAGING + "staging_core_definitions.hpp"
STAGING_HEADER = STAGING + "staging_core.hpp"
MEASURE = "tools/measure_staging/measure_staging.hpp"
CALLS = PINNED + "pinned_calls_definitions.hpp"
MISSES = PINNED + "pinned_misses_definitions.hpp"
SHARD = PINNED + "pinned_shard.hpp"
SHARD_STEPS = PINNED + "pinned_shard_definitions.hpp"
TABLE = PINNED + "block_table.hpp"
TABLE_STEPS = PINNED + "block_table_definitions.hpp"
SOURCE = PINNED + "page_locked_source_definitions.hpp"
BOUND = "include/warpwright/core/detail/thread/process_bound.hpp"
EVENTS = "include/warpwright/memory/detail/event_store_definitions.hpp"

# In this order: the first that fails ends a mutation's run.
TESTS = [
    "stream_stream_pool", "stream_stream_pool_threads", "stream_fork_join", "stream_stream_pool_capture",
    "memory_measure_staging", "memory_staging_sizes", "memory_staging_forms", "memory_staging_streams",
    "memory_staging",
    "memory_pinned_parts", "memory_pinned", "memory_pinned_streams", "memory_pinned_capture",
    "memory_pinned_options", "memory_pinned_faults", "memory_pinned_default_streams", "memory_pinned_threads",
]  # fmt: skip

# (file, text, replacement); the text occurs once in the file.
MUTATIONS = [
    # Leases. The first survives: what it allows needs another thread within a few instructions.
    (SET, "return waiters_.load(memory_order::relaxed) == 0 ? take_free() : none;", "return take_free();"),
    (SET, "    if (waiters_.load(memory_order::seq_cst) != 0) serve();\n", ""),
    (SET, "(may_capture || may_be_capturing_anywhere()) && !replace_if_capturing(index)", "false"),
    (SET, "      own.turn.store(place + 1, memory_order::relaxed);\n", ""),
    (SET, "tried < count", "tried + 1 < count"),
    (SET, "leased.load(memory_order::seq_cst) || leased.exchange(true, memory_order::acquire)",
     "leased.exchange(false, memory_order::acquire)"),
    (SET_STEPS, "created() + creating_ < max_streams_", "created() < max_streams_"),
    (SET_STEPS, "    if (first_waiter_ != nullptr) first_waiter_->wake.notify_one();\n    throw;", "    throw;"),
    (SET_STEPS, "    --creating_;\n    // It waits", "    // It waits"),
    (SET_STEPS, "      last_waiter_ = &self;\n", "      if (last_waiter_ == nullptr) last_waiter_ = &self;\n"),
    (SET_STEPS, "  if (last_waiter_ == &self) last_waiter_ = before;\n", ""),
    (SET_STEPS, "(until != for_ever && monotonic_nanoseconds() >= until)", "false"),
    (SET_STEPS, "  first.index = index;\n", "  first.index = none;\n  static_cast<void>(index);\n"),
    (SET_STEPS, "    if (is_part_of_capture(each)) continue;\n", ""),
    (SET_STEPS, "    if (is_part_of_capture(streams_[index].owner)) {\n      parked_[kept++] = index;", "    if (false) {"),
    (SET_STEPS, "    if (!is_part_of_capture(each)) all.push_back", "    all.push_back"),
    (SET_STEPS, "    if (each.event != nullptr) discard(cudaEventDestroy(each.event));\n", ""),
    # fork_join.
    (POOL, "    status = cudaStreamWaitEvent(streams_.stream(leased_[forked_]).get(), marker, 0);",
     "    status = cudaSuccess;"),
    (POOL, "    status = cudaStreamWaitEvent(parent_.get(), event, 0);", "    status = cudaSuccess;"),
    (POOL, "  for (unsigned const index : leased_) streams_.give_back(index, may_capture_);\n", ""),
    (POOL, "give_back(index, may_capture_)", "give_back(index)"),
    (POOL, "  while (joined_ < forked_) {\n    char const* api", "  while (false) {\n    char const* api"),
    (POOL, "  discard(cudaStreamSynchronize(branch));\n", ""),
    (POOL, "  relaxed_capture_mode const allowed;  // a", "  // a"),
    (POOL, "  if (other != nullptr) detail::discard(cudaEventDestroy(other));\n", ""),
    (POOL, "  if (device != streams_.device()) {", "  if (false) {"),
    (POOL, "  if (priority > range.least || priority < range.greatest) {", "  if (priority > range.least) {"),
    (MISSES, "      close_all(own_id, false, where);  // what", "      // what"),
    (WORKERS, "  if (helper || stopped || job.progress == nullptr) return;", "  if (helper || job.progress == nullptr) return;"),
    (COPIES, "  device_of_default const current{what.stream, device_.value()};\n", ""),
    # Slots.
    (SLOTS, "  if (result == cudaSuccess) {\n    slot->in_flight = false;",
     "  if (true) {\n    slot->in_flight = false;"),
    (SLOTS, "  staging_slot* slot = left != 0 ? take_arrived() : nullptr;", "  staging_slot* slot = nullptr;"),
    (SLOTS, "free_.push_front(slot)", "free_.push_back(slot)"),
    (SLOTS, "left > 1; --left) slot = take_arrived();", "false;) {\n  }"),
    (SLOTS, "  give_back(*slot);  // of an error", "  // of an error"),
    (SLOTS, "    if (!done) continue;", "    if (false) continue;"),
    (SLOTS, "  slot.in_flight ? in_flight_.push_back(slot) : free_.push_front(slot);", "  free_.push_front(slot);"),
    # Copies in chunks.
    (WORKERS, "  for (std::size_t const first : job.unfinished) prefix = first < prefix ? first : prefix;\n", ""),
    (WORKERS, "  while (job.helpers != 0) job.left.wait(mutex_);\n", ""),
    (WORKERS, "  part.count = left < job.chunk_items ? left : job.chunk_items;", "  part.count = job.chunk_items;"),
    (WORKERS, "  if (to_pitch == item_bytes && from_pitch == item_bytes) {", "  if (to_pitch == item_bytes) {"),
    (WORKERS, "  if (to_pitch == job.item_bytes && from_pitch == job.item_bytes) {", "  if (to_pitch == job.item_bytes) {"),
    (WORKERS, "    if (waited != cudaSuccess) slot.memory = nullptr;\n", ""),
    (WORKERS, "wait = wait || !is_unregistered(from) || !is_unregistered(from + last);", ""),
    (WORKERS, "  while (has_chunk(job)) {", "  for (;;) {"),
    (WORKERS, "    if (slot == nullptr && helper) return set_open(job, false);\n    chunk part;", "    chunk part;"),
    (WORKERS, "  if (to_pitch == item_bytes && from_pitch == item_bytes) {", "  if (from_pitch == item_bytes) {"),
    (WORKERS, "    if (!arrived) return;\n", ""),
    (WORKERS, "  if (job.failure.code == cudaSuccess) job.failure = staging_failure{code, api};", ""),
    (COPIES, "return copy_by_cuda(what, true, where);", "return copy_by_cuda(what, !what.to_device, where);"),
    (COPIES, "  bool const wait = !what.to_device || reads_late_ || first != last;", "  bool const wait = false;"),
    (COPIES, "on_one_page(host, end) ? first : is_unregistered(end)", "first"),
    (STAGING_HEADER, "           4096;", "           65536;"),
    (COPIES, "bytes <= options_.direct_bytes && first && last &&", "bytes <= options_.direct_bytes &&"),
    (COPIES, "stream.id() == known_stream_.load(memory_order::relaxed)",
     "known_stream_.load(memory_order::relaxed) != ~std::uint64_t{0}"),
    (COPIES, "bytes > options_.direct_bytes && first && last;", "bytes > options_.direct_bytes;"),
    (COPIES, "chunk = bytes <= whole_bytes ? bytes : piece_bytes;", "chunk = bytes;"),
    (COPIES, "chunk = bytes <= whole_bytes ? bytes : piece_bytes;", "chunk = piece_bytes;"),
    (COPIES, "    if (job.depth < pieces_in_flight) job.depth = pieces_in_flight;\n", ""),
    (COPIES, "      options_.bytes_per_helper < 4096) {", "      false) {"),
    (COPIES, "    own.used->wait(what.stream, where);\n", ""),
    (COPIES, "      what.stream.wait(own.used->ref(), where);\n", ""),
    (COPIES, "  if (what.items > ~std::size_t{0} / pitch) {", "  if (false) {"),
    (COPIES, "  if (device != device_.value()) {", "  if (false) {"),
    (WORKERS, "  } else if (result == cudaErrorNotReady) {", "  } else if (false) {"),
    (WORKERS, "cudaError_t const waited = cudaStreamSynchronize(job.stream.get());", "cudaError_t const waited = cudaSuccess;"),
    (WORKERS, "  job.open = open;\n  if (open) changed_.notify_all();", "  job.open = open;"),
    (WORKERS, "    if (job.open) changed_.notify_all();\n", ""),
    (WORKERS, "      if (gave_up) set_open(job, false);", "     "),
    (WORKERS, "    job.open = job.to_device;", "    job.open = true;"),
    (WORKERS, "job->helpers >= job->most_helpers", "job->helpers > job->most_helpers"),
    (WORKERS, "slot->memory, part)) return slots_->give_back(*slot);", "slot->memory, part)) return;"),
    (WORKERS, "      if (!free) return slots_->give_back(*oldest.slot);", "      if (!free) return;"),
    (SLOTS, "attempt < 2", "attempt < 1"),
    (BOUND, "    if (is_current()) object_.~T();", "    object_.~T();"),
    (STAGING_HEADER, "    if (workers_.is_current()) stop();", "    stop();"),
    # The measurement.
    (MEASURE, "<= 1.02 * least", "<= least"),
    (MEASURE, "useful < settings.threads ? useful", "false ? useful"),
    (MEASURE, "below > time ? below : time", "time"),
    (MEASURE, "  if (settings.threads == 1) return row.by_cuda;\n", "  if (settings.threads == 1) return row.alone;\n"),
    (MEASURE, "      free();\n      throw;", "      throw;"),
    (MEASURE, "    ww::detail::discard(cudaFree(device_));\n", ""),
    # The pinned pool: frees and batches.
    (CALLS, "may_be_capturing_anywhere() && is_capturing(heap_.driver, stream, where)", "false"),
    (CALLS, "block == nullptr || !block->take_from_caller(bytes)", "block == nullptr"),
    (CALLS, "      block.give_to_caller(bytes);\n      throw;", "      throw;"),
    (CALLS, "s.open.blocks >= batch_blocks * tries || ", ""),
    (CALLS, " || s.open.bytes >= cache_budget() / 2 * tries", ""),
    (CALLS, "  if (full && s.closing.empty())", "  if (false)"),
    (CALLS, "  give_to_heap(shard.evict_others(rounded_bytes));\n  if (shard.put(block,", "  if (shard.put(block,"),
    (CALLS, "  one.push(block, rounded_bytes);\n", ""),
    (CALLS, "handle == cudaStreamPerThread && stream.id != own_id", "false"),
    (CALLS, "    if (!last_resort) return false;\n", "    return false;\n"),
    (CALLS, "    reopen(shard.streams[index]);\n", ""),
    (CALLS, "    reopen(now);\n", ""),
    (CALLS, "  stream.open.append(stream.closing.take_all());\n", "  stream.open = stream.closing.take_all();\n"),
    (CALLS, "  if (stream.failures < 1000) ++stream.failures;\n", ""),
    (CALLS, "events_.record(heap_lock, handle, where, device)", "events_.record(heap_lock, handle, where)"),
    (CALLS, "    if (!done) return false;\n", ""),
    (CALLS, "shard.next_number++", "shard.next_number"),
    (CALLS, "    static_cast<void>(poll_stream(lock, shard, index, 2, false, where));\n", ""),
    (CALLS, "    events_.give_back(oldest.event, stream.device);\n", ""),
    (CALLS, "events_.give_back(oldest.event, stream.device)", "events_.give_back(oldest.event, 0)"),
    (CALLS, "  shard.remove_if_done(index);\n", ""),
    (CALLS, "    if (!shard.put(block, rounded, budget)) rest.push(block, rounded);", "    if (!shard.put(block, rounded, budget)) continue;"),
    (CALLS, "    if (!close_batch(lock, shard, index, id, false, where)) {", "    if (false) {"),
    (CALLS, "    static_cast<void>(poll_some(lock, shard, shard.streams.size(), true));\n", ""),
    (CALLS, "      used_shards_.fetch_sub(1, memory_order::relaxed);\n", ""),
    (CALLS, "      give_to_heap(shard.evict_all());\n", ""),
    (CALLS, "now.closed.front().number != number", "(false && number != 0)"),
    (CALLS, "  now.failures = 0;\n", ""),
    (CALLS, "      free_on(stream, no_id - 1 - static_cast<unsigned>(named.device()), pointer, bytes, where);",
     "      deallocate(stream, pointer, bytes, where);"),
    (CALLS, "  stream_ref const stream = named.here();", "  stream_ref const stream = named.stream();"),
    (CALLS, "  device_of_default const current{stream, named.device()};\n", ""),
    (CALLS, "  relaxed_captures const relaxed{heap_.driver};\n  // While", "  // While"),
    (CALLS, "    while (!shard.streams[index].closing.empty()) wait_for_closing(lock, shard, index);\n", ""),
    # The pinned pool: misses.
    (MISSES, "  if (!may_wait) return nullptr;\n", ""),
    (MISSES, "slow_path_mutex_, may_wait}", "slow_path_mutex_, true}"),
    (MISSES, "    if (in_table) blocks_.remove(segment.address);", "    static_cast<void>(in_table);"),
    (MISSES, "    poll_all(where);\n", ""),
    (MISSES, "    flush_shards();\n    if (void*", "    if (void*"),
    (MISSES, "    if (locks.live_bytes() > options_.max_bytes - wanted.rounded_bytes) return nullptr;\n", ""),
    (MISSES, "s.closed.front().number < all.below[i]", "true"),
    (MISSES, "    if (!pending) return nullptr;\n", "    return nullptr;\n"),
    (MISSES, "  close_all(own_id, true, where);\n  if (void*", "  if (void*"),
    (MISSES, "  close_all(own_id, many_bytes_of_other_threads(own_id), where);\n", ""),
    (MISSES, "many_bytes_of_other_threads(own_id), where", "false, where"),
    (MISSES, "  return release_segments(0, where) == 0 ? nullptr : ", "  return "),
    (MISSES, "  if (may_be_capturing(heap_.driver, cudaStreamPerThread)) return no_id;\n", ""),
    (MISSES, "if (needed > allowed) return nullptr;", ""),
    (MISSES, "        if (!may_be_capturing(handle)) discard(cudaStreamSynchronize(handle));\n", ""),
    (MISSES, "        discard(cudaEventSynchronize(batch.event));\n", ""),
    (MISSES, "    discard(page_locked_source::release(segment));\n    throw;", "    throw;"),
    (MISSES, "      blocks_.remove(segment.address);\n      segments_", "      segments_"),
    (MISSES, "pageable_bytes_ -= segment.bytes;", "pageable_bytes_ -= 0;"),
    (MISSES, "  block.node = node;\n", ""),
    # The pinned pool: shards, the table and the source.
    (SHARD, "    if ((block->address & (alignment - 1)) != 0) return nullptr;\n", ""),
    (SHARD, "    if (cached_bytes + rounded_bytes > budget) return false;\n", ""),
    (SHARD, "list.each == 0 || cached_bytes", "cached_bytes"),
    (SHARD, "    if (each != other.each) each = 0;\n", ""),
    (SHARD, "each = first == nullptr || each == rounded_bytes ? rounded_bytes : 0;", "each = rounded_bytes;"),
    (SHARD, "    list.last->next = s->first;\n", ""),
    (SHARD_STEPS, "    if (s.bytes == rounded_bytes || s.bytes == 0) continue;", "    if (s.bytes == 0) continue;"),
    (SHARD_STEPS, "s.handle != nullptr && s.is_idle()", "s.handle != nullptr"),
    (SHARD_STEPS, "  if (s.used) static_cast<void>(by_id_.erase(s.id));\n", ""),
    (TABLE, "r == nullptr || !r->contains(address)", "r == nullptr"),
    (TABLE, "offset % granule != 0 || offset", "offset"),
    (TABLE, "state.load(memory_order::relaxed) >> 1U", "state.load(memory_order::relaxed) / 4"),
    (TABLE_STEPS, "      madvise(r.blocks, r.capacity * sizeof(pinned_block), MADV_DONTNEED);", "     "),
    (TABLE_STEPS, "r.capacity < granules) continue;", "false) continue;"),
    (SOURCE, "options_.write_combined) flags |= cudaHostAllocWriteCombined;", "false) flags = 0;"),
    (SOURCE, "result != cudaSuccess && options_.numa_node == pinned_settings::any_numa_node", "result != cudaSuccess"),
    (SOURCE, "options_.pageable_fallback && bytes", "bytes"),
    (SOURCE, "  if (!no_more) check(result, api, where);\n", ""),
    (SOURCE, "  std::uintptr_t const end = (aligned + bytes + (page - 1)) & ~(page - 1);", "  std::uintptr_t const end = (aligned + bytes) & ~(page - 1);"),
    (SOURCE, "options_.numa_node < 0 || options_.numa_node >= most_nodes", "false"),
    (MISSES, "  for (host_segment const& segment : segments_) discard(page_locked_source::release(segment));\n", ""),
    (SOURCE, "  if (result != cudaSuccess) {\n    munmap(pages, segment.bytes);", "  if (result != cudaSuccess) {"),
    (SOURCE, "    munmap(memory, segment.bytes);\n", ""),
    (SOURCE, "bytes > available_memory(*files_)", "bytes >= available_memory(*files_)"),
    (SOURCE, "    while (length != 0 && path[length - 1] != '/') --length;\n", "    length = 0;\n"),
    (SOURCE, "limit > used ? limit - used : 0", "limit - used"),
    (SOURCE, "memory != nullptr && memory < colon", "memory != nullptr"),
    (EVENTS, "spare_[i].device != device", "false"),
    (EVENTS, "is_new || is_default ? device : current", "current"),
]

if __name__ == "__main__":
    pool_mutations.__doc__ = __doc__
    pool_mutations.TESTS = TESTS
    pool_mutations.MUTATIONS = MUTATIONS
    sys.exit(pool_mutations.main())
