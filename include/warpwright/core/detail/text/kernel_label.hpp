// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/config.hpp>

#include <string>

WARPWRIGHT_BEGIN

namespace detail {

/// A kernel's name as in the source, from the compiler's mangled one; other names are returned as
/// they are.
std::string demangled(std::string const& name);

/// A kernel's name for people: without namespaces, return type and parameters, as
/// "block_kernel<index_kernel<heat_step>>".
std::string kernel_label(std::string const& mangled);

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/core/detail/text/kernel_label_definitions.hpp>
#endif
