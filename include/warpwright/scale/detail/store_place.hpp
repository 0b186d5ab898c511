// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Where the store is, and how rank 0 opens it.
#pragma once

#include <warpwright/core/detail/function_ref.hpp>
#include <warpwright/core/detail/system/file.hpp>
#include <warpwright/scale/detail/communicator_error.hpp>
#include <warpwright/scale/detail/rank_messages.hpp>

#include <cstdio>

WARPWRIGHT_BEGIN

namespace detail {

/// How a rank comes to the store.
struct store_place {
  std::string host;
  int port = 0;
  int ports = 1;                                       // the store listens on one of so many
  std::string file;                                    // has the address; empty: it is known
  owned_function<void(void*, std::size_t)> broadcast;  // of rank 0's bytes, instead of either
  int rank = 0;
  int ranks = 1;
  int local_rank = 0;
  std::string nonce;
  bool joins = false;
};

/// The side of rank 0.
class store_server;
/// Starts its thread. @throws communicator_error
[[nodiscard]] store_server* start_store(socket_handle&& listener, store_place const& place,
                                        double deadline, source_location where);
/// Returns when reports and answers have been sent, at the latest after 2 s; or, where others still
/// need it, after the deadline.
void end_store(store_server* server) noexcept;

/// The file names the store's address. It may be of an earlier run, and is then replaced by rank 0.
WARPWRIGHT_COLD inline bool read_store_file(store_place& place) {
  std::FILE* const file = std::fopen(place.file.c_str(), "re");
  if (file == nullptr) return false;
  char host[256] = "";
  bool const whole = std::fscanf(file, "%255s %d", host, &place.port) == 2;
  std::fclose(file);
  place.host = host_name() == host ? "localhost" : host;
  return whole;
}
/// A later run must not find the file, nor lose its own.
WARPWRIGHT_COLD inline void remove_store_file(store_place const& place) noexcept {
  store_place there{};
  there.file = place.file;
  if (!place.file.empty() && read_store_file(there) && there.port == place.port &&
      there.host == "localhost") {
    static_cast<void>(std::remove(place.file.c_str()));
  }
}

/// In rank 0 listens, and says where: in the file, or by the user's broadcast, which all ranks
/// call. Where the launcher's port was taken the others try the next ones, as rank 0 has.
/// @return the store; null: it is in another process
WARPWRIGHT_COLD inline store_server* open_store(store_place& place, double deadline,
                                                source_location where) {
  bool const is_first = place.rank == 0 && !place.joins;
  if (place.joins && place.broadcast) {
    throw_invalid_argument(
        "rendezvous::by() cannot join: the others do not broadcast again; give tcp() or file()",
        where);
  }
  bool const local =
      place.host == "localhost" || place.host == "::1" || place.host.compare(0, 4, "127.") == 0;
  socket_handle listener;
  char address[128] = "";
  if (is_first) {
    text problem = "";
    // On all addresses: a host's name may be that of its loopback there.
    listener = listen_on(local ? place.host : "", place.port, place.ports, problem);
    if (!listener.valid()) {
      if (place.broadcast) place.broadcast(address, sizeof address);  // the others wait in it
      throw_communicator_error(text{"rank 0 "} + problem + ". Is it another program's port?",
                               where);
    }
    static_cast<void>(
        std::snprintf(address, sizeof address, "%s %d\n", host_name().c_str(), place.port));
  }
  if (place.broadcast) {
    place.broadcast(address, sizeof address);
    char host[128] = "";
    if (std::sscanf(address, "%127s %d", host, &place.port) != 2) {
      throw_communicator_error("the broadcast has not brought rank 0's bytes to this rank", where);
    }
    place.host = host_name() == host ? "localhost" : host;
  }
  if (!is_first) return nullptr;
  int const error =
      place.file.empty() ? 0 : write_file(place.file.c_str(), address, std::strlen(address));
  if (error != 0) {
    throw_communicator_error(
        text{"cannot write "} + place.file.c_str() + ": " + std::strerror(error), where);
  }
  if (!local) place.host = "localhost";
  place.ports = 1;
  return start_store(static_cast<socket_handle&&>(listener), place, deadline, where);
}

}  // namespace detail

WARPWRIGHT_END
