// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The runtime object and the way into every API function.
#pragma once

#include "handle_table.hpp"
#include "objects.hpp"
#include "sync.hpp"

#include <array>
#include <map>
#include <mutex>
#include <new>

#define WARPWRIGHT_API extern "C" __attribute__((visibility("default")))

namespace warpwright::host {

static_assert(CUDART_VERSION >= 13000, "the host runtime implements the signatures of CUDA 13");

struct exec_state;
struct graph_memory;
struct user_object;

/// Life of the process, readable without the lock.
enum class phase : int { running, unloading, forked };
extern std::atomic<phase> current_phase;

struct runtime {
  std::mutex mutex;
  testing::host_runtime_options options;
  std::atomic<std::uint64_t> generation{1};  // reset_host_runtime() adds one
  std::vector<std::unique_ptr<device_state>> devices;

  handle_table<cudaStream_t, stream_state> streams{1};
  handle_table<cudaEvent_t, event_state> events{2};
  handle_table<cudaGraph_t, graph_state> graphs{3};
  handle_table<cudaGraphNode_t, graph_node> nodes{4};
  handle_table<cudaGraphExec_t, exec_state> execs{5};
  handle_table<cudaMemPool_t, pool_state> pools{6};
  handle_table<cudaUserObject_t, user_object> user_objects{8};  // 7: contexts (vmm.cpp)

  std::map<std::uintptr_t, allocation> allocations;  // by base
  std::uint64_t next_allocation = 1;
  std::map<std::uintptr_t, std::weak_ptr<graph_memory>> graph_memories;
  std::map<std::uintptr_t, std::shared_ptr<graph_memory>> live_graph_memory;
  std::uint64_t next_stream = 3;  // 1 and 2 are the default streams'
  std::uint64_t next_capture = 1;
  std::vector<std::shared_ptr<capture_session>> captures;
  std::size_t queued_frees = 0;
  std::uint64_t operations_run = 0;
  std::size_t workers = 0;
  bool dropping = false;  // reset or exit: queued work is not run any more

  std::map<void const*, cudaFuncAttributes> functions;
  std::map<void const*, std::string> function_names;

  // One condition variable for many streams: a milestone names its lane.
  static constexpr unsigned lanes = 64;
  std::array<std::condition_variable, lanes> lane_done;
  std::array<int, lanes> lane_waiting{};
  std::condition_variable worker_left;
  char workers_token = 0;  // what workers did before they left

  std::shared_ptr<user_object> due;  // user objects whose callback is to be made, oldest first
  user_object* due_last = nullptr;
  bool destroyer_runs = false;        // the thread that makes these callbacks; counts as a worker
  std::size_t user_objects_left = 0;  // made, and the callback has not returned
};

/// The one runtime of the process, made at the first call, never destroyed.
runtime& the_runtime();

/// What a thread has of its own; trivial, so that it outlives every destructor of the thread.
struct thread_state {
  cudaError_t last_error;
  int device;
  cudaStreamCaptureMode capture_mode;  // cudaStreamCaptureModeGlobal is 0
  std::uint64_t generation;
  bool inside_callback;
};
extern thread_local thread_state this_thread;

/// Fits this thread's state to the runtime after a reset.
void refresh_thread(runtime& rt);

/// One API function's counter. Constant-initialised; lives as long as the process.
struct call_site {
  char const* name;
  std::atomic<std::uint64_t> count{0};
  std::atomic<bool> listed{false};
  call_site* next = nullptr;

  explicit constexpr call_site(char const* api) : name(api) {}
};

enum class needs { device, nothing };

/// Counts a call, applies the fault plan, answers what must stop it before its body runs.
cudaError_t enter(call_site& site, needs what);

/// "Not ready" is an answer, no error: CUDA does not record it.
inline cudaError_t remember(cudaError_t code) noexcept {
  if (code != cudaSuccess && code != cudaErrorNotReady) this_thread.last_error = code;
  return code;
}

/// Sticky error of the calling thread's device, or cudaSuccess.
cudaError_t sticky_error(runtime& rt) noexcept;

/// Runs the body of an API function.
template <class Body>
cudaError_t api(call_site& site, needs what, Body&& body) noexcept {
  try {
    cudaError_t code = enter(site, what);
    if (code == cudaSuccess) code = body(the_runtime());
    return remember(code);
  } catch (std::bad_alloc const&) {
    return remember(cudaErrorMemoryAllocation);
  }
}

/// What a null stream means to the function called: `name` or its `_ptsz`/`_ptds` twin.
enum class null_stream { legacy, per_thread };

// Defines an API function and its per-thread-default-stream twin over one implementation.
#define WARPWRIGHT_UNPACK(...) __VA_ARGS__
#define WARPWRIGHT_STREAM_API(name, suffix, implementation, parameters, arguments)               \
  WARPWRIGHT_API cudaError_t name parameters {                                                   \
    return implementation(::warpwright::host::null_stream::legacy, WARPWRIGHT_UNPACK arguments); \
  }                                                                                              \
  WARPWRIGHT_API cudaError_t name##suffix parameters;                                            \
  WARPWRIGHT_API cudaError_t name##suffix parameters {                                           \
    return implementation(::warpwright::host::null_stream::per_thread,                           \
                          WARPWRIGHT_UNPACK arguments);                                          \
  }

// ---- devices (device.cpp)
device_state& current_device(runtime& rt);
cudaError_t device_attribute(device_state const& device, cudaDeviceAttr which, int& value);
void make_devices(runtime& rt);
/// Destroys the streams, events, pools and memory of one device.
void forget_device_objects(runtime& rt, device_state& device);

// ---- streams (stream.cpp)
/// The stream that a handle means here; null when there is none. Default streams are made on
/// demand.
std::shared_ptr<stream_state> find_stream(runtime& rt, cudaStream_t handle, null_stream null_means);
std::shared_ptr<stream_state> make_stream(runtime& rt, device_state& device,
                                          stream_state::family kind, unsigned flags, int priority);
void close_stream(runtime& rt, std::shared_ptr<stream_state> const& stream);

/// Appends work to a stream, with the order that the default stream's rules ask for. The stream
/// does not capture.
std::shared_ptr<operation> enqueue(runtime& rt, stream_state& stream,
                                   std::shared_ptr<work const> what,
                                   std::vector<std::shared_ptr<milestone>> waits = {});
/// Blocks until `point` is done. Lets go of the lock meanwhile.
void wait_for(runtime& rt, runtime_lock& lock, std::shared_ptr<milestone> const& point);
/// Blocks until all work given to a device before this call is done.
void wait_for_device(runtime& rt, runtime_lock& lock, device_state& device);
/// Marks a point done and wakes who waits for it.
void finish(runtime& rt, milestone& point);
/// Starts a detached thread that takes no signals. False when there can be none.
bool start_thread(void* (*main)(void*), void* argument) noexcept;
/// Newest unfinished work of the stream, null when there is none.
std::shared_ptr<milestone> pending(stream_state const& stream);
std::int64_t now_ns() noexcept;

// ---- memory (address_space.cpp, memory.cpp, pool.cpp)
/// Lets this thread touch device memory for a scope.
class device_access {
 public:
  explicit device_access(bool allowed = true) noexcept;
  ~device_access();
  device_access(device_access const&) = delete;
  device_access& operator=(device_access const&) = delete;

 private:
  unsigned before_;
};
bool keys_in_use() noexcept;

void make_address_range(device_state& device);
void drop_address_range(device_state& device);
/// Pages for `bytes` of device memory with the fresh pattern; 0 when the range is used up. Counts
/// nothing.
std::uintptr_t map_device_pages(device_state& device, std::size_t bytes, std::size_t& mapped_bytes);
void unmap_device_pages(device_state& device, std::uintptr_t base, std::size_t mapped_bytes);
/// With ASan, what is beyond `bytes` becomes unusable, what is before usable.
void fence(std::uintptr_t base, std::size_t bytes, std::size_t mapped_bytes) noexcept;
std::size_t device_pages(std::size_t bytes) noexcept;
/// mprotect() for device memory that lives outside of the device's range.
bool protect_device_pages(std::uintptr_t base, std::size_t bytes, int protection) noexcept;

allocation* find_allocation(runtime& rt, void const* pointer);
allocation& add_allocation(runtime& rt, allocation entry);
/// Takes bytes of the device, giving up what pools hold idle if that is needed.
bool take_device_memory(runtime& rt, device_state& device, std::size_t bytes);
void give_device_memory(device_state& device, std::size_t bytes);
void trim_pool(runtime& rt, pool_state& pool, std::uint64_t keep_bytes);
/// What pools do when a host thread synchronises.
void trim_pools_after_sync(runtime& rt);
/// Ends a pool allocation: its memory goes back to the pool.
void release_to_pool(runtime& rt, allocation& entry);
/// Whether an address belongs to some device's range, allocated or not.
bool is_device_address(runtime const& rt, void const* pointer) noexcept;
void make_default_pool(runtime& rt, device_state& device);

// ---- memory of graphs (graph_memory.cpp)
void trim_graph_memory(runtime& rt, device_state& device);

// ---- user objects (user_object.cpp)
/// Blocks until the callbacks that are due have returned. Lets go of the lock meanwhile.
void wait_for_destroyer(runtime& rt, runtime_lock& lock);
void forget_user_objects(runtime& rt);

// ---- virtual memory management (vmm.cpp)
void forget_vmm(runtime& rt);

// ---- kernels (occupancy.cpp)
cudaFuncAttributes default_function_attributes(runtime const& rt);

// ---- capture (capture.cpp)
/// cudaSuccess, or why a call that may synchronise implicitly is forbidden now. Breaks the captures
/// that forbid it, as CUDA does.
cudaError_t forbid_unsafe(runtime& rt);
/// cudaSuccess, or cudaErrorStreamCaptureImplicit when `stream` is the legacy stream and a blocking
/// stream of its device captures.
cudaError_t forbid_implicit(runtime& rt, stream_state const& stream, bool breaks = true);
void break_capture(capture_session& session) noexcept;
/// cudaErrorStreamCaptureUnsupported when any stream of the device captures, in whatever mode: for
/// calls that wait for the whole device. Breaks those captures.
cudaError_t forbid_device_wait(runtime& rt, device_state const& device);

/// Gives work to a stream, which runs it or records it. `done` receives the operation, or null when
/// it was recorded.
cudaError_t submit(runtime& rt, stream_state& stream, cudaGraphNodeType type,
                   std::shared_ptr<work const> what, std::shared_ptr<operation>* done = nullptr);

// ---- leaks, exit (state.cpp)
std::vector<std::string> describe_leaks(runtime& rt);
void free_device_allocations(runtime& rt,
                             device_state& device);  // all but mapped and graphs' (memory.cpp)
void free_everything(runtime& rt);                   // host memory (memory.cpp)
void forget_everything(runtime& rt);                 // all objects, after drain_for_reset()
void drain_for_reset(runtime& rt, runtime_lock& lock);
[[noreturn]] void refuse_environment(char const* variable, char const* value, char const* expected);

}  // namespace warpwright::host
