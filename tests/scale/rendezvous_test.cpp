// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// How ranks come together, and what is said when they do not.
#include "scale/ranks.hpp"
#include "support/sanitized.hpp"

#include <warpwright/scale/rank_watch.hpp>

#include <atomic>
#include <ctime>
#include <fstream>
#include <sstream>

#include <sys/resource.h>

namespace {

namespace ww = warpwright;
using ranks::expect, ranks::meet, ranks::within;

std::string group_of(ww::communicator const& comm) {
  return std::to_string(comm.rank()) + " of " + std::to_string(comm.ranks());
}
std::string group_of(ww::rendezvous const& how, double deadline = 10.0) {
  return group_of(ww::communicator{how, within(deadline)});
}
std::string local(int port) { return "localhost:" + std::to_string(port); }

// A program that listens on a port, and answers nothing.
struct other_program {
  int port = 0;
  ww::detail::text problem = "";
  ww::detail::socket_handle const listener = ww::detail::listen_on("", port, 1, problem);
};

int free_port() { return other_program{}.port; }

// Sets variables, as "RANK=r PORT=p" those of a rank and of a port.
void set(std::string const& variables, int rank = 0, int port = 0) {
  std::istringstream words{variables};
  std::string name, value;
  while (words >> std::ws && std::getline(words, name, '=') && words >> value) {
    if (value == "r") value = std::to_string(rank);
    if (value == "p") value = std::to_string(port);
    ::setenv(name.c_str(), value.c_str(), 1);
  }
}

// A communicator without NCCL.
struct no_events final : ww::detail::store_events {
  void describe(ww::detail::rank_state& state) noexcept override {
    state.called = 1 + ahead;
    state.hashes[1] = hash;
  }
  void lost(char const* text, std::int32_t const*, std::size_t) noexcept override { report = text; }
  void end_calls() noexcept override {}
  void begin_group() noexcept override {}
  void left(std::uint64_t) noexcept override {}
  void tick() noexcept override {}
  std::atomic<std::uint64_t> hash{0}, ahead{0};
  std::string report;
};

TEST_CASE("256 processes come together within 2 s") {
  constexpr int count = test_support::sanitized ? 24 : 256;
  double const before = ranks::now();
  static_cast<void>(ranks::run(count, [](int) { return std::string{}; }));
  double const begin = ranks::now();
  double const processes = begin - before;  // what they cost alone on this machine, now
  auto const all = ranks::run(count, [&](int rank) -> std::string {
    using namespace ww::detail;
    auto const where = ww::source_location::current();
    store_place place;
    place.rank = rank;
    place.ranks = count;
    place.file = ranks::file("store");
    store_server* const server = open_store(place, 20.0, where);
    no_events events;
    bool same = false;
    {
      store_client client{place, 20.0, where};
      client.start(events, where);
      array<char> numbers;
      same = client.exchange("numbers", &rank, sizeof rank, numbers, 20.0);
      for (int r = 0; same && r < count; ++r) {
        same = std::memcmp(numbers.begin() + static_cast<std::size_t>(r) * sizeof r, &r,
                           sizeof r) == 0;
      }
      // One that has called something else is named, although nothing hangs.
      if (rank == 7) events.hash = 1;
      if (rank == 8) events.ahead = 3;
      if (client.exchange("barrier", nullptr, 0, numbers, 20.0)) return "not noticed";
      client.leave(nullptr);
    }
    end_store(server);
    return same ? events.report.substr(0, 6) : "different";
  });
  double const seconds = ranks::now() - begin;
  expect(all, {"rank 7"});
  if (!test_support::sanitized) REQUIRE(seconds < 2.0 + 8.0 * processes);
}

TEST_CASE("ranks come together by a file, an address and a broadcast") {
  int const port = free_port();
  auto const all = ranks::run(2, [&](int rank) {
    std::string const text =
        group_of(meet(rank, 2)) + ", " + group_of(ww::rendezvous::tcp(local(port), rank, 2));
    std::string const box = ranks::file("box");
    auto const broadcast = [&](void* data, std::size_t bytes) {
      if (rank == 0) {
        std::ofstream{box + ".new", std::ios::binary}.write(static_cast<char*>(data),
                                                            static_cast<std::streamsize>(bytes));
        static_cast<void>(std::rename((box + ".new").c_str(), box.c_str()));
        return;
      }
      std::ifstream file;
      while (!file.is_open()) file.open(box, std::ios::binary);
      file.read(static_cast<char*>(data), static_cast<std::streamsize>(bytes));
    };
    return text + ", " + group_of(ww::rendezvous::by(broadcast, rank, 2));
  });
  expect(all, {"0 of 2, 0 of 2, 0 of 2", "1 of 2, 1 of 2, 1 of 2"});
}

TEST_CASE("launchers are understood by their variables") {
  char const* const variables = GENERATE(
      "RANK=r WORLD_SIZE=2 LOCAL_RANK=r LOCAL_WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=p "
      "TORCHELASTIC_RUN_ID=job",
      "OMPI_COMM_WORLD_RANK=r OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=r "
      "OMPI_COMM_WORLD_LOCAL_SIZE=2 PMIX_NAMESPACE=p",
      "RANK=7 PMI_RANK=r PMI_SIZE=2 MPI_LOCALRANKID=r MPI_LOCALNRANKS=2",
      "PMI_RANK=r PMI_SIZE=2 PMI_JOBID=p SLURM_LOCALID=r SLURM_JOB_NODELIST=localhost",
      "SLURM_PROCID=r SLURM_NTASKS=2 SLURM_LOCALID=r SLURM_JOB_ID=p SLURM_STEP_ID=0 "
      "SLURM_STEP_NODELIST=localhost,gpu[03-05]");
  int const port = free_port();
  auto const all = ranks::run(2, [&](int rank) {
    set(variables, rank, port);
    auto const how = ww::rendezvous::from_environment();
    return group_of(how) + " " + std::to_string(how.local_rank());
  });
  INFO(variables);
  expect(all, {"0 of 2 0", "1 of 2 1"});
}

TEST_CASE("the first host of a list of Slurm's") {
  using ww::detail::first_host;
  REQUIRE(first_host("gpu[03-05,9],other") == "gpu03");
  REQUIRE(first_host("a,b") == "a");
  REQUIRE(first_host("rack[1,2]x,y") == "rack1x");
  REQUIRE(first_host("solo") == "solo");
  REQUIRE(first_host("rack[1-2]n[3-4],b") == "rack1n3");
  REQUIRE(first_host("rack[1") == "rack1");
}

TEST_CASE("what is missing in the environment is named") {
  struct wrong {
    char const* variables;
    char const* text;
  };
  wrong const w =
      GENERATE(wrong{"", "no launcher has set RANK"}, wrong{"RANK=1", "WORLD_SIZE is ''"},
               wrong{"RANK=2 WORLD_SIZE=2", "RANK is '2' and WORLD_SIZE is '2'"},
               wrong{"RANK=x WORLD_SIZE=2", "RANK is 'x'; a number"},
               wrong{"PMI_RANK=0 PMI_SIZE=4 MPI_LOCALNRANKS=2", "set MASTER_ADDR"});
  auto const all = ranks::run(1, [&](int) {
    set(w.variables);
    return group_of(ww::rendezvous::from_environment(), 1.0);
  });
  expect(all, {std::string{"..."} + w.text});
}

TEST_CASE("missing ranks are named within the deadline") {
  auto const all = ranks::run(5, [](int rank) -> std::string {
    return rank == 1 || rank == 4 ? "does not come" : group_of(meet(rank, 5), 1.0);
  });
  std::string const missing = "...not all ranks have come within 1 s: ranks 1 and 4 missing";
  expect(all, {missing, "does not come", missing, missing, "does not come"}, 3.0);
}

TEST_CASE("a rank without rank 0 says where it has looked") {
  int const port = free_port();
  other_program const other;
  auto const all = ranks::run(5, [&](int i) -> std::string {
    if (i == 0) return group_of(meet(1, 2, "none"), 0.5);
    if (i == 3) {
      std::ofstream{ranks::file("stale")} << ww::detail::host_name() << " " << port << "\n";
      return group_of(meet(1, 2, "stale"), 0.5);
    }
    std::string const where = i == 2 ? "no.such.host.invalid:1" : local(i == 4 ? other.port : port);
    return group_of(ww::rendezvous::tcp(where, 1, 2), 0.5);
  });
  expect(all, {"...there is no file", "...Connection refused",
               "...'no.such.host.invalid' has no address", "...perhaps of an earlier run",
               "...another program listens there"});
  for (std::size_t i : {0U, 1U, 3U, 4U}) CHECK(all[i].seconds < 2.5);  // names have resolvers
}

TEST_CASE("a port in use is named") {
  other_program const other;
  auto const all = ranks::run(
      1, [&](int) { return group_of(ww::rendezvous::tcp(local(other.port), 0, 1), 1.0); });
  expect(all, {"...port " + std::to_string(other.port)});
  expect(all, {"...Address already in use"});
}

TEST_CASE("a stale file is waited over, and gone in the end") {
  ranks::folder const files;
  std::ofstream{ranks::file("store")} << ww::detail::host_name() << " " << free_port() << "\n";
  auto const all = ranks::run(2, [](int rank) {
    if (rank == 0) ::usleep(300000);
    return group_of(meet(rank, 2));
  });
  expect(all, {"...", "1 of 2"});
  REQUIRE(::access(ranks::file("store").c_str(), F_OK) != 0);
}

TEST_CASE("ranks of another run, size or number are refused") {
  auto const all = ranks::run(5, [](int i) {
    if (i > 0) ::usleep(100000U * static_cast<unsigned>(i));
    auto const how = meet(i < 3 ? i : 1, i == 2 ? 4 : 3).nonce(i == 1 ? "run 8" : "run 7");
    return group_of(how, i == 4 ? 1.0 : 1.5);
  });
  expect(all, {"...rank 2 missing; ranks 0 and 1 have come",
               "...belongs to another run, with another nonce",
               "...expects 4 ranks, and rank 0 expects 3",
               "...not all ranks have come within 1.5 s: rank 2 missing",
               "...has a deadline of 1 s, and rank 0 of 1.5 s"});
  REQUIRE(all[2].seconds < 1.0);
}

TEST_CASE("two processes cannot be the same rank") {
  auto const all = ranks::run(3, [](int i) {
    if (i == 2) ::usleep(800000);
    return group_of(meet(i == 0 ? 0 : 1, 3), 3.0);
  });
  expect(all, {"...", "...", "...rank 1 is there already (rank 1 (host "});
}

TEST_CASE("programs that say nothing keep no place and no descriptor") {
  int const port = free_port();
  auto const all = ranks::run(2, [&](int rank) -> std::string {
    rlimit few{};
    ::getrlimit(RLIMIT_NOFILE, &few);
    few.rlim_cur = 40;
    // Sanitizers need descriptors for their checks.
    if (rank == 0 && !test_support::sanitized) ::setrlimit(RLIMIT_NOFILE, &few);
    std::vector<ww::detail::socket_handle> silent;
    ww::detail::text problem = "";
    std::uint64_t const soon = ww::detail::monotonic_after(8.0);
    for (int i = 0; rank == 1 && i < 40;) {
      silent.push_back(ww::detail::connect_to("localhost", port, soon, problem));
      silent.back().valid() ? ++i : ::usleep(10000);
    }
    if (rank == 1) {  // and one says what it must not yet, at once: else it may be in the group
      using namespace ww::detail;
      hello_message const hello{store_version, 2, 8.0, nonce_of(""), 0, this_process(1)};
      std::string both;
      for (auto const kind : {message_kind::hello, message_kind::part}) {
        message_header const header{kind, sizeof hello, 1};
        both.append(reinterpret_cast<char const*>(&header), sizeof header);
        both.append(reinterpret_cast<char const*>(&hello), sizeof hello);
      }
      static_cast<void>(::send(silent[0].get(), both.data(), both.size(), MSG_NOSIGNAL));
    }
    std::string const text = group_of(ww::rendezvous::tcp(local(port), rank, 2), 8.0);
    return std::clock() < CLOCKS_PER_SEC ? text : "has spun";
  });
  expect(all, {"0 of 2", "1 of 2"});
}

TEST_CASE("a file that another run has replaced stays") {
  auto const all = ranks::run(1, [](int) -> std::string {
    {
      ww::communicator const first{meet(0, 1), within(2.0)};
      std::ofstream{ranks::file("store")} << ww::detail::host_name() << " 1\n";
    }
    return ::access(ranks::file("store").c_str(), F_OK) == 0 ? "stays" : "is gone";
  });
  expect(all, {"stays"});
}

TEST_CASE("ranks do not wait in the broadcast of a rank 0 that cannot listen") {
  if (test_support::sanitized) return;  // which needs descriptors
  auto const all = ranks::run(1, [&](int) -> std::string {
    rlimit none{};
    ::getrlimit(RLIMIT_NOFILE, &none);
    none.rlim_cur = 3;
    ww::check(cudaFree(nullptr), "cudaFree");
    ::setrlimit(RLIMIT_NOFILE, &none);
    int broadcasts = 0;
    std::string const error = ranks::error_of<ww::communicator_error>([&] {
      ww::communicator{ww::rendezvous::by([&](void*, std::size_t) { ++broadcasts; }, 0, 2)};
    });
    return std::to_string(broadcasts) + error;
  });
  REQUIRE(all[0].text.substr(0, 1) == "1");
  expect(all, {"...cannot listen on any address, any port: Too many open files"});
}

TEST_CASE("wrong arguments are refused") {
  REQUIRE_THROWS_WITH(ww::rendezvous::tcp("localhost", 0, 1), contains("as host:29500"));
  REQUIRE_THROWS_WITH(ww::rendezvous::tcp("localhost:0", 0, 1), contains("1 to 65535"));
  REQUIRE_THROWS_WITH(ww::rendezvous::tcp("localhost:2x", 0, 1), contains("1 to 65535"));
  REQUIRE_THROWS_WITH(ww::rendezvous::file("", 0, 1), contains("empty"));
  REQUIRE_THROWS_WITH(ww::rendezvous::file("a", 2, 2), contains("rank 2 of 2"));
  REQUIRE_THROWS_WITH(ww::rendezvous::file("a", 0, 0), contains("rank 0 of 0"));
  REQUIRE_THROWS_WITH((ww::communicator{ww::rendezvous::file("a", 0, 1), within(0.0)}),
                      contains("the deadline is 0 s"));
  auto const by = ww::rendezvous::by([](void*, std::size_t) {}, 0, 1).joining();
  REQUIRE_THROWS_WITH((ww::communicator{by, within(1.0)}), contains("by() cannot join"));
  ww::communicator comm{ww::rendezvous::tcp(local(free_port()), 0, 1)};
  ww::rank_watch const watch{comm};
  REQUIRE_THROWS_WITH(ww::rank_watch{comm}, contains("has one already"));
}

}  // namespace
