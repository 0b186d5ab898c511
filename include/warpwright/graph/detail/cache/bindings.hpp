// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The bindings of a step: the values that its captured graph has in it, as 8-byte words, so that a
// call compares them with few instructions.
#pragma once

#include <warpwright/core/detail/padding.hpp>
#include <warpwright/core/stream.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

WARPWRIGHT_BEGIN

/// Whether graph_cache compares a T by its bytes. Specialise it as true for a trivially copyable
/// type of your own that has floating-point members and no padding, or padding that is always zero:
/// bytes of padding that differ make every call an update.
template <class T>
inline constexpr bool is_graph_binding_by_bytes = std::has_unique_object_representations_v<T>;

namespace detail {

template <class T, class = void>
struct is_pointer_and_size : std::false_type {};
template <class T>
struct is_pointer_and_size<T, std::void_t<decltype(std::declval<T const&>().data()),
                                          decltype(std::declval<T const&>().size())>>
    : std::is_pointer<decltype(std::declval<T const&>().data())> {};

// std::array of numbers other than long double: it has no padding.
template <class T, class = void>
struct is_array_of_numbers : std::false_type {};
template <class T>
struct is_array_of_numbers<
    T, std::void_t<decltype(std::tuple_size<T>::value), decltype(std::declval<T const&>()[0])>>
    : std::bool_constant<
          std::is_arithmetic_v<std::remove_reference_t<decltype(std::declval<T const&>()[0])>> &&
          !std::is_same_v<decltype(std::declval<T const&>()[0]), long double const&> &&
          std::tuple_size<T>::value * sizeof(std::declval<T const&>()[0]) == sizeof(T)> {};

// A device slot whose value is not a part of the graph: graph_param.
template <class T, class = void>
struct is_device_slot : std::false_type {};
template <class T>
struct is_device_slot<
    T, std::void_t<decltype(std::declval<T const&>().get()),
                   decltype(std::declval<T&>().set(std::declval<stream_ref>(),
                                                   std::declval<T const&>().value()))>>
    : std::is_pointer<decltype(std::declval<T const&>().get())> {};

// std::reference_wrapper, by its members: <functional> is slow to compile.
template <class T, class = void>
struct is_reference : std::false_type {};
template <class T>
struct is_reference<
    T,
    std::enable_if_t<std::is_same_v<decltype(std::declval<T const&>().get()), typename T::type&>>>
    : std::true_type {};

template <class T>
constexpr std::size_t words_of_bytes = (sizeof(T) + 7) / 8;

// How an argument is written as words; T has neither a reference nor const.
// AnyBytes: graph_replay's, which takes every trivially copyable T, with its padding as zeros where
// the compiler can write them.
template <class T, bool AnyBytes>
struct binding {
  static constexpr bool by_address =
      std::is_pointer_v<T> || std::is_null_pointer_v<T> || is_device_slot<T>::value;
  // What owns its elements, such as a buffer, by where they are; a view by all that it has.
  static constexpr bool by_range =
      !by_address && is_pointer_and_size<T>::value && !std::is_trivially_copyable_v<T>;
  static constexpr bool by_number =
      std::is_arithmetic_v<T> && !std::is_same_v<T, long double> && sizeof(T) <= 8;
  static constexpr bool by_bytes =
      std::is_trivially_copyable_v<T> && (AnyBytes || is_graph_binding_by_bytes<T> ||
                                          std::is_enum_v<T> || is_array_of_numbers<T>::value);
  static_assert(
      by_address || by_range || by_number || by_bytes || std::is_same_v<T, stream_ref>,
      "warpwright: graph_cache::run compares its arguments on each call, and cannot compare one of "
      "this type: pass its pointers and numbers instead (p.get(), v.data(), v.size()), or, for a "
      "trivially copyable struct with floating-point members and no padding, specialise "
      "warpwright::is_graph_binding_by_bytes");

  static_assert(AnyBytes || !is_reference<T>::value,
                "warpwright: graph_cache::run would compare a std::ref by its address, and miss a "
                "change of the value: pass the value itself, or a graph_param");

  static constexpr std::size_t words =
      by_range ? 2 : (by_address || by_number ? 1 : words_of_bytes<T>);

  static void write(std::uint64_t* to, T const& value) noexcept {
    if constexpr (std::is_same_v<T, stream_ref>) {
      to[1] = 0;
      copy(to, value.get());
    } else if constexpr (std::is_null_pointer_v<T>) {
      *to = 0;
    } else if constexpr (std::is_pointer_v<T>) {
      copy(to, value);
    } else if constexpr (is_device_slot<T>::value) {
      copy(to, value.get());
    } else if constexpr (by_range) {
      copy(to, value.data());
      to[1] = static_cast<std::uint64_t>(value.size());
    } else {
      to[words - 1] = 0;  // the last word may have fewer bytes than eight
      if constexpr (AnyBytes && !std::has_unique_object_representations_v<T>) {
        alignas(T) unsigned char bytes[sizeof(T)];
        std::memcpy(bytes, static_cast<void const*>(&value), sizeof(T));
        clear_padding(reinterpret_cast<T&>(bytes));
        copy(to, bytes);
      } else {
        copy(to, value);
      }
    }
  }

 private:
  template <class V>
  static void copy(std::uint64_t* to, V const& value) noexcept {
    std::memcpy(static_cast<void*>(to), &value, sizeof value);
  }
};

template <class T>
using binding_value = std::remove_cv_t<std::remove_reference_t<T>>;
// The words of all arguments of a call; on the stack.
template <bool AnyBytes, class... Arguments>
class words_of_arguments {
 public:
  static constexpr std::size_t count = (std::size_t{0} + ... + binding<Arguments, AnyBytes>::words);

  explicit words_of_arguments(Arguments const&... arguments) noexcept {
    std::uint64_t* to = words_;
    ((binding<Arguments, AnyBytes>::write(to, arguments),
      to += binding<Arguments, AnyBytes>::words),
     ...);
    static_cast<void>(to);
  }
  [[nodiscard]] std::uint64_t const* data() const noexcept { return words_; }

 private:
  std::uint64_t words_[count == 0 ? 1 : count];
};
template <class... Arguments>
using binding_words = words_of_arguments<false, Arguments...>;

/// A non-owning view of the words of a call.
struct binding_view {
  std::uint64_t const* words = nullptr;
  std::size_t count = 0;
};

WARPWRIGHT_ALWAYS_INLINE bool same_words(std::uint64_t const* a, std::uint64_t const* b,
                                         std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    if (a[i] != b[i]) return false;
  }
  return true;
}

}  // namespace detail

WARPWRIGHT_END
