// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/error.hpp>

#include <cstddef>

WARPWRIGHT_BEGIN

namespace detail {

/// A kernel node's kernel, and how it is called.
struct kernel_call {
  /// Whose handle `kernel` is. The runtime does not know kernels that the driver's functions
  /// launch, such as those of cuBLAS.
  enum class kind { of_runtime, function, library_kernel };

  kind handle = kind::of_runtime;
  void const* kernel = nullptr;
  dim3 grid{};
  dim3 block{};
  unsigned shared_bytes = 0;
  void** arguments = nullptr;  ///< null: in a form that is not read here

  /// @return the kernel's name, mangled; null where the driver does not tell (before CUDA 12.3)
  [[nodiscard]] char const* name() const noexcept;
  /// @return 0 past the last argument, and before CUDA 12.4
  [[nodiscard]] std::size_t argument_bytes(std::size_t index) const noexcept;
};

/// @param to  written on success; its arguments live as long as the node
cudaError_t read_kernel(cudaGraphNode_t node, kernel_call& to) noexcept;

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/graph/detail/nodes/kernel_call_definitions.hpp>
#endif
