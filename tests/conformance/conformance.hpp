// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Shared code of the conformance tests. They call only the CUDA runtime API and the library's
// for_each_index, so that the same source runs on the host runtime and on a GPU.
#pragma once

#include <cuda_runtime_api.h>
#include <warpwright/core/launch.hpp>

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "support/catch.hpp"

namespace conformance {

namespace ww = warpwright;

/// Checks a call's return value and the last error: recorded once,
/// not changed by cudaPeekAtLastError, cleared by cudaGetLastError; "not ready" is not recorded.
inline void check_status(cudaError_t answered, cudaError_t expected, char const* call, int line) {
  INFO("line " << line << ": " << call);
  CHECK(std::string(cudaGetErrorName(answered)) == cudaGetErrorName(expected));
  cudaError_t const recorded = expected == cudaErrorNotReady ? cudaSuccess : expected;
  CHECK(std::string(cudaGetErrorName(cudaPeekAtLastError())) == cudaGetErrorName(recorded));
  CHECK(std::string(cudaGetErrorName(cudaGetLastError())) == cudaGetErrorName(recorded));
  CHECK(std::string(cudaGetErrorName(cudaGetLastError())) == "cudaSuccess");
}

#define RETURNS(call, expected) ::conformance::check_status((call), (expected), #call, __LINE__)
#define SUCCEEDS(call) RETURNS(call, cudaSuccess)

/// Checks that a call failed, if CUDA's documentation does not specify the error.
inline void check_failure(cudaError_t answered, char const* call, int line) {
  INFO("line " << line << ": " << call);
  CHECK(std::string(cudaGetErrorName(answered)) != "cudaSuccess");
  CHECK(std::string(cudaGetErrorName(cudaGetLastError())) == cudaGetErrorName(answered));
}

#define FAILS(call) ::conformance::check_failure((call), #call, __LINE__)

/// Blocks a stream until it is opened.
class gate {
 public:
  gate() = default;
  ~gate() { open(); }
  gate(gate const&) = delete;
  gate& operator=(gate const&) = delete;

  cudaError_t block(cudaStream_t stream) { return cudaLaunchHostFunc(stream, &gate::wait, this); }
  void open() { open_.store(true); }

 private:
  static void CUDART_CB wait(void* self) {
    while (!static_cast<gate*>(self)->open_.load()) std::this_thread::yield();
  }
  std::atomic<bool> open_{false};
};

/// Streams, events, graphs and memory that are released even if the test fails. The order of
/// members in a test matters: a gate must be declared first, so that it is opened last.
class stream {
 public:
  explicit stream(unsigned flags = cudaStreamNonBlocking) {
    REQUIRE(cudaStreamCreateWithFlags(&handle_, flags) == cudaSuccess);
  }
  ~stream() {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    if (cudaStreamIsCapturing(handle_, &status) == cudaSuccess &&
        status != cudaStreamCaptureStatusNone) {
      cudaGraph_t graph = nullptr;
      if (cudaStreamEndCapture(handle_, &graph) == cudaSuccess) cudaGraphDestroy(graph);
    }
    cudaStreamDestroy(handle_);
    cudaGetLastError();
  }
  stream(stream const&) = delete;
  stream& operator=(stream const&) = delete;
  operator cudaStream_t() const { return handle_; }

 private:
  cudaStream_t handle_ = nullptr;
};

class event {
 public:
  explicit event(unsigned flags = cudaEventDisableTiming) {
    REQUIRE(cudaEventCreateWithFlags(&handle_, flags) == cudaSuccess);
  }
  ~event() {
    cudaEventDestroy(handle_);
    cudaGetLastError();
  }
  event(event const&) = delete;
  event& operator=(event const&) = delete;
  operator cudaEvent_t() const { return handle_; }

 private:
  cudaEvent_t handle_ = nullptr;
};

class graph {
 public:
  graph() { REQUIRE(cudaGraphCreate(&handle_, 0) == cudaSuccess); }
  ~graph() {
    cudaGraphDestroy(handle_);
    cudaGetLastError();
  }
  graph(graph const&) = delete;
  graph& operator=(graph const&) = delete;
  operator cudaGraph_t() const { return handle_; }

 private:
  cudaGraph_t handle_ = nullptr;
};

class executable {
 public:
  explicit executable(cudaGraph_t graph, unsigned long long flags = 0) {
    REQUIRE(cudaGraphInstantiateWithFlags(&handle_, graph, flags) == cudaSuccess);
  }
  ~executable() {
    cudaGraphExecDestroy(handle_);
    cudaGetLastError();
  }
  executable(executable const&) = delete;
  executable& operator=(executable const&) = delete;
  operator cudaGraphExec_t() const { return handle_; }

  void run() const {
    stream const s;
    REQUIRE(cudaGraphLaunch(handle_, s) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(s) == cudaSuccess);
  }

 private:
  cudaGraphExec_t handle_ = nullptr;
};

template <class T>
class device_memory {
 public:
  explicit device_memory(std::size_t count) : count_(count) {
    REQUIRE(cudaMalloc(reinterpret_cast<void**>(&data_), count * sizeof(T)) == cudaSuccess);
  }
  ~device_memory() {
    cudaFree(data_);
    cudaGetLastError();
  }
  device_memory(device_memory const&) = delete;
  device_memory& operator=(device_memory const&) = delete;
  T* data() const { return data_; }
  std::size_t bytes() const { return count_ * sizeof(T); }
  std::vector<T> fetch() const {
    std::vector<T> values(count_);
    REQUIRE(cudaMemcpy(values.data(), data_, bytes(), cudaMemcpyDeviceToHost) == cudaSuccess);
    return values;
  }

 private:
  T* data_ = nullptr;
  std::size_t count_;
};

template <class T>
class pinned_memory {
 public:
  explicit pinned_memory(std::size_t count) : count_(count) {
    REQUIRE(cudaMallocHost(reinterpret_cast<void**>(&data_), count * sizeof(T)) == cudaSuccess);
  }
  ~pinned_memory() {
    cudaFreeHost(data_);
    cudaGetLastError();
  }
  pinned_memory(pinned_memory const&) = delete;
  pinned_memory& operator=(pinned_memory const&) = delete;
  T* data() const { return data_; }
  std::size_t bytes() const { return count_ * sizeof(T); }

 private:
  T* data_ = nullptr;
  std::size_t count_;
};

/// y[i] = y[i] * factor + i
struct scale_and_add {
  float* y;
  float factor;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const {
    y[i] = y[i] * factor + static_cast<float>(i);
  }
};

/// y[i] = i
struct write_index {
  float* y;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const { y[i] = static_cast<float>(i); }
};

/// y[i] = value
struct fill_with {
  float* y;
  float value;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const { y[i] = value; }
};

/// y[i] += x[i]
struct add_to {
  float* y;
  float const* x;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const { y[i] += x[i]; }
};

template <class F>
void launch(cudaStream_t on, std::uint64_t n, F const& f) {
  ww::for_each_index(ww::stream_ref{on}, n, f);
}

/// A node that writes `count` words.
inline cudaMemsetParams words(void* to, unsigned value, std::size_t count) {
  cudaMemsetParams p = {};
  p.dst = to;
  p.value = value;
  p.elementSize = 4;
  p.width = count;
  p.height = 1;
  p.pitch = count * 4;
  return p;
}

/// A buffer of `rows` rows of `pitch` bytes.
inline cudaPitchedPtr pitched(void* data, std::size_t pitch, std::size_t rows) {
  cudaPitchedPtr p = {};
  p.ptr = data;
  p.pitch = pitch;
  p.xsize = pitch;
  p.ysize = rows;
  return p;
}

/// The address of the kernel of launch(); the host runtime registers it at
/// its first launch.
template <class F>
void const* kernel_of() {
#if WARPWRIGHT_HOST_RUNTIME
  return &ww::detail::host_kernel<ww::detail::index_kernel<F>>::identity;
#else
  return ww::detail::kernel_address<ww::detail::index_kernel<F>>();
#endif
}

}  // namespace conformance
