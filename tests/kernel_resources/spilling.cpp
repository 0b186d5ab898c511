// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Kernels that use local memory or many registers on purpose, and one that uses neither: what
// check.py has to tell apart.

namespace warpwright {
namespace on_purpose {

// Too many values at once for 64 registers.
__global__ void __launch_bounds__(1024) spilling_kernel(float const* in, float* out) {
  float values[96];
#pragma unroll
  for (int k = 0; k < 96; ++k) values[k] = in[k * 1024 + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int k = 0; k < 96; ++k) out[k * 1024 + threadIdx.x] = values[k] * values[(k * 7 + 3) % 96];
}

// Indexed at run time.
__global__ void indexing_kernel(float const* in, int const* at, float* out) {
  float values[8];
  for (int k = 0; k < 8; ++k) values[k] = in[k];
  for (int k = 0; k < 8; ++k) values[at[k] & 7] += 1.0F;
  out[threadIdx.x] = values[at[threadIdx.x] & 7];
}

// Indexed at run time, but among what check.py allows.
template <class Function>
__global__ void allowed_kernel(float const* in, int const* at, float* out) {
  float values[8];
  for (int k = 0; k < 8; ++k) values[k] = in[k];
  for (int k = 0; k < 8; ++k) values[at[k] & 7] += 1.0F;
  out[threadIdx.x] = values[at[threadIdx.x] & 7];
}
struct sin_function;
template __global__ void allowed_kernel<sin_function>(float const*, int const*, float*);

// More registers than check.py allows a kernel of this name.
template <class T>
__global__ void top_k_kernel(T const* in, T* out) {
  T values[100];
#pragma unroll
  for (int k = 0; k < 100; ++k) values[k] = in[k * 1024 + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int k = 0; k < 100; ++k) out[k * 1024 + threadIdx.x] = values[k] * values[(k * 7 + 3) % 100];
}
template __global__ void top_k_kernel<int>(int const*, int*);

__global__ void frugal_kernel(float const* in, float* out) { out[threadIdx.x] = in[threadIdx.x]; }

}  // namespace on_purpose
}  // namespace warpwright

// Outside the library's namespace: not checked.
__global__ void strange_kernel(float const* in, int const* at, float* out) {
  float values[8];
  for (int k = 0; k < 8; ++k) values[k] = in[k];
  for (int k = 0; k < 8; ++k) values[at[k] & 7] += 1.0F;
  out[threadIdx.x] = values[at[threadIdx.x] & 7];
}
