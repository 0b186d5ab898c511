// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/array.hpp>
#include <warpwright/core/detail/thread/locks.hpp>
#include <warpwright/memory/detail/adaptor.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

WARPWRIGHT_BEGIN

/// A snapshot of the counters of a statistics_adaptor or of one of its tags. Sizes are in bytes, as
/// requested. A tag's live values become negative when its blocks are freed through another handle.
struct allocation_statistics {
  std::int64_t live_bytes = 0;        ///< allocated and not freed
  std::int64_t live_peak_bytes = 0;   ///< the highest live_bytes since the start or reset_peaks()
  std::int64_t live_blocks = 0;       ///< allocated and not freed
  std::int64_t live_peak_blocks = 0;  ///< the highest live_blocks, as above
  std::uint64_t allocated_bytes = 0;  ///< the sum of all allocations
  std::uint64_t allocations = 0;      ///< successful ones
  std::uint64_t deallocations = 0;    ///< successful ones
  std::uint64_t failures = 0;         ///< failed allocations, for any reason
};

namespace detail {

/// The counters of all tags: row 0 is the total, row 1 counts allocations without a tag.
class statistics_table {
 public:
  static constexpr std::size_t all = 0;
  static constexpr std::size_t untagged = 1;

  statistics_table() {
    rows_.push_back(row{"all", {}});
    rows_.push_back(row{"untagged", {}});
  }
  /// The row of a tag, created if there is none with this name.
  std::size_t tag(char const* name) {
    unique_lock<spin_lock> const lock{lock_};
    std::size_t const existing = find(name, untagged);  // "all" is a valid tag
    if (existing != rows_.size()) return existing;
    rows_.push_back(row{name, {}});
    return existing;
  }
  void allocated(std::size_t tag, std::size_t bytes) noexcept {
    unique_lock<spin_lock> const lock{lock_};
    add(rows_[all].counters, bytes);
    add(rows_[tag].counters, bytes);
  }
  void deallocated(std::size_t tag, std::size_t bytes) noexcept {
    unique_lock<spin_lock> const lock{lock_};
    subtract(rows_[all].counters, bytes);
    subtract(rows_[tag].counters, bytes);
  }
  void failed(std::size_t tag) noexcept {
    unique_lock<spin_lock> const lock{lock_};
    ++rows_[all].counters.failures;
    ++rows_[tag].counters.failures;
  }
  void reset_peaks() noexcept {
    unique_lock<spin_lock> const lock{lock_};
    for (row& r : rows_) {
      r.counters.live_peak_bytes = r.counters.live_bytes;
      r.counters.live_peak_blocks = r.counters.live_blocks;
    }
  }
  [[nodiscard]] allocation_statistics counters(std::size_t number) const noexcept {
    unique_lock<spin_lock> const lock{lock_};
    return rows_[number].counters;
  }
  /// Zeros for an unknown name.
  [[nodiscard]] allocation_statistics counters(char const* name) const noexcept {
    unique_lock<spin_lock> const lock{lock_};
    std::size_t const number = find(name, untagged);
    return number == rows_.size() ? allocation_statistics{} : rows_[number].counters;
  }
  [[nodiscard]] std::string report() const {
    std::string table =
        "  live bytes    peak bytes   live blocks   peak blocks   allocations      failures  tag\n";
    for (std::size_t i = 0;; ++i) {
      row r{nullptr, {}};
      {
        unique_lock<spin_lock> const lock{lock_};
        if (i == rows_.size()) return table;
        r = rows_[i];
      }
      char counters[160] = {};
      std::snprintf(counters, sizeof counters, "%12lld  %12lld  %12lld  %12lld  %12llu  %12llu  ",
                    static_cast<long long>(r.counters.live_bytes),
                    static_cast<long long>(r.counters.live_peak_bytes),
                    static_cast<long long>(r.counters.live_blocks),
                    static_cast<long long>(r.counters.live_peak_blocks),
                    static_cast<unsigned long long>(r.counters.allocations),
                    static_cast<unsigned long long>(r.counters.failures));
      table.append(counters).append(r.name).append("\n");
    }
  }

 private:
  struct row {
    char const* name;
    allocation_statistics counters;
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

/// Allocates from the upstream and counts the result under a tag.
template <bool Throws, class Upstream>
void* allocate_counted(Upstream& upstream, statistics_table& table, std::size_t tag,
                       memory_request const& request) {
  void* pointer = nullptr;
  try {
    pointer = allocate_from<Throws>(upstream, request);
  } catch (...) {
    table.failed(tag);
    throw;
  }
  if (pointer != nullptr) {
    table.allocated(tag, request.bytes);
  } else {
    table.failed(tag);
  }
  return pointer;
}

}  // namespace detail

/// A handle of a statistics_adaptor with the pool's interface, which counts under one tag and in
/// the total. Copies share the tag.
///
/// @pre The adaptor outlives the handle. A block is freed through a handle of the tag that it was
///   allocated under; otherwise the counters of both tags are wrong, and the total is right.
/// **Threads:** as statistics_adaptor.
template <class Upstream>
class tagged_statistics : public detail::memory_interface<tagged_statistics<Upstream>> {
 public:
  /// @return a snapshot of the tag's counters
  [[nodiscard]] allocation_statistics statistics() const noexcept { return table_->counters(tag_); }
  /// @return the upstream's device
  [[nodiscard]] device_id device() const noexcept { return upstream_->device(); }

 private:
  template <class>
  friend class statistics_adaptor;
  friend class detail::memory_interface<tagged_statistics>;

  tagged_statistics(Upstream& upstream, detail::statistics_table& table, std::size_t tag) noexcept
      : upstream_{&upstream}, table_{&table}, tag_{tag} {}
  template <bool Throws>
  void* do_allocate(detail::memory_request const& request) {
    return detail::allocate_counted<Throws>(*upstream_, *table_, tag_, request);
  }
  void do_deallocate(stream_ref stream, void* pointer, std::size_t bytes, source_location where) {
    upstream_->deallocate(stream, pointer, bytes, where);
    table_->deallocated(tag_, bytes);
  }

  Upstream* upstream_;
  detail::statistics_table* table_;
  std::size_t tag_;
};

/// Counts live and peak bytes and blocks, and calls, in total and per tag.
///
/// Allocations through the adaptor itself are untagged; for a tag, allocate through a handle: auto
/// weights = counted.tagged("weights");
/// @pre The upstream outlives the adaptor.
/// **Threads:** as many as the upstream allows. **Capture:** as the upstream.
/// **Cost:** one spin lock a call, held for a few additions; no CUDA call.
template <class Upstream>
class statistics_adaptor : public detail::memory_adaptor<statistics_adaptor<Upstream>, Upstream> {
 public:
  /// Creates an adaptor.
  /// @param upstream  where the memory comes from
  /// @throws std::bad_alloc  when the host has no memory for the counters
  explicit statistics_adaptor(Upstream& upstream) : base{upstream} {}

  /// Creates a handle that counts under a tag.
  /// @param name  of the tag; equal names are one tag. Must outlive the adaptor (a string literal)
  /// @throws std::bad_alloc  when the host has no memory for a new tag
  /// **Cost:** compares the name with those of all tags; keep the handle.
  [[nodiscard]] tagged_statistics<Upstream> tagged(char const* name) {
    return tagged_statistics<Upstream>{this->upstream(), table_, table_.tag(name)};
  }

  /// @return a snapshot of the total of all tags
  [[nodiscard]] allocation_statistics statistics() const noexcept {
    return table_.counters(detail::statistics_table::all);
  }
  /// @param tag  the name of a tag, or "untagged"
  /// @return a snapshot of the tag's counters; zeros for an unknown name
  [[nodiscard]] allocation_statistics statistics(char const* tag) const noexcept {
    return table_.counters(tag);
  }
  /// Resets all peaks to the current live values.
  void reset_peaks() noexcept { table_.reset_peaks(); }
  /// @return a table with one line a tag, in the order of their creation
  /// @throws std::bad_alloc  when the host has no memory for it
  [[nodiscard]] std::string report() const { return table_.report(); }

 private:
  using base = detail::memory_adaptor<statistics_adaptor, Upstream>;
  friend class detail::memory_interface<statistics_adaptor>;

  template <bool Throws>
  void* do_allocate(detail::memory_request const& request) {
    return detail::allocate_counted<Throws>(this->upstream(), table_,
                                            detail::statistics_table::untagged, request);
  }
  void do_deallocate(stream_ref stream, void* pointer, std::size_t bytes, source_location where) {
    this->upstream().deallocate(stream, pointer, bytes, where);
    table_.deallocated(detail::statistics_table::untagged, bytes);
  }

  detail::statistics_table table_;
};

WARPWRIGHT_END
