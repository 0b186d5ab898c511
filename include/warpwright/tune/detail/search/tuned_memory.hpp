// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The workload and the memory argument of batch_tuner::tune(), of whatever kind they are.
#pragma once

#include <warpwright/memory/resource_ref.hpp>
#include <warpwright/tune/detail/memory_model.hpp>

#include <cstddef>
#include <type_traits>
#include <utility>

WARPWRIGHT_BEGIN

namespace detail {

template <typename T, typename = void>
struct has_peak : std::false_type {};
template <typename T>
struct has_peak<T, std::void_t<decltype(std::declval<T&>().reset()),
                               decltype(std::size_t{std::declval<T&>().peak_bytes()})>>
    : std::true_type {};

template <typename T, typename = void>
struct has_limit : std::false_type {};
template <typename T>
struct has_limit<T, std::void_t<decltype(std::declval<T&>().limit(std::size_t{})),
                                decltype(std::size_t{std::declval<T&>().limit_bytes()})>>
    : std::true_type {};

template <typename T, typename = void>
struct has_trim : std::false_type {};
template <typename T>
struct has_trim<T, std::void_t<decltype(std::declval<T&>().trim())>> : std::true_type {};

template <typename T, typename = void>
struct has_refusals : std::false_type {};
template <typename T>
struct has_refusals<T, std::void_t<decltype(std::size_t{std::declval<T&>().refusals()})>>
    : std::true_type {};

template <typename Memory>
struct memory_kind {
  static constexpr bool returns_bytes() {
    if constexpr (std::is_invocable_v<Memory&, std::size_t>) {
      return std::is_convertible_v<std::invoke_result_t<Memory&, std::size_t>, std::size_t>;
    } else {
      return false;
    }
  }
  static constexpr bool is_none = std::is_same_v<std::remove_cv_t<Memory>, no_memory_probe>;
  static constexpr bool is_peak = has_peak<Memory>::value;
  static constexpr bool is_resource = !std::is_const_v<Memory> && has_pool_interface<Memory>::value;
  static constexpr bool is_current = !is_peak && std::is_invocable_r_v<std::size_t, Memory&>;
  static constexpr bool is_preparation = !is_peak && std::is_invocable_v<Memory&, std::size_t>;
  static constexpr bool is_exact = is_preparation && returns_bytes();
  static constexpr bool is_capped = is_peak && has_limit<Memory>::value;
  static constexpr bool valid =
      int{is_none} + int{is_peak} + int{is_current} + int{is_preparation} == 1;
};

// What the checks of a tune ask of its memory argument.
struct memory_traits {
  bool peak;
  bool current;
  bool exact;
  bool capped;
  template <typename Memory>
  static constexpr memory_traits of() noexcept {
    using kind = memory_kind<Memory>;
    return {kind::is_peak, kind::is_current, kind::is_exact, kind::is_capped};
  }
};

// Throws where a budget could not be kept.
void check_memory_argument(memory_traits memory, bool has_budget, source_location where);

// Caps the memory during a tune, and gives back what is idle at its end, by an exception as well.
template <typename Memory>
class tuned_memory {
  using kind = memory_kind<Memory>;

 public:
  tuned_memory(Memory& memory, bool has_budget, std::size_t budget_bytes, source_location where)
      : memory_{memory}, where_{where} {
    if constexpr (kind::is_capped) {
      memory.reset();
      if (has_budget && memory.peak_bytes() > budget_bytes) {
        throw_invalid_argument(
            text{"batch_tuner: the pool has "} + memory.peak_bytes() +
                " bytes live before the tune, more than the budget of " + budget_bytes +
                ": raise memory_budget(), which counts them, or allocate them elsewhere",
            where);
      }
      limit_before_ = memory.limit_bytes();
      capped_ = has_budget && budget_bytes < limit_before_;
      if (capped_) memory.limit(budget_bytes);
    }
    static_cast<void>(has_budget);
    static_cast<void>(budget_bytes);
  }
  ~tuned_memory() {
    // A failure is reported by whatever uses the device next.
    try {
      trim();
    } catch (...) {
      static_cast<void>(cudaGetLastError());
    }
    if constexpr (kind::is_capped) {
      try {
        if (capped_) memory_.limit(limit_before_);
      } catch (...) {
        static_cast<void>(cudaGetLastError());
      }
    }
  }
  tuned_memory(tuned_memory const&) = delete;
  tuned_memory& operator=(tuned_memory const&) = delete;

  void reset() {
    if constexpr (kind::is_peak) memory_.reset();
  }
  bool prepare(std::size_t batch, std::size_t& bytes) {
    if constexpr (kind::is_exact) {
      bytes = memory_(batch);
    } else if constexpr (kind::is_preparation) {
      memory_(batch);
    }
    static_cast<void>(batch);
    static_cast<void>(bytes);
    return kind::is_exact;
  }
  bool read(std::size_t& bytes) {
    if constexpr (kind::is_peak) {
      bytes = memory_.peak_bytes();
    } else if constexpr (kind::is_current) {
      bytes = memory_();
    }
    static_cast<void>(bytes);
    return kind::is_peak || kind::is_current;
  }
  void trim() {
    if constexpr (has_trim<Memory>::value) memory_.trim();
  }
  [[nodiscard]] std::size_t refusals() {
    if constexpr (has_refusals<Memory>::value) {
      return memory_.refusals();
    } else {
      return 0;
    }
  }

 private:
  Memory& memory_;
  source_location where_;
  std::size_t limit_before_ = 0;
  bool capped_ = false;
};

// Drops the graph that a workload replays, if it does (captured_workload): before another size
// begins, and at the end of a tune, so that the memory goes back to the pool.
template <typename Workload, typename = void>
class tuned_workload {
 public:
  static constexpr bool replays = false;
  explicit tuned_workload(Workload&) noexcept {}
  void drop_graph() noexcept {}
};

template <typename Workload>
class tuned_workload<Workload, std::void_t<decltype(std::declval<Workload&>().drop_graph())>> {
 public:
  static constexpr bool replays = true;
  explicit tuned_workload(Workload& workload) noexcept : workload_{workload} {}
  ~tuned_workload() { drop_graph(); }
  tuned_workload(tuned_workload const&) = delete;
  tuned_workload& operator=(tuned_workload const&) = delete;
  void drop_graph() noexcept { workload_.drop_graph(); }

 private:
  Workload& workload_;
};

}  // namespace detail

WARPWRIGHT_END
