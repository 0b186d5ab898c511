// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// A program on all GPUs, one process each; on the host runtime two. A launcher may start them, too.
#pragma once

#include <warpwright/core/device.hpp>
#include <warpwright/scale/communicator.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

namespace bench {

namespace ww = warpwright;

inline constexpr bool on_host = WARPWRIGHT_HOST_RUNTIME != 0;

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0.0 : values[values.size() / 2];
}

/// Calls function(comm) in each rank. @return an exit status
template <class F>
int on_all_ranks(char** arguments, F function) try {
  if (std::getenv("RANK") == nullptr && std::getenv("OMPI_COMM_WORLD_RANK") == nullptr) {
    // CUDA does not outlive a fork: the number of GPUs comes from the environment, or from the
    // driver.
    std::size_t gpus = 2;
    if (char const* const given = std::getenv("GPUS")) {
      gpus = static_cast<std::size_t>(std::atoi(given));
    } else if (!on_host) {
      gpus = 0;
      while (::access(("/dev/nvidia" + std::to_string(gpus)).c_str(), F_OK) == 0) ++gpus;
    }
    std::string const port = std::to_string(22000 + ::getpid() % 5000);
    std::vector<pid_t> children;
    for (std::size_t rank = 0; rank < gpus; ++rank) {
      children.push_back(::fork());
      if (children.back() != 0) continue;
      ::setenv("RANK", std::to_string(rank).c_str(), 1);
      ::setenv("LOCAL_RANK", std::to_string(rank).c_str(), 1);
      ::setenv("WORLD_SIZE", std::to_string(gpus).c_str(), 1);
      ::setenv("MASTER_ADDR", "localhost", 1);
      ::setenv("MASTER_PORT", port.c_str(), 1);
      ::execv("/proc/self/exe", arguments);
      ::_exit(127);
    }
    int failed = 0;
    for (pid_t const child : children) {
      int status = 0;
      ::waitpid(child, &status, 0);
      failed = status != 0 ? 1 : failed;
    }
    return failed;
  }
  ww::rendezvous const launched = ww::rendezvous::from_environment();
  ww::scoped_device const device{ww::device_id{launched.local_rank() % ww::device_count()}};
  ww::communicator comm{launched};
  function(comm);
  return 0;
} catch (std::exception const& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}

/// Prints a line in rank 0.
template <class... Values>
void say(ww::communicator const& comm, char const* format, Values... values) {
  if (comm.rank() != 0) return;
  if constexpr (sizeof...(values) == 0) {
    std::fputs(format, stdout);
  } else {
    std::printf(format, values...);
  }
  std::fflush(stdout);
}

}  // namespace bench
