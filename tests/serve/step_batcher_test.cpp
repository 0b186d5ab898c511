// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"

#include <warpwright/serve/step_batcher.hpp>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <stdexcept>
#include <vector>

namespace ww = warpwright;

namespace {

double seconds_of(std::size_t tokens) { return 5e-3 + 20e-6 * static_cast<double>(tokens); }

ww::latency_model model() {
  std::vector<ww::latency_point> points;
  for (std::size_t n = 1; n <= 4096; n *= 2) {
    points.push_back({n, seconds_of(n), 1.01 * seconds_of(n), 0});
  }
  return ww::latency_model::fit(points);
}

std::vector<ww::step_part> parts_of(ww::step_batcher const& steps) {
  return {steps.parts(), steps.parts() + steps.part_count()};
}
std::size_t tokens_of(std::vector<ww::step_part> const& parts) {
  std::size_t tokens = 0;
  for (ww::step_part const& p : parts) tokens += p.count;
  return tokens;
}

}  // namespace

TEST_CASE("a prompt of 64 k tokens leaves the running sequences half of their rate") {
  ww::step_batcher steps{ww::step_batcher_options{}.slots(64).budget(4096), model()};
  for (std::uint64_t id = 0; id < 32; ++id) steps.add(id, 100);
  double alone = 0.0;
  double beside = 0.0;
  std::size_t generated_alone = 0;
  std::size_t generated_beside = 0;
  bool entered = false;
  bool left = false;
  for (int step = 0; step < 1000 && !left; ++step) {
    REQUIRE(steps.next());
    auto const parts = parts_of(steps);
    double const seconds = seconds_of(tokens_of(parts));
    for (ww::step_part const& p : parts) {
      if (p.id == 99) left = left || p.generates;
      std::size_t const one = p.id < 32 && p.generates ? 1 : 0;
      if (entered) generated_beside += one;
      if (!entered && step > 50) generated_alone += one;
    }
    if (entered) beside += seconds;
    if (!entered && step > 50) alone += seconds;
    steps.done(seconds);
    if (step == 150) {
      steps.add(99, 65536);
      entered = true;
    }
  }
  CHECK(left);
  double const rate = static_cast<double>(generated_alone) / alone;
  CHECK(static_cast<double>(generated_beside) / beside >= 0.5 * rate);
  CHECK(beside < 4.0);  // 1.4 s alone
}

TEST_CASE("parts, slots, memory and waits are right for random sequences") {
  unsigned const seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 random{seed};
  auto const below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  struct sequence {
    std::size_t tokens, computed, target;
    bool runs;
    std::size_t waited, slot;
  };
  for (int round = 0; round < 50; ++round) {
    std::size_t const slots = 1 + below(8);
    std::size_t const budget = 1 + below(64);
    std::size_t const memory = 50 + below(500);
    std::size_t const most_wait = 1 + below(8);
    CAPTURE(round, slots, budget, memory, most_wait);
    ww::step_batcher steps{ww::step_batcher_options{}
                               .slots(slots)
                               .budget(budget)
                               .memory(memory)
                               .max_wait_steps(most_wait)
                               .min_chunk(1 + below(16)),
                           model()};
    std::map<std::uint64_t, sequence> plain;
    std::uint64_t next = 0;
    for (int step = 0; step < 400 || !plain.empty(); ++step) {
      REQUIRE(step < 20000);
      if (step < 400 && below(3) == 0 && plain.size() < 12) {
        std::size_t const n = 1 + below(std::min<std::size_t>(40, memory / 3));
        steps.add(next, n, static_cast<int>(below(3)));
        plain[next++] = {n, 0, n + 1 + below(20), false, 0, 0};
      }
      if (!plain.empty() && below(40) == 0) {
        REQUIRE(steps.finish(plain.begin()->first));
        plain.erase(plain.begin());
      }
      REQUIRE(steps.next() == !plain.empty());
      for (std::uint64_t const id : steps.preempted()) {
        REQUIRE(plain.at(id).runs);
        plain[id].runs = false;
        plain[id].computed = plain[id].waited = 0;
      }
      auto const parts = parts_of(steps);
      std::vector<char> used(slots);
      for (ww::step_part const& p : parts) {
        sequence& s = plain.at(p.id);
        REQUIRE((p.slot < slots && used[p.slot]++ == 0));
        REQUIRE((!s.runs || s.slot == p.slot));
        REQUIRE((p.begin == s.computed && p.count >= 1 && p.begin + p.count <= s.tokens));
        REQUIRE(p.generates == (p.begin + p.count == s.tokens));
        s.runs = true;
        s.slot = p.slot;
      }
      std::size_t resident = 0;
      for (auto& [id, s] : plain) {
        std::uint64_t const own = id;
        bool const part = std::any_of(parts.begin(), parts.end(),
                                      [own](ww::step_part const& p) { return p.id == own; });
        resident += s.runs ? s.computed : 0;
        s.waited = part || !s.runs ? 0 : s.waited + 1;
        REQUIRE(s.waited <= most_wait + 2 * slots);
      }
      REQUIRE(tokens_of(parts) <= budget);
      REQUIRE(steps.resident_tokens() == resident);
      REQUIRE(resident + tokens_of(parts) <= memory);
      steps.done(seconds_of(tokens_of(parts)));
      for (ww::step_part const& p : parts) {
        sequence& s = plain.at(p.id);
        s.computed += p.count;
        if (!p.generates || (++s.tokens < s.target && s.tokens + 1 < memory)) continue;
        REQUIRE(steps.finish(p.id));
        plain.erase(p.id);
      }
    }
    CHECK(steps.running() + steps.waiting() + steps.resident_tokens() == 0);
  }
}

TEST_CASE("the later and less urgent sequence is preempted, and computed again") {
  ww::step_batcher steps{ww::step_batcher_options{}.slots(2).budget(100).memory(20), model()};
  steps.add(1, 9);
  steps.add(2, 9, 1);
  REQUIRE(steps.next());
  CHECK(steps.part_count() == 2);
  steps.done(0.0);
  REQUIRE(steps.next());  // 18 + 2 fit
  steps.done(0.0);
  REQUIRE(steps.next());
  REQUIRE(steps.preempted().size() == 1);
  CHECK(steps.preempted()[0] == 1);
  CHECK(steps.part_count() == 1);
  steps.done(0.0);
  CHECK(steps.finish(2));
  REQUIRE(steps.next());
  CHECK(steps.parts()[0].begin == 0);
  CHECK(steps.parts()[0].count == 11);  // 9 and the two that it had generated
}

TEST_CASE("a more urgent sequence preempts one that runs, for a slot and for memory") {
  ww::step_batcher slot{ww::step_batcher_options{}.slots(1), model()};
  slot.add(1, 5);
  REQUIRE(slot.next());
  slot.done(0.0);
  slot.add(2, 5, 1);
  slot.add(3, 5);  // not more urgent
  REQUIRE(slot.next());
  // The one that runs has its token in this step already.
  slot.done(0.0);
  ww::step_batcher memory{ww::step_batcher_options{}.slots(4).budget(8).memory(30), model()};
  memory.add(1, 28);
  for (int i = 0; i < 2; ++i) {
    REQUIRE(memory.next());
    memory.done(0.0);
  }
  memory.add(2, 20, 1);
  REQUIRE(memory.next());
  REQUIRE(memory.preempted().size() == 1);
  CHECK(memory.preempted()[0] == 1);
  CHECK(memory.parts()[0].id == 2);
}

TEST_CASE("where more sequences generate than the budget has tokens, they do so in turn") {
  ww::step_batcher steps{ww::step_batcher_options{}.slots(9).budget(3).max_wait_steps(4), model()};
  std::map<std::uint64_t, int> last;
  std::map<std::uint64_t, int> parts;
  int prompt = 0;
  for (int step = 0; step < 400; ++step) {
    if (step < 8) steps.add(static_cast<std::uint64_t>(step), 1);
    if (step == 100) steps.add(99, 30);
    REQUIRE(steps.next());
    for (ww::step_part const& p : parts_of(steps)) {
      if (step > 100 && p.id != 99) CHECK(step - last[p.id] <= 10);
      last[p.id] = step;
      if (step > 8 && step <= 100) ++parts[p.id];
      prompt += p.id == 99 ? 1 : 0;
    }
    steps.done(0.0);
  }
  for (auto const& [id, count] : parts) CHECK(std::abs(count - 92 * 3 / 8) <= 3);
  CHECK(prompt > 10);  // it is not left out for those that generate
}

TEST_CASE("a sequence that outgrows the memory ends, one that cannot fit is refused") {
  ww::step_batcher steps{ww::step_batcher_options{}.memory(8), model()};
  CHECK_THROWS_AS(steps.add(1, 8), std::invalid_argument);
  CHECK_THROWS_AS(steps.add(1, 0), std::invalid_argument);
  steps.add(1, 7);
  CHECK_THROWS_WITH(steps.add(1, 7), contains("the sequence 1 is here already"));
  int count = 0;
  while (steps.next()) {
    REQUIRE(++count < 10);
    steps.done(0.0);
  }
  CHECK(steps.preempted().size() == 1);
  CHECK_FALSE(steps.finish(1));
  using options = ww::step_batcher_options;
  for (options const& o : {options{}.slots(0), options{}.budget(0), options{}.max_slowdown(1.0),
                           options{}.max_wait_steps(0), options{}.min_chunk(0)}) {
    CHECK_THROWS_AS((ww::step_batcher{o, model()}), std::invalid_argument);
  }
}

TEST_CASE("a sequence that had to go and is too long for the memory then ends") {
  ww::step_batcher steps{ww::step_batcher_options{}.memory(20), model()};
  steps.add(1, 15);
  while (steps.resident_tokens() != 20) {
    REQUIRE(steps.next());
    steps.done(0.0);
  }
  steps.add(2, 5, 1);
  REQUIRE(steps.next());
  CHECK(steps.preempted().size() == 1);
  steps.done(0.0);
  CHECK(steps.finish(2));
  CHECK_FALSE(steps.next());
  CHECK(steps.preempted().size() == 1);
  CHECK(steps.waiting() == 0);
}

TEST_CASE("a more urgent sequence takes the slot or the memory of one that generates") {
  for (bool const for_slot : {true, false}) {
    ww::step_batcher_options const o;
    ww::step_batcher steps{for_slot ? o.slots(1) : o.memory(1000), model()};
    steps.add(1, 400);
    while (steps.resident_tokens() < 402) {
      REQUIRE(steps.next());
      steps.done(0.0);
    }
    steps.add(2, 700, 7);
    REQUIRE(steps.next());
    REQUIRE(steps.part_count() == 1);
    CHECK(steps.parts()[0].id == 2);
    CHECK(steps.preempted()[0] == 1);
  }
}
