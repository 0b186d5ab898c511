// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include "memory/capture_support.hpp"
#include "support/catch.hpp"

#include <warpwright/interop/pytorch.hpp>

#include <thread>
#include <vector>

namespace ww = warpwright;
using test_support::gate;

namespace {

constexpr std::size_t mib = std::size_t{1} << 20U;

}  // namespace

TEST_CASE("torch: memory of a device, whose pool is created at the first use") {
  ww::stream s;
  ww::torch_allocator torch;
  void* const p = torch.allocate(1000, 0, s.get());
  REQUIRE(p != nullptr);
  test_support::fill(s, p, 7, 1000);
  CHECK(test_support::all_are(test_support::fetch(s, p, 1000), 7));
  CHECK(torch.pool(0).statistics().live_bytes == 1024);
  CHECK(torch.pool(0).device() == ww::device_id{0});
  torch.deallocate(p, 1000, 0, s.get());
  CHECK(torch.pool(0).statistics().live_bytes == 0);
  CHECK(torch.allocate(0, 0, s.get()) == nullptr);
  torch.deallocate(nullptr, 0, 0, s.get());
  // The null stream is the legacy default stream.
  void* const q = torch.allocate(1000, 0, nullptr);
  torch.deallocate(q, 1000, 0, nullptr);
  CHECK(torch.pool(0).statistics().live_bytes == 0);
}

TEST_CASE("torch: wrong devices, too much memory") {
  ww::torch_allocator torch{ww::memory_pool_options{}.max_bytes(8 * mib)};
  int const beyond = ww::device_count();
  for (int bad : {-1, beyond}) {
    CHECK_THROWS_WITH(torch.allocate(100, bad, nullptr), contains("does not exist"));
    CHECK_THROWS_AS(torch.memory_fraction(0.5, bad), std::invalid_argument);
  }
  CHECK_THROWS_AS(torch.allocate(64 * mib, 0, nullptr), ww::out_of_memory);
  void* const p = torch.allocate(mib, 0, nullptr);  // it remains usable
  torch.deallocate(p, mib, 0, nullptr);
}

TEST_CASE("torch: another stream's use delays the block's next use") {
  ww::stream s;
  ww::stream t;
  ww::torch_allocator torch;
  void* const p = torch.allocate(mib, 0, s.get());
  gate hold{t};  // t is busy with the block
  torch.record_stream(p, t.get());
  torch.record_stream(p, t.get());
  torch.record_stream(p, s.get());  // its own stream is not recorded
  torch.deallocate(p, mib, 0, s.get());
  CHECK(torch.pool(0).statistics().live_bytes == 0);
  void* const other = torch.allocate(mib, 0, s.get());
  CHECK(other != p);  // t may still use it
  void* const same = torch.allocate(mib, 0, t.get());
  CHECK(same == p);
  torch.deallocate(same, mib, 0, t.get());
  torch.deallocate(other, mib, 0, s.get());
  // Recorded streams are discarded with the block.
  void* const again = torch.allocate(mib, 0, s.get());
  CHECK(again == other);
  torch.deallocate(again, mib, 0, s.get());
  CHECK(torch.allocate(mib, 0, s.get()) == again);
  torch.deallocate(again, mib, 0, s.get());
}

TEST_CASE("torch: of several other streams the last waits for all") {
  ww::stream own;
  ww::stream a;
  ww::stream b;
  // One gate at a time: a GPU's host functions may share a thread.
  ww::stream const* const busy[] = {&own, &a};
  for (ww::stream const* stream : busy) {
    ww::torch_allocator torch;
    void* const p = torch.allocate(mib, 0, own.get());
    gate hold{*stream};
    torch.record_stream(p, a.get());
    torch.record_stream(p, b.get());
    torch.deallocate(p, mib, 0, own.get());
    void* const again = torch.allocate(mib, 0, b.get());
    CHECK(again == p);
    CHECK_FALSE(b.done());
    hold.open();
    b.synchronize();
    torch.deallocate(again, mib, 0, b.get());
  }
}

TEST_CASE("torch: trim returns the memory") {
  ww::torch_allocator torch;
  torch.trim();  // no pool yet
  void* const p = torch.allocate(mib, 0, nullptr);
  torch.deallocate(p, mib, 0, nullptr);
  CHECK(torch.pool(0).statistics().reserved_bytes != 0);
  torch.trim();
  CHECK(torch.pool(0).statistics().reserved_bytes == 0);
}

TEST_CASE("torch: a fraction of the device's memory") {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  ww::check(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
  ww::torch_allocator torch;
  for (double bad : {0.0, -0.5, 1.5}) {
    CHECK_THROWS_WITH(torch.memory_fraction(bad, 0), contains("above 0 and at most 1"));
  }
  torch.memory_fraction(0.25, 0);
  CHECK(torch.pool(0).limit_bytes() <= total_bytes / 4);
  CHECK(torch.pool(0).limit_bytes() >= total_bytes / 5);
  CHECK_THROWS_AS(torch.allocate(total_bytes / 2, 0, nullptr), ww::out_of_memory);
  CHECK_THROWS_WITH(torch.memory_fraction(0.5, 0), contains("in use already"));
}

TEST_CASE("torch: several threads and streams") {
  ww::torch_allocator torch;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&torch] {
      ww::stream s;
      ww::stream side;
      for (std::size_t round = 1; round <= 100; ++round) {
        void* const p = torch.allocate(round * 1000, 0, s.get());
        test_support::fill(s, p, 1, round * 1000);
        if (round % 3 == 0) {
          side.wait(s.ref());
          test_support::fill(side, p, 2, round * 1000);
          torch.record_stream(p, side.get());
        }
        torch.deallocate(p, round * 1000, 0, s.get());
      }
      torch.pool(0).retire(s);
      torch.pool(0).retire(side);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(torch.pool(0).statistics().live_bytes == 0);
  CHECK(torch.pool(0).statistics().allocations == 400);
}

TEST_CASE("torch: memory of a captured body belongs to the graph") {
  ww::torch_allocator torch;
  test_support::check_separate(torch.pool(0), [&](ww::stream_ref c) {
    void* const p = torch.allocate(mib, 0, c.get());
    test_support::fill(c, p, 2, mib);
    torch.deallocate(p, mib, 0, c.get());
  });
}

TEST_CASE("torch: memory from before a capture that is freed in it is kept for the graph") {
  ww::stream s;
  ww::torch_allocator torch;
  void* const p = torch.allocate(mib, 0, s.get());
  ww::graph_replay step{0};
  step.recapture(s, [&](ww::stream_ref c) {
    test_support::fill(c, p, 2, mib);
    torch.deallocate(p, mib, 0, c.get());
  });
  void* const mine = torch.allocate(mib, 0, s.get());
  test_support::fill(s, mine, 7, mib);
  step.launch(s);
  CHECK(test_support::all_are(test_support::fetch(s, mine, mib), 7));
  torch.deallocate(mine, mib, 0, s.get());
}

TEST_CASE("torch: a block of several streams is not freed while one of them is capturing") {
  ww::stream s;
  ww::stream t;
  ww::torch_allocator torch;
  // The capture could not wait for what the other stream has done before it, and must not join it.
  for (ww::stream const* capturing : {&s, &t}) {
    void* const p = torch.allocate(mib, 0, s.get());
    torch.record_stream(p, t.get());
    ww::graph const g = ww::capture(*capturing, [&](ww::stream_ref) {
      CHECK_THROWS_WITH(torch.deallocate(p, mib, 0, s.get()), contains("after the capture"));
    });
    CHECK(torch.pool(0).statistics().live_blocks == 1);
    gate hold{t};
    torch.deallocate(p, mib, 0, s.get());  // still knows of t
    void* const other = torch.allocate(mib, 0, s.get());
    CHECK(other != p);
    torch.deallocate(other, mib, 0, s.get());
  }
}
