// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// TensorBoard's format: records of a length, its checksum, the data and its checksum (TFRecord);
// each is a message Event of Protocol Buffers.
#pragma once

#include <warpwright/core/detail/clock.hpp>
#include <warpwright/core/detail/text/line_fields.hpp>
#include <warpwright/core/detail/text/markup.hpp>
#include <warpwright/observe/scalar_log.hpp>

#include <sys/stat.h>

#include <cmath>

WARPWRIGHT_BEGIN

namespace detail {

/// CRC-32C (Castagnoli), masked as TFRecord wants it.
inline std::uint32_t masked_crc(char const* data, std::size_t bytes) noexcept {
  std::uint32_t crc = ~0U;
  for (; bytes != 0; --bytes) {
    crc ^= static_cast<unsigned char>(*data++);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? 0x82f63b78U : 0U);
  }
  crc = ~crc;
  return ((crc >> 15U) | (crc << 17U)) + 0xa282ead8U;
}
template <class Value>
void append_bytes(std::string& to, Value value) {
  char bytes[sizeof value];  // little-endian, as all processors that CUDA runs on
  std::memcpy(bytes, &value, sizeof value);
  to.append(bytes, sizeof bytes);
}
inline void append_varint(std::string& to, std::uint64_t value) {
  for (; value >= 128; value >>= 7U) to += static_cast<char>((value & 127U) | 128U);
  to += static_cast<char>(value);
}
inline void append_message(std::string& to, char field, std::string const& message) {
  append_varint(to += field, message.size());
  to += message;
}
inline double wall_seconds() noexcept {
  timespec now{};
  static_cast<void>(clock_gettime(CLOCK_REALTIME, &now));
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

}  // namespace detail

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE scalar_log
scalar_log::tensorboard(std::string const& directory, double flush_seconds, source_location where) {
  char host[256] = "localhost";
  static_cast<void>(gethostname(host, sizeof host - 1));
  char name[400];
  std::snprintf(name, sizeof name, "/events.out.tfevents.%010lld.%s.%ld",
                static_cast<long long>(std::time(nullptr)), host, static_cast<long>(getpid()));
  return scalar_log{directory + name, false, flush_seconds, where};
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE scalar_log::scalar_log(std::string const& path, bool csv,
                                                               double flush_seconds,
                                                               source_location where)
    : path_{path},
      csv_{csv},
      flush_seconds_{flush_seconds},
      file_{open(flush_seconds, where)},
      writer_{file_} {
  if (!csv) {
    write_event(0, '\x1a', "brain.Event:2");  // Event.file_version = 3
  } else if (std::fseek(file_, 0, SEEK_END) == 0 && std::ftell(file_) == 0) {
    writer_.print("wall_time,step,tag,value\n");
  }
  pass_to_system();
  if (error_ == 0) return;
  std::fclose(file_);
  throw std::runtime_error{(detail::text{where.file(), where.line()} + ": " + reason()).c_str()};
}

/// Makes the directories above the file, too; that one cannot be made shows when it is opened.
WARPWRIGHT_COLD WARPWRIGHT_INLINE std::FILE* scalar_log::open(double flush_seconds,
                                                              source_location where) {
  using detail::text;
  if (!(flush_seconds >= 0.0)) {
    detail::throw_invalid_argument(
        text{"scalar_log: flush_seconds is "} + flush_seconds + "; give at least 0", where);
  }
  for (std::size_t at = 1; (at = path_.find('/', at)) != std::string::npos; ++at) {
    static_cast<void>(mkdir(path_.substr(0, at).c_str(), 0777));
  }
  std::string const begin = path_;
  std::FILE* file = nullptr;
  for (int number = 0; file == nullptr; ++number) {
    if (!csv_) path_ = begin + '.' + std::to_string(number);
    errno = 0;
    file = std::fopen(path_.c_str(), csv_ ? "ab" : "wbx");
    if (file != nullptr || (!csv_ && errno == EEXIST && number < 1000)) continue;
    error_ = errno != 0 ? errno : EIO;
    throw std::runtime_error{(text{where.file(), where.line()} + ": " + reason()).c_str()};
  }
  std::setvbuf(file, nullptr, _IONBF, 0);  // the writer has a buffer, which no child writes
  return file;
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE scalar_log::~scalar_log() {
  pass_to_system();
  if (process_.is_current()) std::fclose(file_);
}

WARPWRIGHT_INLINE detail::text scalar_log::reason() const noexcept {
  return detail::text{"scalar_log: '"} + path_.c_str() +
         "' cannot be written: " + std::strerror(error_) +
         (error_ == ENOSPC ? "; free space on the disk, or log elsewhere"
                           : "; check the path and its permissions, or log elsewhere");
}

WARPWRIGHT_INLINE void scalar_log::pass_to_system() noexcept {
  if (error_ == 0 && process_.is_current()) error_ = writer_.flush();
  flushed_ = detail::monotonic_nanoseconds();
}

/// An event with a message behind its time and step.
WARPWRIGHT_INLINE void scalar_log::write_event(std::uint64_t step, char field,
                                               std::string const& message) {
  record_.assign(1, '\x09');  // Event.wall_time = 1
  detail::append_bytes(record_, detail::wall_seconds());
  detail::append_varint(record_ += '\x10', step);  // Event.step = 2
  detail::append_message(record_, field, message);
  std::string head;
  std::uint64_t const length = record_.size();
  detail::append_bytes(head, length);
  detail::append_bytes(head, detail::masked_crc(head.data(), head.size()));
  detail::append_bytes(record_, detail::masked_crc(record_.data(), record_.size()));
  writer_.write(head.data(), head.size());
  writer_.write(record_.data(), record_.size());
}

WARPWRIGHT_INLINE void scalar_log::write_row(std::string const& tag, std::int64_t step,
                                             double value) {
  record_.clear();
  detail::append_number(record_, detail::wall_seconds());
  record_.append(",").append(std::to_string(step)) += ',';
  record_.append(detail::csv_text(tag).str()).append(value < 0 || 1 / value < 0 ? ",-" : ",");
  if (std::isfinite(value)) detail::append_number(record_, std::fabs(value));
  if (!std::isfinite(value)) record_.append(std::isnan(value) ? "nan" : "inf");
  record_ += '\n';
  writer_.write(record_.data(), record_.size());
}

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE void scalar_log::add(std::string const& tag,
                                                             std::int64_t step,
                                                             double value) noexcept {
  // The child of a fork() has what the parent is yet to write, and perhaps a lock of its threads.
  if (!process_.is_current()) return;
  detail::unique_lock<detail::mutex> const lock{lock_};
  try {
    if (error_ == 0 && csv_) {
      write_row(tag, step, value);
    } else if (error_ == 0) {
      scalar_.clear();
      detail::append_message(scalar_, '\x0a', detail::valid_utf8(tag));    // Value.tag = 1
      detail::append_bytes(scalar_ += '\x15', static_cast<float>(value));  // .simple_value = 2
      summary_.clear();
      detail::append_message(summary_, '\x0a', scalar_);                // Summary.value = 1
      write_event(static_cast<std::uint64_t>(step), '\x2a', summary_);  // Event.summary = 5
    }
  } catch (std::bad_alloc const&) {
    error_ = ENOMEM;
  }
  auto const waited = static_cast<double>(detail::monotonic_nanoseconds() - flushed_);
  if (waited >= flush_seconds_ * 1e9) pass_to_system();
  if (error_ != 0) ++dropped_;
}
WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE bool scalar_log::flush() noexcept {
  if (!process_.is_current()) return false;
  detail::unique_lock<detail::mutex> const lock{lock_};
  pass_to_system();
  return error_ == 0;
}
WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE std::string scalar_log::problem() const {
  detail::unique_lock<detail::mutex> const lock{lock_};
  return error_ == 0 ? "" : reason().c_str();
}

WARPWRIGHT_END
