// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/observe/monitor.hpp>

#include <warpwright/core/detail/clock.hpp>
#include <warpwright/core/detail/device/nvml.hpp>
#include <warpwright/core/detail/thread/locks.hpp>
#include <warpwright/core/detail/thread/process_bound.hpp>
#include <warpwright/core/detail/thread/thread.hpp>
#include <warpwright/core/device.hpp>

#include <stdexcept>

WARPWRIGHT_BEGIN

namespace detail {

// What a function of NVML takes after the device.
enum class nvml_form { number, numbered, ecc, shares, memory, throttle, mig, list, gpm };

struct nvml_query {
  nvml_form form;
  bool seldom;  // the thread asks every tenth time
  unsigned argument;
  char versions;  // the names with _v3 ("4") or _v2 ("3") are tried before that without
  char const* name;
  gpu_sample::member figure;
  double scale;
};

constexpr std::size_t nvml_query_count = 16;

inline nvml_query const& nvml_query_at(std::size_t i) noexcept {
  using f = nvml_form;
  using s = gpu_sample;
  static constexpr nvml_query table[nvml_query_count] = {
      {f::shares, false, 0, '1', "nvmlDeviceGetUtilizationRates", nullptr, 0},
      {f::memory, false, 0, '3', "nvmlDeviceGetMemoryInfo", nullptr, 0},
      {f::numbered, false, 0, '1', "nvmlDeviceGetTemperature", &s::temperature_celsius, 1},
      {f::number, false, 0, '1', "nvmlDeviceGetPowerUsage", &s::power_watts, 1e-3},
      {f::numbered, false, 1, '1', "nvmlDeviceGetClockInfo", &s::sm_clock_mhz, 1},
      {f::numbered, false, 2, '1', "nvmlDeviceGetClockInfo", &s::memory_clock_mhz, 1},
      {f::throttle, false, 0, '1', "nvmlDeviceGetCurrentClocksThrottleReasons", nullptr, 0},
      {f::gpm, false, 0, '1', "nvmlGpmMetricsGet", nullptr, 0},
      {f::number, true, 0, '1', "nvmlDeviceGetEnforcedPowerLimit", &s::power_limit_watts, 1e-3},
      {f::ecc, true, 0, '1', "nvmlDeviceGetTotalEccErrors", &s::ecc_corrected, 1},
      {f::ecc, true, 1, '1', "nvmlDeviceGetTotalEccErrors", &s::ecc_uncorrected, 1},
      {f::number, true, 0, '1', "nvmlDeviceGetCurrPcieLinkGeneration", &s::pcie_generation, 1},
      {f::number, true, 0, '1', "nvmlDeviceGetCurrPcieLinkWidth", &s::pcie_width, 1},
      {f::mig, true, 0, '1', "nvmlDeviceGetMigMode", nullptr, 0},
      {f::list, true, 0, '4', "nvmlDeviceGetComputeRunningProcesses", &s::processes, 1},
      {f::list, true, 0, '4', "nvmlDeviceGetMPSComputeRunningProcesses", &s::mps_clients, 1}};
  return table[i];
}

/// One GPU as NVML tells of it: a table of functions. Not thread-safe.
class gpu_reader : noncopyable {
 public:
  ~gpu_reader() {
    for (void* const taken : taken_) {
      if (taken != nullptr) call(free_, taken);
    }
  }

  /// @return what failed, with the remedy; empty: nothing
  text open(char const* uuid, monitor_settings const& settings) noexcept {
    text const problem = nvml_.open(uuid, device_);
    if (!problem.empty()) return problem;
    board_ = device_;
    void* whole = nullptr;
    if (call(find("nvmlDeviceGetDeviceHandleFromMigDeviceHandle"), device_, &whole) == 0) {
      board_ = whole;
      in_mig_ = call(find("nvmlDeviceGetGpuInstanceId"), device_, &instance_) == 0;
    }
    bool const gpm = open_gpm();
    for (std::size_t i = 0; i < nvml_query_count; ++i) {
      nvml_query const& q = nvml_query_at(i);
      version_[i] = q.versions;
      if (q.form == nvml_form::list ? settings.processes : q.form != nvml_form::gpm || gpm)
        next_function(i);
    }
    return "";
  }

  /// Reads the figures into `to`; what is not read this time stays as it was.
  /// @param by_thread  leaves out what is slow, and reads what is seldom read every tenth time
  /// @param problem    set if the GPU is lost
  /// @return whether the GPU is there
  bool read(gpu_sample& to, bool by_thread, text& problem) noexcept {
    bool const seldom = !by_thread || rounds_++ % 10 == 0;
    for (std::size_t i = 0; i < nvml_query_count; ++i) {
      nvml_query const& q = nvml_query_at(i);
      if (functions_[i] == nullptr || (q.seldom && !seldom)) continue;
      if (by_thread && is_left_out(i)) {
        ask(i, nullptr, to);
        continue;
      }
      std::uint64_t const begin = monotonic_nanoseconds();
      int code = 0;
      do {
        code = ask(i, functions_[i], to);
      } while ((code == nvml_function_not_found || code == nvml_version_mismatch) &&
               next_function(i));
      std::uint64_t const taken = monotonic_nanoseconds() - begin;
      if (code == nvml_gpu_is_lost || code == nvml_reset_required) {
        problem = nvml_.failure(q.name, code) +
                  "; nothing works on this GPU until it is reset: see the kernel's log for Xid";
        return false;
      }
      if (code == nvml_not_supported || code == nvml_function_not_found) functions_[i] = nullptr;
      slow_in_turn_[i] = taken < 1000000 ? 0 : slow_in_turn_[i] + 1;
    }
    return true;
  }

  /// @return whether the thread leaves it out, as the driver may be locked while it runs
  [[nodiscard]] bool is_left_out(std::size_t i) const noexcept {
    return slow_in_turn_[i] >= 3 && nvml_query_at(i).form != nvml_form::list;
  }

 private:
  using any_function = void (*)();

  // Without a function: what NVML answers where the GPU does not support it.
  template <class... Args>
  static int call(any_function function, Args... args) noexcept {
    if (function == nullptr) return nvml_not_supported;
    return reinterpret_cast<int (*)(Args...)>(function)(args...);
  }
  any_function find(char const* name) const noexcept {
    any_function function = nullptr;
    return nvml_.find(name, function) ? function : nullptr;
  }
  // Takes the query's newest function that the library has, or, after that, the next older one.
  bool next_function(std::size_t i) noexcept {
    while (version_[i] != 0) {
      version_[i] = version_[i] > '2' ? static_cast<char>(version_[i] - 1) : '\0';
      char const suffix[] = {'_', 'v', version_[i], '\0'};
      text const name = text{nvml_query_at(i).name} + (version_[i] == 0 ? "" : suffix);
      functions_[i] = find(name.c_str());
      if (functions_[i] != nullptr) return true;
    }
    return false;
  }

  static gpu_sample::figure told(int code, double value) noexcept {
    return code == 0 ? gpu_sample::figure{value} : std::nullopt;
  }

  // Sets the figures of a query, to absent where the function fails or is null.
  int ask(std::size_t i, any_function f, gpu_sample& to) noexcept {
    nvml_query const& q = nvml_query_at(i);
    unsigned value = 0;
    unsigned two[2] = {};
    unsigned long long large = 0;
    nvml_memory_v1 v1{};
    nvml_memory_v2 v2{};
    int code = 0;
    switch (q.form) {
      case nvml_form::number:
        code = call(f, board_, &value);
        break;
      case nvml_form::numbered:
        code = call(f, board_, q.argument, &value);
        break;
      case nvml_form::ecc:  // since the driver was loaded: counter 0
        code = call(f, board_, q.argument, 0U, &large);
        to.*q.figure = told(code, static_cast<double>(large));
        return code;
      case nvml_form::shares:
        code = call(f, device_, static_cast<unsigned*>(two));
        to.utilization = told(code, two[0] / 100.0);
        to.memory_traffic = told(code, two[1] / 100.0);
        return code;
      case nvml_form::throttle:
        code = call(f, board_, &large);
        to.throttle.reset();
        if (code == 0) to.throttle = throttle_reasons(large);
        return code;
      case nvml_form::mig:
        code = call(f, board_, &two[0], &two[1]);  // now, and after the next start
        to.mig_mode.reset();
        if (code == 0) to.mig_mode = two[0] != 0;
        return code;
      case nvml_form::list:  // its length
        code = call(f, device_, &value, static_cast<void*>(nullptr));
        if (code == nvml_insufficient_size) code = 0;
        break;
      case nvml_form::memory:
        code = version_[i] == 0 ? call(f, device_, &v1) : call(f, device_, &v2);
        if (version_[i] != 0) v1 = {v2.total, v2.free, v2.used};
        to.memory_total_bytes = told(code, static_cast<double>(v1.total));
        to.memory_free_bytes = told(code, static_cast<double>(v1.free));
        to.memory_used_bytes = told(code, static_cast<double>(v1.used));
        return code;
      case nvml_form::gpm:
        return ask_gpm(f, to);
    }
    to.*q.figure = told(code, q.scale * value);
    return code;
  }

  bool open_gpm() noexcept {
    unsigned support[2] = {1};  // the version, and whether the device supports it
    unsigned* const answer = support;
    if (call(find("nvmlGpmQueryDeviceSupport"), device_, answer) != 0) return false;
    free_ = find("nvmlGpmSampleFree");
    take_ = find(in_mig_ ? "nvmlGpmMigSampleGet" : "nvmlGpmSampleGet");
    if (support[1] == 0 || free_ == nullptr) return false;
    for (void*& taken : taken_) {
      if (call(find("nvmlGpmSampleAlloc"), &taken) != 0) return false;
    }
    return take_gpm(taken_[0]) == 0;
  }
  int take_gpm(void* into) noexcept {
    int const code = in_mig_ ? call(take_, board_, instance_, into) : call(take_, device_, into);
    if (code == 0) taken_at_ = monotonic_nanoseconds();
    return code;
  }
  // The metrics are differences between two samples of counters, which NVML refreshes every 100 ms.
  int ask_gpm(any_function f, gpu_sample& to) noexcept {
    if (f != nullptr && monotonic_nanoseconds() - taken_at_ < 105000000) return 0;
    // NVML_GPM_METRIC_SM_UTIL and so on, in the order of the figures.
    constexpr unsigned ids[] = {2, 3, 5, 10, 20, 21, 61, 60};
    gpu_field const* field = gpu_fields();
    while (field->figure != &gpu_sample::sm_activity) ++field;
    int code = f == nullptr ? nvml_not_supported : take_gpm(taken_[1]);
    if (code == 0) {
      gpm_.first = taken_[0];
      gpm_.second = taken_[1];
      gpm_.count = 8;
      for (std::size_t k = 0; k < 8; ++k) gpm_.metrics[k] = {ids[k], 0, 0.0, {}};
      code = call(f, &gpm_);
      taken_[0] = gpm_.second;
      taken_[1] = gpm_.first;
    }
    for (std::size_t k = 0; k < 8; ++k, ++field) {
      nvml_gpm_metric const& m = gpm_.metrics[k];
      double const scale = k < 4 ? 0.01 : 1048576.0;  // of percent and MiB/s
      to.*field->figure = told(code != 0 ? code : m.code, scale * m.value);
    }
    return code;
  }

  nvml_library nvml_;
  void* device_ = nullptr;
  void* board_ = nullptr;  // the whole GPU of a MIG instance
  bool in_mig_ = false;
  unsigned instance_ = 0;
  any_function functions_[nvml_query_count] = {};  // null: their figures are absent
  char version_[nvml_query_count] = {};
  unsigned slow_in_turn_[nvml_query_count] = {};
  unsigned rounds_ = 0;
  any_function take_ = nullptr, free_ = nullptr;
  void* taken_[2] = {};
  std::uint64_t taken_at_ = 0;
  nvml_gpm_query gpm_{};
};

/// The state of a monitor. The GPU is read under `reading_`, and what was read is published under
/// `mutex_`, which is not held during a call of NVML; they are taken in this order.
class gpu_watch : noncopyable {
 public:
  gpu_watch(monitor_settings const& settings, source_location where)
      : interval_{static_cast<std::uint64_t>(settings.seconds * 1e9)} {
    try {
      device_id const device =
          settings.has_device ? device_id{settings.device} : current_device(where);
      seen_.uuid = uuid_text(device_properties(device, where));
      problem_ = reader_.open(seen_.uuid.c_str(), settings);
    } catch (cuda_error const& error) {
      problem_ = error.what();
    } catch (std::invalid_argument const& error) {
      if (settings.has_device) throw;
      problem_ = error.what();  // there is no device
    }
    readable_ = problem_.empty();
    int const error = readable_ && interval_ != 0 ? thread_.start<&gpu_watch::run>(*this) : 0;
    if (error != 0) {
      problem_ = text{"monitor: the system allows no further thread (error "} + error +
                 "); raise its limit, or call sample()";
    }
  }
  ~gpu_watch() {
    lock held{mutex_};
    stopping_ = true;
    stop_.notify_all();  // the thread, which its destructor joins
  }

  gpu_sample sample(bool by_thread) noexcept {
    lock reading{reading_};
    text problem = "";
    bool const read = readable_ && reader_.read(current_, by_thread, problem);
    if (!read) current_ = gpu_sample{};
    current_.seconds = static_cast<double>(monotonic_nanoseconds() - begin_) * 1e-9;
    lock held{mutex_};
    if (read) {
      count_sample();
    } else if (readable_) {
      readable_ = false;
      seen_.lost = true;
      problem_ = problem;
    }
    return current_;
  }

  monitor_statistics statistics() const {
    lock held{mutex_};
    monitor_statistics s = seen_;
    s.unavailable = problem_.c_str();
    for (std::size_t i = 0; i < nvml_query_count; ++i) {
      if (!left_out_[i]) continue;
      s.left_out += (s.left_out.empty() ? "" : ", ") + std::string{nvml_query_at(i).name};
    }
    return s;
  }

 private:
  using lock = unique_lock<mutex>;

  void run() noexcept {
    std::uint64_t next = monotonic_nanoseconds();
    for (;;) {
      static_cast<void>(sample(true));
      std::uint64_t const now = monotonic_nanoseconds();
      next = next + interval_ > now ? next + interval_ : now + interval_;
      lock held{mutex_};
      while (!stopping_ && monotonic_nanoseconds() < next) stop_.wait_until(mutex_, next);
      if (stopping_ || seen_.lost) return;
    }
  }

  void count_sample() noexcept {
    ++seen_.samples;
    seen_.last = current_;
    for (std::size_t i = 0; i < nvml_query_count; ++i) left_out_[i] = reader_.is_left_out(i);
    double* count = counts_;
    for (gpu_field const& field : gpu_fields()) {
      gpu_sample::figure const& now = current_.*field.figure;
      gpu_sample::figure& mean = seen_.mean.*field.figure;
      gpu_sample::figure& min = seen_.min.*field.figure;
      gpu_sample::figure& max = seen_.max.*field.figure;
      if (now) mean = mean.value_or(0.0) + (*now - mean.value_or(0.0)) / ++*count;
      if (now && (!min || *now < *min)) min = now;
      if (now && (!max || *now > *max)) max = now;
      ++count;
    }
    if (!current_.throttle) return;
    throttle_reasons const slowing = *current_.throttle & throttle_reasons::slowing;
    double const slow = slowing != throttle_reasons::none ? 1.0 : 0.0;
    double const share = seen_.throttled_share.value_or(0.0);
    seen_.throttled_share = share + (slow - share) / ++throttle_count_;
    seen_.throttled_by = seen_.throttled_by.value_or(throttle_reasons::none) | slowing;
  }

  std::uint64_t begin_ = monotonic_nanoseconds();
  std::uint64_t interval_;
  mutex reading_;
  gpu_reader reader_;
  gpu_sample current_;
  bool readable_ = false;
  mutable mutex mutex_;
  condition_variable stop_;
  bool stopping_ = false;
  text problem_ = "";
  monitor_statistics seen_;
  bool left_out_[nvml_query_count] = {};
  double counts_[sizeof(gpu_field_table) / sizeof(gpu_field)] = {};
  double throttle_count_ = 0.0;
  thread thread_;
};

}  // namespace detail

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE monitor_options
monitor_options::every(double seconds, source_location where) const {
  if (!(seconds >= 0.01 && seconds <= 86400.0)) {
    detail::throw_invalid_argument(
        detail::text{"monitor_options::every: "} + seconds +
            " s; it takes 0.01 to 86400, and without every() a monitor has no thread",
        where);
  }
  return with(&values::seconds, seconds);
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE monitor::monitor(monitor_options const& options,
                                                         source_location where)
    : watch_{new detail::process_bound<detail::gpu_watch>{values_of(options), where}} {}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE monitor::~monitor() { delete watch_; }

// The child of a fork() has neither the thread nor what it holds: no lock is taken there.
WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE gpu_sample monitor::sample() {
  return watch_->is_current() ? (*watch_)->sample(false) : gpu_sample{};
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE monitor_statistics monitor::statistics() const {
  if (watch_->is_current()) return (*watch_)->statistics();
  monitor_statistics child;
  child.unavailable =
      "monitor: off in the child of a fork(), where NVML does not work; start a new program";
  return child;
}

WARPWRIGHT_END
