// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Tensors in device memory by their names: the parameters and gradients of a network, and what a
// checkpoint holds.
//
//   ww::tensor_list parameters;
//   parameters.add("layer0.weight", weight.data(), {out, in}).add("layer0.bias", bias.data(), out);
#pragma once

#include <warpwright/core/detail/container/array.hpp>
#include <warpwright/core/error.hpp>
#include <warpwright/core/shape_key.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

struct __half;
struct __nv_bfloat16;

WARPWRIGHT_BEGIN

/// The type of a tensor's elements.
enum class element_type : unsigned char {
  float32,
  float16,
  bfloat16,
  float64,
  int32,
  int64,
  uint8,
  int8,
  uint32
};

/// @return the size of an element in bytes
constexpr std::size_t size_of(element_type type) noexcept {
  constexpr unsigned char sizes[] = {4, 2, 2, 8, 4, 8, 1, 1, 4};
  return sizes[static_cast<unsigned>(type)];
}
/// @return the name of the enumerator
char const* to_text(element_type type) noexcept;

namespace detail {

template <class T>
struct element_type_of;
template <element_type E>
struct element_type_is {
  static constexpr element_type value = E;
};
template <>
struct element_type_of<float> : element_type_is<element_type::float32> {};
template <>
struct element_type_of<__half> : element_type_is<element_type::float16> {};
template <>
struct element_type_of<__nv_bfloat16> : element_type_is<element_type::bfloat16> {};
template <>
struct element_type_of<double> : element_type_is<element_type::float64> {};
template <>
struct element_type_of<std::int32_t> : element_type_is<element_type::int32> {};
template <>
struct element_type_of<std::int64_t> : element_type_is<element_type::int64> {};
template <>
struct element_type_of<std::uint8_t> : element_type_is<element_type::uint8> {};
template <>
struct element_type_of<std::int8_t> : element_type_is<element_type::int8> {};
template <>
struct element_type_of<std::uint32_t> : element_type_is<element_type::uint32> {};

}  // namespace detail

/// An array in device memory, which somebody else owns. Rows are one behind another.
struct tensor {
  char const* name;  ///< as long as its list
  void* data;
  element_type type;
  shape_key shape;   ///< no extents: a single element
  std::size_t size;  ///< elements

  [[nodiscard]] std::size_t bytes() const noexcept { return size * size_of(type); }
};

/// Tensors in an order, each with a name of its own. It holds addresses, no elements.
/// **Threads:** as a std::vector.
class tensor_list {
 public:
  tensor_list() noexcept = default;
  tensor_list(tensor_list const& other) : tensor_list{} { add(other); }
  tensor_list(tensor_list&& other) noexcept = default;
  tensor_list& operator=(tensor_list const&) = delete;
  ~tensor_list() { clear(); }

  /// Adds a tensor behind the others.
  /// @param name   1 to 255 characters, of no tensor of the list
  /// @param data   not null unless an extent is 0; aligned to its elements
  /// @param shape  up to 8 extents, as {rows, columns}
  /// @tparam T     float, double, __half, __nv_bfloat16 or an integer of std::int8_t to int64_t,
  ///   uint8_t, uint32_t
  /// @throws std::invalid_argument  for another name, pointer, or too many elements
  /// @throws std::bad_alloc         and the list has not changed
  template <class T>
  tensor_list& add(std::string const& name, T* data, shape_key const& shape,
                   source_location where = source_location::current()) {
    return add(name, data, detail::element_type_of<T>::value, shape, where);
  }
  /// Adds a tensor of a type that is known at run time.
  tensor_list& add(std::string const& name, void* data, element_type type, shape_key const& shape,
                   source_location where = source_location::current());
  /// Adds all tensors of another list. @throws as above; those before the one at fault stay added
  tensor_list& add(tensor_list const& other, source_location where = source_location::current());

  void clear() noexcept;

  [[nodiscard]] std::size_t size() const noexcept { return tensors_.size(); }
  [[nodiscard]] tensor const& operator[](std::size_t i) const noexcept { return tensors_[i]; }
  [[nodiscard]] tensor const* begin() const noexcept { return tensors_.begin(); }
  [[nodiscard]] tensor const* end() const noexcept { return tensors_.end(); }
  /// @return the tensor of a name; null: none has it
  [[nodiscard]] tensor const* find(char const* name) const noexcept;
  /// @return elements of all tensors
  [[nodiscard]] std::size_t elements() const noexcept;
  /// @return bytes of all tensors
  [[nodiscard]] std::size_t bytes() const noexcept;

 private:
  detail::array<tensor> tensors_;
  detail::array<std::uint64_t> hashes_;  // of their names
};

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/core/detail/tensors/tensor_list_definitions.hpp>
#endif
