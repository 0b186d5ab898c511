// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Helpers for tests of captured bodies that allocate from a pool.
#pragma once

#include "memory/support.hpp"
#include "support/catch.hpp"

#include <warpwright/graph/graph_replay.hpp>
#include <warpwright/memory/pool.hpp>

#include <cstddef>
#include <vector>

namespace test_support {

// Fills the pool's caches with blocks of the size, so that a body's allocation would be a hit.
inline void warm_up(ww::memory_pool& pool, ww::stream_ref s, std::size_t size) {
  std::vector<void*> blocks;
  for (int i = 0; i < 3; ++i) blocks.push_back(pool.allocate(s, size));
  for (void* p : blocks) pool.deallocate(s, p, size);
}

// Replays a graph whose body writes other bytes than 7 into memory it takes, and checks that blocks
// allocated after the capture, of the same size and filled with 7, are not written.
template <class Body>
void check_separate(ww::memory_pool& pool, Body const& body,
                    std::size_t size = std::size_t{1} << 20U) {
  ww::stream s;
  warm_up(pool, s, size);
  ww::graph_replay step{0};
  step.recapture(s, body);
  std::vector<void*> mine;
  for (int i = 0; i < 4; ++i) {
    mine.push_back(pool.allocate(s, size));
    fill(s, mine.back(), 7, size);
  }
  step.launch(s);
  for (void* p : mine) {
    CHECK(all_are(fetch(s, p, size), 7));
    pool.deallocate(s, p, size);
  }
  pool.retire(s);
}

// A pool that notes its blocks, for bodies that do not say how much they take.
class noting_pool {
 public:
  explicit noting_pool(ww::memory_pool& upstream) noexcept : upstream_{&upstream} {}
  void* allocate(ww::stream_ref s, std::size_t bytes, std::size_t alignment,
                 ww::source_location where = ww::source_location::current()) {
    void* const p = upstream_->allocate(s, bytes, alignment, where);
    blocks_.push_back(block{p, bytes});
    return p;
  }
  void deallocate(ww::stream_ref s, void* p, std::size_t bytes) {
    upstream_->deallocate(s, p, bytes);
  }

  // As the other check_separate(), for every block that the body has taken.
  template <class Body>
  void check_separate(Body const& body) {
    ww::stream s;
    body(s);  // what a library sets up at its first use is not for a capture
    s.synchronize();
    blocks_.clear();
    ww::graph_replay step{0};
    step.recapture(s, body);
    REQUIRE_FALSE(blocks_.empty());
    std::vector<block> mine;
    for (int i = 0; i < 3; ++i) {
      for (block const& b : blocks_) {
        mine.push_back(block{upstream_->allocate(s, b.bytes), b.bytes});
        CHECK(mine.back().pointer != b.pointer);
        fill(s, mine.back().pointer, 7, b.bytes);
      }
    }
    step.launch(s);
    for (block const& b : mine) {
      CHECK(all_are(fetch(s, b.pointer, b.bytes), 7));
      upstream_->deallocate(s, b.pointer, b.bytes);
    }
    upstream_->retire(s);
  }

 private:
  struct block {
    void* pointer;
    std::size_t bytes;
  };
  ww::memory_pool* upstream_;
  std::vector<block> blocks_;
};

}  // namespace test_support
