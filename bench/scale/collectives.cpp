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
#include <warpwright/scale/gradient_reducer.hpp>
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

// Nanoseconds of calls on the host, in turn and while the GPU has work: of the first one, and how
// many more the other one takes.
template <class First, class Other>
std::pair<double, double> call_ns(ww::communicator& comm, ww::stream const& stream, First first,
                                  Other other) {
  constexpr int calls = 10;
  std::vector<double> times, added;
  for (int round = 0; round < (bench::on_host ? 10 : 400); ++round) {
    if (round % 10 == 0) {  // before the stream is full, where calls wait for the GPU
      comm.synchronize(stream);
      comm.barrier();
    }
    double const begin = seconds();
    for (int i = 0; i < calls; ++i) first();
    double const middle = seconds();
    for (int i = 0; i < calls; ++i) other();
    double const end = seconds();
    times.push_back((middle - begin) / calls * 1e9);
    added.push_back((end - middle - (middle - begin)) / calls * 1e9);
  }
  comm.synchronize(stream);
  return {median(times), median(added)};
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
  ww::device_buffer<float> plain{pool, stream, most / sizeof(float)};
  float* const data = plain.data();
  ww::check(cudaMemsetAsync(data, 0, most, stream.get()), "cudaMemsetAsync");
  int version = 0;
  check(ncclGetVersion(&version), "ncclGetVersion");
  say(comm, "# NCCL %d, %d ranks\n", version, comm.ranks());

  // NCCL connects the ranks in the first calls, which end in the background: the communicator
  // waits.
  comm.all_reduce(stream, data, 256);
  say(comm, "call,ns\n");
  auto const typed_call = [&] { comm.all_reduce(stream, data, 256); };
  auto const [raw_ns, typed_ns] = call_ns(
      comm, stream, [&] { raw_all_reduce(comm, data, 256, stream); }, typed_call);
  say(comm, "ncclAllReduce,%.0f\ncommunicator adds,%.0f\n", raw_ns, typed_ns);
  {
    ww::rank_watch const watch{comm};
    auto const watched_ns =
        call_ns(
            comm, stream, [&] { raw_all_reduce(comm, data, 256, stream); }, typed_call)
            .second;
    say(comm, "with a rank_watch it adds,%.0f\n", watched_ns);
  }
  std::vector<double> raw, typed;

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

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
  std::size_t const window_most = most / 16;
  void* memory = nullptr;
  ncclWindow_t window{};
  check(ncclMemAlloc(&memory, window_most), "ncclMemAlloc");
  auto* const symmetric = static_cast<float*>(memory);
  comm.barrier();
  check(ncclCommWindowRegister(comm.get(), memory, window_most, &window, NCCL_WIN_COLL_SYMMETRIC),
        "ncclCommWindowRegister");
  say(comm,
      "collective,bytes,plain us,window us,gain,a gradient_reducer of sums takes the window\n");
  for (bool const gathers : {false, true}) {
    for (std::size_t bytes = std::size_t{1} << (bench::on_host ? 10U : 18U); bytes <= window_most;
         bytes *= 4) {
      std::size_t const n = bytes / sizeof(float);
      std::size_t const part = n / static_cast<std::size_t>(comm.ranks());
      auto const run_on = [&](float* x) {
        if (gathers) {
          comm.all_gather(stream, x + static_cast<std::size_t>(comm.rank()) * part, x, part);
        } else {
          comm.all_reduce(stream, x, n);
        }
      };
      raw.clear();
      typed.clear();
      for (int round = 0; round < (bench::on_host ? 2 : 15); ++round) {
        raw.push_back(gpu_us(comm, stream, 20, [&] { run_on(data); }));
        typed.push_back(gpu_us(comm, stream, 20, [&] { run_on(symmetric); }));
      }
      ww::gradient_reducer const reduce{comm, pool, stream, std::vector<std::size_t>{n},
                                        ww::gradient_reducer_options{}.sum().bucket_bytes(bytes)};
      say(comm, "%s,%zu,%.2f,%.2f,%.3f,%s\n", gathers ? "all_gather" : "all_reduce", bytes,
          median(raw), median(typed), median(raw) / median(typed),
          reduce.statistics().window ? "yes" : "no");
    }
  }
  check(ncclCommWindowDeregister(comm.get(), window), "ncclCommWindowDeregister");
  comm.barrier();
  check(ncclMemFree(memory), "ncclMemFree");
#endif
}

}  // namespace

int main(int, char** arguments) { return bench::on_all_ranks(arguments, run); }
