// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory of a memory_pool that CUDA graphs use. Included by pool.hpp.
//
// The memory of a capture is retained until its graph and all executables made from it are
// destroyed and their launches have completed. A user object that the graph retains reports this
// (CUDA C++ Programming Guide, "CUDA User Objects"). The caller passes no handle for it, and an
// abandoned capture returns its memory in the same way.
#pragma once

#include <warpwright/memory/pool.hpp>

WARPWRIGHT_BEGIN

namespace detail {

struct capture_info {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  cudaGraph_t graph = nullptr;
};

inline capture_info get_capture_info(stream_ref stream, source_location where) {
  capture_info info;
#if CUDART_VERSION >= 13000
  check(cudaStreamGetCaptureInfo(stream.get(), &info.status, &info.id, &info.graph, nullptr,
                                 nullptr, nullptr),
        "cudaStreamGetCaptureInfo", where);
#else
  check(cudaStreamGetCaptureInfo_v2(stream.get(), &info.status, &info.id, &info.graph, nullptr,
                                    nullptr),
        "cudaStreamGetCaptureInfo", where);
#endif
  return info;
}

}  // namespace detail

/// The entry of the graph that the stream is capturing into, created at the capture's first call.
/// @pre slow_path_mutex_ is held
inline std::uint32_t memory_pool::graph_of(biased_guard& lock, stream_ref stream,
                                           source_location where) {
  lock.unlock();
  detail::capture_info const info = detail::get_capture_info(stream, where);
  lock.lock();
  if (info.status != cudaStreamCaptureStatusActive) {
    lock.unlock();
    detail::throw_invalid_argument(
        "memory_pool: the stream's capture was invalidated by an earlier call; end it first",
        where);
  }
  std::uint32_t unused = static_cast<std::uint32_t>(graphs_.size());
  for (std::uint32_t g = 0; g < graphs_.size(); ++g) {
    if (graphs_[g].lifetime == nullptr) {
      unused = g;
    } else if (graphs_[g].capture_id == info.id) {
      return g;
    }
  }
  if (unused == graphs_.size()) graphs_.emplace_back();
  auto* const lifetime = new detail::graph_lifetime;
  lock.unlock();
  cudaUserObject_t object = nullptr;
  char const* api = "cudaUserObjectCreate";
  cudaError_t result = cudaUserObjectCreate(
      &object, lifetime, &detail::graph_lifetime::on_destroyed, 1, cudaUserObjectNoDestructorSync);
  bool const created = result == cudaSuccess;
  if (created) {
    api = "cudaGraphRetainUserObject";
    result = cudaGraphRetainUserObject(info.graph, object, 1, cudaGraphUserObjectMove);
    if (result != cudaSuccess) detail::discard(cudaUserObjectRelease(object, 1));
  }
  lock.lock();
  if (result != cudaSuccess) {
    if (!created) detail::graph_lifetime::release(lifetime);  // CUDA's reference
    detail::graph_lifetime::release(lifetime);
    check(result, api, where);
  }
  graphs_[unused].capture_id = info.id;
  graphs_[unused].lifetime = lifetime;
  update_slow_path_reasons();
  return unused;
}

/// The list of the blocks that a graph's capture has freed on a stream.
inline std::uint32_t memory_pool::graph_list(std::uint32_t graph, cudaStream_t handle) {
  for (detail::graph_list const& l : graphs_[graph].lists) {
    if (l.handle == handle) return l.list;
  }
  graphs_[graph].lists.reserve(graphs_[graph].lists.size() + 1);
  std::uint32_t list = heap::first_stream_list;
  while (list < entries_.size() && entries_[list].used) ++list;
  if (list == entries_.size()) {
    entries_.reserve(entries_.size() + 1);
    static_cast<void>(heap_.add_list());
    entries_.emplace_back();
  }
  entries_[list].id = invalid_stream_id;
  entries_[list].handle = nullptr;
  entries_[list].used = true;
  entries_[list].of_graph = true;
  graphs_[graph].lists.push_back(detail::graph_list{handle, list});
  return list;
}

inline void* memory_pool::allocate_for_graph(stream_ref stream, allocation_request request,
                                             source_location where) {
  slow_path_scope const section{*this, where};
  flush_all_caches();
  biased_guard lock{heap_lock_};
  reclaim_graphs();
  std::uint32_t const graph = graph_of(lock, stream, where);
  std::uint32_t const list = graph_list(graph, stream.get());
  void* pointer = allocate_available(list, request, where);
  if (pointer == nullptr) pointer = coalesce_and_allocate(list, request, where);
  if (pointer == nullptr) pointer = grow(lock, list, request, where);
  if (pointer == nullptr) {
    synchronize_all(lock, invalid_stream_id, where);
    pointer = allocate_available(list, request, where);
    if (pointer == nullptr) pointer = coalesce_and_allocate(list, request, where);
  }
  if (pointer == nullptr) pointer = compact_and_allocate(lock, list, request, where);
  if (pointer != nullptr) heap_.set_tag(heap_.find(address_of(pointer)), graph + 1);
  return pointer;
}

/// A free on a capturing stream: a block of the same graph is reusable in the capture, any other
/// block is retained for the graph.
inline void memory_pool::free_in_graph(stream_ref stream, void* pointer, std::size_t bytes,
                                       source_location where) {
  slow_path_scope const section{*this, where};
  biased_guard lock{heap_lock_};
  reclaim_graphs();
  std::uint32_t const node = find_live(lock, pointer, bytes, where);
  for (detail::shared_use const& u : shared_uses_) {
    if (u.node != node) continue;
    lock.unlock();
    detail::throw_invalid_argument(
        "memory_pool: a block with record_use() is freed while one of its streams is capturing; "
        "end the capture first",
        where);
  }
  std::uint32_t const graph = graph_of(lock, stream, where);
  std::uint32_t const tag = heap_.at(node).tag;
  if (tag == graph + 1) {
    std::uint32_t const list = graph_list(graph, stream.get());
    if (options_.checked_) record_freed_block(node, where);
    heap_.deallocate(node, list, 0);
    ++counters_.deallocations;
  } else {
    graphs_[graph].retained.reserve(graphs_[graph].retained.size() + 1);
    std::uint32_t const list = capturing_list(stream, where);
    if (tag != 0) {
      graphs_[tag - 1].retained.push_back(detail::retained_block{node, list});
      ++entries_[list].retained;
    }
    graphs_[graph].retained.push_back(detail::retained_block{node, list});
    ++entries_[list].retained;
    begin_deferred_free(node, where);
  }
}

/// The list of a capturing stream, whose id may be unknown.
inline std::uint32_t memory_pool::capturing_list(stream_ref stream, source_location where) {
  cudaStream_t const handle = stream.get();
  if (stream.has_id()) return list_of(stream.id(where), handle);
  for (std::uint32_t list = heap::first_stream_list; list < entries_.size(); ++list) {
    stream_entry const& e = entries_[list];
    bool const of_thread = handle == cudaStreamPerThread;  // one handle stands for many streams
    if (e.used && e.handle == handle && (!of_thread || e.id == invalid_stream_id)) return list;
  }
  return new_list(invalid_stream_id, handle);
}

/// Reclaims the memory of destroyed graphs.
inline void memory_pool::reclaim_graphs() noexcept {
  bool any = false;
  for (std::uint32_t g = 0; g < graphs_.size(); ++g) {
    detail::graph_memory& graph = graphs_[g];
    if (graph.lifetime == nullptr || !graph.lifetime->is_destroyed()) continue;
    any = true;
    detail::graph_lifetime::release(graph.lifetime);
    graph.lifetime = nullptr;
    for (detail::graph_list const& l : graph.lists) {
      static_cast<void>(heap_.move(l.list, ~std::uint64_t{0}, heap::ready, 0));
      entries_[l.list].used = false;
      entries_[l.list].of_graph = false;
    }
    graph.lists.clear();
    while (!graph.retained.empty()) {
      detail::retained_block const k = graph.retained.back();
      graph.retained.pop_back();
      if (k.list != heap::none) --entries_[k.list].retained;
      if (!is_deferred(k.node)) end_deferred_free(k.node, k.list);
    }
    heap_.clear_tags(g + 1);
  }
  if (any) update_slow_path_reasons();
}

/// Whether a graph retains a freed block, or one of its streams has not completed.
inline bool memory_pool::is_deferred(std::uint32_t node) const noexcept {
  for (detail::pending_free const& p : pending_frees_) {
    if (p.node == node) return true;
  }
  for (detail::graph_memory const& g : graphs_) {
    for (detail::retained_block const& k : g.retained) {
      if (k.node == node) return true;
    }
  }
  return false;
}

inline void memory_pool::watch_captures(int change) noexcept {
  biased_guard const lock{heap_lock_};
  watches_ += change;
  update_slow_path_reasons();
}

inline void memory_pool::update_slow_path_reasons() noexcept {
  unsigned reasons = 0;
  if (watches_ != 0 || options_.checked_ || options_.detect_captures_) reasons |= check_captures;
  if (!shared_uses_.empty()) reasons |= shared_blocks;
  for (detail::graph_memory const& g : graphs_) {
    if (g.lifetime != nullptr) reasons |= graph_blocks;
  }
  slow_path_reasons_.store(reasons, detail::memory_order::relaxed);
}

/// Counts a block as freed; in the heap it stays live until end_deferred_free().
inline void memory_pool::begin_deferred_free(std::uint32_t node, source_location where) noexcept {
  if (options_.checked_) record_freed_block(node, where);
  heap_.set_tag(node, deferred_free);
  deferred_bytes_ += heap_.at(node).bytes;
  ++deferred_blocks_;
  ++counters_.deallocations;
}

/// @param list  the list of the stream whose work may still use the block; none: no stream's
inline void memory_pool::end_deferred_free(std::uint32_t node, std::uint32_t list) noexcept {
  deferred_bytes_ -= heap_.at(node).bytes;
  --deferred_blocks_;
  if (list == heap::none) {
    heap_.deallocate(node, heap::ready, 0);
  } else {
    heap_.deallocate(node, list, entries_[list].open_epoch);
  }
}

WARPWRIGHT_END
