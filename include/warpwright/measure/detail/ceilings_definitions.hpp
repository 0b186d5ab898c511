// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/measure/detail/ceilings_core.hpp>

#include <warpwright/core/detail/capture/capture_guard.hpp>
#include <warpwright/core/detail/clock.hpp>
#include <warpwright/core/detail/device/device_scope.hpp>
#include <warpwright/core/detail/system/dynamic_library.hpp>
#include <warpwright/core/detail/text/line_fields.hpp>
#include <warpwright/measure/measure.hpp>

WARPWRIGHT_BEGIN

namespace detail {

/// cuBLAS, where the system finds it: no program links it.
class cublas_library : noncopyable {
 public:
  ~cublas_library() {
    if (handle_ != nullptr) destroy_(handle_);
  }
  /// @return whether it is there
  WARPWRIGHT_COLD bool open(cudaStream_t stream) noexcept {
    for (char const* name : {"libcublas.so.13", "libcublas.so.12", "libcublas.so"}) {
      if (library_.open(name) != nullptr) continue;
      int (*create)(void**) = nullptr;
      int (*set_stream)(void*, cudaStream_t) = nullptr;
      bool const whole =
          library_.find("cublasCreate_v2", create) && library_.find("cublasDestroy_v2", destroy_) &&
          library_.find("cublasSetStream_v2", set_stream) && library_.find("cublasGemmEx", gemm_);
      if (whole && create(&handle_) == 0) return set_stream(handle_, stream) == 0;
      handle_ = nullptr;  // one that is newer than the driver: the next may work
    }
    return false;
  }
  /// C = A^T B, of n x n matrices of 16 bits.
  int gemm(int n, void const* a, void const* b, void* c, bool bfloat16) const noexcept {
    constexpr int transposed = 1, plain = 0, sums_in_float = 68, any_algorithm = -1;
    int const type = bfloat16 ? 14 : 2;  // of library_types.h
    float const one = 1.0F, zero = 0.0F;
    return gemm_(handle_, transposed, plain, n, n, n, &one, a, type, n, b, type, n, &zero, c, type,
                 n, sums_in_float, any_algorithm);
  }

 private:
  dynamic_library library_;
  void* handle_ = nullptr;
  int (*destroy_)(void*) = nullptr;
  int (*gemm_)(void*, int, int, int, int, int, void const*, void const*, int, int, void const*, int,
               int, void const*, void*, int, int, int, int) = nullptr;
};

/// Peer access of two devices, both ways, without which copies between them go through the host.
class peer_access : noncopyable {
 public:
  peer_access(int a, int b) noexcept : ends_{a, b}, direct_{enable(0) && enable(1)} {}
  ~peer_access() {
    for (int i = 0; i < 2; ++i) {
      if (!enabled_[i]) continue;  // or it was before
      device_scope const current{ends_[i]};
      discard(cudaDeviceDisablePeerAccess(ends_[1 - i]));
    }
  }
  [[nodiscard]] bool direct() const noexcept { return direct_; }

 private:
  bool enable(int i) noexcept {
    device_scope const current{ends_[i]};
    cudaError_t const status = discard(cudaDeviceEnablePeerAccess(ends_[1 - i], 0));
    enabled_[i] = status == cudaSuccess;
    return enabled_[i] || status == cudaErrorPeerAccessAlreadyEnabled;
  }

  int ends_[2];
  bool enabled_[2] = {};
  bool direct_;
};

inline std::size_t power_of_two_below(std::size_t n) noexcept {
  std::size_t power = 1;
  while (power <= n / 2) power *= 2;
  return n == 0 ? 0 : power;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE plain_memory::plain_memory(kind where_it_is, std::size_t bytes,
                                                             stream_ref stream,
                                                             source_location where)
    : kind_{where_it_is}, size_{bytes}, stream_{stream} {
  bool const device = kind_ == kind::device;
  cudaError_t const status = device ? cudaMalloc(&data_, bytes) : cudaMallocHost(&data_, bytes);
  if (status == cudaErrorMemoryAllocation) {
    discard(status);
    std::size_t available = 0, total = 0;
    if (device) discard(cudaMemGetInfo(&available, &total));
    int const place = device ? current_device(where).value() : -1;
    throw out_of_memory{{bytes, 0, 0, available, ~std::size_t{0}, place}, where};
  }
  check(status, device ? "cudaMalloc" : "cudaMallocHost", where);
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE plain_memory::~plain_memory() {
  discard(cudaStreamSynchronize(stream_.get()));
  discard(kind_ == kind::device ? cudaFree(data_) : cudaFreeHost(data_));
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE std::size_t ceilings_core::buffer_bytes(
    device_ceilings const& of, ceiling_settings const& settings, source_location where) {
  constexpr std::size_t mib = std::size_t{1} << 20U;
  if (!(settings.seconds_each > 0.0 && settings.seconds_each <= 60.0)) {
    throw_invalid_argument(text{"measure_ceilings: "} + settings.seconds_each +
                               " s for each; give more than 0, and up to 60 s",
                           where);
  }
  bool const host = of.device.host_runtime;
  std::size_t const l2 = host ? 0 : of.gpu.l2_bytes;
  std::size_t const least = l2 == 0 ? mib : (4 * l2 + mib - 1) / mib * mib;
  if (settings.bytes != 0 && settings.bytes < least) {
    text problem = text{"measure_ceilings: buffers of "} + settings.bytes + " B; give at least " +
                   least / mib + " MiB";
    if (l2 != 0) problem += text{", 4 times the L2 cache of "} + l2 + " B, which is no memory";
    throw_invalid_argument(problem, where);
  }
  std::size_t const most = host ? 16 * mib : 1024 * mib;
  std::size_t const quarter = of.device.memory_free_bytes / 4;
  std::size_t const chosen = quarter < most ? quarter : most;
  std::size_t const bytes = settings.bytes != 0 ? settings.bytes : chosen;
  return bytes < least ? least : bytes / mib * mib;  // of which too little may be free
}

WARPWRIGHT_COLD inline device_ceilings current_device_ceilings(stream_ref stream,
                                                               source_location where) {
  check_not_capturing("measure_ceilings", stream, where);
  device_id const device = current_device(where);
  device_ceilings all;
  all.device = get_device_info(device, where);
  all.gpu = gpu_model::of(device, where);
  return all;
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE ceilings_core::ceilings_core(stream_ref stream,
                                                               ceiling_settings const& settings,
                                                               source_location where)
    : current_{stream.get()},
      stream_{stream},
      settings_{settings},
      where_{where},
      begin_{monotonic_nanoseconds()},
      result_{current_device_ceilings(stream, where)},
      source_{plain_memory::kind::device, buffer_bytes(result_, settings, where), stream, where},
      target_{plain_memory::kind::device, source_.size(), stream, where},
      sink_{plain_memory::kind::device, sizeof(std::uint32_t), stream, where} {
  check(cudaMemsetAsync(sink_.data(), 0, sizeof(std::uint32_t), stream.get()), "cudaMemsetAsync",
        where);
}

WARPWRIGHT_INLINE std::size_t ceilings_core::l2_part() const noexcept {
  std::size_t const part = power_of_two_below(result_.gpu.l2_bytes / 4);
  return part < bytes() ? part : power_of_two_below(bytes());
}

WARPWRIGHT_INLINE std::uint64_t ceilings_core::resident_threads() const noexcept {
  if (result_.device.host_runtime) return 4096;
  return static_cast<std::uint64_t>(result_.gpu.multiprocessors) *
         static_cast<std::uint64_t>(result_.gpu.threads_per_multiprocessor);
}

WARPWRIGHT_INLINE int ceilings_core::rounds(limit which) const noexcept {
  if (result_.device.host_runtime) return 256;
  return which == limit::fp64 ? 4096 : 8192;
}

WARPWRIGHT_INLINE std::size_t ceilings_core::latency_lines() const noexcept {
  std::size_t const lines = bytes() / 128;
  std::size_t const most = std::size_t{1} << 21U;  // 256 MiB
  return power_of_two_below(lines < most ? lines : most);
}

// @param work  per call; 0: the result is the seconds of one of `parts` parts of a call
WARPWRIGHT_COLD WARPWRIGHT_INLINE void ceilings_core::measure_one(limit which, double work,
                                                                  double parts,
                                                                  function_ref<void()> call) {
  // A product of matrices heats the device, whose clock rate falls at first.
  double const s = settings_.seconds_each * (which == limit::tensor ? 4.0 : 1.0);
  measurement const m =
      measure(stream_, call,
              measure_options{}.sample_seconds(s / 100.0).min_seconds(0.5 * s).max_seconds(1.5 * s),
              where_);
  sample_summary const& all = m.summary;
  // An interval that allows for drift may be wider than what was seen.
  bool const wide = all.median_low_seconds < all.min_seconds;
  double const low = wide ? all.min_seconds : all.median_low_seconds;
  double const high =
      all.median_high_seconds > all.max_seconds ? all.max_seconds : all.median_high_seconds;
  double const median = all.median_seconds;
  result_[which] = work > 0.0 ? ceiling{work / median, work / high, work / low, m.converged()}
                              : ceiling{median / parts, low / parts, high / parts, m.converged()};
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void ceilings_core::rate(limit which, double work,
                                                           function_ref<void()> call) {
  measure_one(which, work, 1.0, call);
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void ceilings_core::copies() {
  rate(limit::copy, 2.0 * static_cast<double>(bytes()), [&] {
    check(cudaMemcpyAsync(target(), source(), bytes(), cudaMemcpyDeviceToDevice, stream_.get()),
          "cudaMemcpyAsync", where_);
  });
  std::size_t const most = std::size_t{64} << 20U;
  plain_memory const host{plain_memory::kind::host, bytes() < most ? bytes() : most, stream_,
                          where_};
  auto const work = static_cast<double>(host.size());
  auto const copy = [&](void* to, void const* from, cudaMemcpyKind kind) {
    check(cudaMemcpyAsync(to, from, host.size(), kind, stream_.get()), "cudaMemcpyAsync", where_);
  };
  rate(limit::up, work, [&] { copy(target(), host.data(), cudaMemcpyHostToDevice); });
  rate(limit::down, work, [&] { copy(host.data(), target(), cudaMemcpyDeviceToHost); });
  stream_.synchronize(where_);
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void ceilings_core::tensor(
    function_ref<void(void*, std::size_t, bool)> fill) {
  if (result_.device.host_runtime || result_.gpu.major < 7) return;
  cublas_library cublas;
  if (!cublas.open(stream_.get())) return;
  std::size_t n = 8192;
  while (n * n * 2 > bytes() / 2) n /= 2;
  bool const bfloat16 = has_bfloat16();
  fill(source(), 2 * n * n, bfloat16);
  auto const size = static_cast<double>(n);
  int status = cublas.gemm(static_cast<int>(n), source(), source() + n * n * 2, target(), bfloat16);
  if (status != 0) return;
  rate(limit::tensor, 2.0 * size * size * size, [&] {
    status |= cublas.gemm(static_cast<int>(n), source(), source() + n * n * 2, target(), bfloat16);
  });
  stream_.synchronize(where_);
  if (status != 0) result_[limit::tensor] = ceiling{};
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void ceilings_core::latency(
    function_ref<void(std::uint32_t)> follow) {
  constexpr std::uint32_t steps = 4096;
  measure_one(limit::memory_latency, 0.0, steps, [&] { follow(steps); });
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void ceilings_core::launches(
    function_ref<void(stream_ref)> launch) {
  constexpr int calls = 20;
  auto const seconds = [&](limit which, function_ref<void()> call) {
    measure_one(which, 0.0, calls, [&] {
      for (int i = 0; i < calls; ++i) call();
    });
  };
  seconds(limit::launch, [&] { launch(stream_); });
  struct one_launch {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    ~one_launch() {
      if (exec != nullptr) discard(cudaGraphExecDestroy(exec));
      if (graph != nullptr) discard(cudaGraphDestroy(graph));
    }
  } graph;
  stream const captured{where_};  // as a default stream cannot capture
  check(cudaStreamBeginCapture(captured.get(), cudaStreamCaptureModeThreadLocal),
        "cudaStreamBeginCapture", where_);
  try {
    launch(captured);
  } catch (...) {
    discard(cudaStreamEndCapture(captured.get(), &graph.graph));
    throw;
  }
  check(cudaStreamEndCapture(captured.get(), &graph.graph), "cudaStreamEndCapture", where_);
  check(cudaGraphInstantiate(&graph.exec, graph.graph, 0), "cudaGraphInstantiate", where_);
  seconds(limit::graph_launch,
          [&] { check(cudaGraphLaunch(graph.exec, stream_.get()), "cudaGraphLaunch", where_); });
  stream_.synchronize(where_);
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void ceilings_core::links() {
  int const from = result_.device.id.value();
  for (int to = 0; to < device_count(where_); ++to) {
    if (to == from) continue;
    peer_access const access{from, to};
    std::size_t const most = std::size_t{64} << 20U;
    std::size_t const size = bytes() < most ? bytes() : most;
    plain_memory const buffer = [&] {
      scoped_device const current{device_id{to}, where_};
      return plain_memory{plain_memory::kind::device, size, stream_, where_};
    }();
    ceiling const copies = result_[limit::copy];
    rate(limit::copy, static_cast<double>(size), [&] {
      check(cudaMemcpyPeerAsync(buffer.data(), to, source(), from, size, stream_.get()),
            "cudaMemcpyPeerAsync", where_);
    });
    stream_.synchronize(where_);
    result_.peers.push_back({from, to, exchange(result_[limit::copy], copies), access.direct()});
  }
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE device_ceilings ceilings_core::finish() {
  stream_.synchronize(where_);
  result_.gpu.copy_bytes_per_second = result_[limit::copy].value;
  result_.gpu.launch_seconds = result_[limit::launch].value;
  append_date_of_now(result_.date);
  result_.seconds = 1e-9 * static_cast<double>(monotonic_nanoseconds() - begin_);
  return static_cast<device_ceilings&&>(result_);
}

}  // namespace detail

WARPWRIGHT_END
