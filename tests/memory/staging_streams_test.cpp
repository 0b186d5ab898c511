// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Copies beside others whose streams do not go on.
#include "memory/staging_support.hpp"
#include "memory/support.hpp"
#include "support/catch.hpp"
#include "support/device_memory.hpp"

#include <warpwright/memory/staging.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
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

// Every size above 4 KiB is copied in chunks, by helpers as well from 512 KiB on.
ww::staging_options few_slots() {
  return ww::staging_options{}.threads(3).slot_bytes(64 * kib).slots_per_thread(1).direct_bytes(
      4 * kib);
}

// @param memory  allocated before: cudaMalloc and cudaFree may wait for all streams
void check_both_ways(ww::staging& staging, ww::stream_ref s, device_array<unsigned char>& memory,
                     std::size_t bytes, unsigned seed) {
  bytes_vector source = pattern(bytes, seed);
  bytes_vector const expected = source;
  staging.copy_to_device(s, memory.data(), source.data(), bytes);
  std::fill(source.begin(), source.end(), static_cast<unsigned char>(0));
  bytes_vector back(bytes);
  staging.copy_to_host(s, back.data(), memory.data(), bytes);
  CHECK(back == expected);
}

}  // namespace

TEST_CASE("a download behind a busy stream holds up no copy of another stream") {
  ww::pinned_pool pinned;
  ww::staging staging{pinned, few_slots()};
  for (std::size_t const bytes : {3 * kib, 60 * kib, 2 * mib}) {
    CAPTURE(bytes);
    ww::stream busy;
    ww::stream idle;
    device_array<unsigned char> memory(bytes);
    device_array<unsigned char> others(2 * mib);
    bytes_vector back(bytes, 1);
    test_support::fill(busy, memory.data(), 7, bytes);
    gate closed{busy};
    std::atomic<bool> arrived{false};
    std::thread down{[&] {
      staging.copy_to_host(busy, back.data(), memory.data(), bytes);
      arrived = true;
    }};
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    for (std::size_t const other : {3 * kib, 300 * kib, 2 * mib}) {
      check_both_ways(staging, idle, others, other, 3);
    }
    CHECK_FALSE(arrived);
    closed.open();
    down.join();
    CHECK(test_support::all_are(back, 7));
  }
}

TEST_CASE("a download whose stream waits for a later upload of another thread ends") {
  ww::pinned_pool pinned;
  ww::staging staging{pinned, few_slots()};
  ww::stream a;
  ww::stream b;
  std::size_t const bytes = mib;
  device_array<unsigned char> from(bytes);
  device_array<unsigned char> to(bytes);
  bytes_vector back(bytes);
  bytes_vector const source = pattern(bytes, 4);
  test_support::fill(a, from.data(), 5, bytes);
  gate closed{a};
  std::thread down{[&] { staging.copy_to_host(a, back.data(), from.data(), bytes); }};
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  staging.copy_to_device(b, to.data(), source.data(), bytes);
  closed.open();
  down.join();
  CHECK(test_support::all_are(back, 5));
  CHECK(to.fetch(b) == source);
}

TEST_CASE("uploads behind busy streams hold all slots, and other copies go on without") {
  ww::pinned_pool pinned;
  ww::staging staging{pinned, few_slots()};
  constexpr std::size_t count = 4;
  std::size_t const bytes = 2 * mib;
  std::vector<ww::stream> streams(count);
  std::vector<bytes_vector> sources;
  std::vector<std::unique_ptr<device_array<unsigned char>>> memory;
  std::vector<std::unique_ptr<gate>> gates;
  std::vector<std::thread> threads;
  device_array<unsigned char> others(4 * mib);
  ww::stream idle;
  for (std::size_t i = 0; i < count; ++i) {
    sources.push_back(pattern(bytes, static_cast<unsigned>(i)));
    memory.push_back(std::make_unique<device_array<unsigned char>>(bytes));
    gates.push_back(std::make_unique<gate>(streams[i]));
  }
  for (std::size_t i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      staging.copy_to_device(streams[i], memory[i]->data(), sources[i].data(), bytes);
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  for (std::size_t const other : {3 * kib, 300 * kib, 2 * mib}) {
    check_both_ways(staging, idle, others, other, 9);
  }
  for (auto& each : gates) each->open();
  for (auto& thread : threads) thread.join();
  for (std::size_t i = 0; i < count; ++i) CHECK(memory[i]->fetch(streams[i]) == sources[i]);
  check_both_ways(staging, idle, others, 4 * mib, 10);  // the helpers are back
}

TEST_CASE("a copy to the device waits for no slot that it does not need") {
  ww::pinned_pool pinned;
  ww::staging staging{pinned, few_slots().slots_per_thread(4)};
  ww::stream busy;
  device_array<unsigned char> memory(mib);
  bytes_vector const source = pattern(mib, 12);
  gate closed{busy};
  staging.copy_to_device(busy, memory.data(), source.data(), 200 * kib);  // 4 chunks
  CHECK_FALSE(busy.done());
  closed.open();
  bytes_vector const arrived = memory.fetch(busy);
  CHECK(std::equal(source.begin(), source.begin() + 200 * static_cast<std::ptrdiff_t>(kib),
                   arrived.begin()));
}

TEST_CASE("a stalled copy keeps the slots of its threads, and takes no others") {
  ww::pinned_pool pinned;
  std::size_t const bytes = 4 * mib;  // 64 chunks
  for (bool const up : {true, false}) {
    CAPTURE(up);
    // One helper of an upload is useful, of three; a download that has not begun has none.
    ww::staging staging{pinned, ww::staging_options{}
                                    .threads(4)
                                    .slot_bytes(64 * kib)
                                    .slots_per_thread(4)
                                    .direct_bytes(4 * kib)
                                    .bytes_per_helper(up ? 16 * mib : 64 * kib)};
    ww::stream busy;
    ww::stream idle;
    device_array<unsigned char> memory(bytes);
    device_array<unsigned char> others(4 * kib);
    bytes_vector host(bytes, 7);
    test_support::fill(busy, memory.data(), 7, bytes);
    gate closed{busy};
    std::thread other{[&] {
      if (up) {
        staging.copy_to_device(busy, memory.data(), host.data(), bytes);
      } else {
        staging.copy_to_host(busy, host.data(), memory.data(), bytes);
      }
    }};
    std::this_thread::sleep_for(std::chrono::milliseconds(60));  // a helper gives up after 5
    bool had_slot = false;
    staging.pack_to_device(idle, others.data(), 4 * kib,
                           [&](unsigned char* to, std::size_t, std::size_t n) {
                             std::memset(to, 1, n);
                             had_slot = !ww::detail::is_unregistered(to);
                           });
    CHECK(had_slot);
    CHECK_FALSE(busy.done());
    closed.open();
    other.join();
    CHECK(test_support::all_are(up ? memory.fetch(busy) : host, 7));
    idle.synchronize();
  }
}

TEST_CASE("as many helpers as are useful join an upload, and no more") {
  ww::pinned_pool pinned;
  ww::staging staging{pinned, few_slots().threads(4).bytes_per_helper(16 * mib)};
  ww::stream s;
  device_array<unsigned char> memory(mib);
  std::atomic<int> now{0};
  std::atomic<int> most{0};
  auto const until = std::chrono::steady_clock::now() + std::chrono::seconds{5};
  staging.pack_to_device(s, memory.data(), mib, [&](unsigned char* to, std::size_t, std::size_t n) {
    int const count = ++now;
    int before = most;
    while (count > before && !most.compare_exchange_weak(before, count)) {
    }
    // The caller and a helper wait for each other, then some time for a third thread.
    while (most < 2 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds{2});
    std::memset(to, 1, n);
    --now;
  });
  s.synchronize();
  CHECK(most == 2);
}

TEST_CASE("page-locked sources have been read when the call returns, also without a slot") {
  ww::pinned_pool pinned;
  ww::staging staging{pinned,
                      ww::staging_options{}.threads(2).slot_bytes(4 * kib).slots_per_thread(1)};
  ww::stream busy;
  ww::stream s;
  std::size_t const bytes = 64 * kib;
  device_array<unsigned char> held(8 * kib);
  device_array<unsigned char> memory(bytes);
  ww::pinned_buffer<unsigned char> locked{pinned, bytes};
  bytes_vector partly(bytes + 4 * kib);
  unsigned char* const page =
      partly.data() + (4096 - reinterpret_cast<std::uintptr_t>(partly.data()) % 4096);
  ww::check(cudaHostRegister(page, bytes / 2, cudaHostRegisterDefault), "cudaHostRegister");
  bytes_vector const expected = pattern(bytes, 13);
  // A host function would not do: CUDA runs those of all streams in one thread, which the gate has.
  device_array<unsigned char> large(32 * mib);
  auto const check = [&](unsigned char* source, std::size_t row, std::size_t rows) {
    CAPTURE(row);
    std::copy(expected.begin(), expected.end(), source);
    for (int i = 0; i < 4; ++i) test_support::fill(s, large.data(), 0, 32 * mib);
    staging.copy_rows_to_device(s, memory.data(), row, source, row, row, rows);
    std::fill(source, source + bytes, static_cast<unsigned char>(0));
    CHECK(memory.fetch(s) == expected);
  };
  bytes_vector const other(8 * kib, 14);
  gate closed{busy};
  // Both slots.
  staging.pack_to_device(
      busy, held.data(), 8 * kib,
      [](unsigned char* to, std::size_t, std::size_t n) { std::memset(to, 14, n); });
  check(locked.data(), 1, bytes);
  check(locked.data(), 8 * kib, 8);  // rows larger than a slot
  check(locked.data(), 1 * kib, 64);
  check(page, 1, bytes);  // chunks of which some are page-locked
  check(page, 1 * kib, 64);
  closed.open();
  CHECK(held.fetch(busy) == other);
  ww::check(cudaHostUnregister(page), "cudaHostUnregister");
}

TEST_CASE("eight callers copy at once, each on a stream of its own") {
  ww::pinned_pool pinned;
  ww::staging staging{pinned, ww::staging_options{}.threads(4).slot_bytes(64 * kib)};
  std::vector<std::string> errors(8);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < errors.size(); ++t) {
    threads.emplace_back([&, t] {
      try {
        ww::stream s;
        for (unsigned i = 0; i < 6; ++i) {
          std::size_t const bytes = 1 + (t + 1) * (i + 1) * 43 * kib;
          bytes_vector const source = pattern(bytes, i);
          device_array<unsigned char> memory(bytes);
          staging.copy_to_device(s, memory.data(), source.data(), bytes);
          bytes_vector back(bytes);
          staging.copy_to_host(s, back.data(), memory.data(), bytes);
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

#if WARPWRIGHT_HOST_RUNTIME
namespace wt = ww::testing;

TEST_CASE("no copy page-locks memory, or creates an event") {
  wt::reset_host_runtime();
  {
    ww::pinned_pool pinned;
    ww::staging staging{pinned, few_slots()};
    ww::stream s;
    device_array<unsigned char> memory(3 * mib);
    wt::reset_call_counts();
    for (std::size_t const bytes : {std::size_t{1}, 3 * kib, 300 * kib, 3 * mib}) {
      check_both_ways(staging, s, memory, bytes, 2);
    }
    for (char const* call : {"cudaHostAlloc", "cudaHostRegister", "cudaEventCreateWithFlags"}) {
      CHECK(wt::call_count(call) == 0);
    }
  }
  wt::reset_host_runtime();
}

TEST_CASE("helpers join a download when its stream has done its earlier work") {
  ww::pinned_pool pinned;
  ww::staging staging{pinned, few_slots()};
  ww::stream s;
  std::size_t const bytes = 2 * mib;
  device_array<unsigned char> memory(bytes);
  test_support::fill(s, memory.data(), 7, bytes);
  bytes_vector back(bytes);
  bool helped = false;
  wt::reset_call_counts();
  static_cast<void>(
      staging.copy_to_host(s, back.data(), memory.data(), bytes, [&](std::size_t, std::size_t) {
        auto const until = std::chrono::steady_clock::now() + std::chrono::seconds{5};
        // The caller has enqueued one chunk, and goes on only when this returns.
        while (!helped && std::chrono::steady_clock::now() < until) {
          helped = wt::call_count("cudaMemcpyAsync") > 1;
          std::this_thread::sleep_for(std::chrono::microseconds{100});
        }
        return helped;
      }));
  CHECK(helped);
  CHECK(test_support::all_are(back, 7));
}

TEST_CASE("a chunk without an event behind it is waited for before its slot is used again") {
  ww::pinned_pool pinned;
  ww::staging staging{pinned, few_slots()};
  ww::stream busy;
  device_array<unsigned char> memory(64 * kib);
  bytes_vector const source = pattern(64 * kib, 16);
  gate closed{busy};
  std::thread opener{[&] { closed.open_late(); }};
  {
    wt::scoped_fault_plan const plan{wt::fault_plan{}.fail("cudaEventRecord", 1, cudaErrorUnknown)};
    CHECK_THROWS_AS(staging.copy_to_device(busy, memory.data(), source.data(), 64 * kib),
                    ww::staging_error);
  }
  CHECK(busy.done());
  opener.join();
}

TEST_CASE("page-locked, registered and managed memory is copied directly") {
  wt::reset_host_runtime();
  {
    ww::pinned_pool pinned;
    ww::staging staging{pinned, few_slots()};
    ww::stream s;
    std::size_t const bytes = mib;
    device_array<unsigned char> memory(bytes);
    bytes_vector const expected = pattern(bytes, 6);
    auto const check = [&](unsigned char* host) {
      std::copy(expected.begin(), expected.end(), host);
      wt::reset_call_counts();
      staging.copy_to_device(s, memory.data(), host, bytes);
      CHECK(wt::call_count("cudaMemcpyAsync") == 1);
      std::fill(host, host + bytes, static_cast<unsigned char>(0));  // it has been read
      staging.copy_to_host(s, host, memory.data(), bytes);
      CHECK(wt::call_count("cudaMemcpyAsync") == 2);
      CHECK(std::equal(expected.begin(), expected.end(), host));
    };
    ww::pinned_buffer<unsigned char> locked{pinned, bytes};
    check(locked.data());
    bytes_vector plain(bytes + 8192);
    auto* const page =
        plain.data() + (4096 - reinterpret_cast<std::uintptr_t>(plain.data()) % 4096);
    ww::check(cudaHostRegister(page, bytes, cudaHostRegisterDefault), "cudaHostRegister");
    check(page);
    ww::check(cudaHostUnregister(page), "cudaHostUnregister");
    wt::reset_call_counts();
    check_both_ways(staging, s, memory, bytes, 7);
    CHECK(wt::call_count("cudaMemcpyAsync") > 2);
  }
  wt::reset_host_runtime();
}

TEST_CASE("with one thread large copies are CUDA's own") {
  wt::reset_host_runtime();
  {
    ww::pinned_pool pinned;
    ww::staging staging{pinned, few_slots().threads(1)};
    ww::stream s;
    device_array<unsigned char> memory(3 * mib);
    wt::reset_call_counts();
    check_both_ways(staging, s, memory, 3 * mib, 8);
    CHECK(wt::call_count("cudaMemcpyAsync") == 2);
    CHECK(wt::call_count("cudaEventRecord") == 0);
  }
  wt::reset_host_runtime();
}
#endif
