// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Results of rows or columns on their way to the host.
#pragma once

#include <warpwright/kernel/reduce.hpp>

#include <type_traits>
#include <vector>

WARPWRIGHT_BEGIN

namespace ew {
namespace detail {
inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

/// Lets reduce(goals...) write `count` results of each reduction to a block of a pool, and waits
/// for them.
/// @return a vector, or of several reductions a `reduced` of vectors
template <class Pool, class Reduce, std::size_t... Index, class... R>
auto fetch_results(stream_ref stream, Pool& pool, std::uint64_t count, source_location where,
                   Reduce const& reduce, std::index_sequence<Index...>, R const&... reductions) {
  static_assert((!std::is_same<typename natural<R>::type, bool>::value && ...),
                "warpwright::ew: a reduction to bool has no array of results to fetch; write them "
                "to the device with to()");
  static_assert(((alignof(typename natural<R>::type) <= 16) && ...),
                "warpwright::ew: a result may want an alignment of 16 bytes at most");
  reduced<std::vector<typename natural<R>::type>...> here;
  ((at<Index>(here.all) = std::vector<typename natural<R>::type>(count)), ...);
  std::size_t const bytes[] = {count * sizeof(typename natural<R>::type)...};
  std::size_t begin[sizeof...(R)] = {};
  std::size_t total = 0;
  for (std::size_t k = 0; k < sizeof...(R); ++k) {
    begin[k] = total;
    total += whole_sixteens(bytes[k]);
  }
  pool_block<Pool> const block{pool, stream, total != 0 ? total : 16, where};
  auto* const there = static_cast<unsigned char*>(block.data());
  reduce(typename natural<R>::goal{
      reinterpret_cast<bits_of<typename natural<R>::type>*>(there + begin[Index]), reductions.kind,
      reductions.expression}...);
  if (count == 0) return as_asked(static_cast<decltype(here)&&>(here));
  (check(cudaMemcpyAsync(at<Index>(here.all).data(), there + begin[Index], bytes[Index],
                         cudaMemcpyDeviceToHost, stream.get()),
         "cudaMemcpyAsync", where),
   ...);
  stream.synchronize(where);
  return as_asked(static_cast<decltype(here)&&>(here));
}

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
