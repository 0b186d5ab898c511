// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The reference: best fit with coalescing on cudaMalloc segments, with separate free blocks for
// each stream. A stream never gets another stream's memory, so reuse needs no event. This is what
// frameworks without cross-stream reuse do, and what it costs in memory.
#pragma once

#include <warpwright/core/stream.hpp>

#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

namespace replay {

namespace ww = warpwright;

/// Best fit over segments; each belongs to the stream that requested it.
class best_fit {
 public:
  static constexpr std::uint64_t granule_bytes = 256;
  static constexpr std::uint64_t segment_bytes = std::uint64_t{2} << 20U;

  best_fit() = default;
  best_fit(best_fit const&) = delete;
  best_fit& operator=(best_fit const&) = delete;
  ~best_fit() {
    static_cast<void>(cudaDeviceSynchronize());
    for (auto const& segment : segments_) {
      static_cast<void>(cudaFree(reinterpret_cast<void*>(segment.first)));
    }
    static_cast<void>(cudaGetLastError());
  }

  /// @return memory for the stream; null when the device is out of memory
  void* allocate(std::uint32_t stream, std::uint64_t bytes) {
    std::lock_guard<std::mutex> const lock{mutex_};
    if (bytes == 0 || bytes > ~std::uint64_t{0} - segment_bytes) return nullptr;
    std::uint64_t const size = round_up(bytes, granule_bytes);
    if (stream >= free_.size()) free_.resize(stream + 1);
    auto hole = free_[stream].lower_bound({size, 0});
    if (hole == free_[stream].end()) {
      if (!grow(stream, round_up(size, segment_bytes))) return nullptr;
      hole = free_[stream].lower_bound({size, 0});
    }
    std::uintptr_t const at = hole->second;
    free_[stream].erase(hole);
    block& allocated = blocks_.at(at);
    allocated.free = false;
    if (allocated.bytes > size) {
      blocks_.emplace(at + size, block{allocated.bytes - size, stream, true});
      free_[stream].insert({allocated.bytes - size, at + size});
      allocated.bytes = size;
    }
    return reinterpret_cast<void*>(at);
  }

  /// Frees a block into the stream that it was allocated on.
  void deallocate(void* pointer) {
    if (pointer == nullptr) return;
    std::lock_guard<std::mutex> const lock{mutex_};
    auto at = blocks_.find(reinterpret_cast<std::uintptr_t>(pointer));
    auto& holes = free_[at->second.stream];
    at->second.free = true;
    auto const next = std::next(at);
    if (next != blocks_.end() && coalesces(*at, *next)) {
      holes.erase({next->second.bytes, next->first});
      at->second.bytes += next->second.bytes;
      blocks_.erase(next);
    }
    if (at != blocks_.begin()) {
      auto const before = std::prev(at);
      if (coalesces(*before, *at)) {
        holes.erase({before->second.bytes, before->first});
        before->second.bytes += at->second.bytes;
        blocks_.erase(at);
        at = before;
      }
    }
    holes.insert({at->second.bytes, at->first});
  }

  [[nodiscard]] std::uint64_t reserved_bytes() const {
    std::lock_guard<std::mutex> const lock{mutex_};
    return reserved_bytes_;
  }
  [[nodiscard]] std::uint64_t reserved_peak_bytes() const {
    std::lock_guard<std::mutex> const lock{mutex_};
    return reserved_peak_bytes_;
  }
  /// CUDA calls so far.
  [[nodiscard]] std::uint64_t calls() const {
    std::lock_guard<std::mutex> const lock{mutex_};
    return calls_;
  }
  [[nodiscard]] std::uint64_t largest_free_block_bytes() const {
    std::lock_guard<std::mutex> const lock{mutex_};
    std::uint64_t largest = 0;
    for (auto const& holes : free_) {
      if (!holes.empty() && holes.rbegin()->first > largest) largest = holes.rbegin()->first;
    }
    return largest;
  }

 private:
  struct block {
    std::uint64_t bytes;
    std::uint32_t stream;
    bool free;
  };
  using block_entry = std::pair<std::uintptr_t const, block>;

  static std::uint64_t round_up(std::uint64_t bytes, std::uint64_t unit) {
    return (bytes + unit - 1) / unit * unit;
  }
  // Adjacent segments are not coalesced.
  [[nodiscard]] bool coalesces(block_entry const& low, block_entry const& high) const {
    return low.second.free && high.second.free && low.first + low.second.bytes == high.first &&
           segments_.count(high.first) == 0;
  }
  bool grow(std::uint32_t stream, std::uint64_t bytes) {
    void* memory = nullptr;
    ++calls_;
    if (cudaMalloc(&memory, bytes) != cudaSuccess) {
      static_cast<void>(cudaGetLastError());
      free_empty_segments();
      ++calls_;
      if (cudaMalloc(&memory, bytes) != cudaSuccess) {
        static_cast<void>(cudaGetLastError());
        return false;
      }
    }
    auto const at = reinterpret_cast<std::uintptr_t>(memory);
    segments_.emplace(at, bytes);
    blocks_.emplace(at, block{bytes, stream, true});
    free_[stream].insert({bytes, at});
    reserved_bytes_ += bytes;
    if (reserved_bytes_ > reserved_peak_bytes_) reserved_peak_bytes_ = reserved_bytes_;
    return true;
  }
  void free_empty_segments() {  // cudaFree waits for the device
    for (auto segment = segments_.begin(); segment != segments_.end();) {
      auto const whole = blocks_.find(segment->first);
      if (!whole->second.free || whole->second.bytes != segment->second) {
        ++segment;
        continue;
      }
      free_[whole->second.stream].erase({whole->second.bytes, whole->first});
      blocks_.erase(whole);
      ++calls_;
      ww::check(cudaFree(reinterpret_cast<void*>(segment->first)), "cudaFree");
      reserved_bytes_ -= segment->second;
      segment = segments_.erase(segment);
    }
  }

  mutable std::mutex mutex_;
  std::map<std::uintptr_t, std::uint64_t> segments_;
  std::map<std::uintptr_t, block> blocks_;  // all blocks, free and live, by address
  std::vector<std::set<std::pair<std::uint64_t, std::uintptr_t>>> free_;  // by stream
  std::uint64_t reserved_bytes_ = 0;
  std::uint64_t reserved_peak_bytes_ = 0;
  std::uint64_t calls_ = 0;
};

}  // namespace replay
