// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A reference to a callable of any type, and an object with a copy of one: <functional> is slow to
// compile.
#pragma once

#include <warpwright/core/detail/exchange.hpp>

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

template <typename Signature>
class owned_function;

/// Holds a copy of a callable, so that a builder which stores it cannot outlive it. Copies of an
/// owned_function hold copies of the callable.
template <typename Result, typename... Arguments>
class owned_function<Result(Arguments...)> {
 public:
  /// Holds nothing.
  owned_function() noexcept = default;
  /// @param callable  copyable; `Result(Arguments...)`
  template <typename Callable,
            typename = std::enable_if_t<!std::is_same_v<std::decay_t<Callable>, owned_function>>>
  explicit owned_function(Callable&& callable)
      : object_{new std::decay_t<Callable>(std::forward<Callable>(callable))},
        functions_{&functions_of<std::decay_t<Callable>>} {}
  owned_function(owned_function const& other)
      : object_{other.object_ == nullptr ? nullptr : other.functions_->copy(other.object_)},
        functions_{other.functions_} {}
  owned_function(owned_function&& other) noexcept { swap(other); }
  owned_function& operator=(owned_function other) noexcept {
    swap(other);
    return *this;
  }
  ~owned_function() {
    if (object_ != nullptr) functions_->destroy(object_);
  }

  /// @return whether it holds a callable
  [[nodiscard]] explicit operator bool() const noexcept { return object_ != nullptr; }
  /// @pre it holds a callable
  Result operator()(Arguments... arguments) const {
    return functions_->call(object_, std::forward<Arguments>(arguments)...);
  }

 private:
  struct table {
    Result (*call)(void*, Arguments...);
    void* (*copy)(void const*);
    void (*destroy)(void*);
  };
  template <typename Callable>
  static constexpr table functions_of{[](void* object, Arguments... arguments) -> Result {
                                        return static_cast<Result>((*static_cast<Callable*>(
                                            object))(std::forward<Arguments>(arguments)...));
                                      },
                                      [](void const* object) -> void* {
                                        return new Callable(*static_cast<Callable const*>(object));
                                      },
                                      [](void* object) { delete static_cast<Callable*>(object); }};

  void swap(owned_function& other) noexcept {
    detail::swap(object_, other.object_);
    detail::swap(functions_, other.functions_);
  }

  void* object_ = nullptr;
  table const* functions_ = nullptr;
};

}  // namespace detail

WARPWRIGHT_END
