// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// An NVML that answers as a script says, built as libnvidia-ml.so.1. The script is the environment
// variable SCRIPTED_NVML, or what a test passes to scripted_nvml(); words with blanks between:
//
//   name=value   what a function tells, as nvmlDeviceGetPowerUsage=350000; without the prefix
//                nvmlDeviceGet; without a value in the script it is not supported
//   name!code    the function returns this error
//   name~us      the function takes so many microseconds
//   lost_after=n the GPU is lost after n calls
//
// With SCRIPTED_NVML_OLD, a library without newer functions: no memory, processes, MIG, counters.
#include <unistd.h>
#include <cstdlib>
#include <map>
#include <mutex>
#include <sstream>
#include <string>

#define SCRIPTED_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

enum {
  success = 0,
  not_supported = 3,
  not_found = 6,
  insufficient_size = 7,
  gpu_is_lost = 15,
  version_mismatch = 25
};

struct script {
  std::mutex mutex;
  std::map<std::string, double> words;
  std::map<std::string, int> calls;
  std::string uuid;
  double total_calls = 0;
  int sessions = 0;
  int samples = 0;
  double taken = 0;
};
script state;
char gpu;       // the handle of the whole GPU
char instance;  // and of a MIG instance

void read_script(char const* text) {
  std::lock_guard<std::mutex> const held{state.mutex};
  state.words.clear();
  state.calls.clear();
  state.total_calls = 0;
  std::istringstream words{text};
  for (std::string word; words >> word;) {
    std::size_t const end = word.find_first_of("=!~");
    std::string name = word.substr(0, end);
    if (word[end] != '=') name += word[end];
    state.words[name] = std::atof(word.c_str() + end + 1);
  }
}

bool has(std::string const& name) { return state.words.count(name) != 0; }
double word(std::string const& name) {
  auto const found = state.words.find(name);
  return found == state.words.end() ? 0.0 : found->second;
}

// Counts a call, and returns its code; `value` is set to what the script tells.
int enter(std::string const& name, double* value, std::string const& key) {
  double delay = 0;
  {
    std::lock_guard<std::mutex> const held{state.mutex};
    ++state.calls[name];
    delay = word(name + "~");
  }
  if (delay > 0) usleep(static_cast<useconds_t>(delay));
  std::lock_guard<std::mutex> const held{state.mutex};
  ++state.total_calls;
  if (has("lost_after") && state.total_calls > word("lost_after")) return gpu_is_lost;
  if (has(name + "!")) return static_cast<int>(word(name + "!"));
  if (value == nullptr) return success;
  if (!has(key)) return not_supported;
  *value = word(key);
  return success;
}

template <class T>
int tell(std::string const& name, T* to, std::string const& key) {
  double value = 0;
  int const code = enter(name, &value, key);
  if (code == success) *to = static_cast<T>(value);
  return code;
}

// The length of a list, of which nobody asks for the entries.
int list_processes(std::string const& name, unsigned* count, void* list) {
  if (list != nullptr) return 2;  // NVML_ERROR_INVALID_ARGUMENT
  double n = 0;
  int const code = enter(name, &n, name.find("MPS") != std::string::npos ? "mps" : "processes");
  if (code != success) return code;
  *count = static_cast<unsigned>(n);
  return *count == 0 ? success : insufficient_size;
}

}  // namespace

SCRIPTED_EXPORT void scripted_nvml(char const* script) { read_script(script); }
SCRIPTED_EXPORT int scripted_nvml_calls(char const* name) {
  std::lock_guard<std::mutex> const held{state.mutex};
  return state.calls[name];
}
SCRIPTED_EXPORT int scripted_nvml_sessions() {
  std::lock_guard<std::mutex> const held{state.mutex};
  return state.sessions;
}
SCRIPTED_EXPORT int scripted_nvml_samples() {
  std::lock_guard<std::mutex> const held{state.mutex};
  return state.samples;
}

SCRIPTED_EXPORT int nvmlInit_v2() {
  if (char const* const text = std::getenv("SCRIPTED_NVML")) read_script(text);
  int const code = enter("Init", nullptr, "");
  std::lock_guard<std::mutex> const held{state.mutex};
  if (code == success) ++state.sessions;
  return code;
}
SCRIPTED_EXPORT int nvmlShutdown() {
  std::lock_guard<std::mutex> const held{state.mutex};
  --state.sessions;
  return success;
}
SCRIPTED_EXPORT char const* nvmlErrorString(int code) {
  return code == not_supported ? "Not Supported"
         : code == not_found   ? "Not Found"
         : code == gpu_is_lost ? "GPU is lost"
                               : nullptr;
}
SCRIPTED_EXPORT int nvmlDeviceGetHandleByUUID(char const* uuid, void** device) {
  int const code = enter("HandleByUUID", nullptr, "");
  std::lock_guard<std::mutex> const held{state.mutex};
  *device = has("mig_instance") ? &instance : &gpu;
  state.uuid = uuid;
  return code;
}

#define SCRIPTED_NUMBER(name)                                           \
  SCRIPTED_EXPORT int nvmlDeviceGet##name(void* device, unsigned* to) { \
    return device == &gpu ? tell(#name, to, #name) : not_supported;     \
  }
#define SCRIPTED_NUMBERED(name)                                                                 \
  SCRIPTED_EXPORT int nvmlDeviceGet##name(void* device, unsigned which, unsigned* to) {         \
    return device == &gpu ? tell(#name, to, #name "." + std::to_string(which)) : not_supported; \
  }
SCRIPTED_NUMBER(PowerUsage)
SCRIPTED_NUMBER(EnforcedPowerLimit)
SCRIPTED_NUMBER(CurrPcieLinkGeneration)
SCRIPTED_NUMBER(CurrPcieLinkWidth)
SCRIPTED_NUMBERED(Temperature)
SCRIPTED_NUMBERED(ClockInfo)

SCRIPTED_EXPORT int nvmlDeviceGetUtilizationRates(void* device, unsigned* to) {
  if (device != &gpu) return not_supported;  // as on MIG instances
  int const code = tell("UtilizationRates", to, "utilization");
  return code != success ? code : tell("UtilizationRates", to + 1, "memory_traffic");
}
SCRIPTED_EXPORT int nvmlDeviceGetCurrentClocksThrottleReasons(void*, unsigned long long* to) {
  return tell("CurrentClocksThrottleReasons", to, "throttle");
}
SCRIPTED_EXPORT int nvmlDeviceGetTotalEccErrors(void* device, unsigned type, unsigned counter,
                                                unsigned long long* to) {
  if (device != &gpu || counter != 0) return not_supported;
  return tell("TotalEccErrors", to, "TotalEccErrors." + std::to_string(type));
}
#if !defined(SCRIPTED_NVML_OLD)

SCRIPTED_EXPORT int nvmlDeviceGetMemoryInfo_v2(void*, unsigned* to) {
  if (*to != (40U | 2U << 24U)) return version_mismatch;
  auto* const sizes = reinterpret_cast<unsigned long long*>(to) + 1;  // total, reserved, free, used
  int code = tell("MemoryInfo_v2", sizes, "total");
  if (code == success) code = tell("MemoryInfo_v2", sizes + 2, "free");
  if (code != success) return code;
  sizes[1] = static_cast<unsigned long long>(word("reserved"));
  sizes[3] = sizes[0] - sizes[1] - sizes[2];
  return success;
}
SCRIPTED_EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned* count, void* list) {
  return list_processes("ComputeRunningProcesses_v3", count, list);
}
SCRIPTED_EXPORT int nvmlDeviceGetMPSComputeRunningProcesses_v3(void*, unsigned* count, void* list) {
  return list_processes("MPSComputeRunningProcesses_v3", count, list);
}
SCRIPTED_EXPORT int nvmlDeviceGetMigMode(void* device, unsigned* now, unsigned* pending) {
  if (device != &gpu) return not_supported;
  *pending = 0;
  return tell("MigMode", now, "MigMode");
}
SCRIPTED_EXPORT int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(void* device, void** whole) {
  if (device != &instance) return 2;  // NVML_ERROR_INVALID_ARGUMENT
  *whole = &gpu;
  return success;
}
SCRIPTED_EXPORT int nvmlDeviceGetGpuInstanceId(void* device, unsigned* id) {
  *id = 7;
  return device == &instance ? success : not_supported;
}

// A sample is a number of its own; "gpm.ID=value" is what the difference of two tells.
SCRIPTED_EXPORT int nvmlGpmQueryDeviceSupport(void*, unsigned* support) {
  if (support[0] != 1) return version_mismatch;
  support[1] = has("gpm") ? 1 : 0;
  return success;
}
SCRIPTED_EXPORT int nvmlGpmSampleAlloc(void** sample) {
  int const code = enter("GpmSampleAlloc", nullptr, "");
  if (code != success) return code;
  *sample = new double{0};
  std::lock_guard<std::mutex> const held{state.mutex};
  ++state.samples;
  return success;
}
SCRIPTED_EXPORT int nvmlGpmSampleFree(void* sample) {
  delete static_cast<double*>(sample);
  std::lock_guard<std::mutex> const held{state.mutex};
  --state.samples;
  return success;
}
SCRIPTED_EXPORT int nvmlGpmSampleGet(void* device, void* sample) {
  if (device != &gpu) return not_supported;
  int const code = enter("GpmSampleGet", nullptr, "");
  std::lock_guard<std::mutex> const held{state.mutex};
  *static_cast<double*>(sample) = ++state.taken;
  return code;
}
SCRIPTED_EXPORT int nvmlGpmMigSampleGet(void* device, unsigned id, void* sample) {
  if (device != &gpu || id != 7) return not_supported;
  return nvmlGpmSampleGet(device, sample);
}
struct gpm_metric {
  unsigned id;
  int code;
  double value;
  char* texts[3];
};
struct gpm_query {
  unsigned version, count;
  double* first;
  double* second;
  gpm_metric metrics[333];
};
SCRIPTED_EXPORT int nvmlGpmMetricsGet(gpm_query* query) {
  if (query->version != 1) return version_mismatch;
  if (*query->first >= *query->second) return 2;  // the earlier sample comes first
  int const code = enter("GpmMetricsGet", nullptr, "");
  for (unsigned i = 0; code == success && i < query->count; ++i) {
    gpm_metric& m = query->metrics[i];
    std::lock_guard<std::mutex> const held{state.mutex};
    std::string const key = "gpm." + std::to_string(m.id);
    m.code = has(key) ? success : not_supported;
    m.value = word(key);
  }
  return code;
}

#endif
