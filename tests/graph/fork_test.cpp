// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Branches of a capture, and the streams that they lease.
#include "graph/mistake_support.hpp"

#include <warpwright/graph/graph_audit.hpp>

#include <atomic>
#include <chrono>
#include <memory>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>
#endif

namespace ww = warpwright;
using namespace test_support;

namespace {

struct sum_of_halves {
  int* out;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const {
    out[i] = out[i + 16] + out[i + 32];
  }
};

std::size_t edge_count(ww::graph const& g) { return ww::audit(g).edges; }

// Row `row` of four numbers: each the sum of the row before.
struct sum_of_row {
  int* rows;
  unsigned row;
  unsigned column;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t) const {
    int sum = 0;
    for (unsigned i = 0; i < 4; ++i) sum += rows[4 * (row - 1) + i];
    rows[4 * row + column] = sum;
  }
};

void wait_for_flag(void* flag) {
  while (!static_cast<std::atomic<bool>*>(flag)->load()) std::this_thread::yield();
}

}  // namespace

TEST_CASE("branches run after the work before them, and before the work after them") {
  ww::stream s;
  device_array<int> x{std::vector<int>(48, 0)};
  bool const eager = GENERATE(false, true);
  CAPTURE(eager);
  ww::graph_replay step{eager ? 100U : 0U};
  auto const body = [&](ww::capture_scope& scope) {
    ww::for_each_index(scope, 48, add_to{x.data(), 1});
    scope.fork(2, [&](ww::stream_ref branch, unsigned i) {
      ww::for_each_index(branch, 16,
                         add_to{x.data() + 16 * (i + 1), static_cast<int>(10 * (i + 1))});
    });
    ww::for_each_index(scope, 16, sum_of_halves{x.data()});
  };
  for (int i = 1; i <= 3; ++i) {
    step.run(s, body);
    CHECK(x.fetch(s)[15] == 32 * i);
  }
  if (!eager) {
    CHECK(step.node_counts().kernels == 4);
    CHECK(step.node_counts().total() == 4);
#if CUDART_VERSION >= 12030
    CHECK(edge_count(step.captured_graph()) == 4);  // none of the first to the last
#endif
  }
  CHECK(step.statistics().eager_runs == (eager ? 3 : 0));
}

TEST_CASE("branches are independent of each other, and called in order") {
  ww::stream s;
  device_array<int> x{std::vector<int>(64, 0)};
  std::vector<unsigned> order;
  std::set<cudaStream_t> streams;
  ww::graph const captured = ww::capture(s, [&](ww::capture_scope& scope) {
    scope.fork(4, [&](ww::stream_ref branch, unsigned i) {
      order.push_back(i);
      streams.insert(branch.get());
      CHECK(branch.has_id());
      CHECK(branch.is_capturing());
      ww::for_each_index(branch, 16, add_to{x.data() + 16 * i, 1});
    });
  });
  CHECK(order == std::vector<unsigned>{0, 1, 2, 3});
  CHECK(streams.size() == 4);
  CHECK(streams.count(s.get()) == 0);
  CHECK(captured.size() == 4);
  CHECK(edge_count(captured) == 0);
  for (cudaStream_t const each : streams) CHECK_FALSE(ww::stream_ref{each}.is_capturing());
}

TEST_CASE("later branches of a capture use the same streams, without needless dependencies") {
  ww::stream s;
  device_array<int> x{std::vector<int>(64, 0)};
  std::set<cudaStream_t> streams;
  ww::graph const captured = ww::capture(s, [&](ww::capture_scope& scope) {
    for (int layer = 0; layer < 3; ++layer) {
      ww::for_each_index(scope, 64, add_to{x.data(), 1});
      scope.fork(2, [&](ww::stream_ref branch, unsigned i) {
        streams.insert(branch.get());
        ww::for_each_index(branch, 32, add_to{x.data() + 32 * i, 1});
      });
    }
  });
  CHECK(streams.size() == 2);
  CHECK(captured.size() == 9);
#if CUDART_VERSION >= 12030
  CHECK(edge_count(captured) == 3 * 2 + 2 * 2);
#endif
  ww::graph_exec exec{captured};
  exec.launch(s);
  CHECK(x.fetch(s)[63] == 6);
}

TEST_CASE("branches right behind others depend on these alone, and run after all of them") {
  ww::stream s;
  std::vector<int> start(4 * 9, 0);
  for (std::size_t i = 0; i < 4; ++i) start[i] = 1;
  device_array<int> rows{start};
  ww::graph_exec exec{ww::capture(s, [&](ww::capture_scope& scope) {
    for (unsigned row = 1; row <= 8; ++row) {
      scope.fork(4, [&](ww::stream_ref branch, unsigned column) {
        ww::for_each_index(branch, 1, sum_of_row{rows.data(), row, column});
      });
    }
  })};
  exec.launch(s);
  CHECK(rows.fetch(s)[4 * 8 + 3] == 65536);
#if CUDART_VERSION >= 12030
  ww::graph const many = ww::capture(s, [&](ww::capture_scope& scope) {
    for (int fork = 0; fork < 50; ++fork) {
      scope.fork(4, [&](ww::stream_ref branch, unsigned column) {
        ww::for_each_index(branch, 1, sum_of_row{rows.data(), 1, column});
      });
    }
  });
  CHECK(many.size() == 200);
  CHECK(ww::audit(many).longest_path == 50);
  CHECK(edge_count(many) == 49 * 4 * 4);
#endif
}

#if CUDART_VERSION >= 12030
TEST_CASE("a stream that is forked and joined again and again has one edge a time") {
  ww::stream s;
  ww::stream other;
  device_array<int> x{std::vector<int>(64, 0)};
  ww::graph const captured = ww::capture(s, [&](ww::capture_scope& scope) {
    for (int i = 0; i < 50; ++i) {
      scope.fork(other);
      ww::for_each_index(other, 64, add_to{x.data(), 1});
      scope.join(other);
    }
  });
  CHECK(ww::audit(captured).longest_path == 50);
  CHECK(edge_count(captured) == 49);
}

TEST_CASE("streams that are forked again and again, and joined at once, depend on each other") {
  ww::stream s;
  ww::stream a;
  ww::stream b;
  device_array<int> x{std::vector<int>(64, 0)};
  ww::graph const captured = ww::capture(s, [&](ww::capture_scope& scope) {
    for (int i = 0; i < 20; ++i) {
      scope.fork(a);
      scope.fork(b);
      ww::for_each_index(a, 32, add_to{x.data(), 1});
      ww::for_each_index(b, 32, add_to{x.data() + 32, 1});
      scope.join_all();
    }
  });
  CHECK(ww::audit(captured).longest_path == 20);
  CHECK(edge_count(captured) == 19 * 4);
}
#endif

TEST_CASE("work behind branches that enqueue nothing depends on the work before them") {
  ww::stream s;
  device_array<int> x{std::vector<int>(64, 0)};
  ww::graph const captured = ww::capture(s, [&](ww::capture_scope& scope) {
    ww::for_each_index(scope, 64, add_to{x.data(), 1});
    scope.fork(3, [](ww::stream_ref, unsigned) {});
    ww::for_each_index(scope, 64, add_to{x.data(), 1});
  });
  CHECK(captured.size() == 2);
  CHECK(edge_count(captured) == 1);
}

TEST_CASE(
    "work behind a branch that only waits depends on the work before, and on what it waited for") {
  ww::stream s;
  ww::stream other;
  ww::event done;
  device_array<int> x{std::vector<int>(64, 0)};
  ww::graph const captured = ww::capture(s, [&](ww::capture_scope& scope) {
    scope.fork(other);
    ww::for_each_index(other, 32, add_to{x.data(), 1});
    done.record(other);
    ww::for_each_index(scope, 32, add_to{x.data() + 32, 1});
    scope.fork(1, [&](ww::stream_ref branch, unsigned) {
      ww::check(cudaStreamWaitEvent(branch.get(), done.get(), 0), "cudaStreamWaitEvent");
    });
    ww::for_each_index(scope, 64, add_to{x.data(), 1});
  });
  CHECK(captured.size() == 3);
  CHECK(edge_count(captured) == 2);
}

TEST_CASE("work behind branches depends on what the capturing stream did meanwhile") {
  ww::stream s;
  device_array<int> x{std::vector<int>(64, 0)};
  ww::graph const captured = ww::capture(s, [&](ww::capture_scope& scope) {
    ww::for_each_index(scope, 64, add_to{x.data(), 1});
    scope.fork(2, [&](ww::stream_ref branch, unsigned i) {
      ww::for_each_index(i == 0 ? scope.stream() : branch, 32, add_to{x.data() + 32 * i, 1});
    });
    ww::for_each_index(scope, 64, add_to{x.data(), 1});
  });
  CHECK(captured.size() == 4);
  CHECK(ww::audit(captured).longest_path == 3);
  CHECK(edge_count(captured) <= 5);
}

TEST_CASE("branches of a branch's body fork from the capturing stream") {
  ww::stream s;
  device_array<int> x{std::vector<int>(64, 0)};
  std::set<cudaStream_t> streams;
  ww::graph const captured = ww::capture(s, [&](ww::capture_scope& scope) {
    scope.fork(2, [&](ww::stream_ref branch, unsigned) {
      streams.insert(branch.get());
      ww::for_each_index(branch, 8, add_to{x.data(), 0});
      scope.fork(2, [&](ww::stream_ref inner, unsigned) {
        streams.insert(inner.get());
        ww::for_each_index(inner, 8, add_to{x.data(), 0});
      });
    });
  });
  CHECK(captured.size() == 6);
  CHECK(streams.size() == 4);  // the inner two are free again for the second branch
}

TEST_CASE("no branch does nothing; a branch may enqueue nothing") {
  ww::stream s;
  int calls = 0;
  ww::graph const captured = ww::capture(s, [&](ww::capture_scope& scope) {
    scope.fork(0, [&](ww::stream_ref, unsigned) { ++calls; });
    scope.fork(3, [&](ww::stream_ref, unsigned) { ++calls; });
  });
  CHECK(calls == 3);
  CHECK(captured.size() == 0);
}

TEST_CASE("a body may catch what a branch throws: the branches are joined") {
  ww::stream s;
  device_array<int> x{std::vector<int>(64, 0)};
  ww::graph const captured = ww::capture(s, [&](ww::capture_scope& scope) {
    CHECK_THROWS_AS(scope.fork(3,
                               [&](ww::stream_ref branch, unsigned i) {
                                 ww::for_each_index(branch, 8, add_to{x.data() + 8 * i, 1});
                                 if (i == 1) throw 7;
                               }),
                    int);
    ww::for_each_index(scope, 8, add_to{x.data(), 1});
  });
  CHECK(captured.size() == 3);
  CHECK(edge_count(captured) == 2);
}

TEST_CASE("branches of a warm-up that throws are joined") {
  ww::stream s;
  std::atomic<bool> release{false};
  ww::graph_replay step;
  CHECK_THROWS_AS(step.run(s,
                           [&](ww::capture_scope& scope) {
                             scope.fork(2, [&](ww::stream_ref branch, unsigned i) {
                               ww::check(cudaLaunchHostFunc(branch, &wait_for_flag, &release),
                                         "cudaLaunchHostFunc");
                               if (i == 1) throw 5;
                             });
                           }),
                  int);
  CHECK_FALSE(s.done());  // it waits for the branches
  release = true;
  s.synchronize();
}

TEST_CASE("captures at the same time never share a branch's stream") {
  ww::stream a;
  ww::stream b;
  std::set<cudaStream_t> streams;
  auto const collect = [&](ww::stream_ref branch, unsigned) { streams.insert(branch.get()); };
  ww::capture_scope first{a};
  first.fork(2, collect);
  ww::capture_scope second{b};
  second.fork(2, collect);
  first.fork(2, collect);
  CHECK(streams.size() == 4);
  CHECK(first.end().size() == 0);
  CHECK(second.end().size() == 0);
  // And they are free again.
  ww::graph const third = ww::capture(a, [&](ww::capture_scope& scope) { scope.fork(4, collect); });
  CHECK(third.size() == 0);
  CHECK(streams.size() == 4);
}

TEST_CASE("a scope without a capture of its own joins the capture under way") {
  ww::stream s;
  device_array<int> x{std::vector<int>(64, 0)};
  ww::graph const captured = ww::capture(s, [&](ww::stream_ref c) {
    {
      ww::capture_scope inner{c, ww::capture_scope::without_capture{}};
      CHECK_FALSE(inner.capturing());
      inner.fork(2, [&](ww::stream_ref branch, unsigned i) {
        ww::for_each_index(branch, 32, add_to{x.data() + 32 * i, 1});
      });
      inner.join_all();
    }
    // The branches of the ended scope are still part of the capture: they are not leased again.
    ww::stream other;
    ww::graph const separate = ww::capture(other, [&](ww::capture_scope& scope) {
      scope.fork(2, [&](ww::stream_ref branch, unsigned) {
        ww::for_each_index(branch, 32, add_to{x.data(), 0});
      });
    });
    CHECK(separate.size() == 2);
  });
  CHECK(captured.size() == 2);
}

TEST_CASE("threads fork branches concurrently") {
  constexpr int thread_count = 4;
  std::vector<std::unique_ptr<device_array<int>>> arrays;
  for (int t = 0; t < thread_count; ++t) {
    arrays.push_back(std::make_unique<device_array<int>>(std::vector<int>(64, 0)));
  }
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < thread_count; ++t) {
    threads.emplace_back([&, t] {
      try {
        int* const data = arrays[static_cast<std::size_t>(t)]->data();
        ww::stream s;
        for (int round = 0; round < 10; ++round) {
          ww::graph_replay step{round % 2 == 0 ? 1U : 0U};
          auto const body = [&](ww::capture_scope& scope) {
            scope.fork(4, [&](ww::stream_ref branch, unsigned i) {
              ww::for_each_index(branch, 16, add_to{data + 16 * i, 1});
            });
            ww::for_each_index(scope, 64, add_to{data, 1});
          };
          step.run(s, body);
          step.run(s, body);
        }
        s.synchronize();
      } catch (...) {
        ++failures;
      }
    });
  }
  for (std::thread& each : threads) each.join();
  CHECK(failures == 0);
  ww::stream s;
  for (auto const& each : arrays) CHECK(each->fetch(s) == std::vector<int>(64, 40));
}

TEST_CASE("scopes without a capture of their own use each other's branches in one capture") {
  ww::stream s;
  device_array<int> x{std::vector<int>(64, 0)};
  std::set<cudaStream_t> streams;
  auto const inlined_fork = [&](ww::stream_ref c) {
    ww::capture_scope inner{c, ww::capture_scope::without_capture{}};
    inner.fork(2, [&](ww::stream_ref branch, unsigned i) {
      streams.insert(branch.get());
      ww::for_each_index(branch, 32, add_to{x.data() + 32 * i, 1});
    });
    inner.join_all();
  };
  auto const many = [&](ww::stream_ref c) {
    for (int i = 0; i < 500; ++i) inlined_fork(c);
  };
  SECTION("that a scope has begun") {
    ww::graph const captured = ww::capture(s, many);
    CHECK(captured.size() == 1000);
#if CUDART_VERSION >= 12030
    CHECK(ww::audit(captured).longest_path == 500);
    CHECK(edge_count(captured) == 499 * 4);
#endif
    ww::graph_exec exec{captured};
    exec.launch(s);
    CHECK(x.fetch(s)[63] == 500);
    CHECK(streams.size() == 2);
  }
  SECTION("that other code has begun") {
    ww::check(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal),
              "cudaStreamBeginCapture");
    many(s);
    cudaGraph_t captured = nullptr;
    ww::check(cudaStreamEndCapture(s, &captured), "cudaStreamEndCapture");
    CHECK(ww::graph{captured}.size() == 1000);
    CHECK(streams.size() == 2);
  }
  SECTION("but not those of a scope around them") {
    CHECK(ww::capture(s, [&](ww::stream_ref c) {
            for (int i = 0; i < 10; ++i) {
              ww::capture_scope outer{c, ww::capture_scope::without_capture{}};
              outer.fork(2, [&](ww::stream_ref branch, unsigned) {
                streams.insert(branch.get());
                inlined_fork(branch);
              });
              outer.join_all();
            }
          }).size() == 40);
    CHECK(streams.size() == 4);
  }
  // And they are free again.
  std::size_t const used = streams.size();
  CHECK(ww::capture(s, [&](ww::capture_scope& scope) {
          scope.fork(static_cast<unsigned>(used),
                     [&](ww::stream_ref branch, unsigned) { CHECK(branch.is_capturing()); });
        }).size() == 0);
}

TEST_CASE("branches of an inlined scope are not used by other captures before theirs has ended") {
  ww::stream s;
  ww::stream other;
  std::set<cudaStream_t> inlined;
  std::set<cudaStream_t> separate;
  auto const inlined_fork = [](ww::stream_ref c, unsigned n, std::set<cudaStream_t>& streams) {
    ww::capture_scope inner{c, ww::capture_scope::without_capture{}};
    inner.fork(n, [&](ww::stream_ref branch, unsigned) { streams.insert(branch.get()); });
    inner.join_all();
  };
  ww::capture_scope first{s};
  inlined_fork(first, 3, inlined);
  for (int i = 0; i < 20; ++i) {
    CHECK(ww::capture(other, [&](ww::capture_scope& scope) {
            scope.fork(2, [&](ww::stream_ref branch, unsigned) { separate.insert(branch.get()); });
            inlined_fork(scope, 2, separate);
          }).size() == 0);
    inlined_fork(first, 3, inlined);
  }
  CHECK(inlined.size() == 3);
  for (cudaStream_t const each : inlined) CHECK(separate.count(each) == 0);
  for (cudaStream_t const each : inlined) CHECK(ww::stream_ref{each}.is_capturing());
  CHECK(first.end().size() == 0);
  for (cudaStream_t const each : inlined) CHECK_FALSE(ww::stream_ref{each}.is_capturing());
}

#if WARPWRIGHT_HOST_RUNTIME
namespace wt = ww::testing;

namespace {

std::size_t count_of(ww::detail::branch_stream const* list) {
  std::size_t count = 0;
  for (; list != nullptr; list = list->next) ++count;
  return count;
}

}  // namespace

TEST_CASE("a branch of an inlined scope is no free stream before the capture has ended") {
  wt::reset_host_runtime();
  ww::stream s;
  auto const inlined_fork = [](ww::stream_ref c) {
    ww::capture_scope inner{c, ww::capture_scope::without_capture{}};
    inner.fork(4, [](ww::stream_ref, unsigned) {});
    inner.join_all();
  };
  auto const streams_of = [](ww::stream_ref c, unsigned n) {
    std::set<cudaStream_t> streams;
    CHECK(ww::capture(c, [&](ww::capture_scope& scope) {
            scope.fork(n, [&](ww::stream_ref branch, unsigned) { streams.insert(branch.get()); });
          }).size() == 0);
    return streams;
  };
  std::set<cudaStream_t> const all = streams_of(s, 6);
  ww::capture_scope scope{s};
  scope.fork(2, [](ww::stream_ref, unsigned) {});
  inlined_fork(scope);
  CHECK(count_of(ww::detail::branch_streams.kept) == 4);
  SECTION("then a fork of another one makes them free") {
    CHECK(scope.end().size() == 0);
    for (auto const* each = ww::detail::branch_streams.first; each != nullptr; each = each->next) {
      CHECK_FALSE(ww::detail::may_be_capturing(each->owner.get()));
    }
    CHECK(streams_of(s, 6) == all);
    CHECK(count_of(ww::detail::branch_streams.kept) == 0);
  }
  SECTION("also where the capture was broken, and the branches could not be joined") {
    {
      ww::capture_scope inner{scope, ww::capture_scope::without_capture{}};
      CHECK_THROWS_AS(
          inner.fork(
              5, [&](ww::stream_ref, unsigned) { ww::detail::discard(cudaStreamSynchronize(s)); }),
          ww::cuda_error);
    }
    CHECK_THROWS_AS(scope.end(), ww::capture_error);
    CHECK(streams_of(s, 6).size() == 6);
    CHECK(ww::capture(s, inlined_fork).size() == 0);
  }
  SECTION("but is one if the call that forks it has failed") {
    {
      wt::scoped_fault_plan const plan{
          wt::fault_plan{}.fail("cudaStreamWaitEvent", 5, cudaErrorUnknown)};
      ww::capture_scope inner{scope, ww::capture_scope::without_capture{}};
      CHECK_THROWS_AS(inner.fork(5, [](ww::stream_ref, unsigned) {}), ww::cuda_error);
      CHECK(plan.hits() == 1);
    }
    CHECK(count_of(ww::detail::branch_streams.kept) == 4);
    CHECK(scope.end().size() == 0);
  }
  SECTION("also where the runtime was reset meanwhile") {
    CHECK(scope.end().size() == 0);
    wt::reset_host_runtime();
    ww::stream after;
    CHECK(streams_of(after, 6).size() == 6);
    CHECK(ww::capture(after, inlined_fork).size() == 0);
  }
}

TEST_CASE("an inlined fork makes 4 calls for each branch that the capture has kept") {
  ww::stream s;
  ww::capture_scope scope{s};
  auto const calls_of = [&](unsigned n) {
    ww::capture_scope inner{scope, ww::capture_scope::without_capture{}};
    wt::reset_call_counts();
    inner.fork(n, [](ww::stream_ref, unsigned) {});
    return wt::total_calls();
  };
  static_cast<void>(calls_of(8));
  auto const one = calls_of(1);
  CHECK(calls_of(8) == one + 7 * 4);  // and one to depend on what is before the fork alone
  CHECK(one <= 11);
  CHECK(scope.end().size() == 0);
}

TEST_CASE("a scope without a capture of its own forks on its stream's device") {
  wt::reset_host_runtime(wt::host_runtime_options{}.with_devices(2));
  {
    ww::device_id const second{1};
    ww::stream on_first{ww::device_id{0}};
    ww::stream on_second{second};
    std::set<cudaStream_t> streams;
    auto const inlined_fork = [&](ww::stream_ref c) {
      ww::capture_scope inner{c, ww::capture_scope::without_capture{}};
      inner.fork(2, [&](ww::stream_ref branch, unsigned) { streams.insert(branch.get()); });
      inner.join_all();
    };
    auto const checked_device = [&] {
      CHECK(ww::current_device() == ww::device_id{0});
      CHECK(streams.size() >= 2);
      for (cudaStream_t const each : streams) {
        CHECK(ww::detail::device_of(each, ww::source_location::current()) == second);
      }
    };
    SECTION("of the captured stream") {
      CHECK(ww::capture(on_second, inlined_fork).size() == 0);
      checked_device();
    }
    SECTION("of a branch") {
      CHECK(ww::capture(on_second, [&](ww::capture_scope& scope) {
              scope.fork(2, [&](ww::stream_ref branch, unsigned) { inlined_fork(branch); });
            }).size() == 0);
      checked_device();
    }
    SECTION("of a stream that was forked from one of another device, the second of several") {
      ww::stream more_on_first{ww::device_id{0}};
      CHECK(ww::capture(on_first, [&](ww::capture_scope& scope) {
              scope.fork(more_on_first);
              scope.fork(on_second);
              scope.join(more_on_first);
              inlined_fork(on_second);
            }).size() == 0);
      checked_device();
    }
    SECTION("of a stream that an inlined scope forks again") {
      CHECK(ww::capture(on_first, [&](ww::capture_scope& scope) {
              scope.fork(on_second);
              {
                ww::capture_scope inner{scope, ww::capture_scope::without_capture{}};
                wt::reset_call_counts();
                inner.fork(on_second);
                CHECK(wt::call_count("cudaStreamGetDevice") == 0);  // it is capturing
                inner.join_all();
              }
              inlined_fork(on_second);
            }).size() == 0);
      checked_device();
    }
    SECTION("which in a capture of other code is the current one") {
      ww::scoped_device const current{second};
      ww::check(cudaStreamBeginCapture(on_second, cudaStreamCaptureModeThreadLocal),
                "cudaStreamBeginCapture");
      inlined_fork(on_second);
      cudaGraph_t captured = nullptr;
      ww::check(cudaStreamEndCapture(on_second, &captured), "cudaStreamEndCapture");
      ww::check(cudaGraphDestroy(captured), "cudaGraphDestroy");
      CHECK(streams.size() == 2);
    }
    SECTION("until the capture has ended") {
      ww::capture_scope scope{on_second};
      scope.fork(on_first);
      scope.fork(2, [](ww::stream_ref, unsigned) {});
      inlined_fork(on_first);
      CHECK(ww::detail::known_device_of(on_first) == 0);
      CHECK(ww::detail::known_device_of(on_second) == 1);
      CHECK(scope.end().size() == 0);
      CHECK(ww::detail::branch_streams.capturing == nullptr);
    }
  }
  wt::reset_host_runtime();
}

TEST_CASE("the branches' streams are not leaks, and survive a reset of the runtime") {
  for (int round = 0; round < 3; ++round) {
    wt::reset_host_runtime();
    {
      ww::stream s;
      CHECK(ww::capture(s, [](ww::capture_scope& scope) {
              scope.fork(3, [](ww::stream_ref, unsigned) {});
            }).size() == 0);
    }
    CHECK(wt::leak_report().empty());
    CHECK(wt::stats().streams == 0);
  }
}

TEST_CASE("a fork makes 3 calls a branch once its streams exist") {
  ww::stream s;
  auto const calls_of = [&](unsigned n) {
    ww::capture_scope scope{s};
    wt::reset_call_counts();
    scope.fork(n, [](ww::stream_ref, unsigned) {});
    auto const calls = wt::total_calls();
    CHECK(scope.end().size() == 0);
    return calls;
  };
  static_cast<void>(calls_of(8));
  auto const one = calls_of(1);
  CHECK(calls_of(8) == one + 7 * 4);  // and one to see that the stream is free
  CHECK(one <= 9);
}

TEST_CASE("without a capture, the host waits for a stream whose join fails") {
  struct slow_work {
    std::atomic<bool> done{false};
    static void run(void* self) {
      std::this_thread::sleep_for(std::chrono::milliseconds{100});
      static_cast<slow_work*>(self)->done = true;
    }
    void enqueue(ww::stream_ref on) {
      ww::check(cudaLaunchHostFunc(on, &run, this), "cudaLaunchHostFunc");
    }
  };
  ww::stream s;
  ww::stream other;
  auto const fails = [&](char const* call, auto const& body) {
    CAPTURE(call);
    slow_work work;
    ww::graph_replay step;
    auto const eager = [&](ww::capture_scope& scope) {
      // The first record and the first wait are the fork's.
      wt::scoped_fault_plan const plan{wt::fault_plan{}.fail(call, 2, cudaErrorUnknown)};
      body(scope, work);
    };
    CHECK_THROWS_AS(step.run(s, eager), ww::cuda_error);
    CHECK(work.done);
    other.synchronize();
  };
  for (char const* const call : {"cudaEventRecord", "cudaStreamWaitEvent"}) {
    fails(call, [](ww::capture_scope& scope, slow_work& work) {
      scope.fork(1, [&](ww::stream_ref branch, unsigned) { work.enqueue(branch); });
    });
    fails(call, [&](ww::capture_scope& scope, slow_work& work) {
      scope.fork(other);
      work.enqueue(other);
      scope.join(other);
    });
    fails(call, [&](ww::capture_scope& scope, slow_work& work) {
      scope.fork(other);
      work.enqueue(other);
      scope.join_all();
    });
  }
}

TEST_CASE("if any call of a fork fails, all streams are usable and nothing leaks") {
  wt::reset_host_runtime();
  auto const once = [] {
    ww::stream s;
    device_array<int> x{std::vector<int>(64, 0)};
    ww::graph_replay step;
    auto const body = [&](ww::capture_scope& scope) {
      for (int i = 0; i < 2; ++i) {
        scope.fork(2, [&](ww::stream_ref branch, unsigned j) {
          ww::for_each_index(branch, 8, add_to{x.data() + 8 * j, 1});
        });
      }
    };
    step.run(s, body);
    step.run(s, body);
    s.synchronize();
  };
  once();
  std::vector<wt::call_record> const calls = wt::calls();
  int failed = 0;
  for (wt::call_record const& call : calls) {
    if (call.name == "cudaGetLastError" || call.name == "cudaPeekAtLastError" ||
        call.name == "cudaLogsCurrent" || call.name == "cudaStreamEndCapture") {
      continue;
    }
    for (std::uint64_t nth = 1; nth <= call.count; ++nth) {
      CAPTURE(call.name, nth);
      bool thrown = false;
      {
        wt::scoped_fault_plan const plan{wt::fault_plan{}.fail(call.name, nth, cudaErrorUnknown)};
        try {
          once();
        } catch (std::exception const&) {
          thrown = true;
        }
        if (plan.hits() == 0) continue;  // the streams exist since the first run
      }
      CHECK(cudaPeekAtLastError() == cudaSuccess);
      bool const of_destructor =
          call.name.find("Destroy") != std::string::npos || call.name == "cudaFree";
      bool const of_guard = call.name == "cudaThreadExchangeStreamCaptureMode";
      if (!of_guard) CHECK(thrown != of_destructor);
      if (!of_destructor) CHECK(wt::leak_report().empty());
      failed += thrown ? 1 : 0;
      once();  // nothing is left capturing
      wt::reset_host_runtime();
    }
  }
  CHECK(failed > 20);
}
#endif
