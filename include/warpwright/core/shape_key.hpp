// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The extents of an operation, and whatever else its speed depends on: what a chooser keeps a
// choice for, and a graph_cache a graph.
//
//   ww::shape_key const shape{rows, cols, data_type::half};
#pragma once

#include <warpwright/core/detail/text/string_builder.hpp>
#include <warpwright/core/error.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

WARPWRIGHT_BEGIN

/// Up to eight extents, or other whole numbers, that tell the shapes of an operation apart.
///
/// A plain value that does not allocate.
class shape_key {
  template <typename T>
  static constexpr bool is_extent = std::is_integral_v<T> || std::is_enum_v<T>;

 public:
  static constexpr std::size_t max_extents = 8;

  /// The shape of an operation that has one shape only.
  constexpr shape_key() noexcept = default;
  /// @param extents  integers or enumerators, none negative, at most max_extents of them
  /// @throws std::invalid_argument for a negative one
  template <typename... Extents,
            typename = std::enable_if_t<(sizeof...(Extents) > 0) && (is_extent<Extents> && ...)>>
  constexpr shape_key(Extents... extents) : count_{sizeof...(Extents)} {
    static_assert(sizeof...(Extents) <= max_extents,
                  "warpwright: a shape_key has at most eight extents; combine some of them");
    std::size_t i = 0;
    ((extents_[i++] = checked(extents)), ...);
  }

  /// @return how many extents there are
  [[nodiscard]] constexpr std::size_t size() const noexcept { return count_; }
  /// @param i  below size()
  [[nodiscard]] constexpr std::uint64_t operator[](std::size_t i) const noexcept {
    return extents_[i];
  }
  /// @return a hash of all extents and of their number
  [[nodiscard]] constexpr std::uint64_t hash() const noexcept {
    // Multiplication by an odd number and a shift, as the finalizer of SplitMix64.
    std::uint64_t h = count_;
    for (std::size_t i = 0; i < count_; ++i) {
      h = (h ^ extents_[i]) * 0x9E3779B97F4A7C15U;
      h ^= h >> 32U;
    }
    return h;
  }
  /// @return the extents as "1024x768"; empty if there are none
  [[nodiscard]] std::string to_text() const {
    std::string all;
    for (std::size_t i = 0; i < count_; ++i) {
      if (i > 0) all += 'x';
      all += std::to_string(extents_[i]);
    }
    return all;
  }

  friend constexpr bool operator==(shape_key const& a, shape_key const& b) noexcept {
    bool same = a.count_ == b.count_;
    for (std::size_t i = 0; i < a.count_ && same; ++i) same = a.extents_[i] == b.extents_[i];
    return same;
  }
  friend constexpr bool operator!=(shape_key const& a, shape_key const& b) noexcept {
    return !(a == b);
  }

 private:
  template <typename T>
  static constexpr std::uint64_t checked(T extent) {
    if constexpr (std::is_enum_v<T>) {
      return checked(static_cast<std::underlying_type_t<T>>(extent));
    } else {
      if constexpr (std::is_signed_v<T>) {
        if (extent < 0) throw_negative(static_cast<long long>(extent));
      }
      return static_cast<std::uint64_t>(extent);
    }
  }
  [[noreturn]] WARPWRIGHT_COLD static void throw_negative(long long extent) {
    detail::throw_invalid_argument(
        detail::text{"shape_key: an extent of "} + extent +
            "; extents must not be negative: give an unknown one a number that does not occur",
        source_location::current());
  }

  std::uint64_t extents_[max_extents] = {};
  std::size_t count_ = 0;
};

WARPWRIGHT_END
