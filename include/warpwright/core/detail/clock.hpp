// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/config.hpp>

#include <time.h>

#include <cstdint>

WARPWRIGHT_BEGIN

namespace detail {

/// CLOCK_MONOTONIC in nanoseconds, since an arbitrary start; never decreases.
inline std::uint64_t monotonic_nanoseconds() noexcept {
  timespec now{};
  static_cast<void>(clock_gettime(CLOCK_MONOTONIC, &now));
  return static_cast<std::uint64_t>(now.tv_sec) * 1000000000U +
         static_cast<std::uint64_t>(now.tv_nsec);
}

/// Sleeps for at least this time, unless a signal arrives.
inline void sleep_nanoseconds(std::uint64_t nanoseconds) noexcept {
  timespec const pause{static_cast<time_t>(nanoseconds / 1000000000U),
                       static_cast<long>(nanoseconds % 1000000000U)};
  static_cast<void>(nanosleep(&pause, nullptr));
}

/// A non-owning reference to a steady clock: CLOCK_MONOTONIC, or a test's clock that advances under
/// the test's control.
///
/// **Threads:** as safe as the function; CLOCK_MONOTONIC may be read by any number of threads.
/// **Cost:** an indirect call; CLOCK_MONOTONIC adds one clock_gettime.
class clock_ref {
 public:
  /// Nanoseconds since an arbitrary start; never decreases.
  using function = std::uint64_t (*)(void* context);

  /// Refers to CLOCK_MONOTONIC.
  constexpr clock_ref() noexcept = default;
  /// @param read     returns the time in nanoseconds, and does not throw; not null
  /// @param context  passed to `read`, alive while this reference is used
  constexpr clock_ref(function read, void* context) noexcept : read_{read}, context_{context} {}

  /// @return nanoseconds since an arbitrary start
  [[nodiscard]] std::uint64_t now() const noexcept { return read_(context_); }

 private:
  static std::uint64_t read_monotonic(void*) noexcept { return monotonic_nanoseconds(); }
  function read_ = read_monotonic;
  void* context_ = nullptr;
};

}  // namespace detail

WARPWRIGHT_END
