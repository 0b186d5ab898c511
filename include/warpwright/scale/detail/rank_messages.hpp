// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What ranks and the store say to each other, and how it is put into words.
#pragma once

#include <warpwright/core/detail/container/array.hpp>
#include <warpwright/core/detail/system/socket.hpp>
#include <warpwright/core/detail/text/text.hpp>

#include <cstdint>
#include <cstring>
#include <string>

#include <unistd.h>

WARPWRIGHT_BEGIN

namespace detail {

struct message_kind {
  enum : std::uint32_t {
    // of a rank to the store
    hello = message_magic + 1,  // who it is
    part,                       // its part of an exchange: what for, and bytes
    state,                      // how far it is; twice the number of the group, and 1: it was asked
    fail,                       // a text: it cannot go on
    leave,                      // its communicator ends; a text: by an exception
    regroup,                    // it is ready for a new group
    done,                       // behind leave: its collectives have completed
    // of the store to a rank
    accepted,  // the hello is right; the others have not come yet
    refused,   // a text; for_good: waiting does not help
    group,     // all have come: a group_message, and the ranks
    whole,     // the parts of all ranks
    beat,      // the store is alive; how many newcomers wait; a text: which ranks are missing
    left,      // a rank's communicator has ended in good order; how far it was
    ask,       // a rank is lost: answer with a state at once
    lost       // the report, and which ranks are lost
  };
};
// The value of `fail`, where it is not the number of an exchange that others have not come to.
inline constexpr std::uint64_t no_exchange = 0, regrouping = ~std::uint64_t{0},
                               hanging = regrouping - 1;
inline constexpr std::uint64_t for_good = 1;
inline constexpr std::uint32_t store_version = 4;
inline constexpr std::uint64_t ns_per_ms = 1000000U;

enum class collective : std::uint8_t {
  none,
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  reduce,
  send,
  receive
};

/// A collective that a rank has called.
struct collective_call {
  std::uint64_t number;  // from 1, of the communicator; 0: none
  std::uint64_t count;   // elements
  std::uint64_t bytes;   // of the larger buffer
  collective operation;
  std::uint8_t type;       // an ncclDataType_t
  std::uint8_t reduction;  // an ncclRedOp_t
  std::uint8_t captured;   // recorded in a graph, where each replay runs it
  std::int32_t root;       // or the peer
};

/// How far a rank is.
struct rank_state {
  std::uint64_t called;     // the last collective
  std::uint64_t hashes[8];  // of all collectives up to it, and up to the ones before: number % 8
  std::uint64_t completed;  // all up to it have completed, as far as is known
  std::uint64_t replay;     // 1: a collective of a replay of a graph is under way
  std::uint64_t replays;    // such that have ended
  collective_call last;
  collective_call waits;  // the one behind `completed`; number 0: none
};

/// @return whether two ranks have called other collectives, as far as both have come
inline bool other_calls(rank_state const& a, rank_state const& b) noexcept {
  bool const less = a.called < b.called;
  std::uint64_t const both = less ? a.called : b.called;
  if (both == 0 || (less ? b.called : a.called) - both >= 8) return false;  // not known
  return a.hashes[both % 8] != b.hashes[both % 8];
}

/// A rank's process.
struct rank_process {
  std::int32_t rank;
  std::int32_t pid;
  char host[56];
};

inline rank_process this_process(int rank) {
  rank_process all{rank, ::getpid(), {}};
  std::string const name = host_name();
  std::size_t const most = sizeof all.host - 1;
  std::memcpy(all.host, name.c_str(), name.size() < most ? name.size() : most);
  return all;
}

struct hello_message {
  std::uint32_t version;
  std::int32_t ranks;
  double deadline;  // s
  std::uint64_t nonce;
  std::uint64_t joins;  // 1: a newcomer, which has no rank yet
  rank_process process;
};

struct group_message {
  std::uint64_t number;
  std::int32_t rank, ranks;
  double deadline;     // of the store
  rank_process store;  // rank -1: it is not in the group
};

inline bool same_call(collective_call const& a, collective_call const& b) noexcept {
  return a.operation == b.operation && a.count == b.count && a.type == b.type &&
         a.reduction == b.reduction && a.root == b.root;
}

/// @param before  the hash of the calls before it
inline std::uint64_t hash_with(std::uint64_t before, collective_call const& c) noexcept {
  std::uint64_t const kind = static_cast<std::uint64_t>(c.operation) | std::uint64_t{c.type} << 8U |
                             std::uint64_t{c.reduction} << 16U |
                             static_cast<std::uint64_t>(static_cast<std::uint32_t>(c.root)) << 32U;
  return ((before ^ c.count) * 0x9e3779b97f4a7c15U ^ kind) * 0xbf58476d1ce4e5b9U;
}

inline std::uint64_t nonce_of(std::string const& text) noexcept {  // FNV-1a
  std::uint64_t hash = 14695981039346656037U;
  for (char const c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return hash;
}

WARPWRIGHT_COLD inline char const* collective_name(collective operation) noexcept {
  static constexpr char const* names[] = {"none",      "all_reduce", "reduce_scatter", "all_gather",
                                          "broadcast", "reduce",     "send",           "receive"};
  return enum_name(names, operation);
}

/// @return "#412 all_reduce 26214400 B"
WARPWRIGHT_COLD inline text call_text(collective_call const& call) {
  if (call.number == 0) return text{"no collective"};
  text const number = text{"#"} + static_cast<unsigned long long>(call.number);
  if (call.operation == collective::none) return number;  // too long ago
  text const all = number + " " + collective_name(call.operation) + " " +
                   static_cast<unsigned long long>(call.bytes) + " B";
  return all + (call.captured != 0 ? " (captured)" : "");
}
/// @return all in which calls may differ: "#412 all_reduce 26214400 B (6553600 float32, sum, root
///   0)"
WARPWRIGHT_COLD inline text full_call_text(collective_call const& call) {
  static constexpr char const* types[] = {"int8",   "uint8",   "int32",   "uint32",  "int64",
                                          "uint64", "float16", "float32", "float64", "bfloat16"};
  static constexpr char const* reductions[] = {"sum", "product", "max", "min", "average"};
  return call_text(call) + " (" + static_cast<unsigned long long>(call.count) + " " +
         enum_name(types, call.type) + ", " + enum_name(reductions, call.reduction) + ", root " +
         call.root + ")";
}

WARPWRIGHT_COLD inline text process_text(rank_process const& p) {
  return (p.rank < 0 ? text{"the process"} : text{"rank "} + p.rank) + " (host " + p.host +
         ", pid " + p.pid + ")";
}

/// @param ranks  rising. @return "rank 3", "ranks 0 to 2", "ranks 1, 4 and 6"
WARPWRIGHT_COLD inline text ranks_text(array<int> const& ranks) {
  text all{ranks.size() == 1 ? "rank " : "ranks "};
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    std::size_t const next = end - i > 2 ? end : i + 1;
    if (i > 0) all += next == ranks.size() ? " and " : ", ";
    all += ranks[i];
    if (next - i > 2) all += text{" to "} + ranks[end - 1];
    i = next;
  }
  return all;
}

}  // namespace detail

WARPWRIGHT_END
