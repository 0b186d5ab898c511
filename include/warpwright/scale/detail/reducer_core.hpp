// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <cstring>
#include <warpwright/core/detail/capture/capture_guard.hpp>
#include <warpwright/core/event.hpp>
#include <warpwright/core/tensor_list.hpp>
#include <warpwright/memory/buffer.hpp>
#include <warpwright/scale/detail/bucket_plan.hpp>
#include <warpwright/scale/detail/collective_memory.hpp>

#include <cstring>

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

WARPWRIGHT_COLD inline ncclDataType_t nccl_type(element_type type) noexcept {
  return type == element_type::float16    ? ncclFloat16
         : type == element_type::bfloat16 ? ncclBfloat16
         : type == element_type::float64  ? ncclFloat64
                                          : ncclFloat32;
}

/// A gradient_reducer without its kernels.
class reducer_core : noncopyable {
 public:
  /// Converts elements on a stream: floats to bfloat16, or back.
  using convert = void (*)(stream_ref, void const* from, void* to, std::size_t n,
                           source_location where);

  WARPWRIGHT_COLD reducer_core(communicator_core& comm, reducer_values const& values,
                               source_location where)
      : comm_{comm},
        values_{values},
        stream_{device_id{comm.device()},
                get_stream_priority_range(device_id{comm.device()}, where).greatest, where},
        arena_{comm} {
    if (values.type != element_type::float32 && values.type != element_type::float16 &&
        values.type != element_type::bfloat16 && values.type != element_type::float64) {
      throw_invalid_argument(
          "gradient_reducer: gradients are float32, float16, bfloat16 or float64", where);
    }
    if (values.narrow && values.type != element_type::float32) {
      throw_invalid_argument(
          "gradient_reducer: narrow() sends float32 as bfloat16; the gradients are "
          "of another type",
          where);
    }
  }

  // Reductions under way write to the arena.
  WARPWRIGHT_COLD ~reducer_core() {
    relaxed_capture_mode const relaxed;
    discard(cudaStreamSynchronize(stream_.get()));
  }

  /// @return bytes of the arena, for gradients of these sizes
  WARPWRIGHT_COLD std::size_t plan(array<std::size_t> const& counts, source_location where) {
    std::size_t const align = 256 / size_of(values_.type);  // NCCL's and the optimizers' fast paths
    for (std::size_t const count : counts) {
      std::size_t const padded = (count + align - 1) / align * align;
      if (padded < count || elements_ + padded < elements_ ||
          (elements_ + padded) > ~std::size_t{0} / 8) {
        throw_invalid_argument(
            text{"gradient_reducer: a gradient of "} + count + " elements is too large", where);
      }
      ranges_.push_back({elements_, padded});
      elements_ += padded;
    }
    if (values_.sharded) {
      auto const ranks = static_cast<std::size_t>(comm_.ranks());
      shard_ = ((elements_ + ranks - 1) / ranks + align - 1) / align * align;
      elements_ = shard_ * ranks;
    }
    std::uint64_t same[] = {counts.size(),
                            14695981039346656037U,
                            static_cast<std::uint64_t>(values_.type),
                            values_.narrow ? 1U : 0U,
                            values_.bucket_bytes,
                            values_.sum ? 1U : 0U};
    for (std::size_t const count : counts) same[1] = (same[1] ^ count) * 1099511628211U;
    array<char> all;
    comm_.exchange("the gradients' sizes", same, sizeof same, all, where);
    for (int r = 0; r < comm_.ranks(); ++r) {
      if (std::memcmp(all.begin() + static_cast<std::size_t>(r) * sizeof same, all.begin(),
                      sizeof same) == 0) {
        continue;
      }
      throw_communicator_error(
          text{"gradient_reducer: rank "} + r +
              " has other gradients or options than rank 0: all ranks must make it "
              "with the same sizes, in the same order",
          where);
    }
    for (std::uint32_t i = 0; i < counts.size(); ++i) {
      order_.push_back(static_cast<std::uint32_t>(counts.size()) - 1 - i);
    }
    is_ready_.resize(counts.size());
    std::size_t const bytes = elements_ * size_of(values_.type);
    tuner_ = bucket_tuner{bytes};
    settled_ = comm_.ranks() == 1;
    use_plan(values_.bucket_bytes != 0 ? values_.bucket_bytes : std::size_t{25} << 20U);
    return bytes;
  }
  /// Adds the gradients as tensors. @param like  names and shapes; null: numbers
  WARPWRIGHT_COLD void name(array<std::size_t> const& counts, tensor_list const* like,
                            source_location where) {
    for (std::size_t i = 0; i < counts.size(); ++i) {
      void* const data = address(ranges_[i].first);
      if (like != nullptr) {
        gradients_.add((*like)[i].name, data, values_.type, (*like)[i].shape, where);
      } else {
        gradients_.add(std::to_string(i), data, values_.type,
                       {static_cast<std::int64_t>(counts[i])}, where);
      }
    }
  }
  /// @return whether the arena is there; else allocate() gets one
  WARPWRIGHT_COLD bool try_window(stream_ref stream, source_location where) {
    if (values_.sharded || values_.narrow) return false;  // of ncclReduce(), or not of the arena
    std::size_t const most = bucket_bytes_ / size_of(values_.type);
    element_range const range{0, elements_ < most ? elements_ : most};
    auto const call = [&](void* data) { reduce_range(range, data, where); };
    stream_.wait(stream, where);
    return arena_.try_window(elements_ * size_of(values_.type), stream_, call, where);
  }
  WARPWRIGHT_COLD void allocate(device_buffer<unsigned char>&& arena,
                                device_buffer<unsigned char>&& narrow, stream_ref stream,
                                source_location where) {
    if (!arena_.has_window()) arena_.use(static_cast<device_buffer<unsigned char>&&>(arena));
    narrow_ = static_cast<device_buffer<unsigned char>&&>(narrow);
    std::size_t const bytes = elements_ * size_of(values_.type);
    if (bytes == 0) return;
    // What aligns the gradients is reduced with them, and stays 0.
    warpwright::check(cudaMemsetAsync(arena_.data(), 0, bytes, stream.get()), "cudaMemsetAsync",
                      where);
    stream.synchronize(where);
  }
  void ready(stream_ref stream, std::size_t gradient, convert narrow, convert widen,
             source_location where) {
    unique_lock<mutex> const lock{mutex_};
    if (gradient >= is_ready_.size()) {
      throw_invalid_argument(text{"gradient_reducer::ready: gradient "} + gradient + "; 0 to " +
                                 is_ready_.size() + " - 1 are possible",
                             where);
    }
    if (is_ready_[gradient]) {
      throw_invalid_argument(text{"gradient_reducer::ready: gradient "} + gradient +
                                 " is ready already in this step; finish() begins the next one",
                             where);
    }
    is_ready_[gradient] = true;
    seen_.push_back(static_cast<std::uint32_t>(gradient));
    bucket_state& bucket = buckets_[plan_.bucket_of(gradient)];
    bool known = false;
    for (std::uint32_t s = 0; s < bucket.streams; ++s)
      known = known || bucket.stream[s] == stream.get();
    if (!known) {
      if (bucket.streams == streams_each) {  // rather than one more place, wait now
        fork_.record(stream.get(), where);
        stream_.wait(fork_, where);
      } else {
        bucket.stream[bucket.streams++] = stream.get();
      }
    }
    --bucket.missing;
    // In their order, which is the same on all ranks.
    while (next_ < plan_.size() && buckets_[next_].missing == 0) {
      reduce_bucket(next_++, narrow, widen, where);
    }
  }
  void finish(stream_ref stream, source_location where) {
    unique_lock<mutex> const lock{mutex_};
    if (seen_.size() != is_ready_.size()) {
      std::size_t missing = 0;
      while (is_ready_[missing]) ++missing;
      text const problem = text{"gradient_reducer::finish: gradient "} + missing + " of " +
                           is_ready_.size() + " is not ready (" +
                           (is_ready_.size() - seen_.size()) +
                           " are not): call ready() for each, also for one that is not used";
      comm_.abort(problem);  // the other ranks would wait for it
      throw_invalid_argument(problem, where);
    }
    bool const captures = is_capturing(stream, where);
    step_events* events = nullptr;
    if (!captures) {
      if (events_.size() < remembered_steps) events_.emplace_back();
      events = &events_[steps_ % remembered_steps];
      events->step = ++steps_;
      events->before.record(stream.get(), where);
    }
    join_.record(stream_.get(), where);
    stream.wait(join_, where);
    if (events != nullptr) events->after.record(stream.get(), where);
    if (!captures && !settled_) learn(where);
    seen_.clear();
    next_ = 0;
    for (std::size_t i = 0; i < is_ready_.size(); ++i) is_ready_[i] = false;
    for (std::size_t b = 0; b < plan_.size(); ++b) {
      buckets_[b].missing = plan_[b].gradients;
      buckets_[b].streams = 0;
    }
  }

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
  WARPWRIGHT_COLD gradient_reducer_statistics statistics() const {
    gradient_reducer_statistics s;
    s.steps = steps_;
    s.buckets = plan_.size();
    s.bucket_bytes = bucket_bytes_;
    s.settled = settled_;
    s.window = arena_.has_window();
    relaxed_capture_mode const relaxed;
    for (std::uint64_t back = 0; back + 1 < remembered_steps && back < steps_; ++back) {
      step_events const& last = events_[(steps_ - 1 - back) % remembered_steps];
      if (!last.after.done()) continue;
      s.exposed_seconds = static_cast<double>(last.after.milliseconds_since(last.before)) * 1e-3;
      if (back + 1 < steps_) {
        s.step_seconds = 1e-3 * static_cast<double>(last.after.milliseconds_since(
                                    events_[(steps_ - 2 - back) % remembered_steps].after));
      }
      break;
    }
    return s;
  }

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

  WARPWRIGHT_COLD void use_plan(std::size_t bucket_bytes) {
    bucket_bytes_ = bucket_bytes;
    plan_.build(order_, ranges_, bucket_bytes / size_of(values_.type));
    buckets_.clear();
    buckets_.resize(plan_.size());
    for (std::size_t b = 0; b < plan_.size(); ++b) buckets_[b].missing = plan_[b].gradients;
  }
  void reduce_bucket(std::size_t b, convert narrow, convert widen, source_location where) {
    for (std::uint32_t s = 0; s < buckets_[b].streams; ++s) {
      fork_.record(buckets_[b].stream[s], where);
      stream_.wait(fork_, where);
    }
    if (comm_.ranks() == 1) return;
    bucket_plan::bucket const& bucket = plan_[b];
    auto const reduce = [&] {
      for (std::size_t i = bucket.first_range; i < bucket.first_range + bucket.ranges; ++i) {
        element_range const range = plan_.range(i);
        void* data = address(range.first);
        if (values_.narrow) {
          data = narrow_.data() + range.first * 2;
          narrow(stream_, address(range.first), data, range.count, where);
        }
        reduce_range(range, data, where);
      }
    };
    if (bucket.ranges > 1 || shard_ != 0) {
      comm_.group(reduce, where);
    } else {
      reduce();
    }
    if (!values_.narrow) return;
    for (std::size_t i = bucket.first_range; i < bucket.first_range + bucket.ranges; ++i) {
      element_range const range = plan_.range(i);
      widen(stream_, narrow_.data() + range.first * 2, address(range.first), range.count, where);
    }
  }
  // To all ranks, or each rank's part to it.
  void reduce_range(element_range const& range, void* data, source_location where) {
    ncclDataType_t const type = values_.narrow ? ncclBfloat16 : nccl_type(values_.type);
    ncclRedOp_t const op = values_.sum ? ncclSum : ncclAvg;
    std::size_t const end = range.first + range.count;
    for (std::size_t at = range.first; at < end;) {
      std::size_t const root = shard_ == 0 ? 0 : at / shard_;
      std::size_t const next = shard_ == 0 || (root + 1) * shard_ > end ? end : (root + 1) * shard_;
      std::size_t const n = next - at;
      auto* const from =
          static_cast<unsigned char*>(data) + (at - range.first) * size_of_nccl(type);
      collective_call const about{0,
                                  n,
                                  n * size_of_nccl(type),
                                  shard_ == 0 ? collective::all_reduce : collective::reduce,
                                  static_cast<std::uint8_t>(type),
                                  static_cast<std::uint8_t>(op),
                                  0,
                                  static_cast<std::int32_t>(root)};
      comm_.run(
          stream_, about,
          [&](ncclComm_t comm, cudaStream_t s) {
            return shard_ == 0 ? ncclAllReduce(from, from, n, type, op, comm, s)
                               : ncclReduce(from, from, n, type, op, about.root, comm, s);
          },
          shard_ == 0 ? "ncclAllReduce" : "ncclReduce", where);
      at = next;
    }
  }
  // All ranks are in the same step, so that they change the plan in the same one.
  WARPWRIGHT_COLD void learn(source_location where) {
    array<char> all;
    if (steps_ == 1) {  // rank 0's order
      comm_.exchange("the order of the gradients", seen_.begin(),
                     seen_.size() * sizeof(std::uint32_t), all, where);
      if (order_.size() != 0) {
        std::memcpy(order_.begin(), all.begin(), order_.size() * sizeof(std::uint32_t));
      }
      settled_ = values_.bucket_bytes != 0 || order_.empty();
      use_plan(values_.bucket_bytes != 0 ? values_.bucket_bytes : tuner_.bytes_in(0));
      return;
    }
    std::uint64_t const tuned = steps_ - 1;  // this one, from 1
    if (tuned < tuner_.steps()) {
      if (tuner_.bytes_in(tuned) != bucket_bytes_) use_plan(tuner_.bytes_in(tuned));
      return;
    }
    events_[(steps_ - 1) % remembered_steps].after.synchronize(where);
    for (std::uint64_t step = 2; step <= steps_; ++step) {
      float const ms = events_[(step - 1) % remembered_steps].after.milliseconds_since(
          events_[(step - 2) % remembered_steps].after, where);
      tuner_.took(step - 2, static_cast<double>(ms) * 1e-3);
    }
    double* const mine = tuner_.seconds();
    comm_.exchange("the times of steps", mine, bucket_tuner::sizes * sizeof(double), all, where);
    for (int r = 0; r < comm_.ranks(); ++r) {
      for (std::size_t i = 0; i < bucket_tuner::sizes; ++i) {
        double other = 0.0;
        std::memcpy(
            &other,
            all.begin() + (static_cast<std::size_t>(r) * bucket_tuner::sizes + i) * sizeof other,
            sizeof other);
        if (other > mine[i]) mine[i] = other;
      }
    }
    tuner_.choose();
    settled_ = true;
    use_plan(tuner_.bytes_in(tuner_.steps()));
  }

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
