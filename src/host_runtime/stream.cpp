// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Streams: in-order queues with a worker thread each, and the rules of the default streams.
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <chrono>

#include "graph.hpp"
#include "runtime.hpp"

namespace warpwright::host {
namespace {

constexpr int worker_spins = 200;  // a few microseconds, before a worker blocks
constexpr int host_spins = 400;    // the same, before a synchronising host thread blocks
constexpr std::int64_t simulated_step_ns = 1000;

void pause_processor() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

void remove_stream(stream_state& stream) {
  auto& all = stream.device->streams;
  all.erase(std::remove_if(all.begin(), all.end(),
                           [&stream](auto const& entry) { return entry.get() == &stream; }),
            all.end());
}

struct worker_argument {
  runtime* rt;
  std::shared_ptr<stream_state> stream;
};

class worker {
 public:
  worker(runtime& rt, stream_state& stream) : rt_(rt), stream_(stream) {}

  void loop() {
    for (;;) {
      std::shared_ptr<operation> op = next();
      if (op == nullptr) return;
      execute(*op);
      complete(std::move(op));
    }
  }

 private:
  bool stopping() const { return rt_.dropping; }

  // Waits for the next operation and its dependencies; null when the worker must exit.
  std::shared_ptr<operation> next() {
    for (int spin = 0; spin < worker_spins; ++spin) {
      if (stream_.has_work.load(std::memory_order_relaxed)) break;
      pause_processor();
    }
    runtime_lock lock(rt_.mutex);
    while (stream_.queue.empty() && !stream_.closing && !stopping()) {
      stream_.worker_sleeping = true;
      stream_.work_available.wait(lock.native());
      stream_.worker_sleeping = false;
    }
    if (stopping()) drop_queue();
    if (stream_.queue.empty()) {
      stream_.worker_started = false;
      if (stream_.closing) {
        release(&stream_.device->drained);
        if (stream_.blocking()) release(&stream_.device->drained_blocking);
        remove_stream(stream_);
      }
      release(&rt_.workers_token);
      --rt_.workers;
      rt_.worker_exited.notify_all();
      return nullptr;
    }
    std::shared_ptr<operation> op = stream_.queue.front();
    for (auto const& point : op->waits) {
      while (!point->done.load(std::memory_order_relaxed) && !stopping()) {
        ++rt_.channel_waiters[point->channel];
        rt_.channel_done[point->channel].wait(lock.native());
        --rt_.channel_waiters[point->channel];
      }
    }
    drop_ = stopping() || stream_.device->sticky.load(std::memory_order_relaxed) != 0;
    return op;
  }

  void execute(operation& op) {
    acquire(&op.enqueued);
    for (auto const& point : op.waits) acquire(&point->token);
    if (op.what != nullptr && (!drop_ || op.what->runs_when_poisoned())) {
      op.call != 0 ? run_recorded(*op.what, stream_, op.call) : op.what->run();
    }
    release(&op.token);
  }

  void complete(std::shared_ptr<operation> op) {
    runtime_lock lock(rt_.mutex);
    stream_.queue.pop_front();
    stream_.has_work.store(!stream_.queue.empty(), std::memory_order_relaxed);
    if (rt_.options.simulated_time) {
      for (auto const& point : op->waits) {
        stream_.simulated_ns = (std::max)(stream_.simulated_ns, point->finished_ns);
      }
      op->finished_ns = stream_.simulated_ns += simulated_step_ns;
    }
    op->waits.clear();
    op->what.reset();
    ++rt_.operations_run;
    finish(rt_, *op);
    op.reset();
  }

  // At reset or exit: marks queued operations as done, so that waits for them end.
  void drop_queue() {
    for (auto const& op : stream_.queue) {
      op->waits.clear();
      op->what.reset();
      finish(rt_, *op);
    }
    stream_.queue.clear();
  }

  runtime& rt_;
  stream_state& stream_;
  bool drop_ = false;
};

void* worker_main(void* raw) {
  runtime* rt = nullptr;
  std::shared_ptr<stream_state> stream;
  {
    tsan_ignore_scope const tsan_ignore;
    auto* argument = static_cast<worker_argument*>(raw);
    rt = argument->rt;
    stream = std::move(argument->stream);
    delete argument;
  }
  pthread_setname_np(pthread_self(), "ww-stream");
  device_access const allowed;
  worker_device = stream->device;
  worker(*rt, *stream).loop();
  tsan_ignore_scope const last_reference;
  stream.reset();
  return nullptr;
}

void start_worker(runtime& rt, std::shared_ptr<stream_state> const& stream) {
  auto* argument = new worker_argument{&rt, stream};
  if (!start_thread(worker_main, argument)) {
    delete argument;
    throw std::bad_alloc();
  }
  stream->worker_started = true;
  ++rt.workers;
}

// A thread's per-thread default streams, one per device, closed when the thread ends.
struct thread_streams {
  std::uint64_t generation = 0;
  std::map<device_state*, std::shared_ptr<stream_state>> by_device;

  ~thread_streams() {
    if (by_device.empty() || current_phase.load() != phase::running) return;
    runtime& rt = the_runtime();
    runtime_lock lock(rt.mutex);
    if (generation == rt.generation) {
      for (auto const& entry : by_device) close_stream(rt, entry.second);
    }
    by_device.clear();
  }
};

std::shared_ptr<stream_state> per_thread_stream(runtime& rt) {
  thread_local thread_streams streams;
  if (streams.generation != rt.generation) {
    streams.by_device.clear();
    streams.generation = rt.generation;
  }
  device_state& device = current_device(rt);
  auto& stream = streams.by_device[&device];
  if (stream == nullptr) {
    stream = make_stream(rt, device, stream_state::family::per_thread, cudaStreamDefault, 0);
  }
  return stream;
}

cudaError_t create_stream(runtime& rt, cudaStream_t* handle, unsigned flags, int priority) {
  if (handle == nullptr || (flags & ~unsigned{cudaStreamNonBlocking}) != 0) {
    return cudaErrorInvalidValue;
  }
  runtime_lock lock(rt.mutex);
  // Priorities outside the range are clamped to it, as CUDA documents.
  int const clamped = (std::max)(-5, (std::min)(0, priority));
  *handle = rt.streams.add(
      make_stream(rt, current_device(rt), stream_state::family::created, flags, clamped));
  return cudaSuccess;
}

}  // namespace

bool start_thread(void* (*main)(void*), void* argument) noexcept {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  // Blocks all signals: the program's signal handlers must run on the program's threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  int const code = pthread_create(&thread, &attributes, main, argument);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  return code == 0;
}

std::int64_t now_ns() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::shared_ptr<stream_state> find_stream(runtime& rt, cudaStream_t handle,
                                          null_stream default_stream) {
  if (handle == nullptr) {
    handle = default_stream == null_stream::legacy ? cudaStreamLegacy : cudaStreamPerThread;
  }
  if (handle == cudaStreamLegacy) return current_device(rt).legacy;
  if (handle == cudaStreamPerThread) return per_thread_stream(rt);
  return rt.streams.find(handle);
}

std::shared_ptr<stream_state> make_stream(runtime& rt, device_state& device,
                                          stream_state::family kind, unsigned flags, int priority) {
  auto stream = std::make_shared<stream_state>();
  stream->id = kind == stream_state::family::legacy ? 1 : rt.next_stream++;
  stream->device = &device;
  stream->kind = kind;
  stream->flags = flags;
  stream->priority = priority;
  stream->channel = static_cast<unsigned>(stream->id % runtime::wait_channels);
  if (kind != stream_state::family::legacy) device.streams.push_back(stream);
  return stream;
}

void close_stream(runtime&, std::shared_ptr<stream_state> const& stream) {
  stream->closing = true;
  if (stream->worker_started) {
    stream->work_available.notify_one();
  } else {
    remove_stream(*stream);
  }
}

std::shared_ptr<sync_point> pending(stream_state const& stream) {
  if (stream.last == nullptr || stream.last->done.load(std::memory_order_relaxed)) return nullptr;
  return stream.last;
}

// The sync point for work ordered after `stream`. With ThreadSanitizer it is returned even if
// already done, so that the order is visible to it.
static std::shared_ptr<sync_point> order_point(stream_state const& stream) {
#if WARPWRIGHT_HOST_TSAN
  return stream.last;
#else
  return pending(stream);
#endif
}

std::shared_ptr<operation> enqueue(runtime& rt, stream_state& stream,
                                   std::shared_ptr<work const> what,
                                   std::vector<std::shared_ptr<sync_point>> waits) {
  auto op = std::make_shared<operation>();
  op->channel = stream.channel;
  op->what = std::move(what);
  op->call = this_call;
  op->waits = std::move(waits);
  if (stream.kind == stream_state::family::legacy) {
    acquire(&stream.device->drained_blocking);
    for (auto const& other : stream.device->streams) {
      if (!other->blocking()) continue;
      if (auto point = order_point(*other)) op->waits.push_back(std::move(point));
    }
  } else if (stream.blocking()) {
    if (auto point = order_point(*stream.device->legacy)) op->waits.push_back(std::move(point));
  }
  this_call_waits.enqueued = op.get();
  this_call_waits.behind_work = pending(stream) != nullptr;
  for (auto const& point : op->waits) {
    if (!point->done.load(std::memory_order_relaxed)) this_call_waits.behind_work = true;
  }
  if (!stream.worker_started) {
    std::shared_ptr<stream_state> self;
    if (stream.kind == stream_state::family::legacy) {
      self = stream.device->legacy;
    } else {
      for (auto const& entry : stream.device->streams) {
        if (entry.get() == &stream) self = entry;
      }
    }
    start_worker(rt, self);
  }
  release(&op->enqueued);
  stream.queue.push_back(op);
  stream.last = op;
  stream.has_work.store(true, std::memory_order_relaxed);
  if (stream.worker_sleeping) stream.work_available.notify_one();
  return op;
}

void finish(runtime& rt, sync_point& point) {
  if (!rt.options.simulated_time) point.finished_ns = now_ns();
  point.done.store(true, std::memory_order_relaxed);
  if (rt.channel_waiters[point.channel] > 0) rt.channel_done[point.channel].notify_all();
}

void wait_for(runtime& rt, runtime_lock& lock, std::shared_ptr<sync_point> const& point) {
  if (!point->done.load(std::memory_order_relaxed)) {
    if (point.get() != this_call_waits.enqueued || this_call_waits.behind_work) {
      this_call_waits.waited = true;
    }
    lock.native().unlock();
    for (int spin = 0; spin < host_spins && !point->done.load(std::memory_order_relaxed); ++spin) {
      pause_processor();
    }
    lock.native().lock();
    while (!point->done.load(std::memory_order_relaxed)) {
      ++rt.channel_waiters[point->channel];
      rt.channel_done[point->channel].wait(lock.native());
      --rt.channel_waiters[point->channel];
    }
  }
  acquire(&point->token);
}

void wait_for_device(runtime& rt, runtime_lock& lock, device_state& device) {
  std::vector<std::shared_ptr<sync_point>> points;
  if (device.legacy->last != nullptr) points.push_back(device.legacy->last);
  for (auto const& stream : device.streams) {
    if (stream->last != nullptr) points.push_back(stream->last);
  }
  for (auto const& point : points) wait_for(rt, lock, point);
  acquire(&device.drained);
}

}  // namespace warpwright::host

using namespace warpwright::host;

WARPWRIGHT_API cudaError_t cudaStreamCreate(cudaStream_t* handle) {
  static call_site site{"cudaStreamCreate"};
  return api(site, needs::device,
             [&](runtime& rt) { return create_stream(rt, handle, cudaStreamDefault, 0); });
}

WARPWRIGHT_API cudaError_t cudaStreamCreateWithFlags(cudaStream_t* handle, unsigned flags) {
  static call_site site{"cudaStreamCreateWithFlags"};
  return api(site, needs::device, [&](runtime& rt) { return create_stream(rt, handle, flags, 0); });
}

WARPWRIGHT_API cudaError_t cudaStreamCreateWithPriority(cudaStream_t* handle, unsigned flags,
                                                        int priority) {
  static call_site site{"cudaStreamCreateWithPriority"};
  return api(site, needs::device,
             [&](runtime& rt) { return create_stream(rt, handle, flags, priority); });
}

WARPWRIGHT_API cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  static call_site site{"cudaStreamDestroy"};
  return api(site, needs::device, [&](runtime& rt) {
    runtime_lock lock(rt.mutex);
    std::shared_ptr<stream_state> const stream = rt.streams.remove(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (stream->capture != nullptr) abandon_capture(rt, stream);
    close_stream(rt, stream);
    return cudaSuccess;
  });
}

WARPWRIGHT_API void warpwrightHostKeepStream(cudaStream_t handle);
WARPWRIGHT_API void warpwrightHostKeepStream(cudaStream_t handle) {
  runtime& rt = the_runtime();
  runtime_lock lock(rt.mutex);
  auto const stream = rt.streams.find(handle);
  if (stream != nullptr) stream->kept = true;
}

static cudaError_t stream_synchronize(null_stream default_stream, cudaStream_t handle) {
  static call_site site{"cudaStreamSynchronize"};
  return api(site, needs::device, [&](runtime& rt) {
    runtime_lock lock(rt.mutex);
    auto const stream = find_stream(rt, handle, default_stream);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (stream->capture != nullptr) {
      invalidate_capture(*stream->capture);
      return cudaErrorStreamCaptureUnsupported;
    }
    if (cudaError_t const code = forbid_implicit(rt, *stream)) return code;
    if (cudaError_t const code = forbid_unsafe(rt)) return code;
    if (stream->kind == stream_state::family::legacy) {
      // The legacy stream is synchronised when all blocking streams are.
      std::vector<std::shared_ptr<sync_point>> points;
      if (stream->last != nullptr) points.push_back(stream->last);
      for (auto const& other : stream->device->streams) {
        if (other->blocking() && other->last != nullptr) points.push_back(other->last);
      }
      for (auto const& point : points) wait_for(rt, lock, point);
      acquire(&stream->device->drained_blocking);
    } else if (stream->last != nullptr) {
      wait_for(rt, lock, std::shared_ptr<sync_point>(stream->last));
    }
    trim_pools_after_sync(rt);
    return sticky_error(rt);
  });
}
WARPWRIGHT_STREAM_API(cudaStreamSynchronize, _ptsz, stream_synchronize, (cudaStream_t stream),
                      (stream))

static cudaError_t stream_query(null_stream default_stream, cudaStream_t handle) {
  static call_site site{"cudaStreamQuery"};
  return api(site, needs::device, [&](runtime& rt) {
    runtime_lock lock(rt.mutex);
    auto const stream = find_stream(rt, handle, default_stream);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (stream->capture != nullptr) {
      invalidate_capture(*stream->capture);
      return cudaErrorStreamCaptureUnsupported;
    }
    if (cudaError_t const code = forbid_implicit(rt, *stream)) return code;
    if (cudaError_t const code = forbid_unsafe(rt)) return code;
    if (pending(*stream) != nullptr) return cudaErrorNotReady;
    if (stream->kind == stream_state::family::legacy) {
      for (auto const& other : stream->device->streams) {
        if (other->blocking() && pending(*other) != nullptr) return cudaErrorNotReady;
      }
    }
    if (stream->last != nullptr) acquire(&stream->last->token);
    return cudaSuccess;
  });
}
WARPWRIGHT_STREAM_API(cudaStreamQuery, _ptsz, stream_query, (cudaStream_t stream), (stream))

namespace {

// Whether a query of a capturing stream is legal.
enum class capture_rule { allowed, needs_valid_capture, invalidates };

// Queries of a stream's properties.
template <class Read>
cudaError_t read_stream(call_site& site, null_stream default_stream, cudaStream_t handle,
                        bool has_output, capture_rule rule, Read&& read) {
  return api(site, needs::device, [&](runtime& rt) {
    if (!has_output) return cudaErrorInvalidValue;
    runtime_lock lock(rt.mutex);
    auto const stream = find_stream(rt, handle, default_stream);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (rule != capture_rule::allowed) {
      if (cudaError_t const code = forbid_implicit(rt, *stream)) return code;
    }
    if (stream->capture != nullptr && rule == capture_rule::invalidates) {
      invalidate_capture(*stream->capture);
      return cudaErrorStreamCaptureUnsupported;
    }
    if (stream->capture != nullptr && rule == capture_rule::needs_valid_capture) {
      if (cudaError_t const code = check_capture_valid(*stream)) return code;
    }
    read(*stream);
    return cudaSuccess;
  });
}

cudaError_t get_flags(null_stream default_stream, cudaStream_t handle, unsigned* flags) {
  static call_site site{"cudaStreamGetFlags"};
  return read_stream(site, default_stream, handle, flags != nullptr, capture_rule::invalidates,
                     [flags](stream_state const& stream) { *flags = stream.flags; });
}

cudaError_t get_priority(null_stream default_stream, cudaStream_t handle, int* priority) {
  static call_site site{"cudaStreamGetPriority"};
  return read_stream(site, default_stream, handle, priority != nullptr,
                     capture_rule::needs_valid_capture,
                     [priority](stream_state const& stream) { *priority = stream.priority; });
}

cudaError_t get_id(null_stream default_stream, cudaStream_t handle, unsigned long long* id) {
  static call_site site{"cudaStreamGetId"};
  return read_stream(site, default_stream, handle, id != nullptr, capture_rule::invalidates,
                     [id](stream_state const& stream) {
                       // Each device has a legacy stream: the ids differ by device.
                       *id =
                           stream.kind == stream_state::family::legacy
                               ? (static_cast<unsigned long long>(stream.device->ordinal) << 48) + 1
                               : stream.id;
                     });
}

cudaError_t get_device(null_stream default_stream, cudaStream_t handle, int* device) {
  static call_site site{"cudaStreamGetDevice"};
  return read_stream(site, default_stream, handle, device != nullptr, capture_rule::invalidates,
                     [device](stream_state const& stream) { *device = stream.device->ordinal; });
}

class callback_work final : public work {
 public:
  callback_work(cudaStreamCallback_t function, cudaStream_t stream, void* data,
                device_state const& device)
      : function_(function), stream_(stream), data_(data), device_(device) {}
  void run() const override {
    device_access const none(false);
    this_thread.inside_callback = true;
    function_(stream_, static_cast<cudaError_t>(device_.sticky.load(std::memory_order_relaxed)),
              data_);
    this_thread.inside_callback = false;
  }

 private:
  cudaStreamCallback_t function_;
  cudaStream_t stream_;
  void* data_;
  device_state const& device_;
};

cudaError_t add_callback(null_stream default_stream, cudaStream_t handle,
                         cudaStreamCallback_t function, void* data, unsigned flags) {
  static call_site site{"cudaStreamAddCallback"};
  return api(site, needs::device, [&](runtime& rt) {
    if (function == nullptr || flags != 0) return cudaErrorInvalidValue;
    runtime_lock lock(rt.mutex);
    auto const stream = find_stream(rt, handle, default_stream);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (stream->capture != nullptr) {
      invalidate_capture(*stream->capture);
      return cudaErrorStreamCaptureUnsupported;
    }
    return submit(rt, *stream, cudaGraphNodeTypeHost,
                  std::make_shared<callback_work>(function, handle, data, *stream->device));
  });
}

cudaError_t launch_host_function(null_stream default_stream, cudaStream_t handle,
                                 cudaHostFn_t function, void* data) {
  static call_site site{"cudaLaunchHostFunc"};
  return api(site, needs::device, [&](runtime& rt) {
    if (function == nullptr) return cudaErrorInvalidValue;
    runtime_lock lock(rt.mutex);
    auto const stream = find_stream(rt, handle, default_stream);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    return submit(rt, *stream, cudaGraphNodeTypeHost, std::make_shared<host_work>(function, data));
  });
}

}  // namespace

WARPWRIGHT_STREAM_API(cudaStreamGetFlags, _ptsz, get_flags, (cudaStream_t stream, unsigned* flags),
                      (stream, flags))
WARPWRIGHT_STREAM_API(cudaStreamGetPriority, _ptsz, get_priority,
                      (cudaStream_t stream, int* priority), (stream, priority))
WARPWRIGHT_STREAM_API(cudaStreamGetId, _ptsz, get_id, (cudaStream_t stream, unsigned long long* id),
                      (stream, id))
WARPWRIGHT_STREAM_API(cudaStreamGetDevice, _ptsz, get_device, (cudaStream_t stream, int* device),
                      (stream, device))
WARPWRIGHT_STREAM_API(cudaStreamAddCallback, _ptsz, add_callback,
                      (cudaStream_t stream, cudaStreamCallback_t callback, void* data,
                       unsigned flags),
                      (stream, callback, data, flags))
WARPWRIGHT_STREAM_API(cudaLaunchHostFunc, _ptsz, launch_host_function,
                      (cudaStream_t stream, cudaHostFn_t function, void* data),
                      (stream, function, data))
