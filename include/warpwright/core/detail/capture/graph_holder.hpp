// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/config.hpp>
#include <warpwright/core/detail/noncopyable.hpp>

#include <pthread.h>

WARPWRIGHT_BEGIN

namespace detail {

/// Lists an object that keeps executable graphs for later launches, and can make them again: a pool
/// without memory for a call makes it destroy some, as they hold memory.
class graph_holder : noncopyable {
 public:
  /// Destroys graphs of the owner. @return false: it has none
  using release_function = bool (*)(void* owner) noexcept;

  graph_holder(release_function release, void* owner) noexcept;
  /// Waits until no thread is in `release`.
  ~graph_holder();

  /// @return whether a holder has destroyed some
  /// @pre the caller holds no lock
  static bool release_some() noexcept;

 private:
  release_function release_;
  void* owner_;
  graph_holder* next_ = nullptr;
};

/// One list for all libraries of a program, as captures_under_way.
struct graph_holder_list {
  pthread_mutex_t mutex{};  // all zero, as PTHREAD_MUTEX_INITIALIZER
  graph_holder* first = nullptr;
};
__attribute__((visibility("default"))) inline graph_holder_list graph_holders;

inline graph_holder::graph_holder(release_function release, void* owner) noexcept
    : release_{release}, owner_{owner} {
  pthread_mutex_lock(&graph_holders.mutex);
  next_ = graph_holders.first;
  graph_holders.first = this;
  pthread_mutex_unlock(&graph_holders.mutex);
}

inline graph_holder::~graph_holder() {
  pthread_mutex_lock(&graph_holders.mutex);
  graph_holder** at = &graph_holders.first;
  while (*at != this) at = &(*at)->next_;
  *at = next_;
  pthread_mutex_unlock(&graph_holders.mutex);
}

inline bool graph_holder::release_some() noexcept {
  bool released = false;
  pthread_mutex_lock(&graph_holders.mutex);
  for (graph_holder* at = graph_holders.first; at != nullptr && !released; at = at->next_) {
    released = at->release_(at->owner_);
  }
  pthread_mutex_unlock(&graph_holders.mutex);
  return released;
}

}  // namespace detail

WARPWRIGHT_END
