// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/text/markup.hpp>
#include <warpwright/graph/detail/nodes/graph_structure.hpp>
#include <warpwright/graph/graph.hpp>

WARPWRIGHT_BEGIN

/// Draws a graph: a box a node, those that can run concurrently beside each other, time from top to
/// bottom. A box's title, which browsers show under the pointer, has the kernel's full name.
/// @param source  a captured graph; a child graph or a conditional node is one box
/// @return an SVG document
/// @throws cuda_error  when a query fails
/// **Capture:** legal. **Cost:** a few CUDA calls a node; for reports.
[[nodiscard]] std::string to_svg(graph const& source,
                                 source_location where = source_location::current());

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/graph/detail/graph_svg_definitions.hpp>
#endif
