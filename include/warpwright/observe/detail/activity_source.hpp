// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/array.hpp>
#include <warpwright/core/detail/system/activity_records.hpp>
#include <warpwright/core/detail/thread/atomic.hpp>
#include <warpwright/core/detail/thread/locks.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

WARPWRIGHT_BEGIN

namespace detail {

/// Set while another part of the library is CUPTI's subscriber, so that a trace does not take it
/// for a foreign tool.
__attribute__((visibility("default"))) inline atomic<bool> library_subscribes_to_cupti{false};

/// The buffers of activity records, of the process: CUPTI's callbacks have no context, and it may
/// keep buffers to the end. They are never freed.
struct activity_buffers {
  static constexpr std::size_t buffer_bytes = std::size_t{4} << 20U;

  struct filled_buffer {
    std::uint8_t* begin;
    std::size_t bytes;
  };

  spin_lock lock;              // of the lists, whose memory is reserved
  array<std::uint8_t*> spare;  // all zero
  array<filled_buffer> filled;
  std::size_t made = 0;
  bool keep = false;              // filled buffers; else they are emptied at once
  bool graphs_enabled = false;    // whole graphs, for good
  atomic<bool> in_use;            // by a trace
  char const* library = nullptr;  // that was loaded, with
  activity_functions functions{};

  /// @throws std::bad_alloc  and there are fewer
  void make(std::size_t count);
};

activity_buffers& the_activity_buffers() noexcept;

/// Loads CUPTI, or takes the host runtime's functions.
/// @param path  of CUPTI; null: the usual places
/// @return what is wrong, with the remedy; empty: nothing
std::string load_activity_functions(char const* path, activity_functions& functions);

/// Registers the buffers, and enables kernels for a moment: what is not permitted fails here.
/// @return as above
std::string try_activity(activity_functions const& functions, bool whole_graphs);

}  // namespace detail

WARPWRIGHT_END
