// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Writing files through functions that tests replace: a full disk, a failed rename.
#pragma once

#include <warpwright/core/detail/array.hpp>
#include <warpwright/core/detail/noncopyable.hpp>

#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <cstring>

WARPWRIGHT_BEGIN

namespace detail {

/// The operating system's part of writing a file. Every function sets errno when it fails.
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
    [](void*, char const* path) { return std::remove(path); }};

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

/// Writes a whole file: first to a file of its own beside it, which is then renamed, so that
/// readers see an old file or a new one and never a part. Of several writers the last one to rename
/// wins.
/// @return 0, or the errno of the first failure; the file at `path` is unchanged then
/// @throws std::bad_alloc  when the host has no memory for the temporary file's name
[[nodiscard]] inline int write_file(char const* path, void const* data, std::size_t bytes,
                                    file_operations const& operations = stdio_operations) {
  array<char> temporary{std::strlen(path) +
                        sizeof ".-9223372036854775808.0x0123456789abcdef.100.tmp"};
  auto const error_of = [](bool failed) { return !failed ? 0 : errno != 0 ? errno : EIO; };
  std::FILE* file = nullptr;
  // The address of a local variable is unique among the calls that run at the same time in this
  // process. "x": a crashed process or another host may have left a file of this name.
  for (int attempt = 0; file == nullptr; ++attempt) {
    static_cast<void>(std::snprintf(temporary.begin(), temporary.size(), "%s.%ld.%p.%d.tmp", path,
                                    static_cast<long>(getpid()), static_cast<void*>(&file),
                                    attempt));
    errno = 0;
    file = operations.open(operations.context, temporary.begin(), "wbx");
    if (file == nullptr && (errno != EEXIST || attempt == 100)) return error_of(true);
  }
  file_writer writer{file, operations};
  writer.write(data, bytes);
  int error = writer.flush();
  errno = 0;
  int const close_error = error_of(operations.close(operations.context, file) != 0);
  if (error == 0) error = close_error;
  if (error == 0) {
    errno = 0;
    error = error_of(operations.rename(operations.context, temporary.begin(), path) != 0);
  }
  if (error != 0) static_cast<void>(operations.remove(operations.context, temporary.begin()));
  return error;
}

}  // namespace detail

WARPWRIGHT_END
