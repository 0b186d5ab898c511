// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#include "scale/ranks.hpp"

#include <warpwright/core/device.hpp>
#include <warpwright/graph/graph_replay.hpp>
#include <warpwright/kernel/evaluate.hpp>
#include <warpwright/scale/gradient_reducer.hpp>

#if WARPWRIGHT_HOST_RUNTIME
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>
#endif

#include <cmath>

namespace {

namespace ww = warpwright;
namespace ew = ww::ew;
using ranks::error_of, ranks::expect;

std::vector<std::size_t> const counts{1000, 30, 70000, 0, 7, 200};

struct rank_setup {
  explicit rank_setup(int rank, ww::gradient_reducer_options const& options = {},
                      std::vector<std::size_t> const& sizes = counts,
                      std::string const& file = "store")
      : comm{ranks::meet(rank, 2, file), ranks::within(ranks::patient(20.0))},
        reduce{comm, pool, stream, sizes, options} {}
  // Writes (rank + 1) * (gradient + 1) * factor and says that it is ready.
  void write(ww::stream_ref s, std::size_t gradient, float factor = 1.0F) {
    ww::tensor const& t = reduce.gradients()[gradient];
    float const value = factor * static_cast<float>((comm.rank() + 1) * (int(gradient) + 1));
    ew::run(s, ew::out(static_cast<float*>(t.data), t.size) = value);
    reduce.ready(s, gradient);
  }
  void step(ww::stream_ref s) {
    for (std::size_t i = reduce.gradients().size(); i-- > 0;) write(s, i);
    reduce.finish(s);
  }
  // @return how many elements of all gradients are not `scale` times the gradient's number + 1
  std::size_t wrong(float scale) {
    comm.synchronize(stream);
    std::size_t different = 0;
    for (std::size_t i = 0; i < reduce.gradients().size(); ++i) {
      ww::tensor const& t = reduce.gradients()[i];
      std::vector<float> all(t.size);
      if (t.size == 0) continue;
      ww::check(cudaMemcpyAsync(all.data(), t.data, t.bytes(), cudaMemcpyDefault, stream.get()),
                "copy");
      stream.synchronize();
      for (float const v : all) different += v != scale * static_cast<float>(i + 1) ? 1U : 0U;
    }
    return different;
  }
  ww::stream stream;
  ww::memory_pool pool{ww::current_device()};
  ww::communicator comm;
  ww::gradient_reducer reduce;
};

TEST_CASE("gradients are the mean of the ranks, or their sum, also as bfloat16 and captured") {
  auto const all = ranks::run(2, [](int rank) {
    std::string text;
    int k = 0;
    for (bool const narrow : {false, true}) {
      for (bool const sum : {false, true}) {
        auto const options = ww::gradient_reducer_options{}.narrow(narrow).sum(sum);
        rank_setup r{rank, options.bucket_bytes(4096), counts, std::to_string(k++)};
        ww::graph_replay graph{0};
        for (int i = 0; i < 6; ++i) {
          auto const step = [&](ww::stream_ref s) { r.step(s); };
          i < 3 ? step(r.stream) : graph.run(r.stream, step);
          text += std::to_string(r.wrong(sum ? 3.0F : 1.5F)) + " ";
        }
      }
    }
    return text;
  });
  expect(all, {"0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 "});
}

TEST_CASE("the order is learnt in the first step, the size in the next ones") {
  auto const all = ranks::run(2, [](int rank) {
    // 12 MiB: sizes of 4, 10 and 25 MiB are tried.
    std::vector<std::size_t> const sizes(12, std::size_t{1} << 18U);
    rank_setup r{rank, {}, sizes};
    void const* const before = r.reduce.gradients()[7].data;
    std::string text;
    for (bool settled = false; !settled && text.size() < 40;) {
      for (std::size_t const i : {3U, 1U, 0U, 2U, 11U, 10U, 9U, 8U, 4U, 5U, 6U, 7U}) {
        r.write(r.stream, i);
      }
      r.reduce.finish(r.stream);
      if (r.wrong(1.5F) != 0) text += "wrong ";
      auto const s = r.reduce.statistics();
      settled = s.settled;
      text += settled ? "settled" : std::to_string(s.buckets) + " ";
      if (!(s.exposed_seconds >= 0.0 && s.step_seconds >= 0.0)) text += "times?";
    }
    return text + (before == r.reduce.gradients()[7].data ? "" : "a gradient has moved");
  });
  expect(all, {"3 3 3 2 2 2 1 1 1 settled"});
}

TEST_CASE("gradients may become ready on several streams") {
  auto const all = ranks::run(2, [](int rank) -> std::string {
    rank_setup r{rank};
    std::vector<ww::stream> streams(6);
    for (int step = 0; step < 20; ++step) {
      for (std::size_t i = 0; i < counts.size(); ++i) {
        ww::stream const& s = streams[(i + static_cast<std::size_t>(step)) % streams.size()];
        s.wait(r.stream.ref());
        r.write(s, i, static_cast<float>(step));
      }
      r.reduce.finish(r.stream);
      if (r.wrong(1.5F * static_cast<float>(step)) != 0)
        return "wrong in step " + std::to_string(step);
    }
    return "right";
  });
  expect(all, {"right"});
}

TEST_CASE("two ranks are as one rank that accumulates, and each run has the same bits") {
  constexpr std::size_t n = 4097;
  auto const value = [](int part, std::size_t i) {
    return std::sin(static_cast<float>(i) * 0.37F + static_cast<float>(part));
  };
  auto const all = ranks::run(2, [&](int rank) -> std::string {
    rank_setup r{rank, {}, {n}};
    std::vector<float> mine(n), first(n), got(n);
    for (std::size_t i = 0; i < n; ++i) mine[i] = value(rank, i);
    for (int run = 0; run < 10; ++run) {
      void* const data = r.reduce.gradients()[0].data;
      ww::check(cudaMemcpyAsync(data, mine.data(), n * 4, cudaMemcpyDefault, r.stream.get()),
                "copy");
      r.reduce.ready(r.stream, 0);
      r.reduce.finish(r.stream);
      ww::check(cudaMemcpyAsync(got.data(), data, n * 4, cudaMemcpyDefault, r.stream.get()),
                "copy");
      r.comm.synchronize(r.stream);
      if (run == 0) first = got;
      if (std::memcmp(first.data(), got.data(), n * 4) != 0) return "other bits";
      for (std::size_t i = 0; i < n; ++i) {
        if (std::abs(got[i] - 0.5F * (value(0, i) + value(1, i))) > 1e-6F) return "not the mean";
      }
    }
    return "same";
  });
  expect(all, {"same"});
}

TEST_CASE("misuse is refused, and the ranks hear of it") {
  auto const all = ranks::run(2, [](int rank) {
    rank_setup r{rank};
    std::string text = error_of([&] { r.reduce.ready(r.stream, 6); });
    r.reduce.ready(r.stream, 5);
    text += error_of([&] { r.reduce.ready(r.stream, 5); });
    if (rank == 0) return text + error_of([&] { r.reduce.finish(r.stream); });
    std::string heard = "nothing\n";
    for (int i = 0; i < 10000 && heard == "nothing\n"; ++i, ::usleep(1000)) {
      heard = error_of([&] { r.comm.check(); });
    }
    return text + heard;
  });
  expect(all, {"...gradient 6 of 6 does not exist"});
  expect(all, {"...gradient 5 of 6 does not exist, or is ready already"});
  expect(all, {"...gradient 0 of 6 is not ready (5 are not)"});
}

TEST_CASE("behind regroup() a new reducer works, and the one before is refused") {
  auto const all = ranks::run(2, [](int rank) {
    rank_setup r{rank};
    r.step(r.stream);
    r.comm.synchronize(r.stream);
    r.comm.regroup();
    std::string const ready = error_of([&] { r.reduce.ready(r.stream, 5); });
    std::string const finish = error_of([&] { r.reduce.finish(r.stream); });
    ww::gradient_reducer again{r.comm, r.pool, r.stream, counts};
    for (std::size_t i = 0; i < counts.size(); ++i) again.ready(r.stream, i);
    again.finish(r.stream);
    r.comm.synchronize(r.stream);
    return ready.substr(ready.find("made")) + finish.substr(finish.find("made"));
  });
  expect(all, {"made before regroup(): make it anew\nmade before regroup(): make it anew\n"});
}

TEST_CASE("ranks that differ in sizes are refused") {
  auto const all = ranks::run(2, [](int rank) {
    std::vector<std::size_t> const sizes{10, rank == 0 ? std::size_t{20} : std::size_t{21}};
    return error_of([&] { rank_setup{rank, {}, sizes}; });
  });
  expect(all, {"...rank 1 has other gradients or options than rank 0"});
}

#if WARPWRIGHT_HOST_RUNTIME
TEST_CASE("a reducer of which a step has failed is refused") {
  auto const all = ranks::run(2, [](int rank) {
    rank_setup r{rank};
    for (std::size_t i = counts.size(); i-- > 1;) r.reduce.ready(r.stream, i);
    ww::testing::scoped_fault_plan const faults{
        ww::testing::fault_plan{}.fail("cudaEventRecord", 1, cudaErrorUnknown)};
    std::string const text = error_of([&] { r.reduce.ready(r.stream, 0); });
    return text + error_of([&] { r.reduce.finish(r.stream); });
  });
  expect(all, {"...cudaEventRecord"});
  expect(all, {"...a step failed"});
}
TEST_CASE("ready() calls nothing before a bucket is full, and nothing waits but finish()") {
  auto const all = ranks::run(2, [](int rank) {
    rank_setup r{rank, ww::gradient_reducer_options{}.bucket_bytes(1 << 20)};
    for (int i = 0; i < 3; ++i) r.step(r.stream);
    r.comm.synchronize(r.stream);
    ww::testing::reset_call_counts();
    for (std::size_t i = counts.size(); i-- > 1;) r.reduce.ready(r.stream, i);
    // The communicator's own thread asks NCCL for its state.
    std::uint64_t made = 0;
    for (auto const& c : ww::testing::calls()) {
      made += std::string{c.name} == "ncclCommGetAsyncError" ? 0 : c.count;
    }
    std::string text = std::to_string(made) + " ";
    r.reduce.ready(r.stream, 0);
    r.reduce.finish(r.stream);
    for (char const* const call : {"ncclAllReduce", "cudaStreamWaitEvent", "cudaMemcpyAsync",
                                   "cudaMalloc", "cudaStreamSynchronize", "cudaEventSynchronize"}) {
      text += std::to_string(ww::testing::call_count(call)) + " ";
    }
    return text + (r.reduce.statistics().settled ? "settled" : "tuning");
  });
  // The communication waits for the gradients, finish() for it.
  expect(all, {"0 1 2 0 0 0 0 settled", "..."});
}
#endif

}  // namespace
