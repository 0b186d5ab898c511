// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Whether a run is well, watched on the device and told when somebody asks:
//
//   ww::health health{pool, stream, gradients};
//   health.observe(stream, loss, optimizer.gradient_norm());   // in every step: one thread
//   health.scan(stream);                                       // now and then: reads all tensors
//   ww::health_report const r = health.read(stream);
//   if (!r.is_well()) std::fputs(r.to_text().c_str(), stderr);
#pragma once

#include <warpwright/core/detail/options.hpp>
#include <warpwright/train/detail/health_kernels.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

WARPWRIGHT_BEGIN

/// Options of a health. Every setter returns a changed copy.
class health_options : public detail::options_base<health_options, detail::health_values> {
 public:
  /// @param deviations  from the mean, in standard deviations, beyond which a value is an outlier;
  ///   above 0; default: 6
  constexpr self outlier(float deviations) const { return with(&values::outlier, deviations); }
  /// @param steps  that the mean and the deviation are of, with weights that fall; at least 2;
  ///   default: 128. The first quarter of it is no outlier
  constexpr self window(std::uint32_t steps) const { return with(&values::window, steps); }
};

/// What a health has counted.
struct health_report {
  /// One of the two series of observe().
  struct series {
    std::uint32_t values = 0;
    std::uint32_t not_finite = 0;
    std::uint32_t outliers = 0;
    std::uint32_t last_outlier = 0;  ///< its number, from 1
    float mean = 0.0F;               ///< of the window, without outliers
    float deviation = 0.0F;          ///< standard
    float last = 0.0F;
  };
  series loss;
  series norm;
  std::uint64_t not_finite = 0;  ///< elements, in the last scan()
  std::size_t tensors = 0;       ///< that have such
  std::string first_tensor;      ///< the first of them

  /// @return whether nothing was found
  [[nodiscard]] bool is_well() const noexcept {
    return loss.not_finite + loss.outliers + norm.not_finite + norm.outliers == 0 &&
           not_finite == 0;
  }
  /// @return a line for each of the three
  [[nodiscard]] std::string to_text() const;
};

namespace detail {

/// Reads the state of a health, and blocks.
health_report read_health(health_state const* state, std::uint64_t const* counts,
                          tensor_list const& tensors, stream_ref stream, source_location where);

}  // namespace detail

inline namespace WARPWRIGHT_COMPILER_NAMESPACE WARPWRIGHT_HIDDEN_NAMESPACE {

/// Counts what is not finite, and values that are far from those before them.
///
/// @pre the tensors and the pool outlive it; tensors do not move
/// **Threads:** one at a time. **Stream:** use it on one stream, or order the streams.
/// **Capture:** observe() and scan() may be captured; a replay counts on.
template <class Kernel>
class health_watch {
 public:
  /// @param tensors  float32, float16 or bfloat16; for scan()
  /// @throws std::invalid_argument      for an option or a tensor that is not allowed
  /// @throws out_of_memory, cuda_error  when there is no memory, or a copy fails
  /// **Stream:** blocks until `stream` has come here. **Capture:** not legal.
  template <class Pool>
  health_watch(Pool& pool, stream_ref stream, tensor_list const& tensors,
               health_options const& options = {},
               source_location where = source_location::current())
      : values_{detail::checked(values_of(options), where)},
        tensors_{tensors},
        state_{pool, stream, 1, where},
        counts_{pool, stream, tensors.size() + 1, where} {
    detail::optimizer_values unused;
    unused.stochastic_rounding = true;  // no masters
    core_.add_group(tensors, unused, where);
    core_.allocate(device_buffer<unsigned char>{pool, stream, core_.plan(0, where), where}, stream,
                   where);
    check(cudaMemsetAsync(state_.data(), 0, state_.size_bytes(), stream.get()), "cudaMemsetAsync",
          where);
    check(cudaMemsetAsync(counts_.data(), 0, counts_.size_bytes(), stream.get()), "cudaMemsetAsync",
          where);
  }

  /// Takes the loss and the norm of the gradients of a step.
  /// @param loss, norm  numbers in device memory; null: not watched
  /// **Stream:** ordered on `stream`. **Cost:** a kernel of one block.
  void observe(stream_ref stream, float const* loss, float const* norm = nullptr,
               source_location where = source_location::current()) {
    using observe_kernel = typename Kernel::observe_kernel;
    detail::launch_blocks(stream, 1, detail::warp_size,
                          observe_kernel{{}, state_.data(), values_, loss, norm},
                          "warpwright::health", where);
  }
  /// Counts the elements of each tensor that are not finite, as they are now.
  /// **Stream:** ordered on `stream`. **Cost:** a kernel that reads all of them.
  void scan(stream_ref stream, source_location where = source_location::current()) {
    check(cudaMemsetAsync(counts_.data(), 0, counts_.size_bytes(), stream.get()), "cudaMemsetAsync",
          where);
    if (core_.view().chunks == 0) return;
    detail::launch_blocks(stream, core_.view().chunks, detail::train_threads,
                          Kernel{{}, core_.view(), counts_.data()}, "warpwright::health", where);
  }
  /// Reads what was counted. **Stream:** blocks until `stream` has come here. **Capture:** not
  /// legal.
  [[nodiscard]] health_report read(stream_ref stream,
                                   source_location where = source_location::current()) const {
    return detail::read_health(state_.data(), counts_.data(), tensors_, stream, where);
  }

 private:
  detail::health_values values_;
  tensor_list tensors_;
  detail::optimizer_core core_;
  device_buffer<detail::health_state> state_;
  device_buffer<std::uint64_t> counts_;  // of each tensor
};

using health = health_watch<detail::scan_kernel>;

}  // namespace WARPWRIGHT_HIDDEN_NAMESPACE

WARPWRIGHT_END

#if !WARPWRIGHT_COMPILED
#include <warpwright/train/detail/health_definitions.hpp>
#endif
