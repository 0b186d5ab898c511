// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// chooser: what it measures, when, and what it keeps.
#include <warpwright/tune/chooser.hpp>
#include <warpwright/tune/detail/choose/choice_record.hpp>
#include <warpwright/tune/detail/store/store_line.hpp>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <new>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/host_runtime.hpp>
#endif

#include "measure/simulated_noise.hpp"
#include "store_support.hpp"

namespace ww = warpwright;
using namespace test_support;

namespace {

std::atomic<std::size_t> allocations{0};

}  // namespace

// The sanitizers have these functions already, and nvcc would compile them for the device, too.
#if !defined(__CUDACC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#if defined(__has_feature)
#define WARPWRIGHT_TEST_SANITIZED \
  (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define WARPWRIGHT_TEST_SANITIZED 0
#endif
#if !WARPWRIGHT_TEST_SANITIZED
void* operator new(std::size_t bytes) {
  ++allocations;
  void* const memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc{};
  return memory;
}
void* operator new(std::size_t bytes, std::nothrow_t const&) noexcept {
  ++allocations;
  return std::malloc(bytes == 0 ? 1 : bytes);
}
// Not inlined: GCC 12 would see std::free() for what it knows to come from operator new.
__attribute__((noinline)) void operator delete(void* memory) noexcept { std::free(memory); }
__attribute__((noinline)) void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
#endif
#endif

namespace {

// Three candidates whose calls take simulated time; the times may be changed.
struct simulation {
  simulated_clock clock;
  simulated_stopwatch stopwatch{clock};
  std::array<double, 3> seconds{3e-3, 1e-3, 2e-3};
  std::array<int, 3> calls{};
  ww::stream stream;

  ww::choose_options options() {
    return ww::choose_options{}.sampling(
        ww::choose_options{}.sampling().sample_seconds(0.0).clock(clock.ref()));
  }
  auto call(std::size_t i) {
    return [this, i](ww::stream_ref) {
      ++calls[i];
      if (seconds[i] < 0.0) throw std::bad_alloc{};
      clock.advance(seconds[i]);
    };
  }
  auto set() {
    return ww::candidates(ww::candidate("a", call(0)), ww::candidate("b", call(1)),
                          ww::candidate("c", call(2)));
  }
  template <typename Set>
  ww::choice const& prepare(ww::chooser& pick, ww::shape_key const& shape, Set const& candidates) {
    calls = {};
    return pick.prepare_with(stopwatch, stream, shape, candidates);
  }
  ww::choice const& prepare(ww::chooser& pick, ww::shape_key const& shape = {}) {
    return prepare(pick, shape, set());
  }
  int all_calls() const { return calls[0] + calls[1] + calls[2]; }
};

// Ends the capture of a stream at the end of the scope.
class capture_scope {
 public:
  explicit capture_scope(ww::stream_ref stream) : stream_{stream} {
    ww::check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "begin");
  }
  ~capture_scope() {
    cudaGraph_t graph = nullptr;
    CHECK(cudaStreamEndCapture(stream_, &graph) == cudaSuccess);
    if (graph != nullptr) CHECK(cudaGraphDestroy(graph) == cudaSuccess);
  }
  capture_scope(capture_scope const&) = delete;
  capture_scope& operator=(capture_scope const&) = delete;

 private:
  ww::stream_ref stream_;
};

// Changes the stored records as if another driver had been there.
void change_driver(ww::tuning_store const& store) {
  auto const all = store.records();
  std::remove(store.path().c_str());
  for (ww::tuning_record record : all.records) {
    record.key.driver_version = "1.0";
    store.put(record);
  }
}

bool has(std::string const& text, std::string const& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("the first call for a shape measures, later ones run the fastest", "[tune][chooser]") {
  simulation sim;
  ww::chooser pick{"op", sim.options()};
  CHECK(pick.tag() == "op");
  CHECK(pick.find({4, 4}) == nullptr);
  ww::choice const& made = sim.prepare(pick, {4, 4});
  CHECK(made.name == "b");
  CHECK(made.source == ww::choice_source::measured);
  CHECK(sim.all_calls() > 100);
  CHECK(pick.find({4, 4}) == &made);
  CHECK(pick.shapes() == 1);

  sim.calls = {};
  for (int i = 0; i < 10; ++i) CHECK(&pick(sim.stream, {4, 4}, sim.set()) == &made);
  CHECK(sim.calls == std::array<int, 3>{0, 10, 0});
  CHECK(&pick.prepare(sim.stream, {4, 4}, sim.set()) == &made);
  CHECK(&sim.prepare(pick, {4, 4}) == &made);
  CHECK(sim.all_calls() == 0);

  // Another shape is another choice.
  sim.seconds = {1e-3, 2e-3, 2e-3};
  CHECK(sim.prepare(pick, {4, 8}).name == "a");
  CHECK(pick.find({4, 4})->name == "b");
  CHECK(pick.shapes() == 2);
}

TEST_CASE("operator() measures with events, and then runs the choice", "[tune][chooser]") {
  ww::stream const stream;
  auto const quick =
      ww::choose_options{}.sampling(ww::measure_options{}.sample_seconds(0.0).min_seconds(0.0));
  ww::chooser pick{"op", quick};
  std::array<int, 2> calls{};
  auto const set = ww::candidates(ww::candidate("a", [&](ww::stream_ref) { ++calls[0]; }),
                                  ww::candidate("b", [&](ww::stream_ref) { ++calls[1]; }));
  ww::choice const& made = pick(stream, {}, set);
  CHECK(calls[0] >= 3);
  CHECK(calls[1] >= 3);  // or more, unless it seems far slower
  auto const before = calls;
  pick(stream, {}, set);
  CHECK(calls[made.index] == before[made.index] + 1);
  CHECK(calls[1 - made.index] == before[1 - made.index]);
}

TEST_CASE("a call for a known shape allocates nothing and makes no CUDA call", "[tune][chooser]") {
  simulation sim;
  ww::chooser pick{"op", sim.options()};
  for (int i = 0; i < 100; ++i) sim.prepare(pick, {i, 2 * i});
#if WARPWRIGHT_HOST_RUNTIME
  auto const cuda_calls = ww::testing::total_calls();
#endif
  auto const before = allocations.load();
  for (int i = 0; i < 100; ++i) {
    ww::choice const& made = pick(sim.stream, {i, 2 * i}, sim.set());
    if (made.index != 1) FAIL("another choice");
  }
  CHECK(allocations.load() == before);
#if WARPWRIGHT_HOST_RUNTIME
  CHECK(ww::testing::total_calls() == cuda_calls);
#endif
}

TEST_CASE("a stored choice is used without running anything", "[tune][chooser]") {
  store_folder const folder;
  ww::tuning_store const store{folder.file()};
  simulation sim;
  sim.seconds = {3e-3, 1e-3, 2e-3};
  {
    ww::chooser first{"op", store, sim.options()};
    CHECK(first.find({8}) == nullptr);
    CHECK(sim.prepare(first, {8}).source == ww::choice_source::measured);
    CHECK(first.find({8})->warnings.empty());
  }
  auto const records = store.records();
  REQUIRE(records.records.size() == 1);
  CHECK(records.records[0].key.kind == "choice");
  CHECK(records.records[0].key.tag == "op");
  CHECK(records.records[0].key.objective == "fastest for shape 8");
  CHECK(*records.records[0].field("choice") == "b");
  CHECK(*records.records[0].field("second") == "c");

  ww::chooser again{"op", store, sim.options()};
  ww::choice const& made = sim.prepare(again, {8});
  CHECK(sim.all_calls() == 0);
  CHECK(made.source == ww::choice_source::stored);
  CHECK(made.name == "b");
  CHECK(made.index == 1);
  CHECK(made.shown_fastest);
  CHECK(made.reason == "shown to be the fastest");
  CHECK(std::fabs(made.candidates[0].median_seconds - 3e-3) < 1e-9);
  CHECK(std::fabs(made.candidates[0].to_chosen.median - 3.0) < 1e-6);
  CHECK(made.candidates[2].state == ww::candidate_state::compared);

  // Another shape and another tag are not stored.
  CHECK(sim.prepare(again, {9}).source == ww::choice_source::measured);
  ww::chooser other{"op 2", store, sim.options()};
  CHECK(sim.prepare(other, {8}).source == ww::choice_source::measured);
  CHECK(store.records().records.size() == 3);
}

TEST_CASE("a stored choice holds for the candidates that it knows", "[tune][chooser]") {
  store_folder const folder;
  ww::tuning_store const store{folder.file()};
  simulation sim;
  ww::chooser first{"op", store, sim.options()};
  sim.seconds = {3e-3, 1e-3, 5e-3};
  CHECK(sim.prepare(first).candidates[2].state == ww::candidate_state::far_slower);

  auto const a = ww::candidate("a", sim.call(0));
  auto const b = ww::candidate("b", sim.call(1));
  auto const c = ww::candidate("c", sim.call(2));
  ww::chooser reordered{"op", store, sim.options()};
  ww::choice const& moved = sim.prepare(reordered, {}, ww::candidates(b, c, a));
  CHECK(moved.source == ww::choice_source::stored);
  CHECK(moved.index == 0);
  CHECK(has(moved.candidates[1].reason, "times as long as 'b'"));
  ww::chooser fewer{"op", store, sim.options()};
  CHECK(sim.prepare(fewer, {}, ww::candidates(a, b)).source == ww::choice_source::stored);
  CHECK(sim.all_calls() == 0);

  // A new candidate, or the chosen one is gone.
  ww::chooser more{"op", store, sim.options()};
  auto const d = ww::candidate("d", [&](ww::stream_ref) { sim.clock.advance(0.5e-3); });
  CHECK(sim.prepare(more, {}, ww::candidates(a, b, c, d)).name == "d");
  CHECK(*store.records().records[0].field("choice") == "d");
  ww::chooser without{"op", store, sim.options()};
  ww::choice const& rest = sim.prepare(without, {}, ww::candidates(a, b, c));
  CHECK(rest.source == ww::choice_source::measured);
  CHECK(rest.name == "b");
}

TEST_CASE("with another driver the winner is checked against the second best only",
          "[tune][chooser]") {
  store_folder const folder;
  ww::tuning_store const store{folder.file()};
  simulation sim;
  ww::chooser first{"op", store, sim.options()};
  sim.prepare(first);
  change_driver(store);
  {
    ww::chooser pick{"op", store, sim.options()};
    ww::choice const& made = sim.prepare(pick);
    CHECK(sim.calls[0] == 0);
    CHECK(sim.calls[1] > 50);
    CHECK(sim.calls[2] > 50);
    CHECK(made.source == ww::choice_source::checked);
    CHECK(made.name == "b");
    CHECK(made.reason == "not shown to be slower than 'c', the second best before");
    CHECK(made.candidates[2].to_chosen.low > 1.5);
    CHECK(made.elapsed_seconds > 0.0);
  }
  {  // Now it is stored for this driver as well.
    ww::chooser pick{"op", store, sim.options()};
    CHECK(sim.prepare(pick).source == ww::choice_source::stored);
    CHECK(sim.all_calls() == 0);
  }
  CHECK(store.records().records.size() == 2);
}

TEST_CASE("with another driver all are measured if the winner has lost", "[tune][chooser]") {
  store_folder const folder;
  ww::tuning_store const store{folder.file()};
  simulation sim;
  ww::chooser first{"op", store, sim.options()};
  sim.prepare(first);

  auto const again = [&] {
    change_driver(store);
    ww::chooser pick{"op", store, sim.options()};
    return ww::choice{sim.prepare(pick)};
  };
  // The second best is faster now, and a third one is the fastest.
  sim.seconds = {1e-3, 3e-3, 2e-3};
  auto made = again();
  CHECK(made.source == ww::choice_source::measured);
  CHECK(made.name == "a");
  // The winner fails.
  sim.seconds = {-1.0, 3e-3, 2e-3};
  made = again();
  CHECK(made.source == ww::choice_source::measured);
  CHECK(made.name == "c");
  // The second best fails: the winner needs no comparison.
  sim.seconds = {1e-3, -1.0, 2e-3};
  made = again();
  CHECK(made.source == ww::choice_source::checked);
  CHECK(made.name == "c");
  CHECK(sim.calls[2] == 1);
  CHECK(made.reason == "it works as before");
  CHECK(made.candidates[1].state == ww::candidate_state::failed);
  // There is no second best any more: the winner is tried alone.
  made = again();
  CHECK(made.source == ww::choice_source::checked);
  CHECK(sim.all_calls() == 1);
  // No difference: the stored choice stays.
  sim.seconds = {1e-3, 1e-3, 3e-3};
  std::remove(store.path().c_str());
  ww::chooser third{"op", store, sim.options()};
  CHECK(sim.prepare(third).name == "a");
  sim.seconds = {2e-3, 2e-3, 3e-3};
  CHECK(again().name == "a");
  // Nothing can run.
  sim.seconds = {-1.0, -1.0, -1.0};
  CHECK_THROWS_AS(again(), std::runtime_error);
}

TEST_CASE(
    "a stored choice stays where the second best has a better median, but is not shown faster",
    "[tune][chooser]") {
  store_folder const folder;
  ww::tuning_store const store{folder.file()};
  simulation sim;
  ww::chooser first{"op", store, sim.options()};
  CHECK(sim.prepare(first).name == "b");
  change_driver(store);
  // Of seven turns two are slower by more than the other five are faster.
  int runs = 0;
  auto const second = ww::candidate(
      "c", [&](ww::stream_ref) { sim.clock.advance((runs++ / 2) % 7 < 5 ? 0.995e-3 : 1.015e-3); });
  ww::chooser pick{"op", store, sim.options()};
  auto const a = ww::candidate("a", sim.call(0));
  auto const b = ww::candidate("b", sim.call(1));
  ww::choice const& made = sim.prepare(pick, {}, ww::candidates(a, b, second));
  CHECK(made.name == "b");
  CHECK(made.source == ww::choice_source::checked);
  CHECK(made.reason == "not shown to be slower than 'c', the second best before");
  CHECK(made.candidates[2].median_seconds < made.candidates[1].median_seconds);
  CHECK(made.candidates[2].to_chosen.verdict() == ww::difference::inconclusive);
  CHECK_FALSE(made.shown_fastest);
}

TEST_CASE("choices of warm and of cold calls are stored apart", "[tune][chooser]") {
  store_folder const folder;
  ww::tuning_store const store{folder.file()};
  simulation sim;
  ww::chooser warm{"op", store, sim.options()};
  CHECK(sim.prepare(warm, {8}).source == ww::choice_source::measured);
  for (auto const source : {ww::choice_source::measured, ww::choice_source::stored}) {
    ww::chooser cold{"op", store, sim.options().cold()};
    CHECK(sim.prepare(cold, {8}).source == source);
  }
  ww::chooser again{"op", store, sim.options()};
  CHECK(sim.prepare(again, {8}).source == ww::choice_source::stored);
  CHECK(store.records().records.size() == 2);
}

TEST_CASE("an interrupted measurement is not kept", "[tune][chooser]") {
  store_folder const folder;
  ww::tuning_store const store{folder.file()};
  simulation sim;
  bool stopped = true;
  auto const stop = [&] { return stopped; };
  auto const options = ww::choose_options{}.sampling(sim.options().sampling().stop_when(stop));
  ww::chooser pick{"op", store, options};
  CHECK(sim.prepare(pick).name == "a");
  CHECK(pick.find({})->interrupted);
  CHECK(store.records().records.empty());
  stopped = false;
  CHECK(sim.prepare(pick).name == "b");
  CHECK_FALSE(pick.find({})->interrupted);

  // Of a stored choice that should be checked, the winner stays.
  change_driver(store);
  stopped = true;
  ww::chooser other{"op", store, options};
  ww::choice const& made = sim.prepare(other);
  CHECK(made.name == "b");
  CHECK(made.source == ww::choice_source::not_measured);
  CHECK(made.reason == "stored for other versions; the check was interrupted");
  stopped = false;
  CHECK(sim.prepare(other).source == ww::choice_source::checked);
}

TEST_CASE("nothing is measured while the stream is capturing", "[tune][chooser]") {
  store_folder const folder;
  ww::tuning_store const store{folder.file()};
  simulation sim;
  ww::chooser pick{"op", store, sim.options()};
  {
    capture_scope const capture{sim.stream};
    for (int i = 1; i < 4; ++i) {
      ww::choice const& made = pick(sim.stream, {1}, sim.set());
      CHECK(made.name == "a");
      CHECK(made.source == ww::choice_source::not_measured);
      CHECK(made.reason == "the stream was capturing: the first candidate, not measured");
      CHECK(sim.calls == std::array<int, 3>{i, 0, 0});
    }
  }
  CHECK(store.records().records.empty());
  ww::choice const& measured = sim.prepare(pick, {1});
  CHECK(measured.name == "b");
  CHECK(measured.source == ww::choice_source::measured);
  {
    capture_scope const capture{sim.stream};
    CHECK(&pick(sim.stream, {1}, sim.set()) == &measured);
    // What is stored is used, and kept.
    ww::chooser second{"op", store, sim.options()};
    CHECK(second(sim.stream, {1}, sim.set()).source == ww::choice_source::stored);
    CHECK(second.find({1})->name == "b");
  }
  change_driver(store);
  ww::chooser third{"op", store, sim.options()};
  {
    capture_scope const capture{sim.stream};
    ww::choice const& made = third(sim.stream, {1}, sim.set());
    CHECK(made.name == "b");
    CHECK(made.source == ww::choice_source::not_measured);
    CHECK(made.reason == "the stream was capturing: the stored choice for other versions");
  }
  CHECK(sim.prepare(third, {1}).source == ww::choice_source::checked);
}

TEST_CASE("measurements can be forbidden", "[tune][chooser]") {
  simulation sim;
  ww::chooser pick{"op", sim.options()};
  sim.prepare(pick, {1});
  pick.allow_measuring(false);
  CHECK(sim.prepare(pick, {1}).name == "b");
  ww::choice const& made = sim.prepare(pick, {2});
  CHECK(made.name == "a");
  CHECK(made.reason == "measuring is not allowed: the first candidate, not measured");
  CHECK(&sim.prepare(pick, {2}) == &made);
  CHECK(sim.all_calls() == 0);
  pick.allow_measuring(true);
  CHECK(sim.prepare(pick, {2}).name == "b");
  CHECK(made.name == "a");  // still valid
  CHECK(pick.shapes() == 2);
}

TEST_CASE("after an exception nothing is kept, and the next call measures", "[tune][chooser]") {
  simulation sim;
  ww::chooser pick{"op", sim.options()};
  bool broken = true;
  auto const set = ww::candidates(ww::candidate("a",
                                                [&](ww::stream_ref) {
                                                  if (broken) throw std::runtime_error{"broken"};
                                                  sim.clock.advance(1e-3);
                                                }),
                                  ww::candidate("b", sim.call(1)));
  CHECK_THROWS_WITH(sim.prepare(pick, {}, set), "broken");
  CHECK(pick.find({}) == nullptr);
  broken = false;
  CHECK(sim.prepare(pick, {}, set).name == "a");
}

TEST_CASE("a store that cannot be used is a warning", "[tune][chooser]") {
  store_folder const folder;
  simulation sim;
  // Its folder is a file.
  write(folder.path() + "/file", "x");
  ww::chooser pick{"op", ww::tuning_store{folder.path() + "/file/store.txt"}, sim.options()};
  ww::choice const& made = sim.prepare(pick);
  CHECK(made.name == "b");
  REQUIRE(made.warnings.size() == 2);
  CHECK(has(made.warnings[0], "store.txt"));
  CHECK(has(ww::to_text(made), "warning: "));

  // A record that is not one of a choice, or not a whole one, is not used.
  ww::tuning_store const store{folder.file()};
  ww::chooser good{"op", store, sim.options()};
  sim.prepare(good);
  auto const record = store.records().records.at(0);
  for (std::size_t i = 0; i < record.fields.size(); ++i) {
    auto changed = record;
    changed.fields.erase(changed.fields.begin() + static_cast<std::ptrdiff_t>(i));
    store.put(changed);
    ww::chooser reads{"op", store, sim.options()};
    CAPTURE(record.fields[i].name);
    bool const needed = record.fields[i].name != "second";
    bool const measured = sim.prepare(reads).source == ww::choice_source::measured;
    CHECK(measured == needed);
    changed = record;
    changed.fields[i].value = "nonsense";
    store.put(changed);
    ww::chooser again{"op", store, sim.options()};
    CHECK(sim.prepare(again).name == "b");
  }
}

TEST_CASE("many records of random choices are read as they were written", "[tune][chooser]") {
  unsigned const seed = std::random_device{}();
  std::printf("seed %u\n", seed);
  std::mt19937 random{seed};
  auto const number = [&](unsigned below) { return static_cast<std::size_t>(random() % below); };
  constexpr ww::candidate_state states[] = {
      ww::candidate_state::not_timed, ww::candidate_state::compared,
      ww::candidate_state::far_slower, ww::candidate_state::failed, ww::candidate_state::wrong};
  for (int trial = 0; trial < 1000; ++trial) {
    ww::choice made;
    std::vector<char const*> names;
    std::vector<std::string> texts;
    std::size_t const count = 1 + number(6);
    for (std::size_t i = 0; i < count; ++i) {
      ww::candidate_figures c;
      c.name = "name\t" + std::to_string(i) + std::string(number(3), '\n');
      c.state = states[number(5)];
      c.median_seconds = 1e-6 * static_cast<double>(1 + number(1000));
      c.reason = std::string(number(3) * 90, 'r');
      made.candidates.push_back(c);
      texts.push_back(c.name);
    }
    for (std::string const& text : texts) names.push_back(text.c_str());
    made.index = number(static_cast<unsigned>(count));
    made.name = made.candidates[made.index].name;
    made.shown_fastest = number(2) == 1;
    auto record = ww::detail::record_of(made);
    record.key = make_key();
    ww::tuning_record read;
    std::string const line = ww::detail::encode_record(record);
    REQUIRE_FALSE(ww::detail::decode_record({line.data(), line.data() + line.size()}, read));
    ww::choice found;
    std::size_t second = 7;
    REQUIRE(ww::detail::read_choice(read, names.data(), count, found, second));
    REQUIRE(found.index == made.index);
    REQUIRE(second == ww::detail::second_best(made));
    REQUIRE(found.shown_fastest == made.shown_fastest);
    for (std::size_t i = 0; i < count; ++i) {
      REQUIRE(found.candidates[i].state == made.candidates[i].state);
      REQUIRE(!(found.candidates[i].median_seconds < made.candidates[i].median_seconds));
      REQUIRE(!(found.candidates[i].median_seconds > made.candidates[i].median_seconds));
      REQUIRE(found.candidates[i].reason == made.candidates[i].reason);
    }
  }
}

TEST_CASE("many threads get the same choices, each measured once", "[tune][chooser]") {
  constexpr int shapes = 200;
  constexpr int threads = 4;
  ww::chooser pick{"op", ww::choose_options{}};
  std::vector<std::atomic<int>> tried(shapes);
  std::atomic<int> at_once{0};
  std::atomic<bool> disturbed{false};
  auto const use = [&](int thread) {
    ww::stream const stream;
    simulated_clock clock;
    simulated_stopwatch stopwatch{clock};
    for (int i = 0; i < 4 * shapes; ++i) {
      int const shape = (i * 7 + thread * 50) % shapes;
      auto const a = [&](ww::stream_ref) {
        ++tried[static_cast<std::size_t>(shape)];
        if (at_once++ != 0) disturbed = true;
        --at_once;
      };
      // The only one left: one call each.
      auto const b = [](ww::stream_ref) { throw std::bad_alloc{}; };
      auto const set = ww::candidates(ww::candidate("b", b), ww::candidate("a", a));
      ww::choice const& made = pick.prepare_with(stopwatch, stream, {shape}, set);
      if (made.index != 1 || pick.find({shape}) != &made) disturbed = true;
    }
  };
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t) all.emplace_back(use, t);
  for (auto& thread : all) thread.join();
  CHECK_FALSE(disturbed.load());
  CHECK(pick.shapes() == shapes);
  int wrong = 0;
  for (auto const& count : tried) wrong += count == 1 ? 0 : 1;
  CHECK(wrong == 0);
}

TEST_CASE("a table keeps what is final, and finds every shape", "[tune][chooser]") {
  ww::detail::choice_table table;
  auto const insert = [&](ww::shape_key const& shape, std::size_t index, bool final) {
    ww::choice made;
    made.index = index;
    made.candidates.resize(2);
    return table.insert(shape, made, final).value.index;
  };
  CHECK(table.find({1}) == nullptr);
  CHECK(insert({1}, 10, false) == 10);
  auto const* const guess = table.find({1});
  CHECK(insert({1}, 11, false) == 10);
  CHECK(insert({1}, 12, true) == 12);
  CHECK(insert({1}, 13, false) == 12);
  CHECK(insert({1}, 14, true) == 12);
  CHECK(table.find({1})->value.index == 12);
  CHECK(table.find({1})->candidates == 2);
  CHECK(guess->value.index == 10);  // still valid
  CHECK(table.size() == 1);

  unsigned const seed = std::random_device{}();
  std::printf("seed %u\n", seed);
  std::mt19937 random{seed};
  std::map<std::array<std::uint64_t, 2>, std::size_t> all;
  for (std::size_t i = 0; i < 5000; ++i) {
    std::array<std::uint64_t, 2> const extents{random() % 64 * 1024, random() % 64};
    bool const known = all.count(extents) == 1;
    REQUIRE(insert({extents[0], extents[1]}, i, true) == (known ? all[extents] : i));
    if (!known) all[extents] = i;
  }
  CHECK(table.size() == all.size() + 1);
  std::size_t wrong = 0;
  for (std::uint64_t rows = 0; rows < 64; ++rows) {
    for (std::uint64_t cols = 0; cols < 64; ++cols) {
      auto const* const found = table.find({rows * 1024, cols});
      auto const expected = all.find({rows * 1024, cols});
      bool const right = expected == all.end()
                             ? found == nullptr
                             : found != nullptr && found->value.index == expected->second;
      wrong += right ? 0 : 1;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("wrong use of a chooser throws", "[tune][chooser]") {
  store_folder const folder;
  simulation sim;
  CHECK_THROWS_WITH(ww::chooser{""}, contains("the tag is empty"));
  CHECK_THROWS_WITH((ww::chooser{"", ww::tuning_store{folder.file()}}),
                    contains("the tag is empty"));
  CHECK_THROWS_AS((ww::chooser{"op", ww::tuning_store{folder.file()}, {}, ww::device_id{99}}),
                  std::invalid_argument);

  ww::chooser pick{"op", sim.options()};
  auto const a = ww::candidate("a", sim.call(0));
  auto const b = ww::candidate("b", sim.call(1));
  auto const c = ww::candidate("c", sim.call(2));
  sim.prepare(pick, {}, ww::candidates(a, b));
  CHECK_THROWS_WITH(pick(sim.stream, {}, ww::candidates(a, b, c)),
                    contains("3 candidates for a shape that had 2 before"));
  CHECK_THROWS_WITH(pick.prepare(sim.stream, {}, ww::candidates(b)), contains("1 candidates"));
  CHECK_THROWS_WITH(pick(sim.stream, {1}, ww::candidates(a, a)), contains("both named 'a'"));
  pick.allow_measuring(false);
  CHECK_THROWS_WITH(pick(sim.stream, {1}, ww::candidates(ww::candidate(nullptr, sim.call(0)))),
                    contains("candidate 0 has no name"));
  pick.allow_measuring(true);
  CHECK(pick.find({1}) == nullptr);

  ww::chooser outer{"op", sim.options()};
  auto const nested = [&](ww::stream_ref s) { outer(s, {9}, ww::candidates(a, b)); };
  auto const set = ww::candidates(ww::candidate("nested", nested));
  // An std::invalid_argument leaves a candidate out.
  CHECK_THROWS_WITH(sim.prepare(outer, {}, set),
                    contains("a candidate calls the chooser by which it is measured"));
  CHECK(sim.prepare(outer, {9}, ww::candidates(a, b)).name == "b");

  ww::chooser elsewhere{"op", sim.options(), ww::device_id{7}};
  CHECK_THROWS_WITH(sim.prepare(elsewhere),
                    contains("the stream is of device 0, the chooser's device is 7"));
}
