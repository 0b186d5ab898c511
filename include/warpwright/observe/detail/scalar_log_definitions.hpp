// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// TensorBoard's format: records of a length, its checksum, the data and its checksum (TFRecord);
// each is a message Event of Protocol Buffers.
#pragma once

#include <warpwright/core/detail/clock.hpp>
#include <warpwright/core/detail/system/file.hpp>
#include <warpwright/core/detail/text/line_fields.hpp>
#include <warpwright/core/detail/text/markup.hpp>
#include <warpwright/core/detail/thread/locks.hpp>
#include <warpwright/core/detail/thread/process_bound.hpp>
#include <warpwright/observe/scalar_log.hpp>

#include <sys/stat.h>

#include <cmath>
#include <memory>

WARPWRIGHT_BEGIN

namespace detail {

/// CRC-32C (Castagnoli), masked as TFRecord wants it.
WARPWRIGHT_INLINE std::uint32_t masked_crc(char const* data, std::size_t bytes) noexcept {
  std::uint32_t crc = ~0U;
  for (; bytes != 0; --bytes) {
    crc ^= static_cast<unsigned char>(*data++);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? 0x82f63b78U : 0U);
  }
  crc = ~crc;
  return ((crc >> 15U) | (crc << 17U)) + 0xa282ead8U;
}

template <class Value>
void append_bytes(std::string& to, Value const& value) {
  char bytes[sizeof value];  // little-endian, as all processors that CUDA runs on
  std::memcpy(bytes, &value, sizeof value);
  to.append(bytes, sizeof bytes);
}
inline void append_varint(std::string& to, std::uint64_t value) {
  for (; value >= 128; value >>= 7U) to += static_cast<char>((value & 127U) | 128U);
  to += static_cast<char>(value);
}
inline void append_message(std::string& to, char field, std::string const& message) {
  to += field;
  append_varint(to, message.size());
  to += message;
}

inline double wall_seconds() noexcept {
  timespec now{};
  static_cast<void>(clock_gettime(CLOCK_REALTIME, &now));
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

struct scalar_log_core : noncopyable {
  ~scalar_log_core() {
    flush();
    delete writer;
    if (file != nullptr && process.is_current()) std::fclose(file);
  }
  bool flush() noexcept {
    if (error == 0 && process.is_current()) error = writer->flush();
    flushed = monotonic_nanoseconds();
    return error == 0;
  }
  /// An event with `rest` behind time and step.
  void write_event(std::uint64_t step, char field, std::string const& rest) {
    record.assign(1, '\x09');  // Event.wall_time = 1
    append_bytes(record, wall_seconds());
    append_varint(record += '\x10', step);  // Event.step = 2
    append_message(record, field, rest);
    auto const length = static_cast<std::uint64_t>(record.size());
    char head[sizeof length];
    std::memcpy(head, &length, sizeof head);
    std::uint32_t const head_crc = masked_crc(head, sizeof head);
    std::uint32_t const crc = masked_crc(record.data(), record.size());
    writer->write(head, sizeof head);
    writer->write(&head_crc, sizeof head_crc);
    writer->write(record.data(), record.size());
    writer->write(&crc, sizeof crc);
  }
  void add(std::string const& tag, std::int64_t step, double value) {
    if (csv) {
      record.clear();
      append_number(record, wall_seconds());
      record.append(",").append(std::to_string(step)) += ',';
      record.append(csv_text(tag).str()) += ',';
      if (std::signbit(value) && !std::isnan(value)) record += '-';
      if (std::isfinite(value)) {
        append_number(record, std::fabs(value));
      } else {
        record.append(std::isnan(value) ? "nan" : "inf");
      }
      record += '\n';
      return writer->write(record.data(), record.size());
    }
    scalar.clear();
    append_message(scalar, '\x0a', valid_utf8(tag));            // Summary.Value.tag = 1
    append_bytes(scalar += '\x15', static_cast<float>(value));  // Summary.Value.simple_value = 2
    summary.clear();
    append_message(summary, '\x0a', scalar);                         // Summary.value = 1
    write_event(static_cast<std::uint64_t>(step), '\x2a', summary);  // Event.summary = 5
  }
  [[nodiscard]] text reason() const noexcept {
    return text{"scalar_log: '"} + path.c_str() + "' cannot be written: " + std::strerror(error) +
           (error == ENOSPC ? "; free space on the disk, or log elsewhere"
                            : "; check the path and its permissions, or log elsewhere");
  }
  static scalar_log_core* make(std::string const& path, bool csv, double flush_seconds,
                               source_location where);

  std::string path;
  bool csv = false;
  double flush_seconds = 0.0;
  owning_process process;
  mutex lock;
  std::FILE* file = nullptr;
  file_writer* writer = nullptr;
  std::uint64_t flushed = 0;
  std::uint64_t dropped = 0;
  int error = 0;
  std::string scalar;
  std::string summary;
  std::string record;
};

/// Makes the directories above the file's name; one that cannot be made shows when it is opened.
WARPWRIGHT_COLD WARPWRIGHT_INLINE scalar_log_core* scalar_log_core::make(std::string const& path,
                                                                         bool csv,
                                                                         double flush_seconds,
                                                                         source_location where) {
  if (!(flush_seconds >= 0.0)) {
    throw_invalid_argument(
        text{"scalar_log: flush_seconds is "} + flush_seconds + "; give at least 0", where);
  }
  for (std::size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1)) {
    static_cast<void>(mkdir(path.substr(0, at).c_str(), 0777));
  }
  auto made = std::make_unique<scalar_log_core>();
  made->csv = csv;
  made->flush_seconds = flush_seconds;
  for (int number = 0; made->file == nullptr; ++number) {
    made->path = csv ? path : path + "." + std::to_string(number);
    errno = 0;
    made->file = std::fopen(made->path.c_str(), csv ? "ab" : "wbx");
    if (made->file != nullptr || (!csv && errno == EEXIST && number < 1000)) continue;
    made->error = errno != 0 ? errno : EIO;
    throw std::runtime_error{(text{where.file(), where.line()} + ": " + made->reason()).c_str()};
  }
  made->writer = new file_writer{made->file};
  if (!csv) {
    made->write_event(0, '\x1a', "brain.Event:2");  // Event.file_version = 3
  } else if (std::fseek(made->file, 0, SEEK_END) == 0 && std::ftell(made->file) == 0) {
    made->writer->print("wall_time,step,tag,value\n");
  }
  if (!made->flush()) {
    throw std::runtime_error{(text{where.file(), where.line()} + ": " + made->reason()).c_str()};
  }
  return made.release();
}

}  // namespace detail

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE scalar_log
scalar_log::tensorboard(std::string const& directory, double flush_seconds, source_location where) {
  char host[256] = "localhost";
  static_cast<void>(gethostname(host, sizeof host - 1));
  char name[400];
  std::snprintf(name, sizeof name, "/events.out.tfevents.%010lld.%s.%ld",
                static_cast<long long>(std::time(nullptr)), host, static_cast<long>(getpid()));
  return scalar_log{detail::scalar_log_core::make(directory + name, false, flush_seconds, where)};
}
WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE scalar_log scalar_log::csv(std::string const& path,
                                                                   double flush_seconds,
                                                                   source_location where) {
  return scalar_log{detail::scalar_log_core::make(path, true, flush_seconds, where)};
}
WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE scalar_log::~scalar_log() { delete core_; }

WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE void scalar_log::add(std::string const& tag,
                                                             std::int64_t step,
                                                             double value) noexcept {
  detail::unique_lock<detail::mutex> const lock{core_->lock};
  if (core_->error == 0) {
    try {
      core_->add(tag, step, value);
    } catch (std::bad_alloc const&) {
      core_->error = ENOMEM;
    }
  }
  auto const waited = static_cast<double>(detail::monotonic_nanoseconds() - core_->flushed);
  if (core_->error == 0 && waited >= core_->flush_seconds * 1e9) core_->flush();
  if (core_->error != 0) ++core_->dropped;
}
WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE bool scalar_log::flush() noexcept {
  detail::unique_lock<detail::mutex> const lock{core_->lock};
  return core_->flush();
}
WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE std::string scalar_log::problem() const {
  detail::unique_lock<detail::mutex> const lock{core_->lock};
  return core_->error == 0 ? "" : core_->reason().c_str();
}
WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE std::uint64_t scalar_log::dropped() const noexcept {
  detail::unique_lock<detail::mutex> const lock{core_->lock};
  return core_->dropped;
}
WARPWRIGHT_COLD_ENTRY WARPWRIGHT_INLINE std::string const& scalar_log::path() const noexcept {
  return core_->path;
}

WARPWRIGHT_END
