// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A transformer block of GPT-2's kind, forward and backward, as one graph:
//
//   x1 = x + attention(layer_norm(x)) * w_proj + b_proj
//   y = x1 + gelu(layer_norm(x1) * w_up + b_up) * w_down + b_down
//
// Products of matrices are cuBLAS's, on the host runtime a plain loop; all between them is fused
// kernels. Of each parameter the gradient is compared with a finite difference of the loss.
//
//   transformer_block                    checks the gradients of a small block, and times it
//   transformer_block 8 1024 768 12      ... and times one of 8 * 1,024 tokens, 768 channels, 12
//   heads transformer_block 8 1024 768 12 tf32     with products in TF32
#include <warpwright/graph.hpp>
#include <warpwright/kernel.hpp>
#include <warpwright/kernel/random.hpp>
#include <warpwright/kernel/reduce_matrix.hpp>
#include <warpwright/kernel/row_gradients.hpp>
#include <warpwright/kernel/rows.hpp>
#include <warpwright/kernel/views.hpp>
#include <warpwright/measure.hpp>
#include <warpwright/memory.hpp>

#if defined(__CUDACC__)
#include <warpwright/interop/cublas.hpp>
#endif

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <vector>

namespace ww = warpwright;
namespace ew = warpwright::ew;

namespace {

struct factor {
  float const* data;
  bool transposed = false;  // in memory
};

#if defined(__CUDACC__)

// Products of row-major matrices by cuBLAS, whose matrices are column-major.
class products {
 public:
  products(ww::memory_pool& pool, ww::stream_ref s, bool tf32)
      : workspace_{pool, s, ww::cublas_workspace_bytes(9)} {
    check(cublasCreate(&handle_), "cublasCreate");
    check(cublasSetMathMode(handle_, tf32 ? CUBLAS_TF32_TENSOR_OP_MATH : CUBLAS_DEFAULT_MATH),
          "cublasSetMathMode");
  }
  products(products const&) = delete;
  products& operator=(products const&) = delete;
  ~products() { static_cast<void>(cublasDestroy(handle_)); }

  // product (rows x cols) = a (rows x inner) * b (inner x cols), for each matrix of a batch.
  void operator()(ww::stream_ref s, float* product, std::size_t rows, std::size_t cols,
                  std::size_t inner, factor a, factor b, std::size_t batch = 1) {
    ww::cublas_scope const bound{handle_, s, workspace_.data(), workspace_.size()};
    float const one = 1.0F, zero = 0.0F;
    auto const n = [](std::size_t size) { return static_cast<int>(size); };
    auto const step = [](std::size_t size) { return static_cast<long long>(size); };
    check(cublasSgemmStridedBatched(handle_, b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
                                    a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N, n(cols), n(rows),
                                    n(inner), &one, b.data, n(b.transposed ? inner : cols),
                                    step(inner * cols), a.data, n(a.transposed ? rows : inner),
                                    step(rows * inner), &zero, product, n(cols), step(rows * cols),
                                    n(batch)),
          "cublasSgemmStridedBatched");
  }

 private:
  static void check(cublasStatus_t status, char const* call) {
    if (status != CUBLAS_STATUS_SUCCESS) {
      throw ww::cublas_error{status, call, ww::source_location::current()};
    }
  }
  ww::device_buffer<std::byte> workspace_;
  cublasHandle_t handle_ = nullptr;
};

#else

struct row_of_product {
  float* product;
  std::size_t rows, cols, inner;
  factor a, b;
  void operator()(std::uint64_t i) const {
    std::uint64_t const batch = i / rows, row = i % rows;
    float const* const from = a.data + batch * rows * inner;
    float const* const by = b.data + batch * inner * cols;
    for (std::size_t j = 0; j < cols; ++j) {
      float sum = 0;
      for (std::size_t k = 0; k < inner; ++k) {
        sum += from[a.transposed ? k * rows + row : row * inner + k] *
               by[b.transposed ? j * inner + k : k * cols + j];
      }
      product[i * cols + j] = sum;
    }
  }
};

class products {
 public:
  products(ww::memory_pool&, ww::stream_ref, bool) {}
  void operator()(ww::stream_ref s, float* product, std::size_t rows, std::size_t cols,
                  std::size_t inner, factor a, factor b, std::size_t batch = 1) {
    ww::for_each_index(s, batch * rows, row_of_product{product, rows, cols, inner, a, b});
  }
};

#endif

struct sizes {
  std::size_t batch, tokens, channels, heads;
};

struct parameter {
  char const* name;
  std::size_t size;
  float mean, deviation;  // of its first values
};

struct block {
  static constexpr double eps = 1e-5;
  ww::memory_pool& pool;
  ww::stream_ref stream;
  sizes const of;
  products multiply;
  std::vector<ww::device_buffer<float>> owned{};
  std::size_t const b = of.batch, t = of.tokens, c = of.channels, h = of.heads, d = c / h;
  std::size_t const rows = b * t, n = rows * c, squares = b * h * t * t;
  float const narrow = 1.0F / std::sqrt(static_cast<float>(c));
  float const scale = 1.0F / std::sqrt(static_cast<float>(d));
  std::array<parameter, 13> const parameters{{{"gamma1", c, 1.0F, 0.1F},
                                              {"beta1", c, 0.0F, 0.1F},
                                              {"w_qkv", 3 * c* c, 0.0F, narrow},
                                              {"b_qkv", 3 * c, 0.0F, 0.1F},
                                              {"w_proj", c* c, 0.0F, narrow},
                                              {"b_proj", c, 0.0F, 0.1F},
                                              {"gamma2", c, 1.0F, 0.1F},
                                              {"beta2", c, 0.0F, 0.1F},
                                              {"w_up", 4 * c* c, 0.0F, narrow},
                                              {"b_up", 4 * c, 0.0F, 0.1F},
                                              {"w_down", 4 * c* c, 0.0F, 0.5F * narrow},
                                              {"b_down", c, 0.0F, 0.1F},
                                              {"x", n, 0.0F, 1.0F}}};
  std::array<float*, 13> value{}, gradient{};
  float *const y = make(n), *const dy = make(n);  // the loss is the sum of y * dy, dy given
  // What the backward pass reads of the forward.
  float *const h1 = make(n), *const mean1 = make(rows), *const rstd1 = make(rows);
  float *const qkv = make(3 * n), *const probabilities = make(squares), *const context = make(n);
  float *const x1 = make(n), *const h2 = make(n), *const mean2 = make(rows);
  float *const rstd2 = make(rows), *const up = make(4 * n), *const activated = make(4 * n);

  block(ww::memory_pool& memory, ww::stream_ref s, sizes const& z, bool tf32)
      : pool{memory}, stream{s}, of{z}, multiply{memory, s, tf32} {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      parameter const& p = parameters[i];
      value[i] = make(p.size);
      gradient[i] = make(p.size);
      ew::run(s, ew::out(value[i], p.size) = p.mean + p.deviation * ew::normal(ew::philox{1, i}));
    }
    ew::run(s, ew::out(dy, n) = ew::normal(ew::philox{2}));
    // Those of keys behind a query stay 0: a causal softmax does not write them.
    ew::run(s, ew::out(probabilities, squares) = 0.0F);
  }

  float* make(std::size_t size) {
    owned.emplace_back(pool, stream, size);
    return owned.back().data();
  }

  void forward(ww::stream_ref s) {
    auto const [gamma1, beta1, w_qkv, b_qkv, w_proj, b_proj, gamma2, beta2, w_up, b_up, w_down,
                b_down, x] = value;
    ww::device_buffer<float> wide{pool, s, 3 * n}, scores{pool, s, squares}, z{pool, s, n};

    auto const norm1 = ew::layer_norm(ew::in(x, n), eps);
    ew::run_rows(s, {rows, c}, ew::out(h1, n) = norm1 * ew::row(gamma1, c) + ew::row(beta1, c),
                 ew::out(mean1, rows) = norm1.mean(), ew::out(rstd1, rows) = norm1.rstd());
    multiply(s, wide.data(), rows, 3 * c, c, {h1}, {w_qkv});
    // The bias, and all heads' queries, then keys, then values: [3, b, h, t, d].
    auto const of_tokens = ew::array(wide.data(), {b, t, 3, h, d});
    ew::run(s, ew::out(qkv, 3 * n) = ew::view(of_tokens.permuted({2, 0, 3, 1, 4})) +
                                     ew::view(b_qkv, {3, b, h, t, d}, {c, 0, d, 0, 1}));
    multiply(s, scores.data(), t, t, d, {qkv}, {qkv + n, true}, b * h);
    ew::run_rows(
        s, ew::causal({b * h * t, t}, t),
        ew::out(probabilities, squares) = ew::softmax(ew::in(scores.data(), squares) * scale));
    multiply(s, z.data(), t, d, t, {probabilities}, {qkv + 2 * n}, b * h);
    ew::run(s, ew::out(context, n) =
                   ew::view(ew::array(z.data(), {b, h, t, d}).permuted({0, 2, 1, 3})));
    multiply(s, z.data(), rows, c, c, {context}, {w_proj});

    auto const norm2 = ew::layer_norm(ew::in(z.data(), n) + ew::row(b_proj, c) + ew::in(x, n), eps);
    ew::run_rows(s, {rows, c}, ew::out(x1, n) = norm2.input(),
                 ew::out(h2, n) = norm2 * ew::row(gamma2, c) + ew::row(beta2, c),
                 ew::out(mean2, rows) = norm2.mean(), ew::out(rstd2, rows) = norm2.rstd());
    multiply(s, up, rows, 4 * c, c, {h2}, {w_up});
    ew::run(s, ew::out(activated, 4 * n) = ew::gelu(ew::in(up, 4 * n) + ew::row(b_up, 4 * c)));
    multiply(s, z.data(), rows, c, 4 * c, {activated}, {w_down});
    ew::run(s, ew::out(y, n) = ew::in(z.data(), n) + ew::row(b_down, c) + ew::in(x1, n));
  }

  void backward(ww::stream_ref s) {
    auto const [gamma1, beta1, w_qkv, b_qkv, w_proj, b_proj, gamma2, beta2, w_up, b_up, w_down,
                b_down, x] = value;
    auto const [d_gamma1, d_beta1, dw_qkv, db_qkv, dw_proj, db_proj, d_gamma2, d_beta2, dw_up,
                db_up, dw_down, db_down, dx] = gradient;
    ww::device_buffer<float> wide{pool, s, 4 * n}, heads{pool, s, 3 * n}, dp{pool, s, squares};
    ww::device_buffer<float> dz{pool, s, n}, dx1{pool, s, n};

    ew::reduce_cols(s, pool, {rows, c}, ew::to(db_down) = ew::sum(ew::in(dy, n)));
    multiply(s, dw_down, 4 * c, c, rows, {activated, true}, {dy});
    multiply(s, wide.data(), rows, 4 * c, c, {dy}, {w_down, true});
    // GELU'(u) = Phi(u) + u phi(u), with the normal distribution's Phi and density phi.
    auto const u = ew::once(ew::in(up, 4 * n) + ew::row(b_up, 4 * c));
    auto const slope =
        0.5F + 0.5F * ew::erf(u * 0.70710678F) + u * ew::exp(u * u * -0.5F) * 0.39894228F;
    auto const du = ew::once(ew::in(wide.data(), 4 * n) * slope);
    ew::run_row_gradients(s, pool, {rows, 4 * c}, ew::out(wide.data(), 4 * n) = du,
                          ew::to(db_up) = ew::column_sum(du));
    multiply(s, dw_up, c, 4 * c, rows, {h2, true}, {wide.data()});
    multiply(s, dz.data(), rows, c, 4 * c, {wide.data()}, {w_up, true});
    auto const g2 = ew::layer_norm_backward(ew::in(dz.data(), n), ew::in(x1, n), ew::col(mean2, c),
                                            ew::col(rstd2, c), ew::row(gamma2, c));
    ew::run_row_gradients(s, pool, {rows, c}, ew::out(dx1.data(), n) = g2.dx() + ew::in(dy, n),
                          ew::to(d_gamma2) = g2.dgamma(), ew::to(d_beta2) = g2.dbeta());

    ew::reduce_cols(s, pool, {rows, c}, ew::to(db_proj) = ew::sum(ew::in(dx1.data(), n)));
    multiply(s, dw_proj, c, c, rows, {context, true}, {dx1.data()});
    multiply(s, wide.data(), rows, c, c, {dx1.data()}, {w_proj, true});
    ew::run(s, ew::out(dz.data(), n) =
                   ew::view(ew::array(wide.data(), {b, t, h, d}).permuted({0, 2, 1, 3})));
    multiply(s, dp.data(), t, t, d, {dz.data()}, {qkv + 2 * n, true}, b * h);
    multiply(s, heads.data() + 2 * n, t, d, t, {probabilities, true}, {dz.data()}, b * h);
    // Where a probability is 0 its gradient is: these rows need no lengths.
    auto const ds =
        ew::softmax_backward(ew::in(dp.data(), squares), ew::in(probabilities, squares));
    ew::run_row_gradients(s, {b * h * t, t}, ew::out(dp.data(), squares) = ds * scale);
    multiply(s, heads.data(), t, d, t, {dp.data()}, {qkv + n}, b * h);
    multiply(s, heads.data() + n, t, d, t, {dp.data(), true}, {qkv}, b * h);
    // Back to [b, t, 3, h, d], with the gradient of the bias.
    auto const of_heads = ew::array(heads.data(), {3, b, h, t, d});
    auto const d_qkv = ew::once(ew::view(of_heads.permuted({1, 3, 0, 2, 4})));
    ew::run_row_gradients(s, pool, {rows, 3 * c}, ew::out(wide.data(), 3 * n) = d_qkv,
                          ew::to(db_qkv) = ew::column_sum(d_qkv));
    multiply(s, dw_qkv, c, 3 * c, rows, {h1, true}, {wide.data()});
    multiply(s, dz.data(), rows, c, 3 * c, {wide.data()}, {w_qkv, true});
    auto const g1 = ew::layer_norm_backward(ew::in(dz.data(), n), ew::in(x, n), ew::col(mean1, c),
                                            ew::col(rstd1, c), ew::row(gamma1, c));
    ew::run_row_gradients(s, pool, {rows, c}, ew::out(dx, n) = g1.dx() + ew::in(dx1.data(), n),
                          ew::to(d_gamma1) = g1.dgamma(), ew::to(d_beta1) = g1.dbeta());
  }

  // Eager at first, then captured, then replayed.
  void step(ww::graph_replay& graph) {
    graph.run(stream, [&](ww::stream_ref s) {
      forward(s);
      backward(s);
    });
  }
};

// Of one direction each: (loss(p + h d) - loss(p - h d)) / 2h against <gradient, d>.
bool gradients_are_right(ww::stream& s, ww::memory_pool& pool) {
  block of{pool, s, {2, 8, 16, 2}, false};
  ww::graph_replay graph;
  for (int i = 0; i < 3; ++i) {  // the last by a replay, over what is cleared
    for (std::size_t k = 0; k < of.parameters.size(); ++k) {
      ew::run(s, ew::out(of.gradient[k], of.parameters[k].size) = NAN);
    }
    of.step(graph);
  }
  bool right = true;
  for (std::size_t k = 0; k < of.parameters.size(); ++k) {
    std::size_t const n = of.parameters[k].size;
    ww::device_buffer<float> direction{pool, s, n}, start{pool, s, of.value[k], n};
    auto const g = ew::in(of.gradient[k], n);
    auto const d = ew::in(direction.data(), n);
    auto const loss_at = [&](float h) {
      ew::run(s, ew::out(of.value[k], n) = ew::in(start.data(), n) + h * d);
      of.forward(s);
      auto const product = ew::in(of.y, of.n) * ew::in(of.dy, of.n);
      return ew::reduce(s, pool, of.n, ew::sum(product).in<double>());
    };
    ew::run(s, ew::out(direction.data(), n) = ew::normal(ew::philox{3, k}));
    float const h = 0.06F / std::sqrt(static_cast<float>(n));
    double const difference = (loss_at(h) - loss_at(-h)) / (2 * static_cast<double>(h));
    static_cast<void>(loss_at(0.0F));  // restores the parameter
    auto const [slope, norm] = ew::reduce(s, pool, n, ew::sum(g * d).in<double>(), ew::norm(g));
    double const error = std::fabs(difference - slope) / static_cast<double>(norm);
    bool const is_right = error < 1e-3;  // not if it is NaN
    std::printf("%-7s gradient %9.4f, finite difference %9.4f, error %.1e%s\n",
                of.parameters[k].name, slope, difference, error, is_right ? "" : "  WRONG");
    right = right && is_right;
  }
  return right;
}

}  // namespace

int main(int count, char** arguments) try {
  sizes z{2, 8, 16, 2};
  if (count >= 5) {
    auto const number = [&](int i) { return std::strtoull(arguments[i], nullptr, 10); };
    z = {number(1), number(2), number(3), number(4)};
  }
  bool const tf32 = count == 6 && std::strcmp(arguments[5], "tf32") == 0;
  if ((count != 1 && count != 5 && !tf32) || z.batch * z.tokens * z.channels * z.heads == 0 ||
      z.channels % z.heads != 0) {
    std::fprintf(stderr, "usage: transformer_block [batch tokens channels heads [tf32]]\n");
    return 1;
  }
  ww::stream s;
  ww::memory_pool pool{ww::current_device()};
  if (!gradients_are_right(s, pool)) {
    std::fprintf(stderr, "WRONG: a gradient is not that of the loss\n");
    return 1;
  }
  block of{pool, s, z, tf32};
  ww::graph_replay graph;
  of.step(graph);
  of.step(graph);
  double const seconds = ww::measure(s, [&] { of.step(graph); }).summary.median_seconds;
  std::printf("batch %zu, %zu tokens, %zu channels, %zu heads%s: %.3f ms forward and backward\n",
              z.batch, z.tokens, z.channels, z.heads, tf32 ? ", TF32" : "", 1e3 * seconds);
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
