// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The host NCCL: ranks are threads, or processes of this program's hidden test cases. Threads have
// a device each: on one, a cudaFree() of a rank would wait for the kernel of another, for ever.
#include "support/catch.hpp"
#include "support/sanitized.hpp"

#include <nccl.h>
#include <warpwright/core/detail/tensors/small_float.hpp>
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>

#include <csignal>
#include <mutex>
#include <sstream>
#include <thread>

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ww = warpwright;

namespace {

using bytes = std::vector<unsigned char>;
using doubles = std::vector<double>;

std::mutex problems_mutex;
std::string problems;  // of the threads: assertions of Catch2 are for the main thread
void expect(bool holds, std::string const& text) {
  std::lock_guard<std::mutex> const lock(problems_mutex);
  if (!holds) problems += text + " (" + ncclGetLastError(nullptr) + ")\n";
}
#define EXPECT(condition) expect(condition, #condition)
void no_problems() {
  CHECK(problems == "");
  problems.clear();
}

struct element_type {
  ncclDataType_t code;
  std::size_t size;
  void (*encode)(double, void*);
};
template <class T>
void put(double value, void* to) {
  T const converted = static_cast<T>(value);
  std::memcpy(to, &converted, sizeof(T));
}
template <auto convert>
void put_small(double value, void* to) {
  auto const bits = convert(static_cast<float>(value));
  std::memcpy(to, &bits, sizeof bits);
}
element_type const f32{ncclFloat, 4, put<float>};
// clang-format off
std::vector<element_type> const types{
    f32, {ncclInt8, 1, put<std::int8_t>}, {ncclInt, 4, put<std::int32_t>}, {ncclInt64, 8, put<std::int64_t>},
    {ncclDouble, 8, put<double>}, {ncclHalf, 2, put_small<ww::detail::half_from_float>},
    {ncclBfloat16, 2, put_small<ww::detail::bfloat16_from_float>},
    {ncclFloat8e4m3, 1, put_small<ww::detail::nearest_small_float<__nv_fp8_e4m3>>},
    {ncclFloat8e5m2, 1, put_small<ww::detail::nearest_small_float<__nv_fp8_e5m2>>}};
// clang-format on

bytes encoded(element_type const& type, doubles const& values) {
  bytes result(values.size() * type.size);
  for (std::size_t i = 0; i < values.size(); ++i) type.encode(values[i], &result[i * type.size]);
  return result;
}

struct stream {
  cudaStream_t handle = nullptr;
  stream() { EXPECT(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking) == cudaSuccess); }
  ~stream() { cudaStreamDestroy(handle); }
  stream(stream const&) = delete;
  void wait() const { EXPECT(cudaStreamSynchronize(handle) == cudaSuccess); }
};
struct buffer {
  char* data = nullptr;
  std::size_t size;
  stream const& on;
  buffer(stream const& s, bytes const& content) : size(content.size()), on(s) {
    cudaMalloc(reinterpret_cast<void**>(&data), size + 1);
    cudaMemcpyAsync(data, content.data(), size, cudaMemcpyHostToDevice, on.handle);
    on.wait();
  }
  buffer(stream const& s, doubles const& values) : buffer(s, encoded(f32, values)) {}
  ~buffer() { cudaFree(data); }
  buffer(buffer const&) = delete;
  bytes content() const {
    bytes result(size);
    cudaMemcpyAsync(result.data(), data, size, cudaMemcpyDeviceToHost, on.handle);
    on.wait();
    return result;
  }
  bool is(doubles const& values) const { return content() == encoded(f32, values); }
};

ncclUniqueId make_id() {
  ncclUniqueId id{};
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  return id;
}

template <class Body>  // body(rank)
void run_threads(int count, Body const& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank) threads.emplace_back([&body, rank] { body(rank); });
  for (std::thread& each : threads) each.join();
}
template <class Body>  // body(rank, communicator, stream)
void run_ranks(int count, Body const& body) {
  ww::testing::reset_host_runtime(ww::testing::host_runtime_options{}.with_devices(4));
  ncclUniqueId const id = make_id();
  run_threads(count, [&](int rank) {
    cudaSetDevice(rank);
    stream s;
    ncclComm_t comm = nullptr;
    EXPECT(ncclCommInitRank(&comm, count, id, rank) == ncclSuccess);
    if (comm == nullptr) return;
    body(rank, comm, s);
    EXPECT(ncclCommDestroy(comm) == ncclSuccess);
  });
  no_problems();
}

struct alone {
  stream s;
  buffer value{s, doubles{3.0}};
  ncclComm_t comm = nullptr;
  explicit alone(int ranks = 1, int rank = 0, ncclUniqueId const& id = make_id()) {
    REQUIRE(ncclCommInitRank(&comm, ranks, id, rank) == ncclSuccess);
  }
};

ncclResult_t wait_for_state(ncclComm_t comm, ncclResult_t left) {
  ncclResult_t state = left;
  for (int i = 0; i < 5000 && state == left; ++i) {
    EXPECT(ncclCommGetAsyncError(comm, &state) == ncclSuccess);
    ::usleep(1000);
  }
  return state;
}
template <class Function>
double seconds_of(Function const& function) {
  auto const start = std::chrono::steady_clock::now();
  function();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}
constexpr double prompt = 2.0;  // a hang lasts for ever

double combine(ncclRedOp_t op, double a, double b) {
  if (op == ncclProd) return a * b;
  return op == ncclMax ? std::max(a, b) : op == ncclMin ? std::min(a, b) : a + b;
}

// One call of a collective with inputs that all ranks know, against a plain loop.
void check_collective(int kind, element_type const& type, ncclRedOp_t op, int root,
                      std::size_t count, unsigned seed, bool in_place, int rank, int ranks,
                      ncclComm_t comm, stream const& s) {
  auto const n = static_cast<std::size_t>(ranks);
  auto const self = static_cast<std::size_t>(rank);
  std::vector<doubles> in(n, doubles(count * n));  // reduce_scatter sends all of it
  std::mt19937 random{seed};
  for (doubles& each : in) {
    for (double& value : each) value = static_cast<double>(random() % 3);
  }
  bool const scatter = kind == 2, gather = kind == 3;
  doubles sent(in[self].begin(), in[self].begin() + static_cast<long>(scatter ? count * n : count));
  doubles expected(gather ? count * n : count);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    std::size_t const at = gather ? i % count : scatter ? self * count + i : i;
    expected[i] = in[gather ? i / count : kind == 4 ? static_cast<std::size_t>(root) : 0][at];
    for (std::size_t r = 1; r < n && kind < 3; ++r)
      expected[i] = combine(op, expected[i], in[r][at]);
    if (op == ncclAvg && kind < 3) expected[i] /= ranks;
    if (type.code <= ncclUint64) expected[i] = std::trunc(expected[i]);
  }
  doubles content(count * n, 7.0);
  std::copy(sent.begin(), sent.end(),
            content.begin() + static_cast<long>(gather ? self * count : 0));
  buffer const whole(s, encoded(type, content));
  buffer const apart(s, encoded(type, sent));
  char* receive = whole.data + (in_place && scatter ? self * count * type.size : 0);
  void const* send = !in_place ? apart.data : whole.data + (gather ? self * count * type.size : 0);
  ncclResult_t const result =
      kind == 0   ? ncclAllReduce(send, receive, count, type.code, op, comm, s.handle)
      : kind == 1 ? ncclReduce(send, receive, count, type.code, op, root, comm, s.handle)
      : scatter   ? ncclReduceScatter(send, receive, count, type.code, op, comm, s.handle)
      : gather    ? ncclAllGather(send, receive, count, type.code, comm, s.handle)
                  : ncclBroadcast(send, receive, count, type.code, root, comm, s.handle);
  EXPECT(result == ncclSuccess);
  bytes const got = whole.content();
  if (kind == 1 && rank != root) return;
  bytes const want = encoded(type, expected);
  bool const same = std::equal(want.begin(), want.end(), got.begin() + (receive - whole.data));
  expect(same, "collective " + std::to_string(kind) + ", type " + std::to_string(type.code) +
                   ", reduction " + std::to_string(op) + ", count " + std::to_string(count));
}

ncclResult_t add_up(buffer const& value, ncclComm_t comm, std::size_t count = 1) {
  return ncclAllReduce(value.data, value.data, count, ncclFloat, ncclSum, comm, value.on.handle);
}
cudaGraphExec_t capture(buffer const& value, ncclComm_t comm) {
  stream const& s = value.on;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  EXPECT(cudaStreamBeginCapture(s.handle, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  EXPECT(add_up(value, comm) == ncclSuccess);
  EXPECT(cudaStreamEndCapture(s.handle, &graph) == cudaSuccess);
  EXPECT(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
  cudaGraphDestroy(graph);
  return exec;
}

ncclUniqueId exchange_id(int socket, bool makes) {
  ncclUniqueId id = makes ? make_id() : ncclUniqueId{};
  REQUIRE((makes ? ::write(socket, &id, sizeof id) : ::read(socket, &id, sizeof id)) == sizeof id);
  return id;
}

}  // namespace

TEST_CASE("each collective gives what a plain loop gives, apart and in place") {
  for (int const ranks : {1, 2, 3}) {
    run_ranks(ranks, [&](int rank, ncclComm_t& comm, stream const& s) {
      for (int kind = 0; kind < 5; ++kind) {
        for (std::size_t t = 0; t < types.size(); ++t) {
          for (int op = 0; op < (kind < 3 ? 5 : 1); ++op) {
            check_collective(kind, types[t], static_cast<ncclRedOp_t>(op), ranks - 1,
                             t == 1 ? 0 : 5, 3, (op + kind) % 2 == 1, rank, ranks, comm, s);
          }
        }
      }
    });
  }
}

TEST_CASE("random collectives of 4 ranks, some of megabytes") {
  unsigned const seed = std::random_device{}();
  CAPTURE(seed);
  run_ranks(4, [&](int rank, ncclComm_t& comm, stream const& s) {
    std::mt19937 random{seed};
    for (int round = 0; round < (test_support::sanitized ? 40 : 200); ++round) {
      std::size_t const count = round % 50 == 25 ? 100000 : random() % 100;
      auto const bits = static_cast<unsigned>(random());
      check_collective(static_cast<int>(bits % 5), types[bits / 8 % types.size()],
                       static_cast<ncclRedOp_t>(bits / 128 % 5), static_cast<int>(bits / 1024 % 4),
                       count, bits, bits >> 31 != 0, rank, 4, comm, s);
    }
  });
}

TEST_CASE("a ring of sends and receives in a group, of 8 MB") {
  std::size_t const count = test_support::sanitized ? 200000 : 2000000;
  run_ranks(3, [&](int rank, ncclComm_t& comm, stream const& s) {
    buffer const out(s, doubles(count, rank));
    buffer const in(s, doubles(count, -1));
    EXPECT(ncclGroupStart() == ncclSuccess);
    EXPECT(ncclSend(out.data, count, ncclFloat, (rank + 1) % 3, comm, s.handle) == ncclSuccess);
    EXPECT(ncclGroupStart() == ncclSuccess);
    EXPECT(ncclRecv(in.data, count, ncclFloat, (rank + 2) % 3, comm, s.handle) == ncclSuccess);
    EXPECT(ncclGroupEnd() == ncclSuccess);
    EXPECT(ncclGroupEnd() == ncclSuccess);
    EXPECT(in.is(doubles(count, (rank + 2) % 3)));
  });
}

TEST_CASE("replays of a graph add up over ranks, and fail after ncclCommDestroy") {
  run_ranks(2, [&](int rank, ncclComm_t& comm, stream const& s) {
    buffer const value(s, doubles{1.0 + rank});
    cudaGraphExec_t const exec = capture(value, comm);
    for (int i = 0; i < 3; ++i) EXPECT(cudaGraphLaunch(exec, s.handle) == cudaSuccess);
    EXPECT(value.is({12.0}));
    EXPECT(ncclCommDestroy(comm) == ncclSuccess);
    comm = nullptr;
    EXPECT(cudaGraphLaunch(exec, s.handle) == cudaSuccess);
    EXPECT(cudaStreamSynchronize(s.handle) == cudaErrorLaunchFailure);
  });
  ww::testing::reset_host_runtime();
}

TEST_CASE("one thread has several devices: ncclCommInitAll, and init in a group") {
  ww::testing::reset_host_runtime(ww::testing::host_runtime_options{}.with_devices(2));
  ncclComm_t comms[2];
  if (GENERATE(true, false)) {
    REQUIRE(ncclCommInitAll(comms, 2, nullptr) == ncclSuccess);
  } else {
    ncclUniqueId const id = make_id();
    REQUIRE(ncclGroupStart() == ncclSuccess);
    for (int i : {0, 1}) {
      cudaSetDevice(i);
      REQUIRE(ncclCommInitRank(&comms[i], 2, id, i) == ncclSuccess);
    }
    REQUIRE(ncclGroupEnd() == ncclSuccess);
  }
  cudaSetDevice(0);
  stream const first;
  buffer const a(first, doubles{1.0});
  cudaSetDevice(1);
  stream const second;
  buffer const b(second, doubles{2.0});
  REQUIRE(ncclGroupStart() == ncclSuccess);
  CHECK((add_up(a, comms[0]) == ncclSuccess && add_up(b, comms[1]) == ncclSuccess));
  REQUIRE(ncclGroupEnd() == ncclSuccess);
  int device = -1;
  CHECK((cudaGetDevice(&device) == cudaSuccess && device == 1));
  CHECK((a.is({3.0}) && b.is({3.0})));
  CHECK((ncclCommCuDevice(comms[1], &device) == ncclSuccess && device == 1));
  for (ncclComm_t const each : comms) CHECK(ncclCommDestroy(each) == ncclSuccess);
}

TEST_CASE("init without blocking is in progress until the last rank has come; so is finalize") {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclUniqueId const id = make_id();
  ncclComm_t comms[2];
  CHECK(ncclCommInitRankConfig(&comms[0], 2, id, 0, &config) == ncclInProgress);
  ncclResult_t state = ncclSuccess;
  CHECK((ncclCommGetAsyncError(comms[0], &state) == ncclSuccess && state == ncclInProgress));
  CHECK(ncclAllReduce(nullptr, nullptr, 0, ncclInt, ncclSum, comms[0], nullptr) ==
        ncclInvalidArgument);
  CHECK(ncclCommInitRankConfig(&comms[1], 2, id, 1, &config) == ncclInProgress);
  for (ncclComm_t const each : comms) CHECK(wait_for_state(each, ncclInProgress) == ncclSuccess);
  CHECK(ncclCommFinalize(comms[0]) == ncclInProgress);
  CHECK((ncclCommGetAsyncError(comms[0], &state) == ncclSuccess && state == ncclInProgress));
  CHECK(ncclCommFinalize(comms[1]) == ncclInProgress);
  for (ncclComm_t const each : comms) CHECK(wait_for_state(each, ncclInProgress) == ncclSuccess);
  for (ncclComm_t const each : comms) CHECK(ncclCommDestroy(each) == ncclSuccess);
}

TEST_CASE("an abort ends init at once") {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  REQUIRE(ncclCommInitRankConfig(&comm, 2, make_id(), 0, &config) == ncclInProgress);
  ::usleep(GENERATE(0U, 20000U));
  CHECK(seconds_of([&] { CHECK(ncclCommAbort(comm) == ncclSuccess); }) < prompt);
  CHECK(ncclCommAbort(comm) == ncclInvalidArgument);
}

TEST_CASE("an abort ends a kernel that waits, and leaves its output; the other rank sees it") {
  run_ranks(2, [&](int rank, ncclComm_t& comm, stream const& s) {
    if (rank == 1) {
      EXPECT(wait_for_state(comm, ncclSuccess) == ncclRemoteError);
      expect(std::string{ncclGetLastError(comm)}.find("rank 0 (process") == 0, "names the rank");
      return;
    }
    buffer const value(s, doubles{5.0});
    buffer const out(s, doubles{6.0});
    EXPECT(ncclAllReduce(value.data, out.data, 1, ncclFloat, ncclSum, comm, s.handle) == 0);
    ::usleep(20000);
    EXPECT(cudaStreamQuery(s.handle) == cudaErrorNotReady);
    EXPECT(seconds_of([&] { EXPECT(ncclCommAbort(comm) == ncclSuccess); }) < prompt);
    EXPECT(out.is({6.0}));
    EXPECT(ncclAllReduce(value.data, out.data, 1, ncclFloat, ncclSum, comm, s.handle) ==
           ncclInvalidArgument);
    comm = nullptr;
  });
}

TEST_CASE("calls that do not fit are an error of all ranks that names both") {
  run_ranks(2, [&](int rank, ncclComm_t& comm, stream const& s) {
    buffer const value(s, doubles(8, 1.0));
    EXPECT(add_up(value, comm) == 0);
    std::size_t const count = rank == 1 ? 8 : 4;
    EXPECT(add_up(value, comm, count) == 0);
    EXPECT(wait_for_state(comm, ncclSuccess) == ncclInvalidUsage);
    std::string const text = ncclGetLastError(comm);
    expect(text.find("rank 1: #2 all_reduce of 8 float32 sum; rank 0: all_reduce of 4 float32 "
                     "sum") != std::string::npos,
           text);
    EXPECT(cudaStreamQuery(s.handle) == cudaErrorNotReady);
    EXPECT(ncclCommAbort(comm) == ncclSuccess);
    comm = nullptr;
  });
}

TEST_CASE("ranks of one id that contradict each other all fail") {
  bool const same_rank = GENERATE(true, false);
  ncclUniqueId const id = make_id();
  run_threads(2, [&](int rank) {
    ncclComm_t comm = nullptr;
    ncclResult_t const code =
        ncclCommInitRank(&comm, same_rank ? 2 : 2 + rank, id, same_rank ? 0 : rank);
    EXPECT(code == (same_rank ? ncclInvalidUsage : ncclInvalidArgument));
    EXPECT(comm == nullptr);
  });
  no_problems();
}

TEST_CASE("processes: two reduce, and one sees that the other, perhaps with the hub, was killed") {
  bool const makes_id = GENERATE(true, false);
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
  pid_t const child = ::fork();
  if (child == 0) {
    ::setenv("HOST_NCCL_TEST", (std::to_string(ends[1]) + (makes_id ? " 1" : " 0")).c_str(), 1);
    ::execl("/proc/self/exe", "host_nccl_test", "process", "-o", "/dev/null", nullptr);
  }
  alone const self(2, 1, exchange_id(ends[0], !makes_id));
  CHECK(add_up(self.value, self.comm) == ncclSuccess);
  CHECK(self.value.is({6.0}));
  CHECK(add_up(self.value, self.comm) == ncclSuccess);
  ::kill(child, SIGKILL);
  CHECK(wait_for_state(self.comm, ncclSuccess) == ncclRemoteError);
  CHECK_THAT(ncclGetLastError(self.comm), contains("rank 0") && contains(std::to_string(child)));
  CHECK(cudaStreamQuery(self.s.handle) == cudaErrorNotReady);
  CHECK(ncclCommAbort(self.comm) == ncclSuccess);
  CHECK(self.value.is({6.0}));
  CHECK(::waitpid(child, nullptr, 0) == child);
  for (int const each : ends) ::close(each);
}
TEST_CASE("process", "[.]") {  // rank 0 of it
  std::istringstream arguments{std::getenv("HOST_NCCL_TEST")};
  int parent = 0;
  bool makes_id = false;
  arguments >> parent >> makes_id;
  alone const self(2, 0, exchange_id(parent, makes_id));
  REQUIRE(add_up(self.value, self.comm) == ncclSuccess);
  ::sleep(10);
}

TEST_CASE("the fault plan fails and delays calls by name, and calls are counted") {
  namespace wt = ww::testing;
  alone const one;
  auto const before = wt::call_count("ncclAllReduce");
  wt::scoped_fault_plan const plan{
      wt::fault_plan{}
          .fail("ncclAllReduce", 3, static_cast<cudaError_t>(ncclSystemError))
          .fail("ncclAllReduce", 4, cudaErrorMemoryAllocation)
          .fail("ncclAllReduce", 5, cudaErrorLaunchFailure)
          .delay("ncclCommCount", 1, std::chrono::milliseconds(20))};
  std::vector<int> results;
  for (int i = 0; i < 5; ++i) results.push_back(add_up(one.value, one.comm));
  CHECK(results == std::vector<int>{0, 0, 2, 2, 1});
  CHECK(wt::call_count("ncclAllReduce") == before + 5);
  int count = 0;
  CHECK(seconds_of([&] { CHECK(ncclCommCount(one.comm, &count) == ncclSuccess); }) >= 0.02);
  CHECK_THROWS_WITH(wt::fault_plan{}.fail("ncclAllReduces", 1, cudaErrorUnknown),
                    contains("ncclAllReduce"));
  CHECK(ncclCommDestroy(one.comm) == ncclSuccess);
}

TEST_CASE("wrong arguments are refused with a text") {
  ncclComm_t comm = nullptr;
  CHECK(ncclCommInitRank(&comm, 2, ncclUniqueId{}, 0) == ncclInvalidArgument);
  CHECK(ncclCommInitRank(&comm, 2, make_id(), 2) == ncclInvalidArgument);
  CHECK_THAT(ncclGetLastError(nullptr), contains("rank 2 of nranks 2"));
  alone const one;
  comm = one.comm;
  char* const p = one.value.data;
  auto const reduce = [&](char* send, std::size_t count, int type, int op, int root,
                          ncclComm_t on) {
    return ncclReduce(send, p, count, static_cast<ncclDataType_t>(type),
                      static_cast<ncclRedOp_t>(op), root, on, one.s.handle);
  };
  CHECK(reduce(p, 1, 7, 0, 0, nullptr) == ncclInvalidArgument);
  CHECK(reduce(p, 1, 12, 0, 0, comm) == ncclInvalidArgument);
  CHECK(reduce(p, 1, 7, 5, 0, comm) == ncclInvalidArgument);
  CHECK(reduce(p, 1, 7, 0, 1, comm) == ncclInvalidArgument);
  CHECK_THAT(ncclGetLastError(comm), contains("root or peer 1"));
  CHECK(reduce(p, SIZE_MAX / 2, 7, 0, 0, comm) == ncclInvalidArgument);
  CHECK(reduce(nullptr, 1, 7, 0, 0, comm) == ncclInvalidArgument);
  CHECK(reduce(nullptr, 0, 7, 0, 0, comm) == ncclSuccess);
  CHECK(ncclGroupEnd() == ncclInvalidUsage);
  CHECK(ncclGroupStart() == ncclSuccess);
  CHECK(reduce(p, 1, 7, 0, 9, comm) == ncclInvalidArgument);
  CHECK(ncclGroupEnd() == ncclInvalidArgument);
  CHECK(ncclCommDestroy(comm) == ncclSuccess);
  CHECK(reduce(p, 1, 7, 0, 0, comm) == ncclInvalidArgument);
  CHECK(ncclCommDestroy(comm) == ncclInvalidArgument);
}
