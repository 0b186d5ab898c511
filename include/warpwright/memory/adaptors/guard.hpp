// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/memory/detail/adaptor.hpp>
#include <warpwright/memory/detail/block_books.hpp>

#include <cstddef>
#include <cstdint>

WARPWRIGHT_BEGIN

/// Something wrote beside a block: what() says which, where it was allocated, and what was found.
class guard_damage {
 public:
  /// @param pointer       the block
  /// @param bytes         its size, as asked for
  /// @param offset_bytes  from the block's start to the first damaged byte
  /// @param damaged_bytes how many bytes of this side's red zone are not as they were
  /// @param found         what stands in the first of them
  /// @param allocated     the place of the allocation
  /// @param noticed       the place of the call that noticed it
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

  /// @return one line with all of it
  [[nodiscard]] char const* what() const noexcept { return text_.c_str(); }
  /// @return the block
  [[nodiscard]] void* pointer() const noexcept { return pointer_; }
  /// @return its size in bytes
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  /// @return from the block's start to the first damaged byte: below 0, or bytes() and more
  [[nodiscard]] std::ptrdiff_t offset_bytes() const noexcept { return offset_bytes_; }
  /// @return how many bytes of this side's red zone are not as they were
  [[nodiscard]] std::size_t damaged_bytes() const noexcept { return damaged_bytes_; }
  /// @return the place of the allocation
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

/// How a guard_adaptor is set up; chain the calls.
class guard_options {
 public:
  /// The red zone on each side of a block. @param bytes  a multiple of 256 up to 4096; default: 256
  /// @throws std::invalid_argument  for other sizes
  guard_options& zone_bytes(std::size_t bytes, source_location where = source_location::current()) {
    if (bytes == 0 || bytes % 256 != 0 || bytes > maximum_zone_bytes) {
      detail::throw_invalid_argument(detail::text{"guard_options: a zone of "} + bytes +
                                         " bytes is not a multiple of 256 from 256 to " +
                                         maximum_zone_bytes,
                                     where);
    }
    zone_bytes_ = bytes;
    return *this;
  }
  /// Whether new blocks are filled with 0xFF: not a number in every floating-point type, -1 in the
  /// integers. @param on  default: true
  guard_options& poison_new(bool on) noexcept {
    poison_new_ = on;
    return *this;
  }
  /// Whether blocks are filled with 0xFE when they are freed: not a number as fp16, about -1.7e38
  /// as fp32 and bf16. @param on  default: true
  guard_options& poison_freed(bool on) noexcept {
    poison_freed_ = on;
    return *this;
  }

  static constexpr std::size_t maximum_zone_bytes = 4096;

 private:
  template <class Upstream>
  friend class guard_adaptor;
  std::size_t zone_bytes_ = 256;
  bool poison_new_ = true;
  bool poison_freed_ = true;
};

/// Puts a red zone before and behind each block and tells when work has written into one; fills new
/// and freed blocks with bytes that show in results.
///
/// Zones are looked at when a block is freed, and when check_blocks() is called. compute-sanitizer
/// finds more, and the line of the kernel; this costs less, needs no tool and also sees writes by
/// copies.
/// @pre The upstream outlives the adaptor; its memory is known to CUDA: device, managed or
///   page-locked.
/// **Threads:** as many as upstream takes.
/// **Capture:** not legal on a capturing stream: std::invalid_argument, and the capture goes on.
/// **Cost:** for debugging. Two zones of memory a block, the front one at least the alignment; two
/// or three cudaMemsetAsync an allocation; a deallocation copies both zones to the host and waits
/// for the stream; one mutex, taken twice, and one look-up by address a call.
template <class Upstream>
class guard_adaptor : public detail::memory_adaptor<guard_adaptor<Upstream>, Upstream> {
 public:
  /// Told of each damaged zone, before the block goes back to upstream. Called without a lock, by
  /// any thread. It may not throw: print what() and abort, or count.
  using callback = void (*)(void* user, guard_damage const& damage) noexcept;

  /// @param upstream   where the memory comes from
  /// @param on_damage  required: a deallocation that threw would be lost in a buffer's destructor
  /// @param user       passed to it
  /// @param options    zones and poison
  /// @throws std::invalid_argument  for a null callback
  guard_adaptor(Upstream& upstream, callback on_damage, void* user = nullptr,
                guard_options const& options = {},
                source_location where = source_location::current())
      : base{upstream}, on_damage_{on_damage}, user_{user}, options_{options} {
    if (on_damage == nullptr) {
      detail::throw_invalid_argument(
          "guard_adaptor: the callback is null; damage is never silent, pass one", where);
    }
  }
  guard_adaptor(Upstream&, std::nullptr_t, void* = nullptr, guard_options const& = {}) = delete;

  /// @return damaged zones noticed so far
  [[nodiscard]] std::uint64_t damages() const noexcept {
    return __atomic_load_n(&damages_, __ATOMIC_RELAXED);
  }

  /// Looks at the zones of all live blocks, to find the part of a program that does the damage.
  /// @param stream  ordered behind all work with the blocks
  /// @return damaged zones; each was told to the callback
  /// @throws std::invalid_argument  for a capturing stream
  /// @throws cuda_error             when CUDA refuses, also for an error of earlier work
  /// @throws std::bad_alloc         when the host has no memory to note damage
  /// **Stream:** waits for `stream`, twice a block; calls of other threads wait meanwhile.
  std::size_t check_blocks(stream_ref stream, source_location where = source_location::current()) {
    detail::refuse_capture("guard_adaptor", "check blocks", stream, where);
    detail::array<guard_damage> found;
    books_.for_each([&](detail::booked_block const& block) {
      look_at(block, stream, where, [&](guard_damage const& damage) { found.push_back(damage); });
    });
    for (guard_damage const& damage : found) tell(damage);
    return found.size();
  }

 private:
  using base = detail::memory_adaptor<guard_adaptor, Upstream>;
  friend class detail::memory_interface<guard_adaptor>;

  static constexpr unsigned char zone_byte = 0xA5;  // neither zeros nor a NaN's bytes
  static constexpr unsigned char new_byte = 0xFF;
  static constexpr unsigned char freed_byte = 0xFE;

  template <bool Throws>
  void* take(detail::memory_request const& request) {
    detail::refuse_capture("guard_adaptor", "allocate", request.stream, request.where);
    // Room in front for a zone that keeps the alignment; upstream refuses an alignment that is
    // none.
    std::size_t const front =
        request.alignment > options_.zone_bytes_ ? request.alignment : front_of(request.alignment);
    detail::memory_request whole = request;
    std::size_t const most = ~std::size_t{0};
    std::size_t const zones = front + options_.zone_bytes_;
    whole.bytes = zones < front || request.bytes > most - zones ? most : request.bytes + zones;

    detail::block_books::place place{books_};
    void* const begin = detail::allocate_from<Throws>(this->upstream(), whole);
    if (begin == nullptr) return nullptr;
    char* const pointer = static_cast<char*>(begin) + front;
    std::size_t const zone = options_.zone_bytes_;
    try {
      fill(request.stream, pointer - zone, zone_byte, zone, request.where);
      fill(request.stream, pointer + request.bytes, zone_byte, zone, request.where);
      if (options_.poison_new_) {
        fill(request.stream, pointer, new_byte, request.bytes, request.where);
      }
    } catch (...) {
      detail::give_back(this->upstream(), whole, begin);
      throw;
    }
    place.fill(detail::booked_block{pointer, request.bytes, front, 0, request.where});
    return pointer;
  }

  void give(stream_ref stream, void* pointer, std::size_t bytes, source_location where) {
    detail::refuse_capture("guard_adaptor", "deallocate", stream, where);
    detail::block_books::taken entry{books_, pointer, where};
    entry.require("guard_adaptor", bytes, where);
    detail::booked_block const& block = entry.block();
    look_at(block, stream, where, [this](guard_damage const& damage) { tell(damage); });
    if (options_.poison_freed_) fill(stream, pointer, freed_byte, bytes, where);
    this->upstream().deallocate(stream, static_cast<char*>(pointer) - block.front_bytes,
                                block.front_bytes + bytes + options_.zone_bytes_, where);
    entry.gone();
  }

  [[nodiscard]] std::size_t front_of(std::size_t alignment) const noexcept {
    if (!detail::is_power_of_two(alignment)) return options_.zone_bytes_;
    return (options_.zone_bytes_ + alignment - 1) & ~(alignment - 1);
  }
  static void fill(stream_ref stream, void* pointer, unsigned char value, std::size_t bytes,
                   source_location where) {
    check(cudaMemsetAsync(pointer, value, bytes, stream.get()), "cudaMemsetAsync", where);
  }
  void tell(guard_damage const& damage) noexcept {
    __atomic_fetch_add(&damages_, 1, __ATOMIC_RELAXED);
    on_damage_(user_, damage);
  }

  template <class Tell>
  void look_at(detail::booked_block const& block, stream_ref stream, source_location where,
               Tell const& tell) const {
    std::size_t const zone = options_.zone_bytes_;
    unsigned char bytes[2 * guard_options::maximum_zone_bytes];
    char const* const begin = static_cast<char const*>(block.pointer);
    check(cudaMemcpyAsync(bytes, begin - zone, zone, cudaMemcpyDefault, stream.get()),
          "cudaMemcpyAsync", where);
    check(cudaMemcpyAsync(bytes + zone, begin + block.bytes, zone, cudaMemcpyDefault, stream.get()),
          "cudaMemcpyAsync", where);
    stream.synchronize(where);
    look_at_zone(block, bytes, -static_cast<std::ptrdiff_t>(zone), where, tell);
    look_at_zone(block, bytes + zone, static_cast<std::ptrdiff_t>(block.bytes), where, tell);
  }
  template <class Tell>
  void look_at_zone(detail::booked_block const& block, unsigned char const* zone,
                    std::ptrdiff_t offset, source_location where, Tell const& tell) const {
    std::size_t first = 0;
    std::size_t damaged = 0;
    for (std::size_t i = 0; i < options_.zone_bytes_; ++i) {
      if (zone[i] == zone_byte) continue;
      if (damaged++ == 0) first = i;
    }
    if (damaged == 0) return;
    tell(guard_damage{block.pointer, block.bytes, offset + static_cast<std::ptrdiff_t>(first),
                      damaged, zone[first], block.where, where});
  }

  callback on_damage_;
  void* user_;
  guard_options options_;
  detail::block_books books_;
  std::uint64_t damages_ = 0;
};

WARPWRIGHT_END
