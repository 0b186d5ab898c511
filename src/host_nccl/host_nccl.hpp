// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What the ranks and the hub say to each other, the sockets that carry it, and both ends.
#pragma once

#include <nccl.h>
#include <netinet/in.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace warpwright::host_nccl {
using std::to_string;
/// Why a call fails.
struct failure {
  ncclResult_t code = ncclSuccess;
  std::string text;
};

/// A type of elements. Those of less than 32 bits that are not integers are reduced in float and
/// rounded once; integers wrap. The order is that of the parts.
struct type_facts {
  std::size_t size;
  char const* name;
  void (*reduce)(ncclRedOp_t, std::vector<std::byte const*> const&, std::size_t, std::byte*);
};
extern type_facts const types[ncclNumTypes];

enum class verb { all_reduce, reduce, reduce_scatter, all_gather, broadcast, finalize, send, recv };
struct verb_facts {
  char const *name, *root;  // and the words before the root in a text, or null
};
extern verb_facts const verbs[];

/// What all ranks must say alike of a collective; sends and receives agree in type and count.
struct call_description {
  verb what;
  ncclDataType_t type;
  ncclRedOp_t reduction;
  std::int32_t root;  // or the peer; 0 where there is none
  std::uint64_t count;
};
/// "all_reduce of 8 float32 sum"
std::string to_text(call_description const& call);

enum class message : std::uint32_t { hello, ready, call, result, failure, leave };
struct identity {
  std::uint64_t nonce;
  std::int32_t rank, nranks, device, process;
};

/// The head of every message, which `bytes` of payload follow.
struct frame {
  explicit frame(message what = message::hello, std::uint64_t length = 0)
      : kind(what), bytes(length) {}
  static constexpr std::uint32_t valid = 0x57574e43;
  std::uint32_t magic = valid;
  message kind;
  call_description call{};
  std::int32_t from = -1, to = -1;  // of a send and its receive
  std::uint64_t sequence = 0;       // from 1, of calls with the same `from` and `to`
  std::uint64_t number = 0;         // of the call at its rank; its result has the same
  std::uint64_t bytes;
  identity self{};                  // of a hello
  ncclResult_t code = ncclSuccess;  // of a failure
};

/// What an ncclUniqueId holds.
struct hub_address {
  std::uint64_t magic, nonce;
  sockaddr_in at;
};

/// Starts the hub of one communicator: a thread of this process to which all ranks connect. It ends
/// when its last rank has left; where no rank ever comes, with the process.
ncclUniqueId start_hub();

/// @return a socket above the standard streams. @throws failure
int make_socket();
void close_socket(int socket) noexcept;
/// @return false if the connection has ended
bool send_frame(int socket, frame const& head, void const* payload = nullptr);
bool receive_all(int socket, void* data, std::size_t bytes);
/// Starts a thread in which the program's signal handlers do not run.
std::thread start_thread(char const* name, std::function<void()> body);

/// A call as the argument of a kernel: plain, as graphs copy it.
struct operation {
  ncclComm_t communicator;
  int device;
  call_description call;
  void const* send;
  void* receive;
  std::size_t send_bytes, receive_bytes;
};

enum class search { keep, take_destroyed, take_aborted };
/// One rank's end of a communicator.
class communicator {
 public:
  /// Connects to the hub. @throws failure
  communicator(hub_address const& hub, int count, int self, int on_device, bool blocks,
               bool shares = false);
  ~communicator() { close_socket(socket_); }
  /// What ncclCommGetAsyncError gives, with its text.
  failure state();
  /// @throws failure unless operations may be enqueued
  void check_ready();
  /// Waits until init or finalize has ended. @throws failure if it failed
  void wait_until_done();
  void launch(cudaStream_t stream, std::vector<operation> const& operations);
  /// The kernel: sends all that it contributes, then waits for all results.
  void run(operation const* operations, std::size_t count);
  ncclResult_t finalize();
  /// Makes a communicator of the ranks with the same color. The end of this one ends it, if it
  /// shares.
  ncclResult_t split(int color, int key, ncclComm_t* to, bool blocks);
  /// Waits for what is enqueued and tells the hub. @return take_aborted if that is not possible
  search leave();
  /// Ends all waits, threads and the connection.
  void stop();

  int const ranks, rank, device;
  bool const blocking, sharing;  // sharing: its children end when it is aborted

 private:
  enum class stage { initialising, ready, finalizing, finalized };
  void receive();
  bool busy() const { return stage_ == stage::initialising || stage_ == stage::finalizing; }
  bool done() const { return aborted_ || error_.code != ncclSuccess || !busy(); }
  bool drain();
  ncclComm_t make_child(int color, int key, bool blocks);
  void gather(void const* mine, void* all, std::size_t bytes);
  std::uint64_t send(operation const& each, message kind = message::call);
  int const socket_;
  std::thread receiver_, finalizer_, splitter_;
  std::mutex send_mutex_;  // so that numbers are in the order of the connection
  std::uint64_t last_number_ = 0;
  std::atomic<bool> left_{false};
  std::map<std::pair<int, int>, std::uint64_t> sequences_;  // by source and destination
  std::mutex event_mutex_;
  std::map<cudaStream_t, cudaEvent_t> events_;  // behind the last operation of each stream
  std::mutex mutex_;                            // of all below
  std::condition_variable changed_;
  stage stage_ = stage::initialising;
  bool aborted_ = false, closed_ = false;
  int running_ = 0;  // kernels
  failure error_;    // the first
  std::vector<std::shared_ptr<communicator>> children_;
  std::map<std::uint64_t, std::vector<std::byte>> results_;  // by number of the call
};

/// Handles are never used again.
ncclComm_t add(std::shared_ptr<communicator> const& comm);
/// Only one of several threads takes it. @throws failure if there is none
std::shared_ptr<communicator> find(ncclComm_t handle, search what = search::keep);
/// @throws failure if a call of CUDA's has failed
void check(cudaError_t code, char const* call);

}  // namespace warpwright::host_nccl
