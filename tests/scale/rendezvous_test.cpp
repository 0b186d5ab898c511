// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// How ranks come together, and what is said when they do not.
#include "scale/ranks.hpp"
#include "support/sanitized.hpp"

#include <warpwright/scale/rank_watch.hpp>

#include <ctime>
#include <fstream>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

namespace {

namespace ww = warpwright;
using ranks::texts;

ww::communicator_options within(double seconds) {
  return ww::communicator_options{}.deadline(seconds);
}
std::string group_of(ww::communicator const& comm) {
  return std::to_string(comm.rank()) + " of " + std::to_string(comm.ranks());
}

// A program that listens on a port, and answers nothing.
class other_program {
 public:
  other_program() : socket_{::socket(AF_INET, SOCK_STREAM, 0)} {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (::bind(socket_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        ::listen(socket_, 16) != 0 ||
        ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
      std::abort();
    }
    port = ntohs(address.sin_port);
  }
  ~other_program() { ::close(socket_); }
  int port = 0;

 private:
  int socket_;
};

int free_port() { return other_program{}.port; }

void set(std::vector<std::pair<char const*, std::string>> const& variables) {
  for (auto const& [name, value] : variables) ::setenv(name, value.c_str(), 1);
}

// A communicator without NCCL.
struct no_events final : ww::detail::store_events {
  void describe(ww::detail::rank_state&) noexcept override {}
  void lost(char const*, std::int32_t const*, std::size_t) noexcept override {}
  void end_calls() noexcept override {}
  void begin_group() noexcept override {}
  void left(std::uint64_t) noexcept override {}
  void tick() noexcept override {}
};

TEST_CASE("256 processes come together within 2 s") {
  constexpr int count = test_support::sanitized ? 24 : 256;
  ranks::folder const files;
  double const begin = ranks::now();
  auto const all = ranks::run(count, [&](int rank) -> std::string {
    using namespace ww::detail;
    auto const where = ww::source_location::current();
    store_place place;
    place.rank = rank;
    place.ranks = count;
    place.file = files / "store";
    store_server* server = nullptr;
    if (rank == 0) {
      text problem = "";
      socket_handle listener = listen_on("", place.port, 1, problem);
      std::ofstream{place.file} << host_name() << " " << place.port << "\n";
      server = start_store(std::move(listener), place, 20.0, where);
    }
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
      client.leave(nullptr);
    }
    end_store(server);
    return same ? "same" : "different";
  });
  double const seconds = ranks::now() - begin;
  INFO(texts({all.begin(), all.begin() + 4}));
  for (ranks::result const& r : all) REQUIRE(r.text == "same");
  if (!test_support::sanitized) REQUIRE(seconds < 2.0);
}

TEST_CASE("ranks come together by a file, an address and a broadcast") {
  ranks::folder const files;
  int const port = free_port();
  auto const all = ranks::run(2, [&](int rank) {
    std::string text;
    text += group_of(ww::communicator{ww::rendezvous::file(files / "a", rank, 2), within(10.0)});
    text += ", " +
            group_of(ww::communicator{
                ww::rendezvous::tcp("localhost:" + std::to_string(port), rank, 2), within(10.0)});
    std::string const box = files / "box";
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
    return text + ", " +
           group_of(ww::communicator{ww::rendezvous::by(broadcast, rank, 2), within(10.0)});
  });
  INFO(texts(all));
  REQUIRE(all[0].text == "0 of 2, 0 of 2, 0 of 2");
  REQUIRE(all[1].text == "1 of 2, 1 of 2, 1 of 2");
}

TEST_CASE("launchers are understood by their variables") {
  std::string const port = std::to_string(free_port());
  char const* const kind = GENERATE("torchrun", "mpirun", "hydra", "slurm");
  auto const all = ranks::run(2, [&](int rank) {
    std::string const r = std::to_string(rank);
    std::string const name{kind};
    if (name == "torchrun") {
      set({{"RANK", r},
           {"WORLD_SIZE", "2"},
           {"LOCAL_RANK", r},
           {"LOCAL_WORLD_SIZE", "2"},
           {"MASTER_ADDR", "localhost"},
           {"MASTER_PORT", port},
           {"TORCHELASTIC_RUN_ID", "job"}});
    } else if (name == "mpirun") {
      set({{"OMPI_COMM_WORLD_RANK", r},
           {"OMPI_COMM_WORLD_SIZE", "2"},
           {"OMPI_COMM_WORLD_LOCAL_RANK", r},
           {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
           {"PMIX_NAMESPACE", "job" + port}});
    } else if (name == "hydra") {
      set({{"PMI_RANK", r}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", r}, {"MPI_LOCALNRANKS", "2"}});
    } else {
      set({{"SLURM_PROCID", r},
           {"SLURM_NTASKS", "2"},
           {"SLURM_LOCALID", r},
           {"SLURM_JOB_ID", port},
           {"SLURM_STEP_ID", "0"},
           {"SLURM_STEP_NODELIST", "localhost,gpu[03-05]"}});
    }
    auto const how = ww::rendezvous::from_environment();
    return group_of(ww::communicator{how, within(10.0)}) + " " + std::to_string(how.local_rank());
  });
  INFO(kind << texts(all));
  REQUIRE(all[0].text == "0 of 2 0");
  REQUIRE(all[1].text == "1 of 2 1");
}

TEST_CASE("the first host of a list of Slurm's") {
  using ww::detail::first_host;
  REQUIRE(first_host("gpu[03-05,9],other") == "gpu03");
  REQUIRE(first_host("a,b") == "a");
  REQUIRE(first_host("rack[1,2]x,y") == "rack1x");
  REQUIRE(first_host("solo") == "solo");
}

TEST_CASE("what is missing in the environment is named") {
  struct wrong {
    std::vector<std::pair<char const*, std::string>> variables;
    char const* text;
  };
  wrong const w = GENERATE(
      wrong{{}, "no launcher has set RANK"}, wrong{{{"RANK", "1"}}, "WORLD_SIZE is ''"},
      wrong{{{"RANK", "2"}, {"WORLD_SIZE", "2"}}, "RANK is '2' and WORLD_SIZE is '2'"},
      wrong{{{"RANK", "x"}, {"WORLD_SIZE", "2"}}, "RANK is 'x'; a number"},
      wrong{{{"PMI_RANK", "0"}, {"PMI_SIZE", "4"}, {"MPI_LOCALNRANKS", "2"}}, "set MASTER_ADDR"});
  auto const all = ranks::run(1, [&](int) {
    set(w.variables);
    return group_of(ww::communicator{ww::rendezvous::from_environment(), within(1.0)});
  });
  INFO(texts(all));
  REQUIRE(all[0].has(w.text));
}

TEST_CASE("missing ranks are named within the deadline") {
  ranks::folder const files;
  auto const all = ranks::run(5, [&](int rank) -> std::string {
    if (rank == 1 || rank == 4) return "does not come";
    return group_of(ww::communicator{ww::rendezvous::file(files / "a", rank, 5), within(1.0)});
  });
  INFO(texts(all));
  for (std::size_t const rank : {0U, 2U, 3U}) {
    REQUIRE(all[rank].has("not all ranks have come within 1 s: ranks 1 and 4 missing"));
    REQUIRE(all[rank].seconds < 3.0);
  }
}

TEST_CASE("a rank without rank 0 says where it has looked") {
  ranks::folder const files;
  int const port = free_port();
  other_program const other;
  auto const all = ranks::run(5, [&](int i) -> std::string {
    if (i == 3) std::ofstream{files / "stale"} << ww::detail::host_name() << " " << port << "\n";
    std::string const address = i == 2 ? "no.such.host.invalid" : "localhost";
    auto const how =
        i == 0 ? ww::rendezvous::file(files / "none", 1, 2)
        : i == 3
            ? ww::rendezvous::file(files / "stale", 1, 2)
            : ww::rendezvous::tcp(address + ":" + std::to_string(i == 4 ? other.port : port), 1, 2);
    return group_of(ww::communicator{how, within(0.5)});
  });
  INFO(texts(all));
  REQUIRE(all[0].has("there is no file"));
  REQUIRE(all[1].has("Connection refused"));
  REQUIRE(all[2].has("'no.such.host.invalid' has no address"));
  REQUIRE(all[3].has("perhaps of an earlier run: remove it, or give each run a nonce"));
  REQUIRE(all[4].has("another program listens there"));
  for (ranks::result const& r : all) REQUIRE(r.seconds < 2.5);
}

TEST_CASE("a port in use is named") {
  other_program const other;
  auto const all = ranks::run(1, [&](int) {
    return group_of(ww::communicator{
        ww::rendezvous::tcp("localhost:" + std::to_string(other.port), 0, 1), within(1.0)});
  });
  INFO(texts(all));
  REQUIRE(all[0].has(("port " + std::to_string(other.port)).c_str()));
  REQUIRE(all[0].has("Address already in use"));
}

TEST_CASE("a stale file is waited over, and gone in the end") {
  ranks::folder const files;
  std::ofstream{files / "a"} << ww::detail::host_name() << " " << free_port() << "\n";
  auto const all = ranks::run(2, [&](int rank) {
    if (rank == 0) ::usleep(300000);
    return group_of(ww::communicator{ww::rendezvous::file(files / "a", rank, 2), within(10.0)});
  });
  INFO(texts(all));
  REQUIRE(all[1].text == "1 of 2");
  REQUIRE(::access((files / "a").c_str(), F_OK) != 0);
}

TEST_CASE("ranks of another run, size or number are refused") {
  ranks::folder const files;
  auto const all = ranks::run(4, [&](int i) {
    if (i > 0) ::usleep(100000U * static_cast<unsigned>(i));
    auto how = ww::rendezvous::file(files / "a", i == 3 ? 1 : i, i == 2 ? 4 : 3).nonce("run 7");
    if (i == 1) how = how.nonce("run 8");
    return group_of(ww::communicator{how, within(i == 0 ? 3.0 : 1.5)});
  });
  INFO(texts(all));
  REQUIRE(all[0].has("rank 2 missing; ranks 0 and 1 have come"));
  REQUIRE(all[1].has("belongs to another run, with another nonce"));
  REQUIRE(all[2].has("expects 4 ranks, and rank 0 expects 3"));
  REQUIRE(all[2].seconds < 1.0);
}

TEST_CASE("two processes cannot be the same rank") {
  ranks::folder const files;
  auto const all = ranks::run(3, [&](int i) {
    if (i == 2) ::usleep(200000);
    return group_of(
        ww::communicator{ww::rendezvous::file(files / "a", i == 0 ? 0 : 1, 3), within(1.5)});
  });
  INFO(texts(all));
  REQUIRE(all[2].has("rank 1 is there already (rank 1 (host "));
}

TEST_CASE("programs that say nothing keep no place and no descriptor") {
  int const port = free_port();
  auto const all = ranks::run(2, [&](int rank) -> std::string {
    rlimit few{};
    ::getrlimit(RLIMIT_NOFILE, &few);
    few.rlim_cur = 40;
    if (rank == 0) ::setrlimit(RLIMIT_NOFILE, &few);
    std::vector<ww::detail::socket_handle> silent;
    ww::detail::text problem = "";
    std::uint64_t const soon = ww::detail::monotonic_after(1.0);
    for (int i = 0; rank == 1 && i < 40;) {
      silent.push_back(ww::detail::connect_to("localhost", port, soon, problem));
      silent.back().valid() ? ++i : ::usleep(10000);
    }
    auto const how = ww::rendezvous::tcp("localhost:" + std::to_string(port), rank, 2);
    std::string const text = group_of(ww::communicator{how, within(8.0)});
    return std::clock() < CLOCKS_PER_SEC ? text : "has spun";
  });
  INFO(texts(all));
  REQUIRE(all[0].text == "0 of 2");
  REQUIRE(all[1].text == "1 of 2");
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
  ww::communicator comm{ww::rendezvous::tcp("localhost:" + std::to_string(free_port()), 0, 1)};
  ww::rank_watch const watch{comm};
  REQUIRE_THROWS_WITH(ww::rank_watch{comm}, contains("has one already"));
}

}  // namespace
