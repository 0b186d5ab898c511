// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A step of AdamW, SGD or Lion for all parameters in two kernels, without the host: gradients are
// unscaled, checked and clipped by their norm, the schedule goes on, and 16-bit parameters get
// rounded from float ones.
//
//   ww::adamw optimizer{pool, stream, parameters, ww::adamw_options{}.decay(0.1F).clip(1.0F)};
//   optimizer.step(stream, gradients, scaler);
#pragma once

#include <warpwright/core/detail/options.hpp>
#include <warpwright/train/detail/average_kernels.hpp>
#include <warpwright/train/detail/optimizer_core.hpp>
#include <warpwright/train/detail/optimizer_kernels.hpp>
#include <warpwright/train/loss_scaler.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>

WARPWRIGHT_BEGIN

/// What the options of all optimizers have in common. Every setter returns a changed copy.
template <class Self>
class optimizer_options : public detail::options_base<Self, detail::optimizer_values> {
 public:
  using values = detail::optimizer_values;

  /// @param rate  the learning rate, not negative; default: 1e-3
  constexpr Self rate(float rate) const { return this->with(&values::rate, rate); }
  /// @param factor  weight decay, not negative; default: 0
  constexpr Self decay(float factor) const { return this->with(&values::decay, factor); }
  /// Scales the gradients so that the norm of all of them is at most this.
  /// @param norm  above 0; default: gradients are not clipped. The first group's counts
  constexpr Self clip(float norm) const { return this->with(&values::clip, norm); }
  /// The rate rises to rate() in so many steps.
  constexpr Self warm_up(std::uint32_t steps) const {
    auto schedule = this->values_.schedule;
    schedule.warm_up = steps;
    return this->with(&values::schedule, schedule);
  }
  /// The rate then falls along half a cosine.
  /// @param total  steps, those of warm_up() among them
  /// @param last   factor of the rate from then on, 0 to 1
  constexpr Self cosine(std::uint32_t total, float last = 0.0F) const {
    return falls(detail::rate_schedule::cosine, total, last);
  }
  /// The rate then falls in proportion to the steps. Otherwise as cosine().
  constexpr Self linear(std::uint32_t total, float last = 0.0F) const {
    return falls(detail::rate_schedule::linear, total, last);
  }
  /// Keeps the moments in bfloat16, rounded to nearest.
  constexpr Self small_moments(bool on = true) const {
    return this->with(&values::small_moments, on);
  }
  /// 16-bit parameters have no float copies: their new values are rounded up or down at random.
  /// @param seed  the same seed gives the same bits
  constexpr Self stochastic_rounding(std::uint64_t seed = 0) const {
    return this->with(&values::stochastic_rounding, true).with(&values::seed, seed);
  }

 protected:
  friend Self;
  using detail::options_base<Self, values>::with;

 private:
  constexpr Self falls(detail::rate_schedule::kind kind, std::uint32_t total, float last) const {
    auto schedule = this->values_.schedule;
    schedule.after_warm_up = kind;
    schedule.total = total;
    schedule.last = last;
    return this->with(&values::schedule, schedule);
  }
};

/// Options of adamw.
class adamw_options : public optimizer_options<adamw_options> {
 public:
  /// @param first, second  0 to below 1; default: 0.9 and 0.999
  constexpr adamw_options betas(float first, float second) const {
    return with(&values::first_decay, first).with(&values::second_decay, second);
  }
  /// @param value  above 0; default: 1e-8
  constexpr adamw_options epsilon(float value) const { return with(&values::epsilon, value); }
};

/// Options of sgd.
class sgd_options : public optimizer_options<sgd_options> {
 public:
  /// @param factor  0 to below 1; default: 0.9
  constexpr sgd_options momentum(float factor) const { return with(&values::first_decay, factor); }
  constexpr sgd_options nesterov(bool on = true) const { return with(&values::nesterov, on); }
};

/// Options of lion.
class lion_options : public optimizer_options<lion_options> {
 public:
  constexpr lion_options() { values_.second_decay = 0.99F; }
  /// @param first, second  0 to below 1; default: 0.9 and 0.99
  constexpr lion_options betas(float first, float second) const {
    return with(&values::first_decay, first).with(&values::second_decay, second);
  }
};

/// Parameters and their options, for optimizers with several groups.
template <class Options>
struct parameter_group {
  tensor_list const& parameters;
  Options options;
};

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

/// Updates parameters by their gradients: adamw, sgd or lion.
///
/// Parameters of float16 and bfloat16 have float copies of their own, which are updated and then
/// rounded. All state is on the device.
///
/// @pre the parameters and the pool outlive it; parameters do not move
/// **Threads:** one at a time. **Stream:** use it on one stream, or order the streams.
template <class Rule>
class optimizer {
 public:
  using options = typename detail::rule_options<Rule>::type;

  /// Allocates and clears the state.
  /// @param parameters  float32, float16 or bfloat16; none overlaps another
  /// @throws std::invalid_argument      for an option or a tensor that is not allowed
  /// @throws out_of_memory, cuda_error  when there is no memory, or a launch fails
  /// **Stream:** blocks until `stream` has come here. **Capture:** not legal.
  template <class Pool>
  optimizer(Pool& pool, stream_ref stream, tensor_list const& parameters,
            options const& with = options{}, source_location where = source_location::current())
      : optimizer{pool, stream, {parameter_group<options>{parameters, with}}, where} {}
  /// As above, with options for each group of parameters. The gradients of step() are in the order
  /// of the groups, one behind the other.
  template <class Pool>
  optimizer(Pool& pool, stream_ref stream, std::initializer_list<parameter_group<options>> groups,
            source_location where = source_location::current()) {
    for (parameter_group<options> const& g : groups) {
      core_.add_group(g.parameters, values_of(g.options), where);
    }
    core_.allocate(
        device_buffer<unsigned char>{pool, stream, core_.plan(Rule::moments, where), where}, stream,
        where);
    if (core_.view().chunks == 0) return;
    detail::launch_blocks(stream, core_.view().chunks, detail::train_threads,
                          detail::masters_kernel{{}, core_.view()}, Rule::name, where);
  }

  /// Updates the parameters.
  /// @param gradients  one for each parameter, in their order and of its shape; float32, float16 or
  ///   bfloat16
  /// @throws std::invalid_argument  for other gradients
  /// @throws cuda_error             when a launch fails
  /// **Stream:** ordered on `stream`; does not block.
  /// **Capture:** legal; a replay reads the gradients at the same addresses, and goes on from the
  /// state that it finds: the number of the step, the schedule, the moments.
  /// **Cost:** two kernels; in a capture and behind it, and where gradients have moved, one more
  /// for each 400 tensors.
  void step(stream_ref stream, tensor_list const& gradients,
            source_location where = source_location::current()) {
    run(stream, gradients, nullptr, {}, where);
  }
  /// As above. Gradients are divided by the scale; where one is then not finite the step is
  /// skipped, and the scale falls.
  void step(stream_ref stream, tensor_list const& gradients, loss_scaler& scaler,
            source_location where = source_location::current()) {
    using access = detail::loss_scaler_access;
    if (!core_.is_bound(gradients)) access::name_gradients(scaler, gradients);
    run(stream, gradients, access::state(scaler), access::values(scaler), where);
  }

  /// @return the norm of the gradients of the last step, unscaled and before they were clipped, in
  ///   device memory; 0 where neither clip() nor a loss_scaler needs it
  [[nodiscard]] float const* gradient_norm() const noexcept { return &core_.view().state->norm; }
  /// @return steps that were not skipped, in device memory
  [[nodiscard]] std::uint32_t const* steps() const noexcept { return &core_.view().state->steps; }
  /// Adds the state to what a checkpoint saves and restores.
  /// @param prefix  of the names
  void add_to(tensor_list& list, std::string const& prefix = "optimizer") const {
    core_.add_to(list, prefix);
  }

 private:
  void run(stream_ref stream, tensor_list const& gradients, detail::loss_scaler_state* scaler,
           detail::loss_scaler_values const& scaling, source_location where) {
    using namespace detail;
    bind_gradients(core_, stream, gradients, Rule::name, where);
    optimizer_view const view = core_.view();
    if (view.chunks == 0) return;
    measure_kernel measure{
        {},     view,    core_.partial(), core_.ticket(),
        scaler, scaling, core_.clip(),    scaler != nullptr || core_.clip() > 0.0F};
    std::uint32_t const blocks = view.chunks < norm_blocks ? view.chunks : norm_blocks;
    launch_blocks(stream, measure.reads ? blocks : 1, train_threads, measure, Rule::name, where);
    launch_blocks(stream, view.chunks, train_threads, update_kernel<Rule>{{}, view}, Rule::name,
                  where);
  }

  detail::optimizer_core core_;
};

/// The exponential moving average of parameters, in float: a = decay * a + (1 - decay) * p.
///
/// @pre the parameters and the pool outlive it; parameters do not move
/// **Threads:**, **Stream:** as optimizer
template <class Kernel>
class mean_of_parameters {
 public:
  /// The averages begin as the parameters are.
  /// @param decay  0 to below 1
  /// @throws as optimizer. **Stream:** blocks until `stream` has come here. **Capture:** not legal.
  template <class Pool>
  mean_of_parameters(Pool& pool, stream_ref stream, tensor_list const& parameters, float decay,
                     source_location where = source_location::current())
      : decay_{decay} {
    detail::optimizer_values values;
    values.first_decay = decay;
    values.stochastic_rounding = true;  // no masters
    core_.add_group(parameters, values, where);
    core_.allocate(device_buffer<unsigned char>{pool, stream, core_.plan(1, where), where}, stream,
                   where);
    move(stream, 1.0, where);
  }
  /// Takes the parameters as they are now.
  /// **Stream:** ordered on `stream`. **Capture:** legal. **Cost:** one kernel.
  void update(stream_ref stream, source_location where = source_location::current()) {
    move(stream, 1.0 - static_cast<double>(decay_), where);
  }
  /// @return the averages, float32, by the names of the parameters
  [[nodiscard]] tensor_list averages() const {
    tensor_list list;
    core_.add_first(list);
    return list;
  }
  /// Adds them to what a checkpoint saves and restores.
  void add_to(tensor_list& list, std::string const& prefix = "ema") const {
    core_.add_to(list, prefix);
  }

 private:
  void move(stream_ref stream, double share, source_location where) {
    detail::optimizer_view const view = core_.view();
    if (view.chunks == 0) return;
    detail::launch_blocks(stream, view.chunks, detail::train_threads,
                          Kernel{{}, view, core_.ticket(), false, false, share, nullptr},
                          "warpwright::ema", where);
  }

  float decay_;
  detail::optimizer_core core_;
};

using ema = mean_of_parameters<detail::mean_kernel>;

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE

namespace detail {
template <>
struct rule_options<adamw_rule> {
  using type = adamw_options;
};
template <>
struct rule_options<sgd_rule> {
  using type = sgd_options;
};
template <>
struct rule_options<lion_rule> {
  using type = lion_options;
};
}  // namespace detail

using adamw = optimizer<detail::adamw_rule>;
using sgd = optimizer<detail::sgd_rule>;
using lion = optimizer<detail::lion_rule>;

WARPWRIGHT_END
