// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The measured ceilings of the device beside the same measured by hand: copies by events around
// cudaMemcpyAsync, reads by a grid-stride kernel, a matrix product by cuBLAS for as long as
// measure_ceilings() runs it, as its clock rate depends on that. Five times in turn. Prints CSV.
//
//   measure_ceilings_bench
#include <warpwright/measure/ceilings.hpp>
#include <warpwright/memory/buffer.hpp>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <utility>
#include <vector>

#if !WARPWRIGHT_HOST_RUNTIME
#include <cublas_v2.h>
#endif

namespace {

namespace ww = warpwright;

double median(std::vector<double> all) {
  auto const middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  std::nth_element(all.begin(), middle, all.end());
  return *middle;
}

// The median seconds of a call, of calls for so many seconds.
template <class Call>
double median_seconds(ww::stream const& stream, double seconds, Call call) {
  ww::timed_event begin, end;
  std::vector<double> all;
  call();
  for (double sum = 0.0; sum < seconds; sum += all.back()) {
    begin.record(stream.get());
    call();
    end.record(stream.get());
    end.synchronize();
    all.push_back(1e-3 * static_cast<double>(end.milliseconds_since(begin)));
  }
  return median(std::move(all));
}

#if !WARPWRIGHT_HOST_RUNTIME
__global__ void sum(float4 const* from, std::size_t n, float* to) {
  float4 total{};
  std::size_t const step = std::size_t{gridDim.x} * blockDim.x;
  std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (; i + 3 * step < n; i += 4 * step) {
    float4 const a = from[i], b = from[i + step], c = from[i + 2 * step], d = from[i + 3 * step];
    total.x += a.x + b.x + c.x + d.x;
    total.y += a.y + b.y + c.y + d.y;
    total.z += a.z + b.z + c.z + d.z;
    total.w += a.w + b.w + c.w + d.w;
  }
  to[std::size_t{blockIdx.x} * blockDim.x + threadIdx.x] = total.x + total.y + total.z + total.w;
}
#endif

void run() {
  ww::stream stream;
  ww::memory_pool pool{ww::current_device(),
                       ww::memory_pool_options{}.source(ww::memory_source::cuda_malloc)};
  bool const host = ww::get_device_info(ww::current_device()).host_runtime;
  std::size_t const bytes = std::size_t{1} << (host ? 24U : 30U);
  ww::device_buffer<float> a{pool, stream, bytes / 4}, b{pool, stream, bytes / 4};
  ww::check(cudaMemsetAsync(a.data(), 0, bytes, stream.get()), "cudaMemsetAsync");
#if !WARPWRIGHT_HOST_RUNTIME
  constexpr int n = 8192;
  cublasHandle_t handle = nullptr;
  if (cublasCreate(&handle) != CUBLAS_STATUS_SUCCESS) throw std::runtime_error{"cublasCreate"};
  cublasSetStream(handle, stream.get());
  auto* const matrices = reinterpret_cast<std::uint16_t*>(a.data());
  ww::for_each_index(stream, 2ULL * n * n,
                     ww::ceiling_kernels::fill_random{matrices, 0x80ffU, 0x3f00U});
#endif
  std::vector<double> ours[ww::limit_count], by_hand[ww::limit_count];
  ww::device_ceilings c;
  for (int turn = 0; turn < (host ? 1 : 5); ++turn) {
    c = ww::measure_ceilings(stream);
    std::printf("%s\nseconds,%.2f\n", ww::to_text(c).c_str(), c.seconds);
    auto const measured = [&](ww::limit which, double work, double seconds) {
      ours[static_cast<std::size_t>(which)].push_back(c[which].value);
      by_hand[static_cast<std::size_t>(which)].push_back(work / seconds);
    };
    double const copy = median_seconds(stream, 0.2, [&] {
      ww::check(cudaMemcpyAsync(b.data(), a.data(), bytes, cudaMemcpyDeviceToDevice, stream.get()),
                "cudaMemcpyAsync");
    });
    measured(ww::limit::copy, 2.0 * static_cast<double>(bytes), copy);
#if !WARPWRIGHT_HOST_RUNTIME
    unsigned const blocks = 8U * static_cast<unsigned>(c.gpu.multiprocessors);
    double const read = median_seconds(stream, 0.2, [&] {
      sum<<<blocks, 256, 0, stream.get()>>>(reinterpret_cast<float4 const*>(a.data()), bytes / 16,
                                            b.data());
    });
    measured(ww::limit::read, static_cast<double>(bytes), read);
    float const one = 1.0F, zero = 0.0F;
    double const product = median_seconds(stream, 0.8, [&] {
      cublasGemmEx(handle, CUBLAS_OP_T, CUBLAS_OP_N, n, n, n, &one, matrices, CUDA_R_16BF, n,
                   matrices + std::size_t{n} * n, CUDA_R_16BF, n, &zero, b.data(), CUDA_R_16BF, n,
                   CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
    });
    measured(ww::limit::tensor, 2.0 * n * n * n, product);
#endif
  }
  std::printf("ceiling,ours,by hand,ratio,its range\n");
  for (std::size_t i = 0; i < ww::limit_count; ++i) {
    if (ours[i].empty()) continue;
    std::vector<double> ratios;
    for (std::size_t k = 0; k < ours[i].size(); ++k) ratios.push_back(ours[i][k] / by_hand[i][k]);
    auto const range = std::minmax_element(ratios.begin(), ratios.end());
    std::printf("%s,%.4g,%.4g,%.4f,%.3f to %.3f\n", ww::to_string(static_cast<ww::limit>(i)),
                median(ours[i]), median(by_hand[i]), median(ratios), *range.first, *range.second);
  }
#if !WARPWRIGHT_HOST_RUNTIME
  cublasDestroy(handle);
#endif
}

}  // namespace

int main() {
  try {
    run();
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
