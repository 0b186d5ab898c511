// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// NCCL's functions, and groups of calls.
#include <algorithm>
#include <cstring>
#include <utility>
#include <warpwright/core/detail/launch/host_launch.hpp>

#include "host_nccl.hpp"

namespace warpwright::host_nccl {
namespace {

struct batch {
  std::shared_ptr<communicator> comm;
  cudaStream_t stream;
  std::vector<operation> operations;
};
// The calls of a thread since its ncclGroupStart().
thread_local int depth = 0;
thread_local failure first_failure;
thread_local std::vector<batch> batches;         // one for each communicator and stream
thread_local std::vector<ncclComm_t*> starting;  // where the handles are
thread_local std::string last_text;

// Runs the body of a function: counts the call, lets the fault plan fail it, and keeps the text.
template <class Body>
ncclResult_t call(char const* name, Body&& body) noexcept {
  failure why;
  try {
    int const code = name != nullptr ? warpwrightHostCountCall(name) : 0;
    why.code = code < ncclInProgress ? static_cast<ncclResult_t>(code) : ncclUnhandledCudaError;
    why.text = "error " + to_string(code) + " of the host runtime or a fault plan";
    if (code != 0) throw failure{why};
    if constexpr (!std::is_void_v<decltype(body())>) return body();
    body();
    return ncclSuccess;
  } catch (std::exception const& problem) {  // of memory or threads
    why = {ncclSystemError, problem.what()};
  } catch (failure const& caught) {
    why = caught;
  }
  last_text = (name != nullptr ? std::string{name} + ": " : "") + why.text;
  if (depth > 0 && first_failure.code == ncclSuccess) first_failure = why;
  return why.code;
}

void require(bool holds, std::string const& text) {
  if (!holds) throw failure{ncclInvalidArgument, text};
}

// Begins to make a communicator; finish_start() waits for it.
void start(ncclComm_t* handle, int ranks, ncclUniqueId const& id, int rank, int device,
           bool blocking, bool sharing = false) {
  hub_address hub;
  std::memcpy(&hub, &id, sizeof hub);
  require(handle != nullptr, "the pointer to the communicator is null");
  *handle = nullptr;
  require(hub.magic == frame::valid, "the id is not one that ncclGetUniqueId() made");
  require(rank >= 0 && rank < ranks,
          "rank " + to_string(rank) + " of nranks " + to_string(ranks) + "; it must be below");
  *handle = add(std::make_shared<communicator>(hub, ranks, rank, device, blocking, sharing));
  starting.push_back(handle);
}

// After a failure, or that of another call of the group, all handles are null.
ncclResult_t finish_start(failure first) {
  bool all_block = true;
  for (ncclComm_t* const handle : std::exchange(starting, {})) {
    try {
      if (first.code != ncclSuccess) throw first;
      auto const comm = find(*handle);
      all_block = all_block && comm->blocking;
      if (comm->blocking) comm->wait_until_done();
    } catch (failure const& why) {
      first = why;
      ncclComm_t const failed = std::exchange(*handle, nullptr);
      call(nullptr, [&] {
        find(failed, search::take_aborted)->stop();
      });  // unless another thread has aborted it
    }
  }
  if (first.code != ncclSuccess) throw first;
  return all_block ? ncclSuccess : ncclInProgress;
}

// @return whether a communicator with this configuration blocks
bool blocks(ncclConfig_t const* config) {
  ncclConfig_t const defaults = NCCL_CONFIG_INITIALIZER;
  if (config == nullptr) return true;
  bool const sound = config->size == defaults.size && config->magic == defaults.magic;
  int const blocking = config->blocking == defaults.blocking ? 1 : config->blocking;
  require(sound && blocking >= 0 && blocking <= 1,
          "the config must begin as NCCL_CONFIG_INITIALIZER, with blocking 0 or 1");
  return blocking == 1;
}

ncclResult_t init(char const* name, ncclComm_t* handle, int ranks, ncclUniqueId const& id, int rank,
                  ncclConfig_t const* config) {
  return call(name, [&] {
    bool const blocking = blocks(config);
    int device = 0;
    check(cudaGetDevice(&device), "cudaGetDevice");
    start(handle, ranks, id, rank, device, blocking, config != nullptr && config->splitShare == 1);
    return depth > 0 ? ncclSuccess : finish_start({});
  });
}

ncclResult_t issue(char const* name, call_description const& what, void const* send, void* receive,
                   ncclComm_t handle, cudaStream_t stream) {
  return call(name, [&] {
    auto const comm = find(handle);
    comm->check_ready();
    require(what.type >= 0 && what.type < ncclNumTypes, "unknown data type");
    require(what.reduction >= 0 && what.reduction < ncclNumOps, "unknown reduction");
    require(what.root >= 0 && what.root < comm->ranks,
            "root or peer " + to_string(what.root) + " of " + to_string(comm->ranks) + " ranks");
    auto const ranks = static_cast<std::size_t>(comm->ranks);
    std::size_t const size = types[what.type].size, most = PTRDIFF_MAX / ranks / size;
    require(what.count <= most, "count " + to_string(what.count) + "; at most " + to_string(most));
    bool const is_root = what.root == comm->rank;
    operation each{handle, comm->device, what, send, receive, what.count * size, what.count * size};
    if (what.what == verb::reduce_scatter) each.send_bytes *= ranks;
    if (what.what == verb::all_gather) each.receive_bytes *= ranks;
    if (what.what == verb::recv || (what.what == verb::broadcast && !is_root)) each.send_bytes = 0;
    if (what.what == verb::send || (what.what == verb::reduce && !is_root)) each.receive_bytes = 0;
    require(each.send_bytes == 0 || send != nullptr, "the buffer to send is null");
    require(each.receive_bytes == 0 || receive != nullptr, "the buffer to receive is null");
    if (depth == 0) return comm->launch(stream, {each});
    for (batch& other : batches) {
      if (other.comm == comm && other.stream == stream) return other.operations.push_back(each);
    }
    batches.push_back({comm, stream, {each}});
  });
}

// Gives a value through a pointer.
template <class T, class Get>
ncclResult_t give(char const* name, T* value, Get&& get) {
  return call(name, [&] {
    require(value != nullptr, "the pointer to the result is null");
    *value = get();
  });
}

// Nothing is registered: the handle is the buffer.
void* check_buffer(ncclComm_t comm, void* buffer, std::size_t bytes, int flags) {
  require(find(comm) && buffer != nullptr && bytes > 0, "the buffer or handle is null or empty");
  require(flags == NCCL_WIN_DEFAULT || flags == NCCL_WIN_COLL_SYMMETRIC, "unknown flags");
  return buffer;
}

}  // namespace
}  // namespace warpwright::host_nccl

using namespace warpwright::host_nccl;
#pragma GCC visibility push(default)
// clang-format off
ncclResult_t ncclGetVersion(int* to) { return give(__func__, to, [] { return NCCL_VERSION_CODE; }); }
char const* ncclGetErrorString(ncclResult_t result) {
  static constexpr char const* texts[] = {"no error", "unhandled CUDA error", "system error", "internal error",
                                          "invalid argument", "invalid usage", "remote error", "in progress"};
  return result >= 0 && result < ncclNumResults ? texts[result] : "unknown result code";
}
char const* ncclGetLastError(ncclComm_t comm) {
  std::string const before = last_text;
  call(nullptr, [&] { last_text = find(comm)->state().text; });
  if (comm == nullptr || last_text.empty()) last_text = before;
  return last_text.c_str();
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) { return give(__func__, id, start_hub); }
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  return init(__func__, comm, ranks, id, rank, nullptr);
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  return init(__func__, comm, ranks, id, rank, config);
}
ncclResult_t ncclCommInitAll(ncclComm_t* comms, int count, int const* list) {
  return call(__func__, [&] {
    int devices = 0;
    check(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
    require(comms != nullptr && count > 0, "comms is null, or ndev is below 1");
    std::vector<int> used;
    for (int i = 0; i < count; ++i) {
      int const device = used.emplace_back(list != nullptr ? list[i] : i);
      require(device >= 0 && device < devices, "device " + to_string(device) + " of " + to_string(devices));
      bool const twice = std::count(used.begin(), used.end(), device) > 1;
      if (twice) throw failure{ncclInvalidUsage, "device " + to_string(device) + " is listed twice"};
    }
    ncclUniqueId const id = start_hub();
    for (int i = 0; i < count; ++i) start(&comms[i], count, id, i, used[static_cast<unsigned>(i)], true);
    finish_start({});
  });
}
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* to, ncclConfig_t* config) {
  return call(__func__, [&] {
    require(to != nullptr && depth == 0, "the pointer to the communicator is null, or a group is open");
    *to = nullptr;
    return find(comm)->split(color, key, to, config != nullptr ? blocks(config) : find(comm)->blocking);
  });
}
ncclResult_t ncclCommFinalize(ncclComm_t comm) { return call(__func__, [&] { return find(comm)->finalize(); }); }
ncclResult_t ncclCommDestroy(ncclComm_t c) { return call(__func__, [&] { if (c) find(c, find(c)->leave())->stop(); }); }
ncclResult_t ncclCommAbort(ncclComm_t c) { return call(__func__, [&] { if (c) find(c, search::take_aborted)->stop(); }); }
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  return give(__func__, error, [&] { return find(comm)->state().code; });
}
ncclResult_t ncclCommCount(ncclComm_t comm, int* to) { return give(__func__, to, [&] { return find(comm)->ranks; }); }
ncclResult_t ncclCommCuDevice(ncclComm_t c, int* to) { return give(__func__, to, [&] { return find(c)->device; }); }
ncclResult_t ncclCommUserRank(ncclComm_t comm, int* to) { return give(__func__, to, [&] { return find(comm)->rank; }); }

ncclResult_t ncclMemAlloc(void** m, size_t n) { return call(__func__, [&] { check(cudaMalloc(m, n), "cudaMalloc"); }); }
ncclResult_t ncclMemFree(void* memory) { return call(__func__, [&] { check(cudaFree(memory), "cudaFree"); }); }
ncclResult_t ncclCommRegister(ncclComm_t comm, void* buffer, size_t bytes, void** handle) {
  return give(__func__, handle, [&] { return check_buffer(comm, buffer, bytes, 0); });
}
ncclResult_t ncclCommDeregister(ncclComm_t c, void* h) { return call(__func__, [&] { check_buffer(c, h, 1, 0); }); }
ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* buffer, size_t bytes, ncclWindow_t* to, int flags) {
  return give(__func__, to, [&] { return static_cast<ncclWindow_t>(check_buffer(comm, buffer, bytes, flags)); });
}
ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) {
  return call(__func__, [&] { check_buffer(comm, window, 1, 0); });
}

using type_t = ncclDataType_t;
ncclResult_t ncclAllReduce(void const* in, void* out, size_t n, type_t t, ncclRedOp_t op, ncclComm_t c, cudaStream_t s) {
  return issue(__func__, {verb::all_reduce, t, op, 0, n}, in, out, c, s);
}
ncclResult_t ncclReduce(void const* in, void* out, size_t n, type_t t, ncclRedOp_t op, int root, ncclComm_t c, cudaStream_t s) {
  return issue(__func__, {verb::reduce, t, op, root, n}, in, out, c, s);
}
ncclResult_t ncclReduceScatter(void const* in, void* out, size_t n, type_t t, ncclRedOp_t op, ncclComm_t c, cudaStream_t s) {
  return issue(__func__, {verb::reduce_scatter, t, op, 0, n}, in, out, c, s);
}
ncclResult_t ncclAllGather(void const* in, void* out, size_t n, type_t t, ncclComm_t c, cudaStream_t s) {
  return issue(__func__, {verb::all_gather, t, ncclSum, 0, n}, in, out, c, s);
}
ncclResult_t ncclBroadcast(void const* in, void* out, size_t n, type_t t, int root, ncclComm_t c, cudaStream_t s) {
  return issue(__func__, {verb::broadcast, t, ncclSum, root, n}, in, out, c, s);
}
ncclResult_t ncclBcast(void* buffer, size_t n, type_t t, int root, ncclComm_t c, cudaStream_t s) {
  return issue(__func__, {verb::broadcast, t, ncclSum, root, n}, buffer, buffer, c, s);
}
ncclResult_t ncclSend(void const* in, size_t n, type_t t, int peer, ncclComm_t c, cudaStream_t s) {
  return issue(__func__, {verb::send, t, ncclSum, peer, n}, in, nullptr, c, s);
}
ncclResult_t ncclRecv(void* out, size_t n, type_t t, int peer, ncclComm_t c, cudaStream_t s) {
  return issue(__func__, {verb::recv, t, ncclSum, peer, n}, nullptr, out, c, s);
}
ncclResult_t ncclGroupStart() { return call(__func__, [] { ++depth; }); }
// clang-format on
ncclResult_t ncclGroupEnd() {
  ncclResult_t const counted = call(__func__, [] {});  // its fault is one of the group
  return call(nullptr, [counted] {
    if (depth == 0) throw failure{ncclInvalidUsage, "ncclGroupEnd: there was no ncclGroupStart()"};
    if (--depth > 0) return counted;
    auto const all = std::exchange(batches, {});
    ncclResult_t const result = finish_start(std::exchange(first_failure, {}));
    for (batch const& each : all) each.comm->launch(each.stream, each.operations);
    return result;
  });
}
#pragma GCC visibility pop
