// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/stream.hpp>

#include <type_traits>

WARPWRIGHT_BEGIN

namespace detail {

/// A stream argument with the caller's location: for functions that end with a parameter pack,
/// after which a defaulted source_location cannot stand.
struct stream_argument {
  template <class Stream,
            class = std::enable_if_t<std::is_convertible<Stream const&, stream_ref>::value>>
  stream_argument(Stream const& any, source_location here = source_location::current())
      : stream{any}, where{here} {}

  stream_ref stream;
  source_location where;
};

}  // namespace detail

WARPWRIGHT_END
