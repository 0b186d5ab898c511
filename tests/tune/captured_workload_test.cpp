// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include <warpwright/tune/tuning_pool.hpp>

#include <warpwright/core/launch.hpp>
#include <warpwright/measure/measure.hpp>
#include <warpwright/memory/buffer.hpp>
#include <warpwright/tune/batch_tuner.hpp>

#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/fault_plan.hpp>
#endif

#include "support/catch.hpp"

namespace ww = warpwright;

namespace {

constexpr std::size_t mib = std::size_t{1} << 20;

struct add_one {
  unsigned* count;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const { count[i] += 1; }
};

// Counts on the device how often each of a few items was run.
class device_counts {
 public:
  explicit device_counts(std::size_t items) : items_{items} {
    void* p = nullptr;
    ww::check(cudaMalloc(&p, items * sizeof(unsigned)), "cudaMalloc");
    counts_ = static_cast<unsigned*>(p);
    ww::check(cudaMemset(counts_, 0, items * sizeof(unsigned)), "cudaMemset");
    ww::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
  ~device_counts() { ww::detail::discard(cudaFree(counts_)); }
  device_counts(device_counts const&) = delete;
  device_counts& operator=(device_counts const&) = delete;
  unsigned* data() const { return counts_; }
  unsigned of(std::size_t item) const {
    std::vector<unsigned> host(items_);
    ww::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    ww::check(cudaMemcpy(host.data(), counts_, items_ * sizeof(unsigned), cudaMemcpyDeviceToHost),
              "cudaMemcpy");
    return host[item];
  }

 private:
  std::size_t items_;
  unsigned* counts_ = nullptr;
};

ww::batch_tuner quick() {
  return ww::batch_tuner{}.stop_after_flat(0).latency_calls(12).soak(12).sampling(
      ww::measure_options{}.sample_seconds(2e-4).min_samples(3).max_samples(5).max_seconds(0.05));
}

// Every call takes as long by its clock: the largest size is the best, on a loaded machine as well.
struct same_time {
  template <typename Call>
  double operator()(ww::stream_ref on, Call& call, std::size_t repeats) const {
    for (std::size_t i = 0; i < repeats; ++i) call();
    on.synchronize();
    return 1e-4 * static_cast<double>(repeats);
  }
};

bool usable(ww::stream const& s) {
  return !ww::stream_ref{s}.is_capturing() && cudaPeekAtLastError() == cudaSuccess;
}

}  // namespace

TEST_CASE("the first call with a size runs and captures the workload, later ones replay",
          "[tune][captured_workload]") {
  ww::stream const s;
  device_counts const runs{8};
  int bodies = 0;
  auto const workload = [&](std::size_t batch, ww::stream_ref on) {
    ++bodies;
    ww::for_each_index(on, batch, add_one{runs.data()});
  };
  auto replayed = ww::captured(workload);
  CHECK(replayed.captures() == 0);
  for (unsigned call = 1; call <= 5; ++call) {
    replayed(4, s);
    CHECK(runs.of(0) == call);  // each call runs the batch once
    CHECK(bodies == 2);
    CHECK(replayed.captures() == 1);
    CHECK(replayed.replays() == call - 1);
  }
  CHECK(runs.of(4) == 0);
}

TEST_CASE("another size or a dropped graph is captured anew, another stream is not",
          "[tune][captured_workload]") {
  ww::stream const s;
  device_counts const runs{8};
  auto replayed = ww::captured([&](std::size_t batch, ww::stream_ref on) {
    ww::for_each_index(on, batch, add_one{runs.data()});
  });
  replayed(4, s);
  replayed(8, s);
  CHECK(replayed.captures() == 2);
  replayed(8, s);
  CHECK(replayed.captures() == 2);
  CHECK(runs.of(0) == 3);
  CHECK(runs.of(7) == 2);
  replayed(4, s);
  CHECK(replayed.captures() == 3);
  replayed.drop_graph();
  replayed(4, s);
  CHECK(replayed.captures() == 4);
  CHECK(replayed.replays() == 1);
  s.synchronize();  // nothing else orders the other stream behind this one
  ww::stream const other;
  replayed(4, other);
  CHECK(replayed.captures() == 4);
  CHECK(replayed.replays() == 2);
  CHECK(runs.of(0) == 6);
}

TEST_CASE("a captured workload is measured", "[tune][captured_workload]") {
  ww::stream const s;
  device_counts const runs{8};
  int bodies = 0;
  auto replayed = ww::captured([&](std::size_t batch, ww::stream_ref on) {
    ++bodies;
    ww::for_each_index(on, batch, add_one{runs.data()});
  });
  auto const m = ww::measure(
      s, [&] { replayed(8, s); },
      ww::measure_options{}.sample_seconds(1e-4).min_samples(5).max_samples(9));
  CHECK(m.summary.median_seconds > 0.0);
  CHECK(bodies == 2);
  CHECK(replayed.captures() == 1);
  CHECK(replayed.replays() >= 5);
  CHECK(runs.of(0) == replayed.replays() + 1);
}

TEST_CASE("a tuner replays a captured workload, and captures when it begins a size",
          "[tune][captured_workload]") {
  ww::stream const s;
  device_counts const runs{64};
  std::size_t bodies = 0;
  auto replayed = ww::captured([&](std::size_t batch, ww::stream_ref on) {
    ++bodies;
    ww::for_each_index(on, batch, add_one{runs.data()});
  });
  auto const r = quick().range(1, 64).tune(s, replayed);
  CHECK(r.chosen().batch >= 1);
  CHECK(replayed.captures() >= r.rows.size());
  CHECK(bodies == 2 * replayed.captures());
  CHECK(replayed.replays() > 5 * replayed.captures());
  CHECK(runs.of(0) == replayed.replays() + replayed.captures());
  CHECK(usable(s));
  // The tune has dropped the last graph.
  auto const captures = replayed.captures();
  replayed(r.chosen().batch, s);
  CHECK(replayed.captures() == captures + 1);
}

TEST_CASE("a capture is never part of a sample or of a latency", "[tune][captured_workload]") {
  // On a clock by which a capture takes long, every size still has the time of its replays.
  ww::stream const s;
  device_counts const runs{16};
  auto replayed = ww::captured([&](std::size_t batch, ww::stream_ref on) {
    ww::for_each_index(on, batch, add_one{runs.data()});
  });
  auto stopwatch = [&](ww::stream_ref on, auto& call, std::size_t repeats) {
    auto const before = replayed.captures();
    for (std::size_t i = 0; i < repeats; ++i) call();
    on.synchronize();
    return 1e-5 * static_cast<double>(repeats) + (replayed.captures() == before ? 0.0 : 1e-2);
  };
  auto const r =
      quick().range(1, 16).tolerance(0.0).tune_with(stopwatch, s, replayed, ww::no_memory_probe{});
  CHECK(r.chosen().batch == 16);
  for (auto const& row : r.rows) {
    CHECK(row.seconds_per_batch == Approx(1e-5));
    CHECK(row.latency_p99_seconds == Approx(1e-5));
  }
}

TEST_CASE("the memory of a captured workload keeps the budget, and is given back",
          "[tune][captured_workload]") {
  ww::stream const s;
  constexpr std::size_t budget = 64 * mib;
  ww::tuning_pool pool{ww::current_device()};
  std::size_t largest = 0;
  same_time clock;
  auto const r = quick().range(1, 1024).memory_budget(budget).tune_with(
      clock, s, ww::captured([&](std::size_t batch, ww::stream_ref on, ww::resource_ref memory) {
        ww::device_buffer<unsigned, ww::resource_ref> const x{memory, on,
                                                              batch * mib / sizeof(unsigned)};
        largest = batch > largest ? batch : largest;
        ww::for_each_index(on, batch, add_one{x.data()});
      }),
      pool);
  CHECK(largest <= 64);
  CHECK(r.chosen().batch >= 56);  // up to the margin of the model
  CHECK(r.chosen().memory_bytes == r.chosen().batch * mib);
  CHECK(pool.statistics().reserved_peak_bytes <= budget);
  CHECK(pool.limit_bytes() == ww::memory_pool_options::unlimited);
  CHECK(pool.live_bytes() == 0);
  CHECK(pool.statistics().graph_bytes == 0);
  CHECK(pool.statistics().reserved_bytes == 0);
}

TEST_CASE("what a graph holds is its peak, though it is freed in the capture",
          "[tune][captured_workload]") {
  // Two buffers in turn: no more than the second is live, but the graph keeps both, as the second
  // does not fit where the first was.
  ww::stream const s;
  ww::tuning_pool pool{ww::current_device()};
  auto const workload = [&](std::size_t batch, ww::stream_ref on, ww::resource_ref memory) {
    std::size_t const items = batch * mib / sizeof(unsigned);
    using buffer = ww::device_buffer<unsigned, ww::resource_ref>;
    std::optional<buffer> small{std::in_place, memory, on, items};
    buffer const fence{memory, on, 1};  // behind the small one, which cannot grow
    ww::for_each_index(on, batch, add_one{small->data()});
    small.reset();
    buffer const large{memory, on, 2 * items};
    ww::for_each_index(on, batch, add_one{large.data()});
  };
  {
    auto replayed = ww::captured(workload);
    replayed(4, s, pool);
    s.synchronize();
    CHECK(pool.live_bytes() == 0);
    CHECK(pool.peak_bytes() == 12 * mib + 256);
    pool.reset();
    replayed(4, s, pool);
    CHECK(pool.peak_bytes() == 12 * mib + 256);  // a replay allocates nothing, and holds it
    s.synchronize();
  }
  pool.trim();
  pool.reset();
  CHECK(pool.peak_bytes() == 0);

  same_time clock;
  auto const r = quick().range(1, 16).memory_budget(30 * mib).tune_with(
      clock, s, ww::captured(workload), pool);
  CHECK(r.chosen().batch <= 9);
  CHECK(r.chosen().batch >= 8);
  CHECK(r.chosen().memory_bytes == 3 * r.chosen().batch * mib + 256);
  CHECK(pool.statistics().reserved_bytes == 0);
}

#if WARPWRIGHT_HOST_RUNTIME
namespace {
// Host code that runs in the stream: adds to what a pointer points to when it runs.
struct check_pointer {
  unsigned* pointer;
  unsigned* const* current;
  int* stale;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t) const {
    if (pointer != *current) ++*stale;
  }
};
}  // namespace

TEST_CASE("a preparation may move what a graph points to", "[tune][captured_workload]") {
  ww::stream const s;
  unsigned buffers[2] = {};
  unsigned* current = buffers;
  int stale = 0;
  int prepared = 0;
  auto replayed = ww::captured([&](std::size_t, ww::stream_ref on) {
    ww::for_each_index(on, 1, check_pointer{current, &current, &stale});
  });
  static_cast<void>(quick().range(1, 32).tune(s, replayed, [&](std::size_t batch) {
    current = &buffers[++prepared % 2];
    return batch * 1000;
  }));
  CHECK(stale == 0);
  CHECK(prepared > 10);
  CHECK(replayed.captures() == static_cast<std::uint64_t>(prepared));
}

TEST_CASE("each call of a capture may fail once", "[tune][captured_workload]") {
  ww::stream const s;
  device_counts const runs{4};
  for (char const* const call :
       {"cudaStreamBeginCapture", "cudaStreamEndCapture", "cudaGraphGetNodes",
        "cudaGraphInstantiate", "cudaGraphUpload", "cudaGraphLaunch"}) {
    CAPTURE(call);
    ww::tuning_pool pool{ww::current_device()};
    auto replayed =
        ww::captured([&](std::size_t batch, ww::stream_ref on, ww::resource_ref memory) {
          ww::device_buffer<unsigned, ww::resource_ref> const x{memory, on, batch};
          ww::for_each_index(on, batch, add_one{runs.data()});
        });
    {
      ww::testing::scoped_fault_plan const faults{
          ww::testing::fault_plan{}.fail(call, 1, cudaErrorInvalidValue)};
      auto const twice = [&] {
        replayed(3, s, pool);
        replayed(3, s, pool);
      };
      CHECK_THROWS_AS(twice(), ww::cuda_error);
    }
    CHECK(usable(s));
    unsigned const before = runs.of(0);
    replayed(3, s, pool);
    replayed(3, s, pool);
    CHECK(runs.of(0) == before + 2);
    replayed.drop_graph();
    pool.trim();
    CHECK(pool.live_bytes() == 0);
    CHECK(pool.statistics().reserved_bytes == 0);
  }
}
#endif

TEST_CASE("a workload that cannot be captured fails with an error that says so",
          "[tune][captured_workload]") {
  ww::stream const s;
  auto const synchronizes = [](std::size_t, ww::stream_ref on) { on.synchronize(); };
  auto const ignores = [](std::size_t, ww::stream_ref on) {
    static_cast<void>(cudaStreamSynchronize(on));
    static_cast<void>(cudaGetLastError());
  };
  auto const own_exception = [](std::size_t, ww::stream_ref on) {
    bool const failed = cudaStreamSynchronize(on) != cudaSuccess;
    static_cast<void>(cudaGetLastError());
    if (failed) throw std::runtime_error{"library status 7"};
  };
  auto const allocates = [](std::size_t, ww::stream_ref) {
    void* p = nullptr;
    ww::check(cudaMalloc(&p, 100), "cudaMalloc");
    ww::check(cudaFree(p), "cudaFree");
  };
  // `call`: a part of the call's name that the runtime and the driver spell alike.
  auto const fails = [&](auto const& workload, char const* call) {
    auto replayed = ww::captured(workload);
    try {
      replayed(1, s);
      FAIL("no exception");
    } catch (ww::cuda_error const& e) {
      std::string const what = e.what();
      CHECK(what.find("the workload cannot be captured") != std::string::npos);
      bool const named = what.find(call) != std::string::npos;
      CHECK((named || what.find("look for cudaMalloc") != std::string::npos));
      CHECK(what.find("without captured()") != std::string::npos);
      CHECK_FALSE(e.sticky());
    }
    CHECK(usable(s));
    CHECK(replayed.captures() == 0);
    CHECK_THROWS_AS(replayed(1, s), ww::cuda_error);  // and not a replay of nothing
    CHECK_THROWS_WITH(quick().range(1, 4).tune(s, replayed), contains("cannot be captured"));
    CHECK(usable(s));
    try {
      static_cast<void>(quick().range(1, 4).reject_exceptions().tune(s, replayed));
      FAIL("no exception");
    } catch (ww::no_feasible_batch const& e) {
      CHECK(e.result().rows[0].note.find("cannot be captured") != std::string::npos);
    }
  };
  fails(synchronizes, "StreamSynchronize");
  fails(ignores, "StreamSynchronize");
  fails(own_exception, "StreamSynchronize");
  fails(allocates, "lloc");
}

TEST_CASE("a workload that enqueues nothing on the stream is no graph",
          "[tune][captured_workload]") {
  ww::stream const s;
  ww::stream const other;
  device_counts const runs{1};
  auto elsewhere = ww::captured([&](std::size_t batch, ww::stream_ref) {
    ww::for_each_index(other, batch, add_one{runs.data()});
  });
  CHECK_THROWS_WITH(elsewhere(1, s), contains("enqueued nothing on the stream"));
  CHECK_THROWS_AS(elsewhere(1, s), std::invalid_argument);
  CHECK(elsewhere.captures() == 0);
  CHECK(usable(s));
  other.synchronize();
}

TEST_CASE("streams that cannot be captured throw", "[tune][captured_workload]") {
  device_counts const runs{1};
  auto replayed = ww::captured([&](std::size_t batch, ww::stream_ref on) {
    ww::for_each_index(on, batch, add_one{runs.data()});
  });
  CHECK_THROWS_AS(replayed(1, ww::stream_ref::legacy_default()), std::invalid_argument);
  ww::stream const s;
  ww::graph const outer = ww::capture(
      s, [&](ww::stream_ref on) { CHECK_THROWS_AS(replayed(1, on), std::invalid_argument); });
  CHECK(replayed.captures() == 0);
  ww::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

TEST_CASE("an exception of the workload leaves a captured workload as it is",
          "[tune][captured_workload]") {
  ww::stream const s;
  device_counts const runs{8};
  for (int const throws_at : {1, 2}) {
    int calls = 0;
    auto replayed = ww::captured([&](std::size_t batch, ww::stream_ref on) {
      ww::for_each_index(on, batch, add_one{runs.data()});
      if (++calls == throws_at) throw std::runtime_error{"not now"};
    });
    CHECK_THROWS_WITH(replayed(2, s), contains("not now"));
    CHECK(usable(s));
    CHECK(replayed.captures() == 0);
    replayed(2, s);
    replayed(2, s);
    CHECK(replayed.captures() == 1);
    CHECK(replayed.replays() == 1);
  }
}

TEST_CASE("an error that the workload leaves pending is thrown, and nothing is replayed",
          "[tune][captured_workload]") {
  ww::stream const s;
  device_counts const runs{1};
  int bodies = 0;
  int failing = 1;  // the body that fails
  auto graph = ww::captured([&](std::size_t batch, ww::stream_ref on) {
    ww::for_each_index(on, batch, add_one{runs.data()});
    if (++bodies == failing) static_cast<void>(cudaSetDevice(12345));
  });
  CHECK_THROWS_WITH(graph(1, s), contains("the workload of captured(): cudaErrorInvalidDevice"));
  failing = 3;  // the next call's capture
  CHECK_THROWS_WITH(graph(1, s), contains("the captured body: cudaErrorInvalidDevice"));
  CHECK(usable(s));
  static_cast<void>(cudaSetDevice(12345));
  CHECK_THROWS_WITH(graph(1, s), contains("a call before captured()"));
  CHECK(bodies == 3);
  CHECK(graph.captures() == 0);
  s.synchronize();
}

TEST_CASE("running out of memory in a capture rejects the size", "[tune][captured_workload]") {
  ww::stream const s;
  device_counts const runs{64};
  std::vector<std::size_t> calls(65, 0);
  auto const r = quick().range(1, 64).tolerance(0.0).tune(
      s, ww::captured([&](std::size_t batch, ww::stream_ref on) {
        ww::for_each_index(on, batch, add_one{runs.data()});
        if (batch > 20 && ++calls[batch] % 2 == 0) throw std::bad_alloc{};
      }));
  CHECK(r.chosen().batch <= 20);
  CHECK(r.rows.back().status == ww::tune_status::out_of_memory);
  CHECK(usable(s));
}

namespace {
struct counting {
  device_counts const& runs;
  int bodies = 0;
  void operator()(std::size_t batch, ww::stream_ref on) {
    ++bodies;
    ww::for_each_index(on, batch, add_one{runs.data()});
  }
};
}  // namespace

TEST_CASE("captured() moves temporaries and refers to others", "[tune][captured_workload]") {
  ww::stream const s;
  device_counts const runs{4};
  counting workload{runs};
  auto refers = ww::captured(workload);
  refers(4, s);
  CHECK(workload.bodies == 2);
  auto owns = ww::captured(counting{runs}, ww::capture_mode::global);
  owns(4, s);
  auto moved = std::move(owns);
  moved(4, s);
  CHECK(moved.captures() == 1);
  CHECK(moved.replays() == 1);
  CHECK(runs.of(3) == 3);
  CHECK(workload.bodies == 2);
}
