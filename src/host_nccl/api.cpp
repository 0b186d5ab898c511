// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// NCCL's functions, and groups of calls.
#include <cstring>
#include <new>
#include <utility>
#include <warpwright/core/detail/launch/host_launch.hpp>

#include "communicator.hpp"

namespace warpwright::host_nccl {
namespace {

thread_local std::string last_text;  // of ncclGetLastError(NULL)

// The calls of a thread since its ncclGroupStart().
struct group {
  int depth = 0;
  failure first{ncclSuccess, {}};
  struct batch {
    std::shared_ptr<communicator> comm;
    cudaStream_t stream;
    std::vector<operation> operations;
  };
  std::vector<batch> batches;         // one for each communicator and stream
  std::vector<ncclComm_t*> starting;  // where the handles of ncclCommInitRank() are
};
thread_local group this_group;

// Runs the body of a function: counts the call, lets the fault plan fail it, and keeps the text.
template <class Body>
ncclResult_t call(char const* name, ncclComm_t handle, Body&& body) noexcept {
  failure why{ncclSuccess, {}};
  try {
    try {
      if (int const code = warpwrightHostCountCall(name); code != 0) {
        bool const known = code < ncclInProgress;
        throw failure{known ? static_cast<ncclResult_t>(code) : ncclUnhandledCudaError,
                      "error " + std::to_string(code) + " of the host runtime or a fault plan"};
      }
      return body();
    } catch (std::bad_alloc const&) {
      throw failure{ncclSystemError, "out of memory"};
    }
  } catch (failure const& caught) {
    why = caught;
  }
  last_text = std::string{name} + ": " + why.text;
  if (this_group.depth > 0 && this_group.first.code == ncclSuccess) this_group.first = why;
  try {
    if (handle != nullptr) find(handle)->set_text(last_text);
  } catch (failure const&) {  // it has no text
  }
  return why.code;
}

void require(bool holds, std::string const& text) {
  if (!holds) throw failure{ncclInvalidArgument, text};
}

ncclResult_t start(ncclComm_t* handle, int ranks, ncclUniqueId const& id, int rank, int device,
                   bool blocking) {
  hub_address hub;
  std::memcpy(&hub, &id, sizeof hub);
  require(handle != nullptr, "the pointer to the communicator is null");
  *handle = nullptr;
  require(hub.magic == frame::valid, "the id is not one that ncclGetUniqueId() made");
  require(ranks > 0 && rank >= 0 && rank < ranks,
          "rank " + std::to_string(rank) + " of nranks " + std::to_string(ranks) +
              "; it must be at least 0 and less than nranks");
  auto const comm = std::make_shared<communicator>(hub, ranks, rank, device, blocking);
  comm->start();
  *handle = add(comm);
  return blocking ? ncclSuccess : ncclInProgress;
}

// Waits for communicators that are starting; after a failure all their handles are null.
ncclResult_t finish_start(std::vector<ncclComm_t*> const& handles) {
  ncclResult_t result = ncclSuccess;
  failure first{ncclSuccess, {}};
  std::vector<std::shared_ptr<communicator>> comms;
  for (ncclComm_t* const each : handles) {
    comms.push_back(find(*each));
    if (!comms.back()->blocking) result = ncclInProgress;
  }
  for (std::size_t i = 0; i < comms.size(); ++i) {
    if (!comms[i]->blocking) continue;
    try {
      comms[i]->wait_until_done();
    } catch (failure const& why) {
      if (first.code == ncclSuccess) first = why;
      try {
        take(*handles[i], false)->stop();
      } catch (failure const&) {  // another thread has aborted it
      }
      *handles[i] = nullptr;
    }
  }
  if (first.code != ncclSuccess) throw first;
  return result;
}

ncclResult_t init(char const* name, ncclComm_t* handle, int ranks, ncclUniqueId const& id, int rank,
                  ncclConfig_t const* config) {
  return call(name, nullptr, [&] {
    ncclConfig_t const defaults = NCCL_CONFIG_INITIALIZER;
    if (config == nullptr) config = &defaults;
    require(config->size == defaults.size && config->magic == defaults.magic &&
                config->blocking <= 1 &&
                (config->blocking >= 0 || config->blocking == NCCL_CONFIG_UNDEF_INT),
            "the config must begin as NCCL_CONFIG_INITIALIZER, with blocking 0 or 1");
    int device = 0;
    check(cudaGetDevice(&device), "cudaGetDevice");
    ncclResult_t const result = start(handle, ranks, id, rank, device, config->blocking != 0);
    if (this_group.depth > 0) {
      this_group.starting.push_back(handle);
      return ncclSuccess;
    }
    return result == ncclSuccess ? finish_start({handle}) : result;
  });
}

ncclUniqueId make_id() {
  hub_address const hub = start_hub();
  ncclUniqueId id{};
  std::memcpy(&id, &hub, sizeof hub);
  return id;
}

ncclResult_t communicate(char const* name, call_description const& what, void const* send,
                         void* receive, ncclComm_t handle, cudaStream_t stream) {
  return call(name, handle, [&] {
    auto const comm = find(handle);
    comm->check_ready();
    require(what.type >= 0 && what.type < ncclNumTypes, "unknown data type");
    require(what.reduction >= 0 && what.reduction < ncclNumOps, "unknown reduction");
    require(what.root >= 0 && what.root < comm->ranks, "root or peer " + std::to_string(what.root) +
                                                           "; the communicator has ranks 0 to " +
                                                           std::to_string(comm->ranks - 1));
    auto const ranks = static_cast<std::size_t>(comm->ranks);
    std::size_t const most = PTRDIFF_MAX / ranks / size_of(what.type);
    require(what.count <= most,
            "count " + std::to_string(what.count) + "; the limit is " + std::to_string(most));
    std::size_t const bytes = what.count * size_of(what.type);
    bool const root = what.root == comm->rank;
    bool const sends = what.what != verb::receive && (what.what != verb::broadcast || root);
    bool const receives = what.what != verb::send && (what.what != verb::reduce || root);
    operation const each{handle,
                         comm->device,
                         what,
                         send,
                         receive,
                         sends ? bytes * (what.what == verb::reduce_scatter ? ranks : 1) : 0,
                         receives ? bytes * (what.what == verb::all_gather ? ranks : 1) : 0};
    require((each.send_bytes == 0 || send != nullptr) &&
                (each.receive_bytes == 0 || receive != nullptr),
            "a buffer is null, and count is " + std::to_string(what.count));
    if (this_group.depth == 0) {
      comm->launch(stream, {each});
      return ncclSuccess;
    }
    for (group::batch& batch : this_group.batches) {
      if (batch.comm != comm || batch.stream != stream) continue;
      batch.operations.push_back(each);
      return ncclSuccess;
    }
    this_group.batches.push_back({comm, stream, {each}});
    return ncclSuccess;
  });
}

// Gives a property of a communicator.
template <class T, class Read>
ncclResult_t read(char const* name, ncclComm_t handle, T* value, Read&& get) {
  return call(name, handle, [&] {
    require(value != nullptr, "the pointer to the result is null");
    *value = get(*find(handle));
    return ncclSuccess;
  });
}

ncclResult_t add_registration(char const* name, ncclComm_t comm, void* buffer, std::size_t bytes,
                              void** handle, int flags) {
  return read(name, comm, handle, [&](communicator& self) {
    require(buffer != nullptr && bytes > 0, "the buffer is null or has no bytes");
    require(flags == NCCL_WIN_DEFAULT || flags == NCCL_WIN_COLL_SYMMETRIC, "unknown window flags");
    return self.registration(nullptr);
  });
}

ncclResult_t end_registration(char const* name, ncclComm_t comm, void* handle) {
  return call(name, comm, [&] {
    require(find(comm)->registration(handle) != nullptr, "the handle is not registered");
    return ncclSuccess;
  });
}

}  // namespace
}  // namespace warpwright::host_nccl

using namespace warpwright::host_nccl;

#pragma GCC visibility push(default)
extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  return call(__func__, nullptr, [&] {
    require(version != nullptr, "the pointer is null");
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
  });
}

char const* ncclGetErrorString(ncclResult_t result) {
  static constexpr char const* texts[] = {"no error",
                                          "unhandled CUDA error",
                                          "system error",
                                          "internal error",
                                          "invalid argument",
                                          "invalid usage",
                                          "remote process exited or there was a network error",
                                          "operation in progress"};
  return result >= 0 && result < ncclNumResults ? texts[result] : "unknown result code";
}

char const* ncclGetLastError(ncclComm_t comm) {
  try {
    if (comm != nullptr) last_text = find(comm)->text();
  } catch (failure const&) {  // the thread's, then
  }
  return last_text.c_str();
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  return call(__func__, nullptr, [&] {
    require(id != nullptr, "the pointer to the id is null");
    *id = make_id();
    return ncclSuccess;
  });
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId id, int rank) {
  return init(__func__, comm, nranks, id, rank, nullptr);
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  return init(__func__, comm, nranks, id, rank, config);
}

ncclResult_t ncclCommInitAll(ncclComm_t* comms, int ndev, int const* devlist) {
  return call(__func__, nullptr, [&] {
    int devices = 0;
    check(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
    require(comms != nullptr && ndev > 0, "no communicators: comms is null or ndev is below 1");
    std::set<int> used;
    for (int i = 0; i < ndev; ++i) {
      int const device = devlist != nullptr ? devlist[i] : i;
      require(device >= 0 && device < devices,
              "device " + std::to_string(device) + "; there are " + std::to_string(devices));
      if (!used.insert(device).second) throw failure{ncclInvalidUsage, "a device is listed twice"};
    }
    ncclUniqueId const id = make_id();
    std::vector<ncclComm_t*> handles;
    for (int i = 0; i < ndev; ++i) {
      start(&comms[i], ndev, id, i, devlist != nullptr ? devlist[i] : i, true);
      handles.push_back(&comms[i]);
    }
    return finish_start(handles);
  });
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return call(__func__, comm, [&] {
    auto const self = find(comm);
    self->check_ready();
    self->finalize();
    if (!self->blocking) return ncclInProgress;
    self->wait_until_done();
    return ncclSuccess;
  });
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;  // as NCCL
  return call(__func__, comm, [&] {
    bool const left = find(comm)->leave();
    take(comm, left)->stop();
    return ncclSuccess;
  });
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (comm == nullptr) return ncclSuccess;
  return call(__func__, comm, [&] {
    take(comm, false)->stop();
    return ncclSuccess;
  });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  return read(__func__, comm, error, [](communicator& self) { return self.state(); });
}

ncclResult_t ncclCommCount(ncclComm_t const comm, int* count) {
  return read(__func__, comm, count, [](communicator& self) { return self.ranks; });
}

ncclResult_t ncclCommCuDevice(ncclComm_t const comm, int* device) {
  return read(__func__, comm, device, [](communicator& self) { return self.device; });
}

ncclResult_t ncclCommUserRank(ncclComm_t const comm, int* rank) {
  return read(__func__, comm, rank, [](communicator& self) { return self.rank; });
}

ncclResult_t ncclMemAlloc(void** memory, size_t bytes) {
  return call(__func__, nullptr, [&] {
    require(memory != nullptr, "the pointer to the memory is null");
    check(cudaMalloc(memory, bytes), "cudaMalloc");
    return ncclSuccess;
  });
}

ncclResult_t ncclMemFree(void* memory) {
  return call(__func__, nullptr, [&] {
    check(cudaFree(memory), "cudaFree");
    return ncclSuccess;
  });
}

ncclResult_t ncclCommRegister(ncclComm_t const comm, void* buffer, size_t bytes, void** handle) {
  return add_registration(__func__, comm, buffer, bytes, handle, 0);
}

ncclResult_t ncclCommDeregister(ncclComm_t const comm, void* handle) {
  return end_registration(__func__, comm, handle);
}

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* buffer, size_t bytes,
                                    ncclWindow_t* window, int flags) {
  return add_registration(__func__, comm, buffer, bytes, reinterpret_cast<void**>(window), flags);
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) {
  return end_registration(__func__, comm, window);
}

ncclResult_t ncclAllReduce(void const* send, void* receive, size_t count, ncclDataType_t type,
                           ncclRedOp_t reduction, ncclComm_t comm, cudaStream_t stream) {
  return communicate(__func__, {verb::all_reduce, type, reduction, 0, count}, send, receive, comm,
                     stream);
}

ncclResult_t ncclReduce(void const* send, void* receive, size_t count, ncclDataType_t type,
                        ncclRedOp_t reduction, int root, ncclComm_t comm, cudaStream_t stream) {
  return communicate(__func__, {verb::reduce, type, reduction, root, count}, send, receive, comm,
                     stream);
}

ncclResult_t ncclReduceScatter(void const* send, void* receive, size_t count, ncclDataType_t type,
                               ncclRedOp_t reduction, ncclComm_t comm, cudaStream_t stream) {
  return communicate(__func__, {verb::reduce_scatter, type, reduction, 0, count}, send, receive,
                     comm, stream);
}

ncclResult_t ncclAllGather(void const* send, void* receive, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return communicate(__func__, {verb::all_gather, type, ncclSum, 0, count}, send, receive, comm,
                     stream);
}

ncclResult_t ncclBroadcast(void const* send, void* receive, size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return communicate(__func__, {verb::broadcast, type, ncclSum, root, count}, send, receive, comm,
                     stream);
}

ncclResult_t ncclBcast(void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                       cudaStream_t stream) {
  return communicate(__func__, {verb::broadcast, type, ncclSum, root, count}, buffer, buffer, comm,
                     stream);
}

ncclResult_t ncclSend(void const* send, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return communicate(__func__, {verb::send, type, ncclSum, peer, count}, send, nullptr, comm,
                     stream);
}

ncclResult_t ncclRecv(void* receive, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return communicate(__func__, {verb::receive, type, ncclSum, peer, count}, nullptr, receive, comm,
                     stream);
}

ncclResult_t ncclGroupStart() {
  return call(__func__, nullptr, [] {
    ++this_group.depth;
    return ncclSuccess;
  });
}

ncclResult_t ncclGroupEnd() {
  return call(__func__, nullptr, [] {
    if (this_group.depth == 0) throw failure{ncclInvalidUsage, "there was no ncclGroupStart()"};
    if (--this_group.depth > 0) return ncclSuccess;
    group const all = std::move(this_group);
    this_group = {};
    if (all.first.code != ncclSuccess) {  // not all ranks have come, perhaps
      for (ncclComm_t* const each : all.starting) take(std::exchange(*each, nullptr), false)->stop();
      throw all.first;
    }
    ncclResult_t const result = finish_start(all.starting);
    for (group::batch const& each : all.batches) each.comm->launch(each.stream, each.operations);
    return result;
  });
}

}  // extern "C"
#pragma GCC visibility pop
