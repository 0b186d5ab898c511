// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Shapes and strides for views, and the plain way to an element.
#pragma once

#include <utility>

#include "kernel/support.hpp"

namespace kernel_test {

// A shape of up to six dimensions, strides that stay within `span` elements, and where the first
// element lies in them.
struct layout {
  int rank = 0;
  std::int64_t shape[6] = {};
  std::int64_t strides[6] = {};
  std::int64_t first = 0;
  std::size_t span = 0;
  std::size_t elements = 1;

  void measure() {
    std::int64_t lowest = 0;
    std::int64_t highest = 0;
    elements = 1;
    for (int k = 0; k < rank; ++k) {
      elements *= static_cast<std::size_t>(shape[k]);
      std::int64_t const way = (shape[k] - 1) * strides[k];
      (way < 0 ? lowest : highest) += way;
    }
    first = -lowest;
    span = static_cast<std::size_t>(highest - lowest) + 1;
  }
  std::size_t at(std::size_t i) const {
    std::int64_t place = first;
    for (int k = rank - 1; k >= 0; --k) {
      auto const extent = static_cast<std::size_t>(shape[k]);
      place += static_cast<std::int64_t>(i % extent) * strides[k];
      i /= extent;
    }
    return static_cast<std::size_t>(place);
  }
};

// Row-major, then dimensions shuffled, cut, stretched, repeated and turned round.
inline layout random_layout(random_numbers& random, std::size_t limit) {
  layout l;
  l.rank = 1 + static_cast<int>(random.below(6));
  std::size_t room = limit;
  int order[6] = {0, 1, 2, 3, 4, 5};
  for (int k = l.rank - 1; k > 0; --k) {
    std::swap(order[k], order[random.below(static_cast<std::size_t>(k) + 1)]);
  }
  bool const shuffled = random.below(3) != 0;
  std::int64_t step = random.below(4) == 0 ? 1 + static_cast<std::int64_t>(random.below(3)) : 1;
  std::size_t const grain = std::size_t{1} << random.below(5);
  for (int k = l.rank - 1; k >= 0; --k) {
    int const d = shuffled ? order[k] : k;
    std::size_t extent = 1 + random.below(room < 40 ? room : (k == l.rank - 1 ? room : 40));
    if (extent > grain && random.below(2) == 0) extent = extent / grain * grain;
    room /= extent;
    if (room == 0) room = 1;
    l.shape[d] = static_cast<std::int64_t>(extent);
    l.strides[d] = step;
    step *= l.shape[d];
    if (random.below(6) == 0) step += static_cast<std::int64_t>(random.below(20));
    if (random.below(8) == 0) l.strides[d] = 0;
    if (random.below(6) == 0) l.strides[d] = -l.strides[d];
  }
  l.measure();
  return l;
}

// The same shape with strides of its own: the dimensions in any order of memory, some turned round,
// with gaps behind some, and without unless `repeats` says that a dimension may have a stride of 0.
inline layout arranged(random_numbers& random, layout const& shape, bool repeats) {
  layout l;
  l.rank = shape.rank;
  int order[6] = {0, 1, 2, 3, 4, 5};
  bool const shuffled = random.below(2) != 0;
  for (int k = l.rank - 1; k > 0 && shuffled; --k) {
    std::swap(order[k], order[random.below(static_cast<std::size_t>(k) + 1)]);
  }
  std::int64_t step = random.below(5) == 0 ? 1 + static_cast<std::int64_t>(random.below(3)) : 1;
  std::size_t const grain = std::size_t{1} << random.below(5);
  for (int k = l.rank - 1; k >= 0; --k) {
    int const d = order[k];
    l.shape[d] = shape.shape[d];
    l.strides[d] = step;
    step *= l.shape[d];
    if (random.below(4) == 0) {  // often to a multiple that suits vectors
      auto const round = static_cast<std::int64_t>(random.below(2) == 0 ? grain : 1);
      step = (step + static_cast<std::int64_t>(random.below(20)) + round - 1) / round * round;
    }
    if (repeats && random.below(8) == 0) l.strides[d] = 0;
    if (random.below(8) == 0) l.strides[d] = -l.strides[d];
  }
  l.measure();
  return l;
}

}  // namespace kernel_test
