// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Collectives, on two GPUs or the host.
#include "scale/ranks.hpp"

#include <warpwright/core/device.hpp>
#include <warpwright/graph/graph_replay.hpp>
#include <warpwright/memory/buffer.hpp>
#include <warpwright/scale/rank_watch.hpp>

#include <cstdint>
#include <memory>

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>
#endif

namespace {

namespace ww = warpwright;
using ranks::texts;

// What a rank needs, and a few elements.
template <class T = float>
struct rank_setup {
  rank_setup(std::string const& path, int rank, int count,
             ww::communicator_options const& options =
                 ww::communicator_options{}.deadline(ranks::patient(20.0)))
      : comm{ww::rendezvous::file(path, rank, count), options} {
    set(0);
  }
  void set(double value) {
    std::vector<T> const all(16, static_cast<T>(value));
    data.copy_from(stream, all.data(), all.size());
    stream.synchronize();
  }
  // @return the values as text, each once
  std::string values(std::size_t n = 16) {
    comm.synchronize(stream);
    std::vector<T> all(n);
    data.copy_to(stream, all.data(), n);
    stream.synchronize();
    std::string text;
    for (std::size_t i = 0; i < n; ++i) {
      if (i == 0 || all[i] != all[i - 1]) text += std::to_string(static_cast<int>(all[i])) + " ";
    }
    return text;
  }
  ww::stream stream;
  ww::memory_pool pool{ww::current_device()};
  ww::device_buffer<T> data{pool, stream, 16};
  ww::communicator comm;
};

bool enough(int count) {
  if (ranks::most() >= count) return true;
  WARN("left out: " << count << " ranks need as many GPUs");
  return false;
}

template <class T>
std::string all_collectives(std::string const& path, int rank) {
  rank_setup<T> r{path, rank, 2};
  std::string text;
  T* const data = r.data.data();
  for (auto const how : {ww::reduction::sum, ww::reduction::product, ww::reduction::max,
                         ww::reduction::min, ww::reduction::average}) {
    r.set(rank == 0 ? 2 : 6);
    r.comm.all_reduce(r.stream, data, 16, how);
    text += r.values();
  }
  r.set(rank + 1);
  r.comm.reduce_scatter(r.stream, data, data + 8 * rank, 8);
  text += "| " + r.values();
  r.set(rank + 1);
  r.comm.all_gather(r.stream, data + 8 * rank, data, 8);
  text += "| " + r.values();
  r.set(rank + 1);
  r.comm.broadcast(r.stream, data, 16, 1);
  text += "| " + r.values();
  r.set(rank + 1);
  r.comm.group([&] {
    r.comm.send(r.stream, data, 8, 1 - rank);
    r.comm.receive(r.stream, data + 8, 8, 1 - rank);
  });
  return text + "| " + r.values();
}

TEST_CASE("collectives of all kinds and several types") {
  if (!enough(2)) return;
  ranks::folder const files;
  auto const all = ranks::run(2, [&](int rank) {
    std::string const floats = all_collectives<float>(files / "a", rank);
    REQUIRE(all_collectives<double>(files / "b", rank) == floats);
    REQUIRE(all_collectives<std::int64_t>(files / "c", rank) == floats);
    REQUIRE(all_collectives<std::uint8_t>(files / "d", rank) == floats);
    return floats;
  });
  INFO(texts(all));
  REQUIRE(all[0].text == "8 12 6 2 4 | 3 1 | 1 2 | 2 | 1 2 ");
  REQUIRE(all[1].text == "8 12 6 2 4 | 2 3 | 1 2 | 2 | 2 1 ");
}

TEST_CASE("values and barriers by way of the hosts") {
  if (!enough(2)) return;
  ranks::folder const files;
  auto const all = ranks::run(2, [&](int rank) {
    rank_setup<> r{files / "a", rank, 2};
    std::string text;
    for (int i = 0; i < 100; ++i) {
      for (int const v : r.comm.gather(rank * 10 + i)) text = std::to_string(v) + " " + text;
      r.comm.barrier();
    }
    return text.substr(0, 8);
  });
  INFO(texts(all));
  REQUIRE(all[0].text == "109 99 1");
  REQUIRE(all[1].text == "109 99 1");
}

TEST_CASE("a captured step gives the same as an eager one, replay for replay") {
  if (!enough(2)) return;
  ranks::folder const files;
  auto const all = ranks::run(2, [&](int rank) {
    rank_setup<> r{files / "a", rank, 2};
    ww::rank_watch const watch{r.comm};
    std::string text;
    for (bool const captured : {false, true}) {
      r.set(rank + 1);
      ww::graph_replay graph{0};
      for (int i = 0; i < 4; ++i) {
        auto const step = [&](ww::stream_ref s) {
          r.comm.all_reduce(s, r.data.data(), 16);
          r.comm.all_reduce(s, r.data.data(), 8, ww::reduction::max);
        };
        captured ? graph.run(r.stream, step) : step(r.stream);
      }
      text += r.values();
    }
    for (ww::collective_record const& c : watch.last()) {
      text += "#" + std::to_string(c.number) + " " + c.name + " " + std::to_string(c.bytes) +
              (c.captured ? " captured " : " ");
    }
    return text;
  });
  INFO(texts(all));
  REQUIRE(all[0].has("24 24 #1 all_reduce 64 "));
  REQUIRE(all[0].has("#10 all_reduce 32 captured"));
  REQUIRE(all[1].text.substr(0, 6) == all[0].text.substr(0, 6));
}

TEST_CASE("a communicator may end before the graphs that have its collectives") {
  if (!enough(2)) return;
  ranks::folder const files;
  auto const all = ranks::run(2, [&](int rank) {
    ww::graph_replay graph{0};
    rank_setup<> r{files / "a", rank, 2};
    {
      ww::communicator other{ww::rendezvous::file(files / "b", rank, 2)};
      graph.run(r.stream, [&](ww::stream_ref s) {
        for (int i = 0; i < 2; ++i) other.all_reduce(s, r.data.data(), 16);
      });
      other.synchronize(r.stream);
      bool refused = false;
      try {
        other.regroup();
      } catch (ww::communicator_error const& error) {
        refused = std::string{error.what()}.find("1 graphs have collectives") != std::string::npos;
      }
      if (!refused) return std::string{"regroup() has not been refused"};
    }
    r.comm.all_reduce(r.stream, r.data.data(), 16);  // the other one lives
    return r.values();
  });
  INFO(texts(all));
  for (ranks::result const& one : all) REQUIRE(one.text == "0 ");
}

TEST_CASE("checked() names who differs from most before anything hangs") {
  if (!enough(3)) return;
  ranks::folder const files;
  auto const all = ranks::run(3, [&](int rank) -> std::string {
    rank_setup<> r{files / "a", rank, 3, ww::communicator_options{}.deadline(10.0).checked()};
    r.comm.all_reduce(r.stream, r.data.data(), 16);
    try {
      r.comm.all_reduce(r.stream, r.data.data(), rank == 0 ? 8U : 16U);
    } catch (ww::rank_lost const& lost) {
      try {
        r.comm.check();
      } catch (ww::rank_lost const&) {
        return lost.what();
      }
    }
    return "nothing thrown";
  });
  INFO(texts(all));
  for (ranks::result const& one : all) {
    REQUIRE(one.has("rank 0 (host "));
    REQUIRE(one.has("comes to #2 all_reduce 32 B (8 float32, sum, root 0), rank 1 to #2 all_red"));
    REQUIRE(one.seconds < 8.0);
  }
}

TEST_CASE("what ranks do wrong is named") {
  if (!enough(2)) return;
  struct wrong {
    char const* what;
    char const* text;  // at both
  };
  wrong const w = GENERATE(
      wrong{"gather", "rank 1 (host"}, wrong{"gather", "comes to barrier(), rank 0 to gather()"},
      wrong{"bytes", "rank 0 to gather() with another number of bytes"},
      wrong{"throws in group", "has left a group of collectives by an exception"},
      wrong{"sends not", "rank 1 (host"}, wrong{"ends", "has ended, and not called #1"});
  ranks::folder const files;
  std::string const what{w.what};
  auto const all = ranks::run(
      2,
      [&](int rank) -> std::string {
        rank_setup<> r{files / "a", rank, 2, ww::communicator_options{}.deadline(2.0)};
        std::unique_ptr<ww::rank_watch> watch;
        if (what != "ends") watch = std::make_unique<ww::rank_watch>(r.comm, 1.0);
        bool const second = rank == 1;
        if (what == "bytes") second ? void(r.comm.gather(1)) : void(r.comm.gather(1.0));
        if (what == "gather") second ? r.comm.barrier() : void(r.comm.gather(1));
        if (what == "ends" && second) return w.text;
        r.comm.group([&] {
          if (what == "ends") r.comm.broadcast(r.stream, r.data.data(), 16);
          if (what == "sends not" && !second) r.comm.receive(r.stream, r.data.data(), 16, 1);
          if (what == "throws in group" && !second) r.comm.send(r.stream, r.data.data(), 16, 1);
          if (what == "throws in group" && second) throw std::runtime_error{w.text};
        });
        if (what == "sends not" && second) ::kill(::getpid(), SIGSTOP);
        r.comm.synchronize(r.stream);
        r.comm.barrier();
        return "nothing thrown";
      },
      [&](std::vector<pid_t> const& pids) {
        if (what != "sends not") return;
        siginfo_t information{};
        ::waitid(P_PID, static_cast<id_t>(pids[0]), &information, WEXITED | WNOWAIT);
        ::kill(pids[1], SIGCONT);
      });
  INFO(w.what << texts(all));
  for (ranks::result const& one : all) {
    REQUIRE(one.has(w.text));
    REQUIRE(one.seconds < 7.0);
  }
}

TEST_CASE("who comes too late to a new group is told so") {
  if (!enough(3)) return;
  ranks::folder const files;
  auto const all = ranks::run(3, [&](int rank) {
    ww::stream const stream;
    ww::communicator comm{ww::rendezvous::file(files / "a", rank, 3),
                          ww::communicator_options{}.deadline(1.5)};
    comm.barrier();
    if (rank == 0) comm.abort("on purpose");
    try {
      for (;; ::usleep(1000)) comm.check();
    } catch (ww::rank_lost const&) {
      if (rank == 2) ::usleep(4000000);
    }
    comm.regroup();
    comm.barrier();
    return std::to_string(comm.ranks());
  });
  INFO(texts(all));
  REQUIRE(all[0].text == "2");
  REQUIRE(all[1].text == "2");
  REQUIRE(all[2].has("the others have formed a new group without this rank"));
}

TEST_CASE("ranks that are left go on, and newcomers join them") {
  if (!enough(3)) return;
  ranks::folder const files;
  auto const all = ranks::run(4, [&](int rank) {
    bool const joins = rank == 3;
    ww::stream stream;
    ww::memory_pool pool{ww::current_device()};
    ww::device_buffer<float> data{pool, stream, 4};
    if (joins) ::usleep(200000);
    auto how = ww::rendezvous::file(files / "a", joins ? 0 : rank, 3);
    ww::communicator comm{joins ? how.joining() : how,
                          ww::communicator_options{}.deadline(joins ? 1.2 : 10.0)};
    std::string text;
    if (!joins) {
      try {
        for (int i = 0;; ++i) {
          comm.all_reduce(stream, data.data(), 4);
          comm.synchronize(stream);
          if (rank == 1 && i == 3) ::kill(::getpid(), SIGKILL);
        }
      } catch (ww::rank_lost const& lost) {
        text = "lost " + std::to_string(lost.ranks().at(0)) + ", ";
      }
      for (int i = 0; i < 10000 && comm.newcomers() == 0; ++i) ::usleep(1000);
      ::usleep(2600000);  // longer than the newcomer waits for an answer
      comm.regroup();
    }
    float one = 1.0F;
    data.copy_from(stream, &one, 1);
    comm.all_reduce(stream, data.data(), 1);
    comm.synchronize(stream);
    data.copy_to(stream, &one, 1);
    stream.synchronize();
    return text + std::to_string(comm.rank()) + " of " + std::to_string(comm.ranks()) + ": " +
           std::to_string(static_cast<int>(one));
  });
  INFO(texts(all));
  REQUIRE(all[0].text == "lost 1, 0 of 3: 3");
  REQUIRE(all[2].text == "lost 1, 1 of 3: 3");
  REQUIRE(all[3].text == "2 of 3: 3");
}

#if WARPWRIGHT_HOST_RUNTIME
TEST_CASE("a failing call of NCCL or CUDA is reported to all ranks") {
  char const* const call = GENERATE("ncclAllReduce", "ncclCommInitRankConfig", "ncclGetUniqueId",
                                    "ncclCommGetAsyncError");
  ranks::folder const files;
  auto const all = ranks::run(2, [&](int rank) {
    ww::testing::fault_plan plan;
    if (rank == 0) plan = plan.fail(call, 1, static_cast<cudaError_t>(ncclInternalError));
    ww::testing::scoped_fault_plan const installed{plan};
    rank_setup<> r{files / "a", rank, 2, ww::communicator_options{}.deadline(5.0)};
    try {
      for (int i = 0; i < 3; ++i) r.comm.all_reduce(r.stream, r.data.data(), 16);
    } catch (ww::communicator_error const&) {
      r.comm.check();  // throws, too
    }
    return r.values();
  });
  INFO(call << texts(all));
  REQUIRE(all[0].has("internal error"));
  REQUIRE(all[1].has("rank 0 (host "));
  for (ranks::result const& one : all) REQUIRE(one.seconds < 7.0);
}

// Some of them are the host NCCL's own.
TEST_CASE("a watch adds one event to a collective, and nothing else") {
  ranks::folder const files;
  auto const all = ranks::run(1, [&](int) {
    rank_setup<> r{files / "a", 0, 1};
    std::string text;
    auto const count = [&] {
      ww::testing::reset_call_counts();
      for (int i = 0; i < 10; ++i) r.comm.all_reduce(r.stream, r.data.data(), 16);
      return std::to_string(ww::testing::call_count("ncclAllReduce")) + " " +
             std::to_string(ww::testing::call_count("cudaStreamIsCapturing")) + " " +
             std::to_string(ww::testing::call_count("cudaEventRecord")) + "; ";
    };
    text += count();
    ww::rank_watch const watch{r.comm};
    return text + count();
  });
  REQUIRE(all[0].text == "10 20 10; 10 20 20; ");
}
#endif

}  // namespace
