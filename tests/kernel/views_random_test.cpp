// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Several views in one expression, of random shapes, orders and alignments, beside index(): run()
// against a plain loop. The values are small integers, so that results are exact.

#include <warpwright/kernel.hpp>
#include <warpwright/kernel/views.hpp>

#include "kernel/layouts.hpp"
#include "kernel/support.hpp"
#include "kernel/tile_selection.hpp"
#include "support/catch.hpp"

namespace ew = warpwright::ew;
namespace ww = warpwright;
using kernel_test::as_double;
using kernel_test::guarded;
using kernel_test::layout;
using kernel_test::random_numbers;
using kernel_test::small_integers;

namespace {

// Channels side by side and pixels, or two dimensions of about a tile's size, or anything.
layout random_shape(random_numbers& random) {
  std::size_t const kind = random.below(3);
  if (kind == 2) return kernel_test::random_layout(random, 4000);
  layout l;
  l.rank = 3 + static_cast<int>(random.below(2));
  for (std::int64_t& extent : l.shape) extent = static_cast<std::int64_t>(1 + random.below(2));
  std::int64_t* const last = l.shape + l.rank - 1;
  if (kind == 0) {
    *last = static_cast<std::int64_t>(random.below(2) == 0 ? 2048 : 2048 + random.below(200));
    last[-1] = static_cast<std::int64_t>(2 + random.below(4));
  } else {
    *last = static_cast<std::int64_t>(4 * (16 + random.below(9)) + random.below(2));
    last[-1] = static_cast<std::int64_t>(4 * (16 + random.below(9)) + random.below(2));
  }
  return l;
}

// The last two dimensions swapped in memory, with a gap behind each row, and sometimes turned
// round.
layout swapped(random_numbers& random, layout const& shape) {
  if (shape.rank < 2) return kernel_test::arranged(random, shape, true);
  layout l = shape;
  int const x = l.rank - 1;
  int const y = l.rank - 2;
  bool const gap = random.below(3) == 0;
  l.strides[y] = 1;
  l.strides[x] = l.shape[y] + (gap ? static_cast<std::int64_t>(random.below(5)) : 0);
  std::int64_t step = l.strides[x] * l.shape[x];
  for (int k = y - 1; k >= 0; --k) {
    l.strides[k] = step;
    step *= l.shape[k];
  }
  for (std::int64_t& stride : l.strides) {
    if (random.below(8) == 0) stride = -stride;
  }
  l.measure();
  return l;
}

// The same shape, of which some dimensions repeat: a number for each row, each channel, …
layout repeated(random_numbers& random, layout const& shape) {
  layout l = shape;
  std::int64_t step = 1;
  for (int k = l.rank - 1; k >= 0; --k) {
    bool const repeats = random.below(2) == 0;
    l.strides[k] = repeats ? 0 : step;
    if (!repeats) step *= l.shape[k];
  }
  l.measure();
  return l;
}

// The same elements without the first boundary between two dimensions.
layout merged(random_numbers& random, layout const& shape) {
  layout l = shape;
  if (l.rank > 1) {
    l.shape[0] *= l.shape[1];
    --l.rank;
    for (int k = 1; k < l.rank; ++k) l.shape[k] = l.shape[k + 1];
  }
  return kernel_test::arranged(random, l, true);
}

template <class T>
struct source {
  layout form;
  std::size_t offset;
  std::vector<T> values;
  source(random_numbers& random, layout const& l, bool aligned)
      : form{l},
        offset{aligned ? 0 : random.below(16)},
        values{small_integers<T>(l.span, 4, random.next())} {}
  double operator[](std::size_t i) const { return as_double(values[form.at(i)]); }
};

template <class O, class X>
struct trial {
  source<X> x, y;
  source<float> scale;
  source<O> before, beside;  // what the outputs hold before
  std::size_t n = x.form.elements;

  // Evaluates one kind of assignment and checks the result; returns whether tiles or pixels did it.
  bool check(ww::stream_ref stream, int kind) const {
    guarded<X> dx{x.values, x.offset};
    guarded<X> dy{y.values, y.offset};
    guarded<float> ds{scale.values, scale.offset};
    guarded<O> out{before.values, before.offset};
    guarded<O> second{beside.values, beside.offset};
    auto const view = [](auto& from, layout const& l) {
      return ew::view(from.data() + l.first, l.rank, l.shape, l.strides);
    };
    auto const run = [&](auto const&... assignment) {
      if constexpr (sizeof...(assignment) == 1) {
        ew::run(stream, assignment...);
      } else {
        ew::run(stream, ew::tie(assignment...));
      }
      return kernel_test::is_tiled(assignment...);
    };
    auto const a = view(dx, x.form);
    auto const b = view(dy, y.form);
    auto const s = view(ds, scale.form);
    layout const& to = before.form;
    auto const strided = ew::out(out.data() + to.first, to.rank, to.shape, to.strides);
    bool tiled = false;
    if (kind == 0) tiled = run(strided = a * s + 1);
    if (kind == 1) tiled = run(strided = a + b * s + ew::index() % 3);
    if (kind == 2) tiled = run(strided = a * s + b, ew::out(second.data(), n) = b + s);
    if (kind == 3) tiled = run(ew::out(second.data(), n) = a * s + 1);
    std::vector<O> const got = out.fetch(stream);
    std::vector<O> const other = second.fetch(stream);
    std::vector<O> expected = before.values;
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < n; ++i) {
      double const scaled = x[i] * scale[i];
      double const of_kind[] = {scaled + 1, x[i] + y[i] * scale[i] + static_cast<double>(i % 3),
                                scaled + y[i]};
      double const of_second[] = {beside[i], beside[i], y[i] + scale[i], scaled + 1};
      if (kind < 3) expected[to.at(i)] = kernel_test::number<O>(of_kind[kind]);
      wrong += as_double(other[i]) != of_second[kind];
    }
    for (std::size_t k = 0; k < got.size(); ++k) {
      wrong += as_double(got[k]) != as_double(expected[k]);
    }
    REQUIRE(wrong == 0);
    REQUIRE((out.intact(stream) && second.intact(stream)));
    REQUIRE((dx.intact(stream) && dy.intact(stream) && ds.intact(stream)));
    return tiled;
  }
};

template <class O, class X>
int check_random(std::uint64_t seed, int rounds) {
  random_numbers random{seed};
  ww::stream stream;
  int by_tiles = 0;
  for (int round = 0; round < rounds; ++round) {
    layout const shape = random_shape(random);
    bool const aligned = random.below(2) == 0;
    layout const first = swapped(random, shape);
    layout const other = random.below(2) == 0 ? swapped(random, shape) : merged(random, shape);
    layout plain = shape;
    std::int64_t step = 1;
    for (int k = plain.rank - 1; k >= 0; step *= plain.shape[k], --k) plain.strides[k] = step;
    plain.measure();
    layout const to = random.below(2) == 0 ? plain : kernel_test::arranged(random, shape, false);
    trial<O, X> const t{{random, first, aligned},
                        {random, other, aligned},
                        {random, repeated(random, shape), true},
                        {random, to, aligned},
                        {random, plain, aligned}};
    int const kind = round % 4;
    CAPTURE(seed, round, kind, shape.rank, t.n, first.strides[shape.rank - 1]);
    by_tiles += t.check(stream, kind) ? 1 : 0;
  }
  return by_tiles;
}

}  // namespace

TEST_CASE("views of random shapes beside each other") {
  CHECK(check_random<float, float>(101, 120) > 30);
  CHECK(check_random<unsigned char, double>(105, 120) > 30);
#if WARPWRIGHT_TEST_EVERY_TYPE
  CHECK(check_random<__half, __half>(102, 120) > 30);
  CHECK(check_random<unsigned char, unsigned char>(103, 120) > 30);
  CHECK(check_random<__half, unsigned char>(104, 120) > 30);
#endif
}
