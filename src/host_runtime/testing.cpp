// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The control API of testing/host_runtime.hpp.
#include <stdexcept>

#include "calls.hpp"
#include "graph.hpp"
#include "runtime.hpp"

WARPWRIGHT_BEGIN
namespace testing {

host_runtime_options host_runtime_options::with_profile(std::string const& name) const {
  host_runtime_options copy = *this;
  copy.profile = device_profile::named(name);
  return copy;
}

host_runtime_options host_runtime_options::with_devices(int count) const {
  host_runtime_options copy = *this;
  copy.device_count = count;
  return copy;
}

host_runtime_options host_runtime_options::with_memory_bytes(std::size_t bytes) const {
  host_runtime_options copy = *this;
  copy.memory_bytes = bytes;
  return copy;
}

host_runtime_options host_runtime_options::with_simulated_time(bool on) const {
  host_runtime_options copy = *this;
  copy.simulated_time = on;
  return copy;
}

void reset_host_runtime(host_runtime_options const& options) {
  if (options.device_count < 0 || options.device_count > 16) {
    throw std::invalid_argument("reset_host_runtime: " + std::to_string(options.device_count) +
                                " devices; 0 to 16 are possible");
  }
  if (options.profile.multiprocessor_count <= 0 ||
      (options.memory_bytes == 0 && options.profile.memory_bytes == 0)) {
    throw std::invalid_argument(
        "reset_host_runtime: the profile is empty; start from "
        "device_profile::named(\"H100\")");
  }
  host::runtime& rt = host::the_runtime();
  {
    host::runtime_lock lock(rt.mutex);
    host::drain_for_reset(rt, lock);
    host::destroy_everything(rt);
    host::wait_for_destructors(rt, lock);
    rt.options = options;
    host::make_devices(rt);
  }
  host::refresh_thread(rt);
  host::reset_calls();
}

host_runtime_stats stats() {
  host::runtime& rt = host::the_runtime();
  host::runtime_lock lock(rt.mutex);
  host_runtime_stats result;
  for (auto const& device : rt.devices) result.device_memory_bytes += device->used_bytes;
  for (auto const& entry : rt.allocations) {
    if (entry.second.free_queued || !entry.second.graph_live) continue;
    ++(entry.second.on_host() ? result.host_allocations : result.device_allocations);
  }
  rt.streams.for_each([&](cudaStream_t, auto const& stream) {
    if (!stream->kept) ++result.streams;
  });
  result.events = rt.events.size();
  rt.graphs.for_each(
      [&](cudaGraph_t, auto const& graph) { result.graphs += graph->owned_by_user; });
  result.graph_execs = rt.execs.size();
  rt.pools.for_each(
      [&](cudaMemPool_t, auto const& pool) { result.memory_pools += !pool->is_default; });
  result.user_objects = rt.user_objects_left;
  result.operations_run = rt.operations_run;
  return result;
}

std::vector<std::string> leak_report() {
  host::runtime& rt = host::the_runtime();
  host::runtime_lock lock(rt.mutex);
  while (rt.queued_frees > 0) rt.worker_exited.wait(lock.native());
  host::wait_for_destructors(rt, lock);
  return host::describe_leaks(rt);
}

void poison_device(int device, cudaError_t code) {
  host::runtime& rt = host::the_runtime();
  if (device < 0 || static_cast<std::size_t>(device) >= rt.devices.size()) {
    throw std::invalid_argument("poison_device: there is no device " + std::to_string(device));
  }
  if (code == cudaSuccess) throw std::invalid_argument("poison_device: cudaSuccess is no error");
  rt.devices[static_cast<std::size_t>(device)]->sticky.store(code, std::memory_order_relaxed);
}

void set_function_attributes(void const* function, cudaFuncAttributes const& attributes) {
  if (function == nullptr) {
    throw std::invalid_argument("set_function_attributes: the function is null");
  }
  host::runtime& rt = host::the_runtime();
  host::runtime_lock lock(rt.mutex);
  rt.functions.insert_or_assign(function, attributes);
}

bool protection_keys() {
  host::the_runtime();
  return host::keys_in_use();
}

}  // namespace testing
WARPWRIGHT_END
