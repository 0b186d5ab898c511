// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A copyable callable of any type, as std::function: <functional> is slow to compile.
#pragma once

#include <warpwright/core/detail/config.hpp>

#include <type_traits>
#include <utility>

WARPWRIGHT_BEGIN

namespace detail {

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
    void* const object = object_;
    table const* const functions = functions_;
    object_ = other.object_;
    functions_ = other.functions_;
    other.object_ = object;
    other.functions_ = functions;
  }

  void* object_ = nullptr;
  table const* functions_ = nullptr;
};

}  // namespace detail

WARPWRIGHT_END
