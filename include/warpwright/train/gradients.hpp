// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Gradients of a large batch from those of small ones:
//
//   ww::gradient_accumulator sum{pool, stream, gradients};
//   for (auto const& micro : window) {          // also the last one, with fewer
//     backward(stream, micro);                  // gradients of the mean loss over micro.items
//     sum.add(stream, gradients, micro.items);
//   }
//   optimizer.step(stream, sum.gradients(), scaler);
//   sum.clear(stream);
#pragma once

#include <warpwright/train/detail/average_kernels.hpp>

#include <cstddef>
#include <string>
#include <utility>

WARPWRIGHT_BEGIN

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

/// The mean of gradients over the items of micro-batches of any sizes, in float: at any time that
/// of the items so far, so that a window may end early. What is not finite stays so, and a
/// loss_scaler finds it.
///
/// @pre the pool outlives it
/// **Threads:** one at a time. **Stream:** use it on one stream, or order the streams.
template <class Kernel>
class mean_of_gradients {
 public:
  /// @param gradients  float32, float16 or bfloat16; their names and shapes count
  /// @throws std::invalid_argument      for a tensor of another type
  /// @throws out_of_memory, cuda_error  when there is no memory, or a copy fails
  /// **Stream:** blocks until `stream` has come here. **Capture:** not legal.
  template <class Pool>
  mean_of_gradients(Pool& pool, stream_ref stream, tensor_list const& gradients,
                    source_location where = source_location::current()) {
    detail::optimizer_values values;
    values.stochastic_rounding = true;  // no masters
    core_.add_group(gradients, values, where);
    core_.allocate(device_buffer<unsigned char>{pool, stream, core_.plan(1, where), where}, stream,
                   where);
    core_.add_first(means_);
  }

  /// Adds the gradients of a micro-batch.
  /// @param gradients  of its mean loss, in the order and of the shapes of the constructor's
  /// @param items      that the mean is over, as tokens that are no padding; above 0
  /// @throws std::invalid_argument  for other gradients or items; cuda_error when a launch fails
  /// **Stream:** ordered on `stream`. **Capture:** legal; a replay adds the same items.
  /// **Cost:** one kernel; in a capture and behind it, and where gradients have moved, one more.
  void add(stream_ref stream, tensor_list const& gradients, double items,
           source_location where = source_location::current()) {
    if (!(items > 0.0 && items <= 1e300)) {
      detail::throw_invalid_argument(
          detail::text{"gradient_accumulator: "} + items + " items; give a number above 0", where);
    }
    run(stream, gradients, items, nullptr, where);
  }
  /// As above, with items that the device counts.
  /// @param items  one number in device memory, not negative; 0: the gradients do not count
  void add(stream_ref stream, tensor_list const& gradients, double const* items,
           source_location where = source_location::current()) {
    run(stream, gradients, 0.0, items, where);
  }
  /// Begins a window. **Stream:** ordered on `stream`. **Capture:** legal. **Cost:** a memset
  void clear(stream_ref stream, source_location where = source_location::current()) {
    check(cudaMemsetAsync(core_.view().state, 0, sizeof(detail::optimizer_state), stream.get()),
          "cudaMemsetAsync", where);
  }

  /// @return the means, float32; before the first add() what was there before
  [[nodiscard]] tensor_list const& gradients() const noexcept { return means_; }
  /// @return items of the window so far, in device memory
  [[nodiscard]] double const* items() const noexcept { return &core_.view().state->items; }
  /// Adds the state to what a checkpoint saves and restores, where it may save within a window.
  void add_to(tensor_list& list, std::string const& prefix = "gradients") const {
    core_.add_to(list, prefix);
  }

 private:
  void run(stream_ref stream, tensor_list const& gradients, double weight, double const* items,
           source_location where) {
    char const* const name = "warpwright::gradient_accumulator";
    detail::bind_gradients(core_, stream, gradients, name, where);
    detail::optimizer_view const view = core_.view();
    if (view.chunks == 0) return;
    detail::launch_blocks(stream, view.chunks, detail::train_threads,
                          Kernel{{}, view, core_.ticket(), true, true, weight, items}, name, where);
  }

  detail::optimizer_core core_;
  tensor_list means_;
};

using gradient_accumulator = mean_of_gradients<detail::mean_kernel>;

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE

WARPWRIGHT_END
