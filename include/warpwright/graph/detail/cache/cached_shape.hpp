// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What a graph_cache keeps of its keys, and of the streams that it was called with.
#pragma once

#include <warpwright/core/detail/container/array.hpp>
#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/core/detail/thread/atomic.hpp>
#include <warpwright/core/shape_key.hpp>
#include <warpwright/graph/detail/cache/bindings.hpp>
#include <warpwright/graph/detail/cache/cache_settings.hpp>
#include <warpwright/graph/detail/cache/cost_gate.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

WARPWRIGHT_BEGIN

namespace detail {

/// What cached graphs need.
struct cached_bytes {
  std::size_t graphs = 0;  // of the executable graphs, estimated
  std::size_t pool = 0;    // of pools, which belongs to the graphs

  cached_bytes& operator+=(cached_bytes const& more) noexcept {
    graphs += more.graphs;
    pool += more.pool;
    return *this;
  }
  cached_bytes& operator-=(cached_bytes const& less) noexcept {
    graphs -= less.graphs;
    pool -= less.pool;
    return *this;
  }
  [[nodiscard]] bool fits(cached_bytes const& most) const noexcept {
    return graphs <= most.graphs && pool <= most.pool;
  }
};

/// What an element of an lru_list has in it.
struct lru_node {
  lru_node* newer = nullptr;
  lru_node* older = nullptr;
  cached_bytes bytes;
  bool listed = false;
};

/// The order in which elements were last used, exactly, and the bytes of all of them.
class lru_list {
 public:
  lru_list(std::size_t most_entries, cached_bytes const& most_bytes) noexcept
      : most_entries_{most_entries}, most_bytes_{most_bytes} {}

  /// Makes an element the newest; adds it if it is not in the list.
  WARPWRIGHT_ALWAYS_INLINE void touch(lru_node& node) noexcept {
    if (&node != newest_) move_to_front(node);
  }
  /// Makes an element of the list the newest.
  WARPWRIGHT_ALWAYS_INLINE void touch_listed(lru_node& node) noexcept {
    if (node.listed) touch(node);
  }
  /// Changes the size of an element of the list.
  void resize(lru_node& node, cached_bytes const& bytes) noexcept {
    bytes_ -= node.bytes;
    bytes_ += bytes;
    node.bytes = bytes;
  }
  void remove(lru_node& node) noexcept {
    if (!node.listed) return;
    unlink(node);
    node.listed = false;
    --size_;
    bytes_ -= node.bytes;
  }
  /// @return what exceeds a budget and must go, the oldest; never the newest. Null: nothing
  [[nodiscard]] lru_node* excess() const noexcept {
    bool const exceeds = size_ > most_entries_ || !bytes_.fits(most_bytes_);
    return exceeds && oldest_ != newest_ ? oldest_ : nullptr;
  }
  [[nodiscard]] lru_node* oldest() const noexcept { return oldest_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] cached_bytes const& bytes() const noexcept { return bytes_; }

 private:
  void move_to_front(lru_node& node) noexcept {
    if (node.listed) {
      unlink(node);
    } else {
      node.listed = true;
      ++size_;
      bytes_ += node.bytes;
    }
    node.newer = nullptr;
    node.older = newest_;
    if (newest_ != nullptr) newest_->newer = &node;
    newest_ = &node;
    if (oldest_ == nullptr) oldest_ = &node;
  }
  void unlink(lru_node& node) noexcept {
    (node.newer != nullptr ? node.newer->older : newest_) = node.older;
    (node.older != nullptr ? node.older->newer : oldest_) = node.newer;
    node.newer = node.older = nullptr;
  }

  lru_node* newest_ = nullptr;
  lru_node* oldest_ = nullptr;
  std::size_t size_ = 0;
  cached_bytes bytes_;
  std::size_t most_entries_;
  cached_bytes most_bytes_;
};

/// An executable graph, and the bindings that are in it. It is in its key's list, or retired.
struct cached_graph : private noncopyable {
  explicit cached_graph(std::size_t count) : words(count) {}
  virtual ~cached_graph() = default;  // of a built_graph, which owns the handle

  cudaGraphExec_t exec = nullptr;
  array<std::uint64_t> words;
  int device = 0;
  std::uint64_t stream_id = 0;
  std::uint64_t last_launch = 0;  // the cache's count of launches then; 0: never
  std::uint64_t until_verified = 0;
  std::size_t nodes = 0;
  cached_bytes bytes;
  atomic<bool> busy;  // a thread launches or changes it
  cached_graph* next = nullptr;
};

/// How the calls of a key run without a look at the policies.
enum class fast_mode : unsigned char { none, eager, graph };

struct cached_shape : lru_node, private noncopyable {
  cached_shape(shape_key const& shape, void const* function_tag, std::uint64_t hash_value,
               std::size_t words, cache_settings const& options)
      : key{shape},
        tag{function_tag},
        hash{hash_value},
        last_words(words),
        warmups{options.warmups},
        gate{options.cost_gate},
        guard{options.thrash_limit} {}
  ~cached_shape() {
    while (graphs != nullptr) {
      cached_graph* const next = graphs->next;
      delete graphs;
      graphs = next;
    }
  }

  [[nodiscard]] WARPWRIGHT_ALWAYS_INLINE bool is(shape_key const& shape,
                                                 void const* function_tag) const noexcept {
    return tag == function_tag && key == shape;
  }
  [[nodiscard]] bool binds(cached_graph const& g, binding_view words) const noexcept {
    return same_words(g.words.begin(), words.words, words.count);
  }

  // Read and written by every call, under the cache's spin lock.
  shape_key key;
  void const* tag;  // of the function's type: another function is another key
  std::uint64_t hash;
  fast_mode fast = fast_mode::none;
  bool new_words = true;        // last_words has not been written
  std::uint64_t fast_left = 0;  // calls in the fast mode until the policies are asked
  cached_graph* graphs = nullptr;
  graph_cache_counts counts;        // calls, replays and eager, first; the others under the mutex
  std::uint64_t changes = 0;        // calls that no graph could have replayed
  std::uint64_t refills = 0;        // of them, those whose graphs had been evicted
  array<std::uint64_t> last_words;  // the bindings of the last eager call

  // Under the cache's mutex.
  unsigned warmups;
  bool failing = false;  // the pause of the guard is for a failure
  bool evicted = false;  // since the last capture
  // While it is paused as there is no room: the oldest key of those with graphs, and its calls, at
  // the call `watched_from`.
  cached_shape* oldest = nullptr;
  std::uint64_t oldest_calls = 0;
  std::uint64_t watched_from = 0;
  std::uint64_t observed_calls = 0;
  std::uint64_t observed_changes = 0;
  std::size_t count = 0;  // of graphs
  std::size_t nodes = 0;
  cost_gate gate;
  thrash_guard guard;
  double spent_nanoseconds = 0.0;  // on captures and instantiations
  std::string last_rebuild;
  std::string last_kernel;
  std::string last_failure;
};

/// The keys of a cache: a hash table with open addressing, at most half full, that never loses one.
class shape_table : noncopyable {
 public:
  ~shape_table() { clear(); }

  static std::uint64_t hash(shape_key const& key, void const* tag) noexcept {
    std::uint64_t const h = key.hash() ^ reinterpret_cast<std::uintptr_t>(tag);
    return h * 0x9E3779B97F4A7C15U;
  }
  [[nodiscard]] cached_shape* find(shape_key const& key, void const* tag) const noexcept {
    if (slots_.empty()) return nullptr;
    for (std::size_t i = first(hash(key, tag)); slots_[i] != nullptr; i = next(i)) {
      if (slots_[i]->is(key, tag)) return slots_[i];
    }
    return nullptr;
  }
  /// A larger array for one more key, empty if that fits; the caller swaps it in under its lock.
  [[nodiscard]] array<cached_shape*> grown() {
    all_.reserve(all_.size() + 1);
    if (2 * (all_.size() + 1) <= slots_.size()) return {};
    array<cached_shape*> larger(slots_.empty() ? 16 : 2 * slots_.size());
    return larger;
  }
  /// @param larger  of grown(); takes ownership of `added`
  void insert(cached_shape* added, array<cached_shape*>& larger) noexcept {
    if (!larger.empty()) {
      slots_.swap(larger);
      for (cached_shape* const shape : all_) place(shape);
    }
    place(added);
    all_.push_back(added);
  }
  [[nodiscard]] array<cached_shape*> const& all() const noexcept { return all_; }
  void clear() noexcept {
    for (cached_shape* const shape : all_) delete shape;
    all_.clear();
    for (cached_shape*& slot : slots_) slot = nullptr;
  }

 private:
  // The high bits of a product are the well-mixed ones.
  [[nodiscard]] std::size_t first(std::uint64_t hash) const noexcept {
    return (hash >> 32U) & (slots_.size() - 1);
  }
  [[nodiscard]] std::size_t next(std::size_t i) const noexcept {
    return (i + 1) & (slots_.size() - 1);
  }
  void place(cached_shape* shape) noexcept {
    std::size_t i = first(shape->hash);
    while (slots_[i] != nullptr) i = next(i);
    slots_[i] = shape;
  }

  array<cached_shape*> slots_;
  array<cached_shape*> all_;  // in the order of their first calls
};

/// The devices of the streams that a cache was called with lately, by the streams' ids, which CUDA
/// does not use again.
class stream_table {
 public:
  static constexpr std::size_t capacity = 32;
  static constexpr int unknown = -1;

  [[nodiscard]] int device_of(std::uint64_t id) const noexcept {
    for (std::size_t i = 0; i < size_; ++i) {
      if (rows_[i].id == id) return rows_[i].device;
    }
    return unknown;
  }
  /// Adds a stream, in place of the one that was added first if the table is full.
  void add(std::uint64_t id, int device) noexcept {
    if (device_of(id) != unknown) return;
    rows_[next_] = {id, device};
    next_ = (next_ + 1) % capacity;
    if (size_ < capacity) ++size_;
  }

 private:
  struct row {
    std::uint64_t id;
    int device;
  };
  row rows_[capacity] = {};
  std::size_t size_ = 0;
  std::size_t next_ = 0;
};

}  // namespace detail

WARPWRIGHT_END
