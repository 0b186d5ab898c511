// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/kernel/detail/numeric/no_contract.hpp>

WARPWRIGHT_BEGIN

namespace ew {
namespace detail {

template <class A>
struct compensated_sum {
  A sum;
  A error;
};

// D. E. Knuth, "The Art of Computer Programming", volume 2, section 4.2.2: the error of a sum is
// itself a floating-point number, found by six operations.
template <class A>
WARPWRIGHT_HOST_DEVICE compensated_sum<A> two_sum(compensated_sum<A> const& a,
                                                  compensated_sum<A> const& b) {
  A const sum = no_contract::plus(a.sum, b.sum);
  A const b_seen = no_contract::plus(sum, -a.sum);
  A const a_seen = no_contract::plus(sum, -b_seen);
  A const error =
      no_contract::plus(no_contract::plus(a.sum, -a_seen), no_contract::plus(b.sum, -b_seen));
  return {sum, no_contract::plus(no_contract::plus(a.error, b.error), error)};
}

}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
