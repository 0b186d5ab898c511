// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Collectives by communicator beside the same calls of NCCL, in turn: the host's time of a call,
// and times and bus bandwidths (as nccl-tests counts them) by size; and plain memory beside
// registered windows. Prints CSV.
//
//   scale_collectives
#include "ranks.hpp"

#include <warpwright/memory/buffer.hpp>
#include <warpwright/scale/rank_watch.hpp>

#include <chrono>
#include <memory>

namespace {

namespace ww = warpwright;
using bench::median;
using bench::say;

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void check(ncclResult_t result, char const* call) {
  if (result != ncclSuccess && result != ncclInProgress) {
    throw std::runtime_error{std::string{call} + ": " + ncclGetErrorString(result)};
  }
}
void raw_all_reduce(ww::communicator const& comm, float* data, std::size_t n, ww::stream const& s) {
  check(ncclAllReduce(data, data, n, ncclFloat32, ncclSum, comm.get(), s.get()), "ncclAllReduce");
}

// Nanoseconds of a call on the host, while the GPU has work.
template <class Call>
double call_ns(ww::communicator& comm, ww::stream const& stream, Call call) {
  constexpr int calls = bench::on_host ? 50 : 200;
  comm.barrier();
  double const begin = seconds();
  for (int i = 0; i < calls; ++i) call();
  double const ns = (seconds() - begin) / calls * 1e9;
  comm.synchronize(stream);
  return ns;
}

// Microseconds of a call on the GPU.
template <class Call>
double gpu_us(ww::communicator& comm, ww::stream const& stream, int calls, Call call) {
  ww::timed_event begin, end;
  comm.barrier();
  begin.record(stream.get());
  for (int i = 0; i < calls; ++i) call();
  end.record(stream.get());
  comm.synchronize(stream);
  return static_cast<double>(end.milliseconds_since(begin)) * 1e3 / calls;
}

void run(ww::communicator& comm) {
  ww::stream stream;
  ww::memory_pool pool{ww::current_device(),
                       ww::memory_pool_options{}.source(ww::memory_source::cuda_malloc)};
  std::size_t const most = std::size_t{1} << (bench::on_host ? 16U : 30U);
  ww::device_buffer<float> memory{pool, stream, most / sizeof(float)};
  float* const data = memory.data();
  ww::check(cudaMemsetAsync(data, 0, most, stream.get()), "cudaMemsetAsync");
  int version = 0;
  check(ncclGetVersion(&version), "ncclGetVersion");
  say(comm, "# NCCL %d, %d ranks\n", version, comm.ranks());

  // NCCL connects the ranks in the first calls, which end in the background: the communicator
  // waits.
  comm.all_reduce(stream, data, 256);
  say(comm, "call,ns\n");
  std::vector<double> raw, typed, watched;
  for (int round = 0; round < (bench::on_host ? 3 : 41); ++round) {
    raw.push_back(call_ns(comm, stream, [&] { raw_all_reduce(comm, data, 256, stream); }));
    typed.push_back(call_ns(comm, stream, [&] { comm.all_reduce(stream, data, 256); }));
    ww::rank_watch const watch{comm};
    watched.push_back(call_ns(comm, stream, [&] { comm.all_reduce(stream, data, 256); }));
  }
  say(comm, "ncclAllReduce,%.0f\ncommunicator,%.0f\nwith a rank_watch,%.0f\n", median(raw),
      median(typed), median(watched));

  say(comm, "all_reduce bytes,ncclAllReduce us,communicator us,ratio,bus GB/s\n");
  double const bus = 2.0 * (comm.ranks() - 1) / comm.ranks();
  for (std::size_t bytes = 1024; bytes <= most; bytes *= 4) {
    int const calls = bytes < (std::size_t{16} << 20U) ? 40 : 8;
    std::size_t const n = bytes / sizeof(float);
    raw.clear();
    typed.clear();
    comm.all_reduce(stream, data, n);
    for (int round = 0; round < (bench::on_host ? 2 : 15); ++round) {
      raw.push_back(gpu_us(comm, stream, calls, [&] { raw_all_reduce(comm, data, n, stream); }));
      typed.push_back(gpu_us(comm, stream, calls, [&] { comm.all_reduce(stream, data, n); }));
    }
    say(comm, "%zu,%.2f,%.2f,%.3f,%.1f\n", bytes, median(raw), median(typed),
        median(typed) / median(raw), static_cast<double>(bytes) * bus / median(typed) * 1e-3);
  }
}

}  // namespace

int main(int, char** arguments) { return bench::on_all_ranks(arguments, run); }
