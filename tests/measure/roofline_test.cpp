// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Where a kernel is under the roofs, and the ceilings as they are measured.
#include "support/catch.hpp"

#include <warpwright/core/device.hpp>
#include <warpwright/measure/ceilings.hpp>

#include <cmath>
#include <limits>

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>
#endif

namespace {

namespace ww = warpwright;
using ww::limit;

ww::device_ceilings h100() {
  ww::device_ceilings c;
  c.gpu = ww::gpus::h100_sxm;
  c.date = "2026-11-27T00:00:00Z";
  auto const set = [&](limit which, double value) { c[which] = {value, value, value, true}; };
  set(limit::copy, 3.0e12);
  set(limit::read, 3.2e12);
  set(limit::l2_read, 6.0e12);
  set(limit::fp32, 60e12);
  set(limit::tensor, 600e12);
  set(limit::launch, 2e-6);
  set(limit::memory_latency, 0.5e-6);
  return c;
}

// y = a x + y of 2^28 floats.
constexpr double n = 268435456.0;

TEST_CASE("what takes longest binds: bytes, operations or the launch") {
  ww::device_ceilings const c = h100();
  ww::roofline_point const saxpy = ww::roofline(c, {2.0 * n, 12.0 * n}, 1.2e-3);
  CHECK(saxpy.binds == limit::copy);
  CHECK(saxpy.least_seconds == Approx(12.0 * n / 3.0e12));
  CHECK(saxpy.fraction == Approx(12.0 * n / 3.0e12 / 1.2e-3));
  CHECK(saxpy.intensity == Approx(1.0 / 6.0));
  CHECK(saxpy.ridge == Approx(20.0));
  CHECK(saxpy.bytes_per_second == Approx(12.0 * n / 1.2e-3));
  CHECK(saxpy.bytes_in_flight == Approx(1.5e6));
  CHECK(ww::roofline(c, {300.0 * n, 12.0 * n}, 1.5e-3).binds == limit::fp32);
  CHECK(ww::roofline(c, {300.0 * n, 12.0 * n, limit::tensor}, 1.5e-3).binds == limit::copy);
  CHECK(ww::roofline(c, {0.0, 4.0 * n, limit::fp32, limit::read}, 1e-3).binds == limit::read);
  ww::roofline_point const small = ww::roofline(c, {2.0, 12.0}, 4e-6);
  CHECK(small.binds == limit::launch);
  CHECK(small.fraction == Approx(0.5));
  // As many of both: exactly under the ridge memory binds.
  CHECK(ww::roofline(c, {60e9, 3e9}, 2e-3).binds == limit::copy);
  CHECK(ww::roofline(c, {60.1e9, 3e9}, 2e-3).binds == limit::fp32);
  ww::device_ceilings spread = c;
  spread[limit::launch].low = 1e-6;
  CHECK(ww::roofline(spread, {2.0, 12.0}, 4e-6).best_seconds == Approx(1e-6));
}

TEST_CASE("a point under the roofs is put into words") {
  ww::device_ceilings const c = h100();
  CHECK(ww::explain(ww::roofline(c, {2.0 * n, 12.0 * n}, 1.2e-3)) ==
        "memory: 89.5 % of what is possible, 2.684 TB/s of 3.000 TB/s (copy), at 0.167 flop/B; "
        "arithmetic binds from 20: only fewer bytes help");
  auto const has = [&](ww::cost const& what, double seconds, char const* part) {
    return ww::explain(ww::roofline(c, what, seconds)).find(part) != std::string::npos;
  };
  CHECK(has({2.0 * n, 12.0 * n}, 4e-3, ": 1.431 MiB must be in flight; load more in each thread"));
  CHECK(has({2.0 * n, 12.0 * n}, 1e-4, "More than is possible"));
  ww::device_ceilings drifted = c;  // as of a product of matrices, which heats the device
  drifted[limit::copy].high = 4.0e12;
  ww::roofline_point const burst = ww::roofline(drifted, {2.0 * n, 12.0 * n}, 0.9e-3);
  CHECK(burst.fraction > 1.1);
  CHECK(ww::explain(burst).find("only fewer bytes help") != std::string::npos);
  CHECK(has({300.0 * n, 12.0 * n}, 1.4e-3, "fewer operations or a narrower type help"));
  CHECK(has({300.0 * n, 12.0 * n}, 9e-3, "look for waits"));
  CHECK(has({1.0, 1.0}, 3e-6, "3.00 us where a launch takes 2.00 us: fuse it with others"));
  CHECK(has({1.0, 1.0}, 1e-3, "1.00 ms where a launch takes 2.00 us: look for waits"));
  CHECK(has({0.0, 4.0 * n, limit::fp32, limit::l2_read}, 1e-3, "(l2 read): look for waits"));
  drifted[limit::copy].value = 500.0;
  CHECK(ww::to_text(drifted).find(" 500.0 B/s ") != std::string::npos);
}

TEST_CASE("arithmetic without bytes needs no ceiling of memory, and is drawn at the right edge") {
  ww::device_ceilings c = h100();
  c[limit::copy] = {};
  CHECK_THROWS_WITH(ww::roofline(c, {6e10, 1.0}, 2e-3), contains("the ceiling 'copy'"));
  ww::roofline_point const p = ww::roofline(c, {6e10, 0.0}, 2e-3);
  CHECK(p.binds == limit::fp32);
  CHECK(std::isinf(p.intensity));
  CHECK(ww::to_svg(h100(), {{"pure", p}}).find("pure 50 %") != std::string::npos);
}

TEST_CASE("points that cannot be are refused") {
  ww::device_ceilings c = h100();
  CHECK_THROWS_WITH(ww::roofline(c, {-1.0, 1.0}, 1.0), contains("give 0 or more of both"));
  CHECK_THROWS_WITH(ww::roofline(c, {1.0, 1.0}, 0.0), contains("a time above 0"));
  CHECK_THROWS_WITH(ww::roofline(c, {1.0, std::nan("")}, 1.0), contains("roofline:"));
  CHECK_THROWS_WITH(ww::roofline(c, {1.0, 1.0, limit::copy}, 1.0), contains("'copy' is to be"));
  CHECK_THROWS_WITH(ww::roofline(c, {1.0, 1.0, limit::up}, 1.0), contains("'up' is to be"));
  CHECK_THROWS_WITH(ww::roofline(c, {1.0, 1.0, limit::fp32, limit::up}, 1.0), contains("'up'"));
  CHECK_THROWS_WITH(ww::roofline(c, {1.0, 1.0, limit::fp32, limit(-1)}, 1.0), contains("memory"));
  CHECK_NOTHROW(ww::roofline(c, {1.7e308, 1.7e308}, 1.0));
  CHECK_THROWS_WITH(ww::roofline(c, {1.0, 1.0, limit::fp64}, 1.0),
                    contains("the ceiling 'fp64' of H100 SXM was not measured"));
  CHECK_NOTHROW(ww::roofline(c, {0.0, 1.0, limit::fp64}, 1.0));
}

TEST_CASE("Amdahl's and Little's laws") {
  CHECK(ww::amdahl(4.0, 10.0, 2.0) == Approx(1.25));
  CHECK(ww::amdahl(4.0, 10.0, std::numeric_limits<double>::infinity()) == Approx(10.0 / 6.0));
  CHECK(ww::amdahl(0.0, 10.0, 2.0) == 1.0);
  CHECK_THROWS_WITH(ww::amdahl(11.0, 10.0, 2.0), contains("a part of 11 s of 10 s"));
  CHECK_THROWS_AS(ww::amdahl(1.0, 10.0, 0.0), std::invalid_argument);
  static_assert(ww::littles_law(3.0e12, 0.5e-6) == 3.0e12 * 0.5e-6, "");
}

TEST_CASE("ceilings and points as text, JSON and SVG") {
  ww::device_ceilings c = h100();
  c.peers.push_back({0, 1, {2e11, 1.9e11, 2.1e11, true}, true});
  c.peers.push_back({0, 2, {}, false});
  std::string const text = ww::to_text(c);
  INFO(text);
  CHECK(text.find("copy              3.000 TB/s   +-0.0 %  cudaMemcpyAsync") != std::string::npos);
  CHECK(text.find("fp64                       -            8 independent") != std::string::npos);
  CHECK(text.find("to device 1       200.0 GB/s   +-5.0 %  cudaMemcpyPeerAsync, directly") !=
        std::string::npos);
  CHECK(text.find("to device 2                -            cuda") != std::string::npos);
  c[limit::up] = {1e10, std::nan(""), std::numeric_limits<double>::infinity(), true};
  std::string const json = ww::to_json(c);
  CHECK(json.find("\"fp64\":null") != std::string::npos);
  CHECK(json.find("\"copy\":{\"value\":3e+12,") != std::string::npos);
  CHECK(json.find("\"up\":{\"value\":1e+10,\"low\":null,\"high\":null,") != std::string::npos);
  CHECK(json.find("\"compute_capability\":\"9.0\",\"multiprocessors\":132,") != std::string::npos);
  CHECK(json.find("\"peers\":[{\"from\":0,\"to\":1,\"direct\":true,\"value\":2e+11,\"low\":1.9e+11,"
                  "\"high\":2.1e+11,\"converged\":true},{\"from\":0,\"to\":2,\"direct\":false,"
                  "\"value\":null,") != std::string::npos);
  ww::named_point const point{"a<b & c", ww::roofline(c, {2.0 * n, 12.0 * n}, 1.2e-3)};
  std::string const svg = ww::to_svg(c, {point, {"none", {}}}, "<title>");
  CHECK(svg.find("a&lt;b &amp; c 89.5 %") != std::string::npos);
  CHECK(svg.find("&lt;title&gt;") != std::string::npos);
  CHECK(svg.find("nan") == std::string::npos);
}

// As small as they may be: a GPU's L2 cache must not hold them.
ww::ceiling_options smallest() {
  ww::device_info const device = ww::get_device_info(ww::current_device());
  std::size_t const mib = device.host_runtime ? 1 : (device.l2_bytes >> 18U) + 1;
  return ww::ceiling_options{}.bytes(mib << 20U);
}

TEST_CASE("all ceilings of a device are measured") {
  ww::stream stream;
  auto const options = smallest().seconds_each(0.02);
  ww::device_ceilings const c = ww::measure_ceilings(stream, options);
  for (std::size_t i = 0; i < ww::limit_count; ++i) {
    INFO(ww::to_string(static_cast<limit>(i)));
    bool const may_be_missing = static_cast<limit>(i) == limit::tensor;
    CHECK((may_be_missing || c.all[i].value > 0.0));
    CHECK(c.all[i].low <= c.all[i].value);
    CHECK(c.all[i].high >= c.all[i].value);
  }
  CHECK(c[limit::memory_latency].value < 20e-6);  // of one step
  CHECK(c.gpu.is_measured());
  CHECK(c.gpu.copy_bytes_per_second == c[limit::copy].value);
  CHECK(c.device.uuid == ww::get_device_info(ww::current_device()).uuid);
  CHECK(c.peers.size() + 1 == static_cast<std::size_t>(ww::device_count()));
  CHECK(c.date.size() == 20);
}

TEST_CASE("a default stream is measured, too") {
  auto const options = smallest().seconds_each(0.002);
  ww::stream_ref const stream = ww::stream_ref::legacy_default();
  CHECK(ww::measure_ceilings(stream, options)[limit::graph_launch].value > 0.0);
}

TEST_CASE("wrong options and capturing streams are refused") {
  ww::stream stream;
  ww::device_info const device = ww::get_device_info(ww::current_device());
  CHECK_THROWS_WITH(
      ww::measure_ceilings(stream, ww::ceiling_options{}.bytes(1000)),
      contains(device.host_runtime ? "of 1000 B; give at least 1 MiB"
                                   : "4 times the L2 cache of " + std::to_string(device.l2_bytes)));
  CHECK_THROWS_AS(ww::measure_ceilings(stream, ww::ceiling_options{}.bytes(std::size_t{1} << 50U)),
                  ww::out_of_memory);
  CHECK_THROWS_AS(ww::measure_ceilings(stream, ww::ceiling_options{}.seconds_each(0.0)),
                  std::invalid_argument);
  ww::check(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeRelaxed), "begin");
  CHECK_THROWS_WITH(ww::measure_ceilings(stream), contains("measure_ceilings: "));
  cudaGraph_t graph = nullptr;
  ww::check(cudaStreamEndCapture(stream.get(), &graph), "end");
  ww::check(cudaGraphDestroy(graph), "destroy");
}

#if WARPWRIGHT_HOST_RUNTIME
TEST_CASE("other devices are linked, and a failing call is reported without a leak") {
  ww::testing::reset_host_runtime(ww::testing::host_runtime_options{}.with_devices(2));
  auto const options = smallest().seconds_each(0.002);
  {
    ww::stream stream;
    ww::device_ceilings const c = ww::measure_ceilings(stream, options);
    REQUIRE(c.peers.size() == 1);
    CHECK(c.peers[0].to == 1);
    CHECK(c.peers[0].direct);
    CHECK(cudaDeviceDisablePeerAccess(1) == cudaErrorPeerAccessNotEnabled);  // as it was found
    CHECK(cudaGetLastError() == cudaErrorPeerAccessNotEnabled);
    CHECK(cudaDeviceEnablePeerAccess(1, 0) == cudaSuccess);
    ww::stream const far{ww::device_id{1}};
    ww::device_ceilings const of_far = ww::measure_ceilings(far, options);
    CHECK(of_far.device.id == ww::device_id{1});
    CHECK(ww::current_device() == ww::device_id{0});
    CHECK(cudaDeviceDisablePeerAccess(1) == cudaSuccess);
    CHECK(c.peers[0].bytes_per_second.value > 0.0);
    for (char const* call : {"cudaMalloc", "cudaMemcpyAsync", "cudaMallocHost",
                             "cudaMemcpyPeerAsync", "cudaGraphInstantiate"}) {
      INFO(call);
      ww::testing::scoped_fault_plan const plan{
          ww::testing::fault_plan{}.fail(call, 1, cudaErrorMemoryAllocation)};
      CHECK_THROWS(ww::measure_ceilings(stream, options));
    }
    // Copies that still run when a call fails, and their memory goes.
    for (std::uint64_t k = 1; k < 5000; k += 1 + k / 3) {
      ww::testing::scoped_fault_plan const plan{
          ww::testing::fault_plan{}
              .fail("cudaEventRecord", k, cudaErrorUnknown)
              .fail("cudaMemcpyPeerAsync", 1 + k % 3, cudaErrorUnknown)};
      CHECK_THROWS_AS(ww::measure_ceilings(stream, options), ww::cuda_error);
    }
    ww::testing::scoped_fault_plan const none{
        ww::testing::fault_plan{}.fail("cudaDeviceEnablePeerAccess", 1, cudaErrorNotSupported)};
    CHECK_FALSE(ww::measure_ceilings(stream, options).peers.at(0).direct);
  }
  CHECK(ww::testing::leak_report().empty());
  ww::testing::reset_host_runtime();
}
#endif

}  // namespace
