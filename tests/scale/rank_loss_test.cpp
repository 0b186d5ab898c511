// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Loses a rank in every way and at every place: all others get an exception that names it within
// the deadline and 2 s, and none hangs or is killed by a signal.
#include "scale/ranks.hpp"
#include "support/sanitized.hpp"

#include <warpwright/core/device.hpp>
#include <warpwright/graph/graph_replay.hpp>
#include <warpwright/memory/buffer.hpp>
#include <warpwright/scale/rank_watch.hpp>

#include <optional>
#include <random>

namespace {

namespace ww = warpwright;

enum class fate { killed, stopped, throws, other_size, other_order, late, ends };
enum class place { init, all_reduce, replay, barrier, save, destroy, abort };

constexpr char const* fates[] = {
    "killed", "stopped", "throws", "calls another size", "calls in another order", "late", "ends"};
constexpr char const* places[] = {"init", "all_reduce", "replay", "barrier",
                                  "save", "destroy",    "abort"};

struct drill {
  fate what;
  place where;
  int victim, count;
  unsigned delay_us;
};

bool makes_sense(drill const& d) {
  bool const differs = d.what == fate::other_size || d.what == fate::other_order;
  if (differs) return d.where == place::all_reduce;
  if (d.where == place::destroy) return d.what == fate::killed || d.what == fate::stopped;
  if (d.where == place::init) return d.what != fate::ends;
  return true;
}

constexpr double deadline = test_support::sanitized ? 2.0 : 0.8;

void suffer(fate what) {
  if (what == fate::killed) ::kill(::getpid(), SIGKILL);
  if (what == fate::stopped) ::kill(::getpid(), SIGSTOP);
  if (what == fate::late) ::usleep(static_cast<unsigned>(deadline * 4e6));
  if (what == fate::throws) throw std::runtime_error{"of its own"};
}

std::string live(int rank, drill const& d) {
  bool const is_victim = rank == d.victim;
  auto const suffers_at = [&](place here) {
    if (!is_victim || here != d.where) return;
    ::usleep(d.delay_us);
    suffer(d.what);
  };
  suffers_at(place::init);
  ww::stream stream;
  ww::memory_pool pool{ww::current_device()};
  ww::device_buffer<float> data{pool, stream, 64};
  std::vector<float> host(64);
  std::optional<ww::graph_replay> graph{std::in_place, 0};
  ww::communicator comm{ranks::meet(rank, d.count), ranks::within(deadline)};
  ww::rank_watch const watch{comm};
  for (int step = 0; step < 6; ++step) {
    bool const now = is_victim && step == 3;
    if (now && d.what == fate::ends && d.where != place::init) return "ended";
    if (now) suffers_at(place::all_reduce);
    if (now && d.what == fate::other_order) comm.broadcast(stream, data.data(), 32);
    comm.all_reduce(stream, data.data(), now && d.what == fate::other_size ? 32U : 64U);
    comm.broadcast(stream, data.data(), 32);
    comm.synchronize(stream);
    if (now) suffers_at(place::replay);
    graph->run(stream, [&](ww::stream_ref s) { comm.all_reduce(s, data.data(), 64); });
    comm.synchronize(stream);
    if (now) suffers_at(place::barrier);
    comm.barrier();
    if (now) suffers_at(place::save);
    data.copy_to(stream, host.data(), host.size());
    comm.synchronize(stream);  // as before a checkpoint is written
    comm.gather(step);
    if (now && d.where == place::abort) {
      if (d.what != fate::throws) comm.abort("has aborted on purpose");
      suffer(d.what);
    }
  }
  graph.reset();  // else it ends behind the process
  suffers_at(place::destroy);
  return "no loss";
}

void run(drill const& d) {
  auto const all = ranks::run(
      d.count, [&](int rank) { return live(rank, d); },
      [&](std::vector<pid_t> const& pids) {
        if (d.what == fate::stopped) ranks::continue_last(pids, d.victim);
      });
  INFO("rank " << d.victim << " of " << d.count << ": " << fates[static_cast<int>(d.what)] << " at "
               << places[static_cast<int>(d.where)] << ", deadline " << deadline
               << ranks::texts(all));
  for (int rank = 0; rank < static_cast<int>(all.size()); ++rank) {
    ranks::result const& r = all[static_cast<std::size_t>(rank)];
    if (rank == d.victim) {
      REQUIRE((r.status == 0 || (d.what == fate::killed && WTERMSIG(r.status) == SIGKILL)));
      continue;
    }
    REQUIRE(r.status == 0);
    if (d.where == place::destroy) {
      REQUIRE(r.seconds < deadline + 4.0);
      continue;  // an exception cannot come out of a destructor
    }
    REQUIRE(r.has("error: "));
    // Without rank 0 the others cannot know its file.
    if (d.where != place::init || d.victim != 0) REQUIRE(r.has("rank " + std::to_string(d.victim)));
    double const begins = d.delay_us * 1e-6 + 0.5 + (d.where == place::init ? deadline : 0.0);
    REQUIRE(r.seconds < begins + deadline + 2.0);
  }
}

TEST_CASE("a stopped rank is noticed although nobody waits for it") {
  auto const all = ranks::run(
      2,
      [](int rank) -> std::string {
        ww::communicator comm{ranks::meet(rank, 2), ranks::within(deadline)};
        comm.barrier();
        if (rank == 1) ::kill(::getpid(), SIGSTOP);
        for (int i = 0; i < 5000; ++i, ::usleep(1000)) comm.check();
        return "not noticed";
      },
      [](std::vector<pid_t> const& pids) { ranks::continue_last(pids, 1); });
  ranks::expect(all, {"...has not answered for", "..."});
}

TEST_CASE("loss drill") {
  if (ranks::most() < 2) return;
  char const* const asked = std::getenv("WARPWRIGHT_TEST_SEED");
  unsigned const seed =
      asked != nullptr ? static_cast<unsigned>(std::atoi(asked)) : std::random_device{}();
  ::setenv("WARPWRIGHT_TEST_SEED", std::to_string(seed).c_str(), 1);  // for the ranks
  int const runs = WARPWRIGHT_NIGHTLY != 0 ? 200 : test_support::sanitized ? 6 : 16;
  std::mt19937 random{seed};
  auto const draw = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int i = 0; i < runs;) {
    int const count = ranks::most() < 3 ? 2 : 2 + draw(2);
    drill d{static_cast<fate>(draw(7)), static_cast<place>(draw(7)), draw(count), count,
            static_cast<unsigned>(draw(3)) * 20000U};
    if (i == 0) d = {fate::late, place::replay, 1, 2, 0};  // what rank_watch alone notices
    if (!makes_sense(d)) continue;
    INFO("WARPWRIGHT_TEST_SEED=" << seed << ", run " << i);
    run(d);
    ++i;
  }
}

}  // namespace
