// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/container/sort.hpp>
#include <warpwright/core/tensor_list.hpp>
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
  /// Rounds floats to bfloat16, or widens them again.
  void (*convert)(stream_ref, float* wide, std::uint16_t* narrow, std::size_t n, bool back,
                  source_location where) = nullptr;
};

/// Sizes of buckets, each tried in some of the first steps, to keep the one whose steps take least.
struct bucket_tuner {
  static constexpr std::size_t steps_each = 3;

  /// @param all_bytes  of all gradients
  /// @param fixed      0, or the only size
  explicit bucket_tuner(std::size_t all_bytes, std::size_t fixed = 0) noexcept {
    for (std::size_t mib : {4U, 10U, 25U, 50U, 100U, 250U}) {
      bytes[sizes++] = fixed != 0 ? fixed : mib << 20U;
      if (bytes[sizes - 1] >= all_bytes || fixed != 0) break;  // a larger one is the same
    }
  }
  [[nodiscard]] std::size_t steps() const noexcept { return sizes * steps_each; }
  /// @param step  from 0; the first one of each size counts not, as NCCL and caches warm up
  void took(std::size_t step, double s) noexcept {
    double& least = seconds[step / steps_each];
    if (step % steps_each != 0 && s < least) least = s;
  }
  /// @return bytes
  [[nodiscard]] std::size_t best() const noexcept {
    std::size_t k = 0;
    for (std::size_t i = 1; i < sizes; ++i) k = seconds[i] < seconds[k] ? i : k;
    return bytes[k];
  }

  std::size_t sizes = 0, bytes[6] = {};
  double seconds[6] = {1e30, 1e30, 1e30, 1e30, 1e30, 1e30};
};

/// A gradient_reducer without its kernels.
class reducer_core : noncopyable {
 public:
  /// @param like  the gradients' names and shapes
  WARPWRIGHT_COLD reducer_core(communicator_core& comm, reducer_values const& values,
                               memory_pool& pool, stream_ref stream, tensor_list const& like,
                               source_location where)
      : comm_{comm},
        values_{values},
        epoch_{comm.epoch()},
        stream_{device_id{comm.device()},
                get_stream_priority_range(device_id{comm.device()}, where).greatest, where},
        arena_{comm},
        tuner_{like.elements() * size_of(values.type), values.bucket_bytes} {
    bool const is_float = values.type <= element_type::float64;
    if (!is_float || (values.narrow && values.type != element_type::float32)) {
      throw_invalid_argument(
          text{"gradient_reducer: gradients of "} + to_text(values.type) +
              (is_float ? " with narrow(), which sends float32 as bfloat16"
                        : "; float32, float16, bfloat16 or float64 are possible"),
          where);
    }
    std::size_t const align = 256 / size_of(values.type);  // NCCL's and the optimizers' fast paths
    auto const aligned = [align](std::size_t n) { return (n + align - 1) / align * align; };
    for (tensor const& t : like) {
      order_.push_back(static_cast<std::uint32_t>(like.size() - 1 - order_.size()));
      ranges_.push_back({elements_, aligned(t.size)});
      elements_ += aligned(t.size);
    }
    if (values.sharded) {
      auto const ranks = static_cast<std::size_t>(comm.ranks());
      shard_ = aligned((elements_ + ranks - 1) / ranks);
      elements_ = shard_ * ranks;
    }
    check_same(like, where);
    is_ready_.resize(like.size());
    bucket_of_.resize(like.size());
    settled_ = comm.ranks() == 1;
    use_plan(values.bucket_bytes != 0 ? values.bucket_bytes : std::size_t{25} << 20U);
    // What aligns the gradients is reduced with them, and stays 0. There are no windows of
    // ncclReduce(), and narrow gradients are not reduced in the arena.
    std::size_t const most = bucket_bytes_ / size_of(values.type);
    range const first{0, elements_ < most ? elements_ : most};
    arena_.allocate(
        pool, stream, elements_ * size_of(values.type), !values.sharded && !values.narrow, stream_,
        [&](void* data) { reduce_range(first, data, where); }, where);
    if (values.narrow) narrow_ = device_buffer<std::uint16_t>{pool, stream, elements_, where};
    for (tensor const& t : like) {
      gradients_.add(t.name, data() + offset_of(gradients_.size()), values.type, t.shape, where);
    }
    stream.synchronize(where);
  }

  // Reductions under way write to the arena.
  WARPWRIGHT_COLD ~reducer_core() {
    relaxed_capture_mode const relaxed;
    discard(cudaStreamSynchronize(stream_.get()));
  }

  void ready(stream_ref stream, std::size_t gradient, source_location where) {
    unique_lock<mutex> const lock{mutex_};
    if (gradient >= is_ready_.size() || is_ready_[gradient]) {
      throw_invalid_argument(text{"gradient_reducer::ready: gradient "} + gradient +
                                 (gradient < is_ready_.size()
                                      ? text{" is ready already in this step; finish() begins the "
                                             "next one"}
                                      : text{"; 0 to "} + is_ready_.size() + " - 1 are possible"),
                             where);
    }
    begin_call(where);
    is_ready_[gradient] = true;
    if (steps_ == 0) seen_.push_back(static_cast<std::uint32_t>(gradient));
    bucket& own = buckets_[bucket_of_[gradient]];
    if (own.stream != nullptr && own.stream != stream.get()) wait_for(own, where);
    own.stream = stream.get();
    // The handle of default streams of threads is that of others, too.
    if (--own.missing == 0 || own.stream == cudaStreamPerThread) wait_for(own, where);
    // In their order, which is the same on all ranks.
    while (next_ < buckets_.size() && buckets_[next_].missing == 0) {
      reduce_bucket(buckets_[next_++], where);
    }
    failed_ = false;
  }
  void finish(stream_ref stream, source_location where) {
    unique_lock<mutex> const lock{mutex_};
    begin_call(where);
    if (next_ != buckets_.size()) {
      std::size_t first = is_ready_.size(), missing = 0;
      for (std::size_t i = is_ready_.size(); i-- > 0;) {
        if (is_ready_[i]) continue;
        first = i;
        ++missing;
      }
      text const problem = text{"gradient_reducer::finish: gradient "} + first + " of " +
                           is_ready_.size() + " is not ready (" + missing +
                           " are not): call ready() for each, also for one that is not used";
      comm_.abort(problem);  // the other ranks would wait for it
      throw_invalid_argument(problem, where);
    }
    bool const captures = is_capturing(stream, where);
    if (!captures && events_.size() < remembered_steps) events_.emplace_back();
    step_events* const events = captures ? nullptr : &events_of(++steps_);
    if (events != nullptr) events->before.record(stream.get(), where);
    fork_.record(stream_.get(), where);
    stream.wait(fork_, where);
    if (events != nullptr) events->after.record(stream.get(), where);
    if (events != nullptr && !settled_) learn(where);
    seen_.clear();
    next_ = 0;
    for (bool& is_ready : is_ready_) is_ready = false;
    for (bucket& b : buckets_) b.missing = b.end - b.first;
    failed_ = false;
  }

  [[nodiscard]] tensor_list const& gradients() const noexcept { return gradients_; }
  /// @return what a rank has of the arena, in elements; 0 where all have all
  [[nodiscard]] std::size_t shard() const noexcept { return shard_; }
  [[nodiscard]] element_type type() const noexcept { return values_.type; }
  [[nodiscard]] unsigned char* data() const noexcept { return arena_.data(); }
  /// @return where a gradient is in the arena, in bytes
  [[nodiscard]] std::size_t offset_of(std::size_t gradient) const noexcept {
    return ranges_[gradient].first * size_of(values_.type);
  }
  WARPWRIGHT_COLD gradient_reducer_statistics statistics() const {
    gradient_reducer_statistics s;
    s.steps = steps_;
    s.buckets = buckets_.size();
    s.bucket_bytes = bucket_bytes_;
    s.settled = settled_;
    s.window = arena_.has_window();
    relaxed_capture_mode const relaxed;
    std::uint64_t step = steps_;
    while (step > 0 && step + remembered_steps > steps_ + 1 && !events_of(step).after.done())
      --step;
    if (step == 0 || step + remembered_steps <= steps_ + 1) return s;
    s.exposed_seconds = seconds(events_of(step).before, events_of(step).after);
    if (step > 1) s.step_seconds = seconds(events_of(step - 1).after, events_of(step).after);
    return s;
  }

 private:
  static constexpr std::size_t remembered_steps = 32;
  /// A part of the arena, in elements.
  struct range {
    std::size_t first, count;
  };
  struct bucket {
    std::uint32_t first, end;  // of members_
    std::uint32_t missing;     // gradients in this step
    bool is_range;             // else several
    cudaStream_t stream;       // that a gradient came from which is not waited for; or null
  };
  struct step_events {
    timed_event before, after;  // what the stream waits for in finish()
  };

  [[nodiscard]] step_events& events_of(std::uint64_t step) const noexcept {
    return events_[(step - 1) % remembered_steps];
  }
  [[nodiscard]] void* address(std::size_t element) const noexcept {
    return arena_.data() + element * size_of(values_.type);
  }
  static double seconds(timed_event const& from, timed_event const& to,
                        source_location where = source_location::current()) {
    return 1e-3 * static_cast<double>(to.milliseconds_since(from, where));
  }
  // A call that throws leaves failed_ set.
  void begin_call(source_location where) {
    if (failed_ || epoch_ != comm_.epoch()) {
      comm_.check(where);
      throw_invalid_argument(
          "gradient_reducer: a step has failed, or it was made before regroup(): make it, or the "
          "sharded_optimizer, anew",
          where);
    }
    failed_ = true;
  }
  WARPWRIGHT_COLD void check_same(tensor_list const& like, source_location where) {
    std::uint64_t mine = values_.bucket_bytes * 4 + (values_.narrow ? 2U : 0U) + values_.sum;
    auto const mix = [&mine](std::uint64_t value) { mine = (mine ^ value) * 1099511628211U; };
    mix(static_cast<std::uint64_t>(values_.type));
    for (tensor const& t : like) mix(t.size);
    std::uint64_t first = 0;
    for_values_of_ranks(
        comm_, "the gradients' sizes", &mine, 1, where,
        [&](int rank, std::size_t, std::uint64_t other) {
          if (rank == 0) first = other;
          if (other == first) return;
          throw_communicator_error(
              text{"gradient_reducer: rank "} + rank +
                  " has other gradients or options than rank 0: all ranks must make it with the "
                  "same sizes, in the same order",
              where);
        });
  }
  // Gradients lie in the arena in the order of their numbers, for good. A bucket has those that
  // become ready one after the other: mostly neighbours, which are one range. A gradient larger
  // than a bucket has one of its own.
  WARPWRIGHT_COLD void use_plan(std::size_t bucket_bytes) {
    bucket_bytes_ = bucket_bytes;
    std::size_t const most = bucket_bytes / size_of(values_.type);
    buckets_.clear();
    members_.clear();
    while (members_.size() < order_.size()) {
      auto const first = static_cast<std::uint32_t>(members_.size());
      for (std::size_t elements = 0; members_.size() < order_.size();) {
        std::uint32_t const next = order_[members_.size()];
        elements += ranges_[next].count;
        if (elements > most && members_.size() > first) break;
        bucket_of_[next] = static_cast<std::uint32_t>(buckets_.size());
        members_.push_back(next);
      }
      auto const end = static_cast<std::uint32_t>(members_.size());
      sort(members_.begin() + first, end - first);
      bucket made{first, end, end - first, true, nullptr};
      int ranges = 0;
      for_each_range(made, [&ranges](range const&) { ++ranges; });
      made.is_range = ranges == 1;
      buckets_.push_back(made);
    }
  }
  template <class F>
  void for_each_range(bucket const& b, F const& f) const {
    for (std::uint32_t i = b.first; i < b.end;) {
      range all = ranges_[members_[i]];
      while (++i < b.end && ranges_[members_[i]].first == all.first + all.count) {
        all.count += ranges_[members_[i]].count;
      }
      f(all);
    }
  }
  // Lets the communication wait for the bucket's stream as it is now.
  void wait_for(bucket& b, source_location where) {
    fork_.record(b.stream, where);
    stream_.wait(fork_, where);
    b.stream = nullptr;
  }
  void reduce_bucket(bucket const& b, source_location where) {
    if (comm_.ranks() == 1) return;
    auto const narrow = [&](range const& r, bool back) {
      values_.convert(stream_, static_cast<float*>(address(r.first)), narrow_.data() + r.first,
                      r.count, back, where);
    };
    auto const reduce = [&] {
      for_each_range(b, [&](range const& r) {
        if (values_.narrow) narrow(r, false);
        reduce_range(r, values_.narrow ? narrow_.data() + r.first : address(r.first), where);
      });
    };
    b.is_range&& shard_ == 0 ? reduce() : comm_.group(reduce, where);
    if (values_.narrow) for_each_range(b, [&](range const& r) { narrow(r, true); });
  }
  // To all ranks, or each rank's part to it.
  void reduce_range(range const& r, void* data, source_location where) {
    constexpr ncclDataType_t types[] = {ncclFloat32, ncclFloat16, ncclBfloat16, ncclFloat64};
    ncclDataType_t const type =
        values_.narrow ? ncclBfloat16 : types[static_cast<unsigned>(values_.type)];
    ncclRedOp_t const op = values_.sum ? ncclSum : ncclAvg;
    auto* from = static_cast<unsigned char*>(data);
    std::size_t const end = r.first + r.count;
    for (std::size_t at = r.first, n = 0; at < end; at += n) {
      std::size_t const root = shard_ == 0 ? 0 : at / shard_;
      std::size_t const next = shard_ == 0 ? end : (root + 1) * shard_;
      n = (next < end ? next : end) - at;
      std::size_t const bytes = n * size_of_nccl(type);
      collective_call about{};
      about.count = n;
      about.bytes = bytes;
      about.operation = shard_ == 0 ? collective::all_reduce : collective::reduce;
      about.type = static_cast<std::uint8_t>(type);
      about.reduction = static_cast<std::uint8_t>(op);
      about.root = static_cast<std::int32_t>(root);
      auto const call = [&](ncclComm_t comm, cudaStream_t s) {
        return shard_ == 0 ? ncclAllReduce(from, from, n, type, op, comm, s)
                           : ncclReduce(from, from, n, type, op, about.root, comm, s);
      };
      comm_.run(stream_, about, call, shard_ == 0 ? "ncclAllReduce" : "ncclReduce", where);
      from += bytes;
    }
  }
  // All ranks are in the same step, so that they change the plan in the same one.
  WARPWRIGHT_COLD void learn(source_location where) {
    std::size_t const tuned = steps_ - 1;  // this one, from 1
    if (tuned == 0) {
      for_values_of_ranks(comm_, "the order of the gradients", seen_.begin(), seen_.size(), where,
                          [&](int rank, std::size_t i, std::uint32_t gradient) {
                            if (rank == 0) order_[i] = gradient;
                          });
      settled_ = tuner_.sizes == 1;
    } else if (tuned == tuner_.steps()) {
      events_of(steps_).after.synchronize(where);
      for (std::size_t i = 0; i < tuned; ++i) {
        tuner_.took(i, seconds(events_of(i + 1).after, events_of(i + 2).after, where));
      }
      take_largest(comm_, "the times of steps", tuner_.seconds, tuner_.sizes, where);
      settled_ = true;
    }
    if (settled_ || tuned % bucket_tuner::steps_each == 0) {
      use_plan(settled_ ? tuner_.best() : tuner_.bytes[tuned / bucket_tuner::steps_each]);
    }
  }

  communicator_core& comm_;
  reducer_values values_;
  std::uint64_t epoch_;  // of the group that it is made for
  array<range> ranges_;  // of the gradients, with what aligns them
  tensor_list gradients_;
  std::size_t elements_ = 0, shard_ = 0;
  stream stream_;  // of the communication
  collective_memory arena_;
  device_buffer<std::uint16_t> narrow_;
  mutex mutex_;
  bucket_tuner tuner_;
  std::size_t bucket_bytes_ = 0, next_ = 0;  // the next bucket to reduce
  array<bucket> buckets_;
  array<std::uint32_t> order_, members_;  // as they become ready, and sorted in each bucket
  array<std::uint32_t> seen_, bucket_of_;
  array<bool> is_ready_;
  event fork_;
  mutable array<step_events> events_;
  std::uint64_t steps_ = 0;
  bool settled_ = false, failed_ = false;
};

}  // namespace detail

WARPWRIGHT_END
