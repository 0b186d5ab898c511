// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Thrust and CUB with memory of a pool; their device code needs nvcc and a GPU.
#include "memory/capture_support.hpp"
#include "support/catch.hpp"

#include <warpwright/interop/cub.hpp>
#include <warpwright/interop/thrust.hpp>

#include <thrust/device_vector.h>
#include <thrust/host_vector.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>
#include <cub/device/device_reduce.cuh>

#include <vector>

namespace ww = warpwright;

namespace {

constexpr std::size_t mib = std::size_t{1} << 20U;

ww::device_id const device{0};

template <class T>
using pool_vector = thrust::device_vector<T, ww::thrust_allocator<T>>;

}  // namespace

TEST_CASE("a Thrust vector on a pool") {
  ww::stream s;
  ww::memory_pool pool{device};
  ww::thrust_allocator<int> const alloc{pool, s};
  {
    pool_vector<int> v(1000, 7, alloc);
    CHECK(pool.statistics().live_bytes == 4096);
    CHECK(v[999] == 7);
    v.resize(100000, 8);  // grows: old elements move, new ones are filled
    thrust::host_vector<int> const h = v;
    CHECK(h[0] == 7);
    CHECK(h[999] == 7);
    CHECK(h[1000] == 8);
    CHECK(h[99999] == 8);
    pool_vector<int> copy = v;
    CHECK(copy.get_allocator() == alloc);
    CHECK(copy == v);
    pool_vector<int> moved = std::move(copy);
    CHECK(moved.size() == 100000);
    pool_vector<int> const empty(alloc);
    CHECK(empty.size() == 0);
    CHECK(pool.statistics().live_blocks == 2);
  }
  CHECK(pool.statistics().live_bytes == 0);
  CHECK(pool.statistics().upstream_allocations == 1);
}

TEST_CASE("a Thrust vector waits for its stream before other streams use its memory") {
  ww::stream s;
  ww::memory_pool pool{device};
  void* const used = pool.allocate(s, mib);
  test_support::pause(s);
  test_support::fill(s, used, 1, mib);  // late, on memory that is already free for s
  pool.deallocate(s, used, mib);
  pool_vector<unsigned char> v(mib, 9, ww::thrust_allocator<unsigned char>{pool, s});
  CHECK(static_cast<void*>(v.data().get()) == used);
  s.synchronize();
  CHECK(v[0] == 9);
  CHECK(v[mib - 1] == 9);
}

TEST_CASE("a Thrust vector that cannot be allocated throws") {
  ww::stream s;
  ww::memory_pool pool{device, ww::memory_pool_options{}.max_bytes(4 * mib).growth_bytes(2 * mib)};
  ww::thrust_allocator<int> const alloc{pool, s};
  CHECK_THROWS_AS(pool_vector<int>(8 * mib, alloc), std::bad_alloc);
  pool_vector<int> const v(1000, 1, alloc);
  CHECK(v[5] == 1);
}

TEST_CASE("Thrust's algorithms allocate their temporary storage from the pool") {
  ww::stream s;
  ww::memory_pool pool{device, ww::memory_pool_options{}.initial_bytes(std::size_t{64} << 20U)};
  pool_vector<int> v(100000, ww::thrust_allocator<int>{pool, s});
  auto const before = pool.statistics();
  thrust::sequence(ww::thrust_policy(pool, s), v.rbegin(), v.rend());
  thrust::sort(ww::thrust_policy(pool, s), v.begin(), v.end());
  CHECK(pool.statistics().allocations > before.allocations);
  CHECK(pool.statistics().live_blocks == 1);
  CHECK(v[0] == 0);
  CHECK(v[99999] == 99999);
  long long const sum = thrust::reduce(ww::thrust_policy_nosync(pool, s), v.begin(), v.end(), 0LL);
  CHECK(sum == 4999950000LL);
  CHECK(pool.statistics().live_blocks == 1);
  // With an explicit policy and the caller's allocator.
  ww::thrust_temporary_allocator<> temporary{pool, s};
  thrust::sort(thrust::cuda::par(temporary).on(s.get()), v.begin(), v.end(),
               thrust::greater<int>{});
  CHECK(v[0] == 99999);
  // With a vector's allocator.
  ww::thrust_allocator<char> plain{pool, s};
  thrust::sort(thrust::cuda::par(plain).on(s.get()), v.begin(), v.end());
  CHECK(v[0] == 0);
  CHECK(pool.statistics().upstream_allocations == before.upstream_allocations);
}

TEST_CASE("CUB with temporary storage from the pool") {
  ww::stream s;
  ww::memory_pool pool{device, ww::memory_pool_options{}.initial_bytes(std::size_t{64} << 20U)};
  int const n = 1 << 20;
  ww::device_buffer<int> in{pool, s, static_cast<std::size_t>(n)};
  ww::device_buffer<int> out{pool, s, 1};
  ww::check(cudaMemsetAsync(in.data(), 0, in.size_bytes(), s.get()), "cudaMemsetAsync");
  auto const before = pool.statistics();
  int const one = 1;
  ww::check(cudaMemcpyAsync(in.data() + 5, &one, sizeof one, cudaMemcpyHostToDevice, s.get()),
            "cudaMemcpyAsync");
  for (int round = 0; round < 3; ++round) {
    ww::with_temporary_storage(pool, s, [&](void* storage, std::size_t& bytes) {
      return cub::DeviceReduce::Sum(storage, bytes, in.data(), out.data(), n, s.get());
    });
  }
  int sum = 0;
  ww::check(cudaMemcpyAsync(&sum, out.data(), sizeof sum, cudaMemcpyDeviceToHost, s.get()),
            "cudaMemcpyAsync");
  s.synchronize();
  CHECK(sum == 1);
  CHECK(pool.statistics().live_blocks == 2);
  CHECK(pool.statistics().upstream_allocations == before.upstream_allocations);
}

TEST_CASE("temporary storage of CUB in a captured body belongs to the graph") {
  ww::stream s;
  ww::memory_pool pool{device};
  test_support::noting_pool noting{pool};
  int const n = 1 << 20;
  ww::device_buffer<int> in{pool, s, static_cast<std::size_t>(n)};
  ww::device_buffer<int> out{pool, s, 1};
  ww::check(cudaMemsetAsync(in.data(), 1, in.size_bytes(), s.get()), "cudaMemsetAsync");
  s.synchronize();
  noting.check_separate([&](ww::stream_ref c) {
    ww::with_temporary_storage(noting, c, [&](void* storage, std::size_t& bytes) {
      return cub::DeviceReduce::Sum(storage, bytes, in.data(), out.data(), n, c.get());
    });
  });
}

TEST_CASE("temporary storage of Thrust in a captured body belongs to the graph") {
  ww::stream s;
  ww::memory_pool pool{device};
  test_support::noting_pool noting{pool};
  pool_vector<int> v(100000, ww::thrust_allocator<int>{pool, s});
  thrust::sequence(ww::thrust_policy(pool, s), v.rbegin(), v.rend());
  // Without the waits that Thrust can omit, which no capture allows.
  noting.check_separate([&](ww::stream_ref c) {
    thrust::inclusive_scan(ww::thrust_policy_nosync(noting, c), v.begin(), v.end(), v.begin());
  });
  noting.check_separate([&](ww::stream_ref c) {
    thrust::sort(ww::thrust_policy_nosync(noting, c), v.begin(), v.end());
  });
}

TEST_CASE("memory for a Thrust vector is refused on a capturing stream, and can be freed there") {
  ww::stream s;
  ww::memory_pool pool{device};
  ww::thrust_allocator<int> alloc{pool, s};
  thrust::device_ptr<int> const p = alloc.allocate(1000);
  ww::graph const g = ww::capture(s, [&](ww::stream_ref) {
    CHECK_THROWS_WITH(alloc.allocate(1000), contains("on a capturing stream"));
    alloc.deallocate(p, 1000);
  });
  CHECK(pool.statistics().live_blocks == 0);
  thrust::device_ptr<int> const q = alloc.allocate(1000);
  CHECK(q != p);  // the graph has it
  alloc.deallocate(q, 1000);
}
