// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/memory/detail/adaptor.hpp>

#include <cstddef>

WARPWRIGHT_BEGIN

/// Raises the alignment of large blocks, for instance to pages of 2 MiB or for GPUDirect Storage.
///
/// Blocks below the threshold keep the alignment of their request.
/// @pre The upstream outlives the adaptor.
/// **Threads:** as many as the upstream allows. **Capture:** as the upstream.
/// **Cost:** two comparisons, and what the alignment costs the upstream: a memory_pool serves
/// alignments above 256 bytes from its heap, never from its caches.
template <class Upstream>
class aligned_adaptor : public detail::memory_adaptor<aligned_adaptor<Upstream>, Upstream> {
 public:
  /// Creates the adaptor.
  /// @param upstream         where the memory comes from
  /// @param alignment_bytes  of the addresses: a power of two up to the upstream's maximum, which
  ///   the upstream checks at each allocation
  /// @param threshold_bytes  blocks of this size and larger have the alignment; default: all
  /// @throws std::invalid_argument  for an alignment that is not a power of two up to 1 GiB
  explicit aligned_adaptor(Upstream& upstream, std::size_t alignment_bytes,
                           std::size_t threshold_bytes = 0,
                           source_location where = source_location::current())
      : base{upstream}, alignment_bytes_{alignment_bytes}, threshold_bytes_{threshold_bytes} {
    detail::require_alignment("aligned_adaptor", alignment_bytes, std::size_t{1} << 30U, where);
  }

  /// @return the alignment of large blocks
  [[nodiscard]] std::size_t alignment_bytes() const noexcept { return alignment_bytes_; }
  /// @return the size from which on blocks have this alignment
  [[nodiscard]] std::size_t threshold_bytes() const noexcept { return threshold_bytes_; }

 private:
  using base = detail::memory_adaptor<aligned_adaptor, Upstream>;
  friend class detail::memory_interface<aligned_adaptor>;

  template <bool Throws>
  void* do_allocate(detail::memory_request const& original) {
    detail::memory_request request = original;
    // An alignment that is not a power of two stays, so that the upstream rejects it.
    if (request.bytes >= threshold_bytes_ && request.alignment < alignment_bytes_ &&
        detail::is_power_of_two(request.alignment)) {
      request.alignment = alignment_bytes_;
    }
    return detail::allocate_from<Throws>(this->upstream(), request);
  }
  void do_deallocate(stream_ref stream, void* pointer, std::size_t bytes, source_location where) {
    this->upstream().deallocate(stream, pointer, bytes, where);
  }

  std::size_t alignment_bytes_;
  std::size_t threshold_bytes_;
};

WARPWRIGHT_END
