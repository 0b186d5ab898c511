// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The model of the pool's stress test: the owner of each granule of 256 bytes, and the errors that
// streams found in their blocks.
#pragma once

#include <warpwright/core/launch.hpp>
#include <warpwright/core/stream.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#if !defined(__CUDA_ARCH__)
#include <unistd.h>
#endif

namespace pool_stress {

namespace ww = warpwright;

/// Collects errors; after the first, all threads stop.
class failures {
 public:
  void add(std::string const& text) {
    std::lock_guard<std::mutex> const lock{mutex_};
    if (texts_.size() < 20) texts_.push_back(text);
    any_.store(true, std::memory_order_relaxed);
  }
  bool any() const { return any_.load(std::memory_order_relaxed); }
  std::vector<std::string> texts() const {
    std::lock_guard<std::mutex> const lock{mutex_};
    return texts_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> texts_;
  std::atomic<bool> any_{false};
};

inline std::string hex(std::uint64_t value) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "0x%llx", static_cast<unsigned long long>(value));
  return digits;
}

/// The owner of each granule of live memory: 0, or the owner's tag.
///
/// No locks, and only relaxed atomics: the model must not order calls that the pool fails to order,
/// since ThreadSanitizer would then miss the race.
class shadow {
 public:
  static constexpr std::uint64_t granule_bytes = 256;

  explicit shadow(failures& found) : failures_{found} {}
  ~shadow() {
    for (auto& slot : pages_) delete slot.load();
  }
  shadow(shadow const&) = delete;
  shadow& operator=(shadow const&) = delete;

  /// The memory is allocated: it must have no owner, or `accepted`.
  void claim(void const* pointer, std::size_t bytes, std::uint32_t tag,
             std::uint32_t accepted = 0) {
    exchange(pointer, bytes, tag, accepted, "allocated while it is owned");
  }
  /// The memory is about to be freed.
  void release(void const* pointer, std::size_t bytes, std::uint32_t tag) {
    exchange(pointer, bytes, 0, tag, "changed hands while it was live");
  }
  /// The memory passes from one owner to another.
  void pass(void const* pointer, std::size_t bytes, std::uint32_t from, std::uint32_t to) {
    exchange(pointer, bytes, to, from, "changed hands while it was live");
  }
  /// Clears the granules that `tag` still owns.
  void clear(void const* pointer, std::size_t bytes, std::uint32_t tag) {
    for_each(pointer, bytes, [&](std::atomic<std::uint32_t>& owner, std::uint64_t) {
      std::uint32_t expected = tag;
      owner.compare_exchange_strong(expected, 0, std::memory_order_relaxed);
    });
  }

 private:
  static constexpr std::uint64_t page_granules = 8192;  // 2 MiB
  static constexpr std::uint64_t slot_count = 1U << 14U;
  struct page {
    explicit page(std::uint64_t number) : chunk{number} {}
    std::uint64_t const chunk;
    std::atomic<std::uint32_t> owners[page_granules] = {};
  };

  void exchange(void const* pointer, std::size_t bytes, std::uint32_t tag, std::uint32_t expected,
                char const* what) {
    std::uint32_t wrong = 0;
    std::uint64_t at = 0;
    for_each(pointer, bytes, [&](std::atomic<std::uint32_t>& owner, std::uint64_t address) {
      std::uint32_t const before = owner.exchange(tag, std::memory_order_relaxed);
      if (before == expected || (expected != 0 && tag == expected && before == 0)) return;
      wrong = before;
      at = address;
    });
    if (at == 0) return;
    failures_.add("memory " + std::string{what} + ": " + hex(at) + " of the block at " +
                  hex(reinterpret_cast<std::uintptr_t>(pointer)) + " with " +
                  std::to_string(bytes) + " bytes; owner " + hex(wrong) + ", now " + hex(tag) +
                  ", expected " + hex(expected));
  }

  template <class Visit>
  void for_each(void const* pointer, std::size_t bytes, Visit&& visit) {
    auto const begin = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(pointer));
    page* here = nullptr;
    for (std::uint64_t at = begin; at < begin + bytes; at += granule_bytes) {
      std::uint64_t const granule = at / granule_bytes;
      if (here == nullptr || here->chunk != granule / page_granules) {
        here = page_of(granule / page_granules);
        if (here == nullptr) return failures_.add("the model's table of pages is full");
      }
      visit(here->owners[granule % page_granules], at);
    }
  }

  page* page_of(std::uint64_t chunk) {
    std::unique_ptr<page> fresh;
    for (std::uint64_t i = 0; i < slot_count; ++i) {
      std::atomic<page*>& slot = pages_[(chunk * 0x9e3779b97f4a7c15ULL + i) % slot_count];
      page* there = slot.load(std::memory_order_acquire);
      if (there == nullptr) {
        if (fresh == nullptr) fresh = std::make_unique<page>(chunk);
        if (slot.compare_exchange_strong(there, fresh.get(), std::memory_order_acq_rel)) {
          return fresh.release();
        }
      }
      if (there->chunk == chunk) return there;
    }
    return nullptr;
  }

  failures& failures_;
  std::vector<std::atomic<page*>> pages_ = std::vector<std::atomic<page*>>(slot_count);
};

/// The errors that a stream found: in device memory, one for each stream.
struct finding {
  unsigned count;
  std::uint32_t expected;
  std::uint32_t found;
  std::uint64_t address;
};

/// Up to this many evenly distributed words of a block are written and checked, and its last bytes.
constexpr std::uint64_t stamped_words = 4096;

/// The words of a block that are written and checked.
struct stamped {
  unsigned char* bytes;
  std::uint64_t size;
  std::uint32_t tag;

  WARPWRIGHT_HOST_DEVICE std::uint64_t words() const { return size / 4; }
  WARPWRIGHT_HOST_DEVICE std::uint64_t indices() const {
    return (words() < stamped_words ? words() : stamped_words) + 1;
  }
  // The word's first byte; the last index is the bytes behind the last whole word.
  WARPWRIGHT_HOST_DEVICE std::uint64_t offset(std::uint64_t i) const {
    if (i + 1 == indices()) return words() * 4;
    if (words() <= stamped_words) return i * 4;
    return i * (words() - 1) / (stamped_words - 1) * 4;
  }
  WARPWRIGHT_HOST_DEVICE static unsigned char byte_of(std::uint32_t value, std::uint64_t i) {
    return static_cast<unsigned char>(value >> (i % 4 * 8));
  }
};

struct write_stamp {
  stamped block;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const {
    std::uint64_t const at = block.offset(i);
    if (i + 1 != block.indices()) {
      *reinterpret_cast<std::uint32_t*>(block.bytes + at) = block.tag;
      return;
    }
    for (std::uint64_t k = at; k < block.size; ++k) {
      block.bytes[k] = stamped::byte_of(block.tag, k);
    }
  }
};

struct check_stamp {
  stamped block;
  finding* wrong;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const {
    std::uint64_t const at = block.offset(i);
    if (i + 1 != block.indices()) {
      auto const value = *reinterpret_cast<std::uint32_t const*>(block.bytes + at);
      if (value != block.tag) note(value, at);
      return;
    }
    for (std::uint64_t k = at; k < block.size; ++k) {
      if (block.bytes[k] != stamped::byte_of(block.tag, k)) note(block.bytes[k], k);
    }
  }
  WARPWRIGHT_HOST_DEVICE void note(std::uint32_t value, std::uint64_t at) const {
#if defined(__CUDA_ARCH__)
    bool const first = atomicAdd(&wrong->count, 1U) == 0;
#else
    bool const first = __atomic_fetch_add(&wrong->count, 1U, __ATOMIC_RELAXED) == 0;
#endif
    if (!first) return;
    wrong->expected = block.tag;
    wrong->found = value;
    wrong->address = reinterpret_cast<std::uintptr_t>(block.bytes + at);
  }
};

/// Keeps a stream busy, so that work that does not wait for it runs earlier.
struct keep_busy {
  unsigned microseconds;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t) const {
#if defined(__CUDA_ARCH__)
    long long const begin = clock64();
    while (clock64() - begin < static_cast<long long>(microseconds) * 1500) {
    }
#else
    usleep(microseconds);
#endif
  }
};

inline void stamp(ww::stream_ref stream, void* pointer, std::size_t bytes, std::uint32_t tag) {
  stamped const block{static_cast<unsigned char*>(pointer), bytes, tag};
  ww::for_each_index(stream, block.indices(), write_stamp{block});
}

inline void check(ww::stream_ref stream, void* pointer, std::size_t bytes, std::uint32_t tag,
                  finding* wrong) {
  stamped const block{static_cast<unsigned char*>(pointer), bytes, tag};
  ww::for_each_index(stream, block.indices(), check_stamp{block, wrong});
}

/// Device memory for the errors.
class finding_board {
 public:
  explicit finding_board(std::size_t count) : count_{count} {
    void* p = nullptr;
    ww::check(cudaMalloc(&p, count * sizeof(finding)), "cudaMalloc");
    data_ = static_cast<finding*>(p);
    ww::check(cudaMemset(p, 0, count * sizeof(finding)), "cudaMemset");
    // A memset may be asynchronous, and the streams do not wait for the default one.
    ww::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
  ~finding_board() { static_cast<void>(cudaFree(data_)); }
  finding_board(finding_board const&) = delete;
  finding_board& operator=(finding_board const&) = delete;

  finding* at(std::size_t i) const { return data_ + i; }
  /// The errors of all streams. @pre their work has completed
  std::vector<finding> fetch() const {
    std::vector<finding> all(count_);
    ww::check(cudaMemcpy(all.data(), data_, count_ * sizeof(finding), cudaMemcpyDeviceToHost),
              "cudaMemcpy");
    return all;
  }

 private:
  std::size_t count_;
  finding* data_ = nullptr;
};

}  // namespace pool_stress
