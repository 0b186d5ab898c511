// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/core/detail/container/array.hpp>
#include <warpwright/core/tensor_list.hpp>
#include <warpwright/memory/buffer.hpp>
#include <warpwright/train/detail/optimizer_state.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

WARPWRIGHT_BEGIN

namespace detail {

template <class Rule>
struct rule_options;

/// An optimizer without its kernels: its tensors, and the one block of memory that its state is in.
class optimizer_core {
 public:
  void add_group(tensor_list const& parameters, optimizer_values const& values,
                 source_location where);
  /// @return the bytes that allocate() needs
  std::size_t plan(unsigned moments, source_location where);
  /// Takes the memory, and fills it.
  void allocate(device_buffer<unsigned char> memory, stream_ref stream, source_location where);

  /// @return whether the gradients lie where those of the last step did
  [[nodiscard]] bool is_bound(tensor_list const& gradients) const noexcept;
  /// Checks the gradients. @return whether the table of tensors must be told of them
  bool must_bind(tensor_list const& gradients, stream_ref stream, source_location where);

  /// The table of tensors has been told.
  void set_bound(tensor_list const& gradients);

  [[nodiscard]] optimizer_view view() const noexcept { return view_; }
  [[nodiscard]] gradient_sum* partial() const noexcept { return partial_; }
  [[nodiscard]] unsigned* ticket() const noexcept { return ticket_; }
  [[nodiscard]] float clip() const noexcept { return groups_[0].clip; }
  void add_to(tensor_list& list, std::string const& prefix) const;
  /// Adds the first moments, by the names of the parameters.
  void add_first(tensor_list& list) const;

 private:
  // A part of the memory.
  struct place {
    std::size_t offset = 0;
    std::size_t bytes = 0;
  };
  place take(std::size_t bytes) noexcept;
  template <class T>
  T* at(place const& p) const noexcept {
    return p.bytes == 0 ? nullptr : reinterpret_cast<T*>(memory_.data() + p.offset);
  }

  tensor_list parameters_;
  array<trained_tensor> tensors_;
  array<optimizer_values> groups_;
  array<void const*> bound_;
  array<element_type> bound_types_;
  bool captured_ = false;  // replays change the table, too
  unsigned moments_ = 0;
  std::size_t used_ = 0;
  std::uint32_t chunks_ = 0;
  struct state_places {
    place master, first, second;
  };
  array<state_places> places_;
  place table_, chunk_map_, options_, steps_, state_, partials_, ticket_place_;
  device_buffer<unsigned char> memory_;
  optimizer_view view_{};
  gradient_sum* partial_ = nullptr;
  unsigned* ticket_ = nullptr;
};

}  // namespace detail

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/train/detail/optimizer_core_definitions.hpp>
#endif
