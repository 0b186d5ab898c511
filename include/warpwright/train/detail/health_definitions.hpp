// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/train/health.hpp>

#include <warpwright/core/detail/text/figures.hpp>
#include <warpwright/core/detail/text/text.hpp>

WARPWRIGHT_BEGIN

namespace detail {

WARPWRIGHT_COLD WARPWRIGHT_INLINE health_values checked(health_values const& values,
                                                        source_location where) {
  if (!(values.outlier > 0.0F && values.outlier <= 1e9F) || values.window < 2 ||
      values.window > 1000000) {
    throw_invalid_argument(text{"health_options: outlier of "} +
                               static_cast<double>(values.outlier) + " and window of " +
                               values.window +
                               "; give deviations above 0, and 2 to 1,000,000 steps",
                           where);
  }
  return values;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE health_report read_health(health_state const* state,
                                                            std::uint64_t const* counts,
                                                            tensor_list const& tensors,
                                                            stream_ref stream,
                                                            source_location where) {
  health_state s{};
  array<std::uint64_t> found{tensors.size() + 1};
  check(cudaMemcpyAsync(&s, state, sizeof s, cudaMemcpyDeviceToHost, stream.get()),
        "cudaMemcpyAsync", where);
  check(cudaMemcpyAsync(found.begin(), counts, found.size() * sizeof(std::uint64_t),
                        cudaMemcpyDeviceToHost, stream.get()),
        "cudaMemcpyAsync", where);
  stream.synchronize(where);
  health_report r;
  auto const tell = [](health_report::series& to, health_series const& from) {
    to.values = from.values;
    to.not_finite = from.not_finite;
    to.outliers = from.outliers;
    to.last_outlier = from.last_outlier;
    to.mean = from.mean;
    to.deviation = ::sqrtf(from.variance);
    to.last = from.last;
  };
  tell(r.loss, s.loss);
  tell(r.norm, s.norm);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (found[i] == 0) continue;
    if (r.tensors++ == 0) r.first_tensor = tensors[i].name;
    r.not_finite += found[i];
  }
  return r;
}

}  // namespace detail

WARPWRIGHT_COLD WARPWRIGHT_INLINE std::string health_report::to_text() const {
  detail::string_builder t;
  auto const line = [&](char const* name, series const& s) {
    if (s.values == 0) return;
    t = t + name + std::size_t{s.values} + " values, " +
        detail::format_significant(static_cast<double>(s.mean), 4) + " on average, deviation " +
        detail::format_significant(static_cast<double>(s.deviation), 3) + ", last " +
        detail::format_significant(static_cast<double>(s.last), 4) + "; " +
        detail::counted(s.outliers, "outlier");
    if (s.outliers != 0) t = t + ", the last one in step " + std::size_t{s.last_outlier};
    t = t + ", " + std::size_t{s.not_finite} + " not finite\n";
  };
  line("loss     ", loss);
  line("norm     ", norm);
  t = t + "tensors  " + static_cast<std::size_t>(not_finite) + " elements are not finite";
  if (not_finite != 0) {
    t = t + ", in " + detail::counted(tensors, "tensor") + ", the first one '" + first_tensor +
        '\'';
  }
  return t + '\n';
}

WARPWRIGHT_END
