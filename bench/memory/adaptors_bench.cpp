// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The host time of each adaptor: a pair of calls to the pool alone, and the same pair through the
// adaptor. pass_through is an adaptor that does nothing and measures the interface itself.
#include <benchmark/benchmark.h>

#include <warpwright/memory/adaptors.hpp>
#include <warpwright/memory/pool.hpp>
#include <warpwright/testing/fault_adaptor.hpp>

#include <cstdint>
#include <cstdio>
#include <memory>

namespace ww = warpwright;

namespace {

ww::device_id const device{0};
constexpr std::size_t bytes = std::size_t{1} << 20U;

void ignore_record(void*, ww::memory_log_record const&) noexcept {}
void ignore_damage(void*, ww::guard_damage const&) noexcept {}
void ignore_fallback(void*, ww::fallback_event const&) noexcept {}

template <class Upstream>
class pass_through : public ww::detail::memory_adaptor<pass_through<Upstream>, Upstream> {
 public:
  explicit pass_through(Upstream& upstream) noexcept : base{upstream} {}

 private:
  using base = ww::detail::memory_adaptor<pass_through, Upstream>;
  friend class ww::detail::memory_interface<pass_through>;
  template <bool Throws>
  void* do_allocate(ww::detail::memory_request const& request) {
    return ww::detail::allocate_from<Throws>(this->upstream(), request);
  }
  void do_deallocate(ww::stream_ref stream, void* pointer, std::size_t size,
                     ww::source_location where) {
    this->upstream().deallocate(stream, pointer, size, where);
  }
};

template <class Memory>
void pairs(benchmark::State& state, Memory& memory) {
  ww::stream const own;
  ww::stream_ref const s = own;
  for (auto _ : state) {
    void* const p = memory.allocate(s, bytes);
    benchmark::DoNotOptimize(p);
    memory.deallocate(s, p, bytes);
  }
  state.SetItemsProcessed(state.iterations());
}

void pool_alone(benchmark::State& state) {
  ww::memory_pool pool{device};
  pairs(state, pool);
}
BENCHMARK(pool_alone);

void pool_pass_through(benchmark::State& state) {
  ww::memory_pool pool{device};
  pass_through<ww::memory_pool> adaptor{pool};
  pairs(state, adaptor);
}
BENCHMARK(pool_pass_through);

void pool_limit(benchmark::State& state) {
  ww::memory_pool pool{device};
  ww::limit_adaptor adaptor{pool, 2 * bytes};
  pairs(state, adaptor);
}
BENCHMARK(pool_limit);

void pool_statistics(benchmark::State& state) {
  ww::memory_pool pool{device};
  ww::statistics_adaptor adaptor{pool};
  pairs(state, adaptor);
}
BENCHMARK(pool_statistics);

void pool_statistics_tag(benchmark::State& state) {
  ww::memory_pool pool{device};
  ww::statistics_adaptor adaptor{pool};
  auto tag = adaptor.tagged("a tag");
  pairs(state, tag);
}
BENCHMARK(pool_statistics_tag);

void pool_tracking(benchmark::State& state) {
  ww::memory_pool pool{device};
  ww::tracking_adaptor adaptor{pool};
  pairs(state, adaptor);
}
BENCHMARK(pool_tracking);

void pool_event_log(benchmark::State& state) {
  ww::memory_pool pool{device};
  ww::event_log_adaptor adaptor{pool, &ignore_record};
  pairs(state, adaptor);
}
BENCHMARK(pool_event_log);

void pool_event_log_csv(benchmark::State& state) {
  ww::memory_pool pool{device};
  std::FILE* const file = std::fopen("/dev/null", "w");
  ww::event_log_adaptor adaptor{pool, &ww::memory_log_to_csv, file};
  pairs(state, adaptor);
  std::fclose(file);
}
BENCHMARK(pool_event_log_csv);

void pool_fault(benchmark::State& state) {
  ww::memory_pool pool{device};
  ww::fault_adaptor adaptor{pool, ww::memory_faults{}};
  pairs(state, adaptor);
}
BENCHMARK(pool_fault);

void pool_thread_safe(benchmark::State& state) {
  ww::memory_pool pool{device};
  ww::thread_safe_adaptor adaptor{pool};
  pairs(state, adaptor);
}
BENCHMARK(pool_thread_safe);

void pool_fallback_unused(benchmark::State& state) {
  ww::memory_pool pool{device};
  ww::managed_memory_resource managed{device};
  ww::fallback_adaptor adaptor{pool, managed, &ignore_fallback};
  pairs(state, adaptor);
}
BENCHMARK(pool_fallback_unused);

void pool_guard(benchmark::State& state) {
  ww::memory_pool pool{device};
  ww::guard_adaptor adaptor{pool, &ignore_damage};
  pairs(state, adaptor);
}
BENCHMARK(pool_guard)->UseRealTime();

void pool_guard_without_poison(benchmark::State& state) {
  ww::memory_pool pool{device};
  ww::guard_adaptor adaptor{pool, &ignore_damage, nullptr,
                            ww::guard_options{}.poison_new(false).poison_freed(false)};
  pairs(state, adaptor);
}
BENCHMARK(pool_guard_without_poison)->UseRealTime();

// The second upstream of a fallback.
void managed_alone(benchmark::State& state) {
  ww::managed_memory_resource managed{device};
  pairs(state, managed);
}
BENCHMARK(managed_alone)->UseRealTime();

void pageable_alone(benchmark::State& state) {
  ww::pageable_memory_resource pageable;
  pairs(state, pageable);
}
BENCHMARK(pageable_alone)->UseRealTime();

// Threads that share one pool, and one adaptor over it.
template <class Make>
void shared_pairs(benchmark::State& state, Make const& make) {
  static std::unique_ptr<ww::memory_pool> pool;
  static decltype(make(*pool)) adaptor;
  if (state.thread_index() == 0) {
    pool = std::make_unique<ww::memory_pool>(device);
    adaptor = make(*pool);
  }
  ww::stream const own;
  ww::stream_ref const s = own;
  for (auto _ : state) {
    void* const p = adaptor->allocate(s, bytes);
    benchmark::DoNotOptimize(p);
    adaptor->deallocate(s, p, bytes);
  }
  state.SetItemsProcessed(state.iterations());
  if (state.thread_index() == 0) {
    adaptor.reset();
    pool.reset();
  }
}

void shared_pool_pass_through(benchmark::State& state) {
  shared_pairs(state, [](ww::memory_pool& pool) {
    return std::make_unique<pass_through<ww::memory_pool>>(pool);
  });
}
BENCHMARK(shared_pool_pass_through)->Threads(4)->Threads(16)->UseRealTime();

void shared_pool_statistics(benchmark::State& state) {
  shared_pairs(state, [](ww::memory_pool& pool) {
    return std::make_unique<ww::statistics_adaptor<ww::memory_pool>>(pool);
  });
}
BENCHMARK(shared_pool_statistics)->Threads(4)->Threads(16)->UseRealTime();

void shared_pool_tracking(benchmark::State& state) {
  shared_pairs(state, [](ww::memory_pool& pool) {
    return std::make_unique<ww::tracking_adaptor<ww::memory_pool>>(pool);
  });
}
BENCHMARK(shared_pool_tracking)->Threads(4)->Threads(16)->UseRealTime();

// The report for a number of outstanding blocks.
void tracking_report(benchmark::State& state) {
  ww::stream const own;
  ww::stream_ref const s = own;
  ww::memory_pool pool{device};
  ww::tracking_adaptor tracked{pool};
  for (std::int64_t i = 0; i < state.range(0); ++i) static_cast<void>(tracked.allocate(s, 256));
  for (auto _ : state) benchmark::DoNotOptimize(tracked.to_text());
}
BENCHMARK(tracking_report)->Arg(100)->Arg(10000)->Unit(benchmark::kMicrosecond);

}  // namespace
