// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"
#include "support/device_memory.hpp"

#include <warpwright/graph/capture.hpp>
#include <warpwright/graph/conditional.hpp>
#include <warpwright/graph/graph_exec.hpp>
#include <warpwright/graph/graph_replay.hpp>

#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/memory/buffer.hpp>
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>
#endif

namespace ww = warpwright;
using test_support::device_array;

namespace {

// cells: [0] the condition, [1] iterations, then numbers.
using cells = device_array<unsigned>;

struct add {
  unsigned* to;
  unsigned amount;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t) const { *to += amount; }
};

// Counts down to zero.
struct decrease {
  unsigned* value;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t) const { *value -= 1; }
};

struct assign {
  unsigned* to;
  unsigned value;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t) const { *to = value; }
};

struct add_value {
  unsigned* to;
  unsigned const* value;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t) const { *to += *value; }
};

enum class state : int { stopped, running };

template <class F>
void launch(ww::stream_ref stream, F const& f) {
  ww::for_each_index(stream, 1, f);
}

cells starting(std::vector<unsigned> values) { return cells{values}; }

// Runs a body that takes a stream: eagerly, or captured and launched `times` times.
template <class Body>
void run_eagerly(ww::stream_ref stream, Body const& body, int times = 1) {
  for (int i = 0; i < times; ++i) body(stream);
  stream.synchronize();
}
template <class Body>
void run_captured(ww::stream_ref stream, Body const& body, int times = 1) {
  ww::graph const captured = ww::capture(stream, [&](ww::stream_ref s) { body(s); });
  ww::graph_exec exec{captured};
  for (int i = 0; i < times; ++i) exec.launch(stream);
  stream.synchronize();
}

// A small generator of pseudorandom numbers (Park and Miller), the same everywhere.
class generator {
 public:
  explicit generator(unsigned seed) : state_{seed % 2147483646U + 1U} {}
  unsigned operator()() {
    state_ = state_ * 48271U % 2147483647U;
    return static_cast<unsigned>(state_);
  }

 private:
  std::uint64_t state_;
};

bool stream_is_clean(ww::stream_ref s) {
  return !s.is_capturing() && cudaPeekAtLastError() == cudaSuccess &&
         cudaStreamSynchronize(s.get()) == cudaSuccess;
}

template <class F>
std::string text_of(F const& f) {
  try {
    f();
  } catch (std::exception const& error) {
    return error.what();
  }
  return "no exception";
}

}  // namespace

TEST_CASE("repeat_while() repeats until the device has set the condition to zero") {
  ww::stream s;
  for (bool const captured : {false, true}) {
    INFO((captured ? "captured" : "eager"));
    cells const x{starting({5, 0, 100})};
    auto const body = [&](ww::stream_ref around) {
      ww::repeat_while(around, x.data(), [&](ww::stream_ref inner) {
        launch(inner, add{x.data() + 2, 10});
        launch(inner, decrease{x.data()});
      });
      launch(around, add{x.data() + 2, 1});  // behind the loop
    };
    captured ? run_captured(s, body) : run_eagerly(s, body);
    CHECK(x.fetch(s) == std::vector<unsigned>{0, 0, 151});
  }
}

TEST_CASE("repeat_while() repeats nothing when the condition is zero at first") {
  ww::stream s;
  for (bool const captured : {false, true}) {
    INFO((captured ? "captured" : "eager"));
    cells const x{starting({0, 77, 3})};
    auto const body = [&](ww::stream_ref around) {
      ww::repeat_while(around, x.data(), {x.data() + 1, 9}, [&](ww::stream_ref inner) {
        launch(inner, add{x.data() + 2, 1});
      });
    };
    captured ? run_captured(s, body) : run_eagerly(s, body);
    CHECK(x.fetch(s) == std::vector<unsigned>{0, 0, 3});
  }
}

TEST_CASE("a loop_limit counts repetitions and ends an endless loop, at each launch again") {
  ww::stream s;
  for (bool const captured : {false, true}) {
    INFO((captured ? "captured" : "eager"));
    cells const x{starting({1, 77, 0})};  // the condition stays 1
    auto const body = [&](ww::stream_ref around) {
      ww::repeat_while(around, x.data(), {x.data() + 1, 7}, [&](ww::stream_ref inner) {
        launch(inner, add{x.data() + 2, 1});
      });
    };
    captured ? run_captured(s, body, 3) : run_eagerly(s, body, 3);
    CHECK(x.fetch(s) == std::vector<unsigned>{1, 7, 21});
  }
}

TEST_CASE("a limit of no repetitions") {
  ww::stream s;
  for (bool const captured : {false, true}) {
    cells const x{starting({1, 77, 0})};
    auto const body = [&](ww::stream_ref around) {
      ww::repeat_while(around, x.data(), {x.data() + 1, 0}, [&](ww::stream_ref inner) {
        launch(inner, add{x.data() + 2, 1});
      });
    };
    captured ? run_captured(s, body) : run_eagerly(s, body);
    CHECK(x.fetch(s) == std::vector<unsigned>{1, 0, 0});
  }
}

TEST_CASE("the iterations can be read in the body") {
  ww::stream s;
  for (bool const captured : {false, true}) {
    INFO((captured ? "captured" : "eager"));
    cells const x{starting({1, 0, 0})};
    auto const body = [&](ww::stream_ref around) {
      ww::repeat_while(around, x.data(), {x.data() + 1, 5}, [&](ww::stream_ref inner) {
        launch(inner, add_value{x.data() + 2, x.data() + 1});
      });
    };
    captured ? run_captured(s, body) : run_eagerly(s, body);
    CHECK(x.fetch(s)[2] == 0 + 1 + 2 + 3 + 4);
  }
}

TEST_CASE("run_if() runs one of its bodies, by the condition's value at each launch") {
  ww::stream s;
  cells const x{starting({0, 0, 0})};
  auto const body = [&](ww::stream_ref around) {
    ww::run_if(
        around, x.data(),
        [&](ww::stream_ref inner) {
          launch(inner, add{x.data() + 1, 1});
          launch(inner, assign{x.data(), 0});  // does not make the other body run
        },
        [&](ww::stream_ref inner) {
          launch(inner, add{x.data() + 2, 1});
        });
  };
  ww::graph const captured = ww::capture(s, [&](ww::stream_ref c) { body(c); });
  ww::graph_exec exec{captured};
  for (bool const eager : {false, true}) {
    INFO((eager ? "eager" : "captured"));
    launch(s, assign{x.data() + 1, 0});
    launch(s, assign{x.data() + 2, 0});
    for (unsigned const condition : {0U, 1U, 0U, 4U, 1U}) {
      launch(s, assign{x.data(), condition});
      eager ? body(s) : exec.launch(s);
    }
    CHECK(x.fetch(s) == std::vector<unsigned>{0, 3, 2});
  }
}

TEST_CASE("run_if() without an alternative") {
  ww::stream s;
  cells const x{starting({0, 0})};
  auto const body = [&](ww::stream_ref around) {
    ww::run_if(around, x.data(), [&](ww::stream_ref inner) {
      launch(inner, add{x.data() + 1, 1});
    });
  };
  run_captured(s, body);
  run_eagerly(s, body);
  CHECK(x.fetch(s)[1] == 0);
  launch(s, assign{x.data(), 1});
  run_captured(s, body);
  run_eagerly(s, body);
  CHECK(x.fetch(s)[1] == 2);
}

TEST_CASE("conditions of other types") {
  ww::stream s;
  device_array<long long> const wide{std::vector<long long>{1LL << 40}};  // its low word is zero
  device_array<unsigned char> const narrow{std::vector<unsigned char>{0, 255}};
  device_array<state> const states{std::vector<state>{state::running, state::stopped}};
  cells const x{starting({0})};
  auto const body = [&](ww::stream_ref around) {
    auto const count = [&](ww::stream_ref inner) { launch(inner, add{x.data(), 1}); };
    auto const wrong = [&](ww::stream_ref inner) { launch(inner, add{x.data(), 1000}); };
    ww::run_if(around, wide.data(), count);
    ww::run_if(around, narrow.data() + 1, count);
    ww::run_if(around, narrow.data(), wrong);
    ww::run_if(around, states.data(), count);
    ww::run_if(around, states.data() + 1, wrong);
  };
  run_captured(s, body);
  run_eagerly(s, body);
  CHECK(x.fetch(s)[0] == 6);
}

TEST_CASE("a graph_replay of a loop: the warm-up runs it eagerly, with the same results") {
  ww::stream s;
  cells const x{starting({0, 0, 0})};
  ww::graph_replay step{2};
  for (int i = 0; i < 5; ++i) {
    step.run(s, [&](ww::capture_scope& scope) {
      launch(scope, assign{x.data(), 4});
      ww::repeat_while(scope, x.data(), {x.data() + 1, 100}, [&](ww::stream_ref inner) {
        launch(inner, add{x.data() + 2, 1});
        launch(inner, decrease{x.data()});
      });
    });
    CHECK(x.fetch(s) == std::vector<unsigned>{0, 4, 4 * (static_cast<unsigned>(i) + 1)});
  }
  CHECK(step.statistics().captures == 1);
}

TEST_CASE("random programs of loops and branches: captured as eager") {
  // Each statement is drawn from a sequence, so that both ways run the same program.
  class program {
   public:
    explicit program(unsigned seed) : seed_{seed} {}
    // data: 4 flags, 4 counters, 8 numbers
    void operator()(ww::stream_ref s, unsigned* data) const {
      generator random{seed_};
      block(s, data, random, 0);
    }

   private:
    void block(ww::stream_ref s, unsigned* data, generator& random, unsigned depth) const {
      unsigned const statements = 1 + random() % 3;
      for (unsigned i = 0; i < statements; ++i) {
        unsigned const kind = depth < 3 ? random() % 5 : random() % 2;
        unsigned* const number = data + 8 + random() % 8;
        // A flag of its own for each depth, so that no loop is endless.
        unsigned* const flag = data + depth;
        // Both ways must draw the same numbers for a body, whether it is run, and how often.
        unsigned const inner = random();
        auto const body = [=](ww::stream_ref b) {
          generator own{inner};
          block(b, data, own, depth + 1);
        };
        switch (kind) {
          case 0:
            launch(s, add{number, 1 + random() % 9});
            break;
          case 1:
            ww::check(cudaMemcpyAsync(data + 8 + random() % 8, number, 4, cudaMemcpyDeviceToDevice,
                                      s.get()),
                      "cudaMemcpyAsync");
            break;
          case 2:
            launch(s, assign{flag, random() % 4});
            ww::repeat_while(s, flag, [=](ww::stream_ref b) {
              body(b);
              launch(b, decrease{flag});
            });
            break;
          case 3:
            launch(s, assign{flag, 1});
            ww::repeat_while(s, flag, {data + 4 + depth, random() % 3}, body);
            break;
          default:
            launch(s, assign{flag, random() % 2});
            ww::run_if(s, flag, body, [=](ww::stream_ref b) { launch(b, add{number, 100}); });
        }
      }
    }

    unsigned seed_;
  };

  ww::stream s;
  unsigned const first = std::random_device{}();
  for (unsigned i = 0; i < 12; ++i) {
    INFO("seed " << first + i);
    program const p{first + i};
    cells const eager{std::vector<unsigned>(16, 0)}, replayed{std::vector<unsigned>(16, 0)};
    run_eagerly(
        s, [&](ww::stream_ref e) { p(e, eager.data()); }, 2);
    run_captured(
        s, [&](ww::stream_ref c) { p(c, replayed.data()); }, 2);
    CHECK(eager.fetch(s) == replayed.fetch(s));
  }
}

TEST_CASE("an executable takes over a loop with another limit and other memory") {
  ww::stream s;
  cells const x{starting({1, 0, 0})}, y{starting({1, 0, 0})};
  auto const loop = [&](cells const& data, unsigned limit) {
    return ww::capture(s, [&, limit](ww::stream_ref c) {
      ww::repeat_while(c, data.data(), {data.data() + 1, limit}, [&](ww::stream_ref inner) {
        launch(inner, add{data.data() + 2, 1});
      });
    });
  };
  ww::graph const first = loop(x, 3), second = loop(y, 5);
  ww::graph_exec exec{first};
  exec.launch(s);
  static_cast<void>(exec.update(second));  // in place or not
  exec.launch(s);
  CHECK(x.fetch(s) == std::vector<unsigned>{1, 3, 3});
  CHECK(y.fetch(s) == std::vector<unsigned>{1, 5, 5});
}

TEST_CASE("an exception in a body passes through, and the next capture works") {
  ww::stream s;
  cells const x{starting({3, 0})};
  for (int round = 0; round < 3; ++round) {
    CHECK_THROWS_AS(static_cast<void>(ww::capture(s,
                                                  [&](ww::stream_ref c) {
                                                    ww::repeat_while(c, x.data(),
                                                                     [&](ww::stream_ref) {
                                                                       throw std::length_error{"x"};
                                                                     });
                                                  })),
                    std::length_error);
    CHECK(stream_is_clean(s));
  }
  run_captured(s, [&](ww::stream_ref c) {
    ww::repeat_while(c, x.data(), [&](ww::stream_ref inner) {
      launch(inner, add{x.data() + 1, 1});
      launch(inner, decrease{x.data()});
    });
  });
  CHECK(x.fetch(s) == std::vector<unsigned>{0, 3});
}

TEST_CASE("an illegal call in a body fails the capture, which ends") {
  ww::stream s;
  cells const x{starting({1})};
  std::string const text = text_of([&] {
    static_cast<void>(ww::capture(s, [&](ww::stream_ref c) {
      ww::repeat_while(c, x.data(), [&](ww::stream_ref inner) {
        launch(inner, decrease{x.data()});
        inner.synchronize();
      });
    }));
  });
  INFO(text);
  CHECK_THAT(text, contains("cudaStreamSynchronize"));
  CHECK(stream_is_clean(s));
  run_captured(s, [&](ww::stream_ref c) { launch(c, add{x.data(), 1}); });
  CHECK(x.fetch(s)[0] == 2);
}

TEST_CASE("null pointers are refused, and the capture goes on") {
  ww::stream s;
  cells const x{starting({0, 0})};
  unsigned const* const none = nullptr;
  auto const nothing = [](ww::stream_ref) {};
  ww::graph const captured = ww::capture(s, [&](ww::stream_ref c) {
    CHECK_THROWS_AS(ww::repeat_while(c, none, nothing), std::invalid_argument);
    CHECK_THROWS_AS(ww::repeat_while(c, none, {x.data(), 1}, nothing), std::invalid_argument);
    CHECK_THROWS_AS(ww::repeat_while(c, x.data(), {nullptr, 1}, nothing), std::invalid_argument);
    CHECK_THROWS_AS(ww::run_if(c, none, nothing), std::invalid_argument);
    CHECK_THROWS_AS(ww::run_if(c, none, nothing, nothing), std::invalid_argument);
    launch(c, add{x.data(), 1});
  });
  CHECK(captured.node_counts().total() == 1);
}

TEST_CASE("a loop in a branch of a capture") {
  ww::stream s;
  cells const x{starting({4, 0, 6, 0})};
  ww::graph const captured = ww::capture(s, [&](ww::capture_scope& scope) {
    scope.fork(2, [&](ww::stream_ref branch, unsigned i) {
      unsigned* const mine = x.data() + 2 * i;
      ww::repeat_while(branch, mine, [=](ww::stream_ref inner) {
        launch(inner, add{mine + 1, 1});
        launch(inner, decrease{mine});
      });
    });
  });
  ww::graph_exec exec{captured};
  exec.launch(s);
  CHECK(x.fetch(s) == std::vector<unsigned>{0, 4, 0, 6});
}

TEST_CASE("several threads capture and run loops at once") {
  constexpr int threads = 4;
  std::vector<std::thread> workers;
  std::vector<unsigned> sums(threads);
  for (int t = 0; t < threads; ++t) {
    workers.emplace_back([&sums, t] {
      ww::stream s;
      for (int round = 0; round < 5; ++round) {
        cells const x{starting({static_cast<unsigned>(t) + 2, 0})};
        run_captured(s, [&](ww::stream_ref c) {
          ww::repeat_while(c, x.data(), [&](ww::stream_ref inner) {
            launch(inner, add{x.data() + 1, 1});
            launch(inner, decrease{x.data()});
          });
        });
        sums[static_cast<std::size_t>(t)] += x.fetch(s)[1];
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  for (unsigned t = 0; t < threads; ++t) CHECK(sums[t] == 5 * (t + 2));
}

#if WARPWRIGHT_HOST_RUNTIME

TEST_CASE("each CUDA call that a captured loop makes may fail") {
  ww::stream s;
  cells const x{starting({1, 0, 0})};
  auto const capture_loop = [&] {
    return ww::capture(s, [&](ww::stream_ref c) {
      ww::repeat_while(c, x.data(), {x.data() + 1, 3}, [&](ww::stream_ref inner) {
        auto const count = [&](ww::stream_ref b) { launch(b, add{x.data() + 2, 1}); };
        ww::run_if(inner, x.data(), count, [](ww::stream_ref) {});
      });
    });
  };
  static_cast<void>(capture_loop());  // branch streams exist from now on
  unsigned failures = 0;
  for (unsigned nth = 1;; ++nth) {
    REQUIRE(nth < 200);
    INFO("call " << nth);
    {
      ww::testing::scoped_fault_plan const plan{
          ww::testing::fault_plan{}.fail("*", nth, cudaErrorMemoryAllocation)};
      try {
        static_cast<void>(capture_loop());
      } catch (ww::cuda_error const&) {
        ++failures;
      }
      if (plan.hits() == 0) break;
    }
    CHECK(stream_is_clean(s));
    ww::graph_exec exec{capture_loop()};
    exec.launch(s);
    s.synchronize();
  }
  CHECK(failures > 20);
}

TEST_CASE("each CUDA call that an eager loop makes may fail") {
  ww::stream s;
  cells const x{starting({1, 0, 0})};
  auto const run = [&] {
    ww::repeat_while(s, x.data(), {x.data() + 1, 2}, [&](ww::stream_ref inner) {
      launch(inner, add{x.data() + 2, 1});
    });
  };
  for (unsigned nth = 1;; ++nth) {
    REQUIRE(nth < 100);
    ww::testing::scoped_fault_plan const plan{
        ww::testing::fault_plan{}.fail("*", nth, cudaErrorNotSupported)};
    bool failed = false;
    try {
      run();
    } catch (ww::cuda_error const& error) {
      failed = error.code() == cudaErrorNotSupported;
    }
    if (plan.hits() == 0) break;
    CHECK((failed || nth > 3));  // restoring a thread's capture mode fails silently
    CHECK(cudaPeekAtLastError() == cudaSuccess);
  }
}

TEST_CASE("the stream of a body whose capture does not begin serves the next one") {
  ww::stream s;
  cells const x{starting({1, 0})};
  auto const loop = [&](ww::stream_ref c) {
    ww::repeat_while(c, x.data(), [&](ww::stream_ref inner) { launch(inner, decrease{x.data()}); });
  };
  static_cast<void>(ww::capture(s, loop));
  std::uint64_t const created = ww::testing::call_count("cudaStreamCreateWithPriority");
  REQUIRE(created > 0);
  for (int i = 0; i < 3; ++i) {
    ww::testing::scoped_fault_plan const plan{
        ww::testing::fault_plan{}.fail("cudaStreamBeginCaptureToGraph", 1, cudaErrorUnknown)};
    CHECK_THROWS_AS(ww::capture(s, loop), ww::cuda_error);
  }
  static_cast<void>(ww::capture(s, loop));
  CHECK(ww::testing::call_count("cudaStreamCreateWithPriority") == created);
}

TEST_CASE("without conditional nodes a capture says what to do") {
  ww::stream s;
  cells const x{starting({0})};
  ww::testing::scoped_fault_plan const plan{ww::testing::fault_plan{}.fail_from(
      "cudaGraphConditionalHandleCreate", 1, cudaErrorNotSupported)};
  CHECK_THAT(text_of([&] {
               static_cast<void>(ww::capture(
                   s, [&](ww::stream_ref c) { ww::run_if(c, x.data(), [](ww::stream_ref) {}); }));
             }),
             contains("CUDA 12.4 or newer: run this step without capturing it"));
  CHECK(stream_is_clean(s));
}

TEST_CASE("a pool's block that is freed in a body is not reused while the graph exists") {
  ww::memory_pool pool{ww::current_device()};
  ww::stream s;
  cells const x{starting({2, 0})};
  void* used = nullptr;
  {
    ww::graph const captured = ww::capture(s, [&](ww::stream_ref c) {
      ww::repeat_while(c, x.data(), [&](ww::stream_ref inner) {
        ww::device_buffer<unsigned> scratch{pool, inner, 256};
        used = scratch.data();
        launch(inner, assign{scratch.data(), 1});
        launch(inner, decrease{x.data()});
      });
    });
    ww::graph_exec exec{captured};
    exec.launch(s);
    s.synchronize();
    ww::device_buffer<unsigned> const other{pool, s, 256};
    CHECK(static_cast<void*>(other.data()) != used);
    exec.launch(s);
    s.synchronize();
  }
}

TEST_CASE("an endless loop without a limit ends when the runtime is reset") {
  {
    ww::stream s;
    cells const x{starting({1, 0})};
    ww::graph_exec exec{ww::capture(s, [&](ww::stream_ref c) {
      ww::repeat_while(c, x.data(), [&](ww::stream_ref inner) {
        launch(inner, add{x.data() + 1, 1});
      });
    })};
    exec.launch(s);
    ww::testing::poison_device(0, cudaErrorLaunchFailure);
  }
  ww::testing::reset_host_runtime();
  ww::stream s;
  cells const x{starting({0})};
  run_eagerly(s, [&](ww::stream_ref e) { launch(e, add{x.data(), 1}); });
  CHECK(x.fetch(s)[0] == 1);
}

#endif  // WARPWRIGHT_HOST_RUNTIME
