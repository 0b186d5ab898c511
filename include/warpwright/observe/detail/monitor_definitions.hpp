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

// What a function of NVML takes, and what it tells.
enum class nvml_form { number, numbered, errors, flags, mig, shares, memory, list, counters };

// A call of NVML. It tells the next `figures` of gpu_fields(), behind those of the calls before it.
struct nvml_query {
  nvml_form form;
  unsigned argument;
  bool seldom;  // the thread asks every tenth time
  std::size_t figures;
  char const* name;
};
constexpr std::size_t nvml_query_count = 16;

inline nvml_query const& nvml_query_at(std::size_t i) noexcept {
  using f = nvml_form;
  static constexpr nvml_query table[nvml_query_count] = {
      {f::shares, 0, false, 2, "nvmlDeviceGetUtilizationRates"},
      {f::memory, 0, false, 3, "nvmlDeviceGetMemoryInfo_v2"},
      {f::numbered, 0, false, 1, "nvmlDeviceGetTemperature"},
      {f::number, 0, false, 1, "nvmlDeviceGetPowerUsage"},
      {f::number, 0, true, 1, "nvmlDeviceGetEnforcedPowerLimit"},
      {f::numbered, 1, false, 1, "nvmlDeviceGetClockInfo"},
      {f::numbered, 2, false, 1, "nvmlDeviceGetClockInfo"},
      {f::errors, 0, true, 1, "nvmlDeviceGetTotalEccErrors"},
      {f::errors, 1, true, 1, "nvmlDeviceGetTotalEccErrors"},
      {f::number, 0, true, 1, "nvmlDeviceGetCurrPcieLinkGeneration"},
      {f::number, 0, true, 1, "nvmlDeviceGetCurrPcieLinkWidth"},
      {f::counters, 0, false, 8, "nvmlGpmMetricsGet"},
      {f::list, 0, true, 1, "nvmlDeviceGetComputeRunningProcesses_v3"},
      {f::list, 0, true, 1, "nvmlDeviceGetMPSComputeRunningProcesses_v3"},
      {f::mig, 0, true, 1, "nvmlDeviceGetMigMode"},
      {f::flags, 0, false, 0, "nvmlDeviceGetCurrentClocksThrottleReasons"}};
  return table[i];
}

// NVML tells shares in percent, power in mW, and rates in MiB/s.
inline double in_unit(gpu_unit unit, double value) noexcept {
  if (unit == gpu_unit::share) return value / 100.0;
  if (unit == gpu_unit::watts) return value / 1000.0;
  return unit == gpu_unit::bytes_per_s ? value * 1048576.0 : value;
}

/// One GPU as NVML tells of it. Not thread-safe.
class gpu_reader : nvml_library {
 public:
  ~gpu_reader() {
    for (void* const taken : taken_) {
      if (taken != nullptr) call(free_, taken);
    }
  }

  /// @return what failed, with the remedy; empty: nothing
  text open(char const* uuid, monitor_settings const& settings) noexcept {
    text const problem = nvml_library::open(uuid, device_);
    if (!problem.empty()) return problem;
    board_ = device_;
    void* whole = nullptr;
    if (call(find("nvmlDeviceGetDeviceHandleFromMigDeviceHandle"), device_, &whole) == 0) {
      board_ = whole;
      in_mig_ = call(find("nvmlDeviceGetGpuInstanceId"), device_, &instance_) == 0;
    }
    bool const counters = open_counters();
    for (std::size_t i = 0; i < nvml_query_count; ++i) {
      nvml_query const& q = nvml_query_at(i);
      seldom_[i] = q.seldom;
      if (q.form == nvml_form::list && !settings.processes) continue;
      if (q.form != nvml_form::counters || counters) functions_[i] = find(q.name);
    }
    return "";
  }

  /// Reads the figures into `to`; what is not read this time stays as it was.
  /// @param by_thread  reads what is slow or seldom read every tenth time
  /// @param problem    set if the GPU is lost
  /// @return whether the GPU is there
  bool read(gpu_sample& to, bool by_thread, text& problem) noexcept {
    bool const all = !by_thread || rounds_++ % 10 == 0;
    gpu_field const* next = gpu_fields();
    for (std::size_t i = 0; i < nvml_query_count; ++i) {
      nvml_query const& q = nvml_query_at(i);
      gpu_field const* const fields = next;
      next += q.figures;
      std::uint64_t const begin = monotonic_nanoseconds();
      bool const too_early = q.form == nvml_form::counters && begin - taken_at_ < 105000000;
      if (functions_[i] == nullptr || (seldom_[i] && !all) || too_early) continue;
      answer told;
      int const code = ask(q, functions_[i], told);
      if (code == nvml_gpu_is_lost || code == nvml_reset_required) {
        problem = failure(q.name, code) +
                  "; nothing works on this GPU until it is reset: see the kernel's log for Xid";
        return false;
      }
      if (code == nvml_not_supported || code == nvml_function_not_found) functions_[i] = nullptr;
      for (std::size_t k = 0; k < q.figures; ++k) {
        gpu_sample::figure& figure = to.*fields[k].figure;
        figure = told.figures[k];
        if (figure) figure = in_unit(fields[k].unit, *figure);
      }
      if (q.form == nvml_form::flags) {
        to.throttle.reset();
        if (code == 0) to.throttle = throttle_reasons(told.flags);
      }
      slow_in_turn_[i] = monotonic_nanoseconds() - begin < 1000000 ? 0 : slow_in_turn_[i] + 1;
      if (slow_in_turn_[i] == 3) seldom_[i] = true;  // the driver may be locked meanwhile
    }
    return true;
  }

 private:
  struct answer {
    gpu_sample::figure figures[8];
    unsigned long long flags = 0;
  };

  // Figures are absent where the function fails.
  int ask(nvml_query const& q, any_function f, answer& told) noexcept {
    unsigned two[2] = {};
    unsigned long long large = 0;
    nvml_memory memory{};
    auto const tell = [&](int code, auto const&... values) {  // which the call has set
      std::size_t k = 0;
      if (code == 0) ((told.figures[k++] = static_cast<double>(values)), ...);
      return code;
    };
    switch (q.form) {
      case nvml_form::number:
        return tell(call(f, board_, &two[0]), two[0]);
      case nvml_form::numbered:
        return tell(call(f, board_, q.argument, &two[0]), two[0]);
      case nvml_form::errors:  // since the driver was loaded: counter 0
        return tell(call(f, board_, q.argument, 0U, &large), large);
      case nvml_form::flags:
        return call(f, board_, &told.flags);
      case nvml_form::mig:  // now, and after the next start
        return tell(call(f, board_, &two[0], &two[1]), two[0]);
      case nvml_form::shares:
        return tell(call(f, device_, &two[0]), two[0], two[1]);
      case nvml_form::memory:
        return tell(call(f, device_, &memory), memory.used, memory.free, memory.total);
      case nvml_form::counters:
        return ask_counters(f, told);
      case nvml_form::list:  // its length
        break;
    }
    int const code = call(f, device_, &two[0], static_cast<void*>(nullptr));
    return tell(code == nvml_insufficient_size ? 0 : code, two[0]);
  }

  bool open_counters() noexcept {
    unsigned support[2] = {1};  // the version, and whether the device supports it
    if (call(find("nvmlGpmQueryDeviceSupport"), device_, &support[0]) != 0) return false;
    free_ = find("nvmlGpmSampleFree");
    take_ = find(in_mig_ ? "nvmlGpmMigSampleGet" : "nvmlGpmSampleGet");
    if (support[1] == 0 || free_ == nullptr) return false;
    for (void*& taken : taken_) {
      if (call(find("nvmlGpmSampleAlloc"), &taken) != 0) return false;
    }
    return take_counters(taken_[0]) == 0;
  }
  int take_counters(void* into) noexcept {
    int const code = in_mig_ ? call(take_, board_, instance_, into) : call(take_, device_, into);
    if (code == 0) taken_at_ = monotonic_nanoseconds();
    return code;
  }
  // The metrics are differences between two samples of counters, which NVML refreshes every 100 ms.
  int ask_counters(any_function f, answer& told) noexcept {
    // NVML_GPM_METRIC_SM_UTIL and so on, in the order of the figures.
    constexpr unsigned ids[] = {2, 3, 5, 10, 20, 21, 61, 60};
    if (int const code = take_counters(taken_[1])) return code;
    gpm_.first = taken_[0];
    gpm_.second = taken_[1];
    gpm_.count = 8;
    for (std::size_t k = 0; k < 8; ++k) gpm_.metrics[k] = {ids[k], 0, 0.0, {}};
    int const code = call(f, &gpm_);
    taken_[0] = gpm_.second;
    taken_[1] = gpm_.first;
    for (std::size_t k = 0; code == 0 && k < 8; ++k) {
      if (gpm_.metrics[k].code == 0) told.figures[k] = gpm_.metrics[k].value;
    }
    return code;
  }

  void* device_ = nullptr;
  void* board_ = nullptr;  // the whole GPU of a MIG instance
  bool in_mig_ = false;
  unsigned instance_ = 0;
  any_function functions_[nvml_query_count] = {};  // null: their figures are absent
  bool seldom_[nvml_query_count] = {};
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
    for (gpu_field const& field : gpu_fields()) {
      if (!(current_.*field.figure)) continue;
      double const now = *(current_.*field.figure);
      gpu_sample::figure& mean = seen_.mean.*field.figure;
      gpu_sample::figure& min = seen_.min.*field.figure;
      gpu_sample::figure& max = seen_.max.*field.figure;
      double const count = (counts_.*field.figure).value_or(0.0) + 1.0;
      counts_.*field.figure = count;
      mean = mean.value_or(0.0) + (now - mean.value_or(0.0)) / count;
      min = now < min.value_or(now) ? now : min.value_or(now);
      max = now > max.value_or(now) ? now : max.value_or(now);
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
  gpu_sample counts_;  // of the samples that have the figure
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
