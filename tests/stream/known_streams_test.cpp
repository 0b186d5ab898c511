// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include "support/catch.hpp"

#include <warpwright/core/launch.hpp>
#include <warpwright/stream/known_streams.hpp>

#include <atomic>
#include <thread>
#include <vector>

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>
#endif

namespace ww = warpwright;

TEST_CASE("a handle that was added has its id") {
  ww::stream const s;
  ww::known_streams known;
  CHECK(known.size() == 0);
  CHECK_FALSE(known.ref(s.get()).has_id());
  CHECK(known.ref(s.get()) == s.ref());
  known.add(s.get());  // a raw handle: queried here
  CHECK(known.size() == 1);
  CHECK(known.ref(s.get()).has_id());
  CHECK(known.ref(s.get()).id() == s.id());
  CHECK(known.ref(s.get()) == s.ref());
  known.add(s);  // again
  CHECK(known.size() == 1);
  known.remove(s);
  CHECK(known.size() == 0);
  CHECK_FALSE(known.ref(s.get()).has_id());
  known.remove(s);
  CHECK(known.size() == 0);
}

TEST_CASE("the legacy default stream can be added, the per-thread one cannot") {
  ww::known_streams known;
  known.add(ww::stream_ref::legacy_default());
  CHECK(known.ref(cudaStreamLegacy).has_id());
  CHECK_THROWS_WITH(known.add(ww::stream_ref::per_thread()),
                    contains("the per-thread default stream is another one in each thread"));
  CHECK_FALSE(known.ref(cudaStreamPerThread).has_id());
#ifndef CUDA_API_PER_THREAD_DEFAULT_STREAM
  CHECK(known.ref(nullptr).has_id());
#endif
}

TEST_CASE("as many streams as there are places are found, and removed in any order") {
  ww::known_streams known;
  std::vector<ww::stream> streams(ww::known_streams::capacity);
  for (ww::stream const& s : streams) known.add(s);
  CHECK(known.size() == ww::known_streams::capacity);
  ww::stream const more;
  CHECK_THROWS_WITH(known.add(more), contains("all 128 places are taken"));
  CHECK_FALSE(known.ref(more.get()).has_id());
  for (std::size_t i = 0; i < streams.size(); i += 2) known.remove(streams[i]);
  for (std::size_t i = 0; i < streams.size(); ++i) {
    CHECK(known.ref(streams[i].get()).has_id() == (i % 2 != 0));
    if (i % 2 != 0) CHECK(known.ref(streams[i].get()).id() == streams[i].id());
  }
  known.add(more);
  CHECK(known.ref(more.get()).id() == more.id());
  for (ww::stream const& s : streams) known.remove(s);
  CHECK(known.size() == 1);
  CHECK(known.ref(more.get()).id() == more.id());
}

TEST_CASE("streams come and go for ever") {
  ww::known_streams known;
  ww::stream const stays;
  known.add(stays);
  for (int round = 0; round < 300; ++round) {
    ww::stream const a;
    ww::stream const b;
    known.add(a);
    known.add(b);
    CHECK(known.ref(a.get()).id() == a.id());
    CHECK(known.ref(b.get()).id() == b.id());
    known.remove(a);
    CHECK_FALSE(known.ref(a.get()).has_id());
    CHECK(known.ref(b.get()).id() == b.id());
    known.remove(b);
  }
  CHECK(known.ref(stays.get()).id() == stays.id());
  CHECK(known.size() == 1);
}

TEST_CASE("streams are looked up while others are added and removed") {
  ww::known_streams known;
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      ww::stream const own;
      known.add(own);
      while (!stop.load()) {
        ww::stream_ref const found = known.ref(own.get());
        if (!found.has_id() || found.id() != own.id()) ++wrong;
      }
      known.remove(own);
    });
  }
  std::vector<ww::stream> streams(20);
  for (int round = 0; round < 200; ++round) {
    for (ww::stream const& s : streams) known.add(s);
    for (ww::stream const& s : streams) known.remove(s);
  }
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong.load() == 0);
  CHECK(known.size() == 0);
}

#if WARPWRIGHT_HOST_RUNTIME

TEST_CASE("looking a stream up makes no CUDA call, and its id needs none") {
  ww::testing::reset_host_runtime();
  ww::stream const s;
  ww::known_streams known;
  known.add(s);
  ww::testing::reset_call_counts();
  CHECK(known.ref(s.get()).id() == s.id());
  CHECK(ww::testing::total_calls() == 0);
}

TEST_CASE("a handle that stands for another stream than when it was added is forgotten") {
  ww::testing::reset_host_runtime(ww::testing::host_runtime_options{}.with_devices(2));
  {
    ww::stream const s;
    ww::known_streams known;
    known.add(s);
    known.add(ww::stream_ref::legacy_default());
    {
      ww::scoped_device const scope{ww::device_id{1}};
      CHECK_THROWS_WITH(known.add(ww::stream_ref::legacy_default()),
                        contains("one known_streams a device") && contains("known_streams_test"));
    }
    CHECK_FALSE(known.ref(cudaStreamLegacy).has_id());
    CHECK(known.size() == 1);
    CHECK(known.ref(s.get()).has_id());
  }
  ww::testing::reset_host_runtime();
}

TEST_CASE("a stream whose id cannot be queried is not added") {
  ww::testing::reset_host_runtime();
  ww::stream const s;
  ww::known_streams known;
  ww::testing::scoped_fault_plan const plan{
      ww::testing::fault_plan{}.fail("cudaStreamGetId", 1, cudaErrorInvalidValue)};
  CHECK_THROWS_AS(known.add(s.get()), ww::cuda_error);
  CHECK(known.size() == 0);
  known.add(s.get());
  CHECK(known.size() == 1);
}

#endif

TEST_CASE("a handle of a destroyed stream that CUDA has reused is reported, and forgotten") {
  ww::known_streams known;
  std::vector<cudaStream_t> old;
  {
    std::vector<ww::stream> const streams(30);
    for (ww::stream const& s : streams) {
      known.add(s);
      old.push_back(s.get());
    }
  }
  std::vector<ww::stream> const streams(30);
  for (ww::stream const& s : streams) {
    bool const again = known.ref(s.get()).has_id();
    std::size_t const before = known.size();
    if (again) {
      CHECK_THROWS_WITH(known.add(s), contains("remove a stream before it is destroyed"));
      CHECK(known.size() == before - 1);
      CHECK_FALSE(known.ref(s.get()).has_id());
    }
    known.add(s);
    CHECK(known.ref(s.get()).id() == s.id());
  }
}
