// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/config.hpp>

#include <type_traits>
#include <utility>

WARPWRIGHT_BEGIN

namespace detail {

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
