// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"

#include <warpwright/core/device.hpp>

#include <string>
#include <thread>

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>
#endif

namespace ww = warpwright;

TEST_CASE("device information equals the runtime's queries") {
  ww::device_info const info = ww::get_device_info(ww::current_device());
  cudaDeviceProp properties{};
  REQUIRE(cudaGetDeviceProperties(&properties, info.id.value()) == cudaSuccess);
  CHECK(info.name == properties.name);
  CHECK(info.compute_capability_major == properties.major);
  CHECK(info.compute_capability_minor == properties.minor);
  CHECK(info.multiprocessor_count == properties.multiProcessorCount);
  CHECK(info.max_threads_per_multiprocessor == properties.maxThreadsPerMultiProcessor);
  CHECK(info.l2_bytes == static_cast<std::size_t>(properties.l2CacheSize));
  CHECK(info.memory_bus_bits == properties.memoryBusWidth);
  CHECK(info.memory_total_bytes > 0);
  CHECK(info.memory_free_bytes <= info.memory_total_bytes);
  CHECK(info.driver_version >= 12000);
  CHECK(info.runtime_version >= 12000);
  CHECK(info.host_runtime == (WARPWRIGHT_HOST_RUNTIME != 0));
}

TEST_CASE("bandwidth follows from the memory clock and the bus width") {
  ww::device_info const info = ww::get_device_info(ww::device_id{0});
  double const expected = 2.0 * info.memory_clock_khz * 1000.0 * info.memory_bus_bits / 8.0;
  CHECK(info.memory_bandwidth_bytes_per_s == expected);
  // From a P4's 192 GB/s to a B200's 8 TB/s.
  CHECK(expected > 100e9);
  CHECK(expected < 20e12);
}

TEST_CASE("identifiers have the documented form") {
  ww::device_info const info = ww::get_device_info(ww::device_id{0});
  CAPTURE(info.uuid, info.pci_address);
  REQUIRE(info.uuid.size() == 40);
  CHECK((info.uuid.substr(0, 4) == "GPU-" || info.uuid.substr(0, 4) == "MIG-"));
  for (std::size_t const dash : {12U, 17U, 22U, 27U}) CHECK(info.uuid[dash] == '-');
  int ordinal = -1;
  REQUIRE(cudaDeviceGetByPCIBusId(&ordinal, info.pci_address.c_str()) == cudaSuccess);
  CHECK(ordinal == 0);
}

TEST_CASE("list_devices lists every device in order") {
  std::vector<ww::device_info> const devices = ww::list_devices();
  REQUIRE(devices.size() == static_cast<std::size_t>(ww::device_count()));
  REQUIRE_FALSE(devices.empty());
  for (std::size_t i = 0; i < devices.size(); ++i) {
    CHECK(devices[i].id == ww::device_id{static_cast<int>(i)});
  }
}

TEST_CASE("a device that does not exist is an error that names its number") {
  int const count = ww::device_count();
  for (int const ordinal : {-1, count, count + 100}) {
    CAPTURE(ordinal);
    CHECK_THROWS_AS(ww::get_device_info(ww::device_id{ordinal}), std::invalid_argument);
    CHECK_THROWS_WITH(ww::get_device_info(ww::device_id{ordinal}),
                      contains("device " + std::to_string(ordinal) + " does not exist"));
    CHECK_THROWS_AS(ww::scoped_device{ww::device_id{ordinal}}, ww::cuda_error);
    CHECK_THROWS_WITH(
        ww::scoped_device{ww::device_id{ordinal}},
        contains("device " + std::to_string(ordinal) +
                 " does not exist: the number of visible devices is " + std::to_string(count)));
    CHECK(cudaPeekAtLastError() == cudaSuccess);
  }
}

TEST_CASE("scoped_device restores the current device, also after an exception") {
  ww::device_id const before = ww::current_device();
  ww::device_id const last{ww::device_count() - 1};
  {
    ww::scoped_device const scope{last};
    CHECK(ww::current_device() == last);
  }
  CHECK(ww::current_device() == before);
  try {
    ww::scoped_device const scope{last};
    throw 1;
  } catch (int) {
  }
  CHECK(ww::current_device() == before);
}

TEST_CASE("device_id compares by ordinal") {
  constexpr ww::device_id a{1};
  static_assert(a == ww::device_id{1}, "");
  static_assert(a != ww::device_id{2}, "");
  static_assert(!std::is_convertible<int, ww::device_id>::value, "a number is not a device");
}

#if WARPWRIGHT_HOST_RUNTIME
TEST_CASE("without a device the count is zero and there is no error") {
  namespace wt = ww::testing;
  wt::reset_host_runtime(wt::host_runtime_options{}.with_devices(0));
  CHECK(ww::device_count() == 0);
  CHECK(cudaPeekAtLastError() == cudaSuccess);
  CHECK(ww::list_devices().empty());
  CHECK_THROWS_AS(ww::get_device_info(ww::device_id{0}), std::invalid_argument);
  wt::reset_host_runtime();
}

TEST_CASE("a driver that is too old is an error, not a machine without devices") {
  namespace wt = ww::testing;
  wt::reset_host_runtime();
  // The host runtime has a driver version, so this simulates one that is too old.
  wt::scoped_fault_plan const plan{
      wt::fault_plan{}.fail("cudaGetDeviceCount", 1, cudaErrorInsufficientDriver)};
  CHECK_THROWS_WITH(ww::device_count(), contains("cudaErrorInsufficientDriver"));
  CHECK(cudaPeekAtLastError() == cudaSuccess);
  CHECK(ww::device_count() == 1);
}

TEST_CASE("scoped_device switches between several devices, thread by thread") {
  namespace wt = ww::testing;
  wt::reset_host_runtime(wt::host_runtime_options{}.with_devices(3));
  ww::scoped_device const outer{ww::device_id{2}};
  int seen = -1;
  std::thread other{[&] {
    ww::scoped_device const scope{ww::device_id{1}};
    seen = ww::current_device().value();
  }};
  other.join();
  CHECK(seen == 1);
  CHECK(ww::current_device() == ww::device_id{2});
  CHECK(ww::list_devices().size() == 3);
  CHECK(ww::current_device() == ww::device_id{2});
  wt::reset_host_runtime();
}

TEST_CASE("every failing query of a device reaches the caller, and the current device stays") {
  namespace wt = ww::testing;
  wt::reset_host_runtime(wt::host_runtime_options{}.with_devices(2));
  ww::get_device_info(ww::device_id{1});
  std::vector<wt::call_record> const calls = wt::calls();
  REQUIRE(calls.size() >= 6);
  for (wt::call_record const& call : calls) {
    if (call.name == "cudaGetLastError" || call.name == "cudaPeekAtLastError") continue;
    for (std::uint64_t nth = 1; nth <= call.count; ++nth) {
      CAPTURE(call.name, nth);
      {
        wt::scoped_fault_plan const plan{wt::fault_plan{}.fail(call.name, nth, cudaErrorUnknown)};
        // The restore of the first device may fail: a destructor cannot report it.
        bool const restoring = call.name == "cudaSetDevice" && nth == 2;
        if (restoring) {
          CHECK_NOTHROW(ww::get_device_info(ww::device_id{1}));
        } else {
          CHECK_THROWS_AS(ww::get_device_info(ww::device_id{1}), ww::cuda_error);
        }
        CHECK(plan.hits() == 1);
      }
      CHECK(cudaPeekAtLastError() == cudaSuccess);
      cudaSetDevice(0);
    }
  }
  wt::reset_host_runtime();
}
#endif
