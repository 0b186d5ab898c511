// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/device/scoped_stream_device.hpp>
#include <warpwright/core/detail/function_ref.hpp>
#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/core/stream.hpp>
#include <warpwright/measure/roofline.hpp>

#include <cstdint>

WARPWRIGHT_BEGIN

namespace detail {

struct ceiling_settings {
  std::size_t bytes = 0;  // 0: chosen
  double seconds_each = 0.2;
};

// Of a loop of multiply-adds: its own instructions are less than 1 % of those.
inline constexpr int unrolled_rounds = 64;

/// Memory of the runtime's own, as what is measured must not depend on a pool.
class plain_memory : noncopyable {
 public:
  enum class kind { device, host };
  /// @param stream  that uses it: it is waited for before the memory goes, if a call fails, too
  /// @throws out_of_memory, cuda_error
  plain_memory(kind where_it_is, std::size_t bytes, stream_ref stream, source_location where);
  ~plain_memory();
  [[nodiscard]] unsigned char* data() const noexcept { return static_cast<unsigned char*>(data_); }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  kind kind_;
  void* data_ = nullptr;
  std::size_t size_;
  stream_ref stream_;
};

/// measure_ceilings() without its kernels.
class ceilings_core : noncopyable {
 public:
  ceilings_core(stream_ref stream, ceiling_settings const& settings, source_location where);

  [[nodiscard]] unsigned char* source() const noexcept { return source_.data(); }
  [[nodiscard]] unsigned char* target() const noexcept { return target_.data(); }
  [[nodiscard]] std::uint32_t* sink() const noexcept {
    return static_cast<std::uint32_t*>(static_cast<void*>(sink_.data()));
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return source_.size(); }
  /// @return a power of two, about a quarter of the L2 cache, in bytes; 0: there is none
  [[nodiscard]] std::size_t l2_part() const noexcept;
  [[nodiscard]] std::uint64_t resident_threads() const noexcept;
  /// @return rounds of the kernel, for some 0.5 ms; a multiple of unrolled_rounds
  [[nodiscard]] int rounds(limit which) const noexcept;
  [[nodiscard]] bool has_bfloat16() const noexcept { return result_.gpu.major >= 8; }
  /// @return lines of 128 B in the source, a power of two
  [[nodiscard]] std::size_t latency_lines() const noexcept;

  /// @param work  bytes or operations of a call
  void rate(limit which, double work, function_ref<void()> call);
  void copies();
  /// @param fill  random elements of 16 bits, `void(void* to, std::size_t count, bool bfloat16)`
  void tensor(function_ref<void(void*, std::size_t, bool)> fill);
  void latency(function_ref<void(std::uint32_t steps)> follow);
  void launches(function_ref<void(stream_ref)> launch);
  void links();
  [[nodiscard]] device_ceilings finish();

 private:
  static std::size_t buffer_bytes(device_ceilings const& of, ceiling_settings const& settings,
                                  source_location where);
  void measure_one(limit which, double work, double parts, function_ref<void()> call);

  scoped_stream_device current_;  // first, and last to end
  stream_ref stream_;
  ceiling_settings settings_;
  source_location where_;
  std::uint64_t begin_;
  device_ceilings result_;
  plain_memory source_, target_, sink_;
};

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/measure/detail/ceilings_definitions.hpp>
#endif
