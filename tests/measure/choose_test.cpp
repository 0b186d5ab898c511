// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/core/launch.hpp>
#include <warpwright/core/shape_key.hpp>
#include <warpwright/measure/choose.hpp>
#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/host_runtime.hpp>
#endif

#include <array>
#include <cstdint>
#include <cstdio>
#include <new>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "measure/simulated_noise.hpp"
#include "support/catch.hpp"

namespace ww = warpwright;
using namespace test_support;

namespace {

// Candidates whose calls take simulated time, and may throw.
struct simulation {
  simulated_clock clock;
  simulated_stopwatch stopwatch{clock};
  noise_source random{1};
  std::array<int, 4> calls{};
  std::string order;

  ww::choose_options options() {
    return ww::choose_options{}.sampling(
        ww::choose_options{}.sampling().sample_seconds(0.0).clock(clock.ref()));
  }
  auto call(std::size_t i, double seconds, double deviation = 0.005) {
    return [this, i, seconds, deviation](ww::stream_ref) {
      ++calls[i];
      clock.advance(seconds * (1.0 + deviation * normal(random)));
    };
  }
  template <typename Set>
  ww::choice choose(Set const& set) {
    return ww::choose_with(stopwatch, stream, set, options());
  }
  ww::stream stream;
};

unsigned random_seed() {
  unsigned const seed = std::random_device{}();
  std::printf("seed %u\n", seed);
  return seed;
}

bool has(std::string const& text, std::string const& part) {
  return text.find(part) != std::string::npos;
}

struct library_error {};

struct scale {
  float* data;
  int rounds;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const {
    float x = static_cast<float>(i);
    for (int k = 0; k < rounds; ++k) x = x * 0.5F + 1.0F;
    data[i] = x;
  }
};

}  // namespace

TEST_CASE("the fastest of three is chosen, with figures and a reason", "[tune][choose]") {
  simulation sim;
  auto const best = sim.choose(ww::candidates(ww::candidate("rows", sim.call(0, 2e-3)),
                                              ww::candidate("tiles", sim.call(1, 1.8e-3)),
                                              ww::candidate("library", sim.call(2, 2.4e-3))));
  CHECK(best.index == 1);
  CHECK(best.name == "tiles");
  CHECK(best.source == ww::choice_source::measured);
  CHECK(best.shown_fastest);
  CHECK(best.reason == "shown to be the fastest");
  CHECK_FALSE(best.interrupted);
  CHECK(best.elapsed_seconds > 0.1);
  REQUIRE(best.candidates.size() == 3);
  for (auto const& c : best.candidates) {
    CHECK(c.state == ww::candidate_state::compared);
    CHECK(c.reason.empty());
  }
  CHECK(std::fabs(best.candidates[2].median_seconds / 2.4e-3 - 1.0) < 0.01);
  CHECK(std::fabs(best.candidates[2].to_chosen.median / (2.4 / 1.8) - 1.0) < 0.01);
  CHECK(best.candidates[2].to_chosen.low > 1.2);
  CHECK(best.candidates[2].to_chosen.converged());

  std::string const text = ww::to_text(best);
  CHECK(has(text, "* tiles    1.8"));
  CHECK(has(text, "  library  2.4"));
  CHECK(has(text, " ms, 1.3"));
  CHECK(has(text, " times as long (1.3"));
  CHECK(has(text, "tiles (measured): shown to be the fastest\n"));
}

TEST_CASE("of candidates without a shown difference the one with the best median is chosen",
          "[tune][choose]") {
  // A single call of "b" takes 5 % less, but the noise hides it in these few turns.
  simulation sim;
  auto const options =
      ww::choose_options{}.sampling(sim.options().sampling().min_samples(8).max_samples(8));
  auto const set = ww::candidates(ww::candidate("slow", sim.call(0, 3e-3, 0.02)),
                                  ww::candidate("a", sim.call(1, 2e-3, 0.1)),
                                  ww::candidate("b", sim.call(2, 1.9e-3, 0.1)));
  int chosen[3] = {};
  int shown = 0;
  for (int i = 0; i < 100; ++i) {
    auto const made = ww::choose_with(sim.stopwatch, sim.stream, set, options);
    ++chosen[made.index];
    double const best = made.candidates[made.index].median_seconds;
    for (std::size_t k = 1; k < 3; ++k) {
      if (!made.shown_fastest) CHECK(made.candidates[k].median_seconds >= best);
    }
    if (made.shown_fastest) {
      ++shown;
    } else {
      std::string const other = made.name == "a" ? "'b'" : "'a'";
      CHECK(made.reason == "no difference shown to " + other + "; the best median of them");
    }
  }
  CHECK(chosen[0] == 0);
  CHECK(chosen[1] > 0);
  CHECK(chosen[2] > chosen[1]);
  CHECK(shown < 50);

  // Of equal medians the first.
  auto const equal = ww::choose_with(sim.stopwatch, sim.stream,
                                     ww::candidates(ww::candidate("a", sim.call(0, 2e-3, 0.0)),
                                                    ww::candidate("b", sim.call(1, 2e-3, 0.0))),
                                     sim.options());
  CHECK(equal.name == "a");
}

TEST_CASE("the only candidate, or the only one left, is not timed", "[tune][choose]") {
  simulation sim;
  auto const only = sim.choose(ww::candidates(ww::candidate("a", sim.call(0, 2e-3))));
  CHECK(only.index == 0);
  CHECK(only.reason == "the only one");
  CHECK(sim.calls[0] == 1);
  CHECK(only.candidates[0].state == ww::candidate_state::not_timed);
  CHECK(has(ww::to_text(only), "* a  not timed"));

  auto const broken = [](ww::stream_ref) { throw std::bad_alloc{}; };
  auto const left =
      sim.choose(ww::candidates(ww::candidate("x", broken), ww::candidate("a", sim.call(1, 2e-3))));
  CHECK(left.index == 1);
  CHECK(left.reason == "the only one that is left");
  CHECK_FALSE(left.shown_fastest);
  CHECK(sim.calls[1] == 1);
}

TEST_CASE("what cannot run is left out, and the reason is kept", "[tune][choose]") {
  simulation sim;
  auto const best = sim.choose(ww::candidates(
      ww::candidate("pool",
                    [](ww::stream_ref) {
                      ww::memory_report report;
                      report.requested_bytes = 123;
                      throw ww::out_of_memory{report};
                    }),
      ww::candidate("cuda",
                    [](ww::stream_ref) { ww::check(cudaErrorMemoryAllocation, "cudaMalloc"); }),
      ww::candidate("shape",
                    [](ww::stream_ref) { throw std::invalid_argument{"cols must be even"}; }),
      ww::candidate("a", sim.call(0, 2e-3)), ww::candidate("b", sim.call(1, 1e-3))));
  CHECK(best.name == "b");
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(best.candidates[i].state == ww::candidate_state::failed);
  }
  CHECK(has(best.candidates[0].reason, "requested 123 bytes"));
  CHECK(has(best.candidates[1].reason, "cudaErrorMemoryAllocation"));
  CHECK(best.candidates[2].reason == "cols must be even");
  CHECK(has(ww::to_text(best), "  shape  left out: cols must be even\n"));
}

TEST_CASE("other exceptions leave a candidate out only if the classifier says so",
          "[tune][choose]") {
  simulation sim;
  auto const set =
      ww::candidates(ww::candidate("library", [](ww::stream_ref) { throw library_error{}; }),
                     ww::candidate("a", sim.call(0, 2e-3)), ww::candidate("b", sim.call(1, 1e-3)));
  CHECK_THROWS_AS(sim.choose(set), library_error);
  auto const is_library_error = [](std::exception_ptr const& error) {
    try {
      std::rethrow_exception(error);
    } catch (library_error const&) {
      return true;
    } catch (...) {
      return false;
    }
  };
  auto const best = sim.choose(set.leave_out(is_library_error));
  CHECK(best.name == "b");
  CHECK(best.candidates[0].reason == "an exception without a text");

  // The device is lost: no other candidate would run.
  auto const sticky = ww::candidates(
      ww::candidate("a", [](ww::stream_ref) { ww::check(cudaErrorIllegalAddress, "kernel"); }),
      ww::candidate("b", sim.call(0, 1e-3)));
  CHECK_THROWS_AS(sim.choose(sticky.leave_out([](std::exception_ptr const&) { return true; })),
                  ww::cuda_error);
}

TEST_CASE("a candidate that fails in any later call is left out", "[tune][choose]") {
  for (int const last : {1, 2, 3, 4, 7, 8, 40, 200}) {
    simulation sim;
    int left = last;
    auto const fails_late = [&](ww::stream_ref) {
      if (left-- == 0) throw std::bad_alloc{};
      sim.clock.advance(1e-3);
    };
    auto const best = sim.choose(ww::candidates(ww::candidate("a", sim.call(0, 2e-3)),
                                                ww::candidate("late", fails_late),
                                                ww::candidate("b", sim.call(1, 1.5e-3))));
    CAPTURE(last);
    bool const failed = left < 0;
    CHECK(best.name == (failed ? "b" : "late"));
    CHECK((best.candidates[1].state == ww::candidate_state::failed) == failed);
    CHECK(best.candidates[0].state == ww::candidate_state::compared);
    CHECK(best.shown_fastest);
  }
  // With only one left there is nothing to compare.
  simulation sim;
  int left = 60;
  auto const fails_late = [&](ww::stream_ref) {
    if (left-- == 0) throw std::bad_alloc{};
    sim.clock.advance(1e-3);
  };
  auto const best = sim.choose(
      ww::candidates(ww::candidate("late", fails_late), ww::candidate("b", sim.call(1, 2e-3))));
  CHECK(best.name == "b");
  CHECK(best.reason == "the only one that is left");
}

TEST_CASE("the error of a candidate that is left out is not pending in the next one",
          "[tune][choose]") {
  simulation sim;
  bool pending = false;
  auto const full = [](ww::stream_ref) {
    void* memory = nullptr;
    if (cudaMalloc(&memory, ~std::size_t{0} / 4) != cudaSuccess) throw std::bad_alloc{};
  };
  auto const good = [&](ww::stream_ref) {
    pending = pending || cudaPeekAtLastError() != cudaSuccess;
    sim.clock.advance(1e-3);
  };
  auto const made =
      sim.choose(ww::candidates(ww::candidate("full", full), ww::candidate("good", good)));
  CHECK(made.name == "good");
  CHECK_FALSE(pending);
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("if no candidate is left, the exception has all reasons", "[tune][choose]") {
  simulation sim;
  auto const oom = [](ww::stream_ref) { throw std::bad_alloc{}; };
  auto const set = ww::candidates(ww::candidate("a", oom), ww::candidate("b", sim.call(0, 1e-3)))
                       .verify([](ww::stream_ref) { return false; });
  CHECK_THROWS_AS(sim.choose(set), std::runtime_error);
  CHECK_THROWS_WITH(sim.choose(set),
                    contains("none of the candidates can be used; 'a': std::bad") &&
                        contains("'b': its result did not pass the check"));
  int calls = 0;
  auto const both = [&](ww::stream_ref) {
    if (++calls > 2) throw std::bad_alloc{};
    sim.clock.advance(1e-3);
  };
  CHECK_THROWS_AS(sim.choose(ww::candidates(ww::candidate("a", both), ww::candidate("b", both))),
                  std::runtime_error);
}

TEST_CASE("a wrong result leaves a candidate out before it is timed", "[tune][choose]") {
  simulation sim;
  int result = 0;
  auto const right = [&](ww::stream_ref s) { result = 7, sim.call(0, 2e-3)(s); };
  auto const wrong = [&](ww::stream_ref s) { result = 6, sim.call(1, 1e-3)(s); };
  auto const idle = [&](ww::stream_ref s) { sim.call(2, 0.5e-3)(s); };
  auto const check = [&](ww::stream_ref) { return result == 7; };
  auto const set = ww::candidates(ww::candidate("right", right), ww::candidate("wrong", wrong),
                                  ww::candidate("idle", idle), ww::candidate("right 2", right));
  int resets = 0;
  auto const reset = [&](ww::stream_ref) { ++resets, result = 0; };
  auto const best = sim.choose(set.verify(check, reset));
  CHECK(has(best.name, "right"));
  CHECK(resets == 4);
  CHECK(sim.calls[1] == 1);
  CHECK(sim.calls[2] == 1);
  CHECK(best.candidates[1].state == ww::candidate_state::wrong);
  CHECK(best.candidates[2].state == ww::candidate_state::wrong);
  CHECK(best.candidates[1].reason == "its result did not pass the check");
}

TEST_CASE("exceptions of the check and of the reset are the caller's", "[tune][choose]") {
  simulation sim;
  auto const set =
      ww::candidates(ww::candidate("a", sim.call(0, 1e-3)), ww::candidate("b", sim.call(1, 1e-3)));
  auto const throws = [](ww::stream_ref) -> bool { throw std::invalid_argument{"mine"}; };
  CHECK_THROWS_WITH(sim.choose(set.verify(throws)), "mine");
  auto const reset = [](ww::stream_ref) { throw std::bad_alloc{}; };
  auto const check = [](ww::stream_ref) { return true; };
  CHECK_THROWS_AS(sim.choose(set.verify(check, reset)), std::bad_alloc);
}

TEST_CASE("an error that a candidate leaves pending is thrown, not chosen", "[tune][choose]") {
  ww::stream const s;
  int good_runs = 0;
  auto const leaves_error = [] { static_cast<void>(cudaSetDevice(12345)); };
  auto const good = ww::candidate("good", [&](ww::stream_ref) { ++good_runs; });
  auto const fails = ww::candidate("cannot launch", [&](ww::stream_ref) { leaves_error(); });
  CHECK_THROWS_WITH(ww::choose(s, ww::candidates(good, fails)),
                    contains("cudaErrorInvalidDevice") && contains("by 'cannot launch'"));
  CHECK(cudaGetLastError() == cudaSuccess);

  // In a later call as well.
  int runs = 0;
  auto const fails_later = ww::candidate("fails later", [&](ww::stream_ref) {
    if (++runs == 9) leaves_error();
  });
  CHECK_THROWS_WITH(ww::choose(s, ww::candidates(good, fails_later)), contains("by 'fails later'"));
  CHECK(cudaGetLastError() == cudaSuccess);

  // Memory that could not be allocated leaves a candidate out, as if it had thrown.
  auto const too_large = ww::candidate("too large", [](ww::stream_ref) {
    void* memory = nullptr;
    static_cast<void>(cudaMalloc(&memory, ~std::size_t{0} / 4));
  });
  auto const left = ww::choose(s, ww::candidates(too_large, good));
  CHECK(left.name == "good");
  CHECK(left.candidates[0].state == ww::candidate_state::failed);

  // Errors of others are not attributed to a candidate.
  good_runs = 0;
  leaves_error();
  CHECK_THROWS_WITH(ww::choose(s, ww::candidates(good)), contains("a call before the choice"));
  CHECK(good_runs == 0);
  auto const nothing = [](ww::stream_ref) {};
  auto const check_fails = [&](ww::stream_ref) {
    leaves_error();
    return true;
  };
  CHECK_THROWS_WITH(ww::choose(s, ww::candidates(good).verify(check_fails, nothing)),
                    contains("the check of a candidate_set"));
  auto const reset_fails = [&](ww::stream_ref) { leaves_error(); };
  auto const passes = [](ww::stream_ref) { return true; };
  CHECK_THROWS_WITH(ww::choose(s, ww::candidates(good).verify(passes, reset_fails)),
                    contains("the reset of a candidate_set"));
}

TEST_CASE("what is slower by far is left out after two single calls", "[tune][choose]") {
  simulation sim;
  auto const set =
      ww::candidates(ww::candidate("far", sim.call(0, 10e-3)),
                     ww::candidate("a", sim.call(1, 2e-3)), ww::candidate("b", sim.call(2, 6e-3)));
  auto const best = sim.choose(set);
  CHECK(best.name == "a");
  CHECK(sim.calls[0] == 3);
  CHECK(best.candidates[0].state == ww::candidate_state::far_slower);
  CHECK(best.candidates[0].median_seconds > 9e-3);
  CHECK(has(best.candidates[0].reason, "a call took "));
  CHECK(has(best.candidates[0].reason, " ms, "));
  CHECK(has(best.candidates[0].reason, "times as long as 'a'"));
  CHECK(best.candidates[2].state == ww::candidate_state::compared);

  auto const wide = ww::choose_with(sim.stopwatch, sim.stream, set, sim.options().far_slower(20));
  CHECK(wide.candidates[0].state == ww::candidate_state::compared);
  auto const narrow =
      ww::choose_with(sim.stopwatch, sim.stream, set, sim.options().far_slower(2.0));
  CHECK(narrow.candidates[2].state == ww::candidate_state::far_slower);
  CHECK(narrow.reason == "the only one that is left");

  // Not calls that are shorter than a sample: comparing them takes no more time.
  auto const samples = sim.options().sampling();
  auto const shorter = ww::choose_with(
      sim.stopwatch, sim.stream, set, ww::choose_options{}.sampling(samples.sample_seconds(20e-3)));
  CHECK(shorter.candidates[0].state == ww::candidate_state::compared);

  // A slow first call, as of a library that compiles its kernels, does not count.
  int calls = 0;
  auto const compiles = [&](ww::stream_ref) { sim.clock.advance(++calls <= 2 ? 1.0 : 1e-3); };
  auto const late = sim.choose(
      ww::candidates(ww::candidate("a", sim.call(1, 2e-3)), ww::candidate("jit", compiles)));
  CHECK(late.name == "jit");
}

#if WARPWRIGHT_HOST_RUNTIME
TEST_CASE("cold calls find the L2 cache emptied, and its time does not count", "[tune][choose]") {
  simulation sim;
  auto const flushes = [] { return ww::testing::call_count("cudaMemsetAsync"); };
  std::uint64_t last = 0;
  int warm_calls = 0;
  // Its data fit the cache: with an emptied one it is slower than the other.
  auto const fits = [&](ww::stream_ref) {
    bool const warm = flushes() == last;
    last = flushes();
    warm_calls += warm ? 1 : 0;
    sim.clock.advance(warm ? 1e-3 : 3e-3);
  };
  auto const set = ww::candidates(ww::candidate("fits", fits),
                                  ww::candidate("streams", sim.call(1, 2e-3, 0.001)));
  last = flushes();
  auto const hot = sim.choose(set);
  CHECK(hot.name == "fits");
  CHECK(flushes() == last);
  warm_calls = 0;
  for (double const sample : {0.0, 5e-2}) {
    auto const options =
        ww::choose_options{}.sampling(sim.options().sampling().sample_seconds(sample)).cold();
    auto const cold = ww::choose_with(sim.stopwatch, sim.stream, set, options);
    CHECK(cold.name == "streams");
    CHECK(cold.shown_fastest);
    CHECK(std::fabs(cold.candidates[0].median_seconds / 3e-3 - 1.0) < 1e-9);
    CHECK(std::fabs(cold.candidates[1].median_seconds / 2e-3 - 1.0) < 0.01);
  }
  CHECK(warm_calls <= 2);  // in the first run of each choice, which is not timed
  CHECK_FALSE(ww::choose_options{}.is_cold());
  CHECK_FALSE(ww::choose_options{}.cold().cold(false).is_cold());
}
#endif

TEST_CASE("long calls get enough turns to show a difference", "[tune][choose]") {
  for (double const seconds : {0.05, 1.0, 30.0}) {
    simulation sim;
    auto const best =
        sim.choose(ww::candidates(ww::candidate("a", sim.call(0, seconds, 0.002)),
                                  ww::candidate("b", sim.call(1, 0.9 * seconds, 0.002))));
    CAPTURE(seconds);
    CHECK(best.name == "b");
    CHECK(best.shown_fastest);
    CHECK(sim.calls[0] >= 12);
    CHECK(sim.calls[0] <= 50);
  }
}

TEST_CASE("an interrupted choice is the first candidate that can be used", "[tune][choose]") {
  for (int const last : {0, 1, 2, 3, 6, 20}) {
    simulation sim;
    int asked = 0;
    auto const stop = [&] { return ++asked > last; };
    auto const options = ww::choose_options{}.sampling(sim.options().sampling().stop_when(stop));
    auto const best = ww::choose_with(
        sim.stopwatch, sim.stream,
        ww::candidates(ww::candidate("broken", [](ww::stream_ref) { throw std::bad_alloc{}; }),
                       ww::candidate("a", sim.call(0, 2e-3)),
                       ww::candidate("b", sim.call(1, 1e-3))),
        options);
    CAPTURE(last);
    CHECK(best.interrupted);
    CHECK(best.name == "a");
    CHECK_FALSE(best.shown_fastest);
    CHECK(has(best.reason, "interrupted"));
  }
}

TEST_CASE("wrong arguments of choose() throw before anything runs", "[tune][choose]") {
  simulation sim;
  auto const a = sim.call(0, 1e-3);
  auto const set = ww::candidates(ww::candidate("a", a), ww::candidate("b", a));
  CHECK_THROWS_WITH(sim.choose(ww::candidates(ww::candidate("a", a), ww::candidate("", a))),
                    contains("candidate 1 has no name"));
  CHECK_THROWS_WITH(sim.choose(ww::candidates(ww::candidate(nullptr, a))),
                    contains("candidate 0 has no name"));
  CHECK_THROWS_WITH(sim.choose(ww::candidates(ww::candidate("a", a), ww::candidate("b", a),
                                              ww::candidate("a", a))),
                    contains("candidates 0 and 2 are both named 'a'"));
  for (double const factor : {1.0, 0.0, -1.0, std::nan("")}) {
    CHECK_THROWS_AS(
        ww::choose_with(sim.stopwatch, sim.stream, set, sim.options().far_slower(factor)),
        std::invalid_argument);
  }
  auto const no_samples = ww::choose_options{}.sampling(sim.options().sampling().min_samples(0));
  CHECK_THROWS_AS(ww::choose_with(sim.stopwatch, sim.stream, set, no_samples),
                  std::invalid_argument);
  ww::check(cudaStreamBeginCapture(sim.stream.get(), cudaStreamCaptureModeThreadLocal), "begin");
  CHECK_THROWS_WITH(ww::choose(sim.stream, set), contains("capturing"));
  cudaGraph_t graph = nullptr;
  ww::check(cudaStreamEndCapture(sim.stream.get(), &graph), "end");
  if (graph != nullptr) ww::check(cudaGraphDestroy(graph), "cudaGraphDestroy");
  CHECK(sim.calls[0] == 0);
}

TEST_CASE("states and sources have names", "[tune][choose]") {
  CHECK(std::string{ww::to_string(ww::candidate_state::not_timed)} == "not timed");
  CHECK(std::string{ww::to_string(ww::candidate_state::compared)} == "compared");
  CHECK(std::string{ww::to_string(ww::candidate_state::far_slower)} == "far slower");
  CHECK(std::string{ww::to_string(ww::candidate_state::failed)} == "failed");
  CHECK(std::string{ww::to_string(ww::candidate_state::wrong)} == "wrong result");
  CHECK(std::string{ww::to_string(static_cast<ww::candidate_state>(9))} == "unknown");
  CHECK(std::string{ww::to_string(ww::choice_source::measured)} == "measured");
  CHECK(std::string{ww::to_string(ww::choice_source::checked)} == "stored, and checked again");
  CHECK(std::string{ww::to_string(ww::choice_source::stored)} == "stored");
  CHECK(std::string{ww::to_string(ww::choice_source::not_measured)} == "not measured");
  CHECK(std::string{ww::to_string(static_cast<ww::choice_source>(9))} == "unknown");
}

TEST_CASE("work on a stream is chosen with events", "[tune][choose]") {
  ww::stream const s;
  std::size_t const n = 1U << 14U;
  void* memory = nullptr;
  ww::check(cudaMalloc(&memory, n * sizeof(float)), "cudaMalloc");
  auto* const data = static_cast<float*>(memory);
  auto const run = [&](int rounds) {
    return [=](ww::stream_ref on) { ww::for_each_index(on, n, scale{data, rounds}); };
  };
  auto const right = [&](ww::stream_ref on) {
    float last = 0.0F;
    ww::check(cudaMemcpyAsync(&last, data + n - 1, sizeof last, cudaMemcpyDefault, on), "copy");
    on.synchronize();
    return last == static_cast<float>(n - 1);
  };
  auto const clear = [&](ww::stream_ref on) {
    ww::check(cudaMemsetAsync(data, 0, n * sizeof(float), on), "cudaMemsetAsync");
  };
  auto const best =
      ww::choose(s, ww::candidates(ww::candidate("wrong", run(1)), ww::candidate("right", run(0)),
                                   ww::candidate("nothing", [](ww::stream_ref) {}))
                        .verify(right, clear));
  CHECK(best.name == "right");
  CHECK(best.candidates[0].state == ww::candidate_state::wrong);
  CHECK(best.candidates[2].state == ww::candidate_state::wrong);
  CHECK(s.done());
  ww::check(cudaFree(memory), "cudaFree");
}

TEST_CASE("shape keys are equal if their extents are, and have a text", "[tune][choose]") {
  enum class kind : unsigned char { half = 3 };
  constexpr ww::shape_key shape{1024, std::size_t{768}, kind::half, true};
  static_assert(shape.size() == 4 && shape[1] == 768);
  CHECK(shape.to_text() == "1024x768x3x1");
  CHECK(ww::shape_key{}.to_text().empty());
  CHECK(ww::shape_key{} == ww::shape_key{});
  CHECK(ww::shape_key{} != ww::shape_key{0});
  CHECK(ww::shape_key{1, 0} != ww::shape_key{1});
  CHECK(ww::shape_key{1, 2} != ww::shape_key{2, 1});
  CHECK(ww::shape_key{1, 2} == ww::shape_key{1U, 2L});
  CHECK(ww::shape_key{1, 2}.hash() == ww::shape_key{1U, 2L}.hash());
  CHECK_THROWS_WITH((ww::shape_key{4, -1}), contains("an extent of -1"));

  // Different shapes have different hashes, and fill the low bits evenly.
  noise_source random{random_seed()};
  std::vector<int> buckets(1024, 0);
  std::vector<std::uint64_t> hashes;
  for (unsigned rows = 0; rows < 64; ++rows) {
    for (unsigned cols = 0; cols < 64; ++cols) {
      hashes.push_back(ww::shape_key{rows * 1024, cols * 1024}.hash());
      ++buckets[hashes.back() % buckets.size()];
    }
  }
  int fullest = 0;
  for (int const count : buckets) fullest = count > fullest ? count : fullest;
  CHECK(fullest <= 16);  // 4 on average
}
