// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/device/scoped_stream_device.hpp>
#include <warpwright/core/detail/options.hpp>
#include <warpwright/memory/detail/adaptor.hpp>
#include <warpwright/memory/detail/live_block_map.hpp>

#include <cstddef>
#include <cstdint>

WARPWRIGHT_BEGIN

/// A write outside of a block: what() names the block, where it was allocated and the bytes found.
class guard_damage {
 public:
  /// Describes the damage of one red zone.
  /// @param pointer        the block
  /// @param bytes          its size, as requested
  /// @param offset_bytes   from the block's start to the first damaged byte
  /// @param damaged_bytes  the number of damaged bytes in this red zone
  /// @param found          the value of the first damaged byte
  /// @param allocated      the source location of the allocation
  /// @param noticed        the source location of the call that found it
  guard_damage(void* pointer, std::size_t bytes, std::ptrdiff_t offset_bytes,
               std::size_t damaged_bytes, unsigned char found, source_location allocated,
               source_location noticed) noexcept
      : pointer_{pointer},
        bytes_{bytes},
        offset_bytes_{offset_bytes},
        damaged_bytes_{damaged_bytes},
        allocated_{allocated},
        text_{detail::text{noticed.file(), noticed.line()} + ": guard_adaptor: bytes overwritten " +
              (offset_bytes < 0 ? "before" : "behind") + " the block " + pointer + " of " + bytes +
              " bytes, allocated at " + detail::text{allocated.file(), allocated.line()} + ": " +
              damaged_bytes + "; the first lies " + distance(offset_bytes, bytes) +
              (offset_bytes < 0 ? " bytes before its start" : " bytes behind its end") +
              " and holds " + static_cast<unsigned>(found) +
              "; look for an index out of range in the work with this block"} {}

  /// @return a one-line description
  [[nodiscard]] char const* what() const noexcept { return text_.c_str(); }
  /// @return the block
  [[nodiscard]] void* pointer() const noexcept { return pointer_; }
  /// @return its size in bytes
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// @return the offset from the block's start to the first damaged byte: below 0, or at least
  ///   bytes()
  [[nodiscard]] std::ptrdiff_t offset_bytes() const noexcept { return offset_bytes_; }
  /// @return the number of damaged bytes in this red zone
  [[nodiscard]] std::size_t damaged_bytes() const noexcept { return damaged_bytes_; }
  /// @return the source location of the allocation
  [[nodiscard]] source_location allocated() const noexcept { return allocated_; }

 private:
  static std::size_t distance(std::ptrdiff_t offset, std::size_t bytes) noexcept {
    return offset < 0 ? static_cast<std::size_t>(-offset)
                      : static_cast<std::size_t>(offset) - bytes;
  }

  void* pointer_;
  std::size_t bytes_;
  std::ptrdiff_t offset_bytes_;
  std::size_t damaged_bytes_;
  source_location allocated_;
  detail::text text_;
};

namespace detail {

/// The values of guard_options, which documents them.
struct guard_settings {
  std::size_t zone_bytes = 256;
  bool poison_new = true;
  bool poison_freed = true;
};

}  // namespace detail

/// Options of a guard_adaptor. Every setter returns a changed copy.
class guard_options : public detail::options_base<guard_options, detail::guard_settings> {
 public:
  /// The size of the red zone on each side of a block.
  /// @param bytes  a multiple of 256 up to 4096; default: 256
  /// @throws std::invalid_argument  for other sizes
  constexpr self zone_bytes(std::size_t bytes,
                            source_location where = source_location::current()) const {
    if (bytes == 0 || bytes % 256 != 0 || bytes > max_zone_bytes) {
      detail::throw_invalid_argument(detail::text{"guard_options: a zone of "} + bytes +
                                         " bytes is not a multiple of 256 from 256 to " +
                                         max_zone_bytes,
                                     where);
    }
    return with(&values::zone_bytes, bytes);
  }
  /// Whether new blocks are filled with 0xFF: NaN in every floating-point type, -1 in integers.
  /// @param on  default: true
  constexpr self poison_new(bool on) const { return with(&values::poison_new, on); }
  /// Whether freed blocks are filled with 0xFE: NaN as fp16, about -1.7e38 as fp32 and bf16.
  /// @param on  default: true
  constexpr self poison_freed(bool on) const { return with(&values::poison_freed, on); }

  static constexpr std::size_t max_zone_bytes = 4096;
};

/// Puts a red zone before and behind each block and reports writes into it. Fills new and freed
/// blocks with bytes that are visible in results.
///
/// Zones are checked when a block is freed and by check_blocks(). compute-sanitizer finds more, and
/// names the line of the kernel; the adaptor costs less, needs no tool and also detects writes by
/// copies.
/// @pre The upstream outlives the adaptor. Its memory is device, managed or page-locked memory.
/// **Threads:** as many as the upstream allows.
/// **Capture:** not legal on a capturing stream: throws std::invalid_argument, and the capture
/// stays valid.
/// **Cost:** for debugging. Two zones of memory a block, the front one at least the alignment; two
/// or three cudaMemsetAsync an allocation; a deallocation copies both zones to the host and waits
/// for the stream; one mutex, locked twice, and one look-up by address a call.
template <class Upstream>
class guard_adaptor : public detail::memory_adaptor<guard_adaptor<Upstream>, Upstream> {
 public:
  /// Called for each damaged zone, before the block is freed in the upstream. Called without a
  /// lock, from any thread. Must not throw: print what() and abort, or count.
  using callback = void (*)(void* user, guard_damage const& damage) noexcept;

  /// Creates the adaptor.
  /// @param upstream   where the memory comes from
  /// @param on_damage  required: an exception from a deallocation would be lost in a buffer's
  ///   destructor
  /// @param user       passed to the callback
  /// @param options    zones and fill patterns
  /// @throws std::invalid_argument  for a null callback
  guard_adaptor(Upstream& upstream, callback on_damage, void* user = nullptr,
                guard_options const& options = {},
                source_location where = source_location::current())
      : base{upstream}, on_damage_{on_damage}, user_{user}, options_{values_of(options)} {
    if (on_damage == nullptr) {
      detail::throw_invalid_argument(
          "guard_adaptor: the callback is null; pass a function that reports the damage", where);
    }
  }
  guard_adaptor(Upstream&, std::nullptr_t, void* = nullptr, guard_options const& = {}) = delete;

  /// @return the number of damaged zones found so far
  [[nodiscard]] std::uint64_t damages() const noexcept {
    return damages_.load(detail::memory_order::relaxed);
  }

  /// Checks the zones of all live blocks, to find the part of a program that does the damage.
  /// @param stream  ordered behind all work with the blocks
  /// @return the number of damaged zones; each was reported to the callback
  /// @throws std::invalid_argument  for a capturing stream
  /// @throws cuda_error             when a CUDA call fails, also for an error of earlier work
  /// @throws std::bad_alloc         when the host has no memory for the report
  /// **Stream:** waits for `stream`, twice a block; calls of other threads wait meanwhile.
  std::size_t check_blocks(stream_ref stream, source_location where = source_location::current()) {
    detail::check_not_capturing("guard_adaptor", "check blocks", stream, where);
    detail::array<guard_damage> found;
    blocks_.for_each([&](detail::live_block const& block) {
      check_zones(block, stream, where,
                  [&](guard_damage const& damage) { found.push_back(damage); });
    });
    for (guard_damage const& damage : found) report(damage);
    return found.size();
  }

 private:
  using base = detail::memory_adaptor<guard_adaptor, Upstream>;
  friend class detail::memory_interface<guard_adaptor>;

  static constexpr unsigned char zone_byte = 0xA5;  // neither zero nor part of a usual NaN
  static constexpr unsigned char new_byte = 0xFF;
  static constexpr unsigned char freed_byte = 0xFE;

  template <bool Throws>
  void* do_allocate(detail::memory_request const& request) {
    detail::check_not_capturing("guard_adaptor", "allocate", request.stream, request.where);
    // The front zone keeps the alignment; the upstream rejects an invalid alignment.
    std::size_t const front =
        request.alignment > options_.zone_bytes ? request.alignment : front_of(request.alignment);
    detail::memory_request whole = request;
    std::size_t const most = ~std::size_t{0};
    std::size_t const zones = front + options_.zone_bytes;
    whole.bytes = zones < front || request.bytes > most - zones ? most : request.bytes + zones;

    detail::live_block_map::reservation entry{blocks_};
    void* const begin = detail::allocate_from<Throws>(this->upstream(), whole);
    if (begin == nullptr) return nullptr;
    char* const pointer = static_cast<char*>(begin) + front;
    std::size_t const zone = options_.zone_bytes;
    try {
      fill(request.stream, pointer - zone, zone_byte, zone, request.where);
      fill(request.stream, pointer + request.bytes, zone_byte, zone, request.where);
      if (options_.poison_new) {
        fill(request.stream, pointer, new_byte, request.bytes, request.where);
      }
    } catch (...) {
      detail::undo_allocation(this->upstream(), whole, begin);
      throw;
    }
    entry.insert(detail::live_block{pointer, request.bytes, front, 0, request.where});
    return pointer;
  }

  void do_deallocate(stream_ref stream, void* pointer, std::size_t bytes, source_location where) {
    detail::check_not_capturing("guard_adaptor", "deallocate", stream, where);
    detail::live_block_map::removal removed{blocks_, pointer, where};
    removed.check("guard_adaptor", bytes, where);
    detail::live_block const& block = removed.block();
    check_zones(block, stream, where, [this](guard_damage const& damage) { report(damage); });
    if (options_.poison_freed) fill(stream, pointer, freed_byte, bytes, where);
    this->upstream().deallocate(stream, static_cast<char*>(pointer) - block.front_bytes,
                                block.front_bytes + bytes + options_.zone_bytes, where);
    removed.commit();
  }

  [[nodiscard]] std::size_t front_of(std::size_t alignment) const noexcept {
    if (!detail::is_power_of_two(alignment)) return options_.zone_bytes;
    return (options_.zone_bytes + alignment - 1) & ~(alignment - 1);
  }
  static void fill(stream_ref stream, void* pointer, unsigned char value, std::size_t bytes,
                   source_location where) {
    check(cudaMemsetAsync(pointer, value, bytes, stream.get()), "cudaMemsetAsync", where);
  }
  void report(guard_damage const& damage) noexcept {
    damages_.fetch_add(1, detail::memory_order::relaxed);
    on_damage_(user_, damage);
  }

  template <class Report>
  void check_zones(detail::live_block const& block, stream_ref stream, source_location where,
                   Report const& report) const {
    std::size_t const zone = options_.zone_bytes;
    unsigned char bytes[2 * guard_options::max_zone_bytes];
    char const* const begin = static_cast<char const*>(block.pointer);
    check(detail::copy_async(bytes, begin - zone, zone, cudaMemcpyDefault, stream.get()),
          "cudaMemcpyAsync", where);
    check(detail::copy_async(bytes + zone, begin + block.bytes, zone, cudaMemcpyDefault,
                             stream.get()),
          "cudaMemcpyAsync", where);
    stream.synchronize(where);
    check_zone(block, bytes, -static_cast<std::ptrdiff_t>(zone), where, report);
    check_zone(block, bytes + zone, static_cast<std::ptrdiff_t>(block.bytes), where, report);
  }
  template <class Report>
  void check_zone(detail::live_block const& block, unsigned char const* zone, std::ptrdiff_t offset,
                  source_location where, Report const& report) const {
    std::size_t first = 0;
    std::size_t damaged = 0;
    for (std::size_t i = 0; i < options_.zone_bytes; ++i) {
      if (zone[i] == zone_byte) continue;
      if (damaged++ == 0) first = i;
    }
    if (damaged == 0) return;
    report(guard_damage{block.pointer, block.bytes, offset + static_cast<std::ptrdiff_t>(first),
                        damaged, zone[first], block.where, where});
  }

  callback on_damage_;
  void* user_;
  detail::guard_settings options_;
  detail::live_block_map blocks_;
  detail::atomic<std::uint64_t> damages_;
};

WARPWRIGHT_END
