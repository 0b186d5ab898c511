// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// RMM's resources as upstreams, and pools as RMM's resources. Uses RMM's headers only: its
// containers are compiled into librmm, which needs a GPU.
#include "memory/support.hpp"
#include "support/catch.hpp"

#include <warpwright/interop/rmm.hpp>

#include <warpwright/memory/adaptors/fallback.hpp>
#include <warpwright/memory/adaptors/limit.hpp>
#include <warpwright/memory/buffer.hpp>

#include <cstdint>
#include <new>
#include <stdexcept>
#include <string>

namespace ww = warpwright;

namespace {

constexpr std::size_t mib = std::size_t{1} << 20U;
ww::device_id const device{0};

// As a resource of RMM's: 256 bytes of alignment, an exception for lack of memory, and a check that
// a block is freed with what it was allocated with.
struct strict_state {
  ww::memory_pool pool{device};
  std::size_t limit = 16 * mib;
  std::size_t live = 0;
  std::size_t last_bytes = 0;
  cudaStream_t last_stream = nullptr;
  int wrong = 0;
  bool broken = false;
};

class strict_resource {
 public:
  explicit strict_resource(strict_state& state) : state_{&state} {}
#if CCCL_VERSION >= 3001000
  void* allocate(cuda::stream_ref stream, std::size_t bytes, std::size_t alignment) {
    return take(stream, bytes, alignment);
  }
  void deallocate(cuda::stream_ref stream, void* pointer, std::size_t bytes,
                  std::size_t alignment) noexcept {
    give(stream, pointer, bytes, alignment);
  }
  void* allocate_sync(std::size_t bytes, std::size_t alignment) {
    return take(cuda::stream_ref{cudaStreamLegacy}, bytes, alignment);
  }
  void deallocate_sync(void* pointer, std::size_t bytes, std::size_t alignment) noexcept {
    give(cuda::stream_ref{cudaStreamLegacy}, pointer, bytes, alignment);
  }
#else
  void* allocate_async(std::size_t bytes, std::size_t alignment, cuda::stream_ref stream) {
    return take(stream, bytes, alignment);
  }
  void* allocate_async(std::size_t bytes, cuda::stream_ref stream) {
    return take(stream, bytes, 256);
  }
  void deallocate_async(void* pointer, std::size_t bytes, std::size_t alignment,
                        cuda::stream_ref stream) {
    give(stream, pointer, bytes, alignment);
  }
  void deallocate_async(void* pointer, std::size_t bytes, cuda::stream_ref stream) {
    give(stream, pointer, bytes, 256);
  }
  void* allocate(std::size_t bytes, std::size_t alignment = 256) {
    return take(cuda::stream_ref{cudaStreamLegacy}, bytes, alignment);
  }
  void deallocate(void* pointer, std::size_t bytes, std::size_t alignment = 256) {
    give(cuda::stream_ref{cudaStreamLegacy}, pointer, bytes, alignment);
  }
#endif
  friend bool operator==(strict_resource const& a, strict_resource const& b) noexcept {
    return a.state_ == b.state_;
  }
  friend bool operator!=(strict_resource const& a, strict_resource const& b) noexcept {
    return !(a == b);
  }
  friend void get_property(strict_resource const&, cuda::mr::device_accessible) noexcept {}

 private:
  void* take(cuda::stream_ref stream, std::size_t bytes, std::size_t alignment) {
    if (state_->broken) throw std::runtime_error{"broken"};
    if (alignment != 256) throw std::bad_alloc{};
    if (bytes > state_->limit - state_->live) throw std::bad_alloc{};
    state_->live += bytes;
    state_->last_bytes = bytes;
    state_->last_stream = stream.get();
    return state_->pool.allocate(stream.get(), bytes);
  }
  void give(cuda::stream_ref stream, void* pointer, std::size_t bytes, std::size_t alignment) {
    if (alignment != 256) ++state_->wrong;
    state_->live -= bytes;
    state_->last_bytes = bytes;
    state_->last_stream = stream.get();
    state_->pool.deallocate(stream.get(), pointer, bytes);
  }
  strict_state* state_;
};

void ignore_fallback(void*, ww::fallback_event const&) noexcept {}

}  // namespace

static_assert(std::is_constructible<rmm::device_async_resource_ref, ww::pool_resource<>&>::value,
              "a pool is a resource of RMM's");

TEST_CASE("memory of RMM's has the pool's interface") {
  ww::stream const s;
  strict_state state;
  strict_resource upstream{state};
  ww::rmm_memory_resource memory{rmm::device_async_resource_ref{upstream}, device};
  CHECK(memory.device() == device);
  CHECK(memory.allocate(s, 0) == nullptr);
  void* const p = memory.allocate(s, 1000);
  CHECK(state.last_stream == s.get());
  CHECK(state.last_bytes == 1000);
  CHECK(memory.live_bytes() == 1000);
  test_support::fill(s, p, 1, 1000);
  CHECK(test_support::all_are(test_support::fetch(s, p, 1000), 1));
  memory.deallocate(s, p, 1000);
  CHECK(memory.live_bytes() == 0);
  {
    ww::limit_adaptor part{memory, 1000};
    ww::device_buffer<int, decltype(part)> const x{part, s, 10};
    CHECK(state.live == 40);
  }
  CHECK(state.live == 0);
  CHECK(state.wrong == 0);
}

TEST_CASE("alignments that RMM does not have are cut out of larger blocks") {
  ww::stream const s;
  strict_state state;
  strict_resource upstream{state};
  ww::rmm_memory_resource memory{rmm::device_async_resource_ref{upstream}, device};
  void* const p = memory.allocate(s, 1000, 4096);
  CHECK(reinterpret_cast<std::uintptr_t>(p) % 4096 == 0);
  CHECK(state.live == 1000 + 4096 - 256);
  void* const q = memory.try_allocate(s, 10, 512);
  CHECK(reinterpret_cast<std::uintptr_t>(q) % 512 == 0);
  CHECK_THROWS_AS(memory.deallocate(s, p, 999), std::invalid_argument);
  memory.deallocate(s, p, 1000);
  memory.deallocate(s, q, 10);
  CHECK(state.live == 0);
  CHECK(state.wrong == 0);
  CHECK(memory.live_bytes() == 0);
  CHECK_THROWS_AS(memory.allocate(s, 10, 3), std::invalid_argument);
}

TEST_CASE("RMM's lack of memory is ours, and a fallback takes it") {
  ww::stream const s;
  strict_state state;
  strict_resource upstream{state};
  ww::rmm_memory_resource memory{rmm::device_async_resource_ref{upstream}, device};
  CHECK(memory.try_allocate(s, 17 * mib) == nullptr);
  try {
    static_cast<void>(memory.allocate(s, 17 * mib));
    FAIL("the limit is 16 MiB");
  } catch (ww::out_of_memory const& e) {
    CHECK(e.report().requested_bytes == 17 * mib);
    CHECK_THAT(std::string{e.what()}, contains("rmm_test.cpp"));
  }
  ww::memory_pool pool{device};
  ww::fallback_adaptor either{memory, pool, &ignore_fallback};
  void* const p = either.allocate(s, 17 * mib);
  CHECK(either.statistics().fallbacks == 1);
  either.deallocate(s, p, 17 * mib);
  state.broken = true;
  CHECK_THROWS_WITH(memory.try_allocate(s, 1), "broken");
  CHECK_THROWS_WITH(memory.allocate(s, 1), "broken");
  CHECK(memory.live_bytes() == 0);
}

TEST_CASE("a pool is a resource of RMM's, also through its type erasure") {
  ww::stream const s;
  ww::known_streams known;
  known.add(s);
  ww::memory_pool pool{device};
  ww::pool_resource<> resource{pool, known};
  rmm::device_async_resource_ref const erased{resource};
  ww::rmm_memory_resource round{erased, device};  // through RMM and back
  void* const p = round.allocate(s, 1000);
  CHECK(pool.statistics().live_blocks == 1);
  round.deallocate(s, p, 1000);
  CHECK(pool.statistics().live_blocks == 0);
  CHECK(pool.allocate(s, 1000) == p);
  pool.deallocate(s, p, 1000);
}
