// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The two-phase pattern with a hand-written call; thrust_test.cpp tests CUB itself.
#include "memory/capture_support.hpp"
#include "support/catch.hpp"

#include <warpwright/interop/cub.hpp>

#include <cstdint>
#include <stdexcept>

namespace ww = warpwright;
using test_support::gate;

namespace {

ww::device_id const device{0};

// Needs `needed` bytes and fills them.
struct two_phases {
  ww::stream_ref stream;
  std::size_t needed;
  int calls = 0;
  void* storage = nullptr;
  std::size_t given = 0;
  cudaError_t operator()(void* memory, std::size_t& bytes) {
    ++calls;
    if (memory == nullptr) {
      bytes = needed;
      return cudaSuccess;
    }
    storage = memory;
    given = bytes;
    return cudaMemsetAsync(memory, 1, bytes, stream.get());
  }
};

}  // namespace

TEST_CASE("temporary storage comes from the pool and is freed behind the work") {
  ww::stream s;
  ww::memory_pool pool{device};
  pool.deallocate(s, pool.allocate(s, 1000), 1000);
  two_phases call{s, 1000};
  gate hold{s};  // nothing waits for the stream
  ww::with_temporary_storage(pool, s, call);
  CHECK(call.calls == 2);
  CHECK(call.given == 1000);
  CHECK(reinterpret_cast<std::uintptr_t>(call.storage) % 256 == 0);
  CHECK(pool.statistics().live_bytes == 0);
  CHECK(pool.statistics().allocations == 2);
  void* const first = call.storage;
  ww::with_temporary_storage(pool, s, call);
  CHECK(call.storage == first);
  CHECK(pool.statistics().hits == 2);
}

TEST_CASE("an algorithm that needs no storage still gets some, since nullptr queries the size") {
  ww::stream s;
  ww::memory_pool pool{device};
  two_phases call{s, 0};
  ww::with_temporary_storage(pool, s, call);
  CHECK(call.calls == 2);
  CHECK(call.storage != nullptr);
  CHECK(call.given == 1);
  CHECK(pool.statistics().live_bytes == 0);
}

TEST_CASE("errors of either phase are thrown, and the storage is freed") {
  ww::stream s;
  ww::memory_pool pool{device};
  CHECK_THROWS_WITH(ww::with_temporary_storage(
                        pool, s, [](void*, std::size_t&) { return cudaErrorInvalidValue; }),
                    contains("size of temporary storage: cudaErrorInvalidValue"));
  CHECK(pool.statistics().allocations == 0);
  auto const second = [](void* memory, std::size_t& bytes) {
    bytes = 100;
    return memory == nullptr ? cudaSuccess : cudaErrorInvalidConfiguration;
  };
  CHECK_THROWS_WITH(ww::with_temporary_storage(pool, s, second),
                    contains("call with temporary storage: cudaErrorInvalidConfiguration"));
  CHECK_THROWS_WITH(ww::with_temporary_storage(pool, s, second),
                    contains("temporary_storage_test.cpp"));
  auto const thrower = [](void* memory, std::size_t& bytes) {
    bytes = 100;
    if (memory != nullptr) throw std::runtime_error{"mine"};
    return cudaSuccess;
  };
  CHECK_THROWS_WITH(ww::with_temporary_storage(pool, s, thrower), "mine");
  CHECK(pool.statistics().allocations == 3);
  CHECK(pool.statistics().live_bytes == 0);
}

TEST_CASE("temporary storage that cannot be allocated") {
  ww::stream s;
  ww::memory_pool pool{device, ww::memory_pool_options{}.max_bytes(4 << 20).growth_bytes(2 << 20)};
  two_phases call{s, std::size_t{1} << 30U};
  CHECK_THROWS_AS(ww::with_temporary_storage(pool, s, call), ww::out_of_memory);
  CHECK(call.calls == 1);
  CHECK(pool.statistics().live_bytes == 0);
}

TEST_CASE("temporary storage of a captured call belongs to the graph") {
  ww::memory_pool pool{device};
  std::size_t const needed = std::size_t{1} << 20U;
  test_support::check_separate(
      pool,
      [&](ww::stream_ref c) {
        ww::with_temporary_storage(pool, c, two_phases{c, needed});
      },
      needed);
  // With a raw handle, as another library passes it.
  test_support::noting_pool noting{pool};
  noting.check_separate([&](ww::stream_ref c) {
    ww::stream_ref const raw{c.get()};
    ww::with_temporary_storage(noting, raw, two_phases{raw, needed});
  });
}
