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
using ranks::error_of, ranks::expect, ranks::meet, ranks::within;

// What a rank needs, and a few elements.
template <class T = float>
struct rank_setup {
  explicit rank_setup(ww::rendezvous const& how,
                      ww::communicator_options const& options = within(ranks::patient(20.0)))
      : comm{how, options} {
    set(0);
  }
  void set(double value) {
    std::vector<T> const all(16, static_cast<T>(value));
    data.copy_from(stream, all.data(), all.size());
    stream.synchronize();
  }
  // @return the values as text, each once
  std::string values() {
    comm.synchronize(stream);
    std::vector<T> all(16);
    data.copy_to(stream, all.data(), all.size());
    stream.synchronize();
    std::string text;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (i == 0 || all[i] != all[i - 1]) text += std::to_string(static_cast<int>(all[i])) + " ";
    }
    return text;
  }
  ww::stream stream;
  ww::memory_pool pool{ww::current_device()};
  ww::device_buffer<T> data{pool, stream, 16};
  ww::communicator comm;
};

template <class T>
std::string all_collectives(int rank, char const* file) {
  rank_setup<T> r{meet(rank, 2, file)};
  std::string text;
  T* const data = r.data.data();
  for (auto const how : {ww::reduction::sum, ww::reduction::product, ww::reduction::max,
                         ww::reduction::min, ww::reduction::average}) {
    r.set(rank == 0 ? 2 : 6);
    r.comm.all_reduce(r.stream, data, 16, how);
    text += r.values();
  }
  auto const add = [&](auto const& call) {
    r.set(rank + 1);
    call();
    text += "| " + r.values();
  };
  add([&] { r.comm.reduce_scatter(r.stream, data, data + 8 * rank, 8); });
  add([&] { r.comm.all_gather(r.stream, data + 8 * rank, data, 8); });
  add([&] { r.comm.broadcast(r.stream, data, 16, 1); });
  add([&] {
    r.comm.group([&] {
      r.comm.send(r.stream, data, 8, 1 - rank);
      r.comm.receive(r.stream, data + 8, 8, 1 - rank);
    });
  });
  return text;
}

TEST_CASE("collectives of all kinds and several types") {
  auto const all = ranks::run(2, [](int rank) {
    std::string const floats = all_collectives<float>(rank, "a");
    REQUIRE(all_collectives<double>(rank, "b") == floats);
    REQUIRE(all_collectives<std::int64_t>(rank, "c") == floats);
    REQUIRE(all_collectives<std::uint8_t>(rank, "d") == floats);
    return floats;
  });
  expect(all, {"8 12 6 2 4 | 3 1 | 1 2 | 2 | 1 2 ", "8 12 6 2 4 | 2 3 | 1 2 | 2 | 2 1 "});
}

TEST_CASE("values and barriers by way of the hosts") {
  auto const all = ranks::run(2, [](int rank) {
    rank_setup<> r{meet(rank, 2)};
    std::string text;
    for (int i = 0; i < 100; ++i) {
      for (int const v : r.comm.gather(rank * 10 + i)) text = std::to_string(v) + " " + text;
      r.comm.barrier();
    }
    return text.substr(0, 8);
  });
  expect(all, {"109 99 1"});
}

TEST_CASE("a captured step gives the same as an eager one, replay for replay") {
  auto const all = ranks::run(2, [](int rank) {
    rank_setup<> r{meet(rank, 2)};
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
      if (c.number != 1 && c.number != 10) continue;
      text += "#" + std::to_string(c.number) + " " + c.name + " " + std::to_string(c.bytes) +
              (c.captured ? " captured " : " ");
    }
    return text;
  });
  expect(all, {"24 24 #1 all_reduce 64 #10 all_reduce 32 captured "});
}

TEST_CASE("a communicator may end before the graphs that have its collectives") {
  auto const all = ranks::run(2, [](int rank) {
    ww::graph_replay graph{0};
    rank_setup<> r{meet(rank, 2)};
    {
      ww::communicator other{meet(rank, 2, "other")};
      graph.run(r.stream, [&](ww::stream_ref s) {
        for (int i = 0; i < 2; ++i) other.all_reduce(s, r.data.data(), 16);
      });
      other.synchronize(r.stream);
      std::string const error = error_of<ww::communicator_error>([&] { other.regroup(); });
      if (error.find("are in 1 graph: destroy") == std::string::npos) return error;
    }
    r.comm.all_reduce(r.stream, r.data.data(), 16);  // the other one lives
    return r.values();
  });
  expect(all, {"0 "});
}

TEST_CASE("checked() names who differs from most before anything hangs") {
  auto const all = ranks::run(3, [](int rank) -> std::string {
    rank_setup<> r{meet(rank, 3), within(10.0).checked()};
    r.comm.all_reduce(r.stream, r.data.data(), 16);
    std::string const lost = error_of<ww::rank_lost>(
        [&] { r.comm.all_reduce(r.stream, r.data.data(), rank == 0 ? 8U : 16U); });
    bool const again = error_of<ww::rank_lost>([&] { r.comm.check(); }) != "nothing\n";
    return again ? lost : "nothing thrown";
  });
  expect(all, {"...rank 0 (host "}, 8.0);
  expect(all, {"...comes to #2 all_reduce 32 B (8 float32, sum, root 0), rank 1 to #2 all_red"});
}

TEST_CASE("what ranks do wrong is named") {
  struct wrong {
    char const* what;
    char const* text;  // at both
  };
  wrong const w = GENERATE(
      wrong{"gather", "rank 1 (host"}, wrong{"gather", "comes to barrier(), rank 0 to gather()"},
      wrong{"bytes", "rank 0 to gather() with another number of bytes"},
      wrong{"throws in group", "has left a group of collectives by an exception"},
      wrong{"sends not", "rank 1 (host"}, wrong{"ends", "has ended, and not called #1"});
  std::string const what{w.what};
  auto const all = ranks::run(
      2,
      [&](int rank) -> std::string {
        rank_setup<> r{meet(rank, 2), within(2.0)};
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
        if (what == "sends not") ranks::continue_last(pids, 1);
      });
  INFO(w.what);
  expect(all, {std::string{"..."} + w.text}, 7.0);
}

TEST_CASE("hundreds of collectives under way are watched") {
  auto const all = ranks::run(2, [](int rank) {
    rank_setup<> r{meet(rank, 2), within(10.0)};
    ww::rank_watch const watch{r.comm, 1.0};
    for (int i = rank; i < 300; ++i) r.comm.all_reduce(r.stream, r.data.data(), 16);
    if (rank == 1) ::usleep(4000000);
    return r.values();
  });
  expect(all, {"...has not called #300 all_reduce", "..."});
  if (!all.empty()) REQUIRE(all[0].seconds < 5.0);
}

TEST_CASE("a rank that is killed while its communicator ends is named") {
  auto const all = ranks::run(
      2,
      [](int rank) {
        rank_setup<> r{meet(rank, 2), within(3.0)};
        r.comm.all_reduce(r.stream, r.data.data(), 16);
        r.comm.synchronize(r.stream);
        if (rank == 0) ::usleep(3000000);
        r.comm.all_reduce(r.stream, r.data.data(), 16);
        return rank == 0 ? r.values() : std::string{};
      },
      [&](std::vector<pid_t> const& pids) {
        ::usleep(1500000);
        ::kill(pids[1], SIGKILL);
      });
  expect(all, {"...is gone, before its collectives had completed", ""});
}

TEST_CASE("those that end in good order make no others fail, nor leave them alone") {
  auto const all = ranks::run_on(2, 3, [](int rank) -> std::string {
    if (rank == 2) ::usleep(300000);
    auto const how = meet(rank % 2, 2);
    if (rank == 2) return std::to_string(ww::communicator{how.joining(), within(1.5)}.ranks());
    rank_setup<> r{meet(rank, 2), within(1.5)};
    r.comm.all_reduce(r.stream, r.data.data(), 16);
    r.comm.synchronize(r.stream);
    if (rank == 0) ::usleep(2500000);  // as it saves
    return r.values();
  });
  expect(all, {"0 ", "...", "...rank 0 has ended"});
}

TEST_CASE("who comes too late to a new group is told so") {
  auto const all = ranks::run(3, [](int rank) {
    ww::communicator comm{meet(rank, 3), within(1.5)};
    comm.barrier();
    if (rank == 0) comm.abort("on purpose");
    error_of<ww::rank_lost>([&] {
      for (;; ::usleep(1000)) comm.check();
    });
    if (rank == 2) ::usleep(4000000);
    comm.regroup();
    comm.barrier();
    return std::to_string(comm.ranks());
  });
  expect(all, {"2", "2", "...the others have formed a new group without this rank"});
}

TEST_CASE("ranks that are left go on, and newcomers join them") {
  auto const all = ranks::run_on(3, 4, [](int rank) {
    bool const joins = rank == 3;
    if (joins) ::usleep(200000);
    rank_setup<> r{joins ? meet(0, 3).joining() : meet(rank, 3), within(joins ? 1.2 : 10.0)};
    std::string text;
    if (!joins) {
      try {
        for (int i = 0;; ++i) {
          r.comm.all_reduce(r.stream, r.data.data(), 4);
          r.comm.synchronize(r.stream);
          if (rank == 1 && i == 3) ::kill(::getpid(), SIGKILL);
        }
      } catch (ww::rank_lost const& lost) {
        text = "lost " + std::to_string(lost.ranks().at(0)) + ", ";
      }
      for (int i = 0; i < 10000 && r.comm.newcomers() == 0; ++i) ::usleep(1000);
      ::usleep(2600000);  // longer than the newcomer waits for an answer
      r.comm.regroup();
    }
    r.set(1);
    r.comm.all_reduce(r.stream, r.data.data(), 16);
    text += std::to_string(r.comm.rank()) + " of " + std::to_string(r.comm.ranks());
    return text + ": " + r.values();
  });
  expect(all, {"lost 1, 0 of 3: 3 ", "", "lost 1, 1 of 3: 3 ", "2 of 3: 3 "});
}

TEST_CASE("a communicator that is lost while a group is open ends behind the group") {
  auto const all = ranks::run(2, [](int rank) -> std::string {
    rank_setup<> r{meet(rank, 2)};
    r.comm.barrier();
    if (rank == 1) {
      r.comm.abort("no more data");
      return "";
    }
    auto const wait_for = [](auto const& what) {
      for (int i = 0; i < 10000 && !what(); ++i) ::usleep(1000);
      return what();
    };
    auto const is_lost = [&] { return ranks::error_of([&] { r.comm.check(); }) != "nothing\n"; };
    std::string const error = ranks::error_of([&] {
      r.comm.group([&] {
        r.comm.all_reduce(r.stream, r.data.data(), 16);
        if (!wait_for(is_lost)) throw std::runtime_error{"not lost"};
        ::usleep(100000);  // in which it would be ended
        if (r.comm.get() == nullptr) throw std::runtime_error{"ended within the group"};
      });
      r.comm.synchronize(r.stream);
    });
    return wait_for([&] { return r.comm.get() == nullptr; }) ? error : "was not ended";
  });
  expect(all, {"...no more data", ""});
}

#if WARPWRIGHT_HOST_RUNTIME
TEST_CASE("a failing call of NCCL or CUDA is reported to all ranks") {
  char const* const call = GENERATE("ncclAllReduce", "ncclCommInitRankConfig", "ncclGetUniqueId",
                                    "ncclCommGetAsyncError");
  auto const all = ranks::run(2, [&](int rank) {
    ww::testing::fault_plan plan;
    if (rank == 0) plan = plan.fail(call, 1, static_cast<cudaError_t>(ncclInternalError));
    ww::testing::scoped_fault_plan const installed{plan};
    rank_setup<> r{meet(rank, 2), within(5.0)};
    try {
      for (int i = 0; i < 3; ++i) r.comm.all_reduce(r.stream, r.data.data(), 16);
    } catch (ww::communicator_error const&) {
      r.comm.check();  // throws, too
    }
    return r.values();
  });
  INFO(call);
  expect(all, {"...internal error", "...rank 0 (host "}, 7.0);
}

// The first event is the host NCCL's own.
TEST_CASE("a hang is seen while CUDA keeps the watched thread in a call") {
  auto const all = ranks::run(2, [](int rank) -> std::string {
    rank_setup<> r{meet(rank, 2), within(10.0)};
    ww::rank_watch const watch{r.comm, 0.5};
    double const begin = ranks::now();
    std::string text;
    if (rank == 0) {
      r.comm.all_reduce(r.stream, r.data.data(), 16);
      ww::testing::scoped_fault_plan const slow{
          ww::testing::fault_plan{}.delay("cudaEventRecord", 2, std::chrono::seconds{4})};
      return error_of([&] {
        r.comm.all_reduce(r.stream, r.data.data(), 16);
        r.comm.synchronize(r.stream);
      });
    }
    while (text.empty() && ranks::now() - begin < 20.0) {
      ::usleep(10000);
      std::string const error = error_of([&] { r.comm.check(); });
      if (error != "nothing\n") text = error;
    }
    return (ranks::now() - begin < 3.0 ? "soon: " : "late: ") + text;
  });
  expect(all, {"...has not called #1 all_reduce", "...soon: "});
}

// Some of them are the host NCCL's own.
TEST_CASE("a watch adds one event to a collective, and nothing else") {
  auto const all = ranks::run(1, [&](int) {
    rank_setup<> r{meet(0, 1)};
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
  expect(all, {"10 20 10; 10 20 20; "});
}
#endif

}  // namespace
