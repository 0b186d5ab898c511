// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// The file of a tuning_store: reading it, locking it and replacing it as a whole. POSIX only.
#pragma once

#include <warpwright/core/detail/array.hpp>
#include <warpwright/core/detail/clock.hpp>
#include <warpwright/core/detail/system/file.hpp>
#include <warpwright/core/detail/text/string_builder.hpp>
#include <warpwright/core/error.hpp>

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>

WARPWRIGHT_BEGIN

namespace detail {

inline constexpr std::size_t max_store_bytes = std::size_t{64} << 20;

WARPWRIGHT_COLD inline char const* store_remedy(int error) noexcept {
  switch (error) {
    case EACCES:
    case EPERM:
    case EROFS:
      return "allow this user to read and write the file and its folder, or keep the store in "
             "another folder";
    case ENOENT:
      return "create the folder: put() creates only the last one of the path";
    case ENOTDIR:
      return "every name before the last one must be a folder";
    case EISDIR:
      return "name a file in the folder";
    case ELOOP:
      return "remove the symbolic link that leads back to itself, or that stands in the place of "
             "the lock file";
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return "make room, or raise the limit of file sizes";
    case ENOLCK:
    case ENOSYS:
    case EOPNOTSUPP:
      return "keep the store on a file system with locks, such as a local disk";
    default:
      return "check the file system, or keep the store in another folder";
  }
}

template <class Error = std::runtime_error>
[[noreturn]] WARPWRIGHT_COLD void throw_store_error(source_location where, char const* problem,
                                                    std::string const& path, char const* remedy,
                                                    char const* system_text = "") {
  // Not `text`, which would cut off a long path and the remedy.
  throw Error{(string_builder{text{where.file(), where.line()}.c_str()} +
               ": tuning_store: " + problem + " " + path + system_text + "; " + remedy)
                  .str()};
}
template <class Error = std::runtime_error>
[[noreturn]] WARPWRIGHT_COLD void throw_store_error(source_location where, char const* problem,
                                                    std::string const& path, int error) {
  throw_store_error<Error>(where, problem, path, store_remedy(error),
                           (text{": "} + std::strerror(error)).c_str());
}

/// The part of a path before its last name, with the slash; empty: the working directory.
template <class String>
String folder_of(String const& path) {
  std::size_t const slash = path.rfind('/');
  return slash == String::npos ? String{} : String{path, 0, slash + 1};
}

/// Follows symbolic links in the place of the file, which need not exist: a rename would replace
/// the link, and a lock beside the link would not exclude those who use the file's own name.
template <class String>
WARPWRIGHT_COLD String resolve_links(String path, source_location where) {
  for (int links = 0; links < 40; ++links) {  // as many as Linux follows
    char target[4096];
    ssize_t const length = readlink(path.c_str(), target, sizeof target);
    if (length < 0) return path;  // not a link, or an error that open() will report
    String const name{target, static_cast<std::size_t>(length)};
    path = name[0] == '/' ? name : folder_of(path) + name;
  }
  throw_store_error(where, "cannot follow the symbolic link", path, ELOOP);
}

/// Closes a file descriptor at the end of its scope.
class descriptor {
 public:
  explicit descriptor(int value = -1) noexcept : value_{value} {}
  descriptor(descriptor const&) = delete;
  descriptor& operator=(descriptor const&) = delete;
  ~descriptor() { reset(-1); }
  void reset(int value) noexcept {
    if (value_ >= 0) static_cast<void>(close(value_));
    value_ = value;
  }
  [[nodiscard]] int value() const noexcept { return value_; }

 private:
  int value_;
};

/// The content of a file; empty if there is none.
struct store_content {
  array<char> bytes;     ///< only its capacity is used: resize() would clear it byte by byte
  std::size_t size = 0;  ///< bytes read
};

template <class Error = std::runtime_error>
WARPWRIGHT_COLD void read_store(std::string const& path, store_content& content,
                                source_location where) {
  content.size = 0;
  // O_NONBLOCK: opening a pipe would wait for its writer.
  descriptor const file{open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.value() < 0) {
    if (errno == ENOENT) return;
    throw_store_error<Error>(where, "cannot open", path, errno);
  }
  struct stat status {};
  if (fstat(file.value(), &status) != 0) {
    throw_store_error<Error>(where, "cannot read", path, errno);
  }
  if (S_ISDIR(status.st_mode)) throw_store_error<Error>(where, "cannot read", path, EISDIR);
  if (!S_ISREG(status.st_mode)) {
    throw_store_error<Error>(where, "cannot use", path, "name a regular file",
                             ": it is a device, a pipe or a socket");
  }
  auto const expected = static_cast<std::size_t>(status.st_size);
  if (expected > max_store_bytes) {
    throw_store_error<Error>(where, "cannot use", path,
                             "remove lines that are not needed any more, or delete the file",
                             ": it is larger than 64 MiB");
  }
  content.bytes.reserve(expected + 1);  // one more, so that the last read() shows the end
  while (content.size < content.bytes.capacity()) {
    ssize_t const got = read(file.value(), content.bytes.begin() + content.size,
                             content.bytes.capacity() - content.size);
    if (got == 0) return;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_store_error<Error>(where, "cannot read", path, errno);
    content.size += static_cast<std::size_t>(got);
  }
  throw_store_error<Error>(where, "cannot read", path,
                           "let only put() and atomic replacement change it",
                           ": it grew while it was read");
}

/// Excludes other writers, of this process and of others, by flock() on a file of its own beside
/// the store, which is never removed. The kernel gives the lock back when the process ends in any
/// way.
template <class Error = std::runtime_error>
class store_lock {
 public:
  /// @param path  the store's; the lock is "path.lock"
  /// @param timeout_seconds  how long to wait for it; 0: not at all
  WARPWRIGHT_COLD store_lock(std::string const& path, double timeout_seconds, source_location where)
      : path_{path + ".lock"} {
    std::uint64_t const start = monotonic_nanoseconds();
    long pause_ns = 100000;
    for (;;) {
      if (file_.value() < 0) open_file(path, where);
      if (flock(file_.value(), LOCK_EX | LOCK_NB) == 0) {
        if (is_in_place()) return;
        file_.reset(-1);  // somebody deleted it, and others may lock a new one
        continue;
      }
      if (errno == EINTR) continue;
      if (errno != EWOULDBLOCK) throw_store_error<Error>(where, "cannot lock", path_, errno);
      if (static_cast<double>(monotonic_nanoseconds() - start) * 1e-9 >= timeout_seconds) {
        throw_store_error<Error>(
            where, "cannot lock", path_,
            "wait longer with lock_timeout(seconds), or end the process that holds the lock",
            (text{": another writer has held it for "} + timeout_seconds + " s").c_str());
      }
      // flock() has no timeout; a signal that interrupts it would be taken from the application.
      timespec const pause{0, pause_ns};
      static_cast<void>(nanosleep(&pause, nullptr));
      if (pause_ns < 3000000) pause_ns *= 2;
    }
  }
  store_lock(store_lock const&) = delete;
  store_lock& operator=(store_lock const&) = delete;
  /// Not by close() alone: a process that another thread forked meanwhile would keep the lock.
  ~store_lock() { static_cast<void>(flock(file_.value(), LOCK_UN)); }

 private:
  WARPWRIGHT_COLD void open_file(std::string const& path, source_location where) {
    constexpr int flags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    // NFS locks only what is open for writing.
    file_.reset(open(path_.c_str(), O_RDWR | O_CREAT | flags, 0666));
    if (file_.value() < 0 && errno == ENOENT) {
      std::string const folder = folder_of(path);
      if (!folder.empty() && mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST) {
        throw_store_error<Error>(where, "cannot create the folder", folder, errno);
      }
      file_.reset(open(path_.c_str(), O_RDWR | O_CREAT | flags, 0666));
    }
    int const error = errno;
    // Another user's lock file.
    if (file_.value() < 0 && error == EACCES) file_.reset(open(path_.c_str(), O_RDONLY | flags));
    if (file_.value() < 0) throw_store_error<Error>(where, "cannot open", path_, error);
  }
  [[nodiscard]] WARPWRIGHT_COLD bool is_in_place() const noexcept {
    struct stat locked {};
    struct stat named {};
    return fstat(file_.value(), &locked) == 0 && stat(path_.c_str(), &named) == 0 &&
           locked.st_dev == named.st_dev && locked.st_ino == named.st_ino;
  }

  std::string path_;
  descriptor file_;
};

/// Whether `name` is a temporary file of write_file() for a file called `base`: base.12.0x3f.0.tmp
WARPWRIGHT_COLD inline bool is_temporary_of(char const* name, char const* base,
                                            std::size_t base_length) noexcept {
  if (std::strncmp(name, base, base_length) != 0) return false;
  name += base_length;
  auto const skip = [&name](char const* start, char const* digits) {
    std::size_t const length = std::strlen(start);
    if (std::strncmp(name, start, length) != 0) return false;
    std::size_t const count = std::strspn(name + length, digits);
    name += length + count;
    return count > 0;
  };
  return skip(".", "0123456789") && skip(".0x", "0123456789abcdef") && skip(".", "0123456789") &&
         std::strcmp(name, ".tmp") == 0;
}

/// Removes what writers left that were killed. @pre the caller holds the lock: none is in use
template <class String>
WARPWRIGHT_COLD void remove_temporaries(String const& path) {
  String const folder = folder_of(path);
  DIR* const listing = opendir(folder.empty() ? "." : folder.c_str());
  if (listing == nullptr) return;
  char const* const base = path.c_str() + folder.size();
  std::size_t const length = path.size() - folder.size();
  while (dirent const* const entry = readdir(listing)) {
    if (is_temporary_of(entry->d_name, base, length)) {
      static_cast<void>(unlinkat(dirfd(listing), entry->d_name, 0));
    }
  }
  static_cast<void>(closedir(listing));
}

/// file_operations that give a new file the permissions of the one that it replaces, and that write
/// it to the disk before the rename: after a loss of power there is the old file or the new one.
template <class Operations = file_operations>
struct durable_operations {
  Operations base;  ///< what writes
  bool replaces;    ///< there is an old file
  struct stat old;  ///< its permissions and owner

  durable_operations(char const* path, Operations const& operations) noexcept
      : base{operations}, replaces{false}, old{} {
    replaces = stat(path, &old) == 0;
  }
  [[nodiscard]] WARPWRIGHT_COLD Operations operations() noexcept {
    return {this,
            [](void* context, char const* path, char const*) { return self(context).open(path); },
            [](void* context, std::FILE* file, void const* data, std::size_t bytes) {
              return self(context).base.write(self(context).base.context, file, data, bytes);
            },
            [](void* context, std::FILE* file) {
              durable_operations const& o = self(context);
              if (o.base.flush(o.base.context, file) != 0) return -1;
              return o.set_permissions(fileno(file)) ? fsync(fileno(file)) : -1;
            },
            [](void* context, std::FILE* file) {
              return self(context).base.close(self(context).base.context, file);
            },
            [](void* context, char const* from, char const* to) {
              return self(context).base.rename(self(context).base.context, from, to);
            },
            [](void* context, char const* path) {
              return self(context).base.remove(self(context).base.context, path);
            }};
  }

 private:
  static durable_operations& self(void* context) noexcept {
    return *static_cast<durable_operations*>(context);
  }
  [[nodiscard]] WARPWRIGHT_COLD std::FILE* open(char const* path) const noexcept {
    // Not fopen(), which makes it readable for everybody until set_permissions().
    mode_t const mode = replaces ? old.st_mode & 0777U : 0666U;
    int const file = ::open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (file < 0) return nullptr;
    std::FILE* const stream = fdopen(file, "wb");
    if (stream == nullptr) {
      int const error = errno;
      static_cast<void>(::close(file));
      static_cast<void>(unlink(path));
      errno = error;
    }
    return stream;
  }
  [[nodiscard]] WARPWRIGHT_COLD bool set_permissions(int file) const noexcept {
    struct stat now {};
    if (!replaces) return true;
    if (fstat(file, &now) != 0) return false;
    if (now.st_uid != old.st_uid || now.st_gid != old.st_gid) {
      // Only root may give a file away; a member of its group may keep that.
      if (fchown(file, old.st_uid, old.st_gid) != 0) {
        static_cast<void>(fchown(file, static_cast<uid_t>(-1), old.st_gid) == 0);
      }
    }
    return ((now.st_mode ^ old.st_mode) & 07777U) == 0 || fchmod(file, old.st_mode & 07777U) == 0;
  }
};

/// Replaces the store's file. @pre the caller holds the lock
template <class Error = std::runtime_error>
WARPWRIGHT_COLD void replace_store(std::string const& path, char const* data, std::size_t bytes,
                                   file_operations const& base, source_location where) {
  durable_operations<> durable{path.c_str(), base};
  // A rename needs no permission of the file itself, but its owner made it read-only on purpose.
  bool const refused = durable.replaces && faccessat(AT_FDCWD, path.c_str(), W_OK, AT_EACCESS) != 0;
  int const error = refused ? errno : write_file(path.c_str(), data, bytes, durable.operations());
  if (error != 0) throw_store_error<Error>(where, "cannot replace (it is unchanged)", path, error);
}

}  // namespace detail

WARPWRIGHT_END
