// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Three implementations of a transpose, and for each shape the one that is the fastest on this
// device. With an argument, keeps the choices in that file, and measures nothing the second time.
#include <warpwright/core/device.hpp>
#include <warpwright/core/launch.hpp>
#include <warpwright/kernel.hpp>
#include <warpwright/kernel/views.hpp>
#include <warpwright/tune/chooser.hpp>

#include <cstdio>
#include <exception>
#include <optional>
#include <vector>

namespace ww = warpwright;
namespace ew = warpwright::ew;

// A thread for each element of the result: reads with a stride.
struct gather {
  float const* in;
  float* out;
  std::uint64_t rows, cols;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const {
    out[i] = in[i % rows * cols + i / rows];
  }
};

// A thread for each element of the input: writes with a stride.
struct scatter {
  float const* in;
  float* out;
  std::uint64_t rows, cols;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const {
    out[i % cols * rows + i / cols] = in[i];
  }
};
