// SPDX-FileCopyrightText: Copyright (c) 2026 The warpwright authors
// SPDX-License-Identifier: Apache-2.0
//
// Writers of recorded calls: CSV and pickle.
#pragma once

#include <warpwright/core/detail/system/file.hpp>
#include <warpwright/core/detail/text/utf8.hpp>
#include <warpwright/memory/detail/address_map.hpp>
#include <warpwright/memory/detail/trace/trace_ring.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

WARPWRIGHT_BEGIN

namespace detail {

/// Flushes a writer.
/// @throws std::runtime_error  for a failed write, with the system's reason
WARPWRIGHT_COLD inline void finish_writing(file_writer& out, char const* what,
                                           source_location where) {
  int const error = out.flush();
  if (error == 0) return;
  throw std::runtime_error{(text{where.file(), where.line()} + ": trace_recorder: the " + what +
                            " cannot be written: " + std::strerror(error))
                               .c_str()};
}

/// Matches deallocations with allocations.
class trace_index {
 public:
  static constexpr std::uint32_t none = address_map::none;

  /// @throws std::bad_alloc
  WARPWRIGHT_COLD explicit trace_index(array<trace_event> const& events)
      : events_{events}, block_(events.size()) {
    live_.reserve(events.size());
    streams_.reserve(64);
    std::uint64_t live_bytes = 0;
    for (std::size_t i = 0; i < events.size(); ++i) {
      trace_event const& e = events[i];
      if (streams_.find(e.stream_id) == address_map::none) {
        streams_.reserve(streams_.size() + 1);
        streams_.insert(e.stream_id, static_cast<std::uint32_t>(streams_.size()));
      }
      block_[i] = none;
      std::uint32_t const before = live_.erase(e.address);
      if (before != none) live_bytes -= events[allocation_[before]].bytes;
      if (e.kind == trace_kind::allocation) {
        block_[i] = static_cast<std::uint32_t>(allocation_.size());
        live_.insert(e.address, block_[i]);
        allocation_.push_back(i);
        superseded_.push_back(before);
        live_bytes += e.bytes;
        if (live_bytes > peak_live_bytes_) peak_live_bytes_ = live_bytes;
        operations_ += before != none ? 2 : 1;
      } else if (before != none) {
        block_[i] = before;
        ++operations_;
      } else {
        ++unmatched_frees_;
      }
    }
  }

  /// The block of a call, counted from 0; none: a free whose allocation was not recorded.
  [[nodiscard]] std::uint32_t block(std::size_t event) const noexcept { return block_[event]; }
  /// The block that was live at this block's address, because its free was not recorded; or none.
  [[nodiscard]] std::uint32_t superseded(std::uint32_t block) const noexcept {
    return superseded_[block];
  }
  [[nodiscard]] trace_event const& allocation(std::uint32_t block) const noexcept {
    return events_[allocation_[block]];
  }
  [[nodiscard]] std::uint32_t stream(trace_event const& e) const noexcept {
    return streams_.find(e.stream_id);
  }
  [[nodiscard]] bool is_live(std::uint32_t block) const noexcept {
    return live_.find(allocation(block).address) == block;
  }
  [[nodiscard]] std::uint32_t blocks() const noexcept {
    return static_cast<std::uint32_t>(allocation_.size());
  }
  [[nodiscard]] std::size_t streams() const noexcept { return streams_.size(); }
  [[nodiscard]] std::uint64_t peak_live_bytes() const noexcept { return peak_live_bytes_; }
  /// The number of lines of the CSV.
  [[nodiscard]] std::uint64_t operations() const noexcept { return operations_; }
  /// The number of frees without a recorded allocation.
  [[nodiscard]] std::uint64_t unmatched_frees() const noexcept { return unmatched_frees_; }

 private:
  array<trace_event> const& events_;
  array<std::uint32_t> block_;       // of each event
  array<std::size_t> allocation_;    // of each block, its event
  array<std::uint32_t> superseded_;  // of each block
  address_map live_;
  address_map streams_;
  std::uint64_t peak_live_bytes_ = 0;
  std::uint64_t operations_ = 0;
  std::uint64_t unmatched_frees_ = 0;
};

WARPWRIGHT_COLD inline void write_trace_csv(std::FILE* file, array<trace_event> const& events,
                                            std::uint64_t lost, source_location where,
                                            file_operations const& operations = stdio_operations) {
  using number = unsigned long long;
  trace_index const index{events};
  file_writer out{file, operations};
  out.print(
      "# {\"recorder\": \"warpwright\", \"ops\": %llu, \"streams\": %llu, "
      "\"peak_live_bytes\": %llu, \"lost_ops\": %llu, \"omitted_frees\": %llu}\n"
      "# op (a=allocate, f=free), block id, bytes, stream index\n",
      static_cast<number>(index.operations()), static_cast<number>(index.streams()),
      static_cast<number>(index.peak_live_bytes()), static_cast<number>(lost),
      static_cast<number>(index.unmatched_frees()));
  auto const line = [&](char op, std::uint32_t block, trace_event const& by) {
    out.print("%c,%u,%llu,%u\n", op, block, static_cast<number>(index.allocation(block).bytes),
              index.stream(by));
  };
  for (std::size_t i = 0; i < events.size(); ++i) {
    std::uint32_t const block = index.block(i);
    if (block == trace_index::none) continue;
    bool const allocates = events[i].kind == trace_kind::allocation;
    if (allocates && index.superseded(block) != trace_index::none) {
      line('f', index.superseded(block), events[i]);
    }
    line(allocates ? 'a' : 'f', block, events[i]);
  }
  finish_writing(out, "CSV", where);
}

/// Writes a pickle of protocol 2, which Python's pickle.load and the JavaScript of memory_viz read.
class pickle_writer {
 public:
  pickle_writer(std::FILE* file, file_operations const& operations) : out_{file, operations} {
    byte(0x80);
    byte(2);
  }
  void begin_dict() {
    byte('}');
    byte('(');
  }
  void end_dict() { byte('u'); }
  void begin_list() {
    byte(']');
    byte('(');
  }
  // Readers push a whole batch onto their stack; JavaScript's overflows with very large batches.
  void next_batch() {
    byte('e');
    byte('(');
  }
  void end_list() { byte('e'); }
  void empty_list() { byte(']'); }
  void boolean(bool value) { byte(value ? 0x88 : 0x89); }
  /// Combines the last two values into a pair.
  void pair() { byte(0x86); }
  WARPWRIGHT_COLD void string(char const* value) {
    std::size_t const length = std::strlen(value);
    byte('X');
    little_endian(length, 4);
    // A file's name may contain any bytes, but readers reject a pickle with text that is not UTF-8.
    for (std::size_t i = 0; i < length;) {
      std::size_t const valid_bytes = utf8_bytes(value + i);
      out_.write(valid_bytes != 0 ? value + i : "?", valid_bytes != 0 ? valid_bytes : 1);
      i += valid_bytes != 0 ? valid_bytes : 1;
    }
  }
  WARPWRIGHT_COLD void integer(std::uint64_t value) {
    if (value < 0x100U) {
      byte('K');
      little_endian(value, 1);
    } else if (value < 0x10000U) {
      byte('M');
      little_endian(value, 2);
    } else if (value < 0x80000000U) {
      byte('J');
      little_endian(value, 4);
    } else {  // two's complement: a leading zero keeps it positive
      unsigned length = 4;
      while (length < 8 && value >> (8 * length) != 0) ++length;
      bool const leading_zero = (value >> (8 * length - 1) & 1U) != 0;
      byte(0x8a);
      little_endian(leading_zero ? length + 1 : length, 1);
      little_endian(value, length);
      if (leading_zero) byte(0);
    }
  }
  /// Stores the last value in the memo. @return its number, for get_memo()
  std::uint32_t put_memo() {
    byte('r');
    little_endian(memo_count_, 4);
    return memo_count_++;
  }
  void get_memo(std::uint32_t number) {
    byte('j');
    little_endian(number, 4);
  }
  void end() { byte('.'); }
  [[nodiscard]] file_writer& file() noexcept { return out_; }

 private:
  void byte(int value) { out_.put(value); }
  void little_endian(std::uint64_t value, unsigned bytes) {
    for (unsigned i = 0; i < bytes; ++i) byte(static_cast<int>(value >> (8 * i) & 0xffU));
  }
  file_writer out_;
  std::uint32_t memo_count_ = 0;
};

/// Writes a recorder's calls as the dictionary of torch.cuda.memory._snapshot().
class snapshot_writer {
 public:
  snapshot_writer(std::FILE* file, array<trace_event> const& events, int device,
                  file_operations const& operations)
      : out_{file, operations},
        events_{events},
        index_{events},
        device_{device < 0 ? 0 : device} {}  // host memory has no device, but the viewer needs one

  /// @throws std::runtime_error  when the file cannot be written
  WARPWRIGHT_COLD void write(source_location where) {
    find_segments();
    out_.begin_dict();
    key("segments");
    out_.begin_list();
    std::size_t live = 0;
    for (range const& segment : segments_) {
      write_segment(segment, live);
      out_.next_batch();
    }
    out_.end_list();
    key("device_traces");
    out_.begin_list();
    for (int i = 0; i < device_; ++i) out_.empty_list();
    write_events();
    out_.end_list();
    out_.end_dict();
    out_.end();
    finish_writing(out_.file(), "snapshot", where);
  }

 private:
  struct range {
    std::uint64_t begin;
    std::uint64_t end;
  };
  struct live_block {
    std::uint64_t address;
    std::uint64_t bytes;
  };
  static constexpr std::uint64_t unit = std::uint64_t{2} << 20U;

  // By address, the first member of range and live_block.
  WARPWRIGHT_COLD static int compare(void const* a, void const* b) {
    std::uint64_t x = 0;
    std::uint64_t y = 0;
    std::memcpy(&x, a, sizeof x);
    std::memcpy(&y, b, sizeof y);
    return x < y ? -1 : x > y ? 1 : 0;
  }
  template <class T>
  static void sort(array<T>& values) {
    if (!values.empty()) std::qsort(values.begin(), values.size(), sizeof(T), &compare);
  }

  // A recorder gets no segments: shows the ranges that blocks cover, rounded to 2 MiB.
  WARPWRIGHT_COLD void find_segments() {
    array<range> covered;
    for (std::size_t i = 0; i < events_.size(); ++i) {
      trace_event const& e = events_[i];
      range const r{e.address / unit * unit, (e.address + e.bytes + unit - 1) / unit * unit};
      if (!covered.empty() && covered.back().begin <= r.begin && r.end <= covered.back().end)
        continue;
      covered.push_back(r);
    }
    sort(covered);
    for (range const& r : covered) {
      if (!segments_.empty() && r.begin <= segments_.back().end) {
        if (r.end > segments_.back().end) segments_.back().end = r.end;
      } else {
        segments_.push_back(r);
      }
    }
    for (std::uint32_t block = 0; block < index_.blocks(); ++block) {
      if (!index_.is_live(block)) continue;
      live_.push_back(live_block{index_.allocation(block).address, index_.allocation(block).bytes});
    }
    sort(live_);
  }

  WARPWRIGHT_COLD void write_segment(range const& segment, std::size_t& next) {
    std::uint64_t live_bytes = 0;
    std::size_t const first = next;
    for (; next < live_.size() && live_[next].address < segment.end; ++next) {
      live_bytes += live_[next].bytes;
    }
    out_.begin_dict();
    integer_entry("device", static_cast<std::uint64_t>(device_));
    integer_entry("address", segment.begin);
    integer_entry("total_size", segment.end - segment.begin);
    integer_entry("allocated_size", live_bytes);
    integer_entry("active_size", live_bytes);
    integer_entry("requested_size", live_bytes);
    integer_entry("stream", 0);
    string_entry("segment_type", "large");
    key("segment_pool_id");
    out_.integer(0);
    out_.integer(0);
    out_.pair();
    key("is_expandable");
    out_.boolean(false);
    key("frames");
    out_.empty_list();
    key("blocks");
    out_.begin_list();
    std::uint64_t at = segment.begin;
    for (std::size_t i = first; i < next; ++i) {
      if (live_[i].address < at) continue;  // overlaps: recorded while other threads were running
      if (live_[i].address > at) write_block(at, live_[i].address - at, false);
      write_block(live_[i].address, live_[i].bytes, true);
      at = live_[i].address + live_[i].bytes;
      if ((i - first) % 500 == 499) out_.next_batch();
    }
    if (at < segment.end) write_block(at, segment.end - at, false);
    out_.end_list();
    out_.end_dict();
  }

  WARPWRIGHT_COLD void write_block(std::uint64_t address, std::uint64_t bytes, bool live) {
    out_.begin_dict();
    integer_entry("address", address);
    integer_entry("size", bytes);
    integer_entry("requested_size", live ? bytes : 0);
    string_entry("state", live ? "active_allocated" : "inactive");
    key("frames");
    out_.empty_list();
    out_.end_dict();
  }

  WARPWRIGHT_COLD void write_events() {
    out_.begin_list();
    for (std::size_t i = 0; i < events_.size(); ++i) {
      trace_event const& e = events_[i];
      std::uint32_t const block = index_.block(i);
      if (e.kind == trace_kind::allocation) {
        if (index_.superseded(block) != trace_index::none) {
          write_free(index_.allocation(index_.superseded(block)), e);
        }
        write_event("alloc", e, e);
      } else {
        write_free(block != trace_index::none ? index_.allocation(block) : e, e);
      }
      if (i % 300 == 299) out_.next_batch();
    }
    out_.end_list();
  }
  void write_free(trace_event const& what, trace_event const& by) {
    write_event("free_requested", what, by);
    write_event("free_completed", what, by);
  }
  WARPWRIGHT_COLD void write_event(char const* action, trace_event const& what,
                                   trace_event const& by) {
    out_.begin_dict();
    string_entry("action", action);
    integer_entry("addr", what.address);
    integer_entry("size", what.bytes);
    integer_entry("stream", index_.stream(by));
    integer_entry("time_us", by.time_us);
    key("frames");
    write_frames(by);
    out_.end_dict();
  }

  // The caller's source location as the only frame; one list for each location.
  WARPWRIGHT_COLD void write_frames(trace_event const& by) {
    std::uint64_t const file = index_of(files_, reinterpret_cast<std::uintptr_t>(by.file));
    std::uint64_t const site = file << 33U | static_cast<std::uint64_t>(by.line) << 1U |
                               (by.kind == trace_kind::allocation ? 1U : 0U);
    std::uint32_t const memo = call_sites_.find(site);
    if (memo != address_map::none) {
      out_.get_memo(memo);
      return;
    }
    out_.begin_list();
    out_.begin_dict();
    string_entry("filename", by.file);
    integer_entry("line", static_cast<std::uint64_t>(by.line));
    string_entry("name", by.kind == trace_kind::allocation ? "allocate" : "deallocate");
    out_.end_dict();
    out_.end_list();
    call_sites_.reserve(call_sites_.size() + 1);
    call_sites_.insert(site, out_.put_memo());
  }

  WARPWRIGHT_COLD static std::uint32_t index_of(address_map& map, std::uint64_t value) {
    std::uint32_t const memo = map.find(value);
    if (memo != address_map::none) return memo;
    map.reserve(map.size() + 1);
    map.insert(value, static_cast<std::uint32_t>(map.size()));
    return map.find(value);
  }

  void integer_entry(char const* name, std::uint64_t value) {
    key(name);
    out_.integer(value);
  }
  void string_entry(char const* name, char const* value) {
    key(name);
    key(value);
  }
  // Writes a string literal once and refers to it from then on.
  WARPWRIGHT_COLD void key(char const* name) {
    auto const address = reinterpret_cast<std::uintptr_t>(name);
    std::uint32_t const memo = strings_.find(address);
    if (memo != address_map::none) {
      out_.get_memo(memo);
      return;
    }
    out_.string(name);
    strings_.reserve(strings_.size() + 1);
    strings_.insert(address, out_.put_memo());
  }

  pickle_writer out_;
  array<trace_event> const& events_;
  trace_index index_;
  int device_;
  array<range> segments_;
  array<live_block> live_;
  address_map strings_;
  address_map files_;
  address_map call_sites_;
};

inline void write_trace_snapshot(std::FILE* file, array<trace_event> const& events, int device,
                                 source_location where,
                                 file_operations const& operations = stdio_operations) {
  snapshot_writer{file, events, device, operations}.write(where);
}

}  // namespace detail

WARPWRIGHT_END
