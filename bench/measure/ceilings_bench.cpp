// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The measured ceilings of the device beside the same measured by hand in the same run: copies by
// events around cudaMemcpyAsync, reads by a grid-stride kernel, a matrix product by cuBLAS. Prints
// CSV.
//
//   measure_ceilings_bench
#include <warpwright/measure/ceilings.hpp>
#include <warpwright/memory/buffer.hpp>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <vector>

#if !WARPWRIGHT_HOST_RUNTIME
#include <cublas_v2.h>
#endif

namespace {

namespace ww = warpwright;

// The median seconds of a call.
template <class Call>
double median_seconds(ww::stream const& stream, Call call) {
  ww::timed_event begin, end;
  std::vector<double> all;
  for (int i = 0; i < 60; ++i) {
    begin.record(stream.get());
    call();
    end.record(stream.get());
    end.synchronize();
    if (i >= 10) all.push_back(1e-3 * static_cast<double>(end.milliseconds_since(begin)));
  }
  std::nth_element(all.begin(), all.begin() + 25, all.end());
  return all[25];
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
  ww::device_ceilings const c = ww::measure_ceilings(stream);
  std::printf("%s\nseconds,%.2f\n", ww::to_text(c).c_str(), c.seconds);
  std::printf("ceiling,ours,by hand,ratio\n");
  auto const row = [&](ww::limit which, double by_hand) {
    double const ours = c[which].value;
    std::printf("%s,%.4g,%.4g,%.4f\n", ww::to_string(which), ours, by_hand, ours / by_hand);
  };
  ww::memory_pool pool{ww::current_device(),
                       ww::memory_pool_options{}.source(ww::memory_source::cuda_malloc)};
  std::size_t const bytes = c.device.host_runtime ? std::size_t{16} << 20U : std::size_t{1} << 30U;
  ww::device_buffer<float> a{pool, stream, bytes / 4}, b{pool, stream, bytes / 4};
  ww::check(cudaMemsetAsync(a.data(), 0, bytes, stream.get()), "cudaMemsetAsync");
  double const copy = median_seconds(stream, [&] {
    ww::check(cudaMemcpyAsync(b.data(), a.data(), bytes, cudaMemcpyDeviceToDevice, stream.get()),
              "cudaMemcpyAsync");
  });
  row(ww::limit::copy, 2.0 * static_cast<double>(bytes) / copy);
#if !WARPWRIGHT_HOST_RUNTIME
  unsigned const blocks = 8U * static_cast<unsigned>(c.gpu.multiprocessors);
  double const read = median_seconds(stream, [&] {
    sum<<<blocks, 256, 0, stream.get()>>>(reinterpret_cast<float4 const*>(a.data()), bytes / 16,
                                          b.data());
  });
  row(ww::limit::read, static_cast<double>(bytes) / read);
  constexpr int n = 8192;
  cublasHandle_t handle = nullptr;
  if (cublasCreate(&handle) != CUBLAS_STATUS_SUCCESS) throw std::runtime_error{"cublasCreate"};
  cublasSetStream(handle, stream.get());
  auto* const matrices = reinterpret_cast<std::uint16_t*>(a.data());
  ww::for_each_index(stream, 2ULL * n * n,
                     ww::ceiling_kernels::fill_random{matrices, 0x80ffU, 0x3f00U});
  float const one = 1.0F, zero = 0.0F;
  double const product = median_seconds(stream, [&] {
    cublasGemmEx(handle, CUBLAS_OP_T, CUBLAS_OP_N, n, n, n, &one, matrices, CUDA_R_16BF, n,
                 matrices + std::size_t{n} * n, CUDA_R_16BF, n, &zero, b.data(), CUDA_R_16BF, n,
                 CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
  });
  row(ww::limit::tensor, 2.0 * n * n * n / product);
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
