// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/memory/detail/pool/deferred_frees.hpp>

#include <cstdint>

WARPWRIGHT_BEGIN

namespace detail {

/// The memory of a pool that CUDA graphs use.
///
/// A graph's work runs at every launch, so no event can cover it. What a capture allocates, and
/// what is freed in it, is kept until its graph and all executables made from it are destroyed and
/// their launches have completed. A user object that the graph retains reports this (CUDA C++
/// Programming Guide, "CUDA User Objects"). The caller passes no handle for it, and an abandoned
/// capture returns its memory in the same way.
///
/// A block's tag is its graph's number plus one. All members require the heap's lock.
class graph_memory {
 public:
  static constexpr std::uint32_t none = block_heap::none;

  graph_memory(pool_heap& heap, epoch_tracker& streams, deferred_frees& deferred) noexcept
      : heap_{heap}, streams_{streams}, deferred_{deferred} {}
  ~graph_memory() {
    for (graph const& g : graphs_) {
      if (g.lifetime != nullptr) graph_lifetime::release(g.lifetime);
    }
  }
  graph_memory(graph_memory const&) = delete;
  graph_memory& operator=(graph_memory const&) = delete;

  /// Whether a graph has memory of the pool.
  [[nodiscard]] bool any() const noexcept { return count_ != 0; }

  /// The graph that the stream is capturing into, entered at the capture's first call.
  /// @return none: the capture was invalidated, so its work will never run
  /// @pre the pool's slow path is serialised
  std::uint32_t graph_of(heap_guard& lock, stream_ref stream, source_location where);
  /// The list of the blocks that the graph's capture has freed on a stream, for that stream's later
  /// work in the same capture.
  std::uint32_t list_of(std::uint32_t number, cudaStream_t handle);
  /// As list_of(), but none where the capture has freed nothing there.
  [[nodiscard]] std::uint32_t find_list(std::uint32_t number, cudaStream_t handle) const noexcept {
    for (freed_on const& l : graphs_[number].lists) {
      if (l.handle == handle) return l.list;
    }
    return none;
  }
  /// Gives an allocated block to a graph.
  void own(std::uint32_t node, std::uint32_t number) noexcept {
    heap_.blocks.set_tag(node, number + 1);
  }
  /// Frees a block on a capturing stream: a block of the same graph is reusable in the capture, any
  /// other block is kept for the graph.
  /// @param number  from graph_of(); none: nothing runs that the capture has submitted
  void free(std::uint32_t node, std::uint32_t number, stream_ref stream, source_location where);
  /// Frees a block outside of a capture when its events have completed and its graph, if it has
  /// one, is destroyed.
  /// @pre deferred_frees::record_events()
  void free_behind_events(std::uint32_t node);

  /// Makes the memory of destroyed graphs reusable.
  /// @return whether there was one
  bool reclaim() noexcept;

 private:
  /// Set by CUDA when a graph and all its executables are destroyed. Shared by the pool and CUDA,
  /// because either may release it first.
  struct graph_lifetime {
    atomic<unsigned> references{2};
    atomic<bool> destroyed;

    static void release(graph_lifetime* object) noexcept {
      if (object->references.fetch_sub(1, memory_order::acq_rel) == 1) delete object;
    }
    static void CUDART_CB on_destroyed(void* object) {
      static_cast<graph_lifetime*>(object)->destroyed.store(true, memory_order::release);
      release(static_cast<graph_lifetime*>(object));
    }
    [[nodiscard]] bool is_destroyed() const noexcept {
      return destroyed.load(memory_order::acquire);
    }
  };
  struct freed_on {
    cudaStream_t handle = nullptr;
    std::uint32_t list = 0;
  };
  struct graph {
    unsigned long long capture_id = 0;
    graph_lifetime* lifetime = nullptr;  // null: unused entry
    array<freed_on> lists;
    array<std::uint32_t> kept;  // freed blocks that the graph holds
  };

  graph_lifetime* retain_in(heap_guard& lock, cudaGraph_t captured, source_location where);
  /// The list of a capturing stream, whose id may be unknown: querying it would invalidate the
  /// capture.
  std::uint32_t capturing_list(stream_ref stream, source_location where) {
    if (stream.has_id()) return streams_.list_of(stream.id(where), stream.get());
    std::uint32_t const list = streams_.find_by_handle(stream.get());
    return list != none ? list : streams_.new_list(epoch_tracker::no_id, stream.get());
  }

  pool_heap& heap_;
  epoch_tracker& streams_;
  deferred_frees& deferred_;
  array<graph> graphs_;
  std::size_t count_ = 0;
};

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

inline std::uint32_t graph_memory::graph_of(heap_guard& lock, stream_ref stream,
                                            source_location where) {
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

/// Makes the graph being captured report its destruction.
inline graph_memory::graph_lifetime* graph_memory::retain_in(heap_guard& lock, cudaGraph_t captured,
                                                             source_location where) {
  auto* const object = new graph_lifetime;
  unlocked const released{lock};
  cudaUserObject_t handle = nullptr;
  cudaError_t result = cudaUserObjectCreate(&handle, object, &graph_lifetime::on_destroyed, 1,
                                            cudaUserObjectNoDestructorSync);
  if (result != cudaSuccess) {
    delete object;
    check(result, "cudaUserObjectCreate", where);
  }
  result = cudaGraphRetainUserObject(captured, handle, 1, cudaGraphUserObjectMove);
  if (result != cudaSuccess) {
    discard(cudaUserObjectRelease(handle, 1));
    graph_lifetime::release(object);
    check(result, "cudaGraphRetainUserObject", where);
  }
  return object;
}

inline std::uint32_t graph_memory::list_of(std::uint32_t number, cudaStream_t handle) {
  std::uint32_t list = find_list(number, handle);
  if (list != none) return list;
  graphs_[number].lists.reserve(graphs_[number].lists.size() + 1);
  list = streams_.add_graph_list();
  graphs_[number].lists.push_back(freed_on{handle, list});
  return list;
}

inline void graph_memory::free(std::uint32_t node, std::uint32_t number, stream_ref stream,
                               source_location where) {
  std::uint32_t const tag = heap_.blocks.at(node).tag;
  if (number == none) {
    if (tag != 0) return free_behind_events(node);
    streams_.free(node, capturing_list(stream, where));
    ++heap_.counters.deallocations;
    return;
  }
  if (tag == number + 1) {
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

inline void graph_memory::free_behind_events(std::uint32_t node) {
  deferred_.reserve();
  // Read late: the graph may have been destroyed while the events were recorded.
  std::uint32_t const tag = heap_.blocks.at(node).tag;
  if (tag != 0) graphs_[tag - 1].kept.push_back(node);
  deferred_.begin(node, tag != 0 ? 1 : 0, none);
}

inline bool graph_memory::reclaim() noexcept {
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

WARPWRIGHT_END
