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
//
// or of parts that fit into memory, whatever else takes of it:
//
//   ww::micro_batches parts{plan};              // a batch_plan
//   parts.run(stream, sum, gradients, [&](std::size_t offset, std::size_t count) {
//     backward(stream, batch, offset, count);   // may run out of memory
//   });
#pragma once

#include <warpwright/core/detail/function_ref.hpp>
#include <warpwright/train/detail/average_kernels.hpp>
#include <warpwright/tune/batch_plan.hpp>

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

/// A rank's share of each global batch in micro-batches: those of a plan, halved when memory runs
/// out and raised again after 1,000 steps without that (as dynamic_batch_size says). No step is
/// lost, and the items of a step stay the same.
/// **Threads:** one at a time.
class micro_batches {
 public:
  /// @param plan  its micro_batch is the largest size
  /// @param rank  below plan.ranks
  /// @throws std::invalid_argument  for a plan without items, or another rank
  explicit micro_batches(batch_plan const& plan, std::size_t rank = 0,
                         source_location where = source_location::current())
      : mine_{rank < plan.ranks ? plan.rank_items(rank) : 0},
        most_{plan.ranks != 0 ? plan.rank_items(0) : 0},
        size_{dynamic_batch_size{plan.micro_batch}.grow_after(1000 * plan.steps)} {
    if (rank >= plan.ranks || plan.micro_batch == 0 || most_ == 0) {
      detail::throw_invalid_argument(detail::text{"micro_batches: rank "} + rank +
                                         " of a plan of " + plan.ranks + " ranks and " +
                                         plan.global_batch +
                                         " items; give a plan of batch_planner, and a rank of it",
                                     where);
    }
  }
  /// @param items  sizes are multiples of this, at least 1; default 1
  micro_batches& multiple_of(std::size_t items) {
    size_ = size_.multiple_of(items);
    return *this;
  }
  /// Makes all ranks take the same sizes, which collective operations in the gradients need.
  /// @param function  `bool function(bool mine)`: whether any rank ran out of memory; called behind
  ///   each micro-batch. Gradients are computed for 0 items where only other ranks have one left.
  ///   Where a rank throws anything else it does not call it: end the others, as by a time limit
  template <class F>
  micro_batches& agree(F function) {
    agree_ = detail::owned_function<bool(bool)>{std::move(function)};
    return *this;
  }

  /// Clears the sum, and adds the gradients of all items of this rank.
  /// @param sum        gradient_accumulator
  /// @param gradients  that `backward` writes
  /// @param backward   `void(std::size_t offset, std::size_t count)`: enqueues the gradients of the
  ///   mean loss over these items of the rank's. When it runs out of memory it is called again for
  ///   fewer
  /// @return how often memory ran out
  /// @throws out_of_memory  if there is not enough for the least size; whatever else `backward`
  ///   throws. The sum is then undefined
  /// **Stream:** as `backward` and gradient_accumulator. **Capture:** not legal, as then nothing
  /// runs out of memory: capture a step at a size, and anew when size() has changed.
  template <class Sum, class Backward>
  std::size_t run(stream_ref stream, Sum& sum, tensor_list const& gradients, Backward&& backward,
                  source_location where = source_location::current()) {
    sum.clear(stream, where);
    std::size_t failures = 0;
    bool again = false;  // whether what `part` throws means that, and is no error of add() or agree
    auto const part = [&](std::size_t offset, std::size_t most) {
      again = false;
      std::size_t const left = mine_ > offset ? mine_ - offset : 0;
      std::size_t const count = left < most ? left : most;
      if (count == 0 && !agree_) return;
      std::exception_ptr failed;
      try {
        backward(offset, count);
        detail::check_pending("the gradients of micro_batches::run", where);
      } catch (...) {
        failed = std::current_exception();
        if (!default_out_of_memory{}(failed)) throw;
      }
      again = agree_ ? agree_(failed != nullptr) : failed != nullptr;
      if (again) {
        ++failures;
        if (failed == nullptr) throw std::bad_alloc{};  // another rank's
        std::rethrow_exception(failed);
      }
      if (count != 0) sum.add(stream, gradients, static_cast<double>(count), where);
    };
    size_.run(
        most_, part, [&](std::exception_ptr const&) { return again; }, where);
    return failures;
  }
  /// @return items of a micro-batch now
  [[nodiscard]] std::size_t size() const { return size_.size(); }

 private:
  std::size_t mine_;
  std::size_t most_;
  dynamic_batch_size size_;
  detail::owned_function<bool(bool)> agree_;
};

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE

WARPWRIGHT_END
