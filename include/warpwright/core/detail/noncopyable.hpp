// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/config.hpp>

WARPWRIGHT_BEGIN

namespace detail {

/// The base of a class that others refer to: it is neither copied nor moved. Not of a class whose
/// first member has this base too: the two may not share an address, and the class would grow.
class noncopyable {
 public:
  noncopyable(noncopyable const&) = delete;
  noncopyable& operator=(noncopyable const&) = delete;

 protected:
  constexpr noncopyable() noexcept = default;
  ~noncopyable() = default;
};

}  // namespace detail

WARPWRIGHT_END
