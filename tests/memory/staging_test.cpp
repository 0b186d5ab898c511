// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include "memory/staging_support.hpp"
#include "memory/support.hpp"
#include "support/catch.hpp"
#include "support/device_memory.hpp"

#include <warpwright/memory/staging.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>
#endif

namespace ww = warpwright;
using namespace test_support;

namespace {

ww::staging_options many_pieces() {
  return ww::staging_options{}.threads(4).slot_bytes(64 * kib).slots_per_thread(2).direct_bytes(
      4 * kib);
}

// Overwrites the memory of a staging object's slots, so that stale data would be detected.
void overwrite_slots(ww::pinned_pool& pinned) {
  for (int i = 0; i < 8; ++i) std::memset(pinned.allocate(64 * kib), 0xee, 64 * kib);
}

}  // namespace

static_assert(!std::is_move_constructible<ww::staging>::value, "its threads point to it");

TEST_CASE("every byte is copied to the device and back, for any size and alignment") {
  ww::stream s;
  ww::pinned_pool pinned;
  std::size_t const sizes[] = {1,
                               2,
                               255,
                               4 * kib - 1,
                               4 * kib,
                               4 * kib + 1,
                               64 * kib,
                               64 * kib + 1,
                               511 * kib + 7,
                               mib,
                               3 * mib + 12345,
                               64 * mib};
  struct how {
    unsigned threads;
    unsigned slots;
  };
  for (how const h : {how{1, 1}, how{1, 2}, how{4, 1}, how{4, 3}}) {
    ww::staging up{pinned, many_pieces().threads(h.threads).slots_per_thread(h.slots)};
    CHECK(up.threads() == h.threads);
    for (std::size_t const bytes : sizes) {
      if (bytes == 64 * mib && h.threads * h.slots != 12) continue;
      INFO(h.threads << " threads, " << h.slots << " slots, " << bytes << " bytes");
      std::size_t const offset = bytes % 3;  // unaligned on both sides
      bytes_vector source = pattern(bytes + offset, bytes);
      bytes_vector const expected = source;
      device_array<unsigned char> memory(bytes + offset + 1);
      test_support::fill(s, memory.data(), 0xee, memory.size());
      up.copy_to_device(s, memory.data() + offset, source.data() + offset, bytes);
      std::fill(source.begin(), source.end(),
                static_cast<unsigned char>(0));  // the source has been read
      bytes_vector back(bytes + 2, 0xdd);
      up.copy_to_host(s, back.data() + 1, memory.data() + offset, bytes);
      // Complete at once, without a byte beside.
      CHECK(std::equal(back.begin() + 1, back.end() - 1,
                       expected.begin() + static_cast<std::ptrdiff_t>(offset)));
      CHECK(back.front() == 0xdd);
      CHECK(back.back() == 0xdd);
      bytes_vector const all = memory.fetch(s);
      CHECK(all.back() == 0xee);
      if (offset != 0) CHECK(all.front() == 0xee);
    }
  }
  CHECK(pinned.statistics().live_bytes == 0);
}

TEST_CASE("0 bytes do nothing") {
  ww::stream s;
  ww::pinned_pool pinned;
  ww::staging up{pinned, many_pieces()};
  up.copy_to_device(s, nullptr, nullptr, 0);
  up.copy_to_host(s, nullptr, nullptr, 0);
  int host = 0;
  CHECK_THROWS_WITH(up.copy_to_device(s, nullptr, &host, 4), contains("null destination"));
  CHECK_THROWS_WITH(up.copy_to_device(s, &host, nullptr, 4), contains("null source"));
  CHECK_THROWS_WITH(up.copy_to_host(s, nullptr, &host, 4),
                    contains("copy_to_host with a null destination"));
}

TEST_CASE("options out of range throw") {
  ww::pinned_pool pinned;
  using options = ww::staging_options;
  CHECK_THROWS_WITH(ww::staging(pinned, options{}.threads(257)), contains("257 threads"));
  CHECK_THROWS_WITH(ww::staging(pinned, options{}.slots_per_thread(0)), contains("with 0 slots"));
  CHECK_THROWS_WITH(ww::staging(pinned, options{}.slots_per_thread(65)), contains("65 slots"));
  CHECK_THROWS_WITH(ww::staging(pinned, options{}.slot_bytes(100)), contains("100 bytes"));
  ww::pinned_pool tiny{ww::pinned_pool_options{}.max_bytes(mib)};
  CHECK_THROWS_AS(ww::staging(tiny, options{}.threads(2)), ww::out_of_memory);
  CHECK(tiny.statistics().live_bytes == 0);
  ww::staging const by_default{pinned};
  CHECK(by_default.threads() >= 1);
  CHECK(by_default.threads() <= 8);
}

TEST_CASE("options at the ends of their ranges") {
  ww::stream s;
  ww::pinned_pool pinned;
  using options = ww::staging_options;
  {
    ww::staging const most{pinned, options{}.threads(256).slots_per_thread(1).slot_bytes(4096)};
    CHECK(most.threads() == 256);
  }
  ww::staging staging{
      pinned, options{}.threads(2).slots_per_thread(64).slot_bytes(4096).bytes_per_helper(4096)};
  device_array<unsigned char> memory(mib);
  bytes_vector const source = pattern(mib, 3);
  staging.copy_to_device(s, memory.data(), source.data(), mib);  // 256 chunks
  bytes_vector back(mib);
  staging.copy_to_host(s, back.data(), memory.data(), mib);
  CHECK((back == source));
}

TEST_CASE("a copy is ordered on its stream") {
  ww::pinned_pool pinned;
  // With more slots than chunks the call need not wait for a blocked stream.
  ww::staging up{pinned, many_pieces().slots_per_thread(8)};
  for (std::size_t const bytes : {std::size_t{1000}, 512 * kib}) {
    INFO(bytes << " bytes");
    ww::stream s;
    device_array<unsigned char> memory(bytes);
    bytes_vector const source = pattern(bytes, 5);
    gate hold{s};
    test_support::fill(s, memory.data(), 0, bytes);  // earlier work: must not run last
    up.copy_to_device(s, memory.data(), source.data(), bytes);
    hold.open_late();
    CHECK(memory.fetch(s) == source);
    gate again{s};
    test_support::fill(s, memory.data(), 9, bytes);
    std::thread opener{[&] { again.open_late(); }};
    bytes_vector back(bytes);
    up.copy_to_host(s, back.data(), memory.data(), bytes);
    CHECK(test_support::all_are(back, 9));
    opener.join();
  }
}

TEST_CASE("default streams work, also the per-thread one") {
  ww::pinned_pool pinned;
  ww::staging up{pinned, many_pieces()};
  for (ww::stream_ref const s : {ww::stream_ref::legacy_default(), ww::stream_ref::per_thread()}) {
    for (std::size_t const bytes : {std::size_t{1000}, 700 * kib}) {
      device_array<unsigned char> memory(bytes);
      bytes_vector const source = pattern(bytes, 6);
      test_support::fill(s, memory.data(), 0, bytes);
      up.copy_to_device(s, memory.data(), source.data(), bytes);
      CHECK(memory.fetch(s) == source);
      bytes_vector back(bytes);
      up.copy_to_host(s, back.data(), memory.data(), bytes);
      CHECK(back == source);
    }
  }
}

TEST_CASE("a copy with helpers is ordered on the per-thread default stream") {
  ww::pinned_pool pinned;
  ww::staging up{pinned, many_pieces().slots_per_thread(16)};  // no chunk waits for a slot
  ww::stream_ref const s = ww::stream_ref::per_thread();
  std::size_t const bytes = 512 * kib;
  device_array<unsigned char> memory(bytes);
  bytes_vector const source = pattern(bytes, 11);
#if WARPWRIGHT_HOST_RUNTIME
  ww::testing::reset_call_counts();
#endif
  gate closed{s};
  test_support::fill(s, memory.data(), 7, bytes);
  up.copy_to_device(s, memory.data(), source.data(), bytes);
  CHECK_FALSE(s.done());
  closed.open();
  CHECK((memory.fetch(s) == source));
#if WARPWRIGHT_HOST_RUNTIME
  // Before the chunks and behind them: whether a later call is ordered, too, is a race.
  CHECK(ww::testing::call_count("cudaStreamWaitEvent") == 2);
#endif
}

TEST_CASE("many threads may copy at once") {
  ww::pinned_pool pinned;
  ww::staging up{pinned, many_pieces()};
  std::vector<std::string> errors(6);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < errors.size(); ++t) {
    threads.emplace_back([&, t] {
      try {
        ww::stream s;
        for (std::size_t i = 0; i < 12; ++i) {
          std::size_t const bytes = i % 3 == 0 ? 1 + i * 97 : 200 * kib + 1013 * i * (t + 1);
          bytes_vector const source = pattern(bytes, t * 100 + i);
          device_array<unsigned char> memory(bytes);
          up.copy_to_device(s, memory.data(), source.data(), bytes);
          bytes_vector back(bytes);
          up.copy_to_host(s, back.data(), memory.data(), bytes);
          if (back != source) errors[t] = "wrong bytes";
        }
      } catch (std::exception const& e) {
        errors[t] = e.what();
      }
    });
  }
  for (std::thread& t : threads) t.join();
  for (std::string const& e : errors) CHECK(e == "");
}

TEST_CASE("a child of fork() ends a staging object and its pool without the parent's threads") {
  ww::stream s;
  auto pinned = std::make_unique<ww::pinned_pool>();
  auto object = std::make_unique<ww::staging>(*pinned, many_pieces());
  device_array<unsigned char> const device{mib};
  bytes_vector const values = pattern(mib, 5);
  object->copy_to_device(s, device.data(), values.data(), mib);  // the threads have begun
  s.synchronize();
  void* const in_use = pinned->allocate(1000);
  gate hold{s};
  pinned->deallocate(s, in_use, 1000);  // the child has no event to wait for
  pid_t const child = fork();
  if (child == 0) {
    object.reset();
    pinned.reset();
    _exit(0);
  }
  REQUIRE(child > 0);
  int status = 0;
  pid_t ended = 0;
  auto const until = std::chrono::steady_clock::now() + std::chrono::seconds{8};
  while (ended == 0 && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
    ended = waitpid(child, &status, WNOHANG);
  }
  if (ended == 0) {
    static_cast<void>(kill(child, SIGKILL));
    static_cast<void>(waitpid(child, &status, 0));
  }
  CHECK(ended == child);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  hold.open();
  bytes_vector back(mib);
  object->copy_to_host(s, back.data(), device.data(), mib);
  CHECK((back == values));
}

TEST_CASE("a capturing stream is rejected, and its capture stays valid") {
  ww::stream s;
  ww::stream other;
  ww::pinned_pool pinned;
  ww::staging up{pinned, many_pieces()};
  std::size_t const bytes = 400 * kib;
  device_array<unsigned char> memory(bytes);
  bytes_vector host = pattern(bytes, 8);
  ww::check(cudaStreamBeginCapture(s.get(), cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
  CHECK_THROWS_WITH(up.copy_to_device(s, memory.data(), host.data(), bytes),
                    contains("copy_to_device on a capturing stream"));
  CHECK_THROWS_WITH(up.copy_to_host(s, host.data(), memory.data(), 10),
                    contains("copy_to_host on a capturing stream"));
  up.copy_to_device(other, memory.data(), host.data(), bytes);  // does not disturb the capture
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(s.get(), &graph) == cudaSuccess);
  ww::detail::discard(cudaGraphDestroy(graph));
  CHECK(memory.fetch(other) == host);
}

TEST_CASE(
    "destroying a staging object during a capture waits for its copies, and the capture stays "
    "valid") {
  ww::stream s;
  ww::stream busy;
  ww::pinned_pool pinned;
  std::size_t const bytes = 60 * kib;
  device_array<unsigned char> memory(bytes);
  bytes_vector const host = pattern(bytes, 9);
  auto up = std::make_unique<ww::staging>(pinned, many_pieces());
  gate closed{busy};
  up->copy_to_device(busy, memory.data(), host.data(), bytes);
  ww::check(cudaStreamBeginCapture(s.get(), cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
  std::thread opener{[&closed] { closed.open_late(); }};
  up.reset();
  overwrite_slots(pinned);
  opener.join();
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(s.get(), &graph) == cudaSuccess);
  ww::detail::discard(cudaGraphDestroy(graph));
  CHECK(memory.fetch(busy) == host);
}

#if WARPWRIGHT_HOST_RUNTIME

TEST_CASE("a slot whose copy cannot be waited for is not reused") {
  ww::stream busy;
  ww::pinned_pool pinned;
  std::size_t const bytes = 60 * kib;
  device_array<unsigned char> memory(bytes);
  bytes_vector const host = pattern(bytes, 10);
  auto up = std::make_unique<ww::staging>(pinned, many_pieces());
  gate closed{busy};
  up->copy_to_device(busy, memory.data(), host.data(), bytes);
  {
    ww::testing::fault_plan const plan =
        ww::testing::fault_plan{}.fail_from("cudaEventSynchronize", 1, cudaErrorUnknown);
    ww::testing::scoped_fault_plan const fault{plan};
    up.reset();
  }
  CHECK(pinned.statistics().live_blocks > 0);
  overwrite_slots(pinned);
  closed.open();
  CHECK(memory.fetch(busy) == host);
}

TEST_CASE("a slot whose copy is waited for at the second attempt is free") {
  ww::stream s;
  ww::pinned_pool pinned;
  device_array<unsigned char> memory(60 * kib);
  bytes_vector const host = pattern(60 * kib, 10);
  auto up = std::make_unique<ww::staging>(pinned, many_pieces());
  up->copy_to_device(s, memory.data(), host.data(), 60 * kib);
  {
    ww::testing::scoped_fault_plan const fault{
        ww::testing::fault_plan{}.fail("cudaEventSynchronize", 1, cudaErrorUnknown)};
    up.reset();
    CHECK(fault.hits() == 1);
  }
  CHECK(pinned.statistics().live_blocks == 0);
}

TEST_CASE("a stream of another device is rejected") {
  ww::testing::reset_host_runtime(ww::testing::host_runtime_options{}.with_devices(2));
  {
    ww::stream wrong{ww::device_id{1}};
    ww::pinned_pool pinned;
    ww::staging up{pinned, many_pieces()};
    int host = 0;
    CHECK_THROWS_WITH(up.copy_to_device(wrong, &host, &host, 4),
                      contains("on a stream of device 1, made for device 0"));
    // Any device may be current.
    ww::stream s;
    device_array<unsigned char> memory(mib);
    bytes_vector const source = pattern(mib, 3);
    ww::scoped_device const scope{ww::device_id{1}};
    up.copy_to_device(s, memory.data(), source.data(), mib);
    CHECK(ww::current_device().value() == 1);
    CHECK(memory.fetch(s) == source);
  }
  ww::testing::reset_host_runtime();
}

TEST_CASE("each failing call reaches the caller once, without a deadlock or a leak") {
  namespace testing = ww::testing;
  std::size_t const bytes = 700 * kib;
  bytes_vector const source = pattern(bytes, 1);
  auto const scenario = [&](ww::staging& up, ww::stream const& s, unsigned char* memory) {
    up.copy_to_device(s, memory, source.data(), bytes);
    bytes_vector back(bytes);
    up.copy_to_host(s, back.data(), memory, bytes);
    if (back != source) throw std::runtime_error{"wrong bytes"};
    up.copy_to_device(s, memory, source.data(), 100);
    up.copy_to_host(s, back.data(), memory, 100);
    ww::stream_ref const own = ww::stream_ref::per_thread();
    up.copy_to_device(own, memory, source.data(), bytes);
    own.synchronize();
  };
  testing::reset_host_runtime();
  {
    ww::stream const s;
    device_array<unsigned char> memory(bytes);
    ww::pinned_pool pinned;
    ww::staging up{pinned, many_pieces()};
    testing::reset_call_counts();
    scenario(up, s, memory.data());
  }
  std::vector<testing::call_record> const calls = testing::calls();
  std::size_t failures = 0;
  for (testing::call_record const& call : calls) {
    // Many calls are equivalent: the first few of each, then some.
    for (std::uint64_t nth = 1; nth <= call.count; nth = nth < 5 ? nth + 1 : nth * 2) {
      INFO(call.name << " call " << nth);
      testing::reset_host_runtime();
      {
        ww::stream const s;
        device_array<unsigned char> memory(bytes);
        ww::pinned_pool pinned;
        ww::staging up{pinned, many_pieces()};
        {
          testing::scoped_fault_plan const plan{
              testing::fault_plan{}.fail(call.name, nth, cudaErrorUnknown)};
          try {
            scenario(up, s, memory.data());
          } catch (ww::cuda_error const& e) {
            ++failures;
            CHECK(e.code() == cudaErrorUnknown);
          }
        }
        CHECK(cudaPeekAtLastError() == cudaSuccess);
        // The remaining copies run on another stream than the next ones.
        ww::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
        CHECK_NOTHROW(scenario(up, s, memory.data()));
      }
      // What cannot be destroyed is leaked by any caller.
      if (call.name != "cudaEventDestroy" && call.name != "cudaStreamDestroy")
        CHECK(testing::leak_report().empty());
    }
  }
  CHECK(failures > 10);
  testing::reset_host_runtime();
}

TEST_CASE("a failed construction leaks nothing") {
  namespace testing = ww::testing;
  for (char const* call : {"cudaEventCreateWithFlags", "cudaHostAlloc", "cudaStreamGetId",
                           "cudaStreamCreateWithPriority"}) {
    for (std::uint64_t nth = 1; nth <= 6; ++nth) {
      INFO(call << " call " << nth);
      testing::reset_host_runtime();
      {
        ww::pinned_pool pinned{ww::pinned_pool_options{}.growth_bytes(64 * kib)};
        testing::scoped_fault_plan const plan{
            testing::fault_plan{}.fail(call, nth, cudaErrorUnknown)};
        try {
          ww::staging const up{pinned, many_pieces()};
          CHECK(plan.hits() == 0);
        } catch (ww::cuda_error const&) {
          CHECK(plan.hits() == 1);
        }
        CHECK(pinned.statistics().live_bytes == 0);
      }
      CHECK(testing::leak_report().empty());
    }
  }
  testing::reset_host_runtime();
}

TEST_CASE("a worker whose setup failed leaves the chunks to the others") {
  namespace testing = ww::testing;
  testing::reset_host_runtime();
  {
    ww::stream s;
    device_array<unsigned char> memory(mib);
    bytes_vector const source = pattern(mib, 2);
    ww::pinned_pool pinned;
    testing::scoped_fault_plan const plan{
        testing::fault_plan{}.fail_from("cudaSetDevice", 1, cudaErrorUnknown)};
    ww::staging up{pinned, many_pieces()};
    up.copy_to_device(s, memory.data(), source.data(), mib);
    CHECK(memory.fetch(s) == source);
  }
  testing::reset_host_runtime();
}

#endif
