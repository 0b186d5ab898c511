// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// User objects (CUDA Programming Guide, "CUDA User Objects"): the program and graphs refer to them;
// when the last reference goes, a thread of the runtime calls the program's destructor.
#include <pthread.h>

#include <climits>

#include "graph.hpp"
#include "runtime.hpp"

namespace warpwright::host {
namespace {

// At the end of the process no new callback is made.
bool ending(runtime const& rt) noexcept {
  return rt.dropping && current_phase.load(std::memory_order_relaxed) != phase::running;
}

std::shared_ptr<user_object> take_due(runtime& rt) noexcept {
  std::shared_ptr<user_object> object = std::move(rt.due);
  rt.due = object != nullptr ? std::move(object->next) : nullptr;
  if (rt.due == nullptr) rt.due_last = nullptr;
  return object;
}

// Lives while callbacks are due.
void* destroyer_main(void*) {
  pthread_setname_np(pthread_self(), "ww-destroyer");
  device_access const none(false);
  this_thread.inside_callback = true;
  runtime& rt = the_runtime();
  for (;;) {
    std::shared_ptr<user_object> object;
    {
      runtime_lock lock(rt.mutex);
      if (!ending(rt)) object = take_due(rt);
      if (object == nullptr) {
        rt.destroyer_runs = false;
        release(&rt.workers_token);
        --rt.workers;
        rt.worker_left.notify_all();
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

// The last reference may have gone. Allocates nothing, so that destructors may call it.
void destroy_if_unused(runtime& rt, std::shared_ptr<user_object> const& object) noexcept {
  if (object->of_program > 0 || object->of_graphs > 0) return;
  rt.user_objects.remove(object->handle);
  if (rt.due_last != nullptr) {
    rt.due_last->next = object;
  } else {
    rt.due = object;
  }
  rt.due_last = object.get();
  if (rt.destroyer_runs || ending(rt)) return;
  // Without a thread the callback waits for the next object that is destroyed.
  if (!start_thread(destroyer_main, nullptr)) return;
  rt.destroyer_runs = true;
  ++rt.workers;
}

void give_back(runtime& rt, std::shared_ptr<user_object> const& object, std::uint64_t& owned,
               std::uint64_t count) noexcept {
  release(&object->token);
  owned -= count;
  destroy_if_unused(rt, object);
}

bool countable(unsigned count) noexcept { return count > 0 && count <= unsigned{INT_MAX}; }

}  // namespace

void user_references::add(std::shared_ptr<user_object> const& object, std::uint64_t count) {
  counts_[object] += count;
  object->of_graphs += count;
}

void user_references::add(user_references const& others) {
  for (auto const& [object, count] : others.counts_) add(object, count);
}

bool user_references::remove(std::shared_ptr<user_object> const& object, std::uint64_t count) {
  auto const it = counts_.find(object);
  if (it == counts_.end() || it->second < count) return false;
  it->second -= count;
  if (it->second == 0) counts_.erase(it);
  give_back(the_runtime(), object, object->of_graphs, count);
  return true;
}

void user_references::clear() noexcept {
  if (counts_.empty()) return;
  runtime& rt = the_runtime();
  for (auto const& [object, count] : counts_) give_back(rt, object, object->of_graphs, count);
  counts_.clear();
}

void user_references::release_to_destructors() const noexcept {
  for (auto const& [object, count] : counts_) release(&object->token);
}

void wait_for_destroyer(runtime& rt, runtime_lock& lock) {
  while (rt.destroyer_runs) rt.worker_left.wait(lock.native());
  acquire(&rt.workers_token);
}

void forget_user_objects(runtime& rt) {
  for (auto const& object : rt.user_objects.take_all()) {
    // What is left belongs to the program.
    object->of_program = 0;
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
    if (handle == nullptr || destroy == nullptr || !countable(count) ||
        flags != cudaUserObjectNoDestructorSync) {
      return cudaErrorInvalidValue;
    }
    runtime_lock lock(rt.mutex);
    auto object = std::make_shared<user_object>();
    object->destroy = destroy;
    object->data = data;
    object->of_program = count;
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
    if (object == nullptr || !countable(count)) return cudaErrorInvalidValue;
    object->of_program += count;
    return cudaSuccess;
  });
}

WARPWRIGHT_API cudaError_t cudaUserObjectRelease(cudaUserObject_t handle, unsigned count) {
  static call_site site{"cudaUserObjectRelease"};
  return api(site, needs::device, [&](runtime& rt) {
    runtime_lock lock(rt.mutex);
    auto const object = rt.user_objects.find(handle);
    if (object == nullptr || !countable(count) || object->of_program < count) {
      return cudaErrorInvalidValue;
    }
    give_back(rt, object, object->of_program, count);
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
    if (graph == nullptr || object == nullptr || !countable(count) || (flags != 0 && !move) ||
        (move && object->of_program < count)) {
      return cudaErrorInvalidValue;
    }
    graph->objects.add(object, count);
    if (move) give_back(rt, object, object->of_program, count);
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
    if (graph == nullptr || object == nullptr || !countable(count) ||
        !graph->objects.remove(object, count)) {
      return cudaErrorInvalidValue;
    }
    return cudaSuccess;
  });
}
