// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Matrix products: cuBLAS on a GPU, a blocked loop in a kernel of the host runtime without one.
#pragma once

#include <warpwright/core/launch.hpp>
#include <warpwright/memory/buffer.hpp>
#include <warpwright/memory/pool.hpp>

#include <cstdint>
#include <stdexcept>
#include <string>

#if defined(__CUDACC__)
#include <cublas_v2.h>
#endif

namespace digits {

namespace ww = warpwright;

/// A row-major matrix of floats in device memory, as a factor of a product.
struct factor {
  float const* data;
  std::uint64_t columns;    ///< of the matrix in memory
  bool transposed = false;  ///< multiply by the transpose
};

#if defined(__CUDACC__)

namespace detail {

inline void check_cublas(cublasStatus_t status, char const* call) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw std::runtime_error{std::string{call} + ": " + cublasGetStatusName(status) + ": " +
                             cublasGetStatusString(status)};
  }
}

class cublas_handle {
 public:
  cublas_handle() { check_cublas(cublasCreate(&handle_), "cublasCreate"); }
  ~cublas_handle() { static_cast<void>(cublasDestroy(handle_)); }
  cublas_handle(cublas_handle const&) = delete;
  cublas_handle& operator=(cublas_handle const&) = delete;
  [[nodiscard]] cublasHandle_t get() const noexcept { return handle_; }

 private:
  cublasHandle_t handle_ = nullptr;
};

inline int to_int(std::uint64_t size) {
  if (size > 0x7fffffffU) throw std::invalid_argument{"a matrix is too large for cuBLAS"};
  return static_cast<int>(size);
}

}  // namespace detail

/// Multiplies matrices on one stream, to which cuBLAS's workspace belongs.
class multiplier {
 public:
  /// The workspace is allocated from the pool beforehand, as a capture must not allocate.
  multiplier(ww::memory_pool& pool, ww::stream_ref stream)
      : stream_{stream}, workspace_{pool, stream, workspace_bytes} {
    detail::check_cublas(cublasSetStream(handle_.get(), stream.get()), "cublasSetStream");
    // After cublasSetStream, which resets the workspace to cuBLAS's own.
    detail::check_cublas(cublasSetWorkspace(handle_.get(), workspace_.data(), workspace_bytes),
                         "cublasSetWorkspace");
  }

  /// product (rows x columns) = a (rows x inner) * b (inner x columns)
  void operator()(float* product, std::uint64_t rows, std::uint64_t columns, std::uint64_t inner,
                  factor const& a, factor const& b) {
    float const one = 1.0F;
    float const zero = 0.0F;
    // Row-major product = column-major product of the factors in the other order.
    detail::check_cublas(
        cublasSgemm(handle_.get(), b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
                    a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N, detail::to_int(columns),
                    detail::to_int(rows), detail::to_int(inner), &one, b.data,
                    detail::to_int(b.columns), a.data, detail::to_int(a.columns), &zero, product,
                    detail::to_int(columns)),
        "cublasSgemm");
  }

  /// @return the stream of the work
  [[nodiscard]] ww::stream_ref stream() const noexcept { return stream_; }

 private:
  static constexpr std::size_t workspace_bytes = std::size_t{4} << 20U;
  ww::stream_ref stream_;
  ww::device_buffer<std::byte> workspace_;
  detail::cublas_handle handle_;  // destroyed before the workspace, which synchronises
};

#else

namespace detail {

// Four rows of the product: each row of the second factor is read once for all four rows.
struct multiply_rows {
  static constexpr std::uint64_t tile_rows = 4;

  float* product;
  float const* a;
  float const* b;
  std::uint64_t rows, columns, inner;
  std::uint64_t a_row, a_column, b_row, b_column;  // strides

  void operator()(std::uint64_t tile) const {
    std::uint64_t const first = tile * tile_rows;
    std::uint64_t const end = first + tile_rows < rows ? first + tile_rows : rows;
    if (b_column != 1) {
      dot_products(first, end);
      return;
    }
    for (std::uint64_t i = first * columns; i < end * columns; ++i) product[i] = 0.0F;
    std::uint64_t k = 0;
    for (; k + 4 <= inner; k += 4) {
      for (std::uint64_t i = first; i < end; ++i) {
        add_four(product + i * columns, columns, a + i * a_row + k * a_column, a_column,
                 b + k * b_row, b_row);
      }
    }
    for (; k < inner; ++k) {
      for (std::uint64_t i = first; i < end; ++i) {
        float const value = a[i * a_row + k * a_column];
        for (std::uint64_t j = 0; j < columns; ++j) {
          product[i * columns + j] += value * b[k * b_row + j];
        }
      }
    }
  }

 private:
  // Adds four terms to a row of the product, sixteen columns at a time: loops of a fixed length
  // are vectorised at -O2.
  static void add_four(float* __restrict__ row, std::uint64_t columns,
                       float const* __restrict__ left, std::uint64_t left_column,
                       float const* __restrict__ right, std::uint64_t right_row) {
    constexpr std::uint64_t width = 16;
    float const v0 = left[0];
    float const v1 = left[left_column];
    float const v2 = left[2 * left_column];
    float const v3 = left[3 * left_column];
    float const* r0 = right;
    float const* r1 = r0 + right_row;
    float const* r2 = r1 + right_row;
    float const* r3 = r2 + right_row;
    std::uint64_t j = 0;
    for (; j + width <= columns; j += width) {
      for (std::uint64_t c = 0; c < width; ++c) {
        row[j + c] += v0 * r0[j + c] + v1 * r1[j + c] + v2 * r2[j + c] + v3 * r3[j + c];
      }
    }
    for (; j < columns; ++j) row[j] += v0 * r0[j] + v1 * r1[j] + v2 * r2[j] + v3 * r3[j];
  }

  void dot_products(std::uint64_t first, std::uint64_t end) const {
    for (std::uint64_t i = first; i < end; ++i) {
      for (std::uint64_t j = 0; j < columns; ++j) {
        float sum = 0.0F;
        for (std::uint64_t k = 0; k < inner; ++k) {
          sum += a[i * a_row + k * a_column] * b[k * b_row + j * b_column];
        }
        product[i * columns + j] = sum;
      }
    }
  }
};

}  // namespace detail

/// Multiplies matrices, on one stream.
class multiplier {
 public:
  multiplier(ww::memory_pool&, ww::stream_ref stream) : stream_{stream} {}

  /// product (rows x columns) = a (rows x inner) * b (inner x columns)
  void operator()(float* product, std::uint64_t rows, std::uint64_t columns, std::uint64_t inner,
                  factor const& a, factor const& b) {
    detail::multiply_rows const body{product,
                                     a.data,
                                     b.data,
                                     rows,
                                     columns,
                                     inner,
                                     a.transposed ? 1 : a.columns,
                                     a.transposed ? a.columns : 1,
                                     b.transposed ? 1 : b.columns,
                                     b.transposed ? b.columns : 1};
    std::uint64_t const tiles = (rows + body.tile_rows - 1) / body.tile_rows;
    ww::for_each_index(stream_, tiles, body);
  }

  /// @return the stream of the work
  [[nodiscard]] ww::stream_ref stream() const noexcept { return stream_; }

 private:
  ww::stream_ref stream_;
};

#endif

}  // namespace digits
