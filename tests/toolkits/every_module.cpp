// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A use of every module, with a kernel of each kind: what compile.sh compiles with other toolkits
// and compilers than the build's. It is not run.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <warpwright/kernel/multi_tensor.hpp>
#include <warpwright/kernel/random.hpp>
#include <warpwright/kernel/reduce.hpp>
#include <warpwright/kernel/reduce_matrix.hpp>
#include <warpwright/kernel/rows.hpp>
#include <warpwright/kernel/tensor_norms.hpp>
#include <warpwright/kernel/top_k.hpp>
#include <warpwright/kernel/views.hpp>
#include <warpwright/observe.hpp>
#include <warpwright/serve.hpp>
#include <warpwright/tune/report.hpp>
#include <warpwright/warpwright.hpp>
#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>
#endif

// compile.sh names the headers that it means, for others may be in the compiler's path.
#if defined(EXPECTED_CUDA) && CUDART_VERSION / 10 != EXPECTED_CUDA
#error "these are the headers of another CUDA version"
#endif

#include <cstddef>
#include <cstdint>
#include <string>

namespace ww = warpwright;
namespace ew = warpwright::ew;

struct arrays {
  float *x, *y, *o;
  __half *hx, *ho;
  __nv_bfloat16 *bx, *bo;
  unsigned char* u;
};

// Without kernels: what a .cpp file of a CUDA program uses.

std::size_t allocates(ww::stream const& stream) {
  ww::memory_pool pool{ww::current_device(), ww::memory_pool_options{}.max_fraction(0.9)};
  ww::pinned_pool pinned;
  ww::staging staging{pinned};
  ww::device_buffer<float> buffer{pool, stream, 1000};
  ww::pinned_buffer<float> host{pinned, stream, 1000};
  staging.copy_to_device(stream, buffer.data(), host.data(), buffer.size_bytes());
  return pool.statistics().live_bytes;
}

void shares(ww::stream_pool& streams) {
  ww::stream_lease const lease = streams.lease();
  ww::event event;
  event.record(lease.stream());
  streams.synchronize();
}

void captures(ww::graph_replay& replay, ww::stream const& stream, void* memory) {
  replay.run(stream, [&](ww::stream_ref s) {
    ww::check(cudaMemsetAsync(memory, 0, 256, s.get()), "cudaMemsetAsync");
  });
}

std::string tunes(ww::stream const& stream, void* memory) {
  auto const workload = [&](std::size_t batch, ww::stream_ref s) {
    ww::check(cudaMemsetAsync(memory, 0, batch, s.get()), "cudaMemsetAsync");
  };
  ww::tune_result const best = ww::batch_tuner{}
                                   .range(1, 64)
                                   .objective(ww::throughput_under_latency(1e-3))
                                   .tune(stream, workload);
  return ww::to_text(best) + ww::to_html(best);
}

#if defined(__CUDACC__) || WARPWRIGHT_HOST_RUNTIME

struct fill {
  float* out;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const { out[i] = 1.0F; }
};

struct descent {
  WARPWRIGHT_HOST_DEVICE void operator()(float& parameter, float gradient) const {
    parameter -= 0.01F * gradient;
  }
};

void evaluates(ww::stream_ref s, arrays const& a, std::size_t n) {
  ww::for_each_index(s, n, fill{a.o});
  ew::run(s, ew::out(a.o, n) = ew::gelu(ew::in(a.x, n) + ew::row(a.y, 1024)));
  ew::run(s, ew::out(a.ho, n) = ew::cast<float>(ew::in(a.u, n)) * (1.0F / 255) + ew::in(a.hx, n));
  ew::run(s, ew::out(a.bo, n) = ew::silu(ew::in(a.bx, n)) * ew::col(a.y, 1024));
  auto const random = ew::philox{7, 11};
  ew::run(s, ew::out(a.o, n) = ew::where(ew::uniform(random) < 0.9F, ew::in(a.x, n), 0.0F));
  ew::run(s, ew::out(a.o, 1 << 20) = ew::view(ew::array(a.x, {1024, 1024}).permuted({1, 0})));
}

double reduces(ww::stream_ref s, ww::memory_pool& pool, arrays const& a, std::size_t n) {
  auto const x = ew::in(static_cast<float const*>(a.x), n);
  auto const found = ew::reduce(s, pool, n, ew::norm(x), ew::max(ew::abs(x)), ew::argmax(x));
  ew::reduce_rows(s, {n / 1024, 1024}, ew::to(a.o) = ew::mean(x));
  ew::top_k(s, pool, {n / 1024, 1024}, 9, x, a.o, reinterpret_cast<int*>(a.y));
  ew::reduce_cols(s, pool, {n / 1024, 1024}, ew::to(a.y) = ew::sum(x));
  return static_cast<double>(found.get<0>());
}

void normalises(ww::stream_ref s, arrays const& a, std::size_t n) {
  auto const x = ew::in(static_cast<float const*>(a.x), n);
  ew::run_rows(s, {n / 1024, 1024}, ew::out(a.o, n) = ew::softmax(x * 0.125F));
  auto const norm = ew::layer_norm(x, 1e-5);
  ew::run_rows(s, {n / 1024, 1024}, ew::out(a.ho, n) = norm * ew::row(a.y, 1024));
}

void optimises(ww::stream_ref s, ww::memory_pool& pool, arrays const& a, std::size_t n) {
  ew::tensor_list<float, float const> tensors;
  tensors.add(a.o, a.x, n);
  ew::global_norm(s, pool, ew::tensor_list<float const>{}, a.y);
  ew::run_each(s, tensors, descent{});
}

#endif
