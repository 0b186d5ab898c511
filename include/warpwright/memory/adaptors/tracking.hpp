// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/clock.hpp>
#include <warpwright/memory/detail/adaptor.hpp>
#include <warpwright/memory/detail/live_block_map.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

WARPWRIGHT_BEGIN

/// Records where each live block was allocated, and reports blocks that are not freed.
///
/// A free of an unknown pointer, or with another size than allocated, throws std::invalid_argument;
/// the error names the allocation's source location.
/// @pre The upstream outlives the adaptor. Blocks still live at its destruction stay live in the
///   upstream.
/// **Threads:** as many as the upstream allows. **Capture:** as the upstream.
/// **Cost:** one mutex, locked twice a call, one look-up by address, one clock reading an
/// allocation, and 80 to 160 bytes of host memory a live block; no CUDA call.
template <class Upstream>
class tracking_adaptor : public detail::memory_adaptor<tracking_adaptor<Upstream>, Upstream> {
 public:
  /// Called by the adaptor's destructor when blocks are outstanding, with report()'s text.
  using leak_callback = void (*)(void* user, char const* report) noexcept;

  /// Creates the adaptor.
  /// @param upstream  where the memory comes from
  /// @param on_leak   see leak_callback; null: none
  /// @param user      passed to the callback
  explicit tracking_adaptor(Upstream& upstream, leak_callback on_leak = nullptr,
                            void* user = nullptr) noexcept
      : base{upstream}, on_leak_{on_leak}, user_{user} {}
  ~tracking_adaptor() {
    if (on_leak_ == nullptr || outstanding_blocks() == 0) return;
    try {
      on_leak_(user_, to_text().c_str());
    } catch (...) {
      on_leak_(user_, "blocks are outstanding, and the host has no memory for a report\n");
    }
  }

  /// @return the number of blocks that are not freed
  [[nodiscard]] std::size_t outstanding_blocks() const noexcept { return blocks_.blocks(); }
  /// @return their bytes, as requested
  [[nodiscard]] std::uint64_t outstanding_bytes() const noexcept { return blocks_.bytes(); }
  /// @return the outstanding blocks as text: a line of totals, then one line a call site with
  ///   bytes, blocks, the age of the oldest, file and line; most bytes first
  /// @throws std::bad_alloc  when the host has no memory for it
  /// **Cost:** sorts the outstanding blocks; calls of other threads wait while they are copied.
  [[nodiscard]] std::string to_text() const { return detail::report_of(blocks_); }
  /// Calls visit(allocation_site const&) for each call site, most bytes first.
  /// @throws std::bad_alloc, or what `visit` throws
  /// **Cost:** as report().
  template <class Visitor>
  void for_each_site(Visitor&& visit) const {
    for (allocation_site const& site : detail::sites_of(blocks_)) visit(site);
  }

 private:
  using base = detail::memory_adaptor<tracking_adaptor, Upstream>;
  friend class detail::memory_interface<tracking_adaptor>;

  template <bool Throws>
  void* do_allocate(detail::memory_request const& request) {
    detail::live_block_map::reservation entry{blocks_};
    void* const pointer = detail::allocate_from<Throws>(this->upstream(), request);
    if (pointer != nullptr) {
      entry.insert(detail::live_block{pointer, request.bytes, 0, detail::monotonic_nanoseconds(),
                                      request.where});
    }
    return pointer;
  }
  void do_deallocate(stream_ref stream, void* pointer, std::size_t bytes, source_location where) {
    detail::live_block_map::removal removed{blocks_, pointer, where};
    removed.check("tracking_adaptor", bytes, where);
    this->upstream().deallocate(stream, pointer, bytes, where);
    removed.commit();
  }

  leak_callback on_leak_;
  void* user_;
  detail::live_block_map blocks_;
};

WARPWRIGHT_END
