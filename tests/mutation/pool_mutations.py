#!/usr/bin/env python3
# SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
# SPDX-License-Identifier: Apache-2.0
"""Breaks the memory pool and captures in many small ways, and checks that a test fails for each.

Works on a copy of the checkout, on the host runtime. Not part of CI: all mutations take about an
hour on two cores.

  tests/mutation/pool_mutations.py --check        each mutation still applies
  tests/mutation/pool_mutations.py                all; exit status 1 if one survives
  tests/mutation/pool_mutations.py steal poll     those whose file or text contains a word
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
DETAIL = "include/warpwright/memory/detail/"
POOL = DETAIL + "pool/"
CACHES = "include/warpwright/memory/detail/caches/"
SOURCE = "include/warpwright/memory/detail/source/"
HEAP = "include/warpwright/memory/detail/heap/"
CAPTURE = "include/warpwright/graph/capture.hpp"
CAPTURE_STEPS = "include/warpwright/graph/detail/capture_definitions.hpp"
CAPTURE_POSITION = "include/warpwright/graph/detail/capture/capture_position_definitions.hpp"
BRANCHES = "include/warpwright/graph/detail/capture/branch_streams_definitions.hpp"

# In this order: the first that fails ends a mutation's run.
TESTS = [
    "memory_growth_policy", "memory_epoch_tracker", "memory_block_heap", "memory_event_store",
    "memory_deferred_frees", "memory_graph_memory", "memory_stream_caches", "memory_virtual_range",
    "memory_segment_source", "memory_mapped_source", "memory_pool",
    "memory_pool_orders", "memory_pool_cache", "memory_pool_capture", "memory_pool_capture_apis",
    "memory_pool_corners", "memory_pool_misuse", "memory_pool_model", "memory_pool_faults",
    "memory_pool_host_memory",
    "memory_pool_stress", "graph_capture", "graph_fork", "graph_mistakes",
    "graph_more_mistakes", "graph_capture_report", "stream_stream_pool_capture",
]  # fmt: skip

# (file, text, replacement); the text occurs once in the file.
MUTATIONS = [
    # Free lists and the heap.
    (HEAP + "free_lists_definitions.hpp", "blocks_[n].bytes < blocks_[best].bytes) best = n;",
     "blocks_[n].bytes > blocks_[best].bytes) best = n;"),
    (HEAP + "free_lists_definitions.hpp", "l.nonempty_words |= std::uint32_t{1} << (bin / 64);", ""),
    (HEAP + "free_lists.hpp", "return b.bytes >= padding && b.bytes - padding >= bytes;",
     "return b.bytes >= bytes;"),
    (HEAP + "free_lists_definitions.hpp", "l.bytes -= n.bytes;", ""),
    (HEAP + "free_lists_definitions.hpp", "return bin < bin_count ? lists_[list].heads[bin] : none;",
     "return none;"),
    (HEAP + "block_heap_definitions.hpp", "low.epoch = n.epoch;", "low.epoch = 0;"),
    (HEAP + "block_heap_definitions.hpp", "b.bytes <= freed_bytes", "b.bytes >= freed_bytes"),
    (HEAP + "block_heap_definitions.hpp", "live_bytes_ -= blocks_[node].bytes;", ""),
    (HEAP + "block_heap_definitions.hpp", "blocks_[oldest(from)].epoch <= epoch", "true"),
    (HEAP + "block_heap_definitions.hpp", "blocks_[oldest(from)].epoch <= epoch",
     "blocks_[oldest(from)].epoch < epoch"),
    (HEAP + "block_heap_definitions.hpp", "if (b.list == none && b.tag == tag) b.tag = 0;", ""),
    (HEAP + "block_heap_definitions.hpp", "first.list == ready && first.bytes == s.bytes",
     "first.list == ready"),
    (HEAP + "block_heap_definitions.hpp", "blocks_[taken].tag = 0;", ""),
    # Epochs and events.
    (POOL + "epoch_tracker_definitions.hpp", "entries_[list].open_epoch++;  // frees", "entries_[list].open_epoch;  // frees"),
    (POOL + "epoch_tracker_definitions.hpp", "closed.back().epoch >= heap_.blocks.newest_epoch(list)",
     "closed.back().epoch + 1 >= heap_.blocks.newest_epoch(list)"),
    (POOL + "epoch_tracker_definitions.hpp", "if (w.donor == donor) return w.epoch >= epoch;",
     "if (w.donor == donor) return true;"),
    (POOL + "epoch_tracker_definitions.hpp", "if (c.epoch >= epoch) break;", "break;"),
    (POOL + "epoch_tracker_definitions.hpp", "  e.waited.clear();\n", ""),
    (POOL + "epoch_tracker_definitions.hpp", "e.caches == 0 && e.pins == 0", "e.pins == 0"),
    (POOL + "epoch_tracker_definitions.hpp", "e.caches == 0 && e.pins == 0", "e.caches == 0"),
    (POOL + "epoch_tracker_definitions.hpp", "if (is_idle(list) && !keeps_lists_.load(memory_order::relaxed) &&",
     "if (is_idle(list) &&"),
    (POOL + "epoch_tracker_definitions.hpp",
     "heap_.blocks.at(heap_.blocks.oldest(list)).epoch > entries_[list].closed.front().epoch",
     "true"),
    (POOL + "epoch_tracker_definitions.hpp",
     "(own_id != no_id && entries_[list].id == own_id)", "true"),
    (POOL + "epoch_tracker_definitions.hpp", "recordable ? order_cost::record_and_wait : order_cost::impossible",
     "recordable ? order_cost::record_and_wait : order_cost::none"),
    (POOL + "epoch_tracker_definitions.hpp", "return entries_[list].of_graph ? 0 : entries_[list].open_epoch;",
     "return entries_[list].open_epoch;"),
    (POOL + "epoch_tracker_definitions.hpp", "  entries_[list].handle = nullptr;\n  return true;",
     "  return true;"),
    (DETAIL + "event_store_definitions.hpp", "    give_back(event, device);\n", ""),
    (DETAIL + "event_store_definitions.hpp", "if (result == cudaErrorNotReady) return false;", ""),
    (DETAIL + "event_store_definitions.hpp", "captured = may_be_capturing(heap_.driver, handle);", ""),
    (DETAIL + "event_store_definitions.hpp", "        device = unusable;\n", ""),
    # Deferred frees and graphs.
    (POOL + "deferred_frees_definitions.hpp", "if (--blocks_[i].holds != 0) return;", "--blocks_[i].holds;"),
    (POOL + "deferred_frees_definitions.hpp", "if (list != none) streams_.pin(list);", ""),
    (POOL + "deferred_frees_definitions.hpp", "  streams_.unpin(list);\n  streams_.free(node, list);",
     "  streams_.unpin(list);\n  heap_.blocks.deallocate(node, block_heap::ready, 0);"),
    (POOL + "deferred_frees_definitions.hpp", "record(of_other ? cudaStreamLegacy : use.handle);", ""),
    (POOL + "deferred_frees_definitions.hpp", "    record(stream.get());\n", ""),
    (POOL + "deferred_frees_definitions.hpp", "    abandon(node);\n    throw;", "    throw;"),
    (POOL + "deferred_frees_definitions.hpp", "++blocks_[i].holds;", ""),
    (POOL + "graph_memory_definitions.hpp", "if (tag == number + 1) {", "if (tag != 0) {"),
    (POOL + "graph_memory_definitions.hpp", "deferred_.begin(node, tag != 0 ? 2 : 1, list);",
     "deferred_.begin(node, 1, list);"),
    (POOL + "graph_memory_definitions.hpp", "if (l.handle == handle) return l.list;", "return l.list;"),
    (POOL + "graph_memory_definitions.hpp", "heap_.blocks.clear_tags(g + 1);", ""),
    (POOL + "graph_memory_definitions.hpp", "if (tag != 0) graphs_[tag - 1].kept.push_back(node);\n  deferred_.begin(node, tag != 0 ? 1 : 0, none);",
     "deferred_.begin(node, 0, none);"),
    (POOL + "graph_memory_definitions.hpp", "    discard(cudaUserObjectRelease(handle, 1));\n    graph_lifetime", "    graph_lifetime"),
    (POOL + "graph_memory_definitions.hpp", "graphs_[g].capture_id == info.id", "graphs_[g].capture_id != 0"),
    # Growth.
    (SOURCE + "growth_policy.hpp", "if (bytes > live_peak_) live_peak_ = bytes;", "live_peak_ = bytes;"),
    (SOURCE + "growth_policy.hpp", "reserved > allowed || missing > allowed - reserved",
     "reserved > allowed"),
    (SOURCE + "virtual_range_definitions.hpp", "if (bytes > room - chosen) continue;", ""),
    (SOURCE + "virtual_range_definitions.hpp", "first.address == begin ? begin : first.address + first.bytes",
     "first.address"),
    (SOURCE + "virtual_range_definitions.hpp", "if (code != 0 && mapped != 0) static_cast<void>(unmap(address, mapped));", ""),
    (SOURCE + "virtual_range_definitions.hpp", "if (bytes > spare_bytes_ - keep_bytes) continue;", ""),
    (SOURCE + "mapped_source_definitions.hpp", "if (!ahead && growth > needed - spare) growth = needed - spare;", ""),
    (SOURCE + "mapped_source_definitions.hpp", "if (growth > headroom) growth = headroom", "if (false) growth = headroom"),
    (SOURCE + "mapped_source_definitions.hpp", "if (how_far == extent::within_slack) return 0;", ""),
    (SOURCE + "mapped_source_definitions.hpp", "own_above_ || (own_below_ && blocks.at(n).address < map_address_)",
     "false"),
    (SOURCE + "mapped_source_definitions.hpp", "candidate.map_bytes < best.map_bytes ||",
     "candidate.map_bytes > best.map_bytes ||"),
    (SOURCE + "mapped_source_definitions.hpp", "    static_cast<void>(range_.unmap(plan.map_address, bytes));\n    throw;",
     "    throw;"),
    (SOURCE + "segment_source_definitions.hpp", "if (result != cudaSuccess) heap_.blocks.add_segment(s.address, s.bytes);", ""),
    (SOURCE + "segment_source_definitions.hpp", "if (result != cudaSuccess) discard(give_back(*pointer));", ""),
    # Caches.
    (CACHES + "front_cache.hpp", "if (s.count != 0 && s.blocks[s.count - 1] == block) return put_result::double_free;", ""),
    (CACHES + "front_cache.hpp", "if (s.count == depth || bytes > remaining_bytes()) return put_result::full;",
     "if (s.count == depth) return put_result::full;"),
    (CACHES + "front_cache.hpp", "for (std::uint64_t i = 0; i < s.count; ++i) s.blocks[i] = s.blocks[i + count];", ""),
    (CACHES + "stream_caches.hpp", "return cache->stream_id == id ? cache->take(rounded_bytes) : nullptr;",
     "return cache->take(rounded_bytes);"),
    (CACHES + "stream_caches_definitions.hpp", "cache.cached_bytes() != 0 && ++cache.foreign_frees < 64",
     "cache.cached_bytes() != 0"),
    (CACHES + "stream_caches_definitions.hpp", "--streams_.caches(streams_.find(cache.stream_id));", ""),
    (CACHES + "stream_caches_definitions.hpp", "if (c->blocks.maybe_cached()) flush(c->blocks);", ""),
    # The pool's calls.
    (POOL + "pool_calls_definitions.hpp", "if (deferred_.any_shared()) reasons |= shared_blocks;", ""),
    (POOL + "pool_calls_definitions.hpp", "if (graphs_.any()) reasons |= graph_blocks;", ""),
    ("include/warpwright/core/detail/device/device_scope.hpp", "if (before_ != current) discard(cudaSetDevice(before_));", ""),
    (POOL + "pool_heap.hpp", "if (allowed()) discard(driver_.exchange(&mode_));", ""),
    (POOL + "pool_calls_definitions.hpp", "heap_.blocks.at(node).tag == 0 && !deferred_.is_shared(node)",
     "heap_.blocks.at(node).tag == 0"),
    (POOL + "pool_calls_definitions.hpp", "heap_.blocks.at(node).tag == 0 && !deferred_.is_shared(node)",
     "!deferred_.is_shared(node)"),
    (POOL + "pool_calls_definitions.hpp", "  streams_.free(node, list);\n  ++heap_.counters.deallocations;\n}",
     "  heap_.blocks.deallocate(node, block_heap::ready, 0);\n  ++heap_.counters.deallocations;\n}"),
    (POOL + "pool_calls_definitions.hpp", "    deferred_.abandon(node);\n", ""),
    (POOL + "pool_calls_definitions.hpp", "caches_.release(id);", ""),
    (POOL + "pool_calls_definitions.hpp", "    streams_.forget(id);\n", ""),
    (POOL + "pool_misses_definitions.hpp", "heap_.live_bytes() <= capacity_bytes_ - request.rounded_bytes", "true"),
    (POOL + "pool_misses_definitions.hpp", "if (best == none || cost < best_cost ||",
     "if (best == none || cost > best_cost ||"),
    (POOL + "pool_misses_definitions.hpp", "newer ? blocks.newest_epoch(donor) : epoch", "epoch"),
    (POOL + "pool_misses_definitions.hpp", "streams_.wait_on(m.lock, m.own, m.stream, donor, epoch, m.where);\n      ordered = true;",
     "ordered = true;"),
    (POOL + "pool_misses_definitions.hpp", "  graphs_.own(node, graph, used < capacity_bytes_ ? capacity_bytes_ - used : 0);\n", ""),
    # Captures.
    (CAPTURE_STEPS, "  counted_.begin();\n", ""),
    (CAPTURE_STEPS, "  counted_.end();\n", ""),
    (CAPTURE_STEPS, "active_ = status != cudaSuccess && detail::may_be_capturing(stream_.get());", "active_ = false;"),
    (CAPTURE_STEPS, "  failed_call const failed = try_join_all();\n  if", "  failed_call const failed;\n  if"),
    (CAPTURE_STEPS, "if (abandoned != nullptr && !keep) detail::discard(cudaGraphDestroy(abandoned));", ""),
    (CAPTURE_STEPS, "  report.noticed_at_end = at_end;\n", "  static_cast<void>(at_end);\n"),
    (CAPTURE_STEPS, "if (to != from) marker = make_marker(to);", ""),
    (CAPTURE_STEPS, "if (!(*last)->busy) return *last;", "return *last;"),
    (CAPTURE_STEPS, "  if (in_capture() && branch.captured) point.apply_to(to, where);\n", ""),
    (CAPTURE_POSITION, "    if (has(at.tail[i])) return false;\n", ""),
    (CAPTURE_POSITION, "    if (has(now.nodes_[i])) continue;\n", ""),
    (CAPTURE_POSITION, "  return at.tail_size != 0;", "    return false;"),
    (CAPTURE_STEPS, "    branch->busy = false;\n", ""),
    (CAPTURE_STEPS, "    detail::return_branches(leased);\n", ""),
    (CAPTURE_STEPS, "    detail::keep_branches(leased, capture_id_);\n", ""),
    (CAPTURE_STEPS, "  if (inside_) *last = detail::lease_kept_branch(device(where), capture_id_);\n", ""),
    (CAPTURE_STEPS, "bool const capturing = detail::is_capturing(other, where);", "bool const capturing = false;"),
    (BRANCHES, "if (at->stream_ == stream.get()) return at->device_;", ""),
    (BRANCHES, "each.capture == capture && ", ""),
    (BRANCHES, "      if (state != cudaStreamCaptureStatusNone) continue;\n", ""),
    (BRANCHES, "    each.busy = each.captured = false;\n    each.listed.end();\n", "    each.busy = each.captured = false;\n"),
    (CAPTURE, "      static_cast<void>(join_branches(branches, marker));\n", ""),
    (BRANCHES, "status == cudaSuccess && state == cudaStreamCaptureStatusNone", "status == cudaSuccess"),
    (BRANCHES, "return each.device == device; };", "return static_cast<void>(each), static_cast<void>(device), true; };"),
]


def run(command, **options):
    return subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, **options)


def verdict(copy, build):
    """What the tests say of the mutated copy."""
    for test in TESTS:
        made = run(["ninja", "-C", str(build), f"tests/{test.split('_')[0]}/{test}"])
        if made.returncode:
            return "does not compile" if "error:" in made.stdout else "build failed"
        try:
            ran = run([str(build / "tests" / test.split("_")[0] / test)], timeout=240, cwd=copy)
        except subprocess.TimeoutExpired:
            return f"caught by {test}, which hangs"
        if ran.returncode:
            return f"caught by {test}"
    return "SURVIVED"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only check that each mutation applies")
    parser.add_argument("words", nargs="*", help="only mutations whose file or text contains one of these")
    arguments = parser.parse_args()
    chosen = [m for m in MUTATIONS
              if not arguments.words or any(w in m[0] or w in m[1] for w in arguments.words)]
    wrong = [m for m in chosen if (ROOT / m[0]).read_text().count(m[1]) != 1 or m[1] == m[2]]
    for file, text, _ in wrong:
        print(f"{file}: the text does not occur exactly once, or is not changed: {text!r}")
    if wrong:
        return 1
    print(f"{len(chosen)} mutations apply", flush=True)
    if arguments.check:
        return 0
    survived = 0
    with tempfile.TemporaryDirectory(prefix="mutations-") as folder:
        copy = pathlib.Path(folder) / "copy"
        files = run(["git", "-C", str(ROOT), "ls-files", "-z"]).stdout.split("\0")
        for name in filter(None, files):
            target = copy / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target)
        warnings = copy / "cmake" / "warpwright_development.cmake"  # a mutation may leave a variable unused
        warnings.write_text(warnings.read_text().replace(" -Werror)", ")"))
        build = copy / "build" / "host"
        configured = run(["cmake", "--preset", "host", "-D", "CMAKE_CXX_FLAGS_RELWITHDEBINFO=-O1",
                          "-D", "WARPWRIGHT_BUILD_EXAMPLES=OFF", "-D", "WARPWRIGHT_BUILD_BENCHMARKS=OFF"],
                         cwd=copy)
        if configured.returncode:
            sys.exit(configured.stdout + configured.stderr)
        untouched = verdict(copy, build)
        if untouched != "SURVIVED":
            sys.exit(f"without a mutation: {untouched}")
        for file, text, replacement in chosen:
            path = copy / file
            original = path.read_text()
            path.write_text(original.replace(text, replacement))
            os.utime(path)
            result = verdict(copy, build)
            path.write_text(original)
            survived += result == "SURVIVED"
            print(f"{result}: {file.rsplit('/', 1)[1]}: {' '.join(text.split())[:70]!r} -> "
                  f"{' '.join(replacement.split())[:50]!r}", flush=True)
    print(f"{survived} of {len(chosen)} survived")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
