// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The kernel of global_norm(), norm_each() and max_norm_each(): a reduction of segments of chunks.
// A segment is all tensors of a table, or one of them.
#pragma once

#include <warpwright/core/launch.hpp>
#include <warpwright/kernel/detail/expression/functors.hpp>
#include <warpwright/kernel/detail/reduce/block_reduce.hpp>
#include <warpwright/kernel/detail/reduce/workspace.hpp>
#include <warpwright/kernel/detail/tensors/tensor_arrays.hpp>

WARPWRIGHT_BEGIN

namespace ew::detail {

// A norm: lift(x) makes a state of an element, a call one of two, finish(state) the norm.
struct two_norm {
  template <class V>
  WARPWRIGHT_HOST_DEVICE static V lift(V x) {
    return x * x;
  }
  template <class V>
  WARPWRIGHT_HOST_DEVICE V operator()(V a, V b) const {
    return a + b;
  }
  WARPWRIGHT_HOST_DEVICE static double finish(double squares) { return sqrt_function{}(squares); }
};
struct max_norm {
  template <class V>
  WARPWRIGHT_HOST_DEVICE static V lift(V x) {
    return abs_function{}(x);
  }
  template <class V>
  WARPWRIGHT_HOST_DEVICE V operator()(V a, V b) const {
    return a > b || a != a ? a : b;  // NaN stays
  }
  WARPWRIGHT_HOST_DEVICE static double finish(double largest) { return largest; }
};

enum class norm_scope { all_tensors, each_tensor };

// The workspace holds tickets, then states. Blocks that share a segment share the ticket of the
// first of them. A block stores one state, or two where each tensor is a segment: it may share its
// first tensor with the blocks before it and its last with those after it. Where all tensors are
// one segment, one more state is carried from launch to launch of a long list.
template <norm_scope Scope>
struct norm_layout {
  static constexpr bool each = Scope == norm_scope::each_tensor;
  // As many as tickets, or four on each of the 132 SMs of an H100. The same on every device, so
  // that the order of a sum depends on the list alone.
  static constexpr unsigned max_blocks =
      each ? static_cast<unsigned>(workspace_head_bytes / sizeof(unsigned)) : 4 * 132;
  static constexpr unsigned states = each ? 2 * max_blocks : max_blocks + 1;
  static constexpr std::size_t bytes = workspace_head_bytes + states * sizeof(double);
  static constexpr char const* size_name =
      each ? "norm_each_workspace_bytes" : "global_norm_workspace_bytes";

  static constexpr unsigned blocks(unsigned chunks) {
    return chunks == 0 ? 1 : chunks < max_blocks ? chunks : max_blocks;
  }
  // The state of a block for a segment that begins in block `first`.
  WARPWRIGHT_HOST_DEVICE static constexpr unsigned state_of(unsigned block, unsigned first) {
    return each ? 2 * block + (block == first ? 1U : 0U) : block;
  }
};

// A block takes consecutive chunks: as many as every other block, or one more.
WARPWRIGHT_HOST_DEVICE constexpr unsigned first_chunk_of(unsigned block, unsigned chunks,
                                                         unsigned blocks) {
  return static_cast<unsigned>(std::uint64_t{chunks} * block / blocks);
}
/// The block that takes a chunk.
WARPWRIGHT_HOST_DEVICE constexpr unsigned block_of(unsigned chunk, unsigned chunks,
                                                   unsigned blocks) {
  return static_cast<unsigned>(((std::uint64_t{chunk} + 1) * blocks - 1) / chunks);
}

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

template <class Norm, norm_scope Scope, class T, class R>
struct norm_kernel : warpwright::detail::kernel_base<table_threads> {
  static_assert(std::is_floating_point<typename element_traits<T>::value>::value,
                "warpwright::ew: a norm is of tensors with elements of floating point");
  static_assert(std::is_floating_point<R>::value && sizeof(R) <= sizeof(double),
                "warpwright::ew: a norm is stored as float or double");
  static constexpr std::size_t max_bytes = table_kernel_bytes;
  static constexpr bool subscripts_arguments = true;
  using shared = reduction_scratch<double, table_threads>;
  using layout = norm_layout<Scope>;
  using arrays = tensor_arrays<T const>;
  using value = typename element_traits<T>::value;
  static constexpr unsigned loads = 4;  // 64 bytes in flight a thread
  static constexpr unsigned tile = table_threads * loads;

  unsigned char* workspace;
  R* results;
  bool first_launch;  // of the launches for one list
  bool last_launch;
  typename arrays::table table;

  norm_kernel(void* memory, R* norms)
      : workspace{static_cast<unsigned char*>(memory)}, results{norms} {}

  template <class Block>
  WARPWRIGHT_HOST_DEVICE void operator()(Block& block) const {
    unsigned const end = first_chunk_of(block.index() + 1, table.chunks, block.count());
    unsigned begin = first_chunk_of(block.index(), table.chunks, block.count());
    unsigned tensor = table.tensor_of(begin);
    do {
      unsigned const next = layout::each ? next_chunk(tensor) : end;
      unsigned const segment_end = next < end ? next : end;
      auto state = block.template per_thread<double>();
      block.for_each_thread(
          [&](unsigned t) { state[t] = of_chunks(tensor, begin, segment_end, t); });
      combine(block, state, 0);
      unsigned first = 0;  // of the blocks that take chunks of the segment
      unsigned last = block.count() - 1;
      if constexpr (layout::each) {
        // Computed before the chunks are read, it takes 8 more registers (sm_90).
        unsigned const chunk = table.first_chunk[tensor];
        unsigned const behind = next_chunk(tensor);
        first = chunk < begin ? block_of(chunk, table.chunks, block.count()) : block.index();
        last = behind > segment_end ? block_of(behind - 1, table.chunks, block.count())
                                    : block.index();
      }
      if (first == last || is_last_of(block, first, last, state)) {
        block.for_each_thread([&](unsigned t) {
          if (t == 0) store(tensor, state[t]);
        });
      }
      begin = segment_end;
      ++tensor;
      block.synchronize();  // the next combine() writes what the first has read
    } while (begin != end);
  }

 private:
  WARPWRIGHT_HOST_DEVICE double* states() const {
    return reinterpret_cast<double*>(workspace + workspace_head_bytes);
  }
  template <class Block, class Values>
  WARPWRIGHT_HOST_DEVICE static void combine(Block& block, Values& state, unsigned round) {
    combine_groups(block, state, block.shared(), round, thread_groups{table_threads}, Norm{});
  }
  // The first chunk behind a tensor's.
  WARPWRIGHT_HOST_DEVICE unsigned next_chunk(unsigned tensor) const {
    return tensor + 1 < table.count ? table.first_chunk[tensor + 1] : table.chunks;
  }
  // Stores the block's state in the workspace. The last block then combines those of all.
  template <class Block, class Values>
  WARPWRIGHT_HOST_DEVICE bool is_last_of(Block& block, unsigned first, unsigned last,
                                         Values& state) const {
    unsigned* const ticket = reinterpret_cast<unsigned*>(workspace) + first;
    bool const last_block = is_last_block(block, ticket, last - first + 1, [&](unsigned t) {
      if (t == 0) states()[layout::state_of(block.index(), first)] = state[t];
      return t == 0;
    });
    if (last_block) {
      block.for_each_thread([&](unsigned t) {
        double all = 0;
        for (unsigned b = first + t; b <= last; b += table_threads) {
          all = Norm{}(all, states()[layout::state_of(b, first)]);
        }
        state[t] = all;
      });
      combine(block, state, 1);
    }
    return last_block;
  }

  template <int V>
  WARPWRIGHT_HOST_DEVICE static value of_vector(typename arrays::template registers<V> const& r) {
    value state{};
    WARPWRIGHT_UNROLL
    for (int j = 0; j < V; ++j) {
      state = Norm{}(state, Norm::lift(decoded<T, V>(at<0>(r), j)));
    }
    return state;
  }
  // Thread t's part of a chunk: up to 64 elements in their own type, and at most one more.
  WARPWRIGHT_HOST_DEVICE double of_chunk(unsigned tensor, unsigned index, unsigned t) const {
    constexpr int vector = arrays::vector;
    chunk_location<arrays> const chunk{table, tensor, index};
    c_array<typename arrays::template registers<vector>, loads> r WARPWRIGHT_ZERO_ON_HOST;
    chunk.load(r, t);
    value state{};
    WARPWRIGHT_UNROLL
    for (unsigned u = 0; u < loads; ++u) {
      if (t + u * table_threads >= chunk.count) continue;
      state = Norm{}(state, of_vector<vector>(r[u]));
    }
    if (t < chunk.edge) {
      typename arrays::template registers<1> one;
      arrays::template load<1>(one, chunk.start, chunk.edge_element(t), 0);
      state = Norm{}(state, of_vector<1>(one));
    }
    return static_cast<double>(state);
  }
  WARPWRIGHT_HOST_DEVICE double of_chunks(unsigned tensor, unsigned begin, unsigned end,
                                          unsigned t) const {
    double state = 0;
    for (unsigned index = begin; index < end; ++index) {
      if constexpr (!layout::each) {
        if (tensor + 1 < table.count && table.first_chunk[tensor + 1] == index) ++tensor;
      }
      state = Norm{}(state, of_chunk(tensor, index, t));
    }
    return state;
  }
  WARPWRIGHT_HOST_DEVICE void store(unsigned tensor, double state) const {
    if constexpr (layout::each) {
      results[tensor] = static_cast<R>(Norm::finish(state));
    } else {
      double& carried = states()[layout::max_blocks];
      double const total = Norm{}(first_launch ? 0.0 : carried, state);
      if (last_launch) {
        *results = static_cast<R>(Norm::finish(total));
      } else {
        carried = total;
      }
    }
  }
};

// Runs the kernels of a list. An empty tensor has a norm of its own, so it takes an entry in the
// table for norm_scope::each_tensor.
template <class Norm, norm_scope Scope, class T, class Where, class Tensors, class R>
void run_norm(Where const& run, Tensors const& all, void* workspace, R* norms, char const* name) {
  using kernel_type = norm_kernel<Norm, Scope, T, R>;
  using layout = norm_layout<Scope>;
  std::size_t next = 0;
  do {
    kernel_type kernel{workspace, norms + (layout::each ? next : 0)};
    kernel.first_launch = next == 0;
    next = fill_table(kernel.table, all.begin(), next, all.size(), kernel_type::arrays::vector,
                      kernel_type::tile, layout::each);
    kernel.last_launch = next == all.size();
    clear_unused_if_capturing(kernel.table);
    run(layout::blocks(kernel.table.chunks), table_threads, kernel, name);
  } while (next != all.size());
}

template <class Norm, norm_scope Scope, class Memory, class S, class R, class Access = list_access>
void run_norm_on_stream(stream_ref stream, Memory& memory, tensor_list<S> const& list, R* norms,
                        char const* name, source_location where) {
  using layout = norm_layout<Scope>;
  using T = std::remove_const_t<S>;
  auto const& all = Access::tensors(list);
  with_workspace(stream, memory, layout::bytes, where, [&](reduction_workspace const& workspace) {
    check_workspace(workspace.size_bytes(), layout::bytes, where, layout::size_name);
    std::size_t const count = layout::each ? all.size() : 1;
    if (count == 0) return;
    memory_range const to{reinterpret_cast<std::uintptr_t>(norms), count * sizeof(R), alignof(R)};
    check_result_ranges(&to, 1, workspace.data(), workspace.size_bytes(), where);
    for (std::size_t k = 0; layout::each && k < count; ++k) {
      auto const data = reinterpret_cast<std::uintptr_t>(all[k].data[0]);
      byte_range const read{data, data + all[k].size * sizeof(bits_of<T>)};
      if (all[k].size == 0 || !overlap(to.range(), read)) continue;
      refuse(text{"tensor "} + (k + 1),
             "overlaps the norms, which are written while it is read; give them other memory",
             where);
    }
    run_norm<Norm, Scope, T>(warpwright::detail::on_stream{stream, where}, all, workspace.data(),
                             norms, name);
  });
}

template <class Norm, norm_scope Scope, class S, class R, class Access = list_access>
void run_norm_on_host(tensor_list<S> const& list, R* norms) {
  auto const& all = Access::tensors(list);
  if (norm_layout<Scope>::each && all.size() == 0) return;
  alignas(16) unsigned char workspace[norm_layout<Scope>::bytes] = {};
  run_norm<Norm, Scope, std::remove_const_t<S>>(warpwright::detail::on_calling_thread{}, all,
                                                workspace, norms, "");
}

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE
}  // namespace ew::detail

WARPWRIGHT_END
