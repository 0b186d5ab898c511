// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What a training step does over the rows of a matrix, beside GEMMs and attention.
//
//   layer_norm_backward  dx, dgamma and dbeta                    2 arrays read, 1 written
//   bias_gradient        a product, and the sums of its columns  2 arrays read, 1 written
//   cross_entropy        losses, and the gradient over logits    1 array read, 1 written
//   quantize             fp8 of each row, with its scale         1 array read, 1 of bytes written
//   quantize_blocks      the same of each 32 elements
//   gather               rows of a table by random indices       1 array read, 1 written
//   scatter_add          rows added to a table, each to one      2 arrays read, 1 written
//   causal_softmax       softmax of 1 to cols elements of a row  half of 1 array read and written
//
//   warpwright_ew  ours: full_softmax in causal_softmax is that of whole rows
//   hand_written   layer_norm_backward: two kernels, a warp a row, with partial sums of columns;
//                  bias_gradient: a kernel that adds its columns atomically
//   copy_of_same_traffic  cudaMemcpyAsync of as many bytes as are read and written, by two
//
// torch_training.py has PyTorch's. A name ends in /rows/cols: time is that of 20 launches between
// two events, divided by 20. They go through sets of matrices, 256 MiB or more together; the
// samples of one shape are interleaved.
#include <benchmark/benchmark.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>

#include <warpwright/core.hpp>
#include <warpwright/kernel.hpp>
#include <warpwright/kernel/indices.hpp>
#include <warpwright/kernel/row_gradients.hpp>
#include <warpwright/kernel/rows.hpp>
#include <warpwright/memory/pool.hpp>

#include <memory>
#include <string>
#include <vector>

#include "support/interleaved.hpp"
#include "support/rotating_buffers.hpp"
#include "support/values.hpp"

namespace ww = warpwright;
namespace ew = warpwright::ew;
using bench_support::from_float;
using bench_support::scattered;
using bench_support::to_float;

namespace {

constexpr std::size_t partial_rows = 264;  // of the hand-written kernels

// An order of rows in which neighbours are far apart.
struct permuted {
  std::uint64_t rows;
  WARPWRIGHT_HOST_DEVICE int operator()(std::uint64_t i) const {
    return static_cast<int>(i * 7919 % rows);
  }
};

template <class T>
class layers {
 public:
  layers(ww::stream_ref stream, std::size_t rows, std::size_t cols)
      : rows_{rows},
        cols_{cols},
        array_{bench_support::padded(rows * cols * sizeof(T))},
        statistic_{bench_support::padded(rows * sizeof(float))},
        parameter_{bench_support::padded(2 * partial_rows * cols * sizeof(float))},
        blocks_{bench_support::padded((rows * cols / 32 + 1) * sizeof(float))},
        memory_{3 * array_, 3 * statistic_ + 2 * parameter_ + blocks_, {2, 64}},
        pool_{ww::current_device(),
              ww::memory_pool_options{}.source(ww::memory_source::cuda_malloc)} {
    for (std::size_t k = 0; k < sets(); ++k) {
      for (std::size_t part = 0; part < 3; ++part) {
        ew::run(stream, ew::out(array(k, part), n()) = ew::map(scattered{k + part}, ew::index()));
      }
    }
    for (std::size_t k : {0U, 1U}) ew::run(stream, ew::out(statistic(k), rows) = 0.5F);
    ew::run(stream, ew::out(index(), rows) = ew::map(permuted{rows}, ew::index()));
    ew::run(stream, ew::out(gamma(), cols) = ew::map(scattered{99}, ew::index()));
    stream.synchronize();
  }
  T* array(std::size_t set, std::size_t part) const {
    return reinterpret_cast<T*>(memory_.set(set, part * array_));
  }
  float* statistic(std::size_t k) const {
    return reinterpret_cast<float*>(memory_.shared(k * statistic_));
  }
  int* index() const { return reinterpret_cast<int*>(statistic(2)); }
  float* gamma() const { return statistic(3); }
  float* sums() const {
    return reinterpret_cast<float*>(memory_.shared(3 * statistic_ + parameter_));
  }
  float* scales() const {
    return reinterpret_cast<float*>(memory_.shared(3 * statistic_ + 2 * parameter_));
  }
  ww::memory_pool& pool() const { return pool_; }
  std::size_t rows() const { return rows_; }
  std::size_t cols() const { return cols_; }
  std::size_t n() const { return rows_ * cols_; }
  std::size_t sets() const { return memory_.sets(); }
  static std::size_t bytes() { return 0; }

 private:
  std::size_t rows_, cols_, array_, statistic_, parameter_, blocks_;
  bench_support::rotating_buffers memory_;
  mutable ww::memory_pool pool_;
};

template <class T>
void layer_norm(ww::stream_ref s, layers<T> const& a, std::size_t set) {
  std::size_t const cols = a.cols();
  auto const g = ew::layer_norm_backward(
      ew::in(a.array(set, 0), a.n()), ew::in(a.array(set, 1), a.n()), ew::col(a.statistic(0), cols),
      ew::col(a.statistic(1), cols), ew::row(a.gamma(), cols));
  ew::run_row_gradients(s, a.pool(), {a.rows(), cols}, ew::out(a.array(set, 2), a.n()) = g.dx(),
                        ew::to(a.sums()) = g.dgamma(), ew::to(a.sums() + cols) = g.dbeta());
}
template <class T>
void bias(ww::stream_ref s, layers<T> const& a, std::size_t set) {
  auto const dz = ew::once(ew::in(a.array(set, 0), a.n()) * ew::in(a.array(set, 1), a.n()));
  ew::run_row_gradients(s, a.pool(), {a.rows(), a.cols()}, ew::out(a.array(set, 2), a.n()) = dz,
                        ew::to(a.sums()) = ew::column_sum(dz));
}
template <class T>
void cross_entropy(ww::stream_ref s, layers<T> const& a, std::size_t set) {
  auto const p = ew::softmax(ew::in(a.array(set, 0), a.n()));
  auto const target = ew::col(a.index(), a.cols());
  ew::run_rows(s, {a.rows(), a.cols()},
               ew::out(a.array(set, 1), a.n()) = (p - ew::one_hot(target)) * 0.5F,
               ew::out(a.statistic(0), a.rows()) = p.log_sum_exp() - p.input_at(target));
}
template <class T>
void quantize(ww::stream_ref s, layers<T> const& a, std::size_t set, std::size_t cols) {
  auto const q = ew::quantize<__nv_fp8_e4m3>(ew::in(a.array(set, 0), a.n()));
  auto* const to = reinterpret_cast<__nv_fp8_e4m3*>(a.array(set, 1));
  ew::run_rows(s, {a.n() / cols, cols}, ew::out(to, a.n()) = q,
               ew::out(a.scales(), a.n() / cols) = q.scale());
}
template <class T>
void gather(ww::stream_ref s, layers<T> const& a, std::size_t set) {
  ew::run(s, ew::out(a.array(set, 1), a.n()) =
                 ew::row_at(ew::in(a.array(set, 0), a.n()), ew::col(a.index(), a.cols())));
}
template <class T>
void scatter(ww::stream_ref s, layers<T> const& a, std::size_t set) {
  ew::run(s, ew::scatter_add(a.array(set, 1), a.n(), a.n(), ew::col(a.index(), a.cols())) =
                 ew::in(a.array(set, 0), a.n()));
}
template <class T>
void softmax(ww::stream_ref s, layers<T> const& a, std::size_t set, bool causal) {
  auto const p = ew::out(a.array(set, 1), a.n()) = ew::softmax(ew::in(a.array(set, 0), a.n()));
  if (causal) return ew::run_rows(s, ew::causal({a.rows(), a.cols()}, a.cols()), p);
  ew::run_rows(s, {a.rows(), a.cols()}, p);
}
// Of the first half of a set's bytes to the second, which moves `bytes` in all.
template <class T>
void copy(ww::stream_ref s, layers<T> const& a, std::size_t set, std::size_t bytes) {
  auto* const from = reinterpret_cast<unsigned char*>(a.array(set, 0));
  ww::check(cudaMemcpyAsync(from + bytes / 2, from, bytes / 2, cudaMemcpyDeviceToDevice, s.get()),
            "cudaMemcpyAsync");
}

#if defined(__CUDACC__)
__device__ float warp_sum(float v) {
  for (int d = 16; d != 0; d /= 2) v += __shfl_xor_sync(~0U, v, d);
  return v;
}
// A warp a row; each block keeps sums of columns in shared memory, and writes them as one row.
template <class T>
__global__ void norm_kernel(T const* dy, T const* x, float const* mean, float const* rstd,
                            float const* gamma, T* dx, float* partial, int rows, int cols) {
  extern __shared__ float sums[];
  for (int c = threadIdx.x; c < 2 * cols; c += blockDim.x) sums[c] = 0;
  __syncthreads();
  int const lane = threadIdx.x % 32, warps = blockDim.x / 32;
  for (int r = blockIdx.x * warps + threadIdx.x / 32; r < rows; r += gridDim.x * warps) {
    std::size_t const begin = std::size_t(r) * cols;
    float const m = mean[r], k = rstd[r];
    float of_d = 0, of_product = 0;
    for (int c = lane; c < cols; c += 32) {
      float const d = to_float(dy[begin + c]) * gamma[c];
      of_d += d;
      of_product += d * (to_float(x[begin + c]) - m) * k;
    }
    of_d = warp_sum(of_d) / cols, of_product = warp_sum(of_product) / cols;
    for (int c = lane; c < cols; c += 32) {
      float const g = to_float(dy[begin + c]), y = (to_float(x[begin + c]) - m) * k;
      dx[begin + c] = from_float<T>((g * gamma[c] - of_d - y * of_product) * k);
      atomicAdd(sums + c, g * y);
      atomicAdd(sums + cols + c, g);
    }
  }
  __syncthreads();
  for (int c = threadIdx.x; c < 2 * cols; c += blockDim.x) {
    partial[std::size_t(blockIdx.x) * 2 * cols + c] = sums[c];
  }
}
__global__ void sum_kernel(float const* partial, float* sums, int blocks, int cols) {
  int const c = blockIdx.x * 32 + threadIdx.x % 32;
  __shared__ float of_warp[8][32];
  float sum = 0;
  for (int b = threadIdx.x / 32; c < cols && b < blocks; b += 8)
    sum += partial[std::size_t(b) * cols + c];
  of_warp[threadIdx.x / 32][threadIdx.x % 32] = sum;
  __syncthreads();
  if (threadIdx.x >= 32 || c >= cols) return;
  for (int w = 1; w < 8; ++w) sum += of_warp[w][threadIdx.x];
  sums[c] = sum;
}
template <class T>
void plain_layer_norm(ww::stream_ref s, layers<T> const& a, std::size_t set) {
  int const cols = static_cast<int>(a.cols()), rows = static_cast<int>(a.rows());
  std::size_t const shared = 2 * a.cols() * sizeof(float);
  int const blocks = static_cast<int>(partial_rows) / 2;
  norm_kernel<<<blocks, 512, shared, s.get()>>>(a.array(set, 0), a.array(set, 1), a.statistic(0),
                                                a.statistic(1), a.gamma(), a.array(set, 2),
                                                a.sums() + 2 * cols, rows, cols);
  sum_kernel<<<(2 * cols + 31) / 32, 256, 0, s.get()>>>(a.sums() + 2 * cols, a.sums(), blocks,
                                                        2 * cols);
}
// A thread's column of some rows.
template <class T>
__global__ void bias_kernel(T const* a, T const* b, T* dz, float* sums, int rows, int cols) {
  int const c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= cols) return;
  float sum = 0;
  for (int r = blockIdx.y; r < rows; r += gridDim.y) {
    std::size_t const i = std::size_t(r) * cols + c;
    float const z = to_float(a[i]) * to_float(b[i]);
    dz[i] = from_float<T>(z);
    sum += z;
  }
  atomicAdd(sums + c, sum);
}
template <class T>
void plain_bias(ww::stream_ref s, layers<T> const& a, std::size_t set) {
  int const cols = static_cast<int>(a.cols());
  unsigned const columns = static_cast<unsigned>(cols + 255) / 256;
  cudaMemsetAsync(a.sums(), 0, a.cols() * sizeof(float), s.get());
  bias_kernel<<<dim3(columns, 132 * 8 / columns + 1), 256, 0, s.get()>>>(
      a.array(set, 0), a.array(set, 1), a.array(set, 2), a.sums(), static_cast<int>(a.rows()),
      cols);
}
using shapes = std::vector<std::vector<std::int64_t>>;
shapes const norms{{1024, 256}, {8192, 768}, {8192, 4096}}, biases{{1024, 1024}, {8192, 3072}};
shapes const logits{{8192, 32000}, {4096, 50257}}, fp8{{8192, 4096}}, causal{{393216, 1024}};
shapes const tables{{65536, 768}, {8192, 4096}};
constexpr int samples = 15;
#else
// The host runtime: shows that the program works, never a speed.
using shapes = std::vector<std::vector<std::int64_t>>;
shapes const norms{{60, 40}}, biases{{60, 40}}, logits{{6, 300}}, fp8{{64, 64}}, causal{{80, 40}};
shapes const tables{{60, 40}};
constexpr int samples = 2;
#endif

template <class T>
class family {
 public:
  family(std::string name, shapes sizes, double arrays)
      : name_{std::move(name)}, sizes_{std::move(sizes)}, arrays_{arrays} {}
  template <class Call>
  family& add(std::string const& path, Call call) {
    all_->add(path, call, [](layers<T> const&) { return true; });  // tests/ compares with fp64
    return *this;
  }
  // @param arrays  of the type that are read or written
  ~family() {
    add("copy_of_same_traffic", [arrays = arrays_](auto s, layers<T> const& a, std::size_t set) {
      auto const bytes = static_cast<double>(a.n() * sizeof(T)) * arrays;
      copy(s, a, set, static_cast<std::size_t>(bytes) / 512 * 512);
    });
    std::vector<bench_support::sampled_size> list;
    for (auto const& of : sizes_) list.push_back({of, 20, samples, false});
    bench_support::interleaved<layers<T>>::register_all(all_, name_, list);
  }

 private:
  std::string name_;
  shapes sizes_;
  double arrays_;
  std::shared_ptr<bench_support::interleaved<layers<T>>> all_ =
      std::make_shared<bench_support::interleaved<layers<T>>>(
          [](ww::stream_ref s, bench_support::shape const& of) {
            return std::make_unique<layers<T>>(s, static_cast<std::size_t>(of[0]),
                                               static_cast<std::size_t>(of[1]));
          });
};

template <class T>
void add_type(std::string const& type) {
  char const* const ours = "warpwright_ew";
  family<T> norm{"layer_norm_backward_" + type, norms, 3}, sums{"bias_gradient_" + type, biases, 3};
  norm.add(ours, layer_norm<T>);
  sums.add(ours, bias<T>);
#if defined(__CUDACC__)
  norm.add("hand_written", plain_layer_norm<T>);
  sums.add("hand_written", plain_bias<T>);
#endif
  family<T>{"cross_entropy_" + type, logits, 2}.add(ours, cross_entropy<T>);
  double const bytes = 1 + 1.0 / sizeof(T);
  family<T>{"quantize_" + type, fp8, bytes}.add(
      ours, [](auto s, layers<T> const& a, std::size_t set) { quantize(s, a, set, a.cols()); });
  family<T>{"quantize_blocks_" + type, fp8, bytes + 0.125 / sizeof(T)}.add(
      ours, [](auto s, layers<T> const& a, std::size_t set) { quantize(s, a, set, 32); });
  family<T>{"gather_" + type, tables, 2}.add(ours, gather<T>);
  family<T>{"scatter_add_" + type, tables, 3}.add(ours, scatter<T>);
  family<T>{"causal_softmax_" + type, causal, 1}
      .add(ours, [](auto s, layers<T> const& a, std::size_t set) { softmax(s, a, set, true); })
      .add("full_softmax",
           [](auto s, layers<T> const& a, std::size_t set) { softmax(s, a, set, false); });
}

int const registered = [] {
  add_type<float>("f32");
  add_type<__nv_bfloat16>("bf16");
  return 0;
}();

}  // namespace
