// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/capture/capture_guard.hpp>
#include <warpwright/core/detail/capture/captured_memory.hpp>
#include <warpwright/core/detail/clock.hpp>
#include <warpwright/memory/detail/pool/graph_memory.hpp>

WARPWRIGHT_BEGIN_DEFINITIONS

namespace detail {

WARPWRIGHT_INLINE graph_memory::~graph_memory() {
  for (graph const& g : graphs_) {
    if (g.lifetime != nullptr) graph_lifetime::release(g.lifetime);
  }
}

WARPWRIGHT_INLINE std::uint32_t graph_memory::find_list(std::uint32_t number,
                                                        cudaStream_t handle) const noexcept {
  for (freed_on const& l : graphs_[number].lists) {
    if (l.handle == handle) return l.list;
  }
  return none;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void graph_memory::own(std::uint32_t node, std::uint32_t number,
                                                         std::uint64_t left_bytes) noexcept {
  heap_.blocks.set_tag(node, number + 1);
  captured_memory::allocated(graphs_[number].capture_id, heap_.blocks.at(node).bytes, left_bytes);
}

WARPWRIGHT_INLINE std::uint32_t graph_memory::capturing_list(stream_ref stream,
                                                             source_location where) {
  if (stream.has_id()) return streams_.list_of(stream.id(where), stream.get());
  std::uint32_t const list = streams_.find_by_handle(stream.get());
  return list != none ? list : streams_.new_list(epoch_tracker::no_id, stream.get());
}

WARPWRIGHT_COLD WARPWRIGHT_NOINLINE WARPWRIGHT_INLINE std::uint32_t graph_memory::graph_of(
    heap_guard& lock, stream_ref stream, source_location where) {
  capture_info info;
  {
    unlocked const released{lock};
    info = get_capture_info(stream, where);
  }
  if (info.status != cudaStreamCaptureStatusActive) return none;
  std::uint32_t unused = static_cast<std::uint32_t>(graphs_.size());
  for (std::uint32_t g = 0; g < graphs_.size(); ++g) {
    if (graphs_[g].lifetime == nullptr) {
      unused = g;
    } else if (graphs_[g].capture_id == info.id) {
      return g;
    }
  }
  if (unused == graphs_.size()) graphs_.emplace_back();
  graph_lifetime* const retained = retain_in(lock, info.graph, where);
  graphs_[unused].capture_id = info.id;
  graphs_[unused].lifetime = retained;
  ++count_;
  return unused;
}

WARPWRIGHT_INLINE cudaUserObject_t graph_memory::make_user_object(graph_lifetime* object,
                                                                  source_location where) {
  cudaUserObject_t handle = nullptr;
  cudaError_t const result = cudaUserObjectCreate(&handle, object, &graph_lifetime::on_destroyed, 1,
                                                  cudaUserObjectNoDestructorSync);
  if (result != cudaSuccess) delete object;
  check(result, "cudaUserObjectCreate", where);
  return handle;
}

/// Makes the graph being captured report its destruction.
WARPWRIGHT_INLINE graph_memory::graph_lifetime* graph_memory::retain_in(heap_guard& lock,
                                                                        cudaGraph_t captured,
                                                                        source_location where) {
  auto* const object = new graph_lifetime;
  unlocked const released{lock};
  cudaUserObject_t const handle = make_user_object(object, where);
  cudaError_t const result =
      cudaGraphRetainUserObject(captured, handle, 1, cudaGraphUserObjectMove);
  if (result != cudaSuccess) {
    discard(cudaUserObjectRelease(handle, 1));
    graph_lifetime::release(object);
    check(result, "cudaGraphRetainUserObject", where);
  }
  return object;
}

WARPWRIGHT_COLD WARPWRIGHT_NOINLINE WARPWRIGHT_INLINE std::uint32_t graph_memory::list_of(
    std::uint32_t number, cudaStream_t handle) {
  std::uint32_t list = find_list(number, handle);
  if (list != none) return list;
  graphs_[number].lists.reserve(graphs_[number].lists.size() + 1);
  list = streams_.add_graph_list();
  graphs_[number].lists.push_back(freed_on{handle, list});
  return list;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void graph_memory::free(std::uint32_t node, std::uint32_t number,
                                                          stream_ref stream,
                                                          source_location where) {
  std::uint32_t const tag = heap_.blocks.at(node).tag;
  if (number == none) {
    if (tag != 0) return free_behind_events(node);
    streams_.free(node, capturing_list(stream, where));
    ++heap_.counters.deallocations;
    return;
  }
  if (tag == number + 1) {
    captured_memory::freed(graphs_[number].capture_id, heap_.blocks.at(node).bytes);
    streams_.free(node, list_of(number, stream.get()));
    ++heap_.counters.deallocations;
    return;
  }
  // Work submitted to the stream before the capture may still use the block.
  deferred_.reserve();
  graphs_[number].kept.reserve(graphs_[number].kept.size() + 1);
  if (tag != 0) graphs_[tag - 1].kept.reserve(graphs_[tag - 1].kept.size() + 1);
  std::uint32_t const list = capturing_list(stream, where);
  graphs_[number].kept.push_back(node);
  if (tag != 0) graphs_[tag - 1].kept.push_back(node);
  deferred_.begin(node, tag != 0 ? 2 : 1, list);
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void graph_memory::free_behind_events(std::uint32_t node) {
  deferred_.reserve();
  // Read late: the graph may have been destroyed while the events were recorded.
  std::uint32_t const tag = heap_.blocks.at(node).tag;
  if (tag != 0) graphs_[tag - 1].kept.push_back(node);
  deferred_.begin(node, tag != 0 ? 1 : 0, none);
}

/// A GPU's driver reports within 0.1 ms (H100, driver 580). Where one thread calls all destructors,
/// however late, that of an object released now comes last.
WARPWRIGHT_COLD WARPWRIGHT_INLINE void graph_memory::await_reports(heap_guard& lock,
                                                                   std::size_t in_use,
                                                                   std::uint64_t least_ns,
                                                                   source_location where) {
  if (count_ <= in_use) return;
  auto* const last = new graph_lifetime;
  {
    unlocked const released{lock};
    cudaUserObject_t const handle = make_user_object(last, where);
    cudaError_t result = cudaUserObjectRelease(handle, 1);
    discard(result);
    if (result != cudaSuccess) discard(cudaUserObjectRelease(handle, 1));  // else it would leak
  }
  auto const reported = [&] {
    for (graph const& g : graphs_) {
      if (g.lifetime != nullptr && g.lifetime->is_destroyed()) return true;
    }
    return false;
  };
  std::uint64_t const least = least_ns > 200000 ? least_ns : 200000;
  std::uint64_t const begin = monotonic_nanoseconds();
  for (std::uint64_t waited = 0; !reported(); waited = monotonic_nanoseconds() - begin) {
    if (waited > least && (last->is_destroyed() || waited > 100000000)) break;
    unlocked const released{lock};
    sleep_nanoseconds(10000);
  }
  graph_lifetime::release(last);
}

WARPWRIGHT_INLINE bool graph_memory::reclaim() noexcept {
  if (count_ == 0) return false;
  std::size_t const before = count_;
  for (std::uint32_t g = 0; g < graphs_.size(); ++g) {
    graph& each = graphs_[g];
    if (each.lifetime == nullptr || !each.lifetime->is_destroyed()) continue;
    graph_lifetime::release(each.lifetime);
    each.lifetime = nullptr;
    --count_;
    for (freed_on const& l : each.lists) {
      static_cast<void>(heap_.blocks.move(l.list, ~std::uint64_t{0}, block_heap::ready, 0));
      streams_.remove_graph_list(l.list);
    }
    each.lists.clear();
    while (!each.kept.empty()) {
      std::uint32_t const node = each.kept.back();
      each.kept.pop_back();
      deferred_.release(node);
    }
    heap_.blocks.clear_tags(g + 1);
  }
  return count_ != before;
}

}  // namespace detail

WARPWRIGHT_END_DEFINITIONS
