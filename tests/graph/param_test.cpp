// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/device_memory.hpp"

#include <warpwright/core/launch.hpp>
#include <warpwright/graph/capture.hpp>
#include <warpwright/graph/graph_exec.hpp>
#include <warpwright/graph/graph_param.hpp>

#include <array>
#include <cstring>
#include <vector>

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>
#endif

namespace ww = warpwright;
using test_support::device_array;

namespace {

template <class T>
struct read_into {
  T* to;
  T const* from;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t) const { *to = *from; }
};

struct add_value {
  int* to;
  int const* value;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t) const { *to += *value; }
};

template <std::size_t Bytes>
struct bytes {
  unsigned char value[Bytes];
  friend bool operator==(bytes const& a, bytes const& b) {
    return std::memcmp(a.value, b.value, Bytes) == 0;
  }
};

template <std::size_t Bytes>
bytes<Bytes> numbered(unsigned char first) {
  bytes<Bytes> result{};
  for (std::size_t i = 0; i < Bytes; ++i) {
    result.value[i] = static_cast<unsigned char>(first + 3 * i);
  }
  return result;
}

template <class T>
void check_replays(T const& first, T const& second, T const& third) {
  INFO(sizeof(T) << " bytes");
  ww::stream s;
  ww::graph_param<T> parameter{s, first};
  device_array<T> const read{1};
  ww::graph_exec exec{ww::capture(s, [&](ww::stream_ref c) {
    ww::for_each_index(c, 1, read_into<T>{read.data(), parameter.get()});
  })};
  exec.launch(s);
  CHECK(read.fetch(s)[0] == first);
  parameter.set(s, second);
  CHECK(parameter.value() == second);
  exec.launch(s);
  CHECK(read.fetch(s)[0] == second);
  parameter.set(s, third);
  exec.launch(s);
  CHECK(read.fetch(s)[0] == third);
  exec.launch(s);
  CHECK(read.fetch(s)[0] == third);  // the value stays
}

}  // namespace

TEST_CASE("a replay reads the value that was set last, of each size") {
  check_replays<unsigned char>(1, 0, 255);
  check_replays<signed char>(-1, 0, 100);
  check_replays<short>(-2, 300, 0);
  check_replays<float>(1e-3F, 5e-4F, -0.0F);
  check_replays<double>(1e-3, 1e300, 0.0);
  check_replays<void*>(nullptr, reinterpret_cast<void*>(std::size_t{0x123456789a}), nullptr);
  check_replays(numbered<12>(0), numbered<12>(9), bytes<12>{});
  check_replays(numbered<16>(0), bytes<16>{}, numbered<16>(7));
  check_replays(numbered<64>(0), numbered<64>(100), bytes<64>{});
}

TEST_CASE("values set between launches are in the stream's order, without waiting") {
  ww::stream s;
  ww::graph_param<int> parameter{s, 0};
  constexpr int steps = 50;
  device_array<int> const sum{std::vector<int>{0}};
  ww::graph_exec exec{ww::capture(s, [&](ww::stream_ref c) {
    ww::for_each_index(c, 1, add_value{sum.data(), parameter.get()});
  })};
  for (int i = 1; i <= steps; ++i) {
    parameter.set(s, i);
    exec.launch(s);
  }
  CHECK(sum.fetch(s)[0] == steps * (steps + 1) / 2);
}

TEST_CASE("set() is refused while the stream is capturing, and the capture goes on") {
  ww::stream s;
  ww::graph_param<int> parameter{s, 4};
  device_array<int> const read{std::vector<int>{0}};
  ww::graph const captured = ww::capture(s, [&](ww::stream_ref c) {
    CHECK_THROWS_WITH(parameter.set(c, 5), contains("call set() between launches"));
    CHECK_THROWS_AS((ww::graph_param<int>{c, 1}), std::invalid_argument);
    ww::for_each_index(c, 1, read_into<int>{read.data(), parameter.get()});
  });
  CHECK(captured.node_counts().total() == 1);
  CHECK(parameter.value() == 4);
  ww::graph_exec exec{captured};
  exec.launch(s);
  CHECK(read.fetch(s)[0] == 4);
}

TEST_CASE("another stream's capture does not hinder set()") {
  ww::stream s, other;
  ww::graph_param<int> parameter{s, 1};
  static_cast<void>(ww::capture(other, [&](ww::stream_ref) {
    parameter.set(s, 2);
    ww::graph_param<float> const made_meanwhile{s, 1.0F};
  }));
  device_array<int> const read{std::vector<int>{0}};
  ww::for_each_index(s, 1, read_into<int>{read.data(), parameter.get()});
  CHECK(read.fetch(s)[0] == 2);
}

TEST_CASE("a parameter moves with its address") {
  ww::stream s;
  ww::graph_param<int> a{s, 1}, b{s, 2};
  int const* const of_a = a.get();
  ww::graph_param<int> c{std::move(a)};
  CHECK(c.get() == of_a);
  CHECK(a.get() == nullptr);
  b = std::move(c);
  CHECK(b.get() == of_a);
  CHECK(b.value() == 1);
  s.synchronize();
}

#if WARPWRIGHT_HOST_RUNTIME

TEST_CASE("set() makes one fill for equal words, and allocates nothing") {
  ww::stream s;
  ww::graph_param<std::array<unsigned, 16>> parameter{s, {}};
  ww::testing::reset_call_counts();
  parameter.set(s, {});
  CHECK(ww::testing::call_count("cuMemsetD32Async") == 1);
  parameter.set(s, {1, 1, 2});
  CHECK(ww::testing::call_count("cuMemsetD32Async") == 4);
  CHECK(ww::testing::total_calls() == 6);  // and a query for each set()
  s.synchronize();
}

TEST_CASE("calls that fail leave the value that was set last") {
  ww::stream s;
  ww::graph_param<float> parameter{s, 1.0F};
  for (char const* const call : {"cuMemsetD32Async", "cudaStreamIsCapturing"}) {
    ww::testing::scoped_fault_plan const plan{
        ww::testing::fault_plan{}.fail(call, 1, cudaErrorInvalidResourceHandle)};
    CHECK_THROWS_AS(parameter.set(s, 2.0F), ww::cuda_error);
    CHECK(parameter.value() == 1.0F);
    CHECK(cudaPeekAtLastError() == cudaSuccess);
  }
  for (char const* const call :
       {"cudaMalloc", "cuMemsetD32Async", "cudaThreadExchangeStreamCaptureMode"}) {
    ww::testing::scoped_fault_plan const plan{
        ww::testing::fault_plan{}.fail(call, 1, cudaErrorMemoryAllocation)};
    CHECK_THROWS_AS((ww::graph_param<float>{s, 2.0F}), ww::cuda_error);
  }
  s.synchronize();
}

TEST_CASE("a parameter's memory is freed") {
  {
    ww::stream s;
    ww::graph_param<float> a{s, 1.0F};
    ww::graph_param<float> const b{std::move(a)};
  }
  CHECK(ww::testing::leak_report().empty());
}

#endif  // WARPWRIGHT_HOST_RUNTIME
