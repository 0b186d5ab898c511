// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Matrix products of the real workloads: cuBLAS on a GPU, with tensor cores; loops in a kernel of
// the host runtime without one. A failed call is an exception of a type that the tuner does not
// know, as of another library.
#pragma once

#include <warpwright/core/launch.hpp>
#include <warpwright/memory/buffer.hpp>
#include <warpwright/memory/resource_ref.hpp>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>

#if defined(__CUDACC__)
#include <cublas_v2.h>
#include <cuda_fp16.h>
#endif

namespace test_support {

namespace ww = warpwright;

// Half precision, as networks use it; float where it would only be slow.
#if defined(__CUDACC__)
using half_type = __half;
constexpr int library_out_of_memory = CUBLAS_STATUS_ALLOC_FAILED;
#else
using half_type = float;
constexpr int library_out_of_memory = 3;
#endif

// The status of a library as an exception; no std::runtime_error, no std::bad_alloc.
class library_error : public std::exception {
 public:
  library_error(int status, char const* call)
      : status_{status}, text_{std::string{call} + " returned " + std::to_string(status)} {}
  [[nodiscard]] int status() const noexcept { return status_; }
  [[nodiscard]] char const* what() const noexcept override { return text_.c_str(); }

 private:
  int status_;
  std::string text_;
};

inline void check_library(int status, char const* call) {
  if (status != 0) throw library_error{status, call};
}

// `count` products of rows x inner matrices with inner x columns ones.
struct product_shape {
  std::size_t rows;
  std::size_t columns;
  std::size_t inner;
  std::size_t count = 1;
};

// Row-major matrices, the same number of elements apart.
template <class T>
struct matrix {
  T* data;
  std::size_t row_stride;         // elements
  std::size_t matrix_stride = 0;  // elements
  bool transposed = false;
};

#if defined(__CUDACC__)

// On one stream, to which cuBLAS's workspace belongs.
class matrix_products {
 public:
  matrix_products(ww::resource_ref memory, ww::stream_ref stream)
      : workspace_{memory, stream, workspace_bytes} {
    check_library(cublasCreate(&handle_), "cublasCreate");
    check_library(cublasSetStream(handle_, stream.get()), "cublasSetStream");
    // After cublasSetStream, which resets the workspace to cuBLAS's own.
    check_library(cublasSetWorkspace(handle_, workspace_.data(), workspace_bytes),
                  "cublasSetWorkspace");
  }
  ~matrix_products() { static_cast<void>(cublasDestroy(handle_)); }
  matrix_products(matrix_products const&) = delete;
  matrix_products& operator=(matrix_products const&) = delete;

  template <class T>
  void multiply(product_shape const& shape, matrix<T> const& product, matrix<T const> const& a,
                matrix<T const> const& b) const {
    constexpr bool single = sizeof(T) == 4;
    constexpr cudaDataType type = single ? CUDA_R_32F : CUDA_R_16F;
    constexpr cublasComputeType_t compute =
        single ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    float const one = 1.0F;
    float const zero = 0.0F;
    auto const stride = [](std::size_t elements) { return static_cast<long long>(elements); };
    auto const size = [](std::size_t elements) { return static_cast<int>(elements); };
    // Row-major product = column-major product of the factors in the other order.
    check_library(
        cublasGemmStridedBatchedEx(handle_, b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
                                   a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N, size(shape.columns),
                                   size(shape.rows), size(shape.inner), &one, b.data, type,
                                   size(b.row_stride), stride(b.matrix_stride), a.data, type,
                                   size(a.row_stride), stride(a.matrix_stride), &zero, product.data,
                                   type, size(product.row_stride), stride(product.matrix_stride),
                                   size(shape.count), compute, CUBLAS_GEMM_DEFAULT),
        "cublasGemmStridedBatchedEx");
  }

 private:
  static constexpr std::size_t workspace_bytes = std::size_t{32} << 20;
  ww::device_buffer<std::byte, ww::resource_ref> workspace_;
  cublasHandle_t handle_ = nullptr;  // destroyed before the workspace, which synchronises
};

#else

// One row of a product.
template <class T>
struct multiply_row {
  product_shape shape;
  matrix<T> product;
  matrix<T const> a;
  matrix<T const> b;

  void operator()(std::uint64_t index) const {
    std::size_t const m = index / shape.rows;
    std::size_t const i = index % shape.rows;
    T* const row = product.data + m * product.matrix_stride + i * product.row_stride;
    T const* const left = a.data + m * a.matrix_stride;
    T const* const right = b.data + m * b.matrix_stride;
    for (std::size_t j = 0; j < shape.columns; ++j) row[j] = T{};
    for (std::size_t k = 0; k < shape.inner; ++k) {
      T const factor = a.transposed ? left[k * a.row_stride + i] : left[i * a.row_stride + k];
      std::size_t const step = b.transposed ? b.row_stride : 1;
      T const* const from = right + (b.transposed ? k : k * b.row_stride);
      for (std::size_t j = 0; j < shape.columns; ++j) row[j] += factor * from[j * step];
    }
  }
};

class matrix_products {
 public:
  matrix_products(ww::resource_ref, ww::stream_ref stream) : stream_{stream} {}

  template <class T>
  void multiply(product_shape const& shape, matrix<T> const& product, matrix<T const> const& a,
                matrix<T const> const& b) const {
    ww::for_each_index(stream_, shape.count * shape.rows, multiply_row<T>{shape, product, a, b});
  }

 private:
  ww::stream_ref stream_;
};

#endif

}  // namespace test_support
