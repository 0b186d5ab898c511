// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The part of <atomic> that the library uses, on the compiler's builtins: <atomic> is slow to
// compile.
#pragma once

#include <warpwright/core/detail/config.hpp>

#include <type_traits>

WARPWRIGHT_BEGIN

namespace detail {

/// As std::memory_order.
enum class memory_order : int {
  relaxed = __ATOMIC_RELAXED,
  acquire = __ATOMIC_ACQUIRE,
  release = __ATOMIC_RELEASE,
  acq_rel = __ATOMIC_ACQ_REL,
  seq_cst = __ATOMIC_SEQ_CST
};

/// Stops the compiler from moving memory accesses across it; emits no instruction.
WARPWRIGHT_ALWAYS_INLINE void compiler_fence() noexcept { __atomic_signal_fence(__ATOMIC_SEQ_CST); }

/// As std::atomic, with two differences: every access names its memory order, and there is no
/// implicit conversion to or from T.
///
/// @tparam T  an integer, bool, enumeration or pointer that the processor accesses without a lock
template <class T>
class atomic {
  static_assert(std::is_integral<T>::value || std::is_enum<T>::value || std::is_pointer<T>::value,
                "atomic: T must be an integer, bool, an enumeration or a pointer");
  static_assert(__atomic_always_lock_free(sizeof(T), nullptr),
                "atomic: the processor cannot access a T of this size without a lock");

 public:
  constexpr atomic() noexcept = default;
  explicit constexpr atomic(T value) noexcept : value_{value} {}
  atomic(atomic const&) = delete;
  atomic& operator=(atomic const&) = delete;

  [[nodiscard]] WARPWRIGHT_ALWAYS_INLINE T load(memory_order order) const noexcept {
    return __atomic_load_n(&value_, static_cast<int>(order));
  }
  WARPWRIGHT_ALWAYS_INLINE void store(T value, memory_order order) noexcept {
    __atomic_store_n(&value_, value, static_cast<int>(order));
  }
  /// @return the value before
  WARPWRIGHT_ALWAYS_INLINE T exchange(T value, memory_order order) noexcept {
    return __atomic_exchange_n(&value_, value, static_cast<int>(order));
  }

  /// Stores `desired` if the value is `expected`; otherwise copies the value to `expected`.
  /// @param failure  the order of the load when nothing is stored: neither release nor acq_rel
  /// @return whether `desired` was stored
  WARPWRIGHT_ALWAYS_INLINE bool compare_exchange(T& expected, T desired, memory_order success,
                                                 memory_order failure) noexcept {
    return __atomic_compare_exchange_n(&value_, &expected, desired, false,
                                       static_cast<int>(success), static_cast<int>(failure));
  }
  /// As compare_exchange(), but may fail although the value is `expected`: for loops.
  WARPWRIGHT_ALWAYS_INLINE bool compare_exchange_weak(T& expected, T desired, memory_order success,
                                                      memory_order failure) noexcept {
    return __atomic_compare_exchange_n(&value_, &expected, desired, true, static_cast<int>(success),
                                       static_cast<int>(failure));
  }

  /// Integers only. @return the value before
  WARPWRIGHT_ALWAYS_INLINE T fetch_add(T value, memory_order order) noexcept {
    require_integer();
    return __atomic_fetch_add(&value_, value, static_cast<int>(order));
  }
  /// Integers only. @return the value before
  WARPWRIGHT_ALWAYS_INLINE T fetch_sub(T value, memory_order order) noexcept {
    require_integer();
    return __atomic_fetch_sub(&value_, value, static_cast<int>(order));
  }
  /// Integers only. @return the value before
  WARPWRIGHT_ALWAYS_INLINE T fetch_or(T value, memory_order order) noexcept {
    require_integer();
    return __atomic_fetch_or(&value_, value, static_cast<int>(order));
  }

 private:
  // The builtins add bytes, not elements, to a pointer.
  static constexpr void require_integer() noexcept {
    static_assert(std::is_integral<T>::value && !std::is_same<T, bool>::value,
                  "atomic: arithmetic needs an integer");
  }

  T value_ = T{};
};

}  // namespace detail

WARPWRIGHT_END
