// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The mean of the gradients of all ranks, while the backward pass still runs.
//
//   ww::gradient_reducer reduce{comm, pool, stream, gradient_counts};
//   backward(stream, reduce.gradients(), [&](std::size_t i) { reduce.ready(stream, i); });
//   reduce.finish(stream);
//   optimizer.step(stream, reduce.gradients());
#pragma once

#include <warpwright/core/detail/options.hpp>
#include <warpwright/core/detail/tensors/small_float.hpp>
#include <warpwright/core/launch.hpp>
#include <warpwright/scale/communicator.hpp>
#include <warpwright/scale/detail/reducer_core.hpp>

#include <cstddef>

WARPWRIGHT_BEGIN

/// Options of gradient_reducer.
class gradient_reducer_options
    : public detail::options_base<gradient_reducer_options, detail::reducer_values> {
 public:
  /// @param type  of the gradients: float32 (default), float16, bfloat16 or float64
  [[nodiscard]] constexpr gradient_reducer_options type(element_type type) const {
    return with(&values::type, type);
  }
  /// Reduces gradients together up to this size. Default: the size is found in the first steps, of
  /// 4 to 250 MiB; so give one where the first step is captured.
  [[nodiscard]] constexpr gradient_reducer_options bucket_bytes(std::size_t bytes) const {
    return with(&values::bucket_bytes, bytes);
  }
  /// The sum of the ranks' gradients instead of their mean.
  [[nodiscard]] constexpr gradient_reducer_options sum(bool on = true) const {
    return with(&values::sum, on);
  }
  /// Sends float32 gradients as bfloat16: half the traffic; each value is rounded before the sum,
  /// and the sums are. Takes memory of half the gradients' size.
  [[nodiscard]] constexpr gradient_reducer_options narrow(bool on = true) const {
    return with(&values::narrow, on);
  }
};

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

namespace narrowing {

struct convert {
  float* wide;
  std::uint16_t* narrow;
  bool back;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const {
    if (back) {
      wide[i] = detail::float_from_bfloat16(narrow[i]);
    } else {
      narrow[i] = detail::bfloat16_from_float(wide[i]);
    }
  }
};

}  // namespace narrowing

/// Reduces gradients over the ranks of a communicator while others are still computed: in buckets,
/// each as soon as the last of its gradients is ready, on a stream of its own.
///
/// The gradients lie in one array, which is what NCCL reduces: nothing is copied. Their addresses
/// never change. Which of them are reduced together is found in the first steps: the order of rank
/// 0's first step, and the size of buckets with which steps take least (18 steps at most).
///
/// To accumulate micro-batches without communication, add to the gradients and call ready() in the
/// last one alone.
/// @pre the communicator, the pool and the stream outlive it; all ranks make it alike, and their
///   steps are the same, captured or not
/// **Threads:** ready() of several threads is safe; finish() behind all of them.
/// **Stream:** ready() may be called on any stream, and is ordered behind its work so far; nothing
/// waits for the communication but the stream of finish().
/// **Capture:** ready() and finish() are legal; nothing is learnt then.
template <class Convert>
class reducer_of_gradients {
 public:
  /// Allocates the gradients, which are 0 at first.
  /// @param counts   elements of each gradient: a container of integers
  /// @throws std::invalid_argument, out_of_memory, cuda_error
  /// @throws communicator_error  when the ranks differ in sizes or options; rank_lost
  /// **Stream:** blocks until `stream` has come here. **Capture:** not legal.
  template <class Counts>
  reducer_of_gradients(communicator& comm, memory_pool& pool, stream_ref stream,
                       Counts const& counts, gradient_reducer_options const& options = {},
                       source_location where = source_location::current())
      : core_{core_of(comm), values_with_kernel(options), pool, stream, list_of(counts), where} {}

  /// @return the gradients, in the order of the counts, with the names of the tensors that the
  ///   counts are of, or numbers
  [[nodiscard]] tensor_list const& gradients() const noexcept { return core_.gradients(); }
  /// Says that a gradient is final as soon as the stream's work so far has completed. The stream
  /// must live until its bucket is full, and is waited for as it is then.
  /// @throws std::invalid_argument  when there is none of this number, or it is ready already
  /// @throws std::invalid_argument  also when a step has failed, or behind regroup(): make it anew
  /// @throws rank_lost, communicator_error, cuda_error
  /// **Cost:** some 20 ns; for the last of a bucket, and where another stream follows in a bucket,
  /// two CUDA calls; NCCL's.
  void ready(stream_ref stream, std::size_t gradient,
             source_location where = source_location::current()) {
    core_.ready(stream, gradient, where);
  }
  /// Makes the stream wait until all gradients are reduced. The step ends here.
  /// @throws std::invalid_argument  naming a gradient that is not ready; the communicator fails
  /// **Stream:** does not block, but for the end of the 1st step and of the one with which the size
  /// of the buckets is found.
  void finish(stream_ref stream, source_location where = source_location::current()) {
    core_.finish(stream, where);
  }
  [[nodiscard]] gradient_reducer_statistics statistics() const { return core_.statistics(); }

 private:
  static detail::reducer_values values_with_kernel(gradient_reducer_options const& options) {
    detail::reducer_values values = values_of(options);
    values.convert = [](stream_ref stream, float* wide, std::uint16_t* narrow, std::size_t n,
                        bool back, source_location where) {
      for_each_index(stream, n, Convert{wide, narrow, back}, where);
    };
    return values;
  }
  static tensor_list list_of(tensor_list const& like) { return like; }
  template <class Counts>
  static tensor_list list_of(Counts const& counts) {
    tensor_list list;  // whose addresses do not matter
    for (auto const n : counts) list.add(std::to_string(list.size()), &list, element_type::int8, n);
    return list;
  }

  detail::reducer_core core_;
};

using gradient_reducer = reducer_of_gradients<narrowing::convert>;

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE

WARPWRIGHT_END
