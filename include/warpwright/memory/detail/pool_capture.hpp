// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory of a memory_pool that CUDA graphs use. Included by pool.hpp.
//
// A capture's memory is kept for its graph until CUDA says that the graph and all executables made
// from it are gone and their launches have ended: a user object, retained by the graph, tells (CUDA
// C++ Programming Guide, "CUDA User Objects"). No handle has to be passed around for that, and a
// capture that is abandoned gives its memory back in the same way.
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

/// The entry of the graph that the stream is capturing, made at the capture's first call.
/// @pre slow_ is held
inline std::uint32_t memory_pool::graph_of(pool_held& lock, stream_ref stream,
                                           source_location where) {
  lock.unlock();
  detail::capture_info const info = detail::get_capture_info(stream, where);
  lock.lock();
  if (info.status != cudaStreamCaptureStatusActive) {
    lock.unlock();
    detail::throw_invalid_argument(
        "memory_pool: the stream's capture has been broken by an earlier call; end it first",
        where);
  }
  std::uint32_t unused = static_cast<std::uint32_t>(graphs_.size());
  for (std::uint32_t g = 0; g < graphs_.size(); ++g) {
    if (graphs_[g].ticket == nullptr) {
      unused = g;
    } else if (graphs_[g].capture_id == info.id) {
      return g;
    }
  }
  if (unused == graphs_.size()) graphs_.emplace_back();
  auto* const ticket = new detail::graph_ticket;
  lock.unlock();
  cudaUserObject_t object = nullptr;
  char const* api = "cudaUserObjectCreate";
  cudaError_t answer = cudaUserObjectCreate(&object, ticket, &detail::graph_ticket::tell, 1,
                                            cudaUserObjectNoDestructorSync);
  bool const created = answer == cudaSuccess;
  if (created) {
    api = "cudaGraphRetainUserObject";
    answer = cudaGraphRetainUserObject(info.graph, object, 1, cudaGraphUserObjectMove);
    if (answer != cudaSuccess) detail::discard(cudaUserObjectRelease(object, 1));
  }
  lock.lock();
  if (answer != cudaSuccess) {
    if (!created) detail::graph_ticket::drop(ticket);  // CUDA's share
    detail::graph_ticket::drop(ticket);
    check(answer, api, where);
  }
  graphs_[unused].capture_id = info.id;
  graphs_[unused].ticket = ticket;
  update_attention();
  return unused;
}

/// The list of what a graph's capture has freed on a stream.
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
  entries_[list].id = nobody;
  entries_[list].handle = nullptr;
  entries_[list].used = true;
  entries_[list].of_graph = true;
  graphs_[graph].lists.push_back(detail::graph_list{handle, list});
  return list;
}

inline void* memory_pool::allocate_for_graph(stream_ref stream, request wanted,
                                             source_location where) {
  slow_section const section{*this, where};
  empty_all_caches();
  pool_held lock{lock_};
  reclaim_graphs();
  std::uint32_t const graph = graph_of(lock, stream, where);
  std::uint32_t const list = graph_list(graph, stream.get());
  void* pointer = take_hit(list, wanted, where);
  if (pointer == nullptr) pointer = join_and_take(list, wanted, where);
  if (pointer == nullptr) pointer = grow(lock, list, wanted, where);
  if (pointer == nullptr) {
    finish_all(lock, nobody, where);
    pointer = take_hit(list, wanted, where);
    if (pointer == nullptr) pointer = join_and_take(list, wanted, where);
  }
  if (pointer == nullptr) pointer = compact_and_take(lock, list, wanted, where);
  if (pointer != nullptr) heap_.set_mark(heap_.find(address_of(pointer)), graph + 1);
  return pointer;
}

/// A free on a capturing stream: memory of the same graph is the capture's again, other memory is
/// kept for the graph.
inline void memory_pool::free_in_graph(stream_ref stream, void* pointer, std::size_t bytes,
                                       source_location where) {
  slow_section const section{*this, where};
  pool_held lock{lock_};
  reclaim_graphs();
  std::uint32_t const node = find_live(lock, pointer, bytes, where);
  for (detail::shared_use const& u : uses_) {
    if (u.node != node) continue;
    lock.unlock();
    detail::throw_invalid_argument(
        "memory_pool: a block with record_use() is freed while one of its streams is capturing; "
        "end the capture first",
        where);
  }
  std::uint32_t const graph = graph_of(lock, stream, where);
  std::uint32_t const mark = heap_.at(node).mark;
  if (mark == graph + 1) {
    std::uint32_t const list = graph_list(graph, stream.get());
    if (options_.checked_) remember_free(node, where);
    heap_.give(node, list, 0);
    ++counters_.deallocations;
  } else {
    graphs_[graph].kept.reserve(graphs_[graph].kept.size() + 1);
    std::uint32_t const list = list_of_capturing(stream, where);
    if (mark != 0) {
      graphs_[mark - 1].kept.push_back(detail::kept_block{node, list});
      ++entries_[list].kept;
    }
    graphs_[graph].kept.push_back(detail::kept_block{node, list});
    ++entries_[list].kept;
    begin_holding(node, where);
  }
}

/// The list of a stream that is capturing, so that its id may be unknown.
inline std::uint32_t memory_pool::list_of_capturing(stream_ref stream, source_location where) {
  cudaStream_t const handle = stream.get();
  if (stream.knows_id()) return list_of(stream.id(where), handle);
  for (std::uint32_t list = heap::first_stream_list; list < entries_.size(); ++list) {
    stream_entry const& e = entries_[list];
    bool const of_thread = handle == cudaStreamPerThread;  // many streams by one handle
    if (e.used && e.handle == handle && (!of_thread || e.id == nobody)) return list;
  }
  return new_list(nobody, handle);
}

/// Takes memory back from graphs that are gone.
inline void memory_pool::reclaim_graphs() noexcept {
  bool any = false;
  for (std::uint32_t g = 0; g < graphs_.size(); ++g) {
    detail::graph_memory& graph = graphs_[g];
    if (graph.ticket == nullptr || !graph.ticket->is_gone()) continue;
    any = true;
    detail::graph_ticket::drop(graph.ticket);
    graph.ticket = nullptr;
    for (detail::graph_list const& l : graph.lists) {
      static_cast<void>(heap_.move(l.list, ~std::uint64_t{0}, heap::ready, 0));
      entries_[l.list].used = false;
      entries_[l.list].of_graph = false;
    }
    graph.lists.clear();
    while (!graph.kept.empty()) {
      detail::kept_block const k = graph.kept.back();
      graph.kept.pop_back();
      if (k.list != heap::none) --entries_[k.list].kept;
      if (!is_held(k.node)) end_holding(k.node, k.list);
    }
    heap_.clear_marks(g + 1);
  }
  if (any) update_attention();
}

/// Whether a graph keeps a freed block, or a stream has yet to pass it.
inline bool memory_pool::is_held(std::uint32_t node) const noexcept {
  for (detail::pending_block const& p : pending_) {
    if (p.node == node) return true;
  }
  for (detail::graph_memory const& g : graphs_) {
    for (detail::kept_block const& k : g.kept) {
      if (k.node == node) return true;
    }
  }
  return false;
}

inline void memory_pool::watch_captures(int change) noexcept {
  pool_held const lock{lock_};
  watches_ += change;
  update_attention();
}

inline void memory_pool::update_attention() noexcept {
  unsigned why = 0;
  if (watches_ != 0 || options_.checked_ || options_.notice_captures_) why |= watching;
  if (!uses_.empty()) why |= shared_blocks;
  for (detail::graph_memory const& g : graphs_) {
    if (g.ticket != nullptr) why |= graph_blocks;
  }
  __atomic_store_n(&attention_, why, __ATOMIC_RELAXED);
}

/// A block is freed, and stays live in the books until end_holding().
inline void memory_pool::begin_holding(std::uint32_t node, source_location where) noexcept {
  if (options_.checked_) remember_free(node, where);
  heap_.set_mark(node, held_mark);
  held_bytes_ += heap_.at(node).bytes;
  ++held_blocks_;
  ++counters_.deallocations;
}

/// @param list  the stream whose work may still use it; none: nobody's
inline void memory_pool::end_holding(std::uint32_t node, std::uint32_t list) noexcept {
  held_bytes_ -= heap_.at(node).bytes;
  --held_blocks_;
  if (list == heap::none) {
    heap_.give(node, heap::ready, 0);
  } else {
    heap_.give(node, list, entries_[list].open_epoch);
  }
}

WARPWRIGHT_END
