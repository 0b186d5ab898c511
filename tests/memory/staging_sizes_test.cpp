// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Copies that the caller makes alone: by CUDA to a device, in one chunk up to 256 KiB, in pieces
// of 128 KiB up to direct_bytes; and the first sizes that helpers join.
#include "memory/staging_support.hpp"
#include "memory/support.hpp"
#include "support/catch.hpp"
#include "support/device_memory.hpp"
#include "support/sanitized.hpp"

#include <warpwright/memory/staging.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>
#endif

namespace ww = warpwright;
using namespace test_support;

namespace {

ww::staging_options usual(unsigned threads = 3) {
  return ww::staging_options{}.threads(threads).slot_bytes(512 * kib);
}

std::vector<std::size_t> sizes_around_thresholds() {
  std::vector<std::size_t> sizes{1, 3, 17};
  for (std::size_t const threshold :
       {4 * kib, 32 * kib, 64 * kib, 128 * kib, 256 * kib, 384 * kib, 512 * kib, 640 * kib, mib}) {
    for (std::size_t const bytes : {threshold - 1, threshold, threshold + 1}) {
      sizes.push_back(bytes);
    }
  }
  sizes.push_back(777777);
  sizes.push_back(mib + 512 * kib + 3);
  return sizes;
}

void zero(bytes_vector& values) { std::fill(values.begin(), values.end(), 0); }

}  // namespace

TEST_CASE("every byte arrives, for all sizes around the thresholds, at any alignment") {
  ww::stream s;
  ww::pinned_pool pinned;
  for (ww::staging_options const& options :
       {usual(), usual(1), usual(1).slots_per_thread(1), usual(2).slots_per_thread(1),
        usual(3).slot_bytes(100 * kib), usual(2).slots_per_thread(9), usual(3).direct_bytes(0)}) {
    ww::staging staging{pinned, options};
    for (std::size_t const bytes : sizes_around_thresholds()) {
      for (std::size_t const offset : {std::size_t{0}, std::size_t{1}, std::size_t{4095}}) {
        if (test_support::sanitized && offset == 1) continue;
        CAPTURE(staging.threads(), bytes, offset);
        bytes_vector source = pattern(bytes + offset, bytes);
        bytes_vector const expected{source.begin() + static_cast<std::ptrdiff_t>(offset),
                                    source.end()};
        device_array<unsigned char> memory(bytes + offset + 1);
        test_support::fill(s, memory.data(), 0xee, memory.size());
        staging.copy_to_device(s, memory.data() + offset, source.data() + offset, bytes);
        zero(source);  // it has been read
        bytes_vector back(bytes + 2, 0xdd);
        staging.copy_to_host(s, back.data() + 1, memory.data() + offset, bytes);
        CHECK(std::equal(back.begin() + 1, back.end() - 1, expected.begin()));
        CHECK(back.front() == 0xdd);
        CHECK(back.back() == 0xdd);
        bytes_vector const all = memory.fetch(s);
        CHECK(all.back() == 0xee);
        if (offset != 0) CHECK(all[offset - 1] == 0xee);
      }
    }
  }
  CHECK(pinned.statistics().live_bytes == 0);
}

TEST_CASE("a source of which a part is registered has been read when the call returns") {
  ww::pinned_pool pinned;
  ww::staging with_helpers{pinned, usual()};
  ww::staging alone{pinned, usual(1)};
  ww::stream s;
  device_array<unsigned char> large(32 * mib);
  bytes_vector memory_of_source(2 * mib + 16 * kib);
  auto* const page = memory_of_source.data() +
                     (4096 - reinterpret_cast<std::uintptr_t>(memory_of_source.data()) % 4096);
  for (std::size_t const bytes :
       {4 * kib, 8 * kib, 24 * kib, 32 * kib, 200 * kib, 600 * kib, 2 * mib}) {
    for (int const which : {0, 1, 2, 3}) {
      bool const first_half = which % 2 == 0;
      ww::staging& staging = which < 2 ? with_helpers : alone;
      CAPTURE(bytes, first_half, staging.threads());
      // The last page of the copy, or the first one, is registered.
      std::size_t const shift = bytes > 4 * kib ? 0 : 4 * kib - 100;  // over two pages
      unsigned char* const source = page + shift;
      unsigned char* const registered =
          first_half ? page : page + (shift + bytes - 1) / 4096 * 4096;
      ww::check(cudaHostRegister(registered, 4096, cudaHostRegisterDefault), "cudaHostRegister");
      bytes_vector const expected = pattern(bytes, bytes);
      std::copy(expected.begin(), expected.end(), source);
      device_array<unsigned char> memory(bytes);
      // The stream has something to do, so that what is read later is read too late.
      for (int i = 0; i < 4; ++i) test_support::fill(s, large.data(), 0, 32 * mib);
      staging.copy_to_device(s, memory.data(), source, bytes);
      std::fill(source, source + bytes, static_cast<unsigned char>(0));
      CHECK(memory.fetch(s) == expected);
      s.synchronize();
      ww::check(cudaHostUnregister(registered), "cudaHostUnregister");
    }
  }
  CHECK(cudaPeekAtLastError() == cudaSuccess);
}

TEST_CASE("rows and packed elements arrive, for all sizes around the thresholds") {
  ww::stream s;
  ww::pinned_pool pinned;
  ww::staging staging{pinned, usual()};
  for (std::size_t const bytes : sizes_around_thresholds()) {
    CAPTURE(bytes);
    bytes_vector const source = pattern(bytes, bytes);
    device_array<unsigned char> memory{bytes_vector(bytes, 0xee)};
    staging.pack_to_device(s, memory.data(), bytes,
                           [&](unsigned char* to, std::size_t first, std::size_t n) {
                             std::memcpy(to, source.data() + first, n);
                           });
    CHECK(memory.fetch(s) == source);
    for (std::size_t const row : {std::size_t{1}, std::size_t{129}, 30 * kib}) {
      std::size_t const rows = bytes / (row + 5);
      if (rows == 0 || (row == 1 && bytes > 300 * kib)) continue;
      CAPTURE(row, rows);
      device_array<unsigned char> target{bytes_vector(rows * row, 0xee)};
      bytes_vector host(source.begin(),
                        source.begin() + static_cast<std::ptrdiff_t>(rows * (row + 5)));
      staging.copy_rows_to_device(s, target.data(), row, host.data(), row + 5, row, rows);
      bytes_vector back(host.size(), 0xdd);
      zero(host);
      staging.copy_rows_to_host(s, back.data(), row + 5, target.data(), row, row, rows);
      bool right = true;
      for (std::size_t i = 0; i < back.size(); ++i) {
        right = right && back[i] == (i % (row + 5) < row ? source[i] : 0xdd);
      }
      CHECK(right);
    }
  }
}

TEST_CASE("the caller alone tells of its pieces, and ends between them") {
  ww::stream s;
  ww::pinned_pool pinned;
  ww::staging staging{pinned, usual()};
  struct expectation {
    std::size_t bytes;
    std::size_t least_calls;
  };
  for (expectation const& of : {expectation{32 * kib, 1}, expectation{256 * kib, 1},
                                expectation{256 * kib + 1, 3}, expectation{mib, 8}}) {
    for (bool const up : {true, false}) {
      CAPTURE(of.bytes, up);
      bytes_vector source = pattern(of.bytes, 5);
      device_array<unsigned char> memory{source};
      bytes_vector back(of.bytes, 0);
      std::size_t calls = 0;
      std::size_t done_last = 0;
      auto const copy = [&](auto const& progress) {
        return up ? staging.copy_to_device(s, memory.data(), source.data(), of.bytes, progress)
                  : staging.copy_to_host(s, back.data(), memory.data(), of.bytes, progress);
      };
      s.synchronize();
      std::size_t const all = copy([&](std::size_t done, std::size_t total) {
        if (done != done_last) ++calls;
        if (done < done_last || total != of.bytes) calls = 1000;
        done_last = done;
        return true;
      });
      CHECK(all == of.bytes);
      CHECK(done_last == of.bytes);
      // To an idle device CUDA copies: one chunk.
      std::size_t const least_calls = up ? 1 : of.least_calls;
      CHECK(calls == least_calls);
      s.synchronize();
      std::size_t const some = copy([](std::size_t, std::size_t) { return false; });
      // What is on its way to the host arrives.
      CHECK(some >= (least_calls == 1 ? of.bytes : 128 * kib));
      CHECK(some <= (least_calls == 1 ? of.bytes : 512 * kib));
      CHECK_THROWS_AS(
          copy([](std::size_t, std::size_t) -> bool { throw std::runtime_error{"no"}; }),
          std::runtime_error);
      s.synchronize();
    }
  }
}

TEST_CASE("packs of the caller alone do not wait for a busy stream while there are slots") {
  ww::pinned_pool pinned;
  ww::staging staging{pinned, usual(2).slots_per_thread(2)};
  ww::stream busy;
  bytes_vector source = pattern(512 * kib, 7);
  bytes_vector const expected = source;
  device_array<unsigned char> memory(source.size());
  gate closed{busy};
  auto const begin = std::chrono::steady_clock::now();
  staging.pack_to_device(busy, memory.data(), source.size(),  // 4 pieces, 4 slots
                         [&](unsigned char* to, std::size_t first, std::size_t n) {
                           std::memcpy(to, source.data() + first, n);
                         });
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds{5});  // the gate's are ten
  CHECK_FALSE(busy.done());
  zero(source);
  closed.open();
  CHECK(memory.fetch(busy) == expected);
}

TEST_CASE("a slot behind a busy stream hides no other one, and is used again later") {
  ww::pinned_pool pinned;
  ww::staging staging{pinned,
                      ww::staging_options{}.threads(1).slot_bytes(64 * kib).slots_per_thread(2)};
  ww::stream busy;
  ww::stream idle;
  device_array<unsigned char> memory(64 * kib);
  device_array<unsigned char> others(128 * kib);
  std::vector<unsigned char*> slots;  // pack sees a slot's address
  auto const pack = [&](unsigned char* to, std::size_t, std::size_t n) {
    std::memset(to, 1, n);
    slots.push_back(to);
  };
  gate closed{busy};
  staging.pack_to_device(busy, memory.data(), 64 * kib, pack);
  for (int i = 0; i < 3; ++i) {
    staging.pack_to_device(idle, others.data(), 64 * kib, pack);
    idle.synchronize();
  }
  REQUIRE(slots.size() == 4);
  CHECK(slots[1] != slots[0]);
  CHECK(slots[2] == slots[1]);
  CHECK(slots[3] == slots[1]);
  closed.open();
  busy.synchronize();
  staging.pack_to_device(idle, others.data(), 128 * kib, pack);
  REQUIRE(slots.size() == 6);
  CHECK(slots[4] != slots[5]);
  CHECK(std::count(slots.begin(), slots.begin() + 2, slots[4]) == 1);
  CHECK(std::count(slots.begin(), slots.begin() + 2, slots[5]) == 1);
  idle.synchronize();
}

#if WARPWRIGHT_HOST_RUNTIME
namespace wt = ww::testing;

namespace {

template <class F>
std::uint64_t calls_of(F const& f) {
  std::uint64_t const before = wt::total_calls();
  f();
  return wt::total_calls() - before;
}

}  // namespace

TEST_CASE("a small upload makes three or four CUDA calls") {
  wt::reset_host_runtime();
  {
    ww::pinned_pool pinned;
    ww::staging staging{pinned, usual(1)};  // no thread that makes calls beside
    ww::stream s;
    ww::stream other;
    device_array<unsigned char> memory(mib);
    bytes_vector host(128 * kib, 1);
    auto* const page = host.data() + (4096 - reinterpret_cast<std::uintptr_t>(host.data()) % 4096);
    auto const up = [&](ww::stream_ref to, unsigned char const* from, std::size_t bytes) {
      std::uint64_t const calls =
          calls_of([&] { staging.copy_to_device(to, memory.data(), from, bytes); });
      to.synchronize();  // the next one may be on another stream
      return calls;
    };
#if CUDART_VERSION >= 12080
    CHECK(up(s, page, 4096) == 4);  // the first time cudaStreamGetDevice
#endif
    up(s, page, 4096);
    CHECK(up(s, page, 4096) == 3);  // cudaStreamIsCapturing, cudaPointerGetAttributes, the copy
    CHECK(up(s, page + 1, 4096) == 4);
    CHECK(up(s, page, 64 * kib) == 4);
    CHECK(up(s, page, 64 * kib + 1) == 4);
    // A raw handle could be another stream's by now.
#if CUDART_VERSION >= 12080
    ww::stream_ref const raw{s.get()};
    CHECK(up(raw, page, 4096) == 4);
    CHECK(up(raw, page, 4096) == 4);
    CHECK(up(other, page, 4096) == 4);
    CHECK(up(s, page, 4096) == 4);
#endif
    CHECK(wt::call_count("cudaEventRecord") == 0);
    // To the host: a slot's copy, its event, and the wait for it; the capture's state, the current
    // device, the capture mode twice, and whether it is pageable.
    bytes_vector back(64 * kib);
    auto* const to = back.data() + (4096 - reinterpret_cast<std::uintptr_t>(back.data()) % 4096);
    s.synchronize();
    staging.copy_to_host(s, to, memory.data(), 4096);
    CHECK(calls_of([&] { staging.copy_to_host(s, to, memory.data(), 4096); }) == 8);
  }
  wt::reset_host_runtime();
}

TEST_CASE("a small upload works whatever device is current, and refuses streams of others") {
  wt::reset_host_runtime(wt::host_runtime_options{}.with_devices(2));
  {
    ww::pinned_pool pinned;
    ww::staging staging{pinned, usual()};
    ww::stream s;
    ww::stream wrong{ww::device_id{1}};
    bytes_vector const source = pattern(5000, 4);
    device_array<unsigned char> memory(source.size());
    ww::scoped_device const scope{ww::device_id{1}};
    for (ww::stream_ref const to :
         {s.ref(), ww::stream_ref::legacy_default(), ww::stream_ref::per_thread()}) {
      ww::check(cudaMemset(memory.data(), 0, source.size()), "cudaMemset");
      ww::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
      staging.copy_to_device(to, memory.data(), source.data(), source.size());
      CHECK(ww::current_device().value() == 1);
      {
        ww::scoped_device const own{ww::device_id{0}};
        to.synchronize();
      }
      CHECK(memory.fetch(s) == source);
      for (int i = 0; i < 2; ++i) {
        CHECK_THROWS_WITH(
            staging.copy_to_device(wrong, memory.data(), source.data(), source.size()),
            contains("on a stream of device 1, made for device 0"));
      }
    }
  }
  wt::reset_host_runtime();
}

TEST_CASE("copies that follow each other use the same slots, which the cache has") {
  wt::reset_host_runtime();
  {
    ww::pinned_pool pinned;
    ww::staging staging{pinned, usual(4).slots_per_thread(4)};
    ww::stream s;
    device_array<unsigned char> memory(200 * kib);
    // pack sees the slot's address.
    std::vector<unsigned char*> slots;
    for (int i = 0; i < 40; ++i) {
      staging.pack_to_device(s, memory.data(), memory.size(),
                             [&](unsigned char* to, std::size_t, std::size_t n) {
                               std::memset(to, 1, n);
                               slots.push_back(to);
                             });
      s.synchronize();
    }
    CHECK(std::count(slots.begin() + 1, slots.end(), slots.front()) ==
          static_cast<std::ptrdiff_t>(slots.size()) - 1);
    bytes_vector back(memory.size());
    for (int i = 0; i < 3; ++i) staging.copy_to_host(s, back.data(), memory.data(), back.size());
    staging.pack_to_device(s, memory.data(), memory.size(),
                           [&](unsigned char* to, std::size_t, std::size_t n) {
                             std::memset(to, 1, n);
                             slots.push_back(to);
                           });
    CHECK(slots.back() == slots.front());
  }
  wt::reset_host_runtime();
}

TEST_CASE("each failing call of copies by the caller alone reaches it once") {
  std::size_t const most = 700 * kib;
  bytes_vector const source = pattern(most, 1);
  auto const scenario = [&](ww::staging& staging, ww::stream const& s, unsigned char* memory) {
    bytes_vector back(most);
    for (std::size_t const bytes : {std::size_t{100}, 32 * kib, 200 * kib, most}) {
      staging.copy_to_device(s, memory, source.data(), bytes);
      staging.copy_to_host(s, back.data(), memory, bytes);
      if (!std::equal(back.begin(), back.begin() + static_cast<std::ptrdiff_t>(bytes),
                      source.begin())) {
        throw std::runtime_error{"wrong bytes"};
      }
    }
    staging.copy_rows_to_device(s, memory, 200, source.data(), 210, 200, 2000);
    staging.copy_rows_to_host(s, back.data(), 210, memory, 200, 200, 2000);
    staging.pack_to_device(s, memory, most, [](unsigned char* to, std::size_t, std::size_t n) {
      std::memset(to, 1, n);
    });
    s.synchronize();
  };
  wt::reset_host_runtime();
  {
    ww::stream const s;
    device_array<unsigned char> memory(most);
    ww::pinned_pool pinned;
    ww::staging staging{pinned, usual()};
    wt::reset_call_counts();
    scenario(staging, s, memory.data());
  }
  std::vector<wt::call_record> const calls = wt::calls();
  std::size_t failures = 0;
  for (wt::call_record const& call : calls) {
    for (std::uint64_t nth = 1; nth <= call.count; nth = test_support::next_failing(nth)) {
      CAPTURE(call.name, nth);
      wt::reset_host_runtime();
      {
        ww::stream const s;
        device_array<unsigned char> memory(most);
        ww::pinned_pool pinned;
        ww::staging staging{pinned, usual()};
        {
          wt::scoped_fault_plan const plan{wt::fault_plan{}.fail(call.name, nth, cudaErrorUnknown)};
          try {
            scenario(staging, s, memory.data());
          } catch (ww::cuda_error const& error) {
            ++failures;
            CHECK(error.code() == cudaErrorUnknown);
          }
        }
        CHECK(cudaPeekAtLastError() == cudaSuccess);
        ww::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
        CHECK_NOTHROW(scenario(staging, s, memory.data()));
      }
      if (call.name != "cudaEventDestroy" && call.name != "cudaStreamDestroy") {
        CHECK(wt::leak_report().empty());
      }
    }
  }
  CHECK(failures > 20);
  wt::reset_host_runtime();
}
#endif
