// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
<<<<<<< HEAD
#include "communicator.hpp"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <warpwright/core/detail/launch/host_launch.hpp>
#include <warpwright/testing/host_runtime.hpp>

namespace warpwright::host_nccl {
namespace {

// Never destroyed: kernels may look at it at exit.
struct handle_table {
  std::mutex mutex;
  std::map<ncclComm_t, std::shared_ptr<communicator>> live;
  std::set<ncclComm_t> destroyed;
  std::uintptr_t next = 0x4e43434c0000;
};
handle_table& handles() {
  static handle_table* const table = new handle_table;
  return *table;
}

void run_kernel(void const* arguments, unsigned long long begin, unsigned long long end) {
  auto const* const operations = static_cast<operation const*>(arguments);
  std::shared_ptr<communicator> comm;
  {
    std::lock_guard<std::mutex> const lock(handles().mutex);
    auto const found = handles().live.find(operations->communicator);
    if (found != handles().live.end()) comm = found->second;
    // A graph that outlived ncclCommDestroy(); after an abort kernels just end.
    else if (handles().destroyed.count(operations->communicator) > 0) {
      testing::poison_device(operations->device, cudaErrorLaunchFailure);
    }
  }
  if (comm != nullptr) comm->run(operations + begin, end - begin);
}

}  // namespace

ncclComm_t add(std::shared_ptr<communicator> const& comm) {
  std::lock_guard<std::mutex> const lock(handles().mutex);
  auto* const handle = reinterpret_cast<ncclComm_t>(handles().next += 16);
  handles().live.emplace(handle, comm);
  return handle;
}

std::shared_ptr<communicator> find(ncclComm_t handle) {
  std::lock_guard<std::mutex> const lock(handles().mutex);
  auto const found = handles().live.find(handle);
  if (found != handles().live.end()) return found->second;
  throw failure{ncclInvalidArgument, handle == nullptr ? "the communicator is null"
                                                       : "the communicator was destroyed, aborted "
                                                         "or never made; make it anew"};
}

std::shared_ptr<communicator> take(ncclComm_t handle, bool destroyed) {
  std::shared_ptr<communicator> comm = find(handle);
  std::lock_guard<std::mutex> const lock(handles().mutex);
  if (handles().live.erase(handle) == 0) throw failure{ncclInvalidArgument, "destroyed twice"};
  if (destroyed) handles().destroyed.insert(handle);
=======
#include <unistd.h>

#include <algorithm>
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
>>>>>>> host_nccl
  return comm;
}

void check(cudaError_t code, char const* call) {
  if (code == cudaSuccess) return;
  cudaGetLastError();
  throw failure{ncclUnhandledCudaError, std::string{call} + ": " + cudaGetErrorString(code)};
}

<<<<<<< HEAD
device_scope::device_scope(int device) {
  cudaGetDevice(&before);
  code = device == before ? cudaSuccess : cudaSetDevice(device);
  cudaThreadExchangeStreamCaptureMode(&mode);
}
device_scope::~device_scope() {
  cudaThreadExchangeStreamCaptureMode(&mode);
  cudaSetDevice(before);
}

ncclResult_t communicator::state() {
  std::lock_guard<std::mutex> const lock(mutex_);
  return error_ != ncclSuccess ? error_ : busy() ? ncclInProgress : ncclSuccess;
}

std::string communicator::text() {
  std::lock_guard<std::mutex> const lock(mutex_);
  return text_;
}

void communicator::set_text(std::string const& text) {
  std::lock_guard<std::mutex> const lock(mutex_);
  text_ = text;
}

void communicator::check_ready() {
  std::lock_guard<std::mutex> const lock(mutex_);
  if (error_ != ncclSuccess) throw failure{error_, error_text_};
  if (busy()) {
    throw failure{ncclInvalidArgument,
                  "the communicator is still busy with init or finalize; wait "
                  "until ncclCommGetAsyncError() gives ncclSuccess"};
  }
=======
communicator::communicator(hub_address const& hub, int count, int self, int on_device, bool blocks)
    : ranks(count), rank(self), device(on_device), blocking(blocks), socket_(make_socket()) {
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
>>>>>>> host_nccl
  if (stage_ == stage::finalized) throw failure{ncclInvalidUsage, "the communicator is finalized"};
}

void communicator::wait_until_done() {
<<<<<<< HEAD
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return aborted_ || error_ != ncclSuccess || !busy(); });
  if (error_ != ncclSuccess) throw failure{error_, error_text_};
  if (aborted_) throw failure{ncclInternalError, "aborted by another thread"};
}

// Needs the lock. The first failure stays.
void communicator::fail(ncclResult_t code, std::string const& text) {
  if (error_ != ncclSuccess || aborted_ || left_) return;
  error_ = code;
  error_text_ = text_ = text;
}

void communicator::receive() {
  std::string text = "the connection to the hub has ended";
  try {
    int const socket = own_socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket");
    std::unique_lock<std::mutex> lock(mutex_);
    socket_ = socket;
    lock.unlock();
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = hub_.address;
    address.sin_port = hub_.port;
    hub_process_ = "which called ncclGetUniqueId()";
    frame head;
    head.nonce = hub_.nonce;
    head.rank = rank;
    head.nranks = ranks;
    head.device = device;
    head.process = ::getpid();
    bool open = ::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
                send_frame(socket, head);
    lock.lock();  // an abort before the connection was made could not end it
    open = open && !aborted_;
    lock.unlock();
    while (open && receive_all(socket, &head, sizeof head)) {
      std::vector<std::byte> payload(head.bytes);
      open = receive_all(socket, payload.data(), payload.size());
      if (open) handle(head, std::move(payload));
    }
    text = "the hub does not answer: the process " + hub_process_ +
           ", has ended, or all other ranks have left";
  } catch (failure const& why) {
    text = why.text;
  } catch (std::bad_alloc const&) {
    text = "no memory for a result";
  }
  std::lock_guard<std::mutex> const lock(mutex_);
  fail(ncclRemoteError, text);
  closed_ = true;
  changed_.notify_all();
}

void communicator::handle(frame const& head, std::vector<std::byte>&& payload) {
  std::lock_guard<std::mutex> const lock(mutex_);
  if (head.kind == message::ready) {
    stage_ = stage::ready;
    hub_process_ =
        std::to_string(head.process) + " (rank " + std::to_string(head.rank) + "), " + hub_process_;
  } else if (head.kind == message::finalize) {
    stage_ = stage::finalized;
  } else if (head.kind == message::result) {
    results_[head.number] = std::move(payload);
  } else if (head.kind == message::failure) {
    fail(head.code, {reinterpret_cast<char const*>(payload.data()), payload.size()});
  }
  changed_.notify_all();
}

void communicator::launch(cudaStream_t stream, std::vector<operation> const& operations) {
  static constexpr char const* names[] = {"ncclAllReduce", "ncclReduce",    "ncclReduceScatter",
                                          "ncclAllGather", "ncclBroadcast", "ncclSend",
                                          "ncclRecv",      "ncclGroup"};
  char const* const name =
      names[operations.size() > 1 ? 7 : static_cast<std::size_t>(operations[0].call.what)];
  warpwright_host_kernel const kernel{name,
                                      name,
                                      run_kernel,
                                      operations.data(),
                                      operations.size() * sizeof(operation),
                                      alignof(operation),
                                      operations.size(),
                                      1,
                                      0};
=======
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
>>>>>>> host_nccl
  device_scope const current(device);
  check(current.code, "cudaSetDevice");
  cudaStreamCaptureStatus status{};
  check(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing");
  check(warpwrightHostLaunchKernel(&kernel, stream), name);
  if (status != cudaStreamCaptureStatusNone) return;
<<<<<<< HEAD
  std::lock_guard<std::mutex> const lock(event_mutex_);
  cudaEvent_t& event = events_[stream];
  if (event == nullptr) {
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  }
  check(cudaEventRecord(event, stream), "cudaEventRecord");
}

void communicator::run(operation const* operations, std::size_t count) {
  std::unique_lock<std::mutex> lock(mutex_);
=======
  lock_scope const lock(event_mutex_);
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
>>>>>>> host_nccl
  if (aborted_) return;
  ++running_;
  lock.unlock();
  std::vector<std::uint64_t> numbers;
<<<<<<< HEAD
  {
    std::lock_guard<std::mutex> const in_order(send_mutex_);
    for (std::size_t i = 0; i < count; ++i) {
      frame head;
      head.kind = message::call;
      head.call = operations[i].call;
      head.number = ++last_number_;
      if (head.call.what < verb::send) head.sequence = ++last_sequence_;
      head.bytes = operations[i].send_bytes;
      numbers.push_back(head.number);
      // That it fails the receiver sees, too.
      send_frame(socket_, head, operations[i].send);
    }
  }
  lock.lock();
  changed_.wait(lock, [&] {
    return aborted_ || std::all_of(numbers.begin(), numbers.end(),
                                   [&](auto each) { return results_.count(each) > 0; });
  });
=======
  for (std::size_t i = 0; i < count; ++i) numbers.push_back(send(operations[i]));
  lock.lock();
  for (std::uint64_t const each : numbers) {
    changed_.wait(lock, [&] { return aborted_ || results_.count(each) > 0; });
  }
>>>>>>> host_nccl
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
<<<<<<< HEAD
  for (;;) {
    bool pending = false;
    {
      std::lock_guard<std::mutex> const lock(event_mutex_);
      for (auto const& each : events_) pending |= cudaEventQuery(each.second) == cudaErrorNotReady;
    }
    std::unique_lock<std::mutex> lock(mutex_);
    if (aborted_ || error_ != ncclSuccess) return false;
=======
  for (bool pending = false;; pending = false) {
    lock_scope events_lock(event_mutex_);
    for (auto const& each : events_) pending |= cudaEventQuery(each.second) == cudaErrorNotReady;
    events_lock.unlock();
    lock_scope lock(mutex_);
    if (aborted_ || error_.code != ncclSuccess) return false;
>>>>>>> host_nccl
    if (!pending && running_ == 0) return true;
    changed_.wait_for(lock, std::chrono::milliseconds(1));
  }
}

<<<<<<< HEAD
void communicator::tell(message kind) {
  frame head;
  head.kind = kind;
  std::lock_guard<std::mutex> const in_order(send_mutex_);
  send_frame(socket_, head);
}

void communicator::finalize() {
  {
    std::lock_guard<std::mutex> const lock(mutex_);
    stage_ = stage::finalizing;
  }
  auto const flush = [this] {
    if (drain()) tell(message::finalize);
  };
  blocking ? flush() : void(finalizer_ = start_thread("ww-nccl-final", flush));
}

bool communicator::leave() {
  std::unique_lock<std::mutex> lock(mutex_);
  if (stage_ == stage::initialising) return false;
  changed_.wait(lock, [this] { return aborted_ || error_ != ncclSuccess || !busy(); });
  lock.unlock();
  if (!drain()) return false;
  lock.lock();
  left_ = true;
  lock.unlock();
  tell(message::leave);
  // The hub closes the connection, so that nothing of the message is lost.
  lock.lock();
  changed_.wait_for(lock, std::chrono::seconds(2), [this] { return closed_ || aborted_; });
  return true;
}

void* communicator::registration(void* handle) {
  std::lock_guard<std::mutex> const lock(mutex_);
  if (handle != nullptr) {
    return registrations_.erase(reinterpret_cast<std::uintptr_t>(handle)) > 0 ? handle : nullptr;
  }
  registrations_.insert(next_registration_ += 16);
  return reinterpret_cast<void*>(next_registration_);
}

void communicator::stop() {
  {
    std::lock_guard<std::mutex> const lock(mutex_);
    aborted_ = true;
    if (socket_ >= 0) ::shutdown(socket_, SHUT_RDWR);
    changed_.notify_all();
  }
  if (receiver_.joinable()) receiver_.join();
  if (finalizer_.joinable()) finalizer_.join();
  std::unique_lock<std::mutex> lock(mutex_);
=======
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
  lock.unlock();
  receiver_.join();
  if (finalizer_.joinable()) finalizer_.join();
  lock.lock();
>>>>>>> host_nccl
  changed_.wait(lock, [this] { return running_ == 0; });
  for (auto const& each : events_) cudaEventDestroy(each.second);
}

}  // namespace warpwright::host_nccl
