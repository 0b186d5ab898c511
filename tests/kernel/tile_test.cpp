// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The axes of views, the plans of tiles and pixels, and run() by them against a plain loop.

#include <warpwright/kernel.hpp>
#include <warpwright/kernel/views.hpp>

#include <algorithm>

#include "kernel/layouts.hpp"
#include "kernel/support.hpp"
#include "kernel/sweep.hpp"
#include "kernel/tile_selection.hpp"
#include "support/catch.hpp"
#include "support/device_memory.hpp"

namespace ew = warpwright::ew;
using ew::detail::axes;
using ew::detail::make_axes;
using ew::detail::tile_partition;
using kernel_test::as_double;
using kernel_test::guarded;
using kernel_test::is_tiled;
using kernel_test::small_integers;

namespace {

// ---- Axes ----

template <int Rank>
constexpr axes<Rank> axes_of(std::int64_t const (&shape)[Rank],
                             std::int64_t const (&strides)[Rank]) {
  return make_axes<Rank>(shape, strides, Rank);
}
template <int Rank>
std::int64_t slow_offset(std::int64_t const (&shape)[Rank], std::int64_t const (&strides)[Rank],
                         std::uint64_t i) {
  std::int64_t offset = 0;
  for (int k = Rank - 1; k >= 0; --k) {
    auto const extent = static_cast<std::uint64_t>(shape[k]);
    offset += static_cast<std::int64_t>(i % extent) * strides[k];
    i /= extent;
  }
  return offset;
}

constexpr std::int64_t two[] = {4, 5};
constexpr std::int64_t row_major[] = {5, 1};
static_assert(make_axes<2>(two, row_major, 2).contiguous(), "one axis, and constexpr");
constexpr std::int64_t past_32_bits[] = {3, std::int64_t{1} << 33U};
constexpr std::int64_t swapped[] = {1, 3};
static_assert(!make_axes<2>(past_32_bits, swapped, 2).narrow, "indices take 64 bits");

// ---- Transpositions ----

struct offsets {
  std::size_t at_o = 0;
  std::size_t at_x = 0;
  std::int64_t gap = 0;  // elements behind each row of the innermost dimension in memory
};

// Transposes dimensions `a` and `b` of an array; returns whether that goes by tiles or pixels.
template <class O, class X, int Rank>
bool check_swap(std::int64_t const (&shape)[Rank], int a, int b, offsets const& where) {
  std::int64_t strides[Rank];
  std::int64_t step = 1;
  for (int k = Rank - 1; k >= 0; --k) {
    strides[k] = step;
    step *= shape[k];
    if (k == Rank - 1) step += where.gap;
  }
  auto const x = small_integers<X>(static_cast<std::size_t>(step), 100, 17);
  std::int64_t out_shape[Rank];
  std::int64_t out_strides[Rank];
  ew::extent shape_arg[Rank];
  ew::extent strides_arg[Rank];
  std::size_t n = 1;
  for (int k = 0; k < Rank; ++k) {
    int const from = k == a ? b : k == b ? a : k;
    out_shape[k] = shape[from];
    out_strides[k] = strides[from];
    shape_arg[k] = shape[from];
    strides_arg[k] = strides[from];
    n *= static_cast<std::size_t>(shape[k]);
  }
  guarded<X> from{x, where.at_x};
  guarded<O> to{n, where.at_o};
  auto const assignment = ew::out(to.data(), n) =
      ew::view(from.data(), shape_arg, strides_arg) + ew::index() % 7;
  warpwright::stream stream;
  ew::run(stream, assignment);
  std::vector<O> const got = to.fetch(stream);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < n; ++i) {
    auto const at = static_cast<std::size_t>(slow_offset(out_shape, out_strides, i));
    if (as_double(got[i]) != as_double(x[at]) + static_cast<double>(i % 7)) ++wrong;
  }
  REQUIRE(wrong == 0);
  REQUIRE((to.intact(stream) && from.intact(stream)));
  return is_tiled(assignment);
}

template <class O, class X>
void check_matrices() {
  for (std::int64_t const rows : {1, 3, 4, 16, 31, 32, 33, 63, 64, 65, 127, 128, 130, 200}) {
    for (std::int64_t const cols : {1, 2, 3, 4, 31, 32, 33, 63, 64, 65, 128, 129, 260}) {
      if (kernel_test::sanitized && rows * cols > 8450) continue;
      CAPTURE(rows, cols);
      std::int64_t const shape[] = {rows, cols};
      std::int64_t const batched[] = {3, rows, cols};
      bool const tiled = check_swap<O, X>(shape, 0, 1, {});
      std::size_t const bytes = static_cast<std::size_t>(rows * cols) * sizeof(X);
      bool const wanted = bytes >= 4096 && rows > 1 && cols > 1;
      REQUIRE(tiled == wanted);
      check_swap<O, X>(shape, 0, 1, {1, 0, 0});
      check_swap<O, X>(shape, 0, 1, {0, 3, 0});
      check_swap<O, X>(shape, 0, 1, {0, 0, 1});
      check_swap<O, X>(shape, 0, 1, {0, 0, 16});
      REQUIRE(check_swap<O, X>(batched, 1, 2, {}) == wanted);
    }
  }
}

// Random views; returns how many go by tiles or pixels.
template <class O, class X>
int check_random(std::uint64_t seed) {
  int tiled = 0;
  INFO("seed " << seed);
  kernel_test::random_numbers random{seed};
  warpwright::stream stream;
  for (int round = 0; round < kernel_test::rounds(400); ++round) {
    kernel_test::layout const l = kernel_test::random_layout(random, round % 3 == 0 ? 1500 : 60000);
    std::size_t const n = l.elements;
    auto const x = small_integers<X>(l.span, 50, random.next());
    guarded<X> px{x, round % 2 == 0 ? 0 : random.below(16)};
    guarded<O> out{n, round % 4 == 1 ? random.below(16) : 0};
    CAPTURE(round, n, l.rank);
    auto const a = ew::out(out.data(), n) =
        ew::view(px.data() + l.first, l.rank, l.shape, l.strides) + ew::index() % 3;
    ew::run(stream, a);
    tiled += is_tiled(a) ? 1 : 0;
    std::vector<O> const got = out.fetch(stream);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < n; ++i) {
      if (as_double(got[i]) != as_double(x[l.at(i)]) + static_cast<double>(i % 3)) ++wrong;
    }
    REQUIRE(wrong == 0);
    REQUIRE((out.intact(stream) && px.intact(stream)));
  }
  return tiled;
}

tile_partition job_of(std::int64_t rows, std::int64_t cols, unsigned bytes, unsigned out_bytes,
                      unsigned vector) {
  std::int64_t const shape[] = {rows, cols};
  std::int64_t const strides[] = {1, rows};
  auto const a = make_axes<2>(shape, strides, 2);
  return ew::detail::make_tile_partition(a.of, a.count, bytes, out_bytes, 0x10000, vector);
}

// Records where the first vector of a thread lies in shared memory.
struct record_first {
  unsigned* first;
  template <class V>
  WARPWRIGHT_HOST_DEVICE void operator()(V, ew::detail::output_element const&,
                                         ew::detail::staged_vector const& c) const {
    if (*first == ~0U) *first = c.first;
  }
};

// The degree of the worst bank conflict when a warp gathers the vectors of a whole tile.
unsigned worst_gather(tile_partition const& job, unsigned vector) {
  unsigned worst = 0;
  unsigned const element = job.layout.element_bytes;
  unsigned const phase = element == 8 ? 16 : 32;
  for (unsigned warp = 0; warp < 8; ++warp) {
    std::vector<unsigned> first(32, ~0U);
    for (unsigned lane = 0; lane < 32; ++lane) {
      record_first const record{&first[lane]};
      if (vector == 16) job.each_vector<16>(job.tile_of(0), nullptr, warp * 32 + lane, record);
      if (vector == 8) job.each_vector<8>(job.tile_of(0), nullptr, warp * 32 + lane, record);
      if (vector == 4) job.each_vector<4>(job.tile_of(0), nullptr, warp * 32 + lane, record);
      if (vector == 2) job.each_vector<2>(job.tile_of(0), nullptr, warp * 32 + lane, record);
    }
    for (unsigned begin = 0; begin < 32; begin += phase) {
      std::vector<std::vector<unsigned>> banks(32);
      for (unsigned lane = begin; lane < begin + phase; ++lane) {
        if (first[lane] == ~0U) continue;
        for (unsigned byte = 0; byte < element; byte += 4) {
          unsigned const at = first[lane] + (first[lane] >> 7U) * job.layout.line_padding;
          unsigned const word = (at + byte) / 4;
          auto& bank = banks[word % 32];
          if (std::find(bank.begin(), bank.end(), word) == bank.end()) bank.push_back(word);
        }
      }
      for (auto const& bank : banks) {
        worst = std::max(worst, static_cast<unsigned>(bank.size()));
      }
    }
  }
  return worst;
}

}  // namespace

TEST_CASE("dimensions of one element go, and neighbours one stride apart are merged") {
  auto const whole = axes_of<4>({2, 3, 4, 5}, {60, 20, 5, 1});
  CHECK(whole.contiguous());
  CHECK(whole.of[0].extent == 120);
  CHECK(whole.narrow);
  auto const ones = axes_of<5>({1, 7, 1, 3, 1}, {99, 3, -5, 1, 1000});
  CHECK(ones.contiguous());
  auto const nchw = axes_of<4>({2, 3, 4, 5}, {60, 1, 15, 3});  // of NHWC
  REQUIRE(nchw.count == 3);
  CHECK((nchw.of[0].extent == 20 && nchw.of[0].stride == 3));
  CHECK((nchw.of[1].extent == 3 && nchw.of[1].stride == 1));
  CHECK((nchw.of[2].extent == 2 && nchw.of[2].stride == 60));
  auto const repeated = axes_of<3>({4, 5, 6}, {0, 0, 1});
  REQUIRE(repeated.count == 2);
  CHECK((repeated.of[1].extent == 20 && repeated.of[1].stride == 0));
  auto const backwards = axes_of<2>({4, 5}, {-5, -1});
  REQUIRE(backwards.count == 1);
  CHECK(backwards.of[0].stride == -1);
  CHECK(axes_of<2>({4, 0}, {1, 1}).of[0].extent == 0);
  CHECK(axes_of<2>({1, 1}, {7, 9}).contiguous());
  auto const far = make_axes<2>(past_32_bits, swapped, 2).find((std::uint64_t{1} << 33U) + 5);
  CHECK(far.offset == 16);  // row 1, column 5
  CHECK(far.left == (std::uint64_t{1} << 33U) - 5);
}

TEST_CASE("an element's place, in 32 and in 64 bits") {
  std::uint64_t const seed = 5;
  INFO("seed " << seed);
  kernel_test::random_numbers random{seed};
  for (int k = 0; k < 2000; ++k) {
    bool const large = k % 4 == 0;
    std::int64_t shape[6];
    std::int64_t strides[6];
    std::uint64_t n = 1;
    for (int d = 0; d < 6; ++d) {
      shape[d] = 1 + static_cast<std::int64_t>(random.below(random.below(3) == 0 ? 1 : 9));
      if (large && d == k / 4 % 6) {
        shape[d] = static_cast<std::int64_t>(random.below(std::size_t{1} << 35U)) + 1;
      }
      strides[d] = static_cast<std::int64_t>(random.below(50)) - 20;
      n *= static_cast<std::uint64_t>(shape[d]);
    }
    if (random.below(2) == 0) {  // such that some merge
      for (int d = 4; d >= 0; --d) {
        if (random.below(3) != 0) strides[d] = strides[d + 1] * shape[d + 1];
      }
    }
    auto const r = ew::detail::measure_view(shape, strides, 6);
    REQUIRE_FALSE(r.too_large);
    REQUIRE(r.elements == n);
    auto const a = make_axes<6>(shape, strides, 6);
    if (n > 0x7fffffffU) REQUIRE_FALSE(a.narrow);
    for (int i = 0; i < 30; ++i) {
      std::uint64_t const at = i == 0 ? 0 : i == 1 ? n - 1 : random.next() % n;
      auto const place = a.find(at);
      std::int64_t const expected = slow_offset(shape, strides, at);
      REQUIRE(place.offset == expected);
      if (a.narrow) REQUIRE(a.find(ew::detail::fast_index{at}).offset == expected);
      REQUIRE((expected >= r.lowest && expected <= r.highest));
      REQUIRE(place.left >= 1);
      for (std::uint64_t j = 1; j < place.left && j < 5; ++j) {
        REQUIRE(slow_offset(shape, strides, at + j) ==
                expected + static_cast<std::int64_t>(j) * a.of[0].stride);
      }
    }
  }
}

TEST_CASE("views too large to measure are found so, without overflow") {
  std::int64_t const huge[] = {std::int64_t{1} << 40U, std::int64_t{1} << 40U};
  std::int64_t const ones[] = {1, 1};
  std::int64_t const most[] = {0x7fffffffffffffff, -0x7fffffffffffffff};
  CHECK(ew::detail::measure_view(huge, ones, 2).too_large);
  CHECK(ew::detail::measure_view(two, most, 2).too_large);
  CHECK(ew::detail::measure_view(most, ones, 1).too_large);
  std::int64_t const none[] = {0, 0x7fffffffffffffff};
  CHECK_FALSE(ew::detail::measure_view(none, most, 2).too_large);
  CHECK(ew::detail::measure_view(none, most, 2).elements == 0);
}

TEST_CASE("run() reads random views as a loop does") {
  int tiled = check_random<float, float>(71);
  tiled += check_random<unsigned char, unsigned char>(73);
  tiled += check_random<__half, unsigned char>(75);
#if WARPWRIGHT_TEST_EVERY_TYPE
  tiled += check_random<__half, __half>(72);
  tiled += check_random<double, double>(74);
  tiled += check_random<unsigned char, float>(76);
  tiled += check_random<double, signed char>(77);
#endif
  INFO(tiled << " by tiles or pixels");
  CHECK(tiled > kernel_test::rounds(20));
}

TEST_CASE("runs that suit go by vectors") {
  float* const y = reinterpret_cast<float*>(0x100000);
  auto const wide = [&](auto const& view) {
    auto const a = ew::out(y, 64 * 64) = view;
    using fused = ew::detail::fused<std::decay_t<decltype(a)>>;
    ew::detail::operand all[2];
    fused::describe(all, warpwright::source_location::current(), a);
    return ew::detail::make_plan(all, 2, 64 * 64, fused::vector, fused::vectors).partition.all_wide;
  };
  float const* const x = reinterpret_cast<float const*>(0x800000);
  CHECK(wide(ew::view(x, {64, 64}, {64, 1})));
  CHECK(wide(ew::view(x, {64, 64}, {100, 1})));
  CHECK(wide(ew::view(x, {16, 4, 64}, {100, 0, 1})));
  CHECK(wide(ew::view(x, {64, 64}, {-64, 1})));
  CHECK(wide(ew::view(x, {1024, 4}, {12, 1})));
  CHECK_FALSE(wide(ew::view(x, {2048, 2}, {12, 1})));  // runs shorter than vectors
  CHECK_FALSE(wide(ew::view(x, {64, 64}, {101, 1})));  // rows start anywhere
  CHECK_FALSE(wide(ew::view(x + 1, {64, 64}, {100, 1})));
  CHECK_FALSE(wide(ew::view(x, {64, 64}, {128, 2})));  // neighbours apart
  CHECK_FALSE(wide(ew::view(x, {64, 64}, {1, 64})));
}

TEST_CASE("large transpositions go by tiles in accesses of 16 bytes") {
  for (unsigned const bytes : {1U, 2U, 4U, 8U}) {
    CAPTURE(bytes);
    unsigned const vector = 16 / bytes;
    tile_partition const job = job_of(8192, 8192, bytes, bytes, vector);
    REQUIRE(job.tiles != 0);
    CHECK(job.access_bytes == 16);
    CHECK((job.warp_tiles && job.vectors && !job.layout.linear));
    CHECK(job.tile_x * job.tile_y * bytes == ew::detail::tile_bytes);
    CHECK(job.tile_x * bytes >= 128);
    CHECK(job.tile_y * bytes >= 128);
    CHECK(job.tiles * job.tile_x * job.tile_y == std::uint64_t{8192} * 8192);
    CHECK(worst_gather(job, vector) == 1);
  }
  // Bytes to 16-bit and to 32-bit elements.
  CHECK(worst_gather(job_of(8192, 8192, 1, 2, 8), 8) == 1);
  CHECK(worst_gather(job_of(8192, 8192, 1, 4, 4), 4) == 1);
  // Odd sizes: element by element, still without conflicts.
  for (unsigned const bytes : {4U, 8U}) {
    tile_partition const odd = job_of(8191, 8191, bytes, bytes, 16 / bytes);
    CHECK_FALSE(odd.vectors);
    CHECK(odd.access_bytes == 4);
    CHECK(worst_gather(odd, 16 / bytes) == 1);
  }
}

TEST_CASE("odd rows: in the order of the output; bytes by the 16 around") {
  for (unsigned const bytes : {2U, 4U, 8U}) {
    tile_partition const odd = job_of(8191, 8191, bytes, bytes, 16 / bytes);
    CHECK((odd.x_first && !odd.unaligned));
    tile_partition const even = job_of(8192, 8192, bytes, bytes, 16 / bytes);
    CHECK((!even.x_first && !even.unaligned));
  }
  tile_partition const odd = job_of(8191, 8191, 1, 1, 16);
  CHECK((odd.unaligned && !odd.x_first));
  CHECK(odd.tile_y == 64);
  CHECK(odd.chunks_per_row.divisor() == 5);  // 64 bytes touch five times 16
  CHECK(odd.view_begin == 0x10000);
  CHECK(odd.view_end == 0x10000 + 8191 * 8191);
  CHECK(worst_gather(odd, 16) <= 4);  // four bytes a bank
  CHECK_FALSE(job_of(8192, 8192, 1, 1, 16).unaligned);
}

// AddressSanitizer and compute-sanitizer see what is read behind the allocation.
TEST_CASE("odd rows of bytes: nothing is read that is not in the view") {
  warpwright::stream stream;
  for (std::size_t const rows : {69U, 127U, 129U, 131U, 257U, 300U}) {
    for (std::size_t const cols : {61U, 127U, 129U, 130U, 255U}) {
      CAPTURE(rows, cols);
      std::size_t const n = rows * cols;
      std::vector<unsigned char> const values = small_integers<unsigned char>(n, 100, 5);
      test_support::device_array<unsigned char> const exact{values};
      test_support::device_array<unsigned char> const to{n};
      auto const a = ew::out(to.data(), n) =
          ew::view(static_cast<unsigned char const*>(exact.data()), {cols, rows},
                   {std::int64_t{1}, static_cast<std::int64_t>(cols)});
      REQUIRE(is_tiled(a));
      ew::run(stream, a);
      std::vector<unsigned char> const out = to.fetch(stream);
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < n; ++i) {
        wrong += out[i] != values[i % rows * cols + i / rows] ? 1 : 0;
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("few channels: tiles are linear in shared memory") {
  std::int64_t const nchw[] = {8, 3, 1024 * 1024};
  std::int64_t const of_nhwc[] = {3 * 1024 * 1024, 1, 3};
  auto const planes = make_axes<3>(nchw, of_nhwc, 3);
  tile_partition const apart =
      ew::detail::make_tile_partition(planes.of, planes.count, 1, 2, 0x10000, 8);
  REQUIRE(apart.tiles != 0);
  CHECK(apart.layout.linear);
  CHECK(apart.access_bytes == 16);
  CHECK(apart.warp_tiles);
  CHECK(apart.tile_y == 3);
  CHECK(apart.batches.count == 1);
  CHECK(apart.layout.group_pitch == 28);  // 8 pixels of 3 bytes, and a bank of padding
  CHECK(apart.layout.line_padding == 0);
  CHECK(worst_gather(apart, 8) == 1);
  std::int64_t const nhwc[] = {8, 1024 * 1024, 3};
  std::int64_t const of_nchw[] = {3 * 1024 * 1024, 1, 1024 * 1024};
  auto const pixels = make_axes<3>(nhwc, of_nchw, 3);
  tile_partition const together =
      ew::detail::make_tile_partition(pixels.of, pixels.count, 1, 1, 0x10000, 16);
  REQUIRE(together.tiles != 0);
  CHECK(together.access_bytes == 16);
  CHECK((together.vectors && !together.warp_tiles));
  CHECK(together.tile_x == 3);
}

// Interleaved pictures, `channels` of `pitch` values a pixel, to planes, with a scale and a shift
// of each channel; returns the plan.
template <class O, class X>
ew::detail::pixel_partition check_planes(std::size_t pictures, std::size_t pixels,
                                         std::size_t channels, std::size_t pitch,
                                         std::size_t at_x = 0, std::size_t at_o = 0) {
  CAPTURE(pictures, pixels, channels, pitch, at_x, at_o, sizeof(O), sizeof(X));
  auto const x = small_integers<X>(pictures * pixels * pitch, 20, 5);
  std::size_t const n = pictures * pixels * channels;
  guarded<X> from{x, at_x};
  guarded<O> to{n, at_o};
  std::vector<float> const scale{1, 2, 3, 4, 5};
  std::vector<float> const shift{5, 6, 7, 8, 9};
  test_support::device_array<float> const scales{scale};
  test_support::device_array<float> const shifts{shift};
  auto const each = [&](test_support::device_array<float> const& v) {
    return ew::view(v.data(), {pictures, channels, pixels}, {0, 1, 0});
  };
  auto const a = ew::out(to.data(), n) =
      ew::view(from.data(), {pictures, channels, pixels}, {pixels * pitch, std::size_t{1}, pitch}) *
          each(scales) +
      each(shifts);
  REQUIRE(is_tiled(a));
  warpwright::stream stream;
  ew::run(stream, a);
  std::vector<O> const got = to.fetch(stream);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < n; ++i) {
    std::size_t const c = i / pixels % channels;
    std::size_t const pixel = i / (pixels * channels) * pixels + i % pixels;
    double const expected = as_double(x[pixel * pitch + c]) * static_cast<double>(scale[c]) +
                            static_cast<double>(shift[c]);
    wrong += as_double(got[i]) != expected ? 1 : 0;
  }
  CHECK(wrong == 0);
  CHECK((to.intact(stream) && from.intact(stream)));
  return kernel_test::selection_of(a).pixels;
}

TEST_CASE("pixels: whole ones are read, by vectors where these fit") {
  for (std::size_t const channels : {2U, 3U, 4U}) {
    for (std::size_t const pitch : {channels, std::size_t{4}}) {
      for (std::size_t const pixels : {4096U, 4100U, 4099U, 4127U}) {
        bool const even = pixels == 4096 && channels == pitch;
        auto const bytes = check_planes<__half, unsigned char>(2, pixels, channels, pitch);
        CHECK(bytes.threads != 0);
        CHECK((bytes.vectors == even && bytes.warp_strided == !even));
        auto const floats = check_planes<float, float>(3, pixels, channels, pitch);
        CHECK(floats.vectors == (pixels % 4 == 0 && channels == pitch));
        check_planes<float, unsigned char>(1, pixels, channels, pitch);
        check_planes<__half, __half>(2, pixels, channels, pitch);
        check_planes<double, double>(2, pixels, channels, pitch);
        check_planes<double, unsigned char>(2, pixels, channels, pitch);  // a vector of two bytes
        check_planes<__half, float>(2, pixels, channels, pitch);          // one of 32
        check_planes<unsigned char, unsigned char>(2, pixels, channels, pitch);
      }
    }
  }
  CHECK(check_planes<__half, unsigned char>(2, 4096, 3, 3, 1).warp_strided);  // off a boundary
  CHECK(check_planes<__half, unsigned char>(2, 4096, 3, 3, 8).vectors);
  CHECK(check_planes<__half, unsigned char>(2, 4096, 3, 3, 0, 1).vectors);
  CHECK(check_planes<__half, unsigned char>(2, 4096, 5, 5).threads == 0);  // tiles
}

TEST_CASE("pixels beside a view that is not aligned to them: the other view goes by tiles") {
  std::size_t const n = std::size_t{3} * 8192;
  auto const x = small_integers<float>(std::size_t{4} * 8192, 20, 5);
  auto const z = small_integers<float>(n, 20, 6);
  test_support::device_array<float> const dx{x}, dz{z}, dy{n};
  auto const a = ew::out(dy.data(), n) =
      ew::view(ew::array(dx.data(), {8192, 4}).permuted({1, 0}).sliced(0, 0, 3)) +
      ew::view(ew::array(dz.data(), {256, 96}).permuted({1, 0}));
  ew::detail::tile_selection const selection = kernel_test::selection_of(a);
  CHECK((selection.pixels.threads == 0 && selection.tiles.tiles != 0 && selection.operand == 2));
  warpwright::stream stream;
  ew::run(stream, a);
  std::vector<float> const y = dy.fetch(stream);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < n; ++i) {
    wrong += y[i] != x[i % 8192 * 4 + i / 8192] + z[i % 256 * 96 + i / 256] ? 1 : 0;
  }
  CHECK(wrong == 0);
}

TEST_CASE("aligned views may have 2^31 elements and more, but need offsets of 31 bits") {
  ew::detail::axis const near[] = {ew::detail::axis{std::uint64_t{1} << 40U, 0},
                                   ew::detail::axis{std::uint64_t{1} << 20U, -2047}};
  CHECK(ew::detail::has_31_bit_offsets(near, 2));
  ew::detail::axis const far[] = {ew::detail::axis{std::uint64_t{1} << 20U, 1},
                                  ew::detail::axis{std::uint64_t{1} << 20U, -2048}};
  CHECK_FALSE(ew::detail::has_31_bit_offsets(far, 2));
}

TEST_CASE("what is no transposition has no tiles") {
  auto const tiles = [](auto const& a) {
    return ew::detail::make_tile_partition(a.of, a.count, 4, 4, 0x10000, 4).tiles;
  };
  CHECK(tiles(axes_of<2>({1000, 1000}, {1000, 1})) == 0);   // one array
  CHECK(tiles(axes_of<2>({1000, 1000}, {2000, 1})) == 0);   // runs
  CHECK(tiles(axes_of<2>({1000, 1000}, {2000, 2})) == 0);   // every second
  CHECK(tiles(axes_of<2>({1000, 1000}, {1, 0})) == 0);      // repeats along the output
  CHECK(tiles(axes_of<2>({1000, 1000}, {-1, 1000})) == 0);  // backwards
  CHECK(tiles(axes_of<2>({16, 16}, {1, 16})) == 0);         // little
  CHECK(tiles(axes_of<2>({1000, 1000}, {1, 1000})) != 0);
  CHECK(tiles(axes_of<2>({7, 1000000}, {1, 9})) == 0);  // short rows apart
  // More tiles than a grid has blocks.
  CHECK(tiles(axes_of<3>({std::int64_t{1} << 32U, 64, 64}, {4096, 1, 64})) == 0);
}

TEST_CASE("tiles transpose matrices of all sizes around theirs, and convert on the way") {
  check_matrices<float, float>();
  check_matrices<unsigned char, unsigned char>();
  check_matrices<unsigned char, double>();
#if WARPWRIGHT_TEST_EVERY_TYPE
  check_matrices<__half, __half>();
  check_matrices<double, double>();
  check_matrices<__half, unsigned char>();
  check_matrices<float, __nv_bfloat16>();
#endif
}

TEST_CASE("tiles swap every pair of six dimensions") {
  std::int64_t const shape[] = {3, 34, 2, 33, 2, 36};
  std::int64_t const even[] = {2, 32, 2, 64, 1, 32};
  int tiled = 0;
  for (int a = 0; a < 6; ++a) {
    for (int b = kernel_test::sanitized ? 5 : a + 1; b < 6; ++b) {
      CAPTURE(a, b);
      tiled += check_swap<float, float>(shape, a, b, {});
      tiled += check_swap<unsigned char, unsigned char>(shape, a, b, {});
      tiled += check_swap<float, float>(shape, a, b, {0, 0, 4});
      tiled += check_swap<__half, __half>(even, a, b, {});
      tiled += check_swap<double, double>(even, a, b, {1, 0, 0});
    }
  }
  CHECK(tiled >= 7);  // those with the last dimension, but for short rows
}

TEST_CASE("tiles serve few channels both ways") {
  for (std::int64_t const channels : {2, 3, 4, 5, 6, 8, 12, 16, 24, 100}) {
    for (std::int64_t const pixels : {2048, 2053, 6000, 4099}) {
      bool const stands_for_others = channels <= 8 && pixels == 2048 + channels % 2 * 5;
      if (kernel_test::sanitized && !stands_for_others) continue;
      CAPTURE(channels, pixels);
      std::int64_t const nhwc[] = {2, pixels, channels};
      std::int64_t const nchw[] = {2, channels, pixels};
      CHECK(check_swap<__half, unsigned char>(nhwc, 1, 2, {}));
      CHECK(check_swap<unsigned char, unsigned char>(nchw, 1, 2, {}));
      CHECK(check_swap<float, float>(nhwc, 1, 2, {}));
      CHECK(check_swap<float, float>(nchw, 1, 2, {}));
      CHECK(check_swap<double, double>(nhwc, 1, 2, {0, 1, 0}));
      CHECK(check_swap<__half, __half>(nchw, 1, 2, {1, 0, 0}));
      check_swap<__half, unsigned char>(nhwc, 1, 2, {0, 0, 1});
      check_swap<float, float>(nchw, 1, 2, {0, 0, 3});
    }
  }
}
