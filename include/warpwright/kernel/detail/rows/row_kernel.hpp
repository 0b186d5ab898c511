// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The kernels of functions of rows.
#pragma once

#include <warpwright/core/launch.hpp>
#include <warpwright/kernel/detail/reduce/block_reduce.hpp>
#include <warpwright/kernel/detail/rows/row_pass.hpp>

WARPWRIGHT_BEGIN

namespace ew {
namespace detail {
inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

// The statistics of the row of each thread. The threads of a row combine partial_center(t), if
// there is a centre, and partial_total(t, center).
template <class Pass, class Block, class Center, class Total>
WARPWRIGHT_HOST_DEVICE auto reduce_rows_of_block(Block& block, Pass const& pass,
                                                 Center const& partial_center,
                                                 Total const& partial_total, unsigned threads) {
  using real = typename Pass::real;
  using kind = typename Pass::kind_type;
  auto statistics = block.template per_thread<row_statistics<real>>();
  auto value = block.template per_thread<real>();
  auto partial = block.template per_thread<typename Pass::partial>();
  if constexpr (kind::is_centered) {
    block.for_each_thread([&](unsigned t) { partial[t] = partial_center(t); });
    combine_groups(block, partial, block.shared(), 0, thread_groups{threads},
                   typename kind::combine_centers{});
  }
  block.for_each_thread([&](unsigned t) {
    real center = 0;
    if constexpr (kind::is_centered) center = pass.center(partial[t]);
    statistics[t].center = center;
    value[t] = partial_total(t, center);
  });
  combine_groups(block, value, block.shared(), 1, thread_groups{threads}, add{});
  block.for_each_thread(
      [&](unsigned t) { statistics[t] = pass.statistics(statistics[t].center, value[t]); });
  return statistics;
}

// Keeps each row in the registers of partition.threads threads. Threads past the last row take part
// in the reductions with no elements. No loop over rows: it took the registers of a third of the
// threads.
template <class Pass>
struct register_rows_kernel : warpwright::detail::kernel_base<max_row_threads, Pass::min_blocks> {
  using shared = reduction_scratch<typename Pass::partial, max_row_threads>;

  Pass pass;
  row_partition partition;

  template <class Block>
  WARPWRIGHT_HOST_DEVICE void operator()(Block& block) const {
    auto kept = block.template per_thread<typename Pass::row_registers>();
    auto row = block.template per_thread<row_span>();
    auto const row_index = [&](unsigned t) {
      return std::uint64_t{block.index()} * partition.rows_per_block + partition.row_of_thread(t);
    };
    auto const part_of = [&](unsigned t) {
      return typename Pass::part{partition, row[t], partition.thread_in_row(t)};
    };
    block.for_each_thread([&](unsigned t) {
      if (row_index(t) < partition.rows) {
        row[t] = partition.template span<Pass::vector>(row_index(t));
      }
      pass.load_row(kept[t], part_of(t));
    });
    block.trigger_dependents();
    auto const statistics = reduce_rows_of_block(
        block, pass, [&](auto t) { return pass.partial_center(kept[t], part_of(t)); },
        [&](unsigned t, auto center) { return pass.partial_total(kept[t], part_of(t), center); },
        partition.threads);
    block.for_each_thread([&](unsigned t) {
      pass.store_row(kept[t], statistics[t], part_of(t));
      if (part_of(t).t == 0 && row_index(t) < partition.rows) {
        pass.store_statistics(statistics[t], row_index(t));
      }
    });
  }
};

// A block for each row that is too long for registers.
template <class Pass>
struct streamed_rows_kernel
    : warpwright::detail::kernel_base<Pass::streamed_threads, Pass::min_blocks> {
  using cache = typename Pass::cache;
  using shared = reduction_scratch<typename Pass::partial, Pass::streamed_threads>;
  static constexpr std::size_t host_dynamic_bytes = host_row_cache_bytes;

  Pass pass;
  row_partition partition;

  template <class Block>
  WARPWRIGHT_HOST_DEVICE void operator()(Block& block) const {
    row_span const row = partition.template span<Pass::vector>(block.index());
    auto const part_of = [&](unsigned t) { return typename Pass::part{partition, row, t}; };
    auto const cache_of = [&](unsigned t) {
      return cache{reinterpret_cast<typename cache::word*>(block.dynamic_shared()),
                   partition.threads, t};
    };
    auto all = block.template per_thread<typename Pass::accumulator>();
    auto edge = block.template per_thread<typename Pass::edge_value>();
    block.for_each_thread(
        [&](unsigned t) { all[t] = pass.accumulate_row(part_of(t), cache_of(t), edge[t]); });
    block.trigger_dependents();
    auto const statistics = reduce_rows_of_block(
        block, pass, [&](auto t) { return all[t].partial_center(); },
        [&](unsigned t, auto center) { return all[t].total(center); }, partition.threads);
    block.for_each_thread([&](unsigned t) {
      pass.store_streamed_row(statistics[t], part_of(t), cache_of(t), edge[t]);
      if (t == 0) pass.store_statistics(statistics[t], block.index());
    });
  }
};

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace detail
}  // namespace ew

WARPWRIGHT_END
