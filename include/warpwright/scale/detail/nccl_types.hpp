// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/config.hpp>

#include <cstddef>
#include <cstdint>

// Of NCCL, or of warpwright::host_nccl: link warpwright::nccl or that one.
#include <nccl.h>

static_assert(NCCL_VERSION_CODE >= NCCL_VERSION(2, 18, 0),
              "warpwright: scale/ needs NCCL 2.18 or newer");

struct __half;
struct __nv_bfloat16;

WARPWRIGHT_BEGIN

namespace detail {

template <class T>
struct nccl_type_of;  // of an element that NCCL cannot reduce there is none

template <ncclDataType_t Type>
struct nccl_type_is {
  static constexpr ncclDataType_t value = Type;
};
template <>
struct nccl_type_of<float> : nccl_type_is<ncclFloat32> {};
template <>
struct nccl_type_of<double> : nccl_type_is<ncclFloat64> {};
template <>
struct nccl_type_of<__half> : nccl_type_is<ncclFloat16> {};
template <>
struct nccl_type_of<__nv_bfloat16> : nccl_type_is<ncclBfloat16> {};
template <>
struct nccl_type_of<signed char> : nccl_type_is<ncclInt8> {};
template <>
struct nccl_type_of<char> : nccl_type_is<ncclInt8> {};
template <>
struct nccl_type_of<unsigned char> : nccl_type_is<ncclUint8> {};
template <>
struct nccl_type_of<int> : nccl_type_is<ncclInt32> {};
template <>
struct nccl_type_of<unsigned> : nccl_type_is<ncclUint32> {};
template <>
struct nccl_type_of<long> : nccl_type_is<ncclInt64> {};
template <>
struct nccl_type_of<unsigned long> : nccl_type_is<ncclUint64> {};
template <>
struct nccl_type_of<long long> : nccl_type_is<ncclInt64> {};
template <>
struct nccl_type_of<unsigned long long> : nccl_type_is<ncclUint64> {};

/// @return bytes of an element
constexpr std::size_t size_of_nccl(ncclDataType_t type) noexcept {
  if (type == ncclInt8 || type == ncclUint8) return 1;
  if (type == ncclFloat16 || type == ncclBfloat16) return 2;
  return type == ncclInt32 || type == ncclUint32 || type == ncclFloat32 ? 4 : 8;
}

}  // namespace detail

WARPWRIGHT_END
