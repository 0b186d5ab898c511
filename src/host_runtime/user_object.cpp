// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// User objects (CUDA Programming Guide, "CUDA User Objects"): the program and graphs hold
// references; when the last one is released, a thread of the runtime calls the destructor.
#include <pthread.h>

#include <climits>

#include "graph.hpp"
#include "runtime.hpp"

namespace warpwright::host {
namespace {

// Whether the process is exiting: no further destructor is called then.
bool exiting(runtime const& rt) noexcept {
  return rt.dropping && current_phase.load(std::memory_order_relaxed) != phase::running;
}

std::shared_ptr<user_object> pop_pending_destructor(runtime& rt) noexcept {
  std::shared_ptr<user_object> object = std::move(rt.pending_destructors);
  rt.pending_destructors = object != nullptr ? std::move(object->next) : nullptr;
  if (rt.pending_destructors == nullptr) rt.last_pending_destructor = nullptr;
  return object;
}

// The thread that calls pending destructors; it exits when there are none.
void* destructor_main(void*) {
  pthread_setname_np(pthread_self(), "ww-destructors");
  device_access const none(false);
  this_thread.inside_callback = true;
  runtime& rt = the_runtime();
  for (;;) {
    std::shared_ptr<user_object> object;
    {
      runtime_lock lock(rt.mutex);
      if (!exiting(rt)) object = pop_pending_destructor(rt);
      if (object == nullptr) {
        rt.destructor_thread_runs = false;
        release(&rt.workers_token);
        --rt.workers;
        rt.worker_exited.notify_all();
        return nullptr;
      }
    }
    acquire(&object->token);
    object->destroy(object->data);
    runtime_lock lock(rt.mutex);
    --rt.user_objects_left;
    object.reset();
  }
}

// Queues the destructor if there is no reference. Does not allocate, so that C++ destructors may
// call it.
void destroy_if_unused(runtime& rt, std::shared_ptr<user_object> const& object) noexcept {
  if (object->program_references > 0 || object->graph_references > 0) return;
  rt.user_objects.remove(object->handle);
  if (rt.last_pending_destructor != nullptr) {
    rt.last_pending_destructor->next = object;
  } else {
    rt.pending_destructors = object;
  }
  rt.last_pending_destructor = object.get();
  if (rt.destructor_thread_runs || exiting(rt)) return;
  // If no thread can be started, the destructor is called with the next object's.
  if (!start_thread(destructor_main, nullptr)) return;
  rt.destructor_thread_runs = true;
  ++rt.workers;
}

void release_references(runtime& rt, std::shared_ptr<user_object> const& object,
                        std::uint64_t& owned, std::uint64_t count) noexcept {
  release(&object->token);
  owned -= count;
  destroy_if_unused(rt, object);
}

bool is_valid_count(unsigned count) noexcept { return count > 0 && count <= unsigned{INT_MAX}; }

}  // namespace

void user_references::add(std::shared_ptr<user_object> const& object, std::uint64_t count) {
  counts_[object] += count;
  object->graph_references += count;
}

void user_references::add(user_references const& others) {
  for (auto const& [object, count] : others.counts_) add(object, count);
}

bool user_references::remove(std::shared_ptr<user_object> const& object, std::uint64_t count) {
  auto const it = counts_.find(object);
  if (it == counts_.end() || it->second < count) return false;
  it->second -= count;
  if (it->second == 0) counts_.erase(it);
  release_references(the_runtime(), object, object->graph_references, count);
  return true;
}

void user_references::clear() noexcept {
  if (counts_.empty()) return;
  runtime& rt = the_runtime();
  for (auto const& [object, count] : counts_)
    release_references(rt, object, object->graph_references, count);
  counts_.clear();
}

void user_references::release_to_destructors() const noexcept {
  for (auto const& [object, count] : counts_) release(&object->token);
}

void wait_for_destructors(runtime& rt, runtime_lock& lock) {
  while (rt.destructor_thread_runs) rt.worker_exited.wait(lock.native());
  acquire(&rt.workers_token);
}

void destroy_user_objects(runtime& rt) {
  for (auto const& object : rt.user_objects.take_all()) {
    // Only references of the program are left.
    object->program_references = 0;
    --rt.user_objects_left;
  }
}

}  // namespace warpwright::host

using namespace warpwright::host;

WARPWRIGHT_API cudaError_t cudaUserObjectCreate(cudaUserObject_t* handle, void* data,
                                                cudaHostFn_t destroy, unsigned count,
                                                unsigned flags) {
  static call_site site{"cudaUserObjectCreate"};
  return api(site, needs::device, [&](runtime& rt) {
    if (handle == nullptr || destroy == nullptr || !is_valid_count(count) ||
        flags != cudaUserObjectNoDestructorSync) {
      return cudaErrorInvalidValue;
    }
    runtime_lock lock(rt.mutex);
    auto object = std::make_shared<user_object>();
    object->destroy = destroy;
    object->data = data;
    object->program_references = count;
    object->handle = rt.user_objects.add(object);
    ++rt.user_objects_left;
    *handle = object->handle;
    return cudaSuccess;
  });
}

WARPWRIGHT_API cudaError_t cudaUserObjectRetain(cudaUserObject_t handle, unsigned count) {
  static call_site site{"cudaUserObjectRetain"};
  return api(site, needs::device, [&](runtime& rt) {
    runtime_lock lock(rt.mutex);
    auto const object = rt.user_objects.find(handle);
    if (object == nullptr || !is_valid_count(count)) return cudaErrorInvalidValue;
    object->program_references += count;
    return cudaSuccess;
  });
}

WARPWRIGHT_API cudaError_t cudaUserObjectRelease(cudaUserObject_t handle, unsigned count) {
  static call_site site{"cudaUserObjectRelease"};
  return api(site, needs::device, [&](runtime& rt) {
    runtime_lock lock(rt.mutex);
    auto const object = rt.user_objects.find(handle);
    if (object == nullptr || !is_valid_count(count) || object->program_references < count) {
      return cudaErrorInvalidValue;
    }
    release_references(rt, object, object->program_references, count);
    return cudaSuccess;
  });
}

WARPWRIGHT_API cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph_handle,
                                                     cudaUserObject_t handle, unsigned count,
                                                     unsigned flags) {
  static call_site site{"cudaGraphRetainUserObject"};
  return api(site, needs::device, [&](runtime& rt) {
    runtime_lock lock(rt.mutex);
    auto const graph = rt.graphs.find(graph_handle);
    auto const object = rt.user_objects.find(handle);
    bool const move = flags == cudaGraphUserObjectMove;
    if (graph == nullptr || object == nullptr || !is_valid_count(count) || (flags != 0 && !move) ||
        (move && object->program_references < count)) {
      return cudaErrorInvalidValue;
    }
    graph->objects.add(object, count);
    if (move) release_references(rt, object, object->program_references, count);
    return cudaSuccess;
  });
}

WARPWRIGHT_API cudaError_t cudaGraphReleaseUserObject(cudaGraph_t graph_handle,
                                                      cudaUserObject_t handle, unsigned count) {
  static call_site site{"cudaGraphReleaseUserObject"};
  return api(site, needs::device, [&](runtime& rt) {
    runtime_lock lock(rt.mutex);
    auto const graph = rt.graphs.find(graph_handle);
    auto const object = rt.user_objects.find(handle);
    if (graph == nullptr || object == nullptr || !is_valid_count(count) ||
        !graph->objects.remove(object, count)) {
      return cudaErrorInvalidValue;
    }
    return cudaSuccess;
  });
}
