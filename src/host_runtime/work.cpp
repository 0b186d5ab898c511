// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include "work.hpp"

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>

#include "runtime.hpp"

namespace warpwright::host {
namespace {

constexpr std::size_t default_alignment = alignof(std::max_align_t);

std::align_val_t argument_alignment(warpwright_host_kernel const& kernel) {
  return std::align_val_t{kernel.arguments_alignment > default_alignment
                              ? kernel.arguments_alignment
                              : default_alignment};
}

}  // namespace

kernel_work::kernel_work(warpwright_host_kernel const& kernel)
    : kernel_(kernel),
      name_(kernel.name != nullptr ? kernel.name : "kernel"),
      arguments_(::operator new(kernel.arguments_bytes + 1, argument_alignment(kernel))) {
  if (kernel.arguments_bytes > 0) std::memcpy(arguments_, kernel.arguments, kernel.arguments_bytes);
  kernel_.arguments = arguments_;
  kernel_.name = name_.c_str();
}

kernel_work::~kernel_work() { ::operator delete(arguments_, argument_alignment(kernel_)); }

// What a trap is on a GPU is an exception here: the kernel ends, and its device has failed.
void kernel_work::run() const {
  try {
    kernel_.run(arguments_, 0, kernel_.size);
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s: %s\n", name(), error.what());
    log_message(name_ + ": " + error.what());
    worker_device->sticky.store(cudaErrorLaunchFailure, std::memory_order_relaxed);
  }
}

void run_copy(copy_shape const& shape) {
  if (shape.width == 0 || shape.height == 0 || shape.depth == 0) return;
  if (shape.height == 1 && shape.depth == 1) {
    std::memmove(shape.to, shape.from, shape.width);
    return;
  }
  for (std::size_t z = 0; z < shape.depth; ++z) {
    for (std::size_t y = 0; y < shape.height; ++y) {
      std::memmove(shape.to + z * shape.to_slice + y * shape.to_pitch,
                   shape.from + z * shape.from_slice + y * shape.from_pitch, shape.width);
    }
  }
}

void copy_work::run() const { run_copy(shape_); }

void fill_work::run() const {
  for (std::size_t y = 0; y < shape_.height; ++y) {
    std::byte* const row = shape_.to + y * shape_.pitch;
    if (shape_.element_bytes == 1) {
      std::memset(row, static_cast<int>(shape_.value & 0xffU), shape_.width);
      continue;
    }
    for (std::size_t x = 0; x < shape_.width; ++x) {
      std::memcpy(row + x * shape_.element_bytes, &shape_.value, shape_.element_bytes);
    }
  }
}

void host_work::run() const {
  device_access const none(false);
  this_thread.inside_callback = true;
  function_(data_);
  this_thread.inside_callback = false;
}

}  // namespace warpwright::host
