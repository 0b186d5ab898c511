// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Checks of copies and fills, shared by calls, captures and graph nodes.
#pragma once

#include "runtime.hpp"
#include "work.hpp"

namespace warpwright::host {

/// Checks a copy against the allocations of both pointers, and sets its kind and devices.
cudaError_t check_copy(runtime& rt, copy_shape& shape);
cudaError_t check_fill(runtime& rt, fill_shape const& shape);
/// Converts the parameters of graph nodes; CUDA arrays are not implemented.
cudaError_t shape_of(cudaMemcpy3DParms const& parameters, copy_shape& shape);
cudaError_t shape_of(cudaMemsetParams const& parameters, fill_shape& shape);

}  // namespace warpwright::host
