// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The backward pass of GPT-2 124M as its matrix products, 148 gradients of bfloat16, on all GPUs:
// without communication, with a gradient_reducer whose buckets are found, and with some sizes of
// buckets; and a step of adamw behind it, whole or sharded. bench/scale/torch_ddp.py is the same
// under PyTorch's DistributedDataParallel. Prints CSV: medians of steps, and the exposed
// communication.
//
//   scale_gpt2_step [TOKENS, 8192]
#include "ranks.hpp"

#include <warpwright/memory/buffer.hpp>
#include <warpwright/scale/sharded_optimizer.hpp>

#if !WARPWRIGHT_HOST_RUNTIME
#include <cublas_v2.h>
#endif

namespace {

namespace ww = warpwright;
using bench::median;
using bench::say;

struct layer {
  std::size_t in, out;  // of a matrix; in 0: a vector
  [[nodiscard]] std::size_t count() const { return in == 0 ? out : in * out; }
};

std::vector<layer> layers() {
  constexpr std::size_t width = bench::on_host ? 16 : 768;
  std::vector<layer> all{{bench::on_host ? 200U : 50257U, width}, {1024 * width / 768, width}};
  for (int block = 0; block < 12; ++block) {
    for (layer const& l : std::vector<layer>{{0, width},
                                             {0, width},
                                             {width, 3 * width},
                                             {0, 3 * width},
                                             {width, width},
                                             {0, width},
                                             {0, width},
                                             {0, width},
                                             {width, 4 * width},
                                             {0, 4 * width},
                                             {4 * width, width},
                                             {0, width}}) {
      all.push_back(l);
    }
  }
  all.push_back({0, width});
  all.push_back({0, width});
  return all;
}

class backward_pass {
 public:
  backward_pass(ww::memory_pool& pool, ww::stream_ref stream, std::size_t tokens)
      : tokens_{tokens},
        left_{pool, stream, tokens * 50257},
        right_{pool, stream, tokens * 50257},
        weights_{pool, stream, std::size_t{50257} * 768} {
    for (auto* const buffer : {&left_, &right_, &weights_}) {
      ww::check(cudaMemsetAsync(buffer->data(), 0, buffer->size_bytes(), stream.get()), "memset");
    }
#if !WARPWRIGHT_HOST_RUNTIME
    cublasCreate(&handle_);
#endif
  }
  template <class Ready>
  void operator()(ww::stream_ref stream, ww::tensor_list const& gradients, Ready ready) {
    std::vector<layer> const& all = all_;
    for (std::size_t i = all.size(); i-- > 0;) {
      void* const gradient = gradients[i].data;
      // The position embedding's gradient is a sum, as the vectors' are.
      if (all[i].in == 0 || i == 1) {
        ww::check(cudaMemsetAsync(gradient, 0, all[i].count() * 2, stream.get()),
                  "cudaMemsetAsync");
      } else {
        multiply(stream, all[i], gradient);
      }
      ready(i);
    }
  }

 private:
  // The gradients of the input and of the weights.
  void multiply(ww::stream_ref stream, layer const& l, void* gradient) {
#if !WARPWRIGHT_HOST_RUNTIME
    float const one = 1.0F;
    float const zero = 0.0F;
    auto const in = static_cast<int>(l.in);
    auto const out = static_cast<int>(l.out);
    auto const t = static_cast<int>(tokens_);
    cublasSetStream(handle_, stream.get());
    auto const product = [&](cublasOperation_t a, cublasOperation_t b, int m, int n, int k,
                             void const* x, int ldx, void const* y, int ldy, void* to) {
      if (cublasGemmEx(handle_, a, b, m, n, k, &one, x, CUDA_R_16BF, ldx, y, CUDA_R_16BF, ldy,
                       &zero, to, CUDA_R_16BF, m, CUBLAS_COMPUTE_32F,
                       CUBLAS_GEMM_DEFAULT) != CUBLAS_STATUS_SUCCESS) {
        throw std::runtime_error{"cublasGemmEx has failed"};
      }
    };
    product(CUBLAS_OP_T, CUBLAS_OP_N, in, t, out, weights_.data(), out, right_.data(), out,
            left_.data());
    product(CUBLAS_OP_N, CUBLAS_OP_T, out, in, t, right_.data(), out, left_.data(), in, gradient);
#else
    ww::check(cudaMemsetAsync(gradient, 0, l.count() * 2, stream.get()), "cudaMemsetAsync");
#endif
  }

  std::size_t tokens_;
  std::vector<layer> all_ = layers();
  ww::device_buffer<std::uint16_t> left_, right_, weights_;
#if !WARPWRIGHT_HOST_RUNTIME
  cublasHandle_t handle_ = nullptr;
#endif
};

// @return the median of 40 steps in us, by events behind each
template <class Step>
double steps_us(ww::communicator& comm, ww::stream const& stream, int first, Step step) {
  int const steps = bench::on_host ? 3 : 40;
  std::vector<ww::timed_event> ends(static_cast<std::size_t>(steps + 1));
  for (int i = 0; i < first; ++i) step();
  comm.barrier();
  for (auto& end : ends) {
    step();
    end.record(stream.get());
  }
  comm.synchronize(stream);
  std::vector<double> times;
  for (std::size_t i = 1; i < ends.size(); ++i) {
    times.push_back(static_cast<double>(ends[i].milliseconds_since(ends[i - 1])) * 1e3);
  }
  double most = 0.0;  // of the ranks
  for (double const t : comm.gather(median(times))) most = std::max(most, t);
  return most;
}

void run(ww::communicator& comm, std::size_t tokens) {
  ww::stream stream;
  ww::memory_pool pool{ww::current_device()};
  std::vector<std::size_t> counts;
  for (layer const& l : layers()) counts.push_back(l.count());
  backward_pass backward{pool, stream, bench::on_host ? 1 : tokens};
  int version = 0;
  static_cast<void>(ncclGetVersion(&version));
  say(comm, "# NCCL %d, %d ranks, %zu gradients, %zu tokens\n", version, comm.ranks(),
      counts.size(), tokens);
  say(comm, "step,us,times the first,buckets,exposed us\n");
  double alone = 0.0;
  auto const options = ww::gradient_reducer_options{}.type(ww::element_type::bfloat16);
  auto const measure = [&](char const* name, ww::gradient_reducer_options const& with,
                           bool communicates) {
    ww::gradient_reducer reduce{comm, pool, stream, counts, with};
    std::vector<double> exposed;
    double const us = steps_us(comm, stream, bench::on_host ? 20 : 30, [&] {
      backward(stream, reduce.gradients(), [&](std::size_t i) {
        if (communicates) reduce.ready(stream, i);
      });
      if (!communicates) return;
      reduce.finish(stream);
      exposed.push_back(reduce.statistics().exposed_seconds * 1e6);
    });
    if (!communicates) alone = us;
    say(comm, "%s,%.0f,%.3f,%zu,%.0f\n", name, us, us / alone, reduce.statistics().buckets,
        median(exposed));
  };
  measure("no communication", options, false);
  measure("size found", options, true);
  for (std::size_t mib : {1U, 4U, 10U, 25U, 50U, 100U, 250U}) {
    measure((std::to_string(mib) + " MiB").c_str(), options.bucket_bytes(mib << 20U), true);
  }
  measure("no communication", options, false);

  std::size_t all = 0;
  for (std::size_t const n : counts) all += n;
  ww::device_buffer<std::uint16_t> const weights{pool, stream, all};
  ww::check(cudaMemsetAsync(weights.data(), 0, weights.size_bytes(), stream.get()), "memset");
  ww::tensor_list parameters;
  all = 0;
  for (std::size_t const n : counts) {
    parameters.add(std::to_string(parameters.size()), weights.data() + all,
                   ww::element_type::bfloat16, {static_cast<std::int64_t>(n)});
    all += n;
  }
  int const first = bench::on_host ? 20 : 30;
  double whole = 0.0;
  {
    ww::gradient_reducer reduce{comm, pool, stream, parameters, options};
    ww::adamw optimizer{pool, stream, parameters};
    whole = steps_us(comm, stream, first, [&] {
      backward(stream, reduce.gradients(), [&](std::size_t i) { reduce.ready(stream, i); });
      reduce.finish(stream);
      optimizer.step(stream, reduce.gradients());
    });
  }
  ww::sharded_optimizer<ww::adamw> optimizer{comm, pool, stream, parameters};
  double const sharded = steps_us(comm, stream, first, [&] {
    backward(stream, optimizer.gradients(), [&](std::size_t i) { optimizer.ready(stream, i); });
    optimizer.step(stream);
  });
  say(comm, "# with adamw: whole %.0f us, sharded %.0f us, %.3f of it\n", whole, sharded,
      sharded / whole);
}

}  // namespace

int main(int count, char** arguments) {
  std::size_t const tokens = count > 1 ? static_cast<std::size_t>(std::atoi(arguments[1])) : 8192;
  return bench::on_all_ranks(arguments, [&](ww::communicator& comm) { run(comm, tokens); });
}
