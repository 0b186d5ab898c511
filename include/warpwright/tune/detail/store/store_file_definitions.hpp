// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <warpwright/tune/detail/store/store_file.hpp>

#include <warpwright/core/detail/clock.hpp>
#include <warpwright/core/detail/text/string_builder.hpp>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>

WARPWRIGHT_BEGIN

namespace detail {

WARPWRIGHT_COLD WARPWRIGHT_INLINE void throw_store_error(source_location where, char const* problem,
                                                         std::string const& path,
                                                         char const* remedy,
                                                         char const* system_text) {
  // Not `text`, which would cut off a long path and the remedy.
  throw std::runtime_error{(string_builder{text{where.file(), where.line()}.c_str()} +
                            ": tuning_store: " + problem + " " + path + system_text + "; " + remedy)
                               .str()};
}
WARPWRIGHT_COLD WARPWRIGHT_INLINE void throw_store_error(source_location where, char const* problem,
                                                         std::string const& path, int error) {
  bool const full = error == ENOSPC || error == EDQUOT || error == EFBIG;
  bool const no_locks = error == ENOLCK || error == ENOSYS || error == EOPNOTSUPP;
  throw_store_error(
      where, problem, path,
      error == ENOENT ? "create the folder: put() creates only the last one of the path"
      : full          ? "make room, or raise the limit of file sizes"
      : no_locks      ? "keep the store on a file system with locks, such as a local disk"
                      : "let this user read and write the file and its folder, or keep the "
                        "store in another folder",
      (text{": "} + std::strerror(error)).c_str());
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE void read_store(std::string const& path, store_content& content,
                                                  source_location where) {
  content.size = 0;
  std::FILE* const file = std::fopen(path.c_str(), "rbe");
  if (file == nullptr) {
    if (errno == ENOENT) return;
    throw_store_error(where, "cannot open", path, errno);
  }
  int error = 0;
  try {
    // Once more than needed, so that the last read shows the end.
    while (error == 0 && std::feof(file) == 0 && content.size <= max_store_bytes) {
      content.bytes.reserve(content.size + 4096);
      errno = 0;
      std::size_t const room = content.bytes.capacity() - content.size;
      content.size += std::fread(content.bytes.begin() + content.size, 1, room, file);
      if (std::ferror(file) != 0) error = errno == 0 ? EIO : errno;
    }
  } catch (...) {
    static_cast<void>(std::fclose(file));
    throw;
  }
  static_cast<void>(std::fclose(file));
  if (error != 0) throw_store_error(where, "cannot read", path, error);
  if (content.size > max_store_bytes) {
    throw_store_error(where, "cannot use", path,
                      "remove lines that are not needed any more, or delete the file",
                      ": it is larger than 64 MiB");
  }
}

WARPWRIGHT_COLD WARPWRIGHT_INLINE store_lock::store_lock(std::string const& path,
                                                         double timeout_seconds,
                                                         source_location where) {
  std::string const name = path + ".lock";
  // NFS locks only what is open for writing.
  auto const open_lock = [&name] { return open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666); };
  file_ = open_lock();
  if (file_ < 0 && errno == ENOENT && path.find('/') != std::string::npos) {
    if (mkdir(path.substr(0, path.rfind('/')).c_str(), 0777) == 0 || errno == EEXIST) {
      file_ = open_lock();
    }
  }
  if (file_ < 0) throw_store_error(where, "cannot open", name, errno);
  std::uint64_t const start = monotonic_nanoseconds();
  while (flock(file_, LOCK_EX | LOCK_NB) != 0) {
    int const error = errno;
    bool const late =
        static_cast<double>(monotonic_nanoseconds() - start) * 1e-9 >= timeout_seconds;
    if (error == EINTR || (error == EWOULDBLOCK && !late)) {
      // flock() has no timeout; a signal that interrupts it would be taken from the application.
      timespec const pause{0, 1000000};
      static_cast<void>(nanosleep(&pause, nullptr));
      continue;
    }
    static_cast<void>(close(file_));
    if (error != EWOULDBLOCK) throw_store_error(where, "cannot lock", name, error);
    throw_store_error(
        where, "cannot lock", name,
        "wait longer with lock_timeout(seconds), or end the process that holds the lock",
        (text{": another writer has held it for "} + timeout_seconds + " s").c_str());
  }
}

// Not by close() alone: a process that another thread forked meanwhile would keep the lock.
WARPWRIGHT_COLD WARPWRIGHT_INLINE store_lock::~store_lock() {
  static_cast<void>(flock(file_, LOCK_UN));
  static_cast<void>(close(file_));
}

}  // namespace detail

WARPWRIGHT_END
