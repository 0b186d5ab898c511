// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Functions of a user that call the library, and have a loop of their own: callers.sh checks that
// the compiler still optimises the loop. What the library calls seldom is WARPWRIGHT_COLD, and g++
// takes each function all of whose paths call such a one for seldom, too.
#include <warpwright/measure/choose.hpp>
#include <warpwright/measure/compare.hpp>
#include <warpwright/measure/measure.hpp>
#include <warpwright/measure/sample_summary.hpp>
#include <warpwright/memory.hpp>
#include <warpwright/tune/latency_model.hpp>
#include <warpwright/tune/report.hpp>
#include <warpwright/tune/stored_tuner.hpp>
#include <warpwright/tune/tuning_store.hpp>
#include <warpwright/warpwright.hpp>

namespace ww = warpwright;

void consume(void const* value);

#define CALLER(name, ...)                                                                \
  void caller_of_##name(ww::stream_ref s, ww::memory_pool& pool, ww::tune_result& tuned, \
                        float* __restrict y, float const* __restrict x, int n) {         \
    static_cast<void>(s), static_cast<void>(pool), static_cast<void>(tuned);             \
    __VA_ARGS__;                                                                         \
    for (int i = 0; i < n; ++i) y[i] = y[i] * 3.0F + x[i];                               \
  }

CALLER(pool, ww::memory_pool p{ww::device_id{0}}; consume(&p))
CALLER(stream, ww::stream const t; consume(&t))
CALLER(event, ww::event e; e.record(s.get()))
CALLER(buffer, ww::device_buffer<float> const b{pool, s, 1000}; consume(b.data()))
CALLER(allocate, pool.deallocate(s, pool.allocate(s, 100), 100))
CALLER(statistics, auto const r = pool.statistics(); consume(&r))
CALLER(trim, pool.trim())
CALLER(make_cache, auto const c = pool.make_cache(s); consume(&c))
CALLER(current_device, auto const d = ww::current_device(); consume(&d))
CALLER(synchronize, s.synchronize())
CALLER(tune, auto const r = ww::batch_tuner{}.tune(s, [](std::size_t, ww::stream_ref) {});
       consume(&r))
CALLER(stored_tune, auto const r = ww::stored_tuner{ww::batch_tuner{}, ww::tuning_store{"a"}, "b"}
                                       .tune(s, [](std::size_t, ww::stream_ref) {});
       consume(&r))
CALLER(objective, auto const o = ww::throughput_under_latency(1e-3); consume(&o))
CALLER(to_text, auto const t = ww::to_text(tuned); consume(&t))
CALLER(to_csv, auto const t = ww::to_csv(tuned); consume(&t))
CALLER(to_json, auto const t = ww::to_json(tuned); consume(&t))
CALLER(to_svg, auto const t = ww::to_svg(tuned); consume(&t))
CALLER(to_html, auto const t = ww::to_html(tuned); consume(&t))
CALLER(measure, auto const m = ww::measure(s, [] {}); consume(&m))
CALLER(compare, auto const c = ww::compare(
                    s, [] {}, [] {});
       consume(&c))
CALLER(choose,
       auto const c = ww::choose(s, ww::candidates(ww::candidate("a", [](ww::stream_ref) {}),
                                                   ww::candidate("b", [](ww::stream_ref) {})));
       consume(&c))
CALLER(summarize, auto const m = ww::summarize({1.0, 2.0, 3.0}); consume(&m))
CALLER(find, auto const r = ww::tuning_store{"a"}.try_find(ww::tuning_key{}); consume(&r))
CALLER(memory_model, auto const m = ww::memory_model::fit({ww::memory_point{1, 2}});
       double const bytes = m.estimate(3); consume(&bytes))
CALLER(latency_model, auto const m = ww::latency_model::of_tune(tuned); consume(&m))
