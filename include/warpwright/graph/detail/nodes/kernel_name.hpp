// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/error.hpp>

#include <string>

WARPWRIGHT_BEGIN

namespace detail {

/// The name of a kernel node's kernel, as the compiler mangled it; empty for other nodes, or where
/// the driver does not tell (CUDA older than 12.3).
std::string kernel_name(cudaGraphNode_t node);

/// A kernel's name as in the source, from the compiler's mangled one; other names are returned as
/// they are.
std::string demangled(std::string const& name);

/// A kernel's name for people: without namespaces, return type and parameters, as
/// "block_kernel<index_kernel<heat_step>>".
std::string kernel_label(std::string const& mangled);

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/graph/detail/nodes/kernel_name_definitions.hpp>
#endif
