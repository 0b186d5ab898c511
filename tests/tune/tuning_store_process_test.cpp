// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// tuning_store with several processes, and with writers that are killed.
#include <warpwright/tune/tuning_store.hpp>

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <new>
#include <random>
#include <vector>

#include "store_support.hpp"
#include "support/sanitized.hpp"

namespace ww = warpwright;
using test_support::content;
using test_support::make_key;
using test_support::make_record;
using test_support::same_records;
using test_support::start_child;
using test_support::store_folder;
using test_support::wait_for;

namespace {

constexpr int kills = test_support::sanitized ? 100 : WARPWRIGHT_NIGHTLY ? 1000 : 400;
constexpr int kills_in_write = test_support::sanitized ? 0 : kills / 100;

// Memory that a child process shares with this one.
struct shared_counter {
  shared_counter() {
    void* const memory =
        mmap(nullptr, sizeof *value, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    value = new (memory) std::atomic<std::uint64_t>{0};
  }
  ~shared_counter() { munmap(static_cast<void*>(value), sizeof *value); }
  shared_counter(shared_counter const&) = delete;
  shared_counter& operator=(shared_counter const&) = delete;
  std::atomic<std::uint64_t>* value = nullptr;
};

// Large, so that many writers are killed while they write.
ww::tuning_record kept_record(std::size_t i) {
  ww::tuning_record record = make_record("kept " + std::to_string(i), i);
  record.fields[1].value.assign(10000, static_cast<char>('a' + i % 26));
  return record;
}

// A store with records that no test changes, and one that each counts up.
void fill(ww::tuning_store const& store, std::size_t kept) {
  for (std::size_t i = 0; i < kept; ++i) store.put(kept_record(i));
  store.put(make_record("counter", 0));
}

// Whether all is there, and the counter is in a range.
bool is_whole(ww::tuning_store const& store, std::size_t kept, std::uint64_t low,
              std::uint64_t high) {
  ww::tuning_records const all = store.records();
  if (!all.warnings.empty() || all.records.size() != kept + 1) return false;
  for (std::size_t i = 0; i < kept; ++i) {
    if (!same_records(all.records[i], kept_record(i))) return false;
  }
  ww::tuning_record const& counter = all.records.back();
  return counter.batch >= low && counter.batch <= high &&
         same_records(counter, make_record("counter", counter.batch));
}

}  // namespace

TEST_CASE("eight processes that write 100 records each lose none", "[tune][store]") {
  store_folder const folder{"/dev/shm"};
  std::vector<pid_t> children;
  for (int process = 0; process < 8; ++process) {
    children.push_back(start_child([&] {
      ww::tuning_store const store{folder.file()};
      for (std::size_t i = 0; i < 100; ++i) {
        std::string const tag = std::to_string(process) + "/" + std::to_string(i);
        if (!store.lock_timeout(60).put(make_record(tag, i)).empty()) return 2;
        if (store.find(make_key(tag)).match != ww::tuning_match::exact) return 3;
      }
      return 0;
    }));
  }
  for (pid_t const child : children) CHECK(wait_for(child) == 0);
  ww::tuning_store const store{folder.file()};
  ww::tuning_records const all = store.records();
  CHECK(all.warnings.empty());
  CHECK(all.records.size() == 800);
  for (int process = 0; process < 8; ++process) {
    for (std::size_t i = 0; i < 100; ++i) {
      std::string const tag = std::to_string(process) + "/" + std::to_string(i);
      ww::tuning_lookup const found = store.find(make_key(tag));
      REQUIRE(found.match == ww::tuning_match::exact);
      REQUIRE(same_records(found.record, make_record(tag, i)));
    }
  }
  CHECK(folder.names() == std::set<std::string>{"store.txt", "store.txt.lock"});
}

TEST_CASE("a writer that is killed at any operation leaves the old or the new content",
          "[tune][store]") {
  store_folder const folder;
  ww::tuning_store const store{folder.file()};
  fill(store, 20);
  // Kills the process before or after the n-th operation, or in the middle of a write.
  struct killer {
    int left;
    bool in_write;
    void count() {
      if (--left == 0) raise(SIGKILL);
    }
    static killer& of(void* context) { return *static_cast<killer*>(context); }
  };
  int old_content = 0;
  int new_content = 0;
  bool finished = false;
  for (int n = 1; !finished; ++n) {
    for (bool const in_write : {false, true}) {
      pid_t const child = start_child([&] {
        killer k{n, in_write};
        ww::detail::file_operations operations = ww::detail::stdio_operations;
        operations.context = &k;
        operations.write = [](void* c, std::FILE* file, void const* data, std::size_t bytes) {
          killer::of(c).count();
          if (killer::of(c).in_write && killer::of(c).left == 1) {
            std::fwrite(data, 1, bytes / 2, file);
            std::fflush(file);
            raise(SIGKILL);
          }
          return std::fwrite(data, 1, bytes, file);
        };
        operations.flush = [](void* c, std::FILE* file) {
          killer::of(c).count();
          int const result = ww::detail::stdio_operations.flush(nullptr, file);
          killer::of(c).count();
          return result;
        };
        operations.close = [](void* c, std::FILE* file) {
          killer::of(c).count();
          int const result = std::fclose(file);
          killer::of(c).count();
          return result;
        };
        operations.rename = [](void* c, char const* from, char const* to) {
          killer::of(c).count();
          int const result = std::rename(from, to);
          killer::of(c).count();
          return result;
        };
        ww::detail::put_record(folder.file(), 0.0, make_record("counter", 1), operations,
                               ww::source_location::current());
        return 0;
      });
      int const status = wait_for(child);
      CAPTURE(n, in_write);
      CHECK((status == -SIGKILL || status == 0));
      bool const is_new = is_whole(store, 20, 1, 1);
      CHECK((is_new || is_whole(store, 20, 0, 0)));
      ++(is_new ? new_content : old_content);
      finished = status == 0;
      store.lock_timeout(0).put(make_record("counter", 0));
      if (finished) break;
    }
  }
  CHECK(old_content >= 7);
  CHECK(new_content >= 2);
}

TEST_CASE("a writer that is killed at a random moment leaves the old or the new content",
          "[tune][store]") {
  store_folder const folder{"/dev/shm"};
  ww::tuning_store const store{folder.file()};
  constexpr std::size_t kept = 30;
  fill(store, kept);
  unsigned const seed = std::random_device{}();
  std::printf("seed %u\n", seed);
  std::mt19937 random{seed};
  shared_counter const started;
  shared_counter const written;
  int in_write = 0;
  std::size_t files_before = folder.names().size();
  std::uint64_t puts = 0;
  for (int i = 0; i < kills; ++i) {
    started.value->store(0);
    written.value->store(0);
    pid_t const child = start_child([&]() -> int {
      for (std::uint64_t n = 1;; ++n) {
        started.value->store(n);
        store.put(make_record("counter", n));
        written.value->store(n);
      }
    });
    // The pause begins with the first record, or once that is stored: how long a process takes to
    // start and to write depends on the machine.
    shared_counter const& first = i % 2 == 0 ? started : written;
    while (first.value->load() == 0) sched_yield();
    timespec const pause{0, static_cast<long>(random() % 3000000)};
    nanosleep(&pause, nullptr);
    REQUIRE(kill(child, SIGKILL) == 0);
    REQUIRE(wait_for(child) == -SIGKILL);
    // A killed writer leaves its temporary file.
    std::size_t const files = folder.names().size();
    if (files > files_before) ++in_write;
    files_before = files;
    puts += written.value->load();
    CAPTURE(i, started.value->load(), written.value->load());
    REQUIRE(is_whole(store, kept, written.value->load(), started.value->load()));
    store.lock_timeout(0).put(make_record("counter", 0));
  }
  std::printf("%d writers killed, %d of them while they wrote; %llu records were stored before\n",
              kills, in_write, static_cast<unsigned long long>(puts));
  CHECK(in_write >= kills_in_write);
  CHECK(puts > 0);
}
