// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/observe/metrics.hpp>
#include <warpwright/observe/monitor.hpp>

#include <warpwright/core/device.hpp>
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/catch.hpp"

namespace ww = warpwright;

namespace {

// What a whole GPU tells, without the counters and the options.
constexpr char const* healthy =
    "utilization=73 memory_traffic=41 total=1000 free=300 reserved=100 Temperature.0=55 "
    "PowerUsage=350500 EnforcedPowerLimit=700000 ClockInfo.1=1980 ClockInfo.2=2619 throttle=4 "
    "TotalEccErrors.0=3 TotalEccErrors.1=0 CurrPcieLinkGeneration=5 CurrPcieLinkWidth=16 "
    "MigMode=0 ";
constexpr char const* counters =
    "gpm=1 gpm.2=97 gpm.3=50 gpm.5=71 gpm.10=86 gpm.20=1000 gpm.21=2 gpm.60=3 gpm.61=4 ";

// The scripted library, which is the one that the monitor finds while it is loaded.
class nvml {
 public:
  explicit nvml(std::string const& script, char const* file = SCRIPTED_NVML)
      : library_{dlopen(file, RTLD_NOW)} {
    run(script);
  }
  ~nvml() {
    CHECK(call("scripted_nvml_sessions") == 0);
    CHECK(call("scripted_nvml_samples") == 0);
    dlclose(library_);
    CHECK(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_NOLOAD) == nullptr);
  }
  nvml(nvml const&) = delete;
  nvml& operator=(nvml const&) = delete;

  template <class Result = int, class... Args>
  Result call(char const* name, Args... args) const {
    return reinterpret_cast<Result (*)(Args...)>(dlsym(library_, name))(args...);
  }
  void run(std::string const& script) const { call<void>("scripted_nvml", script.c_str()); }
  int calls(char const* name) const { return call("scripted_nvml_calls", name); }

 private:
  void* library_;
};

bool has(std::string const& text, char const* part) { return text.find(part) != std::string::npos; }

int figures(ww::gpu_sample const& sample) {
  int present = 0;
  for (ww::gpu_field const& field : ww::gpu_fields()) {
    present += (sample.*field.figure).has_value() ? 1 : 0;
  }
  return present;
}

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds{ms}); }

template <class Condition>
bool soon(Condition condition) {
  for (int i = 0; i < 2000; ++i, sleep_ms(5)) {
    if (condition()) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("a sample has what NVML tells, in the documented units", "[observe][monitor]") {
  nvml const library{healthy};
  ww::monitor gpu;
  CHECK(gpu.unavailable().empty());
  ww::gpu_sample const s = gpu.sample();
  std::string const line = ww::to_csv(s);  // without the counters and the processes
  CHECK(line.substr(line.find(',')) ==
        ",0.73,0.41,600,300,1000,55,350.5,700,1980,2619,3,0,5,16,,,,,,,,,,,0,power_cap");
  CHECK(gpu.statistics().uuid == ww::get_device_info(ww::device_id{0}).uuid);
}

TEST_CASE("what a GPU does not tell is absent, and not asked again", "[observe][monitor]") {
  nvml const library{"Temperature.0=50 MemoryInfo_v2!4 total=1"};
  ww::monitor gpu;
  for (int i = 0; i < 3; ++i) {
    ww::gpu_sample const s = gpu.sample();
    CHECK(figures(s) == 1);
    CHECK(s.temperature_celsius == 50.0);
    CHECK_FALSE(s.throttle);
    CHECK_FALSE(s.mig_mode);
  }
  CHECK(library.calls("PowerUsage") == 1);
  CHECK(library.calls("MemoryInfo_v2") == 3);  // no permission, which may be given
  library.run("Temperature!4");
  CHECK(figures(gpu.sample()) == 0);
  std::string const text = ww::to_text(gpu.statistics());
  CHECK(has(text, "not told: utilization, memory_traffic"));
}

TEST_CASE("a metrics page has what the GPU told last", "[observe][monitor]") {
  nvml const library{"Temperature.0=50"};
  ww::monitor gpu;
  static_cast<void>(gpu.sample());
  ww::metrics_page page;
  page.add("gpu", gpu);
  std::string const text = page.to_prometheus();
  CHECK(has(text, "gpu_temperature_celsius 50\n"));
  CHECK_FALSE(has(text, "gpu_power_watts"));
}

TEST_CASE("figures whose functions are missing are absent", "[observe][monitor]") {
  nvml const library{std::string{healthy} + "processes=3 " + counters, SCRIPTED_NVML_OLD};
  ww::monitor gpu{ww::monitor_options{}.processes(true)};
  ww::gpu_sample const s = gpu.sample();
  CHECK_FALSE(s.memory_used_bytes);
  CHECK_FALSE(s.processes);
  CHECK_FALSE(s.mig_mode);
  CHECK_FALSE(s.sm_activity);
  CHECK(figures(s) == 11);
}

TEST_CASE("processes are counted as an option", "[observe][monitor]") {
  nvml const library{std::string{healthy} + "processes=128 mps=2"};
  ww::monitor plain;
  CHECK_FALSE(plain.sample().processes);
  CHECK(library.calls("ComputeRunningProcesses_v3") == 0);
  ww::monitor gpu{ww::monitor_options{}.processes(true)};
  ww::gpu_sample s = gpu.sample();
  CHECK(s.processes == 128.0);
  CHECK(s.mps_clients == 2.0);
  library.run("processes=1 mps=0");
  s = gpu.sample();
  CHECK(s.processes == 1.0);
  CHECK(s.mps_clients == 0.0);
}

TEST_CASE("performance counters are differences of two samples", "[observe][monitor]") {
  nvml const library{std::string{healthy} + counters};
  auto const begin = std::chrono::steady_clock::now();
  ww::monitor gpu;
  bool const measures = gpu.sample().sm_activity.has_value();
  bool const at_once = std::chrono::steady_clock::now() - begin < std::chrono::milliseconds{100};
  CHECK_FALSE((at_once && measures));
  sleep_ms(120);
  ww::gpu_sample s = gpu.sample();
  CHECK(has(ww::to_csv(s), ",0.97,0.5,0.71,0.86,1048576000,2097152,4194304,3145728,"));
  library.run("gpm.2=10 throttle=0");
  CHECK(gpu.sample().sm_activity == 0.97);  // stays
  sleep_ms(120);
  s = gpu.sample();
  CHECK(s.sm_activity == 0.1);
  CHECK_FALSE(s.tensor_activity);
  library.run("GpmSampleGet!999");
  sleep_ms(120);
  CHECK_FALSE(gpu.sample().sm_activity);
}

TEST_CASE("of a MIG instance, the board is that of the whole GPU", "[observe][monitor]") {
  nvml const library{std::string{healthy} + counters + "mig_instance=1 MigMode=1"};
  ww::monitor gpu;
  sleep_ms(120);
  ww::gpu_sample const s = gpu.sample();
  CHECK_FALSE(s.utilization);
  CHECK(s.mig_mode == 1.0);
  CHECK(s.memory_used_bytes == 600.0);
  CHECK(s.power_watts == 350.5);
  CHECK(s.sm_activity == 0.97);
}

TEST_CASE("a monitor's thread samples at its interval", "[observe][monitor]") {
  nvml const library{std::string{healthy} + counters};
  ww::monitor gpu{ww::monitor_options{}.every(0.01).device(ww::device_id{0})};
  CHECK(soon([&] { return gpu.statistics().samples >= 3; }));
  library.run("utilization=23 memory_traffic=0 throttle=1 Temperature.0=60 total=8 free=1");
  std::uint64_t const before = gpu.statistics().samples;
  CHECK(soon([&] { return gpu.statistics().samples >= before + 25; }));
  ww::monitor_statistics const s = gpu.statistics();
  CHECK(s.last.utilization == 0.23);
  CHECK(s.min.utilization == 0.23);
  CHECK(s.max.utilization == 0.73);
  CHECK(*s.mean.utilization > 0.23);
  CHECK(*s.mean.utilization < 0.73);
  CHECK(s.max.temperature_celsius == 60.0);
  CHECK(s.max.ecc_corrected == 3.0);
  CHECK(*s.throttled_share > 0.0);
  CHECK(*s.throttled_share < 0.5);
  CHECK(s.throttled_by == ww::throttle_reasons::power_cap);
  CHECK(s.last.seconds >= 0.2);
}

TEST_CASE("the thread asks what is slow, or changes seldom, every tenth time",
          "[observe][monitor]") {
  nvml const library{std::string{healthy} + "processes=1 PowerUsage~1500"};
  {
    ww::monitor gpu{ww::monitor_options{}.every(0.01).processes(true)};
    CHECK(soon([&] { return gpu.statistics().samples >= 19; }));
  }
  int const rounds = library.calls("CurrentClocksThrottleReasons");
  CHECK(library.calls("CurrPcieLinkWidth") == (rounds + 9) / 10);
  CHECK(library.calls("ComputeRunningProcesses_v3") == (rounds + 9) / 10);
  CHECK(library.calls("PowerUsage") == 3 + (rounds - 1) / 10);
}

TEST_CASE("a lost GPU is reported once, and not asked again", "[observe][monitor]") {
  for (char const* const script : {"lost_after=30", "CurrPcieLinkWidth!16"}) {
    nvml const library{std::string{healthy} + script};
    ww::monitor gpu{ww::monitor_options{}.every(0.01)};
    CHECK(soon([&] { return gpu.statistics().lost; }));
    INFO(gpu.unavailable());
    CHECK(has(gpu.unavailable(), "until it is reset: see the kernel's log for Xid"));
    CHECK(gpu.unavailable().find('\n') == std::string::npos);
    int const calls = library.calls("UtilizationRates");
    CHECK(figures(gpu.sample()) == 0);
    sleep_ms(30);
    CHECK(library.calls("UtilizationRates") == calls);
    CHECK(has(ww::to_text(gpu.statistics()), gpu.unavailable().c_str()));
  }
}

TEST_CASE("without NVML or the GPU a monitor does nothing, and says why", "[observe][monitor]") {
  {
    ww::monitor gpu{ww::monitor_options{}.every(0.01)};
    INFO(gpu.unavailable());
    CHECK((has(gpu.unavailable(), "NVML comes with the NVIDIA driver") ||
           has(gpu.unavailable(), "NVML must see the GPU that CUDA sees")));
    CHECK(figures(gpu.sample()) == 0);
    CHECK(has(ww::to_text(gpu.statistics()), gpu.unavailable().c_str()));
  }
  {
    nvml const library{"Init!9"};
    CHECK(
        has(ww::monitor{}.unavailable(), "nvmlInit_v2: unknown error (9); see whether nvidia-smi"));
  }
  nvml const library{"HandleByUUID!6"};
  CHECK(has(ww::monitor{}.unavailable(), "nvmlDeviceGetHandleByUUID: Not Found (6) for GPU-"));
}

TEST_CASE("without a CUDA device a monitor does nothing, and says why", "[observe][monitor]") {
  for (char const* const call :
       {"cudaGetDevice", "cudaGetDeviceCount", "cudaGetDeviceProperties"}) {
    ww::testing::scoped_fault_plan const faults{
        ww::testing::fault_plan{}.fail_from(call, 1, cudaErrorNoDevice)};
    ww::monitor gpu{ww::monitor_options{}.every(0.01)};
    CHECK_FALSE(gpu.unavailable().empty());
    CHECK(figures(gpu.sample()) == 0);
  }
}

TEST_CASE("a wrong interval or device is refused", "[observe][monitor]") {
  for (double const seconds : {0.0, -1.0, 0.0099, 86401.0, std::numeric_limits<double>::infinity(),
                               std::numeric_limits<double>::quiet_NaN()}) {
    CHECK_THROWS_AS(ww::monitor_options{}.every(seconds), std::invalid_argument);
  }
  CHECK_THROWS_WITH(static_cast<void>(ww::monitor_options{}.every(0.001)),
                    contains("monitor_options::every: 0.001 s; it takes 0.01 to 86400"));
  for (int const ordinal : {-1, 99}) {
    CHECK_THROWS_AS(ww::monitor{ww::monitor_options{}.device(ww::device_id{ordinal})},
                    std::invalid_argument);
  }
}

TEST_CASE("a monitor with a long interval ends at once", "[observe][monitor]") {
  nvml const library{healthy};
  for (int i = 0; i < 20; ++i) {
    auto gpu = std::make_unique<ww::monitor>(ww::monitor_options{}.every(60.0));
    if (i % 2 == 0) sleep_ms(2);
    auto const begin = std::chrono::steady_clock::now();
    gpu.reset();
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds{5});
  }
}

TEST_CASE("two monitors and many callers at once", "[observe][monitor]") {
  nvml const library{std::string{healthy} + counters};
  ww::monitor first{ww::monitor_options{}.every(0.01)};
  ww::monitor second{ww::monitor_options{}.every(0.01)};
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&, i] {
      for (int k = 0; k < 50; ++k) {
        ww::monitor& gpu = i % 2 == 0 ? first : second;
        gpu.sample();
        static_cast<void>(gpu.statistics().unavailable + gpu.unavailable());
      }
    });
  }
  for (auto& caller : callers) caller.join();
  CHECK(first.statistics().samples >= 100);
  CHECK(second.statistics().max.utilization == 0.73);
}

TEST_CASE("statistics() does not wait for a call of NVML", "[observe][monitor]") {
  nvml const library{std::string{healthy} + "PowerUsage~1000000"};
  ww::monitor gpu{ww::monitor_options{}.every(60.0)};
  CHECK(soon([&] { return library.calls("PowerUsage") == 1; }));
  CHECK(gpu.statistics().samples == 0);  // the first one is under way
}

TEST_CASE("in the child of a fork a monitor is off, and its end does not wait",
          "[observe][monitor]") {
  nvml const library{std::string{healthy} + "PowerUsage~2000"};  // the parent holds its lock
  auto* const gpu = new ww::monitor{ww::monitor_options{}.every(0.01)};
  sleep_ms(5);
  pid_t const child = fork();
  if (child == 0) {
    alarm(10);
    bool const off = figures(gpu->sample()) == 0 && has(gpu->unavailable(), "child of a fork()") &&
                     gpu->statistics().samples == 0;
    delete gpu;
    _exit(off ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(soon([&] { return gpu->statistics().samples >= 2; }));
  delete gpu;
}

TEST_CASE("a sample and statistics as text", "[observe][monitor]") {
  ww::gpu_sample s;
  s.seconds = 1.5;
  s.utilization = 0.734;
  s.memory_used_bytes = 8.5 * 1024 * 1024 * 1024;
  s.nvlink_sent_bytes_per_s = 2048;
  s.throttle = ww::throttle_reasons::power_cap | ww::throttle_reasons::thermal_slowdown;
  s.mig_mode = 0.0;
  std::string const text = ww::to_text(s);
  INFO(text);
  CHECK(has(text, "  utilization                         73.4 %\n"));
  CHECK(has(text, "  memory_used_bytes                8.500 GiB\n"));
  CHECK(has(text, "  nvlink_sent_bytes_per_s        2.000 KiB/s\n"));
  CHECK(has(text, "  not told: memory_traffic, "));
  CHECK(has(text, "  throttle: power_cap|thermal_slowdown\n"));

  std::string const header = ww::gpu_sample_csv_header();
  auto const commas = [](std::string const& of) { return std::count(of.begin(), of.end(), ','); };
  CHECK(commas(header) == commas(ww::to_csv(s)));
  CHECK(has(header, "seconds,utilization,memory_traffic,"));

  CHECK(ww::to_string(ww::throttle_reasons::none) == "none");
  CHECK(ww::to_string(ww::throttle_reasons(0x8000)) == "other");
  ww::monitor_statistics many;
  many.samples = 2;
  many.last = many.max = s;
  many.last.utilization.reset();
  INFO(ww::to_text(many));
  CHECK(has(ww::to_text(many), "-             -             -        73.4 %\n"));
}
