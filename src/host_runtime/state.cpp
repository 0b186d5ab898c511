// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Initialisation, reset and shutdown of the runtime.
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

#include <warpwright/testing/fault_plan.hpp>

#include "calls.hpp"
#include "graph.hpp"
#include "runtime.hpp"

namespace warpwright::host {

std::atomic<phase> current_phase{phase::running};
thread_local device_state* worker_device = nullptr;
thread_local thread_state this_thread = {cudaSuccess, 0, cudaStreamCaptureModeGlobal, 0, false};

namespace {

bool report_leaks = false;
char const* calls_path = nullptr;
constexpr int leak_exit_status = 23;
constexpr int invalid_exit_status = 2;
constexpr auto exit_timeout = std::chrono::seconds(2);

bool read_size(char const* text, std::size_t& value) {
  char* end = nullptr;
  errno = 0;
  unsigned long long const parsed = std::strtoull(text, &end, 10);
  if (*text < '0' || *text > '9' || *end != '\0' || errno == ERANGE) return false;
  value = static_cast<std::size_t>(parsed);
  return true;
}

void read_environment(runtime& rt) {
  if (char const* profile = std::getenv("WARPWRIGHT_HOST_PROFILE")) {
    try {
      rt.options.profile = testing::device_profile::named(profile);
    } catch (std::invalid_argument const& error) {
      exit_on_invalid_variable("WARPWRIGHT_HOST_PROFILE", profile, error.what());
    }
  }
  std::size_t number = 0;
  if (char const* count = std::getenv("WARPWRIGHT_HOST_DEVICES")) {
    if (!read_size(count, number) || number > 16) {
      exit_on_invalid_variable("WARPWRIGHT_HOST_DEVICES", count,
                               "a number of devices from 0 to 16");
    }
    rt.options.device_count = static_cast<int>(number);
  }
  if (char const* bytes = std::getenv("WARPWRIGHT_HOST_MEMORY_BYTES")) {
    if (std::strcmp(bytes, "profile") == 0) {
      rt.options.memory_bytes = 0;
    } else if (!read_size(bytes, number) || number == 0) {
      exit_on_invalid_variable("WARPWRIGHT_HOST_MEMORY_BYTES", bytes,
                               "a number of bytes, or \"profile\" for the real board's memory");
    } else {
      rt.options.memory_bytes = number;
    }
  }
  if (char const* time = std::getenv("WARPWRIGHT_HOST_TIME")) {
    if (std::strcmp(time, "simulated") != 0 && std::strcmp(time, "real") != 0) {
      exit_on_invalid_variable("WARPWRIGHT_HOST_TIME", time, "\"simulated\" or \"real\"");
    }
    rt.options.simulated_time = std::strcmp(time, "simulated") == 0;
  }
  if (char const* plan = std::getenv("WARPWRIGHT_HOST_FAULT")) {
    try {
      install_permanently(testing::fault_plan::parse(plan));
    } catch (std::invalid_argument const& error) {
      exit_on_invalid_variable("WARPWRIGHT_HOST_FAULT", plan, error.what());
    }
  }
  char const* leaks = std::getenv("WARPWRIGHT_HOST_LEAKS");
  report_leaks = leaks != nullptr && std::strcmp(leaks, "1") == 0;
  if (leaks != nullptr && !report_leaks && *leaks != '\0' && std::strcmp(leaks, "0") != 0) {
    exit_on_invalid_variable("WARPWRIGHT_HOST_LEAKS", leaks, "0 or 1");
  }
  calls_path = std::getenv("WARPWRIGHT_HOST_CALLS");
  if (calls_path != nullptr) {
    // Now, rather than when the program has run for hours.
    int const file = above_standard(open(calls_path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
    if (file < 0) {
      std::string const problem = std::string{"cannot write the file: "} + std::strerror(errno);
      exit_on_invalid_variable("WARPWRIGHT_HOST_CALLS", calls_path, problem.c_str());
    }
    close(file);
  }
}

// Returns false if the list could not be written.
bool write_calls() {
  std::FILE* const file = open_for_writing(calls_path);
  bool written = file != nullptr;
  if (written) {
    for (testing::call_record const& call : list_calls()) {
      std::fprintf(file, "%s %llu\n", call.name.c_str(),
                   static_cast<unsigned long long>(call.count));
    }
    written = std::ferror(file) == 0;
    written = std::fclose(file) == 0 && written;
  }
  if (!written) {
    std::fprintf(stderr, "warpwright host runtime: cannot write WARPWRIGHT_HOST_CALLS=%s: %s\n",
                 calls_path, std::strerror(errno));
  }
  return written;
}

// Runs once, at process exit or when the library is unloaded: all later calls return
// cudaErrorCudartUnloading. Waits for a limited time until the workers have finished their current
// operation, so that they do not access memory that is being destroyed.
void unload() {
  phase expected = phase::running;
  if (!current_phase.compare_exchange_strong(expected, phase::unloading)) return;
  runtime& rt = the_runtime();
  std::vector<std::string> leaks;
  {
    runtime_lock lock(rt.mutex);
    if (report_leaks) {
      // Queued frees are not leaks, and pending destructors may free: waits for both, for a limited
      // time.
      auto const deadline = std::chrono::system_clock::now() + exit_timeout;
      while ((rt.queued_frees > 0 || rt.destructor_thread_runs) && !this_thread.inside_callback &&
             rt.worker_exited.wait_until(lock.native(), deadline) != std::cv_status::timeout) {
      }
      leaks = describe_leaks(rt);
    }
    rt.dropping = true;
    for (auto const& device : rt.devices) {
      device->legacy->work_available.notify_all();
      for (auto const& stream : device->streams) stream->work_available.notify_all();
    }
    for (std::condition_variable& channel : rt.channel_done) channel.notify_all();
    auto const deadline = std::chrono::system_clock::now() + exit_timeout;
    while (rt.workers > 0 && !this_thread.inside_callback &&
           rt.worker_exited.wait_until(lock.native(), deadline) != std::cv_status::timeout) {
    }
    acquire(&rt.workers_token);
  }
  bool const written = calls_path == nullptr || write_calls();
  if (!leaks.empty()) {
    std::fprintf(stderr, "warpwright host runtime: objects not freed or destroyed: %zu\n",
                 leaks.size());
    for (std::string const& leak : leaks) std::fprintf(stderr, "  %s\n", leak.c_str());
    std::fflush(nullptr);
    _exit(leak_exit_status);
  }
  if (!written) {
    std::fflush(nullptr);
    _exit(invalid_exit_status);
  }
}

void in_child_after_fork() { current_phase.store(phase::forked); }

runtime* create() {
  tsan_ignore_scope tsan_ignore;
  auto* rt = new runtime;
  read_environment(*rt);
  make_devices(*rt);
  pthread_atfork(nullptr, nullptr, in_child_after_fork);
  std::atexit(unload);
  return rt;
}

}  // namespace

runtime& the_runtime() {
  static runtime* const rt = create();
  return *rt;
}

void exit_on_invalid_variable(char const* variable, char const* value, char const* expected) {
  std::fprintf(stderr, "warpwright host runtime: %s=%s: %s\n", variable, value, expected);
  std::fflush(nullptr);
  end_all_tsan_ignore();
  _exit(invalid_exit_status);
}

int above_standard(int descriptor) noexcept {
  if (descriptor < 0 || descriptor > 2) return descriptor;
  int const moved = fcntl(descriptor, F_DUPFD_CLOEXEC, 3);
  int const error = errno;
  close(descriptor);
  errno = error;
  return moved;
}

std::FILE* open_for_writing(char const* path) noexcept {
  int const descriptor = above_standard(open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (descriptor < 0) return nullptr;
  std::FILE* const file = fdopen(descriptor, "w");
  if (file == nullptr) close(descriptor);
  return file;
}

void refresh_thread(runtime& rt) {
  if (this_thread.generation == rt.generation) return;
  bool const inside = this_thread.inside_callback;
  this_thread = {cudaSuccess, 0, cudaStreamCaptureModeGlobal, rt.generation, inside};
}

std::vector<std::string> describe_leaks(runtime& rt) {
  std::vector<std::string> lines;
  for (auto const& [base, entry] : rt.allocations) {
    if (entry.free_queued) continue;
    char const* kind = "cudaMalloc";
    switch (entry.kind) {
      case allocation::family::device:
        kind = "cudaMalloc";
        break;
      case allocation::family::pool:
        kind = "cudaMallocAsync";
        break;
      case allocation::family::graph:
        if (!entry.graph_live) continue;
        kind = "graph memory";
        break;
      case allocation::family::managed:
        kind = "cudaMallocManaged";
        break;
      case allocation::family::pinned:
        kind = "cudaHostAlloc";
        break;
      case allocation::family::registered:
        kind = "cudaHostRegister";
        break;
      case allocation::family::vmm:
        kind = "cuMemMap";
        break;
    }
    char line[160];
    std::snprintf(line, sizeof line, "%s: %zu bytes at %p (allocation %llu)", kind, entry.bytes,
                  reinterpret_cast<void*>(base), static_cast<unsigned long long>(entry.id));
    lines.emplace_back(line);
  }
  auto const handle = [&lines](char const* kind, void const* value) {
    char line[96];
    std::snprintf(line, sizeof line, "%s %p", kind, value);
    lines.emplace_back(line);
  };
  rt.streams.for_each([&](cudaStream_t h, auto const& stream) {
    if (!stream->kept) handle("stream", h);
  });
  rt.events.for_each([&](cudaEvent_t h, auto const&) { handle("event", h); });
  rt.graphs.for_each([&](cudaGraph_t h, auto const& graph) {
    if (graph->owned_by_user) handle("graph", h);
  });
  rt.execs.for_each([&](cudaGraphExec_t h, auto const&) { handle("graph exec", h); });
  rt.pools.for_each([&](cudaMemPool_t h, auto const& pool) {
    if (!pool->is_default) handle("memory pool", h);
  });
  rt.user_objects.for_each([&](cudaUserObject_t h, auto const& object) {
    if (object->program_references > 0) handle("user object", h);
  });
  describe_vmm_leaks(lines);
  return lines;
}

void drain_for_reset(runtime& rt, runtime_lock& lock) {
  rt.dropping = true;
  for (auto const& device : rt.devices) {
    device->legacy->closing = true;
    device->legacy->work_available.notify_all();
    for (auto const& stream : device->streams) {
      stream->closing = true;
      stream->work_available.notify_all();
    }
  }
  for (std::condition_variable& channel : rt.channel_done) channel.notify_all();
  while (rt.workers > 0) rt.worker_exited.wait(lock.native());
  acquire(&rt.workers_token);
  rt.dropping = false;
}

void destroy_device_objects(runtime& rt, device_state& device) {
  rt.streams.for_each([&](cudaStream_t, auto const& stream) {
    if (stream->device == &device) close_stream(rt, stream);
  });
  rt.streams.remove_if([&](auto const& stream) { return stream->device == &device; });
  rt.events.remove_if([&](auto const& event) { return event->device == &device; });
  std::vector<std::uintptr_t> live;
  for (auto const& entry : rt.live_graph_memory) {
    if (entry.second->device == &device) live.push_back(entry.first);
  }
  for (std::uintptr_t const base : live) end_graph_memory(rt, base);
  free_device_allocations(rt, device);
  device.current_pool = device.default_pool;
  rt.pools.remove_if([&](auto const& pool) {
    if (pool->device != &device) return false;
    trim_pool(rt, *pool, 0);
    return !pool->is_default;
  });
  device.peers.assign(device.peers.size(), false);
}

void destroy_everything(runtime& rt) {
  // Break the reference cycles between streams and captures.
  for (auto const& capture : rt.captures) {
    capture->members.clear();
    capture->origin.reset();
  }
  rt.captures.clear();
  capture_count = 0;
  rt.live_graph_memory.clear();
  rt.execs.take_all();
  rt.nodes.take_all();
  rt.graphs.take_all();
  rt.events.take_all();
  rt.streams.take_all();
  rt.pools.take_all();
  destroy_user_objects(rt);
  free_everything(rt);
  destroy_vmm_objects(rt);
  for (auto const& device : rt.devices) drop_address_range(*device);
  rt.devices.clear();
  rt.functions.clear();
  rt.function_names.clear();
  rt.conditions.clear();
  rt.function_arguments.clear();
  rt.queued_frees = 0;
  rt.operations_run = 0;
  rt.generation.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace warpwright::host
