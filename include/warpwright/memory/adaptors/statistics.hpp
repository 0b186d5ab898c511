// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/array.hpp>
#include <warpwright/memory/detail/adaptor.hpp>
#include <warpwright/memory/detail/locks.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

WARPWRIGHT_BEGIN

/// The figures of a statistics_adaptor, or of one of its tags, at one moment. Sizes are in bytes,
/// as asked for. The live ones of a tag go below 0 when its blocks are freed through another
/// handle.
struct allocation_statistics {
  std::int64_t live_bytes = 0;        ///< handed out
  std::int64_t live_peak_bytes = 0;   ///< the highest live_bytes since the start or reset_peaks()
  std::int64_t live_blocks = 0;       ///< handed out
  std::int64_t live_peak_blocks = 0;  ///< the highest live_blocks, as above
  std::uint64_t allocated_bytes = 0;  ///< by all allocations together
  std::uint64_t allocations = 0;      ///< that succeeded
  std::uint64_t deallocations = 0;    ///< that succeeded
  std::uint64_t failures = 0;         ///< allocations that failed, for whatever reason
};

namespace detail {

/// The counters of all tags, and of their sum: number 0 is the sum, 1 what has no tag.
class statistics_books {
 public:
  static constexpr std::size_t all = 0;
  static constexpr std::size_t untagged = 1;

  statistics_books() {
    rows_.push_back(row{"all", {}});
    rows_.push_back(row{"untagged", {}});
  }
  /// The number of a tag; a new one when there is none of this name.
  std::size_t tag(char const* name) {
    held<spin_lock> const lock{lock_};
    std::size_t const known = find(name, untagged);  // "all" is a name like any other
    if (known != rows_.size()) return known;
    rows_.push_back(row{name, {}});
    return known;
  }
  void allocated(std::size_t tag, std::size_t bytes) noexcept {
    held<spin_lock> const lock{lock_};
    add(rows_[all].figures, bytes);
    add(rows_[tag].figures, bytes);
  }
  void deallocated(std::size_t tag, std::size_t bytes) noexcept {
    held<spin_lock> const lock{lock_};
    subtract(rows_[all].figures, bytes);
    subtract(rows_[tag].figures, bytes);
  }
  void failed(std::size_t tag) noexcept {
    held<spin_lock> const lock{lock_};
    ++rows_[all].figures.failures;
    ++rows_[tag].figures.failures;
  }
  void reset_peaks() noexcept {
    held<spin_lock> const lock{lock_};
    for (row& r : rows_) {
      r.figures.live_peak_bytes = r.figures.live_bytes;
      r.figures.live_peak_blocks = r.figures.live_blocks;
    }
  }
  [[nodiscard]] allocation_statistics figures(std::size_t number) const noexcept {
    held<spin_lock> const lock{lock_};
    return rows_[number].figures;
  }
  /// Zeros for a name that is not known.
  [[nodiscard]] allocation_statistics figures(char const* name) const noexcept {
    held<spin_lock> const lock{lock_};
    std::size_t const number = find(name, untagged);
    return number == rows_.size() ? allocation_statistics{} : rows_[number].figures;
  }
  [[nodiscard]] std::string report() const {
    std::string table =
        "  live bytes    peak bytes   live blocks   peak blocks   allocations      failures  tag\n";
    for (std::size_t i = 0;; ++i) {
      row r{nullptr, {}};
      {
        held<spin_lock> const lock{lock_};
        if (i == rows_.size()) return table;
        r = rows_[i];
      }
      char figures[160] = {};
      std::snprintf(figures, sizeof figures, "%12lld  %12lld  %12lld  %12lld  %12llu  %12llu  ",
                    static_cast<long long>(r.figures.live_bytes),
                    static_cast<long long>(r.figures.live_peak_bytes),
                    static_cast<long long>(r.figures.live_blocks),
                    static_cast<long long>(r.figures.live_peak_blocks),
                    static_cast<unsigned long long>(r.figures.allocations),
                    static_cast<unsigned long long>(r.figures.failures));
      table.append(figures).append(r.name).append("\n");
    }
  }

 private:
  struct row {
    char const* name;
    allocation_statistics figures;
  };
  static void add(allocation_statistics& s, std::size_t bytes) noexcept {
    s.live_bytes += static_cast<std::int64_t>(bytes);
    if (s.live_bytes > s.live_peak_bytes) s.live_peak_bytes = s.live_bytes;
    if (++s.live_blocks > s.live_peak_blocks) s.live_peak_blocks = s.live_blocks;
    s.allocated_bytes += bytes;
    ++s.allocations;
  }
  static void subtract(allocation_statistics& s, std::size_t bytes) noexcept {
    s.live_bytes -= static_cast<std::int64_t>(bytes);
    --s.live_blocks;
    ++s.deallocations;
  }
  [[nodiscard]] std::size_t find(char const* name, std::size_t from) const noexcept {
    std::size_t number = from;
    while (number < rows_.size() && std::strcmp(rows_[number].name, name) != 0) ++number;
    return number;
  }

  mutable spin_lock lock_;
  array<row> rows_;  // guarded by lock_
};

/// Asks upstream and counts the answer under a tag.
template <bool Throws, class Upstream>
void* allocate_counted(Upstream& upstream, statistics_books& books, std::size_t tag,
                       memory_request const& request) {
  void* pointer = nullptr;
  try {
    pointer = allocate_from<Throws>(upstream, request);
  } catch (...) {
    books.failed(tag);
    throw;
  }
  if (pointer != nullptr) {
    books.allocated(tag, request.bytes);
  } else {
    books.failed(tag);
  }
  return pointer;
}

}  // namespace detail

/// A handle of a statistics_adaptor with the pool's interface, which counts under one tag as well
/// as in the sum. Copies count together.
///
/// @pre The adaptor outlives the handle. A block is freed through a handle of the tag that it was
///   allocated under; through another, both tags' figures are wrong by it, and the sum is right.
/// **Threads:** as statistics_adaptor.
template <class Upstream>
class tagged_statistics : public detail::memory_interface<tagged_statistics<Upstream>> {
 public:
  /// @return the tag's figures of this moment
  [[nodiscard]] allocation_statistics statistics() const noexcept { return books_->figures(tag_); }
  /// @return the upstream's device
  [[nodiscard]] device_id device() const noexcept { return upstream_->device(); }

 private:
  template <class>
  friend class statistics_adaptor;
  friend class detail::memory_interface<tagged_statistics>;

  tagged_statistics(Upstream& upstream, detail::statistics_books& books, std::size_t tag) noexcept
      : upstream_{&upstream}, books_{&books}, tag_{tag} {}
  template <bool Throws>
  void* take(detail::memory_request const& request) {
    return detail::allocate_counted<Throws>(*upstream_, *books_, tag_, request);
  }
  void give(stream_ref stream, void* pointer, std::size_t bytes, source_location where) {
    upstream_->deallocate(stream, pointer, bytes, where);
    books_->deallocated(tag_, bytes);
  }

  Upstream* upstream_;
  detail::statistics_books* books_;
  std::size_t tag_;
};

/// Counts what passes through it: live and peak bytes and blocks, and calls, in all and per tag.
///
/// What is allocated through the adaptor itself counts as untagged; for a tag, allocate through a
/// handle: auto weights = counted.tagged("weights");
/// @pre The upstream outlives the adaptor.
/// **Threads:** as many as upstream takes. **Capture:** as upstream.
/// **Cost:** one spin lock a call, held for a few additions; no CUDA call.
template <class Upstream>
class statistics_adaptor : public detail::memory_adaptor<statistics_adaptor<Upstream>, Upstream> {
 public:
  /// @param upstream  where the memory comes from
  /// @throws std::bad_alloc  when the host has no memory for the counters
  explicit statistics_adaptor(Upstream& upstream) : base{upstream} {}

  /// A handle that counts under a tag.
  /// @param name  of the tag; equal names are one tag. It must outlive the adaptor (a string
  ///   literal)
  /// @throws std::bad_alloc  when the host has no memory for a new tag
  /// **Cost:** compares the name with those of all tags; keep the handle.
  [[nodiscard]] tagged_statistics<Upstream> tagged(char const* name) {
    return tagged_statistics<Upstream>{this->upstream(), books_, books_.tag(name)};
  }

  /// @return the figures of this moment, of all tags together
  [[nodiscard]] allocation_statistics statistics() const noexcept {
    return books_.figures(detail::statistics_books::all);
  }
  /// @param tag  the name of a tag, or "untagged"
  /// @return the tag's figures of this moment; zeros for a name that was never used
  [[nodiscard]] allocation_statistics statistics(char const* tag) const noexcept {
    return books_.figures(tag);
  }
  /// Lets all peaks start again from what is live now, to learn the peak of what follows.
  void reset_peaks() noexcept { books_.reset_peaks(); }
  /// @return a table with one line a tag, in the order of their first use
  /// @throws std::bad_alloc  when the host has no memory for it
  [[nodiscard]] std::string report() const { return books_.report(); }

 private:
  using base = detail::memory_adaptor<statistics_adaptor, Upstream>;
  friend class detail::memory_interface<statistics_adaptor>;

  template <bool Throws>
  void* take(detail::memory_request const& request) {
    return detail::allocate_counted<Throws>(this->upstream(), books_,
                                            detail::statistics_books::untagged, request);
  }
  void give(stream_ref stream, void* pointer, std::size_t bytes, source_location where) {
    this->upstream().deallocate(stream, pointer, bytes, where);
    books_.deallocated(detail::statistics_books::untagged, bytes);
  }

  detail::statistics_books books_;
};

WARPWRIGHT_END
