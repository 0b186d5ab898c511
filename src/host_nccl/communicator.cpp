// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <warpwright/core/detail/launch/host_launch.hpp>
#include <warpwright/testing/host_runtime.hpp>

#include "host_nccl.hpp"

namespace warpwright::host_nccl {
namespace {

using lock_scope = std::unique_lock<std::mutex>;

struct handle_table {
  std::mutex mutex;
  std::map<ncclComm_t, std::shared_ptr<communicator>> comms;
  std::set<ncclComm_t> destroyed;
  std::uintptr_t next = 0x4e43434c0000;
};
handle_table& handles = *new handle_table;  // kernels may look at it at exit

void run_kernel(void const* arguments, unsigned long long begin, unsigned long long end) {
  auto const* const operations = static_cast<operation const*>(arguments);
  lock_scope lock(handles.mutex);
  auto const found = handles.comms.find(operations->communicator);
  if (found == handles.comms.end()) {
    if (handles.destroyed.count(operations->communicator) == 0) return;  // aborted
    return testing::poison_device(operations->device, cudaErrorLaunchFailure);
  }
  std::shared_ptr<communicator> const comm = found->second;
  lock.unlock();
  comm->run(operations + begin, end - begin);
}

// Makes a device current for a scope, in which captures of other threads forbid nothing.
struct device_scope {
  explicit device_scope(int device) {
    cudaGetDevice(&before);
    code = device == before ? cudaSuccess : cudaSetDevice(device);
    cudaThreadExchangeStreamCaptureMode(&mode);
  }
  ~device_scope() {
    cudaThreadExchangeStreamCaptureMode(&mode);
    cudaSetDevice(before);
  }
  int before = 0;
  cudaError_t code;  // whether the device is current
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
};

constexpr operation last_call{nullptr, 0, {verb::finalize, ncclInt8, ncclSum, 0, 0}, {}, {}, 0, 0};

}  // namespace

ncclComm_t add(std::shared_ptr<communicator> const& comm) {
  lock_scope const lock(handles.mutex);
  auto* const handle = reinterpret_cast<ncclComm_t>(handles.next += 16);
  handles.comms.emplace(handle, comm);
  return handle;
}

std::shared_ptr<communicator> find(ncclComm_t handle, search what) {
  lock_scope const lock(handles.mutex);
  auto const found = handles.comms.find(handle);
  if (found == handles.comms.end())
    throw failure{ncclInvalidArgument, "the communicator is null or gone"};
  std::shared_ptr<communicator> comm = found->second;
  if (what != search::keep) handles.comms.erase(found);
  if (what == search::take_destroyed) handles.destroyed.insert(handle);
  return comm;
}

void check(cudaError_t code, char const* call) {
  if (code == cudaSuccess) return;
  cudaGetLastError();
  throw failure{ncclUnhandledCudaError, std::string{call} + ": " + cudaGetErrorString(code)};
}

communicator::communicator(hub_address const& hub, int count, int self, int on_device, bool blocks,
                           bool shares)
    : ranks(count),
      rank(self),
      device(on_device),
      blocking(blocks),
      sharing(shares),
      socket_(make_socket()) {
  frame hello;
  hello.self = {hub.nonce, rank, ranks, device, ::getpid()};
  auto const* const at = reinterpret_cast<sockaddr const*>(&hub.at);
  if (::connect(socket_, at, sizeof hub.at) != 0 || !send_frame(socket_, hello)) {
    close_socket(socket_);
    throw failure{ncclRemoteError, "the process of ncclGetUniqueId() or all its ranks have left"};
  }
  receiver_ = start_thread("ww-nccl", [this] { receive(); });
}

failure communicator::state() {
  lock_scope const lock(mutex_);
  return error_.code != ncclSuccess ? error_ : failure{busy() ? ncclInProgress : ncclSuccess, {}};
}

void communicator::check_ready() {
  failure const now = state();
  if (now.code == ncclInProgress) throw failure{ncclInvalidArgument, "init or finalize goes on"};
  if (now.code != ncclSuccess) throw now;
  lock_scope const lock(mutex_);
  if (stage_ == stage::finalized) throw failure{ncclInvalidUsage, "the communicator is finalized"};
}

void communicator::wait_until_done() {
  lock_scope lock(mutex_);
  changed_.wait(lock, [this] { return done(); });
  if (error_.code != ncclSuccess) throw error_;
  if (aborted_) throw failure{ncclInternalError, "aborted by another thread"};
}

void communicator::receive() {
  std::string hub = "the process of ncclGetUniqueId()";
  frame head;
  std::vector<std::byte> payload;
  while (receive_all(socket_, &head, sizeof head)) {
    payload.resize(head.bytes);
    if (!receive_all(socket_, payload.data(), head.bytes)) break;
    lock_scope const lock(mutex_);
    if (head.kind == message::ready) {
      stage_ = stage::ready;
      hub += ", " + to_string(head.self.process) + " with rank " + to_string(head.self.rank) + ',';
    } else if (head.kind == message::result) {
      results_[head.number] = std::move(payload);
    } else if (head.kind == message::failure && error_.code == ncclSuccess) {
      error_ = {head.code, {reinterpret_cast<char*>(payload.data()), payload.size()}};
    }
    changed_.notify_all();
  }
  lock_scope const lock(mutex_);
  closed_ = true;
  if (!left_ && !aborted_ && error_.code == ncclSuccess) error_ = {ncclRemoteError, hub + " ended"};
  changed_.notify_all();
}

void communicator::launch(cudaStream_t stream, std::vector<operation> const& all) {
  char const* const name = verbs[static_cast<int>(all[0].call.what)].name;
  auto const bytes = all.size() * sizeof(operation);
  constexpr auto align = alignof(operation);
  warpwright_host_kernel const kernel{name,  name,       run_kernel, all.data(), bytes,
                                      align, all.size(), 1,          0};
  device_scope const current(device);
  check(current.code, "cudaSetDevice");
  cudaStreamCaptureStatus status{};
  check(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing");
  lock_scope const lock(event_mutex_);
  for (auto const& [other, behind] : events_) {  // as NCCL's, calls run in their order
    if (other != stream && status == cudaStreamCaptureStatusNone)
      check(cudaStreamWaitEvent(stream, behind, 0), "cudaStreamWaitEvent");
  }
  check(warpwrightHostLaunchKernel(&kernel, stream), name);
  if (status != cudaStreamCaptureStatusNone) return;
  cudaEvent_t& event = events_[stream];
  if (event == nullptr) check(cudaEventCreate(&event), "cudaEventCreate");
  check(cudaEventRecord(event, stream), "cudaEventRecord");
}

// That the connection has ended the receiver sees, too.
std::uint64_t communicator::send(operation const& each, message kind) {
  frame head(kind, each.send_bytes);
  head.call = each.call;
  if (each.call.what == verb::send) head.from = rank, head.to = each.call.root;
  if (each.call.what == verb::recv) head.from = each.call.root, head.to = rank;
  lock_scope const in_order(send_mutex_);
  head.sequence = ++sequences_[{head.from, head.to}];
  head.number = ++last_number_;
  send_frame(socket_, head, each.send);
  return head.number;
}

void communicator::run(operation const* operations, std::size_t count) {
  lock_scope lock(mutex_);
  if (aborted_) return;
  ++running_;
  lock.unlock();
  std::vector<std::uint64_t> numbers;
  for (std::size_t i = 0; i < count; ++i) numbers.push_back(send(operations[i]));
  lock.lock();
  for (std::uint64_t const each : numbers) {
    changed_.wait(lock, [&] { return aborted_ || results_.count(each) > 0; });
  }
  for (std::size_t i = 0; i < count && !aborted_; ++i) {
    auto const result = results_.extract(numbers[i]);
    std::size_t const bytes = (std::min)(operations[i].receive_bytes, result.mapped().size());
    if (bytes > 0) std::memcpy(operations[i].receive, result.mapped().data(), bytes);
  }
  --running_;
  changed_.notify_all();
}

// Waits until all that was enqueued has run. It polls, as failures and aborts must end it.
bool communicator::drain() {
  device_scope const current(device);
  for (bool pending = false;; pending = false) {
    lock_scope events_lock(event_mutex_);
    for (auto const& each : events_) pending |= cudaEventQuery(each.second) == cudaErrorNotReady;
    events_lock.unlock();
    lock_scope lock(mutex_);
    if (aborted_ || error_.code != ncclSuccess) return false;
    if (!pending && running_ == 0) return true;
    changed_.wait_for(lock, std::chrono::milliseconds(1));
  }
}

ncclResult_t communicator::finalize() {
  check_ready();
  lock_scope lock(mutex_);
  stage_ = stage::finalizing;
  finalizer_ = start_thread("ww-nccl-final", [this] {
    if (drain()) run(&last_call, 1);
    lock_scope const end(mutex_);
    stage_ = stage::finalized;
    changed_.notify_all();
  });
  lock.unlock();
  if (!blocking) return ncclInProgress;
  wait_until_done();
  return ncclSuccess;
}

void communicator::gather(void const* mine, void* all, std::size_t bytes) {
  operation const each{nullptr, device, {verb::all_gather, ncclInt8, ncclSum, 0, bytes}, mine,
                       all,     bytes,  bytes * static_cast<std::size_t>(ranks)};
  run(&each, 1);
  lock_scope const lock(mutex_);
  if (error_.code != ncclSuccess) throw error_;
  if (aborted_) throw failure{ncclInternalError, "aborted by another thread"};
}

ncclComm_t communicator::make_child(int color, int key, bool blocks) {
  using choice = std::array<int, 3>;  // color, key, rank
  choice const mine{color, key, rank};
  std::vector<choice> all(static_cast<std::size_t>(ranks));
  gather(&mine, all.data(), sizeof mine);
  std::sort(all.begin(), all.end());
  auto const with = [&](choice const& c) { return c[0] == color; };
  auto const begin = std::find_if(all.begin(), all.end(), with);
  auto const count = static_cast<int>(std::count_if(all.begin(), all.end(), with));
  int const leader = (*begin)[2];
  bool const leads = leader == rank && color != NCCL_SPLIT_NOCOLOR;
  ncclUniqueId const id = leads ? start_hub() : ncclUniqueId{};
  std::vector<ncclUniqueId> ids(all.size());
  gather(&id, ids.data(), sizeof id);
  if (color == NCCL_SPLIT_NOCOLOR) return nullptr;
  hub_address hub;
  std::memcpy(&hub, &ids[static_cast<std::size_t>(leader)], sizeof hub);
  auto const self = static_cast<int>(std::find(begin, all.end(), mine) - begin);
  auto const child = std::make_shared<communicator>(hub, count, self, device, blocks);
  try {
    lock_scope lock(mutex_);
    if (aborted_) throw failure{ncclInternalError, "aborted by another thread"};
    children_.push_back(child);
    lock.unlock();
    child->wait_until_done();
  } catch (...) {
    child->stop();
    throw;
  }
  return add(child);
}

ncclResult_t communicator::split(int color, int key, ncclComm_t* to, bool blocks) {
  check_ready();
  if (splitter_.joinable()) splitter_.join();
  lock_scope lock(mutex_);
  stage_ = stage::initialising;
  splitter_ = start_thread("ww-nccl-split", [this, color, key, to, blocks] {
    failure why;
    try {
      *to = make_child(color, key, blocks);
    } catch (failure const& problem) {
      why = problem;
    } catch (std::exception const& problem) {  // of memory or threads
      why = {ncclSystemError, problem.what()};
    }
    lock_scope const end(mutex_);
    if (error_.code == ncclSuccess) error_ = why;
    stage_ = stage::ready;
    changed_.notify_all();
  });
  lock.unlock();
  if (!blocking) return ncclInProgress;
  wait_until_done();
  return ncclSuccess;
}

search communicator::leave() {
  lock_scope lock(mutex_);
  if (stage_ == stage::initialising) return search::take_aborted;
  changed_.wait(lock, [this] { return done(); });
  bool const finalized = stage_ == stage::finalized;
  lock.unlock();
  if (!drain()) return search::take_aborted;
  if (!finalized) send(last_call);
  left_ = true;
  send(last_call, message::leave);
  lock.lock();  // the hub closes the connection, so that nothing of the message is lost
  changed_.wait_for(lock, std::chrono::seconds(2), [this] { return closed_ || aborted_; });
  return search::take_destroyed;
}

void communicator::stop() {
  lock_scope lock(mutex_);
  aborted_ = true;
  ::shutdown(socket_, SHUT_RDWR);
  changed_.notify_all();
  auto const children = sharing && !left_ ? children_ : decltype(children_){};
  lock.unlock();
  for (auto const& child : children) {
    lock_scope const end(child->mutex_);
    child->aborted_ = true;
    child->changed_.notify_all();
  }
  receiver_.join();
  if (finalizer_.joinable()) finalizer_.join();
  if (splitter_.joinable()) splitter_.join();
  lock.lock();
  changed_.wait(lock, [this] { return running_ == 0; });
  for (auto const& each : events_) cudaEventDestroy(each.second);
}

}  // namespace warpwright::host_nccl
