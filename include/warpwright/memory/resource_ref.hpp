// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/stream.hpp>

#include <cstddef>
#include <type_traits>
#include <utility>

WARPWRIGHT_BEGIN

namespace detail {

/// The functions of a resource whose type is not known.
struct resource_functions {
  void* (*allocate)(void* object, stream_ref stream, std::size_t bytes, std::size_t alignment,
                    source_location where);
  void* (*try_allocate)(void* object, stream_ref stream, std::size_t bytes, std::size_t alignment,
                        source_location where);
  void (*deallocate)(void* object, stream_ref stream, void* pointer, std::size_t bytes,
                     source_location where);
  device_id (*device)(void const* object);
};

template <class Resource>
struct resource_functions_of {
  static void* allocate(void* object, stream_ref stream, std::size_t bytes, std::size_t alignment,
                        source_location where) {
    return static_cast<Resource*>(object)->allocate(stream, bytes, alignment, where);
  }
  static void* try_allocate(void* object, stream_ref stream, std::size_t bytes,
                            std::size_t alignment, source_location where) {
    return static_cast<Resource*>(object)->try_allocate(stream, bytes, alignment, where);
  }
  static void deallocate(void* object, stream_ref stream, void* pointer, std::size_t bytes,
                         source_location where) {
    static_cast<Resource*>(object)->deallocate(stream, pointer, bytes, where);
  }
  static device_id device(void const* object) {
    return static_cast<Resource const*>(object)->device();
  }
  static constexpr resource_functions table{&allocate, &try_allocate, &deallocate, &device};
};

template <class Resource, class = void>
struct has_pool_interface : std::false_type {};
template <class Resource>
struct has_pool_interface<
    Resource, std::void_t<decltype(std::declval<Resource&>().allocate(
                              std::declval<stream_ref>(), std::size_t{}, std::size_t{},
                              std::declval<source_location>())),
                          decltype(std::declval<Resource&>().try_allocate(
                              std::declval<stream_ref>(), std::size_t{}, std::size_t{},
                              std::declval<source_location>())),
                          decltype(std::declval<Resource&>().deallocate(
                              std::declval<stream_ref>(), std::declval<void*>(), std::size_t{},
                              std::declval<source_location>())),
                          decltype(device_id{std::declval<Resource const&>().device()})>>
    : std::true_type {};

template <class Pool>
class pool_pointer;

}  // namespace detail

/// A non-owning reference to a pool, a resource or an adaptor of any type: for interfaces that are
/// not templates. It has memory_pool's interface itself, so a buffer or an adaptor can use it.
///
///   void load(ww::resource_ref memory, ww::stream_ref stream);   // in a header
///   load(pool, stream); load(limited, stream);
///
/// @pre What it refers to outlives it, its copies, and their blocks.
/// **Threads, Capture:** as what it refers to. **Cost:** one indirect call more.
class resource_ref {
 public:
  static constexpr std::size_t block_alignment_bytes = 256;
  /// The maximum alignment of any resource; what it refers to may accept less.
  static constexpr std::size_t max_alignment_bytes = std::size_t{1} << 30U;

  /// @param resource  has allocate(), try_allocate(), deallocate() and device() as memory_pool has
  ///   them; no temporary, which would not outlive the reference
  template <class Resource, class = typename std::enable_if<!std::is_same<
                                resource_ref, std::remove_cv_t<Resource>>::value>::type>
  resource_ref(Resource& resource) noexcept {
    static_assert(!std::is_const<Resource>::value,
                  "warpwright::resource_ref: the resource is const, or a temporary: refer to a "
                  "resource that can allocate and outlives the reference");
    static_assert(detail::has_pool_interface<Resource>::value,
                  "warpwright::resource_ref: the class lacks memory_pool's interface: "
                  "allocate(stream, bytes, alignment, where), try_allocate() with the same "
                  "arguments, deallocate(stream, pointer, bytes, where), device()");
    if constexpr (detail::has_pool_interface<Resource>::value) {
      object_ = &resource;
      functions_ = &detail::resource_functions_of<Resource>::table;
    }
  }

  /// As memory_pool::allocate().
  [[nodiscard]] void* allocate(stream_ref stream, std::size_t bytes,
                               std::size_t alignment = block_alignment_bytes,
                               source_location where = source_location::current()) const {
    return functions_->allocate(object_, stream, bytes, alignment, where);
  }
  /// As memory_pool::try_allocate().
  [[nodiscard]] void* try_allocate(stream_ref stream, std::size_t bytes,
                                   std::size_t alignment = block_alignment_bytes,
                                   source_location where = source_location::current()) const {
    return functions_->try_allocate(object_, stream, bytes, alignment, where);
  }
  /// As memory_pool::deallocate().
  void deallocate(stream_ref stream, void* pointer, std::size_t bytes,
                  source_location where = source_location::current()) const {
    functions_->deallocate(object_, stream, pointer, bytes, where);
  }
  /// @return the device of the memory
  [[nodiscard]] device_id device() const { return functions_->device(object_); }

  /// Whether both refer to the same object, by the same type: memory of one can then be freed
  /// through the other. References made in two shared libraries that hide their symbols may differ
  /// nevertheless.
  friend bool operator==(resource_ref a, resource_ref b) noexcept {
    return a.object_ == b.object_ && a.functions_ == b.functions_;
  }
  friend bool operator!=(resource_ref a, resource_ref b) noexcept { return !(a == b); }

 private:
  friend class detail::pool_pointer<resource_ref>;
  resource_ref() noexcept = default;

  void* object_ = nullptr;
  detail::resource_functions const* functions_ = nullptr;
};

namespace detail {

/// How a buffer holds its pool: by address; a resource_ref, which is a reference already, by value.
template <class Pool>
class pool_pointer {
 public:
  using argument = Pool&;
  pool_pointer() noexcept = default;
  explicit pool_pointer(Pool& pool) noexcept : pool_{&pool} {}
  [[nodiscard]] Pool* get() const noexcept { return pool_; }

 private:
  Pool* pool_ = nullptr;
};

template <>
class pool_pointer<resource_ref> {
 public:
  using argument = resource_ref;
  pool_pointer() noexcept = default;
  explicit pool_pointer(resource_ref resource) noexcept : resource_{resource} {}
  [[nodiscard]] resource_ref const* get() const noexcept {
    return resource_.functions_ == nullptr ? nullptr : &resource_;
  }

 private:
  resource_ref resource_;
};

}  // namespace detail

WARPWRIGHT_END
