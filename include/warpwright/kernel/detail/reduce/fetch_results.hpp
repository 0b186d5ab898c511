// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Results of rows or columns, copied to the host.
#pragma once

#include <warpwright/core/detail/device/scoped_stream_device.hpp>
#include <warpwright/kernel/detail/reduce/reduction_pass.hpp>

#include <tuple>
#include <type_traits>
#include <vector>

WARPWRIGHT_BEGIN

namespace ew {
namespace detail {
inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

/// Lets reduce(goals...) write `count` results of each reduction to a block of a pool, and waits
/// for them.
/// @return a vector, or of several reductions a tuple of vectors
template <class Pool, class Reduce, std::size_t... Index, class... R>
auto fetch_results(stream_ref stream, Pool& pool, elements const& n, std::uint64_t count,
                   Reduce const& reduce, std::index_sequence<Index...>, R const&... reductions) {
  static_assert(((alignof(typename default_result<R>::type) <= 16) && ...),
                "warpwright::ew: a result's alignment is limited to 16 bytes");
  // Operands that do not fit are refused before any memory is allocated.
  using pass = reduction_pass<false, typename default_result<R>::assignment...>;
  operand operands[pass::operands];
  pass::describe(gather_expressions(typename default_result<R>::assignment{
                     nullptr, reductions.kind, reductions.expression}...),
                 n.count, operands, n.where);

  std::size_t const bytes[] = {count * sizeof(typename default_result<R>::type)...};
  std::size_t begin[sizeof...(R)] = {};
  std::size_t total = 0;
  for (std::size_t k = 0; k < sizeof...(R); ++k) {
    begin[k] = total;
    total += round_up_to_16(bytes[k]);
  }
  workspace_block<Pool> const block{pool, stream, total != 0 ? total : 16, n.where};
  auto* const there = static_cast<unsigned char*>(block.data());
  std::tuple<std::vector<typename default_result<R>::type>...> here{
      std::vector<typename default_result<R>::type>(count)...};
  reduce(typename default_result<R>::assignment{
      reinterpret_cast<bits_of<typename default_result<R>::type>*>(there + begin[Index]),
      reductions.kind, reductions.expression}...);
  if (count != 0) {
    cudaError_t status = cudaSuccess;
    ((status = status != cudaSuccess ? status
                                     : warpwright::detail::copy_async(
                                           std::get<Index>(here).data(), there + begin[Index],
                                           bytes[Index], cudaMemcpyDeviceToHost, stream.get())),
     ...);
    // Also after a copy that failed: those before it may still be writing.
    cudaError_t const end = cudaStreamSynchronize(stream.get());
    check(status, "cudaMemcpyAsync", n.where);
    check(end, "cudaStreamSynchronize", n.where);
  }
  if constexpr (sizeof...(R) == 1) {
    return std::get<0>(static_cast<decltype(here)&&>(here));
  } else {
    return here;
  }
}

// std::vector<bool> holds no array of bool.
template <class... R>
using if_fetchable =
    std::enable_if_t<(sizeof...(R) > 0) &&
                     (!std::is_same<typename default_result<R>::type, bool>::value && ...)>;

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
