// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The pinned pool and captures, of this thread and of others.
#include "memory/pinned_support.hpp"
#include "support/catch.hpp"

#include <warpwright/graph/capture.hpp>

#include <memory>
#include <thread>
#include <vector>

namespace ww = warpwright;
using test_support::allocate_many;
using test_support::exactly;
using test_support::free_many;
using test_support::growing_by_256_kib;
using test_support::kib;
using test_support::mib;

namespace {

/// A capture that the library has not begun.
class foreign_capture {
 public:
  explicit foreign_capture(ww::stream const& s,
                           cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal)
      : stream_{s.get()} {
    ww::check(cudaStreamBeginCapture(stream_, mode), "cudaStreamBeginCapture");
  }
  foreign_capture(foreign_capture const&) = delete;
  foreign_capture& operator=(foreign_capture const&) = delete;
  ~foreign_capture() { static_cast<void>(ends_well()); }
  bool ends_well() {
    if (stream_ == nullptr) return true;
    cudaGraph_t graph = nullptr;
    bool const well = cudaStreamEndCapture(stream_, &graph) == cudaSuccess;
    stream_ = nullptr;
    if (graph != nullptr) ww::detail::discard(cudaGraphDestroy(graph));
    return well;
  }

 private:
  cudaStream_t stream_;
};

}  // namespace

TEST_CASE("pinned: frees on other streams break no capture, of this thread or another") {
  ww::stream captured;
  std::vector<ww::stream> const streams(4);
  ww::pinned_pool pool{ww::pinned_pool_options{}.initial_bytes(mib)};
  for (auto const mode : {cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeGlobal}) {
    auto const free_on_all = [&] {
      for (ww::stream const& s : streams) {
        for (int i = 0; i < 300; ++i) pool.deallocate(s.ref(), pool.allocate(256), 256);
      }
    };
    foreign_capture capture{captured, mode};
    free_on_all();
    std::thread{free_on_all}.join();
    void* const big = pool.allocate(2 * mib);  // page-locks memory
    pool.deallocate(big, 2 * mib);
    static_cast<void>(pool.trim());
    pool.retire(streams[0]);
    CHECK(capture.ends_well());
  }
}

TEST_CASE("pinned: a capturing stream is rejected, and its capture stays valid") {
  ww::stream s;
  ww::pinned_pool pool{growing_by_256_kib(mib)};
  void* p = nullptr;
  static_cast<void>(ww::capture(s, [&](ww::stream_ref c) {
    p = pool.allocate(1000);  // legal, and grows
    CHECK_THROWS_WITH(pool.deallocate(c, p, 1000), contains("on a capturing stream"));
    CHECK_THROWS_WITH(pool.retire(c), contains("cannot retire a capturing stream"));
  }));
  pool.deallocate(s, p, 1000);
  foreign_capture capture{s};
  void* const q = pool.allocate(1000);
#if WARPWRIGHT_HOST_RUNTIME
  CHECK_THROWS_WITH(pool.deallocate(s, q, 1000), contains("on a capturing stream"));
#endif
  CHECK(capture.ends_well());
  CHECK(pool.statistics().live_blocks == 1);
  pool.deallocate(s, q, 1000);
  CHECK(pool.statistics().live_blocks == 0);
}

TEST_CASE("pinned: of a stream that begins to capture no event is recorded until the end") {
  ww::stream s;
  ww::pinned_pool pool{exactly(mib)};
  free_many(pool, s, allocate_many(pool, 10, 4 * kib), 4 * kib);
  foreign_capture capture{s};
  CHECK(pool.try_allocate(mib) == nullptr);
  static_cast<void>(pool.trim());
  CHECK(pool.statistics().reserved_bytes == mib);
  CHECK(pool.statistics().pending_bytes == 10 * 4 * kib);
  CHECK(pool.statistics().event_records == 0);
  CHECK(capture.ends_well());
  void* const all = pool.allocate(mib);
  CHECK(all != nullptr);
  pool.deallocate(all, mib);
}

TEST_CASE("pinned: pools and buffers that come and go during a capture do not disturb it") {
  ww::stream s;
  ww::stream other;
  ww::pinned_pool pool{growing_by_256_kib(mib)};
  auto old_pool = std::make_unique<ww::pinned_pool>(growing_by_256_kib(mib));
  old_pool->deallocate(other, old_pool->allocate(1000), 1000);
  old_pool->deallocate(s, old_pool->allocate(1000), 1000);
  auto buffer = std::make_unique<ww::pinned_buffer<int>>(pool, s, 100);
  ww::stream_ref const without_id{s.get()};
  auto other_buffer = std::make_unique<ww::pinned_buffer<int>>(pool, without_id, 100);
  foreign_capture capture{s};
  old_pool.reset();
  ww::pinned_pool const another{ww::pinned_pool_options{}.initial_bytes(mib)};
  buffer.reset();  // its stream cannot be waited for now: the block stays live
  CHECK(pool.statistics().live_blocks == 2);
  other_buffer.reset();
  CHECK(pool.statistics().live_blocks == 2);
  CHECK(capture.ends_well());
}

TEST_CASE("pinned: the default stream of a thread that captures") {
  ww::stream captured;
  ww::pinned_pool pool{exactly(64 * kib)};
  free_many(pool, ww::stream_ref::per_thread(), allocate_many(pool, 4, kib), kib);
  foreign_capture capture{captured, cudaStreamCaptureModeRelaxed};
  void* const all = pool.allocate(64 * kib);
  CHECK(all != nullptr);
  pool.deallocate(all, 64 * kib);
  CHECK(capture.ends_well());
}

TEST_CASE("pinned: a thread whose own default stream captures") {
  ww::pinned_pool pool{exactly(64 * kib)};
  cudaStream_t const own = cudaStreamPerThread;
  free_many(pool, ww::stream_ref::per_thread(), allocate_many(pool, 4, kib), kib);
  ww::check(cudaStreamBeginCapture(own, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
  CHECK(pool.try_allocate(64 * kib) == nullptr);
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(own, &graph) == cudaSuccess);
  ww::detail::discard(cudaGraphDestroy(graph));
  void* const all = pool.allocate(64 * kib);
  CHECK(all != nullptr);
  pool.deallocate(all, 64 * kib);
}
