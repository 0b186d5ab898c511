// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The kinds of work in streams and graphs.
#pragma once

#include <cuda_runtime_api.h>
#include <warpwright/core/detail/launch/host_launch.hpp>

#include <cstddef>
#include <memory>
#include <string>

#include "objects.hpp"

namespace warpwright::host {

/// A kernel with a copy of its arguments.
class kernel_work final : public work {
 public:
  explicit kernel_work(warpwright_host_kernel const& kernel);
  ~kernel_work() override;
  kernel_work(kernel_work const&) = delete;
  kernel_work& operator=(kernel_work const&) = delete;
  void run() const override;
  work_kind kind() const noexcept override { return work_kind::kernel; }

  void const* function() const noexcept { return kernel_.function; }
  char const* name() const noexcept { return name_.c_str(); }
  unsigned long long size() const noexcept { return kernel_.size; }
  void const* arguments() const noexcept { return arguments_; }
  /// As cudaKernelNodeParams::kernelParams: a kernel has one argument, the functor.
  void** parameters() const noexcept { return &arguments_; }
  warpwright_host_kernel const& kernel() const noexcept { return kernel_; }

 private:
  warpwright_host_kernel kernel_;
  std::string name_;
  mutable void* arguments_;  // parameters() has CUDA's type, which is not const
};

/// A copy of up to three dimensions; rows of `width` bytes.
struct copy_shape {
  std::byte* to = nullptr;
  std::byte const* from = nullptr;
  std::size_t width = 0, height = 1, depth = 1;
  std::size_t to_pitch = 0, from_pitch = 0;
  std::size_t to_slice = 0, from_slice = 0;
  cudaMemcpyKind kind = cudaMemcpyDefault;  // not cudaMemcpyDefault once check_copy() has succeeded
  int to_device = -1, from_device = -1;     // -1: host
  bool to_pageable = false, from_pageable = false;
};

void run_copy(copy_shape const& shape);

class copy_work final : public work {
 public:
  explicit copy_work(copy_shape const& shape, std::unique_ptr<std::byte[]> staged = nullptr)
      : shape_(shape), staged_(std::move(staged)) {}
  void run() const override;
  work_kind kind() const noexcept override { return work_kind::copy; }
  copy_shape const& shape() const noexcept { return shape_; }

 private:
  copy_shape shape_;
  std::unique_ptr<std::byte[]> staged_;  // a copy of the pageable source
};

struct fill_shape {
  std::byte* to = nullptr;
  unsigned value = 0;
  unsigned element_bytes = 1;  // 1, 2 or 4
  std::size_t width = 0;       // elements per row
  std::size_t height = 1;
  std::size_t pitch = 0;  // bytes
};

class fill_work final : public work {
 public:
  explicit fill_work(fill_shape const& shape) : shape_(shape) {}
  void run() const override;
  work_kind kind() const noexcept override { return work_kind::fill; }
  fill_shape const& shape() const noexcept { return shape_; }

 private:
  fill_shape shape_;
};

/// A host function of the program: runs without access to device memory, must not call the runtime.
class host_work final : public work {
 public:
  host_work(cudaHostFn_t function, void* data) : function_(function), data_(data) {}
  void run() const override;
  cudaHostNodeParams params() const noexcept { return {function_, data_}; }

 private:
  cudaHostFn_t function_;
  void* data_;
};

}  // namespace warpwright::host
