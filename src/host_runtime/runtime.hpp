// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The runtime object, and the functions that API calls share.
#pragma once

#include "activity.hpp"
#include "handle_table.hpp"
#include "objects.hpp"
#include "sync.hpp"

#include <array>
#include <atomic>
#include <cstdio>
#include <map>
#include <mutex>
#include <new>

#define WARPWRIGHT_API extern "C" __attribute__((visibility("default")))

namespace warpwright::host {

static_assert(CUDART_VERSION >= 13000, "the host runtime implements the signatures of CUDA 13");

struct condition_state;
struct exec_state;
struct graph_memory;
struct user_object;

/// The state of the process, readable without the lock.
enum class phase : int { running, unloading, forked };
extern std::atomic<phase> current_phase;

struct runtime {
  std::mutex mutex;
  testing::host_runtime_options options;
  std::atomic<std::uint64_t> generation{1};  // incremented by reset_host_runtime()
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
  std::uint64_t next_stream = 3;  // 1 and 2: the default streams
  std::uint64_t next_capture = 1;
  std::map<unsigned long long, std::weak_ptr<condition_state>> conditions;  // by handle
  unsigned long long next_condition = 0x100;                                // never reused
  std::vector<std::shared_ptr<capture_session>> captures;
  std::size_t queued_frees = 0;
  std::uint64_t operations_run = 0;
  std::size_t workers = 0;
  bool dropping = false;  // reset or exit: queued work is discarded

  std::map<void const*, cudaFuncAttributes> functions;
  std::map<void const*, std::string> function_names;      // of kernels that were launched
  std::map<void const*, std::size_t> function_arguments;  // the size of the only argument

  // Each condition variable serves many streams; sync_point::channel is the index.
  static constexpr unsigned wait_channels = 64;
  std::array<std::condition_variable, wait_channels> channel_done;
  std::array<int, wait_channels> channel_waiters{};
  std::condition_variable worker_exited;
  char workers_token = 0;  // token: released by workers when they exit

  std::shared_ptr<user_object> pending_destructors;  // a queue of user objects, oldest first
  user_object* last_pending_destructor = nullptr;
  bool destructor_thread_runs = false;  // the thread that calls them; counts as a worker
  std::size_t user_objects_left = 0;    // created, and the destructor has not returned
};

/// Returns the runtime of the process, created by the first call and never destroyed.
runtime& the_runtime();

/// The number of runtime::captures, to be read without its lock and without a runtime.
inline std::atomic<unsigned> capture_count{0};

/// State of a thread. Trivially destructible, so that it can be used in destructors at thread exit.
struct thread_state {
  cudaError_t last_error;
  int device;
  cudaStreamCaptureMode capture_mode;  // cudaStreamCaptureModeGlobal is 0
  std::uint64_t generation;
  bool inside_callback;
};
extern thread_local thread_state this_thread;

/// The device of a worker's stream; null in other threads.
extern thread_local device_state* worker_device;

/// Resets this thread's state after a reset of the runtime.
void refresh_thread(runtime& rt);

/// The call counter of an API function, with static storage duration and constant initialisation.
struct call_site {
  char const* name;
  std::atomic<std::uint64_t> count{0};
  std::atomic<bool> listed{false};
  std::atomic<std::uint32_t> number{0};  // of the function in activity records; 0: none yet
  call_site* next = nullptr;

  explicit constexpr call_site(char const* api) : name(api) {}
};

enum class needs { device, nothing };

/// Counts a call and applies the fault plan. Returns an error if the call must not run.
cudaError_t enter(call_site& site, needs what);

/// Sets the thread's last error. As in CUDA, cudaErrorNotReady is not recorded.
inline cudaError_t record_error(cudaError_t code) noexcept {
  if (code != cudaSuccess && code != cudaErrorNotReady) this_thread.last_error = code;
  return code;
}

/// Appends a line to the error log (log.cpp).
void log_message(std::string const& message) noexcept;
void log_failure(char const* name, cudaError_t code) noexcept;

/// Returns the sticky error of the calling thread's device, or cudaSuccess.
cudaError_t sticky_error(runtime& rt) noexcept;

/// Runs the body of an API function.
template <class Body>
cudaError_t api(call_site& site, needs what, Body&& body) noexcept {
  call_record_scope const recorded(site);
  try {
    cudaError_t code = enter(site, what);
    if (code == cudaSuccess) code = body(the_runtime());
    if (code != cudaSuccess && code != cudaErrorNotReady) log_failure(site.name, code);
    return record_error(code);
  } catch (std::bad_alloc const&) {
    return record_error(cudaErrorMemoryAllocation);
  }
}

/// The stream that a null handle stands for: legacy in `name`, per-thread in its `_ptsz` or `_ptds`
/// variant.
enum class null_stream { legacy, per_thread };

// Defines an API function and its per-thread-default-stream variant with one implementation.
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
void destroy_device_objects(runtime& rt, device_state& device);

/// Moves a descriptor of the runtime above 2: a program with closed standard streams would write to
/// it.
/// @return the descriptor, or -1, as for -1
int above_standard(int descriptor) noexcept;
/// Opens a file for writing, above the standard descriptors. @return null if that fails
std::FILE* open_for_writing(char const* path) noexcept;

/// What new memory holds: NaN as float, half and bfloat16, -1 as an integer.
inline constexpr int fill_byte = 0xff;

/// Returns a device, or null if there is none of that number.
inline device_state* device_at(runtime& rt, int ordinal) {
  if (ordinal < 0 || static_cast<std::size_t>(ordinal) >= rt.devices.size()) return nullptr;
  return rt.devices[static_cast<std::size_t>(ordinal)].get();
}

// ---- streams (stream.cpp)
/// Returns the stream of a handle, or null. Creates per-thread default streams on demand.
std::shared_ptr<stream_state> find_stream(runtime& rt, cudaStream_t handle,
                                          null_stream default_stream);
std::shared_ptr<stream_state> make_stream(runtime& rt, device_state& device,
                                          stream_state::family kind, unsigned flags, int priority);
void close_stream(runtime& rt, std::shared_ptr<stream_state> const& stream);

/// Appends work to a stream that is not capturing, with the dependencies that the rules of the
/// legacy default stream require.
std::shared_ptr<operation> enqueue(runtime& rt, stream_state& stream,
                                   std::shared_ptr<work const> what,
                                   std::vector<std::shared_ptr<sync_point>> waits = {});
/// Blocks until `point` is done; releases the lock while it waits.
void wait_for(runtime& rt, runtime_lock& lock, std::shared_ptr<sync_point> const& point);
/// Blocks until all work enqueued on a device before this call is done.
void wait_for_device(runtime& rt, runtime_lock& lock, device_state& device);
/// Marks a sync point as done and wakes the threads that wait for it.
void finish(runtime& rt, sync_point& point);
/// Starts a detached thread with all signals blocked. Returns false if that fails.
bool start_thread(void* (*main)(void*), void* argument) noexcept;
/// Returns the newest operation of the stream that is not done, or null.
std::shared_ptr<sync_point> pending(stream_state const& stream);
std::int64_t now_ns() noexcept;

// ---- memory (address_space.cpp, memory.cpp, pool.cpp)
/// Allows or forbids this thread to access device memory for a scope.
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
/// Maps pages for `bytes` of device memory, filled with the pattern; 0 if the range is exhausted.
/// Does not charge the device.
std::uintptr_t map_device_pages(device_state& device, std::size_t bytes, std::size_t& mapped_bytes);
void unmap_device_pages(device_state& device, std::uintptr_t base, std::size_t mapped_bytes);
/// With ASan, makes the first `bytes` of the mapping accessible and the rest inaccessible.
void set_accessible_bytes(std::uintptr_t base, std::size_t bytes,
                          std::size_t mapped_bytes) noexcept;
std::size_t device_pages(std::size_t bytes) noexcept;
/// mprotect() for device memory outside of the device's address range.
bool protect_device_pages(std::uintptr_t base, std::size_t bytes, int protection) noexcept;

allocation* find_allocation(runtime& rt, void const* pointer);
allocation& add_allocation(runtime& rt, allocation entry);
/// Charges bytes to a device's memory, and trims idle pool memory if needed. Returns false if it
/// does not fit.
bool charge_device_memory(runtime& rt, device_state& device, std::size_t bytes);
void uncharge_device_memory(device_state& device, std::size_t bytes);
void trim_pool(runtime& rt, pool_state& pool, std::uint64_t keep_bytes);
/// Trims pools to their release thresholds, as CUDA does when a host thread synchronises.
void trim_pools_after_sync(runtime& rt);
/// Ends a pool allocation and returns its memory to the pool.
void release_to_pool(runtime& rt, allocation& entry);
/// Whether an address is in the address range of a device, allocated or not.
bool is_device_address(runtime const& rt, void const* pointer) noexcept;
void make_default_pool(runtime& rt, device_state& device);

// ---- memory of graphs (graph_memory.cpp)
void trim_graph_memory(runtime& rt, device_state& device);

// ---- user objects (user_object.cpp)
/// Blocks until the pending destructors have returned; releases the lock while it waits.
void wait_for_destructors(runtime& rt, runtime_lock& lock);
void destroy_user_objects(runtime& rt);

// ---- virtual memory management (vmm.cpp)
void destroy_vmm_objects(runtime& rt);

// ---- kernels (occupancy.cpp)
cudaFuncAttributes default_function_attributes(runtime const& rt);

// ---- capture (capture.cpp)
/// Returns an error if an active capture forbids calls that may synchronise implicitly. Invalidates
/// such captures, as CUDA does.
cudaError_t forbid_unsafe(runtime& rt);
/// Returns cudaErrorStreamCaptureImplicit if `stream` is the legacy stream and a blocking stream of
/// its device is capturing.
cudaError_t forbid_implicit(runtime& rt, stream_state const& stream, bool invalidates = true);
void invalidate_capture(capture_session& session) noexcept;
/// For calls that synchronise with the whole device: returns cudaErrorStreamCaptureUnsupported if
/// any stream of the device is capturing, in any mode, and invalidates those captures.
cudaError_t forbid_device_wait(runtime& rt, device_state const& device);

/// Enqueues work on a stream, or captures it. `done` receives the operation, or null if it was
/// captured.
cudaError_t submit(runtime& rt, stream_state& stream, cudaGraphNodeType type,
                   std::shared_ptr<work const> what, std::shared_ptr<operation>* done = nullptr);

// ---- leaks, exit (state.cpp)
std::vector<std::string> describe_leaks(runtime& rt);
void free_device_allocations(
    runtime& rt,
    device_state& device);             // except mappings and graph memory (memory.cpp)
void free_everything(runtime& rt);     // host memory (memory.cpp)
void destroy_everything(runtime& rt);  // all objects, after drain_for_reset()
void drain_for_reset(runtime& rt, runtime_lock& lock);
[[noreturn]] void exit_on_invalid_variable(char const* variable, char const* value,
                                           char const* expected);

}  // namespace warpwright::host
