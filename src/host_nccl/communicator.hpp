// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "wire.hpp"

namespace warpwright::host_nccl {

/// A call as the argument of a kernel: plain, as graphs copy it.
struct operation {
  ncclComm_t communicator;
  int device;
  call_description call;
  void const* send;
  void* receive;
  std::size_t send_bytes, receive_bytes;
};

/// One rank's end of a communicator. A thread of its own connects to the hub, then receives.
class communicator {
 public:
  communicator(hub_address const& hub, int count, int self, int on_device, bool blocks)
      : ranks(count), rank(self), device(on_device), blocking(blocks), hub_(hub) {}
  ~communicator() { close_socket(socket_); }
  void start() {
    receiver_ = start_thread("ww-nccl", [this] { receive(); });
  }

  /// What ncclCommGetAsyncError gives.
  ncclResult_t state();
  std::string text();
  void set_text(std::string const& text);
  /// @throws failure unless operations may be enqueued
  void check_ready();
  /// Waits until init or finalize has ended. @throws failure if it failed
  void wait_until_done();
  void launch(cudaStream_t stream, std::vector<operation> const& operations);
  /// The kernel: sends all that it contributes, then waits for all results.
  void run(operation const* operations, std::size_t count);
  /// Begins to flush; wait_until_done() waits for the other ranks.
  void finalize();
  /// Waits for what is enqueued and tells the hub. @return false if that is not possible
  bool leave();
  /// Makes a registration, for null, or ends it. @return its handle; null if there is none
  void* registration(void* handle);
  /// Ends all waits, threads and the connection.
  void stop();

  int const ranks, rank, device;
  bool const blocking;

 private:
  enum class stage { initialising, ready, finalizing, finalized };

  void receive();
  void handle(frame const& head, std::vector<std::byte>&& payload);
  void fail(ncclResult_t code, std::string const& text);
  bool busy() const { return stage_ == stage::initialising || stage_ == stage::finalizing; }
  bool drain();
  void tell(message kind);

  hub_address const hub_;
  std::mutex send_mutex_;  // so that numbers are in the order of the connection
  std::uint64_t last_number_ = 0, last_sequence_ = 0;
  std::mutex event_mutex_;
  std::map<cudaStream_t, cudaEvent_t> events_;  // behind the last operation of each stream
  std::thread receiver_, finalizer_;

  std::mutex mutex_;  // of all below
  std::condition_variable changed_;
  int socket_ = -1;
  stage stage_ = stage::initialising;
  bool aborted_ = false, left_ = false, closed_ = false;
  int running_ = 0;  // kernels
  std::set<std::uintptr_t> registrations_;
  std::uintptr_t next_registration_ = 0;
  ncclResult_t error_ = ncclSuccess;
  std::string error_text_, text_, hub_process_;
  std::map<std::uint64_t, std::vector<std::byte>> results_;  // by number of the call
};

/// The live communicators by handle; handles are never used again.
ncclComm_t add(std::shared_ptr<communicator> const& comm);
/// @throws failure if there is none
std::shared_ptr<communicator> find(ncclComm_t handle);
/// Removes it: only one of several threads that destroy or abort it gets it.
std::shared_ptr<communicator> take(ncclComm_t handle, bool destroyed);

/// Makes a device current for a scope, in which captures of other threads forbid nothing.
struct device_scope {
  explicit device_scope(int device);
  ~device_scope();
  device_scope(device_scope const&) = delete;
  device_scope& operator=(device_scope const&) = delete;

  int before = 0;
  cudaError_t code;  // whether the device is current
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
};

/// @throws failure if a call of CUDA's has failed
void check(cudaError_t code, char const* call);

}  // namespace warpwright::host_nccl
