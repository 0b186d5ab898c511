// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Processes that are killed while they save, and a run that is stopped and goes on. Only children
// use the CUDA runtime, which does not outlive a fork().
#include "support/sanitized.hpp"
#include "train/checkpoint_support.hpp"

#include <warpwright/train/optimizers.hpp>
#include <warpwright/train/stop.hpp>

#include <atomic>
#include <chrono>
#include <csignal>
#include <random>

#include <sys/mman.h>
#include <sys/wait.h>

using namespace test_support;

namespace {

// Memory that parents and children share.
struct shared_memory {
  std::atomic<std::uint64_t> saved;  // the last step whose save has returned
  std::atomic<int> bad;              // 0, or what is wrong
  std::atomic<bool> started;
};
shared_memory& shared() {
  static void* const memory = ::mmap(nullptr, sizeof(shared_memory), PROT_READ | PROT_WRITE,
                                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return *static_cast<shared_memory*>(memory);
}

constexpr bool nightly = WARPWRIGHT_NIGHTLY != 0;

// Restores, checks, and saves until it is killed.
void save_for_ever(std::string const& path) {
  state s;
  ww::checkpoint_writer saver{path, ww::checkpoint_options{}.keep(2).ring(32768)};
  std::uint64_t step = saver.restore(s.list);
  if (step < shared().saved || (step != 0 && !s.is(step))) shared().bad = 1;
  if (!saver.skipped().empty() && step != 0) shared().bad = 2;  // the first save may be cut off
  shared().started = true;
  for (;;) {
    s.set(++step);
    if (!saver.save(step, s.stream, s.list).wait()) shared().bad = 3;
    shared().saved = step;
  }
}

// AdamW of gradients that depend on the step, for 300 steps.
void train(std::string const& path, bool& ended) {
  ww::stop_signal stop{SIGTERM};
  shared().started = true;
  ww::stream stream;
  ww::memory_pool pool{ww::current_device()};
  ww::device_buffer<float> memory{pool, stream, 2000};
  ww::check(cudaMemsetAsync(memory.data(), 0, memory.size_bytes(), stream.get()), "memset");
  ww::tensor_list parameters;
  ww::tensor_list gradients;
  parameters.add("w", memory.data(), 1000);
  gradients.add("w", memory.data() + 1000, 1000);
  ww::adamw optimizer{pool, stream, parameters, ww::adamw_options{}.warm_up(20).cosine(300)};
  ww::tensor_list state{parameters};
  optimizer.add_to(state);
  ww::checkpoint_writer saver{path};
  std::vector<float> values(1000);
  std::uint64_t step = saver.restore(state);
  if (step != shared().saved) shared().bad = 5;
  for (; step < 300 && !stop.requested(); ++step) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>((i * 31 + step * 17) % 101) * 0.01F - 0.5F;
    }
    ww::check(cudaMemcpyAsync(memory.data() + 1000, values.data(), 4000, cudaMemcpyHostToDevice,
                              stream.get()),
              "copy");
    optimizer.step(stream, gradients);
    stream.synchronize();
    if (step % 50 == 49) saver.save(step + 1, stream, state);
    ::usleep(200);
  }
  ended = step == 300;
  if (!saver.save(step, stream, state).wait()) shared().bad = 4;
  shared().saved = step;
}

void pause(std::uint64_t microseconds) { ::usleep(static_cast<useconds_t>(microseconds)); }

template <class Function>
pid_t start(Function const& function) {
  pid_t const child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) ::_exit(function());
  return child;
}
int wait_for(pid_t child) {
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return status;
}

}  // namespace

TEST_CASE("a process is killed at any time: the state is whole, and none that was saved is lost") {
  unsigned const seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random{seed};
  folder const f;
  shared().saved = 0;
  shared().bad = 0;
  for (int round = 0; round < (nightly ? 1000 : 60); ++round) {
    CAPTURE(round);
    shared().started = false;
    std::string const path = f.path();
    std::uint64_t const before = shared().saved;
    pid_t const child = start([&] {
      save_for_ever(path);
      return 0;
    });
    while (!shared().started) ::usleep(100);
    // Half of them once they have saved, whatever the disk takes for it.
    while (round % 2 == 0 && shared().saved == before && shared().bad == 0) ::usleep(100);
    pause(random() % 20000);
    REQUIRE(::kill(child, SIGKILL) == 0);
    REQUIRE(WTERMSIG(wait_for(child)) == SIGKILL);
    REQUIRE(shared().bad == 0);
  }
  CHECK(shared().saved >= 30);
}

TEST_CASE("a run that is stopped at any time ends soon, and goes on to the same bits") {
  unsigned const seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random{seed};
  folder const undisturbed;
  folder const stopped;
  shared().saved = 0;
  shared().bad = 0;
  auto const run = [](std::string const& path) {
    return start([&] {
      bool ended = false;
      train(path, ended);
      return ended ? 1 : 0;
    });
  };
  REQUIRE(WEXITSTATUS(wait_for(run(undisturbed.path()))) == 1);
  int stops = 0;
  int const enough = nightly ? 200 : 12;
  std::string const expected = content(undisturbed.newest(".safetensors"));
  while (stops < enough) {
    folder const again;  // a run ends before it was stopped often enough
    shared().saved = 0;
    for (int ended = 0; ended == 0;) {
      shared().started = false;
      pid_t const child = run(again.path());
      while (!shared().started) ::usleep(100);
      pause(random() % 60000);
      auto const from = std::chrono::steady_clock::now();
      ::kill(child, SIGTERM);
      int const status = wait_for(child);
      REQUIRE(WIFEXITED(status));
      ended = WEXITSTATUS(status);
      stops += ended == 0 ? 1 : 0;
      if (ended == 0) CHECK(std::chrono::steady_clock::now() - from < std::chrono::seconds{30});
    }
    REQUIRE(content(again.newest(".safetensors")) == expected);
  }
  CHECK(shared().bad == 0);
}
