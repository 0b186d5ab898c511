// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Rows of half to all of a width padded to a matrix and back, beside a copy of the matrix. Bytes
// are those of the elements that are read and written.
#include <warpwright/memory/buffer.hpp>
#include <warpwright/serve/padding.hpp>

#include <benchmark/benchmark.h>

#include <random>
#include <utility>
#include <vector>

namespace ww = warpwright;

namespace {

enum class what { copy, pad, pad_with_mask, unpad };

void rows(benchmark::State& state, what call) {
  std::size_t const width = static_cast<std::size_t>(state.range(0));
  std::size_t const count = (static_cast<std::size_t>(state.range(1)) << 20U) / sizeof(int) / width;
  ww::memory_pool pool{ww::current_device()};
  ww::stream stream;
  std::mt19937 random{1};
  std::vector<std::int32_t> ends{0};
  for (std::size_t i = 0; i < count; ++i) {
    auto const length = static_cast<std::int32_t>(width / 2 + random() % (width / 2 + 1));
    ends.push_back(ends.back() + length);
  }
  auto const total = static_cast<std::size_t>(ends.back());
  ww::device_buffer<std::int32_t> const offsets{pool, stream, ends.data(), ends.size()};
  ww::device_buffer<unsigned char> const mask{pool, stream, count * width};
  // Two of each in turn, beyond the L2 cache.
  ww::device_buffer<int> const packed[] = {{pool, stream, total}, {pool, stream, total}};
  ww::device_buffer<int> const matrix[] = {{pool, stream, count * width},
                                           {pool, stream, count * width}};
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  ww::check(cudaEventCreate(&begin), "cudaEventCreate");
  ww::check(cudaEventCreate(&end), "cudaEventCreate");
  std::size_t bytes = 0;
  int i = 0;
  for (auto _ : state) {
    ww::packed_rows<int> const ragged{packed[i].data(), offsets.data()};
    ww::padded_rows<int> const padded{matrix[i].data(), width};
    ww::check(cudaEventRecord(begin, stream), "cudaEventRecord");
    switch (call) {
      case what::copy:
        ww::check(cudaMemcpyAsync(matrix[i].data(), matrix[1 - i].data(), matrix[i].size_bytes(),
                                  cudaMemcpyDeviceToDevice, stream),
                  "cudaMemcpyAsync");
        bytes = 2 * matrix[i].size_bytes();
        break;
      case what::pad:
        ww::pad_rows(stream, ragged, padded, count, 0);
        bytes = total * sizeof(int) + matrix[i].size_bytes();
        break;
      case what::pad_with_mask:
        ww::pad_rows(stream, ragged, padded, count, 0, mask.data());
        bytes = total * sizeof(int) + matrix[i].size_bytes() + mask.size_bytes();
        break;
      case what::unpad:
        ww::unpad_rows(stream, padded, ragged, count);
        bytes = 2 * total * sizeof(int);
    }
    ww::check(cudaEventRecord(end, stream), "cudaEventRecord");
    ww::check(cudaEventSynchronize(end), "cudaEventSynchronize");
    float milliseconds = 0.0F;
    ww::check(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
    state.SetIterationTime(1e-3 * static_cast<double>(milliseconds));
    i = 1 - i;
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) *
                          static_cast<std::int64_t>(bytes));
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
}

void sizes(benchmark::internal::Benchmark* b) {
  for (int const width : {64, 512, 1000, 4096}) {
    for (int const mib : {64, 256}) b->Args({width, mib});
  }
  b->ArgNames({"width", "MiB"})->UseManualTime();
}
BENCHMARK_CAPTURE(rows, copy, what::copy)->Apply(sizes);
BENCHMARK_CAPTURE(rows, pad, what::pad)->Apply(sizes);
BENCHMARK_CAPTURE(rows, pad_with_mask, what::pad_with_mask)->Apply(sizes);
BENCHMARK_CAPTURE(rows, unpad, what::unpad)->Apply(sizes);

}  // namespace
