// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/noncopyable.hpp>
#include <warpwright/core/detail/thread/atomic.hpp>

#if WARPWRIGHT_HOST_RUNTIME
/// The number of captures under way, whoever began them.
extern "C" unsigned warpwrightHostCaptures(void);
#endif

WARPWRIGHT_BEGIN

namespace detail {

/// The number of captures of this process that the library's own classes have begun and not ended.
/// A memory pool's fast path reads it: memory that a capture takes belongs to the graph. One for
/// all libraries of a program that the loader resolves together. A library loaded with dlopen() has
/// a count of its own where the program does not export its symbols (-rdynamic).
__attribute__((visibility("default"))) inline atomic<unsigned> captures_under_way;

/// Whether a stream may be capturing. A GPU's runtime has no such count: there, captures that other
/// libraries begin are not seen.
inline bool may_be_capturing_anywhere() noexcept {
#if WARPWRIGHT_HOST_RUNTIME
  return warpwrightHostCaptures() != 0;
#else
  return captures_under_way.load(memory_order::relaxed) != 0;
#endif
}

/// Counts a capture during its lifetime.
class counted_capture : noncopyable {
 public:
  ~counted_capture() { end(); }
  void begin() noexcept {
    captures_under_way.fetch_add(1, memory_order::relaxed);
    counted_ = true;
  }
  void end() noexcept {
    if (counted_) captures_under_way.fetch_sub(1, memory_order::relaxed);
    counted_ = false;
  }

 private:
  bool counted_ = false;
};

}  // namespace detail

WARPWRIGHT_END
