// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Deliberately broken allocators must be detected, and correct ones must pass.
#include "tools/warpwright_replay/verifier.hpp"

#include "memory/support.hpp"
#include "support/catch.hpp"
#include "support/device_memory.hpp"
#include "support/sanitized.hpp"
#include "tools/warpwright_replay/replay.hpp"

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace ww = warpwright;
using replay::verify_level;

namespace {

constexpr std::size_t mib = std::size_t{1} << 20U;

// A random trace whose blocks are freed on any stream.
replay::trace random_trace(unsigned seed, unsigned operations, unsigned streams) {
  std::mt19937 random{seed};
  replay::detail::builder builder{"random.csv"};
  struct live_block {
    std::uint64_t id;
    std::uint64_t bytes;
    std::uint32_t stream;
  };
  std::vector<live_block> live;
  for (unsigned i = 0; i < operations; ++i) {
    auto const stream = static_cast<std::uint32_t>(random() % streams);
    if (live.size() > 60 || (!live.empty() && random() % 9 < 4)) {
      std::swap(live[random() % live.size()], live.back());
      // One free in five is on another stream.
      builder.free(live.back().id, live.back().bytes,
                   random() % 5 == 0 ? stream : live.back().stream, i + 1);
      live.pop_back();
    } else {
      std::uint64_t const bytes =
          random() % 50 == 0 ? 0 : 1 + random() % (random() % 4 == 0 ? 300000 : 2000);
      live.push_back(live_block{i, bytes, stream});
      builder.allocate(i, bytes, stream, i + 1);
    }
  }
  return builder.finish();
}

replay::trace trace_of(std::vector<std::string> const& lines) {
  replay::detail::builder builder{"test.csv"};
  for (std::size_t i = 0; i < lines.size(); ++i) {
    replay::detail::read_own_line("test.csv", lines[i], i + 1, builder);
  }
  return builder.finish();
}

// Common to the broken allocators: one block of memory, and no memory management.
class liar {
 public:
  struct options {};
  static constexpr char const* name = "liar";
  liar(replay::stream_set& streams, options const&) : streams_{streams}, memory_{4 * mib} {}
  [[nodiscard]] replay::allocator_counters counters() const { return {}; }

 protected:
  replay::stream_set& streams_;
  test_support::device_array<unsigned char> memory_;
};

// Returns the same memory for every request.
struct same_again : liar {
  using liar::liar;
  void* allocate(std::uint32_t, std::uint64_t) { return memory_.data(); }
  void deallocate(std::uint32_t, std::uint32_t, void*, std::uint64_t) {}
};

// Its blocks overlap by their last 256 bytes.
struct too_short : liar {
  using liar::liar;
  void* allocate(std::uint32_t, std::uint64_t bytes) {
    void* const p = memory_.data() + next_;
    next_ += bytes / 256 * 256;
    return p;
  }
  void deallocate(std::uint32_t, std::uint32_t, void*, std::uint64_t) {}
  std::uint64_t next_ = 0;
};

struct misaligned : liar {
  using liar::liar;
  void* allocate(std::uint32_t, std::uint64_t) { return memory_.data() + 64; }
  void deallocate(std::uint32_t, std::uint32_t, void*, std::uint64_t) {}
};

// Writes its own data into memory that it has allocated.
struct scribbler : liar {
  using liar::liar;
  void* allocate(std::uint32_t stream, std::uint64_t bytes) {
    if (next_ != 0) {
      ww::check(cudaMemsetAsync(memory_.data() + 300, 0, 8, streams_[stream].get()),
                "cudaMemsetAsync");
    }
    void* const p = memory_.data() + next_;
    next_ += (bytes + 255) / 256 * 256;
    return p;
  }
  void deallocate(std::uint32_t, std::uint32_t, void*, std::uint64_t) {}
  std::uint64_t next_ = 0;
};

// Allocates a block freed on one stream to another at once, without waiting for the first.
struct impatient : liar {
  using liar::liar;
  void* allocate(std::uint32_t stream, std::uint64_t bytes) {
    if (bytes != 1) return memory_.data();
    streams_[stream].synchronize();  // the previous block is written; its check is blocked
    held_ = std::make_unique<test_support::gate>(streams_[stream]);
    return memory_.data() + mib;
  }
  void deallocate(std::uint32_t stream, std::uint32_t, void*, std::uint64_t) {
    if (stream != 1) return;
    streams_[1].synchronize();
    held_.reset();
  }
  std::unique_ptr<test_support::gate> held_;
};

template <class Allocator>
replay::result run(replay::trace const& what, verify_level level = verify_level::full,
                   bool threads = false, unsigned repeat = 1) {
  replay::replay_settings how;
  how.verify = level;
  how.threads = threads;
  how.repeat = repeat;
  how.samples = 100;
  return replay::replayer<Allocator>{what, how}.run({});
}

std::string all_of(replay::result const& r) {
  std::string text;
  for (std::string const& each : r.messages) text += each + '\n';
  return text;
}

}  // namespace

TEST_CASE("an allocator that returns live memory is detected") {
  replay::trace const t = trace_of({"a,0,1000,0", "a,1,500,0", "f,0,1000,0", "f,1,500,0"});
  for (verify_level const level : {verify_level::none, verify_level::ends, verify_level::full}) {
    replay::result const r = run<same_again>(t, level);
    CHECK(r.errors >= 1);
    CHECK_THAT(all_of(r),
               contains("line 2: the block overlaps the live one of line 1, which is at 0x"));
    // The second block's pattern overwrites the first one's.
    bool const lost = all_of(r).find("line 1: data written into the block of this line changed") !=
                      std::string::npos;
    CHECK(lost == (level != verify_level::none));
  }
}

TEST_CASE("blocks that overlap by their ends are detected, and only those") {
  replay::result const r = run<too_short>(
      trace_of({"a,0,512,0", "a,1,600,0", "a,2,512,0", "f,0,512,0", "f,1,600,0", "f,2,512,0"}),
      verify_level::ends);
  CHECK(r.errors == 2);  // seen at the allocation, and in the data
  CHECK_THAT(all_of(r), contains("line 3: the block overlaps the live one of line 2"));
  CHECK_THAT(all_of(r), contains("line 2: data written into the block of this line changed"));
}

TEST_CASE("the same memory is not an overlap when it is freed in between") {
  replay::result const r =
      run<same_again>(trace_of({"a,0,1000,0", "f,0,1000,0", "a,1,3000,0", "f,1,3000,0"}));
  CHECK(r.errors == 0);
  CHECK(r.peak_live_bytes == 3000);
}

TEST_CASE("a pointer that is not aligned is detected") {
  replay::result const r = run<misaligned>(trace_of({"a,0,100,0", "f,0,100,0"}));
  CHECK(r.errors == 1);
  CHECK_THAT(all_of(r), contains("is not aligned to 256 bytes"));
}

TEST_CASE("each written byte is checked, and `ends` writes three parts") {
  ww::stream s;
  constexpr std::uint64_t bytes = 4096 + 3;
  test_support::device_array<unsigned char> memory{bytes};
  for (verify_level const level : {verify_level::ends, verify_level::full}) {
    for (std::uint64_t const spoilt : {std::uint64_t{0}, std::uint64_t{255}, std::uint64_t{600},
                                       bytes / 2, bytes - 200, bytes - 1}) {
      replay::verifier watcher{1, level};
      watcher.allocated(0, 1, s, memory.data(), bytes);
      unsigned char value = 0;
      s.synchronize();
      ww::check(cudaMemcpy(&value, memory.data() + spoilt, 1, cudaMemcpyDeviceToHost),
                "cudaMemcpy");
      ww::check(cudaMemset(memory.data() + spoilt, value ^ 1, 1), "cudaMemset");
      ww::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
      watcher.freeing(0, s, memory.data(), bytes);
      bool const covered = level == verify_level::full || spoilt != 600;
      CHECK(watcher.finish() == (covered ? 1U : 0U));
    }
  }
}

TEST_CASE("two blocks of the same size have different patterns") {
  ww::stream s;
  test_support::device_array<unsigned char> memory{4096};
  replay::verifier watcher{2, verify_level::full};
  watcher.allocated(0, 1, s, memory.data(), 64);
  watcher.allocated(1, 2, s, memory.data() + 256, 64);
  ww::check(cudaMemcpyAsync(memory.data(), memory.data() + 256, 64, cudaMemcpyDeviceToDevice, s),
            "cudaMemcpyAsync");
  watcher.freeing(0, s, memory.data(), 64);
  watcher.freeing(1, s, memory.data() + 256, 64);
  CHECK(watcher.finish() == 1);
  CHECK(watcher.finish() == 1);  // counted once
  CHECK(watcher.messages().size() == 1);
}

TEST_CASE("an allocator that writes into live memory is detected by the data") {
  replay::result const r =
      run<scribbler>(trace_of({"a,0,1000,0", "a,1,1000,0", "f,0,1000,0", "f,1,1000,0"}));
  CHECK(r.errors == 1);
  CHECK_THAT(all_of(r), contains("line 1: data written into the block of this line changed"));
}

TEST_CASE("a reuse that does not wait for the other stream is detected by the data") {
  // No two blocks are live at once: only the order of the streams is wrong.
  replay::result const r =
      run<impatient>(trace_of({"a,0,4096,0", "a,9,1,0", "f,0,4096,0", "a,1,4096,1", "f,1,4096,1"}));
  CHECK(r.errors == 1);
  CHECK_THAT(all_of(r), contains("line 1: data written into the block of this line changed"));
}

TEST_CASE("of many errors the first are reported and all are counted") {
  std::vector<std::string> lines;
  for (int i = 0; i < 30; ++i) lines.push_back("a," + std::to_string(i) + ",100,0");
  replay::result const r = run<same_again>(trace_of(lines), verify_level::none);
  CHECK(r.errors == 29);
  CHECK(r.messages.size() == 10);
}

TEST_CASE("every allocator passes random traces, serially and with threads") {
  constexpr unsigned operations = test_support::sanitized ? 1000 : 3000;
  unsigned const seed = std::random_device{}();
  INFO("seed " << seed);
  replay::trace const t = random_trace(seed, operations, 4);
  for (bool const threads : {false, true}) {
    for (unsigned const repeat : {1U, 2U}) {
      std::vector<replay::result> results;
      results.push_back(run<replay::best_fit_allocator>(t, verify_level::full, threads, repeat));
      results.push_back(run<replay::async_allocator>(t, verify_level::full, threads, repeat));
      results.push_back(run<replay::pool_allocator>(t, verify_level::full, threads, repeat));
      for (replay::result const& r : results) {
        CHECK(r.allocator + all_of(r) == r.allocator);
        CHECK(r.errors == 0);
        CHECK(r.operations == operations);
        CHECK(r.peak_live_bytes > 0);
        CHECK(r.peak_reserved_bytes >= r.peak_live_bytes);
        if (!threads) CHECK(r.peak_live_bytes == t.peak_live_bytes);
        CHECK(r.ns_per_op > 0.0);
        CHECK(r.curve.size() > 50);
        CHECK(r.curve.front().operation == 0);
      }
      // Every block of at least one byte costs a call.
      CHECK(results[1].cuda_calls_per_op > 0.9);
      CHECK(results[1].cuda_calls_per_op <= 1.0);
      CHECK(results[2].cuda_calls_per_op < 0.9);
    }
  }
}

TEST_CASE("an allocator without memory ends the replay, also with threads") {
  replay::trace const t = trace_of(
      {"a,0,1000,0", "a,1,1000,1", "a,2,1152921504606846976,1", "f,0,1000,1", "f,1,1000,0"});
  for (bool const threads : {false, true}) {
    CHECK_THROWS_WITH(run<replay::best_fit_allocator>(t, verify_level::none, threads),
                      contains("test.csv:3: no memory for 1152921504606846976 bytes"));
    CHECK_THROWS_AS(run<replay::pool_allocator>(t, verify_level::none, threads),
                    replay::replay_error);
  }
}

#if WARPWRIGHT_HOST_RUNTIME
TEST_CASE("the pool's count of CUDA calls includes each call that maps memory") {
  replay::stream_set streams{1};
  replay::pool_allocator pool{streams,
                              ww::memory_pool_options{}.source(ww::memory_source::virtual_memory)};
  ww::testing::reset_call_counts();
  void* const p = pool.allocate(0, 50 * mib);
  std::uint64_t made = 0;
  for (char const* const name : {"cuMemCreate", "cuMemMap", "cuMemSetAccess"}) {
    made += ww::testing::call_count(name);
  }
  CHECK(made >= 3);
  CHECK(pool.counters().cuda_calls == made);
  pool.deallocate(0, 0, p, 50 * mib);
}
#endif
