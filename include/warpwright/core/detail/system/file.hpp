// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Files through functions that tests replace: a full disk, a failed rename.
#pragma once

#include <warpwright/core/detail/container/array.hpp>
#include <warpwright/core/detail/noncopyable.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <cstring>

WARPWRIGHT_BEGIN

namespace detail {

/// The operating system's part of reading and writing files. Every function sets errno when it
/// fails.
struct file_operations {
  void* context;  ///< the first argument of every function
  /// @return null on failure
  std::FILE* (*open)(void* context, char const* path, char const* mode);
  /// @return how many bytes were written; fewer than `bytes` on failure
  std::size_t (*write)(void* context, std::FILE* file, void const* data, std::size_t bytes);
  /// Passes written data to the system. @return 0, or not 0 when this or an earlier write failed
  int (*flush)(void* context, std::FILE* file);
  /// Closes the file even on failure. @return 0, or not 0 on failure
  int (*close)(void* context, std::FILE* file);
  /// Replaces `to` if it exists. @return 0, or not 0 on failure
  int (*rename)(void* context, char const* from, char const* to);
  /// @return 0, or not 0 on failure
  int (*remove)(void* context, char const* path);
  /// @return how many bytes were read; fewer than `bytes` at the end, or on failure
  std::size_t (*read)(void* context, std::FILE* file, void* data, std::size_t bytes);
  /// Writes a flushed file to the device, so that it outlives a loss of power. @return 0, or not 0
  int (*sync)(void* context, std::FILE* file);
  /// As sync(), for what a folder has of files: their names. @return 0, or not 0
  int (*sync_folder)(void* context, char const* path);
};

/// The C library's functions.
inline constexpr file_operations stdio_operations{
    nullptr,
    [](void*, char const* path, char const* mode) { return std::fopen(path, mode); },
    [](void*, std::FILE* file, void const* data, std::size_t bytes) {
      return std::fwrite(data, 1, bytes, file);
    },
    [](void*, std::FILE* file) {
      return std::fflush(file) != 0 || std::ferror(file) != 0 ? -1 : 0;
    },
    [](void*, std::FILE* file) { return std::fclose(file); },
    [](void*, char const* from, char const* to) { return std::rename(from, to); },
    [](void*, char const* path) { return std::remove(path); },
    [](void*, std::FILE* file, void* data, std::size_t bytes) {
      return std::fread(data, 1, bytes, file);
    },
    [](void*, std::FILE* file) { return ::fsync(::fileno(file)); },
    [](void*, char const* path) {
      int const folder = ::open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
      if (folder < 0) return -1;
      int const result = ::fsync(folder);
      int const error = errno;
      ::close(folder);
      errno = error;
      return result == 0 || error == EINVAL ? 0 : -1;  // EINVAL: a file system that has no need
    }};

/// @return the errno of a call that failed; 0 of one that did not
inline int error_of(bool failed) noexcept { return !failed ? 0 : errno != 0 ? errno : EIO; }

/// Buffered output to an open file, which stays open. Remembers the first failure and writes
/// nothing after it, so that only flush() has to be checked.
class file_writer : noncopyable {
 public:
  /// @param operations  must outlive the writer
  explicit file_writer(std::FILE* file,
                       file_operations const& operations = stdio_operations) noexcept
      : file_{file}, operations_{operations} {}

  void put(int byte) noexcept {
    if (used_ == sizeof buffer_) write_buffer();
    buffer_[used_++] = static_cast<unsigned char>(byte);
  }
  void write(void const* data, std::size_t bytes) noexcept {
    if (bytes == 0) return;  // data may be null
    if (bytes > sizeof buffer_ - used_) write_buffer();
    if (bytes > sizeof buffer_) {
      write_through(data, bytes);
      return;
    }
    std::memcpy(buffer_ + used_, data, bytes);
    used_ += bytes;
  }
  /// As std::fprintf(), of at most 1,023 characters; a longer text fails with EOVERFLOW.
#if defined(__GNUC__)
  __attribute__((format(printf, 2, 3)))
#endif
  void
  print(char const* format, ...) noexcept {
    char line[1024];
    std::va_list arguments;
    va_start(arguments, format);
    int const length = std::vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (length < 0 || static_cast<std::size_t>(length) >= sizeof line) {
      fail(EOVERFLOW);
    } else {
      write(line, static_cast<std::size_t>(length));
    }
  }
  /// Writes what is buffered and flushes the file.
  /// @return 0, or the errno of the first failure since construction
  [[nodiscard]] int flush() noexcept {
    write_buffer();
    errno = 0;
    if (error_ == 0 && operations_.flush(operations_.context, file_) != 0) fail(errno);
    return error_;
  }

 private:
  void write_buffer() noexcept {
    write_through(buffer_, used_);
    used_ = 0;
  }
  void write_through(void const* data, std::size_t bytes) noexcept {
    if (error_ != 0 || bytes == 0) return;
    errno = 0;
    if (operations_.write(operations_.context, file_, data, bytes) != bytes) fail(errno);
  }
  void fail(int error) noexcept {
    if (error_ == 0) error_ = error != 0 ? error : EIO;  // EIO: the failing call set no errno
  }

  std::FILE* file_;
  file_operations const& operations_;
  int error_ = 0;
  std::size_t used_ = 0;
  unsigned char buffer_[4096];
};

/// A file that is not there yet: a temporary one beside it until commit() gives it its name, so
/// that readers see a whole file or none. Removed otherwise.
class new_file : noncopyable {
 public:
  /// @param operations  must outlive the file
  explicit new_file(file_operations const& operations) noexcept : operations_{operations} {}
  ~new_file() { discard(); }

  /// Makes the temporary file. @param path  of the file. @return 0, or an errno
  /// @throws std::bad_alloc  when the host has no memory for the temporary file's name
  [[nodiscard]] int open(char const* path) {
    name_.resize(std::strlen(path) + sizeof ".-9223372036854775808.0x0123456789abcdef.100.tmp");
    // The object's address is unique among the calls that run at the same time in this process.
    // "x": a crashed process or another host may have left a file of this name.
    for (int attempt = 0; file_ == nullptr; ++attempt) {
      static_cast<void>(std::snprintf(name_.begin(), name_.size(), "%s.%ld.%p.%d.tmp", path,
                                      static_cast<long>(getpid()), static_cast<void*>(this),
                                      attempt));
      errno = 0;
      file_ = operations_.open(operations_.context, name_.begin(), "wbxe");
      if (file_ == nullptr && (errno != EEXIST || attempt == 100)) return error_of(true);
    }
    return 0;
  }
  /// @return the file to write to; null before open()
  [[nodiscard]] std::FILE* get() const noexcept { return file_; }
  /// Closes the file and gives it its name, which replaces another file of it.
  /// @param writer   of get()
  /// @param lasting  also after a loss of power, once the folder is synchronised
  /// @return 0, or the errno of the first failure: another file of the name is unchanged
  [[nodiscard]] int commit(file_writer& writer, char const* path, bool lasting) noexcept {
    int error = writer.flush();
    errno = 0;
    if (error == 0 && lasting) error = error_of(operations_.sync(operations_.context, file_) != 0);
    errno = 0;
    int const close_error = error_of(operations_.close(operations_.context, file_) != 0);
    file_ = nullptr;
    if (error == 0) error = close_error;
    errno = 0;
    if (error == 0) {
      error = error_of(operations_.rename(operations_.context, name_.begin(), path) != 0);
    }
    if (error != 0) static_cast<void>(operations_.remove(operations_.context, name_.begin()));
    return error;
  }

 private:
  void discard() noexcept {
    if (file_ == nullptr) return;
    static_cast<void>(operations_.close(operations_.context, file_));
    static_cast<void>(operations_.remove(operations_.context, name_.begin()));
  }

  file_operations const& operations_;
  array<char> name_;
  std::FILE* file_ = nullptr;
};

/// Writes a whole file through a new_file. Of several writers the last one to rename wins.
/// @return 0, or the errno of the first failure; the file at `path` is unchanged then
/// @throws std::bad_alloc  when the host has no memory for the temporary file's name
[[nodiscard]] inline int write_file(char const* path, void const* data, std::size_t bytes,
                                    file_operations const& operations = stdio_operations,
                                    bool lasting = false) {
  new_file file{operations};
  int const error = file.open(path);
  if (error != 0) return error;
  file_writer writer{file.get(), operations};
  writer.write(data, bytes);
  return file.commit(writer, path, lasting);
}

}  // namespace detail

WARPWRIGHT_END
