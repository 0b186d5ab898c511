// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Texts of real lengths through a batcher: a key for each bucket of lengths, rows padded in one
// kernel, and a graph for each bucket and batch.
#include <warpwright/core/device.hpp>
#include <warpwright/core/launch.hpp>
#include <warpwright/graph/graph_cache.hpp>
#include <warpwright/memory.hpp>
#include <warpwright/memory/pinned.hpp>
#include <warpwright/serve/batcher.hpp>
#include <warpwright/serve/padding.hpp>
#include <warpwright/tune/latency_model.hpp>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace ww = warpwright;

namespace {

constexpr std::size_t max_items = 32;

// In page-locked memory, which the device reads.
struct text {
  int* tokens;
  std::int32_t length;
};
using score = std::uint32_t;

WARPWRIGHT_HOST_DEVICE score weight(int token) {
  return (static_cast<score>(token) * 2654435761U) >> 12U;
}

// What stands for a network: a sum over the tokens that are no padding.
struct score_row {
  int const* matrix;
  unsigned char const* mask;
  std::size_t width;
  score* scores;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t row) const {
    score sum = 0;
    for (std::size_t c = 0; c < width; ++c) {
      sum += mask[row * width + c] != 0 ? weight(matrix[row * width + c]) : 0;
    }
    scores[row] = sum;
  }
};

std::vector<ww::size_weight> read_lengths(char const* path) {
  std::ifstream file{path};
  std::string line;
  std::getline(file, line);
  std::vector<ww::size_weight> lengths;
  std::size_t tokens = 0;
  double texts = 0.0;
  for (char comma = ','; file >> tokens >> comma >> texts;) lengths.push_back({tokens, texts});
  if (lengths.size() < 100) throw std::runtime_error{std::string{path} + ": no lengths in it"};
  return lengths;
}

// Tokens that run for one of a text, less 1.
double padding(std::vector<ww::size_weight> const& lengths,
               std::vector<std::size_t> const& buckets) {
  double run = 0.0;
  double used = 0.0;
  for (ww::size_weight const& l : lengths) {
    std::size_t i = 0;
    while (buckets[i] < l.size) ++i;
    run += static_cast<double>(buckets[i]) * l.weight;
    used += static_cast<double>(l.size) * l.weight;
  }
  return run / used - 1.0;
}

int run(char const* path) {
  std::printf("on %s\n", ww::get_device_info(ww::current_device()).name.c_str());
  std::vector<ww::size_weight> const lengths = read_lengths(path);
  std::vector<std::size_t> const buckets = ww::choose_buckets(lengths, 8).buckets;
  std::printf("buckets:");
  for (std::size_t const b : buckets) std::printf(" %zu", b);
  double const chosen = padding(lengths, buckets);
  double const powers = padding(lengths, {4, 8, 16, 32, 64, 128, 256, 512});
  std::printf("\npadding %.0f %% of the tokens; with powers of two %.0f %%\n", 100.0 * chosen,
              100.0 * powers);
  if (chosen > 0.75 * powers)
    throw std::runtime_error{"the buckets are no better than powers of 2"};

  ww::stream const stream;
  ww::memory_pool pool{ww::current_device()};
  ww::pinned_pool pinned;
  std::size_t const most = max_items * buckets.back();
  ww::device_buffer<int> const matrix{pool, stream, most};
  ww::device_buffer<unsigned char> const mask{pool, stream, most};
  ww::pinned_buffer<int*> rows{pinned, max_items};
  ww::pinned_buffer<std::int32_t> row_lengths{pinned, max_items};
  ww::graph_cache graphs{ww::graph_cache_options{}.warmups(0).cost_gate(false)};
  auto const model = ww::latency_model::fit({{1, 1e-4, 2e-4, 0}, {max_items, 4e-4, 8e-4, 0}});
  ww::batcher<text, score> serve{
      ww::batcher_options{}.max_items(max_items).preferred({4, 16, max_items}).host_data(), stream,
      model, [&](ww::batch<text, score>& b, ww::stream_ref s) {
        std::size_t const width = b.key()[0];
        for (std::size_t i = 0; i < b.padded_size(); ++i) {
          rows.data()[i] = b.inputs()[i < b.size() ? i : 0].tokens;
          row_lengths.data()[i] = i < b.size() ? b.inputs()[i].length : 0;
        }
        auto const step = [&](ww::stream_ref on, std::size_t n, std::size_t w, score* scores) {
          ww::pad_rows(on, ww::separate_rows<int>{rows.data(), row_lengths.data()},
                       ww::padded_rows<int>{matrix.data(), w}, n, 0, mask.data());
          ww::for_each_index(on, n, score_row{matrix.data(), mask.data(), w, scores});
        };
        graphs.run(s, {width, b.padded_size()}, step, b.padded_size(), width, b.outputs());
      }};

  // Texts of the lengths in the file, in any order.
  std::mt19937 random{1};
  std::vector<double> weights;
  for (ww::size_weight const& l : lengths) weights.push_back(l.weight);
  std::discrete_distribution<std::size_t> draw{weights.begin(), weights.end()};
  constexpr std::size_t count = 4000;
  std::vector<text> texts(count);
  std::size_t total = 0;
  for (text& t : texts) {
    t.length = static_cast<std::int32_t>(lengths[draw(random)].size);
    total += static_cast<std::size_t>(t.length);
  }
  ww::pinned_buffer<int> tokens{pinned, total};
  std::vector<score> expected(count);
  int* next = tokens.data();
  for (std::size_t i = 0; i < count; ++i) {
    texts[i].tokens = next;
    for (std::int32_t k = 0; k < texts[i].length; ++k) {
      *next = static_cast<int>(random() % 50000U);
      expected[i] += weight(*next++);
    }
  }
  std::vector<ww::ticket<score>> tickets;
  for (text const& t : texts) {
    std::size_t bucket = 0;
    while (buckets[bucket] < static_cast<std::size_t>(t.length)) ++bucket;
    tickets.push_back(serve.submit(t, ww::request{}.key(buckets[bucket])));
  }
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < count; ++i) {
    score const* const s = tickets[i].wait();
    if (s == nullptr) throw std::runtime_error{tickets[i].error()};
    wrong += *s == expected[i] ? 0U : 1U;
  }
  std::printf("%zu texts, %zu wrong, %zu graphs\n%s", count, wrong, graphs.statistics().graphs,
              serve.statistics().to_text().c_str());
  return wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) try {
  return run(argc > 1 ? argv[1] : SERVE_TEXT_DATA);
} catch (std::exception const& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
