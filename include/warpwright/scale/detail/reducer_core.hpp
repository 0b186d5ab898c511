// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/event.hpp>
#include <warpwright/core/tensor_list.hpp>
#include <warpwright/memory/buffer.hpp>
#include <warpwright/scale/detail/bucket_plan.hpp>
#include <warpwright/scale/detail/collective_memory.hpp>

WARPWRIGHT_BEGIN

/// What a gradient_reducer has done so far.
struct gradient_reducer_statistics {
  std::uint64_t steps = 0;       ///< that were not captured
  std::size_t buckets = 0;       ///< of a step
  std::size_t bucket_bytes = 0;  ///< at most, of a bucket of several gradients
  bool settled = false;          ///< order and size are found, and stay
  double exposed_seconds = 0.0;  ///< of the last step known: how long the stream has waited
  double step_seconds = 0.0;     ///< from the end of the step before to its end
  bool window = false;           ///< NCCL's symmetric memory is used, as it is faster
};

namespace detail {

struct reducer_values {
  element_type type = element_type::float32;
  std::size_t bucket_bytes = 0;  // 0: found in the first steps
  bool sum = false;
  bool narrow = false;
  bool sharded = false;  // each rank gets the sums of its part of the arena alone
};

/// A gradient_reducer without its kernels.
class reducer_core : noncopyable {
 public:
  /// Converts elements on a stream: floats to bfloat16, or back.
  using convert = void (*)(stream_ref, void const* from, void* to, std::size_t n,
                           source_location where);

  reducer_core(communicator_core& comm, reducer_values const& values, source_location where);

  /// @return bytes of the arena, for gradients of these sizes
  [[nodiscard]] std::size_t plan(array<std::size_t> const& counts, source_location where);
  /// Adds the gradients as tensors. @param like  names and shapes; null: numbers
  void name(array<std::size_t> const& counts, tensor_list const* like, source_location where);
  /// @return whether the arena is there; else allocate() gets one
  [[nodiscard]] bool try_window(stream_ref stream, source_location where);
  void allocate(device_buffer<unsigned char>&& arena, device_buffer<unsigned char>&& narrow,
                stream_ref stream, source_location where);
  void ready(stream_ref stream, std::size_t gradient, convert narrow, convert widen,
             source_location where);
  void finish(stream_ref stream, source_location where);

  [[nodiscard]] tensor_list const& gradients() const noexcept { return gradients_; }
  [[nodiscard]] std::size_t narrow_bytes() const noexcept {
    return values_.narrow ? elements_ * 2 : 0;
  }
  /// @return what a rank has of the arena, in elements; 0 where all have all
  [[nodiscard]] std::size_t shard() const noexcept { return shard_; }
  [[nodiscard]] element_range const& range(std::size_t gradient) const noexcept {
    return ranges_[gradient];
  }
  [[nodiscard]] void* address(std::size_t element) const noexcept {
    return arena_.data() + element * size_of(values_.type);
  }
  [[nodiscard]] gradient_reducer_statistics statistics() const;

 private:
  static constexpr std::size_t remembered_steps = 32, streams_each = 4;
  struct bucket_state {
    std::uint32_t missing;
    std::uint32_t streams;
    cudaStream_t stream[streams_each];
  };
  struct step_events {
    timed_event before, after;  // what the stream waits for in finish()
    std::uint64_t step = 0;     // from 1; 0: not recorded
  };

  void use_plan(std::size_t bucket_bytes);
  void reduce_bucket(std::size_t b, convert narrow, convert widen, source_location where);
  void reduce_range(element_range const& range, void* data, source_location where);
  void learn(source_location where);

  communicator_core& comm_;
  reducer_values values_;
  array<element_range> ranges_;
  tensor_list gradients_;
  std::size_t elements_ = 0, shard_ = 0;
  stream stream_;  // of the communication
  collective_memory arena_;
  device_buffer<unsigned char> narrow_;
  mutex mutex_;
  bucket_plan plan_;
  bucket_tuner tuner_;
  array<bucket_state> buckets_;
  array<bool> is_ready_;
  array<std::uint32_t> order_, seen_;  // as planned, and in this step
  std::size_t next_ = 0;               // bucket to reduce
  std::size_t bucket_bytes_ = 0;
  event fork_, join_;
  array<step_events> events_;
  std::uint64_t steps_ = 0;
  bool settled_ = false;
};

}  // namespace detail

WARPWRIGHT_END

#include <warpwright/scale/detail/reducer_core_definitions.hpp>
