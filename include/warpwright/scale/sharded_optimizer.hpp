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

WARPWRIGHT_BEGIN

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

/// An optimizer of train/ with 1/ranks of its state in each rank.
///
/// Parameters and gradients lie in two arrays of its own, in which each rank has a part of the same
/// size: parts begin and end anywhere in a tensor, and a part is one tensor of the optimizer. The
/// parameters after a step are the same bits as those of a whole optimizer behind a
/// gradient_reducer, where NCCL sums in the same order; with clip() or a loss_scaler the norm is
/// summed in another order.
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
  sharded_optimizer(communicator& comm, memory_pool& pool, stream_ref stream,
                    tensor_list const& like, options const& with = {},
                    gradient_reducer_options const& reducing = {},
                    source_location where = source_location::current())
      : comm_{comm},
        core_{comm, pool, stream, like, options_for(like, reducing, where), where},
        part_bytes_{core_.shard() * size_of(core_.type())},
        offset_{part_bytes_ * static_cast<std::size_t>(comm.rank())},
        needs_norm_{values_of(with).clip > 0.0F},
        arena_{core_of(comm)},
        norms_{pool, stream, 2 * static_cast<std::size_t>(comm.ranks()), where},
        workspace_{pool, stream, ew::global_norm_workspace_bytes, where},
        optimizer_{pool, stream, make_part(pool, stream, like, where), with, where} {
    comm_.synchronize(stream, where);
  }

  /// @return the parameters, in their order, with their names and shapes
  [[nodiscard]] tensor_list const& parameters() const noexcept { return parameters_; }
  /// @return where the backward pass writes the gradients. After a step they are sums in part
  [[nodiscard]] tensor_list const& gradients() const noexcept { return core_.gradients(); }
  /// As gradient_reducer::ready().
  void ready(stream_ref stream, std::size_t gradient,
             source_location where = source_location::current()) {
    core_.ready(stream, gradient, where);
  }
  /// Waits for the gradients, updates this rank's part of the parameters, and gathers all.
  /// @throws as gradient_reducer::finish() and optimizer::step()
  /// **Stream:** ordered on `stream`. **Cost:** a step of 1/ranks of the parameters, and an
  /// all-gather of them; with clip() or a scaler two small kernels and an all-gather of a number.
  void step(stream_ref stream, source_location where = source_location::current()) {
    begin_step(stream, needs_norm_, where);
    optimizer_.step(stream, part_gradients_, where);
    gather(stream, arena_.data(), where);
  }
  /// As above, of scaled gradients: all ranks skip a step in which one has found an infinity.
  void step(stream_ref stream, loss_scaler& scaler,
            source_location where = source_location::current()) {
    begin_step(stream, true, where);
    optimizer_.step(stream, part_gradients_, scaler, where);
    gather(stream, arena_.data(), where);
  }
  /// Adds this rank's part of the state to what a checkpoint saves and restores: each rank saves
  /// its own, in a folder of its own, and the parameters need one rank only. It fits as many ranks
  /// alone.
  void add_to(tensor_list& list, std::string const& prefix = "optimizer") const {
    optimizer_.add_to(list, prefix);
  }
  [[nodiscard]] gradient_reducer_statistics statistics() const { return core_.statistics(); }

 private:
  static gradient_reducer_options options_for(tensor_list const& like,
                                              gradient_reducer_options const& reducing,
                                              source_location where) {
    for (tensor const& t : like) {
      if (t.type == like[0].type) continue;
      detail::throw_invalid_argument(detail::text{"sharded_optimizer: the tensors '"} +
                                         like[0].name + "' and '" + t.name +
                                         "' have different types; give one type",
                                     where);
    }
    return reducing.type(like.size() != 0 ? like[0].type : element_type::float32).sharded();
  }
  // Makes the array of parameters. @return this rank's part
  tensor_list const& make_part(memory_pool& pool, stream_ref stream, tensor_list const& like,
                               source_location where) {
    std::size_t const bytes = part_bytes_ * static_cast<std::size_t>(comm_.ranks());
    auto const call = [&](void* data) { gather(stream, data, where); };
    arena_.allocate(pool, stream, bytes, true, stream, call, where);
    for (tensor const& t : like) {
      void* const gradient = gradients()[parameters_.size()].data;
      auto* const data = arena_.data() + (static_cast<unsigned char*>(gradient) - core_.data());
      parameters_.add(t.name, data, t.type, t.shape, where);
      if (t.size == 0) continue;
      check(cudaMemcpyAsync(data, t.data, t.bytes(), cudaMemcpyDeviceToDevice, stream.get()),
            "cudaMemcpyAsync", where);
    }
    comm_.broadcast(stream, arena_.data(), bytes, 0, where);
    check(cudaMemsetAsync(norms_.data(), 0, norms_.size_bytes(), stream.get()), "cudaMemsetAsync",
          where);
    part_.add("part", arena_.data() + offset_, core_.type(), core_.shard(), where);
    part_gradients_.add("part", core_.data() + offset_, core_.type(), core_.shard(), where);
    // The norms of the other ranks' parts, as gradients: so all clip and skip alike.
    part_.add("others", norms_.data() + comm_.ranks(), comm_.ranks(), where);
    part_gradients_.add("others", norms_.data(), comm_.ranks(), where);
    return part_;
  }
  template <class T>
  void norm_of_part(stream_ref stream, float* norm, source_location where) {
    ew::tensor_list<T const> list;
    list.add(static_cast<T const*>(part_gradients_[0].data), core_.shard(), where);
    ew::global_norm(stream,
                    ew::prepare_workspace(stream, workspace_.data(), workspace_.size(), where),
                    list, norm, where);
  }
  void begin_step(stream_ref stream, bool with_norm, source_location where) {
    core_.finish(stream, where);
    if (!with_norm || core_.shard() == 0) return;
    float* const own = norms_.data() + comm_.rank();
    if (core_.type() == element_type::float32) norm_of_part<float>(stream, own, where);
    if (core_.type() == element_type::float16) norm_of_part<__half>(stream, own, where);
    if (core_.type() == element_type::bfloat16) norm_of_part<__nv_bfloat16>(stream, own, where);
    comm_.all_gather(stream, own, norms_.data(), 1, where);
    check(cudaMemsetAsync(own, 0, sizeof *own, stream.get()), "cudaMemsetAsync", where);
  }
  void gather(stream_ref stream, void* data, source_location where) {
    auto* const all = static_cast<unsigned char*>(data);
    comm_.all_gather(stream, all + offset_, all, part_bytes_, where);
  }

  communicator& comm_;
  gradient_reducer core_;
  std::size_t part_bytes_, offset_;
  bool needs_norm_;
  detail::collective_memory arena_;
  device_buffer<float> norms_;  // of each rank's part, and as many zeros
  device_buffer<unsigned char> workspace_;
  tensor_list parameters_, part_, part_gradients_;
  Optimizer optimizer_;
};

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE

WARPWRIGHT_END
