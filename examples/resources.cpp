// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// One function for every kind of device memory: it takes a resource_ref, which refers to a pool, to
// CUDA's own allocators or to functions of the program. device_resources holds one for each device.
// A program that comes from RMM finds its parts here: docs/coming_from_rmm.md.
#include <warpwright/memory.hpp>
#include <warpwright/memory/adaptors.hpp>

#include <cstdio>
#include <exception>
#include <vector>

namespace ww = warpwright;

// Not a template, so it can stand in a library. Returns whether the values came back.
bool step(ww::resource_ref memory, ww::stream_ref stream) {
  std::vector<int> const values{1, 2, 3, 4};
  ww::device_buffer<int, ww::resource_ref> x{memory, stream, values.data(), values.size()};
  x.reserve(1000);  // from here on resize() up to 1000 elements does not move them
  x.resize(5);
  x.set_element(stream, 4, 5);
  ww::device_scalar<int, ww::resource_ref> count{memory, stream};
  count.set_to_zero(stream);
  return x.element(stream, 0) == 1 && x.element(stream, 4) == 5 && count.value(stream) == 0;
}

int main() {
  try {
    ww::device_id const device = ww::current_device();
    ww::stream const stream;  // declared before the pools, which it must outlive
    ww::memory_pool pool{device};
    ww::cuda_malloc_resource plain{device};
    ww::cuda_malloc_async_resource driver{
        device, ww::cuda_malloc_async_options{}.initial_bytes(std::size_t{1} << 20U)};
    int calls = 0;
    ww::callback_resource own{
        device,
        [&](ww::stream_ref s, std::size_t bytes) {
          ++calls;
          return pool.try_allocate(s, bytes);  // null: out of memory
        },
        [&](ww::stream_ref s, void* p, std::size_t bytes) { pool.deallocate(s, p, bytes); }};
    ww::aligned_adaptor pages{pool, std::size_t{2} << 20U, std::size_t{1} << 20U};

    bool right = step(pool, stream) && step(plain, stream) && step(driver, stream) &&
                 step(own, stream) && step(pages, stream);
    std::printf("5 resources, one function; the callback was called %d times\n", calls);

    // The program's choice for each device; nothing is global.
    ww::device_resources resources;
    resources.install(pool);
    right = right && step(resources.current(), stream);
    try {
      static_cast<void>(resources.at(ww::device_id{7}));
      right = false;
    } catch (std::invalid_argument const& e) {
      std::printf("%s\n", e.what());
    }

    // RMM's log of a program's calls, for RMM's replay benchmark and warpwright_replay.
    ww::memory_log_rmm_header(stdout);
    ww::event_log_adaptor log{pool, ww::memory_log_to_rmm, stdout};
    right = right && step(log, stream) && pool.statistics().live_blocks == 0 &&
            plain.live_bytes() == 0 && driver.live_bytes() == 0 && calls == 3;
    return right ? 0 : 1;
  } catch (std::exception const& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
