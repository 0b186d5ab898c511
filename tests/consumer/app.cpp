// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A user's program: the same file for the host runtime (.cpp) and for nvcc (CUDA).
#include <warpwright/warpwright.hpp>

#include <cstdio>
#include <vector>

namespace ww = warpwright;

struct square {
  int* values;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const {
    values[i] = static_cast<int>(i * i);
  }
};

#if WITH_HEADER_ONLY_PART
void use(ww::memory_pool& pool, ww::stream_ref stream);  // of a library without WARPWRIGHT_COMPILED
#endif

int main() {
  ww::memory_pool pool{ww::device_id{0}};
#if WITH_HEADER_ONLY_PART
  use(pool, ww::stream_ref::legacy_default());
#endif
  ww::stream stream;
  ww::device_buffer<int> values{pool, stream, 1000};
  ww::for_each_index(stream, values.size(), square{values.data()});
  std::vector<int> host(values.size());
  ww::check(cudaMemcpyAsync(host.data(), values.data(), values.size_bytes(), cudaMemcpyDeviceToHost,
                            stream),
            "cudaMemcpyAsync");
  stream.synchronize();
  int right = 0;
  for (int i = 0; i < 1000; ++i) right += host[static_cast<std::size_t>(i)] == i * i;
  std::printf("warpwright %d.%d.%d: %d values right\n", WARPWRIGHT_VERSION_MAJOR,
              WARPWRIGHT_VERSION_MINOR, WARPWRIGHT_VERSION_PATCH, right);
  return right == 1000 ? 0 : 1;
}
