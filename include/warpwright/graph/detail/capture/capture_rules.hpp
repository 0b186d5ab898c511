// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What each capture error means, and what to do about it (CUDA Programming Guide, "Prohibited and
// Unhandled Operations"; CUDA runtime API, cudaError_t 900 to 908).
#pragma once

#include <warpwright/core/error.hpp>

#include <string>

WARPWRIGHT_BEGIN

namespace detail {

struct capture_rule {
  int code;
  char const* cause;
  char const* remedy;
};

/// @return the rule of a code from 900 to 908; null for other codes
capture_rule const* find_capture_rule(cudaError_t code) noexcept;

inline bool is_capture_error(cudaError_t code) noexcept {
  return find_capture_rule(code) != nullptr;
}

/// What to do about a call that a capture does not allow, by a part of its name, which the runtime
/// and the driver spell alike; null for a call that needs no advice of its own.
char const* remedy_of_call(char const* api) noexcept;

/// As check(), with the cause and the remedy of a capture error.
void check_capture(cudaError_t status, char const* api, source_location where);

/// What CUDA has logged since a point in time: a line a failed call, with the thread that made it
/// (CUDA runtime API, "Error Log Management Functions", CUDA 13). Empty with older toolkits.
class driver_log {
 public:
  /// Remembers the end of the log.
  void start() noexcept;
  /// @return the lines since start()
  [[nodiscard]] std::string lines() const;

 private:
#if CUDART_VERSION >= 13000
  cudaLogIterator begin_ = 0;
  bool started_ = false;
#endif
};

/// A line of the log that says which call returned an error:
/// "[12:46:23.854][137216133754880][CUDA][E] Returning 900 (CUDA_ERROR_…) from cuMemAlloc_v2".
struct logged_call {
  int code = 0;  // 0: none
  std::string api;
  std::string thread;
};

/// Whether a call breaks other threads' captures in every mode: it waits for the whole device, or
/// uses the legacy default stream.
bool breaks_any_capture(int code, std::string const& api);

/// Finds the call that broke a capture: the first one to return a capture error other than
/// "invalidated", which is what later calls return.
/// @param any_thread  whether any call of other threads may have broken it (a global capture)
/// @param other       set to whether the call was made by another thread
logged_call find_breaking_call(std::string const& log, bool any_thread, bool& other);

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/graph/detail/capture/capture_rules_definitions.hpp>
#endif
