// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// tuning_store: its file, folder, permissions, links and lock, and what goes wrong with them.
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

unsigned mode_of(std::string const& path) {
  struct stat status {};
  REQUIRE(lstat(path.c_str(), &status) == 0);
  return status.st_mode & 07777U;
}

bool is_link(std::string const& path) {
  struct stat status {};
  return lstat(path.c_str(), &status) == 0 && S_ISLNK(status.st_mode);
}

bool has_record(std::string const& path, std::string const& tag = "resnet50") {
  return ww::tuning_store{path}.find(make_key(tag)).match == ww::tuning_match::exact;
}

class scoped_umask {
 public:
  explicit scoped_umask(mode_t mask) : before_{umask(mask)} {}
  ~scoped_umask() { umask(before_); }
  scoped_umask(scoped_umask const&) = delete;
  scoped_umask& operator=(scoped_umask const&) = delete;

 private:
  mode_t before_;
};

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
    write("store.txt.1.0x1.0.tmp", "left behind");
    ww::tuning_store{"store.txt"}.put(make_record("other"));
    return 0;
  });
  CHECK(wait_for(child) == 0);
  CHECK(folder.names() == names{"store.txt", "store.txt.lock", "new"});
  CHECK(has_record(folder.file(), "other"));
  CHECK(has_record(folder.path() + "/new/store.txt"));
}

TEST_CASE("a file keeps its permissions, and a new one has those of the umask", "[tune][store]") {
  store_folder const folder;
  ww::tuning_store const store{folder.file()};
  {
    scoped_umask const mask{027};
    store.put(make_record());
    CHECK(mode_of(folder.file()) == 0640);
  }
  scoped_umask const mask{022};
  for (unsigned const mode : {0600U, 0644U, 0664U, 0666U, 0660U, 0755U}) {
    REQUIRE(chmod(folder.file().c_str(), mode) == 0);
    store.put(make_record());
    CHECK(mode_of(folder.file()) == mode);
  }
}

TEST_CASE("a file keeps its owner where root writes it", "[tune][store]") {
  if (geteuid() != 0) return;
  store_folder const folder;
  ww::tuning_store const store{folder.file()};
  store.put(make_record());
  REQUIRE(chown(folder.file().c_str(), 12345, 23456) == 0);
  REQUIRE(chmod(folder.file().c_str(), 0640) == 0);
  store.put(make_record());
  struct stat status {};
  REQUIRE(stat(folder.file().c_str(), &status) == 0);
  CHECK(status.st_uid == 12345);
  CHECK(status.st_gid == 23456);
  CHECK(mode_of(folder.file()) == 0640);
}

TEST_CASE("a symbolic link stays one, and its file is replaced under its file's lock",
          "[tune][store]") {
  store_folder const folder;
  std::string const real = folder.path() + "/real";
  REQUIRE(mkdir(real.c_str(), 0700) == 0);
  std::string const target = real + "/target.txt";
  std::string const link = folder.path() + "/link.txt";
  REQUIRE(symlink("real/target.txt", link.c_str()) == 0);
  std::string const second = folder.path() + "/second.txt";
  REQUIRE(symlink(link.c_str(), second.c_str()) == 0);

  ww::tuning_store{second}.put(make_record());  // creates the file, to which the links lead
  CHECK(has_record(target));
  ww::tuning_store{link}.put(make_record("other"));
  CHECK(is_link(link));
  CHECK(is_link(second));
  CHECK(has_record(target, "other"));
  CHECK(has_record(second, "other"));
  CHECK(folder.names() == names{"link.txt", "second.txt", "real"});

  held_lock const held{target + ".lock"};
  CHECK_FALSE(ww::tuning_store{second}.lock_timeout(0).try_put(make_record()).stored);
}

TEST_CASE("a circle of symbolic links is an error", "[tune][store]") {
  store_folder const folder;
  REQUIRE(symlink("b", (folder.path() + "/a").c_str()) == 0);
  REQUIRE(symlink("a", (folder.path() + "/b").c_str()) == 0);
  ww::tuning_store const store{folder.path() + "/a"};
  CHECK_THROWS_WITH(store.put(make_record()), contains("cannot follow the symbolic link") &&
                                                  contains(folder.path()) &&
                                                  contains("remove the symbolic link"));
  CHECK_THROWS_WITH(store.find(make_key()), contains("cannot open " + folder.path() + "/a"));
}

TEST_CASE("of hard links only the one that is named is replaced", "[tune][store]") {
  store_folder const folder;
  ww::tuning_store const store{folder.file()};
  store.put(make_record());
  std::string const other = folder.path() + "/other.txt";
  REQUIRE(link(folder.file().c_str(), other.c_str()) == 0);
  store.put(make_record("other"));
  CHECK(has_record(folder.file(), "other"));
  CHECK_FALSE(has_record(other, "other"));
}

TEST_CASE("the last folder of a path is created, and no others", "[tune][store]") {
  store_folder const folder;
  ww::tuning_store{folder.path() + "/new/store.txt"}.put(make_record());
  CHECK(has_record(folder.path() + "/new/store.txt"));
  ww::tuning_store const deeper{folder.path() + "/a/b/store.txt"};
  CHECK_THROWS_WITH(deeper.put(make_record()),
                    contains("cannot create the folder " + folder.path() + "/a/b/") &&
                        contains("No such file") && contains("create the folder") &&
                        contains(".cpp:"));
  ww::tuning_put_result const result = deeper.try_put(make_record());
  CHECK_FALSE(result.stored);
  CHECK(result.problem.find("/a/b/") != std::string::npos);
  CHECK(folder.names() == names{"new"});
  ww::tuning_store const below_file{folder.path() + "/new/store.txt/x"};
  CHECK_THROWS_WITH(below_file.put(make_record()),
                    contains("Not a directory") && contains("must be a folder"));
  CHECK_THROWS_WITH(below_file.find(make_key()), contains("Not a directory"));
  CHECK(below_file.try_find(make_key()).match == ww::tuning_match::none);
}

TEST_CASE("what is no regular file is refused at once", "[tune][store]") {
  store_folder const folder;
  std::string const directory = folder.path() + "/directory";
  REQUIRE(mkdir(directory.c_str(), 0700) == 0);
  ww::tuning_store const in_directory{directory};
  CHECK_THROWS_WITH(in_directory.find(make_key()), contains(directory) &&
                                                       contains("Is a directory") &&
                                                       contains("name a file in the folder"));
  CHECK_THROWS_WITH(in_directory.put(make_record()), contains("Is a directory"));
  CHECK_THROWS_WITH(in_directory.records(), contains("Is a directory"));

  std::string const pipe_path = folder.path() + "/pipe";
  REQUIRE(mkfifo(pipe_path.c_str(), 0600) == 0);
  for (std::string const& path : {pipe_path, folder.path() + "/full"}) {
    if (path != pipe_path) REQUIRE(symlink("/dev/full", path.c_str()) == 0);
    ww::tuning_store const store{path};
    CHECK_THROWS_WITH(store.find(make_key()), contains("regular file"));
    CHECK_THROWS_AS(store.records(), std::runtime_error);
    ww::tuning_lookup const found = store.try_find(make_key());
    CHECK(found.match == ww::tuning_match::none);
    REQUIRE(found.warnings.size() == 1);
    CHECK(found.warnings[0].find("regular file") != std::string::npos);
  }
  CHECK_THROWS_WITH(ww::tuning_store{pipe_path}.put(make_record()), contains("regular file"));
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

TEST_CASE("a file that its owner made read-only is not replaced", "[tune][store]") {
  store_folder const folder;
  REQUIRE(chmod(folder.path().c_str(), 0777) == 0);
  ww::tuning_store const store{folder.file()};
  store.put(make_record());
  REQUIRE(chmod(folder.file().c_str(), 0444) == 0);
  std::string const before = content(folder.file());
  CHECK_THAT(as_user([&] { store.put(make_record("other")); }),
             contains("Permission denied") && contains("it is unchanged"));
  CHECK(content(folder.file()) == before);
  CHECK(mode_of(folder.file()) == 0444);
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

TEST_CASE("another user's lock file serves as well", "[tune][store]") {
  store_folder const folder;
  REQUIRE(chmod(folder.path().c_str(), 0777) == 0);
  ww::tuning_store const store{folder.file()};
  store.put(make_record());
  REQUIRE(chmod(folder.file().c_str(), 0666) == 0);
  REQUIRE(chmod((folder.file() + ".lock").c_str(), 0444) == 0);
  CHECK(as_user([&] { store.put(make_record("other")); }) == "");
  CHECK(has_record(folder.file(), "other"));
  held_lock const held{folder.file() + ".lock"};
  CHECK_THAT(as_user([&] { store.lock_timeout(0).put(make_record("third")); }),
             contains("another writer has held it"));
}

TEST_CASE("a lock file that is a symbolic link is refused", "[tune][store]") {
  store_folder const folder;
  REQUIRE(symlink("victim", (folder.file() + ".lock").c_str()) == 0);
  CHECK_THROWS_WITH(ww::tuning_store{folder.file()}.put(make_record()),
                    contains("store.txt.lock") && contains("in the place of the lock file"));
  CHECK(folder.names() == names{"store.txt.lock"});
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
  store_folder const folder{"/dev/shm"};
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

TEST_CASE("temporary files of writers that were killed are removed, and no other files",
          "[tune][store]") {
  store_folder const folder;
  names const others = {"store.txt.tmp",           "store.txt.1.0xab.tmp",
                        "store.txt.1.ab.0.tmp",    "store.txt.1.0x.0.tmp",
                        "store.txt.x.0xab.0.tmp",  "store.txt.1.0xab.0.tmp2",
                        "store.txt2.1.0xab.0.tmp", "tore.txt.1.0xab.0.tmp",
                        "store.txt.1.0xab.0",      "store.txt.1.0xab.0.tmp.tmp"};
  for (std::string const& name : others) write(folder.path() + "/" + name, "kept");
  write(folder.path() + "/store.txt.4711.0x7ffd12ab.0.tmp", "left");
  write(folder.path() + "/store.txt.1.0xab.100.tmp", "left");
  ww::tuning_store{folder.file()}.put(make_record());
  names expected = others;
  expected.insert({"store.txt", "store.txt.lock"});
  CHECK(folder.names() == expected);
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

TEST_CASE("a lock on a file that was deleted meanwhile does not count", "[tune][store]") {
  store_folder const folder;
  ww::tuning_store const store{folder.file()};
  store.put(make_record());
  std::string const path = folder.file() + ".lock";
  std::thread writer;
  {
    held_lock deleted{path};
    writer = std::thread{[&store] { store.put(make_record("other")); }};
    std::this_thread::sleep_for(std::chrono::milliseconds{30});  // it waits for the deleted one
    REQUIRE(unlink(path.c_str()) == 0);
    held_lock const other{path};
    deleted.release();  // the writer gets it, and must wait for the new one
    std::this_thread::sleep_for(std::chrono::milliseconds{50});
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
    ww::detail::store_lock<> const lock{folder.file(), 0.0, ww::source_location::current()};
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
