// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Strided views and strided outputs beside a copy of the same traffic, kernels written by hand, and
// cudaMemcpy2DAsync where it does the same.
//
//   transpose       8,192 x 8,192, f32, f16 and u8; odd: 8,190 x 8,190 (vectors do not fit)
//   transpose_8191  8,191 x 8,191: rows start anywhere
//   transpose_1000  1,000 x 30,000, f32, f16 and u8: rows of f16 suit vectors, not sectors
//   nchw_to_nhwc    32 x 64 x 112 x 112, f32 and f16
//   into_pixels_of_planes  four planes of 8,000,000 to pixels, f32
//   planes          NHWC to NCHW, 64 pictures of 512 x 512 x 3, scaled and shifted, u8 to f16 and
//                   f32, and f32; odd: of 511 x 513
//   slice           every second column of 8,192 x 16,384, f32: reads what it skips
//   rows            8,192 rows of 8,192 at a pitch of 8,256, f32: runs that go by vectors
//   into_rows       the same written, from rows without gaps, f32, f16 and u8
//   into_odd_rows   ... of 8,191 into a pitch of 8,193, f32 and u8: runs that suit no vectors
//   into_pixels     the first three of four channels, 64 pictures of 512 x 512, f32 and u8
//
// The peer by hand is the usual tile of 32 x 33 elements, one element a thread and access; for
// planes it is one pixel a thread, and for u8 to f16 a tuned one of eight beside it. Isolated
// launches; time is that between two events. Launches go through `sets` sets of arrays, 256 MiB or
// more together, so that none is found in L2; the samples of one case are interleaved. Counters:
// median, p10, p90 of a launch in us, and GB/s of the median, every element read and written
// counted once.
#include <benchmark/benchmark.h>
#include <cuda_fp16.h>

#include <warpwright/core.hpp>
#include <warpwright/kernel.hpp>
#include <warpwright/kernel/views.hpp>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "support/interleaved.hpp"
#include "support/rotating_buffers.hpp"
#include "support/values.hpp"

namespace ww = warpwright;
namespace ew = warpwright::ew;
using bench_support::fetch;
using bench_support::from_float;
using bench_support::to_float;

namespace {

#if defined(__CUDACC__)
constexpr std::size_t shrink = 1;
constexpr int samples = 60;
#else
// The host runtime: shows that the program works, never a speed.
constexpr std::size_t shrink = 64;
constexpr int samples = 2;
#endif

constexpr float scales[] = {0.5F, 0.25F, 0.125F};
constexpr float shifts[] = {1.0F, 2.0F, 3.0F};

// What a case moves: `out_size` elements from `in_size`, of which `touched` are read. from(i) is
// the place of the output's element i in the input.
struct square {  // transposed
  std::size_t side;
  std::size_t in_size() const { return side * side; }
  std::size_t out_size() const { return side * side; }
  std::size_t from(std::size_t i) const { return i % side * side + i / side; }
  double value(double x, std::size_t) const { return x; }
};
struct channels_last {
  std::size_t batch, channels, pixels;
  std::size_t in_size() const { return batch * channels * pixels; }
  std::size_t out_size() const { return in_size(); }
  std::size_t from(std::size_t i) const {
    std::size_t const image = i / (channels * pixels);
    return (image * channels + i % channels) * pixels + i / channels % pixels;
  }
  double value(double x, std::size_t) const { return x; }
};
struct channels_first {
  std::size_t batch, channels, pixels;
  std::size_t in_size() const { return batch * channels * pixels; }
  std::size_t out_size() const { return in_size(); }
  std::size_t from(std::size_t i) const {
    std::size_t const image = i / (channels * pixels);
    return (image * pixels + i % pixels) * channels + i / pixels % channels;
  }
  double value(double x, std::size_t i) const {
    std::size_t const c = i / pixels % channels;
    return x * static_cast<double>(scales[c]) + static_cast<double>(shifts[c]);
  }
};
struct matrix_part {
  std::size_t rows, cols, pitch, step;
  std::size_t in_size() const { return rows * pitch; }
  std::size_t out_size() const { return rows * cols; }
  std::size_t from(std::size_t i) const { return i / cols * pitch + i % cols * step; }
  double value(double x, std::size_t) const { return x; }
};

struct into_rows {  // rows that follow each other to rows at a pitch
  std::size_t rows, cols, pitch;
  std::size_t in_size() const { return rows * cols; }
  std::size_t out_size() const { return rows * pitch; }
  bool written(std::size_t i) const { return i % pitch < cols; }
  std::size_t from(std::size_t i) const {
    return written(i) ? i / pitch * cols + i % pitch : std::size_t{0};
  }
  double value(double x, std::size_t i) const { return written(i) ? x : 77; }  // as it was before
};
// Elements that are written, each made of one that is read.
template <class Shape>
std::size_t moved_elements(Shape const& shape) {
  return shape.out_size();
}
std::size_t moved_elements(into_rows const& shape) { return shape.in_size(); }

struct counted {  // bytes that differ from element to element; exact in every type
  WARPWRIGHT_HOST_DEVICE float operator()(std::uint64_t i) const {
    return static_cast<float>(static_cast<std::uint32_t>(i * 0x9e3779b97f4a7c15U >> 40U) % 251U);
  }
};

// `sets` sets of an input and an output, and numbers per channel.
template <class X, class O, class Shape>
class rotating_pairs {
 public:
  rotating_pairs(ww::stream_ref stream, Shape const& shape)
      : shape_{shape},
        in_bytes_{bench_support::padded(shape.in_size() * sizeof(X))},
        memory_{in_bytes_ + bench_support::padded(shape.out_size() * sizeof(O)),
                sizeof scales + sizeof shifts,
                {2, most_sets, (std::size_t{256} << 20U) / shrink}} {
    for (auto const* from : {scales, shifts}) {
      ww::check(cudaMemcpy(memory_.shared(from == scales ? 0 : sizeof scales), from, sizeof scales,
                           cudaMemcpyHostToDevice),
                "cudaMemcpy");
    }
    ww::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    for (std::size_t k = 0; k < sets(); ++k) {
      ew::run(stream, ew::out(in(k), shape.in_size()) = ew::map(counted{}, ew::index()));
      fill(stream, k);
    }
    stream.synchronize();
  }

  /// What an output's elements are before a launch.
  void fill(ww::stream_ref stream, std::size_t set) const {
    ew::run(stream, ew::out(out(set), shape_.out_size()) = 77.0F);
  }
  X* in(std::size_t set) const { return reinterpret_cast<X*>(memory_.set(set)); }
  O* out(std::size_t set) const { return reinterpret_cast<O*>(memory_.set(set, in_bytes_)); }
  float const* scale() const { return reinterpret_cast<float const*>(memory_.shared()); }
  float const* shift() const { return scale() + 3; }
  Shape const& shape() const { return shape_; }
  std::size_t sets() const { return memory_.sets(); }
  std::size_t bytes() const { return moved_elements(shape_) * (sizeof(X) + sizeof(O)); }

 private:
  static constexpr std::size_t most_sets = std::size_t{1} << 20U;  // no limit
  Shape shape_;
  std::size_t in_bytes_;
  bench_support::rotating_buffers memory_;
};

// Compares the output of set 0 with the elements of its input, and fills it again.
template <class X, class O, class Shape>
bool verified(rotating_pairs<X, O, Shape> const& a) {
  std::vector<X> const x = fetch(a.in(0), a.shape().in_size());
  std::vector<O> const got = fetch(a.out(0), a.shape().out_size());
  ww::stream const s;
  a.fill(s, 0);
  s.synchronize();
  for (std::size_t i = 0; i < got.size(); ++i) {
    double const expected = a.shape().value(static_cast<double>(to_float(x[a.shape().from(i)])), i);
    if (static_cast<double>(to_float(got[i])) != expected) return false;
  }
  return true;
}

// ---- Our path ----

template <class X>
auto view_of(X const* x, square const& s) {
  return ew::view(ew::array(x, {s.side, s.side}).permuted({1, 0}));
}
template <class X>
auto view_of(X const* x, channels_last const& s) {
  return ew::view(ew::array(x, {s.batch, s.channels, s.pixels}).permuted({0, 2, 1}));
}
template <class X>
auto view_of(X const* x, channels_first const& s) {
  return ew::view(ew::array(x, {s.batch, s.pixels, s.channels}).permuted({0, 2, 1}));
}
template <class X>
auto view_of(X const* x, matrix_part const& s) {
  return ew::view(x, {s.rows, s.cols}, {s.pitch, s.step});
}
template <class X>
auto view_of(X const* x, into_rows const& s) {
  return ew::in(x, s.in_size());
}
template <class T>
auto per_channel(T const* x, channels_first const& s) {
  return ew::view(x, {s.batch, s.channels, s.pixels}, {0, 1, 0});
}

struct warpwright_ew {
  template <class X, class O, class Shape>
  void operator()(ww::stream_ref s, rotating_pairs<X, O, Shape> const& a, std::size_t set) const {
    auto const x = view_of(a.in(set), a.shape());
    if constexpr (std::is_same<Shape, into_rows>::value) {
      into_rows const& to = a.shape();
      ew::run(s, ew::out(ew::array(a.out(set), {to.rows, to.cols}, {to.pitch, 1})) = x);
    } else if constexpr (std::is_same<Shape, channels_first>::value) {
      ew::run(s, ew::out(a.out(set), a.shape().out_size()) =
                     x * per_channel(a.scale(), a.shape()) + per_channel(a.shift(), a.shape()));
    } else {
      ew::run(s, ew::out(a.out(set), a.shape().out_size()) = x);
    }
  }
};

// ---- Peers ----

// As many bytes read and written together.
struct copy_of_same_traffic {
  template <class X, class O, class Shape>
  void operator()(ww::stream_ref s, rotating_pairs<X, O, Shape> const& a, std::size_t set) const {
    std::size_t const moved = a.bytes() / 2 / 256 * 256;
    auto* const from = reinterpret_cast<unsigned char*>(a.in(set));
    ww::check(cudaMemcpyAsync(from + moved, from, moved, cudaMemcpyDeviceToDevice, s.get()),
              "cudaMemcpyAsync");
  }
};

#if defined(__CUDACC__)

// `count` matrices of rows x cols, each transposed.
template <class T>
__global__ void tile_32_33_kernel(T const* x, T* y, unsigned rows, unsigned cols) {
  __shared__ T tile[32][33];
  std::size_t const matrix = std::size_t{blockIdx.z} * rows * cols;
  unsigned const col = blockIdx.x * 32 + threadIdx.x;
  for (unsigned k = threadIdx.y; k < 32; k += 8) {
    unsigned const row = blockIdx.y * 32 + k;
    if (row < rows && col < cols) tile[k][threadIdx.x] = x[matrix + std::size_t{row} * cols + col];
  }
  __syncthreads();
  unsigned const out_col = blockIdx.y * 32 + threadIdx.x;
  for (unsigned k = threadIdx.y; k < 32; k += 8) {
    unsigned const out_row = blockIdx.x * 32 + k;
    if (out_row < cols && out_col < rows) {
      y[matrix + std::size_t{out_row} * rows + out_col] = tile[threadIdx.x][k];
    }
  }
}
// One pixel a thread: three bytes in, a value in each plane out.
template <class X, class O>
__global__ void pixel_a_thread_kernel(X const* x, O* y, float const* scale, float const* shift,
                                      unsigned batch, unsigned pixels) {
  std::size_t const i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= std::size_t{batch} * pixels) return;
  std::size_t const image = i / pixels;
  std::size_t const pixel = i % pixels;
  for (unsigned c = 0; c < 3; ++c) {
    y[(image * 3 + c) * pixels + pixel] =
        from_float<O>(static_cast<float>(x[i * 3 + c]) * scale[c] + shift[c]);
  }
}
// Eight pixels a thread: 24 bytes in, 16 bytes in each plane out.
__global__ void eight_pixels_kernel(unsigned char const* x, __half* y, float const* scale,
                                    float const* shift, unsigned batch, unsigned pixels) {
  unsigned const i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= batch * pixels / 8) return;
  unsigned const image = i / (pixels / 8);
  unsigned const pixel = i % (pixels / 8);
  uint2 held[3];
  for (unsigned k = 0; k < 3; ++k) held[k] = reinterpret_cast<uint2 const*>(x)[i * 3 + k];
  unsigned const words[6] = {held[0].x, held[0].y, held[1].x, held[1].y, held[2].x, held[2].y};
#pragma unroll
  for (unsigned c = 0; c < 3; ++c) {
    float const a = scale[c];
    float const b = shift[c];
    float value[8];
#pragma unroll
    for (unsigned j = 0; j < 8; ++j) {
      unsigned const at = j * 3 + c;
      value[j] = static_cast<float>(words[at / 4] >> (8 * (at % 4)) & 255U) * a + b;
    }
    __half2 out[4];
#pragma unroll
    for (unsigned j = 0; j < 4; ++j) out[j] = __floats2half2_rn(value[2 * j], value[2 * j + 1]);
    uint4 all;
    memcpy(&all, out, sizeof all);
    reinterpret_cast<uint4*>(y)[(image * 3 + c) * (pixels / 8) + pixel] = all;
  }
}
template <class T>
__global__ void element_a_thread_kernel(T const* x, T* y, unsigned rows, unsigned cols,
                                        unsigned pitch, unsigned step) {
  unsigned const col = blockIdx.x * blockDim.x + threadIdx.x;
  if (col < cols) {
    y[std::size_t{blockIdx.y} * cols + col] =
        x[std::size_t{blockIdx.y} * pitch + std::size_t{col} * step];
  }
  static_cast<void>(rows);
}

template <class T>
__global__ void element_into_rows_kernel(T const* x, T* y, unsigned n, unsigned cols,
                                         unsigned pitch) {
  unsigned const i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[std::size_t{i / cols} * pitch + i % cols] = x[i];
}

struct memcpy_2d {
  template <class T>
  void operator()(ww::stream_ref s, rotating_pairs<T, T, into_rows> const& a,
                  std::size_t set) const {
    into_rows const& to = a.shape();
    std::size_t const row_bytes = to.cols * sizeof(T);
    ww::check(cudaMemcpy2DAsync(a.out(set), to.pitch * sizeof(T), a.in(set), row_bytes, row_bytes,
                                to.rows, cudaMemcpyDeviceToDevice, s.get()),
              "cudaMemcpy2DAsync");
  }
};

struct by_hand {
  template <class T>
  static void transpose(ww::stream_ref s, T const* x, T* y, std::size_t batch, std::size_t rows,
                        std::size_t cols) {
    dim3 const grid{static_cast<unsigned>((cols + 31) / 32),
                    static_cast<unsigned>((rows + 31) / 32), static_cast<unsigned>(batch)};
    tile_32_33_kernel<<<grid, dim3{32, 8}, 0, s.get()>>>(x, y, static_cast<unsigned>(rows),
                                                         static_cast<unsigned>(cols));
  }
  template <class T>
  void operator()(ww::stream_ref s, rotating_pairs<T, T, square> const& a, std::size_t set) const {
    transpose(s, a.in(set), a.out(set), 1, a.shape().side, a.shape().side);
  }
  template <class T>
  void operator()(ww::stream_ref s, rotating_pairs<T, T, channels_last> const& a,
                  std::size_t set) const {
    transpose(s, a.in(set), a.out(set), a.shape().batch, a.shape().channels, a.shape().pixels);
  }
  template <class X, class O>
  void operator()(ww::stream_ref s, rotating_pairs<X, O, channels_first> const& a,
                  std::size_t set) const {
    auto const batch = static_cast<unsigned>(a.shape().batch);
    auto const pixels = static_cast<unsigned>(a.shape().pixels);
    unsigned const blocks = (batch * pixels + 255) / 256;
    pixel_a_thread_kernel<<<blocks, 256, 0, s.get()>>>(a.in(set), a.out(set), a.scale(), a.shift(),
                                                       batch, pixels);
  }
  template <class T>
  void operator()(ww::stream_ref s, rotating_pairs<T, T, matrix_part> const& a,
                  std::size_t set) const {
    auto const cols = static_cast<unsigned>(a.shape().cols);
    auto const rows = static_cast<unsigned>(a.shape().rows);
    element_a_thread_kernel<<<dim3{(cols + 255) / 256, rows}, 256, 0, s.get()>>>(
        a.in(set), a.out(set), rows, cols, static_cast<unsigned>(a.shape().pitch),
        static_cast<unsigned>(a.shape().step));
  }
  template <class T>
  void operator()(ww::stream_ref s, rotating_pairs<T, T, into_rows> const& a,
                  std::size_t set) const {
    auto const n = static_cast<unsigned>(a.shape().in_size());
    element_into_rows_kernel<<<(n + 255) / 256, 256, 0, s.get()>>>(
        a.in(set), a.out(set), n, static_cast<unsigned>(a.shape().cols),
        static_cast<unsigned>(a.shape().pitch));
  }
};
struct eight_pixels_by_hand {
  void operator()(ww::stream_ref s, rotating_pairs<unsigned char, __half, channels_first> const& a,
                  std::size_t set) const {
    auto const batch = static_cast<unsigned>(a.shape().batch);
    auto const pixels = static_cast<unsigned>(a.shape().pixels);
    eight_pixels_kernel<<<(batch * pixels / 8 + 255) / 256, 256, 0, s.get()>>>(
        a.in(set), a.out(set), a.scale(), a.shift(), batch, pixels);
  }
};

#endif

template <class X, class O, class Shape>
void add(std::string const& name, Shape const& shape) {
  using pairs = rotating_pairs<X, O, Shape>;
  auto const all = std::make_shared<bench_support::interleaved<pairs>>(
      [shape](ww::stream_ref s, bench_support::shape const&) {
        return std::make_unique<pairs>(s, shape);
      });
  auto const right = [](pairs const& a) { return verified(a); };
  all->add("warpwright_ew", warpwright_ew{}, right);
#if defined(__CUDACC__)
  all->add("by_hand", by_hand{}, right);
  if constexpr (std::is_same<Shape, into_rows>::value) {
    if (shape.cols > 3) all->add("memcpy_2d", memcpy_2d{}, right);
  }
  if constexpr (std::is_same<pairs, rotating_pairs<unsigned char, __half, channels_first>>::value) {
    if (shape.pixels % 8 == 0) all->add("eight_pixels", eight_pixels_by_hand{}, right);
  }
#endif
  // Last, since it overwrites inputs, too.
  all->add("copy_of_same_traffic", copy_of_same_traffic{}, [](pairs const&) { return true; });
  bench_support::interleaved<pairs>::register_all(
      all, name, {{{static_cast<std::int64_t>(moved_elements(shape))}, 1, samples, false}});
}

int const registered = [] {
  std::size_t const side = 8192 / shrink;
  add<float, float>("transpose_f32", square{side});
  add<__half, __half>("transpose_f16", square{side});
  add<unsigned char, unsigned char>("transpose_u8", square{side});
  add<float, float>("transpose_odd_f32", square{side - 2});
  add<__half, __half>("transpose_odd_f16", square{side - 2});
  add<float, float>("transpose_8191_f32", square{side - 1});
  add<__half, __half>("transpose_8191_f16", square{side - 1});
  add<unsigned char, unsigned char>("transpose_8191_u8", square{side - 1});
  channels_last const broad{1, 1000 / shrink, 30000};
  add<float, float>("transpose_1000_f32", broad);
  add<__half, __half>("transpose_1000_f16", broad);
  add<unsigned char, unsigned char>("transpose_1000_u8", broad);
  add<float, float>("into_pixels_of_planes_f32", channels_last{1, 4, 8000000 / shrink});
  std::size_t const pixels = std::size_t{112} * 112 / shrink;
  add<float, float>("nchw_to_nhwc_f32", channels_last{32, 64, pixels});
  add<__half, __half>("nchw_to_nhwc_f16", channels_last{32, 64, pixels});
  channels_first const even{64, 3, std::size_t{512} * 512 / shrink};
  add<unsigned char, __half>("planes_u8_f16", even);
  add<unsigned char, float>("planes_u8_f32", even);
  add<float, float>("planes_f32", even);
  channels_first const uneven{64, 3, std::size_t{511} * 513 / shrink};
  add<unsigned char, __half>("planes_odd_u8_f16", uneven);
  add<float, float>("planes_odd_f32", uneven);
  add<float, float>("slice_f32", matrix_part{side, side, 2 * side, 2});
  add<float, float>("rows_f32", matrix_part{side, side, side + 64, 1});
  into_rows const pitched{side, side, side + 64};
  add<float, float>("into_rows_f32", pitched);
  add<__half, __half>("into_rows_f16", pitched);
  add<unsigned char, unsigned char>("into_rows_u8", pitched);
  into_rows const odd{side, side - 1, side + 1};
  add<float, float>("into_odd_rows_f32", odd);
  add<unsigned char, unsigned char>("into_odd_rows_u8", odd);
  into_rows const pixel{std::size_t{64} * 512 * 512 / shrink, 3, 4};
  add<float, float>("into_pixels_f32", pixel);
  add<unsigned char, unsigned char>("into_pixels_u8", pixel);
  return 0;
}();

}  // namespace
