// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A tuple that kernels can take as an argument, and what is done with all of its members.
#pragma once

#include <warpwright/core/detail/config.hpp>

#include <cstddef>
#include <utility>

WARPWRIGHT_BEGIN

namespace ew::detail {

template <std::size_t Index, class T>
struct slot {
  T value;
};

template <class Indices, class... T>
struct pack_of;
template <std::size_t... Index, class... T>
struct pack_of<std::index_sequence<Index...>, T...> : slot<Index, T>... {};

// An aggregate tuple: trivially copyable when its members are, and cheap to compile.
template <class... T>
using pack = pack_of<std::make_index_sequence<sizeof...(T)>, T...>;

template <std::size_t Index, class T>
WARPWRIGHT_HOST_DEVICE constexpr T const& at(slot<Index, T> const& member) {
  return member.value;
}
template <std::size_t Index, class T>
WARPWRIGHT_HOST_DEVICE constexpr T& at(slot<Index, T>& member) {
  return member.value;
}

// The member of type T, of which there is one.
template <class T, std::size_t Index>
WARPWRIGHT_HOST_DEVICE constexpr T const& of_type(slot<Index, T> const& member) {
  return member.value;
}
template <class T, std::size_t Index>
WARPWRIGHT_HOST_DEVICE constexpr T& of_type(slot<Index, T>& member) {
  return member.value;
}

// Calls f with all members.
template <class F, std::size_t... Index, class... T>
decltype(auto) apply(pack_of<std::index_sequence<Index...>, T...> const& members, F const& f) {
  return f(at<Index>(members)...);
}

// The offset of each of several lists in their concatenation.
template <int... Counts>
struct operand_offsets {
  WARPWRIGHT_HOST_DEVICE static constexpr int of(std::size_t list) {
    int const counts[] = {Counts..., 0};
    int sum = 0;
    for (std::size_t k = 0; k < list; ++k) sum += counts[k];
    return sum;
  }
};

}  // namespace ew::detail

WARPWRIGHT_END
