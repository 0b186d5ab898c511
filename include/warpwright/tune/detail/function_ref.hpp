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

// A callable by reference, two words: what lets the measuring and searching code be compiled once
// instead of once a workload. The callable must outlive the call that it is passed to.
template <typename Result, typename... Arguments>
class function_ref<Result(Arguments...)> {
 public:
  template <typename Callable,
            typename = std::enable_if_t<
                !std::is_same_v<std::remove_cv_t<std::remove_reference_t<Callable>>, function_ref>>>
  function_ref(Callable&& callable) noexcept
      // The way of std::addressof, without <memory>.
      : object_{const_cast<char*>(&reinterpret_cast<char const volatile&>(callable))},
        call_{[](void* object, Arguments... arguments) -> Result {
          return (*static_cast<std::remove_reference_t<Callable>*>(object))(
              std::forward<Arguments>(arguments)...);
        }} {}

  Result operator()(Arguments... arguments) const {
    return call_(object_, std::forward<Arguments>(arguments)...);
  }

 private:
  void* object_;
  Result (*call_)(void*, Arguments...);
};

}  // namespace detail

WARPWRIGHT_END
