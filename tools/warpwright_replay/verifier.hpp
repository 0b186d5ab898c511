// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Checks an allocator during a replay: live blocks do not overlap, and data written into a block
// are unchanged when it is freed.
#pragma once

#include <warpwright/core/launch.hpp>
#include <warpwright/core/stream.hpp>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace replay {

namespace ww = warpwright;

/// How much of a block is written and checked.
enum class verify_level {
  none,  ///< nothing; overlaps are checked in any case
  ends,  ///< 256 bytes each at the start, in the middle and at the end
  full,  ///< every byte
};

/// The words of a block that are written and checked.
struct pattern_shape {
  static constexpr std::uint64_t part_words = 32;  // in words of 8 bytes

  unsigned char* bytes = nullptr;
  std::uint64_t size_bytes = 0;
  std::uint64_t tag = 0;  ///< unique to the block
  bool whole = false;

  [[nodiscard]] WARPWRIGHT_HOST_DEVICE std::uint64_t words() const { return (size_bytes + 7) / 8; }
  /// The number of words written.
  [[nodiscard]] WARPWRIGHT_HOST_DEVICE std::uint64_t count() const {
    return whole || words() <= 3 * part_words ? words() : 3 * part_words;
  }
  /// The index of the i-th word written.
  [[nodiscard]] WARPWRIGHT_HOST_DEVICE std::uint64_t word(std::uint64_t i) const {
    if (count() == words() || i < part_words) return i;
    return i < 2 * part_words ? words() / 2 - part_words / 2 + (i - part_words)
                              : words() - part_words + (i - 2 * part_words);
  }
  [[nodiscard]] WARPWRIGHT_HOST_DEVICE std::uint64_t value(std::uint64_t at) const {
    return tag + at * 0x9e3779b97f4a7c15ULL;
  }
  [[nodiscard]] WARPWRIGHT_HOST_DEVICE std::uint64_t length(std::uint64_t at) const {
    return size_bytes - 8 * at < 8 ? size_bytes - 8 * at : 8;
  }
};

/// Writes a block's pattern.
struct write_pattern {
  pattern_shape shape;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const {
    std::uint64_t const at = shape.word(i);
    std::uint64_t const value = shape.value(at);
    unsigned char* const to = shape.bytes + 8 * at;
    if (shape.length(at) == 8) {
      *reinterpret_cast<std::uint64_t*>(to) = value;
    } else {
      for (std::uint64_t b = 0; b < shape.length(at); ++b)
        to[b] = static_cast<unsigned char>(value >> (8 * b));
    }
  }
};

/// Sets `*wrong` if a block's pattern has changed.
struct check_pattern {
  pattern_shape shape;
  unsigned char* wrong;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const {
    std::uint64_t const at = shape.word(i);
    std::uint64_t const value = shape.value(at);
    unsigned char const* const from = shape.bytes + 8 * at;
    if (shape.length(at) == 8) {
      if (*reinterpret_cast<std::uint64_t const*>(from) != value) *wrong = 1;
    } else {
      for (std::uint64_t b = 0; b < shape.length(at); ++b) {
        if (from[b] != static_cast<unsigned char>(value >> (8 * b))) *wrong = 1;
      }
    }
  }
};

/// The model of one replay; any number of threads may call it.
///
/// A block counts as live from after its allocate call has returned until before its deallocate
/// call, so a reported error is one for every interleaving of threads. Its pattern is written on
/// the allocating stream and checked on the freeing one, which must be ordered behind it.
class verifier {
 public:
  static constexpr std::uint64_t alignment_bytes = 256;

  /// @param blocks  the number of blocks of the trace
  verifier(std::uint32_t blocks, verify_level level) : level_{level}, states_(blocks) {
    if (level_ == verify_level::none || blocks == 0) return;
    ww::check(cudaMalloc(reinterpret_cast<void**>(&wrong_), blocks), "cudaMalloc");
    ww::check(cudaMemset(wrong_, 0, blocks), "cudaMemset");
    ww::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
  verifier(verifier const&) = delete;
  verifier& operator=(verifier const&) = delete;
  ~verifier() {
    static_cast<void>(cudaDeviceSynchronize());
    if (wrong_ != nullptr) static_cast<void>(cudaFree(wrong_));
    static_cast<void>(cudaGetLastError());
  }

  /// Call it after a block was allocated. @param line  of the trace, for messages
  void allocated(std::uint32_t block, std::uint32_t line, ww::stream_ref stream, void* pointer,
                 std::uint64_t bytes) {
    if (bytes == 0) return;
    pattern_shape shape;
    {
      std::lock_guard<std::mutex> const lock{mutex_};
      state& entry = states_[block];
      entry = state{};
      entry.line = line;
      auto const begin = reinterpret_cast<std::uintptr_t>(pointer);
      if (begin % alignment_bytes != 0) {
        report("line " + std::to_string(line) + ": the block at " + to_hex(begin) +
               " is not aligned to " + std::to_string(alignment_bytes) + " bytes");
        return;
      }
      auto const next = live_.lower_bound(begin);
      if (next != live_.end() && next->first < begin + bytes) overlap(*next, line);
      if (next != live_.begin()) {
        auto const before = std::prev(next);
        if (before->second.end > begin) overlap(*before, line);
      }
      if (live_.emplace(begin, interval{begin + bytes, block}).second) entry.in_map = true;
      live_bytes_ += bytes;
      if (live_bytes_ > live_peak_bytes_) live_peak_bytes_ = live_bytes_;
      if (live_bytes_ > recent_peak_bytes_) recent_peak_bytes_ = live_bytes_;
      entry.counted = true;
      if (wrong_ == nullptr) return;
      // An overlapping block is written, too, so that lost data are detected as well.
      entry.shape.bytes = static_cast<unsigned char*>(pointer);
      entry.shape.size_bytes = bytes;
      entry.shape.tag = mix(++patterns_);
      entry.shape.whole = level_ == verify_level::full;
      shape = entry.shape;
    }
    ww::for_each_index(stream, shape.count(), write_pattern{shape});
  }

  /// Call it before a block is freed.
  /// @pre `stream` is ordered behind the stream that the block was allocated on
  void freeing(std::uint32_t block, ww::stream_ref stream, void* pointer, std::uint64_t bytes) {
    if (bytes == 0) return;
    pattern_shape shape;
    {
      std::lock_guard<std::mutex> const lock{mutex_};
      state& entry = states_[block];
      if (entry.in_map) live_.erase(reinterpret_cast<std::uintptr_t>(pointer));
      entry.in_map = false;
      if (entry.counted) live_bytes_ -= bytes;
      entry.counted = false;
      shape = entry.shape;
      entry.shape = pattern_shape{};
    }
    if (shape.bytes != nullptr) {
      ww::for_each_index(stream, shape.count(), check_pattern{shape, wrong_ + block});
    }
  }

  /// Waits for the device and evaluates the checks.
  /// @return the number of errors
  std::uint64_t finish() {
    ww::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    if (wrong_ != nullptr) {
      std::vector<unsigned char> wrong(states_.size());
      ww::check(cudaMemcpy(wrong.data(), wrong_, wrong.size(), cudaMemcpyDeviceToHost),
                "cudaMemcpy");
      ww::check(cudaMemset(wrong_, 0, wrong.size()), "cudaMemset");
      ww::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
      for (std::size_t block = 0; block < wrong.size(); ++block) {
        if (wrong[block] == 0) continue;
        report("line " + std::to_string(states_[block].line) +
               ": data written into the block of this line changed before it was freed");
      }
    }
    return errors_;
  }

  /// The messages of the first errors.
  [[nodiscard]] std::vector<std::string> const& messages() const { return messages_; }
  /// The peak of live bytes so far, as requested.
  [[nodiscard]] std::uint64_t live_peak_bytes() const { return live_peak_bytes_; }
  /// The peak of live bytes since the last call, as requested.
  std::uint64_t take_recent_peak_bytes() {
    std::lock_guard<std::mutex> const lock{mutex_};
    std::uint64_t const peak = recent_peak_bytes_;
    recent_peak_bytes_ = live_bytes_;
    return peak;
  }

 private:
  static constexpr std::size_t maximum_messages = 10;
  struct interval {
    std::uintptr_t end;
    std::uint32_t block;
  };
  struct state {
    pattern_shape shape;
    std::uint32_t line = 0;
    bool in_map = false;
    bool counted = false;
  };

  static std::uint64_t mix(std::uint64_t x) {  // splitmix64's finaliser
    x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27U)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31U);
  }
  static std::string to_hex(std::uintptr_t address) {
    char text[32] = {};
    std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(address));
    return text;
  }
  void overlap(std::pair<std::uintptr_t const, interval> const& other, std::uint32_t line) {
    report("line " + std::to_string(line) + ": the block overlaps the live one of line " +
           std::to_string(states_[other.second.block].line) + ", which is at " +
           to_hex(other.first) + " to " + to_hex(other.second.end));
  }
  void report(std::string const& text) {
    ++errors_;
    if (messages_.size() < maximum_messages) messages_.push_back(text);
  }

  verify_level level_;
  std::vector<state> states_;
  unsigned char* wrong_ = nullptr;  // a flag a block, in device memory
  std::mutex mutex_;
  std::map<std::uintptr_t, interval> live_;
  std::uint64_t live_bytes_ = 0;
  std::uint64_t live_peak_bytes_ = 0;
  std::uint64_t recent_peak_bytes_ = 0;
  std::uint64_t patterns_ = 0;
  std::uint64_t errors_ = 0;
  std::vector<std::string> messages_;
};

}  // namespace replay
