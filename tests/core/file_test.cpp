// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// core/detail/system/file.hpp: buffered writes, whole files, and every operation failing in turn.
#include "support/catch.hpp"

#include <warpwright/core/detail/system/file.hpp>

#include <dirent.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>

namespace detail = warpwright::detail;
using detail::file_operations;
using detail::file_writer;
using detail::stdio_operations;
using detail::write_file;

namespace {

// An empty directory that is removed with what the tests write there.
class directory {
 public:
  directory() {
    char const* const parent = std::getenv("TMPDIR");
    path_ = std::string{parent != nullptr ? parent : "/tmp"} + "/warpwright_file_XXXXXX";
    REQUIRE(mkdtemp(&path_[0]) != nullptr);
  }
  ~directory() {
    for (std::string const& name : names()) std::remove((path_ + "/" + name).c_str());
    rmdir(path_.c_str());
  }
  directory(directory const&) = delete;
  directory& operator=(directory const&) = delete;
  [[nodiscard]] std::string file() const { return path_ + "/file.txt"; }
  // The names of what it holds.
  [[nodiscard]] std::set<std::string> names() const {
    std::set<std::string> all;
    DIR* const listing = opendir(path_.c_str());
    while (dirent const* const entry = listing == nullptr ? nullptr : readdir(listing)) {
      if (entry->d_name[0] != '.') all.insert(entry->d_name);
    }
    if (listing != nullptr) closedir(listing);
    return all;
  }
  [[nodiscard]] bool holds_only_file() const {
    return names() == std::set<std::string>{"file.txt"};
  }

 private:
  std::string path_;
};

std::string content(std::string const& path) {
  std::string all;
  std::FILE* const file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) return "missing";
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) all += static_cast<char>(c);
  std::fclose(file);
  return all;
}

// The C library's operations, of which one fails with an errno; counts them all.
struct faulty_files {
  enum operation { none, open, write, flush, close, rename };
  operation fails = none;
  int error = EIO;
  int calls = 0;
  std::size_t writable = ~std::size_t{0};  // bytes until the disk is full

  static bool refuse(void* context, operation which) {
    auto& self = *static_cast<faulty_files*>(context);
    ++self.calls;
    if (self.fails != which) return false;
    errno = self.error;
    return true;
  }
  [[nodiscard]] file_operations operations() {
    return {this,
            [](void* context, char const* path, char const* mode) {
              return refuse(context, open) ? nullptr : std::fopen(path, mode);
            },
            [](void* context, std::FILE* file, void const* data, std::size_t bytes) {
              if (refuse(context, write)) return std::size_t{0};
              auto& self = *static_cast<faulty_files*>(context);
              std::size_t const some = bytes < self.writable ? bytes : self.writable;
              self.writable -= some;
              if (some != bytes) errno = ENOSPC;
              return std::fwrite(data, 1, some, file);
            },
            [](void* context, std::FILE* file) {
              return refuse(context, flush) ? -1 : stdio_operations.flush(nullptr, file);
            },
            [](void* context, std::FILE* file) {
              int const closed = std::fclose(file);
              return refuse(context, close) ? -1 : closed;
            },
            [](void* context, char const* from, char const* to) {
              return refuse(context, rename) ? -1 : std::rename(from, to);
            },
            [](void*, char const* path) { return std::remove(path); },
            stdio_operations.read,
            stdio_operations.sync,
            stdio_operations.sync_folder};
  }
};

}  // namespace

TEST_CASE("a file_writer keeps bytes, blocks and printed text in their order") {
  directory const d;
  std::string expected;
  std::FILE* const file = std::fopen(d.file().c_str(), "wb");
  REQUIRE(file != nullptr);
  {
    file_writer writer{file};
    for (int k = 0; k < 3000; ++k) {
      writer.put(k & 0xff);
      expected += static_cast<char>(k & 0xff);
      writer.print("%d,%s\n", k, "text");
      expected += std::to_string(k) + ",text\n";
    }
    std::string const large(10000, 'x');  // larger than the buffer
    writer.write(large.data(), large.size());
    expected += large;
    writer.write("", 0);
    writer.put('!');
    expected += '!';
    REQUIRE(writer.flush() == 0);
    CHECK(content(d.file()) == expected);
    writer.put('?');
    expected += '?';
    REQUIRE(writer.flush() == 0);
  }
  std::fclose(file);
  CHECK(content(d.file()) == expected);
}

TEST_CASE("a file_writer reports its first failure and writes nothing after it") {
  directory const d;
  std::FILE* const file = std::fopen(d.file().c_str(), "wb");
  REQUIRE(file != nullptr);
  faulty_files faults;
  faults.writable = 5000;
  file_operations const operations = faults.operations();
  file_writer writer{file, operations};
  for (int k = 0; k < 6000; ++k) writer.put('a');
  int const calls = faults.calls;
  CHECK(calls == 1);
  CHECK(writer.flush() == ENOSPC);
  faults.fails = faulty_files::write;
  writer.put('b');
  CHECK(writer.flush() == ENOSPC);
  CHECK(faults.calls == calls + 1);
  std::fclose(file);
  CHECK(content(d.file()) == std::string(5000, 'a'));
}

TEST_CASE("a file_writer reports a failed flush, and a failure without errno as EIO") {
  std::FILE* const file = std::tmpfile();
  REQUIRE(file != nullptr);
  faulty_files faults;
  faults.fails = faulty_files::flush;
  faults.error = EDQUOT;
  file_operations const operations = faults.operations();
  {
    file_writer writer{file, operations};
    writer.put('a');
    CHECK(writer.flush() == EDQUOT);
  }
  faults.error = 0;
  file_writer writer{file, operations};
  CHECK(writer.flush() == EIO);
  std::fclose(file);
}

TEST_CASE("a file_writer refuses a printed text longer than its line") {
  std::FILE* const file = std::tmpfile();
  REQUIRE(file != nullptr);
  file_writer writer{file};
  writer.print("%s", std::string(1023, 'x').c_str());
  CHECK(writer.flush() == 0);
  writer.print("%s", std::string(1024, 'x').c_str());
  CHECK(writer.flush() == EOVERFLOW);
  std::fclose(file);
}

TEST_CASE("the C library's flush reports an earlier failed write") {
  std::FILE* const full = std::fopen("/dev/full", "wb");
  if (full == nullptr) return;
  file_writer writer{full};
  writer.put('a');
  CHECK(writer.flush() == ENOSPC);
  file_writer second{full};
  CHECK(second.flush() != 0);
  std::fclose(full);
}

TEST_CASE("write_file replaces a file as a whole") {
  directory const d;
  REQUIRE(write_file(d.file().c_str(), "first", 5) == 0);
  CHECK(content(d.file()) == "first");
  std::string const large(100000, 'y');
  REQUIRE(write_file(d.file().c_str(), large.data(), large.size()) == 0);
  CHECK(content(d.file()) == large);
  REQUIRE(write_file(d.file().c_str(), nullptr, 0) == 0);
  CHECK(content(d.file()).empty());
  CHECK(d.holds_only_file());
  CHECK(write_file((d.file() + "/no/such").c_str(), "x", 1) != 0);
}

TEST_CASE("write_file leaves the file as it was when an operation fails") {
  directory const d;
  REQUIRE(write_file(d.file().c_str(), "before", 6) == 0);
  for (auto const fails : {faulty_files::open, faulty_files::write, faulty_files::flush,
                           faulty_files::close, faulty_files::rename}) {
    CAPTURE(static_cast<int>(fails));
    faulty_files faults;
    faults.fails = fails;
    faults.error = EACCES;
    file_operations const operations = faults.operations();
    CHECK(write_file(d.file().c_str(), "after", 5, operations) == EACCES);
    CHECK(content(d.file()) == "before");
    CHECK(d.holds_only_file());
  }
  faulty_files faults;
  faults.writable = 3;
  file_operations const operations = faults.operations();
  CHECK(write_file(d.file().c_str(), "after", 5, operations) == ENOSPC);
  CHECK(content(d.file()) == "before");
  CHECK(d.holds_only_file());
}

TEST_CASE("write_file: a second writer of one path does not disturb the first") {
  directory const d;
  // The second writes the file as soon as the first has opened its own.
  struct interrupted {
    std::string path;
    std::set<std::string> opened;
    int depth = 0;
  };
  static file_operations nested = stdio_operations;
  interrupted state{d.file(), {}};
  nested.context = &state;
  nested.open = [](void* context, char const* path, char const* mode) {
    auto& self = *static_cast<interrupted*>(context);
    self.opened.insert(path);
    std::FILE* const file = std::fopen(path, mode);
    if (file != nullptr && self.depth++ == 0) {
      CHECK(write_file(self.path.c_str(), "inner", 5, nested) == 0);
      CHECK(content(self.path) == "inner");
    }
    return file;
  };
  CHECK(write_file(d.file().c_str(), "outer text", 10, nested) == 0);
  CHECK(state.opened.size() == 2);
  CHECK(content(d.file()) == "outer text");
  CHECK(d.holds_only_file());
}

TEST_CASE("write_file leaves another's temporary file alone and takes another name") {
  directory const d;
  static std::string taken;
  taken.clear();
  file_operations operations = stdio_operations;
  operations.open = [](void*, char const* path, char const* mode) {
    if (taken.empty()) {  // such a file was there before
      taken = path;
      std::fclose(std::fopen(path, "wb"));
    }
    return std::fopen(path, mode);
  };
  REQUIRE(write_file(d.file().c_str(), "text", 4, operations) == 0);
  CHECK(content(d.file()) == "text");
  CHECK(content(taken).empty());
  CHECK(d.names().size() == 2);
  operations.open = [](void*, char const*, char const*) -> std::FILE* {
    errno = EEXIST;
    return nullptr;
  };
  CHECK(write_file(d.file().c_str(), "other", 5, operations) == EEXIST);
  CHECK(content(d.file()) == "text");
}
