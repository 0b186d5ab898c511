// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/memory/detail/adaptor.hpp>
#include <warpwright/memory/detail/statistics_table.hpp>

#include <cstddef>
#include <string>

WARPWRIGHT_BEGIN

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
    void* pointer = nullptr;
    try {
      pointer = detail::allocate_from<Throws>(*upstream_, request);
    } catch (...) {
      table_->failed(tag_);
      throw;
    }
    if (pointer != nullptr) {
      table_->allocated(tag_, request.bytes);
    } else {
      table_->failed(tag_);
    }
    return pointer;
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
  [[nodiscard]] std::string to_text() const { return table_.report(); }

 private:
  using base = detail::memory_adaptor<statistics_adaptor, Upstream>;
  friend class detail::memory_interface<statistics_adaptor>;

  [[nodiscard]] tagged_statistics<Upstream> untagged() noexcept {
    return tagged_statistics<Upstream>{this->upstream(), table_,
                                       detail::statistics_table::untagged};
  }
  template <bool Throws>
  void* do_allocate(detail::memory_request const& request) {
    return untagged().template do_allocate<Throws>(request);
  }
  void do_deallocate(stream_ref stream, void* pointer, std::size_t bytes, source_location where) {
    untagged().do_deallocate(stream, pointer, bytes, where);
  }

  detail::statistics_table table_;
};

WARPWRIGHT_END
