// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// An optimizer of which each rank has a part (ZeRO-1; Rajbhandari et al., SC 2020): it reduces to
// each rank the gradients of its part, updates that, and gathers the parameters.
//
//   ww::sharded_optimizer<ww::adamw> optimizer{comm, pool, stream, parameters};
//   network.use(optimizer.parameters(), optimizer.gradients());
//   backward(stream, [&](std::size_t i) { optimizer.ready(stream, i); });
//   optimizer.step(stream);
#pragma once

#include <warpwright/kernel/tensor_norms.hpp>
#include <warpwright/scale/gradient_reducer.hpp>
#include <warpwright/train/optimizers.hpp>

#include <cstddef>
#include <string>

WARPWRIGHT_BEGIN

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

namespace sharding {

/// Behind the sum over the ranks: what the other ranks' gradients add to the norm of all.
struct add_norm_of_others {
  double const* own;  // norm
  double const* all;  // sum of squares
  float* gradient;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t) const {
    double const others = *all - *own * *own;
    *gradient = static_cast<float>(others > 0.0 ? ::sqrt(others) : others < 0.0 ? 0.0 : others);
  }
};
struct square {
  double const* norm;
  double* squared;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t) const { *squared = *norm * *norm; }
};

}  // namespace sharding

/// An optimizer of train/ with 1/ranks of its state in each rank.
///
/// Parameters and gradients lie in two arrays of its own, in which each rank has a part of the same
/// size: parts begin and end anywhere in a tensor. The parameters after a step are the same bits as
/// those of a whole optimizer behind a gradient_reducer, where NCCL sums in the same order; with
/// clip() or a loss_scaler the norm is summed in another order.
/// @tparam Optimizer  adamw, sgd or lion
/// @pre the communicator, the pool and the stream outlive it; all ranks make it alike
/// **Threads:**, **Stream:**, **Capture:** as gradient_reducer and optimizer
template <class Optimizer>
class sharded_optimizer : detail::noncopyable {
 public:
  using options = typename Optimizer::options;

  /// Copies the parameters of rank 0 into its own array.
  /// @param like   the parameters: all of one type, float32, float16 or bfloat16
  /// @throws std::invalid_argument, out_of_memory, cuda_error, communicator_error, rank_lost
  /// **Stream:** blocks until `stream` has come here. **Capture:** not legal.
  template <class Pool>
  sharded_optimizer(communicator& comm, Pool& pool, stream_ref stream, tensor_list const& like,
                    options const& with = {}, gradient_reducer_options const& reducing = {},
                    source_location where = source_location::current())
      : comm_{comm},
        core_{core_of(comm), reducer_values_of(like, reducing, where), where},
        type_{like.size() == 0 ? element_type::float32 : like[0].type},
        needs_norm_{values_of(with).clip > 0.0F},
        arena_{core_of(comm)} {
    detail::array<std::size_t> counts;
    for (tensor const& t : like) counts.push_back(t.size);
    std::size_t const bytes = core_.plan(counts, where);
    core_.allocate(device_buffer<unsigned char>{pool, stream, bytes, where}, {}, stream, where);
    core_.name(counts, &like, where);
    bool const has_arena = arena_.try_window(
        bytes, stream,
        [&](void* data) { gather(stream, static_cast<unsigned char*>(data), where); }, where);
    if (!has_arena) arena_.use(device_buffer<unsigned char>{pool, stream, bytes, where});
    norms_ = device_buffer<double>{pool, stream, 4, where};
    clear(stream, arena_.data(), bytes, where);
    clear(stream, norms_.data(), norms_.size_bytes(), where);
    workspace_ = device_buffer<unsigned char>{pool, stream, ew::global_norm_workspace_bytes, where};
    std::size_t const first = this->first();
    for (std::size_t i = 0; i < like.size(); ++i) {
      detail::element_range const range = core_.range(i);
      parameters_.add(like[i].name, parameter(range.first), type_, like[i].shape, where);
      if (like[i].size == 0) continue;
      check(cudaMemcpyAsync(parameter(range.first), like[i].data, like[i].bytes(),
                            cudaMemcpyDeviceToDevice, stream.get()),
            "cudaMemcpyAsync", where);
      // What of it is in this rank's part.
      std::size_t const begin = range.first > first ? range.first : first;
      std::size_t const whole = range.first + like[i].size;
      std::size_t const end = whole < first + core_.shard() ? whole : first + core_.shard();
      if (begin >= end) continue;
      std::string const name =
          like[i].name +
          (begin > range.first ? "[" + std::to_string(begin - range.first) + ":]" : "");
      shape_key const shape{end - begin};
      own_.add(name, parameter(begin), type_, shape, where);
      own_gradients_.add(name, core_.address(begin), type_, shape, where);
    }
    // The norm of the other ranks' gradients, as a gradient: so all clip and skip alike.
    auto* const others = reinterpret_cast<float*>(norms_.data() + 2);
    own_.add("sharded_optimizer.others", others, 1, where);
    own_gradients_.add("sharded_optimizer.others", others + 1, 1, where);
    comm_.broadcast(stream, arena_.data(), bytes, 0, where);
    optimizer_.made = new Optimizer{pool, stream, own_, with, where};
    comm_.synchronize(stream, where);
  }

  /// @return the parameters, in their order, with their names and shapes
  [[nodiscard]] tensor_list const& parameters() const noexcept { return parameters_; }
  /// @return where the backward pass writes the gradients. After a step they are sums in part
  [[nodiscard]] tensor_list const& gradients() const noexcept { return core_.gradients(); }
  /// As gradient_reducer::ready().
  void ready(stream_ref stream, std::size_t gradient,
             source_location where = source_location::current()) {
    core_.ready(stream, gradient, nullptr, nullptr, where);
  }
  /// Waits for the gradients, updates this rank's part of the parameters, and gathers all.
  /// @throws as gradient_reducer::finish() and optimizer::step()
  /// **Stream:** ordered on `stream`. **Cost:** a step of 1/ranks of the parameters, and an
  /// all-gather of them; with clip() or a scaler three small kernels and an all-reduce of one
  /// number.
  void step(stream_ref stream, source_location where = source_location::current()) {
    begin_step(stream, needs_norm_, where);
    optimizer_->step(stream, own_gradients_, where);
    gather(stream, arena_.data(), where);
  }
  /// As above, of scaled gradients: all ranks skip a step in which one has found an infinity.
  void step(stream_ref stream, loss_scaler& scaler,
            source_location where = source_location::current()) {
    begin_step(stream, true, where);
    optimizer_->step(stream, own_gradients_, scaler, where);
    gather(stream, arena_.data(), where);
  }
  /// Adds this rank's part of the state to what a checkpoint saves and restores: each rank saves
  /// its own, in a folder of its own, and the parameters need one rank only. It fits as many ranks
  /// alone.
  void add_to(tensor_list& list, std::string const& prefix = "optimizer") const {
    optimizer_->add_to(list, prefix);
  }
  [[nodiscard]] gradient_reducer_statistics statistics() const { return core_.statistics(); }

 private:
  static detail::reducer_values reducer_values_of(tensor_list const& like,
                                                  gradient_reducer_options const& reducing,
                                                  source_location where) {
    detail::reducer_values values = values_of(reducing);
    values.sharded = true;
    if (values.narrow) {
      detail::throw_invalid_argument("sharded_optimizer: narrow() is not possible", where);
    }
    for (tensor const& t : like) {
      values.type = like[0].type;
      if (t.type == like[0].type) continue;
      detail::throw_invalid_argument(detail::text{"sharded_optimizer: the tensors '"} +
                                         like[0].name + "' and '" + t.name +
                                         "' have different types; give one type",
                                     where);
    }
    return values;
  }
  static void clear(stream_ref stream, void* data, std::size_t bytes, source_location where) {
    if (bytes != 0) check(cudaMemsetAsync(data, 0, bytes, stream.get()), "cudaMemsetAsync", where);
  }
  [[nodiscard]] unsigned char* parameter(std::size_t element) const noexcept {
    return arena_.data() + element * size_of(type_);
  }
  [[nodiscard]] std::size_t first() const noexcept {
    return static_cast<std::size_t>(comm_.rank()) * core_.shard();
  }
  template <class T>
  void norm_of_own(stream_ref stream, source_location where) {
    ew::tensor_list<T const> list;
    list.add(static_cast<T const*>(core_.address(first())), core_.shard(), where);
    ew::global_norm(stream,
                    ew::prepare_workspace(stream, workspace_.data(), workspace_.size(), where),
                    list, norms_.data(), where);
  }
  void begin_step(stream_ref stream, bool with_norm, source_location where) {
    core_.finish(stream, where);
    if (!with_norm || core_.shard() == 0) return;
    if (type_ == element_type::float32) norm_of_own<float>(stream, where);
    if (type_ == element_type::float16) norm_of_own<__half>(stream, where);
    if (type_ == element_type::bfloat16) norm_of_own<__nv_bfloat16>(stream, where);
    double* const norm = norms_.data();
    for_each_index(stream, 1, sharding::square{norm, norm + 1}, where);
    comm_.all_reduce(stream, norm + 1, 1, reduction::sum, where);
    auto* const gradient = reinterpret_cast<float*>(norm + 2) + 1;
    for_each_index(stream, 1, sharding::add_norm_of_others{norm, norm + 1, gradient}, where);
  }
  void gather(stream_ref stream, unsigned char* all, source_location where) {
    std::size_t const bytes = core_.shard() * size_of(type_);
    comm_.all_gather(stream, all + first() * size_of(type_), all, bytes, where);
  }

  communicator& comm_;
  detail::reducer_core core_;
  element_type type_;
  bool needs_norm_;
  detail::collective_memory arena_;
  device_buffer<double> norms_;  // own norm, sum of squares, two floats
  device_buffer<unsigned char> workspace_;
  tensor_list parameters_, own_, own_gradients_;
  struct owner {
    Optimizer* made = nullptr;
    ~owner() { delete made; }
    Optimizer* operator->() const noexcept { return made; }
  } optimizer_;
};

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE

WARPWRIGHT_END
