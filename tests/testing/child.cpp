// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The program that the tests start to observe the end of a process: each argument is a scenario.
#include <cuda_runtime_api.h>
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <warpwright/core/launch.hpp>
#include <warpwright/memory/buffer.hpp>
#include <warpwright/memory/pool.hpp>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <thread>

namespace {

namespace ww = warpwright;

constexpr int wrong = 99;  // a step of the scenario failed

#define NEED(condition)                                                               \
  do {                                                                                \
    if (!(condition)) {                                                               \
      std::fprintf(stderr, "child.cpp:%d: %s does not hold\n", __LINE__, #condition); \
      std::_Exit(wrong);                                                              \
    }                                                                                 \
  } while (false)

struct write_index {
  std::uint32_t* x;
  void operator()(std::uint64_t i) const { x[i] = static_cast<std::uint32_t>(i); }
};

void CUDART_CB doze(void*) { usleep(20000); }
void CUDART_CB stay(void*) {
  for (;;) pause();
}
void CUDART_CB leave(void*) { std::exit(5); }
void CUDART_CB touch(void* p) { *static_cast<int volatile*>(p) = 1; }

std::uint32_t* device_array(std::size_t size) {
  void* p = nullptr;
  NEED(cudaMalloc(&p, size * sizeof(std::uint32_t)) == cudaSuccess);
  return static_cast<std::uint32_t*>(p);
}

cudaStream_t new_stream() {
  cudaStream_t s = nullptr;
  NEED(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking) == cudaSuccess);
  return s;
}

// ---- environment variables

int clean() {
  std::uint32_t* const p = device_array(100);
  cudaStream_t const s = new_stream();
  ww::for_each_index(ww::stream_ref{s}, 100, write_index{p});
  NEED(cudaStreamDestroy(s) == cudaSuccess);
  NEED(cudaFree(p) == cudaSuccess);
  return 0;
}

int leak() {
  device_array(250);
  new_stream();
  cudaEvent_t event = nullptr;
  NEED(cudaEventCreate(&event) == cudaSuccess);
  return 0;
}

// A free that is queued at exit is not a leak.
int free_at_the_end() {
  cudaStream_t const s = cudaStreamLegacy;
  void* p = nullptr;
  NEED(cudaMallocAsync(&p, 1000, s) == cudaSuccess);
  NEED(cudaLaunchHostFunc(s, doze, nullptr) == cudaSuccess);
  NEED(cudaFreeAsync(p, s) == cudaSuccess);
  return 0;
}

int calls() {
  void* p = nullptr;
  for (int i = 0; i < 3; ++i) {
    NEED(cudaMalloc(&p, 16) == cudaSuccess);
    NEED(cudaFree(p) == cudaSuccess);
  }
  NEED(cudaFree(&p) == cudaErrorInvalidValue);
  NEED(cudaDeviceSynchronize() == cudaSuccess);
  return 0;
}

// Prints the devices and the results of three allocations.
int describe() {
  int count = 0;
  static_cast<void>(cudaGetDeviceCount(&count));
  std::printf("devices %d\n", count);
  for (int device = 0; device < count; ++device) {
    cudaDeviceProp properties{};
    NEED(cudaGetDeviceProperties(&properties, device) == cudaSuccess);
    std::printf("%s, %zu bytes\n", properties.name, properties.totalGlobalMem);
  }
  for (int i = 0; i < 3; ++i) {
    void* p = nullptr;
    std::printf("%s\n", cudaGetErrorName(cudaMalloc(&p, 1000)));
    if (p != nullptr) cudaFree(p);
  }
  return 0;
}

// Files of the runtime back large memory of cudaMalloc and that of a pool; none takes a descriptor
// that the program writes its output to.
int standard_streams_closed() {
  for (int descriptor = 0; descriptor < 3; ++descriptor) close(descriptor);
  std::size_t const size = std::size_t{8} << 20;
  device_array(size / sizeof(std::uint32_t));
  ww::memory_pool pool{ww::current_device()};
  ww::stream stream;
  ww::device_buffer<std::uint32_t> const buffer{pool, stream, size / sizeof(std::uint32_t)};
  for (int descriptor = 0; descriptor < 3; ++descriptor) {
    NEED(fcntl(descriptor, F_GETFD) == -1 && errno == EBADF);
    // What a print would overwrite, were it memory.
    NEED(write(descriptor, "text", 4) == -1 && errno == EBADF);
  }
  return 0;
}

// ---- ends of a process

int work_queued() {
  cudaStream_t const s = new_stream();
  std::uint32_t* const p = device_array(1000);
  for (int i = 0; i < 50; ++i) {
    NEED(cudaLaunchHostFunc(s, doze, nullptr) == cudaSuccess);
    ww::for_each_index(ww::stream_ref{s}, 1000, write_index{p});
  }
  return 3;
}

int work_stuck() {
  cudaStream_t const s = new_stream();
  std::uint32_t* const p = device_array(1000);
  NEED(cudaLaunchHostFunc(s, stay, nullptr) == cudaSuccess);
  ww::for_each_index(ww::stream_ref{s}, 1000, write_index{p});
  return 3;
}

int streams_left() {
  std::uint32_t* const p = device_array(1000);
  cudaEvent_t event = nullptr;
  NEED(cudaEventCreate(&event) == cudaSuccess);
  for (int i = 0; i < 50; ++i) {
    cudaStream_t const s = new_stream();
    NEED(cudaStreamWaitEvent(s, event, 0) == cudaSuccess);
    ww::for_each_index(ww::stream_ref{s}, 1000, write_index{p});
    NEED(cudaEventRecord(event, s) == cudaSuccess);
  }
  return 3;
}

struct frees_at_the_end {
  char const* name;
  void* memory = nullptr;
  cudaStream_t stream = nullptr;
  ~frees_at_the_end() {
    if (memory == nullptr) return;
    cudaError_t const waited = cudaStreamSynchronize(stream);
    cudaError_t const freed = cudaFree(memory);
    cudaError_t const destroyed = cudaStreamDestroy(stream);
    std::printf("%s: %s %s %s\n", name, cudaGetErrorName(waited), cudaGetErrorName(freed),
                cudaGetErrorName(destroyed));
    std::fflush(stdout);
  }
};

frees_at_the_end made_before_the_runtime{"before"};

int static_destructors() {
  made_before_the_runtime.memory = device_array(10);
  made_before_the_runtime.stream = new_stream();
  static frees_at_the_end made_after{"after"};
  made_after.memory = device_array(10);
  made_after.stream = new_stream();
  NEED(cudaLaunchHostFunc(made_after.stream, doze, nullptr) == cudaSuccess);
  return 3;
}

// In a child forked by a multi-threaded process the leak checker of GCC 12 deadlocks on a lock of
// the allocator that another thread held; the parent is still checked.
bool is_forked_child = false;

// The runtime is unusable in a forked child, and still usable in the parent.
int fork_after_use() {
  cudaStream_t const s = new_stream();
  std::uint32_t* const p = device_array(100);
  NEED(cudaLaunchHostFunc(s, doze, nullptr) == cudaSuccess);
  pid_t const child = fork();
  NEED(child >= 0);
  if (child == 0) {
    is_forked_child = true;
    void* q = nullptr;
    NEED(cudaMalloc(&q, 16) == cudaErrorInitializationError);
    NEED(cudaStreamSynchronize(s) == cudaErrorInitializationError);
    NEED(cudaFree(p) == cudaErrorInitializationError);
    std::exit(4);
  }
  int status = 0;
  NEED(waitpid(child, &status, 0) == child);
  NEED(WIFEXITED(status) && WEXITSTATUS(status) == 4);
  ww::for_each_index(ww::stream_ref{s}, 100, write_index{p});
  NEED(cudaStreamSynchronize(s) == cudaSuccess);
  NEED(cudaFree(p) == cudaSuccess);
  return 3;
}

int fork_before_use() {
  pid_t const child = fork();
  NEED(child >= 0);
  std::uint32_t* const p = device_array(100);
  ww::for_each_index(ww::stream_ref{cudaStreamLegacy}, 100, write_index{p});
  std::uint32_t last = 0;
  NEED(cudaMemcpy(&last, p + 99, sizeof last, cudaMemcpyDeviceToHost) == cudaSuccess);
  NEED(last == 99);
  if (child == 0) std::exit(4);
  int status = 0;
  NEED(waitpid(child, &status, 0) == child);
  NEED(WIFEXITED(status) && WEXITSTATUS(status) == 4);
  return 3;
}

int exit_in_host_function() {
  cudaStream_t const s = new_stream();
  NEED(cudaLaunchHostFunc(s, leave, nullptr) == cudaSuccess);
  static_cast<void>(cudaLaunchHostFunc(s, doze, nullptr));  // fails if the exit was first
  static_cast<void>(cudaStreamSynchronize(s));
  for (;;) pause();  // the host function ends the process
}

void destroyed_by(cudaHostFn_t destroy) {
  cudaUserObject_t object = nullptr;
  NEED(cudaUserObjectCreate(&object, nullptr, destroy, 1, cudaUserObjectNoDestructorSync) ==
       cudaSuccess);
  NEED(cudaUserObjectRelease(object, 1) == cudaSuccess);
}

int destructor_stuck() {
  destroyed_by(stay);
  destroyed_by(leave);  // never called
  usleep(50000);
  return 3;
}

int exit_in_destructor() {
  destroyed_by(leave);
  for (;;) pause();
}

int exit_beside_a_waiting_thread() {
  cudaStream_t const s = new_stream();
  NEED(cudaLaunchHostFunc(s, stay, nullptr) == cudaSuccess);
  std::thread([s] { static_cast<void>(cudaStreamSynchronize(s)); }).detach();
  usleep(50000);
  return 3;
}

// A thread's default stream is destroyed with the thread, after its work is done.
int threads_end() {
  constexpr std::size_t threads = 20;
  std::uint32_t* const all = device_array(threads * 1000);
  for (std::size_t i = 0; i < threads; ++i) {
    std::thread([p = all + i * 1000] {
      NEED(cudaLaunchHostFunc(cudaStreamPerThread, doze, nullptr) == cudaSuccess);
      ww::for_each_index(ww::stream_ref{cudaStreamPerThread}, 1000, write_index{p});
    }).join();
  }
  NEED(cudaDeviceSynchronize() == cudaSuccess);
  for (std::size_t i = 0; i < threads; ++i) {
    std::uint32_t last = 0;
    NEED(cudaMemcpy(&last, all + i * 1000 + 999, sizeof last, cudaMemcpyDeviceToHost) ==
         cudaSuccess);
    NEED(last == 999);
  }
  return 3;
}

// ---- accesses to device memory by host code

int read_device_memory() {
  std::uint32_t* const p = device_array(100);
  NEED(cudaMemset(p, 0, 400) == cudaSuccess);
  NEED(cudaDeviceSynchronize() == cudaSuccess);
  return static_cast<int>(*static_cast<std::uint32_t volatile*>(p));
}

int write_device_memory() {
  *static_cast<std::uint32_t volatile*>(device_array(100)) = 1;
  return 0;
}

int read_pool_memory() {
  void* p = nullptr;
  NEED(cudaMallocAsync(&p, 400, cudaStreamLegacy) == cudaSuccess);
  NEED(cudaStreamSynchronize(cudaStreamLegacy) == cudaSuccess);
  return *static_cast<int volatile*>(p) == 1;
}

int touch_in_host_function() {
  NEED(cudaLaunchHostFunc(cudaStreamLegacy, touch, device_array(100)) == cudaSuccess);
  NEED(cudaDeviceSynchronize() == cudaSuccess);
  return 0;
}

int touch_in_another_thread() {
  std::uint32_t* const p = device_array(100);
  std::thread([p] { touch(p); }).join();
  return 0;
}

int use_after_free_in_kernel() {
  std::uint32_t* const p = device_array(100);
  NEED(cudaFree(p) == cudaSuccess);
  ww::for_each_index(ww::stream_ref{cudaStreamLegacy}, 100, write_index{p});
  static_cast<void>(cudaDeviceSynchronize());
  return 0;
}

int use_after_free_on_host() {
  std::uint32_t* const p = device_array(100);
  NEED(cudaFree(p) == cudaSuccess);
  touch(p);
  return 0;
}

int beyond_the_page() {
  std::uint32_t* const p = device_array(1024);  // one page
  device_array(1024);                           // the adjacent allocation
  ww::for_each_index(ww::stream_ref{cudaStreamLegacy}, 1025, write_index{p});
  static_cast<void>(cudaDeviceSynchronize());
  return 0;
}

// Legal accesses: kernels, copies, managed and pinned memory.
int permitted() {
  std::uint32_t* const p = device_array(100);
  std::uint32_t values[100] = {};
  ww::for_each_index(ww::stream_ref{cudaStreamLegacy}, 100, write_index{p});
  NEED(cudaMemcpy(values, p, sizeof values, cudaMemcpyDeviceToHost) == cudaSuccess);
  NEED(values[99] == 99);
  void* pinned = nullptr;
  void* managed = nullptr;
  NEED(cudaMallocHost(&pinned, 400) == cudaSuccess);
  NEED(cudaMallocManaged(&managed, 400, cudaMemAttachGlobal) == cudaSuccess);
  touch(pinned);
  touch(managed);
  ww::for_each_index(ww::stream_ref{cudaStreamLegacy}, 100,
                     write_index{static_cast<std::uint32_t*>(managed)});
  NEED(cudaDeviceSynchronize() == cudaSuccess);
  NEED(static_cast<std::uint32_t*>(managed)[99] == 99);
  return 0;
}

struct situation {
  char const* name;
  int (*run)();
};

constexpr situation situations[] = {
    {"clean", clean},
    {"leak", leak},
    {"free_at_the_end", free_at_the_end},
    {"calls", calls},
    {"describe", describe},
    {"standard_streams_closed", standard_streams_closed},
    {"work_queued", work_queued},
    {"work_stuck", work_stuck},
    {"streams_left", streams_left},
    {"static_destructors", static_destructors},
    {"fork_after_use", fork_after_use},
    {"fork_before_use", fork_before_use},
    {"exit_in_host_function", exit_in_host_function},
    {"exit_beside_a_waiting_thread", exit_beside_a_waiting_thread},
    {"threads_end", threads_end},
    {"destructor_stuck", destructor_stuck},
    {"exit_in_destructor", exit_in_destructor},
    {"read_device_memory", read_device_memory},
    {"write_device_memory", write_device_memory},
    {"read_pool_memory", read_pool_memory},
    {"touch_in_host_function", touch_in_host_function},
    {"touch_in_another_thread", touch_in_another_thread},
    {"use_after_free_in_kernel", use_after_free_in_kernel},
    {"use_after_free_on_host", use_after_free_on_host},
    {"beyond_the_page", beyond_the_page},
    {"permitted", permitted},
};

}  // namespace

#if defined(__SANITIZE_ADDRESS__)
extern "C" int __lsan_is_turned_off() { return is_forked_child ? 1 : 0; }
#endif

int main(int argc, char** argv) {
  for (situation const& each : situations) {
    if (argc == 2 && std::strcmp(argv[1], each.name) == 0) return each.run();
  }
  std::fprintf(stderr, "child: no such situation\n");
  return wrong;
}
