// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/tune/energy_counter.hpp>

#include <warpwright/core/device.hpp>
#include <warpwright/tune/batch_tuner.hpp>

#include <string>

#include "support/catch.hpp"

namespace ww = warpwright;

#if WARPWRIGHT_HOST_RUNTIME

#include <dlfcn.h>

#include <stdexcept>
#include <thread>
#include <vector>

#include "fake_nvml.hpp"

namespace {

// The fake library, found by the program's RUNPATH; nothing where it is removed from.
class fake_library {
 public:
  fake_library() : library_{dlopen("libnvidia-ml.so.1", RTLD_NOW)} {
    REQUIRE(library_ != nullptr);
    auto const state = reinterpret_cast<fake_nvml_state* (*)()>(dlsym(library_, "fake_nvml"));
    REQUIRE(state != nullptr);
    state_ = state();
    *state_ = fake_nvml_state{};
  }
  ~fake_library() { dlclose(library_); }
  fake_library(fake_library const&) = delete;
  fake_library& operator=(fake_library const&) = delete;
  fake_nvml_state* operator->() const { return state_; }

 private:
  void* library_;
  fake_nvml_state* state_;
};

std::string error_of_opening() {
  try {
    ww::energy_counter const counter{ww::device_id{0}};
  } catch (std::runtime_error const& error) {
    return error.what();
  }
  return {};
}

bool has(std::string const& text, char const* part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("an energy counter reads joules of the device that CUDA sees", "[tune][energy_counter]") {
  fake_library const nvml;
  nvml->millijoules = 12345678901234;
  {
    ww::energy_counter const counter{ww::device_id{0}};
    CHECK(counter() == 12345678901.234);
    CHECK(std::string{nvml->uuid} == ww::get_device_info(ww::device_id{0}).uuid);
    nvml->millijoules += 1500;
    CHECK(counter() == 12345678902.734);
    CHECK(nvml->sessions == 1);
  }
  CHECK(nvml->sessions == 0);
}

TEST_CASE("copies of an energy counter share a session of NVML", "[tune][energy_counter]") {
  fake_library const nvml;
  nvml->millijoules = 2000;
  ww::energy_counter counter = ww::energy_counter::try_open(ww::device_id{0});
  REQUIRE(counter);
  auto objective = ww::throughput_per_joule(counter);
  counter = ww::energy_counter{};
  CHECK_FALSE(counter);
  CHECK(nvml->sessions == 1);
  CHECK(objective.joules()() == 2.0);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([copy = objective] {
      for (int k = 0; k < 100; ++k) static_cast<void>(copy.joules()());
    });
  }
  for (auto& thread : threads) thread.join();
  threads.clear();
  CHECK(nvml->sessions == 1);
  objective = ww::max_throughput();
  CHECK(nvml->sessions == 0);
}

TEST_CASE("what fails in NVML is named with its remedy, and leaves no session",
          "[tune][energy_counter]") {
  fake_library const nvml;
  SECTION("initialisation") {
    nvml->init_code = 9;
    CHECK(has(error_of_opening(), "nvmlInit_v2: unknown error (9); see whether nvidia-smi works"));
  }
  SECTION("the device") {
    nvml->find_code = 6;
    std::string const error = error_of_opening();
    CHECK(has(error, "energy_counter_test.cpp:"));
    CHECK(has(error, "energy_counter: nvmlDeviceGetHandleByUUID: Not Found (6) for GPU-"));
  }
  SECTION("the counter") {
    nvml->energy_code = 3;
    CHECK(has(error_of_opening(),
              "nvmlDeviceGetTotalEnergyConsumption: Not Supported (3); GPUs before Volta"));
  }
  CHECK_FALSE(ww::energy_counter::try_open(ww::device_id{0}));
  CHECK(nvml->sessions == 0);
}

TEST_CASE("a counter that fails later throws", "[tune][energy_counter]") {
  fake_library const nvml;
  ww::energy_counter const counter{ww::device_id{0}};
  nvml->energy_code = 3;
  CHECK_THROWS_AS(counter(), std::runtime_error);
}

TEST_CASE("an energy counter of no device is refused", "[tune][energy_counter]") {
  fake_library const nvml;
  CHECK_THROWS_AS(ww::energy_counter{ww::device_id{-1}}, std::invalid_argument);
  CHECK_THROWS_AS(ww::energy_counter::try_open(ww::device_id{99}), std::invalid_argument);
}

#else

#include <warpwright/core/launch.hpp>

namespace {

struct spin {
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const {
    float volatile x = static_cast<float>(i);
    for (int k = 0; k < 2000; ++k) x = x * 1.0001F + 1.0F;
  }
};

}  // namespace

TEST_CASE("a GPU's energy is that of a power between 20 and 2000 W", "[tune][energy_counter]") {
  auto const energy = ww::energy_counter::try_open(ww::current_device());
  if (!energy) {
    WARN("NVML does not count this device's energy");
    return;
  }
  ww::stream const s;
  auto const r = ww::batch_tuner{}
                     .range(1, 16)
                     .objective(ww::throughput_per_joule(energy))
                     .max_seconds(20)
                     .tune(s, [](std::size_t batch, ww::stream_ref on) {
                       ww::for_each_index(on, batch << 18U, spin{});
                     });
  for (auto const& row : r.rows) {
    double const watts =
        row.joules_per_item * static_cast<double>(row.batch) / row.seconds_per_batch;
    INFO("batch " << row.batch << ", " << watts << " W");
    CHECK(watts > 20.0);
    CHECK(watts < 2000.0);
  }
}

#endif
