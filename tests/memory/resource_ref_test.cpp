// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// resource_ref, and the table of resources by device.
#include "memory/adaptors_support.hpp"
#include "memory/support.hpp"
#include "support/catch.hpp"

#include <warpwright/memory/adaptors/limit.hpp>
#include <warpwright/memory/adaptors/tracking.hpp>
#include <warpwright/memory/buffer.hpp>
#include <warpwright/memory/device_resources.hpp>
#include <warpwright/memory/resources.hpp>
#include <warpwright/memory/scalar.hpp>
#include <warpwright/memory/trace.hpp>

#include <atomic>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>
#endif

namespace ww = warpwright;
using test_support::scripted_upstream;

namespace {

ww::device_id const device{0};

// Two resources at one address.
struct two {
  ww::memory_pool pool{ww::device_id{0}};
  void* allocate(ww::stream_ref s, std::size_t bytes, std::size_t alignment,
                 ww::source_location where) {
    return pool.allocate(s, bytes, alignment, where);
  }
  void* try_allocate(ww::stream_ref s, std::size_t bytes, std::size_t alignment,
                     ww::source_location where) {
    return pool.try_allocate(s, bytes, alignment, where);
  }
  void deallocate(ww::stream_ref s, void* p, std::size_t bytes, ww::source_location where) {
    pool.deallocate(s, p, bytes, where);
  }
  ww::device_id device() const { return pool.device(); }
};

ww::device_buffer<int, ww::resource_ref> make(ww::resource_ref memory, ww::stream_ref stream) {
  return {memory, stream, 100};
}

}  // namespace

static_assert(sizeof(ww::resource_ref) == 2 * sizeof(void*), "passed in two registers");
static_assert(std::is_trivially_copyable<ww::resource_ref>::value, "");
static_assert(!std::is_default_constructible<ww::resource_ref>::value, "it always refers");
static_assert(!std::is_convertible<ww::limit_adaptor<ww::memory_pool>, ww::resource_ref>::value,
              "a temporary does not outlive the reference");
static_assert(std::is_nothrow_move_constructible<ww::device_buffer<int, ww::resource_ref>>::value,
              "");

TEST_CASE("a reference forwards every argument and every answer") {
  using answer = scripted_upstream::answer;
  ww::stream const s;
  ww::memory_pool pool{device};
  scripted_upstream below{pool};
  ww::resource_ref const memory{below};
  CHECK(memory.device() == device);
  void* const p = memory.allocate(s, 1000, 512);
  CHECK(below.last_line == __LINE__ - 1);
  CHECK_THAT(below.last_file, contains("resource_ref_test.cpp"));
  CHECK(below.last_stream == s.get());
  CHECK(below.last_bytes == 1000);
  CHECK(below.last_alignment == 512);
  void* const q = memory.try_allocate(s, 77);
  CHECK(below.last_line == __LINE__ - 1);
  CHECK(below.last_bytes == 77);
  CHECK(below.last_alignment == 256);
  CHECK(pool.statistics().live_blocks == 2);

  below.next_allocation = answer::none;
  CHECK(memory.try_allocate(s, 1) == nullptr);
  CHECK_THROWS_AS(memory.allocate(s, 1), ww::out_of_memory);
  below.next_allocation = answer::cuda_error;
  CHECK_THROWS_AS(memory.try_allocate(s, 1), ww::cuda_error);
  below.next_deallocation = answer::cuda_error;
  CHECK_THROWS_AS(memory.deallocate(s, p, 1000), ww::cuda_error);
  below.next_deallocation = answer::memory;
  memory.deallocate(s, p, 1000);
  CHECK(below.last_line == __LINE__ - 1);
  CHECK(below.last_bytes == 1000);
  memory.deallocate(s, q, 77);
  CHECK(pool.statistics().live_blocks == 0);
}

TEST_CASE("references are equal if they refer to the same object by the same type") {
  ww::memory_pool a{device};
  ww::memory_pool b{device};
  ww::resource_ref const first{a};
  ww::resource_ref copy{first};
  CHECK(copy == first);
  CHECK_FALSE(copy != first);
  CHECK(ww::resource_ref{a} == first);
  CHECK(ww::resource_ref{b} != first);
  copy = b;
  CHECK(copy == ww::resource_ref{b});
  two object;
  CHECK(static_cast<void*>(&object) == static_cast<void*>(&object.pool));
  CHECK(ww::resource_ref{object} != ww::resource_ref{object.pool});
}

TEST_CASE("a reference to a reference refers to the same object") {
  ww::memory_pool pool{device};
  ww::resource_ref memory{pool};
  ww::resource_ref again{memory};  // not const: must copy, too
  CHECK(again == ww::resource_ref{pool});
}

TEST_CASE("adaptors and a recorder use a reference as their upstream") {
  ww::stream const s;
  ww::memory_pool pool{device};
  ww::resource_ref memory{pool};
  ww::limit_adaptor<ww::resource_ref> part{memory, 1000};
  ww::tracking_adaptor<decltype(part)> tracked{part};
  ww::trace_recorder<ww::resource_ref> recorder{memory};
  void* const p = tracked.allocate(s, 600);
  CHECK_THROWS_AS(tracked.allocate(s, 600), ww::out_of_memory);
  CHECK(tracked.device() == device);
  tracked.deallocate(s, p, 600);
  recorder.deallocate(s, recorder.allocate(s, 10), 10);
  CHECK(recorder.recorded_operations() == 2);
  CHECK(pool.statistics().live_blocks == 0);
}

TEST_CASE("a buffer and a scalar keep a reference by value") {
  ww::stream const s;
  ww::memory_pool pool{device};
  ww::limit_adaptor part{pool, 10000};
  {
    auto x = make(part, s);  // the reference has ended
    CHECK(part.live_bytes() == 400);
    CHECK(*x.pool() == ww::resource_ref{part});
    x.resize(200);
    CHECK(part.live_bytes() == 800);
    auto y = std::move(x);
    CHECK(*y.pool() == ww::resource_ref{part});
    x = make(pool, s);
    CHECK(*x.pool() == ww::resource_ref{pool});
    CHECK(part.live_bytes() == 800);
    ww::device_scalar<int, ww::resource_ref> const n{part, s, 5};
    CHECK(n.value(s) == 5);
  }
  CHECK(part.live_bytes() == 0);
  CHECK(pool.statistics().live_blocks == 0);
}

TEST_CASE("a buffer without a reference says that it has no pool") {
  ww::device_buffer<int, ww::resource_ref> none;
  CHECK(none.pool() == nullptr);
  CHECK_THROWS_WITH(none.resize(5), contains("has no pool to allocate 5 elements from"));
}

TEST_CASE("a resource is installed for its device, and found by it") {
  ww::memory_pool pool{device};
  ww::memory_pool other{device};
  ww::device_resources resources;
  CHECK_FALSE(resources.contains(device));
  resources.install(pool);
  CHECK(resources.contains(device));
  CHECK(resources.at(device) == ww::resource_ref{pool});
  CHECK(resources.current() == ww::resource_ref{pool});
  resources.install(other);  // replaces
  CHECK(resources.at(device) == ww::resource_ref{other});
  resources.remove(device);
  CHECK_FALSE(resources.contains(device));
  resources.remove(device);
}

TEST_CASE("blocks return to the resource that they came from") {
  ww::stream const s;
  ww::memory_pool pool{device};
  ww::memory_pool other{device};
  ww::device_resources resources;
  resources.install(pool);
  {
    ww::device_buffer<int, ww::resource_ref> const x{resources.current(), s, 10};
    resources.install(other);
    ww::device_buffer<int, ww::resource_ref> const y{resources.current(), s, 10};
    CHECK(pool.statistics().live_blocks == 1);
    CHECK(other.statistics().live_blocks == 1);
  }
  CHECK(pool.statistics().live_blocks == 0);
  CHECK(other.statistics().live_blocks == 0);
}

TEST_CASE("a missing resource is an error that names the device and those that are there") {
  ww::memory_pool pool{device};
  ww::pageable_memory_resource host;
  ww::device_resources resources;
  CHECK_THROWS_WITH(resources.at(ww::device_id{3}),
                    contains("resource_ref_test.cpp") &&
                        contains("no resource is installed for device 3; call install()"));
  CHECK_THROWS_WITH(resources.current(), contains("device 0"));
  resources.install(pool);
  resources.install(ww::device_id{2}, host);
  CHECK_THROWS_WITH(resources.at(ww::device_id{1}),
                    contains("device 1; there is one for 0, 2; call install()"));
}

TEST_CASE("resources of other devices and unnamed ones of the host are refused") {
  ww::memory_pool pool{device};
  ww::pageable_memory_resource host;
  ww::device_resources resources;
  CHECK_THROWS_WITH(resources.install(ww::device_id{1}, pool),
                    contains("of device 0 for device 1"));
  CHECK_THROWS_WITH(resources.install(host), contains("for device -2"));
  CHECK_THROWS_AS(resources.install(ww::device_id{-1}, pool), std::invalid_argument);
  CHECK_FALSE(resources.contains(device));
  resources.install(device, host);  // host memory, by name
  CHECK(resources.at(device).device().value() == -2);
}

TEST_CASE("several devices have several resources") {
  ww::callback_resource first{ww::device_id{4},
                              [](ww::stream_ref, std::size_t) -> void* { return nullptr; },
                              [](ww::stream_ref, void*, std::size_t) {}};
  ww::callback_resource second{ww::device_id{5},
                               [](ww::stream_ref, std::size_t) -> void* { return nullptr; },
                               [](ww::stream_ref, void*, std::size_t) {}};
  ww::device_resources resources;
  resources.install(first);
  resources.install(second);
  CHECK(resources.at(ww::device_id{4}) == ww::resource_ref{first});
  CHECK(resources.at(ww::device_id{5}) == ww::resource_ref{second});
  resources.remove(ww::device_id{4});
  CHECK_FALSE(resources.contains(ww::device_id{4}));
  CHECK(resources.at(ww::device_id{5}) == ww::resource_ref{second});
}

TEST_CASE("resources are installed, found and removed by several threads at once") {
  ww::memory_pool pool{device};
  ww::memory_pool other{device};
  ww::pageable_memory_resource host;
  ww::device_resources resources;
  resources.install(pool);
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::thread reader{[&] {
    while (!stop.load()) {
      ww::resource_ref const found = resources.at(device);
      if (found != ww::resource_ref{pool} && found != ww::resource_ref{other}) ++wrong;
    }
  }};
  for (int i = 0; i < 2000; ++i) {
    resources.install(i % 2 == 0 ? ww::resource_ref{other} : ww::resource_ref{pool});
    resources.install(ww::device_id{1 + i % 7}, host);
    resources.remove(ww::device_id{1 + (i + 3) % 7});
  }
  stop.store(true);
  reader.join();
  CHECK(wrong.load() == 0);
}

#if WARPWRIGHT_HOST_RUNTIME

TEST_CASE("the current device's resource is that of the calling thread's device") {
  ww::testing::reset_host_runtime(ww::testing::host_runtime_options{}.with_devices(2));
  {
    ww::memory_pool first{ww::device_id{0}};
    ww::memory_pool second{ww::device_id{1}};
    ww::device_resources resources;
    resources.install(first);
    resources.install(second);
    CHECK(resources.current() == ww::resource_ref{first});
    ww::scoped_device const scope{ww::device_id{1}};
    CHECK(resources.current() == ww::resource_ref{second});
  }
  ww::testing::reset_host_runtime();
}

TEST_CASE("a current device that cannot be queried is reported") {
  ww::testing::reset_host_runtime();
  ww::device_resources resources;
  ww::testing::scoped_fault_plan const plan{
      ww::testing::fault_plan{}.fail("cudaGetDevice", 1, cudaErrorInitializationError)};
  CHECK_THROWS_AS(resources.current(), ww::cuda_error);
}

TEST_CASE("looking a resource up makes no CUDA call") {
  ww::testing::reset_host_runtime();
  ww::stream const s;
  ww::memory_pool pool{device};
  ww::device_resources resources;
  resources.install(pool);
  resources.at(device).deallocate(s, resources.at(device).allocate(s, 100), 100);
  ww::testing::reset_call_counts();
  resources.at(device).deallocate(s, resources.at(device).allocate(s, 100), 100);
  CHECK(ww::testing::total_calls() == 0);
}

#endif
