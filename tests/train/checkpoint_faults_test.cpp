// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Files and CUDA calls that fail, folders that are full, read-only or gone, and two writers.
#include "train/checkpoint_support.hpp"

#include <warpwright/core/detail/system/crc32c.hpp>
#include <warpwright/core/detail/system/file.hpp>
#include <warpwright/testing/fault_plan.hpp>
#include <warpwright/testing/host_runtime.hpp>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <thread>

#include <sys/resource.h>
#include <sys/wait.h>

using namespace test_support;
using Catch::Contains;

namespace {

using ww::detail::stdio_operations;
using options = ww::checkpoint_options;

// Operations of which one call fails: the nth, of all.
struct failing_files {
  std::size_t nth = 0;
  bool half = false;  // a write or read is short
  int error = ENOSPC;
  std::size_t calls = 0;
  std::string log;  // a letter a call

  bool fails(char letter) {
    log += letter;
    errno = 0;
    if (++calls != nth) return false;
    errno = letter == 'r' ? EIO : error;
    return true;
  }
  static failing_files& of(void* context) { return *static_cast<failing_files*>(context); }

  ww::detail::file_operations operations{
      this,
      [](void* c, char const* path, char const* mode) {
        return of(c).fails('o') ? nullptr : std::fopen(path, mode);
      },
      [](void* c, std::FILE* file, void const* data, std::size_t bytes) {
        bool const fails = of(c).fails('w');
        return fails && !of(c).half ? 0 : std::fwrite(data, 1, fails ? bytes / 2 : bytes, file);
      },
      [](void* c, std::FILE* file) {
        return of(c).fails('f') ? -1 : stdio_operations.flush(nullptr, file);
      },
      [](void* c, std::FILE* file) {
        bool const fails = of(c).fails('c');
        int const before = errno;
        std::fclose(file);
        errno = before;
        return fails ? -1 : 0;
      },
      [](void* c, char const* from, char const* to) {
        return of(c).fails('m') ? -1 : std::rename(from, to);
      },
      [](void* c, char const* path) {
        bool const manifest = std::string{path}.find(".manifest") != std::string::npos;
        return of(c).fails(manifest ? 'D' : 'd') ? -1 : std::remove(path);
      },
      [](void* c, std::FILE* file, void* data, std::size_t bytes) {
        bool const fails = of(c).fails('r');
        return fails && !of(c).half ? 0 : std::fread(data, 1, fails ? bytes / 2 : bytes, file);
      },
      [](void* c, std::FILE* file) {
        return of(c).fails('s') ? -1 : stdio_operations.sync(nullptr, file);
      },
      [](void* c, char const* path) {
        return of(c).fails('S') ? -1 : stdio_operations.sync_folder(nullptr, path);
      }};
};

std::string save_fails(std::string const& folder, state& s, options const& with = {}) {
  std::string text;
  ww::checkpoint_writer saver{folder, with.on_failure([&](std::string const& t) { text = t; })};
  CHECK_FALSE(saver.save(1000, s.stream, s.list).wait());
  CHECK(saver.error() == text);
  return text;
}

}  // namespace

TEST_CASE("the checksum is CRC-32C, by instructions and by tables") {
  using ww::detail::crc32c;
  CHECK(crc32c("123456789", 9) == 0xe3069283U);
  CHECK(crc32c("", 0) == 0);
  std::string text;
  for (unsigned i = 0; i < 300; ++i) text += static_cast<char>(i * 7 + i / 16);
  for (std::size_t begin = 0; begin < 9; ++begin) {
    for (std::size_t n = 0; n < 40; ++n) {
      auto const* const data = reinterpret_cast<unsigned char const*>(text.data()) + begin;
      std::uint32_t const crc = crc32c(data, n);
      CHECK(crc == ~ww::detail::crc32c_by_tables<>(~0U, data, n));
      CHECK(crc32c(data + n, 100 - n, crc) == crc32c(data, 100));
    }
  }
}

TEST_CASE("the file is on the disk before its name, and the manifest behind both") {
  folder const f;
  state s;
  failing_files files;
  ww::checkpoint_writer saver{f.path(), options{}.files(files.operations)};
  REQUIRE(saver.save(1, s.stream, s.list).wait());
  std::string log = files.log;
  log.erase(std::unique(log.begin(), log.end()), log.end());
  CHECK(log == "owfscmSowfscmS");
  files.log.clear();
  REQUIRE(saver.save(2, s.stream, s.list).wait());
  REQUIRE(saver.save(3, s.stream, s.list).wait());
  CHECK(files.log.substr(files.log.size() - 3) == "SDd");  // the oldest goes at last
}

TEST_CASE("every file call fails once, or is short: a whole state, at most one save old") {
  for (bool const half : {false, true}) {
    bool reached = true;  // the call that fails
    for (std::size_t nth = 1; reached; ++nth) {
      CAPTURE(half, nth);
      folder const f;
      state s;
      failing_files files;
      files.half = half;
      bool saved = true;
      {
        ww::checkpoint_writer saver{
            f.path(),
            options{}.keep(1).files(files.operations).on_failure([](std::string const&) {})};
        s.set(1);
        REQUIRE(saver.save(1, s.stream, s.list).wait());
        files.calls = 0;
        files.nth = nth;
        s.set(2);
        saved = saver.save(2, s.stream, s.list).wait();
        reached = files.calls >= nth;
        files.nth = 0;
        if (!saved) {
          if (files.log.find('m') != std::string::npos &&
              f.newest("2.manifest") == f.path() + '/') {
            CHECK(f.names().size() == 2);  // those of step 1
          }
          CHECK_THAT(saver.error(), Contains("step 2 is not saved: cannot write to '" + f.path() +
                                             "': No space left on device; make room; the "));
          CHECK_THAT(saver.error(), Contains("the training goes on"));
        }
      }
      ww::checkpoint_writer saver{f.path(), options{}.keep(1)};
      std::uint64_t const step = saver.restore(s.list);
      REQUIRE(step >= (saved ? 2 : 1));
      REQUIRE(s.is(step));
      s.set(3);
      REQUIRE(saver.save(3, s.stream, s.list).wait());
      REQUIRE(f.names().size() == 2);  // nothing is left of what failed
    }
  }
}

TEST_CASE("every file call of a restore fails once: the one before, or an exception") {
  folder const f;
  state s;
  {
    ww::checkpoint_writer saver{f.path()};
    for (std::uint64_t const step : {1, 2}) {
      s.set(step);
      REQUIRE(saver.save(step, s.stream, s.list).wait());
    }
  }
  failing_files files;
  std::size_t failures = 0;
  for (std::size_t nth = 1; nth <= 40; ++nth) {
    CAPTURE(nth);
    files.nth = nth;
    files.calls = 0;
    ww::checkpoint_writer saver{
        f.path(), options{}.files(files.operations).on_failure([](std::string const&) {})};
    std::uint64_t const step = saver.restore(s.list);
    CHECK(step >= 1);
    CHECK(s.is(step));
    if (step == 1) ++failures;
  }
  CHECK(failures >= 6);
}

TEST_CASE("the same state is saved again, and fails: the file of before is still there") {
  for (std::size_t nth = 1; nth <= 20; ++nth) {
    CAPTURE(nth);
    folder const f;
    state s;
    failing_files files;
    ww::checkpoint_writer saver{
        f.path(), options{}.keep(1).files(files.operations).on_failure([](std::string const&) {})};
    REQUIRE(saver.save(1, s.stream, s.list).wait());
    files.calls = 0;
    files.nth = nth;
    saver.save(1, s.stream, s.list).wait();
    files.nth = 0;
    REQUIRE(saver.restore(s.list) == 1);
  }
}

TEST_CASE("what cannot be read is passed over, but stays; what vanishes is looked for again") {
  folder const f;
  state s;
  failing_files files;
  ww::checkpoint_writer saver{
      f.path(), options{}.keep(2).files(files.operations).on_failure([](std::string const&) {})};
  for (std::uint64_t const step : {10, 20}) {
    s.set(step);
    REQUIRE(saver.save(step, s.stream, s.list).wait());
  }
  files.calls = 0;
  files.nth = 1;
  files.error = EMFILE;
  REQUIRE(saver.restore(s.list) == 10);
  CHECK_THAT(saver.skipped(), Contains("20.manifest' cannot be opened: Too many open files"));
  REQUIRE(saver.save(11, s.stream, s.list).wait());
  CHECK(f.names().size() == 6);  // 10, 11, and 20
  CHECK(saver.restore(s.list) == 20);

  folder const single;
  ww::checkpoint_writer other{single.path(), options{}.files(files.operations)};
  REQUIRE(other.save(1, s.stream, s.list).wait());
  files.calls = 0;
  files.error = ENOENT;
  CHECK(other.restore(s.list) == 1);
}

TEST_CASE("every CUDA call may fail: the save does, the next one does not") {
  folder const f;
  state s;
  std::size_t saved = 0;
  for (std::uint64_t nth = 1; nth <= 100; ++nth) {
    CAPTURE(nth);
    for (bool const beside : {false, true}) {
      std::uint64_t const step = 10 * nth + (beside ? 2 : 0);
      ww::checkpoint_writer saver{f.path(), options{}.ring(32768).copy_beside(beside).on_failure(
                                                [](std::string const&) {})};
      s.set(nth);
      saver.restore(s.list);
      s.set(nth);
      try {
        ww::testing::scoped_fault_plan const fault{
            ww::testing::fault_plan{}.fail("*", nth, cudaErrorInvalidValue)};
        saved += saver.save(step, s.stream, s.list).wait() ? 1 : 0;
        saver.before_update(s.stream);
      } catch (ww::cuda_error const&) {  // of is_capturing() or before_update()
      }
      CHECK(cudaGetLastError() == cudaSuccess);
      CHECK(f.newest(".tmp") == f.path() + '/');  // none
      REQUIRE(saver.save(step + 1, s.stream, s.list).wait());
      REQUIRE(saver.restore(s.list) == step + 1);
      REQUIRE(s.is(nth));
    }
  }
  CHECK(saved > 10);
  for (std::uint64_t nth = 1; nth <= 40; ++nth) {  // also those that make the ring
    folder const fresh;
    ww::checkpoint_writer saver{fresh.path(), options{}.on_failure([](std::string const&) {})};
    try {
      ww::testing::scoped_fault_plan const fault{
          ww::testing::fault_plan{}.fail("*", nth, cudaErrorInvalidValue)};
      saver.save(1, s.stream, s.list).wait();
    } catch (ww::cuda_error const&) {
    }
    REQUIRE(saver.save(2, s.stream, s.list).wait());
    REQUIRE(saver.restore(s.list) == 2);
  }
}

TEST_CASE("neighbours are copied at once, and one by one where CUDA refuses that") {
  folder const f;
  state s;
  ww::tensor_list parts;
  float* const data = s.weights.data();
  parts.add("c", data + 9001, state::elements - 9001).add("a", data, 5000);
  parts.add("empty", data + 5000, {0, 7}).add("b", data + 5000, 4001);
  ww::checkpoint_writer saver{f.path(), options{}.ring(40000)};
  auto const save = [&](std::uint64_t number) {
    s.set(number);
    std::uint64_t const before = ww::testing::call_count("cudaMemcpyAsync");
    REQUIRE(saver.save(number, s.stream, parts).wait());
    return ww::testing::call_count("cudaMemcpyAsync") - before;
  };
  std::uint64_t const slots = (state::elements * 4 + 4095) / 4096;
  CHECK(save(1) == slots);
  for (std::uint64_t const nth : {1, 5, 9}) {  // within one, and over both borders
    s.set(nth);
    {
      ww::testing::scoped_fault_plan const fault{
          ww::testing::fault_plan{}.fail("cudaMemcpyAsync", nth, cudaErrorInvalidValue)};
      REQUIRE(saver.save(nth, s.stream, parts).wait());
    }
    s.set(3);
    CHECK(saver.restore(parts) == nth);
    std::vector<float> all(state::elements);
    s.weights.copy_to(s.stream, all.data(), all.size());
    s.stream.synchronize();
    CHECK(all == state::weights_of(nth));
  }
}

TEST_CASE("restore throws when a CUDA call fails, and works then") {
  folder const f;
  state s;
  s.set(1);
  ww::checkpoint_writer saver{f.path()};
  REQUIRE(saver.save(1, s.stream, s.list).wait());
  for (std::uint64_t nth = 1; nth <= 12; ++nth) {
    CAPTURE(nth);
    try {
      ww::testing::scoped_fault_plan const fault{
          ww::testing::fault_plan{}.fail("*", nth, cudaErrorInvalidValue)};
      saver.restore(s.list);
    } catch (ww::cuda_error const&) {
    }
    CHECK(cudaGetLastError() == cudaSuccess);
    CHECK(saver.restore(s.list) == 1);
    CHECK(s.is(1));
  }
}

TEST_CASE("without page-locked memory for the state the ring is smaller") {
  folder const f;
  state s;
  ww::testing::scoped_fault_plan const fault{
      ww::testing::fault_plan{}
          .fail("cudaHostRegister", 1, cudaErrorMemoryAllocation)
          .fail("cudaHostAlloc", 1, cudaErrorMemoryAllocation)};
  ww::checkpoint_writer saver{f.path()};
  s.set(4);
  CHECK(saver.save(4, s.stream, s.list).wait());
  CHECK(saver.restore(s.list) == 4);
  CHECK(s.is(4));
}

TEST_CASE("folders that cannot be written to, and those that vanish") {
  folder const f;
  state s;
  CHECK_THAT(save_fails(f.path() + "/below/none", s), Contains("cannot make the folder"));
  {
    ww::checkpoint_writer saver{f.path()};
    REQUIRE(saver.save(1, s.stream, s.list).wait());
    std::filesystem::remove_all(f.path());
    CHECK(saver.restore(s.list) == 0);
    REQUIRE(saver.save(2, s.stream, s.list).wait());
    CHECK(saver.restore(s.list) == 2);
    CHECK_THAT(save_fails(f.path(), s), Contains("another process or writer saves to the folder"));
  }
  if (::geteuid() != 0) {
    std::filesystem::permissions(
        f.path(), std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
    CHECK_THAT(save_fails(f.path(), s), Contains("Permission denied"));
    std::filesystem::permissions(f.path(), std::filesystem::perms::owner_all);
  }
  auto const old_handler = ::signal(SIGXFSZ, SIG_IGN);
  rlimit const small{30000, RLIM_INFINITY};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  CHECK_THAT(save_fails(f.path(), s), Contains("File too large"));
  rlimit const unlimited{RLIM_INFINITY, RLIM_INFINITY};
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &unlimited) == 0);
  ::signal(SIGXFSZ, old_handler);
  write(f.path() + "/file", "");
  CHECK_THAT(save_fails(f.path() + "/file", s), Contains("Not a directory"));
  CHECK_THROWS_AS((ww::checkpoint_writer{f.path() + "/file"}.restore(s.list)),
                  ww::checkpoint_error);
  ww::checkpoint_writer saver{f.path()};
  CHECK(saver.restore(s.list) == 2);
}

TEST_CASE("a folder of another run, and one that another process writes to") {
  folder const f;
  state s;
  {
    ww::checkpoint_writer saver{f.path()};
    REQUIRE(saver.save(2000, s.stream, s.list).wait());
    CHECK_THAT(save_fails(f.path(), s), Contains("another process or writer saves to the folder"));
  }
  CHECK_THAT(save_fails(f.path(), s), Contains("has a checkpoint of step 2000, which is later; "
                                               "call restore() first"));
  ww::checkpoint_writer first{f.path()};

  std::vector<std::thread> writers;  // nothing is mixed, whoever wins
  for (std::uint64_t const base : {3000, 4000}) {
    writers.emplace_back([&f, base] {
      state mine;
      ww::checkpoint_writer saver{f.path(), options{}.on_failure([](std::string const&) {})};
      saver.restore(mine.list);
      for (std::uint64_t i = 0; i < 20; ++i) {
        mine.set(base + i);
        saver.save(base + i, mine.stream, mine.list);
      }
    });
  }
  for (std::thread& w : writers) w.join();
  std::uint64_t const step = first.restore(s.list);
  CHECK(step >= 3000);
  CHECK(s.is(step));
}

TEST_CASE("a save that failed does not write into the next one's memory") {
  folder const f;
  state s;
  state other;
  other.set(7);
  std::string const path = f.path();
  write(path, "");  // a file
  ww::detail::file_operations slow = stdio_operations;
  slow.open = [](void*, char const* name, char const* mode) {
    std::this_thread::sleep_for(std::chrono::milliseconds{100});
    return std::fopen(name, mode);
  };
  ww::checkpoint_writer saver{path, options{}.files(slow).on_failure([](std::string const&) {})};
  auto const sleep = [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds{50}); };
  ww::check(cudaLaunchHostFunc(s.stream, sleep, nullptr), "cudaLaunchHostFunc");
  CHECK_FALSE(saver.save(1, s.stream, s.list).wait());  // its copies have not begun
  std::filesystem::remove(path);
  REQUIRE(saver.save(2, other.stream, other.list).wait());
  s.stream.synchronize();
  CHECK(saver.restore(s.list) == 2);
  CHECK(s.is(7));
}

TEST_CASE("a folder's name is that of when the writer was made") {
  folder const f;
  state s;
  std::string const before = std::filesystem::current_path().string();
  std::filesystem::current_path(std::filesystem::path{f.path()}.parent_path());
  ww::checkpoint_writer saver{"run"};
  std::filesystem::current_path(before);
  CHECK(saver.save(1, s.stream, s.list).wait());
  CHECK(f.names().size() == 2);
}

TEST_CASE("a child of fork() leaves the writer alone") {
  folder const f;
  state s;
  ww::checkpoint_writer* const saver = new ww::checkpoint_writer{f.path()};
  REQUIRE(saver->save(1, s.stream, s.list).wait());
  pid_t const child = ::fork();
  if (child == 0) {
    delete saver;
    ::_exit(7);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WEXITSTATUS(status) == 7);
  CHECK(saver->save(2, s.stream, s.list).wait());
  delete saver;
}

TEST_CASE("a child of fork() does not keep the folder from the next writer") {
  folder const f;
  state s;
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  pid_t child = -1;
  {
    ww::checkpoint_writer saver{f.path()};
    REQUIRE(saver.save(1, s.stream, s.list).wait());
    child = ::fork();
    if (child == 0) {
      char byte = 0;
      ::close(ends[1]);
      ::_exit(static_cast<int>(::read(ends[0], &byte, 1)));
    }
  }
  ww::checkpoint_writer next{f.path()};
  CHECK(next.save(2, s.stream, s.list).wait());
  CHECK(next.error() == "");
  ::close(ends[1]);
  ::close(ends[0]);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
}

TEST_CASE("another thread may ask for a save while the next ones begin") {
  folder const f;
  state s;
  ww::checkpoint_writer saver{f.path() + "/missing/run",
                              options{}.on_failure([](std::string const&) {})};
  ww::pending_save const first = saver.save(1, s.stream, s.list);
  std::atomic<int> asked{0};
  std::atomic<bool> succeeded{false};
  std::atomic<bool> ends{false};
  std::thread asks{[&] {
    while (!ends) {
      if (first.wait()) succeeded = true;
      ++asked;
    }
  }};
  for (std::uint64_t step = 2; step < 20; ++step) {
    for (int const before = asked; asked == before;) std::this_thread::yield();
    CHECK_FALSE(saver.save(step, s.stream, s.list).wait());
  }
  ends = true;
  asks.join();
  CHECK_FALSE(succeeded);
}

TEST_CASE("a save leaves a stream alone that captures meanwhile, in the strictest mode") {
  folder const f;
  state s;
  ww::stream const other;
  ww::checkpoint_writer saver{f.path()};
  REQUIRE(saver.save(1, s.stream, s.list).wait());
  std::atomic<bool> opened{false};
  auto const wait_for_it = [](void* is_open) {
    while (!*static_cast<std::atomic<bool>*>(is_open)) std::this_thread::yield();
  };
  ww::check(cudaLaunchHostFunc(s.stream, wait_for_it, &opened), "cudaLaunchHostFunc");
  ww::pending_save const second = saver.save(2, s.stream, s.list);
  ww::check(cudaStreamBeginCapture(other.get(), cudaStreamCaptureModeGlobal), "begin");
  opened = true;
  CHECK(second.wait());
  std::thread{[&] {
    if (!saver.save(3, s.stream, s.list).wait()) std::abort();
  }}.join();
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(other.get(), &graph) == cudaSuccess);
  if (graph != nullptr) ww::check(cudaGraphDestroy(graph), "cudaGraphDestroy");
}
