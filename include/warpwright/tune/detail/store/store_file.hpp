// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The file of a tuning_store: reading it, locking it and replacing it as a whole. POSIX only.
#pragma once

#include <warpwright/core/detail/container/array.hpp>
#include <warpwright/core/detail/system/file.hpp>
#include <warpwright/core/error.hpp>

#include <cstddef>
#include <string>

WARPWRIGHT_BEGIN

namespace detail {

inline constexpr std::size_t max_store_bytes = std::size_t{64} << 20;

/// @param system_text  what the system says, or another reason, behind the path
[[noreturn]] void throw_store_error(source_location where, char const* problem,
                                    std::string const& path, char const* remedy,
                                    char const* system_text);
/// @param error  an errno, which tells the reason and the remedy
[[noreturn]] void throw_store_error(source_location where, char const* problem,
                                    std::string const& path, int error);

/// The content of a file; empty if there is none.
struct store_content {
  array<char> bytes;     ///< only its capacity is used: resize() would clear it byte by byte
  std::size_t size = 0;  ///< bytes read
};
void read_store(std::string const& path, store_content& content, source_location where);

/// Excludes other writers, of this process and of others, by flock() on a file of its own beside
/// the store, which is never removed. The kernel gives the lock back when the process ends in any
/// way.
class store_lock {
 public:
  /// @param path  the store's; the lock is "path.lock"
  /// @param timeout_seconds  how long to wait for it; 0: not at all
  store_lock(std::string const& path, double timeout_seconds, source_location where);
  store_lock(store_lock const&) = delete;
  store_lock& operator=(store_lock const&) = delete;
  ~store_lock();

 private:
  int file_ = -1;
};

}  // namespace detail

WARPWRIGHT_END
