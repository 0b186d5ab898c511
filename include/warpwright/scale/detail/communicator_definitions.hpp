// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/scale/communicator.hpp>

WARPWRIGHT_BEGIN_DEFINITIONS

WARPWRIGHT_COLD inline communicator::communicator(rendezvous const& how,
                                                  communicator_options const& options,
                                                  source_location where)
    : exceptions_{std::uncaught_exceptions()} {
  detail::communicator_values const& values = values_of(options);
  if (!(values.deadline > 0.0 && values.deadline <= 1e6)) {
    detail::throw_invalid_argument(detail::text{"communicator_options: the deadline is "} +
                                       values.deadline +
                                       " s; above 0, and at most 1000000, is possible",
                                   where);
  }
  core_ = new detail::communicator_core{how.place_, values, where};
}

WARPWRIGHT_COLD inline void communicator::barrier(source_location where) {
  detail::array<char> nothing;
  core_->exchange("barrier()", nullptr, 0, nothing, where);
}

WARPWRIGHT_COLD inline void communicator::synchronize(stream_ref stream, source_location where) {
  stream.synchronize(where);
  core_->check(where);
}

WARPWRIGHT_END_DEFINITIONS
