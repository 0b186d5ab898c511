// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// What takes a stream works whatever device is current, and leaves that as found: each call of the
// public interface with device 0 current and a stream of device 1. On a machine with one GPU
// nothing is tested.
#include <warpwright/graph/conditional.hpp>
#include <warpwright/graph/graph_cache.hpp>
#include <warpwright/kernel/multi_tensor.hpp>
#include <warpwright/kernel/reduce.hpp>
#include <warpwright/kernel/reduce_matrix.hpp>
#include <warpwright/kernel/rows.hpp>
#include <warpwright/kernel/tensor_norms.hpp>
#include <warpwright/measure/compare.hpp>
#include <warpwright/measure/expect.hpp>
#include <warpwright/memory/resources/cuda_malloc_async.hpp>
#include <warpwright/tune/chooser.hpp>
#include <warpwright/tune/tuning_pool.hpp>
#include <warpwright/warpwright.hpp>

#include <atomic>
#include <thread>
#include <vector>

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/host_runtime.hpp>
#endif

#include "support/catch.hpp"

namespace ww = warpwright;
namespace ew = warpwright::ew;

namespace {

constexpr std::size_t n = 4096;
constexpr std::size_t bytes = n * sizeof(float);

struct fill {
  float* to;
  float value;
  WARPWRIGHT_HOST_DEVICE void operator()(std::uint64_t i) const { to[i] = value; }
};

struct add_one {
  WARPWRIGHT_HOST_DEVICE void operator()(float& x) const { x += 1.0F; }
};

bool have_two() {
#if WARPWRIGHT_HOST_RUNTIME
  ww::testing::reset_host_runtime(ww::testing::host_runtime_options{}.with_devices(2));
#endif
  return ww::device_count() >= 2;
}

int current() { return ww::current_device().value(); }

// A stream and memory of device 1; device 0 is current.
struct far_device {
  ww::device_id id{1};
  ww::stream stream{id};
  ww::memory_pool pool{id};
  ww::device_buffer<float> x{pool, stream, n};
  ww::device_buffer<float> y{pool, stream, n};

  far_device() {
    CHECK(current() == 0);
    set(x, 1.0F);
    set(y, 0.0F);
  }
  ~far_device() {
    CHECK(current() == 0);
    CHECK(cudaGetLastError() == cudaSuccess);
  }
  far_device(far_device const&) = delete;
  far_device& operator=(far_device const&) = delete;

  void set(ww::device_buffer<float>& buffer, float value) {
    std::vector<float> const host(n, value);
    ww::scoped_device const current{id};
    ww::check(
        cudaMemcpyAsync(buffer.data(), host.data(), bytes, cudaMemcpyHostToDevice, stream.get()),
        "cudaMemcpyAsync");
    stream.synchronize();
  }
  std::vector<float> values(float const* from, ww::stream_ref on) const {
    std::vector<float> host(n);
    ww::scoped_device const current{id};
    ww::check(cudaMemcpyAsync(host.data(), from, bytes, cudaMemcpyDeviceToHost, on.get()),
              "cudaMemcpyAsync");
    on.synchronize();
    return host;
  }
  [[nodiscard]] bool holds(ww::device_buffer<float> const& buffer, float value) const {
    return values(buffer.data(), stream) == std::vector<float>(n, value);
  }
};

// Blocks a stream until it is opened.
struct gate {
  std::atomic<bool> is_open{false};
  void block(ww::stream_ref stream) {
    auto const wait = [](void* flag) {
      while (!*static_cast<std::atomic<bool>*>(flag)) std::this_thread::yield();
    };
    ww::check(cudaLaunchHostFunc(stream.get(), wait, &is_open), "cudaLaunchHostFunc");
  }
  void open() { is_open = true; }
};

}  // namespace

TEST_CASE("any device: streams and events", "[devices]") {
  if (!have_two()) return;
  gate far_gate;
  far_device far;
  ww::stream const near;
  far_gate.block(far.stream);
  near.wait(far.stream);
  CHECK(!near.done());
  CHECK(!far.stream.done());
  far_gate.open();
  near.synchronize();
  CHECK(far.stream.done());
  far.stream.wait(near);

  // Of the current device, then of the stream's; the wait for the first record stays.
  gate near_gate;
  ww::event event;
  near_gate.block(near);
  event.record(near);
  ww::stream const third{far.id};
  third.wait(event);
  event.record(far.stream);
  event.synchronize();
  CHECK(event.done());
  CHECK(!third.done());
  near_gate.open();
  third.synchronize();
  event.record(near);
  event.synchronize();

  ww::timed_event begin;
  ww::timed_event end;
  begin.record(far.stream);
  end.record(far.stream);
  end.synchronize();
  CHECK(end.milliseconds_since(begin) >= 0.0F);
  CHECK(far.stream.ref().id() == far.stream.id());
  CHECK(!far.stream.is_capturing());
}

TEST_CASE("any device: memory", "[devices]") {
  if (!have_two()) return;
  far_device far;
  std::vector<float> const host(n, 3.0F);
  far.x.copy_from(far.stream, host.data(), n);
  CHECK(far.holds(far.x, 3.0F));
  far.x.set_to_zero(far.stream);
  CHECK(far.holds(far.x, 0.0F));
  far.y.set_element(far.stream, 0, 4.0F);
  CHECK(far.y.element(far.stream, 0) == 4.0F);
  ww::stream const other{far.id};
  other.wait(far.stream);
  void* const block = far.pool.allocate(other, bytes);
  far.pool.deallocate(other, block, bytes);
  static_cast<void>(far.pool.allocate(far.stream, bytes));
  ww::memory_cache cache = far.pool.make_cache(other);
  cache.deallocate(cache.allocate(bytes), bytes);

  ww::device_scalar<int> scalar{far.pool, far.stream, 7};
  CHECK(scalar.value(far.stream) == 7);

  ww::cuda_malloc_async_resource async{far.id};
  void* const from_cuda = async.allocate(far.stream, bytes);
  cudaPointerAttributes attributes{};
  ww::check(cudaPointerGetAttributes(&attributes, from_cuda), "cudaPointerGetAttributes");
  CHECK(attributes.device == 1);
  async.deallocate(far.stream, from_cuda, bytes);

  ww::pinned_pool pinned;
  ww::pinned_buffer<float> page_locked{pinned, far.stream, n};
  auto const staging = [&] {
    ww::scoped_device const scope{far.id};
    return ww::staging{pinned};
  };
  ww::staging up = staging();
  up.copy_to_device(far.stream, far.y.data(), host.data(), bytes);
  CHECK(far.holds(far.y, 3.0F));
  far.stream.synchronize();
}

TEST_CASE("any device: leases and branches", "[devices]") {
  if (!have_two()) return;
  far_device far;
  auto const branch = [&](ww::stream_ref on, unsigned i) {
    ww::for_each_index(on, n / 4, fill{far.y.data() + i * (n / 4), 2.0F});
  };
  ww::stream_pool far_streams{far.id, 4};
  far_streams.fork_join(far.stream, 4, branch);
  CHECK(far.holds(far.y, 2.0F));
  // Branches of another device than the parent's.
  ww::stream_pool near_streams{ww::device_id{0}, 2};
  gate hold;
  hold.block(far.stream);
  near_streams.fork_join(far.stream, 2, [&](ww::stream_ref on, unsigned) { CHECK(!on.done()); });
  hold.open();
  ww::stream_lease const lease = far_streams.lease();
  lease.stream().wait(far.stream);
  lease.stream().synchronize();
  CHECK(far.stream.done());
}

TEST_CASE("any device: kernels", "[devices]") {
  if (!have_two()) return;
  far_device far;
  auto const x = ew::in(static_cast<float const*>(far.x.data()), n);
  ww::for_each_index(far.stream, n, fill{far.y.data(), 5.0F});
  CHECK(far.holds(far.y, 5.0F));
  ew::run(far.stream, ew::out(far.y.data(), n) = x + 1.0F);
  CHECK(far.holds(far.y, 2.0F));

  CHECK(static_cast<double>(ew::reduce(far.stream, far.pool, n, ew::sum(x))) ==
        static_cast<double>(n));
  ew::reduce(far.stream, far.pool, n, ew::to(far.y.data()) = ew::sum(x));
  CHECK(far.values(far.y.data(), far.stream)[0] == static_cast<float>(n));
  ew::reduce_rows(far.stream, {4, n / 4}, ew::to(far.y.data()) = ew::sum(x));
  CHECK(far.values(far.y.data(), far.stream)[3] == static_cast<float>(n / 4));
  ew::reduce_cols(far.stream, far.pool, {n / 4, 4}, ew::to(far.y.data()) = ew::sum(x));
  CHECK(far.values(far.y.data(), far.stream)[3] == static_cast<float>(n / 4));

  ew::run_rows(far.stream, {n / 4, 4}, ew::out(far.y.data(), n) = ew::softmax(x));
  CHECK(far.holds(far.y, 0.25F));
  // A row too long for registers: with dynamic shared memory.
  constexpr std::size_t wide = std::size_t{1} << 16U;
  ww::device_buffer<float> row{far.pool, far.stream, wide};
  ww::for_each_index(far.stream, wide, fill{row.data(), 1.0F});
  ew::run_rows(
      far.stream, {1, wide},
      ew::out(row.data(), wide) = ew::softmax(ew::in(static_cast<float const*>(row.data()), wide)));
  CHECK(far.values(row.data(), far.stream)[0] == 1.0F / wide);

  far.set(far.y, 1.0F);
  ew::tensor_list<float> tensors;
  tensors.add(far.y.data(), n);
  ew::run_each(far.stream, tensors, add_one{});
  CHECK(far.holds(far.y, 2.0F));
  ew::tensor_list<float const> all;
  all.add(far.x.data(), n);
  ew::global_norm(far.stream, far.pool, all, far.y.data());
  CHECK(far.values(far.y.data(), far.stream)[0] == 64.0F);
}

TEST_CASE("any device: captures and graphs", "[devices]") {
  if (!have_two()) return;
  far_device far;
  auto const body = [&](ww::stream_ref on) { ww::for_each_index(on, n, fill{far.y.data(), 2.0F}); };
  ww::graph const captured = ww::capture(far.stream, body);
  ww::graph_exec exec{captured};
  exec.upload(far.stream);
  exec.launch(far.stream);
  CHECK(far.holds(far.y, 2.0F));
  ww::graph_exec copies{ww::capture(far.stream, [&](ww::stream_ref on) {
    far.x.set_to_zero(on);
    far.y.copy_from(on, far.x.data(), n);
  })};
  copies.launch(far.stream);
  CHECK(far.holds(far.y, 0.0F));

  auto const branches = [&](ww::capture_scope& scope) {
    scope.fork(4, [&](ww::stream_ref on, unsigned i) {
      ww::for_each_index(on, n / 4, fill{far.y.data() + i * (n / 4), 3.0F});
    });
  };
  ww::graph_exec forked{ww::capture(far.stream, branches)};
  forked.launch(far.stream);
  CHECK(far.holds(far.y, 3.0F));

  // A capture that other code has begun.
  ww::event event;
  ww::stream const side{far.id};
  ww::stream_pool streams{ww::device_id{0}, 2};
  ww::check(cudaStreamBeginCapture(far.stream.get(), cudaStreamCaptureModeThreadLocal), "begin");
  {
    ww::capture_scope scope{far.stream, ww::capture_scope::without_capture{}};
    branches(scope);
    scope.join_all();
  }
  event.record(far.stream);
  side.wait(event);
  ww::for_each_index(side, n, fill{far.y.data(), 4.0F});
  event.record(side);
  far.stream.wait(event);
  far.stream.wait(side);
  cudaGraph_t by_hand = nullptr;
  ww::check(cudaStreamEndCapture(far.stream.get(), &by_hand), "end");
  cudaGraphExec_t by_hand_exec = nullptr;
  ww::check(cudaGraphInstantiate(&by_hand_exec, by_hand, 0), "cudaGraphInstantiate");
  ww::check(cudaGraphLaunch(by_hand_exec, far.stream.get()), "cudaGraphLaunch");
  CHECK(far.holds(far.y, 4.0F));
  ww::check(cudaGraphExecDestroy(by_hand_exec), "cudaGraphExecDestroy");
  ww::check(cudaGraphDestroy(by_hand), "cudaGraphDestroy");

#if WARPWRIGHT_HAS_CONDITIONAL_NODES
  ww::device_scalar<int> yes{far.pool, far.stream, 1};
  ww::graph_exec conditional{ww::capture(far.stream, [&](ww::stream_ref on) {
    ww::run_if(on, yes.data(), [&](ww::stream_ref inner) {
      CHECK(current() == 1);
      ww::for_each_index(inner, n, fill{far.y.data(), 5.0F});
    });
  })};
  conditional.launch(far.stream);
  CHECK(far.holds(far.y, 5.0F));
#endif

  ww::graph_replay replay{1};
  for (int i = 0; i < 4; ++i) {
    far.set(far.y, 0.0F);
    replay.run(far.stream, body);
    CHECK(far.holds(far.y, 2.0F));
  }
  ww::graph_cache cache{ww::graph_cache_options{}.cost_gate(false)};
  for (int i = 0; i < 4; ++i) {
    far.set(far.y, 0.0F);
    cache.run(far.stream, ww::shape_key{n}, body);
    CHECK(far.holds(far.y, 2.0F));
  }
}

TEST_CASE("any device: measurements and choices", "[devices]") {
  if (!have_two()) return;
  far_device far;
  int elsewhere = 0;  // calls with another current device than the stream's
  auto const work = [&] {
    elsewhere += current() == 1 ? 0 : 1;
    ww::for_each_index(far.stream, n, fill{far.y.data(), 2.0F});
  };
  auto const on = [&](ww::stream_ref) { work(); };
  auto const quick =
      ww::measure_options{}.sample_seconds(0.0).min_seconds(0.0).min_samples(5).max_samples(5);
  CHECK(ww::measure(far.stream, work, quick).samples.size() == 5);
  auto const flush = [&](ww::stream_ref) {};
  CHECK(ww::measure_cold(far.stream, flush, work, quick).samples.size() == 5);
  CHECK(ww::compare(far.stream, quick, work, work).samples.size() == 2);
  CHECK(current() == 0);

  auto const set = ww::candidates(ww::candidate("a", on), ww::candidate("b", on));
  auto const options = ww::choose_options{}.sampling(quick);
  CHECK(!ww::choose(far.stream, set, options).name.empty());
  ww::chooser far_chooser{"devices", options, far.id};
  far_chooser.prepare(far.stream, n, set);
  ww::chooser near_chooser{"devices", options};
  CHECK_THROWS_WITH(near_chooser.prepare(far.stream, n, set),
                    contains("the stream is of device 1"));

  auto const table = ww::expectations{}.latency_at_most("step", 0.5, 1.0);
  static_cast<void>(ww::observe(far.stream, table, "step", work, 1.0));

  auto const batches = [&](std::size_t batch, ww::stream_ref stream) {
    elsewhere += current() == 1 ? 0 : 1;
    ww::for_each_index(stream, batch, fill{far.y.data(), 6.0F});
  };
  auto const tuner =
      ww::batch_tuner{}.range(1, 4).stop_after_flat(0).latency_calls(1).soak(1).sampling(quick);
  CHECK(tuner.tune(far.stream, batches).chosen().batch >= 1);
  CHECK(tuner.tune(far.stream, ww::captured(batches)).chosen().batch >= 1);
  CHECK(elsewhere == 0);
  CHECK(current() == 0);
  auto replayed = ww::captured(batches);
  replayed(n, far.stream);
  replayed(n, far.stream);
  CHECK(far.holds(far.y, 6.0F));
}
