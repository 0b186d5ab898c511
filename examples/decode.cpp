// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Decodes tokens with a random model of Llama's kind: RMS norm, rotary embedding, attention over a
// cache of keys and values, gated product, weights of bfloat16. The step of a token is one graph:
// it reads the position and the token before from device memory, and writes the next ones there.
//
//   decode                              compares a small model's tokens with those of plain loops
//   decode 8 2048 5632 32 32000 256     ... and times one of 8 layers, 2,048 channels, 5,632 hidden
//                                       ones, 32 heads, 32,000 words, for 256 tokens
#include <warpwright/graph.hpp>
#include <warpwright/kernel.hpp>
#include <warpwright/kernel/indices.hpp>
#include <warpwright/kernel/random.hpp>
#include <warpwright/kernel/reduce_matrix.hpp>
#include <warpwright/kernel/rows.hpp>
#include <warpwright/kernel/views.hpp>
#include <warpwright/measure.hpp>
#include <warpwright/memory.hpp>

#include <cuda_bf16.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <vector>

namespace ww = warpwright;
namespace ew = warpwright::ew;
using weight = __nv_bfloat16;

namespace {

struct sizes {
  std::size_t layers, dim, hidden, heads, words, tokens;
};

struct layer {
  weight *qkv, *out, *gate, *up, *down;  // row by row, a row for each result
  float *norm1, *norm2;
  float *keys, *values;  // [tokens, dim] and, so that sums over tokens are of rows, [dim, tokens]
};

// A matrix times a vector: the sum of each row.
auto product(weight const* w, std::size_t rows, std::size_t cols, float const* v) {
  return ew::sum(ew::in(w, rows * cols) * ew::row(v, cols));
}

struct model {
  static constexpr double eps = 1e-5;
  ww::memory_pool& pool;
  ww::stream_ref stream;
  sizes const of;
  std::vector<ww::device_buffer<std::byte>> owned{};
  std::size_t weight_bytes = 0, random = 0;
  std::size_t const n = of.dim, heads = of.heads, d = n / heads, tokens = of.tokens;
  float const scale = 1.0F / std::sqrt(static_cast<float>(d));
  weight* const embedding = weights(of.words, n, 1);
  weight* const head = weights(of.words, n, n);
  float* const norm = gains();
  std::vector<layer> layers{};
  float *const x = make<float>(n), *const h = make<float>(n), *const qkv = make<float>(3 * n);
  float *const q = make<float>(n), *const scores = make<float>(tokens * heads);
  float *const probabilities = make<float>(heads * tokens), *const context = make<float>(n);
  float *const gated = make<float>(of.hidden), *const logits = make<float>(of.words);
  float* const frequency = make<float>(d);  // of a rotation; negative for a pair's first element
  std::uint32_t *const position = make<std::uint32_t>(1), *const token = make<std::uint32_t>(1);
  std::uint32_t* const lengths = make<std::uint32_t>(heads);  // of the text so far, for each head
  std::uint32_t* const text = make<std::uint32_t>(tokens);

  model(ww::memory_pool& memory, ww::stream_ref s, sizes const& z)
      : pool{memory}, stream{s}, of{z} {
    for (std::size_t i = 0; i < of.layers; ++i) {
      layers.push_back({weights(3 * n, n, n), weights(n, n, n), weights(of.hidden, n, n),
                        weights(of.hidden, n, n), weights(n, of.hidden, of.hidden), gains(),
                        gains(), make<float>(tokens * n), make<float>(n * tokens)});
    }
    weight_bytes -= of.words * n * sizeof(weight);  // one row of the embedding is read
    auto const pair = ew::cast<float>(ew::index() % (d / 2));
    ew::run(s, ew::out(frequency, d) =
                   ew::where(ew::index() < d / 2, -1.0F, 1.0F) *
                   ew::exp(pair * (-2.0F * std::log(10000.0F) / static_cast<float>(d))));
  }
  template <class T>
  T* make(std::size_t count) {
    owned.emplace_back(pool, stream, count * sizeof(T));
    ww::check(cudaMemsetAsync(owned.back().data(), 0, count * sizeof(T), stream.get()),
              "cudaMemsetAsync");
    return reinterpret_cast<T*>(owned.back().data());
  }
  // Results are of about 1; those of an embedding are single weights, not sums.
  weight* weights(std::size_t rows, std::size_t cols, std::size_t summed) {
    auto* const w = make<weight>(rows * cols);
    float const deviation = 1.0F / std::sqrt(static_cast<float>(summed));
    ew::run(stream, ew::out(w, rows * cols) = deviation * ew::normal(ew::philox{4, random++}));
    weight_bytes += rows * cols * sizeof(weight);
    return w;
  }
  float* gains() {
    auto* const g = make<float>(n);
    ew::run(stream, ew::out(g, n) = 1.0F + 0.1F * ew::normal(ew::philox{4, random++}));
    return g;
  }

  void step(ww::stream_ref s) {
    ew::run(s, ew::out(x, n) = ew::row_at(ew::in(embedding, of.words * n), ew::col(token, n)));
    ew::run(s, ew::out(lengths, heads) = ew::device_scalar(position) + 1U);
    for (layer const& l : layers) {
      normalise(s, l.norm1);
      ew::reduce_rows(s, {3 * n, n}, ew::to(qkv) = product(l.qkv, 3 * n, n, h));
      // A rotation's pairs are half of a head apart.
      auto const angle = ew::device_scalar(position) * ew::row(frequency, d);
      auto const rotated = [&](float* v) {
        return ew::in(v, n) * ew::cos(angle) +
               ew::view(ew::array(v, {heads, 2, d / 2}).reversed(1)) * ew::sin(angle);
      };
      auto const column = ew::index() * tokens + ew::device_scalar(position);
      ew::run(s, ew::tie(ew::out(q, n) = rotated(qkv),
                         ew::out_at(l.keys, tokens * n, n, ew::col(position, n)) = rotated(qkv + n),
                         ew::out_at(l.values, n * tokens, n, column) = ew::in(qkv + 2 * n, n)));
      ew::reduce_rows(s, {tokens * heads, d},
                      ew::to(scores) = ew::sum(ew::in(l.keys, tokens * n) * ew::row(q, n)));
      auto const of_heads = ew::view(ew::array(scores, {tokens, heads}).permuted({1, 0}));
      ew::run_rows(s, ew::ragged_shape{{heads, tokens}, lengths},
                   ew::out(probabilities, heads * tokens) = ew::softmax(of_heads * scale));
      // The probability of tokens to come is 0, as decode() has set it.
      auto const p = ew::view(probabilities, {heads, d, tokens}, {tokens, 0, 1});
      ew::reduce_rows(s, {n, tokens}, ew::to(context) = ew::sum(ew::in(l.values, n * tokens) * p));
      ew::reduce_rows(s, {n, n}, ew::to(x) += product(l.out, n, n, context));
      normalise(s, l.norm2);
      ew::reduce_rows(s, {of.hidden, n},
                      ew::to(gated) = ew::silu(product(l.gate, of.hidden, n, h)) *
                                      product(l.up, of.hidden, n, h));
      ew::reduce_rows(s, {n, of.hidden}, ew::to(x) += product(l.down, n, of.hidden, gated));
    }
    normalise(s, norm);
    ew::reduce_rows(s, {of.words, n}, ew::to(logits) = product(head, of.words, n, h));
    ew::reduce(s, pool, of.words, ew::to(token) = ew::argmax(ew::in(logits, of.words)));
    ew::run(s, ew::out_at(text, tokens, 1, ew::device_scalar(position)) = ew::in(token, 1));
    ew::run(s, ew::out(position, 1) += 1U);
  }
  void normalise(ww::stream_ref s, float const* gain) {
    ew::run_rows(s, {1, n}, ew::out(h, n) = ew::rms_norm(ew::in(x, n), eps) * ew::in(gain, n));
  }

  // The tokens behind token 0, and how many of them there are in a second.
  std::vector<std::uint32_t> decode(ww::graph_replay& graph, double& rate) {
    ew::run(stream, ew::out(position, 1) = 0U);
    ew::run(stream, ew::out(token, 1) = 0U);
    ew::run(stream, ew::out(probabilities, heads * tokens) = 0.0F);
    stream.synchronize();
    auto const begin = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < tokens; ++i) graph.launch(stream);
    stream.synchronize();
    std::chrono::duration<double> const elapsed = std::chrono::steady_clock::now() - begin;
    rate = static_cast<double>(tokens) / elapsed.count();
    return fetch(text, tokens);
  }
  template <class T>
  std::vector<T> fetch(T const* from, std::size_t count) const {
    std::vector<T> host(count);
    ww::check(
        cudaMemcpyAsync(host.data(), from, count * sizeof(T), cudaMemcpyDeviceToHost, stream.get()),
        "cudaMemcpyAsync");
    stream.synchronize();
    return host;
  }
};

// The same by plain loops in double.
struct reference {
  using numbers = std::vector<double>;
  model const& m;
  std::vector<std::vector<numbers>> keys{m.of.layers}, values{m.of.layers};
  double margin = INFINITY;  // by which a token's logit is the largest, at least

  numbers times(weight const* matrix, std::size_t rows, numbers const& v) const {
    auto const w = m.fetch(matrix, rows * v.size());
    numbers result(rows);
    for (std::size_t i = 0; i < w.size(); ++i) {
      result[i / v.size()] += static_cast<double>(__bfloat162float(w[i])) * v[i % v.size()];
    }
    return result;
  }
  numbers normalised(numbers v, float const* gain) const {
    auto const g = m.fetch(gain, v.size());
    double squares = 0;
    for (double const e : v) squares += e * e;
    double const rms = std::sqrt(squares / static_cast<double>(v.size()) + model::eps);
    for (std::size_t i = 0; i < v.size(); ++i) v[i] *= static_cast<double>(g[i]) / rms;
    return v;
  }
  void rotate(double* v, std::size_t position) const {
    for (std::size_t i = 0; i < m.n / 2; ++i) {
      std::size_t const half = m.d / 2, pair = i % half, at = i / half * m.d + pair;
      double const power = -2.0 * static_cast<double>(pair) / static_cast<double>(m.d);
      double const angle = static_cast<double>(position) * std::pow(10000.0, power);
      double const a = v[at], b = v[at + half];
      v[at] = a * std::cos(angle) - b * std::sin(angle);
      v[at + half] = b * std::cos(angle) + a * std::sin(angle);
    }
  }
  numbers attention(numbers const& q, std::size_t l) const {
    numbers context(m.n);
    for (std::size_t first = 0; first < m.n; first += m.d) {
      numbers p;
      double total = 0;
      for (numbers const& k : keys[l]) {
        double dot = 0;
        for (std::size_t i = first; i < first + m.d; ++i) dot += q[i] * k[i];
        p.push_back(std::exp(dot / std::sqrt(static_cast<double>(m.d))));
        total += p.back();
      }
      for (std::size_t t = 0; t < p.size(); ++t) {
        for (std::size_t i = first; i < first + m.d; ++i) {
          context[i] += p[t] / total * values[l][t][i];
        }
      }
    }
    return context;
  }
  std::uint32_t next(std::uint32_t token, std::size_t position) {
    auto const n = static_cast<std::ptrdiff_t>(m.n);
    auto const add = [](numbers& x, numbers const& y) {
      for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
    };
    numbers x;
    for (weight const w : m.fetch(m.embedding + token * m.n, m.n)) {
      x.push_back(static_cast<double>(__bfloat162float(w)));
    }
    for (std::size_t l = 0; l < m.layers.size(); ++l) {
      layer const& of = m.layers[l];
      numbers qkv = times(of.qkv, 3 * m.n, normalised(x, of.norm1));
      rotate(qkv.data(), position);
      rotate(qkv.data() + n, position);
      keys[l].emplace_back(qkv.begin() + n, qkv.begin() + 2 * n);
      values[l].emplace_back(qkv.begin() + 2 * n, qkv.end());
      add(x, times(of.out, m.n, attention(qkv, l)));
      numbers const h = normalised(x, of.norm2), up = times(of.up, m.of.hidden, h);
      numbers gate = times(of.gate, m.of.hidden, h);
      for (std::size_t i = 0; i < gate.size(); ++i) gate[i] *= up[i] / (1 + std::exp(-gate[i]));
      add(x, times(of.down, m.n, gate));
    }
    numbers logits = times(m.head, m.of.words, normalised(x, m.norm));
    auto const best = std::max_element(logits.begin(), logits.end());
    auto const chosen = static_cast<std::uint32_t>(best - logits.begin());
    std::nth_element(logits.begin(), logits.begin() + 1, logits.end(), std::greater<double>{});
    margin = std::min(margin, logits[0] - logits[1]);
    return chosen;
  }
};

bool tokens_are_right(model& m, ww::graph_replay& graph) {
  double rate = 0;
  auto const found = m.decode(graph, rate);
  reference plain{m};
  bool right = true;
  std::printf("tokens:");
  for (std::size_t i = 0; i < found.size(); ++i) {
    std::uint32_t const expected = plain.next(i == 0 ? 0 : found[i - 1], i);
    bool const same = found[i] == expected;
    std::printf(same ? " %u" : " %u (WRONG: %u)", found[i], expected);
    right = right && same;
  }
  std::printf("\neach the first by %.1e of a logit or more\n", plain.margin);
  return right;
}

void time_tokens(model& m, ww::graph_replay& graph, ww::memory_pool& pool) {
  double rate = 0;
  static_cast<void>(m.decode(graph, rate));  // the first launches take longer
  static_cast<void>(m.decode(graph, rate));
  // A copy of half as many bytes moves as many, read and written.
  std::size_t const half = m.weight_bytes / 2;
  ww::device_buffer<std::byte> copy{pool, m.stream, 2 * half};
  auto const call = [&] { copy.copy_from(m.stream, copy.data() + half, half); };
  double const seconds = ww::measure(m.stream, call).summary.median_seconds;
  auto const bytes = static_cast<double>(m.weight_bytes);
  std::printf(
      "%zu layers, %zu channels, %zu hidden, %zu heads, %zu words: %.1f tokens/s\n"
      "%.3f MB of weights a token, %.2f GB/s: %.3f of a copy's %.2f GB/s\n",
      m.of.layers, m.n, m.of.hidden, m.heads, m.of.words, rate, 1e-6 * bytes, 1e-9 * bytes * rate,
      rate * seconds, 1e-9 * bytes / seconds);
}

}  // namespace

int main(int count, char** arguments) try {
  sizes const small{2, 32, 48, 2, 64, 24};
  sizes of = small;
  if (count == 7) {
    auto const number = [&](int i) { return std::strtoull(arguments[i], nullptr, 10); };
    of = {number(1), number(2), number(3), number(4), number(5), number(6)};
  }
  if ((count != 1 && count != 7) || of.layers * of.hidden * of.words * of.tokens == 0 ||
      of.heads == 0 || of.dim == 0 || of.dim % (2 * of.heads) != 0) {
    std::fprintf(stderr, "usage: decode [layers channels hidden heads words tokens]\n");
    return 1;
  }
  ww::stream s;
  ww::memory_pool pool{ww::current_device()};
  for (bool const timed : {false, true}) {
    model m{pool, s, timed ? of : small};
    ww::graph_replay graph;
    graph.recapture(s, [&](ww::stream_ref captured) { m.step(captured); });
    if (timed) time_tokens(m, graph, pool);
    if (!timed && !tokens_are_right(m, graph)) {
      std::fprintf(stderr, "WRONG: other tokens than by plain loops\n");
      return 1;
    }
  }
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
