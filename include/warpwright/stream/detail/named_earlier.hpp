// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/error.hpp>

WARPWRIGHT_BEGIN

namespace detail {

/// As check(), of a call with a stream that the caller has named earlier: names the probable cause.
inline void check_named_earlier(cudaError_t status, char const* api, source_location where) {
  if (status == cudaSuccess) return;
  bool const is_gone =
      status == cudaErrorInvalidResourceHandle || status == cudaErrorContextIsDestroyed;
  throw_cuda_error(status, api, where,
                   is_gone ? "probably the stream was destroyed: a stream outlives the batches, "
                             "slots and branches that it was given for"
                           : nullptr);
}

}  // namespace detail

WARPWRIGHT_END
