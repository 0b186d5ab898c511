// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// tuning_store: its file, folder and lock, and what goes wrong with them.
#include <warpwright/tune/tuning_store.hpp>

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <limits>
#include <stdexcept>
#include <thread>

#include "store_support.hpp"

namespace ww = warpwright;
using test_support::content;
using test_support::make_key;
using test_support::make_record;
using test_support::start_child;
using test_support::store_folder;
using test_support::wait_for;
using test_support::write;

namespace {

using names = std::set<std::string>;

bool has_record(std::string const& path, std::string const& tag = "resnet50") {
  return ww::tuning_store{path}.find(make_key(tag)).match == ww::tuning_match::exact;
}

// Runs `call` in a child process as a user whom permissions bind. @return what it threw, or ""
template <class Call>
std::string as_user(Call&& call) {
  int ends[2] = {};
  REQUIRE(pipe(ends) == 0);
  pid_t const child = start_child([&] {
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) return 1;
    std::string text;
    try {
      call();
    } catch (std::exception const& error) {
      text = error.what();
    }
    return ::write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0 : 1;
  });
  close(ends[1]);
  std::string text;
  char part[512];
  for (ssize_t got = 1; got > 0;) {
    got = read(ends[0], part, sizeof part);
    if (got > 0) text.append(part, static_cast<std::size_t>(got));
  }
  close(ends[0]);
  CHECK(wait_for(child) == 0);
  return text;
}

// A lock that another process, or another descriptor of this one, holds.
class held_lock {
 public:
  explicit held_lock(std::string const& path) : file_{open(path.c_str(), O_RDWR | O_CREAT, 0600)} {
    REQUIRE(flock(file_, LOCK_EX) == 0);
  }
  ~held_lock() { release(); }
  held_lock(held_lock const&) = delete;
  held_lock& operator=(held_lock const&) = delete;
  void release() {
    if (file_ >= 0) close(file_);
    file_ = -1;
  }

 private:
  int file_;
};

}  // namespace

TEST_CASE("put leaves the file and its lock, and nothing else", "[tune][store]") {
  store_folder const folder;
  ww::tuning_store const store{folder.file()};
  store.put(make_record());
  store.put(make_record("other"));
  CHECK(folder.names() == names{"store.txt", "store.txt.lock"});
}

TEST_CASE("a relative path is looked up in the working directory", "[tune][store]") {
  store_folder const folder;
  pid_t const child = start_child([&] {
    if (chdir(folder.path().c_str()) != 0) return 1;
    ww::tuning_store{"store.txt"}.put(make_record());
    ww::tuning_store{"new/store.txt"}.put(make_record());
    ww::tuning_store{"store.txt"}.put(make_record("other"));
    return 0;
  });
  CHECK(wait_for(child) == 0);
  CHECK(folder.names() == names{"store.txt", "store.txt.lock", "new"});
  CHECK(has_record(folder.file(), "other"));
  CHECK(has_record(folder.path() + "/new/store.txt"));
}

TEST_CASE("the last folder of a path is created, and no others", "[tune][store]") {
  store_folder const folder;
  ww::tuning_store{folder.path() + "/new/store.txt"}.put(make_record());
  CHECK(has_record(folder.path() + "/new/store.txt"));
  ww::tuning_store const deeper{folder.path() + "/a/b/store.txt"};
  CHECK_THROWS_WITH(deeper.put(make_record()), contains("cannot open " + folder.path() + "/a/b/") &&
                                                   contains("No such file") &&
                                                   contains("create the folder") &&
                                                   contains(".cpp:"));
  ww::tuning_put_result const result = deeper.try_put(make_record());
  CHECK_FALSE(result.stored);
  CHECK(result.problem.find("/a/b/") != std::string::npos);
  CHECK(folder.names() == names{"new"});
  ww::tuning_store const below_file{folder.path() + "/new/store.txt/x"};
  CHECK_THROWS_WITH(below_file.put(make_record()), contains("Not a directory"));
  CHECK_THROWS_WITH(below_file.find(make_key()), contains("Not a directory"));
  CHECK(below_file.try_find(make_key()).match == ww::tuning_match::none);
}

TEST_CASE("a read-only folder is an error with its name, and the file can still be read",
          "[tune][store]") {
  store_folder const folder;
  ww::tuning_store const store{folder.file()};
  store.put(make_record());
  REQUIRE(chmod(folder.file().c_str(), 0666) == 0);
  REQUIRE(chmod((folder.file() + ".lock").c_str(), 0666) == 0);
  REQUIRE(chmod(folder.path().c_str(), 0555) == 0);
  std::string const text = as_user([&] { store.put(make_record("other")); });
  CHECK_THAT(
      text, contains("cannot replace (it is unchanged) " + folder.file() + ": Permission denied") &&
                contains("or keep the store in another folder"));
  REQUIRE(chmod(folder.path().c_str(), 0755) == 0);
  REQUIRE(unlink((folder.file() + ".lock").c_str()) == 0);
  REQUIRE(chmod(folder.path().c_str(), 0555) == 0);
  CHECK_THAT(as_user([&] { store.put(make_record("other")); }), contains(": Permission denied"));
  CHECK(as_user([&] {
          ww::tuning_put_result const result = store.try_put(make_record("other"));
          if (result.stored || result.problem.empty()) throw std::runtime_error{"stored"};
          if (!has_record(folder.file())) throw std::runtime_error{"not found"};
        }) == "");
  CHECK_FALSE(has_record(folder.file(), "other"));
}

TEST_CASE("a file that cannot be read is an error, and with try_find a warning", "[tune][store]") {
  store_folder const folder;
  REQUIRE(chmod(folder.path().c_str(), 0777) == 0);
  ww::tuning_store const store{folder.file()};
  store.put(make_record());
  REQUIRE(chmod(folder.file().c_str(), 0000) == 0);
  CHECK_THAT(as_user([&] { static_cast<void>(store.find(make_key())); }),
             contains("cannot open " + folder.file() + ": Permission denied"));
  CHECK(as_user([&] {
          if (store.try_find(make_key()).warnings.size() != 1) throw std::runtime_error{"none"};
        }) == "");
}

TEST_CASE("a full disk leaves the old file", "[tune][store]") {
  store_folder const folder;
  ww::tuning_store const store{folder.file()};
  store.put(make_record());
  std::string const before = content(folder.file());
  rlimit old{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &old) == 0);
  auto const old_handler = signal(SIGXFSZ, SIG_IGN);
  // Limits that cut the new file at every place, of which the last two are sufficient.
  std::size_t const needed =
      content(folder.file()).size() + ww::detail::encode_record(make_record("b")).size() + 1;
  int failed = 0;
  for (std::size_t limit : {std::size_t{0}, std::size_t{1}, before.size() - 1, before.size(),
                            needed - 1, needed, needed + 1}) {
    rlimit const small{limit, old.rlim_max};
    REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
    ww::tuning_put_result const result = store.try_put(make_record("b"));
    REQUIRE(setrlimit(RLIMIT_FSIZE, &old) == 0);
    CAPTURE(limit, needed);
    CHECK(result.stored == (limit >= needed));
    CHECK(folder.names() == names{"store.txt", "store.txt.lock"});
    if (result.stored) continue;
    ++failed;
    CHECK(content(folder.file()) == before);
    CHECK_THAT(result.problem,
               contains("File too large") && contains("make room") && contains("it is unchanged"));
  }
  signal(SIGXFSZ, old_handler);
  CHECK(failed == 5);
  CHECK(has_record(folder.file(), "b"));
}

TEST_CASE("an operation that fails leaves the old file, no temporary and a free lock",
          "[tune][store]") {
  store_folder const folder;
  ww::tuning_store const store{folder.file()};
  store.put(make_record());
  std::string const before = content(folder.file());
  using ww::detail::file_operations;
  using ww::detail::stdio_operations;
  file_operations broken[4] = {stdio_operations, stdio_operations, stdio_operations,
                               stdio_operations};
  broken[0].write = [](void*, std::FILE* file, void const* data, std::size_t bytes) {
    std::size_t const written = std::fwrite(data, 1, bytes / 2, file);
    errno = ENOSPC;
    return written;
  };
  broken[1].flush = [](void*, std::FILE*) {
    errno = ENOSPC;
    return -1;
  };
  broken[2].close = [](void*, std::FILE* file) {
    std::fclose(file);
    errno = ENOSPC;
    return -1;
  };
  broken[3].rename = [](void*, char const*, char const*) {
    errno = ENOSPC;
    return -1;
  };
  for (file_operations const& operations : broken) {
    CHECK_THROWS_WITH(
        ww::detail::put_record(folder.file(), 0.0, make_record("other"), operations,
                               ww::source_location::current()),
        contains("No space left") && contains("make room") && contains(folder.file()));
    CHECK(content(folder.file()) == before);
    CHECK(folder.names() == names{"store.txt", "store.txt.lock"});
  }
  store.lock_timeout(0).put(make_record("other"));
  CHECK(has_record(folder.file(), "other"));
}

TEST_CASE("a file of more than 64 MiB is refused, and no put makes one", "[tune][store]") {
  store_folder const folder;  // not /dev/shm, which may have no more than 64 MiB
  ww::tuning_store const store{folder.file()};
  write(folder.file(), "# large\n");
  constexpr off_t limit = off_t{64} << 20;
  REQUIRE(truncate(folder.file().c_str(), limit + 1) == 0);
  CHECK_THROWS_WITH(store.find(make_key()), contains("larger than 64 MiB") &&
                                                contains("remove lines") &&
                                                contains(folder.file()));
  CHECK_THROWS_WITH(store.put(make_record()), contains("larger than 64 MiB"));
  CHECK_THROWS_WITH(store.records(), contains("larger than 64 MiB"));
  CHECK(store.try_find(make_key()).warnings.size() == 1);

  auto const added = static_cast<off_t>(ww::detail::encode_record(make_record()).size() + 2);
  REQUIRE(truncate(folder.file().c_str(), limit - added + 1) == 0);
  CHECK(store.find(make_key()).warnings.size() == 1);
  CHECK_THROWS_WITH(store.put(make_record()), contains("it would be larger than 64 MiB"));
  REQUIRE(truncate(folder.file().c_str(), limit - added) == 0);
  store.put(make_record());
  CHECK(has_record(folder.file()));
  struct stat status {};
  REQUIRE(stat(folder.file().c_str(), &status) == 0);
  CHECK(status.st_size == limit);
}

TEST_CASE("a lock that is not given back is an error after the timeout", "[tune][store]") {
  store_folder const folder;
  ww::tuning_store const store{folder.file()};
  store.put(make_record());
  held_lock const held{folder.file() + ".lock"};
  for (double const seconds : {0.0, 0.05}) {
    auto const start = std::chrono::steady_clock::now();
    CHECK_THROWS_WITH(store.lock_timeout(seconds).put(make_record("other")),
                      contains("cannot lock " + folder.file() + ".lock") &&
                          contains("another writer has held it for") && contains("lock_timeout"));
    double const waited =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    CHECK(waited >= seconds);
    CHECK(waited < seconds + 2.0);
  }
  CHECK(has_record(folder.file()));  // readers do not wait
  CHECK_FALSE(has_record(folder.file(), "other"));
}

TEST_CASE("a timeout that is no time is refused", "[tune][store]") {
  store_folder const folder;
  ww::tuning_store const store{folder.file()};
  for (double const seconds : {-1.0, std::numeric_limits<double>::quiet_NaN()}) {
    CHECK_THROWS_AS(store.lock_timeout(seconds).put(make_record()), std::invalid_argument);
    CHECK_THROWS_WITH(store.lock_timeout(seconds).put(make_record()), contains("at least 0"));
  }
  CHECK(folder.names().empty());
  store.lock_timeout(std::numeric_limits<double>::infinity()).put(make_record());
}

TEST_CASE("put waits until the lock is given back", "[tune][store]") {
  store_folder const folder;
  ww::tuning_store const store{folder.file()};
  store.put(make_record());
  std::thread writer;
  {
    held_lock const held{folder.file() + ".lock"};
    writer = std::thread{[&store] { store.put(make_record("other")); }};
    std::this_thread::sleep_for(std::chrono::milliseconds{30});
    CHECK_FALSE(has_record(folder.file(), "other"));
  }
  writer.join();
  CHECK(has_record(folder.file(), "other"));
}

TEST_CASE("a process that was forked meanwhile does not keep the lock", "[tune][store]") {
  store_folder const folder;
  ww::tuning_store const store{folder.file()};
  int ends[2] = {};
  REQUIRE(pipe(ends) == 0);
  pid_t child = 0;
  {
    ww::detail::store_lock const lock{folder.file(), 0.0, ww::source_location::current()};
    child = start_child([&] {
      close(ends[1]);
      char byte = 0;
      return static_cast<int>(read(ends[0], &byte, 1));  // until the parent closes its end
    });
  }
  CHECK(store.lock_timeout(0).try_put(make_record()).stored);
  close(ends[1]);
  CHECK(wait_for(child) == 0);
  close(ends[0]);
}
