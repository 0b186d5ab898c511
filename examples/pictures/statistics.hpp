// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What is computed of a picture: on the device of a batch, and on the host of one, in double.
#pragma once

#include "picture.hpp"

#include <warpwright/kernel.hpp>
#include <warpwright/kernel/reduce_matrix.hpp>
#include <warpwright/kernel/views.hpp>
#include <warpwright/memory/buffer.hpp>
#include <warpwright/memory/pool.hpp>

#include <cmath>
#include <cstddef>

namespace pictures {

namespace ww = warpwright;
namespace ew = warpwright::ew;

// What networks that were trained on ImageNet expect: (x / 255 - centre) / spread.
inline constexpr double centre[channels] = {0.485, 0.456, 0.406};
inline constexpr double spread[channels] = {0.229, 0.224, 0.225};

/// The statistics of a picture: the sum of its bytes, and of its normalised channels the means and
/// the standard deviations.
struct summary {
  double sum = 0.0;
  double mean[channels] = {};
  double deviation[channels] = {};
};

/// Normalises batches, and computes the statistics of each picture.
class batch_statistics {
 public:
  static constexpr std::size_t values = 1 + 2 * channels;  ///< of a picture

  /// @param largest_batch  the maximum of pictures of a batch
  batch_statistics(ww::memory_pool& pool, ww::stream_ref stream, std::size_t largest_batch)
      : normalised_{pool, stream, largest_batch * picture_bytes},
        scale_{pool, stream, channels},
        shift_{pool, stream, channels} {
    float scale[channels];
    float shift[channels];
    for (std::size_t c = 0; c < channels; ++c) {
      scale[c] = static_cast<float>(1.0 / (255.0 * spread[c]));
      shift[c] = static_cast<float>(-centre[c] / spread[c]);
    }
    scale_.copy_from(stream, scale, channels);
    shift_.copy_from(stream, shift, channels);
  }

  /// Enqueues the work with a batch, always on the same stream.
  /// @param bytes  count pictures of side x side pixels
  /// @param to     receives values * count numbers: sums, then means, then deviations
  void run(ww::stream_ref stream, unsigned char const* bytes, double* to, std::size_t count) {
    std::size_t const rows = count * channels;
    std::size_t const n = rows * pixels;
    double* const means = to + count;
    double* const deviations = means + rows;
    auto const each = [count](ww::device_buffer<float> const& channel) {
      return ew::view(channel.data(), {count, channels, side, side}, {0, 1, 0, 0});
    };
    auto const picture = ew::array(bytes, {count, side, side, channels});
    // Planes of floats, as a network would take them.
    ew::run(stream, ew::out(normalised_.data(), n) =
                        ew::view(picture.permuted({0, 3, 1, 2})) * each(scale_) + each(shift_));
    auto const x = ew::in(static_cast<float const*>(normalised_.data()), n);
    auto const apart = ew::cast<double>(x) - ew::col(static_cast<double const*>(means), pixels);
    ew::reduce_rows(stream, {count, picture_bytes},
                    ew::to(to) = ew::sum(ew::cast<std::uint32_t>(ew::in(bytes, n))));
    ew::reduce_rows(stream, {rows, pixels}, ew::to(means) = ew::mean(x).in<double>());
    ew::reduce_rows(stream, {rows, pixels}, ew::to(deviations) = ew::mean(apart * apart));
    ew::run(stream, ew::out(deviations, rows) = ew::sqrt(ew::in(deviations, rows)));
  }

  /// @param from  the results of a batch, on the host
  static summary result(double const* from, std::size_t count, std::size_t which) {
    summary one;
    one.sum = from[which];
    for (std::size_t c = 0; c < channels; ++c) {
      one.mean[c] = from[count + which * channels + c];
      one.deviation[c] = from[count * (1 + channels) + which * channels + c];
    }
    return one;
  }

 private:
  ww::device_buffer<float> normalised_;
  ww::device_buffer<float> scale_;
  ww::device_buffer<float> shift_;
};

/// The same of one picture, on the host in double.
inline summary summary_on_host(unsigned char const* bytes) {
  summary one;
  for (std::size_t c = 0; c < channels; ++c) {
    auto const value = [&](std::size_t pixel) {
      return (bytes[pixel * channels + c] / 255.0 - centre[c]) / spread[c];
    };
    for (std::size_t i = 0; i < pixels; ++i) {
      one.sum += bytes[i * channels + c];
      one.mean[c] += value(i) / pixels;
    }
    double squares = 0.0;
    for (std::size_t i = 0; i < pixels; ++i) {
      squares += (value(i) - one.mean[c]) * (value(i) - one.mean[c]) / pixels;
    }
    one.deviation[c] = std::sqrt(squares);
  }
  return one;
}

/// @return whether two are the same but for the rounding of float
inline bool agree(summary const& a, summary const& b) {
  bool same = std::fabs(a.sum - b.sum) < 0.5;
  for (std::size_t c = 0; c < channels; ++c) {
    same = same && std::fabs(a.mean[c] - b.mean[c]) < 1e-5 &&
           std::fabs(a.deviation[c] - b.deviation[c]) < 1e-5;
  }
  return same;
}

}  // namespace pictures
