// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory that graphs use: allocated while capturing, and retained until the graph is destroyed.
#include "memory/support.hpp"
#include "support/catch.hpp"

#include <warpwright/graph/graph_replay.hpp>
#include <warpwright/memory/buffer.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>

namespace ww = warpwright;
using test_support::all_are;
using test_support::eventually;
using test_support::fetch;
using test_support::fill;
using test_support::gate;

namespace {

constexpr std::size_t mib = std::size_t{1} << 20U;
ww::device_id const device{0};

// A call that reclaims the memory of destroyed graphs.
bool has_graph_memory(ww::memory_pool& pool, ww::stream const& s) {
  pool.deallocate(s, pool.try_allocate(s, 256, 512), 256);
  pool.trim(~std::size_t{0});
  return pool.statistics().graph_bytes != 0;
}

}  // namespace

TEST_CASE("an invalidated capture loses no memory") {
  ww::stream s;
  ww::memory_pool pool{device};
  auto before = std::make_unique<ww::device_buffer<unsigned char>>(pool, s, 3 * mib);
  for (int i = 0; i < 3; ++i) {
    auto const body = [&](ww::stream_ref c) {
      ww::device_buffer<unsigned char> const own{pool, c, mib};
      fill(c, own.data(), 1, mib);
      static_cast<void>(cudaStreamSynchronize(c.get()));  // forbidden
      static_cast<void>(cudaGetLastError());
      before.reset();
      CHECK_THROWS_WITH(pool.allocate(c, 512), contains("invalidated"));
    };
    CHECK_THROWS_AS(ww::capture(s, body), ww::cuda_error);
  }
  CHECK(pool.statistics().live_blocks == 0);
  CHECK(eventually([&] {
    static_cast<void>(pool.trim());
    return pool.statistics().reserved_bytes == 0;
  }));
}

TEST_CASE("a miss leaves the thread's capture mode and device as they were") {
  ww::stream s;
  ww::memory_pool pool{device};
  cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal;
  ww::check(cudaThreadExchangeStreamCaptureMode(&mode), "cudaThreadExchangeStreamCaptureMode");
  void* const p = pool.allocate(s, 64 * mib);
  CHECK_THROWS_AS(pool.allocate(s, ~std::size_t{0} / 2), ww::out_of_memory);
  pool.deallocate(s, p, 64 * mib);
  static_cast<void>(pool.trim());
  ww::check(cudaThreadExchangeStreamCaptureMode(&mode), "cudaThreadExchangeStreamCaptureMode");
  CHECK(mode == cudaStreamCaptureModeThreadLocal);
  CHECK(ww::current_device() == device);
}

TEST_CASE("memory allocated in a capture belongs to the graph until the executable is destroyed") {
  ww::stream s;
  ww::memory_pool pool{device};
  auto exec = std::make_unique<ww::graph_exec>();
  void* scratch = nullptr;
  void* result = nullptr;
  {
    ww::capture_watch const watch{pool};
    ww::graph const g = ww::capture(s, [&](ww::stream_ref c) {
      scratch = pool.allocate(c, mib);
      fill(c, scratch, 1, mib);
      pool.deallocate(c, scratch, mib);
      // The same capture and stream reuses it.
      void* const again = pool.allocate(c, mib);
      CHECK(again == scratch);
      fill(c, again, 2, mib);
      result = pool.allocate(c, 2 * mib);
      fill(c, result, 3, 2 * mib);
      pool.deallocate(c, again, mib);
    });
    *exec = ww::graph_exec{g};
  }
  CHECK(pool.statistics().live_bytes == 2 * mib);
  CHECK(pool.statistics().graph_bytes == mib);
  // Other streams get other memory.
  void* const mine = pool.allocate(s, mib);
  CHECK(mine != scratch);
  fill(s, mine, 9, mib);
  exec->launch(s);
  exec->launch(s);
  CHECK(all_are(fetch(s, result, 2 * mib), 3));
  CHECK(all_are(fetch(s, scratch, mib), 2));
  CHECK(all_are(fetch(s, mine, mib), 9));
  pool.deallocate(s, mine, mib);
  // Freed outside of the capture: it still belongs to the graph.
  pool.deallocate(s, result, 2 * mib);
  CHECK_THROWS_WITH(pool.deallocate(s, result, 2 * mib), contains("double free"));
  CHECK(pool.statistics().live_bytes == 0);
  CHECK(pool.statistics().graph_bytes == 3 * mib);
  static_cast<void>(pool.trim());
  CHECK(pool.statistics().reserved_bytes >= 3 * mib);
  exec.reset();
  CHECK(eventually([&] { return !has_graph_memory(pool, s); }));
  CHECK(pool.trim() > 0);
  CHECK(pool.statistics().reserved_bytes == 0);
}

TEST_CASE("a block allocated before a capture and freed in it is retained for the graph") {
  ww::stream s;
  ww::memory_pool pool{device};
  void* const before = pool.allocate(s, mib);
  auto exec = std::make_unique<ww::graph_exec>();
  {
    ww::capture_watch const watch{pool};
    ww::graph const g = ww::capture(s, [&](ww::stream_ref c) {
      fill(c, before, 5, mib);
      pool.deallocate(c, before, mib);
    });
    *exec = ww::graph_exec{g};
  }
  CHECK(pool.statistics().live_bytes == 0);
  CHECK(pool.statistics().graph_bytes == mib);
  void* const other = pool.allocate(s, mib);
  CHECK(other != before);
  exec->launch(s);
  CHECK(all_are(fetch(s, before, mib), 5));
  pool.deallocate(s, other, mib);
  exec.reset();
  CHECK(eventually([&] { return !has_graph_memory(pool, s); }));
}

TEST_CASE("an abandoned capture releases its memory") {
  ww::stream s;
  ww::memory_pool pool{device};
  {
    ww::capture_watch const watch{pool};
    try {
      static_cast<void>(ww::capture(s, [&](ww::stream_ref c) {
        void* const p = pool.allocate(c, mib);
        pool.deallocate(c, p, mib);
        throw 1;
      }));
    } catch (int) {
    }
  }
  CHECK(eventually([&] { return !has_graph_memory(pool, s); }));
  CHECK(pool.trim() > 0);
  CHECK(pool.statistics().reserved_bytes == 0);
}

TEST_CASE("memory that outlives its graph is ordinary memory") {
  ww::stream s;
  ww::memory_pool pool{device};
  void* p = nullptr;
  {
    ww::capture_watch const watch{pool};
    ww::graph const g = ww::capture(s, [&](ww::stream_ref c) { p = pool.allocate(c, mib); });
  }
  CHECK(pool.statistics().live_bytes == mib);
  // The destruction is reported with a delay: until then a free retains the block for the graph.
  std::this_thread::sleep_for(std::chrono::milliseconds{100});
  pool.deallocate(s, p, mib);
  CHECK(pool.statistics().live_bytes == 0);
  CHECK(eventually([&] { return !has_graph_memory(pool, s); }));
  void* const q = pool.allocate(s, mib);
  fill(s, q, 4, mib);
  CHECK(all_are(fetch(s, q, mib), 4));
  pool.deallocate(s, q, mib);
}

TEST_CASE("a miss in a capture is detected without a watch") {
  ww::stream s;
  ww::memory_pool pool{device};
  void* p = nullptr;
  {
    ww::graph const g = ww::capture(s, [&](ww::stream_ref c) { p = pool.allocate(c, mib); });
    CHECK(g.get() != nullptr);
    CHECK(pool.statistics().live_bytes == mib);
  }
  pool.deallocate(s, p, mib);
  CHECK(eventually([&] { return !has_graph_memory(pool, s); }));
}

TEST_CASE("a capture takes what its stream freed before it, once that has completed") {
  ww::stream s;
  // No room for a second block; or room for it, and up to 50 s to wait for the first.
  bool const limited = GENERATE(true, false);
  CAPTURE(limited);
  auto const options = ww::memory_pool_options{}.slack(0, 0);
  ww::memory_pool pool{device,
                       limited ? options.max_bytes(48 * mib) : options.max_wait_seconds(1.0)};
  void* const before = pool.allocate(s, 32 * mib);
  test_support::gate hold{s};
  pool.deallocate(s, before, 32 * mib);
  std::thread opens{[&] { hold.open_late(); }};
  void* inside = nullptr;
  ww::graph const g = ww::capture(s, [&](ww::stream_ref c) {
    inside = pool.try_allocate(c, 32 * mib);
    pool.deallocate(c, inside, 32 * mib);
  });
  opens.join();
  CHECK(inside == before);
  CHECK(pool.statistics().reserved_peak_bytes == 32 * mib);
}

TEST_CASE("a capture gets no memory that earlier work of its stream still uses") {
  // The graph may be launched on another stream, which does not wait for that work.
  ww::stream s;
  ww::stream other;
  ww::memory_pool pool{device, ww::memory_pool_options{}.max_wait_seconds(0.0)};
  void* const before = pool.allocate(s, 32 * mib);
  test_support::gate hold{s};
  fill(s, before, 3, 32 * mib);
  pool.deallocate(s, before, 32 * mib);
  void* inside = nullptr;
  ww::graph const g = ww::capture(s, [&](ww::stream_ref c) {
    inside = pool.allocate(c, 32 * mib);
    fill(c, inside, 4, 32 * mib);
    pool.deallocate(c, inside, 32 * mib);
  });
  CHECK(inside != before);
  ww::graph_exec{g}.launch(other);
  other.synchronize();
  hold.open();
  s.synchronize();
  CHECK(all_are(fetch(other, inside, 32 * mib), 4));
}

TEST_CASE("a capture takes what other streams have freed and completed") {
  ww::stream a;
  ww::stream b;
  ww::memory_pool pool{device, ww::memory_pool_options{}.max_wait_seconds(1.0)};
  void* const before = pool.allocate(a, 64 * mib);
  pool.deallocate(a, before, 64 * mib);
  a.synchronize();
  ww::graph const g = ww::capture(b, [&](ww::stream_ref c) {
    void* const inside = pool.allocate(c, 64 * mib);
    CHECK(inside == before);
    pool.deallocate(c, inside, 64 * mib);
  });
  CHECK(pool.statistics().reserved_peak_bytes == 64 * mib);
}

TEST_CASE("captures take the memory of graphs that are gone, and what was kept of it") {
  ww::stream s;
  ww::memory_pool pool{device, ww::memory_pool_options{}.max_wait_seconds(1.0)};
  for (int i = 0; i < 50; ++i) {
    ww::device_buffer<unsigned char> kept;
    {
      ww::graph_replay step{0};
      step.run(s, [&](ww::stream_ref c) {
        kept = ww::device_buffer<unsigned char>{pool, c, mib};
        ww::device_buffer<unsigned char> const temporary{pool, c, mib};
        fill(c, temporary.data(), 1, mib);
        fill(c, kept.data(), 1, mib);
      });
      s.synchronize();
    }
    kept = {};
    s.synchronize();
  }
  CHECK(pool.statistics().reserved_peak_bytes <= 8 * mib);
}

TEST_CASE("branches of a capture take what they freed before it when memory is short") {
  ww::stream s;
  ww::memory_pool pool{device, ww::memory_pool_options{}.max_bytes(160 * mib)};
  ww::graph_replay step{1};
  auto const body = [&](ww::capture_scope& scope) {
    scope.fork(2, [&](ww::stream_ref branch, unsigned) {
      ww::device_buffer<unsigned char> const temporary{pool, branch, 64 * mib};
      fill(branch, temporary.data(), 1, 64 * mib);
    });
  };
  step.run(s, body);
  step.run(s, body);
  CHECK(step.statistics().captures == 1);
  s.synchronize();
  step.reset();
}

TEST_CASE("branches of a capture take what they freed before it rather than new memory") {
  ww::stream s;
  ww::stream other;
  bool const by_count = GENERATE(true, false);
  bool const mapped = GENERATE(true, false);
  CAPTURE(by_count, mapped);
  auto const source = mapped ? ww::memory_source::automatic : ww::memory_source::cuda_malloc;
  ww::memory_pool pool{device, ww::memory_pool_options{}.source(source).max_wait_seconds(1.0)};
  ww::graph_replay step{1};
  auto const make = [&](ww::stream_ref branch) {
    ww::device_buffer<unsigned char> temporary{pool, branch, 64 * mib};
    fill(branch, temporary.data(), 1, 64 * mib);
    return temporary;
  };
  auto const body = [&](ww::capture_scope& scope) {
    if (by_count) {
      ww::device_buffer<unsigned char> first;  // both exist at a time
      scope.fork(2, [&](ww::stream_ref branch, unsigned i) {
        auto own = make(branch);
        if (i == 0) {
          first = std::move(own);
        } else {
          first = {};
        }
      });
    } else {
      scope.fork(other);
      make(other);
      scope.join(other);
    }
  };
  step.run(s, body);
  std::uint64_t const before = pool.statistics().reserved_bytes;
  step.run(s, body);
  CHECK(step.statistics().captures == 1);
  CHECK(pool.statistics().reserved_bytes == before);
  s.synchronize();
}

TEST_CASE("a capture of other code takes what its stream freed before it") {
  ww::stream s;
  bool const watched = GENERATE(true, false);
  bool const mapped = GENERATE(true, false);
  CAPTURE(watched, mapped);
  auto const source = mapped ? ww::memory_source::automatic : ww::memory_source::cuda_malloc;
  auto const options = ww::memory_pool_options{}.max_bytes(48 * mib).source(source);
  ww::memory_pool pool{device, watched ? options : options.detect_captures()};
  void* const before = pool.allocate(s, 32 * mib);
  fill(s, before, 3, 32 * mib);
  pool.deallocate(s, before, 32 * mib);
  auto const capture = [&] {
    ww::check(cudaStreamBeginCapture(s.get(), cudaStreamCaptureModeRelaxed),
              "cudaStreamBeginCapture");
    void* const inside = pool.try_allocate(s.get(), 32 * mib);
    CHECK(inside == before);
    pool.deallocate(s.get(), inside, 32 * mib);
    cudaGraph_t graph = nullptr;
    REQUIRE(cudaStreamEndCapture(s.get(), &graph) == cudaSuccess);
    ww::check(cudaGraphDestroy(graph), "cudaGraphDestroy");
  };
  if (watched) {
    ww::capture_watch const watch{pool};
    capture();
  } else {
    capture();
  }
}

TEST_CASE("an allocation without room waits for the report that a graph is destroyed") {
  ww::stream s;
  ww::memory_pool pool{device, ww::memory_pool_options{}.max_bytes(48 * mib).max_wait_seconds(1.0)};
  for (int i = 0; i < 20; ++i) {
    {
      ww::graph_replay step{0};
      step.run(s, [&](ww::stream_ref c) {
        ww::device_buffer<unsigned char> const temporary{pool, c, 32 * mib};
        fill(c, temporary.data(), 1, 32 * mib);
      });
    }
    void* const p = pool.try_allocate(s, 32 * mib);
    CHECK(p != nullptr);
    if (p != nullptr) pool.deallocate(s, p, 32 * mib);
  }
}

TEST_CASE("an allocation without room beside a live graph does not wait for other work") {
  ww::stream s;
  ww::stream other;
  ww::memory_pool pool{device,
                       ww::memory_pool_options{}.max_bytes(64 * mib).max_wait_seconds(1e-3)};
  ww::graph_replay step{0};
  step.run(s, [&](ww::stream_ref c) {
    ww::device_buffer<unsigned char> const temporary{pool, c, 8 * mib};
    fill(c, temporary.data(), 1, 8 * mib);
  });
  s.synchronize();
  ww::device_buffer<unsigned char> const live{pool, s, 30 * mib};
  gate const hold{other};  // has no memory of the pool
  CHECK(pool.try_allocate(s, 30 * mib) == nullptr);
  CHECK_FALSE(other.done());
}

TEST_CASE("detect_captures() detects captures that other libraries begin") {
  ww::stream s;
  ww::memory_pool pool{device, ww::memory_pool_options{}.initial_bytes(4 * mib).detect_captures()};
  ww::check(cudaStreamBeginCapture(s.get(), cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
  cudaStream_t const raw = s.get();  // a query of its id would invalidate the capture
  void* const p = pool.allocate(raw, mib);
  fill(raw, p, 6, mib);
  pool.deallocate(raw, p, mib);
  void* const large = pool.allocate(raw, 16 * mib);  // grows
  pool.deallocate(raw, large, 16 * mib);
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaStreamEndCapture(s.get(), &graph) == cudaSuccess);
  CHECK(pool.statistics().graph_bytes >= 16 * mib);
  ww::check(cudaGraphDestroy(graph), "cudaGraphDestroy");
  CHECK(eventually([&] { return !has_graph_memory(pool, s); }));
}

TEST_CASE("two captures have separate memory, and an update releases the old memory") {
  ww::stream a;
  ww::stream b;
  ww::memory_pool pool{device};
  ww::graph_replay step{0};
  void* first = nullptr;
  void* second = nullptr;
  {
    ww::capture_watch const watch{pool};
    step.recapture(a, [&](ww::stream_ref c) {
      first = pool.allocate(c, mib);
      fill(c, first, 1, mib);
      pool.deallocate(c, first, mib);
    });
    step.recapture(a, [&](ww::stream_ref c) {
      second = pool.allocate(c, mib);
      fill(c, second, 2, mib);
      pool.deallocate(c, second, mib);
    });
  }
  CHECK(first != second);
  step.launch(a);
  CHECK(all_are(fetch(a, second, mib), 2));
  // The first capture's graph is destroyed, and the executable retains only the second's memory.
  CHECK(eventually([&] {
    static_cast<void>(has_graph_memory(pool, b));
    return pool.statistics().graph_bytes == mib;
  }));
  step.reset();
  CHECK(eventually([&] { return !has_graph_memory(pool, b); }));
}

TEST_CASE("buffers work in a captured body, at every replay") {
  ww::stream s;
  ww::memory_pool pool{device, ww::memory_pool_options{}.checked()};
  ww::device_buffer<unsigned char> out{pool, s, 1000};
  ww::graph_replay step;
  for (int i = 0; i < 4; ++i) {
    step.run(s, [&](ww::stream_ref c) {
      ww::device_buffer<unsigned char> const temporary{pool, c, 1000};
      fill(c, temporary.data(), 7, 1000);
      ww::check(
          cudaMemcpyAsync(out.data(), temporary.data(), 1000, cudaMemcpyDeviceToDevice, c.get()),
          "cudaMemcpyAsync");
    });
  }
  CHECK(step.statistics().captures == 1);
  CHECK(all_are(fetch(s, out.data(), 1000), 7));
}

TEST_CASE("an allocation in a capture fails when memory is short") {
  ww::stream s;
  ww::memory_pool pool{device, ww::memory_pool_options{}.max_bytes(4 * mib)};
  {
    ww::capture_watch const watch{pool};
    ww::graph const g = ww::capture(s, [&](ww::stream_ref c) {
      void* const p = pool.allocate(c, 3 * mib);
      CHECK(pool.try_allocate(c, 2 * mib) == nullptr);
      CHECK_THROWS_AS(pool.allocate(c, 2 * mib), ww::out_of_memory);
      pool.deallocate(c, p, 3 * mib);
      void* const q = pool.allocate(c, 3 * mib);
      CHECK(q == p);
      pool.deallocate(c, q, 3 * mib);
    });
    CHECK(g.get() != nullptr);
  }
  CHECK(eventually([&] { return !has_graph_memory(pool, s); }));
}
