// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Reads allocation traces: warpwright's CSV and RMM's log, plain or compressed with gzip.
#pragma once

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

#if WARPWRIGHT_REPLAY_ZLIB
#include <zlib.h>
#endif

namespace replay {

/// A trace that cannot be read; the message is "file:line: problem".
struct trace_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// One call of an allocator.
struct operation {
  std::uint64_t bytes = 0;
  std::uint32_t block = 0;   ///< index of the allocation in the order of the trace
  std::uint32_t stream = 0;  ///< counted from 0
  std::uint32_t line = 0;    ///< in the file, from 1
  bool allocates = false;    ///< otherwise frees
  bool crosses = false;      ///< frees on another stream than the block was allocated on
};

/// A checked trace: each block is allocated once, and freed at most once after that.
struct trace {
  std::string name;    ///< of the file, without directory and ending
  std::string path;    ///< as passed
  std::string header;  ///< the JSON text of the first line; empty: none
  std::vector<operation> operations;
  std::vector<std::uint64_t> block_bytes;    ///< of each block
  std::vector<std::uint32_t> block_streams;  ///< of each block
  std::uint32_t streams = 0;
  std::uint64_t peak_live_bytes = 0;  ///< as requested, not rounded
};

/// The maximum number of streams of a replay; further streams of a trace share these in turn.
inline constexpr std::uint32_t maximum_streams = 1024;

namespace detail {

[[noreturn]] inline void throw_trace_error(std::string const& path, std::size_t line,
                                           std::string const& problem) {
  throw trace_error{path + ':' + std::to_string(line) + ": " + problem};
}

inline std::string quoted(std::string const& raw) {
  std::string shown;
  for (char const c : raw.substr(0, 60)) {
    shown += static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7e ? '?' : c;
  }
  return '"' + shown + (raw.size() > 60 ? "...\"" : "\"");
}

// By content: a gzip file starts with these two bytes.
inline bool is_gzip(std::string const& data, std::size_t from) {
  return data.size() >= from + 2 && data[from] == '\x1f' && data[from + 1] == '\x8b';
}

#if WARPWRIGHT_REPLAY_ZLIB
struct inflater {
  explicit inflater(std::string const& path) {
    if (inflateInit2(&state, 16 + MAX_WBITS) != Z_OK) {  // 16: gzip's frame
      throw trace_error{path + ": cannot be decompressed: no memory"};
    }
  }
  inflater(inflater const&) = delete;
  inflater& operator=(inflater const&) = delete;
  ~inflater() { static_cast<void>(inflateEnd(&state)); }
  z_stream state = {};
};
#endif

// Inflates the data read instead of opening the file again: a pipe can be read only once.
inline std::string inflate_all(std::string const& path, std::string const& packed) {
#if WARPWRIGHT_REPLAY_ZLIB
  constexpr std::size_t most = std::size_t{1} << 30U;  // zlib counts in 32 bits
  inflater inflating{path};
  z_stream& state = inflating.state;
  std::string text;
  char part[1 << 16];
  std::size_t from = 0;
  for (;;) {
    std::size_t const given = packed.size() - from < most ? packed.size() - from : most;
    state.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data() + from));
    state.avail_in = static_cast<uInt>(given);
    state.next_out = reinterpret_cast<Bytef*>(part);
    state.avail_out = sizeof part;
    int const status = inflate(&state, Z_NO_FLUSH);
    text.append(part, sizeof part - state.avail_out);
    from += given - state.avail_in;
    if (status == Z_STREAM_END) {
      // A gzip file may have several members; anything else behind them is padding.
      if (!is_gzip(packed, from)) return text;
      static_cast<void>(inflateReset(&state));
    } else if (status == Z_BUF_ERROR) {
      throw trace_error{path + ": the compressed data are truncated; copy the file again"};
    } else if (status != Z_OK) {
      throw trace_error{path + ": cannot be decompressed: " +
                        (state.msg != nullptr ? state.msg : zError(status))};
    }
  }
#else
  static_cast<void>(packed);
  throw trace_error{path +
                    ": is compressed, and this program was built without zlib; decompress it with "
                    "gunzip, or install zlib1g-dev and build again"};
#endif
}

inline std::string read_text(std::string const& path) {
  std::FILE* const file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) throw trace_error{path + ": cannot be opened: " + std::strerror(errno)};
  std::string text;
  char part[1 << 16];
  std::size_t got = 0;
  while ((got = std::fread(part, 1, sizeof part, file)) > 0) text.append(part, got);
  bool const failed = std::ferror(file) != 0;
  int const reason = errno;
  static_cast<void>(std::fclose(file));
  if (failed) throw trace_error{path + ": cannot be read: " + std::strerror(reason)};
  return is_gzip(text, 0) ? inflate_all(path, text) : text;
}

inline std::string trimmed(std::string const& raw) {
  std::size_t const from = raw.find_first_not_of(" \t\r");
  if (from == std::string::npos) return {};
  return raw.substr(from, raw.find_last_not_of(" \t\r") - from + 1);
}

inline std::vector<std::string> fields_of(std::string const& line) {
  std::vector<std::string> fields;
  std::size_t from = 0;
  for (;;) {
    std::size_t const comma = line.find(',', from);
    fields.push_back(trimmed(line.substr(from, comma == std::string::npos ? comma : comma - from)));
    if (comma == std::string::npos) return fields;
    from = comma + 1;
  }
}

inline bool parse_number(std::string const& text, std::uint64_t& value) {
  bool const hexadecimal = text.size() > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
  std::uint64_t const base = hexadecimal ? 16 : 10;
  if (text.empty()) return false;
  value = 0;
  for (std::size_t i = hexadecimal ? 2 : 0; i < text.size(); ++i) {
    char const c = text[i];
    std::uint64_t digit = 0;
    if (c >= '0' && c <= '9') {
      digit = static_cast<std::uint64_t>(c - '0');
    } else if (hexadecimal && c >= 'a' && c <= 'f') {
      digit = static_cast<std::uint64_t>(c - 'a') + 10;
    } else if (hexadecimal && c >= 'A' && c <= 'F') {
      digit = static_cast<std::uint64_t>(c - 'A') + 10;
    } else {
      return false;
    }
    if (value > (~std::uint64_t{0} - digit) / base) return false;
    value = value * base + digit;
  }
  return true;
}

inline std::string name_of(std::string const& path) {
  std::size_t const slash = path.find_last_of('/');
  std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  for (char const* const ending : {".gz", ".csv", ".log", ".txt"}) {
    std::size_t const length = std::strlen(ending);
    if (name.size() > length && name.compare(name.size() - length, length, ending) == 0) {
      name.resize(name.size() - length);
    }
  }
  for (char& c : name) {
    if (static_cast<unsigned char>(c) <= ' ') c = '_';  // the result line is split at blanks
  }
  return name;
}

// Collects operations and checks their consistency.
class builder {
 public:
  explicit builder(std::string const& path) {
    trace_.path = path;
    trace_.name = name_of(path);
  }

  void allocate(std::uint64_t id, std::uint64_t bytes, std::uint64_t named, std::size_t line) {
    std::uint32_t const stream = stream_of(named);
    auto const block = static_cast<std::uint32_t>(trace_.block_bytes.size());
    auto const entry = live_.emplace(id, live_block{block, line});
    if (!entry.second) {
      throw_trace_error(trace_.path, line,
                        "block " + std::to_string(id) +
                            " is allocated again, but was not freed since line " +
                            std::to_string(entry.first->second.line));
    }
    if (live_bytes_ + bytes < live_bytes_)
      throw_trace_error(trace_.path, line, "the sizes add up past 2^64");
    live_bytes_ += bytes;
    if (live_bytes_ > trace_.peak_live_bytes) trace_.peak_live_bytes = live_bytes_;
    trace_.block_bytes.push_back(bytes);
    trace_.block_streams.push_back(stream);
    push(operation{bytes, block, stream, static_cast<std::uint32_t>(line), true, false});
  }

  void free(std::uint64_t id, std::uint64_t bytes, std::uint64_t named, std::size_t line) {
    std::uint32_t const stream = stream_of(named);
    auto const entry = live_.find(id);
    if (entry == live_.end()) {
      throw_trace_error(trace_.path, line,
                        "block " + std::to_string(id) + " is freed, but is not allocated");
    }
    std::uint32_t const block = entry->second.block;
    if (trace_.block_bytes[block] != bytes) {
      throw_trace_error(trace_.path, line,
                        "block " + std::to_string(id) + " is freed with " + std::to_string(bytes) +
                            " bytes, but was allocated with " +
                            std::to_string(trace_.block_bytes[block]) + " in line " +
                            std::to_string(entry->second.line));
    }
    live_.erase(entry);
    live_bytes_ -= bytes;
    push(operation{bytes, block, stream, static_cast<std::uint32_t>(line), false,
                   stream != trace_.block_streams[block]});
  }

  void header(std::string const& text) { trace_.header = text; }

  trace finish() {
    if (trace_.operations.empty()) throw trace_error{trace_.path + ": holds no operation"};
    return std::move(trace_);
  }

 private:
  struct live_block {
    std::uint32_t block;
    std::size_t line;
  };
  // CUDA never reuses a stream's id: programs with short-lived streams have any number of them.
  std::uint32_t stream_of(std::uint64_t named) {
    std::size_t const next = streams_.size();
    return static_cast<std::uint32_t>(streams_.emplace(named, next).first->second %
                                      maximum_streams);
  }
  void push(operation const& next) {
    if (next.stream >= trace_.streams) trace_.streams = next.stream + 1;
    trace_.operations.push_back(next);
  }
  trace trace_;
  std::unordered_map<std::uint64_t, live_block> live_;
  std::unordered_map<std::uint64_t, std::size_t> streams_;  // in the order of their first use
  std::uint64_t live_bytes_ = 0;
};

// "a,id,bytes,stream" and "f,id,bytes,stream"
inline void read_own_line(std::string const& path, std::string const& line, std::size_t number,
                          builder& to) {
  std::vector<std::string> const fields = fields_of(line);
  if (fields.size() != 4) {
    throw_trace_error(path, number,
                      "expected the 4 fields op,id,bytes,stream, found " +
                          std::to_string(fields.size()) + " in " + quoted(line));
  }
  if (fields[0] != "a" && fields[0] != "f") {
    throw_trace_error(
        path, number,
        "expected the operation a (allocate) or f (free), found " + quoted(fields[0]));
  }
  std::uint64_t values[3] = {};
  char const* const names[3] = {"block id", "number of bytes", "stream index"};
  for (std::size_t i = 0; i < 3; ++i) {
    if (!parse_number(fields[i + 1], values[i])) {
      throw_trace_error(path, number,
                        std::string{"expected a "} + names[i] + ", found " + quoted(fields[i + 1]));
    }
  }
  if (fields[0] == "a") {
    to.allocate(values[0], values[1], values[2], number);
  } else {
    to.free(values[0], values[1], values[2], number);
  }
}

// RMM's columns: Thread,Time,Action,Pointer,Size,Stream. A stream is an address.
class rmm_reader {
 public:
  void read_line(std::string const& path, std::string const& line, std::size_t number,
                 builder& to) {
    std::vector<std::string> const fields = fields_of(line);
    if (fields.size() != 6) {
      throw_trace_error(path, number,
                        "expected the 6 fields Thread,Time,Action,Pointer,Size,Stream, found " +
                            std::to_string(fields.size()) + " in " + quoted(line));
    }
    if (fields[2] == "allocate failure") return;  // nothing was allocated
    bool const frees = fields[2] == "free" || fields[2] == "deallocate";
    if (fields[2] != "allocate" && !frees) {
      throw_trace_error(
          path, number,
          "expected the action allocate, free or allocate failure, found " + quoted(fields[2]));
    }
    std::uint64_t pointer = 0;
    std::uint64_t bytes = 0;
    if (!number_or_null(fields[3], pointer)) {
      throw_trace_error(path, number, "expected a pointer, found " + quoted(fields[3]));
    }
    if (!parse_number(fields[4], bytes)) {
      throw_trace_error(path, number, "expected a number of bytes, found " + quoted(fields[4]));
    }
    std::uint64_t handle = 0;
    if (!number_or_null(fields[5], handle)) {
      throw_trace_error(path, number, "expected a stream, found " + quoted(fields[5]));
    }
    if (bytes == 0 || pointer == 0) return;  // RMM returns null for 0 bytes
    if (!frees) {
      to.allocate(pointer, bytes, handle, number);
    } else {
      to.free(pointer, bytes, handle, number);
    }
  }

 private:
  static bool number_or_null(std::string const& text, std::uint64_t& value) {
    value = 0;
    return text == "(nil)" || text == "nullptr" || parse_number(text, value);
  }
};

}  // namespace detail

/// Reads one trace; detects its format from its content.
/// @throws trace_error  naming file, line and problem
inline trace read_trace(std::string const& path) {
  std::string const text = detail::read_text(path);
  detail::builder builder{path};
  detail::rmm_reader rmm;
  bool is_rmm = false;
  bool first = true;
  std::size_t number = 0;
  std::string const byte_order_mark =
      "\xef\xbb\xbf";  // UTF-8's byte order byte_order_mark, which spreadsheets write
  for (std::size_t from = text.compare(0, 3, byte_order_mark) == 0 ? 3 : 0; from < text.size();) {
    std::size_t end = text.find('\n', from);
    if (end == std::string::npos) end = text.size();
    std::string const line = detail::trimmed(text.substr(from, end - from));
    from = end + 1;
    ++number;
    if (line.empty()) continue;
    if (line[0] == '#') {
      std::string const comment = detail::trimmed(line.substr(1));
      if (number == 1 && !comment.empty() && comment[0] == '{') builder.header(comment);
      continue;
    }
    if (first) {
      first = false;
      is_rmm = line.compare(0, 7, "Thread,") == 0;
      if (is_rmm) {
        if (line != "Thread,Time,Action,Pointer,Size,Stream") {
          detail::throw_trace_error(path, number,
                                    "looks like an RMM log, but its columns are not "
                                    "Thread,Time,Action,Pointer,Size,Stream: " +
                                        detail::quoted(line));
        }
        continue;
      }
    }
    if (is_rmm) {
      rmm.read_line(path, line, number, builder);
    } else {
      detail::read_own_line(path, line, number, builder);
    }
  }
  return builder.finish();
}

}  // namespace replay
