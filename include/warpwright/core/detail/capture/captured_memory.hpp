// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/core/detail/thread/locks.hpp>

#include <cstddef>

WARPWRIGHT_BEGIN

namespace detail {

/// Counts the memory that pools give to the graph of a capture, from begin() to the destructor.
class captured_memory : noncopyable {
 public:
  ~captured_memory() { end(); }

  /// @param capture  the capture's id, unique in the process
  void begin(unsigned long long capture) noexcept;
  /// @return what the graph keeps, without what pools lose by fragmentation
  [[nodiscard]] std::size_t bytes() const noexcept { return most_; }
  /// @return whether as much is left for the same work without a graph
  [[nodiscard]] bool leaves_room() const noexcept { return least_left_ >= most_; }

  /// For pools: a capture has allocated a block.
  /// @param left  what the pool could allocate after that
  static void allocated(unsigned long long capture, std::size_t bytes, std::size_t left) noexcept {
    change(capture, bytes, 0, left);
  }
  /// A capture has freed a block of its own, which it may allocate again.
  static void freed(unsigned long long capture, std::size_t bytes) noexcept {
    change(capture, 0, bytes, ~std::size_t{0});
  }

 private:
  static void change(unsigned long long capture, std::size_t more, std::size_t less,
                     std::size_t left) noexcept;
  void end() noexcept;

  unsigned long long capture_ = 0;
  std::size_t live_ = 0;
  std::size_t most_ = 0;
  std::size_t least_left_ = ~std::size_t{0};
  captured_memory* next_ = nullptr;
  bool listed_ = false;
};

/// The captures whose memory is counted. One list for all libraries of a program, as
/// captures_under_way.
struct captured_memory_list {
  spin_lock lock;
  captured_memory* first = nullptr;
};
__attribute__((visibility("default"))) inline captured_memory_list captured_memories;

inline void captured_memory::begin(unsigned long long capture) noexcept {
  capture_ = capture;
  listed_ = true;
  unique_lock<spin_lock> const guard{captured_memories.lock};
  next_ = captured_memories.first;
  captured_memories.first = this;
}

inline void captured_memory::end() noexcept {
  if (!listed_) return;
  unique_lock<spin_lock> const guard{captured_memories.lock};
  captured_memory** at = &captured_memories.first;
  while (*at != this) at = &(*at)->next_;
  *at = next_;
}

inline void captured_memory::change(unsigned long long capture, std::size_t more, std::size_t less,
                                    std::size_t left) noexcept {
  unique_lock<spin_lock> const guard{captured_memories.lock};
  for (captured_memory* at = captured_memories.first; at != nullptr; at = at->next_) {
    if (at->capture_ != capture) continue;
    at->live_ += more;
    at->live_ -= less < at->live_ ? less : at->live_;
    if (at->live_ > at->most_) at->most_ = at->live_;
    if (left < at->least_left_) at->least_left_ = left;
  }
}

}  // namespace detail

WARPWRIGHT_END
