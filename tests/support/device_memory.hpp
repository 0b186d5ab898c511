// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Device arrays for tests, without the library's own allocators.
#pragma once

#include <warpwright/core/stream.hpp>

#include <cstddef>
#include <vector>

namespace test_support {

namespace ww = warpwright;

template <class T>
class device_array {
 public:
  explicit device_array(std::size_t size) : size_{size} {
    void* p = nullptr;
    ww::check(cudaMalloc(&p, size * sizeof(T)), "cudaMalloc");
    data_ = static_cast<T*>(p);
  }
  explicit device_array(std::vector<T> const& values) : device_array(values.size()) {
    ww::check(cudaMemcpy(data_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice),
              "cudaMemcpy");
    // A copy from pageable memory may return before its transfer has completed, and other streams
    // do not wait.
    ww::check(cudaStreamSynchronize(cudaStreamLegacy), "cudaStreamSynchronize");
  }
  device_array(device_array const&) = delete;
  device_array& operator=(device_array const&) = delete;
  ~device_array() { ww::detail::discard(cudaFree(data_)); }

  T* data() const { return data_; }
  std::size_t size() const { return size_; }

  /// Waits for `stream`, then copies the array to the host.
  std::vector<T> fetch(ww::stream_ref stream) const {
    stream.synchronize();
    std::vector<T> values(size_);
    ww::check(cudaMemcpy(values.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost),
              "cudaMemcpy");
    return values;
  }

 private:
  T* data_ = nullptr;
  std::size_t size_;
};

}  // namespace test_support
