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

#include <warpwright/core/detail/container/sort.hpp>
#include <warpwright/core/detail/options.hpp>
#include <warpwright/core/detail/tensors/small_float.hpp>
#include <warpwright/core/launch.hpp>
#include <warpwright/core/tensor_list.hpp>
#include <warpwright/scale/communicator.hpp>
#include <warpwright/scale/detail/collective_memory.hpp>

WARPWRIGHT_BEGIN

namespace detail {

struct reducer_values {
  element_type type = element_type::float32;
  std::size_t bucket_bytes = 0;  // 0: found in the first steps
  bool sum = false;
  bool narrow = false;
  bool sharded = false;
};

}  // namespace detail

/// Options of gradient_reducer.
class gradient_reducer_options
    : public detail::options_base<gradient_reducer_options, detail::reducer_values> {
 public:
  /// @param type  of the gradients: float32 (default), float16, bfloat16 or float64
  constexpr self type(element_type type) const { return with(&values::type, type); }
  /// Reduces gradients together up to this size. Default: the size is found in the first steps, of
  /// 4 to 250 MiB; so give one where the first step is captured.
  constexpr self bucket_bytes(std::size_t n) const { return with(&values::bucket_bytes, n); }
  /// The sum of the ranks' gradients instead of their mean.
  constexpr self sum(bool on = true) const { return with(&values::sum, on); }
  /// Sends float32 gradients as bfloat16: half the traffic; each value is rounded before the sum,
  /// and the sums are. Takes memory of half the gradients' size.
  constexpr self narrow(bool on = true) const { return with(&values::narrow, on); }
  /// Each rank gets the sums of its part of all elements alone, for a sharded_optimizer.
  constexpr self sharded() const { return with(&values::sharded, true); }
};

/// What a gradient_reducer has done so far.
struct gradient_reducer_statistics {
  std::uint64_t steps = 0;       ///< that were not captured
  std::size_t buckets = 0;       ///< of a step
  std::size_t bucket_bytes = 0;  ///< at most, of a bucket of several gradients
  bool settled = false;          ///< order and size are found, and stay
  double exposed_seconds = 0.0;  ///< of the last step: how long the stream has waited
  double step_seconds = 0.0;     ///< from the end of the step before to its end
  bool window = false;           ///< NCCL's symmetric memory is used, as it is faster
};

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

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
template <class = void>
class reducer_of_gradients : detail::noncopyable {
 public:
  /// Of narrow(), or back.
  struct convert {
    float* wide;
    std::uint16_t* narrow;
    bool back;
    WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const {
      if (back) wide[i] = detail::float_from_bfloat16(narrow[i]);
      if (!back) narrow[i] = detail::bfloat16_from_float(wide[i]);
    }
  };

  /// Allocates the gradients, which are 0 at first.
  /// @param counts   elements of each gradient: a container of integers
  /// @throws std::invalid_argument, out_of_memory, cuda_error
  /// @throws communicator_error  when the ranks differ in sizes or options; rank_lost
  /// **Stream:** blocks until `stream` has come here. **Capture:** not legal.
  template <class Counts>
  WARPWRIGHT_COLD reducer_of_gradients(communicator& comm, memory_pool& pool, stream_ref stream,
                                       Counts const& counts,
                                       gradient_reducer_options const& options = {},
                                       source_location where = source_location::current())
      : comm_{core_of(comm)},
        values_{values_of(options)},
        epoch_{comm_.epoch()},
        stream_{comm.device(), get_stream_priority_range(comm.device(), where).greatest, where},
        arena_{comm_} {
    bool const cannot_narrow = values_.sharded || values_.type != element_type::float32;
    if (values_.type > element_type::float64 || (values_.narrow && cannot_narrow)) {
      detail::throw_invalid_argument(
          "gradient_reducer: give a floating type; for narrow() float32, not sharded", where);
    }
    tensor_list like;  // names and shapes
    if constexpr (std::is_same<Counts, tensor_list>::value) {
      like.add(counts, where);
    } else {
      for (auto const n : counts)
        like.add(std::to_string(like.size()), this, element_type::int8, n, where);
    }
    std::size_t const align = 256 / size_of(values_.type);  // NCCL's and the optimizers' fast paths
    auto const aligned = [align](std::size_t n) { return (n + align - 1) / align * align; };
    for (tensor const& t : like) {
      order_.push_back(static_cast<std::uint32_t>(like.size() - 1 - order_.size()));
      all_.push_back({{elements_, aligned(t.size)}});
      elements_ += aligned(t.size);
    }
    if (values_.sharded) {
      auto const ranks = static_cast<std::size_t>(comm.ranks());
      shard_ = aligned((elements_ + ranks - 1) / ranks);
      elements_ = shard_ * ranks;
    }
    std::uint64_t mine = 4 * values_.bucket_bytes + (values_.narrow ? 2U : 0U) + values_.sum;
    mine = 16 * mine + static_cast<std::uint64_t>(values_.type);
    for (tensor const& t : like) mine = (mine ^ t.size) * 1099511628211U;
    auto const all = detail::values_of_ranks(comm_, "the gradients' sizes", &mine, 1, where);
    for (std::size_t rank = 1; rank < all.size(); ++rank) {
      if (all[rank] == all[0]) continue;
      detail::throw_communicator_error(
          detail::text{"gradient_reducer: rank "} + rank +
              " has other gradients or options than rank 0; give all the same, in the same order",
          where);
    }
    settled_ = comm.ranks() == 1;
    use_plan(values_.bucket_bytes != 0 ? values_.bucket_bytes : std::size_t{25} << 20U);
    // What aligns the gradients is reduced with them, and stays 0. There are no windows of
    // ncclReduce(), and narrow gradients are not reduced in the arena.
    std::size_t const most = bucket_bytes_ / size_of(values_.type);
    range const first{0, elements_ < most ? elements_ : most};
    arena_.allocate(
        pool, stream, elements_ * size_of(values_.type), !values_.sharded && !values_.narrow,
        stream_, [&](void* data) { reduce_range(first, data, where); }, where);
    if (values_.narrow) narrow_ = device_buffer<std::uint16_t>{pool, stream, elements_, where};
    for (tensor const& t : like) {
      std::size_t const offset = all_[gradients_.size()].place.first * size_of(values_.type);
      gradients_.add(t.name, data() + offset, values_.type, t.shape, where);
    }
    stream.synchronize(where);
  }

  // Reductions under way write to the arena.
  WARPWRIGHT_COLD ~reducer_of_gradients() {
    detail::relaxed_capture_mode const relaxed;
    detail::discard(cudaStreamSynchronize(stream_.get()));
  }

  /// @return the gradients, in the order of the counts, with the names of the tensors that the
  ///   counts are of, or numbers
  [[nodiscard]] tensor_list const& gradients() const noexcept { return gradients_; }
  /// Says that a gradient is final as soon as the stream's work so far has completed. The stream
  /// must live until its bucket is full, and is waited for as it is then.
  /// @throws std::invalid_argument  when there is none of this number, it is ready already, a step
  ///   has failed, or behind regroup(): make it anew
  /// @throws rank_lost, communicator_error, cuda_error
  /// **Cost:** some 20 ns; two CUDA calls where a bucket's gradient is on another stream than the
  /// one before; for the last of a bucket these and NCCL's.
  void ready(stream_ref stream, std::size_t gradient,
             source_location where = source_location::current()) {
    detail::unique_lock<detail::mutex> const lock{mutex_};
    refuse_if_failed(where);
    if (gradient >= all_.size() || all_[gradient].is_ready) {
      detail::throw_invalid_argument(
          detail::text{"gradient_reducer::ready: gradient "} + gradient + " of " + all_.size() +
              " does not exist, or is ready already in this step; finish() begins the next one",
          where);
    }
    failed_ = true;  // if anything throws
    all_[gradient].is_ready = true;
    if (steps_ == 0) order_[seen_] = static_cast<std::uint32_t>(gradient);
    ++seen_;
    bucket& own = buckets_[all_[gradient].bucket];
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
  /// Makes the stream wait until all gradients are reduced. The step ends here.
  /// @throws as ready(); std::invalid_argument  naming a gradient that is not ready; the
  ///   communicator fails
  /// **Stream:** does not block, but while the size of the buckets is found: for the end of the 1st
  /// step, the 4th, and so on until the 19th.
  void finish(stream_ref stream, source_location where = source_location::current()) {
    detail::unique_lock<detail::mutex> const lock{mutex_};
    refuse_if_failed(where);
    failed_ = true;
    if (seen_ != all_.size()) {
      std::size_t missing = 0;
      while (all_[missing].is_ready) ++missing;
      detail::text const problem =
          detail::text{"gradient_reducer::finish: gradient "} + missing + " of " + all_.size() +
          " is not ready (" + (all_.size() - seen_) +
          " are not): call ready() for each, also for one that is not used";
      comm_.abort(problem);  // the other ranks would wait for it
      detail::throw_invalid_argument(problem, where);
    }
    bool const captures = detail::is_capturing(stream, where);
    if (!captures) event_of(2 * ++steps_).record(stream.get(), where);
    fork_.record(stream_.get(), where);
    stream.wait(fork_, where);
    if (!captures) event_of(2 * steps_ + 1).record(stream.get(), where);
    if (!captures && !settled_) learn(where);
    seen_ = next_ = 0;
    for (gradient_state& g : all_) g.is_ready = false;
    for (bucket& b : buckets_) b.missing = b.end - b.first;
    failed_ = false;
  }

  /// @return with the times of the last step that has ended, or of the last but one behind a wait
  WARPWRIGHT_COLD gradient_reducer_statistics statistics() const {
    gradient_reducer_statistics s{steps_, buckets_.size(),    bucket_bytes_, settled_, 0.0,
                                  0.0,    arena_.has_window()};
    bool const runs = steps_ > 2 && !is_done(2 * steps_ + 1);
    std::uint64_t const last = steps_ - (runs ? 1 : 0);
    if (last > 0) s.exposed_seconds = seconds(2 * last, last);
    if (last > 1) s.step_seconds = seconds(2 * last - 1, last);
    return s;
  }
  /// @return what each rank has of sharded() gradients, in elements
  [[nodiscard]] std::size_t shard() const noexcept { return shard_; }
  [[nodiscard]] element_type type() const noexcept { return values_.type; }
  /// @return where all gradients lie
  [[nodiscard]] unsigned char* data() const noexcept { return arena_.data(); }

 private:
  /// A part of the arena, in elements.
  struct range {
    std::size_t first, count;
  };
  struct gradient_state {
    range place;  // with what aligns it
    std::uint32_t bucket = 0;
    bool is_ready = false;  // in this step
  };
  struct bucket {
    std::uint32_t first, end = first;  // of members_
    std::uint32_t missing = 0;         // gradients in this step
    cudaStream_t stream = nullptr;     // of its gradients, and not waited for
  };

  // Before step k's wait in finish(): 2k, behind it: 2k + 1.
  [[nodiscard]] timed_event& event_of(std::uint64_t number) const noexcept {
    return events_[number % events_.size()];
  }
  [[nodiscard]] bool is_done(std::uint64_t number) const noexcept {
    detail::relaxed_capture_mode const relaxed;
    return detail::discard(cudaEventQuery(event_of(number).get())) != cudaErrorNotReady;
  }
  // Until the end of a step.
  [[nodiscard]] double seconds(std::uint64_t begin, std::uint64_t step) const {
    detail::relaxed_capture_mode const relaxed;
    timed_event const& end = event_of(2 * step + 1);
    end.synchronize();
    return 1e-3 * static_cast<double>(end.milliseconds_since(event_of(begin)));
  }
  void refuse_if_failed(source_location where) {
    if (!failed_ && epoch_ == comm_.epoch()) return;
    comm_.check(where);
    detail::throw_invalid_argument(
        "gradient_reducer: a step failed, or it was made before regroup(): make it anew", where);
  }
  // Gradients lie in the arena in the order of their numbers, for good. A bucket has those that
  // become ready one after the other: mostly neighbours, which are one range. A gradient larger
  // than a bucket has one of its own.
  WARPWRIGHT_COLD void use_plan(std::size_t bucket_bytes) {
    bucket_bytes_ = bucket_bytes;
    std::size_t const most = bucket_bytes / size_of(values_.type);
    buckets_.clear();
    members_.clear();
    std::size_t elements = 0;
    for (std::uint32_t const gradient : order_) {
      gradient_state& g = all_[gradient];
      elements += g.place.count;
      if (buckets_.empty() || elements > most) {
        buckets_.push_back({static_cast<std::uint32_t>(members_.size())});
        elements = g.place.count;
      }
      g.bucket = static_cast<std::uint32_t>(buckets_.size() - 1);
      members_.push_back(gradient);
      ++buckets_.back().end;
      ++buckets_.back().missing;
    }
    for (bucket& b : buckets_) detail::sort(members_.begin() + b.first, b.missing);
  }
  template <class F>
  void for_each_range(bucket const& b, F const& f) const {
    for (std::uint32_t i = b.first; i < b.end;) {
      range r = all_[members_[i]].place;
      while (++i < b.end && all_[members_[i]].place.first == r.first + r.count) {
        r.count += all_[members_[i]].place.count;
      }
      f(r);
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
    auto const convert_all = [&](bool back) {
      for_each_range(b, [&](range const& r) {
        convert const kernel{reinterpret_cast<float*>(data()) + r.first, narrow_.data() + r.first,
                             back};
        for_each_index(stream_, r.count, kernel, where);
      });
    };
    void* const from = values_.narrow ? static_cast<void*>(narrow_.data()) : data();
    if (values_.narrow) convert_all(false);
    auto const reduce = [&](range const& r) { reduce_range(r, from, where); };
    comm_.group([&] { for_each_range(b, reduce); }, where);
    if (values_.narrow) convert_all(true);
  }
  // To all ranks, or each rank's part to it.
  void reduce_range(range const& r, void* arena, source_location where) {
    constexpr ncclDataType_t types[] = {ncclFloat32, ncclFloat16, ncclBfloat16, ncclFloat64};
    ncclDataType_t const type =
        values_.narrow ? ncclBfloat16 : types[static_cast<unsigned>(values_.type)];
    ncclRedOp_t const op = values_.sum ? ncclSum : ncclAvg;
    std::size_t const part = shard_ != 0 ? shard_ : elements_, end = r.first + r.count;
    for (std::size_t at = r.first, next = 0; at < end; at = next) {
      std::size_t const root = at / part;
      next = (root + 1) * part < end ? (root + 1) * part : end;
      void* const data = static_cast<unsigned char*>(arena) + at * detail::size_of_nccl(type);
      detail::collective_call about{};
      about.count = next - at;
      about.bytes = about.count * detail::size_of_nccl(type);
      about.operation = shard_ == 0 ? detail::collective::all_reduce : detail::collective::reduce;
      about.type = static_cast<std::uint8_t>(type);
      about.reduction = static_cast<std::uint8_t>(op);
      about.root = static_cast<std::int32_t>(root);
      auto const call = [&](ncclComm_t comm, cudaStream_t s) {
        return shard_ == 0 ? ncclAllReduce(data, data, about.count, type, op, comm, s)
                           : ncclReduce(data, data, about.count, type, op, about.root, comm, s);
      };
      comm_.run(stream_, about, call, shard_ == 0 ? "ncclAllReduce" : "ncclReduce", where);
    }
  }
  // All ranks are in the same step, so that they change the plan in the same one.
  WARPWRIGHT_COLD void learn(source_location where) {
    constexpr std::size_t sizes = 6, mib[sizes] = {4, 10, 25, 50, 100, 250};
    if (steps_ == 1) {
      auto const all = detail::values_of_ranks(comm_, "the order of the gradients", order_.begin(),
                                               order_.size(), where);
      for (std::size_t i = 0; i < order_.size(); ++i) order_[i] = all[i];  // rank 0's
      settled_ = values_.bucket_bytes != 0;
      use_plan(settled_ ? bucket_bytes_ : mib[0] << 20U);
    } else if (steps_ % 3 == 1) {  // the first step of a size does not count: NCCL warms up
      double const least = detail::largest_of_ranks(comm_, "the times of steps",
                                                    seconds(2 * steps_ - 3, steps_), where);
      if (least < best_seconds_) {
        best_seconds_ = least;
        best_bytes_ = bucket_bytes_;
      }
      settled_ = steps_ == 3 * sizes + 1 || buckets_.size() <= 1;  // larger ones are the same
      use_plan(settled_ ? best_bytes_ : mib[steps_ / 3] << 20U);
    }
  }

  detail::communicator_core& comm_;
  detail::reducer_values values_;
  std::uint64_t epoch_;  // of the group that it is made for
  tensor_list gradients_;
  detail::array<gradient_state> all_;
  std::size_t elements_ = 0, shard_ = 0;
  stream stream_;  // of the communication
  detail::collective_memory arena_;
  device_buffer<std::uint16_t> narrow_;
  detail::mutex mutex_;
  std::size_t bucket_bytes_ = 0, best_bytes_ = 0, next_ = 0;  // the next bucket to reduce
  double best_seconds_ = 1e30;
  std::size_t seen_ = 0;  // gradients in this step
  detail::array<bucket> buckets_;
  detail::array<std::uint32_t> order_, members_;  // as they become ready, and sorted in each bucket
  event fork_;
  mutable detail::array<timed_event> events_{8};  // of the last steps
  std::uint64_t steps_ = 0;
  bool settled_ = false, failed_ = false;
};

using gradient_reducer = reducer_of_gradients<>;

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE

WARPWRIGHT_END
