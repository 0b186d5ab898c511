// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>

#include <warpwright/core/detail/config.hpp>
#include <warpwright/core/detail/noncopyable.hpp>

WARPWRIGHT_BEGIN

namespace detail {

/// A shared library that is loaded at run time, so that no program links it.
class dynamic_library : noncopyable {
 public:
  ~dynamic_library() { close(); }

  /// Closes the one that was opened before.
  /// @return null, or the system's reason why it cannot be loaded, until the next call
  char const* open(char const* name) noexcept {
    close();
    handle_ = dlopen(name, RTLD_NOW);
    if (handle_ != nullptr) return nullptr;
    char const* const reason = dlerror();
    return reason != nullptr ? reason : name;
  }
  /// @pre open() has succeeded
  /// @return whether the library has the function
  template <class Function>
  bool find(char const* name, Function& function) const noexcept {
    function = reinterpret_cast<Function>(dlsym(handle_, name));
    return function != nullptr;
  }

 private:
  void close() noexcept {
    if (handle_ != nullptr) dlclose(handle_);
    handle_ = nullptr;
  }

  void* handle_ = nullptr;
};

}  // namespace detail

WARPWRIGHT_END
