// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/tensor_list.hpp>

#include <warpwright/core/detail/text/text.hpp>

#include <cstdlib>
#include <cstring>
#include <new>

WARPWRIGHT_BEGIN

WARPWRIGHT_INLINE char const* to_text(element_type type) noexcept {
  constexpr char const* names[] = {"float32", "float16", "bfloat16", "float64", "int32",
                                   "int64",   "uint8",   "int8",     "uint32"};
  auto const i = static_cast<unsigned>(type);
  return i < sizeof names / sizeof *names ? names[i] : "unknown";
}

namespace detail {

// FNV-1a.
WARPWRIGHT_INLINE std::uint64_t hash_of_name(char const* name) noexcept {
  std::uint64_t h = 0xcbf29ce484222325U;
  for (; *name != '\0'; ++name) h = (h ^ static_cast<unsigned char>(*name)) * 0x100000001b3U;
  return h;
}

}  // namespace detail

WARPWRIGHT_INLINE void tensor_list::clear() noexcept {
  for (tensor const& t : tensors_) std::free(const_cast<char*>(t.name));
  tensors_.clear();
  hashes_.clear();
}

WARPWRIGHT_INLINE tensor_list& tensor_list::add(std::string const& name, void* data,
                                                element_type type, shape_key const& shape,
                                                source_location where) {
  auto const refuse = [&](detail::text const& problem) {
    detail::throw_invalid_argument(
        detail::text{"tensor_list: tensor '"} + name.c_str() + "' " + problem, where);
  };
  if (name.empty() || name.size() > 255 || name.find('\0') != std::string::npos) {
    refuse("has no name, or one of more than 255 characters or with a zero in it");
  }
  std::size_t size = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    std::uint64_t const extent = shape[i];
    if (extent != 0 && size > (std::size_t{1} << 48U) / extent) {
      refuse("has more than 2^48 elements");
    }
    size *= extent;
  }
  if (size != 0 && data == nullptr) refuse("has a null pointer");
  if (reinterpret_cast<std::uintptr_t>(data) % size_of(type) != 0) {
    refuse(detail::text{"is not aligned to its elements of "} + size_of(type) + " bytes");
  }
  if (find(name.c_str()) != nullptr) refuse("is in the list already; give each its own name");
  tensors_.reserve(tensors_.size() + 1);
  hashes_.reserve(hashes_.size() + 1);
  char* const copy = ::strdup(name.c_str());
  if (copy == nullptr) throw std::bad_alloc{};
  tensors_.push_back(tensor{copy, data, type, shape, size});
  hashes_.push_back(detail::hash_of_name(copy));
  return *this;
}

WARPWRIGHT_INLINE tensor_list& tensor_list::add(tensor_list const& other, source_location where) {
  for (tensor const& t : other) add(t.name, t.data, t.type, t.shape, where);
  return *this;
}

WARPWRIGHT_INLINE tensor const* tensor_list::find(char const* name) const noexcept {
  std::uint64_t const hash = detail::hash_of_name(name);
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (hashes_[i] == hash && std::strcmp(tensors_[i].name, name) == 0) return &tensors_[i];
  }
  return nullptr;
}

WARPWRIGHT_INLINE std::size_t tensor_list::elements() const noexcept {
  std::size_t n = 0;
  for (tensor const& t : tensors_) n += t.size;
  return n;
}

WARPWRIGHT_INLINE std::size_t tensor_list::bytes() const noexcept {
  std::size_t n = 0;
  for (tensor const& t : tensors_) n += t.bytes();
  return n;
}

WARPWRIGHT_END
