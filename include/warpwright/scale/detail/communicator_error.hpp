// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/error.hpp>

#include <stdexcept>
#include <vector>

WARPWRIGHT_BEGIN

/// A communicator cannot be made, or cannot go on: what() names the ranks, the value and the
/// remedy.
class communicator_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Ranks have ended, been stopped, failed, or called something else than the others.
class rank_lost : public communicator_error {
 public:
  rank_lost(std::string const& report, std::vector<int> ranks)
      : communicator_error{report}, ranks_{static_cast<std::vector<int>&&>(ranks)} {}
  /// @return the ranks that are lost; empty: it is not known which
  [[nodiscard]] std::vector<int> const& ranks() const noexcept { return ranks_; }

 private:
  std::vector<int> ranks_;
};

namespace detail {

[[noreturn]] WARPWRIGHT_COLD inline void throw_communicator_error(text const& problem,
                                                                  source_location where) {
  throw communicator_error{(text{where.file(), where.line()} + ": " + problem).c_str()};
}

}  // namespace detail

WARPWRIGHT_END
