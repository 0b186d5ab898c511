// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/train/detail/optimizer_core.hpp>

#include <warpwright/core/detail/container/sort.hpp>
#include <warpwright/core/detail/text/text.hpp>
#include <warpwright/train/detail/typed_elements.hpp>

#include <utility>

WARPWRIGHT_BEGIN

namespace detail {

WARPWRIGHT_COLD WARPWRIGHT_INLINE void optimizer_core::add_group(tensor_list const& parameters,
                                                                 optimizer_values const& values,
                                                                 source_location where) {
  auto const require = [&](bool holds, char const* name, float value, char const* remedy) {
    if (!holds) {
      throw_invalid_argument(
          text{"optimizer options: "} + name + " of " + static_cast<double>(value) + "; " + remedy,
          where);
    }
  };
  auto const decays = [](float x) { return x >= 0.0F && x < 1.0F; };
  rate_schedule const& schedule = values.schedule;
  require(values.rate >= 0.0F && values.rate <= 1e9F, "rate", values.rate, "give 0 to 1e9");
  require(values.decay >= 0.0F && values.decay <= 1e9F, "decay", values.decay, "give 0 to 1e9");
  require(values.clip >= 0.0F && values.clip <= 1e30F, "clip", values.clip, "give a norm above 0");
  require(decays(values.first_decay), "first beta, or momentum", values.first_decay,
          "give 0 to below 1");
  require(decays(values.second_decay), "second beta", values.second_decay, "give 0 to below 1");
  require(values.epsilon > 0.0F && values.epsilon <= 1e9F, "epsilon", values.epsilon,
          "give a number above 0");
  require(schedule.last >= 0.0F && schedule.last <= 1.0F, "last factor of the rate", schedule.last,
          "give 0 to 1");
  require(schedule.after_warm_up == rate_schedule::constant || schedule.total > schedule.warm_up,
          "total steps", static_cast<float>(schedule.total), "give more than the warm-up's");
  for (tensor const& t : parameters) {
    if (!is_trainable(t.type)) {
      throw_invalid_argument(text{"optimizer: parameter '"} + t.name + "' is of " +
                                 to_text(t.type) + "; give float32, float16 or bfloat16",
                             where);
    }
    trained_tensor made{};
    made.parameter = t.data;
    made.size = t.size;
    made.group = static_cast<std::uint16_t>(groups_.size());
    made.parameter_type = t.type;
    made.moment_type = values.small_moments ? element_type::bfloat16 : element_type::float32;
    tensors_.push_back(made);
  }
  parameters_.add(parameters, where);
  groups_.push_back(values);
}

WARPWRIGHT_INLINE optimizer_core::place optimizer_core::take(std::size_t bytes) noexcept {
  place const taken{used_, bytes};
  used_ += (bytes + 255) / 256 * 256;
  return taken;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE std::size_t optimizer_core::plan(unsigned moments,
                                                                   source_location where) {
  moments_ = moments;
  array<std::uint32_t> order;
  for (std::uint32_t i = 0; i < tensors_.size(); ++i) {
    if (tensors_[i].size != 0) order.push_back(i);
  }
  sort(order.begin(), order.size(),
       [&](std::uint32_t a, std::uint32_t b) { return parameters_[a].data < parameters_[b].data; });
  for (std::size_t k = 1; k < order.size(); ++k) {
    tensor const& before = parameters_[order[k - 1]];
    if (static_cast<char*>(before.data) + before.bytes() > parameters_[order[k]].data) {
      throw_invalid_argument(text{"optimizer: parameters '"} + before.name + "' and '" +
                                 parameters_[order[k]].name + "' overlap",
                             where);
    }
  }
  std::uint64_t chunks = 0;
  for (trained_tensor& t : tensors_) {
    optimizer_values const& with = groups_[t.group];
    t.first_chunk = static_cast<std::uint32_t>(chunks);
    chunks += (t.size + chunk_elements - 1) / chunk_elements;
    bool const needs_master =
        t.parameter_type != element_type::float32 && !with.stochastic_rounding;
    t.whole = has_quads(reinterpret_cast<std::uintptr_t>(t.parameter));
    state_places places;
    if (needs_master) places.master = take(t.size * sizeof(float));
    if (moments > 0) places.first = take(t.size * size_of(t.moment_type));
    if (moments > 1) places.second = take(t.size * size_of(t.moment_type));
    places_.push_back(places);
  }
  if (chunks > 0x7fffffffU) {
    throw_invalid_argument(
        text{"optimizer: "} + parameters_.elements() + " parameters; give at most 10^13", where);
  }
  chunks_ = static_cast<std::uint32_t>(chunks);
  state_ = take(sizeof(optimizer_state));
  table_ = take(tensors_.size() * sizeof(trained_tensor));
  chunk_map_ = take(chunks_ * sizeof(std::uint32_t));
  options_ = take(groups_.size() * sizeof(optimizer_values));
  steps_ = take(groups_.size() * sizeof(group_step));
  partials_ = take(norm_blocks * sizeof(gradient_sum));
  ticket_place_ = take(sizeof(unsigned));
  return used_;
}

WARPWRIGHT_INLINE void optimizer_core::allocate(device_buffer<unsigned char> memory,
                                                stream_ref stream, source_location where) {
  memory_ = std::move(memory);
  check(cudaMemsetAsync(memory_.data(), 0, memory_.size(), stream.get()), "cudaMemsetAsync", where);
  array<std::uint32_t> tensor_of;
  tensor_of.reserve(chunks_);
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    trained_tensor& t = tensors_[i];
    t.master = at<float>(places_[i].master);
    t.first = at<void*>(places_[i].first);
    t.second = at<void*>(places_[i].second);
    for (std::uint64_t done = 0; done < t.size; done += chunk_elements) {
      tensor_of.push_back(static_cast<std::uint32_t>(i));
    }
  }
  auto const upload = [&](place const& to, void const* from) {
    if (to.bytes == 0) return;
    check(cudaMemcpyAsync(memory_.data() + to.offset, from, to.bytes, cudaMemcpyHostToDevice,
                          stream.get()),
          "cudaMemcpyAsync", where);
  };
  upload(table_, tensors_.begin());
  upload(chunk_map_, tensor_of.begin());
  upload(options_, groups_.begin());
  stream.synchronize(where);
  view_ = optimizer_view{at<trained_tensor>(table_),
                         at<std::uint32_t>(chunk_map_),
                         chunks_,
                         static_cast<std::uint32_t>(groups_.size()),
                         at<optimizer_values>(options_),
                         at<group_step>(steps_),
                         at<optimizer_state>(state_)};
  partial_ = at<gradient_sum>(partials_);
  ticket_ = at<unsigned>(ticket_place_);
}

WARPWRIGHT_INLINE bool optimizer_core::is_bound(tensor_list const& gradients) const noexcept {
  if (bound_.size() != gradients.size()) return false;
  for (std::size_t i = 0; i < bound_.size(); ++i) {
    if (bound_[i] != gradients[i].data || bound_types_[i] != gradients[i].type) return false;
  }
  return true;
}

WARPWRIGHT_INLINE bool optimizer_core::must_bind(tensor_list const& gradients, stream_ref stream,
                                                 source_location where) {
  if (gradients.size() != parameters_.size()) {
    throw_invalid_argument(text{"optimizer: "} + gradients.size() + " gradients for " +
                               parameters_.size() + " parameters; give one for each",
                           where);
  }
  // A graph brings the addresses that it was captured with, so that one cannot know what is there.
  captured_ = captured_ || stream.is_capturing(where);
  if (is_bound(gradients)) return captured_;
  bound_.clear();
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    tensor const& g = gradients[i];
    tensor const& p = parameters_[i];
    if (g.shape != p.shape || !is_trainable(g.type)) {
      throw_invalid_argument(text{"optimizer: gradient '"} + g.name + "' of " + to_text(g.type) +
                                 " " + g.shape.to_text().c_str() + " for parameter '" + p.name +
                                 "' of " + p.shape.to_text().c_str() +
                                 "; give float32, float16 or bfloat16, of one shape",
                             where);
    }
  }
  return true;
}

WARPWRIGHT_INLINE void optimizer_core::set_bound(tensor_list const& gradients) {
  bound_.clear();
  bound_types_.clear();
  for (tensor const& g : gradients) {
    bound_.push_back(g.data);
    bound_types_.push_back(g.type);
  }
}

WARPWRIGHT_INLINE void optimizer_core::add_first(tensor_list& list) const {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    list.add(parameters_[i].name, tensors_[i].first, tensors_[i].moment_type, parameters_[i].shape);
  }
}

WARPWRIGHT_INLINE void optimizer_core::add_to(tensor_list& list, std::string const& prefix) const {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    tensor const& p = parameters_[i];
    trained_tensor const& t = tensors_[i];
    auto const add = [&](char const* what, void* data, element_type type) {
      if (data != nullptr) list.add(prefix + '.' + what + '.' + p.name, data, type, p.shape);
    };
    add("master", t.master, element_type::float32);
    add("first", t.first, t.moment_type);
    add("second", t.second, t.moment_type);
  }
  list.add(prefix + ".state", reinterpret_cast<std::uint32_t*>(view_.state), 8);
}

}  // namespace detail

WARPWRIGHT_END
