// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What launchers say in environment variables, by their manuals:
//
// - torchrun: RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT
// - Slurm: SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID, SLURM_STEP_NODELIST
// - Open MPI: OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE
// - MPICH's Hydra: PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS
#pragma once

#include <warpwright/scale/communicator.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <unistd.h>

WARPWRIGHT_BEGIN_DEFINITIONS

namespace detail {

// @return the variable's number; -1: there is none
WARPWRIGHT_COLD inline int number_of(char const* variable, source_location where) {
  char const* const value = std::getenv(variable);
  if (value == nullptr || *value == 0) return -1;
  char* end = nullptr;
  long const number = std::strtol(value, &end, 10);
  if (*end != 0 || number < 0 || number > 10000000) {
    throw_communicator_error(text{"the environment variable "} + variable + " is '" + value +
                                 "'; a number from 0 is possible",
                             where);
  }
  return static_cast<int>(number);
}

WARPWRIGHT_COLD inline char const* text_of(char const* variable) noexcept {
  char const* const value = std::getenv(variable);
  return value == nullptr ? "" : value;
}

// "gpu[03-05,9],other" -> "gpu03"; "rack[1-2]n[3-4]" -> "rack1n3"
WARPWRIGHT_COLD inline std::string first_host(char const* list) {
  std::string host;
  for (char const* p = list; *p != 0 && *p != ','; ++p) {
    if (*p != '[') {
      host += *p;
      continue;
    }
    for (++p; std::strchr(",-]", *p) == nullptr; ++p) host += *p;  // or the end
    while (*p != 0 && *p != ']') ++p;
    if (*p == 0) break;
  }
  return host;
}

// Of /proc, whose files have no size.
WARPWRIGHT_COLD inline std::string process_file(long pid, char const* name) {
  std::string all;
  std::FILE* const file = std::fopen(("/proc/" + std::to_string(pid) + "/" + name).c_str(), "re");
  if (file == nullptr) return all;
  char chunk[4096];
  for (std::size_t n; (n = std::fread(chunk, 1, sizeof chunk, file)) != 0;) all.append(chunk, n);
  std::fclose(file);
  return all;
}

// What has started the ranks of a host: the first ancestor that has not got their variables, as
// there may be a shell or a profiler between.
WARPWRIGHT_COLD inline std::string process_without(char const* variable) {
  std::string const entry = std::string(1, '\0') + variable + "=";
  long pid = ::getppid();
  for (int i = 0; i < 16 && pid > 1; ++i) {
    if ((std::string(1, '\0') + process_file(pid, "environ")).find(entry) == std::string::npos)
      break;
    // "812 (sh) S 811 …": the name may have spaces and parentheses
    std::string const status = process_file(pid, "stat");
    std::size_t const name_end = status.rfind(')');
    if (name_end == std::string::npos || name_end + 4 > status.size()) break;
    pid = std::atol(status.c_str() + name_end + 4);
  }
  return std::to_string(pid);
}

struct launcher {
  char const* name;
  char const* rank;
  char const* ranks;
  char const* local_rank;
  char const* local_ranks;
  char const* job;  // what all ranks of a run, and no other run, have
  char const* job2;
};

inline constexpr launcher launchers[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID",
     "TORCHELASTIC_RESTART_COUNT"},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"},
    {"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "PMI_JOBID", "PMI_JOBID"},
    {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_TASKS_PER_NODE",
     "SLURM_JOB_ID", "SLURM_STEP_ID"}};

}  // namespace detail

WARPWRIGHT_COLD inline rendezvous rendezvous::from_environment(source_location where) {
  using detail::text;
  rendezvous all;
  detail::store_place& place = all.place_;
  detail::launcher const* found = nullptr;
  text half = "";  // a launcher's variables, of which others than it have set one
  for (detail::launcher const& l : detail::launchers) {
    int const rank = detail::number_of(l.rank, where);
    int const ranks = detail::number_of(l.ranks, where);
    if (rank < 0 && ranks < 0) continue;
    if (rank < 0 || ranks < 1 || rank >= ranks) {
      half = text{l.rank} + " is '" + detail::text_of(l.rank) + "' and " + l.ranks + " is '" +
             detail::text_of(l.ranks) + "': " + l.name + " sets both, the rank below the size";
      continue;
    }
    place.rank = rank;
    place.ranks = ranks;
    found = &l;
    break;
  }
  if (found == nullptr) {
    detail::throw_communicator_error(
        !half.empty() ? half
                      : text{"no launcher has set RANK (torchrun), OMPI_COMM_WORLD_RANK (Open "
                             "MPI), PMI_RANK (MPICH) or "
                             "SLURM_PROCID (Slurm): start the program by one of them, or use "
                             "rendezvous::tcp() or "
                             "file()"},
        where);
  }
  bool const slurm = std::strcmp(found->name, "Slurm") == 0;
  bool const torchrun = *detail::text_of("TORCHELASTIC_RUN_ID") != 0;
  int local_rank = detail::number_of(found->local_rank, where);
  // Slurm's own PMI has no such variable.
  if (local_rank < 0) local_rank = detail::number_of("SLURM_LOCALID", where);
  int const local_ranks = slurm ? -1 : detail::number_of(found->local_ranks, where);
  place.local_rank = local_rank < 0 ? place.rank : local_rank;
  place.nonce = std::string{detail::text_of(found->job)} + "." + detail::text_of(found->job2);
  // Without a job's number: what has started all ranks of one host, as MPICH's proxy.
  if (place.nonce == ".") {
    place.nonce = local_ranks == place.ranks ? detail::process_without(found->rank) : "";
  }
  place.ports = 16;
  int const port = detail::number_of("MASTER_PORT", where);
  if (port == 0 || port > 65500) {
    detail::throw_communicator_error(text{"MASTER_PORT is "} + port + "; 1 to 65500 are possible",
                                     where);
  }
  // From the job's number, so that two jobs on one host rarely meet; if they do, the nonce tells.
  std::uint64_t const hash = detail::nonce_of(place.nonce);
  place.port = port >= 0 ? port + (torchrun ? 1 : 0)  // torchrun itself listens on it
                         : 20000 + static_cast<int>(hash % 600U) * place.ports;
  place.host = detail::text_of("MASTER_ADDR");
  bool const one_host = local_ranks == place.ranks || place.ranks == 1;
  if (place.host.empty() && one_host) place.host = "localhost";
  if (place.host.empty()) {
    place.host = detail::first_host(*detail::text_of("SLURM_STEP_NODELIST") != 0
                                        ? detail::text_of("SLURM_STEP_NODELIST")
                                        : detail::text_of("SLURM_JOB_NODELIST"));
  }
  if (place.host.empty()) {
    detail::throw_communicator_error(text{found->name} +
                                         " does not say where rank 0 is: set MASTER_ADDR to its "
                                         "host (mpirun -x MASTER_ADDR=…), or "
                                         "use rendezvous::by() with MPI_Bcast",
                                     where);
  }
  return all;
}

WARPWRIGHT_COLD inline rendezvous rendezvous::tcp(std::string const& address, int rank, int ranks,
                                                  source_location where) {
  rendezvous all{rank, ranks, where};
  std::size_t const colon = address.rfind(':');
  char* end = nullptr;
  long const port =
      colon == std::string::npos ? -1 : std::strtol(address.c_str() + colon + 1, &end, 10);
  if (colon == 0 || port < 1 || port > 65535 || *end != 0) {
    detail::throw_invalid_argument(detail::text{"rendezvous::tcp: the address is '"} +
                                       address.c_str() +
                                       "'; give a host and a port of 1 to 65535, as host:29500",
                                   where);
  }
  all.place_.host = address.substr(0, colon);
  if (all.place_.host.front() == '[') {  // of IPv6
    all.place_.host = all.place_.host.substr(1, all.place_.host.size() - 2);
  }
  all.place_.port = static_cast<int>(port);
  return all;
}

WARPWRIGHT_COLD inline rendezvous rendezvous::file(std::string const& path, int rank, int ranks,
                                                   source_location where) {
  rendezvous all{rank, ranks, where};
  if (path.empty()) detail::throw_invalid_argument("rendezvous::file: the path is empty", where);
  all.place_.file = path;
  return all;
}

WARPWRIGHT_COLD inline rendezvous::rendezvous(int rank, int ranks, source_location where) {
  if (ranks < 1 || rank < 0 || rank >= ranks) {
    detail::throw_invalid_argument(detail::text{"rendezvous: rank "} + rank + " of " + ranks +
                                       "; from 0 to the number of ranks - 1 is possible",
                                   where);
  }
  place_.rank = place_.local_rank = rank;
  place_.ranks = ranks;
}

WARPWRIGHT_END_DEFINITIONS
