// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/config.hpp>

#include <type_traits>
#include <utility>

WARPWRIGHT_BEGIN

namespace detail {

template <typename Signature>
class function_ref;

/// A non-owning reference to a callable, of two pointers (as C++26's std::function_ref): a function
/// that takes one is compiled once, and not again for every callable.
///
/// The callable must outlive the function_ref: pass one as a parameter, do not store it.
template <typename Result, typename... Arguments>
class function_ref<Result(Arguments...)> {
 public:
  /// @param callable  an object with a call operator; a function's name is not one
  template <typename Callable,
            typename = std::enable_if_t<
                !std::is_same_v<std::remove_cv_t<std::remove_reference_t<Callable>>, function_ref>>>
  function_ref(Callable&& callable) noexcept
      // std::addressof without <memory>, which is slow to compile.
      : object_{const_cast<char*>(&reinterpret_cast<char const volatile&>(callable))},
        call_{[](void* object, Arguments... arguments) -> Result {
          return (*static_cast<std::remove_reference_t<Callable>*>(object))(
              std::forward<Arguments>(arguments)...);
        }} {
    static_assert(!std::is_function_v<std::remove_reference_t<Callable>>,
                  "warpwright: function_ref refers to objects; wrap a function in a lambda");
  }

  Result operator()(Arguments... arguments) const {
    return call_(object_, std::forward<Arguments>(arguments)...);
  }

 private:
  void* object_;
  Result (*call_)(void*, Arguments...);
};

}  // namespace detail

WARPWRIGHT_END
