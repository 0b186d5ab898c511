// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/config.hpp>

#include <cstddef>

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

}  // namespace detail

WARPWRIGHT_END
