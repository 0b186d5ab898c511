// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Loops that run out of memory, against a simulated limit.
#include <warpwright/core/stream.hpp>
#include <warpwright/tune/batch_plan.hpp>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "measure/simulated_device.hpp"
#include "support/catch.hpp"
#include "support/sanitized.hpp"

namespace ww = warpwright;
using test_support::noise_source;

namespace {

[[noreturn]] void throw_out_of_memory() {
  ww::memory_report report;
  report.requested_bytes = 12345;
  report.device = 0;
  throw ww::out_of_memory{report};
}

// Items that fit at once, and what was run.
struct job {
  std::size_t capacity = 0;
  std::vector<int> runs;  // of each item
  std::size_t failures = 0;
  std::size_t largest = 0;
  explicit job(std::size_t items, std::size_t fits) : capacity{fits}, runs(items, 0) {}
  void operator()(std::size_t offset, std::size_t count) {
    if (count > capacity) {
      ++failures;
      throw_out_of_memory();
    }
    largest = count > largest ? count : largest;
    for (std::size_t i = 0; i < count; ++i) ++runs.at(offset + i);
  }
  bool each_once() const {
    for (int const n : runs) {
      if (n != 1) return false;
    }
    return true;
  }
};

std::size_t draw(noise_source& random, std::size_t most) {
  return 1 + static_cast<std::size_t>(random.uniform() * double(most));
}

// Reports steps of size() under a capacity; returns the number that failed.
std::size_t simulate(ww::dynamic_batch_size& batch, std::size_t steps, std::size_t capacity) {
  std::size_t failures = 0;
  for (std::size_t i = 0; i < steps; ++i) {
    if (batch.size() > capacity) {
      ++failures;
      batch.out_of_memory();
    } else {
      batch.succeeded();
    }
  }
  return failures;
}

}  // namespace

TEST_CASE("every item is run once, whatever fits", "[tune][dynamic_batch_size]") {
  constexpr std::uint64_t seed = 20260501;
  INFO("seed " << seed);
  noise_source random{seed};
  for (int trial = 0; trial < test_support::rounds(3000); ++trial) {
    std::size_t const multiple = draw(random, 8);
    std::size_t const largest = multiple * draw(random, 64);
    std::size_t const items = draw(random, 2000) - 1;
    job work{items, multiple + draw(random, 2 * largest)};
    auto batch = ww::dynamic_batch_size{largest}.multiple_of(multiple).grow_after(draw(random, 20));
    CAPTURE(trial, multiple, largest, items, work.capacity);
    std::vector<std::size_t> offsets;
    std::size_t const parts = batch.run(items, [&](std::size_t offset, std::size_t count) {
      REQUIRE(count > 0);
      REQUIRE(count <= largest);
      if (offset + count < items) REQUIRE(count % multiple == 0);
      // The capacity varies.
      if (random.uniform() < 0.02) work.capacity = multiple + draw(random, 2 * largest);
      work(offset, count);
      offsets.push_back(offset);
    });
    REQUIRE(work.each_once());
    REQUIRE(parts == offsets.size());
    for (std::size_t i = 1; i < offsets.size(); ++i) REQUIRE(offsets[i - 1] < offsets[i]);
    REQUIRE(batch.size() % multiple == 0);
  }
}

TEST_CASE("the size is halved, rounded to a multiple, and not below the least",
          "[tune][dynamic_batch_size]") {
  auto batch = ww::dynamic_batch_size{100}.minimum(20).multiple_of(8);
  CHECK(batch.size() == 96);
  batch.out_of_memory();
  CHECK(batch.size() == 48);
  batch.out_of_memory();
  CHECK(batch.size() == 24);
  CHECK_THROWS_AS(batch.out_of_memory(), ww::out_of_memory);
  CHECK_THROWS_WITH(
      batch.out_of_memory(),
      contains("a batch of 24 items does not fit, and dynamic_batch_size may use none below 24"));
  CHECK(batch.size() == 24);
}

TEST_CASE("the size starts where it is told", "[tune][dynamic_batch_size]") {
  CHECK(ww::dynamic_batch_size{64}.start_at(20).multiple_of(8).size() == 16);
  CHECK(ww::dynamic_batch_size{64}.start_at(999).size() == 64);
  CHECK(ww::dynamic_batch_size{64}.start_at(1).minimum(5).size() == 5);
}

TEST_CASE("the size grows after so many clean steps, and a failed try doubles them",
          "[tune][dynamic_batch_size]") {
  auto batch = ww::dynamic_batch_size{64}.start_at(8).grow_after(10);
  CHECK(simulate(batch, 9, 64) == 0);
  CHECK(batch.size() == 8);
  batch.succeeded();
  CHECK(batch.size() == 16);
  batch.out_of_memory();  // the try fails: back to the size before, not to half of that
  CHECK(batch.size() == 8);
  CHECK(batch.steps_before_growth() == 20);
  simulate(batch, 19, 64);
  CHECK(batch.size() == 8);
  batch.succeeded();
  CHECK(batch.size() == 12);  // halfway to what failed
  simulate(batch, 20, 64);    // it lasts
  CHECK(batch.steps_before_growth() == 10);
  CHECK(batch.size() == 14);
  batch.out_of_memory();
  simulate(batch, 20, 64);
  batch.out_of_memory();
  CHECK(batch.steps_before_growth() == 40);
  simulate(batch, 80, 64);  // a try that lasts halves the wait, but does not reset it
  CHECK(batch.steps_before_growth() == 20);
}

TEST_CASE("clean steps before a failure do not count", "[tune][dynamic_batch_size]") {
  auto batch = ww::dynamic_batch_size{64}.start_at(16).grow_after(10);
  simulate(batch, 9, 64);
  batch.out_of_memory();
  CHECK(batch.size() == 8);
  simulate(batch, 19, 64);
  CHECK(batch.size() == 8);
  batch.succeeded();
  CHECK(batch.size() == 12);
}

TEST_CASE("a failed part that is no multiple does not hold the size down",
          "[tune][dynamic_batch_size]") {
  auto batch = ww::dynamic_batch_size{64}.multiple_of(8).grow_after(5);
  job work{37, 36};
  batch.run(37, work);
  CHECK(work.each_once());
  CHECK(batch.size() == 16);
  simulate(batch, 2000, 64);
  CHECK(batch.size() == 64);
}

TEST_CASE("a size that has lasted and then fails is halved", "[tune][dynamic_batch_size]") {
  auto batch = ww::dynamic_batch_size{64}.start_at(32).grow_after(10);
  simulate(batch, 20, 64);
  CHECK(batch.size() == 64);
  simulate(batch, 100, 64);
  batch.out_of_memory();
  CHECK(batch.size() == 32);
}

TEST_CASE("under a constant limit failures are few and the size approaches the limit",
          "[tune][dynamic_batch_size]") {
  constexpr std::uint64_t seed = 20260502;
  INFO("seed " << seed);
  noise_source random{seed};
  std::size_t most = 0;
  for (int trial = 0; trial < test_support::rounds(1000); ++trial) {
    std::size_t const multiple = draw(random, 8);
    std::size_t const largest = multiple * draw(random, 256);
    std::size_t const capacity = multiple + draw(random, largest);
    std::size_t const wait = draw(random, 50);
    constexpr std::size_t steps = 20000;
    CAPTURE(trial, multiple, largest, capacity, wait);
    auto batch = ww::dynamic_batch_size{largest}.multiple_of(multiple).grow_after(wait);
    std::size_t const failures = simulate(batch, steps, capacity);
    most = failures > most ? failures : most;
    // Halving and bisecting the range, and tries at doubling distances.
    double const bound =
        2.0 * std::log2(double(largest / multiple)) + std::log2(double(steps) / double(wait)) + 2.0;
    REQUIRE(double(failures) <= bound);
    std::size_t const best = (capacity < largest ? capacity : largest) / multiple * multiple;
    // A try may be under way.
    REQUIRE(batch.size() <= best + multiple);
    REQUIRE(batch.size() + best / 4 + multiple >= best);
    // In the second half it is quiet.
    REQUIRE(simulate(batch, steps, capacity) <= 4);
  }
  std::printf("at most %zu failures in 20000 steps\n", most);
}

TEST_CASE("the size follows a limit that falls and rises again", "[tune][dynamic_batch_size]") {
  auto batch = ww::dynamic_batch_size{1024}.multiple_of(8).grow_after(20);
  CHECK(simulate(batch, 500, 2000) == 0);
  CHECK(batch.size() == 1024);
  simulate(batch, 3000, 100);
  CHECK(batch.size() <= 104);
  CHECK(batch.size() >= 64);
  simulate(batch, 10000, 2000);
  CHECK(batch.size() == 1024);
}

TEST_CASE("a part shorter than the size does not count as clean", "[tune][dynamic_batch_size]") {
  auto batch = ww::dynamic_batch_size{64}.start_at(16).grow_after(3);
  auto const nothing = [](std::size_t, std::size_t) {};
  for (int i = 0; i < 20; ++i) batch.run(5, nothing);
  CHECK(batch.size() == 16);
  CHECK(batch.run(3 * 16, nothing) == 3);
  CHECK(batch.size() == 32);
  CHECK(batch.run(0, nothing) == 0);
}

TEST_CASE("a last part that does not fit is divided, not the whole size",
          "[tune][dynamic_batch_size]") {
  auto batch = ww::dynamic_batch_size{64};
  job work{20, 6};
  batch.run(20, work);
  CHECK(work.each_once());
  CHECK(work.failures == 2);  // 20 and 10; then parts of 5
  CHECK(work.largest == 5);
}

TEST_CASE("a last part that does not fit while a larger size is tried is not run twice",
          "[tune][dynamic_batch_size]") {
  auto batch = ww::dynamic_batch_size{64}.start_at(16).grow_after(1);
  batch.succeeded();
  REQUIRE(batch.size() == 32);
  job work{5, 2};
  batch.run(5, work);
  CHECK(work.each_once());
  CHECK(work.failures == 1);  // of 5, which says nothing about 32; then 2, 2 and 1
}

TEST_CASE("what counts as out of memory by default", "[tune][dynamic_batch_size]") {
  for (int kind = 0; kind < 3; ++kind) {
    CAPTURE(kind);
    int calls = 0;
    std::size_t done = 0;
    auto batch = ww::dynamic_batch_size{8};
    batch.run(8, [&](std::size_t, std::size_t count) {
      if (++calls == 1) {
        if (kind == 0) throw_out_of_memory();
        if (kind == 1) throw std::bad_alloc{};
        throw ww::cuda_error{cudaErrorMemoryAllocation, "cudaMalloc",
                             ww::source_location::current(), false};
      }
      done += count;
    });
    CHECK(done == 8);
    CHECK(batch.size() == 4);
  }
}

TEST_CASE("other exceptions pass, and the items before the failed part are done",
          "[tune][dynamic_batch_size]") {
  for (int kind = 0; kind < 4; ++kind) {
    CAPTURE(kind);
    std::vector<std::size_t> done;
    auto batch = ww::dynamic_batch_size{4};
    auto const f = [&](std::size_t offset, std::size_t) {
      if (offset == 8) {
        if (kind == 0) throw std::runtime_error{"other"};
        if (kind == 1) throw 42;
        throw ww::cuda_error{kind == 2 ? cudaErrorInvalidValue : cudaErrorMemoryAllocation,
                             "cudaMalloc", ww::source_location::current(),
                             kind == 3};  // the last one is sticky
      }
      done.push_back(offset);
    };
    bool thrown = false;
    try {
      batch.run(16, f);
    } catch (...) {
      thrown = true;
    }
    CHECK(thrown);
    CHECK(done == std::vector<std::size_t>{0, 4});
    CHECK(batch.size() == 4);
  }
}

TEST_CASE("a classifier decides for a library's own exception", "[tune][dynamic_batch_size]") {
  struct library_error : std::runtime_error {
    int code;
    explicit library_error(int c) : std::runtime_error{"library"}, code{c} {}
  };
  auto const classify = [](std::exception_ptr const& error) {
    try {
      std::rethrow_exception(error);
    } catch (library_error const& e) {
      return e.code == 2;
    } catch (...) {
      return false;
    }
  };
  std::size_t done = 0;
  auto batch = ww::dynamic_batch_size{8};
  auto const f = [&](std::size_t, std::size_t count) {
    if (count > 3) throw library_error{2};
    done += count;
  };
  CHECK_THROWS_AS(batch.run(8, f), library_error);
  batch.run(8, f, classify);
  CHECK(done == 8);
  CHECK(batch.size() == 2);
  CHECK_THROWS_AS(batch.run(
                      8, [](std::size_t, std::size_t) { throw library_error{1}; }, classify),
                  library_error);
  // It also decides against the default.
  CHECK_THROWS_AS(batch.run(
                      8, [](std::size_t, std::size_t) { throw std::bad_alloc{}; }, classify),
                  std::bad_alloc);
  CHECK_THROWS_WITH(batch.run(
                        8, [](std::size_t, std::size_t) { throw_out_of_memory(); }, classify),
                    contains("requested 12345"));
  CHECK(batch.size() == 2);
}

TEST_CASE("the exception and what it holds are gone before the items are run again",
          "[tune][dynamic_batch_size]") {
  struct holding : std::bad_alloc {
    std::shared_ptr<int> memory;
  };
  auto const memory = std::make_shared<int>(1);
  long holders = 0;
  auto batch = ww::dynamic_batch_size{8};
  batch.run(8, [&](std::size_t, std::size_t count) {
    if (count == 8) {
      holding error;
      error.memory = memory;
      throw error;
    }
    holders = memory.use_count() > holders ? memory.use_count() : holders;
    CHECK(std::current_exception() == nullptr);
  });
  CHECK(holders == 1);
}

TEST_CASE("CUDA's last error is clear when the items are run again", "[tune][dynamic_batch_size]") {
  auto batch = ww::dynamic_batch_size{8};
  cudaError_t seen = cudaSuccess;
  batch.run(8, [&](std::size_t, std::size_t count) {
    seen = cudaPeekAtLastError();
    if (count == 8) {
      void* pointer = nullptr;
      // An allocation that no device has, whose error stays pending.
      static_cast<void>(cudaMalloc(&pointer, ~std::size_t{0} / 4));
      REQUIRE(cudaPeekAtLastError() != cudaSuccess);
      throw std::bad_alloc{};
    }
  });
  CHECK(seen == cudaSuccess);
  CHECK(cudaPeekAtLastError() == cudaSuccess);
}

TEST_CASE("an error that a part leaves pending counts as thrown by it",
          "[tune][dynamic_batch_size]") {
  auto batch = ww::dynamic_batch_size{8};
  std::vector<std::size_t> counts;
  batch.run(8, [&](std::size_t, std::size_t count) {
    counts.push_back(count);
    void* pointer = nullptr;
    if (count == 8) static_cast<void>(cudaMalloc(&pointer, ~std::size_t{0} / 4));
  });
  CHECK(counts == std::vector<std::size_t>{8, 4, 4});

  CHECK_THROWS_WITH(
      batch.run(4, [](std::size_t, std::size_t) { static_cast<void>(cudaSetDevice(12345)); }),
      contains("the function of dynamic_batch_size::run: cudaErrorInvalidDevice"));
  CHECK(cudaGetLastError() == cudaSuccess);

  static_cast<void>(cudaSetDevice(12345));
  CHECK_THROWS_WITH(batch.run(4, [](std::size_t, std::size_t) { FAIL("not called"); }),
                    contains("a call before dynamic_batch_size::run"));
}

TEST_CASE("when the least size fails the text names it and keeps the figures",
          "[tune][dynamic_batch_size]") {
  auto batch = ww::dynamic_batch_size{64}.minimum(10).multiple_of(4);
  std::vector<std::size_t> counts;
  auto const fail = [&](std::size_t, std::size_t count) {
    counts.push_back(count);
    throw_out_of_memory();
  };
  try {
    batch.run(100, fail);
    FAIL("nothing fits");
  } catch (ww::out_of_memory const& error) {
    CHECK(error.report().requested_bytes == 12345);
    CHECK(std::string{error.what()}.find("a batch of 12 items does not fit") != std::string::npos);
  }
  CHECK(counts == std::vector<std::size_t>{64, 32, 16, 12});
  // Of an exception without figures the device's are reported.
  try {
    batch.run(100, [](std::size_t, std::size_t) { throw std::bad_alloc{}; });
    FAIL("nothing fits");
  } catch (ww::out_of_memory const& error) {
    CHECK(error.report().limit_bytes > 0);
    CHECK(error.report().device >= 0);
  }
}

TEST_CASE("settings of a dynamic batch size out of range are refused",
          "[tune][dynamic_batch_size]") {
  using ww::dynamic_batch_size;
  auto const nothing = [](std::size_t, std::size_t) { FAIL("not called"); };
  for (auto batch :
       {dynamic_batch_size{0}, dynamic_batch_size{8}.minimum(0), dynamic_batch_size{8}.minimum(9),
        dynamic_batch_size{8}.multiple_of(0), dynamic_batch_size{8}.multiple_of(9),
        dynamic_batch_size{8}.start_at(0), dynamic_batch_size{8}.grow_after(0),
        dynamic_batch_size{10}.minimum(9).multiple_of(8)}) {
    CHECK_THROWS_AS(batch.size(), std::invalid_argument);
    CHECK_THROWS_AS(batch.out_of_memory(), std::invalid_argument);
    CHECK_THROWS_AS(batch.run(1, nothing), std::invalid_argument);
  }
  CHECK_THROWS_WITH(dynamic_batch_size{8}.minimum(9).size(), contains("minimum 9"));
}
