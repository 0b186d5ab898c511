// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What the ranks and the hub say to each other, the sockets that carry it, and the hub.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace warpwright::host_nccl {

/// Why a call fails.
struct failure {
  ncclResult_t code;
  std::string text;
};

enum class verb : std::uint32_t {
  all_reduce,
  reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  send,
  receive
};

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

enum class message : std::uint32_t { hello, ready, call, result, failure, finalize, leave };

/// The head of every message, which `bytes` of payload follow.
struct frame {
  static constexpr std::uint32_t valid = 0x57574e43;
  std::uint32_t magic = valid;
  message kind = message::hello;
  call_description call{};
  std::uint64_t number = 0;    // of the call at its rank; its result has the same
  std::uint64_t sequence = 0;  // of a collective at its communicator, from 1
  std::uint64_t bytes = 0;
  std::uint64_t nonce = 0;
  std::int32_t rank = -1, nranks = 0, device = 0, process = 0;
  ncclResult_t code = ncclSuccess;  // of a failure
  std::uint32_t unused = 0;
};

/// What an ncclUniqueId holds.
struct hub_address {
  std::uint32_t magic, address;  // of IPv4
  std::uint64_t nonce;
  std::uint16_t port;
};

/// Starts the hub of one communicator: a thread of this process to which all ranks connect. It ends
/// when its last rank has left; where no rank ever comes, with the process.
hub_address start_hub();

/// Takes a new socket, which children of fork() will not keep open. @throws failure if it is -1
int own_socket(int descriptor, char const* what);
void close_socket(int descriptor) noexcept;
/// @return false if the connection has ended
bool send_frame(int socket, frame const& head, void const* payload = nullptr);
bool receive_all(int socket, void* data, std::size_t bytes);
/// Starts a thread in which the program's signal handlers do not run.
std::thread start_thread(char const* name, std::function<void()> body);

std::size_t size_of(ncclDataType_t type);
char const* name_of(ncclDataType_t type);
/// Reduces arrays in the order of `parts`. Floating-point types of less than 32 bits are reduced in
/// float and rounded once; integers wrap.
void reduce(call_description const& call, std::vector<std::byte const*> const& parts,
            std::size_t count, std::byte* result);

}  // namespace warpwright::host_nccl
