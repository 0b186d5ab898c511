// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Copies of rows, of what a function writes, with progress, and failed ones.
#include "memory/staging_support.hpp"
#include "memory/support.hpp"
#include "support/catch.hpp"
#include "support/device_memory.hpp"

#include <warpwright/memory/staging.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <random>
#include <stdexcept>
#include <vector>

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>
#endif

namespace ww = warpwright;
using namespace test_support;

namespace {

ww::staging_options many_chunks() {
  return ww::staging_options{}.threads(3).slot_bytes(64 * kib).direct_bytes(4 * kib);
}

}  // namespace

TEST_CASE("rows are copied both ways, whatever their pitches") {
  ww::stream s;
  ww::pinned_pool pinned;
  ww::staging staging{pinned, many_chunks()};
  struct shape {
    std::size_t row, rows, host_pitch, device_pitch;
  };
  for (shape const& f : {shape{1, 1, 1, 1}, shape{100, 7, 100, 128}, shape{100, 7000, 104, 128},
                         shape{1000, 3000, 1000, 1000}, shape{4099, 300, 5000, 4608},
                         shape{100 * kib, 9, 100 * kib + 4, 101 * kib}, shape{3, 100000, 4, 16}}) {
    CAPTURE(f.row, f.rows, f.host_pitch, f.device_pitch);
    bytes_vector host = pattern(f.rows * f.host_pitch, 1);
    bytes_vector const expected = host;
    device_array<unsigned char> memory{bytes_vector(f.rows * f.device_pitch, 0xee)};
    staging.copy_rows_to_device(s, memory.data(), f.device_pitch, host.data(), f.host_pitch, f.row,
                                f.rows);
    std::fill(host.begin(), host.end(), static_cast<unsigned char>(0xdd));
    bytes_vector const on_device = memory.fetch(s);
    bool right = true;
    for (std::size_t r = 0; r < f.rows; ++r) {
      auto const* const row = on_device.data() + r * f.device_pitch;
      right = right && std::memcmp(row, expected.data() + r * f.host_pitch, f.row) == 0;
      for (std::size_t i = f.row; i < f.device_pitch; ++i) right = right && row[i] == 0xee;
    }
    CHECK(right);
    staging.copy_rows_to_host(s, host.data(), f.host_pitch, memory.data(), f.device_pitch, f.row,
                              f.rows);
    for (std::size_t r = 0; r < f.rows; ++r) {
      auto const* const row = host.data() + r * f.host_pitch;
      right = right && std::memcmp(row, expected.data() + r * f.host_pitch, f.row) == 0;
      for (std::size_t i = f.row; i < f.host_pitch; ++i) right = right && row[i] == 0xdd;
    }
    CHECK(right);
  }
  unsigned char byte = 0;
  staging.copy_rows_to_device(s, nullptr, 0, nullptr, 0, 0, 5);
  staging.copy_rows_to_host(s, nullptr, 9, nullptr, 9, 9, 0);
  CHECK_THROWS_WITH(staging.copy_rows_to_device(s, &byte, 3, &byte, 4, 4, 2),
                    contains("the pitch of the destination is 3 bytes, less than a row of 4"));
  CHECK_THROWS_WITH(staging.copy_rows_to_host(s, &byte, 4, &byte, 3, 4, 2),
                    contains("the pitch of the source is 3 bytes, less than a row of 4"));
  CHECK_THROWS_WITH(staging.copy_rows_to_host(s, &byte, 4, &byte, 8, 4, ~std::size_t{0} / 2),
                    contains("more than memory can have"));
  CHECK(pinned.statistics().live_bytes == 6 * 64 * kib);
}

TEST_CASE("rows of a list are gathered, and elements converted, on the way") {
  ww::stream s;
  ww::pinned_pool pinned;
  ww::staging staging{pinned, many_chunks()};
  constexpr std::size_t cols = 300;
  constexpr std::size_t all_rows = 2000;
  bytes_vector const pixels = pattern(all_rows * cols, 2);
  struct image_row {
    float values[cols];
  };
  for (std::size_t const count : {std::size_t{1}, std::size_t{50}, std::size_t{5000}}) {
    std::vector<std::uint32_t> list(count);
    std::mt19937 random{static_cast<unsigned>(count)};
    for (std::uint32_t& i : list) i = static_cast<std::uint32_t>(random() % all_rows);
    device_array<image_row> memory(count);
    std::atomic<std::size_t> packed{0};
    staging.pack_to_device(s, memory.data(), count,
                           [&](image_row* to, std::size_t first, std::size_t n) {
                             packed += n;
                             for (std::size_t r = 0; r < n; ++r) {
                               auto const* from = pixels.data() + list[first + r] * cols;
                               for (std::size_t c = 0; c < cols; ++c) {
                                 to[r].values[c] = static_cast<float>(from[c]) / 255.0F;
                               }
                             }
                           });
    CHECK(packed == count);
    std::vector<image_row> const back = memory.fetch(s);
    bool right = true;
    for (std::size_t r = 0; r < count; ++r) {
      for (std::size_t c = 0; c < cols; ++c) {
        float const expected = static_cast<float>(pixels[list[r] * cols + c]) / 255.0F;
        right = right && back[r].values[c] == expected;
      }
    }
    CHECK(right);
  }
}

TEST_CASE("what pack throws reaches the caller, and an element must fit into a slot") {
  ww::stream s;
  ww::pinned_pool pinned;
  ww::staging staging{pinned, many_chunks()};
  std::size_t const count = mib;
  device_array<unsigned char> memory(count);
  CHECK_THROWS_WITH(staging.pack_to_device(s, memory.data(), count,
                                           [&](unsigned char*, std::size_t first, std::size_t) {
                                             if (first >= count / 2) {
                                               throw std::runtime_error{"of the source"};
                                             }
                                           }),
                    contains("of the source"));
  struct large {
    unsigned char bytes[100 * kib];
  };
  device_array<large> one(1);
  CHECK_THROWS_WITH(
      staging.pack_to_device(s, one.data(), 1, [](large*, std::size_t, std::size_t) {}),
      contains("elements of 102400 bytes, more than a slot: raise staging_options::slot_bytes()"));
  struct as_large_as_a_slot {
    unsigned char bytes[64 * kib];
  };
  device_array<as_large_as_a_slot> whole(1);
  CHECK_NOTHROW(staging.pack_to_device(s, whole.data(), 1,
                                       [](as_large_as_a_slot*, std::size_t, std::size_t) {}));
  auto const zeros = [](unsigned char* to, std::size_t, std::size_t n) { std::memset(to, 0, n); };
  CHECK_THROWS_WITH(staging.pack_to_device(s, static_cast<unsigned char*>(nullptr), 5, zeros),
                    contains("pack_to_device with a null destination"));
  staging.pack_to_device(s, static_cast<unsigned char*>(nullptr), 0, zeros);
  staging.pack_to_device(s, memory.data(), count, zeros);
  CHECK(test_support::all_are(memory.fetch(s), 0));
}

TEST_CASE("a copy that has failed leaves all slots to the next ones") {
  ww::pinned_pool pinned;
  ww::staging staging{pinned,
                      ww::staging_options{}.threads(1).slot_bytes(64 * kib).slots_per_thread(2)};
  ww::stream s;
  device_array<unsigned char> memory(mib);
  SECTION("of which pack throws") {
    for (int i = 0; i < 2; ++i) {
      CHECK_THROWS_AS(staging.pack_to_device(s, memory.data(), mib,
                                             [](unsigned char*, std::size_t, std::size_t) {
                                               throw std::runtime_error{"no"};
                                             }),
                      std::runtime_error);
    }
  }
#if WARPWRIGHT_HOST_RUNTIME
  SECTION("of which an event cannot be waited for") {
    ww::testing::scoped_fault_plan const plan{
        ww::testing::fault_plan{}.fail("cudaEventQuery", 1, cudaErrorUnknown)};
    CHECK_THROWS_AS(staging.pack_to_device(s, memory.data(), mib,
                                           [](unsigned char* to, std::size_t, std::size_t n) {
                                             std::memset(to, 1, n);
                                           }),
                    ww::staging_error);
  }
#endif
  s.synchronize();
  gate closed{s};
  for (int i = 0; i < 2; ++i) {
    bool had_slot = false;
    staging.pack_to_device(s, memory.data(), 64 * kib,
                           [&](unsigned char* to, std::size_t, std::size_t n) {
                             std::memset(to, 2, n);
                             had_slot = !ww::detail::is_unregistered(to);
                           });
    CHECK(had_slot);
  }
}

TEST_CASE("pack works where all slots are behind a busy stream") {
  ww::stream busy;
  ww::stream idle;
  ww::pinned_pool pinned;
  ww::staging staging{pinned, ww::staging_options{}.threads(1).slot_bytes(4 * kib)};
  device_array<unsigned char> memory(8 * kib);
  device_array<unsigned char> other(100 * kib);
  auto const ones = [](unsigned char* to, std::size_t, std::size_t n) { std::memset(to, 1, n); };
  gate closed{busy};
  staging.pack_to_device(busy, memory.data(), 8 * kib, ones);  // both slots
  staging.pack_to_device(idle, other.data(), 100 * kib, ones);
  CHECK(test_support::all_are(other.fetch(idle), 1));
  closed.open();
  CHECK(test_support::all_are(memory.fetch(busy), 1));
}

TEST_CASE("elements are packed at addresses of their alignment, with a slot or without") {
  struct alignas(64) aligned {
    unsigned char bytes[64];
  };
  ww::stream busy;
  ww::stream idle;
  ww::pinned_pool pinned;
  ww::staging staging{pinned, ww::staging_options{}.threads(1).slot_bytes(4 * kib)};
  device_array<aligned> memory(300);
  std::atomic<int> wrong{0};
  auto const pack = [&](aligned* to, std::size_t, std::size_t n) {
    if (reinterpret_cast<std::uintptr_t>(to) % 64 != 0) ++wrong;
    std::memset(static_cast<void*>(to), 3, n * sizeof(aligned));
  };
  gate closed{busy};
  staging.pack_to_device(busy, memory.data(), 128, pack);  // both slots
  staging.pack_to_device(idle, memory.data() + 128, 172, pack);
  closed.open();
  busy.synchronize();
  CHECK(wrong == 0);
  CHECK(memory.fetch(idle)[299].bytes[63] == 3);
}

TEST_CASE("progress grows to the end, and can end a copy early") {
  ww::stream s;
  ww::pinned_pool pinned;
  ww::staging staging{pinned, many_chunks()};
  for (std::size_t const bytes : {std::size_t{100}, 60 * kib, 3 * mib + 17}) {
    CAPTURE(bytes);
    bytes_vector const source = pattern(bytes, 3);
    device_array<unsigned char> memory(bytes);
    for (bool const up : {true, false}) {
      CAPTURE(up);
      std::size_t last = 0;
      bool right = true;
      auto const progress = [&](std::size_t done, std::size_t all) {
        right = right && done >= last && done <= all && all == bytes;
        last = done;
        return true;
      };
      bytes_vector back(bytes);
      std::size_t const copied =
          up ? staging.copy_to_device(s, memory.data(), source.data(), bytes, progress)
             : staging.copy_to_host(s, back.data(), memory.data(), bytes, progress);
      CHECK(copied == bytes);
      CHECK(last == bytes);
      CHECK(right);
      CHECK((up ? memory.fetch(s) : back) == source);
    }
    device_array<unsigned char> target{bytes_vector(bytes, 0xee)};
    auto const until_a_third = [&](std::size_t done, std::size_t all) { return done < all / 3; };
    std::size_t const up =
        staging.copy_to_device(s, target.data(), source.data(), bytes, until_a_third);
    CHECK(up >= bytes / 3);
    bytes_vector back(bytes, 0xdd);
    std::size_t const down =
        staging.copy_to_host(s, back.data(), memory.data(), bytes, until_a_third);
    CHECK(down >= bytes / 3);
    auto const begin = source.begin();
    CHECK(std::equal(begin, begin + static_cast<std::ptrdiff_t>(down), back.begin()));
    bytes_vector const arrived = target.fetch(s);
    CHECK(std::equal(begin, begin + static_cast<std::ptrdiff_t>(up), arrived.begin()));
  }
  device_array<unsigned char> memory(mib);
  bytes_vector host(mib);
  int calls = 0;
  auto const never = [&](std::size_t, std::size_t) {
    ++calls;
    return false;
  };
  CHECK(staging.copy_to_device(s, memory.data(), host.data(), 100, never) == 100);
  CHECK(calls == 1);
  auto const throws = [](std::size_t, std::size_t) -> bool { throw std::runtime_error{"no more"}; };
  CHECK_THROWS_WITH(staging.copy_to_host(s, host.data(), memory.data(), mib, throws),
                    contains("no more"));
}

#if WARPWRIGHT_HOST_RUNTIME
namespace wt = ww::testing;

TEST_CASE("a failed copy tells which part at the begin has arrived") {
  wt::reset_host_runtime();
  {
    ww::stream s;
    ww::pinned_pool pinned;
    ww::staging staging{pinned, many_chunks()};
    std::size_t const bytes = 2 * mib;
    bytes_vector const source = pattern(bytes, 5);
    device_array<unsigned char> memory(bytes);
    for (char const* call : {"cudaMemcpyAsync", "cudaEventRecord"}) {
      for (std::uint64_t nth = 1; nth <= 30; nth += 3) {
        CAPTURE(call, nth);
        for (bool const up : {true, false}) {
          CAPTURE(up);
          bytes_vector back(bytes, 0);
          ww::check(cudaMemset(memory.data(), up ? 0 : 1, bytes), "cudaMemset");
          ww::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
          if (!up) staging.copy_to_device(s, memory.data(), source.data(), bytes);
          s.synchronize();
          wt::scoped_fault_plan const plan{wt::fault_plan{}.fail(call, nth, cudaErrorUnknown)};
          try {
            if (up) {
              staging.copy_to_device(s, memory.data(), source.data(), bytes);
            } else {
              staging.copy_to_host(s, back.data(), memory.data(), bytes);
            }
            FAIL("nothing failed");
          } catch (ww::staging_error const& error) {
            s.synchronize();  // other chunks may still be on their way
            CHECK(error.copied_bytes() < bytes);
            CHECK_THAT(error.what(), contains(call) && contains("of 2097152 bytes were copied"));
            bytes_vector const arrived = up ? memory.fetch(s) : back;
            CHECK(std::equal(source.begin(),
                             source.begin() + static_cast<std::ptrdiff_t>(error.copied_bytes()),
                             arrived.begin()));
          }
        }
      }
    }
  }
  wt::reset_host_runtime();
}

TEST_CASE("failing calls in copies of rows and packed elements are reported, and leak nothing") {
  wt::reset_host_runtime();
  for (char const* call :
       {"cudaMemcpy2DAsync", "cudaMemcpyAsync", "cudaEventRecord", "cudaEventSynchronize",
        "cudaPointerGetAttributes", "cudaStreamSynchronize", "cudaDeviceGetAttribute"}) {
    for (std::uint64_t nth = 1; nth <= 6; ++nth) {
      CAPTURE(call, nth);
      {
        ww::stream s;
        ww::pinned_pool pinned;
        device_array<unsigned char> memory(600 * kib);
        bytes_vector host(600 * kib);
        wt::scoped_fault_plan const plan{wt::fault_plan{}.fail(call, nth, cudaErrorUnknown)};
        try {
          ww::staging staging{pinned, many_chunks()};
          staging.copy_rows_to_device(s, memory.data(), 512, host.data(), 512, 500, 1000);
          staging.copy_rows_to_host(s, host.data(), 512, memory.data(), 512, 500, 1000);
          staging.pack_to_device(
              s, memory.data(), memory.size(),
              [](unsigned char* to, std::size_t, std::size_t n) { std::memset(to, 1, n); });
        } catch (ww::cuda_error const& error) {
          CHECK(error.code() == cudaErrorUnknown);
        }
        CHECK(cudaPeekAtLastError() == cudaSuccess);
      }
      CHECK(wt::leak_report().empty());
    }
  }
  wt::reset_host_runtime();
}
#endif
